/** Weights act on the backlog at once: an operator's, and those that a deployment changes. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../../lib/core/defaults.ts';
import type { Job } from '../../../lib/core/job.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { type Stage, SUCCEEDED, stage, storeWith } from '../../stage/stage.ts';

const KEYS = 250;
const SLOTS = 12;

const poolWith = (weights: Readonly<Record<string, number>>, defaultWeight = 1): PoolInput => ({
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 30_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: SLOTS } },
  fairness: { weights, defaultWeight },
});

/**
 * A backlog of many keys, each charged a little more than the one before: the first read of the keys line does not come
 * near the last one.
 */
async function backlog(on: Stage, jobsOfLast = SLOTS): Promise<void> {
  for (let from = 0; from < KEYS; from += 50) {
    const ledgers = Array.from({ length: 50 }, (_, at) => ({
      fairnessKey: keyOf(from + at),
      settledCostMs: 100_000 + 10 * (from + at),
      lastSeenMs: on.time.nowMs,
    }));
    await on.commit({ ledgers });
  }
  await on.advance(10);
  const jobs: Job[] = [];
  // A little older than their ledgers: none of these keys has been away.
  const readyAtMs = on.time.nowMs - 10_000;
  for (let at = 0; at < KEYS; at += 1) {
    const count = at === KEYS - 1 ? jobsOfLast : 2;
    for (let n = 0; n < count; n += 1) jobs.push(on.job({ fairnessKey: keyOf(at), readyAtMs }));
  }
  await on.put(...jobs);
}

const keyOf = (at: number): string => `tenant-${String(at).padStart(3, '0')}`;
const LAST = keyOf(KEYS - 1);

const admittedOf = (on: Stage, fairnessKey: string): number =>
  on.held().filter((entry) => entry.fairnessKey === fairnessKey).length;

/** Ends what runs, and lets the capacity go to whoever is next. */
async function workOff(on: Stage, context: DispatchContext = on.main): Promise<void> {
  const ended: Job[] = [];
  for (const started of await on.startAll('images')) ended.push(await on.end(started, SUCCEEDED));
  await on.pass({ jobs: ended, reason: 'stream' }, context);
}

describe('a weight that an operator puts', () => {
  it('costs one read of each of these keys for as long as its lines are believed, where the keys line is long', async () => {
    const on = stage({ pool: poolWith({}), leads: true });
    await backlog(on);
    await on.store.changeControl({ partition: 0, scope: `key/${LAST}`, change: { weight: 0.5 } });
    const asked: (readonly string[])[] = [];
    const context = on.dispatcher({
      store: storeWith(on.store, {
        readBacklogs: ({ partition, type: tier, fairnessKeys: keys }) => {
          asked.push(keys);
          return on.store.readBacklogs({ partition, type: tier, fairnessKeys: keys });
        },
      }),
    });
    await on.pass({}, context);
    await workOff(on, context);
    expect(asked).toEqual([[LAST]]);
    // One that was read in its turn, and one that was not.
    const other = keyOf(KEYS - 2);
    for (const key of [keyOf(3), other])
      await on.store.changeControl({ partition: 0, scope: `key/${key}`, change: { weight: 0.5 } });
    await workOff(on, context);
    await workOff(on, context);
    expect(asked).toEqual([[LAST], [other]]);
  });
});

describe('a weight that a deployment changes', () => {
  const deployed = (on: Stage, pool: PoolInput): DispatchContext =>
    on.dispatcher({ configuration: resolveConfiguration(pool) });

  it('decides from the first pass on, however far behind the key stands', async () => {
    const on = stage({ pool: poolWith({ [LAST]: 0.5 }) });
    await backlog(on);
    await on.pass();
    expect(admittedOf(on, LAST)).toBe(0);
    await workOff(on, deployed(on, poolWith({ [LAST]: 3 })));
    expect(admittedOf(on, LAST)).toBe(SLOTS);
  });
});
