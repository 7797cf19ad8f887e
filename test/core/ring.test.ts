import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { hashText, partitionOf } from '../../lib/core/partition.ts';
import {
  buildRing,
  ownerOf,
  partitionHash,
  preferenceOf,
  ROLE_EDGES,
  ringOf,
  roleOf,
  roleStep,
} from '../../lib/core/ring.ts';
import { inRanges, movedBetween, without } from '../../lib/simulate/model/ring-changes.ts';
import partitions from '../fixtures/oracles/partitions.json' with { type: 'json' };
import { backupOf, rangesOf } from './ring-ranges.ts';

const nodeNames = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 12 });

describe('a ring with given positions', () => {
  const ring = ringOf(
    new Map([
      ['A', [30]],
      ['B', [150]],
      ['C', [210]],
    ]),
    256,
  );

  it('gives a hash to the first position at or after it, and wraps', () => {
    expect([0, 30, 31, 150, 151, 210, 211, 255].map((hash) => ownerOf(ring, hash))).toEqual([
      'A',
      'A',
      'B',
      'B',
      'C',
      'C',
      'A',
      'A',
    ]);
  });

  it('says who would inherit', () => {
    expect(preferenceOf(ring, 31, 9)).toEqual(['B', 'C', 'A']);
    expect(backupOf(ring, 31)).toBe('C');
    expect(backupOf(ring, 211)).toBe('B');
    expect(backupOf(without(ring, new Set(['A', 'C'])), 0)).toBeUndefined();
  });

  it('tiles the space with inclusive ranges', () => {
    expect(rangesOf(ring)).toEqual(
      new Map([
        [
          'A',
          [
            [0, 30],
            [211, 255],
          ],
        ],
        ['B', [[31, 150]]],
        ['C', [[151, 210]]],
      ]),
    );
    expect(rangesOf(ringOf(new Map([['last', [255]]]), 256)).get('last')).toEqual([[0, 255]]);
  });

  it('has no owner when it is empty', () => {
    const empty = ringOf(new Map([['idle', []]]));
    expect(ownerOf(empty, 5)).toBeUndefined();
    expect(preferenceOf(empty, 5, 2)).toEqual([]);
    expect(rangesOf(empty)).toEqual(new Map([['idle', []]]));
  });

  it('gives a shared position to the smaller name, whatever the order', () => {
    expect(
      ownerOf(
        ringOf(
          new Map([
            ['b', [7]],
            ['a', [7]],
          ]),
        ),
        7,
      ),
    ).toBe('a');
    expect(
      ownerOf(
        ringOf(
          new Map([
            ['a', [7]],
            ['b', [7]],
          ]),
        ),
        7,
      ),
    ).toBe('a');
  });

  it.each([-1, 256, 1.5, Number.NaN])('refuses the position %s outside its space', (position) => {
    expect(() => ringOf(new Map([['A', [position]]]), 256)).toThrow(/positions\.A: must be a whole number/);
  });

  it('takes no more than is there, and gives only what it had', () => {
    const joined = ringOf(
      new Map([
        ['A', [30]],
        ['B', [150]],
        ['C', [210]],
        ['D', [110]],
      ]),
      256,
    );
    const hashes = Array.from({ length: 256 }, (_, hash) => hash);
    const moved = movedBetween(ring, joined, hashes);
    expect(moved.length).toBe(80);
    expect(moved.every(({ from, to }) => from === 'B' && to === 'D')).toBe(true);
    expect(movedBetween(joined, without(joined, new Set(['D'])), hashes)).toHaveLength(80);
    expect(without(joined, new Set(['D']))).toEqual(ring);
  });
});

