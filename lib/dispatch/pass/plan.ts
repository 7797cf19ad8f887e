/**
 * Third step of a pass. It computes the free capacity of this partition and opens the planner and the candidates that it chooses
 * from. The admit step then draws decisions batch by batch with `nextBatch`.
 */
import type { Control } from '../../core/capacity.ts';
import type { PoolConfiguration } from '../../core/configuration.ts';
import { conflictKeysOf, roomFor, typesByName } from '../../core/conflict.ts';
import { blockersBefore, type EndedHold } from '../../core/explain.ts';
import type { ReservedJob, Waited, WaitingJob } from '../../core/job.ts';
import { type LoanBalance, NO_LOANS } from '../../core/lending.ts';
import { shareOfOverrides, shareOfPool } from '../../core/partition.ts';
import { createPlanner, type Planner, type Step } from '../../core/planner.ts';
import type { Decision } from '../../core/scheduler.ts';
import { parkingKeysOf } from '../../core/scope.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { PartitionState } from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import { slotsOfWorkers } from '../partitions/loans.ts';
import { LOOKS_MIN } from '../tuning.ts';
import { claimIdOfEntry, hasRun } from '../view/settled.ts';
import { Candidates } from './candidates.ts';
import type { SettledPass } from './settle.ts';

export interface PlannedPass extends SettledPass {
  readonly planner: Planner;
  readonly capacity: PassCapacity;
  readonly candidates: Candidates;
  /** The first jobs of blocked lines whose conflict keys are free. */
  readonly parkedHeads: readonly JobHead[];
  /** Conflict keys that other partitions hold. */
  readonly taken: ReadonlySet<string>;
  /** Names the bounds that were full while an admitted job waited, as far as this pass knows: see `blockersBefore`. */
  readonly blockersOf: (job: WaitingJob & Waited) => readonly string[];
}

/** The capacity that this partition may use, before the pass admits anything. */
export interface PassCapacity {
  readonly share: PoolConfiguration;
  readonly free: ReadonlyMap<string, number>;
  readonly overrides: readonly Control[];
}

/** Jobs that the plan met and could not start, each with the conflict key that is held. */
export type Blocked = Extract<Step, { readonly kind: 'done' }>['blocked'];

export async function plan(pass: SettledPass): Promise<PlannedPass> {
  const { context, input, partition, nowMs, due, recovery, ledgerCache, imagesHere, unparked } = pass;
  const parkedHeads = [...unparked.heads.values()].flat();
  const candidates = new Candidates(context, {
    partition,
    ledgerCache,
    images: [...imagesHere.values()],
    parkedHeads,
    reservations: pass.reservations,
    view: pass.cached.view,
    justStored: new Set([
      ...(input.justStored ?? []),
      ...[...due.promoted, ...recovery.images].map(({ id }) => id),
    ]),
    nowMs,
  });
  const capacity = capacityOf(pass);
  const planner = plannerOf(pass, capacity, parkedHeads.length);
  const taken = new Set([...unparked.taken, ...pass.elsewhere.conflictKeys]);
  for (const conflictKey of taken) planner.closeConflict(conflictKey);
  const types = typesByName(context.configuration);
  for (const entry of pass.inFlight) {
    const others = conflictKeysOf(types, entry).filter((conflictKey) => conflictKey !== entry.conflictKey);
    // planted: former-group
    for (const each of others) planner.holdConflict(each, roomFor(types.get(entry.type), each));
  }
  // An attempt that was given up before it ran leaves its job waiting. The job's line may not show it yet, and only a
  // later hint will.
  if (!recovery.settled.every(hasRun)) candidates.noteUnseenJobs();
  return {
    ...pass,
    planner,
    capacity,
    candidates,
    parkedHeads,
    taken,
    blockersOf: blockersBefore(
      endedHolds(pass),
      {
        configuration: capacity.share,
        overrides: capacity.overrides,
        inFlight: pass.inFlight,
        freeSlotsByFleet: capacity.free,
      },
      nowMs,
    ),
  };
}

/**
 * Returns the attempts that have run and that this pass has settled. A worker process may have gone with its attempt, and
 * then its slot is not one of those that are registered now: such an attempt counts in no fleet, unless a live worker has
 * reported that it ran it.
 */
