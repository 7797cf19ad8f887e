/** Requests of a client that reaches the scheduler by HTTP (docs/openapi.json), and their errors. */
import {
  ConfigurationError,
  MisconfiguredError,
  RefusedError,
  reasonOf,
  ThrottledError,
  UnavailableError,
  ValidationError,
} from '../core/errors.ts';
import type { JobState, Json } from '../core/job.ts';
import { HTTP_BODY_BYTES_MAX } from '../core/json.ts';
import { MalformedItemError } from '../store/contract/errors.ts';
import { type CallKind, withSignal } from './calls.ts';
import { BacklogFullError, ConflictError, JobStateError, NotFoundError, WaitTimeoutError } from './errors.ts';

/** One request to the server. */
export interface RemoteRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  /** As `queryText` takes it. */
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly actor?: string | undefined;
  /** The argument of the verb whose fields stand at the top of the request. */
  readonly argument?: 'filter' | 'change' | 'options';
  /** How long the server may wait before it answers. */
  readonly waitMs?: number;
}

export interface RemoteAnswer {
  readonly status: number;
  // The server is of this package, and its document says what each answer holds.
  readonly body: Readonly<Record<string, unknown>>;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** How often a request that only reads is tried. */
const READ_TRIES = 3;

export class Remote {
  readonly #url: string;
  readonly #fetch: Fetch;
  readonly #timeoutMs: number;

