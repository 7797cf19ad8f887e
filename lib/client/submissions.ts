/** The client's verbs that make jobs: `submit`, `submitMany`, and `run`, which waits for the job's end. */

import { valueBytesMax } from '../core/configuration.ts';
import type { DedupeInput } from '../core/dedupe.ts';
import type { DurationInput } from '../core/duration.ts';
import { RefusedError, UnavailableError, ValidationError } from '../core/errors.ts';
import type { Job, JobKeys, JobMode, JobUnits, Json, Tags } from '../core/job.ts';
import { DECLARATION_AGAIN_MS } from '../declaration/declaration.ts';
import { awaitEnd, Waiters } from '../operate/await-end.ts';
import type { OperateContext } from '../operate/controls.ts';
import type { CancelOutcome } from '../store/contract/requests.ts';
import type { Deduplicated } from '../submit/dedupe.ts';
import { dependsOnDeclaration, type JobRequest, jobFrom, jobIdOf } from '../submit/request.ts';
import { type SubmitOutcome, submit } from '../submit/submit.ts';
import {
  CLIENT_LIMITS,
  checkedList,
  checkedRequest,
  namedCall,
  type PreparedRequest,
  requestAsJson,
  SHAPES,
} from './arguments.ts';
import { type CallOptions, optionsOf, stopIfAborted, withSignal } from './calls.ts';
import type { ClientContexts, ClientParts } from './contexts.ts';
import type { DeclaredJobs } from './declared-jobs.ts';
import {
  AbortError,
  type BacklogFullError,
  backlogFull,
  type ConflictError,
  idempotencyKeyConflict,
  NotFoundError,
  runTimedOut,
} from './errors.ts';
import { type ClientJob, clientJobOf, type SucceededJob } from './job.ts';
import { DispatcherNotifier } from './notifier.ts';
import { JobHandle, outcomeOf, successOf, WAIT_TIMEOUT_MS, type Waits } from './waits.ts';

/** The fields of a request beside its type and its payload. */
export interface SubmitFields {
  /** 0 to 10: among the jobs of one fairness key, those of a higher priority start earlier. @default 0 */
  readonly priority?: number | undefined;
  /** @default `queued`; `run` always submits `onDemand` */
  readonly mode?: JobMode | undefined;
  /**
   * The key whose fair share the job is charged to, such as a customer.
   * @default - what the declared type derives from the payload, else the empty key
   */
  readonly fairnessKey?: string | undefined;
  /**
   * The resource that the job works on. Jobs on one resource whose types share a conflict group never run together.
   * @default - what the declared type derives from the payload, else none
   */
  readonly resourceId?: string | undefined;
  /**
   * Further keys by their names, such as `{ org: 'acme' }`: limits that are declared with `keyedBy` count by them. At
   * most 4, with 256 bytes in all.
   * @default - what the declared type derives from the payload, else none
   */
  readonly keys?: JobKeys | undefined;
  /**
   * The job's units by the names of limits of its type, such as `{ openai: 1200 }`, for rates that count units: whole
   * numbers from 1 to the rate's `perJob`. A job that names none for such a limit counts `perJob`.
   * @default - what the declared type derives from the payload, else none
   */
  readonly units?: JobUnits | undefined;
  /** Free text for people who look at the job, at most 256 bytes. It decides nothing. */
  readonly label?: string | undefined;
  /**
   * Names with values to find the job by, such as `{ order: '4711' }`: at most 8, with names of at most 64 characters
   * and at most 512 bytes in all. They decide nothing.
   */
  readonly tags?: Tags | undefined;
  /**
   * The job starts no earlier than this: ISO 8601 with a zone, a `Date`, or a delay from now, such as `'+10m'`. With an
   * idempotency key, requests of the same delay are equal.
   * @default - now
   */
  readonly runAt?: string | Date | undefined;
  /**
   * The job ends as `expired` unless it has started so long after its submission, or after its `runAt` if that is later:
   * milliseconds, a text such as `'30s'`, or a `Duration`; 1 s to 365 days.
   * @default - what its type declares, else it waits for any time
   */
  readonly expireAfter?: DurationInput | undefined;
  /**
   * Of the jobs of one type, fairness key, resource, keys and dedupe key, at most one waits that no worker was given yet. A request that finds it
   * makes no job: the waiting job stands for it.
   * @default - each request makes a job
   */
  readonly dedupe?: DedupeInput | undefined;
  /** Requests with the same key make one job. Without a key, a call that got no answer cannot be repeated safely. */
  readonly idempotencyKey?: string | undefined;
  /**
   * The trace that the job belongs to (W3C Trace Context). Its handler and its outcome event get it.
   * @default - the client's own
   */
  readonly traceparent?: string | undefined;
}

