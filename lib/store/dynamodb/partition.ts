/** What a pass knows of its partition exactly, and what it decides: one read, and a write that counts as a whole or not at all. */

import { randomBytes, randomUUID } from 'node:crypto';
import type { Control } from '../../core/capacity.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import { TRANSACTION_ITEMS_MAX } from '../bounds.ts';
import type { PartitionStore, RequestOf } from '../contract.ts';
import { CommitTooLarge, StaleCommit, StoreThrottled } from '../errors.ts';
import type { RankMove } from '../key-ranks.ts';
import {
  asMarked,
  EMPTY_PAGE,
  isNamed,
  isPageAlone,
  isReadAround,
  isSafeInParts,
  isVoid,
  type Page,
  type PageTurn,
  requireBounded,
  reservationsIn,
  transactionPartsOf,
  turnPage,
} from '../page.ts';
import {
  type Fence,
  isIdle,
  type Lookout,
  type PartitionState,
  type Reservation,
  type WorkerRecord,
  workerAt,
} from '../records.ts';
import type { Applied, Commit, CommitOutcome } from '../requests.ts';
import {
  BEHIND_RESERVATIONS,
  backlogKey,
  CONTROL_PREFIX,
  dueKey,
  estimateKey,
  LOAN_PREFIX,
  leaseKey,
  ledgerKey,
  loanKey,
  lookoutKey,
  pageKey,
  partitionPk,
  REQUEST_PREFIX,
  RESERVATION_PREFIX,
  requestKey,
  reservationKey,
  WORKER_PREFIX,
} from '../schema.ts';
import { ATTRIBUTE, type Item } from './codec/attributes.ts';
import { decodeControl, unreadableControl } from './codec/control.ts';
import { encodeEstimate } from './codec/estimate.ts';
import { decodeDueShards, decodeLease, decodeLookout, encodeCarried, encodeLookout } from './codec/lease.ts';
import { encodeLedger } from './codec/ledger.ts';
import { decodeLoan, decodeRequest, encodeLoan, encodeRequest } from './codec/loan.ts';
import { baseMissing, commitIdOf, decodePage, encodeLedgerBase, encodePage, isOfBase } from './codec/page.ts';
import { decodeReservation, encodeReservation, followsOf, isSameReservation } from './codec/reservation.ts';
import { decodeWorkerRecord, unreadableWorker } from './codec/worker.ts';
import type { DynamoConnection, Put, TransactionPart } from './connection.ts';
import { PARALLEL_MAX } from './expressions.ts';
import { type TableItems, untilWhole } from './items.ts';
import { inParallel } from './parallel.ts';

/** What a store has last read and written of a partition: what its next commit follows. */
interface Known {
  readonly epoch: number;
  readonly page: Page;
  /** The reservations that count, as their items are. */
  readonly batches: Map<string, Reservation>;
  /** By batch id, of all items that were put before a page: the turn that it follows. Those of them that do not count are not in `batches`. */
  readonly follows: Map<string, number>;
}

/** The page's condition proves that what is known is what is there. */
function requireCurrent(fence: Fence, known: Known, commit: Commit): void {
  if (commit.turn !== undefined && commit.turn !== known.page.turn) {
    throw new StaleCommit(
      `the commit under epoch ${fence.epoch} follows turn ${commit.turn} of partition ${fence.partition}, which is at ${known.page.turn}; load it again`,
    );
  }
  for (const { batchId } of commit.reserve) {
    if (!known.page.inline.has(batchId) && !known.batches.has(batchId)) continue;
    throw new StaleCommit(
      `the commit under epoch ${fence.epoch} makes the reservation ${batchId}, which is there; load partition ${fence.partition} again`,
    );
  }
  for (const { reservation } of [...commit.drop, ...commit.postpone]) {
    const { batchId } = reservation;
    if (known.page.inline.has(batchId)) continue;
    const present = known.batches.get(batchId);
    if (present !== undefined && asMarked(present, known.page) !== undefined) continue;
    throw new StaleCommit(
      `the commit under epoch ${fence.epoch} changes the reservation ${batchId}, which is gone; load partition ${fence.partition} again`,
    );
  }
}

