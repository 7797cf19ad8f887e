/** One attempt of one job: start, run, finish. The same for Lambda workers and for long-running ones. */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Job, JobError, Json } from '../core/job.ts';
import { afterFailure } from '../core/retry.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import type { FinishVerdict, JobStore, WorkerIdentity } from '../store/contract.ts';

/** How long a terminal job is kept. */
export const TERMINAL_TTL_MS = 7 * 24 * 3_600_000;

/** What a handler is told beside its payload. */
export interface JobContext {
  readonly jobId: string;
  readonly type: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
  /** Grows with every new claim of the job: lets a store of the user's refuse a superseded attempt. */
  readonly fencingToken: number;
  /** Aborts when the attempt must end: its type's timeout, or the end of the worker. */
  readonly signal: AbortSignal;
  /** Says how far the job is; recorded with the worker's next heartbeat. */
  readonly heartbeat: (progress: Json) => void;
}

/** A user's function for one job type. What it returns is the job's result; what it throws fails the attempt. */
export type JobHandler = (payload: Json, context: JobContext) => Promise<Json | undefined> | Json | undefined;

export type JobHandlers = Readonly<Record<string, JobHandler>>;

export interface RunContext {
  readonly store: JobStore;
  readonly configuration: PoolConfiguration;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly worker: WorkerIdentity;
  /** When the process must have stopped, by the monotonic clock; undefined if it may run on. */
  readonly deadlineMonotonicMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((job: Job, progress: Json) => void) | undefined;
}

/** `superseded`: the message was outdated, or the attempt lost its claim; nothing of it counts. */
export type RunOutcome = 'succeeded' | 'failed' | 'retry' | 'superseded';

const RESULT_BYTES_MAX = 64 * 1024;
const ERROR_CHARS_MAX = 2_048;

/** Thrown into an attempt that takes longer than its type allows. */
export class JobTimeoutError extends Error {
  override readonly name = 'JobTimeout';
}

/** A handler's result that cannot be kept. */
export class JobResultError extends Error {
  override readonly name = 'JobResultError';
}

function jobErrorOf(error: unknown): JobError {
  const named = error instanceof Error ? readText(() => error.name) : undefined;
  const said = error instanceof Error ? readText(() => error.message) : readText(() => describe(error));
  return {
    name: (named === undefined || named === '' ? 'Error' : named.slice(0, 128)).toWellFormed(),
    message: (said ?? 'the handler threw what cannot be shown as text')
      .slice(0, ERROR_CHARS_MAX)
      .toWellFormed(),
  };
}

/** What is thrown is the user's: a getter that throws, or an object without a prototype, must not hide that it failed. */
function readText(read: () => unknown): string | undefined {
  try {
    return String(read());
  } catch {
    return undefined;
  }
}

const describe = (thrown: unknown): string =>
  typeof thrown === 'object' && thrown !== null ? JSON.stringify(thrown) : String(thrown);

/** The handler's result as it will be stored; refuses what JSON cannot hold. */
function storable(result: Json | undefined): Json {
  let text: string | undefined;
  try {
    text = JSON.stringify(result ?? null);
  } catch (cause) {
    throw new JobResultError(`the handler's result is not JSON: ${String(cause)}; return plain data`, {
      cause,
    });
  }
  if (text === undefined)
    throw new JobResultError(`the handler's result is not JSON: a ${typeof result}; return plain data`);
  const bytes = Buffer.byteLength(text, 'utf8');
  if (bytes > RESULT_BYTES_MAX) {
    throw new JobResultError(
      `the handler's result has ${bytes} bytes, at most ${RESULT_BYTES_MAX} are kept; store it elsewhere and return a reference`,
    );
  }
  return JSON.parse(text) as Json;
}

/** How long a handler that was told to stop is waited for, unless its process ends before. */
export const STOP_GRACE_MS = 5_000;

/** Thrown when a handler goes on after it was told to stop: its process must end before its job may run again. */
export class HandlerHungError extends Error {
  override readonly name = 'HandlerHung';
}

/** How long a handler may run, and how long it is waited for when it was told to stop. */
interface AttemptTime {
  readonly timeoutMs: number;
  readonly graceMs: number;
}

