/**
 * Fourth step of a pass. It draws decisions batch by batch, commits them as reservations, and sends them to the fleets' queues,
 * until nothing more can start. The worker that starts a job claims it; the pass claims a job itself only if the claim must take
 * a lock with it.
 */

import { batchIdOf, nonceFrom, type ReservedJob } from '../../core/job.ts';
import { claimPlanned, isExpired, mayHaveRun, type PlannedClaim } from '../../core/life-cycle.ts';
import type { Decision } from '../../core/scheduler.ts';
import { parkingKeysOf } from '../../core/scope.ts';
import { countedWith } from '../../core/statistics.ts';
import type { FleetMessage } from '../../queue/contract.ts';
import type { NothingWaits, Reservation } from '../../store/contract/records.ts';
import type { ClaimOutcome } from '../../store/contract/requests.ts';
import { commitOf, type Draft, dropEntry, emptyDraft, inCommits, writesOf } from '../partition/commits.ts';
import { LINES_OF_A_PASS, PROMOTE_ROUNDS_MAX, RESERVATIONS_MAX } from '../tuning.ts';
import { claimIdOfEntry, plannedOf, startByOf } from '../view/settled.ts';
import { countOfAdmitted } from './count.ts';
import { expireJobs } from './expire.ts';
import { moveBack } from './parking.ts';
import { type Blocked, nextBatch, type PlannedPass } from './plan.ts';
import { send } from './send.ts';

/** A decision and the reservation entry that was written for it. */
interface ReservedEntry {
  readonly reservation: Reservation;
  readonly position: number;
  readonly decision: Decision;
}

/** Admits jobs for one pass, and holds what the close step needs to know afterwards. */
export class Admission {
  readonly #pass: PlannedPass;
  /** Entries of jobs that hold capacity: those in flight when the pass began, then those that it has added. */
  readonly held: ReservedJob[];
  readonly #admittedIds = new Set<string>();
  /** Changes that the next commit writes beside its reservation. */
  #draft: Draft;
  #hasMovedBack = false;
  /** The summary's statement that nothing waits, as last committed (rules: quiet.ts). Undefined: jobs may wait. */
  #quiet: NothingWaits | undefined;
  /** Epoch ms, as last committed: a read of the lines that began earlier may miss a job. */
  #unseenUntilMs: number;
  #hasCommitted = false;
  /**
   * Whether this pass has committed a later `unseenUntilMs`: then the close step sends wakes for the jobs that reads
   * may miss.
   */
  hasWrittenUnseen = false;
  /** Jobs that were sent to a fleet. */
  admitted = 0;
  lostClaims = 0;
  /** A bound ended the plan early. */
  isTruncated = false;
  /**
   * Epoch ms at which the first rate or budget that the last plan found used up allows a start again; undefined: none
   * does by itself.
   */
  opensAtMs: number | undefined;
  /** Jobs that this pass has ended because they had not started in time. */
  #expired = 0;
  /** A lock that made a claim fail has opened since. */
  isLockOpen = false;
  /** The most jobs in the next batch. */
  #batchMax: number;
  /** Random part of the ids of this pass's batches. */
  readonly #nonce: string;
  /** Blocked jobs that the last plan met. */
  blocked: Blocked = [];
  /** Whether the partition summary says that jobs may be parked. */
  readonly parks: boolean;

  constructor(pass: PlannedPass) {
    const { context, state, unparked } = pass;
    this.#pass = pass;
    this.#batchMax = context.budget.batchJobs;
    this.held = [...pass.inFlight];
    this.#draft = pass.draft;
    this.#quiet = state.quiet;
    this.#unseenUntilMs = state.unseenUntilMs ?? -Infinity;
    this.#nonce = nonceFrom(context.random);
    this.parks = state.parks && !unparked.isNothingMarked;
  }

  /** Whether this pass has ended so many jobs that had not started in time that it leaves the rest to the next pass. */
  get isExpiring(): boolean {
    return this.#expired >= PROMOTE_ROUNDS_MAX * this.#pass.context.budget.promoteMax;
  }

