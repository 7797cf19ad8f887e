import { describe, expect, it } from 'vitest';
import { MisconfiguredError, ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import { FAILED, storeWith } from '../stage/stage.ts';
import { desk, errorOf, startedOf, storedJob } from './desk.ts';

const REQUEST = { type: 'resize', payload: 1, fairnessKey: 'tenant-a' };

describe('waiting for a job', () => {
  it('submits on demand and resolves with the result', async () => {
    const scene = desk();
    const running = scene.client.run(REQUEST);
    expect((await storedJob(scene)).mode).toBe('onDemand');
    await scene.end(await startedOf(scene), { kind: 'succeeded', result: { width: 640 } });
    expect(await scene.finish(running)).toMatchObject({ state: 'succeeded', result: { width: 640 } });
  });

  it('of an idempotency key whose job has ended resolves without another one', async () => {
    const scene = desk();
    const request = { ...REQUEST, idempotencyKey: 'k' };
    const running = scene.client.run(request);
    await storedJob(scene);
    await scene.end(await startedOf(scene), { kind: 'succeeded', result: 7 });
    await scene.finish(running);
    const beforeMs = scene.time.nowMs;
    expect((await scene.client.run(request)).result).toBe(7);
    expect(scene.time.nowMs).toBe(beforeMs);
  });

  it('notices an end at most a quarter of the wait later', async () => {
    const scene = desk();
    const running = scene.client.run(REQUEST);
    await storedJob(scene);
    const started = await startedOf(scene);
    const beganMs = scene.time.nowMs;
    await scene.advance(4_000);
    await scene.end(started);
    await scene.finish(running);
    expect(scene.time.nowMs - beganMs).toBeLessThanOrEqual(5_000);
  });

  it('that fails rejects with its error', async () => {
    const scene = desk();
    const running = errorOf(scene.client.run({ ...REQUEST, type: 'resize' }));
    await storedJob(scene);
    await scene.end(await startedOf(scene), FAILED);
    expect(await scene.finish(running)).toMatchObject({
      name: 'JobFailedError',
      cause: { name: 'Broken', message: 'it broke' },
      job: { state: 'failed' },
    });
  });

  it('that is cancelled by somebody else rejects', async () => {
    const scene = desk();
    const running = errorOf(scene.client.run(REQUEST));
    await scene.client.cancel((await storedJob(scene)).id);
    expect(await scene.finish(running)).toMatchObject({ name: 'JobCancelledError' });
  });

  it('that is tried again goes on waiting', async () => {
    const scene = desk();
    const running = scene.client.run(REQUEST);
    await storedJob(scene);
    const error = { name: 'Broken', message: 'it broke' };
    const retried = await scene.end(await startedOf(scene), {
      kind: 'retry',
      error,
      runAtMs: scene.time.nowMs + 1_000,
    });
    await scene.advance(1_000);
    await scene.pass({ jobs: [retried], reason: 'stream' });
    const [again] = await scene.startEverywhere();
    if (again === undefined) throw new Error('it was not tried again');
    await scene.end(again);
    expect(await scene.finish(running)).toMatchObject({ state: 'succeeded', attempt: 2 });
  });

  it('ends with a typed timeout, and the job goes on', async () => {
    const scene = desk();
    const running = errorOf(scene.client.run(REQUEST, { timeout: 5_000 }));
    const job = await storedJob(scene);
    const error = await scene.finish(running);
    expect(error).toMatchObject({
      name: 'WaitTimeoutError',
      jobId: job.id,
      timeoutMs: 5_000,
      state: 'pending',
      cancel: undefined,
    });
    expect(error.message).toContain('it continues');
    expect(scene.stateOf(job.id)).toBe('pending');
  });

  it('ends with its signal, and the job goes on', async () => {
    const scene = desk();
    const abort = new AbortController();
    const running = errorOf(scene.client.run(REQUEST, { signal: abort.signal }));
    const job = await storedJob(scene);
    abort.abort(new Error('enough'));
    expect(await scene.finish(running)).toMatchObject({ name: 'AbortError', cause: { message: 'enough' } });
    expect(scene.stateOf(job.id)).toBe('pending');
  });

  it('under an aborted signal stores nothing', async () => {
    const { client, store } = desk();
    const error = await errorOf(client.run(REQUEST, { signal: AbortSignal.abort() }));
    expect(error.name).toBe('AbortError');
    expect([...store.everyJob()]).toEqual([]);
  });

  it('waits trouble with the store out', async () => {
    const scene = desk();
    let looks = 0;
    const client = scene.anotherClient({
      store: storeWith(scene.store, {
        lookUpJobs: ({ ids }) => {
          looks += 1;
          if (looks % 3 === 1) return Promise.reject(new ThrottledError('slow down'));
          if (looks % 3 === 2) return Promise.reject(new UnavailableError('no answer'));
          return scene.store.lookUpJobs({ ids });
        },
      }),
    });
    const running = client.run(REQUEST);
    await storedJob(scene);
    await scene.end(await startedOf(scene));
    expect((await scene.finish(running)).state).toBe('succeeded');
  });

  it('does not wait out what waiting does not help', async () => {
    const scene = desk();
    const lookUpJobs = () => Promise.reject(new MisconfiguredError('no table'));
    const client = scene.anotherClient({ store: storeWith(scene.store, { lookUpJobs }) });
    expect(await scene.finish(errorOf(client.run(REQUEST)))).toBeInstanceOf(MisconfiguredError);
  });

  it('tells when the job is gone', async () => {
    const scene = desk();
    const client = scene.anotherClient({
      store: storeWith(scene.store, { lookUpJobs: async () => [undefined] }),
    });
    expect(await scene.finish(errorOf(client.run(REQUEST)))).toMatchObject({ name: 'NotFoundError' });
  });

  it('refuses a queued mode', async () => {
    const { client, store } = desk();
    const error = await errorOf(client.run({ ...REQUEST, mode: 'queued' } as never));
    expect(error).toMatchObject({ name: 'ValidationError', field: 'mode' });
    expect([...store.everyJob()]).toEqual([]);
  });
});

describe('a job that dies with its last waiter', () => {
  const OPTIONS = { timeout: 5_000, dieWithWaiter: true };

  it('is cancelled when the time is up', async () => {
    const scene = desk();
    const running = errorOf(scene.client.run(REQUEST, OPTIONS));
    const job = await storedJob(scene);
    expect(await scene.finish(running)).toMatchObject({ name: 'WaitTimeoutError', cancel: 'cancelled' });
    expect(scene.stateOf(job.id)).toBe('cancelled');
  });

  it('is cancelled when the signal aborts', async () => {
    const scene = desk();
    const abort = new AbortController();
    const running = errorOf(scene.client.run(REQUEST, { ...OPTIONS, signal: abort.signal }));
    const job = await storedJob(scene);
    abort.abort();
    expect(await scene.finish(running)).toMatchObject({ name: 'AbortError' });
    expect(scene.stateOf(job.id)).toBe('cancelled');
  });

  it('is cancelled when the signal aborts while it is being stored', async () => {
    const scene = desk();
    const abort = new AbortController();
    const client = scene.anotherClient({
      store: storeWith(scene.store, {
        createJobs: async (jobs) => {
          const outcomes = await scene.store.createJobs(jobs);
          abort.abort();
          return outcomes;
        },
      }),
    });
    const error = await scene.finish(errorOf(client.run(REQUEST, { ...OPTIONS, signal: abort.signal })));
    expect(error.name).toBe('AbortError');
    expect([...scene.store.everyJob()].map(({ state }) => state)).toEqual(['cancelled']);
  });

  it('is asked to stop when it runs', async () => {
    const scene = desk();
    const running = errorOf(scene.client.run(REQUEST, OPTIONS));
    const job = await storedJob(scene);
    await startedOf(scene);
    expect(await scene.finish(running)).toMatchObject({ name: 'WaitTimeoutError', cancel: 'requested' });
    expect(scene.store.inspectJob(job.id)?.cancelRequestedAtMs).toBeDefined();
  });

  it('that ends in the last moment has a result after all', async () => {
    const scene = desk();
    let started: Awaited<ReturnType<typeof startedOf>> | undefined;
    const client = scene.anotherClient({
      store: storeWith(scene.store, {
        cancelJob: async (asked) => {
          if (started !== undefined) await scene.end(started, { kind: 'succeeded', result: 'just so' });
          return scene.store.cancelJob(asked);
        },
      }),
    });
    const running = client.run(REQUEST, OPTIONS);
    await storedJob(scene);
    started = await startedOf(scene);
    expect((await scene.finish(running)).result).toBe('just so');
  });

  it('goes on while another one waits', async () => {
    const scene = desk();
    const request = { ...REQUEST, idempotencyKey: 'k' };
    const first = errorOf(scene.client.run(request, OPTIONS));
    const second = errorOf(scene.client.run(request, { ...OPTIONS, timeout: 9_000 }));
    const job = await storedJob(scene);
    expect(await scene.finish(first)).toMatchObject({ cancel: undefined });
    expect(scene.stateOf(job.id)).toBe('pending');
    expect(await scene.finish(second)).toMatchObject({ cancel: 'cancelled' });
    expect(scene.stateOf(job.id)).toBe('cancelled');
  });

  it('goes on if one of its waiters wanted it to', async () => {
    const scene = desk();
    const request = { ...REQUEST, idempotencyKey: 'k' };
    const patient = errorOf(scene.client.run(request, { timeout: 1_000 }));
    const last = errorOf(scene.client.run(request, OPTIONS));
    const job = await storedJob(scene);
    await scene.finish(patient);
    await scene.finish(last);
    expect(scene.stateOf(job.id)).toBe('pending');
  });

  it('is not cancelled after its end, nor when another has its key', async () => {
    const scene = desk();
    const request = { ...REQUEST, idempotencyKey: 'k' };
    const { jobId } = await scene.client.submit({ ...request, payload: 'other' });
    const error = await errorOf(scene.client.run(request, OPTIONS));
    expect(error.name).toBe('ConflictError');
    expect(scene.stateOf(jobId)).toBe('pending');
  });
});
