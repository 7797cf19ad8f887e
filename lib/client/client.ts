/**
 * The client's verbs, over any store: `aws.ts` builds it on DynamoDB and SQS, tests on the memory store.
 *
 * Every verb checks its arguments before it does anything, takes an AbortSignal, and throws the errors of `errors.ts` or
 * the store's own. A submitted or cancelled job needs no wake: its stream record causes a pass, and sends the delayed
 * wake of a job whose time comes soon. Controls are in no such record, so what opens a way (`resume`, an override) sends
 * one. So does a move: it must not depend on a stream that is late or lost to be kept to the second.
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import { historyOf, type JobHistory } from '../core/history.ts';
import { isTerminal, type Job, type JobMode, TERMINAL_TTL_MS } from '../core/job.ts';
import { partitionOf } from '../core/partition.ts';
import { DECLARATION_AGAIN_MS, DeclarationMissing, type Declarations } from '../dispatch/declaration.ts';
import { type DispatchersView, readDispatchers } from '../dispatch/dispatchers.ts';
import { explainJob, type LiveExplanation } from '../dispatch/explain.ts';
import { awaitEnd, Waiters } from '../dispatch/foreground.ts';
import {
  type DeclarationView,
  type FleetView,
  type JobFilter,
  type KeyView,
  type ListedState,
  listJobs,
  listKeys,
  readDeclarationView,
  readFleets,
  readTypes,
  type TypeView,
} from '../dispatch/inspect.ts';
import {
  changeControl,
  drain,
  type OperateContext,
  partitionsOf,
  readControls,
  type Scope,
  scopeName,
} from '../dispatch/operate.ts';
import { redriveJob } from '../dispatch/redrive.ts';
import { type JobRequest, jobFrom, jobIdOf } from '../dispatch/request.ts';
import { retimeJob } from '../dispatch/retime.ts';
import { type AnnouncedLines, submit } from '../dispatch/submit.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock } from '../runtime/contract.ts';
import type { CancelOutcome, Control, CreateOutcome, JobStore, UnreadableItem } from '../store/contract.ts';
import { StoreRefused, StoreUnavailable } from '../store/errors.ts';
import { CLIENT_LIMITS, checked, checkedRequest, checkedScope, checkType, SHAPES } from './arguments.ts';
import {
  AbortError,
  ControlChangedError,
  DrainTimeoutError,
  IdempotencyConflictError,
  JobCancelledError,
  JobFailedError,
  JobNotFoundError,
  JobStateError,
  RunTimeoutError,
  ValidationError,
} from './errors.ts';

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
  /** ISO 8601 with a zone: not before this instant. */
  readonly runAt?: string | undefined;
  /** Submitted twice, it makes one job. Without one, a call that got no answer cannot be repeated safely. */
  readonly idempotencyKey?: string | undefined;
}

export interface CallOptions {
  /** Ends the wait for an answer with `AbortError`. */
  readonly signal?: AbortSignal | undefined;
}

/** Who asks, beside it: the job's history tells. */
export interface ActorOptions extends CallOptions {
  /** Such as a user's name: 1 to 128 bytes. */
  readonly actor?: string | undefined;
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
  | { readonly kind: 'refused'; readonly error: ValidationError | IdempotencyConflictError }
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
}

export interface ListFilter extends JobFilter {
  readonly state: ListedState;
}

export interface DeadLetterFilter {
  readonly type?: string | undefined;
  readonly fairnessKey?: string | undefined;
  /** The name of the error that the last attempt ended with. */
  readonly errorName?: string | undefined;
  /** ISO 8601 with a zone; the instant itself is included. */
  readonly failedAfter?: string | undefined;
  /** ISO 8601 with a zone; the instant itself is not included. */
  readonly failedBefore?: string | undefined;
}

export interface RetryResult {
  /** Of the new job. */
  readonly jobId: string;
  /** It was made before. */
  readonly repeated: boolean;
}

