/** Waiting for jobs that were submitted: by handles, by `wait`, and by `waitMany`. */
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { EndedJob } from '../../lib/client/waits.ts';
import { ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import { expireDue } from '../../lib/dispatch/pass/expire.ts';
import { defineJobs, job, type StandardSchema } from '../../lib/jobs/jobs.ts';
import { jobIdOf, jobIdOfEvent } from '../../lib/submit/request.ts';
import { FAILED, storeWith } from '../stage/stage.ts';
import { allOf, counting, desk, errorOf, startedOf } from './desk.ts';

const RESULT = { kind: 'succeeded', result: { width: 640 } } as const;

describe('a handle', () => {
  it('has what was stored, and its methods are in no log', async () => {
    const { client } = desk();
    const handle = await client.submit('resize', { n: 1 });
    const { jobId, job: stored, repeated } = handle;
    expect(handle.id).toBe(jobId);
    expect(repeated).toBe(false);
    expect(JSON.parse(JSON.stringify(handle))).toEqual(
      JSON.parse(JSON.stringify({ jobId, job: stored, repeated })),
    );
    expect(Object.keys(handle)).toEqual(['jobId', 'job', 'repeated']);
    expect(inspect({ ...handle })).not.toContain('store');
  });

  it('answers that a job has not started in time', async () => {
    const scene = desk({
      pool: {
        types: { resize: { expireAfter: '10s' } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: null } },
      },
    });
    const byType = await scene.client.submit('resize');
    const own = await scene.client.submit('resize', null, { expireAfter: '5s' });
    const { readyAtMs } = byType.job;
    expect([byType.job.expireAtMs, own.job.expireAtMs]).toEqual([readyAtMs + 10_000, readyAtMs + 5_000]);
    await scene.advance(10_000);
    await scene.pass();
    await scene.finish(expireDue(scene.main));
    const ends = Promise.all([byType.outcome(), errorOf(own.result())]);
    const [outcome, error] = await scene.finish(ends);
    expect(outcome).toMatchObject({ status: 'expired', job: { state: 'expired' } });
    expect(error).toMatchObject({
      name: 'JobCancelledError',
      message: expect.stringMatching(/expired: it had not started in time/),
      job: { state: 'expired' },
    });
  });

  it('is no promise', async () => {
    const { client } = desk();
    expect(await client.submit('resize')).not.toHaveProperty('then');
  });

  it('waits for the result', async () => {
    const scene = desk();
    const handle = await scene.client.submit('resize', { n: 1 });
    const waiting = Promise.all([handle.result(), handle.outcome({ timeout: '1h' })]);
    await scene.end(await startedOf(scene), RESULT);
    expect(await scene.finish(waiting)).toEqual([
      { width: 640 },
      {
        status: 'succeeded',
        result: { width: 640 },
        job: expect.objectContaining({ id: handle.id, payload: { n: 1 }, state: 'succeeded' }),
      },
    ]);
  });

  it('of a job that has ended answers at once', async () => {
    const scene = desk();
    await scene.client.submit('resize', 1, { idempotencyKey: 'k' });
    await scene.end(await startedOf(scene), RESULT);
    const { reads, client } = counting(scene);
    const again = await client.submit('resize', 1, { idempotencyKey: 'k' });
    expect([again.repeated, await again.result(), reads]).toEqual([true, { width: 640 }, []]);
  });

  it('of a job that fails rejects with its error, or answers it as the outcome', async () => {
    const scene = desk();
    const handle = await scene.client.submit('resize');
    await scene.end(await startedOf(scene), FAILED);
    const [thrown, outcome] = await scene.finish(Promise.all([errorOf(handle.result()), handle.outcome()]));
    expect(thrown).toMatchObject({ name: 'JobFailedError', job: { state: 'failed' } });
    expect(outcome).toMatchObject({ status: 'failed', error: { name: 'Broken', message: 'it broke' } });
  });

  it('of a job that is cancelled rejects, or answers so as the outcome', async () => {
    const scene = desk();
    const handle = await scene.client.submit('resize');
    await scene.client.cancel(handle.id);
    const [thrown, outcome] = await scene.finish(Promise.all([errorOf(handle.result()), handle.outcome()]));
    expect(thrown).toMatchObject({ name: 'JobCancelledError', job: { id: handle.id } });
    expect(outcome).toMatchObject({ status: 'cancelled', job: { state: 'cancelled' } });
  });

  it('stops waiting after its time or at its signal, and the job goes on', async () => {
    const scene = desk();
    const handle = await scene.client.submit('resize');
    const beganMs = scene.time.nowMs;
    expect(await scene.finish(errorOf(handle.result({ timeout: '2s' })))).toMatchObject({
      name: 'WaitTimeoutError',
      jobId: handle.id,
      timeoutMs: 2_000,
      state: 'pending',
    });
    expect(scene.time.nowMs - beganMs).toBe(2_000);
    const abort = new AbortController();
    const waiting = errorOf(handle.outcome({ signal: abort.signal }));
    abort.abort('enough');
    expect(await scene.finish(waiting)).toMatchObject({
      name: 'AbortError',
      cause: 'enough',
      mayHaveChanged: false,
    });
    const aborted = errorOf(handle.outcome({ signal: AbortSignal.abort() }));
    expect(await aborted).toMatchObject({ name: 'AbortError' });
    expect(scene.stateOf(handle.id)).toBe('pending');
  });

  it('gives what the schema makes of the result, and refuses a result that it does not accept', async () => {
    const scene = desk();
    const result = z.object({ at: z.coerce.date(), sizes: z.array(z.number()) });
    const client = scene.anotherClient({
      jobs: defineJobs({ resize: job({ payload: z.unknown(), result }) }),
    });
    const handle = await client.submit('resize', 1);
    const at = '2027-01-31T08:00:00.000Z';
    await scene.end(await startedOf(scene), { kind: 'succeeded', result: { at, sizes: [1] } });
    expect(await scene.finish(handle.result())).toEqual({ at: new Date(at), sizes: [1] });
    expect((await scene.finish(handle.outcome())).job).toMatchObject({ result: { at, sizes: [1] } });

    const other = await client.submit('resize', 2);
    await scene.pass();
    await scene.end(await startedOf(scene), { kind: 'succeeded', result: { at, sizes: [1, 'two'] } });
    const error = await scene.finish(errorOf(other.result()));
    expect(error).toMatchObject({ name: 'ConfigurationError', field: 'result.sizes[1]' });
    expect(error.message).toContain(other.id);
    const seen: unknown[] = [];
    for await (const { id, outcome } of client.waitMany([other.id, handle.id]))
      seen.push([id, outcome.status]);
    expect(seen).toHaveLength(2);
    expect(seen).toEqual(
      expect.arrayContaining([
        [other.id, 'refused'],
        [handle.id, 'succeeded'],
      ]),
    );
    expect(await client.wait(other.id)).toMatchObject({
      status: 'refused',
      error: { field: 'result.sizes[1]' },
      job: { result: { at, sizes: [1, 'two'] } },
    });
  });

  it('answers a refusal where the schema of the result never does', async () => {
    const scene = desk();
    const silent: StandardSchema = {
      '~standard': { version: 1, vendor: 'test', validate: () => new Promise(() => {}) },
    };
    const jobs = defineJobs({ resize: job({ payload: z.unknown(), result: silent }) });
    const handle = await scene.anotherClient({ jobs }).submit('resize', 1);
    await scene.end(await startedOf(scene), RESULT);
    expect(await scene.finish(handle.outcome())).toMatchObject({
      status: 'refused',
      error: { field: 'result' },
    });
    const strict = defineJobs({ resize: job({ payload: silent }) });
    expect(
      await scene.finish(errorOf(scene.anotherClient({ jobs: strict }).submit('resize', 1))),
    ).toMatchObject({
      field: 'payload',
      message: expect.stringContaining('did not answer within 30000 ms'),
    });
  });
});

