/** Memberships of long-running dispatchers. */

import type { MembershipStore } from '../contract/membership.ts';
import type { DispatcherIdentity, DispatcherRecord } from '../contract/records.ts';
import type { Applied } from '../contract/requests.ts';
import { ttlSec } from '../table/codec/cells.ts';
import { decodeDispatcher, encodeDispatcher } from '../table/codec/dispatcher.ts';
import { DISPATCHERS_PK } from '../table/schema.ts';
import type { DynamoConnection } from './connection.ts';
import { NO_PARTITION, type TableItems } from './items.ts';

/** The expiry that a removed membership gets. Late renewals find it and are refused. */
const LEFT_AT_MS = 0;

/** How long a removed membership is kept. Renewals are never later than this. */
const LEFT_KEPT_MS = 3_600_000;

export class DynamoMembershipStore implements MembershipStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async keepDispatcher(record: DispatcherRecord): Promise<Applied> {
    const { incarnation, expiresAtMs } = record;
    const outcome = await this.#table.put('keepDispatcher', {
      item: encodeDispatcher(record, ttlSec(expiresAtMs)),
      condition: `attribute_not_exists(#pk) OR #incarnation < :incarnation
        OR (#incarnation = :incarnation AND #expiresAtMs > :left AND #expiresAtMs <= :expires)`,
      values: { ':incarnation': incarnation, ':expires': expiresAtMs, ':left': LEFT_AT_MS },
    });
    if (outcome.applied || outcome.old === undefined) return 'applied';
    const present = decodeDispatcher(outcome.old);
    const isOurs = present.incarnation === incarnation && present.expiresAtMs !== LEFT_AT_MS;
    return isOurs ? 'applied' : 'superseded';
  }

  async removeDispatcher({ dispatcherId, incarnation }: DispatcherIdentity): Promise<Applied> {
    const left = { dispatcherId, incarnation, leads: [], expiresAtMs: LEFT_AT_MS };
    const outcome = await this.#table.put('removeDispatcher', {
      item: encodeDispatcher(left, ttlSec(this.#items.nowMs() + LEFT_KEPT_MS)),
      condition: 'attribute_not_exists(#pk) OR #incarnation = :incarnation',
      values: { ':incarnation': incarnation },
    });
    return outcome.applied ? 'applied' : 'superseded';
  }

  async listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]> {
    const items = await this.#items.collection('listDispatchers', DISPATCHERS_PK);
    const records = await this.#items.readable(NO_PARTITION, items, decodeDispatcher);
    return records.filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  }
}
