/**
 * Last step of a pass. It parks blocked jobs, moves misplaced ones to their partitions, lends free capacity, retires empty lines,
 * stores the cache, and sends the wakes that the partition needs next.
 */
import { nextEndMs } from '../../core/capacity.ts';
import { TERMINAL_TTL_MS } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { DispatchContext } from '../partition/context.ts';
import { heldAmong, METRIC_BOUNDS, waitingHeads } from '../partition/depth.ts';
import { wakeLaterAt } from '../partition/timers.ts';
import { inFlightOf } from '../partitions/rehome.ts';
import { scheduleWorkerCheck } from '../recovery/silence.ts';
import { INDEX_LAG_MS, LOOK_AHEAD_MS, PAGE_MAX } from '../tuning.ts';
import { keepCache } from '../view/partition-cache.ts';
import type { Admission } from './admit.ts';
import { measure, type PartitionLoad, reportBacklogTime } from './measure.ts';
import { jobsToPark, park } from './parking.ts';
import type { PlannedPass } from './plan.ts';
import type { PassReport } from './scope.ts';

/**
 * Closes the pass and reports what it did.
 * @throws CommitLostError if another commit came first
 */
export async function close(pass: PlannedPass, admission: Admission): Promise<PassReport> {
  const { context, input, partition, commits, cached, candidates } = pass;
  const { admitted, lostClaims } = admission;
  const parked = await parkBlocked(pass, admission);
  reportLoad(pass, admission);
  candidates.close(admission.unseenUntilMs);
  const sent = await moveMisplaced(pass, admission);
  const again = isMoreToDo(pass, admission, parked, sent);
  await lend(pass, admission, !again);
  tidy(pass);
  input.inBackground(unmark(pass));
  scheduleChecks(pass, admission);
  wakeForControls(pass);
  // planted: unseen-and-unwoken
  wakeForUnseen(pass, admission);
  keepCache(context.caches, partition, cached, commits.version);
  return {
    kind: again ? 'again' : 'done',
    admitted,
    settled: pass.settled.length,
    lostClaims,
    hints: candidates.missedEnds,
    isFull: pass.planner.room <= 0,
    lines: linesOf(context, pass.state.ledgers.length),
  };
}

/** Returns the number of ready lines that so many keys can have, at least that of one key. */
const linesOf = ({ configuration }: DispatchContext, keys: number): number =>
  Math.max(1, keys) * configuration.types.length;

/**
 * Sends two wakes if this pass has written that reads may miss a waiting job. The first comes soon, if slots are free;
 * the second comes when reads are certain to show the job. Only the pass that wrote the statement sends wakes. If every
 * pass that reads the statement sent some, wakes would cause wakes.
 */
function wakeForUnseen(
  { context, input, partition, planner }: PlannedPass,
  { hasWrittenUnseen, unseenUntilMs }: Admission,
): void {
  if (!hasWrittenUnseen) return;
  const soon = planner.room > 0 ? [context.clock.nowMs() + INDEX_LAG_MS] : [];
  for (const atMs of [...soon, unseenUntilMs]) input.inBackground(wakeLaterAt(context, partition, atMs));
}

/** Reports to the metrics what the pass leaves behind. */
function reportLoad(pass: PlannedPass, { held, admittedEntries, blocked }: Admission): void {
  const { context, input, partition, nowMs, cached, candidates, capacity } = pass;
  const { metrics } = context;
  if (metrics === undefined) return;
  const load = (): PartitionLoad => ({
    configuration: capacity.share,
    overrides: capacity.overrides,
    free: capacity.free,
    partition,
    held,
    admitted: admittedEntries,
    waiting: candidates.waiting(),
    blocked: new Set(blocked.map(({ job }) => job.id)),
    nowMs,
  });
  const measured = measure(metrics, cached.measured, load, nowMs);
  if (measured === undefined || !metrics.asksFor('backlogTime')) return;
  input.inBackground(
    reportBacklogTime(metrics, measured, {
      waitingIn: async (types) =>
        (
          await waitingHeads(context, partition, {
            types,
            bounds: METRIC_BOUNDS,
            held: () => heldAmong(held),
          })
        ).heads,
      costMs: (type) => pass.ledgerCache.costMs(type, undefined),
    }).catch((error: unknown) =>
      context.log.warn('the metric BacklogTime was not computed; the next minute does', {
        partition,
        error: String(error),
      }),
    ),
  );
}

/** Parks blocked jobs that later plans would meet again and again. Returns how many were parked. */
async function parkBlocked(pass: PlannedPass, { blocked, parks }: Admission): Promise<number> {
  const { context, partition, commits, cached, candidates, parkedHeads } = pass;
  const known = new Set(parkedHeads.map(({ id }) => id));
  const groups = cached.view.headsOf(jobsToPark(blocked, known, context.budget.parkKept));
  // planted: front-again
  if (groups.size === 0) return 0;
  const jobs = await park(context, partition, commits, groups, { parks, cached });
  candidates.noteParked(jobs);
  context.log.info('jobs were parked', {
    partition,
    parked: jobs.length,
    conflictKeys: [...groups.keys()],
  });
  return jobs.length;
}

