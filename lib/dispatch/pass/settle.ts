/**
 * Second step of a pass. It releases the capacity of ended attempts, charges their keys, recovers overdue reservations, and reads
 * the parked jobs that can follow. All commits of the settlement except the last begin here and are written while the plan is
 * prepared. The last is written no later than the first reservation, because it frees the capacity that the plan counts on.
 */

import type { PoolConfiguration } from '../../core/configuration.ts';
import type { ReservedJob } from '../../core/job.ts';
import { ledgersOfKeys } from '../../core/limits.ts';
import { parkingKeysOf } from '../../core/scope.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { Reservation } from '../../store/contract/records.ts';
import { announceLinesOf, submitContextOf } from '../../submit/submit.ts';
import { chargeInDrafts, commitOf, type Draft, emptyDraft, postpone } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeLater, wakeLaterAt } from '../partition/timers.ts';
import { type RecoveryResult, recover } from '../recovery/recover.ts';
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
import { counterOfEnds } from './count.ts';
import type { LoadedPass } from './load.ts';
import { type FreedParked, freedConflictKeys, readFreed } from './parking.ts';
import { send } from './send.ts';

export interface SettledPass extends LoadedPass {
  /** The newest image of each job in this partition that hints, promotions or recovery have shown. */
  readonly imagesHere: Images;
  readonly settled: readonly Settled[];
  readonly recovery: RecoveryResult;
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
  // This is true in one pass for each declaration, although moving the jobs for it may take several passes.
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
  const imagesHere = imagesInPartition(partition, shown);
  input.inBackground(announceSeen(context, input.hints));

  await readCosts(context.configuration, settled, ledgerCache);
  await releaseLocks(loaded, settled);
  const unparked = await unpark(loaded, settled, imagesHere, inFlight);
  const draft = beginAllButLast(loaded, settled, recovery, ledgerCache);
  input.inBackground(send(context, recovery.resend));
  const { wakeAtMs } = recovery;
  // Another pass has already sent a wake for this instant.
  if (wakeAtMs !== undefined && wakeAtMs !== cached.recoveryWakeAtMs) {
    cached.recoveryWakeAtMs = wakeAtMs;
    input.inBackground(wakeLaterAt(context, partition, wakeAtMs));
  }
  for (const inMs of recovery.endsInMs) input.inBackground(wakeLater(context, partition, inMs));
  cached.markedCursor = unparked.cursor;
  return {
    ...loaded,
    imagesHere,
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

/**
 * Reads the ledgers to which the settled attempts are charged, and the learned costs that change with those that
 * succeeded.
 */
async function readCosts(
  configuration: PoolConfiguration,
  settled: readonly Settled[],
  ledgerCache: LedgerCache,
): Promise<void> {
  const succeeded = settled.filter((place) => place.succeeded);
  const entries = settled.map(({ entry }) => entry);
  await Promise.all([
    ledgerCache.readLedgers([
      ...entries.map(({ fairnessKey }) => fairnessKey),
      ...ledgersOfKeys(configuration, entries),
    ]),
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
  imagesHere: Images,
  inFlight: readonly ReservedJob[],
): Promise<FreedParked> {
  const freedKeys = [...cached.freedConflictKeys];
  cached.freedConflictKeys.clear();
  const isRoundDue = nowMs - (cached.sweptAtMs ?? -Infinity) >= LOOK_AROUND_MS;
  if (isRoundDue) cached.sweptAtMs = nowMs;
  // planted: parked-by-another
  if (!state.parks) return NOTHING_PARKED;
  const freed = new Set([
    ...freedKeys,
    // planted: parked-not-freed
    ...settled.flatMap(({ entry }) => parkingKeysOf(context.configuration, entry)),
    // planted: parked-not-freed-2
    ...[...imagesHere.values()].flatMap((job: JobHead) => freedConflictKeys(context, job)),
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
  { context, commits, nowMs }: LoadedPass,
  settled: readonly Settled[],
  { postponed }: RecoveryResult,
  ledgerCache: LedgerCache,
): Draft {
  const drafts = chargeInDrafts(settled, ledgerCache, counterOfEnds(context, nowMs));
  const touched = new Set(settled.map(({ reservation }) => reservation.batchId));
  const isTouched = ({ reservation }: RecoveryResult['postponed'][number]): boolean =>
    touched.has(reservation.batchId);
  postpone(
    drafts,
    postponed.filter((each) => !isTouched(each)),
  );
  // One commit cannot both drop entries of a reservation and change its check. A later check may be left out, because the old
  // one still comes. An earlier check gets a commit of its own, because otherwise nothing would check the reservation in time.
  const sooner = postponed.filter((each) => isTouched(each) && each.checkAtMs < each.reservation.checkAtMs);
  if (sooner.length > 0) {
    drafts.push(emptyDraft());
    postpone(drafts, sooner);
  }
  const last = drafts.pop() as Draft;
  if (drafts.length > 0) commits.begin(drafts.map((full) => commitOf(full, [])));
  return last;
}

/** Returns the images of jobs in this partition. A job may have moved to another one since its hint was sent. */
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
