import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RetryPolicy } from '../../lib/core/configuration.ts';
import { RETRY_DEFAULTS } from '../../lib/core/defaults.ts';
import {
  afterFailure,
  afterRelease,
  afterWorkerGone,
  afterWorkerLost,
  backoffMs,
  ruleFor,
} from '../../lib/core/retry.ts';

const NOW = 1_800_000_000_000;
const ERROR = { name: 'Timeout', message: 'Too slow.' };

function policy(changes: Partial<RetryPolicy> = {}): RetryPolicy {
  return { ...RETRY_DEFAULTS, ...changes };
}

describe('backoffMs', () => {
  it.each([
    ['fixed', [1_000, 1_000, 1_000, 1_000]],
    ['linear', [1_000, 2_000, 3_000, 4_000]],
    ['exponential', [1_000, 2_000, 4_000, 8_000]],
  ] as const)('waits as %s says', (backoff, expected) => {
    const plain = policy({ backoff, jitter: 'none' });
    expect([1, 2, 3, 4].map((attempt) => backoffMs(plain, attempt, 0.5))).toEqual(expected);
  });

  it.each(['fixed', 'linear', 'exponential'] as const)('never waits longer than the most, %s', (backoff) => {
    const capped = policy({ backoff, jitter: 'none', delayMs: 700, maxDelayMs: 650 });
    for (const attempt of [1, 2, 50, 5_000]) expect(backoffMs(capped, attempt, 0.99)).toBe(650);
  });

  it('draws an exponential delay evenly from 0 to its ceiling', () => {
    const jittered = policy({ jitter: 'full' });
    expect(backoffMs(jittered, 3, 0)).toBe(0);
    expect(backoffMs(jittered, 3, 0.5)).toBe(2_000);
    expect(backoffMs(jittered, 3, 0.9999)).toBe(3_999);
  });

  it('draws nothing for the other kinds', () => {
    expect(backoffMs(policy({ backoff: 'linear', jitter: 'full' }), 2, 0.1)).toBe(2_000);
    expect(backoffMs(policy({ backoff: 'fixed', jitter: 'full' }), 2, 0.1)).toBe(1_000);
  });

  it('stays between 0 and the most for every policy, attempt and draw', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('exponential', 'linear', 'fixed'),
        fc.constantFrom('full', 'none'),
        fc.nat(1e9),
        fc.nat(1e9),
        fc.integer({ min: 1, max: 100_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (backoff, jitter, delayMs, maxDelayMs, attempt, random) => {
          const waitMs = backoffMs(policy({ backoff, jitter, delayMs, maxDelayMs }), attempt, random);
          expect(waitMs).toBeGreaterThanOrEqual(0);
          expect(waitMs).toBeLessThanOrEqual(maxDelayMs);
        },
      ),
    );
  });
});

describe('afterFailure', () => {
  it('tries again until the attempts are used up', () => {
    const kinds = [1, 2, 3, 4].map((attempt) => afterFailure({ attempt }, ERROR, policy(), 0, NOW).kind);
    expect(kinds).toEqual(['retry', 'retry', 'failed', 'failed']);
  });

  it('says when, and keeps the error', () => {
    expect(afterFailure({ attempt: 2 }, ERROR, policy({ jitter: 'none' }), 0, NOW)).toEqual({
      kind: 'retry',
      error: ERROR,
      runAtMs: NOW + 2_000,
    });
    expect(afterFailure({ attempt: 3 }, ERROR, policy(), 0, NOW)).toEqual({ kind: 'failed', error: ERROR });
  });

  it('gives up at once on an error that a rule calls hopeless', () => {
    const strict = policy({ errors: [{ name: 'Timeout', retry: false }] });
    expect(afterFailure({ attempt: 1 }, ERROR, strict, 0, NOW).kind).toBe('failed');
    expect(afterFailure({ attempt: 1 }, { ...ERROR, name: 'Other' }, strict, 0, NOW).kind).toBe('retry');
  });

  it("follows a rule's own attempts and delay, beyond the policy's most", () => {
    const patient = policy({
      jitter: 'none',
      errors: [{ name: 'Timeout', retry: true, maxAttempts: 5, delayMs: 900_000 }],
    });
    expect(afterFailure({ attempt: 1 }, ERROR, patient, 0, NOW)).toMatchObject({ runAtMs: NOW + 900_000 });
    expect(afterFailure({ attempt: 4 }, ERROR, patient, 0, NOW).kind).toBe('retry');
    expect(afterFailure({ attempt: 5 }, ERROR, patient, 0, NOW).kind).toBe('failed');
  });

  it("lets a rule's short delay grow up to the policy's most", () => {
    const eager = policy({
      jitter: 'none',
      maxDelayMs: 1_500,
      errors: [{ name: '*', retry: true, delayMs: 500 }],
    });
    expect(afterFailure({ attempt: 1 }, ERROR, eager, 0, NOW)).toMatchObject({ runAtMs: NOW + 500 });
    expect(afterFailure({ attempt: 2 }, ERROR, eager, 0, NOW)).toMatchObject({ runAtMs: NOW + 1_000 });
  });

  it('obeys the first rule that names the error, or all', () => {
    const rules = policy({
      errors: [
        { name: 'A', retry: false },
        { name: '*', retry: true },
        { name: 'B', retry: false },
      ],
    });
    expect(ruleFor(rules, 'A')).toEqual({ name: 'A', retry: false });
    expect(ruleFor(rules, 'B')).toEqual({ name: '*', retry: true });
    expect(ruleFor(policy(), 'A')).toBeUndefined();
  });
});

