/**
 * Payloads with items of their own (`../table/payload.ts` decides which). The payload is put first, then the job that names it, so that a
 * job that can be read always has its payload. A payload that no job names is discarded at once, or garbage collected later.
 */
import { randomBytes } from 'node:crypto';
import { isTerminal, type Job, type MovingJob } from '../../core/job.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { ttlSec } from '../table/codec/cells.ts';
import { decodeJob, encodePayload, idOfJobItem, isJobItem, payloadIdOf } from '../table/codec/job.ts';
import { hasOwnItem, needsLongerTtl, PAYLOAD_KEPT_MS } from '../table/payload.ts';
import { type ItemKey, payloadKey } from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';

/** Distinguishes the payloads of several submitters of one job: there are few, and mostly one. */
const ID_BYTES = 9;
const REPLACED_KEPT_MS = 3_600_000;

export class Payloads {
  readonly #table: DynamoConnection;
  readonly #nowMs: () => number;
  readonly #hint: (effect: () => Promise<unknown>) => Promise<boolean>;

  constructor(
    table: DynamoConnection,
    nowMs: () => number,
    hint: (effect: () => Promise<unknown>) => Promise<boolean>,
  ) {
    this.#table = table;
    this.#nowMs = nowMs;
    this.#hint = hint;
  }

  /** Puts the payload of a job that is about to be put, if it gets its own item. Answers the item's name, or undefined. */
  async put(verb: string, job: Job): Promise<string | undefined> {
    if (!hasOwnItem(job)) return undefined;
    const payloadId = randomBytes(ID_BYTES).toString('base64url');
    const keptFromMs = Math.max(this.#nowMs(), job.runAtMs);
    await this.#table.put(verb, { item: encodePayload(job, payloadId, keptFromMs + PAYLOAD_KEPT_MS) });
    return payloadId;
  }

  /**
   * Discards a payload whose job was not put, or was put by another call. It is a put with an expired `ttl`, because submitters may not
   * delete.
   */
  async discard(verb: string, jobId: string, payloadId: string | undefined): Promise<void> {
    if (payloadId === undefined) return;
    const item = { ...payloadKey(jobId, payloadId), [ATTRIBUTE.ttl]: ttlSec(this.#nowMs()) };
    await this.#hint(() => this.#table.put(verb, { item }));
  }

  /** Reads the whole job of an item, with its payload. */
  async readJob(verb: string, item: Item): Promise<Job> {
    return decodeJob(item, await this.readItem(verb, item));
  }

  /** Reads the item of a job's payload; undefined: the payload is in the job's item, or is gone. */
  async readItem(verb: string, item: Item): Promise<Item | undefined> {
    const key = payloadKeyIn(item);
    if (key === undefined) return undefined;
    // A payload's item never changes, so an eventually consistent read can only miss it.
    return (await this.#table.getLagging(verb, key)) ?? this.#table.get(verb, key);
  }

  /** Reads the payloads' items of several jobs, as `readItem` does. */
  async readItems(
    verb: string,
    items: readonly (Item | undefined)[],
  ): Promise<readonly (Item | undefined)[]> {
    const keys = items.map((item) => (item === undefined ? undefined : payloadKeyIn(item)));
    const wanted = keys.filter((key) => key !== undefined);
    if (wanted.length === 0) return items.map(() => undefined);
    const distinct = new Map(wanted.map((key) => [nameOf(key), key]));
    const found = new Map(
      (await this.#table.getAll(verb, [...distinct.values()])).map((item) => [
        nameOf({ pk: String(item[ATTRIBUTE.pk]), sk: String(item[ATTRIBUTE.sk]) }),
        item,
      ]),
    );
    return keys.map((key) => (key === undefined ? undefined : found.get(nameOf(key))));
  }

  /**
   * Sets the `ttl` of an ended job's payload to that of the job. If the process crashes before this, the payload is garbage collected
   * later, which does no harm, because payloads are only read through their jobs.
   *
   * @param item - the job's present item
   */
  async expireWithJob(
    verb: string,
    item: Item,
    { state }: Pick<MovingJob, 'state'>,
    expiresAtMs: number,
  ): Promise<void> {
    const key = payloadKeyIn(item);
    if (key === undefined || !isTerminal(state)) return;
    await this.#keepUntil(verb, key, expiresAtMs);
  }

  /** Lets the payload that a job had before be garbage collected, once nothing that has read the former item reads it any more. */
  async expireReplaced(verb: string, formerItem: Item): Promise<void> {
    const key = payloadKeyIn(formerItem);
    if (key !== undefined)
      await this.#hint(() => this.#keepUntil(verb, key, this.#nowMs() + REPLACED_KEPT_MS));
  }

  /** Extends the `ttl` of a payload before its job is retimed to a time far away. */
  async extend(verb: string, item: Item, job: MovingJob): Promise<void> {
    const key = payloadKeyIn(item);
    if (key !== undefined && needsLongerTtl(job))
      await this.#keepUntil(verb, key, job.runAtMs + PAYLOAD_KEPT_MS);
  }

  #keepUntil(verb: string, key: ItemKey, expiresAtMs: number): Promise<unknown> {
    return this.#table.update(verb, {
      key,
      update: 'SET #ttl = :ttl',
      condition: 'attribute_exists(#pk)',
      values: { ':ttl': ttlSec(expiresAtMs) },
    });
  }
}

const nameOf = ({ pk, sk }: ItemKey): string => JSON.stringify([pk, sk]);

function payloadKeyIn(item: Item): ItemKey | undefined {
  const payloadId = payloadIdOf(item);
  return payloadId === undefined || !isJobItem(item) ? undefined : payloadKey(idOfJobItem(item), payloadId);
}
