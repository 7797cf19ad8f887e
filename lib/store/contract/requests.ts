/** Arguments of the store's verbs that are larger than a few fields, and their results. */
import {
  CONTROL_CHANGES_MAX,
  CONTROL_FIELDS,
  type Control,
  type ControlEntry,
  type ControlField,
  lastChange,
} from '../../core/capacity.ts';
import type { Claim, Job, MovingJob } from '../../core/job.ts';
import type { Loan, Return } from '../../core/lending.ts';
import type { PlannedClaim, Verdict } from '../../core/life-cycle.ts';
import type { Uses } from '../../core/limits.ts';
import type { MinuteCounts } from '../../core/statistics.ts';
import type { JobHead } from './job-fields.ts';
import type {
  DeclarationProgress,
  EstimateRecord,
  Leader,
  Ledger,
  NothingWaits,
  Observation,
  Rejection,
  Reservation,
  TagEntry,
  WorkerIdentity,
} from './records.ts';

/** The result of `createJobs` for one job. */
export type CreateOutcome =
  | { readonly kind: 'created'; readonly job: Job }
  /** A job with the same id and content exists, perhaps from an earlier try whose answer got lost. `job` is the existing one. */
  | { readonly kind: 'repeated'; readonly job: Job }
  /** A job with the same id and other content exists: `job`. */
  | { readonly kind: 'conflict'; readonly job: Job };

/**
 * The result of a declaration. `outdated`: another deployment has declared a version since `after`; `version` is the
 * newest.
 */
export type DeclareOutcome =
  | { readonly kind: 'declared'; readonly version: number }
  | { readonly kind: 'outdated'; readonly version: number };

/** The result of an attempt to lead. `led`: another dispatcher leads until `leader.untilMs`. */
export type LeadOutcome = { readonly kind: 'leading' } | { readonly kind: 'led'; readonly leader: Leader };

/**
 * An operator's change of a scope's control. An undefined part stays as it is; null removes it. A pause that is lifted
 * also ends a rest.
 */
export interface ControlChange extends Pick<ControlEntry, 'untilMs' | 'reason' | 'by'> {
  readonly paused?: boolean | undefined;
  readonly maxConcurrency?: number | null | undefined;
  readonly weight?: number | null | undefined;
}

/** Whether a control already has the values of a change, and until the same instant. */
export const alreadyHas = (control: Control, change: ControlChange): boolean =>
  CONTROL_FIELDS.every(
    (field) =>
      change[field] === undefined ||
      ((control[field] ?? null) === change[field] && lastChange(control, field)?.untilMs === change.untilMs),
  );

/** Returns the changes of one field of a control with one more, and without the oldest if there are too many. */
export function withChange(
  control: Control,
  field: ControlField,
  { [field]: to, untilMs, reason, by }: ControlChange,
  atMs: number,
): readonly ControlEntry[] {
  if (to === undefined) return (control.changes ?? []).filter((entry) => entry.field === field);
  const entry = {
    field,
    to,
    atMs,
    ...(untilMs === undefined ? {} : { untilMs }),
    ...(reason === undefined ? {} : { reason }),
    ...(by === undefined ? {} : { by }),
  };
  const before = (control.changes ?? []).filter((each) => each.field === field);
  const last = before.at(-1);
  // A change that repeats the last one is not added. Such a change comes from a call whose first answer was lost.
  const isRepeated = last?.to === to && last.untilMs === untilMs && last.reason === reason && last.by === by;
  return isRepeated ? before : [...before, entry].slice(-CONTROL_CHANGES_MAX);
}

/** Returns all changes of a control, in the order in which they were made. */
export const inOrder = (changes: readonly ControlEntry[]): readonly ControlEntry[] =>
  changes.toSorted((one, other) => one.atMs - other.atMs);

/** The result of a change of a control. */
export type ControlOutcome =
  | { readonly kind: 'changed'; readonly control: Control }
  /** Another operator has changed the same part since the call began. That change stays, and `control` shows it. */
  | { readonly kind: 'superseded'; readonly control: Control };

/**
 * The decisions of one pass. They are applied together or not at all, if the partition's version is still the one that was loaded. At most
 * `COMMIT_ITEMS_MAX` items. Estimates of single resources are written afterwards, and may get lost: they are hints.
 */
export interface Commit {
  /** The partition's version, as it was loaded or as the last commit left it. */
  readonly version: number;
  /** Positions to remove from reservations. A reservation is deleted with its last position. */
  readonly drop: readonly { readonly reservation: Reservation; readonly positions: readonly number[] }[];
  /** Reservations to check later. */
  readonly postpone: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[];
  readonly ledgers: readonly Ledger[];
  readonly estimates: readonly EstimateRecord[];
  /** New reservations. No other commit has made, or tried to make, one of the same batch with other jobs. */
  readonly reserve: readonly Reservation[];
  /**
   * With parking: whether any conflict key may have a blocked line from now on; undefined: unchanged. A commit must set it before the first
   * `markParked`.
   */
  readonly parks?: boolean | undefined;
  /** The observation from now on; undefined: it stays unchanged. */
  readonly observation?: Observation | undefined;
  /** The record that no job waits, as far as passes were notified; null: some may wait. Undefined: unchanged. */
  readonly quiet?: NothingWaits | null | undefined;
  /** See `PartitionState`; undefined: unchanged. The store keeps the later of the stored value and this one. */
  readonly unseenUntilMs?: number | undefined;
  /** The partition's `uses`, once the attempts at the dropped positions are counted; undefined: unchanged. */
  readonly uses?: Uses | undefined;
  /** With statistics: what the commit counts, for its minute; undefined: nothing. A later minute replaces the counts of an earlier one. */
  readonly counts?: MinuteCounts | undefined;
  /** With declaring: the progress of moving jobs for a new declaration; undefined: unchanged. */
  readonly carried?: DeclarationProgress | undefined;
  /** With lending: capacity that the partition lends from now on. This grants the borrowers' requests. */
  readonly lend?: readonly Loan[] | undefined;
  /** With lending: loans to the partition that end, or get smaller. */
  readonly giveBack?: readonly Return[] | undefined;
}

