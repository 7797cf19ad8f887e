/**
 * Tells the dispatcher of jobs while they are being stored, so that they need not wait for the stream where nothing else goes on.
 * Where much is submitted, passes follow each other anyway, and each message would cost more than it gains: so a process has a few of them
 * in reserve, and gets one back with each second in which it submits nothing.
 *
 * A function is told by a message, or by an invocation. A leader looks for letters several times a second: a letter is cheaper, and sooner
 * there than a message. It is left only where the leader asks for letters, because little goes on there.
 */
import type { Job } from '../core/job.ts';
import { isLedBy } from '../dispatch/pass/load.ts';
import { type JobQueue, WAKE_JOBS_MAX } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import type { LeadStore } from '../store/contract/leading.ts';
import type { Leader } from '../store/contract/records.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';

/** Messages that a process which submitted nothing for a while may send at once, */
const RESERVE = 4;
/** and how long it is to be silent until it may send one more. */
const EACH_MS = 1_000;
/** Where a leader asks for letters, so soon after the one before: it wants none where more than that come. */
const EACH_LETTER_MS = 20;
/** A submit whose jobs are stored waits no longer than this for what tells of them, and gives it up then. */
const PATIENCE_MS = 1_000;
/** How long it is believed that a dispatcher leads a partition, and that none does: the stream tells of jobs meanwhile. */
const LED_FOR_MS = 5_000;
const NOT_LED_FOR_MS = 60_000;
/** After the first look, another one soon: a partition that begins to be busy is led soon. */
const FIRST_FOR_MS = 2_000;
/** Where a letter could not be left, messages are sent for so long. */
const REFUSED_FOR_MS = 10 * 60_000;

export interface NotifierParts {
  readonly store: Pick<SubmitStore, 'putLetter'> & Pick<LeadStore, 'readLeader'>;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Clock;
}

/** What was seen of a partition's leader. */
interface Seen {
  readonly isLed: boolean;
  /** The leader asks for letters. */
  readonly wantsLetters: boolean;
  /** Until when that is believed. */
  readonly untilMonotonicMs: number;
}

const NOTHING_SEEN = { isLed: false, wantsLetters: false } as const;

export class DispatcherNotifier {
  #left = RESERVE;
  #countedAtMonotonicMs: number | undefined;
  /** By partition. */
  readonly #seen = new Map<number, Seen>();

  /**
   * Stores jobs, and tells of those that may start at once. A message that is lost, or not taken, costs time: the stream tells, too. Nothing is
   * left running: a function that submits may be frozen as soon as it has answered.
   */
  async notifyWhile<T>(parts: NotifierParts, jobs: readonly Job[], store: () => Promise<T>): Promise<T> {
    const { clock } = parts;
    const pending = jobs.filter(({ state }) => state === 'pending');
    const beside: Promise<unknown>[] = [];
    const byPartition = [...Map.groupBy(pending, ({ partition }) => partition)]
      .map(([partition, ofPartition]) => ({
        partition,
        ofPartition,
        ...this.#look(parts, partition, beside),
      }))
      .filter(({ isLed, wantsLetters }) => !isLed || wantsLetters);
    const eachMs = byPartition.every(({ isLed }) => isLed) ? EACH_LETTER_MS : EACH_MS;
    const givenUp = new AbortController();
    if (byPartition.length > 0 && this.#take(clock, byPartition.length, eachMs))
      for (const { partition, ofPartition, isLed } of byPartition) {
        const ids = ofPartition.slice(0, WAKE_JOBS_MAX).map(({ id }) => id);
        beside.push(
          isLed
            ? this.#leaveLetter(parts, partition, ids, givenUp.signal)
            : parts.queue.sendWake({ partition, jobIds: ids, signal: givenUp.signal }),
        );
      }
    const told = Promise.allSettled(beside);
    try {
      return await store();
    } finally {
      const done = new AbortController();
      const patience = clock.sleep(PATIENCE_MS, done.signal).then(() => givenUp.abort());
      await told;
      done.abort();
      await patience;
    }
  }

  /** Whether a partition is led, as it was seen last; if that is long ago, it is looked at for the next time, beside what goes on. */
  #look(
    { store, clock }: NotifierParts,
    partition: number,
    beside: Promise<unknown>[],
  ): Pick<Seen, 'isLed' | 'wantsLetters'> {
    const known = this.#seen.get(partition);
    const nowMonotonicMs = clock.monotonicMs();
    if (known !== undefined && nowMonotonicMs < known.untilMonotonicMs) return known;
    // While it is looked at, what was seen before is believed.
    this.#seen.set(partition, {
      ...NOTHING_SEEN,
      ...known,
      untilMonotonicMs: nowMonotonicMs + NOT_LED_FOR_MS,
    });
    beside.push(
      store.readLeader(partition).then(
        (leader) => this.#note(clock, partition, leader, known === undefined),
        () => this.#forget(clock, partition, NOT_LED_FOR_MS),
      ),
    );
    return known ?? NOTHING_SEEN;
  }

  #note(clock: Clock, partition: number, leader: Leader | undefined, isFirst: boolean): void {
    const isLed = isLedBy(leader, undefined, clock.nowMs());
    const wantsLetters = isLed && leader?.wantsLetters === true;
    const forMs = isLed ? LED_FOR_MS : isFirst ? FIRST_FOR_MS : NOT_LED_FOR_MS;
    this.#seen.set(partition, { isLed, wantsLetters, untilMonotonicMs: clock.monotonicMs() + forMs });
  }

  /** Takes it for so long that no dispatcher leads it. */
  #forget({ monotonicMs }: Clock, partition: number, forMs: number): void {
    this.#seen.set(partition, { ...NOTHING_SEEN, untilMonotonicMs: monotonicMs() + forMs });
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
      // A role may be allowed to wake by messages only.
      this.#forget(clock, partition, REFUSED_FOR_MS);
      await queue.sendWake({ partition, jobIds, signal });
    }
  }

  /** So many messages, if there are as many left; one more after so much silence. Where there are not, what silence had given is gone. */
  #take({ monotonicMs }: Clock, count: number, eachMs: number): boolean {
    const nowMs = monotonicMs();
    const sinceMs = nowMs - (this.#countedAtMonotonicMs ?? nowMs);
    const left = Math.min(RESERVE, this.#left + sinceMs / eachMs);
    this.#countedAtMonotonicMs = nowMs;
    this.#left = Math.max(0, left - count);
    return left >= count;
  }
}
