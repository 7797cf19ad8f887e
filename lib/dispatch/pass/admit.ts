/**
 * Fourth step: reserve and send, batch by batch, until nothing more may start. The worker that starts a job claims it; the pass does only where
 * the claim takes a lock with it.
 */

import { batchIdOf, nonceFrom, type ReservedJob } from '../../core/job.ts';
import { claimPlanned, mayHaveBegun, type PlannedClaim } from '../../core/life-cycle.ts';
import type { Decision } from '../../core/scheduler.ts';
import type { FleetMessage } from '../../queue/contract.ts';
import type { Quiet, Reservation } from '../../store/contract/records.ts';
import type { ClaimOutcome } from '../../store/contract/requests.ts';
import { commitOf, type Draft, dropPlace, emptyDraft, inCommits, writesOf } from '../partition/commits.ts';
import { LINES_OF_A_PASS, RESERVATIONS_MAX } from '../tuning.ts';
import { claimIdOfPlace, plannedOf } from '../view/settled.ts';
import { moveBack } from './parking.ts';
import { type Blocked, nextBatch, type PlannedPass } from './plan.ts';
import { send } from './send.ts';

/** A decision that is reserved, and where. */
interface ReservedPlace {
  readonly reservation: Reservation;
  readonly position: number;
  readonly decision: Decision;
}

/** @param toClaim - of a job that the pass has not claimed itself */
function messageOf(place: ReservedPlace, toClaim?: PlannedClaim): FleetMessage {
  const { reserved } = place.decision;
  return {
    fleet: reserved.fleet,
    message: {
      jobId: reserved.id,
      claimId: claimIdOfPlace(place),
      ...(toClaim === undefined ? {} : { toClaim }),
    },
    isAlone: mayHaveBegun(reserved),
  };
}

/** What starts in one pass. */
export class Admission {
  readonly #pass: PlannedPass;
  /** What holds capacity by now. */
  readonly held: ReservedJob[];
  readonly #admittedIds = new Set<string>();
  /** What the next commit writes beside its reservation. */
  #draft: Draft;
  #isMovedBack = false;
  /** What the partition says of what waits. */
  #quiet: Quiet | undefined;
  #unseenUntilMs: number;
  /** Whether it has committed. */
  #hasCommitted = false;
  /** Whether it has committed a later `unseenUntilMs`. */
  hasSaidUnseen = false;
  /** Jobs that a fleet was told of. */
  admitted = 0;
  lostClaims = 0;
  /** A bound cut the plan short. */
  isTruncated = false;
  /** A lock that kept a claim from succeeding is open by now. */
  isLockOpen = false;
  /** Jobs of the next plan. */
  #most: number;
  /** Of the names of its batches. */
  readonly #nonce: string;
  /** What the last plan met that is blocked. */
  blocked: Blocked = [];
  /** Whether jobs may be parked, as the partition says. */
  readonly parks: boolean;

  constructor(pass: PlannedPass) {
    const { context, state, unparked } = pass;
    this.#pass = pass;
    this.#most = context.budget.batchJobs;
    this.held = [...pass.inFlight];
    this.#draft = pass.draft;
    this.#quiet = state.quiet;
    this.#unseenUntilMs = state.unseenUntilMs ?? -Infinity;
    this.#nonce = nonceFrom(context.random);
    this.parks = state.parks && !unparked.isNothingMarked;
  }

  /** As the partition says by now: a read of the lines that began before may miss a job. */
  get unseenUntilMs(): number {
    return this.#unseenUntilMs;
  }

