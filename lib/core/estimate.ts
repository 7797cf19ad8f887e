/**
 * Learned costs: an exponential moving average of the run time for each (type, resource).
 * Source: fair-queuing, "Cost Estimation".
 *
 *   mean_n = alpha x observed + (1 - alpha) x mean_(n-1)
 *   variance_n = (1 - alpha) x (variance_(n-1) + alpha x (observed - mean_(n-1))^2)
 * where mean_0 is what would have been charged without knowledge of the resource: the type's own average, or its
 * default cost. Only successes teach: a failure's time says nothing about the work, and failing fast must not become cheap.
 * The type's own average is kept under the empty resource. Costs are milliseconds; the formulas do not depend on the unit.
 */
import type { FairnessConfiguration } from './configuration.ts';

/** What is known of one (type, resource). */
export interface Estimate {
  readonly meanMs: number;
  readonly varianceMs2: number;
  /** Successes it was learned from; 0 for one that was set from outside. */
  readonly samples: number;
}

/** The estimate after one more success. `startMs` is the cost that was expected of a resource never seen. */
export function observe(
  known: Estimate | undefined,
  observedMs: number,
  startMs: number,
  alpha: number,
): Estimate {
  const before = known ?? { meanMs: startMs, varianceMs2: 0, samples: 0 };
  const surprise = observedMs - before.meanMs;
  return {
    meanMs: alpha * observedMs + (1 - alpha) * before.meanMs,
    varianceMs2: (1 - alpha) * (before.varianceMs2 + alpha * surprise * surprise),
    samples: before.samples + 1,
  };
}

/** What an attempt is expected to cost: known for the resource, or else for the type, or else the type's default. */
export function expectedCostMs(
  ofResource: Estimate | undefined,
  ofType: Estimate | undefined,
  defaultCostMs: number,
): number {
  return ofResource?.meanMs ?? ofType?.meanMs ?? defaultCostMs;
}

/** The resource under which a type's own average is kept. */
export const WHOLE_TYPE = '';

/** An estimate with what it belongs to. */
export interface NamedEstimate extends Estimate {
  readonly type: string;
  readonly resourceId: string;
}

interface Entry {
  readonly resourceId: string;
  meanMs: number;
  varianceMs2: number;
  samples: number;
  /** False until something is learned, or set. */
  isKnown: boolean;
  /** Jobs that wait or run: an entry in use is never dropped. */
  users: number;
  lastSeenMs: number;
}

