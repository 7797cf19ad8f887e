/** The client's verbs that make jobs: one, many, and one whose end is waited for. */

import { RefusedError, UnavailableError, ValidationError } from '../core/errors.ts';
import type { Job, JobMode } from '../core/job.ts';
import { withArticle } from '../core/spelling.ts';
import { DECLARATION_AGAIN_MS } from '../declaration/declaration.ts';
import { awaitEnd, Waiters } from '../operate/await-end.ts';
import type { OperateContext } from '../operate/controls.ts';
import type { CancelOutcome, CreateOutcome } from '../store/contract/requests.ts';
import { dependsOnDeclaration, type JobRequest, jobFrom, jobIdOf } from '../submit/request.ts';
import { submit } from '../submit/submit.ts';
import { CLIENT_LIMITS, checkedRequest, SHAPES } from './arguments.ts';
import { type CallOptions, optionsOf, stopIfAborted, within } from './calls.ts';
import type { ClientContexts, ClientParts } from './contexts.ts';
import {
  AbortError,
  type ConflictError,
  JobCancelledError,
  JobFailedError,
  keyTaken,
  NotFoundError,
  runTimedOut,
} from './errors.ts';
import { DispatcherNotifier } from './notifier.ts';

/** One job to submit. */
export interface SubmitRequest {
  /** One of the pool's job types. */
  readonly type: string;
  /** Any JSON up to 64 KB; null if absent. */
  readonly payload?: unknown;
  /** 0 (default) to 10. */
  readonly priority?: number | undefined;
  /** `queued` unless given; `run` always submits `onDemand`. */
  readonly mode?: JobMode | undefined;
  /** Whose share it counts against, such as a customer. */
  readonly fairnessKey?: string | undefined;
  /** With the type's conflict group: jobs on one resource never run together. */
  readonly resourceId?: string | undefined;
  /** Free text for people who look at the job, of at most 256 bytes; nothing is decided by it. */
  readonly label?: string | undefined;
  /** ISO 8601 with a zone: not before this instant. */
  readonly runAt?: string | undefined;
  /** Submitted twice, it makes one job. Without one, a call that got no answer cannot be repeated safely. */
  readonly idempotencyKey?: string | undefined;
  /**
   * The trace that the job belongs to (W3C Trace Context), for its handler and its outcome event.
   * @default - the client's own
   */
  readonly traceparent?: string | undefined;
}

export interface SubmitResult {
  readonly jobId: string;
  /** As it was stored, now or before. */
  readonly job: Job;
  /** The same request made this job before. */
  readonly repeated: boolean;
}

/** What became of one request of many. */
export type SubmitEntry =
  | ({ readonly kind: 'accepted' } & SubmitResult)
  | { readonly kind: 'refused'; readonly error: ValidationError | ConflictError }
  /** Trouble with the store: it may have been stored or not. With its idempotency key it can be submitted again. */
  | { readonly kind: 'failed'; readonly jobId: string; readonly error: Error };

export interface RunOptions extends CallOptions {
  /**
   * How long to wait for the job's end, in milliseconds: more than 0, a day at most.
   * @default 300,000
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Cancels the job when its last waiter gives up, by time or signal. Counted are the waiters of this client: the job
   * goes on if one of them did not set this, and waiters of other processes are not known here. A process that is
   * killed gives nothing up.
   * @default false
   */
  readonly dieWithWaiter?: boolean | undefined;
  /** Hears of the job as soon as it is stored, and each time that it was looked up. */
  readonly onProgress?: ((job: Job) => void) | undefined;
}

const RUN_TIMEOUT_MS = 300_000;
const SUBMIT_BATCH = 100;
/** Who cancels a job whose last waiter is gone. */
const GAVE_UP = 'its last waiter';

export class Submissions {
  readonly #parts: ClientParts;
  readonly #contexts: ClientContexts;
  readonly #cancel: (jobId: string, actor: string) => Promise<CancelOutcome>;
  readonly #waiters = new Waiters();
  readonly #told = new DispatcherNotifier();

