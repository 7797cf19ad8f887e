/** The records that a store keeps, one type for each kind, independent of the database. */
import type { Control } from '../../core/capacity.ts';
import type { Json, MovingJob, ReservedJob } from '../../core/job.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import type { Uses } from '../../core/limits.ts';
import type { ScheduleState } from '../../core/recurring.ts';
import type { MinuteCounts } from '../../core/statistics.ts';
import type { JobHead, JobImage } from './job-fields.ts';
import type { ReadyLine } from './lines.ts';

/** A rejected request and its reason. */
export interface Rejection {
  /** The id of the event, or a substitute. Together with `position` it makes a repeated delivery one record. */
  readonly sourceId: string;
  /** The index of the entry in an event with several. */
  readonly position: number;
  /** Path of the wrong field, such as `jobs[3].priority`; empty for the whole entry. */
  readonly field: string;
  readonly reason: string;
  /** The rejected request, cut to a bounded size. */
  readonly detail: string;
  readonly rejectedAtMs: number;
  /** When the record may be garbage collected. */
  readonly expiresAtMs: number;
}

/**
 * An entry by which a job is found by one of its tags. If the job does not exist, or was submitted at another time than
 * the entry says, the entry counts for nothing.
 */
export interface TagEntry {
  readonly name: string;
  readonly value: string;
  readonly jobId: string;
  readonly submittedAtMs: number;
  /** When the entry may be garbage collected. */
  readonly expiresAtMs: number;
}

/** A deployed declaration. The store does not parse the text; `lib/declaration/declaration.ts` does. */
export interface DeclarationRecord {
  /**
   * The number of the declaration, counted from 1. Every deployment's version is higher, even if it declares the same
   * as an earlier one.
   */
  readonly version: number;
  /** The hash of the text, to compare two declarations. */
  readonly hash: string;
  /** The text of the declaration, which has only ASCII characters. */
  readonly text: string;
  readonly declaredAtMs: number;
}

/** The progress of moving waiting jobs to the lines and partitions of a new declaration. */
export interface DeclarationProgress {
  readonly version: number;
  /** How many waiting jobs were moved to their new lines or partitions so far. */
  readonly moved: number;
  readonly isDone: boolean;
  /** The cursor at which the next pass continues; undefined: the beginning. */
  readonly after?: string | undefined;
  /**
   * The first version of the partition summary whose reservations are planned with the present settings that partitions share: their
   * number, the caps divided among them, and conflict groups. Undefined: none of these has changed.
   */
  readonly sinceVersion?: number | undefined;
  /**
   * Whether the handover is over: no other partition has jobs in flight any more that a pass must check before it
   * starts jobs here.
   */
  readonly isHandedOver?: boolean | undefined;
}

/** Whether all waiting jobs stand in the lines of this version's declaration. */
export const hasReached = (version: number, { carried }: Pick<PartitionState, 'carried'>): boolean =>
  carried?.version === version && carried.isDone;

/** The capacity that a batch of jobs holds. Every pass counts it until it is dropped, also after its jobs have ended. */
export interface Reservation {
  readonly batchId: string;
  /** The version of the partition summary on which the commit with this reservation was conditional. */
  readonly version: number;
  /** When a pass must check the jobs that were not settled until then. */
  readonly checkAtMs: number;
  readonly reservedAtMs: number;
  /** The version of the declaration that it was planned with; undefined: nothing was declared. */
  readonly declared?: number | undefined;
  /** The jobs by position. A settled or dropped position is absent. */
  readonly jobs: ReadonlyMap<number, ReservedJob>;
}

/** Measurements of a worker process, sent with each heartbeat. The occupants show how many slots are busy. */
export interface WorkerLoad {
  /** The longest delay of the event loop of the handlers' thread since the previous heartbeat, in milliseconds. */
  readonly lagMs: number;
  /** The resident memory of the process, in MiB. */
  readonly memoryMb: number;
}

