/** Third step: what may start, and what is free. */
import type { Control } from '../../core/capacity.ts';
import type { FleetConfiguration, PoolConfiguration } from '../../core/configuration.ts';
import { keysHeldBy, roomUnder, typesByName } from '../../core/conflict.ts';
import type { ReservedJob } from '../../core/job.ts';
import { type Moved, NOTHING_MOVED } from '../../core/lending.ts';
import { shareOfOverrides, shareOfPool } from '../../core/partition.ts';
import { createPlanner, type Planner, type Step } from '../../core/planner.ts';
import type { Decision } from '../../core/scheduler.ts';
import type { JobHead } from '../../store/job-fields.ts';
import type { PartitionState } from '../../store/records.ts';
import { Candidates } from '../candidates.ts';
import { slotsOfWorkers } from '../loans.ts';
import { type SlotEnd, slotsHeld, slotsSoonFree, type TakeoverScope } from '../takeovers.ts';
import { isTooWideToTakeOver } from './likely-over.ts';
import type { SettledPass } from './settle.ts';

export interface PlannedPass extends SettledPass {
  readonly planner: Planner;
  readonly capacity: PassCapacity;
  readonly candidates: Candidates;
  /** The first jobs of blocked lines whose conflict keys are free. */
  readonly parkedHeads: readonly JobHead[];
  /** Conflict keys that other partitions have. */
  readonly taken: ReadonlySet<string>;
  /** By fleet: slots that are about to be free, and may be taken over. */
  readonly soonFree: ReadonlyMap<string, readonly SlotEnd[]>;
}

/** What this partition may use, before the pass admits anything. */
export interface PassCapacity {
  readonly share: PoolConfiguration;
  readonly free: ReadonlyMap<string, number>;
  /** Fleets that hold more slots than they have, as after a redeploy. */
  readonly overfull: ReadonlySet<string>;
  readonly overrides: readonly Control[];
}

/** Jobs that a plan met, and what their conflict keys are. */
export type Blocked = Extract<Step, { readonly kind: 'done' }>['blocked'];

/** Blocked jobs that a plan may meet where nothing is in flight and no slot is free. */
const BLOCKED_MIN = 64;

export async function plan(pass: SettledPass): Promise<PlannedPass> {
  const { context, input, partition, nowMs, due, recovery, ledgerCache, seen, unparked } = pass;
  const parkedHeads = [...unparked.heads.values()].flat();
  const candidates = new Candidates(context, {
    partition,
    ledgerCache,
    images: [...seen.values()],
    parkedHeads,
    reservations: pass.reservations,
    cached: pass.cached.lines,
    justStored: new Set([...input.justStored, ...[...due.promoted, ...recovery.images].map(({ id }) => id)]),
    nowMs,
  });
  const capacity = capacityOf(pass);
  const soonFree = soonFreeOf(pass, capacity);
  const planner = plannerOf(pass, capacity, parkedHeads.length, soonFree);
  const taken = new Set([...unparked.taken, ...pass.elsewhere.conflictKeys]);
  for (const conflictKey of taken) planner.closeConflict(conflictKey);
  const types = typesByName(context.configuration);
  for (const entry of pass.inFlight) {
    const others = keysHeldBy(types, entry).filter((conflictKey) => conflictKey !== entry.conflictKey);
    for (const each of others) planner.holdConflict(each, roomUnder(types.get(entry.type), each));
  }
  // What was reserved and never claimed waits again, where only a hint to come shows it.
  candidates.distrust(
    recovery.settled.flatMap(({ entry, durationMs }) => (durationMs === undefined ? entry : [])),
  );
  return { ...pass, planner, capacity, candidates, parkedHeads, taken, soonFree };
}

/** This partition's share of the pool, less what other partitions have of it. */
function capacityOf({
  context,
  partition,
  between,
  nowMs,
  state,
  elsewhere,
  reservations,
}: SettledPass): PassCapacity {
  const { configuration } = context;
  const held = slotsHeld(reservations);
  if (between === undefined) {
    const slots = slotsOf(configuration, state, NOTHING_MOVED, held);
    return { share: configuration, ...slots, overrides: state.controls };
  }
  const moved = between.movedLess(between.movedTo(configuration, state, partition, nowMs), elsewhere);
  const share = shareOfPool(configuration, partition, moved);
  const { free, overfull } = slotsOf(share, state, moved, held);
  const overrides = shareOfOverrides(state.controls, partition, configuration.partitions, moved);
  return {
    share,
    free: between.slotsLess(free, configuration, elsewhere),
    overfull,
    overrides: between.overridesLess(overrides, configuration, elsewhere),
  };
}

