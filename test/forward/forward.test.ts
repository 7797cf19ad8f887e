/** Jobs that a server in any language runs: what each of its answers means, and what it cannot do. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { checkWorker } from '../../lib/worker/conformance.ts';
import { AttemptError } from '../../lib/worker/errors.ts';
import { forwardUrl } from '../../lib/worker/forward.ts';
import { errorOf } from '../client/desk.ts';
import { anAttempt, closeAll, forwarderTo, later, listening } from './attempts.ts';
import { examplesOf } from './examples.ts';

afterEach(closeAll);

const post = (url: string, body: unknown): Promise<Response> =>
  fetch(url, { method: 'POST', body: JSON.stringify(body) });

/** A body that is larger than an answer may be. */
const LARGE = `"${'x'.repeat(300_000)}"`;

describe('a forwarded attempt', () => {
  it('arrives with its payload, and with headers that say whose it is', async () => {
    const seen: IncomingMessage[] = [];
    const { url } = await listening((asked, answer) => {
      seen.push(asked);
      asked.pipe(answer);
    });
    const forwarder = await forwarderTo(`${url}/base/`);
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const attempt = anAttempt({ id: 'event/é', type: 're/size', attempt: 2, traceparent });
    expect(await forwarder.forward({ page: 'é' }, attempt)).toEqual({ page: 'é' });
    expect(seen[0]?.url).toBe('/base/jobs/re%2Fsize');
    expect(seen[0]?.headers).toMatchObject({
      'content-type': 'application/json',
      'fairlead-job-id': 'event%2F%C3%A9',
      'fairlead-attempt': '2',
      'fairlead-fencing-token': '7',
      'fairlead-deadline': '2030-01-01T00:00:00.000Z',
      'fairlead-callback': expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/attempts\/[\w-]{32}$/),
      traceparent,
    });
  });

  it.each<readonly [number, Record<string, string>, string, object]>([
    [422, {}, 'no such image', { name: 'PermanentError', message: expect.stringContaining('no such image') }],
    [429, { 'retry-after': '30' }, '', { name: 'RetryAfterError', retryAfterMs: 30_000 }],
    [503, { 'retry-after': '0' }, '', { name: 'RetryAfterError', retryAfterMs: 0 }],
    [
      503,
      { 'retry-after': 'Mon, 01 Jan 2001 00:00:00 GMT' },
      '',
      { name: 'RetryAfterError', retryAfterMs: 0 },
    ],
    [503, { 'retry-after': 'soon' }, '', { name: 'Error' }],
    [503, { 'retry-after': '1.5' }, '', { name: 'Error' }],
    [503, { 'retry-after': '-5' }, '', { name: 'Error' }],
    [503, { 'retry-after': '30' }, LARGE, { name: 'RetryAfterError', retryAfterMs: 30_000 }],
    [503, {}, '', { name: 'Error' }],
    [429, {}, '', { name: 'Error' }],
    [500, {}, 'oops', { name: 'Error', message: 'the server answered 500: oops' }],
    [404, {}, '', { name: 'Error' }],
    [302, { location: 'http://example.invalid/' }, '', { name: 'Error' }],
    [200, {}, 'no JSON', { name: 'PermanentError' }],
    [200, {}, LARGE, { name: 'PermanentError', message: expect.stringContaining('262144 bytes') }],
    [
      200,
      {},
      'x'.repeat(68_000_000),
      { name: 'PermanentError', message: expect.stringContaining('262144 bytes') },
    ],
    [
      422,
      {},
      LARGE,
      { name: 'PermanentError', message: expect.stringMatching(/^the server answered 422: "x/) },
    ],
    [500, {}, LARGE, { name: 'Error', message: expect.stringMatching(/^the server answered 500: "x/) }],
  ])('that is answered %i %o ends so', async (status, headers, body, error) => {
    const { url } = await listening((_, answer) => answer.writeHead(status, headers).end(body));
    const forwarder = await forwarderTo(url);
    expect(await errorOf(forwarder.forward(1, anAttempt()))).toMatchObject(error);
  });

  it.each([
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\n\r\n',
  ])('that is answered %j ends as with any other status', async (answered) => {
    const { url } = await listening((asked) => asked.socket.write(answered));
    const forwarder = await forwarderTo(url);
    expect(await errorOf(forwarder.forward(1, anAttempt()))).toMatchObject({
      name: 'Error',
      message: 'the server answered 101: ',
    });
  });

  const NOW_OPENAI = { 'retry-after': '30', 'fairlead-limit': 'openai' };
  it.each<readonly [string, readonly string[], Record<string, string>, object]>([
    [
      'the only limit',
      ['openai'],
      { 'retry-after': '30' },
      { restMs: 30_000, limit: 'openai', key: undefined },
    ],
    [
      "the job's key of the only limit",
      ['openai'],
      { 'retry-after': '30', 'fairlead-limit-key': 'own' },
      { limit: 'openai', key: true },
    ],
    ['the limit that it names', ['org', 'openai'], NOW_OPENAI, { limit: 'openai', key: undefined }],
    [
      "the job's key of the limit that it names",
      ['org', 'openai'],
      { ...NOW_OPENAI, 'fairlead-limit-key': 'own' },
      { limit: 'openai', key: true },
    ],
    ['the limit for a day at most', ['openai'], { 'retry-after': '999999' }, { restMs: 86_400_000 }],
    [
      'the whole limit, by another key',
      ['openai'],
      { ...NOW_OPENAI, 'fairlead-limit-key': 'acme' },
      { key: undefined },
    ],
  ])('that is answered 429 lets %s rest', async (_, limits, headers, error) => {
    for (const status of [429, 503]) {
      const { url } = await listening((_asked, answer) => answer.writeHead(status, headers).end('busy'));
      const forwarder = await forwarderTo(url);
      expect(await errorOf(forwarder.forward(1, anAttempt({ limits })))).toMatchObject({
        name: 'CooldownError',
        message: `the server answered ${status}: busy`,
        ...error,
      });
    }
  });

  it.each<readonly [string, readonly string[], Record<string, string>, RegExp]>([
    ['of several limits names none', ['org', 'openai'], { 'retry-after': '30' }, /answered 429: $/],
    ['is under none', [], { 'retry-after': '30' }, /answered 429: $/],
    [
      'is under others than it names',
      ['org'],
      NOW_OPENAI,
      /names the limit openai, not one of type .*, which is under org$/,
    ],
    [
      'is under none and it names one',
      [],
      NOW_OPENAI,
      /names the limit openai, not one of type .*, which is under none$/,
    ],
  ])('whose type %s is tried again, and counts', async (_, limits, headers, message) => {
    const { url } = await listening((_asked, answer) => answer.writeHead(429, headers).end());
    const forwarder = await forwarderTo(url);
    expect(await errorOf(forwarder.forward(1, anAttempt({ limits })))).toMatchObject({
      name: 'RetryAfterError',
      retryAfterMs: 30_000,
      message: expect.stringMatching(message),
    });
  });

  it.each([
    [204, ''],
    [200, ''],
    [200, 'null'],
  ])('that is answered %i %s has no result', async (status, body) => {
    const { url } = await listening((_, answer) => answer.writeHead(status).end(body));
    expect(await (await forwarderTo(url)).forward(1, anAttempt())).toBeNull();
  });

  it('that is cancelled closes its connection', async () => {
    const closed = Promise.withResolvers<void>();
    const arrived = Promise.withResolvers<void>();
    const { url } = await listening((asked) => {
      asked.socket.once('close', () => closed.resolve());
      arrived.resolve();
    });
    const cancelled = new AbortController();
    const running = errorOf((await forwarderTo(url)).forward(1, anAttempt({ signal: cancelled.signal })));
    await arrived.promise;
    cancelled.abort(new AttemptError('JobCancelled', 'cancelled'));
    expect(await running).toMatchObject({ name: 'AttemptError', reason: 'JobCancelled' });
    await closed.promise;
  });

  it('whose server breaks the connection is tried again by the rules of its type', async () => {
    const { url } = await listening((asked) => asked.socket.destroy());
    expect(await errorOf((await forwarderTo(url)).forward(1, anAttempt()))).toMatchObject({
      name: 'Error',
      message: expect.stringContaining('gave no answer'),
    });
  });

  it('waits for a server that starts again, which has seen nothing of it', async () => {
    const { url, server } = await listening(() => undefined);
    server.close();
    await once(server, 'close');
    const running = (await forwarderTo(url)).forward(1, anAttempt());
    const again = createServer((_, answer) => answer.end('2')).listen(Number(new URL(url).port), '127.0.0.1');
    later(() => again.close());
    expect(await running).toBe(2);
  });

  it('stays on this machine', () => {
    for (const url of [
      'http://10.0.0.1:8080',
      'http://example.com',
      'https://127.0.0.1',
      'http://127.evil.com',
      '8080',
      '',
    ])
      expect(() => forwardUrl(url), url).toThrow('must be the URL of a server on this machine');
    for (const url of ['http://127.0.0.1:8080', 'http://localhost:1', 'http://[::1]:8080/base'])
      expect(forwardUrl(url)).toBeInstanceOf(URL);
  });
});

describe('a server that calls back', () => {
  it('reports progress and stores checkpoints, and reads the last one', async () => {
    const { url } = await listening(async (asked, answer) => {
      const callback = String(asked.headers['fairlead-callback']);
      const before = await (await fetch(`${callback}/checkpoint`)).json();
      const sent = [
        await post(`${callback}/progress`, { done: 1 }),
        await post(`${callback}/checkpoint`, [2]),
      ];
      answer.end(JSON.stringify([before, ...sent.map(({ status }) => status)]));
    });
    const attempt = anAttempt({ lastCheckpoint: { at: 1 } });
    expect(await (await forwarderTo(url)).forward(1, attempt)).toEqual([{ checkpoint: { at: 1 } }, 204, 204]);
    expect(attempt).toMatchObject({ progress: [{ done: 1 }], checkpoints: [[2]] });
  });

  it('changes nothing late, twice over, with a wrong token, or under another name', async () => {
    const callbacks: string[] = [];
    const { url } = await listening((asked, answer) => {
      callbacks.push(String(asked.headers['fairlead-callback']));
      answer.end('1');
    });
    const forwarder = await forwarderTo(url);
    const [late, other] = [anAttempt(), anAttempt({ id: 'job-2' })];
    await forwarder.forward(1, late);
    const [callback = ''] = callbacks;
    for (const tried of [
      callback,
      callback,
      `${callback.slice(0, -4)}AAAA`,
      `${new URL(callback).origin}/attempts/`,
    ])
      expect([404, 410]).toContain((await post(`${tried}/checkpoint`, 1)).status);
    const rebound = request(`${callback}/checkpoint`, {
      method: 'POST',
      headers: { host: 'evil.example' },
    }).end('1');
    const [answer] = (await once(rebound, 'response')) as [IncomingMessage];
    answer.resume();
    expect(answer.statusCode).toBe(403);
    expect([late, other].map(({ progress, checkpoints }) => [progress, checkpoints])).toEqual([
      [[], []],
      [[], []],
    ]);
  });

  it('is told when its attempt has lost the job, and when its data are refused', async () => {
    const reasons = ['JobSuperseded', 'CheckpointRefused'] as const;
    const statuses: number[] = [];
    const { url } = await listening(async (asked, answer) => {
      const callback = String(asked.headers['fairlead-callback']);
      for (const body of ['1', '2', 'no JSON'])
        statuses.push((await fetch(`${callback}/checkpoint`, { method: 'POST', body })).status);
      for (const bytes of [140_000, 5_000_000])
        statuses.push((await post(`${callback}/checkpoint`, 'x'.repeat(bytes))).status);
      answer.end('1');
    });
    let at = 0;
    const checkpoint = (): Promise<void> => {
      const reason = reasons[at] ?? 'JobSuperseded';
      at += 1;
      return Promise.reject(new AttemptError(reason, reason));
    };
    await (await forwarderTo(url)).forward(1, anAttempt({ checkpoint }));
    expect(statuses).toEqual([410, 422, 422, 422, 422]);
  });
});

describe('the example in Python', () => examplesOf('python'));

it('finds a server that does not conform', async () => {
  const { url } = await listening((_, answer) => answer.end('1'));
  const begun: string[] = [];
  const checks = await checkWorker(url, 'any', {}, (promise) => begun.push(promise));
  expect(begun).toEqual(checks.map(({ promise }) => promise));
  expect(checks.filter(({ failure }) => failure !== undefined).map(({ promise }) => promise)).toEqual([
    'a type that the server does not run is not answered as a success',
  ]);
});
