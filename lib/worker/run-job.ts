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
  const name = error instanceof Error && error.name !== '' ? error.name : 'Error';
  const message = error instanceof Error ? error.message : String(error);
  return { name: name.slice(0, 128), message: message.slice(0, ERROR_CHARS_MAX).toWellFormed() };
}

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

/** How long a handler that was told to stop is waited for. */
export const STOP_GRACE_MS = 5_000;

/** Thrown when a handler goes on after it was told to stop: its process must end before its job may run again. */
export class HandlerHungError extends Error {
  override readonly name = 'HandlerHung';
}

/** Runs the handler within its time. Whatever it does after it was told to stop, the attempt has timed out. */
async function attempt(
  context: RunContext,
  handlers: JobHandlers,
  job: Job,
  timeoutMs: number,
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
    const second = await Promise.race([settled, clock.sleep(STOP_GRACE_MS, timer.signal).then(() => late)]);
    if (second.kind !== 'late') throw timeout;
  } finally {
    timer.abort();
  }
  throw new HandlerHungError(
    `the handler of job ${job.id} (${job.type}) ran on for ${STOP_GRACE_MS} ms after its signal; make it heed the signal`,
  );
}

/** A margin before the end of the process in which the attempt's outcome is still written down. */
const FINISH_MARGIN_MS = 2_000;

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
  const left =
    context.deadlineMonotonicMs === undefined
      ? Infinity
      : context.deadlineMonotonicMs - clock.monotonicMs() - STOP_GRACE_MS - FINISH_MARGIN_MS;
  const timeoutMs = Math.max(0, Math.min(type?.timeoutMs ?? UNKNOWN_TYPE_TIMEOUT_MS, left));
  let verdict: FinishVerdict;
  try {
    verdict = { kind: 'succeeded', result: await attempt(context, handlers, job, timeoutMs) };
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
