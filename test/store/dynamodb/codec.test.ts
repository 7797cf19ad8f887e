import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Job, Json } from '../../../lib/core/job.ts';
import { type Item, namesIn } from '../../../lib/store/dynamodb/codec/attributes.ts';
import { decodeBacklog, encodeBacklogLine } from '../../../lib/store/dynamodb/codec/backlog.ts';
import { ttlSec } from '../../../lib/store/dynamodb/codec/cells.ts';
import { decodeControl } from '../../../lib/store/dynamodb/codec/control.ts';
import { decodeDispatcher, encodeDispatcher } from '../../../lib/store/dynamodb/codec/dispatcher.ts';
import { decodeEstimate, encodeEstimate } from '../../../lib/store/dynamodb/codec/estimate.ts';
import {
  decodeJob,
  decodeMovingJob,
  encodeJob,
  encodePayload,
} from '../../../lib/store/dynamodb/codec/job.ts';
import { decodeLeader } from '../../../lib/store/dynamodb/codec/leader.ts';
import { decodeLedger, encodeLedger } from '../../../lib/store/dynamodb/codec/ledger.ts';
import { decodePage, encodePage } from '../../../lib/store/dynamodb/codec/page.ts';
import { decodeRejection, encodeRejection } from '../../../lib/store/dynamodb/codec/rejection.ts';
import {
  decodeReservation,
  encodeReservation,
  packReservations,
  plainReservation,
  unpackReservations,
} from '../../../lib/store/dynamodb/codec/reservation.ts';
import {
  decodeWorkerRecord,
  encodeWorkerRecord,
  unreadableWorker,
} from '../../../lib/store/dynamodb/codec/worker.ts';
import { MalformedItemError } from '../../../lib/store/errors.ts';
import { itemBytes } from '../../../lib/store/metering.ts';
import { EMPTY_PAGE } from '../../../lib/store/page.ts';
import type { Reservation } from '../../../lib/store/records.ts';
import {
  backlogKey,
  controlKey,
  costRank,
  estimateKey,
  leaderKey,
  ledgerKey,
  loanKey,
  pageKey,
  payloadKey,
  reservationKey,
  workerKey,
} from '../../../lib/store/schema.ts';
import { aDispatcherRecord } from '../../fixtures/factories/dispatcher.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../../fixtures/factories/ledger.ts';
import { aRejection } from '../../fixtures/factories/rejection.ts';
import { aReservation, aReservedJob } from '../../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../../fixtures/factories/worker.ts';

/** What DynamoDB keeps of an item: attributes that are undefined are not written. */
const kept = (item: Item): Item =>
  Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined));

const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const json = fc.jsonValue() as fc.Arbitrary<Json>;
const count = fc.nat({ max: 1_000_000 });
const instant = fc.integer({ min: 0, max: 4_102_444_800_000 });
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const anyError = fc.oneof(
  fc.record({ name: text, message: text }),
  fc.record({ name: text, message: text, stack: text }),
);

const anyEntry = fc
  .oneof(
    fc.record({
      kind: fc.constant('attempt'),
      attempt: count,
      claimId: text,
      fleet: text,
      claimedAtMs: instant,
      workerId: text,
      startedAtMs: instant,
      endedAtMs: instant,
      outcome: fc.constantFrom('failed', 'lost', 'released'),
      error: maybe(anyError),
      next: maybe(fc.record({ runAtMs: instant, isFromStart: fc.boolean() })),
    }),
    fc.record({
      kind: fc.constant('moved'),
      atMs: instant,
      by: maybe(text),
      fromMs: instant,
      toMs: instant,
    }),
    fc.record({ kind: fc.constant('notClaimed'), atMs: instant, claimId: text }),
    fc.record({ kind: fc.constant('givenBack'), atMs: instant, claimId: text, fleet: text }),
  )
  .map(kept);

