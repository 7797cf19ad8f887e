/**
 * Part of the close step: reports metrics of the partition, such as jobs in flight against each cap, free slots, and waiting jobs
 * that the pass has seen. It counts data that the pass already has, about once a minute, and writes nothing for an idle
 * partition whose workers are not scaled by it. Only `backlogTime` needs reads, and only where it was asked for.
 */
import { type Control, isClosed } from '../../core/capacity.ts';
import type { JobTypeConfiguration, PoolConfiguration } from '../../core/configuration.ts';
import type { ReservedJob } from '../../core/job.ts';
import { printScope, type Scope } from '../../core/scope.ts';
import type { MetricScopes, Metrics } from '../../metrics/contract.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { LOOK_AROUND_MS } from '../tuning.ts';
import type { MeasureMemory } from '../view/partition-cache.ts';

export interface PartitionLoad {
  /** The configuration with this partition's shares as caps, as the plan used them. */
  readonly configuration: PoolConfiguration;
  readonly overrides: readonly Control[];
  readonly partition: number;
  readonly held: readonly ReservedJob[];
  /** Free slots by fleet, before this pass admitted jobs. */
  readonly free: ReadonlyMap<string, number>;
  readonly admitted: readonly ReservedJob[];
  readonly waiting: readonly JobHead[];
  /** Ids of waiting jobs that a conflict blocks. */
  readonly blocked: ReadonlySet<string>;
  readonly nowMs: number;
}

const countBy = <T>(values: readonly T[], of: (value: T) => string): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(of(value), (counts.get(of(value)) ?? 0) + 1);
  return counts;
};

/** Running jobs of one scope, its cap, and whether another job may start. */
interface Gate {
  readonly running: number;
  readonly cap: number;
  readonly isOpen: boolean;
}

type Gates = (scope: Scope, configured: number | null, running: number) => Gate;

const gatesOf = (overrides: readonly Control[]): Gates => {
  const byScope = new Map(overrides.map((override) => [override.scope, override]));
  return (scope, configured, running) => {
    const override = byScope.get(printScope(scope)) ?? { scope: '', paused: false };
    const cap = override.maxConcurrency ?? configured ?? Infinity;
    return { running, cap, isOpen: !isClosed(override) && running < cap };
  };
};

/**
 * Reports the metrics if the last report is old enough and the partition is not idle. Returns the load; undefined: the
 * last report is too young.
 */
export function measure(
  metrics: Metrics,
  memory: MeasureMemory,
  load: () => PartitionLoad,
  nowMs: number,
): PartitionLoad | undefined {
  // The tick of the next minute may come a little early.
  if (nowMs - (memory.measuredAtMs ?? -Infinity) < 0.9 * LOOK_AROUND_MS) return undefined;
  memory.measuredAtMs = nowMs;
  const now = load();
  const isBusy = now.held.length > 0 || now.waiting.length > 0;
  // An idle scheduler writes no log line and no metric, unless workers are scaled by them.
  if (isBusy || memory.measuredBusy === true) report(metrics, now);
  else if (metrics.asksFor('backlogTime')) reportIdleWorkers(metrics, now);
  memory.measuredBusy = isBusy;
  return now;
}

/** The scopes of a pool as they are after the pass. */
interface PoolGates {
  readonly pool: Gate;
  readonly types: readonly (JobTypeConfiguration & { readonly gate: Gate })[];
  readonly tiers: ReadonlyMap<string, Gate>;
  readonly fleets: readonly FleetGate[];
}

interface FleetGate {
  readonly fleet: string;
  readonly types: readonly string[];
  readonly running: number;
  readonly free: number;
  /** Whether the fleet is not paused. */
  readonly isOpen: boolean;
}

function gatesIn({ configuration, overrides, held, free, admitted }: PartitionLoad): PoolGates {
  const gates = gatesOf(overrides);
  const [byType, byTier, byFleet] = [
    countBy(held, ({ type }) => type),
    countBy(held, ({ tier }) => tier),
    countBy(held, ({ fleet }) => fleet),
  ];
  const admittedTo = countBy(admitted, ({ fleet }) => fleet);
  return {
    pool: gates('pool', configuration.maxConcurrency, held.length),
    types: configuration.types.map((type) => ({
      ...type,
      gate: gates({ type: type.type }, type.maxConcurrency, byType.get(type.type) ?? 0),
    })),
    tiers: new Map(
      configuration.tiers.map(({ tier, maxConcurrency }) => [
        tier,
        gates({ tier }, maxConcurrency, byTier.get(tier) ?? 0),
      ]),
    ),
    fleets: configuration.fleets.map(({ fleet, types }) => {
      const running = byFleet.get(fleet) ?? 0;
      const left = Math.max(0, (free.get(fleet) ?? 0) - (admittedTo.get(fleet) ?? 0));
      return { fleet, types, running, free: left, isOpen: gates({ fleet }, null, running).isOpen };
    }),
  };
}

/** Whether neither a pause nor a cap keeps the type's next job from starting. */
const isTypeOpen = ({ pool, tiers }: PoolGates, { tier, gate }: PoolGates['types'][number]): boolean =>
  pool.isOpen && gate.isOpen && tiers.get(tier)?.isOpen !== false;

