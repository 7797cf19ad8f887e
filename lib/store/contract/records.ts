/** What the store keeps, as the scheduler sees it: one shape a kind of item, whatever database it is in. */
import type { Control } from '../../core/capacity.ts';
import type { Json, MovingJob, ReservedJob } from '../../core/job.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import type { ScheduleState } from '../../core/recurring.ts';
import type { JobHead, JobImage } from './job-fields.ts';
import type { ReadyLine } from './lines.ts';

/** A request that was not accepted, kept with its reason. */
export interface Rejection {
  /** The event's id, or what stands for it; with `position` it makes a repeated delivery one record. */
  readonly sourceId: string;
  /** The entry's place in an event of many. */
  readonly position: number;
  /** Path of the offending field, such as `jobs[3].priority`; empty for the whole. */
  readonly field: string;
  readonly reason: string;
  /** What was sent, cut to a bounded size. */
  readonly detail: string;
  readonly rejectedAtMs: number;
  /** When the record may be collected. */
  readonly expiresAtMs: number;
}

/** What is deployed. The store keeps the text, and does not read it: `lib/declaration/declaration.ts` does. */
export interface DeclarationRecord {
  /** From 1. Each deployment's is higher, also that of one which goes back to what was declared before. */
  readonly version: number;
  /** Of the text: tells whether anything has changed. */
  readonly hash: string;
  /** ASCII. */
  readonly text: string;
  readonly declaredAtMs: number;
}

/** How far jobs that wait were moved to where a declaration wants them. */
export interface Carried {
  readonly version: number;
  /** Jobs that were moved so far. */
  readonly moved: number;
  readonly isDone: boolean;
  /** Where to go on; undefined: from the beginning. */
  readonly after?: string | undefined;
  /**
   * The summary's version from which on the partition plans by what the partitions share now: reservations that follow an earlier one
   * may have been planned by something else. Absent: nothing that they share has changed.
   */
  readonly sinceVersion?: number | undefined;
  /** No other partition has anything in flight that must be looked at before something starts here. */
  readonly isHandedOver?: boolean | undefined;
}

/** Whether all that waits stands where the declaration of this version wants it. */
export const isCarriedTo = (version: number, { carried }: Pick<PartitionState, 'carried'>): boolean =>
  carried?.version === version && carried.isDone;

/** A batch's record of the capacity it holds. Counted by every pass until it is dropped, whatever became of its jobs. */
export interface Reservation {
  readonly batchId: string;
  /** The summary's version that it follows: the commit that made it raised that version by one. */
  readonly version: number;
  /** When a pass must look at its jobs, if nothing settled them before. */
  readonly checkAtMs: number;
  readonly reservedAtMs: number;
  /** The version of the declaration that it was planned under; absent: nothing was declared, or a former version wrote it. */
  readonly declared?: number | undefined;
  /** By position; a settled or dropped place is absent. */
  readonly jobs: ReadonlyMap<number, ReservedJob>;
}

/** What a worker process says of itself with each heartbeat. How many of its slots are busy, its occupants say. */
export interface WorkerLoad {
  /** The longest that its handlers' thread kept something waiting since the heartbeat before, in milliseconds. */
  readonly lagMs: number;
  /** What the process holds of the machine's memory, in MiB. */
  readonly memoryMb: number;
}

/** One life of a worker: its heartbeat record. When it expires all its slots are gone at once. */
export interface WorkerRecord {
  readonly workerId: string;
  readonly incarnation: string;
  readonly fleet: string;
  readonly slots: number;
  /** It takes no more jobs: its slots are those that its last ones hold. */
  readonly isEnding?: boolean | undefined;
  /** By the worker's clock. Where clocks differ, it must still lie behind the moment when the worker stops by itself. */
  readonly expiresAtMs: number;
  /** Until then a former life of this name may still be running its jobs. Written by the store, not by the worker. */
  readonly formerUntilMs?: number | undefined;
  /** How its process bore its work when it last said so. Absent: it did not measure. */
  readonly load?: WorkerLoad | undefined;
  /** When it last said so, by its clock. Absent: it is of a version that did not write it. */
  readonly heardAtMs?: number | undefined;
  /** Running claims by slot, with what the handler last said of its progress. */
  readonly occupants: readonly {
    readonly claimId: string;
    readonly jobId: string;
    readonly progress?: Json;
  }[];
}

/**
 * The end of a former life's lease is shown for so long where a later life leaves in order: until then passes look at what ran under it,
 * or at the reservations themselves.
 */
export const FORMER_SHOWN_MS = 60_000;

/**
 * What a record says at an instant: nothing once it has expired, but that a former life of its name may run still. Then it
 * stands for that life alone, without a slot: a registration that comes late may have expired before.
 */
export function workerAt(record: WorkerRecord, nowMs: number): WorkerRecord | undefined {
  if (record.expiresAtMs > nowMs) return record;
  const { formerUntilMs = 0 } = record;
  if (formerUntilMs <= nowMs) return undefined;
  return { ...record, slots: 0, isEnding: true, occupants: [], expiresAtMs: formerUntilMs };
}

