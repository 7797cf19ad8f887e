/** Who is told of jobs looks them up, and does not do once more what the stream tells of later. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { triggersOf } from '../../lib/dispatch/serve.ts';
import { type Stage, stage, storeWith } from '../stage/stage.ts';

/** Neither the keys line nor any ready line shows anything yet. */
const lagging = (on: Stage) =>
  on.dispatcher({
    store: storeWith(on.store, {
      readKeys: async () => ({ keys: [] }),
      readLine: async () => ({ jobs: [] }),
    }),
  });

describe('a dispatcher that is told of jobs', () => {
  it('starts them, though no index shows them yet', async () => {
    const on = stage();
    const [job] = await on.put(on.job());
    const ids = [job?.id ?? ''];
    await on.pass({ reason: 'stored', jobIds: ids }, lagging(on));
    expect(on.stateOf(ids[0] ?? '')).toBe('claimed');
  });

  it('takes it that others will tell of one that is not stored yet, and starts it then', async () => {
    const on = stage();
    const job = on.job();
    const context = lagging(on);
    const report = await on.pass({ reason: 'stored', jobIds: [job.id] }, context);
    expect(report).toMatchObject({ kind: 'done', admitted: 0, lostClaims: 0 });
    await on.put(job);
    expect(await on.pass({ reason: 'stream', jobs: [job] }, context)).toMatchObject({ admitted: 1 });
  });

  it('starts nothing a second time when the stream tells of it', async () => {
    const on = stage();
    const [job] = (await on.put(on.job())) as [Job];
    await on.pass({ reason: 'stored', jobIds: [job.id] });
    for (const context of [on.main, on.dispatcher()])
      expect(await on.pass({ reason: 'stream', jobs: [job] }, context)).toMatchObject({ admitted: 0 });
    expect(on.queue.sizeOf('images')).toBe(1);
  });
});

describe('a letter of what can be no job', () => {
  it.each([
    ['an id longer than any', 'x'.repeat(3_000)],
    ['nothing', ''],
    ['half a character', '\ud800'],
  ])('stops no pass, and is taken away with the others: %s', async (_, id) => {
    const on = stage();
    await on.store.putLetter({ partition: 0, letter: { jobIds: [id] }, nowMs: on.time.nowMs });
    for (let times = 0; times < 3; times += 1) {
      const [job] = (await on.put(on.job())) as [Job];
      await on.pass({ jobs: [job], reason: 'tick' });
      expect(on.stateOf(job.id)).toBe('claimed');
    }
    expect(on.store.inspect(0).letters.size).toBe(0);
  });

  it('comes from no message, though it is told by whoever may send one', async () => {
    const on = stage();
    const [job] = (await on.put(on.job())) as [Job];
    const [trigger] = triggersOf([{ partition: 0, asks: 'pass', jobIds: ['x'.repeat(3_000), job.id] }]);
    if (trigger === undefined) throw new Error('nobody is woken');
    expect(await on.pass(trigger)).toMatchObject({ admitted: 1 });
  });
});

describe('wakes that come together', () => {
  it('ask for one pass of each partition, which is told of the jobs of all of them', () => {
    const ofJobs = { asks: 'pass', jobIds: ['one'] } as const;
    const wakes = [
      { partition: 0, ...ofJobs },
      { partition: 0, asks: 'pass', dueAtMs: 7 },
      { partition: 0, asks: 'pass', jobIds: ['two', 'three'] },
      { partition: 1, ...ofJobs },
      { partition: 2, asks: 'pass' },
      { partition: 2, asks: 'pass', dueAtMs: 7 },
    ] as const;
    expect(triggersOf(wakes)).toEqual([
      {
        jobs: [],
        reason: 'wake',
        partitions: [0],
        jobIds: ['one', 'two', 'three'],
        dueAtMs: 7,
        isForDue: true,
      },
      { jobs: [], reason: 'stored', partitions: [1], jobIds: ['one'] },
      { jobs: [], reason: 'wake', partitions: [2], dueAtMs: 7 },
    ]);
  });
});
