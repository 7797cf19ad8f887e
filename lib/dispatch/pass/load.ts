/**
 * First step of a pass. It reads the partition, ends the pass if another dispatcher leads it or if its declaration is newer than
 * this process's, moves jobs for a newer declaration, and promotes due jobs and fires due schedules. Settlement follows.
 */
import { isJobId, type MovingJob } from '../../core/job.ts';
import {
  type DeclarationProgress,
  hasReached,
  isLedAt,
  type PartitionState,
} from '../../store/contract/records.ts';
import { Commits } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { moveForDeclaration } from '../partitions/carry.ts';
import { NO_OTHERS, type OtherPartitions } from '../partitions/handover.ts';
import { LOOK_AROUND_MS } from '../tuning.ts';
import { forgetUnlessAt } from '../view/partition-cache.ts';
import { fireDue, NOTHING_FIRED, readDueFirst } from './firing.ts';
import { NOTHING_DUE, type Promotion, promoteDue } from './promote.ts';
import type { LedPass, OutdatedPass, PassInput, PassScope } from './scope.ts';

export interface LoadedPass extends PassScope {
  readonly state: PartitionState;
  readonly commits: Commits;
  /**
   * How far this partition's jobs have been moved for a newer declaration, as this pass left it. Undefined: there was
   * nothing to move.
   */
  readonly carried: DeclarationProgress | undefined;
  /** Capacity and conflict keys that jobs in flight in other partitions hold, and that this partition must count. */
  readonly elsewhere: OtherPartitions;
  readonly due: Promotion;
}

/**
 * Loads the partition.
 * @throws CommitLostError if another commit came first
 */
export async function load(scope: PassScope): Promise<LoadedPass | LedPass | OutdatedPass> {
  const { context, input, partition, between, nowMs, cached } = scope;
  const { store, clock, deployed } = context;
  if (input.checksAll) cached.view.miss();
  else if (input.rereadsLines === true) cached.view.forget();
  const isLeading = input.leadBy !== undefined;
  const [state, found, dueEarly, recurring] = await Promise.all([
    store.loadPartition({ partition, nowMs }),
    lookUpStored(scope),
    // A leader promotes due jobs beside the load. Any other pass first finds out whether a leader exists.
    isLeading && input.promotes ? promoteDue(context, partition, nowMs) : NOTHING_DUE,
    input.fires ? readDueFirst(context, partition, nowMs) : undefined,
  ]);
  if (!isLeading && isLedAt(state.leader, clock.nowMs())) return { kind: 'led' };
  forgetUnlessAt(cached, state.version);
  const { view } = cached;
  view.sinceMs ??= nowMs;
  const newer = await newerDeclaration(context, partition, state);
  if (newer !== undefined) return { kind: 'outdated', version: newer };
  const commits = new Commits(store, partition, state.version, {
    counted: state.counted,
    lost: (error) =>
      context.log.warn('the statistics of a minute were lost', { partition, error: String(error) }),
  });
  const isAtRest = deployed === undefined || hasReached(deployed.version, state);
  const carried = isAtRest ? undefined : await moveForDeclaration(context, partition, commits, state);
  // The view has read the lines before jobs were moved to them.
  if (carried !== undefined) view.miss();
  openView(scope, state, carried !== undefined);
  const elsewhere =
    (await between?.readOtherPartitions(context, partition, commits, {
      carried: carried ?? state.carried,
      controls: state.controls,
      cached,
      freedKeys: cached.freedConflictKeys,
      nowMs,
      inBackground: input.inBackground,
    })) ?? NO_OTHERS;
  const dueLate = !isLeading && input.promotes ? await promoteDue(context, partition, nowMs) : NOTHING_DUE;
  // Schedules fire only once leader and declaration are known.
  const fired = recurring === undefined ? NOTHING_FIRED : await fireDue(context, partition, nowMs, recurring);
  const due = {
    promoted: [...dueEarly.promoted, ...dueLate.promoted, ...fired.jobs],
    overtaken: [...dueEarly.overtaken, ...dueLate.overtaken],
    strangers: [...dueEarly.strangers, ...dueLate.strangers],
    more: dueEarly.more || dueLate.more || fired.more,
  };
  return { ...scope, input: withLookedUp(input, found), state, commits, carried, elsewhere, due };
}

/**
 * Looks up the jobs that a hint named while they were still being stored, and returns those stored in this partition by now. The
 * stream will report those that are not stored yet or cannot be read.
 */
async function lookUpStored({ context, input, partition }: PassScope): Promise<readonly MovingJob[]> {
  const hinted = new Set(input.hints.map(({ id }) => id));
  // The store refuses an id that is not a valid key. Every pass would then fail until the letter with that id is deleted.
  const ids = new Set((input.jobIds ?? []).filter((id) => isJobId(id) && !hinted.has(id)));
  if (ids.size === 0) return [];
  const found = await context.store.lookUpJobs({ ids: [...ids], unreadable: () => {} });
  return found.filter((job) => job !== undefined).filter((job) => job.partition === partition);
}

/**
 * Adds the looked-up jobs to the hints. The lookup was strongly consistent, so a job that waits in it is stored, even if no line
 * shows it yet.
 */
function withLookedUp(input: PassInput, found: readonly MovingJob[]): PassInput {
  if (found.length === 0) return input;
  const stored = found.filter(({ state }) => state === 'pending').map(({ id }) => id);
  return {
    ...input,
    hints: [...input.hints, ...found],
    justStored: new Set([...(input.justStored ?? []), ...stored]),
  };
}

/**
 * Opens the view for this pass, and tells it how far reads of lines count: from `unseenUntilMs` on they miss nothing. `quiet` is
 * the summary's record that no job waited when a pass ended.
 */
function openView(
  { context, input, partition, between, nowMs, cached: { view } }: PassScope,
  { quiet, parks, unseenUntilMs }: PartitionState,
  isCarrying: boolean,
): void {
  const { configuration, deployed } = context;
  // Jobs that wait here but belong to another partition are found only by reading lines.
  const hasHiddenJobs = parks || (between?.haveKeysMoved(context, partition) ?? false);
  view.hasHiddenJobs = hasHiddenJobs;
  view.begin(unseenUntilMs, nowMs);
  if (quiet === undefined || hasHiddenJobs || isCarrying) return;
  if (input.checksAll || input.rereadsLines === true) return;
  if (quiet.declared !== deployed?.version || nowMs - quiet.lookedAtMs >= LOOK_AROUND_MS) return;
  view.assumeQuiet(configuration.types, quiet);
}

/**
 * Returns the version of the partition's declaration if it is newer than this process's; undefined if not. A process
 * with an older declaration must decide nothing, because that declaration may allow more. If the partition has the
 * older declaration, this writes the process's version into it.
 */
async function newerDeclaration(
  { store, deployed }: DispatchContext,
  partition: number,
  { declared = 0 }: PartitionState,
): Promise<number | undefined> {
  if (deployed === undefined) return undefined;
  // planted: older-declaration
  if (declared > deployed.version) return declared;
  // planted: untold-declaration
  if (declared < deployed.version) await store.announceDeclaration({ partition, version: deployed.version });
  return undefined;
}
