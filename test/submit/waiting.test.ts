/** Bounds on what waits: how many jobs are let in, who is refused, and what a process remembers of its counts. */
import { describe, expect, it } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import type { Job } from '../../lib/core/job.ts';
import type { JobTypeInput } from '../../lib/core/pool-input.ts';
import { ingest } from '../../lib/submit/ingest.ts';
import { submit } from '../../lib/submit/submit.ts';
import { COUNTED_LINES_MAX } from '../../lib/submit/waiting.ts';
import { desk } from '../client/desk.ts';
import { httpDesk } from '../http/desk.ts';
import { type Stage, type StageOptions, stage, storeWith } from '../stage/stage.ts';

const poolOf = (resize: JobTypeInput, partitions = 1): NonNullable<StageOptions['pool']> => ({
  types: { resize: { defaultCostMs: 8_000, timeoutMs: 30_000, ...resize } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 4 } },
  partitions,
});

/** A process that submits and remembers what it counted. */
const producer = (on: Stage, own: Parameters<Stage['submitter']>[0] = {}) => {
  const context = on.submitter({ counted: new Map(), ...own });
  return async (...jobs: readonly Job[]) => (await submit(context, jobs)).map(({ kind }) => kind);
};

const several = (on: Stage, count: number, changes: Partial<Job> = {}): readonly Job[] =>
  Array.from({ length: count }, () => on.job(changes));

describe('a type with maxWaiting', () => {
  it('lets as many wait, and refuses what is one too many', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 3 }) });
    const put = producer(on);
    expect(await put(...several(on, 2, { fairnessKey: 'a' }))).toEqual(['created', 'created']);
    expect(await put(...several(on, 3, { fairnessKey: 'b' }))).toEqual(['created', 'full', 'full']);
    expect([...on.store.everyJob()]).toHaveLength(3);
  });

  it('lets in again what has room once jobs have started', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 3 }) });
    const put = producer(on);
    await put(...several(on, 3));
    await on.pass();
    await on.startAll('images');
    expect(await put(on.job())).toEqual(['full']);
    // The count is as old as it may be.
    await on.advance(1_001);
    expect(await put(...several(on, 4))).toEqual(['created', 'created', 'created', 'full']);
  });

  it('neither counts nor refuses jobs with a later time', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 1 }) });
    const put = producer(on);
    const later = {
      state: 'scheduled',
      runAtMs: on.time.nowMs + 60_000,
      readyAtMs: on.time.nowMs + 60_000,
    } as const;
    expect(await put(...several(on, 3, later), on.job(), on.job(later), on.job())).toEqual([
      ...['created', 'created', 'created', 'created', 'created'],
      'full',
    ]);
  });

  it('answers a repeated request as before, however many wait', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 1 }) });
    const put = producer(on);
    const job = on.job();
    await put(job);
    expect(await put(job, { ...job, contentHash: 'other' }, on.job())).toEqual([
      'repeated',
      'conflict',
      'full',
    ]);
  });

  it('does not count requests that make no job: repeated ones, and those that a waiting job stands for', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 3 }) });
    const put = producer(on);
    const job = on.job();
    const dedupe = { key: 'account-7', keep: 'last', whileRunning: 'another' } as const;
    expect(await put(job, on.job({ dedupe }))).toEqual(['created', 'created']);
    expect(await put(job, on.job({ dedupe }), on.job({ dedupe }))).toEqual([
      'repeated',
      'replaced',
      'replaced',
    ]);
    expect(await put(...several(on, 2))).toEqual(['created', 'full']);
  });

  it('is exceeded by several processes at most by what the others let in within a second', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 5 }) });
    const producers = [producer(on), producer(on), producer(on)];
    for (const put of producers) await put(on.job());
    // Each has counted those of the others before it, and lets in what it saw room for.
    const kinds = await Promise.all(producers.map((put) => put(...several(on, 9))));
    expect(kinds.map((each) => each.filter((kind) => kind === 'created').length)).toEqual([4, 3, 2]);
    await on.advance(1_001);
    for (const put of producers) expect(await put(on.job())).toEqual(['full']);
  });

  it('is counted in all partitions', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 2 }, 2) });
    await producer(on)(
      on.job({ partition: 1, fairnessKey: 'a' }),
      on.job({ partition: 0, fairnessKey: 'b' }),
    );
    expect(await producer(on)(on.job())).toEqual(['full']);
  });

  it('reads a bounded number of lines, and takes the others to be like them', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 1_000 }) });
    for (let key = 0; key < 4 * COUNTED_LINES_MAX; key += 1)
      await on.put(...several(on, 2, { fairnessKey: `key-${key}` }));
    let lines = 0;
    const store = storeWith(on.store, {
      readLine: (request) => {
        lines += 1;
        return on.store.readLine(request);
      },
    });
    const context = on.submitter({ counted: new Map(), store });
    const outcomes = await submit(context, several(on, 201));
    expect(outcomes.filter(({ kind }) => kind === 'created')).toHaveLength(200);
    expect(outcomes.at(-1)).toMatchObject({ kind: 'full', waiting: 1_000, maxWaiting: 1_000 });
    expect(lines).toBe(COUNTED_LINES_MAX);
  });

  it('counts anew after a count that failed', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 1 }) });
    const counted = new Map();
    const failing = storeWith(on.store, { readKeys: () => Promise.reject(new Error('busy')) });
    await expect(submit(on.submitter({ counted, store: failing }), [on.job()])).rejects.toThrow('busy');
    expect(await producer(on, { counted })(on.job(), on.job())).toEqual(['created', 'full']);
  });
});

