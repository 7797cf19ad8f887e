/** `testScheduler`: a whole scheduler in the test's process, under virtual time. */
import { AssertionError } from 'node:assert';
import { AsyncLocalStorage } from 'node:async_hooks';
import type { SchedulerClient } from '../client/aws.ts';
import { StoreClient } from '../client/client.ts';
import { DeclaredJobs } from '../client/declared-jobs.ts';
import { type DurationInput, durationMs } from '../core/duration.ts';
import { ConfigurationError, ValidationError } from '../core/errors.ts';
import { isTerminal, type Job, type Json } from '../core/job.ts';
import { type Check, isBoolean, numberWithin, objectOf, wholeWithin } from '../core/read-fields.ts';
import type { Scope } from '../core/scope.ts';
import { LOOK_AHEAD_MS } from '../dispatch/tuning.ts';
import type { Jobs, TypeOf } from '../jobs/jobs.ts';
import { skipTo } from '../local/idle.ts';
import { declaredLocally, type LocalDeclaration } from '../local/pool.ts';
import { type AttemptPlace, type LocalAdapters, LocalScheduler } from '../local/scheduler.ts';
import { seeded } from '../local/seeded.ts';
import { allSettled, VirtualTime } from '../local/virtual-time.ts';
import type { LiveExplanation } from '../operate/explain.ts';
import type { Clock } from '../runtime/contract.ts';
import { TimeHeap } from '../runtime/time-heap.ts';
import { WORKER_SLOTS_MAX } from '../store/contract/bounds.ts';
import type { StoreEvent } from '../store/memory/imitation/imitation.ts';
import { jobFrom, parseRequests } from '../submit/request.ts';
import { submit } from '../submit/submit.ts';
import type { WorkerClient } from '../worker/client.ts';
import { type HandlersOf, type JobMiddleware, readHandling } from '../worker/handlers.ts';
import { type JobContext, type JobHandlers, STOP_GRACE_MS } from '../worker/run-job.ts';
import { type KnownAttempt, type StartedAttempt, TestedAttempts } from './attempts.ts';
import { CostCount, type CostSoFar } from './cost.ts';
import { type CrashOptions, checkCrash, Faults } from './faults.ts';
import { Patience } from './patience.ts';

/** A job, by its id or by its handle. */
export type TestedJob = string | { readonly jobId: string };

export interface TestSchedulerOptions<Declared extends Jobs = Jobs> {
  /** One handler for each declared type. */
  readonly handlers: HandlersOf<Declared>;
  /** Middlewares around each run of a handler, as a worker has them. @default - none */
  readonly use?: readonly JobMiddleware[] | undefined;
  /** The seed of everything that is random. Two tests with one seed go the same way. @default 1 */
  readonly seed?: number | undefined;
  /** When the test begins, in virtual time. @default '2026-01-01T00:00:00Z' */
  readonly start?: string | Date | undefined;
  /**
   * How much virtual time an attempt of a type takes at least: a duration, or a function of the attempt and a random number
   * in [0, 1).
   * @default - the `defaultCostMs` of its type, which is a second
   */
  readonly takes?:
    | {
        readonly [Type in TypeOf<Declared>]?:
          | DurationInput
          | ((context: JobContext<Declared>, random: number) => DurationInput);
      }
    | undefined;
  /** Whether `cost` counts what AWS would bill. Jobs take half as long again then. @default false */
  readonly countsCost?: boolean | undefined;
  /** The slots of the worker process of a fleet with `slots: null`. @default 10 */
  readonly processSlots?: number | undefined;
  /**
   * How long, in real milliseconds, a handler may wait for something that is not virtual time, such as a file, before the test
   * fails with its name.
   * @default 2,000
   */
  readonly patienceMs?: number | undefined;
}

export interface IdleOptions {
  /** The most virtual time that may pass. @default '30d' */
  readonly within?: DurationInput | undefined;
}

