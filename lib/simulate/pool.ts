/**
 * Runs the product in memory, under virtual time: the production code that submits, makes passes, works and settles, on
 * the memory adapters. It imitates the surrounding cloud without delays: messages arrive at once. The stream's records
 * and the wakes of one instant reach one dispatcher together, after everything else that happens at that instant.
 */
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import type { PoolConfiguration } from '../core/configuration.ts';
import { isNotified, type Job, type Json, TERMINAL_TTL_MS } from '../core/job.ts';
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
import { rankOf, submit } from '../submit/submit.ts';
import { VirtualTime } from '../testing/virtual-time.ts';
import { lambdaWorker, type SqsHandler } from '../worker/lambda-batch.ts';
import type { WorkerProcessOptions } from '../worker/process/options.ts';
import { runWorker } from '../worker/process/process.ts';
import type { JobContext, JobHandlers } from '../worker/run-job.ts';

/** The behaviour of one attempt, which the scenario defines. */
export interface Work {
  readonly takesMs: number;
  /** The name of the error that it ends with; undefined if it succeeds. */
  readonly error?: string | undefined;
}

/** A long-running worker process of a fleet. */
export interface WorkerPlan {
  readonly workerId: string;
  readonly fleet: string;
  readonly slots: number;
}

/** Settings of a worker process, as `runFleetWorker` takes them. */
export interface WorkerLease {
  readonly leaseMs: number;
  readonly heartbeatMs: number;
}

export interface SimulatedPoolOptions {
  readonly configuration: PoolConfiguration;
  /** Epoch milliseconds. */
  readonly startMs: number;
  readonly seed: number;
  /** Undefined for the product's default. */
  readonly workerLease: WorkerLease | undefined;
  readonly workOf: (jobId: string, attempt: number) => Work;
  /** Called for every change in the store, when it happens. */
  readonly observe: (event: StoreEvent<Job>) => void;
  /** Called when a job is scheduled for later. */
  readonly onScheduled: (job: Job) => void;
}

const TICK_MS = 60_000;
/** Idle time that is skipped is a multiple of this: a whole number of heartbeats for any lease. */
const HEARTBEAT_MULTIPLE_MS = 10_000;
/** Skipped time ends this long before the next event, because a tick looks one minute ahead. */
const SKIP_MARGIN_MS = 2 * TICK_MS;
/** Time that a fleet's function has beyond the timeout of its slowest type. The construct keeps at most 30 s. */
const FUNCTION_MARGIN_MS = 30_000;
/** How much longer than the function's timeout a message stays hidden, as the construct configures the queue. */
const HIDE_MARGIN_MS = 20_000;
const RECEIVE_MAX = 10;

const SILENT_LOG: Log = { info: () => {}, warn: () => {}, error: () => {} };

/** One incarnation of a worker process. It can vanish without notice. */
class Incarnation {
  isOver = false;
  readonly #end = new AbortController();
  readonly signal = this.#end.signal;

  vanish(): void {
    this.isOver = true;
    this.#end.abort();
  }

  /** Returns the answer, or never resolves if the process has vanished. */
  async ifAlive<T>(answer: T): Promise<T> {
    return this.isOver ? NEVER : answer;
  }
}

/** A promise that never resolves. */
const NEVER = new Promise<never>(() => {});

