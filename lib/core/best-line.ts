/**
 * Chooses the line whose head is admitted next in a tier, from the heaps of `backlog.ts`. The candidates are the lines
 * of the first key in the tier's heap, compared by the scores of their heads, and the first line in the heap of each
 * open class.
 */
import type { Backlog } from './backlog.ts';
import { type Fleets, type Gate, type Gates, type PoolIndex, type Skips, typeOf } from './capacity.ts';
import type { ScoreCoefficients } from './configuration.ts';
import type { Conflicts } from './conflict.ts';
import type { Ledgers } from './fairness.ts';
import { NONE } from './job-table.ts';
import type { LimitGates } from './limits.ts';
import { rarityBonus } from './score.ts';

/** The state that the choice of the next line depends on. */
export interface BestLineParts {
  readonly index: PoolIndex;
  readonly coefficients: ScoreCoefficients;
  readonly gates: Gates;
  readonly fleets: Fleets;
  readonly limits: LimitGates;
  readonly ledgers: Ledgers;
  readonly backlog: Backlog;
  readonly conflicts: Conflicts;
  readonly skips: Skips;
  /** False: skipped tiers, types, keys and jobs are not recorded. */
  readonly explains: boolean;
  readonly isKeyPaused: (fairnessKey: string) => boolean;
  /** Whether a conflict key of a limit has no room left. */
  readonly isLimitHeld: (conflict: number) => boolean;
}

export class BestLine {
  readonly #index: PoolIndex;
  readonly #coefficients: ScoreCoefficients;
  readonly #tiers: readonly Gate[];
  readonly #types: readonly Gate[];
  readonly #fleets: Fleets;
  readonly #limits: LimitGates;
  readonly #ledgers: Ledgers;
  readonly #backlog: Backlog;
  readonly #conflicts: Conflicts;
  readonly #skips: Skips;
  readonly #explains: boolean;
  readonly #isKeyPaused: (fairnessKey: string) => boolean;
  readonly #isLimitHeld: (conflict: number) => boolean;
  /** By type: free slots when the pass began. */
  readonly #freeSlots: Float64Array;
  readonly #rarity: Float64Array;
  /**
   * By class (a job type and a mode): the part of the score that is now the same for all jobs of the class, in
   * thousandths of a point. A job's score is this minus its rank (`score.ts`).
   */
  readonly #points: Float64Array;
  /** The open classes of the tier that was looked at last: a class is open if another job of its type may start. */
  readonly #openClasses: Int32Array;
  #openCount = 0;

  constructor(parts: BestLineParts) {
    this.#index = parts.index;
    this.#coefficients = parts.coefficients;
    this.#tiers = parts.gates.tiers;
    this.#types = parts.gates.types;
    this.#fleets = parts.fleets;
    this.#limits = parts.limits;
    this.#ledgers = parts.ledgers;
    this.#backlog = parts.backlog;
    this.#conflicts = parts.conflicts;
    this.#skips = parts.skips;
    this.#explains = parts.explains;
    this.#isKeyPaused = parts.isKeyPaused;
    this.#isLimitHeld = parts.isLimitHeld;
    this.#freeSlots = new Float64Array(parts.index.types.length);
    this.#rarity = new Float64Array(parts.index.types.length);
    this.#points = new Float64Array(parts.index.classes);
    this.#openClasses = new Int32Array(parts.index.classes);
  }

  /** Begins a pass: ages are taken at `nowMs`, rarity from the slots that are free now. */
  beginPass(nowMs: number): void {
    const { ageSec, onDemand, onDemandAgeSec } = this.#coefficients;
    for (let type = 0; type < this.#rarity.length; type += 1) {
      const free = this.#fleets.roomOfType(type);
      if (free !== this.#freeSlots[type]) {
        this.#freeSlots[type] = free;
        this.#rarity[type] = rarityBonus(free, this.#coefficients) * 1000;
      }
      const points = this.#rarity[type] as number;
      this.#points[2 * type] = points + ageSec * nowMs;
      // planted: on-demand-behind
      this.#points[2 * type + 1] = points + (ageSec + onDemandAgeSec) * nowMs + onDemand * 1000;
    }
  }

  /** Returns how many free slots could run the type when the pass began; 0 for -1, a type that is not configured. */
  compatibleSlots(type: number): number {
    return this.#freeSlots[type] ?? 0;
  }

