/**
 * The plan of one pass: which jobs to reserve, decided from the heads of lines alone.
 *
 * The order. The next job is the first, among the jobs that may start, by
 *   1. tier: those below their guaranteed share first, then all, each time from the top;
 *   2. v = (settled + in flight) / weight of its fairness key, least first (`fairness.ts`);
 *   3. score, greatest first (`score.ts`); then the older job; then the smaller id.
 * A job may start when pool, tier, type, key and fleet have room, none is paused, and its conflict key is free. Other
 * jobs are skipped; a waiting job reserves nothing. After each admission the order is determined again, with the key's
 * new cost.
 *
 * Theorems (tested as properties in test/core/planner.test.ts):
 *   T1  With one fairness key and one tier, the order is affinity-scoring's: score, then age, then id.
 *   T2  With equal scores, the order is fair-queuing's: tier, accumulated cost, arrival, then id.
 *   T3  The heads suffice: the plan made from the heads of lines is the plan that scoring and sorting the whole backlog makes.
 *       In a line the order is fixed (the rank), so its unread part is behind its read part. A key's unread line counts as
 *       better than all other lines of the key until it is read. Keys stand in a line for each type: a key that was not
 *       offered for a type has at least the settled share of the last one that was, as its rank states it, and jobs in flight
 *       only add to it. Keys that may have the same share are requested, too. Types without room are not requested.
 *   T4  Work is conserved: a plan ends only when no job that was offered, or can still be requested, may start.
 *   T5  No inversion: of two jobs of one line that may both start, the better ranked starts first.
 * If a bound ends the reading of keys early, T3 and T4 hold for the keys that were read. If the blocked jobs reach
 * their bound, the plan ends before it would skip anything unread: the caller parks the blocked jobs, and plans again.
 *
 * The bound. Let F be the free capacity when the pass begins, L the lines requested, A the decisions made (at most F,
 * and the lost ones), S the blocked jobs found. First requests add up to at most 2 F + L heads. A further request for a
 * line at most doubles its count, and is made only when all requested heads are used up: at most 2 F + L + 2 (A + S)
 * heads in all. With one line and no blocked jobs that is 2 F, the text's own limit. S ends the plan at `blockedMax`
 * (default 2 F + 64). Keys are requested F at a time, `KEYS_MAX` + `blockedMax` in all; keys at their cap do not count,
 * as each has jobs in flight.
 */
import { type Control, classOf, typeOf } from './capacity.ts';
import type { JobTypeConfiguration, PoolConfiguration } from './configuration.ts';
import { isOfLimit, keyOfLimitIn } from './conflict.ts';
import type { JobMode, ReservedJob, WaitingJob } from './job.ts';
import { NO_USES, type Uses } from './limits.ts';
import { type DataRequests, Raises } from './raises.ts';
import { type Decision, Scheduler } from './scheduler.ts';

/** A line of waiting jobs. */
export interface LineName {
  readonly type: string;
  readonly mode: JobMode;
  readonly fairnessKey: string;
}

/** A fairness key's ledger. */
export interface KeyLedger {
  readonly fairnessKey: string;
  /** The cost of settled attempts. The cost of jobs in flight comes from the reservations. */
  readonly settledCostMs: number;
  /** When the key last had a start, an end of an attempt, or a raise of its cost; epoch ms. */
  readonly touchedAtMs?: number | undefined;
  /** What the key's ended attempts have used of limits. */
  readonly uses?: Uses | undefined;
}

/** A key with backlog of a type, as the type's keys line lists it, by settled cost over weight. */
export interface OfferedKey {
  readonly fairnessKey: string;
  /** Absent: the ledger was given at the start, or the key was never charged. */
  readonly settledCostMs?: number | undefined;
  /** As in `KeyLedger`. Absent: the key has no ledger, or it was given at the start. */
  readonly touchedAtMs?: number | undefined;
  /** As in `KeyLedger`. */
  readonly uses?: Uses | undefined;
  /** The modes of its lines of that type with backlog. */
  readonly modes: readonly JobMode[];
  /**
   * The settled share that the key's rank in the keys line states, if that lags behind its ledger. The keys behind it
   * have at least this share.
   */
  readonly rankShareMs?: number | undefined;
}

