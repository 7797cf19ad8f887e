/**
 * The store in memory: the same verbs, the same conditions, the same awkwardness, one thread. For tests, for
 * simulation under a virtual clock, and for trying a configuration without a cloud.
 *
 * Each verb is one atomic step behind an `await`. Jobs are immutable, so they are shared and never copied.
 */
import type { Job, Json, ReservedJob } from '../../core/job.ts';
import { isTerminal } from '../../core/job.ts';
import type { Loan, LoanRequest } from '../../core/lending.ts';
import {
  askForEnd,
  cancel,
  claim,
  finish,
  type GivenUp,
  giveBack,
  loseWorker,
  promote,
  raiseVersion,
  rehome,
  retime,
  start,
  type Transition,
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
  type ControlField,
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
  isOpenTo,
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
import { declarationHash } from '../declaration.ts';
import {
  CommitAmbiguous,
  CommitTooLarge,
  StaleCommit,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
} from '../errors.ts';
import type { Meter } from '../metering.ts';
import { asMarked, EMPTY_PAGE, lendingItems, type Page, partsOf, turnPage } from '../page.ts';
import {
  type AnnouncedLine,
  behindGroup,
  blockedGroup,
  blockedLineName,
  blockedRank,
  costOfRank,
  costRank,
  deadLineName,
  dueLineName,
  instantRank,
  keysLineName,
  latestFirstRank,
  nextInTurn,
  type ReadyLine,
  readyLineName,
} from '../schema.ts';
import { Bill } from './bill.ts';
import {
  requireCommitFits,
  requireDeclarationFits,
  requireJobFits,
  requireRejectionFits,
  requireWorkerFits,
} from './fits.ts';
import type { After, StoreEvent, StoreImitation, StreamRecord } from './imitation.ts';
import { type LineEntry, LinesIndex } from './lines.ts';
import { compareText, type Placed } from './sorted-line.ts';
import { TimeHeap } from './time-heap.ts';

/**
 * Where a job waits once it is ready: its place in its line, and which part of it, where lines are split. Ranks are
 * compared as text.
 */
export type Place = (job: JobHead) => {
  readonly rank: string;
  readonly sub?: number | undefined;
};

export interface MemoryStoreOptions {
  /** Epoch milliseconds. */
  readonly clock: () => number;
  /** Evenly distributed in [0, 1); seeded where a run must be repeatable. */
  readonly random: () => number;
  readonly place: Place;
  readonly imitate?: StoreImitation | undefined;
  /** Delivers stream records; without it they come at once, behind the running step. */
  readonly after?: After | undefined;
  /** Sees everything as it happens. */
  readonly observe?: ((event: StoreEvent<Job>) => void) | undefined;
}

/** A job's item. In no line while `line` is empty. */
interface JobItem extends LineEntry<Job> {
  readonly expiresAtMs?: number | undefined;
}

interface Lease {
  readonly epoch: number;
  readonly holder: string | undefined;
  readonly expiresAtMs: number;
  /** Once it was given back: by whom. */
  readonly lastHolder?: string | undefined;
  readonly takenAtMs?: number | undefined;
  readonly wakesSeen?: number | undefined;
}

/** A partition's items as they are: to look at, not to change. */
export interface PartitionView {
  readonly lease: {
    readonly epoch: number;
    readonly holder: string | undefined;
    readonly expiresAtMs: number;
  };
  /** The declaration that it was told of, and how far its jobs were carried over to which. */
  readonly declared?: number | undefined;
  readonly carried?: Carried | undefined;
  readonly reservations: ReadonlyMap<string, Reservation>;
  readonly workers: ReadonlyMap<string, WorkerRecord>;
  readonly controls: ReadonlyMap<string, Control>;
  /** By id: lent or borrowed. */
  readonly loans: ReadonlyMap<string, Loan>;
  readonly ledgers: ReadonlyMap<string, Ledger>;
  readonly backlogs: ReadonlyMap<string, ReadonlyMap<string, { readonly value: KeyBacklog }>>;
  /** Marks of blocked lines, by conflict key, and whether passes look for them. */
  readonly parked: ReadonlyMap<string, number>;
  readonly parks: boolean;
}

interface PartitionItems {
  lease: Lease;
  declared?: number | undefined;
  carried?: Carried | undefined;
  wakes: number;
  page: Page;
  dueShards: number;
  lookout: Lookout | undefined;
  /** Reservations as they were made, until they are taken away. */
  readonly batches: Map<string, Reservation>;
  /** Ledgers and estimates that stand beside the page. */
  readonly ownLedgers: Map<string, Ledger>;
  readonly ownEstimates: Map<string, EstimateRecord>;
  // What all of this means, for whoever inspects it.
  readonly reservations: Map<string, Reservation & { readonly jobs: Map<number, ReservedJob> }>;
  readonly workers: Map<string, WorkerRecord>;
  readonly controls: Map<string, Control>;
  /** By scope: how often each part of its control was changed. */
  readonly controlRevisions: Map<string, Partial<Record<ControlField, number>>>;
  readonly loans: Map<string, Loan>;
  /** By the partition that asks. */
  readonly requests: Map<number, LoanRequest>;
  readonly ledgers: Map<string, Ledger>;
  /** By conflict key: when jobs were last parked. */
  readonly parked: Map<string, number>;
  /** By fairness key, then by type. */
  readonly backlogs: Map<string, Map<string, LineEntry<KeyBacklog>>>;
}

const estimateId = (type: string, resourceId: string): string => JSON.stringify([type, resourceId]);

const tokenOf = (place: Placed): string => JSON.stringify([place.rank, place.id]);

function placeOf(token: string | undefined): Placed | undefined {
  if (token === undefined) return undefined;
  const [rank, id] = JSON.parse(token) as [string, string];
  return { rank, id };
}

const immediately: After = (_delayMs, action) => queueMicrotask(action);

export class MemoryJobStore implements JobStore {
  readonly #clock: () => number;
  readonly #random: () => number;
  #place: Place;
  /** Of whoever asks now. */
  #asked: Place;
  readonly #imitate: StoreImitation;
  readonly #bill = new Bill();
  readonly #after: After;
  readonly #jobs = new Map<string, JobItem>();
  readonly #expiring = new TimeHeap<JobItem>();
  readonly #rejections = new Map<string, Map<number, Rejection>>();
  readonly #partitions = new Map<number, PartitionItems>();
  readonly #locks = new Map<string, Lock>();
  /** By version, from 1. */
  readonly #declarations: DeclarationRecord[] = [];
  /** By name. One that has left has an expiry of 0. */
  readonly #dispatchers = new Map<string, DispatcherRecord>();
  readonly #jobLines: LinesIndex<Job>;
  readonly #keyLines: LinesIndex<KeyBacklog>;
  readonly #listeners = new Set<(record: StreamRecord<Job>) => void>();
  readonly #observe: ((event: StoreEvent<Job>) => void) | undefined;
  // What the running step was asked, for whoever observes.
  #verb = '';
  #input: unknown;

  constructor(options: MemoryStoreOptions) {
    this.#clock = options.clock;
    this.#random = options.random;
    this.#place = options.place;
    this.#asked = options.place;
    this.#imitate = options.imitate ?? {};
    this.#after = options.after ?? immediately;
    this.#observe = options.observe;
    const lagMs = this.#imitate.indexLagMs === undefined ? undefined : () => this.#late('indexLagMs');
    this.#jobLines = new LinesIndex({ clock: this.#clock, lagMs });
    this.#keyLines = new LinesIndex({ clock: this.#clock, lagMs });
  }

  /**
   * Hears of every change of a job item, after it. Late, twice, never, in any order, as far as that is imitated.
   *
   * @returns a function that ends the subscription
   */
  subscribe(listener: (record: StreamRecord<Job>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A call by a process that puts jobs elsewhere than others do: it knows another declaration. */
  placing<T>(place: Place, call: () => T): T {
    const others = this.#asked;
    this.#asked = place;
    try {
      return call();
    } finally {
      this.#asked = others;
    }
  }

  /** Tells from now on what a table would bill for each verb; undefined ends it. */
  set meter(meter: Meter | undefined) {
    this.#bill.meter = meter;
  }

  // Submitting

  async createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]> {
    return this.#write('createJobs', () =>
      jobs.map((job): CreateOutcome => {
        const present = this.#item(job.id)?.value;
        if (present === undefined) {
          requireJobFits(job, job.payload);
          this.#put(undefined, job);
          return { kind: 'created', job };
        }
        this.#bill.refused('createJobs', this.#item(job.id));
        const kind = present.contentHash === job.contentHash ? 'repeated' : 'conflict';
        return { kind, job: present };
      }),
    );
  }

  async announceLines(
    partition: number,
    lines: readonly AnnouncedLine[],
    nowMs: number,
    keyTtlMs: number | null = null,
  ): Promise<void> {
    return this.#write('announceLines', () => {
      const { backlogs, ledgers } = this.#partition(partition);
      for (const line of lines) {
        const { fairnessKey, type } = line;
        const present = backlogs.get(fairnessKey)?.get(type)?.value;
        const wasAway =
          present !== undefined && keyTtlMs !== null && nowMs - present.announcedAtMs >= keyTtlMs;
        const stoodAtMs = present?.rankCostMs ?? rankCostOf(ledgers.get(fairnessKey), nowMs, keyTtlMs);
        this.#putBacklog(
          partition,
          type,
          {
            ...withLine(present ?? { fairnessKey, lines: [], announcedAtMs: nowMs }, line),
            announcedAtMs: Math.max(nowMs, present?.announcedAtMs ?? -Infinity),
          },
          wasAway ? 0 : stoodAtMs,
        );
      }
    });
  }

  async recordRejections(rejections: readonly Rejection[]): Promise<void> {
    return this.#write('recordRejections', () => {
      for (const rejection of rejections) {
        requireRejectionFits(rejection);
        const bySource = this.#rejections.get(rejection.sourceId) ?? new Map<number, Rejection>();
        this.#rejections.set(rejection.sourceId, bySource);
        if (!bySource.has(rejection.position)) bySource.set(rejection.position, rejection);
      }
    });
  }

  // Reading

  async getJobs(ids: readonly string[]): Promise<readonly (Job | undefined)[]> {
    return this.#read('getJobs', () => {
      const items = ids.map((id) => this.#item(id));
      this.#bill.readJobs('getJobs', items);
      return items.map((item) => item?.value);
    });
  }

  async listRejections(sourceId: string): Promise<readonly Rejection[]> {
    return this.#read('listRejections', () => {
      const nowMs = this.#clock();
      return [...(this.#rejections.get(sourceId)?.values() ?? [])]
        .filter((rejection) => rejection.expiresAtMs > nowMs)
        .sort((a, b) => a.position - b.position);
    });
  }

  // The declaration

  async readDeclaredVersion(): Promise<number> {
    return this.#read('readDeclaredVersion', () => {
      this.#bill.small('readDeclaredVersion', 'read');
      return this.#declarations.length;
    });
  }

  async readDeclaration(version?: number): Promise<DeclarationRecord | undefined> {
    return this.#read('readDeclaration', () => {
      this.#bill.small('readDeclaration', 'read');
      return this.#declarations.at(version === undefined ? -1 : version - 1);
    });
  }

  async putDeclaration(text: string, after: number, nowMs: number): Promise<DeclareOutcome> {
    return this.#write('putDeclaration', () => {
      requireDeclarationFits(text);
      const newest = this.#declarations.length;
      const hash = declarationHash(text);
      const last = this.#declarations.at(-1);
      // As in a table, a repetition meets its own success.
      const isOwn = newest === after + 1 && last?.hash === hash && last.declaredAtMs === nowMs;
      if (isOwn) return { kind: 'declared', version: newest };
      if (newest !== after) return { kind: 'outdated', version: newest };
      const record = { version: after + 1, hash, text, declaredAtMs: nowMs };
      this.#declarations.push(record);
      this.#observe?.({ kind: 'declared', record });
      return { kind: 'declared', version: after + 1 };
    });
  }

  async announceDeclaration(partition: number, version: number): Promise<void> {
    return this.#write('announceDeclaration', () => {
      this.#bill.small('announceDeclaration', 'write');
      const items = this.#partition(partition);
      items.declared = Math.max(version, items.declared ?? 0);
    });
  }

  // The partition's lease and wake counter

  async acquireLease(
    partition: number,
    holder: string,
    nowMs: number,
    leaseMs: number,
  ): Promise<LeaseOutcome> {
    return this.#write('acquireLease', () => {
      this.#bill.small('acquireLease', 'write');
      const items = this.#partition(partition);
      const { epoch, expiresAtMs, holder: present } = items.lease;
      if (present !== undefined && expiresAtMs > nowMs)
        return { kind: 'held', epoch, expiresAtMs, holder: present };
      const { wakesSeen } = items.lease;
      items.lease = {
        epoch: epoch + 1,
        holder,
        expiresAtMs: nowMs + leaseMs,
        takenAtMs: nowMs,
        wakesSeen,
      };
      this.#observe?.({ kind: 'lease', verb: 'acquireLease', partition, epoch: epoch + 1, holder });
      const known = wakesSeen === undefined ? {} : { wakesSeen };
      return { kind: 'acquired', epoch: epoch + 1, expiresAtMs: nowMs + leaseMs, ...known };
    });
  }

  async renewLease(fence: Fence, nowMs: number, leaseMs: number): Promise<'renewed' | 'lost'> {
    return this.#write('renewLease', () => {
      this.#bill.small('renewLease', 'write');
      const items = this.#partition(fence.partition);
      // A renewal that arrives after the release must not take the lease away from everybody.
      if (items.lease.epoch !== fence.epoch || items.lease.holder === undefined) return 'lost';
      items.lease = { ...items.lease, expiresAtMs: nowMs + leaseMs };
      return 'renewed';
    });
  }

  async releaseLease(fence: Fence, wakesSeen?: number): Promise<'released' | 'lost'> {
    return this.#write('releaseLease', () => {
      this.#bill.small('releaseLease', 'write');
      const items = this.#partition(fence.partition);
      if (items.lease.epoch !== fence.epoch) return 'lost';
      const seen = wakesSeen ?? items.lease.wakesSeen;
      const { takenAtMs, holder: lastHolder = items.lease.lastHolder } = items.lease;
      items.lease = {
        epoch: fence.epoch,
        holder: undefined,
        lastHolder,
        takenAtMs,
        expiresAtMs: 0,
        wakesSeen: seen,
      };
      return 'released';
    });
  }

  async readLease(partition: number): Promise<LeaseRecord | undefined> {
    return this.#read('readLease', () => {
      this.#bill.small('readLease', 'read');
      const { epoch, holder, lastHolder, takenAtMs, expiresAtMs } = this.#partition(partition).lease;
      if (epoch === 0) return undefined;
      return {
        epoch,
        ...present('holder', holder ?? lastHolder),
        isHeld: holder !== undefined,
        ...present('takenAtMs', takenAtMs),
        expiresAtMs,
      };
    });
  }

  async wake(partition: number): Promise<void> {
    return this.#write('wake', () => {
      this.#bill.small('wake', 'write');
      this.#partition(partition).wakes += 1;
    });
  }

  async readWakes(partition: number): Promise<number> {
    return this.#read('readWakes', () => {
      this.#bill.small('readWakes', 'read');
      return this.#partition(partition).wakes;
    });
  }

  // The pass

  async loadPartition(partition: number, nowMs: number): Promise<PartitionState> {
    return this.#read('loadPartition', () => {
      const {
        lease,
        declared,
        carried,
        page,
        batches,
        workers,
        controls,
        dueShards,
        loans,
        requests,
        lookout,
      } = this.#partition(partition);
      const small =
        workers.size + controls.size + loans.size + requests.size + (lookout === undefined ? 0 : 1);
      this.#bill.load(partition, page, batches.values(), small);
      return {
        epoch: lease.epoch,
        declared,
        carried,
        turn: page.turn,
        reservations: [...batches.values()].flatMap((each) => asMarked(each, page) ?? []),
        workers: [...workers.values()].flatMap((worker) => workerAt(worker, nowMs) ?? []),
        gone: [...workers.values()].filter((worker) => workerAt(worker, nowMs) === undefined),
        lookout,
        controls: [...controls.values()],
        ledgers: [...page.ledgers.values()],
        estimates: [...page.estimates.values()],
        parks: page.parks,
        dueShards,
        attendance: page.attendance,
        liftedAtMs: page.liftedAtMs,
        isLifted: page.isLifted,
        loans: [...loans.values()],
        requests: [...requests.values()],
      };
    });
  }

  async keepLookout(partition: number, seen: Lookout | undefined, next: Lookout): Promise<Applied> {
    return this.#write('keepLookout', () => {
      this.#bill.small('keepLookout', 'write');
      const items = this.#partition(partition);
      if (!isSameLook(items.lookout, seen)) return 'superseded';
      items.lookout = { ...next };
      return 'applied';
    });
  }

  async readKeys(
    partition: number,
    type: string,
    limit: number,
    after?: string,
  ): Promise<{ readonly keys: readonly KeyBacklog[]; readonly next?: string | undefined }> {
    return this.#read('readKeys', () => {
      const { entries, next } = headsOf(this.#keyLines, keysLineName(partition, type), limit, after);
      this.#bill.readKeys('readKeys', partition, type, entries);
      return { keys: entries.map((entry) => entry.value), next };
    });
  }

  async readBacklogs(
    partition: number,
    type: string,
    fairnessKeys: readonly string[],
  ): Promise<readonly (KeyBacklog | undefined)[]> {
    return this.#read('readBacklogs', () => {
      const { backlogs } = this.#partition(partition);
      this.#bill.readItems('readBacklogs', fairnessKeys.length);
      return fairnessKeys.map((key) => backlogs.get(key)?.get(type)?.value);
    });
  }

  async getLedgers(
    partition: number,
    fairnessKeys: readonly string[],
  ): Promise<readonly (Ledger | undefined)[]> {
    return this.#read('getLedgers', () => {
      const { page, ownLedgers } = this.#partition(partition);
      if (fairnessKeys.length > 0) this.#bill.readItems('getLedgers', fairnessKeys.length + 1);
      return fairnessKeys.map((key) => page.ledgers.get(key) ?? ownLedgers.get(key));
    });
  }

  async getEstimates(
    partition: number,
    ids: readonly { readonly type: string; readonly resourceId: string }[],
  ): Promise<readonly (EstimateRecord | undefined)[]> {
    return this.#read('getEstimates', () => {
      const { page, ownEstimates } = this.#partition(partition);
      const beside = ids.some(({ resourceId }) => resourceId === '') ? 1 : 0;
      this.#bill.readItems('getEstimates', ids.length + beside);
      return ids.map(
        ({ type, resourceId }) =>
          (resourceId === '' ? page.estimates.get(type) : undefined) ??
          ownEstimates.get(estimateId(type, resourceId)),
      );
    });
  }

  async readLine(partition: number, line: ReadyLine, limit: number, after?: string): Promise<Heads> {
    return this.#read('readLine', () => {
      return this.#headsOf('readLine', readyLineName(partition, line), limit, after);
    });
  }

  async readDue(
    partition: number,
    nowMs: number,
    limit: number,
    after?: string,
    shard = 0,
    fromMs?: number,
  ): Promise<Heads> {
    return this.#read('readDue', () => {
      const isDue = (job: Job): boolean => job.runAtMs <= nowMs;
      const from = fromMs === undefined ? after : tokenOf({ rank: instantRank(fromMs, ''), id: '' });
      return this.#headsOf('readDue', dueLineName(partition, shard), limit, from, isDue);
    });
  }

  async promote(jobs: readonly JobHead[], nowMs: number): Promise<readonly (Job | undefined)[]> {
    return this.#write('promote', () =>
      jobs.map((job) => {
        const item = this.#item(job.id);
        const transition = item?.value.version === job.version ? promote(item.value, nowMs) : undefined;
        if (transition?.kind === 'moved') return this.#put(item, transition.job);
        this.#bill.refused('promote', item);
        return undefined;
      }),
    );
  }

  async rehome(
    jobs: readonly JobHead[],
    partition: number,
    nowMs: number,
  ): Promise<readonly (Job | undefined)[]> {
    return this.#write('rehome', () =>
      jobs.map((job) => {
        const item = this.#item(job.id);
        const isSeen = item?.value.version === job.version;
        const transition = isSeen ? rehome(item.value, partition, nowMs) : undefined;
        if (transition?.kind === 'moved') return this.#put(item, transition.job);
        this.#bill.refused('rehome', item);
        return undefined;
      }),
    );
  }

  async commit(fence: Fence, commit: Commit): Promise<'committed' | 'lost'> {
    const touched = [...commit.drop, ...commit.postpone].map((each) => each.reservation.batchId);
    const batches = [...touched, ...commit.reserve.map((each) => each.batchId)];
    const items = 1 + batches.length + commit.ledgers.length + commit.estimates.length + lendingItems(commit);
    if (items > TRANSACTION_ITEMS_MAX) throw new CommitTooLarge(items);
    requireDistinct('reservation', batches);
    requireDistinct(
      'ledger',
      commit.ledgers.map((each) => each.fairnessKey),
    );
    requireDistinct(
      'estimate',
      commit.estimates.map((each) => estimateId(each.type, each.resourceId)),
    );
    return this.#write('commit', () => {
      if (this.#happens('transactionConflict')) {
        throw new StoreThrottled('commit: the transaction met another one; try again');
      }
      const { partition } = fence;
      const present = this.#partition(partition);
      if (present.lease.epoch !== fence.epoch) return 'lost';
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
      const turn = turnPage(present.page, commit, present.batches);
      if (partsOf(turn, commit) > TRANSACTION_ITEMS_MAX) throw new CommitTooLarge(partsOf(turn, commit));
      requireCommitFits(partition, turn, commit);
      this.#bill.committed(partition, present.page, turn, commit);
      present.page = turn.page;
      for (const reservation of turn.absorbed) {
        if (reservation.jobs.size > 0) present.batches.set(reservation.batchId, reservation);
        else present.batches.delete(reservation.batchId);
      }
      for (const ledger of turn.spilled) present.ownLedgers.set(ledger.fairnessKey, ledger);
      for (const each of turn.estimates)
        present.ownEstimates.set(estimateId(each.type, each.resourceId), each);
      for (const { reservation, positions } of commit.drop)
        this.#drop(present, reservation.batchId, positions);
      for (const { reservation, checkAtMs } of commit.postpone) {
        const stored = present.reservations.get(reservation.batchId);
        if (stored !== undefined) present.reservations.set(stored.batchId, { ...stored, checkAtMs });
      }
      for (const ledger of commit.ledgers) {
        present.ledgers.set(ledger.fairnessKey, ledger);
        for (const [type, entry] of present.backlogs.get(ledger.fairnessKey) ?? []) {
          this.#putBacklog(partition, type, entry.value);
        }
      }
      for (const reservation of commit.reserve) {
        // Its own copy: places leave it one by one.
        present.reservations.set(reservation.batchId, { ...reservation, jobs: new Map(reservation.jobs) });
        present.batches.set(reservation.batchId, reservation);
      }
      this.#lend(partition, commit);
      this.#observe?.({ kind: 'committed', fence, commit, epoch: present.lease.epoch });
      return 'committed';
    });
  }

  /** Here a commit leaves every key in its place. */
  async tidy(partition: number): Promise<void> {
    return this.#write('tidy', () => {
      const { page, batches } = this.#partition(partition);
      for (const [batchId, reservation] of batches) {
        if (asMarked(reservation, page) !== undefined) continue;
        batches.delete(batchId);
        this.#bill.deletedReservation(partition, reservation);
      }
    });
  }

  async readBlocked(partition: number, conflictKey: string, groups: number, after?: string): Promise<Heads> {
    return this.#read('readBlocked', () => {
      const line = blockedLineName(partition, conflictKey);
      const jobs: Job[] = [];
      let from = after;
      for (let count = 0; count < groups; count += 1) {
        const start = from === undefined ? undefined : { rank: from, id: '' };
        const entries = this.#jobLines.read(line, BLOCKED_HEADS, start);
        const [first] = entries;
        if (first === undefined) return { jobs };
        const group = blockedGroup(first.value);
        const heads = entries.filter(({ rank }) => rank.startsWith(group));
        this.#bill.readHeads('readBlocked', heads);
        jobs.push(...heads.map(({ value }) => value));
        from = behindGroup(group);
      }
      const follows = this.#jobLines.read(line, 1, from === undefined ? undefined : { rank: from, id: '' });
      return follows.length === 0 ? { jobs } : { jobs, next: from };
    });
  }

  async park(
    fence: Fence,
    jobs: readonly JobHead[],
    conflictKey: string,
  ): Promise<readonly Applied[] | 'lost'> {
    return this.#write('park', () => {
      this.#bill.small('park', 'write');
      if (this.#partition(fence.partition).lease.epoch !== fence.epoch) return 'lost';
      return jobs.map(({ id, version }): Applied => {
        const item = this.#item(id);
        if (item?.value.state !== 'pending' || item.value.version !== version) {
          this.#bill.refused('park', item);
          return 'superseded';
        }
        const { rank } = this.#place(item.value);
        const line = blockedLineName(item.value.partition, conflictKey);
        this.#put(item, item.value, undefined, { line, rank: blockedRank(item.value, rank) });
        return 'applied';
      });
    });
  }

  async unpark(jobs: readonly JobHead[], conflictKey: string): Promise<readonly Applied[]> {
    return this.#write('unpark', () =>
      jobs.map(({ id, version }): Applied => {
        const item = this.#item(id);
        const isParked =
          item?.value.state === 'pending' &&
          item.value.version === version &&
          item.line === blockedLineName(item.value.partition, conflictKey);
        if (item === undefined || !isParked) {
          this.#bill.refused('unpark', item);
          return 'superseded';
        }
        this.#put(item, item.value, undefined, this.#readyStanding(item.value));
        return 'applied';
      }),
    );
  }

  async markParked(partition: number, conflictKeys: readonly string[], nowMs: number): Promise<void> {
    return this.#write('markParked', () => {
      const { parked } = this.#partition(partition);
      for (const conflictKey of conflictKeys) {
        this.#bill.small('markParked', 'write');
        parked.set(conflictKey, Math.max(nowMs, parked.get(conflictKey) ?? -Infinity));
      }
    });
  }

  async readParked(partition: number, conflictKeys: readonly string[]): Promise<readonly ParkedMark[]> {
    return this.#read('readParked', () => {
      this.#bill.readItems('readParked', conflictKeys.length);
      const { parked } = this.#partition(partition);
      return [...new Set(conflictKeys)].flatMap((conflictKey) => {
        const parkedAtMs = parked.get(conflictKey);
        return parkedAtMs === undefined ? [] : [{ conflictKey, parkedAtMs }];
      });
    });
  }

  async listParked(
    partition: number,
    limit: number,
    after?: string,
  ): Promise<{ readonly marks: readonly ParkedMark[]; readonly next?: string | undefined }> {
    return this.#read('listParked', () => {
      const { parked } = this.#partition(partition);
      const keys = [...parked.keys()].filter((key) => after === undefined || key > after).sort(compareText);
      this.#bill.readItems('listParked', Math.min(keys.length, limit));
      const marks = keys
        .slice(0, limit)
        .map((conflictKey) => ({ conflictKey, parkedAtMs: parked.get(conflictKey) ?? 0 }));
      return { marks, ...(keys.length > limit ? { next: marks.at(-1)?.conflictKey } : {}) };
    });
  }

  async unmarkParked(partition: number, { conflictKey, parkedAtMs }: ParkedMark): Promise<Applied> {
    return this.#write('unmarkParked', () => {
      this.#bill.small('unmarkParked', 'write');
      const { parked } = this.#partition(partition);
      const present = parked.get(conflictKey);
      if (present !== undefined && present !== parkedAtMs) return 'superseded';
      parked.delete(conflictKey);
      return 'applied';
    });
  }

  async claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]> {
    await undefined;
    return requests.map((request): ClaimOutcome => {
      if (this.#happens('throttled')) return 'unknown';
      this.#verb = 'claim';
      this.#input = request;
      const outcome = this.#claimOne(request);
      return this.#happens('unanswered') ? 'unknown' : outcome;
    });
  }

  async readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]> {
    return this.#read('readLocks', () => {
      this.#bill.readItems('readLocks', conflictKeys.length);
      return conflictKeys.map((key) => this.#locks.get(key));
    });
  }

  async awaitLock(conflictKey: string, partition: number, nowMs: number): Promise<'waiting' | 'open'> {
    return this.#write('awaitLock', () => {
      this.#bill.small('awaitLock', 'write');
      const lock = this.#locks.get(conflictKey);
      if (lock === undefined || isOpenTo(lock, partition, nowMs)) return 'open';
      const waiting = [...new Set([...lock.waiting, partition])].sort((one, other) => one - other);
      this.#locks.set(conflictKey, { ...lock, waiting });
      return 'waiting';
    });
  }

  async releaseLock(
    conflictKey: string,
    partition: number,
    claimId: string,
    untilMs: number,
  ): Promise<{ readonly next?: number | undefined }> {
    return this.#write('releaseLock', () => {
      this.#bill.small('releaseLock', 'write');
      const lock = this.#locks.get(conflictKey);
      if (lock?.holder?.claimId !== claimId || lock.holder.partition !== partition) {
        // Somebody else's by now, or given back before: whose turn it is then was woken.
        return lock?.turn === undefined ? {} : { next: lock.turn.partition };
      }
      const next = nextInTurn(lock.waiting, partition);
      if (next === undefined) {
        this.#locks.delete(conflictKey);
        return {};
      }
      const waiting = lock.waiting.filter((each) => each !== next);
      this.#locks.set(conflictKey, { conflictKey, turn: { partition: next, untilMs }, waiting });
      return { next };
    });
  }

  async raiseVersion(jobId: string, version: number, given?: GivenUp): Promise<'raised' | 'lost'> {
    return this.#write(
      'raiseVersion',
      () => {
        const item = this.#item(jobId);
        const transition = item === undefined ? undefined : raiseVersion(item.value, version, given);
        if (transition?.kind !== 'moved') {
          this.#bill.refused('raiseVersion', item);
          return 'lost';
        }
        this.#put(item, transition.job);
        return 'raised';
      },
      version,
    );
  }

  async giveBack(job: Job, claimId: string, nowMs: number): Promise<Applied> {
    return this.#write('giveBack', () => {
      const item = this.#item(job.id);
      const transition = item === undefined ? undefined : giveBack(item.value, claimId, nowMs);
      if (transition?.kind !== 'moved') {
        this.#bill.refused('giveBack', item);
        return 'superseded';
      }
      this.#put(item, transition.job);
      return 'applied';
    });
  }

  async noteCarried(fence: Fence, carried: Carried): Promise<'noted' | 'lost'> {
    return this.#write('noteCarried', () => {
      this.#bill.small('noteCarried', 'write');
      const items = this.#partition(fence.partition);
      if (items.lease.epoch !== fence.epoch) return 'lost';
      items.carried = carried;
      return 'noted';
    });
  }

  async loseWorker(
    job: Job,
    verdict: FinishVerdict,
    nowMs: number,
    expiresAtMs: number,
  ): Promise<FinishOutcome> {
    const claimId = claimIdOf('loseWorker', job);
    const lose = (running: Job): Transition => loseWorker(running, claimId, verdict, nowMs);
    return this.#write('loseWorker', () => this.#end(job, lose, expiresAtMs), job);
  }

  async retireLine(
    partition: number,
    line: AnnouncedLine,
    announcedAtMs: number,
  ): Promise<'retired' | 'lost'> {
    return this.#write('retireLine', () => {
      const { backlogs } = this.#partition(partition);
      const present = backlogs.get(line.fairnessKey)?.get(line.type)?.value;
      if (present === undefined) return 'retired';
      const left = withoutLine(present, line);
      if (countOf(left) === countOf(present)) return 'retired';
      if (present.announcedAtMs > announcedAtMs) return 'lost';
      this.#putBacklog(partition, line.type, left);
      return 'retired';
    });
  }

  // The workers' side

  async startJob(request: StartRequest): Promise<StartOutcome> {
    return this.#write(
      'startJob',
      () => {
        const item = this.#item(request.jobId);
        const job = item?.value;
        if (job === undefined) return { kind: 'superseded' };
        const transition = start(job, request.claimId, request, request.nowMs, request.runUntilMs);
        if (transition.kind === 'moved') return { kind: 'started', job: this.#put(item, transition.job) };
        this.#bill.refused('startJob', item);
        const isRepeat =
          job.state === 'running' &&
          job.claim?.claimId === request.claimId &&
          job.worker?.workerId === request.workerId &&
          job.worker.incarnation === request.incarnation;
        return isRepeat ? { kind: 'started', job } : { kind: 'superseded' };
      },
      request,
    );
  }

  async finishJob(request: FinishRequest): Promise<FinishOutcome> {
    const { job, workerId, incarnation, verdict, nowMs, expiresAtMs } = request;
    const claimId = claimIdOf('finishJob', job);
    const { worker } = job;
    const isItsOwn = worker?.workerId === workerId && worker.incarnation === incarnation;
    const seen = isItsOwn ? job : { ...job, worker: { workerId, incarnation } };
    const end = (running: Job): Transition => finish(running, claimId, request, verdict, nowMs);
    return this.#write('finishJob', () => this.#end(seen, end, expiresAtMs), request);
  }

  async saveCheckpoint(job: Job, worker: WorkerIdentity, checkpoint: Json): Promise<Applied> {
    claimIdOf('saveCheckpoint', job);
    return this.#write('saveCheckpoint', () => {
      const item = this.#item(job.id);
      if (item?.value.state !== 'running' || !isSameAttempt(item.value, { ...job, worker }))
        return 'superseded';
      const kept = { ...item.value, checkpoint };
      requireJobFits(kept, checkpoint);
      this.#put(item, kept);
      return 'applied';
    });
  }

  async saveProgress(job: Job, worker: WorkerIdentity, progress: Json): Promise<Applied> {
    return this.#write('saveProgress', () => {
      const item = this.#item(job.id);
      if (item?.value.state !== 'running' || !isSameAttempt(item.value, { ...job, worker }))
        return 'superseded';
      this.#put(item, { ...item.value, progress });
      return 'applied';
    });
  }

  async registerWorker(partition: number, record: WorkerRecord): Promise<Applied> {
    return this.#write('registerWorker', () => {
      this.#bill.small('registerWorker', 'write');
      requireWorkerFits(partition, record);
      const { workers } = this.#partition(partition);
      const present = workers.get(record.workerId);
      const order = present === undefined ? -1 : compareText(present.incarnation, record.incarnation);
      if (order > 0) return 'superseded';
      if (order < 0) workers.set(record.workerId, { ...record, ...formerLife(present) });
      return 'applied';
    });
  }

  async heartbeat(partition: number, record: WorkerRecord): Promise<Applied> {
    return this.#write('heartbeat', () => {
      this.#bill.small('heartbeat', 'write');
      requireWorkerFits(partition, record);
      const { workers } = this.#partition(partition);
      const present = workers.get(record.workerId);
      if (present?.incarnation !== record.incarnation) return 'superseded';
      if (present.expiresAtMs <= record.expiresAtMs) workers.set(record.workerId, { ...present, ...record });
      return 'applied';
    });
  }

  async deregisterWorker(partition: number, worker: WorkerIdentity): Promise<Applied> {
    return this.#write('deregisterWorker', () => {
      this.#bill.small('deregisterWorker', 'write');
      const { workers } = this.#partition(partition);
      const present = workers.get(worker.workerId);
      if (present !== undefined && present.incarnation !== worker.incarnation) return 'superseded';
      const formerUntilMs = present?.formerUntilMs ?? 0;
      if (present === undefined || formerUntilMs <= this.#clock()) workers.delete(worker.workerId);
      else {
        workers.set(worker.workerId, {
          ...present,
          slots: 0,
          isEnding: true,
          occupants: [],
          expiresAtMs: formerUntilMs,
        });
      }
      return 'applied';
    });
  }

  async askForLoan(partition: number, request: LoanRequest): Promise<void> {
    return this.#write('askForLoan', () => {
      this.#bill.small('askForLoan', 'write');
      this.#partition(partition).requests.set(request.partition, request);
    });
  }

  // Dispatchers that run on

  async keepDispatcher(record: DispatcherRecord): Promise<Applied> {
    return this.#write('keepDispatcher', () => {
      this.#bill.small('keepDispatcher', 'write');
      const present = this.#dispatchers.get(record.dispatcherId);
      const order = present === undefined ? -1 : compareText(present.incarnation, record.incarnation);
      const hasLeft = order === 0 && present?.expiresAtMs === 0;
      if (order > 0 || hasLeft) return 'superseded';
      const isLate = order === 0 && (present?.expiresAtMs ?? 0) > record.expiresAtMs;
      if (!isLate) this.#dispatchers.set(record.dispatcherId, record);
      return 'applied';
    });
  }

  async removeDispatcher({ dispatcherId, incarnation }: DispatcherIdentity): Promise<Applied> {
    return this.#write('removeDispatcher', () => {
      this.#bill.small('removeDispatcher', 'write');
      const present = this.#dispatchers.get(dispatcherId);
      if (present !== undefined && present.incarnation !== incarnation) return 'superseded';
      this.#dispatchers.set(dispatcherId, { dispatcherId, incarnation, leads: [], expiresAtMs: 0 });
      return 'applied';
    });
  }

  async listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]> {
    return this.#read('listDispatchers', () => {
      this.#bill.small('listDispatchers', 'read');
      return [...this.#dispatchers.values()].filter(({ expiresAtMs }) => expiresAtMs > nowMs);
    });
  }

  // Operators

  async cancelJob(jobId: string, nowMs: number, expiresAtMs: number, by?: string): Promise<CancelOutcome> {
    return this.#write('cancelJob', () => {
      const item = this.#item(jobId);
      if (item === undefined) return { kind: 'missing' };
      const job = item.value;
      if (isTerminal(job.state)) return { kind: 'ended', job };
      const transition = cancel(job, nowMs, by);
      if (transition.kind === 'moved') {
        return { kind: 'cancelled', job: this.#put(item, transition.job, expiresAtMs) };
      }
      const asked = askForEnd(job, nowMs, by);
      return { kind: 'requested', job: asked === job ? job : this.#put(item, asked) };
    });
  }

  async retimeJob(job: Job, runAtMs: number, nowMs: number, by?: string): Promise<RetimeOutcome> {
    return this.#write('retimeJob', () => {
      const item = this.#item(job.id);
      if (item === undefined) return { kind: 'missing' };
      const transition = retime(item.value, runAtMs, nowMs, by);
      if (transition.kind === 'moved' && item.value.version === job.version) {
        return { kind: 'moved', job: this.#put(item, transition.job) };
      }
      this.#bill.refused('retimeJob', item);
      return { kind: transition.kind === 'moved' ? 'superseded' : 'tooLate', job: item.value };
    });
  }

  async changeControl(partition: number, scope: string, change: ControlChange): Promise<ControlOutcome> {
    const seen = await this.#read('changeControl', () => {
      this.#bill.small('changeControl', 'read');
      return this.#partition(partition).controlRevisions.get(scope);
    });
    return this.#write('changeControl', () => {
      this.#bill.small('changeControl', 'write');
      const { controls, controlRevisions } = this.#partition(partition);
      const revisions = controlRevisions.get(scope);
      const present = controls.get(scope) ?? { scope, paused: false };
      const named = CONTROL_FIELDS.filter((field) => change[field] !== undefined);
      if (named.some((field) => revisions?.[field] !== seen?.[field]))
        return { kind: isAsAsked(present, change) ? 'changed' : 'superseded', control: present };
      const raised = named.map((field) => [field, (revisions?.[field] ?? 0) + 1] as const);
      controlRevisions.set(scope, { ...revisions, ...Object.fromEntries(raised) });
      const control = changed(present, change);
      if (isIdle(control)) controls.delete(scope);
      else controls.set(scope, control);
      return { kind: 'changed', control };
    });
  }

  async adoptControl(partition: number, control: Control): Promise<Applied> {
    return this.#write('adoptControl', () => {
      this.#bill.small('adoptControl', 'write');
      const { controls, controlRevisions } = this.#partition(partition);
      if (controls.has(control.scope) || controlRevisions.has(control.scope)) return 'superseded';
      const set = CONTROL_FIELDS.filter((field) => control[field] !== undefined);
      controlRevisions.set(control.scope, Object.fromEntries(set.map((field) => [field, 1])));
      controls.set(control.scope, control);
      return 'applied';
    });
  }

  /** Here nothing else than the scheduler writes. */
  async listUnreadable(_partition: number): Promise<readonly UnreadableItem[]> {
    return [];
  }

  async readDeadLetters(partition: number, limit: number, after?: string): Promise<LinePage<Job>> {
    return this.#read('readDeadLetters', () => {
      const { jobs, next } = this.#headsOf('readDeadLetters', deadLineName(partition), limit, after);
      return { jobs: jobs.filter((job) => this.#item(job.id) !== undefined), next };
    });
  }

  async redrive(deadLetter: Job, job: Job): Promise<Applied> {
    return this.#write('redrive', () => {
      const item = this.#item(deadLetter.id);
      if (item?.value.state !== 'failed' || item.value.version !== deadLetter.version) return 'superseded';
      if (item.value.redrivenAs !== undefined) {
        return item.value.redrivenAs === job.id ? 'applied' : 'superseded';
      }
      if (this.#item(job.id) !== undefined) return 'superseded';
      this.#put(undefined, job);
      const { redriveBy, submittedAtMs: redrivenAtMs } = job;
      const told = { redrivenAtMs, ...(redriveBy === undefined ? {} : { redrivenBy: redriveBy }) };
      this.#put(item, { ...item.value, ...told, redrivenAs: job.id }, item.expiresAtMs);
      return 'applied';
    });
  }

  /** A loan stands with both partitions, and both say the same of it. */
  #requireLendable({ lend = [], giveBack = [] }: Commit): void {
    const copiesOf = ({ loanId, from, to }: Loan): readonly (Loan | undefined)[] =>
      [from, to].map((each) => this.#partition(each).loans.get(loanId));
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
      for (const each of [loan.from, loan.to]) this.#partition(each).loans.set(loan.loanId, loan);
      this.#partition(partition).requests.delete(loan.to);
    }
    for (const { loan, left } of giveBack) {
      for (const each of [loan.from, loan.to]) {
        const { loans } = this.#partition(each);
        if (left === 0) loans.delete(loan.loanId);
        else loans.set(loan.loanId, { ...loan, units: left });
      }
    }
  }

  /** What a partition holds: for a simulation's invariants. */
  inspect(partition: number): PartitionView {
    const items = this.#partition(partition);
    return { ...items, parks: items.page.parks };
  }

  /** The line in which a job's item stands; undefined: there is no such item. For a simulation's invariants. */
  inspectLine(id: string): string | undefined {
    return this.#item(id)?.line;
  }

  /** A conflict key's lock as it is: for a simulation's invariants. */
  inspectLock(conflictKey: string): Lock | undefined {
    return this.#locks.get(conflictKey);
  }

  /** A job as it is: for a simulation's invariants. */
  inspectJob(id: string): Job | undefined {
    return this.#item(id)?.value;
  }

  /** Every job that is not gone: for a simulation's invariants. */
  *everyJob(): Generator<Job> {
    for (const { id } of this.#jobs.values()) {
      const item = this.#item(id);
      if (item !== undefined) yield item.value;
    }
  }

  #happens(what: keyof StoreImitation): boolean {
    const chance = this.#imitate[what];
    if (chance === undefined || chance <= 0 || this.#random() >= chance) return false;
    this.#observe?.({ kind: 'imitated', what });
    return true;
  }

  /** Draws a delay up to its bound. */
  #late(what: 'indexLagMs' | 'streamLateMs' | 'ttlLateMs'): number {
    const mostMs = this.#imitate[what] ?? 0;
    if (mostMs <= 0) return 0;
    this.#observe?.({ kind: 'imitated', what });
    return this.#random() * mostMs;
  }

  async #read<T>(verb: string, act: () => T): Promise<T> {
    await undefined;
    this.#throttle(verb);
    return act();
  }

  async #write<T>(verb: string, act: () => T, input?: unknown): Promise<T> {
    const place = this.#asked;
    await undefined;
    this.#throttle(verb);
    this.#collectExpired();
    this.#place = place;
    this.#verb = verb;
    this.#input = input;
    const answer = act();
    if (this.#happens('unanswered')) {
      throw new StoreUnavailable(
        `${verb}: no answer, though it may have been applied; repeat it or read the item`,
      );
    }
    return answer;
  }

  #throttle(verb: string): void {
    if (this.#happens('throttled')) {
      throw new StoreThrottled(`${verb}: too many requests, nothing was changed; try again`);
    }
  }

  #partition(partition: number): PartitionItems {
    let items = this.#partitions.get(partition);
    if (items === undefined) {
      items = {
        lease: { epoch: 0, holder: undefined, expiresAtMs: 0 },
        wakes: 0,
        page: EMPTY_PAGE,
        dueShards: 1,
        lookout: undefined,
        batches: new Map(),
        ownLedgers: new Map(),
        ownEstimates: new Map(),
        reservations: new Map(),
        workers: new Map(),
        controls: new Map(),
        controlRevisions: new Map(),
        loans: new Map(),
        requests: new Map(),
        ledgers: new Map(),
        parked: new Map(),
        backlogs: new Map(),
      };
      this.#partitions.set(partition, items);
    }
    return items;
  }

  #headsOf(
    verb: string,
    line: string,
    limit: number,
    after?: string,
    belongs?: (value: Job) => boolean,
  ): LinePage<Job> {
    const { entries, next } = headsOf(this.#jobLines, line, limit, after, belongs);
    this.#bill.readHeads(verb, entries);
    return { jobs: entries.map((entry) => entry.value), next };
  }

  /** A job's item, unless it has expired, whether or not it has been collected. */
  #item(id: string): JobItem | undefined {
    const item = this.#jobs.get(id);
    return item?.expiresAtMs !== undefined && item.expiresAtMs <= this.#clock() ? undefined : item;
  }

  #put(
    before: JobItem | undefined,
    job: Job,
    expiresAtMs?: number,
    standing?: { readonly line: string; readonly rank: string },
  ): Job {
    const moved = this.#itemOf(before, job, expiresAtMs);
    const after = standing === undefined ? moved : { ...moved, ...standing };
    this.#bill.wroteJob(this.#verb, before, after);
    this.#jobs.set(job.id, after);
    this.#jobLines.move(
      job.id,
      before === undefined || before.line === '' ? undefined : before,
      after.line === '' ? undefined : after,
    );
    if (expiresAtMs !== undefined) {
      this.#expiring.add(expiresAtMs + this.#late('ttlLateMs'), after);
    }
    // Where a job stands is no change of the job: whoever reads the stream passes over it.
    if (standing !== undefined) return job;
    this.#observe?.({
      kind: 'job',
      verb: this.#verb,
      input: this.#input,
      oldJob: before?.value,
      newJob: job,
    });
    if (this.#listeners.size > 0) this.#publish({ oldJob: before?.value, newJob: job });
    return job;
  }

  #itemOf(before: JobItem | undefined, job: Job, expiresAtMs: number | undefined): JobItem {
    const { id } = job;
    switch (job.state) {
      case 'scheduled': {
        const { sub = 0 } = this.#place(job);
        const items = this.#partition(job.partition);
        items.dueShards = Math.max(items.dueShards, sub + 1);
        return { id, line: dueLineName(job.partition, sub), rank: instantRank(job.runAtMs, id), value: job };
      }
      case 'pending': {
        const isThere = before?.value.state === 'pending' && before.value.partition === job.partition;
        if (isThere) return { ...before, value: job };
        return { id, ...this.#readyStanding(job), value: job };
      }
      case 'failed': {
        // Until somebody deals with it.
        const line = job.redrivenAs === undefined ? deadLineName(job.partition) : '';
        return { id, line, rank: latestFirstRank(job.finishedAtMs ?? 0, id), value: job, expiresAtMs };
      }
      default:
        return { id, line: '', rank: '', value: job, expiresAtMs };
    }
  }

  #readyStanding(job: Job): { readonly line: string; readonly rank: string } {
    const { rank, sub } = this.#place(job);
    const { type, mode, fairnessKey } = job;
    return { line: readyLineName(job.partition, { type, mode, fairnessKey, sub }), rank };
  }

  #putBacklog(
    partition: number,
    type: string,
    backlog: Omit<KeyBacklog, 'rankCostMs'>,
    rankCostMs?: number,
  ): void {
    const { backlogs, ledgers } = this.#partition(partition);
    const { fairnessKey } = backlog;
    const byType = backlogs.get(fairnessKey) ?? new Map<string, LineEntry<KeyBacklog>>();
    const before = byType.get(type);
    let after: LineEntry<KeyBacklog> | undefined;
    if (countOf(backlog) > 0) {
      const rank = costRank(rankCostMs ?? ledgers.get(fairnessKey)?.settledCostMs ?? 0, fairnessKey);
      const value = { ...backlog, rankCostMs: costOfRank(rank) };
      after = { id: fairnessKey, line: keysLineName(partition, type), rank, value };
      byType.set(type, after);
      backlogs.set(fairnessKey, byType);
    } else {
      byType.delete(type);
      if (byType.size === 0) backlogs.delete(fairnessKey);
    }
    // A commit that only moves a key is no write of the item: a real table moves keys when it is tidied.
    if (this.#verb !== 'commit') this.#bill.wroteBacklog(this.#verb, partition, type, before, after);
    this.#keyLines.move(`${partition}/${type}/${fairnessKey}`, before, after);
  }

  #drop(items: PartitionItems, batchId: string, positions: readonly number[]): void {
    const stored = items.reservations.get(batchId);
    if (stored === undefined) return;
    for (const position of positions) stored.jobs.delete(position);
    if (stored.jobs.size === 0) items.reservations.delete(batchId);
  }

  #claimOne(request: ClaimRequest): ClaimOutcome {
    const item = this.#item(request.jobId);
    const { claimId, epoch, batchId, fleet, claimedAtMs, declared } = request;
    const won = {
      ...{ claimId, epoch, batchId, fleet, claimedAtMs },
      ...(declared === undefined ? {} : { declared }),
    };
    const transition = item === undefined ? undefined : claim(item.value, won, request.version);
    if (transition?.kind === 'moved') {
      if (request.lock !== undefined && !this.#takeLock(request, request.lock)) return 'blocked';
      this.#put(item, transition.job);
      return 'claimed';
    }
    this.#bill.refused('claim', item);
    // The answer of an earlier try got lost: it was won then.
    return item?.value.claim?.claimId === claimId ? 'claimed' : 'lost';
  }

  #takeLock(
    { jobId, claimId, claimedAtMs }: ClaimRequest,
    { conflictKey, partition }: NonNullable<ClaimRequest['lock']>,
  ): boolean {
    this.#bill.small('claim', 'write');
    const lock = this.#locks.get(conflictKey);
    if (!isOpenTo(lock, partition, claimedAtMs)) return false;
    const waiting = lock?.waiting.filter((each) => each !== partition) ?? [];
    this.#locks.set(conflictKey, { conflictKey, holder: { partition, claimId, jobId }, waiting });
    return true;
  }

  /** Ends the attempt that whoever asks has seen, by the life cycle's own transition. */
  #end(seen: Job, end: (running: Job) => Transition, expiresAtMs: number): FinishOutcome {
    const item = this.#item(seen.id);
    if (item === undefined) return { kind: 'superseded' };
    const job = item.value;
    const transition = end(job);
    if (transition.kind === 'moved') {
      const { job: after } = transition;
      requireJobFits(after, after.result, after.error?.message);
      return {
        kind: 'finished',
        job: this.#put(item, after, isTerminal(after.state) ? expiresAtMs : undefined),
      };
    }
    // One transition only leads from a version to the next: this one, if it looks like it.
    const { cancelRequestedAtMs } = job;
    const repeat = end({ ...seen, cancelRequestedAtMs });
    const isRepeat =
      repeat.kind === 'moved' &&
      isSameAttempt(job, seen) &&
      job.version === repeat.job.version &&
      job.state === repeat.job.state &&
      job.attempt === repeat.job.attempt &&
      job.workersLost === repeat.job.workersLost;
    return isRepeat ? { kind: 'finished', job } : { kind: 'superseded' };
  }

  #publish(record: StreamRecord<Job>): void {
    if (this.#happens('streamLost')) return;
    const copies = this.#happens('streamDuplicated') ? 2 : 1;
    for (const listener of this.#listeners) {
      for (let copy = 0; copy < copies; copy += 1) {
        this.#after(this.#late('streamLateMs'), () => {
          if (this.#listeners.has(listener)) listener(record);
        });
      }
    }
  }

  #collectExpired(): void {
    const nowMs = this.#clock();
    for (let due = this.#expiring.takeDue(nowMs); due !== undefined; due = this.#expiring.takeDue(nowMs)) {
      if (this.#jobs.get(due.value.id) !== due.value) continue;
      this.#jobs.delete(due.value.id);
      if (due.value.line !== '') this.#jobLines.move(due.value.id, due.value, undefined);
    }
  }
}

