/**
 * Notifies the dispatcher of jobs while they are being stored, so that they need not wait for the stream if little
 * else is going on. Under load, passes follow each other anyway, and each message would cost more than it gains. So a
 * process has a reserve of a few messages, and regains one with each second in which it submits nothing.
 *
 * If no dispatcher leads the partition, a message or an invocation wakes one. A leading dispatcher reads letters
 * several times a second: a letter is cheaper and arrives sooner than a message. It is left only while the leader
 * asks for letters, which it does while little is going on.
 */

import type { Job } from '../core/job.ts';
import { type JobQueue, WAKE_JOBS_MAX } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import type { LeadStore } from '../store/contract/leading.ts';
import { isLedAt, type Leader } from '../store/contract/records.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

/** How many messages a process that submitted nothing for a while may send at once. */
const RESERVE = 4;
/** How long a process must submit nothing to regain one message. */
const REGAIN_MS = 1_000;
/**
 * How long a process must submit nothing to regain one letter, which counts if every partition has a leader. A leader
 * that gets letters more often stops asking for them.
 */
const REGAIN_LETTER_MS = 20;
/**
 * Milliseconds for which a submit still waits for its notifications after its jobs are stored. Then it gives them up.
 */
const NOTIFY_WAIT_MAX_MS = 1_000;
/** Milliseconds for which a partition counts as led after a look that found a leader. */
const LED_FOR_MS = 5_000;
/** How long a partition counts as not led after a look that found no leader. */
const NOT_LED_FOR_MS = 60_000;
/**
 * How long a partition counts as not led after the first look at it. This is short, because a partition that starts to be
 * busy soon has a leader.
 */
const FIRST_LOOK_FOR_MS = 2_000;
/** Milliseconds for which wakes are sent instead of letters after a letter could not be left. */
const REFUSED_FOR_MS = 10 * 60_000;

export interface NotifierParts {
  readonly store: Pick<SubmitStore, 'putLetter'> & Pick<LeadStore, 'readLeader'>;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Clock;
}

/** The last look at a partition's leader. */
interface LeaderLook {
  readonly isLed: boolean;
  /** Whether the leader asks for letters. */
  readonly wantsLetters: boolean;
  /** When the look stops counting, by the monotonic clock. */
  readonly untilMonotonicMs: number;
}

const NO_LEADER = { isLed: false, wantsLetters: false } as const;

export class DispatcherNotifier {
  #left = RESERVE;
  #countedAtMonotonicMs: number | undefined;
  /** Looks by partition. */
  readonly #looks = new Map<number, LeaderLook>();

  /**
   * Stores jobs, and meanwhile notifies dispatchers of those that may start at once. A notification that is lost
   * costs only time, because the stream reports the jobs too. It returns once all notifications have ended, since a
   * function that submits may be frozen as soon as it has answered.
   */
  async notifyWhile<T>(parts: NotifierParts, jobs: readonly Job[], store: () => Promise<T>): Promise<T> {
    const { clock } = parts;
    const pending = jobs.filter(({ state }) => state === 'pending');
    const notifying: Promise<unknown>[] = [];
    const byPartition = [...Map.groupBy(pending, ({ partition }) => partition)]
      .map(([partition, ofPartition]) => ({
        partition,
        ofPartition,
        ...this.#look(parts, partition, notifying),
      }))
      .filter(({ isLed, wantsLetters }) => !isLed || wantsLetters);
    const eachMs = byPartition.every(({ isLed }) => isLed) ? REGAIN_LETTER_MS : REGAIN_MS;
    const givenUp = new AbortController();
    if (byPartition.length > 0 && this.#takeFromReserve(clock, byPartition.length, eachMs))
      for (const { partition, ofPartition, isLed } of byPartition) {
        const ids = ofPartition.slice(0, WAKE_JOBS_MAX).map(({ id }) => id);
        notifying.push(
          isLed
            ? this.#leaveLetter(parts, partition, ids, givenUp.signal)
            : parts.queue.sendWake({ partition, jobIds: ids, signal: givenUp.signal }),
        );
      }
    // Most jobs that wait for their time notify no dispatcher.
    if (notifying.length === 0) return store();
    const notified = Promise.allSettled(notifying);
    try {
      return await store();
    } finally {
      const done = new AbortController();
      const patience = clock.sleep(NOTIFY_WAIT_MAX_MS, done.signal).then(() => givenUp.abort());
      await notified;
      done.abort();
      await patience;
    }
  }

  /**
   * Returns the last look at a partition's leader. If it is too old, another look is added to `notifying`; its result
   * counts from the next call on.
   */
  #look(
    { store, clock }: NotifierParts,
    partition: number,
    notifying: Promise<unknown>[],
  ): Pick<LeaderLook, 'isLed' | 'wantsLetters'> {
    const known = this.#looks.get(partition);
    const nowMonotonicMs = clock.monotonicMs();
    if (known !== undefined && nowMonotonicMs < known.untilMonotonicMs) return known;
    // The last result counts until this look ends.
    this.#looks.set(partition, {
      ...NO_LEADER,
      ...known,
      untilMonotonicMs: nowMonotonicMs + NOT_LED_FOR_MS,
    });
    notifying.push(
      store.readLeader(partition).then(
        (leader) => this.#keepLook(clock, partition, leader, known === undefined),
        () => this.#countAsNotLed(clock, partition, NOT_LED_FOR_MS),
      ),
    );
    return known ?? NO_LEADER;
  }

  #keepLook(clock: Clock, partition: number, leader: Leader | undefined, isFirst: boolean): void {
    const isLed = isLedAt(leader, clock.nowMs());
    const wantsLetters = isLed && leader?.wantsLetters === true;
    const forMs = isLed ? LED_FOR_MS : isFirst ? FIRST_LOOK_FOR_MS : NOT_LED_FOR_MS;
    this.#looks.set(partition, { isLed, wantsLetters, untilMonotonicMs: clock.monotonicMs() + forMs });
  }

  /** Counts the partition as not led for `forMs`. */
  #countAsNotLed({ monotonicMs }: Clock, partition: number, forMs: number): void {
    this.#looks.set(partition, { ...NO_LEADER, untilMonotonicMs: monotonicMs() + forMs });
  }

  async #leaveLetter(
    { store, queue, clock }: NotifierParts,
    partition: number,
    jobIds: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    try {
      await store.putLetter({ partition, letter: { jobIds }, nowMs: clock.nowMs() });
    } catch {
      // The letter was refused: the role may only be allowed to send messages.
      this.#countAsNotLed(clock, partition, REFUSED_FOR_MS);
      await queue.sendWake({ partition, jobIds, signal });
    }
  }

  /**
   * Takes `count` messages from the reserve, which regains one per `eachMs` of silence. If fewer are left, none is
   * sent and the rest is lost.
   */
  #takeFromReserve({ monotonicMs }: Clock, count: number, eachMs: number): boolean {
    const nowMs = monotonicMs();
    const sinceMs = nowMs - (this.#countedAtMonotonicMs ?? nowMs);
    const left = Math.min(RESERVE, this.#left + sinceMs / eachMs);
    this.#countedAtMonotonicMs = nowMs;
    this.#left = Math.max(0, left - count);
    return left >= count;
  }
}
