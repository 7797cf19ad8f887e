import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Verdict } from '../../lib/core/life-cycle.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import type { ScheduleSpec } from '../../lib/core/recurring.ts';
import { jitterOf } from '../../lib/core/schedule.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import { fireAfterEnds, firingJobId } from '../../lib/dispatch/pass/firing.ts';
import {
  deleteSchedule,
  getSchedule,
  pauseSchedule,
  putSchedule,
  resumeSchedule,
  runNow,
} from '../../lib/schedules/schedules.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { FAILED, type Stage, SUCCEEDED, storeWith } from '../stage/stage.ts';
import { MINUTE_MS, scene } from './scene.ts';

describe('a schedule', () => {
  it('makes one job for each of its firings, which is started in the same pass', async () => {
    const { on, put, jobs, firedAt, tickAt, read } = scene();
    await put();
    await tickAt(0.5, 1, 1.5, 2);
    expect(firedAt()).toEqual([1, 2]);
    expect(jobs()[0]).toMatchObject({
      id: firingJobId('s', { atMs: NOW_MS + MINUTE_MS, isManual: false }),
      scheduleId: 's',
      type: 'resize',
    });
    expect(on.states(jobs())).toEqual(['claimed', 'claimed']);
    expect(on.held()).toHaveLength(2);
    expect((await read()).state).toMatchObject({
      lastMs: NOW_MS + 2 * MINUTE_MS,
      nextMs: NOW_MS + 3 * MINUTE_MS,
    });
  });

  it('gives its jobs its tags', async () => {
    const { put, jobs, tickAt } = scene();
    await put({ job: { ...aScheduleSpec().job, tags: { report: 'monthly' } } });
    await tickAt(1);
    expect(jobs()[0]?.tags).toEqual({ report: 'monthly' });
  });

  it('wakes its partition for its next firing without a tick', async () => {
    const { on, put, tickAt } = scene();
    await put({ when: { kind: 'every', everyMs: 10_000 } });
    await on.advance(11_000);
    expect(on.wakes).toContain(NOW_MS + 10_000);
    await tickAt(0.25);
    await on.advance(10_000);
    expect(on.wakes).toContain(NOW_MS + 20_000);
  });

  it('wakes its partition for its next firing without a tick, also once it is resumed', async () => {
    const { on, operator, put } = scene();
    await put({ when: { kind: 'every', everyMs: 10_000 } });
    await on.finish(pauseSchedule(operator, 's'));
    await on.advance(21_000);
    on.wakes.length = 0;
    await on.finish(resumeSchedule(operator, 's'));
    await on.advance(10_000);
    expect(on.wakes).toContain(NOW_MS + 30_000);
  });

  it('is unchanged by the same request, which writes nothing', async () => {
    const { put, read } = scene();
    expect((await put()).kind).toBe('created');
    const { revision } = (await read()).state;
    expect((await put()).kind).toBe('unchanged');
    expect((await read()).state.revision).toBe(revision);
    expect((await put({ timeZone: 'Asia/Tokyo' })).kind).toBe('changed');
  });

  it('is not another owner’s to change or remove', async () => {
    const { on, operator, put } = scene();
    await put();
    expect((await on.finish(putSchedule(operator, 's', aScheduleSpec({ jitterMs: 5 }), true))).kind).toBe(
      'owned',
    );
    expect(await deleteSchedule(operator, 's', true)).toBe('owned');
    expect(await deleteSchedule(operator, 's', false)).toBe('deleted');
    expect(await deleteSchedule(operator, 's', false)).toBe('missing');
    await on.finish(putSchedule(operator, 's', aScheduleSpec(), true));
    expect((await on.finish(putSchedule(operator, 's', aScheduleSpec({ jitterMs: 5 }), false))).kind).toBe(
      'owned',
    );
    expect(await deleteSchedule(operator, 's', false)).toBe('owned');
  });

  it('fires nothing while it is paused, and nothing of that time afterwards', async () => {
    const { on, operator, put, firedAt, tickAt, at } = scene();
    await put();
    await tickAt(1);
    await on.finish(pauseSchedule(operator, 's'));
    await tickAt(2, 3);
    await at(3.5);
    await on.finish(resumeSchedule(operator, 's'));
    await tickAt(3.6, 4);
    expect(firedAt()).toEqual([1, 4]);
  });

  it('that has ended goes on when somebody gives it a later end', async () => {
    const { put, firedAt, tickAt, read } = scene();
    await put({ endMs: NOW_MS + 90_000 });
    await tickAt(1, 2, 3);
    expect((await read()).state).toMatchObject({ stopped: 'ended' });
    await put({ endMs: NOW_MS + 5.5 * MINUTE_MS });
    expect((await read()).state.stopped).toBeUndefined();
    await tickAt(4, 5, 6);
    expect(firedAt()).toEqual([1, 4, 5]);
  });

  it('counts an interval from its start, also from one that is past', async () => {
    const { put, firedAt, tickAt } = scene();
    await put({ when: { kind: 'every', everyMs: 4 * MINUTE_MS }, startMs: NOW_MS - 3 * MINUTE_MS });
    await tickAt(0.5, 1, 2, 3, 4, 5, 6);
    expect(firedAt()).toEqual([1, 5]);
  });

  it('makes a job at once when somebody asks, beside its firings, and twice when two ask', async () => {
    const { on, operator, put, firedAt, tickAt, history } = scene();
    await put();
    await tickAt(0.5);
    const made = [await on.finish(runNow(operator, 's')), await on.finish(runNow(operator, 's'))];
    expect(new Set(made.map((each) => each.kind === 'made' && each.jobId)).size).toBe(2);
    await tickAt(1);
    expect(firedAt().filter((minute) => minute === 1)).toHaveLength(1);
    expect(firedAt()).toHaveLength(3);
    expect((await history()).filter((entry) => entry.startsWith('manual'))).toHaveLength(2);
    expect(await runNow(operator, 'none')).toEqual({ kind: 'missing' });
  });

  it('makes the job that is asked for while it is paused, although whoever asks dies on the way', async () => {
    const { on, operator, put, tickAt, jobs, read } = scene();
    await put();
    await on.finish(pauseSchedule(operator, 's'));
    const createJobs = () => Promise.reject(new Error('the process died'));
    const dying = { ...operator, store: storeWith(on.store, { createJobs }) };
    await expect(on.finish(runNow(dying, 's'))).rejects.toThrow('the process died');
    expect(jobs()).toEqual([]);
    await tickAt(1);
    expect(jobs()).toMatchObject([{ runAtMs: NOW_MS }]);
    expect((await read()).state).toMatchObject({ stopped: 'asked' });
    expect((await read()).state.dueMs).toBeUndefined();
  });

  it('is later by its jitter, always the same, and within it', async () => {
    const { on, put, jobs, tickAt, read } = scene();
    await put({ jitterMs: 20_000 });
    const { dueMs = 0, nextMs = 0 } = (await read()).state;
    const jitterMs = dueMs - nextMs;
    expect(jitterMs).toBeGreaterThan(0);
    expect(jitterMs).toBeLessThanOrEqual(20_000);
    await tickAt(1);
    expect(jobs()).toEqual([]);
    await on.advance(jitterMs);
    await on.pass();
    expect(jobs()).toMatchObject([{ runAtMs: NOW_MS + MINUTE_MS + jitterMs }]);
    expect((await read()).state).toMatchObject({ dueMs: NOW_MS + 2 * MINUTE_MS + jitterMs });
  });

  it('that has stopped so goes on once its type is there again and somebody resumes it', async () => {
    const { on, operator, put, tickAt, read, jobs, firedAt, at } = scene();
    await put({ job: { ...aScheduleSpec().job, type: 'resize' } });
    const { configuration } = on.main;
    const without = { ...configuration, types: configuration.types.filter(({ type }) => type !== 'resize') };
    await tickAt(1);
    await at(2);
    await on.pass({}, on.dispatcher({ configuration: without }));
    expect((await read()).state).toMatchObject({ stopped: 'type' });
    await tickAt(3, 4);
    expect(firedAt()).toEqual([1]);
    await at(4.5);
    await on.finish(resumeSchedule(operator, 's'));
    await tickAt(5);
    expect(firedAt()).toEqual([1, 5]);
    expect(jobs()).toHaveLength(2);
    expect((await read()).state.history.map(({ what }) => what)).toEqual(['made', 'paused', 'made']);
  });

  it('fills a template with what its firing knows', async () => {
    const { put, jobs, tickAt } = scene();
    const payload = {
      id: '{{scheduleId}}',
      at: ['{{scheduledAt}}', '{{ scheduledLocal }}'],
      since: '{{previousAt}}',
    };
    await put({ timeZone: 'Asia/Tokyo', job: { ...aScheduleSpec().job, payload, isTemplate: true } });
    await tickAt(1, 2);
    const iso = (minute: number) => new Date(NOW_MS + minute * MINUTE_MS).toISOString();
    expect(jobs().map((job) => job.payload)).toEqual([
      { id: 's', at: [iso(1), expect.stringMatching(/\+09:00$/)], since: '' },
      { id: 's', at: [iso(2), expect.stringMatching(/\+09:00$/)], since: iso(1) },
    ]);
  });
});

