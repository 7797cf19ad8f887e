/**
 * The whole scheduler in one thread: the real code of ingest, dispatch and workers over the memory adapters, with what
 * the cloud does around it: queues that redeliver, a stream, a minute's tick, functions with time limits.
 */

import type { Context, SQSEvent } from 'aws-lambda';
import { StoreClient } from '../../lib/client/client.ts';
import type { Job, Json } from '../../lib/core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import {
  DECLARATION_AGAIN_MS,
  declaredParts,
  type VersionedDeclaration,
} from '../../lib/declaration/declaration.ts';
import { dispatchAll, leadWhileBusy, type WakeTrigger } from '../../lib/dispatch/dispatch.ts';
import { lookAtWorkers } from '../../lib/dispatch/look-at-workers.ts';
import { publishOutcomes } from '../../lib/dispatch/outcomes.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import type { ResidentOptions } from '../../lib/dispatch/resident/options.ts';
import { runDispatcher } from '../../lib/dispatch/resident/resident.ts';
import { triggersOf } from '../../lib/dispatch/serve.ts';
import { WORKER_LEASE_MS } from '../../lib/dispatch/tuning.ts';
import type { PartitionCaches } from '../../lib/dispatch/view/partition-cache.ts';
import type { EventBus } from '../../lib/events/contract.ts';
import { MemoryEventBus } from '../../lib/events/memory/bus.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import type { ReceivedMessage } from '../../lib/queue/contract.ts';
import { MemoryJobQueue } from '../../lib/queue/memory/queue.ts';
import { encodeDispatchMessage, type PassWake } from '../../lib/queue/message.ts';
import type { Clock } from '../../lib/runtime/contract.ts';
import type { JobStore, RequestOf } from '../../lib/store/contract/verbs.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import { type IngestContext, ingest } from '../../lib/submit/ingest.ts';
import { rankOf } from '../../lib/submit/submit.ts';
import { CooldownError, isAttemptError } from '../../lib/worker/errors.ts';
import { guardInSameThread, KILL_AFTER_MS } from '../../lib/worker/guard.ts';
import type { ParkedJob } from '../../lib/worker/kept.ts';
import { lambdaWorker, type WorkerParts } from '../../lib/worker/lambda-batch.ts';
import { runWorker } from '../../lib/worker/process/process.ts';
import { type JobContext, type JobHandlers, STOP_GRACE_MS } from '../../lib/worker/run-job.ts';
import { type CallFault, Faults, type FiredFault } from './faults.ts';
import { faultyBus, faultyQueue, faultyStore, type Network } from './faulty.ts';
import { instead } from './instead.ts';
import { type Execution, Invariants, SIGNATURE } from './invariants.ts';
import { type Caller, SimulatedNode } from './node.ts';
import type { OrderBounds } from './order.ts';
import { OPERATOR_FAULTS, type PlannedJob, type PlannedResident, type SimulationPlan } from './plan.ts';
import { diceOf, hashText, seeded } from './random.ts';
import { configurationsOf, type PlannedProcess } from './redeploys.ts';
import { type Generation, Rollouts } from './rollouts.ts';
import { plannedIdOf, requestOf, Users } from './users.ts';

export const START_MS = 1_800_000_000_000;
const TICK_MS = 60_000;
/** Between the end of a job, the pass that sees it and the start that follows; some of each in a row. */
const TURN_SLACK_MS = 10_000;
const FUNCTION_TIMEOUT_MS = 60_000;
const REDELIVER_MS = 30_000;
const STREAM_BATCH_MAX = 100;
const STREAM_RETRY_MS = 1_000;
const STREAM_TRIES_MAX = 10;
/** A worker function ends this long after its slowest type's timeout: time to say that it was too slow. */
export const WORKER_MARGIN_MS = 10_000;
/** As the construct declares the fleets' queues. */
const BEHIND_FUNCTION_MS = 20_000;
/** A job of a function that died starts again so long after the function's own timeout at most. */
const FUNCTION_LOST_MS = 30_000;
/** A handler keeps its thread for so long. */
const BUSY_MS = 60_000;
const SUSPENDED_MAX_MS = 120_000;
/** So long a worker process may take to end in order. */
const PROCESS_ENDS_MS = 50_000;
/** What timers and calls take. */
const TIMING_MS = 500;
/** So long before its end a function may cut its handler short. */
const FUNCTION_RESERVE_MS = 2_000;
/** Whoever asked for a type that is not declared does so again. */
export const ASKS_AGAIN_MS = 20_000;
/** So often it is asked whether everything that is declared is over. */
const LOOK_STEPS = 64;
/** Longer than a worker bears, as often as not. */
const OUTAGE_MAX_MS = 60_000;
/** No request is under way longer. */
export const LATE_MAX_MS = 130_000;
/** Hints under way have arrived after this. */
const QUIET_MS = 3_000;
/** What dispatchers that run on do all the time, busy or not. */
const IDLE_VERBS: ReadonlySet<string> = new Set([
  'readLetters',
  'readLeader',
  'lead',
  'keepDispatcher',
  'listDispatchers',
]);
/** Work that becomes due is seen within this. */
const DUE_LATE_MS = 12_000;
/** What a pass takes beside its calls, and how many it makes one after the other, with those of the look before it. */
const PASS_MS = 1_000;
const CALLS_OF_A_PASS = 15;
/** What was sent is started within this, where a slot is free: long before a message that went astray comes again. */
const STARTED_MS = 15_000;
/** A worker that has a slot for it receives a message within this. */
const RECEIVED_MS = 2_000;
/** What faults left behind has been cleared up after this: checks, leases, late records. */
const AFTERMATH_MS = 5 * 60_000;
/** After a declaration everything stands where it is to stand, and the new workers have taken their places. */
const ROLLED_OUT_MS = AFTERMATH_MS + 2 * 90_000;
const AWAITED: ReadonlySet<Job['state']> = new Set([
  'pending',
  'scheduled',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
]);

type FunctionContext = DispatchContext & IngestContext;

/** A process that lives on between invocations, as a function's does: what it remembers, it remembers. */
interface Container {
  readonly node: SimulatedNode;
  /** What it works with: as of now, it if something else was declared. */
  readonly context: () => FunctionContext | Promise<FunctionContext>;
  isBusy: boolean;
}

/** Takes one protection away. */
export interface Sabotage {
  /** What the store does when a request has reached it. */
  readonly store?: ((store: MemoryJobStore) => JobStore) | undefined;
  /** What its answers are taken for. */
  readonly answers?: ((store: JobStore) => JobStore) | undefined;
  /** What the bus's answers are taken for. */
  readonly bus?: ((bus: EventBus) => EventBus) | undefined;
  /** Messages that failed in a batch are deleted with the others. */
  readonly forgetsFailures?: boolean | undefined;
}

export interface WorldOptions {
  readonly plan: SimulationPlan;
  readonly only?: ReadonlySet<FiredFault> | undefined;
  readonly forced?: ReadonlyMap<string, CallFault> | undefined;
  readonly sabotage?: Sabotage | undefined;
  /** Hears of everything, for a replay. */
  readonly onTrace?: ((line: string) => void) | undefined;
}

/** The terms of a type under a version, as a worker asks for them. */
const termsOn = (node: SimulatedNode, version: number | undefined, type: string): string =>
  JSON.stringify([node.name, version, type]);

/** How long a handler parks its job. */
const PARKED_FOR = '+7s';
/** How long a scope rests that a handler asks for. */
const RESTS_FOR = '4s';

