/**
 * The operations of the HTTP protocol as tools of the Model Context Protocol. A tool's arguments are the parameters and the body of its
 * operation, in one object, and a call is a request to the HTTP app in this process: schemas, checks, errors and answers are the same.
 */
import type { Hono } from 'hono';
import * as z from 'zod';
import type { ClientVerbs } from '../client/client.ts';
import { queryText } from '../client/remote.ts';
import { ValidationError } from '../core/errors.ts';
import type { Json } from '../core/job.ts';
import { forPage } from '../dashboard/for-page.ts';
import { httpApp } from '../http/app.ts';
import type { Operation } from '../http/operation.ts';
import { OPERATIONS } from '../http/operations.ts';
import { problemAnswer, problemOf } from '../http/problem.ts';
import { McpServer } from './sdk.ts';

export interface McpOptions {
  /** Carries out the calls: a `SchedulerClient`. */
  readonly client: ClientVerbs;
  /** The name for the history of the jobs that are changed. */
  readonly actor: string;
  /** Whether tools may change anything. @default false */
  readonly write?: boolean | undefined;
  /** Names whose values are hidden, beside `MASKED_NAMES`. */
  readonly masked?: readonly string[] | undefined;
  readonly version: string;
  /** Called with an error that is not the scheduler's own. */
  readonly onError: (error: unknown) => void;
}

const INSTRUCTIONS = `Fairlead is a job scheduler: it decides which of many tenants' jobs runs next, within caps and by fair shares.
Why a job does not run: explain. What it did: history. Whether the pool flows: capacity, fleets, dispatchers, statistics. Who gets what: keys.
Failed jobs: deadLetters. Ids of jobs come from list, find and deadLetters. Lists are answered page by page: pass next as cursor.
Instants are ISO 8601 with a zone, fields that end in Ms are milliseconds. Before a change of all jobs that match, call it with dryRun.`;

type Arguments = Readonly<Record<string, unknown>>;

/** Names in the path of an operation. */
const idOf = { id: z.string().min(1).describe('The id in question: of a job, or of a schedule') };

/** The arguments of an operation's tool. */
export function argumentsOf({ path, method, query, body }: Operation): z.ZodObject {
  const fields = method === 'get' ? query : body;
  if (!(fields instanceof z.ZodObject)) throw new TypeError(`${method} ${path} has no fields`);
  return z.strictObject({ ...fields.shape, ...(path.includes('{id}') ? idOf : {}) });
}

/** The tools that an agent gets. */
export const toolsFor = (write: boolean): readonly Operation[] =>
  OPERATIONS.filter(({ roles }) => write || roles.includes('read'));

/** The server with its tools. */
export function mcpServer(options: McpOptions): McpServer {
  const { client, actor, write = false, masked, version, onError } = options;
  const app = httpApp({ client, role: write ? 'operate' : 'read', who: () => actor, onError });
  const shown = forPage(masked);
  const server = new McpServer(
    { name: 'fairlead', title: 'Fairlead', version },
    { capabilities: { tools: {} }, instructions: INSTRUCTIONS },
  );
  for (const operation of toolsFor(write)) {
    const { id, summary, isChange } = operation;
    server.registerTool(
      id,
      {
        description: summary,
        inputSchema: described(argumentsOf(operation)),
        annotations: { readOnlyHint: !isChange, openWorldHint: false },
      },
      async (given, { mcpReq: { signal } }) => {
        const answer = await answerTo(app, operation, given as Arguments, signal);
        const body = shown((await answer.json()) as Json);
        return {
          isError: !answer.ok,
          content: [{ type: 'text', text: JSON.stringify(body) }],
          structuredContent: body as Record<string, unknown>,
        };
      },
    );
  }
  return server;
}

/** The schema of arguments for clients. Its values are checked by the app, whose refusals say what is wrong and what to do. */
function described(shape: z.ZodObject) {
  const jsonSchema = (): Record<string, unknown> =>
    z.toJSONSchema(shape, { io: 'input', unrepresentable: 'any' });
  return {
    '~standard': {
      version: 1,
      vendor: 'fairlead',
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: jsonSchema, output: jsonSchema },
    },
  } as const;
}

/** A path without its id would be another one, or none. */
const answerTo = async (app: Hono, operation: Operation, given: Arguments, signal: AbortSignal) =>
  operation.path.includes('{id}') && (given.id ?? '') === ''
    ? problemAnswer(problemOf(new ValidationError('id', 'is missing; name the job or the schedule')))
    : app.request(requestFor(operation, given, signal));

function requestFor({ path, method }: Operation, given: Arguments, signal: AbortSignal): Request {
  const { id, ...rest } = given;
  const takesId = path.includes('{id}');
  const fields = takesId ? rest : given;
  const url = new URL(path.replace('{id}', encodeURIComponent(String(id ?? ''))), 'http://mcp');
  if (method === 'get') return new Request(`${url}${queryText(fields)}`, { signal });
  return new Request(url, {
    method: method.toUpperCase(),
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(fields),
    signal,
  });
}
