/** `fairlead/http`: the scheduler as one Hono app, served alone or inside another one. */
import { type Context, Hono } from 'hono';
import type { ClientVerbs } from '../client/client.ts';
import { API_ROLES, type ApiRole } from '../core/api-roles.ts';
import { ConfigurationError, show, ValidationError } from '../core/errors.ts';
import { type Check, isFunction, objectOf, readChoice, wholeWithin } from '../core/read-fields.ts';
import { type EventSource, type IngestEvents, OutcomeStreams, outcomeQuery, putEvents } from './events.ts';
import { openApiDocument } from './openapi.ts';
import { type Operation, PRODUCERS } from './operation.ts';
import { OPERATIONS } from './operations.ts';
import { plainProblem, problemAnswer, problemOf } from './problem.ts';
import { HTTP_LIMITS, HttpRefusal, jsonOfBody, parsedBy, queryOf, refuseProto } from './read.ts';

export type { ClientVerbs } from '../client/client.ts';
export type { ApiRole } from '../core/api-roles.ts';
export type { EventSource, IngestEvents } from './events.ts';
export type { Problem } from './problem.ts';

export interface HttpAppOptions {
  /** Carries out the operations: a `SchedulerClient`. */
  readonly client: ClientVerbs;
  /**
   * The role of the callers: they may do what the construct's grant of that name allows; anything else is refused with status 403. `read` looks, and
   * changes nothing; `submit` submits jobs, and reads, moves and cancels them by id; `operate` does everything.
   * @default operate
   */
  readonly role?: ApiRole | undefined;
  /**
   * Returns the name of a request's caller, for the history of the jobs that it changes.
   * @default - the header `fairlead-actor`, which callers choose themselves
   */
  readonly who?: ((context: Context) => string | undefined | Promise<string | undefined>) | undefined;
  /**
   * The longest wait of one request, in milliseconds. It must be shorter than the timeouts of what stands before the
   * app: 1 ms to 15 minutes.
   * @default 20,000
   */
  readonly waitMs?: number | undefined;
  /** The source of outcomes. @default - `GET /events` answers 501 */
  readonly events?: EventSource | undefined;
  /** Takes requests as events. @default - `POST /events` answers 501 */
  readonly ingest?: IngestEvents | undefined;
  /** Called with an error that is not the scheduler's own. @default - it is thrown away */
  readonly onError?: ((error: unknown) => void) | undefined;
}

const WAIT_MS = 20_000;
/** As long as Lambda lets a function wait; few proxies wait as long. */
const WAIT_MAX_MS = 15 * 60_000;

const having =
  (verb: string, what: string, wayOut: string): Check =>
  (field, value) => {
    if (typeof value === 'object' && value !== null && typeof Reflect.get(value, verb) === 'function') return;
    throw new ConfigurationError(field, value, `must be ${what}`, wayOut);
  };

const isClient = having('submit', 'a SchedulerClient', 'Make it with SchedulerClient.fromEnvironment().');
const CHECKS: Readonly<Record<keyof HttpAppOptions, Check>> = {
  client: isClient,
  role: (field, value) => void readChoice(field, value, API_ROLES, 'operate'),
  who: isFunction,
  waitMs: wholeWithin(1, WAIT_MAX_MS, `Leave it out for ${WAIT_MS}.`),
  events: having('subscribe', 'a source of events, with subscribe', 'Leave it out.'),
  ingest: isFunction,
  onError: isFunction,
};

const READERS: readonly ApiRole[] = ['read', 'operate'];
const JSON_TYPE = 'application/json';
/** The media type of the AWS SDKs. */
const AMZ_TYPE = 'application/x-amz-json-1.1';
const ACTOR_HEADER = 'fairlead-actor';

/**
 * The app. It has no authentication of its own: put yours in front of it.
 *
 * @example app.route('/jobs-api', httpApp({ client: SchedulerClient.fromEnvironment() }));
 * @throws ConfigurationError - an option is wrong
 */
export function httpApp(options: HttpAppOptions): Hono {
  objectOf(CHECKS)('options', options);
  isClient('options.client', options.client);
  const app = new Hono();
  for (const operation of OPERATIONS)
    app.on(
      operation.method.toUpperCase(),
      honoPath(operation.path),
      guarded(options, (context) => answer(options, operation, context)),
    );
  addEvents(app, options);
  const document = JSON.stringify(openApiDocument());
  app.get('/openapi.json', (context) => context.body(document, 200, { 'content-type': JSON_TYPE }));
  refuseOthers(app);
  return app;
}

const honoPath = (path: string): string => path.replace('{id}', ':id');

