import type { FairnessConfiguration } from '../core/configuration.ts';
import type { Scheduler } from '../core/scheduler.ts';

/**
 * Decides when the scheduler evicts expired keys and estimates. An eviction takes time in proportion to everything that
 * the scheduler knows, and an expired entry only matters to a job that returns to it. So eviction happens only when a
 * job arrives for an entry that has outlived its time to live.
 */
export class Expiry {
  readonly #scheduler: Scheduler;
  readonly #fairness: FairnessConfiguration;
  /** Last arrival of each fairness key. */
  readonly #keys = new Map<string, number>();
  readonly #resources = new Map<string, number>();
  #resets = 0;

  constructor(scheduler: Scheduler, fairness: FairnessConfiguration) {
    this.#scheduler = scheduler;
    this.#fairness = fairness;
  }

  /** Notes an estimate that exists from the beginning. */
  know(type: string, resourceId: string): void {
    this.#resources.set(resourceName(type, resourceId), 0);
  }

  /** Resets costs when that is due. The caller calls it first at each instant. */
  keep(nowMs: number): void {
    const { resetEveryMs } = this.#fairness;
    const due = resetEveryMs === null ? 0 : Math.floor(nowMs / resetEveryMs);
    if (due > this.#resets) this.#scheduler.resetCosts();
    this.#resets = due;
  }

  /** Notes an arrival, and evicts what has expired. The caller calls this before the job arrives. */
  arrive(fairnessKey: string, type: string, resourceId: string | undefined, nowMs: number): void {
    const { keyTtlMs, estimateTtlMs } = this.#fairness;
    const isStale = [
      touch(this.#keys, fairnessKey, nowMs, keyTtlMs),
      touch(this.#resources, resourceName(type, ''), nowMs, estimateTtlMs),
      touch(this.#resources, resourceName(type, resourceId ?? ''), nowMs, estimateTtlMs),
    ].includes(true);
    if (isStale) this.#scheduler.evict(nowMs);
  }

  /** Evicts what has expired, at the end of the scenario. */
  close(nowMs: number): void {
    this.keep(nowMs);
    this.#scheduler.evict(nowMs);
  }
}

function resourceName(type: string, resourceId: string): string {
  return `${type.length}/${type}/${resourceId}`;
}

/** Records the arrival. Returns whether the entry may have expired since the last one. */
function touch(names: Map<string, number>, name: string, nowMs: number, ttlMs: number | null): boolean {
  const lastMs = names.get(name) ?? nowMs;
  names.set(name, nowMs);
  return ttlMs !== null && nowMs - lastMs >= ttlMs;
}
