/**
 * A whole scheduler in this process: the product's own code that submits, makes passes, works and settles, on the memory
 * adapters. The clock and the random numbers are given, so it runs in real time or under virtual time.
 *
 * It imitates the surrounding cloud without delays. The stream's records and the wakes of one instant reach one dispatcher
 * together, after everything else that happens at that instant. `step` does what is due next; the owner decides when.
 */
import { createHash } from 'node:crypto';
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import type { PoolConfiguration } from '../core/configuration.ts';
import { isNotified, type Job, type Json } from '../core/job.ts';
import { partitionOf } from '../core/partition.ts';
import { encodeConfiguration, formerDeclaration } from '../declaration/codec.ts';
import { Declarations, declaredParts } from '../declaration/declaration.ts';
import { declare } from '../deploy/declare.ts';
import { type DeclaredSchedules, packDeclaredSchedules } from '../deploy/declared-schedules.ts';
import { dispatchAll } from '../dispatch/dispatch.ts';
import { lookAtWorkers } from '../dispatch/look-at-workers.ts';
import { publishOutcomes } from '../dispatch/outcomes.ts';
import type { DispatchContext } from '../dispatch/partition/context.ts';
import { loseAttempt } from '../dispatch/recovery/lose.ts';
import { DISPATCH_BUDGET } from '../dispatch/tuning.ts';
import { MemoryEventBus } from '../events/memory/bus.ts';
import { LargeValues } from '../objects/large-values.ts';
import { MemoryObjectStore } from '../objects/memory/objects.ts';
import { collectObjects } from '../operate/collect-objects.ts';
import { type OperateContext, partitionsOf } from '../operate/controls.ts';
import { ingestAll } from '../operate/ingest-all.ts';
import type { JobQueue } from '../queue/contract.ts';
import { MemoryJobQueue } from '../queue/memory/queue.ts';
import { encodeDispatchMessage } from '../queue/message.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import type { JobStore, RankOf } from '../store/contract/verbs.ts';
import type { After, StoreEvent } from '../store/memory/imitation/imitation.ts';
import type { MemoryState } from '../store/memory/state.ts';
import { MemoryJobStore } from '../store/memory/store.ts';
import type { IngestMessage } from '../submit/ingest.ts';
import { rankOf } from '../submit/submit.ts';
import type { CountedBacklogs } from '../submit/waiting.ts';
import { lambdaWorker } from '../worker/lambda-batch.ts';
import type { WorkerProcessOptions } from '../worker/process/options.ts';
import { runWorker } from '../worker/process/process.ts';
import type { HostContext, JobContext, JobHandlers } from '../worker/run-job.ts';
import { Incarnation } from './incarnation.ts';

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

/** The place where an attempt runs. */
export interface AttemptPlace {
  readonly fleet: string;
  /** The life of the function or process that runs the attempt. */
  readonly life: Incarnation;
}

/** The adapters as dispatchers and workers reach them, such as ones that fail. */
export interface LocalAdapters {
  readonly store: JobStore;
  readonly queue: JobQueue;
}

export interface LocalOptions {
  readonly configuration: PoolConfiguration;
  /** What another scheduler held. @default - nothing */
  readonly state?: LocalScheduler['state'] | undefined;
  readonly clock: Clock;
  /** Runs an action later, by the clock. */
  readonly after: After;
  /** Random numbers of the adapters and the dispatcher. */
  readonly random: Random;
  /** Random numbers of the workers. @default - `random` */
  readonly workerRandom?: Random | undefined;
  /** The workers' clock, which may differ from the dispatcher's. @default - `clock` */
  readonly workerClock?: Clock | undefined;
  /**
   * The log of the scheduler.
   * @default - nothing is logged
   */
  readonly log?: Log | undefined;
  /**
   * The lease of worker processes.
   * @default - the product's own
   */
  readonly workerLease?: WorkerLease | undefined;
  /** How long jobs of a worker process may go on when it ends in order. @default - the product's own */
  readonly shutdownMs?: number | undefined;
  /** Runs one attempt: the user's handler, and what surrounds it. */
  readonly handle: (payload: Json, context: JobContext, place: AttemptPlace) => unknown;
  /** The client of handlers. */
  readonly client?: HostContext['client'] | undefined;
  /** Called for every change in the store, when it happens. */
  readonly observe?: ((event: StoreEvent<Job>) => void) | undefined;
  /** Whether a worker process that has ended is started again, as its supervisor would. @default false */
  readonly restartsProcesses?: boolean | undefined;
  /** Wraps the adapters that dispatchers and workers use. */
  readonly through?: ((adapters: LocalAdapters) => LocalAdapters) | undefined;
  /** Called when something has come that `step` can act on. */
  readonly onWork?: (() => void) | undefined;
  /** Called with an error that no caller waits for. */
  readonly onFailure: (error: unknown) => void;
}

