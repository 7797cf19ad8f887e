/**
 * Requests a function that leads a partition for a while. The dispatch function invokes itself asynchronously for this.
 * A message of the wake queue would occupy one of the queue's pollers for as long as the function leads.
 */
import { InvokeCommand, LambdaClient, type LambdaClientConfig } from '@aws-sdk/client-lambda';
import { LED_PARTITIONS_MAX } from '../../core/partition.ts';
import { withoutTraceHeader } from '../lineage.ts';

/**
 * Timeouts of the request. The caller waits for the answer before its own invocation ends, and its network may block
 * Lambda's API. So a request fails fast, and the caller asks again later.
 */
const REQUESTS = {
  maxAttempts: 1,
  requestHandler: { connectionTimeout: 500, requestTimeout: 1_000, throwOnRequestTimeout: true },
} as const satisfies LambdaClientConfig;

export const leadClient = (): LambdaClient => withoutTraceHeader(new LambdaClient(REQUESTS));

export interface LeadsOptions {
  readonly client: Pick<LambdaClient, 'send'>;
  readonly functionName: string;
}

/**
 * Returns a function that asks for a function to lead a partition.
 * @throws Lambda's error
 */
export const leadRequester =
  ({ client, functionName }: LeadsOptions) =>
  async (partition: number): Promise<void> => {
    if (partition >= LED_PARTITIONS_MAX) return;
    await client.send(
      new InvokeCommand({
        FunctionName: functionName,
        InvocationType: 'Event',
        Payload: Buffer.from(JSON.stringify({ asks: 'lead', partition })),
      }),
    );
  };

/** Returns the partition that the invoked function is to lead; undefined: the event asks for something else. */
export function leadRequestIn(event: object): number | undefined {
  if (!('asks' in event && event.asks === 'lead' && 'partition' in event)) return undefined;
  const { partition } = event;
  return Number.isSafeInteger(partition) && Number(partition) >= 0 ? Number(partition) : undefined;
}
