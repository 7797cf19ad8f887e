/** What a ring says of its nodes, counted out range by range. */
import { preferenceOf, type Ring } from '../../lib/core/ring.ts';
import type { HashRange } from '../../lib/simulate/model/ring-changes.ts';

/** The node that would own the hash if its owner left; undefined if there is no other. */
export function backupOf(ring: Ring, hash: number): string | undefined {
  return preferenceOf(ring, hash, 2)[1];
}

/** What each node owns: inclusive ranges, ascending, one for each position, and a second one where it wraps. */
export function rangesOf(ring: Ring): ReadonlyMap<string, readonly HashRange[]> {
  const ranges = new Map<string, HashRange[]>(ring.nodes.map((node) => [node, []]));
  const rangesOfOwner = (index: number): HashRange[] =>
    ranges.get(ring.owners[index] as string) as HashRange[];
  let from = 0;
  ring.positions.forEach((position, index) => {
    rangesOfOwner(index).push([from, position]);
    from = position + 1;
  });
  if (ring.owners.length > 0 && from < ring.space) rangesOfOwner(0).push([from, ring.space - 1]);
  return ranges;
}
