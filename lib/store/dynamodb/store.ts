/**
 * The store on one DynamoDB table.
 *
 * A request whose answer got lost is sent again by the SDK, and then meets its own success. So every condition that
 * fails looks at the item that stood in the way: if it is what this very request makes of it, the request was applied.
 */
import { randomUUID } from 'node:crypto';
import {
  type History,
  isTerminal,
  type Job,
  type JobError,
  type JobState,
  type Json,
} from '../../core/job.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import {
  type GivenUp,
  giveBack,
  givenUp,
  historyAfterEnd,
  isWaiting,
  readyAgain,
  retime,
} from '../../core/life-cycle.ts';
import { TRANSACTION_ITEMS_MAX } from '../bounds.ts';
import {
  type Applied,
  BLOCKED_HEADS,
  type CancelOutcome,
  type Carried,
  type ClaimOutcome,
  type ClaimRequest,
  CONTROL_FIELDS,
  type Commit,
  type Control,
  type ControlChange,
  type ControlOutcome,
  type CreateOutcome,
  type DeclarationRecord,
  type DeclareOutcome,
  type DispatcherIdentity,
  type DispatcherRecord,
  type EstimateRecord,
  type Fence,
  type FinishOutcome,
  type FinishRequest,
  type FinishVerdict,
  type Heads,
  isAsAsked,
  isIdle,
  type JobHead,
  type JobStore,
  type KeyBacklog,
  type LeaseOutcome,
  type LeaseRecord,
  type Ledger,
  type LinePage,
  type Lock,
  type Lookout,
  type ParkedMark,
  type PartitionState,
  type Rejection,
  type Reservation,
  type RetimeOutcome,
  rankCostOf,
  type StartOutcome,
  type StartRequest,
  type UnreadableItem,
  type WorkerIdentity,
  type WorkerRecord,
  workerAt,
} from '../contract.ts';
import { declarationHash, declarationParts } from '../declaration.ts';
import {
  CommitAmbiguous,
  CommitTooLarge,
  MalformedItemError,
  StaleCommit,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
} from '../errors.ts';
import { requireItemFits } from '../limits.ts';
import { asMarked, EMPTY_PAGE, lendingItems, type Page, type PageTurn, partsOf, turnPage } from '../page.ts';
import {
  type AnnouncedLine,
  backlogKey,
  behindGroup,
  blockedGroup,
  blockedLineName,
  blockedRank,
  CONTROL_PREFIX,
  controlKey,
  DISPATCHERS_PK,
  deadLineName,
  declarationKey,
  declarationTextKey,
  dueKey,
  dueLineName,
  estimateKey,
  type ItemKey,
  instantRank,
  jobKey,
  keysLineName,
  LOAN_PREFIX,
  latestFirstRank,
  leaseKey,
  ledgerKey,
  loanKey,
  lockKey,
  lookoutKey,
  newestDeclarationKey,
  nextInTurn,
  pageKey,
  parkedKey,
  parkedPk,
  partitionPk,
  REQUEST_PREFIX,
  RESERVATION_PREFIX,
  type ReadyLine,
  readyLineName,
  rejectionKey,
  requestKey,
  reservationKey,
  TABLE,
  unreadablePk,
  WORKER_PREFIX,
  wakeKey,
  workerKey,
} from '../schema.ts';
import {
  ATTRIBUTE,
  decodeBacklog,
  decodeControl,
  decodeDeclaration,
  decodeDeclarationText,
  decodeDispatcher,
  decodeDueShards,
  decodeEstimate,
  decodeJob,
  decodeJobHead,
  decodeLease,
  decodeLedger,
  decodeLoan,
  decodeLock,
  decodeLookout,
  decodePage,
  decodeParkedMark,
  decodeRejection,
  decodeRequest,
  decodeReservation,
  decodeUnreadable,
  decodeWakes,
  decodeWorkerRecord,
  encodeBacklogLine,
  encodeCarried,
  encodeClaim,
  encodeDeclaration,
  encodeDeclarationText,
  encodeDispatcher,
  encodeError,
  encodeEstimate,
  encodeHistory,
  encodeJob,
  encodeJson,
  encodeLedger,
  encodeLoan,
  encodeLookout,
  encodeOccupants,
  encodePage,
  encodeParkedMark,
  encodePartition,
  encodeRejection,
  encodeRequest,
  encodeReservation,
  encodeUnreadable,
  encodeWorker,
  encodeWorkerRecord,
  type Item,
  isJobItem,
  isReadable,
  namesOf,
  type Standing,
  ttlSec,
  unreadableControl,
  unreadableWorker,
  workerTtlSec,
} from './codec.ts';
import {
  type ConnectionOptions,
  DynamoConnection,
  STATEMENTS_MAX,
  type TransactionPart,
  type Update,
} from './connection.ts';
import { KeyRanks, type RankMove } from './key-ranks.ts';
import { chunksOf, inParallel } from './parallel.ts';

/**
 * Where a job waits once it is ready: its place in its line, and which part of it, where lines are split. Ranks are
 * compared as text.
 */
export type Place = (job: JobHead) => {
  readonly rank: string;
  readonly sub?: number | undefined;
};

export interface DynamoJobStoreOptions extends ConnectionOptions {
  readonly place: Place;
  /** Epoch milliseconds: an item that has expired is gone, whether or not it has been collected. */
  readonly nowMs?: (() => number) | undefined;
  /** Hears once of each item that cannot be read. */
  readonly unreadable?: ((item: UnreadableItem) => void) | undefined;
}

/** Writes on their way at once; the SDK's client opens 50 connections at most. */
const PARALLEL_MAX = 32;

/** Jobs of a blocked line read at once: they fill about what one unit reads. */
const BLOCKED_READ = 12;

/** Items that cannot be read: those that are listed, and those that a process remembers. */
const UNREADABLE_MAX = 1_000;

/** Under which items are noted that belong to no partition. */
const NO_PARTITION = 0;

/** Of a job that may not be readable as a whole. */
const partitionIn = (item: Item): number => {
  const partition = item[ATTRIBUTE.partition];
  return typeof partition === 'number' ? partition : NO_PARTITION;
};

/** Pages of one query; a page holds up to 1 MB. */
const PAGES_MAX = 1_000;

/** What a store has last read and written of a partition: what its next commit follows. */
interface Known {
  readonly epoch: number;
  readonly page: Page;
  /** The reservations as their items are. */
  readonly batches: Map<string, Reservation>;
}

export class DynamoJobStore implements JobStore {
  readonly #table: DynamoConnection;
  readonly #place: Place;
  readonly #keyRanks = new KeyRanks();
  readonly #nowMs: () => number;
  readonly #known = new Map<number, Known>();
  readonly #tellUnreadable: ((item: UnreadableItem) => void) | undefined;
  /** Keys of items that cannot be read, as far as they were told of. */
  readonly #toldUnreadable = new Set<string>();
  /** By partition: the shards of its due line that are known to be noted. */
  readonly #dueShards = new Map<number, number>();

  constructor(options: DynamoJobStoreOptions) {
    this.#table = new DynamoConnection(options);
    this.#place = options.place;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#tellUnreadable = options.unreadable;
  }

  // Submitting

