/** Errors as problem documents (RFC 9457): one table says which status each typed error has. */

/** Extension members: what a client needs to throw the same error, and what a program may branch on. */
const MEMBERS = [
  'field',
  'jobId',
  'scheduleId',
  'eventId',
  'scope',
  'state',
  'cancel',
  'running',
  'timeoutMs',
  'jobType',
  'fairnessKey',
  'waiting',
  'maxWaiting',
  'retryAfterMs',
] as const;

/** The body of every answer that is no success, with the media type `application/problem+json`. */
export interface Problem extends Partial<Record<(typeof MEMBERS)[number], string | number>> {
  /** The error on the page of errors; `about:blank` if the status says all. */
  readonly type: string;
  /** The name of the error, as `fairlead/client` exports it; else the phrase of the status. */
  readonly title: string;
  readonly status: number;
  /** The fault, and the way out. */
  readonly detail: string;
}

export const PROBLEM_TYPE = 'application/problem+json';

/** The status of each error that the client's verbs throw. */
const STATUS: Readonly<Record<string, number>> = {
  ValidationError: 400,
  ConfigurationError: 400,
  NotFoundError: 404,
  ConflictError: 409,
  BacklogFullError: 429,
  JobStateError: 409,
  RefusedError: 422,
  ThrottledError: 429,
  MalformedItemError: 500,
  MisconfiguredError: 500,
  EnvironmentError: 500,
  UnavailableError: 503,
  AbortError: 503,
  WaitTimeoutError: 504,
};

/** For how many seconds a caller should leave the server alone, by the status of errors that pass by themselves, unless the error says it. */
const RETRY_AFTER_SEC: Readonly<Record<number, number>> = { 429: 2, 503: 2 };

const PHRASES: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  413: 'Content Too Large',
  414: 'URI Too Long',
  415: 'Unsupported Media Type',
  421: 'Misdirected Request',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  503: 'Service Unavailable',
};

/** Returns a problem document for which the scheduler has no error. */
export const plainProblem = (status: number, detail: string): Problem => ({
  type: 'about:blank',
  title: PHRASES[status] ?? 'Error',
  status,
  detail,
});

/** Returns the problem document of an error. An error that is not the scheduler's own says nothing about itself. */
export function problemOf(error: unknown): Problem {
  const name = error instanceof Error ? error.name : '';
  const status = STATUS[name];
  if (!(error instanceof Error) || status === undefined)
    return plainProblem(500, 'the server failed; its log says why. Report it if it happens again');
  const members = MEMBERS.flatMap((member): readonly (readonly [string, string | number])[] => {
    const value: unknown = Reflect.get(error, member);
    return typeof value === 'string' || typeof value === 'number' ? [[member, value]] : [];
  });
  return {
    type: `docs/errors.md#${name.toLowerCase()}`,
    title: name,
    status,
    detail: error.message,
    ...Object.fromEntries(members),
  };
}

/** Returns the answer to a request that did not succeed. */
export function problemAnswer(problem: Problem, headers: Readonly<Record<string, string>> = {}): Response {
  const { status, retryAfterMs } = problem;
  const retrySec =
    typeof retryAfterMs === 'number' ? Math.ceil(retryAfterMs / 1_000) : RETRY_AFTER_SEC[status];
  return new Response(JSON.stringify(problem), {
    status: problem.status,
    headers: {
      'content-type': PROBLEM_TYPE,
      ...(retrySec === undefined ? {} : { 'retry-after': String(retrySec) }),
      ...headers,
    },
  });
}
