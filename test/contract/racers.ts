/** Who takes part in a race on a real store, in real time: dispatchers with memories of their own, and one worker. */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { aDispatchContext } from '../fixtures/factories/dispatch-context.ts';
import { type Dice, diceOf, seeded } from '../simulation/random.ts';

export interface Racers {
  readonly queue: MemoryJobQueue;
  readonly dispatchers: readonly DispatchContext[];
  readonly random: () => number;
  readonly dice: Dice;
}

/** So many dispatchers of one store, with a queue between them and the worker. */
export function racersOn(store: JobStore, configuration: PoolConfiguration, count: number): Racers {
  const random = seeded(1);
  const after = (delayMs: number, action: () => void): void => {
    setTimeout(action, delayMs).unref();
  };
  const queue = new MemoryJobQueue({ clock: Date.now, random, after });
  const dispatchers = Array.from({ length: count }, (_, at) =>
    aDispatchContext({ store, queue, configuration, clock: systemClock, random, holder: `dispatcher-${at}` }),
  );
  return { queue, dispatchers, random, dice: diceOf(random) };
}

const WORKER = { workerId: 'worker', incarnation: '1' };
const HIDE_MS = 60_000;
const KEPT_MS = 3_600_000;

interface Where {
  readonly fleet: string;
  readonly nowMs: () => number;
}

/** Takes one message, if one comes in time, and starts its jobs. Without those that were outdated. */
export async function startNext(
  store: JobStore,
  queue: MemoryJobQueue,
  waitMs: number,
  { fleet = 'general', nowMs = Date.now }: Partial<Where> = {},
): Promise<readonly Job[]> {
  const [received] = await queue.receive(fleet, 1, waitMs, HIDE_MS);
  if (received === undefined) return [];
  await queue.delete(fleet, [received.receipt]);
  const started = await Promise.all(
    received.jobs.map((message) => store.startJob({ ...WORKER, ...message, nowMs: nowMs() })),
  );
  return started.flatMap((each) => (each.kind === 'started' ? [each.job] : []));
}

/** Ends a job that `startNext` has started. Answers its new image. */
export async function finish(store: JobStore, job: Job, nowMs = Date.now()): Promise<Job> {
  const verdict = { kind: 'succeeded', result: null } as const;
  const finished = await store.finishJob({ ...WORKER, job, verdict, nowMs, expiresAtMs: nowMs + KEPT_MS });
  if (finished.kind !== 'finished') throw new Error(`${job.id} was taken from its worker`);
  return { ...finished.job, payload: job.payload };
}
