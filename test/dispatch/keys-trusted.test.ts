/** A keys line is read again after a while, whatever hints tell meanwhile: one of them may have been lost. */
import { expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { compareRanked, rankKey } from '../../lib/core/score.ts';
import { type LinePlaces, noteImages } from '../../lib/dispatch/line-images.ts';
import { type CachedKey, keysTrustedMs, openCache } from '../../lib/dispatch/partition-cache.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';

const { score } = resolveConfiguration({
  types: { resize: {} },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 1 } },
});
const places: LinePlaces = {
  nameOf: ({ fairnessKey }) => fairnessKey,
  rankOf: (job) => rankKey(job, score),
  compare: (one, other) => compareRanked(one, other, score),
};

/** After how many seconds a line of so many keys is not believed any more, while hints tell of so many new ones each second. */
function readAgainAtS(keys: number, perSecond: number): number {
  const { lines } = openCache(new Map(), 0, 1);
  const keyOf = (at: number): CachedKey => ({
    fairnessKey: `known-${at}`,
    lines: [{ mode: 'queued' }],
    announcedAtMs: NOW_MS,
    rankCostMs: at,
  });
  lines.keys.set('resize', { readAtMs: NOW_MS, keys: Array.from({ length: keys }, (_, at) => keyOf(at)) });
  for (let second = 1; second <= 300; second += 1) {
    const nowMs = NOW_MS + second * 1_000;
    const jobs = Array.from({ length: perSecond }, (_, at) =>
      aJob({ type: 'resize', fairnessKey: `new-${second}-${at}`, readyAtMs: nowMs }),
    );
    noteImages(lines, jobs, places, nowMs);
    const known = lines.keys.get('resize');
    if (known === undefined || second * 1_000 >= keysTrustedMs(lines, known)) return second;
  }
  return Infinity;
}

it.each([
  [600, 0, 6],
  [600, 20, 8],
  [600, 90, 60],
  [600, 110, 60],
  [6_500, 40, 65],
])('of %i keys, while %i new ones come each second: after %i s', (keys, perSecond, seconds) => {
  expect(readAgainAtS(keys, perSecond)).toBe(seconds);
});
