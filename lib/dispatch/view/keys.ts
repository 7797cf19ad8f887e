/** Keys with backlog in one partition, type by type, in their turn: as far as the view knows them, and page by page beyond. */
import type { PoolConfiguration } from '../../core/configuration.ts';
import type { JobMode } from '../../core/job.ts';
import type { Planner } from '../../core/planner.ts';
import type { ReadyLine } from '../../store/contract/lines.ts';
import type { KeyBacklog } from '../../store/contract/records.ts';
import type { JobStore } from '../../store/contract/verbs.ts';
import { LOOK_AROUND_MS, PAGE_MAX, SHOWN_MS } from '../tuning.ts';
import type { LedgerCache } from './ledger-cache.ts';
import { type Keys, noKeys, type View, withKeys, withKeysOf, withLines } from './view.ts';

export interface KeysInput {
  readonly partition: number;
  /** Tells which keys have a weight of their own. */
  readonly ledgerCache: Pick<LedgerCache, 'weighted'>;
  readonly view: View;
  /** Whether a key belongs to this partition. */
  readonly livesHere: (of: { readonly fairnessKey: string }) => boolean;
  readonly nowMs: number;
}

/** What keys are offered by. */
export interface KeyShares {
  /** Reads what is needed to tell them of these keys. */
  readonly read: (fairnessKeys: readonly string[]) => Promise<void>;
  /** What a key was charged, over its weight. */
  readonly of: (key: KeyBacklog) => number;
  /** The least that a key behind this rank can have. */
  readonly behind: (rankCostMs: number) => number;
}

export function keyShares(
  ledgerCache: Pick<LedgerCache, 'isKnown' | 'ledgerOf' | 'readLedgers' | 'weightOf'>,
  planner: Pick<Planner, 'isKeyFull'>,
  { defaultWeight, resetEveryMs }: PoolConfiguration['fairness'],
): KeyShares {
  return {
    read: (keys) =>
      ledgerCache.readLedgers(keys.filter((key) => !(ledgerCache.isKnown(key) || planner.isKeyFull(key)))),
    of: ({ fairnessKey }) =>
      (ledgerCache.ledgerOf(fairnessKey)?.settledCostMs ?? 0) / ledgerCache.weightOf(fairnessKey),
    // After a reset, ranks say what keys were charged before it.
    behind: (rankCostMs) => (resetEveryMs === null ? rankCostMs / defaultWeight : 0),
  };
}

/** A key, and what its place says of the shares of keys that were not offered: its own share when it was met, or nothing. */
export interface WaitingKey {
  readonly key: KeyBacklog;
  readonly share: number;
}

/** How far the keys of a type were offered in this pass. */
interface Turn {
  /** By fairness key: the modes of its lines. What a hint told of a key may be less than its place in the keys line says. */
  readonly met: Map<string, readonly JobMode[]>;
  /** All of these were met. */
  metOf: Keys['keys'] | undefined;
  /** Met and not offered. */
  waiting: readonly WaitingKey[];
}

export class BackloggedKeys {
  readonly #store: Pick<JobStore, 'readKeys' | 'readBacklogs'>;
  readonly #input: KeysInput;
  /** By type. */
  readonly #turns = new Map<string, Turn>();
  /** Whether this pass has read a keys line. */
  hasRead = false;
  /** Keys that were met here, and live in another partition. */
  readonly strangers: { readonly type: string; readonly key: KeyBacklog }[] = [];

  constructor(store: Pick<JobStore, 'readKeys' | 'readBacklogs'>, input: KeysInput) {
    this.#store = store;
    this.#input = input;
  }

