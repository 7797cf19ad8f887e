/** The OpenAPI document of a server that runs forwarded jobs. */
import { FORWARD_HEADERS } from '../../lib/worker/forward.ts';

const header = (name: string, description: string, required = true) => ({
  name,
  in: 'header',
  required,
  description,
  schema: { type: 'string' },
});
const json = { 'application/json': { schema: {} } };

/** The document, OpenAPI 3.1. */
export const forwardOpenApi = (): object => ({
  openapi: '3.1.0',
  info: {
    title: 'A server that runs forwarded jobs',
    version: '1',
    description: '`fairlead fleet-worker --forward` sends one request for each attempt.',
  },
  paths: {
    '/jobs/{type}': {
      post: {
        operationId: 'run',
        summary: 'Run one attempt of a job. The connection closes when the attempt is over.',
        parameters: [
          { name: 'type', in: 'path', required: true, schema: { type: 'string' } },
          header(FORWARD_HEADERS.jobId, 'The id of the job, percent-encoded'),
          header(FORWARD_HEADERS.attempt, '1 for the first attempt'),
          header(FORWARD_HEADERS.fencingToken, 'Grows with every claim of the job'),
          header(FORWARD_HEADERS.deadline, 'When the time of the attempt is over, ISO 8601'),
          header(FORWARD_HEADERS.callback, 'The URL below which progress and checkpoints are posted'),
          header('traceparent', 'W3C Trace Context', false),
        ],
        requestBody: { required: true, description: 'The payload', content: json },
        responses: {
          200: { description: 'The result', content: json },
          204: { description: 'The job succeeded, without a result' },
          422: { description: 'The job fails for good' },
          429: {
            description: 'With Retry-After: the job is tried again then',
            headers: { 'Retry-After': { schema: { type: 'string' } } },
          },
          503: {
            description: 'With Retry-After: the job is tried again then',
            headers: { 'Retry-After': { schema: { type: 'string' } } },
          },
          default: { description: 'The attempt failed, and the retry policy of the type decides' },
        },
      },
    },
  },
});