/** Slots by fleet: declared ones, or those of live workers, less what is held. */
function slotsOf(
  configuration: PoolConfiguration,
  state: PartitionState,
  moved: Moved,
  held: ReadonlyMap<string, number>,
): Pick<PassCapacity, 'free' | 'overfull'> {
  const free = new Map<string, number>();
  const overfull = new Set<string>();
  for (const { fleet, slots } of configuration.fleets) {
    const all = slots ?? slotsOfWorkers(state, fleet, moved).slots;
    const left = all - (held.get(fleet) ?? 0);
    free.set(fleet, Math.max(0, left));
    if (left < 0) overfull.add(fleet);
  }
  return { free, overfull };
}

export const takeoverScope = ({ context, between, cached }: SettledPass): TakeoverScope => ({
  context,
  between,
  times: cached.slotTimes,
});

/**
 * Slots that may be taken over in this pass. A fleet that holds more than it has lets its slots go, and where another fleet that takes some of its
 * types has one that is free, jobs go there.
 */
function soonFreeOf(pass: SettledPass, { share, free, overfull }: PassCapacity): PlannedPass['soonFree'] {
  const { state, reservations, nowMs } = pass;
  if (isTooWideToTakeOver(state)) return new Map();
  const all = slotsSoonFree(takeoverScope(pass), reservations, nowMs);
  if (all.size === 0) return all;
  const freely = share.fleets.filter(({ fleet }) => (free.get(fleet) ?? 0) > 0);
  const isTaken = ({ fleet, types }: FleetConfiguration): boolean =>
    !overfull.has(fleet) &&
    !freely.some((other) => other.fleet !== fleet && other.types.some((type) => types.includes(type)));
  const taken = new Set(share.fleets.filter(isTaken).map(({ fleet }) => fleet));
  return new Map([...all].filter(([fleet]) => taken.has(fleet)));
}

function plannerOf(
  { context, nowMs, inFlight, ledgerCache }: SettledPass,
  { share, free, overrides }: PassCapacity,
  parkedHeads: number,
  soonFree: PlannedPass['soonFree'],
): Planner {
  const slots = new Map(
    [...free].map(([fleet, count]) => [fleet, count + (soonFree.get(fleet)?.length ?? 0)]),
  );
  return createPlanner(share, {
    nowMs,
    inFlight,
    freeSlotsByFleet: slots,
    costMs: (type, resourceId) => ledgerCache.costMs(type, resourceId),
    overrides,
    ...blockedBounds(context.budget.parkKept, inFlight, slots, parkedHeads),
  });
}

/**
 * How many blocked jobs a plan may meet. Of each conflict key that is held, or will be, up to twice `parkKept` jobs stay in
 * their ready lines. So a plan that meets more of them finds some to park, and the next one gets further.
 */
function blockedBounds(
  parkKept: number,
  inFlight: readonly ReservedJob[],
  free: ReadonlyMap<string, number>,
  parkedHeads: number,
): { readonly blockedMax: number; readonly blockedPerConflict: number } {
  const conflictKeys = new Set(inFlight.flatMap(({ conflictKey }) => conflictKey ?? []));
  const blockedPerConflict = 2 * parkKept;
  const slots = [...free.values()].reduce((total, each) => total + each, 0);
  const blockedMax = BLOCKED_MIN + (conflictKeys.size + slots) * blockedPerConflict + parkedHeads;
  return { blockedMax, blockedPerConflict };
}

/**
 * Up to `max` admissions, reading what the planner asks for. Bounded by the planner's own bounds. What was admitted is answered
 * before anybody looks again where nothing was: the next batch does that, and what was found waits for no more reads.
 */
export async function nextBatch(
  planner: Planner,
  candidates: Candidates,
  max: number,
): Promise<{
  readonly decisions: readonly Decision[];
  readonly truncated: boolean;
  readonly blocked: Blocked;
}> {
  const decisions: Decision[] = [];
  while (decisions.length < max) {
    const step = planner.next();
    if (step.kind === 'done' && decisions.length > 0 && planner.room > 0) break;
    if (step.kind === 'done' && !step.truncated && planner.room > 0 && (await candidates.lookAgain(planner)))
      continue;
    if (step.kind === 'done') return { decisions, truncated: step.truncated, blocked: step.blocked };
    if (step.kind === 'admit') decisions.push(step.decision);
    else await candidates.answer(planner, step);
  }
  return { decisions, truncated: false, blocked: [] };
}
