/**
 * What a verb of the client can throw. `name` is stable: tell errors apart by it.
 * Errors of the store itself (`StoreThrottled`, `StoreUnavailable`, `StoreMisconfigured`, `StoreRefused`) pass through.
 */
import type { Job, JobState } from '../core/job.ts';

/** An argument that no verb accepts. Nothing was changed. */
export class ValidationError extends Error {
  override readonly name = 'ValidationError';
  /** Path of the wrong argument, such as `payload.items[3]` or `options.timeoutMs`; empty for the whole. */
  readonly field: string;

  constructor(field: string, reason: string, options?: ErrorOptions) {
    super(field === '' ? reason : `${field}: ${reason}`, options);
    this.field = field;
  }
}

/** The idempotency key stands for a job with other content. Nothing was changed. */
export class IdempotencyConflictError extends Error {
  override readonly name = 'IdempotencyConflictError';
  /** The job that has the key. */
  readonly jobId: string;

  constructor(jobId: string) {
    super(
      `the idempotency key is taken by job ${jobId}, which has other content; use a key of its own for each piece of work`,
    );
    this.jobId = jobId;
  }
}

/** No job has this id: it was never accepted here, or its record has expired. */
export class JobNotFoundError extends Error {
  override readonly name = 'JobNotFoundError';
  readonly jobId: string;

  constructor(jobId: string) {
    super(
      `no job has the id ${JSON.stringify(jobId)}: records of ended jobs are kept for some days; check the id and the table`,
    );
    this.jobId = jobId;
  }
}

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

/** Somebody else has changed the same thing of a scope's control in the same moment: theirs stands, at least in part. */
export class ControlChangedError extends Error {
  override readonly name = 'ControlChangedError';
  /** As it stands in a control, such as `type/resize`. */
  readonly scope: string;

  constructor(scope: string) {
    super(
      `somebody else changed ${scope} at the same time, and theirs stands; look at it (controls, or fairlead override), and ask again if you still want it`,
    );
    this.scope = scope;
  }
}

/** The job that was waited for has failed for good. `cause` is what its last attempt ended with. */
export class JobFailedError extends Error {
  override readonly name = 'JobFailedError';
  readonly job: Job;

  constructor(job: Job) {
    const { name, message } = job.error ?? { name: 'Error', message: 'no error was recorded' };
    super(`job ${job.id} failed at attempt ${job.attempt}: ${name}: ${message}`, {
      cause: job.error,
    });
    this.job = job;
  }
}

/** The job that was waited for was cancelled. */
export class JobCancelledError extends Error {
  override readonly name = 'JobCancelledError';
  readonly job: Job;

  constructor(job: Job) {
    super(`job ${job.id} was cancelled before it succeeded; submit it again if it is still wanted`);
    this.job = job;
  }
}

/** What became of a job that is waited for no more. */
const cancelText = (cancel: 'cancelled' | 'requested' | undefined): string =>
  cancel === 'cancelled'
    ? 'it was cancelled and will not run'
    : cancel === 'requested'
      ? 'its worker was asked to stop'
      : 'it goes on: wait longer, or cancel it';

/** The job had not ended when the time was up. */
export class RunTimeoutError extends Error {
  override readonly name = 'RunTimeoutError';
  readonly jobId: string;
  readonly timeoutMs: number;
  /** As it was last seen; undefined if it was never read. */
  readonly state: JobState | undefined;
  /** What became of the request to cancel it; undefined if the job goes on. */
  readonly cancel: 'cancelled' | 'requested' | undefined;

  constructor(
    seen: { readonly jobId: string; readonly state: JobState | undefined },
    timeoutMs: number,
    cancel: 'cancelled' | 'requested' | undefined,
    options?: ErrorOptions,
  ) {
    super(
      `job ${seen.jobId} had not ended after ${timeoutMs} ms (${seen.state ?? 'not seen'}); ${cancelText(cancel)}`,
      options,
    );
    this.jobId = seen.jobId;
    this.timeoutMs = timeoutMs;
    this.state = seen.state;
    this.cancel = cancel;
  }
}

/** Jobs still held capacity when the time was up. The pause stays. */
export class DrainTimeoutError extends Error {
  override readonly name = 'DrainTimeoutError';
  readonly scope: string;
  /** How many. */
  readonly running: number;

  constructor(scope: string, running: number, timeoutMs: number) {
    super(
      running === 0
        ? `${scope} is paused, but no dispatcher has confirmed it within ${timeoutMs} ms; drain it again`
        : `${scope} is paused, and ${running} of its jobs still ran after ${timeoutMs} ms; drain it again, or cancel them`,
    );
    this.scope = scope;
    this.running = running;
  }
}

/** The caller's signal was aborted. `cause` is the signal's reason. */
export class AbortError extends Error {
  override readonly name = 'AbortError';
  /** Whether a change was under way, which may have been made. False of a call that only reads. */
  readonly mayHaveChanged: boolean;
  /** Of `run`: the job that was waited for; undefined: nothing was submitted. */
  readonly jobId: string | undefined;
  /** What became of the request to cancel that job; undefined if it goes on. */
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

/** What the client needs to find the scheduler is not there. */
export class ClientEnvironmentError extends Error {
  override readonly name = 'ClientEnvironmentError';
  /** The variable of the environment that is missing. */
  readonly setting: string;

  constructor(setting: string) {
    super(
      `${setting} is not set: give the process what schedulerEnvironment() of the Scheduler construct answers, or what \`fairlead env\` prints`,
    );
    this.setting = setting;
  }
}

/** No schedule has this id. */
export class ScheduleNotFoundError extends Error {
  override readonly name = 'ScheduleNotFoundError';
  readonly scheduleId: string;

  constructor(scheduleId: string) {
    super(
      `no schedule has the id ${JSON.stringify(scheduleId)}; \`fairlead schedules list\` names those there are`,
    );
    this.scheduleId = scheduleId;
  }
}

/** The schedule is the deployment's: only what is declared changes or removes it. Nothing was changed. */
export class ScheduleDeclaredError extends Error {
  override readonly name = 'ScheduleDeclaredError';
  readonly scheduleId: string;

  constructor(scheduleId: string) {
    super(
      `schedule ${scheduleId} is declared by a deployment: change it there, pause it, or give another one a name of its own`,
    );
    this.scheduleId = scheduleId;
  }
}