/** A change of a job. */
export interface HistoryLine {
  readonly at: string;
  readonly jobId: string;
  readonly type: string;
  readonly state: Job['state'];
  readonly attempt: number;
}

const DEFAULT_START = '2026-01-01T00:00:00Z';
const PATIENCE_MS = 2_000;
const PROCESS_SLOTS = 10;
const IDLE_WITHIN = '30d';
/** The most steps at one instant. More of them are a loop, such as jobs that submit each other without end. */
const STEPS_OF_INSTANT_MAX = 100_000;

/**
 * A scheduler for tests: the product's own code in this process, under virtual time. Nothing is left open, no port and no file,
 * and no global timer is replaced. Time passes only in `advance`, `runUntilIdle`, and while test code waits for a job by
 * `client`.
 *
 * ```ts
 * await using t = await testScheduler(jobs, { types: { charge: { conflictGroup: 'account' } } }, { handlers });
 * const job = await t.submit('charge', { account: 'a1' });
 * await t.runUntilIdle();
 * ```
 *
 * A handler sleeps in virtual time by `t.sleep`. While it waits for something real, time stands still.
 *
 * @throws ConfigurationError - the declaration would be refused by the construct, a handler is missing, or an option is wrong
 */
export async function testScheduler<const Declared extends Jobs>(
  jobs: Declared,
  declaration: LocalDeclaration<Declared>,
  options: TestSchedulerOptions<Declared>,
): Promise<TestScheduler<Declared>> {
  const scheduler = new TestScheduler(jobs, declaration, options);
  await scheduler.begin();
  return scheduler;
}

const startMsOf = (start: string | Date): number => new Date(start).getTime();

const isTime: Check = (field, value) => {
  if ((typeof value === 'string' || value instanceof Date) && Number.isFinite(startMsOf(value))) return;
  throw new ConfigurationError(field, value, 'must be a time', `Write '${DEFAULT_START}'.`);
};

const isTaken: Check = (field, value) => {
  if (typeof value !== 'function') durationMs(field, value);
};

const PATIENCE_MAX_MS = 3_600_000;

/** Checks of the options beside the handlers and their middlewares. */
const optionChecks = (
  jobs: Jobs,
): Readonly<Record<Exclude<keyof TestSchedulerOptions, 'handlers' | 'use'>, Check>> => ({
  seed: wholeWithin(0, Number.MAX_SAFE_INTEGER, 'Leave it out for 1.'),
  start: isTime,
  takes: objectOf(Object.fromEntries(Object.keys(jobs).map((type) => [type, isTaken]))),
  countsCost: isBoolean,
  processSlots: wholeWithin(1, WORKER_SLOTS_MAX, `Leave it out for ${PROCESS_SLOTS}.`),
  patienceMs: numberWithin(1, PATIENCE_MAX_MS, `Leave it out for ${PATIENCE_MS}.`),
});

/** Reads a duration that may be negative, such as `'-5m'`. */
const signedMs = (field: string, by: DurationInput): number =>
  typeof by === 'string' && by.startsWith('-')
    ? -durationMs(field, by.slice(1))
    : typeof by === 'number' && by < 0
      ? by
      : durationMs(field, by);

