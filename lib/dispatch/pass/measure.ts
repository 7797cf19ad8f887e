/**
 * Part of the close step: reports metrics of the partition, such as jobs in flight against each cap, free slots, and waiting jobs
 * that the pass has seen. It counts data that the pass already has, about once a minute, and writes nothing for an idle
 * partition.
 */
import type { Control } from '../../core/capacity.ts';
import type { PoolConfiguration } from '../../core/configuration.ts';
import type { ReservedJob } from '../../core/job.ts';
import { printScope, type Scope } from '../../core/scope.ts';
import type { MetricScopes, Metrics } from '../../metrics/contract.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { LOOK_AROUND_MS } from '../tuning.ts';
import type { MeasureMemory } from '../view/partition-cache.ts';

export interface PartitionLoad {
  /** Caps are this partition's shares, as the plan used them. */
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
    const { paused = false, maxConcurrency } = byScope.get(printScope(scope)) ?? {};
    const cap = maxConcurrency ?? configured ?? Infinity;
    return { running, cap, isOpen: !paused && running < cap };
  };
};

/** Reports the metrics if the last report is old enough. */
export function measure(
  metrics: Metrics,
  memory: MeasureMemory,
  load: () => PartitionLoad,
  nowMs: number,
): void {
  // A minute's tick may come a little early.
  if (nowMs - (memory.measuredAtMs ?? -Infinity) < 0.9 * LOOK_AROUND_MS) return;
  memory.measuredAtMs = nowMs;
  const now = load();
  const isBusy = now.held.length > 0 || now.waiting.length > 0;
  // An idle scheduler writes no log line and no metric.
  if (isBusy || memory.measuredBusy === true) report(metrics, now);
  memory.measuredBusy = isBusy;
}

function report(metrics: Metrics, load: PartitionLoad): void {
  const { configuration, partition, held, waiting, nowMs } = load;
  const gates = gatesOf(load.overrides);
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

  const [byType, byTier, byFleet] = [
    countBy(held, ({ type }) => type),
    countBy(held, ({ tier }) => tier),
    countBy(held, ({ fleet }) => fleet),
  ];
  const pool = gates('pool', configuration.maxConcurrency, held.length);
  both('running', held.length);
  if (pool.cap !== Infinity) both('capUsed', (100 * pool.running) / Math.max(1, pool.cap));
  const waitingOf = Map.groupBy(waiting, ({ type }) => type);
  const types = configuration.types.map((type) => {
    const gate = gates({ type: type.type }, type.maxConcurrency, byType.get(type.type) ?? 0);
    if (gate.running > 0 || waitingOf.has(type.type)) ofCap({ type: type.type }, gate);
    return { ...type, gate };
  });
  const tiers = new Map(
    configuration.tiers.map(({ tier, maxConcurrency }) => {
      const gate = gates({ tier }, maxConcurrency, byTier.get(tier) ?? 0);
      if (gate.running > 0) ofCap({ tier }, gate);
      return [tier, gate] as const;
    }),
  );
  const admittedTo = countBy(load.admitted, ({ fleet }) => fleet);
  const fleets = configuration.fleets.map(({ fleet, types: taken }) => {
    const free = Math.max(0, (load.free.get(fleet) ?? 0) - (admittedTo.get(fleet) ?? 0));
    const running = byFleet.get(fleet) ?? 0;
    metrics.add('freeSlots', free, { fleet });
    ofCap({ fleet }, { running, cap: running + free, isOpen: true });
    return { taken, free: gates({ fleet }, null, running).isOpen ? free : 0 };
  });
  both(
    'freeSlots',
    fleets.reduce((sum, { free }) => sum + free, 0),
  );

  both('backlog', waiting.length);
  both('oldestPending', ageSecOf(waiting, nowMs));
  let startable = 0;
  for (const { type, tier, gate } of types) {
    const ofType = waitingOf.get(type) ?? [];
    if (ofType.length === 0) continue;
    metrics.add('backlog', ofType.length, { type });
    metrics.add('oldestPending', ageSecOf(ofType, nowMs), { type });
    const hasSlot = fleets.some(({ taken, free }) => free > 0 && taken.includes(type));
    if (!pool.isOpen || !gate.isOpen || tiers.get(tier)?.isOpen === false || !hasSlot) continue;
    startable += startableOf(ofType, load, gates).length;
  }
  both('startable', startable);
}

/** Jobs that neither a conflict nor their key's cap blocks. */
function startableOf(
  jobs: readonly JobHead[],
  { configuration, held, blocked }: PartitionLoad,
  gates: Gates,
): readonly JobHead[] {
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
