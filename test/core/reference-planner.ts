/**
 * The plan as the texts tell it: score every job, sort all of them, admit the first that may start, and begin again.
 * Written from affinity-scoring and fair-queuing alone and sharing nothing with lib/core but its types, so that it can judge it.
 */
import type { Control } from '../../lib/core/capacity.ts';
import type {
  FleetConfiguration,
  JobTypeConfiguration,
  PoolConfiguration,
} from '../../lib/core/configuration.ts';
import type { ReservedJob, WaitingJob } from '../../lib/core/job.ts';
import type { Uses } from '../../lib/core/limits.ts';

/** All there is to know when a pass begins. */
export interface PassState {
  readonly configuration: PoolConfiguration;
  readonly overrides: readonly Control[];
  readonly nowMs: number;
  readonly inFlight: readonly ReservedJob[];
  readonly freeSlotsByFleet: ReadonlyMap<string, number>;
  readonly settledCostMs: ReadonlyMap<string, number>;
  readonly waiting: readonly WaitingJob[];
  /** What ended attempts have used of limits. */
  readonly uses?: Uses | undefined;
  readonly usesOfKeys?: ReadonlyMap<string, Uses> | undefined;
  readonly costMs: (type: string, resourceId: string | undefined) => number;
}

/** One admission. */
export interface Planned {
  readonly id: string;
  readonly fleet: string;
  readonly chargedMs: number;
}

interface Held extends Pick<WaitingJob, 'fairnessKey' | 'keys' | 'units'> {
  readonly type: string;
  readonly tier: string;
  readonly fleet: string;
  readonly conflict: string | undefined;
  readonly costMs: number;
}

/** Every admission of the pass, in order. */
export function referencePlan(state: PassState): readonly Planned[] {
  const plan: Planned[] = [];
  const held: Held[] = state.inFlight.map((job) => ({
    ...job,
    conflict: job.conflictKey,
    costMs: job.estimatedCostMs,
  }));
  const cost = new Map(state.settledCostMs);
  for (const job of state.inFlight) {
    cost.set(job.fairnessKey, (cost.get(job.fairnessKey) ?? 0) + job.estimatedCostMs);
  }
  const slotsWhenItBegan = new Map(
    state.configuration.types.map(({ type }) => [type, freeSlotsOfType(state, held, [], type)]),
  );
  let waiting = [...state.waiting];
  for (;;) {
    const next = firstAdmissible(state, waiting, held, plan, cost, slotsWhenItBegan);
    if (next === undefined) return plan;
    const { job, fleet } = next;
    const estimate = state.costMs(job.type, job.resourceId);
    const chargedMs = Math.max(estimate, state.configuration.fairness.admissionFloorMs);
    cost.set(job.fairnessKey, (cost.get(job.fairnessKey) ?? 0) + chargedMs);
    held.push({
      type: job.type,
      tier: tierOf(state, job),
      fairnessKey: job.fairnessKey,
      keys: job.keys,
      units: job.units,
      fleet,
      conflict: conflictOf(state, job),
      costMs: chargedMs,
    });
    plan.push({ id: job.id, fleet, chargedMs });
    waiting = waiting.filter((other) => other !== job);
  }
}

function firstAdmissible(
  state: PassState,
  waiting: readonly WaitingJob[],
  held: readonly Held[],
  plan: readonly Planned[],
  cost: ReadonlyMap<string, number>,
  slotsWhenItBegan: ReadonlyMap<string, number>,
): { job: WaitingJob; fleet: string } | undefined {
  const { tiers } = state.configuration;
  const runningOf = (tier: string): number => held.filter((other) => other.tier === tier).length;
  const scored = waiting
    .filter((job) => state.configuration.types.some((type) => type.type === job.type))
    .map((job) => ({
      job,
      tier: tiers.findIndex((tier) => tier.tier === tierOf(state, job)),
      owed: tiers.some((tier) => tier.tier === tierOf(state, job) && runningOf(tier.tier) < tier.guaranteed),
      share: (cost.get(job.fairnessKey) ?? 0) / weight(state, job.fairnessKey),
      score: referenceScore(job, state, slotsWhenItBegan.get(job.type) ?? 0),
    }));
  scored.sort(
    (a, b) =>
      Number(b.owed) - Number(a.owed) ||
      a.tier - b.tier ||
      a.share - b.share ||
      b.score - a.score ||
      a.job.readyAtMs - b.job.readyAtMs ||
      (a.job.id < b.job.id ? -1 : 1),
  );
  for (const { job } of scored) {
    const fleet = mayStart(state, job, held, plan);
    if (fleet !== undefined) return { job, fleet };
  }
  return undefined;
}