function forget({ batches, follows }: Known, batchId: string): void {
  batches.delete(batchId);
  follows.delete(batchId);
}

const ANOTHER_PAGE = 'another page';
const COMMIT_ID_BYTES = 6;
const newCommitId = (): string => randomBytes(COMMIT_ID_BYTES).toString('base64url');

/** A page that follows another one, written under an epoch. Of one epoch, two runs of one process could follow the same page. */
function pageAfter(partition: number, epoch: number, before: Page, after: Page, commitId: string): Put {
  // planted: commit-sequence
  const follows = before.turn === 0 ? '(attribute_not_exists(#pk) OR #turn = :turn)' : '#turn = :turn';
  return {
    item: encodePage(partition, after, commitId),
    condition: `${follows} AND (attribute_not_exists(#pageEpoch) OR #pageEpoch <= :epoch)`,
    values: { ':turn': before.turn, ':epoch': epoch },
  };
}

/** What the items of a partition say. */
interface PartitionItems {
  lease: ReturnType<typeof decodeLease> | undefined;
  page: Page;
  /** The page, if what was read beside it is not the base that it names. */
  torn: Item | undefined;
  /** The page names reservations that were not read with it. */
  lacks: boolean;
  dueShards: number;
  lookout: Lookout | undefined;
  /** Those that count. */
  reservations: readonly Reservation[];
  /** Of items that were put before a page, the turn that it follows. */
  readonly follows: Map<string, number>;
  readonly workers: WorkerRecord[];
  readonly controls: Control[];
  readonly loans: Loan[];
  readonly requests: LoanRequest[];
}

const noItems = (): PartitionItems => ({
  lease: undefined,
  page: EMPTY_PAGE,
  torn: undefined,
  lacks: false,
  dueShards: 1,
  lookout: undefined,
  reservations: [],
  follows: new Map(),
  workers: [],
  controls: [],
  loans: [],
  requests: [],
});

