/**
 * The fields of a job, each with its meaning, its unit and its writer. Instants are epoch milliseconds, durations and
 * costs milliseconds.
 */

/** The state of a job. `life-cycle.ts` has the legal transitions. */
export type JobState =
  | 'scheduled'
  | 'pending'
  | 'claimed'
  | 'running'
  | 'succeeded'
  | 'failed'
  | 'cancelled'
  | 'expired';

/** The states that no transition leaves. */
export const END_STATES = [
  'succeeded',
  'failed',
  'cancelled',
  'expired',
] as const satisfies readonly JobState[];
export type EndState = (typeof END_STATES)[number];

/** `queued`: the scheduler chooses when to run the job. `onDemand`: a caller waits for the result. */
export const JOB_MODES = ['queued', 'onDemand'] as const;
export type JobMode = (typeof JOB_MODES)[number];

/** JSON, as events and results carry it. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** Further keys of a job by their names, such as `{ org: 'acme' }`. Limits that are declared with `keyedBy` count by them. */
export type JobKeys = Readonly<Record<string, string>>;

/** The units of a job by the names of limits, such as `{ openai: 1200 }`. Rates that count units add them up. */
export type JobUnits = Readonly<Record<string, number>>;

/** Names with values that a producer gives a job, to find it by. */
export type Tags = Readonly<Record<string, string>>;

/** Steps of a handler by their names. `value` is absent if the step gave none. */
export type DoneSteps = Readonly<Record<string, { readonly value?: Json }>>;

/** The fields that the planner knows of a job in a line. */
export interface WaitingJob {
  readonly id: string;
  readonly type: string;
  /** 0 is the least urgent, 10 the most. */
  readonly priority: number;
  readonly mode: JobMode;
  readonly fairnessKey: string;
  /** With the type's non-empty conflict group it makes the conflict key. */
  readonly resourceId?: string | undefined;
  /** Absent without any. */
  readonly keys?: JobKeys | undefined;
  /** Absent without any. */
  readonly units?: JobUnits | undefined;
  /** When the job became ready to run; its age counts from here. */
  readonly readyAtMs: number;
  /** Incremented by every transition. A claim names the version for which it was planned. */
  readonly version: number;
  /** 1 for the first attempt. Lost workers are counted in `workersLost`. */
  readonly attempt: number;
  /** The job ends as `expired` unless it has started before this instant; absent: never, or it has started. */
  readonly expireAtMs?: number | undefined;
}

/** The capacity that one admitted job holds until it is settled: an entry of a reservation. */
export interface ReservedJob extends Pick<WaitingJob, 'id' | 'version' | 'attempt' | 'type' | 'fairnessKey'> {
  readonly tier: string;
  /** See `conflictKeyFor`; undefined if nothing excludes the job. */
  readonly conflictKey?: string | undefined;
  /** Set for a job without a conflict key, because its type may get a conflict group while it runs. */
  readonly resourceId?: string | undefined;
  readonly fleet: string;
  /** The job's keys, because its type may come under a limit that counts by them while it runs. */
  readonly keys?: JobKeys | undefined;
  /** The limits of its type when it was reserved; absent: none. It counts in these, and in those that its type has now. */
  readonly limits?: readonly string[] | undefined;
  /** Its units in those of these limits whose rates count units, also where the job names none. */
  readonly units?: JobUnits | undefined;
  /**
   * When its message loses its effect, in epoch ms: its worker starts it until then. Absent: no rate counted its start
   * when it was reserved, so it may start at any time.
   */
  readonly startByMs?: number | undefined;
  /** The cost that is charged to the fairness key at admission. Settlement corrects it. */
  readonly estimatedCostMs: number;
}

/** The claim of a job: it assigns the job to one entry of one reservation. */
export interface Claim {
  /** The id of the batch and the job's position in it. No other claim has the same. */
  readonly claimId: string;
  readonly batchId: string;
  readonly fleet: string;
  readonly claimedAtMs: number;
  /** The version of the declaration whose terms apply to the attempt; undefined: there was no declaration. */
  readonly declared?: number | undefined;
}

