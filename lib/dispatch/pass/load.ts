/** First step: the partition as it is, under a declaration that is not older than the partition's, and what is due by now. */
import { isJobId, type MovingJob } from '../../core/job.ts';
import {
  type Carried,
  isCarriedTo,
  type NamedJob,
  type PartitionState,
  type Reservation,
} from '../../store/records.ts';
import type { ScheduleHeads } from '../../store/schedules.ts';
import { carry } from '../carry.ts';
import type { DispatchContext } from '../context.ts';
import { fireDue, NOTHING_FIRED, readDueFirst } from '../firing.ts';
import { type Elsewhere, NOTHING_ELSEWHERE } from '../handover.ts';
import { isSlow, keepsLease } from '../lease.ts';
import { isOutdated } from '../line-images.ts';
import {
  forgetLines,
  forgetMissed,
  forgetUnlessAt,
  knownTurnOf,
  noteLoaded,
  noteQuiet,
  noteWatched,
} from '../partition-cache.ts';
import { dueShardsKnown, dueShardsOf, showsNothingDue } from '../timers.ts';
import { Commits, LeaseLostError, LeaseNeededError } from './commits.ts';
import { lookUpLikelyOver } from './likely-over.ts';
import { NOTHING_DUE, type Promotion, promoteDue } from './promote.ts';
import type { OutdatedPass, PassInput, PassScope } from './scope.ts';

export interface LoadedPass extends PassScope {
  readonly state: PartitionState;
  readonly commits: Commits;
  /** What this pass moved for a newer declaration; undefined: there was nothing to move. */
  readonly carried: Carried | undefined;
  /** What other partitions have in flight that this one must count. */
  readonly elsewhere: Elsewhere;
  readonly due: Promotion;
}

/** Whether keys that come start level with those that are there. */
export const liftsKeys = ({ configuration }: Pick<DispatchContext, 'configuration'>): boolean =>
  configuration.fairness.idlePolicy === 'advance';

/** Of reservations that were made within so many milliseconds there are few where little happens. */
const CALM_WITHIN_MS = 2_000;
const CALM_RESERVATIONS_MAX = 6;

/** Whether passes are so rare that they are hardly ever in each other's way. */
export const isCalm = (reservations: readonly Reservation[], nowMs: number): boolean =>
  reservations.filter(({ reservedAtMs }) => nowMs - reservedAtMs < CALM_WITHIN_MS).length <=
  CALM_RESERVATIONS_MAX;

/**
 * Whether a pass may be made without the lease. What it leaves as it is tells nobody of it, so nothing may wait. What needs more than
 * the page, or looks at other partitions, needs the lease.
 */
function needsLease({ context, lease, between, nowMs }: PassScope, state: PartitionState): boolean {
  const { deployed } = context;
  return (
    !state.isOpen ||
    state.epoch !== lease.fence.epoch ||
    between !== undefined ||
    state.parks ||
    state.quiet === undefined ||
    state.quiet.declared !== deployed?.version ||
    (deployed !== undefined && !isCarriedTo(deployed.version, state)) ||
    !isCalm(state.reservations, nowMs)
  );
}

/**
 * Whether this pass may decide anything of the partition as it was loaded, which took so long.
 *
 * @throws LeaseLostError if somebody else has the lease
 * @throws LeaseNeededError if the pass is to be made without it, and cannot
 */
function requireRight(scope: PassScope, state: PartitionState, tookMs: number): void {
  const { fence, isOpen = false } = scope.lease;
  const isOfEpoch = state.epoch === fence.epoch;
  if (isOpen && needsLease(scope, state))
    throw new LeaseNeededError(fence, { openEpoch: state.isOpen && !isOfEpoch ? state.epoch : undefined });
  if (!isOfEpoch) throw new LeaseLostError(fence);
  // A lease would be taken for longer.
  if (isOpen && isSlow(scope.context, tookMs)) throw new LeaseNeededError(fence, { lasts: true });
}

