/** Each kind of item at its bound, with the longest names; and what keeps the partition summary within its own. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CONTROL_FIELDS } from '../../../lib/core/capacity.ts';
import { RefusedError } from '../../../lib/core/errors.ts';
import { costOf } from '../../../lib/core/fairness.ts';
import {
  attemptEntry,
  givenBackEntry,
  HISTORY_BYTES_MAX,
  HISTORY_ENTRIES_MAX,
  HISTORY_STACKS_BYTES_MAX,
  movedEntry,
  notClaimedEntry,
  withEntry,
} from '../../../lib/core/history.ts';
import type { History } from '../../../lib/core/job.ts';
import { splitIntoRequests } from '../../../lib/core/lending.ts';
import { HISTOGRAM_BUCKETS, MINUTE_MS, type MinuteCounts } from '../../../lib/core/statistics.ts';
import { SCHEDULE_LIMITS } from '../../../lib/schedules/request.ts';
import {
  COMMIT_ITEMS_MAX,
  DECLARATION_PART_CHARS,
  INLINE_BYTES_MAX,
  ITEM_BOUNDS,
  ITEM_BYTES_MAX,
  LEDGERS_BYTES_MAX,
  LEDGERS_SINCE_BYTES_MAX,
  LETTER_JOBS_MAX,
  reservationBytesAtMost,
  WANTS_BYTES_MAX,
  WORKER_ID_BYTES_MAX,
} from '../../../lib/store/contract/bounds.ts';
import { MalformedItemError } from '../../../lib/store/contract/errors.ts';
import { hintOf } from '../../../lib/store/contract/job-fields.ts';
import { blockedRank } from '../../../lib/store/contract/lines.ts';
import type { Ledger, Reservation } from '../../../lib/store/contract/records.ts';
import type { Commit } from '../../../lib/store/contract/requests.ts';
import type { Item } from '../../../lib/store/table/codec/attributes.ts';
import { encodeBacklogLine } from '../../../lib/store/table/codec/backlog.ts';
import { encodeChanges } from '../../../lib/store/table/codec/control.ts';
import { encodeDeclarationText } from '../../../lib/store/table/codec/declaration.ts';
import { encodeDispatcher } from '../../../lib/store/table/codec/dispatcher.ts';
import { encodeEstimate } from '../../../lib/store/table/codec/estimate.ts';
import { encodeHistory } from '../../../lib/store/table/codec/history.ts';
import { encodeJob, encodePayload } from '../../../lib/store/table/codec/job.ts';
import { encodeLookout } from '../../../lib/store/table/codec/leader.ts';
import { encodeLedger } from '../../../lib/store/table/codec/ledger.ts';
import { decodeLetter, encodeLetter } from '../../../lib/store/table/codec/letter.ts';
import { encodeLoan, encodeRequest } from '../../../lib/store/table/codec/loan.ts';
import { encodePartition } from '../../../lib/store/table/codec/lock.ts';
import { encodeParkedMark } from '../../../lib/store/table/codec/parking.ts';
import { encodeRejection } from '../../../lib/store/table/codec/rejection.ts';
import {
  decodeReservations,
  encodeReservations,
  plainReservations,
} from '../../../lib/store/table/codec/reservation.ts';
import {
  encodeDeclaredSchedules,
  encodeScheduleSpec,
  encodeScheduleState,
} from '../../../lib/store/table/codec/schedule.ts';
import { encodeStatistics } from '../../../lib/store/table/codec/statistics.ts';
import { encodeLedgerSnapshot, plainSummary } from '../../../lib/store/table/codec/summary.ts';
import { encodeUnreadable } from '../../../lib/store/table/codec/unreadable.ts';
import { encodeWorkerRecord } from '../../../lib/store/table/codec/worker.ts';
import { requireItemFits, requireTransactionFits } from '../../../lib/store/table/limits.ts';
import { itemBytes } from '../../../lib/store/table/metering.ts';
import {
  backlogKey,
  blockedLineName,
  controlKey,
  estimateKey,
  keysLineName,
  leaderKey,
  ledgerKey,
  lockKey,
} from '../../../lib/store/table/schema.ts';
import {
  EMPTY_SUMMARY,
  nextSummary,
  type PartitionSummary,
  requireBounded,
  reservationsIn,
  type SummaryChange,
} from '../../../lib/store/table/summary.ts';
import { changedLedgers, ledgerBytes } from '../../../lib/store/table/summary-ledgers.ts';
import { REQUEST_LIMITS } from '../../../lib/submit/request.ts';
import { aCommit } from '../../fixtures/factories/commit.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aReservation } from '../../fixtures/factories/reservation.ts';
import {
  KEY,
  largestControl,
  largestEstimate,
  largestJob,
  largestLedger,
  largestRejection,
  largestRequest,
  largestReservation,
  largestScheduleSpec,
  largestScheduleState,
  largestWorker,
  NAME,
  SCHEDULE_ID,
} from '../../fixtures/largest.ts';
import { noise } from '../../fixtures/noise.ts';
import { timesOf } from '../../fixtures/times.ts';
import { seeded } from '../../simulation/random.ts';

const PARTITION = 4_095;
const PAYLOAD_ID = 'x'.repeat(12);
const BIG = Number.MAX_SAFE_INTEGER;
const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

/** Commits one after the other, as a store does. */
function committed(commits: Iterable<(live: readonly Reservation[]) => Commit>): {
  readonly page: PartitionSummary;
  readonly live: readonly Reservation[];
  readonly items: ReadonlyMap<string, readonly Reservation[]>;
  readonly changes: readonly SummaryChange[];
} {
  let items = new Map<string, readonly Reservation[]>();
  const changes: SummaryChange[] = [];
  let page = EMPTY_SUMMARY;
  for (const next of commits) {
    const commit = next(reservationsIn(page, items));
    requireBounded(commit);
    const change = nextSummary(page, commit, items, '');
    page = change.summary;
    items = new Map([...items, ...change.ahead].filter(([itemId]) => page.named.has(itemId)));
    changes.push(change);
  }
  return { page, live: reservationsIn(page, items), items, changes };
}