export class TestScheduler<Declared extends Jobs = Jobs> {
  readonly seed: number;
  /** A client of this scheduler, for code that takes one. While test code waits by it, virtual time passes. */
  readonly client: SchedulerClient<Declared>;
  /** Submits a job, as `client.submit` does. */
  readonly submit: SchedulerClient<Declared>['submit'];
  readonly #options: TestSchedulerOptions<Declared>;
  readonly #jobs: Declared;
  readonly #newId: () => string;
  readonly #declared: ReturnType<typeof declaredLocally>;
  readonly #handlers: JobHandlers;
  readonly #time: VirtualTime;
  readonly #clock: Clock;
  readonly #scheduler: LocalScheduler;
  readonly #attempts: TestedAttempts;
  readonly #patience: Patience;
  readonly #faults: Faults;
  readonly #cost = new CostCount();
  readonly #inHandler = new AsyncLocalStorage<KnownAttempt>();
  readonly #takes: () => number;
  readonly #history: HistoryLine[] = [];
  /** Ids of jobs that have not ended; true if they wait for no time. */
  readonly #open = new Map<string, boolean>();
  #ready = 0;
  readonly #due = new TimeHeap<string>();
  /** How many sleeps of code outside handlers wait for virtual time. */
  #outside = 0;
  #skewMs = 0;
  #stepping: Promise<void> | undefined;
  #driving: Promise<void> | undefined;
  #failure: unknown;
  #isOver = false;

  constructor(
    jobs: Declared,
    declaration: LocalDeclaration<Declared>,
    options: TestSchedulerOptions<Declared>,
  ) {
    const { handlers, ...others } = options ?? {};
    this.#handlers = readHandling(jobs, [handlers, others], optionChecks(jobs)).handlers;
    const { seed = 1, start = DEFAULT_START, patienceMs = PATIENCE_MS } = others;
    this.seed = seed;
    this.#options = options;
    this.#declared = declaredLocally(jobs, declaration as LocalDeclaration);
    const { configuration } = this.#declared;
    this.#patience = new Patience(patienceMs, (attempt) => this.#fail(stuck(attempt, patienceMs)));
    this.#time = new VirtualTime(startMsOf(start), this.#patience.settled);
    const time = this.#time.clock();
    this.#clock = { ...time, sleep: (ms, signal) => this.#sleep(ms, signal) };
    this.#attempts = new TestedAttempts(configuration, () => this.#time.nowMs);
    this.#faults = new Faults(this.#clock);
    this.#takes = seeded(`${seed}/takes`);
    this.#scheduler = new LocalScheduler({
      configuration,
      clock: this.#clock,
      workerClock: { ...this.#clock, nowMs: () => this.#time.nowMs + this.#skewMs },
      after: this.#time.after,
      random: seeded(`${seed}/scheduler`),
      workerRandom: seeded(`${seed}/workers`),
      handle: (payload, context, place) => this.#handle(payload, context, place),
      client: () => this.client as unknown as WorkerClient,
      restartsProcesses: true,
      observe: (event) => this.#observe(event),
      through: (adapters: LocalAdapters) => this.#faults.through(this.#cost.through(adapters)),
      onFailure: (error) => this.#fail(error),
    });
    if (options.countsCost === true) this.#scheduler.store.meter = this.#cost.meter;
    const ids = seeded(`${seed}/ids`);
    this.#newId = () => Array.from({ length: 4 }, () => hex(ids())).join('');
    this.#jobs = jobs;
    const client = new StoreClient<Declared>({
      jobs,
      store: this.#scheduler.store,
      queue: this.#scheduler.queue,
      configuration,
      large: this.#scheduler.client.large,
      clock: { ...this.#clock, sleep: (ms, signal) => this.#sleepAnywhere(ms, signal) },
      newId: this.#newId,
      traceparent: () => undefined,
    });
    // The client has no connections to close.
    this.client = Object.assign(client, { destroy: () => {} });
    const submit = client.submit.bind(client) as (...given: unknown[]) => Promise<never>;
    this.submit = client.submit = async (...given: unknown[]) =>
      this.#isOver ? Promise.reject(this.#failed('it is disposed of; make another one')) : submit(...given);
  }

  /** Deploys, and starts worker processes. */
  async begin(): Promise<void> {
    const { configuration, schedules, payloadSchemas } = this.#declared;
    await this.#scheduler.deploy(configuration, { schedules, payloadSchemas });
    const { processSlots = PROCESS_SLOTS } = this.#options;
    for (const { fleet, slots } of configuration.fleets)
      if (slots === null) this.#scheduler.join({ workerId: `${fleet}-1`, fleet, slots: processSlots });
    await this.#run(this.#time.nowMs);
  }