export class World {
  readonly plan: SimulationPlan;
  readonly time = new VirtualTime(START_MS);
  readonly faults: Faults;
  readonly invariants: Invariants;
  readonly store: MemoryJobStore;
  readonly queue: MemoryJobQueue;
  readonly bus: MemoryEventBus;
  readonly calls: string[] = [];
  readonly #options: WorldOptions;
  readonly #network: Network;
  /** No fault is possible in this run. */
  readonly #isHarmless: boolean;
  /** Undefined: nothing is declared while this runs. */
  readonly #rollouts: Rollouts | undefined;
  readonly #containers = new Map<string, Container[]>();
  readonly #nodes = new Map<string, SimulatedNode>();
  readonly #planned = new Map<number, PlannedJob>();
  /** Jobs whose handlers have asked for a rest. */
  readonly #rested = new Set<string>();
  readonly #processes = new Map<string, PlannedProcess & { readonly generation?: Generation | undefined }>();
  readonly #residents = new Map<string, PlannedResident>();
  /** When the lives of a dispatcher's name began, by the clocks that name them. */
  readonly #lives = new Map<string, number[]>();
  readonly #doubled = new Set<string>();
  #lastGoneAtMs = 0;
  /** By node and partition: looks for letters since the last pass. */
  readonly #looked = new Map<string, number>();
  readonly #shutdowns = new Map<string, AbortController>();
  /** When functions that work are ended, by their node. */
  readonly #functionEnds = new Map<string, number>();
  /** By worker: terms that it asked for last, and was not told. */
  readonly #unread = new Set<string>();
  readonly #born = new Map<string, number>();
  readonly #stream: Job[] = [];
  #streamArmed = false;
  #outageUntilMs = 0;
  /** When every job was over for the first time. */
  #overSinceMs: number | undefined;
  #isAskedAgain = false;
  readonly #users: Users;
  #hash = hashText('');
  #unhandled = 0;
  #busyCount = 0;
  #busyRound = 0;
  #leads = 0;