/** Up to `limit` entries of a line in its order, as long as they belong; `next` only if more follow. */
function headsOf<T>(
  index: LinesIndex<T>,
  line: string,
  limit: number,
  after: string | undefined,
  belongs: (value: T) => boolean = () => true,
): { readonly entries: readonly LineEntry<T>[]; readonly next: string | undefined } {
  const entries = index.read(line, limit + 1, placeOf(after));
  const end = entries.findIndex((entry) => !belongs(entry.value));
  const heads = end === -1 ? entries : entries.slice(0, end);
  const last = heads.length > limit ? heads[limit - 1] : undefined;
  return {
    entries: heads.slice(0, limit),
    next: last === undefined ? undefined : tokenOf(last),
  };
}

/** Absent, not undefined. */
const present = <Name extends string, Value>(
  name: Name,
  value: Value | undefined,
): { readonly [Key in Name]?: Value } =>
  (value === undefined ? {} : { [name]: value }) as { readonly [Key in Name]?: Value };

type OwnBacklog = Omit<KeyBacklog, 'rankCostMs'>;

const countOf = ({ lines, parked = [] }: OwnBacklog): number => lines.length + parked.length;

function withoutLine(
  { fairnessKey, lines, parked = [], announcedAtMs }: OwnBacklog,
  { mode, sub = 0, parkedIn }: AnnouncedLine,
): OwnBacklog {
  const left = parked.filter((each) => each.mode !== mode || each.conflictKey !== parkedIn);
  return {
    fairnessKey,
    announcedAtMs,
    lines: lines.filter((each) => parkedIn !== undefined || each.mode !== mode || (each.sub ?? 0) !== sub),
    ...(left.length === 0 ? {} : { parked: left }),
  };
}