/** What JSON takes as it is. */
const PRINTABLE = (below: (most: number) => number): string =>
  String.fromCharCode(93 + below(34), 35 + below(57));
/** Three bytes in UTF-8, six in JSON, and both. */
const ODD_CHARACTERS = {
  ideographs: (below) => String.fromCharCode(0x4e00 + below(20_000)),
  'control characters': (below) => String.fromCharCode(below(32)),
  'quotes and backslashes': (below) => '"\\'.charAt(below(2)),
  'halves of surrogate pairs': (below) => String.fromCharCode(0xd800 + below(2_048)),
} as const satisfies Record<string, (below: (most: number) => number) => string>;

/** Of names and numbers that deflate can make little of. */
function incompressibleLedgers(
  nameLength: number,
  characterOf: (below: (most: number) => number) => string = PRINTABLE,
): ReadonlyMap<string, Ledger> {
  const random = seeded(nameLength);
  const below = (most: number): number => Math.floor(random() * most);
  const ledgers = new Map<string, Ledger>();
  for (let bytes = 0; ; ) {
    const name = times(nameLength, () => characterOf(below)).join('');
    const ledger: Ledger = {
      fairnessKey: `${ledgers.size.toString(36)}${name}`,
      settledCostMs: costOf(below(Number.MAX_SAFE_INTEGER)),
      lastSeenMs: NOW_MS - below(100 * 86_400_000),
    };
    bytes += ledgerBytes(ledger);
    if (bytes > LEDGERS_BYTES_MAX) return ledgers;
    ledgers.set(ledger.fairnessKey, ledger);
  }
}

/** Charged again and again, so many are not worth a new base: the page has the most that it says beside one. */
const LARGEST_CHARGED = 36;
/** A minute of a partition that starts and ends 1,000 jobs a second, in each bucket as many. */
const largestCounts: MinuteCounts = {
  minuteMs: NOW_MS,
  admitted: 60_000,
  succeeded: 60_000,
  failed: 60_000,
  cancelled: 60_000,
  again: 60_000,
  waits: times(HISTOGRAM_BUCKETS, () => 1_000_000),
  runs: times(HISTOGRAM_BUCKETS, () => 1_000_000),
};

