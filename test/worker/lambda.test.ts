/** What a worker function needs of its environment, and says when it is missing. */
import type { Context, SQSEvent } from 'aws-lambda';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { encodeConfiguration } from '../../lib/dispatch/configuration-codec.ts';
import { worker } from '../../lib/worker/lambda.ts';

const NOTHING = { Records: [] } as SQSEvent;
const lambda = {
  functionName: 'images',
  awsRequestId: 'request',
  getRemainingTimeInMillis: () => 3_000,
} as unknown as Context;
const pool = encodeConfiguration(resolveConfiguration({ types: { resize: {} } }));

describe('a worker function', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('reads its environment at its first invocation, not when it is loaded', async () => {
    const handler = worker({ resize: () => null });
    vi.stubEnv('FAIRLEAD_POOL', pool);
    vi.stubEnv('FAIRLEAD_TABLE', 'table');
    vi.stubEnv('AWS_REGION', 'us-east-1');
    expect(await handler(NOTHING, lambda)).toEqual({ batchItemFailures: [] });
  });

  it.each([
    ['FAIRLEAD_POOL', { FAIRLEAD_TABLE: 'table' }],
    ['FAIRLEAD_TABLE', { FAIRLEAD_POOL: pool }],
    ['FAIRLEAD_TABLE', { FAIRLEAD_POOL: pool, FAIRLEAD_TABLE: '' }],
  ])('says what is missing and who sets it: %s', async (name, set) => {
    vi.stubEnv('FAIRLEAD_POOL', undefined);
    vi.stubEnv('FAIRLEAD_TABLE', undefined);
    for (const [variable, value] of Object.entries(set)) vi.stubEnv(variable, value);
    const invoked = worker({})(NOTHING, lambda);
    await expect(invoked).rejects.toThrow(
      `${name} is not set: give the function to a fleet of the Scheduler construct`,
    );
    await expect(invoked).rejects.toMatchObject({ name: 'WorkerEnvironmentError' });
  });

  it('refuses a pool that cannot be read', async () => {
    vi.stubEnv('FAIRLEAD_POOL', 'nonsense');
    vi.stubEnv('FAIRLEAD_TABLE', 'table');
    await expect(worker({})(NOTHING, lambda)).rejects.toMatchObject({ name: 'ConfigurationError' });
  });
});
