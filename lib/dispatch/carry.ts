/**
 * After a redeploy: moves jobs that wait to where the new declaration wants them, a bounded step in each pass, until none is
 * left. How far it came stands beside the lease, so whoever makes the next pass goes on.
 *
 * Most of what a declaration says is not written into where a job waits: lines name type, mode and key, and a pass merges
 * the parts that a key names. Parked jobs stand under something that may have changed: their type's conflict group. And where
 * the number of partitions has changed, jobs stand in partitions where their keys do not live any more.
 */
import { conflictKeyOf } from '../core/conflict.ts';
import { partitionOf } from '../core/partition.ts';
import { rankKey } from '../core/score.ts';
import { typesByName } from '../core/terms.ts';
import type { Carried, Control, JobHead, PartitionState } from '../store/contract.ts';
import { behindGroup, blockedGroup, blockedRank } from '../store/schema.ts';
import { asSubmitter, type DispatchContext } from './context.ts';
import type { Deployed } from './declaration.ts';
import type { HeldLease } from './lease.ts';
import { haveKeysMoved, heldIn, livesIn, sendHome, type Walk, walkHome } from './rehome.ts';
import { putAnnounced } from './submit.ts';

/** One step. `lost`: somebody else has the partition. Undefined: there is nothing to do. */
export async function carry(
  context: DispatchContext,
  { fence }: HeldLease,
  state: PartitionState,
): Promise<Carried | 'lost' | undefined> {
  const { store, deployed, log } = context;
  if (deployed === undefined) return undefined;
  const isKnown = state.carried?.version === deployed.version;
  if (isKnown && state.carried?.isDone === true) return undefined;
  const before = isKnown && state.carried !== undefined ? state.carried : begin(deployed, fence.epoch, state);
  if (!isKnown && before.sinceEpoch === fence.epoch) await shareControls(context, fence.partition, state);
  const step = await moveSome(context, fence.partition, state, before);
  const carried: Carried = {
    ...before,
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

/** A partition comes to a declaration. */
function begin(
  { version, sharedSince }: Pick<Deployed, 'version' | 'sharedSince'>,
  epoch: number,
  { carried }: Pick<PartitionState, 'carried'>,
): Carried {
  const fresh = { version, moved: 0, isDone: false };
  if (sharedSince === 0) return fresh;
  // What the partitions share is what it was when this one came to an earlier declaration.
  if (carried === undefined || carried.version < sharedSince) return { ...fresh, sinceEpoch: epoch };
  const { sinceEpoch, isHandedOver } = carried;
  return {
    ...fresh,
    ...(sinceEpoch === undefined ? {} : { sinceEpoch }),
    ...(isHandedOver === true ? { isHandedOver } : {}),
  };
}

/**
 * Controls go to where they are to hold by now: those of keys to the partitions where the keys live, and all others come from
 * the first partition, which there always was. Before this partition notes that it has come: until then the others start nothing.
 * Whoever changes one at the same time looks afterwards which partitions there are (`operate.ts`).
 */
async function shareControls(
  { store, configuration, clock }: DispatchContext,
  partition: number,
  state: PartitionState,
): Promise<void> {
  const isOfKey = ({ scope }: Control): boolean => scope.startsWith(KEY_SCOPE);
  for (const control of state.controls.filter(isOfKey)) {
    const home = partitionOf(control.scope.slice(KEY_SCOPE.length), configuration.partitions);
    if (home !== partition) await store.adoptControl(home, control);
  }
  if (partition === 0) return;
  const { controls } = await store.loadPartition(0, clock.nowMs());
  const known = new Set(state.controls.map(({ scope }) => scope));
  for (const control of controls)
    if (!isOfKey(control) && !known.has(control.scope)) await store.adoptControl(partition, control);
}

const KEY_SCOPE = 'key/';
/** What the cursor of a walk through the keys lines begins with; that of the parked jobs never does. */
const WALK = 'walk ';

/** Parked jobs first, then those in the lines of keys that live somewhere else. */
async function moveSome(
  context: DispatchContext,
  partition: number,
  state: PartitionState,
  { after }: Carried,
): Promise<Step> {
  const isWalk = after?.startsWith(WALK) === true;
  if (!isWalk && state.parks) {
    const step = await moveParked(context, partition, heldIn(state), after);
    return step.isDone && haveKeysMoved(context, partition)
      ? { moved: step.moved, isDone: false, after: WALK }
      : step;
  }
  const from = isWalk && after !== WALK ? (JSON.parse(after.slice(WALK.length)) as Walk) : undefined;
  const { moved, next } = await walkHome(context, partition, heldIn(state), from);
  return next === undefined
    ? { moved, isDone: true }
    : { moved, isDone: false, after: `${WALK}${JSON.stringify(next)}` };
}

interface Step {
  readonly moved: number;
  readonly isDone: boolean;
  readonly after?: string | undefined;
}

/**
 * Jobs that are parked for another conflict key than their type has by now go back to their ready lines, and those of keys that
 * live somewhere else to the lines there.
 */
async function moveParked(
  context: DispatchContext,
  partition: number,
  held: ReadonlySet<string>,
  after: string | undefined,
): Promise<Step> {
  const { marks, next } = await context.store.listParked(partition, context.budget.carryMarks, after);
  const types = typesByName(context.configuration);
  const lives = livesIn(context, partition);
  let moved = 0;
  let isCut = false;
  for (const { conflictKey } of marks) {
    const found = await misplaced(context, types, partition, conflictKey);
    isCut ||= found.length >= context.budget.carryJobs;
    const strangers = found.filter((job) => !lives(job) && !held.has(job.id));
    if (strangers.length > 0) moved += await sendHome(context, strangers);
    const jobs = found.filter(lives);
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

/** Of a blocked line, jobs whose type has another conflict key by now, or whose key lives somewhere else. Those of a type that is gone may come back with it. */
async function misplaced(
  context: DispatchContext,
  types: ReturnType<typeof typesByName>,
  partition: number,
  conflictKey: string,
): Promise<readonly JobHead[]> {
  const { store, configuration, budget } = context;
  const lives = livesIn(context, partition);
  const isMisplaced = (job: JobHead): boolean => {
    if (!lives(job)) return true;
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