  /**
   * The next keys of a type, those of the least shares first. Their line is in the order of their ranks, which trail: a key that was
   * charged since it got its rank stands in front of others whose turn is sooner. So the line is read on until enough keys have a
   * share that no key behind can have less of. Before all of that come the keys that hints tell of, whatever their shares: a plan looks at so
   * many keys and no more, and most that stand in front may have nothing.
   */
  async inTurn(
    type: string,
    count: number,
    shares: KeyShares,
  ): Promise<{ readonly keys: readonly WaitingKey[]; readonly more: boolean }> {
    const turn: Turn = this.#turns.get(type) ?? { met: new Map(), metOf: undefined, waiting: [] };
    const isFirst = !this.#turns.has(type);
    const told = new Set(isFirst ? toldOf(this.#input.view, type).map(({ job }) => job.fairnessKey) : []);
    this.#turns.set(type, turn);
    let known = await this.#known(type, isFirst);
    for (;;) {
      await this.#meet(turn, known, shares);
      const { waiting } = turn;
      const isWhole = known.next === undefined;
      const behind = shares.behind(known.behindCostMs);
      let given = 0;
      while (given < Math.min(count, waiting.length) && (isWhole || (waiting[given]?.share ?? 0) <= behind))
        given += 1;
      if (given === count || isWhole) {
        const behindThem = Map.groupBy(waiting.slice(given), ({ key }) => told.has(key.fairnessKey));
        turn.waiting = behindThem.get(false) ?? [];
        // Their shares say nothing of the keys between.
        const sooner = (behindThem.get(true) ?? []).map(({ key }) => ({ key, share: 0 }));
        return { keys: [...waiting.slice(0, given), ...sooner], more: turn.waiting.length > 0 || !isWhole };
      }
      known = await this.#readOn(type, known);
    }
  }

  /** When a line was announced last, as far as that was read; Infinity: it was not. */
  announcedAtMs({ type, fairnessKey }: ReadyLine): number {
    return this.#input.view.keys.get(type)?.keys.get(fairnessKey)?.announcedAtMs ?? Infinity;
  }

  /** What is known of a type's keys. Within a pass, what was read stays. */
  async #known(type: string, isFirst: boolean): Promise<Keys> {
    const { view, nowMs } = this.#input;
    const known = view.keys.get(type);
    const isTrusted = known !== undefined && (!isFirst || nowMs - known.readAtMs < LOOK_AROUND_MS);
    return isTrusted ? this.#withNamed(type, known, []) : this.#readOn(type, undefined);
  }

  /** With one more page. */
  async #readOn(type: string, before: Keys | undefined): Promise<Keys> {
    const { partition, nowMs, view, livesHere } = this.#input;
    // The further a line is read, the more of it at once.
    const limit = Math.max(PAGE_MAX, before?.keys.size ?? 0);
    const read = await this.#store.readKeys({ partition, type, limit, after: before?.next });
    this.hasRead = true;
    const known = before ?? withKeysOf(noKeys(nowMs), toldOf(view, type));
    const keys = new Map(known.keys);
    for (const key of read.keys) {
      const { fairnessKey } = key;
      const present = keys.get(fairnessKey);
      if (livesHere(key)) keys.set(fairnessKey, present === undefined ? key : withLines(present, key));
      else this.strangers.push({ type, key });
    }
    const behindCostMs = read.keys.at(-1)?.rankCostMs ?? known.behindCostMs;
    // planted: moved-back
    const moved = before === undefined ? [] : view.movedBackSince(before.readAtMs - SHOWN_MS);
    // planted: first-page-of-keys
    const { next } = read;
    return this.#withNamed(type, { ...known, keys, behindCostMs, next }, moved);
  }

  /**
   * With those that may come first wherever they stand: keys that have a weight of their own, and those that have moved to the front since the
   * index showed the first page. A first page that is all of the line has shown them.
   */
  async #withNamed(type: string, known: Keys, moved: readonly string[]): Promise<Keys> {
    const { partition, view, ledgerCache, livesHere } = this.#input;
    const { keys, named } = known;
    const fairnessKeys = [...new Set([...ledgerCache.weighted, ...moved])].filter(
      // Of a key that was told of only, there may be more lines.
      (key) => !named.has(key) && (keys.get(key)?.announcedAtMs ?? Infinity) === Infinity,
    );
    let whole = known;
    if (fairnessKeys.length > 0 && (known.next !== undefined || moved.length > 0)) {
      const read = await this.#store.readBacklogs({ partition, type, fairnessKeys });
      const found = read.filter((key) => key !== undefined).filter(livesHere);
      whole = { ...withKeys(known, found), named: new Set([...named, ...fairnessKeys]) };
    }
    view.keys.set(type, whole);
    return whole;
  }

  async #meet(turn: Turn, { keys }: Keys, shares: KeyShares): Promise<void> {
    // Of ten thousand, a plan that asks for the next hundred looks through none again.
    if (turn.metOf === keys) return;
    turn.metOf = keys;
    const fresh = [...keys.values()].filter(({ fairnessKey, lines }) => {
      const modes = turn.met.get(fairnessKey);
      return modes === undefined || lines.some(({ mode }) => !modes.includes(mode));
    });
    if (fresh.length === 0) return;
    for (const { fairnessKey, lines } of fresh)
      turn.met.set(fairnessKey, [...(turn.met.get(fairnessKey) ?? []), ...lines.map(({ mode }) => mode)]);
    await shares.read(fresh.map(({ fairnessKey }) => fairnessKey));
    const met = fresh.map((key) => ({ key, share: shares.of(key) }));
    turn.waiting = [...turn.waiting, ...met].sort((one, other) => one.share - other.share);
  }
}

/** Jobs of a type that hints told of. */
const toldOf = (view: View, type: string) => [...view.told.all()].filter(({ job }) => job.type === type);
