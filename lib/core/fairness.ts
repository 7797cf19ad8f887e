/**
 * Fair share: what each fairness key has been charged, and which key goes next. Source: fair-queuing.
 *
 * Symbols, for one key k: c_k its accumulated cost in ms (settled and in flight together), w_k its weight,
 * v_k = c_k / w_k its share. The key with the least v goes next.
 * - Admission charges max(estimate, floor): a mass of tiny jobs is not free.
 * - Settlement replaces the estimate by max(used, floor) (`trueUp`). Once all is settled, c_k is the sum of these.
 * - A pass raises shares before the first start in a tier (`raisesOf`). A key arrives if no job of it is in flight and
 *   its jobs became ready after its last touch: a start, an attempt's end or a raise. Its share is raised to just above
 *   the least v of the others. So a key saves nothing up while it has no jobs, and a new key cannot take all capacity
 *   until it has caught up with the others. Any other key may stay at most `creditMs` below the others, even if it has
 *   used far less than its share.
 * - A reset sets all costs to 0: an earlier charge is not corrected after it.
 *
 * How soon a new key n starts, among keys that could all start. Once it is raised, the least v_k is below v_n, later keys
 * are raised to just above that least v, and v_n stays while n waits. Let f be the least charge, and G_k the sum that
 * corrections give back to k meanwhile, because estimates in flight were too high. k goes before n only while
 * v_k <= v_n, and each time it is charged at least f: at most 1 + G_k / f times for one that was charged less than f
 * below v_n.
 *
 * Exactness. Charges and corrections are whole numbers of 2^-16 ms. A double adds such numbers without rounding up to
 * 2^37 ms: 4.3 years of work of one key without a reset. Division rounds correctly, so two quotients c / w that are
 * equal on paper are the same double. So sums do not depend on the order of settlements, and equal shares compare as
 * equal.
 */
import type { FairnessConfiguration } from './configuration.ts';
import { weightOf } from './score.ts';

/** Costs are multiples of 1 / UNITS_PER_MS ms. It is a power of two, so that sums of costs are exact. */
const UNITS_PER_MS = 65_536;
const UNIT_MS = 1 / UNITS_PER_MS;

/** Rounds a cost to the unit of the ledgers: the nearest multiple of 2^-16 ms. */
export const wholeUnits = (costMs: number): number => costOf(unitsOf(costMs));

/** Converts a cost in ms to a whole number of units. */
export const unitsOf = (costMs: number): number => Math.round(costMs * UNITS_PER_MS);
/** Converts a whole number of units to a cost in ms. */
export const costOf = (units: number): number => units * UNIT_MS;

/** Returns the charge of an admission, in ms, rounded to whole units. */
export function chargeMs(
  estimatedCostMs: number,
  fairness: Pick<FairnessConfiguration, 'admissionFloorMs'>,
): number {
  return wholeUnits(Math.max(estimatedCostMs, fairness.admissionFloorMs));
}

/** When all ledgers were last reset, in epoch ms; -Infinity if they never are. */
export const resetAtMs = (
  { resetEveryMs }: Pick<FairnessConfiguration, 'resetEveryMs'>,
  nowMs: number,
): number => (resetEveryMs === null ? -Infinity : Math.floor(nowMs / resetEveryMs) * resetEveryMs);

/**
 * Returns the amount that settlement adds to a key's cost on top of the charge, negative if the attempt used less than
 * was charged. `usedMs` is undefined for an attempt that never ran, whose charge is given back in full. The result is
 * in whole units if the charge is.
 */
export function correctionMs(
  chargedMs: number,
  usedMs: number | undefined,
  fairness: Pick<FairnessConfiguration, 'admissionFloorMs' | 'trueUp'>,
): number {
  if (usedMs === undefined) return -chargedMs;
  return fairness.trueUp ? chargeMs(usedMs, fairness) - chargedMs : 0;
}

/** A key that could start a job, found by a pass in the order of shares. */
export interface OrderedKey<Key> {
  readonly key: Key;
  readonly shareMs: number;
  readonly weight: number;
  readonly arrives: boolean;
}

/** A key whose share a pass raises, and the cost of the key after that. */
export interface Raise<Key> {
  readonly key: Key;
  readonly costMs: number;
}

/**
 * Whether a key without jobs in flight arrives: its jobs became ready after `touchedAtMs`, its last start, end of an
 * attempt or raise. Undefined: it has no ledger.
 */
export const isArriving = (oldestReadyAtMs: number, touchedAtMs = -Infinity): boolean =>
  oldestReadyAtMs > touchedAtMs;

