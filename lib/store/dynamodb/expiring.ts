/** Ending jobs that have not started in time. */

import type { MovingJob } from '../../core/job.ts';
import type { ExpiringStore } from '../contract/expiring.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { ttlSec } from '../table/codec/cells.ts';
import { idOfJobItem } from '../table/codec/job.ts';
import { expiryLineAt, jobKey, TABLE } from '../table/schema.ts';
import { finishedClause, PARALLEL_MAX, stateValues, versionValues } from './expressions.ts';
import type { TableItems } from './items.ts';
import { inParallel } from './parallel.ts';

export class DynamoExpiringStore implements ExpiringStore {
  readonly #items: TableItems;

  constructor(items: TableItems) {
    this.#items = items;
  }

  async readExpired({ line, nowMs, limit, after }: RequestOf<'readExpired'>): Promise<{
    readonly ids: readonly string[];
    readonly next?: string | undefined;
  }> {
    const name = expiryLineAt(line);
    const { items, last } = await this.#items.upTo(limit, 'readExpired', {
      index: TABLE.expiriesIndex,
      condition: '#expiry = :expiry AND #expireAtMs <= :now',
      values: { ':expiry': name, ':now': nowMs },
      after: after === undefined ? undefined : startAfter(name, after),
    });
    return {
      ids: items.map(idOfJobItem),
      next: last === undefined ? undefined : JSON.stringify([last[ATTRIBUTE.expireAtMs], idOfJobItem(last)]),
    };
  }

  async expireJobs({
    jobs,
    nowMs,
    expiresAtMs,
  }: RequestOf<'expireJobs'>): Promise<readonly (MovingJob | undefined)[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job) => {
      const listed = finishedClause(job, 'expired', nowMs);
      const removed = listed.set === '' ? '#line, #rank, #expiry' : '#expiry';
      const outcome = await this.#items.changeJob('expireJobs', job.id, {
        update: `SET #state = :expired, #version = :next, #finishedAtMs = :now, #ttl = :ttl${listed.set} REMOVE ${removed}`,
        condition:
          '#state IN (:scheduled, :pending, :claimed) AND #version = :version AND #expireAtMs <= :now',
        values: {
          ...stateValues('expired', 'scheduled', 'pending', 'claimed'),
          ...versionValues(job.version),
          ...listed.values,
          ':now': nowMs,
          ':ttl': ttlSec(expiresAtMs),
        },
      });
      if (!outcome.applied) return undefined;
      const { job: expired, item } = outcome;
      await this.#items.hint(() =>
        this.#items.payloads.expireWithJob('expireJobs', item, expired, expiresAtMs),
      );
      return expired;
    });
  }
}

/** Returns the start of the next read: after a job's entry, even if the entry is gone. */
function startAfter(line: string, cursor: string): Item {
  const [expireAtMs, id] = JSON.parse(cursor) as readonly [number, string];
  return { ...jobKey(id), [TABLE.expiry]: line, [TABLE.expireAtMs]: expireAtMs };
}
