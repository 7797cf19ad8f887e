/**
 * One pass: load, settle, promote, plan, commit, claim, send. The steps that take capacity are named as in the model
 * of the protocol (test/protocol): loads → reserves → sends the claim → raises the version → drops.
 *
 * Bounds: one partition read, at most `checkMax` reservations looked up, `promoteMax` due jobs in each of ten rounds, and
 * as many heads as the planner asks for, which is bounded by the free capacity.
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Job, ReservedJob } from '../core/job.ts';
import type { Moved } from '../core/lending.ts';
import { shareOfOverrides, shareOfPool } from '../core/partition.ts';
import { createPlanner, type Planner, type Step } from '../core/planner.ts';
import type { Decision } from '../core/scheduler.ts';
import { keysHeldBy, typesByName } from '../core/terms.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import { TRANSACTION_ITEMS_MAX } from '../store/bounds.ts';
import type {
  Commit,
  EstimateRecord,
  JobHead,
  Ledger,
  PartitionState,
  Reservation,
} from '../store/contract.ts';
import { placesWithout } from '../store/page.ts';
import { readyLineName } from '../store/schema.ts';
import { Books } from './books.ts';
import { Candidates } from './candidates.ts';
import { carry } from './carry.ts';
import { asSubmitter, type DispatchContext } from './context.ts';
import { lookElsewhere, movedLess, overridesLess, slotsLess } from './handover.ts';
import { batchIdOf, claimIdOf } from './judge.ts';
import type { HeldLease } from './lease.ts';
import { moveCapacity, movedTo, slotsOfWorkers } from './loans.ts';
import { needsLocks, releaseLocks, wakePartitions } from './locks.ts';
import { stayOnLookout } from './lookout.ts';
import { keyLetGo, moveBack, park, readFreed, toPark, type Unparked, unnameParked } from './parking.ts';
import { livesIn, sendStrangersHome } from './rehome.ts';
import { forgetMissed, keepBooks, openBooks, type RememberedLines } from './remembered.ts';
import { newest, recover, type Settled, settleFrom } from './settle.ts';
import { announceLate, putAnnounced, readyLineOf } from './submit.ts';
import { dueShardsKnown, dueShardsOf, wakeLater } from './timers.ts';

/** What one pass did. */
export interface PassReport {
  /** `again`: a bound or a stale candidate ended it; there may be more to do at once. */
  readonly kind: 'done' | 'again';
  readonly admitted: number;
  readonly settled: number;
  readonly lostClaims: number;
  /** Images with which the next pass settles what a lost hint left behind. */
  readonly hints: readonly JobHead[];
}

export interface PassInput {
  /** Images of jobs, newest known: candidates, and outcomes to settle. */
  readonly hints: readonly JobHead[];
  /** Numbers the batches made under this lease. */
  readonly nextBatch: () => number;
  /** Somebody left word without saying what: look up what is in flight, whether or not its time has come. */
  readonly looksUp: boolean;
  /** Look for scheduled jobs whose time has come. */
  readonly promotes: boolean;
  /** Of the hints, jobs that were stored just now, and that nobody else can have seen. */
  readonly justStored: ReadonlySet<string>;
  /** Takes what nothing waits for: it goes on beside the pass and the release of the lease, and never rejects. */
  readonly goOnBeside: (work: Promise<unknown>) => void;
}

/** Items of one commit's settlement: most leave room for a reservation with its lifted ledgers. */
const SETTLED_ITEMS_MAX = 45;
/** The check of the epoch, and the reservation. */
const RESERVING_ITEMS = 2;
/** A hint of a job that became ready within this is hardly outdated: what this process admitted lately it remembers. */
const HINT_TRUSTED_MS = 30_000;
/** How often the marks of parked jobs are looked at, for what lost hints left behind. */
const ROUND_EVERY_MS = 60_000;
/** Blocked jobs that a plan may meet where nothing is in flight and no slot is free. */
const BLOCKED_MIN = 64;

