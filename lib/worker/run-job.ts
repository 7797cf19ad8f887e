/**
 * Runs one attempt of one job: starts it, calls the handler, and stores the outcome. Functions and processes use the
 * same code.
 */

import { type JobTypeConfiguration, type PoolConfiguration, valueBytesMax } from '../core/configuration.ts';
import { conflictKeyFor, isExclusive, typesByName } from '../core/conflict.ts';
import { UnavailableError } from '../core/errors.ts';
import { waitedSinceMs } from '../core/history.ts';
import { type Job, type Json, type MovingJob, TERMINAL_TTL_MS, withoutStack } from '../core/job.ts';
import { hungError } from '../core/retry.ts';
import type { DeclarationState } from '../declaration/declaration.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { type LargeValues, wholeOf } from '../objects/large-values.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import { LazyAbort } from '../runtime/abort.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import { type Instant, instantOf, sinceMs } from '../runtime/instant.ts';
import type { WorkerIdentity } from '../store/contract/records.ts';
import type { FinishOutcome } from '../store/contract/requests.ts';
import { createDeadlines, type Deadlines, type Watch } from './attempt-host.ts';
import { clientMissing, type WorkerClient } from './client.ts';
import {
  type AttemptEnding,
  endingInRest,
  endingOf,
  type Failure,
  HandlerThrew,
  returnedEnding,
} from './endings.ts';
import { AttemptError, isAttemptError, WorkerStoppedError } from './errors.ts';
import {
  type Kept,
  keptBy,
  ParkedJob,
  type ParkOptions,
  parkOf,
  RESULT,
  type RunStep,
  storable,
} from './kept.ts';
import { writeRest } from './rests.ts';
import type { AttemptStore } from './retrying-store.ts';
import { decisionOf, jobErrorOf } from './thrown.ts';

