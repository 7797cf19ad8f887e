/** What the bus is told: one event for each job that reached its end, made from the item's own transition. */
import { isTerminal, type Job } from '../core/job.ts';
import type { EventBus, JobOutcomeDetail, OutcomeEvent } from '../events/contract.ts';

function detailOf(job: Job): JobOutcomeDetail {
  const { id, version, type, state, fairnessKey, resourceId, attempt } = job;
  const { submittedAtMs, startedAtMs, finishedAtMs, result, error } = job;
  return {
    id,
    version,
    type,
    state,
    fairnessKey,
    ...(resourceId === undefined ? {} : { resourceId }),
    attempt,
    submittedAtMs,
    ...(startedAtMs === undefined ? {} : { startedAtMs }),
    ...(finishedAtMs === undefined ? {} : { finishedAtMs }),
    ...(result === undefined ? {} : { result }),
    ...(error === undefined ? {} : { error }),
  };
}

/** Thrown when the bus did not take every event: the stream's batch must come again. */
export class OutcomesUnpublishedError extends Error {
  override readonly name = 'OutcomesUnpublishedError';
}

/**
 * Publishes the outcome of every terminal job among these images. At least once: a batch that comes again is
 * published again, and `id` with `version` tells the copies apart.
 *
 * @throws OutcomesUnpublishedError
 */
export async function publishOutcomes(events: EventBus, jobs: readonly Job[]): Promise<number> {
  const outcomes: OutcomeEvent[] = jobs
    // Redriving notes something on a job whose outcome was published long ago.
    .filter((job) => isTerminal(job.state) && job.redrivenAs === undefined)
    .map((job) => ({ kind: 'outcome', detail: detailOf(job) }));
  if (outcomes.length === 0) return 0;
  const unsent = await events.publish(outcomes);
  if (unsent.length > 0) {
    throw new OutcomesUnpublishedError(
      `the bus did not take ${unsent.length} of ${outcomes.length} outcome events; the stream will bring them again`,
    );
  }
  return outcomes.length;
}
