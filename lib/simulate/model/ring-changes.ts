/** Computes which hashes change owners when nodes join or leave a ring. */
import { ownerOf, type Ring } from '../../core/ring.ts';

/** A range of hashes, inclusive at both ends. */
export type HashRange = readonly [from: number, to: number];

/** True if one of the ranges contains the hash. */
export function inRanges(ranges: readonly HashRange[], hash: number): boolean {
  return ranges.some(([from, to]) => from <= hash && hash <= to);
}

/** A hash whose owner differs between two rings. */
export interface MovedHash {
  readonly hash: number;
  readonly from: string | undefined;
  readonly to: string | undefined;
}

/** Returns the hashes whose owner differs between the rings, in the given order. */
export function movedBetween(before: Ring, after: Ring, hashes: readonly number[]): readonly MovedHash[] {
  return hashes
    .map((hash) => ({ hash, from: ownerOf(before, hash), to: ownerOf(after, hash) }))
    .filter(({ from, to }) => from !== to);
}

/** Returns the ring without the given nodes. */
export function without(ring: Ring, gone: ReadonlySet<string>): Ring {
  const keep = ring.owners.map((node) => !gone.has(node));
  return {
    space: ring.space,
    positions: ring.positions.filter((_, index) => keep[index]),
    owners: ring.owners.filter((_, index) => keep[index]),
    nodes: ring.nodes.filter((node) => !gone.has(node)),
  };
}