  /** @throws CommitLostError if another commit came first */
  async run(): Promise<void> {
    for (;;) {
      const decisions = await this.#plan();
      this.#noteLedgers(decisions);
      if (decisions.length === 0 && !this.#hasNews()) break;
      const both = await Promise.allSettled([this.#admit(decisions), this.#readAhead(decisions)]);
      for (const each of both) if (each.status === 'rejected') throw each.reason;
      if (decisions.length === 0) break;
      this.#most = Math.min(2 * this.#most, RESERVATIONS_MAX * this.#pass.context.budget.batchJobs);
    }
    await this.#pass.commits.written();
    // A claim that was lost may have let a conflict key go.
    if (this.lostClaims > 0) await this.#moveBack();
    if (this.parks) this.#letFollow();
  }

  async #admit(decisions: readonly Decision[]): Promise<void> {
    // planted: told-before-reserved
    const places = await this.#reserve(decisions);
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
    const { planner, candidates } = this.#pass;
    const unlocked = decisions.filter(({ reserved }) => this.#lockOf(reserved) === undefined);
    const overtaken = await candidates.overtaken(planner, unlocked);
    if (overtaken.length === 0) return decisions;
    candidates.noteGone(overtaken);
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

  /** Notes ledgers that the next commit writes because their keys have arrived, or were raised. */
  #noteLedgers(decisions: readonly Decision[]): void {
    const { planner, ledgerCache } = this.#pass;
    const starts = new Set(decisions.map(({ reserved }) => reserved.fairnessKey));
    // planted: raises-forgotten
    for (const ledger of ledgerCache.raise(planner.takeRaised(), starts))
      this.#draft.ledgers.set(ledger.fairnessKey, ledger);
  }

  #hasNews(): boolean {
    const { input, unparked } = this.#pass;
    return (
      writesOf(this.#draft) > 0 ||
      this.#isQuietNews(this.#quietAfter([])) ||
      this.#isUnseenNews() ||
      (!this.#hasCommitted && (input.commitsAnyway === true || unparked.empty.length > 0))
    );
  }

  /** Whether anything waits once these have started; `null`: it may. */
  #quietAfter(decisions: readonly Decision[]): Quiet | null {
    const { due, carried, candidates, unparked } = this.#pass;
    const goesOn = decisions.length >= this.#most || this.isTruncated || due.more;
    if (goesOn || carried !== undefined || this.parks || unparked.heads.size > 0) return null;
    return candidates.quietBut(this.#admittedIds, this.#unseenUntilMs) ?? null;
  }

  /** What others believe of what waits must not be wrong, and where it spares them many reads, it is told by itself. */
  #isQuietNews(quiet: Quiet | null): boolean {
    if (quiet === null) return this.#quiet !== undefined;
    const isNewer = this.#quiet === undefined || this.#quiet.lookedAtMs < quiet.lookedAtMs;
    return isNewer && this.#pass.candidates.linesRead >= LINES_OF_A_PASS;
  }

  /**
   * Whether a job is left waiting of which this pass was told, and reads of others may miss it for longer than the partition says. Also where
   * this pass has read it: others may have read before it.
   */
  #isUnseenNews(): boolean {
    const { context, candidates } = this.#pass;
    return (
      // planted: left-unsaid
      this.#unseenUntilMs < context.clock.nowMs() + context.budget.seenWithinMs &&
      candidates.isToldOfMore(this.#admittedIds)
    );
  }

  async #reserve(decisions: readonly Decision[]): Promise<readonly ReservedPlace[]> {
    const { commits, recovery } = this.#pass;
    const { attendance } = recovery;
    const places = this.#placesFor(decisions);
    const reserve = [...new Set(places.map(({ reservation }) => reservation))];
    // What it has no room for goes before it.
    const unseenUntilMs = this.#isUnseenNews()
      ? this.#pass.context.clock.nowMs() + 2 * this.#pass.context.budget.seenWithinMs
      : undefined;
    this.#unseenUntilMs = unseenUntilMs ?? this.#unseenUntilMs;
    this.hasSaidUnseen ||= unseenUntilMs !== undefined;
    const quiet = this.#quietAfter(decisions);
    const parts = [...inCommits(this.#draft, Math.max(1, reserve.length))];
    const last = parts.pop() ?? emptyDraft();
    for (const part of parts) await commits.write({ ...commitOf(part, []), attendance });
    await commits.write({
      ...commitOf(last, reserve),
      attendance,
      parks: this.parks,
      // planted: quiet-not-taken-back
      quiet,
      unseenUntilMs,
    });
    this.#hasCommitted = true;
    this.#quiet = quiet ?? undefined;
    this.#draft = emptyDraft();
    return places;
  }

  /** Places in reservations of `batchJobs` jobs each: that many fit into an item, whatever their names. */
  #placesFor(decisions: readonly Decision[]): readonly ReservedPlace[] {
    const { context, partition, commits, nowMs } = this.#pass;
    const { version } = commits;
    // planted: claims-without-terms
    const declared = context.deployed?.version;
    const under = declared === undefined ? {} : { declared };
    const checkAtMs = context.clock.nowMs() + context.budget.checkAfterMs;
    const batches = Map.groupBy(decisions, (_, at) => Math.floor(at / context.budget.batchJobs));
    return [...batches.values()].flatMap((batch, at) => {
      const batchId = batchIdOf(partition, version, this.#nonce, at);
      const jobs = new Map(batch.map(({ reserved }, position) => [position, reserved]));
      const reservation = { batchId, version, reservedAtMs: nowMs, checkAtMs, ...under, jobs };
      return batch.map((decision, position) => ({ reservation, position, decision }));
    });
  }

  /** Tells the fleets of what is reserved by now: not before, or what starts might not be counted. */
  async #hand(places: readonly ReservedPlace[]): Promise<void> {
    const { context, input, candidates } = this.#pass;
    candidates.noteGone(places.map(({ decision }) => decision.reserved));
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

  /** A claim that failed gives its place back; one of which nothing is known holds it. */
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

  #drop({ reservation, position, decision }: ReservedPlace): void {
    this.#lose(decision);
    dropPlace(this.#draft, reservation, position);
  }

  #lose(decision: Decision): void {
    const { planner, candidates } = this.#pass;
    if (planner.drop(decision)) candidates.readAgain();
    candidates.distrust();
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
