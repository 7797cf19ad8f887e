/** Jobs: `lib/core/life-cycle.ts` decides every transition, and each write is made only if the transition is legal now. */
import { RefusedError } from '../../../lib/core/errors.ts';
import { isTerminal, type Job, type MovingJob } from '../../../lib/core/job.ts';
import {
  cancel,
  claim,
  claimAndStart,
  endUnfinished,
  finish,
  isPlanned,
  raiseVersion,
  requestCancel,
  retime,
  start,
  type Transition,
} from '../../../lib/core/life-cycle.ts';
import type { ClaimStore, ProducerStore, WorkerStore } from '../../../lib/store/contract/core.ts';
import { MalformedItemError } from '../../../lib/store/contract/errors.ts';
import type { WorkerIdentity } from '../../../lib/store/contract/records.ts';
import type {
  Applied,
  CancelOutcome,
  ClaimOutcome,
  ClaimRequest,
  CreateOutcome,
  FinishOutcome,
  FinishRequest,
  RetimeOutcome,
  StartOutcome,
  StartRequest,
} from '../../../lib/store/contract/requests.ts';
import type { RequestOf } from '../../../lib/store/contract/verbs.ts';
import { type Database, withoutPayload } from './database.ts';

const isOf = (job: MovingJob, claimId: string | undefined, worker: WorkerIdentity | undefined): boolean =>
  claimId !== undefined &&
  job.claim?.claimId === claimId &&
  job.worker?.workerId === worker?.workerId &&
  job.worker?.incarnation === worker?.incarnation;

function claimIdOf(verb: string, { id, claim: held }: MovingJob): string {
  if (held !== undefined) return held.claimId;
  throw new RefusedError(`${verb}: job ${id} has no claim; pass the job as startJob or getJobs returned it`);
}

type Attempts = Omit<WorkerStore, 'registerWorker' | 'heartbeat' | 'deregisterWorker'>;
type Jobs = Omit<ProducerStore, 'announceLines'> & ClaimStore & Attempts;

export class SqliteJobs implements Jobs {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  async createJobs(jobs: readonly Job[]): Promise<readonly CreateOutcome[]> {
    return this.#database.transaction(() =>
      jobs.map((job): CreateOutcome => {
        const present = this.#database.job(job.id);
        if (present === undefined) return { kind: 'created', job: this.#database.putJob(job) };
        return { kind: present.contentHash === job.contentHash ? 'repeated' : 'conflict', job: present };
      }),
    );
  }

  async getJobs({ ids, unreadable }: RequestOf<'getJobs'>): Promise<readonly (Job | undefined)[]> {
    return ids.map((id) => {
      try {
        return this.#database.job(id);
      } catch (error) {
        if (unreadable === undefined || !(error instanceof MalformedItemError)) throw error;
        unreadable(id);
        return undefined;
      }
    });
  }

  async lookUpJobs(request: RequestOf<'lookUpJobs'>): Promise<readonly (MovingJob | undefined)[]> {
    return (await this.getJobs(request)).map((job) => job && withoutPayload(job));
  }

