/** Bad input: each is refused by a problem document that names what is wrong, and changes nothing. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PROBLEM_TYPE } from '../../lib/http/problem.ts';
import { isAll } from '../fixtures/times.ts';
import { httpDesk } from './desk.ts';

interface Bad {
  readonly status: number;
  readonly title: string;
  /** The path of the wrong field. */
  readonly field?: string;
  readonly request: readonly [method: string, path: string, body?: unknown, headers?: Record<string, string>];
}

const invalid = (field: string | undefined, ...request: Bad['request']): Bad => ({
  status: 400,
  title: 'ValidationError',
  ...(field === undefined ? {} : { field }),
  request,
});
const plain = (status: number, title: string, ...request: Bad['request']): Bad => ({
  status,
  title,
  request,
});
const missing = (...request: Bad['request']): Bad => ({ status: 404, title: 'NotFoundError', request });

const LONG = 'x'.repeat(600);
const BAD: Readonly<Record<string, Bad>> = {
  'a body that is no JSON': invalid('', 'POST', '/jobs', '{'),
  'a body that is an array': invalid('', 'POST', '/jobs', []),
  'a body that is null': invalid('', 'POST', '/jobs', 'null'),
  'a body that is a text': invalid('', 'POST', '/jobs', '"resize"'),
  'no type': invalid('type', 'POST', '/jobs', {}),
  'a type that is a number': invalid('type', 'POST', '/jobs', { type: 1 }),
  'a type that is not declared': invalid('type', 'POST', '/jobs', { type: 'resise' }),
  'a field that is not known': invalid('prio', 'POST', '/jobs', { type: 'resize', prio: 1 }),
  'a field of the prototype': invalid('__proto__', 'POST', '/jobs', '{"type":"resize","__proto__":{}}'),
  'a priority above 10': invalid('priority', 'POST', '/jobs', { type: 'resize', priority: 11 }),
  'a priority that is a half': invalid('priority', 'POST', '/jobs', { type: 'resize', priority: 0.5 }),
  'a priority as text': invalid('priority', 'POST', '/jobs', { type: 'resize', priority: '1' }),
  'a mode that is not known': invalid('mode', 'POST', '/jobs', { type: 'resize', mode: 'soon' }),
  'a key that is too long': invalid('fairnessKey', 'POST', '/jobs', { type: 'resize', fairnessKey: LONG }),
  'a key with half a character': invalid(
    'fairnessKey',
    'POST',
    '/jobs',
    '{"type":"resize","fairnessKey":"\\ud800"}',
  ),
  'a resource without a name': invalid('resourceId', 'POST', '/jobs', { type: 'resize', resourceId: '' }),
  'a label that is too long': invalid('label', 'POST', '/jobs', { type: 'resize', label: LONG }),
  'too many tags': invalid('tags', 'POST', '/jobs', {
    type: 'resize',
    tags: Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`t${at}`, ''])),
  }),
  'a tag that is a number': invalid('tags.order', 'POST', '/jobs', { type: 'resize', tags: { order: 7 } }),
  'a time without a zone': invalid('runAt', 'POST', '/jobs', {
    type: 'resize',
    runAt: '2030-01-01T00:00:00',
  }),
  'a delay that is none': invalid('runAt', 'POST', '/jobs', { type: 'resize', runAt: '+soon' }),
  'an idempotency key without a letter': invalid('idempotencyKey', 'POST', '/jobs', {
    type: 'resize',
    idempotencyKey: '',
  }),
  'a trace that is none': invalid('traceparent', 'POST', '/jobs', { type: 'resize', traceparent: '00-1' }),
  'a payload that is too large': invalid('payload', 'POST', '/jobs', {
    type: 'resize',
    payload: 'x'.repeat(70_000),
  }),
  'a payload that is too deep': invalid(
    'payload',
    'POST',
    '/jobs',
    `{"type":"resize","payload":${'['.repeat(5_000)}${']'.repeat(5_000)}}`,
  ),
  'a body of another kind': plain(415, 'Unsupported Media Type', 'POST', '/jobs', '{}', {
    'content-type': 'text/plain',
  }),
  'a form': plain(415, 'Unsupported Media Type', 'POST', '/jobs/x/cancel', 'a=b', {
    'content-type': 'application/x-www-form-urlencoded',
  }),
  'a body that is too large': plain(
    413,
    'Content Too Large',
    'POST',
    '/jobs',
    'x'.repeat(4 * 1024 * 1024 + 1),
  ),
  'a path that is too long': plain(414, 'URI Too Long', 'GET', `/jobs?state=${'x'.repeat(9_000)}`),
  'a path that is not known': plain(404, 'Not Found', 'GET', '/job'),
  'a path below one': plain(404, 'Not Found', 'GET', '/jobs/x/y/z'),
  'a method that is not known there': plain(405, 'Method Not Allowed', 'PATCH', '/jobs', {}),
  'a removal of a job': plain(405, 'Method Not Allowed', 'DELETE', '/jobs/x'),
  'a batch of nothing': invalid('jobs', 'POST', '/jobs/batch', { jobs: [] }),
  'a batch that is no list': invalid('jobs', 'POST', '/jobs/batch', { jobs: {} }),
  'a batch that is too long': invalid('jobs', 'POST', '/jobs/batch', {
    jobs: Array.from({ length: 1_001 }, () => ({})),
  }),
  'a batch with a field that is not known': invalid('job', 'POST', '/jobs/batch', { jobs: [{}], job: 1 }),
  'a job that does not exist': missing('GET', '/jobs/none'),
  'a job whose id is too long': invalid('jobId', 'GET', `/jobs/${'x'.repeat(2_000)}`),
  'a job by nothing': invalid('jobId', 'GET', '/jobs/named'),
  'a job by two names': invalid('jobId', 'GET', '/jobs/named?idempotencyKey=a&eventId=b'),
  'a place that is no number': invalid('position', 'GET', '/jobs/named?eventId=b&position=first'),
  'a parameter that is not known': invalid('stat', 'GET', '/jobs?state=pending&stat=x'),
  'a parameter that is given twice': invalid('state', 'GET', '/jobs?state=pending&state=running'),
  'a list of no state': invalid('state', 'GET', '/jobs'),
  'a state that is not known': invalid('state', 'GET', '/jobs?state=lost'),
  'a page of nothing': invalid('limit', 'GET', '/jobs?state=pending&limit=0'),
  'a page that is too long': invalid('limit', 'GET', '/jobs?state=pending&limit=1001'),
  'a cursor that is none': invalid('cursor', 'GET', '/jobs?state=pending&cursor=abc'),
  'a cursor beyond all': invalid('cursor', 'GET', `/jobs?state=pending&cursor=${'9'.repeat(40)}`),
  'a tag without a value': invalid('tag', 'GET', '/jobs?state=pending&tag=order'),
  'a list of a type that is not declared': invalid('type', 'GET', '/jobs?state=pending&type=nothing'),
  'a list of finished jobs that are not kept': invalid('type', 'GET', '/jobs?state=succeeded&type=resize'),
  'a wait for nothing': invalid('jobs', 'POST', '/jobs/wait', { jobs: [] }),
  'a wait for a number': invalid('jobs[0]', 'POST', '/jobs/wait', { jobs: [7] }),
  'a wait for a day and more': invalid('timeout', 'POST', '/jobs/wait', { jobs: ['x'], timeout: 86_400_001 }),
  'a wait for a job that does not exist': missing('GET', '/jobs/none/wait'),
  'an explanation of nothing': missing('GET', '/jobs/none/explanation'),
  'a move to no time': invalid('runAt', 'POST', '/jobs/x/retime', {}),
  'a move to a time that is none': invalid('runAt', 'POST', '/jobs/x/retime', { runAt: 'tomorrow' }),
  'a priority that is missing': invalid('priority', 'POST', '/jobs/x/priority', {}),
  'a cancellation with a field': invalid('force', 'POST', '/jobs/x/cancel', { force: true }),
  'a bulk verb without a filter': invalid('filter', 'POST', '/jobs/cancel', {}),
  'a bulk verb without a state': invalid('filter.state', 'POST', '/jobs/cancel', { filter: {} }),
  'a bulk verb of ended jobs': invalid('filter.state', 'POST', '/jobs/retime', {
    filter: { state: 'failed' },
    runAt: '+1h',
  }),
  'a bulk verb of too many': invalid('limit', 'POST', '/jobs/cancel', {
    filter: { state: 'pending' },
    limit: 100_000,
  }),
  'a dry run that is a text': invalid('dryRun', 'POST', '/jobs/cancel', {
    filter: { state: 'pending' },
    dryRun: 'no',
  }),
  'an actor that is too long': invalid('actor', 'POST', '/jobs/x/cancel', {}, { 'fairlead-actor': LONG }),
  'a pause of nothing': invalid('scope', 'POST', '/controls/pause', {}),
  'a pause of two things': invalid('scope', 'POST', '/controls/pause', {
    scope: { type: 'resize', tier: 'urgent' },
  }),
  'a pause of a type that is not declared': invalid('scope.type', 'POST', '/controls/pause', {
    scope: { type: 'no' },
  }),
  'an override of nothing': invalid('change', 'POST', '/controls/override', { scope: 'pool', change: {} }),
  'a weight of a type': invalid('change.weight', 'POST', '/controls/override', {
    scope: { type: 'resize' },
    change: { weight: 2 },
  }),
  'a schedule without a time': invalid(undefined, 'PUT', '/schedules/a', { type: 'report' }),
  'a schedule of a pattern that is none': invalid('cron', 'PUT', '/schedules/a', {
    type: 'report',
    cron: 'x',
  }),
  'a schedule that does not exist': missing('GET', '/schedules/none'),
  'too many firings': invalid('count', 'GET', '/schedules/a/next?count=1001'),
  'events without entries': plain(501, 'Not Implemented', 'POST', '/events', {}),
};

