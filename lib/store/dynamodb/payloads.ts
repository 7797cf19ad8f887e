/**
 * Payloads that stand in items of their own (`../table/payload.ts` says which). The payload is put first, then the job that names it:
 * whoever sees a job can read all of it. What nobody names is taken back at once, or is collected in its time.
 */
import { randomBytes } from 'node:crypto';
import { isTerminal, type Job, type MovingJob } from '../../core/job.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { ttlSec } from '../table/codec/cells.ts';
import { decodeJob, encodePayload, idOfJobItem, isJobItem, payloadIdOf } from '../table/codec/job.ts';
import { isApart, isKeptLonger, PAYLOAD_KEPT_MS } from '../table/payload.ts';
import { type ItemKey, payloadKey } from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';

/** What tells apart the payloads that several put of one job: a few, mostly one. */
const ID_BYTES = 9;

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

  /** Puts what stands apart of a job that is to be put; answers its name, undefined: all of it goes into the job's item. */
  async put(verb: string, job: Job): Promise<string | undefined> {
    if (!isApart(job)) return undefined;
    const payloadId = randomBytes(ID_BYTES).toString('base64url');
    const keptFromMs = Math.max(this.#nowMs(), job.runAtMs);
    await this.#table.put(verb, { item: encodePayload(job, payloadId, keptFromMs + PAYLOAD_KEPT_MS) });
    return payloadId;
  }

  /** Takes back what was put for a job that is not there, or that another put has made. A put, because submitters delete nothing. */
  async discard(verb: string, jobId: string, payloadId: string | undefined): Promise<void> {
    if (payloadId === undefined) return;
    const item = { ...payloadKey(jobId, payloadId), [ATTRIBUTE.ttl]: ttlSec(this.#nowMs()) };
    await this.#hint(() => this.#table.put(verb, { item }));
  }

  /** The job of an item, all of it. */
  async whole(verb: string, item: Item): Promise<Job> {
    return decodeJob(item, await this.of(verb, item));
  }

  /** The item that a job's payload stands in; undefined: it stands in its own, or is gone. */
  async of(verb: string, item: Item): Promise<Item | undefined> {
    const key = keyBeside(item);
    if (key === undefined) return undefined;
    // It never changes, so a read that lags can only miss it.
    return (await this.#table.getLagging(verb, key)) ?? this.#table.get(verb, key);
  }

  /** As `of`, for several. */
  async ofAll(verb: string, items: readonly (Item | undefined)[]): Promise<readonly (Item | undefined)[]> {
    const keys = items.map((item) => (item === undefined ? undefined : keyBeside(item)));
    const asked = keys.filter((key) => key !== undefined);
    if (asked.length === 0) return items.map(() => undefined);
    const distinct = new Map(asked.map((key) => [nameOf(key), key]));
    const found = new Map(
      (await this.#table.getAll(verb, [...distinct.values()])).map((item) => [
        nameOf({ pk: String(item[ATTRIBUTE.pk]), sk: String(item[ATTRIBUTE.sk]) }),
        item,
      ]),
    );
    return keys.map((key) => (key === undefined ? undefined : found.get(nameOf(key))));
  }

  /**
   * Has a payload collected with its job, which has ended. Whoever dies before leaves it to be collected later: all readers come by
   * the job.
   *
   * @param item - the job's, as it is by now
   */
  async ended(
    verb: string,
    item: Item,
    { state }: Pick<MovingJob, 'state'>,
    expiresAtMs: number,
  ): Promise<void> {
    const key = keyBeside(item);
    if (key === undefined || !isTerminal(state)) return;
    await this.#keepUntil(verb, key, expiresAtMs);
  }

  /** Has a payload kept for longer whose job will be moved to a time far away. */
  async moving(verb: string, item: Item, job: MovingJob): Promise<void> {
    const key = keyBeside(item);
    if (key !== undefined && isKeptLonger(job))
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

function keyBeside(item: Item): ItemKey | undefined {
  const payloadId = payloadIdOf(item);
  return payloadId === undefined || !isJobItem(item) ? undefined : payloadKey(idOfJobItem(item), payloadId);
}
