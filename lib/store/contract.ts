/**
 * What the scheduler asks of its store, in the scheduler's own verbs. One sentence each; every verb that changes
 * something names the fencing token it is conditional on. Losing a race is a value in the answer, never an error.
 *
 * Adapters: `dynamodb/` and `memory/`. One conformance suite runs on both.
 */
import type { Job, JobMode, Json, ReservedJob } from '../core/job.ts';
import type { Loan, LoanRequest, Return } from '../core/lending.ts';
import type { GivenUp, Verdict } from '../core/life-cycle.ts';
import type { AnnouncedLine, ReadyLine } from './schema.ts';

/** The right to change a partition: whoever holds a newer epoch has superseded it. */
export interface Fence {
  readonly partition: number;
  readonly epoch: number;
}

/** What `createJobs` did with one job. */
export type CreateOutcome =
  | { readonly kind: 'created'; readonly job: Job }
  /** The same id and content was there before, or was put by an earlier try whose answer got lost: `job` is that one. */
  | { readonly kind: 'repeated'; readonly job: Job }
  /** The id is taken by other content. */
  | { readonly kind: 'conflict'; readonly job: Job };

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

/** What is deployed. The store keeps the text, and does not read it: `lib/dispatch/declaration.ts` does. */
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
   * Of the lease under which the partition first planned by what the partitions share now: what was reserved under earlier ones
   * may have been planned by something else. Absent: nothing that they share has changed.
   */
  readonly sinceEpoch?: number | undefined;
  /** No other partition has anything in flight that must be looked at before something starts here. */
  readonly isHandedOver?: boolean | undefined;
}

/** `outdated`: another deployment has declared something since `after`; this is the newest version. */
export type DeclareOutcome =
  | { readonly kind: 'declared'; readonly version: number }
  | { readonly kind: 'outdated'; readonly version: number };

/** Who holds a partition, as `acquireLease` found or left it. */
export type LeaseOutcome =
  | {
      readonly kind: 'acquired';
      readonly epoch: number;
      readonly expiresAtMs: number;
      /** The wake counter, as whoever gave the lease back last had looked at it; undefined if nobody has said so. */
      readonly wakesSeen?: number | undefined;
    }
  | { readonly kind: 'held'; readonly epoch: number; readonly expiresAtMs: number; readonly holder: string };

