/** Values over 64 KB: from submit to the end of their job, and what becomes of those that no job names. */
import { describe, expect, it } from 'vitest';
import { StoreClient } from '../../lib/client/client.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { ConfigurationError } from '../../lib/core/errors.ts';
import type { Json } from '../../lib/core/job.ts';
import { type ObjectReference, REFERENCE_FIELD } from '../../lib/core/object-reference.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { LocalScheduler } from '../../lib/local/scheduler.ts';
import { VirtualTime } from '../../lib/local/virtual-time.ts';
import { weekOf } from '../../lib/objects/large-values.ts';
import { explainJob } from '../../lib/operate/explain.ts';
import type { JobContext } from '../../lib/worker/run-job.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { seeded } from '../simulation/random.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MAX_BYTES = 400_000;

const large = (letter: string, length = 100_000) => ({ text: letter.repeat(length) });
const PAYLOAD = large('p', 200_000);

const POOL: PoolInput = {
  types: { render: { retry: { maxAttempts: 2, delayMs: 1_000, jitter: 'none' } } },
  fleets: { workers: { types: ['render'], slots: 4 } },
  largePayloads: { maxBytes: MAX_BYTES },
};

type Handle = (payload: Json, context: JobContext) => unknown;

function scene(handle: Handle = () => null, pool: PoolInput = POOL) {
  const configuration = resolveConfiguration(pool);
  const time = new VirtualTime(NOW_MS);
  const clock = time.clock();
  const failures: unknown[] = [];
  const ran: JobContext[] = [];
  const scheduler = new LocalScheduler({
    configuration,
    clock,
    after: time.after,
    random: seeded(1),
    handle: (payload, context) => {
      ran.push(context);
      return handle(payload, context);
    },
    onFailure: (error) => failures.push(error),
  });
  let ids = 0;
  const client = new StoreClient({
    store: scheduler.store,
    queue: scheduler.queue,
    configuration,
    large: scheduler.client.large,
    clock,
    newId: () => {
      ids += 1;
      return ids.toString(16).padStart(32, '0');
    },
  });
  /** Lets time pass, and everything happen that is due in it. */
  const pass = async (ms: number): Promise<void> => {
    const untilMs = time.nowMs + ms;
    for (;;) {
      do await time.runDue();
      while (await scheduler.step());
      const nextAtMs = time.nextAtMs ?? Number.POSITIVE_INFINITY;
      if (nextAtMs > untilMs) break;
      time.moveTo(nextAtMs);
    }
    time.moveTo(untilMs);
    expect(failures).toEqual([]);
  };
  /** Waits while a second passes. */
  const meanwhile = async <Value>(waiting: Promise<Value>): Promise<Value> => {
    const [settled] = await Promise.all([Promise.allSettled([waiting]), pass(1_000)]);
    if (settled[0].status === 'rejected') throw settled[0].reason;
    return settled[0].value;
  };
  /** Passes days without anything to do but ticks, of which a few are made. */
  const days = async (count: number): Promise<void> => {
    for (let day = 0; day < count; day += 1) {
      time.skip(DAY_MS);
      await pass(3 * 60_000);
    }
  };
  const objects = (): ReadonlyMap<string, string> => new Map(scheduler.objects.texts);
  const referenceOf = (value: unknown): ObjectReference =>
    (value as Readonly<Record<string, ObjectReference>>)[REFERENCE_FIELD] as ObjectReference;
  return { scheduler, client, pass, meanwhile, days, objects, referenceOf, ran };
}