  async createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]> {
    // Of one id in the list twice, the first is put before the second is tried.
    const seen = new Set<string>();
    const later: number[] = [];
    const first: number[] = [];
    for (const [index, { id }] of jobs.entries()) {
      (seen.has(id) ? later : first).push(index);
      seen.add(id);
    }
    const outcomes = new Map<number, CreateOutcome>();
    for (const indexes of [first, later]) {
      await inParallel(indexes, PARALLEL_MAX, async (index) => {
        const job = jobs[index];
        if (job !== undefined) outcomes.set(index, await this.#createJob(job));
      });
    }
    return jobs.flatMap((_, index) => outcomes.get(index) ?? []);
  }

  async announceLines(
    partition: number,
    lines: readonly AnnouncedLine[],
    nowMs: number,
    keyTtlMs: number | null = null,
  ): Promise<void> {
    const byKey = Map.groupBy(lines, (line) => JSON.stringify([line.type, line.fairnessKey]));
    await inParallel([...byKey.values()], PARALLEL_MAX, async (group) => {
      const [first] = group;
      if (first === undefined) return;
      const key = backlogKey(partition, first.type, first.fairnessKey);
      const values = { ':lines': new Set(group.map(encodeBacklogLine)), ':now': nowMs };
      const known = await this.#table.update('announceLines', {
        key,
        update: 'SET #announcedAtMs = :now ADD #lines :lines',
        condition: `attribute_exists(#line)${keyTtlMs === null ? '' : ' AND #announcedAtMs > :awaySince'}`,
        values: keyTtlMs === null ? values : { ...values, ':awaySince': nowMs - keyTtlMs },
      });
      if (known.applied) return;
      const { fairnessKey } = first;
      const wasAway = known.old?.[ATTRIBUTE.line] !== undefined;
      const [ledger] = wasAway ? [] : await this.getLedgers(partition, [fairnessKey]);
      const settledCostMs = rankCostOf(ledger, nowMs, keyTtlMs);
      await this.#table.update('announceLines', {
        key,
        update: `SET #announcedAtMs = :now, #fairnessKey = :fairnessKey, #line = :line,
          #rank = ${wasAway ? ':rank' : 'if_not_exists(#rank, :rank)'} ADD #lines :lines`,
        values: {
          ...values,
          ':fairnessKey': fairnessKey,
          ':line': keysLineName(partition, first.type),
          ':rank': this.#keyRanks.rankOf({ fairnessKey, settledCostMs }),
        },
      });
    });
  }

  async recordRejections(rejections: readonly Rejection[]): Promise<void> {
    await inParallel(rejections, PARALLEL_MAX, async (rejection) => {
      await this.#table.put('recordRejections', {
        item: encodeRejection(rejection),
        condition: 'attribute_not_exists(#pk)',
      });
    });
  }

  // Reading

  async getJobs(
    ids: readonly string[],
    unreadable?: (id: string) => void,
  ): Promise<readonly (Job | undefined)[]> {
    const items = await this.#getAll('getJobs', ids.map(jobKey), (item) =>
      this.#isGone(item) ? undefined : item,
    );
    if (unreadable === undefined) return items.map((item) => item && decodeJob(item));
    const jobs: (Job | undefined)[] = [];
    for (const [at, item] of items.entries()) {
      const [job] = item === undefined ? [] : await this.#readable(partitionIn(item), [item], decodeJob);
      jobs.push(job);
      if (item !== undefined && job === undefined) unreadable(ids[at] ?? '');
    }
    return jobs;
  }

  async listRejections(sourceId: string): Promise<readonly Rejection[]> {
    const items = await this.#collection('listRejections', rejectionKey(sourceId, 0).pk);
    return items.filter((item) => !this.#isGone(item)).map(decodeRejection);
  }

  // The declaration

  async readDeclaredVersion(): Promise<number> {
    const newest = await this.#table.get('readDeclaredVersion', newestDeclarationKey);
    return newest === undefined ? 0 : decodeDeclaration(newest).version;
  }

  async readDeclaration(version?: number): Promise<DeclarationRecord | undefined> {
    const key = version === undefined ? newestDeclarationKey : declarationKey(version);
    const item = await this.#table.get('readDeclaration', key);
    if (item === undefined) return undefined;
    const { hash, parts, ...declared } = decodeDeclaration(item);
    const keys = Array.from({ length: parts }, (_, at) => declarationTextKey(hash, at));
    const texts = await this.#getAll('readDeclaration', keys, decodeDeclarationText);
    const missing = texts.indexOf(undefined);
    if (missing !== -1) {
      const { pk, sk } = declarationTextKey(hash, missing);
      throw new MalformedItemError(`${pk} ${sk}`, ATTRIBUTE.text, 'is missing', 'deploy the stack again');
    }
    return { ...declared, hash, text: texts.join('') };
  }

  async putDeclaration(text: string, after: number, nowMs: number): Promise<DeclareOutcome> {
    const hash = declarationHash(text);
    const parts = declarationParts(text);
    await inParallel([...parts.entries()], PARALLEL_MAX, async ([at, part]) => {
      await this.#table.put('putDeclaration', { item: encodeDeclarationText(hash, at, part) });
    });
    const declared = { version: after + 1, hash, parts: parts.length, declaredAtMs: nowMs };
    const outcome = await this.#table.transact('putDeclaration', randomUUID(), [
      this.#table.putPart({
        item: encodeDeclaration(newestDeclarationKey, declared),
        ...(after === 0
          ? { condition: 'attribute_not_exists(#pk)' }
          : { condition: '#version = :after', values: { ':after': after } }),
      }),
      this.#table.putPart({ item: encodeDeclaration(declarationKey(declared.version), declared) }),
    ]);
    if (outcome.applied) return { kind: 'declared', version: declared.version };
    const item = await this.#table.get('putDeclaration', newestDeclarationKey);
    const newest = item === undefined ? undefined : decodeDeclaration(item);
    // Its own success, whose answer got lost, reads as a refusal.
    const isOwn =
      newest?.version === declared.version && newest.hash === hash && newest.declaredAtMs === nowMs;
    if (isOwn) return { kind: 'declared', version: declared.version };
    return { kind: 'outdated', version: newest?.version ?? 0 };
  }

  async announceDeclaration(partition: number, version: number): Promise<void> {
    await this.#table.update('announceDeclaration', {
      key: leaseKey(partition),
      // Where nobody has held the lease yet, it is free.
      update:
        'SET #declared = :version, #epoch = if_not_exists(#epoch, :zero), #expiresAtMs = if_not_exists(#expiresAtMs, :zero)',
      condition: 'attribute_not_exists(#declared) OR #declared < :version',
      values: { ':version': version, ':zero': 0 },
    });
  }

  // The partition's lease and wake counter

  async acquireLease(
    partition: number,
    holder: string,
    nowMs: number,
    leaseMs: number,
  ): Promise<LeaseOutcome> {
    const callId = randomUUID();
    const outcome = await this.#table.update('acquireLease', {
      key: leaseKey(partition),
      update: `SET #epoch = if_not_exists(#epoch, :zero) + :one, #holder = :holder, #expiresAtMs = :expires,
        #callId = :callId, #takenAtMs = :now REMOVE #lastHolder`,
      condition: 'attribute_not_exists(#pk) OR #expiresAtMs <= :now',
      values: {
        ':zero': 0,
        ':one': 1,
        ':holder': holder,
        ':expires': nowMs + leaseMs,
        ':callId': callId,
        ':now': nowMs,
      },
    });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined) {
      throw new StoreUnavailable(`acquireLease: the lease of partition ${partition} went away; try again`);
    }
    const lease = decodeLease(item);
    const { epoch, expiresAtMs, wakesSeen } = lease;
    if (lease.callId !== callId) return { kind: 'held', epoch, expiresAtMs, holder: lease.holder ?? '' };
    return { kind: 'acquired', epoch, expiresAtMs, ...(wakesSeen === undefined ? {} : { wakesSeen }) };
  }

  async renewLease(fence: Fence, nowMs: number, leaseMs: number): Promise<'renewed' | 'lost'> {
    const outcome = await this.#table.update('renewLease', {
      key: leaseKey(fence.partition),
      update: 'SET #expiresAtMs = :expires',
      // A renewal that arrives after the release must not take the lease away from everybody.
      condition: '#epoch = :epoch AND attribute_exists(#holder)',
      values: { ':expires': nowMs + leaseMs, ':epoch': fence.epoch },
    });
    return outcome.applied ? 'renewed' : 'lost';
  }

  async releaseLease(fence: Fence, wakesSeen?: number): Promise<'released' | 'lost'> {
    const noted = wakesSeen === undefined ? '' : ', #wakesSeen = :wakesSeen';
    const outcome = await this.#table.update('releaseLease', {
      key: leaseKey(fence.partition),
      update: `SET #expiresAtMs = :past${noted}, #lastHolder = #holder REMOVE #holder, #callId`,
      condition: '#epoch = :epoch AND attribute_exists(#holder)',
      values: {
        ':past': 0,
        ':epoch': fence.epoch,
        ...(wakesSeen === undefined ? {} : { ':wakesSeen': wakesSeen }),
      },
    });
    if (outcome.applied) return 'released';
    // A release that comes twice finds no holder any more.
    const isReleased = outcome.old !== undefined && decodeLease(outcome.old).epoch === fence.epoch;
    return isReleased ? 'released' : 'lost';
  }

  async readLease(partition: number): Promise<LeaseRecord | undefined> {
    const item = await this.#table.get('readLease', leaseKey(partition));
    if (item === undefined) return undefined;
    const { epoch, holder, lastHolder, takenAtMs, expiresAtMs } = decodeLease(item);
    const known = holder ?? lastHolder;
    return {
      epoch,
      ...(known === undefined ? {} : { holder: known }),
      isHeld: holder !== undefined,
      ...(takenAtMs === undefined ? {} : { takenAtMs }),
      expiresAtMs,
    };
  }

  async wake(partition: number): Promise<void> {
    await this.#table.update('wake', {
      key: wakeKey(partition),
      update: 'ADD #wakes :one',
      values: { ':one': 1 },
    });
  }

  async readWakes(partition: number): Promise<number> {
    const item = await this.#table.get('readWakes', wakeKey(partition));
    return item === undefined ? 0 : decodeWakes(item);
  }

  // The pass

  async loadPartition(partition: number, nowMs: number): Promise<PartitionState> {
    let lease: ReturnType<typeof decodeLease> | undefined;
    let page = EMPTY_PAGE;
    const reservations: Reservation[] = [];
    const workers: WorkerRecord[] = [];
    const controls: Control[] = [];
    const loans: Loan[] = [];
    const requests: LoanRequest[] = [];
    const leaseSk = leaseKey(partition).sk;
    const pageSk = pageKey(partition).sk;
    const dueSk = dueKey(partition).sk;
    const lookoutSk = lookoutKey(partition).sk;
    let dueShards = 1;
    let lookout: Lookout | undefined;
    for (const item of await this.#collection('loadPartition', partitionPk(partition))) {
      const sk = String(item[ATTRIBUTE.sk]);
      if (sk === leaseSk) lease = decodeLease(item);
      else if (sk === pageSk) page = decodePage(item);
      else if (sk === lookoutSk) [lookout] = await this.#readable(partition, [item], decodeLookout);
      else if (sk === dueSk) dueShards = Math.max(1, decodeDueShards(item));
      else if (sk.startsWith(RESERVATION_PREFIX)) reservations.push(decodeReservation(item));
      else if (sk.startsWith(WORKER_PREFIX)) {
        workers.push(
          ...(await this.#readable(partition, [item], decodeWorkerRecord, (cause) =>
            unreadableWorker(partition, item, nowMs, cause),
          )),
        );
      } else if (sk.startsWith(CONTROL_PREFIX)) {
        const read = await this.#readable(partition, [item], decodeControl, () => unreadableControl(item));
        controls.push(...read.filter((control) => !isIdle(control)));
      } else if (sk.startsWith(LOAN_PREFIX)) loans.push(decodeLoan(item));
      // One that nobody can read asks for nothing, until its partition asks again.
      else if (sk.startsWith(REQUEST_PREFIX))
        requests.push(...(await this.#readable(partition, [item], decodeRequest)));
    }
    // Who only looks may have read it before somebody else's commit.
    if ((this.#known.get(partition)?.page.turn ?? 0) <= page.turn) {
      const batches = new Map(reservations.map((each) => [each.batchId, each]));
      this.#known.set(partition, { epoch: lease?.epoch ?? 0, page, batches });
    }
    for (const ledger of page.ledgers.values()) this.#keyRanks.sawLedger(partition, ledger);
    return {
      epoch: lease?.epoch ?? 0,
      declared: lease?.declared,
      carried: lease?.carried,
      turn: page.turn,
      reservations: reservations.flatMap((each) => asMarked(each, page) ?? []),
      workers: workers.flatMap((worker) => workerAt(worker, nowMs) ?? []),
      gone: workers.filter((worker) => workerAt(worker, nowMs) === undefined),
      lookout,
      controls,
      ledgers: [...page.ledgers.values()],
      estimates: [...page.estimates.values()],
      parks: page.parks,
      dueShards,
      attendance: page.attendance,
      liftedAtMs: page.liftedAtMs,
      isLifted: page.isLifted,
      loans,
      requests,
    };
  }

  async keepLookout(partition: number, seen: Lookout | undefined, next: Lookout): Promise<Applied> {
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

  async readKeys(
    partition: number,
    type: string,
    limit: number,
    after?: string,
  ): Promise<{ readonly keys: readonly KeyBacklog[]; readonly next?: string | undefined }> {
    const { items, next } = await this.#heads('readKeys', keysLineName(partition, type), limit, after);
    const keys = await this.#readable(partition, items, (item) => {
      const backlog = decodeBacklog(item);
      // Of a line that was read to its end, every key is known: where it stands does not matter.
      if (next !== undefined) {
        this.#keyRanks.sawKey(partition, type, backlog, String(item[ATTRIBUTE.rank]));
      }
      return backlog;
    });
    return { keys, next };
  }

  async readBacklogs(
    partition: number,
    type: string,
    fairnessKeys: readonly string[],
  ): Promise<readonly (KeyBacklog | undefined)[]> {
    if (fairnessKeys.length === 0) return [];
    const keys = fairnessKeys.map((key) => backlogKey(partition, type, key));
    // What is left of one whose last line was retired stands in no line.
    return this.#readableEach(
      partition,
      await this.#getAll('readBacklogs', keys, (item) =>
        item[ATTRIBUTE.line] === undefined ? undefined : item,
      ),
      decodeBacklog,
    );
  }

  async getLedgers(
    partition: number,
    fairnessKeys: readonly string[],
  ): Promise<readonly (Ledger | undefined)[]> {
    if (fairnessKeys.length === 0) return [];
    const { page, found } = await this.#getBeside(
      'getLedgers',
      partition,
      fairnessKeys.map((key) => ledgerKey(partition, key)),
      decodeLedger,
    );
    const ledgers = fairnessKeys.map((key, at) => page.ledgers.get(key) ?? found[at]);
    for (const ledger of ledgers) if (ledger !== undefined) this.#keyRanks.sawLedger(partition, ledger);
    return ledgers;
  }

  async getEstimates(
    partition: number,
    ids: readonly { readonly type: string; readonly resourceId: string }[],
  ): Promise<readonly (EstimateRecord | undefined)[]> {
    if (ids.length === 0) return [];
    const keys = ids.map(({ type, resourceId }) => estimateKey(partition, type, resourceId));
    // Those of resources never stand in the page.
    if (ids.every(({ resourceId }) => resourceId !== '')) {
      const items = await this.#getAll('getEstimates', keys, (item) => item);
      return this.#readableEach(partition, items, decodeEstimate);
    }
    const { page, found } = await this.#getBeside('getEstimates', partition, keys, decodeEstimate);
    return ids.map(
      ({ type, resourceId }, at) => (resourceId === '' ? page.estimates.get(type) : undefined) ?? found[at],
    );
  }

  /** Items, and the page that some of what they hold may have moved to: read together, so nothing falls between. */
  async #getBeside<T>(
    verb: string,
    partition: number,
    keys: readonly ItemKey[],
    decode: (item: Item) => T,
  ): Promise<{ readonly page: Page; readonly found: readonly (T | undefined)[] }> {
    const [page, ...items] = await this.#getAll(verb, [pageKey(partition), ...keys], (item) => item);
    return {
      page: page === undefined ? EMPTY_PAGE : decodePage(page),
      // A charge or a cost that cannot be read is one that was never known: the next that is written takes its place.
      found: await this.#readableEach(partition, items, decode),
    };
  }

  async readLine(partition: number, line: ReadyLine, limit: number, after?: string): Promise<Heads> {
    const { items, next } = await this.#heads('readLine', readyLineName(partition, line), limit, after);
    return { jobs: await this.#readable(partition, items, decodeJobHead), next };
  }

  async readDue(
    partition: number,
    nowMs: number,
    limit: number,
    after?: string,
    shard = 0,
    fromMs?: number,
  ): Promise<Heads> {
    // The table refuses a range that ends before it begins.
    if (fromMs !== undefined && fromMs > nowMs) return { jobs: [] };
    const { items, next } = await this.#heads('readDue', dueLineName(partition, shard), limit, after, {
      // The least rank of the next millisecond: whatever is due stands before it.
      below: instantRank(Math.floor(nowMs) + 1, ''),
      from: fromMs === undefined ? undefined : instantRank(fromMs, ''),
    });
    return { jobs: await this.#readable(partition, items, decodeJobHead), next };
  }

  async promote(jobs: readonly JobHead[], nowMs: number): Promise<readonly (Job | undefined)[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job) => {
      const outcome = await this.#table.update('promote', {
        key: jobKey(job.id),
        update: 'SET #state = :pending, #version = :next, #line = :line, #rank = :rank',
        condition: '#state = :scheduled AND #version = :version AND #runAtMs <= :now',
        values: {
          ...stateValues('pending', 'scheduled'),
          ':now': nowMs,
          ...versionValues(job.version),
          ...standingValues(this.#readyStanding(job)),
        },
      });
      if (!outcome.applied) return undefined;
      const [promoted] = await this.#readable(job.partition, [outcome.item], decodeJob);
      return promoted;
    });
  }

  async rehome(
    jobs: readonly JobHead[],
    partition: number,
    nowMs: number,
  ): Promise<readonly (Job | undefined)[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job) => {
      const outcome = await this.#table.update('rehome', {
        key: jobKey(job.id),
        update:
          'SET #state = :pending, #version = :next, #partition = :partition, #line = :line, #rank = :rank',
        condition:
          '#version = :version AND (#state = :pending OR (#state = :scheduled AND #runAtMs <= :now))',
        values: {
          ...stateValues('pending', 'scheduled'),
          ':now': nowMs,
          ':partition': partition,
          ...versionValues(job.version),
          ...standingValues(this.#readyStanding({ ...job, partition })),
        },
      });
      if (!outcome.applied) return undefined;
      const [moved] = await this.#readable(partition, [outcome.item], decodeJob);
      return moved;
    });
  }

  async commit(fence: Fence, commit: Commit): Promise<'committed' | 'lost'> {
    const { partition } = fence;
    requireBounded(commit);
    const turnKnown = this.#known.get(partition)?.page.turn;
    if (turnKnown === undefined || (commit.turn !== undefined && commit.turn !== turnKnown)) {
      await this.loadPartition(partition, 0);
    }
    const known = this.#known.get(partition) ?? { epoch: 0, page: EMPTY_PAGE, batches: new Map() };
    // Not known again before the answer: a commit without one may have happened or not.
    this.#known.delete(partition);
    if (known.epoch > fence.epoch) return 'lost';
    requireCurrent(fence, known, commit);
    const turn = turnPage(known.page, commit, known.batches);
    if (partsOf(turn, commit) > TRANSACTION_ITEMS_MAX) throw new CommitTooLarge(partsOf(turn, commit));
    const parts = this.#partsOf(fence, known.page, turn, commit);
    const outcome = await this.#table.transact('commit', randomUUID(), parts);
    if (!outcome.applied) {
      if (outcome.refused.has(LEASE_PART)) return 'lost';
      throw new StaleCommit(
        `the commit under epoch ${fence.epoch} follows a page, or makes reservations, that are not what it knows: parts ${[...outcome.refused].join(', ')}; load partition ${partition} again`,
      );
    }
    for (const reservation of commit.reserve) known.batches.set(reservation.batchId, reservation);
    for (const reservation of turn.absorbed) {
      if (reservation.jobs.size > 0) known.batches.set(reservation.batchId, reservation);
      else known.batches.delete(reservation.batchId);
    }
    if ((this.#known.get(partition)?.page.turn ?? 0) < turn.page.turn) {
      this.#known.set(partition, { ...known, page: turn.page });
    }
    for (const ledger of commit.ledgers) this.#keyRanks.sawLedger(partition, ledger);
    return 'committed';
  }

  async tidy(partition: number): Promise<void> {
    await Promise.all([
      this.#deleteSettled(partition),
      this.#moveKeys(partition, this.#keyRanks.takeMoves(partition)),
    ]);
  }

  async readBlocked(partition: number, conflictKey: string, groups: number, after?: string): Promise<Heads> {
    const line = blockedLineName(partition, conflictKey);
    const jobs: JobHead[] = [];
    let from = after;
    let found = 0;
    // One read shows some groups whole; where it ends inside one, the next read begins behind that group.
    for (;;) {
      const { items, next } = await this.#heads('readBlocked', line, BLOCKED_READ, undefined, {
        above: from,
      });
      const read = await this.#readable(partition, items, decodeJobHead);
      const byGroup = Map.groupBy(read, (job) => blockedGroup(job));
      for (const [group, heads] of byGroup) {
        if (found === groups) return { jobs, next: from };
        jobs.push(...heads.slice(0, BLOCKED_HEADS));
        found += 1;
        from = behindGroup(group);
      }
      // What cannot be read says of no group where it ends.
      if (next === undefined || byGroup.size === 0) return { jobs };
    }
  }

  async markParked(partition: number, conflictKeys: readonly string[], nowMs: number): Promise<void> {
    await inParallel(conflictKeys, PARALLEL_MAX, async (conflictKey) => {
      // One that is as new, or newer, is left alone: it was renewed since.
      await this.#table.put('markParked', {
        item: encodeParkedMark(partition, { conflictKey, parkedAtMs: nowMs }),
        condition: 'attribute_not_exists(#pk) OR #parkedAtMs < :now',
        values: { ':now': nowMs },
      });
    });
  }

  async readParked(partition: number, conflictKeys: readonly string[]): Promise<readonly ParkedMark[]> {
    const keys = [...new Set(conflictKeys)].map((conflictKey) => parkedKey(partition, conflictKey));
    const found = await this.#getAll('readParked', keys, decodeParkedMark);
    return found.filter((mark) => mark !== undefined);
  }

  async listParked(
    partition: number,
    limit: number,
    after?: string,
  ): Promise<{ readonly marks: readonly ParkedMark[]; readonly next?: string | undefined }> {
    const pk = parkedPk(partition);
    const { items, last } = await this.#upTo(limit, 'listParked', {
      condition: '#pk = :pk',
      values: { ':pk': pk },
      after: after === undefined ? undefined : { [ATTRIBUTE.pk]: pk, [ATTRIBUTE.sk]: after },
    });
    const next = last === undefined ? {} : { next: String(last[ATTRIBUTE.sk]) };
    return { marks: items.map(decodeParkedMark), ...next };
  }

  async unmarkParked(partition: number, { conflictKey, parkedAtMs }: ParkedMark): Promise<Applied> {
    const outcome = await this.#table.delete(
      'unmarkParked',
      parkedKey(partition, conflictKey),
      'attribute_not_exists(#pk) OR #parkedAtMs = :parkedAtMs',
      { ':parkedAtMs': parkedAtMs },
    );
    return outcome.applied ? 'applied' : 'superseded';
  }

  async unpark(jobs: readonly JobHead[], conflictKey: string): Promise<readonly Applied[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job): Promise<Applied> => {
      const outcome = await this.#table.update('unpark', {
        key: jobKey(job.id),
        update: 'SET #line = :line, #rank = :rank',
        condition: '#state = :pending AND #version = :version AND #line = :blocked',
        values: {
          ...stateValues('pending'),
          ':version': job.version,
          ':blocked': blockedLineName(job.partition, conflictKey),
          ...standingValues(this.#readyStanding(job)),
        },
      });
      return outcome.applied ? 'applied' : 'superseded';
    });
  }

  async park(
    fence: Fence,
    jobs: readonly JobHead[],
    conflictKey: string,
  ): Promise<readonly Applied[] | 'lost'> {
    const outcomes = new Map<string, Applied>();
    for (const chunk of chunksOf(jobs, TRANSACTION_ITEMS_MAX - 1)) {
      let left = chunk;
      // One that has moved on refuses the transaction: the others are tried again without it.
      for (let tries = 1; left.length > 0 && tries <= PARK_TRIES_MAX; tries += 1) {
        const outcome = await this.#table.transact('park', randomUUID(), [
          this.#table.checkPart(leaseKey(fence.partition), '#epoch = :epoch', { ':epoch': fence.epoch }),
          ...left.map((job) => this.#parkPart(job, conflictKey)),
        ]);
        if (outcome.applied) {
          for (const { id } of left) outcomes.set(id, 'applied');
          break;
        }
        if (outcome.refused.has(LEASE_PART)) return 'lost';
        left = left.filter((_, at) => !outcome.refused.has(at + 1));
      }
    }
    return jobs.map(({ id }) => outcomes.get(id) ?? 'superseded');
  }

  #parkPart(job: JobHead, conflictKey: string): TransactionPart {
    const { rank } = this.#place(job);
    return this.#table.updatePart({
      key: jobKey(job.id),
      update: 'SET #line = :line, #rank = :rank',
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('pending'),
        ':version': job.version,
        ':line': blockedLineName(job.partition, conflictKey),
        ':rank': blockedRank(job, rank),
      },
    });
  }

  async claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]> {
    const outcomes = await this.#claimTogether(requests);
    return inParallel(requests, PARALLEL_MAX, async (request): Promise<ClaimOutcome> => {
      const outcome = outcomes.get(request);
      if (outcome !== undefined) return outcome;
      try {
        return await this.#claimJob(request);
      } catch (error) {
        // The reservation goes on counting, so not knowing is safe.
        if (error instanceof StoreUnavailable || error instanceof StoreThrottled) return 'unknown';
        throw error;
      }
    });
  }

  async readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]> {
    const items = await this.#getAll('readLocks', conflictKeys.map(lockKey), (item) => item);
    // One that cannot be read is held, by nobody that is known: a claim would be refused.
    return this.#readableEach(NO_PARTITION, items, decodeLock, (_, at) => ({
      conflictKey: conflictKeys[at] ?? '',
      holder: { partition: NO_PARTITION, claimId: '', jobId: '' },
      waiting: [],
    }));
  }

  async awaitLock(conflictKey: string, partition: number, nowMs: number): Promise<'waiting' | 'open'> {
    const outcome = await this.#table.update('awaitLock', {
      key: lockKey(conflictKey),
      update: 'ADD #waiting :waiting',
      condition: 'attribute_exists(#claimId) OR (#turnOf <> :partition AND #untilMs > :now)',
      values: {
        ':waiting': new Set([encodePartition(partition)]),
        ':partition': partition,
        ':now': nowMs,
      },
    });
    return outcome.applied ? 'waiting' : 'open';
  }

  async releaseLock(
    conflictKey: string,
    partition: number,
    claimId: string,
    untilMs: number,
  ): Promise<{ readonly next?: number | undefined }> {
    const key = lockKey(conflictKey);
    const isHeld = '#claimId = :claimId AND #partition = :partition';
    const values = { ':claimId': claimId, ':partition': partition };
    // A partition that begins to wait in between turns a lock that nobody waits for into another.
    for (let tries = 1; tries <= RELEASE_TRIES_MAX; tries += 1) {
      const gone = await this.#table.delete(
        'releaseLock',
        key,
        `${isHeld} AND attribute_not_exists(#waiting)`,
        values,
      );
      if (gone.applied || gone.old === undefined) return {};
      const [lock] = await this.#readable(partition, [gone.old], decodeLock);
      if (lock === undefined) return {};
      const next = nextInTurn(lock.waiting, partition);
      // Somebody else's by now, or given back before: whose turn it is then was woken.
      if (lock.holder?.claimId !== claimId || lock.holder.partition !== partition || next === undefined)
        return lock.turn === undefined ? {} : { next: lock.turn.partition };
      const passed = await this.#table.update('releaseLock', {
        key,
        update: `SET #turnOf = :next, #untilMs = :until, #ttl = :ttl
          REMOVE #claimId, #partition, #jobId DELETE #waiting :waiting`,
        condition: `${isHeld} AND contains(#waiting, :name)`,
        values: {
          ...values,
          ':next': next,
          ':until': untilMs,
          ':ttl': ttlSec(untilMs + TURN_KEPT_MS),
          ':waiting': new Set([encodePartition(next)]),
          ':name': encodePartition(next),
        },
      });
      if (passed.applied) return { next };
    }
    throw new StoreThrottled(
      `releaseLock: the lock of ${conflictKey} changed at each of ${RELEASE_TRIES_MAX} tries; try again`,
    );
  }

  async raiseVersion(
    jobId: string,
    version: number,
    given?: GivenUp & { readonly job: Job },
  ): Promise<'raised' | 'lost'> {
    const callId = randomUUID();
    // Of another version, nobody knows what its history is by now.
    const { history } = given?.job.version === version ? givenUp(given.job, given) : {};
    const noted = notedHistory(history);
    const outcome = await this.#table.update('raiseVersion', {
      key: jobKey(jobId),
      update: `SET #version = :next, #callId = :callId${noted.set}`,
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('pending'),
        ...versionValues(version),
        ':callId': callId,
        ...noted.values,
      },
    });
    if (!outcome.applied) return outcome.old?.[ATTRIBUTE.callId] === callId ? 'raised' : 'lost';
    return 'raised';
  }

  async giveBack(job: Job, claimId: string, nowMs: number): Promise<Applied> {
    const given = giveBack(job, claimId, nowMs);
    if (given.kind !== 'moved') return 'superseded';
    // Nothing but the claim's end changes what is noted of a job that is claimed.
    const noted = notedHistory(given.job.history);
    const outcome = await this.#table.update('giveBack', {
      key: jobKey(job.id),
      update: `SET #state = :pending, #version = #version + :one, #line = :line, #rank = :rank${noted.set} REMOVE #claim`,
      condition: '#state = :claimed AND #claim.#claimId = :claimId',
      values: {
        ...stateValues('pending', 'claimed'),
        ':one': 1,
        ':claimId': claimId,
        ...standingValues(this.#readyStanding(job)),
        ...noted.values,
      },
    });
    return outcome.applied ? 'applied' : 'superseded';
  }

  async noteCarried(fence: Fence, carried: Carried): Promise<'noted' | 'lost'> {
    const outcome = await this.#table.update('noteCarried', {
      key: leaseKey(fence.partition),
      update: 'SET #carried = :carried',
      condition: '#epoch = :epoch',
      values: { ':carried': encodeCarried(carried), ':epoch': fence.epoch },
    });
    return outcome.applied ? 'noted' : 'lost';
  }

  async loseWorker(
    job: Job,
    verdict: FinishVerdict,
    nowMs: number,
    expiresAtMs: number,
  ): Promise<FinishOutcome> {
    return this.#endAttempt('loseWorker', job, verdict, nowMs, expiresAtMs, {
      condition: '#state = :running AND #claim.#claimId = :claimId',
      values: {},
      workersLost: 1,
    });
  }

  async retireLine(
    partition: number,
    line: AnnouncedLine,
    announcedAtMs: number,
  ): Promise<'retired' | 'lost'> {
    const key = backlogKey(partition, line.type, line.fairnessKey);
    const name = encodeBacklogLine(line);
    const values = { ':announced': announcedAtMs, ':name': name, ':one': 1 };
    const isQuiet = '#announcedAtMs <= :announced AND contains(#lines, :name)';
    // A line announced in between turns the last one into one of several, and the other way round.
    for (let tries = 1; tries <= RETIRE_TRIES_MAX; tries += 1) {
      const one = await this.#table.update('retireLine', {
        key,
        update: 'DELETE #lines :lines',
        condition: `${isQuiet} AND size(#lines) > :one`,
        values: { ...values, ':lines': new Set([name]) },
      });
      if (one.applied || one.old === undefined) return 'retired';
      const backlog = one.old[ATTRIBUTE.lines] === undefined ? undefined : decodeBacklog(one.old);
      if (backlog === undefined || !namesOf(backlog).includes(name)) return 'retired';
      if (backlog.announcedAtMs > announcedAtMs) return 'lost';
      const last = await this.#table.update('retireLine', {
        key,
        update: 'REMOVE #lines, #line, #rank',
        condition: `${isQuiet} AND size(#lines) = :one`,
        values,
      });
      if (last.applied) return 'retired';
    }
    return 'lost';
  }

  // The workers' side

  async startJob(request: StartRequest): Promise<StartOutcome> {
    const { jobId, claimId, workerId, incarnation, nowMs, runUntilMs } = request;
    const isBounded = runUntilMs !== undefined;
    const outcome = await this.#table.update('startJob', {
      key: jobKey(jobId),
      update: `SET #state = :running, #version = #version + :one, #worker = :worker, #startedAtMs = :now${
        isBounded ? ', #runUntilMs = :until' : ''
      }`,
      condition: '#state = :claimed AND #claim.#claimId = :claimId',
      values: {
        ...stateValues('running', 'claimed'),
        ':one': 1,
        ':worker': encodeWorker({ workerId, incarnation }),
        ':now': nowMs,
        ...(isBounded ? { ':until': runUntilMs } : {}),
        ':claimId': claimId,
      },
    });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined || this.#isGone(item)) return { kind: 'superseded' };
    // Nobody can run what cannot be read; its reservation goes on counting it, because it says that it runs.
    const [job] = await this.#readable(partitionIn(item), [item], decodeJob);
    if (job === undefined) return { kind: 'superseded' };
    const isOurs =
      job.state === 'running' &&
      job.claim?.claimId === claimId &&
      job.worker?.workerId === workerId &&
      job.worker.incarnation === incarnation;
    return outcome.applied || isOurs ? { kind: 'started', job } : { kind: 'superseded' };
  }

  async finishJob(request: FinishRequest): Promise<FinishOutcome> {
    const { job, verdict, workerId, incarnation, nowMs, expiresAtMs } = request;
    return this.#endAttempt(
      'finishJob',
      { ...job, worker: { workerId, incarnation } },
      verdict,
      nowMs,
      expiresAtMs,
      {
        condition: HELD_BY_WORKER,
        values: holderValues({ workerId, incarnation }),
        workersLost: 0,
      },
    );
  }

  async saveCheckpoint(job: Job, worker: WorkerIdentity, checkpoint: Json): Promise<Applied> {
    return this.#note('saveCheckpoint', job, worker, '#checkpoint', checkpoint);
  }

  async saveProgress(job: Job, worker: WorkerIdentity, progress: Json): Promise<Applied> {
    return this.#note('saveProgress', job, worker, '#progress', progress);
  }

  async #note(
    verb: 'saveCheckpoint' | 'saveProgress',
    job: Job,
    worker: WorkerIdentity,
    name: '#checkpoint' | '#progress',
    data: Json,
  ): Promise<Applied> {
    const outcome = await this.#table.update(verb, {
      key: jobKey(job.id),
      update: `SET ${name} = :data`,
      condition: HELD_BY_WORKER,
      values: {
        ...stateValues('running'),
        ...holderValues(worker),
        ':claimId': claimIdOf(verb, job),
        ':data': encodeJson(data),
      },
    });
    return outcome.applied ? 'applied' : 'superseded';
  }

  async registerWorker(partition: number, record: WorkerRecord): Promise<Applied> {
    const { workerId, incarnation, fleet } = record;
    // A former life may deregister, or be collected, between the two writes.
    for (let tries = 1; tries <= REGISTER_TRIES_MAX; tries += 1) {
      const first = await this.#table.put('registerWorker', {
        item: encodeWorkerRecord(partition, record),
        condition: 'attribute_not_exists(#pk)',
      });
      if (first.applied) return 'applied';
      // Of its former lives, the one that may run longest counts: the last may have expired before it began.
      for (const [former, isFormer] of [
        [
          ', #formerUntilMs = #expiresAtMs',
          '(attribute_not_exists(#formerUntilMs) OR #formerUntilMs <= #expiresAtMs)',
        ],
        ['', '#formerUntilMs > #expiresAtMs'],
      ] as const) {
        const next = await this.#table.update('registerWorker', {
          key: workerKey(partition, workerId),
          update: `SET #incarnation = :incarnation, #fleet = :fleet${former}, ${renewed(record)}${forgotten(record)}`,
          condition: `#incarnation < :incarnation AND ${isFormer}`,
          values: { ...renewalValues(record), ':incarnation': incarnation, ':fleet': fleet },
        });
        const present = next.applied ? incarnation : next.old?.[ATTRIBUTE.incarnation];
        if (present === incarnation) return 'applied';
        if (typeof present === 'string' && present > incarnation) return 'superseded';
      }
    }
    throw new StoreThrottled(
      `registerWorker: the record of ${workerId} came and went ${REGISTER_TRIES_MAX} times, nothing was changed; try again`,
    );
  }

  async heartbeat(partition: number, record: WorkerRecord): Promise<Applied> {
    requireItemFits(encodeWorkerRecord(partition, record));
    const outcome = await this.#table.update('heartbeat', {
      key: workerKey(partition, record.workerId),
      update: `SET ${renewed(record)}`,
      condition: '#incarnation = :incarnation AND #expiresAtMs <= :expires',
      values: { ...renewalValues(record), ':incarnation': record.incarnation },
    });
    const isOurs = outcome.applied || outcome.old?.[ATTRIBUTE.incarnation] === record.incarnation;
    return isOurs ? 'applied' : 'superseded';
  }

  async deregisterWorker(partition: number, worker: WorkerIdentity): Promise<Applied> {
    const key = workerKey(partition, worker.workerId);
    const values = { ':incarnation': worker.incarnation };
    const outcome = await this.#table.delete(
      'deregisterWorker',
      key,
      `attribute_not_exists(#pk) OR (#incarnation = :incarnation
        AND (attribute_not_exists(#formerUntilMs) OR #formerUntilMs <= :now))`,
      { ...values, ':now': this.#nowMs() },
    );
    if (outcome.applied) return 'applied';
    // A former life may be running still: the record stands in for it, without a slot.
    const empty = await this.#table.update('deregisterWorker', {
      key,
      update: 'SET #slots = :none, #isEnding = :true, #occupants = :nobody, #expiresAtMs = #formerUntilMs',
      condition: '#incarnation = :incarnation AND attribute_exists(#formerUntilMs)',
      values: { ...values, ':none': 0, ':true': true, ':nobody': [] },
    });
    return empty.applied || empty.old === undefined ? 'applied' : 'superseded';
  }

  // Dispatchers that run on

  async keepDispatcher(record: DispatcherRecord): Promise<Applied> {
    const { incarnation, expiresAtMs } = record;
    const outcome = await this.#table.put('keepDispatcher', {
      item: encodeDispatcher(record, ttlSec(expiresAtMs)),
      condition: `attribute_not_exists(#pk) OR #incarnation < :incarnation
        OR (#incarnation = :incarnation AND #expiresAtMs > :left AND #expiresAtMs <= :expires)`,
      values: { ':incarnation': incarnation, ':expires': expiresAtMs, ':left': LEFT_AT_MS },
    });
    if (outcome.applied || outcome.old === undefined) return 'applied';
    const present = decodeDispatcher(outcome.old);
    const isOurs = present.incarnation === incarnation && present.expiresAtMs !== LEFT_AT_MS;
    return isOurs ? 'applied' : 'superseded';
  }

  async removeDispatcher({ dispatcherId, incarnation }: DispatcherIdentity): Promise<Applied> {
    const left = { dispatcherId, incarnation, leads: [], expiresAtMs: LEFT_AT_MS };
    const outcome = await this.#table.put('removeDispatcher', {
      item: encodeDispatcher(left, ttlSec(this.#nowMs() + LEFT_KEPT_MS)),
      condition: 'attribute_not_exists(#pk) OR #incarnation = :incarnation',
      values: { ':incarnation': incarnation },
    });
    return outcome.applied ? 'applied' : 'superseded';
  }

  async listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]> {
    const items = await this.#collection('listDispatchers', DISPATCHERS_PK);
    const records = await this.#readable(NO_PARTITION, items, decodeDispatcher);
    return records.filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  }

  // Operators

  async cancelJob(jobId: string, nowMs: number, expiresAtMs: number, by?: string): Promise<CancelOutcome> {
    const callId = randomUUID();
    const asked = `#cancelRequestedAtMs = :now, #cancelRequestedIn = #state${
      by === undefined ? '' : ', #cancelRequestedBy = :by'
    }`;
    const askedValues = { ':now': nowMs, ...(by === undefined ? {} : { ':by': by }) };
    // A worker may start the job, or give it up, between the two writes.
    for (let tries = 1; tries <= CANCEL_TRIES_MAX; tries += 1) {
      const cancelled = await this.#changeJob('cancelJob', jobId, {
        // Of an earlier attempt, `finishedAtMs` says what that used.
        update: `SET #state = :cancelled, #version = #version + :one, #ttl = :ttl, #callId = :callId,
          #finishedAtMs = if_not_exists(#finishedAtMs, :now), ${asked} REMOVE #line, #rank`,
        condition: '#state IN (:scheduled, :pending, :claimed)',
        values: {
          ...stateValues('cancelled', 'scheduled', 'pending', 'claimed'),
          ...askedValues,
          ':one': 1,
          ':ttl': ttlSec(expiresAtMs),
          ':callId': callId,
        },
      });
      if (cancelled.applied) return { kind: 'cancelled', job: cancelled.job };
      const { job, callId: lastCall } = cancelled;
      if (job === undefined) return { kind: 'missing' };
      if (isTerminal(job.state)) return { kind: lastCall === callId ? 'cancelled' : 'ended', job };
      const requested = await this.#changeJob('cancelJob', jobId, {
        update: `SET ${asked}`,
        condition: '#state = :running AND attribute_not_exists(#cancelRequestedAtMs)',
        values: { ...stateValues('running'), ...askedValues },
      });
      // Whoever asked first is the one who did.
      const isAsked =
        requested.applied ||
        (requested.job?.state === 'running' && requested.job.cancelRequestedAtMs !== undefined);
      if (isAsked && requested.job !== undefined) return { kind: 'requested', job: requested.job };
    }
    throw new StoreThrottled(
      `cancelJob: job ${jobId} moved on at each of ${CANCEL_TRIES_MAX} tries, nothing was changed; try again`,
    );
  }

  async retimeJob(job: Job, runAtMs: number, nowMs: number, by?: string): Promise<RetimeOutcome> {
    const transition = retime(job, runAtMs, nowMs, by);
    if (transition.kind === 'refused') {
      const [present] = await this.getJobs([job.id]);
      return unmoved(present);
    }
    const next = transition.job;
    if (next.state === 'scheduled') await this.#noteDueShard(next);
    // A job that is ready, and stays so, stays where it stands: it may be parked.
    const standing = job.state === 'pending' && next.state === 'pending' ? undefined : this.#standingOf(next);
    const callId = randomUUID();
    const ready = readyChange(next);
    const noted = notedHistory(next.history);
    const outcome = await this.#table.update('retimeJob', {
      key: jobKey(job.id),
      update: `SET #state = :after, #version = :next, #runAtMs = :runAt, #callId = :callId, ${ready.set}${noted.set}
        ${standing === undefined ? '' : ', #line = :line, #rank = :rank'} ${ready.remove}`,
      condition: '#state = :before AND #version = :version',
      values: {
        ':before': job.state,
        ':after': next.state,
        ...versionValues(job.version),
        ':runAt': next.runAtMs,
        ...ready.values,
        ...noted.values,
        ':callId': callId,
        ...(standing === undefined ? {} : standingValues(standing)),
      },
    });
    if (outcome.applied) return { kind: 'moved', job: decodeJob(outcome.item) };
    const { old } = outcome;
    if (old === undefined || this.#isGone(old)) return { kind: 'missing' };
    const present = decodeJob(old);
    return old[ATTRIBUTE.callId] === callId ? { kind: 'moved', job: present } : unmoved(present);
  }

  async changeControl(partition: number, scope: string, change: ControlChange): Promise<ControlOutcome> {
    const key = controlKey(partition, scope);
    const seen = (await this.#table.get('changeControl', key)) ?? {};
    const callId = randomUUID();
    const { sets, removes, conditions, values } = controlUpdate(change, seen);
    const outcome = await this.#table.update('changeControl', {
      key,
      update: `SET ${sets.join(', ')} REMOVE ${removes.join(', ')}`,
      ...(conditions.length === 0 ? {} : { condition: conditions.join(' AND ') }),
      values: { ...values, ':scope': scope, ':callId': callId },
    });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined) throw new StoreUnavailable(`changeControl: ${scope} was not answered; repeat it`);
    const control = decodeControl(item);
    if (!outcome.applied && item[ATTRIBUTE.callId] !== callId)
      return { kind: isAsAsked(control, change) ? 'changed' : 'superseded', control };
    // Nobody sees one that is idle; it is kept a while, so that what comes late can be told from what is newer.
    if (isIdle(control)) {
      await this.#hint(() =>
        this.#table.update('changeControl', {
          key,
          update: 'SET #ttl = :ttl',
          condition: IDLE_CONTROL,
          values: { ':false': false, ':ttl': ttlSec(this.#nowMs() + IDLE_CONTROL_KEPT_MS) },
        }),
      );
    }
    return { kind: 'changed', control };
  }

  async adoptControl(partition: number, control: Control): Promise<Applied> {
    const { scope, paused, maxConcurrency, weight } = control;
    const callId = randomUUID();
    const { sets, removes, values } = controlUpdate({ paused, maxConcurrency, weight }, {});
    const outcome = await this.#table.update('adoptControl', {
      key: controlKey(partition, scope),
      update: `SET ${sets.join(', ')} REMOVE ${removes.join(', ')}`,
      condition: 'attribute_not_exists(#pk)',
      values: { ...values, ':scope': scope, ':callId': callId },
    });
    return outcome.applied || outcome.old?.[ATTRIBUTE.callId] === callId ? 'applied' : 'superseded';
  }

  async askForLoan(partition: number, request: LoanRequest): Promise<void> {
    await this.#table.put('askForLoan', { item: encodeRequest(partition, request) });
  }

  async listUnreadable(partition: number): Promise<readonly UnreadableItem[]> {
    const query = { condition: '#pk = :pk', values: { ':pk': unreadablePk(partition) } };
    const items = await this.#pages('listUnreadable', query, UNREADABLE_MAX);
    const notes = items.map(decodeUnreadable);
    const present = await this.#getAll(
      'listUnreadable',
      notes.map(({ of }) => of),
      (item) => item,
    );
    return notes.flatMap(({ told }, at) => {
      const item = present[at];
      return item === undefined || isReadable(item) ? [] : told;
    });
  }

  async readDeadLetters(partition: number, limit: number, after?: string): Promise<LinePage<Job>> {
    const { items, next } = await this.#heads('readDeadLetters', deadLineName(partition), limit, after);
    const heads = await this.#readable(partition, items, decodeJobHead);
    const jobs = await this.#readableEach(
      partition,
      await this.#getAll(
        'readDeadLetters',
        heads.map(({ id }) => jobKey(id)),
        (item) => (this.#isGone(item) ? undefined : item),
      ),
      decodeJob,
    );
    return {
      jobs: jobs.filter((job) => job?.state === 'failed' && job.redrivenAs === undefined) as Job[],
      next,
    };
  }

  async redrive(deadLetter: Job, job: Job): Promise<Applied> {
    const nowSec = { ':nowSec': Math.floor(this.#nowMs() / 1000) };
    const by =
      job.redriveBy === undefined
        ? { set: '', values: {} }
        : { set: ', #redrivenBy = :by', values: { ':by': job.redriveBy } };
    const outcome = await this.#table.transact('redrive', randomUUID(), [
      this.#table.putPart({
        item: encodeJob(job, this.#standingOf(job)),
        condition: 'attribute_not_exists(#pk) OR #ttl <= :nowSec',
        values: nowSec,
      }),
      this.#table.updatePart({
        key: jobKey(deadLetter.id),
        update: `SET #redrivenAs = :id, #redrivenAtMs = :now${by.set} REMOVE #line, #rank`,
        condition:
          '#state = :failed AND #version = :version AND attribute_not_exists(#redrivenAs) AND #ttl > :nowSec',
        values: {
          ...stateValues('failed'),
          ...nowSec,
          ...by.values,
          ':version': deadLetter.version,
          ':id': job.id,
          ':now': job.submittedAtMs,
        },
      }),
    ]);
    if (outcome.applied) return 'applied';
    const [present] = await this.getJobs([deadLetter.id]);
    return present?.redrivenAs === job.id ? 'applied' : 'superseded';
  }

  async #createJob(job: Job): Promise<CreateOutcome> {
    if (job.state === 'scheduled') await this.#noteDueShard(job);
    const outcome = await this.#table.put('createJobs', {
      item: encodeJob(job, this.#standingOf(job)),
      condition: 'attribute_not_exists(#pk) OR #ttl <= :nowSec',
      values: { ':nowSec': Math.floor(this.#nowMs() / 1000) },
    });
    if (outcome.applied) return { kind: 'created', job };
    if (outcome.old === undefined) {
      throw new StoreUnavailable(`createJobs: job ${job.id} was there and went away at once; repeat it`);
    }
    const present = decodeJob(outcome.old);
    return { kind: present.contentHash === job.contentHash ? 'repeated' : 'conflict', job: present };
  }

  /**
   * Claims as many as a request takes at once. What has no clear outcome is left to be claimed by itself: a claim that
   * comes again is answered as it was the first time. So are those that need a lock, a second claim of one job, which a
   * batch must not hold, and a claim that would be alone.
   */
  async #claimTogether(requests: readonly ClaimRequest[]): Promise<ReadonlyMap<ClaimRequest, ClaimOutcome>> {
    const outcomes = new Map<ClaimRequest, ClaimOutcome>();
    const firstOf = new Map<string, ClaimRequest>();
    for (const request of requests) {
      if (request.lock === undefined && !firstOf.has(request.jobId)) firstOf.set(request.jobId, request);
    }
    const batches = chunksOf([...firstOf.values()], STATEMENTS_MAX).filter((batch) => batch.length > 1);
    await inParallel(batches, PARALLEL_MAX, async (batch) => {
      const answers = await this.#table.updateEach('claim', CLAIM_STATEMENT, batch.map(claimParameters));
      for (const [at, request] of batch.entries()) {
        const answer = answers[at];
        if (answer?.kind === 'applied') outcomes.set(request, 'claimed');
        if (answer?.kind !== 'refused') continue;
        const { old } = answer;
        const [present] =
          old === undefined || this.#isGone(old)
            ? []
            : await this.#readable(partitionIn(old), [old], decodeJob);
        // The answer of an earlier try got lost: it was won then.
        outcomes.set(request, present?.claim?.claimId === request.claimId ? 'claimed' : 'lost');
      }
    });
    return outcomes;
  }

  async #claimJob(request: ClaimRequest): Promise<ClaimOutcome> {
    const { jobId, version, claimId, lock } = request;
    const change = {
      update: `SET #state = :claimed, #version = :next, #claim = :claim
        REMOVE #line, #rank, #worker, #startedAtMs, #runUntilMs, #progress, #finishedAtMs`,
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('claimed', 'pending'),
        ...versionValues(version),
        ':claim': encodeClaim(request),
      },
    };
    if (lock !== undefined) return this.#claimWithLock(request, lock, { key: jobKey(jobId), ...change });
    const outcome = await this.#changeJob('claim', jobId, change);
    return outcome.applied || outcome.job?.claim?.claimId === claimId ? 'claimed' : 'lost';
  }

  async #claimWithLock(
    { jobId, claimId, claimedAtMs }: ClaimRequest,
    { conflictKey, partition }: NonNullable<ClaimRequest['lock']>,
    change: Update,
  ): Promise<ClaimOutcome> {
    const outcome = await this.#table.transact('claim', randomUUID(), [
      this.#table.updatePart(change),
      this.#table.updatePart({
        key: lockKey(conflictKey),
        update: `SET #conflictKey = :key, #claimId = :claimId, #partition = :partition, #jobId = :jobId
          REMOVE #turnOf, #untilMs, #ttl DELETE #waiting :waiting`,
        condition: `attribute_not_exists(#claimId)
          AND (attribute_not_exists(#turnOf) OR #turnOf = :partition OR #untilMs <= :now)`,
        values: {
          ':key': conflictKey,
          ':claimId': claimId,
          ':partition': partition,
          ':jobId': jobId,
          ':waiting': new Set([encodePartition(partition)]),
          ':now': claimedAtMs,
        },
      }),
    ]);
    if (outcome.applied) return 'claimed';
    if (!outcome.refused.has(JOB_PART)) return 'blocked';
    const [job] = await this.getJobs([jobId]);
    return job?.claim?.claimId === claimId ? 'claimed' : 'lost';
  }

  async #endAttempt(
    verb: 'finishJob' | 'loseWorker',
    running: Job,
    verdict: Ending,
    nowMs: number,
    expiresAtMs: number,
    end: { readonly condition: string; readonly values: Item; readonly workersLost: 0 | 1 },
  ): Promise<FinishOutcome> {
    const claimId = claimIdOf(verb, running);
    const after = {
      version: running.version + 1,
      attempt: running.attempt + (verdict.kind === 'retry' && end.workersLost === 0 ? 1 : 0),
      workersLost: running.workersLost + end.workersLost,
    };
    // As it was when it was started: while it runs nobody else changes it.
    const isCancellation = verdict.kind === 'cancelled' && verdict.error !== undefined;
    const noted = notedHistory(
      historyAfterEnd(
        running,
        isCancellation ? { kind: 'retry', error: verdict.error, runAtMs: 0 } : verdict,
        nowMs,
        end.workersLost,
        isCancellation,
      ),
    );
    const values = {
      ...end.values,
      ...stateValues('running'),
      ':claimId': claimId,
      ':one': 1,
      ':lost': after.workersLost,
      ...noted.values,
    };
    // Absolute, because what is there may not be a number.
    const counted = `#version = #version + :one, #workersLost = :lost${noted.set}`;
    if (verdict.kind === 'retry') await this.#noteDueShard(running);
    const outcome = await this.#changeJob(verb, running.id, {
      condition:
        verdict.kind === 'retry'
          ? `${end.condition} AND attribute_not_exists(#cancelRequestedAtMs)`
          : end.condition,
      ...endOf(running, verdict, counted, values, after.attempt, nowMs, expiresAtMs, this.#subOf(running)),
    });
    const { job } = outcome;
    if (job === undefined) return { kind: 'superseded' };
    // Nobody wants another attempt of a job whose end was asked for.
    const isUnwanted = !outcome.applied && verdict.kind === 'retry' && job.cancelRequestedAtMs !== undefined;
    if (isUnwanted && job.state === 'running') {
      const cancelled = { kind: 'cancelled', error: verdict.error } as const;
      return this.#endAttempt(verb, running, cancelled, nowMs, expiresAtMs, end);
    }
    // One transition only leads from a version to the next: this one, if it looks like it.
    const isOurs =
      running.state === 'running' &&
      job.state === (isUnwanted ? 'cancelled' : stateAfter(verdict)) &&
      job.version === after.version &&
      job.attempt === (isUnwanted ? running.attempt : after.attempt) &&
      job.workersLost === after.workersLost &&
      job.claim?.claimId === claimId &&
      job.worker?.workerId === running.worker?.workerId &&
      job.worker?.incarnation === running.worker?.incarnation;
    return outcome.applied || isOurs ? { kind: 'finished', job } : { kind: 'superseded' };
  }

  /** Answers the job as it is afterwards, or as it stood in the way. */
  async #changeJob(
    verb: string,
    id: string,
    change: Omit<Update, 'key'>,
  ): Promise<
    | { readonly applied: true; readonly job: Job }
    /** `callId`: of the last call that left one. */
    | { readonly applied: false; readonly job: Job | undefined; readonly callId?: unknown }
  > {
    const outcome = await this.#table.update(verb, { key: jobKey(id), ...change });
    if (outcome.applied) return { applied: true, job: decodeJob(outcome.item) };
    const { old } = outcome;
    if (old === undefined || this.#isGone(old)) return { applied: false, job: undefined };
    return { applied: false, ...jobAndCall(old) };
  }

  #partsOf(fence: Fence, before: Page, turn: PageTurn, commit: Commit): readonly TransactionPart[] {
    const { partition, epoch } = fence;
    const table = this.#table;
    // LEASE_PART: the fence stands first.
    return [
      table.checkPart(leaseKey(partition), '#epoch = :epoch', { ':epoch': epoch }),
      table.putPart({
        item: encodePage(partition, turn.page),
        // Of one epoch, two runs of one process could follow the same page.
        condition: before.turn === 0 ? 'attribute_not_exists(#pk)' : '#turn = :turn',
        values: before.turn === 0 ? undefined : { ':turn': before.turn },
      }),
      ...turn.spilled.map((ledger) =>
        table.putPart({ item: encodeLedger(ledgerKey(partition, ledger.fairnessKey), ledger) }),
      ),
      ...turn.estimates.map((estimate) =>
        table.putPart({
          item: encodeEstimate(estimateKey(partition, estimate.type, estimate.resourceId), estimate),
        }),
      ),
      ...commit.reserve.map((reservation) =>
        table.putPart({
          item: encodeReservation(partition, reservation),
          condition: 'attribute_not_exists(#pk)',
        }),
      ),
      ...turn.absorbed.map((reservation) =>
        reservation.jobs.size === 0
          ? table.deletePart(reservationKey(partition, reservation.batchId))
          : table.putPart({ item: encodeReservation(partition, reservation) }),
      ),
      ...this.#lendingParts(partition, commit),
    ];
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

  /**
   * Takes away reservations all of whose places are settled. The page goes on saying so until a deletion was answered,
   * so one that gets lost is repeated by whoever tidies next.
   */
  async #deleteSettled(partition: number): Promise<void> {
    const known = this.#known.get(partition);
    if (known === undefined) return;
    const settled = [...known.batches].filter(([, each]) => asMarked(each, known.page) === undefined);
    await inParallel(settled, PARALLEL_MAX, async ([batchId]) => {
      await this.#hint(async () => {
        await this.#table.delete('tidy', reservationKey(partition, batchId));
        known.batches.delete(batchId);
      });
    });
  }

  /** What only tidies is made up for by a later pass. */
  async #hint(effect: () => Promise<unknown>): Promise<void> {
    try {
      await effect();
    } catch (error) {
      if (!(error instanceof StoreThrottled || error instanceof StoreUnavailable)) throw error;
    }
  }

  /** Only hints move here: what fails is moved by a later pass. */
  async #moveKeys(partition: number, moves: readonly RankMove[]): Promise<void> {
    await inParallel(moves, PARALLEL_MAX, ({ type, fairnessKey, from, to }) =>
      this.#hint(() =>
        this.#table.update('tidy', {
          key: backlogKey(partition, type, fairnessKey),
          update: 'SET #rank = :to',
          condition: '#rank = :from AND attribute_exists(#line)',
          values: { ':from': from, ':to': to },
        }),
      ),
    );
  }

  #standingOf(job: Job): Standing | undefined {
    if (job.state === 'scheduled') return dueStanding(job, job.runAtMs, this.#subOf(job));
    return job.state === 'pending' ? this.#readyStanding(job) : undefined;
  }

  #readyStanding(job: JobHead): Standing {
    const { rank, sub } = this.#place(job);
    const { type, mode, fairnessKey } = job;
    return { line: readyLineName(job.partition, { type, mode, fairnessKey, sub }), rank };
  }

  #subOf(job: JobHead): number {
    return this.#place(job).sub ?? 0;
  }

  /** Before a job stands in a shard of the due line that nobody may know of: it would wait for ever. */
  async #noteDueShard(job: JobHead): Promise<void> {
    const shards = this.#subOf(job) + 1;
    if (shards <= (this.#dueShards.get(job.partition) ?? 1)) return;
    await this.#table.update('announceLines', {
      key: dueKey(job.partition),
      update: 'SET #dueShards = :shards',
      condition: 'attribute_not_exists(#dueShards) OR #dueShards < :shards',
      values: { ':shards': shards },
    });
    this.#dueShards.set(job.partition, Math.max(shards, this.#dueShards.get(job.partition) ?? 1));
  }

  #isGone(item: Item): boolean {
    const ttl = item[ATTRIBUTE.ttl];
    return typeof ttl === 'number' && ttl * 1000 <= this.#nowMs();
  }

  /**
   * Those of the items that can be read, as `decode` reads them. The others are told of, noted, and taken out of the line
   * they stand in, so that nobody meets them again; `instead` may stand for one.
   */
  async #readable<T>(
    partition: number,
    items: readonly Item[],
    decode: (item: Item) => T,
    instead?: (cause: MalformedItemError) => T | undefined,
  ): Promise<readonly T[]> {
    const each = await this.#readableEach(partition, items, decode, instead);
    return each.filter((value) => value !== undefined);
  }

  /** As `#readable`, in the order of the items. */
  async #readableEach<T>(
    partition: number,
    items: readonly (Item | undefined)[],
    decode: (item: Item) => T,
    instead?: (cause: MalformedItemError, at: number) => T | undefined,
  ): Promise<readonly (T | undefined)[]> {
    const read: (T | undefined)[] = [];
    for (const [at, item] of items.entries()) {
      try {
        read.push(item === undefined ? undefined : decode(item));
      } catch (error) {
        if (item === undefined || !(error instanceof MalformedItemError)) throw error;
        read.push(instead?.(error, at));
        await this.#setAside(partition, item, error);
      }
    }
    return read;
  }

  /** First the note, then the line: what is nowhere must at least be in the list. */
  async #setAside(
    partition: number,
    item: Item,
    { key, attribute, message }: MalformedItemError,
  ): Promise<void> {
    const { pk, sk, line, rank } = ATTRIBUTE;
    if (!this.#toldUnreadable.has(key)) {
      const note = encodeUnreadable(partition, item, message, this.#nowMs());
      const { [pk]: notePk, [sk]: noteSk, ...cells } = note;
      const names = Object.keys(cells).filter((name) => cells[name] !== undefined);
      // An update, not a put: whoever runs jobs may do nothing else.
      await this.#hint(() =>
        this.#table.update('setAside', {
          key: { pk: String(notePk), sk: String(noteSk) },
          update: `SET ${names.map((name) => `#${name} = :${name}`).join(', ')}`,
          condition: 'attribute_not_exists(#pk)',
          values: Object.fromEntries(names.map((name) => [`:${name}`, cells[name]])),
        }),
      );
      if (this.#toldUnreadable.size >= UNREADABLE_MAX) this.#toldUnreadable.clear();
      this.#toldUnreadable.add(key);
      this.#tellUnreadable?.(decodeUnreadable(note).told);
    }
    if (typeof item[line] !== 'string' || typeof item[rank] !== 'string') return;
    // Without what is wrong with it, a backlog is whole again as soon as one of its lines is announced.
    const wrong = isJobItem(item) ? '' : `, #${attribute}`;
    await this.#hint(() =>
      this.#table.update('setAside', {
        key: { pk: String(item[pk]), sk: String(item[sk]) },
        update: `REMOVE #line, #rank${wrong}`,
        condition: '#line = :line AND #rank = :rank',
        values: { ':line': item[line], ':rank': item[rank] },
      }),
    );
  }

  async #getAll<T>(
    verb: string,
    keys: readonly ItemKey[],
    decode: (item: Item) => T | undefined,
  ): Promise<readonly (T | undefined)[]> {
    const nameOf = (pk: unknown, sk: unknown): string => JSON.stringify([pk, sk]);
    const distinct = new Map(keys.map((key) => [nameOf(key.pk, key.sk), key]));
    const items = await this.#table.getAll(verb, [...distinct.values()]);
    const found = new Map(
      items.map((item) => [nameOf(item[ATTRIBUTE.pk], item[ATTRIBUTE.sk]), decode(item)] as const),
    );
    return keys.map((key) => found.get(nameOf(key.pk, key.sk)));
  }

  /** All items under a partition key, strongly consistent, in the order of their sort keys. */
  #collection(verb: string, pk: string): Promise<readonly Item[]> {
    return this.#pages(verb, { condition: '#pk = :pk', values: { ':pk': pk } });
  }

  /** Up to `limit` items of a line, in its order; `next` only if more follow. */
  async #heads(
    verb: string,
    line: string,
    limit: number,
    cursor: string | undefined,
    { below, from, above }: RankRange = {},
  ): Promise<{ readonly items: readonly Item[]; readonly next: string | undefined }> {
    if (limit < 1) return { items: [], next: cursor };
    const query = {
      index: TABLE.linesIndex,
      condition: `#line = :line${conditionOf({ below, from, above })}`,
      values: {
        ':line': line,
        ...(below === undefined ? {} : { ':below': below }),
        ...(from === undefined ? {} : { ':from': from }),
        ...(above === undefined ? {} : { ':above': above }),
      },
      after: cursor === undefined ? undefined : decodeCursor(verb, line, cursor),
    };
    const { items, last } = await this.#upTo(limit, verb, query);
    return { items, next: last === undefined ? undefined : encodeCursor(last) };
  }

  /** The first items of a query; `last` of these only if more follow. */
  async #upTo(
    limit: number,
    verb: string,
    query: PagedQuery,
  ): Promise<{ readonly items: readonly Item[]; readonly last: Item | undefined }> {
    // One more than asked for tells whether others follow.
    const items = await this.#pages(verb, query, limit + 1);
    return { items: items.slice(0, limit), last: items.length > limit ? items[limit - 1] : undefined };
  }

  /** A query's items, at most so many. A page may end anywhere, and hold nothing, and others follow it. */
  async #pages(verb: string, query: PagedQuery, most?: number): Promise<readonly Item[]> {
    const items: Item[] = [];
    let { after } = query;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const limit = most === undefined ? undefined : most - items.length;
      const answer = await this.#table.query(verb, { ...query, limit, after });
      items.push(...answer.items);
      after = answer.next;
      if (after === undefined || (most !== undefined && items.length >= most)) return items;
    }
    throw new StoreRefused(
      `${verb}: more than ${PAGES_MAX} pages of items answer ${JSON.stringify(query.values)}; delete what is left over`,
    );
  }
}

