/** Who is told of jobs looks them up, and does not do once more what the stream tells of later. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { triggersOf } from '../../lib/dispatch/woken.ts';
import { type Stage, stage, storeWith } from './stage.ts';

/** Neither the keys line nor any ready line shows anything yet. */
const lagging = (on: Stage) =>
  on.dispatcher({
    store: storeWith(on.store, {
      readKeys: async () => ({ keys: [] }),
      readLine: async () => ({ jobs: [] }),
    }),
  });

const epochOf = (on: Stage): number => on.store.inspect(0).lease.epoch;
const LEASE = { partition: 0, holder: 'another', leaseMs: 20_000 };

describe('a dispatcher that is told of jobs', () => {
  it('starts them, though no index shows them yet', async () => {
    const on = stage();
    const [job] = await on.put(on.job());
    const ids = [job?.id ?? ''];
    await on.pass({ reason: 'told', jobIds: ids }, lagging(on));
    expect(on.stateOf(ids[0] ?? '')).toBe('claimed');
  });

  it('takes it that others will tell of one that is not stored yet, and starts it then', async () => {
    const on = stage();
    const job = on.job();
    const context = lagging(on);
    const report = await on.pass({ reason: 'told', jobIds: [job.id] }, context);
    expect(report).toMatchObject({ kind: 'done', admitted: 0, lostClaims: 0 });
    await on.put(job);
    expect(await on.pass({ reason: 'stream', jobs: [job] }, context)).toMatchObject({ admitted: 1 });
  });

  it('takes no lease when the stream tells of what it has admitted', async () => {
    const on = stage();
    const [job] = (await on.put(on.job())) as [Job];
    await on.pass({ reason: 'told', jobIds: [job.id] });
    const epoch = epochOf(on);
    const again = await on.pass({ reason: 'stream', jobs: [job] });
    expect([again.kind, epochOf(on)]).toEqual(['known', epoch]);
    // Another process knows nothing of that.
    const other = await on.pass({ reason: 'stream', jobs: [job] }, on.dispatcher());
    expect([other.kind, other.admitted, other.passes]).toEqual(['done', 0, 1]);
  });

  it('makes a pass for what it has not admitted, and for what has gone on since', async () => {
    const on = stage();
    const [job, later] = (await on.put(on.job(), on.job())) as [Job, Job];
    await on.pass({ reason: 'told', jobIds: [job.id] });
    const [started] = await on.startEverywhere();
    if (started === undefined) throw new Error('nothing started');
    const ended = await on.end(started);
    expect(await on.pass({ reason: 'stream', jobs: [job, ended] })).toMatchObject({
      kind: 'done',
      settled: 1,
    });
    expect((await on.pass({ reason: 'stream', jobs: [{ ...later, version: later.version + 9 }] })).kind).toBe(
      'done',
    );
  });

  it('waits a little for a lease that another holds, and then leaves no word: the stream tells', async () => {
    const on = stage();
    const [job] = (await on.put(on.job())) as [Job];
    const lease = await on.store.acquireLease({ ...LEASE, nowMs: on.time.nowMs });
    const told = on.pass({ reason: 'told', jobIds: [job.id] });
    const sinceMs = on.time.nowMs;
    expect((await told).kind).toBe('left');
    expect(on.time.nowMs - sinceMs).toBeLessThan(200);
    expect((await on.store.readWakes(0)).wakes).toBe(0);
    if (lease.kind !== 'acquired') throw new Error('the lease was not free');
    await on.store.releaseLease({ fence: { partition: 0, epoch: lease.epoch } });
    expect(await on.pass({ reason: 'told', jobIds: [job.id] })).toMatchObject({ admitted: 1 });
  });

  it('leaves word for a dispatcher that runs on', async () => {
    const on = stage();
    const [job] = (await on.put(on.job())) as [Job];
    await on.store.acquireLease({ ...LEASE, holder: 'resident/one/1', nowMs: on.time.nowMs });
    const sinceMs = on.time.nowMs;
    expect((await on.pass({ reason: 'told', jobIds: [job.id] })).kind).toBe('left');
    expect([on.time.nowMs - sinceMs, (await on.store.readWakes(0)).wakes]).toEqual([0, 1]);
  });
});

describe('word of what can be no job', () => {
  it.each([
    ['an id longer than any', 'x'.repeat(3_000)],
    ['nothing', ''],
    ['half a character', '\ud800'],
  ])('stops no pass, and is taken away with the others: %s', async (_, id) => {
    const on = stage();
    await on.store.wake({ partition: 0, jobs: [{ id, version: 0, isWaiting: true }] });
    for (let times = 0; times < 3; times += 1) {
      const [job] = (await on.put(on.job())) as [Job];
      await on.pass({ reason: 'tick' });
      expect(on.stateOf(job.id)).toBe('claimed');
    }
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
      { jobs: [], reason: 'told', partitions: [1], jobIds: ['one'] },
      { jobs: [], reason: 'wake', partitions: [2], dueAtMs: 7 },
    ]);
  });
});
