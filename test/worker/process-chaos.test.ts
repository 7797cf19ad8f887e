/**
 * Worker processes whose clocks differ, that are killed, cut off from the store, begun anew under the same name, and
 * whose handlers hang, or keep the event loop busy for longer than their lease or their timeout: whatever the items say, no
 * job and no conflict key really runs twice at once, and all end.
 */

import { expect, it } from 'vitest';
import { ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import { isTerminal, type Job } from '../../lib/core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import { guardInSameThread } from '../../lib/worker/guard.ts';
import { LOSS_GRACE_MS } from '../../lib/worker/membership.ts';
import { runWorker } from '../../lib/worker/process/process.ts';
import type { JobHandler } from '../../lib/worker/run-job.ts';
import { seeded } from '../simulation/random.ts';
import { stage } from '../stage/stage.ts';

const SEEDS = 30;
const JOBS = 40;
const NAMES = ['one', 'two', 'three'];
const SLOTS = 3;
const TIMEOUT_MS = 40_000;
const FAULTS_MS = 120_000;
const END_MS = 400_000;
const TICK_MS = 4_000;
const LATENCY_MAX_MS = 800;

/** Of each, some must have been met. */
const FAULTS = [
  'killed',
  'unreachable',
  'superseded',
  'stopped',
  'hung',
  'exited',
  'cutOffCalls',
  'busy',
  'busyForTooLong',
  'killedByGuard',
];

interface Execution {
  readonly job: Job;
  readonly process: string;
}

async function chaos(seed: number): Promise<{
  readonly violations: readonly string[];
  readonly left: readonly string[];
  readonly tally: Readonly<Record<string, number>>;
}> {
  const random = seeded(seed);
  const upTo = (ms: number): number => random() * ms;
  const on = stage({
    seed,
    pool: {
      types: {
        resize: {
          timeoutMs: TIMEOUT_MS,
          onWorkerLost: 'resume',
          conflictGroup: 'shelf',
          retry: { maxWorkersLost: 50, maxAttempts: 50, jitter: 'none', delayMs: 500 },
        },
      },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'] } },
    },
    budget: { checkAfterMs: 8_000 },
    queue: { duplicated: 0.1, lateMs: 500, lost: 0.02 },
    store: { indexLagMs: 500, streamLateMs: 300, streamLost: 0.05, streamDuplicated: 0.1 },
  });
  const { time } = on;
  const tally: Record<string, number> = {};
  const count = (what: string): void => {
    tally[what] = (tally[what] ?? 0) + 1;
  };

  // Clocks that differ by as much as they may: a dispatcher's is the one that is ahead.
  const skewed = (skewMs: number): Clock => ({ ...on.clock, nowMs: () => time.nowMs + skewMs });
  const dispatch = (jobs: readonly Job[], reason: 'stream' | 'wake' | 'tick'): void => {
    const context = on.dispatcher({ clock: skewed(upTo(CLOCK_SKEW_MAX_MS)) });
    void dispatchAll(context, { jobs, reason }).catch(() => {});
  };
  on.store.subscribe(({ newJob }) => {
    if (newJob.state !== 'claimed' && newJob.state !== 'running') dispatch([newJob], 'stream');
  });
  on.queue.onWake(() => dispatch([], 'wake'));
  const tick = (): void => {
    dispatch([], 'tick');
    time.after(TICK_MS, tick);
  };
  tick();

  const executions = new Set<Execution>();
  const violations: string[] = [];
  const begin = (execution: Execution): void => {
    for (const other of executions) {
      const { job } = other;
      if (job.id !== execution.job.id && job.resourceId !== execution.job.resourceId) continue;
      violations.push(
        `at ${time.nowMs} ${execution.job.id} on ${execution.process} beside ${job.id} on ${other.process}`,
      );
    }
    executions.add(execution);
  };

  let born = 0;
  const isFaulty = (): boolean => time.nowMs < startMs + FAULTS_MS;
  const startMs = time.nowMs;

  /** A supervisor: the process of that name is begun again whenever it has ended. */
  const supervise = (workerId: string): void => {
    born += 1;
    const name = `${workerId}#${born}`;
    let isAlive = true;
    let cutOffUntilMs = 0;
    let busyUntilMs = 0;
    const end = (why: string): void => {
      if (!isAlive) return;
      isAlive = false;
      count(why);
      for (const each of executions) if (each.process === name) executions.delete(each);
      // Another life of the name is there already.
      if (why !== 'superseded') time.after(upTo(3_000), () => supervise(workerId));
    };
    /** Of the thread that the handlers share; their guard has one of its own. */
    const untilFree = async (): Promise<void> => {
      while (isAlive && busyUntilMs > time.nowMs) await time.sleep(busyUntilMs - time.nowMs);
      if (!isAlive) await new Promise<never>(() => {});
    };
    const mortal = <T extends object>(target: T, isShared: boolean): T =>
      new Proxy(target, {
        get: (given, verb) => {
          const method: unknown = Reflect.get(given, verb, given);
          if (typeof method !== 'function') return method;
          return async (...question: unknown[]) => {
            const gate = (): Promise<void> | undefined => {
              if (isShared) return untilFree();
              return isAlive ? undefined : new Promise<never>(() => {});
            };
            await gate();
            if (verb !== 'receive') await time.sleep(upTo(LATENCY_MAX_MS));
            await gate();
            if (cutOffUntilMs > time.nowMs) {
              count('cutOffCalls');
              await time.sleep(upTo(4_000));
              await gate();
              throw new UnavailableError('no answer');
            }
            if (isFaulty() && random() < 0.03) throw new ThrottledError('try again');
            const answer: unknown = await method.apply(given, question);
            if (verb !== 'receive') await time.sleep(upTo(LATENCY_MAX_MS));
            await gate();
            if (isFaulty() && verb !== 'receive' && random() < 0.03) throw new UnavailableError('no answer');
            return answer;
          };
        },
      });
    const resize: JobHandler = async (_, { jobId, signal, checkpoint }) => {
      const job = on.store.inspectJob(jobId);
      if (job === undefined) throw new Error('not there');
      const execution = { job, process: name };
      begin(execution);
      try {
        if (isFaulty() && random() < 0.03) {
          count('hung');
          await new Promise<never>(() => {});
        }
        if (isFaulty() && random() < 0.06) {
          const forMs = upTo(60_000);
          count(forMs > TIMEOUT_MS + 6_000 ? 'busyForTooLong' : 'busy');
          busyUntilMs = time.nowMs + forMs;
          await untilFree();
          return null;
        }
        await checkpoint(1).catch(() => {});
        await on.clock.sleep(upTo(6_000), signal);
        await untilFree();
        // Heeds its signal, but not at once.
        if (signal.aborted) await on.clock.sleep(upTo(LOSS_GRACE_MS - 100));
        await untilFree();
        signal.throwIfAborted();
        return null;
      } finally {
        executions.delete(execution);
      }
    };
    const shutdown = new AbortController();
    if (isFaulty()) {
      time.after(upTo(60_000), () => {
        const dice = random();
        if (dice < 0.3) end('killed');
        else if (dice < 0.45) supervise(workerId);
        else if (dice < 0.85) cutOffUntilMs = time.nowMs + upTo(25_000);
        else shutdown.abort();
      });
    }
    void runWorker({
      store: mortal(on.store, true),
      queue: mortal(on.queue, true),
      configuration: on.configuration,
      clock: {
        ...skewed(0),
        sleep: async (ms, signal) => {
          await time.sleep(ms, signal);
          await untilFree();
        },
      },
      guard: guardInSameThread({
        store: mortal(on.store, false),
        clock: skewed(0),
        log: on.log,
        kill: () => end('killedByGuard'),
      }),
      random,
      log: on.log,
      fleet: 'images',
      slots: SLOTS,
      workerId,
      handlers: { resize },
      signal: shutdown.signal,
      shutdownMs: 10_000,
      exit: () => end('exited'),
    }).then(
      (report) => {
        if (isAlive && [...executions].some((each) => each.process === name)) {
          violations.push(`${name} ended (${report.end}) and its handlers run on`);
        }
        end(report.end);
      },
      () => end('notRegistered'),
    );
  };
  for (const name of NAMES) supervise(name);

  const jobs = Array.from({ length: JOBS }, (_, n) => on.job({ payload: n, resourceId: `shelf-${n % 12}` }));
  for (const [at, job] of jobs.entries()) time.after(at * 1_500, () => void on.put(job));
  await on.advance(END_MS);
  const left = jobs.flatMap(({ id }) => {
    const job = on.store.inspectJob(id);
    return job !== undefined && isTerminal(job.state) ? [] : [`${id} ${job?.state}`];
  });
  return { violations, left, tally };
}

it('never run a job or a conflict key twice at once, and lose nothing', { timeout: 120_000 }, async () => {
  const tally: Record<string, number> = {};
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const report = await chaos(seed);
    expect([seed, report.violations, report.left]).toEqual([seed, [], []]);
    for (const [what, times] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + times;
  }
  // What was to happen did happen.
  for (const what of FAULTS) {
    expect([what, tally[what] ?? 0]).toEqual([what, expect.toSatisfy((times: number) => times > 0)]);
  }
});
