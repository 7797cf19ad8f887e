/** Deduplicating submitted jobs. */
import { randomUUID } from 'node:crypto';
import type { DedupedJob } from '../../core/dedupe.ts';
import type { Job } from '../../core/job.ts';
import { type DedupeStore, MERGED_FIELDS, type Superseded } from '../contract/deduping.ts';
import type { CreateOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { cellsOf, ttlSec } from '../table/codec/cells.ts';
import { encodeJob, payloadIdOf } from '../table/codec/job.ts';
import { dedupeKey, jobKey } from '../table/schema.ts';
import type { TableItems } from './items.ts';

/** The attributes that a merge may change. The standing is set only if the version rises, as the job may be parked. */
const CHANGED = [
  ...MERGED_FIELDS,
  'payloadId',
  'expiry',
] as const satisfies readonly (keyof typeof ATTRIBUTE)[];
const STANDING = ['line', 'rank'] as const;

export class DynamoDedupeStore implements DedupeStore {
  readonly #items: TableItems;

  constructor(items: TableItems) {
    this.#items = items;
  }

  async readDedupe(named: DedupedJob): Promise<string | undefined> {
    const item = await this.#items.table.get('readDedupe', dedupeKey(named));
    return item === undefined || this.#items.hasExpired(item)
      ? undefined
      : cellsOf(item).text(ATTRIBUTE.jobId);
  }

  async createDeduped(request: RequestOf<'createDeduped'>): Promise<CreateOutcome | Superseded> {
    const { job, after, expiresAtMs } = request;
    const { table, payloads } = this.#items;
    const nowSec = { ':nowSec': Math.floor(this.#items.nowMs() / 1000) };
    const payloadId = await payloads.put('createDeduped', job);
    const outcome = await table.transact('createDeduped', randomUUID(), [
      table.putPart({
        item: encodeJob(job, this.#items.standingOf(job), payloadId),
        condition: 'attribute_not_exists(#pk) OR #ttl <= :nowSec',
        values: nowSec,
      }),
      table.putPart({
        item: { ...dedupeKey(job), [ATTRIBUTE.jobId]: job.id, [ATTRIBUTE.ttl]: ttlSec(expiresAtMs) },
        condition: `attribute_not_exists(#pk) OR #ttl <= :nowSec${after === undefined ? '' : ' OR #jobId = :after'}`,
        values: after === undefined ? nowSec : { ...nowSec, ':after': after },
      }),
    ]);
    if (outcome.applied) return { kind: 'created', job };
    const present = await table.get('createDeduped', jobKey(job.id));
    if (present === undefined || payloadIdOf(present) !== payloadId)
      await payloads.discard('createDeduped', job.id, payloadId);
    if (present === undefined || this.#items.hasExpired(present)) return { kind: 'superseded' };
    const known = await payloads.readJob('createDeduped', present);
    return { kind: known.contentHash === job.contentHash ? 'repeated' : 'conflict', job: known };
  }

  async mergeJob({
    job,
    next,
  }: RequestOf<'mergeJob'>): Promise<{ readonly kind: 'merged'; readonly job: Job } | Superseded> {
    const { table, payloads } = this.#items;
    const key = jobKey(job.id);
    const isMoved = next.version !== job.version;
    // A payload that stays keeps its item, and its name.
    const isKept = next.payload === job.payload;
    const seen = await table.get('mergeJob', key);
    if (seen === undefined || this.#items.hasExpired(seen)) return { kind: 'superseded' };
    if (isKept) await payloads.extend('mergeJob', seen, next);
    const payloadId = isKept ? payloadIdOf(seen) : await payloads.put('mergeJob', next);
    const encoded = encodeJob(next, isMoved ? this.#items.standingOf(next) : undefined, payloadId);
    const names = isMoved ? [...CHANGED, ...STANDING] : CHANGED;
    const set = names.filter((name) => encoded[ATTRIBUTE[name]] !== undefined);
    const removed = names.filter((name) => !set.includes(name));
    const values = Object.fromEntries(set.map((name) => [`:${name}`, encoded[ATTRIBUTE[name]]]));
    const before = encodeJob(job, undefined)[ATTRIBUTE.merged];
    const outcome = await table.update('mergeJob', {
      key,
      update: `SET ${set.map((name) => `#${name} = :${name}`).join(', ')}${
        removed.length === 0 ? '' : ` REMOVE ${removed.map((name) => `#${name}`).join(', ')}`
      }`,
      condition: `#state = :before AND #version = :seen AND ${
        before === undefined ? 'attribute_not_exists(#merged)' : '#merged = :mergedBefore'
      }`,
      values: {
        ...values,
        ':before': job.state,
        ':seen': job.version,
        ...(before === undefined ? {} : { ':mergedBefore': before }),
      },
    });
    if (outcome.applied || this.#isOurs(outcome.old, encoded)) {
      if (!isKept) await payloads.expireReplaced('mergeJob', seen);
      return { kind: 'merged', job: next };
    }
    if (!isKept) await payloads.discard('mergeJob', job.id, payloadId);
    return { kind: 'superseded' };
  }

  /** Whether an earlier try of the same merge was applied, and its answer got lost. */
  #isOurs(old: Item | undefined, encoded: Item): boolean {
    const { merged, version, payloadId } = ATTRIBUTE;
    return old !== undefined && [merged, version, payloadId].every((name) => old[name] === encoded[name]);
  }
}
