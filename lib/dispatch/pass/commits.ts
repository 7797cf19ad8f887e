/**
 * The commits of a pass, one after the other: each names the commit before it, and only who has the partition makes them.
 * What the pass is about to write is a draft until then, and fits into commits of bounded size.
 */

import { COMMIT_ITEMS_MAX } from '../../store/bounds.ts';
import type { PassStore } from '../../store/contract.ts';
import { StaleCommit } from '../../store/errors.ts';
import { placesWithout } from '../../store/page.ts';
import type { EstimateRecord, Fence, Ledger, Reservation } from '../../store/records.ts';
import type { Commit, CommitOutcome } from '../../store/requests.ts';
import type { HeldLease } from '../lease.ts';
import { type LedgerCache, nameOfEstimate } from '../ledger-cache.ts';
import type { Settled } from '../settle/settled.ts';

/** Somebody else leads the partition by now: nothing of this pass counts any more. Who makes passes ends this one quietly. */
export class LeaseLostError extends Error {
  /** Nobody else does: it was made without the lease, and its commit takes more than the page. */
  readonly needsLease: boolean;

  constructor({ partition, epoch }: Fence, needsLease = false) {
    super(
      needsLease
        ? `a commit of partition ${partition} takes more than its page, and the lease`
        : `the lease of partition ${partition}, epoch ${epoch}, is somebody else's by now`,
    );
    this.name = 'LeaseLostError';
    this.needsLease = needsLease;
  }
}

/** A pass was to be made without the lease, and needs it: it has decided nothing. Who makes passes asks for the lease. */
export class LeaseNeededError extends Error {
  /** Under which the partition is open after all; undefined: it is not. */
  readonly openEpoch: number | undefined;
  /** The next passes need it, too. */
  readonly lasts: boolean;

  constructor(
    { partition, epoch }: Fence,
    { openEpoch, lasts = false }: { readonly openEpoch?: number | undefined; readonly lasts?: boolean },
  ) {
    super(`a pass of partition ${partition} cannot be made without the lease of epoch ${epoch}`);
    this.name = 'LeaseNeededError';
    this.openEpoch = openEpoch;
    this.lasts = lasts;
  }
}

/** A commit without effect, to be filled. */
export const EMPTY_COMMIT = { drop: [], postpone: [], ledgers: [], estimates: [], reserve: [] };

export class Commits {
  readonly #store: Pick<PassStore, 'commit'>;
  readonly #fence: Fence;
  readonly #isOpen: boolean;
  #turn: number;
  #begun: Promise<void> = Promise.resolve();

  /** @param turn - how many commits the partition has seen, as it was loaded */
  constructor(
    store: Pick<PassStore, 'commit'>,
    { fence, isOpen = false }: Pick<HeldLease, 'fence' | 'isOpen'>,
    turn: number,
  ) {
    this.#store = store;
    this.#fence = fence;
    this.#isOpen = isOpen;
    this.#turn = turn;
  }

  /** The number of the next commit. */
  get turn(): number {
    return this.#turn;
  }

  /** Begins to write these, one after the other. What goes wrong with them, `written` and `write` throw. */
  begin(commits: readonly Omit<Commit, 'turn'>[]): void {
    this.#begun = this.written().then(async () => {
      for (const each of commits) await this.#write(each);
    });
    this.#begun.catch(() => {});
  }

  /**
   * Waits until what was begun is written.
   * @throws LeaseLostError if somebody else has the lease, or has committed
   */
  async written(): Promise<void> {
    await this.#begun;
  }

  /**
   * Writes behind what was begun.
   * @throws LeaseLostError if somebody else has the lease, or has committed
   */
  async write(commit: Omit<Commit, 'turn'>): Promise<void> {
    await this.written();
    await this.#write(commit);
  }

  async #write(commit: Omit<Commit, 'turn'>): Promise<void> {
    const fence = this.#fence;
    const outcome = await this.#outcomeOf({ ...commit, turn: this.#turn });
    if (outcome !== 'committed') throw new LeaseLostError(fence, outcome === 'needsLease');
    this.#turn += 1;
  }

  async #outcomeOf(commit: Commit): Promise<CommitOutcome> {
    const fence = this.#fence;
    if (!this.#isOpen) return this.#store.commit({ fence, commit });
    try {
      return await this.#store.commit({ fence, commit: { ...commit, isWithoutLease: true } });
    } catch (error) {
      // Without the lease, others may have committed.
      if (error instanceof StaleCommit) return 'lost';
      throw error;
    }
  }
}

