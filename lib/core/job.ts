/**
 * What a job is. Every field says its meaning, its unit and who writes it.
 * Instants are epoch milliseconds, durations and costs milliseconds.
 */

/** Where a job is in its life; the legal edges are in `life-cycle.ts`. */
export type JobState = 'scheduled' | 'pending' | 'claimed' | 'running' | 'succeeded' | 'failed' | 'cancelled';

/** `queued`: the scheduler chooses when. `onDemand`: somebody waits for the answer. */
export const JOB_MODES = ['queued', 'onDemand'] as const;
export type JobMode = (typeof JOB_MODES)[number];

/** JSON, as it travels in events and results. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** What the planner knows of a job that waits in a line. */
export interface WaitingJob {
  readonly id: string;
  readonly type: string;
  /** 0 (least) to 10. */
  readonly priority: number;
  readonly mode: JobMode;
  readonly fairnessKey: string;
  /** With the type's non-empty conflict group it makes the conflict key. */
  readonly resourceId?: string | undefined;
  /** When the job became ready to run: its age counts from here. */
  readonly readyAtMs: number;
  /** Raised by every transition; a claim names the version it was planned at. */
  readonly version: number;
  /** 1 for the first attempt. Lost workers are counted apart. */
  readonly attempt: number;
}

/** What one admitted job holds until it is settled: an entry of a reservation. */
export interface ReservedJob extends Pick<WaitingJob, 'id' | 'version' | 'attempt' | 'type' | 'fairnessKey'> {
  readonly tier: string;
  /** See `conflictKeyUnder`; undefined where nothing excludes the job. */
  readonly conflictKey?: string | undefined;
  /** Of a job without a conflict key: its type may be given a conflict group while it runs. */
  readonly resourceId?: string | undefined;
  readonly fleet: string;
  /** Charged to the fairness key at admission, corrected at settlement. */
  readonly estimatedCostMs: number;
}

/** A job's claim: it was won for one place of one reservation. */
export interface Claim {
  /** The batch and the position in it: unique. */
  readonly claimId: string;
  readonly batchId: string;
  readonly fleet: string;
  readonly claimedAtMs: number;
  /** The version of the declaration whose terms hold for the attempt; undefined: nothing was declared. */
  readonly declared?: number | undefined;
}

/** Why a job failed, or did not happen. */
export interface JobError {
  /** Stable, for rules: the error's own name, or one of `WorkerLost`, `WorkerStopped`, `JobQuarantined`, `JobTimeout`, `JobUnreadable`. */
  readonly name: string;
  /** Of what was thrown, and of its causes. */
  readonly message: string;
  /**
   * Where what was thrown came from: its first frames, then its causes with theirs, a line each, at most 4 KB. Kept with the attempt:
   * of one that another follows, in the job's history.
   */
  readonly stack?: string | undefined;
}

/** Of what stands beside a job's error, as JSON in UTF-8. An attempt that fails is billed up to four write units for it. */
export const ERROR_STACK_BYTES_MAX = 4_096;

/** An error without what is kept with its attempt. */
export const withoutStack = ({ name, message }: JobError): JobError => ({ name, message });

/** An attempt that is over, and that the job's own fields do not tell of any more, or do not tell in full. */
export interface AttemptEntry {
  readonly kind: 'attempt';
  readonly attempt: number;
  readonly claimId: string;
  readonly fleet: string;
  readonly claimedAtMs: number;
  readonly workerId: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number;
  /**
   * `failed`: its handler did, or did not stop when its time was over. `lost`: its worker is gone. `released`: its worker ended in order, and
   * gave it back.
   */
  readonly outcome: 'failed' | 'lost' | 'released';
  /** Why; cut to a bounded size. */
  readonly error?: JobError | undefined;
  /** When the job was to be tried again, and whether anew or from its checkpoint; absent: it was not. */
  readonly next?: { readonly runAtMs: number; readonly isFromStart: boolean } | undefined;
}

/** Somebody gave it another time. */
export interface MovedEntry {
  readonly kind: 'moved';
  readonly atMs: number;
  readonly by?: string | undefined;
  readonly fromMs: number;
  readonly toMs: number;
}

/** A place was reserved for it, and nobody claimed it for that; another dispatcher gave the place up. */
export interface NotClaimedEntry {
  readonly kind: 'notClaimed';
  readonly atMs: number;
  /** The claim that never came. */
  readonly claimId: string;
}

/** Its claim was given back before anybody started it: the fleet that it was claimed for is not declared any more. */
export interface GivenBackEntry {
  readonly kind: 'givenBack';
  readonly atMs: number;
  readonly claimId: string;
  readonly fleet: string;
}

export type HistoryEntry = AttemptEntry | MovedEntry | NotClaimedEntry | GivenBackEntry;

/** Entries that gave way to later ones. */
export interface DroppedEntries {
  /** Attempts, lost ones included. */
  readonly attempts: number;
  readonly losses: number;
  readonly others: number;
}

/** What is kept beside a job's own fields. */
export interface History {
  /** The oldest first. */
  readonly entries: readonly HistoryEntry[];
  /** The claim of the last attempt that was written down here. */
  readonly lastClaimId?: string | undefined;
  readonly dropped: DroppedEntries;
}

/**
 * What moves of a job: all but what its producer sent for the handler, which no transition touches. A store bills a transition by
 * the size of what it is written to, so that may stand apart, and whoever moves jobs does not read it.
 */