const largestPage = (): PartitionSummary => {
  const reserving = times(200, (at) => () => aCommit({ reserve: [aReservation([], { batchId: `${at}` })] }));
  const charging = times(
    30,
    (round) => () =>
      aCommit({
        ledgers: times(LARGEST_CHARGED, largestLedger),
        estimates: times(5, (at) => largestEstimate(round * 5 + at, '')),
      }),
  );
  const postponing = times(
    10,
    (round) => (live: readonly Reservation[]) =>
      aCommit({
        postpone: [...live]
          .slice(round * 20, round * 20 + 20)
          .map((reservation) => ({ reservation, checkAtMs: NOW_MS + round })),
        observation: { sinceMs: NOW_MS, atMs: NOW_MS, heldBackSinceMs: NOW_MS },
        unseenUntilMs: NOW_MS,
        carried: { version: 999_999, moved: 999_999, isDone: false, after: KEY, sinceVersion: 999_999 },
        quiet: { lookedAtMs: NOW_MS, declared: 999_999 },
        counts: { ...largestCounts, minuteMs: NOW_MS + round * MINUTE_MS },
      }),
  );
  return committed([...reserving, ...postponing, ...charging]).page;
};

/** Items of a letter of as many hints, of names that deflate can make little of. */
function letterItems(count: number): readonly Item[] {
  const bytes = REQUEST_LIMITS.keyBytes;
  const names = noise(2 * bytes * count);
  const largest = hintOf(largestJob());
  const heads = times(count, (at) => ({
    ...largest,
    id: at.toString(16).padStart(32, 'f'),
    fairnessKey: names.slice(2 * at * bytes, (2 * at + 1) * bytes),
    resourceId: names.slice((2 * at + 1) * bytes, (2 * at + 2) * bytes),
  }));
  return encodeLetter(PARTITION, { hints: heads }, { newId: () => 'x'.repeat(12), nowMs: NOW_MS });
}