describe('getting and waiting for a job', () => {
  it('finds it by its id, its idempotency key and its event', async () => {
    const scene = desk();
    const { id } = await scene.client.submit('resize', 1, { idempotencyKey: 'k' });
    const [third, first] = [2, 0].map((position) => jobIdOfEvent('e-1', position));
    for (const ofEvent of [third, first]) await scene.put(scene.job({ id: ofEvent ?? '', type: 'resize' }));
    const found = await Promise.all([
      scene.client.get(id),
      scene.client.get({ idempotencyKey: 'k' }),
      scene.client.get({ eventId: 'e-1', position: 2 }),
      scene.client.get({ eventId: 'e-1' }),
    ]);
    expect(found.map((each) => each.id)).toEqual([id, id, third, first]);
    expect(await errorOf(scene.client.get({ idempotencyKey: 'other' }))).toMatchObject({
      name: 'NotFoundError',
      jobId: jobIdOf('other'),
    });
  });

  it('waits by any of these names', async () => {
    const scene = desk();
    const { id } = await scene.client.submit('resize', { n: 1 }, { idempotencyKey: 'k' });
    const waiting = Promise.all([scene.client.wait(id), scene.client.wait({ idempotencyKey: 'k' })]);
    await scene.advance(1_000);
    await scene.end(await startedOf(scene), RESULT);
    for (const outcome of await scene.finish(waiting))
      expect(outcome).toMatchObject({
        status: 'succeeded',
        result: { width: 640 },
        job: { id, payload: { n: 1 } },
      });
  });

  it('does not wait for a job that does not exist', async () => {
    const { client, finish } = desk();
    for (const name of ['gone', { idempotencyKey: 'gone' }])
      expect(await finish(errorOf(client.wait(name)))).toMatchObject({ name: 'NotFoundError' });
  });

  it('waits for the job of an event that is still on its way, as long as there is time', async () => {
    const scene = desk();
    const waiting = scene.client.wait({ eventId: 'e-1' });
    await scene.advance(3_000);
    await scene.put(scene.job({ id: jobIdOfEvent('e-1', 0), type: 'resize' }));
    await scene.end(await startedOf(scene), RESULT);
    expect(await scene.finish(waiting)).toMatchObject({ status: 'succeeded' });
    const error = await scene.finish(errorOf(scene.client.wait({ eventId: 'e-2' }, { timeout: 1_000 })));
    expect(error).toMatchObject({ name: 'WaitTimeoutError', state: undefined });
    expect(error.message).toContain('not seen');
  });
});