  constructor(options: WorldOptions) {
    const { plan } = options;
    this.plan = plan;
    this.#options = options;
    const startMs = START_MS;
    this.faults = new Faults(
      { ...plan, faultsUntilMs: startMs + plan.faultsUntilMs },
      () => this.time.nowMs,
      options,
    );
    this.#isHarmless = options.forced === undefined && Object.values(plan.rates).every((rate) => rate === 0);
    const calmFromMs = START_MS + (this.#isHarmless ? 0 : plan.faultsUntilMs + AFTERMATH_MS);
    this.invariants = new Invariants({
      configuration: plan.configuration,
      isRedeployed: plan.redeploys !== undefined,
      partitions: partitionsOf(plan),
      nowMs: () => this.time.nowMs,
      skewMaxMs: plan.skewMaxMs + JUMP_MAX_MS,
      recordsExpire: plan.terminalTtlMs !== undefined,
      streamIsWhole: plan.store.streamLost === undefined,
      requests: new Map(
        plan.jobs.map((job, at) => {
          const key = job.dedupe?.whileRunning === 'oneWaits' ? job.dedupe.key : undefined;
          return [plannedIdOf(at), { ...job, resourceId: job.resourceId ?? key, payload: { at } }];
        }),
      ),
      countedWithinMs: countedWithinMs(plan),
      readsAreWhole:
        plan.store.indexLagMs === undefined && plan.rates.appliedLate + plan.rates.requestRepeated === 0,
      orderBounds: orderBoundsOf(plan),
      turnSlackMs: plan.isOverloaded === true ? TURN_SLACK_MS : undefined,
      starvation: {
        fromMs: plan.endless ? Infinity : calmFromMs,
        // A tick may find another dispatcher's lease, or its own process gone.
        unseenMs: orderBoundsOf(plan).parkedMs + plan.budget.leadMs + 2 * TICK_MS,
      },
    });
    const clock = (): number => this.time.nowMs;
    const { after } = this.time;
    const random = seeded(plan.seed ^ 0x2545f491);
    this.store = new MemoryJobStore({
      clock,
      random,
      after,
      place: rankOf(plan.configuration),
      imitate: this.#whileActive(plan.store),
      observe: (event) => {
        if (event.kind === 'imitated') this.#countImitated(event.what);
        else if (event.kind === 'declared') this.#rollouts?.onDeclared(event.record);
        else {
          if (event.kind === 'job')
            this.trace(`${this.time.nowMs} item ${event.verb} ${describe(event.newJob)}`);
          if (event.kind === 'job' && event.newJob.state === 'scheduled') this.#expectDue(event.newJob);
          if (event.kind === 'job' && event.verb === 'rehome') this.faults.count('jobRehomed');
          this.invariants.onStore(event);
        }
      },
    });
    this.invariants.watch(this.store);
    const imitated = (what: string): void => this.#countImitated(`queue.${what}`);
    this.queue = new MemoryJobQueue({
      clock,
      random,
      after,
      imitate: this.#whileActive(plan.queue),
      imitated,
    });
    this.bus = new MemoryEventBus({
      random,
      after,
      imitate: this.#whileActive(plan.bus),
      imitated: (what) => this.#countImitated(`bus.${what}`),
    });
    this.#network = {
      plan,
      time: this.time,
      faults: this.faults,
      outageUntilMs: () => this.#outageUntilMs,
      trace: this.trace,
      onCall: (name, verb, node, parameters) => {
        this.calls.push(name);
        this.invariants.onSent(verb, node.name, parameters);
      },
      as: (node, apply) => this.#rollouts?.as(node, apply) ?? apply,
      onApplied: (verb, node, parameters) => {
        this.invariants.onVerb(verb, node.name, parameters);
        // A pass of theirs is as good as a function's.
        if (!this.#residents.has(node.name) || IDLE_VERBS.has(verb)) return;
        this.#busyRound += 1;
        this.#lookForLeftBehind();
      },
      onAnswered: (verb, node, parameters) => {
        if (verb === 'commit') this.invariants.requireCarriedOver();
        // A function's partition may fail while another of its partitions goes on, beside the next invocation.
        if (!this.#residents.has(node.name)) return;
        if (verb === 'readLetters') this.#onLook(node, parameters[0] as number);
        // What its last pass left is for whoever leads next: that pass may have failed.
        if (verb === 'stopLeading')
          this.#looked.set(`${node.name}/${(parameters[0] as RequestOf<'stopLeading'>).partition}`, Infinity);
        if (verb === 'loadPartition')
          this.#looked.delete(`${node.name}/${(parameters[0] as RequestOf<'loadPartition'>).partition}`);
      },
    };
    const { redeploys, endless } = plan;
    this.#rollouts =
      redeploys &&
      new Rollouts({
        redeploys,
        endless,
        time: this.time,
        faults: this.faults,
        invariants: this.invariants,
        store: () => this.store,
        queue: () => this.queue,
        begin: () => {
          const node = this.#node('deployment');
          return { node, store: this.reach(node), queue: faultyQueue(this.#network, node, this.queue) };
        },
        onGeneration: (generation) => this.#onGeneration(generation),
        trace: this.trace,
        onBug: (what) => this.#onBug(what),
      });
    this.bus.subscribe((event) => {
      if (event.kind === 'outcome') this.invariants.onOutcome(event.detail.id);
    });
    this.#users = new Users({
      plan,
      time: this.time,
      startMs,
      faults: this.faults,
      invariants: this.invariants,
      begin: (kind) => {
        const node = this.#node(kind);
        return { node, client: this.#clientOf(node), store: this.reach(node) };
      },
      trace: this.trace,
      onBug: (what) => this.#onBug(what),
    });
  }

  /** Equal for two runs of one seed. */
  get traceHash(): string {
    return this.#hash.toString(16).padStart(8, '0');
  }

  /** Errors that reached nobody: each is a bug. */
  get unhandled(): number {
    return this.#unhandled;
  }

  readonly trace = (line: string): void => {
    this.#hash = hashText(line, this.#hash);
    this.#options.onTrace?.(line);
  };

  /** Whatever must be there before anything runs. */
  async prepare(): Promise<void> {
    await this.#rollouts?.first();
  }

  start(): void {
    const { jobs, rates, malformed, events } = this.plan;
    this.#rollouts?.start();
    for (const [at, job] of jobs.entries()) this.#planned.set(at, job);
    if (this.plan.eventJobs !== undefined) this.#askTogether(this.plan.eventJobs);
    for (const [at, job] of this.plan.eventJobs === undefined ? jobs.entries() : []) {
      this.time.after(job.askedAtMs, () => this.#ask(at, job));
      if (this.faults.happens('requestDoubled', `request-${at}`, 5)) {
        this.time.after(job.askedAtMs + this.faults.randomOf(`request-${at}/again`)() * 90_000, () =>
          this.#ask(at, job),
        );
      }
    }
    for (let at = 0; at < malformed; at += 1) {
      this.time.after(1_000 * at, () => {
        this.faults.count('requestMalformed');
        this.#takeIn(`malformed-${at}`, { detail: { type: 'nobody knows' } }, 1);
      });
    }
    for (const event of events) {
      this.time.after(event.atMs, () => {
        if ('act' in event) this.#users.act(event.act);
        else if ('kills' in event) {
          for (const [name, node] of [...this.#nodes]) {
            if (!name.startsWith(event.kills)) continue;
            this.faults.count('workerKilled');
            node.kill();
          }
        } else {
          for (const [name, end] of [...this.#shutdowns]) if (name.startsWith(event.stops)) end.abort();
        }
      });
    }
    this.#tick(1);
    for (const resident of this.plan.residents) this.#runResident(resident);
    if (this.#rollouts === undefined) {
      for (const process of this.plan.processes) this.#runProcess(process);
      for (const { fleet, slots } of this.plan.configuration.fleets) {
        // More pollers than slots: the cap is the dispatcher's to keep, not the queue's.
        for (let poller = 0; slots !== null && poller < slots + 1; poller += 1)
          void this.#poll(fleet, poller);
      }
    }
    if (rates.storeOutage > 0) this.#outages(1);
    this.#disturb(1);
    if (OPERATOR_FAULTS.some((fault) => rates[fault] > 0)) this.#users.operate();
    // A pause may arrive behind its end: when nothing is under way any more, each is ended once more.
    this.time.after(this.plan.faultsUntilMs + LATE_MAX_MS, () => this.#users.restoreAll());
  }

  /** True when every accepted job is over and every request was answered. */
  get isQuiet(): boolean {
    const { invariants, plan } = this;
    if (this.#rollouts?.isWhole === false) {
      this.#endRollouts(this.#rollouts);
      return false;
    }
    const isOver =
      invariants.asked >= plan.jobs.length &&
      invariants.ended.size >= invariants.accepted.size &&
      invariants.isAllSettled &&
      invariants.isAllTold;
    return isOver && this.#afterExpiry();
  }

  /** The workers of a declaration begin, each at its own moment. */
  #onGeneration(generation: Generation): void {
    const { version, processes, configuration, rolloutMs } = generation;
    const begin = (name: string, work: () => void): void => {
      const random = this.faults.randomOf(`version-${version}/${name}/begins`);
      this.time.after(version === 1 ? 0 : random() * rolloutMs, work);
    };
    for (const [at, process] of processes.entries()) {
      begin(`process-${at}`, () => {
        // Its own name as it ends: another one may have it by then.
        if (!generation.retires(`process-${at}`).aborted)
          this.#runProcess(process, { ...generation, retires: () => generation.retires(`process-${at}`) });
      });
    }
    for (const { fleet, slots } of configuration.fleets) {
      for (let poller = 0; slots !== null && poller < slots + 1; poller += 1) {
        begin(`poller-${fleet}-${poller}`, () => void this.#poll(fleet, poller, generation));
      }
    }
    // Functions that are deployed anew begin anew.
    for (const [kind, containers] of this.#containers) {
      for (const { node } of containers) {
        begin(node.name, () => {
          const isIdle = this.#containers.get(kind)?.some((each) => each.node === node && !each.isBusy);
          if (isIdle === true && this.faults.randomOf(`${node.name}/${version}`)() < 0.5) node.kill();
        });
      }
    }
  }

  #looksUntilEnd = 0;

  /** Nothing more can end as things are declared: what is left is looked at, and then comes alive again. */
  #endRollouts(rollouts: Rollouts): void {
    this.#looksUntilEnd += 1;
    if (this.plan.endless || this.#looksUntilEnd % LOOK_STEPS !== 0) return;
    if (this.time.nowMs < START_MS + this.plan.faultsUntilMs + LATE_MAX_MS) return;
    if (!this.invariants.isOverAsDeclared) return;
    rollouts.end(() => this.#users.requireSeen(this.invariants.stranded));
  }

  /** Where records expire: when all have, somebody asks for the first job once more, as for a new one. */
  #afterExpiry(): boolean {
    const { terminalTtlMs, endless, jobs } = this.plan;
    const [first] = jobs;
    if (terminalTtlMs === undefined || endless || first === undefined) return true;
    if (this.#isAskedAgain) return true;
    // Operators may still make other tries of dead letters.
    if (this.time.nowMs < START_MS + this.plan.faultsUntilMs + LATE_MAX_MS) return false;
    if (this.#overSinceMs === undefined) {
      this.#overSinceMs = this.time.nowMs;
      // Clocks differ, and what was under way may end something later still.
      this.time.after(terminalTtlMs + LATE_MAX_MS, () => {
        this.#isAskedAgain = true;
        this.faults.count('recordExpires');
        this.invariants.requireExpired();
        this.#ask(0, first);
      });
    }
    return false;
  }

  #countImitated(what: string): void {
    const fault = IMITATED[what];
    if (fault !== undefined) this.faults.count(fault);
  }

  /** The imitation's chances and bounds, as long as faults happen at all. */
  #whileActive<T extends object>(imitation: T): T {
    return new Proxy(imitation, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (this.faults.active || value === undefined) return value;
        return 0;
      },
    });
  }

  // Functions

  #container(kind: string): Container {
    const all = this.#containers.get(kind) ?? [];
    this.#containers.set(kind, all);
    const idle = all.find((each) => !each.isBusy && each.node.isAlive);
    if (idle !== undefined) return idle;
    const made = this.#makeContainer(kind);
    all.push(made);
    return made;
  }

  #node(kind: string): SimulatedNode {
    const count = (this.#born.get(kind) ?? 0) + 1;
    this.#born.set(kind, count);
    const name = `${kind}-${count}`;
    const { skewMaxMs } = this.plan;
    const skewMs = Math.round((this.faults.randomOf(`${name}/skew`)() * 2 - 1) * skewMaxMs);
    if (skewMs !== 0) this.faults.count('clockSkew');
    const node = new SimulatedNode(name, this.time, skewMs);
    this.#nodes.set(name, node);
    node.onDeath(() => this.#nodes.delete(name));
    return node;
  }

  reach(node: Caller): JobStore {
    const { sabotage } = this.#options;
    const kept = sabotage?.store?.(this.store) ?? this.store;
    const { terminalTtlMs } = this.plan;
    const reached = faultyStore(
      this.#network,
      node,
      terminalTtlMs === undefined ? kept : shortLived(kept, terminalTtlMs),
    );
    return sabotage?.answers?.(reached) ?? reached;
  }

  #clientOf(node: SimulatedNode): StoreClient {
    const random = this.faults.randomOf(`${node.name}/ids`);
    return new StoreClient({
      store: this.reach(node),
      queue: faultyQueue(this.#network, node, this.queue),
      ...(this.#rollouts === undefined
        ? { configuration: this.plan.configuration }
        : { declarations: this.#rollouts.rememberedBy(node, this.reach(node)) }),
      clock: node.clock,
      newId: () => hashText(String(random())).toString(16).padStart(32, '0'),
    });
  }

  #makeContainer(kind: string): Container {
    const node = this.#node(kind);
    const { configuration, budget } = this.plan;
    const caches: PartitionCaches = new Map();
    const bus = faultyBus(this.#network, node, this.bus);
    const store = this.reach(node);
    const queue = faultyQueue(this.#network, node, this.queue);
    const context: DispatchContext & IngestContext = {
      store,
      queue,
      events: this.#options.sabotage?.bus?.(bus) ?? bus,
      configuration,
      clock: node.clock,
      nowMs: node.clock.nowMs,
      random: this.faults.randomOf(`${node.name}/random`),
      log: {
        info: (message, fields) => {
          const { partition, kind } = (fields ?? {}) as {
            readonly partition?: number;
            readonly kind?: string;
          };
          if (message === 'dispatched' && kind === 'done' && partition !== undefined)
            this.invariants.onDone(node.name, partition);
        },
        warn: (message, fields) =>
          this.trace(`${this.time.nowMs} ${node.name} warns ${message} ${JSON.stringify(fields)}`),
        error: (message) => this.trace(`${this.time.nowMs} ${node.name} reports ${message}`),
      },
      holder: node.name,
      budget,
      announced: new Map(),
      counted: new Map(),
      caches,
      seen: new Map(),
      askToLead: async (partition) => this.#askToLead(partition),
      partitionOf: (fairnessKey) => partitionOf(fairnessKey, configuration.partitions),
    };
    const declarations = this.#rollouts?.declarationsOf(node, store);
    if (declarations === undefined) return { node, context: () => context, isBusy: false };
    // As in the functions' composition root.
    let composed: (DispatchContext & IngestContext) | undefined;
    const under = (declared: VersionedDeclaration): DispatchContext & IngestContext => {
      if (composed?.deployed?.version !== declared.version) {
        composed = {
          ...context,
          ...declaredParts(declarations, declared, () => queue),
          caches: new Map(),
          partitionOf: (fairnessKey) => partitionOf(fairnessKey, declared.configuration.partitions),
          newest: async () => under(await declarations.current(DECLARATION_AGAIN_MS)),
        };
      }
      return composed;
    };
    return { node, context: async () => under(await declarations.current()), isBusy: false };
  }

  /** Runs a function in a container, up to its time limit. Answers whether it returned. */
  async #invoke(
    kind: string,
    what: string,
    run: (context: DispatchContext & IngestContext) => Promise<boolean>,
  ): Promise<boolean> {
    const container = this.#container(kind);
    const { node } = container;
    container.isBusy = true;
    this.#busyCount += 1;
    this.#busyRound += 1;
    this.trace(`${this.time.nowMs} ${node.name} begins ${what}`);
    let isOver = false;
    const died = new Promise<boolean>((resolve) => node.onDeath(() => resolve(false)));
    this.time.after(FUNCTION_TIMEOUT_MS, () => {
      if (!isOver) node.kill();
    });
    // At any moment of its time, also while a request is under way.
    const moment = `${node.name}/${this.#busyRound}`;
    if (this.faults.happens('functionEnds', moment, 10)) {
      const most = CALLS_OF_A_PASS * this.plan.latencyMaxMs;
      this.time.after(this.faults.randomOf(`${moment}/ends`)() * most, () => {
        if (!isOver) node.kill();
      });
    }
    const context = container.context();
    const ran = (context instanceof Promise ? context.then(run) : run(context)).catch((error: unknown) => {
      this.trace(`${this.time.nowMs} ${node.name} fails ${what}: ${String(error)}`);
      if (!isExpected(error)) this.#onBug(`${what} threw ${String(error)}`);
      return false;
    });
    const isDone = await Promise.race([ran, died]);
    isOver = true;
    container.isBusy = false;
    this.#busyCount -= 1;
    this.#lookForLeftBehind();
    return isDone;
  }

  /** A while after the last function has ended, unless another began meanwhile. */
  #lookForLeftBehind(): void {
    const round = this.#busyRound;
    const { residents } = this.plan;
    // Until their next look, and what they look for again a little later.
    const hearsMs =
      residents.length === 0 ? 0 : QUIET_MS + Math.max(...residents.map(({ pollMs }) => pollMs));
    this.time.after(QUIET_MS + hearsMs, () => {
      const isQuiet = this.#busyCount === 0 && this.#busyRound === round && this.#stream.length === 0;
      if (!isQuiet || !this.#isCalm || this.plan.endless) return;
      this.invariants.requireNothingLeftBehind(this.time.nowMs - QUIET_MS);
      this.invariants.requireLettersRead();
    });
  }

  /** Whoever sleeps until a job's time, or is woken then, sees that it is due: long before the next tick may. */
  #expectDue({ id, version, runAtMs }: Job): void {
    const pollMs = Math.max(0, ...this.plan.residents.map((resident) => resident.pollMs));
    this.time.after(runAtMs - this.time.nowMs + DUE_LATE_MS + pollMs, () => this.#requireNotDue(id, version));
  }

  /** A process is gone: what it ran is taken from it when its lease, and what clocks may differ, is over. */
  #expectTaken(node: string): void {
    const { skewMaxMs, latencyMaxMs } = this.plan;
    const goneAtMs = this.time.nowMs;
    const passMs = PASS_MS + CALLS_OF_A_PASS * latencyMaxMs;
    if (!this.#isHarmless) return;
    const takenInMs = WORKER_LEASE_MS + CLOCK_SKEW_MAX_MS + 2 * skewMaxMs + passMs;
    this.#lastGoneAtMs = goneAtMs;
    for (const { claimId, jobId } of this.invariants.heldBy(node)) {
      this.time.after(takenInMs, () => this.invariants.requireTaken(claimId, node, goneAtMs));
      // Its message may go to one that dies next.
      this.time.after(takenInMs + STARTED_MS, () => {
        if (this.#rollouts !== undefined || !this.#hasFreeSlot()) return;
        const look = (wasIdle: boolean): void => {
          if (this.#lastGoneAtMs !== goneAtMs || !this.#hasFreeSlot()) return;
          // It runs apart: it waits for what runs, and begins soon after the end of that.
          const isIdle = !this.invariants.runsBeside(jobId);
          if (isIdle && wasIdle) this.invariants.requireStarted(jobId, node);
          else this.time.after(RECEIVED_MS, () => look(isIdle));
        };
        this.time.after(RECEIVED_MS, () => look(!this.invariants.runsBeside(jobId)));
      });
    }
  }

  /** A process that lives has one. What was claimed may have counted on a slot of one that had just died. */
  #hasFreeSlot(): boolean {
    return [...this.#processes].some(
      ([name, { slots }]) =>
        this.#nodes.get(name)?.isAlive === true && this.invariants.heldBy(name).length < slots,
    );
  }

  /** A function dies: its message tells it when it comes again. */
  #expectGivenUp(node: SimulatedNode, claimId: string, endsAtMs: number): void {
    const { skewMaxMs, latencyMaxMs } = this.plan;
    if (!this.#isHarmless) return;
    node.onDeath(() => {
      const goneAtMs = this.time.nowMs;
      const leftMs = endsAtMs - goneAtMs + FUNCTION_LOST_MS + 2 * skewMaxMs + CALLS_OF_A_PASS * latencyMaxMs;
      this.time.after(leftMs, () => this.invariants.requireTaken(claimId, node.name, goneAtMs));
    });
  }

  /** A pass that is under way has read what was due before it began: the next one sees the others. */
  #requireNotDue(id: string, version: number): void {
    if (!this.#isCalm || this.plan.endless) return;
    const round = this.#busyRound;
    this.time.after(QUIET_MS, () => {
      if (this.#busyCount === 0 && this.#busyRound === round) this.invariants.requireNotDue(id, version);
      else if (this.invariants.isScheduled(id, version)) this.#requireNotDue(id, version);
    });
  }

  /** Nothing has failed for a while. */
  get #isCalm(): boolean {
    const { redeploys, faultsUntilMs } = this.plan;
    if (redeploys !== undefined && this.time.nowMs < this.invariants.versions.atMs + ROLLED_OUT_MS)
      return false;
    return this.#isHarmless || this.time.nowMs > START_MS + faultsUntilMs + AFTERMATH_MS;
  }

  /** A dispatcher that runs on looks for letters. If it did so before, and made no pass since, it was done by then. */
  #onLook(node: Caller, partition: number): void {
    const name = `${node.name}/${partition}`;
    const looks = (this.#looked.get(name) ?? 0) + 1;
    this.#looked.set(name, looks);
    if (looks === 2) this.invariants.onDone(node.name, partition);
  }

  #onBug(what: string): void {
    this.#unhandled += 1;
    this.invariants.violations.push({ invariant: '0 no unexpected error', atMs: this.time.nowMs, what });
  }

  // Submitting

  #ask(at: number, job: PlannedJob): void {
    if (job.via === 'bus') {
      this.#takeIn(`request-${at}`, { id: `event-${at}`, detail: requestOf(job, at, START_MS) }, 1);
    } else this.#users.submit(job, at);
  }

  /** Events of many jobs: each comes with its first. */
  #askTogether(eventJobs: number): void {
    const { jobs } = this.plan;
    for (let from = 0; from < jobs.length; from += eventJobs) {
      const together = jobs.slice(from, from + eventJobs);
      const detail = { jobs: together.map((job, at) => requestOf(job, from + at, START_MS)) };
      this.time.after(together[0]?.askedAtMs ?? 0, () =>
        this.#takeIn(`requests-${from}`, { id: `event-${from}`, detail }, 1),
      );
    }
  }

  #takeIn(messageId: string, event: object, tries: number): void {
    void this.#invoke('ingest', `${messageId} try ${tries}`, async (context) => {
      const report = await ingest(context, [{ messageId, body: JSON.stringify(event) }]);
      if (report.rejected > 0) this.#askAgain(messageId, event);
      if (report.created.length > 0) {
        await dispatchAll(context, { jobs: report.created, reason: 'ingest' }).then(
          () => this.invariants.onTold(report.created),
          (error: unknown) => {
            if (!isExpected(error)) throw error;
          },
        );
      }
      return report.failedMessageIds.length === 0 || this.#options.sabotage?.forgetsFailures === true;
    }).then((isDone) => {
      if (!isDone) this.time.after(REDELIVER_MS, () => this.#takeIn(messageId, event, tries + 1));
    });
  }

  /** A type was not known, or too many jobs waited: whoever asked does so again, as long as it takes. */
  #askAgain(messageId: string, event: object): void {
    const { detail } = event as { readonly detail: Pick<PlannedJob, 'type' | 'units'> };
    if (detail.type === 'nobody knows') return;
    if (this.#rollouts !== undefined) {
      this.faults.count('typeUnknown');
      this.invariants.requireRefusable(detail);
    } else this.invariants.requireBounded(detail.type);
    this.time.after(ASKS_AGAIN_MS, () => this.#takeIn(messageId, event, 1));
  }

  // Dispatch

  #dispatch(trigger: WakeTrigger, what: string): Promise<boolean> {
    return this.#invoke('dispatch', what, async (context) => {
      if (trigger.reason !== 'stream') {
        await dispatchAll(context, trigger);
        return true;
      }
      // Nobody competes: asked for all the same.
      const [first] = trigger.jobs;
      if (first !== undefined && this.faults.happens('functionLeads', `${what}/${this.#busyRound}`, 10))
        this.#askToLead(first.partition);
      const [published, passed] = await Promise.allSettled([
        publishOutcomes(context.events, trigger.jobs),
        dispatchAll(context, trigger),
      ]);
      if (published.status === 'rejected') throw published.reason;
      if (passed.status === 'rejected') throw passed.reason;
      return true;
    });
  }