describe('a schedule that cannot be read', () => {
  it('is met by one pass, which fires the others, and by no pass after it', async () => {
    const { on, put, tickAt, firedAt } = scene();
    await put();
    await put({}, 'bad');
    on.store.damageSchedule('bad', 'is not JSON');
    await tickAt(1);
    const reads: (readonly string[])[] = [];
    const watching = on.dispatcher({
      store: storeWith(on.store, {
        getSchedules: (request) => {
          reads.push(request.ids);
          return on.store.getSchedules(request);
        },
      }),
    });
    await on.advance(MINUTE_MS);
    await on.pass({}, watching);
    expect(reads).toEqual([['s']]);
    expect(firedAt()).toEqual([1, 2]);
    expect(await on.store.listUnreadable(0)).toMatchObject([{ key: 'schedule/bad schedule' }]);
  });
});

describe('firings that were missed', () => {
  it.each([
    ['skip', [10], ['missed 1 8', 'made 9', 'made 10'], [9, 10]],
    ['once', [10], ['missed 1 7', 'made 8', 'made 9', 'made 10'], [8, 9, 10]],
    ['all', [10], ['missed 4 8', 'made 1', 'made 2', 'made 3', 'made 9', 'made 10'], [1, 2, 3, 9, 10]],
  ] as const)('%s', async (misfire, ticks, told, fired) => {
    const { put, tickAt, firedAt, history } = scene();
    await put({ misfire, misfireMax: 3 });
    await tickAt(...ticks);
    expect(firedAt()).toEqual(fired);
    expect(await history()).toEqual(told);
  });

  it('of a year of seconds cost one look', async () => {
    const { put, tickAt, jobs } = scene();
    await put({ when: { kind: 'every', everyMs: 1_000 }, misfireGraceMs: 0 });
    await tickAt(365 * 1_440);
    expect(jobs().length).toBeLessThanOrEqual(2);
  });
});

