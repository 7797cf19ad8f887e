import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Item } from '../../lib/store/dynamodb/codec/attributes.ts';
import {
  decodeLedgerBase,
  decodePage,
  encodeLedgerBase,
  encodePage,
  isOfBase,
} from '../../lib/store/dynamodb/codec/page.ts';
import { itemBytes } from '../../lib/store/metering.ts';
import {
  asMarked,
  EMPTY_PAGE,
  isNamed,
  isSafeInParts,
  isVoid,
  type PageTurn,
  reservationsIn,
  turnPage,
} from '../../lib/store/page.ts';
import type { Ledger, Reservation } from '../../lib/store/records.ts';
import type { Commit } from '../../lib/store/requests.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';
import { aReservation } from '../fixtures/factories/reservation.ts';
import { expectSame } from '../fixtures/same.ts';
import { timesOf } from '../fixtures/times.ts';
import { seeded } from '../simulation/random.ts';

/** One pass: ledgers it charges, places it settles, whether it reserves, whether it tidies afterwards. */
const passes = fc.array(
  fc.record({
    charged: fc.uniqueArray(fc.nat(199), { maxLength: 45 }),
    settled: fc.array(fc.tuple(fc.nat(5), fc.nat(9)), { maxLength: 8 }),
    reserves: fc.boolean(),
    places: fc.oneof(
      { arbitrary: fc.constant(1), weight: 3 },
      { arbitrary: fc.integer({ min: 1, max: 10 }), weight: 3 },
      { arbitrary: fc.constant(50), weight: 3 },
      // So many have no room in the page.
      { arbitrary: fc.constant(330), weight: 1 },
    ),
    afterMs: fc.constantFrom(100, 100, 40_000),
    tidies: fc.boolean(),
    postponed: fc.option(fc.nat(5)),
    isRefused: fc.boolean(),
    isEarlier: fc.nat(9).map((chance) => chance === 0),
  }),
  { maxLength: 25 },
);

const placesOf = (reservations: Iterable<Reservation>): readonly string[] =>
  [...reservations].flatMap(({ batchId, jobs }) => Array.from(jobs.keys(), (at) => `${batchId}/${at}`));

/** Places that are held before a commit and after it. */
function placesIn(
  before: ReadonlyMap<string, Reservation>,
  after: ReadonlyMap<string, Reservation>,
): readonly string[] {
  const held = new Set(placesOf(after.values()));
  return placesOf(before.values()).filter((place) => held.has(place));
}

