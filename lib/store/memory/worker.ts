import { RefusedError } from '../../core/errors.ts';
import { type DoneSteps, isTerminal, type Job, type MovingJob } from '../../core/job.ts';
import {
  claimAndStart,
  endUnfinished,
  finish,
  isPlanned,
  start,
  type Transition,
} from '../../core/life-cycle.ts';
import type { WorkerStore } from '../contract/core.ts';
import { FORMER_SHOWN_MS, type WorkerRecord } from '../contract/records.ts';
import type {
  Applied,
  FinishOutcome,
  FinishRequest,
  StartOutcome,
  StartRequest,
} from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { requireJobFits, requireWorkerFits } from './imitation/fits.ts';
import type { MemoryItems } from './items.ts';
import { compareText } from './sorted-line.ts';

const formerLease = (present: WorkerRecord | undefined): Pick<WorkerRecord, 'formerUntilMs'> =>
  present === undefined ? {} : { formerUntilMs: Math.max(present.expiresAtMs, present.formerUntilMs ?? 0) };

/** Whether two images are of one attempt: the same claim, worker and incarnation. */
function isSameAttempt(one: MovingJob, other: MovingJob): boolean {
  return (
    one.claim !== undefined &&
    one.claim.claimId === other.claim?.claimId &&
    one.worker?.workerId === other.worker?.workerId &&
    one.worker?.incarnation === other.worker?.incarnation
  );
}

/** Returns the start of a claimed job, or of a planned one, which it claims as well. */
function begin(job: Job, request: StartRequest): Transition {
  const { claimId, toClaim, nowMs, runUntilMs } = request;
  return toClaim !== undefined && job.state === 'pending' && isPlanned(toClaim, nowMs)
    ? claimAndStart(job, claimId, toClaim, request, nowMs, runUntilMs)
    : start(job, claimId, request, nowMs, runUntilMs);
}

function claimIdOf(verb: string, job: MovingJob): string {
  if (job.claim !== undefined) return job.claim.claimId;
  throw new RefusedError(
    `${verb}: job ${job.id} has no claim; pass the job as startJob or getJobs returned it`,
  );
}

export class MemoryWorkerStore implements WorkerStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async startJob(request: StartRequest): Promise<StartOutcome> {
    return this.#items.write(
      'startJob',
      () => {
        const item = this.#items.item(request.jobId);
        const job = item?.value;
        if (job === undefined) return { kind: 'superseded' };
        const transition = begin(job, request);
        if (transition.kind === 'moved') {
          this.#items.bill.readPayloads('startJob', [item], false);
          return { kind: 'started', job: this.#items.put(item, transition.job) };
        }
        this.#items.bill.refused('startJob', item);
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
    const isRetry = verdict.kind === 'retry';
    return this.#items.write('finishJob', () => this.#end(seen, end, expiresAtMs, isRetry), request);
  }

  async endUnfinished({
    job,
    verdict,
    as,
    nowMs,
    expiresAtMs,
  }: RequestOf<'endUnfinished'>): Promise<FinishOutcome> {
    const claimId = claimIdOf('endUnfinished', job);
    const lose = (running: Job): Transition => endUnfinished(running, claimId, verdict, nowMs, as);
    const isRetry = verdict.kind === 'retry';
    return this.#items.write('endUnfinished', () => this.#end(job, lose, expiresAtMs, isRetry), job);
  }

  /** Ends the attempt that the caller has read, by the transition of the life cycle that the caller gives. */
  #end(
    seen: MovingJob,
    end: (running: Job) => Transition,
    expiresAtMs: number,
    isRetry: boolean,
  ): FinishOutcome {
    const item = this.#items.item(seen.id);
    if (item === undefined) return { kind: 'superseded' };
    const job = item.value;
    const transition = end(job);
    if (transition.kind === 'moved') {
      const { job: after } = transition;
      requireJobFits(after, after.result, after.error?.message, after.parkedState);
      // DynamoDB's first write, which requires that no cancellation was requested, has failed.
      if (isRetry && after.state === 'cancelled') this.#items.bill.refused(this.#items.verb, item);
      if (isTerminal(after.state)) this.#items.bill.wrotePayload(this.#items.verb, after);
      return {
        kind: 'finished',
        job: this.#items.put(item, after, isTerminal(after.state) ? expiresAtMs : undefined),
      };
    }
    // Only one transition leads from a version to the next, so if the job looks like the result of this call, it is. The counts of a retry
    // also show after the job was retimed or cancelled.
    const { payload, cancelRequestedAtMs } = job;
    const isRepeat =
      isSameAttempt(job, seen) &&
      [cancelRequestedAtMs, undefined].some((asked) => {
        const repeat = end({ ...seen, payload, cancelRequestedAtMs: asked });
        if (repeat.kind !== 'moved') return false;
        const { version, state, attempt, workersLost } = repeat.job;
        const isNow = job.version === version && job.state === state;
        const wasBefore = job.version > version && !isTerminal(state);
        return (isNow || wasBefore) && job.attempt === attempt && job.workersLost === workersLost;
      });
    return isRepeat ? { kind: 'finished', job } : { kind: 'superseded' };
  }