/** Why a job failed or did not run. */
export interface JobError {
  /**
   * A stable name for retry rules: the error's own, or one of `WorkerLost`, `WorkerStopped`, `JobQuarantined`,
   * `JobTimeout`, `JobUnreadable`.
   */
  readonly name: string;
  /** The messages of the thrown error and of its causes. */
  readonly message: string;
  /**
   * The stack of the thrown error: its first frames, then its causes with theirs, one line each, at most 4 KB. It is
   * kept with the attempt, in the job's history once another attempt follows.
   */
  readonly stack?: string | undefined;
}

/** The most bytes of a stack, as JSON in UTF-8. A failed attempt is billed up to four write units for it. */
export const ERROR_STACK_BYTES_MAX = 4_096;

/** Returns the error without its stack. */
export const withoutStack = ({ name, message }: JobError): JobError => ({ name, message });

/** A finished attempt that the job's own fields do not describe any more, or not in full. */
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
   * `failed`: the handler failed, or did not stop at its timeout. `lost`: the worker is gone. `released`: the worker
   * shut down and gave the attempt back. `rested`: the handler asked for a cool-down. `parked`: the handler parked the
   * job.
   */
  readonly outcome: 'failed' | 'lost' | 'released' | 'rested' | 'parked';
  /** The reason, cut to a bounded size. */
  readonly error?: JobError | undefined;
  /** When the job was to run again, and whether anew or from its checkpoint; absent: it was not to run again. */
  readonly next?: { readonly runAtMs: number; readonly isFromStart: boolean } | undefined;
}

/** The job was moved to another time. */
export interface MovedEntry {
  readonly kind: 'moved';
  readonly atMs: number;
  readonly by?: string | undefined;
  readonly fromMs: number;
  readonly toMs: number;
}

/** The job got another priority. */
export interface PriorityEntry {
  readonly kind: 'priority';
  readonly atMs: number;
  readonly by?: string | undefined;
  readonly from: number;
  readonly to: number;
}

/** The job was reserved and never claimed, and a dispatcher gave up its entry of the reservation. */
export interface NotClaimedEntry {
  readonly kind: 'notClaimed';
  readonly atMs: number;
  /** The id of the claim that was never made. */
  readonly claimId: string;
}

/** The job's claim was given back before it was started, because its fleet is not declared any more. */
export interface GivenBackEntry {
  readonly kind: 'givenBack';
  readonly atMs: number;
  readonly claimId: string;
  readonly fleet: string;
}

export type HistoryEntry = AttemptEntry | MovedEntry | PriorityEntry | NotClaimedEntry | GivenBackEntry;

/** Counts of entries that were dropped for later ones. */
export interface DroppedEntries {
  /** Attempts, including lost ones. */
  readonly attempts: number;
  readonly losses: number;
  readonly others: number;
}

/** The history kept with a job's own fields. */
export interface History {
  /** The oldest first. */
  readonly entries: readonly HistoryEntry[];
  /** The claim id of the last attempt in this history. */
  readonly lastClaimId?: string | undefined;
  readonly dropped: DroppedEntries;
}

export const DEDUPE_KEEPS = ['first', 'last'] as const;
export const WHILE_RUNNING = ['another', 'oneWaits', 'drop'] as const;

/** How a request is deduplicated, with defaults filled in. A job has that of the request that made it. */
export interface Dedupe {
  readonly key: string;
  /** `first`: the waiting job keeps its payload. `last`: it gets that of the newest request. */
  readonly keep: (typeof DEDUPE_KEEPS)[number];
  /** Each request moves the waiting job: its time is then so long after the request. */
  readonly quietMs?: number | undefined;
  /** The latest time to which requests move the job: so long after the request that made it. */
  readonly atMostMs?: number | undefined;
  /**
   * What a request makes if a job of the key was claimed, runs, or waits for its retry. `another`: a job that may run beside it.
   * `oneWaits`: a job that waits for its end. `drop`: none.
   */
  readonly whileRunning: (typeof WHILE_RUNNING)[number];
}