/** Thousandths of a point, as whole numbers, so that equal scores are equal. */
export function referenceScore(
  job: WaitingJob,
  state: Pick<PassState, 'configuration' | 'nowMs'>,
  compatibleFreeSlots: number,
): number {
  const { priority, ageSec, rarity, onDemand, onDemandAgeSec } = state.configuration.score;
  const ageMs = Math.max(0, state.nowMs - job.readyAtMs);
  let score = job.priority * priority * 1000;
  score += ageMs * ageSec;
  if (compatibleFreeSlots > 0) score += Math.floor(rarity / compatibleFreeSlots) * 1000;
  if (job.mode === 'onDemand') score += onDemand * 1000 + ageMs * onDemandAgeSec;
  return score;
}

function mayStart(
  state: PassState,
  job: WaitingJob,
  held: readonly Held[],
  plan: readonly Planned[],
): string | undefined {
  const { configuration } = state;
  const tier = tierOf(state, job);
  const within = (cap: number | null | undefined, running: number): boolean => running < (cap ?? Infinity);
  const scopes: readonly [string, number | null | undefined, number][] = [
    ['pool', configuration.maxConcurrency, held.length],
    [
      `tier/${tier}`,
      configuration.tiers.find((other) => other.tier === tier)?.maxConcurrency,
      held.filter((other) => other.tier === tier).length,
    ],
    [
      `type/${job.type}`,
      configuration.types.find((other) => other.type === job.type)?.maxConcurrency,
      held.filter((other) => other.type === job.type).length,
    ],
    [
      `key/${job.fairnessKey}`,
      configuration.fairness.maxConcurrencyPerKey,
      held.filter((other) => other.fairnessKey === job.fairnessKey).length,
    ],
  ];
  for (const [scope, cap, running] of scopes) {
    const override = lastOverride(state, scope);
    if (override?.paused === true || !within(override?.maxConcurrency ?? cap, running)) return undefined;
  }
  if (isLimited(state, job, held)) return undefined;
  const conflict = conflictOf(state, job);
  const together = held.filter((other) => other.conflict === conflict).length;
  if (conflict !== undefined && together >= (typeOf(state, job)?.maxConcurrencyPerResource ?? 1)) {
    return undefined;
  }
  const breadth = (fleet: FleetConfiguration): number => new Set(fleet.types).size;
  return [...configuration.fleets]
    .filter((fleet) => fleet.types.includes(job.type) && freeSlots(state, held, plan, fleet) > 0)
    .sort((a, b) => breadth(a) - breadth(b))[0]?.fleet;
}

