/** Every bad argument of the typed verbs gets one sentence that names the field and the way out, and stores nothing. */
import { expect, it } from 'vitest';
import { z } from 'zod';
import type { StoreClient } from '../../lib/client/client.ts';
import { ValidationError } from '../../lib/core/errors.ts';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { allOf, desk, errorOf } from './desk.ts';

const JOBS = defineJobs({
  resize: job({ payload: z.object({ key: z.string() }) }),
  report: job<{ readonly month: number }>({ fairnessKey: ({ month }) => month.toFixed() }),
});
const GOOD = { key: 'a.png' };
const throwing = (name: string): object =>
  Object.defineProperty({}, name, {
    enumerable: true,
    get: () => {
      throw new Error('not for you');
    },
  });
const closed = <Kind extends object>(target: Kind): Kind =>
  new Proxy(target, {
    get: () => {
      throw new Error('closed');
    },
    ownKeys: () => {
      throw new Error('closed');
    },
  });

/** As a user of JavaScript calls it. */
type Loose = Readonly<
  Record<'submit' | 'run' | 'get' | 'wait' | 'retime', (...given: readonly unknown[]) => Promise<unknown>>
> & { readonly waitMany: (...given: readonly unknown[]) => AsyncIterable<unknown> };

const submit =
  (...given: readonly unknown[]) =>
  (client: Loose): Promise<unknown> =>
    client.submit(...given);
const options = (bad: unknown) => submit('resize', GOOD, bad);
const wait = (bad: unknown) => (client: Loose) => client.wait('a', bad);
const many =
  (...given: readonly unknown[]) =>
  async (client: Loose) =>
    allOf(client.waitMany(...given));

