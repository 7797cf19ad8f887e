/** One attempt of one job: start, run, finish. The same for Lambda workers and for long-running ones. */

import type { JobTypeConfiguration, PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import {
  type Job,
  type JobError,
  type Json,
  type MovingJob,
  TERMINAL_TTL_MS,
  withoutStack,
} from '../core/job.ts';
import type { Verdict } from '../core/life-cycle.ts';
import { afterFailure, afterRelease, afterWorkerLost, hungError } from '../core/retry.ts';
import { withArticle } from '../core/spelling.ts';
import type { DeclarationState } from '../declaration/declaration.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import { LazyAbort } from '../runtime/abort.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import { type Instant, instantOf, sinceMs } from '../runtime/instant.ts';
import type { WorkerIdentity } from '../store/contract/records.ts';
import type { FinishOutcome } from '../store/contract/requests.ts';
import { type Deadlines, deadlinesBy, type Watch } from './attempt-host.ts';
import { AttemptError, type AttemptReason, isAttemptError, WorkerStoppedError } from './errors.ts';
import type { AttemptStore } from './retrying-store.ts';
import { jobErrorOf } from './thrown.ts';

/** What a handler is told beside its payload. */
export interface JobContext extends Pick<Job, 'type' | 'attempt' | 'fairnessKey' | 'resourceId'> {
  readonly jobId: string;
  /** The trace that the job belongs to (W3C Trace Context), as its producer gave it: begin a span under it, pass it on. */
  readonly traceparent?: string | undefined;
  /** Grows with every new claim of the job: lets a store of the user's refuse a superseded attempt. */
  readonly fencingToken: number;
  /**
   * Aborts when the attempt must end. Its `reason` is an error whose `name` says why: `JobTimeout` (its type's), or
   * `JobCancelled` (somebody asked for the job's end), `JobSuperseded` (another attempt holds the job), `WorkerStopped`
   * (the end of the worker: a result that comes soon still counts, else the job is tried again elsewhere).
   * Look at it, with `signal.throwIfAborted()`, right before each effect: a process that was stopped and goes on is told
   * by that look, before any event.
   */
  readonly signal: AbortSignal;
  /**
   * Says how far the job is, in at most 1 KB of JSON; what is more is dropped with a warning. A process records it with its
   * next heartbeat (where all its jobs say more than 100 KB, the longest are left out), a function on the job, at once and then
   * every 5 s at most: a write each.
   */
  readonly heartbeat: (progress: Json) => void;
  /**
   * Keeps what the next attempt may go on from, should this one not end. One write each: call it every few seconds, not
   * for every record.
   *
   * @throws AttemptError - `JobSuperseded`: this attempt does not hold the job any more: stop
   * @throws AttemptError - `CheckpointRefused`: it cannot be kept: it is not JSON, or has more than 64 KB
   */
  readonly checkpoint: (data: Json) => Promise<void>;
  /**
   * What the last checkpoint kept, of this attempt or an earlier one, when the attempt began. Where a worker was lost, only
   * types with `onWorkerLost: 'resume'` are given it; others begin anew.
   */
  readonly lastCheckpoint?: Json | undefined;
}

/** A user's function for one job type. What it returns is the job's result; what it throws fails the attempt. */
export type JobHandler = (payload: Json, context: JobContext) => Promise<Json | undefined> | Json | undefined;

export type JobHandlers = Readonly<Record<string, JobHandler>>;

export interface RunContext {
  readonly store: AttemptStore;
  readonly configuration: PoolConfiguration;
  /** What a type was declared to be under a version: an attempt keeps the terms that it was claimed under. */
  readonly typeUnder?: DeclarationState['typeUnder'] | undefined;
  /** The version that the worker began with, and when that was declared. */
  readonly declared?: number | undefined;
  readonly declaredAtMs?: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly worker: WorkerIdentity;
  /** How long the process lives, whatever happens in it; undefined if it may run on. */
  readonly life?: { readonly since: Instant; readonly lastsMs: number } | undefined;
  /** Aborts with the end of the worker: what is cut off goes back as a lost worker's, not as a failure. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Aborts `signal` if the worker's lease is over by now. Asked whenever a handler looks at its own signal, since the
   * timer that aborts it may be late.
   */
  readonly lookAtLease?: (() => void) | undefined;
  /** Shared by the attempts of a host. @default - this attempt's own */
  readonly deadlines?: Deadlines | undefined;
  /** Tells when a running job is not wanted any more. */
  readonly watch?: Watch | undefined;
  /** The job runs from here on: its message has done its work. */
  readonly onStarted?: ((job: Job) => void) | undefined;
  /**
   * The handler is about to begin, and ends within so long, or is given up as hanging. Answers what is to be called when it
   * has really ended.
   */
  readonly onHandling?: ((job: Job, endsInMs: number) => () => void) | undefined;
  readonly onProgress?: ((job: Job, progress: Json) => void) | undefined;
}

/** What all attempts of a host have in common: a function, or a process. */
export type HostContext = Pick<
  RunContext,
  'configuration' | 'typeUnder' | 'declared' | 'declaredAtMs' | 'clock' | 'random' | 'log'
>;

/**
 * `superseded`: the message was outdated, or the attempt lost its claim; nothing of it counts. `released`: the worker
 * ended before the handler did, and gave the job back.
 */
export type RunOutcome = 'succeeded' | 'failed' | 'retry' | 'cancelled' | 'released' | 'superseded';

const RESULT_BYTES_MAX = 64 * 1024;
const CHECKPOINT_BYTES_MAX = 64 * 1024;

interface Storable {
  readonly what: string;
  readonly bytesMax: number;
  /** For plain data, and for data that are too large. */
  readonly waysOut: readonly [string, string];
  readonly refused: AttemptReason;
}

const RESULT: Storable = {
  what: "the handler's result",
  bytesMax: RESULT_BYTES_MAX,
  waysOut: ['return plain data', 'store it elsewhere and return a reference'],
  refused: 'ResultRefused',
};

const CHECKPOINT: Storable = {
  what: 'the checkpoint',
  bytesMax: CHECKPOINT_BYTES_MAX,
  waysOut: ['keep plain data', 'store it elsewhere and keep a reference'],
  refused: 'CheckpointRefused',
};

/** What a handler gives, as it will be stored; refuses what JSON cannot hold. */
function storable(data: Json | undefined, { what, bytesMax, waysOut, refused }: Storable): Json {
  // Most handlers answer nothing.
  if (data === undefined || data === null) return null;
  let text: string | undefined;
  try {
    text = JSON.stringify(data);
  } catch (cause) {
    throw new AttemptError(refused, `${what} is not JSON: ${jobErrorOf(cause).message}; ${waysOut[0]}`);
  }
  if (text === undefined)
    throw new AttemptError(refused, `${what} is not JSON: ${withArticle(typeof data)}; ${waysOut[0]}`);
  const bytes = Buffer.byteLength(text, 'utf8');
  if (bytes > bytesMax)
    throw new AttemptError(
      refused,
      `${what} has ${bytes} bytes, at most ${bytesMax} are kept; ${waysOut[1]}`,
    );
  return JSON.parse(text) as Json;
}

/** How long a handler that was told to stop is waited for, unless its process ends before. */
export const STOP_GRACE_MS = 5_000;

/** How long a handler may run, and how long it is waited for when it was told to stop. */
interface AttemptTime {
  readonly timeoutMs: number;
  readonly graceMs: number;
}

/** What the handler threw, read once: nothing else looks at the value itself. */
class HandlerThrew {
  readonly failure: JobError;

  constructor(failure: JobError) {
    this.failure = failure;
  }
}

const tookTooLong = (timeoutMs: number): AttemptError =>
  new AttemptError(
    'JobTimeout',
    `the attempt took longer than ${Math.round(timeoutMs)} ms and was told to stop`,
  );

/** How a handler ended. */
type HandlerEnd =
  | { readonly kind: 'returned'; readonly result: Json | undefined }
  | { readonly kind: 'threw'; readonly failure: JobError };
const LATE = { kind: 'late' } as const;

/** What keeps a handler's checkpoints. One that the handler does not wait for ends no process when it fails: there are other jobs. */
function checkpointing(
  { store, worker, log }: RunContext,
  job: MovingJob,
  stop: (reason: Error) => void,
): JobContext['checkpoint'] {
  const save = async (data: Json): Promise<void> => {
    const checkpoint = storable(data, CHECKPOINT);
    if ((await store.saveCheckpoint({ job, worker, checkpoint })) === 'applied') return;
    const reason = new AttemptError('JobSuperseded', `job ${job.id} is not held by this attempt any more`);
    stop(reason);
    throw reason;
  };
  return (data) => {
    const saved = save(data);
    saved.catch((error: unknown) =>
      log.warn('a checkpoint was not kept', { jobId: job.id, error: String(error) }),
    );
    return saved;
  };
}

/**
 * Runs the handler within its time. Whatever it does after it was told to stop, the attempt ended for that reason; only
 * when the worker ends does a result that still comes count.
 */
async function attempt(
  context: RunContext,
  handlers: JobHandlers,
  job: Job,
  { timeoutMs, graceMs }: AttemptTime,
): Promise<Json> {
  const handler = Object.hasOwn(handlers, job.type) ? handlers[job.type] : undefined;
  if (handler === undefined) {
    const known = Object.keys(handlers).join(', ');
    throw new AttemptError(
      'MissingHandler',
      `this worker has no handler for the job type ${JSON.stringify(job.type)}; it has: ${known || 'none'}`,
    );
  }
  const { clock } = context;
  const began = instantOf(clock);
  const deadlines = context.deadlines ?? deadlinesBy(clock);
  const { promise: first, resolve: tell } = Promise.withResolvers<HandlerEnd | typeof LATE>();
  // Timers are late where the event loop was busy, and where the process or its machine stood still.
  const told = new LazyAbort(() => {
    context.lookAtLease?.();
    if (told.reason === undefined && sinceMs(clock, began) >= timeoutMs) stopInTime();
  });
  // Who stops it says so here too: a listener of each attempt's signal would cost more than the attempt.
  const stop = (reason: Error): void => {
    told.abort(reason);
    tell(LATE);
  };
  const stopWithWorker = (): void => {
    const cause: unknown = context.signal?.reason;
    stop(cause instanceof WorkerStoppedError ? cause : new WorkerStoppedError('the worker ends', { cause }));
  };
  context.signal?.addEventListener('abort', stopWithWorker);
  const endWatch = context.watch?.(job, stop);
  const stopInTime = (): void => stop(tookTooLong(timeoutMs));
  // What wraps a handler may give it a signal of its own.
  let own: AbortSignal | undefined;
  const onHandled = context.onHandling?.(job, timeoutMs + graceMs);
  const running = (async () =>
    handler(job.payload, {
      jobId: job.id,
      type: job.type,
      attempt: job.attempt,
      fairnessKey: job.fairnessKey,
      resourceId: job.resourceId,
      traceparent: job.traceparent,
      fencingToken: job.version,
      get signal() {
        return own ?? told.signal;
      },
      set signal(given) {
        own = given;
      },
      heartbeat: (progress) => context.onProgress?.(job, progress),
      checkpoint: checkpointing(context, job, stop),
      lastCheckpoint: job.checkpoint,
    }))();
  const over = (ended: HandlerEnd): HandlerEnd => {
    onHandled?.();
    tell(ended);
    return ended;
  };
  const settled = running.then(
    (result) => over({ kind: 'returned', result }),
    (thrown: unknown) => over({ kind: 'threw', failure: jobErrorOf(thrown) }),
  );
  const endTimeout = deadlines(timeoutMs, stopInTime);
  let endGrace = endTimeout;
  try {
    const ended = await first;
    if (ended.kind === 'returned') return storable(ended.result, RESULT);
    if (ended.kind === 'threw') throw new HandlerThrew(ended.failure);
    const graceIsOver = new Promise<typeof LATE>((resolve) => {
      endGrace = deadlines(graceMs, () => resolve(LATE));
    });
    const second = await Promise.race([settled, graceIsOver]);
    const { reason } = told;
    if (second.kind === 'returned' && reason instanceof WorkerStoppedError)
      return storable(second.result, RESULT);
    if (second.kind !== 'late') throw reason;
  } finally {
    endTimeout();
    endGrace();
    endWatch?.();
    context.signal?.removeEventListener('abort', stopWithWorker);
  }
  throw new AttemptError(
    'HandlerHung',
    `the handler of job ${job.id} (${job.type}) ran on for ${Math.round(graceMs)} ms after its signal; make it heed the signal`,
    { cause: told.reason },
  );
}

/** Of what a process that ends has left, for telling the handler to stop and for writing down the outcome. */
const RESERVE = { share: 1 / 3, maxMs: 1_000 } as const;
/** Of what is left after the timeout, for the handler that was told to stop; the rest is for the outcome. */
const GRACE_SHARE = 0.7;

/**
 * The type's timeout, as far as the process lives. What the stack leaves between a type's timeout and its function's
 * may be as little as a second, so the grace takes what there is.
 */
function timeFor(context: RunContext, typeTimeoutMs: number): AttemptTime {
  const { clock, life } = context;
  if (life === undefined) return { timeoutMs: typeTimeoutMs, graceMs: STOP_GRACE_MS };
  const leftMs = Math.max(0, life.lastsMs - sinceMs(clock, life.since));
  const reserveMs = Math.min(RESERVE.maxMs, leftMs * RESERVE.share);
  const timeoutMs = Math.min(typeTimeoutMs, leftMs - reserveMs);
  return { timeoutMs, graceMs: Math.min(STOP_GRACE_MS, (leftMs - timeoutMs) * GRACE_SHARE) };
}

/**
 * A function is ended from outside, at its deadline, whatever it does: only that bounds a handler that does not heed its
 * signal. So the lease of its attempts lasts until then, and this long more, for the end itself.
 */
export const FUNCTION_END_MS = 5_000;

const runUntilMs = ({ life }: RunContext): number | undefined =>
  // planted: short-functions
  life === undefined ? undefined : life.since.wallMs + life.lastsMs + FUNCTION_END_MS;

/** With less than this share of the time that it could have had, an attempt is not begun: it would only be cut off. */
const START_SHARE_MIN = 0.5;

/** Whether the start was answered so late, or stood still so long, that the process is about to end. */
function isTooLate({ life }: RunContext, time: AttemptTime, typeTimeoutMs: number): boolean {
  return life !== undefined && time.timeoutMs < START_SHARE_MIN * Math.min(typeTimeoutMs, life.lastsMs);
}

/** The process may have stood still since it asked for the start: the job may be another worker's by now. */
function requireWorker({ signal, lookAtLease }: RunContext): void {
  lookAtLease?.();
  if (signal?.aborted)
    throw new AttemptError('NotBegun', 'the worker ended before the handler began', { cause: signal.reason });
}

/**
 * What the type was declared to be when the job was claimed: those terms hold for the attempt, whatever was declared since, and
 * whatever this worker began with. Where that version has no such type, what the worker knows itself.
 *
 * @throws the store's errors, when they could not be read
 */
export async function termsOf(context: TermsContext, job: MovingJob): Promise<Terms> {
  const known = termsKnown(context, job);
  const declared = job.claim?.declared;
  if (declared === undefined || context.typeUnder === undefined) return known;
  // planted: newest-terms
  return { type: (await context.typeUnder(declared, job.type)) ?? known.type };
}

type TermsContext = Pick<RunContext, 'configuration' | 'typeUnder'>;

/** Undefined: nobody knows the type. */
interface Terms {
  readonly type: JobTypeConfiguration | undefined;
}

const termsKnown = ({ configuration }: TermsContext, job: MovingJob): Terms => ({
  type: typesByName(configuration).get(job.type),
});

/** For a type that the configuration does not know any more. */
const UNKNOWN_TYPE_TIMEOUT_MS = 15 * 60_000;

/**
 * Runs the job of one message.
 *
 * @throws AttemptError - `HandlerHung`: the handler did not stop: the process must end, and the job's lease must pass
 * @throws the store's errors, when the start or the outcome could not be written, or what follows from a failure could not be
 * read: the message must come again
 */
export async function runJob(
  context: RunContext,
  handlers: JobHandlers,
  message: DispatchMessage,
): Promise<RunOutcome> {
  const { store, clock, worker, log } = context;
  const started = await store.startJob({
    ...worker,
    ...message,
    nowMs: clock.nowMs(),
    runUntilMs: runUntilMs(context),
  });
  if (started.kind === 'superseded') {
    log.info('message is outdated', { ...message });
    return 'superseded';
  }
  const { job } = started;
  context.onStarted?.(job);
  let terms: Terms | undefined;
  try {
    terms = await termsOf(context, job);
  } catch (error) {
    log.warn('the terms of an attempt could not be read; its time is what its function or process has left', {
      jobId: job.id,
      declared: job.claim?.declared,
      error: String(error),
    });
  }
  const { type } = terms ?? termsKnown(context, job);
  const typeTimeoutMs = type?.timeoutMs ?? UNKNOWN_TYPE_TIMEOUT_MS;
  // Nobody may start it elsewhere before its function ends, or its process says so. Stopped by other terms, it might have had time left.
  const time = timeFor(context, terms === undefined ? UNKNOWN_TYPE_TIMEOUT_MS : typeTimeoutMs);
  let ending: AttemptEnding;
  try {
    if (isTooLate(context, time, typeTimeoutMs)) {
      throw new AttemptError('NotBegun', 'the start was answered too late: its function was about to end');
    }
    if (job.unreadable !== undefined) throw new AttemptError('JobUnreadable', job.unreadable);
    requireWorker(context);
    ending = { kind: 'succeeded', result: await attempt(context, handlers, job, time) };
  } catch (error) {
    if (isAttemptError(error, 'HandlerHung')) {
      await noteHung(context, job, time, error);
      throw error;
    }
    // By other terms a job may be failed for good that was to be tried again.
    terms ??= await termsOf(context, job);
    ending = endingOf(context, job, terms.type, error);
    logEnding(log, job, ending);
  }
  const finished = await writeDown(context, job, ending);
  if (finished.kind === 'superseded') {
    log.warn('attempt was superseded; its outcome does not count', {
      jobId: job.id,
      claimId: message.claimId,
    });
    return 'superseded';
  }
  // A retry of a job whose end was asked for is its cancellation.
  return finished.job.state === 'cancelled' ? 'cancelled' : ending.kind;
}

/** What has failed is a warning, and an error where no other attempt follows: with all that is known of why. */
function logEnding(log: Log, { id: jobId, type, attempt: number }: Job, ending: AttemptEnding): void {
  const fields = { jobId, type, attempt: number };
  if (ending.kind === 'retry')
    log.warn('attempt failed; the job is tried again', {
      ...fields,
      error: ending.error,
      againAt: new Date(ending.runAtMs).toISOString(),
    });
  else if (ending.kind === 'failed')
    log.error('attempt failed for good; the job is a dead letter', { ...fields, error: ending.error });
  else log.info('attempt did not succeed', { ...fields, ending: ending.kind });
}

/**
 * A handler that goes on after its time is over has failed by that: it is written down while the process lives. One that was told to stop
 * for another reason is its worker's loss.
 */
async function noteHung(
  { store, worker, log }: RunContext,
  job: Job,
  { timeoutMs }: AttemptTime,
  { cause, message }: AttemptError,
): Promise<void> {
  const fields = { jobId: job.id, type: job.type, attempt: job.attempt };
  log.warn('a handler hangs; its process ends', { ...fields, error: message });
  if (!isAttemptError(cause, 'JobTimeout')) return;
  try {
    const claimId = job.claim?.claimId ?? '';
    await store.saveHung({ jobId: job.id, claimId, worker, error: hungError(timeoutMs) });
  } catch (error) {
    log.warn('that a handler hangs was not recorded; its attempt counts as lost with its worker', {
      ...fields,
      error: String(error),
    });
  }
}

/** When a job comes again that met a worker of another deployment. */
const ROLLOUT_MS = 60_000;
/** A deployment declares before it has replaced its last worker: by then it has. */
const ROLLOUT_MAX_MS = 15 * 60_000;
/** A job is given back so often before its handler began, where that may go on for ever. */
const NOT_BEGUN_MAX = ROLLOUT_MAX_MS / ROLLOUT_MS;

/**
 * Whether a worker that has the handler may be about to take this one's place, or the job's type may not be this fleet's any
 * more, which is known to who plans the job again: the job was claimed under another declaration than the worker began with, or
 * both under one so young that the worker's handlers may be older.
 */
function mayBeRollingOut({ clock, declared, declaredAtMs }: RunContext, job: Job): boolean {
  if (declared === undefined) return false;
  // planted: handlers-of-tomorrow
  if ((job.claim?.declared ?? declared) !== declared) return true;
  return declared > 1 && declaredAtMs !== undefined && clock.nowMs() < declaredAtMs + ROLLOUT_MAX_MS;
}

/** How an attempt ended. */
type AttemptEnding =
  | Verdict
  /** The worker ended before the handler did, or could not begin it. */
  | { readonly kind: 'released'; readonly as: 'released' | 'lost'; readonly verdict: Verdict }
  /** Another attempt holds the job: there is nothing to write. */
  | { readonly kind: 'superseded' };

/** What follows from an attempt that did not succeed. */
function endingOf(
  context: RunContext,
  job: Job,
  type: JobTypeConfiguration | undefined,
  error: unknown,
): AttemptEnding {
  const { clock, random } = context;
  if (isAttemptError(error, 'JobCancelled')) return { kind: 'cancelled' };
  if (isAttemptError(error, 'JobSuperseded')) return { kind: 'superseded' };
  const nowMs = clock.nowMs();
  if (error instanceof WorkerStoppedError) {
    const { isLoss, message } = error;
    return isLoss
      ? { kind: 'released', as: 'lost', verdict: afterWorkerLost(job, type, nowMs) }
      : released(message, nowMs, type?.onWorkerLost !== 'resume');
  }
  const mayGiveBack = releasesOf(job) < NOT_BEGUN_MAX;
  if (isAttemptError(error, 'NotBegun')) {
    if (mayGiveBack) return released(error.message, nowMs, false);
    return { kind: 'released', as: 'lost', verdict: afterWorkerLost(job, type, nowMs) };
  }
  const isMissing = isAttemptError(error, 'MissingHandler') && type !== undefined;
  if (isMissing && mayGiveBack && mayBeRollingOut(context, job))
    return released(error.message, nowMs + ROLLOUT_MS, false);
  const failure = error instanceof HandlerThrew ? error.failure : withoutStack(jobErrorOf(error));
  const isFinal = isAttemptError(error, 'MissingHandler', 'JobUnreadable');
  return type === undefined || isFinal
    ? { kind: 'failed', error: failure }
    : afterFailure(job, failure, type.retry, random(), nowMs);
}

const released = (message: string, runAtMs: number, isFromStart: boolean): AttemptEnding => ({
  kind: 'released',
  as: 'released',
  verdict: afterRelease(message, runAtMs, isFromStart),
});

/** How often workers have given the job back, as far as its history has it. */
const releasesOf = ({ history }: Job): number =>
  (history?.entries ?? []).filter((entry) => entry.kind === 'attempt' && entry.outcome === 'released').length;

async function writeDown(context: RunContext, job: Job, ending: AttemptEnding): Promise<FinishOutcome> {
  const { store, clock, worker } = context;
  const nowMs = clock.nowMs();
  const expiresAtMs = nowMs + TERMINAL_TTL_MS;
  switch (ending.kind) {
    case 'superseded':
      return { kind: 'superseded' };
    case 'released':
      return store.loseWorker({ job, verdict: ending.verdict, as: ending.as, nowMs, expiresAtMs });
    default:
      return store.finishJob({ ...worker, job, verdict: ending, nowMs, expiresAtMs });
  }
}
