/**
 * What the scheduler asks of its store, in the scheduler's own verbs, by who asks. Each takes one argument. One sentence each;
 * every verb that changes something names the fencing token it is conditional on. Losing a race is a value in the answer,
 * never an error.
 *
 * Adapters: `dynamodb/` and `memory/`. One conformance suite runs on both.
 */
import type { Control } from '../../core/capacity.ts';
import type { Job, JobError, Json, MovingJob } from '../../core/job.ts';
import type { LoanRequest } from '../../core/lending.ts';
import type { GivenUp, Unfinished, Verdict } from '../../core/life-cycle.ts';
import type { JobHead } from './job-fields.ts';
import type { BlockedLine, ReadyLine } from './lines.ts';
import type {
  DeclarationRecord,
  DispatcherIdentity,
  DispatcherRecord,
  EstimateRecord,
  KeyBacklog,
  Leader,
  Ledger,
  Letter,
  Lock,
  Lookout,
  ParkedMark,
  PartitionState,
  ReceivedLetter,
  Rejection,
  UnreadableItem,
  WorkerIdentity,
  WorkerRecord,
} from './records.ts';
import type {
  Applied,
  CancelOutcome,
  ClaimOutcome,
  ClaimRequest,
  Commit,
  CommitOutcome,
  ControlChange,
  ControlOutcome,
  CreateOutcome,
  DeclareOutcome,
  FinishOutcome,
  FinishRequest,
  Heads,
  LeadOutcome,
  LinePage,
  ParkOutcome,
  RejectionPage,
  RetimeOutcome,
  StartOutcome,
  StartRequest,
} from './requests.ts';
import type { ScheduleStore } from './schedules.ts';

/** Where a job waits once it is ready: its place in its line. Ranks are compared as text. */
export type PlaceInLine = (job: JobHead) => { readonly rank: string };

