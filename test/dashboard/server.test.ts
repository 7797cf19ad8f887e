/** What the dashboard's server lets in, what it hides, and what its page weighs. */
import { readdir, readFile, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { buildPage } from '../../build-page.ts';
import { maskOf } from '../../lib/dashboard/mask.ts';
import type { DashboardOptions } from '../../lib/dashboard/server.ts';
import { desk } from '../client/desk.ts';
import { served } from './scene.ts';

const folder = join(tmpdir(), `fairlead-page-${process.pid}`);
beforeAll(() => buildPage(folder));
afterAll(() => rm(folder, { recursive: true }));

interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

/** Sends a request exactly as given: `fetch` would choose some headers itself. */
const sent = (
  port: number,
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body = '',
): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const out = request({ host: '127.0.0.1', port, method, path, headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (chunk: string) => {
        text += chunk;
      });
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, text }));
    });
    out.on('error', reject);
    out.end(body);
  });

/** A dashboard, and requests as its page sends them. */
async function visited(own: Partial<DashboardOptions> = {}) {
  const scene = desk();
  const dashboard = await served(scene, folder, own);
  onTestFinished(() => dashboard.close());
  const link = new URL(dashboard.link);
  const port = Number(link.port);
  const token = link.hash.slice(1);
  const fromPage = {
    host: link.host,
    origin: link.origin,
    'content-type': 'application/json',
    'x-fairlead-dashboard': '1',
  };
  const open = (given = token) => sent(port, 'POST', '/session', fromPage, JSON.stringify({ token: given }));
  const cookieOf = (reply: Reply): string => String(reply.headers['set-cookie']).split(';')[0] ?? '';
  const post = (path: string, headers: Readonly<Record<string, string | undefined>>, body: object = {}) => {
    const all = Object.entries({ ...fromPage, ...headers }).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    );
    return sent(port, 'POST', path, Object.fromEntries(all), JSON.stringify(body));
  };
  return { ...scene, port, link, token, fromPage, open, cookieOf, post };
}

describe('a session', () => {
  it('begins once with the token, in a cookie of this port that no script reads', async () => {
    const { open, port, link, cookieOf } = await visited();
    expect((await sent(port, 'GET', '/api/types', { host: link.host })).status).toBe(401);
    expect((await open('x'.repeat(32))).status).toBe(401);
    const opened = await open();
    expect(opened.status).toBe(200);
    expect(String(opened.headers['set-cookie'])).toMatch(
      new RegExp(`^fairlead-${port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Strict$`),
    );
    expect((await open()).status).toBe(401);
    const cookie = cookieOf(opened);
    expect((await sent(port, 'GET', '/api/types', { host: link.host, cookie })).status).toBe(200);
    const forged = `fairlead-${port}=${'x'.repeat(43)}`;
    expect((await sent(port, 'GET', '/api/types', { host: link.host, cookie: forged })).status).toBe(401);
  });

  it('begins any number of times with a token that was given', async () => {
    const { open } = await visited({ token: 'a-token-of-24-characters' });
    expect([(await open()).status, (await open()).status]).toEqual([200, 200]);
  });
});

describe('a request', () => {
  it.each([
    ['another name', { host: 'foreign.test:1' }, 421],
    ['the name without its port', { host: '127.0.0.1' }, 421],
    ['another origin', { origin: 'http://foreign.test' }, 403],
    ['another port of this machine', { origin: 'http://127.0.0.1:1' }, 403],
    ['no origin', { origin: undefined }, 403],
    ['the origin null', { origin: 'null' }, 403],
    ['a page of the same site', { 'sec-fetch-site': 'same-site' }, 403],
    ['no header of the page', { 'x-fairlead-dashboard': undefined }, 403],
    ['a form’s media type', { 'content-type': 'text/plain' }, 415],
    ['no session', { cookie: undefined }, 401],
  ])('with %s changes nothing', async (_, headers, status) => {
    const { post, open, cookieOf, put, job, everything } = await visited({ write: true });
    const cookie = cookieOf(await open());
    const [waiting] = await put(job({ type: 'resize' }));
    const before = everything();
    const reply = await post(`/api/jobs/${waiting?.id}/cancel`, { cookie, ...headers });
    expect([reply.status, everything()]).toEqual([status, before]);
    expect(reply.headers['access-control-allow-origin']).toBeUndefined();
  });

  it('with another method than GET and POST is refused', async () => {
    const { port, fromPage } = await visited({ write: true });
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS'])
      expect((await sent(port, method, '/api/schedules/x', fromPage)).status).toBe(405);
  });

  it('changes nothing without permission, and is recorded under the caller’s name with it', async () => {
    const reader = await visited();
    const [kept] = await reader.put(reader.job({ type: 'resize' }));
    const before = reader.everything();
    const refused = await reader.post(`/api/jobs/${kept?.id}/cancel`, {
      cookie: reader.cookieOf(await reader.open()),
    });
    expect([refused.status, reader.everything()]).toEqual([403, before]);
    const writer = await visited({ write: true });
    const [job] = await writer.put(writer.job({ type: 'resize' }));
    const done = await writer.post(`/api/jobs/${job?.id}/cancel`, {
      cookie: writer.cookieOf(await writer.open()),
      'fairlead-actor': 'another name',
    });
    expect(done.status).toBe(200);
    expect((await writer.client.history(job?.id ?? '')).events.at(-1)).toMatchObject({
      kind: 'cancelled',
      by: 'arn:aws:iam::111122223333:user/ada',
    });
  });
});