  /** The entries of `held` that this pass has added. */
  get admittedEntries(): readonly ReservedJob[] {
    return this.held.slice(this.#pass.inFlight.length);
  }

  /** Epoch ms, as last committed: a read of the lines that began earlier may miss a job. */
  get unseenUntilMs(): number {
    return this.#unseenUntilMs;
  }

  /**
   * Admits batches until no more jobs can start.
   * @throws CommitLostError if another commit came first
   */
  async run(): Promise<void> {
    for (;;) {
      const decisions = await this.#plan();
      this.#noteLedgers(decisions);
      if (decisions.length === 0 && !this.#hasChanges()) break;
      const both = await Promise.allSettled([this.#admit(decisions), this.#readAhead(decisions)]);
      for (const each of both) if (each.status === 'rejected') throw each.reason;
      if (decisions.length === 0) break;
      this.#batchMax = Math.min(2 * this.#batchMax, RESERVATIONS_MAX * this.#pass.context.budget.batchJobs);
    }
    await this.#pass.commits.written();
    // A lost claim may have freed a conflict key.
    if (this.lostClaims > 0) await this.#moveBack();
    if (this.parks) this.#noteFollowers();
  }

  async #admit(decisions: readonly Decision[]): Promise<void> {
    // planted: told-before-reserved
    const places = await this.#reserve(decisions);
    if (decisions.length > 0) await this.#sendReserved(places);
  }

  /** Reads lines for the next batch while this one is written. Only a full batch is followed by another. */
  async #readAhead(decisions: readonly Decision[]): Promise<void> {
    const { planner, candidates } = this.#pass;
    if (decisions.length === this.#batchMax && planner.room > 0)
      await candidates.readAhead(planner.room, true);
  }

  async #plan(): Promise<readonly Decision[]> {
    const { planner, candidates } = this.#pass;
    for (;;) {
      const { decisions, blocked, truncated, opensAtMs } = await nextBatch(
        planner,
        candidates,
        this.#batchMax,
      );
      this.blocked = blocked;
      this.isTruncated ||= truncated;
      this.opensAtMs = opensAtMs;
      const waiting = await this.#stillWaiting(decisions);
      if (this.isExpiring) return waiting;
      for (const { reserved } of waiting) this.#admittedIds.add(reserved.id);
      if (!this.#hasMovedBack) {
        this.#hasMovedBack = true;
        await this.#moveBack();
      }
      if (waiting.length > 0 || decisions.length === 0) return waiting;
    }
  }

  /**
   * Returns the decisions before the first one whose job has moved on. Later decisions assumed that this job would
   * start, so they are made again. A job whose claim takes a lock is not checked here: its claim finds out.
   */
  async #stillWaiting(decisions: readonly Decision[]): Promise<readonly Decision[]> {
    const { planner, candidates } = this.#pass;
    const unlocked = decisions.filter(({ reserved }) => this.#lockOf(reserved) === undefined);
    const [outdated, expired] = await Promise.all([
      candidates.outdated(planner, unlocked),
      this.#expire(decisions),
    ]);
    if (outdated.length === 0 && expired.length === 0) return decisions;
    const overtaken = [...outdated, ...expired];
    candidates.noteGone(overtaken);
    this.lostClaims += overtaken.length;
    const over = new Set(overtaken.map(({ id }) => id));
    const first = decisions.findIndex(({ reserved }) => over.has(reserved.id));
    const behind = decisions.slice(first);
    const isOver = ({ reserved }: Decision): boolean => over.has(reserved.id);
    for (const decision of behind) if (!isOver(decision)) planner.undo(decision);
    for (const decision of behind.filter(isOver)) {
      this.#noteFreedConflict(decision);
      this.#dropDecision(decision);
    }
    return decisions.slice(0, first);
  }

  /** Ends the jobs of these decisions whose time to start is over, and returns them. The caller gives their capacity back. */
  async #expire(decisions: readonly Decision[]): Promise<readonly ReservedJob[]> {
    const { context, planner } = this.#pass;
    const nowMs = context.clock.nowMs();
    const expired = decisions.filter((decision) => isExpired(planner.jobOf(decision), nowMs));
    if (expired.length === 0) return [];
    const jobs = expired.map(({ reserved }) => reserved);
    this.#expired += jobs.length;
    await expireJobs(
      context,
      jobs.map(({ id }) => id),
    );
    return jobs;
  }

  /** Makes the next pass read the jobs that are parked for conflict keys on which the jobs started here leave room. */
  #noteFollowers(): void {
    const { context, planner, cached } = this.#pass;
    const started = new Set(
      this.admittedEntries.flatMap((entry) => parkingKeysOf(context.configuration, entry)),
    );
    for (const each of started) if (!planner.isConflictHeld(each)) cached.freedConflictKeys.add(each);
  }

