import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LendingConfiguration } from '../../lib/core/configuration.ts';
import { LENDING_DEFAULTS } from '../../lib/core/defaults.ts';
import {
  type Demand,
  type Free,
  type LentScope,
  type Loan,
  type LoanRequest,
  loanBalance,
  NO_LOANS,
  planLoans,
  planReturns,
  type Room,
  type Rooms,
  shareCap,
  type Want,
  wantsOf,
} from '../../lib/core/lending.ts';
import { type NodeLoad, planSteal, type StealPolicy } from '../../lib/simulate/model/steal.ts';

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

const LENDING_POLICY: LendingConfiguration = { ...LENDING_DEFAULTS, maxBorrowed: 8 };

const roomsOf = (rooms: Readonly<Record<string, Partial<Room>>>): Rooms =>
  new Map(
    Object.entries(rooms).map(([scope, room]) => [scope, { capacity: 0, held: 0, under: 'whole', ...room }]),
  );

describe('movedBy', () => {
  const loan = (changes: Partial<Loan>): Loan => ({
    loanId: '0-1-0-0',
    from: 0,
    to: 1,
    units: 2,
    scopes: [
      { scope: 'pool', under: '8/2' },
      { scope: 'worker/w', under: 'life-1', fleet: 'farm' },
    ],
    expiresAtMs: 100,
    ...changes,
  });

  it('takes from the lender what it adds to the borrower', () => {
    const loans = [loan({})];
    expect(loanBalance(loans, 0, 99)('pool', '8/2')).toBe(-2);
    expect(loanBalance(loans, 1, 99)('pool', '8/2')).toBe(2);
    expect(loanBalance(loans, 2, 99)('pool', '8/2')).toBe(0);
    expect(loanBalance(loans, 1, 99)('tier/standard', '8/2')).toBe(0);
    expect(loanBalance([], 1, 99)).toBe(NO_LOANS);
    expect(NO_LOANS('pool', '8/2')).toBe(0);
  });

  it('gives neither of them what has ended and was not given back', () => {
    expect(loanBalance([loan({})], 1, 100)('pool', '8/2')).toBe(0);
    expect(loanBalance([loan({})], 0, 100)('pool', '8/2')).toBe(-2);
  });

  it('counts for the borrower only under the cap that it was a part of', () => {
    expect(loanBalance([loan({})], 1, 0)('pool', '4/2')).toBe(0);
    expect(loanBalance([loan({})], 0, 0)('pool', '4/2')).toBe(-2);
  });

  it("is gone with the worker's life", () => {
    expect(loanBalance([loan({})], 1, 0)('worker/w', 'life-2')).toBe(0);
    expect(loanBalance([loan({})], 0, 0)('worker/w', 'life-2')).toBe(0);
    expect(loanBalance([loan({})], 0, 0)('worker/w', 'life-1')).toBe(-2);
  });
});

describe('wantsOf', () => {
  const rooms = roomsOf({
    pool: { capacity: 9, held: 3 },
    'type/resize': { capacity: 2, held: 2 },
    'type/render': { capacity: 2, held: 1 },
    'fleet/images': { capacity: 3, held: 3 },
    'fleet/films': { capacity: 3, held: 0 },
  });
  const resize: Demand = { scopes: ['pool', 'tier/standard', 'type/resize'], fleets: ['images', 'films'] };
  const render: Demand = { scopes: ['pool', 'tier/standard', 'type/render'], fleets: ['images'] };

  it('names what is full, for jobs that lack the same together', () => {
    expect(wantsOf([resize, render, resize, render, render], rooms, 0, LENDING_POLICY)).toEqual([
      { units: 2, scopes: ['type/resize'], fleets: [] },
      { units: 3, scopes: [], fleets: ['images'] },
    ]);
  });

  it('wants nothing for jobs that lack nothing, or for fewer than the threshold', () => {
    const free: Demand = { scopes: ['pool'], fleets: ['films'] };
    expect(wantsOf([free, free, resize], rooms, 0, LENDING_POLICY)).toEqual([]);
  });

  it('wants for a single job where nothing runs that could make room', () => {
    const none = roomsOf({ 'fleet/images': {} });
    expect(wantsOf([{ scopes: ['pool'], fleets: ['images'] }], none, 0, LENDING_POLICY)).toEqual([
      { units: 1, scopes: [], fleets: ['images'] },
    ]);
  });

  it('wants no more than a batch, and than it may borrow in all', () => {
    const many = Array.from({ length: 30 }, () => render);
    expect(wantsOf(many, rooms, 0, { ...LENDING_POLICY, maxBorrowed: 100 })).toMatchObject([{ units: 10 }]);
    expect(wantsOf([...many, resize, resize], rooms, 3, LENDING_POLICY)).toMatchObject([{ units: 5 }]);
    expect(wantsOf(many, rooms, 8, LENDING_POLICY)).toEqual([]);
  });
});