describe('waiting for many jobs', () => {
  it('yields each as it ends, whatever its end', async () => {
    const scene = desk();
    const handles = await Promise.all([1, 2, 3].map((n) => scene.client.submit('resize', n)));
    const ids = handles.map(({ id }) => id);
    const ended: EndedJob[] = [];
    const waiting = (async () => {
      for await (const each of scene.client.waitMany([...ids, ids[0] ?? ''])) ended.push(each);
    })();
    await scene.advance(1_000);
    expect(ended).toEqual([]);
    await scene.pass();
    const [first, second] = await scene.startEverywhere();
    if (first === undefined || second === undefined) throw new Error('two should have started');
    await scene.end(first, RESULT);
    await scene.advance(1_000);
    expect(ended).toMatchObject([
      { id: first.job.id, outcome: { status: 'succeeded', job: { payload: first.job.payload } } },
    ]);
    await scene.end(second, FAILED);
    const third = ids.find((id) => id !== first.job.id && id !== second.job.id) ?? '';
    await scene.client.cancel(third);
    await scene.finish(waiting);
    expect(new Map(ended.map(({ id, outcome }) => [id, outcome.status]))).toEqual(
      new Map([
        [first.job.id, 'succeeded'],
        [second.job.id, 'failed'],
        [third, 'cancelled'],
      ]),
    );
    expect(ended).toHaveLength(3);
  });

  it('yields 250 jobs that have ended already after four requests', async () => {
    const scene = desk();
    const entries = await scene.client.submitMany(Array.from({ length: 250 }, () => ({ type: 'report' })));
    const ids = entries.map((entry) => (entry.kind === 'accepted' ? entry.jobId : ''));
    for (const id of ids) await scene.client.cancel(id);
    const { reads, client } = counting(scene);
    expect((await allOf(client.waitMany(ids))).map(({ id }) => id)).toEqual(ids);
    expect(reads.map((some) => some.length)).toEqual([250, 100, 100, 50]);
  });

  it('reads only those that are left', async () => {
    const scene = desk();
    const handles = await Promise.all([1, 2, 3].map((n) => scene.client.submit('resize', n)));
    const ids = handles.map(({ id }) => id);
    const { reads, client } = counting(scene);
    const waiting = allOf(client.waitMany(ids));
    await scene.advance(100);
    await Promise.all(ids.slice(0, 2).map((id) => scene.client.cancel(id)));
    await scene.advance(1_000);
    expect(reads.at(0)).toEqual(ids);
    expect(reads.at(-1)).toEqual(ids.slice(2));
    await scene.client.cancel(ids[2] ?? '');
    expect(await scene.finish(waiting)).toHaveLength(3);
  });

  it('waits trouble with the store out', async () => {
    const scene = desk();
    const { id } = await scene.client.submit('resize');
    const failed = { lookUpJobs: 0, getJobs: 0 };
    const client = scene.anotherClient({
      store: storeWith(scene.store, {
        lookUpJobs: (request) => {
          failed.lookUpJobs += 1;
          return failed.lookUpJobs % 2 === 1
            ? Promise.reject(new ThrottledError('slow down'))
            : scene.store.lookUpJobs(request);
        },
        getJobs: (request) => {
          failed.getJobs += 1;
          return failed.getJobs === 1
            ? Promise.reject(new UnavailableError('no answer'))
            : scene.store.getJobs(request);
        },
      }),
    });
    const waiting = allOf(client.waitMany([id]));
    await scene.end(await startedOf(scene), RESULT);
    expect(await scene.finish(waiting)).toMatchObject([{ id, outcome: { status: 'succeeded' } }]);
  });

  it('yields nothing for no jobs, and nothing if one does not exist', async () => {
    const scene = desk();
    expect(await allOf(scene.client.waitMany([]))).toEqual([]);
    const { id } = await scene.client.submit('resize');
    const error = await scene.finish(errorOf(allOf(scene.client.waitMany([id, 'gone']))));
    expect(error).toMatchObject({ name: 'NotFoundError', jobId: 'gone' });
  });

  it('stops at its signal between two of its reads', async () => {
    const scene = desk();
    const { id } = await scene.client.submit('resize');
    const abort = new AbortController();
    const waiting = errorOf(allOf(scene.client.waitMany([id], { signal: abort.signal })));
    await scene.advance(100);
    abort.abort();
    expect(await scene.finish(waiting)).toMatchObject({ name: 'AbortError', mayHaveChanged: false });
  });
});