interface Process {
  readonly plan: WorkerPlan;
  readonly incarnation: Incarnation;
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
  /** Claims of the attempts whose function has vanished. */
  readonly #vanished = new Set<string>();
  readonly #processes = new Map<string, Process>();
  /** Changed jobs whose outcomes are not published yet. */
  #unpublished: Job[] = [];
  /** Changed jobs that no pass has been given yet. */
  #images: Job[] = [];
  readonly #wokenPartitions = new Set<number>();
  /** Requested checks of workers that are due. */
  readonly #dueChecks: { readonly partition: number; readonly atMs: number }[] = [];
  #isTick = false;
  #invocations = 0;
  #failure: unknown;

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
    this.store = new MemoryJobStore({ clock, random, place: rankOf(configuration), observe });
    this.#queue = new MemoryJobQueue({ clock, random, after });
    this.#bus = new MemoryEventBus({ random });
    this.#dispatcher = {
      store: this.store,
      queue: this.#queue,
      configuration,
      clock: this.#clock,
      random,
      log: SILENT_LOG,
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
      if (isNotified(newJob)) this.#unpublished.push(newJob);
      if (newJob.state === 'scheduled' && newJob.runAtMs > this.time.nowMs) options.onScheduled(newJob);
    });
    this.#queue.onWake((partition) => this.#wokenPartitions.add(partition));
    this.#queue.onLook((partition, atMs) => this.#dueChecks.push({ partition, atMs }));
    this.#scheduleTicks();
  }

  /** The caches that the dispatcher keeps between passes. */
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

  /** Puts a schedule as the client does. @param putAtMs - the schedule may fire after this instant */
  async putSchedule(id: string, spec: ScheduleSpec, putAtMs: number): Promise<void> {
    await putSchedule({ ...this.#client, nowMs: () => putAtMs }, id, spec, false);
  }

  /** Requests a pass if the schedule is due. The pass is made at this instant, not at the next whole second. */
  wakeForSchedule(id: string): void {
    const state = this.store.inspectSchedule(id)?.state;
    if (state?.dueMs !== undefined && state.dueMs <= this.time.nowMs)
      this.#wokenPartitions.add(state.partition);
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

  /** Requests a pass if the job is due. The pass is made at this instant, not at the next whole second. */
  wakeFor(jobId: string): void {
    const job = this.store.inspectJob(jobId);
    if (job?.state === 'scheduled' && job.runAtMs <= this.time.nowMs)
      this.#wokenPartitions.add(job.partition);
  }

  // Workers

  /** Starts a worker process, as a new incarnation of its id. */
  join(plan: WorkerPlan): void {
    const incarnation = new Incarnation();
    this.#processes.set(plan.workerId, { plan, incarnation: incarnation, joinedAtMs: this.time.nowMs });
    const { configuration } = this;
    const clock: Clock = {
      ...this.#clock,
      sleep: async (ms, signal) => incarnation.ifAlive(await this.time.sleep(ms, signal)),
    };
    const { send, delete: remove, handBack, sendWake, sendLook } = whileAlive(this.#queue, incarnation);
    const options: WorkerProcessOptions = {
      store: whileAlive(this.store, incarnation),
      queue: {
        send,
        delete: remove,
        handBack,
        sendWake,
        sendLook,
        // A vanished process receives no more messages.
        receive: async (fleet, max, waitMs, hideMs, signal) => {
          const eitherSignal =
            signal === undefined ? incarnation.signal : AbortSignal.any([signal, incarnation.signal]);
          return incarnation.ifAlive(await this.#queue.receive(fleet, max, waitMs, hideMs, eitherSignal));
        },
      },
      configuration,
      clock,
      random: this.#workerRandom,
      log: SILENT_LOG,
      ...plan,
      ...this.#options.workerLease,
      handlers: this.#handlers(() => () => incarnation.isOver),
      signal: new AbortController().signal,
      exit: () => incarnation.vanish(),
    };
    runWorker(options).catch((error: unknown) => this.fail(error));
  }

  /** Makes a process vanish without notice, together with its running jobs. */
  vanish(workerId: string): void {
    this.#processes.get(workerId)?.incarnation.vanish();
    this.#processes.delete(workerId);
  }

  /**
   * Makes the function or process that runs this job vanish. A process vanishes with all its jobs, and its supervisor
   * starts it again at once.
   */
  lose(jobId: string): void {
    const job = this.store.inspectJob(jobId);
    if (job?.state !== 'running') return;
    const process = this.#processes.get(job.worker?.workerId ?? '');
    if (process !== undefined) {
      process.incarnation.vanish();
      this.join(process.plan);
    } else if (job.claim !== undefined) this.#vanished.add(job.claim.claimId);
  }

  // Time

  /** Ends the simulation with this error. */
  fail(error: unknown): void {
    this.#failure ??= error;
  }

  /** Does everything that is due by now, then makes passes until nothing is left to decide at this instant. */
  async act(): Promise<void> {
    for (;;) {
      await this.time.runDue();
      if (this.#failure !== undefined) throw this.#failure;
      if (await this.#deliver()) continue;
      if (this.#dueChecks.length > 0) {
        // A check may wait for the end of a lease. It is not awaited, because time goes on only after all actions of this
        // instant.
        for (const { partition, atMs } of this.#dueChecks.splice(0))
          lookAtWorkers(this.#dispatcher, partition, atMs).catch((error: unknown) => this.fail(error));
        continue;
      }
      if (this.#unpublished.length > 0) {
        // Consumers of outcomes may submit jobs at this same instant.
        await this.#publish();
        continue;
      }
      if (this.#images.length === 0 && this.#wokenPartitions.size === 0 && !this.#isTick) return;
      await this.#dispatch();
    }
  }

  /**
   * Skips time up to shortly before an instant, if no job waits, runs or is due until then. Each minute of it equals
   * the one before, with its tick and its heartbeats, so whole minutes can be skipped. A worker process would take the
   * jump for a suspended machine and end, so each process is started anew.
   *
   * @param hasOpenJobs - whether a job is pending, claimed or running
   */
  skipIdle(untilMs: number, hasOpenJobs: boolean): void {
    if (hasOpenJobs) return;
    for (const partition of this.partitions) {
      const { reservations, loans } = this.store.inspect(partition);
      if (reservations.size + loans.size > 0) return;
    }
    const idleMs = untilMs - this.time.nowMs - SKIP_MARGIN_MS;
    if (idleMs < TICK_MS) return;
    this.time.skip(Math.floor(idleMs / TICK_MS) * TICK_MS);
    for (const { plan, incarnation, joinedAtMs } of [...this.#processes.values()]) {
      incarnation.vanish();
      // Its heartbeats keep their times, because the last one decides when its loss is noticed.
      const sinceBeatMs = (this.time.nowMs - joinedAtMs) % HEARTBEAT_MULTIPLE_MS;
      this.time.after(sinceBeatMs === 0 ? 0 : HEARTBEAT_MULTIPLE_MS - sinceBeatMs, () => this.join(plan));
    }
  }

  #scheduleTicks(): void {
    this.time.after(TICK_MS, () => {
      this.#isTick = true;
      this.#scheduleTicks();
    });
  }

  async #publish(): Promise<void> {
    const jobs = this.#unpublished;
    this.#unpublished = [];
    for (const job of jobs) this.#images.push(job);
    await publishOutcomes(this.#bus, jobs);
  }

  /** Makes passes of every partition in which something happened. */
  async #dispatch(): Promise<void> {
    const jobs = this.#images;
    const woken = [...this.#wokenPartitions];
    const isTick = this.#isTick;
    this.#images = [];
    this.#wokenPartitions.clear();
    this.#isTick = false;
    await dispatchAll(
      this.#dispatcher,
      isTick
        ? { jobs, reason: 'tick', partitions: this.partitions }
        : { jobs, reason: woken.length > 0 ? 'wake' : 'stream', partitions: woken },
    );
  }

  /** Invokes a function for each visible message of a fleet's queue. Returns whether there was one. */
  async #deliver(): Promise<boolean> {
    let isAny = false;
    for (const fleet of this.#functions) {
      for (;;) {
        const hideMs = fleet.timeoutMs + HIDE_MARGIN_MS;
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

  /** The store of functions. A vanished function does not report that its handler hangs. */
  #storeOfFunctions(store: MemoryJobStore): MemoryJobStore {
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
      store: this.#storeOfFunctions(this.store),
      configuration: this.configuration,
      clock: this.#clock,
      random: this.#workerRandom,
      log: SILENT_LOG,
      exit: () => {},
    };
    const handlers = this.#handlers((jobId) => {
      const { claimId = '' } = this.store.inspectJob(jobId)?.claim ?? {};
      return () => this.#vanished.has(claimId);
    });
    return [{ fleet, timeoutMs, handler: lambdaWorker(() => parts, handlers) }];
  }

  /**
   * The users' handlers: each works for a while, obeys its signal, and succeeds or throws.
   *
   * @param vanishing - is called when a job starts; returns a function that says whether its process has vanished
   */
  #handlers(vanishing: (jobId: string) => () => boolean): JobHandlers {
    const handle = async (_payload: Json, run: JobContext): Promise<Json> => {
      const hasVanished = vanishing(run.jobId);
      const { takesMs, error } = this.#options.workOf(run.jobId, run.attempt);
      const endsMs = this.time.nowMs + takesMs;
      await this.time.sleep(takesMs, run.signal);
      if (hasVanished()) return NEVER;
      // Work that ends at the very instant of the deadline is in time.
      if (this.time.nowMs < endsMs) run.signal.throwIfAborted();
      if (error !== undefined) throw errorNamed(error);
      return null;
    };
    return Object.fromEntries(this.configuration.types.map(({ type }) => [type, handle]));
  }
}

function errorNamed(name: string): Error {
  const error = new Error('the scenario makes this attempt fail');
  error.name = name;
  return error;
}

/** Wraps an adapter for one process. After the process has vanished, no call is made and none returns. */
function whileAlive<Adapter extends object>(adapter: Adapter, incarnation: Incarnation): Adapter {
  return new Proxy(adapter, {
    get: (target, name) => {
      const verb: unknown = Reflect.get(target, name, target);
      if (typeof verb !== 'function') return verb;
      return async (...question: readonly unknown[]): Promise<unknown> => {
        await incarnation.ifAlive(undefined);
        return incarnation.ifAlive(await Reflect.apply(verb, target, question));
      };
    },
  });
}

/** A message as the event source passes it to the function. */
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

/** Evenly distributed numbers in [0, 1), the same for the same seed. */
function seeded(seed: string): Random {
  let drawn = 0;
  return () => {
    drawn += 1;
    return hashText(`${seed}/${drawn}`) / RING_SPACE;
  };
}
