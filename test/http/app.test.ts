/** The HTTP protocol: what each operation answers. */
import { Hono } from 'hono';
import { describe, expect, it } from 'vitest';
import type { OutcomeEvent } from '../../lib/events/contract.ts';
import { MemoryEventBus } from '../../lib/events/memory/bus.ts';
import { httpApp } from '../../lib/http/app.ts';
import { aRejection } from '../fixtures/factories/rejection.ts';
import { httpDesk } from './desk.ts';

describe('a producer over HTTP', () => {
  it('submits a job, and repeats it by its key', async () => {
    const { send, stateOf } = httpDesk();
    const request = { type: 'resize', payload: { page: 1 }, idempotencyKey: 'page-1', fairnessKey: 'a' };
    const first = await send('POST', '/jobs', request);
    expect(first.status).toBe(201);
    expect(first.body).toMatchObject({ repeated: false, job: { state: 'pending', fairnessKey: 'a' } });
    const again = await send('POST', '/jobs', request);
    expect(again).toMatchObject({ status: 200, body: { jobId: first.body.jobId, repeated: true } });
    expect(await stateOf(String(first.body.jobId))).toBe('pending');
    const found = await send('GET', '/jobs/named?idempotencyKey=page-1');
    expect(found.body).toMatchObject({ job: { id: first.body.jobId } });
  });

  it('submits many, each accepted or refused by itself', async () => {
    const { send } = httpDesk();
    const { status, body } = await send('POST', '/jobs/batch', {
      jobs: [{ type: 'resize' }, { type: 'nothing' }, 7],
    });
    expect(status).toBe(200);
    expect(body.requests).toMatchObject([
      { kind: 'accepted', repeated: false },
      { kind: 'refused', problem: { title: 'ValidationError', field: 'type' } },
      { kind: 'refused', problem: { title: 'ValidationError' } },
    ]);
  });

  it('waits for an end, and is told when there is none yet', async () => {
    const { send, work, finish } = httpDesk({}, { waitMs: 1 });
    const { body } = await send('POST', '/jobs', { type: 'resize' });
    expect(await finish(send('GET', `/jobs/${body.jobId}/wait`))).toMatchObject({
      status: 202,
      body: { ended: [] },
    });
    await work();
    const expected = { status: 200, body: { ended: [{ id: body.jobId, outcome: { status: 'succeeded' } }] } };
    expect(await send('GET', `/jobs/${body.jobId}/wait`)).toMatchObject(expected);
    const many = await send('POST', '/jobs/wait', { jobs: [body.jobId] });
    expect(many).toMatchObject(expected);
  });
});