  async saveCheckpoint({ job, worker, checkpoint }: RequestOf<'saveCheckpoint'>): Promise<Applied> {
    claimIdOf('saveCheckpoint', job);
    return this.#items.write('saveCheckpoint', () => {
      const item = this.#items.item(job.id);
      if (item?.value.state !== 'running' || !isSameAttempt(item.value, { ...job, worker }))
        return 'superseded';
      const kept = { ...item.value, checkpoint };
      requireJobFits(kept, checkpoint);
      this.#items.put(item, kept);
      return 'applied';
    });
  }

  async saveSteps({ job, worker, steps }: RequestOf<'saveSteps'>): Promise<Applied> {
    claimIdOf('saveSteps', job);
    return this.#items.write('saveSteps', () => {
      const item = this.#items.item(job.id);
      if (item?.value.state !== 'running' || !isSameAttempt(item.value, { ...job, worker }))
        return 'superseded';
      // planted: late-steps
      if (countSteps(item.value.steps) > countSteps(steps)) return 'superseded';
      const kept = { ...item.value, steps };
      requireJobFits(kept, ...Object.values(steps).map(({ value }) => value));
      this.#items.put(item, kept);
      return 'applied';
    });
  }

  async saveProgress({ job, worker, progress }: RequestOf<'saveProgress'>): Promise<Applied> {
    return this.#items.write('saveProgress', () => {
      const item = this.#items.item(job.id);
      if (item?.value.state !== 'running' || !isSameAttempt(item.value, { ...job, worker }))
        return 'superseded';
      this.#items.put(item, { ...item.value, progress });
      return 'applied';
    });
  }

  async saveHung({ jobId, claimId, worker, error }: RequestOf<'saveHung'>): Promise<Applied> {
    return this.#items.write(
      'saveHung',
      () => {
        const item = this.#items.item(jobId);
        const job = item?.value;
        const isHeld =
          job?.state === 'running' &&
          job.claim?.claimId === claimId &&
          job.worker?.workerId === worker.workerId &&
          job.worker.incarnation === worker.incarnation;
        if (!isHeld) return 'superseded';
        this.#items.put(item, { ...job, hung: error });
        return 'applied';
      },
      { jobId, claimId, worker },
    );
  }

  async registerWorker({ partition, record }: RequestOf<'registerWorker'>): Promise<Applied> {
    return this.#items.write('registerWorker', () => {
      this.#items.bill.small('registerWorker', 'write');
      requireWorkerFits(partition, record);
      const { workers } = this.#items.partition(partition);
      const present = workers.get(record.workerId);
      const order = present === undefined ? -1 : compareText(present.incarnation, record.incarnation);
      if (order > 0) return 'superseded';
      // DynamoDB's first write, which requires that there is no record, has failed.
      if (present !== undefined) this.#items.bill.small('registerWorker', 'write');
      if (order < 0) workers.set(record.workerId, { ...record, ...formerLease(present) });
      return 'applied';
    });
  }

  async heartbeat({ partition, record }: RequestOf<'heartbeat'>): Promise<Applied> {
    return this.#items.write('heartbeat', () => {
      this.#items.bill.small('heartbeat', 'write');
      requireWorkerFits(partition, record);
      const { workers } = this.#items.partition(partition);
      const present = workers.get(record.workerId);
      if (present?.incarnation !== record.incarnation) return 'superseded';
      if (present.expiresAtMs <= record.expiresAtMs) workers.set(record.workerId, { ...present, ...record });
      return 'applied';
    });
  }

  async deregisterWorker({ partition, worker }: RequestOf<'deregisterWorker'>): Promise<Applied> {
    return this.#items.write('deregisterWorker', () => {
      this.#items.bill.small('deregisterWorker', 'write');
      const { workers } = this.#items.partition(partition);
      const present = workers.get(worker.workerId);
      if (present !== undefined && present.incarnation !== worker.incarnation) return 'superseded';
      const formerUntilMs = present?.formerUntilMs ?? 0;
      if (present === undefined || formerUntilMs <= this.#items.clock() - FORMER_SHOWN_MS)
        workers.delete(worker.workerId);
      else {
        // DynamoDB's first write, which requires that no earlier incarnation must be shown, has failed.
        this.#items.bill.small('deregisterWorker', 'write');
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
}

const countSteps = (steps: DoneSteps = {}): number => Object.keys(steps).length;