/** What submitters ask: producers, the ingest, and a dispatcher that moves jobs to another line. */
export interface SubmitStore {
  /** Puts each job unless its id is there. Jobs stand in their line at once. */
  createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]>;
  /**
   * Adds a line to its key's set of lines with backlog. To be called before jobs are put into a line that may be new.
   *
   * @param keyTtlMs - a key that was last announced so long ago, or longer, stands in front of the keys line again: its ledger may
   *   have expired, and what it was charged must not hide it; null: ledgers do not expire
   * @param afterMs - what was announced after that instant, by any submitter, is left as it is; undefined: nothing is
   * @returns for each line, when it was announced last
   */
  announceLines(request: {
    readonly partition: number;
    readonly lines: readonly ReadyLine[];
    readonly nowMs: number;
    readonly keyTtlMs?: number | null | undefined;
    readonly afterMs?: number | undefined;
  }): Promise<readonly number[]>;
  /** Keeps a rejected request; the same source and position once. */
  recordRejections(rejections: readonly Rejection[]): Promise<void>;
  /**
   * Strongly consistent, in the order of the ids; undefined where there is none. `unreadable` hears of those that are
   * there and cannot be read, which are undefined too; without it, one is an error.
   */
  getJobs(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (Job | undefined)[]>;
  /** As `getJobs`, for whoever does not ask what was sent for the handler: a payload that stands apart is neither read nor paid for. */
  lookUpJobs(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /** The newest version, strongly consistent; 0 while nothing is declared. */
  readDeclaredVersion(): Promise<number>;
  /** A declaration, the newest unless a version is given, strongly consistent; undefined where there is none. */
  readDeclaration(version?: number): Promise<DeclarationRecord | undefined>;
  /**
   * Puts a letter into a partition's mailbox for the dispatcher that leads it, or leads it next: as several items where it is large, all of
   * which are answered. Never conflicts with a pass. Each call makes letters of its own names.
   */
  putLetter(request: {
    readonly partition: number;
    readonly letter: Letter;
    readonly nowMs: number;
  }): Promise<void>;
}

/** Leading a partition, and the letters in its mailbox. */
export interface LeadStore {
  /**
   * Takes the lead of a partition until an instant, or renews it: if no other dispatcher leads whose time is not over. What was asked of
   * clients before stays as it was unless `wantsLetters` is given; without a lead before, it is false.
   */
  lead(request: {
    readonly partition: number;
    readonly holder: string;
    readonly nowMs: number;
    readonly untilMs: number;
    readonly wantsLetters?: boolean | undefined;
  }): Promise<LeadOutcome>;
  /** Ends the lead of exactly this holder. */
  stopLeading(request: { readonly partition: number; readonly holder: string }): Promise<void>;
  /** The dispatcher that leads, or led and did not release, strongly consistent. */
  readLeader(partition: number): Promise<Leader | undefined>;
  /** The letters of a partition, strongly consistent, at most `LETTERS_READ_MAX`; `more`: others may be there. */
  readLetters(
    partition: number,
  ): Promise<{ readonly letters: readonly ReceivedLetter[]; readonly more: boolean }>;
  /** Deletes letters, one by one. Only after the commit that acted on them was answered. */
  deleteLetters(request: {
    readonly partition: number;
    readonly letterIds: readonly string[];
  }): Promise<void>;
}

/** What a pass knows of its partition exactly, and what it decides. */
export interface PartitionStore {
  /**
   * All the partition's reservations, workers and controls, strongly consistent. Workers as `workerAt` says. A worker that
   * cannot be read counts as living, without a slot, and a control that cannot be read as a pause of its scope. What holds
   * capacity and cannot be read is an error: no pass may decide without it.
   *
   * `withoutLedgers`: answers none, and reads nothing for their sake. A worker may read no more than the partition, and a caller that
   * only looks needs no more.
   */
  loadPartition(request: {
    readonly partition: number;
    readonly nowMs: number;
    readonly withoutLedgers?: boolean | undefined;
  }): Promise<PartitionState>;
  /**
   * Applies a pass's decisions at once or not at all, on condition of the version that it loaded. Items that the partition summary names
   * are put before it. What single resources cost is behind it, and may be missing: later commits never find an earlier one's in place of
   * their own.
   */
  commit(request: { readonly partition: number; readonly commit: Commit }): Promise<CommitOutcome>;
  /**
   * Does what the last commits left to do: takes away what is settled, and moves keys that this process has seen to
   * where their cost puts them in the keys line, as far as that pays. May be late or lost: it costs reads, neither truth nor
   * order.
   *
   * @param expiredMs - ledgers whose keys were there last at this instant, or before, have expired. @default - none has
   */
  tidy(partition: number, expiredMs?: number): Promise<void>;
  /**
   * Notes a look at the partition's workers, if no other one was noted since `seen` was read. So of several looks that
   * come at once, one goes on.
   */
  keepLookout(request: {
    readonly partition: number;
    readonly seen?: Lookout | undefined;
    readonly next: Lookout;
  }): Promise<Applied>;
  /** Leaves a request with the partition that may grant it, in place of an earlier one of the same partition. A hint. */
  askForLoan(request: { readonly partition: number; readonly request: LoanRequest }): Promise<void>;
}

/** What waits: keys with backlog, what they were charged, and the jobs of their lines. */
export interface LineStore {
  /** Keys with backlog of a type, by settled cost; from the index, so it may lag. */
  readKeys(request: {
    readonly partition: number;
    readonly type: string;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<{ readonly keys: readonly KeyBacklog[]; readonly next?: string | undefined }>;
  /** Strongly consistent, in the order of the keys; undefined for a key without backlog of this type. */
  readBacklogs(request: {
    readonly partition: number;
    readonly type: string;
    readonly fairnessKeys: readonly string[];
  }): Promise<readonly (KeyBacklog | undefined)[]>;
  /** Strongly consistent, in the order of the keys; undefined for a key never charged. */
  getLedgers(request: {
    readonly partition: number;
    readonly fairnessKeys: readonly string[];
  }): Promise<readonly (Ledger | undefined)[]>;
  /** In the order asked; undefined where nothing was learned. */
  getEstimates(request: {
    readonly partition: number;
    readonly ids: readonly { readonly type: string; readonly resourceId: string }[];
  }): Promise<readonly (EstimateRecord | undefined)[]>;
  /** The first jobs of a ready line in rank order, or of a blocked one group by group; from the index, so it may lag. */
  readLine(request: {
    readonly partition: number;
    readonly line: ReadyLine | BlockedLine;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<Heads>;
  /**
   * Scheduled jobs whose time has come, soonest first; from the index, so it may lag. With `fromMs`, instead of `after`: those
   * whose time came then or later.
   */
  readDue(request: {
    readonly partition: number;
    readonly nowMs: number;
    readonly limit: number;
    readonly after?: string | undefined;
    readonly fromMs?: number | undefined;
  }): Promise<Heads>;
  /**
   * Moves scheduled jobs whose time has come, at exactly their version, to their ready lines. Answers the new job, or
   * undefined for a lost race: its own success may read as one, where the answer got lost.
   */
  promote(request: {
    readonly jobs: readonly JobHead[];
    readonly nowMs: number;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /**
   * Moves jobs at exactly their version to their ready lines in another partition, which were announced there before: pending
   * ones, wherever they stand, and scheduled ones whose time has come. Answers as `promote` does.
   */
  rehome(request: {
    readonly jobs: readonly JobHead[];
    readonly partition: number;
    readonly nowMs: number;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /** Takes a line out of a key's set, if it was not announced since `announcedAtMs`. */
  retireLine(request: {
    readonly partition: number;
    readonly line: ReadyLine;
    readonly announcedAtMs: number;
  }): Promise<'retired' | 'lost'>;
}

/** Jobs that wait for their conflict key, out of everybody's way. */
export interface ParkingStore {
  /**
   * Notes that conflict keys have blocked lines from now on. Before any job is parked there, and after a commit that says
   * so (`parks`), or no pass looks for them. A call that comes late changes nothing: no mark is ever older than it was.
   */
  markParked(request: {
    readonly partition: number;
    readonly conflictKeys: readonly string[];
    readonly nowMs: number;
  }): Promise<void>;
  /** Which of these conflict keys may have a blocked line, strongly consistent. */
  readParked(request: {
    readonly partition: number;
    readonly conflictKeys: readonly string[];
  }): Promise<readonly ParkedMark[]>;
  /** Conflict keys that may have a blocked line, in an order of the store's own, strongly consistent. */
  listParked(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<{ readonly marks: readonly ParkedMark[]; readonly next?: string | undefined }>;
  /** Takes a mark away whose blocked line was found empty, unless it was renewed since. */
  unmarkParked(request: { readonly partition: number; readonly mark: ParkedMark }): Promise<Applied>;
  /**
   * The first jobs of each group of a conflict key's blocked line, in rank order: at least one of each group, at most
   * `BLOCKED_HEADS`. A group is what stood in one ready line. Up to `groups` groups, after the cursor; `next` if others may follow.
   * From the index, so it may lag.
   *
   * @param butFor - jobs that have a place and have not started: they are left out, and what stands behind them is read. @default none
   */
  readBlocked(request: {
    readonly partition: number;
    readonly conflictKey: string;
    readonly groups: number;
    readonly butFor?: ReadonlySet<string> | undefined;
    readonly after?: string | undefined;
  }): Promise<Heads>;
  /**
   * Moves pending jobs at exactly their version to the blocked line of a conflict key, and raises the partition's version, which must be
   * the given one: a settlement that read the blocked line before must not be written after. The jobs stay pending, at their version: a
   * claim wins them where they stand. Only after the conflict key was marked.
   */
  park(request: {
    readonly partition: number;
    readonly version: number;
    readonly jobs: readonly JobHead[];
    readonly conflictKey: string;
  }): Promise<ParkOutcome>;
  /**
   * Moves parked jobs at exactly their version back to their ready lines, which were announced before. As with `promote`,
   * a success whose answer got lost may read as a lost race.
   */
  unpark(request: {
    readonly jobs: readonly JobHead[];
    readonly conflictKey: string;
  }): Promise<readonly Applied[]>;
}

/** Claims, and the locks that guard a conflict key among partitions. */
export interface ClaimStore {
  /** Claims jobs, each by its own conditional write: pending at exactly the planned version. */
  claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]>;
  /** Strongly consistent, in the order of the conflict keys; undefined for one that is free. */
  readLocks(conflictKeys: readonly string[]): Promise<readonly (Lock | undefined)[]>;
  /**
   * Notes that a partition waits for a lock that is not open to it: the pass that releases it wakes the partition. `open`: it is
   * by now, and nothing was noted.
   */
  awaitLock(request: {
    readonly conflictKey: string;
    readonly partition: number;
    readonly nowMs: number;
  }): Promise<'waiting' | 'open'>;
  /**
   * Gives a lock back that exactly this claim holds; the next of the partitions that wait for it has a turn until then.
   * Answers which: it is to be woken. Only once the claim's attempt is over; before the place that counts it is dropped.
   */
  releaseLock(request: {
    readonly conflictKey: string;
    readonly partition: number;
    readonly claimId: string;
    readonly untilMs: number;
  }): Promise<{ readonly next?: number | undefined }>;
  /**
   * Raises the version of a pending job at exactly `version`, so that a late claim for it fails. With `given`, where the job
   * was read at that version, its history tells of the claim that never came.
   */
  raiseVersion(request: {
    readonly jobId: string;
    readonly version: number;
    readonly given?: (GivenUp & { readonly job: MovingJob }) | undefined;
  }): Promise<'raised' | 'lost'>;
  /**
   * Gives a claim back: claimed by exactly this claim, and not started. The job, as it was read under this claim, stands in
   * its ready line again, which was announced before, and its history tells of it. As with `promote`, a success whose answer got lost may
   * read as a lost race.
   */
  giveBack(request: {
    readonly job: MovingJob;
    readonly claimId: string;
    readonly nowMs: number;
  }): Promise<Applied>;
}

/** What a pass asks: the lead of its partition, what is known of it, what waits there, and claims. It submits, too. */
export interface PassStore
  extends SubmitStore,
    LeadStore,
    PartitionStore,
    LineStore,
    ParkingStore,
    ClaimStore,
    Pick<WorkerStore, 'loseWorker'>,
    Pick<MembershipStore, 'listDispatchers'>,
    Pick<OperateStore, 'adoptControl' | 'announceDeclaration' | 'cancelJob'>,
    Pick<ScheduleStore, 'readDueSchedules' | 'getSchedules' | 'saveSchedule'> {}

/** What workers ask, and a pass that takes an attempt from a worker that is gone. */
export interface WorkerStore {
  /**
   * Starts a job: claimed by exactly this claim, or, with `toClaim`, pending at exactly the
   * planned version, and planned less than `PLANNED_FOR_MS` ago. Answers it with its payload, and with the lease that the first start wrote.
   */
  startJob(request: StartRequest): Promise<StartOutcome>;
  /**
   * Ends an attempt: running under exactly this claim, worker and incarnation. A job whose end was asked for is not
   * tried again: `retry` cancels it.
   */
  finishJob(request: FinishRequest): Promise<FinishOutcome>;
  /**
   * Ends an attempt that its worker does not finish: running under exactly this claim.
   * `retry` counts what `as` says: a lost worker, an attempt, or nothing. As in `finishJob`, it cancels a job whose end was asked for.
   */
  loseWorker(request: {
    readonly job: MovingJob;
    readonly verdict: Verdict;
    /** @default 'lost' */
    readonly as?: Unfinished | undefined;
    readonly nowMs: number;
    readonly expiresAtMs: number;
  }): Promise<FinishOutcome>;
  /** Keeps what a next attempt may go on from: running under exactly this claim, worker and incarnation. */
  saveCheckpoint(request: {
    readonly job: MovingJob;
    readonly worker: WorkerIdentity;
    readonly checkpoint: Json;
  }): Promise<Applied>;
  /**
   * Keeps how far an attempt is, for whoever looks: running under exactly this claim, worker and incarnation. For a worker
   * without a record of its own.
   */
  saveProgress(request: {
    readonly job: MovingJob;
    readonly worker: WorkerIdentity;
    readonly progress: Json;
  }): Promise<Applied>;
  /**
   * Keeps why an attempt is given up whose handler goes on: running under exactly this claim, worker and incarnation. What ends the attempt,
   * once the worker is gone, goes by it.
   */
  saveHung(request: {
    readonly jobId: string;
    readonly claimId: string;
    readonly worker: WorkerIdentity;
    readonly error: JobError;
  }): Promise<Applied>;
  /**
   * A process begins a life: writes its record unless a later incarnation is there (incarnations sort by their start).
   * Its former life is superseded from then on; what it runs may go on running until its record would have expired.
   */
  registerWorker(request: { readonly partition: number; readonly record: WorkerRecord }): Promise<Applied>;
  /**
   * Renews the record of exactly this incarnation: expiry, slots and occupants, in one write. One that comes late
   * changes nothing: the expiry never goes back.
   */
  heartbeat(request: { readonly partition: number; readonly record: WorkerRecord }): Promise<Applied>;
  /**
   * Takes the record of exactly this incarnation away, with all its slots. What is gone already is left alone. Only
   * after the last of its handlers has ended: from then on its jobs may run elsewhere.
   */
  deregisterWorker(request: {
    readonly partition: number;
    readonly worker: WorkerIdentity;
  }): Promise<Applied>;
}

/** Memberships of dispatchers that run on. */
export interface MembershipStore {
  /**
   * Writes, and later renews, the membership of exactly this incarnation, unless a later one of its name is there or it
   * has left. One that comes late changes nothing: the expiry never goes back.
   */
  keepDispatcher(record: DispatcherRecord): Promise<Applied>;
  /** Ends the membership of exactly this incarnation, for good: a renewal that comes late does not bring it back. */
  removeDispatcher(dispatcher: DispatcherIdentity): Promise<Applied>;
  /** All memberships that last, strongly consistent. */
  listDispatchers(nowMs: number): Promise<readonly DispatcherRecord[]>;
}

/** What operators and deployments ask. */
export interface OperateStore {
  /**
   * Ends a job that should not happen: at once while it does not run, else by asking its worker. `finishedAtMs` stays
   * that of the last attempt, if there was one: what it used is charged by it. Who asked first, and when, is kept.
   */
  cancelJob(request: {
    readonly jobId: string;
    readonly nowMs: number;
    readonly expiresAtMs: number;
    readonly by?: string | undefined;
  }): Promise<CancelOutcome>;
  /**
   * Gives a waiting job at exactly its version another time, as the life cycle says: it stands in the due line, or, where
   * the time is past, in its ready line, which was announced before. Whatever was planned with the older time fails.
   * The job's history tells who moved it, and from when to when.
   */
  retimeJob(request: {
    readonly job: MovingJob;
    readonly runAtMs: number;
    readonly nowMs: number;
    readonly by?: string | undefined;
  }): Promise<RetimeOutcome>;
  /**
   * Changes what is named of a scope's control, and nothing else of it: of two operators who change different things in
   * the same moment, neither is lost; of two who change the same thing, one is superseded, unless it is as that one wants
   * it. So a change that comes late, again, or from a process that stood still, undoes no newer one. Answers the control as
   * it is then. The next pass obeys it; one that says nothing any more is not shown.
   */
  changeControl(request: {
    readonly partition: number;
    readonly scope: string;
    readonly change: ControlChange;
  }): Promise<ControlOutcome>;
  /**
   * Gives a partition a control that others have, unless somebody has changed that scope's control there before, if only to
   * end it.
   */
  adoptControl(request: { readonly partition: number; readonly control: Control }): Promise<Applied>;
  /**
   * Items that were found and could not be read, those of jobs by the partition in whose line they stood, as long as they
   * are there and cannot be read. At most 1,000.
   */
  listUnreadable(partition: number): Promise<readonly UnreadableItem[]>;
  /** Failed jobs that nobody has dealt with, latest first; from the index, so it may lag. */
  readDeadLetters(request: {
    readonly partition: number;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<LinePage<Job>>;
  /**
   * Makes a new job of a dead letter, once: the new job is put and the dead letter names it, together, with when that was
   * and who asked for it, as the new job says.
   */
  redrive(request: { readonly deadLetter: MovingJob; readonly job: Job }): Promise<Applied>;
  /** Of one event, strongly consistent, in the order of their places. */
  listRejections(sourceId: string): Promise<readonly Rejection[]>;
  /** Of all events, latest first; from the index, so it may lag. */
  readRejections(request: {
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<RejectionPage>;
  /**
   * Declares the version that follows `after` (0: the first), if that is the newest still. All earlier ones stay to be read:
   * what runs goes on under the one that it was claimed under.
   */
  putDeclaration(request: {
    readonly text: string;
    readonly after: number;
    readonly nowMs: number;
  }): Promise<DeclareOutcome>;
  /** Tells a partition of a version: every load shows it from now on. Never goes back, and never conflicts with a pass. */
  announceDeclaration(request: { readonly partition: number; readonly version: number }): Promise<void>;
}

/** All of it, for composition roots: each caller is handed the part that it asks. */
export interface JobStore extends PassStore, WorkerStore, MembershipStore, OperateStore, ScheduleStore {}

/** What a verb is asked: its one argument. */
export type RequestOf<Verb extends keyof JobStore> = Parameters<JobStore[Verb]>[0];
