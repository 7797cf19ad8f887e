/**
 * Tells the dispatcher of jobs while they are being stored, so that they need not wait for the stream where nothing else goes on.
 * Where much is submitted, passes follow each other anyway, and each message would cost more than it gains, and a pass in another
 * process than the one that remembers: so a process has a few of them in reserve, and gets one back with each second in which it
 * submits nothing.
 *
 * Where many processes submit a little each, none of them knows that. The lease does: its epoch rises with each that takes it.
 *
 * A function is told by a message, or by an invocation. Whoever keeps the partition looks for word several times a second: it is left in
 * the table, which is cheaper, and sooner there than by way of a function. Where so little goes on that nobody looks for new jobs before the
 * stream tells of them, the lease asks for word of each.
 */
import type { Job } from '../core/job.ts';
import { keepsLease, namesOfNew } from '../dispatch/lease.ts';
import { type JobQueue, TOLD_JOBS_MAX } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import { NAMED_JOBS_MAX } from '../store/bounds.ts';
import type { LeaseStore, SubmitStore } from '../store/contract.ts';
import type { LeaseRecord } from '../store/records.ts';

/** Messages that a process which submitted nothing for a while may send at once, */
const RESERVE = 4;
/** and how long it is to be silent until it may send one more. */
const EACH_MS = 1_000;
/** Where whoever keeps a partition wants word of each job, so soon after the one before: it wants none where more than that come. */
const EACH_WANTED_MS = 20;
/** What it has said is believed for so long: it says so with each renewal of its lease, and an earlier version never does. */
const SAID_FOR_MS = 60_000;
/** Where there was no room for word, much comes by now: none is left for so long, and for twice as long each time that this is met again. */
const FULL_FOR_MS = { first: 250, most: 16_000 } as const;
/** Of more jobs at once the stream tells: names of others are to have room beside them. */
const WORD_JOBS_MAX = NAMED_JOBS_MAX / 2;
/** A submit whose jobs are stored waits no longer than this for the queue's answer. */
const PATIENCE_MS = 100;
/** How long it is believed that a dispatcher that runs on has a partition, and that none has: the stream tells of jobs meanwhile. */
const LED_FOR_MS = 10_000;
const NOT_LED_FOR_MS = 60_000;
/** What is seen first says nothing of how often the lease is taken: it is looked at again so much later. */
const FIRST_FOR_MS = 2_000;
/** Where it is taken so often in a second, a job is found soon enough: nobody is told of it, until that is over. */
const BUSY_LEASES = 8;
const BUSY_FOR_MS = 10_000;
/** Where word could not be left, messages are sent for so long. */
const REFUSED_FOR_MS = 10 * 60_000;

export interface ToldParts {
  readonly store: Pick<SubmitStore, 'wake'> & Pick<LeaseStore, 'readLease'>;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  readonly clock: Clock;
}

/** What was seen of a partition's lease. */
interface Seen {
  /** Somebody kept it between passes. */
  readonly isLed: boolean;
  /** And wants to be told of each job, or of none; undefined: it has not said so. */
  readonly wantsWord: boolean | undefined;
  /** It was taken often. */
  readonly isBusy: boolean;
  /** Until when that is believed. */
  readonly untilMonotonicMs: number;
  readonly look?: { readonly epoch: number; readonly atMonotonicMs: number } | undefined;
}

const NOTHING_SEEN = { isLed: false, wantsWord: undefined, isBusy: false } as const;

export class Told {
  #left = RESERVE;
  #countedAtMonotonicMs: number | undefined;
  /** By partition. */
  readonly #seen = new Map<number, Seen>();
  /** The same, where there was no room for word. */
  readonly #full = new Map<number, { readonly forMs: number; readonly untilMonotonicMs: number }>();

