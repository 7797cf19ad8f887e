import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  liveLoans,
  type NodeLoad,
  type PartitionNeed,
  planLoans,
  planSteal,
  type StealPolicy,
  shareCap,
} from '../../lib/core/lending.ts';

const POLICY: StealPolicy = { low: 5, high: 20, batch: 10 };

function node(name: string, load: number, changes: Partial<NodeLoad> = {}): NodeLoad {
  return { node: name, load, movable: load, freeCapacity: 50, ...changes };
}

describe('planSteal', () => {
  it('takes from the most loaded source, ties from the smaller name', () => {
    const nodes = [node('a', 2), node('d', 40), node('c', 40), node('b', 30)];
    expect(planSteal(nodes, POLICY, 'a')).toEqual({ kind: 'steal', from: 'c', moved: 10 });
    expect(planSteal(nodes.toReversed(), POLICY, 'a')).toEqual({ kind: 'steal', from: 'c', moved: 10 });
  });

  it.each([
    ['half the difference', [node('a', 2), node('b', 21)], 9],
    ['the batch', [node('a', 2), node('b', 400)], 10],
    ['the capacity', [node('a', 2, { freeCapacity: 3 }), node('b', 400)], 3],
    ['what has not started', [node('a', 2), node('b', 400, { movable: 4 })], 4],
  ] as const)('moves at most %s', (_, nodes, moved) => {
    expect(planSteal(nodes, POLICY, 'a')).toEqual({ kind: 'steal', from: 'b', moved });
  });

  it.each([
    ['unknownThief', [node('b', 40)], POLICY],
    ['notIdle', [node('a', 5), node('b', 40)], POLICY],
    ['noSource', [node('a', 2), node('b', 20)], POLICY],
    ['noSource', [node('a', 2), node('b', 40, { movable: 0 })], POLICY],
    ['noCapacity', [node('a', 2, { freeCapacity: 0 }), node('b', 40)], POLICY],
    ['noCapacity', [node('a', 2), node('b', 40)], { ...POLICY, batch: 0 }],
    ['noSource', [node('a', 2)], POLICY],
  ] as const)('refuses with %s', (reason, nodes, policy) => {
    expect(planSteal(nodes, policy, 'a')).toEqual({ kind: 'refused', reason });
  });

  it('counts what is under way as arrived, on both sides', () => {
    expect(planSteal([node('a', 2, { incoming: 3 }), node('b', 40)], POLICY, 'a')).toMatchObject({
      reason: 'notIdle',
    });
    expect(planSteal([node('a', 2), node('b', 40, { outgoing: 20 })], POLICY, 'a')).toMatchObject({
      reason: 'noSource',
    });
    expect(
      planSteal([node('a', 0, { freeCapacity: 4, incoming: 2 }), node('b', 40)], POLICY, 'a'),
    ).toMatchObject({
      moved: 2,
    });
    expect(planSteal([node('a', 0), node('b', 30, { movable: 12, outgoing: 9 })], POLICY, 'a')).toMatchObject(
      {
        moved: 3,
      },
    );
  });

  it('takes from the next source when the most loaded has nothing to give', () => {
    expect(
      planSteal([node('a', 0), node('b', 90, { movable: 0 }), node('c', 30)], POLICY, 'a'),
    ).toMatchObject({
      from: 'c',
    });
  });

  it('ends whatever the loads are, keeps every job, and lifts nobody above its source', () => {
    const loads = fc.array(fc.nat(300), { minLength: 1, maxLength: 8 });
    const policy = fc.record({ low: fc.nat(40), high: fc.nat(60), batch: fc.nat(20) });
    fc.assert(
      fc.property(loads, policy, fc.nat(1_000), (initial, limits, capacity) => {
        const nodes = initial.map((load, index) =>
          node(String.fromCharCode(97 + index), load, { freeCapacity: capacity }),
        );
        const total = initial.reduce((sum, load) => sum + load, 0);
        let transfers = 0;
        for (let settled = false; !settled; ) {
          settled = true;
          for (let index = 0; index < nodes.length; index += 1) {
            const thief = nodes[index] as NodeLoad;
            const plan = planSteal(nodes, limits, thief.node);
            if (plan.kind !== 'steal') continue;
            const from = nodes.findIndex((candidate) => candidate.node === plan.from);
            const source = nodes[from] as NodeLoad;
            expect(plan.moved).toBeLessThanOrEqual(limits.batch);
            expect(plan.moved).toBeLessThanOrEqual((source.load - thief.load) / 2);
            nodes[from] = { ...source, load: source.load - plan.moved, movable: source.movable - plan.moved };
            nodes[index] = {
              ...thief,
              load: thief.load + plan.moved,
              movable: thief.movable + plan.moved,
              freeCapacity: thief.freeCapacity - plan.moved,
            };
            expect((nodes[index] as NodeLoad).load).toBeLessThanOrEqual((nodes[from] as NodeLoad).load);
            transfers += 1;
            settled = false;
          }
          expect(transfers).toBeLessThanOrEqual(total * total + 1);
        }
        expect(nodes.reduce((sum, { load }) => sum + load, 0)).toBe(total);
        for (const { node: name } of nodes) expect(planSteal(nodes, limits, name).kind).toBe('refused');
      }),
    );
  });
});

