import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Fleets } from '../../lib/core/capacity.ts';
import { SlotPool } from '../../lib/simulate/model/slot-pool.ts';
import { FEWER_RUNS } from './random-pass.ts';

type Operation =
  | { readonly op: 'register'; readonly worker: string; readonly types: readonly (readonly string[])[] }
  | { readonly op: 'unregister'; readonly worker: string }
  | { readonly op: 'acquire'; readonly type: string }
  | { readonly op: 'release'; readonly slot: number };

const types = ['a', 'b', 'c'];
const workers = ['w1', 'w2', 'w3'];
const operations: fc.Arbitrary<readonly Operation[]> = fc.array(
  fc.oneof(
    fc.record({
      op: fc.constant('register' as const),
      worker: fc.constantFrom(...workers),
      types: fc.array(fc.array(fc.constantFrom(...types), { minLength: 1, maxLength: 4 }), { maxLength: 3 }),
    }),
    fc.record({ op: fc.constant('unregister' as const), worker: fc.constantFrom(...workers) }),
    fc.record({ op: fc.constant('acquire' as const), type: fc.constantFrom(...types, 'nothing') }),
    fc.record({ op: fc.constant('release' as const), slot: fc.nat(25) }),
  ),
  { maxLength: 40 },
);

describe('the slot pool', () => {
  it('agrees with a plain list of slots after any operations', () => {
    fc.assert(
      fc.property(operations, (list) => {
        const pool = new SlotPool();
        let model: { id: number; worker: string; types: Set<string>; free: boolean }[] = [];
        let nextId = 0;
        for (const operation of list) {
          switch (operation.op) {
            case 'register': {
              // Ids fall, so that the lowest is not the first.
              const slots = operation.types.map((own) => {
                nextId += 1;
                return { id: nextId % 2 === 0 ? nextId : 1_000 - nextId, types: own };
              });
              pool.register(operation.worker, slots);
              model = model.filter((slot) => slot.worker !== operation.worker);
              for (const { id, types: own } of slots) {
                model.push({ id, worker: operation.worker, types: new Set(own), free: true });
              }
              break;
            }
            case 'unregister': {
              const busy = model.filter((slot) => slot.worker === operation.worker && !slot.free);
              expect([...pool.unregister(operation.worker)].sort()).toEqual(
                busy.map((slot) => slot.id).sort(),
              );
              model = model.filter((slot) => slot.worker !== operation.worker);
              break;
            }
            case 'acquire': {
              const best = model
                .filter((slot) => slot.free && slot.types.has(operation.type))
                .sort((a, b) => a.types.size - b.types.size || a.id - b.id)[0];
              expect(pool.choose(operation.type)).toBe(best?.id);
              expect(pool.acquire(operation.type)).toBe(best?.id);
              if (best !== undefined) best.free = false;
              break;
            }
            case 'release': {
              const slot = model.find((other) => other.id === operation.slot);
              expect(pool.release(operation.slot)).toBe(slot !== undefined && !slot.free);
              if (slot !== undefined) slot.free = true;
              break;
            }
          }
          const free = model.filter((slot) => slot.free);
          expect(pool.size).toBe(model.length);
          expect(pool.freeSlots()).toEqual(free.map((slot) => slot.id).sort((a, b) => a - b));
          for (const type of types) {
            const count = free.filter((slot) => slot.types.has(type)).length;
            expect(pool.capacity(type)).toBe(count);
            expect(pool.freeByType().get(type)).toBe(count === 0 ? undefined : count);
          }
        }
      }),
      { numRuns: FEWER_RUNS },
    );
  });
});

describe('fleets', () => {
  const make = (): Fleets =>
    new Fleets(
      [
        { fleet: 'wide', types: ['a', 'b', 'c', 'c'], slots: 2 },
        { fleet: 'pair', types: ['b', 'a'], slots: 1 },
        { fleet: 'other', types: ['a', 'c'], slots: 1 },
        { fleet: 'only', types: ['a', 'a'], slots: 1 },
        { fleet: 'later', types: ['a', 'unconfigured'], slots: null },
      ],
      ['a', 'b', 'c', 'd'],
    );

  it('take the fleet with the fewest types first, of equals the one configured first', () => {
    const fleets = make();
    const order: (string | undefined)[] = [];
    for (let fleet = fleets.choose(0); fleet !== -1; fleet = fleets.choose(0)) {
      order.push(fleets.names[fleet]);
      fleets.take(fleet);
    }
    expect(order).toEqual(['only', 'pair', 'other', 'wide', 'wide']);
    expect(fleets.namesFor(0)).toEqual(['only', 'pair', 'other', 'later', 'wide']);
    expect(fleets.namesFor(3)).toEqual([]);
    expect(fleets.namesFor(9)).toEqual([]);
  });

  it('count room by type over all fleets', () => {
    const fleets = make();
    const rooms = (): readonly number[] => [
      fleets.room,
      ...[0, 1, 2, 3, 9].map((type) => fleets.roomOfType(type)),
    ];
    expect(rooms()).toEqual([5, 5, 3, 3, 0, 0]);
    fleets.take(0);
    expect(rooms()).toEqual([4, 4, 2, 2, 0, 0]);
    fleets.setSlots(4, 3);
    expect(rooms()).toEqual([7, 7, 2, 2, 0, 0]);
    fleets.setCap(0, 1);
    expect(rooms()).toEqual([6, 6, 1, 1, 0, 0]);
    fleets.setCap(0, null);
    fleets.give(0);
    expect(rooms()).toEqual([8, 8, 3, 3, 0, 0]);
    expect([
      fleets.roomOf(0),
      fleets.roomOf(4),
      fleets.roomOf(77),
      fleets.busyOf(0),
      fleets.busyOf(77),
    ]).toEqual([2, 3, 0, 0, 0]);
  });

  it('have no room while more runs than they have slots for, and none is lost when it ends', () => {
    const fleets = make();
    fleets.take(3);
    fleets.take(3);
    expect([fleets.roomOf(3), fleets.busyOf(3)]).toEqual([0, 2]);
    fleets.give(3);
    expect(fleets.roomOf(3)).toBe(0);
    fleets.give(3);
    expect(fleets.roomOf(3)).toBe(1);
  });

  it('have no type and no fleet where none is asked for', () => {
    const fleets = make();
    expect([fleets.choose(3), fleets.choose(9)]).toEqual([-1, -1]);
  });

  it('count exactly when slots are without limit', () => {
    const fleets = new Fleets(
      [
        { fleet: 'one', types: ['a'], slots: Number.POSITIVE_INFINITY },
        { fleet: 'two', types: ['a'], slots: Number.MAX_SAFE_INTEGER },
      ],
      ['a'],
    );
    const before = fleets.roomOfType(0);
    fleets.take(fleets.choose(0));
    expect(fleets.roomOfType(0)).toBe(before - 1);
    fleets.setCap(0, Number.POSITIVE_INFINITY);
    expect(fleets.roomOfType(0)).toBe(before - 1);
  });
});
