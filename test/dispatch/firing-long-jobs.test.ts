/** Schedules whose jobs outlive the ten entries of their history, and what is left undone between a decision and its jobs. */
import { describe, expect, it } from 'vitest';
import { OPEN_MAX } from '../../lib/core/recurring.ts';
import { noteEnds } from '../../lib/dispatch/firing.ts';
import { pauseSchedule, resumeSchedule, runNow } from '../../lib/dispatch/schedules.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { MINUTE_MS, scene } from './schedule-scene.ts';
import { FAILED, type Started, storeWith } from './stage.ts';

const POOL = {
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 3_600_000, retry: { maxAttempts: 1 } } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 200 } },
};

const minutes = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from + 1 }, (_, at) => from + at);

describe('a schedule whose job outlives ten firings', () => {
  it.each(['skip', 'queue'] as const)('has no second job beside it, if it is to %s', async (ifRunning) => {
    const { on, put, firedAt, tickAt, history, read } = scene(POOL);
    await put({ ifRunning });
    await tickAt(1);
    const [first] = await on.startEverywhere();
    if (first === undefined) expect.fail('nothing was started');
    for (const minute of minutes(2, 40)) {
      await tickAt(minute);
      expect(await on.startEverywhere()).toEqual([]);
    }
    expect(firedAt()).toEqual([1]);
    // What was left out in a row is one entry.
    expect(await history()).toEqual(
      ifRunning === 'skip' ? ['made 1', 'running 2 40'] : ['made 1', 'running 3 40'],
    );
    const ended = await on.end(first);
    await on.pass({ jobs: [ended], reason: 'stream' });
    await tickAt(41);
    expect(firedAt()).toEqual(ifRunning === 'skip' ? [1, 41] : [1, 2]);
    expect((await read()).state.open).toBeUndefined();
  });

  it('has no second job beside it, whatever else its history is full of', async () => {
    const { on, operator, put, jobs, firedAt, tickAt, history, read } = scene(POOL);
    await put({ ifRunning: 'skip' });
    await tickAt(1);
    const [first] = await on.startEverywhere();
    for (let times = 0; times < 11; times += 1) {
      await on.finish(runNow(operator, 's'));
      await on.pass({ jobs: jobs().slice(-1), reason: 'stream' });
      await on.advance(100);
      for (const started of await on.startEverywhere()) {
        const job = await on.end(started);
        await on.finish(noteEnds(on.main, [job]));
        await on.pass({ jobs: [job], reason: 'stream' });
      }
    }
    expect((await history()).some((entry) => entry.startsWith('made'))).toBe(false);
    await tickAt(2, 3, 4);
    expect(firedAt().filter((minute) => minute > 1.5)).toEqual([]);
    expect((await read()).state.open).toEqual([{ atMs: NOW_MS + MINUTE_MS, isManual: false }]);
    if (first === undefined) expect.fail('nothing was started');
    await on.pass({ jobs: [await on.end(first)], reason: 'stream' });
    await tickAt(5);
    expect(firedAt().at(-1)).toBe(5);
  });

  it('ends it when the next one is to take its place', async () => {
    const { on, operator, put, jobs, tickAt } = scene(POOL);
    await put({ ifRunning: 'replace', when: { kind: 'every', everyMs: 20 * MINUTE_MS } });
    await tickAt(20);
    const [first] = await on.startEverywhere();
    for (let times = 0; times < 11; times += 1) {
      await on.finish(runNow(operator, 's'));
      await on.pass({ jobs: jobs().slice(-1), reason: 'stream' });
      await on.advance(100);
      for (const started of await on.startEverywhere())
        await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
    }
    await tickAt(40);
    expect(on.store.inspectJob(first?.job.id ?? '')?.cancelRequestedAtMs).toBeDefined();
    expect(jobs().at(-1)?.runAtMs).toBe(NOW_MS + 40 * MINUTE_MS);
  });

  it('counts its failures, and stops after as many as it may have', async () => {
    const { on, put, read, jobs, tickAt } = scene(POOL);
    await put({ maxFailures: 3 });
    const running: { readonly started: Started; readonly sinceMinute: number }[] = [];
    for (const minute of minutes(1, 45)) {
      await tickAt(minute);
      for (const started of await on.startEverywhere()) running.push({ started, sinceMinute: minute });
      while ((running[0]?.sinceMinute ?? Infinity) + 12 <= minute) {
        const { started } = running.shift() ?? expect.fail('nothing runs');
        await on.pass({ jobs: [await on.end(started, FAILED)], reason: 'stream' });
      }
    }
    expect((await read()).state).toMatchObject({ stopped: 'failures', failures: 3 });
    // Those that had begun by the time of the third failure.
    expect(jobs().length).toBeLessThanOrEqual(15);
  });

  it('keeps no open firings where nobody asks for them, and a bounded number where somebody does', async () => {
    const free = scene(POOL);
    await free.put();
    await free.tickAt(...minutes(1, 15));
    expect((await free.read()).state.open).toBeUndefined();
    const watched = scene(POOL);
    await watched.put({ when: { kind: 'every', everyMs: 10_000 }, maxFailures: 3 });
    await watched.tickAt(...minutes(1, 30));
    expect((await watched.read()).state.open).toHaveLength(OPEN_MAX);
  });
});

