/**
 * Many fairness keys wait for one conflict key: more than a pass reads of its blocked line, which is the first groups by name, and
 * as many again from where the last one has ended. What stands behind them must be seen before those are used up.
 */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { type Stage, stage } from '../../stage/stage.ts';

const KEYS = 240;
/** A pass reads so many groups, and as many again: a third of all keys. */
const GROUPS = 40;
/** After so many passes each key was seen. */
const ROUND = Math.ceil((KEYS - GROUPS) / GROUPS);
const URGENT = 20;
/** One starts in each round at least. */
const MOST = (URGENT + 1) * ROUND;

const oneAlbum = (): Stage =>
  stage({
    pool: {
      types: { resize: { conflictGroup: 'album', defaultCostMs: 1_000, timeoutMs: 60_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 4 } },
    },
    budget: { blockedGroups: GROUPS },
  });

const keyOf = (at: number): string => `tenant-${String(at).padStart(4, '0')}`;

/** Jobs of all keys for one album, one round after the other; those of the last keys are of this priority. */
async function crowd(on: Stage, rounds: number, priority: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const jobs = Array.from({ length: KEYS }, (_, at) =>
      on.job({ fairnessKey: keyOf(at), resourceId: 'one', priority: at < KEYS - URGENT ? 0 : priority }),
    );
    await on.put(...jobs);
    await on.pass({ jobs, reason: 'stream' });
  }
}

/** The first so many jobs that start, one after the other, a second each. */
async function starts(on: Stage, count: number): Promise<readonly Job[]> {
  const all: Job[] = [];
  while (all.length < count) {
    const [first, ...others] = await on.startAll('images');
    if (first === undefined || others.length > 0) throw new Error('not one at a time');
    all.push(first.job);
    await on.advance(1_000);
    await on.pass({ jobs: [await on.end(first)], reason: 'stream' });
  }
  return all;
}

describe('of keys that wait for one resource, more than a pass reads', () => {
  it('the urgent jobs start as passes come to them, long before those in front are used up', async () => {
    const on = oneAlbum();
    await crowd(on, 1, 10);
    const priorities = (await starts(on, MOST)).map(({ priority }) => priority);
    expect(priorities.filter((priority) => priority === 10)).toHaveLength(URGENT);
  });

  it('each is served once before any is served twice', async () => {
    const on = oneAlbum();
    await crowd(on, 2, 0);
    const keys = (await starts(on, KEYS)).map(({ fairnessKey }) => fairnessKey);
    expect(new Set(keys).size).toBe(KEYS);
  }, 240_000);
});
