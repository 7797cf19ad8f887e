/**
 * The core: the verbs that any store must have. With them jobs are submitted, wait in their lines, are reserved by passes, and run
 * on workers that may crash. Everything else is a capability with a file of its own, and a sentence about what is not offered
 * without it.
 *
 * Each verb takes one argument. A verb that changes something names the fencing token on which its write is conditional: a job's
 * version, a claim, an incarnation, a partition's version. A lost race is a value in the answer, never an error. A request that is
 * sent again after its answer got lost meets its own success.
 */
import type { Job, JobError, Json, MovingJob } from '../../core/job.ts';
import type { AbandonedClaim, Unfinished, Verdict } from '../../core/life-cycle.ts';
import type { JobHead } from './job-fields.ts';
import type { BlockedLine, ReadyLine } from './lines.ts';
import type {
  EstimateRecord,
  KeyBacklog,
  Ledger,
  Lookout,
  PartitionState,
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
  CreateOutcome,
  FinishOutcome,
  FinishRequest,
  Heads,
  RetimeOutcome,
  StartOutcome,
  StartRequest,
} from './requests.ts';

/** Putting, reading, moving and cancelling jobs: what their producers ask. */
export interface ProducerStore {
  /** Puts each job unless its id is there; the job stands in its line at once. Fenced by the id and the content's hash. */
  createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]>;
  /**
   * Adds a line to its key's set of lines with backlog, before jobs are put into a line that may be new. Needs no token: of two
   * announcements the later time stays.
   *
   * @param keyTtlMs - a key that was last announced so long ago, or longer, stands in front of the keys line again: its ledger may
   *   have expired, and its former cost must not hide it; null: ledgers do not expire
   * @param afterMs - a line that any submitter announced after that instant is left as it is; undefined: each is announced
   * @returns for each line, when it was announced last
   */
  announceLines(request: {
    readonly partition: number;
    readonly lines: readonly ReadyLine[];
    readonly nowMs: number;
    readonly keyTtlMs?: number | null | undefined;
    readonly afterMs?: number | undefined;
  }): Promise<readonly number[]>;
  /**
   * Reads jobs, strongly consistent, in the order of the ids; undefined where there is none. A job that is there and cannot be read
   * is an error, or, with `unreadable`, undefined, and its id is passed to that function.
   */
  getJobs(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (Job | undefined)[]>;
  /** Reads jobs as `getJobs` does, without their payloads: a payload that stands apart is neither read nor paid for. */
  lookUpJobs(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /**
   * Ends a job that should not happen: at once while it does not run, else by asking its worker. The first request stays, with its
   * time and its author. `finishedAtMs` stays that of the last attempt, if there was one: the attempt's cost is charged by it.
   */
  cancelJob(request: {
    readonly jobId: string;
    readonly nowMs: number;
    readonly expiresAtMs: number;
    readonly by?: string | undefined;
  }): Promise<CancelOutcome>;
  /**
   * Gives a waiting job another time, fenced by the version of `job`: it then stands in the due line, or, where the time is past, in
   * its ready line, which was announced before. The job's history tells who moved it, and from when to when.
   */
  retimeJob(request: {
    readonly job: MovingJob;
    readonly runAtMs: number;
    readonly nowMs: number;
    readonly by?: string | undefined;
  }): Promise<RetimeOutcome>;
}

/** A partition as a pass reads it, and the pass's decisions. */
export interface PartitionStore {
  /**
   * Reads all reservations, workers and controls of a partition, strongly consistent; workers as `workerAt` says. A worker that
   * cannot be read counts as living without a slot, and a control that cannot be read as a pause of its scope. A reservation that
   * cannot be read is an error, because it holds capacity.
   *
   * @param withoutLedgers - answers no ledgers and reads nothing for them. @default false
   */
  loadPartition(request: {
    readonly partition: number;
    readonly nowMs: number;
    readonly withoutLedgers?: boolean | undefined;
  }): Promise<PartitionState>;
  /**
   * Applies a pass's decisions all together or not at all, fenced by the partition's version as it was loaded. Estimates of single
   * resources may get lost; no later commit is overtaken by those of an earlier one.
   */
  commit(request: { readonly partition: number; readonly commit: Commit }): Promise<CommitOutcome>;
  /**
   * Does the work that commits leave behind: deletes settled items, and moves keys to where their cost puts them in the keys line, as
   * far as that pays. A call that comes late or gets lost costs reads, never truth or order.
   *
   * @param expiredMs - ledgers of keys that were last seen at this instant, or before, have expired. @default - none has
   */
  tidy(request: { readonly partition: number; readonly expiredMs?: number | undefined }): Promise<void>;
  /** Notes a look at the partition's workers, fenced by `seen`, the look before it: of several looks at once one goes on. */
  keepLookout(request: {
    readonly partition: number;
    readonly seen?: Lookout | undefined;
    readonly next: Lookout;
  }): Promise<Applied>;
}

/** The waiting jobs of a partition, the keys that have them, and their costs. */
export interface LineStore {
  /** Reads keys with backlog of a type, the least settled cost first; from an index, so it may lag. */
  readKeys(request: {
    readonly partition: number;
    readonly type: string;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<{ readonly keys: readonly KeyBacklog[]; readonly next?: string | undefined }>;
  /** Reads the backlogs of these keys, strongly consistent, in their order; undefined for a key without backlog of this type. */
  readBacklogs(request: {
    readonly partition: number;
    readonly type: string;
    readonly fairnessKeys: readonly string[];
  }): Promise<readonly (KeyBacklog | undefined)[]>;
  /** Reads the ledgers of these keys, strongly consistent, in their order; undefined for a key never charged. */
  getLedgers(request: {
    readonly partition: number;
    readonly fairnessKeys: readonly string[];
  }): Promise<readonly (Ledger | undefined)[]>;
  /** Reads learned costs, in the order asked; undefined where nothing was learned. */
  getEstimates(request: {
    readonly partition: number;
    readonly ids: readonly { readonly type: string; readonly resourceId: string }[];
  }): Promise<readonly (EstimateRecord | undefined)[]>;
  /**
   * Reads the first jobs of a ready line in the order of their ranks, or, of a store with parking, of a blocked line group by group;
   * from an index, so it may lag.
   */
  readLine(request: {
    readonly partition: number;
    readonly line: ReadyLine | BlockedLine;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<Heads>;
  /**
   * Reads scheduled jobs whose time has come, soonest first; from an index, so it may lag.
   *
   * @param fromMs - instead of `after`: only jobs whose time came then or later
   */
  readDue(request: {
    readonly partition: number;
    readonly nowMs: number;
    readonly limit: number;
    readonly after?: string | undefined;
    readonly fromMs?: number | undefined;
  }): Promise<Heads>;
  /**
   * Moves scheduled jobs whose time has come to their ready lines, each fenced by its version. Answers the new job, or undefined for
   * a lost race: a repetition may read its own success as one.
   */
  promote(request: {
    readonly jobs: readonly JobHead[];
    readonly nowMs: number;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /** Takes a line out of its key's set of lines with backlog, fenced by `announcedAtMs`, the key's last announcement. */
  retireLine(request: {
    readonly partition: number;
    readonly line: ReadyLine;
    readonly announcedAtMs: number;
  }): Promise<'retired' | 'lost'>;
}

/** Claims of reserved jobs. */
export interface ClaimStore {
  /** Claims jobs, each by a conditional write of its own, fenced by the planned version. */
  claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]>;
  /**
   * Raises the version of a pending job, fenced by `version`, so that a late claim for it fails.
   *
   * @param given - the claim that never came, and the job as it was read at that version: the job's history tells of it
   */
  raiseVersion(request: {
    readonly jobId: string;
    readonly version: number;
    readonly given?: (AbandonedClaim & { readonly job: MovingJob }) | undefined;
  }): Promise<'raised' | 'lost'>;
}

/** Attempts and the records of workers: what workers ask, and a pass that ends the attempt of a lost worker. */
export interface WorkerStore {
  /**
   * Starts a job, fenced by its claim, or, with `toClaim`, by the planned version of a pending job that was planned less than
   * `PLANNED_FOR_MS` ago. Answers the job with its payload, and with the lease that the first start wrote.
   */
  startJob(request: StartRequest): Promise<StartOutcome>;
  /**
   * Ends an attempt, fenced by claim, worker and incarnation. A job whose end was asked for is not tried again: `retry` cancels it.
   */
  finishJob(request: FinishRequest): Promise<FinishOutcome>;
  /**
   * Ends an attempt that its worker does not finish, fenced by the claim. `retry` counts as `as` says: a lost worker, an attempt, or
   * nothing; it cancels a job whose end was asked for.
   */
  loseWorker(request: {
    readonly job: MovingJob;
    readonly verdict: Verdict;
    /** @default 'lost' */
    readonly as?: Unfinished | undefined;
    readonly nowMs: number;
    readonly expiresAtMs: number;
  }): Promise<FinishOutcome>;
  /** Keeps the state from which a next attempt may go on, fenced by claim, worker and incarnation. */
  saveCheckpoint(request: {
    readonly job: MovingJob;
    readonly worker: WorkerIdentity;
    readonly checkpoint: Json;
  }): Promise<Applied>;
  /** Keeps an attempt's progress for a worker without a record of its own, fenced by claim, worker and incarnation. */
  saveProgress(request: {
    readonly job: MovingJob;
    readonly worker: WorkerIdentity;
    readonly progress: Json;
  }): Promise<Applied>;
  /**
   * Keeps why an attempt is given up whose handler goes on, fenced by claim, worker and incarnation: the pass that ends the attempt,
   * once the worker is gone, goes by it.
   */
  saveHung(request: {
    readonly jobId: string;
    readonly claimId: string;
    readonly worker: WorkerIdentity;
    readonly error: JobError;
  }): Promise<Applied>;
  /**
   * Writes the record of a process that begins a life, fenced by its incarnation: a later one must not be there (incarnations sort by
   * their start). The former life is superseded from then on; its jobs may go on running until its record would have expired.
   */
  registerWorker(request: { readonly partition: number; readonly record: WorkerRecord }): Promise<Applied>;
  /** Renews expiry, slots and occupants of a worker's record in one write, fenced by its incarnation. The expiry never goes back. */
  heartbeat(request: { readonly partition: number; readonly record: WorkerRecord }): Promise<Applied>;
  /**
   * Deletes a worker's record with all its slots, fenced by its incarnation; a record that is gone is no error. To be called after
   * the last of its handlers has ended: from then on its jobs may run elsewhere.
   */
  deregisterWorker(request: {
    readonly partition: number;
    readonly worker: WorkerIdentity;
  }): Promise<Applied>;
}

/** Everything that any store must have. */
export interface CoreStore extends ProducerStore, PartitionStore, LineStore, ClaimStore, WorkerStore {}
