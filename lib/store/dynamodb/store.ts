/**
 * The store on one DynamoDB table.
 *
 * A request whose answer got lost is sent again by the SDK, and then meets its own success. So every condition that
 * fails looks at the item that stood in the way: if it is what this very request makes of it, the request was applied.
 */
import { randomUUID } from 'node:crypto';
import { isTerminal, type Job, type JobError, type JobState, type Json } from '../../core/job.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import { isWaiting, retime } from '../../core/life-cycle.ts';
import {
  type Applied,
  type CancelOutcome,
  type ClaimOutcome,
  type ClaimRequest,
  type Commit,
  type Control,
  type ControlChange,
  type CreateOutcome,
  type DispatcherIdentity,
  type DispatcherRecord,
  type EstimateRecord,
  type Fence,
  type FinishOutcome,
  type FinishRequest,
  type FinishVerdict,
  type Heads,
  isIdle,
  type JobHead,
  type JobStore,
  type KeyBacklog,
  type LeaseOutcome,
  type Ledger,
  type LinePage,
  type Lock,
  type PartitionState,
  type Rejection,
  type Reservation,
  type RetimeOutcome,
  type StartOutcome,
  type StartRequest,
  type WorkerIdentity,
  type WorkerRecord,
  workerAt,
} from '../contract.ts';
import {
  CommitAmbiguous,
  CommitTooLarge,
  StaleCommit,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
  TRANSACTION_ITEMS_MAX,
} from '../errors.ts';
import { asMarked, EMPTY_PAGE, lendingItems, type Page, type PageTurn, turnPage } from '../page.ts';
import {
  backlogKey,
  blockedLineName,
  blockedPrefix,
  blockedRank,
  CONTROL_PREFIX,
  controlKey,
  DISPATCHERS_PK,
  deadLineName,
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
  nextInTurn,
  pageKey,
  partitionPk,
  REQUEST_PREFIX,
  RESERVATION_PREFIX,
  type ReadyLine,
  readyLineName,
  rejectionKey,
  requestKey,
  reservationKey,
  TABLE,
  WORKER_PREFIX,
  wakeKey,
  workerKey,
} from '../schema.ts';
import {
  ATTRIBUTE,
  decodeBacklog,
  decodeControl,
  decodeDispatcher,
  decodeDueShards,
  decodeEstimate,
  decodeJob,
  decodeJobHead,
  decodeLease,
  decodeLedger,
  decodeLoan,
  decodeLock,
  decodePage,
  decodeRejection,
  decodeRequest,
  decodeReservation,
  decodeWakes,
  decodeWorkerRecord,
  encodeBacklogLine,
  encodeClaim,
  encodeDispatcher,
  encodeError,
  encodeEstimate,
  encodeJob,
  encodeJson,
  encodeLedger,
  encodeLoan,
  encodeOccupants,
  encodePage,
  encodePartition,
  encodeRejection,
  encodeRequest,
  encodeReservation,
  encodeWorker,
  encodeWorkerRecord,
  type Item,
  type Standing,
  ttlSec,
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
 * Where a job waits once it is ready: its type's tier, its place in its line, and which part of it, where lines are
 * split. Ranks are compared as text.
 */
export type Place = (job: JobHead) => {
  readonly tier: string;
  readonly rank: string;
  readonly sub?: number | undefined;
};

export interface DynamoJobStoreOptions extends ConnectionOptions {
  readonly place: Place;
  /** Epoch milliseconds: an item that has expired is gone, whether or not it has been collected. */
  readonly nowMs?: (() => number) | undefined;
}

/** Writes on their way at once; the SDK's client opens 50 connections at most. */
const PARALLEL_MAX = 32;

/** Pages of one query; a page holds up to 1 MB. */
const PAGES_MAX = 1_000;

/** What a store has last read and written of a partition: what its next commit follows. */
interface Known {
  readonly epoch: number;
  readonly page: Page;
  /** Places of the reservations whose items are there. */
  readonly batches: Map<string, readonly number[]>;
}

export class DynamoJobStore implements JobStore {
  readonly #table: DynamoConnection;
  readonly #place: Place;
  readonly #keyRanks = new KeyRanks();
  readonly #nowMs: () => number;
  readonly #known = new Map<number, Known>();
  /** By partition: the shards of its due line that are known to be noted. */
  readonly #dueShards = new Map<number, number>();

  constructor(options: DynamoJobStoreOptions) {
    this.#table = new DynamoConnection(options);
    this.#place = options.place;
    this.#nowMs = options.nowMs ?? Date.now;
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

  async announceLines(partition: number, lines: readonly ReadyLine[], nowMs: number): Promise<void> {
    const byKey = Map.groupBy(lines, (line) => JSON.stringify([line.tier, line.fairnessKey]));
    await inParallel([...byKey.values()], PARALLEL_MAX, async (group) => {
      const [first] = group;
      if (first === undefined) return;
      const key = backlogKey(partition, first.tier, first.fairnessKey);
      const values = { ':lines': new Set(group.map(encodeBacklogLine)), ':now': nowMs };
      const known = await this.#table.update('announceLines', {
        key,
        update: 'SET #announcedAtMs = :now ADD #lines :lines',
        condition: 'attribute_exists(#line)',
        values,
      });
      if (known.applied) return;
      const { fairnessKey } = first;
      const [ledger] = await this.getLedgers(partition, [fairnessKey]);
      const settledCostMs = ledger?.settledCostMs ?? 0;
      await this.#table.update('announceLines', {
        key,
        update: `SET #announcedAtMs = :now, #fairnessKey = :fairnessKey, #line = :line,
          #rank = if_not_exists(#rank, :rank) ADD #lines :lines`,
        values: {
          ...values,
          ':fairnessKey': fairnessKey,
          ':line': keysLineName(partition, first.tier),
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

  async getJobs(ids: readonly string[]): Promise<readonly (Job | undefined)[]> {
    return this.#getAll('getJobs', ids.map(jobKey), (item) =>
      this.#isGone(item) ? undefined : decodeJob(item),
    );
  }

  async listRejections(sourceId: string): Promise<readonly Rejection[]> {
    const items = await this.#collection('listRejections', rejectionKey(sourceId, 0).pk);
    return items.filter((item) => !this.#isGone(item)).map(decodeRejection);
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
        #callId = :callId`,
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
      update: `SET #expiresAtMs = :past${noted} REMOVE #holder, #callId`,
      condition: '#epoch = :epoch',
      values: {
        ':past': 0,
        ':epoch': fence.epoch,
        ...(wakesSeen === undefined ? {} : { ':wakesSeen': wakesSeen }),
      },
    });
    return outcome.applied ? 'released' : 'lost';
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
    let dueShards = 1;
    for (const item of await this.#collection('loadPartition', partitionPk(partition))) {
      const sk = String(item[ATTRIBUTE.sk]);
      if (sk === leaseSk) lease = decodeLease(item);
      else if (sk === pageSk) page = decodePage(item);
      else if (sk === dueSk) dueShards = Math.max(1, decodeDueShards(item));
      else if (sk.startsWith(RESERVATION_PREFIX)) reservations.push(decodeReservation(item));
      else if (sk.startsWith(WORKER_PREFIX)) workers.push(decodeWorkerRecord(item));
      else if (sk.startsWith(CONTROL_PREFIX)) {
        const control = decodeControl(item);
        if (!isIdle(control)) controls.push(control);
      } else if (sk.startsWith(LOAN_PREFIX)) loans.push(decodeLoan(item));
      else if (sk.startsWith(REQUEST_PREFIX)) requests.push(decodeRequest(item));
    }
    // Who only looks may have read it before somebody else's commit.
    if ((this.#known.get(partition)?.page.turn ?? 0) <= page.turn) {
      const batches = new Map(reservations.map(({ batchId, jobs }) => [batchId, [...jobs.keys()]]));
      this.#known.set(partition, { epoch: lease?.epoch ?? 0, page, batches });
    }
    for (const ledger of page.ledgers.values()) this.#keyRanks.sawLedger(partition, ledger);
    return {
      epoch: lease?.epoch ?? 0,
      turn: page.turn,
      leastShareMs: page.leastShareMs,
      reservations: reservations.flatMap((each) => asMarked(each, page) ?? []),
      workers: workers.flatMap((worker) => workerAt(worker, nowMs) ?? []),
      controls,
      ledgers: [...page.ledgers.values()],
      estimates: [...page.estimates.values()],
      parked: page.parked,
      dueShards,
      attendance: page.attendance,
      loans,
      requests,
    };
  }

  async readKeys(
    partition: number,
    tier: string,
    limit: number,
    after?: string,
  ): Promise<{ readonly keys: readonly KeyBacklog[]; readonly next?: string | undefined }> {
    const { items, next } = await this.#heads('readKeys', keysLineName(partition, tier), limit, after);
    const keys = items.map((item) => {
      const backlog = decodeBacklog(item);
      // Of a line that was read to its end, every key is known: where it stands does not matter.
      if (next !== undefined) {
        this.#keyRanks.sawKey(partition, tier, backlog, String(item[ATTRIBUTE.rank]));
      }
      return backlog;
    });
    return { keys, next };
  }

  async readBacklogs(
    partition: number,
    tier: string,
    fairnessKeys: readonly string[],
  ): Promise<readonly (KeyBacklog | undefined)[]> {
    if (fairnessKeys.length === 0) return [];
    const keys = fairnessKeys.map((key) => backlogKey(partition, tier, key));
    // What is left of one whose last line was retired stands in no line.
    return this.#getAll('readBacklogs', keys, (item) =>
      item[ATTRIBUTE.line] === undefined ? undefined : decodeBacklog(item),
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
    if (ids.every(({ resourceId }) => resourceId !== ''))
      return this.#getAll('getEstimates', keys, decodeEstimate);
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
    const all = await this.#getAll(verb, [pageKey(partition), ...keys], (item): T | Page =>
      item[ATTRIBUTE.sk] === pageKey(partition).sk ? decodePage(item) : decode(item),
    );
    const [page = EMPTY_PAGE, ...found] = all as readonly [Page | undefined, ...(T | undefined)[]];
    return { page, found };
  }

  async readLine(partition: number, line: ReadyLine, limit: number, after?: string): Promise<Heads> {
    const { items, next } = await this.#heads('readLine', readyLineName(partition, line), limit, after);
    return { jobs: items.map(decodeJobHead), next };
  }

  async readDue(partition: number, nowMs: number, limit: number, after?: string, shard = 0): Promise<Heads> {
    // The least rank of the next millisecond: whatever is due stands before it.
    const bound = instantRank(Math.floor(nowMs) + 1, '');
    const { items, next } = await this.#heads('readDue', dueLineName(partition, shard), limit, after, {
      below: bound,
    });
    return { jobs: items.map(decodeJobHead), next };
  }

  async promote(jobs: readonly JobHead[], _nowMs: number): Promise<readonly (Job | undefined)[]> {
    return inParallel(jobs, PARALLEL_MAX, async (job) => {
      const outcome = await this.#changeJob('promote', job.id, {
        update:
          'SET #state = :pending, #version = :next, #readyAtMs = #runAtMs, #line = :line, #rank = :rank',
        condition: '#state = :scheduled AND #version = :version',
        values: {
          ...stateValues('pending', 'scheduled'),
          ...versionValues(job.version),
          ...standingValues(this.#readyStanding({ ...job, readyAtMs: job.runAtMs })),
        },
      });
      return outcome.applied ? outcome.job : undefined;
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
    const turn = turnPage(known.page, commit, new Set(known.batches.keys()));
    const parts = this.#partsOf(fence, known.page, turn, commit);
    const outcome = await this.#table.transact('commit', randomUUID(), parts);
    if (!outcome.applied) {
      if (outcome.refused.has(LEASE_PART)) return 'lost';
      throw new StaleCommit(
        `the commit under epoch ${fence.epoch} follows a page, or makes reservations, that are not what it knows: parts ${[...outcome.refused].join(', ')}; load partition ${partition} again`,
      );
    }
    for (const { batchId, jobs } of commit.reserve) known.batches.set(batchId, [...jobs.keys()]);
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

  async readBlocked(
    partition: number,
    conflictKey: string,
    limit: number,
    of?: Pick<ReadyLine, 'tier' | 'type'>,
    after?: string,
  ): Promise<Heads> {
    const line = blockedLineName(partition, conflictKey);
    const prefix = of === undefined ? undefined : blockedPrefix(of);
    const { items, next } = await this.#heads('readBlocked', line, limit, after, { prefix });
    return { jobs: items.map(decodeJobHead), next };
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
    const { tier, rank } = this.#place(job);
    return this.#table.updatePart({
      key: jobKey(job.id),
      update: 'SET #line = :line, #rank = :rank',
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('pending'),
        ':version': job.version,
        ':line': blockedLineName(job.partition, conflictKey),
        ':rank': blockedRank({ tier, type: job.type }, rank),
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
    return this.#getAll('readLocks', conflictKeys.map(lockKey), decodeLock);
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
      const lock = decodeLock(gone.old);
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

  async raiseVersion(jobId: string, version: number): Promise<'raised' | 'lost'> {
    const callId = randomUUID();
    const outcome = await this.#table.update('raiseVersion', {
      key: jobKey(jobId),
      update: 'SET #version = :next, #callId = :callId',
      condition: '#state = :pending AND #version = :version',
      values: { ...stateValues('pending'), ...versionValues(version), ':callId': callId },
    });
    if (!outcome.applied) return outcome.old?.[ATTRIBUTE.callId] === callId ? 'raised' : 'lost';
    return 'raised';
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

  async retireLine(partition: number, line: ReadyLine, announcedAtMs: number): Promise<'retired' | 'lost'> {
    const key = backlogKey(partition, line.tier, line.fairnessKey);
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
      if (backlog?.lines.some((each) => encodeBacklogLine(each) === name) !== true) return 'retired';
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
    const { jobId, claimId, workerId, incarnation, nowMs } = request;
    const outcome = await this.#changeJob('startJob', jobId, {
      update: 'SET #state = :running, #version = #version + :one, #worker = :worker, #startedAtMs = :now',
      condition: '#state = :claimed AND #claim.#claimId = :claimId',
      values: {
        ...stateValues('running', 'claimed'),
        ':one': 1,
        ':worker': encodeWorker({ workerId, incarnation }),
        ':now': nowMs,
        ':claimId': claimId,
      },
    });
    const { job } = outcome;
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
    const outcome = await this.#table.update('saveCheckpoint', {
      key: jobKey(job.id),
      update: 'SET #checkpoint = :checkpoint',
      condition: HELD_BY_WORKER,
      values: {
        ...stateValues('running'),
        ...holderValues(worker),
        ':claimId': claimIdOf('saveCheckpoint', job),
        ':checkpoint': encodeJson(checkpoint),
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
          update: `SET #incarnation = :incarnation, #fleet = :fleet${former}, ${RENEWED}`,
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
    const outcome = await this.#table.update('heartbeat', {
      key: workerKey(partition, record.workerId),
      update: `SET ${RENEWED}`,
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
    return items.map(decodeDispatcher).filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  }

  // Operators

  async cancelJob(jobId: string, nowMs: number, expiresAtMs: number): Promise<CancelOutcome> {
    const callId = randomUUID();
    // A worker may start the job, or give it up, between the two writes.
    for (let tries = 1; tries <= CANCEL_TRIES_MAX; tries += 1) {
      const cancelled = await this.#changeJob('cancelJob', jobId, {
        // Of an earlier attempt, `finishedAtMs` says what that used.
        update: `SET #state = :cancelled, #version = #version + :one, #ttl = :ttl, #callId = :callId,
          #finishedAtMs = if_not_exists(#finishedAtMs, :now) REMOVE #line, #rank`,
        condition: '#state IN (:scheduled, :pending, :claimed)',
        values: {
          ...stateValues('cancelled', 'scheduled', 'pending', 'claimed'),
          ':one': 1,
          ':now': nowMs,
          ':ttl': ttlSec(expiresAtMs),
          ':callId': callId,
        },
      });
      if (cancelled.applied) return { kind: 'cancelled', job: cancelled.job };
      const { job, callId: lastCall } = cancelled;
      if (job === undefined) return { kind: 'missing' };
      if (isTerminal(job.state)) return { kind: lastCall === callId ? 'cancelled' : 'ended', job };
      const requested = await this.#changeJob('cancelJob', jobId, {
        update: 'SET #cancelRequestedAtMs = if_not_exists(#cancelRequestedAtMs, :now)',
        condition: '#state = :running',
        values: { ...stateValues('running'), ':now': nowMs },
      });
      if (requested.applied) return { kind: 'requested', job: requested.job };
    }
    throw new StoreThrottled(
      `cancelJob: job ${jobId} moved on at each of ${CANCEL_TRIES_MAX} tries, nothing was changed; try again`,
    );
  }

  async retimeJob(job: Job, runAtMs: number, nowMs: number): Promise<RetimeOutcome> {
    const transition = retime(job, runAtMs, nowMs);
    if (transition.kind === 'refused') {
      const [present] = await this.getJobs([job.id]);
      return unmoved(present);
    }
    const next = transition.job;
    if (next.state === 'scheduled') await this.#noteDueShard(next);
    // A job that is ready, and stays so, stays where it stands: it may be parked.
    const standing = job.state === 'pending' && next.state === 'pending' ? undefined : this.#standingOf(next);
    const callId = randomUUID();
    const outcome = await this.#table.update('retimeJob', {
      key: jobKey(job.id),
      update: `SET #state = :after, #version = :next, #runAtMs = :runAt, #readyAtMs = :readyAt, #callId = :callId
        ${standing === undefined ? '' : ', #line = :line, #rank = :rank'}`,
      condition: '#state = :before AND #version = :version',
      values: {
        ':before': job.state,
        ':after': next.state,
        ...versionValues(job.version),
        ':runAt': next.runAtMs,
        ':readyAt': next.readyAtMs,
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

  async changeControl(partition: number, scope: string, change: ControlChange): Promise<Control> {
    const key = controlKey(partition, scope);
    const { sets, removes, values } = controlUpdate(change);
    const outcome = await this.#table.update('changeControl', {
      key,
      update: `SET ${sets.join(', ')}${removes.length === 0 ? '' : ` REMOVE ${removes.join(', ')}`}`,
      values: { ...values, ':scope': scope },
    });
    const item = outcome.applied ? outcome.item : outcome.old;
    if (item === undefined) throw new StoreUnavailable(`changeControl: ${scope} was not answered; repeat it`);
    const control = decodeControl(item);
    // Nobody sees one that is idle; another operator may have changed it since.
    if (isIdle(control)) {
      await this.#hint(() => this.#table.delete('changeControl', key, IDLE_CONTROL, { ':false': false }));
    }
    return control;
  }

  async askForLoan(partition: number, request: LoanRequest): Promise<void> {
    await this.#table.put('askForLoan', { item: encodeRequest(partition, request) });
  }

  async readDeadLetters(partition: number, limit: number, after?: string): Promise<LinePage<Job>> {
    const { items, next } = await this.#heads('readDeadLetters', deadLineName(partition), limit, after);
    const keys = items.map((item) => jobKey(decodeJobHead(item).id));
    const jobs = await this.#getAll('readDeadLetters', keys, (item) =>
      this.#isGone(item) ? undefined : decodeJob(item),
    );
    return {
      jobs: jobs.filter((job) => job?.state === 'failed' && job.redrivenAs === undefined) as Job[],
      next,
    };
  }

  async redrive(deadLetter: Job, job: Job): Promise<Applied> {
    const outcome = await this.#table.transact('redrive', randomUUID(), [
      this.#table.putPart({
        item: encodeJob(job, this.#standingOf(job)),
        condition: 'attribute_not_exists(#pk)',
      }),
      this.#table.updatePart({
        key: jobKey(deadLetter.id),
        update: 'SET #redrivenAs = :id REMOVE #line, #rank',
        condition: '#state = :failed AND #version = :version AND attribute_not_exists(#redrivenAs)',
        values: { ...stateValues('failed'), ':version': deadLetter.version, ':id': job.id },
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
        const present = answer.old === undefined ? undefined : decodeJob(answer.old);
        // The answer of an earlier try got lost: it was won then.
        outcomes.set(request, present?.claim?.claimId === request.claimId ? 'claimed' : 'lost');
      }
    });
    return outcomes;
  }

  async #claimJob(request: ClaimRequest): Promise<ClaimOutcome> {
    const { jobId, version, claimId, epoch, batchId, fleet, claimedAtMs, lock } = request;
    const change = {
      update: `SET #state = :claimed, #version = :next, #claim = :claim
        REMOVE #line, #rank, #worker, #startedAtMs, #finishedAtMs`,
      condition: '#state = :pending AND #version = :version',
      values: {
        ...stateValues('claimed', 'pending'),
        ...versionValues(version),
        ':claim': encodeClaim({ claimId, epoch, batchId, fleet, claimedAtMs }),
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
    const values = {
      ...end.values,
      ...stateValues('running'),
      ':claimId': claimId,
      ':one': 1,
      ':lost': end.workersLost,
    };
    const counted = '#version = #version + :one, #workersLost = #workersLost + :lost';
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
    return { applied: false, ...(old === undefined ? { job: old } : jobAndCall(old)) };
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
    const settled = [...known.batches].filter(([batchId, places]) => {
      const mark = known.page.batches.get(batchId);
      return mark !== undefined && places.every((place) => mark.settled.has(place));
    });
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
    await inParallel(moves, PARALLEL_MAX, ({ tier, fairnessKey, from, to }) =>
      this.#hint(() =>
        this.#table.update('tidy', {
          key: backlogKey(partition, tier, fairnessKey),
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
    const { tier, rank, sub } = this.#place(job);
    const { type, mode, fairnessKey } = job;
    return { line: readyLineName(job.partition, { tier, type, mode, fairnessKey, sub }), rank };
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
  async #collection(verb: string, pk: string): Promise<readonly Item[]> {
    const items: Item[] = [];
    let after: Item | undefined;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const answer = await this.#table.query(verb, { condition: '#pk = :pk', values: { ':pk': pk }, after });
      items.push(...answer.items);
      after = answer.next;
      if (after === undefined) return items;
    }
    throw new StoreRefused(
      `${verb}: ${pk} holds more than ${PAGES_MAX} pages of items; delete what is left over`,
    );
  }

  /** Up to `limit` items of a line, in its order; `next` only if more follow. */
  async #heads(
    verb: string,
    line: string,
    limit: number,
    cursor: string | undefined,
    { below, prefix }: { readonly below?: string | undefined; readonly prefix?: string | undefined } = {},
  ): Promise<{ readonly items: readonly Item[]; readonly next: string | undefined }> {
    if (limit < 1) return { items: [], next: cursor };
    const items: Item[] = [];
    let after = cursor === undefined ? undefined : decodeCursor(verb, line, cursor);
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const answer = await this.#table.query(verb, {
        index: TABLE.linesIndex,
        condition: `#line = :line${below === undefined ? '' : ' AND #rank < :below'}${
          prefix === undefined ? '' : ' AND begins_with(#rank, :prefix)'
        }`,
        values: {
          ':line': line,
          ...(below === undefined ? {} : { ':below': below }),
          ...(prefix === undefined ? {} : { ':prefix': prefix }),
        },
        // One more than asked for tells whether the line goes on.
        limit: limit + 1 - items.length,
        after,
      });
      items.push(...answer.items);
      after = answer.next;
      if (after === undefined || items.length > limit) break;
    }
    const last = items.length > limit ? items[limit - 1] : undefined;
    return { items: items.slice(0, limit), next: last === undefined ? undefined : encodeCursor(last) };
  }
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
    const mark = known.page.batches.get(batchId);
    const left = known.batches.get(batchId)?.filter((place) => mark?.settled.has(place) !== true) ?? [];
    if (left.length > 0) continue;
    throw new StaleCommit(
      `the commit under epoch ${fence.epoch} changes the reservation ${batchId}, which is gone; load partition ${fence.partition} again`,
    );
  }
}

