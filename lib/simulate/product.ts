/**
 * Runs a scenario for the product's own configuration (format `fairlead/1`). The product itself runs in memory, under
 * virtual time, and makes all decisions. This file only carries out the scenario's events and reports the result.
 */

import { weightsWithOverrides } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import { resolveConfiguration } from '../core/defaults.ts';
import { ConfigurationError, ValidationError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import type { PoolInput } from '../core/pool-input.ts';
import { rulesOf, type ScheduleSpec } from '../core/recurring.ts';
import { type Fires, firesOf } from '../core/schedule.ts';
import { isDeclared, parseScope, type Scope } from '../core/scope.ts';
import { readCron } from '../cron/croner.ts';
import { LedgerCache } from '../dispatch/view/ledger-cache.ts';
import { openCache } from '../dispatch/view/partition-cache.ts';
import type { WorkerLease } from '../local/scheduler.ts';
import type { EstimateRecord } from '../store/contract/records.ts';
import type { StoreEvent } from '../store/memory/imitation/imitation.ts';
import { type JobRequest, jobFrom, parseRequests } from '../submit/request.ts';
import { LEASE_MARGIN_MS } from '../worker/membership.ts';
import { LEASE_MAX_MS } from '../worker/process/options.ts';
import { Agenda } from './agenda.ts';
import type { Run } from './fairness.ts';
import { SimulatedPool, type Work } from './pool.ts';
import type {
  ProductEvent,
  ProductJob,
  ProductScenario,
  ProductSchedule,
  ProductWorker,
} from './product-scenario.ts';
import { type Attempt, type FleetUse, type Share, SimulationRecord } from './record.ts';
import { pathOf, refuseDuplicates } from './scenario-file.ts';
import { neverFires, specOf } from './scenario-schedule.ts';

export type { Attempt } from './record.ts';

export interface ProductResult {
  readonly attempts: readonly Attempt[];
  readonly keys: Readonly<Record<string, Share & { readonly costMs: number; readonly weight: number }>>;
  readonly types: Readonly<Record<string, Share & { readonly peak: number }>>;
  readonly fleets: Readonly<Record<string, FleetUse>>;
  readonly peak: number;
  readonly estimates: readonly (readonly [type: string, resourceId: string, meanMs: number])[];
  /** Jobs that wait when the scenario ends, by id, at most `MOST_LISTED`. */
  readonly waiting: readonly string[];
}

/** The most starts of a scenario. More indicate a mistake, such as endless retries without a delay. */
const MOST_STARTS = 1_000_000;
const MOST_JOBS = 200_000;
const MOST_LISTED = 100;
/** Candidates for the time between heartbeats, at least one every 5 s. A minute is a whole number of each. */
const HEARTBEAT_CHOICES_MS = [5_000, 2_000, 1_000, 500, 200, 100] as const;
/**
 * Returns when the scenario begins, in epoch ms. Ledgers are reset when the clock shows a multiple of `resetEveryMs`,
 * so the scenario begins at one. With schedules, whose times depend on the clock, it begins at `startsAt`.
 */
const startEpochMs = (startsAtMs: number, { fairness }: PoolConfiguration, hasSchedules: boolean): number =>
  fairness.resetEveryMs === null || hasSchedules
    ? startsAtMs
    : Math.ceil(startsAtMs / fairness.resetEveryMs) * fairness.resetEveryMs;

/** The behaviour of a job's attempts. */
type Plan = Pick<ProductJob, 'durationMs' | 'failures'>;

type AgendaEntry =
  | { readonly kind: 'event'; readonly event: ProductEvent }
  | { readonly kind: 'join'; readonly worker: ProductWorker }
  | { readonly kind: 'vanish'; readonly worker: ProductWorker }
  | { readonly kind: 'submit'; readonly id: string; readonly request: JobRequest }
  | { readonly kind: 'due'; readonly id: string }
  /** A schedule is due. A pass must look at it. */
  | { readonly kind: 'look'; readonly schedule: string };

/**
 * The order within an instant: operators and workers, then producers, then the clock. Jobs that end come after these,
 * and passes last.
 */
const RANKS: Readonly<Record<AgendaEntry['kind'], number>> = {
  event: 0,
  join: 1,
  vanish: 1,
  submit: 2,
  due: 3,
  look: 3,
};

/**
 * Runs a scenario.
 * @throws ValidationError with a path that begins with `path`, the scenario's.
 */
export async function simulateProduct(
  scenario: ProductScenario,
  path: string,
): Promise<{ readonly result: ProductResult; readonly runs: readonly Run[] }> {
  return new Simulation(scenario, path).run();
}

interface PlannedSchedule {
  readonly id: string;
  readonly spec: ScheduleSpec;
  readonly work: Plan;
  /** Number of jobs that it has made. */
  fired: number;
}

class Simulation {
  readonly #scenario: ProductScenario;
  readonly #path: string;
  readonly #configuration: PoolConfiguration;
  readonly #agenda = new Agenda<AgendaEntry>();
  /** Epoch ms of the scenario's instant 0, for schedules and for the pool's clock. */
  readonly #startsAtMs: number;
  readonly #startEpochMs: number;
  readonly #pool: SimulatedPool;
  readonly #record: SimulationRecord;
  readonly #plans = new Map<string, Plan>();
  readonly #schedules = new Map<string, PlannedSchedule>();
  /** The scenario's names of schedules' jobs, by their ids in the product. */
  readonly #nameOf = new Map<string, string>();
  /** The ids of schedules' jobs in the product, by the scenario's names. */
  readonly #idOf = new Map<string, string>();

  constructor(scenario: ProductScenario, path: string) {
    const { seed, startsAt, untilMs, schedules } = scenario;
    this.#scenario = scenario;
    this.#path = path;
    const configuration = configurationOf(scenario.configuration, path);
    this.#configuration = configuration;
    this.#startsAtMs = Date.parse(startsAt);
    this.#startEpochMs = startEpochMs(this.#startsAtMs, configuration, schedules.length > 0);
    this.#record = new SimulationRecord({
      nowMs: () => this.#nowMs,
      startEpochMs: this.#startEpochMs,
      untilMs,
      startsMax: MOST_STARTS,
      onTooManyStarts: () =>
        this.#pool.fail(new ValidationError(path, `makes more than ${MOST_STARTS} starts`)),
    });
    this.#pool = new SimulatedPool({
      configuration,
      startMs: this.#startEpochMs,
      seed,
      workerLease: workerLeaseOf(scenario.leaseMs, path),
      workOf: (jobId, attempt) => this.#workOf(jobId, attempt),
      observe: this.#observe,
      onScheduled: ({ id, runAtMs }) => this.#add(runAtMs - this.#startEpochMs, { kind: 'due', id }),
    });
    for (const { fleet, slots } of configuration.fleets) this.#record.addSlots(fleet, slots ?? 0);
    this.#planJobs();
    this.#planSchedules();
    this.#planWorkers();
    this.#planEvents();
  }

  async run(): Promise<{ readonly result: ProductResult; readonly runs: readonly Run[] }> {
    const { untilMs } = this.#scenario;
    for (const { id, spec } of this.#schedules.values())
      await this.#pool.putSchedule(id, spec, this.#startEpochMs - 1);
    for (;;) {
      const poolMs = (this.#pool.time.nextAtMs ?? Infinity) - this.#startEpochMs;
      const nowMs = Math.min(this.#agenda.nextMs, poolMs);
      if (nowMs > untilMs) break;
      this.#pool.time.moveTo(this.#startEpochMs + nowMs);
      const isPoolConcerned = await this.#carryOutAt(nowMs);
      if (!isPoolConcerned && poolMs > nowMs) continue;
      await this.#pool.act();
      const nextMs = Math.min(this.#agenda.nextMs, untilMs);
      this.#pool.skipIdle(this.#startEpochMs + nextMs, this.#record.hasOpenJobs);
    }
    this.#pool.time.moveTo(this.#startEpochMs + untilMs);
    return this.#report();
  }

  get #nowMs(): number {
    return this.#pool.time.nowMs - this.#startEpochMs;
  }

  #planJobs(): void {
    const used = new Set<string>();
    let number = 0;
    this.#scenario.jobs.forEach((job, index) => {
      const path = `${this.#path}.jobs[${index}]`;
      const request = this.#requestOf(job, path);
      const { count, everyMs } = job.repeat ?? { count: 1, everyMs: 0 };
      for (let copy = 0; copy < count; copy += 1) {
        number += 1;
        if (number > MOST_JOBS) throw new ValidationError(path, `makes more than ${MOST_JOBS} jobs`);
        const base = job.id ?? `${job.type}-${number}`;
        const id = job.id !== undefined && job.repeat !== undefined ? `${base}-${copy + 1}` : base;
        if (used.has(id)) throw new ValidationError(`${path}.id`, `${id} is used twice`);
        used.add(id);
        this.#plans.set(id, job);
        const runAtMs = job.runAtMs === undefined ? undefined : this.#startEpochMs + job.runAtMs;
        this.#add(job.atMs + copy * everyMs, { kind: 'submit', id, request: { ...request, runAtMs } });
      }
    });
  }

  /** Checks a job with the rules for producers' requests. */
  #requestOf(job: ProductSchedule['job'], path: string): JobRequest {
    const { type, priority, mode, fairnessKey, resourceId, keys, units } = job;
    if (!this.#configuration.types.some((known) => known.type === type)) {
      const known = this.#configuration.types.slice(0, 10).map((each) => each.type);
      throw new ValidationError(
        `${path}.type`,
        `${type} is not a type of the configuration (${known.join(', ')})`,
      );
    }
    const asked = {
      type,
      priority,
      mode,
      fairnessKey,
      ...(resourceId === undefined ? {} : { resourceId }),
      ...(keys === undefined ? {} : { keys }),
      ...(units === undefined ? {} : { units }),
    };
    const { accepted, refused } = parseRequests(asked, this.#configuration);
    const [refusal] = refused;
    if (refusal !== undefined) throw new ValidationError(`${path}.${refusal.field}`, refusal.reason);
    const [entry] = accepted;
    if (entry === undefined) throw new ValidationError(path, 'requests no job');
    return entry.request;
  }

  #planSchedules(): void {
    const { schedules } = this.#scenario;
    refuseDuplicates(
      schedules.map(({ id }) => id),
      `${this.#path}.schedules`,
      'id',
    );
    let left = MOST_JOBS;
    schedules.forEach((schedule, index) => {
      const path = `${this.#path}.schedules[${index}]`;
      const request = this.#requestOf(schedule.job, `${path}.job`);
      const spec = withPath(path, () => specOf(schedule, request, this.#startsAtMs));
      const fires = withPath(path, () => firesOf(rulesOf(spec, this.#startsAtMs), readCron));
      // planted: never-fires-in-simulate
      if (fires.next(this.#startsAtMs - 1) === undefined)
        throw new ValidationError(`${path}.schedule`, neverFires(schedule));
      left -= this.#countFires(fires, left);
      this.#schedules.set(schedule.id, { id: schedule.id, spec, work: schedule.job, fired: 0 });
    });
  }

  /** Counts the firings until the scenario ends. @throws ValidationError if there are more than `left` */
  #countFires(fires: Fires, left: number): number {
    const untilMs = this.#startsAtMs + this.#scenario.untilMs;
    let count = 0;
    for (let at = fires.next(this.#startsAtMs - 1); at !== undefined && at <= untilMs; at = fires.next(at)) {
      count += 1;
      if (count > left) throw new ValidationError(this.#path, `fires more than ${MOST_JOBS} times`);
    }
    return count;
  }

  #planWorkers(): void {
    const { workers } = this.#scenario;
    refuseDuplicates(
      workers.map(({ worker }) => worker),
      `${this.#path}.workers`,
      'worker',
    );
    workers.forEach((worker, index) => {
      const path = `${this.#path}.workers[${index}]`;
      const fleet = this.#configuration.fleets.find((each) => each.fleet === worker.fleet);
      if (fleet === undefined)
        throw new ValidationError(`${path}.fleet`, `${worker.fleet} is not a fleet of the configuration`);
      if (worker.lostAtMs !== undefined && worker.lostAtMs <= worker.fromMs) {
        throw new ValidationError(`${path}.lostAtMs`, 'must be after fromMs');
      }
      if (fleet.slots !== null) {
        throw new ValidationError(
          `${path}.fleet`,
          `${worker.fleet} declares ${fleet.slots} slots for functions; workers register with fleets without slots`,
        );
      }
      this.#add(worker.fromMs, { kind: 'join', worker });
      if (worker.lostAtMs !== undefined) this.#add(worker.lostAtMs, { kind: 'vanish', worker });
    });
  }

  /** Returns the scope of a text; undefined if the text is not a scope, or names something that is not declared. */
  #scopeIn(text: string): Scope | undefined {
    const scope = parseScope(text);
    return scope !== undefined && isDeclared(scope, this.#configuration) ? scope : undefined;
  }

  #planEvents(): void {
    this.#scenario.events.forEach((event, index) => {
      const path = `${this.#path}.events[${index}].scope`;
      if (event.op === 'override' && this.#scopeIn(event.scope) === undefined) {
        throw new ValidationError(
          path,
          `${event.scope} is not a scope of the configuration: use pool, tier/<tier>, type/<type>, fleet/<fleet>, key/<key>`,
        );
      }
      this.#add(event.atMs, { kind: 'event', event });
    });
  }

  #add(atMs: number, what: AgendaEntry): void {
    this.#agenda.add(atMs, RANKS[what.kind], what);
  }

  /** Carries out the events of this instant. Returns whether any concerned the pool. */
  async #carryOutAt(nowMs: number): Promise<boolean> {
    let requested: Job[] = [];
    let isPoolConcerned = false;
    for (let next = this.#agenda.take(nowMs); next !== undefined; next = this.#agenda.take(nowMs)) {
      isPoolConcerned = true;
      if (next.kind === 'submit') {
        requested.push(this.#jobOf(next.id, next.request));
        continue;
      }
      // Submits first, so that later events of this instant find the jobs.
      if (requested.length > 0) await this.#pool.submit(requested);
      requested = [];
      await this.#carryOut(next);
    }
    if (requested.length > 0) await this.#pool.submit(requested);
    return isPoolConcerned;
  }

  async #carryOut(what: Exclude<AgendaEntry, { readonly kind: 'submit' }>): Promise<void> {
    switch (what.kind) {
      case 'event':
        return this.#operate(what.event);
      case 'join': {
        const { worker, fleet, slots } = what.worker;
        this.#record.addSlots(fleet, slots);
        return this.#pool.join({ workerId: worker, fleet, slots });
      }
      case 'vanish': {
        const { worker, fleet, slots } = what.worker;
        this.#record.vanish(worker, fleet, slots);
        return this.#pool.vanish(worker);
      }
      case 'look':
        return this.#pool.wakeForSchedule(what.schedule);
      case 'due':
        return this.#pool.wakeFor(what.id);
    }
  }

  #jobOf(id: string, request: JobRequest): Job {
    return jobFrom(request, id, this.#pool.partitionOf(request.fairnessKey), this.#pool.time.nowMs);
  }

  #workOf(jobId: string, attempt: number): Work {
    const { durationMs = 0, failures = [] } = this.#plans.get(this.#nameOf.get(jobId) ?? jobId) ?? {};
    const failure = failures[attempt - 1];
    return { takesMs: failure?.afterMs ?? durationMs, error: failure?.name };
  }

  async #operate(event: ProductEvent): Promise<void> {
    switch (event.op) {
      case 'cancel':
        return this.#pool.cancel(this.#idOf.get(event.id) ?? event.id);
      case 'retime':
        return this.#pool.retime(this.#idOf.get(event.id) ?? event.id, this.#startEpochMs + event.runAtMs);
      case 'lose':
        return this.#pool.lose(this.#idOf.get(event.id) ?? event.id);
      case 'override': {
        const { paused, maxConcurrency = null, weight = null } = event;
        const scope = this.#scopeIn(event.scope);
        if (scope !== undefined) await this.#pool.changeControl(scope, { paused, maxConcurrency, weight });
      }
    }
  }

  /** Records each change in the store. Jobs of schedules are recorded by the names that the scenario gives them. */
  readonly #observe = (event: StoreEvent<Job>): void => {
    if (event.kind === 'schedule') {
      const { id, dueMs } = event.after?.state ?? {};
      if (id !== undefined && dueMs !== undefined)
        this.#add(Math.max(dueMs - this.#startEpochMs, this.#nowMs), { kind: 'look', schedule: id });
    }
    if (event.kind !== 'job' || event.newJob.scheduleId === undefined) {
      this.#record.observe(event);
      return;
    }
    const { newJob, oldJob } = event;
    if (oldJob === undefined) this.#name(newJob);
    const id = this.#nameOf.get(newJob.id) ?? newJob.id;
    this.#record.observe({ ...event, newJob: { ...newJob, id }, oldJob: oldJob && { ...oldJob, id } });
  };

  #name({ id, scheduleId = '' }: Job): void {
    const schedule = this.#schedules.get(scheduleId);
    if (schedule === undefined) return;
    schedule.fired += 1;
    const name = `${scheduleId}#${schedule.fired}`;
    if (this.#plans.has(name))
      this.#pool.fail(new ValidationError(this.#path, `the job ${name} exists twice`));
    if (this.#plans.size >= MOST_JOBS)
      this.#pool.fail(new ValidationError(this.#path, `makes more than ${MOST_JOBS} jobs`));
    this.#plans.set(name, schedule.work);
    this.#nameOf.set(id, name);
    this.#idOf.set(name, id);
  }

  async #report(): Promise<{ readonly result: ProductResult; readonly runs: readonly Run[] }> {
    const attempts = this.#record.attempts();
    const { costs, weights, estimates } = await this.#ledgers();
    return {
      result: {
        attempts,
        keys: this.#record.keys((key) => ({ costMs: costs.get(key) ?? 0, weight: weights.get(key) ?? 1 })),
        types: this.#record.types(),
        fleets: this.#record.fleets(),
        peak: this.#record.peak,
        estimates,
        waiting: this.#record.waiting().slice(0, MOST_LISTED),
      },
      runs: this.#record.runs(attempts),
    };
  }

  /** Returns the costs, weights and estimates that a pass would begin with. */
  async #ledgers(): Promise<{
    readonly costs: ReadonlyMap<string, number>;
    readonly weights: ReadonlyMap<string, number>;
    readonly estimates: ProductResult['estimates'];
  }> {
    const pool = this.#pool;
    const { nowMs } = pool.time;
    const costs = new Map<string, number>();
    const weights = new Map<string, number>();
    const learned: EstimateRecord[] = [];
    const keysOf = Map.groupBy(this.#record.fairnessKeys, (key) => pool.partitionOf(key));
    for (const partition of pool.partitions) {
      const keys = keysOf.get(partition) ?? [];
      const state = await pool.store.loadPartition({ partition, nowMs });
      const cached = openCache(pool.caches, partition, undefined);
      const ledgerCache = new LedgerCache(pool.store, this.#configuration, partition, nowMs, cached);
      ledgerCache.know(state);
      await ledgerCache.readLedgers(keys);
      await ledgerCache.readEstimates(this.#record.learned);
      const weightOf = weightsWithOverrides(this.#configuration, state.controls).of;
      for (const key of keys) {
        costs.set(key, ledgerCache.ledgerOf(key)?.settledCostMs ?? 0);
        weights.set(key, weightOf(key));
      }
      for (const { jobs } of state.reservations) {
        for (const { fairnessKey, estimatedCostMs } of jobs.values())
          costs.set(fairnessKey, (costs.get(fairnessKey) ?? 0) + estimatedCostMs);
      }
      learned.push(...[...cached.estimates.values()].filter((each) => each !== undefined));
    }
    const { estimateTtlMs } = this.#configuration.fairness;
    const isFresh = ({ lastSeenMs }: EstimateRecord): boolean =>
      estimateTtlMs === null || nowMs - lastSeenMs <= estimateTtlMs;
    return { costs, weights, estimates: combined(learned.filter(isFresh)) };
  }
}

/** Combines the estimates of the partitions, each weighted by its number of samples. */
function combined(learned: readonly EstimateRecord[]): ProductResult['estimates'] {
  const byName = Map.groupBy(learned, ({ type, resourceId }) => JSON.stringify([type, resourceId]));
  return [...byName.values()]
    .map((ofName) => {
      const [{ type, resourceId }] = ofName as [EstimateRecord];
      const samples = ofName.reduce((sum, each) => sum + each.samples, 0);
      const sumMs = ofName.reduce((sum, each) => sum + each.meanMs * each.samples, 0);
      return [type, resourceId, sumMs / samples] as const;
    })
    .sort(([oneType, one], [otherType, other]) => compare(oneType, otherType) || compare(one, other));
}

/**
 * Returns a worker process's lease, with the longest heartbeat interval that it allows; undefined for the product's
 * default.
 */
function workerLeaseOf(leaseMs: number | undefined, path: string): WorkerLease | undefined {
  if (leaseMs === undefined) return undefined;
  const heartbeatMs = HEARTBEAT_CHOICES_MS.find((each) => 2 * each <= leaseMs - LEASE_MARGIN_MS);
  if (heartbeatMs !== undefined && leaseMs <= LEASE_MAX_MS) return { leaseMs, heartbeatMs };
  const leastMs = LEASE_MARGIN_MS + 2 * Math.min(...HEARTBEAT_CHOICES_MS);
  throw new ValidationError(
    `${path}.leaseMs`,
    `is ${leaseMs}: a worker's lease must be ${leastMs} to ${LEASE_MAX_MS} ms; the worker keeps ${LEASE_MARGIN_MS} ms of it to stop its jobs`,
  );
}

function configurationOf(input: unknown, path: string): PoolConfiguration {
  return withPath(`${path}.configuration`, () => resolveConfiguration(input as PoolInput));
}

/** Turns a ConfigurationError into a ScenarioError with the path in the file. */
function withPath<Value>(path: string, make: () => Value): Value {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const field = error.field === '' ? path : pathOf([error.field], path);
    const problem = error.message.slice(error.message.indexOf(': ') + 2);
    throw new ValidationError(field, problem);
  }
}

const compare = (one: string, other: string): number => (one === other ? 0 : one < other ? -1 : 1);
