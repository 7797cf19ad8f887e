/** Ends that are looked for where slots are scarce: the stream tells of them some 200 ms later, and a slot stands still meanwhile. */
import type { PoolConfiguration } from '../../core/configuration.ts';
import { claimIdOf, isAwaited, type MovingJob, type ReservedJob } from '../../core/job.ts';
import type { PartitionState, Reservation } from '../../store/records.ts';
import { takenOver } from '../takeovers.ts';
import type { PassScope } from './scope.ts';

/** Slots are scarce when so large a part of them is taken. */
const SCARCE_SHARE = 0.9;
/** What an attempt takes beside its job's own time, until its end is stored. */
const OVERHEAD_SHARE = 0.1;
/** For so long after that the stream has hardly told of the end. */
const UNTOLD_MS = 200;
/** A slot of longer attempts stands still for a small part of its time only. */
const SHORT_MS = 5_000;
const LOOKS_MAX = 400;
/** With more keys than that a pass reads lines for so long that smaller passes start less: those that look for ends, */
const KEYS_MAX = 2_000;
/** and those, twice as often, that take slots over. */
const TAKEOVER_KEYS_MAX = 500;

const hasManyKeys = ({ ledgers }: Pick<PartitionState, 'ledgers'>): boolean => ledgers.length > KEYS_MAX;
export const isTooWideToTakeOver = ({ ledgers }: Pick<PartitionState, 'ledgers'>): boolean =>
  ledgers.length > TAKEOVER_KEYS_MAX;

const likelyOverAtMs = (reservedAtMs: number, estimatedCostMs: number): number =>
  reservedAtMs + estimatedCostMs * (1 + OVERHEAD_SHARE);

/** Whether nearly all slots that the partition has are taken: then each end that is found lets something start. */
function areSlotsScarce(
  { fleets, partitions }: PoolConfiguration,
  { reservations, workers }: Pick<PartitionState, 'reservations' | 'workers'>,
): boolean {
  const inFlight = reservations.reduce((sum, { jobs }) => sum + jobs.size, 0);
  const declared = fleets.reduce((sum, { slots }) => sum + (slots ?? 0), 0) / partitions;
  const slots = workers.reduce((sum, worker) => sum + worker.slots, declared);
  return inFlight >= SCARCE_SHARE * slots;
}

/**
 * Jobs in flight that should have ended by what they were estimated to take. Where word was left, all of them, as others are about to be told
 * of some; elsewhere short ones, while the stream may still have to tell of them. So a job is looked up a few times at most,
 * however much longer it takes.
 */
function likelyOver(
  { reservations }: Pick<PartitionState, 'reservations'>,
  { nowMs, isWordLeft }: { readonly nowMs: number; readonly isWordLeft: boolean },
): readonly Pick<ReservedJob, 'id' | 'version'>[] {
  const over: { readonly entry: ReservedJob; readonly forMs: number }[] = [];
  // What takes a slot over sees its end by itself.
  const taken = takenOver(reservations);
  for (const { batchId, reservedAtMs, jobs } of reservations) {
    for (const [position, entry] of jobs) {
      const { estimatedCostMs } = entry;
      const forMs = nowMs - likelyOverAtMs(reservedAtMs, estimatedCostMs);
      const isLookedFor = isWordLeft || (forMs < UNTOLD_MS && estimatedCostMs <= SHORT_MS);
      if (forMs >= 0 && isLookedFor && !taken.has(claimIdOf(batchId, position))) over.push({ entry, forMs });
    }
  }
  // Who runs on for long would else be looked up each time, in place of those that end.
  return over
    .toSorted((one, other) => one.forMs - other.forMs)
    .slice(0, LOOKS_MAX)
    .map(({ entry }) => entry);
}

/** What has become of those, as far as they have ended or wait again: read strongly consistent, so as good as what the stream tells. */
export async function lookUpLikelyOver(
  { context, input, nowMs }: PassScope,
  state: PartitionState,
  { isWordLeft, tookMs }: { readonly isWordLeft: boolean; readonly tookMs: number },
): Promise<readonly MovingJob[]> {
  // A store that takes as long to answer tells no sooner than the stream.
  if (!isWordLeft && tookMs > UNTOLD_MS) return [];
  if (hasManyKeys(state)) return [];
  // Everything is looked up later on.
  if (input.checksAll || !areSlotsScarce(context.configuration, state)) return [];
  const over = likelyOver(state, { nowMs, isWordLeft });
  if (over.length === 0) return [];
  const told = new Set(input.hints.map(({ id }) => id));
  const likely = over.filter(({ id }) => !told.has(id));
  if (likely.length === 0) return [];
  const found = await context.store.lookUpJobs({ ids: likely.map(({ id }) => id), unreadable: () => {} });
  // One that is as it was planned has not started.
  return found.flatMap((job, at) =>
    job !== undefined && isAwaited(job) && job.version !== likely[at]?.version ? [job] : [],
  );
}

/**
 * From when on a job in flight has likely ended, though the stream may still have to tell of it, of what a pass leaves in flight; Infinity: none
 * has to.
 */
export function endsLikelyAtMs(
  { state, nowMs }: Pick<PassScope, 'nowMs'> & { readonly state: Pick<PartitionState, 'ledgers'> },
  reservations: readonly Reservation[],
): number {
  if (hasManyKeys(state)) return Infinity;
  let firstMs = Infinity;
  const taken = takenOver(reservations);
  for (const { batchId, reservedAtMs, jobs } of reservations)
    for (const [position, { estimatedCostMs }] of jobs) {
      const overAtMs = likelyOverAtMs(reservedAtMs, estimatedCostMs);
      const isLookedFor = estimatedCostMs <= SHORT_MS && overAtMs > nowMs - UNTOLD_MS;
      if (isLookedFor && overAtMs < firstMs && !taken.has(claimIdOf(batchId, position))) firstMs = overAtMs;
    }
  return firstMs;
}