/** The result of a commit. `lost`: another commit came first, and this one has changed nothing. */
export type CommitOutcome = 'committed' | 'lost';

/** The results of parking jobs, and the partition's version afterwards. `lost`: another commit came first. */
export type ParkOutcome =
  | { readonly kind: 'parked'; readonly version: number; readonly outcomes: readonly Applied[] }
  | { readonly kind: 'lost' };

/** A planned claim of one job for one position of a reservation. */
export interface ClaimRequest extends Claim {
  readonly jobId: string;
  /** The claim is won only if the job is pending at exactly this version. */
  readonly version: number;
  /**
   * With locks, for a job whose conflict key may have jobs in other partitions: the claim is won only together with the
   * key's lock.
   */
  readonly lock?: { readonly conflictKey: string; readonly partition: number } | undefined;
}

/**
 * The results of claims, in the order of the requests. `unknown`: no answer arrived, so the reservation must be kept. `blocked`: the job
 * could be claimed, its lock could not. Unlike a lost claim, a repetition of this request may still win. So its position may be dropped
 * only after the job's version was raised.
 */
export type ClaimOutcome = 'claimed' | 'lost' | 'blocked' | 'unknown';

/** A job and one of its claims: the content of a message to a worker, and the condition of a start. */
export type ClaimedJob = Pick<ClaimRequest, 'jobId' | 'claimId'>;

export interface StartRequest extends ClaimedJob, WorkerIdentity {
  /** Set if the job was not claimed when the message was sent: the start then claims it in the same write. */
  readonly toClaim?: PlannedClaim | undefined;
  /**
   * The handler must not begin after this instant, by the worker's clock, because the rate would not count the start
   * any more. Undefined: no rate counts it.
   */
  readonly startByMs?: number | undefined;
  readonly nowMs: number;
  /**
   * The attempt's lease: after this instant, by the worker's clock, the attempt certainly runs no more. Undefined: the worker is a process,
   * whose record holds the lease.
   */
  readonly runUntilMs?: number | undefined;
}

export type StartOutcome =
  | { readonly kind: 'started'; readonly job: Job }
  /** The message was a duplicate or outdated: this claim does not hold the job any more, and never will again. */
  | { readonly kind: 'superseded' };

export interface FinishRequest extends WorkerIdentity {
  /** The job as `startJob` returned it. */
  readonly job: MovingJob;
  /** How the attempt ended, with its result or error. */
  readonly verdict: Verdict;
  readonly nowMs: number;
  /** When the job may be garbage collected, if it has ended. */
  readonly expiresAtMs: number;
}

export type FinishOutcome =
  | { readonly kind: 'finished'; readonly job: MovingJob }
  | { readonly kind: 'superseded' };

/** A part of a line, in its order. */
export interface LinePage<T> {
  readonly jobs: readonly T[];
  /** The cursor of the next read; absent at the end of the line. */
  readonly next?: string | undefined;
}

export interface RejectionPage {
  readonly rejections: readonly Rejection[];
  /** The cursor of the next read; absent at the end. */
  readonly next?: string | undefined;
}

/** A part of the entries of a tag. */
export interface TagPage {
  readonly entries: readonly Pick<TagEntry, 'jobId' | 'submittedAtMs'>[];
  /** The cursor of the next read; absent at the end. */
  readonly next?: string | undefined;
}

/** Heads of a line. */
export type Heads = LinePage<JobHead>;

/** The result of a request to cancel. */
export type CancelOutcome =
  /** The job was waiting, or claimed and not started: it will not run. */
  | { readonly kind: 'cancelled'; readonly job: Job }
  /** The job runs: its worker is asked to stop, and ends the attempt. */
  | { readonly kind: 'requested'; readonly job: Job }
  /** The job had ended before. */
  | { readonly kind: 'ended'; readonly job: Job }
  | { readonly kind: 'missing' };

/** The result of a request to retime a job. */
export type RetimeOutcome =
  | { readonly kind: 'moved'; readonly job: Job }
  /** The job still waits, but has changed since it was read: it was promoted or retimed. */
  | { readonly kind: 'superseded'; readonly job: Job }
  /** A worker was sent the job, runs it, or has ended it. */
  | { readonly kind: 'tooLate'; readonly job: Job }
  | { readonly kind: 'missing' };

/** Whether a write took effect that is conditional on a version, a claim or an incarnation. */
export type Applied = 'applied' | 'superseded';

/**
 * The most jobs that are read of each group of a blocked line: the first one starts next, and the others replace it if its claim is
 * lost.
 */
export const BLOCKED_HEADS = 4;
export const NOBODY: ReadonlySet<string> = new Set();
/** How many jobs of a blocked line one query reads: about what one read unit pays for. */
export const BLOCKED_READ = 12;
