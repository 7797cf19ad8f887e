/** Runs a scenario of fair queuing (format `fairness`) on the core's scheduler under virtual time. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { resolveConfiguration, SCORE_DEFAULTS } from '../core/defaults.ts';
import { ValidationError } from '../core/errors.ts';
import { Scheduler } from '../core/scheduler.ts';
import { Agenda } from './agenda.ts';
import { Expiry } from './expiry.ts';
import { orderedNames } from './order-ids.ts';
import type { FairnessScenario } from './reference-scenarios.ts';
import { type AnyId, compareIds, refuseDuplicates } from './scenario-file.ts';

export interface FairnessResult {
  /** Starts in order: the instant, and the arrival's id. */
  readonly dispatch: readonly (readonly [atMs: number, id: AnyId])[];
  /** The cost of each fairness key in seconds, at `untilMs`. */
  readonly accumulated: Readonly<Record<string, number>>;
  /** Estimates in seconds, by type, then job id. */
  readonly estimates: readonly (readonly [type: string, jobId: string, cost: number])[];
}

/** One run of a job, for charts. */
export interface Run {
  readonly group: string;
  readonly readyAtMs: number;
  readonly startMs: number | undefined;
  readonly endMs: number | undefined;
}

type Arrival = FairnessScenario['arrivals'][number];

const FLEET = 'all';
/** How many slots the scheduler gets. The reference text has no slots: only caps limit how many jobs run. */
const SLOTS = 2 ** 31;

/**
 * Runs a scenario.
 * @throws ValidationError with a path that begins with `path`, the scenario's.
 */
export function simulateFairness(
  scenario: FairnessScenario,
  path: string,
): { readonly result: FairnessResult; readonly runs: readonly Run[] } {
  const { config, untilMs } = scenario;
  refuseDuplicates(
    config.types.map(({ type }) => type),
    `${path}.config.types`,
    'type',
  );
  refuseDuplicates(
    scenario.arrivals.map(({ id }) => id),
    `${path}.arrivals`,
    'id',
  );
  refuseConflictingTerms(scenario, path);
  const pool = poolOf(config);
  const scheduler = new Scheduler(pool, { explains: false });
  const expiry = new Expiry(scheduler, pool.fairness);
  for (const { type, jobId, cost } of config.initialEstimates) {
    scheduler.estimates
      .ofType(type)
      .set(resourceOf(jobId), { meanMs: cost * 1_000, varianceMs2: 0, samples: 0 }, 0);
    expiry.know(type, resourceOf(jobId));
  }
  const types = new Set(config.types.map(({ type }) => type));
  const names = orderedNames(scenario.arrivals.map(({ id }) => id));
  const arrivals = scenario.arrivals.toSorted(
    (one, other) => one.atMs - other.atMs || compareIds(one.id, other.id),
  );
  const byName = new Map(arrivals.map((arrival) => [nameOf(names, arrival.id), arrival]));
  const starts = new Map<AnyId, number>();
  const dispatch: [number, AnyId][] = [];
  const ends = new Ends();
  let arrived = 0;
  // Each round handles at least one arrival or one end.
  for (;;) {
    const nowMs = Math.min(arrivals[arrived]?.atMs ?? Infinity, ends.nextMs);
    if (nowMs > untilMs || nowMs === Infinity) break;
    expiry.keep(nowMs);
    // As in the reference text's appendix: jobs that end at an instant are still active for jobs that arrive at it.
    for (let next = arrivals[arrived]; next !== undefined && next.atMs <= nowMs; next = arrivals[arrived]) {
      // An arrival of an undeclared type has no effect, not even on the time of its key's last arrival.
      if (types.has(next.type)) expiry.arrive(next.fairnessKey, next.type, resourceOf(next.jobId), nowMs);
      addArrival(scheduler, nameOf(names, next.id), next);
      arrived += 1;
    }
    for (const name of ends.take(nowMs)) {
      const durationMs = byName.get(name)?.durationMs ?? 0;
      scheduler.settle(name, { nowMs, usedMs: durationMs, succeeded: true });
    }
    scheduler.beginPass(nowMs);
    for (let decision = scheduler.next(); decision !== undefined; decision = scheduler.next()) {
      const name = decision.reserved.id;
      const arrival = byName.get(name);
      if (arrival === undefined) continue;
      dispatch.push([nowMs, arrival.id]);
      starts.set(arrival.id, nowMs);
      ends.add(nowMs + arrival.durationMs, name);
    }
  }
  expiry.close(untilMs);
  return {
    result: {
      dispatch,
      accumulated: accumulatedCosts(scheduler, arrivals.slice(0, arrived)),
      estimates: scheduler.estimates
        .list()
        .map(({ type, resourceId, meanMs }) => [type, jobIdOf(resourceId), meanMs / 1_000]),
    },
    runs: arrivals.slice(0, arrived).map((arrival) => runOf(arrival, starts.get(arrival.id))),
  };
}

