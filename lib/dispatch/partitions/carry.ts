/**
 * Part of the load step after a redeploy: moves waiting jobs to where the new declaration wants them, one bounded step in each
 * pass. The progress stands in the partition summary, so the next pass continues it.
 *
 * Most of a declaration does not affect where a job waits, because lines name type, mode and key only. Parked jobs are the first
 * exception: they stand under a conflict key, which depends on their type's conflict group. The second is a changed number of
 * partitions: jobs may then be in partitions to which their keys no longer belong.
 */
import type { Control } from '../../core/capacity.ts';
import { typesByName } from '../../core/conflict.ts';
import { partitionOf } from '../../core/partition.ts';
import { nameIn, parkingKeysFor } from '../../core/scope.ts';
import { rankKey } from '../../core/score.ts';
import type { DeclarationState } from '../../declaration/declaration.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { blockedGroup, blockedRank, endOfGroup } from '../../store/contract/lines.ts';
import { type DeclarationProgress, hasReached, type PartitionState } from '../../store/contract/records.ts';
import { storeAnnounced, submitContextOf } from '../../submit/submit.ts';
import { type Commits, EMPTY_COMMIT } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import {
  belongsTo,
  haveKeysMoved,
  type InFlight,
  idsInFlight,
  inFlightOf,
  moveMisplacedStep,
  moveToOwnPartition,
  type WalkCursor,
} from './rehome.ts';

/**
 * Makes one step of moving jobs to where the new declaration wants them. Undefined: nothing is left to do.
 *
 * @throws CommitLostError if another commit came first
 */
export async function moveForDeclaration(
  context: DispatchContext,
  partition: number,
  commits: Commits,
  state: PartitionState,
): Promise<DeclarationProgress | undefined> {
  const { deployed, log } = context;
  if (deployed === undefined) return undefined;
  if (hasReached(deployed.version, state)) return undefined;
  const known = state.carried?.version === deployed.version ? state.carried : undefined;
  const before = known ?? adoptionOf(deployed, commits.version, state);
  if (known === undefined && before.sinceVersion === commits.version + 1) {
    await shareControls(context, partition, state);
    // The note is written before any job moves. Every later pass reads it and plans no job of another partition's key, so only
    // the reservations that were loaded can ever count such a job here.
    await commits.write({ ...EMPTY_COMMIT, carried: before });
  }
  const step = await moveNext(context, partition, state, before, inFlightOf(idsInFlight(state), commits));
  const carried: DeclarationProgress = {
    ...before,
    moved: before.moved + step.moved,
    // planted: carry-one-step
    isDone: step.isDone,
    // planted: steps-from-the-front
    after: step.after,
  };
  await commits.write({ ...EMPTY_COMMIT, carried });
  log.info('jobs were moved to where the declaration wants them', { partition, ...carried });
  return carried;
}

/** Returns the note that the partition works under this declaration from now on. Its next commit writes it. */
function adoptionOf(
  { version, sharedSince }: Pick<DeclarationState, 'version' | 'sharedSince'>,
  commitVersion: number,
  { carried }: Pick<PartitionState, 'carried'>,
): DeclarationProgress {
  const fresh = { version, moved: 0, isDone: false };
  if (sharedSince === 0) return fresh;
  // Shared capacity has changed since the declaration that this partition adopted last, so a handover begins. Everything reserved
  // from now on follows the version that this commit makes.
  // planted: handover-again
  if (carried === undefined || carried.version < sharedSince)
    return { ...fresh, sinceVersion: commitVersion + 1 };
  // Shared capacity has not changed, so the note of the last handover still holds.
  const { sinceVersion, isHandedOver } = carried;
  return {
    ...fresh,
    ...(sinceVersion === undefined ? {} : { sinceVersion }),
    ...(isHandedOver === true ? { isHandedOver } : {}),
  };
}

/**
 * Copies controls to the partitions where the new declaration needs them. A key's control is copied to the key's partition; all
 * others are copied from the first partition, which exists under every declaration. This happens before the partition notes that
 * it has adopted the declaration, and until then the other partitions start nothing. A control that an operator changes meanwhile
 * is not lost: `operate.ts` afterwards checks for other partitions, and writes it again.
 */
