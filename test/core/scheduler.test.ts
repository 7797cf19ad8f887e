import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Control } from '../../lib/core/capacity.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { FAIRNESS_DEFAULTS, RETRY_DEFAULTS, SCORE_DEFAULTS, TYPE_DEFAULTS } from '../../lib/core/defaults.ts';
import type { ReservedJob, WaitingJob } from '../../lib/core/job.ts';
import { Scheduler } from '../../lib/core/scheduler.ts';
import { expectSame } from './expect-same.ts';
import { planned } from './plans.ts';
import { costIn, FEWER_RUNS, jobs, NOW_MS, pools } from './random-pass.ts';
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
        scheduler.lose(reserved.id);
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
      const { id, type, fairnessKey } = model.running[action.which % Math.max(1, model.running.length)] ?? {};
      if (id === undefined || type === undefined || fairnessKey === undefined) return;
      const which = action.which % model.running.length;
      play(scheduler, model, { kind: 'settle', which, usedMs: 100, succeeded: false });
      model.forgiven.delete(id);
      const job = waitingJob(id, { type, fairnessKey, readyAtMs: model.nowMs });
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

  it('names the resource where no conflict key does', () => {
    const types = smallPool().types.map((type) =>
      type.type === 'b' ? { ...type, conflictGroup: null } : type,
    );
    const scheduler = new Scheduler(smallPool({ types }));
    scheduler.arrive(waitingJob('named', { type: 'b', resourceId: 'r', readyAtMs: 1 }), NOW_MS);
    scheduler.arrive(waitingJob('nameless', { type: 'b', readyAtMs: 2 }), NOW_MS);
    scheduler.arrive(waitingJob('exclusive', { resourceId: 'r', readyAtMs: 3 }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    const reserved = [scheduler.next(), scheduler.next(), scheduler.next()].map((next) => next?.reserved);
    expect(reserved[0]).toMatchObject({ id: 'named', resourceId: 'r', conflictKey: undefined });
    expect(reserved[1]?.id).toBe('nameless');
    expect(reserved[1]).not.toHaveProperty('resourceId');
    expect(reserved[2]).toMatchObject({ id: 'exclusive', conflictKey: 'g/r' });
    expect(reserved[2]).not.toHaveProperty('resourceId');
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

describe('a ticket', () => {
  it('names a running job until it ends, and another after that', () => {
    const scheduler = new Scheduler(smallPool());
    for (const id of ['one', 'two', 'three', 'four']) scheduler.arrive(waitingJob(id), NOW_MS);
    scheduler.beginPass(NOW_MS);
    const tickets = ['four', 'one', 'three'].map(() => scheduler.next()?.ticket ?? -1);
    const ending = { nowMs: NOW_MS, usedMs: 1_000, succeeded: true };
    expect(scheduler.settleTicket(tickets[1] ?? -1, ending)).toBe(true);
    expect(scheduler.settleTicket(tickets[1] ?? -1, ending)).toBe(false);
    for (const nobodys of [-1, 3, 99]) expect(scheduler.settleTicket(nobodys, ending)).toBe(false);
    expect(scheduler.running).toBe(2);
    // Asked by id from here on.
    expect(['one', 'two', 'three', 'four'].map((id) => scheduler.isRunning(id))).toEqual([
      false,
      false,
      true,
      true,
    ]);
    expect(scheduler.next()).toMatchObject({ ticket: tickets[1], reserved: { id: 'two' } });
    expect(scheduler.isRunning('two')).toBe(true);
    expect(scheduler.settleTicket(tickets[1] ?? -1, ending)).toBe(true);
    expect(scheduler.isRunning('two')).toBe(false);
    expect(scheduler.settle('two', ending)).toBe(false);
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

  it('may be that its type has no free slots, counted when the pass began', () => {
    const fleets = [
      { fleet: 'all', types: ['a', 'b', 'c'], slots: 2 },
      { fleet: 'rare', types: ['b'], slots: 3 },
    ];
    const scheduler = new Scheduler(smallPool({ fleets }));
    const counts = (): readonly number[] =>
      ['a', 'b', 'nothing'].map((type) => scheduler.compatibleSlots(type));
    expect(counts()).toEqual([0, 0, 0]);
    scheduler.beginPass(NOW_MS);
    scheduler.arrive(waitingJob('one', { type: 'b' }), NOW_MS);
    scheduler.next();
    expect(counts()).toEqual([2, 5, 0]);
    scheduler.beginPass(NOW_MS);
    expect(counts()).toEqual([2, 4, 0]);
  });
});

describe('a job that has ended', () => {
  it('leaves its number to the next one', () => {
    const scheduler = new Scheduler(smallPool());
    const numbers = ['one', 'two', 'three'].map((id) => {
      const number = scheduler.arrive(waitingJob(id), NOW_MS);
      scheduler.beginPass(NOW_MS);
      expect(scheduler.next()?.reserved.id).toBe(id);
      scheduler.settle(id, { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
      return number;
    });
    expect(new Set(numbers).size).toBe(1);
  });
});

describe('many running jobs', () => {
  it('are told apart, each with its charge, type, key and fleet', () => {
    const fleets = [
      { fleet: 'all', types: ['a', 'b', 'c'], slots: 100 },
      { fleet: 'rare', types: ['b'], slots: 100 },
    ];
    const scheduler = new Scheduler(smallPool({ fleets }));
    for (let index = 0; index < 200; index += 1) {
      const place = { type: index % 2 === 0 ? 'a' : 'b', fairnessKey: `k${index}` };
      scheduler.arrive(waitingJob(`job${index}`, place), NOW_MS);
    }
    scheduler.beginPass(NOW_MS);
    const tickets = new Map<string, number>();
    for (let next = scheduler.next(); next !== undefined; next = scheduler.next()) {
      tickets.set(next.reserved.id, next.ticket);
    }
    expect(new Set(tickets.values()).size).toBe(200);
    for (const [id, ticket] of tickets) {
      const usedMs = 1_000 + Number(id.slice(3));
      expect(scheduler.settleTicket(ticket, { nowMs: NOW_MS, usedMs, succeeded: true })).toBe(true);
    }
    const costs = new Map(scheduler.costs().map(({ fairnessKey, costMs }) => [fairnessKey, costMs]));
    expect([costs.get('k0'), costs.get('k77'), costs.get('k199')]).toEqual([1_000, 1_077, 1_199]);
    expect([scheduler.running, scheduler.room]).toEqual([0, 200]);
    expect(scheduler.fleets.roomOf(1)).toBe(100);
  });
});

describe('losses', () => {
  it('make the candidates stale after more than five in a row; a win begins the count anew', () => {
    const scheduler = new Scheduler(smallPool());
    for (let job = 0; job < 30; job += 1) scheduler.arrive(waitingJob(`job${job}`), NOW_MS);
    scheduler.beginPass(NOW_MS);
    const lose = (): boolean => scheduler.lose(scheduler.next()?.reserved.id ?? '');
    expect([lose(), lose(), lose(), lose(), lose()]).toEqual([false, false, false, false, false]);
    scheduler.win();
    expect([lose(), lose(), lose(), lose(), lose(), lose(), lose()]).toEqual([
      false,
      false,
      false,
      false,
      false,
      true,
      false,
    ]);
    expect(scheduler.lose('nobody')).toBe(false);
    expect(scheduler.running).toBe(0);
    expect(scheduler.costs()[0]?.costMs).toBe(0);
  });

  it('take rarity anew from the slots that are free then', () => {
    const scheduler = new Scheduler(smallPool());
    for (let job = 0; job < 30; job += 1) scheduler.arrive(waitingJob(`job${job}`), NOW_MS);
    scheduler.beginPass(NOW_MS);
    const rarity = (): number | undefined => scheduler.next()?.reasons.score.rarity;
    expect([rarity(), rarity()]).toEqual([125, 125]);
    for (let loss = 0; loss < 6; loss += 1) scheduler.lose(scheduler.next()?.reserved.id ?? '');
    expect(rarity()).toBe(250);
  });
});

describe('overrides', () => {
  it('of unknown scopes change nothing', () => {
    const scheduler = new Scheduler(smallPool(), {
      overrides: ['tier/x', 'type/x', 'fleet/x', 'x', 'x/y', ''].map((scope) => ({ scope, paused: true })),
    });
    scheduler.setSlots('x', 99);
    scheduler.arrive(waitingJob('one'), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('one');
  });

  it('end with one that says nothing: the configured cap and weight are back', () => {
    const scheduler = new Scheduler(
      smallPool({
        maxConcurrency: 3,
        tiers: [
          { tier: 'top', maxConcurrency: 3, guaranteed: 0 },
          { tier: 'low', maxConcurrency: null, guaranteed: 0 },
        ],
        types: smallPool().types.map((type) => ({ ...type, maxConcurrency: 3 })),
        fairness: { ...FAIRNESS_DEFAULTS, weights: { k1: 5 }, maxConcurrencyPerKey: 3 },
      }),
    );
    for (let job = 0; job < 9; job += 1) scheduler.arrive(waitingJob(`job${job}`), NOW_MS);
    for (const scope of ['pool', 'tier/top', 'type/a', 'key/k1', 'fleet/all']) {
      scheduler.override({ scope, paused: false, maxConcurrency: 1, weight: 2 });
      scheduler.beginPass(NOW_MS);
      const first = scheduler.next();
      expect([scope, first?.reasons.weight]).toEqual([scope, scope === 'key/k1' ? 2 : 5]);
      expect(scheduler.next()).toBeUndefined();
      scheduler.override({ scope, paused: false });
      const others = [scheduler.next(), scheduler.next()];
      expect(others.map((next) => next?.reasons.weight)).toEqual([5, 5]);
      expect(scheduler.next()).toBeUndefined();
      for (const next of [first, ...others]) scheduler.lose(next?.reserved.id ?? '');
      for (let job = 0; job < 3; job += 1) scheduler.arrive(waitingJob(`${scope}${job}`), NOW_MS);
    }
  });

  it('that raise a weight move the key forward at once', () => {
    const scheduler = new Scheduler(smallPool());
    scheduler.ledgers.setCost(scheduler.openKey('k1', 0), 1_000);
    scheduler.ledgers.setCost(scheduler.openKey('k2', 0), 1_500);
    for (const key of ['k1', 'k2']) {
      for (let job = 0; job < 3; job += 1)
        scheduler.arrive(waitingJob(`${key}-${job}`, { fairnessKey: key }), 0);
    }
    scheduler.override({ scope: 'key/k2', paused: false, weight: 2 });
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.fairnessKey).toBe('k2');
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

describe('jobs blocked on one conflict key', () => {
  it('are parked once, and one after the other starts as the key is freed, in their order', () => {
    const scheduler = new Scheduler(smallPool());
    const ids = Array.from({ length: 50 }, (_, index) => `job${String(index).padStart(2, '0')}`);
    for (const [index, id] of ids.entries()) {
      scheduler.arrive(waitingJob(id, { resourceId: 'r', readyAtMs: index }), NOW_MS);
    }
    for (const id of ids) {
      scheduler.beginPass(NOW_MS);
      expect(scheduler.next()?.reserved.id).toBe(id);
      expect(scheduler.next()).toBeUndefined();
      scheduler.settle(id, { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    }
    expect(scheduler.waiting).toBe(0);
  });

  it('of many lines go back one for each class, and the next when that one may not be first any more', () => {
    const scheduler = new Scheduler(smallPool());
    const numbers = new Map<string, number | undefined>();
    for (let key = 0; key < 20; key += 1) {
      const id = `job${String(key).padStart(2, '0')}`;
      const job = waitingJob(id, { resourceId: 'r', readyAtMs: key, fairnessKey: `k${id}` });
      numbers.set(id, scheduler.arrive(job, NOW_MS));
    }
    const next = (): string | undefined => {
      scheduler.beginPass(NOW_MS);
      const decision = scheduler.next();
      if (decision !== undefined) expect(scheduler.next()).toBeUndefined();
      return decision?.reserved.id;
    };
    const settle = (id: string): void => {
      scheduler.settle(id, { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    };
    expect(next()).toBe('job00');
    settle('job00');
    // The stand-in's key becomes dear, then full, then its job is withdrawn.
    const reserved = { version: 1, attempt: 1, type: 'c', tier: 'low', fleet: 'all', estimatedCostMs: 500 };
    scheduler.hold({ ...reserved, id: 'c1', fairnessKey: 'kjob01' }, NOW_MS);
    expect(next()).toBe('job02');
    settle('job02');
    scheduler.override({ scope: 'key/kjob03', paused: true });
    expect(next()).toBe('job04');
    settle('job04');
    scheduler.override({ scope: 'key/kjob03', paused: false });
    expect(next()).toBe('job03');
    settle('job03');
    expect(scheduler.withdraw(numbers.get('job05') ?? -1, 'job05', NOW_MS)).toBe(true);
    expect(next()).toBe('job06');
    settle('job06');
    scheduler.resetCosts();
    expect(next()).toBe('job01');
    settle('job01');
    // One that was left behind becomes cheaper than all.
    scheduler.setCost(scheduler.openKey('kjob15', NOW_MS), -1);
    expect(next()).toBe('job15');
  });

  it('start all the same when every key that waits for it has become cheaper', () => {
    const scheduler = new Scheduler(smallPool());
    for (let key = 0; key < 12; key += 1) {
      scheduler.arrive(
        waitingJob(`job${key}`, { resourceId: 'r', fairnessKey: `k${key}`, readyAtMs: key }),
        NOW_MS,
      );
    }
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('job0');
    expect(scheduler.next()).toBeUndefined();
    scheduler.settle('job0', { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    // The stand-in is the last to be told of: by then none is left behind.
    for (let key = 11; key > 0; key -= 1) scheduler.setCost(scheduler.openKey(`k${key}`, NOW_MS), -key);
    expect(scheduler.next()?.reserved.id).toBe('job11');
    expect(scheduler.next()).toBeUndefined();
  });

  it('forget a head that was withdrawn while the key was held', () => {
    const scheduler = new Scheduler(smallPool());
    const numbers = Array.from({ length: 12 }, (_, key) =>
      scheduler.arrive(
        waitingJob(`job${key}`, { resourceId: 'r', fairnessKey: `k${key}`, readyAtMs: key }),
        0,
      ),
    );
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('job0');
    expect(scheduler.next()).toBeUndefined();
    for (const key of [1, 2, 3]) scheduler.withdraw(numbers[key] ?? -1, `job${key}`, NOW_MS);
    scheduler.settle('job0', { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    expect(scheduler.next()?.reserved.id).toBe('job4');
  });

  it('are all found, however many conflict keys become free before one of their jobs starts', () => {
    const scheduler = new Scheduler(
      smallPool({ fleets: [{ fleet: 'all', types: ['a', 'b', 'c'], slots: 20 }] }),
    );
    const reserved = { version: 1, attempt: 1, type: 'b', tier: 'top', fleet: 'all', estimatedCostMs: 0 };
    for (let resource = 0; resource < 8; resource += 1) {
      const held = { ...reserved, id: `h${resource}`, fairnessKey: 'h', conflictKey: `g/r${resource}` };
      scheduler.hold(held, NOW_MS);
      for (let key = 0; key < 12; key += 1) {
        const place = { resourceId: `r${resource}`, fairnessKey: `k${key}`, readyAtMs: resource * 100 + key };
        scheduler.arrive(waitingJob(`job${resource}-${key}`, place), NOW_MS);
      }
    }
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()).toBeUndefined();
    for (let resource = 0; resource < 8; resource += 1) {
      scheduler.settle(`h${resource}`, { nowMs: NOW_MS, usedMs: 0, succeeded: true });
    }
    const started: string[] = [];
    for (let next = scheduler.next(); next !== undefined; next = scheduler.next())
      started.push(next.reserved.id);
    expect(started.map((id) => id.slice(0, 4)).sort()).toEqual(
      Array.from({ length: 8 }, (_, resource) => `job${resource}`),
    );
    expect(started[0]).toBe('job0-0');
  });

  it.each([1, 3])(
    'all have their turn when several that ran within one limit have ended: %i keys',
    (keys) => {
      const scheduler = new Scheduler(
        smallPool({
          types: smallPool().types.map((type) => ({
            ...type,
            conflictGroup: null,
            maxConcurrencyPerResource: 3,
          })),
          fleets: [{ fleet: 'all', types: ['a', 'b', 'c'], slots: 20 }],
          fairness: { ...FAIRNESS_DEFAULTS, trueUp: false },
        }),
      );
      for (let job = 0; job < 9; job += 1) {
        const place = { resourceId: 'r', fairnessKey: `k${job % keys}`, readyAtMs: job };
        scheduler.arrive(waitingJob(`job${job}`, place), NOW_MS);
      }
      const started = (): readonly string[] => {
        const ids: string[] = [];
        scheduler.beginPass(NOW_MS);
        for (let next = scheduler.next(); next !== undefined; next = scheduler.next())
          ids.push(next.reserved.id);
        return ids;
      };
      const end = (...ids: readonly string[]): void => {
        for (const id of ids) scheduler.settle(id, { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
      };
      expect(started()).toEqual(['job0', 'job1', 'job2']);
      end('job0', 'job2');
      expect(started()).toEqual(['job3', 'job4']);
      end('job1', 'job3', 'job4');
      expect(started()).toEqual(['job5', 'job6', 'job7']);
      end('job6');
      expect(started()).toEqual(['job8']);
    },
  );

  it('are found again when the one that stood for them is withdrawn', () => {
    const scheduler = new Scheduler(smallPool());
    const numbers = ['a', 'b', 'c'].map((id, index) =>
      scheduler.arrive(waitingJob(id, { resourceId: 'r', readyAtMs: index }), NOW_MS),
    );
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('a');
    expect(scheduler.next()).toBeUndefined();
    scheduler.settle('a', { nowMs: NOW_MS, usedMs: 1_000, succeeded: true });
    // b is back in its line for both.
    expect(scheduler.withdraw(numbers[1] ?? -1, 'b', NOW_MS)).toBe(true);
    expect(scheduler.next()?.reserved.id).toBe('c');
    expect(scheduler.withdraw(numbers[2] ?? -1, 'c', NOW_MS)).toBe(false);
  });
});

describe('keys without jobs', () => {
  it('take overrides, however many there are', () => {
    const scheduler = new Scheduler(smallPool());
    for (let key = 0; key < 40; key += 1) scheduler.openKey(`k${key}`, NOW_MS);
    for (const weight of [1, 3, 0.5]) scheduler.override({ scope: 'key/k39', paused: false, weight });
    scheduler.arrive(waitingJob('one', { fairnessKey: 'k39' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reasons.weight).toBe(0.5);
  });
});

describe('a conflict key that two reservations hold by mistake', () => {
  it('is free when both have ended', () => {
    const scheduler = new Scheduler(smallPool());
    const reserved = { version: 1, attempt: 1, type: 'a', tier: 'top', fairnessKey: 'k', fleet: 'all' };
    for (const id of ['r1', 'r2']) {
      scheduler.hold({ ...reserved, id, conflictKey: 'g/r', estimatedCostMs: 1 }, NOW_MS);
    }
    scheduler.arrive(waitingJob('one', { resourceId: 'r' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    scheduler.settle('r1', { nowMs: NOW_MS, usedMs: 1, succeeded: true });
    expect(scheduler.next()).toBeUndefined();
    scheduler.settle('r2', { nowMs: NOW_MS, usedMs: 1, succeeded: true });
    expect(scheduler.next()?.reserved.id).toBe('one');
  });
});

describe('keys that are aside', () => {
  it('are ordered anew when all costs go to 0', () => {
    const scheduler = new Scheduler(smallPool());
    // Four tie; the last to arrive costs least, the others are set aside at their higher shares.
    for (const [index, fairnessKey] of ['k1', 'k2', 'k3', 'k4', 'k5'].entries()) {
      scheduler.setCost(scheduler.openKey(fairnessKey, 0), 400);
      const job = waitingJob(`job${index}`, { fairnessKey, readyAtMs: 100 - index });
      scheduler.arrive(job, NOW_MS);
      scheduler.arrive({ ...job, id: `${job.id}b`, readyAtMs: 200 + index }, NOW_MS);
    }
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('job4');
    const reserved = { version: 1, attempt: 1, type: 'c', tier: 'low', fairnessKey: 'k4', fleet: 'none' };
    scheduler.hold({ ...reserved, id: 'running', estimatedCostMs: 9_000 }, NOW_MS);
    scheduler.resetCosts();
    expect(scheduler.next()?.reserved.id).toBe('job3');
    expect(scheduler.next()?.reserved.id).toBe('job2');
  });

  it('have their turn again once they cost more than they did when they were put there', () => {
    const scheduler = new Scheduler(smallPool());
    for (const [index, fairnessKey] of ['k1', 'k2', 'k3'].entries()) {
      for (const job of [0, 1]) {
        const id = `${fairnessKey}-${job}`;
        scheduler.arrive(waitingJob(id, { fairnessKey, readyAtMs: index + 10 * job }), NOW_MS);
      }
    }
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('k1-0');
    // Two that tie are left, one of them aside.
    expect(scheduler.backlog.hasAside(0)).toBe(true);
    const reserved = { version: 1, attempt: 1, type: 'c', tier: 'low', fleet: 'none', estimatedCostMs: 500 };
    for (const fairnessKey of ['k2', 'k3'])
      scheduler.hold({ ...reserved, id: fairnessKey, fairnessKey }, NOW_MS);
    scheduler.setCost(scheduler.openKey('k3', NOW_MS), 400);
    expect(scheduler.next()?.reserved.id).toBe('k3-0');
    expect(scheduler.backlog.hasAside(0)).toBe(false);
    expect(scheduler.next()?.reserved.id).toBe('k2-0');
  });

  it('are compared by what they cost now, behind a head that is blocked', () => {
    const scheduler = new Scheduler(smallPool());
    scheduler.arrive(waitingJob('first', { fairnessKey: 'k3', resourceId: 'r', readyAtMs: 1 }), NOW_MS);
    scheduler.arrive(waitingJob('blocked', { fairnessKey: 'k1', resourceId: 'r', readyAtMs: 2 }), NOW_MS);
    scheduler.arrive(waitingJob('dear', { fairnessKey: 'k2', readyAtMs: 3 }), NOW_MS);
    scheduler.arrive(waitingJob('cheap', { fairnessKey: 'k4', readyAtMs: 4 }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('first');
    const reserved = { version: 1, attempt: 1, type: 'c', tier: 'low', fairnessKey: 'k2', fleet: 'all' };
    scheduler.hold({ ...reserved, id: 'running', estimatedCostMs: 9_000 }, NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('cheap');
    expect(scheduler.next()?.reserved.id).toBe('dear');
    expect(scheduler.next()).toBeUndefined();
  });
});

describe('keys at their cap', () => {
  it('are put aside without a word where nobody asks, in turn or not', () => {
    const scheduler = new Scheduler(smallPool(), { explains: false });
    // Equal shares put all but the last aside.
    for (const fairnessKey of ['k1', 'k2', 'k3', 'k4']) {
      for (let job = 0; job < 3; job += 1) {
        scheduler.arrive(waitingJob(`${fairnessKey}-${job}`, { fairnessKey, readyAtMs: job }), NOW_MS);
      }
    }
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('k1-0');
    scheduler.override({ scope: 'key/k1', paused: false, maxConcurrency: 1 });
    for (const key of ['k2', 'k3', 'k4']) scheduler.override({ scope: `key/${key}`, paused: true });
    expect(scheduler.next()).toBeUndefined();
    expect(scheduler.skipped).toEqual([]);
    scheduler.override({ scope: 'key/k2', paused: false });
    expect(scheduler.next()?.reserved.id).toBe('k2-0');
  });
});

describe('a cost', () => {
  const twoJobsEach = (scheduler: Scheduler, costs: Readonly<Record<string, number>>): void => {
    for (const [fairnessKey, costMs] of Object.entries(costs)) {
      scheduler.setCost(scheduler.openKey(fairnessKey, NOW_MS), costMs);
      for (const job of [0, 1])
        scheduler.arrive(waitingJob(`${fairnessKey}-${job}`, { fairnessKey }), NOW_MS);
    }
  };

  it('that is set to less brings its key forward at once', () => {
    const scheduler = new Scheduler(smallPool());
    twoJobsEach(scheduler, { k1: 1_000, k2: 2_500, k3: 3_000 });
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('k1-0');
    scheduler.setCost(scheduler.openKey('k3', NOW_MS), 500);
    expect(scheduler.next()?.reserved.id).toBe('k3-0');
    expect(scheduler.next()?.reserved.id).toBe('k3-1');
    expect(scheduler.next()?.reserved.id).toBe('k1-1');
  });

  it('that is set to more sends its key back', () => {
    const scheduler = new Scheduler(smallPool());
    twoJobsEach(scheduler, { k1: 1_000, k2: 2_500, k3: 3_000 });
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('k1-0');
    scheduler.setCost(scheduler.openKey('k1', NOW_MS), 9_000);
    expect(scheduler.next()?.reserved.id).toBe('k2-0');
    expect(scheduler.next()?.reserved.id).toBe('k3-0');
  });

  it('that an end corrects brings its key forward at once', () => {
    const scheduler = new Scheduler(smallPool());
    const reserved = { version: 1, attempt: 1, type: 'c', tier: 'low', fairnessKey: 'k2', fleet: 'all' };
    twoJobsEach(scheduler, { k1: 1_000, k2: 100, k3: 3_000 });
    scheduler.hold({ ...reserved, id: 'running', estimatedCostMs: 9_000 }, NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('k1-0');
    scheduler.settle('running', { nowMs: NOW_MS, usedMs: 50, succeeded: true });
    expect(scheduler.next()?.reserved.id).toBe('k2-0');
  });

  it('of a key that is gone is not the cost of the one that gets its number', () => {
    const fairness = { ...FAIRNESS_DEFAULTS, idlePolicy: 'none' as const, keyTtlMs: 1_000 };
    const scheduler = new Scheduler(smallPool({ fairness }));
    const gone = scheduler.openKey('gone', NOW_MS);
    scheduler.setCost(gone, 5_000);
    const number = scheduler.arrive(waitingJob('withdrawn', { fairnessKey: 'gone' }), NOW_MS) ?? -1;
    twoJobsEach(scheduler, { k1: 500 });
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('k1-0');
    expect(scheduler.withdraw(number, 'withdrawn', NOW_MS)).toBe(true);
    scheduler.evict(NOW_MS + 1_000);
    expect(scheduler.openKey('new', NOW_MS)).toBe(gone);
    scheduler.arrive(waitingJob('first', { fairnessKey: 'new' }), NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('first');
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
    scheduler.lose('one');
    scheduler.evict(NOW_MS + 1_899);
    expect(scheduler.costs()).toMatchObject([{ fairnessKey: 'k1', costMs: 0, running: 0 }]);
    scheduler.evict(NOW_MS + 1_900);
    expect(scheduler.costs()).toEqual([]);
  });
});

describe('a key with jobs of several types and modes', () => {
  // Nothing is put aside: its lines are compared where it stands.
  const started = (scheduler: Scheduler): readonly (string | undefined | boolean)[] => [
    scheduler.next()?.reserved.id,
    scheduler.backlog.hasAside(0),
  ];

  it('starts the one with the best score, in whatever order they came', () => {
    const heads: readonly (readonly [string, Partial<WaitingJob>])[] = [
      ['queued', { priority: 2 }],
      ['urgent', { type: 'b', priority: 9 }],
      ['asked', { mode: 'onDemand' }],
      ['last', { type: 'b', mode: 'onDemand', priority: 1, readyAtMs: NOW_MS }],
    ];
    for (const order of [heads, [...heads].reverse()]) {
      const scheduler = new Scheduler(smallPool({ fairness: { ...FAIRNESS_DEFAULTS, trueUp: false } }));
      for (const [id, changes] of order) scheduler.arrive(waitingJob(id, changes), NOW_MS);
      scheduler.setCost(scheduler.openKey('k2', NOW_MS), 50_000);
      scheduler.arrive(waitingJob('dear', { fairnessKey: 'k2', priority: 10 }), NOW_MS);
      scheduler.beginPass(NOW_MS);
      expect(started(scheduler)).toEqual(['urgent', false]);
      expect(started(scheduler)).toEqual(['last', false]);
      expect(started(scheduler)).toEqual(['asked', false]);
      expect(started(scheduler)).toEqual(['queued', false]);
    }
  });

  it('starts the older of two with one score, and one whose score is 0 or less', () => {
    const score = { ...SCORE_DEFAULTS, rarity: 0 };
    for (const older of ['a', 'b']) {
      // A unit of priority is worth 64 s of age.
      const scheduler = new Scheduler(smallPool({ score }));
      const young = { type: older === 'a' ? 'b' : 'a', priority: 1, readyAtMs: NOW_MS - 36_000 };
      scheduler.arrive(waitingJob('young', young), NOW_MS);
      scheduler.arrive(waitingJob('old', { type: older, readyAtMs: NOW_MS - 100_000 }), NOW_MS);
      scheduler.arrive(waitingJob('zero', { readyAtMs: NOW_MS }), NOW_MS);
      scheduler.arrive(waitingJob('early', { readyAtMs: NOW_MS + 500 }), NOW_MS);
      scheduler.beginPass(NOW_MS);
      for (const id of ['old', 'young', 'zero', 'early']) expect(started(scheduler)).toEqual([id, false]);
    }
  });

  it('starts the next best when the head of the best is blocked', () => {
    const scheduler = new Scheduler(smallPool());
    scheduler.closeConflict('g/r');
    scheduler.arrive(waitingJob('blocked', { resourceId: 'r', priority: 9 }), NOW_MS);
    scheduler.arrive(waitingJob('behind', { priority: 1 }), NOW_MS);
    scheduler.arrive(waitingJob('other', { type: 'b', priority: 5 }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(started(scheduler)).toEqual(['other', false]);
    expect(started(scheduler)).toEqual(['behind', false]);
    expect(started(scheduler)).toEqual([undefined, false]);
  });

  it('keeps its place while none of its types may start', () => {
    const scheduler = new Scheduler(smallPool());
    for (const scope of ['type/a', 'type/b']) scheduler.override({ scope, paused: true });
    scheduler.arrive(waitingJob('one'), NOW_MS);
    scheduler.arrive(waitingJob('two', { type: 'b' }), NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(started(scheduler)).toEqual([undefined, false]);
  });

  it('is in turn for a new job, after it had none left', () => {
    const scheduler = new Scheduler(smallPool());
    const number = scheduler.arrive(waitingJob('withdrawn'), NOW_MS) ?? -1;
    scheduler.beginPass(NOW_MS);
    scheduler.withdraw(number, 'withdrawn', NOW_MS);
    expect(started(scheduler)).toEqual([undefined, false]);
    scheduler.arrive(waitingJob('next'), NOW_MS);
    expect(scheduler.backlog.hasAside(0)).toBe(false);
    expect(started(scheduler)).toEqual(['next', false]);
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

describe('of the keys that wait for one conflict key', () => {
  const reserved = { version: 1, attempt: 1, type: 'c', tier: 'low', fleet: 'all' };
  const end = (scheduler: Scheduler, id: string, usedMs: number): void => {
    expect(scheduler.settle(id, { nowMs: NOW_MS, usedMs, succeeded: true })).toBe(true);
  };

  /** Seven keys of cost 1 s wait behind `holder`, k6 at another cost and with a running job that was charged 500 ms. */
  function herd(costOfLastMs: number): Scheduler {
    const fleets = [{ fleet: 'all', types: ['a', 'b', 'c'], slots: 9 }];
    const scheduler = new Scheduler(smallPool({ fleets }));
    scheduler.hold(
      { ...reserved, id: 'holder', fairnessKey: 'h', conflictKey: 'g/r', estimatedCostMs: 0 },
      NOW_MS,
    );
    for (let key = 0; key < 7; key += 1) {
      const fairnessKey = `k${key}`;
      scheduler.setCost(scheduler.openKey(fairnessKey, NOW_MS), key === 6 ? costOfLastMs : 1_000);
      scheduler.arrive(waitingJob(`job${key}`, { resourceId: 'r', fairnessKey, readyAtMs: key }), NOW_MS);
    }
    scheduler.hold({ ...reserved, id: 'own', fairnessKey: 'k6', estimatedCostMs: 500 }, NOW_MS);
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()).toBeUndefined();
    expect(scheduler.skipped.length).toBe(7);
    return scheduler;
  }

  it('one whose cost an end corrects comes first at once', () => {
    const scheduler = herd(600);
    end(scheduler, 'holder', 0);
    end(scheduler, 'own', 10);
    expect(scheduler.next()?.reserved.id).toBe('job6');
  });

  it('one whose cap had no room comes first as soon as it has', () => {
    const scheduler = herd(10);
    scheduler.override({ scope: 'key/k6', paused: false, maxConcurrency: 1 });
    end(scheduler, 'holder', 0);
    end(scheduler, 'own', 500);
    expect(scheduler.next()?.reserved.id).toBe('job6');
  });

  it('those that cannot come first are not looked at', () => {
    const scheduler = herd(2_000);
    end(scheduler, 'holder', 0);
    scheduler.setCost(scheduler.openKey('k5', NOW_MS), 3_000);
    scheduler.setCost(scheduler.openKey('k4', NOW_MS), 1_000);
    scheduler.hold({ ...reserved, id: 'other', fairnessKey: 'k3', estimatedCostMs: 20 }, NOW_MS);
    end(scheduler, 'other', 20);
    end(scheduler, 'own', 500);
    scheduler.arrive(waitingJob('free', { fairnessKey: 'k2', readyAtMs: -1 }), NOW_MS);
    expect(scheduler.next()?.reserved.id).toBe('free');
    expect(scheduler.next()?.reserved.id).toBe('job0');
    expect(scheduler.next()).toBeUndefined();
    expect(scheduler.skipped).toEqual([]);
  });

  it('none is looked at while one of them runs, whatever it costs then', () => {
    const scheduler = herd(600);
    end(scheduler, 'holder', 0);
    expect(scheduler.next()?.reserved.id).toBe('job0');
    end(scheduler, 'own', 10);
    expect(scheduler.next()).toBeUndefined();
    expect(scheduler.skipped).toEqual([]);
    end(scheduler, 'job0', 10);
    expect(scheduler.next()?.reserved.id).toBe('job6');
  });

  it('one whose weight is raised, or whose pause ends, comes first at once', () => {
    for (const override of [
      { paused: false, weight: 4 },
      { paused: false, maxConcurrency: 2, weight: 4 },
    ]) {
      const scheduler = herd(2_000);
      scheduler.override({ scope: 'key/k6', paused: true });
      end(scheduler, 'holder', 0);
      scheduler.override({ scope: 'key/k6', ...override });
      expect(scheduler.next()?.reserved.id).toBe('job6');
    }
  });

  it('none is looked at once another job holds it, whatever it costs then', () => {
    const scheduler = herd(600);
    end(scheduler, 'holder', 0);
    scheduler.closeConflict('g/r');
    end(scheduler, 'own', 10);
    scheduler.setCost(scheduler.openKey('k5', NOW_MS), 0);
    expect(scheduler.next()).toBeUndefined();
    const again = { kind: 'job', id: 'job0', why: 'conflict', conflictKey: 'g/r' };
    // Its stand-in had gone back, and is met once more.
    expect(scheduler.skipped.slice(7)).toEqual([again]);
  });

  it('none is looked at when a job that waits for it is withdrawn while it is held', () => {
    const scheduler = new Scheduler(smallPool());
    scheduler.closeConflict('g/r');
    const [number = -1] = ['k1', 'k2'].map((fairnessKey, readyAtMs) =>
      scheduler.arrive(waitingJob(fairnessKey, { resourceId: 'r', fairnessKey, readyAtMs }), NOW_MS),
    );
    scheduler.beginPass(NOW_MS);
    expect(scheduler.next()).toBeUndefined();
    scheduler.withdraw(number, 'k1', NOW_MS);
    scheduler.arrive(waitingJob('free', { fairnessKey: 'k3' }), NOW_MS);
    const skipped = ['k1', 'k2'].map((id) => ({ kind: 'job', id, why: 'conflict', conflictKey: 'g/r' }));
    expect(scheduler.next()).toMatchObject({ reserved: { id: 'free' }, reasons: { skipped } });
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

describe('a configured cap', () => {
  it('holds again for its scope alone when an override of it ends', () => {
    const capped: readonly (readonly [string, Partial<PoolConfiguration>])[] = [
      ['pool', { maxConcurrency: 2 }],
      [
        'tier/top',
        { tiers: [{ tier: 'top', maxConcurrency: 2, guaranteed: 0 }, ...smallPool().tiers.slice(1)] },
      ],
      ['type/a', { types: smallPool().types.map((type) => ({ ...type, maxConcurrency: 2 })) }],
      ['key/k1', { fairness: { ...FAIRNESS_DEFAULTS, maxConcurrencyPerKey: 2 } }],
      ['fleet/all', { fleets: [{ fleet: 'all', types: ['a', 'b', 'c'], slots: 2 }] }],
    ];
    for (const [scope, changes] of capped) {
      const scheduler = new Scheduler(smallPool(changes));
      for (let job = 0; job < 5; job += 1) scheduler.arrive(waitingJob(`job${job}`), NOW_MS);
      scheduler.beginPass(NOW_MS);
      const start = (): number => {
        const before = scheduler.running;
        while (scheduler.next() !== undefined);
        return scheduler.running - before;
      };
      scheduler.override({ scope, paused: true });
      expect([scope, start()]).toEqual([scope, 0]);
      scheduler.override({ scope, paused: false, maxConcurrency: 1 });
      expect([scope, start()]).toEqual([scope, 1]);
      scheduler.override({ scope, paused: false });
      expect([scope, start()]).toEqual([scope, 1]);
    }
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

describe('a long-lived scheduler', () => {
  it('decides as the reference does after any history of arrivals, ends, losses, retries, moves, withdrawals and overrides', () => {
    fc.assert(
      fc.property(
        pools,
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
        pools,
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
