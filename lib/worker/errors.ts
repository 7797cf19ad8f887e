/** Errors that end an attempt from outside its handler, and errors by which a handler decides about its job. */

import { type DurationInput, durationMs, type ResponseHeaders, retryAfterMs } from '../core/duration.ts';
import { ConfigurationError } from '../core/errors.ts';
import { type Check, objectOf, textWithin } from '../core/read-fields.ts';

/**
 * The reason of an attempt's end that did not come from its handler. Stored with the job as the name of its error.
 */
export type AttemptReason =
  /** The attempt took longer than its type allows. */
  | 'JobTimeout'
  /** A client or an operator has cancelled the job. */
  | 'JobCancelled'
  /** Another attempt holds the job, or the job has ended: nothing that this attempt does counts. */
  | 'JobSuperseded'
  /** The handler has returned or thrown. A step that still runs has to stop. */
  | 'AttemptEnded'
  /** The job's record cannot be read in full: it is not run, and not retried. */
  | 'JobUnreadable'
  /** The worker has no handler for the job's type. A retry would not find one either. */
  | 'MissingHandler'
  /** The payload does not fit the schema of its type: the handler has not run, and a retry would not help. */
  | 'PayloadRefused'
  /** The handler's result does not fit the schema of its type, is not JSON, or is too large. */
  | 'ResultRefused'
  /** A checkpoint or the value of a step is not JSON, or too large. A retry would only repeat the step's effect. */
  | 'CheckpointRefused'
  /** The attempt started too late: its handler has not run, and the job is as it was before. */
  | 'NotBegun'
  /** The message came so late that a rate counts this start no longer: the handler has not run, and the job waits again. */
  | 'StartedTooLate'
  /**
   * The handler or a step kept running after its signal was aborted for the reason in `cause`. Its process must end before the
   * job may run again.
   */
  | 'HandlerHung';

/** Ends an attempt. As the reason of a handler's signal it says why the handler has to stop. */
export class AttemptError extends Error {
  override readonly name = 'AttemptError';
  readonly reason: AttemptReason;

