import type { Control } from '../core/capacity.ts';
import { ValidationError } from '../core/errors.ts';
import { historyOf, type JobHistory } from '../core/history.ts';
import { isTerminal, type Job, TERMINAL_TTL_MS } from '../core/job.ts';
import { printScope, type Scope } from '../core/scope.ts';
import { changeControl, drain, partitionsOf, readControls } from '../operate/controls.ts';
import { type DispatchersView, readDispatchers } from '../operate/dispatchers.ts';
import { explainJob, type LiveExplanation } from '../operate/explain.ts';
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
} from '../operate/inspect.ts';
import { redriveJob } from '../operate/redrive.ts';
import { retimeJob } from '../operate/retime.ts';
import type { OperateStore } from '../store/contract/operate.ts';
import type { Rejection, UnreadableItem } from '../store/contract/records.ts';
import type { CancelOutcome } from '../store/contract/requests.ts';
import { checked, checkedScope, checkType, SHAPES } from './arguments.ts';
import { type CallOptions, eachWithin, optionsOf, within } from './calls.ts';
import { ClientContexts, type ClientParts } from './contexts.ts';
import {
  type DeadLetterFilter,
  deadLettersOf,
  type RedriveEntry,
  type RetryResult,
  redriveEach,
} from './dead-letters.ts';
import { AbortError, controlChanged, drainTimedOut, JobStateError, NotFoundError } from './errors.ts';
import { ScheduleVerbs } from './schedules.ts';
import {
  type RunOptions,
  Submissions,
  type SubmitEntry,
  type SubmitRequest,
  type SubmitResult,
} from './submissions.ts';

/** Who asks, beside it: the job's history tells. */
export interface ActorOptions extends CallOptions {
  /** Such as a user's name: 1 to 128 bytes. */
  readonly actor?: string | undefined;
}

export interface ListFilter extends JobFilter {
  readonly state: ListedState;
}

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

export interface RejectionFilter {
  /** Only entries of this event. */
  readonly eventId?: string | undefined;
}

const REJECTIONS_PAGE = 100;

async function* rejectionsIn(
  store: Pick<OperateStore, 'listRejections' | 'readRejections'>,
  eventId: string | undefined,
): AsyncGenerator<Rejection> {
  if (eventId !== undefined) return yield* await store.listRejections(eventId);
  let after: string | undefined;
  do {
    const page = await store.readRejections({ limit: REJECTIONS_PAGE, after });
    yield* page.rejections;
    after = page.next;
  } while (after !== undefined);
}

const DRAIN_TIMEOUT_MS = 900_000;
const REDRIVE_LIMIT = 1_000;
const COUNT_UP_TO = 100;

export class StoreClient {
  /** Recurring work. */
  readonly schedules: ScheduleVerbs;
  readonly #parts: ClientParts;
  readonly #contexts: ClientContexts;
  readonly #submissions: Submissions;

  constructor(parts: ClientParts) {
    this.#parts = parts;
    this.#contexts = new ClientContexts(parts);
    this.#submissions = new Submissions(parts, this.#contexts, (jobId, actor) => this.#cancel(jobId, actor));
    this.schedules = new ScheduleVerbs(
      () => this.#contexts.latest(),
      () => this.#contexts.ambientTrace(),
    );
  }

  // Producers

  /**
   * Submits one job and returns as soon as it is stored.
   * @throws ValidationError, ConflictError
   */
  async submit(request: SubmitRequest, options?: CallOptions): Promise<SubmitResult> {
    return this.#submissions.submit(request, options);
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
    return this.#submissions.submitMany(requests, options);
  }

  /**
   * Submits a job on demand, waits for its end, and answers it: the handler's result is its `result`.
   * An abort while the job is being stored is noticed as soon as the store has answered, so that it is known what to cancel.
   * @throws ValidationError, ConflictError, JobFailedError, JobCancelledError, WaitTimeoutError, AbortError
   */
  async run(request: Omit<SubmitRequest, 'mode'>, options?: RunOptions): Promise<Job> {
    return this.#submissions.run(request, options);
  }

