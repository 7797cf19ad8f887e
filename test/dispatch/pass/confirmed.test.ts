/** Jobs that a dispatcher is told of late: their images may be old, so those that it chooses are read. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import type { DispatchContext } from '../../../lib/dispatch/partition/context.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

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
