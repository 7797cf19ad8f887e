/** The items of the memory store. Every verb reads and changes them in one atomic step, after an `await`. */

import type { Control } from '../../core/capacity.ts';
import { RefusedError, ThrottledError, UnavailableError } from '../../core/errors.ts';
import { endedAtMs, isTerminal, type Job } from '../../core/job.ts';
import type { Loan } from '../../core/lending.ts';
import type { ScheduleState } from '../../core/recurring.ts';
import { TimeHeap } from '../../runtime/time-heap.ts';
import { readyLineName } from '../contract/lines.ts';
import type {
  KeyBacklog,
  Leader,
  Ledger,
  ReceivedLetter,
  Reservation,
  UnreadableItem,
  WorkerRecord,
} from '../contract/records.ts';
import type { LinePage } from '../contract/requests.ts';
import type { RankOf } from '../contract/verbs.ts';
import { KeyRanks } from '../table/key-ranks.ts';
import {
  costOfRank,
  costRank,
  deadLineName,
  dueLineName,
  expiryLineName,
  finishedLineName,
  instantRank,
  keysLineName,
  latestFirstRank,
} from '../table/schema.ts';
import type { PartitionSummary } from '../table/summary.ts';
import { Bill } from './imitation/bill.ts';
import type { After, StoreEvent, StoreImitation, StreamRecord } from './imitation/imitation.ts';
import { type LineEntry, LinesIndex } from './imitation/lines-index.ts';
import type { Placed } from './sorted-line.ts';
import { emptyPartition, emptyState, type JobItem, type MemoryState, type PartitionItems } from './state.ts';

export interface MemoryStoreOptions {
  /** Returns the time, in epoch milliseconds. */
  readonly clock: () => number;
  /** Returns a number evenly distributed in [0, 1). It is seeded for a run that must be repeatable. */
  readonly random: () => number;
  readonly place: RankOf;
  /** What another store held; this one goes on with it. @default - nothing */
  readonly state?: MemoryState | undefined;
  readonly imitate?: StoreImitation | undefined;
  /** Delivers stream records; by default at once, after the running step. */
  readonly after?: After | undefined;
  /** Receives every event when it happens. */
  readonly observe?: ((event: StoreEvent<Job>) => void) | undefined;
  /** Receives each item that cannot be read, once. */
  readonly unreadable?: ((item: UnreadableItem) => void) | undefined;
}

/** A partition's items, for inspection. */
export interface PartitionView {
  /** The lead, also one that has expired without being ended. */
  readonly leader?: Leader | undefined;
  /** The newest version of the declaration that was written to the partition. */
  readonly declared?: number | undefined;
  /** By id. */
  readonly letters: ReadonlyMap<string, ReceivedLetter>;
  readonly reservations: ReadonlyMap<string, Reservation>;
  readonly workers: ReadonlyMap<string, WorkerRecord>;
  readonly controls: ReadonlyMap<string, Control>;
  /** The loans that the partition has given or got, by id. */
  readonly loans: ReadonlyMap<string, Loan>;
  readonly ledgers: ReadonlyMap<string, Ledger>;
  readonly backlogs: ReadonlyMap<string, ReadonlyMap<string, { readonly value: KeyBacklog }>>;
  /** By conflict key: when jobs were last parked. */
  readonly parked: ReadonlyMap<string, number>;
  readonly parks: boolean;
  /** The partition summary. */
  readonly summary: PartitionSummary;
  readonly items: ReadonlyMap<string, readonly Reservation[]>;
}

export const estimateId = (type: string, resourceId: string): string => JSON.stringify([type, resourceId]);

export const tokenOf = (place: Placed): string => JSON.stringify([place.rank, place.id]);

function placeOf(token: string | undefined): Placed | undefined {
  if (token === undefined) return undefined;
  try {
    const [rank, id] = JSON.parse(token) as [string, string];
    return { rank, id };
  } catch (cause) {
    throw new RefusedError(`${JSON.stringify(token)} is not a cursor; pass \`next\` as it was returned`, {
      cause,
    });
  }
}

const immediately: After = (_delayMs, action) => queueMicrotask(action);

