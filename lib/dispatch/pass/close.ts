/**
 * Last step of a pass. It parks blocked jobs, moves misplaced ones to their partitions, lends free capacity, retires empty lines,
 * stores the cache, and sends the wakes that the partition needs next.
 */
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeLaterAt } from '../partition/timers.ts';
import { inFlightOf } from '../partitions/rehome.ts';
import { scheduleWorkerCheck } from '../recovery/silence.ts';
import { INDEX_LAG_MS } from '../tuning.ts';
import { keepCache } from '../view/partition-cache.ts';
import type { Admission } from './admit.ts';
import { measure, type PartitionLoad } from './measure.ts';
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

/** Ready lines for so many keys, or for one key if there is none. */
const linesOf = ({ configuration }: DispatchContext, keys: number): number =>
  Math.max(1, keys) * configuration.types.length;

/**
 * Sends wakes if this pass has written that reads may miss a waiting job. The first comes soon, if slots are free; the second
 * comes when reads are certain to show the job. Only the pass that wrote it sends wakes: if every pass that sees it did, wakes
 * would cause wakes.
 */
function wakeForUnseen(
  { context, input, partition, planner }: PlannedPass,
  { hasSaidUnseen, unseenUntilMs }: Admission,
): void {
  if (!hasSaidUnseen) return;
  const soon = planner.room > 0 ? [context.clock.nowMs() + INDEX_LAG_MS] : [];
  for (const atMs of [...soon, unseenUntilMs]) input.inBackground(wakeLaterAt(context, partition, atMs));
}

/** Reports to the metrics what the pass leaves behind. */
function reportLoad(pass: PlannedPass, { held, blocked }: Admission): void {
  const { context, partition, nowMs, cached, candidates, capacity, inFlight } = pass;
  if (context.metrics === undefined) return;
  const load = (): PartitionLoad => ({
    configuration: capacity.share,
    overrides: capacity.overrides,
    free: capacity.free,
    partition,
    held,
    admitted: held.slice(inFlight.length),
    waiting: candidates.waiting(),
    blocked: new Set(blocked.map(({ job }) => job.id)),
    nowMs,
  });
  measure(context.metrics, cached.measured, load, nowMs);
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
  const { context, partition, between, nowMs, due, seen, commits, candidates, cached } = pass;
  if (!between?.haveKeysMoved(context, partition)) return 0;
  const lives = between.belongsTo(context, partition);
  const isStranger = (job: JobHead): boolean => job.state === 'pending' && !lives(job);
  const jobs = [...due.strangers, ...[...seen.values()].filter(isStranger)];
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
  { isLockOpen, isTruncated, admitted }: Admission,
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
    candidates.missedEnds.length > 0 ||
    // planted: front-again-2
    (isTruncated && (admitted > 0 || parked > 0 || candidates.hasRead)) ||
    // planted: let-go-unheard
    cached.freedConflictKeys.size > 0
  );
}

/** Lends capacity that this partition does not need to partitions that need it. */
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
function tidy({ context, input, partition, nowMs, candidates }: PlannedPass): void {
  const { store, log, configuration } = context;
  const { keyTtlMs } = configuration.fairness;
  input.inBackground(
    Promise.all([
      candidates.retireEmptyLines(),
      store.tidy({ partition, expiredMs: keyTtlMs === null ? undefined : nowMs - keyTtlMs }),
    ]).catch((error: unknown) =>
      log.warn('empty lines were not retired; a later pass retires them', {
        partition,
        error: String(error),
      }),
    ),
  );
}

/**
 * Deletes marks whose blocked lines were found empty. A mark that stays costs one read. This runs after the pass's commit: a
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
 * Schedules a worker check for the next end of a lease, and a wake for when a lock is no longer reserved for another partition.
 */
function scheduleChecks(pass: PlannedPass, { held }: Admission): void {
  const { context, input, partition, nowMs, state, cached, recovery, candidates, unparked } = pass;
  const { attendance, judgedUntilMs } = recovery;
  input.inBackground(
    scheduleWorkerCheck(context, partition, { state, loadedAtMs: nowMs, held, attendance, judgedUntilMs }),
  );
  const openAtMs = Math.min(candidates.openAtMs ?? Infinity, unparked.openAtMs ?? Infinity);
  // Passes in quick succession would ask for the same wake.
  if (openAtMs === Infinity || openAtMs === cached.lockWakeAtMs) return;
  cached.lockWakeAtMs = openAtMs;
  input.inBackground(wakeLaterAt(context, partition, openAtMs));
}
