/** Loads a partition for a pass, and commits the pass's decisions. */

import { type Control, controlAt } from '../../core/capacity.ts';
import { ThrottledError } from '../../core/errors.ts';
import type { Loan } from '../../core/lending.ts';
import type { PartitionStore } from '../contract/core.ts';
import { StaleCommitError } from '../contract/errors.ts';
import type { LendingStore } from '../contract/lending.ts';
import {
  isIdle,
  type Lookout,
  type PartitionState,
  type Reservation,
  workerAt,
} from '../contract/records.ts';
import type { Applied, Commit, CommitOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { costOfRank } from '../table/schema.ts';
import {
  isSingleWrite,
  nextSummary,
  requireBounded,
  reservationsIn,
  type SummaryChange,
} from '../table/summary.ts';
import { requireCommitFits, requireRequestFits } from './imitation/fits.ts';
import { estimateId, type MemoryItems } from './items.ts';
import type { PartitionItems } from './state.ts';

const isSameLook = (one: Lookout | undefined, other: Lookout | undefined): boolean =>
  one?.atMs === other?.atMs &&
  one?.nextAtMs === other?.nextAtMs &&
  one?.judgedUntilMs === other?.judgedUntilMs;

function requireCurrent(
  reservations: ReadonlyMap<string, Reservation>,
  batchIds: readonly string[],
  isThere: boolean,
): void {
  for (const batchId of batchIds) {
    if (reservations.has(batchId) === isThere) continue;
    throw new StaleCommitError(
      `the commit ${isThere ? 'changes' : 'makes'} the reservation ${batchId}, which ${isThere ? 'does not exist any more' : 'exists already'}; load the partition again`,
    );
  }
}

export class MemoryPartitionStore implements PartitionStore, LendingStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async loadPartition({
    partition,
    nowMs,
    withoutLedgers = false,
  }: RequestOf<'loadPartition'>): Promise<PartitionState> {
    return this.#items.read('loadPartition', () => {
      const { leader, declared, summary, items, workers, controls, loans, requests, lookout } =
        this.#items.partition(partition);
      const controlsNow = [...controls.values()].map((control) => controlAt(control, nowMs));
      // For the bill: how many items the partition has beside the summary and its reservations. The leader's item is the last 1.
      const others =
        controls.size + loans.size + requests.size + workers.size + (lookout === undefined ? 0 : 1) + 1;
      for (const ledger of summary.ledgers.values()) this.#items.keyRanks.sawLedger(partition, ledger);
      this.#items.bill.load(partition, { summary, items }, others);
      return {
        leader,
        declared,
        carried: summary.carried,
        version: summary.version,
        reservations: reservationsIn(summary, items),
        workers: [...workers.values()].flatMap((worker) => workerAt(worker, nowMs) ?? []),
        expiredWorkers: [...workers.values()].filter((worker) => workerAt(worker, nowMs) === undefined),
        lookout,
        controls: controlsNow.filter((control) => !isIdle(control)),
        endedControls: controlsNow.filter(isIdle),
        ledgers: withoutLedgers ? [] : [...summary.ledgers.values()],
        estimates: [...summary.estimates.values()],
        parks: summary.parks,
        observation: summary.observation,
        quiet: summary.quiet,
        unseenUntilMs: summary.unseenUntilMs,
        uses: summary.uses,
        counted: summary.counted,
        loans: [...loans.values()],
        requests: [...requests.values()],
      };
    });
  }

  async commit({ partition, commit }: RequestOf<'commit'>): Promise<CommitOutcome> {
    const touched = [...commit.drop, ...commit.postpone].map((each) => each.reservation.batchId);
    requireBounded(commit);
    return this.#items.write('commit', () => {
      const present = this.#items.partition(partition);
      const { version } = present.summary;
      // planted: commit-version
      if (commit.version !== version) {
        this.#items.bill.lostCommit(partition, present.summary);
        return 'lost';
      }
      requireCurrent(present.reservations, touched, true);
      requireCurrent(
        present.reservations,
        commit.reserve.map((each) => each.batchId),
        false,
      );
      this.#requireLendable(commit);
      // Only one commit of each version gets here, so the names of its items need no nonce.
      const change = nextSummary(present.summary, commit, present.items, '');
      if (!isSingleWrite(change, commit) && this.#items.happens('transactionConflict')) {
        throw new ThrottledError('commit: the transaction conflicted with another one; try again');
      }
      requireCommitFits(partition, change);
      this.#items.bill.committed(partition, present, change, commit);
      this.#apply(partition, change, commit);
      this.#lend(partition, commit);
      this.#items.observe?.({ kind: 'committed', partition, commit, version });
      return 'committed';
    });
  }

  /** Applies a commit, except for its loans. */
  #apply(partition: number, change: SummaryChange, commit: Commit): void {
    const present = this.#items.partition(partition);
    present.summary = change.summary;
    for (const [itemId, reservations] of change.ahead) present.items.set(itemId, reservations);
    for (const ledger of change.spilled) present.ownLedgers.set(ledger.fairnessKey, ledger);
    for (const each of change.estimates)
      present.ownEstimates.set(estimateId(each.type, each.resourceId), each);
    for (const { reservation, positions } of commit.drop) this.#drop(present, reservation.batchId, positions);
    for (const { reservation, checkAtMs } of commit.postpone) {
      const stored = present.reservations.get(reservation.batchId);
      if (stored !== undefined) present.reservations.set(stored.batchId, { ...stored, checkAtMs });
    }
    for (const ledger of commit.ledgers) {
      present.ledgers.set(ledger.fairnessKey, ledger);
      this.#items.keyRanks.sawLedger(partition, ledger);
    }
    for (const reservation of commit.reserve) {
      // This is a copy, because positions are deleted from it.
      present.reservations.set(reservation.batchId, { ...reservation, jobs: new Map(reservation.jobs) });
    }
  }

  /** Checks that the commit's loans agree with both partitions' copies. */
  #requireLendable({ lend = [], giveBack = [] }: Commit): void {
    const copiesOf = ({ loanId, from, to }: Loan): readonly (Loan | undefined)[] =>
      [from, to].map((each) => this.#items.partition(each).loans.get(loanId));
    for (const loan of lend) {
      if (copiesOf(loan).some((copy) => copy !== undefined))
        throw new StaleCommitError(`loan ${loan.loanId} exists already; load the partition again`);
    }
    for (const { loan } of giveBack) {
      if (copiesOf(loan).some((copy) => copy?.units !== loan.units))
        throw new StaleCommitError(
          `loan ${loan.loanId} no longer has ${loan.units} units; load the partition again`,
        );
    }
  }

  #lend(partition: number, { lend = [], giveBack = [] }: Commit): void {
    for (const loan of lend) {
      for (const each of [loan.from, loan.to]) this.#items.partition(each).loans.set(loan.loanId, loan);
      this.#items.partition(partition).requests.delete(loan.to);
    }
    for (const { loan, left } of giveBack) {
      for (const each of [loan.from, loan.to]) {
        const { loans } = this.#items.partition(each);
        if (left === 0) loans.delete(loan.loanId);
        else loans.set(loan.loanId, { ...loan, units: left });
      }
    }
  }

  #drop(items: PartitionItems, batchId: string, positions: readonly number[]): void {
    const stored = items.reservations.get(batchId);
    if (stored === undefined) return;
    for (const position of positions) stored.jobs.delete(position);
    if (stored.jobs.size === 0) items.reservations.delete(batchId);
  }

  async tidy({ partition, expiredMs, ended = [] }: RequestOf<'tidy'>): Promise<void> {
    return this.#items.write('tidy', () => {
      for (const control of ended) this.#deleteControl(partition, control);
      const { summary, items, backlogs } = this.#items.partition(partition);
      for (const [itemId, reservations] of items) {
        if (summary.named.has(itemId)) continue;
        this.#items.bill.deletedReservations(partition, reservations);
        items.delete(itemId);
      }
      for (const { type, fairnessKey, from, to } of this.#items.keyRanks.takeMoves(partition, expiredMs)) {
        const entry = backlogs.get(fairnessKey)?.get(type);
        if (entry?.rank === from) this.#items.putBacklog(partition, type, entry.value, costOfRank(to));
        else this.#items.bill.small('tidy', 'write');
      }
    });
  }

  /** Deletes a control, unless it was changed since it was loaded, or its rest is not over. */
  #deleteControl(partition: number, { scope, changes }: Control): void {
    this.#items.bill.small('tidy', 'write');
    const { controls, controlRevisions } = this.#items.partition(partition);
    const present = controls.get(scope);
    const isSame = JSON.stringify(present?.changes) === JSON.stringify(changes);
    if (!isSame || (present?.restsUntilMs ?? 0) > this.#items.clock()) return;
    controls.delete(scope);
    controlRevisions.delete(scope);
  }

  async keepLookout({ partition, seen, next }: RequestOf<'keepLookout'>): Promise<Applied> {
    return this.#items.write('keepLookout', () => {
      this.#items.bill.small('keepLookout', 'write');
      const items = this.#items.partition(partition);
      if (!isSameLook(items.lookout, seen)) return 'superseded';
      items.lookout = { ...next };
      return 'applied';
    });
  }

  async askForLoan({ partition, request }: RequestOf<'askForLoan'>): Promise<void> {
    requireRequestFits(partition, request);
    return this.#items.write('askForLoan', () => {
      this.#items.bill.small('askForLoan', 'write');
      this.#items.partition(partition).requests.set(request.partition, request);
    });
  }
}
