/**
 * Raises the shares of keys before the first job of a tier starts. `raisesOf` in `fairness.ts` decides which shares.
 * Keys are looked at in the order of their shares, so only keys that would start a job first are. Only jobs that may
 * start now count.
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

/** For a scheduler that already has all jobs. */
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
  /** By tier. */
  readonly #tiers: readonly TierRaises[];

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

  /** Records that a job of the key starts in this pass. */
  noteStart(key: number): void {
    this.noteTouch(key, this.#nowMs);
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
   */
  raise<Need>(
    tier: number,
    ask: DataRequests<Need>,
    raised: (key: number, moreMs: number) => void,
  ): Need | undefined {
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

  #end(
    state: TierRaises,
    raises: readonly Raise<number>[],
    raised: (key: number, moreMs: number) => void,
  ): void {
    state.isOver = true;
    const raisedCosts = new Map(raises.map(({ key, costMs }) => [key, costMs]));
    let isFirst = true;
    for (const { key, costMs, arrives: isArriving } of state.met) {
      this.#scheduler.setCost(key, raisedCosts.get(key) ?? costMs);
      // An arriving key with a share below all present keys counts as arrived without a raise. Otherwise it would
      // arrive again in a later pass and be raised to shares that have grown meanwhile.
      isFirst &&= isArriving;
      if (!isFirst && !raisedCosts.has(key)) continue;
      this.noteTouch(key, this.#nowMs);
      raised(key, this.#scheduler.ledgers.costOf(key) - costMs);
    }
  }

  #leastInFlight(): NonNullable<TierRaises['leastInFlight']> {
    return Array.from(this.#inFlightKeys, (key) => ({ key, shareMs: this.#scheduler.ledgers.shareOf(key) }))
      .sort((one, other) => one.shareMs - other.shareMs)
      .slice(0, 2);
  }

  // The key's oldest job need not be at the head of its line.
  #arrives(key: number, tier: number): boolean {
    if (this.#inFlightKeys.has(key)) return false;
    const { backlog, index } = this.#scheduler;
    let oldestMs = INFINITE;
    for (const class_ of index.classesOfTier[tier] as Int32Array) {
      if (!this.#scheduler.isTypeOpen(typeOf(class_))) continue;
      // planted: arrives-by-any
      for (const job of this.#jobsOf.get(backlog.lineOf(key, class_)) ?? [])
        if (job.readyAtMs < oldestMs && !this.#isBlocked(typeOf(class_), job)) oldestMs = job.readyAtMs;
    }
    return isArriving(oldestMs, this.#touched.get(key));
  }

  #isBlocked(type: number, { resourceId }: WaitingJob): boolean {
    const rule = this.#scheduler.index.conflictRules[type];
    if (rule === undefined || resourceId === undefined) return false;
    return this.#scheduler.isConflictHeld(rule.prefix + resourceId);
  }
}
