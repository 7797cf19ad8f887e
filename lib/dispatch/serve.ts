/**
 * Serves the requests of a dispatch function: stream batches, wakes, ticks, and requests to lead. Each ends in passes
 * (`dispatch.ts`), in a check of the workers (`look-at-workers.ts`), or in a lead.
 */
import { isTerminal, type MovingJob } from '../core/job.ts';
import type { PassWake, WorkerCheck } from '../queue/message.ts';
import type { JobChange, StreamChanges } from '../store/contract/records.ts';
import { dispatchAll, leadWhileBusy, type WakeTrigger } from './dispatch.ts';
import { lookAtWorkers } from './look-at-workers.ts';
import { type PublishContext, publishOrKeep, publishWaiting } from './outcomes.ts';
import type { DispatchContext } from './partition/context.ts';

export type DispatchRequest =
  /** Records of the table's stream. */
  | ({ readonly kind: 'changes' } & StreamChanges)
  | {
      readonly kind: 'wakes';
      readonly passes: readonly PassWake[];
      readonly workerChecks: readonly WorkerCheck[];
      /** Whether to wake all partitions, too. @default false */
      readonly wakesAll?: boolean;
    }
  /** The minute's tick. */
  | { readonly kind: 'tick' }
  | { readonly kind: 'lead'; readonly partition: number };

export type ServeContext = DispatchContext & PublishContext;

/**
 * Serves one request.
 * @throws the first failure, once all work that was begun has ended. The caller must then have the request delivered again
 */
export async function serve(context: ServeContext, request: DispatchRequest): Promise<void> {
  switch (request.kind) {
    case 'changes':
      return serveChanges(context, request);
    case 'lead':
      await leadWhileBusy(context, request.partition);
      return;
    case 'tick':
      return allOf([dispatchAll(context, { jobs: [], reason: 'tick' }), publishWaiting(context)]);
    case 'wakes': {
      const { passes, workerChecks, wakesAll = false } = request;
      const triggers: readonly WakeTrigger[] = wakesAll
        ? [...triggersOf(passes), { jobs: [], reason: 'wake' }]
        : triggersOf(passes);
      return allOf([
        ...triggers.map((trigger) => dispatchAll(context, trigger)),
        ...workerChecks.map(({ partition, atMs }) => lookAtWorkers(context, partition, atMs)),
      ]);
    }
  }
}

async function allOf(work: readonly Promise<unknown>[]): Promise<void> {
  for (const end of await Promise.allSettled(work)) if (end.status === 'rejected') throw end.reason;
}

/** Merges wakes that arrived together into one trigger for each partition. */
export function triggersOf(wakes: readonly PassWake[]): readonly WakeTrigger[] {
  return Array.from(
    Map.groupBy(wakes, ({ partition }) => partition),
    ([partition, ofPartition]): WakeTrigger => {
      const jobIds = ofPartition.flatMap((wake) => wake.jobIds ?? []);
      const others = ofPartition.filter((wake) => wake.jobIds === undefined);
      /** The trigger has the latest due time that these wakes announce. */
      const dueAtMs = Math.max(...others.map((wake) => wake.dueAtMs ?? -Infinity));
      return {
        jobs: [],
        reason: others.length > 0 ? 'wake' : 'stored',
        partitions: [partition],
        ...(jobIds.length > 0 ? { jobIds } : {}),
        ...(dueAtMs === -Infinity ? {} : { dueAtMs }),
        ...(others.length > 0 && others.every((wake) => wake.dueAtMs !== undefined)
          ? { isForDue: true }
          : {}),
      };
    },
  );
}

async function serveChanges(
  context: ServeContext,
  { jobs: changes, schedules }: StreamChanges,
): Promise<void> {
  if (changes.length === 0 && schedules.length === 0) return;
  const jobs = changes.map(({ job }) => job);
  countTransitions(context, changes);
  const [published, passed] = await Promise.allSettled([
    publishOrKeep(context, { jobs, schedules }),
    jobs.length === 0 ? [] : dispatchAll(context, { jobs, reason: 'stream' }),
  ]);
  // A failure is thrown, because it is unknown which record caused it, and the whole batch may be delivered again.
  if (published.status === 'rejected') throw published.reason;
  if (passed.status === 'rejected') await askForAnother(context, jobs, passed.reason);
}

/** Counts the jobs' transitions. A batch that is delivered again is counted again. */
function countTransitions({ metrics }: ServeContext, changes: readonly JobChange[]): void {
  for (const { job, before } of changes) {
    const { type, state } = job;
    if (before === undefined) metrics?.add('submitted', 1, { type });
    else if (before === state) continue;
    else if (isTerminal(state)) metrics?.add(state, 1, { type });
    else if (before === 'running') metrics?.add('retried', 1, { type });
  }
}

/**
 * Asks for another pass if the one for a stream batch has failed. The batch then need not be delivered again, which would publish
 * all its outcomes a second time. A letter gives the other pass the jobs.
 *
 * @throws the pass's error if the letter or the wake fails too
 */
async function askForAnother(
  context: ServeContext,
  jobs: readonly MovingJob[],
  reason: unknown,
): Promise<void> {
  context.log.warn('a pass failed; another one is asked for', { error: String(reason) });
  try {
    for (const [partition, ofPartition] of Map.groupBy(jobs, (job) => job.partition)) {
      // The letter is written before the wake is sent, because the woken dispatcher reads letters.
      await context.store.putLetter({
        partition,
        letter: { hints: ofPartition },
        nowMs: context.clock.nowMs(),
      });
      await context.queue.sendWake({ partition });
    }
  } catch {
    throw reason;
  }
}
