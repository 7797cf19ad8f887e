/** First step: the partition as it is, under a declaration that is not older than the partition's, and what is due by now. */
import { isJobId, type MovingJob } from '../../core/job.ts';
import { type Carried, isCarriedTo, type Leader, type PartitionState } from '../../store/contract/records.ts';
import { Commits } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { carry } from '../partitions/carry.ts';
import { type Elsewhere, NOTHING_ELSEWHERE } from '../partitions/handover.ts';
import { LOOK_AROUND_MS } from '../tuning.ts';
import { forgetUnlessAt } from '../view/partition-cache.ts';
import { fireDue, NOTHING_FIRED, readDueFirst } from './firing.ts';
import { NOTHING_DUE, type Promotion, promoteDue } from './promote.ts';
import type { LedPass, OutdatedPass, PassInput, PassScope } from './scope.ts';

export interface LoadedPass extends PassScope {
  readonly state: PartitionState;
  readonly commits: Commits;
  /** What this pass moved for a newer declaration; undefined: there was nothing to move. */
  readonly carried: Carried | undefined;
  /** What other partitions have in flight that this one must count. */
  readonly elsewhere: Elsewhere;
  readonly due: Promotion;
}

/** Whether another dispatcher leads a partition. */
export const isLedBy = (leader: Leader | undefined, leadBy: string | undefined, nowMs: number): boolean =>
  leader !== undefined && leader.holder !== leadBy && leader.untilMs > nowMs;

/** @throws CommitLostError if another commit came first */
export async function load(scope: PassScope): Promise<LoadedPass | LedPass | OutdatedPass> {
  const { context, input, partition, between, nowMs, cached } = scope;
  const { store, clock, deployed } = context;
  if (input.looksAtAll) cached.view.miss();
  else if (input.readsAnew === true) cached.view.forget();
  const isLeading = input.leadBy !== undefined;
  const [state, found, dueEarly, recurring] = await Promise.all([
    store.loadPartition({ partition, nowMs }),
    lookUpTold(scope),
    // A leader has the partition's due work to itself; any other pass finds out first whether another dispatcher leads.
    isLeading && input.promotes ? promoteDue(context, partition, nowMs) : NOTHING_DUE,
    input.fires ? readDueFirst(context, partition, nowMs) : undefined,
  ]);
  if (!isLeading && isLedBy(state.leader, undefined, clock.nowMs())) return { kind: 'led' };
  forgetUnlessAt(cached, state.version);
  const { view } = cached;
  view.sinceMs ??= nowMs;
  const newer = await newerDeclaration(context, partition, state);
  if (newer !== undefined) return { kind: 'outdated', version: newer };
  const commits = new Commits(store, partition, state.version);
  const isAtRest = deployed === undefined || isCarriedTo(deployed.version, state);
  const carried = isAtRest ? undefined : await carry(context, partition, commits, state);
  // What was moved stands where no pass has read it.
  if (carried !== undefined) view.miss();
  watch(scope, state, carried !== undefined);
  const elsewhere =
    (await between?.lookElsewhere(context, partition, commits, {
      carried: carried ?? state.carried,
      controls: state.controls,
      cached,
      letGo: cached.letGo,
      nowMs,
      inBackground: input.inBackground,
    })) ?? NOTHING_ELSEWHERE;
  const dueLate = !isLeading && input.promotes ? await promoteDue(context, partition, nowMs) : NOTHING_DUE;
  // Not before it is known who leads, and what is declared.
  const fired = recurring === undefined ? NOTHING_FIRED : await fireDue(context, partition, nowMs, recurring);
  const due = {
    promoted: [...dueEarly.promoted, ...dueLate.promoted, ...fired.jobs],
    overtaken: [...dueEarly.overtaken, ...dueLate.overtaken],
    strangers: [...dueEarly.strangers, ...dueLate.strangers],
    more: dueEarly.more || dueLate.more || fired.more,
  };
  return { ...scope, input: withFound(input, found), state, commits, carried, elsewhere, due };
}

/**
 * The jobs that it was told of which stand here by now. Of those that are still being stored, and of those that cannot be read,
 * the stream tells.
 */
async function lookUpTold({ context, input, partition }: PassScope): Promise<readonly MovingJob[]> {
  const hinted = new Set(input.hints.map(({ id }) => id));
  // One that can be no key would be refused, and with it each pass until its letter is deleted.
  const ids = new Set((input.told ?? []).filter((id) => isJobId(id) && !hinted.has(id)));
  if (ids.size === 0) return [];
  const found = await context.store.lookUpJobs({ ids: [...ids], unreadable: () => {} });
  return found.filter((job) => job !== undefined).filter((job) => job.partition === partition);
}

/** What was looked up was read strongly consistent: a job that waits then has been stored, though no line may show it yet. */
function withFound(input: PassInput, found: readonly MovingJob[]): PassInput {
  if (found.length === 0) return input;
  const stored = found.filter(({ state }) => state === 'pending').map(({ id }) => id);
  return {
    ...input,
    hints: [...input.hints, ...found],
    justStored: new Set([...(input.justStored ?? []), ...stored]),
  };
}

/** What the lines may be trusted for: from when on reads show everything, and whether nothing waited when the last pass ended. */
function watch(
  { context, input, partition, between, nowMs, cached: { view } }: PassScope,
  { quiet, parks, unseenUntilMs }: PartitionState,
  isCarrying: boolean,
): void {
  const { configuration, deployed } = context;
  // What waits in this partition and lives in another is found by reading only.
  const isBlind = parks || (between?.haveKeysMoved(context, partition) ?? false);
  view.isBlind = isBlind;
  view.begin(unseenUntilMs, nowMs);
  if (quiet === undefined || isBlind || isCarrying || input.looksAtAll || input.readsAnew === true) return;
  if (quiet.declared !== deployed?.version || nowMs - quiet.lookedAtMs >= LOOK_AROUND_MS) return;
  view.assumeQuiet(configuration.types, quiet);
}

/**
 * The version of the declaration that the partition has come to, if it is newer than this process's. Nothing of an older
 * one is decided from then on: it may allow what a newer one does not. A partition that is behind is told.
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
