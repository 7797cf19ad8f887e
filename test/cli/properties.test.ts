import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asData, simulate } from '../../lib/cli/simulate.ts';
import { timesOf } from '../fixtures/times.ts';
import {
  type NaiveFairness,
  type NaiveJob,
  type NaiveSlot,
  naiveFairness,
  naivePass,
  naiveStream,
} from './naive.ts';

type Fields = Readonly<Record<string, unknown>>;

async function resultOf(schema: string, list: 'cases' | 'scenarios', scenario: object): Promise<Fields> {
  const data = asData(await simulate({ schema, [list]: [{ id: 'x', ...scenario }] }));
  return (data.results as Fields[])[0] ?? {};
}

const ttl = fc.option(
  fc.integer({ min: 1, max: 30 }).map((seconds) => seconds * 1000),
  { nil: null, freq: 2 },
);

const fairness: fc.Arbitrary<NaiveFairness> = fc.record({
  config: fc.record({
    globalMax: fc.option(fc.integer({ min: 0, max: 6 }), { nil: null, freq: 3 }),
    alpha: fc.constantFrom(0, 0.3, 0.5, 1),
    types: fc.tuple(typeNamed('a'), typeNamed('b'), typeNamed('c')),
    initialEstimates: fc.constantFrom([], [{ type: 'a', jobId: 'r0', cost: 4 }]),
    keyTtlMs: ttl,
    estimateTtlMs: ttl,
    idlePolicy: fc.constantFrom('none' as const, 'advance' as const),
    resetEveryMs: ttl,
  }),
  untilMs: fc.integer({ min: 0, max: 90 }).map((seconds) => seconds * 1000),
  arrivals: fc
    .array(
      fc.record({
        atMs: fc.nat(60).map((seconds) => seconds * 1000),
        // d is no type.
        type: fc.constantFrom('a', 'b', 'c', 'd'),
        jobId: fc.constantFrom('r0', 'r1', ''),
        fairnessKey: fc.constantFrom('', 'x', 'y', '__proto__'),
        durationMs: fc.nat(12).map((seconds) => seconds * 1000),
      }),
      { maxLength: 25 },
    )
    .map((arrivals) => arrivals.map((arrival, index) => ({ ...arrival, id: (index * 7) % 26 }))),
});

function typeNamed(type: string) {
  return fc.record({
    type: fc.constant(type),
    priority: fc.integer({ min: 0, max: 4 }),
    maxConcurrency: fc.integer({ min: 0, max: 4 }),
    conflictGroup: fc.constantFrom('', 'git'),
    defaultCost: fc.integer({ min: 1, max: 12 }),
  });
}