describe('a page', () => {
  it('means what every ledger and every reservation would, each in an item of its own', () => {
    fc.assert(
      fc.property(passes, (all) => {
        let page = EMPTY_PAGE;
        let base: Item | undefined;
        const own = new Map<string, Ledger>();
        const batches = new Map<string, Reservation>();
        const follows = new Map<string, number>();
        // Items that were put before a page which was refused: by the turn that it followed.
        const unnamed = new Map<string, number>();
        // What it all means: the naive way.
        const ledgers = new Map<string, Ledger>();
        const meant = new Map<string, Reservation>();
        let cost = 0;
        let nowMs = 0;
        for (const {
          charged,
          settled,
          reserves,
          places,
          afterMs,
          tidies,
          postponed,
          isRefused,
          isEarlier,
        } of all) {
          nowMs += afterMs;
          const before = { page, batches: new Map(batches), meant: new Map(meant) };
          const live = [...meant.values()];
          const drop = new Map<string, { reservation: Reservation; positions: number[] }>();
          for (const [at, position] of settled) {
            const reservation = live[at];
            if (!reservation?.jobs.has(position)) continue;
            const known = drop.get(reservation.batchId) ?? { reservation, positions: [] };
            if (!known.positions.includes(position)) known.positions.push(position);
            drop.set(reservation.batchId, known);
          }
          const later = postponed === null ? undefined : live[postponed];
          const commit: Commit = aCommit({
            ledgers: charged.map((key) => {
              cost += 1;
              return aLedger({ fairnessKey: `customer-${key}`, settledCostMs: cost });
            }),
            drop: [...drop.values()],
            postpone:
              later === undefined || drop.has(later.batchId) ? [] : [{ reservation: later, checkAtMs: cost }],
            reserve: reserves
              ? [
                  aReservation(
                    Array.from({ length: places }, (_, at) => ({ id: `job-${at}` })),
                    {
                      reservedAtMs: nowMs,
                    },
                  ),
                ]
              : [],
          });
          const turn = turnPage(page, commit, batches, 1, follows);
          if (isRefused && turn.ahead.length > 0) {
            for (const { batchId } of turn.ahead) unnamed.set(batchId, page.turn);
            for (const { batchId } of turn.ahead)
              expect([isNamed(page, batchId), isVoid(page, batchId, page.turn)]).toEqual([false, false]);
            continue;
          }
          const item = encodePage(0, turn.page, '');
          const [old, written] = [base, turn.base && encodeLedgerBase(0, turn.base)];
          base = written ?? base;
          page = decodePage(item, base && decodeLedgerBase(base));
          expect(page).toEqual(turn.page);
          expect([...page.ledgers.keys()]).toEqual([...turn.page.ledgers.keys()]);
          // Whoever reads one of the two before the commit, and the other one after it, sees that.
          if (written !== undefined) {
            expect(isOfBase(item, old && decodeLedgerBase(old))).toBe(false);
            if (old !== undefined)
              expect(isOfBase(encodePage(0, before.page, ''), decodeLedgerBase(written))).toBe(false);
          }
          for (const ledger of turn.spilled) own.set(ledger.fairnessKey, ledger);
          for (const { batchId } of turn.ahead) follows.set(batchId, before.page.turn);
          for (const reservation of [...turn.ahead, ...turn.reserved, ...turn.absorbed]) {
            if (reservation.jobs.size > 0) batches.set(reservation.batchId, reservation);
            else batches.delete(reservation.batchId);
          }
          if (tidies) {
            for (const [batchId, each] of batches)
              if (!page.inline.has(batchId) && asMarked(each, page) === undefined) batches.delete(batchId);
          }

          // No page names what a refused one would have named; and all that holds anything is named, or counts by itself.
          for (const [batchId, turnBefore] of unnamed)
            expect([isNamed(page, batchId), isVoid(page, batchId, turnBefore)]).toEqual([false, true]);
          for (const [batchId, each] of batches)
            if (follows.has(batchId) && asMarked(each, page) !== undefined)
              expect(page.named?.has(batchId)).toBe(true);
          // It knows nothing of names.
          if (isEarlier) {
            const { named: _, ...others } = page;
            page = others;
          }

          for (const ledger of commit.ledgers) ledgers.set(ledger.fairnessKey, ledger);
          for (const { reservation, positions } of commit.drop) {
            const jobs = new Map([...reservation.jobs].filter(([position]) => !positions.includes(position)));
            if (jobs.size === 0) meant.delete(reservation.batchId);
            else meant.set(reservation.batchId, { ...reservation, jobs });
          }
          for (const { reservation, checkAtMs } of commit.postpone) {
            meant.set(reservation.batchId, { ...reservation, checkAtMs });
          }
          for (const reservation of commit.reserve) meant.set(reservation.batchId, reservation);

          for (const [key, ledger] of ledgers) expect(page.ledgers.get(key) ?? own.get(key)).toEqual(ledger);
          const seen = reservationsIn(page, batches.values());
          expect(new Map(seen.map((each) => [each.batchId, each]))).toEqual(meant);
          expect(seen).toHaveLength(meant.size);
          expect(itemBytes(encodePage(0, page, ''))).toBeLessThan(10_240);
          // Whoever reads while it is written may see the page before and the items after it, or the other way round.
          for (const mixed of [
            reservationsIn(before.page, batches.values()),
            reservationsIn(page, before.batches.values()),
          ])
            expect(placesOf(mixed)).toEqual(expect.arrayContaining([...placesIn(before.meant, meant)]));
        }
      }),
    );
  });

  it('keeps what whole types cost, and leaves what single resources cost to items of their own', () => {
    const ofType = anEstimate();
    const ofResource = anEstimate({ resourceId: 'photos' });
    const { page, estimates } = turnPage(
      EMPTY_PAGE,
      aCommit({ estimates: [ofType, ofResource] }),
      new Map(),
      1,
    );
    expect([...page.estimates.values()]).toEqual([ofType]);
    expect(estimates).toEqual([ofResource]);
  });
});

