/** The items of the memory store. Every verb reads and changes them in one atomic step, after an `await`. */

import type { Control } from '../../core/capacity.ts';
import { ThrottledError, UnavailableError } from '../../core/errors.ts';
import { endedAtMs, type Job, type ReservedJob } from '../../core/job.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import type { ScheduleState } from '../../core/recurring.ts';
import { TimeHeap } from '../../runtime/time-heap.ts';
import { readyLineName } from '../contract/lines.ts';
import type {
  ControlField,
  DeclarationRecord,
  EstimateRecord,
  KeyBacklog,
  Leader,
  Ledger,
  Lock,
  Lookout,
  ReceivedLetter,
  Rejection,
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
  finishedLineName,
  instantRank,
  keysLineName,
  latestFirstRank,
} from '../table/schema.ts';
import { EMPTY_SUMMARY, type PartitionSummary } from '../table/summary.ts';
import { Bill } from './imitation/bill.ts';
import type { After, StoreEvent, StoreImitation, StreamRecord } from './imitation/imitation.ts';
import { type LineEntry, LinesIndex } from './imitation/lines-index.ts';
import type { Placed } from './sorted-line.ts';

export interface MemoryStoreOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number;
  /** Evenly distributed in [0, 1); seeded for a run that must be repeatable. */
  readonly random: () => number;
  readonly place: RankOf;
  readonly imitate?: StoreImitation | undefined;
  /** Delivers stream records; by default at once, after the running step. */
  readonly after?: After | undefined;
  /** Receives every event when it happens. */
  readonly observe?: ((event: StoreEvent<Job>) => void) | undefined;
  /** Receives each item that cannot be read, once. */
  readonly unreadable?: ((item: UnreadableItem) => void) | undefined;
}

/** A job's item. It stands in no line if `line` is empty. */
interface JobItem extends LineEntry<Job> {
  readonly expiresAtMs?: number | undefined;
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
  /** Lent and borrowed, by id. */
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

export interface PartitionItems {
  leader?: Leader | undefined;
  /** The last `wantsLetters` of any lead. */
  wantsLetters: boolean;
  declared?: number | undefined;
  /** By id. Ids sort in the order of the writes. */
  readonly letters: Map<string, ReceivedLetter>;
  summary: PartitionSummary;
  lookout: Lookout | undefined;
  /** Items of reservations by name, as they were written, until they are deleted. */
  readonly items: Map<string, readonly Reservation[]>;
  /** Ledgers and estimates that have items of their own. */
  readonly ownLedgers: Map<string, Ledger>;
  readonly ownEstimates: Map<string, EstimateRecord>;
  // The decoded content of the items above, for inspection.
  readonly reservations: Map<string, Reservation & { readonly jobs: Map<number, ReservedJob> }>;
  readonly workers: Map<string, WorkerRecord>;
  readonly controls: Map<string, Control>;
  /** By scope: how often each part of its control was changed. */
  readonly controlRevisions: Map<string, Partial<Record<ControlField, number>>>;
  readonly loans: Map<string, Loan>;
  /** By the borrowing partition. */
  readonly requests: Map<number, LoanRequest>;
  readonly ledgers: Map<string, Ledger>;
  /** By conflict key: when jobs were last parked. */
  readonly parked: Map<string, number>;
  /** By fairness key, then by type. */
  readonly backlogs: Map<string, Map<string, LineEntry<KeyBacklog>>>;
}

export const estimateId = (type: string, resourceId: string): string => JSON.stringify([type, resourceId]);

export const tokenOf = (place: Placed): string => JSON.stringify([place.rank, place.id]);

function placeOf(token: string | undefined): Placed | undefined {
  if (token === undefined) return undefined;
  const [rank, id] = JSON.parse(token) as [string, string];
  return { rank, id };
}

const immediately: After = (_delayMs, action) => queueMicrotask(action);

/** Up to `limit` entries of a line in its order, up to the first one that does not belong; `next` is set only if more follow. */
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
  readonly #jobs = new Map<string, JobItem>();
  readonly jobLines: LinesIndex<Job>;
  readonly keyLines: LinesIndex<KeyBacklog>;
  readonly keyRanks = new KeyRanks();
  readonly scheduleLines: LinesIndex<ScheduleState>;
  /** Notes about items that cannot be read, by partition. */
  readonly unreadable = new Map<number, UnreadableItem[]>();
  readonly #reportUnreadable: MemoryStoreOptions['unreadable'];
  readonly rejections = new Map<string, Map<number, Rejection>>();
  readonly locks = new Map<string, Lock>();
  /** Version 1 is at index 0. */
  readonly declarations: DeclarationRecord[] = [];
  place: RankOf;
  // The verb and the argument of the running step, for `observe`.
  verb = '';
  input: unknown;
  readonly #random: () => number;
  /** The ranks of the process that is calling. */
  #callerPlace: RankOf;
  /** Undefined: nothing is imitated. */
  readonly #imitate: StoreImitation | undefined;
  readonly #after: After;
  readonly #expiring = new TimeHeap<JobItem>();
  readonly #partitions = new Map<number, PartitionItems>();
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
  }

  happens(what: keyof StoreImitation): boolean {
    const chance = this.#imitate?.[what];
    if (chance === undefined || chance <= 0 || this.#random() >= chance) return false;
    this.observe?.({ kind: 'imitated', what });
    return true;
  }

  noteUnreadable(partition: number, item: UnreadableItem): void {
    const notes = this.unreadable.get(partition) ?? [];
    if (!notes.some(({ key }) => key === item.key)) {
      this.unreadable.set(partition, [...notes, item]);
      this.#reportUnreadable?.(item);
    }
    this.bill.small('setAside', 'write');
  }

  /** Draws a delay below its bound. */
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
    let items = this.#partitions.get(partition);
    if (items === undefined) {
      items = {
        wantsLetters: false,
        letters: new Map(),
        summary: EMPTY_SUMMARY,
        lookout: undefined,
        items: new Map(),
        ownLedgers: new Map(),
        ownEstimates: new Map(),
        reservations: new Map(),
        workers: new Map(),
        controls: new Map(),
        controlRevisions: new Map(),
        loans: new Map(),
        requests: new Map(),
        ledgers: new Map(),
        parked: new Map(),
        backlogs: new Map(),
      };
      this.#partitions.set(partition, items);
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

  /** A job's item, unless it has expired. It may not be deleted yet. */
  item(id: string): JobItem | undefined {
    const item = this.#jobs.get(id);
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
    this.#jobs.set(job.id, after);
    this.jobLines.move(
      job.id,
      before === undefined || before.line === '' ? undefined : before,
      after.line === '' ? undefined : after,
    );
    if (expiresAtMs !== undefined) {
      this.#expiring.add(expiresAtMs + this.#drawDelay('ttlLateMs'), after);
    }
    // A change of the line alone does not change the job, and readers of the stream skip it.
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
      case 'cancelled': {
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
      if (this.#jobs.get(due.value.id) !== due.value) continue;
      this.#jobs.delete(due.value.id);
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

  /** A partition's items, for a simulation's invariants. */
  inspect(partition: number): PartitionView {
    const items = this.partition(partition);
    return { ...items, parks: items.summary.parks };
  }

  /** Every job that has not expired, for a simulation's invariants. */
  *everyJob(): Generator<Job> {
    for (const { id } of this.#jobs.values()) {
      const item = this.item(id);
      if (item !== undefined) yield item.value;
    }
  }
}
