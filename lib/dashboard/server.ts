/**
 * The dashboard as a server: the page, and the HTTP protocol for it under `/api`.
 *
 * A connection to the port may come from a page of another site in the same browser. So a request is served
 * only under the exact address of the server, from the page itself, and with the cookie of a session. A session begins
 * with the token of the link that the command prints. The link has the token in its fragment, which no browser sends.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { access, readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { getRequestListener } from '@hono/node-server';
import { type Context, Hono, type MiddlewareHandler } from 'hono';
import { compress } from 'hono/compress';
import { getCookie, setCookie } from 'hono/cookie';
import type { ClientVerbs } from '../client/client.ts';
import { ConfigurationError, show } from '../core/errors.ts';
import type { Json } from '../core/job.ts';
import { httpApp } from '../http/app.ts';
import { plainProblem, problemAnswer } from '../http/problem.ts';
import { jsonOfBody } from '../http/read.ts';
import { forPage } from './for-page.ts';

export interface DashboardOptions {
  /** Carries out what the page asks for: a `SchedulerClient`. */
  readonly client: ClientVerbs;
  /** The name of the person at the page, for the history of the jobs that they change. */
  readonly actor: string;
  /** Whether the page may change anything. @default false */
  readonly write?: boolean | undefined;
  /**
   * The address to listen at, as browsers name it. An address that other machines reach needs a token.
   * @default 127.0.0.1
   */
  readonly host?: string | undefined;
  /**
   * The port.
   * @default - a free one
   */
  readonly port?: number | undefined;
  /** A token of at least 20 characters that opens any number of sessions. @default - a random one, which opens one */
  readonly token?: string | undefined;
  /** Names whose values are hidden, beside `MASKED_NAMES`. */
  readonly masked?: readonly string[] | undefined;
  /** The folder of the built page. @default - that of the package */
  readonly pageFolder?: string | undefined;
  /** Called with an error that is not the scheduler's own. @default - it is thrown away */
  readonly onError?: ((error: unknown) => void) | undefined;
}

export interface Dashboard {
  /** The address with the token: open it in a browser. */
  readonly link: string;
  readonly close: () => Promise<void>;
}

/** The folder of the built page, which `npm run build` fills. */
const PAGE_FOLDER = join(import.meta.dirname, 'static');
const LOOPBACK = ['127.0.0.1', 'localhost', '::1'] as const;
const TOKEN_CHARS_MIN = 20;
/** Milliseconds after which a read is given up, such as a list whose filter matches few of many jobs. */
const READ_MS = 20_000;
const FILES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};
/** Paths of screens, which the page tells apart. */
const SCREENS = ['/', '/jobs', '/jobs/:id', '/keys', '/limits', '/fleets', '/schedules', '/failures'];

const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};
/**
 * The header that the page sends with each POST. A page of another origin cannot send it, because no answer allows it
 * to.
 */
const PAGE_HEADER = 'x-fairlead-dashboard';

/**
 * Serves the dashboard until it is closed.
 * @throws ConfigurationError - the address, the token or the port is wrong
 */