const IDLE_CONTROL =
  '#paused = :false AND attribute_not_exists(#maxConcurrency) AND attribute_not_exists(#weight)';

/** Touches what the change names, and makes the item one that can be read. */
function controlUpdate(change: ControlChange): {
  readonly sets: readonly string[];
  readonly removes: readonly string[];
  readonly values: Item;
} {
  const sets = [
    '#scope = :scope',
    `#paused = ${change.paused === undefined ? 'if_not_exists(#paused, :paused)' : ':paused'}`,
  ];
  const removes: string[] = [];
  const values: Record<string, unknown> = { ':paused': change.paused ?? false };
  for (const name of ['maxConcurrency', 'weight'] as const) {
    const to = change[name];
    if (to === null) removes.push(`#${name}`);
    else if (to !== undefined) {
      sets.push(`#${name} = :${name}`);
      values[`:${name}`] = to;
    }
  }
  return { sets, removes, values };
}

const CANCEL_TRIES_MAX = 5;

const REGISTER_TRIES_MAX = 3;

/** `#claimJob`'s change and condition, for several jobs at once. */
const CLAIM_STATEMENT = `SET #state = ? SET #version = ? SET #claim = ?
  REMOVE #line REMOVE #rank REMOVE #worker REMOVE #startedAtMs REMOVE #finishedAtMs
  WHERE #pk = ? AND #sk = ? AND #state = ? AND #version = ?`;

