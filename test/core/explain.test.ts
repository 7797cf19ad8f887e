import { describe, expect, it } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { FAIRNESS_DEFAULTS, RETRY_DEFAULTS, SCORE_DEFAULTS, TYPE_DEFAULTS } from '../../lib/core/defaults.ts';
import {
  blockersBefore,
  type Explained,
  type ExplainState,
  explain,
  overridden,
} from '../../lib/core/explain.ts';
import type { ReservedJob, Waited, WaitingJob } from '../../lib/core/job.ts';
import { scoreParts, starvationBoundMs } from '../../lib/core/score.ts';
import { NOW_MS } from './random-pass.ts';

const type = { ...TYPE_DEFAULTS, retry: RETRY_DEFAULTS, timeoutMs: 60_000, conflictGroup: 'git' };
const configuration: PoolConfiguration = {
  types: [
    { ...type, type: 'clone', tier: 'top', maxConcurrency: 3 },
    { ...type, type: 'repack', tier: 'low' },
  ],
  tiers: [
    { tier: 'top', maxConcurrency: 4, guaranteed: 0 },
    { tier: 'low', maxConcurrency: null, guaranteed: 1 },
  ],
  fleets: [
    { fleet: 'narrow', types: ['clone'], slots: 2 },
    { fleet: 'wide', types: ['clone', 'repack'], slots: 2 },
  ],
  maxConcurrency: 8,
  score: SCORE_DEFAULTS,
  fairness: { ...FAIRNESS_DEFAULTS, maxConcurrencyPerKey: 2, weights: { k1: 2 } },
  partitions: 1,
};

const job = (id: string, changes: Partial<WaitingJob> = {}): WaitingJob => ({
  id,
  type: 'clone',
  priority: 0,
  mode: 'queued',
  fairnessKey: 'k1',
  readyAtMs: NOW_MS - 10_000,
  version: 1,
  attempt: 1,
  ...changes,
});

const asked = (changes: Partial<Explained> = {}): Explained => ({
  ...job('asked'),
  state: 'pending',
  runAtMs: NOW_MS - 10_000,
  ...changes,
});

const running = (id: string, changes: Partial<ReservedJob> = {}): ReservedJob => ({
  id,
  version: 1,
  attempt: 1,
  type: 'clone',
  tier: 'top',
  fairnessKey: 'k2',
  fleet: 'wide',
  estimatedCostMs: 1_000,
  ...changes,
});

const state = (changes: Partial<ExplainState> = {}): ExplainState => ({
  configuration,
  inFlight: [],
  freeSlotsByFleet: new Map([
    ['narrow', 2],
    ['wide', 2],
  ]),
  ledgers: [],
  waiting: [],
  costMs: () => 1_000,
  ...changes,
});

const waitsFor = (changes: Partial<ExplainState>, own: Partial<Explained> = {}) =>
  explain(asked(own), state(changes), NOW_MS).waitsFor;