describe('a job with values over 64 KB', () => {
  it('gets its payload, resumes from its checkpoint, and gives its result', async () => {
    const seen: unknown[] = [];
    const { client, pass, meanwhile, objects, scheduler } = scene(
      async (payload, { attempt, checkpoint, lastCheckpoint }) => {
        seen.push([payload, lastCheckpoint]);
        if (attempt === 2) return large('r');
        await checkpoint(large('a'));
        await checkpoint(large('b'));
        throw new Error('broken');
      },
    );
    const handle = await client.submit('render', PAYLOAD);
    expect(handle.job.payload).toEqual(PAYLOAD);
    expect(scheduler.store.inspectJob(handle.id)?.payload).toEqual({ [REFERENCE_FIELD]: expect.anything() });
    await pass(10_000);
    expect(seen).toEqual([
      [PAYLOAD, undefined],
      [PAYLOAD, large('b')],
    ]);
    expect(await meanwhile(handle.result())).toEqual(large('r'));
    // The first checkpoint was replaced, and its object deleted.
    expect([...objects().keys()].map((key) => key.split('/')[0]).sort()).toEqual(['kept', 'kept', 'payload']);
    expect(await client.get(handle.id)).toMatchObject({
      payload: PAYLOAD,
      result: large('r'),
      checkpoint: large('b'),
    });
  });

  it('keeps the state with which it is parked', async () => {
    const { client, pass } = scene((_, { parkedState, park }) =>
      parkedState === undefined ? park({ until: '+1m', state: large('s') }) : parkedState,
    );
    const { id } = await client.submit('render', null);
    await pass(2 * 60_000);
    expect((await client.wait(id)).status).toBe('succeeded');
    expect(await client.get(id)).toMatchObject({ result: large('s'), parkedState: large('s') });
  });

  it('is listed and explained without a read of its objects', async () => {
    const { client, scheduler, referenceOf } = scene();
    const { id } = await client.submit('render', PAYLOAD, { runAt: '+1d' });
    scheduler.objects.get = async () => {
      throw new Error('was read');
    };
    for await (const job of client.list({ state: 'scheduled' })) {
      const { sha256, ...rest } = referenceOf(job.payload);
      expect(rest).toEqual({
        key: `payload/${weekOf(NOW_MS)}/${id}/${sha256}`,
        bytes: JSON.stringify(PAYLOAD).length,
      });
    }
    expect((await client.get(id, { references: true })).payload).toEqual({
      [REFERENCE_FIELD]: expect.anything(),
    });
    expect(await explainJob(scheduler.client, id)).toBeDefined();
    await expect(client.get(id)).rejects.toThrow('was read');
  });

  it('has one object, however often it is submitted', async () => {
    const { client, objects } = scene();
    const request = {
      type: 'render',
      payload: PAYLOAD,
      idempotencyKey: 'one',
      runAt: '2030-01-01T00:00:00Z',
    };
    const first = await client.submit(request);
    const second = await client.submit(request);
    expect([second.id, second.repeated, second.job.payload]).toEqual([first.id, true, PAYLOAD]);
    expect(objects().size).toBe(1);
    await expect(client.submit({ ...request, payload: large('q') })).rejects.toThrow('idempotency key');
  });

  it('takes over the payload of the last request of its dedupe key', async () => {
    const seen: Json[] = [];
    const { client, pass, referenceOf, scheduler } = scene((payload) => void seen.push(payload));
    const options = { runAt: '+1m', dedupe: { key: 'one', keep: 'last' } } as const;
    const first = await client.submit('render', PAYLOAD, options);
    const second = await client.submit('render', large('q'), options);
    expect([second.id, second.job.payload]).toEqual([first.id, large('q')]);
    expect(referenceOf(scheduler.store.inspectJob(first.id)?.payload).key).toContain(`/${first.id}/`);
    await pass(5 * 60_000);
    expect(seen).toEqual([large('q')]);
  });

  it('is tried again as a new job with an object of its own', async () => {
    const seen: Json[] = [];
    const { client, pass, objects } = scene((payload) => {
      seen.push(payload);
      if (seen.length < 3) throw new Error('broken');
      return null;
    });
    const { id } = await client.submit('render', PAYLOAD);
    await pass(10_000);
    const { jobId } = await client.retry(id);
    expect([...objects().keys()].map((key) => key.split('/')[2]).sort()).toEqual([id, jobId].sort());
    await pass(10_000);
    expect(seen).toEqual([PAYLOAD, PAYLOAD, PAYLOAD]);
  });

  it('is deleted with its objects, and not before', async () => {
    const { client, pass, days, objects } = scene(() => large('r'));
    await client.submit('render', PAYLOAD);
    const waiting = await client.submit('render', large('w'), { runAt: '+40d' });
    await pass(10_000);
    await days(6);
    expect(objects().size).toBe(3);
    await days(20);
    expect([...objects().keys()].map((key) => key.split('/')[2])).toEqual([waiting.id]);
    await days(15);
    expect(await client.wait(waiting.id)).toMatchObject({ status: 'succeeded', result: large('r') });
    await days(30);
    expect(objects().size).toBe(0);
  });
});

describe('an object that no job names', () => {
  it('is collected: its submitter crashed before it put the job', async () => {
    const { client, scheduler, days, objects } = scene();
    const { createJobs } = scheduler.store;
    scheduler.store.createJobs = async () => {
      throw new Error('crash');
    };
    await expect(client.submit('render', PAYLOAD)).rejects.toThrow('crash');
    scheduler.store.createJobs = createJobs;
    expect(objects().size).toBe(1);
    await days(6);
    expect(objects().size).toBe(1);
    await days(10);
    expect(objects().size).toBe(0);
  });

  it('is not the object of a later submit of the same job', async () => {
    const { client, scheduler, days, objects, referenceOf } = scene();
    const { createJobs } = scheduler.store;
    scheduler.store.createJobs = async () => {
      throw new Error('crash');
    };
    const request = {
      type: 'render',
      payload: PAYLOAD,
      idempotencyKey: 'one',
      runAt: '2030-01-01T00:00:00Z',
    };
    await expect(client.submit(request)).rejects.toThrow('crash');
    scheduler.store.createJobs = createJobs;
    await days(13);
    const { id } = await client.submit(request);
    await days(8);
    const { key } = referenceOf(scheduler.store.inspectJob(id)?.payload);
    expect([...objects().keys()]).toEqual([key]);
  });

  it('is collected with its job, if an attempt put it and lost the job', async () => {
    const { client, scheduler, pass, days, objects } = scene(async (_, { attempt }) =>
      large(String(attempt)),
    );
    const { finishJob } = scheduler.store;
    let isFirst = true;
    scheduler.store.finishJob = async (request) => {
      if (!isFirst) return finishJob(request);
      isFirst = false;
      return { kind: 'superseded' };
    };
    const { id } = await client.submit('render', null);
    await pass(1_000);
    expect([isFirst, objects().size]).toEqual([false, 1]);
    await pass(2 * HOUR_MS);
    expect(await client.get(id)).toMatchObject({ state: 'succeeded' });
    await days(25);
    expect(objects().size).toBe(0);
  });
});

