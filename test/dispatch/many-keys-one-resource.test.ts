/**
 * Hundreds of fairness keys wait for one conflict key. A pass that has it free reads 200 groups of its blocked line, or 400:
 * always the first ones by name. What stands behind them is seen when those are used up, whatever its turn.
 */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { type Stage, stage } from './stage.ts';

const KEYS = 450;

const oneAlbum = (): Stage =>
  stage({
    pool: {
      types: { resize: { conflictGroup: 'album', defaultCostMs: 1_000, timeoutMs: 60_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 4 } },
    },
  });

const keyOf = (at: number): string => `tenant-${String(at).padStart(4, '0')}`;

/** Jobs of all keys for one album, one round after the other; the last twenty keys' are of this priority. */
async function crowd(on: Stage, rounds: number, priority: number): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const jobs = Array.from({ length: KEYS }, (_, at) =>
      on.job({ fairnessKey: keyOf(at), resourceId: 'one', priority: at < KEYS - 20 ? 0 : priority }),
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

describe('of 450 keys that wait for one resource', () => {
  it('the urgent jobs start first, where all have the same share', async () => {
    const on = oneAlbum();
    await crowd(on, 1, 10);
    const priorities = (await starts(on, 20)).map(({ priority }) => priority);
    expect(priorities).toEqual(priorities.map(() => 10));
  });

  it('each is served once before any is served twice', async () => {
    const on = oneAlbum();
    await crowd(on, 2, 0);
    const keys = (await starts(on, KEYS)).map(({ fairnessKey }) => fairnessKey);
    expect(new Set(keys).size).toBe(KEYS);
  }, 240_000);
});