/**
 * The part of a job that transitions read and write: all but its payload, which only a deduplicated request changes, while the job waits. A store bills a
 * transition by the size of the item, so the payload may be stored apart, and transitions do not read it.
 */
export interface MovingJob extends WaitingJob {
  /** The partition that schedules this job. */
  readonly partition: number;
  readonly state: JobState;
  /** A hash of the producer's request. It tells a repeated submit from a conflicting one. */
  readonly contentHash: string;
  /** The job never starts before this instant. */
  readonly runAtMs: number;
  readonly submittedAtMs: number;
  /** How its request was deduplicated; absent: it was not. */
  readonly dedupe?: Dedupe | undefined;
  /**
   * The last requests that this job stands for, beside its own, or that an earlier job of its dedupe key stood for: the id of each, and the
   * beginning of its content's hash.
   */
  readonly merged?: readonly string[] | undefined;
  /** When the job first became ready; absent as long as that equals `readyAtMs`. */
  readonly firstReadyAtMs?: number | undefined;
  /** Workers lost while they ran this job. They do not count as failed attempts. */
  readonly workersLost: number;
  /** Present from `claimed` on. It stays in the terminal state to record who ran the job. */
  readonly claim?: Claim | undefined;
  /** The worker and its incarnation, from `running` on. */
  readonly worker?: { readonly workerId: string; readonly incarnation: string } | undefined;
  readonly startedAtMs?: number | undefined;
  /**
   * After this instant the attempt has certainly ended, by its worker's clock: the end of its function, plus a margin.
   * Written by the start; absent if the worker's own record limits its run time.
   */
  readonly runUntilMs?: number | undefined;
  readonly finishedAtMs?: number | undefined;
  /**
   * The attempt's error, if its handler did not stop at its timeout. Once its worker is gone, `retry` decides on the
   * next attempt. Written by the worker or its guard; absent from the end of the attempt on.
   */
  readonly hung?: JobError | undefined;
  /** The return value of the handler. */
  readonly result?: Json | undefined;
  readonly error?: JobError | undefined;
  /** The data that the handler saved last, so that the next attempt can continue from there. */
  readonly checkpoint?: Json | undefined;
  /** The values of the handler's steps that are done, by their names. Every later attempt has them. */
  readonly steps?: DoneSteps | undefined;
  /** The state that the handler gave when it last parked the job, null for none; absent: it never did. */
  readonly parkedState?: Json | undefined;
  /** The last progress that the handler reported; absent if the worker's record has it. */
  readonly progress?: Json | undefined;
  /** When the job was first asked to stop. The worker of a running job decides by finishing it. */
  readonly cancelRequestedAtMs?: number | undefined;
  /** The name of the person or tool that first asked the job to stop, if it was given. */
  readonly cancelRequestedBy?: string | undefined;
  /** The state of the job when it was first asked to stop. */
  readonly cancelRequestedIn?: JobState | undefined;
  /**
   * The trace that the job belongs to, as its producer gave it: see `trace.ts`. It is not part of the job's content.
   */
  readonly traceparent?: string | undefined;
  /** A text of the producer for people who look at the job. It affects no decision. */
  readonly label?: string | undefined;
  /** Names with values by which people and programs find the job; absent without any. They affect no decision. */
  readonly tags?: Tags | undefined;
  /** Its type's `listFinished` when the job was made: the job can be listed once it has succeeded, was cancelled or expired. */
  readonly listFinished?: boolean | undefined;
  /** The schedule whose firing made the job. */
  readonly scheduleId?: string | undefined;
  /** The dead letter that this job retries. */
  readonly redriveOf?: string | undefined;
  /** The name of the person or tool that requested the redrive which made this job, if it was given. */
  readonly redriveBy?: string | undefined;
  /** The id of the job that retries this dead letter. */
  readonly redrivenAs?: string | undefined;
  /** When the redrive of this dead letter was requested. */
  readonly redrivenAtMs?: number | undefined;
  /** The name of the person or tool that requested the redrive of this dead letter, if it was given. */
  readonly redrivenBy?: string | undefined;
  /** Entries that later transitions would have overwritten; absent if there are none. See `historyOf`. */
  readonly history?: History | undefined;
  /**
   * Why the item cannot be read in full. The wrong fields are left out, and the job is not run. Set by the store when
   * it reads; never written.
   */
  readonly unreadable?: string | undefined;
}

