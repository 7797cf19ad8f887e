import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Control } from '../../lib/core/capacity.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { FAIRNESS_DEFAULTS, RETRY_DEFAULTS, SCORE_DEFAULTS, TYPE_DEFAULTS } from '../../lib/core/defaults.ts';
import type { ReservedJob, WaitingJob } from '../../lib/core/job.ts';
import { Scheduler } from '../../lib/core/scheduler.ts';
import { expectSame } from './expect-same.ts';
import { planned } from './plans.ts';
import { cappedPools, costIn, FEWER_RUNS, jobs, NOW_MS, pools } from './random-pass.ts';
import { referencePlan } from './reference-planner.ts';

vi.setConfig({ testTimeout: 120_000 });

/** What the scheduler should hold, kept the simplest way there is. */
class Model {
  readonly configuration: PoolConfiguration;
  readonly cost = new Map<string, number>();
  /** Ids whose charge a reset has forgiven. */
  readonly forgiven = new Set<string>();
  waiting: { readonly job: WaitingJob; readonly number: number }[] = [];
  running: ReservedJob[] = [];
  overrides: Control[] = [];
  nowMs = NOW_MS;
  readonly #slots: number;

  constructor(configuration: PoolConfiguration, slots: number) {
    this.configuration = configuration;
    this.#slots = slots;
  }

  weight(key: string): number {
    const override = this.overrides.findLast((other) => other.scope === `key/${key}`);
    const { weights, defaultWeight } = this.configuration.fairness;
    return override?.weight ?? weights[key] ?? defaultWeight;
  }

  arrive(job: WaitingJob, number: number): void {
    const active = new Set([
      ...this.waiting.map((other) => other.job.fairnessKey),
      ...this.running.map((other) => other.fairnessKey),
    ]);
    const key = job.fairnessKey;
    if (!active.has(key) && active.size > 0 && this.configuration.fairness.idlePolicy === 'advance') {
      const least = Math.min(...[...active].map((other) => (this.cost.get(other) ?? 0) / this.weight(other)));
      this.cost.set(key, Math.max(this.cost.get(key) ?? 0, least * this.weight(key)));
    }
    this.waiting.push({ job, number });
  }

  correct({ id, fairnessKey }: ReservedJob, costMs: number): void {
    if (!this.forgiven.has(id)) this.charge(fairnessKey, costMs);
  }

  charge(key: string, costMs: number): void {
    this.cost.set(key, (this.cost.get(key) ?? 0) + costMs);
  }

  inFlightOf(key: string): number {
    return this.running
      .filter((job) => job.fairnessKey === key)
      .reduce((sum, job) => sum + job.estimatedCostMs, 0);
  }

