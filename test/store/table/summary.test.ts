import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Ledger, Reservation } from '../../../lib/store/contract/records.ts';
import type { Commit } from '../../../lib/store/contract/requests.ts';
import type { Item } from '../../../lib/store/table/codec/attributes.ts';
import {
  decodeLedgerSnapshot,
  decodeSummary,
  encodeLedgerSnapshot,
  encodeSummary,
  matchesSnapshot,
} from '../../../lib/store/table/codec/summary.ts';
import { itemBytes } from '../../../lib/store/table/metering.ts';
import {
  EMPTY_SUMMARY,
  isSingleWrite,
  nextSummary,
  reservationsIn,
  type SummaryChange,
} from '../../../lib/store/table/summary.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aLedger, anEstimate } from '../../fixtures/factories/ledger.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';
import { expectSame } from '../../fixtures/same.ts';
import { timesOf } from '../../fixtures/times.ts';
import { seeded } from '../../simulation/random.ts';

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
    // Another commit that follows the same version comes first: this one has put its items all the same, then or later.
    isRefused: fc.boolean(),
    isLate: fc.boolean(),
    // The process knows its items by its own commits, not by a load.
    isKnown: fc.boolean(),
  }),
  { maxLength: 25 },
);

/** Items as a table has them: each with the version that it follows. */
class Items<T> {
  readonly #items = new Map<string, { readonly value: T; readonly version: number }>();

  /** A put before a page: it takes the place of nothing newer. Answers whether it is there. */
  put(name: string, value: T, version: number): boolean {
    const present = this.#items.get(name);
    const isFirst = present === undefined || present.version < version;
    if (isFirst) this.#items.set(name, { value, version });
    return isFirst || (present?.version === version && isDeepStrictEqual(present.value, value));
  }

