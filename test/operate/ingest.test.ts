/** Events that move or cancel a job do what the client's verbs do, once, and say why where they cannot. */

import { describe, expect, it } from 'vitest';
import { ThrottledError } from '../../lib/core/errors.ts';
import { ingestJobRequests, jobMessageOf } from '../../lib/operate/ingest.ts';
import { jobIdOf } from '../../lib/submit/request.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { stage, storeWith } from '../stage/stage.ts';

const LATER = new Date(NOW_MS + 3_600_000).toISOString();
const VERBS = { move: 'Job Move Requested', cancel: 'Job Cancel Requested' } as const;

function scene() {
  const on = stage();
  const context = { ...on.submitter(), queue: on.queue, events: on.bus, log: on.log };
  let made = 0;
  /** Delivers an event as the bus puts it on the queue. */
  const deliver = (
    verb: keyof typeof VERBS,
    detail: unknown,
    {
      id = `e-${made++}`,
      time = new Date(NOW_MS - 3_600_000).toISOString(),
      receivedAtMs,
    }: { readonly id?: string; readonly time?: string; readonly receivedAtMs?: number } = {},
    store = on.store,
  ) => {
    const body = JSON.stringify({ id, time, 'detail-type': VERBS[verb], detail });
    const message = jobMessageOf({ messageId: 'm', body, receivedAtMs });
    if (message === undefined) throw new Error('it is no such event');
    return on.finish(ingestJobRequests({ ...context, store }, [message]));
  };
  const waiting = async (key: string) => {
    const [job] = await on.put(on.job({ id: jobIdOf(key) }));
    return job?.id ?? '';
  };
  const reasons = async (event: string) =>
    (await on.store.listRejections(event)).map(({ field, reason }) => `${field}: ${reason}`);
  return { on, deliver, waiting, reasons };
}

describe('Job Move Requested', () => {
  it.each([
    ['its id', (id: string) => ({ id })],
    ['the key that it was requested with', () => ({ idempotencyKey: 'order-1' })],
  ])('moves a job that is named by %s, and its history says by which event', async (_, named) => {
    const { on, deliver, waiting } = scene();
    const id = await waiting('order-1');
    expect(await deliver('move', { ...named(id), runAt: LATER }, { id: 'e' })).toEqual({
      failedMessageIds: [],
      rejected: 0,
    });
    expect(on.store.inspectJob(id)).toMatchObject({ state: 'scheduled', runAtMs: NOW_MS + 3_600_000 });
    expect(on.store.inspectJob(id)?.history?.entries).toMatchObject([{ kind: 'moved', by: 'event e' }]);
  });

  it('that is delivered again undoes no later move', async () => {
    const { on, deliver, waiting } = scene();
    const id = await waiting('order-1');
    const latest = NOW_MS + 7_200_000;
    await deliver('move', { id, runAt: LATER }, { id: 'first' });
    await deliver('move', { id, runAt: new Date(latest).toISOString() }, { id: 'second' });
    await deliver('move', { id, runAt: LATER }, { id: 'first' });
    expect(on.store.inspectJob(id)?.runAtMs).toBe(latest);
  });

  it('of a job that runs is rejected, on record and on the bus', async () => {
    const { on, deliver, waiting, reasons } = scene();
    const id = await waiting('order-1');
    await on.pass({ jobs: [...on.store.everyJob()], reason: 'wake' });
    await on.startEverywhere();
    expect(await deliver('move', { id, runAt: LATER }, { id: 'e' })).toEqual({
      failedMessageIds: [],
      rejected: 1,
    });
    expect(await reasons('e')).toEqual([`id: job ${id} is running: only waiting jobs can be moved`]);
    expect(on.published).toMatchObject([{ kind: 'rejected', detail: { sourceId: 'e', field: 'id' } }]);
  });
});

