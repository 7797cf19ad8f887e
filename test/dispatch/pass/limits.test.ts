import { describe, expect, it } from 'vitest';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import { seeded } from '../../simulation/random.ts';
import { type Stage, stage } from '../../stage/stage.ts';

const WINDOW_MS = 60_000;

const pool = (limit: NonNullable<PoolInput['limits']>[string], own: Partial<PoolInput> = {}): PoolInput => ({
  types: {
    chat: { limits: ['openai'], timeoutMs: 600_000 },
    embed: { limits: ['openai'], timeoutMs: 600_000 },
    other: {},
  },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['chat', 'embed', 'other'], slots: 100 } },
  limits: { openai: limit },
  ...own,
});

/** The most starts within one window that begins with a start. */
const mostWithin = (starts: readonly number[], windowMs: number): number =>
  starts.reduce(
    (most, from) => Math.max(most, starts.filter((atMs) => atMs >= from && atMs < from + windowMs).length),
    0,
  );

interface Start {
  readonly atMs: number;
  readonly key: string;
  readonly org: string | undefined;
  readonly type: string;
  readonly units: number | undefined;
}

/** The most units within one window that begins with a start; a job that names none has `perJob`. */
const mostUnitsWithin = (starts: readonly Start[], perJob: number, windowMs: number): number =>
  starts.reduce((most, { atMs: from }) => {
    const within = starts.filter(({ atMs }) => atMs >= from && atMs < from + windowMs);
    return Math.max(
      most,
      within.reduce((sum, { units = perJob }) => sum + units, 0),
    );
  }, 0);

/**
 * Runs jobs for a time: each step, a dispatcher that remembers nothing passes, workers start what they were sent, some late, and
 * what has run long enough ends.
 */
async function play(
  on: Stage,
  {
    stepMs,
    steps,
    runsMs,
    late = 0,
  }: {
    readonly stepMs: number;
    readonly steps: number;
    readonly runsMs: () => number;
    readonly late?: number;
  },
): Promise<readonly Start[]> {
  const starts: Start[] = [];
  const random = seeded(7);
  const running: { readonly endsAtMs: number; readonly job: Parameters<Stage['end']>[0]['job'] }[] = [];
  for (let step = 0; step < steps; step += 1) {
    await on.pass({}, on.dispatcher());
    // A function that starts late has its messages for so long.
    if (random() >= late) {
      for (const { job, message } of await on.startEverywhere()) {
        if (message.startByMs === undefined || on.time.nowMs <= message.startByMs)
          starts.push({
            atMs: on.time.nowMs,
            key: job.fairnessKey,
            org: job.keys?.org,
            type: job.type,
            units: job.units?.openai,
          });
        running.push({ job, endsAtMs: on.time.nowMs + runsMs() });
      }
    }
    await on.advance(stepMs);
    for (const each of running.splice(0)) {
      if (each.endsAtMs > on.time.nowMs) running.push(each);
      else await on.pass({ jobs: [await on.end(each)], reason: 'stream' }, on.dispatcher());
    }
  }
  return starts;
}