  expected(): readonly { id: string; fleet: string; chargedMs: number }[] {
    return referencePlan({
      configuration: this.configuration,
      overrides: this.overrides,
      nowMs: this.nowMs,
      inFlight: this.running,
      freeSlotsByFleet: new Map(
        this.configuration.fleets.map(({ fleet }) => [
          fleet,
          Math.max(0, this.#slots - this.running.filter((job) => job.fleet === fleet).length),
        ]),
      ),
      settledCostMs: new Map([...this.cost].map(([key, costMs]) => [key, costMs - this.inFlightOf(key)])),
      waiting: this.waiting.map((other) => other.job),
      costMs: costIn(this.configuration),
    });
  }
}

type Action =
  | { readonly kind: 'arrive'; readonly job: WaitingJob }
  | { readonly kind: 'dispatch'; readonly most: number }
  | { readonly kind: 'settle'; readonly which: number; readonly usedMs: number; readonly succeeded: boolean }
  | { readonly kind: 'lose'; readonly which: number }
  | { readonly kind: 'retry'; readonly which: number }
  | { readonly kind: 'withdraw'; readonly which: number }
  | { readonly kind: 'replace'; readonly which: number }
  | { readonly kind: 'tick'; readonly ms: number }
  | { readonly kind: 'reset' }
  | { readonly kind: 'override'; readonly override: Control };

const actions: fc.Arbitrary<readonly Action[]> = fc
  .tuple(
    jobs(60),
    fc.array(
      fc.oneof(
        { weight: 4, arbitrary: fc.record({ kind: fc.constant('dispatch' as const), most: fc.nat(6) }) },
        {
          weight: 5,
          arbitrary: fc.record({
            kind: fc.constant('settle' as const),
            which: fc.nat(20),
            usedMs: fc.constantFrom(0, 100, 400),
            succeeded: fc.boolean(),
          }),
        },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('lose' as const), which: fc.nat(20) }) },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('retry' as const), which: fc.nat(20) }) },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('withdraw' as const), which: fc.nat(30) }) },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('replace' as const), which: fc.nat(30) }) },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const) }) },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('tick' as const), ms: fc.nat(100_000) }) },
        {
          weight: 1,
          arbitrary: fc.record({
            kind: fc.constant('override' as const),
            override: fc.record({
              scope: fc.constantFrom(
                'pool',
                'tier/top',
                'type/a',
                'type/b',
                'key/k1',
                'key/k2',
                'fleet/fleet0',
                'limit/x',
                'limit/y/o1',
              ),
              paused: fc.constantFrom(false, false, true),
              maxConcurrency: fc.option(fc.integer({ min: 1, max: 6 }), { nil: undefined }),
              weight: fc.option(fc.constantFrom(0.5, 1, 4), { nil: undefined }),
            }),
          }),
        },
      ),
      { maxLength: 60, size: 'max' },
    ),
    fc.infiniteStream(fc.nat(2)),
  )
  .map(([arriving, others, stream]) => {
    const mixed: Action[] = [];
    const left = [...arriving];
    for (const other of others) {
      for (let count = stream.next().value ?? 0; count > 0; count -= 1) {
        const job = left.pop();
        if (job !== undefined) mixed.push({ kind: 'arrive', job });
      }
      mixed.push(other);
    }
    return mixed;
  });

