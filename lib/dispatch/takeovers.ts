/**
 * Slots that are taken over: which may be, what waits for one, and how many slots are held by that. A fleet is told of the next job before the
 * attempt that has the slot ends, and its worker starts the job once that has ended. Till then the two hold one slot together.
 *
 * The cap of a fleet's slots holds because of four rules. A slot is taken over once, from an attempt that waits for none itself. What takes it over
 * counts beside it from then on, as soon as that attempt has left the page. Its worker starts it only when it has seen that attempt to be over.
 * And nobody else is told of it before.
 *
 * What does not start in time is given up, as any place is, by a raised version, and planned anew: as caps, pauses and other jobs are by then.
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { ReservedJob } from '../core/job.ts';
import type { Reservation } from '../store/records.ts';
import type { BetweenPartitions } from './between-partitions.ts';
import type { DispatchContext } from './context.ts';
import { claimIdOfPlace, type Place, placesOf, type Settled } from './settle/settled.ts';
import type { SlotTimes, SpareSlots } from './slot-times.ts';

/** An attempt that ends so much later than was told may take anything. */
const LATE_MS = 100;
/** What waits for longer is not going to have that slot: nobody knows when its attempt ends. */
const STUCK_MS = 1_500;
/** So long after a reservation its worker waits for the slot still, whatever its message took, as far as clocks agree. */
const SEEN_FREE_MS = 200;
/** Of what should run by then, and of which nothing was heard, somebody looks whether it does. */
const UNHEARD_MS = 2_000;

/** A slot that is about to be free: of which attempt it is, and when that ends. */
export interface SlotEnd {
  readonly fleet: string;
  readonly jobId: string;
  readonly claimId: string;
  readonly version: number;
  readonly endsAtMs: number;
}

/** Places that took slots over, whether those are free by now or not. Mostly there are none: no other place is copied. */
export function takeoversAmong(reservations: readonly Reservation[]): readonly Place[] {
  const takeovers: Place[] = [];
  for (const reservation of reservations)
    for (const [position, entry] of reservation.jobs)
      if (entry.takesOver !== undefined) takeovers.push({ reservation, position, entry });
  return takeovers;
}

/** The claims whose slots are taken over, also those that have ended. */
export const takenOver = (reservations: readonly Reservation[]): ReadonlySet<string | undefined> =>
  new Set(takeoversAmong(reservations).map(({ entry }) => entry.takesOver));

/** Places that wait for an attempt which is in flight among these. */
export function waitingForSlots(reservations: readonly Reservation[]): readonly Place[] {
  const takeovers = takeoversAmong(reservations);
  if (takeovers.length === 0) return [];
  const inFlight = new Set<string | undefined>(placesOf(reservations).map(claimIdOfPlace));
  return takeovers.filter(({ entry }) => inFlight.has(entry.takesOver));
}

/** The job whose slot a place takes over, as long as that is in flight among these. */
export const slotHolderOf = (
  reservations: readonly Reservation[],
  { takesOver }: Pick<ReservedJob, 'takesOver'>,
): string | undefined =>
  takesOver === undefined
    ? undefined
    : placesOf(reservations).find((place) => claimIdOfPlace(place) === takesOver)?.entry.id;

/** By fleet: how many slots are held. What waits for another's slot holds none of its own. */
export function slotsHeld(reservations: readonly Reservation[]): ReadonlyMap<string, number> {
  const held = new Map<string, number>();
  const count = (fleet: string, by: 1 | -1): void => void held.set(fleet, (held.get(fleet) ?? 0) + by);
  for (const { jobs } of reservations) for (const { fleet } of jobs.values()) count(fleet, 1);
  for (const { entry } of waitingForSlots(reservations)) count(entry.fleet, -1);
  return held;
}

export interface TakeoverScope {
  readonly context: DispatchContext;
  readonly between: Pick<BetweenPartitions, 'lockOfPlace'> | undefined;
  readonly times: SlotTimes;
}

/** Slots whose attempts end at a time that can be told, none of them taken over yet. */
function* slotEnds(
  { context, between, times }: TakeoverScope,
  reservations: readonly Reservation[],
): Generator<SlotEnd> {
  const { configuration, budget } = context;
  const { aheadMs, shortMs } = budget.takeovers;
  if (aheadMs <= 0 || context.deployed?.tellsAhead === false) return;
  const grouped = new Set(
    configuration.types.flatMap(({ type, conflictGroup }) => (conflictGroup === null ? [] : type)),
  );
  const fleets = new Set(
    configuration.fleets
      .filter(({ slots, tellAhead }) => slots !== null && tellAhead !== false)
      // A lock between partitions is taken by the pass, and held from then on.
      .filter(({ types }) => between === undefined || !types.some((type) => grouped.has(type)))
      .map(({ fleet }) => fleet),
  );
  if (fleets.size === 0) return;
  const taken = takenOver(reservations);
  const waiting = new Set(waitingForSlots(reservations).map(claimIdOfPlace));
  for (const place of placesOf(reservations)) {
    const { id, version, fleet, estimatedCostMs } = place.entry;
    if (!fleets.has(fleet) || estimatedCostMs > shortMs) continue;
    const claimId = claimIdOfPlace(place);
    if (taken.has(claimId) || waiting.has(claimId)) continue;
    const endsAtMs = times.endsAtMs(place, budget.takeovers);
    if (endsAtMs !== undefined) yield { fleet, jobId: id, claimId, version, endsAtMs };
  }
}

