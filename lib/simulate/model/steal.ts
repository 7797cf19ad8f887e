/**
 * Decides which node may take work from which other one, and how much. It carries nothing out.
 * Source: workload-distribution, "Work Stealing Implementation".
 *
 * A steal moves at most half the difference, so the thief never ends above its source: with loads s > t and m moved, m
 * <= (s - t) / 2 gives t + m <= s - m. Each steal lowers the sum of squared loads, so a sequence of steals ends, and no
 * work moves in circles. Work in transit counts as arrived (back-pressure), so a thief does not steal twice for the
 * same imbalance.
 */

/** One node's load as it was last published, in jobs. */
export interface NodeLoad {
  readonly node: string;
  readonly load: number;
  /** Jobs of `load` that have not started and may move. */
  readonly movable: number;
  /** How many more jobs it can take. */
  readonly freeCapacity: number;
  /** Jobs in transit to it, not yet in `load`. */
  readonly incoming?: number | undefined;
  /** Jobs promised to others, still in `load`. */
  readonly outgoing?: number | undefined;
}

export interface StealPolicy {
  /** A thief has less load than this. */
  readonly low: number;
  /** A source has more load than this. */
  readonly high: number;
  /** The most jobs that one steal moves. */
  readonly batch: number;
}

/** Why no job moves. */
export type StealRefusal = 'unknownThief' | 'notIdle' | 'noCapacity' | 'noSource';

export type StealPlan =
  | { readonly kind: 'steal'; readonly from: string; readonly moved: number }
  | { readonly kind: 'refused'; readonly reason: StealRefusal };

/**
 * Decides what a node may take now. The source is the most loaded one that has something to give; ties go to the
 * smaller name.
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