/**
 * Returns the keys whose shares a pass raises in a tier. The others of a key are the keys in flight and the keys that
 * were met, without those that arrive. If there are no others, no share is raised.
 *
 * @param met - keys in the order of their shares, as far as they were looked at
 * @param heldMs - the least share of the keys in flight, leaving out one key
 * @param isAll - whether no further key has a share up to that
 * @returns undefined if one more key must be met first
 */
export function raisesOf<Key>(
  met: readonly OrderedKey<Key>[],
  heldMs: (butFor: Key | undefined) => number,
  creditMs: number | null,
  isAll: boolean,
): readonly Raise<Key>[] | undefined {
  const first = met.findIndex((each) => !each.arrives);
  const { key: firstKey, shareMs: firstMs = Infinity } = met[first] ?? {};
  if (first === -1 && !isAll) return undefined;
  const heldOthersMs = heldMs(firstKey);
  const second = first === -1 ? undefined : met.find((each, at) => at > first && !each.arrives);
  const mayExceedCredit = creditMs !== null && firstMs < heldOthersMs - creditMs;
  if (mayExceedCredit && second === undefined && !isAll) return undefined;
  const othersMs = Math.min(heldOthersMs, second?.shareMs ?? Infinity);
  // planted: credit-unbounded
  const exceedsCredit = mayExceedCredit && othersMs < Infinity && firstMs < othersMs - creditMs;
  const { weight: firstWeight = 1 } = met[first] ?? {};
  const raisedCostMs = exceedsCredit ? wholeUnits((othersMs - creditMs) * firstWeight) : 0;
  const raisedMs = exceedsCredit ? raisedCostMs / firstWeight : firstMs;
  const leastMs = Math.min(raisedMs, othersMs);
  if (leastMs === Infinity) return [];
  // planted: before-the-first
  const isBefore = (shareMs: number, at: number): boolean =>
    shareMs < leastMs || (shareMs === leastMs && shareMs === raisedMs && at < first);
  const toRaise = met.filter((each, at) => each.arrives && isBefore(each.shareMs, at));
  return [
    ...(exceedsCredit ? [{ key: firstKey as Key, costMs: raisedCostMs }] : []),
    // A raised key gets a share just above the least, so the key that has the least goes first, and a stream of new
    // keys never delays it.
    // planted: level-with-the-least
    ...toRaise.map(({ key, weight }) => ({ key, costMs: wholeUnits(leastMs * weight) + UNIT_MS })),
  ];
}

// The columns of a key. There are eight per key, one of them unused, because eight doubles fill one cache line of the
// processor: a decision reads all columns of a few keys, seldom the same keys twice.
const WIDTH = 8;
const SHARE = 0;
const COST = 1;
const WEIGHT = 2;
const WAITING = 3;
const RUNNING = 4;
const CAP = 5;
const LAST_SEEN = 6;

const INACTIVE = -1;

/** One key's ledger, as `list` returns it. */
export interface KeyCost {
  readonly fairnessKey: string;
  readonly costMs: number;
  readonly weight: number;
  readonly waiting: number;
  readonly running: number;
}

/** The ledgers of all keys. Each key is a number. Operations take O(log keys); `evict` and `reset` take O(keys). */
export class Ledgers {
  readonly #fairness: FairnessConfiguration;
  readonly #numbers = new Map<string, number>();
  readonly #free: number[] = [];
  readonly #names: (string | undefined)[] = [];
  #cells: Float64Array = new Float64Array(16 * WIDTH);
  /** Incremented by each reset. A charge of an earlier generation is not corrected at its settlement. */
  generation = 0;