/** By fleet: slots that are about to be free, the soonest first. */
export function slotsSoonFree(
  scope: TakeoverScope,
  reservations: readonly Reservation[],
  nowMs: number,
): ReadonlyMap<string, readonly SlotEnd[]> {
  const { aheadMs } = scope.context.budget.takeovers;
  const soon: SlotEnd[] = [];
  for (const end of slotEnds(scope, reservations)) {
    const isSoon = end.endsAtMs - aheadMs <= nowMs;
    if (isSoon && nowMs < end.endsAtMs + LATE_MS) soon.push(end);
  }
  soon.sort((one, other) => one.endsAtMs - other.endsAtMs);
  return Map.groupBy(soon, ({ fleet }) => fleet);
}

/** From when on another slot may be taken over than those that a pass was offered by now, epoch ms; Infinity: no end can be told. */
export function nextTakeoverAtMs(
  scope: TakeoverScope,
  reservations: readonly Reservation[],
  nowMs: number,
): number {
  const { aheadMs } = scope.context.budget.takeovers;
  let firstMs = Infinity;
  for (const { endsAtMs } of slotEnds(scope, reservations))
    if (nowMs < endsAtMs - aheadMs) firstMs = Math.min(firstMs, endsAtMs - aheadMs);
  return firstMs;
}

/**
 * Places that took slots over and should have started, as far as this process does not know that they have: they waited for too long, or longer
 * than their fleet has slots to spare; or the slot was free when their worker may have given up, or is free for long.
 *
 * @param settled - what has ended, and is in flight among these still
 */
export function lateAmong(
  reservations: readonly Reservation[],
  settled: readonly Settled[],
  { times, spare, nowMs }: { readonly times: SlotTimes; readonly spare: SpareSlots; readonly nowMs: number },
): readonly Place[] {
  const takeovers = takeoversAmong(reservations);
  if (takeovers.length === 0) return [];
  const over = new Map(settled.map((place) => [claimIdOfPlace(place), place.endedAtMs ?? Infinity]));
  const left = new Map(spare);
  const waiting = new Set(waitingForSlots(reservations).map(claimIdOfPlace));
  return takeovers.filter((place) => {
    const { reservation, entry } = place;
    const claimId = claimIdOfPlace(place);
    if (over.has(claimId) || times.hasStarted(claimId)) return false;
    const sinceMs = nowMs - reservation.reservedAtMs;
    const freeAtMs = over.get(entry.takesOver ?? '') ?? times.freedAtMs(entry.takesOver ?? '');
    if (freeAtMs !== undefined)
      return freeAtMs >= reservation.reservedAtMs + SEEN_FREE_MS || sinceMs >= UNHEARD_MS;
    if (!waiting.has(claimId)) return sinceMs >= UNHEARD_MS;
    const slots = left.get(entry.fleet) ?? 0;
    if (slots > 0) left.set(entry.fleet, slots - 1);
    return slots > 0 || sinceMs >= STUCK_MS;
  });
}

/** From when on the first of them is late, if nothing is heard of it till then, epoch ms; Infinity: none can be. */
export function firstLateAtMs(reservations: readonly Reservation[], times: SlotTimes): number {
  const takeovers = takeoversAmong(reservations).filter((place) => !times.hasStarted(claimIdOfPlace(place)));
  if (takeovers.length === 0) return Infinity;
  const waiting = new Set(waitingForSlots(reservations).map(claimIdOfPlace));
  return takeovers.reduce((firstMs, place) => {
    const forMs = waiting.has(claimIdOfPlace(place)) ? STUCK_MS : UNHEARD_MS;
    return Math.min(firstMs, place.reservation.reservedAtMs + forMs);
  }, Infinity);
}

/** Slots that are free and could have jobs that wait for others', and may not have started: by the fleet for which these wait. */
export function spareSlots(
  { fleets }: Pick<PoolConfiguration, 'fleets'>,
  reservations: readonly Reservation[],
  free: ReadonlyMap<string, number>,
  times: SlotTimes,
): SpareSlots {
  const spare = new Map<string, number>();
  for (const place of waitingForSlots(reservations)) {
    if (times.hasStarted(claimIdOfPlace(place))) continue;
    const { fleet, type } = place.entry;
    const able = fleets.filter((each) => each.fleet === fleet || each.types.includes(type));
    const count = able.reduce((sum, each) => sum + (free.get(each.fleet) ?? 0), 0);
    if (count > 0) spare.set(fleet, Math.max(count, spare.get(fleet) ?? 0));
  }
  return spare;
}

/** Whether a slot was found to be free, not heard of, for which a job waits that may not have started: the next pass sees to it. */
export function hasFoundFree(
  reservations: readonly Reservation[],
  found: readonly Settled[],
  times: SlotTimes,
): boolean {
  const over = new Set(found.map(claimIdOfPlace));
  return takeoversAmong(reservations).some(
    (place) =>
      over.has(place.entry.takesOver ?? '') &&
      !over.has(claimIdOfPlace(place)) &&
      !times.hasStarted(claimIdOfPlace(place)),
  );
}