describe('a ring that is built', () => {
  it.each([0, -1, 1.5, Number.NaN])('refuses %s virtual nodes', (virtualNodes) => {
    expect(() => buildRing(['a'], virtualNodes)).toThrow(
      /virtualNodes: must be a whole number of at least 1/,
    );
  });

  it('has 128 virtual nodes unless told otherwise', () => {
    expect(buildRing(['a']).positions).toHaveLength(128);
    expect(buildRing(['a'], 3).positions).toHaveLength(3);
  });

  it('keeps its hash: what lives where must not change with a release', () => {
    expect(['', 'a', 'key/alice', 'partition/0', 'köln', '\u{1F600}'].map(hashText)).toMatchInlineSnapshot(`
      [
        363934122,
        3967463411,
        1282867400,
        2158094954,
        3564170331,
        2514932777,
      ]
    `);
    expect(partitionOf('alice', 8)).toBe(hashText('alice') % 8);
  });

  it('does not care for the order of the nodes, nor for repetition', () => {
    fc.assert(
      fc.property(nodeNames, (nodes) => {
        expect(buildRing([...nodes].reverse(), 16)).toEqual(buildRing(nodes, 16));
        expect(buildRing([...nodes, ...nodes], 16)).toEqual(buildRing(nodes, 16));
      }),
      { numRuns: 50 },
    );
  });

  it("gives every hash exactly one range, its owner's", () => {
    fc.assert(
      fc.property(nodeNames, fc.array(fc.nat(2 ** 32 - 1), { maxLength: 30 }), (nodes, hashes) => {
        const ring = buildRing(nodes, 8);
        const ranges = rangesOf(ring);
        for (const hash of [...hashes, 0, 2 ** 32 - 1]) {
          const holders = [...ranges].filter(([, own]) => inRanges(own, hash)).map(([node]) => node);
          expect(holders).toEqual([ownerOf(ring, hash)]);
        }
        const size = [...ranges.values()].flat().reduce((sum, [from, to]) => sum + to - from + 1, 0);
        expect(size).toBe(2 ** 32);
      }),
      { numRuns: 50 },
    );
  });

  it('makes the backup the next owner', () => {
    fc.assert(
      fc.property(nodeNames, fc.nat(2 ** 32 - 1), (nodes, hash) => {
        const ring = buildRing(nodes, 8);
        const owner = ownerOf(ring, hash);
        if (owner === undefined) throw new Error('no owner');
        const rest = nodes.filter((node) => node !== owner);
        expect(ownerOf(buildRing(rest, 8), hash)).toBe(backupOf(ring, hash));
      }),
      { numRuns: 100 },
    );
  });
});

describe('bounds on balance', () => {
  it.each(partitions.bounds)(
    "$vnodes virtual nodes on $nodes nodes stay inside the oracle's bounds",
    (row) => {
      const mean = 2 ** 32 / row.nodes;
      for (const prefix of ['n', 'pod-', 'node/']) {
        const nodes = Array.from({ length: row.nodes }, (_, index) => `${prefix}${index}`);
        const shares = sharesOf(buildRing(nodes, row.vnodes)).map(([, share]) => share);
        expect(Math.max(...shares) / mean).toBeLessThanOrEqual(row.bound.maxOverMean);
        expect(Math.min(...shares) / mean).toBeGreaterThanOrEqual(row.bound.minOverMean);
        const joined = new Map(sharesOf(buildRing([...nodes, `${prefix}new`], row.vnodes)));
        const taken = (joined.get(`${prefix}new`) ?? 0) / (2 ** 32 / (row.nodes + 1));
        expect(taken).toBeLessThanOrEqual(row.bound.joinShareOverIdealMax);
      }
    },
  );
});

function sharesOf(ring: ReturnType<typeof buildRing>): readonly (readonly [string, number])[] {
  return [...rangesOf(ring)].map(([node, own]) => [
    node,
    own.reduce((sum, [from, to]) => sum + to - from + 1, 0),
  ]);
}

const memberships = partitions.cases.flatMap((one) =>
  one.kind === 'membership-property' ? [{ id: one.id, input: one.input as MembershipInput }] : [],
);

interface MembershipInput {
  readonly nodes: readonly string[];
  readonly add: readonly string[];
  readonly remove: readonly string[];
  readonly keyTemplate: string;
  readonly keys: number;
}

