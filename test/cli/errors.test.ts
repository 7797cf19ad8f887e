/** Errors of what stands behind the command line: one line each, or one JSON document, and no stack. */
import { expect, it } from 'vitest';
import { DeclarationMissing } from '../../lib/declaration/declaration.ts';
import { BusMisconfigured } from '../../lib/events/errors.ts';
import { QueueMisconfigured, QueueRefused, QueueUnavailable } from '../../lib/queue/errors.ts';
import {
  ItemTooLarge,
  MalformedItemError,
  StoreMisconfigured,
  StoreRefused,
  StoreThrottled,
  StoreUnavailable,
} from '../../lib/store/contract/errors.ts';
import { counter } from './desk.ts';

const ERRORS: readonly Error[] = [
  new DeclarationMissing('the table jobs has no declaration; deploy the stack, or name its table'),
  new MalformedItemError('job/1 job', 'state', 'is "half"'),
  new BusMisconfigured('the bus'),
  new QueueMisconfigured('the queue'),
  new QueueRefused('the message'),
  new QueueUnavailable('the queue is away'),
  new ItemTooLarge('job/1 job', 500_000),
  new StoreMisconfigured('the table'),
  new StoreRefused('the request'),
  new StoreThrottled('getJobs: throttled'),
  new StoreUnavailable('getJobs: away'),
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