describe('a rate', () => {
  it.each([
    ['short jobs', () => 100, 0],
    ['jobs that outlast the window', () => 90_000, 0],
    ['messages that come late', () => 700, 0.7],
  ])('is never exceeded within any window, and is nearly used: %s', async (_, runsMs, late) => {
    const on = stage({ pool: pool({ rate: { starts: 20, per: '1m' } }) });
    for (let at = 0; at < 150; at += 1)
      await on.put(
        on.job({ id: `job-${at}`, type: at % 2 === 0 ? 'chat' : 'embed', fairnessKey: `k${at % 7}` }),
      );
    const starts = await play(on, { stepMs: 1_000, steps: 300, runsMs, late });
    const times = starts.map(({ atMs }) => atMs);
    expect(mostWithin(times, WINDOW_MS)).toBeLessThanOrEqual(20);
    // Five windows: each start counts a little longer than its window.
    expect(times.length).toBeGreaterThan(late > 0 ? 40 : 75);
    expect(new Set(starts.map(({ type }) => type))).toEqual(new Set(['chat', 'embed']));
  });

  it('holds within any window however long messages take', async () => {
    const on = stage({ pool: pool({ rate: { starts: 1, per: '1m' } }) });
    await on.put(on.job({ id: 'one', type: 'chat' }), on.job({ id: 'two', type: 'chat' }));
    await on.pass();
    // The message takes nearly as long as it may, and the job ends at once.
    await on.advance(5_999);
    const [one] = await on.startEverywhere();
    const beganMs = on.time.nowMs;
    if (one === undefined) throw new Error('nothing was sent');
    await on.pass({ jobs: [await on.end(one)], reason: 'stream' });
    const looks: boolean[] = [];
    while (on.time.nowMs < beganMs + WINDOW_MS) {
      await on.pass({}, on.dispatcher());
      looks.push(on.stateOf('two') === 'claimed');
      await on.advance(500);
    }
    expect(new Set(looks)).toEqual(new Set([false]));
  });

  it('of each key holds for each key, however many wait', async () => {
    const on = stage({ pool: pool({ rate: { per: '1m', perKey: 3 } }) });
    for (let at = 0; at < 120; at += 1)
      await on.put(on.job({ id: `job-${at}`, type: 'chat', fairnessKey: `k${at % 4}` }));
    const starts = await play(on, { stepMs: 2_000, steps: 100, runsMs: () => 500 });
    for (const [, own] of Map.groupBy(starts, ({ key }) => key)) {
      expect(
        mostWithin(
          own.map(({ atMs }) => atMs),
          WINDOW_MS,
        ),
      ).toBe(3);
      expect(own.length).toBeGreaterThanOrEqual(9);
    }
  });

  it('does not hold types that are not under it, and the plan asks for a pass when it opens', async () => {
    const on = stage({ pool: pool({ rate: { starts: 1, per: '1m' } }) });
    await on.put(
      on.job({ id: 'one', type: 'chat' }),
      on.job({ id: 'two', type: 'embed' }),
      on.job({ id: 'free', type: 'other' }),
    );
    await on.pass();
    const [one, free] = await on.startEverywhere();
    expect([one?.job.id, free?.job.id].toSorted()).toEqual(['free', 'one']);
    expect(on.stateOf('two')).toBe('pending');
    const before = on.wakes.length;
    await on.advance(2 * WINDOW_MS);
    expect(on.wakes.length).toBeGreaterThan(before);
    await on.pass({ reason: 'wake' });
    expect(on.stateOf('two')).toBe('claimed');
  });
});

describe('a deployment', () => {
  const perMs = (on: Stage, ms: number): Stage['configuration'] => ({
    ...on.configuration,
    limits: [{ limit: 'openai', total: null, perKey: null, rate: { starts: 2, perKey: null, perMs: ms } }],
  });

  it.each<readonly [string, number, (on: Stage) => Stage['configuration'], boolean]>([
    ['adds a rate', 60_000, ({ configuration: { limits: _, ...rest } }) => rest, false],
    [
      'puts a type under a rate',
      60_000,
      ({ configuration }) => ({
        ...configuration,
        types: configuration.types.map(({ limits: _, ...type }) => type),
      }),
      false,
    ],
    [
      'puts a type of another limit under a rate',
      60_000,
      ({ configuration }) => ({
        ...configuration,
        limits: [{ limit: 'other', total: 50, perKey: null }],
        types: configuration.types.map((type) => ({ ...type, limits: ['other'] })),
      }),
      false,
    ],
    ['shortens the window', 1_000, (on) => perMs(on, 600_000), true],
  ])('that %s counts jobs whose messages come late', async (_, windowMs, before, hasStartBy) => {
    const on = stage({ pool: pool({ rate: { starts: 2, per: '1m' } }) });
    await on.put(on.job({ id: 'one', type: 'chat' }), on.job({ id: 'two', type: 'chat' }));
    await on.pass({}, on.dispatcher({ configuration: before(on) }));
    const dispatcher = (): ReturnType<Stage['dispatcher']> =>
      on.dispatcher({ configuration: perMs(on, windowMs) });
    const three = await on.put(on.job({ id: 'three', type: 'chat' }));
    await on.pass({ jobs: three, reason: 'stream' }, dispatcher());
    await on.advance(14_000);
    await on.pass({}, dispatcher());
    expect(on.stateOf('three')).toBe('pending');
    const late = await on.startEverywhere();
    expect(late.map(({ message: { startByMs = Infinity } }) => startByMs >= on.time.nowMs)).toEqual([
      true,
      true,
    ]);
    expect(late.map(({ message }) => message.startByMs !== undefined)).toEqual([hasStartBy, hasStartBy]);
    for (const each of late) await on.pass({ jobs: [await on.end(each)], reason: 'stream' }, dispatcher());
    expect(on.stateOf('three')).toBe('pending');
    await on.advance(1.1 * windowMs + 1_000);
    await on.pass({}, dispatcher());
    expect(on.stateOf('three')).toBe('claimed');
  });
});

