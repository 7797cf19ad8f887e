/**
 * Handlers that forward each attempt to a server beside the worker, over HTTP, so that jobs can be written in any
 * language: docs/guides/workers-in-any-language.md. The worker claims, renews, guards and finishes; the server only answers.
 */
import { randomBytes } from 'node:crypto';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { retryAfterMs } from '../core/duration.ts';
import { ConfigurationError } from '../core/errors.ts';
import type { Json } from '../core/job.ts';
import { type Body, readBody } from '../runtime/body.ts';
import { systemClock } from '../runtime/system.ts';
import {
  AttemptError,
  CooldownError,
  isAttemptError,
  PermanentError,
  REST_MAX_MS,
  RETRY_AFTER_MAX_MS,
  RetryAfterError,
} from './errors.ts';
import type { JobContext, JobHandler } from './run-job.ts';

/** The part of an attempt's context that the forwarder needs. */
export type ForwardedAttempt = Pick<
  JobContext,
  | 'id'
  | 'type'
  | 'limits'
  | 'attempt'
  | 'fencingToken'
  | 'deadline'
  | 'traceparent'
  | 'signal'
  | 'heartbeat'
  | 'checkpoint'
  | 'lastCheckpoint'
>;

/** The headers of a forwarded attempt. */
export const FORWARD_HEADERS = {
  jobId: 'fairlead-job-id',
  attempt: 'fairlead-attempt',
  fencingToken: 'fairlead-fencing-token',
  deadline: 'fairlead-deadline',
  callback: 'fairlead-callback',
} as const;

/** The headers of an answer 429 or 503 that say what rests until `Retry-After`: a limit, or the job's own key of it. */
const LIMIT_HEADERS = { limit: 'fairlead-limit', key: 'fairlead-limit-key' } as const;
const OWN_KEY = 'own';

/** The most bytes of an answer. A result has at most 64 KB; if it is larger, the worker says so in the job's error. */
const ANSWER_BYTES = 262_144;
/**
 * The most bytes of a request with a checkpoint or progress. Data that fit into it and are still too large are refused
 * by the worker in its own words.
 */
const CALLBACK_BYTES = 131_072;
/** How long a server that refuses connections may take to start again, before the attempt counts as failed. */
const CONNECT_WITHIN_MS = 10_000;
const CONNECT_AGAIN_MS = 200;
/** The most characters of an answer that become the message of the job's error. */
const MESSAGE_CHARS = 1_000;

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Reads the URL of the server.
 * @throws ConfigurationError - it is no URL, or the server is on another machine, to which payloads would go
 * unprotected
 */
export function forwardUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === 'http:' && LOOPBACK.test(url.hostname)) return url;
  throw new ConfigurationError(
    'forward',
    text,
    'must be the URL of a server on this machine',
    'Write one such as http://127.0.0.1:8080, and run the worker beside the server, as a sidecar.',
  );
}

interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Body;
}

/** Forwards attempts to one server, and takes their progress and checkpoints. */
export class Forwarder {
  readonly #url: URL;
  readonly #attempts = new Map<string, ForwardedAttempt>();
  readonly #server: Server;

  constructor(url: URL) {
    this.#url = url;
    this.#server = createServer((request, response) => void this.#calledBack(request, response));
  }