it('are many', () => {
  expect(Object.keys(BAD).length).toBeGreaterThanOrEqual(60);
});

describe('the protocol refuses', () => {
  it.each(Object.entries(BAD))('%s', async (_, { status, title, field, request }) => {
    const { send, everything } = httpDesk();
    const before = everything();
    const answer = await send(...request);
    expect(answer).toMatchObject({
      status,
      body: { status, title, ...(field === undefined ? {} : { field }) },
    });
    expect(answer.headers.get('content-type')).toBe(PROBLEM_TYPE);
    const { type, detail } = answer.body as unknown as { type: string; detail: string };
    expect(detail.length).toBeGreaterThan(15);
    expect(type).toBe(
      status === 400 || title === 'NotFoundError' ? `docs/errors.md#${title.toLowerCase()}` : 'about:blank',
    );
    expect(everything()).toBe(before);
  });
});

const SEGMENTS = [
  'jobs',
  'batch',
  'wait',
  'cancel',
  'retime',
  'named',
  'priority',
  'retry',
  'explanation',
  'history',
  'controls',
  'pause',
  'resume',
  'override',
  'schedules',
  'next',
  'run',
  'dead-letters',
  'redrive',
  'rejections',
  'keys',
  'events',
  'fleets',
  '%00',
  '%',
  '..',
  'é',
  '__proto__',
  'constructor',
];
const value: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom('resize', 'report', 'pending', 'scheduled', 'pool', '+1h', '0 2 * * *', '', '__proto__'),
  fc.jsonValue({ maxDepth: 2 }),
);
const fields = fc.constantFrom(
  'type',
  'payload',
  'priority',
  'filter',
  'state',
  'jobs',
  'scope',
  'change',
  'runAt',
  'limit',
  'cursor',
  'dryRun',
  'cron',
  'every',
  'tags',
  'tag',
  'timeout',
  'count',
  'from',
  'eventId',
  'idempotencyKey',
  'constructor',
  '__proto__',
);
const record: fc.Arbitrary<Record<string, unknown>> = fc.dictionary(
  fields,
  fc.oneof(value, fc.dictionary(fields, value, { maxKeys: 3 }), fc.array(value, { maxLength: 3 })),
  { maxKeys: 4 },
);
const request = fc.record({
  method: fc.constantFrom('GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD'),
  path: fc.array(fc.oneof(fc.constantFrom(...SEGMENTS), fc.string({ maxLength: 6 })), { maxLength: 3 }),
  query: fc.dictionary(
    fields,
    fc.oneof(fc.constantFrom('resize', 'pending', '1', '-1', '1e9', 'a=b'), fc.string()),
    {
      maxKeys: 3,
    },
  ),
  body: fc.oneof(
    { weight: 8, arbitrary: record.map((each) => JSON.stringify(each)) },
    { weight: 1, arbitrary: fc.string() },
  ),
  actor: fc.option(fc.constantFrom('ada', 'x'.repeat(200)), { nil: undefined }),
});