/** Returns a handler that answers a problem document for everything that the given one throws. */
const guarded =
  ({ onError }: HttpAppOptions, handler: (context: Context) => Promise<Response>) =>
  async (context: Context): Promise<Response> => {
    try {
      const { pathname, search } = new URL(context.req.url);
      if (pathname.length + search.length > HTTP_LIMITS.urlChars)
        throw new HttpRefusal(414, `a path with its query has at most ${HTTP_LIMITS.urlChars} characters`);
      return await handler(context);
    } catch (error) {
      if (error instanceof HttpRefusal) return problemAnswer(error.problem);
      const problem = problemOf(error);
      // A caller that hangs up within its body is no error of the server.
      if (problem.type === 'about:blank' && !context.req.raw.signal.aborted) onError?.(error);
      return problemAnswer(problem);
    }
  };

function addEvents(app: Hono, options: HttpAppOptions): void {
  const { events, ingest, role = 'operate' } = options;
  const streams = events === undefined ? undefined : new OutcomeStreams(events);
  app.get(
    '/events',
    guarded(options, async (context) => {
      requireRole(options.role ?? 'operate', READERS);
      if (streams === undefined)
        throw new HttpRefusal(
          501,
          'this server has no stream of outcomes; wait for jobs with POST /jobs/wait, or let a rule of the bus send their outcomes to a queue',
        );
      return streams.open(context, parsedBy(outcomeQuery, queryOf(context.req, outcomeQuery)));
    }),
  );
  const put = async (context: Context): Promise<Response> => {
    if (ingest === undefined)
      throw new HttpRefusal(
        501,
        'this server takes no events; put them on the bus, or submit with POST /jobs',
      );
    requireRole(role, PRODUCERS);
    const body = await jsonOfBody(context.req, [JSON_TYPE, AMZ_TYPE]);
    return context.json(await putEvents(ingest, body, Date.now()));
  };
  app.post('/events', guarded(options, put));
  // An AWS SDK whose endpoint is this server names the call in a header.
  app.post(
    '/',
    guarded(options, (context) => {
      if (context.req.header('x-amz-target') !== 'AWSEvents.PutEvents') throw unknownPath();
      return put(context);
    }),
  );
}

const unknownPath = (): HttpRefusal =>
  new HttpRefusal(404, 'no operation has this path; GET /openapi.json lists them');

/** Answers requests with another method of a known path, and with an unknown path. */
function refuseOthers(app: Hono): void {
  const byPath = Map.groupBy(OPERATIONS, ({ path }) => path);
  const methods = new Map([
    ...[...byPath].map(([path, of]) => [path, of.map(({ method }) => method.toUpperCase())] as const),
    ['/events', ['GET', 'POST']] as const,
    ['/openapi.json', ['GET']] as const,
  ]);
  for (const [path, allowed] of methods)
    app.all(honoPath(path), () =>
      problemAnswer(plainProblem(405, `this path takes ${allowed.join(' and ')}; use one of them`), {
        allow: allowed.join(', '),
      }),
    );
  // This is not `notFound`, which an app that mounts this one would not call.
  app.all('*', () => problemAnswer(unknownPath().problem));
}

function requireRole(role: ApiRole, roles: readonly ApiRole[]): void {
  if (roles.includes(role)) return;
  const may = role === 'read' ? 'is read-only and changes nothing' : 'is for producers only';
  throw new HttpRefusal(403, `this server ${may}; use one for the role ${roles.join(' or ')}`);
}

async function answer(options: HttpAppOptions, operation: Operation, context: Context): Promise<Response> {
  const { client, role = 'operate', who, waitMs = WAIT_MS } = options;
  const { method, roles, isCheckedByVerb, run } = operation;
  requireRole(role, roles);
  const given = method === 'get' ? {} : await jsonOfBody(context.req, [JSON_TYPE]);
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new ValidationError('', `the body must be an object, not ${show(given)}`);
  if (!isCheckedByVerb) refuseProto(given);
  const { status = 200, body } = await run({
    client,
    id: context.req.param('id') ?? '',
    query: parsedBy(operation.query, queryOf(context.req, operation.query)) as never,
    body: (isCheckedByVerb ? given : parsedBy(operation.body, given)) as never,
    actor: who === undefined ? namedActor(context) : await who(context),
    signal: context.req.raw.signal,
    waitMs,
  }).catch((error: unknown) => {
    throw asSent(error, operation);
  });
  return context.json(body, status);
}

/** Returns the error with the field's path in the request, in place of its path in the arguments of the verb. */
function asSent(error: unknown, { argument }: Operation): unknown {
  if (!(error instanceof ValidationError)) return error;
  const { field } = error;
  const outer = ['options.', ...(argument === undefined ? [] : [`${argument}.`])].find((each) =>
    field.startsWith(each),
  );
  if (outer === undefined) return error;
  return new ValidationError(field.slice(outer.length), error.message.slice(field.length + 2), {
    cause: error,
  });
}

/** Returns the name in the header, whose characters beyond ASCII are percent-encoded. */
function namedActor(context: Context): string | undefined {
  const name = context.req.header(ACTOR_HEADER);
  try {
    return name === undefined ? undefined : decodeURIComponent(name);
  } catch {
    // The name has a percent sign that encodes nothing, so it is taken as it is.
    return name;
  }
}