describe.each(memberships)('membership $id', ({ input }) => {
  const keys = Array.from({ length: input.keys }, (_, index) =>
    hashText(input.keyTemplate.replace('{i}', String(index))),
  );
  const removed = new Set(input.remove);
  const before = buildRing(input.nodes);
  const after = buildRing([...input.nodes, ...input.add].filter((node) => !removed.has(node)));

  it('owns every key once, by a member, repeatably', () => {
    for (const hash of keys) {
      expect(input.nodes).toContain(ownerOf(before, hash));
      expect(ownerOf(buildRingCached(input.nodes), hash)).toBe(ownerOf(before, hash));
    }
  });

  it('moves only what a changed node had or gets, and not too much of it', () => {
    const changed = new Set([...input.add, ...input.remove]);
    const moved = movedBetween(before, after, keys);
    for (const { from = '', to = '' } of moved) expect(changed.has(from) || changed.has(to)).toBe(true);
    const row = boundFor(Math.max(before.nodes.length, after.nodes.length));
    const ideal = changed.size / Math.max(before.nodes.length, after.nodes.length);
    const factor = input.add.length > 0 ? row.joinShareOverIdealMax : row.maxOverMean;
    expect(moved.length / keys.length).toBeLessThanOrEqual(ideal * factor);
  });

  it('is restored when the change is undone', () => {
    expect(movedBetween(before, buildRing(input.nodes), keys)).toEqual([]);
  });

  it('is balanced', () => {
    const mean = keys.length / after.nodes.length;
    const row = boundFor(after.nodes.length);
    for (const node of after.nodes) {
      const own = keys.filter((hash) => ownerOf(after, hash) === node).length;
      expect(own / mean).toBeLessThanOrEqual(row.maxOverMean);
      expect(own / mean).toBeGreaterThanOrEqual(row.minOverMean);
    }
  });
});

const rings = new Map<string, ReturnType<typeof buildRing>>();

function buildRingCached(nodes: readonly string[]): ReturnType<typeof buildRing> {
  const name = nodes.toReversed().join();
  const ring = rings.get(name) ?? buildRing(nodes.toReversed());
  rings.set(name, ring);
  return ring;
}

function boundFor(nodes: number): {
  maxOverMean: number;
  minOverMean: number;
  joinShareOverIdealMax: number;
} {
  const rows = partitions.bounds.filter((row) => row.vnodes <= 128 && row.nodes <= nodes);
  const best = rows.toSorted((one, other) => other.vnodes - one.vnodes || other.nodes - one.nodes)[0];
  // A single node has everything.
  return best?.bound ?? { maxOverMean: 1, minOverMean: 1, joinShareOverIdealMax: 1 };
}

describe('roles', () => {
  const ring = buildRing(['a', 'b', 'c']);

  it('has one leader and one standby for each partition', () => {
    for (let partition = 0; partition < 50; partition += 1) {
      const roles = ['a', 'b', 'c'].map((node) => roleOf(ring, partition, node)).sort();
      expect(roles).toEqual(['leader', 'offline', 'standby']);
      expect(roleOf(ring, partition, ownerOf(ring, partitionHash(partition)) ?? '')).toBe('leader');
    }
  });

  it('goes through standby on every way to and from leading', () => {
    expect(roleStep('offline', 'leader')).toBe('standby');
    expect(roleStep('standby', 'leader')).toBe('leader');
    expect(roleStep('leader', 'offline')).toBe('standby');
    expect(roleStep('standby', 'offline')).toBe('offline');
    expect(roleStep('offline', 'standby')).toBe('standby');
    expect(roleStep('leader', 'leader')).toBeUndefined();
    for (const from of ['offline', 'standby', 'leader'] as const) {
      for (const to of ['offline', 'standby', 'leader'] as const) {
        const step = roleStep(from, to);
        if (step !== undefined) expect(ROLE_EDGES[from]).toContain(step);
      }
    }
  });
});
