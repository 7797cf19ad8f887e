/**
 * Who may take work or capacity from whom, and how much: decisions only; the transfer itself is fenced by both epochs.
 * Source: workload-distribution, "Work Stealing Implementation".
 *
 * A steal moves at most half the difference, so the thief never ends above its source: with loads s > t and m moved,
 * m <= (s - t) / 2 gives t + m <= s - m. Each steal lowers the sum of squared loads, so a sequence of them ends, and
 * no work goes round in circles. What is already under way counts as arrived (back-pressure): a thief does not ask
 * twice for the same imbalance.
 */

/** One node's load as it was last published. Counts of jobs. */
export interface NodeLoad {
  readonly node: string;
  readonly load: number;
  /** Of these, what has not started and may move. */
  readonly movable: number;
  /** How many more it can take. */
  readonly freeCapacity: number;
  /** Under way to it, not yet in `load`. */
  readonly incoming?: number | undefined;
  /** Promised away, still in `load`. */
  readonly outgoing?: number | undefined;
}

export interface StealPolicy {
  /** A thief is below this. */
  readonly low: number;
  /** A source is above this. */
  readonly high: number;
  /** Moved at once, at most. */
  readonly batch: number;
}

/** Why nothing moves. */
export type StealRefusal = 'unknownThief' | 'notIdle' | 'noCapacity' | 'noSource';

export type StealPlan =
  | { readonly kind: 'steal'; readonly from: string; readonly moved: number }
  | { readonly kind: 'refused'; readonly reason: StealRefusal };

/**
 * What a node may take now: from the most loaded source that has something to give; ties go to the smaller name.
 */
export function planSteal(nodes: readonly NodeLoad[], policy: StealPolicy, thief: string): StealPlan {
  const taker = nodes.find(({ node }) => node === thief);
  if (taker === undefined) return { kind: 'refused', reason: 'unknownThief' };
  const taken = taker.load + (taker.incoming ?? 0);
  if (taken >= policy.low) return { kind: 'refused', reason: 'notIdle' };
  const room = taker.freeCapacity - (taker.incoming ?? 0);
  if (room < 1 || policy.batch < 1) return { kind: 'refused', reason: 'noCapacity' };
  let best: { from: string; left: number; moved: number } | undefined;
  for (const source of nodes) {
    const promised = source.outgoing ?? 0;
    const left = source.load - promised;
    if (source.node === thief || left <= policy.high) continue;
    const half = Math.floor((left - taken) / 2);
    const moved = Math.floor(Math.min(half, policy.batch, room, source.movable - promised));
    if (moved < 1) continue;
    if (best === undefined || left > best.left || (left === best.left && source.node < best.from)) {
      best = { from: source.node, left, moved };
    }
  }
  if (best === undefined) return { kind: 'refused', reason: 'noSource' };
  return { kind: 'steal', from: best.from, moved: best.moved };
}

/** A partition's capacity and need, for lending slots. */
export interface PartitionNeed {
  readonly partition: number;
  readonly freeSlots: number;
  /** Ready jobs that wait for a slot. */
  readonly backlog: number;
  /** Slots that it has borrowed and not given back. */
  readonly borrowed: number;
}

export interface LendingPolicy {
  /** A borrower has at least this many ready jobs waiting. */
  readonly backlogThreshold: number;
  /** A lender keeps this many free. */
  readonly keepFree: number;
  /** Lent at once, at most. */
  readonly batch: number;
  /** Borrowed by one partition in all, at most: back-pressure. */
  readonly maxBorrowed: number;
  /** A loan ends by itself after this. */
  readonly loanMs: number;
}

/** Slots of one partition that another may use until `expiresAtMs`. */
export interface Loan {
  readonly from: number;
  readonly to: number;
  readonly slots: number;
  readonly expiresAtMs: number;
}

/**
 * Which slots change hands now. Only a partition without backlog lends, only one without free slots borrows, so no
 * partition does both; the neediest is served first, from whoever has most to spare. A lender gives at most half of
 * what it can spare to one borrower, so that work of its own does not find it empty.
 */
export function planLoans(
  partitions: readonly PartitionNeed[],
  policy: LendingPolicy,
  nowMs: number,
): readonly Loan[] {
  const lenders = partitions
    .filter(({ backlog, borrowed }) => backlog === 0 && borrowed === 0)
    .map(({ partition, freeSlots }) => ({ partition, spare: freeSlots - policy.keepFree }));
  const borrowers = partitions
    .filter(({ freeSlots, backlog }) => freeSlots === 0 && backlog >= Math.max(1, policy.backlogThreshold))
    .sort((one, other) => other.backlog - one.backlog || one.partition - other.partition);
  const loans: Loan[] = [];
  for (const borrower of borrowers) {
    const [lender] = lenders.toSorted(
      (one, other) => other.spare - one.spare || one.partition - other.partition,
    );
    if (lender === undefined) break;
    const slots = Math.min(
      policy.batch,
      borrower.backlog,
      policy.maxBorrowed - borrower.borrowed,
      Math.ceil(lender.spare / 2),
    );
    if (slots < 1) continue;
    lender.spare -= slots;
    loans.push({
      from: lender.partition,
      to: borrower.partition,
      slots,
      expiresAtMs: nowMs + policy.loanMs,
    });
  }
  return loans;
}

/** Loans that still count. One that has expired is the lender's again, whatever the borrower thinks. */
export function liveLoans(loans: readonly Loan[], nowMs: number): readonly Loan[] {
  return loans.filter(({ expiresAtMs }) => expiresAtMs > nowMs);
}

/**
 * Shares of a cap for its partitions: whole numbers that add up to the cap, as even as they can be, the first ones
 * get the rest. Partitions with an own share never exceed the cap together, whoever is stale.
 */
export function shareCap(cap: number, partitions: number): readonly number[] {
  const base = Math.floor(cap / partitions);
  const rest = cap - base * partitions;
  return Array.from({ length: partitions }, (_, partition) => base + (partition < rest ? 1 : 0));
}
