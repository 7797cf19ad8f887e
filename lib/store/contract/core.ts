/**
 * The core: the verbs that any store must have. With them jobs are submitted, wait in their lines, are reserved by passes, and run on
 * workers that may crash. Everything else is a capability with a file of its own, whose first sentences say what a scheduler lacks without
 * it.
 *
 * Each verb takes one argument. A verb that changes something names the fencing token on which its write is conditional: a job's version, a
 * claim, an incarnation, a partition's version. A lost race is a value in the answer, never an error. A request that is repeated because
 * its answer got lost finds its own write and answers success, unless the verb says otherwise.
 */
import type { Control } from '../../core/capacity.ts';
import type { DoneSteps, Job, JobError, Json, MovingJob } from '../../core/job.ts';
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

/** The verbs of producers: submit, read, retime and cancel jobs. */
export interface ProducerStore {
  /** Puts each job, in its line, unless its id exists. Fenced by the id and the hash of the content. */
  createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]>;
  /**
   * Adds a line to the set of lines with backlog of its fairness key. To be called before jobs are put into a line that may be new. Needs
   * no token: of two announcements the later time stays.
   *
   * @param keyTtlMs - a key whose last announcement is at least this old is placed first in the keys line again: its ledger may have
   *   expired, and its former cost must not hide it; null: ledgers do not expire
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
   * Reads jobs, strongly consistent, in the order of the ids; undefined for an id without a job. If a job cannot be read, the call throws,
   * or, with `unreadable`, answers undefined for it and passes its id to that function.
   */
  getJobs(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (Job | undefined)[]>;
  /** Reads jobs as `getJobs` does, without their payloads: a payload in an item of its own is neither read nor paid for. */
  lookUpJobs(request: {
    readonly ids: readonly string[];
    readonly unreadable?: ((id: string) => void) | undefined;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /**
   * Cancels a job: at once if it does not run, else by asking its worker to stop. The first request counts, with its time and its author.
   * `finishedAtMs` stays that of the last attempt, if there was one, because the attempt's cost is charged by it.
   */
  cancelJob(request: {
    readonly jobId: string;
    readonly nowMs: number;
    readonly expiresAtMs: number;
    readonly by?: string | undefined;
  }): Promise<CancelOutcome>;
  /**
   * Gives a waiting job another time or priority, fenced by the version of `job`. The job then stands in the due line, or, if the time is
   * past and the job keeps its priority, in its ready line, which the caller announced before. The job's history records the author, the
   * old value and the new one.
   */
  retimeJob(request: {
    readonly job: MovingJob;
    readonly runAtMs: number;
    /**
     * The new priority.
     * @default - the job keeps its priority
     */
    readonly priority?: number | undefined;
    readonly nowMs: number;
    readonly by?: string | undefined;
  }): Promise<RetimeOutcome>;
}

/** Loads a partition for a pass, and writes the pass's decisions. */
export interface PartitionStore {
  /**
   * Reads all reservations, workers and controls of a partition, strongly consistent. `workerAt` defines how an expired worker is shown. A
   * worker that cannot be read counts as living without a slot, and a control that cannot be read counts as a pause of its scope. A
   * reservation that cannot be read is an error, because it holds capacity.
   *
   * @param withoutLedgers - reads and answers no ledgers. @default false
   */
  loadPartition(request: {
    readonly partition: number;
    readonly nowMs: number;
    readonly withoutLedgers?: boolean | undefined;
  }): Promise<PartitionState>;
  /**
   * Applies all decisions of a pass or none, fenced by the partition's version as it was loaded. Estimates of single resources may get
   * lost, but an earlier commit's estimates never overwrite a later commit's.
   */
  commit(request: { readonly partition: number; readonly commit: Commit }): Promise<CommitOutcome>;
  /**
   * Does the work that commits leave behind: deletes settled items, and moves keys in the keys line to the position of their cost, where
   * that pays. A call that is late or lost costs reads, but breaks no promise.
   *
   * @param expiredMs - ledgers of keys that were last seen at this instant, or before, have expired. @default - none has
   * @param ended - controls to delete, as they were loaded. One that was changed since stays. @default - none
   */
  tidy(request: {
    readonly partition: number;
    readonly expiredMs?: number | undefined;
    readonly ended?: readonly Control[] | undefined;
  }): Promise<void>;
  /**
   * Records a check of the partition's workers, fenced by `seen`, the record of the check before it: of several concurrent checks one is
   * applied.
   */
  keepLookout(request: {
    readonly partition: number;
    readonly seen?: Lookout | undefined;
    readonly next: Lookout;
  }): Promise<Applied>;
}

/** Reads and moves the waiting jobs of a partition, the keys that have them, and their costs. */
export interface LineStore {
  /** Reads the keys with backlog of a type, in ascending order of settled cost; from an index, so it may lag. */
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
  /** Reads the ledgers of these keys, strongly consistent, in their order; undefined for a key that was never charged. */
  getLedgers(request: {
    readonly partition: number;
    readonly fairnessKeys: readonly string[];
  }): Promise<readonly (Ledger | undefined)[]>;
  /** Reads estimates of costs, in the order of the ids; undefined for an id without an estimate. */
  getEstimates(request: {
    readonly partition: number;
    readonly ids: readonly { readonly type: string; readonly resourceId: string }[];
  }): Promise<readonly (EstimateRecord | undefined)[]>;
  /**
   * Reads the first jobs of a ready line in the order of their ranks; or, in a store with parking, of a blocked line: one group after the
   * other, each in the order of ranks. From an index, so it may lag.
   */
  readLine(request: {
    readonly partition: number;
    readonly line: ReadyLine | BlockedLine;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<Heads>;
  /**
   * Reads scheduled jobs that are due, soonest first; from an index, so it may lag.
   *
   * @param fromMs - in place of `after`: reads only jobs that became due at this instant or later
   */
  readDue(request: {
    readonly partition: number;
    readonly nowMs: number;
    readonly limit: number;
    readonly after?: string | undefined;
    readonly fromMs?: number | undefined;
  }): Promise<Heads>;
  /**
   * Moves scheduled jobs that are due to their ready lines, each fenced by its version. Answers the moved job, or undefined for a lost
   * race. A repeated call may report its own success as a lost race.
   */
  promote(request: {
    readonly jobs: readonly JobHead[];
    readonly nowMs: number;
  }): Promise<readonly (MovingJob | undefined)[]>;
  /** Takes a line out of its key's set of lines with backlog, fenced by `announcedAtMs`, the time of the key's last announcement. */
  retireLine(request: {
    readonly partition: number;
    readonly line: ReadyLine;
    readonly announcedAtMs: number;
  }): Promise<'retired' | 'lost'>;
}

/** Claims reserved jobs. */
export interface ClaimStore {
  /** Claims jobs, each in its own conditional write, fenced by the version that the pass planned with. */
  claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]>;
  /**
   * Raises the version of a pending job, fenced by `version`, so that a late claim for it fails.
   *
   * @param given - the claim that never came, and the job as read at that version; the job's history records both
   */
  raiseVersion(request: {
    readonly jobId: string;
    readonly version: number;
    readonly given?: (AbandonedClaim & { readonly job: MovingJob }) | undefined;
  }): Promise<'raised' | 'lost'>;
}

/** The verbs of workers, and of a pass that ends the attempt of a lost worker. */
export interface WorkerStore {
  /**
   * Starts a job, fenced by its claim, or, with `toClaim`, by the version of a pending job that was planned less than `PLANNED_FOR_MS` ago.
   * Answers the job with its payload. A repeated start answers the lease that the first one wrote.
   */
  startJob(request: StartRequest): Promise<StartOutcome>;
  /** Ends an attempt, fenced by claim, worker and incarnation. If a cancellation was requested, `retry` cancels the job. */
  finishJob(request: FinishRequest): Promise<FinishOutcome>;
  /**
   * Ends an attempt that its worker does not finish, fenced by the claim. With the verdict `retry`, `as` says what the attempt counts as: a
   * lost worker, an attempt, or nothing. If a cancellation was requested, `retry` cancels the job.
   */
  endUnfinished(request: {
    readonly job: MovingJob;
    readonly verdict: Verdict;
    /**
     * The outcome that the history records.
     * @default 'lost'
     */
    readonly as?: Unfinished | undefined;
    readonly nowMs: number;
    readonly expiresAtMs: number;
  }): Promise<FinishOutcome>;
  /** Stores the checkpoint from which a next attempt may continue, fenced by claim, worker and incarnation. */
  saveCheckpoint(request: {
    readonly job: MovingJob;
    readonly worker: WorkerIdentity;
    readonly checkpoint: Json;
  }): Promise<Applied>;
  /**
   * Stores the values of all done steps, fenced by claim, worker and incarnation. Fewer steps than are stored change
   * nothing: a request may arrive after a later one.
   */
  saveSteps(request: {
    readonly job: MovingJob;
    readonly worker: WorkerIdentity;
    readonly steps: DoneSteps;
  }): Promise<Applied>;
  /** Stores the progress of an attempt whose worker has no record, fenced by claim, worker and incarnation. */
  saveProgress(request: {
    readonly job: MovingJob;
    readonly worker: WorkerIdentity;
    readonly progress: Json;
  }): Promise<Applied>;
  /**
   * Stores why an attempt is given up although its handler is still running, fenced by claim, worker and incarnation. The pass that ends
   * the attempt after the worker is gone uses this error.
   */
  saveHung(request: {
    readonly jobId: string;
    readonly claimId: string;
    readonly worker: WorkerIdentity;
    readonly error: JobError;
  }): Promise<Applied>;
  /**
   * Writes the record of a worker that starts, fenced by its incarnation: no record of a later incarnation may exist (incarnations sort by
   * their start). The former incarnation is superseded from then on. Its jobs may go on running until its record would have expired.
   */
  registerWorker(request: { readonly partition: number; readonly record: WorkerRecord }): Promise<Applied>;
  /** Renews expiry, slots and occupants of a worker's record in one write, fenced by its incarnation. The expiry never goes back. */
  heartbeat(request: { readonly partition: number; readonly record: WorkerRecord }): Promise<Applied>;
  /**
   * Deletes a worker's record with all its slots, fenced by its incarnation; a missing record is no error. To be called after the last of
   * its handlers has ended: from then on its jobs may run elsewhere.
   */
  deregisterWorker(request: {
    readonly partition: number;
    readonly worker: WorkerIdentity;
  }): Promise<Applied>;
}

/** All verbs that any store must have. */
export interface CoreStore extends ProducerStore, PartitionStore, LineStore, ClaimStore, WorkerStore {}