/** A query without what says which page is read. */
type PagedQuery = Omit<Parameters<DynamoConnection['query']>[1], 'limit'>;

/** Which part of a line is read: all, that below a rank, from one rank to another, or what begins alike. */
interface RankRange {
  readonly below?: string | undefined;
  /** With `below` only. No job stands exactly there, or exactly at `below`: its rank goes on with its id. */
  readonly from?: string | undefined;
  readonly above?: string | undefined;
}

function conditionOf({ below, from, above }: RankRange): string {
  if (above !== undefined) return ' AND #rank > :above';
  if (below === undefined) return '';
  return from === undefined ? ' AND #rank < :below' : ' AND #rank BETWEEN :from AND :below';
}

/** Where the check of the lease's epoch stands in a commit's transaction. */
const LEASE_PART = 0;

/** Where the job stands in the transaction of a claim that takes a lock. */
const JOB_PART = 0;

/** The expiry of a dispatcher that has left: its life is over, and its record says so to renewals that come late. */
const LEFT_AT_MS = 0;
/** Renewals come no later than this. */
const LEFT_KEPT_MS = 3_600_000;

const RELEASE_TRIES_MAX = 5;

/** A turn that nobody took may be collected after this. */
const TURN_KEPT_MS = 3_600_000;

const RETIRE_TRIES_MAX = 3;

