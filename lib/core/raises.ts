/**
 * Raises the shares of keys before the first job of a tier starts. `raisesOf` in `fairness.ts` decides which shares.
 * Keys are looked at in the order of their shares, and no further than to those that would start a job first. A job
 * counts only if it may start now.
 */
import { typeOf } from './capacity.ts';
import type { FairnessConfiguration } from './configuration.ts';
import { isArriving, type OrderedKey, type Raise, raisesOf } from './fairness.ts';
import type { ReservedJob, WaitingJob } from './job.ts';
import { NONE } from './job-table.ts';
import type { Scheduler } from './scheduler.ts';

const INFINITE = Number.POSITIVE_INFINITY;

/**
 * The keys of a tier that were looked at. Until the raises are decided, each has an infinite share, so that the next
 * key is found.
 */
interface TierRaises {
  readonly met: (OrderedKey<number> & { readonly costMs: number })[];
  /** The two least shares of keys in flight, the least first. */
  leastInFlight?: readonly { readonly key: number; readonly shareMs: number }[];
  isOver: boolean;
}

/** Called for a raised key, with the cost that it gets more. Returns a function that takes back what it has done. */
type Raised = (key: number, moreMs: number) => () => void;

/** Requests for data that is missing before the next key can be looked at. */
export interface DataRequests<Need> {
  /** The settled costs of keys in flight; undefined: they are known. */
  readonly ledgers: () => Need | undefined;
  /** Keys that may have this share or less; undefined: there are no others. */
  readonly keys: (shareMs: number) => Need | undefined;
  /** Heads of unread lines; undefined: a bound ends the search. */
  readonly heads: () => Need | undefined;
  /** Whether a bound has ended the search for keys. */
  readonly isCut: () => boolean;
}

/** Requests nothing: for a scheduler that already has all jobs. */
export const NO_REQUESTS: DataRequests<never> = {
  ledgers: () => undefined,
  keys: () => undefined,
  heads: () => undefined,
  isCut: () => false,
};

export class Raises {
  readonly #scheduler: Scheduler;
  readonly #creditMs: number | null;
  readonly #nowMs: number;
  /** Keys with jobs in flight when the pass began. */
  readonly #inFlightKeys: ReadonlySet<number>;
  /** By key with a ledger: the time of its last start, end of an attempt or raise. */
  readonly #touched = new Map<number, number>();
  /** By line: its known jobs. */
  readonly #jobsOf = new Map<number, readonly WaitingJob[]>();
  /** By tier: the keys that were looked at, and the raises that were decided. */
  readonly #tiers: readonly TierRaises[];
  /** What starts and raises have changed here since `keep`, as functions that take it back. */
  #undos: (() => void)[] = [];
  #keptCount = 0;

  constructor(
    scheduler: Scheduler,
    { idlePolicy, creditMs }: Pick<FairnessConfiguration, 'idlePolicy' | 'creditMs'>,
    inFlight: readonly Pick<ReservedJob, 'fairnessKey'>[],
    nowMs: number,
  ) {
    this.#scheduler = scheduler;
    this.#creditMs = creditMs;
    this.#nowMs = nowMs;
    this.#inFlightKeys = new Set(inFlight.map(({ fairnessKey }) => scheduler.openKey(fairnessKey, nowMs)));
    this.#tiers = scheduler.index.tiers.map(() => ({ met: [], isOver: idlePolicy === 'none' }));
  }

  noteTouch(key: number, touchedAtMs: number | undefined): void {
    if (touchedAtMs !== undefined) this.#touched.set(key, touchedAtMs);
  }

  /** Records that a job of the key starts in this pass. Returns a mark, by which that may be taken back. */
  noteStart(key: number): number {
    const mark = this.#keptCount + this.#undos.length;
    this.#touch(key);
    return mark;
  }