function claimParameters(request: ClaimRequest): readonly unknown[] {
  const { jobId, version, claimId, epoch, batchId, fleet, claimedAtMs } = request;
  const { pk, sk } = jobKey(jobId);
  const claim = encodeClaim({ claimId, epoch, batchId, fleet, claimedAtMs });
  return ['claimed', version + 1, claim, pk, sk, 'pending', version];
}

/** Runs under exactly this claim, in this life of this worker. */
const HELD_BY_WORKER = `#state = :running AND #claim.#claimId = :claimId
  AND #worker.#workerId = :workerId AND #worker.#incarnation = :incarnation`;

/** What a heartbeat renews of a worker's record. */
const RENEWED =
  '#slots = :slots, #isEnding = :ending, #occupants = :occupants, #expiresAtMs = :expires, #ttl = :ttl';

const renewalValues = (record: WorkerRecord): Item => ({
  ':slots': record.slots,
  ':ending': record.isEnding === true,
  ':occupants': encodeOccupants(record),
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
    case 'retry':
      return {
        update: `SET #state = :scheduled, ${counted}, #attempt = :attempt, #runAtMs = :runAt, #readyAtMs = :runAt,
          #finishedAtMs = :now, #error = :error, #line = :line, #rank = :rank`,
        values: {
          ...common,
          ':attempt': attempt,
          ':runAt': verdict.runAtMs,
          ':error': encodeError(verdict.error),
          ...standingValues(dueStanding(running, verdict.runAtMs, shard)),
        },
      };
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