describe('simulate', { timeout: 60_000 }, () => {
  it('decides fairness as the naive scheduler does, on random scenarios', async () => {
    await fc.assert(
      fc.asyncProperty(fairness, async (scenario) => {
        const naive = naiveFairness(scenario);
        const result = await resultOf('fairness/1', 'scenarios', scenario);
        expect(result.dispatch).toEqual(naive.dispatch);
        const accumulated = result.accumulated as Record<string, number>;
        expect(Object.keys(accumulated).sort()).toEqual(Object.keys(naive.accumulated).sort());
        for (const [key, cost] of Object.entries(naive.accumulated))
          expect(accumulated[key]).toBeCloseTo(cost, 6);
        const estimates = result.estimates as [string, string, number][];
        expect(estimates.map(([type, jobId]) => [type, jobId])).toEqual(
          naive.estimates.map(([a, b]) => [a, b]),
        );
        estimates.forEach(([, , cost], index) => {
          expect(cost).toBeCloseTo(naive.estimates[index]?.[2] ?? -1, 6);
        });
      }),
      { numRuns: timesOf(1_500) },
    );
  });

  const slots: fc.Arbitrary<readonly NaiveSlot[]> = fc
    .array(fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 }), { maxLength: 6 })
    .map((all) => all.map((types, index) => ({ id: (index * 5 + 3) % 31, types })));

  const job = fc.record({
    type: fc.integer({ min: 1, max: 5 }),
    priority: fc.nat(10),
    ageMs: fc.oneof(
      fc.nat(700_000),
      fc.nat(9).map((units) => units * 64_000),
      fc.constantFrom(-500, -900, -200_000),
    ),
    onDemand: fc.boolean(),
    durationMs: fc.nat(100_000),
    isLost: fc.boolean(),
  });

  it('assigns slots as the naive scheduler does, on random passes', async () => {
    const now = 1_800_000_000_000;
    await fc.assert(
      fc.asyncProperty(
        slots,
        fc.array(job, { maxLength: 30 }),
        fc.array(fc.nat(30)),
        async (pool, drawn, busy) => {
          const jobs: NaiveJob[] = drawn.map((one, id) => ({ ...one, id, createdAt: now - one.ageMs }));
          const lost = drawn.flatMap(({ isLost }, id) => (isLost ? [id] : []));
          const idle = pool.filter(({ id }) => !busy.includes(id));
          const free = new Set(idle.map(({ id }) => id));
          const assignments = naivePass(now, free, idle, [...jobs], new Set(lost));
          const asked = (isOnDemand: boolean): readonly object[] =>
            jobs
              .filter(({ onDemand }) => onDemand === isOnDemand)
              .map(({ id, type, priority, createdAt }) => ({ id, type, priority, createdAt }));
          const input = {
            now,
            slots: pool,
            busy,
            queued: asked(false),
            onDemand: asked(true),
            lostClaims: lost,
          };
          expect(await resultOf('scoring/2', 'cases', { kind: 'pass', input })).toEqual({
            id: 'x',
            assignments,
            freeSlots: [...free].sort((a, b) => a - b),
          });
        },
      ),
      { numRuns: timesOf(1_500) },
    );
  });

  it('runs a stream as the naive scheduler does', async () => {
    await fc.assert(
      fc.asyncProperty(
        slots,
        fc.array(job, { maxLength: 30 }),
        fc.nat(2_000_000),
        async (pool, drawn, untilMs) => {
          const jobs: NaiveJob[] = drawn.map((one, id) => ({ ...one, id, createdAt: 700_000 - one.ageMs }));
          const starts = naiveStream(pool, jobs, untilMs);
          const asked = jobs.map(({ id, type, priority, createdAt, durationMs, onDemand }) => ({
            id,
            type,
            priority,
            createdAt,
            durationMs,
            onDemand,
          }));
          for (const list of ['jobs', 'arrivals'] as const) {
            const input = { untilMs, slots: pool, [list]: asked };
            expect((await resultOf('scoring/2', 'cases', { kind: 'stream', input })).starts).toEqual(starts);
          }
          const split = {
            horizonMs: untilMs,
            slots: pool,
            queued: asked.filter(({ onDemand }) => !onDemand).map(({ onDemand: _, ...rest }) => rest),
            onDemand: asked
              .filter(({ onDemand }) => onDemand)
              .map(({ onDemand: _, createdAt, ...rest }) => ({ ...rest, atMs: createdAt })),
          };
          expect((await resultOf('scoring/2', 'cases', { kind: 'stream', input: split })).starts).toEqual(
            starts,
          );
        },
      ),
      { numRuns: timesOf(300) },
    );
  });

  it('follows leases as a step-by-step run does', async () => {
    const event = fc.record({
      op: fc.constantFrom('crash' as const, 'pause' as const, 'resume' as const),
      node: fc.constantFrom('a', 'b'),
      atMs: fc.integer({ min: 1, max: 120 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 2, max: 40 }),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 15 }),
        fc.nat(20),
        fc.integer({ min: 1, max: 90 }),
        fc.uniqueArray(event, { maxLength: 5, selector: ({ node, atMs }) => `${node}${atMs}` }),
        async (leaseMs, heartbeatMs, scanMs, atMs, runsMs, events) => {
          const input = {
            leaseMs,
            heartbeatMs,
            scanMs,
            firstScanMs: 0,
            space: 100,
            positions: { a: [50], b: [99] },
            claims: [{ job: 'j', node: 'a', atMs, runsMs, hash: 10 }],
            events,
          };
          const { jobs } = await resultOf('partitions/1', 'cases', { kind: 'lease', input });
          expect((jobs as Fields[])[0]).toEqual({ job: 'j', ...stepByStep(input) });
        },
      ),
      { numRuns: timesOf(2_000) },
    );
  });
});

/** Every millisecond: the operator's events, then the end of the work, then a beat, then a scan. */
function stepByStep(input: {
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  readonly scanMs: number;
  readonly claims: readonly { readonly atMs: number; readonly runsMs: number }[];
  readonly events: readonly { readonly op: string; readonly node: string; readonly atMs: number }[];
}): Fields {
  const { atMs, runsMs } = input.claims[0] as { atMs: number; runsMs: number };
  const state = new Map([
    ['a', 'alive'],
    ['b', 'alive'],
  ]);
  let worked = 0;
  let endsAtMs = atMs + input.leaseMs;
  for (let nowMs = 0; ; nowMs += 1) {
    let woke = false;
    for (const { op, node } of input.events.filter((event) => event.atMs === nowMs)) {
      if (state.get(node) === 'crashed') continue;
      woke ||= node === 'a' && op === 'resume' && state.get(node) === 'paused';
      state.set(node, op === 'crash' ? 'crashed' : op === 'pause' ? 'paused' : 'alive');
    }
    if (nowMs < atMs) continue;
    if (state.get('a') === 'alive') {
      if (worked === runsMs && nowMs < endsAtMs) return { recovered: false };
      const beats = (nowMs - atMs) % input.heartbeatMs === 0 && worked < runsMs;
      if ((beats || woke) && nowMs < endsAtMs) endsAtMs = nowMs + input.leaseMs;
      worked += 1;
    }
    if (nowMs % input.scanMs === 0 && nowMs >= endsAtMs) {
      const heir = ['a', 'b'].find((node) => state.get(node) === 'alive');
      return { recovered: true, recoverAtScanMs: nowMs, newOwner: heir ?? null };
    }
  }
}