describe('the server', () => {
  it.each([
    ['an address that others reach, without a token', { host: '192.0.2.1' }, 'host: can be reached'],
    ['every address', { host: '0.0.0.0', token: 'x'.repeat(24) }, 'host: stands for every address'],
    ['a short token', { token: 'short' }, 'token: must have at least 20'],
  ])('refuses to listen with %s', async (_, own, message) => {
    await expect(served(desk(), folder, own)).rejects.toThrow(message);
  });

  it('sends scripts and styles from files only, and no page into a frame', async () => {
    const { port, link } = await visited();
    for (const path of ['/', '/jobs', '/jobs/some%2Fid', '/failures']) {
      const { status, headers, text } = await sent(port, 'GET', path, { host: link.host });
      expect([status, headers['cache-control'], headers['x-content-type-options']]).toEqual([
        200,
        'no-store',
        'nosniff',
      ]);
      const policy = String(headers['content-security-policy']);
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toMatch(/unsafe|\*|https?:/);
      expect(text).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|style=/);
    }
    for (const path of ['/assets/..%2fserver.ts', '/assets/index.html', '/assets/x.js', '/other'])
      expect((await sent(port, 'GET', path, { host: link.host })).status).toBe(404);
  });

  it('leaves payloads and stacks out of lists, and hides secrets', async () => {
    const { put, job, open, cookieOf, port, link, work } = await visited({ masked: ['iban'] });
    const payload = {
      page: 1,
      api_key: 'k',
      nested: [{ Password: 'p' }],
      IBAN: 'DE1',
      text: 'token=abc next',
    };
    const [waiting] = await put(job({ type: 'report', payload }));
    const cookie = cookieOf(await open());
    const get = async (path: string) =>
      JSON.parse((await sent(port, 'GET', path, { host: link.host, cookie })).text);
    expect((await get(`/api/jobs/${waiting?.id}`)).job.payload).toEqual({
      page: 1,
      api_key: '•••',
      nested: [{ Password: '•••' }],
      IBAN: '•••',
      text: 'token=••• next',
    });
    expect((await get('/api/jobs?state=pending')).jobs[0]).not.toHaveProperty('payload');
    await put(job({ type: 'resize' }));
    const stack = ['E: no', ...Array.from({ length: 30 }, (_, at) => `    at line${at}`)].join('\n');
    await work({ kind: 'failed', error: { name: 'E', message: 'postgres://u:pw@db/x', stack } });
    const [dead] = (await get('/api/dead-letters')).jobs;
    expect(dead.error).toMatchObject({ name: 'E', message: 'postgres://u:•••@db/x' });
    expect(dead.error.stack.split('\n')).toHaveLength(8);
  });
});

describe('hidden secrets', () => {
  it.each([
    ['a word without an end', 'x'.repeat(65_000)],
    ['a name again and again', 'token'.repeat(13_000)],
    ['a name before many blanks', `token${' '.repeat(65_000)}`],
    ['quotes that never close', 'token:"\\x'.repeat(6_500)],
  ])('are looked for in time that grows with the text: %s', (_what, text) => {
    const beganMs = performance.now();
    expect(
      maskOf(['iban', 'my key'])({ payload: text, error: { message: `${text} token=abc` } }),
    ).toMatchObject({
      error: { message: expect.not.stringContaining('abc') },
    });
    expect(performance.now() - beganMs).toBeLessThan(1_000);
  });
});

describe('the page', () => {
  it('weighs at most 45 KB at first, and 75 KB in all, as it is sent', async () => {
    const sizes = await Promise.all(
      (await readdir(folder))
        .filter((name) => !name.endsWith('.txt'))
        .map(async (name) => [name, gzipSync(await readFile(join(folder, name))).byteLength] as const),
    );
    const bytesOf = (of: typeof sizes): number => of.reduce((sum, [, bytes]) => sum + bytes, 0);
    const first = sizes.filter(([name]) => !name.startsWith('chart'));
    expect(first.length).toBeLessThan(sizes.length);
    console.log(`the page: ${bytesOf(first)} bytes at first, ${bytesOf(sizes)} in all`);
    expect(bytesOf(first)).toBeLessThanOrEqual(45 * 1_024);
    expect(bytesOf(sizes)).toBeLessThanOrEqual(75 * 1_024);
  });
});
