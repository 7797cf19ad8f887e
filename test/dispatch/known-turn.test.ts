/** When a pass says that it knows the partition's turn, so that its reservations need not be read again. */
import { describe, expect, it } from 'vitest';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { StoreUnavailable } from '../../lib/store/errors.ts';
import { type Stage, stage, storeWith } from './stage.ts';

const WHOLE_AFTER_MS = 5_000;

/** A dispatcher, and what it says at each load. */
function telling(on: Stage): {
  readonly context: DispatchContext;
  readonly said: (number | undefined)[];
  readonly answers: { lost: boolean };
} {
  const said: (number | undefined)[] = [];
  const answers = { lost: false };
  const store = storeWith(on.store, {
    loadPartition: (request) => {
      said.push(request.knownTurn);
      return on.store.loadPartition(request);
    },
    commit: async (request) => {
      const outcome = await on.store.commit(request);
      if (answers.lost) throw new StoreUnavailable('the answer got lost');
      return outcome;
    },
  });
  return { context: on.dispatcher({ store }), said, answers };
}

const turnOf = (on: Stage): number => on.store.inspect(0).page.turn;

describe('a dispatcher', () => {
  /** One that has read the partition, and again long after. */
  async function knowing(on: Stage) {
    const told = telling(on);
    await on.put(on.job());
    for (const waitMs of [0, WHOLE_AFTER_MS - 1, 1]) {
      await on.advance(waitMs);
      await on.pass({}, told.context);
    }
    return told;
  }

  it('knows the turn once it has read the partition again, so long after that everything committed before is shown', async () => {
    const on = stage();
    const { context, said } = await knowing(on);
    expect(said).toEqual([undefined, undefined, undefined]);
    await on.pass({}, context);
    expect(said.at(-1)).toBe(turnOf(on));
  });

  it('knows the turn that its own commits have made', async () => {
    const on = stage();
    const { context, said } = await knowing(on);
    const before = turnOf(on);
    await on.put(on.job(), on.job());
    await on.pass({}, context);
    await on.pass({}, context);
    expect(said.slice(-2)).toEqual([before, before + 1]);
    expect(turnOf(on)).toBe(before + 1);
  });

  it('knows none after another one held the partition, whether or not it committed, and again as long after that', async () => {
    for (const commits of [true, false]) {
      const on = stage();
      const { context, said } = await knowing(on);
      if (commits) await on.put(on.job());
      await on.pass({}, on.dispatcher());
      await on.pass({}, context);
      expect(said.at(-1)).toBeUndefined();
      await on.advance(WHOLE_AFTER_MS);
      await on.pass({}, context);
      expect(said.at(-1)).toBeUndefined();
      await on.pass({}, context);
      expect(said.at(-1)).toBe(turnOf(on));
    }
  });

  it('knows none after a pass that failed, the answer to its commit lost', async () => {
    const on = stage();
    const { context, said, answers } = await knowing(on);
    await on.put(on.job());
    answers.lost = true;
    await expect(on.pass({}, context)).rejects.toThrow('the answer got lost');
    answers.lost = false;
    await on.pass({}, context);
    expect(said.at(-1)).toBeUndefined();
    expect(on.held()).toHaveLength(2);
  });
});
