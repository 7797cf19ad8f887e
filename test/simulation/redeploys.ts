/** What a seed declares while its world runs: one declaration after another, each with the workers that it deploys. */
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { decodeConfiguration, encodeConfiguration } from '../../lib/declaration/codec.ts';
import { type Dice, diceOf, hashText, seeded } from './random.ts';

/** A long-running worker. */
export interface PlannedProcess {
  readonly fleet: string;
  readonly workerId: string;
  readonly slots: number;
}

/** One deployment: what it declares, and how its workers take the places of those before. */
export interface PlannedDeployment {
  /** From the start. */
  readonly atMs: number;
  readonly configuration: PoolConfiguration;
  readonly processes: readonly PlannedProcess[];
  /** Within this after the declaration each old worker ends, and each new one begins. */
  readonly rolloutMs: number;
  /** Its request comes once more, so much later; undefined: it does not. */
  readonly againMs?: number | undefined;
  /** It declares what was declared before. */
  readonly isRollback: boolean;
}

export interface PlannedRedeploys {
  /** The first is there before anything begins. */
  readonly deployments: readonly [PlannedDeployment, ...PlannedDeployment[]];
  /** When everything that is declared is over, this declares every type that there ever was. */
  readonly finale: PlannedDeployment;
}

/** Of its own, so that it changes no other draw of a seed. */
const REDEPLOY_DICE = 0x6a09e667;
/** Of all seeds; in the others the configuration stands still. */
const REDEPLOYED = 0.5;
const PARTITIONS_MAX = 4;
/** Of the deployments. */
const RATE_ADDED = 0.25;

const TYPES = ['type-0', 'type-1', 'type-2', 'type-3', 'type-4'] as const;
const TIERS = ['tier-0', 'tier-1', 'tier-2', 'gold', 'silver'] as const;
const FLEETS = ['general', 'fleet-a', 'fleet-b', 'fleet-c'] as const;
const GROUPS = [null, 'catalogue', 'index', 'album'] as const;

type Mutable<T> = { -readonly [Field in keyof T]: T[Field] };

/** A configuration that is being changed. */
interface Draft {
  types: Mutable<PoolConfiguration['types'][number]>[];
  tiers: Mutable<PoolConfiguration['tiers'][number]>[];
  fleets: { fleet: string; types: string[]; slots: number | null; batchSize?: number | undefined }[];
  limits?: Mutable<NonNullable<PoolConfiguration['limits']>[number]>[];
  maxConcurrency: number | null;
  partitions: number;
  score: PoolConfiguration['score'];
  fairness: Mutable<PoolConfiguration['fairness']>;
}

const of = <T>(dice: Dice, list: readonly T[]): T | undefined => list[dice.whole(0, list.length - 1)];

/** One thing that a deployment may change. */
type Change = (draft: Draft, dice: Dice) => void;

const cap = ({ partitions }: Draft, dice: Dice, most: number): number | null =>
  dice.chance(0.4) ? null : dice.whole(partitions, Math.max(partitions, most));

const renamed = <T extends string>(
  dice: Dice,
  names: readonly T[],
  taken: readonly string[],
): T | undefined =>
  of(
    dice,
    names.filter((name) => !taken.includes(name)),
  );

const removeType: Change = (draft, dice) => {
  if (draft.types.length === 1) return;
  const gone = of(dice, draft.types)?.type;
  draft.types = draft.types.filter(({ type }) => type !== gone);
};

const addType: Change = (draft, dice) => {
  const model = of(dice, draft.types);
  const type = renamed(
    dice,
    TYPES,
    draft.types.map((each) => each.type),
  );
  if (model === undefined || type === undefined) return;
  draft.types.push({ ...model, type });
  of(dice, draft.fleets)?.types.push(type);
};

const changeTiers: Change = (draft, dice) => {
  const name = renamed(
    dice,
    TIERS,
    draft.tiers.map((each) => each.tier),
  );
  const tier = of(dice, draft.tiers);
  if (name === undefined || tier === undefined) return;
  const former = tier.tier;
  switch (dice.pick(['rename', 'add', 'remove', 'swap'])) {
    case 'rename':
      tier.tier = name;
      for (const type of draft.types) if (type.tier === former) type.tier = name;
      return;
    case 'add':
      draft.tiers.push({ tier: name, maxConcurrency: cap(draft, dice, 4), guaranteed: 0 });
      return;
    case 'remove':
      if (draft.tiers.length > 1) draft.tiers = draft.tiers.filter((each) => each !== tier);
      return;
    case 'swap':
      draft.tiers.reverse();
  }
};

