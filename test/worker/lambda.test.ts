/** What a worker function needs of its environment, and says when it is missing. */
import type { Context, SQSEvent } from 'aws-lambda';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import { worker } from '../../lib/worker/lambda.ts';
import { aDeclaration, pretendDeclared } from '../fixtures/declared.ts';

const NOTHING = { Records: [] } as SQSEvent;
const lambda = {
  functionName: 'images',
  awsRequestId: 'request',
  getRemainingTimeInMillis: () => 3_000,
} as unknown as Context;
const declaration = aDeclaration(resolveConfiguration({ types: { resize: {} } }));

describe('a worker function', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  it('reads its environment and the declaration at its first invocation, not when it is loaded', async () => {
    const handler = worker({ resize: () => null });
    vi.stubEnv('FAIRLEAD_TABLE', 'table');
    vi.stubEnv('AWS_REGION', 'us-east-1');
    pretendDeclared(declaration);
    expect(await handler(NOTHING, lambda)).toEqual({ batchItemFailures: [] });
  });

  it.each([undefined, ''])('says what is missing and who sets it: a table that is %j', async (table) => {
    vi.stubEnv('FAIRLEAD_TABLE', table);
    const invoked = worker({ resize: () => null })(NOTHING, lambda);
    await expect(invoked).rejects.toThrow(
      'FAIRLEAD_TABLE is not set: make the function the handler of a fleet of the Scheduler construct',
    );
    await expect(invoked).rejects.toMatchObject({ name: 'EnvironmentError' });
  });

  it('refuses a table in which nothing is declared, and reads again with the next invocation', async () => {
    vi.stubEnv('FAIRLEAD_TABLE', 'table');
    vi.stubEnv('AWS_REGION', 'us-east-1');
    pretendDeclared(undefined);
    const handler = worker({ resize: () => null });
    await expect(handler(NOTHING, lambda)).rejects.toMatchObject({ name: 'MisconfiguredError' });
    pretendDeclared(declaration);
    expect(await handler(NOTHING, lambda)).toEqual({ batchItemFailures: [] });
  });
});
