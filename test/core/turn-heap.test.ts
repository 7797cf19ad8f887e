import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { FAIRNESS_DEFAULTS } from '../../lib/core/defaults.ts';
import { Ledgers } from '../../lib/core/fairness.ts';
import { ABSENT, IN_CLASS_HEAPS, IN_TIER_HEAP, TierHeap } from '../../lib/core/turn-heap.ts';
import { FEWER_RUNS } from './random-pass.ts';

// More than come forward whatever their shares.
const KEYS = 100;

const many = (maxLength: number) => ({ maxLength, size: 'max' as const });

vi.setConfig({ testTimeout: 120_000 });

describe('keys in turn', () => {
  it('have the least share first, though rises are not told, and know whether it is shared', () => {
    const operation = fc.record({
      kind: fc.constantFrom(
        'push',
        'push',
        'rise',
        'rise',
        'set',
        'set',
        'charge',
        'charge',
        'removeFirst',
        'setAside',
        'reset',
      ),
      key: fc.nat(KEYS - 1),
      share: fc.nat(12),
    });
    fc.assert(
      fc.property(fc.array(fc.nat(40), many(KEYS)), fc.array(operation, many(250)), (start, operations) => {
        const ledgers = new Ledgers(FAIRNESS_DEFAULTS);
        for (let key = 0; key < KEYS; key += 1) ledgers.open(`k${key}`, 0);
        const turns = new TierHeap(ledgers);
        const inTurn = new Set<number>();
        const aside = new Set<number>();
        start.forEach((share, key) => {
          ledgers.setCost(key, share);
          turns.push(key);
          inTurn.add(key);
        });
        for (const { kind, key, share } of operations) {
          if (kind === 'push' && !inTurn.has(key)) {
            turns.push(key);
            aside.delete(key);
            inTurn.add(key);
          } else if (kind === 'rise') {
            ledgers.setCost(key, ledgers.costOf(key) + share);
          } else if (kind === 'set') {
            ledgers.setCost(key, share);
            if (inTurn.has(key)) turns.repriced(key);
          } else if (kind === 'charge') {
            const first = turns.first();
            if (first !== -1) {
              ledgers.setCost(first, ledgers.costOf(first) + share);
              turns.repriced(first);
            }
          } else if (kind === 'reset' && share === 0) {
            ledgers.reset();
            turns.allRepriced();
          } else if (kind === 'removeFirst' || kind === 'setAside') {
            const first = turns.first();
            if (first !== -1) {
              turns.removeFirst(kind === 'setAside' ? IN_CLASS_HEAPS : ABSENT);
              inTurn.delete(first);
              if (kind === 'setAside') aside.add(first);
            }
          }
          const first = turns.first();
          const least = Math.min(...[...inTurn].map((other) => ledgers.shareOf(other)));
          expect(first === -1 ? Infinity : ledgers.shareOf(first)).toBe(least);
          if (first !== -1) {
            const equal = [...inTurn].filter((other) => ledgers.shareOf(other) === least).length;
            expect(turns.isTied()).toBe(equal > 1);
          }
          const places = Array.from({ length: KEYS }, (_, other) => turns.stateOf(other));
          expect(places.join()).toBe(
            places
              .map((_, other) =>
                inTurn.has(other) ? IN_TIER_HEAP : aside.has(other) ? IN_CLASS_HEAPS : ABSENT,
              )
              .join(),
          );
        }
      }),
      { numRuns: Math.ceil(FEWER_RUNS / 5) },
    );
  });

  it('are aside until told otherwise', () => {
    const ledgers = new Ledgers(FAIRNESS_DEFAULTS);
    const turns = new TierHeap(ledgers);
    turns.push(ledgers.open('k', 0));
    expect(turns.stateOf(0)).toBe(IN_TIER_HEAP);
    expect(turns.first()).toBe(0);
    turns.removeFirst(IN_CLASS_HEAPS);
    expect(turns.stateOf(0)).toBe(IN_CLASS_HEAPS);
    turns.endAside(0);
    expect(turns.stateOf(0)).toBe(ABSENT);
    expect(turns.stateOf(1_000)).toBe(ABSENT);
  });
});
