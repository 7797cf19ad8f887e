/** Matchers of vitest and jest: `expect.extend(jobMatchers)`. */

import { ValidationError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import { type TestedJob, TestScheduler } from './scheduler.ts';

/**
 * The matchers, for the compiler. With vitest 5:
 * `declare module 'vitest' { interface Matchers<R extends void | Promise<void>, T> extends JobMatchers<R> {} }`; with jest: `declare global { namespace jest { interface Matchers<R> extends JobMatchers<R> {} } }`.
 */
export interface JobMatchers<Answer = unknown> {
  /** The job has succeeded. */
  toHaveSucceeded(job: TestedJob): Answer;
  /** The job has failed for good, with an error whose name or message fits. */
  toHaveFailed(job: TestedJob, error?: string | RegExp): Answer;
  /** So many attempts of a type have started; without a number, at least one. */
  toHaveStarted(type: string, times?: number): Answer;
  /** No more jobs of a scope ever ran at once, such as `fleet/pdf` or `key/acme`. */
  toStayWithin(scope: string, most: number): Answer;
  /** No two jobs on the resource ever ran at once. */
  toKeepApart(resourceId: string): Answer;
}

interface Verdict {
  readonly pass: boolean;
  readonly message: () => string;
}

/** Returns what a test expects something of. @throws ValidationError - it is not a scheduler of `testScheduler` */
function schedulerIn(subject: unknown): TestScheduler {
  if (subject instanceof TestScheduler) return subject;
  throw new ValidationError(
    '',
    'expect takes the scheduler that testScheduler returned, and the matcher takes the job: expect(t).toHaveSucceeded(job)',
  );
}

const verdict = (t: TestScheduler, pass: boolean, found: string): Verdict => ({
  pass,
  message: () => `${found} (seed ${t.seed}, ${t.now.toISOString()})`,
});

const stateOf = ({ id, type, state, attempt, error }: Job): string =>
  `job ${id} (${type}) is ${state} at attempt ${attempt}${error === undefined ? '' : `: ${error.name}: ${error.message}`}`;

export const jobMatchers = {
  toHaveSucceeded(subject: TestScheduler, job: TestedJob): Verdict {
    const t = schedulerIn(subject);
    const found = t.job(job);
    return verdict(t, found.state === 'succeeded', stateOf(found));
  },
  toHaveFailed(subject: TestScheduler, job: TestedJob, error: string | RegExp = ''): Verdict {
    const t = schedulerIn(subject);
    const found = t.job(job);
    const text = `${found.error?.name}: ${found.error?.message}`;
    const fits = typeof error === 'string' ? text.includes(error) : error.test(text);
    return verdict(t, found.state === 'failed' && fits, stateOf(found));
  },
  toHaveStarted(subject: TestScheduler, type: string, times?: number): Verdict {
    const t = schedulerIn(subject);
    const count = t.started(type).length;
    return verdict(
      t,
      times === undefined ? count > 0 : count === times,
      `${count} attempts of ${type} have started`,
    );
  },
  toStayWithin(subject: TestScheduler, scope: string, most: number): Verdict {
    const t = schedulerIn(subject);
    const peak = t.peak(scope);
    return verdict(t, peak <= most, `${peak} jobs of ${scope} ran at once`);
  },
  toKeepApart(subject: TestScheduler, resourceId: string): Verdict {
    const t = schedulerIn(subject);
    const overlap = t.overlap(resourceId);
    return verdict(t, overlap <= 1, `${overlap} jobs on ${resourceId} ran at once`);
  },
};