  #tick(count: number): void {
    this.time.after(TICK_MS, () => {
      this.#tick(count + 1);
      if (this.faults.happens('tickMissing', `tick-${count}`, 10)) return;
      const copies = this.faults.happens('tickDoubled', `tick-${count}`, 10) ? 2 : 1;
      for (let copy = 0; copy < copies; copy += 1)
        void this.#dispatch({ jobs: [], reason: 'tick' }, `tick-${count}`);
    });
  }

  watchHints(): void {
    this.store.subscribe(({ newJob }) => {
      if (!AWAITED.has(newJob.state)) return;
      this.#stream.push(newJob);
      this.#armStream();
    });
    this.queue.onWake((partition, dueAtMs, jobIds) =>
      this.#wake({ partition, asks: 'pass', dueAtMs, jobIds }, 1),
    );
    this.queue.onLook((partition, atMs) => this.#look(partition, atMs, 1));
  }

  #wake(wake: PassWake, tries: number): void {
    for (const trigger of triggersOf([wake])) {
      void this.#dispatch(trigger, `${trigger.reason} of ${wake.partition}`).then((isDone) => {
        if (!isDone && tries < 5) this.time.after(REDELIVER_MS, () => this.#wake(wake, tries + 1));
      });
    }
  }

  /** Asked once, it may be invoked twice, or never. */
  #askToLead(partition: number): void {
    this.#leads += 1;
    const name = `lead-${this.#leads}`;
    const copies = this.faults.happens('messageDuplicated', name)
      ? 2
      : this.faults.happens('messageLost', name)
        ? 0
        : 1;
    for (let copy = 0; copy < copies; copy += 1) {
      void this.#invoke('dispatch', `${name} of ${partition}`, async (context) => {
        await leadWhileBusy(context, partition);
        return true;
      });
    }
  }

  #look(partition: number, atMs: number, tries: number): void {
    void this.#invoke('dispatch', `look at ${partition}`, async (context) => {
      await lookAtWorkers(context, partition, atMs);
      return true;
    }).then((isDone) => {
      if (!isDone && tries < 5) this.time.after(REDELIVER_MS, () => this.#look(partition, atMs, tries + 1));
    });
  }

  #armStream(): void {
    if (this.#streamArmed) return;
    this.#streamArmed = true;
    this.time.after(this.plan.latencyMaxMs, () => {
      const batch = this.#stream.splice(0, STREAM_BATCH_MAX);
      void this.#deliver(batch, 1);
    });
  }

  /** A shard is read in order: the next batch waits for this one. */
  async #deliver(batch: readonly Job[], tries: number): Promise<void> {
    const isDone = await this.#dispatch({ jobs: batch, reason: 'stream' }, `stream of ${batch.length}`);
    if (isDone) this.invariants.onTold(batch);
    if (!isDone && tries === STREAM_TRIES_MAX) this.invariants.giveUpOutcomes();
    if (!isDone && tries < STREAM_TRIES_MAX) {
      this.time.after(STREAM_RETRY_MS, () => void this.#deliver(batch, tries + 1));
      return;
    }
    this.#streamArmed = false;
    if (this.#stream.length > 0) this.#armStream();
  }

  // Workers

  /** One slot of the queue's poller: it waits for a message, and runs a worker function for it. */
  async #poll(fleet: string, poller: number, generation?: Generation): Promise<void> {
    const { types } = generation?.configuration ?? this.plan.configuration;
    const timeoutMs = Math.max(...types.map((each) => each.timeoutMs)) + WORKER_MARGIN_MS;
    const end = generation?.retires(`poller-${fleet}-${poller}`);
    while (end?.aborted !== true) {
      const [received] = await this.queue.receive(fleet, 1, 3_600_000, timeoutMs + BEHIND_FUNCTION_MS, end);
      if (received !== undefined) await this.#runWorker(fleet, poller, received, timeoutMs, generation);
    }
  }

  async #runWorker(
    fleet: string,
    poller: number,
    received: ReceivedMessage,
    timeoutMs: number,
    generation: Generation | undefined,
  ): Promise<void> {
    const node = this.#node(`worker-${fleet}-${poller}`);
    const endsAtMs = this.time.nowMs + timeoutMs;
    const died = new Promise<undefined>((resolve) => node.onDeath(() => resolve(undefined)));
    this.time.after(timeoutMs, () => node.kill());
    this.#functionEnds.set(node.name, endsAtMs);
    const { thread } = node;
    const store = this.reach(thread);
    const parts = {
      store,
      configuration: this.plan.configuration,
      clock: thread.clock,
      random: this.faults.randomOf(`${node.name}/random`),
      log: {
        info: () => {},
        warn: (message: string) => this.trace(`${this.time.nowMs} ${node.name} warns ${message}`),
        error: (message: string) => this.trace(`${this.time.nowMs} ${node.name} reports ${message}`),
      },
      exit: () => node.kill(),
    };
    const handler = lambdaWorker(
      generation === undefined
        ? () => parts
        : async () => ({ ...parts, ...(await this.#termsFor(node, store, generation)) }),
      this.#handlers(node, generation, fleet),
    );
    const event = {
      Records: [{ messageId: received.receipt, body: encodeDispatchMessage(received.jobs) }],
    } as unknown as SQSEvent;
    const lambda = {
      functionName: fleet,
      awsRequestId: node.name,
      getRemainingTimeInMillis: () => Math.max(0, endsAtMs - this.time.nowMs),
    } as Context;
    const answered = handler(event, lambda).catch((error: unknown) => {
      // What is declared could not be read.
      if (!isExpected(error)) this.#onBug(`${node.name} threw ${String(error)}`);
      return undefined;
    });
    const response = await Promise.race([answered, died]);
    if (response?.batchItemFailures.length === 0) await this.queue.delete(fleet, [received.receipt]);
    node.kill();
    this.#functionEnds.delete(node.name);
  }

  /** What a worker of a deployment knows: what it read when it began, which may be newer than its handlers. */
  async #termsFor(
    node: SimulatedNode,
    store: JobStore,
    { version: least }: Generation,
  ): Promise<Pick<WorkerParts, 'configuration' | 'declared' | 'declaredAtMs' | 'typeUnder'>> {
    const declarations = this.#rollouts?.rememberedBy(node, store, least);
    if (declarations === undefined) throw new RangeError('nothing is declared');
    const { configuration, version, declaredAtMs } = await declarations.current();
    return {
      configuration,
      declared: version,
      declaredAtMs,
      typeUnder: async (under, type) => {
        const terms = termsOn(node, under, type);
        this.#unread.add(terms);
        const found = await declarations.typeUnder(under, type);
        this.#unread.delete(terms);
        return found;
      },
    };
  }

  /** A life of a long-running worker; when it is over, the next one begins. */
  #runProcess(process: PlannedProcess, generation?: Generation): void {
    const node = this.#node(`process-${process.workerId}`);
    const { thread } = node;
    const retires = generation?.retires('');
    const shutdown = new AbortController();
    const shutDown = (): void => shutdown.abort();
    retires?.addEventListener('abort', shutDown);
    const again = (): void => {
      node.kill();
      retires?.removeEventListener('abort', shutDown);
      if (retires?.aborted === true) return;
      const dice = diceOf(this.faults.randomOf(`${node.name}/again`));
      // Under its old name, or another that nobody has heard of.
      const workerId = dice.chance(0.7) ? process.workerId : `${process.workerId}'`;
      this.time.after(dice.between(0, 20_000), () => {
        if (retires?.aborted !== true) this.#runProcess({ ...process, workerId }, generation);
      });
    };
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      this.#expectTaken(node.name);
      this.invariants.release(node.name);
      // Its other life goes on in its stead.
      if (!this.#doubled.has(node.name)) again();
      else {
        node.kill();
        retires?.removeEventListener('abort', shutDown);
      }
    };
    node.onDeath(end);
    this.#processes.set(node.name, { ...process, generation });
    this.#shutdowns.set(node.name, shutdown);
    const trace = (message: string): void => this.trace(`${this.time.nowMs} ${node.name} ${message}`);
    const store = this.reach(thread);
    const options = {
      store,
      queue: faultyQueue(this.#network, thread, this.queue),
      configuration: this.plan.configuration,
      clock: thread.clock,
      random: this.faults.randomOf(`${node.name}/random`),
      log: { info: trace, warn: trace, error: trace },
      fleet: process.fleet,
      slots: process.slots,
      rests: new Map<string, number>(),
      workerId: process.workerId,
      handlers: this.#handlers(node, generation, process.fleet),
      signal: shutdown.signal,
      exit: () => node.kill(),
      // Beside the handlers' thread, which may be busy.
      guard: guardInSameThread({
        store: this.reach(node),
        clock: node.clock,
        log: { info: trace, warn: trace, error: trace },
        kill: () => node.kill(),
      }),
    };
    const ended =
      generation === undefined
        ? runWorker(options)
        : this.#termsFor(node, store, generation).then((terms) => runWorker({ ...options, ...terms }));
    ended.then(end, (error: unknown) => {
      // Its fleet, or its handlers, are not what is declared by now: it is about to be replaced.
      const isOutdated = generation !== undefined && nameOf(error) === 'ConfigurationError';
      if (!isExpected(error) && !isOutdated) this.#onBug(`${node.name} threw ${String(error)}`);
      end();
    });
  }

  /** A life of a dispatcher that runs on; when it is over, the next one begins. */
  #runResident(resident: PlannedResident): void {
    const { dispatcherId, pollMs } = resident;
    const node = this.#node(`resident-${dispatcherId}`);
    const { budget } = this.plan;
    const shutdown = new AbortController();
    let isOver = false;
    const end = (): void => {
      if (isOver) return;
      isOver = true;
      node.kill();
      this.#residents.delete(node.name);
      // Its other life goes on in its stead.
      if (this.#doubled.has(node.name)) return;
      const dice = diceOf(this.faults.randomOf(`${node.name}/again`));
      this.time.after(dice.between(0, 20_000), () => this.#runResident(resident));
    };
    node.onDeath(end);
    this.#residents.set(node.name, resident);
    this.#shutdowns.set(node.name, shutdown);
    let bornAtMs = Infinity;
    /** By the instant that names this life. */
    const run = (own: ResidentOptions): ReturnType<typeof runDispatcher> => {
      // Of two lives that begin in one millisecond, either may be the later one.
      bornAtMs = Math.floor(node.clock.nowMs());
      this.#lives.set(dispatcherId, [...(this.#lives.get(dispatcherId) ?? []), bornAtMs]);
      return runDispatcher(own);
    };
    const trace = (message: string): void => this.trace(`${this.time.nowMs} ${node.name} ${message}`);
    const store = this.reach(node);
    const queue = faultyQueue(this.#network, node, this.queue);
    const options: ResidentOptions = {
      store,
      queue,
      configuration: this.plan.configuration,
      clock: node.clock,
      random: this.faults.randomOf(`${node.name}/random`),
      log: { info: trace, warn: trace, error: trace },
      dispatcherId,
      budget,
      pollMs,
      signal: shutdown.signal,
    };
    const declarations = this.#rollouts?.declarationsOf(node, store);
    const ended =
      declarations === undefined
        ? run(options)
        : declarations
            .current()
            .then((declared) => run({ ...options, ...declaredParts(declarations, declared, () => queue) }));
    ended.then(
      (report) => {
        if (report.end === 'superseded') {
          const born = this.#lives.get(dispatcherId) ?? [];
          this.invariants.onSuperseded(node.name, born.filter((atMs) => atMs >= bornAtMs).length > 1);
        }
        end();
      },
      (error: unknown) => {
        if (!isExpected(error)) this.#onBug(`${node.name} threw ${String(error)}`);
        end();
      },
    );
  }

  /** Of each type that its fleet takes, as it was deployed. */
  #handlers(node: SimulatedNode, generation: Generation | undefined, fleet: string): JobHandlers {
    const { types, fleets } = generation?.configuration ?? this.plan.configuration;
    const names =
      generation === undefined
        ? types.map(({ type }) => type)
        : (fleets.find((each) => each.fleet === fleet)?.types ?? []);
    return Object.fromEntries(
      names.map((type) => [
        type,
        (payload: Json, context: JobContext) => this.#handle(node, payload, context),
      ]),
    );
  }

  /** The user's code: it works for a while, and may fail, hang, or be cut off with its process. */
  async #handle(node: SimulatedNode, payload: Json, context: JobContext): Promise<Json | ParkedJob> {
    const { at } = payload as { readonly at: number };
    const planned = this.#planned.get(at);
    const job = this.store.inspectJob(context.jobId);
    if (planned === undefined || job === undefined) throw new Error(`nobody asked for ${context.jobId}`);
    const execution: Execution = { job, node: node.name };
    const name = `${context.jobId}/${context.attempt}/${job.workersLost}`;
    this.trace(`${this.time.nowMs} ${node.name} runs ${context.jobId}`);
    this.invariants.begin(execution);
    if (job.claim !== undefined && this.#processes.has(node.name)) {
      this.invariants.hold(job.claim.claimId, node.name);
    }
    let isOver = false;
    const end = (): void => this.invariants.end(execution);
    node.onDeath(() => {
      isOver = true;
      end();
    });
    const endsAtMs = this.#functionEnds.get(node.name);
    if (endsAtMs !== undefined && job.claim !== undefined)
      this.#expectGivenUp(node, job.claim.claimId, endsAtMs);
    // What is frozen counts as running until its lease has passed: then others may have its jobs, and it does nothing. When
    // it thaws, its guard has a moment to see that.
    node.onLongFreeze(
      (thawsAtMs) => {
        const endsAtMs = this.invariants.leaseEndOf(execution) - node.skewMs - CLOCK_SKEW_MAX_MS;
        if (endsAtMs >= thawsAtMs) return;
        this.time.after(endsAtMs - this.time.nowMs, () => {
          if (node.isFrozen) end();
        });
      },
      () => {
        if (!isOver) this.invariants.goOn(execution);
      },
    );
    this.#expectTimed(execution, node, context, () => isOver);
    const { clock } = node.thread;
    try {
      if (this.faults.happens('handlerBusy', name, 10)) {
        node.busy(BUSY_MS);
        await clock.sleep(0);
      }
      if (this.faults.happens('handlerHangs', name, 3)) {
        await new Promise<never>(() => {});
      }
      const signal = planned.heeds ? context.signal : undefined;
      const { waits } = planned;
      if (waits === 'parked' && context.parkedState === undefined)
        return context.park({ until: PARKED_FOR, state: { at }, releaseConflict: true });
      if (waits === 'parked') this.invariants.onParkedState(context.jobId, context.parkedState, { at });
      if (waits !== undefined && waits !== 'parked' && !this.#rested.has(context.jobId)) {
        this.#rested.add(context.jobId);
        throw new CooldownError(RESTS_FOR, waits === 'key' ? { key: true } : {});
      }
      if (planned.steps) await this.#takeSteps(context, planned.durationMs / 10, clock, signal);
      if (planned.checkpoints) {
        context.heartbeat({ at });
        await clock.sleep(planned.durationMs / 2, signal);
        await context.checkpoint({ at, by: context.fencingToken });
        await clock.sleep(planned.durationMs / 2, signal);
      } else await clock.sleep(planned.durationMs, signal);
      if (signal?.aborted) throw new Error('aborted');
      if (planned.fails || this.faults.happens('handlerThrows', name, 20))
        throw new Error(`the handler threw, ${SIGNATURE}${context.fencingToken}`);
      return { at, by: context.fencingToken };
    } finally {
      // Not by `finally` alone: what is dead never gets here.
      isOver = true;
      end();
    }
  }

  /** One step, then two side by side, and the first once more: of each, every attempt is given the same value. */
  async #takeSteps(
    { id, step, fencingToken }: JobContext,
    durationMs: number,
    clock: Clock,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const take = async (name: string): Promise<void> => {
      const value = await step(name, async () => {
        this.invariants.onStep(id, name);
        await clock.sleep(durationMs, signal);
        return { name, by: fencingToken };
      });
      this.invariants.onStepValue(id, name, value);
    };
    await take('first');
    await Promise.all([take('left'), take('right')]);
    await take('first');
  }

  /** An attempt has the time that its type had when it was claimed: no less, and, with what its end takes, no more. */
  #expectTimed(
    execution: Execution,
    node: SimulatedNode,
    { signal }: JobContext,
    isOver: () => boolean,
  ): void {
    const { job } = execution;
    const timeoutMs = this.invariants.versions.typeUnder(job.claim?.declared, job.type)?.timeoutMs;
    if (timeoutMs === undefined) return;
    const beganAtMs = this.time.nowMs;
    const functionEndsAtMs = this.#functionEnds.get(node.name) ?? Number.POSITIVE_INFINITY;
    const stoodMs = node.stoodMs;
    // The stricter of both clocks counts.
    const jumpsMs = this.plan.rates.clockJump > 0 ? 2 * JUMP_MAX_MS : 0;
    const what = (): string =>
      `${job.id} was claimed for ${timeoutMs} ms on ${node.name}, and after ${this.time.nowMs - beganAtMs} ms`;
    signal.addEventListener('abort', () => {
      const ranMs = this.time.nowMs - beganAtMs;
      const isCut = isAttemptError(signal.reason, 'JobTimeout') && ranMs < timeoutMs - TIMING_MS - jumpsMs;
      // A function that is about to end gives what is left of it.
      if (isCut && this.time.nowMs < functionEndsAtMs - FUNCTION_RESERVE_MS)
        this.invariants.violate('declarations', `${what()} was told to stop`);
    });
    // Of terms that its worker could not read nobody can stop it in time: it has what its function or process has left.
    if (this.#unread.has(termsOn(node, job.claim?.declared, job.type))) return;
    // A process whose handler hangs gives its others time to end.
    const endMs = functionEndsAtMs < Infinity ? 0 : PROCESS_ENDS_MS;
    const lastsMs = timeoutMs + STOP_GRACE_MS + KILL_AFTER_MS + TIMING_MS + QUIET_MS + endMs;
    this.time.after(lastsMs, () => {
      // Nobody ends a busy function before its own time is over.
      if (functionEndsAtMs < Infinity && node.isBusy) return;
      // Frozen, or suspended, it did nothing meanwhile.
      if (!isOver() && node.isAlive && node.stoodMs === stoodMs)
        this.invariants.violate('declarations', `${what()} still runs`);
    });
  }

  // The surroundings

  #outages(count: number): void {
    const dice = this.faults.randomOf(`outage-${count}`);
    this.time.after(20_000 + dice() * 100_000, () => {
      if (!this.faults.active) return;
      if (this.faults.happens('storeOutage', `outage-${count}`, 20)) {
        this.#outageUntilMs = Math.max(this.#outageUntilMs, this.time.nowMs + dice() * OUTAGE_MAX_MS);
        this.invariants.onOutage(this.time.nowMs, this.#outageUntilMs);
      }
      this.#outages(count + 1);
    });
  }

  /** Kills and freezes processes from outside, and moves their clocks. */
  #disturb(count: number): void {
    this.time.after(500, () => {
      if (!this.faults.active) return;
      for (const [name, node] of [...this.#nodes]) {
        const moment = `${name}@${count}`;
        if (name.startsWith('process') && this.faults.happens('workerRestarted', moment)) {
          this.#shutdowns.get(name)?.abort();
        }
        const process = this.#processes.get(name);
        if (
          process !== undefined &&
          !this.#doubled.has(name) &&
          this.faults.happens('workerDoubled', moment)
        ) {
          this.#doubled.add(name);
          this.#runProcess(process, process.generation);
        }
        if (name.startsWith('worker') || name.startsWith('process') || name.startsWith('resident')) {
          if (this.faults.happens('machineSuspended', moment))
            node.suspend(this.faults.randomOf(`${moment}/suspended`)() * SUSPENDED_MAX_MS);
        }
        if (name.startsWith('worker') || name.startsWith('process')) {
          if (this.faults.happens('workerKilled', moment)) node.kill();
          else if (this.faults.happens('workerFrozen', moment)) {
            node.freeze(this.faults.randomOf(`${moment}/freeze`)() * 90_000);
          }
        }
        const resident = this.#residents.get(name);
        if (resident !== undefined) this.#disturbResident(name, node, resident, moment);
        if (this.faults.happens('clockJump', moment)) {
          node.skewMs += Math.round((this.faults.randomOf(`${moment}/jump`)() * 2 - 1) * JUMP_MAX_MS);
          node.skewMs = Math.max(-JUMP_MAX_MS, Math.min(JUMP_MAX_MS, node.skewMs));
        }
      }
      this.#disturb(count + 1);
    });
  }

  #disturbResident(name: string, node: SimulatedNode, resident: PlannedResident, moment: string): void {
    if (this.faults.happens('dispatcherRestarted', moment)) this.#shutdowns.get(name)?.abort();
    if (!this.#doubled.has(name) && this.faults.happens('dispatcherDoubled', moment)) {
      this.#doubled.add(name);
      this.#runResident(resident);
    }
    if (this.faults.happens('dispatcherKilled', moment)) node.kill();
    else if (this.faults.happens('dispatcherFrozen', moment)) {
      node.freeze(this.faults.randomOf(`${moment}/freeze`)() * 90_000);
    }
  }
}

