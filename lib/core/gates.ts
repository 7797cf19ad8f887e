/** What can be capped and paused, with how many jobs run in it: the pool, its tiers and its types. */
import type { JobTypeConfiguration, PoolConfiguration, TierConfiguration } from './configuration.ts';
import { NONE } from './job-table.ts';
import type { PoolIndex } from './pool-index.ts';

/** An operator's override for one scope. */
export interface Override {
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

  overridePool(override: Override): void {
    overrideGate(this.pool, this.#configuration.maxConcurrency, override);
  }

  /** An unknown tier is a no-op. */
  overrideTier(name: string, override: Override): void {
    const tier = this.#index.tierNumbers.get(name);
    if (tier === undefined) return;
    const { maxConcurrency } = this.#configuration.tiers[tier] as TierConfiguration;
    overrideGate(this.tiers[tier] as Gate, maxConcurrency, override);
  }

  /** An unknown type is a no-op. */
  overrideType(name: string, override: Override): void {
    const type = this.#index.typeNumbers.get(name);
    if (type === undefined) return;
    const { maxConcurrency } = this.#configuration.types[type] as JobTypeConfiguration;
    overrideGate(this.types[type] as Gate, maxConcurrency, override);
  }
}

function gateOf(cap: number | null): Gate {
  return { cap: cap ?? Number.POSITIVE_INFINITY, paused: false, running: 0 };
}

function overrideGate(gate: Gate, configured: number | null, override: Override): void {
  gate.cap = override.maxConcurrency ?? configured ?? Number.POSITIVE_INFINITY;
  gate.paused = override.paused;
}
