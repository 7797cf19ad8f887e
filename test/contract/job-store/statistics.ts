/** The counts of minutes: in the partition while a minute runs, and in an item of their own afterwards. */
import { beforeAll, describe, expect, it } from 'vitest';
import { MINUTE_MS, minuteOf } from '../../../lib/core/statistics.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { StatisticsStore } from '../../../lib/store/contract/statistics.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';
import { aMinute } from '../../fixtures/factories/minute-counts.ts';
import { CONCURRENT_MS, type StoreSuite, times } from './suite.ts';

const FIRST_MS = minuteOf(NOW_MS);
const HOUR = { fromMs: FIRST_MS, toMs: FIRST_MS + 60 * MINUTE_MS, limit: 60 };

export function statisticsContract(suite: StoreSuite<CoreStore & StatisticsStore>): void {
  const { freshPartition } = suite;
  let store: CoreStore & StatisticsStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('the counts of the running minute', () => {
    const countedIn = async (partition: number) =>
      (await store.loadPartition({ partition, nowMs: NOW_MS })).counted;

    it('add up over commits, and those of a later minute replace them', async () => {
      const partition = freshPartition();
      const one = aMinute({ admitted: 2, waits: [0, 0, 2] });
      const two = aMinute({ succeeded: 1, waits: [0, 1], runs: [0, 0, 0, 1] });
      const next = aMinute({ minuteMs: FIRST_MS + MINUTE_MS, failed: 1 });
      expect(await countedIn(partition)).toBeUndefined();
      for (const [version, counts] of [one, two].entries())
        expect(await store.commit({ partition, commit: aCommit({ version, counts }) })).toBe('committed');
      const sum = aMinute({ admitted: 2, succeeded: 1, waits: [0, 1, 2], runs: [0, 0, 0, 1] });
      expect(await countedIn(partition)).toEqual(sum);
      await store.commit({ partition, commit: aCommit({ version: 2 }) });
      expect(await countedIn(partition)).toEqual(sum);
      await store.commit({ partition, commit: aCommit({ version: 3, counts: next }) });
      expect(await countedIn(partition)).toEqual(next);
      await store.commit({ partition, commit: aCommit({ version: 4, counts: one }) });
      expect(await countedIn(partition)).toEqual({ ...next, admitted: 2, waits: [0, 0, 2] });
    });

    it(
      'of a commit that is refused are not counted: of several at one version, one counts',
      async () => {
        const partition = freshPartition();
        const commit = aCommit({ counts: aMinute({ admitted: 1 }) });
        const outcomes = await Promise.all(times(8, () => store.commit({ partition, commit })));
        expect(outcomes.filter((each) => each === 'committed')).toHaveLength(1);
        expect(await countedIn(partition)).toEqual(aMinute({ admitted: 1 }));
      },
      CONCURRENT_MS,
    );
  });

  describe('the counts of a past minute', () => {
    it('are those of the latest version, in whatever order they are put', async () => {
      const partition = freshPartition();
      const put = (version: number) =>
        store.putStatistics({ partition, version, counts: aMinute({ admitted: version }) });
      expect(await put(4)).toBe('applied');
      expect(await put(6)).toBe('applied');
      expect(await put(6)).toBe('applied');
      expect(await put(5)).toBe('superseded');
      expect(await store.readStatistics({ partition, ...HOUR })).toEqual([aMinute({ admitted: 6 })]);
    });

    it('are read in the order of the minutes, within the bounds and of one partition', async () => {
      const partition = freshPartition();
      const minutes = times(5, (at) => aMinute({ minuteMs: FIRST_MS + at * MINUTE_MS, admitted: at + 1 }));
      for (const counts of minutes.toReversed()) await store.putStatistics({ partition, version: 1, counts });
      await store.putStatistics({ partition: freshPartition(), version: 1, counts: aMinute({ again: 1 }) });
      const read = (fromMs: number, toMs: number, limit: number) =>
        store.readStatistics({ partition, fromMs, toMs, limit });
      expect(await read(FIRST_MS, FIRST_MS + 5 * MINUTE_MS, 60)).toEqual(minutes);
      expect(await read(FIRST_MS + 1, FIRST_MS + 3 * MINUTE_MS, 60)).toEqual(minutes.slice(1, 3));
      expect(await read(FIRST_MS, FIRST_MS + 5 * MINUTE_MS, 2)).toEqual(minutes.slice(0, 2));
    });
  });
}