  /** Takes back the start that has this mark, with the starts and raises after it, which assumed it. */
  takeBack(mark: number): void {
    while (this.#undos.length > 0 && this.#keptCount + this.#undos.length > mark) this.#undos.pop()?.();
  }

  /** Called when the starts and raises up to now are written: they are not taken back any more. */
  keep(): void {
    this.#keptCount += this.#undos.length;
    this.#undos = [];
  }

  #touch(key: number): void {
    const before = this.#touched.get(key);
    this.#undos.push(() => {
      if (before === undefined) this.#touched.delete(key);
      else this.#touched.set(key, before);
    });
    this.#touched.set(key, this.#nowMs);
  }

  /** Records the known jobs of a line, including those that the scheduler was not given. */
  noteJobs(line: number, jobs: readonly WaitingJob[]): void {
    this.#jobsOf.set(line, jobs);
  }

  /** Whether the raises of a tier are done. */
  isOver(tier: number): boolean {
    return (this.#tiers[tier] as TierRaises).isOver;
  }

  /**
   * Looks at keys until the raises of the tier are decided. Then it calls `raised` for each raised key, and for each
   * key that arrives without a raise. Returns a request if data is missing first.
   *
   * @param raised - returns a function that takes back what it has done
   */
  raise<Need>(tier: number, ask: DataRequests<Need>, raised: Raised): Need | undefined {
    const { backlog, ledgers } = this.#scheduler;
    const state = this.#tiers[tier] as TierRaises;
    const { met } = state;
    const heldMs = (butFor: number | undefined): number =>
      state.leastInFlight?.find(({ key }) => key !== butFor)?.shareMs ?? INFINITE;
    while (!state.isOver) {
      const line = this.#scheduler.best(tier);
      const shareMs = line === NONE ? INFINITE : ledgers.shareOf(backlog.keyOf(line));
      const mostMs = heldMs(met.find((each) => !each.arrives)?.key);
      const keys = ask.keys(Math.min(shareMs, mostMs));
      if (keys !== undefined) return keys;
      if (state.leastInFlight === undefined && shareMs < INFINITE && !backlog.isUnread(line)) {
        // The costs of keys in flight are requested only if some job may start.
        const ledgers = ask.ledgers();
        if (ledgers !== undefined) return ledgers;
        state.leastInFlight = this.#leastInFlight();
        continue;
      }
      const isAll = ask.isCut() || shareMs === INFINITE || shareMs > mostMs;
      const raises = raisesOf(met, heldMs, this.#creditMs, isAll);
      if (raises !== undefined) {
        this.#end(state, raises, raised);
      } else if (backlog.isUnread(line)) {
        const heads = ask.heads();
        if (heads !== undefined) return heads;
        this.#end(state, [], raised);
      } else {
        const key = backlog.keyOf(line);
        met.push({
          key,
          shareMs,
          weight: ledgers.weightOf(key),
          costMs: ledgers.costOf(key),
          arrives: this.#arrives(key, tier),
        });
        this.#scheduler.setCost(key, INFINITE);
      }
    }
    return undefined;
  }

  #end(state: TierRaises, raises: readonly Raise<number>[], raised: Raised): void {
    state.isOver = true;
    this.#undos.push(() => {
      state.isOver = false;
      state.met.length = 0;
      delete state.leastInFlight;
    });
    const raisedCosts = new Map(raises.map(({ key, costMs }) => [key, costMs]));
    let isFirst = true;
    for (const { key, costMs, arrives: isArriving } of state.met) {
      this.#scheduler.setCost(key, raisedCosts.get(key) ?? costMs);
      // An arriving key with a share below all present keys counts as arrived without a raise. Otherwise it would
      // arrive again in a later pass and be raised to shares that have grown meanwhile.
      isFirst &&= isArriving;
      if (!isFirst && !raisedCosts.has(key)) continue;
      this.#touch(key);
      const moreMs = this.#scheduler.ledgers.costOf(key) - costMs;
      const undo = raised(key, moreMs);
      this.#undos.push(() => {
        this.#scheduler.setCost(key, this.#scheduler.ledgers.costOf(key) - moreMs);
        undo();
      });
    }
  }

  #leastInFlight(): NonNullable<TierRaises['leastInFlight']> {
    return Array.from(this.#inFlightKeys, (key) => ({ key, shareMs: this.#scheduler.ledgers.shareOf(key) }))
      .sort((one, other) => one.shareMs - other.shareMs)
      .slice(0, 2);
  }

  // Whether the key arrives in the tier. Its oldest job need not be at the head of its line.
  #arrives(key: number, tier: number): boolean {
    if (this.#inFlightKeys.has(key)) return false;
    const { backlog, index, ledgers } = this.#scheduler;
    let oldestMs = INFINITE;
    for (const class_ of index.classesOfTier[tier] as Int32Array) {
      if (!this.#scheduler.isTypeOpen(typeOf(class_))) continue;
      if (!this.#scheduler.limits.isKeyOpen(typeOf(class_), ledgers.nameOf(key))) continue;
      // planted: arrives-by-any
      for (const job of this.#jobsOf.get(backlog.lineOf(key, class_)) ?? [])
        if (job.readyAtMs < oldestMs && !this.#scheduler.isBlocked(typeOf(class_), job))
          oldestMs = job.readyAtMs;
    }
    return isArriving(oldestMs, this.#touched.get(key));
  }
}
