/**
 * The capacity of a pool. Types, tiers and fleets are numbers here: their index in the configuration.
 *
 * - `PoolIndex`: these numbers. A class is a type and a mode; all its jobs are ranked alike.
 * - `Gates`: the pool, its tiers and its types, each with its cap, its pause and its count of running jobs.
 * - `Fleets`: slots, by fleet.
 * - `Control`: an operator's override of a cap, a pause or a weight. `weightsWithOverrides`: the weights of fairness keys with
 *   the overrides in them.
 * - `Skips`: the tiers, types, keys and jobs that were skipped, collected until the next decision lists them among its
 *   reasons.
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

// The slots of a fleet without a bound: more than any fleet has, and small enough that sums over fleets stay exact.
const UNLIMITED = 2 ** 40;

export interface PoolIndex {
  readonly types: readonly JobTypeConfiguration[];
  readonly typeNumbers: ReadonlyMap<string, number>;
  readonly tiers: readonly TierConfiguration[];
  readonly tierNumbers: ReadonlyMap<string, number>;
  readonly tierOfType: Int32Array;
  /** By tier: the classes of its types. */
  readonly classesOfTier: readonly Int32Array[];
  /** By type; undefined for a type whose jobs exclude no others. */
  readonly conflictRules: readonly (ConflictRule | undefined)[];
  readonly classes: number;
}

/** The most jobs that one message to a fleet of functions names. */
export const BATCH_SIZE_MAX = 10;

/**
 * Returns the most jobs that one message to this fleet names. Long-running workers receive one message for each free
 * slot.
 */
export const jobsPerMessage = ({ slots, batchSize = BATCH_SIZE_MAX }: FleetConfiguration): number =>
  slots === null ? 1 : batchSize;

/**
 * Numbers the types and tiers of a configuration.
 * @throws ConfigurationError for a type in a tier that is not declared.
 */
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

/** The parts of a control that operators change independently. */
export const CONTROL_FIELDS = ['paused', 'maxConcurrency', 'weight'] as const;

export type ControlField = (typeof CONTROL_FIELDS)[number];

/**
 * Changes to one scope that its declaration does not have: an operator's pause, cap and weight, and a rest that a
 * handler asked for.
 */
export interface Control {
  /** A scope as `printScope` writes it. */
  readonly scope: string;
  readonly paused: boolean;
  /** Replaces the configured cap. */
  readonly maxConcurrency?: number | undefined;
  /** Replaces the configured weight of a fairness key. */
  readonly weight?: number | undefined;
  /** A handler has asked for a cool-down: no job of the scope starts before this instant, epoch ms. */
  readonly restsUntilMs?: number | undefined;
  /** The last changes by operators, the oldest first; absent: none. */
  readonly changes?: readonly ControlEntry[] | undefined;
}

/** One change that an operator made to the pause, the cap or the weight of a scope. */
export interface ControlEntry {
  readonly field: ControlField;
  /** The new value. Null: the configured value applies again. */
  readonly to: boolean | number | null;
  readonly atMs: number;
  /** The change ends by itself at this instant, epoch ms; absent: it stays. */
  readonly untilMs?: number | undefined;
  readonly reason?: string | undefined;
  /** The person or tool that changed it. */
  readonly by?: string | undefined;
}

/** The longest reason of a change, in UTF-8 bytes. */
export const REASON_BYTES_MAX = 256;

/** How many changes of its pause, of its cap and of its weight a control keeps, for each of the three. */
export const CONTROL_CHANGES_MAX = 10;

/**
 * Returns the last change that operators made to the pause, the cap or the weight. Undefined: the control keeps none.
 */
export const lastChange = ({ changes }: Control, field: ControlField): ControlEntry | undefined =>
  changes?.findLast((entry) => entry.field === field);

/** Returns the control as it is in force at `nowMs`: without the changes and the rest that have ended by then. */
export function controlAt(control: Control, nowMs: number): Control {
  const { scope, paused, maxConcurrency, weight, restsUntilMs, changes } = control;
  const isOver = (field: ControlField): boolean =>
    (lastChange(control, field)?.untilMs ?? Number.POSITIVE_INFINITY) <= nowMs;
  return {
    scope,
    // planted: pauses-for-ever
    paused: !isOver('paused') && paused,
    ...(maxConcurrency === undefined || isOver('maxConcurrency') ? {} : { maxConcurrency }),
    ...(weight === undefined || isOver('weight') ? {} : { weight }),
    ...(restsUntilMs === undefined || restsUntilMs <= nowMs ? {} : { restsUntilMs }),
    ...(changes === undefined ? {} : { changes }),
  };
}

/** Whether a control that is in force lets no job of its scope start. */
export const isClosed = ({ paused, restsUntilMs }: Control): boolean =>
  // planted: rests-ignored
  restsUntilMs !== undefined || paused;

/**
 * Returns the epoch ms at which the first of the pause, the cap, the weight and the rest of a control ends. Infinity:
 * none of them ends by itself.
 */