  // The active keys as a heap by v_k. A stored share may be older, and hence lower, than the key's: see `leastShareMs`.
  #active: Int32Array = new Int32Array(16);
  #activeShare: Float64Array = new Float64Array(16);
  #activePosition: Int32Array = new Int32Array(16).fill(INACTIVE);
  #activeCount = 0;

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
  }

  /** Returns the key's number; undefined for a key without a ledger. */
  find(fairnessKey: string): number | undefined {
    return this.#numbers.get(fairnessKey);
  }

  /** Returns the key's number. A key without a ledger gets one with cost 0. */
  open(fairnessKey: string, nowMs: number): number {
    const known = this.#numbers.get(fairnessKey);
    if (known !== undefined) return known;
    const key = this.#free.pop() ?? this.#names.length;
    if (key * WIDTH === this.#cells.length) this.#grow();
    this.#numbers.set(fairnessKey, key);
    this.#names[key] = fairnessKey;
    const at = key * WIDTH;
    this.#cells.fill(0, at, at + WIDTH);
    this.#cells[at + WEIGHT] = weightOf(this.#fairness.weights, this.#fairness.defaultWeight, fairnessKey);
    this.#cells[at + CAP] = this.#fairness.maxConcurrencyPerKey ?? Number.POSITIVE_INFINITY;
    this.#cells[at + LAST_SEEN] = nowMs;
    return key;
  }

  nameOf(key: number): string {
    return this.#names[key] ?? '';
  }

  /** Returns the key's share, v_k. */
  shareOf(key: number): number {
    return this.#cells[key * WIDTH + SHARE] as number;
  }

  costOf(key: number): number {
    return this.#cells[key * WIDTH + COST] as number;
  }

  weightOf(key: number): number {
    return this.#cells[key * WIDTH + WEIGHT] as number;
  }

  /** Sets a key's cost to the value in its stored ledger. */
  setCost(key: number, costMs: number): void {
    // Costs that come from outside need not be whole units.
    this.#cells[key * WIDTH + COST] = wholeUnits(costMs);
    this.#costChanged(key);
  }

  /** Sets the weight of an operator's override. */
  setWeight(key: number, weight: number): void {
    this.#cells[key * WIDTH + WEIGHT] = weight;
    this.#costChanged(key);
  }

  /** Sets the cap of an operator's override. */
  setCap(key: number, cap: number): void {
    this.#cells[key * WIDTH + CAP] = cap;
  }

  capOf(key: number): number {
    return this.#cells[key * WIDTH + CAP] as number;
  }

  runningOf(key: number): number {
    return this.#cells[key * WIDTH + RUNNING] as number;
  }

  /** Whether the key runs as many jobs as its cap allows. */
  isFull(key: number): boolean {
    const at = key * WIDTH;
    return (this.#cells[at + RUNNING] as number) >= (this.#cells[at + CAP] as number);
  }

  /**
   * Called when a job arrives. If the key had no jobs, the idle policy may raise its share first, unless `stays` says
   * that one of its jobs only moved.
   */
  arrive(key: number, nowMs: number, stays = false): void {
    const becomesActive = this.#positionOf(key) === INACTIVE;
    if (becomesActive && !stays && this.#fairness.idlePolicy === 'advance') {
      const leastMs = wholeUnits((this.leastShareMs() ?? 0) * this.weightOf(key));
      this.#cells[key * WIDTH + COST] = Math.max(this.costOf(key), leastMs);
      this.#updateShare(key);
    }
    this.#add(key, WAITING, 1);
    this.#noteSeen(key, nowMs);
    if (becomesActive) this.#activate(key);
  }

  /** Called when a waiting job is withdrawn. */
  leave(key: number, nowMs: number): void {
    this.#add(key, WAITING, -1);
    this.#noteSeen(key, nowMs);
    this.#deactivateIfIdle(key);
  }

  /** Called when a waiting job is admitted; the key is charged. */
  admit(key: number, chargedMs: number, nowMs: number): void {
    this.#add(key, WAITING, -1);
    this.#charge(key, chargedMs, nowMs);
  }

  /** Counts a job that runs already, such as one of an earlier pass, and its charge. */
  hold(key: number, chargedMs: number, nowMs: number): void {
    this.#charge(key, chargedMs, nowMs);
    if (this.#positionOf(key) === INACTIVE) this.#activate(key);
  }

  /**
   * Called when a running job has ended. `usedMs` is undefined if it never ran. `generation` is that of the ledgers
   * when it was charged.
   */
  settle(
    key: number,
    chargedMs: number,
    usedMs: number | undefined,
    generation: number,
    nowMs: number,
  ): void {
    this.#add(key, RUNNING, -1);
    this.#noteSeen(key, nowMs);
    if (generation === this.generation) {
      const correction = correctionMs(chargedMs, usedMs, this.#fairness);
      this.#cells[key * WIDTH + COST] = Math.max(0, this.costOf(key) + correction);
      this.#costChanged(key);
    }
    this.#deactivateIfIdle(key);
  }

  /** Returns the least share among keys with waiting or running jobs; undefined if there are none. */
  leastShareMs(): number | undefined {
    while (this.#activeCount > 0) {
      const key = this.#active[0] as number;
      const share = this.shareOf(key);
      if (share === this.#activeShare[0]) return share;
      this.#siftDown(0, key, share);
    }
    return undefined;
  }

  /** The number of keys with waiting or running jobs. */
  get activeKeys(): number {
    return this.#activeCount;
  }

  /** Deletes the ledgers of keys that have been idle for `keyTtlMs`. Returns their numbers, which may be used again. */
  evict(nowMs: number): readonly number[] {
    const ttlMs = this.#fairness.keyTtlMs;
    const evicted: number[] = [];
    if (ttlMs === null) return evicted;
    for (const [name, key] of this.#numbers) {
      if (
        this.#positionOf(key) !== INACTIVE ||
        nowMs - (this.#cells[key * WIDTH + LAST_SEEN] as number) < ttlMs
      )
        continue;
      this.#numbers.delete(name);
      this.#names[key] = undefined;
      this.#free.push(key);
      evicted.push(key);
    }
    return evicted;
  }

  /** Sets all costs to 0. */
  reset(): void {
    this.generation += 1;
    for (let at = 0; at < this.#cells.length; at += WIDTH) {
      this.#cells[at + COST] = 0;
      this.#cells[at + SHARE] = 0;
    }
    // With equal shares any order is a heap.
    this.#activeShare.fill(0);
  }

  /** Returns every ledger, sorted by key. */
  list(): readonly KeyCost[] {
    return [...this.#numbers]
      .map(([fairnessKey, key]) => ({
        fairnessKey,
        costMs: this.costOf(key),
        weight: this.weightOf(key),
        waiting: this.#cells[key * WIDTH + WAITING] as number,
        running: this.#cells[key * WIDTH + RUNNING] as number,
      }))
      .sort((a, b) => (a.fairnessKey < b.fairnessKey ? -1 : 1));
  }

  #noteSeen(key: number, nowMs: number): void {
    const at = key * WIDTH + LAST_SEEN;
    if (nowMs > (this.#cells[at] as number)) this.#cells[at] = nowMs;
  }

  #charge(key: number, chargedMs: number, nowMs: number): void {
    this.#add(key, RUNNING, 1);
    this.#add(key, COST, chargedMs);
    this.#updateShare(key);
    this.#noteSeen(key, nowMs);
  }

  #updateShare(key: number): void {
    this.#cells[key * WIDTH + SHARE] = this.costOf(key) / this.weightOf(key);
  }

  #costChanged(key: number): void {
    this.#updateShare(key);
    const position = this.#positionOf(key);
    if (position === INACTIVE) return;
    const share = this.shareOf(key);
    // A share that rises is noticed when its key becomes first; one that falls must move up in the heap now.
    if (share < (this.#activeShare[position] as number)) this.#siftUp(position, key, share);
  }

  #activate(key: number): void {
    this.#activeCount += 1;
    this.#siftUp(this.#activeCount - 1, key, this.shareOf(key));
  }

  #deactivateIfIdle(key: number): void {
    const at = key * WIDTH;
    if ((this.#cells[at + WAITING] as number) > 0 || (this.#cells[at + RUNNING] as number) > 0) return;
    const position = this.#positionOf(key);
    this.#activePosition[key] = INACTIVE;
    this.#activeCount -= 1;
    const last = this.#activeCount;
    if (position === last) return;
    const moved = this.#active[last] as number;
    const share = this.#activeShare[last] as number;
    this.#siftDown(position, moved, share);
    this.#siftUp(this.#positionOf(moved), moved, share);
  }

  #siftUp(from: number, key: number, share: number): void {
    let position = from;
    while (position > 0) {
      const parent = (position - 1) >> 1;
      if ((this.#activeShare[parent] as number) <= share) break;
      this.#putActive(position, this.#active[parent] as number, this.#activeShare[parent] as number);
      position = parent;
    }
    this.#putActive(position, key, share);
  }

  #siftDown(from: number, key: number, share: number): void {
    let position = from;
    for (;;) {
      let child = 2 * position + 1;
      if (child >= this.#activeCount) break;
      const right = child + 1;
      if (
        right < this.#activeCount &&
        (this.#activeShare[right] as number) < (this.#activeShare[child] as number)
      ) {
        child = right;
      }
      if ((this.#activeShare[child] as number) >= share) break;
      this.#putActive(position, this.#active[child] as number, this.#activeShare[child] as number);
      position = child;
    }
    this.#putActive(position, key, share);
  }

  #putActive(position: number, key: number, share: number): void {
    this.#active[position] = key;
    this.#activeShare[position] = share;
    this.#activePosition[key] = position;
  }

  #positionOf(key: number): number {
    return this.#activePosition[key] as number;
  }

  #add(key: number, cell: number, amount: number): void {
    const at = key * WIDTH + cell;
    this.#cells[at] = (this.#cells[at] as number) + amount;
  }

  #grow(): void {
    this.#cells = widenFloats(this.#cells, this.#cells.length * 2);
    this.#active = widenInts(this.#active, this.#active.length * 2, 0);
    this.#activeShare = widenFloats(this.#activeShare, this.#activeShare.length * 2);
    this.#activePosition = widenInts(this.#activePosition, this.#activePosition.length * 2, INACTIVE);
  }
}

/** Returns a longer copy of a column. */
export function widenFloats(column: Float64Array, size: number): Float64Array {
  const wider = new Float64Array(size);
  wider.set(column);
  return wider;
}

/** Returns a longer copy of a column, with the new cells filled. */
export function widenInts(column: Int32Array, size: number, fill: number): Int32Array {
  const wider = new Int32Array(size).fill(fill);
  wider.set(column);
  return wider;
}