describe('the ledgers of a page', () => {
  const KEYS = 1_000;

  it('that have left it are not what its base says of them, until they are charged again', () => {
    const random = seeded(7);
    const own = new Map<string, Ledger>();
    const charged = new Map<string, Ledger>();
    let page = EMPTY_PAGE;
    let base: Item | undefined;
    let left = 0;
    let back = 0;
    for (let commits = 0; commits < timesOf(150); commits += 1) {
      // Of so long names, 740 have room.
      const names = new Set(
        Array.from({ length: 60 }, () => `${Math.floor(random() * 900)}/`.padEnd(480, 'n')),
      );
      const ledgers = Array.from(names, (fairnessKey) => aLedger({ fairnessKey, settledCostMs: commits }));
      for (const ledger of ledgers) charged.set(ledger.fairnessKey, ledger);
      const before = page.gone ?? new Set();
      const turn = turnPage(page, aCommit({ ledgers }), new Map(), 1);
      for (const ledger of turn.spilled) own.set(ledger.fairnessKey, ledger);
      base = turn.base === undefined ? base : encodeLedgerBase(0, turn.base);
      page = decodePage(encodePage(0, turn.page, ''), base && decodeLedgerBase(base));
      expect(page).toEqual(turn.page);
      const toldOf = ([key]: readonly [string, Ledger]): Ledger | undefined =>
        page.ledgers.get(key) ?? own.get(key);
      expect([...charged].filter((each) => !isDeepStrictEqual(toldOf(each), each[1]))).toEqual([]);
      for (const key of page.gone ?? []) expect(page.ledgers.has(key)).toBe(false);
      left += page.gone?.size ?? 0;
      back += [...before].filter((key) => page.ledgers.has(key)).length;
      // Whoever has no base, has what was charged since, and nobody's ledger twice.
      expect(decodePage(encodePage(0, page, '')).gone).toBeUndefined();
    }
    expect(left).toBeGreaterThan(100);
    expect(back).toBeGreaterThan(10);
  });

  const pages = (commits: number, chargedOf: (at: number) => readonly number[]): readonly PageTurn[] => {
    const turns: PageTurn[] = [];
    let page = turnPage(EMPTY_PAGE, aCommit({}), new Map(), 1).page;
    let base: Item | undefined;
    for (let at = 0; at < commits; at += 1) {
      const ledgers = chargedOf(at).map((key) =>
        aLedger({ fairnessKey: `customer-${key}`, settledCostMs: at }),
      );
      const turn = turnPage(page, aCommit({ ledgers }), new Map(), 1);
      base = turn.base === undefined ? base : encodeLedgerBase(0, turn.base);
      page = decodePage(encodePage(0, turn.page, 'commit-1'), base && decodeLedgerBase(base));
      // As it was stored, whatever of it stands where.
      expectSame([...page.ledgers], [...turn.page.ledgers]);
      turns.push(turn);
    }
    return turns;
  };
  const bytesOf = (turns: readonly PageTurn[]): readonly number[] =>
    turns.map(({ page }) => itemBytes(encodePage(0, page, 'commit-1')));
  const some = (count: number, at: number): readonly number[] =>
    Array.from({ length: count }, (_, place) => (at * count + place) % KEYS);

  it.each([
    ['one', 1, 1_024, 1 / 30],
    ['a dozen', 12, 2_048, 1 / 10],
    ['sixty', 60, 6_144, 1 / 4],
  ])(
    'are written as they change: a thousand keys, %s in each commit',
    (_what, count, bytesMost, basesMost) => {
      const met = KEYS / 10;
      const turns = pages(met + 300, (at) => some(at < met ? 10 : count, at)).slice(met);
      expect(turns.at(-1)?.page.ledgers.size).toBeGreaterThan(KEYS - 100);
      expect(Math.max(...bytesOf(turns))).toBeLessThanOrEqual(bytesMost);
      expect(turns.filter(({ base }) => base !== undefined).length / turns.length).toBeLessThan(basesMost);
      // No item of their own: neither is read, nor paid for.
      expect(turns.flatMap(({ spilled }) => spilled)).toEqual([]);
    },
  );

  it('stand in the page alone while they are few', () => {
    const turns = pages(200, (at) => [at % 50]);
    expect(turns.filter(({ base }) => base !== undefined)).toEqual([]);
    expect(Math.max(...bytesOf(turns))).toBeLessThanOrEqual(1_024);
  });
});

describe('a commit that others may read in parts', () => {
  const alone = { page: EMPTY_PAGE, spilled: [], estimates: [], ahead: [], reserved: [], absorbed: [] };
  const loan = {
    loanId: 'loan',
    from: 0,
    to: 1,
    units: 1,
    scopes: [{ scope: 'pool', under: '8/2' }],
    expiresAtMs: 1,
  };

  it.each([
    ['the page alone', true, {}, {}],
    ['the base of its ledgers', true, { base: { turn: 1, ledgers: new Map() } }, {}],
    ['what a resource costs', true, { estimates: [anEstimate({ resourceId: 'r' })] }, {}],
    ['a reservation', false, { reserved: [aReservation()] }, {}],
    ['a reservation whose item is put before the page', false, { ahead: [aReservation()] }, {}],
    ['a reservation that says by itself what is left of it', false, { absorbed: [aReservation()] }, {}],
    ['a ledger that leaves the page', false, { spilled: [aLedger()] }, {}],
    ['a loan', false, {}, { lend: [loan] }],
    ['a loan that ends', false, {}, { giveBack: [{ loan, left: 0 }] }],
  ])('of %s: %s', (_what, isSafe, turn, commit) => {
    expect(isSafeInParts({ ...alone, ...turn }, aCommit(commit))).toBe(isSafe);
  });
});
