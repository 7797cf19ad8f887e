/** A type may limit how many of its jobs run on one resource: exactly so many, whoever waits, in all partitions together. */
import { describe, expect, it } from 'vitest';
import { partitionOf } from '../../../lib/core/partition.ts';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { dispatchAll } from '../../../lib/dispatch/dispatch.ts';
import { redeployed } from '../../stage/redeployed.ts';
import { type Stage, stage } from '../../stage/stage.ts';
import { watch } from '../../stage/watch.ts';

const CAP = 3;
const SLOTS = 16;

const pool = (changes: Partial<PoolInput> = {}, maxConcurrencyPerResource = CAP): PoolInput => ({
  types: {
    render: { defaultCostMs: 1_000, timeoutMs: 600_000, maxConcurrencyPerResource },
    other: { defaultCostMs: 1_000, timeoutMs: 600_000 },
  },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['render', 'other'], slots: SLOTS } },
  ...changes,
});

const watched = (input: PoolInput, parkKept = 1) => {
  let configuration: (() => Stage['configuration']) | undefined;
  const own = watch(() => {
    if (configuration === undefined) throw new Error('nothing is configured');
    return configuration();
  });
  const on = stage({ pool: input, budget: { parkKept }, observe: own.observe });
  configuration = () => on.configuration;
  return { on, own };
};

const album = (on: Stage, count: number, changes = {}) =>
  on.put(
    ...Array.from({ length: count }, (_, at) =>
      on.job({ type: 'render', resourceId: 'album', fairnessKey: `tenant-${at % 7}`, ...changes }),
    ),
  );

/** Those that fleets were told of, and those that have started. */
const running = (on: Pick<Stage, 'store' | 'stateOf'>, type: string): number =>
  [...on.store.everyJob()].filter(
    (job) => job.type === type && !['pending', 'succeeded'].includes(on.stateOf(job.id) ?? ''),
  ).length;

describe('jobs of a type that limits them for a resource', () => {
  // Of each line, a pass reads the first few of its parked jobs: what is behind those must follow, too.
  it.each([
    { cap: CAP, ended: 1, keys: 7 },
    { cap: CAP, ended: 2, keys: 7 },
    { cap: CAP, ended: CAP, keys: 2 },
    { cap: 12, ended: 12, keys: 1 },
  ])(
    'are parked, and as $ended of $cap end at once, as many follow, of $keys keys, until the last one has ended',
    async ({ cap, ended, keys }) => {
      const { on, own } = watched(pool({}, cap));
      const jobs = await on.put(
        ...Array.from({ length: 60 }, (_, at) =>
          on.job({ type: 'render', resourceId: 'album', fairnessKey: `tenant-${at % keys}` }),
        ),
      );
      await on.pass();
      await on.pass();
      const parked = jobs.filter(({ id }) => on.store.inspectLine(id)?.startsWith('blocked/') === true);
      expect(parked.length).toBeGreaterThan(30);
      const left = [...(await on.startAll('images'))];
      for (let gone = 0; gone < jobs.length; ) {
        const ending = left.splice(0, ended);
        gone += ending.length;
        const images = await Promise.all(ending.map((each) => on.end(each)));
        await on.pass({ jobs: images, reason: 'stream' });
        left.push(...(await on.startAll('images')));
        expect(left).toHaveLength(Math.min(cap, jobs.length - gone));
      }
      expect(on.states(jobs).every((state) => state === 'succeeded')).toBe(true);
      expect(own.most.get('resource render album')).toBe(cap);
      own.expectNothingWrong();
    },
  );

  it('keep the mark of their blocked line as long as one of them has a place there and has not started', async () => {
    const { on } = watched(pool());
    const jobs = await album(on, 4 * CAP, { fairnessKey: 'tenant' });
    await on.pass();
    await on.pass();
    // All but one are over, or unwanted: that one is told of where it is parked, and nobody takes its message.
    const parked = jobs.filter(({ id }) => on.store.inspectLine(id)?.startsWith('blocked/') === true);
    const last = parked.at(-1);
    if (last === undefined) throw new Error('none is parked');
    for (const { id } of jobs)
      if (id !== last.id && on.stateOf(id) === 'pending')
        await on.store.cancelJob({
          jobId: id,
          nowMs: on.time.nowMs,
          expiresAtMs: on.time.nowMs + 1_000_000_000,
        });
    const images = [];
    for (const each of await on.startAll('images')) images.push(await on.end(each));
    // By then nobody has parked anything there for long.
    await on.advance(61_000);
    await on.pass({ jobs: images, reason: 'stream' });
    expect([on.stateOf(last.id), on.store.inspectLine(last.id)?.startsWith('blocked/')]).toEqual([
      'claimed',
      true,
    ]);
    // Nothing else stands there. Were its place given up, it would wait there again.
    await on.pass({}, on.dispatcher());
    expect((await on.store.listParked({ partition: 0, limit: 10 })).marks).toHaveLength(1);
  });
});

describe('in several partitions', () => {
  const keyIn = (partition: number, partitions: number): string => {
    const keys = Array.from({ length: 100 }, (_, at) => `key-${at}`);
    return keys.find((key) => partitionOf(key, partitions) === partition) ?? '';
  };

  it('nothing starts beyond the limit where there come to be more of them while jobs run', async () => {
    const on = await redeployed(pool({}, 4));
    const of = { type: 'render', resourceId: 'album' };
    const tick = async (): Promise<void> => {
      await on.finish(dispatchAll(await on.process(), { jobs: [], reason: 'tick' }));
    };
    const submit = (partition: number) =>
      on.submitNow(
        ...Array.from({ length: 6 }, () => on.job({ ...of, partition, fairnessKey: keyIn(partition, 2) })),
      );
    await submit(0);
    await tick();
    expect(running(on, 'render')).toBe(4);
    await on.deploy(pool({ partitions: 2 }, 4));
    await submit(1);
    for (let round = 0; round < 4; round += 1) {
      await tick();
      await on.advance(16_000);
      expect(running(on, 'render')).toBe(4);
    }
    for (const started of await on.startAll('images')) await on.end(started);
    for (let round = 0; round < 4; round += 1) {
      await tick();
      await on.advance(16_000);
      expect(running(on, 'render')).toBeLessThanOrEqual(4);
    }
    expect(running(on, 'render')).toBe(4);
  });
});
