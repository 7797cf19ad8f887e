/**
 * The product in memory, under virtual time: the code that submits, makes passes, works and settles in production, over
 * the memory adapters. What the cloud does around it is here, at its best: messages arrive at once, the stream of changed
 * jobs and all wakes of an instant reach one dispatcher together, after everything else that happens at that instant.
 */
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import type { PoolConfiguration } from '../core/configuration.ts';
import { isAwaited, type Job, type Json, TERMINAL_TTL_MS } from '../core/job.ts';
import { hashText, partitionOf } from '../core/partition.ts';
import type { ScheduleSpec } from '../core/recurring.ts';
import { RING_SPACE } from '../core/ring.ts';
import type { Scope } from '../core/scope.ts';
import { dispatchAll } from '../dispatch/dispatch.ts';
import { lookAtWorkers } from '../dispatch/look-at-workers.ts';
import { publishOutcomes } from '../dispatch/outcomes.ts';
import type { DispatchContext } from '../dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../dispatch/tuning.ts';
import { MemoryEventBus } from '../events/memory/bus.ts';
import { changeControl, type OperateContext, partitionsOf } from '../operate/controls.ts';
import { retimeJob } from '../operate/retime.ts';
import { MemoryJobQueue } from '../queue/memory/queue.ts';
import { encodeDispatchMessage } from '../queue/message.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import { putSchedule } from '../schedules/schedules.ts';
import type { ControlChange, ControlOutcome } from '../store/contract/requests.ts';
import type { RequestOf } from '../store/contract/verbs.ts';
import type { StoreEvent } from '../store/memory/imitation/imitation.ts';
import { MemoryJobStore } from '../store/memory/store.ts';
import { placeOf, submit } from '../submit/submit.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import { lambdaWorker, type SqsHandler } from '../worker/lambda-batch.ts';
import type { WorkerProcessOptions } from '../worker/process/options.ts';
import { runWorker } from '../worker/process/process.ts';
import type { JobContext, JobHandlers } from '../worker/run-job.ts';

/** What an attempt does, as only the scenario knows. */
export interface Work {
  readonly takesMs: number;
  /** The name of the error that it ends with; undefined: it succeeds. */
  readonly error?: string | undefined;
}

/** A long-running process of a fleet, with as many slots. */
export interface WorkerPlan {
  readonly workerId: string;
  readonly fleet: string;
  readonly slots: number;
}

/** A worker process's own settings, as `runFleetWorker` takes them. */
export interface WorkerLease {
  readonly leaseMs: number;
  readonly heartbeatMs: number;
}

export interface SimulatedPoolOptions {
  readonly configuration: PoolConfiguration;
  /** Epoch milliseconds. */
  readonly startMs: number;
  readonly seed: number;
  /** Undefined: the product's own. */
  readonly workerLease: WorkerLease | undefined;
  readonly workOf: (jobId: string, attempt: number) => Work;
  /** Hears of every change in the store, in the moment. */
  readonly observe: (event: StoreEvent<Job>) => void;
  /** A scheduled job's time comes then. */
  readonly onScheduled: (job: Job) => void;
}

const TICK_MS = 60_000;
/** A whole number of heartbeats, whatever the lease is. */
const HEARTBEATS_MS = 10_000;
/** So long before something happens an idle time is over: the tick before it looks ahead of it. */
const AWAKE_BEFORE_MS = 2 * TICK_MS;
/** What the function of a fleet has left after its slowest type's timeout. The most that the construct keeps is 30 s. */
const FUNCTION_MARGIN_MS = 30_000;
/** As the construct declares a fleet's queue: so much more than the function's timeout. */
const BEHIND_FUNCTION_MS = 20_000;
const RECEIVE_MAX = 10;

const SILENT: Log = { info: () => {}, warn: () => {}, error: () => {} };

/** One life of a worker process: it ends without a word. */
class Life {
  isOver = false;
  readonly #end = new AbortController();
  readonly signal = this.#end.signal;

