/**
 * The plan of one pass: which jobs to reserve, decided from the heads of lines alone.
 *
 * The one order. Of the jobs that may start, the next is the first by
 *   1. tier: those below their guaranteed share first, then all, each time from the top;
 *   2. v = (settled + in flight) / weight of its fairness key, least first (`fairness.ts`);
 *   3. score, greatest first (`score.ts`); then the older job; then the smaller id.
 * A job may start when pool, tier, type, key and fleet have room, none is paused, and its conflict key is free. What may not start is
 * passed over; what waits reserves nothing. After each admission the order is taken anew, with the key's new cost.
 *
 * Theorems (tested as properties in test/core/planner.test.ts):
 *   T1  With one fairness key and one tier, the order is affinity-scoring's: score, then age, then id.
 *   T2  With equal scores, the order is fair-queuing's: tier, accumulated cost, arrival, then id.
 *   T3  The heads suffice: the plan made from the heads of lines is the plan that scoring and sorting the whole backlog makes.
 *       In a line the order is fixed (the rank), so its unread part is behind its read part. A key's unread line counts as
 *       better than anything of its key until it is read. Keys stand in a line for each type: one that was not offered
 *       for a type has at least the settled share of the last one that was, as its rank states it, and what is in flight
 *       only adds to it. Keys that may have the same share are asked for, too. A type that has no room is not asked for.
 *   T4  Work is conserved: a plan ends only when no job that was offered, or can still be asked for, may start.
 *   T5  No inversion: of two jobs of one line that may both start, the better ranked starts first.
 * Where a bound cuts the reading of keys short, T3 and T4 hold for what was read. Where blocked jobs reach theirs, the plan
 * ends before it would pass over anything unread: whoever made it takes blocked jobs out of the way, and plans again.
 *
 * The bound. Let F be the free capacity when the pass begins, L the lines asked for, A the decisions made (at most F and
 * the lost ones), S the blocked jobs met. First requests sum up to at most 2 F + L heads, a further request for a line at most doubles
 * what was asked of it, and comes only when all of that has been used up: at most 2 F + L + 2 (A + S) heads in all.
 * One line and no blocks: 2 F, the text's own limit. S ends the plan at `blockedMax` (2 F + 64 unless given). Keys are asked for F at a
 * time, `KEYS_MAX` + `blockedMax` in all; keys at their cap do not count, as each has jobs in flight.
 */
import { type Control, classOf, typeOf } from './capacity.ts';
import type { JobTypeConfiguration, PoolConfiguration } from './configuration.ts';
import type { JobMode, ReservedJob, WaitingJob } from './job.ts';
import { type Ask, Raises } from './raises.ts';
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
  /** Of settled attempts; what is in flight comes from the reservations. */
  readonly settledCostMs: number;
  /** Its last start, end of an attempt or raise. */
  readonly touchedAtMs?: number | undefined;
}

/** A key with backlog of a type, as the type's keys line gives it: by settled cost over weight. */
export interface OfferedKey {
  readonly fairnessKey: string;
  /** Absent: it was among the ledgers given at the start, or was never charged. */
  readonly settledCostMs?: number | undefined;
  /** As in `KeyLedger`. Absent: it has no ledger, or was among those. */
  readonly touchedAtMs?: number | undefined;
  /** Of its lines of that type with backlog. */
  readonly modes: readonly JobMode[];
  /** What its place in the keys line says of its settled share, where that trails: keys behind it have at least as much. */
  readonly rankShareMs?: number | undefined;
}

/** What a pass knows when it begins. */
export interface PlannerInput {
  readonly nowMs: number;
  /** Every place of every reservation. */
  readonly inFlight: readonly ReservedJob[];
  /** Slots that nothing holds, net of what is in flight. A fleet that is not named has none. */
  readonly freeSlotsByFleet: ReadonlyMap<string, number>;
  readonly ledgers?: readonly KeyLedger[] | undefined;
  /** What an attempt is expected to cost. */
  readonly costMs: (type: string, resourceId: string | undefined) => number;
  readonly overrides?: readonly Control[] | undefined;
  /** Blocked jobs that the plan may meet; unless given, 2 F + 64. */
  readonly blockedMax?: number | undefined;
  /** So many more for each conflict key that turns out to be held elsewhere; 0 unless given. */
  readonly blockedPerConflict?: number | undefined;
}

