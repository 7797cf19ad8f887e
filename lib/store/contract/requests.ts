/** What the verbs of the store are asked, where that is more than a few words, and what they answer. */
import type { Control } from '../../core/capacity.ts';
import type { Claim, Job, MovingJob } from '../../core/job.ts';
import type { Loan, Return } from '../../core/lending.ts';
import type { PlannedClaim, Verdict } from '../../core/life-cycle.ts';
import type { JobHead } from './job-fields.ts';
import type { Rejection } from './records.ts';
import {
  type Attendance,
  type Carried,
  CONTROL_FIELDS,
  type EstimateRecord,
  type Leader,
  type Ledger,
  type Quiet,
  type Reservation,
  type WorkerIdentity,
} from './records.ts';

/** What `createJobs` did with one job. */
export type CreateOutcome =
  | { readonly kind: 'created'; readonly job: Job }
  /** The same id and content was there before, or was put by an earlier try whose answer got lost: `job` is that one. */
  | { readonly kind: 'repeated'; readonly job: Job }
  /** The id is taken by other content. */
  | { readonly kind: 'conflict'; readonly job: Job };

/** `outdated`: another deployment has declared something since `after`; this is the newest version. */
export type DeclareOutcome =
  | { readonly kind: 'declared'; readonly version: number }
  | { readonly kind: 'outdated'; readonly version: number };

/** `led`: another dispatcher leads until `leader.untilMs`. */
export type LeadOutcome = { readonly kind: 'leading' } | { readonly kind: 'led'; readonly leader: Leader };

/** What an operator changes of a scope's control; what is not named stays as it is, null takes it away. */
export interface ControlChange {
  readonly paused?: boolean | undefined;
  readonly maxConcurrency?: number | null | undefined;
  readonly weight?: number | null | undefined;
}

/** Whether a control is what a change makes of it. */
export const isAsAsked = (control: Control, change: ControlChange): boolean =>
  CONTROL_FIELDS.every((field) => change[field] === undefined || (control[field] ?? null) === change[field]);

/** What became of a change of a control. */
export type ControlOutcome =
  | { readonly kind: 'changed'; readonly control: Control }
  /** Somebody else has changed the same thing of it since the call began: theirs stands, and `control` shows it. */
  | { readonly kind: 'superseded'; readonly control: Control };

/**
 * What one pass decides, applied at once or not at all, if the partition's version is still the one that it loaded. At most 98 items. What
 * single resources cost is written behind it: hints, of which one may get lost.
 */
export interface Commit {
  /** The partition's version, as the load showed it or the last commit left it. */
  readonly version: number;
  /** Places to take out of a reservation; it is deleted when none is left. */
  readonly drop: readonly { readonly reservation: Reservation; readonly positions: readonly number[] }[];
  /** Reservations to look at again later. */
  readonly postpone: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[];
  readonly ledgers: readonly Ledger[];
  readonly estimates: readonly EstimateRecord[];
  /** Each of a batch that no other commit has made, or has tried to make with other jobs. */
  readonly reserve: readonly Reservation[];
  /** With parking: whether any conflict key may have a blocked line from now on; undefined: as it was. True before the first is marked. */
  readonly parks?: boolean | undefined;
  /** To be remembered; undefined: as it was. */
  readonly attendance?: Attendance | undefined;
  /** Whether anything waits from now on, by all that passes were told; `null`: it may. Undefined: as it was. */
  readonly quiet?: Quiet | null | undefined;
  /** See `PartitionState`; undefined: as it was. It never goes back. */
  readonly unseenUntilMs?: number | undefined;
  /** With declaring: how far jobs were moved to where the declaration wants them; undefined: as it was. */
  readonly carried?: Carried | undefined;
  /** With lending: capacity that the partition leaves to others from now on. Their requests are granted by that. */
  readonly lend?: readonly Loan[] | undefined;
  /** With lending: loans to the partition that end, or get smaller. */
  readonly giveBack?: readonly Return[] | undefined;
}

/** What became of a commit. `lost`: another one came first, and this one has changed nothing. */
export type CommitOutcome = 'committed' | 'lost';

/** What became of jobs that were to be parked, and the partition's version since. `lost`: another commit came first. */
export type ParkOutcome =
  | { readonly kind: 'parked'; readonly version: number; readonly outcomes: readonly Applied[] }
  | { readonly kind: 'lost' };

/** A planned claim of one job for one place of a reservation. */
export interface ClaimRequest extends Claim {
  readonly jobId: string;
  /** Won only if the job is pending at exactly this version. */
  readonly version: number;
  /** With locks, for a job whose conflict key may have jobs in other partitions: won only together with the key's lock. */
  readonly lock?: { readonly conflictKey: string; readonly partition: number } | undefined;
}

/**
 * What became of a claim, in the order of the requests. `unknown`: no answer; the reservation goes on counting.
 * `blocked`: the job could be won, its lock could not. Unlike a lost claim, a repetition of this one may still be won: what
 * counts the job may be given up only after its version was raised.
 */
export type ClaimOutcome = 'claimed' | 'lost' | 'blocked' | 'unknown';

/** A job, and which of its claims: what a worker is told, and what a start is conditional on. */
export type ClaimedJob = Pick<ClaimRequest, 'jobId' | 'claimId'>;

export interface StartRequest extends ClaimedJob, WorkerIdentity {
  /** The job was not claimed when its worker was told of it: the start does that, in the same write. */
  readonly toClaim?: PlannedClaim | undefined;
  readonly nowMs: number;
  /**
   * The attempt's lease: after this instant, by the worker's clock, it certainly runs no more. Undefined: its worker is a
   * process, whose record says how long it may run.
   */
  readonly runUntilMs?: number | undefined;
}

export type StartOutcome =
  | { readonly kind: 'started'; readonly job: Job }
  /** The message was a duplicate or outdated: the job is not claimed by this claim any more, and cannot be. */
  | { readonly kind: 'superseded' };

export interface FinishRequest extends WorkerIdentity {
  /** As `startJob` returned it. */
  readonly job: MovingJob;
  /** What it leaves behind. */
  readonly verdict: Verdict;
  readonly nowMs: number;
  /** When the terminal job may be collected. */
  readonly expiresAtMs: number;
}

export type FinishOutcome =
  | { readonly kind: 'finished'; readonly job: MovingJob }
  | { readonly kind: 'superseded' };

/** Some of a line, in its order. */
export interface LinePage<T> {
  readonly jobs: readonly T[];
  /** Where to read on; absent at the line's end. */
  readonly next?: string | undefined;
}

export interface RejectionPage {
  readonly rejections: readonly Rejection[];
  /** Where to read on; absent at the end. */
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
export const NOBODY: ReadonlySet<string> = new Set();
/** Jobs of a blocked line read at once: they fill about what one unit reads. */
export const BLOCKED_READ = 12;