  vanish(): void {
    this.isOver = true;
    this.#end.abort();
  }

  /** Whatever a life that is over waits for never comes. */
  async ifAlive<T>(answer: T): Promise<T> {
    return this.isOver ? NEVER : answer;
  }
}

/** What vanished is waited for by nobody. */
const NEVER = new Promise<never>(() => {});

interface Process {
  readonly plan: WorkerPlan;
  readonly life: Life;
  readonly joinedAtMs: number;
}

interface FunctionFleet {
  readonly fleet: string;
  readonly handler: SqsHandler;
  readonly timeoutMs: number;
}

export class SimulatedPool {
  readonly configuration: PoolConfiguration;
  readonly time: VirtualTime;
  readonly store: MemoryJobStore;
  readonly #options: SimulatedPoolOptions;
  readonly #clock: Clock;
  readonly #queue: MemoryJobQueue;
  readonly #bus: MemoryEventBus;
  readonly #dispatcher: DispatchContext;
  /** A producer's and an operator's process. */
  readonly #client: OperateContext;
  readonly #workerRandom: Random;
  readonly #functions: readonly FunctionFleet[];
  /** Attempts in functions that have vanished, by claim. */
  readonly #vanished = new Set<string>();
  readonly #processes = new Map<string, Process>();
  /** Changed jobs whose outcomes the bus was not told of yet, and those that no pass was shown. */
  #untold: Job[] = [];
  #images: Job[] = [];
  readonly #woken = new Set<number>();
  /** Looks at workers that have come. */
  readonly #looks: { readonly partition: number; readonly atMs: number }[] = [];
  #isTick = false;
  #invocations = 0;
  #trouble: unknown;