const PARK_TRIES_MAX = 3;

function requireBounded(commit: Commit): void {
  const { drop, postpone, reserve, ledgers, estimates } = commit;
  const items =
    1 +
    drop.length +
    postpone.length +
    reserve.length +
    ledgers.length +
    estimates.length +
    lendingItems(commit);
  if (items > TRANSACTION_ITEMS_MAX) throw new CommitTooLarge(items);
  const touched = [...drop, ...postpone].map((each) => each.reservation.batchId);
  requireDistinct('reservation', [...touched, ...reserve.map((each) => each.batchId)]);
  requireDistinct(
    'ledger',
    ledgers.map((ledger) => ledger.fairnessKey),
  );
  requireDistinct(
    'estimate',
    estimates.map((estimate) => JSON.stringify([estimate.type, estimate.resourceId])),
  );
}

/** The page's condition proves that what is known is what is there. */
function requireCurrent(fence: Fence, known: Known, commit: Commit): void {
  if (commit.turn !== undefined && commit.turn !== known.page.turn) {
    throw new StaleCommit(
      `the commit under epoch ${fence.epoch} follows turn ${commit.turn} of partition ${fence.partition}, which is at ${known.page.turn}; load it again`,
    );
  }
  for (const { reservation } of [...commit.drop, ...commit.postpone]) {
    const { batchId } = reservation;
    const present = known.batches.get(batchId);
    if (present !== undefined && asMarked(present, known.page) !== undefined) continue;
    throw new StaleCommit(
      `the commit under epoch ${fence.epoch} changes the reservation ${batchId}, which is gone; load partition ${fence.partition} again`,
    );
  }
}

