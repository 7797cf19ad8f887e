/** Slots are not left free while a job waits that may start, however many wait before it that may not. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { type Stage, SUCCEEDED, stage, storeWith } from '../../stage/stage.ts';

const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

/** Ticks as a minute's rule sends them, to dispatchers that know nothing. What they tell of starts at once, and runs on. */
async function ticks(on: Stage, count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    await on.pass({}, on.dispatcher());
    await on.startEverywhere();
    await on.advance(60_000);
  }
}

const isPending = (on: Stage, jobs: readonly Job[]): readonly Job[] =>
  jobs.filter(({ id }) => on.stateOf(id) === 'pending');

describe('jobs whose conflict keys are held', () => {
  const albums = (slots: number): Stage =>
    stage({
      pool: {
        types: { resize: { timeoutMs: 860_000, conflictGroup: 'album' } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots } },
      },
    });

  it.each([
    [40, 30, 4],
    [40, 30, 6],
    [60, 50, 9],
    [32, 30, 4],
    [40, 30, 12],
    [110, 100, 30],
  ])(
    'keep none of others waiting: %i slots, %i albums of %i photos, then other albums',
    async (slots, count, each) => {
      const on = albums(slots);
      const first = times(count * each, (at) => on.job({ resourceId: `album-${Math.floor(at / each)}` }));
      await on.put(...first);
      await on.pass({ jobs: first, reason: 'stream' });
      await on.startAll('images');
      await on.advance(1_000);
      const others = times(slots - count, (at) => on.job({ resourceId: `other-${at}` }));
      await on.put(...others);
      await on.pass({ jobs: others, reason: 'stream' });
      expect(isPending(on, others)).toEqual([]);
      expect(on.held()).toHaveLength(slots);
    },
  );

  it('keep none of others waiting that no hint told of, for a dispatcher that knows nothing', async () => {
    const on = albums(40);
    await on.put(...times(30 * 12, (at) => on.job({ resourceId: `album-${Math.floor(at / 12)}` })));
    const others = times(10, (at) => on.job({ resourceId: `other-${at}` }));
    await on.put(...others);
    await ticks(on, 1);
    expect(isPending(on, others)).toEqual([]);
  });
});

describe('keys none of whose jobs may start', () => {
  const twoTypes = (slots: number, cap: number | null, perKey: number | null = null): Stage =>
    stage({
      leads: true,
      pool: {
        types: { x: { timeoutMs: 800_000, maxConcurrency: cap }, y: { timeoutMs: 30_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['x', 'y'], slots } },
        fairness: { maxConcurrencyPerKey: perKey },
      },
    });
  const customer = (at: number): string => `customer-${String(at).padStart(5, '0')}`;

  it.each([
    [4, 400],
    [20, 1_000],
    [100, 2_000],
  ])(
    'because their type is at its cap keep no other type waiting: %i slots, %i keys',
    async (slots, keys) => {
      const on = twoTypes(slots, 2);
      await on.put(...times(keys, (at) => on.job({ type: 'x', fairnessKey: customer(at) })));
      await ticks(on, 1);
      await on.startAll('images');
      const [wanted] = await on.put(on.job({ type: 'y', fairnessKey: 'zulu' }));
      await ticks(on, 1);
      expect(on.stateOf(wanted?.id ?? '')).toBe('running');
    },
  );

  it('because each is at its cap keep no other key waiting', async () => {
    const on = twoTypes(900, null, 1);
    const busy = times(1_600, (at) => on.job({ type: 'x', fairnessKey: customer(at % 800) }));
    await on.put(...busy);
    await ticks(on, 1);
    await on.startAll('images');
    expect(on.held()).toHaveLength(800);
    const [wanted] = await on.put(on.job({ type: 'x', fairnessKey: 'zulu' }));
    await ticks(on, 1);
    expect(on.stateOf(wanted?.id ?? '')).toBe('running');
  });

  it('are not read of the index, nor their ledgers, because of a type at its cap', async () => {
    const on = twoTypes(4, 2);
    await on.put(...times(1_000, (at) => on.job({ type: 'x', fairnessKey: customer(at) })));
    await ticks(on, 1);
    const read: string[] = [];
    const store = storeWith(on.store, {
      readKeys: (asked) => {
        read.push(asked.type);
        return on.store.readKeys(asked);
      },
      getLedgers: ({ partition, fairnessKeys: keys }) => {
        read.push(...keys);
        return on.store.getLedgers({ partition, fairnessKeys: keys });
      },
    });
    await on.pass({}, on.dispatcher({ store }));
    expect(read).toEqual(['y']);
  });

  it('because each is at its cap are read without their ledgers, and not anew by each pass of one who knows them', async () => {
    const on = twoTypes(900, null, 1);
    await on.put(...times(1_600, (at) => on.job({ type: 'x', fairnessKey: customer(at % 800) })));
    await ticks(on, 1);
    let keysRead = 0;
    const charged: string[] = [];
    const store = storeWith(on.store, {
      readKeys: async (asked) => {
        const read = await on.store.readKeys(asked);
        keysRead += read.keys.length;
        return read;
      },
      getLedgers: ({ partition, fairnessKeys: keys }) => {
        charged.push(...keys);
        return on.store.getLedgers({ partition, fairnessKeys: keys });
      },
    });
    const warm = on.dispatcher({ store });
    await on.pass({}, warm);
    for (let again = 0; again < 7; again += 1) {
      await on.advance(1_000);
      await on.pass({}, warm);
    }
    // Only those of what is in flight, once.
    expect(new Set(charged).size).toBe(charged.length);
    expect(keysRead).toBe(800);
    await on.advance(60_000);
    await on.pass({}, warm);
    expect(keysRead).toBe(1_600);
  });
});

describe('keys whose lines were used up', () => {
  const EMPTY = 1_500;

  it('change nothing of the order behind them, and a dispatcher that has looked at them does not look again', async () => {
    const on = stage({
      leads: true,
      pool: {
        types: { resize: {} },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
        fairness: { idlePolicy: 'none' },
      },
    });
    const charged = (fairnessKey: string, settledCostMs: number) => ({
      fairnessKey,
      settledCostMs,
      lastSeenMs: on.time.nowMs,
    });
    const ledgers = [charged('dear', 3_000), charged('cheap', 2_000)];
    await on.commit({ ledgers });
    for (let from = 0; from < EMPTY; from += 100) {
      const lines = times(100, (at) => ({
        type: 'resize',
        mode: 'queued' as const,
        fairnessKey: `key-${from + at}`,
      }));
      await on.store.announceLines({ partition: 0, lines, nowMs: on.time.nowMs });
    }
    const [dear, cheap] = await on.put(on.job({ fairnessKey: 'dear' }), on.job({ fairnessKey: 'cheap' }));
    let reads = 0;
    const store = storeWith(on.store, {
      readLine: (parameters) => {
        reads += 1;
        return on.store.readLine(parameters);
      },
    });
    const dispatcher = on.dispatcher({ store });
    await on.pass({}, dispatcher);
    expect([on.stateOf(cheap?.id ?? ''), on.stateOf(dear?.id ?? '')]).toEqual(['claimed', 'pending']);
    expect(reads).toBeLessThan(EMPTY + 200);
    reads = 0;
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.advance(10_000);
    const ended = await on.end(started, SUCCEEDED);
    await on.pass({ jobs: [ended], reason: 'stream' }, dispatcher);
    expect(on.stateOf(dear?.id ?? '')).toBe('claimed');
    expect(reads).toBeLessThan(100);
  });
});