describe('explain', () => {
  it('says that the next pass starts a job that nothing keeps', () => {
    const told = explain(asked(), state({ ledgers: [{ fairnessKey: 'k1', settledCostMs: 700 }] }), NOW_MS);
    const load = { type: 'clone', fairnessKey: 'k1', mode: 'queued', priority: 0 } as const;
    expect(told).toEqual({
      id: 'asked',
      state: 'pending',
      waitsFor: [{ why: 'pass' }],
      position: 0,
      score: scoreParts(job('asked'), NOW_MS, 4, SCORE_DEFAULTS),
      key: { costMs: 700, weight: 2 },
      blocker: undefined,
      latestStartAtMs:
        NOW_MS -
        10_000 +
        starvationBoundMs(configuration, { ...load, activeKeys: 1, jobsAhead: 0, conflictsAhead: 0 }),
      estimatedStartAtMs: NOW_MS,
    });
  });

  it('says how long a job waits for its time, and bounds its start from then on', () => {
    const untilMs = NOW_MS + 60_000;
    for (const own of [
      { state: 'scheduled', runAtMs: untilMs } as const,
      { state: 'pending', readyAtMs: untilMs } as const,
    ]) {
      const told = explain(asked(own), state(), NOW_MS);
      expect(told.waitsFor).toEqual([{ why: 'time', untilMs }]);
      expect([told.position, told.score, told.key]).toEqual([undefined, undefined, undefined]);
      const ready = explain(asked(), state(), NOW_MS).latestStartAtMs;
      expect(told.latestStartAtMs).toBe((ready ?? 0) + 70_000);
    }
  });

  it('promises a queued job no bound while on-demand jobs of its key wait, unless both age alike', () => {
    const waiting = [job('now', { mode: 'onDemand' })];
    const boundOf = (changes: Partial<ExplainState>, own: Partial<Explained> = {}): number | undefined =>
      explain(asked(own), state({ waiting, ...changes }), NOW_MS).latestStartAtMs;
    const alike = { ...configuration, score: { ...SCORE_DEFAULTS, onDemandAgeSec: 0 } };
    expect(boundOf({})).toBeUndefined();
    expect(boundOf({ configuration: alike })).toBeDefined();
    expect(boundOf({}, { mode: 'onDemand' })).toBeDefined();
    expect(boundOf({ waiting: [job('other', { mode: 'onDemand', fairnessKey: 'k2' })] })).toBeDefined();
  });

  it('promises no bound under limits, or while an operator has set a cap for the key', () => {
    const boundOf = (changes: Partial<ExplainState>, own: Partial<Explained> = {}): number | undefined =>
      explain(asked(own), state(changes), NOW_MS).latestStartAtMs;
    const limited: PoolConfiguration = {
      ...configuration,
      types: configuration.types.map((each) =>
        each.type === 'clone' ? { ...each, limits: ['openai'] } : each,
      ),
      limits: [{ limit: 'openai', total: 1, perKey: null }],
    };
    expect(boundOf({})).toBeDefined();
    expect(boundOf({ configuration: limited })).toBeUndefined();
    expect(
      boundOf({ configuration: limited }, { state: 'scheduled', runAtMs: NOW_MS + 9_000 }),
    ).toBeUndefined();
    expect(boundOf({ configuration: limited }, { type: 'repack' })).toBeDefined();
    const capOf = (scope: string) => boundOf({ overrides: [{ scope, paused: false, maxConcurrency: 1 }] });
    expect(capOf('key/k1')).toBeUndefined();
    expect(capOf('key/k2')).toBeDefined();
  });

  it('estimates its start from what such jobs took so far, as the policy lets those before it go first', () => {
    const narrow = {
      ...configuration,
      fleets: [{ fleet: 'wide', types: ['clone', 'repack'], slots: 1 }],
      fairness: FAIRNESS_DEFAULTS,
    };
    const full = { configuration: narrow, freeSlotsByFleet: new Map([['wide', 0]]) };
    const startsIn = (changes: Partial<ExplainState>, own: Partial<Explained> = {}): number | undefined => {
      const { estimatedStartAtMs } = explain(asked(own), state({ ...full, ...changes }), NOW_MS);
      return estimatedStartAtMs === undefined ? undefined : estimatedStartAtMs - NOW_MS;
    };
    const busy = { inFlight: [running('r', { estimatedCostMs: 4_000 })] };
    expect(startsIn(busy)).toBe(4_000);
    expect(startsIn({ ...busy, reservedAtMs: new Map([['r', NOW_MS - 3_000]]) })).toBe(1_000);
    // What takes longer than such jobs did may end at any moment.
    expect(startsIn({ ...busy, reservedAtMs: new Map([['r', NOW_MS - 9_000]]) })).toBe(0);
    const waiting = [
      job('first', { readyAtMs: NOW_MS - 20_000 }),
      job('second', { readyAtMs: NOW_MS - 15_000 }),
      job('later', { readyAtMs: NOW_MS - 1_000 }),
    ];
    const costMs = (): number => 60_000;
    expect(startsIn({ ...busy, waiting, costMs })).toBe(124_000);
    const album = { type: 'clone', resourceId: 'album' };
    const holder = running('holder', { conflictKey: 'git/album', estimatedCostMs: 7_000, fleet: 'wide' });
    const free = { freeSlotsByFleet: new Map([['wide', 3]]) };
    expect(startsIn({ ...free, configuration, inFlight: [holder] }, album)).toBe(7_000);
  });

  it('estimates nothing where no end of another job lets it start', () => {
    const paused = { overrides: [{ scope: 'type/clone', paused: true }], inFlight: [running('r')] };
    expect(explain(asked(), state(paused), NOW_MS).estimatedStartAtMs).toBeUndefined();
    const empty = { freeSlotsByFleet: new Map([['wide', 0]]), inFlight: [] };
    expect(explain(asked(), state(empty), NOW_MS).estimatedStartAtMs).toBeUndefined();
  });

  it('says nothing of a job that is claimed, runs or is over', () => {
    for (const over of ['claimed', 'running', 'succeeded', 'failed', 'cancelled'] as const) {
      const told = explain(asked({ state: over }), state(), NOW_MS);
      expect(told).toMatchObject({ state: over, waitsFor: [], position: undefined, key: undefined });
      expect(told.latestStartAtMs).toBeUndefined();
    }
  });

  it('names every cap that is reached, from the pool down', () => {
    const inFlight = [
      running('a', { fairnessKey: 'k1' }),
      running('b', { fairnessKey: 'k1', fleet: 'narrow' }),
      running('c'),
      running('d', { type: 'gone', tier: 'top' }),
      ...['e', 'f', 'g', 'h'].map((id) => running(id, { type: 'gone', tier: 'gone', fleet: 'gone' })),
    ];
    expect(waitsFor({ inFlight, freeSlotsByFleet: new Map() })).toEqual([
      { why: 'cap', scope: 'pool', cap: 8, running: 8 },
      { why: 'cap', scope: 'tier/top', cap: 4, running: 4 },
      { why: 'cap', scope: 'type/clone', cap: 3, running: 3 },
      { why: 'cap', scope: 'key/k1', cap: 2, running: 2 },
      { why: 'noSlot', type: 'clone', fleets: ['narrow', 'wide'] },
    ]);
  });

  it('names every pause, and promises no start as long as one lasts', () => {
    const overrides = ['pool', 'tier/top', 'type/clone', 'key/k1'].map((scope) => ({ scope, paused: true }));
    const told = explain(asked(), state({ overrides }), NOW_MS);
    expect(told.waitsFor).toEqual(overrides.map(({ scope }) => ({ why: 'paused', scope })));
    expect(told.latestStartAtMs).toBeUndefined();
    const fleets = ['narrow', 'wide'].map((fleet) => ({ scope: `fleet/${fleet}`, paused: true }));
    expect(waitsFor({ overrides: fleets })).toEqual([
      { why: 'noSlot', type: 'clone', fleets: ['narrow', 'wide'] },
    ]);
  });

  it('names the job that holds its conflict key, and counts who waits for it in the bound', () => {
    const conflictKey = 'git/repo';
    const inFlight = [
      running('other', { conflictKey: 'git/x' }),
      running('holder', { conflictKey }),
      running('c'),
    ];
    const free = { inFlight: [], waiting: [] };
    const told = explain(asked({ resourceId: 'repo' }), state({ ...free, inFlight }), NOW_MS);
    expect(told.waitsFor[1]).toEqual({ why: 'conflict', conflictKey, holder: 'holder' });
    expect(told.waitsFor[0]).toMatchObject({ scope: 'type/clone' });
    expect(told.blocker).toBe('holder');
    const bound = (more: Partial<ExplainState>): number =>
      explain(asked({ resourceId: 'repo' }), state({ ...free, ...more }), NOW_MS).latestStartAtMs ?? 0;
    const others = [
      job('w1', { fairnessKey: 'k2', resourceId: 'repo', type: 'repack' }),
      job('w2', { fairnessKey: 'k2', resourceId: 'elsewhere', type: 'repack' }),
      job('w3', { fairnessKey: 'k2', resourceId: 'repo', type: 'unknown' }),
    ];
    const alone = others.map((other) => ({ ...other, resourceId: undefined }));
    expect(bound({ waiting: others }) - bound({ waiting: alone })).toBe(60_000);
    const held = [running('holder', { conflictKey, fleet: 'wide' })];
    const apart = [running('holder', { fleet: 'wide' })];
    expect(bound({ inFlight: held }) - bound({ inFlight: apart })).toBe(60_000);
  });

  it('names the limit of its resource, once as many jobs of its type run with that', () => {
    const [clone, repack] = configuration.types;
    const call = { ...type, type: 'call', tier: 'low', conflictGroup: null, maxConcurrencyPerResource: 2 };
    const limited = {
      configuration: {
        ...configuration,
        types: [clone, repack, call].flatMap((own) => own ?? []),
        fleets: [{ fleet: 'wide', types: ['clone', 'repack', 'call'], slots: 9 }],
      },
      freeSlotsByFleet: new Map([['wide', 9]]),
    };
    const calls = ['a', 'b'].map((id) =>
      running(id, { type: 'call', tier: 'low', conflictKey: '=call/host' }),
    );
    const reached = { why: 'cap', scope: 'resource/call/host', cap: 2, running: 2 };
    const ofHost = { type: 'call', resourceId: 'host' };
    expect(waitsFor({ ...limited, inFlight: calls }, ofHost)).toEqual([reached]);
    expect(explain(asked(ofHost), state({ ...limited, inFlight: calls }), NOW_MS).blocker).toBeUndefined();
    const apart: readonly Partial<Explained>[] = [
      { type: 'call', resourceId: 'another' },
      { type: 'call' },
      { type: 'repack', resourceId: 'host' },
    ];
    for (const own of apart)
      expect(waitsFor({ ...limited, inFlight: calls }, own)).toEqual([{ why: 'pass' }]);
    expect(waitsFor({ ...limited, inFlight: calls.slice(1) }, ofHost)).toEqual([{ why: 'pass' }]);
  });

  it('says who takes what is free when it is not its turn', () => {
    const waiting = Array.from({ length: 4 }, (_, index) =>
      job(`j${index}`, { readyAtMs: index, type: 'repack' }),
    );
    const told = explain(
      asked({ type: 'repack' }),
      state({ waiting, configuration: { ...configuration, fairness: FAIRNESS_DEFAULTS } }),
      NOW_MS,
    );
    expect(told.waitsFor).toEqual([{ why: 'turn', before: ['j0', 'j1'] }]);
  });

  it('names at most a hundred of those that come first', () => {
    const waiting = Array.from({ length: 300 }, (_, index) => job(`j${index}`, { fairnessKey: `k${index}` }));
    const wide = {
      ...configuration,
      types: configuration.types.map((own) => ({ ...own, maxConcurrency: null })),
      tiers: configuration.tiers.map((tier) => ({ ...tier, maxConcurrency: null })),
      maxConcurrency: null,
    };
    const told = explain(
      asked({ fairnessKey: 'z' }),
      state({
        configuration: wide,
        waiting,
        freeSlotsByFleet: new Map([['wide', 200]]),
        ledgers: [{ fairnessKey: 'z', settledCostMs: 5_000 }],
      }),
      NOW_MS,
    );
    expect(told.waitsFor[0]).toMatchObject({ why: 'turn' });
    expect(told.waitsFor[0]?.why === 'turn' && told.waitsFor[0].before.length).toBe(100);
  });

  it('says that a type is not configured', () => {
    const told = explain(asked({ type: 'nothing', resourceId: 'r' }), state(), NOW_MS);
    expect(told.waitsFor).toEqual([{ why: 'unknownType', type: 'nothing' }]);
    expect(told.latestStartAtMs).toBeUndefined();
    expect(told.score?.rarity).toBe(0);
    const later = asked({ type: 'nothing', state: 'scheduled', runAtMs: NOW_MS + 1, resourceId: 'r' });
    expect(explain(later, state(), NOW_MS)).toMatchObject({ waitsFor: [{ why: 'time' }] });
    expect(explain(later, state(), NOW_MS).latestStartAtMs).toBeUndefined();
  });

  it('bounds by the caps and weights that operators set, and by the slots that are there', () => {
    const bound = (changes: Partial<ExplainState>): number =>
      (explain(asked({ type: 'repack' }), state(changes), NOW_MS).latestStartAtMs ?? Number.NaN) / 60_000;
    const waiting = Array.from({ length: 7 }, (_, index) => job(`j${index}`, { type: 'repack' }));
    const free = (wide: number) => new Map([['wide', wide]]);
    const roomy = {
      ...configuration,
      tiers: [
        { tier: 'top', maxConcurrency: 0, guaranteed: 0 },
        { tier: 'low', maxConcurrency: null, guaranteed: 0 },
      ],
      fairness: FAIRNESS_DEFAULTS,
    };
    const holds = (changes: Partial<ExplainState>): number =>
      bound({ configuration: roomy, waiting, freeSlotsByFleet: free(8), ...changes }) -
      bound({ configuration: roomy, freeSlotsByFleet: free(8) });
    expect(holds({})).toBeCloseTo(0);
    expect(holds({ freeSlotsByFleet: free(4) })).toBeCloseTo(1);
    for (const scope of ['pool', 'type/repack', 'tier/low']) {
      expect(holds({ overrides: [{ scope, paused: false, maxConcurrency: 2 }] })).toBeCloseTo(3);
    }
    const inFlight = [
      running('a', { fairnessKey: 'k1' }),
      running('b', { fairnessKey: 'k1', fleet: 'narrow' }),
    ];
    expect(holds({ inFlight, freeSlotsByFleet: free(1) })).toBeCloseTo(3);
  });
});

