/** Everything that a memory store holds. Its indexes are made from this. It is plain data, which a process may keep in a file. */
import type { Control, ControlField } from '../../core/capacity.ts';
import type { Job, ReservedJob } from '../../core/job.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import type { ScheduleRecord, ScheduleState } from '../../core/recurring.ts';
import type { MinuteCounts } from '../../core/statistics.ts';
import type {
  DeclarationRecord,
  DispatcherRecord,
  EstimateRecord,
  KeyBacklog,
  Leader,
  Ledger,
  Lock,
  Lookout,
  ReceivedLetter,
  Rejection,
  Reservation,
  TagEntry,
  UnreadableItem,
  WorkerRecord,
} from '../contract/records.ts';
import { EMPTY_SUMMARY, type PartitionSummary } from '../table/summary.ts';
import type { LineEntry } from './imitation/lines-index.ts';

/** A job's item. It stands in no line if `line` is empty. */
export interface JobItem extends LineEntry<Job> {
  readonly expiresAtMs?: number | undefined;
}

export interface ScheduleEntry extends LineEntry<ScheduleState> {
  readonly spec: ScheduleRecord['spec'];
  /** The problem, if other software wrote to the schedule, so that it cannot be read. */
  readonly damage?: string | undefined;
  /** Set if the schedule was taken out of its line. */
  readonly isOutOfLine?: true | undefined;
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
  /** By the minute's first instant, with the version that they were put at. */
  readonly statistics: Map<number, { readonly version: number; readonly counts: MinuteCounts }>;
  /** By fairness key, then by type. */
  readonly backlogs: Map<string, Map<string, LineEntry<KeyBacklog>>>;
}

export interface MemoryState {
  readonly jobs: Map<string, JobItem>;
  readonly partitions: Map<number, PartitionItems>;
  readonly schedules: Map<string, ScheduleEntry>;
  /** Names of the declared schedules. */
  declaredSchedules: readonly string[];
  /** The declarations, in the order of their versions; version 1 is at index 0. */
  readonly declarations: DeclarationRecord[];
  /** By id. A membership that was removed has an expiry of 0. */
  readonly dispatchers: Map<string, DispatcherRecord>;
  /** Notes about items that cannot be read, by partition. */
  readonly unreadable: Map<number, UnreadableItem[]>;
  readonly rejections: Map<string, Map<number, Rejection>>;
  /** The items of dedupe keys, by their partition keys. */
  readonly dedupes: Map<string, { readonly jobId: string; readonly expiresAtMs: number }>;
  /** Entries of tags, by the keys of their items. */
  readonly tagged: Map<string, Map<string, TagEntry>>;
  readonly locks: Map<string, Lock>;
  lettersPut: number;
}

export const emptyState = (): MemoryState => ({
  jobs: new Map(),
  partitions: new Map(),
  schedules: new Map(),
  declaredSchedules: [],
  declarations: [],
  dispatchers: new Map(),
  unreadable: new Map(),
  rejections: new Map(),
  dedupes: new Map(),
  tagged: new Map(),
  locks: new Map(),
  lettersPut: 0,
});

export const emptyPartition = (): PartitionItems => ({
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
  statistics: new Map(),
  backlogs: new Map(),
});
