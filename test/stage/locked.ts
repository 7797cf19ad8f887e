/** A pool in which each job's conflict key has a lock: its passes claim what they have reserved, before they tell of it. */

import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import type { JobTypeInput, PoolInput } from '../../lib/core/pool-input.ts';
import type { Stage } from './stage.ts';

const PARTITIONS = 2;

/** The first partition, which is the one that tests play, has so many slots. */
export const lockedPool = (slots: number, type: JobTypeInput = {}): PoolInput => ({
  types: { resize: { timeoutMs: 50_000, conflictGroup: 'album', ...type } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: PARTITIONS * slots } },
  partitions: PARTITIONS,
});

function keyOfFirst(): string {
  for (let at = 0; ; at += 1) if (partitionOf(`key-${at}`, PARTITIONS) === 0) return `key-${at}`;
}

/** A key that lives in the first partition. */
export const LOCKED_KEY = keyOfFirst();

let albums = 0;

/** A job of the first partition, with a conflict key of its own unless a test says otherwise. */
export function lockedJob(on: Pick<Stage, 'job'>, changes: Partial<Job> = {}): Job {
  albums += 1;
  return on.job({ partition: 0, fairnessKey: LOCKED_KEY, resourceId: `album-${albums}`, ...changes });
}