/** The state that a pass has loaded when it begins to plan. */
export interface PlannerInput {
  readonly nowMs: number;
  /** Every entry of every reservation. */
  readonly inFlight: readonly ReservedJob[];
  /** What ended attempts have used of whole limits. */
  readonly uses?: Uses | undefined;
  /** Free slots, net of jobs in flight. A fleet that is not named has none. */
  readonly freeSlotsByFleet: ReadonlyMap<string, number>;
  readonly ledgers?: readonly KeyLedger[] | undefined;
  /** The expected cost of an attempt. */
  readonly costMs: (type: string, resourceId: string | undefined) => number;
  readonly overrides?: readonly Control[] | undefined;
  /** The most blocked jobs that the plan may find; default 64, and two per free slot. */
  readonly blockedMax?: number | undefined;
  /** How much `blockedMax` grows for each conflict key that turns out to be held elsewhere; default 0. */
  readonly blockedPerConflict?: number | undefined;
}

/** The planner's next step. */
export type Step =
  | { readonly kind: 'admit'; readonly decision: Decision }
  /** Read these, offer them, and call `next` again. Everything requested must be offered, even if nothing was found. */
  | {
      readonly kind: 'need';
      readonly lines: readonly { readonly line: LineName; readonly count: number }[];
      readonly keys: readonly { readonly type: string; readonly count: number }[];
      /** Keys with jobs in flight whose ledgers are needed. */
      readonly ledgers?: readonly string[];
    }
  | {
      readonly kind: 'done';
      /** Jobs that were found and whose conflict key is held. */
      readonly blocked: readonly { readonly job: WaitingJob; readonly conflictKey: string }[];
      /** A bound ended the plan before the backlog was empty: another pass may start more. */
      readonly truncated: boolean;
      /**
       * Epoch ms at which the first used-up rate or budget allows a start again. Absent: no rate or budget is used up,
       * or it opens only when a job ends.
       */
      readonly opensAtMs?: number | undefined;
    };

export interface Planner {
  /** Offers keys with backlog of a type, following those offered before. `more`: others follow. */
  offerKeys(type: string, keys: readonly OfferedKey[], more: boolean): void;
  /**
   * Offers jobs of a line in rank order, following those offered before. `more`: others follow. `known`: all jobs known
   * in the line.
   */
  offerHeads(line: LineName, jobs: readonly WaitingJob[], more: boolean, known?: readonly WaitingJob[]): void;
  /** Offers ledgers of keys with jobs in flight. A key without a ledger is offered with cost 0. */
  offerLedgers(ledgers: readonly KeyLedger[]): void;
  /** Offers what ended attempts have used, as the ledger of this name keeps it: see `ledgerOfKey`. */
  offerUses(ledger: string, uses: Uses): void;
  /** The ledgers to write for keys that have arrived or were raised since the last call. */
  takeRaised(): readonly KeyLedger[];
  /** Whether a key is at its cap, so that its cost does not matter to this plan. */
  isKeyFull(fairnessKey: string): boolean;
  /** Whether as many jobs run or were admitted with this conflict key as may run at once. */
  isConflictHeld(conflictKey: string): boolean;
  /**
   * Whether jobs may stay parked for this conflict key, because the end of a running job or a job that waits in a ready
   * line will cause the pass that looks at them. `parked` are the ids of those that were read.
   */
  staysBlocked(conflictKey: string, parked: ReadonlySet<string>): boolean;
  /** Admits no further job with this conflict key in this plan, because jobs of another partition run with it. */
  closeConflict(conflictKey: string): void;
  /**
   * Counts one more running job with this conflict key, which was claimed with another one. `room` jobs may run at
   * once.
   */
  holdConflict(conflictKey: string, room: number): void;
  next(): Step;
  /** Called when the decision stands: its job was reserved and sent, or the pass has claimed it. */
  kept(decision: Decision): void;
  /**
   * Called when the decision does not stand, because its job had moved on: its capacity and its charge are given back. After more
   * such decisions in a row than the pool allows it returns true, and all heads are requested again, to be read from the start of their lines.
   */
  dropped(decision: Decision): boolean;
  /**
   * Undoes a decision that was not carried out: its capacity and its charge are given back, and its job waits as
   * before.
   */
  undo(decision: Decision): void;
  /** The job of a decision of this plan, in the newest image that was offered. */
  jobOf(decision: Decision): WaitingJob;
  /** The number of heads requested so far. */
  readonly headsRequested: number;
  /** The slots that this plan may still fill, ignoring the caps of single types, tiers and keys. */
  readonly room: number;
}

