/** The client's verbs over HTTP: for a scheduler that `FAIRLEAD_URL` names. Arguments are checked here as by any client. */
import type { Control } from '../core/capacity.ts';
import { type DurationInput, durationMs } from '../core/duration.ts';
import { ValidationError } from '../core/errors.ts';
import type { JobHistory } from '../core/history.ts';
import { isTerminal, type Job, type Json } from '../core/job.ts';
import { LARGE_PAYLOAD_BYTES } from '../core/large-payloads.ts';
import { referenceIn } from '../core/object-reference.ts';
import { printScope, type Scope } from '../core/scope.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { Waiters } from '../operate/await-end.ts';
import { parsePlace } from '../operate/places.ts';
import type { Clock } from '../runtime/contract.ts';
import {
  CLIENT_LIMITS,
  checked,
  checkedJob,
  checkedList,
  checkedTime,
  type JobName,
  namedCall,
  requestAsJson,
  SHAPES,
} from './arguments.ts';
import { type CallOptions, eachWithSignal, optionsOf, stopIfAborted, withSignal } from './calls.ts';
import {
  type ActorOptions,
  BULK_LIMIT,
  type CancelResult,
  type ClientVerbs,
  DRAIN_TIMEOUT_MS,
  type ExplainOptions,
} from './client.ts';
import { type SubmitCall, type SubmitTracing, submitCall } from './contexts.ts';
import { DeclaredJobs } from './declared-jobs.ts';
import {
  AbortError,
  controlChanged,
  drainTimedOut,
  manyTimedOut,
  NotFoundError,
  runTimedOut,
  WaitTimeoutError,
} from './errors.ts';
import type { ClientJob, JobOutcome, SucceededJob } from './job.ts';
import {
  BATCH,
  batchesOf,
  errorOf,
  type Fetch,
  Remote,
  type RemoteRequest,
  requireOneRequest,
} from './remote.ts';
import { hasTemplate, idOf, scheduleAsJson } from './schedules.ts';
import {
  LAST_WAITER,
  OWN_OPTIONS,
  OWN_RUN_OPTIONS,
  type SubmitEntry,
  type SubmitFields,
} from './submissions.ts';
import { type EndedJob, JobHandle, outcomeOf, successOf, WAIT_TIMEOUT_MS } from './waits.ts';

export interface RemoteClientOptions extends SubmitTracing {
  /** The server's address, such as `http://127.0.0.1:4310`. */
  readonly url: string;
  readonly jobs?: Jobs | undefined;
  readonly clock: Clock;
  /** How long the server may take to answer, in addition to the time for which it is asked to wait. */
  readonly requestTimeoutMs: DurationInput;
  readonly fetch?: Fetch | undefined;
}

const PAGE = 1_000;
/** Milliseconds for which one request asks the server to wait. */
const POLL_MS = 20_000;

const jobPath = (id: string, verb = ''): string => `/jobs/${encodeURIComponent(id)}${verb}`;
const schedulePath = (id: string, verb = ''): string => `/schedules/${encodeURIComponent(id)}${verb}`;

/** Returns a client of the scheduler behind a URL. @throws ValidationError, ConfigurationError */
export function remoteClient<Declared extends Jobs = Jobs>(
  options: RemoteClientOptions,
): ClientVerbs<Declared> {
  // The overloads of `ClientVerbs` say for the compiler what these verbs check at run time.
  return new RemoteVerbs(options) as unknown as ClientVerbs<Declared>;
}

class RemoteVerbs implements Record<keyof ClientVerbs, unknown> {
  readonly schedules: RemoteSchedules;
  readonly #options: RemoteClientOptions;
  readonly #remote: Remote;
  readonly #declared: DeclaredJobs;
  readonly #waiters = new Waiters();