const IDLE_CONTROL =
  '#paused = :false AND attribute_not_exists(#maxConcurrency) AND attribute_not_exists(#weight)';

/** Changes of an operator come no later than this. */
const IDLE_CONTROL_KEPT_MS = 3_600_000;

/**
 * Touches what the change names, if nobody has changed that since it was seen, and makes the item one that can be read.
 * Each part of a control has a revision of its own: who changes another part is in nobody's way.
 */
function controlUpdate(
  change: ControlChange,
  seen: Item,
): {
  readonly sets: readonly string[];
  readonly removes: readonly string[];
  readonly conditions: readonly string[];
  readonly values: Item;
} {
  const sets = [
    '#scope = :scope',
    '#callId = :callId',
    `#paused = ${change.paused === undefined ? 'if_not_exists(#paused, :paused)' : ':paused'}`,
  ];
  const removes = ['#ttl'];
  const conditions: string[] = [];
  const values: Record<string, unknown> = { ':paused': change.paused ?? false };
  for (const field of CONTROL_FIELDS) {
    if (change[field] === undefined) continue;
    const revision = `${field}Revision` as const;
    const was = seen[ATTRIBUTE[revision]];
    conditions.push(was === undefined ? `attribute_not_exists(#${revision})` : `#${revision} = :${revision}`);
    if (was !== undefined) values[`:${revision}`] = was;
    sets.push(`#${revision} = :${revision}Next`);
    values[`:${revision}Next`] = typeof was === 'number' ? was + 1 : 1;
  }
  for (const name of ['maxConcurrency', 'weight'] as const) {
    const to = change[name];
    if (to === null) removes.push(`#${name}`);
    else if (to !== undefined) {
      sets.push(`#${name} = :${name}`);
      values[`:${name}`] = to;
    }
  }
  return { sets, removes, conditions, values };
}

