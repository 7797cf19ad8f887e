/** Photos in albums: one of an album is worked on at a time, and most of the others are parked behind it. */

import type { Job } from '../../lib/core/job.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { type Stage, stage } from './stage.ts';

export const albums = (more: Partial<PoolInput> = {}): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 860_000, conflictGroup: 'album' }, mail: {} },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize', 'mail'], slots: 400 } },
      ...more,
    },
  });

type Name = Pick<Job, 'fairnessKey' | 'resourceId'> & Partial<Pick<Job, 'mode'>>;

/** Photos of one album: one runs, and most of the others are parked behind it. */
export async function behind(on: Stage, name: Name, count: number): Promise<readonly Job[]> {
  const jobs = await on.put(
    ...Array.from({ length: count }, (_, at) =>
      on.job({ type: 'resize', ...name, readyAtMs: on.time.nowMs - count + at }),
    ),
  );
  await on.pass({ jobs, reason: 'stream' });
  await on.startEverywhere();
  return jobs;
}
