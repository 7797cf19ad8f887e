/**
 * Errors of the client's verbs. `name` is stable: use it to tell errors apart. Verbs also throw the errors of
 * lib/core/errors.ts (`ValidationError`, `ThrottledError`, `UnavailableError`, `MisconfiguredError`, `RefusedError`).
 */
import type { Job, JobState } from '../core/job.ts';
import { type BacklogFull, fullText } from '../submit/waiting.ts';
import type { CancelledJob, ExpiredJob, FailedJob } from './job.ts';

/** No job, no schedule, or no event with a refused entry has this id. The lists of the command line show those that exist. */
export class NotFoundError extends Error {
  override readonly name = 'NotFoundError';
  readonly jobId: string | undefined;
  readonly scheduleId: string | undefined;
  readonly eventId: string | undefined;

  /** @param of - one of the three ids */
  constructor({
    jobId,
    scheduleId,
    eventId,
  }: {
    readonly jobId?: string;
    readonly scheduleId?: string;
    readonly eventId?: string;
  }) {
    super(
      eventId !== undefined
        ? `no entry of the event ${JSON.stringify(eventId)} was refused in the last 30 days; \`fairlead rejections list\` shows the events`
        : jobId !== undefined
          ? `no job has the id ${JSON.stringify(jobId)}: records of ended jobs are kept for some days, and a request that another job stands for by its dedupe key has none; check the id and the table`
          : `no schedule has the id ${JSON.stringify(scheduleId)}; \`fairlead schedules list\` shows those that exist`,
    );
    this.jobId = jobId;
    this.scheduleId = scheduleId;
    this.eventId = eventId;
  }
}

/**
 * The idempotency key belongs to another job, the schedule belongs to a deployment, or another operator made a change
 * at the same time. That job, schedule or change stands.
 */
export class ConflictError extends Error {
  override readonly name = 'ConflictError';
  /** The job that has the idempotency key. */
  readonly jobId: string | undefined;
  /** The schedule that a deployment declares. */
  readonly scheduleId: string | undefined;
  /** The pause, cap or weight that was changed meanwhile, such as `type/resize`. */
  readonly scope: string | undefined;

  constructor(
    message: string,
    of: { readonly jobId?: string; readonly scheduleId?: string; readonly scope?: string },
  ) {
    super(message);
    this.jobId = of.jobId;
    this.scheduleId = of.scheduleId;
    this.scope = of.scope;
  }
}

export const idempotencyKeyConflict = (jobId: string): ConflictError =>
  new ConflictError(
    `the idempotency key belongs to job ${jobId}, which has other content; use a different key for each piece of work`,
    { jobId },
  );

export const controlChanged = (scope: string): ConflictError =>
  new ConflictError(
    `another operator changed ${scope} at the same time, and that change stands; look at it (\`fairlead override list\`, or client.controls), and repeat yours if you still want it`,
    { scope },
  );

export const scheduleDeclared = (scheduleId: string): ConflictError =>
  new ConflictError(
    `schedule ${scheduleId} is declared by a deployment: change it there, pause it, or use another id`,
    { scheduleId },
  );

/** As many jobs of the type, or of its fairness key, wait as the declaration lets wait. Nothing was stored. */
export class BacklogFullError extends Error {
  override readonly name = 'BacklogFullError';
  readonly jobType: string;
  /** The key whose `maxWaitingPerKey` is reached; undefined: the type's `maxWaiting` is. */
  readonly fairnessKey: string | undefined;
  readonly waiting: number;
  readonly maxWaiting: number;
  /** By an estimate, there is room after this time. It does not know pauses and overrides. */
  readonly retryAfterMs: number;

  constructor(
    message: string,
    of: Pick<BacklogFullError, 'jobType' | 'waiting' | 'maxWaiting' | 'retryAfterMs'> & {
      readonly fairnessKey?: string | undefined;
    },
  ) {
    super(message);
    this.jobType = of.jobType;
    this.fairnessKey = of.fairnessKey;
    this.waiting = of.waiting;
    this.maxWaiting = of.maxWaiting;
    this.retryAfterMs = of.retryAfterMs;
  }
}

export const backlogFull = (full: BacklogFull): BacklogFullError =>
  new BacklogFullError(fullText(full), { ...full, jobType: full.job.type });

/** The job is in a state in which this cannot be done. Nothing was changed. */
export class JobStateError extends Error {
  override readonly name = 'JobStateError';
  readonly jobId: string;
  readonly state: JobState;

  constructor(job: Pick<Job, 'id' | 'state'>, wayOut: string) {
    super(`job ${job.id} is ${job.state}; ${wayOut}`);
    this.jobId = job.id;
    this.state = job.state;
  }
}

/** The job that was waited for has failed for good. `cause` is the error of its last attempt. */
export class JobFailedError extends Error {
  override readonly name = 'JobFailedError';
  readonly job: FailedJob;

