/**
 * Which part of the tests that take minutes a run tries. `FAIRLEAD_SAMPLE` is the hash of a commit: `.ci/run` sets it, so each commit
 * tries another part, and the same hash tries the same part again. Without it, or with `all`, a run tries everything.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';

const { FAIRLEAD_SAMPLE: SAMPLE = 'all' } = process.env;
const ROOT = fileURLToPath(new URL('../', import.meta.url));

export const isSampled = SAMPLE !== 'all' && SAMPLE !== '';

/** A whole number that belongs to this run and this purpose. */
function numberOf(purpose: string): number {
  return createHash('sha256').update(`${SAMPLE}/${purpose}`).digest().readUInt32BE();
}

/** One of these, another one with each commit; none of none. */
export const oneOf = <T>(purpose: string, all: readonly T[]): readonly T[] =>
  all.slice(numberOf(purpose) % Math.max(1, all.length)).slice(0, 1);

/** So many of these, in their order and one as far from the next as from the one before; all of them where nothing is sampled. */
export function someOf<T>(purpose: string, all: readonly T[], count: number): readonly T[] {
  if (!isSampled || all.length <= count) return all;
  const first = numberOf(purpose) % all.length;
  const chosen = new Set(
    Array.from({ length: count }, (_, nth) => (first + Math.floor((nth * all.length) / count)) % all.length),
  );
  return all.filter((_, at) => chosen.has(at));
}

/** The first seed and the last one: of a sampled run, so many that no other run has to have tried before. */
export function seedsOf(
  purpose: string,
  whole: readonly [first: number, last: number],
  sampled: number,
): readonly [first: number, last: number] {
  if (!isSampled) return whole;
  const first = 10_000 + (numberOf(purpose) % 1_000_000);
  return [first, first + sampled - 1];
}

/** The files that the commit has changed; none where nobody knows it. */
export function changedFiles(): ReadonlySet<string> {
  if (!/^[0-9a-f]{7,40}$/.test(SAMPLE)) return new Set();
  const { stdout } = spawnSync('git', ['show', '--format=', '--name-only', SAMPLE], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return new Set((stdout ?? '').split('\n').filter((line) => line !== ''));
}