/** The parts that are deployed beside the pool. */
export interface LocalDeployment {
  readonly schedules?: DeclaredSchedules | undefined;
  /** The payloads' schemas, as `encodePayloadSchemas` encodes them. */
  readonly payloadSchemas?: string | undefined;
}

export const TICK_MS = 60_000;
const DAY_MS = 24 * 3_600_000;
/** Time that a fleet's function has beyond the timeout of its slowest type. The construct keeps at most 30 s. */
const FUNCTION_MARGIN_MS = 30_000;
/** How much longer than the function's timeout a message stays hidden, as the construct configures the queue. */
const HIDE_MARGIN_MS = 20_000;
const RECEIVE_MAX = 10;
/** Milliseconds that a supervisor takes to start a process again. */
const RESTART_MS = 1_000;

const SILENT_LOG: Log = { info: () => {}, warn: () => {}, error: () => {} };

interface Process {
  readonly plan: WorkerPlan;
  readonly life: Incarnation;
  readonly joinedAtMs: number;
  /** Aborts to end the process in order. */
  readonly end: AbortController;
  readonly ended: Promise<unknown>;
}

interface FunctionFleet {
  readonly fleet: string;
  readonly types: readonly string[];
  readonly timeoutMs: number;
}

export class LocalScheduler {
  readonly store: MemoryJobStore;
  readonly bus: MemoryEventBus;
  readonly queue: MemoryJobQueue;
  readonly objects: MemoryObjectStore;
  readonly #options: LocalOptions;
  readonly #adapters: LocalAdapters;
  readonly #log: Log;
  readonly #workerClock: Clock;
  readonly #workerRandom: Random;
  readonly #processes = new Map<string, Process>();
  /** The lives of running functions by invocation. */
  readonly #invoked = new Map<string, { readonly life: Incarnation; readonly end: AbortController }>();
  /** The invocations that have not ended. */
  readonly #handling = new Set<Promise<void>>();
  #declarations: Declarations | undefined;
  #dispatcher: DispatchContext;
  readonly #counted: CountedBacklogs = new Map();
  #client: OperateContext;
  #functions: readonly FunctionFleet[];
  #place: ReturnType<typeof rankOf>;
  #deployments = 0;
  /** Changed jobs whose outcomes are not published yet. */
  readonly #unpublished: Job[] = [];
  /** Changed jobs that no pass has been given yet. */
  #images: Job[] = [];
  readonly #wokenPartitions = new Set<number>();
  /** The requested checks of workers that are due. */
  readonly #dueChecks: { readonly partition: number; readonly atMs: number }[] = [];
  #isTick = false;
  #collectedAtMs: number;
  #invocations = 0;
  #isClosed = false;

