/** What a job's fields, and what is kept beside them, tell of it. */
import { describe, expect, it } from 'vitest';
import {
  ACTOR_BYTES_MAX,
  HISTORY_ENTRIES_MAX,
  historyOf,
  movedEntry,
  withEntry,
} from '../../lib/core/history.ts';
import {
  type AttemptEntry,
  ERROR_STACK_BYTES_MAX,
  type History,
  type Job,
  type JobState,
} from '../../lib/core/job.ts';
import {
  cancel,
  claim,
  endUnfinished,
  finish,
  promote,
  raiseVersion,
  retime,
  start,
  type Transition,
} from '../../lib/core/life-cycle.ts';
import { attemptsIn } from '../fixtures/attempts-in.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';

const WORKER = { workerId: 'w1', incarnation: 'i1' };
const ERROR = { name: 'Broken', message: 'it broke' };

const moved = (transition: Transition): Job => {
  if (transition.kind !== 'moved') throw new Error('refused');
  return transition.job;
};
const claimed = (job: Job, claimId: string): Job => {
  const batchId = claimId.replace('.0', '');
  return moved(claim(job, { claimId, batchId, fleet: 'images', claimedAtMs: NOW_MS + 1 }, job.version));
};
const running = (job: Job, claimId: string): Job =>
  moved(start(claimed(job, claimId), claimId, WORKER, NOW_MS + 2));
const failedOnce = (): Job => {
  const verdict = { kind: 'retry', error: ERROR, runAtMs: NOW_MS + 9 } as const;
  return moved(finish(running(aJob(), '1-1.0'), '1-1.0', WORKER, verdict, NOW_MS + 5));
};
const outcomesOf = (job: Job): readonly string[] =>
  historyOf(job).events.map((event) => (event.kind === 'attempt' ? event.outcome : event.kind));

