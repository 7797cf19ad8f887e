/**
 * One pass: load, settle, promote, plan, commit, claim, send. The steps that take capacity are named as in the model
 * of the protocol (test/protocol): loads → reserves → sends the claim → raises the version → drops.
 *
 * Bounds: one partition read, at most `checkMax` reservations looked up, `promoteMax` due jobs, and as many heads as
 * the planner asks for, which is bounded by the free capacity.
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Job, ReservedJob } from '../core/job.ts';
import type { Moved } from '../core/lending.ts';
import { shareOfOverrides, shareOfPool } from '../core/partition.ts';
import { createPlanner, type Planner, type Step } from '../core/planner.ts';
import type { Decision } from '../core/scheduler.ts';
import type { DispatchMessage } from '../queue/contract.ts';
import type {
  Commit,
  EstimateRecord,
  JobHead,
  Ledger,
  PartitionState,
  Reservation,
} from '../store/contract.ts';
import { TRANSACTION_ITEMS_MAX } from '../store/errors.ts';
import { placesWithout } from '../store/page.ts';
import { Books } from './books.ts';
import { Candidates } from './candidates.ts';
import type { DispatchContext } from './context.ts';
import { batchIdOf, claimIdOf } from './judge.ts';
import type { HeldLease } from './lease.ts';
import { moveCapacity, movedTo, slotsOfWorkers } from './loans.ts';
import { needsLocks, releaseLocks, wakePartitions } from './locks.ts';
import { ParkedBehind, park, readParked, toPark } from './parking.ts';
import { forgetLines, keepBooks, openBooks } from './remembered.ts';
import { newest, recover, type Settled, settleFrom } from './settle.ts';
import { announce } from './submit.ts';
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
  /** Somebody else made passes since the hints were seen. */
  readonly hintsAreOld: boolean;
  /** Takes what nothing waits for: it goes on beside the pass and the release of the lease, and never rejects. */
  readonly goOnBeside: (work: Promise<unknown>) => void;
}

/** Items of one commit's settlement: most leave room for a reservation with its lifted ledgers. */
const SETTLED_ITEMS_MAX = 45;
/** The check of the epoch, and the reservation. */
const RESERVING_ITEMS = 2;

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

function dropPlace(draft: Draft, reservation: Reservation, position: number): void {
  const drop = draft.drops.get(reservation.batchId);
  if (drop === undefined) draft.drops.set(reservation.batchId, { reservation, positions: [position] });
  else drop.positions.push(position);
  draft.postponed.delete(reservation.batchId);
}

