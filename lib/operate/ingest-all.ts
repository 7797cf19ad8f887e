/** Ingests a batch of the ingest queue: requests for new jobs, requests about schedules, and requests about existing jobs. */
import { dispatchAll } from '../dispatch/dispatch.ts';
import type { DispatchContext } from '../dispatch/partition/context.ts';
import { ingestSchedules, type ScheduleIngestContext, scheduleMessageOf } from '../schedules/ingest.ts';
import { type IngestContext, type IngestMessage, ingest } from '../submit/ingest.ts';
import { ingestJobRequests, type JobIngestContext, jobMessageOf } from './ingest.ts';

export type IngestAllContext = DispatchContext & IngestContext & ScheduleIngestContext & JobIngestContext;

/**
 * Carries out the messages and makes one pass for the new jobs, so that an idle system need not wait for the table's
 * stream.
 *
 * @param compose - returns the context under the newest declaration
 * @returns ids of the messages that must be delivered again
 */
export async function ingestAll(
  compose: () => Promise<IngestAllContext>,
  messages: readonly IngestMessage[],
): Promise<readonly string[]> {
  const context = await compose();
  const ofSchedules = messages.flatMap(
    ({ messageId, body, traceHeader }) => scheduleMessageOf(messageId, body, traceHeader) ?? [],
  );
  const ofJobs = messages.flatMap((message) => jobMessageOf(message) ?? []);
  const others = new Set([...ofSchedules, ...ofJobs].map(({ messageId }) => messageId));
  const schedules = await ingestSchedules(context, ofSchedules);
  const submitted = await ingest(
    context,
    messages.filter(({ messageId }) => !others.has(messageId)),
  );
  // Requests about jobs come after the requests for new jobs, because the job may be among the new ones.
  const asked = await ingestJobRequests(context, ofJobs);
  if (submitted.created.length > 0) {
    // The jobs are stored. If this pass fails, the table's stream makes the dispatch function plan them.
    await dispatchAll(await compose(), { jobs: submitted.created, reason: 'ingest' }).catch(
      (error: unknown) => context.log.warn('the pass after ingest failed', { error: String(error) }),
    );
  }
  const rejected = submitted.rejected + schedules.rejected + asked.rejected;
  const failed = [schedules, submitted, asked].flatMap(({ failedMessageIds }) => failedMessageIds);
  context.metrics?.add('rejected', rejected);
  context.log.info('ingested', {
    messages: messages.length,
    created: submitted.created.length,
    repeated: submitted.repeated,
    rejected,
    schedules: ofSchedules.length,
    jobs: ofJobs.length,
    failed: failed.length,
  });
  return failed;
}
