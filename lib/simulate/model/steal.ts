/**
 * Who may take work from whom, and how much: decisions only.
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