  async cancelJob({ jobId, nowMs, expiresAtMs, by }: RequestOf<'cancelJob'>): Promise<CancelOutcome> {
    return this.#database.transaction((): CancelOutcome => {
      const job = this.#database.job(jobId);
      if (job === undefined) return { kind: 'missing' };
      if (isTerminal(job.state)) return { kind: 'ended', job };
      const ended = this.#database.move(jobId, () => cancel(job, nowMs, by), expiresAtMs);
      if (ended !== undefined) return { kind: 'cancelled', job: ended };
      return { kind: 'requested', job: this.#database.putJob(requestCancel(job, nowMs, by), job) };
    });
  }

  async retimeJob({ job, runAtMs, priority, nowMs, by }: RequestOf<'retimeJob'>): Promise<RetimeOutcome> {
    return this.#database.transaction((): RetimeOutcome => {
      const present = this.#database.job(job.id);
      if (present === undefined) return { kind: 'missing' };
      const transition = retime(present, runAtMs, nowMs, by, priority);
      if (transition.kind !== 'moved') return { kind: 'tooLate', job: present };
      if (present.version !== job.version) return { kind: 'superseded', job: present };
      return { kind: 'moved', job: this.#database.putJob(transition.job, present) };
    });
  }

  async claim(requests: readonly ClaimRequest[]): Promise<readonly ClaimOutcome[]> {
    if (requests.some(({ lock }) => lock !== undefined)) throw new RefusedError('claim: there are no locks');
    return this.#database.transaction(() =>
      requests.map(({ jobId, version, claimId, batchId, fleet, claimedAtMs, declared }): ClaimOutcome => {
        const won = { claimId, batchId, fleet, claimedAtMs, ...(declared === undefined ? {} : { declared }) };
        if (this.#database.move(jobId, (job) => claim(job, won, version)) !== undefined) return 'claimed';
        // The answer of an earlier try got lost: it was won then.
        return this.#database.job(jobId)?.claim?.claimId === claimId ? 'claimed' : 'lost';
      }),
    );
  }

  async raiseVersion({ jobId, version, given }: RequestOf<'raiseVersion'>): Promise<'raised' | 'lost'> {
    return this.#database.transaction(() => {
      const raised = this.#database.move(jobId, (job) => raiseVersion(job, version, given));
      return raised === undefined ? 'lost' : 'raised';
    });
  }

  async startJob(request: StartRequest): Promise<StartOutcome> {
    const { jobId, claimId, toClaim, nowMs, runUntilMs } = request;
    return this.#database.transaction((): StartOutcome => {
      const started = this.#database.move(jobId, (job) =>
        toClaim !== undefined && job.state === 'pending' && isPlanned(toClaim, nowMs)
          ? claimAndStart(job, claimId, toClaim, request, nowMs, runUntilMs)
          : start(job, claimId, request, nowMs, runUntilMs),
      );
      if (started !== undefined) return { kind: 'started', job: started };
      const present = this.#database.job(jobId);
      const isRepeat = present?.state === 'running' && isOf(present, claimId, request);
      return isRepeat ? { kind: 'started', job: present } : { kind: 'superseded' };
    });
  }

  async finishJob(request: FinishRequest): Promise<FinishOutcome> {
    const { job, workerId, incarnation, verdict, nowMs, expiresAtMs } = request;
    const claimId = claimIdOf('finishJob', job);
    const seen = { ...job, worker: { workerId, incarnation } };
    return this.#end(seen, (running) => finish(running, claimId, request, verdict, nowMs), expiresAtMs);
  }

  async endUnfinished({
    job,
    verdict,
    as,
    nowMs,
    expiresAtMs,
  }: RequestOf<'endUnfinished'>): Promise<FinishOutcome> {
    const claimId = claimIdOf('endUnfinished', job);
    return this.#end(job, (running) => endUnfinished(running, claimId, verdict, nowMs, as), expiresAtMs);
  }

  #end(seen: MovingJob, end: (running: Job) => Transition, expiresAtMs: number): Promise<FinishOutcome> {
    return this.#database.transaction((): FinishOutcome => {
      const present = this.#database.job(seen.id);
      if (present === undefined) return { kind: 'superseded' };
      const transition = end(present);
      if (transition.kind === 'moved') {
        const { job } = transition;
        return {
          kind: 'finished',
          job: this.#database.putJob(job, present, isTerminal(job.state) ? expiresAtMs : undefined),
        };
      }
      return isEndOf(seen, present, end) ? { kind: 'finished', job: present } : { kind: 'superseded' };
    });
  }

  async saveCheckpoint({ job, worker, checkpoint }: RequestOf<'saveCheckpoint'>): Promise<Applied> {
    return this.#note(job.id, claimIdOf('saveCheckpoint', job), worker, { checkpoint });
  }

  async saveSteps({ job, worker, steps }: RequestOf<'saveSteps'>): Promise<Applied> {
    const count = (done: Job['steps']): number => Object.keys(done ?? {}).length;
    if (count(this.#database.job(job.id)?.steps) > count(steps)) return 'superseded';
    return this.#note(job.id, claimIdOf('saveSteps', job), worker, { steps });
  }

  async saveProgress({ job, worker, progress }: RequestOf<'saveProgress'>): Promise<Applied> {
    return this.#note(job.id, claimIdOf('saveProgress', job), worker, { progress });
  }

  async saveHung({ jobId, claimId, worker, error }: RequestOf<'saveHung'>): Promise<Applied> {
    return this.#note(jobId, claimId, worker, { hung: error });
  }

  /** Notes something on a job that runs: no transition, so its version stays. */
  #note(id: string, claimId: string, worker: WorkerIdentity, noted: Partial<Job>): Promise<Applied> {
    return this.#database.transaction(() => {
      const present = this.#database.job(id);
      if (present?.state !== 'running' || !isOf(present, claimId, worker)) return 'superseded';
      this.#database.putJob({ ...present, ...noted }, present);
      return 'applied';
    });
  }
}

/**
 * Whether a job that cannot be ended so any more was: its end looks like what the caller saw, ended so. A retry also shows in the
 * counts of attempts and lost workers, so it is known when the job was moved or cancelled after it.
 */
function isEndOf(seen: MovingJob, present: Job, end: (running: Job) => Transition): boolean {
  if (!isOf(present, seen.claim?.claimId, seen.worker)) return false;
  const { payload, cancelRequestedAtMs } = present;
  return [cancelRequestedAtMs, undefined].some((asked) => {
    const repeat = end({ ...seen, payload, cancelRequestedAtMs: asked });
    if (repeat.kind !== 'moved') return false;
    const { version, state, attempt, workersLost } = repeat.job;
    const isNow = present.version === version && present.state === state;
    const wasBefore = present.version > version && !isTerminal(state);
    return (isNow || wasBefore) && present.attempt === attempt && present.workersLost === workersLost;
  });
}