describe('an object that is lost', () => {
  const DAMAGE = {
    missing: [(objects: Map<string, string>, key: string) => objects.delete(key), 'is not there any more'],
    changed: [(objects: Map<string, string>, key: string) => objects.set(key, '{}'), 'another SHA-256'],
  } as const;

  it.each(Object.entries(DAMAGE))(
    'fails its job for good if it is %s, and says what to do',
    async (_, [damage, says]) => {
      const { client, scheduler, pass, referenceOf, ran } = scene();
      const { id } = await client.submit('render', PAYLOAD, { runAt: '+1m' });
      const { key } = referenceOf(scheduler.store.inspectJob(id)?.payload);
      const kept = new Map(scheduler.objects.texts);
      damage(kept, key);
      scheduler.objects.get = async (asked) => kept.get(asked);
      await pass(5 * 60_000);
      const job = await client.get(id);
      expect(job).toMatchObject({ state: 'failed', attempt: 1, error: { name: 'JobUnreadable' } });
      expect(job.state === 'failed' && job.error.message).toMatch(
        new RegExp(
          `^its payload has 196 KB in the object ${key}, which .*${says}.*; restore it, or submit the job again$`,
        ),
      );
      expect(ran).toEqual([]);
      expect(job.unreadable).toContain(says);
      await expect(client.retry(id)).rejects.toThrow(says);
    },
  );

  it('is said by the outcome of its job, if it was the result', async () => {
    const { client, scheduler, pass, meanwhile } = scene(() => large('r'));
    const handle = await client.submit('render', null);
    await pass(1_000);
    scheduler.objects.get = async () => undefined;
    expect(await client.wait(handle.id)).toMatchObject({ status: 'refused', job: { state: 'succeeded' } });
    await expect(meanwhile(handle.result())).rejects.toThrow(ConfigurationError);
    await expect(meanwhile(handle.result())).rejects.toThrow('its result has 98 KB in the object');
  });

  it('is no object of another job', async () => {
    const { client, scheduler, pass, referenceOf } = scene();
    const one = await client.submit('render', PAYLOAD, { runAt: '+1m' });
    const other = await client.submit('render', large('o'), { runAt: '+1m' });
    const { lookUpJobs, startJob } = scheduler.store;
    const stolen = scheduler.store.inspectJob(other.id)?.payload as Json;
    expect(referenceOf(stolen).key).toContain(other.id);
    scheduler.store.startJob = async (request) => {
      const started = await startJob(request);
      if (started.kind !== 'started' || started.job.id !== one.id) return started;
      return { ...started, job: { ...started.job, payload: stolen } };
    };
    scheduler.store.lookUpJobs = lookUpJobs;
    await pass(5 * 60_000);
    expect(await client.get(one.id)).toMatchObject({ state: 'failed', error: { name: 'JobUnreadable' } });
    expect(await client.get(other.id)).toMatchObject({ state: 'succeeded' });
  });
});

describe('a value that is refused', () => {
  it.each([
    [
      'a payload over the declared bound',
      { type: 'render', payload: large('x', MAX_BYTES) },
      /payload has 400011 bytes, at most 400000/,
    ],
    [
      'a payload that looks like a reference',
      { type: 'render', payload: { [REFERENCE_FIELD]: {} } },
      /payload: may not have the field fairlead:object/,
    ],
  ])('is %s', async (_, request, message) => {
    const { client, objects } = scene();
    await expect(client.submit(request)).rejects.toThrow(message);
    expect(objects().size).toBe(0);
  });

  it('is over 64 KB where nothing is declared, and says what to declare', async () => {
    const { client, objects } = scene(undefined, { types: { render: {} } });
    await expect(client.submit('render', PAYLOAD)).rejects.toThrow(
      /payload has 200011 bytes, at most 65536 are accepted; .*, or declare largePayloads/,
    );
    expect(objects().size).toBe(0);
  });

  it.each([
    ['a result', 'ResultRefused', (_: JobContext) => large('r', MAX_BYTES)],
    ['a checkpoint', 'CheckpointRefused', ({ checkpoint }: JobContext) => checkpoint(large('c', MAX_BYTES))],
    ['a result like a reference', 'ResultRefused', (_: JobContext) => ({ [REFERENCE_FIELD]: {} })],
  ])('is %s, which fails the attempt', async (_, name, run) => {
    const { client, pass, objects } = scene((_payload, context) => run(context));
    const { id } = await client.submit('render', null);
    await pass(10_000);
    expect(await client.get(id)).toMatchObject({ state: 'failed', error: { name } });
    expect(objects().size).toBe(0);
  });
});