  /**
   * Returns parked jobs that could start, but do not in this pass, to their ready lines. The settlement is written after that.
   */
  async #moveBack(): Promise<void> {
    const { context, planner, candidates, unparked, taken } = this.#pass;
    const freed = { heads: unparked.heads, taken };
    candidates.noteMovedBack(await moveBack(context, planner, freed, this.#admittedIds));
  }

  /** Adds the ledgers of keys that have newly arrived, or that the plan has raised, to the next commit. */
  #noteLedgers(decisions: readonly Decision[]): void {
    const { planner, ledgerCache } = this.#pass;
    const starts = new Set(decisions.map(({ reserved }) => reserved.fairnessKey));
    // planted: raises-forgotten
    for (const ledger of ledgerCache.raise(planner.takeRaised(), starts))
      this.#draft.ledgers.set(ledger.fairnessKey, ledger);
  }

  #hasChanges(): boolean {
    const { input, unparked } = this.#pass;
    return (
      writesOf(this.#draft) > 0 ||
      this.#mustWriteQuiet(this.#quietAfter([])) ||
      this.#mustWriteUnseen() ||
      (!this.#hasCommitted && (input.mustCommit === true || unparked.empty.length > 0))
    );
  }

  /**
   * Returns the statement that nothing waits once these decisions have started. `null`: jobs may wait, so the summary
   * must not say so.
   */
  #quietAfter(decisions: readonly Decision[]): NothingWaits | null {
    const { due, carried, candidates, unparked } = this.#pass;
    const goesOn = decisions.length >= this.#batchMax || this.isTruncated || this.isExpiring || due.more;
    if (goesOn || carried !== undefined || this.parks || unparked.heads.size > 0) return null;
    return candidates.quietBut(this.#admittedIds, this.#unseenUntilMs) ?? null;
  }

  /**
   * Whether the summary's statement that nothing waits must be changed now. If it is false, it must be taken back at once. A new
   * statement is worth a commit of its own only if it spares other passes many reads.
   */
  #mustWriteQuiet(quiet: NothingWaits | null): boolean {
    if (quiet === null) return this.#quiet !== undefined;
    const isNewer = this.#quiet === undefined || this.#quiet.lookedAtMs < quiet.lookedAtMs;
    return isNewer && this.#pass.candidates.linesRead >= LINES_OF_A_PASS;
  }

  /**
   * Whether the next commit must write a later `unseenUntilMs`: a job is left waiting that reads may miss, and the summary does
   * not yet say so. This also holds if this pass has read the job, because an earlier read by another pass may have missed it.
   */
  #mustWriteUnseen(): boolean {
    const { context, candidates } = this.#pass;
    return (
      // planted: left-unsaid
      this.#unseenUntilMs < context.clock.nowMs() + context.budget.seenWithinMs &&
      candidates.leavesUnseenJobs(this.#admittedIds)
    );
  }