/**
 * The dispatcher that leads a partition. Leading is a courtesy: others leave letters for it. Two dispatchers that both believe to lead lose
 * commits, and nothing else.
 */
export interface Leader {
  /** Names one lead of one dispatcher. */
  readonly holder: string;
  /** Epoch ms by the leader's clock, judged without tolerance. An item that is past it was not released: its letters may be unread. */
  readonly untilMs: number;
  /** Clients leave a letter for each job that they store: the leader starts it before the stream tells of it. */
  readonly wantsLetters: boolean;
}

/** A note in a partition's mailbox for the dispatcher that leads it. One that says nothing asks for a pass. */
export interface Letter {
  /** What is known of these jobs: a stream record, or what was stored just now. */
  readonly hints?: readonly JobImage[] | undefined;
  /** Jobs to look up. */
  readonly jobIds?: readonly string[] | undefined;
  /** Everything that is in flight or waits is to be looked at. @default false */
  readonly looksAtAll?: boolean | undefined;
}

/** A letter as the leader reads it. One that cannot be read looks at all. */
export interface ReceivedLetter {
  readonly letterId: string;
  readonly hints: readonly JobHead[];
  readonly jobIds: readonly string[];
  readonly looksAtAll: boolean;
}

/** Whether a control says nothing: the scope is as it is configured. */
export const isIdle = ({ paused, maxConcurrency, weight }: Control): boolean =>
  !paused && maxConcurrency === undefined && weight === undefined;

/** The parts of a control that are changed one by one. */
export const CONTROL_FIELDS = ['paused', 'maxConcurrency', 'weight'] as const;

export type ControlField = (typeof CONTROL_FIELDS)[number];

/** How steadily passes have read a partition, as commits tell. By the dispatchers' clocks. */
export interface Attendance {
  /** No gap between two reads has been long since then. */
  readonly sinceMs: number;
  /** The last of these reads. */
  readonly atMs: number;
  /** Since when losses of workers are held back, while they are. */
  readonly heldBackSinceMs?: number | undefined;
}

/**
 * What is seen of a partition's workers between its passes. A look reads the partition and writes this, so it also
 * tells that the store was there. By the dispatchers' clocks.
 */
export interface Lookout {
  /** Looks and passes have followed each other without a long gap since then. */
  readonly sinceMs: number;
  /** The last of them. */
  readonly atMs: number;
  /** When the next look comes; in the past if none is on its way. */
  readonly nextAtMs: number;
  /** What ran under workers' leases that had ended by then was taken from them. */
  readonly judgedUntilMs: number;
}

/** That nothing waited in a partition when a pass ended, by all that passes were told. By the dispatchers' clocks. */
export interface Quiet {
  /** All keys lines, and the lines that they name, were read at that time or later. */
  readonly lookedAtMs: number;
  /** The version of the declaration whose types were looked at; undefined: nothing is declared. */
  readonly declared?: number | undefined;
}

/** What a pass knows exactly: one strongly consistent read of the partition's items. */
export interface PartitionState {
  /** The dispatcher that leads, or led and did not release; undefined: none. */
  readonly leader?: Leader | undefined;
  /** The newest declaration that the partition was told of; undefined: of none. */
  readonly declared?: number | undefined;
  /** Undefined: nothing was carried so far. */
  readonly carried?: Carried | undefined;
  /** Raised by every commit. A commit is on condition of the version that it loaded. */
  readonly version: number;
  readonly reservations: readonly Reservation[];
  readonly workers: readonly WorkerRecord[];
  /** Records of workers whose lease is over, as they were last written, until the store collects them. */
  readonly gone: readonly WorkerRecord[];
  /** Undefined before the first look. */
  readonly lookout?: Lookout | undefined;
  readonly controls: readonly Control[];
  /** Ledgers and estimates that came with this read. Others may be had by `getLedgers` and `getEstimates`. */
  readonly ledgers: readonly Ledger[];
  readonly estimates: readonly EstimateRecord[];
  /** Whether any conflict key may have a blocked line; false in a store without parking. */
  readonly parks: boolean;
  /** As the last commit that knew left it; undefined before the first one. */
  readonly attendance?: Attendance | undefined;
  /** Nothing waits here, by all that passes were told; undefined: something does, or it is not known. */
  readonly quiet?: Quiet | undefined;
  /** Epoch ms: a read of the lines that began before it may miss a job of which some pass was told, and which it left waiting. */
  readonly unseenUntilMs?: number | undefined;
  /** Capacity that the partition has lent or borrowed, as far as it was not given back. */
  readonly loans: readonly Loan[];
  /** What other partitions ask to be lent: the last request of each, granted or not. */
  readonly requests: readonly LoanRequest[];
}

/** What a fairness key has been charged for settled attempts. */
export interface Ledger {
  readonly fairnessKey: string;
  /** In milliseconds of run time; a multiple of 2^-16 ms (`wholeUnits`). */
  readonly settledCostMs: number;
  /** The key's last touch: the end of one of its attempts, or a pass that raised its share. A start that is not settled is in flight. */
  readonly lastSeenMs: number;
}