const moveToTier: Change = (draft, dice) => {
  const [type, tier] = [of(dice, draft.types), of(dice, draft.tiers)];
  if (type !== undefined && tier !== undefined) type.tier = tier.tier;
};

const changeFleets: Change = (draft, dice) => {
  const name = renamed(
    dice,
    FLEETS,
    draft.fleets.map((each) => each.fleet),
  );
  const fleet = of(dice, draft.fleets);
  const type = of(dice, draft.types)?.type;
  if (fleet === undefined || type === undefined) return;
  switch (dice.pick(['rename', 'add', 'remove', 'turn', 'turn', 'move'])) {
    case 'rename':
      if (name !== undefined) fleet.fleet = name;
      return;
    case 'add':
      if (name !== undefined) draft.fleets.push({ fleet: name, types: [type], slots: slotsOf(draft, dice) });
      return;
    case 'remove':
      draft.fleets = draft.fleets.filter((each) => each !== fleet);
      return;
    case 'turn':
      fleet.slots = fleet.slots === null ? dice.whole(draft.partitions, draft.partitions + 3) : null;
      return;
    case 'move':
      for (const each of draft.fleets) each.types = each.types.filter((one) => one !== type);
      fleet.types.push(type);
  }
};

const slotsOf = ({ partitions }: Draft, dice: Dice): number | null =>
  dice.chance(0.4) ? null : dice.whole(partitions, partitions + 3);

const changeSlots: Change = (draft, dice) => {
  const fleet = of(
    dice,
    draft.fleets.filter(({ slots }) => slots !== null),
  );
  if (fleet !== undefined) fleet.slots = dice.whole(draft.partitions, draft.partitions + 4);
};

const changeCaps: Change = (draft, dice) => {
  const [type, tier] = [of(dice, draft.types), of(dice, draft.tiers)];
  switch (dice.pick(['type', 'tier', 'key', 'pool'])) {
    case 'type':
      if (type !== undefined) type.maxConcurrency = cap(draft, dice, 3);
      return;
    case 'tier':
      if (tier !== undefined) tier.maxConcurrency = cap(draft, dice, 4);
      return;
    case 'key':
      draft.fairness.maxConcurrencyPerKey = dice.pick([null, 1, 2, 3]);
      return;
    case 'pool':
      draft.maxConcurrency = cap(draft, dice, 6);
  }
};

const changeGroup: Change = (draft, dice) => {
  const type = of(dice, draft.types);
  if (type !== undefined) type.conflictGroup = dice.pick(GROUPS);
};

const renameGroup: Change = (draft, dice) => {
  const [from, to] = [dice.pick(GROUPS), dice.pick(GROUPS)];
  for (const type of draft.types) if (type.conflictGroup === from) type.conflictGroup = to;
};

const changeTerms: Change = (draft, dice) => {
  const type = of(dice, draft.types);
  if (type === undefined) return;
  type.timeoutMs = dice.pick([5_000, 20_000, 40_000]);
  type.onWorkerLost = dice.pick(['retry', 'resume', 'fail']);
  type.defaultCostMs = dice.pick([10, 1_000, 5_000]);
  type.retry = {
    ...type.retry,
    maxAttempts: dice.whole(1, 3),
    delayMs: dice.pick([0, 500, 5_000]),
    maxWorkersLost: dice.whole(0, 3),
  };
};

const changeWeights: Change = (draft, dice) => {
  draft.fairness.weights = dice.chance(0.5) ? { 'key-0': dice.pick([0.5, 3]), 'key-1': 2 } : {};
};

const changePartitions: Change = (draft, dice) => {
  draft.partitions = dice.whole(1, PARTITIONS_MAX);
};