describe('a rate of units', () => {
  const perJob = 4;

  it.each([
    ['jobs end at once', 300, 0],
    ['jobs end at once, and some messages are late', 300, 0.6],
    ['jobs outlast the window', 70_000, 0],
  ])('holds within any window, where %s', async (_, runsMs, late) => {
    const on = stage({ pool: pool({ rate: { units: 20, perKey: 9, perJob, per: '1m' } }) });
    for (let at = 0; at < 150; at += 1)
      await on.put(
        on.job({
          id: `job-${at}`,
          type: at % 2 === 0 ? 'chat' : 'embed',
          fairnessKey: `k${at % 3}`,
          ...(at % 5 === 4 ? {} : { units: { openai: 1 + (at % perJob) } }),
        }),
      );
    const starts = await play(on, { stepMs: 3_000, steps: 100, runsMs: () => runsMs, late });
    const most = mostUnitsWithin(starts, perJob, WINDOW_MS);
    expect(most).toBeLessThanOrEqual(20);
    // What is left of a window is less than one job may have.
    expect(most).toBeGreaterThan(20 - perJob);
    for (const own of Map.groupBy(starts, ({ key }) => key).values())
      expect(mostUnitsWithin(own, perJob, WINDOW_MS)).toBeLessThanOrEqual(9);
    expect(new Set(starts.map(({ units }) => units))).toEqual(new Set([undefined, 1, 2, 3, 4]));
  });

  it('of a key that the job names holds for each of them', async () => {
    const on = stage({ pool: pool({ keyedBy: 'org', rate: { perKey: 6, perJob, per: '1m' } }) });
    for (let at = 0; at < 60; at += 1)
      await on.put(
        on.job({
          id: `job-${at}`,
          type: 'chat',
          keys: { org: `o${at % 3}` },
          units: { openai: 1 + (Math.floor(at / 3) % 3) },
        }),
      );
    const starts = await play(on, { stepMs: 3_000, steps: 60, runsMs: () => 300 });
    for (const own of Map.groupBy(starts, ({ org }) => org).values()) {
      expect(mostUnitsWithin(own, perJob, WINDOW_MS)).toBeLessThanOrEqual(6);
      expect(own.length).toBeGreaterThanOrEqual(5);
    }
  });

  /** A dispatcher under a declaration that has changed the rate. */
  const under = (on: Stage, units: number, most: number) => {
    const rate = { starts: null, units, perKey: null, perJob: most, perMs: WINDOW_MS };
    const limits = on.configuration.limits?.map((limit) => ({ ...limit, rate }));
    return on.dispatcher({ configuration: { ...on.configuration, limits } });
  };

  it('counts what a job had when it was reserved, although a job may have less now', async () => {
    const on = stage({ pool: pool({ rate: { units: 8, perJob, per: '1m' } }) });
    await on.put(
      on.job({ id: 'unnamed', type: 'chat' }),
      on.job({ id: 'named', type: 'chat', units: { openai: 3 } }),
    );
    await on.pass();
    expect(on.held().map(({ units }) => units?.openai)).toEqual([3, 4]);
    await on.startEverywhere();
    await on.advance(WINDOW_MS / 2);
    await on.put(on.job({ id: 'after', type: 'chat', units: { openai: 1 } }));
    await on.pass({}, under(on, 8, 2));
    expect(on.stateOf('after')).toBe('pending');
  });

  it('holds for jobs that wait with more units than a job may have since a deployment', async () => {
    const on = stage({ pool: pool({ rate: { units: 8, perJob: 8, per: '1m' } }) });
    await on.put(
      on.job({ id: 'first', type: 'chat', units: { openai: 2 } }),
      on.job({ id: 'large', type: 'chat', units: { openai: 7 } }),
      on.job({ id: 'other', type: 'embed', units: { openai: 1 }, fairnessKey: 'k' }),
    );
    await on.pass({}, under(on, 8, 2));
    const [first] = await on.startEverywhere();
    if (first === undefined) throw new Error('nothing was sent');
    await on.pass({ jobs: [await on.end(first)], reason: 'stream' }, under(on, 8, 2));
    expect(on.stateOf('large')).toBe('pending');
    await on.advance(2 * WINDOW_MS);
    await on.pass({}, under(on, 8, 2));
    expect(on.stateOf('large')).toBe('claimed');
  });

  it('starts a job with more units than the whole rate has since a deployment when nothing else counts', async () => {
    const on = stage({ pool: pool({ rate: { units: 20, perJob: 20, per: '1m' } }) });
    await on.put(
      on.job({ id: 'first', type: 'chat', units: { openai: 1 } }),
      on.job({ id: 'huge', type: 'chat', units: { openai: 20 } }),
    );
    const seen: (readonly [string | undefined, string | undefined])[] = [];
    for (let window = 0; window < 3; window += 1) {
      await on.pass({}, under(on, 8, 2));
      for (const start of await on.startEverywhere())
        await on.pass({ jobs: [await on.end(start)] }, under(on, 8, 2));
      if (window === 1) await on.put(on.job({ id: 'later', type: 'chat', units: { openai: 1 } }));
      await on.pass({}, under(on, 8, 2));
      seen.push([on.stateOf('huge'), window === 0 ? '' : on.stateOf('later')]);
      await on.advance(2 * WINDOW_MS);
    }
    expect(seen).toEqual([
      ['pending', ''],
      ['succeeded', 'pending'],
      ['succeeded', 'succeeded'],
    ]);
  });
});