/** What a dispatcher remembers of lines is read again after this long, by its own clock. */
const REMEMBERED_MS = 60_000 + 5_000;
/** A round over marks of parked jobs begins as often, with the ticks, and comes to so many. */
const ROUND_MS = 60_000;
const ROUND_MARKS = 100;

/** When a pass knows a job: see `order.ts`. */
function orderBoundsOf(plan: SimulationPlan): OrderBounds {
  const { rates, residents, store, jobs } = plan;
  const lagMs = store.indexLagMs ?? 0;
  const slackMs = QUIET_MS + Math.max(0, ...residents.map(({ pollMs }) => pollMs)) + 2 * JUMP_MAX_MS;
  const freezes =
    rates.frozenBeforeCall + rates.frozenAfterCall + rates.dispatcherFrozen + rates.machineSuspended > 0;
  const rounds = 1 + Math.ceil(new Set(jobs.map(({ resourceId }) => resourceId)).size / ROUND_MARKS);
  const seenMs = REMEMBERED_MS + lagMs + slackMs;
  return {
    toldMs: freezes ? undefined : slackMs + lagMs,
    seenMs,
    parkedMs: seenMs + rounds * (ROUND_MS + TICK_MS) + LATE_MAX_MS,
  };
}

/** How old a count of waiting jobs may be when the job that it let in is stored; undefined: nobody can say. */
function countedWithinMs(plan: SimulationPlan): number | undefined {
  const { rates, latencyMaxMs } = plan;
  const { toldMs } = orderBoundsOf(plan);
  const isLate = rates.appliedLate + rates.requestRepeated > 0 || plan.redeploys !== undefined;
  return toldMs === undefined || isLate
    ? undefined
    : toldMs + COUNTED_FOR_MS + CALLS_OF_SUBMIT * latencyMaxMs;
}