const CHANGES: readonly [Change, ...Change[]] = [
  removeType,
  removeType,
  addType,
  changeTiers,
  moveToTier,
  changeFleets,
  changeFleets,
  changeSlots,
  changeCaps,
  changeCaps,
  changeGroup,
  renameGroup,
  changeTerms,
  changeTerms,
  changeWeights,
  changePartitions,
];

const draftOf = (configuration: PoolConfiguration): Draft => structuredClone(configuration) as Draft;

/** What a deployment would accept: each type has a tier and a fleet, and each partition a share of each cap. */
function settled(draft: Draft): PoolConfiguration {
  const { partitions } = draft;
  const names = draft.types.map(({ type }) => type);
  const [first] = draft.tiers;
  for (const type of draft.types) {
    if (first !== undefined && !draft.tiers.some(({ tier }) => tier === type.tier)) type.tier = first.tier;
  }
  for (const fleet of draft.fleets)
    fleet.types = [...new Set(fleet.types)].filter((type) => names.includes(type));
  draft.fleets = draft.fleets.filter(({ types }) => types.length > 0);
  const homeless = names.filter((type) => !draft.fleets.some(({ types }) => types.includes(type)));
  if (homeless.length > 0) {
    const general = draft.fleets.find(({ fleet }) => fleet === 'general');
    if (general === undefined)
      draft.fleets.push({ fleet: 'general', types: homeless, slots: partitions + 1 });
    else general.types.push(...homeless);
  }
  const atLeast = (most: number | null): number | null => (most === null ? null : Math.max(partitions, most));
  for (const type of draft.types) type.maxConcurrency = atLeast(type.maxConcurrency);
  for (const tier of draft.tiers) tier.maxConcurrency = atLeast(tier.maxConcurrency);
  for (const fleet of draft.fleets) {
    fleet.slots = atLeast(fleet.slots);
    if (fleet.slots === null) delete fleet.batchSize;
  }
  draft.maxConcurrency = atLeast(draft.maxConcurrency);
  const listed = new Set(draft.types.flatMap(({ limits = [] }) => limits));
  draft.limits = (draft.limits ?? []).filter(({ limit }) => listed.has(limit));
  for (const limit of draft.limits) {
    limit.total = atLeast(limit.total);
    const { rate, keyedBy } = limit;
    const units = (most: number | null, shares: number): number | null =>
      most === null ? null : Math.max(shares * (rate?.perJob ?? 1), most);
    if (typeof rate?.starts === 'number') limit.rate = { ...rate, starts: atLeast(rate.starts) };
    if (rate?.units !== undefined)
      limit.rate = { ...rate, units: units(rate.units, partitions), perKey: units(rate.perKey, 1) };
    if (keyedBy === undefined) continue;
    limit.perKey = atLeast(limit.perKey);
    if (rate !== undefined) limit.rate = { ...rate, ...limit.rate, perKey: units(rate.perKey, partitions) };
  }
  // A type that comes back may be under a limit that went.
  const present = draft.limits.map(({ limit }) => limit);
  for (const type of draft.types) {
    const limits = type.limits?.filter((limit) => present.includes(limit)) ?? [];
    if (limits.length === 0) delete type.limits;
    else type.limits = limits;
  }
  for (const type of draft.types) {
    const { conflictGroup, maxConcurrencyPerResource: most } = type;
    if (conflictGroup !== null) delete type.maxConcurrencyPerResource;
    else if (most !== undefined) type.maxConcurrencyPerResource = Math.max(partitions, most);
  }
  return decodeConfiguration(encodeConfiguration(draft));
}

/** By numbers that follow from the draft, so that it changes no other draw. */
function limitResources(draft: Draft): void {
  const dice = diceOf(seeded(hashText(JSON.stringify(draft))));
  const type = of(dice, draft.types);
  if (type === undefined || !dice.chance(0.3)) return;
  if (dice.chance(0.3)) delete type.maxConcurrencyPerResource;
  else type.maxConcurrencyPerResource = dice.whole(1, 4);
}

/** A job may have more units, or less than jobs that wait. By numbers that follow from the draft, as above. */
function changeUnits(draft: Draft): void {
  const dice = diceOf(seeded(hashText(JSON.stringify([draft, 'units']))));
  for (const limit of draft.limits ?? [])
    if (limit.rate?.perJob !== undefined && dice.chance(0.7))
      limit.rate = { ...limit.rate, perJob: dice.pick([1, 2, 3, 6]) };
}