/**
 * @throws LeaseLostError if somebody else has the lease
 * @throws LeaseNeededError if the pass is to be made without it, and cannot
 */
export async function load(scope: PassScope): Promise<LoadedPass | OutdatedPass> {
  const { context, lease, input, partition, between, nowMs, cached } = scope;
  const { store, configuration, deployed } = context;
  const { letGo } = cached;
  // Who missed hints does not know what has changed: heads, and keys that have come.
  if (input.hasMissed) forgetMissed(cached.lines);
  else if (input.readsAnew === true) forgetLines(cached.lines);
  // Who lifts all keys that came must see all jobs that are due.
  const promotes = input.promotes || (liftsKeys(context) && cached.lines.coming === undefined);
  // What a pass promotes that needs the lease after all would be told to nobody.
  const shards = lease.isOpen === true ? [] : dueShardsKnown(context, partition);
  const askedAtMonotonicMs = context.clock.monotonicMs();
  const [state, found, dueHere, recurring] = await Promise.all([
    store.loadPartition({ partition, nowMs, knownTurn: knownTurnOf(cached) }),
    lookUpTold(scope),
    promotes ? promoteShown(scope, shards) : NOTHING_DUE,
    input.fires ? readSchedulesShown(scope) : undefined,
  ]);
  const tookMs = context.clock.monotonicMs() - askedAtMonotonicMs;
  requireRight(scope, state, tookMs);
  const isOwnTurn = cached.loaded?.turn === state.turn;
  forgetUnlessAt(cached, state.turn);
  const { lines } = cached;
  lines.sinceMs ??= nowMs;
  noteLoaded(cached, state.turn, nowMs);
  const newer = await newerDeclaration(context, partition, state);
  if (newer !== undefined) return { kind: 'outdated', version: newer };
  const isAtRest = deployed === undefined || isCarriedTo(deployed.version, state);
  const carried = isAtRest ? undefined : await carry(context, lease, state);
  // What was moved stands where nobody has read it.
  if (carried !== undefined) forgetMissed(lines);
  watch(scope, state, carried !== undefined);
  const elsewhere =
    (await between?.lookElsewhere(context, lease, {
      carried: carried ?? state.carried,
      controls: state.controls,
      cached,
      letGo,
      nowMs,
      inBackground: input.inBackground,
    })) ?? NOTHING_ELSEWHERE;
  // Lines were split further once: what waits in those parts is not forgotten.
  const others = dueShardsOf(configuration, state.dueShards).filter((shard) => !shards.includes(shard));
  const dueThere =
    promotes && others.length > 0 ? await promoteDue(context, partition, others, nowMs) : NOTHING_DUE;
  // Not before it is known who has the lease, and what is declared.
  const fired = recurring === undefined ? NOTHING_FIRED : await fireDue(context, partition, nowMs, recurring);
  const due = {
    promoted: [...dueHere.promoted, ...dueThere.promoted, ...fired.jobs],
    overtaken: [...dueHere.overtaken, ...dueThere.overtaken],
    strangers: [...dueHere.strangers, ...dueThere.strangers],
    more: dueHere.more || dueThere.more || fired.more,
  };
  const commits = new Commits(store, lease, state.turn);
  return {
    ...scope,
    input: await withFound(scope, found, state, { isOwnTurn, tookMs }),
    state,
    commits,
    carried,
    elsewhere,
    due,
  };
}

/** Promotes what is due in these shards of the due line, as far as it is not known already that nothing is. */
async function promoteShown(
  { context, input, partition, nowMs }: PassScope,
  shards: readonly number[],
): Promise<Promotion> {
  const isEmpty = await Promise.all(
    shards.map((shard) => showsNothingDue(input.fronts?.jobs.get(shard), nowMs)),
  );
  const toRead = shards.filter((_, at) => isEmpty[at] === false);
  return toRead.length === 0 ? NOTHING_DUE : promoteDue(context, partition, toRead, nowMs);
}

