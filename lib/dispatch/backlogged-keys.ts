/** Keys with backlog in one partition, type by type: as far as earlier passes have read them, and page by page beyond. */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { JobMode } from '../core/job.ts';
import type { Planner } from '../core/planner.ts';
import type { JobStore } from '../store/contract.ts';
import type { KeyBacklog } from '../store/records.ts';
import type { LedgerCache } from './ledger-cache.ts';
import {
  type CachedKey,
  type CachedKeys,
  type CachedLines,
  READ_TRUSTED_MS,
  RECENT_MS,
} from './partition-cache.ts';

/** Keys read at once: where there are fewer, their order among each other needs no index. */
export const KEYS_MIN = 100;

export interface BackloggedKeysInput {
  readonly partition: number;
  /** Tells which keys have a weight of their own. */
  readonly ledgerCache: Pick<LedgerCache, 'weighted'>;
  /** What this process has read of the lines before. */
  readonly cached: CachedLines;
  /** Whether a key belongs to this partition. */
  readonly livesHere: (of: { readonly fairnessKey: string }) => boolean;
  readonly nowMs: number;
}

/** What keys are offered by. */
export interface KeyShares {
  /** Reads what is needed to tell them of these keys. */
  readonly read: (fairnessKeys: readonly string[]) => Promise<void>;
  /** What a key was charged, over its weight. */
  readonly of: (key: CachedKey) => number;
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

/** A key, and its share when it was met. */
export interface BackloggedKey {
  readonly key: CachedKey;
  readonly share: number;
}

/** How far the keys of a type were offered in this pass. */
interface Turn {
  /** By fairness key: the modes of its lines. What a hint told of a key may be less than its place in the keys line says. */
  readonly met: Map<string, readonly JobMode[]>;
  /** All of these were met. */
  metOf: readonly CachedKey[] | undefined;
  /** Met and not offered. */
  waiting: readonly BackloggedKey[];
}

export class BackloggedKeys {
  readonly #store: Pick<JobStore, 'readKeys' | 'readBacklogs'>;
  readonly #input: BackloggedKeysInput;
  /** By type, then by fairness key. */
  readonly #backlogs = new Map<string, Map<string, CachedKey>>();
  /** By type. */
  readonly #turns = new Map<string, Turn>();
  /** Types whose keys line this pass has read itself. */
  readonly #read = new Set<string>();
  /** Keys that were met here, and live in another partition. */
  readonly strangers: { readonly type: string; readonly key: KeyBacklog }[] = [];

  constructor(store: Pick<JobStore, 'readKeys' | 'readBacklogs'>, input: BackloggedKeysInput) {
    this.#store = store;
    this.#input = input;
  }

  /** Whether this pass has read the keys line of the type itself, or of any type. */
  hasRead(type?: string): boolean {
    return type === undefined ? this.#read.size > 0 : this.#read.has(type);
  }

  /** What is known of a key's backlog of a type. */
  of(type: string, fairnessKey: string): CachedKey | undefined {
    return this.#backlogs.get(type)?.get(fairnessKey);
  }

