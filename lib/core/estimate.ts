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
import type { FairnessConfiguration, JobTypeConfiguration } from './configuration.ts';

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
  estimate: Estimate | undefined;
  /** Jobs that wait or run: an entry in use is never dropped. */
  users: number;
  lastSeenMs: number;
}

/** What is known of a type: as a whole, and by resource. */
interface TypeEntries {
  readonly whole: Entry;
  readonly byResource: Map<string, Entry>;
}

/** All estimates of a pool, in memory, dropped some time after their last use. */
export class Estimates {
  readonly #fairness: FairnessConfiguration;
  readonly #types = new Map<string, TypeEntries>();
  readonly #learnsWhole: boolean;

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
    this.#learnsWhole = fairness.estimateFallback !== 'default';
  }

  /** Puts in what was learned earlier. */
  set(type: string, resourceId: string, estimate: Estimate, nowMs: number): void {
    const entry = this.#entry(this.#entriesOf(type), resourceId, nowMs);
    entry.estimate = estimate;
    entry.lastSeenMs = Math.max(entry.lastSeenMs, nowMs);
  }

  get(type: string, resourceId: string): Estimate | undefined {
    const entries = this.#types.get(type);
    return resourceId === WHOLE_TYPE
      ? entries?.whole.estimate
      : entries?.byResource.get(resourceId)?.estimate;
  }

  /** What an attempt is expected to cost. */
  costMs(type: JobTypeConfiguration, resourceId: string = WHOLE_TYPE): number {
    const entries = this.#types.get(type.type);
    if (entries === undefined) return type.defaultCostMs;
    const { whole, byResource } = entries;
    if (resourceId === WHOLE_TYPE) return whole.estimate?.meanMs ?? type.defaultCostMs;
    return expectedCostMs(
      byResource.get(resourceId)?.estimate,
      this.#learnsWhole ? whole.estimate : undefined,
      type.defaultCostMs,
    );
  }

  /** A job came: what is known of its cost is kept until it has ended. */
  arrive(type: string, resourceId: string = WHOLE_TYPE, nowMs: number): void {
    // What is never dropped need not be counted.
    if (this.#fairness.estimateTtlMs === null) return;
    const entries = this.#entriesOf(type);
    use(entries.whole, nowMs);
    if (resourceId !== WHOLE_TYPE) use(this.#entry(entries, resourceId, nowMs), nowMs);
  }

  /** A job ended, or was withdrawn; `observedMs` only if it succeeded. */
  end(
    type: JobTypeConfiguration,
    resourceId: string = WHOLE_TYPE,
    observedMs: number | undefined,
    nowMs: number,
  ): void {
    const counts = this.#fairness.estimateTtlMs !== null;
    if (observedMs === undefined && !counts) return;
    const { alpha } = this.#fairness;
    const entries = this.#entriesOf(type.type);
    const { whole } = entries;
    // Taken before the type's own average learns from this very attempt.
    const expectedMs = (this.#learnsWhole ? whole.estimate?.meanMs : undefined) ?? type.defaultCostMs;
    if (counts) leave(whole, nowMs);
    if (observedMs !== undefined && (this.#learnsWhole || resourceId === WHOLE_TYPE)) {
      whole.estimate = observe(whole.estimate, observedMs, type.defaultCostMs, alpha);
    }
    if (resourceId === WHOLE_TYPE) return;
    const entry = this.#entry(entries, resourceId, nowMs);
    if (counts) leave(entry, nowMs);
    if (observedMs !== undefined) entry.estimate = observe(entry.estimate, observedMs, expectedMs, alpha);
  }

  /** Drops what nobody has used for the time to live. Bounded by the number of estimates. */
  evict(nowMs: number): void {
    const ttlMs = this.#fairness.estimateTtlMs;
    if (ttlMs === null) return;
    const isIdle = (entry: Entry): boolean => entry.users === 0 && nowMs - entry.lastSeenMs >= ttlMs;
    for (const [type, { whole, byResource }] of this.#types) {
      for (const [resourceId, entry] of byResource) if (isIdle(entry)) byResource.delete(resourceId);
      if (!isIdle(whole)) continue;
      whole.estimate = undefined;
      if (byResource.size === 0) this.#types.delete(type);
    }
  }

  /** All that is known, by type, then resource. */
  list(): readonly NamedEstimate[] {
    const named: NamedEstimate[] = [];
    for (const [type, { whole, byResource }] of this.#types) {
      for (const [resourceId, { estimate }] of [[WHOLE_TYPE, whole] as const, ...byResource]) {
        if (estimate !== undefined) named.push({ type, resourceId, ...estimate });
      }
    }
    return named.sort((a, b) => compareText(a.type, b.type) || compareText(a.resourceId, b.resourceId));
  }

  #entriesOf(type: string): TypeEntries {
    let entries = this.#types.get(type);
    if (entries === undefined) {
      entries = { whole: { estimate: undefined, users: 0, lastSeenMs: 0 }, byResource: new Map() };
      this.#types.set(type, entries);
    }
    return entries;
  }

  #entry(entries: TypeEntries, resourceId: string, nowMs: number): Entry {
    if (resourceId === WHOLE_TYPE) return entries.whole;
    let entry = entries.byResource.get(resourceId);
    if (entry === undefined) {
      entry = { estimate: undefined, users: 0, lastSeenMs: nowMs };
      entries.byResource.set(resourceId, entry);
    }
    return entry;
  }
}

function use(entry: Entry, nowMs: number): void {
  entry.users += 1;
  entry.lastSeenMs = Math.max(entry.lastSeenMs, nowMs);
}

function leave(entry: Entry, nowMs: number): void {
  // One that was reserved before this memory began was never counted in.
  entry.users = Math.max(0, entry.users - 1);
  entry.lastSeenMs = Math.max(entry.lastSeenMs, nowMs);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
