import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import type { ReservedJob, WaitingJob } from '../../lib/core/job.ts';
import { type Override, Scheduler } from '../../lib/core/scheduler.ts';
import { planned } from './plans.ts';
import { costIn, FEWER_RUNS, jobs, NOW_MS, pools } from './random-pass.ts';
import { referencePlan } from './reference-planner.ts';

vi.setConfig({ testTimeout: 120_000 });

/** What the scheduler should hold, kept the simplest way there is. */
class Model {
  readonly configuration: PoolConfiguration;
  readonly cost = new Map<string, number>();
  readonly used = new Map<string, number>();
  waiting: { readonly job: WaitingJob; readonly number: number }[] = [];
  running: ReservedJob[] = [];
  overrides: Override[] = [];
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
      // What is in flight may be given back, where charges are corrected.
      const base = (other: string): number =>
        (this.cost.get(other) ?? 0) - (this.configuration.fairness.trueUp ? this.inFlightOf(other) : 0);
      const least = Math.min(...[...active].map((other) => base(other) / this.weight(other)));
      this.cost.set(key, Math.max(this.cost.get(key) ?? 0, least * this.weight(key)));
    }
    this.waiting.push({ job, number });
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
  | { readonly kind: 'withdraw'; readonly which: number }
  | { readonly kind: 'tick'; readonly ms: number }
  | { readonly kind: 'override'; readonly override: Override };

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
        { weight: 2, arbitrary: fc.record({ kind: fc.constant('withdraw' as const), which: fc.nat(30) }) },
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
      expect(number === undefined).toBe(job.type === 'unknown');
      if (number !== undefined) model.arrive(job, number);
      return;
    }
    case 'dispatch': {
      scheduler.beginPass(model.nowMs);
      const expected = model.expected().slice(0, action.most);
      for (const plan of expected) {
        const decision = scheduler.next();
        expect(decision === undefined ? undefined : planned(decision)).toEqual(plan);
        if (decision === undefined) return;
        model.running.push(decision.reserved);
        model.charge(decision.reserved.fairnessKey, decision.reserved.estimatedCostMs);
        model.waiting = model.waiting.filter((other) => other.job.id !== plan.id);
      }
      if (expected.length < action.most) expect(scheduler.next()).toBeUndefined();
      return;
    }
    case 'settle':
    case 'lose': {
      const reserved = model.running[action.which % Math.max(1, model.running.length)];
      if (reserved === undefined) {
        expect(scheduler.settle('nobody', { nowMs: model.nowMs, succeeded: true })).toBe(false);
        return;
      }
      model.running = model.running.filter((other) => other !== reserved);
      const { fairness } = model.configuration;
      if (action.kind === 'lose') {
        scheduler.lose(reserved.id);
        model.charge(reserved.fairnessKey, -reserved.estimatedCostMs);
      } else {
        expect(scheduler.settle(reserved.id, { ...action, nowMs: model.nowMs })).toBe(true);
        const usedMs = fairness.trueUp
          ? Math.max(action.usedMs, fairness.admissionFloorMs)
          : reserved.estimatedCostMs;
        model.charge(reserved.fairnessKey, usedMs - reserved.estimatedCostMs);
      }
      expect(scheduler.isRunning(reserved.id)).toBe(false);
      return;
    }
    case 'withdraw': {
      const other = model.waiting[action.which % Math.max(1, model.waiting.length)];
      if (other === undefined) return;
      expect(scheduler.withdraw(other.number, 'somebody else', model.nowMs)).toBeUndefined();
      expect(scheduler.withdraw(other.number, other.job.id, model.nowMs)).toBe(other.job);
      expect(scheduler.withdraw(other.number, other.job.id, model.nowMs)).toBeUndefined();
      model.waiting = model.waiting.filter((waiting) => waiting !== other);
      return;
    }
    case 'tick':
      model.nowMs += action.ms;
      return;
    case 'override':
      scheduler.override(action.override);
      model.overrides.push(action.override);
      return;
  }
}

describe('a long-lived scheduler', () => {
  it('decides as the reference does after any history of arrivals, ends, losses, withdrawals and overrides', () => {
    fc.assert(
      fc.property(
        pools,
        fc.constantFrom('advance' as const, 'none' as const),
        fc.integer({ min: 0, max: 5 }),
        actions,
        (pool, idlePolicy, slots, history) => {
          const configuration = { ...pool, fairness: { ...pool.fairness, idlePolicy } };
          const scheduler = new Scheduler(configuration, { costMs: costIn(configuration) });
          for (const { fleet } of configuration.fleets) scheduler.setSlots(fleet, slots);
          const model = new Model(configuration, slots);
          for (const action of history) {
            play(scheduler, model, action);
            expect(scheduler.waiting).toBe(model.waiting.length);
            expect(scheduler.running).toBe(model.running.length);
            for (const { fairnessKey, costMs } of scheduler.costs()) {
              expect(costMs).toBe(model.cost.get(fairnessKey) ?? 0);
            }
          }
        },
      ),
      { numRuns: FEWER_RUNS * 2 },
    );
  });
});