const LARGEST: Readonly<Record<keyof typeof ITEM_BOUNDS, () => Item>> = {
  declaration: () => encodeDeclarationText('f'.repeat(32), 9, 'x'.repeat(DECLARATION_PART_CHARS)),
  job: () =>
    encodeJob(
      largestJob(),
      {
        line: blockedLineName(PARTITION, KEY),
        rank: blockedRank({ type: NAME, mode: 'onDemand', fairnessKey: KEY }, 'r'.repeat(100)),
      },
      PAYLOAD_ID,
    ),
  payload: () => encodePayload(largestJob(), PAYLOAD_ID, NOW_MS),
  reservation: () => plainReservations(PARTITION, ['item', [largestReservation()]], BIG),
  ledgerBase: () => encodeLedgerSnapshot(PARTITION, { version: 999_999, ledgers: incompressibleLedgers(36) }),
  page: () => plainSummary(PARTITION, largestPage(), '01234567'),
  worker: () => encodeWorkerRecord(PARTITION, largestWorker()),
  control: () => {
    const { changes, ...settings } = largestControl;
    const packed = CONTROL_FIELDS.map((field) => [`${field}Changes`, encodeChanges(changes, field)] as const);
    return { ...controlKey(PARTITION, largestControl.scope), ...settings, ...Object.fromEntries(packed) };
  },
  ledger: () => encodeLedger(ledgerKey(PARTITION, KEY), largestLedger(0), BIG),
  parkedMark: () => encodeParkedMark(PARTITION, { conflictKey: `${NAME}/${KEY}`, parkedAtMs: NOW_MS }),
  backlog: () => ({
    ...backlogKey(PARTITION, NAME, KEY),
    fairnessKey: KEY,
    lines: new Set([...(['queued', 'onDemand'] as const).map((mode) => encodeBacklogLine({ mode }))]),
    announcedAtMs: NOW_MS,
    line: keysLineName(PARTITION, NAME),
    rank: `${'9'.repeat(20)}/${KEY}`,
  }),
  estimate: () => encodeEstimate(estimateKey(PARTITION, NAME, KEY), largestEstimate(0), BIG),
  rejection: () => encodeRejection(largestRejection()),
  lock: () => ({
    ...lockKey(`${NAME}/${KEY}`),
    conflictKey: `${encodeURIComponent(NAME)}/${KEY}`,
    claimId: 'c'.repeat(40),
    partition: PARTITION,
    jobId: 'f'.repeat(32),
    waiting: new Set(times(4_096, encodePartition)),
  }),
  leader: () => ({
    ...leaderKey(PARTITION),
    holder: 'h'.repeat(512),
    untilMs: NOW_MS,
    wantsLetters: true,
    declared: BIG,
  }),
  letter: () => letterItems(LETTER_JOBS_MAX)[0] as Item,
  request: () => encodeRequest(PARTITION, largestRequest()),
  loan: () =>
    encodeLoan(PARTITION, {
      loanId: `${PARTITION}-${Number.MAX_SAFE_INTEGER}-${Number.MAX_SAFE_INTEGER}-19`,
      from: PARTITION,
      to: PARTITION,
      units: Number.MAX_SAFE_INTEGER,
      scopes: [
        { scope: 'pool', under: `${Number.MAX_SAFE_INTEGER}/${PARTITION}` },
        ...['tier', 'type'].map((kind) => ({ scope: `${kind}/${NAME}`, under: `9/${PARTITION}` })),
        { scope: `worker/${'\u0001'.repeat(WORKER_ID_BYTES_MAX)}`, under: 'i'.repeat(64), fleet: NAME },
      ],
      expiresAtMs: NOW_MS,
    }),
  dispatcher: () =>
    encodeDispatcher(
      {
        dispatcherId: 'd'.repeat(WORKER_ID_BYTES_MAX),
        incarnation: 'i'.repeat(64),
        leads: times(4_096, (at) => at),
        load: {
          waiting: { jobs: Number.MAX_SAFE_INTEGER, isLeast: true },
          waitedMs: Number.MAX_SAFE_INTEGER,
          busy: 0.123_456_789,
          eventLoopLagMs: Number.MAX_SAFE_INTEGER,
          memoryBytes: Number.MAX_SAFE_INTEGER,
        },
        expiresAtMs: NOW_MS,
      },
      NOW_MS,
    ),
  lookout: () =>
    encodeLookout(
      PARTITION,
      { sinceMs: NOW_MS, atMs: NOW_MS, nextAtMs: NOW_MS, judgedUntilMs: NOW_MS },
      'c'.repeat(36),
    ),
  statistics: () => encodeStatistics(PARTITION, Number.MAX_SAFE_INTEGER, largestCounts),
  scheduleSpec: () => encodeScheduleSpec(SCHEDULE_ID, Number.MAX_SAFE_INTEGER, largestScheduleSpec()),
  schedule: () => encodeScheduleState(largestScheduleState()),
  unreadable: () => {
    const item = {
      pk: 'p'.repeat(2_048),
      sk: 's'.repeat(1_024),
      line: 'l'.repeat(2_048),
      rank: 'r'.repeat(1_024),
    };
    const { message } = new MalformedItemError(
      `${item.pk} ${item.sk}`,
      'occupants',
      `is ${'x'.repeat(80)}`,
      'y'.repeat(200),
    );
    return encodeUnreadable(PARTITION, item, message, NOW_MS);
  },
  declaredSchedules: () => encodeDeclaredSchedules(times(SCHEDULE_LIMITS.declared, () => SCHEDULE_ID)),
};

/** Items that nothing collects when a time is over, and what ends each. */
const ENDED_OTHERWISE: Partial<Readonly<Record<keyof typeof ITEM_BOUNDS, string>>> = {
  declaration: 'stays: jobs end by the terms of their claims; one for each deployment that changes something',
  job: 'is collected once it has ended',
  reservation: 'is taken away once the summary does not name it',
  ledgerBase: 'one for each partition',
  page: 'one for each partition',
  leader: 'one for each partition',
  lookout: 'one for each partition',
  control: 'is taken away by its operator',
  parkedMark: 'is taken away once its line is empty',
  backlog: 'is collected once its lines are retired',
  lock: 'is taken away with the job that has it; a turn is collected',
  loan: 'is given back once it is over',
  schedule: 'is deleted by its owner, or with its declaration',
  scheduleSpec: 'is deleted by its owner, or with its declaration',
  declaredSchedules: 'one for each stack',
  unreadable: 'stays until its operator has looked at it',
};