/** One job to submit. */
export interface SubmitRequest extends SubmitFields {
  /** One of the pool's job types. */
  readonly type: string;
  /** Any JSON up to 64 KB, or up to the declared `largePayloads`; null if absent. */
  readonly payload?: unknown;
}

/** Options of `submit(type, payload, options)`. */
export interface SubmitOptions extends SubmitFields, CallOptions {}

export interface SubmitResult {
  readonly jobId: string;
  /** The job as it is stored. */
  readonly job: ClientJob;
  /** Whether an earlier, equal request made this job. */
  readonly repeated: boolean;
  /**
   * Absent: the request made the job, or repeats one that did. `kept`, `replaced`: a waiting job of its dedupe key stands for it, as it was or with this
   * payload. `dropped`: a job of the key runs, and nothing was stored.
   */
  readonly deduplicated?: Deduplicated['kind'] | undefined;
}

/** The outcome of one request of many. */
export type SubmitEntry =
  | ({ readonly kind: 'accepted' } & SubmitResult)
  | { readonly kind: 'refused'; readonly error: ValidationError | ConflictError | BacklogFullError }
  /** The store failed, so the job may have been stored or not. With an idempotency key it can be submitted again. */
  | { readonly kind: 'failed'; readonly jobId: string; readonly error: Error };

export interface RunOptions extends CallOptions {
  /**
   * How long to wait for the job's end: milliseconds, a text such as `'30s'`, or a `Duration`; above 0, at most 24
   * hours.
   * @default '5m'
   */
  readonly timeout?: DurationInput | undefined;
  /**
   * Cancels the job when its last waiter gives up, by time or by signal. Only waiters of this client are counted: the
   * job continues if one of them did not set this, and waiters of other processes are not known here. A process that
   * is killed cancels nothing.
   * @default false
   */
  readonly dieWithWaiter?: boolean | undefined;
  /** Called with the job once it is stored, and after each look-up. */
  readonly onProgress?: ((job: ClientJob) => void) | undefined;
}

/** Options of `run(type, payload, options)`. */
export interface RunJobOptions extends Omit<SubmitFields, 'mode'>, RunOptions {}

/** The names of the options that belong to a call, not to its job. */
export const OWN_OPTIONS = { signal: true } as const satisfies Record<keyof CallOptions, true>;
export const OWN_RUN_OPTIONS = {
  ...OWN_OPTIONS,
  timeout: true,
  dieWithWaiter: true,
  onProgress: true,
} as const satisfies Record<keyof RunOptions, true>;

const SUBMIT_BATCH = 100;
/** The actor that the job's history names when its last waiter has given up. */
export const LAST_WAITER = 'its last waiter';

export class Submissions {
  readonly #parts: ClientParts;
  readonly #contexts: ClientContexts;
  readonly #declared: DeclaredJobs;
  readonly #waits: Waits;
  readonly #cancel: (jobId: string, actor: string) => Promise<CancelOutcome>;
  readonly #waiters = new Waiters();
  readonly #notifier = new DispatcherNotifier();

  constructor(
    parts: ClientParts,
    contexts: ClientContexts,
    declared: DeclaredJobs,
    waits: Waits,
    cancel: (jobId: string, actor: string) => Promise<CancelOutcome>,
  ) {
    this.#parts = parts;
    this.#contexts = contexts;
    this.#declared = declared;
    this.#waits = waits;
    this.#cancel = cancel;
  }

