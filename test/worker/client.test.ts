/** The client that handlers may use: made where the environment names a scheduler, with its first use. */
import { expect, it } from 'vitest';
import { SchedulerClient } from '../../lib/client/aws.ts';
import { clientFrom } from '../../lib/worker/client.ts';

const ENVIRONMENT = { FAIRLEAD_TABLE: 'table', FAIRLEAD_WAKE_QUEUE: 'http://127.0.0.1/wakes' } as const;

it.each(['FAIRLEAD_TABLE', 'FAIRLEAD_WAKE_QUEUE'] as const)('says what to grant without %s', async (name) => {
  for (const value of [undefined, '']) {
    const { get, close } = await clientFrom({ ...ENVIRONMENT, [name]: value });
    expect(get).toThrow(
      expect.objectContaining({
        name: 'EnvironmentError',
        setting: name,
        message: expect.stringMatching(
          /is not set, so ctx\.client.*grantSubmit\(fn\).*schedulerEnvironment\(\)/,
        ),
      }),
    );
    close();
  }
});

it('is one client for all jobs', async () => {
  const { get, close } = await clientFrom(ENVIRONMENT);
  const client = get();
  expect(client).toBeInstanceOf(SchedulerClient);
  expect(get()).toBe(client);
  close();
});