/** The keys of a type, as far as they were offered. */
interface KeysState {
  /** Whether keys were offered. */
  read: boolean;
  /** Whether keys that were not offered may have backlog. */
  more: boolean;
  /** Lower bound of the shares of keys that were not offered yet. */
  boundShare: number;
}

interface LineState {
  readonly line: LineName;
  readonly number: number;
  readonly key: number;
  readonly class: number;
  requested: number;
}

interface OfferedJob {
  readonly number: number;
  job: WaitingJob;
}

const NONE = -1;
/**
 * The most keys that a plan looks at, counted for each type. If so many come first, most of them do so only because
 * their lines are used up.
 */
const KEYS_MAX = 2_000;
/**
 * The most lines with jobs that a plan looks at, in addition to four per free slot and the bound on blocked jobs.
 * Without it, a plan would read every key with the same share.
 */
const LINES_MAX = 1_000;
/** The most keys beyond the free slots whose lines are requested at once. */
const EXTRA_KEYS_MAX = 100;

export function createPlanner(configuration: PoolConfiguration, input: PlannerInput): Planner {
  return new HeadsPlanner(configuration, input);
}

class HeadsPlanner implements Planner {
  readonly #scheduler: Scheduler;
  readonly #input: PlannerInput;
  readonly #settled: Map<string, number>;
  readonly #chargedKeys = new Set<number>();
  /** By type. */
  readonly #keys: readonly KeysState[];
  /** By line number, in the order in which the lines were offered. */
  readonly #lines = new Map<number, LineState>();
  /** Ids of jobs that were in flight when the pass began. An index that lags may still show them as waiting. */
  readonly #inFlightIds: ReadonlySet<string>;
  /** Jobs that wait, are in the plan or were lost, each with the newest image that was offered. */
  readonly #offered = new Map<string, OfferedJob>();
  readonly #blocked = new Map<string, string>();
  /** The conflict keys of limits by which jobs were found blocked. */
  readonly #blockedByLimits = new Set<string>();
  #firstHeadsLeft: number;
  #keysLeft: number;
  #linesMax: number;
  #blockedLeft: number;
  /**
   * The keys beyond the free slots whose lines are requested at once. It grows with each request after which no job
   * could start.
   */
  #extraKeys = 0;
  /** Whether a job was admitted since lines were last requested. */
  #hasAdmitted = true;
  readonly #linesWithJobs = new Set<number>();
  readonly #raises: Raises;
  #raised: KeyLedger[] = [];
  /** By id of a job that was admitted: the mark of its start. */
  readonly #startMarks = new Map<string, number>();
  #truncated = false;
  headsRequested = 0;