/** Returns a job's entry in the index of expiries; undefined if it has none. */
function expiryOf(job: Job): LineEntry<Job> | undefined {
  const { id, expireAtMs, state } = job;
  if (expireAtMs === undefined || isTerminal(state)) return undefined;
  return { id, line: expiryLineName(id), rank: instantRank(expireAtMs, id), value: job };
}

/**
 * Returns up to `limit` entries of a line in its order, up to the first one that does not belong there; `next` is set
 * only if more follow.
 */
export function headsOf<T>(
  index: LinesIndex<T>,
  line: string,
  limit: number,
  after: string | undefined,
  belongs: (value: T) => boolean = () => true,
): { readonly entries: readonly LineEntry<T>[]; readonly next: string | undefined } {
  const entries = index.read(line, limit + 1, placeOf(after));
  const end = entries.findIndex((entry) => !belongs(entry.value));
  const heads = end === -1 ? entries : entries.slice(0, end);
  const last = heads.length > limit ? heads[limit - 1] : undefined;
  return {
    entries: heads.slice(0, limit),
    next: last === undefined ? undefined : tokenOf(last),
  };
}

export class MemoryItems {
  readonly clock: () => number;
  readonly bill = new Bill();
  readonly observe: ((event: StoreEvent<Job>) => void) | undefined;
  readonly state: MemoryState;
  readonly jobLines: LinesIndex<Job>;
  readonly keyLines: LinesIndex<KeyBacklog>;
  readonly keyRanks = new KeyRanks();
  readonly scheduleLines: LinesIndex<ScheduleState>;
  /** Jobs that have not started and would expire. */
  readonly expiries: LinesIndex<Job>;
  readonly #reportUnreadable: MemoryStoreOptions['unreadable'];
  place: RankOf;
  // The verb and the argument of the running step, for `observe`.
  verb = '';
  input: unknown;
  readonly #random: () => number;
  /** Returns the rank of a job as the calling process computes it. */
  #callerPlace: RankOf;
  /** The awkward behaviour to imitate. Undefined: nothing is imitated. */
  readonly #imitate: StoreImitation | undefined;
  readonly #after: After;
  readonly #expiring = new TimeHeap<JobItem>();
  readonly #listeners = new Set<(record: StreamRecord<Job>) => void>();

  constructor(options: MemoryStoreOptions) {
    this.clock = options.clock;
    this.#random = options.random;
    this.place = options.place;
    this.#callerPlace = options.place;
    this.#imitate = options.imitate;
    this.#after = options.after ?? immediately;
    this.observe = options.observe;
    this.#reportUnreadable = options.unreadable;
    const lagMs = this.#imitate?.indexLagMs === undefined ? undefined : () => this.#drawDelay('indexLagMs');
    this.jobLines = new LinesIndex({ clock: this.clock, lagMs });
    this.keyLines = new LinesIndex({ clock: this.clock, lagMs });
    this.scheduleLines = new LinesIndex({ clock: this.clock, lagMs });
    this.expiries = new LinesIndex({ clock: this.clock, lagMs });
    this.state = options.state ?? emptyState();
    this.#index();
  }