/** Whether a limit of the job's type is reached. All that is in flight was reserved now, so each start counts. */
function isLimited(state: PassState, job: WaitingJob, held: readonly Held[]): boolean {
  const { configuration, nowMs } = state;
  const limitsOf = (name: string): readonly string[] =>
    configuration.types.find(({ type }) => type === name)?.limits ?? [];
  const counts = (uses: Uses | undefined, window: string): number =>
    (uses?.get(window) ?? []).reduce((sum, [untilMs, amount]) => sum + (untilMs > nowMs ? amount : 0), 0);
  return (configuration.limits ?? []).some(({ limit, keyedBy, total, perKey, rate, budget }) => {
    const keyOf = (of: Pick<WaitingJob, 'fairnessKey' | 'keys'>): string =>
      keyedBy === undefined ? of.fairnessKey : (of.keys?.[keyedBy] ?? '');
    const key = keyOf(job);
    if (!limitsOf(job.type).includes(limit)) return false;
    const inIt = held.filter(({ type }) => limitsOf(type).includes(limit));
    const ofKey = inIt.filter((each) => keyOf(each) === key);
    const ofKeyUsed = state.usesOfKeys?.get(keyedBy === undefined ? key : `\u0000${keyedBy}\u0000${key}`);
    const whole = lastOverride(state, `limit/${limit}`);
    const single = lastOverride(state, `limit/${limit}/${key}`);
    const cost = ofKey.reduce((sum, { costMs }) => sum + costMs, 0);
    const most = rate?.perJob ?? 1;
    // A start counts as one, or as the job's units: those of a job that names none are the most that one may have.
    const counted = (of: readonly Held[]): number =>
      of.reduce((sum, { units }) => sum + (rate?.perJob === undefined ? 1 : (units?.[limit] ?? most)), 0);
    const reached: readonly boolean[] = [
      whole?.paused === true,
      single?.paused === true,
      inIt.length >= (whole?.maxConcurrency ?? total ?? Infinity),
      ofKey.length >= (single?.maxConcurrency ?? perKey ?? Infinity),
      counts(state.uses, `rate/${limit}`) + counted(inIt) + most > (rate?.units ?? rate?.starts ?? Infinity),
      counts(ofKeyUsed, `rate/${limit}`) + counted(ofKey) + most > (rate?.perKey ?? Infinity),
      counts(ofKeyUsed, `budget/${limit}`) + cost >= (budget?.slotMs ?? Infinity),
    ];
    return reached.includes(true);
  });
}

function freeSlots(
  state: PassState,
  held: readonly Held[],
  plan: readonly Planned[],
  fleet: FleetConfiguration,
): number {
  const override = lastOverride(state, `fleet/${fleet.fleet}`);
  if (override?.paused === true) return 0;
  const free = state.freeSlotsByFleet.get(fleet.fleet) ?? 0;
  const taken = plan.filter((planned) => planned.fleet === fleet.fleet).length;
  const running = held.filter((other) => other.fleet === fleet.fleet).length;
  return Math.max(0, Math.min(free - taken, (override?.maxConcurrency ?? Infinity) - running));
}

function freeSlotsOfType(
  state: PassState,
  held: readonly Held[],
  plan: readonly Planned[],
  type: string,
): number {
  return state.configuration.fleets
    .filter((fleet) => fleet.types.includes(type))
    .reduce((sum, fleet) => sum + freeSlots(state, held, plan, fleet), 0);
}

function lastOverride(state: PassState, scope: string): Control | undefined {
  return state.overrides.findLast((override) => override.scope === scope);
}

function typeOf(state: PassState, job: WaitingJob): JobTypeConfiguration | undefined {
  return state.configuration.types.find((type) => type.type === job.type);
}

function tierOf(state: PassState, job: WaitingJob): string {
  return typeOf(state, job)?.tier ?? '';
}

/** What excludes a job is named by its group and resource, or by its type and resource where that is limited. */
export function conflictOf(state: PassState, job: WaitingJob): string | undefined {
  const type = typeOf(state, job);
  if (type === undefined || job.resourceId === undefined) return undefined;
  const group = type.conflictGroup ?? '';
  if (group !== '') return `${group}/${job.resourceId}`;
  return type.maxConcurrencyPerResource === undefined ? undefined : `=${type.type}/${job.resourceId}`;
}

function weight(state: PassState, fairnessKey: string): number {
  const { weights, defaultWeight } = state.configuration.fairness;
  return lastOverride(state, `key/${fairnessKey}`)?.weight ?? weights[fairnessKey] ?? defaultWeight;
}