/** A batch's record of the capacity it holds. Counted by every pass until it is dropped, whatever became of its jobs. */
export interface Reservation {
  readonly batchId: string;
  /** Of the lease under which it was made. */
  readonly epoch: number;
  /** When a pass must look at its jobs, if nothing settled them before. */
  readonly checkAtMs: number;
  readonly reservedAtMs: number;
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
 * What a record says at an instant: nothing once it has expired, but that a former life of its name may run still. Then it
 * stands for that life alone, without a slot: a registration that comes late may have expired before.
 */
export function workerAt(record: WorkerRecord, nowMs: number): WorkerRecord | undefined {
  if (record.expiresAtMs > nowMs) return record;
  const { formerUntilMs = 0 } = record;
  if (formerUntilMs <= nowMs) return undefined;
  return { ...record, slots: 0, isEnding: true, occupants: [], expiresAtMs: formerUntilMs };
}

/** A partition's lease as it is: for whoever looks. Only `acquireLease` says who may go on. */
export interface LeaseRecord {
  readonly epoch: number;
  /** Who holds it, or held it last; absent: unknown. */
  readonly holder?: string | undefined;
  /** Not given back; it may have expired. */
  readonly isHeld: boolean;
  /** When that holder took it. */
  readonly takenAtMs?: number | undefined;
  /** 0 once it was given back. */
  readonly expiresAtMs: number;
}

/** An operator's override for one scope (`pool`, `tier/<tier>`, `type/<type>`, `key/<key>`, `fleet/<fleet>`). */
export interface Control {
  readonly scope: string;
  readonly paused: boolean;
  readonly maxConcurrency?: number | undefined;
  readonly weight?: number | undefined;
}

/** Whether a control says nothing: the scope is as it is configured. */
export const isIdle = ({ paused, maxConcurrency, weight }: Control): boolean =>
  !paused && maxConcurrency === undefined && weight === undefined;

/** What an operator changes of a scope's control; what is not named stays as it is, null takes it away. */
export interface ControlChange {
  readonly paused?: boolean | undefined;
  readonly maxConcurrency?: number | null | undefined;
  readonly weight?: number | null | undefined;
}

/** The parts of a control that are changed one by one. */
export const CONTROL_FIELDS = ['paused', 'maxConcurrency', 'weight'] as const;
export type ControlField = (typeof CONTROL_FIELDS)[number];

/** Whether a control is what a change makes of it. */
export const isAsAsked = (control: Control, change: ControlChange): boolean =>
  CONTROL_FIELDS.every((field) => change[field] === undefined || (control[field] ?? null) === change[field]);

/** What became of a change of a control. */
export type ControlOutcome =
  | { readonly kind: 'changed'; readonly control: Control }
  /** Somebody else has changed the same thing of it since the call began: theirs stands, and `control` shows it. */
  | { readonly kind: 'superseded'; readonly control: Control };

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
 * What is seen of a partition's workers between its passes. Whoever looks reads the partition and writes this, so it also
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

/** What a pass knows exactly: one strongly consistent read of the partition's items. */
export interface PartitionState {
  /** The epoch in the lease item at the time of the read. */
  readonly epoch: number;
  /** The newest declaration that the partition was told of; undefined: of none. */
  readonly declared?: number | undefined;
  /** Undefined: nothing was carried so far. */
  readonly carried?: Carried | undefined;
  /** Raised by every commit. */
  readonly turn: number;
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
  /** Whether any conflict key may have a blocked line. */
  readonly parks: boolean;
  /** Scheduled jobs stand, or have stood, in as many shards of the due line; 1 at least. */
  readonly dueShards: number;
  /** As the last commit that knew left it; undefined before the first one. */
  readonly attendance?: Attendance | undefined;
  /** All keys that had come by then, and were below the least share, have been lifted to it; undefined: nobody has looked. */
  readonly liftedAtMs?: number | undefined;
  /** No key has come unseen since a pass lifted all that had: there was room whenever one came. */
  readonly isLifted?: boolean | undefined;
  /** Capacity that the partition has lent or borrowed, as far as it was not given back. */
  readonly loans: readonly Loan[];
  /** What other partitions ask to be lent: the last request of each, granted or not. */
  readonly requests: readonly LoanRequest[];
}

/** What a fairness key has been charged for settled attempts. */
export interface Ledger {
  readonly fairnessKey: string;
  /** In milliseconds of run time. */
  readonly settledCostMs: number;
  /** When a pass last settled one of the key's jobs, or saw it become active. */
  readonly lastSeenMs: number;
  /** Until then the key was, or will be, there, whatever becomes of its jobs; absent: until it was last seen. */
  readonly presentUntilMs?: number | undefined;
  /** Its jobs that wait to be tried again, or for a time that they were moved to: as long as each does, the key is there. */
  readonly later?: readonly LaterJob[] | undefined;
  /** Nothing was decided of the key yet: its first job was moved to a later time before there was room for any. */
  readonly isUndecided?: boolean | undefined;
}

/** A job that was ready, and waits for a later time. */
export interface LaterJob {
  /** Of its id. */
  readonly hash: number;
  readonly untilMs: number;
}

/** Until when a key counts as active by what its ledger says alone. */
export const presentUntilMs = ({ lastSeenMs, presentUntilMs: untilMs, later = [] }: Ledger): number =>
  Math.max(lastSeenMs, untilMs ?? -Infinity, ...later.map((job) => job.untilMs));

/** Where a key stands that was not in the keys line: what its ledger says, unless that has expired. */
export const rankCostOf = (ledger: Ledger | undefined, nowMs: number, keyTtlMs: number | null): number =>
  ledger === undefined || (keyTtlMs !== null && nowMs - presentUntilMs(ledger) >= keyTtlMs)
    ? 0
    : ledger.settledCostMs;

/** A conflict key that may have a blocked line. */
export interface ParkedMark {
  readonly conflictKey: string;
  /** When jobs were last parked there. */
  readonly parkedAtMs: number;
}

/** The blocked line of a conflict key, and the mode of the ready line whose jobs stand there. */
export interface ParkedLine {
  readonly mode: JobMode;
  readonly conflictKey: string;
}

/** A fairness key that has, or lately had, jobs of a type waiting. */
export interface KeyBacklog {
  readonly fairnessKey: string;
  /** Of that type. */
  readonly lines: readonly Pick<ReadyLine, 'mode' | 'sub'>[];
  /** Blocked lines in which jobs of these lines have been parked; absent: none. There may be no such jobs any more. */
  readonly parked?: readonly ParkedLine[] | undefined;
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

/** What one pass decides, applied at once or not at all, if the epoch is still the fence's. At most 100 items. */
export interface Commit {
  /**
   * The commits before it, as the load showed them or the last commit left them: it follows no others, so a request that
   * comes twice is applied once. Undefined: it follows whatever is there.
   */
  readonly turn?: number | undefined;
  /** Places to take out of a reservation; it is deleted when none is left. */
  readonly drop: readonly { readonly reservation: Reservation; readonly positions: readonly number[] }[];
  /** Reservations to look at again later. */
  readonly postpone: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[];
  readonly ledgers: readonly Ledger[];
  readonly estimates: readonly EstimateRecord[];
  readonly reserve: readonly Reservation[];
  /** Whether any conflict key may have a blocked line from now on; undefined: as it was. True before the first is marked. */
  readonly parks?: boolean | undefined;
  /** To be remembered; undefined: as it was. */
  readonly attendance?: Attendance | undefined;
  /** By now all keys that came are lifted; undefined: as it was. */
  readonly liftedAtMs?: number | undefined;
  /** Whether that goes on until there is no room; undefined: as it was. */
  readonly isLifted?: boolean | undefined;
  /** Capacity that the fence's partition leaves to others from now on. Their requests are granted by that. */
  readonly lend?: readonly Loan[] | undefined;
  /** Loans to the fence's partition that end, or get smaller. */
  readonly giveBack?: readonly Return[] | undefined;
}

/** A planned claim of one job for one place of a reservation. */
export interface ClaimRequest {
  readonly jobId: string;
  /** Won only if the job is pending at exactly this version. */
  readonly version: number;
  readonly claimId: string;
  readonly epoch: number;
  readonly batchId: string;
  readonly fleet: string;
  readonly claimedAtMs: number;
  /** The version of the declaration that it was planned under. */
  readonly declared?: number | undefined;
  /** Of a job whose conflict key may have jobs in other partitions: won only together with the key's lock. */
  readonly lock?: { readonly conflictKey: string; readonly partition: number } | undefined;
}

/**
 * What became of a claim, in the order of the requests. `unknown`: no answer; the reservation goes on counting.
 * `blocked`: the job could be won, its lock could not. Unlike a lost claim, a repetition of this one may still be won: what
 * counts the job may be given up only after its version was raised.
 */
export type ClaimOutcome = 'claimed' | 'lost' | 'blocked' | 'unknown';

/** Guards a conflict key among partitions. A lock that is free, and that nobody waits for, is not there. */
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
  /** Partitions whose lease it holds, ascending. */
  readonly leads: readonly number[];
  /** Written with each renewal. */
  readonly load?: DispatcherLoad | undefined;
  /** By its own clock. */
  readonly expiresAtMs: number;
}

/** Who runs a job. */
export interface WorkerIdentity {
  readonly workerId: string;
  readonly incarnation: string;
}

export interface StartRequest extends WorkerIdentity {
  readonly jobId: string;
  readonly claimId: string;
  readonly nowMs: number;
  /**
   * The attempt's lease: after this instant, by the worker's clock, it certainly runs no more. Undefined: its worker is a
   * process, whose record says how long it may run.
   */
  readonly runUntilMs?: number | undefined;
}

export type StartOutcome =
  | { readonly kind: 'started'; readonly job: Job }
  /** The message was a duplicate or outdated: the job is not claimed by this claim any more. */
  | { readonly kind: 'superseded' };

/** What a finished attempt leaves behind. */
export type FinishVerdict = Verdict;

export interface FinishRequest extends WorkerIdentity {
  /** As `startJob` returned it. */
  readonly job: Job;
  readonly verdict: FinishVerdict;
  readonly nowMs: number;
  /** When the terminal job may be collected. */
  readonly expiresAtMs: number;
}

export type FinishOutcome =
  | { readonly kind: 'finished'; readonly job: Job }
  | { readonly kind: 'superseded' };

/** What a line shows of a job: all that planning and settling need, without what may be large. */
export type JobHead = Omit<
  Job,
  | 'payload'
  | 'contentHash'
  | 'submittedAtMs'
  | 'workersLost'
  | 'worker'
  | 'runUntilMs'
  | 'result'
  | 'error'
  | 'checkpoint'
  | 'progress'
  | 'cancelRequestedBy'
  | 'cancelRequestedIn'
  | 'redriveOf'
  | 'redriveBy'
  | 'redrivenAs'
  | 'redrivenAtMs'
  | 'redrivenBy'
  | 'history'
  | 'unreadable'
>;

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

/** Some of a line, in its order. */
export interface LinePage<T> {
  readonly jobs: readonly T[];
  /** Where to read on; absent at the line's end. */
  readonly next?: string | undefined;
}

/** Heads of a line. */
export type Heads = LinePage<JobHead>;

/** What became of a request to cancel. */
export type CancelOutcome =
  /** It was waiting, or claimed and not started: it will not run. */
  | { readonly kind: 'cancelled'; readonly job: Job }
  /** It runs: its worker is told, and decides by finishing. */
  | { readonly kind: 'requested'; readonly job: Job }
  /** It had reached its end before. */
  | { readonly kind: 'ended'; readonly job: Job }
  | { readonly kind: 'missing' };

/** What became of a request to move a job to another time. */
export type RetimeOutcome =
  | { readonly kind: 'moved'; readonly job: Job }
  /** It still waits, but has moved on since it was read: promoted, or moved by somebody else. */
  | { readonly kind: 'superseded'; readonly job: Job }
  /** A worker was told of it, runs it, or has ended it. */
  | { readonly kind: 'tooLate'; readonly job: Job }
  | { readonly kind: 'missing' };

/** Whether a verb of one exact job version, claim or incarnation took effect. */
export type Applied = 'applied' | 'superseded';

/** Of each group of a blocked line, so many are read at most: the first is what runs next, the others are for lost claims. */
export const BLOCKED_HEADS = 4;

export interface JobStore {
  // Submitting

