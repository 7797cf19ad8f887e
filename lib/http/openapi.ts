/** The OpenAPI document, made from the schemas by which requests are checked. */
import { createRoute, OpenAPIHono } from '@hono/zod-openapi';
import * as z from 'zod';
import { outcomeQuery, putEventsAnswer, putEventsBody } from './events.ts';
import type { Operation } from './operation.ts';
import { OPERATIONS } from './operations.ts';
import { PROBLEM_TYPE } from './problem.ts';

const problem = z.looseObject({
  type: z.string().describe('The error on the page of errors'),
  title: z.string().describe('The name of the error, which stays the same in every version'),
  status: z.int(),
  detail: z.string().describe('What was wrong, and what to do'),
  field: z.string().optional().describe('The path of the wrong field'),
});

type Route = Parameters<typeof createRoute>[0];

const routeOf = ({ id, method, path, summary, roles, query, body, answer }: Operation): Route => ({
  method,
  path,
  operationId: id,
  summary,
  description: `For the roles ${roles.join(', ')}.`,
  request: {
    ...(path.includes('{id}') ? { params: z.object({ id: z.string() }) } : {}),
    ...(Object.keys(query.shape).length === 0 ? {} : { query: asQuery(query) }),
    ...(method === 'get' || method === 'delete'
      ? {}
      : { body: { required: true, content: { 'application/json': { schema: body } } } }),
  },
  responses: {
    200: { description: 'Done', content: { 'application/json': { schema: answer } } },
    ...(id === 'submit'
      ? { 201: { description: 'It is new', content: { 'application/json': { schema: answer } } } }
      : {}),
    ...(id === 'wait' || id === 'waitMany'
      ? { 202: { description: 'None has ended', content: { 'application/json': { schema: answer } } } }
      : {}),
    default: {
      description: 'A problem document (RFC 9457)',
      content: { [PROBLEM_TYPE]: { schema: problem } },
    },
  },
});

/** Returns the parameters as callers write them: a tag is `tag=name=value`. */
function asQuery(query: Operation['query']): z.ZodObject {
  if (query.shape.tags === undefined) return query;
  const { tags: _, ...rest } = query.shape;
  return z.strictObject({
    ...rest,
    tag: z.array(z.string()).optional().describe('A tag of the job, such as order=4711; may be repeated'),
  });
}

const EVENTS: readonly Route[] = [
  {
    method: 'get',
    path: '/events',
    operationId: 'outcomes',
    summary: 'Stream the outcomes of jobs as server-sent events, where the server has them.',
    request: { query: outcomeQuery },
    responses: {
      200: { description: 'A stream', content: { 'text/event-stream': { schema: z.string() } } },
      default: { description: 'A problem document', content: { [PROBLEM_TYPE]: { schema: problem } } },
    },
  },
  {
    method: 'post',
    path: '/events',
    operationId: 'putEvents',
    summary: 'Put events as on an EventBridge bus, where the server takes them.',
    request: { body: { required: true, content: { 'application/json': { schema: putEventsBody } } } },
    responses: {
      200: { description: 'Done', content: { 'application/json': { schema: putEventsAnswer } } },
      default: { description: 'A problem document', content: { [PROBLEM_TYPE]: { schema: problem } } },
    },
  },
];

/** Returns the document, OpenAPI 3.1. Its paths are relative to where the app is mounted. */
export function openApiDocument(): object {
  const app = new OpenAPIHono();
  for (const route of [...OPERATIONS.map(routeOf), ...EVENTS])
    app.openAPIRegistry.registerPath(createRoute(route));
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Fairlead',
      version: '1',
      description: 'Submit, inspect and operate jobs. Errors are problem documents (RFC 9457).',
    },
  });
}
