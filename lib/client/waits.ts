/** Waits for jobs that were submitted: by their handles, and by `wait` and `waitMany`. */
import type { DurationInput } from '../core/duration.ts';
import { ConfigurationError } from '../core/errors.ts';
import type { Job, Json } from '../core/job.ts';
import { referenceIn } from '../core/object-reference.ts';
import { type LargeValues, wholeOf } from '../objects/large-values.ts';
import { type AwaitStop, awaitEnd, awaitEnds } from '../operate/await-end.ts';
import type { Deduplicated } from '../submit/dedupe.ts';
import { CLIENT_LIMITS, checkedJob, checkedList, SHAPES } from './arguments.ts';
import { type CallOptions, optionsOf, stopIfAborted } from './calls.ts';
import type { ClientParts } from './contexts.ts';
import type { DeclaredJobs } from './declared-jobs.ts';
import {
  AbortError,
  JobCancelledError,
  JobFailedError,
  manyTimedOut,
  NotFoundError,
  runTimedOut,
} from './errors.ts';
import { type ClientJob, clientJobOf, type JobOutcome, type SucceededJob } from './job.ts';

export interface WaitOptions extends CallOptions {
  /**
   * How long to wait: milliseconds, a text such as `'30s'`, or a `Duration`; above 0, at most 24 hours.
   * @default '5m'
   */
  readonly timeout?: DurationInput | undefined;
}

/** The end of one of many jobs. */
export interface EndedJob<Result = Json | undefined> {
  readonly id: string;
  readonly outcome: JobOutcome<Result>;
}

/** How long `run`, `wait` and handles wait by default. */
export const WAIT_TIMEOUT_MS = 300_000;

/** A job that was submitted. It is no promise: `result` and `outcome` wait for the job's end. */
export class JobHandle<Result = Json | undefined> {
  readonly jobId: string;
  /** The job as it is stored. */
  readonly job: ClientJob;
  /** Whether an earlier, equal request made this job. */
  readonly repeated: boolean;
  /** As in `SubmitResult`; undefined: the request made the job, or repeats one that did. */
  declare readonly deduplicated?: Deduplicated['kind'];
  readonly #waits: Pick<Waits, 'forOne'>;

  constructor(
    waits: Pick<Waits, 'forOne'>,
    job: Job,
    repeated: boolean,
    deduplicated?: Deduplicated['kind'],
  ) {
    this.#waits = waits;
    this.jobId = job.id;
    this.job = clientJobOf(job);
    this.repeated = repeated;
    // Without deduplication the field is absent, so JSON and comparisons of handles do not show it.
    if (deduplicated !== undefined) this.deduplicated = deduplicated;
  }

  /** The job's id; the same as `jobId`. */
  get id(): string {
    return this.jobId;
  }

  /**
   * Waits for the job's end, and answers its result.
   * @throws JobFailedError, JobCancelledError, WaitTimeoutError, AbortError
   * @throws ConfigurationError - the declared schema refuses the result
   * @throws ValidationError - an option is wrong
   */
  async result(options?: WaitOptions): Promise<Result> {
    return successOf(await this.outcome(options)).result;
  }

  /**
   * Waits for the job's end, and answers it, whether the job succeeded or not.
   * @throws WaitTimeoutError, AbortError
   * @throws ValidationError - an option is wrong
   */
  async outcome(options?: WaitOptions): Promise<JobOutcome<Result>> {
    return (await this.#waits.forOne(this.job, options)) as JobOutcome<Result>;
  }
}

/** Returns the outcome, if the job succeeded. @throws JobFailedError, JobCancelledError, ConfigurationError */
export function successOf<Result>(
  outcome: JobOutcome<Result>,
): Extract<JobOutcome<Result>, { readonly status: 'succeeded' }> {
  if (outcome.status === 'failed') throw new JobFailedError(outcome.job);
  if (outcome.status === 'cancelled' || outcome.status === 'expired')
    throw new JobCancelledError(outcome.job);
  if (outcome.status === 'refused') throw outcome.error;
  return outcome;
}

export class Waits {
  readonly #parts: Pick<ClientParts, 'store' | 'clock' | 'large'>;
  readonly #declared: DeclaredJobs;

  constructor(parts: Pick<ClientParts, 'store' | 'clock' | 'large'>, declared: DeclaredJobs) {
    this.#parts = parts;
    this.#declared = declared;
  }