it('each item of a key, a resource, a worker or a message has an end', () => {
  const kinds = Object.entries(LARGEST) as [keyof typeof ITEM_BOUNDS, () => Item][];
  const forEver = kinds.filter(([, make]) => make().ttl === undefined).map(([kind]) => kind);
  expect(forEver.toSorted()).toEqual(Object.keys(ENDED_OTHERWISE).toSorted());
});

describe('a request for capacity', () => {
  it('is divided among several, each of which an item holds, and nothing of it is lost', () => {
    const wants = largestRequest().wants;
    const many = times(3, () => wants).flat();
    const fleets = times(70, (at) => `${at}`.padEnd(100, '日'));
    const wide = { units: 3, scopes: [`type/${NAME}`], fleets };
    const requests = splitIntoRequests([...many, wide], WANTS_BYTES_MAX);
    expect(requests.length).toBeGreaterThan(3);
    for (const each of requests)
      expect(itemBytes(encodeRequest(PARTITION, { ...largestRequest(), wants: each }))).toBeLessThanOrEqual(
        ITEM_BOUNDS.request,
      );
    const parts = requests.flat();
    expect(parts.slice(0, many.length)).toEqual(many);
    expect(parts.slice(many.length).flatMap((part) => part.fleets)).toEqual(fleets);
    for (const { units, scopes } of parts.slice(many.length))
      expect({ units, scopes }).toEqual({ units: 3, scopes: wide.scopes });
  });

  it('is one where it fits, however many fleets it names', () => {
    const wants = [{ units: 1, scopes: [], fleets: times(100, (at) => `fleet-${at}`) }];
    expect(splitIntoRequests(wants, WANTS_BYTES_MAX)).toEqual([wants]);
    expect(splitIntoRequests([], WANTS_BYTES_MAX)).toEqual([[]]);
  });
});

describe("a job's history", () => {
  const bytesOf = (history: History): number => Buffer.byteLength(encodeHistory(history), 'utf8');

  const MOST = HISTORY_BYTES_MAX + HISTORY_STACKS_BYTES_MAX;

  it('is within its bounds after every entry, keeps the last one, and counts what it drops', () => {
    const anyText = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 600 }),
      fc.string({ unit: 'grapheme', maxLength: 600 }),
      fc.constantFrom('\u0001', '"', '\ud800', '日', '🚀').map((each) => each.repeat(600)),
    );
    const anyNumber = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.nat());
    const anyEntry = fc.oneof(
      fc
        .tuple(
          anyText,
          anyText,
          anyText,
          anyText,
          anyNumber,
          fc.boolean(),
          fc.option(anyText, { nil: undefined }),
        )
        .map(([workerId, name, message, fleet, atMs, isFromStart, stack]) =>
          attemptEntry(
            aJob({
              claim: { claimId: name, batchId: '', fleet, claimedAtMs: atMs },
              worker: { workerId, incarnation: '' },
              startedAtMs: atMs,
            }),
            {
              outcome: isFromStart ? 'lost' : 'failed',
              endedAtMs: atMs,
              error: { name, message, ...(stack === undefined ? {} : { stack: stack.repeat(10) }) },
              next: { runAtMs: atMs, isFromStart },
            },
          ),
        ),
      fc.tuple(anyNumber, anyText).map(([atMs, by]) => movedEntry(atMs, atMs, atMs, by)),
      fc.tuple(anyNumber, anyText).map(([atMs, claimId]) => notClaimedEntry(atMs, claimId)),
      fc
        .tuple(anyNumber, anyText, anyText)
        .map(([atMs, claimId, fleet]) => givenBackEntry(atMs, claimId, fleet)),
    );
    fc.assert(
      fc.property(fc.array(anyEntry, { minLength: 1, maxLength: 60 }), (entries) => {
        let history: History | undefined;
        for (const entry of entries) {
          history = withEntry(history, entry);
          expect(bytesOf(history)).toBeLessThanOrEqual(MOST);
          expect(history.entries.length).toBeLessThanOrEqual(HISTORY_ENTRIES_MAX);
          expect(history.entries.at(-1)).toEqual(entry);
        }
        const attempts = entries.filter(({ kind }) => kind === 'attempt').length;
        const kept = history?.entries.filter(({ kind }) => kind === 'attempt').length ?? 0;
        const { dropped } = history ?? {};
        expect(kept + (dropped?.attempts ?? 0)).toBe(attempts);
        expect((history?.entries.length ?? 0) + (dropped?.attempts ?? 0) + (dropped?.others ?? 0)).toBe(
          entries.length,
        );
      }),
      { numRuns: timesOf(60) },
    );
  });
});

