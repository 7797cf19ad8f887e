/** Values that throw when they are read, as an argument, an option or a field of any verb: each is refused as any other wrong value. */
import { describe, expect, it } from 'vitest';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { HOSTILE } from '../worker/hostile.ts';
import { desk } from './desk.ts';
import { VERBS, type Verb } from './verbs.ts';

const NEVER_FAILED = 'nothing';
/** The name of the error that a call ends with. */
const nameOfError = async (call: () => unknown): Promise<string> => {
  try {
    await call();
    return NEVER_FAILED;
  } catch (error) {
    return (error as Error).name;
  }
};

/** Verbs by what they take before their options. */
const ARGUMENTS: Readonly<Record<string, Verb>> = {
  'submit(request)': (client, given) => client.submit(given),
  'submit(type, payload)': (client, given) => client.submit('report', given),
  'submit(type, payload, options)': (client, given) => client.submit('report', 1, given),
  'submitMany(requests)': (client, given) => client.submitMany(given),
  'wait(job)': (client, given) => client.wait(given),
  'waitMany(jobs)': (client, given) => client.waitMany(given).next(),
  'waitMany([job])': (client, given) => client.waitMany([given]).next(),
  'get(job)': (client, given) => client.get(given),
  'cancel(id)': (client, given) => client.cancel(given),
  'retime(id)': (client, given) => client.retime(given, { runAt: '+1m' }),
  'retime(_, change)': (client, given) => client.retime('a', given),
  'setPriority(id)': (client, given) => client.setPriority(given, 5),
  'setPriority(_, priority)': (client, given) => client.setPriority('a', given),
  'explain(id)': (client, given) => client.explain(given),
  'history(id)': (client, given) => client.history(given),
  'retry(id)': (client, given) => client.retry(given),
  'list(filter)': (client, given) => client.list(given).next(),
  'deadLetters(filter)': (client, given) => client.deadLetters(given).next(),
  'cancelMany(filter)': (client, given) => client.cancelMany(given).next(),
  'pause(scope)': (client, given) => client.pause(given),
  'override(scope)': (client, given) => client.override(given, { maxConcurrency: 1 }),
  'override(_, change)': (client, given) => client.override('pool', given),
  'schedules.put(id)': (client, given) => client.schedules.put(given, { type: 'report', every: '1h' }),
  'schedules.put(_, request)': (client, given) => client.schedules.put('a', given),
  ...Object.fromEntries(
    ['type', 'priority', 'fairnessKey', 'tags', 'runAt', 'expireAfter', 'dedupe', 'keys', 'traceparent'].map(
      (field): [string, Verb] => [
        `submit({ ${field} })`,
        (client, given) => client.submit({ type: 'report', [field]: given as never }),
      ],
    ),
  ),
};

/** Those that wait for something go on where the options are right, as an error or an object without fields is. */
const WAIT = ['client.run', 'client.drain'];
const verbs = Object.entries(VERBS).filter(([name]) => !WAIT.includes(name));

describe.each([...Object.entries(ARGUMENTS), ...verbs])('%s', (_, call) => {
  it.each(HOSTILE)('is answered or refused with an error of its own: %s', async (__, given) => {
    const { client } = desk();
    const name = await nameOfError(() => call(client, given as never));
    expect([NEVER_FAILED, 'ValidationError', 'NotFoundError']).toContain(name);
  });
});

it.each(HOSTILE)(
  'a request with a payload that cannot be read leaves the others alone: %s',
  async (_, given) => {
    const { client } = desk();
    const payload = Object.defineProperty({}, 'inner', {
      enumerable: true,
      get: () => {
        throw given;
      },
    }) as never;
    const entries = await client.submitMany([{ type: 'report', payload }, { type: 'report' }]);
    expect(entries).toMatchObject([
      { kind: 'refused', error: { name: 'ValidationError' } },
      { kind: 'accepted' },
    ]);
  },
);

describe('a declaration whose functions throw', () => {
  const throwing = (given: unknown) => () => {
    throw given;
  };

  it.each(HOSTILE)('refuses the request, with the name of the field: %s', async (_, given) => {
    const schema = { '~standard': { version: 1, vendor: 'x', validate: throwing(given) } } as const;
    const jobs = defineJobs({
      resize: job({ payload: schema }),
      report: job({ fairnessKey: throwing(given) }),
    });
    const client = desk().anotherClient({ jobs });
    for (const [type, field] of [
      ['resize', 'payload'],
      ['report', 'fairnessKey'],
    ] as const)
      await expect(client.submit(type, 1 as never)).rejects.toMatchObject({ name: 'ValidationError', field });
  });
});
