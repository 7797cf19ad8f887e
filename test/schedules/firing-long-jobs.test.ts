/** Schedules whose jobs outlive the ten entries of their history, and what is left undone between a decision and its jobs. */
import { describe, expect, it } from 'vitest';
import { OPEN_MAX } from '../../lib/core/recurring.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { storeWith } from '../stage/stage.ts';
import { MINUTE_MS, scene } from './scene.ts';

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
});
