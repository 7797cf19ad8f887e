/**
 * The commits of a pass. They are made one after the other, each on condition of the version that the one before it left. A pass
 * collects its changes in drafts, which are divided into commits of bounded size.
 */

import type { Uses } from '../../core/limits.ts';
import { countedWith, type MinuteCounts } from '../../core/statistics.ts';
import { COMMIT_ITEMS_MAX } from '../../store/contract/bounds.ts';
import type { EstimateRecord, Ledger, Reservation } from '../../store/contract/records.ts';
import { entriesWithout } from '../../store/contract/records.ts';
import type { Commit, ParkOutcome } from '../../store/contract/requests.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import { type LedgerCache, nameOfEstimate } from '../view/ledger-cache.ts';
import type { Settled } from '../view/settled.ts';

/** Another commit came first. The pass ends, and its dispatcher loads the partition again. */
export class CommitLostError extends Error {
  override readonly name = 'CommitLostError';

  constructor(partition: number, version: number) {
    super(`partition ${partition} has gone on from version ${version}; load it again`);
  }
}

/** A commit that changes nothing, to be spread into others. */
export const EMPTY_COMMIT = { drop: [], postpone: [], ledgers: [], estimates: [], reserve: [] };

type Store = Pick<PassStore, 'commit' | 'park' | 'putStatistics'>;

/** The counts that the loaded partition shows, and the listener for the error by which a minute is lost. */
export interface CountsBefore {
  readonly counted: MinuteCounts | undefined;
  readonly lost: (error: unknown) => void;
}

export class Commits {
  readonly #store: Store;
  readonly #partition: number;
  #version: number;
  readonly #counts: CountsBefore | undefined;
  #counted: MinuteCounts | undefined;
  #begun: Promise<void> = Promise.resolve();

  /**
   * @param version - the partition's version as it was loaded
   * @param counts - undefined: nothing is counted
   */
  constructor(store: Store, partition: number, version: number, counts?: CountsBefore) {
    this.#store = store;
    this.#partition = partition;
    this.#version = version;
    this.#counts = counts;
    this.#counted = counts?.counted;
  }

  /** Returns the version on which the next commit is conditional. */
  get version(): number {
    return this.#version;
  }

  /** Begins to write these commits in order. If one fails, `written` and `write` throw its error. */
  begin(commits: readonly Omit<Commit, 'version'>[]): void {
    this.#begun = this.written().then(async () => {
      for (const each of commits) await this.#write(each);
    });
    this.#begun.catch(() => {});
  }

  /**
   * Waits for the commits that were begun.
   * @throws CommitLostError if another commit came first
   */
  async written(): Promise<void> {
    await this.#begun;
  }

  /**
   * Writes a commit after those that were begun.
   * @throws CommitLostError if another commit came first
   */
  async write(commit: Omit<Commit, 'version'>): Promise<void> {
    await this.written();
    await this.#write(commit);
  }

  /**
   * Parks jobs. This raises the partition's version, too.
   * @throws CommitLostError if another commit came first
   */
  async park(
    request: Pick<Parameters<Store['park']>[0], 'jobs' | 'conflictKey'>,
  ): Promise<Extract<ParkOutcome, { readonly kind: 'parked' }>['outcomes']> {
    await this.written();
    const outcome = await this.#store.park({
      partition: this.#partition,
      version: this.#version,
      ...request,
    });
    if (outcome.kind === 'lost') throw new CommitLostError(this.#partition, this.#version);
    this.#version = outcome.version;
    return outcome.outcomes;
  }

  async #write(commit: Omit<Commit, 'version'>): Promise<void> {
    const version = this.#version;
    await this.#keepMinute(commit.counts);
    const outcome = await this.#store.commit({
      partition: this.#partition,
      commit: { ...commit, version },
    });
    if (outcome === 'lost') throw new CommitLostError(this.#partition, version);
    this.#version = version + 1;
    this.#counted = countedWith(this.#counted, commit.counts);
  }

  /**
   * Stores the counts of a minute before a commit replaces them. A commit that is refused changes nothing: the next pass stores the same
   * counts, or more. A minute that cannot be stored is lost, because jobs must not wait for statistics.
   */
  async #keepMinute(next: MinuteCounts | undefined): Promise<void> {
    const counts = this.#counted;
    if (counts === undefined || next === undefined || next.minuteMs <= counts.minuteMs) return;
    try {
      await this.#store.putStatistics({ partition: this.#partition, version: this.#version, counts });
    } catch (error) {
      this.#counts?.lost(error);
    }
  }
}

