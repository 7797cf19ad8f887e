/**
 * Raises the shares of keys before the first job of a tier starts. `raisesOf` in `fairness.ts` decides which shares.
 * Keys are met in the order of their shares, so only keys that would start a job first are looked at. Only jobs that
 * may start now count.
 */
import { typeOf } from './capacity.ts';
import type { FairnessConfiguration } from './configuration.ts';
import { arrives, type KeyInTurn, type Raise, raisesOf } from './fairness.ts';
import type { ReservedJob, WaitingJob } from './job.ts';
import { NONE } from './job-table.ts';
import type { Scheduler } from './scheduler.ts';

const NOBODY = Number.POSITIVE_INFINITY;

/**
 * The keys of a tier that were met. Until the raises are decided, each has an infinite share, so that the next key is
 * found.
 */
interface Turns {
  readonly met: (KeyInTurn<number> & { readonly costMs: number })[];
  /** The two least shares of keys in flight, the least first. */
  held?: readonly { readonly key: number; readonly shareMs: number }[];
  isOver: boolean;
}

/** Requests for data that is missing before the next key can be met. */
export interface Ask<Need> {
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
export const ASK_NOTHING: Ask<never> = {
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
  readonly #held: ReadonlySet<number>;
  /** By key with a ledger: its last touch. */
  readonly #touched = new Map<number, number>();
  /** By line: its known jobs. */
  readonly #jobsOf = new Map<number, readonly WaitingJob[]>();
  /** By tier. */
  readonly #turns: readonly Turns[];

  constructor(
    scheduler: Scheduler,
    { idlePolicy, creditMs }: Pick<FairnessConfiguration, 'idlePolicy' | 'creditMs'>,
    inFlight: readonly Pick<ReservedJob, 'fairnessKey'>[],
    nowMs: number,
  ) {
    this.#scheduler = scheduler;
    this.#creditMs = creditMs;
    this.#nowMs = nowMs;
    this.#held = new Set(inFlight.map(({ fairnessKey }) => scheduler.openKey(fairnessKey, nowMs)));
    this.#turns = scheduler.index.tiers.map(() => ({ met: [], isOver: idlePolicy === 'none' }));
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
    return (this.#turns[tier] as Turns).isOver;
  }

  /**
   * Meets keys until the raises of the tier are decided, then calls `raised` for each raised key, and for each key that
   * arrives without a raise. Returns a request if data is missing first.
   */
  raise<Need>(tier: number, ask: Ask<Need>, raised: (key: number, moreMs: number) => void): Need | undefined {
    const { backlog, ledgers } = this.#scheduler;
    const turns = this.#turns[tier] as Turns;
    const { met } = turns;
    const heldMs = (butFor: number | undefined): number =>
      turns.held?.find(({ key }) => key !== butFor)?.shareMs ?? NOBODY;
    while (!turns.isOver) {
      const line = this.#scheduler.best(tier);
      const shareMs = line === NONE ? NOBODY : ledgers.shareOf(backlog.keyOf(line));
      const mostMs = heldMs(met.find((each) => !each.arrives)?.key);
      const keys = ask.keys(Math.min(shareMs, mostMs));
      if (keys !== undefined) return keys;
      if (turns.held === undefined && shareMs < NOBODY && !backlog.isUnread(line)) {
        // The costs of keys in flight are requested only if some job may start.
        const ledgers = ask.ledgers();
        if (ledgers !== undefined) return ledgers;
        turns.held = this.#leastHeld();
        continue;
      }
      const isAll = ask.isCut() || shareMs === NOBODY || shareMs > mostMs;
      const raises = raisesOf(met, heldMs, this.#creditMs, isAll);
      if (raises !== undefined) {
        this.#end(turns, raises, raised);
      } else if (backlog.isUnread(line)) {
        const heads = ask.heads();
        if (heads !== undefined) return heads;
        this.#end(turns, [], raised);
      } else {
        const key = backlog.keyOf(line);
        met.push({
          key,
          shareMs,
          weight: ledgers.weightOf(key),
          costMs: ledgers.costOf(key),
          arrives: this.#arrives(key, tier),
        });
        this.#scheduler.setCost(key, NOBODY);
      }
    }
    return undefined;
  }

  #end(turns: Turns, raises: readonly Raise<number>[], raised: (key: number, moreMs: number) => void): void {
    turns.isOver = true;
    const raisedMs = new Map(raises.map(({ key, costMs }) => [key, costMs]));
    let isFirst = true;
    for (const { key, costMs, arrives: isArriving } of turns.met) {
      this.#scheduler.setCost(key, raisedMs.get(key) ?? costMs);
      // Arriving keys that come before all present ones have arrived even if they are not raised, so that later charges
      // do not make them arrive again.
      isFirst &&= isArriving;
      if (!isFirst && !raisedMs.has(key)) continue;
      this.noteTouch(key, this.#nowMs);
      raised(key, this.#scheduler.ledgers.costOf(key) - costMs);
    }
  }

  #leastHeld(): NonNullable<Turns['held']> {
    return Array.from(this.#held, (key) => ({ key, shareMs: this.#scheduler.ledgers.shareOf(key) }))
      .sort((one, other) => one.shareMs - other.shareMs)
      .slice(0, 2);
  }

  // The key's oldest job need not be at the head of its line.
  #arrives(key: number, tier: number): boolean {
    if (this.#held.has(key)) return false;
    const { backlog, index } = this.#scheduler;
    let oldestMs = NOBODY;
    for (const class_ of index.classesOfTier[tier] as Int32Array) {
      if (!this.#scheduler.isTypeOpen(typeOf(class_))) continue;
      // planted: arrives-by-any
      for (const job of this.#jobsOf.get(backlog.lineOf(key, class_)) ?? [])
        if (job.readyAtMs < oldestMs && !this.#isBlocked(typeOf(class_), job)) oldestMs = job.readyAtMs;
    }
    return arrives(oldestMs, this.#touched.get(key));
  }

  #isBlocked(type: number, { resourceId }: WaitingJob): boolean {
    const rule = this.#scheduler.index.conflictRules[type];
    if (rule === undefined || resourceId === undefined) return false;
    return this.#scheduler.isConflictHeld(rule.prefix + resourceId);
  }
}