  /** Puts each job unless its id is there. Jobs stand in their line at once. */
  createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]>;
  /**
   * Adds a line to its key's set of lines with backlog. To be called before jobs are put into a line that may be new.
   *
   * @param keyTtlMs - a key that was last announced so long ago, or longer, stands in front of the keys line again: its ledger may
   *   have expired, and what it was charged must not hide it; null: ledgers do not expire
   */
  announceLines(
    partition: number,
    lines: readonly AnnouncedLine[],
    nowMs: number,
    keyTtlMs?: number | null,
  ): Promise<void>;
  /** Keeps a rejected request; the same source and position once. */
  recordRejections(rejections: readonly Rejection[]): Promise<void>;

  // Reading

  /**
   * Strongly consistent, in the order of the ids; undefined where there is none. `unreadable` hears of those that are
   * there and cannot be read, which are undefined too; without it, one is an error.
   */
  getJobs(ids: readonly string[], unreadable?: (id: string) => void): Promise<readonly (Job | undefined)[]>;
  listRejections(sourceId: string): Promise<readonly Rejection[]>;

  // The declaration

  /** The newest version, strongly consistent; 0 while nothing is declared. */
  readDeclaredVersion(): Promise<number>;
  /** A declaration, the newest unless a version is given, strongly consistent; undefined where there is none. */
  readDeclaration(version?: number): Promise<DeclarationRecord | undefined>;
  /**
   * Declares the version that follows `after` (0: the first), if that is the newest still. All earlier ones stay to be read:
   * what runs goes on under the one that it was claimed under.
   */
  putDeclaration(text: string, after: number, nowMs: number): Promise<DeclareOutcome>;
  /** Tells a partition of a version: every load shows it from now on. Never goes back, and never conflicts with who holds the lease. */
  announceDeclaration(partition: number, version: number): Promise<void>;