const CANCEL_TRIES_MAX = 5;

const REGISTER_TRIES_MAX = 3;

/** `#claimJob`'s change and condition, for several jobs at once. */
const CLAIM_STATEMENT = `SET #state = ? SET #version = ? SET #claim = ?
  REMOVE #line REMOVE #rank REMOVE #worker REMOVE #startedAtMs REMOVE #runUntilMs REMOVE #progress
  REMOVE #finishedAtMs
  WHERE #pk = ? AND #sk = ? AND #state = ? AND #version = ?`;

function claimParameters(request: ClaimRequest): readonly unknown[] {
  const { jobId, version } = request;
  const { pk, sk } = jobKey(jobId);
  const claim = encodeClaim(request);
  return ['claimed', version + 1, claim, pk, sk, 'pending', version];
}

/** Runs under exactly this claim, in this life of this worker. */
const HELD_BY_WORKER = `#state = :running AND #claim.#claimId = :claimId
  AND #worker.#workerId = :workerId AND #worker.#incarnation = :incarnation`;

/** What a heartbeat renews of a worker's record. */
const renewed = ({ heardAtMs, load }: WorkerRecord): string =>
  [
    '#slots = :slots, #isEnding = :ending, #occupants = :occupants, #expiresAtMs = :expires, #ttl = :ttl',
    ...(heardAtMs === undefined ? [] : ['#heardAtMs = :heard']),
    ...(load === undefined ? [] : ['#lagMs = :lag, #memoryMb = :memory']),
  ].join(', ');

