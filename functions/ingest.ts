/** The ingest queue's messages become jobs; then one pass, so that an idle system need not wait for the stream. */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { dispatchAll } from '../lib/dispatch/dispatch.ts';
import { ingestJobRequests, jobMessageOf } from '../lib/operate/ingest.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';
import { ingestSchedules, scheduleMessageOf } from '../lib/schedules/ingest.ts';
import { ingest } from '../lib/submit/ingest.ts';
import { type Compose, composition } from './composition.ts';

export const ingesting =
  (compose: Compose) =>
  async (event: SQSEvent): Promise<SQSBatchResponse> => {
    const context = await compose();
    const about = event.Records.flatMap(
      ({ messageId, body, attributes }) =>
        scheduleMessageOf(messageId, body, attributes.AWSTraceHeader) ?? [],
    );
    const schedules = await ingestSchedules(context, about);
    const ofJobs = event.Records.flatMap(({ messageId, body }) => jobMessageOf(messageId, body) ?? []);
    const others = new Set([...about, ...ofJobs].map(({ messageId }) => messageId));
    const report = await ingest(
      context,
      event.Records.filter(({ messageId }) => !others.has(messageId)).map(
        ({ messageId, body, attributes }) => ({ messageId, body, traceHeader: attributes.AWSTraceHeader }),
      ),
    );
    // After what asks for jobs: they may be the jobs that it is about.
    const asked = await ingestJobRequests(context, ofJobs);
    const failedMessageIds = [
      ...schedules.failedMessageIds,
      ...report.failedMessageIds,
      ...asked.failedMessageIds,
    ];
    if (report.created.length > 0) {
      // The jobs are stored; whatever fails here, the stream brings the dispatch function to them.
      await dispatchAll(await compose(), { jobs: report.created, reason: 'ingest' }).catch((error: unknown) =>
        context.log.warn('the pass after ingest failed', { error: String(error) }),
      );
    }
    const rejected = report.rejected + schedules.rejected + asked.rejected;
    context.metrics?.add('rejected', rejected);
    context.log.info('ingested', {
      messages: event.Records.length,
      created: report.created.length,
      repeated: report.repeated,
      rejected,
      schedules: about.length,
      jobs: ofJobs.length,
      failed: failedMessageIds.length,
    });
    return { batchItemFailures: failedMessageIds.map((itemIdentifier) => ({ itemIdentifier })) };
  };

const { log, metrics, wrap } = lambdaEntry();
export const handler = wrap(ingesting(composition({ log, metrics })));