describe('planLoans', () => {
  const rooms = roomsOf({
    pool: { capacity: 20, held: 2 },
    'type/resize': { capacity: 6, held: 1 },
    'fleet/images': { capacity: 3, held: 3 },
    'fleet/films': { capacity: 3, held: 2 },
    'fleet/farm': {
      capacity: 5,
      held: 1,
      under: undefined,
      workers: [
        { workerId: 'one', incarnation: 'a', slots: 2 },
        { workerId: 'two', incarnation: 'b', slots: 3 },
      ],
    },
  });
  const request = (
    partition: number,
    want: Partial<Want>,
    changes: Partial<LoanRequest> = {},
  ): LoanRequest => ({
    partition,
    wants: [{ units: 3, scopes: [], fleets: [], ...want }],
    askedAtMs: 0,
    untilMs: 2_000,
    ...changes,
  });
  const plan = (requests: readonly LoanRequest[]): readonly Loan[] =>
    planLoans({ partition: 0, rooms, requests, loanId: (number) => `loan-${number}` }, LENDING_POLICY, 1_000);

  it('lends half of what is free of every scope that is lacking, for a time', () => {
    expect(plan([request(1, { units: 9, scopes: ['pool', 'type/resize'] })])).toEqual([
      {
        loanId: 'loan-0',
        from: 0,
        to: 1,
        units: 3,
        scopes: [
          { scope: 'pool', under: 'whole' },
          { scope: 'type/resize', under: 'whole' },
        ],
        expiresAtMs: 31_000,
      },
    ]);
  });

  it.each([
    [{ lentShare: 1 }, 5],
    [{ lentShare: 0.25 }, 2],
    [{ lentShare: 0.01 }, 1],
    [{ lentShare: 1, batch: 4 }, 4],
  ])('lends what is declared: %j', (declared, units) => {
    const [loan] = planLoans(
      {
        partition: 0,
        rooms,
        requests: [request(1, { units: 9, scopes: ['pool', 'type/resize'] })],
        loanId: String,
      },
      { ...LENDING_POLICY, ...declared },
      1_000,
    );
    expect(loan?.units).toBe(units);
  });

  it('serves the neediest first, and lends nothing twice', () => {
    const loans = plan([
      request(2, { units: 3, scopes: ['type/resize'] }),
      request(1, { units: 5, scopes: ['type/resize'] }),
    ]);
    expect(loans).toMatchObject([
      { loanId: 'loan-0', to: 1, units: 3 },
      { loanId: 'loan-1', to: 2, units: 1 },
    ]);
    expect(plan([request(2, { scopes: ['pool'] }), request(1, { scopes: ['pool'] })])).toMatchObject([
      { to: 1, units: 3 },
      { to: 2, units: 3 },
    ]);
  });

  it('lends of the fleet that has most to spare', () => {
    expect(plan([request(1, { fleets: ['images', 'films'] })])).toMatchObject([
      { units: 1, scopes: [{ scope: 'fleet/films', under: 'whole' }] },
    ]);
  });

  it('lends of the fleets that it knows, whatever else is asked for', () => {
    expect(plan([request(1, { fleets: ['nobody knows', 'films'] })])).toMatchObject([
      { units: 1, scopes: [{ scope: 'fleet/films' }] },
    ]);
    expect(plan([request(1, { fleets: ['nobody knows'] })])).toEqual([]);
  });

  it("lends slots of one worker's life, of him who has most", () => {
    expect(
      plan([
        request(1, { units: 2, fleets: ['farm'] }),
        request(2, { units: 2, fleets: ['farm'] }),
        request(3, { units: 2, fleets: ['farm'] }),
      ]),
    ).toMatchObject([
      { to: 1, units: 2, scopes: [{ scope: 'worker/two', under: 'b', fleet: 'farm' }] },
      { to: 2, units: 1, scopes: [{ scope: 'worker/one', under: 'a' }] },
      { to: 3, units: 1, scopes: [{ scope: 'worker/one', under: 'a' }] },
    ]);
  });

  it('lends what nothing limits here as if it were there, and moves none of it', () => {
    expect(plan([request(1, { scopes: ['tier/standard', 'pool'] })])).toMatchObject([
      { units: 3, scopes: [{ scope: 'pool' }] },
    ]);
    expect(plan([request(1, { scopes: ['tier/standard'] })])).toEqual([]);
  });

  it.each([
    ['has none free', [request(1, { fleets: ['images'] })]],
    ['was asked too long ago', [request(1, { scopes: ['pool'] }, { untilMs: 1_000 })]],
    ['asked itself', [request(0, { scopes: ['pool'] })]],
  ] as const)('lends nothing when it %s', (_, requests) => {
    expect(plan(requests)).toEqual([]);
  });

  it('lends nothing of a fleet none of whose workers is left', () => {
    const empty = roomsOf({ 'fleet/farm': { capacity: 2, under: undefined } });
    const requests = [request(1, { fleets: ['farm'] })];
    const lender = { partition: 0, rooms: empty, requests, loanId: String };
    expect(planLoans(lender, LENDING_POLICY, 0)).toEqual([]);
  });

  it('never lends more than is free', () => {
    const room = fc.record({ capacity: fc.nat(20), held: fc.nat(20) });
    const want = fc.record({
      units: fc.integer({ min: 1, max: 12 }),
      scopes: fc.subarray(['pool', 'type/resize']),
      fleets: fc.subarray(['images', 'films']),
    });
    fc.assert(
      fc.property(
        fc.record({ pool: room, 'type/resize': room, 'fleet/images': room, 'fleet/films': room }),
        fc.array(fc.array(want, { maxLength: 3 }), { maxLength: 5 }),
        (given, wants) => {
          const own = roomsOf(given);
          const requests = wants.map((of, at) => request(at + 1, {}, { wants: of }));
          const loans = planLoans({ partition: 0, rooms: own, requests, loanId: String }, LENDING_POLICY, 0);
          for (const [scope, { capacity, held }] of own) {
            const lent = loans
              .filter(({ scopes }) => scopes.some((each) => each.scope === scope))
              .reduce((sum, { units }) => sum + units, 0);
            expect(lent).toBeLessThanOrEqual(Math.max(0, capacity - held));
          }
        },
      ),
    );
  });
});