export const nextEndMs = (control: Control): number =>
  Math.min(
    control.restsUntilMs ?? Number.POSITIVE_INFINITY,
    ...CONTROL_FIELDS.filter((field) => control[field] !== undefined && control[field] !== false).map(
      (field) => lastChange(control, field)?.untilMs ?? Number.POSITIVE_INFINITY,
    ),
  );

/** A scope that can be capped and paused, with the number of jobs that run in it. */
export interface Gate {
  /** The most jobs that may run in the scope; Infinity: no cap. */
  cap: number;
  paused: boolean;
  running: number;
}

export class Gates {
  readonly pool: Gate;
  readonly tiers: readonly Gate[];
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

  /** Counts a started job of this type and tier; -1 stands for a type or tier that is not configured. */
  count(type: number, tier: number): void {
    this.pool.running += 1;
    if (type !== NONE) (this.types[type] as Gate).running += 1;
    if (tier !== NONE) (this.tiers[tier] as Gate).running += 1;
  }

  /** Removes an ended job from the counts. */
  uncount(type: number, tier: number): void {
    this.pool.running -= 1;
    if (type !== NONE) (this.types[type] as Gate).running -= 1;
    if (tier !== NONE) (this.tiers[tier] as Gate).running -= 1;
  }

  overridePool(override: Control): void {
    overrideGate(this.pool, this.#configuration.maxConcurrency, override);
  }

  /** Sets the cap and the pause of a tier. An unknown tier has no effect. */
  overrideTier(name: string, override: Control): void {
    const tier = this.#index.tierNumbers.get(name);
    if (tier === undefined) return;
    const { maxConcurrency } = this.#configuration.tiers[tier] as TierConfiguration;
    overrideGate(this.tiers[tier] as Gate, maxConcurrency, override);
  }

  /** Sets the cap and the pause of a type. An unknown type has no effect. */
  overrideType(name: string, override: Control): void {
    const type = this.#index.typeNumbers.get(name);
    if (type === undefined) return;
    const { maxConcurrency } = this.#configuration.types[type] as JobTypeConfiguration;
    overrideGate(this.types[type] as Gate, maxConcurrency, override);
  }
}

/** Returns a gate with this cap (null: none), which counts no running job yet. */
export function gateOf(cap: number | null): Gate {
  return { cap: cap ?? Number.POSITIVE_INFINITY, paused: false, running: 0 };
}

/** Sets a gate's cap and pause by an operator's override. `configured`: the declared cap, which applies if the override has none. */
export function overrideGate(gate: Gate, configured: number | null, override: Control): void {
  gate.cap = override.maxConcurrency ?? configured ?? Number.POSITIVE_INFINITY;
  gate.paused = isClosed(override);
}

/**
 * Slots by fleet; a slot is room for one running job. Source: affinity-scoring, "The slot pool" and "Slot selection". A
 * pass needs only counts, because the workers of a fleet are alike. A job goes to the fleet with the fewest types among
 * those that can run its type, so that versatile fleets stay free for jobs that only they can run. The fleet configured
 * first wins ties. The choice is greedy, as in the source: it cannot be optimal without knowledge of future jobs.
 *
 * A fleet's room for new jobs is the lesser of its slots and its cap, minus its running jobs.
 */
export class Fleets {
  readonly names: readonly string[];
  /** By type: the fleets that run it, in the order in which they are chosen. */
  readonly #fleetsOfType: readonly Int32Array[];
  readonly #typesOfFleet: readonly Int32Array[];
  readonly #slots: Float64Array;
  readonly #caps: Float64Array;
  readonly #busy: Float64Array;
  readonly #room: Float64Array;
  readonly #roomOfType: Float64Array;
  #totalRoom = 0;

