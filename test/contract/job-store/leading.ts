/** Leading a partition, and the letters that others leave for the dispatcher that leads. */
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { LETTER_JOBS_MAX, LETTERS_KEPT_MS, LETTERS_READ_MAX } from '../../../lib/store/contract/bounds.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { LeadStore } from '../../../lib/store/contract/leading.ts';
import type { Letter, ReceivedLetter } from '../../../lib/store/contract/records.ts';
import { aJob, headOf, NOW_MS } from '../../fixtures/factories/job.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';
import type { JobStoreHarness } from '../harness.ts';
import { CONCURRENT_MS, type StoreSuite, times } from './suite.ts';

const LEAD_MS = 20_000;

export function leadingContract(suite: StoreSuite<CoreStore & LeadStore>): void {
  const { freshPartition, commit } = suite;
  let harness: JobStoreHarness<CoreStore & LeadStore>;
  let store: CoreStore & LeadStore;
  beforeAll(() => {
    harness = suite.opened();
    ({ store } = harness);
  });

  describe('leading', () => {
    const lead = (partition: number, holder: string, atMs = 0, wantsLetters?: boolean) =>
      store.lead({
        partition,
        holder,
        nowMs: NOW_MS + atMs,
        untilMs: NOW_MS + atMs + LEAD_MS,
        wantsLetters,
      });
    const led = (holder: string, untilMs: number, wantsLetters = false) => ({
      kind: 'led',
      leader: { holder, untilMs, wantsLetters },
    });
    const leading = { kind: 'leading' };

    it('is for one dispatcher, until its time is over, to the very millisecond', async () => {
      const partition = freshPartition();
      expect(await store.readLeader(partition)).toBeUndefined();
      expect(await lead(partition, 'one')).toEqual(leading);
      const leader = { holder: 'one', untilMs: NOW_MS + LEAD_MS, wantsLetters: false };
      expect(await store.readLeader(partition)).toEqual(leader);
      expect((await store.loadPartition({ partition, nowMs: NOW_MS })).leader).toEqual(leader);
      expect(await lead(partition, 'two', LEAD_MS - 1)).toEqual(led('one', NOW_MS + LEAD_MS));
      expect(await lead(partition, 'two', LEAD_MS)).toEqual(leading);
      expect(await lead(partition, 'one', LEAD_MS)).toEqual(led('two', NOW_MS + 2 * LEAD_MS));
    });

    it('lasts longer when the same dispatcher takes it again', async () => {
      const partition = freshPartition();
      await lead(partition, 'one');
      expect(await lead(partition, 'one', 15_000)).toEqual(leading);
      expect(await lead(partition, 'two', LEAD_MS)).toEqual(led('one', NOW_MS + 15_000 + LEAD_MS));
    });

    it('is free at once when its holder ends it, and stays shown while it is not ended', async () => {
      const partition = freshPartition();
      await lead(partition, 'one');
      await store.stopLeading({ partition, holder: 'two' });
      expect((await store.readLeader(partition))?.holder).toBe('one');
      // An end may come twice.
      for (let repeat = 0; repeat < 2; repeat += 1) {
        await store.stopLeading({ partition, holder: 'one' });
        expect(await store.readLeader(partition)).toBeUndefined();
      }
      expect(await lead(partition, 'two', 1)).toEqual(leading);
      await store.stopLeading({ partition, holder: 'one' });
      expect((await store.readLeader(partition))?.holder).toBe('two');
      const { leader } = await store.loadPartition({ partition, nowMs: NOW_MS + 10 * LEAD_MS });
      expect(leader?.holder).toBe('two');
    });

    it('keeps what it asked of clients until it asks otherwise, also when another dispatcher leads', async () => {
      const partition = freshPartition();
      const wants = async (): Promise<unknown> => (await store.readLeader(partition))?.wantsLetters;
      const asked: unknown[] = [];
      for (const [holder, wantsLetters] of [
        ['one', undefined],
        ['one', true],
        ['one', undefined],
        ['two', undefined],
        ['two', false],
        ['two', undefined],
      ] as const) {
        if (holder === 'two') await store.stopLeading({ partition, holder: 'one' });
        await lead(partition, holder, 1, wantsLetters);
        asked.push(await wants());
      }
      expect(asked).toEqual([false, true, true, true, false, false]);
    });

    it('goes to one of many dispatchers that ask at once', { timeout: CONCURRENT_MS }, async () => {
      for (let round = 0; round < 5; round += 1) {
        const partition = freshPartition();
        if (round % 2 === 1) await lead(partition, 'former');
        const outcomes = await Promise.all(times(8, (at) => lead(partition, `d${at}`, LEAD_MS)));
        const winner = outcomes.findIndex(({ kind }) => kind === 'leading');
        const others = outcomes.filter((_, at) => at !== winner);
        expect(others).toEqual(others.map(() => led(`d${winner}`, NOW_MS + 2 * LEAD_MS)));
      }
    });

    it('never stands in the way of a commit', { timeout: CONCURRENT_MS }, async () => {
      const partition = freshPartition();
      const leads = times(10, (at) => lead(partition, 'one', at));
      expect(await commit(partition, { ledgers: [aLedger()] })).toBe('committed');
      expect(await Promise.all(leads)).toEqual(leads.map(() => leading));
    });
  });

  describe('letters', () => {
    const ended = (partition: number, at: number): Job =>
      aJob({
        partition,
        id: `ended-${at}`,
        state: 'succeeded',
        version: 4,
        fairnessKey: `two\nlines ${at}`,
        resourceId: 'album/\u0001',
        claim: { claimId: `1-2.${at}`, batchId: '1-2', fleet: 'images', claimedAtMs: NOW_MS },
        startedAtMs: NOW_MS + 3,
        finishedAtMs: NOW_MS + 7,
        result: { pages: at },
        label: 'an album',
      });
    const put = (partition: number, letter: Letter, atMs = 0): Promise<void> =>
      store.putLetter({ partition, letter, nowMs: NOW_MS + atMs });
    /** All of them, each read once, deleted as they are read. */
    const taken = async (partition: number): Promise<readonly ReceivedLetter[]> => {
      const all: ReceivedLetter[] = [];
      for (let reads = 0; reads < 50; reads += 1) {
        const { letters, more } = await store.readLetters(partition);
        expect(letters.length).toBeLessThanOrEqual(LETTERS_READ_MAX);
        all.push(...letters);
        await store.deleteLetters({ partition, letterIds: letters.map(({ letterId }) => letterId) });
        if (!more) return all;
      }
      throw new Error('there is no end of them');
    };
    const says = (letters: readonly ReceivedLetter[]): unknown =>
      letters.map(({ hints, jobIds, looksAtAll }) => [hints.length, jobIds, looksAtAll]);

    it('are read in the order in which they were put, each under a name of its own, until they are deleted', async () => {
      const partition = freshPartition();
      expect(await store.readLetters(partition)).toEqual({ letters: [], more: false });
      await put(partition, { jobIds: ['c'] }, 3);
      await put(partition, { jobIds: ['a', 'b'] }, 1);
      await put(partition, {}, 2);
      await put(partition, { looksAtAll: true, hints: [ended(partition, 1)] }, 2_000);
      const { letters, more } = await store.readLetters(partition);
      expect(says(letters)).toEqual([
        [0, ['a', 'b'], false],
        [0, [], false],
        [0, ['c'], false],
        [1, [], true],
      ]);
      expect(more).toBe(false);
      const [first, ...others] = letters;
      // Deleted twice, and beside one that is not there any more.
      for (let repeat = 0; repeat < 2; repeat += 1)
        await store.deleteLetters({ partition, letterIds: [first?.letterId ?? ''] });
      expect((await store.readLetters(partition)).letters).toEqual(others);
      expect((await store.readLetters(freshPartition())).letters).toEqual([]);
      await store.deleteLetters({ partition, letterIds: [] });
      await taken(partition);
      expect((await store.readLetters(partition)).letters).toEqual([]);
    });

    it('that say the same in the same moment are as many as were put', {
      timeout: CONCURRENT_MS,
    }, async () => {
      const partition = freshPartition();
      await Promise.all(times(12, () => put(partition, { jobIds: ['one'] })));
      const { letters } = await store.readLetters(partition);
      expect(letters.length).toBeGreaterThanOrEqual(12);
      expect(new Set(letters.map(({ letterId }) => letterId)).size).toBe(letters.length);
    });

    it('say what lines show of the jobs, however many there are', async () => {
      const partition = freshPartition();
      const cancelled = aJob({
        partition,
        state: 'cancelled',
        finishedAtMs: NOW_MS + 2,
        cancelRequestedAtMs: NOW_MS + 5,
        cancelRequestedBy: 'somebody',
      });
      const jobs = [
        ...times(LETTER_JOBS_MAX + 1, (at) => ended(partition, at)),
        aJob({ partition }),
        cancelled,
      ];
      const jobIds = times(2 * LETTER_JOBS_MAX, (at) => `job ${at} \u0001`);
      await put(partition, { hints: jobs, jobIds });
      const letters = await taken(partition);
      const hints = jobs.map(headOf);
      const byId = <T extends { readonly id: string }>(all: readonly T[]): ReadonlyMap<string, T> =>
        new Map(all.map((each) => [each.id, each]));
      expect(byId(letters.flatMap((each) => each.hints))).toEqual(byId(hints));
      expect(new Set(letters.flatMap((each) => each.jobIds))).toEqual(new Set(jobIds));
      expect(letters.some(({ looksAtAll }) => looksAtAll)).toBe(false);
    });

    it('are read so many at once, and the others after these', { timeout: CONCURRENT_MS }, async () => {
      const partition = freshPartition();
      const ids = times(LETTERS_READ_MAX + 7, (at) => `job-${at}`);
      await Promise.all(ids.map((id, at) => put(partition, { jobIds: [id] }, at)));
      const { letters, more } = await store.readLetters(partition);
      expect(letters.flatMap(({ jobIds }) => jobIds)).toEqual(ids.slice(0, letters.length));
      expect(more).toBe(true);
      expect((await taken(partition)).flatMap(({ jobIds }) => jobIds)).toEqual(ids);
    });

    it('are read as long as they are there, also when they may be collected', async () => {
      const partition = freshPartition();
      await put(partition, { jobIds: ['one'] });
      onTestFinished(() => harness.setClock(NOW_MS));
      harness.setClock(NOW_MS + 2 * LETTERS_KEPT_MS);
      expect(says((await store.readLetters(partition)).letters)).toEqual([[0, ['one'], false]]);
    });

    it('never stand in the way of a commit', { timeout: CONCURRENT_MS }, async () => {
      const partition = freshPartition();
      const puts = times(10, (at) => put(partition, { jobIds: [`${at}`] }));
      expect(await commit(partition, { ledgers: [aLedger()] })).toBe('committed');
      await Promise.all(puts);
      expect((await taken(partition)).length).toBeGreaterThanOrEqual(10);
    });
  });
}
