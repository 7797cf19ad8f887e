/**
 * Fourth step: reserve and send, batch by batch, until nothing more may start. What is reserved is claimed by whoever starts it; by
 * the pass only where its claim takes a lock with it.
 */

import { batchIdOf, type ReservedJob } from '../../core/job.ts';
import { claimPlanned, mayHaveBegun, type PlannedClaim } from '../../core/life-cycle.ts';
import type { Decision } from '../../core/scheduler.ts';
import type { DispatchMessage, FleetMessage } from '../../queue/contract.ts';
import type { Ledger, Quiet, Reservation } from '../../store/records.ts';
import type { ClaimOutcome } from '../../store/requests.ts';
import { isSlow } from '../lease.ts';
import { moveBack } from '../parking.ts';
import { claimIdOfPlace, plannedOf } from '../settle/settled.ts';
import type { SlotEnd } from '../takeovers.ts';
import { commitOf, type Draft, dropPlace, emptyDraft, inCommits, writesOf } from './commits.ts';
import { liftsKeys } from './load.ts';
import { type Blocked, nextBatch, type PlannedPass } from './plan.ts';
import { isInTime } from './scope.ts';
import { send } from './send.ts';

/** The first jobs of a pass go out soon; the more follow, the more of them share a commit: so many reservations at most. */
const RESERVATIONS_MAX = 4;

/** Ten lines cost as much to read as a small page to write. */
const LINES_WORTH_A_WRITE = 20;

/** A decision that is reserved, and where. */
interface ReservedPlace {
  readonly reservation: Reservation;
  readonly position: number;
  readonly decision: Decision;
  /** The slot that it takes over; undefined: one that is free. */
  readonly slot: SlotEnd | undefined;
}

/** @param toClaim - of a job that the pass has not claimed itself */
function messageOf(place: ReservedPlace, toClaim?: PlannedClaim): FleetMessage {
  const { slot, decision } = place;
  const { reserved } = decision;
  return {
    fleet: reserved.fleet,
    message: { jobId: reserved.id, claimId: claimIdOfPlace(place), ...claimedBy(slot, toClaim) },
    isAlone: mayHaveBegun(reserved),
  };
}

function claimedBy(
  slot: SlotEnd | undefined,
  toClaim: PlannedClaim | undefined,
): Pick<DispatchMessage, 'toClaim' | 'takesOver'> {
  if (toClaim === undefined) return {};
  if (slot === undefined) return { toClaim };
  const { jobId, claimId, version } = slot;
  return { takesOver: { jobId, claimId, version, toClaim } };
}

const inSlot = (reserved: ReservedJob, slot: SlotEnd | undefined): ReservedJob =>
  slot === undefined ? reserved : { ...reserved, takesOver: slot.claimId };

/** What starts in one pass. */
export class Admission {
  readonly #pass: PlannedPass;
  /** What holds capacity by now. */
  readonly held: ReservedJob[];
  readonly #admittedIds = new Set<string>();
  /** By fleet: slots that are free by now, and those that are about to be. */
  readonly free: Map<string, number>;
  readonly #soonFree: ReadonlyMap<string, SlotEnd[]>;
  /** What the next commit writes beside its reservation. */
  #draft: Draft;
  #liftedAtMs: number | undefined;
  /** A key that comes while nothing has room is remembered here alone: who comes next must be told. */
  #mustWarn: boolean;
  #isMovedBack = false;
  /** What the partition says of what waits. */
  #quiet: Quiet | undefined;
  /** Jobs that a fleet was told of. */
  admitted = 0;
  lostClaims = 0;
  /** What it has reserved. */
  readonly reserved: Reservation[] = [];
  /** Jobs that take slots over. */
  takenOver = 0;
  /** A bound cut the plan short. */
  isTruncated = false;
  /** The lease ended before all was written. */
  isOutOfTime = false;
  /** A lock that kept a claim from succeeding is open by now. */
  isLockOpen = false;
  /** Jobs of the next plan. */
  #most: number;
  /** What the last plan met that is blocked. */
  blocked: Blocked = [];
  /** Whether jobs may be parked, as the partition says. */
  readonly parks: boolean;