/** Runs the handler within its time. Whatever it does after it was told to stop, the attempt has timed out. */
async function attempt(
  context: RunContext,
  handlers: JobHandlers,
  job: Job,
  { timeoutMs, graceMs }: AttemptTime,
): Promise<Json> {
  const handler = Object.hasOwn(handlers, job.type) ? handlers[job.type] : undefined;
  if (handler === undefined) {
    const known = Object.keys(handlers).join(', ');
    throw new TypeError(
      `this worker has no handler for the job type ${JSON.stringify(job.type)}; it has: ${known}`,
    );
  }
  const { clock } = context;
  const ended = new AbortController();
  const timer = new AbortController();
  const signal =
    context.signal === undefined ? ended.signal : AbortSignal.any([ended.signal, context.signal]);
  const running = (async () =>
    handler(job.payload, {
      jobId: job.id,
      type: job.type,
      attempt: job.attempt,
      fairnessKey: job.fairnessKey,
      resourceId: job.resourceId,
      fencingToken: job.version,
      signal,
      heartbeat: (progress) => context.onProgress?.(job, progress),
    }))();
  const settled = running.then(
    (result) => ({ kind: 'returned', result }) as const,
    (error: unknown) => ({ kind: 'threw', error }) as const,
  );
  const late = { kind: 'late' } as const;
  try {
    const first = await Promise.race([settled, clock.sleep(timeoutMs, timer.signal).then(() => late)]);
    if (first.kind === 'returned') return storable(first.result);
    if (first.kind === 'threw') throw first.error;
    const timeout = new JobTimeoutError(
      `the attempt took longer than ${Math.round(timeoutMs)} ms and was told to stop`,
    );
    ended.abort(timeout);
    const second = await Promise.race([settled, clock.sleep(graceMs, timer.signal).then(() => late)]);
    if (second.kind !== 'late') throw timeout;
  } finally {
    timer.abort();
  }
  throw new HandlerHungError(
    `the handler of job ${job.id} (${job.type}) ran on for ${Math.round(graceMs)} ms after its signal; make it heed the signal`,
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
  const { clock, deadlineMonotonicMs } = context;
  if (deadlineMonotonicMs === undefined) return { timeoutMs: typeTimeoutMs, graceMs: STOP_GRACE_MS };
  const leftMs = Math.max(0, deadlineMonotonicMs - clock.monotonicMs());
  const reserveMs = Math.min(RESERVE.maxMs, leftMs * RESERVE.share);
  const timeoutMs = Math.min(typeTimeoutMs, leftMs - reserveMs);
  return { timeoutMs, graceMs: Math.min(STOP_GRACE_MS, (leftMs - timeoutMs) * GRACE_SHARE) };
}

/** For a type that the configuration does not know any more. */
const UNKNOWN_TYPE_TIMEOUT_MS = 15 * 60_000;

/**
 * Runs the job of one message.
 *
 * @throws HandlerHungError - the handler did not stop: the process must end, and the job's lease must pass
 * @throws the store's errors, when the start or the outcome could not be written: the message must come again
 */
export async function runJob(
  context: RunContext,
  handlers: JobHandlers,
  message: DispatchMessage,
): Promise<RunOutcome> {
  const { store, clock, worker, configuration, log } = context;
  const started = await store.startJob({ ...worker, ...message, nowMs: clock.nowMs() });
  if (started.kind === 'superseded') {
    log.info('message is outdated', { ...message });
    return 'superseded';
  }
  const { job } = started;
  const type = configuration.types.find((each) => each.type === job.type);
  const time = timeFor(context, type?.timeoutMs ?? UNKNOWN_TYPE_TIMEOUT_MS);
  let verdict: FinishVerdict;
  try {
    verdict = { kind: 'succeeded', result: await attempt(context, handlers, job, time) };
  } catch (error) {
    if (error instanceof HandlerHungError) throw error;
    const failure = jobErrorOf(error);
    verdict =
      type === undefined
        ? { kind: 'failed', error: failure }
        : afterFailure(job, failure, type.retry, context.random(), clock.nowMs());
    log.info('attempt failed', {
      jobId: job.id,
      type: job.type,
      attempt: job.attempt,
      error: failure,
      verdict: verdict.kind,
    });
  }
  const nowMs = clock.nowMs();
  const finished = await store.finishJob({
    ...worker,
    job,
    verdict,
    nowMs,
    expiresAtMs: nowMs + TERMINAL_TTL_MS,
  });
  if (finished.kind === 'superseded') {
    log.warn('attempt was superseded; its outcome does not count', {
      jobId: job.id,
      claimId: message.claimId,
    });
    return 'superseded';
  }
  return verdict.kind;
}
