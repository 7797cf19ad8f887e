/**
 * Second step of a pass. It releases the capacity of ended attempts, charges their keys, recovers overdue reservations, and reads
 * the parked jobs that can follow. All commits of the settlement except the last begin here and are written while the plan is
 * prepared. The last is written no later than the first reservation, because it frees the capacity that the plan counts on.
 */
import { conflictKeysOf, typesByName } from '../../core/conflict.ts';
import type { ReservedJob } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { Reservation } from '../../store/contract/records.ts';
import { announceLinesOf, submitContextOf } from '../../submit/submit.ts';
import { chargeInDrafts, commitOf, type Draft, emptyDraft, postpone } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeLater, wakeLaterAt } from '../partition/timers.ts';
import { recover, type Settlement } from '../recovery/recover.ts';
import { LOOK_AROUND_MS } from '../tuning.ts';
import { chargedOf, LedgerCache } from '../view/ledger-cache.ts';
import {
  type Images,
  newestOf,
  newestWith,
  type Settled,
  settleFrom,
  withoutSettled,
} from '../view/settled.ts';
import type { LoadedPass } from './load.ts';
import { type FreedParked, freedConflictKey, readFreed } from './parking.ts';
import { send } from './send.ts';

export interface SettledPass extends LoadedPass {
  /** The newest image of each job from hints and promotions. */
  readonly images: Images;
  /** Images of jobs that are in this partition, recovery's included. */
  readonly seen: Images;
  readonly settled: readonly Settled[];
  readonly recovery: Settlement;
  /** Reservations that still hold capacity. */
  readonly reservations: readonly Reservation[];
  readonly inFlight: readonly ReservedJob[];
  readonly ledgerCache: LedgerCache;
  /** Parked jobs whose conflict keys are free now. */
  readonly unparked: FreedParked;
  /** The part of the settlement that is not written yet. */
  readonly draft: Draft;
}

const NOTHING_PARKED: FreedParked = {
  heads: new Map(),
  taken: new Set(),
  empty: [],
  isNothingMarked: false,
};

export async function settle(loaded: LoadedPass): Promise<SettledPass> {
  const { context, input, partition, between, nowMs, state, cached, due, carried } = loaded;
  const images = newestWith(newestOf(input.hints), [...due.promoted, ...due.overtaken]);
  // True in one pass for each declaration, although moving the jobs for it may take several.
  const isRedeployed = carried !== undefined && state.carried?.version !== carried.version;
  const byHints = settleFrom(state.reservations, images);
  const recovery = await recover(context, {
    state,
    loadedAtMs: nowMs,
    settledAlready: byHints,
    checksAll: input.checksAll,
    isRedeployed,
    between,
  });
  const settled = [...byHints, ...recovery.settled];
  const reservations = withoutSettled(state.reservations, settled);
  const inFlight = chargedOf(reservations, context.configuration.fairness, nowMs);

  const ledgerCache = openLedgers(loaded);
  const shown = newestWith(images, recovery.images);
  const seen = imagesInPartition(partition, shown);
  input.inBackground(announceSeen(context, input.hints));

  await readCosts(settled, ledgerCache);
  await releaseLocks(loaded, settled);
  const unparked = await unpark(loaded, settled, seen, inFlight);
  const draft = beginAllButLast(loaded, settled, recovery, ledgerCache);
  input.inBackground(send(context, recovery.resend));
  const { wakeAtMs } = recovery;
  // Passes in quick succession would ask for the same wake.
  if (wakeAtMs !== undefined && wakeAtMs !== cached.recoveryWakeAtMs) {
    cached.recoveryWakeAtMs = wakeAtMs;
    input.inBackground(wakeLaterAt(context, partition, wakeAtMs));
  }
  for (const inMs of recovery.endsInMs) input.inBackground(wakeLater(context, partition, inMs));
  cached.markedCursor = unparked.cursor;
  return {
    ...loaded,
    images,
    seen,
    settled,
    recovery,
    reservations,
    inFlight,
    ledgerCache,
    unparked,
    draft,
  };
}