describe('an operator over HTTP', () => {
  it('lists by pages, explains, moves, cancels, with their name in the history', async () => {
    const { send } = httpDesk();
    const made: string[] = [];
    for (const fairnessKey of ['a', 'b', 'c'])
      made.push(
        String((await send('POST', '/jobs', { type: 'resize', fairnessKey, runAt: '+1h' })).body.jobId),
      );
    const first = await send('GET', '/jobs?state=scheduled&limit=2');
    expect(first.body.jobs).toHaveLength(2);
    const second = await send('GET', `/jobs?state=scheduled&limit=2&cursor=${first.body.next}`);
    expect(second.body.jobs).toHaveLength(1);
    expect(second.body).not.toHaveProperty('next');
    const [id = ''] = made;
    expect((await send('GET', `/jobs/${id}/explanation`)).body).toMatchObject({
      explanation: { waitsFor: expect.anything() },
    });
    const moved = await send(
      'POST',
      `/jobs/${id}/retime`,
      { runAt: '2030-01-01T00:00:00Z' },
      { 'fairlead-actor': 'ada' },
    );
    expect(moved).toMatchObject({ status: 200, body: { job: { state: 'scheduled' } } });
    expect(JSON.stringify((await send('GET', `/jobs/${id}/history`)).body)).toContain('ada');
    const dry = await send('POST', '/jobs/cancel', { filter: { state: 'scheduled' }, dryRun: true });
    expect(dry.body).toMatchObject({ more: false, entries: made.map(() => ({ kind: 'matches' })) });
    expect((await send('POST', `/jobs/${id}/cancel`)).body).toMatchObject({ outcome: 'cancelled' });
    expect(
      (await send('POST', '/jobs/cancel', { filter: { state: 'scheduled' } })).body.entries,
    ).toHaveLength(2);
  });

  it('is named by the server, if that knows its callers', async () => {
    const { send } = httpDesk({}, { who: () => 'arn:role/ops' });
    const { body } = await send('POST', '/jobs', { type: 'resize', runAt: '+1h' });
    await send('POST', `/jobs/${body.jobId}/retime`, { runAt: '+2h' }, { 'fairlead-actor': 'mallory' });
    const history = JSON.stringify((await send('GET', `/jobs/${body.jobId}/history`)).body);
    expect(history).toContain('arn:role/ops');
    expect(history).not.toContain('mallory');
  });

  it('retries dead letters, one and all', async () => {
    const { send, deadLetter } = httpDesk();
    const dead = await deadLetter();
    expect((await send('GET', '/dead-letters')).body.jobs).toMatchObject([{ id: dead.id, state: 'failed' }]);
    const retried = await send('POST', `/jobs/${dead.id}/retry`);
    expect(retried.body).toMatchObject({ repeated: false });
    const all = await send('POST', '/dead-letters/redrive', { filter: {}, dryRun: true });
    expect(all.status).toBe(200);
  });

  it('pauses, overrides and resumes', async () => {
    const { send } = httpDesk();
    const scope = { type: 'resize' };
    expect((await send('POST', '/controls/pause', { scope })).body).toMatchObject({
      control: { paused: true },
    });
    const change = { maxConcurrency: 3 };
    expect((await send('POST', '/controls/override', { scope, change })).body).toMatchObject({
      control: { paused: true, maxConcurrency: 3 },
    });
    expect((await send('GET', '/controls')).body.controls).toHaveLength(1);
    expect((await send('POST', '/controls/resume', { scope })).body).toMatchObject({
      control: { paused: false },
    });
  });

  it('keeps schedules', async () => {
    const { send } = httpDesk();
    const put = await send('PUT', '/schedules/nightly', { type: 'report', cron: '0 2 * * *' });
    expect(put).toMatchObject({ status: 200, body: { outcome: 'created', schedule: { id: 'nightly' } } });
    expect((await send('GET', '/schedules/nightly/next?count=3')).body.firings).toHaveLength(3);
    expect((await send('POST', '/schedules/nightly/pause')).body).toMatchObject({
      schedule: { state: 'paused' },
    });
    expect((await send('POST', '/schedules/nightly/run')).body).toHaveProperty('jobId');
    expect((await send('GET', '/schedules')).body.schedules).toHaveLength(1);
    expect((await send('DELETE', '/schedules/nightly')).body).toEqual({ deleted: 'nightly' });
  });

  it.each(['fleets', 'types', 'declaration', 'dispatchers', 'keys', 'rejections', 'unreadable'])(
    'looks at %s',
    async (path) => {
      const { send } = httpDesk();
      expect((await send('GET', `/${path}`)).status).toBe(200);
    },
  );

  it('changes nothing on a read-only server, and looks at all', async () => {
    const { send, everything } = httpDesk({}, { role: 'read' });
    const before = everything();
    for (const [method, path] of [
      ['POST', '/jobs'],
      ['POST', '/jobs/x/cancel'],
      ['POST', '/controls/pause'],
      ['PUT', '/schedules/a'],
      ['DELETE', '/schedules/a'],
    ] as const)
      expect(await send(method, path, {})).toMatchObject({ status: 403, body: { title: 'Forbidden' } });
    expect((await send('GET', '/jobs?state=pending')).status).toBe(200);
    expect(everything()).toBe(before);
  });
});

describe('an answer', () => {
  // A function URL lets 6 MB through.
  const BYTES_MAX = 6 * 1024 * 1024;
  const JOBS = 110;

  it('holds no more than passes a function URL: the others are on the next page, or come with the next wait', {
    timeout: 60_000,
  }, async () => {
    const { app, send } = httpDesk({
      pool: { types: { resize: { listFinished: true } }, fleets: { images: { types: ['resize'] } } },
    });
    const payload = 'x'.repeat(60_000);
    const ids: string[] = [];
    for (let at = 0; at < JOBS; at += 1) {
      const { body } = await send('POST', '/jobs', { type: 'resize', payload, runAt: '+1h' });
      await send('POST', `/jobs/${body.jobId}/cancel`, {});
      ids.push(String(body.jobId));
    }
    const seen = new Set<string>();
    let next: string | undefined;
    do {
      const path = `/jobs?state=cancelled&type=resize&limit=1000${next === undefined ? '' : `&cursor=${next}`}`;
      const text = await (await app.request(path)).text();
      expect(Buffer.byteLength(text)).toBeLessThan(BYTES_MAX);
      const page = JSON.parse(text) as { jobs: { id: string }[]; next?: string };
      for (const { id } of page.jobs) seen.add(id);
      next = page.next;
    } while (next !== undefined);
    expect(seen.size).toBe(JOBS);
    const left = new Set(ids);
    for (let asked = 0; left.size > 0 && asked < 5; asked += 1) {
      const { body } = await send('POST', '/jobs/wait', { jobs: [...left] });
      expect(Buffer.byteLength(JSON.stringify(body))).toBeLessThan(BYTES_MAX);
      for (const { id } of body.ended as unknown as readonly { id: string }[]) left.delete(id);
    }
    expect(left.size).toBe(0);
  });
});