  constructor(configuration: PoolConfiguration, input: PlannerInput) {
    this.#input = input;
    this.#scheduler = new Scheduler(
      {
        ...configuration,
        // A plan raises shares itself, and the caller's ledgers evict keys.
        fairness: { ...configuration.fairness, idlePolicy: 'none', keyTtlMs: null, estimateTtlMs: null },
      },
      { overrides: input.overrides, costMs: input.costMs },
    );
    this.#inFlightIds = new Set(input.inFlight.map((reserved) => reserved.id));
    this.#scheduler.limits.setUses(input.uses ?? NO_USES);
    for (const reserved of input.inFlight) this.#scheduler.hold(reserved, input.nowMs);
    this.#raises = new Raises(this.#scheduler, configuration.fairness, input.inFlight, input.nowMs);
    configuration.fleets.forEach(({ fleet }, number) => {
      const busy = this.#scheduler.fleets.busyOf(number);
      this.#scheduler.setSlots(fleet, busy + (input.freeSlotsByFleet.get(fleet) ?? 0));
    });
    this.#settled = new Map();
    this.offerLedgers(input.ledgers ?? []);
    this.#keys = configuration.types.map(() => ({
      read: false,
      more: true,
      boundShare: Number.NEGATIVE_INFINITY,
    }));
    this.#scheduler.beginPass(input.nowMs);
    const free = this.#scheduler.room;
    this.#firstHeadsLeft = 2 * free;
    this.#blockedLeft = input.blockedMax ?? 2 * free + 64;
    this.#keysLeft = KEYS_MAX + this.#blockedLeft;
    this.#linesMax = LINES_MAX + 4 * free + this.#blockedLeft;
  }

  get room(): number {
    return this.#scheduler.room;
  }

  offerKeys(type: string, keys: readonly OfferedKey[], more: boolean): void {
    const number = this.#scheduler.index.typeNumbers.get(type);
    if (number === undefined) return;
    const state = this.#keys[number] as KeysState;
    for (const offered of keys) {
      const key = this.#openKey(offered);
      const settledShare = this.#settledOf(offered) / this.#scheduler.ledgers.weightOf(key);
      // If ranks lag, only the last rank bounds the shares of keys that were not offered, not the newer share of an
      // offered key.
      state.boundShare = Math.max(
        state.boundShare,
        Math.min(settledShare, offered.rankShareMs ?? settledShare),
      );
      if (!this.#scheduler.ledgers.isFull(key)) {
        this.#keysLeft -= 1;
      }
      for (const mode of offered.modes) {
        const line = this.#open({ type, mode, fairnessKey: offered.fairnessKey }, number, key);
        if (line.requested === 0) this.#setMore(line, true);
      }
    }
    state.read = true;
    state.more = more;
  }

  offerHeads(
    line: LineName,
    jobs: readonly WaitingJob[],
    more: boolean,
    known: readonly WaitingJob[] = jobs,
  ): void {
    const type = this.#scheduler.index.typeNumbers.get(line.type);
    if (type === undefined) return;
    const state = this.#open(line, type, this.#openKey({ fairnessKey: line.fairnessKey }));
    state.requested = Math.max(state.requested, jobs.length);
    if (jobs.length > 0) this.#linesWithJobs.add(state.number);
    this.#offer(jobs);
    this.#raises.noteJobs(state.number, known);
    this.#setMore(state, more);
  }

  next(): Step {
    if (this.#scheduler.room <= 0) return this.#done();
    // planted: guarantees
    for (const belowGuarantee of [true, false]) {
      for (let tier = 0; tier < this.#scheduler.index.tiers.length; tier += 1) {
        if (belowGuarantee && !this.#scheduler.isBelowGuarantee(tier)) continue;
        // planted: tiers-in-one-batch
        const step = this.#stepIn(tier, belowGuarantee);
        if (step !== undefined) return step;
      }
    }
    return this.#done();
  }

  offerLedgers(ledgers: readonly KeyLedger[]): void {
    for (const ledger of ledgers) this.#openKey(ledger);
  }

  offerUses(ledger: string, uses: Uses): void {
    this.#scheduler.limits.setUsesOfKey(ledger, uses);
  }

  takeRaised(): readonly KeyLedger[] {
    const raised = this.#raised;
    this.#raised = [];
    this.#raises.keep();
    return raised;
  }

  isKeyFull(fairnessKey: string): boolean {
    const { ledgers } = this.#scheduler;
    return ledgers.isFull(this.#scheduler.openKey(fairnessKey, this.#input.nowMs));
  }

  isConflictHeld(conflictKey: string): boolean {
    return this.#scheduler.isConflictHeld(conflictKey);
  }

  staysBlocked(conflictKey: string, parked: ReadonlySet<string>): boolean {
    if (!this.#scheduler.isConflictHeld(conflictKey)) return false;
    const ofLimit = keyOfLimitIn(conflictKey);
    if (ofLimit === undefined || this.#scheduler.limits.isAtCap(ofLimit)) return true;
    // planted: spent-and-unwatched
    return [...this.#blocked].some(([id, held]) => held === conflictKey && !parked.has(id));
  }

  closeConflict(conflictKey: string): void {
    this.#blockedLeft += this.#input.blockedPerConflict ?? 0;
    this.#scheduler.closeConflict(conflictKey);
  }

  holdConflict(conflictKey: string, room: number): void {
    this.#blockedLeft += this.#input.blockedPerConflict ?? 0;
    this.#scheduler.holdConflict(conflictKey, room);
  }

  kept(_decision: Decision): void {
    this.#scheduler.kept();
  }

  dropped(decision: Decision): boolean {
    // planted: raises-of-dropped
    this.#raises.takeBack(this.#startMarks.get(decision.reserved.id) ?? Infinity);
    if (!this.#scheduler.dropped(decision.reserved.id)) return false;
    // Jobs that were admitted or lost do not wait any more and stay as they are.
    for (const [id, { number }] of this.#offered)
      if (this.#scheduler.withdraw(number, id, this.#input.nowMs)) this.#offered.delete(id);
    this.#blocked.clear();
    for (const state of this.#lines.values()) {
      state.requested = 0;
      this.#setMore(state, true);
    }
    this.#firstHeadsLeft = 2 * this.#scheduler.room;
    return true;
  }

  undo(decision: Decision): void {
    const { id } = decision.reserved;
    const job = this.jobOf(decision);
    this.#scheduler.settle(id, { nowMs: this.#input.nowMs, succeeded: false });
    this.#offered.delete(id);
    this.#offer([job]);
  }

  jobOf({ reserved: { id } }: Decision): WaitingJob {
    return (this.#offered.get(id) as OfferedJob).job;
  }

  #stepIn(tier: number, guaranteed: boolean): Step | undefined {
    const scheduler = this.#scheduler;
    const before = this.#raises.isOver(tier) ? undefined : this.#raiseShares(tier);
    if (before !== undefined) return before;
    const line = scheduler.best(tier);
    this.#noteBlocked();
    const share = line === NONE ? Number.POSITIVE_INFINITY : this.#shareOf(line);
    const needed = this.#needKeys(tier, share);
    if (needed !== undefined) return needed;
    if (line === NONE) return undefined;
    if (scheduler.backlog.isUnread(line)) return this.#needHeads(tier);
    const decision = scheduler.admit(line, guaranteed);
    this.#hasAdmitted = true;
    this.#startMarks.set(decision.reserved.id, this.#raises.noteStart(scheduler.backlog.keyOf(line)));
    this.#blocked.delete(decision.reserved.id);
    return { kind: 'admit', decision };
  }

  #raiseShares(tier: number): Step | undefined {
    const ask: DataRequests<Step> = {
      ledgers: () => {
        const ledgers = [...new Set(this.#input.inFlight.map(({ fairnessKey }) => fairnessKey))].filter(
          (key) => !this.#settled.has(key),
        );
        return ledgers.length === 0 ? undefined : { kind: 'need', lines: [], keys: [], ledgers };
      },
      keys: (shareMs) => {
        this.#noteBlocked();
        return this.#needKeys(tier, shareMs);
      },
      heads: () => {
        const step = this.#needHeads(tier);
        return step.kind === 'need' ? step : undefined;
      },
      isCut: () => this.#truncated,
    };
    return this.#raises.raise(tier, ask, (key, moreMs) => {
      const fairnessKey = this.#scheduler.ledgers.nameOf(key);
      const settledCostMs = (this.#settled.get(fairnessKey) ?? 0) + moreMs;
      this.#settled.set(fairnessKey, settledCostMs);
      this.#raised.push({ fairnessKey, settledCostMs, touchedAtMs: this.#input.nowMs });
      return () => {
        this.#settled.set(fairnessKey, settledCostMs - moreMs);
        this.#raised.pop();
      };
    });
  }

  // Requests the keys of this tier's types that may come before this share or tie with it, and the keys of every other
  // open type that were never read, so that one read serves all.
  #needKeys(tier: number, share: number): Step | undefined {
    const { index } = this.#scheduler;
    const isNext = (state: KeysState, type: number): boolean =>
      index.tierOfType[type] === tier && state.more && state.boundShare <= share && this.#isOpen(type);
    // This check runs before each admission, and mostly no key is needed.
    if (!this.#keys.some(isNext)) return undefined;
    if (this.#keysLeft <= 0 || this.#linesWithJobs.size >= this.#linesMax) {
      this.#truncated = true;
      return undefined;
    }
    const keys = this.#keys.flatMap((state, type) => {
      if (!(isNext(state, type) || (!state.read && this.#isOpen(type)))) return [];
      const tierRoom = this.#scheduler.roomOfTier(index.tierOfType[type] as number);
      const { type: name } = index.types[type] as JobTypeConfiguration;
      return [{ type: name, count: Math.min(this.#scheduler.room, tierRoom) }];
    });
    return { kind: 'need', lines: [], keys };
  }

  #isOpen(type: number): boolean {
    return (
      this.#scheduler.isTypeOpen(type) &&
      this.#scheduler.isTierOpen(this.#scheduler.index.tierOfType[type] as number)
    );
  }

  // Requests the heads of the unread lines of the next keys, as many keys as there are free slots, because each key can
  // take at least one slot. Thousands of keys may come first with lines that are empty or full of blocked jobs, so each
  // request in a row asks for more keys.
  #needHeads(tier: number): Step {
    const unread = [...this.#lines.values()]
      .filter(
        (state) =>
          this.#scheduler.backlog.isUnread(state.number) &&
          !this.#scheduler.ledgers.isFull(state.key) &&
          this.#scheduler.index.tierOfType[typeOf(state.class)] === tier &&
          this.#scheduler.isTypeOpen(typeOf(state.class)),
      )
      .sort((a, b) => this.#shareOf(a.number) - this.#shareOf(b.number));
    if (this.#blockedLeft <= 0) {
      // Unread jobs behind the blocked ones would come first.
      this.#truncated = true;
      return this.#done();
    }
    const room = Math.min(this.#scheduler.room, this.#scheduler.roomOfTier(tier));
    const keys = new Set<number>();
    this.#extraKeys = this.#hasAdmitted ? 0 : Math.min(EXTRA_KEYS_MAX, 2 * this.#extraKeys + room);
    this.#hasAdmitted = false;
    const keysMax = room + this.#extraKeys;
    const leastShare = this.#shareOf((unread[0] as LineState).number);
    const chosen = unread.filter((state) => {
      // Keys with equal shares are ordered by their jobs, so all of their lines are needed.
      const ties = keys.size < EXTRA_KEYS_MAX && this.#shareOf(state.number) === leastShare;
      if (keys.size < keysMax || ties) keys.add(state.key);
      return keys.has(state.key);
    });
    const newLines = chosen.filter((state) => state.requested === 0).length;
    const first = Math.max(1, Math.floor(Math.min(2 * room, this.#firstHeadsLeft) / Math.max(1, newLines)));
    const lines = chosen.map((state) => {
      // The request must reach past blocked jobs, but no further than the pass would look.
      const count = state.requested === 0 ? first : Math.min(state.requested, 2 * room + this.#blockedLeft);
      if (state.requested === 0) this.#firstHeadsLeft = Math.max(0, this.#firstHeadsLeft - count);
      state.requested += count;
      this.headsRequested += count;
      return { line: state.line, count };
    });
    return { kind: 'need', lines, keys: [] };
  }

  #done(): Step {
    const blocked = [...this.#blocked].flatMap(([id, conflictKey]) => {
      const { job } = this.#offered.get(id) as OfferedJob;
      // A lost claim may have freed the conflict key since.
      return this.#scheduler.isConflictHeld(conflictKey) ? [{ job, conflictKey }] : [];
    });
    const { opensAtMs } = this.#scheduler.limits;
    return {
      kind: 'done',
      blocked,
      truncated: this.#truncated,
      ...(opensAtMs === undefined ? {} : { opensAtMs }),
    };
  }

  #noteBlocked(): void {
    for (const skip of this.#scheduler.skipped) {
      // A job that was found before the plan started anew may not be offered any more.
      if (skip.kind !== 'job' || this.#blocked.has(skip.id) || !this.#offered.has(skip.id)) continue;
      this.#blocked.set(skip.id, skip.conflictKey);
      this.#blockedLeft -= 1;
      // No job need run for a rate to be used up, so the caller could not count these keys before.
      if (!isOfLimit(skip.conflictKey) || this.#blockedByLimits.has(skip.conflictKey)) continue;
      this.#blockedByLimits.add(skip.conflictKey);
      this.#blockedLeft += this.#input.blockedPerConflict ?? 0;
    }
  }

  #shareOf(line: number): number {
    return this.#scheduler.ledgers.shareOf(this.#scheduler.backlog.keyOf(line));
  }

  #settledOf(offered: Pick<OfferedKey, 'fairnessKey' | 'settledCostMs'>): number {
    return offered.settledCostMs ?? this.#settled.get(offered.fairnessKey) ?? 0;
  }

  #offer(jobs: readonly WaitingJob[]): void {
    for (const job of jobs) {
      if (this.#inFlightIds.has(job.id)) continue;
      const known = this.#offered.get(job.id);
      if (known !== undefined) {
        // A newer image does not move the job in this plan. It is used if the decision is taken back.
        if (job.version > known.job.version) known.job = job;
        continue;
      }
      const number = this.#scheduler.arrive(job, this.#input.nowMs);
      if (number === undefined) continue;
      this.#offered.set(job.id, { number, job });
    }
  }

  // Jobs in flight were charged by `hold`; the settled cost is added once.
  #openKey(offered: Pick<OfferedKey, 'fairnessKey' | 'settledCostMs' | 'touchedAtMs' | 'uses'>): number {
    const key = this.#scheduler.openKey(offered.fairnessKey, this.#input.nowMs);
    this.#scheduler.limits.setUsesOfKey(offered.fairnessKey, offered.uses);
    if (this.#chargedKeys.has(key)) return key;
    this.#chargedKeys.add(key);
    this.#raises.noteTouch(key, offered.touchedAtMs);
    const settledMs = this.#settledOf(offered);
    this.#settled.set(offered.fairnessKey, settledMs);
    this.#scheduler.setCost(key, this.#scheduler.ledgers.costOf(key) + settledMs);
    return key;
  }

  #open(line: LineName, type: number, key: number): LineState {
    const class_ = classOf(type, line.mode);
    const number = this.#scheduler.backlog.lineOf(key, class_);
    const known = this.#lines.get(number);
    if (known !== undefined) return known;
    const state: LineState = { line, number, key, class: class_, requested: 0 };
    this.#lines.set(number, state);
    return state;
  }

  #setMore(state: LineState, more: boolean): void {
    this.#scheduler.backlog.setMore(state.key, state.class, more);
  }
}
