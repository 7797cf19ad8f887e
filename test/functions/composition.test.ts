/** What the functions need of their environment, and say when it is missing. */
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { encodeConfiguration } from '../../lib/dispatch/configuration-codec.ts';

const ENVIRONMENT = {
  FAIRLEAD_POOL: encodeConfiguration(
    resolveConfiguration({ types: { resize: {} }, fairness: { weights: { big: 4 } } }),
  ),
  FAIRLEAD_TABLE: 'table',
  FAIRLEAD_BUS: 'bus',
  FAIRLEAD_QUEUES: '{"resize":"https://sqs/resize"}',
  FAIRLEAD_WAKE_QUEUE: 'https://sqs/wake',
  AWS_REGION: 'us-east-1',
} as const;

describe('the composition', () => {
  beforeEach(() => {
    vi.resetModules();
    for (const [name, value] of Object.entries(ENVIRONMENT)) vi.stubEnv(name, value);
  });
  afterEach(() => vi.unstubAllEnvs());

  const compose = async () => (await import('../../functions/composition.ts')).composition();

  it('is built from the environment, once for the life of the process', async () => {
    const { composition } = await import('../../functions/composition.ts');
    const built = composition();
    expect(built.configuration.types.map(({ type }) => type)).toEqual(['resize']);
    expect(composition()).toBe(built);
  });

  it('puts each key where clients put it', async () => {
    vi.stubEnv(
      'FAIRLEAD_POOL',
      encodeConfiguration(resolveConfiguration({ types: { resize: {} }, partitions: 16 })),
    );
    const { partitionOf } = await compose();
    expect(['', 'tenant-a', 'tenant-b'].map(partitionOf)).toEqual([10, 13, 7]);
  });

  it.each(['FAIRLEAD_POOL', 'FAIRLEAD_TABLE', 'FAIRLEAD_BUS', 'FAIRLEAD_QUEUES', 'FAIRLEAD_WAKE_QUEUE'])(
    'says that %s is missing, and who sets it',
    async (name) => {
      vi.stubEnv(name, '');
      await expect(compose()).rejects.toThrow(
        `${name} is not set; the Scheduler construct sets it: deploy the stack again`,
      );
    },
  );

  it.each(['7', 'null', '"text"'])('refuses queues that are no addresses by name: %s', async (queues) => {
    vi.stubEnv('FAIRLEAD_QUEUES', queues);
    await expect(compose()).rejects.toMatchObject({ name: 'FunctionEnvironmentError' });
  });
});