/** The heartbeat record of one incarnation of a worker. When it expires, all its slots are gone at once. */
export interface WorkerRecord {
  readonly workerId: string;
  readonly incarnation: string;
  readonly fleet: string;
  readonly slots: number;
  /** Whether the worker takes no more jobs. If so, only the slots of its running jobs count. */
  readonly isEnding?: boolean | undefined;
  /**
   * When the worker's lease ends, by the worker's clock. It must be later than the moment at which the worker stops
   * itself, also if clocks differ.
   */
  readonly expiresAtMs: number;
  /**
   * Until this instant an earlier incarnation of the worker may still be running its jobs. The store sets it, not the
   * worker.
   */
  readonly formerUntilMs?: number | undefined;
  /** The measurements of the last heartbeat that contained any. Undefined: the worker does not measure its load. */
  readonly load?: WorkerLoad | undefined;
  /** The time of the last heartbeat, by the worker's clock. Undefined for a record that cannot be read. */
  readonly heardAtMs?: number | undefined;
  /** The running claims, one for each busy slot, with the handler's last progress. */
  readonly occupants: readonly {
    readonly claimId: string;
    readonly jobId: string;
    readonly progress?: Json;
  }[];
}

/**
 * How long after the end of an earlier incarnation's lease a record is kept although a later incarnation has deregistered. By then
 * passes have checked the jobs that ran under that lease, or their reservations have come due.
 */
export const FORMER_SHOWN_MS = 60_000;

/**
 * Returns the record as it counts at `nowMs`. A live lease: the record itself. An expired lease: until `formerUntilMs`
 * an earlier incarnation may still run jobs, so the record counts without slots. After that: undefined.
 */
export function workerAt(record: WorkerRecord, nowMs: number): WorkerRecord | undefined {
  if (record.expiresAtMs > nowMs) return record;
  const { formerUntilMs = 0 } = record;
  if (formerUntilMs <= nowMs) return undefined;
  return { ...record, slots: 0, isEnding: true, occupants: [], expiresAtMs: formerUntilMs };
}

/**
 * The dispatcher that leads a partition. The lead only saves work: other dispatchers leave letters for the leader. If two dispatchers both
 * believe that they lead, one loses its commits, and nothing else happens.
 */
export interface Leader {
  /** A name that is unique for each lead. */
  readonly holder: string;
  /**
   * When the lead ends, epoch ms by the leader's clock, compared without tolerance. A record with a past time was not
   * released, so its letters may be unread.
   */
  readonly untilMs: number;
  /** Whether clients leave a letter for each stored job: the leader then starts it before the stream reports it. */
  readonly wantsLetters: boolean;
}

/** Whether a dispatcher leads the partition now. `leader` is the partition's record of its last lead. */
export const isLedAt = (leader: Leader | undefined, nowMs: number): boolean =>
  leader !== undefined && leader.untilMs > nowMs;

/** A note in a partition's mailbox for its leader. An empty letter asks for a pass. */
export interface Letter {
  /** Jobs as they were in a stream record, or as they were just stored. */
  readonly hints?: readonly JobImage[] | undefined;
  /** Ids of jobs to look up. */
  readonly jobIds?: readonly string[] | undefined;
  /** Whether the leader is to check all jobs in flight and all lines. @default false */
  readonly looksAtAll?: boolean | undefined;
}

/** A letter as the leader reads it. One that cannot be read has `looksAtAll`. */
export interface ReceivedLetter {
  readonly letterId: string;
  readonly hints: readonly JobHead[];
  readonly jobIds: readonly string[];
  readonly looksAtAll: boolean;
}

/** Whether a control changes nothing about its scope. */
export const isIdle = ({ paused, maxConcurrency, weight, restsUntilMs }: Control): boolean =>
  !paused && maxConcurrency === undefined && weight === undefined && restsUntilMs === undefined;

/** The time over which passes have read a partition regularly. Commits write it, by the dispatchers' clocks. */
export interface Observation {
  /** The beginning of the observation: no two reads since then were far apart. */
  readonly sinceMs: number;
  /** The time of the last read. */
  readonly atMs: number;
  /** Since when passes have postponed declaring workers lost; undefined: they do not. */
  readonly heldBackSinceMs?: number | undefined;
}

/**
 * The record of the checks of a partition's workers between its passes. A check reads the partition and writes this, which also proves that
 * the store was available. By the dispatchers' clocks.
 */
export interface Lookout {
  /** The beginning of the time in which no two checks or passes were far apart. */
  readonly sinceMs: number;
  /** The time of the last check or pass. */
  readonly atMs: number;
  /** When the next check is due; in the past if none is planned. */
  readonly nextAtMs: number;
  /** Passes have ended the attempts of all workers whose lease ended by then. */
  readonly judgedUntilMs: number;
}

