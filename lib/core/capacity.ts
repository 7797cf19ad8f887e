/**
 * What a pool has room for. Its types, tiers and fleets are numbers here: places in the configuration.
 *
 *  - `PoolIndex`: these numbers. A class is a type and a mode: all its jobs are ranked alike.
 *  - `Gates`: what can be capped and paused, with how many jobs run in it: the pool, its tiers and its types.
 *  - `Fleets`: slots, by fleet.
 *  - `Control`: what an operator changes of all that, and of fairness keys; `weightsNow`: what these weigh then.
 *  - `Skips`: what decisions pass over, kept until a decision takes it along as one of its reasons.
 */

import type {
  FleetConfiguration,
  JobTypeConfiguration,
  PoolConfiguration,
  TierConfiguration,
} from './configuration.ts';
import { type ConflictRule, conflictRuleOf } from './conflict.ts';
import { ConfigurationError } from './errors.ts';
import type { JobMode } from './job.ts';
import { NONE } from './job-table.ts';
import { nameIn } from './scope.ts';
import { weightOf } from './score.ts';

// Far more slots than anybody has, and small enough that sums over fleets stay exact.
const UNLIMITED = 2 ** 40;

export interface PoolIndex {
  readonly types: readonly JobTypeConfiguration[];
  readonly typeNumbers: ReadonlyMap<string, number>;
  readonly tiers: readonly TierConfiguration[];
  readonly tierNumbers: ReadonlyMap<string, number>;
  readonly tierOfType: Int32Array;
  /** By tier: its classes. */
  readonly classesOfTier: readonly Int32Array[];
  /** By type; undefined: nothing excludes its jobs. */
  readonly conflictRules: readonly (ConflictRule | undefined)[];
  readonly classes: number;
}

/** So many jobs one message to a fleet of functions names at most. */
export const BATCH_SIZE_MAX = 10;

/** Jobs that one message to the fleet names at most. Long-running workers take a message for each free slot. */
export const jobsPerMessage = ({ slots, batchSize = BATCH_SIZE_MAX }: FleetConfiguration): number =>
  slots === null ? 1 : batchSize;

/** @throws ConfigurationError for a type in a tier that is not declared. */
export function indexPool(configuration: Pick<PoolConfiguration, 'types' | 'tiers'>): PoolIndex {
  const { types, tiers } = configuration;
  const tierNumbers = new Map(tiers.map((tier, index) => [tier.tier, index]));
  const tierOfType = Int32Array.from(types, ({ type, tier }) => {
    const number = tierNumbers.get(tier);
    if (number !== undefined) return number;
    throw new ConfigurationError(
      `types.${type}.tier`,
      tier,
      `names no declared tier (${tiers.map((candidate) => candidate.tier).join(', ')})`,
      'Declare it in tiers, or name one of those.',
    );
  });
  return {
    types,
    typeNumbers: new Map(types.map(({ type }, index) => [type, index])),
    tiers,
    tierNumbers,
    tierOfType,
    classesOfTier: tiers.map((_, tier) =>
      Int32Array.from(
        types.flatMap((_, type) =>
          tierOfType[type] === tier ? [classOf(type, 'queued'), classOf(type, 'onDemand')] : [],
        ),
      ),
    ),
    conflictRules: types.map(conflictRuleOf),
    classes: types.length * 2,
  };
}

export function classOf(type: number, mode: JobMode): number {
  return type * 2 + (mode === 'onDemand' ? 1 : 0);
}

export function typeOf(class_: number): number {
  return class_ >> 1;
}

export function isOnDemand(class_: number): boolean {
  return (class_ & 1) === 1;
}

/** An operator's override for one scope. */
export interface Control {
  /** As `printScope` writes it. */
  readonly scope: string;
  readonly paused: boolean;
  /** Instead of the configured cap. */
  readonly maxConcurrency?: number | undefined;
  /** Of a fairness key. */
  readonly weight?: number | undefined;
}

/** A scope that can be capped and paused, with the jobs that run in it. */
export interface Gate {
  /** Infinity: no cap. */
  cap: number;
  paused: boolean;
  running: number;
}

export class Gates {
  readonly pool: Gate;
  /** By the tier's number. */
  readonly tiers: readonly Gate[];
  /** By the type's number. */
  readonly types: readonly Gate[];
  readonly #configuration: PoolConfiguration;
  readonly #index: PoolIndex;

  constructor(configuration: PoolConfiguration, index: PoolIndex) {
    this.#configuration = configuration;
    this.#index = index;
    this.pool = gateOf(configuration.maxConcurrency);
    this.tiers = configuration.tiers.map((tier) => gateOf(tier.maxConcurrency));
    this.types = configuration.types.map((type) => gateOf(type.maxConcurrency));
  }

  /** A job of this type and tier starts; -1 stands for one that is not configured. */
  count(type: number, tier: number): void {
    this.pool.running += 1;
    if (type !== NONE) (this.types[type] as Gate).running += 1;
    if (tier !== NONE) (this.tiers[tier] as Gate).running += 1;
  }

