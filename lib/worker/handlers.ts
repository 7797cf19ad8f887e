/**
 * A worker author's handlers: their types, their check when the worker is created, so that mistakes show before the
 * first job arrives, and what surrounds each run of a handler: the schemas of its type and the middlewares.
 */
import { ConfigurationError } from '../core/errors.ts';
import { type Check, isFunction, objectOf, readArray } from '../core/read-fields.ts';
import { didYouMean } from '../core/spelling.ts';
import {
  type AnyJobDefinition,
  isDefinition,
  type Jobs,
  type PayloadOf,
  type ReturnedOf,
  readDefinitions,
  type TypeOf,
} from '../jobs/jobs.ts';
import { type AnySchema, checkBySchema } from '../jobs/schema.ts';
import { untilAborted } from '../runtime/abort.ts';
import { AttemptError } from './errors.ts';
import { ParkedJob, RESULT, storable } from './kept.ts';
import type { JobContext, JobHandler, JobHandlers } from './run-job.ts';

/** A handler of a declared job type. */
// biome-ignore lint/suspicious/noExplicitAny: a handler may serve its type in any worker
export type HandlerOf<Definition extends AnyJobDefinition, Declared extends Jobs = any> = (
  payload: PayloadOf<Definition>,
  context: JobContext<Declared>,
) => Promise<ReturnedOf<Definition> | ParkedJob> | ReturnedOf<Definition> | ParkedJob;

/** One handler for each declared type, by its name. */
export type HandlersOf<Declared extends Jobs> = {
  readonly [Type in TypeOf<Declared>]: HandlerOf<Declared[Type], Declared>;
};

/** A handler's context with its payload, as the middlewares around the handler get it. */
export interface MiddlewareContext extends JobContext {
  /** The payload as the handler gets it: checked by the schema of its type. */
  readonly payload: unknown;
}

/**
 * Surrounds each run of a handler, within the attempt's time. `next` runs the next middleware, or the handler, and
 * answers its result. What the middleware returns is the result, so return what `next` answered. If it throws, the
 * attempt fails as if the handler had thrown. If it does not call `next`, the handler does not run, and the attempt
 * ends with what the middleware returned. A second call of `next` is an error, and so is one after
 * the middleware has ended or the attempt was told to stop.
 *
 * @example
 * const timed: JobMiddleware = async (ctx, next) => {
 *   const result = await next();
 *   ctx.log.info('done', { leftMs: ctx.remainingMs() });
 *   return result;
 * };
 */
export type JobMiddleware = (context: MiddlewareContext, next: () => Promise<unknown>) => unknown;

/** Options of a worker function, and of a worker process. */
export interface HandlingOptions {
  /** Middlewares around each run of a handler. The first is the outermost. @default - none */
  readonly use?: readonly JobMiddleware[] | undefined;
}

/** The arguments of a worker after the first one: handlers for declared jobs, and options. */
export type HandlingArguments<Given, Options> = [Given] extends [never]
  ? [options?: Options]
  : Given extends Jobs
    ? [handlers: HandlersOf<Given>, options?: Options]
    : [options?: Options];

/** A worker's arguments, read. */
export interface ReadHandling<Options> {
  /** The declared jobs; undefined: the worker got handlers of jobs that are not declared. */
  readonly jobs: Jobs | undefined;
  /** The handlers by job type, each with its schemas and the middlewares around it. */
  readonly handlers: JobHandlers;
  readonly options: Options;
}

const isMiddlewares: Check = (field, value) => {
  for (const [at, each] of readArray(field, value, MIDDLEWARES_MAX).entries())
    isFunction(`${field}[${at}]`, each);
};
/** The most middlewares. More of them are a mistake, such as a list that grows with each request. */
const MIDDLEWARES_MAX = 100;

/**
 * Reads `(jobs, handlers, options)` or `(handlers, options)`.
 *
 * @param checks - of further options
 * @throws ConfigurationError - a declared type has no handler, a handler has no declared type, or an option is wrong
 */
export function readHandling<Options extends HandlingOptions>(
  given: unknown,
  rest: readonly unknown[],
  checks: Readonly<Record<string, Check>> = {},
): ReadHandling<Options> {
  const isTyped = typeof given === 'object' && given !== null && Object.values(given).some(isDefinition);
  const [handlers, options = {}] = isTyped ? rest : [given, ...rest];
  objectOf({ ...checks, use: isMiddlewares })('options', options);
  const declared = isTyped ? new Map(readDefinitions(given)) : undefined;
  const read = readHandlers(handlers);
  if (declared !== undefined) requireExhaustive([...declared.keys()], read);
  const { use = [] } = options as Options;
  return {
    jobs: isTyped ? (given as Jobs) : undefined,
    options: options as Options,
    handlers: Object.fromEntries(
      Object.entries(read).map(([type, handler]) => [type, surrounded(handler, declared?.get(type), use)]),
    ),
  };
}