  /**
   * Takes the server's URL.
   * @throws ValidationError - it is no URL
   */
  constructor(url: string, timeoutMs: number, fetchFrom: Fetch = fetch) {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      throw new ValidationError('FAIRLEAD_URL', `must be the URL of a server, not ${JSON.stringify(url)}`);
    this.#url = url.replace(/\/+$/, '');
    this.#fetch = fetchFrom;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Sends a request and returns the answer.
   * @throws what the verb on the server throws, and UnavailableError if it gives no answer
   */
  async ask(request: RemoteRequest): Promise<RemoteAnswer> {
    const doing: CallKind = request.method === 'GET' ? 'look' : 'change';
    for (let tried = 1; ; tried += 1) {
      try {
        return await withSignal(request.signal, () => this.#once(request), doing);
      } catch (error) {
        if (!(error instanceof UnavailableError) || doing === 'change' || tried === READ_TRIES) throw error;
      }
    }
  }

  async #once(request: RemoteRequest): Promise<RemoteAnswer> {
    const { method, path, query = {}, body = {}, signal, actor, argument, waitMs = 0 } = request;
    const timeout = AbortSignal.timeout(this.#timeoutMs + waitMs);
    const sent = method === 'GET' ? undefined : JSON.stringify(body);
    const bytes = Buffer.byteLength(sent ?? '');
    if (bytes > HTTP_BODY_BYTES_MAX)
      throw new RefusedError(
        `the request has ${bytes} bytes, and the server of FAIRLEAD_URL takes at most ${HTTP_BODY_BYTES_MAX}; send less`,
      );
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(`${this.#url}${path}${queryText(query)}`, {
        method,
        headers: {
          ...(method === 'GET' ? {} : { 'content-type': 'application/json' }),
          ...(actor === undefined ? {} : { 'fairlead-actor': encodeURIComponent(actor) }),
        },
        ...(sent === undefined ? {} : { body: sent }),
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
      text = await response.text();
    } catch (cause) {
      throw new UnavailableError(
        `${this.#url} gave no answer (${reasonOf(cause)}); check FAIRLEAD_URL, and that its server runs`,
        { cause },
      );
    }
    const parsed = recordIn(text);
    if (response.ok && parsed !== undefined) return { status: response.status, body: parsed };
    throw parsed === undefined
      ? new UnavailableError(
          `${this.#url} answered with status ${response.status} and no document; check that FAIRLEAD_URL is the URL of a scheduler`,
        )
      : errorOf(parsed, argument, response.status);
  }
}

/** The most jobs of one request. */
export const BATCH = 1_000;
/** The bytes of a body besides its jobs, and the commas between these. */
const FRAME_BYTES = 64 + BATCH;
/** The most bytes of the jobs of one request. */
const BATCH_BYTES = HTTP_BODY_BYTES_MAX - FRAME_BYTES;
const bytesOf = (request: Json): number => Buffer.byteLength(JSON.stringify(request));

/** @throws ValidationError - no request that the server takes has room for this job */
export function requireOneRequest(job: Json): void {
  const bytes = bytesOf(job);
  if (bytes > BATCH_BYTES)
    throw new ValidationError(
      'payload',
      `makes a request of ${bytes} bytes, and a server of FAIRLEAD_URL takes at most ${BATCH_BYTES}; store it elsewhere and send a reference`,
    );
}

/** Yields the requests in batches that the server takes. */
export function* batchesOf(requests: readonly Json[]): Generator<readonly Json[]> {
  let batch: Json[] = [];
  let bytes = 0;
  for (const request of requests) {
    const own = bytesOf(request);
    if (batch.length === BATCH || (batch.length > 0 && bytes + own > BATCH_BYTES)) {
      yield batch;
      batch = [];
      bytes = 0;
    }
    batch.push(request);
    bytes += own;
  }
  if (batch.length > 0) yield batch;
}

function recordIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null
      ? (value as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    // This is the page of a proxy, not the server's answer.
    return undefined;
  }
}

/** The query of a request: absent values are left out, `tags` become one `tag` for each of their names, and other objects JSON. */
export function queryText(query: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(query).flatMap(([name, value]): [string, string][] => {
    if (value === undefined) return [];
    if (typeof value !== 'object' || value === null) return [[name, String(value)]];
    if (name !== 'tags') return [[name, JSON.stringify(value)]];
    return Object.entries(value).map(([tag, of]) => ['tag', `${tag}=${String(of)}`]);
  });
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`;
}

const textIn = (problem: Readonly<Record<string, unknown>>, name: string): string | undefined => {
  const value = problem[name];
  return typeof value === 'string' ? value : undefined;
};

const numberIn = (problem: Readonly<Record<string, unknown>>, name: string): number | undefined => {
  const value = problem[name];
  return typeof value === 'number' ? value : undefined;
};

/** Fields of problems that are not fields of a verb's argument. */
const OWN_FIELDS: readonly string[] = ['', 'actor', 'limit', 'cursor', 'dryRun', 'filter', 'scope'];

/**
 * The error of the class that the problem document names, as the verb on the server threw it.
 *
 * @param status - that of the answer, for a document without one
 */
export function errorOf(
  problem: Readonly<Record<string, unknown>>,
  argument?: RemoteRequest['argument'],
  status = 500,
): Error {
  // A function URL, or what else stands before the server, gives its reason in `Message`.
  const detail =
    textIn(problem, 'detail') ??
    `the server refused the request with status ${status} (${textIn(problem, 'Message') ?? 'it gave no reason'}); check the credentials and their rights`;
  const [jobId, scheduleId, eventId, scope] = ['jobId', 'scheduleId', 'eventId', 'scope'].map((name) =>
    textIn(problem, name),
  );
  const state = textIn(problem, 'state') as JobState | undefined;
  const ids = {
    ...(jobId === undefined ? {} : { jobId }),
    ...(scheduleId === undefined ? {} : { scheduleId }),
  };
  switch (textIn(problem, 'title')) {
    case 'ValidationError':
      return validationError(textIn(problem, 'field') ?? '', detail, argument);
    case 'ConfigurationError':
      return new ConfigurationError(textIn(problem, 'field') ?? '', undefined, detail, '');
    case 'NotFoundError':
      return new NotFoundError({ ...ids, ...(eventId === undefined ? {} : { eventId }) });
    case 'ConflictError':
      return new ConflictError(detail, { ...ids, ...(scope === undefined ? {} : { scope }) });
    case 'BacklogFullError':
      return new BacklogFullError(detail, {
        jobType: textIn(problem, 'jobType') ?? '',
        fairnessKey: textIn(problem, 'fairnessKey'),
        waiting: numberIn(problem, 'waiting') ?? 0,
        maxWaiting: numberIn(problem, 'maxWaiting') ?? 0,
        retryAfterMs: numberIn(problem, 'retryAfterMs') ?? 0,
      });
    case 'JobStateError':
      return new JobStateError({ id: jobId ?? '', state: state ?? 'pending' }, detail.replace(/^.*?; /, ''));
    case 'WaitTimeoutError':
      return new WaitTimeoutError(detail, {
        timeoutMs: numberIn(problem, 'timeoutMs') ?? 0,
        running: numberIn(problem, 'running'),
        scope,
        jobId,
        state,
      });
    case 'MalformedItemError':
      return new MalformedItemError('', '', detail);
    case 'RefusedError':
      return new RefusedError(detail);
    case 'ThrottledError':
      return new ThrottledError(detail);
    case 'UnavailableError':
    case 'AbortError':
      return new UnavailableError(detail);
    case 'MisconfiguredError':
    case 'EnvironmentError':
      return new MisconfiguredError(detail);
    default:
      return byStatus(numberIn(problem, 'status') ?? status, detail);
  }
}

function validationError(
  field: string,
  detail: string,
  argument: RemoteRequest['argument'],
): ValidationError {
  const reason = field !== '' && detail.startsWith(`${field}: `) ? detail.slice(field.length + 2) : detail;
  const [first = ''] = field.split(/[.[]/);
  return new ValidationError(
    argument === undefined || OWN_FIELDS.includes(first) ? field : `${argument}.${field}`,
    reason,
  );
}

/** Returns the error for a problem that names no class, or for the answer of a proxy before the server. */
function byStatus(status: number, detail: string): Error {
  if (status === 413 || status === 414) return new RefusedError(detail);
  if (status === 429) return new ThrottledError(detail);
  if (status >= 500) return new UnavailableError(detail);
  return new MisconfiguredError(detail);
}
