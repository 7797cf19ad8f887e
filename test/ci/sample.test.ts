/** Which part of the tests that take minutes a commit tries. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { sampleOf } from '../simulation/crash-points.ts';

afterEach(() => vi.unstubAllEnvs());

async function sampling(hash: string): Promise<typeof import('../sample.ts')> {
  vi.stubEnv('FAIRLEAD_SAMPLE', hash);
  vi.resetModules();
  return import('../sample.ts');
}

const TEN = Array.from({ length: 10 }, (_, at) => at);
const HASHES = Array.from({ length: 40 }, (_, at) => at.toString(16).padStart(40, '0'));

describe('a sample', () => {
  it.each(['', 'all'])('is everything where nothing is sampled: %j', async (none) => {
    const { isSampled, someOf, seedsOf, changedFiles } = await sampling(none);
    expect(isSampled).toBe(false);
    expect(someOf('ten', TEN, 3)).toEqual(TEN);
    expect(seedsOf('ten', [1, 10], 3)).toEqual([1, 10]);
    expect(changedFiles().size).toBe(0);
  });

  it('is the same for the same commit, and of the size that was asked for', async () => {
    const drawn = async () => {
      const { someOf, oneOf, seedsOf } = await sampling('0123abc');
      return { some: someOf('ten', TEN, 3), one: oneOf('ten', TEN), seeds: seedsOf('ten', [1, 10], 3) };
    };
    const { some, one, seeds } = await drawn();
    expect(await drawn()).toEqual({ some, one, seeds });
    expect(new Set(some).size).toBe(3);
    expect(one).toHaveLength(1);
    expect(seeds[1] - seeds[0]).toBe(2);
  });

  it('has each in its turn, over many commits', async () => {
    const seen = new Set<number>();
    const alone = new Set<number>();
    const firsts = new Set<number>();
    for (const hash of HASHES) {
      const { someOf, oneOf, seedsOf } = await sampling(hash);
      for (const each of someOf('ten', TEN, 3)) seen.add(each);
      for (const each of oneOf('ten', TEN)) alone.add(each);
      firsts.add(seedsOf('ten', [1, 10], 3)[0]);
    }
    expect(seen.size).toBe(TEN.length);
    expect(alone.size).toBeGreaterThan(TEN.length / 2);
    expect(firsts.size).toBe(HASHES.length);
  });
});

describe('the crash points of a sample', () => {
  it('are the first call of each caller and verb, the last, and one between them', () => {
    const calls = ['a/get#1', 'a/put#1', 'a/get#2', 'b/get#1', 'a/get#3', 'a/get#4', 'a/put#2'];
    const tried = sampleOf('any', calls);
    expect(tried).toEqual(expect.arrayContaining(['a/get#1', 'a/get#4', 'a/put#1', 'a/put#2', 'b/get#1']));
    expect(tried).toHaveLength(6);
  });
});