  /** Waits for a job that was read or stored before. */
  async forOne(job: Job, options: WaitOptions | undefined): Promise<JobOutcome<unknown>> {
    const { signal, timeout = WAIT_TIMEOUT_MS } = optionsOf(SHAPES.waitOptions, options);
    stopIfAborted(signal);
    const untilMonotonicMs = this.#parts.clock.monotonicMs() + timeout;
    const end = await awaitEnd(this.#parts, job, { untilMonotonicMs, signal });
    if (end.kind === 'ended') return outcomeOf(this.#declared, this.#parts.large, end.job);
    if (end.kind === 'missing') throw new NotFoundError({ jobId: job.id });
    if (end.kind === 'aborted') throw new AbortError(signal?.reason, { mayHaveChanged: false });
    throw runTimedOut({ jobId: job.id, state: end.job.state }, timeout, undefined, { cause: end.cause });
  }

  /** See `StoreClient.wait`. */
  async named(job: unknown, options: WaitOptions | undefined): Promise<JobOutcome<unknown>> {
    const next = await this.#ends([checkedJob(job, 'jobId')], options).next();
    if (next.done === true) throw new RangeError('the wait for a job ended without its outcome');
    return next.value.outcome;
  }

  /** See `StoreClient.waitMany`. */
  many(jobs: unknown, options: WaitOptions | undefined): AsyncGenerator<EndedJob<unknown>> {
    const list = checkedList(jobs, 'ids', [0, CLIENT_LIMITS.awaited], 'ids');
    return this.#ends(
      list.map((job, at) => checkedJob(job, `ids[${at}]`)),
      options,
    );
  }

  #ends(
    jobs: readonly ReturnType<typeof checkedJob>[],
    options: WaitOptions | undefined,
  ): AsyncGenerator<EndedJob<unknown>> {
    const { signal, timeout = WAIT_TIMEOUT_MS } = optionsOf(SHAPES.waitOptions, options);
    const arriving = new Set(jobs.flatMap(({ id, isArriving }) => (isArriving ? [id] : [])));
    const unread = new Map(jobs.map(({ id }) => [id, undefined]));
    return this.#eachEnd(unread, arriving, timeout, signal);
  }

  async *#eachEnd(
    unread: ReadonlyMap<string, undefined>,
    arriving: ReadonlySet<string>,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<EndedJob<unknown>> {
    const { store, clock, large } = this.#parts;
    const untilMonotonicMs = clock.monotonicMs() + timeoutMs;
    const whole = async (ended: readonly { readonly id: string }[]): Promise<readonly Job[]> => {
      const jobs = await store.getJobs({ ids: ended.map(({ id }) => id) });
      return ended.map(({ id }, at) => existing(id, jobs[at]));
    };
    const ends = awaitEnds(this.#parts, unread, { untilMonotonicMs, signal, arriving, whole });
    for (;;) {
      const next = await ends.next();
      if (next.done === true) return stopAt(next.value, timeoutMs, signal);
      for (const job of next.value)
        yield { id: job.id, outcome: await outcomeOf(this.#declared, large, job) };
    }
  }
}

/** Returns the outcome of a job that has ended, with its result if that is over 64 KB. */
export async function outcomeOf(
  declared: DeclaredJobs,
  large: LargeValues | undefined,
  ended: Job,
): Promise<JobOutcome<unknown>> {
  const job = clientJobOf(await wholeOf(large, ended, ['result']));
  switch (job.state) {
    case 'failed':
      return { status: 'failed', error: job.error, job };
    case 'cancelled':
      return { status: 'cancelled', job };
    case 'expired':
      return { status: 'expired', job };
    case 'succeeded':
      return referenceIn(job.result) === undefined
        ? declared.outcomeOf(job)
        : { status: 'refused', error: resultLost(job), job };
    default:
      throw new RangeError(`job ${job.id} is ${job.state}, which is no end`);
  }
}

const resultLost = ({ id, result, unreadable }: SucceededJob): ConfigurationError =>
  new ConfigurationError(
    'result',
    result,
    `of job ${id}, which succeeded, cannot be read: ${unreadable}`,
    'No retry brings it back.',
  );

/** Returns the job that was read. @throws NotFoundError - there is none */
function existing(jobId: string, job: Job | undefined): Job {
  if (job === undefined) throw new NotFoundError({ jobId });
  return job;
}

/**
 * Throws the error for the reason why a wait has stopped. @throws NotFoundError, WaitTimeoutError, AbortError - not all
 * jobs have ended
 */
function stopAt(stop: AwaitStop, timeoutMs: number, signal: AbortSignal | undefined): void {
  if (stop.kind === 'ended') return;
  if (stop.kind === 'missing') throw new NotFoundError({ jobId: stop.jobId });
  if (stop.kind === 'aborted') throw new AbortError(signal?.reason, { mayHaveChanged: false });
  const [[jobId, job] = ['', undefined]] = stop.left;
  const state = job?.state;
  const options = { cause: stop.cause };
  throw stop.left.size === 1
    ? runTimedOut({ jobId, state }, timeoutMs, undefined, options)
    : manyTimedOut({ jobId, state }, stop.left.size, timeoutMs, options);
}