  // Time

  /** The virtual time. */
  get now(): Date {
    return new Date(this.#time.nowMs);
  }

  /** Lets virtual time pass, and everything that is due in it happen. @throws AssertionError - a handler is stuck, or ignores its signal */
  async advance(by: DurationInput): Promise<void> {
    await this.#drive(this.#time.nowMs + durationMs('by', by), () => false);
  }

  /**
   * Lets virtual time pass until every job has ended, also those that wait for their time or for another attempt. Firings of
   * schedules that are still to come are not waited for.
   *
   * @throws AssertionError - a job has not ended in time; it says why the oldest one waits
   */
  async runUntilIdle(options: IdleOptions = {}): Promise<void> {
    objectOf({ within: isTaken })('options', options);
    const { within = IDLE_WITHIN } = options;
    await this.#drive(this.#time.nowMs + durationMs('within', within), () => this.#open.size === 0);
    const [jobId] = this.#open.keys();
    if (jobId === undefined) return;
    // It is imported here because no test that goes well needs it.
    const { explanationText } = await import('../cli/explanation.ts');
    const open = this.#open.size === 1 ? '1 job has' : `${this.#open.size} jobs have`;
    throw this.#failed(
      `${open} not ended within ${show(within)}: ${explanationText(await this.explain(jobId))}`,
    );
  }

  /** Sleeps in virtual time: for handlers, and for what they call. It ends early when the signal aborts, and never rejects. */
  sleep(duration: DurationInput, signal?: AbortSignal): Promise<void> {
    return this.#sleepAnywhere(duration === Infinity ? Infinity : durationMs('duration', duration), signal);
  }

  // Observations

  /** Returns the attempts that have started, in order. */
  started(type?: TypeOf<Declared>): readonly StartedAttempt[] {
    return this.#attempts.all.filter((attempt) => type === undefined || attempt.type === type);
  }

  /** Returns a job as it is now. @throws AssertionError - there is none */
  job(job: TestedJob): Job {
    const found = this.#scheduler.store.inspectJob(idOf(job));
    if (found !== undefined) return found;
    throw this.#failed(`there is no job ${idOf(job)}`);
  }

  /** Returns why a job is not running. @throws NotFoundError */
  explain(job: TestedJob): Promise<LiveExplanation> {
    return this.client.explain(idOf(job));
  }

  /**
   * Returns the most jobs of a scope that ran at once: `pool`, `type/report`, `tier/urgent`, `fleet/pdf`, `key/acme`,
   * `limit/openai`, `limit/openai/acme`.
   * @throws ValidationError - it is no scope, or names a type, tier, fleet or limit that is not declared
   */
  peak(scope: Scope | string): number {
    return this.#attempts.peak(scope);
  }

  /** Returns the most jobs that ran at once on one resource, of all types. */
  overlap(resourceId: string): number {
    return this.#attempts.overlap(resourceId);
  }