/** A rate comes or goes, of a limit that is there or not, and with it its window, its bounds, its unit and its types. */
function changeRates(draft: Draft, leastWindowMs: number): void {
  const dice = diceOf(seeded(hashText(JSON.stringify([draft, 'rates']))));
  draft.limits ??= [];
  const added = 'z';
  if (draft.limits.every(({ limit }) => limit !== added) && dice.chance(RATE_ADDED)) {
    draft.limits.push({ limit: added, total: null, perKey: null, rate: rateOf(draft, dice, leastWindowMs) });
    for (const [at, type] of draft.types.entries())
      if (at === 0 || dice.chance(0.6)) type.limits = [...(type.limits ?? []), added];
    return;
  }
  for (const limit of draft.limits) {
    if (!dice.chance(0.6)) continue;
    const { limit: name, rate } = limit;
    const type = of(dice, draft.types);
    const isUnder = type?.limits?.includes(name) === true;
    switch (dice.pick(['all', 'window', 'bounds', 'none', 'type'])) {
      case 'all':
        limit.rate = rateOf(draft, dice, leastWindowMs);
        break;
      case 'window':
        if (rate !== undefined) limit.rate = { ...rate, perMs: windowOf(dice, leastWindowMs) };
        break;
      case 'bounds':
        if (rate !== undefined) limit.rate = { ...rate, ...boundsOf(draft, dice, rate.perJob) };
        break;
      case 'none':
        // A limit that bounds nothing is refused.
        if (limit.total !== null || limit.perKey !== null) delete limit.rate;
        break;
      case 'type':
        if (type === undefined) break;
        if (isUnder) type.limits = type.limits?.filter((each) => each !== name);
        else type.limits = [...(type.limits ?? []), name];
    }
    // A limit that counts by a key of its own has to bound such keys.
    if (limit.perKey === null && (limit.rate?.perKey ?? limit.budget) == null) delete limit.keyedBy;
  }
}

type Rate = NonNullable<NonNullable<PoolConfiguration['limits']>[number]['rate']>;

const windowOf = (dice: Dice, leastMs: number): number => leastMs * dice.pick([1, 1.5, 2]);

function boundsOf(
  { partitions }: Draft,
  dice: Dice,
  perJob: number | undefined,
): Pick<Rate, 'starts' | 'units' | 'perKey'> {
  const perKey = dice.chance(0.4) ? dice.whole(3, 9) * (perJob ?? 1) : null;
  const most =
    perKey !== null && dice.chance(0.4)
      ? null
      : dice.whole(partitions, 3 * partitions) * (perJob === undefined ? 1 : 2);
  return perJob === undefined ? { starts: most, perKey } : { starts: null, units: most, perKey };
}

function rateOf(draft: Draft, dice: Dice, leastWindowMs: number): Rate {
  const perJob = dice.chance(0.4) ? dice.whole(1, 5) : undefined;
  return {
    ...boundsOf(draft, dice, perJob),
    ...(perJob === undefined ? {} : { perJob }),
    perMs: windowOf(dice, leastWindowMs),
  };
}

function redeclared(dice: Dice, before: PoolConfiguration, leastWindowMs: number): PoolConfiguration {
  const draft = draftOf(before);
  const changes = dice.pick([1, 2, 4, 12]);
  for (let at = 0; at < changes; at += 1) dice.pick(CHANGES)(draft, dice);
  limitResources(draft);
  changeUnits(draft);
  changeRates(draft, leastWindowMs);
  return settled(draft);
}

/** Declares again every type that was declared once, as it was last, and lets jobs have as many units as they ever had. */
function whole(dice: Dice, all: readonly PoolConfiguration[], leastWindowMs: number): PoolConfiguration {
  const last = all.at(-1);
  if (last === undefined) throw new RangeError('nothing was declared');
  const draft = draftOf(redeclared(dice, last, leastWindowMs));
  for (const { types } of all.toReversed()) {
    for (const type of types)
      if (!draft.types.some((each) => each.type === type.type)) draft.types.push({ ...type });
  }
  for (const limit of draft.limits ?? []) {
    const allowed = all.flatMap(({ limits = [] }) =>
      limits.flatMap(({ limit: name, rate }) => (name === limit.limit ? (rate?.perJob ?? []) : [])),
    );
    if (limit.rate?.perJob !== undefined)
      limit.rate = { ...limit.rate, perJob: Math.max(limit.rate.perJob, ...allowed) };
  }
  return settled(draft);
}