describe('a clock that jumps', () => {
  const everyMinuteOf = async (skewsMs: readonly number[]) => {
    const set = scene();
    await set.put({ misfire: 'all' });
    for (const [minute, skewMs] of skewsMs.entries()) {
      await set.at(minute + 1);
      await set.on.pass({}, set.on.dispatcher({ clock: set.on.time.clock(() => skewMs) }));
      await set.on.pass({}, set.on.dispatcher());
    }
    return set.firedAt();
  };
  const HOUR_MS = 60 * MINUTE_MS;

  it('back loses no firing and doubles none', async () => {
    expect(await everyMinuteOf([0, 0, -HOUR_MS, -HOUR_MS, 0, -1_000])).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('back for whoever fires alone makes up for it afterwards', async () => {
    const { on, put, at, tickAt, firedAt } = scene();
    await put({ misfire: 'all' });
    await tickAt(1);
    for (const minute of [2, 3, 4]) {
      await at(minute);
      await on.pass({}, on.dispatcher({ clock: on.time.clock(() => -HOUR_MS) }));
    }
    expect(firedAt()).toEqual([1]);
    await tickAt(5);
    expect(firedAt()).toEqual([1, 2, 3, 4, 5]);
  });

  it('ahead, and back again, makes each firing once', async () => {
    expect(await everyMinuteOf([0, 3 * MINUTE_MS, 0, 0, 0, 0])).toEqual([1, 2, 3, 4, 5, 6]);
  });
});

describe('the history tells what was left out', () => {
  it('when a pause takes away what waited for the end of a job', async () => {
    const { on, operator, put, tickAt, history, read, firedAt } = scene();
    await put({ ifRunning: 'queue' });
    await tickAt(1);
    const begun = await on.startAll('images');
    await tickAt(2);
    await on.finish(pauseSchedule(operator, 's'));
    expect(await history()).toEqual(['made 1', 'paused 2']);
    for (const each of begun) await on.end(each);
    await on.finish(resumeSchedule(operator, 's'));
    expect((await read()).state.queuedMs).toBeUndefined();
    await tickAt(2.5, 3);
    expect(firedAt()).toEqual([1, 3]);
  });

  it('in blackouts, each run of them once', async () => {
    const { put, tickAt, history } = scene();
    const between = (from: number, until: number) =>
      ({ kind: 'between', fromMs: NOW_MS + from * MINUTE_MS, untilMs: NOW_MS + until * MINUTE_MS }) as const;
    await put({ blackouts: [between(2, 5), between(6, 7)], misfireGraceMs: 10 * MINUTE_MS });
    await tickAt(1, 5);
    expect(await history()).toEqual(['made 1', 'blackout 2 4', 'made 5']);
    await tickAt(8);
    expect(await history()).toEqual(['made 1', 'blackout 2 4', 'made 5', 'blackout 6', 'made 7', 'made 8']);
  });
});

describe('a firing while as many jobs wait as may', () => {
  const crowded = (type: object = {}) => {
    const set = scene({
      types: { resize: { timeoutMs: 3_600_000, maxWaiting: 1, ...type } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
    });
    const counted = new Map();
    const context = set.on.dispatcher({ counted });
    const tickAt = async (...minutes: readonly number[]): Promise<void> => {
      for (const minute of minutes) {
        await set.at(minute);
        await set.on.pass({}, context);
      }
    };
    const begun = async () => {
      await tickAt(1);
      const [first] = await set.on.startAll('images');
      if (first === undefined) throw new Error('nothing started');
      return first;
    };
    return { ...set, tickAt, begun, counting: { ...set.operator, counted } };
  };

  it('makes no job, and the history says so, until there is room', async () => {
    const { on, put, read, tickAt, begun, history, firedAt } = crowded();
    await put();
    const first = await begun();
    await tickAt(2, 3, 4);
    expect(firedAt()).toEqual([1, 2]);
    expect(await history()).toEqual(['made 1', 'made 2', 'full 3 4']);
    expect((await read()).state).toMatchObject({ lastMs: NOW_MS + 2 * MINUTE_MS });
    const ended = await on.end(first);
    await on.pass({ jobs: [ended], reason: 'stream' });
    await on.startAll('images');
    await tickAt(5);
    expect(firedAt()).toEqual([1, 2, 5]);
    expect(await history()).toEqual(['made 1', 'made 2', 'full 3 4', 'made 5']);
  });

  it('is told apart from others that are decided at once', async () => {
    const { put, read, tickAt, begun, history, firedAt } = crowded();
    await put({ misfire: 'all', misfireMax: 20, maxFailures: 5 });
    await begun();
    await tickAt(17);
    expect(firedAt()).toEqual([1, 2]);
    expect(await history()).toEqual(['made 2', 'full 3 17']);
    // The first has left the history, and its job has not ended.
    expect((await read()).state).toMatchObject({
      lastMs: NOW_MS + 2 * MINUTE_MS,
      open: [{ atMs: NOW_MS + MINUTE_MS, isManual: false }],
    });
  });

  it('has its job, if that takes the place of the one that waits', async () => {
    const { put, tickAt, begun, history, firedAt } = crowded();
    await put({ ifRunning: 'replace' });
    await begun();
    await tickAt(2, 3);
    expect(firedAt()).toEqual([1, 2, 3]);
    expect(await history()).toEqual(['made 1', 'made 2', 'made 3']);
  });

  it('is answered with what waits, if somebody asks for it', async () => {
    const { on, put, tickAt, begun, counting, history } = crowded();
    await put();
    await begun();
    await tickAt(2);
    expect(await on.finish(runNow(counting, 's'))).toMatchObject({ kind: 'full', waiting: 1, maxWaiting: 1 });
    expect(await history()).toEqual(['made 1', 'made 2', 'full 2']);
  });
});

describe('a firing whose job would have more units than a deployment lets one job have', () => {
  const pool = (perJob: number): PoolInput => ({
    types: { resize: { limits: ['openai'] } },
    tiers: [{ tier: 'standard' }],
    fleets: { images: { types: ['resize'], slots: 5 } },
    limits: { openai: { rate: { units: 100, perJob, per: '1m' } } },
  });

  it('makes no job, the history says so, and a request to run it now is refused', async () => {
    const { on, at, put, history, operator } = scene(pool(50));
    await put({ job: { ...aScheduleSpec().job, units: { openai: 50 } } });
    await at(1);
    await on.pass();
    const configuration = resolveConfiguration(pool(20));
    const lowered = on.dispatcher({ configuration });
    for (const minute of [2, 3]) {
      await at(minute);
      await on.pass({}, lowered);
    }
    expect(await history()).toEqual(['made 1', 'units 2 3']);
    const refused = await on.finish(runNow({ ...operator, configuration }, 's'));
    expect(refused).toMatchObject({ kind: 'misfit', misfit: { field: ['units', 'openai'] } });
    await at(4);
    await on.pass();
    expect(await history()).toEqual(['made 1', 'units 2 3', 'made 4']);
  });
});

describe('a firing while the last job has not ended', () => {
  const twice = async (ifRunning: ScheduleSpec['ifRunning']) => {
    const set = scene();
    await set.put({ ifRunning });
    await set.tickAt(1);
    const [first] = await set.on.startAll('images');
    await set.tickAt(2);
    if (first === undefined) throw new Error('nothing started');
    return { ...set, first };
  };

  it('queue: waits for the end, and goes on as soon as that is shown', async () => {
    const { on, first, firedAt, tickAt, history } = await twice('queue');
    await tickAt(3);
    expect(firedAt()).toEqual([1]);
    const ended = await on.end(first);
    await on.finish(fireAfterEnds(on.main, [ended]));
    expect(firedAt()).toEqual([1, 2]);
    expect(await history()).toEqual(['made 1', 'running 3', 'made 2']);
  });

  it('queue: is looked at once a minute meanwhile, whatever passes there are', async () => {
    const { on, put, tickAt, read } = scene();
    await put({ ifRunning: 'queue', when: { kind: 'every', everyMs: 30 * MINUTE_MS } });
    await tickAt(30);
    await on.startAll('images');
    for (const minute of [60, 61, 62]) {
      await tickAt(minute);
      expect((await read()).state).toMatchObject({
        queuedMs: NOW_MS + 60 * MINUTE_MS,
        dueMs: NOW_MS + (minute + 1) * MINUTE_MS,
      });
    }
    const { revision } = (await read()).state;
    await tickAt(62.25, 62.5);
    expect((await read()).state.revision).toBe(revision);
  });

  it('of a schedule with jitter is not decided before it is due, though the last job ends', async () => {
    const { on, put, tickAt, at, jobs, read } = scene();
    await put({ ifRunning: 'queue', maxFailures: 5, jitterMs: 10 * MINUTE_MS });
    const jitterMs = jitterOf('s', 10 * MINUTE_MS);
    const jitter = jitterMs / MINUTE_MS;
    expect(jitter).toBeGreaterThan(2);
    await tickAt(1 + jitter);
    const [started] = await on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    // Firings of later minutes have come by their times, and are not due.
    await at(1.5 + jitter);
    await on.finish(fireAfterEnds(on.main, [await on.end(started, FAILED)]));
    expect(jobs()).toHaveLength(1);
    expect((await read()).state).toMatchObject({ dealtMs: NOW_MS + MINUTE_MS });
  });
});

describe('jobs that fail', () => {
  const failing = async (set: ReturnType<typeof scene>, minute: number, verdict = FAILED): Promise<void> => {
    await set.tickAt(minute);
    for (const started of await set.on.startAll('images')) await set.on.end(started, verdict);
  };

  it('stop it at once when their end is shown, and it goes on when it is resumed', async () => {
    const set = scene();
    await set.put({ maxFailures: 1 });
    await set.tickAt(1);
    const [started] = await set.on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await set.on.finish(fireAfterEnds(set.on.main, [await set.on.end(started, FAILED)]));
    expect((await set.read()).state).toMatchObject({ stopped: 'failures' });
    await set.on.finish(resumeSchedule(set.operator, 's'));
    await set.tickAt(2);
    expect(set.firedAt()).toEqual([1, 2]);
  });

  it('in a row stop the schedule at its next firing, which makes no job', async () => {
    const set = scene();
    await set.put({ maxFailures: 2 });
    await failing(set, 1);
    await failing(set, 2, SUCCEEDED);
    await failing(set, 3);
    await failing(set, 4);
    await set.tickAt(5, 6);
    expect(set.firedAt()).toEqual([1, 2, 3, 4]);
    expect((await set.read()).state).toMatchObject({ stopped: 'failures', failures: 2 });
  });

  it('and are tried again are as late as their first attempt', async () => {
    const set = scene();
    await set.put({ when: { kind: 'every', everyMs: 60 * MINUTE_MS } });
    const run = async (minute: number, verdict: Verdict): Promise<void> => {
      await set.tickAt(minute);
      await set.on.advance(700);
      const started = await set.on.startAll('images');
      expect(started).toHaveLength(1);
      for (const each of started) await set.on.end(each, verdict);
    };
    const error = { name: 'Broken', message: 'it broke' };
    await run(60, { kind: 'retry', error, runAtMs: NOW_MS + 70 * MINUTE_MS });
    await run(80, SUCCEEDED);
    expect((await getSchedule(set.operator, 's'))?.state.history).toEqual([
      { atMs: NOW_MS + 60 * MINUTE_MS, what: 'made', jobState: 'succeeded', lateMs: 700 },
    ]);
  });
});

describe('the end of a job', () => {
  it('that a process of an older declaration hears of stops no schedule whose type is new', async () => {
    const set = scene();
    await set.put({ ifRunning: 'queue' });
    await set.tickAt(1, 2);
    const [started] = await set.on.startAll('images');
    if (started === undefined) throw new Error('nothing started');
    await set.at(4);
    const ended = await set.on.end(started);
    const { configuration } = set.on.main;
    const older = { ...set.on.main, configuration: { ...configuration, types: [] } };
    await set.on.finish(fireAfterEnds(older, [ended]));
    expect((await set.read()).state).toMatchObject({ queuedMs: NOW_MS + 2 * MINUTE_MS });
    expect((await set.read()).state.stopped).toBeUndefined();
    await set.on.finish(fireAfterEnds(set.on.main, [ended]));
    expect(set.firedAt()).toEqual([1, 2]);
  });
});

describe('a crash', () => {
  const VERBS = [
    'readDueSchedules',
    'getSchedules',
    'lookUpJobs',
    'saveSchedule',
    'announceLines',
    'createJobs',
    'cancelJob',
  ] as const;

  /** A dispatcher that dies at its n-th call: before it is carried out, or behind it, so that its answer is lost. */
  function dying(
    on: Stage,
    calls: { left: number; seen: number },
    when: 'before' | 'behind',
  ): DispatchContext {
    const verbs = Object.fromEntries(
      VERBS.map((verb) => [
        verb,
        async (...parameters: readonly unknown[]) => {
          calls.seen += 1;
          const isLast = calls.left === 0;
          calls.left -= 1;
          if (calls.left < -1 || (isLast && when === 'before')) throw new Error('it died');
          const answer: unknown = await Reflect.apply(on.store[verb] as () => unknown, on.store, parameters);
          if (isLast) throw new Error('it died');
          return answer;
        },
      ]),
    ) as Partial<JobStore>;
    return on.dispatcher({ store: storeWith(on.store, verbs) });
  }

  const run = async (
    ifRunning: ScheduleSpec['ifRunning'],
    dyingAt: number,
    when: 'before' | 'behind',
    meanwhile?: 'moved' | 'paused',
  ) => {
    const set = scene();
    await set.put({ ifRunning });
    await set.tickAt(1);
    for (const started of await set.on.startAll('images'))
      if (ifRunning === 'allow') await set.on.end(started);
    const calls = { left: dyingAt, seen: 0 };
    await set.at(2);
    await set.on.pass({}, dying(set.on, calls, when)).catch(() => undefined);
    const decided = (await set.read()).state.dealtMs;
    if (meanwhile === 'moved') await set.put({ ifRunning, when: { kind: 'every', everyMs: 7 * MINUTE_MS } });
    if (meanwhile === 'paused') await set.on.finish(pauseSchedule(set.operator, 's'));
    // Its lease has run out.
    await set.tickAt(2.5, 3);
    return { ...set, calls, decided };
  };

  it.each(['before', 'behind'] as const)('%s any call loses no firing, and doubles none', async (when) => {
    for (const ifRunning of ['allow', 'replace'] as const) {
      let steps = 1;
      for (let at = 0; at < steps; at += 1) {
        const { firedAt, calls, history } = await run(ifRunning, at, when);
        steps = Math.max(steps, at === 0 ? 2 : calls.seen);
        expect({ at, ifRunning, fired: firedAt() }).toEqual({ at, ifRunning, fired: [1, 2, 3] });
        expect(await history()).toEqual(['made 1', 'made 2', 'made 3']);
      }
      expect(steps).toBeGreaterThan(5);
    }
  });

  it.each([
    ['moved', 'before'],
    ['moved', 'behind'],
    ['paused', 'before'],
    ['paused', 'behind'],
  ] as const)(
    'and a schedule that is %s then: a firing takes place exactly if it was decided (%s)',
    async (meanwhile, when) => {
      const decisions = new Set<boolean>();
      let steps = 1;
      for (let at = 0; at < steps; at += 1) {
        const { firedAt, calls, decided } = await run('allow', at, when, meanwhile);
        steps = Math.max(steps, at === 0 ? 2 : calls.seen);
        const isDecided = decided === NOW_MS + 2 * MINUTE_MS;
        decisions.add(isDecided);
        expect({ at, fired: firedAt() }).toEqual({ at, fired: isDecided ? [1, 2] : [1] });
      }
      expect(decisions).toEqual(new Set([true, false]));
    },
  );
});