  constructor(reason: AttemptReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** Whether `error` is an `AttemptError` with one of these reasons. */
export const isAttemptError = (error: unknown, ...reasons: readonly AttemptReason[]): error is AttemptError =>
  error instanceof AttemptError && reasons.includes(error.reason);

/** The worker ends, or could not be registered. Its attempts' signals carry it as their reason. */
export class WorkerStoppedError extends Error {
  override readonly name = 'WorkerStoppedError';
  /** Whether the worker counts as lost, because it did not end in order. */
  readonly isLoss: boolean;

  constructor(message: string, options: ErrorOptions & { readonly isLoss?: boolean } = {}) {
    super(message, options);
    this.isLoss = options.isLoss === true;
  }
}

/**
 * A handler throws it if a retry would not help: the job fails at once and becomes a dead letter, whatever the rules of
 * its type say.
 *
 * @example throw new PermanentError('the card was declined', { cause: error });
 */
export class PermanentError extends Error {
  override readonly name = 'PermanentError';
}

/** The longest time that a `RetryAfterError` may ask for. */
export const RETRY_AFTER_MAX_MS = 366 * 24 * 3_600_000;

/** The longest rest that a `CooldownError` may ask for. */
export const REST_MAX_MS = 24 * 3_600_000;

/** The shortest rest: attempts that rest are not counted, so a shorter one would let a job ask again at once, without end. */
export const REST_LEAST_MS = 1_000;

/** The scope of a rest. */
export interface CooldownOptions {
  /** The type whose jobs rest. @default - the job's own */
  readonly type?: string | undefined;
  /** The declared limit whose jobs rest, whatever their type. @default - none */
  readonly limit?: string | undefined;
  /**
   * Only the jobs of this fairness key rest, of the limit or of any type; `true`: the job's own.
   * @default - all jobs of the type or limit
   */
  readonly key?: string | true | undefined;
}

const anyText: Check = (field, value) => {
  if (typeof value === 'string') return;
  throw new ConfigurationError(field, value, 'must be a text', 'Leave it out.');
};
/** What the errors below take besides: a cause may be anything. */
const ERROR_CHECKS = { message: anyText, cause: () => {} } as const;

/** The most UTF-8 bytes of the name of a type or a limit, and of a key. */
export const NAME_BYTES_MAX = 512;
const isName = textWithin(NAME_BYTES_MAX, 'Leave it out.');
const checkCooldown = objectOf({
  ...ERROR_CHECKS,
  type: isName,
  limit: isName,
  key: (field, value) => {
    if (value !== true) anyText(field, value);
  },
});

/**
 * A handler throws it if what it works with wants to be left alone for a while, such as an API that answers 429: none of
 * the jobs of its type, or of its fairness key, starts before the rest is over. The attempt is not counted, and the job
 * keeps its age and its place. Of several rests of one scope the latest end holds; they do not add up. A rest takes at
 * least a second, also if it is to end at once or in the past.
 *
 * @example throw new CooldownError('60s');
 * @example throw new CooldownError('5m', { limit: 'openai', key: true });
 */
export class CooldownError extends Error {
  override readonly name = 'CooldownError';
  /** How long the scope rests, in milliseconds; undefined if an instant was given. */
  readonly restMs: number | undefined;
  /** When the rest ends, in epoch milliseconds; undefined if a duration was given. */
  readonly restUntilMs: number | undefined;
  readonly type: string | undefined;
  readonly limit: string | undefined;
  readonly key: string | true | undefined;

  /** @throws ConfigurationError - `after` is no duration of at most a day, and no valid Date; an option is wrong; or a type is given with a limit or a key */
  constructor(
    after: DurationInput | Date,
    given: CooldownOptions & ErrorOptions & { readonly message?: string } = {},
  ) {
    checkCooldown('options', given);
    const { type, limit, key, message, ...options } = given;
    const isDate = after instanceof Date;
    const ms = isDate ? after.getTime() : durationMs('after', after);
    if (Number.isNaN(ms) || (!isDate && ms > REST_MAX_MS))
      throw new ConfigurationError(
        'after',
        after,
        'must be a duration or a Date',
        "Write milliseconds, a text such as '60s', or a Date, at most 24 hours ahead.",
      );
    if (type !== undefined && (limit ?? key) !== undefined)
      throw new ConfigurationError(
        'type',
        type,
        'is given with a limit or a key',
        'Name a type, or a limit, or a key, or a limit and a key.',
      );
    super(message ?? `rests ${isDate ? `until ${after.toISOString()}` : `for ${ms} ms`}`, options);
    this.restMs = isDate ? undefined : ms;
    this.restUntilMs = isDate ? ms : undefined;
    this.type = type;
    this.limit = limit;
    this.key = key;
  }
}

/** The HTTP statuses by which a server asks to be left alone. */
const COOLDOWN_STATUSES: readonly number[] = [429, 503];
/** Milliseconds of rest if an answer with such a status has no `Retry-After`, or one that cannot be read. */
const REST_MS = 60_000;

/**
 * Returns the `CooldownError` for an answer with status 429 or 503, with the time of its `Retry-After`, in seconds or
 * as a date; a minute without one, a second at least, and a day at most. Undefined for any other answer.
 *
 * @example
 * const response = await fetch(url, { signal });
 * const cooldown = cooldownFrom(response, { key: true });
 * if (cooldown !== undefined) throw cooldown;
 */
export function cooldownFrom(
  response: ResponseHeaders & { readonly status: number },
  options: CooldownOptions = {},
): CooldownError | undefined {
  const { status } = response;
  if (!COOLDOWN_STATUSES.includes(status)) return undefined;
  const askedMs = retryAfterMs(response, Date.now()) ?? REST_MS;
  const restMs = Math.min(Math.max(askedMs, REST_LEAST_MS), REST_MAX_MS);
  return new CooldownError(restMs, {
    ...options,
    message: `the answer had status ${status}: rests for ${restMs} ms`,
  });
}

const RETRY_AFTER_WAY_OUT = "Write milliseconds, a text such as '30s', or a Date, at most 366 days ahead.";

interface RetryAfterOptions extends ErrorOptions {
  /**
   * The message of the error.
   * @default - says when the job is retried
   */
  readonly message?: string | undefined;
}

interface ResponseOptions extends RetryAfterOptions {
  /** The wait if the response has no `Retry-After`, or one that cannot be read. @default '30s' */
  readonly otherwise?: DurationInput | undefined;
  /** The longest wait, whatever the response says. @default '366d' */
  readonly atMost?: DurationInput | undefined;
}

const OTHERWISE = '30s';
const checkRetryAfter = objectOf(ERROR_CHECKS);
const isDuration: Check = (field, value) => void durationMs(field, value);
const checkResponse = objectOf({ ...ERROR_CHECKS, otherwise: isDuration, atMost: isDuration });

/**
 * A handler throws it to be retried at a time of its choice: the attempt counts as failed, and `maxAttempts` of the
 * type ends the retries all the same. The type's rules and backoff do not apply.
 *
 * @example if (response.status === 429) throw RetryAfterError.from(response, { atMost: '1h' });
 */
export class RetryAfterError extends Error {
  override readonly name = 'RetryAfterError';
  /** How long the job waits, in milliseconds; undefined if an instant was given. */
  readonly retryAfterMs: number | undefined;
  /** When the job is retried, in epoch milliseconds; undefined if a duration was given. An instant in the past means now. */
  readonly retryAtMs: number | undefined;

  /** @throws ConfigurationError - `after` is no duration and no Date, or more than 366 days ahead; or an option is wrong */
  constructor(after: DurationInput | Date, options: RetryAfterOptions = {}) {
    checkRetryAfter('options', options);
    const isDate = after instanceof Date;
    const ms = isDate ? after.getTime() : durationMs('after', after);
    const aheadMs = isDate ? ms - Date.now() : ms;
    if (Number.isNaN(ms) || aheadMs > RETRY_AFTER_MAX_MS)
      throw new ConfigurationError(
        'after',
        after,
        Number.isNaN(ms) ? 'must be a duration or a Date' : 'must be at most 366 days ahead',
        RETRY_AFTER_WAY_OUT,
      );
    super(
      options.message ?? `to be retried ${isDate ? `at ${after.toISOString()}` : `after ${ms} ms`}`,
      options,
    );
    this.retryAfterMs = isDate ? undefined : ms;
    this.retryAtMs = isDate ? ms : undefined;
  }

  /**
   * Reads the wait from the `Retry-After` header of a response, a number of seconds or an HTTP date.
   *
   * @throws ConfigurationError - `otherwise` or `atMost` is no duration of at most 366 days, or an option is wrong
   */
  static from(response: ResponseHeaders, given: ResponseOptions = {}): RetryAfterError {
    checkResponse('options', given);
    const { otherwise = OTHERWISE, atMost = RETRY_AFTER_MAX_MS, ...options } = given;
    const waitMs = retryAfterMs(response, Date.now()) ?? durationMs('otherwise', otherwise);
    return new RetryAfterError(Math.min(waitMs, durationMs('atMost', atMost)), options);
  }
}
