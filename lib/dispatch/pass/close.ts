/** Last step: what is in the way of the next pass is put away, and what comes next is seen to. */
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeLaterAt } from '../partition/timers.ts';
import { inFlightOf } from '../partitions/rehome.ts';
import { stayOnLookout } from '../recovery/silence.ts';
import { INDEX_LAG_MS } from '../tuning.ts';
import { keepCache } from '../view/partition-cache.ts';
import type { Admission } from './admit.ts';
import { measure, type PartitionLoad } from './measure.ts';
import { park, toPark } from './parking.ts';
import type { PlannedPass } from './plan.ts';
import type { PassReport } from './scope.ts';

/** @throws CommitLostError if another commit came first */
export async function close(pass: PlannedPass, admission: Admission): Promise<PassReport> {
  const { context, input, partition, commits, cached, candidates } = pass;
  const { admitted, lostClaims } = admission;
  const parked = await parkBlocked(pass, admission);
  tellLoad(pass, admission);
  candidates.close(admission.unseenUntilMs);
  const sent = await sendHome(pass, admission);
  const again = isMoreToDo(pass, admission, parked, sent);
  await lend(pass, admission, !again);
  tidy(pass);
  input.inBackground(unmark(pass));
  watch(pass, admission);
  // planted: unseen-and-unwoken
  wakeForUnseen(pass, admission);
  keepCache(context.caches, partition, cached, commits.version);
  return {
    kind: again ? 'again' : 'done',
    admitted,
    settled: pass.settled.length,
    lostClaims,
    hints: candidates.leftBehind,
    isFull: pass.planner.room <= 0,
    lines: linesOf(context, pass.state.ledgers.length),
  };
}

/** Of so many keys, and of one at least. */
const linesOf = ({ configuration }: DispatchContext, keys: number): number =>
  Math.max(1, keys) * configuration.types.length;

/**
 * Where this pass has said that a job may wait which no read shows yet, other passes are to read the lines: soon if slots are free, and once
 * they show it for certain. Only the pass that says so asks for them: were it each that sees it, wakes would cause wakes.
 */
function wakeForUnseen(
  { context, input, partition, planner }: PlannedPass,
  { hasSaidUnseen, unseenUntilMs }: Admission,
): void {
  if (!hasSaidUnseen) return;
  const soon = planner.room > 0 ? [context.clock.nowMs() + INDEX_LAG_MS] : [];
  for (const atMs of [...soon, unseenUntilMs]) input.inBackground(wakeLaterAt(context, partition, atMs));
}

/** Tells metrics what the pass leaves behind. */
function tellLoad(pass: PlannedPass, { held, blocked }: Admission): void {
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

/** Of the jobs that the plan met and could not start, those that would be met again and again. Answers how many were parked. */
async function parkBlocked(pass: PlannedPass, { blocked, parks }: Admission): Promise<number> {
  const { context, partition, commits, cached, candidates, parkedHeads } = pass;
  const known = new Set(parkedHeads.map(({ id }) => id));
  const groups = cached.view.headsOf(toPark(blocked, known, context.budget.parkKept));
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

/** Jobs that were met here, and whose keys live in other partitions by now. Answers how many were moved. */
async function sendHome(pass: PlannedPass, { held }: Admission): Promise<number> {
  const { context, partition, between, nowMs, due, seen, commits, candidates, cached } = pass;
  if (!between?.haveKeysMoved(context, partition)) return 0;
  const lives = between.livesIn(context, partition);
  const isStranger = (job: JobHead): boolean => job.state === 'pending' && !lives(job);
  const jobs = [...due.strangers, ...[...seen.values()].filter(isStranger)];
  const strangers = { jobs, keys: candidates.strangers };
  const inFlight = inFlightOf(new Set(held.map(({ id }) => id)), commits);
  return between.sendStrangersHome(context, partition, inFlight, strangers, cached.strangers, nowMs);
}

/** A plan that a bound cut short goes on only while it gets somewhere; else whatever frees capacity causes a pass. */
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
    candidates.leftBehind.length > 0 ||
    // planted: front-again-2
    (isTruncated && (admitted > 0 || parked > 0 || candidates.hasRead)) ||
    // planted: let-go-unheard
    cached.letGo.size > 0
  );
}

/** Capacity that is not needed here goes to partitions that need it. */
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

/** Takes lines and items away that are not needed any more. */
function tidy({ context, input, partition, nowMs, candidates }: PlannedPass): void {
  const { store, log, configuration } = context;
  const { keyTtlMs } = configuration.fairness;
  input.inBackground(
    Promise.all([
      candidates.retireEmptyLines(),
      store.tidy({ partition, expiredMs: keyTtlMs === null ? undefined : nowMs - keyTtlMs }),
    ]).catch((error: unknown) =>
      log.warn('lines were not tidied; a later pass will', { partition, error: String(error) }),
    ),
  );
}

/**
 * Takes marks away whose blocked lines were found empty. One that stays costs a read. The commit of this pass comes first: a dispatcher that
 * renewed the mark before it, and parks behind it only now, is refused.
 */
async function unmark({ context, partition, unparked }: PlannedPass): Promise<void> {
  const { store, log } = context;
  try {
    await Promise.all(unparked.empty.map((mark) => store.unmarkParked({ partition, mark })));
  } catch (error) {
    log.warn('marks of parked jobs were not taken away; a later pass does it', { error: String(error) });
  }
}

/** Sees to it that a look comes when a worker falls silent, or another partition's turn with a conflict key ends. */
function watch(pass: PlannedPass, { held }: Admission): void {
  const { context, input, partition, nowMs, state, cached, recovery, candidates, unparked } = pass;
  const { attendance, judgedUntilMs } = recovery;
  input.inBackground(
    stayOnLookout(context, partition, { state, loadedAtMs: nowMs, held, attendance, judgedUntilMs }),
  );
  const openAtMs = Math.min(candidates.openAtMs ?? Infinity, unparked.openAtMs ?? Infinity);
  // Passes close together ask for the same wake.
  if (openAtMs === Infinity || openAtMs === cached.openAskedMs) return;
  cached.openAskedMs = openAtMs;
  input.inBackground(wakeLaterAt(context, partition, openAtMs));
}