describe('the cursors of lists', () => {
  /** All pages of a list, with what happens between them. */
  const paged = async (
    send: ReturnType<typeof httpDesk>['send'],
    path: string,
    between: (page: number) => Promise<unknown> = async () => {},
  ): Promise<readonly string[]> => {
    const ids: string[] = [];
    let next: string | undefined;
    for (let page = 0; page === 0 || next !== undefined; page += 1) {
      const { status, body } = await send('GET', `${path}${next === undefined ? '' : `&cursor=${next}`}`);
      expect(status).toBe(200);
      ids.push(...(body.jobs as unknown as { readonly id: string }[]).map(({ id }) => id));
      next = body.next;
      await between(page);
    }
    return ids;
  };

  it('list each job once, although others come and go between the pages', async () => {
    const { send, client, put, job, time } = httpDesk();
    const at = (ms: number) => ({
      state: 'scheduled' as const,
      runAtMs: time.nowMs + ms,
      readyAtMs: time.nowMs + ms,
    });
    const jobs = await put(...Array.from({ length: 250 }, (_, nth) => job(at(100_000 + nth))));
    const listed = await paged(send, '/jobs?state=scheduled&limit=30', async (page) => {
      await put(job(at(1_000 + page)));
      // One that was listed goes.
      await client.cancel(jobs[page]?.id ?? '');
    });
    expect(listed).toEqual(jobs.map(({ id }) => id));
  });

  it('repeat entries, and leave none out, if the last one of a page has gone', async () => {
    const { send, client, put, job, time } = httpDesk();
    const runAtMs = time.nowMs + 60_000;
    const jobs = await put(
      ...Array.from({ length: 8 }, (_, nth) =>
        job({ state: 'scheduled', runAtMs: runAtMs + nth, readyAtMs: runAtMs + nth }),
      ),
    );
    const listed = await paged(send, '/jobs?state=scheduled&limit=3', async (page) => {
      if (page === 0) await client.cancel(jobs[2]?.id ?? '');
    });
    expect(new Set(listed)).toEqual(new Set(jobs.map(({ id }) => id)));
  });

  it('reach further than 10,000 entries, and every page costs the same', { timeout: 60_000 }, async () => {
    const { send, put, job, time, store } = httpDesk();
    const runAtMs = time.nowMs + 60_000;
    const many = Array.from({ length: 10_500 }, () =>
      job({ state: 'scheduled', runAtMs, readyAtMs: runAtMs }),
    );
    for (let from = 0; from < many.length; from += 1_000) await put(...many.slice(from, from + 1_000));
    const reads: number[] = [];
    let read = 0;
    store.meter = (verb) => {
      if (verb === 'readDue') read += 1;
    };
    const listed = await paged(send, '/jobs?state=scheduled&limit=1000', async () => {
      reads.push(read);
      read = 0;
    });
    expect(new Set(listed).size).toBe(10_500);
    expect(Math.max(...reads)).toBeLessThan(2 * Math.min(...reads.slice(0, -1)));
  });

  it('are those of dead letters and refusals, too', async () => {
    const { send, deadLetter, store } = httpDesk();
    const failed: string[] = [];
    for (let at = 0; at < 5; at += 1) failed.push((await deadLetter()).id);
    expect(new Set(await paged(send, '/dead-letters?limit=2'))).toEqual(new Set(failed));
    await store.recordRejections(
      Array.from({ length: 5 }, (_, position) => aRejection({ sourceId: 'one', position })),
    );
    const first = await send('GET', '/rejections?limit=3');
    const second = await send('GET', `/rejections?limit=3&cursor=${first.body.next}`);
    expect(second.body.rejections).toHaveLength(2);
    expect(second.body.next).toBeUndefined();
  });

  it('of another list, another filter or nobody are refused', async () => {
    const { send, deadLetter, client } = httpDesk();
    for (let at = 0; at < 3; at += 1) {
      await deadLetter();
      await client.submit({ type: 'report', runAt: '+1h' });
    }
    const { next } = (await send('GET', '/jobs?state=scheduled&limit=1')).body;
    const [mark = ''] = String(next).split('.');
    const forged = (place: unknown) => `${mark}.${Buffer.from(JSON.stringify(place)).toString('base64url')}`;
    for (const path of [
      `/jobs?state=failed&cursor=${next}`,
      `/jobs?state=scheduled&type=report&cursor=${next}`,
      `/dead-letters?cursor=${next}`,
      `/jobs?state=scheduled&cursor=${mark}.none`,
      `/jobs?state=scheduled&cursor=${forged([0])}`,
      '/jobs?state=scheduled&cursor=after-',
    ])
      expect({ path, ...(await send('GET', path)) }).toMatchObject({
        path,
        status: 400,
        body: { title: 'ValidationError', field: 'cursor' },
      });
    const unknown = await send('GET', `/jobs?state=scheduled&cursor=${forged([0, 'x', 'no cursor'])}`);
    expect(unknown).toMatchObject({ status: 422, body: { title: 'RefusedError' } });
  });
});