/**
 * Returns a copy of the handlers by job type, without those that are undefined.
 *
 * @throws ConfigurationError - there is no handler, or one is not a function
 */
export function readHandlers(given: unknown): JobHandlers {
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  const handlers = isObject
    ? Object.fromEntries(Object.entries(given).filter(([, each]) => each !== undefined))
    : given;
  objectOf(functionChecks(handlers))('handlers', handlers);
  if (Object.keys(handlers as object).length > 0) return handlers as JobHandlers;
  throw new ConfigurationError(
    'handlers',
    handlers,
    'is empty',
    'Give a function for each job type, such as { resize: async (payload) => … }.',
  );
}

const functionChecks = (handlers: unknown): Readonly<Record<string, Check>> =>
  typeof handlers === 'object' && handlers !== null
    ? Object.fromEntries(Object.keys(handlers).map((type) => [type, isFunction]))
    : {};

function requireExhaustive(declared: readonly string[], handlers: JobHandlers): void {
  for (const type of Object.keys(handlers)) {
    if (declared.includes(type)) continue;
    throw new ConfigurationError(
      `handlers.${type}`,
      handlers[type],
      'is not a declared job type',
      `${didYouMean(type, declared)}Declared are: ${declared.join(', ')}.`,
    );
  }
  const missing = declared.filter((type) => !Object.hasOwn(handlers, type));
  if (missing.length === 0) return;
  throw new ConfigurationError(
    'handlers',
    handlers,
    `has none for ${missing.join(', ')}`,
    'Give a handler for each declared type, or name the types that this fleet serves: only(jobs, …).',
  );
}

/** Returns the handler as an attempt runs it, with its schemas and the middlewares around it. */
function surrounded(
  handler: JobHandler,
  definition: AnyJobDefinition | undefined,
  use: readonly JobMiddleware[],
): JobHandler {
  if (definition === undefined && use.length === 0) return handler;
  return async (sent, context) => {
    const payload = await checkedInTime(definition?.payload, sent, 'payload', context);
    const within = Object.assign(context, { payload });
    const returned = await throughAll(use, within, async () => handler(payload as never, context));
    if (returned instanceof ParkedJob) return returned;
    if (definition?.result === undefined) return returned;
    const result = returned === undefined ? undefined : storable(returned, RESULT);
    await checkedInTime(definition.result, result, 'result', context);
    return result;
  };
}

const REFUSED = {
  payload: ['PayloadRefused', 'the payload'],
  result: ['ResultRefused', "the handler's result"],
} as const;

/**
 * Returns the value as its schema reads it.
 * @throws AttemptError - the value does not fit
 * @throws the attempt's end - it came before the schema answered
 */
async function checkedInTime(
  schema: AnySchema | undefined,
  value: unknown,
  name: keyof typeof REFUSED,
  context: JobContext,
): Promise<unknown> {
  if (schema === undefined) return value;
  const { signal } = context;
  const checking = checkBySchema(schema, value, name);
  // If the worker was told to end, a result still counts if it comes soon after that.
  const checked = await (signal.aborted ? checking : untilAborted(checking, signal));
  if (checked === undefined) throw signal.reason;
  if (checked.kind === 'accepted') return checked.value;
  const [refused, what] = REFUSED[name];
  throw new AttemptError(
    refused,
    `${what} does not fit the schema of its type: ${checked.path}: ${checked.reason}`,
  );
}

function throughAll(
  use: readonly JobMiddleware[],
  context: MiddlewareContext,
  handle: () => Promise<unknown>,
): Promise<unknown> {
  const runFrom = async (at: number): Promise<unknown> => {
    const middleware = use[at];
    if (middleware === undefined) return handle();
    let rest: Promise<unknown> | undefined;
    let hasEnded = false;
    const next = (): Promise<unknown> => {
      if (hasEnded)
        throw new Error(
          `use[${at}] called next() after it had ended, so the handler does not run; return next()`,
        );
      context.signal.throwIfAborted();
      if (rest !== undefined)
        throw new Error(`use[${at}] called next() a second time; a handler runs once in each attempt`);
      rest = runFrom(at + 1);
      // If a middleware does not await `next()`, a failure of the rest would be an unhandled rejection, which ends the process.
      rest.catch(() => {});
      return rest;
    };
    try {
      return await middleware(context, next);
    } finally {
      hasEnded = true;
      // An attempt is not over while its handler runs.
      await rest?.catch(() => {});
    }
  };
  return runFrom(0);
}