/** Changes to be committed. */
export interface Draft {
  readonly drops: Map<string, { readonly reservation: Reservation; readonly positions: number[] }>;
  readonly postponed: Map<string, { readonly reservation: Reservation; readonly checkAtMs: number }>;
  readonly ledgers: Map<string, Ledger>;
  readonly estimates: Map<string, EstimateRecord>;
  /**
   * The uses of limits over all keys, after the attempts that this draft and those before it drop; undefined:
   * unchanged.
   */
  uses?: Uses | undefined;
  /** The statistics of the attempts that this draft drops; undefined: statistics are off, or no attempt counts. */
  counts?: MinuteCounts | undefined;
}

export const emptyDraft = (): Draft => ({
  drops: new Map(),
  postponed: new Map(),
  ledgers: new Map(),
  estimates: new Map(),
});

/**
 * Charges each settled attempt to its key (`LedgerCache.settle`; the ledgers must have been read), and puts the
 * settlement in as few drafts as fit. The last has room for a reservation.
 */
export function chargeInDrafts(
  settled: readonly Settled[],
  ledgerCache: LedgerCache,
  count: (ended: Settled) => MinuteCounts | undefined,
): Draft[] {
  const drafts: Draft[] = [];
  const current = new Map<string, Reservation>();
  let draft = emptyDraft();
  for (const place of settled) {
    const { batchId } = place.reservation;
    const { ledgers, estimates } = ledgerCache.settle(place);
    draft.uses = ledgerCache.uses;
    draft.counts = countedWith(draft.counts, count(place));
    for (const ledger of ledgers) draft.ledgers.set(ledger.fairnessKey, ledger);
    for (const each of estimates) draft.estimates.set(nameOfEstimate(each), each);
    dropEntry(draft, current.get(batchId) ?? place.reservation, place.position);
    // Another settled attempt takes up to nine items of a commit: four of them are ledgers of its keys.
    if (writesOf(draft) < COMMIT_ITEMS_MAX - 12) continue;
    for (const { reservation, positions } of draft.drops.values()) {
      const jobs = entriesWithout(reservation.jobs, new Set(positions));
      current.set(reservation.batchId, { ...reservation, jobs });
    }
    drafts.push(draft);
    draft = emptyDraft();
  }
  drafts.push(draft);
  // The last commit has room for reservations with their raised ledgers.
  if (writesOf(draft) > COMMIT_ITEMS_MAX / 2) drafts.push(emptyDraft());
  return drafts;
}

/** Adds postponed checks to the last draft while it has room, and to new drafts after that. */
export function postpone(
  drafts: Draft[],
  postponed: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[],
): void {
  let draft = drafts.at(-1) ?? emptyDraft();
  for (const each of postponed) {
    if (writesOf(draft) >= COMMIT_ITEMS_MAX / 2) {
      draft = emptyDraft();
      drafts.push(draft);
    }
    draft.postponed.set(each.reservation.batchId, each);
  }
}

export const writesOf = (draft: Draft): number =>
  draft.drops.size + draft.postponed.size + draft.ledgers.size + draft.estimates.size;

/** Divides a draft into as few commits as it fits into. The last one has room for `room` more items. */
export function inCommits(draft: Draft, room: number): readonly Draft[] {
  const ledgers = [...draft.ledgers];
  const others = writesOf(draft) - ledgers.length;
  const most = COMMIT_ITEMS_MAX - room;
  const first = Math.max(0, most - others);
  const parts: Draft[] = [];
  for (let from = first; from < ledgers.length; from += most)
    parts.push({ ...emptyDraft(), ledgers: new Map(ledgers.slice(from, from + most)) });
  return [...parts, { ...draft, ledgers: new Map(ledgers.slice(0, first)) }];
}

export function dropEntry(draft: Draft, reservation: Reservation, position: number): void {
  const drop = draft.drops.get(reservation.batchId);
  if (drop === undefined) draft.drops.set(reservation.batchId, { reservation, positions: [position] });
  else drop.positions.push(position);
  draft.postponed.delete(reservation.batchId);
}

export const commitOf = (draft: Draft, reserve: readonly Reservation[]): Omit<Commit, 'version'> => ({
  drop: [...draft.drops.values()],
  postpone: [...draft.postponed.values()],
  ledgers: [...draft.ledgers.values()],
  estimates: [...draft.estimates.values()],
  reserve,
  uses: draft.uses,
  counts: draft.counts,
});