/** A handler's second argument, beside the payload. */
// biome-ignore lint/suspicious/noExplicitAny: a function of any worker's context takes this one
export interface JobContext<Declared extends Jobs = any>
  extends Pick<Job, 'type' | 'mode' | 'attempt' | 'fairnessKey' | 'resourceId' | 'keys' | 'units' | 'tags'> {
  readonly id: string;
  /** The names of the limits that the job's type is under. */
  readonly limits: readonly string[];
  /** The same as `id`. */
  readonly jobId: string;
  /** The job's trace (W3C Trace Context), as its producer gave it. Start your spans under it and pass it on. */
  readonly traceparent?: string | undefined;
  /** Grows with every new claim of the job, so a store of your own can refuse writes of a superseded attempt. */
  readonly fencingToken: number;
  /**
   * Aborts when the attempt must end, and when its handler has ended: steps that still run must stop then. Its `reason` is an error that says why: an `AttemptError` whose `reason` is
   * `JobTimeout` (the type's timeout), `JobCancelled` (a client or an operator cancelled the job), `JobSuperseded`
   * (another attempt holds the job) or `AttemptEnded` (the handler has ended); or a `WorkerStoppedError` (the worker ends: a result that comes soon still
   * counts, otherwise the job is tried again elsewhere). Call `signal.throwIfAborted()` right before each effect: a
   * process that was suspended notices its end by that call, before any event.
   */
  readonly signal: AbortSignal;
  /** The time since which the job has waited for this attempt. */
  readonly readyAt: Date;
  /** When the scheduler chose the job for this attempt, by the dispatcher's clock. Until then it waited for its turn; since then, for its worker. */
  readonly reservedAt: Date;
  /**
   * The bounds that were full while the job waited and that an attempt's end opened: `cap key/acme`, `cap limit/openai`,
   * `noSlot fleet/images`, `conflict album/7`. Undefined: none is known.
   */
  readonly blockedBy?: readonly string[] | undefined;
  /** The start of this attempt, by the worker's clock. */
  readonly startedAt: Date;
  /** The end of the attempt's time, when `signal` aborts with `JobTimeout`. */
  readonly deadline: Date;
  /** How many milliseconds of the attempt's time are left: 0 or more. */
  readonly remainingMs: () => number;
  /** The worker's log, with `jobId`, `type` and `attempt` on each line. */
  readonly log: JobLog;
  /**
   * Runs a part of the work once: when it has ended, its value is stored on the job, with one write, and every later
   * attempt gets that value instead of running the part again, after a failure, a release or a lost worker alike.
   *
   * The name is the step's identity: 1 to 100 characters, one name for each step of a job. Two calls with one name are
   * one step, and a step that calls itself is refused. Steps may run side by side; the attempt ends after those that
   * its handler did not wait for. A value is JSON, and the values of all steps of a job have at most 64 KB, also with `largePayloads`;
   * values are stored apart from `checkpoint`. A part that throws is not done: it may be called again. If the process
   * ends between the part's effect and the write, the part runs again, so give effects an idempotency key of their own,
   * such as `${ctx.id}/charge`.
   *
   * @example const charge = await ctx.step('charge', () => payments.charge(order, { idempotencyKey: `${ctx.id}/charge` }));
   * @throws ConfigurationError - the name is wrong, or the step would wait for its own end
   * @throws AttemptError - `JobSuperseded`: this attempt does not hold the job any more; stop
   * @throws AttemptError - `CheckpointRefused`: the value is not JSON, or too large. The job fails at once, because a
   *   retry would only repeat the step's effect
   * @throws the attempt's end - `signal` has aborted: no step begins
   */
  readonly step: RunStep;
  /**
   * A client of the worker's scheduler, made with its first use and shared by all jobs of the process.
   *
   * @throws EnvironmentError - `FAIRLEAD_TABLE` or `FAIRLEAD_WAKE_QUEUE` is not set
   */
  readonly client: WorkerClient<Declared>;
  /**
   * Reports how far the job is, as JSON of at most 1 KB; any other value is dropped with a warning. A process stores
   * it with its next heartbeat (if all its jobs report more than 100 KB, the longest are left out). A function stores
   * it on the job, at once and then at most every 5 s, with one write each time.
   */
  readonly heartbeat: (progress: unknown) => void;
  /**
   * Stores data from which the next attempt can continue if this one does not end. Each call is one write: call it
   * every few seconds, not for every record.
   *
   * @throws AttemptError - `JobSuperseded`: this attempt does not hold the job any more; stop
   * @throws AttemptError - `CheckpointRefused`: the data are not JSON, or larger than 64 KB or the declared `largePayloads`
   */
  readonly checkpoint: (data: unknown) => Promise<void>;
  /**
   * Parks the job: `return ctx.park({ until: '+15m', state })`. The attempt then ends without a result, holds neither
   * slot nor cap until `until`, and is not counted; the job keeps its place in its key's share, its checkpoint and its
   * steps. While it is parked it can be moved and cancelled. Only what the handler returns counts: a call without
   * `return` parks nothing.
   *
   * @throws ConfigurationError - `until` is wrong, or the job has a conflict key and `releaseConflict` is not set
   * @throws AttemptError - `ResultRefused`: the state is not JSON, or too large
   */
  readonly park: (options: ParkOptions) => ParkedJob;
  /** The `state` of the last `park`, null if that had none; undefined if the job was never parked. */
  readonly parkedState?: Json | undefined;
  /**
   * The last checkpoint of this or an earlier attempt, as it was when this attempt began. After a lost worker only
   * types with `onWorkerLost: 'resume'` get it; others begin from the start.
   */
  readonly lastCheckpoint?: Json | undefined;
}

/** Writes lines about one job. Fields are plain data; an error among them is written with its message and stack. */
export interface JobLog extends Log {
  /** Writes a line if `POWERTOOLS_LOG_LEVEL` is `DEBUG`. */
  readonly debug: Log['info'];
}

/**
 * A user's function for one job type. Its return value is the job's result, at most 64 KB of JSON, or up to the declared `largePayloads`;
 * an error that it throws fails the attempt.
 */
export type JobHandler = (payload: Json, context: JobContext<Jobs>) => unknown;

export type JobHandlers = Readonly<Record<string, JobHandler>>;

/** Handlers of jobs that are not declared: each may say which payload it takes, and nothing checks it. */
// biome-ignore lint/suspicious/noExplicitAny: a handler of any payload
export type UntypedHandlers = Readonly<Record<string, (payload: any, context: JobContext<Jobs>) => unknown>>;

