/** Whoever keeps a partition makes passes at a pace where slots are free, and looks for what nobody has told of where that is worth it. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { leadForAWhile } from '../../lib/dispatch/lead-for-a-while.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { type Stage, stage, storeWith } from './stage.ts';

const PASSES_A_SECOND = 6;
/** Passes that may follow each other at once after a time without. */
const RESERVE = 4;

interface Scene {
  readonly on: Stage;
  /** When its passes began. */
  readonly passes: readonly number[];
  /** When its lease was renewed. */
  readonly renewals: readonly number[];
  readonly led: Promise<unknown>;
}

/** A function leads a partition with so many slots, and has made its first pass. */
async function leading({
  slots,
  costMs = 60_000,
}: {
  readonly slots: number;
  readonly costMs?: number;
}): Promise<Scene> {
  const on = stage({
    pool: {
      types: { resize: { defaultCostMs: costMs, timeoutMs: 600_000 } },
      fleets: { images: { types: ['resize'], slots } },
    },
    budget: { leadWhile: 0 },
  });
  const passes: number[] = [];
  const renewals: number[] = [];
  const store = storeWith<JobStore>(on.store, {
    loadPartition: (asked) => {
      passes.push(on.time.nowMs);
      return on.store.loadPartition(asked);
    },
    renewLease: (asked) => {
      renewals.push(on.time.nowMs);
      return on.store.renewLease(asked);
    },
  });
  const led = leadForAWhile(on.dispatcher({ store }), 0);
  await on.advance(0);
  expect(passes).toHaveLength(1);
  return { on, passes, renewals, led };
}

/** Leaves word of a new job of each key. */
async function tellOf(on: Stage, keys: readonly string[]): Promise<readonly Job[]> {
  const told = await on.put(...keys.map((fairnessKey) => on.job({ fairnessKey })));
  const names = told.map(({ id, version }) => ({ id, version, isWaiting: true }));
  await on.store.wake({ partition: 0, jobs: names });
  return told;
}

/** The same again and again, ten keys at a time. */
async function goOn(
  { on }: Pick<Scene, 'on'>,
  {
    forMs,
    everyMs,
    keys,
  }: { readonly forMs: number; readonly everyMs: number; readonly keys: readonly string[] },
): Promise<void> {
  for (let from = 0, leftMs = forMs; leftMs > 0; from += 10, leftMs -= everyMs) {
    const first = from % keys.length;
    await tellOf(on, keys.slice(first, first + 10));
    await on.advance(everyMs);
  }
}

describe('where slots are free', () => {
  it('six passes a second are made at most, however much word comes', async () => {
    const scene = await leading({ slots: 5_000 });
    await goOn(scene, { forMs: 10_000, everyMs: 10, keys: ['tenant'] });
    expect(scene.passes.length).toBeLessThanOrEqual(10 * PASSES_A_SECOND + RESERVE);
    await scene.on.advance(PASSES_A_SECOND * 170);
    expect(scene.on.held()).toHaveLength(1_000);
    await scene.on.finish(scene.led);
  });

  it('jobs of which nobody has told are started soon where much went on until now', async () => {
    const scene = await leading({ slots: 5_000 });
    const { on } = scene;
    const keys = Array.from({ length: 10 }, (_, at) => `tenant-${at}`);
    await goOn(scene, { forMs: 12_000, everyMs: 100, keys });
    const untold = await on.put(on.job({ fairnessKey: 'another' }), on.job({ fairnessKey: 'tenant-0' }));
    await on.advance(400);
    expect(on.states(untold)).toEqual(['claimed', 'claimed']);
    await on.finish(scene.led);
  });
});

describe('what the lease says to whoever stores jobs', () => {
  it('is that word is wanted where little goes on, and is not where lines are read anyway, two seconds later each time', async () => {
    const scene = await leading({ slots: 5_000 });
    const { on } = scene;
    const keys = Array.from({ length: 10 }, (_, at) => `tenant-${at}`);
    const said: (boolean | undefined)[] = [];
    const look = async (): Promise<void> => {
      const lease = await on.store.readLease(0);
      said.push(lease?.wantsWord);
    };
    await look();
    await on.advance(1_900);
    await look();
    await on.advance(200);
    await look();
    await goOn(scene, { forMs: 8_000, everyMs: 100, keys });
    await look();
    await on.advance(12_000);
    await look();
    expect(said).toEqual([undefined, undefined, true, false, true]);
    await on.finish(scene.led);
  });

  it('changes every two seconds at most, whatever goes on', async () => {
    const { on, led, renewals } = await leading({ slots: 1 });
    // Full and not, again and again.
    for (let at = 0; at < 40; at += 1) {
      await tellOf(on, ['tenant']);
      await on.advance(400);
      for (const running of await on.startEverywhere()) {
        const { id, version } = await on.end(running);
        await on.store.wake({ partition: 0, jobs: [{ id, version, isWaiting: false }] });
      }
      await on.advance(400);
    }
    expect(renewals.length).toBeGreaterThan(2);
    const gaps = renewals.slice(1).map((atMs, at) => atMs - (renewals[at] ?? 0));
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(2_000);
    await on.finish(led);
  });
});

describe('where no slot is free', () => {
  it.each([
    ['those that were in flight before', ['a', 'a', 'a', 'a'], ['b']],
    ['those that it has just admitted', ['a', 'a', 'a', 'a', 'b'], []],
  ])('a job starts soon after an end of which nobody has told: of %s', async (_, told, more) => {
    const { on, led } = await leading({ slots: 4, costMs: 1_000 });
    await tellOf(on, told);
    await on.advance(400);
    const running = await on.startEverywhere();
    expect(running).toHaveLength(4);
    const [first] = running;
    if (first === undefined) throw new Error('nothing started');
    if (more.length > 0) await tellOf(on, more);
    await on.advance(900);
    await on.end(first);
    await on.advance(300);
    expect(await on.startEverywhere()).toHaveLength(1);
    await on.finish(led);
  });
});
