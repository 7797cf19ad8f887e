/** A client that knows the scheduler by a URL, and a real server. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { serve } from '@hono/node-server';
import { afterEach, expect, it } from 'vitest';
import {
  ConflictError,
  NotFoundError,
  SchedulerClient,
  UnavailableError,
  ValidationError,
} from '../../lib/client/aws.ts';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { errorOf } from '../client/desk.ts';
import { httpDesk } from './desk.ts';

const JOBS = defineJobs({
  resize: job<{ readonly page: number }>(),
  report: job<{ readonly month: number }>(),
});
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function served() {
  const scene = httpDesk();
  const server = serve({ fetch: scene.app.fetch, port: 0, hostname: '127.0.0.1' });
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { ...scene, server, url: `http://127.0.0.1:${port}` };
}

it('submits, finds and waits with FAIRLEAD_URL alone', async () => {
  const { url, work } = await served();
  const client = SchedulerClient.for(JOBS, {}, { FAIRLEAD_URL: `${url}/` });
  const handle = await client.submit('resize', { page: 1 }, { idempotencyKey: 'é/1', fairnessKey: 'a b' });
  expect(await client.get({ idempotencyKey: 'é/1' })).toMatchObject({ id: handle.id, fairnessKey: 'a b' });
  await work();
  expect(await handle.outcome()).toMatchObject({ status: 'succeeded', job: { id: handle.id } });
  client.destroy();
});

it('reports no error for a caller that hangs up within its body', async () => {
  const errors: unknown[] = [];
  const { app } = httpDesk({}, { onError: (error) => errors.push(error) });
  const answered = Promise.withResolvers<Response>();
  const server = serve({
    fetch: (request) => {
      const answer = Promise.resolve(app.fetch(request));
      answer.then(answered.resolve, answered.reject);
      return answer;
    },
    port: 0,
    hostname: '127.0.0.1',
  });
  await once(server, 'listening');
  closing.push(() => server.close());
  const { port } = server.address() as AddressInfo;
  const socket = connect(port, '127.0.0.1');
  socket.write(
    'POST /jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
  );
  await once(server, 'request');
  socket.destroy();
  await answered.promise;
  expect(errors).toEqual([]);
});

it('takes many jobs in requests that the server takes, and refuses by itself the one that fits into none', {
  timeout: 60_000,
}, async () => {
  const { url } = await served();
  const client = SchedulerClient.fromEnvironment({}, { FAIRLEAD_URL: url });
  // Three bytes for each character, 9 MB.
  const requests = Array.from({ length: 150 }, () => ({ type: 'resize', payload: '€'.repeat(20_000) }));
  const large = { type: 'resize', payload: 'x'.repeat(5_000_000) };
  const [refused, ...entries] = await client.submitMany([large, ...requests]);
  expect(entries.map(({ kind }) => kind)).toEqual(requests.map(() => 'accepted'));
  expect(refused).toMatchObject({ kind: 'refused', error: { name: 'ValidationError', field: 'payload' } });
  const error = await errorOf(client.submit(large));
  expect(error).toBeInstanceOf(ValidationError);
  expect(String(error)).toMatch(
    /makes a request of 50000\d\d bytes, and a server of FAIRLEAD_URL takes at most 419\d{4}/,
  );
  expect(await errorOf(client.schedules.put('large', { ...large, every: '1h' }))).toMatchObject({
    name: 'RefusedError',
    message: expect.stringMatching(/the request has 50000\d\d bytes.* takes at most 4194304/),
  });
  client.destroy();
});

it('answers a body that is too large each time, although its client still writes', {
  timeout: 60_000,
}, async () => {
  const { url } = await served();
  for (const bytes of [4_194_305, 5_000_000, 20_000_000])
    for (let tries = 1; tries <= 5; tries += 1) {
      const answer = await fetch(`${url}/jobs`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: 'x'.repeat(bytes),
      });
      expect(answer.status).toBe(413);
      expect(await answer.json()).toMatchObject({
        detail: `the body has ${bytes} bytes, at most 4194304 are accepted; send less with each request`,
      });
    }
});

it('throws the errors of the client', async () => {
  const { url } = await served();
  const client = SchedulerClient.fromEnvironment({}, { FAIRLEAD_URL: url });
  await client.submit({ type: 'resize', payload: 1, idempotencyKey: 'k' });
  expect(await errorOf(client.submit({ type: 'resize', payload: 2, idempotencyKey: 'k' }))).toBeInstanceOf(
    ConflictError,
  );
  expect(await errorOf(client.submit({ type: 'nothing' }))).toMatchObject({
    name: 'ValidationError',
    field: 'type',
  });
  expect(await errorOf(client.get('none'))).toBeInstanceOf(NotFoundError);
  expect(await errorOf(client.submit({ type: 'resize', priority: 11 }))).toBeInstanceOf(ValidationError);
});

it('says what is wrong if no scheduler is there', async () => {
  const nothing = createServer((_, response) => response.writeHead(502).end('<html>')).listen(0, '127.0.0.1');
  await once(nothing, 'listening');
  const { port } = nothing.address() as AddressInfo;
  const client = SchedulerClient.fromEnvironment({}, { FAIRLEAD_URL: `http://127.0.0.1:${port}` });
  const error = await errorOf(client.fleets());
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error.message).toContain('check that FAIRLEAD_URL');
  nothing.close();
  expect(await errorOf(client.fleets())).toBeInstanceOf(UnavailableError);
  expect(() => SchedulerClient.fromEnvironment({}, { FAIRLEAD_URL: 'localhost' })).toThrow('FAIRLEAD_URL');
});

it('belongs to the table where one is named, too', () => {
  const environment = { FAIRLEAD_URL: 'no url', FAIRLEAD_TABLE: 't', FAIRLEAD_WAKE_QUEUE: 'http://q' };
  const client = SchedulerClient.fromEnvironment({ region: 'eu-west-1' }, environment);
  expect(client).toBeInstanceOf(SchedulerClient);
  client.destroy();
});

it('ends the wait of a request whose caller has gone', async () => {
  const { url, store } = await served();
  const client = SchedulerClient.fromEnvironment({}, { FAIRLEAD_URL: url });
  const { jobId } = await client.submit({ type: 'resize' });
  const signal = AbortSignal.timeout(50);
  expect(await errorOf(client.wait(jobId, { signal }))).toMatchObject({
    name: 'AbortError',
    mayHaveChanged: false,
  });
  expect(store.everyJob()).toBeDefined();
});