/** A record that no job waited in a partition when a pass ended, as far as passes were notified. By the dispatchers' clocks. */
export interface NothingWaits {
  /** Epoch ms: each type's keys line, and the ready lines of its keys, were all read at this instant or later. */
  readonly lookedAtMs: number;
  /** The version of the declaration whose types were read; undefined: nothing is declared. */
  readonly declared?: number | undefined;
}

/** The result of one strongly consistent read of a partition's items. */
export interface PartitionState {
  /** The lead, also one that has expired without being ended; undefined: none. */
  readonly leader?: Leader | undefined;
  /** The newest version of the declaration that was written to the partition; undefined: none was. */
  readonly declared?: number | undefined;
  /** How far waiting jobs were moved for a new declaration. Undefined: none was moved so far. */
  readonly carried?: DeclarationProgress | undefined;
  /** The version of the partition. Every commit raises it by one, and is conditional on the version that it loaded. */
  readonly version: number;
  readonly reservations: readonly Reservation[];
  readonly workers: readonly WorkerRecord[];
  /** Records of workers whose lease is over, as last written, until they are garbage collected. */
  readonly expiredWorkers: readonly WorkerRecord[];
  /** The last check of the workers between passes. Undefined: there was none yet. */
  readonly lookout?: Lookout | undefined;
  /** The controls that were in force when the partition was loaded. */
  readonly controls: readonly Control[];
  /** The controls that are not in force any more and were not deleted yet. */
  readonly endedControls: readonly Control[];
  /** The ledgers that this read included. `getLedgers` reads others. */
  readonly ledgers: readonly Ledger[];
  readonly estimates: readonly EstimateRecord[];
  /** Whether any conflict key may have a blocked line; false in a store without parking. */
  readonly parks: boolean;
  /** The observation, as the last commit that changed it left it; undefined before the first one. */
  readonly observation?: Observation | undefined;
  /** The record that no job waits, as far as passes were notified; undefined: jobs may wait. */
  readonly quiet?: NothingWaits | undefined;
  /**
   * Epoch ms: a read of lines that began before this instant may miss a waiting job, which a pass knew from a hint and has left waiting.
   */
  readonly unseenUntilMs?: number | undefined;
  /** Uses of limits within their windows by ended attempts, over all keys; undefined: none. */
  readonly uses?: Uses | undefined;
  /** With statistics: the counts of the last minute in which a commit counted something; undefined: none did. */
  readonly counted?: MinuteCounts | undefined;
  /** Capacity that the partition has lent or borrowed and that was not returned. */
  readonly loans: readonly Loan[];
  /** The last loan request of each other partition, granted or not. */
  readonly requests: readonly LoanRequest[];
}

/** The cost that a fairness key was charged for settled attempts. */
export interface Ledger {
  readonly fairnessKey: string;
  /** In milliseconds of run time; a multiple of 2^-16 ms (`wholeUnits`). */
  readonly settledCostMs: number;
  /**
   * When the ledger last changed: at the end of an attempt, or in a pass that raised the key's cost. A start that was
   * not settled is not included.
   */
  readonly lastSeenMs: number;
  /** Uses of limits within their windows by the key's ended attempts; absent: none. */
  readonly uses?: Uses | undefined;
}

/**
 * Returns the cost by which a key that had no backlog enters the keys line: its ledger's, or 0 if it has none or the
 * ledger has expired.
 */
export const rankCostOf = (ledger: Ledger | undefined, nowMs: number, keyTtlMs: number | null): number =>
  ledger === undefined || (keyTtlMs !== null && nowMs - ledger.lastSeenMs >= keyTtlMs)
    ? 0
    : ledger.settledCostMs;

/** A conflict key that may have a blocked line. */
export interface ParkedMark {
  readonly conflictKey: string;
  /** When jobs were last parked for the key. */
  readonly parkedAtMs: number;
}

/** A fairness key with waiting jobs of a type, now or recently. */
export interface KeyBacklog {
  readonly fairnessKey: string;
  /** The modes of the key's ready lines of the type. */
  readonly lines: readonly Pick<ReadyLine, 'mode'>[];
  /** When a submitter last announced one of its lines. */
  readonly announcedAtMs: number;
  /** The settled cost by which the key is ranked in the keys line. It may lag behind, so it is never too high. */
  readonly rankCostMs: number;
}

/** An estimate of a cost. The empty resource stands for the average of the type. */
export interface EstimateRecord {
  readonly type: string;
  readonly resourceId: string;
  readonly meanMs: number;
  readonly varianceMs2: number;
  readonly samples: number;
  readonly lastSeenMs: number;
}