  constructor(job: FailedJob) {
    const { name, message } = job.error;
    super(`job ${job.id} failed at attempt ${job.attempt}: ${name}: ${message}`, {
      cause: job.error,
    });
    this.job = job;
  }
}

/** The job that was waited for was cancelled, or had not started in time: its `state` says which. */
export class JobCancelledError extends Error {
  override readonly name = 'JobCancelledError';
  readonly job: CancelledJob | ExpiredJob;

  constructor(job: CancelledJob | ExpiredJob) {
    super(
      job.state === 'expired'
        ? `job ${job.id} expired: it had not started in time; submit it again if it is still wanted`
        : `job ${job.id} was cancelled before it succeeded; submit it again if it is still wanted`,
    );
    this.job = job;
  }
}

/** Says whether the job that `run` stopped waiting for continues. */
const cancelText = (cancel: 'cancelled' | 'requested' | undefined): string =>
  cancel === 'cancelled'
    ? 'it was cancelled and will not run'
    : cancel === 'requested'
      ? 'its worker was asked to stop'
      : 'it continues: wait longer, or cancel it';

/** The time was up before the job ended that was waited for, or before the jobs of a drained scope ended. */
export class WaitTimeoutError extends Error {
  override readonly name = 'WaitTimeoutError';
  readonly timeoutMs: number;
  /** The job that was waited for; of several, the first that had not ended. */
  readonly jobId: string | undefined;
  /** The job's state as it was last read; undefined if it was never read. */
  readonly state: JobState | undefined;
  /** The outcome of the request to cancel that job; undefined if the job continues. */
  readonly cancel: 'cancelled' | 'requested' | undefined;
  /** The scope to drain, such as `type/resize`. It stays paused. */
  readonly scope: string | undefined;
  /** How many jobs of that scope still held capacity. */
  readonly running: number | undefined;

  constructor(
    message: string,
    of: Partial<Pick<WaitTimeoutError, 'jobId' | 'state' | 'cancel' | 'scope' | 'running'>> & {
      readonly timeoutMs: number;
    },
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.timeoutMs = of.timeoutMs;
    this.jobId = of.jobId;
    this.state = of.state;
    this.cancel = of.cancel;
    this.scope = of.scope;
    this.running = of.running;
  }
}

export const runTimedOut = (
  { jobId, state }: { readonly jobId: string; readonly state: JobState | undefined },
  timeoutMs: number,
  cancel: 'cancelled' | 'requested' | undefined,
  options?: ErrorOptions,
): WaitTimeoutError =>
  new WaitTimeoutError(
    `job ${jobId} had not ended after ${timeoutMs} ms (${state ?? 'not seen'}); ${cancelText(cancel)}`,
    { jobId, state, cancel, timeoutMs },
    options,
  );

export const manyTimedOut = (
  { jobId, state }: { readonly jobId: string; readonly state: JobState | undefined },
  count: number,
  timeoutMs: number,
  options?: ErrorOptions,
): WaitTimeoutError =>
  new WaitTimeoutError(
    `${count} jobs had not ended after ${timeoutMs} ms, such as ${jobId} (${state ?? 'not seen'}); they continue: wait longer, or cancel them`,
    { jobId, state, timeoutMs },
    options,
  );

export const drainTimedOut = (scope: string, running: number, timeoutMs: number): WaitTimeoutError =>
  new WaitTimeoutError(
    running === 0
      ? `${scope} is paused, but no dispatcher has confirmed it within ${timeoutMs} ms; drain it again`
      : `${scope} is paused, and ${running} of its jobs still ran after ${timeoutMs} ms; drain it again, or cancel them`,
    { scope, running, timeoutMs },
  );

/** The caller's signal was aborted. `cause` is the signal's reason. */
export class AbortError extends Error {
  override readonly name = 'AbortError';
  /** Whether a change was under way that may have been made. False for a call that only reads. */
  readonly mayHaveChanged: boolean;
  /** The job that `run` waited for; undefined for other verbs, and if no job was submitted. */
  readonly jobId: string | undefined;
  /** The outcome of the request to cancel that job; undefined if the job continues. */
  readonly cancel: 'cancelled' | 'requested' | undefined;

  constructor(
    reason: unknown,
    left:
      | { readonly mayHaveChanged: boolean }
      | { readonly jobId: string; readonly cancel: 'cancelled' | 'requested' | undefined },
  ) {
    const run = 'jobId' in left ? left : undefined;
    const mayHaveChanged = 'jobId' in left || left.mayHaveChanged;
    const what =
      run !== undefined
        ? `job ${run.jobId}: ${cancelText(run.cancel)}`
        : mayHaveChanged
          ? 'a write that was under way may have been applied'
          : 'nothing was changed';
    super(`the call was aborted by its signal; ${what}`, { cause: reason });
    this.mayHaveChanged = mayHaveChanged;
    this.jobId = run?.jobId;
    this.cancel = run?.cancel;
  }
}