describe('the history of a job', () => {
  it('is its submission, as long as nothing else has happened', () => {
    const job = aJob();
    expect(historyOf(job)).toEqual({
      jobId: job.id,
      state: 'pending',
      events: [{ kind: 'submitted', atMs: NOW_MS }],
      dropped: { attempts: 0, losses: 0, others: 0 },
    });
  });

  it.each<readonly [JobState, Job, string]>([
    ['claimed', claimed(aJob(), '1-1.0'), 'claimed'],
    ['running', running(aJob(), '1-1.0'), 'running'],
    ['cancelled', moved(cancel(claimed(aJob(), '1-1.0'), NOW_MS)), 'notStarted'],
    [
      'succeeded',
      moved(finish(running(aJob(), '1-1.0'), '1-1.0', WORKER, { kind: 'succeeded', result: 1 }, NOW_MS)),
      'succeeded',
    ],
    [
      'failed',
      moved(finish(running(aJob(), '1-1.0'), '1-1.0', WORKER, { kind: 'failed', error: ERROR }, NOW_MS)),
      'failed',
    ],
    [
      'cancelled',
      moved(finish(running(aJob(), '1-1.0'), '1-1.0', WORKER, { kind: 'cancelled' }, NOW_MS)),
      'cancelled',
    ],
  ])('of a %s job tells of its attempt, without an entry', (state, job, outcome) => {
    expect(job.state).toBe(state);
    expect(job).not.toHaveProperty('history');
    expect(outcomesOf(job).slice(0, 2)).toEqual(['submitted', outcome]);
    expect(attemptsIn(historyOf(job))).toEqual({ attempts: 1, losses: 0 });
  });

  it('has an attempt once, from its end until the next claim, and after it', () => {
    const again = failedOnce();
    expect(outcomesOf(again)).toEqual(['submitted', 'failed']);
    const waiting = moved(promote(again, NOW_MS + 9));
    expect(outcomesOf(waiting)).toEqual(['submitted', 'failed']);
    expect(outcomesOf(moved(cancel(waiting, NOW_MS + 10)))).toEqual(['submitted', 'failed', 'cancelled']);
    const next = running(waiting, '2-1.0');
    expect(outcomesOf(next)).toEqual(['submitted', 'failed', 'running']);
    const lost = moved(endUnfinished(next, '2-1.0', { kind: 'failed', error: ERROR }, NOW_MS + 20));
    expect(outcomesOf(lost)).toEqual(['submitted', 'failed', 'lost']);
    expect(attemptsIn(historyOf(lost))).toEqual({ attempts: 2, losses: 1 });
  });

  it('counts an attempt whose entry gave way to many moves once', () => {
    let job = failedOnce();
    for (let at = 1; at <= HISTORY_ENTRIES_MAX + 5; at += 1)
      job = moved(retime(job, NOW_MS + 1_000 + at, NOW_MS, 'ann'));
    expect(historyOf(job).events).toHaveLength(HISTORY_ENTRIES_MAX + 1);
    expect(historyOf(job).dropped).toEqual({ attempts: 1, losses: 0, others: 5 });
    expect(attemptsIn(historyOf(job))).toEqual({ attempts: 1, losses: 0 });
    const cancelled = moved(cancel(job, NOW_MS));
    expect(attemptsIn(historyOf(cancelled))).toEqual({ attempts: 1, losses: 0 });
  });

  it('tells of a place that was planned and given up, and counts no attempt for it', () => {
    const waiting = aJob();
    const again = moved(raiseVersion(waiting, waiting.version, { claimId: '3-1.0', atMs: NOW_MS + 4 }));
    expect(historyOf(again).events).toEqual([
      { kind: 'submitted', atMs: NOW_MS },
      { kind: 'notClaimed', atMs: NOW_MS + 4, claimId: '3-1.0' },
    ]);
    expect(attemptsIn(historyOf(again))).toEqual({ attempts: 0, losses: 0 });
  });

  it('keeps of a long name what there is room for, and shows that it is cut', () => {
    const short = withEntry(undefined, movedEntry(1, 2, 3, 'a'.repeat(ACTOR_BYTES_MAX)));
    expect(short.entries).toMatchObject([{ by: 'a'.repeat(ACTOR_BYTES_MAX) }]);
    const [long] = withEntry(undefined, movedEntry(1, 2, 3, '\u0001'.repeat(ACTOR_BYTES_MAX))).entries;
    expect(long).toMatchObject({ by: `${'\u0001'.repeat(42)}…` });
  });

  it('says of a cancellation and a redrive who asked for it, and when', () => {
    const asked = aJob({
      redriveOf: 'job-0',
      redriveBy: 'ann',
      cancelRequestedAtMs: NOW_MS + 1,
      cancelRequestedBy: 'bob',
      cancelRequestedIn: 'running',
      redrivenAs: 'job-2',
      redrivenAtMs: NOW_MS + 2,
      redrivenBy: 'cid',
    });
    expect(historyOf(asked).events).toEqual([
      { kind: 'submitted', atMs: NOW_MS, redriveOf: 'job-0', by: 'ann' },
      { kind: 'cancelled', atMs: NOW_MS + 1, by: 'bob', from: 'running' },
      { kind: 'redriven', atMs: NOW_MS + 2, by: 'cid', as: 'job-2' },
    ]);
    const unnamed = aJob({ redriveOf: 'job-0', cancelRequestedAtMs: NOW_MS + 1, redrivenAs: 'job-2' });
    expect(historyOf(unnamed).events).toEqual([
      { kind: 'submitted', atMs: NOW_MS, redriveOf: 'job-0' },
      { kind: 'cancelled', atMs: NOW_MS + 1 },
      { kind: 'redriven', as: 'job-2' },
    ]);
  });

  it('shows why a running attempt is ended before its worker is gone', () => {
    const hung = { name: 'JobTimeout', message: 'the handler did not stop' };
    const job = { ...running(aJob(), '1-1.0'), hung };
    expect(historyOf(job).events.at(-1)).toMatchObject({ outcome: 'running', error: hung });
  });

  it('keeps the stacks of the newest attempts, and the errors of all', () => {
    const attempt = (claimId: string): AttemptEntry => ({
      kind: 'attempt',
      attempt: 1,
      claimId,
      fleet: 'images',
      claimedAtMs: NOW_MS,
      workerId: 'w1',
      startedAtMs: NOW_MS,
      endedAtMs: NOW_MS,
      outcome: 'failed',
      error: { name: 'Broken', message: 'it broke', stack: 'x'.repeat(ERROR_STACK_BYTES_MAX) },
    });
    const ATTEMPTS = 12;
    let history: History | undefined;
    for (let at = 1; at <= ATTEMPTS; at += 1) history = withEntry(history, attempt(`${at}-1.0`));
    const errors = (history?.entries ?? []).map((entry) =>
      entry.kind === 'attempt' ? entry.error : undefined,
    );
    expect(errors.map((error) => error?.message)).toEqual(Array(ATTEMPTS).fill('it broke'));
    const kept = errors.map((error) => error?.stack !== undefined);
    expect(kept.at(-1)).toBe(true);
    expect(kept[0]).toBe(false);
    expect(kept.toSorted()).toEqual(kept);
  });

  it.each([
    ['a', 1],
    ['é', 2],
    ['€', 3],
    ['😀', 4],
  ])('counts the bytes that %s takes', (character, bytes) => {
    const [long] = withEntry(undefined, movedEntry(1, 2, 3, character.repeat(1_000))).entries;
    const fits = Math.floor((256 - 3) / bytes);
    expect(long).toMatchObject({ by: `${character.repeat(fits)}…` });
  });
});