describe('a schedule that replaces its job', () => {
  it('asks for the end of the old one although whoever decided it died before', async () => {
    const { on, put, jobs, tickAt, read } = scene(POOL);
    await put({ ifRunning: 'replace', when: { kind: 'every', everyMs: 20 * MINUTE_MS } });
    await tickAt(20);
    await on.startEverywhere();
    let isDead = false;
    const cancelJob: typeof on.store.cancelJob = async (request) => {
      if (isDead) return on.store.cancelJob(request);
      isDead = true;
      throw new Error('the process died');
    };
    await on.advance(20 * MINUTE_MS);
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { cancelJob }) }));
    expect(isDead).toBe(true);
    expect((await read()).state.making).toHaveLength(1);
    await tickAt(41);
    const [old] = jobs();
    expect(on.store.inspectJob(old?.id ?? '')?.cancelRequestedAtMs).toBeDefined();
    expect(jobs()).toHaveLength(2);
    expect((await read()).state).not.toHaveProperty('isReplacing');
  });

  it('leaves the new one alone although whoever made it died before it said so', async () => {
    const { on, put, jobs, tickAt, read } = scene(POOL);
    await put({ ifRunning: 'replace', when: { kind: 'every', everyMs: 20 * MINUTE_MS } });
    await tickAt(20);
    await on.startEverywhere();
    const createJobs: typeof on.store.createJobs = async (made) => {
      await on.store.createJobs(made);
      throw new Error('the process died');
    };
    await on.advance(20 * MINUTE_MS);
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { createJobs }) }));
    expect((await read()).state.making).toHaveLength(1);
    expect(jobs()).toHaveLength(2);
    await tickAt(41);
    expect((await read()).state.making).toBeUndefined();
    expect(jobs().map(({ id }) => on.store.inspectJob(id)?.cancelRequestedBy)).toEqual([
      'schedule s',
      undefined,
    ]);
  });

  it('leaves the old one alone when somebody asks for a job beside it', async () => {
    const { on, operator, put, jobs, tickAt } = scene(POOL);
    await put({ ifRunning: 'replace', when: { kind: 'every', everyMs: 20 * MINUTE_MS } });
    await tickAt(20);
    await on.startEverywhere();
    await on.finish(runNow(operator, 's'));
    expect(jobs().map(({ id }) => on.store.inspectJob(id)?.cancelRequestedAtMs)).toEqual([
      undefined,
      undefined,
    ]);
  });
});