function play(scheduler: Scheduler, model: Model, action: Action): void {
  switch (action.kind) {
    case 'arrive': {
      const job = { ...action.job, readyAtMs: Math.min(action.job.readyAtMs, model.nowMs) };
      const number = scheduler.arrive(job, model.nowMs);
      expectSame(number === undefined, job.type === 'unknown');
      if (number !== undefined) model.arrive(job, number);
      return;
    }
    case 'dispatch': {
      scheduler.beginPass(model.nowMs);
      const expected = model.expected().slice(0, action.most);
      for (const plan of expected) {
        const decision = scheduler.next();
        expectSame(decision === undefined ? undefined : planned(decision), plan);
        if (decision === undefined) return;
        model.running.push(decision.reserved);
        model.charge(decision.reserved.fairnessKey, decision.reserved.estimatedCostMs);
        model.waiting = model.waiting.filter((other) => other.job.id !== plan.id);
      }
      if (expected.length < action.most) expectSame(scheduler.next(), undefined);
      return;
    }
    case 'settle':
    case 'lose': {
      const reserved = model.running[action.which % Math.max(1, model.running.length)];
      if (reserved === undefined) {
        expectSame(scheduler.settle('nobody', { nowMs: model.nowMs, succeeded: true }), false);
        return;
      }
      model.running = model.running.filter((other) => other !== reserved);
      const { fairness } = model.configuration;
      if (action.kind === 'lose') {
        scheduler.dropped(reserved.id);
        model.correct(reserved, -reserved.estimatedCostMs);
      } else {
        expectSame(scheduler.settle(reserved.id, { ...action, nowMs: model.nowMs }), true);
        const usedMs = fairness.trueUp
          ? Math.max(action.usedMs, fairness.admissionFloorMs)
          : reserved.estimatedCostMs;
        model.correct(reserved, usedMs - reserved.estimatedCostMs);
      }
      expectSame(scheduler.isRunning(reserved.id), false);
      return;
    }
    case 'retry': {
      const { id, type, fairnessKey, keys } =
        model.running[action.which % Math.max(1, model.running.length)] ?? {};
      if (id === undefined || type === undefined || fairnessKey === undefined) return;
      const which = action.which % model.running.length;
      play(scheduler, model, { kind: 'settle', which, usedMs: 100, succeeded: false });
      model.forgiven.delete(id);
      const job = waitingJob(id, { type, fairnessKey, keys, readyAtMs: model.nowMs });
      model.waiting.push({ job, number: scheduler.arrive(job, model.nowMs, true) ?? -1 });
      return;
    }
    case 'withdraw': {
      const other = model.waiting[action.which % Math.max(1, model.waiting.length)];
      if (other === undefined) return;
      expectSame(scheduler.withdraw(other.number, 'somebody else', model.nowMs), false);
      expectSame(scheduler.withdraw(other.number, other.job.id, model.nowMs), true);
      expectSame(scheduler.withdraw(other.number, other.job.id, model.nowMs), false);
      model.waiting = model.waiting.filter((waiting) => waiting !== other);
      return;
    }
    case 'replace': {
      const index = action.which % Math.max(1, model.waiting.length);
      const other = model.waiting[index];
      if (other === undefined) return;
      const job = { ...other.job, readyAtMs: model.nowMs, version: other.job.version + 1 };
      const stranger = { ...job, id: 'somebody else' };
      expectSame(scheduler.replace(other.number, stranger, model.nowMs), undefined);
      const number = scheduler.replace(other.number, job, model.nowMs) ?? -1;
      model.waiting = model.waiting.with(index, { job, number });
      return;
    }
    case 'tick':
      model.nowMs += action.ms;
      return;
    case 'reset':
      scheduler.resetCosts();
      for (const key of model.cost.keys()) model.cost.set(key, 0);
      for (const { id } of model.running) model.forgiven.add(id);
      return;
    case 'override':
      scheduler.override(action.override);
      model.overrides.push(action.override);
      return;
  }
}

/** Plays a history, and compares all that can be seen after each action. */
function replay(
  configuration: PoolConfiguration,
  slots: number,
  history: readonly Action[],
  explains: boolean,
): void {
  const scheduler = new Scheduler(configuration, { costMs: costIn(configuration), explains });
  for (const { fleet } of configuration.fleets) scheduler.setSlots(fleet, slots);
  const model = new Model(configuration, slots);
  for (const action of history) {
    play(scheduler, model, action);
    expectSame(scheduler.waiting, model.waiting.length);
    expectSame(scheduler.running, model.running.length);
    for (const { fairnessKey, costMs } of scheduler.costs()) {
      expectSame(costMs, model.cost.get(fairnessKey) ?? 0);
    }
  }
}

/** Two tiers, three types, one slot for all and one for the rare type. */
function smallPool(changes: Partial<PoolConfiguration> = {}): PoolConfiguration {
  const type = { ...TYPE_DEFAULTS, retry: RETRY_DEFAULTS, conflictGroup: 'g' };
  return {
    types: [
      { ...type, type: 'a', tier: 'top' },
      { ...type, type: 'b', tier: 'top' },
      { ...type, type: 'c', tier: 'low' },
    ],
    tiers: [
      { tier: 'top', maxConcurrency: null, guaranteed: 0 },
      { tier: 'low', maxConcurrency: null, guaranteed: 0 },
    ],
    fleets: [{ fleet: 'all', types: ['a', 'b', 'c'], slots: 4 }],
    maxConcurrency: null,
    score: SCORE_DEFAULTS,
    fairness: { ...FAIRNESS_DEFAULTS, maxConcurrencyPerKey: null },
    partitions: 1,
    ...changes,
  };
}

const waitingJob = (id: string, changes: Partial<WaitingJob> = {}): WaitingJob => ({
  id,
  type: 'a',
  priority: 0,
  mode: 'queued',
  fairnessKey: 'k1',
  readyAtMs: NOW_MS - 1_000,
  version: 7,
  attempt: 2,
  ...changes,
});