const commitOf = (draft: Draft, reserve: readonly Reservation[], leastShareMs: number): Commit => ({
  drop: [...draft.drops.values()],
  postpone: [...draft.postponed.values()],
  ledgers: [...draft.ledgers.values()],
  estimates: [...draft.estimates.values()],
  reserve,
  leastShareMs,
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
  readonly more: boolean;
}

const NOTHING_DUE: Promotion = { promoted: [], more: false };

/** Moves due jobs of these shards of the due line to their ready lines. Answers their new images. */
async function promoteDue(
  context: DispatchContext,
  partition: number,
  shards: readonly number[],
  nowMs: number,
): Promise<Promotion> {
  const { store, budget } = context;
  const read = await Promise.all(
    shards.map((shard) => store.readDue(partition, nowMs, budget.promoteMax, undefined, shard)),
  );
  const due = read.flatMap(({ jobs }) => jobs);
  if (due.length === 0) return NOTHING_DUE;
  due.sort((one, other) => one.runAtMs - other.runAtMs);
  const chosen = due.slice(0, budget.promoteMax);
  // Their lines may have been retired while they waited for their time.
  await announce({ ...context, nowMs: () => nowMs }, chosen);
  const moved = await store.promote(chosen, nowMs);
  return {
    promoted: moved.filter((job) => job !== undefined),
    more: chosen.length < due.length || read.some(({ next }) => next !== undefined),
  };
}

/** Makes one pass under a lease. `lost`: somebody has superseded it; nothing that follows would count. */
export async function pass(
  context: DispatchContext,
  lease: HeldLease,
  input: PassInput,
): Promise<PassReport | { readonly kind: 'lost' }> {
  const { store, clock, configuration, budget, log } = context;
  const { partition, epoch } = lease.fence;
  const nowMs = clock.nowMs();

  const shards = dueShardsKnown(context, partition);
  const [state, due] = await Promise.all([
    store.loadPartition(partition, nowMs),
    input.promotes ? promoteDue(context, partition, shards, nowMs) : NOTHING_DUE,
  ]);
  if (state.epoch !== epoch) return { kind: 'lost' };
  // Lines were split further once: what waits in those parts is not forgotten.
  const others = dueShardsOf(configuration, state.dueShards).filter((shard) => !shards.includes(shard));
  const dueThere =
    input.promotes && others.length > 0 ? await promoteDue(context, partition, others, nowMs) : NOTHING_DUE;
  const promoted = [...due.promoted, ...dueThere.promoted];
  const moreDue = due.more || dueThere.more;

  const images = newest([...input.hints, ...promoted]);
  const settledByHints = settleFrom(state.reservations, images);
  const recovery = await recover(context, state, settledByHints, input.looksUp, nowMs);
  const settled = [...settledByHints, ...recovery.settled];
  const reservations = without(state.reservations, settled);
  const inFlight = reservations.flatMap((reservation) => [...reservation.jobs.values()]);

  const remembered = openBooks(context.books, partition, epoch);
  const books = new Books(store, configuration, partition, nowMs, remembered);
  books.know(state);
  remembered.dueShards = state.dueShards;
  // Who looks up what is in flight missed hints: heads may have changed without one too.
  if (input.looksUp) forgetLines(remembered.lines);
  await Promise.all([
    books.readLedgers(settled.map(({ entry }) => entry.fairnessKey)),
    books.readEstimates(
      settled
        .filter(({ succeeded }) => succeeded)
        .map(({ entry, resourceId }) => ({ type: entry.type, resourceId })),
    ),
  ]);

  input.goOnBeside(wakePartitions(context, await releaseLocks(context, partition, settled)));

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
    const outcome = await store.commit(lease.fence, { ...commitOf(full, [], state.leastShareMs), turn });
    if (outcome === 'lost') return { kind: 'lost' };
    turn += 1;
  }
  input.goOnBeside(send(context, recovery.resend));
  if (recovery.wakeInMs !== undefined) input.goOnBeside(wakeLater(context, partition, recovery.wakeInMs));
  const { attendance } = recovery;

  const unparked = await readParked(context, partition, state.parked, inFlight, nowMs);
  const candidates = new Candidates(context, {
    partition,
    books,
    hints: newest([...unparked.heads, ...images.values(), ...recovery.images]).values(),
    reservations,
    leastShareMs: state.leastShareMs,
    remembered: remembered.lines,
    hintsAreOld: input.hintsAreOld,
    nowMs,
  });
  const moved = movedTo(configuration, state, partition, nowMs);
  const share = shareOfPool(configuration, partition, moved);
  const planner = createPlanner(share, {
    nowMs,
    inFlight,
    freeSlotsByFleet: freeSlots(share, state, moved, inFlight),
    costMs: (type, resourceId) => books.costMs(type, resourceId),
    overrides: shareOfOverrides(state.controls, partition, configuration.partitions, moved),
  });

  const behind = new ParkedBehind(context, partition, unparked);
  let admitted = 0;
  let lostClaims = 0;
  let truncated = false;
  let outOfTime = false;
  let isLockOpen = false;
  let blocked: Blocked = [];
  const held = [...inFlight];
  for (;;) {
    const plan = await nextBatch(planner, candidates, behind, budget.batchJobs);
    const decisions = plan.decisions;
    blocked = plan.blocked;
    truncated ||= plan.truncated;
    if (decisions.length === 0 && itemsOf(draft) === 0) break;
    if (clock.monotonicMs() >= lease.trustedUntilMonotonicMs) {
      outOfTime = true;
      break;
    }
    const batchId = batchIdOf(epoch, input.nextBatch());
    const reservation: Reservation = {
      batchId,
      epoch,
      reservedAtMs: nowMs,
      checkAtMs: clock.nowMs() + budget.checkAfterMs,
      jobs: new Map(decisions.map(({ reserved }, position) => [position, reserved])),
    };
    const lifted = candidates.takeLifted(decisions.map(({ reserved }) => reserved.fairnessKey));
    if (itemsOf(draft) + lifted.length + RESERVING_ITEMS > TRANSACTION_ITEMS_MAX) {
      const settling = { ...commitOf(draft, [], candidates.leastShareMs), turn, attendance };
      if ((await store.commit(lease.fence, settling)) === 'lost') return { kind: 'lost' };
      turn += 1;
      draft = emptyDraft();
    }
    for (const ledger of lifted)
      if (!draft.ledgers.has(ledger.fairnessKey)) draft.ledgers.set(ledger.fairnessKey, ledger);
    const commit = commitOf(draft, decisions.length === 0 ? [] : [reservation], candidates.leastShareMs);
    if ((await store.commit(lease.fence, { ...commit, turn, attendance, unpark: unparked.empty })) === 'lost')
      return { kind: 'lost' };
    turn += 1;
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
        ...(needsLocks(context) && reserved.conflictKey !== undefined
          ? { lock: { conflictKey: reserved.conflictKey, partition } }
          : {}),
      })),
    );
    candidates.forget(decisions.map(({ reserved }) => reserved));
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
  const known = new Set([...unparked.heads, ...behind.heads].map(({ id }) => id));
  const groups = outOfTime
    ? new Map<string, never>()
    : candidates.headsOf(toPark(blocked, known, budget.parkKept));
  const isInTime = clock.monotonicMs() < lease.trustedUntilMonotonicMs;
  let parked = 0;
  if (groups.size > 0 && isInTime) {
    const outcome = await park(context, lease, groups, {
      parked: state.parked,
      leastShareMs: candidates.leastShareMs,
      turn,
    });
    if (outcome.kind === 'lost') return outcome;
    turn = outcome.turn;
    parked = outcome.jobs.length;
    candidates.forget(outcome.jobs);
    log.info('jobs were parked', { partition, parked, conflictKeys: [...groups.keys()] });
  }
  candidates.forget(unparked.heads);
  candidates.close();
  // A plan that a bound cut short goes on only while it gets somewhere; else whatever frees capacity causes a pass.
  const again =
    moreDue ||
    outOfTime ||
    isLockOpen ||
    candidates.leftBehind.length > 0 ||
    (truncated && blocked.length === 0 && admitted > 0) ||
    (truncated && parked > 0) ||
    (unparked.more && admitted > 0);
  const blockedIds = new Set(blocked.map(({ job }) => job.id));
  if (configuration.partitions > 1 && clock.monotonicMs() < lease.trustedUntilMonotonicMs) {
    const loans = await moveCapacity(context, lease, {
      state,
      turn,
      leastShareMs: candidates.leastShareMs,
      held,
      waiting: () =>
        [...candidates.waiting(), ...unparked.heads, ...behind.heads].filter(({ id }) => !blockedIds.has(id)),
      isOver: !again,
      askedAtMs: remembered.askedAtMs,
      nowMs,
      goOnBeside: input.goOnBeside,
    });
    if (loans.kind === 'lost') return loans;
    remembered.askedAtMs = loans.askedAtMs;
  }
  // A key all of whose jobs are parked has an empty line, and jobs.
  const retiring = state.parked.size === 0 && parked === 0 ? candidates.retireEmptyLines() : undefined;
  input.goOnBeside(
    Promise.all([retiring, store.tidy(partition)]).catch((error: unknown) =>
      log.warn('lines were not tidied; a later pass will', { partition, error: String(error) }),
    ),
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

type Blocked = Extract<Step, { readonly kind: 'done' }>['blocked'];

/** Up to `max` admissions, reading what the planner asks for. Bounded by the planner's own bounds. */
async function nextBatch(
  planner: Planner,
  candidates: Candidates,
  behind: ParkedBehind,
  max: number,
): Promise<{
  readonly decisions: readonly Decision[];
  readonly truncated: boolean;
  readonly blocked: Blocked;
}> {
  const decisions: Decision[] = [];
  while (decisions.length < max) {
    const step = planner.next();
    if (step.kind === 'done' && planner.room > 0) {
      if (await candidates.lookAgain(planner)) continue;
      const parked = await behind.read(planner);
      if (parked.length > 0) {
        await candidates.offerLate(planner, parked);
        continue;
      }
    }
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