  tidy(name: string, version: number): void {
    if ((this.#items.get(name)?.version ?? version) < version) this.#items.delete(name);
  }

  get all(): ReadonlyMap<string, T> {
    return new Map([...this.#items].map(([name, { value }]) => [name, value]));
  }
}

describe('a page', () => {
  it('means what every ledger and every reservation would, each in an item of its own', () => {
    fc.assert(
      fc.property(passes, (all) => {
        let page = EMPTY_SUMMARY;
        let base: Item | undefined;
        const own = new Items<Ledger>();
        const items = new Items<readonly Reservation[]>();
        let known:
          | { readonly version: number; readonly items: ReadonlyMap<string, readonly Reservation[]> }
          | undefined;
        const putAhead = ({ ahead, spilled }: SummaryChange, version: number): boolean =>
          [
            ...ahead.map(([itemId, reservations]) => items.put(itemId, reservations, version)),
            ...spilled.map((each) => own.put(each.fairnessKey, each, version)),
          ].every((isThere) => isThere);
        /** Requests that arrive later, each twice. */
        let late: (() => void)[] = [];
        // What it all means: the naive way.
        const ledgers = new Map<string, Ledger>();
        const meant = new Map<string, Reservation>();
        let cost = 0;
        let commits = 0;
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
          isLate,
          isKnown,
        } of all) {
          nowMs += afterMs;
          const before = { page, meant: new Map(meant) };
          commits += 1;
          const standing = [...meant.values()];
          const drop = new Map<string, { reservation: Reservation; positions: number[] }>();
          for (const [at, position] of settled) {
            const reservation = standing[at];
            if (!reservation?.jobs.has(position)) continue;
            const found = drop.get(reservation.batchId) ?? { reservation, positions: [] };
            if (!found.positions.includes(position)) found.positions.push(position);
            drop.set(reservation.batchId, found);
          }
          const later = postponed === null ? undefined : standing[postponed];
          const commit: Commit = aCommit({
            version: page.version,
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
                    { reservedAtMs: nowMs, version: page.version },
                  ),
                ]
              : [],
          });
          const knows = isKnown && known?.version === page.version ? known.items : items.all;
          const change = nextSummary(page, commit, knows, `${commits}`);
          const { version } = page;
          if (isRefused) {
            if (isLate) late.push(() => void putAhead(change, version));
            else putAhead(change, version);
            continue;
          }
          expect(putAhead(change, version)).toBe(true);
          for (const arrive of [...late, ...late]) arrive();
          if (!isLate) late = [];
          const item = encodeSummary(0, change.summary, '');
          const [old, written] = [base, change.base && encodeLedgerSnapshot(0, change.base)];
          base = written ?? base;
          page = decodeSummary(item, base && decodeLedgerSnapshot(base));
          expect(page).toEqual(change.summary);
          expect([...page.ledgers.keys()]).toEqual([...change.summary.ledgers.keys()]);
          // A reader that finds one of the two as it was before the commit, and the other one as it is after it, sees that.
          if (written !== undefined) {
            expect(matchesSnapshot(item, old && decodeLedgerSnapshot(old))).toBe(false);
            if (old !== undefined)
              expect(matchesSnapshot(encodeSummary(0, before.page, ''), decodeLedgerSnapshot(written))).toBe(
                false,
              );
          }
          known = { version: page.version, items: new Map([...knows, ...change.ahead]) };
          const [present, unnamed] = [
            page.version,
            [...items.all.keys()].filter((itemId) => !page.named.has(itemId)),
          ];
          const tidy = (): void => {
            for (const itemId of unnamed) items.tidy(itemId, present);
          };
          if (tidies) tidy();
          else late.push(tidy);

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

          const ownLedgers = own.all;
          for (const [key, ledger] of ledgers)
            expect(page.ledgers.get(key) ?? ownLedgers.get(key)).toEqual(ledger);
          // Each of them is in the page, or the page names it, and its item is there.
          const there = items.all;
          expect([...page.named].filter((itemId) => !there.has(itemId))).toEqual([]);
          const seen = reservationsIn(page, there);
          expect(new Map(seen.map((each) => [each.batchId, each]))).toEqual(meant);
          expect(seen).toHaveLength(meant.size);
          expect(itemBytes(encodeSummary(0, page, ''))).toBeLessThan(10_240);
          // A dispatcher that reads meanwhile may see the page before and the items after it: all of them, or it reads again.
          if ([...before.page.named].every((itemId) => there.has(itemId))) {
            const mixed = reservationsIn(before.page, there);
            expect(new Map(mixed.map((each) => [each.batchId, each]))).toEqual(before.meant);
          }
        }
      }),
    );
  });

  it('keeps what whole types cost, and leaves what single resources cost to items of their own', () => {
    const ofType = anEstimate();
    const ofResource = anEstimate({ resourceId: 'photos' });
    const { summary, estimates } = nextSummary(
      EMPTY_SUMMARY,
      aCommit({ estimates: [ofType, ofResource] }),
      new Map(),
      '',
    );
    expect([...summary.estimates.values()]).toEqual([ofType]);
    expect(estimates).toEqual([ofResource]);
  });
});