describe('a type with maxWaitingPerKey', () => {
  it('bounds each key by itself, and both bounds hold', async () => {
    const on = stage({ pool: poolOf({ maxWaiting: 3, maxWaitingPerKey: 2 }) });
    const context = on.submitter({ counted: new Map() });
    const outcomes = await submit(context, [
      ...several(on, 3, { fairnessKey: 'a' }),
      ...several(on, 2, { fairnessKey: 'b' }),
    ]);
    expect(outcomes).toMatchObject([
      { kind: 'created' },
      { kind: 'created' },
      { kind: 'full', fairnessKey: 'a', maxWaiting: 2, waiting: 2 },
      { kind: 'created' },
      { kind: 'full', fairnessKey: undefined, maxWaiting: 3, waiting: 3 },
    ]);
  });
});

describe('a type without bounds', () => {
  it('is not counted', async () => {
    const on = stage();
    const store = storeWith(on.store, {
      readKeys: () => Promise.reject(new Error('read')),
      readLine: () => Promise.reject(new Error('read')),
    });
    expect(await submit(on.submitter({ counted: new Map(), store }), [on.job()])).toHaveLength(1);
  });
});

describe('who is refused', () => {
  const full = {
    name: 'BacklogFullError',
    jobType: 'resize',
    fairnessKey: undefined,
    waiting: 1,
    maxWaiting: 1,
    // A job takes eight seconds, and there are four slots.
    retryAfterMs: 2_000,
  };

  it('gets an error with what waits and when to come back', async () => {
    const { client } = desk({ pool: poolOf({ maxWaiting: 1 }) });
    await client.submit({ type: 'resize' });
    await expect(client.submit({ type: 'resize' })).rejects.toMatchObject(full);
    await expect(client.run({ type: 'resize' })).rejects.toMatchObject(full);
    expect(await client.submitMany([{ type: 'resize' }])).toMatchObject([{ kind: 'refused', error: full }]);
  });

  it.each([
    ['a cap', { total: 1 }, 8_000],
    ['a rate of starts', { rate: { starts: 2, per: '1m' } }, 30_000],
    ['a rate of units', { rate: { units: 30, perJob: 10, per: '1m' } }, 20_000],
    ['a cap that lets nothing start', { total: 0 }, 3_600_000],
  ])('is told to come back when %s that types share has room', async (_what, limit, retryAfterMs) => {
    const { client } = desk({
      pool: { ...poolOf({ maxWaiting: 1, limits: ['calls'] }), limits: { calls: limit } },
    });
    await client.submit({ type: 'resize' });
    await expect(client.submit({ type: 'resize' })).rejects.toMatchObject({ retryAfterMs });
  });

  it('is told to come back in an hour where nothing may start', async () => {
    const { client } = desk({ pool: poolOf({ maxWaiting: 1, maxConcurrency: 0 }) });
    await client.submit({ type: 'resize' });
    await expect(client.submit({ type: 'resize' })).rejects.toMatchObject({ retryAfterMs: 3_600_000 });
  });

  it('gets status 429 with Retry-After over HTTP', async () => {
    const { send } = httpDesk({ pool: poolOf({ maxWaiting: 1 }) });
    await send('POST', '/jobs', { type: 'resize' });
    const answer = await send('POST', '/jobs', { type: 'resize' });
    const { name: title, fairnessKey: _none, ...members } = full;
    expect(answer).toMatchObject({ status: 429, body: { title, ...members } });
    expect(answer.headers.get('retry-after')).toBe('2');
  });

  it('gets the same of a schedule that it asks for a job now, and finds it there', async () => {
    const { client, finish } = desk({ pool: poolOf({ maxWaiting: 1 }) });
    await client.schedules.put('s', { every: '1h', type: 'resize' });
    await client.submit({ type: 'resize' });
    await expect(finish(client.schedules.runNow('s'))).rejects.toMatchObject(full);
    const { firings, why } = await client.schedules.get('s');
    expect(firings).toEqual([{ what: 'full', atMs: expect.any(Number) }]);
    expect(why).toEqual([expect.stringContaining('maxWaiting')]);
  });

  it('finds a record of its event, with the reason', async () => {
    const on = stage({ pool: poolOf({ maxWaitingPerKey: 1 }) });
    const context = {
      ...on.submitter({ counted: new Map() }),
      events: on.bus,
      log: on.log,
      partitionOf: () => 0,
    };
    const body = JSON.stringify({
      id: 'e',
      detail: {
        jobs: [
          { type: 'resize', fairnessKey: 'a' },
          { type: 'resize', fairnessKey: 'a' },
        ],
      },
    });
    const { created, rejected } = await on.finish(ingest(context, [{ messageId: 'm', body }]));
    expect([created.length, rejected]).toEqual([1, 1]);
    expect(await on.store.listRejections('e')).toMatchObject([
      { field: 'jobs[1].fairnessKey', reason: expect.stringMatching(/1 jobs of type "resize" .* 2 s/) },
    ]);
  });
});

it.each([0, 50_001, 1.5, null, '7'])(
  'maxWaiting: %s is refused, with the field and the way out',
  (maxWaiting) => {
    const declare = () => resolveConfiguration(poolOf({ maxWaiting: maxWaiting as number }));
    expect(declare).toThrow(ConfigurationError);
    expect(declare).toThrow(/types\.resize\.maxWaiting/);
  },
);