function endedHolds({ context, state, settled }: SettledPass): readonly EndedHold[] {
  const ofProcesses = new Set(
    context.configuration.fleets.filter(({ slots }) => slots === null).map(({ fleet }) => fleet),
  );
  const live = state.workers.filter(({ isEnding }) => isEnding !== true);
  const reported = new Set(live.flatMap(({ occupants }) => occupants.map(({ claimId }) => claimId)));
  return settled.flatMap((place) => {
    const { entry, endedAtMs } = place;
    if (endedAtMs === undefined) return [];
    const hasSlot = !ofProcesses.has(entry.fleet) || reported.has(claimIdOfEntry(place));
    return [{ entry: hasSlot ? entry : { ...entry, fleet: '' }, endedAtMs }];
  });
}

/** Returns this partition's share of the pool, less what jobs in other partitions hold of it. */
function capacityOf({
  context,
  partition,
  between,
  nowMs,
  state,
  elsewhere,
  inFlight,
}: SettledPass): PassCapacity {
  const { configuration } = context;
  if (between === undefined) {
    const free = freeSlots(configuration, state, NO_LOANS, inFlight);
    // planted: stale-controls
    return { share: configuration, free, overrides: state.controls };
  }
  const moved = between.loansLessOthers(between.loansOf(configuration, state, partition, nowMs), elsewhere);
  const share = shareOfPool(configuration, partition, moved);
  const free = between.slotsLessOthers(freeSlots(share, state, moved, inFlight), configuration, elsewhere);
  const overrides = shareOfOverrides(state.controls, partition, configuration, moved);
  return { share, free, overrides: between.overridesLessOthers(overrides, configuration, elsewhere) };
}

function plannerOf(
  { context, nowMs, inFlight, ledgerCache }: SettledPass,
  { share, free, overrides }: PassCapacity,
  parkedHeads: number,
): Planner {
  return createPlanner(share, {
    nowMs,
    inFlight,
    uses: ledgerCache.uses,
    freeSlotsByFleet: free,
    costMs: (type, resourceId) => ledgerCache.costMs(type, resourceId),
    overrides,
    ...blockedBounds(context, inFlight, free, parkedHeads),
  });
}

/** Returns the free slots by fleet: declared slots, or those of live workers, less the jobs in flight. */
function freeSlots(
  configuration: PoolConfiguration,
  state: PartitionState,
  moved: LoanBalance,
  inFlight: readonly ReservedJob[],
): ReadonlyMap<string, number> {
  const busy = new Map<string, number>();
  for (const { fleet } of inFlight) busy.set(fleet, (busy.get(fleet) ?? 0) + 1);
  return new Map(
    configuration.fleets.map(({ fleet, slots }) => {
      const all = slots ?? slotsOfWorkers(state, fleet, moved).slots;
      return [fleet, Math.max(0, all - (busy.get(fleet) ?? 0))];
    }),
  );
}

/**
 * Returns how many blocked jobs a plan may meet. Up to twice `parkKept` jobs of each held conflict key stay in their
 * ready lines. A plan that meets more than that can park some, so that the next plan gets further.
 */
function blockedBounds(
  { configuration, budget: { parkKept } }: Pick<DispatchContext, 'configuration' | 'budget'>,
  inFlight: readonly ReservedJob[],
  free: ReadonlyMap<string, number>,
  parkedHeads: number,
): { readonly blockedMax: number; readonly blockedPerConflict: number } {
  const conflictKeys = new Set(inFlight.flatMap((entry) => parkingKeysOf(configuration, entry)));
  const blockedPerConflict = 2 * parkKept;
  const slots = [...free.values()].reduce((total, each) => total + each, 0);
  const blockedMax = LOOKS_MIN + (conflictKeys.size + slots) * blockedPerConflict + parkedHeads;
  // planted: front-again-3
  return { blockedMax, blockedPerConflict };
}

/**
 * Returns up to `max` decisions of the plan. It reads what the planner asks for until it has them, or until the plan
 * ends at one of its own bounds.
 */
export async function nextBatch(
  planner: Planner,
  candidates: Candidates,
  max: number,
): Promise<{
  readonly decisions: readonly Decision[];
  readonly truncated: boolean;
  readonly blocked: Blocked;
  /** Epoch ms at which the first used-up rate or budget allows a start again; undefined: none is used up. */
  readonly opensAtMs?: number | undefined;
}> {
  const decisions: Decision[] = [];
  while (decisions.length < max) {
    const step = planner.next();
    if (step.kind === 'done') return { ...step, decisions };
    if (step.kind === 'admit') decisions.push(step.decision);
    else await candidates.answer(planner, step);
  }
  return { decisions, truncated: false, blocked: [] };
}