/** What the planner wants next. */
export type Step =
  | { readonly kind: 'admit'; readonly decision: Decision }
  /** Read these, offer them, and ask again. Everything asked for must be offered, if only as nothing and no more. */
  | {
      readonly kind: 'need';
      readonly lines: readonly { readonly line: LineName; readonly count: number }[];
      readonly keys: readonly { readonly type: string; readonly count: number }[];
      /** Ledgers of keys that are in flight. */
      readonly ledgers?: readonly string[];
    }
  | {
      readonly kind: 'done';
      /** Jobs that were met and whose conflict key is held. */
      readonly blocked: readonly { readonly job: WaitingJob; readonly conflictKey: string }[];
      /** A bound ended the pass before the backlog did: there may be more to do. */
      readonly truncated: boolean;
    };

export interface Planner {
  /** Keys with backlog of a type, after those offered before; `more`: others follow. */
  offerKeys(type: string, keys: readonly OfferedKey[], more: boolean): void;
  /** Jobs of a line in rank order, after those offered before; `more`: others follow. `known`: all that is known of the line. */
  offerHeads(line: LineName, jobs: readonly WaitingJob[], more: boolean, known?: readonly WaitingJob[]): void;
  /** Ledgers of keys that are in flight; of one that has none, that it was charged nothing. */
  offerLedgers(ledgers: readonly KeyLedger[]): void;
  /** Keys that have arrived or were raised since this was last asked, and what is to be written of them. */
  takeRaised(): readonly KeyLedger[];
  /** Whether a key is at its cap, so that what it was charged does not matter to this plan. */
  isKeyFull(fairnessKey: string): boolean;
  /** Whether as many jobs run, or were admitted, with this conflict key as may. */
  isConflictHeld(conflictKey: string): boolean;
  /** Nothing with this conflict key is admitted by this plan any more: another partition's jobs run with it. */
  closeConflict(conflictKey: string): void;
  /** One more job runs with this conflict key: one in flight that was claimed with another. As many as `room` may. */
  holdConflict(conflictKey: string, room: number): void;
  next(): Step;
  /** The decision's claim was won. */
  confirm(decision: Decision): void;
  /**
   * Its claim was lost: what it held is given back. After more in a row than the pool allows all heads are asked for again: true, and
   * they are to be read from the start of their lines.
   */
  drop(decision: Decision): boolean;
  /** Nothing was done of it: what it held is given back, and its job waits as before, to be chosen again or not. */
  takeBack(decision: Decision): void;
  /** The job of a decision of this plan: the newest image that was offered. */
  jobOf(decision: Decision): WaitingJob;
  /** Heads asked for so far. */
  readonly headsAsked: number;
  /** Slots that this plan may still fill, caps of single types, tiers and keys aside. */
  readonly room: number;
}

/** What is known of a type's keys. */
interface KeysState {
  /** False until keys were offered. */
  read: boolean;
  /** Whether keys that were not offered may have backlog. */
  more: boolean;
  /** No such key has a lesser share. */
  boundShare: number;
}

interface LineState {
  readonly line: LineName;
  readonly number: number;
  readonly key: number;
  readonly class: number;
  asked: number;
}

interface OfferedJob {
  readonly number: number;
  job: WaitingJob;
}

const NONE = -1;
/** Keys of types that a plan looks at. Most of that many stand in front because their lines were used up. */
const KEYS_MAX = 2_000;
/** Lines with jobs that a plan looks at, beside as many as have blocked jobs: keys of one share may be as many as there are. */
const LINES_MAX = 1_000;
/** Keys whose lines are asked for at once, though a slot may be left for one of them only. */
const KEYS_AHEAD_MAX = 100;

export function createPlanner(configuration: PoolConfiguration, input: PlannerInput): Planner {
  return new HeadsPlanner(configuration, input);
}

