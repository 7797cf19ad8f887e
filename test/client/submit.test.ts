import { describe, expect, it } from 'vitest';
import { ConflictError } from '../../lib/client/errors.ts';
import {
  MisconfiguredError,
  RefusedError,
  UnavailableError,
  ValidationError,
} from '../../lib/core/errors.ts';
import { WAKE_JOBS_MAX, type WakeRequest } from '../../lib/queue/contract.ts';
import { storeWith } from '../stage/stage.ts';
import { desk, errorOf } from './desk.ts';

const REQUEST = { type: 'resize', payload: { n: 1 }, fairnessKey: 'tenant-a' };

describe('submitting one job', () => {
  it('answers it as it was stored, and a pass finds it', async () => {
    const { client, pass, stateOf } = desk();
    const { jobId, job, repeated } = await client.submit(REQUEST);
    expect({ repeated, state: job.state, payload: job.payload }).toEqual({
      repeated: false,
      state: 'pending',
      payload: { n: 1 },
    });
    await pass();
    expect(stateOf(jobId)).toBe('claimed');
  });

  it('with a future time waits for it', async () => {
    const { client, time } = desk();
    const runAt = new Date(time.nowMs + 60_000).toISOString();
    expect((await client.submit({ ...REQUEST, runAt })).job.state).toBe('scheduled');
  });

  it('leaves out properties that are undefined, and refuses a list with an undefined entry', async () => {
    const { client, everything } = desk();
    const payload = { n: 1, m: undefined, of: { key: undefined } };
    expect((await client.submit({ ...REQUEST, payload })).job.payload).toStrictEqual({ n: 1, of: {} });
    const before = everything();
    const error = await errorOf(client.submit({ ...REQUEST, payload: { pages: [1, undefined] } }));
    expect(error).toMatchObject({ name: 'ValidationError', field: 'payload.pages[1]' });
    expect(everything()).toBe(before);
  });

  it('keeps its label, and is refused with one that is too long', async () => {
    const { client, everything } = desk();
    const { jobId } = await client.submit({ ...REQUEST, label: 'ä'.repeat(128) });
    expect((await client.explain(jobId)).job.label).toBe('ä'.repeat(128));
    const before = everything();
    const error = await errorOf(client.submit({ ...REQUEST, label: `${'ä'.repeat(128)}!` }));
    expect(error).toMatchObject({ name: 'ValidationError', field: 'label' });
    expect(error.message).toMatch(/256 bytes/);
    expect(everything()).toBe(before);
  });

  it('with the same idempotency key and content answers the same job', async () => {
    const { client } = desk();
    const first = await client.submit({ ...REQUEST, idempotencyKey: 'k' });
    const second = await client.submit({ ...REQUEST, idempotencyKey: 'k' });
    expect(second).toEqual({ ...first, repeated: true });
  });

  it('with the same idempotency key and other content is a conflict that names the job', async () => {
    const { client, everything } = desk();
    const { jobId } = await client.submit({ ...REQUEST, idempotencyKey: 'k' });
    const before = everything();
    const error = await errorOf(client.submit({ ...REQUEST, payload: 2, idempotencyKey: 'k' }));
    expect(error).toBeInstanceOf(ConflictError);
    expect(error).toMatchObject({ name: 'ConflictError', jobId });
    expect(everything()).toBe(before);
  });

  it('keeps the trace that it names, else the one that its client is part of', async () => {
    const [own, other] = ['aa', 'bb'].map((id) => `00-${id.repeat(16)}-00f067aa0ba902b7-01`);
    const { anotherClient } = desk();
    const client = anotherClient({ traceparent: () => other });
    expect((await client.submit({ ...REQUEST, traceparent: own })).job.traceparent).toBe(own);
    expect((await client.submit(REQUEST)).job.traceparent).toBe(other);
    expect((await anotherClient().submit(REQUEST)).job).not.toHaveProperty('traceparent');
  });

  it('again, in another trace, answers the job of the first', async () => {
    const [first, second] = ['aa', 'bb'].map((id) => `00-${id.repeat(16)}-00f067aa0ba902b7-01`);
    const { client } = desk();
    const { job } = await client.submit({ ...REQUEST, idempotencyKey: 'k', traceparent: first });
    const again = await client.submit({ ...REQUEST, idempotencyKey: 'k', traceparent: second });
    expect(again).toMatchObject({ repeated: true, job });
  });

  it('refuses a trace that is none, whoever named it, and submits nothing', async () => {
    const { client, anotherClient, everything } = desk();
    const before = everything();
    const wrong = anotherClient({ traceparent: () => '00-1-2-01' });
    const refused = [client.submit({ ...REQUEST, traceparent: 'x' }), wrong.submit(REQUEST)];
    for (const error of await Promise.all(refused.map(errorOf))) {
      expect(error).toBeInstanceOf(ValidationError);
      expect(error).toMatchObject({
        field: 'traceparent',
        message: expect.stringContaining('W3C traceparent'),
      });
    }
    const [entry] = await wrong.submitMany([REQUEST]);
    expect(entry).toMatchObject({ kind: 'refused', error: { field: 'traceparent' } });
    expect(everything()).toBe(before);
  });

  it('keeps its own copy: what the caller changes afterwards changes nothing', async () => {
    const { client } = desk();
    const payload = { list: [1], absent: undefined };
    const { jobId } = await client.submit({ ...REQUEST, payload });
    payload.list.push(2);
    expect((await client.get(jobId)).payload).toEqual({ list: [1] });
  });

  it('lets errors of the store pass', async () => {
    const { store, anotherClient } = desk();
    const createJobs = () => Promise.reject(new UnavailableError('no answer'));
    const client = anotherClient({ store: storeWith(store, { createJobs }) });
    expect(await errorOf(client.submit(REQUEST))).toBeInstanceOf(UnavailableError);
  });

  it('sends no wake where it is told not to: the stream tells of new jobs', async () => {
    const { anotherClient, wakes, advance } = desk();
    await anotherClient({ promptStart: false }).submit(REQUEST);
    await advance(1_000);
    expect(wakes).toEqual([]);
  });

  it('under an aborted signal does nothing', async () => {
    const { client, everything } = desk();
    const before = everything();
    const error = await errorOf(client.submit(REQUEST, { signal: AbortSignal.abort('enough') }));
    expect(error).toMatchObject({ name: 'AbortError', cause: 'enough' });
    expect(everything()).toBe(before);
  });
});