/** Moves jobs that this pass found here, and whose keys belong to another partition. Returns how many were moved. */
async function moveMisplaced(pass: PlannedPass, { held }: Admission): Promise<number> {
  const { context, partition, between, nowMs, due, imagesHere, commits, candidates, cached } = pass;
  if (!between?.haveKeysMoved(context, partition)) return 0;
  const lives = between.belongsTo(context, partition);
  const isStranger = (job: JobHead): boolean => job.state === 'pending' && !lives(job);
  const jobs = [...due.strangers, ...[...imagesHere.values()].filter(isStranger)];
  const strangers = { jobs, keys: candidates.strangers };
  const inFlight = inFlightOf(new Set(held.map(({ id }) => id)), commits);
  return between.moveMisplaced(context, partition, inFlight, strangers, cached.misplaced, nowMs);
}

/**
 * Whether another pass would find something to do at once. A plan that a bound cut short counts only if it made progress;
 * otherwise the pass waits for freed capacity, which causes a pass by itself.
 */
function isMoreToDo(
  { due, carried, recovery, elsewhere, candidates, cached }: PlannedPass,
  { isLockOpen, isTruncated, isExpiring, admitted }: Admission,
  parked: number,
  sent: number,
): boolean {
  return (
    due.more ||
    recovery.isMore ||
    carried?.isDone === false ||
    elsewhere.isNews ||
    (sent > 0 && candidates.strangers.length > 0) ||
    isLockOpen ||
    isExpiring ||
    candidates.missedEnds.length > 0 ||
    // planted: front-again-2
    (isTruncated && (admitted > 0 || parked > 0 || candidates.hasRead)) ||
    // planted: let-go-unheard
    cached.freedConflictKeys.size > 0
  );
}

/** Lends capacity that this partition does not need to partitions that need it, and asks for capacity that it lacks. */
async function lend(pass: PlannedPass, { held, blocked }: Admission, isOver: boolean): Promise<void> {
  const { context, partition, input, between, nowMs, state, commits, candidates, cached } = pass;
  if (between === undefined || (context.configuration.partitions === 1 && state.loans.length === 0)) return;
  const blockedIds = new Set(blocked.map(({ job }) => job.id));
  cached.askedAtMs = await between.moveCapacity(context, partition, commits, {
    state,
    held,
    waiting: () => candidates.waiting().filter(({ id }) => !blockedIds.has(id)),
    isOver,
    askedAtMs: cached.askedAtMs,
    nowMs,
    inBackground: input.inBackground,
  });
}

/** Retires empty lines and deletes expired items. */
function tidy({ context, input, partition, nowMs, state, candidates }: PlannedPass): void {
  const { store, log, configuration } = context;
  const { keyTtlMs } = configuration.fairness;
  // A rest leaves no entry among the changes, so its control may be deleted. The changes of operators are their
  // history, which is kept as long as ended jobs are.
  const ended = state.endedControls
    .filter(({ changes = [] }) =>
      changes.every(({ atMs, untilMs = atMs }) => Math.max(atMs, untilMs) < nowMs - TERMINAL_TTL_MS),
    )
    .slice(0, PAGE_MAX);
  input.inBackground(
    Promise.all([
      candidates.retireEmptyLines(),
      store.tidy({ partition, expiredMs: keyTtlMs === null ? undefined : nowMs - keyTtlMs, ended }),
    ]).catch((error: unknown) =>
      log.warn('empty lines were not retired; a later pass retires them', {
        partition,
        error: String(error),
      }),
    ),
  );
}

/**
 * Deletes the marks (`ParkedMark`) of conflict keys whose blocked lines were found empty. A mark that stays costs one read. This runs after the pass's commit: a
 * dispatcher that renewed the mark before that commit, and parks a job only now, is refused.
 */
async function unmark({ context, partition, unparked }: PlannedPass): Promise<void> {
  const { store, log } = context;
  try {
    await Promise.all(unparked.empty.map((mark) => store.unmarkParked({ partition, mark })));
  } catch (error) {
    log.warn('marks of parked jobs were not deleted; a later pass deletes them', { error: String(error) });
  }
}

/**
 * Sends a wake for the end of a pause, an override or a rest. Only passes of a lead do so, and each wake and each tick
 * makes such a pass. A pass for a stream batch begins with an empty cache, so it would send the same wake each time.
 */
function wakeForControls({ context, input, partition, nowMs, state, cached }: PlannedPass): void {
  const endMs = Math.min(...state.controls.map(nextEndMs));
  if (input.leadBy === undefined || endMs > nowMs + LOOK_AHEAD_MS || endMs === cached.controlWakeAtMs) return;
  cached.controlWakeAtMs = endMs;
  input.inBackground(wakeLaterAt(context, partition, endMs));
}

/**
 * Schedules a worker check for the next end of a lease, and a wake for when a lock is no longer reserved for another partition,
 * or a limit opens.
 */
function scheduleChecks(pass: PlannedPass, { held, opensAtMs }: Admission): void {
  const { context, input, partition, nowMs, state, cached, recovery, candidates, unparked } = pass;
  const { observation, judgedUntilMs } = recovery;
  input.inBackground(
    scheduleWorkerCheck(context, partition, { state, loadedAtMs: nowMs, held, observation, judgedUntilMs }),
  );
  const openAtMs = Math.min(
    ...[candidates.openAtMs, unparked.openAtMs, opensAtMs].map((atMs) => atMs ?? Infinity),
  );
  // Another pass has already sent a wake for this instant.
  if (openAtMs === Infinity || openAtMs === cached.openWakeAtMs) return;
  cached.openWakeAtMs = openAtMs;
  input.inBackground(wakeLaterAt(context, partition, openAtMs));
}