export async function serveDashboard(options: DashboardOptions): Promise<Dashboard> {
  const { host = '127.0.0.1', port = 0, token, pageFolder = PAGE_FOLDER } = options;
  requireHost(host, token);
  await requirePage(pageFolder);
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject(
        new ConfigurationError('port', port, `cannot be listened at (${error.message})`, 'Choose another.'),
      ),
    );
    server.listen(port, host, resolve);
  });
  const address = server.address();
  const bound = typeof address === 'object' && address !== null ? address.port : port;
  const names = isLoopback(host) ? LOOPBACK : [host];
  const hosts = names.map((name) => `${isIP(name) === 6 ? `[${name}]` : name}:${bound}`);
  const door = new Door(bound, token);
  const app = dashboardApp(options, hosts, door);
  server.on('request', getRequestListener(app.fetch));
  const own = `${isIP(host) === 6 ? `[${host}]` : host}:${bound}`;
  return {
    link: `http://${own}/#${door.token}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function requirePage(folder: string): Promise<void> {
  const isBuilt = await access(join(folder, 'index.html')).then(
    () => true,
    () => false,
  );
  if (!isBuilt)
    throw new ConfigurationError('pageFolder', folder, 'holds no page', 'npm run build makes it, in dist.');
}

const isLoopback = (host: string): boolean => LOOPBACK.some((each) => each === host);

function requireHost(host: string, token: string | undefined): void {
  if (token !== undefined && token.length < TOKEN_CHARS_MIN)
    throw new ConfigurationError(
      'token',
      `${token.length} characters`,
      `must have at least ${TOKEN_CHARS_MIN} characters`,
      'openssl rand -hex 24 makes one.',
    );
  if (isLoopback(host)) return;
  if (['0.0.0.0', '::', ''].includes(host))
    throw new ConfigurationError(
      'host',
      host,
      'stands for every address, so that requests under a foreign name could not be told apart',
      'Name the address that browsers use.',
    );
  if (token === undefined)
    throw new ConfigurationError(
      'host',
      host,
      'can be reached from other machines, and no token is given',
      'Give one, or use 127.0.0.1.',
    );
}

/** The token and the sessions that it opened. */
class Door {
  readonly token: string;
  readonly #cookie: string;
  readonly #isLasting: boolean;
  readonly #sessions = new Set<string>();
  #isUsed = false;

  constructor(port: number, token: string | undefined) {
    this.#isLasting = token !== undefined;
    this.token = token ?? randomBytes(24).toString('base64url');
    // Cookies of one host are sent to all its ports.
    this.#cookie = `fairlead-${port}`;
  }

  /** Opens a session for the right token. */
  open(context: Context, token: unknown): boolean {
    if (typeof token !== 'string' || !isSame(token, this.token) || (this.#isUsed && !this.#isLasting))
      return false;
    this.#isUsed = true;
    const session = randomBytes(32).toString('base64url');
    this.#sessions.add(session);
    setCookie(context, this.#cookie, session, { httpOnly: true, sameSite: 'Strict', path: '/' });
    return true;
  }

  isOpen(context: Context): boolean {
    const session = getCookie(context, this.#cookie);
    return session !== undefined && this.#sessions.has(session);
  }
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.byteLength === b.byteLength && timingSafeEqual(a, b);
}

const refusal = (status: number, detail: string): Response => problemAnswer(plainProblem(status, detail));

/** Returns a middleware that refuses requests which do not come from the page itself, under the server's own name. */
const fromPage =
  (hosts: readonly string[]): MiddlewareHandler =>
  async (context, next) => {
    const host = context.req.header('host') ?? '';
    // A site that resolves a name of its own to this address gets nothing.
    if (!hosts.includes(host))
      return refusal(421, `this server is not ${show(host)}; open the link that it printed`);
    const { method } = context.req;
    const isRead = method === 'GET';
    if (!isRead && method !== 'POST') return refusal(405, 'the dashboard takes GET and POST');
    const origin = context.req.header('origin');
    if (isRead ? origin !== undefined && origin !== `http://${host}` : origin !== `http://${host}`)
      return refusal(403, 'the request comes from a page of another origin');
    if (!isRead && context.req.header(PAGE_HEADER) !== '1')
      return refusal(403, `the header ${PAGE_HEADER} is missing`);
    return next();
  };

/**
 * Returns a middleware that refuses requests to the protocol without a session, and those of pages that are not the
 * dashboard.
 */
const withSession =
  (door: Door): MiddlewareHandler =>
  async (context, next) => {
    const site = context.req.header('sec-fetch-site');
    if (site !== undefined && site !== 'same-origin')
      return refusal(403, 'the request comes from a page of another origin');
    if (!door.isOpen(context))
      return refusal(401, 'there is no session; open the link that fairlead dashboard printed');
    return next();
  };

function dashboardApp(options: DashboardOptions, hosts: readonly string[], door: Door): Hono {
  const { client, actor, write = false, onError, pageFolder = PAGE_FOLDER } = options;
  const app = new Hono();
  app.use(async (context, next) => {
    await next();
    for (const [name, value] of Object.entries(HEADERS)) context.res.headers.set(name, value);
    if (!context.res.headers.has('cache-control')) context.res.headers.set('cache-control', 'no-store');
  });
  app.use(fromPage(hosts));
  app.post('/session', async (context) => {
    const given = await jsonOfBody(context.req, ['application/json']).catch(() => undefined);
    const token: unknown = typeof given === 'object' && given !== null ? Reflect.get(given, 'token') : given;
    return door.open(context, token)
      ? context.json({ opened: true })
      : refusal(401, 'the link was used before, or is not of this server; start fairlead dashboard again');
  });
  app.use('/api/*', withSession(door));
  app.get('/api/session', (context) => context.json({ actor, write }));
  const api = httpApp({ client, role: write ? 'operate' : 'read', who: () => actor, onError });
  const shown = forPage(options.masked);
  app.all('/api/*', async (context) => {
    const url = new URL(context.req.url);
    const request = new Request(
      new URL(url.pathname.slice('/api'.length) + url.search, url),
      context.req.raw,
    );
    const isRead = request.method === 'GET';
    const signal = isRead ? AbortSignal.any([request.signal, AbortSignal.timeout(READ_MS)]) : request.signal;
    const answer = await api.fetch(new Request(request, { signal }));
    if (!(answer.headers.get('content-type') ?? '').includes('json')) return answer;
    const body = shown((await answer.json()) as Json);
    return new Response(JSON.stringify(body), { status: answer.status, headers: answer.headers });
  });
  const page = (path: string): Promise<Buffer> => readFile(join(pageFolder, path));
  for (const path of SCREENS)
    app.get(path, async (context) => context.html((await page('index.html')).toString()));
  app.get('/assets/:file', compress(), async (context) => {
    const [, file = '', kind = ''] = /^([\w-]+\.(js|css|svg))$/.exec(context.req.param('file')) ?? [];
    const type = FILES[kind];
    const body = type === undefined ? undefined : await page(file).catch(() => undefined);
    if (type === undefined || body === undefined) return refusal(404, 'the page has no such file');
    return context.body(new Uint8Array(body), 200, { 'content-type': type });
  });
  app.notFound(() => refusal(404, 'the dashboard has no such page'));
  return app;
}