describe('submitting many jobs', () => {
  it('answers each in its place, and a bad one spoils no other', async () => {
    const { client } = desk();
    await client.submit({ ...REQUEST, idempotencyKey: 'taken' });
    const entries = await client.submitMany([
      REQUEST,
      { type: 'unknown' },
      { ...REQUEST, idempotencyKey: 'taken' },
      { ...REQUEST, payload: 'other', idempotencyKey: 'taken' },
      { ...REQUEST, priority: 11 },
      REQUEST,
    ]);
    expect(entries.map(({ kind }) => kind)).toEqual([
      'accepted',
      'refused',
      'accepted',
      'refused',
      'refused',
      'accepted',
    ]);
    expect(entries[1]).toMatchObject({ error: { name: 'ValidationError', field: 'type' } });
    expect(entries[2]).toMatchObject({ repeated: true });
    expect(entries[3]).toMatchObject({ error: { name: 'ConflictError' } });
  });

  it('takes more than one batch', async () => {
    const { client, store } = desk();
    const entries = await client.submitMany(
      Array.from({ length: 1_234 }, (_, n) => ({ ...REQUEST, payload: n })),
    );
    expect(entries.filter(({ kind }) => kind === 'accepted')).toHaveLength(1_234);
    expect([...store.everyJob()]).toHaveLength(1_234);
    expect(entries.map((entry) => (entry.kind === 'accepted' ? entry.job.payload : undefined))).toEqual(
      Array.from({ length: 1_234 }, (_, n) => n),
    );
  });

  it('tells of trouble with the store entry by entry', async () => {
    const { store, anotherClient } = desk();
    let calls = 0;
    const client = anotherClient({
      store: storeWith(store, {
        createJobs: (jobs) => {
          calls += 1;
          return calls === 1 ? Promise.reject(new UnavailableError('no answer')) : store.createJobs(jobs);
        },
      }),
    });
    const entries = await client.submitMany(Array.from({ length: 150 }, () => REQUEST));
    expect(entries.slice(0, 100).every((entry) => entry.kind === 'failed')).toBe(true);
    expect(entries.slice(100).every((entry) => entry.kind === 'accepted')).toBe(true);
    expect(entries[0]).toMatchObject({ error: { name: 'UnavailableError' } });
  });

  it('finds the one that the store refuses for good, and stores the others', async () => {
    const { store, anotherClient } = desk();
    const client = anotherClient({
      store: storeWith(store, {
        createJobs: (jobs) =>
          jobs.some((job) => job.payload === 57)
            ? Promise.reject(new RefusedError('too large'))
            : store.createJobs(jobs),
      }),
    });
    const entries = await client.submitMany(
      Array.from({ length: 100 }, (_, n) => ({ ...REQUEST, payload: n })),
    );
    expect(entries.flatMap((entry, at) => (entry.kind === 'failed' ? [at] : []))).toEqual([57]);
  });

  it('with one key twice in a call makes one job', async () => {
    const { client, store } = desk();
    const twice = { ...REQUEST, idempotencyKey: 'k' };
    const entries = await client.submitMany([twice, twice]);
    expect(entries.map((entry) => entry.kind === 'accepted' && entry.repeated)).toEqual([false, true]);
    expect([...store.everyJob()]).toHaveLength(1);
  });

  it.each([
    ['nothing', undefined],
    ['no array', REQUEST],
    ['an empty array', []],
    ['too many', Array.from({ length: 10_001 }, () => REQUEST)],
  ])('refuses %s as a whole', async (_, requests) => {
    const { client, everything } = desk();
    const before = everything();
    const error = await errorOf(client.submitMany(requests as never));
    expect(error).toBeInstanceOf(ValidationError);
    expect(error).toMatchObject({ field: 'requests' });
    expect(everything()).toBe(before);
  });
});

