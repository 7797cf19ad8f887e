/**
 * The consistent-hash ring: which node owns which part of a hash space, and which node is its standby. Source:
 * workload-distribution, "Consistent Hashing Implementation".
 *
 * The space is the integers 0 to `space - 1`. A node has several positions in it (virtual nodes). The owner of a hash
 * is the node at the first position at or after it, wrapping around at the end. So each position owns the inclusive
 * range that ends at itself and begins after its predecessor, and the ranges tile the space. A node that joins takes
 * over only the ranges right before its positions, and a node that leaves gives up only its own; nothing else moves.
 *
 * With v positions per node the standard deviation of a node's share is about its mean / sqrt(v): 128 keep the most
 * loaded of 16 nodes below 1.45 times the mean; the text's 3 would allow five times the mean.
 */
import { ConfigurationError } from './errors.ts';
import { hashText } from './partition.ts';

/** The positions of the nodes. Made by `buildRing` or `ringOf`, and never changed. */
export interface Ring {
  readonly space: number;
  /** Ascending, without duplicates. */
  readonly positions: readonly number[];
  /** The node at each position. */
  readonly owners: readonly string[];
  /** All nodes, ascending. */
  readonly nodes: readonly string[];
}

/** The role of a dispatcher for one partition. */
export type PartitionRole = 'leader' | 'standby' | 'offline';

export const RING_SPACE = 2 ** 32;
export const VIRTUAL_NODES = 128;

/**
 * Returns a ring of these nodes. Their order does not matter, and naming a node twice changes nothing.
 * @throws ConfigurationError if `virtualNodes` is not a whole number of at least 1.
 */
export function buildRing(nodes: Iterable<string>, virtualNodes: number = VIRTUAL_NODES): Ring {
  if (!Number.isSafeInteger(virtualNodes) || virtualNodes < 1) {
    throw new ConfigurationError(
      'virtualNodes',
      virtualNodes,
      'must be a whole number of at least 1',
      `Leave it out for ${VIRTUAL_NODES}.`,
    );
  }
  const positions = new Map<string, readonly number[]>();
  for (const node of nodes) {
    positions.set(
      node,
      Array.from({ length: virtualNodes }, (_, index) => hashText(`${node}#${index}`)),
    );
  }
  return ringOf(positions);
}

/**
 * Returns a ring with given positions. If two nodes have the same position, the one with the smaller name owns it.
 * @throws ConfigurationError if a position is not a whole number inside the space.
 */
export function ringOf(positions: ReadonlyMap<string, readonly number[]>, space: number = RING_SPACE): Ring {
  const sorted = [...positions].sort(([one], [other]) => (one < other ? -1 : 1));
  const owned = new Map<number, string>();
  for (const [node, own] of sorted) {
    for (const position of own) {
      if (!Number.isSafeInteger(position) || position < 0 || position >= space) {
        throw new ConfigurationError(
          `positions.${node}`,
          position,
          `must be a whole number from 0 to ${space - 1}`,
          'Move it into the space, or enlarge the space.',
        );
      }
      if (!owned.has(position)) owned.set(position, node);
    }
  }
  const entries = [...owned].sort(([one], [other]) => one - other);
  return {
    space,
    positions: entries.map(([position]) => position),
    owners: entries.map(([, node]) => node),
    nodes: sorted.map(([node]) => node),
  };
}

/** Returns the node that owns a hash; undefined if the ring is empty. */
export function ownerOf(ring: Ring, hash: number): string | undefined {
  return ring.owners[positionIndexOf(ring, hash)];
}

/**
 * Returns the first `count` different nodes at or after a hash: its owner, then the standbys, in the order in which
 * they would take over. Shorter if the ring has fewer nodes.
 */
export function preferenceOf(ring: Ring, hash: number, count: number): readonly string[] {
  const found = new Set<string>();
  const first = positionIndexOf(ring, hash);
  const { length } = ring.owners;
  for (let step = 0; step < length && found.size < count; step += 1) {
    found.add(ring.owners[(first + step) % length] as string);
  }
  return [...found];
}

/** Returns the position of a partition in the hash space. */
export function partitionHash(partition: number): number {
  return hashText(`partition/${partition}`);
}

/** Returns the role of a node for a partition: the owner leads, and the next node is the standby. */
export function roleOf(ring: Ring, partition: number, node: string): PartitionRole {
  const [leader, standby] = preferenceOf(ring, partitionHash(partition), 2);
  if (node === leader) return 'leader';
  return node === standby ? 'standby' : 'offline';
}

/**
 * The roles that may follow each role. A node leads only after it was standby. Source: workload-distribution, section
 * 6.
 */
export const ROLE_EDGES: Readonly<Record<PartitionRole, readonly PartitionRole[]>> = {
  offline: ['standby'],
  standby: ['leader', 'offline'],
  leader: ['standby'],
};

/** Returns the next role on the way from one role to another; undefined if they are the same. */
export function roleStep(from: PartitionRole, to: PartitionRole): PartitionRole | undefined {
  if (from === to) return undefined;
  return ROLE_EDGES[from].includes(to) ? to : 'standby';
}

// Returns the index of the first position at or after the hash; 0 past the last one, because the ring wraps.
function positionIndexOf(ring: Ring, hash: number): number {
  let low = 0;
  let high = ring.positions.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ring.positions[middle] as number) < hash) low = middle + 1;
    else high = middle;
  }
  return low === ring.positions.length ? 0 : low;
}