  /**
   * A job as it is now.
   * @throws NotFoundError
   */
  async get(jobId: string, options?: CallOptions): Promise<Job> {
    const { signal } = optionsOf(SHAPES.options, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const [job] = await within(signal, () => this.#parts.store.getJobs({ ids: [id] }), 'look');
    if (job === undefined) throw new NotFoundError({ jobId: id });
    return job;
  }

  /**
   * Ends a job that should not happen: at once while nobody runs it, else by asking its worker.
   * @throws NotFoundError
   */
  async cancel(jobId: string, options?: ActorOptions): Promise<CancelResult> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const outcome = await within(signal, () => this.#cancel(id, actor));
    if (outcome.kind === 'missing') throw new NotFoundError({ jobId: id });
    return { outcome: outcome.kind, job: outcome.job };
  }

  /**
   * Moves a job that waits to another time, as often as wanted: the last move counts. Answers the job as it is then,
   * `scheduled` or `pending`. Its age counts from its new time; a job that is ready and stays so keeps its place.
   * @throws NotFoundError, JobStateError if a worker was told of it, runs it, or has ended it
   */
  async retime(jobId: string, change: RetimeChange, options?: ActorOptions): Promise<Job> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const { runAt } = checked(SHAPES.retime, change, 'change');
    const outcome = await within(signal, async () =>
      retimeJob(await this.#contexts.latest(), id, Date.parse(runAt), actor),
    );
    switch (outcome.kind) {
      case 'moved':
        return outcome.job;
      case 'missing':
        throw new NotFoundError({ jobId: id });
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
   * @throws NotFoundError, JobStateError if it has not failed, its type is gone, or its record cannot be read
   */
  async retry(jobId: string, options?: ActorOptions): Promise<RetryResult> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const outcome = await within(signal, async () => redriveJob(await this.#contexts.latest(), id, actor));
    switch (outcome.kind) {
      case 'redriven':
      case 'repeated':
        return { jobId: outcome.jobId, repeated: outcome.kind === 'repeated' };
      case 'missing':
        throw new NotFoundError({ jobId: id });
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
   * @throws NotFoundError
   */
  async history(jobId: string, options?: CallOptions): Promise<JobHistory> {
    return historyOf(await this.get(jobId, options));
  }

  /**
   * What a job waits for: its time, others of its line, another key, a cap, a slot, a worker, a conflict, a pause.
   * @throws NotFoundError
   */
  async explain(jobId: string, options?: CallOptions): Promise<LiveExplanation> {
    const { signal } = optionsOf(SHAPES.options, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const explanation = await within(
      signal,
      async () => explainJob(await this.#contexts.latest(), id),
      'look',
    );
    if (explanation === undefined) throw new NotFoundError({ jobId: id });
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

  /**
   * Entries of events that were refused, each with its reason and what was sent, as far as that is kept: latest first, from an index
   * that may lag behind by about a second; those of one event exactly, in the event's order. Kept for 30 days.
   */
  rejections(filter: RejectionFilter = {}, options?: CallOptions): AsyncIterableIterator<Rejection> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { eventId } = checked(SHAPES.rejectionFilter, filter, 'filter');
    return eachWithin(signal, rejectionsIn(this.#parts.store, eventId));
  }

  /** Items of the table that cannot be read, with what is wrong and what to do; 1,000 of each partition at most. */
  async unreadable(options?: CallOptions): Promise<readonly UnreadableItem[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(
      signal,
      async () => {
        const context = await this.#contexts.latest();
        const partitions = partitionsOf(context);
        return (
          await Promise.all(partitions.map((partition) => context.store.listUnreadable(partition)))
        ).flat();
      },
      'look',
    );
  }

  /** Keys with backlog, tier by tier in the order of their turn, with their costs; then those that only have jobs in flight. */
  keys(options?: CallOptions & { readonly countUpTo?: number | undefined }): AsyncIterableIterator<KeyView> {
    const { signal, countUpTo = COUNT_UP_TO } = optionsOf(SHAPES.keysOptions, options);
    return eachWithin(signal, this.#keys(countUpTo));
  }

  /** Every fleet with its slots, what is busy, and its workers. */
  async fleets(options?: CallOptions): Promise<readonly FleetView[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readFleets(await this.#contexts.latest()), 'look');
  }

  /** Every type with its terms, and what its attempts have taught of how long they take. */
  async types(options?: CallOptions): Promise<readonly TypeView[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readTypes(await this.#contexts.latest()), 'look');
  }

  /** What is declared, under which version, and how far jobs that wait were moved to where it wants them. */
  async declaration(options?: CallOptions): Promise<DeclarationView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(
      signal,
      async () => {
        const declared = await this.#parts.declarations?.current(0);
        return readDeclarationView(await this.#contexts.latest(), declared?.version ?? 0);
      },
      'look',
    );
  }

  /**
   * Dispatchers that run on, with what they lead, stand by for, and how busy they are; and each partition, with who makes
   * its passes, since when, and how much waits there, counted up to 100 jobs of each line from an index that may lag.
   */
  async dispatchers(options?: CallOptions): Promise<DispatchersView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readDispatchers(await this.#contexts.latest()), 'look');
  }

  /** Pauses and overrides in force. */
  async controls(options?: CallOptions): Promise<readonly Control[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return within(signal, async () => readControls(await this.#contexts.latest()), 'look');
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
    return eachWithin(signal, redriveEach(this.#contexts, this.#deadLetters(filter), limit, actor), 'change');
  }

  /**
   * Admits no more jobs of the scope; what runs goes on. Answers the scope's control.
   * @throws ConflictError if somebody else ended a pause of it in the same moment; `resume` and `override` likewise
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
    const named = await within(signal, () => this.#scopeOf(scope), 'look');
    if (weight !== undefined && (named === 'pool' || !('fairnessKey' in named))) {
      throw new ValidationError('change.weight', 'only a fairness key has a weight; name one as the scope');
    }
    return this.#control(named, { weight, maxConcurrency }, options);
  }

  /**
   * Pauses a scope and waits until, for certain, none of its jobs holds capacity. The pause stays.
   * @throws WaitTimeoutError with how many still run, ConflictError if somebody else resumed it in the same moment
   */
  async drain(scope: Scope, options?: DrainCallOptions): Promise<void> {
    const { signal, timeoutMs = DRAIN_TIMEOUT_MS, onProgress } = optionsOf(SHAPES.drainOptions, options);
    const named = await within(signal, () => this.#scopeOf(scope), 'look');
    const outcome = await within(signal, () =>
      this.#contexts.everywhere((context) => drain(context, named, { signal, timeoutMs, onProgress })),
    );
    if (outcome.kind === 'aborted') throw new AbortError(signal?.reason, { mayHaveChanged: true });
    if (outcome.kind === 'superseded') throw controlChanged(printScope(named));
    if (outcome.kind === 'timedOut') throw drainTimedOut(printScope(named), outcome.running, timeoutMs);
  }

  async *#listed(state: ListedState, filter: Omit<ListFilter, 'state'>): AsyncGenerator<Job> {
    const context = await this.#contexts.latest();
    checkType(filter.type, context.configuration, 'filter.type', context.formerTypes);
    yield* listJobs(context, state, filter);
  }

  #deadLetters(filter: DeadLetterFilter): AsyncGenerator<Job> {
    return deadLettersOf(filter, (rest) => this.#listed('failed', rest));
  }

  async *#keys(countUpTo: number): AsyncGenerator<KeyView> {
    yield* listKeys(await this.#contexts.latest(), countUpTo);
  }

  async #scopeOf(scope: unknown): Promise<Scope> {
    const { configuration } = await this.#contexts.latest();
    return checkedScope(scope, configuration);
  }

  async #cancel(jobId: string, actor: string | undefined): Promise<CancelOutcome> {
    const nowMs = this.#parts.clock.nowMs();
    return this.#parts.store.cancelJob({ jobId, nowMs, expiresAtMs: nowMs + TERMINAL_TTL_MS, by: actor });
  }

  async #control(
    scope: Scope,
    change: { readonly paused?: boolean } & OverrideChange,
    options: CallOptions | undefined,
  ): Promise<Control> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { kind, control } = await within(signal, () =>
      this.#contexts.everywhere((context) =>
        changeControl(context, checkedScope(scope, context.configuration), change),
      ),
    );
    if (kind === 'superseded') throw controlChanged(printScope(scope));
    return control;
  }
}