describe('afterWorkerLost', () => {
  const type = (onWorkerLost: 'fail' | 'retry' | 'resume') => ({
    onWorkerLost,
    retry: policy({ maxWorkersLost: 2 }),
  });

  it('fails at once where the type says so', () => {
    expect(afterWorkerLost({ workersLost: 0 }, type('fail'), NOW)).toMatchObject({
      kind: 'failed',
      error: { name: 'WorkerLost', message: 'The worker that ran the job is gone.' },
    });
  });

  it('fails where nobody declares the type any more', () => {
    expect(afterWorkerLost({ workersLost: 0 }, undefined, NOW)).toMatchObject({ kind: 'failed' });
  });

  it.each([
    ['anew', 'retry', { runAtMs: NOW, isFromStart: true }],
    ['from its checkpoint', 'resume', { runAtMs: NOW }],
  ] as const)('goes on at once, so often, %s, for %s', (_, onWorkerLost, again) => {
    const verdicts = [0, 1, 2].map((workersLost) =>
      afterWorkerLost({ workersLost }, type(onWorkerLost), NOW),
    );
    expect(verdicts).toEqual([
      {
        kind: 'retry',
        ...again,
        error: { name: 'WorkerLost', message: 'The job lost its worker 1 time; 2 are allowed.' },
      },
      {
        kind: 'retry',
        ...again,
        error: { name: 'WorkerLost', message: 'The job lost its worker 2 times; 2 are allowed.' },
      },
      {
        kind: 'failed',
        error: {
          name: 'JobQuarantined',
          message: expect.stringMatching(/^The job lost its worker 3 times; 2 are allowed\. .*no other job/),
        },
      },
    ]);
  });

  it('suspects no job of its first loss: others may have run beside it', () => {
    const none = { ...type('retry'), retry: policy({ maxWorkersLost: 0 }) };
    expect(afterWorkerLost({ workersLost: 0 }, none, NOW)).toMatchObject({
      kind: 'failed',
      error: { name: 'WorkerLost' },
    });
  });

  it('never takes a job for readier than now, by a clock that is behind', () => {
    const job = { workersLost: 0, readyAtMs: NOW + 3_000 };
    expect(afterWorkerLost(job, type('resume'), NOW)).toMatchObject({ runAtMs: NOW });
  });
});

describe('afterRelease', () => {
  it('lets the job go on from its checkpoint, unless it has to start anew', () => {
    const error = { name: 'WorkerStopped', message: 'The worker stops.' };
    const resumed = { kind: 'retry', error, runAtMs: NOW };
    expect(afterRelease('The worker stops.', NOW, false)).toEqual(resumed);
    expect(afterRelease('The worker stops.', NOW, true)).toEqual({ ...resumed, isFromStart: true });
  });
});

describe('afterWorkerGone', () => {
  const type = { onWorkerLost: 'fail', retry: policy({ maxAttempts: 2, jitter: 'none' }) } as const;
  const hung = { name: 'JobTimeout', message: 'The handler did not stop.' };

  it('counts a loss where the handler was not known to hang', () => {
    const job = { attempt: 1, workersLost: 0 };
    expect(afterWorkerGone(job, type, 0.5, NOW)).toEqual({
      as: 'lost',
      verdict: afterWorkerLost(job, type, NOW),
    });
  });

  it('counts a failure where the handler hung, by the retries of its type', () => {
    expect(afterWorkerGone({ attempt: 1, workersLost: 0, hung }, type, 0.5, NOW)).toMatchObject({
      as: 'failed',
      verdict: { kind: 'retry', error: hung },
    });
    expect(afterWorkerGone({ attempt: 2, workersLost: 0, hung }, type, 0.5, NOW)).toMatchObject({
      as: 'failed',
      verdict: { kind: 'failed', error: hung },
    });
  });

  it('fails a job that hung when its type is not declared any more', () => {
    const job = { attempt: 1, workersLost: 0, hung };
    expect(afterWorkerGone(job, undefined, 0.5, NOW)).toEqual({
      as: 'failed',
      verdict: { kind: 'failed', error: hung },
    });
  });
});
