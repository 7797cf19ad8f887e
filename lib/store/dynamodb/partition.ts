/** Loads a partition for a pass, and commits the pass's decisions. */

import { randomBytes, randomUUID } from 'node:crypto';
import { CONTROL_FIELDS, type Control, controlAt } from '../../core/capacity.ts';
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
import { decodeControl, encodeChanges, unreadableControl } from '../table/codec/control.ts';
import { encodeEstimate } from '../table/codec/estimate.ts';
import { decodeLeader, decodeLookout, encodeLookout } from '../table/codec/leader.ts';
import { encodeLedger } from '../table/codec/ledger.ts';
import { decodeLoan, decodeRequest, encodeLoan, encodeRequest } from '../table/codec/loan.ts';
import { decodeReservations, encodeReservations, reservationsMissing } from '../table/codec/reservation.ts';
import {
  commitOf,
  decodeSummary,
  encodeLedgerSnapshot,
  encodeSummary,
  matchesSnapshot,
  snapshotMissing,
} from '../table/codec/summary.ts';
import { decodeWorkerRecord, unreadableWorker } from '../table/codec/worker.ts';
import type { RankMove } from '../table/key-ranks.ts';
import {
  backlogKey,
  CONTROL_PREFIX,
  controlKey,
  estimateKey,
  LOAN_PREFIX,
  leaderKey,
  ledgerKey,
  loanKey,
  lookoutKey,
  partitionPk,
  REQUEST_PREFIX,
  RESERVATION_PREFIX,
  requestKey,
  reservationKey,
  summaryKey,
  WORKER_PREFIX,
} from '../table/schema.ts';
import {
  EMPTY_SUMMARY,
  isSingleWrite,
  nextSummary,
  type PartitionSummary,
  requireBounded,
  reservationsIn,
  type SummaryChange,
  withCapacity,
} from '../table/summary.ts';
import type { DynamoConnection, Put, TransactionPart } from './connection.ts';
import { PARALLEL_MAX, SUMMARY_PART } from './expressions.ts';
import { type TableItems, untilWhole } from './items.ts';
import { inParallel } from './parallel.ts';

/** The partition as this store has last read or written it. The next commit is computed from it, if it has the commit's version. */
interface KnownPartition {
  readonly summary: PartitionSummary;
  /** All items of reservations by name. Those that the summary does not name do not count. */
  readonly items: Map<string, readonly Reservation[]>;
}

/** @throws StaleCommitError if a commit with the present version changes a missing reservation, or makes one that exists */
function requireCurrent(partition: number, { summary, items }: KnownPartition, commit: Commit): void {
  const touched = [...commit.drop, ...commit.postpone].map(({ reservation }) => reservation);
  const batchIds = new Set([...commit.reserve, ...touched].map(({ batchId }) => batchId));
  const present = withCapacity(summary, items, batchIds);
  const made = commit.reserve.find(({ batchId }) => present.has(batchId));
  const changed = touched.find(({ batchId }) => !present.has(batchId));
  if (made !== undefined)
    throw new StaleCommitError(
      `the commit makes the reservation ${made.batchId}, which exists already; load partition ${partition} again`,
    );
  if (changed !== undefined)
    throw new StaleCommitError(
      `the commit changes the reservation ${changed.batchId}, which does not exist any more; load partition ${partition} again`,
    );
}

const COMMIT_ID_BYTES = 6;
const knownFrom = ({ summary, reservations }: PartitionItems): KnownPartition => ({
  summary,
  items: reservations,
});

const newCommitId = (): string => randomBytes(COMMIT_ID_BYTES).toString('base64url');

/** Puts a partition summary on condition that the stored one has the version before it. */
export function summaryAfter(partition: number, summary: PartitionSummary, commitId: string): Put {
  const version = summary.version - 1;
  return {
    item: encodeSummary(partition, summary, commitId),
    // planted: page-of-any-version
    ...(version === 0
      ? { condition: 'attribute_not_exists(#pk)' }
      : { condition: '#version = :version', values: { ':version': version } }),
  };
}

