import type { Control } from '../core/capacity.ts';
import type { DurationInput } from '../core/duration.ts';
import { ValidationError } from '../core/errors.ts';
import { historyOf, type JobHistory } from '../core/history.ts';
import { isTerminal, type Job, TERMINAL_TTL_MS } from '../core/job.ts';
import { printScope, type Scope } from '../core/scope.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { wholeOf } from '../objects/large-values.ts';
import { type CapacityView, type LockView, readCapacity, readLockViews } from '../operate/capacity.ts';
import {
  type ControlAnswer,
  changeControl,
  drain,
  partitionsOf,
  readControls,
  requireShares,
  withDeclared,
} from '../operate/controls.ts';
import { type DispatchersView, readDispatchers } from '../operate/dispatchers.ts';
import { explainJob, type LiveExplanation } from '../operate/explain.ts';
import {
  type DeclarationView,
  type FleetView,
  type KeyView,
  listKeys,
  readDeclarationView,
  readFleets,
  readTypes,
  type TypeView,
} from '../operate/inspect.ts';
import { type JobFilter, type ListedState, listJobs } from '../operate/list-jobs.ts';
import { type ListPlace, parsePlace } from '../operate/places.ts';
import { redriveJob } from '../operate/redrive.ts';
import { retimeJob, setJobPriority } from '../operate/retime.ts';
import { readStatistics, type StatisticsView } from '../operate/statistics.ts';
import type { Supposition } from '../operate/supposition.ts';
import type { ANY_STATE } from '../operate/tagged.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { Rejection, UnreadableItem } from '../store/contract/records.ts';
import type { CancelOutcome, ControlChange } from '../store/contract/requests.ts';
import {
  checked,
  checkedJob,
  checkedScope,
  checkedTime,
  checkFinished,
  checkSupposed,
  checkType,
  type JobName,
  SHAPES,
} from './arguments.ts';
import {
  type CancelEntry,
  type CancelFilter,
  cancelEach,
  type RetimeEntry,
  type RetimeFilter,
  retimeEach,
} from './bulk.ts';
import {
  type CallOptions,
  changedJob,
  eachWithSignal,
  type GetOptions,
  optionsOf,
  withSignal,
} from './calls.ts';
import { ClientContexts, type ClientParts, type SubmitCall, submitCall } from './contexts.ts';
import {
  type DeadLetterFilter,
  deadLettersOf,
  type RedriveEntry,
  type RetryResult,
  redriveEach,
  rejectionsIn,
} from './dead-letters.ts';
import { DeclaredJobs } from './declared-jobs.ts';
import { AbortError, controlChanged, drainTimedOut, JobStateError, NotFoundError } from './errors.ts';
import { type ClientJob, clientJobOf, type JobOutcome, type SucceededJob } from './job.ts';
import { ScheduleVerbs } from './schedules.ts';
import {
  type RunJobOptions,
  type RunOptions,
  Submissions,
  type SubmitEntry,
  type SubmitOptions,
} from './submissions.ts';
import type { Asked, NameAlone, PayloadOrOptions, ResultIn, TypedRequest, TypeNamed } from './typed.ts';
import { type EndedJob, type JobHandle, type WaitOptions, Waits } from './waits.ts';

/** Options of calls that the job's history records. */
export interface ActorOptions extends CallOptions {
  /** The name of the person or program that makes the change, 1 to 128 bytes, which the job's history shows. */
  readonly actor?: string | undefined;
}

/** Options of verbs that change all jobs that match a filter. */
export interface BulkOptions extends ActorOptions {
  /** The most jobs to change, 1 to 10,000. @default 1,000 */
  readonly limit?: number | undefined;
  /** True: only finds the jobs, up to the limit, and changes nothing. @default false */
  readonly dryRun?: boolean | undefined;
}