/** A process believes a count for a second, and a little longer for each job. */
const COUNTED_FOR_MS = 1_100;
const CALLS_OF_SUBMIT = 10;

const partitionsOf = (plan: SimulationPlan): readonly number[] => {
  const length = Math.max(...configurationsOf(plan).map(({ partitions }) => partitions));
  return Array.from({ length }, (_, at) => at);
};

/** The most that a clock may be wrong, one way or the other; a worker's lease has room for 5 s between two. */
const JUMP_MAX_MS = 2_400;

const IMITATED: Readonly<Record<string, Parameters<Faults['count']>[0]>> = {
  indexLagMs: 'staleIndex',
  streamLateMs: 'streamLate',
  streamLost: 'streamLost',
  streamDuplicated: 'streamDuplicated',
  ttlLateMs: 'ttlLate',
  'queue.duplicated': 'messageDuplicated',
  'queue.lateMs': 'messageLate',
  'queue.lost': 'messageLost',
  'bus.duplicated': 'eventDuplicated',
};

/** A store whose records of terminal jobs are soon gone. */
const shortLived = (store: JobStore, ttlMs: number): JobStore =>
  instead(store, {
    finishJob: (request) => store.finishJob({ ...request, expiresAtMs: request.nowMs + ttlMs }),
    cancelJob: ({ jobId, nowMs, by }) => store.cancelJob({ jobId, nowMs, expiresAtMs: nowMs + ttlMs, by }),
    expireJobs: (request) => store.expireJobs({ ...request, expiresAtMs: request.nowMs + ttlMs }),
    endUnfinished: (request) => store.endUnfinished({ ...request, expiresAtMs: request.nowMs + ttlMs }),
  });

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : String(error));

/** Errors that the adapters announce: whoever called must bear them. */
const EXPECTED: ReadonlySet<string> = new Set(['ThrottledError', 'UnavailableError', 'StaleCommitError']);

const isExpected = (error: unknown): boolean => error instanceof Error && EXPECTED.has(error.name);

const describe = (job: Job): string =>
  `${job.id.slice(0, 6)} ${job.state} v${job.version} ${job.claim?.claimId ?? ''}`;
