/** Jobs that waited before a dispatcher began to remember: their images may be old, so each is read, and once. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { type Stage, stage, storeWith } from './stage.ts';

/** Two types, of which one has no room while the other has. */
const setting = (): Stage =>
  stage({
    leads: true,
    pool: {
      types: { resize: { maxConcurrency: 1 }, pack: {} },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'pack'], slots: 4 } },
    },
  });

function reader(on: Stage): { readonly context: DispatchContext; readonly asked: string[] } {
  const asked: string[] = [];
  const store = storeWith(on.store, {
    lookUpJobs: async (request) => {
      asked.push(...request.ids);
      return on.store.lookUpJobs(request);
    },
  });
  return { context: on.dispatcher({ store }), asked };
}

/** Three jobs wait, of which a dispatcher is told that did not see how they came. */
async function told(): Promise<{
  readonly on: Stage;
  readonly asked: readonly string[];
  readonly pass: (changes?: Partial<Job>) => Promise<unknown>;
}> {
  const on = setting();
  const jobs = Array.from({ length: 3 }, (_, at) => on.job({ fairnessKey: `tenant-${at % 2}` }));
  await on.put(on.job({ fairnessKey: 'tenant-0' }), ...jobs);
  await on.pass();
  await on.startAll('images');
  await on.advance(1_000);
  const { context, asked } = reader(on);
  return {
    on,
    asked,
    pass: (changes = {}) =>
      on.pass({ jobs: jobs.map((job) => ({ ...job, ...changes })), reason: 'stream' }, context),
  };
}

it('are read by the first pass that is told of them, and not again by those that follow it', async () => {
  const { on, asked, pass } = await told();
  await pass();
  expect(asked).toHaveLength(1);
  for (let passes = 0; passes < 3; passes += 1) {
    await on.advance(500);
    await pass();
  }
  expect(asked).toHaveLength(1);
});

it('are read again where another dispatcher has made passes since', async () => {
  const { on, asked, pass } = await told();
  await pass();
  await on.commit({});
  await pass();
  expect(asked).toHaveLength(2);
});

const timesAsked = (asked: readonly string[]): number => asked.filter((id) => id === asked[0]).length;

it('are read again where an image shows another version', async () => {
  const { on, asked, pass } = await told();
  await pass();
  await on.advance(500);
  await pass({ version: 2 });
  expect(timesAsked(asked)).toBe(2);
});

it('are read until one of them is met that waits, where they show that their key was there before', async () => {
  const on = setting();
  await on.put(on.job({ fairnessKey: 'tenant-1' }));
  await on.pass();
  const [first] = await on.startAll('images');
  if (first === undefined) throw new Error('nothing started');
  const waits = await on.put(on.job({ fairnessKey: 'tenant-0' }));
  await on.advance(1_000);
  const jobs = Array.from({ length: 20 }, () => on.job({ fairnessKey: 'tenant-1' }));
  await on.put(...jobs);
  await on.advance(1_000);
  await on.pass({ jobs: [await on.end(first), ...waits], reason: 'stream' });
  expect(on.held().map(({ fairnessKey }) => fairnessKey)).toEqual(['tenant-0']);
  const { context, asked } = reader(on);
  await on.pass({ jobs, reason: 'stream' }, context);
  expect(asked).toHaveLength(1);
});

describe('of many jobs that were told of late', () => {
  const SLOTS = 100;
  const ENDED = 20;
  const KEYS = 10;
  const LATE = 1_000;
  const LOOKS_MAX = 400;

  /** All slots are taken, and jobs have waited for a while; what the stream says of them comes late, and some attempts end. */
  async function manyLate(keyOf: (at: number) => string, lateMs = 60_000) {
    const on = stage({
      leads: true,
      pool: {
        types: { resize: { timeoutMs: 3_600_000 } },
        fleets: { images: { types: ['resize'], slots: SLOTS } },
      },
    });
    await on.put(...Array.from({ length: SLOTS }, (_, at) => on.job({ fairnessKey: `tenant-${at % KEYS}` })));
    const { context, asked } = reader(on);
    await on.pass({}, context);
    const running = await on.startEverywhere();
    const late = (await on.put(
      ...Array.from({ length: LATE }, (_, at) => on.job({ fairnessKey: keyOf(at) })),
    )) as Job[];
    await on.advance(lateMs);
    const ended = await Promise.all(running.slice(0, ENDED).map((each) => on.end(each)));
    asked.length = 0;
    const ids = new Set(late.map(({ id }) => id));
    /** How many of them were looked up. */
    const looks = (): number => asked.filter((id) => ids.has(id)).length;
    return { on, looks, pass: () => on.pass({ jobs: [...late, ...ended], reason: 'stream' }, context) };
  }

  it('looks up a bounded number, reads the lines of the others, and starts as many as there is room for', async () => {
    const { on, looks, pass } = await manyLate((at) => `tenant-${at % KEYS}`);
    expect(await pass()).toMatchObject({ settled: ENDED, admitted: ENDED });
    expect(on.held()).toHaveLength(SLOTS);
    expect(looks()).toBeLessThanOrEqual(LOOKS_MAX);
  });

  it('lifts a key that came with one of them', async () => {
    const { on, pass } = await manyLate((at) => (at === LATE - 1 ? 'new' : `tenant-${at % KEYS}`));
    await pass();
    const shares = [...on.store.inspect(0).ledgers.values()].map(({ fairnessKey }) => fairnessKey);
    expect(shares).toContain('new');
    expect(on.held().some(({ fairnessKey }) => fairnessKey === 'new')).toBe(true);
  });

  it('starts them also where nothing had waited, and nobody would look for a minute', async () => {
    const on = stage({
      pool: {
        types: { resize: { timeoutMs: 3_600_000 } },
        fleets: { images: { types: ['resize'], slots: SLOTS } },
      },
    });
    await on.advance(20_000);
    for (let passes = 0; passes < 2; passes += 1) {
      await on.pass();
      await on.advance(11_000);
    }
    const jobs = (await on.put(...Array.from({ length: LATE }, () => on.job()))) as Job[];
    await on.advance(31_000);
    expect((await on.pass({ jobs, reason: 'stream' })).admitted).toBe(SLOTS);
  });

  it('reads one job of each new key, and not all that were told of', async () => {
    const { on, looks, pass } = await manyLate((at) => `new-${at % KEYS}`, 1_000);
    expect(await pass()).toMatchObject({ admitted: ENDED });
    expect(on.held()).toHaveLength(SLOTS);
    // And those that it has chosen.
    expect(looks()).toBeLessThanOrEqual(KEYS + ENDED);
  });
});
