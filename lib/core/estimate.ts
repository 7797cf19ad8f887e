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

/** All estimates of a pool, in memory, dropped some time after their last use. */
export class Estimates {
  readonly #fairness: FairnessConfiguration;
  readonly #entries = new Map<string, Map<string, Entry>>();
  readonly #wholeType: boolean;
  readonly #keepsUsers: boolean;

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
    this.#wholeType = fairness.estimateFallback !== 'default';
    this.#keepsUsers = fairness.estimateTtlMs !== null;
  }

  /** Puts in what was learned earlier. */
  set(type: string, resourceId: string, estimate: Estimate, nowMs: number): void {
    this.#entry(type, resourceId, nowMs).estimate = estimate;
  }

  get(type: string, resourceId: string): Estimate | undefined {
    return this.#entries.get(type)?.get(resourceId)?.estimate;
  }

  /** What an attempt is expected to cost. */
  costMs(type: JobTypeConfiguration, resourceId: string = WHOLE_TYPE): number {
    const entries = this.#entries.get(type.type);
    if (entries === undefined) return type.defaultCostMs;
    return expectedCostMs(
      entries.get(resourceId)?.estimate,
      this.#wholeType ? entries.get(WHOLE_TYPE)?.estimate : undefined,
      type.defaultCostMs,
    );
  }

  /** A job came: what is known of its cost is kept until it has ended. */
  arrive(type: string, resourceId: string = WHOLE_TYPE, nowMs: number): void {
    if (!this.#keepsUsers) return;
    for (const id of this.#idsOf(resourceId)) this.#entry(type, id, nowMs).users += 1;
  }

  /** A job started. */
  start(type: string, resourceId: string = WHOLE_TYPE, nowMs: number): void {
    if (!this.#keepsUsers) return;
    for (const id of this.#idsOf(resourceId)) this.#entry(type, id, nowMs);
  }

  /** A job ended, or was withdrawn; `observedMs` only if it succeeded. */
  end(
    type: JobTypeConfiguration,
    resourceId: string = WHOLE_TYPE,
    observedMs: number | undefined,
    nowMs: number,
  ): void {
    if (observedMs === undefined && !this.#keepsUsers) return;
    // Taken before the type's own average learns from this very attempt.
    const startMs = this.#wholeType ? this.costMs(type) : type.defaultCostMs;
    for (const id of this.#idsOf(resourceId)) {
      const entry = this.#entry(type.type, id, nowMs);
      if (this.#keepsUsers) entry.users = Math.max(0, entry.users - 1);
      if (observedMs !== undefined) {
        const from = id === WHOLE_TYPE ? type.defaultCostMs : startMs;
        entry.estimate = observe(entry.estimate, observedMs, from, this.#fairness.alpha);
      }
    }
  }

  /** Drops what nobody has used for the time to live. Bounded by the number of estimates. */
  evict(nowMs: number): void {
    const ttlMs = this.#fairness.estimateTtlMs;
    if (ttlMs === null) return;
    for (const [type, entries] of this.#entries) {
      for (const [resourceId, entry] of entries) {
        if (entry.users === 0 && nowMs - entry.lastSeenMs >= ttlMs) entries.delete(resourceId);
      }
      if (entries.size === 0) this.#entries.delete(type);
    }
  }

  /** All that is known, by type, then resource. */
  list(): readonly NamedEstimate[] {
    const named: NamedEstimate[] = [];
    for (const [type, entries] of this.#entries) {
      for (const [resourceId, { estimate }] of entries) {
        if (estimate !== undefined) named.push({ type, resourceId, ...estimate });
      }
    }
    return named.sort((a, b) => compareText(a.type, b.type) || compareText(a.resourceId, b.resourceId));
  }

  #idsOf(resourceId: string): readonly string[] {
    return this.#wholeType && resourceId !== WHOLE_TYPE ? [resourceId, WHOLE_TYPE] : [resourceId];
  }

  #entry(type: string, resourceId: string, nowMs: number): Entry {
    let entries = this.#entries.get(type);
    if (entries === undefined) {
      entries = new Map();
      this.#entries.set(type, entries);
    }
    let entry = entries.get(resourceId);
    if (entry === undefined) {
      entry = { estimate: undefined, users: 0, lastSeenMs: nowMs };
      entries.set(resourceId, entry);
    }
    entry.lastSeenMs = Math.max(entry.lastSeenMs, nowMs);
    return entry;
  }
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