export interface RunContext {
  readonly store: AttemptStore;
  readonly configuration: PoolConfiguration;
  /** A type as a version of the declaration has it: an attempt keeps the terms under which it was claimed. */
  readonly typeUnder?: DeclarationState['typeUnder'] | undefined;
  /** The version of the declaration that the worker started with. */
  readonly declared?: number | undefined;
  /** When the version `declared` was declared, in epoch ms. */
  readonly declaredAtMs?: number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly worker: WorkerIdentity;
  /** How long the process lives; undefined if it has no end. */
  readonly life?: { readonly since: Instant; readonly lastsMs: number } | undefined;
  /**
   * Aborts when the worker ends. An attempt that is cut off by it counts as released or as its worker's loss, not as
   * a failure.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Aborts `signal` if the worker's lease is over. Called whenever a handler reads its own signal, because the timer
   * that aborts it may be late.
   */
  readonly lookAtLease?: (() => void) | undefined;
  /** The deadlines that the attempts of a worker share. @default - the attempt makes its own */
  readonly deadlines?: Deadlines | undefined;
  /** Reports when a running job is not wanted any more. */
  readonly watch?: Watch | undefined;
  /** Called when the job has started: its message may be deleted. */
  readonly onStarted?: ((job: Job) => void) | undefined;
  /**
   * Called before the handler begins. The handler ends within `endsInMs`, or is given up as hung. The returned
   * function is called when it has really ended.
   */
  readonly onHandling?: ((job: Job, endsInMs: number) => () => void) | undefined;
  readonly onProgress?: ((job: Job, progress: unknown) => void) | undefined;
  /** The client of handlers. @default - reading it throws */
  readonly client?: (() => WorkerClient) | undefined;
  /** Values over 64 KB. @default - none can be kept or read */
  readonly large?: LargeValues | undefined;
  /** The ends of rests that attempts of this process have asked for, by scope. @default - none are remembered */
  readonly rests?: Map<string, number> | undefined;
}

/** The part of the context that all attempts of one function or process share. */
export type HostContext = Pick<
  RunContext,
  | 'configuration'
  | 'typeUnder'
  | 'declared'
  | 'declaredAtMs'
  | 'clock'
  | 'random'
  | 'log'
  | 'client'
  | 'large'
  | 'rests'
>;

/**
 * How an attempt ended. `superseded`: the message was outdated, or the attempt lost its claim, so nothing of it
 * counts. `released`: the worker ended before the handler did, or could not begin it, and gave the job back. `rested`:
 * the handler asked for a cool-down, or one began while the message was under way. `parked`: the handler parked the job.
 * An attempt that counts as lost is reported as `released`, too.
 */
export type RunOutcome =
  | 'succeeded'
  | 'failed'
  | 'retry'
  | 'cancelled'
  | 'released'
  | 'rested'
  | 'parked'
  | 'superseded';

/** How long a handler that was told to stop may take, unless its process ends earlier. */
export const STOP_GRACE_MS = 5_000;

interface AttemptTime {
  /** How long the handler may run. */
  readonly timeoutMs: number;
  /** How long the handler may take to end after it was told to stop. */
  readonly graceMs: number;
}

const timeoutError = (timeoutMs: number): AttemptError =>
  new AttemptError(
    'JobTimeout',
    `the attempt took longer than ${Math.round(timeoutMs)} ms and was told to stop`,
  );

/** The reason of the signal of an attempt whose handler has ended. */
const ENDED = new AttemptError(
  'AttemptEnded',
  'the handler of this attempt has ended: whatever it began must stop',
);

/** How a handler ended. */
type HandlerEnd =
  | { readonly kind: 'returned'; readonly result: unknown }
  | { readonly kind: 'threw'; readonly failure: Failure };
/** The attempt was told to stop, and its handler has not ended yet. */
const TOLD_TO_STOP = { kind: 'toldToStop' } as const;
/** The handler has not ended in the time that it had for stopping. */
const GRACE_IS_OVER = { kind: 'graceIsOver' } as const;

/** The running attempt, as its handler's context shows it. */
interface Running extends Pick<DispatchMessage, 'blockedBy'> {
  readonly began: Instant;
  readonly timeoutMs: number;
  readonly abort: LazyAbort;
}

/**
 * Returns a handler's context. The handler may replace its fields, such as `signal` by one that aborts for one more
 * reason.
 */