describe('a decision', () => {
  it('carries what is to be reserved, and its reasons', () => {
    const scheduler = new Scheduler(smallPool());
    scheduler.arrive(waitingJob('one', { resourceId: 'r' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()).toEqual({
      ticket: 0,
      reserved: {
        id: 'one',
        version: 7,
        attempt: 2,
        type: 'a',
        tier: 'top',
        fairnessKey: 'k1',
        conflictKey: 'g/r',
        fleet: 'all',
        estimatedCostMs: 1_000,
      },
      mode: 'queued',
      readyAtMs: NOW_MS - 1_000,
      reasons: {
        score: { priority: 0, age: 16, rarity: 125, onDemand: 0, total: 141 },
        keyCostMs: 0,
        weight: 1,
        guaranteed: false,
        skipped: [],
      },
    });
    expect(scheduler.isRunning('one')).toBe(true);
    expect(scheduler.isConflictHeld('g/r')).toBe(true);
    expect(scheduler.isConflictHeld('g/other')).toBe(false);
  });

  it('says what was passed over since the one before, each thing once', () => {
    const scheduler = new Scheduler(
      smallPool({
        tiers: [
          { tier: 'top', maxConcurrency: 2, guaranteed: 0 },
          { tier: 'low', maxConcurrency: null, guaranteed: 1 },
        ],
      }),
    );
    scheduler.override({ scope: 'type/b', paused: true });
    scheduler.arrive(waitingJob('held', { resourceId: 'r', fairnessKey: 'k1', readyAtMs: 1 }), NOW_MS);
    scheduler.arrive(waitingJob('blocked', { resourceId: 'r', fairnessKey: 'k1', readyAtMs: 2 }), NOW_MS);
    scheduler.arrive(waitingJob('free', { fairnessKey: 'k1' }), NOW_MS);
    scheduler.arrive(waitingJob('paused', { fairnessKey: 'k3' }), NOW_MS);
    scheduler.arrive(waitingJob('capped', { fairnessKey: 'k4' }), NOW_MS);
    scheduler.arrive(waitingJob('other', { type: 'b', fairnessKey: 'k1' }), NOW_MS);
    scheduler.arrive(waitingJob('low', { type: 'c', fairnessKey: 'k1' }), NOW_MS);
    scheduler.arrive(waitingJob('lower', { type: 'c', fairnessKey: 'k1' }), NOW_MS);
    scheduler.override({ scope: 'key/k3', paused: true });
    scheduler.override({ scope: 'key/k4', paused: false, maxConcurrency: 0 });
    scheduler.beginPass(NOW_MS);
    const told = (): unknown => {
      const decision = scheduler.next();
      return decision === undefined
        ? undefined
        : [decision.reserved.id, decision.reasons.guaranteed, decision.reasons.skipped];
    };
    expect(told()).toEqual(['low', true, []]);
    // Keys are met when it would be their turn, and then put aside until they may run again.
    expect(told()).toEqual([
      'held',
      false,
      [
        { kind: 'type', type: 'b', why: 'paused' },
        { kind: 'key', fairnessKey: 'k4', why: 'cap' },
        { kind: 'key', fairnessKey: 'k3', why: 'paused' },
      ],
    ]);
    expect(told()).toEqual([
      'free',
      false,
      [
        { kind: 'type', type: 'b', why: 'paused' },
        { kind: 'job', id: 'blocked', why: 'conflict', conflictKey: 'g/r' },
      ],
    ]);
    expect(told()).toEqual(['lower', false, [{ kind: 'tier', tier: 'top', why: 'cap' }]]);
    expect(told()).toBeUndefined();
    scheduler.settle('free', { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    scheduler.settle('lower', { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    expect(told()).toBeUndefined();
    expect(scheduler.skipped).toEqual([{ kind: 'type', type: 'b', why: 'paused' }]);
  });

  it('says that a type has no slot, that it is at its cap, that a tier is paused', () => {
    const scheduler = new Scheduler(
      smallPool({
        fleets: [
          { fleet: 'all', types: ['b', 'c'], slots: 4 },
          { fleet: 'none', types: ['a'], slots: 0 },
        ],
      }),
    );
    scheduler.override({ scope: 'type/b', paused: false, maxConcurrency: 0 });
    scheduler.arrive(waitingJob('a'), NOW_MS);
    scheduler.arrive(waitingJob('b', { type: 'b' }), NOW_MS);
    scheduler.arrive(waitingJob('c', { type: 'c' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reasons.skipped).toEqual([
      { kind: 'type', type: 'a', why: 'noSlot' },
      { kind: 'type', type: 'b', why: 'cap' },
    ]);
    scheduler.override({ scope: 'tier/top', paused: true });
    expect(scheduler.next()).toBeUndefined();
    expect(scheduler.skipped).toEqual([{ kind: 'tier', tier: 'top', why: 'paused' }]);
  });

  it('says nothing of what it passed over where nobody asks', () => {
    const scheduler = new Scheduler(smallPool(), {
      explains: false,
      overrides: [
        { scope: 'tier/low', paused: true },
        { scope: 'type/b', paused: true },
        { scope: 'key/k2', paused: true },
      ],
    });
    scheduler.arrive(waitingJob('x', { fairnessKey: 'k2' }), NOW_MS);
    scheduler.arrive(waitingJob('y', { resourceId: 'r' }), NOW_MS);
    scheduler.arrive(waitingJob('z', { resourceId: 'r' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reasons.skipped).toEqual([]);
    expect(scheduler.next()).toBeUndefined();
    expect(scheduler.skipped).toEqual([]);
  });

  it('charges at least the floor, from the estimates it learned', () => {
    const scheduler = new Scheduler(
      smallPool({ fairness: { ...FAIRNESS_DEFAULTS, admissionFloorMs: 2_000, alpha: 0.5 } }),
    );
    const start = (id: string): number | undefined => {
      scheduler.arrive(waitingJob(id), NOW_MS);
      scheduler.beginPass(NOW_MS);
      return scheduler.next()?.reserved.estimatedCostMs;
    };
    expect(start('one')).toBe(2_000);
    scheduler.settle('one', { nowMs: NOW_MS, usedMs: 9_000, succeeded: true });
    expect(start('two')).toBe(5_000);
    // A failure teaches nothing, and is charged what it used.
    scheduler.settle('two', { nowMs: NOW_MS, usedMs: 100, succeeded: false });
    expect(start('three')).toBe(5_000);
    expect(scheduler.costs()).toMatchObject([
      { fairnessKey: 'k1', costMs: 9_000 + 2_000 + 5_000, running: 1 },
    ]);
  });
});

describe('what keeps a job from starting', () => {
  it('is no longer the job that held its conflict key, once that has ended', () => {
    const scheduler = new Scheduler(smallPool());
    scheduler.arrive(waitingJob('first', { resourceId: 'r' }), NOW_MS);
    scheduler.arrive(waitingJob('second', { resourceId: 'r' }), NOW_MS);
    const second = { type: 'a', fairnessKey: 'k1', resourceId: 'r' };
    expect(scheduler.obstaclesTo(second)).toEqual([]);
    expect(scheduler.obstaclesTo({ ...second, fairnessKey: 'never seen' })).toEqual([]);
    scheduler.beginPass(NOW_MS);
    scheduler.next();
    expect(scheduler.obstaclesTo(second)).toEqual([{ why: 'conflict', conflictKey: 'g/r', holder: 'first' }]);
    scheduler.settle('first', { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    expect(scheduler.obstaclesTo(second)).toEqual([]);
    scheduler.closeConflict('g/r');
    expect(scheduler.next()).toBeUndefined();
  });
});

describe('room', () => {
  it('is what pool and fleets leave; nothing while the pool is paused or over its cap', () => {
    const scheduler = new Scheduler(smallPool({ maxConcurrency: 3 }));
    expect(scheduler.room).toBe(3);
    scheduler.setSlots('all', 2);
    expect(scheduler.room).toBe(2);
    scheduler.override({ scope: 'pool', paused: true });
    expect(scheduler.room).toBe(0);
    scheduler.override({ scope: 'pool', paused: false });
    const reserved = { version: 1, attempt: 1, type: 'a', tier: 'top', fairnessKey: 'k', fleet: 'all' };
    for (let job = 0; job < 4; job += 1) {
      scheduler.hold({ ...reserved, id: `r${job}`, estimatedCostMs: 1 }, NOW_MS);
    }
    expect(scheduler.room).toBe(0);
    expect([scheduler.roomOfTier(0), scheduler.roomOfType(0)]).toEqual([Infinity, 0]);
    scheduler.override({ scope: 'tier/top', paused: false, maxConcurrency: 5 });
    scheduler.override({ scope: 'type/a', paused: false, maxConcurrency: 2 });
    scheduler.setSlots('all', 9);
    expect([scheduler.roomOfTier(0), scheduler.roomOfType(0)]).toEqual([1, 0]);
    scheduler.override({ scope: 'tier/top', paused: true });
    scheduler.override({ scope: 'type/a', paused: true, maxConcurrency: 9 });
    expect([scheduler.roomOfTier(0), scheduler.roomOfType(0)]).toEqual([0, 0]);
  });

  it('is held by reservations of types, tiers and fleets that are configured no more', () => {
    const scheduler = new Scheduler(smallPool({ maxConcurrency: 2 }));
    const gone = { version: 1, attempt: 1, type: 'gone', tier: 'gone', fairnessKey: 'k', fleet: 'gone' };
    scheduler.hold({ ...gone, id: 'r1', conflictKey: 'g/r', estimatedCostMs: 5 }, NOW_MS);
    scheduler.arrive(waitingJob('blocked', { resourceId: 'r' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()).toBeUndefined();
    expect(scheduler.room).toBe(1);
    expect(scheduler.settle('r1', { nowMs: NOW_MS, usedMs: 10, succeeded: true })).toBe(true);
    expect(scheduler.room).toBe(2);
    expect(scheduler.next()?.reserved.id).toBe('blocked');
  });
});

describe('eviction', () => {
  const forgetful = { ...FAIRNESS_DEFAULTS, keyTtlMs: 1_000, estimateTtlMs: 1_000 };

  it('drops what nobody uses any more; a job that waits keeps the ledger and the estimates it needs', () => {
    const scheduler = new Scheduler(smallPool({ fairness: forgetful }));
    const later = NOW_MS + 10_000;
    scheduler.arrive(waitingJob('one', { resourceId: 'r' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    scheduler.settle(scheduler.next()?.reserved.id ?? '', { nowMs: NOW_MS, usedMs: 5_000, succeeded: true });
    const number = scheduler.arrive(waitingJob('two', { resourceId: 'r' }), NOW_MS) ?? -1;
    const kept = (): readonly number[] => [scheduler.costs().length, scheduler.estimates.list().length];
    scheduler.evict(later);
    expect(kept()).toEqual([1, 2]);
    scheduler.withdraw(number, 'two', later);
    scheduler.evict(later + 999);
    expect(scheduler.estimates.list().length).toBe(2);
    scheduler.evict(later + 1_000);
    expect(kept()).toEqual([0, 0]);
  });

  it('counts from the last loss as from any end', () => {
    const scheduler = new Scheduler(smallPool({ fairness: forgetful }));
    scheduler.arrive(waitingJob('one'), NOW_MS);
    scheduler.beginPass(NOW_MS);
    scheduler.next();
    scheduler.beginPass(NOW_MS + 900);
    scheduler.dropped('one');
    scheduler.evict(NOW_MS + 1_899);
    expect(scheduler.costs()).toMatchObject([{ fairnessKey: 'k1', costMs: 0, running: 0 }]);
    scheduler.evict(NOW_MS + 1_900);
    expect(scheduler.costs()).toEqual([]);
  });
});

describe('a conflict key', () => {
  it('is kept no longer than a job that waits or runs needs it', () => {
    const scheduler = new Scheduler(smallPool());
    const reserved = { version: 1, attempt: 1, type: 'a', tier: 'top', fairnessKey: 'k', fleet: 'all' };
    scheduler.hold({ ...reserved, id: 'without', estimatedCostMs: 1 }, NOW_MS);
    expect(scheduler.conflicts.size).toBe(0);
    const [, number = -1] = ['one', 'two', 'three'].map((id, readyAtMs) =>
      scheduler.arrive(waitingJob(id, { resourceId: 'r', readyAtMs }), NOW_MS),
    );
    scheduler.arrive(waitingJob('other', { resourceId: 's', readyAtMs: 9 }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect([scheduler.next()?.reserved.id, scheduler.next()?.reserved.id]).toEqual(['one', 'other']);
    const end = (id: string): boolean =>
      scheduler.settle(id, { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    expect([end('other'), scheduler.conflicts.size]).toEqual([true, 1]);
    scheduler.withdraw(number, 'two', NOW_MS);
    expect([end('one'), scheduler.conflicts.size]).toEqual([true, 1]);
    expect(scheduler.next()?.reserved.id).toBe('three');
    expect([end('three'), scheduler.conflicts.size]).toEqual([true, 0]);
  });
});

describe('a key that comes to its cap while it is aside', () => {
  it('is passed over, said once, and has its turn when it may run again', () => {
    const scheduler = new Scheduler(smallPool());
    for (const [index, fairnessKey] of ['k1', 'k2', 'k3', 'k4'].entries()) {
      scheduler.arrive(waitingJob(`${fairnessKey}-0`, { fairnessKey, readyAtMs: index }), NOW_MS);
      scheduler.arrive(waitingJob(`${fairnessKey}-1`, { fairnessKey, readyAtMs: index }), NOW_MS);
    }
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('k1-0');
    scheduler.override({ scope: 'key/k2', paused: true });
    const passed = [{ kind: 'key', fairnessKey: 'k2', why: 'paused' }];
    expect(scheduler.next()).toMatchObject({ reserved: { id: 'k3-0' }, reasons: { skipped: passed } });
    scheduler.override({ scope: 'key/k2', paused: false, maxConcurrency: 1 });
    expect(scheduler.next()).toMatchObject({ reserved: { id: 'k2-0' }, reasons: { skipped: [] } });
    expect(scheduler.next()?.reserved.id).toBe('k4-0');
    for (const id of ['k1-0', 'k3-0', 'k4-0']) {
      scheduler.settle(id, { nowMs: NOW_MS, usedMs: 2_000, succeeded: true });
    }
    // k2 costs least, and has no room until its own job ends.
    expect(scheduler.next()?.reserved.id).toBe('k1-1');
    scheduler.settle('k2-0', { nowMs: NOW_MS, usedMs: 1_500, succeeded: true });
    expect(scheduler.next()?.reserved.id).toBe('k2-1');
  });
});

describe('an index of a pool', () => {
  it('refuses a type whose tier is not declared', () => {
    const tiers = ['top', 'middle'].map((tier) => ({ tier, maxConcurrency: null, guaranteed: 0 }));
    expect(() => new Scheduler(smallPool({ tiers }))).toThrow(
      'types.c.tier: names no declared tier (top, middle), got "low". Declare it in tiers, or name one of those.',
    );
  });
});

const idlePolicies = fc.constantFrom('advance' as const, 'none' as const);

describe('jobs that are blocked by one key after another', () => {
  const ORG = { limit: 'org', keyedBy: 'org', total: null, perKey: 1 };
  const limited = smallPool({ limits: [ORG, { ...ORG, limit: 'user', keyedBy: 'user' }] });
  const pool = { ...limited, types: limited.types.map((type) => ({ ...type, limits: ['org', 'user'] })) };
  const of = (org: string, user: string, readyAtMs: number): Partial<WaitingJob> => ({
    keys: { org, user },
    readyAtMs,
  });

  it('let those behind them start once one of the keys has room', () => {
    const scheduler = new Scheduler(pool);
    scheduler.beginPass(NOW_MS);
    scheduler.arrive(waitingJob('of-acme', of('acme', 'u1', 1)), NOW_MS);
    scheduler.arrive(waitingJob('of-zeta', of('zeta', 'u2', 2)), NOW_MS);
    expect([scheduler.next()?.reserved.id, scheduler.next()?.reserved.id]).toEqual(['of-acme', 'of-zeta']);
    // Both wait for acme; the first of them for u2, too.
    scheduler.arrive(waitingJob('first', of('acme', 'u2', 3)), NOW_MS);
    scheduler.arrive(waitingJob('second', of('acme', 'u3', 4)), NOW_MS);
    expect(scheduler.next()).toBeUndefined();
    scheduler.settle('of-acme', { nowMs: NOW_MS, usedMs: 1, succeeded: true });
    expect(scheduler.next()?.reserved).toMatchObject({ id: 'second', keys: { org: 'acme', user: 'u3' } });
    expect(scheduler.isConflictHeld('@org/acme')).toBe(true);
    scheduler.settle('second', { nowMs: NOW_MS, usedMs: 1, succeeded: true });
    scheduler.settle('of-zeta', { nowMs: NOW_MS, usedMs: 1, succeeded: true });
    expect(scheduler.next()?.reserved.id).toBe('first');
  });
});

describe('a long-lived scheduler', () => {
  it('decides as the reference does after any history of arrivals, ends, losses, retries, moves, withdrawals and overrides', () => {
    fc.assert(
      fc.property(
        fc.oneof(pools, cappedPools),
        idlePolicies,
        fc.integer({ min: 0, max: 5 }),
        actions,
        fc.boolean(),
        (pool, idlePolicy, slots, history, explains) => {
          const configuration = { ...pool, fairness: { ...pool.fairness, idlePolicy } };
          replay(configuration, slots, history, explains);
        },
      ),
      { numRuns: FEWER_RUNS * 2 },
    );
  });

  it('does so too where nearly all jobs want the same few resources', () => {
    fc.assert(
      fc.property(
        fc.oneof(pools, cappedPools),
        idlePolicies,
        fc.integer({ min: 2, max: 5 }),
        actions,
        fc.infiniteStream(fc.constantFrom('r1', 'r1', 'r1', 'r2', undefined)),
        fc.infiniteStream(fc.constantFrom('', 'k1', 'k2', 'k3', 'k4', 'k5', 'k6', 'k7', 'k8', 'k9')),
        // In one group, or as many of each type and resource together.
        fc.constantFrom(undefined, undefined, 2, 3),
        (pool, idlePolicy, slots, history, resources, keys, room) => {
          const configuration = {
            ...pool,
            types: pool.types.map((type) => ({
              ...type,
              conflictGroup: room === undefined ? 'g' : null,
              maxConcurrencyPerResource: room,
            })),
            fairness: { ...pool.fairness, idlePolicy },
          };
          const herd = history.map((action) =>
            action.kind === 'arrive'
              ? {
                  ...action,
                  job: {
                    ...action.job,
                    resourceId: resources.next().value ?? undefined,
                    fairnessKey: keys.next().value ?? '',
                  },
                }
              : action,
          );
          // All arrive first: the herd is there when the first of it starts.
          const early = herd.filter((action) => action.kind === 'arrive');
          const late = herd.filter((action) => action.kind !== 'arrive');
          replay(configuration, slots, [...early, ...late], true);
          replay(configuration, slots, herd, true);
        },
      ),
      { numRuns: FEWER_RUNS * 2 },
    );
  });
});