  constructor(options: SimulatedPoolOptions) {
    const { configuration, startMs, seed, observe } = options;
    this.#options = options;
    this.configuration = configuration;
    this.time = new VirtualTime(startMs);
    this.#clock = this.time.clock();
    const clock = (): number => this.time.nowMs;
    const { after } = this.time;
    const random = seeded(`${seed}/pool`);
    this.#workerRandom = seeded(`${seed}`);
    this.store = new MemoryJobStore({ clock, random, place: placeOf(configuration), observe });
    this.#queue = new MemoryJobQueue({ clock, random, after });
    this.#bus = new MemoryEventBus({ random });
    this.#dispatcher = {
      store: this.store,
      queue: this.#queue,
      configuration,
      clock: this.#clock,
      random,
      log: SILENT,
      holder: 'dispatcher',
      budget: DISPATCH_BUDGET,
      announced: new Map(),
      caches: new Map(),
      seen: new Map(),
    };
    this.#client = {
      store: this.store,
      queue: this.#queue,
      configuration,
      clock: this.#clock,
      nowMs: clock,
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
      announced: new Map(),
    };
    this.#functions = configuration.fleets.flatMap((fleet) => this.#functionOf(fleet));
    this.store.subscribe(({ newJob }) => {
      if (isAwaited(newJob)) this.#untold.push(newJob);
      if (newJob.state === 'scheduled' && newJob.runAtMs > this.time.nowMs) options.onScheduled(newJob);
    });
    this.#queue.onWake((partition) => this.#woken.add(partition));
    this.#queue.onLook((partition, atMs) => this.#looks.push({ partition, atMs }));
    this.#tickOn();
  }

  /** What the dispatcher remembers between its passes. */
  get caches(): DispatchContext['caches'] {
    return this.#dispatcher.caches;
  }

  get partitions(): readonly number[] {
    return partitionsOf(this.#client);
  }

  partitionOf(fairnessKey: string): number {
    return this.#client.partitionOf(fairnessKey);
  }

  // Producers and operators

  async submit(jobs: readonly Job[]): Promise<void> {
    await submit(this.#client, jobs);
  }

  /** Puts a schedule as the client does. @param putAtMs - it may fire after this instant */
  async putSchedule(id: string, spec: ScheduleSpec, putAtMs: number): Promise<void> {
    await putSchedule({ ...this.#client, nowMs: () => putAtMs }, id, spec, false);
  }

  /** A schedule may be due: its partition is looked at in this very moment, as for jobs. */
  wakeForSchedule(id: string): void {
    const state = this.store.inspectSchedule(id)?.state;
    if (state?.dueMs !== undefined && state.dueMs <= this.time.nowMs) this.#woken.add(state.partition);
  }

  async cancel(jobId: string): Promise<void> {
    const { nowMs } = this.time;
    await this.store.cancelJob({ jobId, nowMs, expiresAtMs: nowMs + TERMINAL_TTL_MS });
  }

  async retime(jobId: string, runAtMs: number): Promise<void> {
    await retimeJob(this.#client, jobId, runAtMs);
  }

  changeControl(scope: Scope, change: ControlChange): Promise<ControlOutcome> {
    return changeControl(this.#client, scope, change);
  }

  /** A job's time has come: its partition is looked at in this very moment, not at the next whole second. */
  wakeFor(jobId: string): void {
    const job = this.store.inspectJob(jobId);
    if (job?.state === 'scheduled' && job.runAtMs <= this.time.nowMs) this.#woken.add(job.partition);
  }

  // Workers

  /** A process begins to work, as a new life of its name. */
  join(plan: WorkerPlan): void {
    const life = new Life();
    this.#processes.set(plan.workerId, { plan, life, joinedAtMs: this.time.nowMs });
    const { configuration } = this;
    const clock: Clock = {
      ...this.#clock,
      sleep: async (ms, signal) => life.ifAlive(await this.time.sleep(ms, signal)),
    };
    const { send, delete: remove, handBack, sendWake, sendLook } = heardWhileAlive(this.#queue, life);
    const options: WorkerProcessOptions = {
      store: heardWhileAlive(this.store, life),
      queue: {
        send,
        delete: remove,
        handBack,
        sendWake,
        sendLook,
        // Who has vanished takes no more messages.
        receive: async (fleet, max, waitMs, hideMs, signal) => {
          const heard = signal === undefined ? life.signal : AbortSignal.any([signal, life.signal]);
          return life.ifAlive(await this.#queue.receive(fleet, max, waitMs, hideMs, heard));
        },
      },
      configuration,
      clock,
      random: this.#workerRandom,
      log: SILENT,
      ...plan,
      ...this.#options.workerLease,
      handlers: this.#handlers(() => () => life.isOver),
      signal: new AbortController().signal,
      exit: () => life.vanish(),
    };
    runWorker(options).catch((error: unknown) => this.fail(error));
  }

  /** A process vanishes without a word, and what it runs with it. */
  vanish(workerId: string): void {
    this.#processes.get(workerId)?.life.vanish();
    this.#processes.delete(workerId);
  }

  /**
   * What runs this job vanishes: the function; or the process, with all that it runs, and its supervisor starts it again
   * at once.
   */
  lose(jobId: string): void {
    const job = this.store.inspectJob(jobId);
    if (job?.state !== 'running') return;
    const process = this.#processes.get(job.worker?.workerId ?? '');
    if (process !== undefined) {
      process.life.vanish();
      this.join(process.plan);
    } else if (job.claim !== undefined) this.#vanished.add(job.claim.claimId);
  }

  // Time

  /** Ends the simulation with this error. */
  fail(error: unknown): void {
    this.#trouble ??= error;
  }

  /** Does all that is due by now, then passes until nothing is left to decide at this instant. */
  async act(): Promise<void> {
    for (;;) {
      await this.time.runDue();
      if (this.#trouble !== undefined) throw this.#trouble;
      if (await this.#deliver()) continue;
      if (this.#looks.length > 0) {
        // One may wait for the end of a lease, and time goes on only when all is done.
        for (const { partition, atMs } of this.#looks.splice(0))
          lookAtWorkers(this.#dispatcher, partition, atMs).catch((error: unknown) => this.fail(error));
        continue;
      }
      if (this.#untold.length > 0) {
        // Whoever hears of an outcome may ask for more, at this very instant.
        await this.#publish();
        continue;
      }
      if (this.#images.length === 0 && this.#woken.size === 0 && !this.#isTick) return;
      await this.#dispatch();
    }
  }

  /**
   * Leaves time out up to shortly before an instant, if no job waits, runs or is due until then: each minute of it is
   * like the one before, with its tick and its heartbeats, so whole minutes can be missing. To a process it would look as if
   * its machine had been suspended, and it would end; so each begins again.
   *
   * @param hasOpenJobs - a job is pending, claimed or running
   */
  skipIdle(untilMs: number, hasOpenJobs: boolean): void {
    if (hasOpenJobs) return;
    for (const partition of this.partitions) {
      const { reservations, loans } = this.store.inspect(partition);
      if (reservations.size + loans.size > 0) return;
    }
    const idleMs = untilMs - this.time.nowMs - AWAKE_BEFORE_MS;
    if (idleMs < TICK_MS) return;
    this.time.skip(Math.floor(idleMs / TICK_MS) * TICK_MS);
    for (const { plan, life, joinedAtMs } of [...this.#processes.values()]) {
      life.vanish();
      // Its heartbeats come as they would have come: when its loss is noticed depends on the last one.
      const sinceBeatMs = (this.time.nowMs - joinedAtMs) % HEARTBEATS_MS;
      this.time.after(sinceBeatMs === 0 ? 0 : HEARTBEATS_MS - sinceBeatMs, () => this.join(plan));
    }
  }

  #tickOn(): void {
    this.time.after(TICK_MS, () => {
      this.#isTick = true;
      this.#tickOn();
    });
  }

  async #publish(): Promise<void> {
    const jobs = this.#untold;
    this.#untold = [];
    for (const job of jobs) this.#images.push(job);
    await publishOutcomes(this.#bus, jobs);
  }

  /** Passes of every partition that something happened in. */
  async #dispatch(): Promise<void> {
    const jobs = this.#images;
    const woken = [...this.#woken];
    const isTick = this.#isTick;
    this.#images = [];
    this.#woken.clear();
    this.#isTick = false;
    await dispatchAll(
      this.#dispatcher,
      isTick
        ? { jobs, reason: 'tick', partitions: this.partitions }
        : { jobs, reason: woken.length > 0 ? 'wake' : 'stream', partitions: woken },
    );
  }

  /** Invokes a function for each message that a fleet's queue shows. Answers whether there was one. */
  async #deliver(): Promise<boolean> {
    let isAny = false;
    for (const fleet of this.#functions) {
      for (;;) {
        const hideMs = fleet.timeoutMs + BEHIND_FUNCTION_MS;
        const received = await this.#queue.receive(fleet.fleet, RECEIVE_MAX, 0, hideMs);
        if (received.length === 0) break;
        isAny = true;
        for (const { jobs, receipt } of received) this.#invoke(fleet, encodeDispatchMessage(jobs), receipt);
      }
    }
    return isAny;
  }

  #invoke({ fleet, handler, timeoutMs }: FunctionFleet, body: string, receipt: string): void {
    this.#invocations += 1;
    const event: SQSEvent = { Records: [recordOf(receipt, body)] };
    const context: Pick<Context, 'functionName' | 'awsRequestId' | 'getRemainingTimeInMillis'> = {
      functionName: fleet,
      awsRequestId: String(this.#invocations),
      getRemainingTimeInMillis: () => timeoutMs,
    };
    handler(event, context as Context).then(
      async ({ batchItemFailures }) => {
        if (batchItemFailures.length === 0) await this.#queue.delete(fleet, [receipt]);
      },
      (error: unknown) => this.fail(error),
    );
  }

  /** The store of functions: one that has vanished does not say that its handler goes on. */
  #untilVanished(store: MemoryJobStore): MemoryJobStore {
    return new Proxy(store, {
      get: (target, name) => {
        if (name === 'saveHung')
          return (request: RequestOf<'saveHung'>) =>
            this.#vanished.has(request.claimId) ? new Promise<never>(() => {}) : target.saveHung(request);
        const verb: unknown = Reflect.get(target, name, target);
        return typeof verb === 'function' ? verb.bind(target) : verb;
      },
    });
  }

  #functionOf({ fleet, types, slots }: PoolConfiguration['fleets'][number]): readonly FunctionFleet[] {
    if (slots === null) return [];
    const ofFleet = this.configuration.types.filter(({ type }) => types.includes(type));
    const timeoutMs = Math.max(...ofFleet.map((type) => type.timeoutMs)) + FUNCTION_MARGIN_MS;
    const parts = {
      store: this.#untilVanished(this.store),
      configuration: this.configuration,
      clock: this.#clock,
      random: this.#workerRandom,
      log: SILENT,
      exit: () => {},
    };
    const handlers = this.#handlers((jobId) => {
      const { claimId = '' } = this.store.inspectJob(jobId)?.claim ?? {};
      return () => this.#vanished.has(claimId);
    });
    return [{ fleet, timeoutMs, handler: lambdaWorker(() => parts, handlers) }];
  }

  /**
   * The users' code: it works for a while, heeds its signal, and succeeds or throws.
   *
   * @param vanishing - of a job that begins: whether what runs it has vanished
   */
  #handlers(vanishing: (jobId: string) => () => boolean): JobHandlers {
    const handle = async (_payload: Json, run: JobContext): Promise<Json> => {
      const hasVanished = vanishing(run.jobId);
      const { takesMs, error } = this.#options.workOf(run.jobId, run.attempt);
      const endsMs = this.time.nowMs + takesMs;
      await this.time.sleep(takesMs, run.signal);
      if (hasVanished()) return NEVER;
      // Work that is done at the very instant of the deadline is done in time.
      if (this.time.nowMs < endsMs) run.signal.throwIfAborted();
      if (error !== undefined) throw named(error);
      return null;
    };
    return Object.fromEntries(this.configuration.types.map(({ type }) => [type, handle]));
  }
}

function named(name: string): Error {
  const error = new Error('the scenario says so');
  error.name = name;
  return error;
}

/** Every verb of an adapter for one life: once that is over, it asks nothing more and hears no answer. */
function heardWhileAlive<Adapter extends object>(adapter: Adapter, life: Life): Adapter {
  return new Proxy(adapter, {
    get: (target, name) => {
      const verb: unknown = Reflect.get(target, name, target);
      if (typeof verb !== 'function') return verb;
      return async (...question: readonly unknown[]): Promise<unknown> => {
        await life.ifAlive(undefined);
        return life.ifAlive(await Reflect.apply(verb, target, question));
      };
    },
  });
}

/** A message as the function's event source hands it over. */
const recordOf = (receipt: string, body: string): SQSRecord => ({
  messageId: receipt,
  receiptHandle: receipt,
  body,
  attributes: {
    ApproximateReceiveCount: '1',
    SentTimestamp: '0',
    SenderId: '',
    ApproximateFirstReceiveTimestamp: '0',
  },
  messageAttributes: {},
  md5OfBody: '',
  eventSource: 'aws:sqs',
  eventSourceARN: '',
  awsRegion: '',
});

/** Even numbers from [0, 1), the same for the same seed. */
function seeded(seed: string): Random {
  let drawn = 0;
  return () => {
    drawn += 1;
    return hashText(`${seed}/${drawn}`) / RING_SPACE;
  };
}
