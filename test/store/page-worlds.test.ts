/** Charges with rude names, departures and returns: no charge is lost, and what is stored is what goes on. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { LEDGERS_BYTES_MAX, LEDGERS_SINCE_BYTES_MAX } from '../../lib/store/bounds.ts';
import {
  decodeLedgerBase,
  decodePage,
  encodeLedgerBase,
  encodePage,
} from '../../lib/store/dynamodb/codec/page.ts';
import { itemBytes } from '../../lib/store/metering.ts';
import { EMPTY_PAGE, nextPage, type Page } from '../../lib/store/page.ts';
import { ledgerBytes, ledgersSince } from '../../lib/store/page-ledgers.ts';
import type { Ledger } from '../../lib/store/records.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { type Dice, diceOf, seeded } from '../simulation/random.ts';

const TEXTS = ['x', '"', '\\', '\n', '/', '\u0001', 'é', '漢', '😀', '%', '#', ' ', '~', '\uffff'] as const;
const ITEM_BYTES_MAX = 400 * 1_024;

/** So many names, up to so long. */
function namesBy(dice: Dice, count: number, long: number): readonly [string, ...string[]] {
  const nameOf = (at: number): string => {
    const text = dice.chance(0.5) ? 'x' : dice.pick(TEXTS);
    const most = dice.whole(0, long);
    let name = `${at}`;
    while (name.length < most && Buffer.byteLength(name + text) <= 512) name += text;
    return name;
  };
  return [nameOf(0), ...Array.from({ length: count - 1 }, (_, at) => nameOf(at + 1))];
}

function ledgerBy(dice: Dice, fairnessKey: string, lastSeenMs: number): Ledger {
  return {
    fairnessKey,
    settledCostMs: dice.whole(0, 1e9),
    lastSeenMs,
  };
}

const bytesOf = (ledgers: Iterable<Ledger>): number =>
  [...ledgers].reduce((sum, each) => sum + ledgerBytes(each), 0);

/** The page after these charges, and what a reader finds. */
function charged(page: Page, ledgers: readonly Ledger[]) {
  const change = nextPage(page, aCommit({ ledgers }), new Map(), '');
  const { base } = change.page;
  const baseItem = base === undefined ? undefined : encodeLedgerBase(0, base);
  const item = encodePage(0, change.page, 'commit-1');
  for (const each of [item, ...(baseItem === undefined ? [] : [baseItem])])
    expect(itemBytes(each)).toBeLessThanOrEqual(ITEM_BYTES_MAX);
  const stored = decodePage(item, baseItem && decodeLedgerBase(baseItem));
  return { change, stored };
}

/** In an order, so that it can be compared. */
const inOrder = ({ change: { page, spilled, base } }: ReturnType<typeof charged>) => ({
  ledgers: [...page.ledgers],
  gone: page.gone,
  spilled,
  isBase: base !== undefined,
});

function play(seed: number): void {
  const dice = diceOf(seeded(seed));
  const names = namesBy(dice, dice.pick([3, 50, 400, 1_500]), dice.pick([0, 10, 120, 400]));
  const items = new Map<string, Ledger>();
  const all = new Map<string, Ledger>();
  let page: Page = EMPTY_PAGE;
  for (let commits = 0; commits < 30; commits += 1) {
    const nameOf = (): string =>
      dice.chance(0.3) ? (names[Math.floor(names.length * dice.between(0, 1) ** 4)] ?? '') : dice.pick(names);
    const keys = new Set(Array.from({ length: dice.pick([0, 1, 5, 40, 90]) }, nameOf));
    const ledgers = [...keys].map((key) => ledgerBy(dice, key, NOW_MS + commits));
    const after = charged(page, ledgers);
    const anew = charged({ ...page, ledgers: new Map(page.ledgers) }, ledgers);
    expect(inOrder(after)).toEqual(inOrder(anew));
    ({ page } = after.change);
    // Each is as it was before the commit.
    expect(after.change.spilled.filter(({ fairnessKey }) => keys.has(fairnessKey))).toEqual([]);
    for (const ledger of ledgers) all.set(ledger.fairnessKey, ledger);
    for (const ledger of after.change.spilled) items.set(ledger.fairnessKey, ledger);
    if (commits % 10 === 9)
      expect([...all.keys()].map((key) => page.ledgers.get(key) ?? items.get(key))).toEqual([
        ...all.values(),
      ]);
    expect(bytesOf(page.ledgers.values())).toBeLessThanOrEqual(LEDGERS_BYTES_MAX);
    expect(bytesOf(ledgersSince(page).values())).toBeLessThanOrEqual(LEDGERS_SINCE_BYTES_MAX);
    expect([...after.stored.ledgers]).toEqual([...page.ledgers]);
    const next = ledgers.slice(0, 3);
    expect(inOrder(charged(after.stored, next))).toEqual(inOrder(charged(page, next)));
    // Another process goes on now and then.
    if (commits % 7 === 3) page = after.stored;
  }
}

it('are what their pages say, in whatever world', () => {
  fc.assert(fc.property(fc.integer({ min: 0 }), play), { numRuns: 5, endOnFailure: true });
});
