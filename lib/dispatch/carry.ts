/**
 * After a redeploy: moves jobs that wait to where the new declaration wants them, a bounded step in each pass, until none is
 * left. How far it came stands beside the lease, so whoever makes the next pass goes on.
 *
 * Most of what a declaration says is not written into where a job waits: lines name type, mode and key, and a pass merges
 * the parts that a key names. Only parked jobs stand under something that may have changed: their type's conflict group.
 */
import { conflictKeyOf } from '../core/conflict.ts';
import { rankKey } from '../core/score.ts';
import { typesByName } from '../core/terms.ts';
import type { Carried, JobHead, PartitionState } from '../store/contract.ts';
import { behindGroup, blockedGroup, blockedRank } from '../store/schema.ts';
import { asSubmitter, type DispatchContext } from './context.ts';
import type { HeldLease } from './lease.ts';
import { putAnnounced } from './submit.ts';

/** One step. `lost`: somebody else has the partition. Undefined: there is nothing to do. */
export async function carry(
  context: DispatchContext,
  { fence }: HeldLease,
  state: PartitionState,
): Promise<Carried | 'lost' | undefined> {
  const { store, deployed, log } = context;
  if (deployed === undefined) return undefined;
  const { version } = deployed;
  const before: Carried =
    state.carried?.version === version ? state.carried : { version, moved: 0, isDone: false };
  if (before.isDone) return undefined;
  const step = state.parks ? await moveParked(context, fence.partition, before.after) : NOTHING;
  const carried: Carried = {
    version,
    moved: before.moved + step.moved,
    isDone: step.isDone,
    after: step.after,
  };
  if ((await store.noteCarried(fence, carried)) === 'lost') return 'lost';
  log.info('jobs were moved to where the declaration wants them', {
    partition: fence.partition,
    ...carried,
  });
  return carried;
}

interface Step {
  readonly moved: number;
  readonly isDone: boolean;
  readonly after?: string | undefined;
}

const NOTHING: Step = { moved: 0, isDone: true };

/** Jobs that are parked for another conflict key than their type has by now go back to their ready lines. */
async function moveParked(
  context: DispatchContext,
  partition: number,
  after: string | undefined,
): Promise<Step> {
  const { marks, next } = await context.store.listParked(partition, context.budget.carryMarks, after);
  const types = typesByName(context.configuration);
  let moved = 0;
  let isCut = false;
  for (const { conflictKey } of marks) {
    const jobs = await misplaced(context, types, partition, conflictKey);
    isCut ||= jobs.length >= context.budget.carryJobs;
    if (jobs.length === 0) continue;
    // Their lines may have been retired while they stood elsewhere.
    const outcomes = await putAnnounced(asSubmitter(context), jobs, () =>
      context.store.unpark(jobs, conflictKey),
    );
    moved += outcomes.filter((outcome) => outcome === 'applied').length;
  }
  // Where there were more than a step moves, the next one begins at the same conflict keys.
  return isCut ? { moved, isDone: false, after } : { moved, isDone: next === undefined, after: next };
}

/** Of a blocked line, jobs whose type has another conflict key by now. Those of a type that is gone may come back with it. */
async function misplaced(
  { store, configuration, budget }: DispatchContext,
  types: ReturnType<typeof typesByName>,
  partition: number,
  conflictKey: string,
): Promise<readonly JobHead[]> {
  const isMisplaced = (job: JobHead): boolean => {
    const type = types.get(job.type);
    return type !== undefined && conflictKeyOf(type.conflictGroup, job.resourceId) !== conflictKey;
  };
  const found = new Map<string, JobHead>();
  let from: string | undefined;
  for (;;) {
    const { jobs } = await store.readBlocked(partition, conflictKey, 1, from);
    const last = jobs.at(-1);
    if (last === undefined) return [...found.values()];
    const fresh = jobs.filter((job) => isMisplaced(job) && !found.has(job.id));
    for (const job of fresh) found.set(job.id, job);
    if (found.size >= budget.carryJobs) return [...found.values()];
    // Behind that job, in its group; of a group that stays, or whose ranks another declaration made, behind the group.
    const group = blockedGroup(last);
    const behind = `${blockedRank(last, rankKey(last, configuration.score))} `;
    const goesOn: boolean = fresh.length > 0 && behind > (from ?? '');
    from = goesOn ? behind : behindGroup(group);
  }
}
