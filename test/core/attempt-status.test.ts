/** What an image of a job tells about an attempt that was planned. */
import { describe, expect, it } from 'vitest';
import { batchIdOf, claimIdOf, type Job } from '../../lib/core/job.ts';
import { attemptStatusOf, isAttemptOver } from '../../lib/core/life-cycle.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';

describe('the status of a planned attempt', () => {
  const job = aJob();
  const batchId = batchIdOf(0, 3, 'a12345', 2);
  const mine = { claimId: claimIdOf(batchId, 0), batchId, fleet: 'images', claimedAtMs: NOW_MS };
  const ran = { startedAtMs: NOW_MS + 5, finishedAtMs: NOW_MS + 9 };
  const others = { ...mine, claimId: claimIdOf(batchIdOf(0, 3, 'b12345', 2), 0) };

  it.each<readonly [string, Job | undefined, ReturnType<typeof attemptStatusOf>]>([
    ['no item', undefined, { kind: 'neverClaimed' }],
    ['the job as it was planned', job, { kind: 'mayCome' }],
    ['the job as it was before', { ...job, version: 0, state: 'scheduled' }, { kind: 'mayCome' }],
    ['a later version', { ...job, version: 2 }, { kind: 'neverClaimed' }],
    ['another claim', { ...job, version: 2, state: 'claimed', claim: others }, { kind: 'neverClaimed' }],
    ['the claim', { ...job, version: 2, state: 'claimed', claim: mine }, { kind: 'claimed' }],
    [
      'the start',
      { ...job, version: 3, state: 'running', claim: mine, startedAtMs: NOW_MS + 5 },
      { kind: 'running', startedAtMs: NOW_MS + 5 },
    ],
    [
      'success',
      { ...job, version: 4, state: 'succeeded', claim: mine, ...ran },
      { kind: 'ended', durationMs: 4, endedAtMs: NOW_MS + 9, succeeded: true },
    ],
    [
      'failure',
      { ...job, version: 4, state: 'failed', claim: mine, ...ran },
      { kind: 'ended', durationMs: 4, endedAtMs: NOW_MS + 9, succeeded: false },
    ],
    [
      'a retry',
      { ...job, version: 4, state: 'scheduled', claim: mine, ...ran },
      { kind: 'ended', durationMs: 4, endedAtMs: NOW_MS + 9, succeeded: false },
    ],
    [
      'a retry that is due',
      { ...job, version: 5, state: 'pending', claim: mine, ...ran },
      { kind: 'ended', durationMs: 4, endedAtMs: NOW_MS + 9, succeeded: false },
    ],
    [
      'a clock that ran back',
      { ...job, version: 4, state: 'succeeded', claim: mine, startedAtMs: NOW_MS + 9, finishedAtMs: NOW_MS },
      { kind: 'ended', durationMs: 0, endedAtMs: NOW_MS, succeeded: true },
    ],
    [
      'a cancel before the start',
      { ...job, version: 3, state: 'cancelled', claim: mine, finishedAtMs: NOW_MS },
      { kind: 'ended', succeeded: false },
    ],
    ['a cancel before the claim', { ...job, version: 2, state: 'cancelled' }, { kind: 'neverClaimed' }],
  ])('by %s', (_, image, judgement) => {
    const planned = { claimId: claimIdOf(batchId, 0), version: job.version };
    expect(attemptStatusOf(planned, image)).toEqual(judgement);
    expect(isAttemptOver(planned, image)).toBe(
      judgement.kind === 'ended' || judgement.kind === 'neverClaimed',
    );
  });
});
