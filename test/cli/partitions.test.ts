/** What the command line says of a pool in several partitions. */
import { describe, expect, it } from 'vitest';
import { partitionOf } from '../../lib/core/partition.ts';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { counter } from './desk.ts';

const keyIn = (partition: number): string => {
  for (let at = 0; ; at += 1) if (partitionOf(`key-${at}`, 3) === partition) return `key-${at}`;
};

const parted = () => {
  const on = counter({
    pool: {
      types: { resize: { conflictGroup: 'album', timeoutMs: 30_000 } },
      fleets: { images: { types: ['resize'], slots: 30 } },
      maxConcurrency: 6,
      partitions: 3,
    },
  });
  const jobIn = (partition: number, resourceId?: string) =>
    on.job({
      partition,
      fairnessKey: keyIn(partition),
      ...(resourceId === undefined ? {} : { resourceId }),
    });
  const tick = () => on.finish(dispatchAll(on.main, { jobs: [], reason: 'tick' }));
  const explained = async (id: string): Promise<string> => (await on.fairlead('jobs', 'explain', id)).out;
  return { on, jobIn, tick, explained };
};

describe('fairlead jobs explain', () => {
  it("names a partition's share of a cap, and the whole", async () => {
    const { on, jobIn, tick, explained } = parted();
    const jobs = await on.put(jobIn(1), jobIn(1), jobIn(1));
    await tick();
    expect(await explained(jobs[2]?.id ?? '')).toContain(
      "room under a cap: pool runs 2 of at most 2, the share of partition 1 in the pool's 6, which is divided among 3 partitions",
    );
  });

  it("names the resource that has no room, its partition's share of the limit, and the whole", async () => {
    const on = counter({
      pool: {
        types: { render: { maxConcurrencyPerResource: 4 } },
        fleets: { images: { types: ['render'], slots: 8 } },
        partitions: 2,
      },
    });
    const waiting = Array.from({ length: 3 }, () =>
      on.job({
        type: 'render',
        resourceId: 'album/1',
        fairnessKey: 'tenant-a',
        partition: partitionOf('tenant-a', 2),
      }),
    );
    const jobs = await on.put(...waiting);
    await on.finish(dispatchAll(on.main, { jobs: [], reason: 'tick' }));
    const { out } = await on.fairlead('jobs', 'explain', jobs[2]?.id ?? '');
    expect(out).toMatch(
      /resource album\/1: 2 of 2 running of type render, the share of partition [01] in the pool's 4, which is divided among 2 partitions/,
    );
    expect(await on.data('jobs', 'explain', jobs[2]?.id ?? '')).toMatchObject({
      explanation: {
        waitsFor: [{ why: 'cap', scope: 'resource/render/album/1', cap: 2, running: 2 }],
      },
    });
  });

  it('names the job of another partition that holds the conflict key, and a turn', async () => {
    const { on, jobIn, tick, explained } = parted();
    const [holder, waiting] = await on.put(jobIn(0, 'cats'), jobIn(1, 'cats'));
    await tick();
    expect(await explained(waiting?.id ?? '')).toContain(`job ${holder?.id}, which holds album/cats`);
    const { claimId = '' } = on.store.inspectJob(holder?.id ?? '')?.claim ?? {};
    const [other] = await on.put(jobIn(2, 'cats'));
    await on.store.releaseLock({
      conflictKey: 'album/cats',
      partition: 0,
      claimId,
      untilMs: on.time.nowMs + 3_000,
    });
    expect(await explained(other?.id ?? '')).toMatch(
      /album\/cats, which is reserved for partition 1 for 3(\.0)? ?s/,
    );
  });

  it('says where a job goes that stands in a partition that is not there any more', async () => {
    const { on, jobIn, explained } = parted();
    const [job] = await on.put({ ...jobIn(0), partition: 4 });
    expect(await explained(job?.id ?? '')).toContain(
      'its move from partition 4 to 0, where its key belongs now: the next pass moves it',
    );
  });
});

describe('fairlead override', () => {
  it('puts, shows and takes away a cap of the whole pool', async () => {
    const { on } = parted();
    await on.fairlead('override', 'set', '--type', 'resize', '--max-concurrency', '4');
    expect(await on.data('override')).toMatchObject({
      controls: [{ scope: 'type/resize', paused: false, maxConcurrency: 4 }],
    });
    await on.fairlead('override', 'clear', '--type', 'resize');
    expect(await on.data('override')).toEqual({ controls: [] });
  });
});