export interface MovingJob extends WaitingJob {
  /** The shard whose single writer schedules this job. */
  readonly partition: number;
  readonly state: JobState;
  /** Of what the producer asked for: tells a repeated submit from a conflicting one. */
  readonly contentHash: string;
  /** Never started before this instant. */
  readonly runAtMs: number;
  readonly submittedAtMs: number;
  /** When the job first became ready; absent as long as that is `readyAtMs`. */
  readonly firstReadyAtMs?: number | undefined;
  /** Workers lost while they ran this job; does not count as an attempt's failure. */
  readonly workersLost: number;
  /** Present from `claimed` on; kept in the terminal state to say who did it. */
  readonly claim?: Claim | undefined;
  /** The worker and its incarnation, from `running` on. */
  readonly worker?: { readonly workerId: string; readonly incarnation: string } | undefined;
  readonly startedAtMs?: number | undefined;
  /**
   * After this instant the attempt certainly runs no more, by its worker's clock: the end of its function, and room. Written by
   * the start; absent where the worker's own record says how long it may run.
   */
  readonly runUntilMs?: number | undefined;
  readonly finishedAtMs?: number | undefined;
  /**
   * Why the attempt is given up though its handler goes on: it did not stop when its time was over. What follows comes once its worker is gone,
   * by `retry`. Written by the worker or its guard; absent from the end of the attempt on.
   */
  readonly hung?: JobError | undefined;
  /** What the handler returned. */
  readonly result?: Json | undefined;
  readonly error?: JobError | undefined;
  /** What the last attempt left for the next one to go on from. */
  readonly checkpoint?: Json | undefined;
  /** How far the attempt is, as its handler said last, where no worker's record says it. */
  readonly progress?: Json | undefined;
  /** Somebody asked for the end of this job first; the worker of a running one decides by finishing. */
  readonly cancelRequestedAtMs?: number | undefined;
  /** Who did, as far as they said. */
  readonly cancelRequestedBy?: string | undefined;
  /** Where the job was then. */
  readonly cancelRequestedIn?: JobState | undefined;
  /** The trace that it belongs to, as its producer gave it: see `trace.ts`. No part of its content. */
  readonly traceparent?: string | undefined;
  /** What its producer wrote on it, for people who look at it; nothing is decided by it. */
  readonly label?: string | undefined;
  /** The schedule whose firing made it. */
  readonly scheduleId?: string | undefined;
  /** The dead letter of which this job is another try. */
  readonly redriveOf?: string | undefined;
  /** Who asked for this other try, as far as they said. */
  readonly redriveBy?: string | undefined;
  /** The job that was made of this dead letter. */
  readonly redrivenAs?: string | undefined;
  /** When that was asked for. */
  readonly redrivenAtMs?: number | undefined;
  /** Who asked for it, as far as they said. */
  readonly redrivenBy?: string | undefined;
  /** What the next transitions would have written over; absent as long as there was nothing. See `historyOf`. */
  readonly history?: History | undefined;
  /**
   * Why its record cannot be read in full: what is wrong is left out, and the job is not run. By the store, when it reads;
   * never written.
   */
  readonly unreadable?: string | undefined;
}

/** A job as the store keeps it. */
export interface Job extends MovingJob {
  readonly payload: Json;
}

/** UTF-8 bytes. */
export const JOB_ID_BYTES_MAX = 256;

/** Whether a text may be the id of a job: what came in a message or a letter may be anything, and a table looks nothing up by it. */
export const isJobId = (text: string): boolean =>
  text !== '' && text.isWellFormed() && new TextEncoder().encode(text).byteLength <= JOB_ID_BYTES_MAX;

/** Priority's range: 0 is the least, 10 the most urgent. */
export const PRIORITY_MIN = 0;
export const PRIORITY_MAX = 10;

/** How long a terminal job is kept: long enough to look at, and to redrive. */
export const TERMINAL_TTL_MS = 7 * 24 * 3_600_000;

/** A job in one of these asks for a pass, or for the event of its end: the stream tells dispatchers of these, and of no start. */
export const AWAITED_STATES = [
  'pending',
  'scheduled',
  'succeeded',
  'failed',
  'cancelled',
] as const satisfies JobState[];
const awaited: ReadonlySet<JobState> = new Set(AWAITED_STATES);
export const isAwaited = ({ state }: Pick<MovingJob, 'state'>): boolean => awaited.has(state);

/** States that nothing leaves. */
export function isTerminal(state: JobState): boolean {
  return state === 'succeeded' || state === 'failed' || state === 'cancelled';
}

/** Characters of a nonce: 41 bits. */
const NONCE_CHARS = 8;

/** Text that two dispatchers do not choose both. */
export const nonceFrom = (random: () => number): string =>
  Math.floor(random() * 36 ** NONCE_CHARS)
    .toString(36)
    .padStart(NONCE_CHARS, '0');

/**
 * A batch's name: the partition summary's version that the batch follows, a nonce of the pass, and the batch's number in its commit, below
 * 36. The nonce tells apart what two dispatchers put for the same version, of which one commits; and what a restored table, whose version
 * has gone back, makes anew. A worker that serves several partitions tells claims apart by their ids alone.
 */
export const batchIdOf = (partition: number, version: number, nonce: string, number: number): string =>
  `${version}-${nonce}${number.toString(36)}${partition === 0 ? '' : `@${partition}`}`;

/** The partition that made a claim. */
export const partitionOfClaim = (claimId: string): number => Number(/@(\d+)\./.exec(claimId)?.[1] ?? 0);

export const claimIdOf = (batchId: string, position: number): string => `${batchId}.${position}`;

/** Whether a text may be the id of a claim: what came in a message may be anything. */
export const isClaimId = (text: string): boolean => /^\d+-[0-9a-z]{9}(@\d+)?\.\d+$/.test(text);

/** The batch of a claim. */
export const batchOfClaim = (claimId: string): string => claimId.slice(0, claimId.lastIndexOf('.'));
