import type { FairnessConfiguration } from '../core/configuration.ts';
import type { Scheduler } from '../core/scheduler.ts';

/**
 * Lets a scheduler forget in time. What has expired matters only to who comes back to it, so the scheduler is asked to
 * forget, which takes time in proportion to all it knows, only when somebody comes after longer than a time to live.
 */
export class Expiry {
  readonly #scheduler: Scheduler;
  readonly #fairness: FairnessConfiguration;
  /** Last arrivals. */
  readonly #keys = new Map<string, number>();
  readonly #resources = new Map<string, number>();
  #resets = 0;

  constructor(scheduler: Scheduler, fairness: FairnessConfiguration) {
    this.#scheduler = scheduler;
    this.#fairness = fairness;
  }

  /** An estimate is there from the beginning. */
  know(type: string, resourceId: string): void {
    this.#resources.set(resourceName(type, resourceId), 0);
  }

  /** Costs go to 0 when it is time. To be called at each instant before anything else. */
  keep(nowMs: number): void {
    const { resetEveryMs } = this.#fairness;
    const due = resetEveryMs === null ? 0 : Math.floor(nowMs / resetEveryMs);
    if (due > this.#resets) this.#scheduler.resetCosts();
    this.#resets = due;
  }

  /** To be called before a job arrives. */
  arrive(fairnessKey: string, type: string, resourceId: string | undefined, nowMs: number): void {
    const { keyTtlMs, estimateTtlMs } = this.#fairness;
    const isStale = [
      touch(this.#keys, fairnessKey, nowMs, keyTtlMs),
      touch(this.#resources, resourceName(type, ''), nowMs, estimateTtlMs),
      touch(this.#resources, resourceName(type, resourceId ?? ''), nowMs, estimateTtlMs),
    ].includes(true);
    if (isStale) this.#scheduler.evict(nowMs);
  }

  /** Nothing comes any more: what has expired by now is gone. */
  close(nowMs: number): void {
    this.keep(nowMs);
    this.#scheduler.evict(nowMs);
  }
}

function resourceName(type: string, resourceId: string): string {
  return `${type.length}/${type}/${resourceId}`;
}

/** Whether the name may have expired since it was last touched. */
function touch(names: Map<string, number>, name: string, nowMs: number, ttlMs: number | null): boolean {
  const lastMs = names.get(name) ?? nowMs;
  names.set(name, nowMs);
  return ttlMs !== null && nowMs - lastMs >= ttlMs;
}