function contextFor(
  { clock, log, onProgress, configuration, client = clientMissing }: RunContext,
  job: Job,
  { began, timeoutMs, abort, blockedBy }: Running,
  { checkpoint, step }: Kept,
): JobContext {
  let own: AbortSignal | undefined;
  const shown: Omit<JobContext, 'client'> = {
    id: job.id,
    jobId: job.id,
    type: job.type,
    mode: job.mode,
    attempt: job.attempt,
    fairnessKey: job.fairnessKey,
    resourceId: job.resourceId,
    keys: job.keys,
    units: job.units,
    limits: typesByName(configuration).get(job.type)?.limits ?? [],
    tags: job.tags,
    traceparent: job.traceparent,
    fencingToken: job.version,
    get signal() {
      return own ?? abort.signal;
    },
    set signal(given) {
      own = given;
    },
    readyAt: new Date(waitedSinceMs(job)),
    reservedAt: new Date(job.claim?.claimedAtMs ?? began.wallMs),
    blockedBy,
    startedAt: new Date(job.startedAtMs ?? began.wallMs),
    deadline: new Date(began.wallMs + timeoutMs),
    remainingMs: () => Math.max(0, timeoutMs - sinceMs(clock, began)),
    log: jobLogOf(log, job),
    step,
    heartbeat: (progress) => onProgress?.(job, progress),
    checkpoint,
    lastCheckpoint: job.checkpoint,
    park: parkOf(job, exclusiveKeyOf(configuration, job), valueBytesMax(configuration), () => clock.nowMs()),
    parkedState: job.parkedState,
  };
  // `client` is not enumerable, so a copy of the context does not read it.
  const context = Object.defineProperty(shown, 'client', { get: client }) as JobContext;
  return context;
}

/** Returns the conflict key of a job that excludes others; undefined: the job excludes none. */
function exclusiveKeyOf(configuration: PoolConfiguration, { type, resourceId }: Job): string | undefined {
  const conflictKey = conflictKeyFor(typesByName(configuration).get(type), resourceId);
  return conflictKey !== undefined && isExclusive(conflictKey) ? conflictKey : undefined;
}