  /** Returns the points that a type's jobs have for rarity in this pass. */
  rarityOf(type: number): number {
    return (this.#rarity[type] as number) / 1000;
  }

  /** Whether a tier's cap and pause let another job start. */
  isTierOpen(tier: number): boolean {
    const gate = this.#tiers[tier] as Gate;
    return !gate.paused && gate.running < gate.cap;
  }

  /** Whether a type's cap, its pause, its limits and the free slots let another job start. */
  isTypeOpen(type: number): boolean {
    const gate = this.#types[type] as Gate;
    if (gate.paused || gate.running >= gate.cap || this.#fleets.roomOfType(type) <= 0) return false;
    return this.#limits.isEmpty || this.#limits.isTypeOpen(type);
  }

  /**
   * Returns the line whose head a tier admits next; -1: no job of the tier may start. A line whose head is not read
   * wins every tie.
   */
  of(tier: number): number {
    if (!this.isTierOpen(tier)) {
      if (this.#explains) this.#skips.addTier(tier, this.#tiers[tier] as Gate);
      return NONE;
    }
    const classes = this.#index.classesOfTier[tier] as Int32Array;
    let open = 0;
    // The two classes of a type are neighbours: queued, then on demand.
    for (let index = 0; index < classes.length; index += 2) {
      const class_ = classes[index] as number;
      if (this.isTypeOpen(typeOf(class_))) {
        this.#openClasses[open] = class_;
        this.#openClasses[open + 1] = class_ + 1;
        open += 2;
      } else if (this.#explains) {
        const type = typeOf(class_);
        this.#skips.addType(type, this.#types[type] as Gate, !this.#limits.isTypeOpen(type));
      }
    }
    this.#openCount = open;
    // No type of the tier may start a job now. No key is looked at, so none moves to the class heaps (`backlog.ts`).
    if (open === 0) return NONE;
    if (this.#backlog.hasClassHeapLines(tier)) {
      for (let index = 0; index < open; index += 1) {
        this.#backlog.returnRisenKeys(this.#openClasses[index] as number);
      }
    }
    const ofFirstKey = this.#bestOfFirstKey(tier);
    return this.#backlog.hasClassHeapLines(tier) ? this.#bestWithClassHeaps(ofFirstKey) : ofFirstKey;
  }

  // Returns the best of `ofFirstKey` (the best line of the first key in the tier's heap, -1 if there is none) and the
  // first lines in the heaps of the open classes.
  #bestWithClassHeaps(ofFirstKey: number): number {
    let best = ofFirstKey;
    let bestShare =
      best === NONE ? Number.POSITIVE_INFINITY : this.#ledgers.shareOf(this.#backlog.keyOf(best));
    for (let index = 0; index < this.#openCount; index += 1) {
      const line = this.#bestOfClassHeap(this.#openClasses[index] as number);
      if (line === NONE) continue;
      const share = this.#ledgers.shareOf(this.#backlog.keyOf(line));
      if (share < bestShare || (share === bestShare && this.#isHeadBetter(line, best))) {
        best = line;
        bestShare = share;
      }
    }
    return best;
  }

  // Returns the best line of the first key in the tier's heap; -1: no key in the heap may start a job. Keys that cannot
  // run leave the heap, and keys with equal shares move to the class heaps.
  #bestOfFirstKey(tier: number): number {
    for (;;) {
      const key = this.#backlog.firstKey(tier);
      if (key === NONE) return NONE;
      if (this.#ledgers.isFull(key)) {
        this.#backlog.removeFirstKey(tier);
        if (this.#explains) this.#skipKey(key);
        continue;
      }
      const line = this.#bestOfKey(key);
      if (line !== NONE && !this.#backlog.isFirstKeyTied(tier)) return line;
      if (this.#backlog.hasLines(key, tier)) this.#backlog.moveToClassHeaps(tier);
      else this.#backlog.removeFirstKey(tier);
    }
  }

  // Returns the key's line whose head has the most points; -1: no head of the key may start. A line whose head is
  // unread wins. The limits and the conflict key of a head are checked only if that head would win.
  #bestOfKey(key: number): number {
    const open = this.#openClasses;
    for (;;) {
      let best = NONE;
      let bestPoints = 0;
      for (let index = 0; index < this.#openCount; index += 1) {
        const class_ = open[index] as number;
        const line = this.#backlog.lineOf(key, class_);
        const headRank = this.#backlog.headRank(line);
        if (headRank === Number.POSITIVE_INFINITY) continue;
        const points = (this.#points[class_] as number) - headRank;
        if (
          best === NONE ||
          points > bestPoints ||
          (points === bestPoints && this.#isHeadOlder(line, best))
        ) {
          best = line;
          bestPoints = points;
        }
      }
      if (best === NONE || !(this.#closeBounded(best) || this.#blockHeads(best))) return best;
    }
  }

  // Returns the first line in the heap of a class whose key is below its cap and whose head's conflict key is free; -1:
  // there is none.
  #bestOfClassHeap(class_: number): number {
    for (;;) {
      const line = this.#backlog.firstOfClassHeap(class_);
      if (line === NONE) return NONE;
      const key = this.#backlog.keyOf(line);
      if (this.#ledgers.isFull(key)) {
        this.#backlog.removeFromClassHeap(line);
        if (this.#explains) this.#skipKey(key);
        continue;
      }
      if (!(this.#closeBounded(line) || this.#blockHeads(line))) return line;
    }
  }

  // Closes a line if its key is at a bound that a limit sets for each key. Returns whether it did.
  #closeBounded(line: number): boolean {
    if (this.#limits.isEmpty) return false;
    const fairnessKey = this.#ledgers.nameOf(this.#backlog.keyOf(line));
    if (this.#limits.isKeyOpen(typeOf(this.#backlog.classOf(line)), fairnessKey)) return false;
    if (this.#explains) this.#skips.addKey(fairnessKey, 'limit');
    const number = this.#backlog.head(line);
    this.#backlog.close(line);
    if (number !== NONE) this.#wakeFor(number, NONE);
    return true;
  }

  // Takes the heads of a line out of it while a conflict key of theirs is held. Returns whether there were any.
  #blockHeads(line: number): boolean {
    let hasBlocked = false;
    for (;;) {
      const conflict = this.#heldConflict(line);
      if (conflict === NONE) return hasBlocked;
      const number = this.#backlog.head(line);
      if (this.#explains) this.#skipJob(number, conflict);
      this.#backlog.block(line, conflict);
      // planted: woken-and-parked-again
      this.#wakeFor(number, conflict);
      hasBlocked = true;
    }
  }

  // The first conflict key of a line's head that is held, or -1.
  #heldConflict(line: number): number {
    const conflict = this.#backlog.headConflict(line);
    if (conflict !== NONE && this.#conflicts.isHeld(conflict)) return conflict;
    if (this.#limits.isEmpty || !this.#limits.hasOtherKeys(typeOf(this.#backlog.classOf(line)))) return NONE;
    const number = this.#backlog.head(line);
    if (number === NONE) return NONE;
    return this.#backlog.jobs.limitConflictsOf(number).find((each) => this.#isLimitHeld(each)) ?? NONE;
  }

  // A job that cannot start was perhaps the only one that was woken for one of its conflict keys that have room.
  #wakeFor(number: number, held: number): void {
    const { jobs } = this.#backlog;
    const own = jobs.conflictOf(number);
    if (own !== NONE && own !== held && !this.#conflicts.isHeld(own)) this.#backlog.wakeAll(own);
    for (const each of jobs.limitConflictsOf(number))
      if (each !== held && !this.#isLimitHeld(each)) this.#backlog.wakeAll(each);
  }

  #isHeadBetter(a: number, b: number): boolean {
    const pointsA = this.#pointsOf(a);
    const pointsB = this.#pointsOf(b);
    return pointsA > pointsB || (pointsA === pointsB && this.#isHeadOlder(a, b));
  }

  #pointsOf(line: number): number {
    return (this.#points[this.#backlog.classOf(line)] as number) - this.#backlog.headRank(line);
  }

  #isHeadOlder(a: number, b: number): boolean {
    const headA = this.#backlog.head(a);
    const headB = this.#backlog.head(b);
    // Heads that tie are either both read or both unread, because no read job has an unread head's rank.
    return headA !== NONE && this.#backlog.jobs.isOlder(headA, headB);
  }

  #skipKey(key: number): void {
    const fairnessKey = this.#ledgers.nameOf(key);
    this.#skips.addKey(fairnessKey, this.#isKeyPaused(fairnessKey) ? 'paused' : 'cap');
  }

  #skipJob(number: number, conflict: number): void {
    this.#skips.addJob(this.#backlog.jobs.idOf(number), this.#conflicts.nameOf(conflict));
  }
}
