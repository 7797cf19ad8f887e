/** The ingest queue's messages become jobs; then one pass, so that an idle system need not wait for the stream. */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { dispatchAll } from '../lib/dispatch/dispatch.ts';
import { ingest } from '../lib/dispatch/ingest.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { type Compose, composition } from './composition.ts';

export const ingesting =
  (compose: Compose) =>
  async (event: SQSEvent): Promise<SQSBatchResponse> => {
    const context = await compose();
    const report = await ingest(
      context,
      event.Records.map(({ messageId, body }) => ({ messageId, body })),
    );
    if (report.created.length > 0) {
      // The jobs are stored; whatever fails here, the stream brings the dispatch function to them.
      await dispatchAll(await compose(), { jobs: report.created, reason: 'ingest' }).catch((error: unknown) =>
        context.log.warn('the pass after ingest failed', { error: String(error) }),
      );
    }
    context.log.info('ingested', {
      messages: event.Records.length,
      created: report.created.length,
      repeated: report.repeated,
      rejected: report.rejected,
      failed: report.failedMessageIds.length,
    });
    return { batchItemFailures: report.failedMessageIds.map((itemIdentifier) => ({ itemIdentifier })) };
  };

const { log, wrap } = lambdaEntry();
export const handler = wrap(ingesting(composition(log)));