  constructor(options: RemoteClientOptions) {
    const { url, requestTimeoutMs, jobs, fetch } = options;
    this.#options = options;
    this.#remote = new Remote(url, durationMs('requestTimeoutMs', requestTimeoutMs), fetch);
    this.#declared = new DeclaredJobs(options.clock, jobs);
    this.schedules = new RemoteSchedules(this.#remote, this.#declared);
  }

  async submit(asked: unknown, second?: unknown, third?: unknown): Promise<JobHandle<unknown>> {
    const { request, options } =
      typeof asked === 'string'
        ? namedCall(asked, second, third, OWN_OPTIONS)
        : { request: asked, options: second };
    const { signal } = optionsOf(SHAPES.options, options);
    return this.#traced('submit', [asked], async () => this.#submit(await this.#prepared(request), signal));
  }

  async submitMany(requests: unknown, options?: CallOptions): Promise<readonly SubmitEntry[]> {
    const { signal } = optionsOf(SHAPES.options, options);
    const list = checkedList(requests, 'requests', [1, CLIENT_LIMITS.requests], 'requests');
    return this.#traced('submitMany', requests, async () => {
      const entries = await Promise.all(list.map((request) => this.#entryOf(request)));
      const answers: SubmitEntry[] = [];
      for (const batch of batchesOf(entries.flatMap((entry) => ('sent' in entry ? [entry.sent] : []))))
        answers.push(...(await this.#submitBatch(batch, signal)));
      let at = 0;
      return entries.map((entry) => {
        if (!('sent' in entry)) return entry;
        const answer = answers[at];
        at += 1;
        if (answer === undefined) throw new RangeError('the server answered fewer jobs than it was sent');
        return answer;
      });
    });
  }

  async run(asked: unknown, second?: unknown, third?: unknown): Promise<SucceededJob<unknown>> {
    const { request, options } =
      typeof asked === 'string'
        ? namedCall(asked, second, third, OWN_RUN_OPTIONS)
        : { request: asked, options: second };
    const own = optionsOf(SHAPES.runOptions, options);
    const { signal, timeout: timeoutMs = WAIT_TIMEOUT_MS, dieWithWaiter = false, onProgress } = own;
    const untilMs = this.#options.clock.monotonicMs() + timeoutMs;
    const prepared = await this.#prepared(request);
    const sent = onDemand(prepared);
    stopIfAborted(signal);
    return this.#traced('run', [asked], async () => {
      // An abort while the job is being stored takes effect once it is known which job to cancel.
      const { job } = await this.#submit(sent, undefined);
      onProgress?.(job);
      return this.#runOut(job, { untilMs, timeoutMs, signal, dieWithWaiter });
    });
  }

  async #runOut(
    job: ClientJob,
    { untilMs, timeoutMs, signal, dieWithWaiter }: RunningOut,
  ): Promise<SucceededJob<unknown>> {
    const leave = this.#waiters.enter(job.id, dieWithWaiter);
    try {
      for await (const { outcome } of this.#ends([job.id], untilMs, timeoutMs, signal))
        return succeeded(outcome);
      throw new NotFoundError({ jobId: job.id });
    } catch (error) {
      if (!(error instanceof WaitTimeoutError || error instanceof AbortError)) throw error;
      const cancel = leave() ? await this.cancel(job.id, { actor: LAST_WAITER }) : undefined;
      if (cancel?.outcome === 'ended') return succeeded(await this.#outcomeOf(cancel.job));
      if (error instanceof AbortError)
        throw new AbortError(signal?.reason, { jobId: job.id, cancel: cancel?.outcome });
      throw runTimedOut({ jobId: job.id, state: error.state }, timeoutMs, cancel?.outcome);
    } finally {
      leave();
    }
  }

  async wait(job: JobName, options?: unknown): Promise<JobOutcome<unknown>> {
    const { signal, timeout = WAIT_TIMEOUT_MS } = optionsOf(SHAPES.waitOptions, options);
    checkedJob(job, 'jobId');
    for await (const { outcome } of this.#ends([job], this.#untilMs(timeout), timeout, signal))
      return outcome;
    throw new RangeError('the wait for a job ended without its outcome');
  }

  waitMany(ids: readonly JobName[], options?: unknown): AsyncGenerator<EndedJob<unknown>> {
    const { signal, timeout = WAIT_TIMEOUT_MS } = optionsOf(SHAPES.waitOptions, options);
    const list = checkedList(ids, 'ids', [0, CLIENT_LIMITS.awaited], 'ids');
    for (const [at, job] of list.entries()) checkedJob(job, `ids[${at}]`);
    return this.#ends(list as readonly JobName[], this.#untilMs(timeout), timeout, signal);
  }

  async get(job: JobName, options?: unknown): Promise<ClientJob> {
    const { signal, references } = optionsOf(SHAPES.getOptions, options);
    checkedJob(job, 'jobId');
    const asked =
      typeof job === 'string'
        ? { path: jobPath(job), query: { references } }
        : { path: '/jobs/named', query: { ...job, references } };
    return this.#value('job', { method: 'GET', ...asked, signal });
  }

  async cancel(jobId: string, options?: unknown): Promise<CancelResult> {
    return (await this.#change(jobId, '/cancel', {}, options)) as unknown as CancelResult;
  }

  async retime(jobId: string, change: unknown, options?: unknown): Promise<ClientJob> {
    optionsOf(SHAPES.actorOptions, options);
    const runAt = this.#timeOf(change);
    return (await this.#change(jobId, '/retime', { runAt }, options, 'change')).job as ClientJob;
  }

  async setPriority(jobId: string, priority: number, options?: unknown): Promise<ClientJob> {
    const to = checked(SHAPES.priority, priority, 'priority');
    return (await this.#change(jobId, '/priority', { priority: to }, options)).job as ClientJob;
  }

  async retry(jobId: string, options?: unknown): Promise<unknown> {
    return this.#change(jobId, '/retry', {}, options);
  }

  async history(job: JobName, options?: CallOptions): Promise<JobHistory> {
    const { signal } = optionsOf(SHAPES.options, options);
    const { id } = checkedJob(job, 'jobId');
    return this.#value('history', { method: 'GET', path: jobPath(id, '/history'), signal });
  }

  async explain(jobId: string, options?: ExplainOptions): Promise<unknown> {
    const { signal, if: supposed } = optionsOf(SHAPES.explainOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const query = supposed === undefined ? {} : { if: JSON.stringify(supposed) };
    const path = jobPath(id, '/explanation');
    return this.#value('explanation', { method: 'GET', path, query, signal, argument: 'options' });
  }

  list(filter: unknown, options?: CallOptions): AsyncGenerator<unknown> {
    return this.#pages('jobs', '/jobs', checked(SHAPES.listFilter, filter, 'filter'), options);
  }

  deadLetters(filter: unknown = {}, options?: CallOptions): AsyncGenerator<unknown> {
    return this.#pages('jobs', '/dead-letters', checked(SHAPES.deadLetterFilter, filter, 'filter'), options);
  }

  rejections(filter: unknown = {}, options?: CallOptions): AsyncGenerator<unknown> {
    return this.#pages(
      'rejections',
      '/rejections',
      checked(SHAPES.rejectionFilter, filter, 'filter'),
      options,
    );
  }

  keys(options?: unknown): AsyncGenerator<unknown> {
    const { signal, countUpTo } = optionsOf(SHAPES.keysOptions, options);
    return this.#pages('keys', '/keys', { countUpTo }, { signal });
  }

  unreadable = (options?: CallOptions): Promise<unknown> => this.#look('unreadable', options);
  fleets = (options?: CallOptions): Promise<unknown> => this.#look('fleets', options);
  types = (options?: CallOptions): Promise<unknown> => this.#look('types', options);
  declaration = (options?: CallOptions): Promise<unknown> => this.#look('declaration', options);
  async controls(options?: unknown): Promise<unknown> {
    const { signal, history } = optionsOf(SHAPES.controlsOptions, options);
    return this.#value('controls', { method: 'GET', path: '/controls', query: { history }, signal });
  }

  capacity = (options?: CallOptions): Promise<unknown> => this.#look('capacity', options);
  async statistics(options?: unknown): Promise<unknown> {
    const { signal, from, to } = optionsOf(SHAPES.statisticsOptions, options);
    return this.#value('statistics', { method: 'GET', path: '/statistics', query: { from, to }, signal });
  }

  locks = (options?: CallOptions): Promise<unknown> => this.#look('locks', options);

  async dispatchers(options?: CallOptions): Promise<unknown> {
    const { signal } = optionsOf(SHAPES.options, options);
    return (await this.#remote.ask({ method: 'GET', path: '/dispatchers', signal })).body;
  }

  redriveDeadLetters(filter: unknown, options?: unknown): AsyncGenerator<unknown> {
    return this.#bulk(
      '/dead-letters/redrive',
      checked(SHAPES.deadLetterFilter, filter, 'filter'),
      {},
      options,
    );
  }

  cancelMany(filter: unknown, options?: unknown): AsyncGenerator<unknown> {
    return this.#bulk('/jobs/cancel', checked(SHAPES.cancelFilter, filter, 'filter'), {}, options);
  }

  retimeMany(filter: unknown, change: unknown, options?: unknown): AsyncGenerator<unknown> {
    const runAt = this.#timeOf(change);
    return this.#bulk('/jobs/retime', checked(SHAPES.retimeFilter, filter, 'filter'), { runAt }, options);
  }

  async pause(scope: unknown, options?: unknown): Promise<Control> {
    const { signal, actor, ...terms } = optionsOf(SHAPES.pauseOptions, options);
    return this.#control('pause', scope, terms, { signal, actor });
  }

  async resume(scope: unknown, options?: unknown): Promise<Control> {
    return this.#control('resume', scope, {}, optionsOf(SHAPES.actorOptions, options));
  }

  async override(scope: unknown, asked: unknown, options?: unknown): Promise<Control> {
    const change = checked(SHAPES.override, asked, 'change');
    return this.#control('override', scope, { change }, optionsOf(SHAPES.actorOptions, options));
  }

  async drain(asked: unknown, options?: unknown): Promise<void> {
    const own = optionsOf(SHAPES.drainOptions, options);
    const { signal, timeout: timeoutMs = DRAIN_TIMEOUT_MS, onProgress } = own;
    const scope: Scope = checked(SHAPES.scope, asked, 'scope');
    const untilMs = this.#untilMs(timeoutMs);
    // The first request does not wait, and so tells how many jobs there are to wait for.
    for (let pollMs = 1; ; pollMs = POLL_MS) {
      const leftMs = untilMs - this.#options.clock.monotonicMs();
      const timeout = Math.max(1, Math.min(pollMs, Math.ceil(leftMs)));
      try {
        const body = { scope, timeout };
        await this.#remote.ask({ method: 'POST', path: '/controls/drain', body, signal, waitMs: timeout });
        onProgress?.(0);
        return;
      } catch (error) {
        if (!(error instanceof WaitTimeoutError)) throw error;
        onProgress?.(error.running ?? 0);
        if (untilMs <= this.#options.clock.monotonicMs())
          throw drainTimedOut(printScope(scope), error.running ?? 0, timeoutMs);
      }
      // Another operator may have resumed the scope meanwhile. The next request would pause it again, so this looks first.
      const controls = (await this.controls({ signal })) as readonly Control[];
      const isPaused = controls.some((each) => each.scope === printScope(scope) && each.paused);
      if (!isPaused) throw controlChanged(printScope(scope));
    }
  }

  /** The outcome of a job that has ended. Only the server can read a result over 64 KB. */
  async #outcomeOf(ended: Job, options?: unknown): Promise<JobOutcome<unknown>> {
    return referenceIn(ended.result) === undefined
      ? outcomeOf(this.#declared, undefined, ended)
      : this.wait(ended.id, options);
  }

  #untilMs(timeoutMs: number): number {
    return this.#options.clock.monotonicMs() + timeoutMs;
  }

  #traced<Value>(verb: SubmitCall['verb'], asked: unknown, work: () => Promise<Value>): Promise<Value> {
    const { around } = this.#options;
    return around === undefined ? work() : around(submitCall(verb, asked), work);
  }

  /** Returns the request as JSON, with what its declared type derives, and with the caller's trace. */
  async #prepared(request: unknown): Promise<Json> {
    const { json, delayMs } = requestAsJson(request, this.#options.clock.nowMs(), LARGE_PAYLOAD_BYTES.most);
    const completed = await this.#declared.completed(json);
    if (typeof completed !== 'object' || completed === null || Array.isArray(completed)) return completed;
    const traceparent = checked(SHAPES.traceparent, this.#options.traceparent?.(), 'traceparent');
    const sent = {
      ...(traceparent === undefined ? {} : { traceparent }),
      ...completed,
      // With an idempotency key, requests of one delay are equal: the server must know that it was a delay.
      ...(delayMs === undefined ? {} : { runAt: `+${delayMs}ms` }),
    };
    requireOneRequest(sent);
    return sent;
  }

  async #submit(body: Json, signal: AbortSignal | undefined): Promise<JobHandle<unknown>> {
    const answer = await this.#remote.ask({ method: 'POST', path: '/jobs', body, signal });
    const { job, repeated, deduplicated } = answer.body as unknown as {
      readonly job: Job;
      readonly repeated: boolean;
      readonly deduplicated?: JobHandle['deduplicated'];
    };
    const waits = {
      forOne: (known: Job, options: unknown) =>
        isTerminal(known.state) ? this.#outcomeOf(known, options) : this.wait(known.id, options),
    };
    return new JobHandle(waits, job, repeated, deduplicated);
  }

  async #entryOf(request: unknown): Promise<{ readonly sent: Json } | SubmitEntry> {
    try {
      return { sent: await this.#prepared(request) };
    } catch (error) {
      if (error instanceof ValidationError) return { kind: 'refused', error };
      throw error;
    }
  }

  async #submitBatch(
    jobs: readonly Json[],
    signal: AbortSignal | undefined,
  ): Promise<readonly SubmitEntry[]> {
    const answer = await this.#remote.ask({ method: 'POST', path: '/jobs/batch', body: { jobs }, signal });
    return (answer.body.requests as readonly Record<string, unknown>[]).map((entry) => {
      const { problem, ...rest } = entry;
      return (problem === undefined
        ? rest
        : { ...rest, error: errorOf(problem as Record<string, unknown>) }) as unknown as SubmitEntry;
    });
  }

  /** Waits for jobs, as many as one request takes at a time, and yields each as it ends. */
  async *#ends(
    jobs: readonly JobName[],
    untilMs: number,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<EndedJob<unknown>> {
    const left = new Map(jobs.map((job) => [checkedJob(job, 'jobId').id, job]));
    const { clock } = this.#options;
    stopIfAborted(signal);
    while (left.size > 0) {
      const asked = [...left].slice(0, BATCH);
      const leftMs = Math.max(1, Math.ceil(untilMs - clock.monotonicMs()));
      const timeout = Math.min(left.size > BATCH ? 1 : POLL_MS, leftMs);
      const body = { jobs: asked.map(([, job]) => job), timeout };
      const answer = await withSignal(
        signal,
        () => this.#remote.ask({ method: 'POST', path: '/jobs/wait', body, signal, waitMs: timeout }),
        'look',
      );
      for (const { id, outcome } of answer.body.ended as readonly EndedJob[]) {
        if (!left.delete(id)) continue;
        yield { id, outcome: await outcomeOf(this.#declared, undefined, outcome.job) };
      }
      // The jobs that this request named go to the back, so that all are looked at even if there are more than one
      // request takes.
      for (const [id, job] of asked) if (left.delete(id)) left.set(id, job);
      if (left.size > 0 && untilMs <= clock.monotonicMs()) throw await this.#timedOut(left, timeoutMs);
    }
  }

  async #timedOut(left: ReadonlyMap<string, JobName>, timeoutMs: number): Promise<Error> {
    const [jobId = ''] = left.keys();
    const state = await this.get(jobId).then(
      (job) => job.state,
      () => undefined,
    );
    return left.size === 1
      ? runTimedOut({ jobId, state }, timeoutMs, undefined)
      : manyTimedOut({ jobId, state }, left.size, timeoutMs);
  }

  async #value<Value>(name: string, request: RemoteRequest): Promise<Value> {
    return (await this.#remote.ask(request)).body[name] as Value;
  }

  async #look(name: string, options: CallOptions | undefined): Promise<unknown> {
    const { signal } = optionsOf(SHAPES.options, options);
    return this.#value(name, { method: 'GET', path: `/${name}`, signal });
  }

  async #change(
    jobId: string,
    verb: string,
    body: object,
    options: unknown,
    argument?: RemoteRequest['argument'],
  ): Promise<Readonly<Record<string, unknown>>> {
    const { signal, actor } = optionsOf(SHAPES.actorOptions, options);
    const id = checked(SHAPES.jobId, jobId, 'jobId');
    const request = { method: 'POST', path: jobPath(id, verb), body, signal, actor } as const;
    return (await this.#remote.ask(argument === undefined ? request : { ...request, argument })).body;
  }

  async #control(verb: string, asked: unknown, body: object, options: ActorOptions): Promise<Control> {
    const scope = checked(SHAPES.scope, asked, 'scope');
    const path = `/controls/${verb}`;
    return this.#value('control', { method: 'POST', path, body: { scope, ...body }, ...options });
  }

  #timeOf(change: unknown): string {
    const { runAt } = checked(SHAPES.retime, change, 'change');
    return checkedTime(runAt, 'change.runAt', this.#options.clock.nowMs()).runAt;
  }

  #pages(
    name: string,
    path: string,
    filter: Readonly<Record<string, unknown>>,
    options: CallOptions | undefined,
  ): AsyncGenerator<unknown> {
    const { signal, after } = optionsOf(SHAPES.listOptions, options);
    // Entries that come by HTTP have no place.
    if (after !== undefined) parsePlace('options.after', '');
    return entriesFrom(this.#remote, name, { path, query: filter, argument: 'filter', signal });
  }

  async *#bulk(path: string, filter: object, rest: object, options: unknown): AsyncGenerator<unknown> {
    const { signal, actor, limit = BULK_LIMIT, dryRun = false } = optionsOf(SHAPES.bulkOptions, options);
    const body = { filter, ...rest, limit, dryRun };
    const waitMs = 60 * limit;
    const answer = await this.#remote.ask({ method: 'POST', path, body, signal, actor, waitMs });
    yield* answer.body.entries as readonly unknown[];
  }
}

interface RunningOut {
  readonly untilMs: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly dieWithWaiter: boolean;
}

/** Returns the request of a job that is waited for, as an `onDemand` job. @throws ValidationError */
function onDemand(request: Json): Json {
  if (typeof request !== 'object' || request === null || Array.isArray(request)) return request;
  const { mode = 'onDemand' } = request as Partial<SubmitFields>;
  if (mode === 'queued')
    throw new ValidationError('mode', 'a job that is waited for is onDemand; leave it out, or use submit');
  return { ...request, mode };
}

function succeeded(outcome: JobOutcome<unknown>): SucceededJob<unknown> {
  const { job, result } = successOf(outcome);
  return { ...job, result };
}

type ListRequest = Omit<RemoteRequest, 'method' | 'body'>;

const entriesFrom = (remote: Remote, name: string, asked: ListRequest): AsyncGenerator<unknown> =>
  eachWithSignal(asked.signal, pagesFrom(remote, name, asked));

async function* pagesFrom(remote: Remote, name: string, asked: ListRequest): AsyncGenerator<unknown> {
  let cursor: unknown;
  do {
    const query = { ...asked.query, limit: PAGE, cursor };
    const { body } = await remote.ask({ method: 'GET', ...asked, query });
    yield* body[name] as readonly unknown[];
    cursor = body.next;
  } while (cursor !== undefined);
}

class RemoteSchedules {
  readonly #remote: Remote;
  readonly #declared: DeclaredJobs;

  constructor(remote: Remote, declared: DeclaredJobs) {
    this.#remote = remote;
    this.#declared = declared;
  }

  async put(id: string, request: unknown, options?: CallOptions): Promise<unknown> {
    const { signal } = optionsOf(SHAPES.options, options);
    const path = schedulePath(idOf(id));
    const sent = scheduleAsJson(id, request);
    const body = hasTemplate(sent) ? sent : await this.#declared.completed(sent);
    return (await this.#remote.ask({ method: 'PUT', path, body, signal })).body;
  }

  get = (id: string, options?: CallOptions): Promise<unknown> => this.#one('GET', id, '', options);
  pause = (id: string, options?: CallOptions): Promise<unknown> => this.#one('POST', id, '/pause', options);
  resume = (id: string, options?: CallOptions): Promise<unknown> => this.#one('POST', id, '/resume', options);

  list(options?: CallOptions): AsyncGenerator<unknown> {
    const { signal } = optionsOf(SHAPES.options, options);
    return entriesFrom(this.#remote, 'schedules', { path: '/schedules', signal });
  }

  async delete(id: string, options?: CallOptions): Promise<void> {
    const { signal } = optionsOf(SHAPES.options, options);
    await this.#remote.ask({ method: 'DELETE', path: schedulePath(idOf(id)), signal });
  }

  async next(id: string, options?: unknown): Promise<unknown> {
    const { signal, from, count } = optionsOf(SHAPES.nextOptions, options);
    const path = schedulePath(idOf(id), '/next');
    return (await this.#remote.ask({ method: 'GET', path, query: { from, count }, signal })).body;
  }

  async runNow(id: string, options?: CallOptions): Promise<unknown> {
    const { signal } = optionsOf(SHAPES.options, options);
    return (await this.#remote.ask({ method: 'POST', path: schedulePath(idOf(id), '/run'), signal })).body;
  }

  async #one(
    method: 'GET' | 'POST',
    id: string,
    verb: string,
    options: CallOptions | undefined,
  ): Promise<unknown> {
    const { signal } = optionsOf(SHAPES.options, options);
    return (await this.#remote.ask({ method, path: schedulePath(idOf(id), verb), signal })).body.schedule;
  }
}