const CASES: readonly (readonly [
  string,
  (client: Loose) => Promise<unknown>,
  field: string,
  says: RegExp,
])[] = [
  ['an empty name', submit('', GOOD), 'type', /this pool has: resize, report/],
  ['an unknown name', submit('resise', GOOD), 'type', /unknown job type "resise"; this pool has/],
  ['a name of the prototype', submit('constructor', GOOD), 'type', /this pool has/],
  ['no payload', submit('resize'), 'payload', /send what the schema of "resize" accepts/],
  ['a wrong payload', submit('resize', { key: 5 }), 'payload.key', /send what the schema/],
  [
    'a payload that is a function',
    submit('resize', () => GOOD),
    'payload',
    /is not JSON; leave it out, or send/,
  ],
  [
    'a payload with a getter that throws',
    submit('resize', throwing('key')),
    '',
    /cannot be read: Error: not for/,
  ],
  ['a payload that is closed', submit('resize', closed({})), '', /cannot be read: Error: closed/],
  [
    'a payload that no key follows from',
    submit('report', null),
    'fairnessKey',
    /or name fairnessKey in the request/,
  ],
  ['options that are text', options('now'), 'options', /must be an object, not "now"; leave it out/],
  ['options that are null', options(null), 'options', /must be an object, not null; leave it out/],
  ['options that are a list', options([]), 'options', /must be an object, not an array of 0; leave/],
  [
    'options with a getter that throws',
    options(throwing('label')),
    'options',
    /cannot be read: Error: not for/,
  ],
  ['options that are closed', options(closed({})), 'options', /cannot be read: Error: closed/],
  [
    'an unknown option',
    options({ runat: '+10m' }),
    'runat',
    /unknown field "runat"\. Did you mean "runAt"\? Known/,
  ],
  [
    'a misspelt option of run',
    (client) => client.run('resize', GOOD, { timout: '1m' }),
    'timout',
    /unknown field "timout"\. Did you mean "timeout"\? Known here: priority, .*, runAt, .*, signal, timeout, dieWithWaiter, onProgress/,
  ],
  [
    'a payload among the options',
    options({ payload: 1 }),
    'options.payload',
    /argument of its own.*leave it out/,
  ],
  ['a type among the options', options({ type: 'a' }), 'options.type', /argument of its own.*leave it out/],
  ['an option of run', options({ timeout: 5 }), 'timeout', /unknown field "timeout".*Known here/],
  ['a signal that is none', options({ signal: 'stop' }), 'options.signal', /must be an AbortSignal/],
  ['a time that is milliseconds', options({ runAt: 1_800_000_000_000 }), 'runAt', /such as 2027-01-31T08/],
  ['a delay without a sign', options({ runAt: '10m' }), 'runAt', /such as 2027-01-31T08/],
  ['a delay that is none', options({ runAt: '+ten' }), 'runAt', /or a delay from now, such as '\+10m'/],
  ['a delay of all times', options({ runAt: '+99999999999d' }), 'runAt', /or a delay from now/],
  ['a date that is none', options({ runAt: new Date('soon') }), 'runAt', /a Date, or a delay.*Invalid Date/],
  ['a date in the year 20000', options({ runAt: new Date(Date.UTC(20_000, 0)) }), 'runAt', /ISO 8601/],
  ['a request that is closed', submit(closed({})), '', /cannot be read: Error: closed/],
  ['a request whose time throws', submit(throwing('runAt')), '', /cannot be read: Error: not for you/],
  [
    'a run that is queued',
    (client) => client.run('resize', GOOD, { mode: 'queued' }),
    'mode',
    /onDemand; leave it out, or use submit/,
  ],
  [
    'a run without end',
    (client) => client.run('resize', GOOD, { timeout: '25h' }),
    'options.timeout',
    /above 0 and at most 24 hours: milliseconds, a text such as '30s'.*"25h"/,
  ],
  [
    'a move to no time',
    (client) => client.retime('a', {}),
    'change.runAt',
    /is missing: it must be an ISO 8601 instant/,
  ],
  [
    'a move by a wrong delay',
    (client) => client.retime('a', { runAt: '+' }),
    'change.runAt',
    /such as '\+10m'/,
  ],
  ['a wait without time', wait({ timeout: 0 }), 'options.timeout', /must be a duration above 0/],
  ['a wait of another unit', wait({ timeout: '1 week' }), 'options.timeout', /must be a duration.*"1 week"/],
  [
    'a wait of an odd Duration',
    wait({ timeout: { toMilliseconds: () => 'x' } }),
    'options.timeout',
    /a Duration/,
  ],
  [
    'a wait with the option of run',
    wait({ timeoutMs: 5 }),
    'options.timeoutMs',
    /is not known here; leave it out/,
  ],
  ['a wait for a number', (client) => client.wait(7), 'jobId', /must be a string/],
  [
    'a wait for an unknown kind of name',
    (client) => client.wait({ id: 'a' }),
    'jobId.id',
    /not known here; leave/,
  ],
  [
    'a wait for two names',
    (client) => client.wait({ idempotencyKey: 'a', eventId: 'b' }),
    'jobId',
    /must be the id of a job, \{ idempotencyKey \}, or \{ eventId, position \}/,
  ],
  [
    'a place in no event',
    (client) => client.get({ idempotencyKey: 'a', position: 1 }),
    'jobId',
    /\{ eventId, po/,
  ],
  [
    'a place below 0',
    (client) => client.get({ eventId: 'a', position: -1 }),
    'jobId.position',
    /from 0 to 999/,
  ],
  [
    'an empty key',
    (client) => client.get({ idempotencyKey: '' }),
    'jobId.idempotencyKey',
    /must not be empty/,
  ],
  ['a name that is closed', (client) => client.wait(closed({})), 'jobId', /cannot be read: Error: closed/],
  ['many that are one', many('a'), 'ids', /must be an array of 0 to 10000 ids, not a string/],
  ['too many', many(Array.from({ length: 10_001 }, () => 'a')), 'ids', /not 10001 entries; split it/],
  ['many of which one is none', many(['a', 5]), 'ids[1]', /must be a string/],
  ['many that are closed', many(closed([])), 'ids', /cannot be read: Error: closed/],
  [
    'many with a wrong option',
    many(['a'], { timeouts: 5 }),
    'options.timeouts',
    /not known here; leave it out/,
  ],
];

it.each(CASES)('refuses %s', async (_, call, field, says) => {
  const { anotherClient, everything, store } = desk();
  const before = everything();
  const client: StoreClient<typeof JOBS> = anotherClient({ jobs: JOBS });
  const error = await errorOf((async () => call(client as unknown as Loose))());
  expect(error).toBeInstanceOf(ValidationError);
  expect(error).toMatchObject({ field, message: expect.stringMatching(says) });
  expect(error.message.startsWith(field)).toBe(true);
  expect(error.message).not.toContain('\n');
  expect(error.message.length).toBeLessThan(400);
  expect([...store.everyJob()]).toEqual([]);
  expect(everything()).toBe(before);
});