  async #reserve(decisions: readonly Decision[]): Promise<readonly ReservedEntry[]> {
    const { context, commits, recovery, nowMs } = this.#pass;
    const { observation } = recovery;
    const places = this.#entriesFor(decisions);
    const reserve = [...new Set(places.map(({ reservation }) => reservation))];
    // Twice as far ahead as needed, so that passes that leave a job waiting write it once in `seenWithinMs`, not in each commit.
    const unseenUntilMs = this.#mustWriteUnseen()
      ? context.clock.nowMs() + 2 * context.budget.seenWithinMs
      : undefined;
    this.#unseenUntilMs = unseenUntilMs ?? this.#unseenUntilMs;
    this.hasWrittenUnseen ||= unseenUntilMs !== undefined;
    const quiet = this.#quietAfter(decisions);
    // Earlier commits hold the part of the draft that does not fit beside the reservations.
    const parts = [...inCommits(this.#draft, Math.max(1, reserve.length))];
    const last = parts.pop() ?? emptyDraft();
    for (const part of parts) await commits.write({ ...commitOf(part, []), observation });
    await commits.write({
      ...commitOf(last, reserve),
      counts: countedWith(last.counts, countOfAdmitted(context, decisions, nowMs)),
      observation,
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

  /** Divides decisions among reservations of `batchJobs` jobs each. This many fit into one item, however long their names are. */
  #entriesFor(decisions: readonly Decision[]): readonly ReservedEntry[] {
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

  /** Sends reserved jobs to their fleets. It runs after the commit: a job sent earlier could start without being counted. */
  async #sendReserved(places: readonly ReservedEntry[]): Promise<void> {
    const { context, input, candidates } = this.#pass;
    candidates.noteGone(places.map(({ decision }) => decision.reserved));
    const locked: ReservedEntry[] = [];
    const told: FleetMessage[] = [];
    for (const place of places) {
      if (this.#lockOf(place.decision.reserved) !== undefined) {
        locked.push(place);
        continue;
      }
      this.#keep(place.decision);
      told.push(this.#messageOf(place, plannedOf(place.reservation, place.decision.reserved)));
    }
    if (told.length > 0) input.inBackground(send(context, told));
    this.admitted += told.length;
    if (locked.length > 0) await this.#claim(locked);
  }

  /**
   * Returns the message that sends a reserved job to its fleet.
   * @param toClaim - the claim that the worker makes; undefined: the pass has claimed the job itself
   */
  #messageOf(place: ReservedEntry, toClaim?: PlannedClaim): FleetMessage {
    const { planner, blockersOf } = this.#pass;
    const { decision } = place;
    const { reserved } = decision;
    const blockedBy = blockersOf(planner.jobOf(decision));
    return {
      fleet: reserved.fleet,
      message: {
        jobId: reserved.id,
        claimId: claimIdOfEntry(place),
        ...(toClaim === undefined ? {} : { toClaim }),
        ...startByOf(reserved),
        ...(blockedBy.length === 0 ? {} : { blockedBy }),
      },
      isAlone: mayHaveRun(reserved),
    };
  }

  /** Returns the conflict key whose lock this job's claim must take. Undefined: none. */
  #lockOf(reserved: ReservedJob): string | undefined {
    const { context, between } = this.#pass;
    return between?.lockOfEntry(context, reserved);
  }

  async #claim(places: readonly ReservedEntry[]): Promise<void> {
    const { context, input, partition } = this.#pass;
    const { store, log } = context;
    const outcomes = await store.claim(
      places.map((place) => {
        const { version, ...planned } = plannedOf(place.reservation, place.decision.reserved);
        const conflictKey = this.#lockOf(place.decision.reserved);
        return {
          jobId: place.decision.reserved.id,
          version,
          ...claimPlanned(claimIdOfEntry(place), planned),
          ...(conflictKey === undefined ? {} : { lock: { conflictKey, partition } }),
        };
      }),
    );
    const won: FleetMessage[] = [];
    let lost = 0;
    for (const [at, place] of places.entries()) {
      const outcome = outcomes[at] ?? 'unknown';
      if (outcome === 'claimed') won.push(this.#messageOf(place));
      if (outcome === 'lost' || outcome === 'blocked') lost += 1;
      await this.#handleClaim(place, outcome);
    }
    this.admitted += won.length;
    this.lostClaims += lost;
    input.inBackground(send(context, won));
    if (lost > 0) log.info('claims were lost', { partition, lost, of: places.length });
  }

  /**
   * Handles the answer to one claim. An entry whose claim failed is dropped; one whose answer is unknown goes on holding
   * capacity.
   */
  async #handleClaim(place: ReservedEntry, outcome: ClaimOutcome): Promise<void> {
    const { context, partition, planner } = this.#pass;
    const { store, clock } = context;
    const { decision } = place;
    const { id, version, conflictKey } = decision.reserved;
    if (outcome === 'blocked' && conflictKey !== undefined) {
      planner.closeConflict(conflictKey);
      this.isLockOpen ||=
        (await store.awaitLock({ conflictKey, partition, nowMs: clock.nowMs() })) === 'open';
      // The same claim may arrive again after the lock has opened. Only a raised version makes it fail then.
      if ((await store.raiseVersion({ jobId: id, version })) === 'raised') this.#dropEntry(place);
      else this.#keep(decision);
    } else if (outcome === 'lost') {
      this.#noteFreedConflict(decision);
      // An answered claim cannot arrive again, so the version need not be raised.
      this.#dropEntry(place);
    } else {
      // planted: unknown-claims-lent
      this.#keep(decision);
    }
  }

  #dropEntry({ reservation, position, decision }: ReservedEntry): void {
    this.#dropDecision(decision);
    dropEntry(this.#draft, reservation, position);
  }

  #dropDecision(decision: Decision): void {
    const { planner, candidates } = this.#pass;
    const startsAnew = planner.dropped(decision);
    if (startsAnew) candidates.readAgain();
    candidates.noteUnseenJobs();
  }

  /** Notes that the job has left its conflict key, so a job parked for that key may be next. */
  #noteFreedConflict({ reserved }: Decision): void {
    const { context, cached } = this.#pass;
    // planted: let-go-forgotten
    if (this.parks)
      for (const each of parkingKeysOf(context.configuration, reserved)) cached.freedConflictKeys.add(each);
  }

  #keep(decision: Decision): void {
    this.#pass.planner.kept(decision);
    this.held.push(decision.reserved);
  }
}
