/** Stores that are put together from parts. */
import { describe, expect, it } from 'vitest';
import { composeStore } from '../../../lib/store/contract/compose.ts';

import { MemoryJobStore } from '../../../lib/store/memory/store.ts';
import { seeded } from '../../simulation/random.ts';

class Counter {
  #count = 0;
  add(by: number): number {
    this.#count += by;
    return this.#count;
  }
  get count(): number {
    return this.#count;
  }
}

describe('a composed store', () => {
  it('calls each verb on its own part, wherever the verb is handed', () => {
    const counter = new Counter();
    const { add } = composeStore(counter);
    add(2);
    add(3);
    expect(counter.count).toBe(5);
  });

  it('refuses two parts with a method of one name', () => {
    expect(() => composeStore(new Counter(), new Counter())).toThrow(/two parts of a store .* add/);
  });

  it('lets a verb be replaced in a copy', async () => {
    const store = new MemoryJobStore({ clock: () => 0, random: seeded(1), place: () => ({ rank: '' }) });
    const copy = { ...store, readDeclaredVersion: async () => 7 };
    expect(await copy.readDeclaredVersion()).toBe(7);
    expect(await copy.getJobs({ ids: ['none'] })).toEqual([undefined]);
  });
});