async function shareControls(
  { store, configuration, clock }: DispatchContext,
  partition: number,
  state: PartitionState,
): Promise<void> {
  const keyOf = ({ scope }: Control): string | undefined => nameIn('fairnessKey', scope);
  for (const control of state.controls) {
    const fairnessKey = keyOf(control);
    if (fairnessKey === undefined) continue;
    const home = partitionOf(fairnessKey, configuration.partitions);
    // planted: controls-left
    if (home !== partition) await store.adoptControl({ partition: home, control });
  }
  if (partition === 0) return;
  const { controls } = await store.loadPartition({
    partition: 0,
    nowMs: clock.nowMs(),
    withoutLedgers: true,
  });
  const known = new Set(state.controls.map(({ scope }) => scope));
  for (const control of controls)
    if (keyOf(control) === undefined && !known.has(control.scope))
      await store.adoptControl({ partition, control });
}

/** First characters of a cursor into the keys lines. No cursor into the parked jobs begins with them. */
const WALK = 'walk ';

/** Makes one step of moving jobs: first parked jobs, then jobs of keys that belong to another partition. */
async function moveNext(
  context: DispatchContext,
  partition: number,
  { parks }: Pick<PartitionState, 'parks'>,
  { after }: DeclarationProgress,
  inFlight: InFlight,
): Promise<Step> {
  const isWalk = after?.startsWith(WALK) === true;
  // planted: no-carry
  if (!isWalk && parks) {
    const step = await moveParked(context, partition, inFlight, after);
    return step.isDone && haveKeysMoved(context, partition)
      ? { moved: step.moved, isDone: false, after: WALK }
      : step;
  }
  const from = isWalk && after !== WALK ? (JSON.parse(after.slice(WALK.length)) as WalkCursor) : undefined;
  const { moved, next } = await moveMisplacedStep(context, partition, inFlight, from);
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
 * Moves parked jobs: back to their ready lines if the new declaration gives their type another conflict key, and to another
 * partition's ready lines if their fairness key belongs to it.
 */
async function moveParked(
  context: DispatchContext,
  partition: number,
  inFlight: InFlight,
  after: string | undefined,
): Promise<Step> {
  const { marks, next } = await context.store.listParked({
    partition,
    limit: context.budget.carryMarks,
    after,
  });
  const types = typesByName(context.configuration);
  const lives = belongsTo(context, partition);
  let moved = 0;
  let isCut = false;
  for (const { conflictKey } of marks) {
    const found = await misplaced(context, types, partition, conflictKey);
    isCut ||= found.length >= context.budget.carryJobs;
    // planted: held-and-moved
    const strangers = found.filter((job) => !lives(job) && !inFlight.held.has(job.id));
    if (strangers.length > 0) moved += await moveToOwnPartition(context, strangers, inFlight);
    const jobs = found.filter(lives);
    if (jobs.length === 0) continue;
    // The ready lines may have been retired while these jobs were parked, so they are announced again.
    const outcomes = await storeAnnounced(submitContextOf(context), jobs, () =>
      context.store.unpark({ jobs, conflictKey }),
    );
    moved += outcomes.filter((outcome) => outcome === 'applied').length;
  }
  // There were more jobs than one step moves, so the next step begins at the same conflict keys.
  return isCut ? { moved, isDone: false, after } : { moved, isDone: next === undefined, after: next };
}

/**
 * Returns the jobs of a blocked line that must move: their type has another conflict key under the new declaration, or
 * their fairness key belongs to another partition. Jobs of a removed type stay, because a later declaration may bring
 * the type back.
 */
async function misplaced(
  context: DispatchContext,
  types: ReturnType<typeof typesByName>,
  partition: number,
  conflictKey: string,
): Promise<readonly JobHead[]> {
  const { store, configuration, budget } = context;
  const lives = belongsTo(context, partition);
  const isMisplaced = (job: JobHead): boolean => {
    if (!lives(job)) return true;
    const type = types.get(job.type);
    return type !== undefined && !parkingKeysFor(configuration, job).includes(conflictKey);
  };
  const found = new Map<string, JobHead>();
  let from: string | undefined;
  for (;;) {
    const { jobs } = await store.readBlocked({ partition, conflictKey, groups: 1, after: from });
    const last = jobs.at(-1);
    if (last === undefined) return [...found.values()];
    const fresh = jobs.filter((job) => isMisplaced(job) && !found.has(job.id));
    for (const job of fresh) found.set(job.id, job);
    if (found.size >= budget.carryJobs) return [...found.values()];
    // The next read begins behind the last job that was read. If the read showed no new job, it begins behind that job's whole group.
    const group = blockedGroup(last);
    const behind = `${blockedRank(last, rankKey(last, configuration.score))} `;
    from = fresh.length > 0 ? behind : endOfGroup(group);
  }
}
