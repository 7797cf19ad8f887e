import { describe, expect, it } from 'vitest';
import { ConflictError, NotFoundError } from '../../lib/client/errors.ts';
import { LENDING_DEFAULTS, resolveConfiguration } from '../../lib/core/defaults.ts';
import { ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { settingsOf } from '../fixtures/controls.ts';
import { FAILED, storeWith } from '../stage/stage.ts';
import { allOf, desk, errorOf, POOL } from './desk.ts';

describe('cancelling', () => {
  it('ends a waiting job at once', async () => {
    const { client, put, job, stateOf } = desk();
    const [waiting] = await put(job());
    expect(await client.cancel(waiting?.id ?? '')).toMatchObject({ outcome: 'cancelled' });
    expect(stateOf(waiting?.id ?? '')).toBe('cancelled');
  });

  it('of a claimed job wins against its start', async () => {
    const { client, put, job, pass, startEverywhere, stateOf } = desk();
    const [claimed] = await put(job());
    await pass();
    expect(await client.cancel(claimed?.id ?? '')).toMatchObject({ outcome: 'cancelled' });
    expect(await startEverywhere()).toEqual([]);
    expect(stateOf(claimed?.id ?? '')).toBe('cancelled');
  });

  it('asks the worker of a running job, as often as it is asked for', async () => {
    const { client, put, job, pass, startEverywhere } = desk();
    const [running] = await put(job());
    await pass();
    await startEverywhere();
    const first = await client.cancel(running?.id ?? '');
    expect(first).toMatchObject({ outcome: 'requested', job: { state: 'running' } });
    expect(await client.cancel(running?.id ?? '')).toEqual(first);
  });

  it('of an ended job changes nothing', async () => {
    const { client, put, job, work, everything } = desk();
    const [ended] = await put(job());
    await work();
    const before = everything();
    expect(await client.cancel(ended?.id ?? '')).toMatchObject({
      outcome: 'ended',
      job: { state: 'succeeded' },
    });
    expect(everything()).toBe(before);
  });

  it('of no job says so', async () => {
    const { client } = desk();
    expect(await errorOf(client.cancel('nobody'))).toBeInstanceOf(NotFoundError);
  });
});

describe('moving', () => {
  const HOUR_MS = 3_600_000;
  const at = (ms: number): string => new Date(ms).toISOString();

  it('makes a job wait for its new time, and answers it as it is then', async () => {
    const { client, put, job, pass, advance, time, store, stateOf } = desk();
    const [waiting] = await put(job());
    const id = waiting?.id ?? '';
    const runAtMs = time.nowMs + 30_000;
    const moved = await client.retime(id, { runAt: at(runAtMs) });
    expect(moved).toMatchObject({ id, state: 'scheduled', runAtMs, readyAtMs: runAtMs });
    expect(moved).toEqual(store.inspectJob(id));
    await pass();
    expect(stateOf(id)).toBe('scheduled');
    await advance(30_000);
    await pass();
    expect(stateOf(id)).toBe('claimed');
  });

  it('understands every zone, and takes a time that is past for now', async () => {
    const { client, put, job, time, stateOf } = desk();
    const [waiting] = await put(job());
    const id = waiting?.id ?? '';
    const { runAtMs } = await client.retime(id, { runAt: '2100-02-28T23:30:00+05:30' });
    expect(at(runAtMs)).toBe('2100-02-28T18:00:00.000Z');
    expect(await client.retime(id, { runAt: '0001-01-01T00:00:00Z' })).toMatchObject({
      state: 'pending',
      readyAtMs: time.nowMs,
    });
    expect(stateOf(id)).toBe('pending');
  });

  it('counts as often as it is asked for: the last one', async () => {
    const { client, anotherClient, put, job, time, store } = desk();
    const [waiting] = await put(job());
    const id = waiting?.id ?? '';
    for (const hours of [5, 2, 9, 9]) await client.retime(id, { runAt: at(time.nowMs + hours * HOUR_MS) });
    expect(store.inspectJob(id)?.runAtMs).toBe(time.nowMs + 9 * HOUR_MS);
    const asked = [3, 4].map((hours) => time.nowMs + hours * HOUR_MS);
    const both = await Promise.all(
      asked.map((runAtMs) => anotherClient().retime(id, { runAt: at(runAtMs) })),
    );
    expect(both.map(({ runAtMs }) => runAtMs)).toEqual(asked);
    const last = both.toSorted((one, other) => other.version - one.version)[0];
    expect(store.inspectJob(id)).toEqual(last);
  });

  it('leaves a job alone that is claimed with a lock, or that a worker has, and says in which state it is', async () => {
    const { client, put, job, pass, startEverywhere, end, everything, time } = desk({
      pool: { ...POOL, partitions: 2 },
    });
    // Its album may have jobs in the other partition, so the pass claims it.
    const [claimed] = await put(job({ partition: 0, resourceId: 'album-1' }));
    const id = claimed?.id ?? '';
    const refusal = async (): Promise<unknown> => {
      const before = everything();
      const error = await errorOf(client.retime(id, { runAt: at(time.nowMs + HOUR_MS) }));
      expect(everything()).toBe(before);
      return error;
    };
    await pass();
    expect(await refusal()).toMatchObject({ name: 'JobStateError', state: 'claimed', jobId: id });
    const [started] = await startEverywhere();
    expect(await refusal()).toMatchObject({ name: 'JobStateError', state: 'running' });
    if (started !== undefined) await end(started);
    expect(await refusal()).toMatchObject({ name: 'JobStateError', state: 'succeeded' });
  });

  it('moves a job that a fleet was told of, while nobody has started it, and what it was told starts nothing', async () => {
    const { client, put, job, pass, startEverywhere, stateOf, store, time } = desk();
    const [told] = await put(job());
    const id = told?.id ?? '';
    await pass();
    expect(stateOf(id)).toBe('claimed');
    const runAtMs = time.nowMs + HOUR_MS;
    const moved = await client.retime(id, { runAt: at(runAtMs) });
    expect(moved).toMatchObject({ state: 'scheduled', runAtMs });
    expect(await startEverywhere()).toEqual([]);
    expect(store.inspectJob(id)).toEqual(moved);
  });

  it('moves a job that waits for its next attempt', async () => {
    const { client, put, job, pass, startEverywhere, end, time } = desk();
    const [first] = await put(job());
    await pass();
    const [started] = await startEverywhere();
    if (started === undefined) throw new Error('nothing was started');
    const error = { name: 'Flaky', message: 'try again' };
    await end(started, { kind: 'retry', error, runAtMs: time.nowMs + 1_000 });
    const runAt = at(time.nowMs + HOUR_MS);
    expect(await client.retime(first?.id ?? '', { runAt })).toMatchObject({ state: 'scheduled', attempt: 2 });
  });

  it('of no job says so', async () => {
    const { client, time } = desk();
    const error = await errorOf(client.retime('nobody', { runAt: at(time.nowMs) }));
    expect(error).toMatchObject({ name: 'NotFoundError', jobId: 'nobody' });
  });

  it('under a signal that is aborted does nothing', async () => {
    const { client, put, job, everything, time } = desk();
    const [waiting] = await put(job());
    const before = everything();
    const signal = AbortSignal.abort('enough');
    const error = await errorOf(client.retime(waiting?.id ?? '', { runAt: at(time.nowMs) }, { signal }));
    expect(error).toMatchObject({ name: 'AbortError', cause: 'enough' });
    expect(everything()).toBe(before);
  });
});

describe('changing the priority of a job', () => {
  it('keeps it with the author, until a worker has the job', async () => {
    const { client, put, job, pass, startEverywhere } = desk();
    const [waiting] = await put(job());
    const id = waiting?.id ?? '';
    expect(await client.setPriority(id, 7, { actor: 'ann' })).toMatchObject({ priority: 7 });
    expect((await client.history(id)).events).toMatchObject([
      { kind: 'submitted' },
      { kind: 'priority', by: 'ann', from: 0, to: 7 },
    ]);
    await pass();
    await startEverywhere();
    expect(await errorOf(client.setPriority(id, 3))).toMatchObject({
      name: 'JobStateError',
      message: expect.stringContaining('only waiting jobs can get another priority'),
    });
    expect(await errorOf(client.setPriority('nobody', 3))).toMatchObject({ name: 'NotFoundError' });
  });
});

describe('trying a failed job again', () => {
  it('makes a new queued job of the same work, which runs', async () => {
    const { client, deadLetter, store, work, pass, stateOf } = desk();
    const failed = await deadLetter({
      mode: 'onDemand',
      payload: { page: 7 },
      priority: 3,
      resourceId: 'album-1',
      label: 'March invoices',
      tags: { order: '4711' },
      checkpoint: 'half',
    });
    const { jobId, repeated } = await client.retry(failed.id);
    expect(repeated).toBe(false);
    expect(store.inspectJob(jobId)).toMatchObject({
      type: failed.type,
      payload: { page: 7 },
      priority: 3,
      fairnessKey: failed.fairnessKey,
      resourceId: 'album-1',
      label: 'March invoices',
      tags: { order: '4711' },
      mode: 'queued',
      attempt: 1,
      state: 'pending',
      redriveOf: failed.id,
    });
    expect(store.inspectJob(jobId)?.checkpoint).toBeUndefined();
    expect(store.inspectJob(failed.id)?.redrivenAs).toBe(jobId);
    await pass();
    await work();
    expect(stateOf(jobId)).toBe('succeeded');
  });

  it('twice, and by two at once, is the same new job', async () => {
    const { client, anotherClient, deadLetter, store } = desk();
    const failed = await deadLetter();
    const answers = await Promise.all([client.retry(failed.id), anotherClient().retry(failed.id)]);
    expect(await client.retry(failed.id)).toEqual({ jobId: answers[0].jobId, repeated: true });
    expect(new Set(answers.map(({ jobId }) => jobId)).size).toBe(1);
    expect([...store.everyJob()]).toHaveLength(2);
  });

  it('is refused if a deployment has lowered what one job may have', async () => {
    const limits = (perJob: number) => ({ openai: { rate: { units: 100, perJob, per: '1m' } } });
    const pool = { ...POOL, types: { ...POOL.types, resize: { limits: ['openai'] } }, limits: limits(50) };
    const { client, anotherClient, deadLetter } = desk({ pool });
    const failed = await deadLetter({ type: 'resize', units: { openai: 50 } });
    const after = anotherClient({ configuration: resolveConfiguration({ ...pool, limits: limits(20) }) });
    const refused = await errorOf(after.retry(failed.id));
    expect(refused).toMatchObject({
      name: 'ValidationError',
      message: expect.stringMatching(/^units.openai.*at most 20/),
    });
    expect(await allOf(after.redriveDeadLetters({}))).toMatchObject([
      { kind: 'skipped', reason: expect.stringContaining('at most 20') },
    ]);
    expect(await client.retry(failed.id)).toMatchObject({ repeated: false });
  });

  it('reaches a line that was retired meanwhile', async () => {
    const { client, deadLetter, store, advance, pass, stateOf } = desk();
    const failed = await deadLetter();
    await advance(20 * 60_000);
    await pass();
    expect(store.inspect(0).backlogs.size).toBe(0);
    const { jobId } = await client.retry(failed.id);
    await pass();
    expect(stateOf(jobId)).toBe('claimed');
  });

  it('is refused for a job that has not failed', async () => {
    const { client, put, job, everything } = desk();
    const [waiting] = await put(job());
    const before = everything();
    const error = await errorOf(client.retry(waiting?.id ?? ''));
    expect(error).toMatchObject({ name: 'JobStateError', state: 'pending', jobId: waiting?.id });
    expect(everything()).toBe(before);
  });

  it('is refused for a type that is gone', async () => {
    const { client, anotherClient, configuration, deadLetter, everything } = desk();
    const failed = await deadLetter();
    const types = configuration.types.filter(({ type }) => type !== failed.type);
    const before = everything();
    const narrow = anotherClient({ configuration: { ...configuration, types } });
    expect(await errorOf(narrow.retry(failed.id))).toMatchObject({ name: 'JobStateError' });
    expect(everything()).toBe(before);
    expect((await client.retry(failed.id)).repeated).toBe(false);
  });

  it('of no job says so', async () => {
    const { client } = desk();
    expect(await errorOf(client.retry('nobody'))).toMatchObject({
      name: 'NotFoundError',
      jobId: 'nobody',
    });
  });

  it('tells who made the new job when it loses the race', async () => {
    const { anotherClient, deadLetter, store } = desk();
    const failed = await deadLetter();
    const client = anotherClient({
      store: storeWith(store, {
        redrive: async ({ deadLetter: old, job }) => {
          await store.redrive({ deadLetter: old, job: { ...job, id: 'somebody-elses' } });
          return store.redrive({ deadLetter: old, job });
        },
      }),
    });
    expect(await client.retry(failed.id)).toEqual({ jobId: 'somebody-elses', repeated: true });
  });
});

describe('dead letters', () => {
  it('are listed latest first, and can be narrowed', async () => {
    const { client, deadLetter, advance, time } = desk();
    const first = await deadLetter({ fairnessKey: 'tenant-a' });
    await advance(60_000);
    const between = new Date(time.nowMs).toISOString();
    const second = await deadLetter({ fairnessKey: 'tenant-b' });
    const ids = async (filter = {}) => (await allOf(client.deadLetters(filter))).map(({ id }) => id);
    expect(await ids()).toEqual([second.id, first.id]);
    expect(await ids({ fairnessKey: 'tenant-a' })).toEqual([first.id]);
    expect(await ids({ type: 'report' })).toEqual([]);
    expect(await ids({ errorName: 'Broken' })).toHaveLength(2);
    expect(await ids({ errorName: 'Timeout' })).toEqual([]);
    expect(await ids({ failedAfter: between })).toEqual([second.id]);
    expect(await ids({ failedBefore: between })).toEqual([first.id]);
  });

  it('are tried again by a filter, once each', async () => {
    const { client, deadLetter, store } = desk();
    const mine = await deadLetter({ fairnessKey: 'tenant-a' });
    const other = await deadLetter({ fairnessKey: 'tenant-b' });
    const entries = await allOf(client.redriveDeadLetters({ fairnessKey: 'tenant-a' }));
    expect(entries).toMatchObject([{ kind: 'redriven', deadLetterId: mine.id, repeated: false }]);
    expect(store.inspectJob(other.id)?.redrivenAs).toBeUndefined();
    expect(await allOf(client.deadLetters())).toMatchObject([{ id: other.id }]);
    expect(await allOf(client.redriveDeadLetters({ fairnessKey: 'tenant-a' }))).toEqual([]);
  });

  it('are tried again up to a limit, over many pages', async () => {
    const { client, store, job, put, pass, startEverywhere, end } = desk();
    await put(...Array.from({ length: 130 }, () => job()));
    for (let left = 130; left > 0; ) {
      await pass();
      const jobs = [];
      for (const started of await startEverywhere()) jobs.push(await end(started, FAILED));
      left -= jobs.length;
      await pass({ jobs, reason: 'stream' });
    }
    expect(await allOf(client.redriveDeadLetters({}, { limit: 125 }))).toHaveLength(125);
    expect(await allOf(client.deadLetters())).toHaveLength(5);
    expect([...store.everyJob()]).toHaveLength(255);
  });

  it('whose type is gone are skipped with the reason', async () => {
    const { anotherClient, configuration, deadLetter } = desk();
    const failed = await deadLetter();
    const types = configuration.types.filter(({ type }) => type !== failed.type);
    const narrow = anotherClient({ configuration: { ...configuration, types } });
    expect(await allOf(narrow.redriveDeadLetters({}))).toMatchObject([
      { kind: 'skipped', deadLetterId: failed.id, reason: expect.stringContaining('type') },
    ]);
  });

  it('whose record cannot be read are skipped with the reason, and refused by themselves', async () => {
    const { anotherClient, store, deadLetter } = desk();
    const { id } = await deadLetter();
    const unreadable = 'its payload is no JSON';
    const getJobs: JobStore['getJobs'] = async (request) =>
      (await store.getJobs(request)).map((job) => job && { ...job, unreadable });
    const client = anotherClient({ store: storeWith(store, { getJobs }) });
    expect(await allOf(client.redriveDeadLetters({}))).toMatchObject([
      { kind: 'skipped', deadLetterId: id, reason: `its record cannot be read: ${unreadable}` },
    ]);
    expect(await errorOf(client.retry(id))).toMatchObject({
      name: 'JobStateError',
      message: expect.stringContaining(unreadable),
    });
  });

  it('are only found in a dry run', async () => {
    const { client, deadLetter, everything } = desk();
    const { id: deadLetterId, type } = await deadLetter();
    const before = everything();
    expect(await allOf(client.redriveDeadLetters({}, { dryRun: true }))).toEqual([
      { deadLetterId, type, kind: 'matches' },
    ]);
    expect(everything()).toBe(before);
  });

  it('are left alone until the iteration begins', async () => {
    const { client, deadLetter, everything } = desk();
    await deadLetter();
    const before = everything();
    client.redriveDeadLetters({});
    expect(everything()).toBe(before);
  });
});

describe('pausing', () => {
  const SCOPES = [
    'pool',
    { tier: 'urgent' },
    { type: 'resize' },
    { fleet: 'images' },
    { fairnessKey: 'tenant-a' },
  ] as const;

  it.each(SCOPES.map((scope) => [scope]))('%j admits nothing until it is resumed', async (scope) => {
    const { client, put, job, pass, stateOf } = desk();
    const [waiting] = await put(job());
    expect(await client.pause(scope)).toMatchObject({ paused: true });
    await pass();
    expect(stateOf(waiting?.id ?? '')).toBe('pending');
    expect(await client.resume(scope)).toMatchObject({ paused: false });
    await pass();
    expect(stateOf(waiting?.id ?? '')).toBe('claimed');
    expect(await client.controls()).toEqual([]);
  });

  it('holds nobody else back', async () => {
    const { client, put, job, pass, stateOf } = desk();
    const jobs = await put(job({ fairnessKey: 'tenant-a' }), job({ fairnessKey: 'tenant-b' }));
    await client.pause({ fairnessKey: 'tenant-a' });
    await pass();
    expect(jobs.map(({ id }) => stateOf(id))).toEqual(['pending', 'claimed']);
  });

  it('ends with a wake, so that nobody waits for the tick', async () => {
    const { client, wakes, advance } = desk();
    await client.pause('pool');
    await advance(1_000);
    expect(wakes).toEqual([]);
    await client.resume('pool');
    await advance(1_000);
    expect(wakes).toHaveLength(1);
  });

  it('ends even if the wake is lost', async () => {
    const { client, anotherClient, put, job, pass, stateOf } = desk();
    const [waiting] = await put(job());
    await client.pause('pool');
    const queue = { sendWake: () => Promise.reject(new UnavailableError('no answer')) };
    await anotherClient({ queue }).resume('pool');
    await pass();
    expect(stateOf(waiting?.id ?? '')).toBe('claimed');
  });
});

describe('overriding', () => {
  it('a cap holds from the next pass on, and goes back to what is configured', async () => {
    const { client, put, job, pass, held } = desk();
    await put(...Array.from({ length: 4 }, () => job()));
    expect(settingsOf(await client.override({ type: 'resize' }, { maxConcurrency: 1 }))).toEqual({
      scope: 'type/resize',
      paused: false,
      maxConcurrency: 1,
    });
    await pass();
    expect(held()).toHaveLength(1);
    await client.override({ type: 'resize' }, { maxConcurrency: null });
    expect(await client.controls()).toEqual([]);
    await pass();
    expect(held()).toHaveLength(2);
  });

  it('ends by itself, with a wake, and says who, why and until when', async () => {
    const { client, put, job, pass, held, wakes, advance, time } = desk();
    await put(...Array.from({ length: 4 }, () => job()));
    const reason = 'the API is slow';
    await client.override({ type: 'resize' }, { maxConcurrency: 1, for: '20s', reason }, { actor: 'ada' });
    await pass();
    expect(held()).toHaveLength(1);
    const untilMs = time.nowMs + 20_000;
    expect(await client.controls()).toMatchObject([
      { scope: 'type/resize', maxConcurrency: 1, changes: [{ to: 1, untilMs, reason, by: 'ada' }] },
    ]);
    await advance(20_000);
    expect(wakes.length).toBeGreaterThan(0);
    expect(await client.controls()).toEqual([]);
    expect(await client.controls({ history: true })).toMatchObject([
      { scope: 'type/resize', paused: false, changes: [{ reason }] },
    ]);
    await pass();
    expect(held()).toHaveLength(2);
  });

  it('may be above what is declared, and says so', async () => {
    const { anotherClient, configuration } = desk();
    const types = configuration.types.map((type) => ({ ...type, maxConcurrency: 2 }));
    const client = anotherClient({ configuration: { ...configuration, types } });
    const raised = await client.override({ type: 'resize' }, { maxConcurrency: 9 });
    expect(raised).toMatchObject({ maxConcurrency: 9, aboveDeclared: 2 });
    const equal = await client.override({ type: 'resize' }, { maxConcurrency: 2 });
    expect(equal).not.toHaveProperty('aboveDeclared');
  });

  it('of 0 is refused, with the way to let nothing start', async () => {
    const { client } = desk();
    for (const scope of [{ type: 'resize' }, { fairnessKey: 'acme' }])
      await expect(client.override(scope, { maxConcurrency: 0, for: '10m' })).rejects.toThrow(
        'change.maxConcurrency: must be a whole number from 1 to 1000000; a pause lets nothing start (got 0)',
      );
  });

  it('keeps what is not named', async () => {
    const { client } = desk();
    const scope = { fairnessKey: 'tenant-a' };
    await client.override(scope, { maxConcurrency: 3 });
    await client.override(scope, { weight: 2.5 });
    await client.pause(scope);
    const all = { scope: 'key/tenant-a', paused: true, maxConcurrency: 3, weight: 2.5 };
    expect((await client.controls()).map(settingsOf)).toEqual([all]);
    expect(settingsOf(await client.override(scope, { weight: null }))).toEqual({
      scope: 'key/tenant-a',
      paused: true,
      maxConcurrency: 3,
    });
    expect(await client.resume(scope)).toMatchObject({ paused: false, maxConcurrency: 3 });
  });

  it('is refused where partitions would have no share of it, and can borrow none', async () => {
    const { anotherClient, configuration } = desk();
    const limits = [
      { limit: 'org', keyedBy: 'org', total: null, perKey: 8 },
      { limit: 'calls', total: 8, perKey: 8 },
    ];
    const several = { ...configuration, partitions: 4, limits };
    const client = anotherClient({ configuration: several });
    const less = { maxConcurrency: 3 };
    for (const scope of [{ fleet: 'images' }, { limit: 'org', key: 'acme' }]) {
      await expect(client.override(scope, less)).rejects.toThrow(
        'change.maxConcurrency: leaves some of the 4 partitions without a share, and their jobs would wait for ever (got 3); name at least 4, or pause the scope',
      );
      expect(await client.override(scope, { maxConcurrency: 4 })).toMatchObject({ maxConcurrency: 4 });
      expect(await client.override(scope, { maxConcurrency: null })).toMatchObject({ paused: false });
    }
    // A key of its own belongs to one partition, and the others borrow.
    const borrowed = ['pool', { type: 'resize' }, { limit: 'calls' }] as const;
    for (const scope of [...borrowed, { fairnessKey: 'a' }, { limit: 'calls', key: 'a' }])
      expect(await client.override(scope, less)).toMatchObject(less);
    const alone = anotherClient({
      configuration: { ...several, lending: { ...LENDING_DEFAULTS, maxBorrowed: 0 } },
    });
    for (const scope of borrowed)
      await expect(alone.override(scope, less)).rejects.toThrow('without a share');
  });

  it('of a pool with several partitions says the whole cap to each partition, which takes its share of it', async () => {
    const { anotherClient, configuration, store } = desk();
    const client = anotherClient({ configuration: { ...configuration, partitions: 3 } });
    expect(await client.override('pool', { maxConcurrency: 7 })).toMatchObject({ maxConcurrency: 7 });
    const shares = await Promise.all(
      [0, 1, 2].map(
        async (partition) => (await store.loadPartition({ partition, nowMs: 0 })).controls[0]?.maxConcurrency,
      ),
    );
    expect(shares).toEqual([7, 7, 7]);
    expect((await client.controls()).map(settingsOf)).toEqual([
      { scope: 'pool', paused: false, maxConcurrency: 7 },
    ]);
  });
});

describe('draining', () => {
  it('waits until none of the jobs holds capacity, and leaves the pause', async () => {
    const { client, put, job, pass, startEverywhere, end, finish, advance } = desk();
    await put(job(), job(), job());
    await pass();
    const started = await startEverywhere();
    const seen: number[] = [];
    let isOver = false;
    const draining = client
      .drain({ type: 'resize' }, { onProgress: (running) => seen.push(running) })
      .then(() => {
        isOver = true;
      });
    await advance(1_000);
    expect(isOver).toBe(false);
    for (const each of started) await pass({ jobs: [await end(each)], reason: 'stream' });
    await finish(draining);
    expect(seen[0]).toBe(2);
    expect(seen.at(-1)).toBe(0);
    await pass();
    expect(await startEverywhere()).toEqual([]);
    expect((await client.controls()).map(settingsOf)).toEqual([{ scope: 'type/resize', paused: true }]);
  });

  it('counts jobs of the scope only', async () => {
    const { client, put, job, pass, startEverywhere, finish, advance } = desk();
    await put(job({ fairnessKey: 'tenant-b' }));
    await pass();
    await startEverywhere();
    const draining = client.drain({ fairnessKey: 'tenant-a' });
    await advance(10);
    await pass();
    await finish(draining);
  });

  it('trusts only a pass that began after the pause', async () => {
    const { client, wakes, advance, pass, finish } = desk();
    let isOver = false;
    const draining = client.drain('pool').then(() => {
      isOver = true;
    });
    await advance(60_000);
    expect(isOver).toBe(false);
    // It asks for that pass itself.
    expect(wakes.length).toBeGreaterThan(0);
    await pass();
    await finish(draining);
  });

  it('ends with a typed timeout that says how many still run', async () => {
    const { client, put, job, pass, startEverywhere, finish } = desk();
    await put(job());
    await pass();
    await startEverywhere();
    const error = await finish(errorOf(client.drain('pool', { timeout: 2_000 })));
    expect(error).toMatchObject({ name: 'WaitTimeoutError', running: 1, scope: 'pool' });
    expect((await client.controls()).map(settingsOf)).toEqual([{ scope: 'pool', paused: true }]);
  });

  it('says if no dispatcher has confirmed it', async () => {
    const { client, finish } = desk();
    const error = await finish(errorOf(client.drain('pool', { timeout: 2_000 })));
    expect(error).toMatchObject({ name: 'WaitTimeoutError', running: 0 });
    expect(error.message).toContain('no dispatcher');
  });

  it('ends with its signal', async () => {
    const { client, finish } = desk();
    const abort = new AbortController();
    const draining = errorOf(client.drain('pool', { signal: abort.signal }));
    abort.abort();
    expect((await finish(draining)).name).toBe('AbortError');
  });

  it('lets errors of the store pass', async () => {
    const { anotherClient, store } = desk();
    const changeControl = () => Promise.reject(new ThrottledError('slow down'));
    const client = anotherClient({ store: storeWith(store, { changeControl }) });
    expect(await errorOf(client.drain('pool'))).toBeInstanceOf(ThrottledError);
  });
});

describe('two operators who change the same thing in the same moment', () => {
  it('are told which change stands: one of them, and nothing of the other one', async () => {
    const { client, anotherClient, store } = desk();
    const scope = { type: 'resize' };
    const caps = [1, 2] as const;
    const outcomes = await Promise.allSettled([
      client.override(scope, { maxConcurrency: caps[0] }),
      anotherClient().override(scope, { maxConcurrency: caps[1] }),
    ]);
    const stands = outcomes.findIndex(({ status }) => status === 'fulfilled');
    expect(store.inspect(0).controls.get('type/resize')?.maxConcurrency).toBe(caps[stands]);
    const other = outcomes[1 - stands];
    const error: unknown = other?.status === 'rejected' ? other.reason : undefined;
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({ scope: 'type/resize' });
    await anotherClient().override(scope, { maxConcurrency: 3 });
    expect(store.inspect(0).controls.get('type/resize')?.maxConcurrency).toBe(3);
  });

  it('both succeed if they want the same', async () => {
    const { client, anotherClient } = desk();
    const paused = await Promise.all([client.pause('pool'), anotherClient().pause('pool')]);
    expect(paused.map(settingsOf)).toEqual([1, 2].map(() => ({ scope: 'pool', paused: true })));
  });

  it('end no drain unseen: one whose pause was ended in the moment it began is told so', async () => {
    const scene = desk();
    const store: JobStore = storeWith(scene.store, {
      changeControl: async ({ scope }) => ({ kind: 'superseded', control: { scope, paused: false } }),
    });
    const error = await errorOf(scene.anotherClient({ store }).drain('pool'));
    expect(error).toBeInstanceOf(ConflictError);
  });
});

describe('all jobs that match a filter', () => {
  const tagged = async () => {
    const on = desk();
    const { put, job } = on;
    const stored = await put(
      job({ tags: { order: '1' } }),
      job({ tags: { order: '2' } }),
      job({ tags: { order: '1' }, fairnessKey: 'tenant-b' }),
      job({ type: 'report', tags: { order: '1' } }),
    );
    return { ...on, stored };
  };
  const FILTER = { state: 'pending', type: 'resize', tags: { order: '1' } } as const;

  it('are counted in a dry run, up to the limit, which changes nothing', async () => {
    const { client, everything } = await tagged();
    const before = everything();
    const found = await allOf(client.cancelMany(FILTER, { dryRun: true }));
    expect(found.map(({ kind }) => kind)).toEqual(['matches', 'matches']);
    expect(await allOf(client.cancelMany(FILTER, { dryRun: true, limit: 1 }))).toHaveLength(1);
    const later = { runAt: '2031-01-01T00:00:00Z' };
    expect(await allOf(client.retimeMany(FILTER, later, { dryRun: true }))).toHaveLength(2);
    expect(everything()).toBe(before);
  });

  it('are cancelled, and no others', async () => {
    const { client, stored, stateOf } = await tagged();
    const entries = await allOf(client.cancelMany(FILTER, { actor: 'ann' }));
    expect(entries.map(({ kind }) => kind)).toEqual(['cancelled', 'cancelled']);
    expect(stored.map(({ id }) => stateOf(id))).toEqual(['cancelled', 'pending', 'cancelled', 'pending']);
    expect((await client.get(stored[0]?.id ?? '')).cancelRequestedBy).toBe('ann');
    expect(await allOf(client.cancelMany(FILTER))).toEqual([]);
  });

  it('are asked to stop if they run', async () => {
    const { client, put, job, pass, startEverywhere } = desk();
    await put(job());
    await pass();
    await startEverywhere();
    expect(await allOf(client.cancelMany({ state: 'running' }))).toMatchObject([{ kind: 'requested' }]);
  });

  it('are moved once each, even if they then stand further back in the line that is read', async () => {
    const { client, put, job, time, store } = desk();
    const [soonMs, laterMs] = [time.nowMs + 60_000, time.nowMs + 3_600_000];
    const soon = { state: 'scheduled', runAtMs: soonMs, readyAtMs: soonMs } as const;
    await put(...Array.from({ length: 130 }, () => job(soon)));
    const change = { runAt: new Date(laterMs).toISOString() };
    const entries = await allOf(client.retimeMany({ state: 'scheduled' }, change));
    expect(new Set(entries.map(({ jobId }) => jobId)).size).toBe(130);
    expect(entries).toHaveLength(130);
    expect([...store.everyJob()].every(({ runAtMs }) => runAtMs === laterMs)).toBe(true);
  });

  it('are skipped with the reason if they have changed since they were listed', async () => {
    const { client, anotherClient, store, put, job } = desk();
    const [first, second] = await put(job(), job());
    const cancelJob: JobStore['cancelJob'] = async (request) => {
      await store.cancelJob(request);
      return request.jobId === second?.id ? { kind: 'missing' } : store.cancelJob(request);
    };
    const late = anotherClient({ store: storeWith(store, { cancelJob }) });
    expect(await allOf(late.cancelMany({ state: 'pending' }))).toMatchObject([
      { jobId: first?.id, kind: 'skipped', reason: 'it is cancelled' },
      { jobId: second?.id, kind: 'skipped', reason: 'its record has expired' },
    ]);
    const [third] = await put(job());
    const retimeJob: JobStore['retimeJob'] = async (request) => {
      await client.cancel(request.job.id);
      return store.retimeJob(request);
    };
    const tooLate = anotherClient({ store: storeWith(store, { retimeJob }) });
    const change = { runAt: '2031-01-01T00:00:00Z' };
    expect(await allOf(tooLate.retimeMany({ state: 'pending' }, change))).toMatchObject([
      { jobId: third?.id, kind: 'skipped', reason: 'it is cancelled' },
    ]);
  });
});