describe.each(Object.entries(LARGEST) as [keyof typeof ITEM_BOUNDS, () => Item][])(
  'the largest item of a %s',
  (kind, make) => {
    it('is within its bound, and not far from it, and that is within what a table holds', () => {
      const bytes = itemBytes(make());
      expect(bytes).toBeLessThanOrEqual(ITEM_BOUNDS[kind]);
      expect(bytes).toBeGreaterThan(ITEM_BOUNDS[kind] / 4);
      expect(ITEM_BOUNDS[kind]).toBeLessThanOrEqual(ITEM_BYTES_MAX);
      expect(() => requireItemFits(make())).not.toThrow();
    });
  },
);

describe('what is too large', () => {
  it('is refused by its key and size', () => {
    const item = { pk: 'job/x', sk: 'job', payload: 'x'.repeat(ITEM_BYTES_MAX) };
    expect(() => requireItemFits(item)).toThrow(RefusedError);
    expect(() => requireItemFits(item)).toThrow(/item job\/x job would have 4096\d\d bytes/);
  });

  it('is refused as a transaction too', () => {
    const item = { pk: 'a', sk: 'b', payload: 'x'.repeat(300_000) };
    expect(() => requireTransactionFits(times(13, () => item))).not.toThrow();
    expect(() => requireTransactionFits(times(14, () => item))).toThrow(RefusedError);
  });
});

describe('a reservation', () => {
  it('holds names of any characters, each in at most three bytes for its one', () => {
    const odd = fc.string({
      unit: fc.constantFrom('\u0000', '\u001f', '\n', '␀', '␟', '\\', 'u0001', '"', 'x'),
    });
    fc.assert(
      fc.property(odd, odd, (type, fairnessKey) => {
        const reservation = aReservation([{ id: 'a', type, fairnessKey }]);
        const named = ['item', [reservation]] as const;
        const item = plainReservations(0, named, 7);
        expect(decodeReservations(item)).toEqual(named);
        expect(decodeReservations(encodeReservations(0, named, 7))).toEqual(named);
        expect(itemBytes(item)).toBeLessThan(reservationBytesAtMost(reservation.jobs.values()) + 200);
      }),
    );
    const one = (fairnessKey: string): number =>
      itemBytes(
        plainReservations(0, ['item', [aReservation([{ id: 'a', fairnessKey }], { batchId: '1-1' })]], 0),
      );
    expect(one(KEY) - one('')).toBe(3 * KEY.length);
  });
});

describe('a letter', () => {
  it('is put into as many items as it takes for each to fit', () => {
    expect(letterItems(LETTER_JOBS_MAX)).toHaveLength(1);
    const items = letterItems(3 * LETTER_JOBS_MAX);
    expect(items.length).toBeGreaterThan(1);
    for (const item of items) expect(itemBytes(item)).toBeLessThanOrEqual(ITEM_BOUNDS.letter);
    expect(items.flatMap((item) => decodeLetter(item).hints)).toHaveLength(3 * LETTER_JOBS_MAX);
  });
});

