/** What a process remembers of jobs that do not wait any more: long enough for late hints, and not for ever. */
import { describe, expect, it } from 'vitest';
import { OutdatedJobs } from '../../lib/dispatch/partition-cache.ts';
import { seeded } from '../simulation/random.ts';
import { stage } from './stage.ts';

const KEPT_MS = 60_000;
const KEPT_LEAST = 20_000;
/** The older half is at most that much older. */
const FORGOTTEN_MS = 2 * KEPT_MS;

describe('jobs that do not wait any more', () => {
  it('are known for a minute, and not for more than two, whenever they are noted, also again', () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const random = seeded(seed);
      const outdated = new OutdatedJobs();
      const noted = new Map<string, { readonly version: number; readonly atMs: number }>();
      const longestMs = [100, 5_000, 59_000, 200_000][seed % 4] ?? 0;
      let nowMs = 1_764_000_000_000;
      const wrong: string[] = [];
      for (let step = 0; step < 400; step += 1) {
        nowMs += Math.floor(random() * longestMs);
        if (random() < 0.7) {
          const id = `job-${Math.floor(random() * 60)}`;
          const version = 1 + Math.floor(random() * 9);
          outdated.note(id, version, nowMs);
          noted.set(id, { version, atMs: nowMs });
        }
        outdated.forgetOld(nowMs);
        for (const [id, { version, atMs }] of noted) {
          const known = outdated.versionOf(id);
          const isKept = nowMs - atMs <= KEPT_MS && known !== version;
          const isForgotten = nowMs - atMs > FORGOTTEN_MS && known !== undefined;
          if (isKept || isForgotten || (known !== undefined && known !== version))
            wrong.push(`${id} of ${atMs} at ${nowMs}: ${known}`);
        }
      }
      expect(wrong).toEqual([]);
    }
  });

  it('are known by the version that was noted last', () => {
    const outdated = new OutdatedJobs();
    outdated.note('again', 1, 0);
    outdated.note('other', 1, KEPT_MS);
    outdated.note('again', 4, KEPT_MS);
    outdated.forgetOld(KEPT_MS);
    expect(outdated.versionOf('again')).toBe(4);
  });

  it('are known as the last 20,000 at least, and 40,000 at most, however soon they follow each other', () => {
    const outdated = new OutdatedJobs();
    const unknown: number[] = [];
    const kept: number[] = [];
    for (let at = 0; at < 4 * KEPT_LEAST; at += 1) {
      outdated.note(`job-${at}`, 1, 1_000);
      const oldest = at - KEPT_LEAST + 1;
      if (oldest >= 0 && outdated.versionOf(`job-${oldest}`) !== 1) unknown.push(oldest);
      const over = at - 2 * KEPT_LEAST;
      if (over >= 0 && outdated.versionOf(`job-${over}`) !== undefined) kept.push(over);
    }
    expect([unknown, kept]).toEqual([[], []]);
  });

  it('are forgotten where nothing follows them', () => {
    const outdated = new OutdatedJobs();
    outdated.note('last', 1, 1_000);
    outdated.forgetOld(1_000 + KEPT_MS);
    expect(outdated.versionOf('last')).toBe(1);
    outdated.forgetOld(1_001 + KEPT_MS);
    expect(outdated.versionOf('last')).toBeUndefined();
  });

  it.each([
    ['none', 0, true],
    ['none, and no hint tells of it', 0, false],
    ['one other', 1, true],
    ['three others', 3, false],
  ])(
    'keep no job waiting that comes with the id of one whose record is gone, after %s',
    async (_, others, isTold) => {
      const on = stage();
      const run = async (id: string): Promise<void> => {
        const [job] = await on.put(on.job({ id, version: 1 }));
        if (job === undefined) throw new Error('nothing was stored');
        await on.pass({ jobs: [job], reason: 'stream' });
        for (const started of await on.startEverywhere())
          await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
      };
      const sleep = async (minutes: number): Promise<void> => {
        for (let minute = 0; minute < minutes; minute += 1) {
          await on.advance(60_000);
          await on.pass();
        }
      };
      await run('monthly');
      for (let at = 0; at < others; at += 1) {
        await sleep(1);
        await run(`other-${at}`);
      }
      await sleep(62);
      expect(on.store.inspectJob('monthly')).toBeUndefined();
      const again = await on.put(on.job({ id: 'monthly', version: 1 }));
      await on.pass(isTold ? { jobs: again, reason: 'stream' } : {});
      if (!isTold) await sleep(1);
      expect((await on.startEverywhere()).map(({ job }) => job.id)).toEqual(['monthly']);
    },
  );
});