  /**
   * Returns the units and messages that DynamoDB and SQS would bill so far.
   * @throws ConfigurationError - the test does not count it
   */
  cost(): CostSoFar {
    if (this.#options.countsCost !== true)
      throw new ConfigurationError(
        'countsCost',
        false,
        'must be true for cost()',
        'Set it in the options of testScheduler.',
      );
    return this.#cost.soFar;
  }

  /** Each change of a job, in order. Two tests with one seed have equal histories. */
  history(): readonly HistoryLine[] {
    return this.#history;
  }

  // Faults

  /** Makes the process that runs a job vanish, as a crash does. @throws AssertionError - the job is not running */
  crashWorker(job: TestedJob, options: CrashOptions = {}): void {
    checkCrash('options', options);
    const { at = 'now' } = options;
    const attempt = this.#runningOf(job);
    if (at === 'end') attempt.crashesAtEnd = true;
    else this.#scheduler.lose(attempt.jobId);
  }

  /** Makes the process that runs a job stand still for a while. @throws AssertionError - the job is not running */
  freeze(job: TestedJob, duration: DurationInput): void {
    this.#scheduler.freeze(this.#runningOf(job).jobId, durationMs('duration', duration));
  }

  /** Loses the next message to a fleet, of a fleet's queue or of any. */
  loseMessage(fleet?: string): void {
    this.#faults.loseMessage(fleet);
  }

  /** Makes the table answer dispatchers and workers this late, for a while. */
  answerSlowly(latency: DurationInput, options: { readonly for: DurationInput }): void {
    objectOf({ for: isTaken })('options', options);
    this.#faults.answerSlowly(durationMs('latency', latency), durationMs('options.for', options.for));
  }

  /** Moves the wall clock of all workers, such as by `'5m'` or `'-5m'`. */
  stepClock(by: DurationInput): void {
    this.#skewMs += signedMs('by', by);
  }

  /**
   * Runs one attempt of a job that had others before.
   *
   * @param before - fields of the job as the others left it
   */
  async runAttempt(
    type: TypeOf<Declared>,
    payload: Json,
    before: Partial<Pick<Job, 'attempt' | 'checkpoint'>>,
  ): Promise<Job> {
    const { client, store } = this.#scheduler;
    const request = await new DeclaredJobs(this.#time, this.#jobs).completed({ type, payload });
    const [entry] = parseRequests(request, client.configuration).accepted;
    if (entry === undefined) throw new ValidationError('payload', 'is refused');
    const id = this.#newId();
    const partition = client.partitionOf(entry.request.fairnessKey);
    await submit(client, [{ ...jobFrom(entry.request, id, partition, this.#time.nowMs), ...before }]);
    const isOver = (): boolean => {
      const now = store.inspectJob(id);
      return now !== undefined && (isTerminal(now.state) || now.state === 'scheduled');
    };
    await this.#drive(Infinity, isOver);
    return this.job(id);
  }

  /** Ends everything. No handler gets an answer any more. */
  async dispose(): Promise<void> {
    this.#isOver = true;
    this.#scheduler.close();
    await this.#driving;
  }

  readonly [Symbol.asyncDispose] = (): Promise<void> => this.dispose();

  /** Returns an error of this test, with its seed. */
  #failed(message: string): AssertionError {
    return new AssertionError({
      message: `${message} (seed ${this.seed}, ${this.now.toISOString()})`,
      stackStartFn: this.advance,
    });
  }

  #fail(error: unknown): void {
    this.#failure ??= typeof error === 'string' ? this.#failed(error) : error;
  }

  #runningOf(job: TestedJob): KnownAttempt {
    const jobId = idOf(job);
    for (const attempt of this.#attempts.running) if (attempt.jobId === jobId) return attempt;
    const state = this.#scheduler.store.inspectJob(jobId)?.state ?? 'unknown';
    throw this.#failed(`job ${jobId} is ${state}, and only a running job has a worker`);
  }

  // One attempt

  async #handle(payload: Json, context: JobContext, place: AttemptPlace): Promise<unknown> {
    const attempt = this.#attempts.begin(context, place);
    return this.#inHandler.run(attempt, () => this.#attempt(attempt, payload));
  }

  async #attempt(attempt: KnownAttempt, payload: Json): Promise<unknown> {
    const { context, life, type } = attempt;
    const over = (): void => {
      this.#patience.rest(attempt);
      this.#attempts.end(attempt);
    };
    life.signal.addEventListener('abort', over, { once: true });
    context.signal.addEventListener('abort', () => this.#onAbort(attempt), { once: true });
    const endsMs = this.#time.nowMs + this.#takesMs(attempt);
    this.#patience.wake(attempt);
    const handler = this.#handlers[type];
    if (handler === undefined) throw new ValidationError('type', `no handler runs ${type}`);
    try {
      try {
        return await handler(payload, context);
      } finally {
        if (!life.isOver) await this.#clock.sleep(endsMs - this.#time.nowMs, context.signal);
        // Work that ends at the very instant of the deadline is in time.
        if (this.#time.nowMs < endsMs) context.signal.throwIfAborted();
      }
    } finally {
      if (attempt.crashesAtEnd) this.#scheduler.lose(attempt.jobId);
      life.signal.removeEventListener('abort', over);
      over();
    }
  }

  #takesMs({ type, context }: KnownAttempt): number {
    const takes = this.#options.takes?.[type as TypeOf<Declared>];
    const random = this.#takes();
    const given = typeof takes === 'function' ? takes(context, random) : takes;
    if (given !== undefined) return durationMs(`takes.${type}`, given);
    return this.#scheduler.configuration.types.find((each) => each.type === type)?.defaultCostMs ?? 0;
  }

  /** Checks that the handler ends in time after it was told to stop. */
  #onAbort(attempt: KnownAttempt): void {
    this.#patience.wake(attempt);
    this.#time.after(STOP_GRACE_MS - 1, () => {
      if (!attempt.isRunning || attempt.life.isHeld) return;
      const { type, jobId, context } = attempt;
      const why = context.signal.reason instanceof Error ? context.signal.reason.message : 'its worker ends';
      this.#fail(
        `the handler \`${type}\` of job ${jobId} ignores its signal: it went on for 5 s after it had aborted, because ${why}`,
      );
    });
  }

  // Virtual time

  async #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const attempt = this.#inHandler.getStore();
    if (attempt === undefined) return this.#time.sleep(ms, signal);
    attempt.sleeps += 1;
    this.#patience.rest(attempt);
    await this.#time.sleep(ms, signal);
    attempt.sleeps -= 1;
    this.#patience.wake(attempt);
  }

  /** Sleeps in a handler, or in test code, for which time then passes. */
  async #sleepAnywhere(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.#inHandler.getStore() !== undefined) return this.#sleep(ms, signal);
    let isDone = false;
    this.#outside += 1;
    const sleep = this.#time.sleep(ms, signal).then(() => {
      isDone = true;
      this.#outside -= 1;
    });
    await Promise.race([sleep, this.#driveUntil(() => isDone)]);
    await sleep;
  }

  async #driveUntil(isDone: () => boolean): Promise<void> {
    // Lets code run first that moves virtual time itself.
    await allSettled();
    while (!isDone() && !this.#isOver) {
      if (this.#driving === undefined) await this.#drive(Infinity, isDone);
      else await this.#driving;
    }
  }

  /** Drives time, one caller after the other. */
  async #drive(untilMs: number, isDone: () => boolean): Promise<void> {
    if (this.#inHandler.getStore() !== undefined)
      throw this.#failed('a handler cannot move time: sleep by t.sleep(duration) instead');
    while (this.#driving !== undefined) await this.#driving;
    const run = this.#run(untilMs, isDone);
    const ended = run.then(
      () => {},
      () => {},
    );
    this.#driving = ended;
    try {
      await run;
    } finally {
      this.#driving = undefined;
    }
  }

  async #run(untilMs: number, isDone: () => boolean = () => false): Promise<void> {
    let steps = 0;
    for (let isSettled = false; ; isSettled = true) {
      await this.#time.runDue(isSettled);
      if (this.#isOver) return;
      this.#throwFailure();
      if (await this.#step()) {
        steps += 1;
        if (steps > STEPS_OF_INSTANT_MAX)
          throw this.#failed(`more than ${STEPS_OF_INSTANT_MAX} things happened at one instant`);
        continue;
      }
      if (isDone()) return;
      if (this.#skipIdle(untilMs)) continue;
      const nextMs = this.#time.nextAtMs;
      if (nextMs === undefined || nextMs > untilMs) {
        if (untilMs < Infinity) this.#time.moveTo(untilMs);
        return;
      }
      if (nextMs > this.#time.nowMs) steps = 0;
      this.#time.moveTo(nextMs);
    }
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure;
  }

  /** Does what is due next. Returns false if there was nothing, or if it goes on only when time passes. */
  async #step(): Promise<boolean> {
    if (this.#stepping !== undefined) return false;
    let didSomething: boolean | undefined;
    const step = this.#scheduler.step().then(
      (answer) => {
        didSomething = answer;
        this.#stepping = undefined;
      },
      (error: unknown) => {
        didSomething = true;
        this.#stepping = undefined;
        this.#fail(error);
      },
    );
    this.#stepping = step;
    await this.#patience.settled();
    return didSomething ?? false;
  }

  /**
   * Leaves out time in which nothing can happen, up to the next due job or firing, and then tells the dispatcher of it.
   * Wakes were sent for everything that is due sooner. Returns whether something is due now.
   */
  #skipIdle(untilMs: number): boolean {
    if (this.#ready > 0 || this.#outside > 0 || this.#stepping !== undefined) return false;
    const job = this.#nextDue();
    const jobAtMs = job?.runAtMs ?? Infinity;
    let atMs = Math.min(untilMs, jobAtMs);
    let firing: number | undefined;
    for (const { state } of this.#scheduler.store.everySchedule()) {
      if (state.dueMs === undefined || state.dueMs > atMs) continue;
      atMs = state.dueMs;
      firing = state.partition;
    }
    if (atMs - this.#time.nowMs <= LOOK_AHEAD_MS || atMs === Infinity) return false;
    if (!skipTo(this.#scheduler, this.#time, atMs)) return false;
    if (firing !== undefined) this.#scheduler.wake(firing);
    if (job !== undefined && jobAtMs === atMs) this.#scheduler.remind(job);
    return firing !== undefined || jobAtMs === atMs;
  }

  /** Returns the job that is due next, among those that wait for their time; undefined: there is none. */
  #nextDue(): Job | undefined {
    for (let due = this.#due.next; due !== undefined; due = this.#due.next) {
      const job = this.#scheduler.store.inspectJob(due);
      if (job?.state === 'scheduled' && job.runAtMs === this.#due.nextAtMs) return job;
      this.#due.takeDue(Infinity);
    }
    return undefined;
  }

  #observe(event: StoreEvent<Job>): void {
    if (event.kind !== 'job') return;
    const { id: jobId, type, state, attempt, runAtMs } = event.newJob;
    if (this.#open.get(jobId) === true) this.#ready -= 1;
    if (isTerminal(state)) this.#open.delete(jobId);
    else {
      this.#open.set(jobId, state !== 'scheduled');
      if (state !== 'scheduled') this.#ready += 1;
      else this.#due.add(runAtMs, jobId);
    }
    if (event.oldJob?.state !== state)
      this.#history.push({ at: this.now.toISOString(), jobId, type, state, attempt });
  }
}

function idOf(job: TestedJob): string {
  const id = typeof job === 'object' && job !== null ? job.jobId : job;
  if (typeof id === 'string') return id;
  throw new ValidationError('job', 'must be the id of a job, or the handle that submit returned');
}

const show = (duration: DurationInput): string =>
  typeof duration === 'object' ? `${duration.toMilliseconds()} ms` : String(duration);

const hex = (random: number): string =>
  Math.floor(random * 2 ** 32)
    .toString(16)
    .padStart(8, '0');

const stuck = ({ type, jobId }: KnownAttempt, patienceMs: number): string =>
  `the handler \`${type}\` of job ${jobId} has waited for ${patienceMs} ms for something that is not virtual time, and has not ended: ` +
  'it may never end. Sleep by t.sleep(duration, ctx.signal), or set patienceMs if it needs longer';
