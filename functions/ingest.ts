/** The ingest function. It handles messages of the ingest queue, which the bus fills. */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { ingestAll } from '../lib/operate/ingest-all.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { type Compose, composition } from './composition.ts';

export const ingesting =
  (compose: Compose) =>
  async ({ Records }: SQSEvent): Promise<SQSBatchResponse> => {
    const failed = await ingestAll(
      compose,
      Records.map(({ messageId, body, attributes }) => ({
        messageId,
        body,
        traceHeader: attributes.AWSTraceHeader,
        // An emulator may leave it out.
        receivedAtMs: Number(attributes.ApproximateFirstReceiveTimestamp) || undefined,
      })),
    );
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };

const { log, metrics, wrap } = lambdaEntry();
export const handler = wrap(ingesting(composition({ log, metrics }, { takesPayloads: true })));
