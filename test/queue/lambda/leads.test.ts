/** Asking for a function that leads, and what such an invocation says. */
import type { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { describe, expect, it } from 'vitest';
import { leadRequester, leadRequestIn } from '../../../lib/queue/lambda/leads.ts';

function scene() {
  const invoked: InvokeCommand['input'][] = [];
  const send = async ({ input }: InvokeCommand): Promise<object> => {
    invoked.push(input);
    return { StatusCode: 202 };
  };
  const lead = leadRequester({ client: { send } as unknown as LambdaClient, functionName: 'dispatch' });
  return { invoked, lead };
}

describe('asking for a function that leads', () => {
  it('is an asynchronous invocation that names the partition', async () => {
    const { invoked, lead } = scene();
    await lead(3);
    expect(invoked).toMatchObject([{ FunctionName: 'dispatch', InvocationType: 'Event' }]);
    expect(leadRequestIn(JSON.parse(Buffer.from(invoked[0]?.Payload as Uint8Array).toString()))).toBe(3);
  });

  it('asks for the first 32 partitions only', async () => {
    const { invoked, lead } = scene();
    for (const partition of [0, 31, 32, 255]) await lead(partition);
    expect(invoked).toHaveLength(2);
  });

  it('fails as Lambda does', async () => {
    const send = () => Promise.reject(new Error('not allowed'));
    const lead = leadRequester({ client: { send } as unknown as LambdaClient, functionName: 'dispatch' });
    await expect(lead(0)).rejects.toThrow('not allowed');
  });
});

describe('what asks to lead', () => {
  it.each([
    {},
    { asks: 'lead' },
    { asks: 'pass', partition: 0 },
    { partition: 0 },
    { asks: 'lead', partition: -1 },
    { asks: 'lead', partition: 1.5 },
    { asks: 'lead', partition: '0' },
    { asks: 'lead', partition: null },
    { 'detail-type': 'Scheduled Event' },
  ])('is not %j', (event) => {
    expect(leadRequestIn(event)).toBeUndefined();
  });
});