/** What became of one dead letter. */
export type RedriveEntry = {
  readonly deadLetterId: string;
  readonly type: string;
} & (
  | ({ readonly kind: 'redriven' } & RetryResult)
  /** It is no dead letter any more, or no worker takes its type. */
  | { readonly kind: 'skipped'; readonly reason: string }
);

export interface CancelResult {
  /** `cancelled`: it will not run. `requested`: its worker is told, and decides by finishing. `ended`: too late. */
  readonly outcome: 'cancelled' | 'requested' | 'ended';
  readonly job: Job;
}

export interface RetimeChange {
  /** ISO 8601 with a zone: not before this instant; one that is past means now. */
  readonly runAt: string;
}

export interface OverrideChange {
  /** Running jobs of the scope: 1 to 1,000,000; null goes back to the configured cap. */
  readonly maxConcurrency?: number | null | undefined;
  /** Of a fairness key: more than 0; null goes back to the configured weight. */
  readonly weight?: number | null | undefined;
}

export interface DrainCallOptions extends CallOptions {
  /**
   * How long to wait, in milliseconds: more than 0, a day at most.
   * @default 900,000
   */
  readonly timeoutMs?: number | undefined;
  /** Hears how many jobs of the scope hold capacity, each time that was looked up. */
  readonly onProgress?: ((running: number) => void) | undefined;
}

/** What a client works with. */
export interface ClientParts {
  readonly store: JobStore;
  readonly queue: Pick<JobQueue, 'sendWake'>;
  /** What is declared; or, in its stead, where that is read. */
  readonly configuration?: PoolConfiguration | undefined;
  readonly declarations?: Declarations | undefined;
  readonly clock: Clock;
  /** Ids of jobs without an idempotency key: 32 hexadecimal digits. */
  readonly newId: () => string;
}

const RUN_TIMEOUT_MS = 300_000;
const DRAIN_TIMEOUT_MS = 900_000;
const SUBMIT_BATCH = 100;
const REDRIVE_LIMIT = 1_000;
const COUNT_UP_TO = 100;
/** Who cancels a job whose last waiter is gone. */
const GAVE_UP = 'its last waiter';

export class StoreClient {
  readonly #parts: ClientParts;
  readonly #announced: AnnouncedLines = new Map();
  readonly #waiters = new Waiters();

  constructor(parts: ClientParts) {
    this.#parts = parts;
  }

