/**
 * How an attempt ends: what its handler returned or threw, or why it did not run, as the verdict that is stored.
 */
import type { JobTypeConfiguration } from '../core/configuration.ts';
import { ConfigurationError } from '../core/errors.ts';
import { type Job, type JobError, type Json, withoutStack } from '../core/job.ts';
import type { Unfinished, Verdict } from '../core/life-cycle.ts';
import { afterFailure, afterRelease, afterWorkerLost, type HandlerDecision } from '../core/retry.ts';
import type { Clock, Random } from '../runtime/contract.ts';
import { isAttemptError, WorkerStoppedError } from './errors.ts';
import { ParkedJob } from './kept.ts';
import { type Rest, type RestContext, restFor, restsUntilMs } from './rests.ts';
import { type Cooldown, jobErrorOf } from './thrown.ts';

/** The part of an attempt's context on which its end depends. */
export interface EndingContext extends Omit<RestContext, 'store'> {
  readonly clock: Clock;
  readonly random: Random;
  /** The version of the declaration that the worker started with. */
  readonly declared?: number | undefined;
  /** When the version `declared` was declared, in epoch ms. */
  readonly declaredAtMs?: number | undefined;
}

/** The error of a handler, as `thrown.ts` has read it. No other code looks at the thrown value. */
export interface Failure {
  readonly error: JobError;
  readonly decided: HandlerDecision | Cooldown | undefined;
}

export class HandlerThrew {
  readonly failure: Failure;

  constructor(failure: Failure) {
    this.failure = failure;
  }
}

/** Milliseconds after which a job is tried again, if it met a worker of another deployment. */
const ROLLOUT_MS = 60_000;
/**
 * Milliseconds after a declaration for which workers of the version before may still run: the longest rollout of a
 * deployment.
 */
const ROLLOUT_MAX_MS = 15 * 60_000;
/**
 * How often a job may be given back before its handler began. After that it counts as lost, or fails, so that this
 * ends.
 */
const NOT_BEGUN_MAX = ROLLOUT_MAX_MS / ROLLOUT_MS;

/**
 * Whether a missing handler may be due to a rollout: a worker that has the handler may be about to replace this one,
 * or the type may have moved to another fleet, which the next plan of the job takes into account. True if the job was
 * claimed under another declaration than the worker started with, or if that declaration is so young that the
 * worker's code may be older.
 */
function mayBeRollingOut({ clock, declared, declaredAtMs }: EndingContext, job: Job): boolean {
  if (declared === undefined) return false;
  // planted: handlers-of-tomorrow
  if ((job.claim?.declared ?? declared) !== declared) return true;
  return declared > 1 && declaredAtMs !== undefined && clock.nowMs() < declaredAtMs + ROLLOUT_MAX_MS;
}

/** How an attempt ended. */
export type AttemptEnding =
  | Verdict
  /**
   * The worker does not finish the attempt: the worker ended before the handler did, or could not begin it, or the
   * handler asked for a cool-down, or parked the job. `as` says which.
   */
  | {
      readonly kind: 'unfinished';
      readonly as: Exclude<Unfinished, 'failed'>;
      readonly verdict: Verdict;
      /** The rest that is written before the attempt ends. */
      readonly rest?: Rest | undefined;
    }
  /** Another attempt holds the job: there is nothing to write. */
  | { readonly kind: 'superseded' };

/** Returns the end of an attempt whose scope rests. The job waits where it would stand if it had not been started. */
const restedEnding = (message: string, untilMs: number, rest?: Rest): AttemptEnding => ({
  kind: 'unfinished',
  as: 'rested',
  verdict: { kind: 'retry', error: { name: 'CooldownError', message }, runAtMs: untilMs },
  rest,
});

/**
 * Returns the end of an attempt that arrived after this process had asked for a rest of its scope; undefined: nothing
 * rests.
 */
export function endingInRest(context: EndingContext, job: Job): AttemptEnding | undefined {
  const untilMs = restsUntilMs(context, job);
  return untilMs === undefined
    ? undefined
    : restedEnding('a rest began while the message was under way: the handler has not run', untilMs);
}

export const returnedEnding = (returned: Json | ParkedJob): AttemptEnding =>
  returned instanceof ParkedJob
    ? {
        kind: 'unfinished',
        as: 'parked',
        verdict: { kind: 'retry', runAtMs: returned.untilMs, parkedState: returned.state },
      }
    : { kind: 'succeeded', result: returned };

/** Returns how the attempt ended, given the error that ended it. */
export function endingOf(
  context: EndingContext,
  job: Job,
  type: JobTypeConfiguration | undefined,
  error: unknown,
): AttemptEnding {
  const { clock, random } = context;
  if (isAttemptError(error, 'JobCancelled')) return { kind: 'cancelled' };
  if (isAttemptError(error, 'JobSuperseded')) return { kind: 'superseded' };
  const nowMs = clock.nowMs();
  if (error instanceof WorkerStoppedError) {
    const { isLoss, message } = error;
    return isLoss
      ? { kind: 'unfinished', as: 'lost', verdict: afterWorkerLost(job, type, nowMs) }
      : releasedEnding(message, nowMs, type?.onWorkerLost !== 'resume');
  }
  // The job is planned again, with the rate that its type has by then.
  if (isAttemptError(error, 'StartedTooLate')) return releasedEnding(error.message, nowMs, false);
  const mayGiveBack = countReleases(job) < NOT_BEGUN_MAX;
  if (isAttemptError(error, 'NotBegun')) {
    if (mayGiveBack) return releasedEnding(error.message, nowMs, false);
    return { kind: 'unfinished', as: 'lost', verdict: afterWorkerLost(job, type, nowMs) };
  }
  const isMissing = isAttemptError(error, 'MissingHandler') && type !== undefined;
  if (isMissing && mayGiveBack && mayBeRollingOut(context, job))
    return releasedEnding(error.message, nowMs + ROLLOUT_MS, false);
  const { error: failure, decided } =
    error instanceof HandlerThrew
      ? error.failure
      : { error: withoutStack(jobErrorOf(error)), decided: undefined };
  if (decided !== undefined && 'restUntilMs' in decided)
    return restEnding(context, job, type, failure, decided);
  const isFinal = isAttemptError(error, 'MissingHandler', 'JobUnreadable');
  return type === undefined || isFinal
    ? { kind: 'failed', error: failure }
    : afterFailure(job, failure, type.retry, random(), nowMs, decided);
}

/** A rest that no job would obey is a mistake of the handler: its attempt has failed, and counts. */
function restEnding(
  { configuration, clock, random }: EndingContext,
  job: Job,
  type: JobTypeConfiguration | undefined,
  failure: JobError,
  asked: Cooldown,
): AttemptEnding {
  try {
    const rest = restFor(configuration, job, asked);
    return restedEnding(failure.message, rest.untilMs, rest);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const { name, message } = error;
    const mistake = { ...failure, name, message: `${message} The handler threw: ${failure.message}` };
    return type === undefined
      ? { kind: 'failed', error: mistake }
      : afterFailure(job, mistake, type.retry, random(), clock.nowMs(), undefined);
  }
}

const releasedEnding = (message: string, runAtMs: number, isFromStart: boolean): AttemptEnding => ({
  kind: 'unfinished',
  as: 'released',
  verdict: afterRelease(message, runAtMs, isFromStart),
});

/** Returns how often workers have given the job back, as far as its history still shows. */
const countReleases = ({ history }: Job): number =>
  (history?.entries ?? []).filter((entry) => entry.kind === 'attempt' && entry.outcome === 'released').length;