describe('a cap that types share', () => {
  it('counts the jobs of all of them, and those of each key', async () => {
    const on = stage({ pool: pool({ total: 3, perKey: 2 }) });
    for (let at = 0; at < 6; at += 1)
      await on.put(on.job({ id: `a-${at}`, type: at % 2 === 0 ? 'chat' : 'embed', fairnessKey: 'a' }));
    await on.put(
      on.job({ id: 'b-0', type: 'chat', fairnessKey: 'b' }),
      on.job({ id: 'b-1', fairnessKey: 'b' }),
    );
    await on.pass();
    const held = on.held().filter(({ type }) => type !== 'other');
    expect(held).toHaveLength(3);
    expect(held.filter(({ fairnessKey }) => fairnessKey === 'a')).toHaveLength(2);
  });
});

describe('limits', () => {
  it('count a job that was reserved under them, although its type is no longer', async () => {
    const on = stage({ pool: pool({ total: 1 }) });
    await on.put(on.job({ id: 'before', type: 'embed' }));
    await on.pass();
    await on.startEverywhere();
    const { limits: _limits, ...embed } = on.configuration.types[1] ?? ({} as never);
    const configuration = {
      ...on.configuration,
      types: on.configuration.types.map((type) => (type.type === 'embed' ? embed : type)),
    };
    const jobs = await on.put(on.job({ id: 'after', type: 'chat' }), on.job({ id: 'free', type: 'embed' }));
    await on.pass({ jobs, reason: 'stream' }, on.dispatcher({ configuration }));
    expect(on.states(jobs)).toEqual(['pending', 'claimed']);
  });
});

describe('a budget', () => {
  it('keeps a key from starting once its attempts have used it, until they are a window old', async () => {
    const on = stage({ pool: pool({ budget: { slotSeconds: 10, per: '1m' } }) });
    for (let at = 0; at < 40; at += 1)
      await on.put(on.job({ id: `job-${at}`, type: 'chat', fairnessKey: 'a' }));
    const starts = await play(on, { stepMs: 1_000, steps: 60, runsMs: () => 2_500 });
    // The first ten are expected to take a second each, and take three.
    expect(starts).toHaveLength(10);
    const more = await play(on, { stepMs: 1_000, steps: 60, runsMs: () => 2_500 });
    expect(more.length).toBeGreaterThan(0);
    expect(
      mostWithin(
        [...starts, ...more].map(({ atMs }) => atMs),
        WINDOW_MS,
      ),
    ).toBe(10);
  });
});

