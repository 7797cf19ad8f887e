/** A partition as a pass reads it, at once, and the decisions that a pass commits, together or not at all. */

import { randomBytes, randomUUID } from 'node:crypto';
import type { Control } from '../../core/capacity.ts';
import { UnavailableError } from '../../core/errors.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import type { PartitionStore } from '../contract/core.ts';
import { StaleCommitError } from '../contract/errors.ts';
import type { LendingStore } from '../contract/lending.ts';
import {
  isIdle,
  type Lookout,
  type PartitionState,
  type Reservation,
  type WorkerRecord,
  workerAt,
} from '../contract/records.ts';
import type { Applied, Commit, CommitOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { ATTRIBUTE, type Item } from '../table/codec/attributes.ts';
import { decodeControl, unreadableControl } from '../table/codec/control.ts';
import { encodeEstimate } from '../table/codec/estimate.ts';
import { decodeLeader, decodeLookout, encodeLookout } from '../table/codec/leader.ts';
import { encodeLedger } from '../table/codec/ledger.ts';
import { decodeLoan, decodeRequest, encodeLoan, encodeRequest } from '../table/codec/loan.ts';
import {
  baseMissing,
  commitOf,
  decodePage,
  encodeLedgerBase,
  encodePage,
  isOfBase,
} from '../table/codec/page.ts';
import { decodeReservations, encodeReservations, reservationsMissing } from '../table/codec/reservation.ts';
import { decodeWorkerRecord, unreadableWorker } from '../table/codec/worker.ts';
import type { RankMove } from '../table/key-ranks.ts';
import {
  EMPTY_PAGE,
  isPageAlone,
  nextPage,
  type Page,
  type PageChange,
  presentIn,
  requireBounded,
  reservationsIn,
} from '../table/page.ts';
import {
  backlogKey,
  CONTROL_PREFIX,
  estimateKey,
  LOAN_PREFIX,
  leaderKey,
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
} from '../table/schema.ts';
import type { DynamoConnection, Put, TransactionPart } from './connection.ts';
import { PAGE_PART, PARALLEL_MAX } from './expressions.ts';
import { type TableItems, untilWhole } from './items.ts';
import { inParallel } from './parallel.ts';

/** What a store has last read and written of a partition: what its next commit follows, if it is of the same version. */
interface Known {
  readonly page: Page;
  /** All items of reservations by their names; those that the page does not name hold nothing. */
  readonly items: Map<string, readonly Reservation[]>;
}

/** @throws StaleCommitError when a commit that follows what is known changes what is not there, or makes what is */
function requireCurrent(partition: number, { page, items }: Known, commit: Commit): void {
  const touched = [...commit.drop, ...commit.postpone].map(({ reservation }) => reservation);
  const batchIds = new Set([...commit.reserve, ...touched].map(({ batchId }) => batchId));
  const present = presentIn(page, items, batchIds);
  const made = commit.reserve.find(({ batchId }) => present.has(batchId));
  const changed = touched.find(({ batchId }) => !present.has(batchId));
  if (made !== undefined)
    throw new StaleCommitError(
      `the commit makes the reservation ${made.batchId}, which is there; load partition ${partition} again`,
    );
  if (changed !== undefined)
    throw new StaleCommitError(
      `the commit changes the reservation ${changed.batchId}, which is gone; load partition ${partition} again`,
    );
}

const COMMIT_ID_BYTES = 6;
const knownFrom = ({ page, reservations }: PartitionItems): Known => ({ page, items: reservations });

const newCommitId = (): string => randomBytes(COMMIT_ID_BYTES).toString('base64url');

/** A page that is written only if the partition's version is the one that it follows. */
export function pageAfter(partition: number, page: Page, commitId: string): Put {
  const version = page.version - 1;
  return {
    item: encodePage(partition, page, commitId),
    // planted: page-of-any-version
    ...(version === 0
      ? { condition: 'attribute_not_exists(#pk)' }
      : { condition: '#version = :version', values: { ':version': version } }),
  };
}

/** What the items of a partition say. */
interface PartitionItems {
  leader: ReturnType<typeof decodeLeader> | undefined;
  page: Page;
  /** The page, if what was read beside it is not the base that it names. */
  torn: Item | undefined;
  /** An item of reservations that the page names, and that was not read with it. */
  lacks: string | undefined;
  lookout: Lookout | undefined;
  /** Items of reservations by their names. */
  readonly reservations: Map<string, readonly Reservation[]>;
  readonly workers: WorkerRecord[];
  readonly controls: Control[];
  readonly loans: Loan[];
  readonly requests: LoanRequest[];
}

const noItems = (): PartitionItems => ({
  leader: undefined,
  page: EMPTY_PAGE,
  torn: undefined,
  lacks: undefined,
  lookout: undefined,
  reservations: new Map(),
  workers: [],
  controls: [],
  loans: [],
  requests: [],
});

export class DynamoPartitionStore implements PartitionStore, LendingStore {
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
    withoutLedgers,
  }: RequestOf<'loadPartition'>): Promise<PartitionState> {
    const { leader, page, reservations, workers, controls, loans, requests, lookout } =
      withoutLedgers === true
        ? await this.#readItems(partition, nowMs, true)
        : await this.#readWhole(partition, nowMs);
    for (const ledger of page.ledgers.values()) this.#items.keyRanks.sawLedger(partition, ledger);
    return {
      leader: leader?.leader,
      declared: leader?.declared,
      carried: page.carried,
      version: page.version,
      reservations: reservationsIn(page, reservations),
      workers: workers.flatMap((worker) => workerAt(worker, nowMs) ?? []),
      gone: workers.filter((worker) => workerAt(worker, nowMs) === undefined),
      lookout,
      controls,
      ledgers: withoutLedgers === true ? [] : [...page.ledgers.values()],
      estimates: [...page.estimates.values()],
      parks: page.parks,
      attendance: page.attendance,
      quiet: page.quiet,
      unseenUntilMs: page.unseenUntilMs,
      loans,
      requests,
    };
  }

  /** Whatever the base says, if no commit follows this. */
  async #readItems(partition: number, nowMs: number, isBare: boolean): Promise<PartitionItems> {
    const read = await untilWhole(async () => {
      const items = await this.#items.collection('loadPartition', partitionPk(partition));
      return this.#decoded(partition, items, nowMs, isBare);
    });
    // To go on without it would give its capacity away a second time, and leave its jobs without anyone who looks after them.
    // planted: named-and-gone
    if (read.lacks !== undefined) throw reservationsMissing(partition, read.lacks);
    return read;
  }

  async #readWhole(partition: number, nowMs: number): Promise<PartitionItems> {
    const before = this.#versionOf(partition);
    const read = await this.#readItems(partition, nowMs, false);
    if (read.torn !== undefined) await this.#items.setAside(partition, read.torn, baseMissing(read.torn));
    // Another read of this process, or its commit, may have come after this one; but a table that is behind what was known before was restored.
    const { version } = read.page;
    if (this.#versionOf(partition) <= version || before > version)
      this.#known.set(partition, knownFrom(read));
    return read;
  }

  /** The items of a partition by their kinds. What cannot be read is set aside; a worker or a control stays, with nothing to give. */
  async #decoded(
    partition: number,
    items: readonly Item[],
    nowMs: number,
    isBare: boolean,
  ): Promise<PartitionItems> {
    const found = noItems();
    let pageItem: Item | undefined;
    const single = new Map<string, (item: Item) => Promise<void> | void>([
      [
        leaderKey(partition).sk,
        (item) => {
          found.leader = decodeLeader(item);
        },
      ],
      [
        pageKey(partition).sk,
        (item) => {
          pageItem = item;
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
      [RESERVATION_PREFIX, (item) => void found.reservations.set(...decodeReservations(item))],
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
    if (pageItem === undefined) return found;
    const base = isBare ? undefined : await this.#items.baseOf('loadPartition', partition, pageItem);
    const page = decodePage(pageItem, base);
    return {
      ...found,
      page,
      torn: isBare || isOfBase(pageItem, base) ? undefined : pageItem,
      // The page is read before its reservations: one that was taken away meanwhile is of a page that is not the partition's any more.
      // planted: named-but-missing
      lacks: [...page.named].find((itemId) => !found.reservations.has(itemId)),
    };
  }

  #versionOf(partition: number): number {
    return this.#known.get(partition)?.page.version ?? 0;
  }

  /** What it knows of that version, or reads now. What a restored table has may be older than what this process knew. */
  async #knownAt(partition: number, version: number): Promise<Known> {
    const known = this.#known.get(partition);
    return known?.page.version === version ? known : knownFrom(await this.#readWhole(partition, 0));
  }

  async commit({ partition, commit }: RequestOf<'commit'>): Promise<CommitOutcome> {
    requireBounded(commit);
    const known = await this.#knownAt(partition, commit.version);
    if (known.page.version !== commit.version) return 'lost';
    // Not known again before the answer: a commit without one may have happened or not.
    this.#known.delete(partition);
    requireCurrent(partition, known, commit);
    const change = nextPage(known.page, commit, known.items, newCommitId());
    // planted: page-before-items
    if ((await this.#putAhead(partition, known.page.version, change)) === 'lost') return 'lost';
    const written = isPageAlone(change, commit)
      ? await this.#putPage(partition, change.page)
      : await this.#writeTogether(partition, change, commit);
    if (written === 'lost') return 'lost';
    if (this.#versionOf(partition) < change.page.version)
      this.#known.set(partition, { page: change.page, items: new Map([...known.items, ...change.ahead]) });
    if (change.base !== undefined) this.#items.knowBase(partition, change.base);
    for (const ledger of commit.ledgers) this.#items.keyRanks.sawLedger(partition, ledger);
    await this.#putEstimates(partition, change);
    return 'committed';
  }

  /** This process has raised the version of a partition, and changed nothing else that its page says. */
  raised(partition: number, version: number): void {
    const known = this.#known.get(partition);
    if (known?.page.version === version)
      this.#known.set(partition, { ...known, page: { ...known.page, version: version + 1 } });
  }

  /** Only hints: what is not written is learned again. A process that comes late with what it learned before takes nothing back. */
  async #putEstimates(partition: number, { estimates, page: { version } }: PageChange): Promise<void> {
    await inParallel(estimates, PARALLEL_MAX, (estimate) => {
      const key = estimateKey(partition, estimate.type, estimate.resourceId);
      return this.#items.hint(() =>
        this.#table.put('commit', {
          item: encodeEstimate(key, estimate, version),
          // planted: learned-late
          condition: 'attribute_not_exists(#pk) OR #version < :version',
          values: { ':version': version },
        }),
      );
    });
  }

  /**
   * Puts what the page is about to name, or to let go of. An item of reservations has a name of its own: put again, or late, it says the same.
   * A ledger takes the place of nothing newer; where something newer stands, another commit has come first.
   */
  async #putAhead(
    partition: number,
    version: number,
    { ahead, spilled }: PageChange,
  ): Promise<'put' | 'lost'> {
    const reservations = ahead.map((each): Put => ({ item: encodeReservations(partition, each, version) }));
    const ledgers = spilled.map(
      (ledger): Put => ({
        item: encodeLedger(ledgerKey(partition, ledger.fairnessKey), ledger, version),
        // planted: put-over-another
        condition: 'attribute_not_exists(#pk) OR #version < :version',
        values: { ':version': version },
      }),
    );
    const put = await inParallel([...reservations, ...ledgers], PARALLEL_MAX, async (each) => {
      const outcome = await this.#table.put('commit', each);
      // All that follow one version let go of the same ledgers.
      return outcome.applied || outcome.old?.[ATTRIBUTE.version] === version;
    });
    return put.every((isPut) => isPut) ? 'put' : 'lost';
  }

  /** Writes the page by itself. */
  async #putPage(partition: number, page: Page): Promise<CommitOutcome> {
    const commitId = newCommitId();
    const outcome = await this.#table.put('commit', pageAfter(partition, page, commitId));
    if (outcome.applied) return 'committed';
    if (outcome.old === undefined) return 'lost';
    const present = commitOf(outcome.old);
    // A request that was repeated finds what it has written itself, or what others have written on top of it.
    if (present.commitId === commitId) return 'committed';
    if (outcome.isRepeated && present.version > page.version)
      throw new UnavailableError(
        `commit: no answer, and others have come after version ${page.version} of partition ${partition}; load it again`,
      );
    return 'lost';
  }

  /** Writes the page and, in the same transaction, a new base of its ledgers, or loans. */
  async #writeTogether(
    partition: number,
    { page, base }: PageChange,
    commit: Commit,
  ): Promise<CommitOutcome> {
    const table = this.#table;
    const outcome = await table.transact('commit', randomUUID(), [
      table.putPart(pageAfter(partition, page, newCommitId())),
      ...(base === undefined ? [] : [table.putPart({ item: encodeLedgerBase(partition, base) })]),
      ...this.#lendingParts(partition, commit),
    ]);
    if (outcome.applied) return 'committed';
    if (outcome.refused.has(PAGE_PART)) return 'lost';
    throw new StaleCommitError(
      `the commit makes or ends loans that are not as it says; load partition ${partition} again`,
    );
  }

  /** A loan stands with both partitions, and both say the same of it. */
  #lendingParts(partition: number, { lend = [], giveBack = [] }: Commit): readonly TransactionPart[] {
    const table = this.#table;
    const granted = new Set(lend.map(({ to }) => to));
    return [
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

  async tidy({ partition, expiredMs }: RequestOf<'tidy'>): Promise<void> {
    await Promise.all([
      this.#deleteUnnamed(partition),
      this.#moveKeys(partition, this.#items.keyRanks.takeMoves(partition, expiredMs)),
    ]);
  }

  /**
   * Takes away items of reservations that the page, as it is known, does not name, and that follow an earlier version: no page will ever name
   * them. A commit that is about to name one follows the page's version, or a later one, and so does its item.
   */
  async #deleteUnnamed(partition: number): Promise<void> {
    const known = this.#known.get(partition);
    if (known === undefined) return;
    const { page, items } = known;
    const unnamed = [...items.keys()].filter((itemId) => !page.named.has(itemId));
    await inParallel(unnamed, PARALLEL_MAX, async (itemId) => {
      await this.#items.hint(async () => {
        const outcome = await this.#table.delete(
          'tidy',
          reservationKey(partition, itemId),
          // planted: tidied-before-its-page
          '#version < :version',
          { ':version': page.version },
        );
        if (outcome.applied || outcome.old === undefined) items.delete(itemId);
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

  async askForLoan({ partition, request }: RequestOf<'askForLoan'>): Promise<void> {
    await this.#table.put('askForLoan', { item: encodeRequest(partition, request) });
  }
}