  // The partition's lease and wake counter

  /** Takes the lease if it is free or has expired: the epoch rises by one. */
  acquireLease(partition: number, holder: string, nowMs: number, leaseMs: number): Promise<LeaseOutcome>;
  /** Extends the lease, if the epoch is still the fence's. */
  renewLease(fence: Fence, nowMs: number, leaseMs: number): Promise<'renewed' | 'lost'>;
  /**
   * Gives the lease back, if the epoch is still the fence's. `wakesSeen` is noted for the next one: the wake counter up to
   * which everything was looked at. Without it, what was noted before stays.
   */
  releaseLease(fence: Fence, wakesSeen?: number): Promise<'released' | 'lost'>;
  /** The lease as it is, strongly consistent; undefined before the first one was taken. */
  readLease(partition: number): Promise<LeaseRecord | undefined>;
  /** Raises the wake counter. Never conflicts with a pass. */
  wake(partition: number): Promise<void>;
  /** The wake counter, strongly consistent; 0 before the first wake. */
  readWakes(partition: number): Promise<number>;

  // The pass

  /**
   * All the partition's reservations, workers and controls, strongly consistent. Workers as `workerAt` says. A worker that
   * cannot be read counts as living, without a slot, and a control that cannot be read as a pause of its scope. What holds
   * capacity and cannot be read is an error: nobody may decide without it.
   */
  loadPartition(partition: number, nowMs: number): Promise<PartitionState>;
  /**
   * Notes a look at the partition's workers, if nobody has noted another one since `seen` was read. So of several looks that
   * come at once, one goes on.
   */
  keepLookout(partition: number, seen: Lookout | undefined, next: Lookout): Promise<Applied>;
  /** Keys with backlog of a type, by settled cost; from the index, so it may lag. */
  readKeys(
    partition: number,
    type: string,
    limit: number,
    after?: string,
  ): Promise<{ readonly keys: readonly KeyBacklog[]; readonly next?: string | undefined }>;
  /** Strongly consistent, in the order of the keys; undefined for a key without backlog of this type. */
  readBacklogs(
    partition: number,
    type: string,
    fairnessKeys: readonly string[],
  ): Promise<readonly (KeyBacklog | undefined)[]>;
  /** Strongly consistent, in the order of the keys; undefined for a key never charged. */
  getLedgers(partition: number, fairnessKeys: readonly string[]): Promise<readonly (Ledger | undefined)[]>;
  /** In the order asked; undefined where nothing was learned. */
  getEstimates(
    partition: number,
    ids: readonly { readonly type: string; readonly resourceId: string }[],
  ): Promise<readonly (EstimateRecord | undefined)[]>;
  /** The first jobs of a ready line, in rank order; from the index, so it may lag. */
  readLine(partition: number, line: ReadyLine, limit: number, after?: string): Promise<Heads>;
  /**
   * Scheduled jobs of a shard (0 unless given) whose time has come, soonest first; from the index, so it may lag. With
   * `fromMs`, instead of `after`: those whose time came then or later.
   */
  readDue(
    partition: number,
    nowMs: number,
    limit: number,
    after?: string,
    shard?: number,
    fromMs?: number,
  ): Promise<Heads>;
  /**
   * Moves scheduled jobs whose time has come, at exactly their version, to their ready lines. Answers the new job, or
   * undefined for a lost race: its own success may read as one, where the answer got lost.
   */
  promote(jobs: readonly JobHead[], nowMs: number): Promise<readonly (Job | undefined)[]>;
  /**
   * Moves jobs at exactly their version to their ready lines in another partition, which were announced there before: pending
   * ones, wherever they stand, and scheduled ones whose time has come. Answers as `promote` does.
   */
  rehome(jobs: readonly JobHead[], partition: number, nowMs: number): Promise<readonly (Job | undefined)[]>;
  /** Applies a pass's decisions in one transaction, fenced by the epoch. */
  commit(fence: Fence, commit: Commit): Promise<'committed' | 'lost'>;
  /**
   * Does what the last commits left to do: takes away what is settled, and moves keys that this process has seen to
   * where their cost puts them in the keys line, as far as they are in the way. May be late or lost: it costs reads,
   * neither truth nor order.
   */
  tidy(partition: number): Promise<void>;
  /**
   * Notes that conflict keys have blocked lines from now on. Before any job is parked there, and after a commit that says
   * so (`parks`), or nobody looks for them. A call that comes late changes nothing: no mark is ever older than it was.
   */
  markParked(partition: number, conflictKeys: readonly string[], nowMs: number): Promise<void>;
  /** Which of these conflict keys may have a blocked line, strongly consistent. */
  readParked(partition: number, conflictKeys: readonly string[]): Promise<readonly ParkedMark[]>;
  /** Conflict keys that may have a blocked line, in an order of the store's own, strongly consistent. */
  listParked(
    partition: number,
    limit: number,
    after?: string,
  ): Promise<{ readonly marks: readonly ParkedMark[]; readonly next?: string | undefined }>;
  /** Takes a mark away whose blocked line was found empty, unless it was renewed since. */
  unmarkParked(partition: number, mark: ParkedMark): Promise<Applied>;
  /**
   * The first jobs of each group of a conflict key's blocked line, in rank order: at least one of each group, at most
   * `BLOCKED_HEADS`. A group is what stood in one ready line. Up to `groups` groups, after the cursor; `next` if others may follow.
   * From the index, so it may lag.
   */
  readBlocked(partition: number, conflictKey: string, groups: number, after?: string): Promise<Heads>;
  /**
   * Moves pending jobs at exactly their version to the blocked line of a conflict key, if the epoch is still the
   * fence's. They stay pending, at that version: whoever claims them need not know where they stand. Only after the
   * conflict key was marked.
   */
  park(fence: Fence, jobs: readonly JobHead[], conflictKey: string): Promise<readonly Applied[] | 'lost'>;
  /**
   * Moves parked jobs at exactly their version back to their ready lines, which were announced before. As with `promote`,
   * a success whose answer got lost may read as a lost race.
   */
  unpark(jobs: readonly JobHead[], conflictKey: string): Promise<readonly Applied[]>;
  /** Leaves a request with the partition that may grant it, in place of an earlier one of the same partition. A hint. */
  askForLoan(partition: number, request: LoanRequest): Promise<void>;
  /** Claims jobs, each by its own conditional write: pending at exactly the planned version. */
  claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]>;
  /** Strongly consistent, in the order of the conflict keys; undefined for one that is free. */
  readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]>;
  /**
   * Notes that a partition waits for a lock that is not open to it: whoever releases it wakes the partition. `open`: it is
   * by now, and nothing was noted.
   */
  awaitLock(conflictKey: string, partition: number, nowMs: number): Promise<'waiting' | 'open'>;
  /**
   * Gives a lock back that exactly this claim holds; the next of the partitions that wait for it has a turn until then.
   * Answers which: it is to be woken. Only once the claim's attempt is over; before the place that counts it is dropped.
   */
  releaseLock(
    conflictKey: string,
    partition: number,
    claimId: string,
    untilMs: number,
  ): Promise<{ readonly next?: number | undefined }>;
  /**
   * Raises the version of a pending job at exactly `version`, so that a late claim for it fails. With `given`, where the job
   * was read at that version, its history tells of the claim that never came.
   */
  raiseVersion(
    jobId: string,
    version: number,
    given?: GivenUp & { readonly job: Job },
  ): Promise<'raised' | 'lost'>;
  /**
   * Gives a claim back: claimed by exactly this claim, and not started. The job, as it was read under this claim, stands in
   * its ready line again, which was announced before, and its history tells of it. As with `promote`, a success whose answer got lost may read as a lost race.
   */
  giveBack(job: Job, claimId: string, nowMs: number): Promise<Applied>;
  /** Notes how far the partition's jobs were moved to where a declaration wants them, if the epoch is still the fence's. */
  noteCarried(fence: Fence, carried: Carried): Promise<'noted' | 'lost'>;
  /**
   * Ends an attempt whose worker is gone: running under exactly this claim.
   * `retry` counts a lost worker, not an attempt. As in `finishJob`, it cancels a job whose end was asked for.
   */
  loseWorker(job: Job, verdict: FinishVerdict, nowMs: number, expiresAtMs: number): Promise<FinishOutcome>;
  /** Takes a line out of a key's set, if nobody announced it since `announcedAtMs`. */
  retireLine(partition: number, line: AnnouncedLine, announcedAtMs: number): Promise<'retired' | 'lost'>;

  // The workers' side

  /**
   * Starts a job: claimed by exactly this claim. Answers it with its payload, and with the lease that the first start wrote.
   */
  startJob(request: StartRequest): Promise<StartOutcome>;
  /**
   * Ends an attempt: running under exactly this claim, worker and incarnation. A job whose end was asked for is not
   * tried again: `retry` cancels it.
   */
  finishJob(request: FinishRequest): Promise<FinishOutcome>;
  /** Keeps what a next attempt may go on from: running under exactly this claim, worker and incarnation. */
  saveCheckpoint(job: Job, worker: WorkerIdentity, checkpoint: Json): Promise<Applied>;
  /**
   * Keeps how far an attempt is, for whoever looks: running under exactly this claim, worker and incarnation. For a worker
   * without a record of its own.
   */
  saveProgress(job: Job, worker: WorkerIdentity, progress: Json): Promise<Applied>;
  /**
   * A process begins a life: writes its record unless a later incarnation is there (incarnations sort by their start).
   * Its former life is superseded from then on; what it runs may go on running until its record would have expired.
   */
  registerWorker(partition: number, record: WorkerRecord): Promise<Applied>;
  /**
   * Renews the record of exactly this incarnation: expiry, slots and occupants, in one write. One that comes late
   * changes nothing: the expiry never goes back.
   */
  heartbeat(partition: number, record: WorkerRecord): Promise<Applied>;
  /**
   * Takes the record of exactly this incarnation away, with all its slots. What is gone already is left alone. Only
   * after the last of its handlers has ended: from then on its jobs may run elsewhere.
   */
  deregisterWorker(partition: number, worker: WorkerIdentity): Promise<Applied>;

  // Dispatchers that run on

  /**
   * Writes, and later renews, the membership of exactly this incarnation, unless a later one of its name is there or it
   * has left. One that comes late changes nothing: the expiry never goes back.
   */
  keepDispatcher(record: DispatcherRecord): Promise<Applied>;
  /** Ends the membership of exactly this incarnation, for good: a renewal that comes late does not bring it back. */
  removeDispatcher(dispatcher: DispatcherIdentity): Promise<Applied>;
  /** All memberships that last, strongly consistent. */
  listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]>;

  // Operators

  /**
   * Ends a job that should not happen: at once while nobody runs it, else by asking its worker. `finishedAtMs` stays
   * that of the last attempt, if there was one: what it used is charged by it. Who asked first, and when, is kept.
   */
  cancelJob(jobId: string, nowMs: number, expiresAtMs: number, by?: string): Promise<CancelOutcome>;
  /**
   * Gives a waiting job at exactly its version another time, as the life cycle says: it stands in the due line, or, where
   * the time is past, in its ready line, which was announced before. Whatever was planned with the older time fails.
   * The job's history tells who moved it, and from when to when.
   */
  retimeJob(job: Job, runAtMs: number, nowMs: number, by?: string): Promise<RetimeOutcome>;
  /**
   * Changes what is named of a scope's control, and nothing else of it: of two operators who change different things in
   * the same moment, neither is lost; of two who change the same thing, one is superseded, unless it is as that one wants
   * it. So a change that comes late, again, or from a process that stood still, undoes no newer one. Answers the control as
   * it is then. The next pass obeys it; one that says nothing any more is not shown.
   */
  changeControl(partition: number, scope: string, change: ControlChange): Promise<ControlOutcome>;
  /**
   * Gives a partition a control that others have, unless somebody has changed that scope's control there before, if only to
   * end it.
   */
  adoptControl(partition: number, control: Control): Promise<Applied>;
  /**
   * Items that were found and could not be read, those of jobs by the partition in whose line they stood, as long as they
   * are there and cannot be read. At most 1,000.
   */
  listUnreadable(partition: number): Promise<readonly UnreadableItem[]>;
  /** Failed jobs that nobody has dealt with, latest first; from the index, so it may lag. */
  readDeadLetters(partition: number, limit: number, after?: string): Promise<LinePage<Job>>;
  /**
   * Makes a new job of a dead letter, once: the new job is put and the dead letter names it, together, with when that was
   * and who asked for it, as the new job says.
   */
  redrive(deadLetter: Job, job: Job): Promise<Applied>;
}