  /** Listens for progress and checkpoints, on this machine only. */
  async listen(port = 0): Promise<void> {
    const listening = Promise.withResolvers<void>();
    this.#server.once('error', listening.reject).listen(port, '127.0.0.1', listening.resolve);
    await listening.promise;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** The handler of every type: it forwards the attempt. */
  readonly handler: JobHandler = (payload, context) => this.forward(payload, context);

  /**
   * Sends the attempt to the server, and answers its result.
   * @throws PermanentError - status 422
   * @throws CooldownError - status 429 or 503 with `Retry-After`, and the type is under the limit that the answer names, or
   * under one limit only
   * @throws RetryAfterError - status 429 or 503 with `Retry-After` otherwise
   * @throws Error - any other status, or the connection broke: the type's retry policy decides
   */
  async forward(payload: Json, attempt: ForwardedAttempt): Promise<Json> {
    const token = randomBytes(24).toString('base64url');
    this.#attempts.set(token, attempt);
    try {
      return resultOf(await this.#sent(payload, attempt, token), attempt);
    } finally {
      this.#attempts.delete(token);
    }
  }

  /**
   * Sends the request, and sends it again while the server takes no connections: then the server has seen nothing of
   * the attempt.
   */
  async #sent(payload: Json, attempt: ForwardedAttempt, token: string): Promise<Answer> {
    const untilMs = systemClock.monotonicMs() + CONNECT_WITHIN_MS;
    for (;;) {
      attempt.signal.throwIfAborted();
      try {
        return await this.#once(payload, attempt, token);
      } catch (error) {
        attempt.signal.throwIfAborted();
        const isRefused = error instanceof Error && Reflect.get(error, 'code') === 'ECONNREFUSED';
        if (!isRefused || systemClock.monotonicMs() >= untilMs)
          throw new Error(`the server at ${this.#url.origin} gave no answer: ${String(error)}`, {
            cause: error,
          });
        await systemClock.sleep(CONNECT_AGAIN_MS, attempt.signal);
      }
    }
  }

  #once(payload: Json, attempt: ForwardedAttempt, token: string): Promise<Answer> {
    const { id, type, fencingToken, deadline, traceparent, signal } = attempt;
    const { port } = this.#server.address() as AddressInfo;
    const answered = Promise.withResolvers<Answer>();
    const base = this.#url.href.replace(/\/+$/, '');
    const body = JSON.stringify(payload);
    // This is not `fetch`, which gives a server five minutes for an answer. Every attempt has a connection of its own.
    // It is closed when the attempt ends, and the server sees that.
    const request = httpRequest(`${base}/jobs/${encodeURIComponent(type)}`, {
      method: 'POST',
      agent: false,
      signal,
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        [FORWARD_HEADERS.jobId]: encodeURIComponent(id),
        [FORWARD_HEADERS.attempt]: String(attempt.attempt),
        [FORWARD_HEADERS.fencingToken]: String(fencingToken),
        [FORWARD_HEADERS.deadline]: deadline.toISOString(),
        [FORWARD_HEADERS.callback]: `http://127.0.0.1:${port}/attempts/${token}`,
        ...(traceparent === undefined ? {} : { traceparent }),
      },
    });
    request.once('error', answered.reject);
    const answer = ({ statusCode: status = 0, headers }: IncomingMessage, body: Body): void =>
      answered.resolve({ status, headers, body });
    request.once('response', (response) => {
      readBody(response, ANSWER_BYTES).then((body) => answer(response, body), answered.reject);
    });
    // Node.js gives the connection of an answer 101 away, and tells of neither a response nor an error.
    request.once('upgrade', (response, socket) => {
      socket.destroy();
      answer(response, NO_BODY);
    });
    request.end(body);
    return answered.promise;
  }

  /** Takes progress and checkpoints of attempts that run. */
  async #calledBack(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const end = (status: number, body?: object): void => {
      response.writeHead(status, body === undefined ? {} : { 'content-type': 'application/json' });
      response.end(body === undefined ? undefined : JSON.stringify(body));
    };
    try {
      const { port } = this.#server.address() as AddressInfo;
      // A page of another site, whose name leads here, cannot name this host.
      if (request.headers.host !== `127.0.0.1:${port}`) return end(403, { detail: 'call 127.0.0.1' });
      const [, token = '', what = ''] = /^\/attempts\/([\w-]+)\/(\w+)$/.exec(request.url ?? '') ?? [];
      const attempt = this.#attempts.get(token);
      if (attempt === undefined) return end(410, { detail: 'this attempt is over; stop working on it' });
      if (request.method === 'GET' && what === 'checkpoint')
        return attempt.lastCheckpoint === undefined
          ? end(204)
          : end(200, { checkpoint: attempt.lastCheckpoint });
      if (request.method !== 'POST') return end(405, { detail: 'use POST, or GET for the last checkpoint' });
      const data: unknown = JSON.parse(wholeOf(await readBody(request, CALLBACK_BYTES), CALLBACK_BYTES));
      // The attempt may have ended while its body arrived.
      if (!this.#attempts.has(token)) return end(410, { detail: 'this attempt is over; stop working on it' });
      if (what === 'progress') attempt.heartbeat(data);
      else if (what === 'checkpoint') await attempt.checkpoint(data);
      else return end(404, { detail: 'there are progress and checkpoint' });
      end(204);
    } catch (error) {
      if (response.headersSent) return void response.destroy();
      if (isAttemptError(error, 'JobSuperseded')) return end(410, { detail: error.message });
      const isTheirs = [AttemptError, PermanentError, SyntaxError].some((kind) => error instanceof kind);
      if (isTheirs) return end(422, { detail: String(error) });
      end(503, { detail: String(error) });
    }
  }
}

const NO_BODY: Body = { bytes: Buffer.alloc(0), isWhole: true, size: '0 bytes' };

function wholeOf({ bytes, isWhole }: Body, bytesMax: number): string {
  if (isWhole) return bytes.toString();
  throw new PermanentError(`the body has more than ${bytesMax} bytes; store large data elsewhere`);
}

const headerOf = ({ headers }: Answer, name: string): string | undefined => {
  const value = headers[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
};

/** Returns the result that the answer has, or throws the error that it stands for. @throws PermanentError, CooldownError, RetryAfterError, Error */
function resultOf(answer: Answer, attempt: ForwardedAttempt): Json {
  const { status, headers, body } = answer;
  if (status === 204 || (status === 200 && body.bytes.length === 0)) return null;
  if (status === 200) return jsonIn(wholeOf(body, ANSWER_BYTES));
  const message = `the server answered ${status}: ${body.bytes.toString().slice(0, MESSAGE_CHARS).toWellFormed()}`;
  if (status === 422) throw new PermanentError(message);
  const waitMs =
    status === 429 || status === 503 ? retryAfterMs({ headers }, systemClock.nowMs()) : undefined;
  if (waitMs !== undefined) throw laterError(Math.min(waitMs, RETRY_AFTER_MAX_MS), message, answer, attempt);
  throw new Error(message);
}

/**
 * The error of an attempt that is to be made later. What rests is the limit that the answer names; without a name, the
 * type's only one. An answer that names a limit of another type lets nothing rest, which no job of this type would obey.
 */
function laterError(
  waitMs: number,
  message: string,
  answer: Answer,
  { type, limits }: ForwardedAttempt,
): Error {
  const limit = headerOf(answer, LIMIT_HEADERS.limit) ?? (limits.length === 1 ? limits[0] : undefined);
  if (limit === undefined) return new RetryAfterError(waitMs, { message });
  if (!limits.includes(limit)) {
    const known = limits.length === 0 ? 'which is under none' : `which is under ${limits.join(', ')}`;
    return new RetryAfterError(waitMs, {
      message: `${message}; it names the limit ${limit.slice(0, MESSAGE_CHARS)}, not one of type ${type}, ${known}`,
    });
  }
  return new CooldownError(Math.min(waitMs, REST_MAX_MS), {
    limit,
    ...(headerOf(answer, LIMIT_HEADERS.key) === OWN_KEY ? { key: true } : {}),
    message,
  });
}

function jsonIn(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new PermanentError('the server answered 200 with a body that is not JSON', { cause });
  }
}