/** A job with its payload. */
export interface Job extends MovingJob {
  readonly payload: Json;
}

/** The longest job id, in UTF-8 bytes. */
export const JOB_ID_BYTES_MAX = 256;

/**
 * Whether a text may be the id of a job. A message or a letter may contain any text, and a store rejects lookups by
 * other texts.
 */
export const isJobId = (text: string): boolean =>
  text !== '' && text.isWellFormed() && new TextEncoder().encode(text).byteLength <= JOB_ID_BYTES_MAX;

/** The range of priorities: 0 is the least urgent, 10 the most. */
export const PRIORITY_MIN = 0;
export const PRIORITY_MAX = 10;

/** How long a terminal job is kept, so that it can be inspected and redriven. */
export const TERMINAL_TTL_MS = 7 * 24 * 3_600_000;

/**
 * States whose stream records reach dispatchers: a job in one of them needs a pass, or the event of its end. Starts are
 * not among them.
 */
export const NOTIFIED_STATES = [
  'pending',
  'scheduled',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
] as const satisfies JobState[];
const awaited: ReadonlySet<JobState> = new Set(NOTIFIED_STATES);
export const isNotified = ({ state }: Pick<MovingJob, 'state'>): boolean => awaited.has(state);

/** Whether no transition leaves the state. */
export function isTerminal(state: JobState): state is EndState {
  return (END_STATES as readonly JobState[]).includes(state);
}

/** When a job ended. A job that was cancelled while it waited keeps `finishedAtMs` of its last attempt. */
export const endedAtMs = ({
  finishedAtMs = 0,
  cancelRequestedAtMs = 0,
}: Pick<MovingJob, 'finishedAtMs' | 'cancelRequestedAtMs'>): number =>
  Math.max(finishedAtMs, cancelRequestedAtMs);

/** The fields of a waiting job that say since when it waits. */
export type Waited = Pick<Job, 'readyAtMs'> & Partial<Pick<Job, 'runAtMs' | 'finishedAtMs'>>;

/**
 * Since when a waiting job waits. A job that lost its worker, or was released or parked, keeps its `readyAtMs`, but it
 * waits again only since its last attempt ended, or since the time that was set then.
 */
export const waitsSinceMs = ({ readyAtMs, runAtMs = 0, finishedAtMs = 0 }: Waited): number =>
  Math.max(readyAtMs, runAtMs, finishedAtMs);

/** The characters of a nonce, which has 41 bits. */
const NONCE_CHARS = 8;

/** Returns a random text that two dispatchers will not both draw. */
export const nonceFrom = (random: () => number): string =>
  Math.floor(random() * 36 ** NONCE_CHARS)
    .toString(36)
    .padStart(NONCE_CHARS, '0');

/**
 * Returns the id of a batch: the version of the partition summary that the batch follows, a nonce of the pass, and the
 * batch's number in its commit, below 36. The nonce distinguishes batches that two dispatchers write for the same
 * version, of which only one commits, and batches that are written again for a version after the table was restored. A
 * worker that serves several partitions distinguishes claims by their ids alone.
 */
export const batchIdOf = (partition: number, version: number, nonce: string, number: number): string =>
  `${version}-${nonce}${number.toString(36)}${partition === 0 ? '' : `@${partition}`}`;

/** Returns the partition that made a claim. */
export const partitionOfClaim = (claimId: string): number => Number(/@(\d+)\./.exec(claimId)?.[1] ?? 0);

export const claimIdOf = (batchId: string, position: number): string => `${batchId}.${position}`;

/** Whether a text may be the id of a claim. A message may contain any text. */
export const isClaimId = (text: string): boolean => /^\d+-[0-9a-z]{9}(@\d+)?\.\d+$/.test(text);

export const batchOfClaim = (claimId: string): string => claimId.slice(0, claimId.lastIndexOf('.'));