const anyJob: fc.Arbitrary<Job> = fc
  .record({
    id: text,
    type: text,
    priority: fc.integer({ min: 0, max: 10 }),
    mode: fc.constantFrom('queued', 'onDemand'),
    fairnessKey: text,
    resourceId: maybe(text),
    readyAtMs: instant,
    firstReadyAtMs: maybe(instant),
    version: count,
    attempt: count,
    partition: count,
    state: fc.constantFrom('scheduled', 'pending', 'claimed', 'running', 'succeeded', 'failed', 'cancelled'),
    payload: json,
    contentHash: text,
    runAtMs: instant,
    submittedAtMs: instant,
    workersLost: count,
    claim: maybe(fc.record({ claimId: text, batchId: text, fleet: text, claimedAtMs: instant })),
    worker: maybe(fc.record({ workerId: text, incarnation: text })),
    startedAtMs: maybe(instant),
    finishedAtMs: maybe(instant),
    result: maybe(json),
    error: maybe(anyError),
    hung: maybe(anyError),
    checkpoint: maybe(json),
    cancelRequestedAtMs: maybe(instant),
    cancelRequestedBy: maybe(text),
    cancelRequestedIn: maybe(fc.constantFrom('scheduled', 'pending', 'claimed', 'running')),
    traceparent: maybe(text),
    redriveOf: maybe(text),
    redriveBy: maybe(text),
    redrivenAs: maybe(text),
    redrivenAtMs: maybe(instant),
    redrivenBy: maybe(text),
    history: maybe(
      fc
        .record({
          entries: fc.array(anyEntry),
          lastClaimId: maybe(text),
          dropped: fc.record({ attempts: count, losses: count, others: count }),
        })
        .map(kept),
    ),
  })
  .map((job) => kept({ ...job }) as unknown as Job);

const full: Job = aJob({
  resourceId: 'r',
  claim: { claimId: '1.b.0', batchId: 'b', fleet: 'f', claimedAtMs: NOW_MS },
  worker: { workerId: 'w', incarnation: 'i' },
  startedAtMs: NOW_MS,
  finishedAtMs: NOW_MS,
  result: null,
  error: { name: 'E', message: 'm' },
});

/** The item with one attribute, named by its path, replaced; undefined takes it away. */
function damaged(item: Item, path: string, value: unknown): Item {
  const [name = '', ...rest] = path.split('.');
  const inner = rest.length === 0 ? value : damaged((item[name] ?? {}) as Item, rest.join('.'), value);
  return kept({ ...item, [name]: inner });
}

const LEDGERS = [aLedger({ settledCostMs: 12.25 }), aLedger({ fairnessKey: 'b', lastSeenMs: NOW_MS - 3 })];

