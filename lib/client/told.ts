/**
 * Tells the dispatcher of jobs while they are being stored, so that they need not wait for the stream where nothing else goes on.
 * Where much is submitted, passes follow each other anyway, and each message would cost more than it gains, and a pass in another
 * process than the one that remembers: so a process has a few of them in reserve, and gets one back with each second in which it
 * submits nothing.
 *
 * A function is told by a message. A dispatcher that runs on looks for word several times a second: where one has the partition, word is
 * left for it in the table, which is cheaper, and sooner there than by way of a function.
 */
import type { Job } from '../core/job.ts';
import { isResident, namesOfNew } from '../dispatch/lease.ts';
import { type JobQueue, TOLD_JOBS_MAX } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import type { LeaseStore, SubmitStore } from '../store/contract.ts';

/** Messages that a process which submitted nothing for a while may send at once, */
const RESERVE = 4;
/** and how long it is to be silent until it may send one more. */
const EACH_MS = 1_000;
/** A submit whose jobs are stored waits no longer than this for the queue's answer. */
const PATIENCE_MS = 100;
/** How long it is believed that a dispatcher that runs on has a partition, and that none has: the stream tells of jobs meanwhile. */
const LED_FOR_MS = 10_000;
const NOT_LED_FOR_MS = 60_000;
/** Where word could not be left, messages are sent for so long. */
const REFUSED_FOR_MS = 10 * 60_000;

export interface ToldParts {
  readonly store: Pick<SubmitStore, 'wake'> & Pick<LeaseStore, 'readLease'>;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Clock;
}

export class Told {
  #left = RESERVE;
  #countedAtMonotonicMs: number | undefined;
  /** By partition: whether a dispatcher that runs on had it, and until when that is believed. */
  readonly #led = new Map<number, { readonly isLed: boolean; readonly untilMonotonicMs: number }>();

  /** Stores jobs, and tells of those that may start at once. A message that is lost, or not taken, costs time: the stream tells, too. */
  async while<T>(parts: ToldParts, jobs: readonly Job[], store: () => Promise<T>): Promise<T> {
    const { clock } = parts;
    const pending = jobs.filter(({ state }) => state === 'pending');
    const byPartition = Map.groupBy(pending, ({ partition }) => partition);
    if (pending.length === 0 || !this.#take(clock, byPartition.size)) return store();
    const messages = Promise.allSettled(
      Array.from(byPartition, ([partition, ofPartition]) => {
        const ids = ofPartition.slice(0, TOLD_JOBS_MAX).map(({ id }) => id);
        return this.#isLed(parts, partition)
          ? this.#leaveWord(parts, partition, ids)
          : parts.queue.sendWake(partition, 0, undefined, ids);
      }),
    );
    const stored = await store();
    const sent = new AbortController();
    void messages.then(() => sent.abort());
    await clock.sleep(PATIENCE_MS, sent.signal);
    return stored;
  }

  /** Whether a dispatcher that runs on has the partition, as it was seen last; if that is long ago, it is looked at for the next time. */
  #isLed({ store, clock }: ToldParts, partition: number): boolean {
    const known = this.#led.get(partition);
    const nowMonotonicMs = clock.monotonicMs();
    if (known !== undefined && nowMonotonicMs < known.untilMonotonicMs) return known.isLed;
    const isLed = known?.isLed ?? false;
    // While it is looked at, what was seen before is believed.
    this.#note(clock, partition, isLed);
    store.readLease(partition).then(
      (lease) => this.#note(clock, partition, lease?.isHeld === true && isResident(lease.holder ?? '')),
      () => this.#note(clock, partition, false),
    );
    return isLed;
  }

  #note(
    { monotonicMs }: Clock,
    partition: number,
    isLed: boolean,
    forMs = isLed ? LED_FOR_MS : NOT_LED_FOR_MS,
  ): void {
    this.#led.set(partition, { isLed, untilMonotonicMs: monotonicMs() + forMs });
  }

  async #leaveWord(
    { store, queue, clock }: ToldParts,
    partition: number,
    ids: readonly string[],
  ): Promise<void> {
    try {
      await store.wake({ partition, jobs: namesOfNew(ids) });
    } catch {
      // A role of before may wake by messages only.
      this.#note(clock, partition, false, REFUSED_FOR_MS);
      await queue.sendWake(partition, 0, undefined, ids);
    }
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