/** Everything a commit may hold, to be filled. */
interface Draft {
  readonly drops: Map<string, { readonly reservation: Reservation; readonly positions: number[] }>;
  readonly postponed: Map<string, { readonly reservation: Reservation; readonly checkAtMs: number }>;
  readonly ledgers: Map<string, Ledger>;
  readonly estimates: Map<string, EstimateRecord>;
}

const emptyDraft = (): Draft => ({
  drops: new Map(),
  postponed: new Map(),
  ledgers: new Map(),
  estimates: new Map(),
});

/** The settlement in as few commits as their bound allows; the last one has room for a reservation. */
function draftsOf(settled: readonly Settled[], books: Books): Draft[] {
  const drafts: Draft[] = [];
  const current = new Map<string, Reservation>();
  let draft = emptyDraft();
  for (const place of settled) {
    const { batchId } = place.reservation;
    const { ledgers, estimates } = books.settle(place);
    for (const ledger of ledgers) draft.ledgers.set(ledger.fairnessKey, ledger);
    for (const each of estimates) draft.estimates.set(JSON.stringify([each.type, each.resourceId]), each);
    dropPlace(draft, current.get(batchId) ?? place.reservation, place.position);
    if (itemsOf(draft) < SETTLED_ITEMS_MAX) continue;
    for (const { reservation, positions } of draft.drops.values()) {
      const jobs = placesWithout(reservation.jobs, new Set(positions));
      current.set(reservation.batchId, { ...reservation, jobs });
    }
    drafts.push(draft);
    draft = emptyDraft();
  }
  drafts.push(draft);
  return drafts;
}

const itemsOf = (draft: Draft): number =>
  draft.drops.size + draft.postponed.size + draft.ledgers.size + draft.estimates.size;

/** A draft in as few commits as their bound allows; the last one has room for so many items more. */
function inCommits(draft: Draft, room: number): readonly Draft[] {
  const ledgers = [...draft.ledgers];
  const others = itemsOf(draft) - ledgers.length;
  const most = TRANSACTION_ITEMS_MAX - room;
  const first = Math.max(0, most - others);
  const parts: Draft[] = [];
  for (let from = first; from < ledgers.length; from += most)
    parts.push({ ...emptyDraft(), ledgers: new Map(ledgers.slice(from, from + most)) });
  return [...parts, { ...draft, ledgers: new Map(ledgers.slice(0, first)) }];
}

function dropPlace(draft: Draft, reservation: Reservation, position: number): void {
  const drop = draft.drops.get(reservation.batchId);
  if (drop === undefined) draft.drops.set(reservation.batchId, { reservation, positions: [position] });
  else drop.positions.push(position);
  draft.postponed.delete(reservation.batchId);
}

const commitOf = (draft: Draft, reserve: readonly Reservation[]): Commit => ({
  drop: [...draft.drops.values()],
  postpone: [...draft.postponed.values()],
  ledgers: [...draft.ledgers.values()],
  estimates: [...draft.estimates.values()],
  reserve,
});

/** Reservations without the settled places; empty ones are gone. */
function without(reservations: readonly Reservation[], settled: readonly Settled[]): readonly Reservation[] {
  const dropped = new Map<string, Set<number>>();
  for (const { reservation, position } of settled) {
    const positions = dropped.get(reservation.batchId);
    if (positions === undefined) dropped.set(reservation.batchId, new Set([position]));
    else positions.add(position);
  }
  return reservations.flatMap((reservation) => {
    const positions = dropped.get(reservation.batchId);
    if (positions === undefined) return [reservation];
    const jobs = placesWithout(reservation.jobs, positions);
    return jobs.size === 0 ? [] : [{ ...reservation, jobs }];
  });
}