  constructor(
    parts: ClientParts,
    contexts: ClientContexts,
    cancel: (jobId: string, actor: string) => Promise<CancelOutcome>,
  ) {
    this.#parts = parts;
    this.#contexts = contexts;
    this.#cancel = cancel;
  }

  /** See `StoreClient.submit`. */
  async submit(request: SubmitRequest, options?: CallOptions): Promise<SubmitResult> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { context, asked } = await within(signal, () => this.#asked(request), 'look');
    const job = this.#jobOf(asked, context);
    const [outcome] = await within(signal, () => this.#store(context, [job]));
    return resultOf(outcome, job);
  }

  /** See `StoreClient.submitMany`. */
  async submitMany(
    requests: readonly SubmitRequest[],
    options?: CallOptions,
  ): Promise<readonly SubmitEntry[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    const list: unknown = requests;
    if (!Array.isArray(list) || list.length < 1 || list.length > CLIENT_LIMITS.requests) {
      const found = Array.isArray(list) ? `${list.length} entries` : withArticle(typeof list);
      throw new ValidationError(
        'requests',
        `must be an array of 1 to ${CLIENT_LIMITS.requests} requests, not ${found}; split it`,
      );
    }
    const entries: Entry[] = [];
    for (const request of list) entries.push(await within(signal, () => this.#entryOf(request), 'look'));
    const jobs = entries.flatMap((entry) => ('job' in entry ? [entry.job] : []));
    const outcomes = new Map<Job, SubmitEntry>();
    for (let from = 0; from < jobs.length; from += SUBMIT_BATCH) {
      const batch = jobs.slice(from, from + SUBMIT_BATCH);
      const answers = await within(signal, async () =>
        this.#submitBatch(batch, await this.#contexts.current()),
      );
      for (const [at, job] of batch.entries()) {
        const answer = answers[at];
        if (answer !== undefined) outcomes.set(job, answer);
      }
    }
    return entries.map((entry) =>
      'job' in entry ? (outcomes.get(entry.job) ?? failed(entry.job, noAnswer(entry.job))) : entry,
    );
  }

  /** See `StoreClient.run`. */
  async run(request: Omit<SubmitRequest, 'mode'>, options?: RunOptions): Promise<Job> {
    const {
      signal,
      timeoutMs = RUN_TIMEOUT_MS,
      dieWithWaiter = false,
      onProgress,
    } = optionsOf(SHAPES.runOptions, options);
    const untilMonotonicMs = this.#parts.clock.monotonicMs() + timeoutMs;
    const { context, asked } = await within(signal, () => this.#asked(request), 'look');
    if (Object.hasOwn(request, 'mode') && (request as SubmitRequest).mode === 'queued') {
      throw new ValidationError('mode', 'a job that is waited for is onDemand; leave it out, or submit it');
    }
    stopIfAborted(signal);
    const job = this.#jobOf({ ...asked, mode: 'onDemand' }, context);
    this.#waiters.enter(job.id, dieWithWaiter);
    let isWaiting = true;
    const leave = (): boolean => {
      const isLast = isWaiting && this.#waiters.leave(job.id);
      isWaiting = false;
      return isLast;
    };
    try {
      const [outcome] = await this.#store(context, [job]);
      const stored = resultOf(outcome, job).job;
      onProgress?.(stored);
      const end = await awaitEnd(context, stored, { untilMonotonicMs, signal, onProgress });
      if (end.kind === 'missing') throw new NotFoundError({ jobId: job.id });
      if (end.kind === 'ended') return succeeded(end.job);
      const cancel = leave() ? await this.#cancel(job.id, GAVE_UP) : undefined;
      // It ended while the time ran out: there is a result after all.
      if (cancel?.kind === 'ended') return succeeded(cancel.job);
      const asking = cancel?.kind === 'missing' ? undefined : cancel?.kind;
      if (end.kind === 'aborted') throw new AbortError(signal?.reason, { jobId: job.id, cancel: asking });
      throw runTimedOut({ jobId: job.id, state: end.job.state }, timeoutMs, asking, {
        cause: end.cause,
      });
    } finally {
      leave();
    }
  }

  /** What is asked for, and whom to ask. A type that nobody knows may have been declared a moment ago. */
  async #asked(request: unknown): Promise<{ readonly context: OperateContext; readonly asked: JobRequest }> {
    const context = await this.#contexts.current();
    try {
      return { context, asked: checkedRequest(request, context.configuration) };
    } catch (error) {
      if (!(error instanceof ValidationError) || !dependsOnDeclaration(error)) throw error;
      const newest = await this.#contexts.current(DECLARATION_AGAIN_MS);
      if (newest.configuration === context.configuration) throw error;
      return { context: newest, asked: checkedRequest(request, newest.configuration) };
    }
  }

  #jobOf(request: JobRequest, context: OperateContext): Job {
    const { idempotencyKey, fairnessKey } = request;
    const id = idempotencyKey === undefined ? this.#parts.newId() : jobIdOf(idempotencyKey);
    const traceparent = request.traceparent ?? this.#contexts.ambientTrace();
    return jobFrom({ ...request, traceparent }, id, context.partitionOf(fairnessKey), context.nowMs());
  }

  #store(context: OperateContext, jobs: readonly Job[]): Promise<readonly CreateOutcome[]> {
    if (this.#parts.promptStart === false) return submit(context, jobs);
    return submit(context, jobs, (store) => this.#told.notifyWhile(context, jobs, store));
  }

  async #entryOf(request: unknown): Promise<Entry> {
    try {
      const { context, asked } = await this.#asked(request);
      return { job: this.#jobOf(asked, context) };
    } catch (error) {
      if (error instanceof ValidationError) return { kind: 'refused', error };
      throw error;
    }
  }

  async #submitBatch(jobs: readonly Job[], context: OperateContext): Promise<readonly SubmitEntry[]> {
    try {
      const outcomes = await this.#store(context, jobs);
      return jobs.map((job, at) => entryFrom(outcomes[at], job));
    } catch (error) {
      const trouble = error instanceof Error ? error : new Error(String(error));
      if (!(error instanceof RefusedError) || jobs.length === 1)
        return jobs.map((job) => failed(job, trouble));
    }
    // One of them is refused for good: by themselves, the others do not share its end.
    const half = Math.ceil(jobs.length / 2);
    return [
      ...(await this.#submitBatch(jobs.slice(0, half), context)),
      ...(await this.#submitBatch(jobs.slice(half), context)),
    ];
  }
}

/** A request that was taken, or why not. */
type Entry = { readonly job: Job } | Extract<SubmitEntry, { readonly kind: 'refused' }>;

function resultOf(outcome: CreateOutcome | undefined, asked: Job): SubmitResult {
  const entry = entryFrom(outcome, asked);
  if (entry.kind !== 'accepted') throw entry.error;
  const { jobId, job, repeated } = entry;
  return { jobId, job, repeated };
}

function entryFrom(outcome: CreateOutcome | undefined, asked: Job): SubmitEntry {
  if (outcome === undefined) return failed(asked, noAnswer(asked));
  const { kind, job } = outcome;
  if (kind === 'conflict') return { kind: 'refused', error: keyTaken(job.id) };
  return { kind: 'accepted', jobId: job.id, job, repeated: kind === 'repeated' };
}

const failed = (job: Job, error: Error): SubmitEntry => ({ kind: 'failed', jobId: job.id, error });

const noAnswer = (job: Job): Error =>
  new UnavailableError(`the store said nothing about job ${job.id}; submit it again`);

function succeeded(job: Job): Job {
  if (job.state === 'failed') throw new JobFailedError(job);
  if (job.state === 'cancelled') throw new JobCancelledError(job);
  return job;
}