/** Priorities and conflict groups that an arrival repeats must equal those of its type. */
function refuseConflictingTerms({ config, arrivals }: FairnessScenario, path: string): void {
  const types = new Map(config.types.map((type) => [type.type, type]));
  arrivals.forEach((arrival, index) => {
    const type = types.get(arrival.type);
    if (type === undefined) return;
    for (const field of ['priority', 'conflictGroup'] as const) {
      if (arrival[field] === undefined || arrival[field] === type[field]) continue;
      throw new ValidationError(
        `${path}.arrivals[${index}].${field}`,
        `is ${JSON.stringify(arrival[field])}, but its type ${arrival.type} has ${JSON.stringify(type[field])}`,
      );
    }
  });
}

/**
 * Returns the reference text's configuration as one of the product, with features that the text lacks switched off. The
 * text gives costs in seconds.
 */
function poolOf(config: FairnessScenario['config']): PoolConfiguration {
  const tiers = [...new Set(config.types.map(({ priority }) => priority))].sort((one, other) => other - one);
  const base = resolveConfiguration({ types: { none: {} } });
  return {
    ...base,
    types: config.types.map((type) => ({
      ...(base.types[0] as PoolConfiguration['types'][number]),
      type: type.type,
      tier: String(type.priority),
      maxConcurrency: type.maxConcurrency,
      conflictGroup: type.conflictGroup === '' ? null : type.conflictGroup,
      defaultCostMs: type.defaultCost * 1_000,
    })),
    tiers: tiers.map((priority) => ({ tier: String(priority), maxConcurrency: priority, guaranteed: 0 })),
    fleets: [{ fleet: FLEET, types: config.types.map(({ type }) => type), slots: SLOTS }],
    maxConcurrency: config.globalMax,
    // The order is by age alone: arrival, then id.
    score: { ...SCORE_DEFAULTS, rarity: 0 },
    fairness: {
      ...base.fairness,
      alpha: config.alpha,
      admissionFloorMs: 0,
      idlePolicy: config.idlePolicy,
      creditMs: null,
      trueUp: false,
      keyTtlMs: config.keyTtlMs,
      estimateTtlMs: config.estimateTtlMs,
      estimateFallback: 'default',
      resetEveryMs: config.resetEveryMs,
    },
  };
}

function addArrival(scheduler: Scheduler, name: string, arrival: Arrival): void {
  scheduler.arrive(
    {
      id: name,
      type: arrival.type,
      priority: 0,
      mode: 'queued',
      fairnessKey: arrival.fairnessKey,
      resourceId: resourceOf(arrival.jobId),
      readyAtMs: arrival.atMs,
      version: 1,
      attempt: 1,
    },
    arrival.atMs,
  );
}

function accumulatedCosts(
  scheduler: Scheduler,
  arrivals: readonly Arrival[],
): Readonly<Record<string, number>> {
  const costs = new Map(arrivals.map(({ fairnessKey }) => [fairnessKey, 0]));
  for (const { fairnessKey, costMs } of scheduler.costs()) costs.set(fairnessKey, costMs / 1_000);
  return Object.fromEntries(costs);
}

function runOf(arrival: Arrival, startMs: number | undefined): Run {
  return {
    group: arrival.fairnessKey,
    readyAtMs: arrival.atMs,
    startMs,
    endMs: startMs === undefined ? undefined : startMs + arrival.durationMs,
  };
}

// The prefix keeps an empty job id apart from the core's name for a whole type.
const RESOURCE_PREFIX = '/';

function resourceOf(jobId: string): string {
  return RESOURCE_PREFIX + jobId;
}

function jobIdOf(resourceId: string): string {
  return resourceId.slice(RESOURCE_PREFIX.length);
}

function nameOf(names: ReadonlyMap<AnyId, string>, id: AnyId): string {
  return names.get(id) ?? String(id);
}

/** The ends of running jobs, by instant, then in the order of their starts. */
export class Ends {
  readonly #agenda = new Agenda<string>();

  get nextMs(): number {
    return this.#agenda.nextMs;
  }

  add(atMs: number, name: string): void {
    this.#agenda.add(atMs, 0, name);
  }

  /** Removes and returns the jobs that end by now. */
  take(nowMs: number): readonly string[] {
    const taken: string[] = [];
    for (let name = this.#agenda.take(nowMs); name !== undefined; name = this.#agenda.take(nowMs))
      taken.push(name);
    return taken;
  }
}
