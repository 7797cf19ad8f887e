/** What is kept of a page's ledgers beside them says what going through all of them says. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  changedLedgers,
  ledgerBytes,
  nextLedgers,
  type SummaryLedgers,
} from '../../../lib/store/table/summary-ledgers.ts';
import { aLedger } from '../../fixtures/factories/ledger.ts';
import { expectSame } from '../../fixtures/same.ts';
import { timesOf } from '../../fixtures/times.ts';

const EMPTY: SummaryLedgers = { version: 0, ledgers: new Map() };

/** The same ledgers, of which nothing is kept. */
const anew = (page: SummaryLedgers): SummaryLedgers => ({ ...page, ledgers: new Map(page.ledgers) });

it.each([
  ['few keys', 20, ''],
  ['keys of which a base is written', 400, ''],
  ['keys that a page has no room for', 40, 'x'.repeat(20_000)],
])('however they were charged: %s', (_, count, suffix) => {
  const charge = fc.array(fc.nat(count - 1), { maxLength: 60, size: 'max' });
  fc.assert(
    fc.property(fc.array(charge, { minLength: 1, maxLength: 30, size: 'max' }), (commits) => {
      let page = EMPTY;
      let costMs = 0;
      for (const charged of commits) {
        const ledgers = [...new Set(charged)].map((key) => {
          costMs += 1;
          return aLedger({ fairnessKey: `key-${key}${suffix}`, settledCostMs: costMs });
        });
        const change = nextLedgers(page, ledgers);
        expectSame(change, nextLedgers(anew(page), ledgers));
        const { base, gone, chargedMean } = change;
        page = {
          version: page.version + 1,
          ledgers: change.ledgers,
          base: base ?? page.base,
          gone: base === undefined ? gone : new Set(),
          chargedMean,
        };
        // In the same order, too.
        expectSame([...changedLedgers(page)], [...changedLedgers(anew(page))]);
      }
    }),
    // To shrink hundreds of charges takes a minute.
    { numRuns: timesOf(40), endOnFailure: true },
  );
});

it('a base is written where many keys are charged, and holds all of them', () => {
  let page = EMPTY;
  let bases = 0;
  for (let version = 0; version < 60; version += 1) {
    const ledgers = Array.from({ length: 50 }, (_, at) =>
      aLedger({ fairnessKey: `key-${(version * 50 + at) % 1_000}`, settledCostMs: version }),
    );
    const { base, gone, chargedMean, ledgers: after } = nextLedgers(page, ledgers);
    page = { version: version + 1, ledgers: after, base: base ?? page.base, gone, chargedMean };
    if (base === undefined) continue;
    bases += 1;
    expect(base.ledgers).toEqual(after);
    expect(changedLedgers(page).size).toBe(0);
  }
  expect(bases).toBeGreaterThan(0);
  expect(bases).toBeLessThan(30);
  expect([...page.ledgers.values()].reduce((sum, each) => sum + ledgerBytes(each), 0)).toBeGreaterThan(
    20_000,
  );
});

it('what leaves a page that is full is not written as changed since its base', () => {
  let page = EMPTY;
  let costMs = 0;
  const charge = (keys: readonly string[]) => {
    const ledgers = keys.map((fairnessKey) => {
      costMs += 1;
      return aLedger({ fairnessKey, settledCostMs: costMs });
    });
    const before = page;
    const change = nextLedgers(before, ledgers);
    const { base, gone, chargedMean } = change;
    page = {
      version: before.version + 1,
      ledgers: change.ledgers,
      base: base ?? before.base,
      gone: base === undefined ? gone : undefined,
      chargedMean,
    };
    const doneAnew = (): typeof change => nextLedgers(anew(before), ledgers);
    return { spilled: change.spilled, isBase: base !== undefined, doneAnew };
  };
  // Short names fill the page, then long ones come: to make room for each of these, many leave.
  for (let from = 0; from < 17_000; from += 100)
    charge(Array.from({ length: 100 }, (_, at) => `short-${from + at}`));
  let left = 0;
  for (let at = 0; at < timesOf(160); at += 1) {
    const { spilled, isBase, doneAnew } = charge([`${at}/`.padEnd(500, 'x')]);
    expect(isBase).toBe(doneAnew().base !== undefined);
    left += spilled.length;
    const since = changedLedgers(page);
    expect(spilled.filter(({ fairnessKey }) => since.has(fairnessKey))).toEqual([]);
    if (at % 10 === 0) expect([...since.keys()]).toEqual([...changedLedgers(anew(page)).keys()]);
  }
  expect(left).toBeGreaterThan(0);
});