/** What is known of one type: as a whole, and by resource. */
export class TypeEstimates {
  readonly #fairness: FairnessConfiguration;
  readonly #counts: boolean;
  readonly #learnsWhole: boolean;
  readonly #whole: Entry = newEntry(WHOLE_TYPE, 0);
  readonly #byResource = new Map<string, Entry>();

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
    // What is never dropped need not be counted.
    this.#counts = fairness.estimateTtlMs !== null;
    this.#learnsWhole = fairness.estimateFallback !== 'default';
  }

  /** Puts in what was learned earlier. */
  set(resourceId: string, estimate: Estimate, nowMs: number): void {
    const entry = this.#entry(resourceId, nowMs);
    learn(entry, estimate);
    see(entry, nowMs);
  }

  get(resourceId: string): Estimate | undefined {
    const entry = resourceId === WHOLE_TYPE ? this.#whole : this.#byResource.get(resourceId);
    if (entry?.isKnown !== true) return undefined;
    return { meanMs: entry.meanMs, varianceMs2: entry.varianceMs2, samples: entry.samples };
  }

  /** What an attempt is expected to cost. */
  costMs(resourceId: string = WHOLE_TYPE, defaultCostMs: number): number {
    const whole = this.#whole;
    if (resourceId === WHOLE_TYPE) return whole.isKnown ? whole.meanMs : defaultCostMs;
    return expectedCostMs(
      known(this.#byResource.get(resourceId)),
      this.#learnsWhole ? known(whole) : undefined,
      defaultCostMs,
    );
  }

  /**
   * A job came: what is known of its cost is kept until it has ended. Answers its resource as it is called here: one text
   * for all jobs of a resource is found without comparing its letters.
   */
  arrive(resourceId: string | undefined, nowMs: number): string | undefined {
    if (!this.#counts) return resourceId;
    use(this.#whole, nowMs);
    if (resourceId === undefined || resourceId === WHOLE_TYPE) return resourceId;
    const entry = this.#entry(resourceId, nowMs);
    use(entry, nowMs);
    return entry.resourceId;
  }

  /** A job ended, or was withdrawn; `observedMs` only if it succeeded. */
  end(
    resourceId: string = WHOLE_TYPE,
    defaultCostMs: number,
    observedMs: number | undefined,
    nowMs: number,
  ): void {
    if (observedMs === undefined && !this.#counts) return;
    const { alpha } = this.#fairness;
    const whole = this.#whole;
    // Taken before the type's own average learns from this very attempt.
    const expectedMs = this.#learnsWhole && whole.isKnown ? whole.meanMs : defaultCostMs;
    if (this.#counts) leave(whole, nowMs);
    if (observedMs !== undefined && (this.#learnsWhole || resourceId === WHOLE_TYPE)) {
      learn(whole, observe(known(whole), observedMs, defaultCostMs, alpha));
    }
    if (resourceId === WHOLE_TYPE) return;
    const entry = this.#entry(resourceId, nowMs);
    if (this.#counts) leave(entry, nowMs);
    if (observedMs !== undefined) learn(entry, observe(known(entry), observedMs, expectedMs, alpha));
  }

  /** Drops what nobody has used for the time to live. Bounded by the number of estimates. */
  evict(ttlMs: number, nowMs: number): void {
    const isIdle = (entry: Entry): boolean => entry.users === 0 && nowMs - entry.lastSeenMs >= ttlMs;
    for (const [resourceId, entry] of this.#byResource) {
      if (isIdle(entry)) this.#byResource.delete(resourceId);
    }
    if (isIdle(this.#whole)) this.#whole.isKnown = false;
  }

  /** All that is known, by resource. */
  list(): readonly (readonly [resourceId: string, estimate: Estimate])[] {
    return [WHOLE_TYPE, ...[...this.#byResource.keys()].sort()].flatMap((resourceId) => {
      const estimate = this.get(resourceId);
      return estimate === undefined ? [] : [[resourceId, estimate] as const];
    });
  }

  #entry(resourceId: string, nowMs: number): Entry {
    if (resourceId === WHOLE_TYPE) return this.#whole;
    let entry = this.#byResource.get(resourceId);
    if (entry === undefined) {
      entry = newEntry(resourceId, nowMs);
      this.#byResource.set(resourceId, entry);
    }
    return entry;
  }
}

/** All estimates of a pool, in memory, dropped some time after their last use. */
export class Estimates {
  readonly #fairness: FairnessConfiguration;
  readonly #types = new Map<string, TypeEstimates>();

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
  }

  /** A type's estimates: always the same object. */
  ofType(type: string): TypeEstimates {
    let estimates = this.#types.get(type);
    if (estimates === undefined) {
      estimates = new TypeEstimates(this.#fairness);
      this.#types.set(type, estimates);
    }
    return estimates;
  }

  /** Drops what nobody has used for the time to live. Bounded by the number of estimates. */
  evict(nowMs: number): void {
    const ttlMs = this.#fairness.estimateTtlMs;
    if (ttlMs === null) return;
    for (const estimates of this.#types.values()) estimates.evict(ttlMs, nowMs);
  }

  /** All that is known, by type, then resource. */
  list(): readonly NamedEstimate[] {
    return [...this.#types.keys()].sort().flatMap((type) =>
      this.ofType(type)
        .list()
        .map(([resourceId, estimate]) => ({ type, resourceId, ...estimate })),
    );
  }
}

function newEntry(resourceId: string, nowMs: number): Entry {
  return { resourceId, meanMs: 0, varianceMs2: 0, samples: 0, isKnown: false, users: 0, lastSeenMs: nowMs };
}

function known(entry: Entry | undefined): Estimate | undefined {
  return entry?.isKnown === true ? entry : undefined;
}

function learn(entry: Entry, { meanMs, varianceMs2, samples }: Estimate): void {
  entry.meanMs = meanMs;
  entry.varianceMs2 = varianceMs2;
  entry.samples = samples;
  entry.isKnown = true;
}

function use(entry: Entry, nowMs: number): void {
  entry.users += 1;
  see(entry, nowMs);
}

function leave(entry: Entry, nowMs: number): void {
  // One that was reserved before this memory began was never counted in.
  entry.users = Math.max(0, entry.users - 1);
  see(entry, nowMs);
}

function see(entry: Entry, nowMs: number): void {
  if (nowMs > entry.lastSeenMs) entry.lastSeenMs = nowMs;
}
