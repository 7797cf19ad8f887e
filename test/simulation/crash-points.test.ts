/** Every call of a small run, with everything that can happen to a call. */
import { describe, expect, it } from 'vitest';
import type { CallFault } from './faults.ts';
import { CALL_FAULTS, FAULT_CLASSES, type FaultClass, planOf, type SimulationPlan } from './plan.ts';
import { run } from './run.ts';

const MATRIX_MS = 300_000;

/** A calm pool in which jobs conflict, fail, wait for their time, and share fleets. */
function smallPlan(): SimulationPlan {
  const plan = planOf(7);
  const rates = Object.fromEntries(FAULT_CLASSES.map((fault) => [fault, 0])) as Record<FaultClass, number>;
  const types = plan.configuration.types.map((each) => each.type);
  const jobs = Array.from({ length: 6 }, (_, at) => ({
    type: types[at % types.length] ?? '',
    fairnessKey: `key-${at % 2}`,
    resourceId: `resource-${at % 2}`,
    priority: at,
    mode: 'queued' as const,
    askedAtMs: at < 4 ? 0 : 700,
    delayMs: at === 5 ? 2_000 : 0,
    durationMs: 300,
  }));
  return {
    ...plan,
    jobs,
    rates,
    store: {},
    queue: {},
    bus: {},
    skewMaxMs: 0,
    faultsUntilMs: 1_000,
    endless: false,
    budget: { ...plan.budget, leaseMs: 5_000, leaseMarginMs: 1_000, checkAfterMs: 15_000 },
  };
}

describe('a run of six jobs', () => {
  const plan = smallPlan();

  it('ends well when nothing happens', async () => {
    const report = await run(plan.seed, { plan });
    expect(report.violations).toEqual([]);
    expect(report.finished).toBe(6);
  });

  it.each(CALL_FAULTS)(
    'ends well whichever call meets %s',
    { timeout: MATRIX_MS },
    async (fault: CallFault) => {
      const { calls } = await run(plan.seed, { plan });
      const broken: string[] = [];
      let fired = 0;
      for (const call of new Set(calls)) {
        const report = await run(plan.seed, { plan, forced: new Map([[call, fault]]) });
        fired += report.fired.length;
        if (report.violations.length > 0) broken.push(`${call}: ${report.violations[0]?.what}`);
      }
      expect(broken).toEqual([]);
      expect(fired).toBeGreaterThan(0);
    },
  );
});