export class DynamoPartitionStore implements PartitionStore {
  readonly #items: TableItems;
  readonly #table: DynamoConnection;
  readonly #known = new Map<number, Known>();

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async loadPartition({
    partition,
    nowMs,
    knownTurn,
    withoutLedgers,
  }: RequestOf<'loadPartition'>): Promise<PartitionState> {
    const { lease, page, reservations, workers, controls, loans, requests, lookout, dueShards } =
      withoutLedgers === true
        ? await this.#readBare(partition, nowMs)
        : ((await this.#readAround(partition, nowMs, knownTurn)) ??
          (await this.#readWhole(partition, nowMs)));
    for (const ledger of page.ledgers.values()) this.#items.keyRanks.sawLedger(partition, ledger);
    return {
      epoch: lease?.epoch ?? 0,
      isOpen: lease?.isOpen === true && page.epoch <= lease.epoch,
      declared: lease?.declared,
      carried: lease?.carried,
      turn: page.turn,
      reservations: reservationsIn(page, reservations),
      workers: workers.flatMap((worker) => workerAt(worker, nowMs) ?? []),
      gone: workers.filter((worker) => workerAt(worker, nowMs) === undefined),
      lookout,
      controls,
      ledgers: withoutLedgers === true ? [] : [...page.ledgers.values()],
      estimates: [...page.estimates.values()],
      parks: page.parks,
      dueShards,
      attendance: page.attendance,
      liftedAtMs: page.liftedAtMs,
      isLifted: page.isLifted,
      quiet: page.quiet,
      loans,
      requests,
    };
  }

  /** Whatever the base says: nobody commits by this. */
  #readBare(partition: number, nowMs: number): Promise<PartitionItems> {
    return untilWhole(async () => {
      const items = await this.#items.collection('loadPartition', partitionPk(partition));
      return this.#decoded(partition, items, nowMs, true);
    });
  }

  async #readWhole(partition: number, nowMs: number): Promise<PartitionItems> {
    const read = await untilWhole(async () => {
      const items = await this.#items.collection('loadPartition', partitionPk(partition));
      return this.#decoded(partition, items, nowMs);
    });
    if (read.torn !== undefined) await this.#items.setAside(partition, read.torn, baseMissing(read.torn));
    const { lease, page, reservations, follows } = read;
    // Who only looks may have read it before somebody else's commit.
    if ((this.#known.get(partition)?.page.turn ?? 0) <= page.turn) {
      const batches = new Map(reservations.map((each) => [each.batchId, each]));
      this.#known.set(partition, { epoch: lease?.epoch ?? 0, page, batches, follows });
    }
    return read;
  }

  /**
   * The partition, with its reservations as they are known. Undefined if those are not what is there, or were too few to be left
   * out: then all is to be read. The page says so: nobody changes a reservation without turning it, but for whoever tidies
   * away what the page says is settled. A commit that comes while this reads turns it before or after the page was read; if
   * after, this answers what was there before it, as a read in one part does. One of this process's own makes what it knows
   * anew.
   */
  async #readAround(
    partition: number,
    nowMs: number,
    knownTurn: number | undefined,
  ): Promise<PartitionItems | undefined> {
    const known = this.#known.get(partition);
    if (known === undefined || known.page.turn !== knownTurn || !isReadAround(known.batches.values()))
      return undefined;
    const pk = partitionPk(partition);
    const items = await this.#items.around('loadPartition', pk, RESERVATION_PREFIX, BEHIND_RESERVATIONS);
    const read = await this.#decoded(partition, items, nowMs);
    if (read.torn !== undefined || read.page.turn !== knownTurn || this.#known.get(partition) !== known)
      return undefined;
    // The page may be fenced by now, and the lease another one.
    this.#known.set(partition, { ...known, epoch: read.lease?.epoch ?? 0, page: read.page });
    return { ...read, reservations: [...known.batches.values()] };
  }

  /** The items of a partition by their kinds. What cannot be read is set aside; a worker or a control stays, with nothing to give. */
  async #decoded(
    partition: number,
    items: readonly Item[],
    nowMs: number,
    isBare = false,
  ): Promise<PartitionItems> {
    const found = noItems();
    const reservations: Reservation[] = [];
    let pageItem: Item | undefined;
    const single = new Map<string, (item: Item) => Promise<void> | void>([
      [
        leaseKey(partition).sk,
        (item) => {
          found.lease = decodeLease(item);
        },
      ],
      [
        pageKey(partition).sk,
        (item) => {
          pageItem = item;
        },
      ],
      [
        dueKey(partition).sk,
        (item) => {
          found.dueShards = Math.max(1, decodeDueShards(item));
        },
      ],
      [
        lookoutKey(partition).sk,
        async (item) => {
          [found.lookout] = await this.#items.readable(partition, [item], decodeLookout);
        },
      ],
    ]);
    const kinds: readonly (readonly [prefix: string, take: (item: Item) => Promise<void> | void])[] = [
      [
        RESERVATION_PREFIX,
        (item) => {
          const reservation = decodeReservation(item);
          reservations.push(reservation);
          const follows = followsOf(item);
          if (follows !== undefined) found.follows.set(reservation.batchId, follows);
        },
      ],
      [
        WORKER_PREFIX,
        async (item) => {
          const read = this.#items.readable(partition, [item], decodeWorkerRecord, (cause) =>
            unreadableWorker(partition, item, nowMs, cause),
          );
          found.workers.push(...(await read));
        },
      ],
      [
        CONTROL_PREFIX,
        async (item) => {
          const read = this.#items.readable(partition, [item], decodeControl, () => unreadableControl(item));
          found.controls.push(...(await read).filter((control) => !isIdle(control)));
        },
      ],
      [LOAN_PREFIX, (item) => void found.loans.push(decodeLoan(item))],
      [
        REQUEST_PREFIX,
        async (item) => {
          // One that nobody can read asks for nothing, until its partition asks again.
          found.requests.push(...(await this.#items.readable(partition, [item], decodeRequest)));
        },
      ],
    ];
    for (const item of items) {
      const sk = String(item[ATTRIBUTE.sk]);
      const take = single.get(sk) ?? kinds.find(([prefix]) => sk.startsWith(prefix))?.[1];
      await take?.(item);
    }
    if (pageItem === undefined) return { ...found, reservations };
    const base = isBare ? undefined : await this.#items.baseOf('loadPartition', partition, pageItem);
    const torn = isBare || isOfBase(pageItem, base) ? undefined : pageItem;
    const page = decodePage(pageItem, base);
    const there = new Set(reservations.map(({ batchId }) => batchId));
    return {
      ...found,
      page,
      torn,
      // planted: named-but-missing
      lacks: [...(page.named ?? [])].some((batchId) => !there.has(batchId)),
      reservations: reservations.filter(
        ({ batchId }) => !found.follows.has(batchId) || isNamed(page, batchId),
      ),
    };
  }

  async commit({ fence, commit }: RequestOf<'commit'>): Promise<CommitOutcome> {
    const { partition } = fence;
    requireBounded(commit);
    const turnKnown = this.#known.get(partition)?.page.turn;
    if (turnKnown === undefined || (commit.turn !== undefined && commit.turn !== turnKnown)) {
      await this.loadPartition({ partition, nowMs: 0 });
    }
    const known: Known = this.#known.get(partition) ?? {
      epoch: 0,
      page: EMPTY_PAGE,
      batches: new Map(),
      follows: new Map(),
    };
    // Not known again before the answer: a commit without one may have happened or not.
    this.#known.delete(partition);
    if (known.epoch > fence.epoch) return 'lost';
    requireCurrent(fence, known, commit);
    const turn = turnPage(known.page, commit, known.batches, fence.epoch, known.follows);
    if (transactionPartsOf(turn, commit) > TRANSACTION_ITEMS_MAX)
      throw new CommitTooLarge(transactionPartsOf(turn, commit));
    if (commit.isWithoutLease === true && !isSafeInParts(turn, commit)) return 'needsLease';
    const written = isPageAlone(turn, commit)
      ? await this.#turnAlone(fence, known.page, turn)
      : await this.#turnWith(fence, known, turn, commit);
    if (written === 'lost') return 'lost';
    for (const { batchId } of turn.ahead) known.follows.set(batchId, known.page.turn);
    for (const each of [...turn.ahead, ...turn.reserved]) known.batches.set(each.batchId, each);
    for (const reservation of turn.absorbed) {
      if (reservation.jobs.size > 0) known.batches.set(reservation.batchId, reservation);
      else forget(known, reservation.batchId);
    }
    if ((this.#known.get(partition)?.page.turn ?? 0) < turn.page.turn) {
      this.#known.set(partition, { ...known, page: turn.page });
    }
    if (turn.base !== undefined) this.#items.knowBase(partition, turn.base);
    for (const ledger of commit.ledgers) this.#items.keyRanks.sawLedger(partition, ledger);
    await this.#putEstimates(partition, turn);
    return 'committed';
  }

  /** Only hints: what is not written is learned again. A process that comes late with what it learned before takes nothing back. */
  async #putEstimates(partition: number, { estimates, page: { turn } }: PageTurn): Promise<void> {
    await inParallel(estimates, PARALLEL_MAX, (estimate) => {
      const key = estimateKey(partition, estimate.type, estimate.resourceId);
      return this.#items.hint(() =>
        this.#table.put('commit', {
          item: encodeEstimate(key, estimate, turn),
          // One of an earlier version says no turn.
          // planted: learned-late
          condition: 'attribute_not_exists(#turn) OR #turn < :turn',
          values: { ':turn': turn },
        }),
      );
    });
  }

  /** Writes the page by itself: its turn and its epoch are the fence. Items that it names are there before it, or it is not written. */
  async #turnAlone(
    { partition, epoch }: Fence,
    before: Page,
    { page: after, ahead }: PageTurn,
  ): Promise<'committed' | 'lost'> {
    const commitId = newCommitId();
    // planted: page-before-items
    await this.#putAhead(partition, ahead, before.turn);
    const outcome = await this.#table.put('commit', pageAfter(partition, epoch, before, after, commitId));
    // A request that was repeated finds what it has written itself.
    if (outcome.applied || (outcome.old !== undefined && commitIdOf(outcome.old) === commitId))
      return 'committed';
    return this.#refused({ partition, epoch }, before, ANOTHER_PAGE);
  }

  /**
   * Puts what a page is about to name. Only where nothing is: a request that comes late, or again, finds its item there, or one that
   * has been changed since, or brings back what nobody names any more. What an earlier try has put is as good.
   */
  async #putAhead(partition: number, reservations: readonly Reservation[], follows: number): Promise<void> {
    await inParallel(reservations, PARALLEL_MAX, async (reservation) => {
      const item = encodeReservation(partition, reservation, follows);
      // planted: put-over-another
      const outcome = await this.#table.put('commit', { item, condition: 'attribute_not_exists(#pk)' });
      if (outcome.applied || (outcome.old !== undefined && isSameReservation(outcome.old, item))) return;
      const { batchId } = reservation;
      if (outcome.old === undefined) {
        throw new StoreThrottled(
          `commit: something was in the way of reservation ${batchId} of partition ${partition}, and is gone; try again`,
        );
      }
      throw new StaleCommit(
        `a commit makes the reservation ${batchId}, which is there; load partition ${partition} again`,
      );
    });
  }

  async #turnWith(fence: Fence, known: Known, turn: PageTurn, commit: Commit): Promise<'committed' | 'lost'> {
    const parts = this.#transactionPartsOf(fence, known, turn, commit);
    const outcome = await this.#table.transact('commit', randomUUID(), parts);
    if (outcome.applied) return 'committed';
    return this.#refused(fence, known.page, `parts ${[...outcome.refused].join(', ')}`);
  }

  /** Why a commit was refused: somebody else has the lease, or is about to take it; or it does not follow what is there. */
  async #refused({ partition, epoch }: Fence, before: Page, what: string): Promise<'lost'> {
    const [lease, page] = await this.#items.getAll(
      'commit',
      [leaseKey(partition), pageKey(partition)],
      (item) => item,
    );
    const present = page === undefined ? EMPTY_PAGE : decodePage(page);
    if (Math.max(lease === undefined ? 0 : decodeLease(lease).epoch, present.epoch) > epoch) return 'lost';
    if (what === ANOTHER_PAGE && present.turn === before.turn) {
      throw new StoreThrottled(
        `commit: something was in the way of turn ${before.turn + 1} of partition ${partition}, and is gone; try again`,
      );
    }
    throw new StaleCommit(
      `the commit under epoch ${epoch} follows a page, or makes reservations, that are not what it knows: ${what}; load partition ${partition} again`,
    );
  }

  #transactionPartsOf(
    fence: Fence,
    { page: before, follows }: Known,
    turn: PageTurn,
    commit: Commit,
  ): readonly TransactionPart[] {
    const { partition, epoch } = fence;
    const table = this.#table;
    // The page is the fence, as where it is written alone: whoever takes a lease under which a commit may come fences the page first.
    return [
      table.putPart(pageAfter(partition, epoch, before, turn.page, newCommitId())),
      ...(turn.base === undefined ? [] : [table.putPart({ item: encodeLedgerBase(partition, turn.base) })]),
      ...turn.spilled.map((ledger) =>
        table.putPart({ item: encodeLedger(ledgerKey(partition, ledger.fairnessKey), ledger) }),
      ),
      ...turn.reserved.map((reservation) =>
        table.putPart({
          item: encodeReservation(partition, reservation),
          condition: 'attribute_not_exists(#pk)',
        }),
      ),
      ...turn.absorbed.map((reservation) =>
        reservation.jobs.size === 0
          ? table.deletePart(reservationKey(partition, reservation.batchId))
          : table.putPart({
              item: encodeReservation(partition, reservation, follows.get(reservation.batchId)),
            }),
      ),
      ...this.#lendingParts(fence, commit),
    ];
  }

  /** A loan stands with both partitions, and both say the same of it. */
  #lendingParts(
    { partition, epoch }: Fence,
    { lend = [], giveBack = [] }: Commit,
  ): readonly TransactionPart[] {
    if (lend.length + giveBack.length === 0) return [];
    const table = this.#table;
    const granted = new Set(lend.map(({ to }) => to));
    return [
      table.checkPart(leaseKey(partition), '#epoch = :epoch', { ':epoch': epoch }),
      ...lend.flatMap((loan) =>
        [loan.from, loan.to].map((each) =>
          table.putPart({ item: encodeLoan(each, loan), condition: 'attribute_not_exists(#pk)' }),
        ),
      ),
      ...Array.from(granted, (borrower) => table.deletePart(requestKey(partition, borrower))),
      ...giveBack.flatMap(({ loan, left }) =>
        [loan.from, loan.to].map((each) => {
          const key = loanKey(each, loan.loanId);
          const condition = '#units = :units';
          const values = { ':units': loan.units };
          return left === 0
            ? table.deletePart(key, condition, values)
            : table.updatePart({
                key,
                update: 'SET #units = :left',
                condition,
                values: { ...values, ':left': left },
              });
        }),
      ),
    ];
  }

  async tidy(partition: number, expiredMs?: number): Promise<void> {
    await Promise.all([
      this.#deleteSettled(partition),
      this.#moveKeys(partition, this.#items.keyRanks.takeMoves(partition, expiredMs)),
    ]);
  }

  /**
   * Takes away reservations all of whose places are settled, and items that no page will ever name. The page goes on saying so of the
   * former until a deletion was answered, so one that gets lost is repeated by whoever tidies next.
   */
  async #deleteSettled(partition: number): Promise<void> {
    const known = this.#known.get(partition);
    if (known === undefined) return;
    const { page, batches, follows } = known;
    const settled = [...batches].filter(([, each]) => asMarked(each, page) === undefined);
    const unnamed = [...follows].filter(([batchId, turn]) => isVoid(page, batchId, turn));
    await inParallel([...settled, ...unnamed], PARALLEL_MAX, async ([batchId]) => {
      await this.#items.hint(async () => {
        await this.#table.delete('tidy', reservationKey(partition, batchId));
        forget(known, batchId);
      });
    });
  }

  /** Only hints move here: what fails is moved by a later pass. */
  async #moveKeys(partition: number, moves: readonly RankMove[]): Promise<void> {
    await inParallel(moves, PARALLEL_MAX, ({ type, fairnessKey, from, to }) =>
      this.#items.hint(() =>
        this.#table.update('tidy', {
          key: backlogKey(partition, type, fairnessKey),
          update: 'SET #rank = :to',
          condition: '#rank = :from AND attribute_exists(#line)',
          values: { ':from': from, ':to': to },
        }),
      ),
    );
  }

  async keepLookout({ partition, seen, next }: RequestOf<'keepLookout'>): Promise<Applied> {
    const callId = randomUUID();
    const outcome = await this.#table.put('keepLookout', {
      item: encodeLookout(partition, next, callId),
      ...(seen === undefined
        ? { condition: 'attribute_not_exists(#pk)' }
        : {
            condition: '#atMs = :at AND #nextAtMs = :next AND #judgedUntilMs = :judged',
            values: { ':at': seen.atMs, ':next': seen.nextAtMs, ':judged': seen.judgedUntilMs },
          }),
    });
    // A request that was repeated finds what it has written itself.
    return outcome.applied || outcome.old?.[ATTRIBUTE.callId] === callId ? 'applied' : 'superseded';
  }

  async noteCarried({ fence, carried }: RequestOf<'noteCarried'>): Promise<'noted' | 'lost'> {
    const outcome = await this.#table.update('noteCarried', {
      key: leaseKey(fence.partition),
      update: 'SET #carried = :carried',
      condition: '#epoch = :epoch',
      values: { ':carried': encodeCarried(carried), ':epoch': fence.epoch },
    });
    return outcome.applied ? 'noted' : 'lost';
  }

  async askForLoan({ partition, request }: RequestOf<'askForLoan'>): Promise<void> {
    await this.#table.put('askForLoan', { item: encodeRequest(partition, request) });
  }
}