/** Items of a commit that settles and does nothing else. One more place is up to five of them. */
const SETTLED_ITEMS_MAX = COMMIT_ITEMS_MAX - 8;
/** Items of the last commit's settlement, which has room for reservations with their lifted ledgers. */
const SETTLED_LAST_MAX = 45;

/** Everything a commit may hold, to be filled. */
export interface Draft {
  readonly drops: Map<string, { readonly reservation: Reservation; readonly positions: number[] }>;
  readonly postponed: Map<string, { readonly reservation: Reservation; readonly checkAtMs: number }>;
  readonly ledgers: Map<string, Ledger>;
  readonly estimates: Map<string, EstimateRecord>;
}

export const emptyDraft = (): Draft => ({
  drops: new Map(),
  postponed: new Map(),
  ledgers: new Map(),
  estimates: new Map(),
});

/** The settlement in as few commits as their bound allows; the last one has room for a reservation. */
export function draftsOf(settled: readonly Settled[], ledgerCache: LedgerCache): Draft[] {
  const drafts: Draft[] = [];
  const current = new Map<string, Reservation>();
  let draft = emptyDraft();
  for (const place of settled) {
    const { batchId } = place.reservation;
    const { ledgers, estimates } = ledgerCache.settle(place);
    for (const ledger of ledgers) draft.ledgers.set(ledger.fairnessKey, ledger);
    for (const each of estimates) draft.estimates.set(nameOfEstimate(each), each);
    dropPlace(draft, current.get(batchId) ?? place.reservation, place.position);
    if (writesOf(draft) < SETTLED_ITEMS_MAX) continue;
    for (const { reservation, positions } of draft.drops.values()) {
      const jobs = placesWithout(reservation.jobs, new Set(positions));
      current.set(reservation.batchId, { ...reservation, jobs });
    }
    drafts.push(draft);
    draft = emptyDraft();
  }
  drafts.push(draft);
  if (writesOf(draft) > SETTLED_LAST_MAX) drafts.push(emptyDraft());
  return drafts;
}

/** Postpones reservations in the last of these drafts as far as it has room, and in others behind it. */
export function postpone(
  drafts: Draft[],
  postponed: readonly { readonly reservation: Reservation; readonly checkAtMs: number }[],
): void {
  let draft = drafts.at(-1) ?? emptyDraft();
  for (const each of postponed) {
    if (writesOf(draft) >= SETTLED_LAST_MAX) {
      draft = emptyDraft();
      drafts.push(draft);
    }
    draft.postponed.set(each.reservation.batchId, each);
  }
}

export const writesOf = (draft: Draft): number =>
  draft.drops.size + draft.postponed.size + draft.ledgers.size + draft.estimates.size;

/** A draft in as few commits as their bound allows; the last one has room for so many items more. */
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

export function dropPlace(draft: Draft, reservation: Reservation, position: number): void {
  const drop = draft.drops.get(reservation.batchId);
  if (drop === undefined) draft.drops.set(reservation.batchId, { reservation, positions: [position] });
  else drop.positions.push(position);
  draft.postponed.delete(reservation.batchId);
}

export const commitOf = (draft: Draft, reserve: readonly Reservation[]): Commit => ({
  drop: [...draft.drops.values()],
  postpone: [...draft.postponed.values()],
  ledgers: [...draft.ledgers.values()],
  estimates: [...draft.estimates.values()],
  reserve,
});
