import { describe, expect, it } from 'vitest';
import { Scheduler } from '../../lib/core/scheduler.ts';
import { type FairnessScenario, idOf, readScenarios, scenarioConfiguration } from './oracles.ts';

interface Dispatched {
  readonly atMs: number;
  readonly id: number;
  readonly estimate: number;
  readonly accAfter: number;
}

function run(scenario: FairnessScenario): { dispatch: readonly Dispatched[]; scheduler: Scheduler } {
  const scheduler = new Scheduler(scenarioConfiguration(scenario.config));
  for (const { type, jobId, cost } of scenario.config.initialEstimates) {
    scheduler.estimates.ofType(type).set(jobId, { meanMs: cost * 1_000, varianceMs2: 0, samples: 0 }, 0);
  }
  const arrivals = [...scenario.arrivals].sort((a, b) => a.atMs - b.atMs || a.id - b.id);
  const durations = new Map(arrivals.map((arrival) => [idOf(arrival.id), arrival.durationMs]));
  const ends: { atMs: number; id: string }[] = [];
  const dispatch: Dispatched[] = [];
  let arrived = 0;
  for (;;) {
    ends.sort((a, b) => a.atMs - b.atMs);
    const nowMs = Math.min(arrivals[arrived]?.atMs ?? Infinity, ends[0]?.atMs ?? Infinity);
    if (nowMs > scenario.untilMs) return { dispatch, scheduler };
    for (; arrivals[arrived]?.atMs === nowMs; arrived += 1) {
      const arrival = arrivals[arrived];
      if (arrival === undefined) break;
      scheduler.arrive(
        {
          id: idOf(arrival.id),
          type: arrival.type,
          priority: 0,
          mode: 'queued',
          fairnessKey: arrival.fairnessKey,
          resourceId: arrival.jobId,
          readyAtMs: arrival.atMs,
          version: 1,
          attempt: 1,
        },
        nowMs,
      );
    }
    for (let end = ends[0]; end?.atMs === nowMs; end = ends[0]) {
      ends.shift();
      scheduler.settle(end.id, { nowMs, usedMs: durations.get(end.id) ?? 0, succeeded: true });
    }
    scheduler.beginPass(nowMs);
    for (let decision = scheduler.next(); decision !== undefined; decision = scheduler.next()) {
      const { id, estimatedCostMs } = decision.reserved;
      const accAfter = (decision.reasons.keyCostMs + estimatedCostMs) / 1_000;
      dispatch.push({ atMs: nowMs, id: Number(id), estimate: estimatedCostMs / 1_000, accAfter });
      ends.push({ atMs: nowMs + (durations.get(id) ?? 0), id });
    }
  }
}

describe('the cases of fair-queuing', () => {
  for (const scenario of readScenarios()) {
    it(`${scenario.id}: ${scenario.title}`, () => {
      const { dispatch, scheduler } = run(scenario);
      const { expected } = scenario;
      expect(dispatch.map(({ atMs, id }) => [atMs, id])).toEqual(
        expected.dispatch.map(({ atMs, id }) => [atMs, id]),
      );
      dispatch.forEach((decision, index) => {
        expect(decision.estimate).toBeCloseTo(expected.dispatch[index]?.estimate ?? Number.NaN, 6);
        expect(decision.accAfter).toBeCloseTo(expected.dispatch[index]?.accAfter ?? Number.NaN, 6);
      });
      expect(scheduler.costs().map((key) => key.fairnessKey)).toEqual(Object.keys(expected.perKey).sort());
      for (const { fairnessKey, costMs } of scheduler.costs()) {
        expect(costMs / 1_000).toBeCloseTo(expected.perKey[fairnessKey]?.accumulatedCost ?? Number.NaN, 6);
      }
      const learned = scheduler.estimates.list();
      expect(learned.map(({ type, resourceId }) => [type, resourceId])).toEqual(
        expected.estimates.map(({ type, jobId }) => [type, jobId]),
      );
      learned.forEach(({ meanMs }, index) => {
        expect(meanMs / 1_000).toBeCloseTo(expected.estimates[index]?.cost ?? Number.NaN, 6);
      });
    });
  }
});