  /** A job that was counted has ended. */
  uncount(type: number, tier: number): void {
    this.pool.running -= 1;
    if (type !== NONE) (this.types[type] as Gate).running -= 1;
    if (tier !== NONE) (this.tiers[tier] as Gate).running -= 1;
  }

  overridePool(override: Control): void {
    overrideGate(this.pool, this.#configuration.maxConcurrency, override);
  }

  /** An unknown tier is a no-op. */
  overrideTier(name: string, override: Control): void {
    const tier = this.#index.tierNumbers.get(name);
    if (tier === undefined) return;
    const { maxConcurrency } = this.#configuration.tiers[tier] as TierConfiguration;
    overrideGate(this.tiers[tier] as Gate, maxConcurrency, override);
  }

  /** An unknown type is a no-op. */
  overrideType(name: string, override: Control): void {
    const type = this.#index.typeNumbers.get(name);
    if (type === undefined) return;
    const { maxConcurrency } = this.#configuration.types[type] as JobTypeConfiguration;
    overrideGate(this.types[type] as Gate, maxConcurrency, override);
  }
}

function gateOf(cap: number | null): Gate {
  return { cap: cap ?? Number.POSITIVE_INFINITY, paused: false, running: 0 };
}

function overrideGate(gate: Gate, configured: number | null, override: Control): void {
  gate.cap = override.maxConcurrency ?? configured ?? Number.POSITIVE_INFINITY;
  gate.paused = override.paused;
}

/**
 * Counts of slots by fleet: a slot is room for one running job. Source: affinity-scoring, "The slot pool" and "Slot selection".
 * That is all that a pass needs, because a fleet's workers are alike. Of the fleets that can run the type, the one with the fewest
 * types is chosen, so that versatile ones stay free for what only they can do; ties go to the fleet configured first. It is
 * greedy, as in the text: not globally optimal without knowing future jobs.
 *
 * Room is what is free for new jobs: slots or the cap, whichever is less, minus the jobs that are running.
 */
export class Fleets {
  readonly names: readonly string[];
  /** By type: the fleets that take it, in the order in which they are chosen. */
  readonly #fleetsOfType: readonly Int32Array[];
  readonly #typesOfFleet: readonly Int32Array[];
  readonly #slots: Float64Array;
  readonly #caps: Float64Array;
  readonly #busy: Float64Array;
  readonly #room: Float64Array;
  readonly #roomOfType: Float64Array;
  #roomInAll = 0;

  constructor(fleets: readonly FleetConfiguration[], types: readonly string[]) {
    this.names = fleets.map((fleet) => fleet.fleet);
    const numbers = new Map(types.map((type, index) => [type, index]));
    const typesOfFleet = fleets.map((fleet) => {
      const distinct = new Set(fleet.types);
      return [...distinct].flatMap((type) => numbers.get(type) ?? []);
    });
    const breadth = fleets.map((fleet) => new Set(fleet.types).size);
    this.#typesOfFleet = typesOfFleet.map((own) => Int32Array.from(own));
    this.#fleetsOfType = types.map((_, type) =>
      Int32Array.from(
        fleets
          .map((_, fleet) => fleet)
          .filter((fleet) => (typesOfFleet[fleet] as readonly number[]).includes(type))
          // Equals stay in the order of the configuration.
          .sort((a, b) => (breadth[a] as number) - (breadth[b] as number)),
      ),
    );
    this.#slots = new Float64Array(fleets.length);
    this.#caps = new Float64Array(fleets.length).fill(UNLIMITED);
    this.#busy = new Float64Array(fleets.length);
    this.#room = new Float64Array(fleets.length);
    this.#roomOfType = new Float64Array(types.length);
    fleets.forEach((fleet, index) => {
      this.setSlots(index, fleet.slots ?? 0);
    });
  }

  /** How many slots a fleet has, busy ones included. */
  setSlots(fleet: number, slots: number): void {
    this.#slots[fleet] = Math.min(slots, UNLIMITED);
    this.#settle(fleet);
  }

  /** How many jobs a fleet may run, whatever its slots; null for no cap. */
  setCap(fleet: number, cap: number | null): void {
    this.#caps[fleet] = cap === null ? UNLIMITED : Math.min(cap, UNLIMITED);
    this.#settle(fleet);
  }

  /** Room for the type, over all its fleets: O(1). */
  roomOfType(type: number): number {
    return this.#roomOfType[type] ?? 0;
  }

  /** Room over all fleets. */
  get room(): number {
    return this.#roomInAll;
  }

  roomOf(fleet: number): number {
    return this.#room[fleet] ?? 0;
  }

  busyOf(fleet: number): number {
    return this.#busy[fleet] ?? 0;
  }