export interface ListFilter extends Omit<JobFilter, 'sinceMs' | 'untilMs'> {
  /** `any`: jobs of every state that have a tag which is declared in `searchableTags`. */
  readonly state: ListedState | typeof ANY_STATE;
  /** ISO 8601 with a zone, for the states `succeeded`, `cancelled` and `expired`: lists jobs that ended at this instant or later. */
  readonly since?: string | undefined;
  /** ISO 8601 with a zone, for the states `succeeded`, `cancelled` and `expired`: lists jobs that ended before this instant. */
  readonly until?: string | undefined;
}

export interface CancelResult {
  /**
   * `cancelled`: the job will not run. `requested`: its worker was asked to stop, and the job ends as the worker
   * reports. `ended`: the job had ended before.
   */
  readonly outcome: 'cancelled' | 'requested' | 'ended';
  readonly job: ClientJob;
}

export interface RetimeChange {
  /**
   * The job starts no earlier than this: ISO 8601 with a zone, a `Date`, or a delay from now, such as `'+10m'`. A time
   * in the past means now.
   */
  readonly runAt: string | Date;
}

/** When a pause or an override ends by itself, and why it was made. */
export interface ControlTerms {
  /**
   * After this time what is declared holds again: milliseconds, a text such as `'10m'`, or a `Duration`, at most 366
   * days. @default - it stays until it is lifted
   */
  readonly for?: DurationInput | undefined;
  /** Shown by `explain`, and kept with the last changes of the scope: 1 to 256 bytes. */
  readonly reason?: string | undefined;
}

export interface PauseOptions extends ActorOptions, ControlTerms {}

export interface OverrideChange extends ControlTerms {
  /** How many jobs of the scope may run at once: 1 to 1,000,000. Null removes the override of the cap. */
  readonly maxConcurrency?: number | null | undefined;
  /** The weight of a fairness key in the fair sharing: above 0, at most 1,000,000. Null removes the override. */
  readonly weight?: number | null | undefined;
}

export interface ExplainOptions extends CallOptions {
  /** An override, or a pause, to suppose for this explanation. Nothing is changed. */
  readonly if?: Supposition | undefined;
}

export interface DrainCallOptions extends CallOptions {
  /**
   * How long to wait: milliseconds, a text such as `'10m'`, or a `Duration`; above 0, at most 24 hours.
   * @default '15m'
   */
  readonly timeout?: DurationInput | undefined;
  /** Called with the number of the scope's jobs that still hold capacity, each time it was read. */
  readonly onProgress?: ((running: number) => void) | undefined;
}

export interface RejectionFilter {
  /** Only entries of the event with this id. */
  readonly eventId?: string | undefined;
}

export interface ListOptions extends CallOptions {
  /**
   * Continues a list behind this entry: what `placeText` of `fairlead/client` gives for an entry of an earlier call with the same filter.
   * @default - the list begins at its beginning
   */
  readonly after?: string | undefined;
}

const placeFrom = (after: string | undefined): ListPlace | undefined =>
  after === undefined ? undefined : parsePlace('options.after', after);

const instantMsOf = (instant: string | undefined): number | undefined =>
  instant === undefined ? undefined : Date.parse(instant);

/** The verbs of a client, wherever they are carried out. */
export type ClientVerbs<Declared extends Jobs = Jobs> = Pick<
  StoreClient<Declared>,
  keyof StoreClient<Declared>
>;

export const DRAIN_TIMEOUT_MS = 900_000;
export const BULK_LIMIT = 1_000;
const COUNT_UP_TO = 100;

/** A client; of declared job types, if it was given them, whose payloads and results the compiler checks. */
export class StoreClient<Declared extends Jobs = Jobs> {
  /** Recurring work. */
  readonly schedules: ScheduleVerbs<Declared>;
  readonly #parts: ClientParts;
  readonly #contexts: ClientContexts;
  readonly #submissions: Submissions;
  readonly #waits: Waits;