  constructor(fleets: readonly FleetConfiguration[], types: readonly string[]) {
    this.names = fleets.map((fleet) => fleet.fleet);
    const numbers = new Map(types.map((type, index) => [type, index]));
    const typesOfFleet = fleets.map((fleet) => {
      const distinct = new Set(fleet.types);
      return [...distinct].flatMap((type) => numbers.get(type) ?? []);
    });
    const typeCount = fleets.map((fleet) => new Set(fleet.types).size);
    this.#typesOfFleet = typesOfFleet.map((own) => Int32Array.from(own));
    this.#fleetsOfType = types.map((_, type) =>
      Int32Array.from(
        fleets
          .map((_, fleet) => fleet)
          .filter((fleet) => (typesOfFleet[fleet] as readonly number[]).includes(type))
          // The sort is stable: fleets with as many types keep the order of the configuration.
          .sort((a, b) => (typeCount[a] as number) - (typeCount[b] as number)),
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

  /** Sets how many slots a fleet has, including busy ones. */
  setSlots(fleet: number, slots: number): void {
    this.#slots[fleet] = Math.min(slots, UNLIMITED);
    this.#updateRoom(fleet);
  }

  /** Sets how many jobs a fleet may run, even if it has more slots; null for no cap. */
  setCap(fleet: number, cap: number | null): void {
    this.#caps[fleet] = cap === null ? UNLIMITED : Math.min(cap, UNLIMITED);
    this.#updateRoom(fleet);
  }

  /** Returns how many more jobs of the type may start, over all its fleets. O(1). */
  roomOfType(type: number): number {
    return this.#roomOfType[type] ?? 0;
  }

  /** Returns how many more jobs may start, over all fleets. */
  get room(): number {
    return this.#totalRoom;
  }

  roomOf(fleet: number): number {
    return this.#room[fleet] ?? 0;
  }

  busyOf(fleet: number): number {
    return this.#busy[fleet] ?? 0;
  }

  /** Returns the names of the fleets that run the type, in the order in which they are chosen. */
  namesFor(type: number): readonly string[] {
    return [...(this.#fleetsOfType[type] ?? [])].map((fleet) => this.names[fleet] as string);
  }

  /** Returns the fleet that runs the next job of the type; -1: all its fleets are full. */
  choose(type: number): number {
    const fleets = this.#fleetsOfType[type];
    if (fleets === undefined) return -1;
    for (let index = 0; index < fleets.length; index += 1) {
      const fleet = fleets[index] as number;
      if ((this.#room[fleet] as number) > 0) return fleet;
    }
    return -1;
  }

  /** Counts a running job, even if the fleet has no room for it. */
  take(fleet: number): void {
    this.#busy[fleet] = this.busyOf(fleet) + 1;
    this.#updateRoom(fleet);
  }

  /** Removes an ended job from the count. */
  give(fleet: number): void {
    this.#busy[fleet] = this.busyOf(fleet) - 1;
    this.#updateRoom(fleet);
  }

  #updateRoom(fleet: number): void {
    const limit = Math.min(this.#slots[fleet] as number, this.#caps[fleet] as number);
    const room = Math.max(0, limit - (this.#busy[fleet] as number));
    const change = room - (this.#room[fleet] as number);
    if (change === 0) return;
    this.#room[fleet] = room;
    this.#totalRoom += change;
    const types = this.#typesOfFleet[fleet] as Int32Array;
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      this.#roomOfType[type] = (this.#roomOfType[type] as number) + change;
    }
  }
}

/** A tier, type, key or job that was skipped, and why. */
export type Skip =
  | { readonly kind: 'tier'; readonly tier: string; readonly why: 'cap' | 'paused' }
  | { readonly kind: 'type'; readonly type: string; readonly why: 'cap' | 'paused' | 'limit' | 'noSlot' }
  | { readonly kind: 'key'; readonly fairnessKey: string; readonly why: 'cap' | 'paused' | 'limit' }
  | { readonly kind: 'job'; readonly id: string; readonly why: 'conflict'; readonly conflictKey: string };

interface GateSkips {
  readonly capped: Skip;
  readonly paused: Skip;
}

interface TypeSkips extends GateSkips {
  readonly limited: Skip;
  readonly full: Skip;
}

const NO_SKIPS: readonly Skip[] = [];

export class Skips {
  /** By tier. Skips of tiers and types are the most frequent ones, so each object is made once. */
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
      limited: { kind: 'type', type, why: 'limit' },
      full: { kind: 'type', type, why: 'noSlot' },
    }));
  }

  /** The skips since the last `take`. */
  get list(): readonly Skip[] {
    return this.#skipped;
  }

  /** Returns the skips since the last `take` and clears the list. */
  take(): readonly Skip[] {
    if (this.#skipped.length === 0) return NO_SKIPS;
    const skipped = this.#skipped;
    this.#skipped = [];
    return skipped;
  }

  /** Records a tier whose gate is closed. */
  addTier(tier: number, gate: Gate): void {
    const { capped, paused } = this.#tiers[tier] as GateSkips;
    this.#addOnce(gate.paused ? paused : capped);
  }

  /** Records a type whose gate is closed, that a limit holds, or whose fleets have no free slot. */
  addType(type: number, gate: Gate, isLimited: boolean): void {
    const { capped, paused, limited, full } = this.#types[type] as TypeSkips;
    this.#addOnce(gate.paused ? paused : gate.running >= gate.cap ? capped : isLimited ? limited : full);
  }

  addKey(fairnessKey: string, why: 'cap' | 'paused' | 'limit'): void {
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
 * The weights of fairness keys: an operator's override, or else the configured weight.
 *
 * The keys line knows no weights. It is sorted by settled cost, which is the order of shares among keys of the default
 * weight. A pass reads keys with a weight of their own by name, beside the keys line. So a changed weight applies to
 * the whole backlog from the next pass on, whether an operator or a deployment has changed it.
 */
export interface Weights {
  readonly of: (fairnessKey: string) => number;
  /** Keys with a weight of their own, from the configuration or from an override. */
  readonly named: readonly string[];
}

export function weightsWithOverrides(
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
    // Each pass asks for the weights of thousands of keys, and most pools have no key with its own weight.
    of:
      named.length === 0
        ? () => defaultWeight
        : (key) => overrides.get(key) ?? weightOf(weights, defaultWeight, key),
    named,
  };
}
