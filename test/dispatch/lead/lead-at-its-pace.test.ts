/** Whoever keeps a partition makes passes at a pace where slots are free, and looks for what nobody has told of where that is worth it. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { leadWhileBusy } from '../../../lib/dispatch/dispatch.ts';
import { leaveLetter } from '../../../lib/dispatch/lead/lead.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const PASSES_A_SECOND = 6;
/** Passes that may follow each other at once after a time without. */
const RESERVE = 4;

interface Scene {
  readonly on: Stage;
  /** When its passes began. */
  readonly passes: readonly number[];
  readonly led: Promise<unknown>;
}

/** A function leads a partition with so many slots, and has made its first pass. */
async function leading({
  slots,
  maxConcurrency,
}: {
  readonly slots: number;
  readonly maxConcurrency?: number;
}): Promise<Scene> {
  const on = stage({
    pool: {
      types: { resize: { defaultCostMs: 60_000, timeoutMs: 600_000, maxConcurrency } },
      fleets: { images: { types: ['resize'], slots } },
    },
    budget: { leadWhile: 0 },
  });
  const passes: number[] = [];
  const store = storeWith<JobStore>(on.store, {
    loadPartition: (asked) => {
      passes.push(on.time.nowMs);
      return on.store.loadPartition(asked);
    },
  });
  const led = leadWhileBusy(on.dispatcher({ store }), 0);
  await on.advance(0);
  expect(passes).toHaveLength(1);
  return { on, passes, led };
}

/** Leaves a letter of a new job of each key. */
async function tellOf(on: Stage, keys: readonly string[]): Promise<readonly Job[]> {
  const told = await on.put(...keys.map((fairnessKey) => on.job({ fairnessKey })));
  await on.store.putLetter({
    partition: 0,
    letter: { jobIds: told.map(({ id }) => id) },
    nowMs: on.time.nowMs,
  });
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
  it('six passes a second are made at most, however many letters come', async () => {
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

describe('what the leader says to those that store jobs', () => {
  it('is with each renewal whether a letter of each job is wanted', async () => {
    const scene = await leading({ slots: 5_000 });
    const { on } = scene;
    const said = async (): Promise<boolean | undefined> => (await on.store.readLeader(0))?.wantsLetters;
    expect(await said()).toBe(true);
    const keys = Array.from({ length: 10 }, (_, at) => `tenant-${at}`);
    await goOn(scene, { forMs: 10_000, everyMs: 100, keys });
    expect(await said()).toBe(false);
    await on.finish(scene.led);
  });

  it('is that no letter is wanted where many jobs come, though few may start', async () => {
    const scene = await leading({ slots: 5_000, maxConcurrency: 1 });
    const { on } = scene;
    const stream = on.dispatcher();
    for (let at = 0; at < 120; at += 1) {
      const told = await on.put(...Array.from({ length: 10 }, () => on.job()));
      await leaveLetter(stream, 0, { hints: told });
      await on.advance(100);
    }
    expect((await on.store.readLeader(0))?.wantsLetters).toBe(false);
    await on.finish(scene.led);
  });
});
