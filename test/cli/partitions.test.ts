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
      "room under a cap: pool runs 2 of at most 2, the share of partition 1 in the pool's 6, which 3 partitions divide",
    );
  });

  it('names the job of another partition that holds the conflict key, and a turn', async () => {
    const { on, jobIn, tick, explained } = parted();
    const [holder, waiting] = await on.put(jobIn(0, 'cats'), jobIn(1, 'cats'));
    await tick();
    expect(await explained(waiting?.id ?? '')).toContain(`job ${holder?.id}, which holds album/cats`);
    const { claimId = '' } = on.store.inspectJob(holder?.id ?? '')?.claim ?? {};
    const [other] = await on.put(jobIn(2, 'cats'));
    await on.store.releaseLock('album/cats', 0, claimId, on.time.nowMs + 3_000);
    expect(await explained(other?.id ?? '')).toMatch(
      /album\/cats, which partition 1 has in turn for 3(\.0)? ?s/,
    );
  });

  it('says where a job goes that stands in a partition that is not there any more', async () => {
    const { on, jobIn, explained } = parted();
    const [job] = await on.put({ ...jobIn(0), partition: 4 });
    expect(await explained(job?.id ?? '')).toContain(
      'its move from partition 4 to 0, where its key lives by now: the next pass makes it',
    );
  });
});

describe('fairlead override', () => {
  it('puts, shows and takes away a cap of the whole pool', async () => {
    const { on } = parted();
    await on.fairlead('override', 'set', '--type', 'resize', '--max-concurrency', '4');
    expect(await on.data('override')).toEqual({
      controls: [{ scope: 'type/resize', paused: false, maxConcurrency: 4 }],
    });
    await on.fairlead('override', 'clear', '--type', 'resize');
    expect(await on.data('override')).toEqual({ controls: [] });
  });
});
