/** Capacity that partitions lend each other. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Loan, LoanRequest } from '../../../lib/core/lending.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import type { LendingStore } from '../../../lib/store/contract/lending.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';
import type { StoreSuite } from './suite.ts';

export function lendingContract(suite: StoreSuite<CoreStore & LendingStore>): void {
  const { freshPartition, versionOf, commit } = suite;
  let store: CoreStore & LendingStore;
  beforeAll(() => {
    store = suite.opened().store;
  });

  describe('capacity between partitions', () => {
    const aLoan = (from: number, to: number, changes: Partial<Loan> = {}): Loan => ({
      loanId: `${from}-1-0-0`,
      from,
      to,
      units: 3,
      scopes: [
        { scope: 'type/resize', under: '8/2' },
        { scope: 'worker/a/b', under: '0001', fleet: 'farm' },
      ],
      expiresAtMs: NOW_MS + 30_000,
      ...changes,
    });
    const aRequest = (partition: number, askedAtMs = NOW_MS): LoanRequest => ({
      partition,
      wants: [
        { units: 2, scopes: ['pool', 'type/resize'], fleets: [] },
        { units: 1, scopes: [], fleets: ['images', 'films'] },
      ],
      askedAtMs,
      untilMs: NOW_MS + 10_000,
    });
    const loansOf = async (partition: number): Promise<readonly Loan[]> =>
      (await store.loadPartition({ partition, nowMs: NOW_MS })).loans;
    const requestsOf = async (partition: number): Promise<readonly LoanRequest[]> =>
      (await store.loadPartition({ partition, nowMs: NOW_MS })).requests;

    it('is asked for with one request of each partition, the latest', async () => {
      const partition = freshPartition();
      await store.askForLoan({ partition, request: aRequest(1) });
      await store.askForLoan({ partition, request: aRequest(2) });
      await store.askForLoan({ partition, request: aRequest(1, NOW_MS + 5) });
      expect(await requestsOf(partition)).toEqual([aRequest(1, NOW_MS + 5), aRequest(2)]);
    });

    it('is lent to the other partition at once, which grants its request', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      await store.askForLoan({ partition: from, request: aRequest(to) });
      // No test's own partition.
      const other = 10_000;
      await store.askForLoan({ partition: from, request: aRequest(other) });
      const loan = aLoan(from, to);
      expect(await commit(from, { lend: [loan] })).toBe('committed');
      expect(await loansOf(from)).toEqual([loan]);
      expect(await loansOf(to)).toEqual([loan]);
      expect(await requestsOf(from)).toEqual([aRequest(other)]);
    });

    it('is given back by the borrower, in part or whole', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      const loan = aLoan(from, to);
      await commit(from, { lend: [loan] });
      expect(await commit(to, { giveBack: [{ loan, left: 1 }] })).toBe('committed');
      for (const partition of [from, to]) expect(await loansOf(partition)).toEqual([{ ...loan, units: 1 }]);
      // Of what it says, another one is left.
      await expect(commit(to, { giveBack: [{ loan, left: 0 }] })).rejects.toMatchObject({
        name: 'StaleCommitError',
      });
      const rest = { ...loan, units: 1 };
      expect(await commit(to, { giveBack: [{ loan: rest, left: 0 }] })).toBe('committed');
      for (const partition of [from, to]) expect(await loansOf(partition)).toEqual([]);
    });

    it('is moved by no commit of an earlier version of the partition that acts', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      for (const partition of [from, to]) await commit(partition);
      const loan = aLoan(from, to);
      expect(await commit(from, { version: 0, lend: [loan] })).toBe('lost');
      expect(await loansOf(to)).toEqual([]);
      expect(await commit(from, { version: 1, lend: [loan] })).toBe('committed');
      // The other side's version is as it was.
      expect(await versionOf(to)).toBe(1);
      const giveBack = [{ loan, left: 0 }];
      expect(await commit(to, { version: 0, giveBack })).toBe('lost');
      expect(await loansOf(from)).toEqual([loan]);
      expect(await commit(to, { version: 1, giveBack })).toBe('committed');
      expect(await loansOf(from)).toEqual([]);
    });

    it('is not lent twice under one name', async () => {
      const [from, to] = [freshPartition(), freshPartition()];
      const loan = aLoan(from, to);
      await commit(from, { lend: [loan] });
      await expect(commit(from, { lend: [loan] })).rejects.toMatchObject({
        name: 'StaleCommitError',
      });
      expect(await loansOf(to)).toEqual([loan]);
    });
  });
}