describe('a partition that lacks capacity itself', () => {
  it('lends nothing of the caps and fleets that it wants itself, whatever it has and is asked for', () => {
    const room = fc.record({ capacity: fc.nat(4), held: fc.nat(4) });
    const demands = fc.record({
      scopes: fc.subarray(['pool', 'type/resize']),
      fleets: fc.subarray(['images', 'films'], { minLength: 1 }),
    });
    fc.assert(
      fc.property(
        fc.record({ pool: room, 'type/resize': room, 'fleet/images': room, 'fleet/films': room }),
        fc.array(demands, { maxLength: 6 }),
        fc.array(demands, { maxLength: 4 }),
        (given, waiting, asked) => {
          const own = roomsOf(given);
          const wants = wantsOf(waiting, own, 0, LENDING_POLICY);
          const wanted = new Set(
            wants.flatMap(({ scopes, fleets }) => [...scopes, ...fleets.map((fleet) => `fleet/${fleet}`)]),
          );
          const requests = asked.map((want, at) => ({
            partition: at + 1,
            wants: [{ ...want, units: 3 }],
            askedAtMs: 0,
            untilMs: 2_000,
          }));
          const loans = planLoans({ partition: 0, rooms: own, requests, loanId: String }, LENDING_POLICY, 0);
          const lent = loans.flatMap(({ scopes }) => scopes.map(({ scope }) => scope));
          expect(lent.filter((scope) => wanted.has(scope))).toEqual([]);
        },
      ),
    );
  });
});

describe('planReturns', () => {
  const loan = (loanId: string, units: number, expiresAtMs: number, ...scopes: readonly string[]): Loan => ({
    loanId,
    from: 1,
    to: 0,
    units,
    scopes: scopes.map((scope) => ({ scope, under: 'whole' })),
    expiresAtMs,
  });
  const free: Readonly<Record<string, number>> = { pool: 3, 'type/resize': 0, 'type/render': 1, over: -2 };
  const freeOf = ({ scope }: LentScope): Free => ({ of: scope, units: free[scope] ?? 0 });

  it('gives back what is free of every scope, the first to end at first', () => {
    const [first, last] = [loan('first', 2, 10, 'pool'), loan('last', 2, 20, 'pool')];
    expect(planReturns([last, first], freeOf)).toEqual([
      { loan: first, left: 0 },
      { loan: last, left: 1 },
    ]);
    expect(planReturns([loan('a', 2, 10, 'pool', 'type/render')], freeOf)).toMatchObject([{ left: 1 }]);
  });

  it('keeps what a job holds', () => {
    expect(planReturns([loan('a', 2, 10, 'pool', 'type/resize')], freeOf)).toEqual([]);
    expect(planReturns([loan('a', 2, 10, 'over')], freeOf)).toEqual([]);
  });

  it('asks of each scope what is free of it, the loan included', () => {
    const asked: [string, string][] = [];
    planReturns([loan('a', 2, 10, 'pool', 'over')], (lent, { loanId }) => {
      asked.push([lent.scope, loanId]);
      return freeOf(lent);
    });
    expect(asked).toEqual([
      ['pool', 'a'],
      ['over', 'a'],
    ]);
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