  /**
   * Makes a client of these parts.
   * @throws ConfigurationError - a declared job type is none
   */
  constructor(parts: ClientParts<Declared>) {
    this.#parts = parts;
    this.#contexts = new ClientContexts(parts);
    const declared = new DeclaredJobs(parts.clock, parts.jobs);
    this.#waits = new Waits(parts, declared);
    this.#submissions = new Submissions(parts, this.#contexts, declared, this.#waits, (jobId, actor) =>
      this.#cancel(jobId, actor),
    );
    this.schedules = new ScheduleVerbs(
      () => this.#contexts.latest(),
      () => this.#contexts.ambientTrace(),
      declared,
    );
  }

  // Producers

  /**
   * Submits one job and answers its handle as soon as it is stored: `submit(type, payload, options)` or
   * `submit(request, options)`. A declared schema checks the payload before anything is stored.
   *
   * @example const handle = await client.submit('report', { month: 3 }, { runAt: '+10m' });
   * @throws ValidationError - the request is wrong
   * @throws ConflictError - the idempotency key belongs to a job with other content
   */
  async submit<Type extends keyof Declared & string>(
    asked: TypedRequest<Declared, Type> | NameAlone<Declared, Type>,
  ): Promise<JobHandle<ResultIn<Declared, Type>>>;
  async submit<Type extends keyof Declared & string, Given extends string | { readonly type: Type }>(
    asked: Asked<Declared, Type, Given>,
    payload: PayloadOrOptions<Declared, Given, CallOptions>,
    options?: Given extends string ? SubmitOptions : never,
  ): Promise<JobHandle<ResultIn<Declared, TypeNamed<Given>>>>;
  async submit(asked: unknown, second?: unknown, third?: unknown): Promise<JobHandle<unknown>> {
    return this.#traced('submit', [asked], () => this.#submissions.submit(asked, second, third));
  }

  /**
   * Submits up to 10,000 jobs, in batches. Returns one outcome for each request, in the same order; a request that is
   * refused or fails does not affect the others.
   * @throws ValidationError - the argument is not an array of 1 to 10,000 requests
   */
  async submitMany(
    requests: readonly TypedRequest<Declared>[],
    options?: CallOptions,
  ): Promise<readonly SubmitEntry[]> {
    return this.#traced('submitMany', requests, () => this.#submissions.submitMany(requests, options));
  }

  /**
   * Submits an `onDemand` job, waits for its end, and returns it; the handler's result is its `result`:
   * `run(type, payload, options)` or `run(request, options)`. An abort while the job is being stored takes effect once
   * the store has answered, so that it is known which job to cancel.
   * @throws ValidationError, ConflictError, JobFailedError, JobCancelledError, WaitTimeoutError, AbortError
   * @throws ConfigurationError - the declared schema refuses the result
   */
  async run<Type extends keyof Declared & string>(
    asked: TypedRequest<Declared, Type> | NameAlone<Declared, Type>,
  ): Promise<SucceededJob<ResultIn<Declared, Type>>>;
  async run<Type extends keyof Declared & string, Given extends string | { readonly type: Type }>(
    asked: Asked<Declared, Type, Given>,
    payload: PayloadOrOptions<Declared, Given, RunOptions>,
    options?: Given extends string ? RunJobOptions : never,
  ): Promise<SucceededJob<ResultIn<Declared, TypeNamed<Given>>>>;
  async run(asked: unknown, second?: unknown, third?: unknown): Promise<SucceededJob<unknown>> {
    return this.#traced('run', [asked], () => this.#submissions.run(asked, second, third));
  }

  /**
   * Waits for the end of a job, and answers it, whether the job succeeded or not. A job that is named by its event is
   * also waited for while the event is on its way.
   * @throws NotFoundError, WaitTimeoutError, AbortError
   * @throws ValidationError - an argument is wrong
   */
  async wait(
    job: JobName,
    options?: WaitOptions,
  ): Promise<JobOutcome<ResultIn<Declared, keyof Declared & string>>> {
    return (await this.#waits.named(job, options)) as JobOutcome<ResultIn<Declared, keyof Declared & string>>;
  }

  /**
   * Waits for the ends of up to 10,000 jobs, and yields each as it ends. It reads many jobs with one request.
   * @throws NotFoundError - one of the jobs does not exist
   * @throws WaitTimeoutError, AbortError
   * @throws ValidationError - an argument is wrong
   */
  waitMany(
    ids: readonly JobName[],
    options?: WaitOptions,
  ): AsyncIterableIterator<EndedJob<ResultIn<Declared, keyof Declared & string>>> {
    return this.#waits.many(ids, options) as AsyncGenerator<
      EndedJob<ResultIn<Declared, keyof Declared & string>>
    >;
  }

  /**
   * Reads a job, by its id, its idempotency key or its event, with values over 64 KB, which lists show as references. If
   * one of those is lost, the reference stays, and `unreadable` says why. The record of a job that has ended is kept for
   * 7 days.
   * @throws NotFoundError
   */
  async get(job: JobName, options?: GetOptions): Promise<ClientJob> {
    const { references = false, signal } = optionsOf(SHAPES.getOptions, options);
    const found = await this.#read(job, { signal });
    if (references) return clientJobOf(found);
    return clientJobOf(await withSignal(signal, () => wholeOf(this.#parts.large, found), 'look'));
  }

  /**
   * Cancels a job: at once if it is not running, otherwise by asking its worker to stop.
   * @throws NotFoundError
   */
  async cancel(jobId: string, options?: ActorOptions): Promise<CancelResult> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const outcome = await withSignal(signal, () => this.#cancel(id, actor));
    if (outcome.kind === 'missing') throw new NotFoundError({ jobId: id });
    return { outcome: outcome.kind, job: clientJobOf(outcome.job) };
  }

  /**
   * Moves a waiting job to another time. It may be moved any number of times; the last move counts. Returns the job,
   * which is then `scheduled` or `pending`. Its age counts from its new time; a job that is ready and stays ready
   * keeps its rank.
   * @throws NotFoundError, JobStateError if a worker was sent the job or runs it, or if it has ended
   */
  async retime(jobId: string, change: RetimeChange, options?: ActorOptions): Promise<ClientJob> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const { runAt } = checkedTime(
      checked(SHAPES.retime, change, 'change').runAt,
      'change.runAt',
      this.#parts.clock.nowMs(),
    );
    const outcome = await withSignal(signal, async () =>
      retimeJob(await this.#contexts.latest(), id, Date.parse(runAt), actor),
    );
    return clientJobOf(changedJob(id, outcome, 'be moved', 'for its new time'));
  }

  /**
   * Gives a waiting job another priority, 0 to 10. Returns the job. It keeps its age; if its time has come, it is
   * `scheduled` until the next pass gives it its new position.
   * @throws NotFoundError, JobStateError if a worker was sent the job or runs it, or if it has ended
   */
  async setPriority(jobId: string, priority: number, options?: ActorOptions): Promise<ClientJob> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const to = checked(SHAPES.priority, priority, 'priority');
    const outcome = await withSignal(signal, async () =>
      setJobPriority(await this.#contexts.latest(), id, to, actor),
    );
    return clientJobOf(changedJob(id, outcome, 'get another priority', 'with its new priority'));
  }

  /**
   * Tries a failed job again, as a new queued job that starts from the beginning. A repeated call returns the same
   * new job.
   * @throws NotFoundError, JobStateError if it has not failed, its type is not declared any more, or its record
   * cannot be read
   * @throws ValidationError if it has more units than a limit lets one job have since a deployment
   */
  async retry(jobId: string, options?: ActorOptions): Promise<RetryResult> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const outcome = await withSignal(signal, async () =>
      redriveJob(await this.#contexts.latest(), id, actor),
    );
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
            ? 'only failed jobs can be tried again: submit a new one'
            : 'only failed jobs can be tried again, and this one has not ended',
        );
      case 'unreadable':
        throw new JobStateError(outcome.job, `its record cannot be read: ${outcome.job.unreadable}`);
      case 'unknownType':
        throw new JobStateError(
          outcome.job,
          `no worker runs its type ${JSON.stringify(outcome.job.type)} any more`,
        );
      case 'misfit':
        throw new ValidationError(outcome.misfit.field.join('.'), outcome.misfit.reason);
    }
  }

  // Inspecting

  /**
   * Returns the history of a job, in order: its attempts with their workers and errors, lost workers and what followed,
   * changes of its time, and the actions of operators with their names. At most 20 entries are kept; the oldest are
   * dropped and counted. The history is kept as long as the job's record.
   * @throws NotFoundError
   */
  async history(jobId: string, options?: CallOptions): Promise<JobHistory> {
    return historyOf(await this.#read(checked(SHAPES.jobId, jobId, 'jobId'), options));
  }

  /**
   * Returns why a job is not running: its time, jobs before it in its line, another key's share, a cap, a slot, a worker, a
   * conflict, a pause. With `if`, it says what would hold the job under another cap, weight or pause, and changes nothing.
   * @example await client.explain(id, { if: { scope: { limit: 'openai', key: 'acme' }, maxConcurrency: 6 } });
   * @throws NotFoundError
   */
  async explain(jobId: string, options?: ExplainOptions): Promise<LiveExplanation> {
    const { signal, if: supposed } = optionsOf(SHAPES.explainOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const explanation = await withSignal(
      signal,
      async () => {
        const context = await this.#contexts.latest();
        if (supposed !== undefined) checkSupposed(supposed, context.configuration);
        return explainJob(context, id, supposed);
      },
      'look',
    );
    if (explanation === undefined) throw new NotFoundError({ jobId: id });
    return explanation;
  }

  /**
   * Jobs of one state. `scheduled` jobs are sorted by their time, `pending` ones are listed line by line, and
   * `failed` ones (dead letters) latest first; all three are read from an index that may lag behind by about a
   * second. `claimed` and `running` jobs are exact. `succeeded`, `cancelled` and `expired` jobs are listed latest first, from the
   * same index, of one type that is declared with `listFinished: true`. `any` lists the jobs of every state and type
   * that have a searchable tag, the latest submit first, and exactly: the first of the filter's tags that is declared in
   * `searchableTags` is looked up, and the others filter. Pages are read as they are needed.
   */
  list(filter: ListFilter, options?: ListOptions): AsyncIterableIterator<ClientJob> {
    const { signal, after } = optionsOf(SHAPES.listOptions, options);
    const { state, since, until, ...rest } = checked(SHAPES.listFilter, filter, 'filter');
    const times = { sinceMs: instantMsOf(since), untilMs: instantMsOf(until) };
    return eachWithSignal(signal, this.#listed(state, { ...rest, ...times }, placeFrom(after)));
  }

  /**
   * Dead letters, which are failed jobs that were not dealt with yet: latest first, from an index that may lag behind
   * by about a second.
   */
  deadLetters(filter: DeadLetterFilter = {}, options?: ListOptions): AsyncIterableIterator<ClientJob> {
    const { signal, after } = optionsOf(SHAPES.listOptions, options);
    return eachWithSignal(signal, this.#deadLetters(filter, placeFrom(after)));
  }

  /**
   * Refused entries of events, each with the reason and the text that was sent, as far as it is kept. They are listed
   * latest first, from an index that may lag behind by about a second; those of one event are exact, and in the
   * event's order. Kept for 30 days.
   */
  rejections(filter: RejectionFilter = {}, options?: ListOptions): AsyncIterableIterator<Rejection> {
    const { signal, after } = optionsOf(SHAPES.listOptions, options);
    const { eventId } = checked(SHAPES.rejectionFilter, filter, 'filter');
    return eachWithSignal(signal, rejectionsIn(this.#parts.store, eventId, placeFrom(after)));
  }

  /** Items of the table that cannot be read, with the reason and a way out; at most 1,000 of each partition. */
  async unreadable(options?: CallOptions): Promise<readonly UnreadableItem[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return withSignal(
      signal,
      async () => {
        const context = await this.#contexts.latest();
        const partitions = partitionsOf(context);
        return (
          await allEnded(partitions.map((partition) => context.store.listUnreadable(partition)))
        ).flat();
      },
      'look',
    );
  }

  /**
   * Fairness keys with backlog, tier by tier, the key that is served next first, with their costs; then keys that
   * only have jobs in flight. `countUpTo`: count at most so many waiting jobs of a key, 0 to 10,000.
   * @default 100
   */
  keys(options?: CallOptions & { readonly countUpTo?: number | undefined }): AsyncIterableIterator<KeyView> {
    const { signal, countUpTo = COUNT_UP_TO } = optionsOf(SHAPES.keysOptions, options);
    return eachWithSignal(signal, this.#keys(countUpTo));
  }

  /** Returns every fleet with its slots, how many of them are busy, and its workers. */
  async fleets(options?: CallOptions): Promise<readonly FleetView[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return withSignal(signal, async () => readFleets(await this.#contexts.latest()), 'look');
  }

  /** Returns every type with its terms, and the learned duration of its attempts. */
  async types(options?: CallOptions): Promise<readonly TypeView[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return withSignal(signal, async () => readTypes(await this.#contexts.latest()), 'look');
  }

  /**
   * Returns the declaration with its version, and for each partition how many waiting jobs were moved to where it wants
   * them.
   */
  async declaration(options?: CallOptions): Promise<DeclarationView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return withSignal(
      signal,
      async () => {
        const declared = await this.#parts.declarations?.current(0);
        return readDeclarationView(await this.#contexts.latest(), declared?.version ?? 0);
      },
      'look',
    );
  }

  /**
   * Long-running dispatchers, with the partitions that they lead or stand by for, and their load. Then each
   * partition, with its leader, until when it leads, and how many jobs wait there: at most 100 of each line are
   * counted, from an index that may lag.
   */
  async dispatchers(options?: CallOptions): Promise<DispatchersView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return withSignal(signal, async () => readDispatchers(await this.#contexts.latest()), 'look');
  }

  /**
   * Pauses, overrides and rests in force, each with the last ten changes of its pause, its cap and its weight.
   * `history`: also those that have ended in the last seven days.
   */
  async controls(
    options?: CallOptions & { readonly history?: boolean | undefined },
  ): Promise<readonly Control[]> {
    const { signal, history } = optionsOf(SHAPES.controlsOptions, options);
    return withSignal(
      signal,
      async () => {
        const context = await this.#contexts.latest();
        const inForce = await readControls(context);
        if (history !== true) return inForce;
        const ended = await readControls(context, 'endedControls');
        return [...inForce, ...ended.filter(({ scope }) => inForce.every((each) => each.scope !== scope))];
      },
      'look',
    );
  }

  /**
   * Returns how many jobs run in the pool and in each tier, type and limit, with the caps in force; and how much of
   * each rate is used.
   */
  async capacity(options?: CallOptions): Promise<CapacityView> {
    const { signal } = optionsOf(SHAPES.options, options);
    return withSignal(signal, async () => readCapacity(await this.#contexts.latest()), 'look');
  }

  /**
   * Returns what started and ended in each minute, and how long jobs waited and ran, as histograms that add up: of the last hour, or from `from`
   * until `to`, at most a day. A pool whose declaration has `statistics: true` is counted.
   * @throws ValidationError
   */
  async statistics(
    options?: CallOptions & { readonly from?: string | undefined; readonly to?: string | undefined },
  ): Promise<StatisticsView> {
    const { signal, from, to } = optionsOf(SHAPES.statisticsOptions, options);
    const bounds = { fromMs: instantMsOf(from), toMs: instantMsOf(to) };
    return withSignal(signal, async () => readStatistics(await this.#contexts.latest(), bounds), 'look');
  }

  /**
   * Conflict keys that jobs hold, or for which jobs are parked: of each partition, the parked jobs of 100 keys are
   * counted, up to 1,000 for each key.
   */
  async locks(options?: CallOptions): Promise<readonly LockView[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    return withSignal(signal, async () => readLockViews(await this.#contexts.latest()), 'look');
  }

  // Changing

  /**
   * Tries dead letters again, latest first, each as a new job; the filter `{}` selects all of them. It starts when it
   * is iterated.
   */
  redriveDeadLetters(filter: DeadLetterFilter, options?: BulkOptions): AsyncIterableIterator<RedriveEntry> {
    const { signal, actor, limit = BULK_LIMIT, dryRun = false } = optionsOf(SHAPES.bulkOptions, options);
    const redriven = redriveEach(this.#contexts, this.#deadLetters(filter), { limit, dryRun }, actor);
    return eachWithSignal(signal, redriven, dryRun ? 'look' : 'change');
  }

  /**
   * Cancels the jobs that match the filter, one after the other, each as `cancel` does. It starts when it is iterated.
   * A job that starts meanwhile is asked to stop.
   */
  cancelMany(filter: CancelFilter, options?: BulkOptions): AsyncIterableIterator<CancelEntry> {
    const { signal, actor, limit = BULK_LIMIT, dryRun = false } = optionsOf(SHAPES.bulkOptions, options);
    const { state, ...rest } = checked(SHAPES.cancelFilter, filter, 'filter');
    const entries = cancelEach(this.#listed(state, rest), { limit, dryRun }, (id) => this.#cancel(id, actor));
    return eachWithSignal(signal, entries, dryRun ? 'look' : 'change');
  }

  /**
   * Moves the waiting jobs that match the filter to another time, one after the other, each as `retime` does. It
   * starts when it is iterated.
   */
  retimeMany(
    filter: RetimeFilter,
    change: RetimeChange,
    options?: BulkOptions,
  ): AsyncIterableIterator<RetimeEntry> {
    const { signal, actor, limit = BULK_LIMIT, dryRun = false } = optionsOf(SHAPES.bulkOptions, options);
    const { state, ...rest } = checked(SHAPES.retimeFilter, filter, 'filter');
    const asked = checked(SHAPES.retime, change, 'change');
    const runAtMs = Date.parse(checkedTime(asked.runAt, 'change.runAt', this.#parts.clock.nowMs()).runAt);
    const entries = retimeEach(this.#listed(state, rest), { limit, dryRun }, async (id) =>
      retimeJob(await this.#contexts.latest(), id, runAtMs, actor),
    );
    return eachWithSignal(signal, entries, dryRun ? 'look' : 'change');
  }

  /**
   * Starts no more jobs of the scope; running ones continue. Returns the scope's control.
   * @throws ConflictError - another operator changed the scope at the same time; `resume` and `override` throw it too
   */
  async pause(scope: Scope, options?: PauseOptions): Promise<Control> {
    const { for: forMs, reason, ...rest } = optionsOf(SHAPES.pauseOptions, options);
    return this.#control(scope, { paused: true, forMs, reason }, rest);
  }

  /** Ends a pause, and a rest that a handler asked for. Overridden caps and weights stay. */
  async resume(scope: Scope, options?: ActorOptions): Promise<Control> {
    return this.#control(scope, { paused: false }, optionsOf(SHAPES.actorOptions, options));
  }

  /**
   * Overrides a cap, or the weight of a fairness key, from the next pass on. A cap may be above the declared one; the
   * answer then has that one in `aboveDeclared`.
   *
   * @example await client.override({ type: 'render' }, { maxConcurrency: 2, for: '10m', reason: 'the API is slow' });
   * @throws ValidationError, ConflictError
   */
  async override(scope: Scope, change: OverrideChange, options?: ActorOptions): Promise<ControlAnswer> {
    const { weight, maxConcurrency, for: forMs, reason } = checked(SHAPES.override, change, 'change');
    const rest = optionsOf(SHAPES.actorOptions, options);
    const { configuration } = await withSignal(rest.signal, () => this.#contexts.latest(), 'look');
    const named = checkedScope(scope, configuration);
    if (weight !== undefined && (named === 'pool' || !('fairnessKey' in named))) {
      throw new ValidationError('change.weight', 'only a fairness key has a weight; name one as the scope');
    }
    requireShares(named, maxConcurrency, configuration);
    const control = await this.#control(named, { weight, maxConcurrency, forMs, reason }, rest);
    return withDeclared(configuration, control);
  }

  /**
   * Pauses a scope and waits until it is certain that none of its jobs holds capacity. The pause stays.
   * @throws WaitTimeoutError - with the number of jobs that still run
   * @throws ConflictError - another operator resumed the scope at the same time
   */
  async drain(scope: Scope, options?: DrainCallOptions): Promise<void> {
    const {
      signal,
      timeout: timeoutMs = DRAIN_TIMEOUT_MS,
      onProgress,
    } = optionsOf(SHAPES.drainOptions, options);
    const named = await withSignal(signal, () => this.#knownScope(scope), 'look');
    const outcome = await withSignal(signal, () =>
      this.#contexts.everywhere((context) => drain(context, named, { signal, timeoutMs, onProgress })),
    );
    if (outcome.kind === 'aborted') throw new AbortError(signal?.reason, { mayHaveChanged: true });
    if (outcome.kind === 'superseded') throw controlChanged(printScope(named));
    if (outcome.kind === 'timedOut') throw drainTimedOut(printScope(named), outcome.running, timeoutMs);
  }

  async #read(job: JobName, options: CallOptions | undefined): Promise<Job> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { id } = checkedJob(job, 'jobId');
    const [found] = await withSignal(signal, () => this.#parts.store.getJobs({ ids: [id] }), 'look');
    if (found === undefined) throw new NotFoundError({ jobId: id });
    return found;
  }

  #traced<Value>(verb: SubmitCall['verb'], asked: unknown, work: () => Promise<Value>): Promise<Value> {
    const { around } = this.#parts;
    return around === undefined ? work() : around(submitCall(verb, asked), work);
  }

  async *#listed(state: ListFilter['state'], filter: JobFilter, from?: ListPlace): AsyncGenerator<ClientJob> {
    const context = await this.#contexts.latest();
    checkType(filter.type, context.configuration, 'filter.type', context.formerTypes);
    checkFinished(state, filter, context.configuration);
    for await (const job of listJobs(context, state, filter, from)) yield clientJobOf(job);
  }

  #deadLetters(filter: DeadLetterFilter, from?: ListPlace): AsyncGenerator<ClientJob> {
    return deadLettersOf(filter, (rest) => this.#listed('failed', rest, from));
  }

  async *#keys(countUpTo: number): AsyncGenerator<KeyView> {
    yield* listKeys(await this.#contexts.latest(), countUpTo);
  }

  async #knownScope(scope: unknown): Promise<Scope> {
    const { configuration } = await this.#contexts.latest();
    return checkedScope(scope, configuration);
  }

  async #cancel(jobId: string, actor: string | undefined): Promise<CancelOutcome> {
    const nowMs = this.#parts.clock.nowMs();
    return this.#parts.store.cancelJob({ jobId, nowMs, expiresAtMs: nowMs + TERMINAL_TTL_MS, by: actor });
  }

  async #control(
    scope: Scope,
    { forMs, ...change }: Omit<ControlChange, 'untilMs' | 'by'> & { readonly forMs?: number | undefined },
    { signal, actor }: ActorOptions,
  ): Promise<Control> {
    const untilMs = forMs === undefined ? undefined : this.#parts.clock.nowMs() + forMs;
    const { kind, control } = await withSignal(signal, () =>
      this.#contexts.everywhere((context) =>
        changeControl(context, checkedScope(scope, context.configuration), { ...change, untilMs, by: actor }),
      ),
    );
    if (kind === 'superseded') throw controlChanged(printScope(scope));
    return control;
  }
}