describe('a job item', () => {
  it('holds every job in full', () => {
    fc.assert(
      fc.property(anyJob, (job) => {
        const decoded = decodeJob(kept(encodeJob(job, undefined)));
        // JSON knows no negative zero.
        expect(JSON.stringify(decoded.payload)).toBe(JSON.stringify(job.payload));
        const json = { payload: 0, result: 0, checkpoint: 0 };
        expect({ ...decoded, ...json }).toEqual({ ...job, ...json });
      }),
    );
  });

  it('holds its payload as text, so that no name in it means anything to the table', () => {
    const payload = JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1, "#x": ":y"}') as Json;
    const item = encodeJob(aJob({ payload }), undefined);
    expect(typeof item.payload).toBe('string');
    const decoded = decodeJob(kept(item));
    expect(JSON.stringify(decoded.payload)).toBe(JSON.stringify(payload));
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it('names the item that its payload stands in, and is whole with it only', () => {
    const job = aJob({ payload: { text: 'apart' } });
    const item = kept(encodeJob(job, undefined, 'abc'));
    expect(item).not.toHaveProperty('payload');
    const apart = encodePayload(job, 'abc', NOW_MS + 1);
    expect(apart).toMatchObject({ ...payloadKey(job.id, 'abc'), ttl: Math.ceil((NOW_MS + 1) / 1_000) });
    expect(decodeJob(item, apart)).toEqual(job);
    const { payload: _payload, ...moving } = job;
    expect(decodeMovingJob(item)).toEqual(moving);
    const unreadable = expect.stringContaining(
      `item job/${job.id} payload/abc: attribute payload is missing`,
    );
    expect(decodeJob(item)).toEqual({ ...moving, payload: null, unreadable });
  });

  it('stands in a line only where one is given', () => {
    expect(encodeJob(aJob(), { line: 'due/0', rank: '1' })).toMatchObject({ line: 'due/0', rank: '1' });
    expect(kept(encodeJob(aJob(), undefined))).not.toHaveProperty('line');
  });

  it.each([
    ['pk', 'partition/0'],
    ['sk', 'event/1'],
  ])('is refused when its %s is not that of a job', (name, value) => {
    const item = damaged(encodeJob(full, undefined), name, value);
    expect(() => decodeJob(item)).toThrow(MalformedItemError);
  });

  it.each([
    ['type', undefined],
    ['type', 7],
    ['priority', 'high'],
    ['priority', Number.NaN],
    ['mode', 'fast'],
    ['fairnessKey', null],
    ['resourceId', 1],
    ['readyAtMs', '1'],
    ['firstReadyAtMs', '1'],
    ['version', -1],
    ['version', 1.5],
    ['attempt', undefined],
    ['partition', 'p'],
    ['state', 'done'],
    ['state', undefined],
    ['runAtMs', undefined],
    ['claim', 'c'],
    ['claim.claimId', undefined],
    ['claim.claimedAtMs', '1'],
    ['claim.batchId', 2],
    ['claim.fleet', undefined],
    ['claim.claimedAtMs', undefined],
    ['worker', []],
    ['worker.workerId', undefined],
    ['worker.incarnation', 1],
    ['startedAtMs', 'x'],
    ['finishedAtMs', 'x'],
  ])('is refused by the name of its attribute: %s as %o', (path, value) => {
    const item = damaged(encodeJob(full, undefined), path, value);
    expect(() => decodeJob(item)).toThrow(
      expect.objectContaining({
        name: 'MalformedItemError',
        key: `job/${full.id} job`,
        attribute: path,
        message: expect.stringContaining(path),
      }),
    );
  });
});

describe('a job item of which only the content is wrong', () => {
  const { payload: _, ...rest } = full;
  it.each<readonly [string, unknown, Partial<Job>]>([
    ['payload', '{', { payload: null }],
    ['payload', { n: 1 }, { payload: null }],
    ['payload', undefined, { payload: null }],
    ['contentHash', undefined, { contentHash: '' }],
    ['submittedAtMs', true, { submittedAtMs: full.readyAtMs }],
    ['workersLost', undefined, { workersLost: 0 }],
    ['result', 'undefined', { result: undefined }],
    ['error', 'E', { error: undefined }],
    ['error.name', undefined, { error: undefined }],
    ['error.message', 5, { error: undefined }],
    ['checkpoint', '[', {}],
    ['cancelRequestedAtMs', 'soon', { cancelRequestedAtMs: 0 }],
    ['traceparent', 1, {}],
    ['redriveOf', 1, {}],
    ['redrivenAs', {}, {}],
    ['cancelRequestedBy', 1, {}],
    ['cancelRequestedIn', 'nowhere', {}],
    ['redriveBy', 1, {}],
    ['redrivenAtMs', 'soon', {}],
    ['redrivenBy', 1, {}],
    ['history', '[', {}],
    ['history', '[[0,0],0]', {}],
    ['history', '[[0,0,0],1]', {}],
    ['history', '[[0,0,0],0,["a"]]', {}],
    ['history', '[[0,0,0],0,["m",1,"2",3]]', {}],
    ['history', '[[0,0,0],0,["z",1]]', {}],
  ])('can be dealt with, and says what is wrong: %s as %o', (path, value, instead) => {
    const item = damaged(encodeJob(full, undefined), path, value);
    const unreadable = expect.stringContaining(`attribute ${path} `);
    expect(decodeJob(item)).toEqual({ ...rest, payload: full.payload, ...instead, unreadable });
    expect(kept(encodeJob(decodeJob(item), undefined))).not.toHaveProperty('unreadable');
  });

  it('says it once, of the first attribute', () => {
    const item = damaged(damaged(encodeJob(full, undefined), 'payload', 1), 'error', 1);
    expect(decodeJob(item).unreadable).toContain('payload');
  });
});

describe('an item that must not be guessed at', () => {
  it.each([
    ['leader', leaderKey(3), 'deploy the stack again'],
    ['page', pageKey(3), 'deleting it forgets'],
    ['reservation', reservationKey(3, '1-1'), 'once none of its jobs can be running'],
    ['loan', loanKey(3, 'l'), 'the copy of the other partition'],
    ['worker', workerKey(3, 'w'), 'correct or delete the item'],
    ['ledger', ledgerKey(3, 'leader'), 'correct or delete the item'],
  ])('names the way out of its kind: a %s', (_, key, wayOut) => {
    expect(() => decodeLeader({ ...key, holder: 1 })).toThrow(wayOut);
  });
});

describe("what stands for a worker's record that cannot be read", () => {
  const cause = new MalformedItemError('k', 'slots', 'is missing');
  const standIn = (workerId: string, changes: Item) =>
    unreadableWorker(
      2,
      { ...encodeWorkerRecord(2, aWorkerRecord({ workerId })), slots: 'many', ...changes },
      NOW_MS,
      cause,
    );

  it('lives on without a slot: its jobs may be running', () => {
    const life = { workerId: 'w', slots: 0, occupants: [], isEnding: true };
    expect(standIn('w', {})).toMatchObject(life);
    expect(standIn('w', {})?.formerUntilMs).toBeGreaterThan(NOW_MS * 10);
  });

  it('is named by its key where the item does not say', () => {
    expect(standIn('a b/ü', { workerId: 7 })?.workerId).toBe('a b/ü');
    expect(standIn('a b/ü', { workerId: 'somebody else' })?.workerId).toBe('a b/ü');
  });

  it('is nothing where not even its key says whose it is', () => {
    for (const name of ['n'.repeat(300), '%'.repeat(300)])
      expect(() => standIn(name, { workerId: undefined })).toThrow(cause);
    expect(() => standIn('w', { sk: 'worker/%' })).toThrow(cause);
  });

  it('is gone once the record may be collected', () => {
    expect(standIn('w', { ttl: NOW_MS / 1000 })).toBeUndefined();
  });
});

describe('other items', () => {
  it('hold a reservation by position, whatever was dropped of it', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat({ max: 99 }), { maxLength: 50 }), (positions) => {
        const sorted = positions.toSorted((a, b) => a - b);
        const reservation: Reservation = {
          ...aReservation([]),
          jobs: new Map(sorted.map((position) => [position, aReservedJob(aJob())])),
        };
        const decoded = decodeReservation(kept(encodeReservation(3, reservation, 7)));
        expect(decoded).toEqual(reservation);
        expect([...decoded.jobs.keys()]).toEqual(sorted);
      }),
    );
  });

  it('says under which declaration it was planned, in an item of its own and in a page', () => {
    const before = aReservation([aJob()]);
    const planned = aReservation([aJob(), aJob()], { declared: 7 });
    for (const each of [before, planned])
      expect(decodeReservation(kept(encodeReservation(0, each, 7)))).toEqual(each);
    const both = [before, planned];
    const read = unpackReservations(JSON.parse(packReservations(both)));
    expect([...read.values()]).toEqual(both);
    expect(() => unpackReservations([['1-1', 1, 2, 3, [[], [], []], 'newest']])).toThrow(TypeError);
  });

  it('name what is malformed inside a reservation', () => {
    const item = encodeReservation(0, aReservation([aJob(), aJob()]), 7);
    for (const jobs of [
      '',
      '{}',
      '[]',
      '[[],[],[["~x",0,0]]]',
      '[[["t","p","f",1]],["k"],[["~x",0,1]]]',
      7,
    ]) {
      expect(() => decodeReservation({ ...item, j: jobs })).toThrow(
        expect.objectContaining({ name: 'MalformedItemError', attribute: 'j' }),
      );
    }
  });

  it('compress the jobs of a reservation where that takes fewer write units, and name what is damaged', () => {
    const jobs = Array.from({ length: 30 }, (_, at) =>
      aJob({ id: createHash('md5').update(`${at}`).digest('hex'), fairnessKey: `customer-${at}` }),
    );
    const reservation = aReservation(jobs);
    const item = encodeReservation(0, reservation, 7);
    expect(item.j).toBeInstanceOf(Uint8Array);
    expect(itemBytes(item)).toBeLessThanOrEqual(1_024);
    expect(itemBytes(plainReservation(0, reservation, 7))).toBeGreaterThan(1_024);
    expect(decodeReservation(item)).toEqual(reservation);
    expect(decodeReservation(plainReservation(0, reservation, 7))).toEqual(reservation);
    expect(encodeReservation(0, aReservation(), 7).j).toEqual(expect.any(String));
    expect(() => decodeReservation({ ...item, j: new Uint8Array([1, 2, 3]) })).toThrow(
      expect.objectContaining({ name: 'MalformedItemError', attribute: 'j' }),
    );
  });

  it('keep fifty reserved jobs with ordinary names in under 8 KB', () => {
    const jobs = Array.from({ length: 50 }, (_, at) => aJob({ id: `${at}`.padStart(32, '0') }));
    const item = encodeReservation(0, aReservation(jobs), 7);
    expect(JSON.stringify(item).length).toBeLessThan(8 * 1024);
  });

  it('hold workers, controls, ledgers, estimates and rejections in full', () => {
    const worker = aWorkerRecord({
      occupants: [
        { claimId: 'c', jobId: 'j', progress: { done: 0.5 } },
        { claimId: 'd', jobId: 'k' },
      ],
    });
    expect(decodeWorkerRecord(kept(encodeWorkerRecord(0, worker)))).toEqual({
      ...worker,
      occupants: worker.occupants.map((occupant) => kept({ ...occupant })),
    });
    for (const control of [
      { scope: 'pool', paused: true },
      { scope: 'key/a', paused: false, maxConcurrency: 0, weight: 2.5 },
    ]) {
      expect(decodeControl({ ...controlKey(0, control.scope), ...control })).toEqual(control);
    }
    for (const leads of [[], [0, 3, 12]]) {
      const dispatcher = aDispatcherRecord({ leads });
      expect(decodeDispatcher(encodeDispatcher(dispatcher, 1))).toEqual(dispatcher);
    }
    for (const ledger of LEDGERS)
      expect(decodeLedger(encodeLedger(ledgerKey(0, ledger.fairnessKey), ledger, 7))).toEqual(ledger);
    const reservation = aReservation([
      { id: 'a\u0001\u2401', fairnessKey: '"' },
      { id: 'b', resourceId: 'r' },
    ]);
    const page = {
      ...EMPTY_PAGE,
      version: 7,
      named: new Set(['7-x', '6-y']),
      unseenUntilMs: NOW_MS + 5,
      carried: { version: 3, moved: 8, isDone: false, after: 'a\n', sinceVersion: 4, isHandedOver: true },
      chargedMean: 1_250,
      inline: new Map([[reservation.batchId, reservation]]),
      ledgers: new Map(LEDGERS.map((each) => [each.fairnessKey, each])),
    };
    expect(decodePage(encodePage(0, page, ''))).toEqual(page);
    const estimate = anEstimate({ varianceMs2: 1e-9 });
    const key = estimateKey(0, estimate.type, estimate.resourceId);
    expect(decodeEstimate(encodeEstimate(key, estimate, 7))).toEqual(estimate);
    const rejection = aRejection();
    expect(decodeRejection(encodeRejection(rejection))).toEqual(rejection);
  });

  it('write a variance below what DynamoDB can hold as none', () => {
    const estimate = anEstimate({ varianceMs2: 1e-200 });
    expect(encodeEstimate(estimateKey(0, 'a', ''), estimate, 1).varianceMs2).toBe(0);
  });

  it("tell a backlog's modes and parts apart", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(
          fc.tuple(fc.constantFrom('queued' as const, 'onDemand' as const), fc.nat({ max: 999 })),
          {
            minLength: 1,
            selector: String,
          },
        ),
        (pairs) => {
          const lines = pairs.map(([mode, sub]) => ({ mode, sub }));
          const item = {
            ...backlogKey(0, 't', 'k'),
            fairnessKey: 'k',
            announcedAtMs: 1,
            rank: '7/k',
            lines: new Set(lines.map(encodeBacklogLine)),
          };
          const decoded = decodeBacklog(item).lines;
          expect(new Set(decoded.map(encodeBacklogLine))).toEqual(item.lines);
          expect(decoded).toHaveLength(item.lines.size);
        },
      ),
    );
  });

  it('are refused by the name of what is missing', () => {
    const key = { pk: 'partition/0', sk: 'leader' };
    expect(() => decodeLeader({ ...key, holder: 'one', wantsLetters: true })).toThrow(
      expect.objectContaining({ key: 'partition/0 leader', attribute: 'untilMs' }),
    );
    expect(() => decodeLedger({ ...key, fairnessKey: 'k' })).toThrow(MalformedItemError);
    expect(() =>
      decodeBacklog({ ...key, fairnessKey: 'k', lines: new Set(['slow']), announcedAtMs: 1 }),
    ).toThrow(expect.objectContaining({ attribute: 'lines' }));
    expect(() => decodeBacklog({ ...key, fairnessKey: 'k', lines: [], announcedAtMs: 1 })).toThrow(
      MalformedItemError,
    );
    expect(() => decodeControl({ ...key, scope: 'pool', paused: 1 })).toThrow(MalformedItemError);
    expect(() =>
      decodeWorkerRecord(damaged(encodeWorkerRecord(0, aWorkerRecord()), 'occupants', ['x'])),
    ).toThrow(expect.objectContaining({ attribute: 'occupants' }));
    expect(() =>
      decodeDispatcher({ ...encodeDispatcher(aDispatcherRecord(), 1), leads: new Set(['x']) }),
    ).toThrow(expect.objectContaining({ attribute: 'leads' }));
  });
});