/** A dispatcher leads the partition for a minute. */
const isLed = (on: ReturnType<typeof desk>, wantsLetters?: boolean) =>
  on.store.lead({
    partition: 0,
    holder: 'leader',
    nowMs: on.time.nowMs,
    untilMs: on.time.nowMs + 60_000,
    wantsLetters,
  });

/** The jobs that letters name, which nobody has read. */
const inLetters = async ({ store }: ReturnType<typeof desk>): Promise<readonly string[]> =>
  (await store.readLetters(0)).letters.flatMap(({ jobIds }) => jobIds);

describe('telling of jobs while they are stored', () => {
  /** The jobs that each wake has named. */
  const listening = (on: ReturnType<typeof desk>): (readonly string[])[] => {
    const told: (readonly string[])[] = [];
    on.queue.onWake((_partition, _dueAtMs, jobIds = []) => told.push(jobIds));
    return told;
  };

  it('leaves letters where the leader asks for them, once that was seen, and sends messages where no dispatcher leads', async () => {
    const on = desk();
    const told = listening(on);
    await isLed(on, true);
    // It has not looked yet.
    const submit = async (): Promise<string> => {
      const { jobId } = await on.finish(on.client.submit(REQUEST));
      await on.advance(1);
      return jobId;
    };
    const first = await submit();
    expect(told).toEqual([[first]]);
    const second = await submit();
    expect(told).toEqual([[first]]);
    expect(await inLetters(on)).toEqual([second]);
    await on.store.stopLeading({ partition: 0, holder: 'leader' });
    await on.advance(10_000);
    const third = await submit();
    const fourth = await submit();
    expect(await inLetters(on)).toEqual([second, third]);
    expect(told).toEqual([[first], [fourth]]);
  });

  it('tells of each job where the leader asks for letters, and of none where it does not', async () => {
    const on = desk();
    const told = listening(on);
    await isLed(on);
    /** Of how many of so many submits, one after so long each, letters were left. */
    const toldOf = async (submits: number, everyMs: number): Promise<number> => {
      const before = (await inLetters(on)).length;
      for (let at = 0; at < submits; at += 1) {
        await on.finish(on.client.submit(REQUEST));
        await on.advance(everyMs);
      }
      return (await inLetters(on)).length - before;
    };
    await on.finish(on.client.submit(REQUEST));
    await on.advance(1);
    expect(await toldOf(20, 100)).toBe(0);
    await isLed(on, true);
    await on.advance(10_000);
    await toldOf(1, 100);
    expect(await toldOf(20, 100)).toBe(20);
    // More than that comes from a process that does not know of the others.
    expect(await toldOf(100, 10)).toBeLessThanOrEqual(10);
    await isLed(on, false);
    await on.advance(10_000);
    await toldOf(1, 100);
    expect(await toldOf(20, 100)).toBe(0);
    expect(await toldOf(5, 3_000)).toBe(0);
    expect(told).toHaveLength(1);
  });

  it('sends messages where the time of a lead is over: its dispatcher has died', async () => {
    const on = desk();
    const told = listening(on);
    await isLed(on, true);
    await on.advance(61_000);
    await on.finish(on.client.submit(REQUEST));
    await on.advance(10);
    await on.finish(on.client.submit(REQUEST));
    await on.advance(10);
    expect(told).toHaveLength(2);
    expect(await inLetters(on)).toEqual([]);
  });

  it('names in one letter as many of the jobs that are stored at once as a message takes', async () => {
    const on = desk();
    await isLed(on, true);
    await on.finish(on.client.submit(REQUEST));
    await on.advance(1);
    await on.finish(on.client.submitMany(Array.from({ length: 100 }, () => REQUEST)));
    expect(await inLetters(on)).toHaveLength(WAKE_JOBS_MAX);
    expect((await on.store.readLetters(0)).letters).toHaveLength(1);
  });

  it('sends messages for ten minutes where letters may not be left', async () => {
    const on = desk();
    const told = listening(on);
    await isLed(on, true);
    let tries = 0;
    const store = storeWith(on.store, {
      putLetter: async () => {
        tries += 1;
        throw new RefusedError('putLetter: not authorized to perform dynamodb:PutItem');
      },
    });
    const client = on.anotherClient({ store });
    const ids: string[] = [];
    for (let at = 0; at < 3; at += 1) ids.push((await on.finish(client.submit(REQUEST))).jobId);
    await on.advance(1);
    expect(told).toEqual(ids.map((id) => [id]));
    expect(tries).toBe(1);
    await on.advance(9 * 60_000);
    for (let at = 0; at < 3; at += 1) await on.finish(client.submit(REQUEST));
    expect(tries).toBe(1);
  });

  it('names them to the dispatcher, as many as a message takes', async () => {
    const on = desk();
    const told = listening(on);
    const { jobId } = await on.client.submit(REQUEST);
    const many = await on.client.submitMany(Array.from({ length: WAKE_JOBS_MAX + 1 }, () => REQUEST));
    await on.advance(1);
    const ids = many.flatMap((entry) => (entry.kind === 'accepted' ? [entry.jobId] : []));
    expect(told).toEqual([[jobId], ids.slice(0, WAKE_JOBS_MAX)]);
  });

  it('says nothing of jobs whose time is still to come', async () => {
    const on = desk();
    const told = listening(on);
    await on.client.submit({ ...REQUEST, runAt: new Date(on.time.nowMs + 60_000).toISOString() });
    await on.advance(1);
    expect(told).toEqual([]);
  });

  it('ends where much is submitted, and begins again after a silence, with four in reserve after a long one', async () => {
    const on = desk();
    const told = listening(on);
    const submitFor = async (ms: number): Promise<number> => {
      const before = told.length;
      for (const untilMs = on.time.nowMs + ms; on.time.nowMs < untilMs; ) {
        await on.client.submit(REQUEST);
        await on.advance(50);
      }
      return told.length - before;
    };
    expect(await submitFor(1_000)).toBe(4);
    expect(await submitFor(10_000)).toBe(0);
    await on.advance(1_000);
    expect(await submitFor(1_000)).toBe(1);
    await on.advance(60_000);
    expect(await submitFor(1_000)).toBe(4);
  });

  it.each([
    ['refuses', () => Promise.reject(new MisconfiguredError('no such queue'))],
    [
      'does not answer',
      ({ signal }: WakeRequest) =>
        new Promise<void>((_, fail) => signal?.addEventListener('abort', () => fail(signal.reason))),
    ],
  ])('stops nothing where the queue %s', async (_, sendWake) => {
    const on = desk();
    const submitted = on.anotherClient({ queue: { sendWake } }).submit(REQUEST);
    await on.advance(1_000);
    expect(on.stateOf((await submitted).jobId)).toBe('pending');
  });

  it('leaves nothing running when it answers, or refuses', async () => {
    const on = desk();
    const running = new Set<string>();
    const during = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
      running.add(what);
      await on.clock.sleep(50);
      const answer = await work();
      running.delete(what);
      return answer;
    };
    const client = on.anotherClient({
      queue: {
        sendWake: (wake) => during('wake', () => on.queue.sendWake(wake)),
      },
      store: storeWith(on.store, {
        readLeader: (partition) => during('look', () => on.store.readLeader(partition)),
      }),
    });
    const submitted = client.submit(REQUEST);
    await on.advance(1);
    expect(running).toEqual(new Set(['wake', 'look']));
    await on.finish(submitted);
    expect(running).toEqual(new Set());
  });
});