  /** Stores jobs, and tells of those that may start at once. A message that is lost, or not taken, costs time: the stream tells, too. */
  async while<T>(parts: ToldParts, jobs: readonly Job[], store: () => Promise<T>): Promise<T> {
    const { clock } = parts;
    const pending = jobs.filter(({ state }) => state === 'pending');
    const byPartition = [...Map.groupBy(pending, ({ partition }) => partition)]
      .map(([partition, ofPartition]) => ({ partition, ofPartition, ...this.#look(parts, partition) }))
      .filter(({ partition, isLed, wantsWord, isBusy }) =>
        isLed ? wantsWord !== false && !this.#isFull(clock, partition) : !isBusy,
      );
    const areWanted = byPartition.every(({ wantsWord }) => wantsWord);
    const eachMs = areWanted ? EACH_WANTED_MS : EACH_MS;
    if (byPartition.length === 0 || !this.#take(clock, byPartition.length, eachMs)) return store();
    const messages = Promise.allSettled(
      byPartition.map(({ partition, ofPartition, isLed }) => {
        const most = isLed ? WORD_JOBS_MAX : TOLD_JOBS_MAX;
        const ids = ofPartition.slice(0, most).map(({ id }) => id);
        return isLed
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

  /** Who has the partition, as it was seen last; if that is long ago, it is looked at for the next time. */
  #look({ store, clock }: ToldParts, partition: number): Pick<Seen, 'isLed' | 'wantsWord' | 'isBusy'> {
    const known = this.#seen.get(partition);
    const nowMonotonicMs = clock.monotonicMs();
    if (known !== undefined && nowMonotonicMs < known.untilMonotonicMs) return known;
    // While it is looked at, what was seen before is believed.
    this.#seen.set(partition, {
      ...NOTHING_SEEN,
      ...known,
      untilMonotonicMs: nowMonotonicMs + NOT_LED_FOR_MS,
    });
    store.readLease(partition).then(
      (lease) => this.#note(clock, partition, lease),
      () => this.#forget(clock, partition, NOT_LED_FOR_MS),
    );
    return known ?? NOTHING_SEEN;
  }

  #note(clock: Clock, partition: number, lease: LeaseRecord | undefined): void {
    const atMonotonicMs = clock.monotonicMs();
    const nowMs = clock.nowMs();
    const { look: before } = this.#seen.get(partition) ?? {};
    const { epoch = 0, isHeld = false, holder = '', expiresAtMs = 0, word } = lease ?? {};
    const isLed = isHeld && expiresAtMs > nowMs && keepsLease(holder);
    const isSaid = isLed && word !== undefined && nowMs < word.saidAtMs + SAID_FOR_MS;
    const wantsWord = isSaid ? word.isWanted : undefined;
    const leases = epoch - (before?.epoch ?? epoch);
    const isBusy =
      before !== undefined && leases * EACH_MS >= BUSY_LEASES * (atMonotonicMs - before.atMonotonicMs);
    const forMs = isLed
      ? LED_FOR_MS
      : isBusy
        ? BUSY_FOR_MS
        : before === undefined
          ? FIRST_FOR_MS
          : NOT_LED_FOR_MS;
    const look = { epoch, atMonotonicMs };
    this.#seen.set(partition, { isLed, wantsWord, isBusy, untilMonotonicMs: atMonotonicMs + forMs, look });
  }

  /** Takes it for so long that nobody leads it, and that little goes on there. */
  #forget({ monotonicMs }: Clock, partition: number, forMs: number): void {
    this.#seen.set(partition, { ...NOTHING_SEEN, untilMonotonicMs: monotonicMs() + forMs });
  }

  async #leaveWord(
    { store, queue, clock }: ToldParts,
    partition: number,
    ids: readonly string[],
  ): Promise<void> {
    try {
      // Where there is no room for their names, the stream tells: without them all would be looked at.
      const left = await store.wake({ partition, jobs: namesOfNew(ids), onlyNamed: true });
      if (left === 'full') this.#noteFull(clock, partition);
      else this.#full.delete(partition);
    } catch {
      // A role of before may wake by messages only.
      this.#forget(clock, partition, REFUSED_FOR_MS);
      await queue.sendWake(partition, 0, undefined, ids);
    }
  }

  #isFull({ monotonicMs }: Clock, partition: number): boolean {
    return monotonicMs() < (this.#full.get(partition)?.untilMonotonicMs ?? -Infinity);
  }

  #noteFull({ monotonicMs }: Clock, partition: number): void {
    const { first, most } = FULL_FOR_MS;
    const forMs = Math.min(most, 2 * (this.#full.get(partition)?.forMs ?? first / 2));
    this.#full.set(partition, { forMs, untilMonotonicMs: monotonicMs() + forMs });
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
