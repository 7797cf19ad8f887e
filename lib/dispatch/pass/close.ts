/** Last step: what is in the way of the next pass is put away, and who must come next is told. */
import type { JobHead } from '../../store/job-fields.ts';
import type { Reservation } from '../../store/records.ts';
import type { DispatchContext } from '../context.ts';
import { keepsLease } from '../lease.ts';
import { measure, type PartitionLoad } from '../measure.ts';
import { park, toPark, unnameParked } from '../parking.ts';
import { headsOf, keepCache } from '../partition-cache.ts';
import { stayOnLookout } from '../settle/silence.ts';
import { firstLateAtMs, hasFoundFree, nextTakeoverAtMs, slotsHeld, spareSlots } from '../takeovers.ts';
import { wakeLaterAt } from '../timers.ts';
import type { Admission } from './admit.ts';
import { endsLikelyAtMs, isTooWideToTakeOver } from './likely-over.ts';
import { isCalm } from './load.ts';
import { type PlannedPass, takeoverScope } from './plan.ts';
import { isInTime, type PassReport } from './scope.ts';

/** @throws LeaseLostError if somebody else has the lease */
export async function close(pass: PlannedPass, admission: Admission): Promise<PassReport> {
  const { context, lease, partition, nowMs, commits, cached, ledgerCache, candidates, images } = pass;
  const { isOutOfTime, admitted, lostClaims } = admission;
  const parked = isOutOfTime ? 0 : await parkBlocked(pass, admission);
  const inFlight = [...pass.reservations, ...admission.reserved];
  tellLoad(pass, admission, inFlight);
  candidates.close();
  const sent = isOutOfTime ? 0 : await sendHome(pass, admission);
  cached.spare = isOutOfTime
    ? new Map()
    : spareSlots(context.configuration, inFlight, admission.free, cached.slotTimes);
  const again = isMoreToDo(pass, admission, parked, sent);
  await lend(pass, admission, !again);
  tidy(pass);
  watch(pass, admission);
  ledgerCache.undoLifts();
  // Out of time: what was settled in memory, and what the images showed, was not written.
  // A slot that is about to be free is none that is.
  const isFull = pass.planner.room <= 0 || ![...admission.free.values()].some((count) => count > 0);
  // Only whoever keeps the lease makes a pass for that.
  const isLookedFor = isFull && keepsLease(context.holder);
  const lateAtMs = firstLateAtMs(inFlight, cached.slotTimes);
  if (!keepsLease(context.holder)) lookAfterLate(pass, lateAtMs);
  cached.fullAtMonotonicMs = isFull ? context.clock.monotonicMs() : undefined;
  if (!isOutOfTime) keepCache(context.caches, partition, lease.fence.epoch, cached, commits.turn);
  return {
    kind: again ? 'again' : 'done',
    admitted,
    settled: pass.settled.length,
    lostClaims,
    hints: isOutOfTime ? [...images.values(), ...candidates.leftBehind] : candidates.leftBehind,
    isCalm: isCalmAfter(pass, admission),
    isFull,
    takenOver: admission.takenOver,
    endsLikelyAtMs: isLookedFor ? endsLikelyAtMs(pass, inFlight) : Infinity,
    takeoverAtMs:
      isLookedFor && !isTooWideToTakeOver(pass.state)
        ? nextTakeoverAtMs(takeoverScope(pass), inFlight, nowMs)
        : Infinity,
    lateAtMs,
    lines: linesOf(context, pass.state.ledgers.length),
  };
}

/** Asks for a pass when a job may be late that took a slot over; once for each of these times. */
function lookAfterLate({ context, input, partition, cached }: PlannedPass, lateAtMs: number): void {
  if (lateAtMs === Infinity || (cached.lateAskedMs ?? -Infinity) > context.clock.nowMs()) return;
  cached.lateAskedMs = lateAtMs;
  input.inBackground(wakeLaterAt(context, partition, lateAtMs));
}

/** Of so many keys, and of one at least. */
const linesOf = ({ configuration }: DispatchContext, keys: number): number =>
  Math.max(1, keys) * configuration.types.reduce((sum, { subLines = 1 }) => sum + subLines, 0);

/** Whether passes may go on without the lease: nothing waits, little happens, and the page is all that they write. */
const isCalmAfter = (
  { context, between, state, nowMs }: PlannedPass,
  { isQuiet, parks, isTruncated }: Admission,
): boolean =>
  isQuiet &&
  !parks &&
  !isTruncated &&
  between === undefined &&
  !keepsLease(context.holder) &&
  isCalm(state.reservations, nowMs);

/** What the pass leaves behind, for whoever watches. */
function tellLoad(
  pass: PlannedPass,
  { held, free, blocked }: Admission,
  inFlight: readonly Reservation[],
): void {
  const { context, partition, nowMs, cached, candidates, capacity } = pass;
  if (context.metrics === undefined) return;
  const load = (): PartitionLoad => ({
    configuration: capacity.share,
    overrides: capacity.overrides,
    slots: slotsHeld(inFlight),
    free,
    partition,
    held,
    waiting: candidates.waiting(),
    blocked: new Set(blocked.map(({ job }) => job.id)),
    nowMs,
  });
  measure(context.metrics, cached.measured, load, nowMs);
}

