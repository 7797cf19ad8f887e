/**
 * A deployment in one thread: the real code of every role over the memory adapters, in virtual time, with what the cloud puts
 * between them. Producers submit with the client or by events, functions are invoked by the stream, the queues and the tick,
 * workers run jobs, residents lead partitions. Everything that is billed is counted.
 */
import type { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import type { Context, SQSEvent } from 'aws-lambda';
import { StoreClient } from '../../lib/client/client.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import {
  type Dedupe,
  isNotified,
  isTerminal,
  type Job,
  type Json,
  type Tags,
  TERMINAL_TTL_MS,
} from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { dispatchAll, leadWhileBusy, type WakeTrigger } from '../../lib/dispatch/dispatch.ts';
import { lookAtWorkers } from '../../lib/dispatch/look-at-workers.ts';
import { publishOutcomes } from '../../lib/dispatch/outcomes.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { runDispatcher } from '../../lib/dispatch/resident/resident.ts';
import { triggersOf } from '../../lib/dispatch/serve.ts';
import { DISPATCH_BUDGET } from '../../lib/dispatch/tuning.ts';
import { DETAIL_TYPE, type EventBus } from '../../lib/events/contract.ts';
import { MemoryEventBus } from '../../lib/events/memory/bus.ts';
import type { Jobs } from '../../lib/jobs/jobs.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import type { Metrics } from '../../lib/metrics/contract.ts';
import type { JobQueue, ReceivedMessage } from '../../lib/queue/contract.ts';
import { InvokedWakes } from '../../lib/queue/lambda/wakes.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import { decodeWake, encodeDispatchMessage, type Wake } from '../../lib/queue/message.ts';
import type { Clock, Log } from '../../lib/runtime/contract.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { tableItemsOf } from '../../lib/store/memory/imitation/bill.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { itemBytes } from '../../lib/store/table/metering.ts';
import { type IngestContext, type IngestMessage, ingest } from '../../lib/submit/ingest.ts';
import { jobFrom, jobIdOf } from '../../lib/submit/request.ts';
import { ANNOUNCE_EVERY_MS, rankOf, submit } from '../../lib/submit/submit.ts';
import { readHandling } from '../../lib/worker/handlers.ts';
import { lambdaWorker, type SqsHandler } from '../../lib/worker/lambda-batch.ts';
import { runWorker } from '../../lib/worker/process/process.ts';
import type { JobContext, JobHandlers } from '../../lib/worker/run-job.ts';
import { hashText, seeded } from '../../test/simulation/random.ts';
import { DEPLOYMENT, type PollerModel, pollersOf, WORKER_FUNCTION } from './deployment.ts';
import { CloudFunction, type Invocation } from './functions.ts';
import { type Latencies, latenciesOf } from './latency.ts';
import { MessageQueue, pollQueue, Stream } from './sources.ts';
import { cloudTable } from './table.ts';
import { type TableLimits, Throttle } from './throttle.ts';
import { UsageMeter } from './usage.ts';

const START_MS = 1_800_000_000_000;

const EVENT_BYTES = 64 * 1_024;
const SQS_BATCH = 10;
const GB = 1_000_000_000;
const HOUR_MS = 3_600_000;
const MONTH_MS = 730 * HOUR_MS;
/** DynamoDB counts so much with each stored item. */
const STORED_ITEM_BYTES = 100;

/** Processes that submit with the client, each with a memory of its own. */
const PRODUCERS = 4;
const PRELOAD_BATCH = 1_000;

