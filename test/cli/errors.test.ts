/** Errors of what stands behind the command line: one line each, or one JSON document, and no stack. */

import { expect, it } from 'vitest';
import { MisconfiguredError, RefusedError, ThrottledError, UnavailableError } from '../../lib/core/errors.ts';
import { itemTooLarge, MalformedItemError } from '../../lib/store/contract/errors.ts';
import { counter } from './desk.ts';

const ERRORS: readonly Error[] = [
  new MisconfiguredError('the table jobs has no declaration; deploy the stack, or name its table'),
  new MalformedItemError('job/1 job', 'state', 'is "half"'),
  new MisconfiguredError('the bus'),
  new MisconfiguredError('the queue'),
  new RefusedError('the message'),
  new UnavailableError('the queue is away'),
  itemTooLarge('job/1 job', 500_000),
  new MisconfiguredError('the table'),
  new RefusedError('the request'),
  new ThrottledError('getJobs: throttled'),
  new UnavailableError('getJobs: away'),
];

it.each(ERRORS.map((error) => [error.name, error] as const))(
  '%s is said in one line',
  async (name, error) => {
    const { fairleadIn } = counter();
    const connect = async (): Promise<never> => {
      throw error;
    };
    const said = await fairleadIn({ connect }, 'jobs', 'get', 'job-1');
    expect(said).toEqual({ code: 1, out: '', error: `fairlead: ${error.message}\n` });
    const asJson = await fairleadIn({ connect }, 'jobs', 'get', 'job-1', '--json');
    expect(JSON.parse(asJson.error)).toMatchObject({ error: { name, message: error.message } });
  },
);