/** The decoded items of a partition. */
interface PartitionItems {
  leader: ReturnType<typeof decodeLeader> | undefined;
  summary: PartitionSummary;
  /**
   * The item of the summary, if it names another snapshot of ledgers than the one that was read with it; undefined:
   * they agree.
   */
  staleSummary: Item | undefined;
  /** The name of an item of reservations that the summary names and that was not found; undefined: all were found. */
  missingItem: string | undefined;
  lookout: Lookout | undefined;
  /** Items of reservations by name. */
  readonly reservations: Map<string, readonly Reservation[]>;
  readonly workers: WorkerRecord[];
  /** The controls as they are in force at the time of the read. */
  readonly controls: Control[];
  readonly loans: Loan[];
  readonly requests: LoanRequest[];
}

const noItems = (): PartitionItems => ({
  leader: undefined,
  summary: EMPTY_SUMMARY,
  staleSummary: undefined,
  missingItem: undefined,
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
  readonly #known = new Map<number, KnownPartition>();

  constructor(items: TableItems) {
    this.#items = items;
    this.#table = items.table;
  }

  async loadPartition({
    partition,
    nowMs,
    withoutLedgers,
  }: RequestOf<'loadPartition'>): Promise<PartitionState> {
    const { leader, summary, reservations, workers, controls, loans, requests, lookout } =
      withoutLedgers === true
        ? await this.#readItems(partition, nowMs, true)
        : await this.#readWhole(partition, nowMs);
    for (const ledger of summary.ledgers.values()) this.#items.keyRanks.sawLedger(partition, ledger);
    return {
      leader: leader?.leader,
      declared: leader?.declared,
      carried: summary.carried,
      version: summary.version,
      reservations: reservationsIn(summary, reservations),
      workers: workers.flatMap((worker) => workerAt(worker, nowMs) ?? []),
      expiredWorkers: workers.filter((worker) => workerAt(worker, nowMs) === undefined),
      lookout,
      controls: controls.filter((control) => !isIdle(control)),
      endedControls: controls.filter(isIdle),
      ledgers: withoutLedgers === true ? [] : [...summary.ledgers.values()],
      estimates: [...summary.estimates.values()],
      parks: summary.parks,
      observation: summary.observation,
      quiet: summary.quiet,
      unseenUntilMs: summary.unseenUntilMs,
      uses: summary.uses,
      counted: summary.counted,
      loans,
      requests,
    };
  }

  /** Reads the items of a partition until all are of one commit. A missing snapshot of ledgers is no error here. */
  async #readItems(partition: number, nowMs: number, isWithoutLedgers: boolean): Promise<PartitionItems> {
    const read = await untilWhole(async () => {
      const items = await this.#items.collection('loadPartition', partitionPk(partition));
      return this.#decode(partition, items, nowMs, isWithoutLedgers);
    });
    // A pass without these reservations would give their capacity away a second time, and no pass would check their jobs.
    // planted: named-and-gone
    if (read.missingItem !== undefined) throw reservationsMissing(partition, read.missingItem);
    return read;
  }

  async #readWhole(partition: number, nowMs: number): Promise<PartitionItems> {
    const before = this.#versionOf(partition);
    const read = await this.#readItems(partition, nowMs, false);
    if (read.staleSummary !== undefined)
      await this.#items.setAside(partition, read.staleSummary, snapshotMissing(read.staleSummary));
    // A later read or commit of this process may have finished before this one, and stays. But if the table is older than what was known
    // before the read, it was restored from a backup, and this read counts.
    const { version } = read.summary;
    if (this.#versionOf(partition) <= version || before > version)
      this.#known.set(partition, knownFrom(read));
    return read;
  }

  /**
   * Decodes the items of a partition by kind. Most that cannot be read are left out and noted; a worker or a control is replaced by a
   * substitute without capacity.
   */
  async #decode(
    partition: number,
    items: readonly Item[],
    nowMs: number,
    isWithoutLedgers: boolean,
  ): Promise<PartitionItems> {
    const found = noItems();
    let summaryItem: Item | undefined;
    const single = new Map<string, (item: Item) => Promise<void> | void>([
      [
        leaderKey(partition).sk,
        (item) => {
          found.leader = decodeLeader(item);
        },
      ],
      [
        summaryKey(partition).sk,
        (item) => {
          summaryItem = item;
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
          found.controls.push(...(await read).map((control) => controlAt(control, nowMs)));
        },
      ],
      [LOAN_PREFIX, (item) => void found.loans.push(decodeLoan(item))],
      [
        REQUEST_PREFIX,
        async (item) => {
          // A request for a loan that cannot be read is ignored; its partition will ask again.
          found.requests.push(...(await this.#items.readable(partition, [item], decodeRequest)));
        },
      ],
    ];
    for (const item of items) {
      const sk = String(item[ATTRIBUTE.sk]);
      const take = single.get(sk) ?? kinds.find(([prefix]) => sk.startsWith(prefix))?.[1];
      await take?.(item);
    }
    if (summaryItem === undefined) return found;
    const base = isWithoutLedgers
      ? undefined
      : await this.#items.baseOf('loadPartition', partition, summaryItem);
    const summary = decodeSummary(summaryItem, base);
    return {
      ...found,
      summary,
      staleSummary: isWithoutLedgers || matchesSnapshot(summaryItem, base) ? undefined : summaryItem,
      // The summary sorts before its reservations, so it was read first. If an item is missing, a later commit may have dropped it: read
      // again.
      // planted: named-but-missing
      missingItem: [...summary.named].find((itemId) => !found.reservations.has(itemId)),
    };
  }

  #versionOf(partition: number): number {
    return this.#known.get(partition)?.summary.version ?? 0;
  }

  /**
   * Returns the partition at that version, as known or as read now. After a restore from a backup, the table's version
   * may be lower than the known one.
   */
  async #knownAt(partition: number, version: number): Promise<KnownPartition> {
    const known = this.#known.get(partition);
    return known?.summary.version === version ? known : knownFrom(await this.#readWhole(partition, 0));
  }

  async commit({ partition, commit }: RequestOf<'commit'>): Promise<CommitOutcome> {
    requireBounded(commit);
    const known = await this.#knownAt(partition, commit.version);
    if (known.summary.version !== commit.version) return 'lost';
    // The partition is forgotten until the answer arrives, because a commit without an answer may have been applied or
    // not.
    this.#known.delete(partition);
    requireCurrent(partition, known, commit);
    const change = nextSummary(known.summary, commit, known.items, newCommitId());
    // planted: page-before-items
    if ((await this.#putReferenced(partition, known.summary.version, change)) === 'lost') return 'lost';
    const written = isSingleWrite(change, commit)
      ? await this.#putSummary(partition, change.summary)
      : await this.#writeInTransaction(partition, change, commit);
    if (written === 'lost') return 'lost';
    if (this.#versionOf(partition) < change.summary.version)
      this.#known.set(partition, {
        summary: change.summary,
        items: new Map([...known.items, ...change.ahead]),
      });
    if (change.base !== undefined) this.#items.knowBase(partition, change.base);
    for (const ledger of commit.ledgers) this.#items.keyRanks.sawLedger(partition, ledger);
    await this.#putEstimates(partition, change);
    return 'committed';
  }

  /** Records that this process has raised the version of a partition without another change. */
  raised(partition: number, version: number): void {
    const known = this.#known.get(partition);
    if (known?.summary.version === version)
      this.#known.set(partition, { ...known, summary: { ...known.summary, version: version + 1 } });
  }

  /**
   * Writes the estimates of single resources after a commit. They are hints: an estimate that is not written will be
   * learned again. A late process cannot overwrite an estimate of a later commit.
   */
  async #putEstimates(partition: number, { estimates, summary: { version } }: SummaryChange): Promise<void> {
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
   * Writes the items that the next summary refers to. An item of reservations has a unique name, so a late or repeated write changes
   * nothing. A ledger never overwrites one of a later version; if there is one, another commit came first.
   */
  async #putReferenced(
    partition: number,
    version: number,
    { ahead, spilled }: SummaryChange,
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
      // Commits that follow the same version move the same ledgers to items.
      return outcome.applied || outcome.old?.[ATTRIBUTE.version] === version;
    });
    return put.every((isPut) => isPut) ? 'put' : 'lost';
  }

  /** Writes the summary as a single item. */
  async #putSummary(partition: number, summary: PartitionSummary): Promise<CommitOutcome> {
    const commitId = newCommitId();
    const outcome = await this.#table.put('commit', summaryAfter(partition, summary, commitId));
    if (outcome.applied) return 'committed';
    if (outcome.old === undefined) return 'lost';
    const present = commitOf(outcome.old);
    // A repeated request finds the summary that it wrote itself, or later ones.
    if (present.commitId === commitId) return 'committed';
    if (outcome.isRepeated && present.version > summary.version)
      throw new UnavailableError(
        `commit: no answer, and other commits followed version ${summary.version} of partition ${partition}; load it again`,
      );
    return 'lost';
  }

  /** Writes the summary and, in the same transaction, a new snapshot of its ledgers, or loans. */
  async #writeInTransaction(
    partition: number,
    { summary, base }: SummaryChange,
    commit: Commit,
  ): Promise<CommitOutcome> {
    const table = this.#table;
    const outcome = await table.transact('commit', randomUUID(), [
      table.putPart(summaryAfter(partition, summary, newCommitId())),
      ...(base === undefined ? [] : [table.putPart({ item: encodeLedgerSnapshot(partition, base) })]),
      ...this.#lendingParts(partition, commit),
    ]);
    if (outcome.applied) return 'committed';
    if (outcome.refused.has(SUMMARY_PART)) return 'lost';
    throw new StaleCommitError(
      `the commit makes a loan that exists already, or changes one that has changed; load partition ${partition} again`,
    );
  }

  /** Returns the parts of a transaction that write loans. A loan has equal items in both partitions. */
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

  async tidy({ partition, expiredMs, ended = [] }: RequestOf<'tidy'>): Promise<void> {
    await Promise.all([
      inParallel(ended, PARALLEL_MAX, (control) =>
        this.#items.hint(() => this.#deleteControl(partition, control)),
      ),
      this.#deleteUnnamed(partition),
      this.#moveKeys(partition, this.#items.keyRanks.takeMoves(partition, expiredMs)),
    ]);
  }

  /** Deletes a control, unless it was changed since it was loaded, or its rest is not over. */
  async #deleteControl(partition: number, { scope, changes }: Control): Promise<void> {
    const conditions = CONTROL_FIELDS.map((field) =>
      encodeChanges(changes, field) === undefined
        ? `attribute_not_exists(#${field}Changes)`
        : `#${field}Changes = :${field}`,
    );
    const packed = CONTROL_FIELDS.map((field) => [`:${field}`, encodeChanges(changes, field)] as const);
    await this.#table.delete(
      'tidy',
      controlKey(partition, scope),
      [...conditions, '(attribute_not_exists(#restsUntilMs) OR #restsUntilMs <= :now)'].join(' AND '),
      {
        ...Object.fromEntries(packed.filter(([, changed]) => changed !== undefined)),
        ':now': this.#items.nowMs(),
      },
    );
  }

  /**
   * Deletes items of reservations that the known summary does not name and that are of an earlier version: no summary will ever name them.
   * The items of a commit in progress have the summary's present version, or a later one.
   */
  async #deleteUnnamed(partition: number): Promise<void> {
    const known = this.#known.get(partition);
    if (known === undefined) return;
    const { summary, items } = known;
    const unnamed = [...items.keys()].filter((itemId) => !summary.named.has(itemId));
    await inParallel(unnamed, PARALLEL_MAX, async (itemId) => {
      await this.#items.hint(async () => {
        const outcome = await this.#table.delete(
          'tidy',
          reservationKey(partition, itemId),
          // planted: tidied-before-its-page
          '#version < :version',
          { ':version': summary.version },
        );
        if (outcome.applied || outcome.old === undefined) items.delete(itemId);
      });
    });
  }

  /** Moves keys in the keys line. The moves are hints: a later pass repeats those that fail. */
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
    // A repeated request finds the record that it wrote itself.
    return outcome.applied || outcome.old?.[ATTRIBUTE.callId] === callId ? 'applied' : 'superseded';
  }

  async askForLoan({ partition, request }: RequestOf<'askForLoan'>): Promise<void> {
    await this.#table.put('askForLoan', { item: encodeRequest(partition, request) });
  }
}
