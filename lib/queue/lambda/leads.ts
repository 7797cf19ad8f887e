/**
 * Asks for a function that leads a partition for a while, as an asynchronous invocation that a dispatch function makes of itself. Not as a
 * message of the wake queue: its pollers would have one batch less for what is due, for as long as the function leads.
 */
import { InvokeCommand, LambdaClient, type LambdaClientConfig } from '@aws-sdk/client-lambda';
import { LED_PARTITIONS_MAX } from '../../core/partition.ts';
import { withoutLineage } from '../lineage.ts';

/** Whoever asks waits for the answer before its invocation ends, and a network may have no way to Lambda: it asks again later. */
const REQUESTS = {
  maxAttempts: 1,
  requestHandler: { connectionTimeout: 500, requestTimeout: 1_000, throwOnRequestTimeout: true },
} as const satisfies LambdaClientConfig;

export const lambdaForLeads = (): LambdaClient => withoutLineage(new LambdaClient(REQUESTS));

export interface LeadsOptions {
  readonly client: Pick<LambdaClient, 'send'>;
  readonly functionName: string;
}

/** @throws what Lambda answers */
export const askingToLead =
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

/** The partition that such an invocation is to lead; undefined: it is another one. */
export function leadIn(event: object): number | undefined {
  if (!('asks' in event && event.asks === 'lead' && 'partition' in event)) return undefined;
  const { partition } = event;
  return Number.isSafeInteger(partition) && Number(partition) >= 0 ? Number(partition) : undefined;
}