  constructor(pass: PlannedPass) {
    const { context, state, due, candidates, planner, unparked } = pass;
    this.#pass = pass;
    this.#most = context.budget.batchJobs;
    this.held = [...pass.inFlight];
    this.free = new Map(pass.capacity.free);
    this.#soonFree = new Map([...pass.soonFree].map(([fleet, ends]) => [fleet, [...ends]]));
    this.#draft = pass.draft;
    this.#quiet = state.quiet;
    const liftedAtMs = due.more ? undefined : candidates.liftedAtMs;
    this.#liftedAtMs = (liftedAtMs ?? -Infinity) > (state.liftedAtMs ?? -Infinity) ? liftedAtMs : undefined;
    this.#mustWarn =
      liftsKeys(context) && state.isLifted === true && planner.room <= 0 && candidates.hasKeysComing;
    this.parks = state.parks && !unparked.isNothingMarked;
  }

  /** Whether the partition says that nothing waits. */
  get isQuiet(): boolean {
    return this.#quiet !== undefined;
  }

  /** @throws LeaseLostError if somebody else has the lease */
  async run(): Promise<void> {
    for (;;) {
      const decisions = await this.#plan();
      const lifted = this.#lifted(decisions);
      if (decisions.length === 0 && !this.#hasNews()) break;
      // Behind it everything is written, and by then the lease's time may be over.
      await this.#pass.commits.written();
      if (!isInTime(this.#pass)) {
        this.isOutOfTime = true;
        break;
      }
      const both = await Promise.allSettled([this.#admit(decisions, lifted), this.#readAhead(decisions)]);
      for (const each of both) if (each.status === 'rejected') throw each.reason;
      if (decisions.length === 0) break;
      this.#most = Math.min(2 * this.#most, RESERVATIONS_MAX * this.#pass.context.budget.batchJobs);
    }
    await this.#pass.commits.written();
    // A claim that was lost may have let a conflict key go.
    if (this.lostClaims > 0) await this.#moveBack();
    if (this.parks) this.#letFollow();
  }

  async #admit(decisions: readonly Decision[], lifted: readonly Ledger[]): Promise<void> {
    // planted: told-before-reserved
    const places = await this.#reserve(decisions);
    this.#pass.ledgerCache.keepLifts(lifted.map(({ fairnessKey }) => fairnessKey));
    if (decisions.length > 0) await this.#hand(places);
  }

  /** A batch that is full is followed by another one: what that needs is read while this one is written. */
  async #readAhead(decisions: readonly Decision[]): Promise<void> {
    const { planner, candidates } = this.#pass;
    if (decisions.length === this.#most && planner.room > 0) await candidates.readAhead(planner.room, true);
  }

  async #plan(): Promise<readonly Decision[]> {
    const { planner, candidates } = this.#pass;
    for (;;) {
      const { decisions, blocked, truncated } = await nextBatch(planner, candidates, this.#most);
      this.blocked = blocked;
      this.isTruncated ||= truncated;
      const waiting = await this.#stillWaiting(decisions);
      for (const { reserved } of waiting) this.#admittedIds.add(reserved.id);
      if (!this.#isMovedBack) {
        this.#isMovedBack = true;
        await this.#moveBack();
      }
      if (waiting.length > 0 || decisions.length === 0) return waiting;
    }
  }

  /**
   * The first decisions, up to one whose job has moved on: those behind it were made as if it took its place, and are made anew. Where a
   * claim takes a lock, it tells.
   */
  async #stillWaiting(decisions: readonly Decision[]): Promise<readonly Decision[]> {
    const { context, lease, planner, candidates } = this.#pass;
    // A place that is taken for nothing costs less than the time that such a store takes to answer.
    if (isSlow(context, lease.slowMs)) return decisions;
    const unlocked = decisions.filter(({ reserved }) => this.#lockOf(reserved) === undefined);
    const overtaken = await candidates.overtaken.among(planner, unlocked);
    if (overtaken.length === 0) return decisions;
    candidates.noteAdmitted(overtaken);
    this.lostClaims += overtaken.length;
    const over = new Set(overtaken.map(({ id }) => id));
    const first = decisions.findIndex(({ reserved }) => over.has(reserved.id));
    const behind = decisions.slice(first);
    const isOver = ({ reserved }: Decision): boolean => over.has(reserved.id);
    for (const decision of behind) if (!isOver(decision)) planner.takeBack(decision);
    for (const decision of behind.filter(isOver)) {
      this.#letGo(decision);
      this.#lose(decision);
    }
    return decisions.slice(0, first);
  }

  /** Where a job has started and its conflict key has room for more, what is parked behind it comes next. */
  #letFollow(): void {
    const { planner, cached, inFlight } = this.#pass;
    const started = new Set(this.held.slice(inFlight.length).flatMap(({ conflictKey }) => conflictKey ?? []));
    for (const each of started) if (!planner.isConflictHeld(each)) cached.letGo.add(each);
  }

  /** First jobs of blocked lines that do not start in this pass stand in their ready lines before the settlement is written. */
  async #moveBack(): Promise<void> {
    const { context, planner, candidates, unparked, taken } = this.#pass;
    const freed = { heads: unparked.heads, taken };
    candidates.noteMovedBack(await moveBack(context, planner, freed, this.#admittedIds));
  }

  /** Ledgers that the next commit writes because their keys were lifted, or start. */
  #lifted(decisions: readonly Decision[]): readonly Ledger[] {
    const { candidates, ledgerCache } = this.#pass;
    const lifted = [
      ...candidates.takeLifted(),
      ...ledgerCache.seeStarts(decisions.map(({ reserved }) => reserved.fairnessKey)),
    ];
    for (const ledger of lifted) this.#draft.ledgers.set(ledger.fairnessKey, ledger);
    return lifted;
  }

  #hasNews(): boolean {
    return (
      writesOf(this.#draft) > 0 ||
      this.#liftedAtMs !== undefined ||
      this.#mustWarn ||
      this.#isQuietNews(this.#quietAfter([]))
    );
  }

  /** Whether anything waits once these have started; `null`: it may. */
  #quietAfter(decisions: readonly Decision[]): Quiet | null {
    const { due, carried, candidates, unparked } = this.#pass;
    const goesOn = decisions.length >= this.#most || this.isTruncated || due.more;
    if (goesOn || carried !== undefined || this.parks || unparked.heads.size > 0) return null;
    return candidates.quietBut(this.#admittedIds) ?? null;
  }

  /** What others believe of what waits must not be wrong, and where it spares them many reads, it is told by itself. */
  #isQuietNews(quiet: Quiet | null): boolean {
    // planted: quiet-not-taken-back
    if (quiet === null) return this.#quiet !== undefined;
    const isNewer = this.#quiet === undefined || this.#quiet.lookedAtMs < quiet.lookedAtMs;
    return isNewer && this.#pass.candidates.linesRead >= LINES_WORTH_A_WRITE;
  }

  /** Whether whoever comes after this commit may trust that no key came unseen; undefined: as before. */
  #isLifted(): boolean | undefined {
    const { planner, candidates, due } = this.#pass;
    if (planner.room <= 0) return false;
    return candidates.knowsAllKeys && !due.more ? true : undefined;
  }