class HeadsPlanner implements Planner {
  readonly #scheduler: Scheduler;
  readonly #input: PlannerInput;
  readonly #settled: Map<string, number>;
  readonly #priced = new Set<number>();
  /** By type. */
  readonly #keys: readonly KeysState[];
  /** By number, in the order in which they were offered. */
  readonly #lines = new Map<number, LineState>();
  /** Jobs that were in flight when the pass began: a lagging index may still show them. */
  readonly #gone: ReadonlySet<string>;
  /** Jobs that wait, are in the plan, or are lost: of each the newest image that was offered. */
  readonly #offered = new Map<string, OfferedJob>();
  readonly #blocked = new Map<string, string>();
  #firstHeadsLeft: number;
  #keysLeft: number;
  #linesMax: number;
  #blockedLeft: number;
  /** Keys beyond the room whose lines are asked for at once: more each time as long as nothing of them may start. */
  #keysAhead = 0;
  /** Since lines were asked for. */
  #hasAdmitted = true;
  readonly #linesWithJobs = new Set<number>();
  readonly #raises: Raises;
  #raised: KeyLedger[] = [];
  #truncated = false;
  headsAsked = 0;

  constructor(configuration: PoolConfiguration, input: PlannerInput) {
    this.#input = input;
    this.#scheduler = new Scheduler(
      {
        ...configuration,
        // A plan raises shares itself, and whoever keeps the ledgers evicts keys.
        fairness: { ...configuration.fairness, idlePolicy: 'none', keyTtlMs: null, estimateTtlMs: null },
      },
      { overrides: input.overrides, costMs: input.costMs },
    );
    this.#gone = new Set(input.inFlight.map((reserved) => reserved.id));
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
      // Where ranks trail, what was not offered is only known by the last rank, whatever the offered key has by now.
      state.boundShare = Math.max(
        state.boundShare,
        Math.min(settledShare, offered.rankShareMs ?? settledShare),
      );
      if (!this.#scheduler.ledgers.isFull(key)) {
        this.#keysLeft -= 1;
      }
      for (const mode of offered.modes) {
        const line = this.#open({ type, mode, fairnessKey: offered.fairnessKey }, number, key);
        if (line.asked === 0) this.#setMore(line, true);
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
    state.asked = Math.max(state.asked, jobs.length);
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

  takeRaised(): readonly KeyLedger[] {
    const raised = this.#raised;
    this.#raised = [];
    return raised;
  }

  isKeyFull(fairnessKey: string): boolean {
    const { ledgers } = this.#scheduler;
    return ledgers.isFull(this.#scheduler.openKey(fairnessKey, this.#input.nowMs));
  }

  isConflictHeld(conflictKey: string): boolean {
    return this.#scheduler.isConflictHeld(conflictKey);
  }

  closeConflict(conflictKey: string): void {
    this.#blockedLeft += this.#input.blockedPerConflict ?? 0;
    this.#scheduler.closeConflict(conflictKey);
  }

  holdConflict(conflictKey: string, room: number): void {
    this.#blockedLeft += this.#input.blockedPerConflict ?? 0;
    this.#scheduler.holdConflict(conflictKey, room);
  }

  confirm(_decision: Decision): void {
    this.#scheduler.win();
  }

  drop(decision: Decision): boolean {
    if (!this.#scheduler.lose(decision.reserved.id)) return false;
    // What was admitted or lost does not wait any more, and stays as it is.
    for (const [id, { number }] of this.#offered)
      if (this.#scheduler.withdraw(number, id, this.#input.nowMs)) this.#offered.delete(id);
    this.#blocked.clear();
    for (const state of this.#lines.values()) {
      state.asked = 0;
      this.#setMore(state, true);
    }
    this.#firstHeadsLeft = 2 * this.#scheduler.room;
    return true;
  }

  takeBack(decision: Decision): void {
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
    this.#raises.noteStart(scheduler.backlog.keyOf(line));
    this.#blocked.delete(decision.reserved.id);
    return { kind: 'admit', decision };
  }

  #raiseShares(tier: number): Step | undefined {
    const ask: Ask<Step> = {
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
    });
  }

  // Keys of this tier's types that may come before this share, or tie with it, and of every other open type that was
  // never read: one trip instead of one for each.
  #needKeys(tier: number, share: number): Step | undefined {
    const { index } = this.#scheduler;
    const isNext = (state: KeysState, type: number): boolean =>
      index.tierOfType[type] === tier && state.more && state.boundShare <= share && this.#isOpen(type);
    // It is asked before each admission, and mostly none is.
    if (!this.#keys.some(isNext)) return undefined;
    if (this.#keysLeft <= 0 || this.#linesWithJobs.size >= this.#linesMax) {
      this.#truncated = true;
      return undefined;
    }
    const keys = this.#keys.flatMap((state, type) => {
      if (!(isNext(state, type) || (!state.read && this.#isOpen(type)))) return [];
      const ofTier = this.#scheduler.roomOfTier(index.tierOfType[type] as number);
      const { type: name } = index.types[type] as JobTypeConfiguration;
      return [{ type: name, count: Math.min(this.#scheduler.room, ofTier) }];
    });
    return { kind: 'need', lines: [], keys };
  }

  #isOpen(type: number): boolean {
    return (
      this.#scheduler.isTypeOpen(type) &&
      this.#scheduler.isTierOpen(this.#scheduler.index.tierOfType[type] as number)
    );
  }

  // Heads of the unread lines of the keys that come next, as many keys as there is room: each can take one slot at least.
  // Of keys whose lines are empty, or hold only what is blocked, there may be thousands in front: more and more are asked for at once.
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
      // What is behind them would come first.
      this.#truncated = true;
      return this.#done();
    }
    const room = Math.min(this.#scheduler.room, this.#scheduler.roomOfTier(tier));
    const keys = new Set<number>();
    this.#keysAhead = this.#hasAdmitted ? 0 : Math.min(KEYS_AHEAD_MAX, 2 * this.#keysAhead + room);
    this.#hasAdmitted = false;
    const most = room + this.#keysAhead;
    const leastShare = this.#shareOf((unread[0] as LineState).number);
    const chosen = unread.filter((state) => {
      // Of keys that tie, the jobs decide: all of them are needed.
      const ties = keys.size < KEYS_AHEAD_MAX && this.#shareOf(state.number) === leastShare;
      if (keys.size < most || ties) keys.add(state.key);
      return keys.has(state.key);
    });
    const fresh = chosen.filter((state) => state.asked === 0).length;
    const first = Math.max(1, Math.floor(Math.min(2 * room, this.#firstHeadsLeft) / Math.max(1, fresh)));
    const lines = chosen.map((state) => {
      // What is blocked must be read past, but no further than the pass would look.
      const count = state.asked === 0 ? first : Math.min(state.asked, 2 * room + this.#blockedLeft);
      if (state.asked === 0) this.#firstHeadsLeft = Math.max(0, this.#firstHeadsLeft - count);
      state.asked += count;
      this.headsAsked += count;
      return { line: state.line, count };
    });
    return { kind: 'need', lines, keys: [] };
  }

  #done(): Step {
    const blocked = [...this.#blocked].flatMap(([id, conflictKey]) => {
      const { job } = this.#offered.get(id) as OfferedJob;
      // A lost claim may have freed the key since.
      return this.#scheduler.isConflictHeld(conflictKey) ? [{ job, conflictKey }] : [];
    });
    return { kind: 'done', blocked, truncated: this.#truncated };
  }

  #noteBlocked(): void {
    for (const skip of this.#scheduler.skipped) {
      // What was met before the plan began anew may not be offered any more.
      if (skip.kind !== 'job' || this.#blocked.has(skip.id) || !this.#offered.has(skip.id)) continue;
      this.#blocked.set(skip.id, skip.conflictKey);
      this.#blockedLeft -= 1;
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
      if (this.#gone.has(job.id)) continue;
      const known = this.#offered.get(job.id);
      if (known !== undefined) {
        // It stays where it stands. Taken back, it is what it is by now.
        if (job.version > known.job.version) known.job = job;
        continue;
      }
      const number = this.#scheduler.arrive(job, this.#input.nowMs);
      if (number === undefined) continue;
      this.#offered.set(job.id, { number, job });
    }
  }

  // What is in flight was charged when it was held; what is settled comes on top, once.
  #openKey(offered: Pick<OfferedKey, 'fairnessKey' | 'settledCostMs' | 'touchedAtMs'>): number {
    const key = this.#scheduler.openKey(offered.fairnessKey, this.#input.nowMs);
    if (this.#priced.has(key)) return key;
    this.#priced.add(key);
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
    const state: LineState = { line, number, key, class: class_, asked: 0 };
    this.#lines.set(number, state);
    return state;
  }

  #setMore(state: LineState, more: boolean): void {
    this.#scheduler.backlog.setMore(state.key, state.class, more);
  }
}