/** Of a former life, what the next one does not say. */
const forgotten = ({ heardAtMs, load }: WorkerRecord): string => {
  const names = [
    ...(heardAtMs === undefined ? ['#heardAtMs'] : []),
    ...(load === undefined ? ['#lagMs', '#memoryMb'] : []),
  ];
  return names.length === 0 ? '' : ` REMOVE ${names.join(', ')}`;
};

const renewalValues = (record: WorkerRecord): Item => ({
  ':slots': record.slots,
  ':ending': record.isEnding === true,
  ':occupants': encodeOccupants(record),
  ...(record.heardAtMs === undefined ? {} : { ':heard': record.heardAtMs }),
  ...(record.load === undefined ? {} : { ':lag': record.load.lagMs, ':memory': record.load.memoryMb }),
  ':expires': record.expiresAtMs,
  ':ttl': workerTtlSec(record),
});

const jobAndCall = (item: Item): { readonly job: Job; readonly callId: unknown } => ({
  job: decodeJob(item),
  callId: item[ATTRIBUTE.callId],
});

/** What is said of a job that could not be moved, as it is now. */
function unmoved(job: Job | undefined): RetimeOutcome {
  if (job === undefined) return { kind: 'missing' };
  return { kind: isWaiting(job.state) ? 'superseded' : 'tooLate', job };
}