export interface WorldOptions {
  readonly configuration: PoolConfiguration;
  /** Declared job types, which producers and workers are given. @default - they know none */
  readonly jobs?: Jobs | undefined;
  readonly seed: number;
  readonly limits: TableLimits;
  readonly pollers: PollerModel;
  readonly shards: number;
  readonly residents: number;
  /** Processes that work for the fleets that declare no slots, and the slots of each. Machines of workers are not in the bill. */
  readonly processes?: { readonly count: number; readonly slots: number } | undefined;
  /** Whether anything comes by the bus, and by any fleet's queue: pollers of an idle queue may be fewer. */
  readonly isBusUsed: boolean;
  /** Processes that submit with the client. @default 4 */
  readonly producers?: number | undefined;
  /** Whether clients tell dispatchers of jobs while they store them. @default true */
  readonly isPrompt?: boolean | undefined;
  readonly areFleetsUsed: boolean;
  /** What the handler of any job does: its own time, whether it fails, and the steps that share the time. */
  readonly handler: (
    payload: Json,
    attempt: number,
  ) => { readonly takesMs: number; readonly fails: boolean; readonly steps: number };
  readonly onStarted?: ((payload: Json, attempt: number) => void) | undefined;
  readonly onEnded?: ((job: Job) => void) | undefined;
}

/** A request as producers make it. */
export interface Asked {
  readonly type: string;
  readonly payload: Json;
  readonly priority: number;
  readonly fairnessKey: string;
  readonly resourceId?: string | undefined;
  readonly tags?: Tags | undefined;
  readonly dedupe?: Dedupe | undefined;
}

interface QueuedEvent extends IngestMessage {
  readonly bytes: number;
}

/** Tells of its writes as the composition root lets it; not of how many, which costs nothing more. */
const tellingWrites = (store: JobStore, metrics: Metrics): JobStore =>
  new Proxy(store, {
    get: (target, name) => {
      metrics.add('writeUnits', 1);
      return Reflect.get(target, name);
    },
  });

