/**
 * Tells the dispatcher of jobs while they are being stored, so that they need not wait for the stream where nothing else goes on.
 * Where much is submitted, passes follow each other anyway, and each message would cost more than it gains, and a pass in another
 * process than the one that remembers: so a process has a few of them in reserve, and gets one back with each second in which it
 * submits nothing.
 */
import type { Job } from '../core/job.ts';
import { type JobQueue, TOLD_JOBS_MAX } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';

/** Messages that a process which submitted nothing for a while may send at once, */
const RESERVE = 4;
/** and how long it is to be silent until it may send one more. */
const EACH_MS = 1_000;
/** A submit whose jobs are stored waits no longer than this for the queue's answer. */
const PATIENCE_MS = 100;

export interface ToldParts {
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Clock;
}

export class Told {
  #left = RESERVE;
  #countedAtMonotonicMs: number | undefined;

  /** Stores jobs, and tells of those that may start at once. A message that is lost, or not taken, costs time: the stream tells, too. */
  async while<T>({ queue, clock }: ToldParts, jobs: readonly Job[], store: () => Promise<T>): Promise<T> {
    const pending = jobs.filter(({ state }) => state === 'pending');
    const byPartition = Map.groupBy(pending, ({ partition }) => partition);
    if (pending.length === 0 || !this.#take(clock, byPartition.size)) return store();
    const messages = Promise.allSettled(
      Array.from(byPartition, ([partition, ofPartition]) =>
        queue.sendWake(
          partition,
          0,
          undefined,
          ofPartition.slice(0, TOLD_JOBS_MAX).map(({ id }) => id),
        ),
      ),
    );
    const stored = await store();
    const sent = new AbortController();
    void messages.then(() => sent.abort());
    await clock.sleep(PATIENCE_MS, sent.signal);
    return stored;
  }

  /** So many messages, if there are as many left. Where there are not, what silence had given is gone. */
  #take({ monotonicMs }: Clock, count: number): boolean {
    const nowMs = monotonicMs();
    const sinceMs = nowMs - (this.#countedAtMonotonicMs ?? nowMs);
    const left = Math.min(RESERVE, this.#left + sinceMs / EACH_MS);
    this.#countedAtMonotonicMs = nowMs;
    this.#left = Math.max(0, left - count);
    return left >= count;
  }
}
