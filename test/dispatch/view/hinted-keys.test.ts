/** What a hint tells is not all there is, and what another dispatcher heard is not lost. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { type Stage, SUCCEEDED, stage } from '../../stage/stage.ts';

/** A page of a keys line is a hundred keys. */
const OTHERS = 150;
const FAR = 'far';

const POOL: PoolInput = {
  types: { resize: { defaultCostMs: 1_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 1 } },
  fairness: { weights: { [FAR]: 0.5 } },
};

/** Keys of which each was charged a little more than the one before, and each has a job; the key of these jobs was charged most. */
async function behindAPage(on: Stage, waiting: readonly Job[], count = OTHERS): Promise<void> {
  const keys = [...Array.from({ length: count }, (_, at) => `tenant-${at}`), FAR];
  for (let from = 0; from < keys.length; from += 50) {
    const ledgers = keys.slice(from, from + 50).map((fairnessKey, at) => ({
      fairnessKey,
      settledCostMs: 100_000 + from + at,
      lastSeenMs: on.time.nowMs,
    }));
    await on.commit({ ledgers });
  }
  await on.advance(10);
  const readyAtMs = on.time.nowMs - 10_000;
  const others = keys.slice(0, -1).map((fairnessKey) => on.job({ fairnessKey, readyAtMs }));
  await on.put(...others, ...waiting);
}

/** Of a key that comes last, a job waits that nobody tells of; then the key comes first, and another job of its is told. */
async function startsFirst(on: Stage, silent: Job, told: Job): Promise<readonly string[]> {
  await behindAPage(on, [silent]);
  await on.pass();
  await on.store.changeControl({ partition: 0, scope: `key/${FAR}`, change: { weight: 4 } });
  await on.put(told);
  const ended: Job[] = [];
  for (const started of await on.startAll('images')) ended.push(await on.end(started, SUCCEEDED));
  await on.pass({ jobs: [...ended, told], reason: 'stream' });
  return on.held().map(({ id }) => id);
}

describe('a key that hints tell of', () => {
  it('starts its best job, though that is on demand and the one told of is not', async () => {
    const on = stage({ pool: POOL });
    const best = on.job({ fairnessKey: FAR, mode: 'onDemand' });
    expect(await startsFirst(on, best, on.job({ fairnessKey: FAR }))).toEqual([best.id]);
  });
});

describe('a key that stands behind what was read of the keys line', () => {
  /** Its best job, of which nobody told, and a queued one that was told, when its turn comes. */
  async function play(forgets: boolean) {
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 95 } },
        fairness: { idlePolicy: 'none', maxConcurrencyPerKey: 1 },
      },
    });
    const [best, told] = [on.job({ fairnessKey: FAR, mode: 'onDemand' }), on.job({ fairnessKey: FAR })];
    await behindAPage(on, [best], 100);
    await on.pass();
    await on.put(told);
    const running = await on.startAll('images');
    await on.advance(500);
    const ended: Job[] = [];
    for (const started of running) ended.push(await on.end(started));
    if (forgets) on.main.caches.clear();
    await on.pass({ jobs: [told, ...ended], reason: 'stream' });
    return on.states([best, told]);
  }

  it.each([true, false])(
    'starts its best job, whichever line a hint told of (forgets all: %s)',
    async (forgets) => {
      expect(await play(forgets)).toEqual(['claimed', 'pending']);
    },
  );
});

describe('a job that another dispatcher promoted', () => {
  it('starts in the next pass that looks at what is due, though its ready line does not show it yet', async () => {
    const on = stage({ store: { indexLagMs: 1_000 }, pool: POOL });
    const [first, due] = [on.job(), on.job({ state: 'scheduled', runAtMs: on.time.nowMs + 5_000 })];
    await on.put(first, due);
    await on.pass({ jobs: [first], reason: 'ingest' });
    const [running] = await on.startAll('images');
    if (running === undefined) throw new Error('the first job does not run');
    await on.advance(5_000);
    await on.pass({ reason: 'wake' });
    expect(on.stateOf(due.id)).toBe('pending');
    const ended = await on.end(running);
    await on.pass({ jobs: [ended], reason: 'wake' }, on.dispatcher());
    expect(on.stateOf(due.id)).toBe('claimed');
  });
});