export class CloudWorld {
  readonly time = new VirtualTime(START_MS);
  readonly meter = new UsageMeter();
  /** Errors that reached a function's caller, by name: throttling shows here. */
  readonly failures = new Map<string, number>();
  readonly #options: WorldOptions;
  readonly #random: () => number;
  readonly #latencies: Latencies;
  readonly #memory: MemoryJobStore;
  readonly #table: JobStore;
  readonly #fleets: MemoryJobQueue;
  readonly #queue: JobQueue;
  readonly #bus: EventBus;
  readonly #stream: Stream<Job>;
  readonly #wakes: MessageQueue<Wake>;
  readonly #events: MessageQueue<QueuedEvent>;
  readonly #dispatch: CloudFunction<DispatchContext & IngestContext>;
  readonly #ingest: CloudFunction<DispatchContext & IngestContext>;
  readonly #producers: readonly StoreClient[];
  #isRehearsing = false;
  #asked = 0;
  #published = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    const { configuration, seed, shards } = options;
    const { time, meter } = this;
    this.#random = seeded(seed);
    const random = this.#random;
    this.#latencies = latenciesOf(seeded(seed ^ 0x5bd1e995));
    const { after } = time;
    const { nowMs: clock } = this.#clock();
    this.#memory = new MemoryJobStore({ clock, random, after, place: rankOf(configuration) });
    this.#table = cloudTable({
      store: this.#memory,
      time,
      configuration,
      call: this.#latencies.call,
      random,
      throttle: new Throttle(options.limits),
      meter,
    });
    this.#fleets = new MemoryJobQueue({ clock, random, after });
    this.#queue = this.#reachedQueue();
    this.#bus = this.#reachedBus(new MemoryEventBus({ random, after }));
    this.#wakes = new MessageQueue(time);
    this.#events = new MessageQueue(time);
    this.#fleets.onWake((partition, dueAtMs, jobIds) =>
      this.#wakes.put({ partition, asks: 'pass', dueAtMs, jobIds }),
    );
    this.#fleets.onLook((partition, atMs) => this.#wakes.put({ partition, asks: 'look', atMs }));
    const parts = { time, latencies: this.#latencies, meter };
    const begin = (name: string, log: Log, metrics: Metrics): DispatchContext & IngestContext =>
      this.#contextOf(name, log, metrics);
    this.#dispatch = new CloudFunction(parts, 'dispatch', DEPLOYMENT.dispatch, 'warnings', begin);
    this.#ingest = new CloudFunction(parts, 'ingest', DEPLOYMENT.ingest, 'warnings', begin);
    this.#stream = new Stream({
      time,
      latencies: this.#latencies,
      random,
      shards,
      batchSize: DEPLOYMENT.stream.batchSize,
      invoke: (jobs) => this.#counted(this.#dispatch.invoke((context) => this.#streamed(context, jobs))),
    });
    this.#producers = Array.from({ length: options.producers ?? PRODUCERS }, () => this.#producer());
  }

  /** Puts jobs as if they had been there for long: nothing is counted, and no stream tells of them. */
  async preload(asked: readonly Asked[]): Promise<void> {
    const { configuration } = this.#options;
    const { nowMs } = this.time;
    const context = {
      store: this.#memory,
      configuration,
      nowMs: () => nowMs,
      clock: this.#clock(),
      announced: new Map(),
    };
    for (let from = 0; from < asked.length; from += PRELOAD_BATCH) {
      const jobs = asked
        .slice(from, from + PRELOAD_BATCH)
        .map((each, at) =>
          jobFrom(
            { ...each, mode: 'queued', priority: each.priority },
            jobIdOf(`waiting-${from + at}`),
            partitionOf(each.fairnessKey, configuration.partitions),
            nowMs,
          ),
        );
      await submit(context, jobs);
    }
  }

  /**
   * Lets each producer come to know lines as if it had submitted such jobs at some time in the last minutes: it announces
   * them again in their turn, not all at once. Nothing is stored but the lines.
   */
  async rehearse(asked: readonly Asked[]): Promise<void> {
    this.#isRehearsing = true;
    for (const producer of this.#producers) for (const each of asked) await producer.submit(each);
    this.#isRehearsing = false;
  }

  /** Begins with everything that goes on by itself. */
  start(): void {
    this.#listen();
    this.#poll();
    this.time.after(this.#random() * DEPLOYMENT.tickMs, () => this.#tick());
    for (let at = 0; at < this.#options.residents; at += 1) this.#runResident(`resident-${at}`);
    if (this.#options.residents > 0) this.#countMachines();
    const { processes, configuration } = this.#options;
    for (const { fleet, slots } of configuration.fleets) {
      if (slots !== null || processes === undefined) continue;
      for (let at = 0; at < processes.count; at += 1) {
        this.#runProcess(fleet, `${fleet}-${at}`, processes.slots);
      }
    }
  }

  /** Every partition is woken, as by an operator: whatever waits is looked at. */
  wakeAll(): void {
    for (let partition = 0; partition < this.#options.configuration.partitions; partition += 1) {
      this.#wakes.put({ partition, asks: 'pass' });
    }
  }

  /** One job, with the client. */
  submit(asked: Asked): void {
    this.#asked += 1;
    const producer = this.#producers[this.#asked % this.#producers.length];
    // A producer that is throttled asks again; its SDK has waited by then.
    producer?.submit(asked).catch((error: unknown) => {
      this.#fail(error);
      this.submit(asked);
    });
  }

  /** One event of one job or many. */
  publish(asked: readonly Asked[]): void {
    this.#published += 1;
    const id = `event-${this.#published}`;
    const detail = asked.length === 1 ? asked[0] : { jobs: asked };
    const event = {
      version: '0',
      id,
      'detail-type': DETAIL_TYPE.requested,
      source: 'shop',
      account: '123456789012',
      time: '2026-11-22T12:00:00Z',
      region: 'us-east-1',
      resources: [],
      detail,
    };
    const body = JSON.stringify(event);
    const bytes = Buffer.byteLength(body);
    this.meter.add('events', Math.ceil(Buffer.byteLength(JSON.stringify(detail)) / EVENT_BYTES));
    this.time.after(this.#latencies.busToQueue(), () => {
      // The bus's own request to the queue.
      this.meter.add('queueRequests', Math.ceil(bytes / EVENT_BYTES), 'bus');
      this.#events.put({ messageId: id, body, bytes });
    });
  }

  // What functions work with

  /** A machine's clock tells whole milliseconds of the day, so what is stored of it is short. */
  #clock(skewMs: () => number = () => 0): Clock {
    const clock = this.time.clock(skewMs);
    return { ...clock, nowMs: () => Math.floor(clock.nowMs()) };
  }

  #contextOf(name: string, log: Log, metrics?: Metrics): DispatchContext & IngestContext {
    const { configuration } = this.#options;
    const clock = this.#clock();
    return {
      store: metrics === undefined ? this.#table : tellingWrites(this.#table, metrics),
      queue: this.#queue,
      events: this.#bus,
      configuration,
      clock,
      nowMs: clock.nowMs,
      random: this.#random,
      log,
      metrics,
      holder: name,
      budget: DISPATCH_BUDGET,
      announced: new Map(),
      caches: new Map(),
      seen: new Map(),
      askToLead: (partition) => this.#askToLead(partition),
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
    };
  }

  #askToLead(partition: number): Promise<void> {
    return this.#invokeLater(() =>
      this.#counted(this.#dispatch.invoke(async (context) => void (await leadWhileBusy(context, partition)))),
    );
  }

  /** Lambda takes the event, and runs the function behind its own queue. Only that is billed; what fails is left to the stream. */
  async #invokeLater(run: () => Promise<void>): Promise<void> {
    await this.time.sleep(this.#latencies.call());
    this.time.after(this.#latencies.invoked(), () => void run().catch(() => undefined));
  }

  #producer(): StoreClient {
    const random = this.#random;
    const memory = this.#memory;
    // Time stands still: nothing takes any.
    const rehearsal: Partial<JobStore> = {
      readLeader: async () => undefined,
      createJobs: async (jobs) => jobs.map((job) => ({ kind: 'created', job })),
      announceLines: (parameters) => memory.announceLines(parameters),
    };
    const store = new Proxy(this.#table, {
      get: (target, name) =>
        (this.#isRehearsing ? Reflect.get(rehearsal, name) : undefined) ?? Reflect.get(target, name),
    });
    const wakes = new InvokedWakes({
      client: { send: (command: InvokeCommand) => this.#invokeDispatch(command) } as unknown as LambdaClient,
      functionArn: '',
      queue: this.#queue,
      clock: this.time.clock(),
    });
    return new StoreClient({
      jobs: this.#options.jobs,
      store,
      queue: {
        sendWake: async (wake) => (this.#isRehearsing ? undefined : wakes.sendWake(wake)),
      },
      configuration: this.#options.configuration,
      promptStart: this.#options.isPrompt,
      clock: this.#clock(() => (this.#isRehearsing ? -random() * ANNOUNCE_EVERY_MS : 0)),
      newId: () =>
        Array.from({ length: 4 }, () =>
          Math.floor(random() * 2 ** 32)
            .toString(16)
            .padStart(8, '0'),
        ).join(''),
    });
  }

  #invokeDispatch({ input }: InvokeCommand): Promise<void> {
    const wake = decodeWake(Buffer.from(input.Payload as Uint8Array).toString());
    return this.#invokeLater(async () => {
      if (wake !== undefined) await this.#woken([wake]);
    });
  }

  #reachedQueue(): JobQueue {
    const fleets = this.#fleets;
    const { time, meter } = this;
    const reach = async (verb: string, requests: number): Promise<void> => {
      meter.add('queueRequests', requests, verb);
      let slowest = 0;
      for (let at = 0; at < requests; at += 1) slowest = Math.max(slowest, this.#latencies.call());
      await time.sleep(slowest);
    };
    return {
      send: async (fleet, jobs, together = 1) => {
        await reach('send', Math.ceil(jobs.length / together / SQS_BATCH));
        return fleets.send(fleet, jobs, together);
      },
      // Lambda receives and deletes: its pollers count that.
      receive: (...parameters) => fleets.receive(...parameters),
      delete: (...parameters) => fleets.delete(...parameters),
      handBack: (...parameters) => fleets.handBack(...parameters),
      // SQS delays by whole seconds.
      sendWake: async ({ delayMs = 0, ...wake }) => {
        await reach('sendWake', 1);
        return fleets.sendWake({ ...wake, delayMs: Math.ceil(delayMs / 1_000) * 1_000 });
      },
      sendLook: async (partition, delayMs, atMs) => {
        await reach('sendLook', 1);
        return fleets.sendLook(partition, Math.ceil(delayMs / 1_000) * 1_000, atMs);
      },
    };
  }

  #reachedBus(bus: MemoryEventBus): EventBus {
    const { time, meter } = this;
    return {
      publish: async (events) => {
        for (const { detail } of events) {
          meter.add('events', Math.ceil(Buffer.byteLength(JSON.stringify(detail)) / EVENT_BYTES));
        }
        await time.sleep(this.#latencies.call());
        return bus.publish(events);
      },
    };
  }

  // Triggers

  #listen(): void {
    const { onEnded, shards } = this.#options;
    this.#memory.subscribe(({ newJob }) => {
      if (isTerminal(newJob.state)) {
        const bytes = tableItemsOf(newJob).reduce(
          (sum, item) => sum + itemBytes(item) + STORED_ITEM_BYTES,
          0,
        );
        this.meter.add('storedGbMonths', (bytes / GB) * (TERMINAL_TTL_MS / MONTH_MS));
        onEnded?.(newJob);
      }
      if (isNotified(newJob)) this.#stream.put(hashText(newJob.id) % shards, newJob);
    });
  }

  async #streamed(context: DispatchContext & IngestContext, jobs: readonly Job[]): Promise<void> {
    for (const { state, type, version } of jobs) {
      if (version === 1) context.metrics?.add('submitted', 1, { type });
      else context.metrics?.add(state === 'succeeded' || state === 'failed' ? state : 'retried', 1, { type });
    }
    const [published, passed] = await Promise.allSettled([
      publishOutcomes(context.events, jobs),
      dispatchAll(context, { jobs, reason: 'stream' }),
    ]);
    if (published.status === 'rejected') throw published.reason;
    if (passed.status === 'rejected') throw passed.reason;
  }

  #poll(): void {
    const { pollers, isBusUsed, areFleetsUsed, configuration } = this.#options;
    const { time, meter } = this;
    const shared = { time, latencies: this.#latencies, meter };
    const { wakeQueue, ingestQueue, fleetQueue } = DEPLOYMENT;
    pollQueue<Wake>({
      ...shared,
      name: 'wakes',
      ...wakeQueue,
      queue: this.#wakes,
      pollers: pollersOf(pollers, wakeQueue.maxConcurrency !== undefined, !areFleetsUsed),
      invoke: (wakes) => this.#woken(wakes),
      failed: (wakes) =>
        this.#again(DEPLOYMENT.dispatch.timeoutMs, () => {
          for (const wake of wakes) this.#wakes.put(wake);
        }),
    });
    pollQueue<QueuedEvent>({
      ...shared,
      name: 'ingest',
      ...ingestQueue,
      queue: this.#events,
      pollers: pollersOf(pollers, ingestQueue.maxConcurrency !== undefined, !isBusUsed),
      invoke: (events) => this.#takeIn(events),
      failed: (events) =>
        this.#again(DEPLOYMENT.ingest.timeoutMs, () => {
          for (const event of events) this.#events.put(event);
        }),
    });
    for (const { fleet, slots } of configuration.fleets) {
      // No function stands behind the queue of a fleet of processes.
      if (slots === null) continue;
      const worker = this.#workerOf(fleet);
      const hideMs = DEPLOYMENT.visibilityTimeouts * WORKER_FUNCTION.timeoutMs;
      pollQueue<ReceivedMessage>({
        ...shared,
        name: 'fleet',
        batchSize: fleetQueue.batchSize,
        // The slots bound what is in flight.
        maxConcurrency: undefined,
        queue: {
          receive: (max, waitMs) => this.#fleets.receive(fleet, max, waitMs, hideMs),
          delete: (messages) =>
            this.#fleets.delete(
              fleet,
              messages.map(({ receipt }) => receipt),
            ),
        },
        pollers:
          pollersOf(pollers, fleetQueue.hasMaxConcurrency, !areFleetsUsed) * this.#pollersFactor(slots),
        invoke: worker,
      });
    }
  }

  /** Lambda adds pollers where many messages come. */
  #pollersFactor(slots: number): number {
    return Math.max(1, Math.ceil(slots / 200));
  }

  #again(timeoutMs: number, put: () => void): void {
    this.time.after(DEPLOYMENT.visibilityTimeouts * timeoutMs, put);
  }

  #tick(): void {
    this.time.after(DEPLOYMENT.tickMs, () => this.#tick());
    // The next tick does what a failed one left.
    this.#pass({ jobs: [], reason: 'tick' }).catch(() => undefined);
  }

  async #pass(trigger: WakeTrigger): Promise<void> {
    await this.#counted(this.#dispatch.invoke(async (context) => void (await dispatchAll(context, trigger))));
  }

  async #woken(wakes: readonly Wake[]): Promise<void> {
    const looks = wakes.filter((wake) => wake.asks === 'look');
    const passes = triggersOf(wakes.filter((wake) => wake.asks === 'pass'));
    await this.#counted(
      this.#dispatch.invoke(async (context) => {
        await Promise.all([
          ...passes.map((pass) => dispatchAll(context, pass)),
          ...looks.map(({ partition, atMs }) => lookAtWorkers(context, partition, atMs)),
        ]);
      }),
    );
  }

  async #takeIn(events: readonly QueuedEvent[]): Promise<void> {
    // Receives and deletes are counted by request: those of large messages are several.
    const more = Math.ceil(events.reduce((sum, { bytes }) => sum + bytes, 0) / EVENT_BYTES) - 1;
    this.meter.add('queueRequests', more);
    await this.#counted(
      this.#ingest.invoke(async (context) => {
        const report = await ingest(context, events);
        if (report.created.length > 0) {
          await dispatchAll(context, { jobs: report.created, reason: 'ingest' }).catch((error: unknown) =>
            context.log.warn('the pass after ingest failed', { error: String(error) }),
          );
        }
        context.log.info('ingested', {
          messages: events.length,
          created: report.created.length,
          repeated: report.repeated,
          rejected: report.rejected,
          failed: report.failedMessageIds.length,
        });
        const failed = new Set(report.failedMessageIds);
        this.#again(DEPLOYMENT.ingest.timeoutMs, () => {
          for (const event of events) if (failed.has(event.messageId)) this.#events.put(event);
        });
      }),
    );
  }

  async #counted(invocation: Promise<unknown>): Promise<void> {
    try {
      await invocation;
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  #fail(error: unknown): void {
    const name = error instanceof Error ? error.name : String(error);
    this.failures.set(name, (this.failures.get(name) ?? 0) + 1);
  }

  // Workers

  /** One for each type, each run by `aside`: its time is the user's. */
  #handlers(aside: Invocation['aside']): JobHandlers {
    const { configuration, jobs, handler, onStarted } = this.#options;
    const run = async (payload: Json, { attempt, step }: JobContext): Promise<null> => {
      onStarted?.(payload, attempt);
      const { takesMs, fails, steps } = handler(payload, attempt);
      const part = (): Promise<void> => aside(() => this.time.sleep(takesMs / Math.max(1, steps)));
      if (steps === 0) await part();
      for (let at = 0; at < steps; at += 1) await step(`step-${at}`, () => part().then(() => at));
      if (fails) throw new Error('once');
      return null;
    };
    const handlers = Object.fromEntries(configuration.types.map(({ type }) => [type, run]));
    return jobs === undefined ? handlers : readHandling(jobs, [handlers]).handlers;
  }

  /** A worker that runs on. It receives and deletes by itself. */
  #runProcess(fleet: string, workerId: string, slots: number): void {
    const silent = (): void => {};
    const { time, meter } = this;
    const queue: JobQueue = {
      ...this.#queue,
      receive: async (...parameters) => {
        meter.add('queueRequests', 1);
        const received = await this.#fleets.receive(...parameters);
        await time.sleep(this.#latencies.call());
        return received;
      },
      delete: async (name, receipts) => {
        meter.add('queueRequests', Math.ceil(receipts.length / SQS_BATCH));
        await time.sleep(this.#latencies.call());
        await this.#fleets.delete(name, receipts);
      },
    };
    runWorker({
      store: this.#table,
      queue,
      configuration: this.#options.configuration,
      clock: this.#clock(),
      random: this.#random,
      log: { info: silent, warn: silent, error: silent },
      fleet,
      slots,
      workerId,
      handlers: this.#handlers((work) => work()),
      signal: new AbortController().signal,
      exit: (reason) => this.#fail(new Error(reason)),
    }).catch((error: unknown) => this.#fail(error));
  }

  #workerOf(fleet: string): (messages: readonly ReceivedMessage[]) => Promise<void> {
    const { configuration } = this.#options;
    const { time, meter } = this;
    let invocations = 0;
    interface Process {
      readonly handle: SqsHandler;
      invocation: Invocation | undefined;
    }
    const begin = (name: string, log: Log, metrics: Metrics): Process => {
      const process: Process = {
        invocation: undefined,
        handle: lambdaWorker(
          () => ({
            store: this.#table,
            configuration,
            clock: this.#clock(),
            random: this.#random,
            log,
            metrics,
            exit: () => this.#fail(new Error(`${name} had to exit`)),
          }),
          this.#handlers((work) => process.invocation?.aside(work) ?? work()),
        ),
      };
      return process;
    };
    const parts = { time, latencies: this.#latencies, meter };
    const worker = new CloudFunction<Process>(parts, fleet, WORKER_FUNCTION, 'warnings', begin);
    return (messages) =>
      worker.invoke(async (process, invocation) => {
        invocations += 1;
        process.invocation = invocation;
        const endsAtMs = time.nowMs + WORKER_FUNCTION.timeoutMs;
        const event = {
          Records: messages.map(({ receipt, jobs }) => ({
            messageId: receipt,
            body: encodeDispatchMessage(jobs),
          })),
        } as unknown as SQSEvent;
        const lambda = {
          functionName: fleet,
          awsRequestId: `${fleet}-${invocations}`,
          getRemainingTimeInMillis: () => Math.max(0, endsAtMs - time.nowMs),
        } as Context;
        const { batchItemFailures } = await process.handle(event, lambda);
        if (batchItemFailures.length > 0)
          throw new WorkerFailed(`${batchItemFailures.length} messages failed`);
      });
  }

  // Residents

  #runResident(dispatcherId: string): void {
    const silent = (): void => {};
    runDispatcher({
      store: this.#table,
      queue: this.#queue,
      configuration: this.#options.configuration,
      clock: this.#clock(),
      random: this.#random,
      log: { info: silent, warn: silent, error: silent },
      dispatcherId,
      signal: new AbortController().signal,
    }).catch((error: unknown) => this.#fail(error));
  }

  #countMachines(): void {
    const everyMs = 1_000;
    this.time.after(everyMs, () => {
      this.meter.add('machineHours', (this.#options.residents * everyMs) / HOUR_MS);
      this.#countMachines();
    });
  }
}

/** A worker function answered that messages are to come again. */
class WorkerFailed extends Error {
  override readonly name = 'WorkerFailed';
}