describe('planLoans', () => {
  const policy = { backlogThreshold: 5, keepFree: 1, batch: 10, maxBorrowed: 8, loanMs: 30_000 };
  const need = (partition: number, changes: Partial<PartitionNeed> = {}): PartitionNeed => ({
    partition,
    freeSlots: 0,
    backlog: 0,
    borrowed: 0,
    ...changes,
  });

  it('lends from who has most to spare to who needs most, at most half of it, for a time', () => {
    const partitions = [
      need(0, { freeSlots: 5 }),
      need(1, { freeSlots: 13 }),
      need(2, { backlog: 6 }),
      need(3, { backlog: 60 }),
    ];
    expect(planLoans(partitions, policy, 1_000)).toEqual([
      { from: 1, to: 3, slots: 6, expiresAtMs: 31_000 },
      { from: 1, to: 2, slots: 3, expiresAtMs: 31_000 },
    ]);
  });

  it.each([
    ['a backlog below the threshold', [need(0, { freeSlots: 9 }), need(1, { backlog: 4 })]],
    ['free slots of its own', [need(0, { freeSlots: 9 }), need(1, { backlog: 9, freeSlots: 1 })]],
    ['a lender with a backlog', [need(0, { freeSlots: 9, backlog: 1 }), need(1, { backlog: 9 })]],
    ['a lender that borrows', [need(0, { freeSlots: 9, borrowed: 1 }), need(1, { backlog: 9 })]],
    ['a lender that has only what it keeps', [need(0, { freeSlots: 1 }), need(1, { backlog: 9 })]],
    ['as much as it may borrow', [need(0, { freeSlots: 9 }), need(1, { backlog: 9, borrowed: 8 })]],
    ['nobody to lend', [need(1, { backlog: 9 })]],
  ] as const)('lends nothing with %s', (_, partitions) => {
    expect(planLoans(partitions, policy, 0)).toEqual([]);
  });

  it('breaks ties by partition', () => {
    const partitions = [
      need(3, { backlog: 9 }),
      need(2, { backlog: 9 }),
      need(1, { freeSlots: 3 }),
      need(0, { freeSlots: 3 }),
    ];
    expect(planLoans(partitions, policy, 0)).toMatchObject([
      { from: 0, to: 2, slots: 1 },
      { from: 1, to: 3, slots: 1 },
    ]);
  });

  it('lends neither more than is there nor to those that do not wait', () => {
    const partition = fc.record({ freeSlots: fc.nat(20), backlog: fc.nat(20), borrowed: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(partition, { maxLength: 8 }), (needs) => {
        const partitions = needs.map((given, index) => ({ partition: index, ...given }));
        const loans = planLoans(partitions, policy, 0);
        for (const { partition: index, freeSlots, backlog, borrowed } of partitions) {
          const lent = loans.filter(({ from }) => from === index).reduce((sum, { slots }) => sum + slots, 0);
          const got = loans.filter(({ to }) => to === index).reduce((sum, { slots }) => sum + slots, 0);
          expect(lent).toBeLessThanOrEqual(Math.max(0, freeSlots - policy.keepFree));
          expect(got).toBeLessThanOrEqual(Math.min(backlog, Math.max(0, policy.maxBorrowed - borrowed)));
          expect(Math.min(lent, got)).toBe(0);
        }
      }),
    );
  });

  it('ends a loan by itself', () => {
    const loan = { from: 0, to: 1, slots: 2, expiresAtMs: 100 };
    expect(liveLoans([loan], 99)).toEqual([loan]);
    expect(liveLoans([loan], 100)).toEqual([]);
  });
});

describe('shareCap', () => {
  it('gives whole shares that add up to the cap', () => {
    expect(shareCap(10, 4)).toEqual([3, 3, 2, 2]);
    fc.assert(
      fc.property(fc.nat(10_000), fc.integer({ min: 1, max: 64 }), (cap, partitions) => {
        const shares = shareCap(cap, partitions);
        expect(shares).toHaveLength(partitions);
        expect(shares.reduce((sum, share) => sum + share, 0)).toBe(cap);
        expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
      }),
    );
  });
});