  constructor(options: LocalOptions) {
    const { configuration, state, clock, random, after, observe } = options;
    this.#options = options;
    this.#log = options.log ?? SILENT_LOG;
    this.#workerClock = options.workerClock ?? clock;
    this.#workerRandom = options.workerRandom ?? random;
    this.#place = rankOf(configuration);
    const { nowMs } = clock;
    this.#collectedAtMs = nowMs();
    const place: RankOf = (job) => this.#place(job);
    this.store = new MemoryJobStore({ clock: nowMs, random, place, observe, state: state?.store });
    this.queue = new MemoryJobQueue({ clock: nowMs, random, after });
    this.bus = new MemoryEventBus({ random });
    this.objects = new MemoryObjectStore(state?.objects);
    const adapters = { store: this.store, queue: this.queue };
    this.#adapters = options.through?.(adapters) ?? adapters;
    this.#dispatcher = {
      ...this.#adapters,
      configuration,
      clock,
      random,
      log: this.#log,
      holder: 'dispatcher',
      budget: DISPATCH_BUDGET,
      announced: new Map(),
      counted: this.#counted,
      caches: new Map(),
      seen: new Map(),
    };
    this.#client = {
      store: this.store,
      queue: this.queue,
      configuration,
      clock,
      nowMs,
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
      announced: new Map(),
      large: new LargeValues({ open: async () => this.objects, nowMs }),
      counted: this.#counted,
    };
    this.#functions = functionsOf(configuration);
    this.store.subscribe(({ newJob }) => {
      if (!isNotified(newJob)) return;
      this.#unpublished.push(newJob);
      options.onWork?.();
    });
    this.queue.onWake((partition) => this.wake(partition));
    this.queue.onLook((partition, atMs) => {
      this.#dueChecks.push({ partition, atMs });
      options.onWork?.();
    });
    this.#scheduleTicks();
  }

  /** Everything that it holds, as it is at this moment; `objects`: values over 64 KB, by their keys. */
  get state(): { readonly store: MemoryState; readonly objects: Map<string, string> } {
    return { store: this.store.state, objects: this.objects.texts };
  }

  get configuration(): PoolConfiguration {
    return this.#client.configuration;
  }

  /** The context of producers and operators in this process. */
  get client(): OperateContext {
    return this.#client;
  }

  /** The declaration, once something is deployed. */
  get declarations(): Declarations | undefined {
    return this.#declarations;
  }

  /** The caches that the dispatcher keeps between passes. */
  get caches(): DispatchContext['caches'] {
    return this.#dispatcher.caches;
  }

  get partitions(): readonly number[] {
    return partitionsOf(this.#client);
  }

  /**
   * Deploys as the construct's custom resource does: what equals the newest declaration makes no other version.
   *
   * @throws ConfigurationError - the declaration cannot work; nothing was changed
   */
  async deploy(
    configuration: PoolConfiguration,
    { schedules = {}, payloadSchemas }: LocalDeployment = {},
  ): Promise<void> {
    const { clock } = this.#options;
    this.#deployments += 1;
    this.#place = rankOf(configuration);
    const what = {
      pool: encodeConfiguration(configuration),
      queueUrls: Object.fromEntries(configuration.fleets.map(({ fleet }) => [fleet, `memory:${fleet}`])),
      ...(configuration.largePayloads === undefined ? {} : { bucket: 'memory' }),
      schedules: packDeclaredSchedules(schedules),
      payloadSchemas,
    };
    const hash = createHash('sha256').update(JSON.stringify(what)).digest('hex');
    const newest = formerDeclaration((await this.store.readDeclaration())?.text ?? '')?.deployment;
    await declare(
      { store: this.store, queue: this.queue, nowMs: clock.nowMs, log: this.#log },
      {
        ...what,
        deployment: newest?.endsWith(hash) ? newest : `${clock.nowMs()}/${this.#deployments}/${hash}`,
      },
    );
    this.#declarations ??= new Declarations({ store: this.store, clock, log: this.#log });
    const declared = await this.#declarations.current(0);
    const parts = declaredParts(this.#declarations, declared, () => this.#adapters.queue);
    this.#dispatcher = { ...this.#dispatcher, ...parts, caches: new Map() };
    this.#client = {
      ...this.#client,
      configuration: declared.configuration,
      formerTypes: declared.formerTypes,
      shared: declared,
      payloadSchemas: declared.payloadSchemas,
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, declared.configuration.partitions),
    };
    this.#functions = functionsOf(declared.configuration);
  }

  /** Takes the events that the bus would send to the ingest queue. Returns the ids of those to deliver again. */
  ingest(messages: readonly IngestMessage[]): Promise<readonly string[]> {
    const context = {
      ...this.#client,
      ...this.#dispatcher,
      store: this.store,
      events: this.bus,
      log: this.#log,
    };
    return ingestAll(async () => context, messages);
  }

  /** Gives the next pass a job, such as one whose time has come. */
  remind(job: Job): void {
    this.#images.push(job);
    this.#options.onWork?.();
  }

  /** Requests passes of a partition. */
  wake(partition: number): void {
    this.#wokenPartitions.add(partition);
    this.#options.onWork?.();
  }

  // Workers

  /** Starts a worker process, as a new incarnation of its id. */
  join(plan: WorkerPlan): void {
    const { clock } = this.#options;
    const life = new Incarnation(clock);
    const end = new AbortController();
    const { send, delete: remove, handBack, sendWake, sendLook } = life.through(this.#adapters.queue);
    const options: WorkerProcessOptions = {
      ...this.#host(life),
      store: life.through(this.#adapters.store),
      queue: {
        send,
        delete: remove,
        handBack,
        sendWake,
        sendLook,
        // A vanished process receives no more messages.
        receive: async (fleet, max, waitMs, hideMs, signal) => {
          const eitherSignal = signal === undefined ? life.signal : AbortSignal.any([signal, life.signal]);
          return life.ifAlive(await this.#adapters.queue.receive(fleet, max, waitMs, hideMs, eitherSignal));
        },
      },
      ...plan,
      ...this.#options.workerLease,
      shutdownMs: this.#options.shutdownMs,
      handlers: this.#handlers(
        this.configuration.types.map(({ type }) => type),
        { fleet: plan.fleet, life },
      ),
      signal: end.signal,
      exit: () => {
        life.vanish();
        over();
      },
    };
    const over = (): void => {
      const isOurs = this.#processes.get(plan.workerId)?.life === life;
      if (!isOurs || this.#isClosed || this.#options.restartsProcesses !== true) return;
      this.#processes.delete(plan.workerId);
      this.#options.after(RESTART_MS, () => {
        if (!this.#isClosed && !this.#processes.has(plan.workerId)) this.join(plan);
      });
    };
    const ended = runWorker(options).then(over, (error: unknown) => this.#options.onFailure(error));
    this.#processes.set(plan.workerId, { plan, life, joinedAtMs: clock.nowMs(), end, ended });
  }

  /** The running worker processes, with the time of their start. */
  get processes(): readonly Pick<Process, 'plan' | 'joinedAtMs'>[] {
    return [...this.#processes.values()];
  }

  /** Makes a process vanish without notice, together with its running jobs. */
  vanish(workerId: string): void {
    this.#processes.get(workerId)?.life.vanish();
    this.#processes.delete(workerId);
  }

  /** Ends a process in order: its running jobs are given back unless they end within `shutdownMs`. */
  async leave(workerId: string): Promise<void> {
    const process = this.#processes.get(workerId);
    if (process === undefined) return;
    this.#processes.delete(workerId);
    process.end.abort();
    await process.ended;
  }

  /**
   * Makes the function or process that runs this job vanish. A process vanishes with all its jobs, and its supervisor
   * starts it again at once. Returns false if nothing runs the job.
   */
  lose(jobId: string): boolean {
    const job = this.store.inspectJob(jobId);
    if (job?.state !== 'running') return false;
    const process = this.#processes.get(job.worker?.workerId ?? '');
    const life = process?.life ?? this.#invoked.get(job.worker?.incarnation ?? '')?.life;
    life?.vanish();
    if (process !== undefined) this.join(process.plan);
    return life !== undefined;
  }

  /**
   * Ends the attempt of a function that has vanished, which a deployed scheduler notices when the function's time is over. A
   * process is noticed by its lease.
   */
  async noticeLoss(jobId: string): Promise<void> {
    const job = this.store.inspectJob(jobId);
    if (job?.state !== 'running' || job.runUntilMs === undefined) return;
    if (this.#invoked.get(job.worker?.incarnation ?? '')?.life.isOver === false) return;
    const type = this.configuration.types.find((each) => each.type === job.type);
    const { nowMs } = this.#options.clock;
    await loseAttempt(this.#dispatcher, job, type, nowMs(), () => 'a function has vanished with its job');
  }

  /** Lets the function or process that runs this job stand still. Returns false if nothing runs the job. */
  freeze(jobId: string, ms: number): boolean {
    const job = this.store.inspectJob(jobId);
    if (job?.state !== 'running') return false;
    const process = this.#processes.get(job.worker?.workerId ?? '');
    const life = process?.life ?? this.#invoked.get(job.worker?.incarnation ?? '')?.life;
    life?.freeze(ms);
    return life !== undefined;
  }

  /** Ends all functions and processes in order: jobs that run are given back. Resolves when their handlers have ended. */
  async giveBack(): Promise<void> {
    const plans = [...this.#processes.values()].map(({ plan }) => plan);
    for (const { end } of this.#invoked.values()) end.abort();
    await Promise.all([...plans.map(({ workerId }) => this.leave(workerId)), ...this.#handling]);
    if (!this.#isClosed) for (const plan of plans) this.join(plan);
  }

  /** Makes all functions and processes vanish, and starts no other: there is nothing to do any more. */
  close(): void {
    this.#isClosed = true;
    for (const { life } of this.#processes.values()) life.vanish();
    for (const { life } of this.#invoked.values()) life.vanish();
  }

  // Time

  /** Does what is due next: delivers messages, checks workers, publishes outcomes, or makes passes. Returns whether it did. */
  async step(): Promise<boolean> {
    if (this.#isClosed) return false;
    if (await this.#deliver()) return true;
    if (this.#dueChecks.length > 0) {
      // The checks are not waited for, because a check may wait for the end of a lease.
      for (const { partition, atMs } of this.#dueChecks.splice(0))
        lookAtWorkers(this.#dispatcher, partition, atMs).catch(this.#options.onFailure);
      return true;
    }
    if (this.#unpublished.length > 0) {
      // Consumers of outcomes may submit jobs at this same instant.
      await this.#publish();
      return true;
    }
    if (this.#images.length === 0 && this.#wokenPartitions.size === 0 && !this.#isTick) return false;
    await this.#dispatch();
    return true;
  }

  #scheduleTicks(): void {
    this.#options.after(TICK_MS, () => {
      if (this.#isClosed) return;
      this.#isTick = true;
      this.#options.onWork?.();
      this.#scheduleTicks();
    });
  }

  async #publish(): Promise<void> {
    const jobs = this.#unpublished.splice(0);
    for (const job of jobs) this.#images.push(job);
    await publishOutcomes(this.bus, jobs);
  }

  /** Makes passes of every partition in which something happened. */
  async #dispatch(): Promise<void> {
    const jobs = this.#images.filter((job) => this.#isNews(job));
    const woken = [...this.#wokenPartitions];
    const isTick = this.#isTick;
    this.#images = [];
    this.#wokenPartitions.clear();
    this.#isTick = false;
    if (jobs.length === 0 && woken.length === 0 && !isTick) return;
    if (isTick) await this.#collect();
    await dispatchAll(
      this.#dispatcher,
      isTick
        ? { jobs, reason: 'tick', partitions: this.partitions }
        : { jobs, reason: woken.length > 0 ? 'wake' : 'stream', partitions: woken },
    );
  }

  /** Collects objects once a day, as the stack's function does. */
  async #collect(): Promise<void> {
    const { clock, random } = this.#options;
    const nowMs = clock.nowMs();
    if (this.configuration.largePayloads === undefined || nowMs - this.#collectedAtMs < DAY_MS) return;
    this.#collectedAtMs = nowMs;
    const { store, objects } = this;
    await collectObjects({ store, objects, clock, random, log: this.#log }, Number.POSITIVE_INFINITY);
  }

  /** Whether a pass could act on this image: the job has not been started since. */
  #isNews({ id, version }: Job): boolean {
    const now = this.store.inspectJob(id);
    return now === undefined || now.version === version || isNotified(now);
  }

  /** Invokes a function for each visible message of a fleet's queue. Returns whether there was one. */
  async #deliver(): Promise<boolean> {
    let isAny = false;
    for (const fleet of this.#functions) {
      for (;;) {
        const hideMs = fleet.timeoutMs + HIDE_MARGIN_MS;
        const received = await this.#adapters.queue.receive(fleet.fleet, RECEIVE_MAX, 0, hideMs);
        if (received.length === 0 || this.#isClosed) break;
        isAny = true;
        for (const { jobs, receipt } of received) this.#invoke(fleet, encodeDispatchMessage(jobs), receipt);
      }
    }
    return isAny;
  }

  #invoke({ fleet, types, timeoutMs }: FunctionFleet, body: string, receipt: string): void {
    this.#invocations += 1;
    const id = String(this.#invocations);
    const life = new Incarnation(this.#options.clock);
    const end = new AbortController();
    this.#invoked.set(id, { life, end });
    const parts = {
      signal: end.signal,
      ...this.#host(life),
      store: life.through(this.#adapters.store),
      exit: () => life.vanish(),
    };
    const handler = lambdaWorker(() => parts, this.#handlers(types, { fleet, life }));
    const event: SQSEvent = { Records: [recordOf(receipt, body)] };
    const context: Pick<Context, 'functionName' | 'awsRequestId' | 'getRemainingTimeInMillis'> = {
      functionName: fleet,
      awsRequestId: id,
      getRemainingTimeInMillis: () => timeoutMs,
    };
    const handling = handler(event, context as Context)
      .then(async ({ batchItemFailures }) => {
        if (batchItemFailures.length === 0) await this.#adapters.queue.delete(fleet, [receipt]);
      }, this.#options.onFailure)
      .finally(() => {
        this.#invoked.delete(id);
        this.#handling.delete(handling);
      });
    this.#handling.add(handling);
    life.signal.addEventListener('abort', () => this.#handling.delete(handling), { once: true });
  }

  /** Returns the parts that an attempt gets from its function or process. */
  #host(life: Incarnation): HostContext {
    const declared = this.#dispatcher.deployed;
    return {
      configuration: this.configuration,
      typeUnder: declared?.typeUnder,
      declared: declared?.version,
      clock: life.clockOf(this.#workerClock),
      random: this.#workerRandom,
      log: this.#log,
      client: this.#options.client,
      large: new LargeValues({
        open: async () => life.through(this.objects),
        nowMs: this.#workerClock.nowMs,
      }),
    };
  }

  #handlers(types: readonly string[], place: AttemptPlace): JobHandlers {
    const handle = async (payload: Json, context: JobContext): Promise<unknown> => {
      try {
        return await place.life.ifAlive(await this.#options.handle(payload, context, place));
      } catch (error) {
        await place.life.ifAlive(undefined);
        throw error;
      }
    };
    return Object.fromEntries(types.map((type) => [type, handle]));
  }
}

function functionsOf({ fleets, types: all }: PoolConfiguration): readonly FunctionFleet[] {
  return fleets.flatMap(({ fleet, types, slots }) => {
    if (slots === null) return [];
    const timeouts = all.filter(({ type }) => types.includes(type)).map(({ timeoutMs }) => timeoutMs);
    return [{ fleet, types, timeoutMs: Math.max(...timeouts) + FUNCTION_MARGIN_MS }];
  });
}

/** Returns a message as the event source passes it to the function. */
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