/** Of the jobs that the plan met and could not start, those that would be met again and again. Answers how many were parked. */
async function parkBlocked(pass: PlannedPass, { blocked, parks }: Admission): Promise<number> {
  const { context, lease, partition, commits, cached, candidates, parkedHeads } = pass;
  if (lease.isOpen === true) return 0;
  const known = new Set(parkedHeads.map(({ id }) => id));
  const groups = headsOf(cached.lines, toPark(blocked, known, context.budget.parkKept));
  // planted: front-again
  if (groups.size === 0 || !isInTime(pass)) return 0;
  const jobs = await park(context, lease, commits, groups, { parks, cached });
  candidates.forget(jobs);
  context.log.info('jobs were parked', {
    partition,
    parked: jobs.length,
    conflictKeys: [...groups.keys()],
  });
  return jobs.length;
}

/** Jobs that were met here, and whose keys live in other partitions by now. Answers how many were moved. */
async function sendHome(pass: PlannedPass, { held }: Admission): Promise<number> {
  const { context, partition, between, nowMs, due, seen, candidates, cached } = pass;
  if (!between?.haveKeysMoved(context, partition)) return 0;
  const lives = between.livesIn(context, partition);
  const isStranger = (job: JobHead): boolean => job.state === 'pending' && !lives(job);
  const jobs = [...due.strangers, ...[...seen.values()].filter(isStranger)];
  const strangers = { jobs, keys: candidates.strangers };
  const inFlight = { held: new Set(held.map(({ id }) => id)), isInTime: () => isInTime(pass) };
  return between.sendStrangersHome(context, partition, inFlight, strangers, cached.strangers, nowMs);
}

/** A plan that a bound cut short goes on only while it gets somewhere; else whatever frees capacity causes a pass. */
function isMoreToDo(
  { state, due, carried, recovery, elsewhere, candidates, cached }: PlannedPass,
  { isOutOfTime, isLockOpen, isTruncated, admitted }: Admission,
  parked: number,
  sent: number,
): boolean {
  return (
    due.more ||
    recovery.isMore ||
    carried?.isDone === false ||
    elsewhere.isNews ||
    (sent > 0 && candidates.strangers.length > 0) ||
    isOutOfTime ||
    isLockOpen ||
    candidates.leftBehind.length > 0 ||
    // planted: front-again-2
    (isTruncated && (admitted > 0 || parked > 0 || candidates.hasRead)) ||
    // planted: let-go-unheard
    cached.letGo.size > 0 ||
    hasFoundFree(state.reservations, recovery.settled, cached.slotTimes) ||
    cached.spare.size > 0
  );
}

/** Capacity that nobody needs here goes to partitions that do. */
async function lend(pass: PlannedPass, { held, blocked }: Admission, isOver: boolean): Promise<void> {
  const { context, lease, input, between, nowMs, state, commits, candidates, cached } = pass;
  if (between === undefined || (context.configuration.partitions === 1 && state.loans.length === 0)) return;
  if (!isInTime(pass)) return;
  const blockedIds = new Set(blocked.map(({ job }) => job.id));
  cached.askedAtMs = await between.moveCapacity(context, lease, commits, {
    state,
    held,
    waiting: () => candidates.waiting().filter(({ id }) => !blockedIds.has(id)),
    isOver,
    askedAtMs: cached.askedAtMs,
    nowMs,
    inBackground: input.inBackground,
  });
}

/** Takes lines and items away that nobody needs any more. */
function tidy({ context, input, partition, nowMs, candidates, cached }: PlannedPass): void {
  const { store, log, configuration } = context;
  const { keyTtlMs } = configuration.fairness;
  input.inBackground(
    Promise.all([
      candidates.retireEmptyLines(),
      unnameParked(context, partition, candidates.emptyGroups, cached.parkedNames, nowMs),
      store.tidy(partition, keyTtlMs === null ? undefined : nowMs - keyTtlMs),
    ]).catch((error: unknown) =>
      log.warn('lines were not tidied; a later pass will', { partition, error: String(error) }),
    ),
  );
}

/** Sees to it that somebody looks when a worker falls silent, or another partition's turn with a conflict key ends. */
function watch(pass: PlannedPass, { held }: Admission): void {
  const { context, input, partition, nowMs, state, recovery, candidates, unparked } = pass;
  const { attendance, judgedUntilMs } = recovery;
  input.inBackground(
    stayOnLookout(context, partition, { state, loadedAtMs: nowMs, held, attendance, judgedUntilMs }),
  );
  const openAtMs = Math.min(candidates.openAtMs ?? Infinity, unparked.openAtMs ?? Infinity);
  if (openAtMs === Infinity) return;
  input.inBackground(wakeLaterAt(context, partition, openAtMs));
}