describe('the ledgers of a page', () => {
  const KEYS = 1_000;

  it('that have left it are not what its base says of them, until they are charged again', () => {
    const random = seeded(7);
    const own = new Map<string, Ledger>();
    const charged = new Map<string, Ledger>();
    let page = EMPTY_SUMMARY;
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
      const change = nextSummary(page, aCommit({ ledgers }), new Map(), '');
      for (const ledger of change.spilled) own.set(ledger.fairnessKey, ledger);
      base = change.base === undefined ? base : encodeLedgerSnapshot(0, change.base);
      page = decodeSummary(encodeSummary(0, change.summary, ''), base && decodeLedgerSnapshot(base));
      expect(page).toEqual(change.summary);
      const toldOf = ([key]: readonly [string, Ledger]): Ledger | undefined =>
        page.ledgers.get(key) ?? own.get(key);
      expect([...charged].filter((each) => !isDeepStrictEqual(toldOf(each), each[1]))).toEqual([]);
      for (const key of page.gone ?? []) expect(page.ledgers.has(key)).toBe(false);
      left += page.gone?.size ?? 0;
      back += [...before].filter((key) => page.ledgers.has(key)).length;
      // Without its base, a page has what was charged since, and no ledger twice.
      expect(decodeSummary(encodeSummary(0, page, '')).gone).toBeUndefined();
    }
    expect(left).toBeGreaterThan(timesOf(150));
    expect(back).toBeGreaterThan(timesOf(20));
  });

  const pages = (commits: number, chargedOf: (at: number) => readonly number[]): readonly SummaryChange[] => {
    const changes: SummaryChange[] = [];
    let page = nextSummary(EMPTY_SUMMARY, aCommit({}), new Map(), '').summary;
    let base: Item | undefined;
    for (let at = 0; at < commits; at += 1) {
      const ledgers = chargedOf(at).map((key) =>
        aLedger({ fairnessKey: `customer-${key}`, settledCostMs: at }),
      );
      const change = nextSummary(page, aCommit({ ledgers }), new Map(), '');
      base = change.base === undefined ? base : encodeLedgerSnapshot(0, change.base);
      page = decodeSummary(encodeSummary(0, change.summary, 'commit-1'), base && decodeLedgerSnapshot(base));
      // As it was stored, whatever of it stands where.
      expectSame([...page.ledgers], [...change.summary.ledgers]);
      changes.push(change);
    }
    return changes;
  };
  const bytesOf = (changes: readonly SummaryChange[]): readonly number[] =>
    changes.map(({ summary }) => itemBytes(encodeSummary(0, summary, 'commit-1')));
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
      const changes = pages(met + 300, (at) => some(at < met ? 10 : count, at)).slice(met);
      expect(changes.at(-1)?.summary.ledgers.size).toBeGreaterThan(KEYS - 100);
      expect(Math.max(...bytesOf(changes))).toBeLessThanOrEqual(bytesMost);
      expect(changes.filter(({ base }) => base !== undefined).length / changes.length).toBeLessThan(
        basesMost,
      );
      // No item of their own: neither is read, nor paid for.
      expect(changes.flatMap(({ spilled }) => spilled)).toEqual([]);
    },
  );

  it('stand in the page alone while they are few', () => {
    const changes = pages(200, (at) => [at % 50]);
    expect(changes.filter(({ base }) => base !== undefined)).toEqual([]);
    expect(Math.max(...bytesOf(changes))).toBeLessThanOrEqual(1_024);
  });
});