/** Free slots by fleet: declared ones, or those of live workers, less what is in flight. */
function freeSlots(
  configuration: PoolConfiguration,
  state: PartitionState,
  moved: Moved,
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

interface Promotion {
  readonly promoted: readonly Job[];
  /** Of keys that live in other partitions: they are moved there instead. */
  readonly strangers: readonly JobHead[];
  readonly more: boolean;
}

/** Rounds in which one pass promotes due jobs. With more than these promote, it plans with what it has, and goes on. */
const PROMOTE_ROUNDS_MAX = 10;

const NOTHING_DUE: Promotion = { promoted: [], strangers: [], more: false };

/** Due jobs that were read of one shard of the due line, and not promoted yet. */
interface DueShard {
  readonly shard: number;
  readonly jobs: readonly JobHead[];
  readonly next: string | undefined;
  readonly isRead: boolean;
}

/**
 * Moves due jobs of these shards of the due line to their ready lines: all of them, soonest first, up to `promoteMax` in each
 * of `PROMOTE_ROUNDS_MAX` rounds. Who plans must know them: the best of them may have become due last. Answers their
 * new images; `more`: others are left to the next pass.
 */
async function promoteDue(
  context: DispatchContext,
  partition: number,
  shards: readonly number[],
  nowMs: number,
): Promise<Promotion> {
  const { store, budget } = context;
  const { promoteMax } = budget;
  const readOn = async (due: DueShard): Promise<DueShard> => {
    if (due.jobs.length >= promoteMax || (due.isRead && due.next === undefined)) return due;
    // Behind what was read, not from the front: the index may go on showing what was promoted.
    const { jobs, next } = await store.readDue(partition, nowMs, promoteMax, due.next, due.shard);
    return { ...due, jobs: [...due.jobs, ...jobs], next, isRead: true };
  };
  const lives = livesIn(context, partition);
  const promoted: Job[] = [];
  const strangers: JobHead[] = [];
  let due = shards.map((shard): DueShard => ({ shard, jobs: [], next: undefined, isRead: false }));
  for (let round = 0; round < PROMOTE_ROUNDS_MAX; round += 1) {
    due = await Promise.all(due.map(readOn));
    const chosen = due
      .flatMap(({ jobs }) => jobs)
      .sort((one, other) => one.runAtMs - other.runAtMs)
      .slice(0, promoteMax);
    if (chosen.length === 0) break;
    // Their lines may have been retired while they waited for their time.
    const own = chosen.filter(lives);
    const moved = await putAnnounced(asSubmitter(context), own, () => store.promote(own, nowMs));
    strangers.push(...chosen.filter((job) => !lives(job)));
    promoted.push(...moved.filter((job) => job !== undefined));
    const taken = new Set(chosen.map(({ id }) => id));
    due = due.map((each) => ({ ...each, jobs: each.jobs.filter(({ id }) => !taken.has(id)) }));
    if (due.every(({ jobs, next }) => jobs.length === 0 && next === undefined)) break;
  }
  return { promoted, strangers, more: due.some(({ jobs, next }) => jobs.length > 0 || next !== undefined) };
}

/**
 * Makes one pass under a lease. `lost`: somebody has superseded it; nothing that follows would count. `outdated`: nothing was
 * decided, because the partition knows of a newer declaration.
 */
export async function pass(
  context: DispatchContext,
  lease: HeldLease,
  input: PassInput,
): Promise<PassReport | { readonly kind: 'lost' } | { readonly kind: 'outdated'; readonly version: number }> {
  const { store, clock, configuration, budget, log } = context;
  const { partition, epoch } = lease.fence;
  const nowMs = clock.nowMs();

  const remembered = openBooks(context.books, partition, epoch);
  // Who looks up what is in flight missed hints: heads may have changed without one too, and keys may have come.
  if (input.looksUp) forgetMissed(remembered.lines);
  const lifts = configuration.fairness.idlePolicy === 'advance';
  // Who lifts all keys that came must see all jobs that are due.
  const promotes = input.promotes || (lifts && remembered.lines.coming === undefined);
  remembered.lines.sinceMs ??= nowMs;
  const shards = dueShardsKnown(context, partition);
  const lives = livesIn(context, partition);
  const [state, due] = await Promise.all([
    store.loadPartition(partition, nowMs),
    promotes ? promoteDue(context, partition, shards, nowMs) : NOTHING_DUE,
  ]);
  if (state.epoch !== epoch) return { kind: 'lost' };
  const { deployed } = context;
  if (deployed !== undefined) {
    const { declared = 0 } = state;
    // Nothing of an older declaration is decided from now on: it may allow what a newer one does not.
    if (declared > deployed.version) return { kind: 'outdated', version: declared };
    if (declared < deployed.version) await store.announceDeclaration(partition, deployed.version);
  }
  const carried = await carry(context, lease, state);
  if (carried === 'lost') return { kind: 'lost' };
  // What was moved stands where nobody has read it.
  if (carried !== undefined) forgetMissed(remembered.lines);
  const elsewhere = await lookElsewhere(context, lease, {
    carried: carried ?? state.carried,
    controls: state.controls,
    remembered,
    letGo: remembered.letGo,
    nowMs,
    goOnBeside: input.goOnBeside,
  });
  if (elsewhere === 'lost') return { kind: 'lost' };
  // Lines were split further once: what waits in those parts is not forgotten.
  const others = dueShardsOf(configuration, state.dueShards).filter((shard) => !shards.includes(shard));
  const dueThere =
    promotes && others.length > 0 ? await promoteDue(context, partition, others, nowMs) : NOTHING_DUE;
  const promoted = [...due.promoted, ...dueThere.promoted];
  const moreDue = due.more || dueThere.more;

  const images = newest([...input.hints, ...promoted]);
  const settledByHints = settleFrom(state.reservations, images);
  const recovery = await recover(context, state, settledByHints, input.looksUp, nowMs, carried !== undefined);
  const settled = [...settledByHints, ...recovery.settled];
  const reservations = without(state.reservations, settled);
  const inFlight = reservations.flatMap((reservation) => [...reservation.jobs.values()]);
  const types = typesByName(configuration);
  if (state.isLifted === true && !input.looksUp) remembered.lines.coming ??= new Map();

  const books = new Books(store, configuration, partition, nowMs, remembered, context.budget.newsShare);
  books.know(state);
  for (const { reservedAtMs, jobs } of state.reservations)
    for (const { fairnessKey } of jobs.values()) books.noteActive(fairnessKey, reservedAtMs);
  remembered.dueShards = state.dueShards;
  const shown = newest([...images.values(), ...recovery.images]);
  const seen = standingIn(partition, await confirmed(context, shown, input, remembered.lines, nowMs));
  input.goOnBeside(announceSeen(context, input.hints));
  const freed = new Set([
    ...remembered.letGo,
    ...settled.flatMap(({ entry }) => keysHeldBy(types, entry)),
    ...[...seen.values()].flatMap((job) => keyLetGo(context, job) ?? []),
  ]);
  remembered.letGo.clear();
  const isRoundDue = nowMs - (remembered.roundAtMs ?? -Infinity) >= ROUND_EVERY_MS;
  if (isRoundDue) remembered.roundAtMs = nowMs;
  await Promise.all([
    books.readLedgers(settled.map(({ entry }) => entry.fairnessKey)),
    books.readEstimates(
      settled
        .filter(({ succeeded }) => succeeded)
        .map(({ entry, resourceId }) => ({ type: entry.type, resourceId })),
    ),
  ]);

  input.goOnBeside(
    wakePartitions(context, await releaseLocks(context, partition, settled, carried ?? state.carried)),
  );
  const unparked = state.parks
    ? await readFreed(context, {
        partition,
        freed,
        inFlight,
        looksAround: input.looksUp || isRoundDue,
        cursor: remembered.markedCursor,
        groupCursors: remembered.groupCursors,
        nowMs,
      })
    : NOTHING_PARKED;

  // What is settled frees the capacity that the plan counts on, so it is written with, or before, what is reserved.
  const drafts = draftsOf(settled, books);
  let draft = drafts.at(-1) ?? emptyDraft();
  const touched = new Set(settled.map(({ reservation }) => reservation.batchId));
  for (const postponed of recovery.postponed) {
    if (!touched.has(postponed.reservation.batchId))
      draft.postponed.set(postponed.reservation.batchId, postponed);
  }
  let { turn } = state;
  for (const full of drafts.slice(0, -1)) {
    const outcome = await store.commit(lease.fence, { ...commitOf(full, []), turn });
    if (outcome === 'lost') return { kind: 'lost' };
    turn += 1;
  }
  input.goOnBeside(send(context, recovery.resend));
  if (recovery.wakeInMs !== undefined) input.goOnBeside(wakeLater(context, partition, recovery.wakeInMs));
  const { attendance } = recovery;

  remembered.markedCursor = unparked.cursor;
  input.goOnBeside(unmark(context, partition, unparked.empty));
  const parkedHeads = [...unparked.heads.values()].flat();
  const candidates = new Candidates(context, {
    partition,
    books,
    images: [...seen.values()],
    parkedHeads,
    reservations,
    remembered: remembered.lines,
    justStored: new Set([...input.justStored, ...[...promoted, ...recovery.images].map(({ id }) => id)]),
    liftedAtMs: state.liftedAtMs,
    nowMs,
  });
  const moved = movedLess(movedTo(configuration, state, partition, nowMs), elsewhere);
  const share = shareOfPool(configuration, partition, moved);
  const free = slotsLess(freeSlots(share, state, moved, inFlight), configuration, elsewhere);
  const overrides = shareOfOverrides(state.controls, partition, configuration.partitions, moved);
  const planner = createPlanner(share, {
    nowMs,
    inFlight,
    freeSlotsByFleet: free,
    costMs: (type, resourceId) => books.costMs(type, resourceId),
    overrides: overridesLess(overrides, configuration, elsewhere),
    ...blockedBounds(budget.parkKept, inFlight, free, parkedHeads.length),
  });
  const taken = new Set([...unparked.taken, ...elsewhere.conflictKeys]);
  const freedHere = { heads: unparked.heads, taken };
  for (const conflictKey of taken) planner.holdConflict(conflictKey);
  const keysHeld = inFlight.flatMap((entry) =>
    keysHeldBy(types, entry).filter((conflictKey) => conflictKey !== entry.conflictKey),
  );
  for (const conflictKey of keysHeld) planner.holdConflict(conflictKey);
  await candidates.liftSeen(planner.room > 0);
  let liftedAtMs = candidates.hasLifted && !moreDue ? nowMs : undefined;
  /** Whether whoever comes after this commit may trust that no key came unseen; undefined: as before. */
  const isLifted = (): boolean | undefined =>
    planner.room <= 0 ? false : candidates.knowsAllKeys && !moreDue ? true : undefined;
  // A key that comes while nothing has room is remembered here alone.
  let mustWarn = lifts && state.isLifted === true && planner.room <= 0 && candidates.hasKeysComing;

  let parks = state.parks && !unparked.isNothingMarked;
  let isMovedBack = false;
  const admittedIds = new Set<string>();
  let admitted = 0;
  let lostClaims = 0;
  let truncated = false;
  let outOfTime = false;
  let isLockOpen = false;
  let blocked: Blocked = [];
  const held = [...inFlight];
  for (;;) {
    const plan = await nextBatch(planner, candidates, budget.batchJobs);
    const decisions = plan.decisions;
    blocked = plan.blocked;
    truncated ||= plan.truncated;
    for (const { reserved } of decisions) admittedIds.add(reserved.id);
    if (!isMovedBack) {
      isMovedBack = true;
      candidates.noteMovedBack(await moveBack(context, planner, freedHere, admittedIds));
    }
    const lifted = [
      ...candidates.takeLifted(),
      ...books.seeStarts(decisions.map(({ reserved }) => reserved.fairnessKey)),
    ];
    for (const ledger of lifted) draft.ledgers.set(ledger.fairnessKey, ledger);
    if (decisions.length === 0 && itemsOf(draft) === 0 && liftedAtMs === undefined && !mustWarn) break;
    if (clock.monotonicMs() >= lease.trustedUntilMonotonicMs) {
      outOfTime = true;
      break;
    }
    const batchId = batchIdOf(partition, epoch, input.nextBatch());
    const reservation: Reservation = {
      batchId,
      epoch,
      reservedAtMs: nowMs,
      checkAtMs: clock.nowMs() + budget.checkAfterMs,
      jobs: new Map(decisions.map(({ reserved }, position) => [position, reserved])),
    };
    // What it has no room for goes before it.
    const parts = inCommits(draft, RESERVING_ITEMS);
    for (const part of parts.slice(0, -1)) {
      if ((await store.commit(lease.fence, { ...commitOf(part, []), turn, attendance })) === 'lost')
        return { kind: 'lost' };
      turn += 1;
    }
    const commit = commitOf(parts.at(-1) ?? emptyDraft(), decisions.length === 0 ? [] : [reservation]);
    if (
      (await store.commit(lease.fence, {
        ...commit,
        turn,
        attendance,
        parks,
        liftedAtMs,
        isLifted: isLifted(),
      })) === 'lost'
    )
      return { kind: 'lost' };
    turn += 1;
    liftedAtMs = undefined;
    mustWarn = false;
    books.keepLifts(lifted.map(({ fairnessKey }) => fairnessKey));
    draft = emptyDraft();
    if (decisions.length === 0) break;

    const outcomes = await store.claim(
      decisions.map(({ reserved }, position) => ({
        jobId: reserved.id,
        version: reserved.version,
        claimId: claimIdOf(batchId, position),
        epoch,
        batchId,
        fleet: reserved.fleet,
        claimedAtMs: nowMs,
        declared: deployed?.version,
        ...(needsLocks(context) && reserved.conflictKey !== undefined
          ? { lock: { conflictKey: reserved.conflictKey, partition } }
          : {}),
      })),
    );
    candidates.noteAdmitted(decisions.map(({ reserved }) => reserved));
    const won: { fleet: string; message: DispatchMessage }[] = [];
    let lost = 0;
    for (const [position, decision] of decisions.entries()) {
      const outcome = outcomes[position] ?? 'unknown';
      if (outcome === 'blocked') {
        lost += 1;
        const { id, version, conflictKey = '' } = decision.reserved;
        planner.holdConflict(conflictKey);
        isLockOpen ||= (await store.awaitLock(conflictKey, partition, clock.nowMs())) === 'open';
        // The same claim may come again, and find the lock open: only a raised version ends that.
        if ((await store.raiseVersion(id, version)) === 'raised') {
          if (planner.drop(decision)) candidates.readAgain();
          dropPlace(draft, reservation, position);
        } else {
          planner.confirm(decision);
          held.push(decision.reserved);
        }
        continue;
      }
      if (outcome === 'lost') {
        lost += 1;
        if (decision.reserved.conflictKey !== undefined && parks)
          remembered.letGo.add(decision.reserved.conflictKey);
        if (planner.drop(decision)) candidates.readAgain();
        // A claim that was answered cannot come again: the place needs no raised version.
        dropPlace(draft, reservation, position);
        continue;
      }
      planner.confirm(decision);
      held.push(decision.reserved);
      if (outcome === 'claimed') {
        won.push({
          fleet: decision.reserved.fleet,
          message: { jobId: decision.reserved.id, claimId: claimIdOf(batchId, position) },
        });
      }
    }
    admitted += won.length;
    lostClaims += lost;
    input.goOnBeside(send(context, won));
    if (lost > 0) log.info('claims were lost', { partition, lost, of: decisions.length });
  }
  // A claim that was lost may have let a conflict key go.
  if (lostClaims > 0) candidates.noteMovedBack(await moveBack(context, planner, freedHere, admittedIds));
  const known = new Set(parkedHeads.map(({ id }) => id));
  const groups = outOfTime
    ? new Map<string, never>()
    : candidates.headsOf(toPark(blocked, known, budget.parkKept));
  const isInTime = clock.monotonicMs() < lease.trustedUntilMonotonicMs;
  let parked = 0;
  if (groups.size > 0 && isInTime) {
    const outcome = await park(context, lease, groups, {
      parks,
      turn,
      remembered,
    });
    if (outcome.kind === 'lost') return outcome;
    turn = outcome.turn;
    parks = true;
    parked = outcome.jobs.length;
    candidates.forget(outcome.jobs);
    log.info('jobs were parked', { partition, parked, conflictKeys: [...groups.keys()] });
  }
  candidates.close();
  const strangers = {
    jobs: [
      ...due.strangers,
      ...dueThere.strangers,
      ...[...seen.values()].filter((job) => job.state === 'pending' && !lives(job)),
    ],
    keys: candidates.strangers,
  };
  const sent = outOfTime
    ? 0
    : await sendStrangersHome(
        context,
        partition,
        new Set(held.map(({ id }) => id)),
        strangers,
        remembered.strangers,
        nowMs,
      );
  // A plan that a bound cut short goes on only while it gets somewhere; else whatever frees capacity causes a pass.
  const again =
    moreDue ||
    carried?.isDone === false ||
    elsewhere.isNews ||
    (sent > 0 && strangers.keys.length > 0) ||
    outOfTime ||
    isLockOpen ||
    candidates.leftBehind.length > 0 ||
    (truncated && (admitted > 0 || parked > 0 || candidates.hasRead)) ||
    remembered.letGo.size > 0;
  const blockedIds = new Set(blocked.map(({ job }) => job.id));
  if (
    (configuration.partitions > 1 || state.loans.length > 0) &&
    clock.monotonicMs() < lease.trustedUntilMonotonicMs
  ) {
    const loans = await moveCapacity(context, lease, {
      state,
      turn,
      held,
      waiting: () => candidates.waiting().filter(({ id }) => !blockedIds.has(id)),
      isOver: !again,
      askedAtMs: remembered.askedAtMs,
      nowMs,
      goOnBeside: input.goOnBeside,
    });
    if (loans.kind === 'lost') return loans;
    remembered.askedAtMs = loans.askedAtMs;
  }
  input.goOnBeside(
    Promise.all([
      candidates.retireEmptyLines(),
      unnameParked(context, partition, candidates.emptyGroups, remembered.parkedNames, nowMs),
      store.tidy(partition),
    ]).catch((error: unknown) =>
      log.warn('lines were not tidied; a later pass will', { partition, error: String(error) }),
    ),
  );
  input.goOnBeside(
    stayOnLookout(context, partition, {
      state,
      loadedAtMs: nowMs,
      held,
      attendance,
      judgedUntilMs: recovery.judgedUntilMs,
    }),
  );
  const openAtMs = Math.min(candidates.openAtMs ?? Infinity, unparked.openAtMs ?? Infinity);
  if (openAtMs !== Infinity)
    input.goOnBeside(wakeLater(context, partition, Math.max(0, openAtMs - clock.nowMs())));
  books.undoLifts();
  // Out of time: what was settled in memory was not written.
  if (!outOfTime) keepBooks(context.books, partition, epoch, remembered);
  return {
    kind: again ? 'again' : 'done',
    admitted,
    settled: settled.length,
    lostClaims,
    // Out of time, what the images showed was not written down.
    hints: outOfTime ? [...images.values(), ...candidates.leftBehind] : candidates.leftBehind,
  };
}

const NOTHING_PARKED: Unparked = {
  heads: new Map(),
  taken: new Set(),
  empty: [],
  isNothingMarked: false,
};

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

/** Images of jobs that stand in a partition: one may have been moved since somebody told of it here. */
const standingIn = (partition: number, images: ReadonlyMap<string, JobHead>): ReadonlyMap<string, JobHead> =>
  new Map([...images].filter(([, job]) => job.partition === partition));

/**
 * Images without those of jobs that do not wait any more: a hint may come late, and a second time. One that came when it
 * was to be expected is taken at its word. What is older, or should have been shown by a read of its line, is read itself,
 * because a claim of it that is lost would have taken another job's place.
 */
async function confirmed(
  { store }: DispatchContext,
  images: Map<string, JobHead>,
  { hints, justStored }: Pick<PassInput, 'hints' | 'justStored'>,
  { heads }: RememberedLines,
  nowMs: number,
): Promise<ReadonlyMap<string, JobHead>> {
  const isDoubtful = (job: JobHead): boolean => {
    if (job.state !== 'pending' || justStored.has(job.id) || images.get(job.id) !== job) return false;
    const known = heads.get(readyLineName(job.partition, readyLineOf(job)));
    const isMissed = known !== undefined && known.readAtMs >= job.readyAtMs;
    return (
      nowMs - job.readyAtMs > HINT_TRUSTED_MS || (isMissed && !known.jobs.some(({ id }) => id === job.id))
    );
  };
  const late = hints.filter(isDoubtful);
  if (late.length === 0) return images;
  // One that cannot be read is no candidate.
  const found = await store.getJobs(
    late.map(({ id }) => id),
    () => {},
  );
  for (const [at, { id }] of late.entries()) {
    const job = found[at];
    if (job === undefined) images.delete(id);
    else images.set(id, job);
  }
  return images;
}

/** Makes lines known whose submitters may have died before they could. What fails is made up for when it is shown again. */
async function announceSeen(context: DispatchContext, hints: readonly JobHead[]): Promise<void> {
  try {
    await announceLate(asSubmitter(context), hints);
  } catch (error) {
    context.log.warn('lines of late jobs were not announced', { error: String(error) });
  }
}

/** Takes marks away whose blocked lines are empty. One that stays costs a read. */
async function unmark(
  { store, log }: DispatchContext,
  partition: number,
  marks: Unparked['empty'],
): Promise<void> {
  try {
    await Promise.all(marks.map((mark) => store.unmarkParked(partition, mark)));
  } catch (error) {
    log.warn('marks of parked jobs were not taken away; a later pass does it', { error: String(error) });
  }
}

type Blocked = Extract<Step, { readonly kind: 'done' }>['blocked'];

/** Up to `max` admissions, reading what the planner asks for. Bounded by the planner's own bounds. */
async function nextBatch(
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
    if (step.kind === 'done' && !step.truncated && planner.room > 0 && (await candidates.lookAgain(planner)))
      continue;
    if (step.kind === 'done') return { decisions, truncated: step.truncated, blocked: step.blocked };
    if (step.kind === 'admit') decisions.push(step.decision);
    else await candidates.answer(planner, step);
  }
  return { decisions, truncated: false, blocked: [] };
}

/** Sends to the fleets. What is not accepted is sent again when its reservation is checked. */
async function send(
  context: DispatchContext,
  messages: readonly { readonly fleet: string; readonly message: DispatchMessage }[],
): Promise<void> {
  const byFleet = Map.groupBy(messages, ({ fleet }) => fleet);
  await Promise.all(
    [...byFleet].map(async ([fleet, ofFleet]) => {
      try {
        const unsent = await context.queue.send(
          fleet,
          ofFleet.map(({ message }) => message),
        );
        if (unsent.length > 0)
          context.log.warn('messages were not accepted', { fleet, unsent: unsent.length });
      } catch (error) {
        context.log.warn('messages could not be sent', {
          fleet,
          messages: ofFleet.length,
          error: String(error),
        });
      }
    }),
  );
}