function openLedgers({ context, partition, nowMs, state, cached }: LoadedPass): LedgerCache {
  const { store, configuration, budget } = context;
  const ledgerCache = new LedgerCache(store, configuration, partition, nowMs, cached, budget.newsShare);
  ledgerCache.know(state);
  // planted: in-flight-unseen
  ledgerCache.noteInFlight(state.reservations);
  return ledgerCache;
}

/** Reads what charging the settled attempts needs: the ledgers of their keys, and what was learned of those that succeeded. */
async function readCosts(settled: readonly Settled[], ledgerCache: LedgerCache): Promise<void> {
  const succeeded = settled.filter((place) => place.succeeded);
  await Promise.all([
    ledgerCache.readLedgers(settled.map(({ entry }) => entry.fairnessKey)),
    ledgerCache.readEstimates(succeeded.map(({ entry, resourceId }) => ({ type: entry.type, resourceId }))),
  ]);
}

/** Releases the locks that the settled jobs held between partitions, and wakes the partitions that wait for them. */
async function releaseLocks(
  { context, input, partition, between, state, carried }: LoadedPass,
  settled: readonly Settled[],
): Promise<void> {
  if (between === undefined) return;
  const next = await between.releaseLocks(context, partition, settled, carried ?? state.carried);
  input.inBackground(between.wakePartitions(context, next));
}

/** Reads the jobs that are parked for freed conflict keys. */
async function unpark(
  { context, input, partition, nowMs, state, cached }: LoadedPass,
  settled: readonly Settled[],
  seen: Images,
  inFlight: readonly ReservedJob[],
): Promise<FreedParked> {
  const freedKeys = [...cached.freedConflictKeys];
  cached.freedConflictKeys.clear();
  const isRoundDue = nowMs - (cached.sweptAtMs ?? -Infinity) >= LOOK_AROUND_MS;
  if (isRoundDue) cached.sweptAtMs = nowMs;
  // planted: parked-by-another
  if (!state.parks) return NOTHING_PARKED;
  const types = typesByName(context.configuration);
  const freed = new Set([
    ...freedKeys,
    // planted: parked-not-freed
    ...settled.flatMap(({ entry }) => conflictKeysOf(types, entry)),
    // planted: parked-not-freed-2
    ...[...seen.values()].flatMap((job: JobHead) => freedConflictKey(context, job) ?? []),
  ]);
  return readFreed(context, {
    partition,
    freed,
    inFlight,
    looksAround: input.checksAll || isRoundDue,
    cursor: cached.markedCursor,
    groupCursors: cached.groupCursors,
    nowMs,
  });
}

/** Begins to write all commits of the settlement except the last. Returns the draft of the last. */
function beginAllButLast(
  { commits }: LoadedPass,
  settled: readonly Settled[],
  { postponed }: Settlement,
  ledgerCache: LedgerCache,
): Draft {
  const drafts = chargeInDrafts(settled, ledgerCache);
  const touched = new Set(settled.map(({ reservation }) => reservation.batchId));
  const isTouched = ({ reservation }: Settlement['postponed'][number]): boolean =>
    touched.has(reservation.batchId);
  postpone(
    drafts,
    postponed.filter((each) => !isTouched(each)),
  );
  // One commit either drops entries of a reservation or postpones it. An earlier check must be written in a commit of its own,
  // because no other pass would make it.
  const sooner = postponed.filter((each) => isTouched(each) && each.checkAtMs < each.reservation.checkAtMs);
  if (sooner.length > 0) {
    drafts.push(emptyDraft());
    postpone(drafts, sooner);
  }
  const last = drafts.pop() as Draft;
  if (drafts.length > 0) commits.begin(drafts.map((full) => commitOf(full, [])));
  return last;
}

/** Images of jobs in this partition. A job may have moved to another one since its hint was sent. */
function imagesInPartition(partition: number, images: Images): Images {
  for (const job of images.values())
    if (job.partition !== partition)
      return new Map([...images].filter(([, each]) => each.partition === partition));
  return images;
}

/**
 * Announces the lines of jobs whose submitters may have died before they did. A failure is repaired when the job appears again.
 */
async function announceSeen(context: DispatchContext, hints: readonly JobHead[]): Promise<void> {
  try {
    await announceLinesOf(submitContextOf(context), hints);
  } catch (error) {
    context.log.warn('lines of late jobs were not announced', { error: String(error) });
  }
}