  /** Keys of a type as far as they are remembered, or with one more page of its line. */
  async upTo(type: string, after: number): Promise<CachedKeys> {
    const { partition, nowMs, cached } = this.#input;
    const found = cached.keys.get(type);
    // Within a pass, and from one to the next while the line is being read, what was read stays.
    const isTrusted = found !== undefined && nowMs - found.readAtMs < READ_TRUSTED_MS;
    const known = isTrusted || after > 0 ? found : undefined;
    if (known !== undefined && (known.keys.length > after || known.next === undefined)) return known;
    // The further a line is read, the more of it at once.
    const count = Math.max(KEYS_MIN, known?.keys.length ?? 0);
    const [read, moved] = await Promise.all([
      this.#store.readKeys({ partition, type, limit: count, after: known?.next }),
      // planted: moved-back
      known === undefined ? [] : this.#movedBack(type, known),
    ]);
    this.#read.add(type);
    const own: KeyBacklog[] = [];
    const named = new Set(moved.map(({ fairnessKey }) => fairnessKey));
    for (const key of read.keys) {
      if (!this.#input.livesHere(key)) this.strangers.push({ type, key });
      else if (!named.has(key.fairnessKey)) own.push(key);
    }
    const keys = {
      readAtMs: known?.readAtMs ?? nowMs,
      keys: [...(known?.keys ?? []), ...moved, ...own],
      told: known?.told,
      // planted: first-page-of-keys
      next: read.next,
    };
    cached.keys.set(type, keys);
    for (const key of [...moved, ...read.keys]) this.note(type, key);
    return keys;
  }

  /** Whether keys of the type were offered in this pass. */
  isBegun(type: string): boolean {
    return this.#turns.has(type);
  }

  /**
   * The next keys of a type, those of the least shares first. Their line is in the order of their ranks, which trail: a key that was
   * charged since it got its rank stands in front of others whose turn is sooner. So the line is read on until enough keys have a
   * share that no key behind can have less of.
   */
  async inTurn(
    type: string,
    count: number,
    shares: KeyShares,
  ): Promise<{ readonly keys: readonly BackloggedKey[]; readonly more: boolean }> {
    const turn: Turn = this.#turns.get(type) ?? { met: new Map(), metOf: undefined, waiting: [] };
    this.#turns.set(type, turn);
    let known = await this.upTo(type, 0);
    for (;;) {
      await this.#meet(turn, known, shares);
      const { waiting } = turn;
      const isWhole = known.next === undefined;
      const last = known.keys.at(-1);
      const behind = last === undefined ? 0 : shares.behind(last.rankCostMs);
      let given = 0;
      while (given < Math.min(count, waiting.length) && (isWhole || (waiting[given]?.share ?? 0) <= behind))
        given += 1;
      if (given === count || isWhole) {
        turn.waiting = waiting.slice(given);
        return { keys: waiting.slice(0, given), more: turn.waiting.length > 0 || !isWhole };
      }
      known = await this.upTo(type, known.keys.length);
    }
  }

  async #meet(turn: Turn, { keys }: CachedKeys, shares: KeyShares): Promise<void> {
    // Of ten thousand, whoever asks for the next hundred looks through none again.
    if (turn.metOf === keys) return;
    turn.metOf = keys;
    const fresh = keys.filter(({ fairnessKey, lines }) => {
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

  /** Keys with backlog of the type that have moved to the front of its keys line since its first page was read. */
  async #movedBack(type: string, known: CachedKeys): Promise<readonly KeyBacklog[]> {
    const { partition, cached, livesHere } = this.#input;
    if (cached.movedBack.size === 0) return [];
    const met = new Set(known.keys.map(({ fairnessKey }) => fairnessKey));
    const fairnessKeys = [...cached.movedBack].flatMap(([fairnessKey, atMs]) =>
      atMs + RECENT_MS >= known.readAtMs && !met.has(fairnessKey) ? [fairnessKey] : [],
    );
    if (fairnessKeys.length === 0) return [];
    const read = await this.#store.readBacklogs({ partition, type, fairnessKeys });
    // Where they stand now says nothing of the keys behind those that were read.
    return read.flatMap((key) => (key === undefined || !livesHere(key) ? [] : [{ ...key, rankCostMs: 0 }]));
  }

  /** Those of the keys that have a weight of their own which have backlog of the type: they may come first, wherever they stand. */
  async weighted(type: string): Promise<readonly KeyBacklog[]> {
    const { partition, nowMs, ledgerCache, cached } = this.#input;
    const { weighted } = ledgerCache;
    if (weighted.length === 0) return [];
    const known = cached.named.get(type);
    const isKnown = known !== undefined && weighted.every((key) => known.names.has(key));
    if (isKnown && nowMs - known.readAtMs < READ_TRUSTED_MS) return known.keys;
    const read = await this.#store.readBacklogs({ partition, type, fairnessKeys: weighted });
    const keys = read.filter((key) => key !== undefined).filter(this.#input.livesHere);
    cached.named.set(type, { readAtMs: nowMs, names: new Set(weighted), keys });
    return keys;
  }

  /** What was read of a key is not forgotten for what hints told of it. */
  note(type: string, key: CachedKey): void {
    const ofType = this.#backlogs.get(type) ?? new Map<string, CachedKey>();
    this.#backlogs.set(type, ofType);
    if (key.isHinted !== true || !ofType.has(key.fairnessKey)) ofType.set(key.fairnessKey, key);
  }
}