const holderValues = ({ workerId, incarnation }: WorkerIdentity): Item => ({
  ':workerId': workerId,
  ':incarnation': incarnation,
});

function claimIdOf(verb: string, job: Job): string {
  if (job.claim !== undefined) return job.claim.claimId;
  throw new StoreRefused(`${verb}: job ${job.id} carries no claim; pass it as startJob or getJobs gave it`);
}

/** `:pending` stands for the state `pending`. */
const stateValues = (...states: readonly JobState[]): Item =>
  Object.fromEntries(states.map((state) => [`:${state}`, state]));

const versionValues = (version: number): Item => ({ ':version': version, ':next': version + 1 });

const standingValues = (standing: Standing): Item => ({ ':line': standing.line, ':rank': standing.rank });

const dueStanding = (job: Job, runAtMs: number, shard: number): Standing => ({
  line: dueLineName(job.partition, shard),
  rank: instantRank(runAtMs, job.id),
});

/** A job's history as a write sets it, if there is one. */
const notedHistory = (history: History | undefined): { readonly set: string; readonly values: Item } =>
  history === undefined
    ? { set: '', values: {} }
    : { set: ', #history = :history', values: { ':history': encodeHistory(history) } };

/** When a job is ready, and when it was so first. */
const readyChange = ({
  readyAtMs,
  firstReadyAtMs,
}: Pick<Job, 'readyAtMs' | 'firstReadyAtMs'>): {
  readonly set: string;
  readonly remove: string;
  readonly values: Item;
} =>
  firstReadyAtMs === undefined
    ? {
        set: '#readyAtMs = :readyAt',
        remove: 'REMOVE #firstReadyAtMs',
        values: { ':readyAt': readyAtMs },
      }
    : {
        set: '#readyAtMs = :readyAt, #firstReadyAtMs = :firstReadyAt',
        remove: '',
        values: { ':readyAt': readyAtMs, ':firstReadyAt': firstReadyAtMs },
      };

const deadStanding = (job: Job, failedAtMs: number): Standing => ({
  line: deadLineName(job.partition),
  rank: latestFirstRank(failedAtMs, job.id),
});

/** A verdict as it is written: a cancellation may stand in for a retry, and keeps its error. */
type Ending =
  | Exclude<FinishVerdict, { readonly kind: 'cancelled' }>
  | { readonly kind: 'cancelled'; readonly error?: JobError | undefined };

const stateAfter = (verdict: Ending): JobState => (verdict.kind === 'retry' ? 'scheduled' : verdict.kind);

/** What the end of an attempt writes. */
function endOf(
  running: Job,
  verdict: Ending,
  counted: string,
  values: Item,
  attempt: number,
  nowMs: number,
  expiresAtMs: number,
  shard: number,
): Pick<Update, 'update' | 'values'> {
  const state = stateAfter(verdict);
  const common = { ...values, ...stateValues(state), ':now': nowMs };
  const terminal = { ...common, ':ttl': ttlSec(expiresAtMs) };
  switch (verdict.kind) {
    case 'succeeded':
      return {
        update: `SET #state = :succeeded, ${counted}, #finishedAtMs = :now, #ttl = :ttl, #result = :result REMOVE #error`,
        values: { ...terminal, ':result': encodeJson(verdict.result) },
      };
    case 'failed':
      return {
        update: `SET #state = :failed, ${counted}, #finishedAtMs = :now, #ttl = :ttl, #error = :error,
          #line = :line, #rank = :rank`,
        values: {
          ...terminal,
          ':error': encodeError(verdict.error),
          ...standingValues(deadStanding(running, nowMs)),
        },
      };
    case 'cancelled': {
      const update = `SET #state = :cancelled, ${counted}, #finishedAtMs = :now, #ttl = :ttl`;
      if (verdict.error === undefined) return { update, values: terminal };
      return {
        update: `${update}, #error = :error`,
        values: { ...terminal, ':error': encodeError(verdict.error) },
      };
    }
    // The claim stays until the next one: it says whose attempt ended when, for the settlement.
    case 'retry': {
      const isLost = attempt === running.attempt;
      const ready = isLost ? undefined : readyChange(readyAgain(running, verdict.runAtMs));
      const removed = [
        ...(ready === undefined || ready.remove === '' ? [] : ['#firstReadyAtMs']),
        ...(verdict.isFromStart === true ? ['#checkpoint'] : []),
      ];
      const removal = removed.length === 0 ? '' : ` REMOVE ${removed.join(', ')}`;
      return {
        update: `SET #state = :scheduled, ${counted}, #attempt = :attempt, #runAtMs = :runAt, #finishedAtMs = :now,
          #error = :error, #line = :line, #rank = :rank${ready === undefined ? '' : `, ${ready.set}`}${removal}`,
        values: {
          ...common,
          ...ready?.values,
          ':attempt': attempt,
          ':runAt': verdict.runAtMs,
          ':error': encodeError(verdict.error),
          ...standingValues(dueStanding(running, verdict.runAtMs, shard)),
        },
      };
    }
  }
}

const encodeCursor = (item: Item): string => {
  const { pk, sk, rank } = ATTRIBUTE;
  return Buffer.from(JSON.stringify([item[pk], item[sk], item[rank]])).toString('base64url');
};

function decodeCursor(verb: string, line: string, cursor: string): Item {
  const refused = (cause?: unknown): StoreRefused =>
    new StoreRefused(`${verb}: ${JSON.stringify(cursor)} is no cursor; pass \`next\` as it was answered`, {
      cause,
    });
  let parts: unknown;
  try {
    parts = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'));
  } catch (cause) {
    throw refused(cause);
  }
  if (!Array.isArray(parts) || parts.length !== 3 || !parts.every((part) => typeof part === 'string'))
    throw refused();
  const [pk, sk, rank] = parts;
  return { [ATTRIBUTE.pk]: pk, [ATTRIBUTE.sk]: sk, [ATTRIBUTE.line]: line, [ATTRIBUTE.rank]: rank };
}

function requireDistinct(item: string, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw new CommitAmbiguous(item, name);
    seen.add(name);
  }
}