  /** Makes the indexes of what the store begins with. */
  #index(): void {
    for (const item of this.state.jobs.values()) {
      if (item.line !== '') this.jobLines.move(item.id, undefined, item);
      this.#moveExpiry(undefined, item.value);
      if (item.expiresAtMs !== undefined) this.#expiring.add(item.expiresAtMs, item);
    }
    for (const [partition, { backlogs, ledgers }] of this.state.partitions) {
      for (const ledger of ledgers.values()) this.keyRanks.sawLedger(partition, ledger);
      for (const [fairnessKey, byType] of backlogs)
        for (const [type, entry] of byType)
          this.keyLines.move(`${partition}/${type}/${fairnessKey}`, undefined, entry);
    }
    for (const entry of this.state.schedules.values())
      if (entry.isOutOfLine !== true) this.scheduleLines.move(entry.id, undefined, entry);
  }

  happens(what: keyof StoreImitation): boolean {
    const chance = this.#imitate?.[what];
    if (chance === undefined || chance <= 0 || this.#random() >= chance) return false;
    this.observe?.({ kind: 'imitated', what });
    return true;
  }

  noteUnreadable(partition: number, item: UnreadableItem): void {
    const notes = this.state.unreadable.get(partition) ?? [];
    if (!notes.some(({ key }) => key === item.key)) {
      this.state.unreadable.set(partition, [...notes, item]);
      this.#reportUnreadable?.(item);
    }
    this.bill.small('setAside', 'write');
  }

  /** Returns a delay below its bound, drawn anew each time. */
  #drawDelay(what: 'indexLagMs' | 'streamLateMs' | 'ttlLateMs'): number {
    const mostMs = this.#imitate?.[what] ?? 0;
    if (mostMs <= 0) return 0;
    this.observe?.({ kind: 'imitated', what });
    return this.#random() * mostMs;
  }

  async read<T>(verb: string, act: () => T): Promise<T> {
    await undefined;
    this.#throttle(verb);
    return act();
  }

  async write<T>(verb: string, act: () => T, input?: unknown): Promise<T> {
    const place = this.#callerPlace;
    await undefined;
    this.#throttle(verb);
    this.#collectExpired();
    this.place = place;
    this.verb = verb;
    this.input = input;
    const answer = act();
    if (this.happens('unanswered')) {
      throw new UnavailableError(
        `${verb}: no answer, though it may have been applied; repeat it or read the item`,
      );
    }
    return answer;
  }

  #throttle(verb: string): void {
    if (this.happens('throttled')) {
      throw new ThrottledError(`${verb}: too many requests, nothing was changed; try again`);
    }
  }

  partition(partition: number): PartitionItems {
    let items = this.state.partitions.get(partition);
    if (items === undefined) {
      items = emptyPartition();
      this.state.partitions.set(partition, items);
    }
    return items;
  }

  headsOf(
    verb: string,
    line: string,
    limit: number,
    after?: string,
    belongs?: (value: Job) => boolean,
  ): LinePage<Job> {
    const { entries, next } = headsOf(this.jobLines, line, limit, after, belongs);
    this.bill.readHeads(verb, entries);
    return { jobs: entries.map((entry) => entry.value), next };
  }

  /** Returns a job's item, unless it has expired. An expired item may not be deleted yet. */
  item(id: string): JobItem | undefined {
    const item = this.state.jobs.get(id);
    return item?.expiresAtMs !== undefined && item.expiresAtMs <= this.clock() ? undefined : item;
  }

  put(
    before: JobItem | undefined,
    job: Job,
    expiresAtMs?: number,
    standing?: { readonly line: string; readonly rank: string },
  ): Job {
    const moved = this.#itemOf(before, job, expiresAtMs);
    const after = standing === undefined ? moved : { ...moved, ...standing };
    this.bill.wroteJob(this.verb, before, after);
    this.state.jobs.set(job.id, after);
    this.jobLines.move(
      job.id,
      before === undefined || before.line === '' ? undefined : before,
      after.line === '' ? undefined : after,
    );
    this.#moveExpiry(before?.value, job);
    if (expiresAtMs !== undefined) {
      this.#expiring.add(expiresAtMs + this.#drawDelay('ttlLateMs'), after);
    }
    // If only the line changes, the job does not change, and readers of the stream skip the record.
    if (standing !== undefined) return job;
    this.observe?.({
      kind: 'job',
      verb: this.verb,
      input: this.input,
      oldJob: before?.value,
      newJob: job,
    });
    if (this.#listeners.size > 0) this.#publish({ oldJob: before?.value, newJob: job });
    return job;
  }

  #moveExpiry(before: Job | undefined, after: Job): void {
    const [lost, gained] = [before, after].map((job) => job && expiryOf(job));
    if (lost?.rank !== gained?.rank) this.expiries.move(after.id, lost, gained);
  }

  #itemOf(before: JobItem | undefined, job: Job, expiresAtMs: number | undefined): JobItem {
    const { id } = job;
    switch (job.state) {
      case 'scheduled':
        return { id, line: dueLineName(job.partition), rank: instantRank(job.runAtMs, id), value: job };
      case 'pending': {
        const isThere = before?.value.state === 'pending' && before.value.partition === job.partition;
        if (isThere) return { ...before, value: job };
        return { id, ...this.readyStanding(job), value: job };
      }
      case 'failed': {
        // A failed job stands in the line of dead letters until it is redriven.
        const line = job.redrivenAs === undefined ? deadLineName(job.partition) : '';
        return { id, line, rank: latestFirstRank(job.finishedAtMs ?? 0, id), value: job, expiresAtMs };
      }
      case 'succeeded':
      case 'cancelled':
      case 'expired': {
        const line = job.listFinished === true ? finishedLineName(job.partition, job.state, job.type) : '';
        return { id, line, rank: latestFirstRank(endedAtMs(job), id), value: job, expiresAtMs };
      }
      default:
        return { id, line: '', rank: '', value: job, expiresAtMs };
    }
  }

  readyStanding(job: Job): { readonly line: string; readonly rank: string } {
    return { line: readyLineName(job.partition, job), rank: this.place(job).rank };
  }

  /**
   * Puts the backlog of a key, with its position in the keys line.
   * @param rankCostMs - the cost in its rank. @default - unchanged
   */
  putBacklog(
    partition: number,
    type: string,
    backlog: Omit<KeyBacklog, 'rankCostMs'>,
    rankCostMs?: number,
  ): void {
    const { backlogs } = this.partition(partition);
    const { fairnessKey } = backlog;
    const byType = backlogs.get(fairnessKey) ?? new Map<string, LineEntry<KeyBacklog>>();
    const before = byType.get(type);
    let after: LineEntry<KeyBacklog> | undefined;
    if (backlog.lines.length > 0) {
      const rank = costRank(rankCostMs ?? before?.value.rankCostMs ?? 0, fairnessKey);
      const value = { ...backlog, rankCostMs: costOfRank(rank) };
      after = { id: fairnessKey, line: keysLineName(partition, type), rank, value };
      byType.set(type, after);
      backlogs.set(fairnessKey, byType);
    } else {
      byType.delete(type);
      if (byType.size === 0) backlogs.delete(fairnessKey);
    }
    this.bill.wroteBacklog(this.verb, partition, type, before, after);
    this.keyLines.move(`${partition}/${type}/${fairnessKey}`, before, after);
  }

  #publish(record: StreamRecord<Job>): void {
    if (this.happens('streamLost')) return;
    const copies = this.happens('streamDuplicated') ? 2 : 1;
    for (const listener of this.#listeners) {
      for (let copy = 0; copy < copies; copy += 1) {
        this.#after(this.#drawDelay('streamLateMs'), () => {
          if (this.#listeners.has(listener)) listener(record);
        });
      }
    }
  }

  #collectExpired(): void {
    const nowMs = this.clock();
    for (let due = this.#expiring.takeDue(nowMs); due !== undefined; due = this.#expiring.takeDue(nowMs)) {
      if (this.state.jobs.get(due.value.id) !== due.value) continue;
      this.state.jobs.delete(due.value.id);
      if (due.value.line !== '') this.jobLines.move(due.value.id, due.value, undefined);
    }
  }

  /**
   * Calls the listener after each change of a job item: late, twice, never or in any order, as far as that is imitated.
   *
   * @returns a function that ends the subscription
   */
  subscribe(listener: (record: StreamRecord<Job>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Runs a call as a process with another declaration, whose jobs get other ranks. */
  placing<T>(place: RankOf, call: () => T): T {
    const others = this.#callerPlace;
    this.#callerPlace = place;
    try {
      return call();
    } finally {
      this.#callerPlace = others;
    }
  }

  /** Returns a partition's items, for a simulation's invariants. */
  inspect(partition: number): PartitionView {
    const items = this.partition(partition);
    return { ...items, parks: items.summary.parks };
  }

  /** Every job that has not expired, for a simulation's invariants. */
  *everyJob(): Generator<Job> {
    for (const { id } of this.state.jobs.values()) {
      const item = this.item(id);
      if (item !== undefined) yield item.value;
    }
  }
}
