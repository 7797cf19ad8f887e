import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Job, Json } from '../../../lib/core/job.ts';
import { MalformedItemError } from '../../../lib/store/contract/errors.ts';
import { type Item, namesIn } from '../../../lib/store/table/codec/attributes.ts';
import { decodeBacklog } from '../../../lib/store/table/codec/backlog.ts';
import { decodeControl } from '../../../lib/store/table/codec/control.ts';
import { decodeDispatcher, encodeDispatcher } from '../../../lib/store/table/codec/dispatcher.ts';
import { encodeEstimate } from '../../../lib/store/table/codec/estimate.ts';
import { decodeJob, decodeMovingJob, encodeJob, encodePayload } from '../../../lib/store/table/codec/job.ts';
import { decodeLeader } from '../../../lib/store/table/codec/leader.ts';
import { decodeLedger } from '../../../lib/store/table/codec/ledger.ts';
import {
  decodeReservations,
  encodeReservations,
  plainReservations,
} from '../../../lib/store/table/codec/reservation.ts';
import {
  decodeWorkerRecord,
  encodeWorkerRecord,
  unreadableWorker,
} from '../../../lib/store/table/codec/worker.ts';
import { itemBytes } from '../../../lib/store/table/metering.ts';
import {
  backlogKey,
  costRank,
  estimateKey,
  leaderKey,
  ledgerKey,
  loanKey,
  payloadKey,
  reservationKey,
  summaryKey,
  workerKey,
} from '../../../lib/store/table/schema.ts';
import { aDispatcherRecord } from '../../fixtures/factories/dispatcher.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { anEstimate } from '../../fixtures/factories/ledger.ts';
import { aReservation, aReservedJob } from '../../fixtures/factories/reservation.ts';
import { aWorkerRecord } from '../../fixtures/factories/worker.ts';

/** What DynamoDB keeps of an item: attributes that are undefined are not written. */
const kept = (item: Item): Item =>
  Object.fromEntries(Object.entries(item).filter(([, value]) => value !== undefined));

const full: Job = aJob({
  resourceId: 'r',
  tags: { order: '4711' },
  listFinished: true,
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

describe('a job item', () => {
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
    ['page', summaryKey(3), 'deleting it forgets'],
    ['reservation', reservationKey(3, '1-1'), 'Once none of them can be running'],
    ['loan', loanKey(3, 'l'), "the other partition's copy"],
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
  it('name what is malformed inside a reservation', () => {
    const item = encodeReservations(0, ['item', [aReservation([aJob(), aJob()])]], 7);
    for (const jobs of [
      '',
      '{}',
      '[]',
      '[[],[],[["~x",0,0]]]',
      '[[["t","p","f",1]],["k"],[["~x",0,1]]]',
      7,
    ]) {
      const packed = typeof jobs === 'string' ? `[["1-1",1,2,3,${jobs}]]` : jobs;
      expect(() => decodeReservations({ ...item, j: packed })).toThrow(
        expect.objectContaining({ name: 'MalformedItemError', attribute: 'j' }),
      );
    }
  });

  it('keep the units and the latest starts of reserved jobs, which cost those without any nothing', () => {
    const [limits, named] = [['calls', 'openai'], { openai: 1_200 }];
    const reservation = aReservation([], {
      jobs: new Map([
        [0, aReservedJob(aJob(), { limits, units: named })],
        [3, aReservedJob(aJob({ version: 4 }), { limits, units: named, keys: { org: 'acme' } })],
        [4, aReservedJob(aJob(), { limits })],
        [5, aReservedJob(aJob())],
        [6, aReservedJob(aJob(), { limits, startByMs: NOW_MS + 6_000 })],
        [7, aReservedJob(aJob(), { limits, keys: { org: 'acme' }, startByMs: NOW_MS })],
      ]),
    });
    const item = ['item', [reservation]] as const;
    expect(decodeReservations(encodeReservations(0, item, 7))).toEqual(item);
    const bytesOf = (more: object): number =>
      itemBytes(
        plainReservations(
          0,
          [
            'item',
            [aReservation([], { jobs: new Map([[0, aReservedJob({ id: 'a' }, { limits, ...more })]]) })],
          ],
          7,
        ),
      );
    expect(bytesOf({ units: named }) - bytesOf({})).toBeLessThan(20);
    // The same time after each reservation, so that passes write the same text.
    expect(bytesOf({ startByMs: reservation.reservedAtMs + 6_000 }) - bytesOf({})).toBeLessThan(12);
  });

  it('compress the jobs of a reservation where that takes fewer write units, and name what is damaged', () => {
    const jobs = Array.from({ length: 30 }, (_, at) =>
      aJob({ id: createHash('md5').update(`${at}`).digest('hex'), fairnessKey: `customer-${at}` }),
    );
    const named = ['item', [aReservation(jobs)]] as const;
    const item = encodeReservations(0, named, 7);
    expect(item.j).toBeInstanceOf(Uint8Array);
    expect(itemBytes(item)).toBeLessThanOrEqual(1_024);
    expect(itemBytes(plainReservations(0, named, 7))).toBeGreaterThan(1_024);
    expect(decodeReservations(item)).toEqual(named);
    expect(decodeReservations(plainReservations(0, named, 7))).toEqual(named);
    expect(encodeReservations(0, ['item', [aReservation()]], 7).j).toEqual(expect.any(String));
    expect(() => decodeReservations({ ...item, j: new Uint8Array([1, 2, 3]) })).toThrow(
      expect.objectContaining({ name: 'MalformedItemError', attribute: 'j' }),
    );
  });

  it('keep fifty reserved jobs with ordinary names in under 8 KB', () => {
    const jobs = Array.from({ length: 50 }, (_, at) => aJob({ id: `${at}`.padStart(32, '0') }));
    const item = encodeReservations(0, ['item', [aReservation(jobs)]], 7);
    expect(JSON.stringify(item).length).toBeLessThan(8 * 1024);
  });

  it('write a variance below what DynamoDB can hold as none', () => {
    const estimate = anEstimate({ varianceMs2: 1e-200 });
    expect(encodeEstimate(estimateKey(0, 'a', ''), estimate, 1).varianceMs2).toBe(0);
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