describe('the partition summary', () => {
  it('stays as small, whatever keys are charged: of the others, as many get items of their own as must', () => {
    const keys = fc.array(
      fc.tuple(fc.integer({ min: 1, max: COMMIT_ITEMS_MAX }), fc.constantFrom(1, 20, 512)),
      {
        minLength: 1,
        maxLength: 30,
      },
    );
    fc.assert(
      fc.property(keys, (rounds) => {
        let made = 0;
        const { changes } = committed(
          rounds.map(
            ([count, bytes]) =>
              () =>
                aCommit({
                  ledgers: times(count, () => {
                    made += 1;
                    const fairnessKey = `${made}`.padStart(bytes, 'k');
                    return { fairnessKey, settledCostMs: made, lastSeenMs: NOW_MS };
                  }),
                }),
          ),
        );
        let before = EMPTY_SUMMARY;
        for (const { summary, spilled } of changes) {
          const used = [...summary.ledgers.values()].reduce((sum, ledger) => sum + ledgerBytes(ledger), 0);
          expect(used).toBeLessThanOrEqual(LEDGERS_BYTES_MAX);
          const since = [...changedLedgers(summary).values()].reduce(
            (sum, each) => sum + ledgerBytes(each),
            0,
          );
          expect(since).toBeLessThanOrEqual(LEDGERS_SINCE_BYTES_MAX);
          // What leaves makes room for what comes, and for no more.
          const bytesOf = (all: Iterable<Ledger>): number =>
            [...all].reduce((sum, each) => sum + ledgerBytes(each), 0);
          const come = [...summary.ledgers.values()].filter((each) => !before.ledgers.has(each.fairnessKey));
          expect(bytesOf(spilled.slice(0, -1))).toBeLessThanOrEqual(bytesOf(come));
          before = summary;
        }
      }),
      { numRuns: timesOf(50) },
    );
  });

  it.each([1, 13, 36, REQUEST_LIMITS.keyBytes / 2 - 10])(
    'fits into an item with its base, of names that deflate can make little of: twice %d characters',
    (nameLength) => {
      const ledgers = incompressibleLedgers(nameLength);
      const bytes = itemBytes(encodeLedgerSnapshot(PARTITION, { version: 999_999, ledgers }));
      expect(bytes).toBeLessThanOrEqual(ITEM_BOUNDS.ledgerBase);
    },
  );

  it('says no more beside its base than it has room for, though a new base would not pay', () => {
    const names = times(300, (at) => `${at}/`.padEnd(480, 'n'));
    const { changes } = committed(
      times(60, (commit) => () => {
        const ledgers = times(90, (at) => ({
          fairnessKey: names[(90 * commit + at) % names.length] ?? '',
          settledCostMs: commit,
          lastSeenMs: NOW_MS,
        }));
        return aCommit({ ledgers });
      }),
    );
    const since = changes.map(({ summary }) =>
      [...changedLedgers(summary).values()].reduce((sum, each) => sum + ledgerBytes(each), 0),
    );
    expect(Math.max(...since)).toBeGreaterThan(LEDGERS_SINCE_BYTES_MAX / 2);
    expect(Math.max(...since)).toBeLessThanOrEqual(LEDGERS_SINCE_BYTES_MAX);
  });

  it.each(Object.entries(ODD_CHARACTERS))('counts names as JSON writes them: %s', (_, characterOf) => {
    for (const nameLength of [4, 40]) {
      const ledgers = incompressibleLedgers(nameLength, characterOf);
      const bytes = itemBytes(encodeLedgerSnapshot(PARTITION, { version: 999_999, ledgers }));
      expect(bytes).toBeLessThanOrEqual(ITEM_BOUNDS.ledgerBase);
      // As text, before it is compressed, names are what they were counted for.
      const counted = [...ledgers.values()].reduce((sum, each) => sum + ledgerBytes(each), 0);
      const names = JSON.stringify([...ledgers.keys()]);
      expect(counted).toBeGreaterThanOrEqual(Buffer.byteLength(names) - 3 * ledgers.size);
    }
  });

  it('holds the reservations of a small pool, so that its commits are one write; of a large one, it holds none that come', () => {
    /** A tenth of what runs comes with each commit, and lasts for ten of them. */
    const runs = (running: number): ReturnType<typeof committed> => {
      const made = times(60, (from) => {
        const jobs = times(running / 10, (each) => ({ id: `${from}-${each}`.padStart(32, '0') }));
        return aReservation(jobs, { batchId: `1-${from}`, reservedAtMs: NOW_MS + 100 * from });
      });
      return committed(
        made.map((reservation, from) => (): Commit => {
          const ended = made[from - 10];
          if (ended === undefined) return aCommit({ reserve: [reservation] });
          const positions = [...ended.jobs.keys()];
          return aCommit({ reserve: [reservation], drop: [{ reservation: ended, positions }] });
        }),
      );
    };
    const small = runs(20);
    expect(small.changes.flatMap(({ ahead }) => ahead)).toEqual([]);
    expect(small.page.inline.size).toBe(10);
    const large = runs(2_000);
    expect(large.page.inline.size).toBe(0);
    // Their items are put before it: each commit is one write of the page.
    expect(large.changes.slice(20).every(({ ahead }) => ahead.length === 1)).toBe(true);
  });

  it('puts reservations that last into items, many into one, so that each commit need not write them', () => {
    const { changes, page } = committed(
      times(
        300,
        (at) => () =>
          aCommit({
            reserve: [
              aReservation([{ id: `${at}`.padStart(32, '0') }], {
                batchId: `1-${at}`,
                reservedAtMs: NOW_MS + 2_000 * at,
              }),
            ],
          }),
      ),
    );
    expect(page.inline.size).toBeLessThan(100);
    const moving = changes.filter(({ ahead }) => ahead.length > 0);
    expect(moving.length).toBeLessThan(40);
    expect(moving.every(({ ahead }) => ahead.length === 1 && (ahead[0]?.[1].length ?? 0) >= 10)).toBe(true);
  });

  it('stays as small, however many reservations there are, and means the same', () => {
    const step = fc.record({
      drops: fc.array(fc.nat(), { minLength: 30, maxLength: 45 }),
      postpones: fc.array(fc.nat(), { minLength: 10, maxLength: 10 }),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 30, maxLength: 40 }), (steps) => {
        const meant = new Map<string, Reservation>();
        const reserving = times(24, (at) => () => {
          const reserve = times(90, (n) => aReservation(times(4, (id) => ({ id: `job-${at}-${n}-${id}` }))));
          for (const reservation of reserve) meant.set(reservation.batchId, reservation);
          return aCommit({ reserve });
        });
        const settling = steps.map(({ drops, postpones }, at) => (): Commit => {
          const touched = new Set<string>();
          const take = (numbers: readonly number[], most: number): Reservation[] =>
            numbers.slice(0, most).flatMap((number) => {
              const each = [...meant.values()][number % Math.max(1, meant.size)];
              if (each === undefined || touched.has(each.batchId)) return [];
              touched.add(each.batchId);
              return [each];
            });
          const drop = take(drops, 45).map((reservation) => ({
            reservation,
            positions: [...reservation.jobs.keys()].slice(0, 1 + (at % 3)),
          }));
          const postpone = take(postpones, 10).map((reservation) => ({
            reservation,
            checkAtMs: NOW_MS + at,
          }));
          for (const { reservation, positions } of drop) {
            const jobs = new Map([...reservation.jobs].filter(([place]) => !positions.includes(place)));
            if (jobs.size === 0) meant.delete(reservation.batchId);
            else meant.set(reservation.batchId, { ...reservation, jobs });
          }
          for (const { reservation, checkAtMs } of postpone)
            meant.set(reservation.batchId, { ...reservation, checkAtMs });
          return aCommit({ drop, postpone });
        });
        const { live, changes } = committed([...reserving, ...settling]);
        expect(new Map(live.map((each) => [each.batchId, each]))).toEqual(meant);
        for (const change of changes)
          expect(itemBytes(plainSummary(0, change.summary, ''))).toBeLessThan(12_288 + INLINE_BYTES_MAX);
      }),
      // What fails is large: a smaller one would take minutes to find.
      { numRuns: timesOf(20), endOnFailure: true },
    );
  });

  it('names few items, though each of three thousand jobs was reserved by itself and others come and go', () => {
    const { page, live, changes } = committed(
      times(
        3_000,
        (at) => (before: readonly Reservation[]) =>
          aCommit({
            reserve: [
              aReservation([{ id: `${at}`.padStart(32, '0') }, { id: `short-${at}`.padStart(32, '0') }], {
                reservedAtMs: NOW_MS + 1_000 * at,
              }),
            ],
            drop: before.slice(-3, -2).map((reservation) => ({ reservation, positions: [1] })),
          }),
      ),
    );
    expect(live.length).toBe(3_000);
    expect(page.named.size).toBeLessThan(120);
    expect(itemBytes(plainSummary(0, page, ''))).toBeLessThan(8 * 1_024);
    // That takes less than a write for each third of them.
    expect(changes.reduce((sum, { ahead }) => sum + ahead.length, 0)).toBeLessThan(1_000);
  });
});