describe('a configuration with overrides', () => {
  it('has their caps and weights, the last word of each scope, and is otherwise the same', () => {
    const changed = overridden(configuration, [
      { scope: 'pool', paused: false, maxConcurrency: 5 },
      { scope: 'pool', paused: false },
      { scope: 'tier/low', paused: true, maxConcurrency: 1 },
      { scope: 'type/clone', paused: false, maxConcurrency: 9 },
      { scope: 'key/k9', paused: false, weight: 7 },
      { scope: 'type/k8', paused: false, weight: 7 },
      { scope: 'key/k1', paused: false },
    ]);
    expect(changed).toEqual({
      ...configuration,
      tiers: [configuration.tiers[0], { tier: 'low', maxConcurrency: 1, guaranteed: 1 }],
      types: [{ ...configuration.types[0], maxConcurrency: 9 }, configuration.types[1]],
      fairness: { ...configuration.fairness, weights: { k1: 2, k9: 7 } },
    });
  });
});

describe('what was full while a job waited', () => {
  const ended = (atMs: number, changes: Partial<ReservedJob> = {}) => ({
    entry: running(`ended-${atMs}`, changes),
    endedAtMs: NOW_MS + atMs,
  });
  const conflict = { conflictKey: 'git/r1' };
  const onR1 = { resourceId: 'r1' };
  const named = (
    holds: Parameters<typeof blockersBefore>[0],
    own: Partial<WaitingJob & Waited> = {},
    changes: Partial<ExplainState> = {},
  ) => blockersBefore(holds, state(changes), NOW_MS)(job('asked', own));

  it('is named from the pool down to the job', () => {
    const full = { inFlight: [running('a', { fairnessKey: 'k1' })], freeSlotsByFleet: new Map() };
    const last = ended(-1, { ...conflict, fairnessKey: 'k1', fleet: 'narrow' });
    const overrides = [{ scope: 'tier/top', paused: false, maxConcurrency: 2 }];
    expect(named([last], onR1, { ...full, overrides, freeSlotsByFleet: new Map([['narrow', 1]]) })).toEqual([
      'cap tier/top',
      'cap key/k1',
      'noSlot fleet/narrow',
      'noSlot fleet/wide',
    ]);
    expect(named([last], onR1, full)).toEqual([
      'cap key/k1',
      'noSlot fleet/narrow',
      'noSlot fleet/wide',
      'conflict git/r1',
    ]);
  });

  it('does not include what had ended before the job waited', () => {
    const holds = [ended(-9_000, conflict)];
    expect(named(holds, onR1)).toEqual(['conflict git/r1']);
    expect(named(holds, { ...onR1, readyAtMs: NOW_MS - 9_000 })).toEqual([]);
    // The job ran, rested or was parked until then, and kept its age.
    expect(named(holds, { ...onR1, finishedAtMs: NOW_MS - 8_000 })).toEqual([]);
    expect(named(holds, { ...onR1, runAtMs: NOW_MS - 8_000 })).toEqual([]);
  });

  it('is found for jobs in any order', () => {
    const blockersOf = blockersBefore(
      [ended(-1, { fairnessKey: 'k1' }), ended(-9_000, conflict)],
      state(),
      NOW_MS,
    );
    const late = job('late', { ...onR1, readyAtMs: NOW_MS - 5_000 });
    const early = job('early', onR1);
    expect([late, early, late, early].map(blockersOf)).toEqual([
      [],
      ['conflict git/r1'],
      [],
      ['conflict git/r1'],
    ]);
  });

  it('is nothing if there was room beside what ended', () => {
    expect(named([ended(-1)])).toEqual([]);
  });

  it('has at most four names of at most 256 bytes', () => {
    const long = 'k'.repeat(500);
    const holds = [
      ended(-1, { fairnessKey: long, type: 'clone', ...conflict }),
      ended(-2, { fairnessKey: long, type: 'clone' }),
      ended(-3, { fairnessKey: long, type: 'clone' }),
      ended(-4, { fairnessKey: long, type: 'clone' }),
    ];
    const texts = named(holds, { fairnessKey: long, ...onR1 });
    expect(texts.slice(0, 3)).toEqual([
      'cap tier/top',
      'cap type/clone',
      expect.stringMatching(/^cap key\/k+…$/),
    ]);
    expect(texts.length).toBeLessThanOrEqual(4);
    for (const text of texts) expect(Buffer.byteLength(text)).toBeLessThanOrEqual(256);
  });
});