describe('ranks and times', () => {
  it('order keys by cost, as text, to the last unit of 2^-16 ms', () => {
    const cost = fc.maxSafeNat().map((units) => units / 65_536);
    const rankCostMs = (rank: string): number =>
      decodeBacklog({
        ...backlogKey(0, 't', 'k'),
        fairnessKey: 'k',
        lines: new Set(),
        announcedAtMs: 1,
        rank,
      }).rankCostMs;
    fc.assert(
      fc.property(
        cost,
        fc.oneof(
          cost,
          fc.nat(3).map((units) => units / 65_536),
        ),
        (a, b) => {
          const [first, second] = [costRank(a, 'k'), costRank(a + b, 'k')];
          expect(first < second).toBe(a < a + b);
          expect(first).toHaveLength(second.length);
          expect(rankCostMs(first)).toBe(a);
        },
      ),
    );
  });

  it('stay within their width at both ends', () => {
    expect(costRank(-5, 'k')).toBe(costRank(0, 'k'));
    expect(costRank(1e300, 'k')).toBe(costRank(1e15, 'k'));
  });

  it('stand among ranks that name no more than microseconds', () => {
    expect(costRank(8_000.25, 'k') > '0000000000008000.249/k').toBe(true);
    expect(costRank(8_000.25, 'k') < '0000000000008000.251/k').toBe(true);
  });

  it('let nothing be collected early', () => {
    expect(ttlSec(1_000)).toBe(1);
    expect(ttlSec(1_001)).toBe(2);
  });
});

describe('names of expressions', () => {
  it('are those that the expressions use, and no others', () => {
    expect(namesIn('#state = :x AND #claim.#claimId = :y', undefined)).toEqual({
      '#state': 'state',
      '#claim': 'claim',
      '#claimId': 'claimId',
    });
  });

  it('must be known', () => {
    expect(() => namesIn('#status = :x')).toThrow(/#status/);
  });
});