  async #reserve(decisions: readonly Decision[]): Promise<readonly ReservedPlace[]> {
    const { commits, recovery } = this.#pass;
    const { attendance } = recovery;
    const places = this.#placesFor(decisions);
    const reserve = [...new Set(places.map(({ reservation }) => reservation))];
    this.reserved.push(...reserve);
    // What it has no room for goes before it.
    const quiet = this.#quietAfter(decisions);
    const parts = [...inCommits(this.#draft, Math.max(1, reserve.length))];
    const last = parts.pop() ?? emptyDraft();
    for (const part of parts) await commits.write({ ...commitOf(part, []), attendance });
    await commits.write({
      ...commitOf(last, reserve),
      attendance,
      parks: this.parks,
      liftedAtMs: this.#liftedAtMs,
      isLifted: this.#isLifted(),
      quiet,
    });
    this.#quiet = quiet ?? undefined;
    this.#liftedAtMs = undefined;
    this.#mustWarn = false;
    this.#draft = emptyDraft();
    return places;
  }

  /** Places in reservations of `batchJobs` jobs each: that many fit into an item, whatever their names. */
  #placesFor(decisions: readonly Decision[]): readonly ReservedPlace[] {
    const { context, lease, partition, commits, nowMs } = this.#pass;
    const { epoch } = lease.fence;
    // planted: claims-without-terms
    const declared = context.deployed?.version;
    const under = declared === undefined ? {} : { declared };
    const checkAtMs = context.clock.nowMs() + context.budget.checkAfterMs;
    const batches = Map.groupBy(decisions, (_, at) => Math.floor(at / context.budget.batchJobs));
    return [...batches.values()].flatMap((batch, at) => {
      const batchId = batchIdOf(partition, epoch, commits.turn * RESERVATIONS_MAX + at);
      const slots = batch.map(({ reserved }) => this.#slotFor(reserved));
      const jobs = new Map(
        batch.map(({ reserved }, position) => [position, inSlot(reserved, slots[position])]),
      );
      const reservation = { batchId, epoch, reservedAtMs: nowMs, checkAtMs, ...under, jobs };
      return batch.map((decision, position) => ({ reservation, position, decision, slot: slots[position] }));
    });
  }

  /** The slot that a job takes over, the next that becomes free; undefined while one is. */
  #slotFor({ fleet }: ReservedJob): SlotEnd | undefined {
    const free = this.free.get(fleet) ?? 0;
    if (free > 0) {
      this.free.set(fleet, free - 1);
      return undefined;
    }
    const slot = this.#soonFree.get(fleet)?.shift();
    if (slot !== undefined) this.takenOver += 1;
    return slot;
  }