describe('a firing that waited for the end of a job', () => {
  it.each([
    ['skip', [1], ['made 1', 'running 2 3']],
    ['replace', [1, 3], ['made 1', 'running 2', 'made 3']],
    ['allow', [1, 2, 3], ['made 1', 'made 2', 'made 3']],
  ] as const)('is dealt with as the policy says that is asked for since: %s', async (to, fired, told) => {
    const { on, put, firedAt, tickAt, history, read } = scene(POOL);
    await put({ ifRunning: 'queue' });
    await tickAt(1);
    await on.startEverywhere();
    await tickAt(2);
    await put({ ifRunning: to });
    expect((await read()).state.queuedMs).toBe(NOW_MS + 2 * MINUTE_MS);
    await tickAt(3);
    expect(firedAt()).toEqual(fired);
    expect(await history()).toEqual(told);
    expect((await read()).state.queuedMs).toBeUndefined();
  });
});

describe('what a schedule leaves out', () => {
  it('while it is paused is told though its times are changed meanwhile', async () => {
    const { on, operator, put, firedAt, at, tickAt, history } = scene(POOL);
    await put();
    await tickAt(1);
    await on.finish(pauseSchedule(operator, 's'));
    await at(10);
    await put({ when: { kind: 'every', everyMs: 2 * MINUTE_MS } });
    await at(11);
    await on.finish(resumeSchedule(operator, 's'));
    await tickAt(12);
    expect(firedAt()).toEqual([1, 12]);
    expect(await history()).toEqual(['made 1', 'paused 2 10', 'made 12']);
  });

  it('while it is paused is what was due: a job that its jitter makes later than the resume is made', async () => {
    const { on, operator, put, jobs, read, at, tickAt } = scene(POOL);
    const hourly = { when: { kind: 'every', everyMs: 60 * MINUTE_MS }, jitterMs: 20 * MINUTE_MS } as const;
    let id = '';
    for (let number = 0; id === '' && number < 200; number += 1) {
      await put(hourly, `s${number}`);
      const { dueMs = 0, nextMs = 0 } = (await read(`s${number}`)).state;
      if (dueMs - nextMs > 15 * MINUTE_MS) id = `s${number}`;
    }
    await at(62);
    await on.finish(pauseSchedule(operator, id));
    await at(63);
    await on.finish(resumeSchedule(operator, id));
    await tickAt(75, 81);
    expect(jobs().filter(({ scheduleId }) => scheduleId === id)).toHaveLength(1);
  });
});

describe('a job of a schedule', () => {
  it('is told of the one before it, also of one that its history has forgotten, or that was made with it', async () => {
    const { put, jobs, tickAt } = scene(POOL);
    const job = { ...aScheduleSpec().job, isTemplate: true, payload: '{{previousAt}}' };
    await put({ misfire: 'all', misfireMax: 20, job });
    await tickAt(30);
    const minuteOf = (at: unknown): number => (Date.parse(String(at)) - NOW_MS) / MINUTE_MS;
    const [first, ...others] = jobs();
    expect(first?.payload).toBe('');
    expect(others.length).toBeGreaterThan(15);
    for (const [at, { payload }] of others.entries())
      expect(minuteOf(payload)).toBe(((jobs()[at]?.runAtMs ?? 0) - NOW_MS) / MINUTE_MS);
    // Its history is full of what was left out.
    const quiet = scene(POOL);
    await quiet.put({
      job,
      when: { kind: 'every', everyMs: 10 * MINUTE_MS },
      misfire: 'skip',
      misfireGraceMs: 0,
    });
    await quiet.tickAt(10, ...minutes(3, 15).map((ten) => 10 * ten - 5), 160);
    expect(quiet.firedAt()).toEqual([10, 160]);
    expect(minuteOf(quiet.jobs().at(-1)?.payload)).toBe(10);
  });

  it('is not made for somebody who asks, once its type is gone', async () => {
    const { on, operator, put, jobs, tickAt, history } = scene(POOL);
    await put({ job: { ...aScheduleSpec().job, type: 'gone' } });
    await tickAt(1);
    expect(await on.finish(runNow(operator, 's'))).toEqual({ kind: 'unknownType', type: 'gone' });
    await tickAt(2);
    expect(jobs()).toEqual([]);
    expect(await history()).toEqual([]);
  });
});
