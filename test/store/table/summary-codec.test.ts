/** The page's item, which every commit writes whole. */
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wholeUnits } from '../../../lib/core/fairness.ts';
import type { Use } from '../../../lib/core/limits.ts';
import type { Ledger } from '../../../lib/store/contract/records.ts';
import { decodeSummary, encodeSummary, plainSummary } from '../../../lib/store/table/codec/summary.ts';
import { itemBytes, writeUnitsOf } from '../../../lib/store/table/metering.ts';
import { summaryKey } from '../../../lib/store/table/schema.ts';
import { EMPTY_SUMMARY, type PartitionSummary } from '../../../lib/store/table/summary.ts';
import { NOW_MS } from '../../fixtures/factories/job.ts';
import { anEstimate } from '../../fixtures/factories/ledger.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';

const pageOf = (ledgers: readonly Ledger[], changes: Partial<PartitionSummary> = {}): PartitionSummary => ({
  ...EMPTY_SUMMARY,
  version: 7,
  ledgers: new Map(ledgers.map((ledger) => [ledger.fairnessKey, ledger])),
  ...changes,
});

/** Costs as learned averages leave them. */
const ledgersOf = (keys: number): readonly Ledger[] =>
  Array.from({ length: keys }, (_, at) => ({
    fairnessKey: `customer-${(at * 17) % keys}`,
    settledCostMs: wholeUnits(50_000 + 1_003.7 * ((at * 31) % 23) + at / 7),
    lastSeenMs: NOW_MS + at * 5_531,
  }));

const anyLedger: fc.Arbitrary<Ledger> = fc.record(
  {
    fairnessKey: fc.string({ unit: 'binary' }),
    settledCostMs: fc.double({ min: 0, max: 2 ** 37, noNaN: true }).map(wholeUnits),
    lastSeenMs: fc.integer({ min: NOW_MS - 1e9, max: NOW_MS }),
  },
  { requiredKeys: ['fairnessKey', 'settledCostMs', 'lastSeenMs'] },
);

describe('a page', () => {
  it('is read as it was written, whatever keys are called and however much it says', () => {
    fc.assert(
      fc.property(fc.uniqueArray(anyLedger, { selector: ({ fairnessKey }) => fairnessKey }), (ledgers) => {
        const reservation = aReservation([{ id: 'a', fairnessKey: '\n\u2401"' }, { id: 'b' }]);
        const page = pageOf(ledgers, {
          estimates: new Map([['t', anEstimate({ type: 't' })]]),
          batches: new Map([['1-1', { settled: new Set([0, 3]) }]]),
          inline: new Map([[reservation.batchId, reservation]]),
        });
        expect(decodeSummary(encodeSummary(0, page, 'c'))).toEqual(page);
        expect(decodeSummary(plainSummary(0, page, 'c'))).toEqual(page);
      }),
    );
  });

  it('of fifty keys is written for one unit, and of a hundred for two', () => {
    for (const [keys, units, plain] of [
      [5, 1, 1],
      [50, 1, 2],
      [100, 2, 4],
    ] as const) {
      const page = pageOf(ledgersOf(keys));
      expect(writeUnitsOf(itemBytes(plainSummary(0, page, 'commit-1')))).toBe(plain);
      expect(writeUnitsOf(itemBytes(encodeSummary(0, page, 'commit-1')))).toBe(units);
    }
  });

  it('keeps when each use of a limit ends, to the millisecond, and little more than a window for each key', () => {
    const usesOf = (at: number): readonly Use[] =>
      Array.from({ length: 22 }, (_, step): Use => [NOW_MS + 3_000 * step, 1 + ((at * step) % 3)]).filter(
        (_, step) => (at * 7 + step * step) % 3 > 0,
      );
    const ledgers = ledgersOf(50);
    const used = ledgers.map(
      (ledger, at): Ledger => ({ ...ledger, uses: new Map([['rate/x', usesOf(at)]]) }),
    );
    const [without, page] = [pageOf(ledgers), pageOf(used)];
    expect(decodeSummary(encodeSummary(0, page, 'c'))).toEqual(page);
    const [bytes, before] = [page, without].map((each) => itemBytes(encodeSummary(0, each, 'c')));
    const count = used.reduce((sum, { uses = new Map() }) => sum + (uses.get('rate/x')?.length ?? 0), 0);
    expect(((bytes ?? 0) - (before ?? 0)) / count).toBeLessThan(0.2);
    const odd = pageOf([], {
      uses: new Map([
        [
          'rate/x',
          [
            [NOW_MS + 1, 3],
            [NOW_MS + 1_667, 0.25],
            [NOW_MS + 86_400_000, 1],
          ],
        ],
        ['budget/x', [[NOW_MS - 1, 7]]],
      ]),
    });
    expect(decodeSummary(encodeSummary(0, odd, 'c'))).toEqual(odd);
  });

  it('says as it is what it can say for one unit', () => {
    const page = pageOf(ledgersOf(5));
    expect(encodeSummary(0, page, 'c')).toEqual(plainSummary(0, page, 'c'));
  });

  it.each([
    ['text where bytes should be', 'abc'],
    ['bytes that are no deflate', new Uint8Array([1, 2, 3])],
    ['more than a page can say', undefined],
  ])('that is damaged is refused by name: %s', (_what, bytes) => {
    const z = bytes ?? deflateRawSync('x'.repeat(5 * 1024 * 1024));
    const item = { ...encodeSummary(0, pageOf(ledgersOf(50)), 'c'), z };
    expect(() => decodeSummary(item)).toThrow(
      expect.objectContaining({
        name: 'MalformedItemError',
        key: `${summaryKey(0).pk} ${summaryKey(0).sk}`,
        attribute: 'z',
      }),
    );
  });

  it.each([
    ['a key without a cost', [NOW_MS, ['a', 'b'], [1], [0, 0]]],
    ['a key that is no text', [NOW_MS, [7], [1], [0]]],
    ['a cost that is none', [NOW_MS, ['a'], ['x'], [0]]],
    ['an instant that is none', [NOW_MS, ['a'], [1], ['x']]],
  ])('whose ledgers are damaged is refused by name: %s', (_what, ledgers) => {
    const item = { ...plainSummary(0, pageOf([]), ''), k: JSON.stringify(ledgers) };
    expect(() => decodeSummary(item)).toThrow(
      expect.objectContaining({ name: 'MalformedItemError', attribute: 'k' }),
    );
  });
});