  /** What its verbs work with: by what is declared, as it was at most so long ago. */
  async #current(maxAgeMs?: number): Promise<OperateContext> {
    const { store, queue, configuration: given, declarations, clock } = this.#parts;
    const declared = await declarations?.current(maxAgeMs);
    const configuration = declared?.configuration ?? given;
    if (configuration === undefined) throw new DeclarationMissing('a client needs a declaration');
    return {
      store,
      queue,
      configuration,
      formerTypes: declared?.formerTypes,
      shared: declared,
      place: declarations?.place,
      clock,
      nowMs: clock.nowMs,
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
      announced: this.#announced,
    };
  }

  /** For who looks at what is there, or changes it: by what was declared a second ago. */
  #latest(): Promise<OperateContext> {
    return this.#current(DECLARATION_AGAIN_MS);
  }

  /** What is asked for, and whom to ask. A type that nobody knows may have been declared a moment ago. */
  async #asked(request: unknown): Promise<{ readonly context: OperateContext; readonly asked: JobRequest }> {
    const context = await this.#current();
    try {
      return { context, asked: checkedRequest(request, context.configuration) };
    } catch (error) {
      if (!(error instanceof ValidationError) || error.field !== 'type') throw error;
      const newest = await this.#current(DECLARATION_AGAIN_MS);
      if (newest.configuration === context.configuration) throw error;
      return { context: newest, asked: checkedRequest(request, newest.configuration) };
    }
  }

  // Producers

  /**
   * Submits one job and returns as soon as it is stored.
   * @throws ValidationError, IdempotencyConflictError
   */
  async submit(request: SubmitRequest, options?: CallOptions): Promise<SubmitResult> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { context, asked } = await within(signal, () => this.#asked(request));
    const job = this.#jobOf(asked, context);
    const [outcome] = await within(signal, () => submit(context, [job]));
    return resultOf(outcome, job);
  }

  /**
   * Submits up to 10,000 jobs, in batches. Answers what became of each, in their order: one that is refused, or meets
   * trouble, never spoils the others.
   * @throws ValidationError for what is no array of 1 to 10,000
   */
  async submitMany(
    requests: readonly SubmitRequest[],
    options?: CallOptions,
  ): Promise<readonly SubmitEntry[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    const list: unknown = requests;
    if (!Array.isArray(list) || list.length < 1 || list.length > CLIENT_LIMITS.requests) {
      const found = Array.isArray(list) ? `${list.length} entries` : `a ${typeof list}`;
      throw new ValidationError(
        'requests',
        `must be an array of 1 to ${CLIENT_LIMITS.requests} requests, not ${found}; split it`,
      );
    }
    const entries: Entry[] = [];
    for (const request of list) entries.push(await within(signal, () => this.#entryOf(request)));
    const jobs = entries.flatMap((entry) => ('job' in entry ? [entry.job] : []));
    const outcomes = new Map<Job, SubmitEntry>();
    for (let from = 0; from < jobs.length; from += SUBMIT_BATCH) {
      const batch = jobs.slice(from, from + SUBMIT_BATCH);
      const answers = await within(signal, async () => this.#submitBatch(batch, await this.#current()));
      for (const [at, job] of batch.entries()) {
        const answer = answers[at];
        if (answer !== undefined) outcomes.set(job, answer);
      }
    }
    return entries.map((entry) =>
      'job' in entry ? (outcomes.get(entry.job) ?? failed(entry.job, noAnswer(entry.job))) : entry,
    );
  }

  /**
   * Submits a job on demand, waits for its end, and answers it: the handler's result is its `result`.
   * An abort while the job is being stored is noticed as soon as the store has answered, so that it is known what to cancel.
   * @throws ValidationError, IdempotencyConflictError, JobFailedError, JobCancelledError, RunTimeoutError, AbortError
   */
  async run(request: Omit<SubmitRequest, 'mode'>, options?: RunOptions): Promise<Job> {
    const {
      signal,
      timeoutMs = RUN_TIMEOUT_MS,
      dieWithWaiter = false,
    } = optionsOf(SHAPES.runOptions, options);
    const untilMonotonicMs = this.#parts.clock.monotonicMs() + timeoutMs;
    const { context, asked } = await within(signal, () => this.#asked(request));
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
      const [outcome] = await submit(context, [job]);
      const stored = resultOf(outcome, job).job;
      const end = await awaitEnd(context, stored, { untilMonotonicMs, signal });
      if (end.kind === 'missing') throw new JobNotFoundError(job.id);
      if (end.kind === 'ended') return succeeded(end.job);
      const cancel = leave() ? await this.#cancel(job.id, GAVE_UP) : undefined;
      if (end.kind === 'aborted') throw new AbortError(signal?.reason);
      // It ended while the time ran out: there is a result after all.
      if (cancel?.kind === 'ended') return succeeded(cancel.job);
      const asking = cancel?.kind === 'missing' ? undefined : cancel?.kind;
      throw new RunTimeoutError({ jobId: job.id, state: end.job.state }, timeoutMs, asking, {
        cause: end.cause,
      });
    } finally {
      leave();
    }
  }

  /**
   * A job as it is now.
   * @throws JobNotFoundError
   */
  async get(jobId: string, options?: CallOptions): Promise<Job> {
    const { signal } = optionsOf(SHAPES.options, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const [job] = await within(signal, () => this.#parts.store.getJobs([id]));
    if (job === undefined) throw new JobNotFoundError(id);
    return job;
  }

  /**
   * Ends a job that should not happen: at once while nobody runs it, else by asking its worker.
   * @throws JobNotFoundError
   */
  async cancel(jobId: string, options?: ActorOptions): Promise<CancelResult> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const outcome = await within(signal, () => this.#cancel(id, actor));
    if (outcome.kind === 'missing') throw new JobNotFoundError(id);
    return { outcome: outcome.kind, job: outcome.job };
  }

  /**
   * Moves a job that waits to another time, as often as wanted: the last move counts. Answers the job as it is then,
   * `scheduled` or `pending`. Its age counts from its new time; a job that is ready and stays so keeps its place.
   * @throws JobNotFoundError, JobStateError if a worker was told of it, runs it, or has ended it
   */
  async retime(jobId: string, change: RetimeChange, options?: ActorOptions): Promise<Job> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const { runAt } = checked(SHAPES.retime, change, 'change');
    const outcome = await within(signal, async () =>
      retimeJob(await this.#latest(), id, Date.parse(runAt), actor),
    );
    switch (outcome.kind) {
      case 'moved':
        return outcome.job;
      case 'missing':
        throw new JobNotFoundError(id);
      case 'tooLate':
        throw new JobStateError(
          outcome.job,
          isTerminal(outcome.job.state)
            ? 'only jobs that wait are moved: submit a new one'
            : 'only jobs that wait are moved, and a worker has this one: cancel it, and submit it for its new time',
        );
    }
  }

  /**
   * Tries a failed job again, as a new queued job from its beginning. Asked twice, it answers the same new job.
   * @throws JobNotFoundError, JobStateError if it has not failed, its type is gone, or its record cannot be read
   */
  async retry(jobId: string, options?: ActorOptions): Promise<RetryResult> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const outcome = await within(signal, async () => redriveJob(await this.#latest(), id, actor));
    switch (outcome.kind) {
      case 'redriven':
      case 'repeated':
        return { jobId: outcome.jobId, repeated: outcome.kind === 'repeated' };
      case 'missing':
        throw new JobNotFoundError(id);
      case 'notFailed':
        throw new JobStateError(
          outcome.job,
          isTerminal(outcome.job.state)
            ? 'only failed jobs are tried again: submit a new one'
            : 'only failed jobs are tried again, and this one has not ended',
        );
      case 'unreadable':
        throw new JobStateError(outcome.job, `its record cannot be read: ${outcome.job.unreadable}`);
      case 'unknownType':
        throw new JobStateError(
          outcome.job,
          `no worker takes its type ${JSON.stringify(outcome.job.type)} any more`,
        );
    }
  }

  // Looking

  /**
   * What became of a job, in order: its attempts with their workers and errors, losses and what followed, moves, and what
   * operators did, with who. Of a job with many, the oldest give way, and are counted. As long as its record is kept.
   * @throws JobNotFoundError
   */
  async history(jobId: string, options?: CallOptions): Promise<JobHistory> {
    return historyOf(await this.get(jobId, options));
  }

  /**
   * What a job waits for: its time, others of its line, another key, a cap, a slot, a worker, a conflict, a pause.
   * @throws JobNotFoundError
   */
  async explain(jobId: string, options?: CallOptions): Promise<LiveExplanation> {
    const { signal } = optionsOf(SHAPES.options, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const explanation = await within(signal, async () => explainJob(await this.#latest(), id));
    if (explanation === undefined) throw new JobNotFoundError(id);
    return explanation;
  }

  /**
   * Jobs of one state: `scheduled` by their time, `pending` line by line, `failed` (dead letters) latest first, all three
   * from an index that may lag behind by about a second; `claimed` and `running` exactly. Succeeded and cancelled jobs
   * stand in no line: get them by their ids. Pages are read as they are asked for.
   */
  list(filter: ListFilter, options?: CallOptions): AsyncIterableIterator<Job> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { state, ...rest } = checked(SHAPES.listFilter, filter, 'filter');
    return eachWithin(signal, this.#listed(state, rest));
  }

  /** Failed jobs that nobody has dealt with, latest first. */
  deadLetters(filter: DeadLetterFilter = {}, options?: CallOptions): AsyncIterableIterator<Job> {
    const { signal } = optionsOf(SHAPES.options, options);
    return eachWithin(signal, this.#deadLetters(filter));
  }

  /** Items of the table that cannot be read, with what is wrong and what to do; 1,000 of each partition at most. */
  async unreadable(options?: CallOptions): Promise<readonly UnreadableItem[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => {
      const context = await this.#latest();
      const partitions = partitionsOf(context);
      return (
        await Promise.all(partitions.map((partition) => context.store.listUnreadable(partition)))
      ).flat();
    });
  }

  /** Keys with backlog, tier by tier in the order of their turn, with their costs; then those that only have jobs in flight. */
  keys(options?: CallOptions & { readonly countUpTo?: number | undefined }): AsyncIterableIterator<KeyView> {
    const { signal, countUpTo = COUNT_UP_TO } = optionsOf(SHAPES.keysOptions, options);
    return eachWithin(signal, this.#keys(countUpTo));
  }

  /** Every fleet with its slots, what is busy, and its workers. */
  async fleets(options?: CallOptions): Promise<readonly FleetView[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readFleets(await this.#latest()));
  }

  /** Every type with its terms, and what its attempts have taught of how long they take. */
  async types(options?: CallOptions): Promise<readonly TypeView[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readTypes(await this.#latest()));
  }

  /** What is declared, under which version, and how far jobs that wait were moved to where it wants them. */
  async declaration(options?: CallOptions): Promise<DeclarationView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => {
      const declared = await this.#parts.declarations?.current(0);
      return readDeclarationView(await this.#latest(), declared?.version ?? 0);
    });
  }

  /**
   * Dispatchers that run on, with what they lead, stand by for, and how busy they are; and each partition, with who makes
   * its passes, since when, and how much waits there, counted up to 100 jobs of each line from an index that may lag.
   */
  async dispatchers(options?: CallOptions): Promise<DispatchersView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readDispatchers(await this.#latest()));
  }

  /** Pauses and overrides in force. */
  async controls(options?: CallOptions): Promise<readonly Control[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readControls(await this.#latest()));
  }

  // Operating

  /**
   * Tries dead letters again, latest first, each as a new job; `{}` means all of them. Begins as it is iterated, ends
   * after `limit` (1,000 unless given, 10,000 at most).
   */
  redriveDeadLetters(
    filter: DeadLetterFilter,
    options?: ActorOptions & { readonly limit?: number | undefined },
  ): AsyncIterableIterator<RedriveEntry> {
    const { signal, actor, limit = REDRIVE_LIMIT } = optionsOf(SHAPES.redriveOptions, options);
    return eachWithin(signal, this.#redriveEach(this.#deadLetters(filter), limit, actor));
  }

  /**
   * Admits no more jobs of the scope; what runs goes on. Answers the scope's control.
   * @throws ControlChangedError if somebody else ended a pause of it in the same moment; `resume` and `override` likewise
   */
  async pause(scope: Scope, options?: CallOptions): Promise<Control> {
    return this.#control(scope, { paused: true }, options);
  }

  /** Ends a pause. Caps and weights stay overridden. */
  async resume(scope: Scope, options?: CallOptions): Promise<Control> {
    return this.#control(scope, { paused: false }, options);
  }

  /** Puts a cap or a key's weight over the configured one, from the next pass on. */
  async override(scope: Scope, change: OverrideChange, options?: CallOptions): Promise<Control> {
    const { weight, maxConcurrency } = checked(SHAPES.override, change, 'change');
    const { signal } = optionsOf(SHAPES.options, options);
    const named = await within(signal, () => this.#scopeOf(scope));
    if (weight !== undefined && (named === 'pool' || !('fairnessKey' in named))) {
      throw new ValidationError('change.weight', 'only a fairnessKey has a weight; name one as the scope');
    }
    return this.#control(named, { weight, maxConcurrency }, options);
  }

  /**
   * Pauses a scope and waits until, for certain, none of its jobs holds capacity. The pause stays.
   * @throws DrainTimeoutError with how many still run, ControlChangedError if somebody else resumed it in the same moment
   */
  async drain(scope: Scope, options?: DrainCallOptions): Promise<void> {
    const { signal, timeoutMs = DRAIN_TIMEOUT_MS, onProgress } = optionsOf(SHAPES.drainOptions, options);
    const named = await within(signal, () => this.#scopeOf(scope));
    const outcome = await within(signal, () =>
      this.#everywhere((context) => drain(context, named, { signal, timeoutMs, onProgress })),
    );
    if (outcome.kind === 'aborted') throw new AbortError(signal?.reason);
    if (outcome.kind === 'superseded') throw new ControlChangedError(scopeName(named));
    if (outcome.kind === 'timedOut')
      throw new DrainTimeoutError(scopeName(named), outcome.running, timeoutMs);
  }

  #jobOf(request: JobRequest, context: OperateContext): Job {
    const { idempotencyKey, fairnessKey } = request;
    const id = idempotencyKey === undefined ? this.#parts.newId() : jobIdOf(idempotencyKey);
    return jobFrom(request, id, context.partitionOf(fairnessKey), context.nowMs());
  }

  async *#listed(state: ListedState, filter: Omit<ListFilter, 'state'>): AsyncGenerator<Job> {
    const context = await this.#latest();
    checkType(filter.type, context.configuration, 'filter.type', context.formerTypes);
    yield* listJobs(context, state, filter);
  }

  async *#keys(countUpTo: number): AsyncGenerator<KeyView> {
    yield* listKeys(await this.#latest(), countUpTo);
  }

  async #scopeOf(scope: unknown): Promise<Scope> {
    const { configuration } = await this.#latest();
    return checkedScope(scope, configuration);
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
      const outcomes = await submit(context, jobs);
      return jobs.map((job, at) => entryFrom(outcomes[at], job));
    } catch (error) {
      const trouble = error instanceof Error ? error : new Error(String(error));
      if (!(error instanceof StoreRefused) || jobs.length === 1)
        return jobs.map((job) => failed(job, trouble));
    }
    // One of them is refused for good: by themselves, the others do not share its end.
    const half = Math.ceil(jobs.length / 2);
    return [
      ...(await this.#submitBatch(jobs.slice(0, half), context)),
      ...(await this.#submitBatch(jobs.slice(half), context)),
    ];
  }

  async #cancel(jobId: string, actor: string | undefined): Promise<CancelOutcome> {
    const nowMs = this.#parts.clock.nowMs();
    return this.#parts.store.cancelJob(jobId, nowMs, nowMs + TERMINAL_TTL_MS, actor);
  }

  #deadLetters(filter: DeadLetterFilter): AsyncGenerator<Job> {
    const { errorName, failedAfter, failedBefore, ...rest } = checked(
      SHAPES.deadLetterFilter,
      filter,
      'filter',
    );
    const fromMs = failedAfter === undefined ? Number.NEGATIVE_INFINITY : Date.parse(failedAfter);
    const untilMs = failedBefore === undefined ? Number.POSITIVE_INFINITY : Date.parse(failedBefore);
    return matching(this.#listed('failed', rest), (job) => {
      const failedAtMs = job.finishedAtMs ?? 0;
      const isInTime = failedAtMs >= fromMs && failedAtMs < untilMs;
      return isInTime && (errorName === undefined || job.error?.name === errorName);
    });
  }

  async *#redriveEach(
    deadLetters: AsyncIterable<Job>,
    limit: number,
    actor: string | undefined,
  ): AsyncGenerator<RedriveEntry> {
    let left = limit;
    for await (const { id, type } of deadLetters) {
      const named = { deadLetterId: id, type };
      const outcome = await redriveJob(await this.#latest(), id, actor);
      switch (outcome.kind) {
        case 'redriven':
        case 'repeated':
          yield { ...named, kind: 'redriven', jobId: outcome.jobId, repeated: outcome.kind === 'repeated' };
          break;
        case 'missing':
          yield { ...named, kind: 'skipped', reason: 'its record has expired' };
          break;
        case 'notFailed':
          yield { ...named, kind: 'skipped', reason: `it is ${outcome.job.state}` };
          break;
        case 'unreadable':
          yield { ...named, kind: 'skipped', reason: `its record cannot be read: ${outcome.job.unreadable}` };
          break;
        case 'unknownType':
          yield { ...named, kind: 'skipped', reason: 'no worker takes its type any more' };
          break;
      }
      left -= 1;
      if (left === 0) return;
    }
  }

  /**
   * What is done in every partition. Where there are others than before when it was done, it is done again: a new partition
   * takes controls over as they were when it came to its declaration, and may have missed this one.
   */
  async #everywhere<T>(work: (context: OperateContext) => Promise<T>): Promise<T> {
    for (;;) {
      const context = await this.#current(0);
      const answer = await work(context);
      const { shared } = await this.#current(0);
      if (shared?.partitionNumbers.length === context.shared?.partitionNumbers.length) return answer;
    }
  }

  async #control(
    scope: Scope,
    change: { readonly paused?: boolean } & OverrideChange,
    options: CallOptions | undefined,
  ): Promise<Control> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { kind, control } = await within(signal, () =>
      this.#everywhere((context) =>
        changeControl(context, checkedScope(scope, context.configuration), change),
      ),
    );
    if (kind === 'superseded') throw new ControlChangedError(scopeName(scope));
    return control;
  }
}

/** A request that was taken, or why not. */
type Entry = { readonly job: Job } | Extract<SubmitEntry, { readonly kind: 'refused' }>;

/** Options, none if there are none. */
function optionsOf<Shape extends Parameters<typeof checked>[0]>(
  shape: Shape,
  options: unknown,
): NonNullable<ReturnType<typeof checked<Shape>>> {
  return (checked(shape, options, 'options') ?? {}) as NonNullable<ReturnType<typeof checked<Shape>>>;
}

function stopIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new AbortError(signal.reason);
}

/** Waits for the work, but not longer than the signal allows. Nothing is begun under a signal that is aborted. */
async function within<Value>(signal: AbortSignal | undefined, work: () => Promise<Value>): Promise<Value> {
  stopIfAborted(signal);
  if (signal === undefined) return work();
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(new AbortError(signal.reason));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work(), aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

async function* eachWithin<Value>(
  signal: AbortSignal | undefined,
  values: AsyncGenerator<Value>,
): AsyncGenerator<Value> {
  for (;;) {
    const next = await within(signal, () => values.next());
    if (next.done === true) return;
    yield next.value;
  }
}

async function* matching<Value>(
  values: AsyncIterable<Value>,
  matches: (value: Value) => boolean,
): AsyncGenerator<Value> {
  for await (const value of values) if (matches(value)) yield value;
}

function resultOf(outcome: CreateOutcome | undefined, asked: Job): SubmitResult {
  const entry = entryFrom(outcome, asked);
  if (entry.kind !== 'accepted') throw entry.error;
  const { jobId, job, repeated } = entry;
  return { jobId, job, repeated };
}

function entryFrom(outcome: CreateOutcome | undefined, asked: Job): SubmitEntry {
  if (outcome === undefined) return failed(asked, noAnswer(asked));
  const { kind, job } = outcome;
  if (kind === 'conflict') return { kind: 'refused', error: new IdempotencyConflictError(job.id) };
  return { kind: 'accepted', jobId: job.id, job, repeated: kind === 'repeated' };
}

const failed = (job: Job, error: Error): SubmitEntry => ({ kind: 'failed', jobId: job.id, error });

const noAnswer = (job: Job): Error =>
  new StoreUnavailable(`the store said nothing about job ${job.id}; submit it again`);

function succeeded(job: Job): Job {
  if (job.state === 'failed') throw new JobFailedError(job);
  if (job.state === 'cancelled') throw new JobCancelledError(job);
  return job;
}