describe('a commit', () => {
  const alone: SummaryChange = { summary: EMPTY_SUMMARY, spilled: [], estimates: [], ahead: [] };
  const loan = {
    loanId: 'loan',
    from: 0,
    to: 1,
    units: 1,
    scopes: [{ scope: 'pool', under: '8/2' }],
    expiresAtMs: 1,
  };

  it.each<[string, boolean, Partial<SummaryChange>, Partial<Commit>]>([
    ['the page', true, {}, {}],
    ['what a resource costs', true, { estimates: [anEstimate({ resourceId: 'r' })] }, {}],
    ['a reservation whose item is put before the page', true, { ahead: [['item', [aReservation()]]] }, {}],
    ['a ledger that leaves the page', true, { spilled: [aLedger()] }, {}],
    ['the base of its ledgers', false, { base: { version: 1, ledgers: new Map() } }, {}],
    ['a loan', false, {}, { lend: [loan] }],
    ['a loan that ends', false, {}, { giveBack: [{ loan, left: 0 }] }],
  ])('of %s is one write of the page: %s', (_what, isAlone, change, commit) => {
    expect(isSingleWrite({ ...alone, ...change }, aCommit(commit))).toBe(isAlone);
  });

  it('puts what lasts into one item with what has no room, as the commit leaves it', () => {
    const jobs = Array.from({ length: 300 }, (_, at) => ({ id: `job-${at}` }));
    const lasting = aReservation([{ id: 'one' }, { id: 'two' }], { reservedAtMs: 0 });
    const { summary } = nextSummary(EMPTY_SUMMARY, aCommit({ reserve: [lasting] }), new Map(), '');
    const made = aReservation(jobs, { reservedAtMs: 100_000, version: 1 });
    const settles = aCommit({
      version: 1,
      drop: [{ reservation: lasting, positions: [0] }],
      reserve: [made],
    });
    const change = nextSummary(summary, settles, new Map(), 'n');
    const left = { ...lasting, jobs: new Map([...lasting.jobs].slice(1)) };
    expect(change.ahead).toEqual([['1-n.0', [made, left]]]);
    const items = new Map(change.ahead);
    expect(reservationsIn(change.summary, items)).toEqual([left, made]);
    // One of two that is settled whole keeps its mark while the other one has the item named.
    const first = aCommit({ version: 2, drop: [{ reservation: left, positions: [1] }] });
    const half = nextSummary(change.summary, first, items, '').summary;
    expect(reservationsIn(half, items)).toEqual([made]);
    expect([half.named.size, half.batches.size]).toEqual([1, 1]);
    const second = aCommit({ version: 3, drop: [{ reservation: made, positions: [...made.jobs.keys()] }] });
    const last = nextSummary(half, second, items, '').summary;
    expect([last.named.size, last.batches.size, last.inline.size]).toEqual([0, 0, 0]);
  });

  /** So many places, as far as they have room in a page. */
  const placesOf = (name: string, count: number, reservedAtMs = 0): Reservation =>
    aReservation(
      Array.from({ length: count }, (_, at) => ({ id: `${name}-${at}`.padStart(32, '0') })),
      { batchId: name, reservedAtMs },
    );

  it('that postpones a reservation leaves settled what is settled of it, however much that is', () => {
    const large = placesOf('large', 300);
    const made = nextSummary(EMPTY_SUMMARY, aCommit({ reserve: [large] }), new Map(), '');
    const items = new Map(made.ahead);
    const positions = [...large.jobs.keys()].slice(0, 290);
    const drop = [{ reservation: large, positions }];
    const settled = nextSummary(made.summary, aCommit({ version: 1, drop }), items, '').summary;
    const postpone = [{ reservation: large, checkAtMs: 99_000 }];
    const { summary } = nextSummary(settled, aCommit({ version: 2, postpone }), items, '');
    const [left] = reservationsIn(summary, items);
    expect([left?.jobs.size, left?.checkAtMs]).toEqual([10, 99_000]);
  });

  it('lets small items become one where the page names too many', () => {
    const items = new Map<string, readonly Reservation[]>();
    let page = EMPTY_SUMMARY;
    const counts: number[] = [];
    for (let version = 0; version < 150; version += 1) {
      // Of the first, nothing more has room in the page.
      const reserve = [placesOf(`batch-${version}`, version === 0 ? 300 : 20, version)];
      const change = nextSummary(page, aCommit({ version, reserve }), items, 'n');
      for (const [name, reservations] of change.ahead) items.set(name, reservations);
      page = change.summary;
      counts.push(page.named.size);
      expect(reservationsIn(page, items)).toHaveLength(version + 1);
    }
    expect(Math.max(...counts)).toBeGreaterThan(60);
    expect(Math.max(...counts)).toBeLessThanOrEqual(66);
  });

  it('takes reservations of long jobs out of the page once they fill much of it, all at once, and no others', () => {
    const first = nextSummary(
      EMPTY_SUMMARY,
      aCommit({ reserve: [placesOf('a', 30), placesOf('b', 30)] }),
      new Map(),
      '',
    ).summary;
    const reservedAt = (reservedAtMs: number): SummaryChange =>
      nextSummary(first, aCommit({ version: 1, reserve: [placesOf('c', 1, reservedAtMs)] }), new Map(), 'n');
    const soon = reservedAt(30_000);
    expect([[...soon.summary.inline.keys()], soon.ahead]).toEqual([['a', 'b', 'c'], []]);
    const late = reservedAt(30_001);
    expect([...late.summary.inline.keys()]).toEqual(['c']);
    expect(late.ahead.map(([name, of]) => [name, of.map(({ batchId }) => batchId)])).toEqual([
      ['1-n.0', ['a', 'b']],
    ]);
  });
});