describe('a limit that counts by another key', () => {
  const ORGS = ['acme', 'zeta', 'beta'];
  /** Each line has jobs of every organisation; those of the first stand in front. */
  const put = async (on: Stage, of: Readonly<Record<string, number>>): Promise<void> => {
    for (const [org, count] of Object.entries(of))
      for (let at = 0; at < count; at += 1)
        await on.put(
          on.job({
            id: `${org}-${at}`,
            type: at % 2 === 0 ? 'chat' : 'embed',
            fairnessKey: `k${at % 2}`,
            keys: { org },
            readyAtMs: on.time.nowMs - (ORGS.length - ORGS.indexOf(org)) * 1_000,
          }),
        );
  };
  const byOrg = (on: Stage): Readonly<Record<string, number>> => {
    const counts: Record<string, number> = {};
    for (const { keys } of on.held()) counts[keys?.org ?? ''] = (counts[keys?.org ?? ''] ?? 0) + 1;
    return counts;
  };

  it('has a cap for each of its keys, and lets the jobs behind them start', async () => {
    const on = stage({ pool: pool({ keyedBy: 'org', perKey: 3 }), budget: { parkKept: 2 } });
    await put(on, { acme: 300, zeta: 20, beta: 2 });
    for (let pass = 0; pass < 6; pass += 1) await on.pass();
    expect(byOrg(on)).toEqual({ acme: 3, zeta: 3, beta: 2 });
    const ended: string[] = [];
    const running = [...(await on.startEverywhere())];
    for (let at = 0; at < 322; at += 1) {
      const one = running.shift();
      if (one === undefined) break;
      ended.push(one.job.keys?.org ?? '');
      await on.pass({ jobs: [await on.end(one)], reason: 'stream' }, on.dispatcher());
      running.push(...(await on.startEverywhere()));
      expect(Math.max(...Object.values(byOrg(on)), 0)).toBeLessThanOrEqual(3);
      if (ended.filter((org) => org === 'acme').length < 297) expect(byOrg(on).acme).toBe(3);
    }
    expect(ended).toHaveLength(322);
  });

  it('has a rate for each of its keys within any window, which is nearly used', async () => {
    const on = stage({
      pool: pool({ keyedBy: 'org', rate: { per: '1m', perKey: 5 } }),
      budget: { parkKept: 1 },
    });
    await put(on, { acme: 100, zeta: 30, beta: 10 });
    const starts = await play(on, { stepMs: 2_000, steps: 150, runsMs: () => 500 });
    for (const org of ORGS) {
      const own = starts.filter((start) => start.org === org).map(({ atMs }) => atMs);
      expect(mostWithin(own, WINDOW_MS)).toBe(5);
      expect(own.length).toBeGreaterThanOrEqual(org === 'beta' ? 10 : 20);
    }
  });

  it('asks for a pass when a rate opens, also if all jobs of the key are parked', async () => {
    const on = stage({
      pool: pool({ keyedBy: 'org', rate: { per: '10s', perKey: 2 } }),
      budget: { parkKept: 1 },
    });
    await put(on, { acme: 60 });
    const startsAtMs: number[] = [];
    const dispatcher = on.dispatcher();
    await on.pass({}, dispatcher);
    let seen = 0;
    for (let second = 0; second < 100; second += 1) {
      for (const started of await on.startEverywhere()) {
        startsAtMs.push(on.time.nowMs);
        await on.pass({ jobs: [await on.end(started)], reason: 'stream' }, dispatcher);
      }
      await on.advance(1_000);
      // Nothing else brings a pass, and this dispatcher looks around once a minute.
      if (on.wakes.length > seen) await on.pass({ reason: 'wake' }, dispatcher);
      seen = on.wakes.length;
    }
    expect(mostWithin(startsAtMs, 10_000)).toBe(2);
    expect(startsAtMs.length).toBeGreaterThanOrEqual(14);
  });

  it('counts a job that came without the key as one of the empty key', async () => {
    const on = stage({ pool: pool({ keyedBy: 'org', perKey: 1 }) });
    await on.put(
      on.job({ id: 'one', type: 'chat' }),
      on.job({ id: 'two', type: 'embed', keys: { user: 'u' } }),
      on.job({ id: 'acme', type: 'embed', keys: { org: 'acme' } }),
    );
    await on.pass();
    expect(byOrg(on)).toEqual({ '': 1, acme: 1 });
  });

  it('counts what runs under it when a deployment brings it', async () => {
    const on = stage({ pool: pool({ total: 50 }) });
    const ofAcme = { type: 'chat', keys: { org: 'acme' } };
    await on.put(on.job({ ...ofAcme, id: 'before' }));
    await on.pass();
    await on.startEverywhere();
    const [openai] = on.configuration.limits ?? [];
    if (openai === undefined) throw new Error('no limit is declared');
    const configuration = { ...on.configuration, limits: [{ ...openai, keyedBy: 'org', perKey: 1 }] };
    const jobs = await on.put(
      on.job({ ...ofAcme, id: 'after' }),
      on.job({ ...ofAcme, id: 'other', keys: { org: 'zeta' } }),
    );
    await on.pass({ jobs, reason: 'stream' }, on.dispatcher({ configuration }));
    expect(on.states(jobs)).toEqual(['pending', 'claimed']);
  });
});
