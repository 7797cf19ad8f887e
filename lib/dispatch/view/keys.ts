/**
 * Reads the keys with backlog of a partition for the candidates, by type and in the order of their shares. It uses the keys that
 * the view knows, and reads more of the keys line when the planner asks for more.
 */
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
  /** Gives the keys that have a weight of their own. */
  readonly ledgerCache: Pick<LedgerCache, 'weighted'>;
  readonly view: View;
  /** Whether a key belongs to this partition. */
  readonly livesHere: (of: { readonly fairnessKey: string }) => boolean;
  readonly nowMs: number;
}

/** The shares by which keys are ordered. */
export interface KeyShares {
  /** Reads the ledgers that the shares of these keys need. */
  readonly read: (fairnessKeys: readonly string[]) => Promise<void>;
  /** Returns a key's charged cost, divided by its weight. */
  readonly of: (key: KeyBacklog) => number;
  /** Returns the least share that a key behind this rank can have. */
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
    // With resets, the ranks in a keys line may still show the costs from before the last one, so they bound no share.
    behind: (rankCostMs) => (resetEveryMs === null ? rankCostMs / defaultWeight : 0),
  };
}

/**
 * A key to offer, with a lower bound for the shares of the keys that are offered after it: its own share, or 0, which
 * bounds nothing.
 */
export interface WaitingKey {
  readonly key: KeyBacklog;
  readonly share: number;
}

/** How many keys of one type were offered in this pass, and which were read. */
interface KeyProgress {
  /** By fairness key: the modes of its ready lines that are known. A hint may name fewer modes than the keys line lists. */
  readonly knownModes: Map<string, readonly JobMode[]>;
  /** The last set of keys that was added completely. */
  addedFrom: Keys['keys'] | undefined;
  /** Keys that were read and not yet offered, by share. */
  waiting: readonly WaitingKey[];
}

export class BackloggedKeys {
  readonly #store: Pick<JobStore, 'readKeys' | 'readBacklogs'>;
  readonly #input: KeysInput;
  /** Progress by type. */
  readonly #progress = new Map<string, KeyProgress>();
  /** Whether this pass has read a keys line. */
  hasRead = false;
  /** Keys that were found here and belong to another partition. */
  readonly strangers: { readonly type: string; readonly key: KeyBacklog }[] = [];

  constructor(store: Pick<JobStore, 'readKeys' | 'readBacklogs'>, input: KeysInput) {
    this.#store = store;
    this.#input = input;
  }

  /**
   * Returns the next keys of a type, least shares first. The keys line is in rank order, and ranks lag: a key that was
   * charged since then stands before keys that should come sooner. So the line is read on until enough keys have a
   * share that no unread key can be below. The first answer also has all keys from hints, even those with larger
   * shares: a plan looks at a bounded number of keys, and most keys at the front may have no jobs left.
   */
  async next(
    type: string,
    count: number,
    shares: KeyShares,
  ): Promise<{ readonly keys: readonly WaitingKey[]; readonly more: boolean }> {
    const progress: KeyProgress = this.#progress.get(type) ?? {
      knownModes: new Map(),
      addedFrom: undefined,
      waiting: [],
    };
    const isFirst = !this.#progress.has(type);
    const told = new Set(isFirst ? reportedOf(this.#input.view, type).map(({ job }) => job.fairnessKey) : []);
    this.#progress.set(type, progress);
    let known = await this.#known(type, isFirst);
    for (;;) {
      await this.#addKeys(progress, known, shares);
      const { waiting } = progress;
      const isWhole = known.next === undefined;
      const behind = shares.behind(known.behindCostMs);
      let given = 0;
      while (given < Math.min(count, waiting.length) && (isWhole || (waiting[given]?.share ?? 0) <= behind))
        given += 1;
      if (given === count || isWhole) {
        const behindThem = Map.groupBy(waiting.slice(given), ({ key }) => told.has(key.fairnessKey));
        progress.waiting = behindThem.get(false) ?? [];
        // Keys from hints and lookups stand anywhere in the order, so their shares are no bound for the unread keys.
        const sooner = (behindThem.get(true) ?? []).map(({ key }) => ({ key, share: 0 }));
        return {
          keys: [...waiting.slice(0, given), ...sooner],
          more: progress.waiting.length > 0 || !isWhole,
        };
      }
      known = await this.#readOn(type, known);
    }
  }

  /** Returns when a line was last announced, epoch ms, as far as it was read. Infinity: that is unknown. */
  announcedAtMs({ type, fairnessKey }: ReadyLine): number {
    return this.#input.view.keys.get(type)?.keys.get(fairnessKey)?.announcedAtMs ?? Infinity;
  }

  /** Returns the known keys of a type. Within a pass they are not read again. */
  async #known(type: string, isFirst: boolean): Promise<Keys> {
    const { view, nowMs } = this.#input;
    const known = view.keys.get(type);
    const isTrusted = known !== undefined && (!isFirst || nowMs - known.readAtMs < LOOK_AROUND_MS);
    return isTrusted ? this.#withLookedUp(type, known, []) : this.#readOn(type, undefined);
  }

  /** Reads the next part of the keys line. */
  async #readOn(type: string, before: Keys | undefined): Promise<Keys> {
    const { partition, nowMs, view, livesHere } = this.#input;
    // Each read asks for as many keys as all reads before it together.
    const limit = Math.max(PAGE_MAX, before?.keys.size ?? 0);
    const read = await this.#store.readKeys({ partition, type, limit, after: before?.next });
    this.hasRead = true;
    const known = before ?? withKeysOf(noKeys(nowMs), reportedOf(view, type));
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
    return this.#withLookedUp(type, { ...known, keys, behindCostMs, next }, moved);
  }

  /**
   * Adds keys that may come first wherever they stand in the line: those with a weight of their own, and those that moved to the
   * front after the index showed the first part. If the first part was the whole line, it has shown them.
   */
  async #withLookedUp(type: string, known: Keys, moved: readonly string[]): Promise<Keys> {
    const { partition, view, ledgerCache, livesHere } = this.#input;
    const { keys, named } = known;
    const fairnessKeys = [...new Set([...ledgerCache.weighted, ...moved])].filter(
      // A key known only from a hint may have more lines.
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

  async #addKeys(progress: KeyProgress, { keys }: Keys, shares: KeyShares): Promise<void> {
    // With ten thousand keys, a plan that asks for the next hundred must not go through all again.
    if (progress.addedFrom === keys) return;
    progress.addedFrom = keys;
    const fresh = [...keys.values()].filter(({ fairnessKey, lines }) => {
      const modes = progress.knownModes.get(fairnessKey);
      return modes === undefined || lines.some(({ mode }) => !modes.includes(mode));
    });
    if (fresh.length === 0) return;
    for (const { fairnessKey, lines } of fresh)
      progress.knownModes.set(fairnessKey, [
        ...(progress.knownModes.get(fairnessKey) ?? []),
        ...lines.map(({ mode }) => mode),
      ]);
    await shares.read(fresh.map(({ fairnessKey }) => fairnessKey));
    const added = fresh.map((key) => ({ key, share: shares.of(key) }));
    progress.waiting = [...progress.waiting, ...added].sort((one, other) => one.share - other.share);
  }
}

/** Returns the jobs of a type that hints have reported. */
const reportedOf = (view: View, type: string) =>
  [...view.reported.all()].filter(({ job }) => job.type === type);
