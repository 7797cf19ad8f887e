/** What a pass knows of its partition exactly, and what it decides. */

import type { Loan } from '../../core/lending.ts';
import { TRANSACTION_ITEMS_MAX } from '../bounds.ts';
import type { PartitionStore, RequestOf } from '../contract.ts';
import { CommitTooLarge, StaleCommit, StoreThrottled } from '../errors.ts';
import {
  asMarked,
  isPageAlone,
  isSafeInParts,
  lendingItems,
  type PageTurn,
  requireBounded,
  reservationsIn,
  transactionPartsOf,
  turnPage,
} from '../page.ts';
import { type Lookout, type PartitionState, type Reservation, workerAt } from '../records.ts';
import type { Applied, Commit, CommitOutcome } from '../requests.ts';
import { costOfRank } from '../schema.ts';
import { requireCommitFits, requireRequestFits } from './fits.ts';
import { estimateId, type MemoryItems, type PartitionItems } from './items.ts';

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
    throw new StaleCommit(
      `the commit ${isThere ? 'changes' : 'makes'} the reservation ${batchId}, which is ${isThere ? 'gone' : 'there'}; load the partition again`,
    );
  }
}

export class MemoryPartitionStore implements PartitionStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async loadPartition({
    partition,
    nowMs,
    knownTurn,
    withoutLedgers = false,
  }: RequestOf<'loadPartition'>): Promise<PartitionState> {
    return this.#items.read('loadPartition', () => {
      const {
        lease,
        declared,
        carried,
        page,
        batches,
        follows,
        workers,
        controls,
        dueShards,
        loans,
        requests,
        lookout,
      } = this.#items.partition(partition);
      // Beside the lease.
      const before = controls.size + loans.size + requests.size + (lookout === undefined ? 0 : 1) + 1;
      const others = { before, behind: workers.size };
      for (const ledger of page.ledgers.values()) this.#items.keyRanks.sawLedger(partition, ledger);
      this.#items.bill.load(partition, { page, batches, follows }, others, { knownTurn, withoutLedgers });
      return {
        epoch: lease.epoch,
        isOpen: lease.isOpen === true && page.epoch <= lease.epoch,
        declared,
        carried,
        turn: page.turn,
        reservations: reservationsIn(page, batches.values()),
        workers: [...workers.values()].flatMap((worker) => workerAt(worker, nowMs) ?? []),
        gone: [...workers.values()].filter((worker) => workerAt(worker, nowMs) === undefined),
        lookout,
        controls: [...controls.values()],
        ledgers: withoutLedgers ? [] : [...page.ledgers.values()],
        estimates: [...page.estimates.values()],
        parks: page.parks,
        dueShards,
        attendance: page.attendance,
        liftedAtMs: page.liftedAtMs,
        isLifted: page.isLifted,
        quiet: page.quiet,
        loans: [...loans.values()],
        requests: [...requests.values()],
      };
    });
  }

  async commit({ fence, commit }: RequestOf<'commit'>): Promise<CommitOutcome> {
    const touched = [...commit.drop, ...commit.postpone].map((each) => each.reservation.batchId);
    requireBounded(commit);
    return this.#items.write('commit', () => {
      const { partition } = fence;
      const present = this.#items.partition(partition);
      if (present.page.epoch > fence.epoch) return 'lost';
      // planted: commit-turn
      if (commit.turn !== undefined && commit.turn !== present.page.turn) {
        throw new StaleCommit(
          `the commit follows turn ${commit.turn} of partition ${partition}, which is at ${present.page.turn}; load it again`,
        );
      }
      requireCurrent(present.reservations, touched, true);
      requireCurrent(
        present.reservations,
        commit.reserve.map((each) => each.batchId),
        false,
      );
      this.#requireLendable(commit);
      const turn = turnPage(present.page, commit, present.batches, fence.epoch, present.follows);
      if (commit.isWithoutLease === true && !isSafeInParts(turn, commit)) return 'needsLease';
      if (lendingItems(commit) > 0 && present.lease.epoch !== fence.epoch) return 'lost';
      if (!isPageAlone(turn, commit) && this.#items.happens('transactionConflict')) {
        throw new StoreThrottled('commit: the transaction met another one; try again');
      }
      if (transactionPartsOf(turn, commit) > TRANSACTION_ITEMS_MAX)
        throw new CommitTooLarge(transactionPartsOf(turn, commit));
      requireCommitFits(partition, turn);
      this.#items.bill.committed(partition, present, turn, commit);
      this.#turn(partition, turn, commit);
      this.#lend(partition, commit);
      this.#items.observe?.({ kind: 'committed', fence, commit, epoch: present.lease.epoch });
      return 'committed';
    });
  }

  /** The partition is as the commit leaves it, but for what is lent. */
  #turn(partition: number, turn: PageTurn, commit: Commit): void {
    const present = this.#items.partition(partition);
    for (const { batchId } of turn.ahead) present.follows.set(batchId, present.page.turn);
    present.page = turn.page;
    for (const reservation of turn.absorbed) {
      if (reservation.jobs.size > 0) present.batches.set(reservation.batchId, reservation);
      else {
        present.batches.delete(reservation.batchId);
        present.follows.delete(reservation.batchId);
      }
    }
    for (const ledger of turn.spilled) present.ownLedgers.set(ledger.fairnessKey, ledger);
    for (const each of turn.estimates) present.ownEstimates.set(estimateId(each.type, each.resourceId), each);
    for (const { reservation, positions } of commit.drop) this.#drop(present, reservation.batchId, positions);
    for (const { reservation, checkAtMs } of commit.postpone) {
      const stored = present.reservations.get(reservation.batchId);
      if (stored !== undefined) present.reservations.set(stored.batchId, { ...stored, checkAtMs });
    }
    for (const ledger of commit.ledgers) {
      present.ledgers.set(ledger.fairnessKey, ledger);
      this.#items.keyRanks.sawLedger(partition, ledger);
    }
    for (const each of [...turn.ahead, ...turn.reserved]) present.batches.set(each.batchId, each);
    for (const reservation of commit.reserve) {
      // Its own copy: places leave it one by one.
      present.reservations.set(reservation.batchId, { ...reservation, jobs: new Map(reservation.jobs) });
    }
  }

  /** A loan stands with both partitions, and both say the same of it. */
  #requireLendable({ lend = [], giveBack = [] }: Commit): void {
    const copiesOf = ({ loanId, from, to }: Loan): readonly (Loan | undefined)[] =>
      [from, to].map((each) => this.#items.partition(each).loans.get(loanId));
    for (const loan of lend) {
      if (copiesOf(loan).some((copy) => copy !== undefined))
        throw new StaleCommit(`loan ${loan.loanId} is there already; load the partition again`);
    }
    for (const { loan } of giveBack) {
      if (copiesOf(loan).some((copy) => copy?.units !== loan.units))
        throw new StaleCommit(
          `loan ${loan.loanId} is not of ${loan.units} units any more; load the partition again`,
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

  async tidy(partition: number, expiredMs?: number): Promise<void> {
    return this.#items.write('tidy', () => {
      const { page, batches, follows, backlogs } = this.#items.partition(partition);
      for (const [batchId, reservation] of batches) {
        if (asMarked(reservation, page) !== undefined) continue;
        this.#items.bill.deletedReservation(partition, reservation, follows.get(batchId));
        batches.delete(batchId);
        follows.delete(batchId);
      }
      for (const { type, fairnessKey, from, to } of this.#items.keyRanks.takeMoves(partition, expiredMs)) {
        const entry = backlogs.get(fairnessKey)?.get(type);
        if (entry?.rank === from) this.#items.putBacklog(partition, type, entry.value, costOfRank(to));
        else this.#items.bill.small('tidy', 'write');
      }
    });
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

  async noteCarried({ fence, carried }: RequestOf<'noteCarried'>): Promise<'noted' | 'lost'> {
    return this.#items.write('noteCarried', () => {
      this.#items.bill.small('noteCarried', 'write');
      const items = this.#items.partition(fence.partition);
      if (items.lease.epoch !== fence.epoch) return 'lost';
      items.carried = carried;
      return 'noted';
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