/** Where a key stands that was not in the keys line: what its ledger says, unless that has expired. */
export const rankCostOf = (ledger: Ledger | undefined, nowMs: number, keyTtlMs: number | null): number =>
  ledger === undefined || (keyTtlMs !== null && nowMs - ledger.lastSeenMs >= keyTtlMs)
    ? 0
    : ledger.settledCostMs;

/** A conflict key that may have a blocked line. */
export interface ParkedMark {
  readonly conflictKey: string;
  /** When jobs were last parked there. */
  readonly parkedAtMs: number;
}

/** A fairness key that has, or lately had, jobs of a type waiting. */
export interface KeyBacklog {
  readonly fairnessKey: string;
  /** Of that type. */
  readonly lines: readonly Pick<ReadyLine, 'mode'>[];
  /** When a submitter last announced one of its lines. */
  readonly announcedAtMs: number;
  /** What its place in the keys line says of its settled cost. It may trail, so it is never too high. */
  readonly rankCostMs: number;
}

/** A learned cost. The empty resource is the type's own average. */
export interface EstimateRecord {
  readonly type: string;
  readonly resourceId: string;
  readonly meanMs: number;
  readonly varianceMs2: number;
  readonly samples: number;
  readonly lastSeenMs: number;
}

/** Guards a conflict key among partitions. A lock that is free, and that no partition waits for, is not there. */
export interface Lock {
  readonly conflictKey: string;
  /** The claim that holds it: a partition's, because claim ids are unique in their partition only. */
  readonly holder?:
    | { readonly partition: number; readonly claimId: string; readonly jobId: string }
    | undefined;
  /** It is free, and until then this partition's: so that one with many jobs does not keep the others waiting. */
  readonly turn?: { readonly partition: number; readonly untilMs: number } | undefined;
  /** Partitions that have jobs for it, ascending. */
  readonly waiting: readonly number[];
}

/** Whether a partition can take a lock now, as far as can be known before it is tried. */
export const isOpenTo = (lock: Lock | undefined, partition: number, nowMs: number): boolean =>
  lock?.holder === undefined &&
  (lock?.turn === undefined || lock.turn.partition === partition || lock.turn.untilMs <= nowMs);

/** One life of a dispatcher that runs on. */
export interface DispatcherIdentity {
  readonly dispatcherId: string;
  readonly incarnation: string;
}

/** How busy a dispatcher is, as it said when it last renewed its membership. */
export interface DispatcherLoad {
  /** Jobs that wait in the partitions that it leads, as far as its last look counted; absent: it has not looked yet. */
  readonly waiting?: { readonly jobs: number; readonly isLeast: boolean } | undefined;
  /** How long the one of them had waited that became ready first; absent: none waited. */
  readonly waitedMs?: number | undefined;
  /** The part of the time that it spent in passes since it last said so: 0 to 1. */
  readonly busy: number;
  /** How late the event loop came to what was due, at worst, since then; absent: not measured. */
  readonly eventLoopLagMs?: number | undefined;
  /** Of the process; absent: not measured. */
  readonly memoryBytes?: number | undefined;
}

/** Its membership: while it lasts, the dispatcher has its share of the partitions. */
export interface DispatcherRecord extends DispatcherIdentity {
  /** Partitions that it leads, ascending. */
  readonly leads: readonly number[];
  /** Written with each renewal. */
  readonly load?: DispatcherLoad | undefined;
  /** By its own clock. */
  readonly expiresAtMs: number;
}

/** The worker that runs a job. */
export interface WorkerIdentity {
  readonly workerId: string;
  readonly incarnation: string;
}

/**
 * An item that cannot be read: something else than the scheduler wrote to it. Where it stood in a line it was taken out, so
 * that no pass meets it again.
 */
export interface UnreadableItem {
  /** `<partition key> <sort key>`. */
  readonly key: string;
  /** Which attribute is wrong, how, and what to do. */
  readonly reason: string;
  /** Where it stood, if it did. */
  readonly line?: string | undefined;
  readonly rank?: string | undefined;
  readonly seenAtMs: number;
}

/** The places of a reservation that are not among these. */
export function placesWithout(
  places: Reservation['jobs'],
  positions: ReadonlySet<number>,
): ReadonlyMap<number, ReservedJob> {
  const left = new Map<number, ReservedJob>();
  // Each pass looks at all that is in flight: no pair is made for each place.
  places.forEach((entry, position) => {
    if (!positions.has(position)) left.set(position, entry);
  });
  return left;
}

/** A job as a record shows it, and in which state it was before; undefined: it is new. */
export interface JobChange {
  readonly job: MovingJob;
  readonly before: string | undefined;
}

export interface StreamChanges {
  readonly jobs: readonly JobChange[];
  /** The stream's filter passes those that have stopped by themselves. */
  readonly schedules: readonly ScheduleState[];
}