describe('events over HTTP', () => {
  it('streams outcomes that match', async () => {
    const events = new MemoryEventBus({ random: () => 0 });
    const { app } = httpDesk({}, { events });
    const response = await app.request('/events?type=resize');
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    await reader?.read();
    const detail = { id: 'j1', version: 4, type: 'resize', state: 'succeeded', fairnessKey: '' } as never;
    const other = { id: 'j2', version: 4, type: 'report', state: 'failed', fairnessKey: '' } as never;
    await events.publish([other, detail].map((each) => ({ kind: 'outcome', detail: each })));
    const { value = '' } = (await reader?.read()) ?? {};
    expect(value).toContain('event: Job Succeeded\n');
    expect(value).toContain('id: j1/4\n');
    await reader?.cancel();
  });

  it('ends a stream whose reader stalls, once 1,000 outcomes wait for it', async () => {
    const listeners = new Set<(event: OutcomeEvent) => void>();
    const subscribe = (listener: (event: OutcomeEvent) => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    };
    const { app } = httpDesk({}, { events: { subscribe } });
    const { body } = await app.request('/events');
    const detail = { id: 'j1', version: 4, type: 'resize', state: 'succeeded', fairnessKey: '' } as never;
    for (let sent = 0; sent < 1_100; sent += 1) {
      for (const listener of listeners) listener({ kind: 'outcome', detail });
      // The stream writes what its reader takes.
      if (sent % 10 === 0) await new Promise((done) => setImmediate(done));
    }
    await expect.poll(() => listeners.size).toBe(0);
    expect(await new Response(body).text()).toMatch(/^:\n\n/);
  });

  it('takes requests as the bus does', async () => {
    const messages: { messageId: string; body: string }[] = [];
    const { send } = httpDesk(
      {},
      {
        ingest: async (given) => {
          messages.push(...given);
          return [];
        },
      },
    );
    const entries = [
      { Source: 'shop', DetailType: 'Job Requested', Detail: '{"type":"resize"}' },
      { Source: 'shop', DetailType: 'Order Placed', Detail: '{}' },
      { Source: 'shop', DetailType: 'Job Requested', Detail: 'no JSON' },
    ];
    const { body } = await send(
      'POST',
      '/',
      { Entries: entries },
      {
        'content-type': 'application/x-amz-json-1.1',
        'x-amz-target': 'AWSEvents.PutEvents',
      },
    );
    expect(body).toMatchObject({
      FailedEntryCount: 1,
      Entries: [{ EventId: expect.any(String) }, {}, { ErrorCode: 'MalformedDetail' }],
    });
    expect(messages).toHaveLength(1);
    expect(JSON.parse(messages[0]?.body ?? '')).toMatchObject({
      'detail-type': 'Job Requested',
      source: 'shop',
      detail: { type: 'resize' },
    });
  });

  it('says so where a server has none', async () => {
    const { send } = httpDesk();
    expect(await send('GET', '/events')).toMatchObject({ status: 501 });
    expect(await send('POST', '/events', {})).toMatchObject({ status: 501 });
  });
});

it('works inside another app, which keeps its own paths', async () => {
  const { client } = httpDesk();
  const outer = new Hono().route('/scheduler', httpApp({ client })).get('/own', (c) => c.text('mine'));
  expect((await outer.request('/scheduler/fleets')).status).toBe(200);
  expect((await outer.request('/scheduler/nothing')).headers.get('content-type')).toBe(
    'application/problem+json',
  );
  expect(await (await outer.request('/own')).text()).toBe('mine');
});