  /** The fleets that take the type, in the order in which they are chosen. */
  namesFor(type: number): readonly string[] {
    return [...(this.#fleetsOfType[type] ?? [])].map((fleet) => this.names[fleet] as string);
  }

  /** The fleet on which a job of the type is placed, or -1 where all are full. */
  choose(type: number): number {
    const fleets = this.#fleetsOfType[type];
    if (fleets === undefined) return -1;
    for (let index = 0; index < fleets.length; index += 1) {
      const fleet = fleets[index] as number;
      if ((this.#room[fleet] as number) > 0) return fleet;
    }
    return -1;
  }

  /** Counts a job in, whether there is room or not: what runs, runs. */
  take(fleet: number): void {
    this.#busy[fleet] = this.busyOf(fleet) + 1;
    this.#settle(fleet);
  }

  /** Counts a job out. */
  give(fleet: number): void {
    this.#busy[fleet] = this.busyOf(fleet) - 1;
    this.#settle(fleet);
  }

  #settle(fleet: number): void {
    const limit = Math.min(this.#slots[fleet] as number, this.#caps[fleet] as number);
    const room = Math.max(0, limit - (this.#busy[fleet] as number));
    const change = room - (this.#room[fleet] as number);
    if (change === 0) return;
    this.#room[fleet] = room;
    this.#roomInAll += change;
    const types = this.#typesOfFleet[fleet] as Int32Array;
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      this.#roomOfType[type] = (this.#roomOfType[type] as number) + change;
    }
  }
}

/** What a decision passed over, and why. */
export type Skip =
  | { readonly kind: 'tier'; readonly tier: string; readonly why: 'cap' | 'paused' }
  | { readonly kind: 'type'; readonly type: string; readonly why: 'cap' | 'paused' | 'noSlot' }
  | { readonly kind: 'key'; readonly fairnessKey: string; readonly why: 'cap' | 'paused' }
  | { readonly kind: 'job'; readonly id: string; readonly why: 'conflict'; readonly conflictKey: string };

interface GateSkips {
  readonly capped: Skip;
  readonly paused: Skip;
}

interface TypeSkips extends GateSkips {
  readonly full: Skip;
}

const NOTHING: readonly Skip[] = [];

export class Skips {
  /** What is said most often is made once. */
  readonly #tiers: readonly GateSkips[];
  readonly #types: readonly TypeSkips[];
  #skipped: Skip[] = [];

  constructor(configuration: PoolConfiguration) {
    this.#tiers = configuration.tiers.map(({ tier }) => ({
      capped: { kind: 'tier', tier, why: 'cap' },
      paused: { kind: 'tier', tier, why: 'paused' },
    }));
    this.#types = configuration.types.map(({ type }) => ({
      capped: { kind: 'type', type, why: 'cap' },
      paused: { kind: 'type', type, why: 'paused' },
      full: { kind: 'type', type, why: 'noSlot' },
    }));
  }

  /** What was passed over since it was last taken. */
  get list(): readonly Skip[] {
    return this.#skipped;
  }

  /** The same, and forgets it. */
  take(): readonly Skip[] {
    if (this.#skipped.length === 0) return NOTHING;
    const skipped = this.#skipped;
    this.#skipped = [];
    return skipped;
  }

  /** A tier by its number: its gate is closed. */
  addTier(tier: number, gate: Gate): void {
    const { capped, paused } = this.#tiers[tier] as GateSkips;
    this.#addOnce(gate.paused ? paused : capped);
  }

  /** A type by its number: its gate is closed, or no fleet that takes it has a free slot. */
  addType(type: number, gate: Gate): void {
    const { capped, paused, full } = this.#types[type] as TypeSkips;
    this.#addOnce(gate.paused ? paused : gate.running >= gate.cap ? capped : full);
  }

  addKey(fairnessKey: string, why: 'cap' | 'paused'): void {
    this.#skipped.push({ kind: 'key', fairnessKey, why });
  }

  addJob(id: string, conflictKey: string): void {
    this.#skipped.push({ kind: 'job', id, why: 'conflict', conflictKey });
  }

  #addOnce(skip: Skip): void {
    if (!this.#skipped.includes(skip)) this.#skipped.push(skip);
  }
}

/**
 * What a fairness key weighs now: an operator's override, else what the configuration says.
 *
 * The keys line knows nothing of weights: it is in the order of settled costs, which is the order of shares among keys of
 * the default weight. Keys with a weight of their own are read by name beside it, so a weight acts on the whole backlog
 * from the next pass on, wherever the key stands, whether an operator changes it or a deployment does.
 */
export interface Weights {
  readonly of: (fairnessKey: string) => number;
  /** Keys with a weight of their own: those that the configuration names, and those that are overridden. */
  readonly named: readonly string[];
}

export function weightsNow(
  { fairness }: Pick<PoolConfiguration, 'fairness'>,
  controls: readonly Control[],
): Weights {
  const { weights, defaultWeight } = fairness;
  const overrides = new Map(
    controls.flatMap(({ scope, weight }) => {
      const fairnessKey = nameIn('fairnessKey', scope);
      return fairnessKey === undefined || weight === undefined ? [] : [[fairnessKey, weight] as const];
    }),
  );
  const named = [...new Set([...Object.keys(weights), ...overrides.keys()])];
  return {
    // Each pass asks for thousands of keys, and most pools name none.
    of:
      named.length === 0
        ? () => defaultWeight
        : (key) => overrides.get(key) ?? weightOf(weights, defaultWeight, key),
    named,
  };
}
