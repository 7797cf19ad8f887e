/** Kills real worker processes in pools where nothing looks but what the cloud would: a stream, the wake queue, a tick a minute. */

import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { lookAtWorkers } from '../../lib/dispatch/look-at-workers.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { leaseInForceMs } from '../../lib/dispatch/recovery/silence.ts';
import { DISPATCH_BUDGET, WORKER_LEASE_MS } from '../../lib/dispatch/tuning.ts';
import { decodeWake } from '../../lib/queue/message.ts';
import type { Log } from '../../lib/runtime/contract.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { submit } from '../../lib/submit/submit.ts';
import { aJob } from '../fixtures/factories/job.ts';
import { type ProcessStage, processStage } from './process-stage.ts';

/** A pass, a message and the start of a handler, on an emulator that shares its machine. */
const PASS_MS = 4_000;
/** The last heartbeat was sent so long before the kill at most, and a little more where the machine is busy. */
const HEARTBEAT_MS = 6_000;
export const SOONEST_MS = WORKER_LEASE_MS + CLOCK_SKEW_MAX_MS - HEARTBEAT_MS;
const TICK_MS = 60_000;
const LOOK_EVERY_MS = 200;
const WAIT_MS = 90_000;
const SHORT_EVERY_MS = 700;

const configuration = resolveConfiguration({
  types: { work: { onWorkerLost: 'resume', timeoutMs: 120_000 } },
  fleets: { processes: { types: ['work'] } },
});

export interface Scene {
  /** Short jobs come all the time. */
  readonly isBusy: boolean;
  /** Another worker with a free slot lives; else one is started after the kill. */
  readonly hasPeer: boolean;
  /** How long the job has run by then. */
  readonly killedAfterMs: number;
}

/** Plays what causes passes in the cloud. Answers what ends it. */
function served(on: ProcessStage, ids: readonly string[], log: Log): () => Promise<void> {
  const context: DispatchContext = { ...on.context, budget: DISPATCH_BUDGET, log };
  const over = new AbortController();
  const seen = new Map<string, number>();
  const hear = async (): Promise<void> => {
    while (!over.signal.aborted) {
      for (const wake of (await on.takeWakes()).map(decodeWake)) {
        if (wake?.asks === 'look')
          log.info('looked', { became: await lookAtWorkers(context, wake.partition, wake.atMs) });
        else await dispatchAll(context, { jobs: [], reason: 'wake' });
      }
    }
  };
  const stream = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const jobs = (await context.store.getJobs({ ids })).filter((job) => job !== undefined);
      const fresh = jobs.filter((job) => seen.get(job.id) !== job.version);
      for (const job of fresh) seen.set(job.id, job.version);
      const shown = fresh.filter(({ state }) => state !== 'claimed' && state !== 'running');
      if (shown.length > 0) await dispatchAll(context, { jobs: shown, reason: 'stream' });
      await systemClock.sleep(LOOK_EVERY_MS, over.signal);
    }
  };
  const tick = async (): Promise<void> => {
    for (;;) {
      await systemClock.sleep(TICK_MS, over.signal);
      if (over.signal.aborted) return;
      await dispatchAll(context, { jobs: [], reason: 'tick' });
    }
  };
  const all = Promise.all([hear(), stream(), tick()]);
  return async () => {
    over.abort();
    await all;
  };
}

export interface Restart {
  /** How long after its worker was killed a job began on another one. */
  readonly afterMs: number;
  /** The lease that was in force, what clocks may differ, and a pass. */
  readonly latestMs: number;
}

export async function restartOf({ isBusy, hasPeer, killedAfterMs }: Scene): Promise<Restart> {
  const on = await processStage(configuration, 'processes');
  const ids: string[] = [];
  const put = async (forMs: number): Promise<string> => {
    const nowMs = Date.now();
    const times = { readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs };
    const job = aJob({ id: randomUUID(), type: 'work', payload: { forMs }, ...times });
    ids.push(job.id);
    await submit({ ...on.context, nowMs: Date.now }, [job]);
    return job.id;
  };
  const over = new AbortController();
  const keepBusy = async (): Promise<void> => {
    while (!over.signal.aborted) {
      await put(100);
      await systemClock.sleep(SHORT_EVERY_MS, over.signal);
    }
  };
  const begunBy = async (
    jobId: string,
    by: (name: string) => boolean,
  ): Promise<{ by: string; atMs: number }> => {
    for (const untilMs = Date.now() + WAIT_MS; Date.now() < untilMs; await systemClock.sleep(50)) {
      const entry = on.journal().find((each) => each.jobId === jobId && each.what === 'begin' && by(each.by));
      if (entry !== undefined) return entry;
    }
    throw new Error(`job ${jobId} did not begin within ${WAIT_MS} ms`);
  };
  const fromMs = Date.now();
  const said: string[] = [];
  const say: Log['info'] = (message, fields) =>
    void said.push(`${Date.now() - fromMs} ms ${message} ${JSON.stringify(fields)}`);
  const stop = served(on, ids, { info: say, warn: say, error: say });
  const workers = new Map<string, ChildProcess>();
  const start = (name: string): void => void workers.set(name, on.start('fleet-process.ts', name));
  let busy = Promise.resolve();
  try {
    start('one');
    if (hasPeer) start('other');
    const jobId = await put(60_000);
    const first = await begunBy(jobId, () => true);
    if (isBusy) busy = keepBusy();
    await systemClock.sleep(killedAfterMs);
    const killed = workers.get(first.by);
    if (killed === undefined) throw new Error(`no worker ${first.by}`);
    const gone = once(killed, 'exit');
    const killedAtMs = Date.now();
    killed.kill('SIGKILL');
    await gone;
    const { workers: records } = await on.context.store.loadPartition({ partition: 0, nowMs: killedAtMs });
    const record = records.find(({ workerId }) => workerId === first.by);
    const leaseMs = (record && leaseInForceMs(record)) ?? WORKER_LEASE_MS;
    const latestMs = leaseMs + CLOCK_SKEW_MAX_MS + PASS_MS;
    if (!hasPeer) start('next');
    const again = await begunBy(jobId, (name) => name !== first.by);
    const afterMs = again.atMs - killedAtMs;
    // Whoever reads of a figure that is too large wants to know what was done meanwhile.
    if (afterMs > latestMs) console.warn([`killed at ${killedAtMs - fromMs} ms`, ...said].join('\n'));
    return { afterMs, latestMs };
  } finally {
    over.abort();
    await busy;
    await stop();
    await on.drop();
  }
}