  /** See `StoreClient.submit`. */
  async submit(asked: unknown, second: unknown, third: unknown): Promise<JobHandle<unknown>> {
    const { request, options } =
      typeof asked === 'string'
        ? namedCall(asked, second, third, OWN_OPTIONS)
        : { request: asked, options: second };
    const { signal } = optionsOf(SHAPES.options, options);
    const checked = await withSignal(signal, () => this.#checkedRequest(request), 'look');
    const job = this.#jobOf(checked.asked, checked.context);
    const [outcome] = await withSignal(signal, () => this.#store(checked.context, [job]));
    const stored = storedJob(outcome, job);
    return new JobHandle(this.#waits, stored.job, stored.repeated, stored.deduplicated);
  }

  /** See `StoreClient.submitMany`. */
  async submitMany(requests: unknown, options?: CallOptions): Promise<readonly SubmitEntry[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    const list = checkedList(requests, 'requests', [1, CLIENT_LIMITS.requests], 'requests');
    const entries: PreparedEntry[] = [];
    for (const request of list) entries.push(await withSignal(signal, () => this.#entryOf(request), 'look'));
    const jobs = entries.flatMap((entry) => ('job' in entry ? [entry.job] : []));
    const outcomes = new Map<Job, SubmitEntry>();
    for (let from = 0; from < jobs.length; from += SUBMIT_BATCH) {
      const batch = jobs.slice(from, from + SUBMIT_BATCH);
      const answers = await withSignal(signal, async () =>
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
  async run(asked: unknown, second: unknown, third: unknown): Promise<SucceededJob<unknown>> {
    const { request, options } =
      typeof asked === 'string'
        ? namedCall(asked, second, third, OWN_RUN_OPTIONS)
        : { request: asked, options: second };
    const {
      signal,
      timeout: timeoutMs = WAIT_TIMEOUT_MS,
      dieWithWaiter = false,
      onProgress,
    } = optionsOf(SHAPES.runOptions, options);
    const untilMonotonicMs = this.#parts.clock.monotonicMs() + timeoutMs;
    const {
      context,
      asked: wanted,
      json,
    } = await withSignal(signal, () => this.#checkedRequest(request), 'look');
    if ((json as Partial<SubmitFields>).mode === 'queued') {
      throw new ValidationError('mode', 'a job that is waited for is onDemand; leave it out, or use submit');
    }
    stopIfAborted(signal);
    const job = this.#jobOf({ ...wanted, mode: 'onDemand' }, context);
    const leave = this.#waiters.enter(job.id, dieWithWaiter);
    const progress = (seen: Job): void => onProgress?.(clientJobOf(seen));
    try {
      const [outcome] = await this.#store(context, [job]);
      const stored = storedJob(outcome, job).job;
      progress(stored);
      const end = await awaitEnd(context, stored, { untilMonotonicMs, signal, onProgress: progress });
      if (end.kind === 'missing') throw new NotFoundError({ jobId: stored.id });
      if (end.kind === 'ended') return await this.#succeeded(end.job);
      // A stored job with another id is one into which this request was merged. It stands for other requests, too, so it is not
      // cancelled.
      const cancel = leave() && stored.id === job.id ? await this.#cancel(job.id, LAST_WAITER) : undefined;
      // The job ended while the time ran out, so there is a result after all.
      if (cancel?.kind === 'ended') return await this.#succeeded(cancel.job);
      const requested = cancel?.kind === 'missing' ? undefined : cancel?.kind;
      if (end.kind === 'aborted')
        throw new AbortError(signal?.reason, { jobId: stored.id, cancel: requested });
      throw runTimedOut({ jobId: stored.id, state: end.job.state }, timeoutMs, requested, {
        cause: end.cause,
      });
    } finally {
      leave();
    }
  }

  /** Returns the job with its result as its type's schema reads it. @throws JobFailedError, JobCancelledError */
  async #succeeded(ended: Job): Promise<SucceededJob<unknown>> {
    const { job, result } = successOf(await outcomeOf(this.#declared, this.#parts.large, ended));
    return { ...job, result };
  }

  /**
   * Returns the checked request, and the context for it. If the request does not fit the declaration, a newer one is
   * read: its type may have just been declared.
   */
  async #checkedRequest(request: unknown): Promise<{
    readonly context: OperateContext;
    readonly asked: JobRequest;
    readonly json: Json;
  }> {
    const context = await this.#contexts.current();
    const { clock } = this.#parts;
    const read = requestAsJson(request, clock.nowMs(), valueBytesMax(context.configuration));
    const prepared: PreparedRequest = { ...read, json: await this.#declared.completed(read.json) };
    const { json } = prepared;
    try {
      return { context, json, asked: checkedRequest(prepared, context.configuration) };
    } catch (error) {
      if (!(error instanceof ValidationError) || !dependsOnDeclaration(error)) throw error;
      const newest = await this.#contexts.current(DECLARATION_AGAIN_MS);
      if (newest.configuration === context.configuration) throw error;
      return { context: newest, json, asked: checkedRequest(prepared, newest.configuration) };
    }
  }

  #jobOf(request: JobRequest, context: OperateContext): Job {
    const { idempotencyKey, fairnessKey } = request;
    const id = idempotencyKey === undefined ? this.#parts.newId() : jobIdOf(idempotencyKey);
    const traceparent = request.traceparent ?? this.#contexts.ambientTrace();
    return jobFrom({ ...request, traceparent }, id, context.partitionOf(fairnessKey), context.nowMs());
  }

  #store(context: OperateContext, jobs: readonly Job[]): Promise<readonly SubmitOutcome[]> {
    if (this.#parts.promptStart === false) return submit(context, jobs);
    return submit(context, jobs, (store) => this.#notifier.notifyWhile(context, jobs, store));
  }

  async #entryOf(request: unknown): Promise<PreparedEntry> {
    try {
      const { context, asked } = await this.#checkedRequest(request);
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
    // One of the jobs is refused for good. The halves are submitted separately, so that the others are stored.
    const half = Math.ceil(jobs.length / 2);
    return [
      ...(await this.#submitBatch(jobs.slice(0, half), context)),
      ...(await this.#submitBatch(jobs.slice(half), context)),
    ];
  }
}

/** A request that was accepted, or the reason why it was refused. */
type PreparedEntry = { readonly job: Job } | Extract<SubmitEntry, { readonly kind: 'refused' }>;

function storedJob(
  outcome: SubmitOutcome | undefined,
  asked: Job,
): { readonly job: Job; readonly repeated: boolean; readonly deduplicated?: Deduplicated['kind'] } {
  if (outcome === undefined) throw noAnswer(asked);
  const { kind, job } = outcome;
  if (kind === 'conflict') throw idempotencyKeyConflict(job.id);
  if (kind === 'full') throw backlogFull(outcome);
  return { job, repeated: kind === 'repeated', ...deduplicatedIn(kind) };
}

function entryFrom(outcome: SubmitOutcome | undefined, asked: Job): SubmitEntry {
  if (outcome === undefined) return failed(asked, noAnswer(asked));
  const { kind, job } = outcome;
  if (kind === 'conflict') return { kind: 'refused', error: idempotencyKeyConflict(job.id) };
  if (kind === 'full') return { kind: 'refused', error: backlogFull(outcome) };
  return {
    kind: 'accepted',
    jobId: job.id,
    job: clientJobOf(job),
    repeated: kind === 'repeated',
    ...deduplicatedIn(kind),
  };
}

const deduplicatedIn = (kind: 'created' | 'repeated' | Deduplicated['kind']) =>
  kind === 'created' || kind === 'repeated' ? {} : { deduplicated: kind };

const failed = (job: Job, error: Error): SubmitEntry => ({ kind: 'failed', jobId: job.id, error });

const noAnswer = (job: Job): Error =>
  new UnavailableError(`the store gave no answer for job ${job.id}; submit it again`);
