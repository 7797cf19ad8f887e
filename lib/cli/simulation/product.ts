/**
 * Runs a scenario for the product's own configuration (format `fairlead/1`): the product itself, in memory, under virtual
 * time. Nothing here decides. This file lets happen what the scenario says, when it says so, and tells what came of it.
 */
import type { PoolConfiguration } from '../../core/configuration.ts';
import { type PoolInput, resolveConfiguration } from '../../core/defaults.ts';
import { ConfigurationError } from '../../core/errors.ts';
import type { Job } from '../../core/job.ts';
import { decideOverlap, type Fires, firesOf, readRecurrence } from '../../core/schedule.ts';
import { Books } from '../../dispatch/books.ts';
import { openBooks } from '../../dispatch/remembered.ts';
import { type JobRequest, jobFrom, parseRequests } from '../../dispatch/request.ts';
import { weightsNow } from '../../dispatch/weights.ts';
import { readCron } from '../../schedule/croner.ts';
import { LEASE_MARGIN_MS } from '../../worker/membership.ts';
import type {
  ProductEvent,
  ProductJob,
  ProductScenario,
  ProductSchedule,
  ProductWorker,
} from '../product-scenario.ts';
import { pathOf, refuseDuplicates, ScenarioError } from '../scenario-file.ts';
import { Agenda } from './agenda.ts';
import type { Run } from './fairness.ts';
import { SimulatedPool, type Work, type WorkerLease } from './pool.ts';
import { type Attempt, type FleetUse, type Share, SimulationRecord } from './record.ts';
import { scopeOf } from './scope.ts';

export type { Attempt } from './record.ts';

export interface ProductResult {
  readonly attempts: readonly Attempt[];
  readonly keys: Readonly<Record<string, Share & { readonly costMs: number; readonly weight: number }>>;
  readonly types: Readonly<Record<string, Share & { readonly peak: number }>>;
  readonly fleets: Readonly<Record<string, FleetUse>>;
  readonly peak: number;
  readonly estimates: readonly (readonly [type: string, resourceId: string, meanMs: number])[];
  /** Waiting when the scenario ends, in id order, at most `MOST_LISTED`. */
  readonly waiting: readonly string[];
}

/** More starts than this are no scenario but a mistake, such as endless retries without a delay. */
const MOST_STARTS = 1_000_000;
const MOST_JOBS = 200_000;
const MOST_LISTED = 100;
/** A heartbeat comes at least this often, and so that a minute holds a whole number of them. */
const HEARTBEATS_MS = [5_000, 2_000, 1_000, 500, 200, 100] as const;
/** Ledgers are reset when the clock shows a multiple of `resetEveryMs`: the scenario begins with one. */
const startEpochMs = (startsAtMs: number, { fairness }: PoolConfiguration): number =>
  fairness.resetEveryMs === null
    ? startsAtMs
    : Math.ceil(startsAtMs / fairness.resetEveryMs) * fairness.resetEveryMs;

/** What a job does when it runs, and where it comes from. */
interface Plan {
  readonly work: Pick<ProductJob, 'durationMs' | 'failures'>;
  readonly schedule: string | undefined;
}

type Happening =
  | { readonly kind: 'event'; readonly event: ProductEvent }
  | { readonly kind: 'join'; readonly worker: ProductWorker }
  | { readonly kind: 'vanish'; readonly worker: ProductWorker }
  | { readonly kind: 'fire'; readonly schedule: string }
  | { readonly kind: 'submit'; readonly id: string; readonly request: JobRequest }
  | { readonly kind: 'due'; readonly id: string };

/** Within an instant: operators and workers, then producers, then the clock. Then what ends, then passes. */
const RANKS: Readonly<Record<Happening['kind'], number>> = {
  event: 0,
  join: 1,
  vanish: 1,
  fire: 2,
  submit: 3,
  due: 4,
};

/** @throws ScenarioError with a path below `path`, the scenario's. */
export async function simulateProduct(
  scenario: ProductScenario,
  path: string,
): Promise<{ readonly result: ProductResult; readonly runs: readonly Run[] }> {
  return new Simulation(scenario, path).run();
}

interface ScheduleState {
  readonly schedule: ProductSchedule;
  readonly request: JobRequest;
  readonly fires: Fires;
  readonly unfinished: Set<string>;
  fired: number;
  waiting: number;
}

class Simulation {
  readonly #scenario: ProductScenario;
  readonly #path: string;
  readonly #configuration: PoolConfiguration;
  readonly #agenda = new Agenda<Happening>();
  /** What instant 0 is, for schedules and for the pool's clock. */
  readonly #startsAtMs: number;
  readonly #startEpochMs: number;
  readonly #pool: SimulatedPool;
  readonly #record: SimulationRecord;
  readonly #plans = new Map<string, Plan>();
  readonly #schedules = new Map<string, ScheduleState>();
  #fires = 0;