/** The first schedules that are due; undefined: it is known that none is. */
const readSchedulesShown = async ({
  context,
  input,
  partition,
  nowMs,
}: PassScope): Promise<ScheduleHeads | undefined> =>
  (await showsNothingDue(input.fronts?.schedules, nowMs))
    ? undefined
    : readDueFirst(context, partition, nowMs);

/**
 * The jobs that it was told of which stand here by now. Of those that are still being stored, and of those that cannot be read,
 * the stream tells. Left out are those of which a hint, or what this process did itself, says as much as whoever left word knew.
 */
async function lookUpTold({ context, input, partition, cached }: PassScope): Promise<readonly MovingJob[]> {
  const { told = [], named = [], hints } = input;
  if (told.length + named.length === 0) return [];
  const hinted = new Map(hints.map(({ id, version }) => [id, version]));
  const isKnown = (job: NamedJob): boolean =>
    job.version <= (hinted.get(job.id) ?? -1) || (job.isWaiting && isOutdated(cached.lines, job));
  const names = [
    ...told,
    ...named.filter((job) => job.isOfHints !== true && !isKnown(job)).map(({ id }) => id),
  ];
  // One that can be no key would be refused, and with it each pass until somebody takes the word away.
  const ids = new Set(names.filter(isJobId));
  if (ids.size === 0) return [];
  const found = await context.store.lookUpJobs({ ids: [...ids], unreadable: () => {} });
  return found.filter((job) => job !== undefined).filter((job) => job.partition === partition);
}

/** Read strongly consistent, and under the lease nobody else admits them meanwhile. Without it, a claim of one may be lost. */
async function withFound(
  scope: PassScope,
  found: readonly MovingJob[],
  state: PartitionState,
  { isOwnTurn, tookMs }: { readonly isOwnTurn: boolean; readonly tookMs: number },
): Promise<PassInput> {
  const { input } = scope;
  const { told = [], named = [], isToldOfDueWork = false, hints, justStored } = input;
  // Who has made the last pass, too, is shown ends by the stream as before.
  const isWordLeft = named.length > 0 || (isToldOfDueWork && !isOwnTurn);
  // Who keeps the partition hears of what others were told of at once.
  const over = await lookUpLikelyOver(scope, state, {
    isWordLeft: isWordLeft && !keepsLease(scope.context.holder),
    tookMs,
  });
  if (told.length === 0 && !isWordLeft && over.length === 0) return input;
  // Whoever told of a job before it was stored has told nobody else.
  const early = new Set([...told, ...named.filter(({ version }) => version === 0).map(({ id }) => id)]);
  const stored = found.filter(({ id, state: now }) => now === 'pending' && early.has(id)).map(({ id }) => id);
  return {
    ...input,
    hints: [...hints, ...found, ...over],
    justStored: new Set([...justStored, ...stored]),
  };
}

/** What the lines may be trusted for: since when nothing was missed, and whether nothing waited when the last pass ended. */
function watch(
  { context, input, partition, between, nowMs, cached: { lines } }: PassScope,
  { quiet, parks }: PartitionState,
  isCarrying: boolean,
): void {
  const { configuration, deployed, budget, holder } = context;
  // What waits in this partition and lives in another is found by reading only.
  const isBlind = parks || (between?.haveKeysMoved(context, partition) ?? false);
  lines.parks = isBlind;
  const isTold =
    // planted: quiet-though-missed
    !input.hasMissed &&
    input.readsAnew !== true &&
    !isCarrying &&
    !isBlind &&
    quiet?.declared === deployed?.version;
  noteWatched(lines, isTold ? (quiet?.sinceMs ?? nowMs) : nowMs, budget.seenWithinMs);
  if (!isTold || quiet === undefined) return;
  noteQuiet(
    lines,
    configuration.types.map(({ type }) => type),
    // A wake or a tick tells of no job: it is a reason to look.
    { quiet, hasHints: !input.fires, isToldFirst: keepsLease(holder) },
  );
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