/** The lock that guards a conflict key among partitions. A free lock that no partition waits for has no record. */
export interface Lock {
  readonly conflictKey: string;
  /**
   * The claim that holds the lock; undefined: the lock is free. The claim is named with its partition, because claim
   * ids are unique only in their partition.
   */
  readonly holder?:
    | { readonly partition: number; readonly claimId: string; readonly jobId: string }
    | undefined;
  /**
   * Set if the lock is free and reserved: until `untilMs` only this partition may take it, so that one partition with
   * many jobs does not keep the others waiting.
   */
  readonly turn?: { readonly partition: number; readonly untilMs: number } | undefined;
  /** Partitions with jobs that wait for the lock, ascending. */
  readonly waiting: readonly number[];
}

/** Whether a claim of this partition could take the lock, as of the read. */
export const isOpenTo = (lock: Lock | undefined, partition: number, nowMs: number): boolean =>
  lock?.holder === undefined &&
  (lock?.turn === undefined || lock.turn.partition === partition || lock.turn.untilMs <= nowMs);

/** One incarnation of a long-running dispatcher. */
export interface DispatcherIdentity {
  readonly dispatcherId: string;
  readonly incarnation: string;
}

/** The load of a dispatcher at the last renewal of its membership. */
export interface DispatcherLoad {
  /** Waiting jobs in the partitions that it leads, by its last count (`isLeast`: there may be more); undefined: not counted yet. */
  readonly waiting?: { readonly jobs: number; readonly isLeast: boolean } | undefined;
  /** How long the job that became ready first has waited; undefined: none waits. */
  readonly waitedMs?: number | undefined;
  /** The part of the time since the previous renewal that it spent in passes: 0 to 1. */
  readonly busy: number;
  /** The longest delay of the event loop since the previous renewal; undefined: not measured. */
  readonly eventLoopLagMs?: number | undefined;
  /** The memory of the process; undefined: not measured. */
  readonly memoryBytes?: number | undefined;
}

/** The membership of a dispatcher. Until it expires, the dispatcher has its share of the partitions. */
export interface DispatcherRecord extends DispatcherIdentity {
  /** Partitions that it leads, ascending. */
  readonly leads: readonly number[];
  /** The load of the dispatcher, written with each renewal. */
  readonly load?: DispatcherLoad | undefined;
  /** When the membership ends, epoch ms by the dispatcher's clock. */
  readonly expiresAtMs: number;
}

/** The worker that runs a job. */
export interface WorkerIdentity {
  readonly workerId: string;
  readonly incarnation: string;
}

/**
 * An item that cannot be read, because other software wrote to it. If it stood in a line, it was taken out of the line, so that no pass
 * reads it again.
 */
export interface UnreadableItem {
  /** The key of the item: `<partition key> <sort key>`. */
  readonly key: string;
  /** The wrong attribute, what is wrong with it, and what to do. */
  readonly reason: string;
  /** The line that it was taken out of, if any. */
  readonly line?: string | undefined;
  readonly rank?: string | undefined;
  readonly seenAtMs: number;
}

/** Returns, by id of a job in flight, when it was reserved. */
export const reservedAtOf = (
  reservations: readonly Pick<Reservation, 'reservedAtMs' | 'jobs'>[],
): ReadonlyMap<string, number> =>
  new Map(
    reservations.flatMap(({ reservedAtMs, jobs }) =>
      Array.from(jobs.values(), ({ id }) => [id, reservedAtMs] as const),
    ),
  );

/** Returns the entries of a reservation without those at these positions. */
export function entriesWithout(
  places: Reservation['jobs'],
  positions: ReadonlySet<number>,
): ReadonlyMap<number, ReservedJob> {
  const left = new Map<number, ReservedJob>();
  // `forEach` makes no pair for each entry. Every pass does this for all jobs in flight.
  places.forEach((entry, position) => {
    if (!positions.has(position)) left.set(position, entry);
  });
  return left;
}

/** A job after a change, and its state before; undefined: it is new. */
export interface JobChange {
  readonly job: MovingJob;
  readonly before: string | undefined;
}

export interface StreamChanges {
  readonly jobs: readonly JobChange[];
  /** Schedules that have stopped by themselves: the stream's filter lets no others through. */
  readonly schedules: readonly ScheduleState[];
}