function withLine(backlog: OwnBacklog, line: AnnouncedLine): OwnBacklog {
  const { lines, parked = [], ...rest } = withoutLine(backlog, line);
  const { mode, sub = 0, parkedIn } = line;
  if (parkedIn !== undefined) return { ...rest, lines, parked: [...parked, { mode, conflictKey: parkedIn }] };
  return {
    ...rest,
    lines: [...lines, { mode, ...(sub === 0 ? {} : { sub }) }],
    ...(parked.length === 0 ? {} : { parked }),
  };
}

function changed(before: Control, change: ControlChange): Control {
  const { maxConcurrency, weight, ...rest } = before;
  const cap = change.maxConcurrency === undefined ? maxConcurrency : change.maxConcurrency;
  const weighs = change.weight === undefined ? weight : change.weight;
  return {
    ...rest,
    paused: change.paused ?? before.paused,
    ...(cap === undefined || cap === null ? {} : { maxConcurrency: cap }),
    ...(weighs === undefined || weighs === null ? {} : { weight: weighs }),
  };
}

const isSameLook = (one: Lookout | undefined, other: Lookout | undefined): boolean =>
  one?.atMs === other?.atMs &&
  one?.nextAtMs === other?.nextAtMs &&
  one?.judgedUntilMs === other?.judgedUntilMs;

const formerLife = (present: WorkerRecord | undefined): Pick<WorkerRecord, 'formerUntilMs'> =>
  present === undefined ? {} : { formerUntilMs: Math.max(present.expiresAtMs, present.formerUntilMs ?? 0) };

/** Whether two images are of one attempt: one claim, one worker, one life of it. */
function isSameAttempt(one: Job, other: Job): boolean {
  return (
    one.claim !== undefined &&
    one.claim.claimId === other.claim?.claimId &&
    one.worker?.workerId === other.worker?.workerId &&
    one.worker?.incarnation === other.worker?.incarnation
  );
}

function claimIdOf(verb: string, job: Job): string {
  if (job.claim !== undefined) return job.claim.claimId;
  throw new StoreRefused(`${verb}: job ${job.id} carries no claim; pass it as startJob or getJobs gave it`);
}

function requireDistinct(item: string, names: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of names) {
    if (seen.has(name)) throw new CommitAmbiguous(item, name);
    seen.add(name);
  }
}

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