function report(metrics: Metrics, load: PartitionLoad): void {
  const { configuration, partition, held, waiting, nowMs } = load;
  // With several partitions, the metric without a partition is reported by each, and its maximum is read.
  const whole: MetricScopes = configuration.partitions > 1 ? { partition: String(partition) } : {};
  const both = (metric: Parameters<Metrics['add']>[0], value: number): void => {
    metrics.add(metric, value);
    if (whole.partition !== undefined) metrics.add(metric, value, whole);
  };
  const ofCap = (scopes: MetricScopes, { running, cap }: Gate): void => {
    metrics.add('running', running, scopes);
    if (cap !== Infinity) metrics.add('capUsed', cap === 0 ? 100 : (100 * running) / cap, scopes);
  };

  const found = gatesIn(load);
  const { pool, types, tiers, fleets } = found;
  both('running', held.length);
  if (pool.cap !== Infinity) both('capUsed', (100 * pool.running) / Math.max(1, pool.cap));
  const waitingOf = Map.groupBy(waiting, ({ type }) => type);
  for (const { type, gate } of types) if (gate.running > 0 || waitingOf.has(type)) ofCap({ type }, gate);
  for (const [tier, gate] of tiers) if (gate.running > 0) ofCap({ tier }, gate);
  for (const { fleet, running, free } of fleets) {
    metrics.add('freeSlots', free, { fleet });
    ofCap({ fleet }, { running, cap: running + free, isOpen: true });
  }
  both(
    'freeSlots',
    fleets.reduce((sum, { free, isOpen }) => sum + (isOpen ? free : 0), 0),
  );

  both('backlog', waiting.length);
  both('oldestPending', ageSecOf(waiting, nowMs));
  let startable = 0;
  for (const each of types) {
    const { type } = each;
    const ofType = waitingOf.get(type) ?? [];
    if (ofType.length === 0) continue;
    metrics.add('backlog', ofType.length, { type });
    metrics.add('oldestPending', ageSecOf(ofType, nowMs), { type });
    const hasSlot = fleets.some((fleet) => fleet.isOpen && fleet.free > 0 && fleet.types.includes(type));
    if (!isTypeOpen(found, each) || !hasSlot) continue;
    startable += startableOf(ofType, load).length;
  }
  both('startable', startable);
}

/**
 * Reports that idle processes use no slot. Without data, those who scale workers could not tell a fleet without work from a
 * dispatcher that reports nothing, and would remove workers that are busy.
 */
function reportIdleWorkers(metrics: Metrics, { configuration, free }: PartitionLoad): void {
  for (const { fleet, slots } of configuration.fleets)
    if (slots === null && (free.get(fleet) ?? 0) > 0) metrics.add('capUsed', 0, { fleet });
}

/** Returns the jobs that neither a conflict nor their key's cap blocks. */
function startableOf(
  jobs: readonly JobHead[],
  { configuration, overrides, held, blocked }: PartitionLoad,
): readonly JobHead[] {
  const gates = gatesOf(overrides);
  const byKey = countBy(held, ({ fairnessKey }) => fairnessKey);
  const { maxConcurrencyPerKey } = configuration.fairness;
  return jobs.filter(
    ({ id, fairnessKey }) =>
      !blocked.has(id) && gates({ fairnessKey }, maxConcurrencyPerKey, byKey.get(fairnessKey) ?? 0).isOpen,
  );
}

const ageSecOf = (jobs: readonly JobHead[], nowMs: number): number => {
  let oldestMs = nowMs;
  for (const { readyAtMs } of jobs) oldestMs = Math.min(oldestMs, readyAtMs);
  return Math.max(0, (nowMs - oldestMs) / 1_000);
};

/** The reads by which `reportBacklogTime` computes the metric. */
export interface BacklogReader {
  /** Returns the first jobs that wait in the ready lines of these types. */
  readonly waitingIn: (types: readonly string[]) => Promise<readonly JobHead[]>;
  /** Returns the learned cost of a type's attempts. */
  readonly costMs: (type: string) => number;
}

/**
 * Reports how much work waits for each fleet. Only fleets without a free slot are looked at: if a slot is free, jobs
 * wait for something else, and more workers would not start them. For the same reason types that are paused or at a cap
 * do not count. The work of a type is divided among all slots that may run it. A fleet without slots counts as one
 * slot, so that it can grow from zero.
 */
export async function reportBacklogTime(
  metrics: Metrics,
  load: PartitionLoad,
  { waitingIn, costMs }: BacklogReader,
): Promise<void> {
  const found = gatesIn(load);
  const open = new Set(found.types.filter((type) => isTypeOpen(found, type)).map(({ type }) => type));
  const full = found.fleets
    .filter(({ free, isOpen }) => free === 0 && isOpen)
    .map(({ fleet, types }) => ({ fleet, types: types.filter((type) => open.has(type)) }));
  const asked = [...new Set(full.flatMap(({ types }) => types))];
  const heads = Map.groupBy(asked.length === 0 ? [] : await waitingIn(asked), ({ type }) => type);
  const secondsOf = (type: string): number => {
    const slots = found.fleets
      .filter(({ types }) => types.includes(type))
      .reduce((sum, { running, free }) => sum + running + free, 0);
    return ((heads.get(type)?.length ?? 0) * costMs(type)) / 1_000 / Math.max(1, slots);
  };
  const times = new Map(
    full.map(({ fleet, types }) => {
      const ofFleet = types.flatMap((type) => heads.get(type) ?? []);
      const workSec = types.reduce((sum, type) => sum + secondsOf(type), 0);
      return [fleet, Math.max(workSec, ageSecOf(ofFleet, load.nowMs))] as const;
    }),
  );
  const isBusy = load.held.length > 0 || heads.size > 0;
  if (!isBusy) return;
  for (const { fleet } of found.fleets) {
    metrics.add('backlogTime', times.get(fleet) ?? 0);
    metrics.add('backlogTime', times.get(fleet) ?? 0, { fleet });
  }
}