describe('Job Cancel Requested', () => {
  it('ends a job that waits, and asks the worker of one that runs', async () => {
    const { on, deliver, waiting } = scene();
    const id = await waiting('order-1');
    await deliver('cancel', { id });
    expect(on.store.inspectJob(id)?.state).toBe('cancelled');
    const other = await waiting('order-2');
    await on.pass({
      jobs: [...on.store.everyJob()].filter(({ state }) => state === 'pending'),
      reason: 'wake',
    });
    await on.startEverywhere();
    await deliver('cancel', { idempotencyKey: 'order-2' }, { id: 'e' });
    expect(on.store.inspectJob(other)).toMatchObject({ state: 'running', cancelRequestedBy: 'event e' });
  });

  it('that is delivered again is as done, and of a job that has ended otherwise is rejected', async () => {
    const { on, deliver, waiting, reasons } = scene();
    const id = await waiting('order-1');
    for (const event of ['e', 'e'])
      expect(await deliver('cancel', { id }, { id: event })).toMatchObject({ rejected: 0 });
    const other = await waiting('order-2');
    await on.pass({
      jobs: [...on.store.everyJob()].filter(({ state }) => state === 'pending'),
      reason: 'wake',
    });
    for (const started of await on.startEverywhere()) await on.end(started);
    expect(await deliver('cancel', { id: other }, { id: 'late' })).toMatchObject({ rejected: 1 });
    expect(await reasons('late')).toEqual([`id: job ${other} has already succeeded`]);
  });
});

describe('a request about a job', () => {
  it.each(['move', 'cancel'] as const)(
    'that is not there yet comes again for a minute (%s), and is rejected then',
    async (verb) => {
      const { deliver, reasons } = scene();
      const detail = { id: 'nobody', ...(verb === 'move' ? { runAt: LATER } : {}) };
      const time = new Date(NOW_MS - 30_000).toISOString();
      expect(await deliver(verb, detail, { id: 'e', time })).toEqual({
        failedMessageIds: ['m'],
        rejected: 0,
      });
      const late = new Date(NOW_MS - 61_000).toISOString();
      expect(await deliver(verb, detail, { id: 'e', time: late })).toEqual({
        failedMessageIds: [],
        rejected: 1,
      });
      expect(await reasons('e')).toEqual(['id: no job has the id "nobody"']);
    },
  );

  it('that has waited long, as the job’s own request behind it may have, comes again from its first delivery on', async () => {
    const { deliver, reasons } = scene();
    const asked = (receivedAtMs: number) => deliver('cancel', { id: 'nobody' }, { id: 'e', receivedAtMs });
    expect(await asked(NOW_MS)).toEqual({ failedMessageIds: ['m'], rejected: 0 });
    expect(await asked(NOW_MS - 61_000)).toEqual({ failedMessageIds: [], rejected: 1 });
    expect(await reasons('e')).toEqual(['id: no job has the id "nobody"']);
  });

  it.each([
    ['move', undefined, ''],
    ['move', 7, ''],
    ['move', { id: 'j' }, 'runAt'],
    ['move', { id: 'j', runAt: 'tomorrow' }, 'runAt'],
    ['move', { runAt: LATER }, 'id'],
    ['move', { id: 'j', idempotencyKey: 'k', runAt: LATER }, 'id'],
    ['move', { id: 7, runAt: LATER }, 'id'],
    ['move', { id: '', runAt: LATER }, 'id'],
    ['move', { id: 'x'.repeat(600), runAt: LATER }, 'id'],
    ['cancel', { id: 'j', runAt: LATER }, 'runAt'],
    ['cancel', {}, 'id'],
    ['cancel', [], ''],
  ] as const)('%s: %j is rejected by the name of its field', async (verb, detail, field) => {
    const { on, deliver } = scene();
    expect(await deliver(verb, detail, { id: 'e' })).toEqual({ failedMessageIds: [], rejected: 1 });
    expect(await on.store.listRejections('e')).toMatchObject([{ field }]);
  });

  it('that meets trouble with the store comes again, and has changed nothing', async () => {
    const { on, deliver, waiting } = scene();
    const id = await waiting('order-1');
    const store = storeWith(on.store, { cancelJob: () => Promise.reject(new ThrottledError('busy')) });
    expect(await deliver('cancel', { id }, {}, store as never)).toEqual({
      failedMessageIds: ['m'],
      rejected: 0,
    });
    expect(on.store.inspectJob(id)?.state).toBe('pending');
  });
});