  /** Tells the fleets of what is reserved by now: not before, or what starts might be counted by nobody. */
  async #hand(places: readonly ReservedPlace[]): Promise<void> {
    const { context, input, candidates } = this.#pass;
    candidates.noteAdmitted(places.map(({ decision }) => decision.reserved));
    const locked: ReservedPlace[] = [];
    const told: FleetMessage[] = [];
    for (const place of places) {
      if (this.#lockOf(place.decision.reserved) !== undefined) {
        locked.push(place);
        continue;
      }
      this.#hold(place.decision);
      told.push(messageOf(place, plannedOf(place.reservation, place.decision.reserved)));
    }
    if (told.length > 0) input.inBackground(send(context, told));
    this.admitted += told.length;
    if (locked.length > 0) await this.#claim(locked);
  }

  /** The lock that guards the job's conflict key among partitions, if it has one. */
  #lockOf(reserved: ReservedJob): string | undefined {
    const { context, between } = this.#pass;
    return between?.lockOfPlace(context, reserved);
  }

  async #claim(places: readonly ReservedPlace[]): Promise<void> {
    const { context, input, partition } = this.#pass;
    const { store, log } = context;
    const outcomes = await store.claim(
      places.map((place) => {
        const { version, ...planned } = plannedOf(place.reservation, place.decision.reserved);
        const conflictKey = this.#lockOf(place.decision.reserved);
        return {
          jobId: place.decision.reserved.id,
          version,
          ...claimPlanned(claimIdOfPlace(place), planned),
          ...(conflictKey === undefined ? {} : { lock: { conflictKey, partition } }),
        };
      }),
    );
    const won: FleetMessage[] = [];
    let lost = 0;
    for (const [at, place] of places.entries()) {
      const outcome = outcomes[at] ?? 'unknown';
      if (outcome === 'claimed') won.push(messageOf(place));
      if (outcome === 'lost' || outcome === 'blocked') lost += 1;
      await this.#note(place, outcome);
    }
    this.admitted += won.length;
    this.lostClaims += lost;
    input.inBackground(send(context, won));
    if (lost > 0) log.info('claims were lost', { partition, lost, of: places.length });
  }

  /** A claim that failed gives its place back; one of which nobody knows holds it. */
  async #note(place: ReservedPlace, outcome: ClaimOutcome): Promise<void> {
    const { context, partition, planner } = this.#pass;
    const { store, clock } = context;
    const { decision } = place;
    const { id, version, conflictKey } = decision.reserved;
    if (outcome === 'blocked' && conflictKey !== undefined) {
      planner.closeConflict(conflictKey);
      this.isLockOpen ||=
        (await store.awaitLock({ conflictKey, partition, nowMs: clock.nowMs() })) === 'open';
      // The same claim may come again, and find the lock open: only a raised version ends that.
      if ((await store.raiseVersion({ jobId: id, version })) === 'raised') this.#drop(place);
      else this.#hold(decision);
    } else if (outcome === 'lost') {
      this.#letGo(decision);
      // A claim that was answered cannot come again: the place needs no raised version.
      this.#drop(place);
    } else {
      // planted: unknown-claims-lent
      this.#hold(decision);
    }
  }

  #drop({ reservation, position, decision, slot }: ReservedPlace): void {
    this.#lose(decision);
    const { fleet } = decision.reserved;
    if (slot === undefined) this.free.set(fleet, (this.free.get(fleet) ?? 0) + 1);
    dropPlace(this.#draft, reservation, position);
  }

  #lose(decision: Decision): void {
    const { planner, candidates } = this.#pass;
    if (planner.drop(decision)) candidates.readAgain();
    candidates.distrust([decision.reserved]);
  }

  /** The job has moved on: what is parked behind it may be the next. */
  #letGo({ reserved: { conflictKey } }: Decision): void {
    // planted: let-go-forgotten
    if (conflictKey !== undefined && this.parks) this.#pass.cached.letGo.add(conflictKey);
  }

  #hold(decision: Decision): void {
    this.#pass.planner.confirm(decision);
    this.held.push(decision.reserved);
  }
}
