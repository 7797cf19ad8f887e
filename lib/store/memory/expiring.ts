/** Ending jobs that have not started in time. */

import type { MovingJob } from '../../core/job.ts';
import { expire } from '../../core/life-cycle.ts';
import type { ExpiringStore } from '../contract/expiring.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { expiryLineAt } from '../table/schema.ts';
import { headsOf, type MemoryItems } from './items.ts';

export class MemoryExpiringStore implements ExpiringStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async readExpired({ line, nowMs, limit, after }: RequestOf<'readExpired'>): Promise<{
    readonly ids: readonly string[];
    readonly next?: string | undefined;
  }> {
    return this.#items.read('readExpired', () => {
      const isOver = ({ expireAtMs = Infinity }: MovingJob): boolean => expireAtMs <= nowMs;
      const { entries, next } = headsOf(this.#items.expiries, expiryLineAt(line), limit, after, isOver);
      this.#items.bill.readExpiries('readExpired', entries);
      return { ids: entries.map(({ id }) => id), next };
    });
  }

  async expireJobs({
    jobs,
    nowMs,
    expiresAtMs,
  }: RequestOf<'expireJobs'>): Promise<readonly (MovingJob | undefined)[]> {
    return this.#items.write('expireJobs', () =>
      jobs.map((job) => {
        const item = this.#items.item(job.id);
        const transition = item?.value.version === job.version ? expire(item.value, nowMs) : undefined;
        if (transition?.kind === 'moved') {
          this.#items.bill.wrotePayload('expireJobs', transition.job);
          return this.#items.put(item, transition.job, expiresAtMs);
        }
        this.#items.bill.refused('expireJobs', item);
        return undefined;
      }),
    );
  }
}