  constructor(scenario: ProductScenario, path: string) {
    const { seed, startsAt, untilMs } = scenario;
    this.#scenario = scenario;
    this.#path = path;
    const configuration = configurationOf(scenario.configuration, path);
    this.#configuration = configuration;
    this.#startsAtMs = Date.parse(startsAt);
    this.#startEpochMs = startEpochMs(this.#startsAtMs, configuration);
    this.#record = new SimulationRecord({
      nowMs: () => this.#nowMs,
      startEpochMs: this.#startEpochMs,
      untilMs,
      startsMax: MOST_STARTS,
      onTooManyStarts: () =>
        this.#pool.fail(new ScenarioError(path, `makes more than ${MOST_STARTS} starts`)),
    });
    this.#pool = new SimulatedPool({
      configuration,
      startMs: this.#startEpochMs,
      seed,
      workerLease: workerLeaseOf(scenario.leaseMs, path),
      workOf: (jobId, attempt) => this.#workOf(jobId, attempt),
      observe: this.#record.observe,
      onScheduled: ({ id, runAtMs }) => this.#add(runAtMs - this.#startEpochMs, { kind: 'due', id }),
      onOutcome: (jobId) => this.#over(jobId),
    });
    for (const { fleet, slots } of configuration.fleets) this.#record.addSlots(fleet, slots ?? 0);
    this.#planJobs();
    this.#planSchedules();
    this.#planWorkers();
    this.#planEvents();
  }

  async run(): Promise<{ readonly result: ProductResult; readonly runs: readonly Run[] }> {
    const { untilMs } = this.#scenario;
    for (;;) {
      const poolMs = (this.#pool.time.nextAtMs ?? Infinity) - this.#startEpochMs;
      const nowMs = Math.min(this.#agenda.nextMs, poolMs);
      if (nowMs > untilMs) break;
      this.#pool.time.moveTo(this.#startEpochMs + nowMs);
      const isPoolConcerned = await this.#happenAt(nowMs);
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
        if (number > MOST_JOBS) throw new ScenarioError(path, `makes more than ${MOST_JOBS} jobs`);
        const base = job.id ?? `${job.type}-${number}`;
        const id = job.id !== undefined && job.repeat !== undefined ? `${base}-${copy + 1}` : base;
        if (used.has(id)) throw new ScenarioError(`${path}.id`, `${id} is there twice`);
        used.add(id);
        this.#plans.set(id, { work: job, schedule: undefined });
        const runAtMs = job.runAtMs === undefined ? undefined : this.#startEpochMs + job.runAtMs;
        this.#add(job.atMs + copy * everyMs, { kind: 'submit', id, request: { ...request, runAtMs } });
      }
    });
  }

  /** Checked as what a producer asks for. */
  #requestOf(job: ProductSchedule['job'], path: string): JobRequest {
    const { type, priority, mode, fairnessKey, resourceId } = job;
    if (!this.#configuration.types.some((known) => known.type === type)) {
      const known = this.#configuration.types.slice(0, 10).map((each) => each.type);
      throw new ScenarioError(
        `${path}.type`,
        `${type} is not a type of the configuration (${known.join(', ')})`,
      );
    }
    const asked = { type, priority, mode, fairnessKey, ...(resourceId === undefined ? {} : { resourceId }) };
    const { accepted, refused } = parseRequests(asked, this.#configuration);
    const [refusal] = refused;
    if (refusal !== undefined) throw new ScenarioError(`${path}.${refusal.field}`, refusal.reason);
    const [entry] = accepted;
    if (entry === undefined) throw new ScenarioError(path, 'asks for nothing');
    return entry.request;
  }

  #planSchedules(): void {
    const { schedules } = this.#scenario;
    refuseDuplicates(
      schedules.map(({ id }) => id),
      `${this.#path}.schedules`,
      'id',
    );
    schedules.forEach((schedule, index) => {
      const path = `${this.#path}.schedules[${index}]`;
      const request = this.#requestOf(schedule.job, `${path}.job`);
      const fires = placed(path, () => {
        const recurrence = readRecurrence(schedule.schedule, schedule.timeZone, this.#startsAtMs);
        const { dst } = schedule;
        return firesOf(recurrence.kind === 'cron' ? { ...recurrence, dst } : recurrence, readCron);
      });
      const state = { schedule, request, fires, unfinished: new Set<string>(), fired: 0, waiting: 0 };
      this.#schedules.set(schedule.id, state);
      this.#planFire(schedule.id, -1);
    });
  }

  #planFire(id: string, afterMs: number): void {
    const next = this.#schedules.get(id)?.fires.next(this.#startsAtMs + afterMs);
    if (next !== undefined) this.#add(next - this.#startsAtMs, { kind: 'fire', schedule: id });
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
      if (fleet === undefined) throw new ScenarioError(`${path}.fleet`, `${worker.fleet} is no fleet`);
      if (worker.lostAtMs !== undefined && worker.lostAtMs <= worker.fromMs) {
        throw new ScenarioError(`${path}.lostAtMs`, 'expected an instant after fromMs');
      }
      if (fleet.slots !== null) {
        throw new ScenarioError(
          `${path}.fleet`,
          `${worker.fleet} declares ${fleet.slots} slots for functions; workers register with fleets without slots`,
        );
      }
      this.#add(worker.fromMs, { kind: 'join', worker });
      if (worker.lostAtMs !== undefined) this.#add(worker.lostAtMs, { kind: 'vanish', worker });
    });
  }

  #planEvents(): void {
    this.#scenario.events.forEach((event, index) => {
      const path = `${this.#path}.events[${index}].scope`;
      if (event.op === 'override' && scopeOf(event.scope, this.#configuration) === undefined) {
        throw new ScenarioError(
          path,
          `${event.scope} is no scope: pool, tier/<tier>, type/<type>, fleet/<fleet>, key/<key>`,
        );
      }
      this.#add(event.atMs, { kind: 'event', event });
    });
  }

  #add(atMs: number, what: Happening): void {
    this.#agenda.add(atMs, RANKS[what.kind], what);
  }

  /** Answers whether any of it reached the pool. */
  async #happenAt(nowMs: number): Promise<boolean> {
    let asked: Job[] = [];
    let isPoolConcerned = false;
    for (let next = this.#agenda.take(nowMs); next !== undefined; next = this.#agenda.take(nowMs)) {
      if (next.kind === 'fire' && this.#isSkipped(next.schedule, nowMs)) continue;
      isPoolConcerned = true;
      if (next.kind === 'submit') {
        asked.push(this.#jobOf(next.id, next.request));
        continue;
      }
      // What comes later in the instant finds what was asked for before.
      if (asked.length > 0) await this.#pool.submit(asked);
      asked = [];
      await this.#happen(next);
    }
    if (asked.length > 0) await this.#pool.submit(asked);
    return isPoolConcerned;
  }

  async #happen(what: Exclude<Happening, { readonly kind: 'submit' }>): Promise<void> {
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
      case 'fire':
        return this.#fire(what.schedule);
      case 'due':
        return this.#pool.wakeFor(what.id);
    }
  }

  #jobOf(id: string, request: JobRequest): Job {
    return jobFrom(request, id, this.#pool.partitionOf(request.fairnessKey), this.#pool.time.nowMs);
  }

  #workOf(jobId: string, attempt: number): Work {
    const { durationMs = 0, failures = [] } = this.#plans.get(jobId)?.work ?? {};
    const failure = failures[attempt - 1];
    return { takesMs: failure?.afterMs ?? durationMs, error: failure?.name };
  }

  async #operate(event: ProductEvent): Promise<void> {
    switch (event.op) {
      case 'cancel':
        return this.#pool.cancel(event.id);
      case 'retime':
        return this.#pool.retime(event.id, this.#startEpochMs + event.runAtMs);
      case 'lose':
        return this.#pool.lose(event.id);
      case 'override': {
        const { paused, maxConcurrency = null, weight = null } = event;
        const scope = scopeOf(event.scope, this.#configuration);
        if (scope !== undefined) await this.#pool.changeControl(scope, { paused, maxConcurrency, weight });
      }
    }
  }

  /** Whether a fire asks for nothing now. */
  #isSkipped(id: string, nowMs: number): boolean {
    const state = this.#schedules.get(id);
    if (state === undefined) return true;
    this.#fires += 1;
    if (this.#fires > MOST_JOBS) throw new ScenarioError(this.#path, `fires more than ${MOST_JOBS} times`);
    this.#planFire(id, nowMs);
    const decision = decideOverlap(state.schedule.overlap, state.unfinished.size, state.waiting);
    if (decision === 'wait') state.waiting += 1;
    return decision === 'skip' || decision === 'wait';
  }

  async #fire(id: string): Promise<void> {
    const state = this.#schedules.get(id);
    if (state === undefined) return;
    if (state.schedule.overlap === 'replace') {
      for (const unfinished of state.unfinished) await this.#pool.cancel(unfinished);
    }
    await this.#submitFire(state);
  }

  async #submitFire(state: ScheduleState): Promise<void> {
    state.fired += 1;
    const id = `${state.schedule.id}#${state.fired}`;
    if (this.#plans.has(id)) throw new ScenarioError(this.#path, `the job ${id} is there twice`);
    if (this.#plans.size >= MOST_JOBS)
      throw new ScenarioError(this.#path, `makes more than ${MOST_JOBS} jobs`);
    this.#plans.set(id, { work: state.schedule.job, schedule: state.schedule.id });
    state.unfinished.add(id);
    await this.#pool.submit([this.#jobOf(id, state.request)]);
  }

  /** A job has reached its end: a fire that waited for that may come. */
  #over(jobId: string): void {
    const state = this.#schedules.get(this.#plans.get(jobId)?.schedule ?? '');
    if (state === undefined) return;
    state.unfinished.delete(jobId);
    if (state.waiting === 0 || state.unfinished.size > 0) return;
    state.waiting -= 1;
    this.#submitFire(state).catch((error: unknown) => this.#pool.fail(error));
  }

  async #report(): Promise<{ readonly result: ProductResult; readonly runs: readonly Run[] }> {
    const attempts = this.#record.attempts();
    const { costs, weights, estimates } = await this.#books();
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

  /** What the dispatcher knows of keys and of costs, as it would at the beginning of a pass. */
  async #books(): Promise<{
    readonly costs: ReadonlyMap<string, number>;
    readonly weights: ReadonlyMap<string, number>;
    readonly estimates: ProductResult['estimates'];
  }> {
    const pool = this.#pool;
    const { nowMs } = pool.time;
    const { estimateTtlMs } = this.#configuration.fairness;
    const costs = new Map<string, number>();
    const weights = new Map<string, number>();
    const learned = new Map<string, { type: string; resourceId: string; sumMs: number; samples: number }>();
    const keysOf = Map.groupBy(this.#record.fairnessKeys, (key) => pool.partitionOf(key));
    for (const partition of pool.partitions) {
      const keys = keysOf.get(partition) ?? [];
      const state = await pool.store.loadPartition(partition, nowMs);
      const remembered = openBooks(pool.books, partition, state.epoch);
      const books = new Books(pool.store, this.#configuration, partition, nowMs, remembered);
      books.know(state);
      await books.readLedgers(keys);
      await books.readEstimates(this.#record.learned);
      const weightOf = weightsNow(this.#configuration, state.controls).of;
      for (const key of keys) {
        costs.set(key, books.ledgerOf(key)?.settledCostMs ?? 0);
        weights.set(key, weightOf(key));
      }
      for (const { jobs } of state.reservations) {
        for (const { fairnessKey, estimatedCostMs } of jobs.values())
          costs.set(fairnessKey, (costs.get(fairnessKey) ?? 0) + estimatedCostMs);
      }
      // Each partition learns for itself: what they know together is weighed by how much each has seen.
      for (const estimate of remembered.estimates.values()) {
        if (estimate === undefined) continue;
        if (estimateTtlMs !== null && nowMs - estimate.lastSeenMs > estimateTtlMs) continue;
        const { type, resourceId, meanMs, samples } = estimate;
        const name = JSON.stringify([type, resourceId]);
        const known = learned.get(name) ?? { type, resourceId, sumMs: 0, samples: 0 };
        known.sumMs += meanMs * samples;
        known.samples += samples;
        learned.set(name, known);
      }
    }
    const estimates = [...learned.values()]
      .map(({ type, resourceId, sumMs, samples }) => [type, resourceId, sumMs / samples] as const)
      .sort(([oneType, one], [otherType, other]) => compare(oneType, otherType) || compare(one, other));
    return { costs, weights, estimates };
  }
}

/** A worker process's lease, with heartbeats that leave room for it. Undefined: the product's own. */
function workerLeaseOf(leaseMs: number | undefined, path: string): WorkerLease | undefined {
  if (leaseMs === undefined) return undefined;
  const heartbeatMs = HEARTBEATS_MS.find((each) => 2 * each <= leaseMs - LEASE_MARGIN_MS);
  if (heartbeatMs !== undefined) return { leaseMs, heartbeatMs };
  const leastMs = LEASE_MARGIN_MS + 2 * Math.min(...HEARTBEATS_MS);
  throw new ScenarioError(
    `${path}.leaseMs`,
    `is ${leaseMs}: a worker's lease has at least ${leastMs} ms, of which it keeps ${LEASE_MARGIN_MS} for its end`,
  );
}

function configurationOf(input: unknown, path: string): PoolConfiguration {
  return placed(`${path}.configuration`, () => resolveConfiguration(input as PoolInput));
}

/** Gives a broken rule of the core its place in the file. */
function placed<Value>(path: string, make: () => Value): Value {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const field = error.field === '' ? path : pathOf([error.field], path);
    const problem = error.message.slice(error.message.indexOf(': ') + 2);
    throw new ScenarioError(field, problem);
  }
}

const compare = (one: string, other: string): number => (one === other ? 0 : one < other ? -1 : 1);
