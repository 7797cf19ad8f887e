/** Lines that a pass reads before their turn, so that large passes do not wait for one read after the other. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

describe('lines of which a process remembers jobs', () => {
  const pool = (slots: number) => ({
    types: { resize: {}, index: {}, pack: {} },
    tiers: [{ tier: 'standard' }],
    fleets: { images: { types: ['resize', 'index'], slots }, boxes: { types: ['pack'], slots: 0 } },
  });

  /** All that was claimed runs, and ends. */
  const endAll = async (on: Stage): Promise<readonly Job[]> => {
    const ended: Job[] = [];
    for (const each of await on.startAll('images')) ended.push(await on.end(each));
    return ended;
  };

  it('are read again once these are used up: a job that nobody told of starts if it ranks first', async () => {
    const on = stage({ pool: pool(2) });
    const told = await on.put(on.job(), on.job(), on.job());
    await on.pass({ jobs: told, reason: 'stream' });
    const ended = await endAll(on);
    const untold = await on.put(on.job({ priority: 10 }));
    await on.pass({ jobs: ended, reason: 'stream' });
    expect(on.states([...told, ...untold])).toEqual(['succeeded', 'succeeded', 'claimed', 'claimed']);
  });

  it('and that go on are read on before jobs of a lower priority start', async () => {
    const on = stage({ pool: pool(12) });
    const many = await on.put(...Array.from({ length: 20 }, () => on.job({ priority: 5 })));
    const low = await on.put(on.job({ type: 'index' }));
    await on.pass({ reason: 'tick' });
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await on.advance(100);
    await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
    expect(on.states(low)).toEqual(['pending']);
    expect(on.states(many).filter((state) => state === 'claimed')).toHaveLength(1);
  });

  /** A process has read a line of each of so many keys to its end, found nothing, and has room for two jobs of each. */
  const emptied = async (keys: number) => {
    const on = stage({ pool: pool(2 * keys), leads: true });
    const putOneEach = (): Promise<readonly Job[]> =>
      on.put(...Array.from({ length: keys }, (_, at) => on.job({ fairnessKey: `customer-${at}` })));
    // Something waits all the time.
    const waits = await on.put(on.job({ type: 'pack' }));
    await on.pass({ jobs: [...(await putOneEach()), ...waits], reason: 'stream' });
    const ended = await endAll(on);
    await on.advance(2_500);
    await on.pass({ jobs: ended, reason: 'stream' });
    await on.advance(10);
    return { on, putOneEach };
  };

  /** Lines that the pass reads which starts a job of each key, of which hints told. */
  const readsOf = async (keys: number): Promise<number> => {
    const { on, putOneEach } = await emptied(keys);
    const told = await putOneEach();
    let reads = 0;
    const store = storeWith(on.store, {
      readLine: (asked) => {
        reads += 1;
        return on.store.readLine(asked);
      },
    });
    await on.pass({ jobs: told, reason: 'stream' }, { ...on.main, store });
    expect(new Set(on.states(told))).toEqual(new Set(['claimed']));
    return reads;
  };

  it('show what nobody told of, where a pass uses few of them up', async () => {
    const { on, putOneEach } = await emptied(60);
    const [told, untold] = [await putOneEach(), await putOneEach()];
    await on.pass({ jobs: told, reason: 'stream' });
    expect(new Set(on.states([...told, ...untold]))).toEqual(new Set(['claimed']));
  });

  it('are not read again by a pass that uses many of them up', async () => {
    expect(await readsOf(20)).toBeGreaterThanOrEqual(20);
    expect(await readsOf(400)).toBeLessThanOrEqual(90);
  });
});