/** Returns a log with the job's fields on each line. They come before a handler's fields of the same names. */
function jobLogOf(log: Log, { id: jobId, type, attempt }: Job): JobLog {
  const write =
    (level: keyof JobLog): Log['info'] =>
    (message, fields) =>
      log[level]?.(message, { ...fields, jobId, type, attempt });
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

/**
 * Runs the handler within its time. An attempt that was told to stop ends for that reason, even if the handler
 * returns afterwards; only if the worker ends does a result that still comes count.
 */
async function runHandler(
  context: RunContext,
  handlers: JobHandlers,
  stored: Job,
  { timeoutMs, graceMs }: AttemptTime,
  { blockedBy }: DispatchMessage,
): Promise<Json | ParkedJob> {
  const job = await wholeOf(context.large, stored);
  if (job.unreadable !== undefined) throw new AttemptError('JobUnreadable', job.unreadable);
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
  const deadlines = context.deadlines ?? createDeadlines(clock);
  const { promise: endOrStop, resolve: resolveFirst } = Promise.withResolvers<
    HandlerEnd | typeof TOLD_TO_STOP
  >();
  // Timers are late if the event loop was busy, or the process or its machine was suspended: each look at the signal
  // checks the time.
  const abort = new LazyAbort(() => {
    context.lookAtLease?.();
    if (abort.reason === undefined && sinceMs(clock, began) >= timeoutMs) stopInTime();
  });
  // This resolves the promise as well, because a listener on each attempt's signal would cost more than the attempt.
  const stop = (reason: Error): void => {
    abort.abort(reason);
    resolveFirst(TOLD_TO_STOP);
  };
  const stopWithWorker = (): void => {
    const cause: unknown = context.signal?.reason;
    stop(cause instanceof WorkerStoppedError ? cause : new WorkerStoppedError('the worker ends', { cause }));
  };
  context.signal?.addEventListener('abort', stopWithWorker);
  const endWatch = context.watch?.(job, stop);
  const stopInTime = (): void => stop(timeoutError(timeoutMs));
  const onHandled = context.onHandling?.(job, timeoutMs + graceMs);
  const bytesMax = valueBytesMax(context.configuration);
  const kept = keptIn(context, job, stored.checkpoint, { stop, signal: () => shown.signal });
  const shown = contextFor(context, job, { began, timeoutMs, abort, blockedBy }, kept);
  let hasEnded = false;
  const over = async (ended: HandlerEnd): Promise<HandlerEnd> => {
    hasEnded = true;
    abort.abort(ENDED);
    if (kept.wasUsed()) {
      // The handler has ended, but its steps may still run. The attempt then counts as told to stop, so that the steps get
      // the grace period and no longer. The next attempt begins after them, with the values of those that were done.
      resolveFirst(TOLD_TO_STOP);
      await kept.untilIdle();
    }
    onHandled?.();
    resolveFirst(ended);
    return ended;
  };
  const handled = (async () => handler(job.payload, shown))().then(
    (result) => over({ kind: 'returned', result }),
    (thrown: unknown) =>
      over({
        kind: 'threw',
        failure: { error: jobErrorOf(thrown), decided: decisionOf(thrown, clock.nowMs()) },
      }),
  );
  const endTimeout = deadlines(timeoutMs, stopInTime);
  let endGrace = endTimeout;
  const endInGrace = (): Promise<HandlerEnd | typeof GRACE_IS_OVER> => {
    const grace = new Promise<typeof GRACE_IS_OVER>((resolve) => {
      endGrace = deadlines(graceMs, () => resolve(GRACE_IS_OVER));
    });
    return Promise.race([handled, grace]);
  };
  try {
    const first = await endOrStop;
    const ended = first.kind === 'toldToStop' ? await endInGrace() : first;
    const { reason } = abort;
    if (ended.kind !== 'graceIsOver') {
      // `ENDED` is the reason only if nothing had told the attempt to stop before its handler ended: an abort keeps its first reason.
      const counts = reason === ENDED || (ended.kind === 'returned' && reason instanceof WorkerStoppedError);
      if (!counts) throw reason;
      if (ended.kind === 'threw') throw new HandlerThrew(ended.failure);
      return leftBy(ended.result, bytesMax);
    }
  } finally {
    endTimeout();
    endGrace();
    endWatch?.();
    context.signal?.removeEventListener('abort', stopWithWorker);
  }
  throw new AttemptError(
    'HandlerHung',
    `${hasEnded ? 'a step' : 'the handler'} of job ${job.id} (${job.type}) still ran ${Math.round(graceMs)} ms after its signal was aborted; make it stop on its signal`,
    { cause: abort.reason },
  );
}

/** Returns what a handler returned: a result as JSON, or the wish to park the job. */
const leftBy = (returned: unknown, bytesMax: number): Json | ParkedJob =>
  returned instanceof ParkedJob ? returned : storable(returned, RESULT, bytesMax);

/** The data that an attempt keeps. @param stored - the checkpoint as the job's item has it */
function keptIn(
  context: RunContext,
  job: Job,
  stored: Json | undefined,
  { stop, signal }: Pick<Parameters<typeof keptBy>[0], 'stop' | 'signal'>,
): Kept {
  const { store, worker, log, configuration } = context;
  const bytesMax = valueBytesMax(configuration);
  return keptBy({ store, large: keeping(context), bytesMax, stored, job, worker, log, stop, signal });
}

/** The store of new values over 64 KB; undefined: the pool accepts none. */
const keeping = ({ large, configuration }: RunContext): LargeValues | undefined =>
  configuration.largePayloads === undefined ? undefined : large;

/** A handler's result or state, as the job's item keeps it. An object is put before the write that ends the attempt. */
async function keptOf(context: RunContext, job: Job, left: Json | ParkedJob): Promise<Json | ParkedJob> {
  const large = keeping(context);
  if (large === undefined) return left;
  return left instanceof ParkedJob
    ? new ParkedJob(left.untilMs, await large.put(job.id, 'kept', left.state))
    : large.put(job.id, 'kept', left);
}

/** How much of the remaining process lifetime is kept for stopping the handler and storing the outcome. */
const END_RESERVE = { share: 1 / 3, maxMs: 1_000 } as const;
/** The handler's share of the time after the timeout, for it to stop; the rest is for storing the outcome. */
const GRACE_SHARE = 0.7;

/**
 * Returns the type's timeout and the grace, shortened to what the process has left. The stack may leave as little as a
 * second between a type's timeout and its function's, so the grace takes what there is.
 */
function timeFor(context: RunContext, typeTimeoutMs: number): AttemptTime {
  const { clock, life } = context;
  if (life === undefined) return { timeoutMs: typeTimeoutMs, graceMs: STOP_GRACE_MS };
  const leftMs = Math.max(0, life.lastsMs - sinceMs(clock, life.since));
  const reserveMs = Math.min(END_RESERVE.maxMs, leftMs * END_RESERVE.share);
  const timeoutMs = Math.min(typeTimeoutMs, leftMs - reserveMs);
  return { timeoutMs, graceMs: Math.min(STOP_GRACE_MS, (leftMs - timeoutMs) * GRACE_SHARE) };
}

/**
 * How long the lease of a function's attempts lasts beyond the function's deadline. Lambda ends the function at its
 * deadline, which alone bounds a handler that ignores its signal; this is the time for that end.
 */
export const FUNCTION_END_MS = 5_000;

const runUntilMs = ({ life }: RunContext): number | undefined =>
  // planted: short-functions
  life === undefined ? undefined : life.since.wallMs + life.lastsMs + FUNCTION_END_MS;

/**
 * An attempt does not begin with less than this share of the time that it could have had: it would only be cut off.
 */
const START_SHARE_MIN = 0.5;

/**
 * Whether the start was answered so late, or the process was suspended for so long, that the process is about to end.
 */
function isTooLate({ life }: RunContext, time: AttemptTime, typeTimeoutMs: number): boolean {
  return life !== undefined && time.timeoutMs < START_SHARE_MIN * Math.min(typeTimeoutMs, life.lastsMs);
}

/**
 * Refuses to begin if the lease has ended since the start was requested, because another worker may have the job by
 * then.
 */
function requireWorker({ signal, lookAtLease }: RunContext): void {
  lookAtLease?.();
  if (signal?.aborted)
    throw new AttemptError('NotBegun', 'the worker ended before the handler began', { cause: signal.reason });
}

/**
 * Returns the type as it was declared when the job was claimed. Those terms hold for the attempt, even if other terms
 * were declared since or when this worker started. If that version has no such type, the worker's own configuration
 * decides.
 *
 * @throws the store's errors, if the declaration could not be read
 */
export async function declaredTerms(context: TermsContext, job: MovingJob): Promise<Terms> {
  const known = knownTerms(context, job);
  const declared = job.claim?.declared;
  if (declared === undefined || context.typeUnder === undefined) return known;
  // planted: newest-terms
  return { type: (await context.typeUnder(declared, job.type)) ?? known.type };
}

type TermsContext = Pick<RunContext, 'configuration' | 'typeUnder'>;

interface Terms {
  /** The type; undefined if no known declaration has it. */
  readonly type: JobTypeConfiguration | undefined;
}

const knownTerms = ({ configuration }: TermsContext, job: MovingJob): Terms => ({
  type: typesByName(configuration).get(job.type),
});

/** Milliseconds of the timeout of a type that the configuration does not have. */
const UNKNOWN_TYPE_TIMEOUT_MS = 15 * 60_000;

/**
 * Runs the job of one message.
 *
 * @throws AttemptError - `HandlerHung`: the handler did not stop; the process must end, and the job's lease must pass
 * @throws the store's errors, if the start or the outcome could not be stored, or the terms that decide about a
 * failure could not be read; the message must be delivered again
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
    terms = await declaredTerms(context, job);
  } catch (error) {
    log.warn(
      'the terms of an attempt could not be read; it may use the time that its function or process has left',
      {
        jobId: job.id,
        declared: job.claim?.declared,
        error: String(error),
      },
    );
  }
  const { type } = terms ?? knownTerms(context, job);
  const typeTimeoutMs = type?.timeoutMs ?? UNKNOWN_TYPE_TIMEOUT_MS;
  // No other worker may start the job before its function ends or its process ends the attempt, so the longest time is
  // safe. A shorter one, of other terms, might stop the attempt too early.
  const time = timeFor(context, terms === undefined ? UNKNOWN_TYPE_TIMEOUT_MS : typeTimeoutMs);
  let ending: AttemptEnding;
  try {
    if (isTooLate(context, time, typeTimeoutMs)) {
      throw new AttemptError('NotBegun', 'the start was answered too late: the function was about to end');
    }
    if (job.unreadable !== undefined) throw new AttemptError('JobUnreadable', job.unreadable);
    requireWorker(context);
    // planted: starts-late
    if (message.startByMs !== undefined && clock.nowMs() > message.startByMs)
      throw new AttemptError(
        'StartedTooLate',
        'the message came too late for the rate that counts this start',
      );
    ending =
      endingInRest(context, job) ??
      returnedEnding(await keptOf(context, job, await runHandler(context, handlers, job, time, message)));
  } catch (error) {
    if (isAttemptError(error, 'HandlerHung')) {
      await recordHung(context, job, time, error);
      throw error;
    }
    // The terms are read if they are missing, because wrong ones might fail a job for good that should be retried.
    terms ??= await declaredTerms(context, job);
    ending = endingOf(context, job, terms.type, error);
    logEnding(log, job, ending);
  }
  const finished = await storeEnding(context, job, ending);
  if (finished.kind === 'superseded') {
    log.warn('attempt was superseded; its outcome does not count', {
      jobId: job.id,
      claimId: message.claimId,
    });
    return 'superseded';
  }
  // The attempt would be retried, but its job was cancelled meanwhile, so it ends as cancelled.
  if (finished.job.state === 'cancelled') return 'cancelled';
  if (ending.kind !== 'unfinished') return ending.kind;
  return ending.as === 'lost' ? 'released' : ending.as;
}

/** Logs an attempt that did not succeed: as a warning if it is retried, and as an error if it failed for good. */
function logEnding(log: Log, { id: jobId, type, attempt: number }: Job, ending: AttemptEnding): void {
  const fields = { jobId, type, attempt: number };
  if (ending.kind === 'retry' && ending.error !== undefined)
    log.warn('attempt failed; the job is tried again', {
      ...fields,
      error: ending.error,
      againAt: new Date(ending.runAtMs).toISOString(),
    });
  else if (ending.kind === 'failed')
    log.error('attempt failed for good; the job is a dead letter', { ...fields, error: ending.error });
  else
    log.info('attempt did not succeed', {
      ...fields,
      ending: ending.kind === 'unfinished' ? ending.as : ending.kind,
    });
}

/** How long the end of a process waits until it is stored that a handler hangs. */
const HUNG_WRITE_MS = 2_000;

/**
 * Records on the job, before the process ends, that its handler did not stop after its timeout, or that a step did not
 * stop after its handler: the attempt has failed. If they were told to stop for another reason, the attempt counts as
 * lost with its worker.
 */
async function recordHung(
  { store, clock, worker, log }: RunContext,
  job: Job,
  { timeoutMs }: AttemptTime,
  hung: AttemptError,
): Promise<void> {
  const { cause, message } = hung;
  const fields = { jobId: job.id, type: job.type, attempt: job.attempt };
  log.warn('a handler hangs, so its process ends', { ...fields, error: message });
  if (!isAttemptError(cause, 'JobTimeout', 'AttemptEnded')) return;
  const error = cause === ENDED ? withoutStack(jobErrorOf(hung)) : hungError(timeoutMs);
  const answered = new AbortController();
  try {
    const claimId = job.claim?.claimId ?? '';
    // The process must end, even if the store does not answer.
    await Promise.race([
      store.saveHung({ jobId: job.id, claimId, worker, error }),
      clock.sleep(HUNG_WRITE_MS, answered.signal).then(() => {
        if (!answered.signal.aborted) throw new UnavailableError(`no answer within ${HUNG_WRITE_MS} ms`);
      }),
    ]);
  } catch (error) {
    log.warn('a hung handler could not be recorded; its attempt counts as lost with its worker', {
      ...fields,
      error: String(error),
    });
  } finally {
    answered.abort();
  }
}

async function storeEnding(context: RunContext, job: Job, ending: AttemptEnding): Promise<FinishOutcome> {
  const { store, clock, worker } = context;
  const nowMs = clock.nowMs();
  const expiresAtMs = nowMs + TERMINAL_TTL_MS;
  switch (ending.kind) {
    case 'superseded':
      return { kind: 'superseded' };
    case 'unfinished':
      // planted: unwritten-rests
      if (ending.rest !== undefined) await writeRest(context, job, ending.rest);
      return store.endUnfinished({ job, verdict: ending.verdict, as: ending.as, nowMs, expiresAtMs });
    default:
      return store.finishJob({ ...worker, job, verdict: ending, nowMs, expiresAtMs });
  }
}
