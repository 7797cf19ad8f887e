/** Keys that may have jobs waiting, and are charged less than what is in flight: those among which a search for the least share looks. */
import type { JobHead } from '../store/job-fields.ts';
import type { KeyBacklog } from '../store/records.ts';
import type { DispatchContext } from './context.ts';
import type { LedgerCache } from './ledger-cache.ts';
import type { CachedKey, CachedKeys } from './partition-cache.ts';

/**
 * Keys that are met of each type, to find those; of more, those behind count as if they had jobs. More than a partition is meant for:
 * where keys stand in front that belong behind, all of them are met.
 */
const MET_MAX = 20_000;

export interface KeysBelowInput {
  readonly ledgerCache: Pick<LedgerCache, 'readLedgers'>;
  /** More than `after` keys of a type, in the order of their line, or all there are. */
  readonly keysOf: (type: string, after: number) => Promise<CachedKeys>;
  /** The backlog of keys with a weight of their own. */
  readonly namedOf: (type: string) => Promise<readonly KeyBacklog[]>;
  /** Jobs that hints have told of. */
  readonly recentJobs: () => Iterable<JobHead>;
  readonly isInFlight: (fairnessKey: string) => boolean;
  /** What a key was charged, over its weight. Within a pass it does not become less. */
  readonly shareOf: (fairnessKey: string) => number;
}

type MetKey = Pick<CachedKey, 'fairnessKey' | 'lines' | 'parked' | 'announcedAtMs' | 'isHinted'> & {
  readonly rankCostMs?: number | undefined;
};

/** A key that may have jobs of a type waiting. */
export type Met = MetKey & { readonly type: string };

/** With its share when it was met. */
export type MetShare = Met & { readonly shareMs: number };

interface KeysPage {
  readonly type: string;
  readonly keys: readonly MetKey[];
}

/** What a search is told of one page of each type. */
export interface BelowPage {
  readonly hasKeys: boolean;
  /** The one of the least share first. */
  readonly below: readonly MetShare[];
}

/** How far a search is. */
export interface LeastSoFar {
  /** Keys of this share or more are not looked for. */
  leastMs: number;
  /** A bound ended the search. */
  isCutShort: boolean;
}

export class KeysBelow {
  readonly #configuration: DispatchContext['configuration'];
  readonly #input: KeysBelowInput;
  /** Of keys that were met, those that are charged less than all that is in flight. Of ten thousand, most are not. */
  readonly #belowHeld = new Map<readonly MetKey[], readonly MetKey[]>();

  constructor({ configuration }: Pick<DispatchContext, 'configuration'>, input: KeysBelowInput) {
    this.#configuration = configuration;
    this.#input = input;
  }

  /**
   * Page by page, keys that are charged less than the least share that was found so far, but for these.
   *
   * @param heldMs - the least share of what is in flight
   */
  async *search(heldMs: number, search: LeastSoFar, except: ReadonlySet<string>): AsyncGenerator<BelowPage> {
    for await (const pages of this.#pages(search)) {
      await this.#input.ledgerCache.readLedgers(this.#unmet(pages));
      const below: MetShare[] = [];
      for (const { type, keys } of pages) {
        for (const key of this.#belowHeldOf(keys, heldMs)) {
          const shareMs = this.#input.shareOf(key.fairnessKey);
          if (shareMs < search.leastMs && !except.has(key.fairnessKey)) below.push({ ...key, type, shareMs });
        }
      }
      below.sort((one, other) => one.shareMs - other.shareMs);
      yield { hasKeys: pages.some(({ keys }) => keys.length > 0), below };
    }
  }

  #belowHeldOf(keys: readonly MetKey[], heldMs: number): readonly MetKey[] {
    let below = this.#belowHeld.get(keys);
    if (below === undefined) {
      const { isInFlight, shareOf } = this.#input;
      below = keys.filter(({ fairnessKey }) => !isInFlight(fairnessKey) && shareOf(fairnessKey) < heldMs);
      this.#belowHeld.set(keys, below);
    }
    return below;
  }

  /** Keys that no search of this pass has met. */
  *#unmet(pages: readonly KeysPage[]): Generator<string> {
    for (const { keys } of pages)
      if (!this.#belowHeld.has(keys)) for (const { fairnessKey } of keys) yield fairnessKey;
  }

  /** Keys that hints told of and the first of each type's keys line, then what follows as long as it may be below the least. */
  async *#pages(search: LeastSoFar): AsyncGenerator<readonly KeysPage[]> {
    const { types, fairness } = this.#configuration;
    // Ranks never say more than was charged; after a reset they say nothing.
    const isBehind = (key: KeyBacklog | undefined): boolean =>
      key === undefined ||
      (fairness.resetEveryMs === null && key.rankCostMs / fairness.defaultWeight >= search.leastMs);
    const hinted = Array.from(
      Map.groupBy(this.#input.recentJobs(), ({ type }) => type),
      ([type, jobs]) => ({
        type,
        keys: jobs.map(({ mode, fairnessKey }) => ({
          fairnessKey,
          lines: [{ mode }],
          isHinted: true,
          announcedAtMs: 0,
        })),
      }),
    );
    const firsts = await Promise.all(
      types.map(async ({ type }) => {
        const [named, line] = await Promise.all([this.#input.namedOf(type), this.#input.keysOf(type, 0)]);
        return { type, named, line };
      }),
    );
    yield [
      ...hinted,
      ...firsts.flatMap(({ type, named, line }) => [named, line.keys].map((keys) => ({ type, keys }))),
    ];
    let lines = firsts.map(({ type, line }) => ({ type, line }));
    for (;;) {
      const unread = lines.filter(({ line }) => line.next !== undefined && !isBehind(line.keys.at(-1)));
      const goOn = unread.filter(({ line }) => line.keys.length < MET_MAX);
      search.isCutShort ||= goOn.length < unread.length;
      if (goOn.length === 0) return;
      const pages = await Promise.all(
        goOn.map(async ({ type, line }) => {
          const longer = await this.#input.keysOf(type, line.keys.length);
          return { type, line: longer, keys: longer.keys.slice(line.keys.length) };
        }),
      );
      yield pages;
      lines = pages;
    }
  }
}