/** `npm run test:deep` sends them all. */
const FUZZED = isAll ? 100_000 : 2_500;

it('answers no request with a 500, and tells of each refusal by a problem document', {
  timeout: 280_000,
}, async () => {
  const failures: unknown[] = [];
  const { app, store } = httpDesk({}, { waitMs: 1, onError: (error) => failures.push(error) });
  await fc.assert(
    fc.asyncProperty(request, async ({ method, path, query, body, actor }) => {
      const url = `/${path.map((each) => (SEGMENTS.includes(each) ? each : encodeURIComponent(each))).join('/')}?${new URLSearchParams(query)}`;
      const response = await app.request(url, {
        method,
        headers: {
          'content-type': 'application/json',
          ...(actor === undefined ? {} : { 'fairlead-actor': actor }),
        },
        ...(method === 'GET' || method === 'HEAD' ? {} : { body }),
      });
      const text = await response.text();
      expect(failures).toEqual([]);
      expect(response.status).not.toBe(500);
      if (response.status < 400) return;
      expect(response.headers.get('content-type')).toBe(PROBLEM_TYPE);
      if (method !== 'HEAD')
        expect(JSON.parse(text)).toMatchObject({ status: response.status, detail: expect.any(String) });
    }),
    { numRuns: FUZZED },
  );
  // Each job is whole: it can be read, and stands in the line of its state.
  for (const job of store.everyJob())
    expect(job).toMatchObject({ type: expect.any(String), version: expect.any(Number) });
});
