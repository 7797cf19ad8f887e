/** Memberships of long-running dispatchers. */

import type { MembershipStore } from '../contract/membership.ts';
import type { DispatcherIdentity, DispatcherRecord } from '../contract/records.ts';
import type { Applied } from '../contract/requests.ts';
import type { MemoryItems } from './items.ts';
import { compareText } from './sorted-line.ts';
import type { MemoryState } from './state.ts';

export class MemoryMembershipStore implements MembershipStore {
  readonly #items: MemoryItems;
  readonly #dispatchers: MemoryState['dispatchers'];

  constructor(items: MemoryItems) {
    this.#items = items;
    this.#dispatchers = items.state.dispatchers;
  }

  async keepDispatcher(record: DispatcherRecord): Promise<Applied> {
    return this.#items.write('keepDispatcher', () => {
      this.#items.bill.small('keepDispatcher', 'write');
      const present = this.#dispatchers.get(record.dispatcherId);
      const order = present === undefined ? -1 : compareText(present.incarnation, record.incarnation);
      const hasLeft = order === 0 && present?.expiresAtMs === 0;
      if (order > 0 || hasLeft) return 'superseded';
      const isLate = order === 0 && (present?.expiresAtMs ?? 0) > record.expiresAtMs;
      if (!isLate) this.#dispatchers.set(record.dispatcherId, record);
      return 'applied';
    });
  }

  async removeDispatcher({ dispatcherId, incarnation }: DispatcherIdentity): Promise<Applied> {
    return this.#items.write('removeDispatcher', () => {
      this.#items.bill.small('removeDispatcher', 'write');
      const present = this.#dispatchers.get(dispatcherId);
      if (present !== undefined && present.incarnation !== incarnation) return 'superseded';
      this.#dispatchers.set(dispatcherId, { dispatcherId, incarnation, leads: [], expiresAtMs: 0 });
      return 'applied';
    });
  }

  async listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]> {
    return this.#items.read('listDispatchers', () => {
      this.#items.bill.small('listDispatchers', 'read');
      return [...this.#dispatchers.values()].filter(({ expiresAtMs }) => expiresAtMs > nowMs);
    });
  }
}