function processesOf(
  dice: Dice,
  { fleets, partitions }: PoolConfiguration,
  generation: number,
): readonly PlannedProcess[] {
  return fleets.flatMap(({ fleet, slots }) =>
    slots === null
      ? Array.from({ length: dice.whole(1, 2) }, (_, at) => ({
          fleet,
          // A host's name stays, or is new with each deployment.
          workerId: dice.chance(0.5) ? `${fleet}/${at}` : `${fleet}/${generation}.${at}`,
          slots: dice.whole(partitions, partitions + 2),
        }))
      : [],
  );
}

const ROLLOUTS_MS = [0, 2_000, 30_000, 90_000] as const;

/** Undefined: this seed has one configuration. */
export function drawRedeploys(
  seed: number,
  {
    configuration,
    processes,
    faultsUntilMs,
    leastWindowMs,
  }: {
    readonly configuration: PoolConfiguration;
    readonly processes: readonly PlannedProcess[];
    readonly faultsUntilMs: number;
    /** The shortest window of a rate: no clocks may differ by more than a part of it. */
    readonly leastWindowMs: number;
  },
): PlannedRedeploys | undefined {
  const dice = diceOf(seeded(seed ^ REDEPLOY_DICE));
  if (!dice.chance(REDEPLOYED)) return undefined;
  const first: PlannedDeployment = { atMs: 0, configuration, processes, rolloutMs: 0, isRollback: false };
  const deployments: [PlannedDeployment, ...PlannedDeployment[]] = [first];
  const count = dice.pick([1, 1, 2, 3, 6]);
  const spreadMs = Math.min(faultsUntilMs, dice.pick([20_000, 90_000, 400_000]));
  for (let at = 1; at <= count; at += 1) {
    const former = deployments.at(-1) ?? first;
    const earlier = of(dice, deployments) ?? first;
    const isRollback = at > 1 && dice.chance(0.3);
    const declared = isRollback
      ? earlier.configuration
      : redeclared(dice, former.configuration, leastWindowMs);
    deployments.push({
      // Two may race.
      atMs: dice.chance(0.2) ? former.atMs + dice.whole(0, 500) : Math.round(dice.between(200, spreadMs)),
      configuration: declared,
      processes: processesOf(dice, declared, at),
      rolloutMs: dice.pick(ROLLOUTS_MS),
      againMs: dice.chance(0.2) ? dice.pick([100, 20_000, 200_000]) : undefined,
      isRollback,
    });
  }
  const all = whole(
    dice,
    deployments.map((each) => each.configuration),
    leastWindowMs,
  );
  const rolloutMs = dice.pick(ROLLOUTS_MS);
  const finale = {
    atMs: 0,
    configuration: all,
    processes: processesOf(dice, all, count + 1),
    rolloutMs,
    isRollback: false,
  };
  return { deployments, finale };
}

/** Of a seed with redeploys: some jobs are of types that come, or go. */
export function withOtherTypes<T extends { readonly type: string }>(
  seed: number,
  jobs: readonly T[],
  { finale }: PlannedRedeploys,
): readonly T[] {
  const dice = diceOf(seeded(seed ^ REDEPLOY_DICE ^ 1));
  const { types } = finale.configuration;
  return jobs.map((job) => {
    const type = of(dice, types)?.type ?? job.type;
    return dice.chance(0.3) ? { ...job, type } : job;
  });
}

/** Each configuration that may be declared. */
export const configurationsOf = ({
  configuration,
  redeploys,
}: {
  readonly configuration: PoolConfiguration;
  readonly redeploys?: PlannedRedeploys | undefined;
}): readonly PoolConfiguration[] =>
  redeploys === undefined
    ? [configuration]
    : [...redeploys.deployments, redeploys.finale].map((each) => each.configuration);
