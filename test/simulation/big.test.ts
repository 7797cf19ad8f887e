/** Big worlds; `big.long.test.ts` has a hundred. */
import { describe, expect, it } from 'vitest';
import { bigPlanOf, bigPlanOfProcesses, overloadedPlanOf } from './big.ts';
import { run } from './run.ts';
import { runSeeds } from './seeds.ts';
import { plannedIdOf } from './users.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const SEEDS = 1;
const SEEDS_MS = 300_000;
const JOBS_LEAST = 2_000;
const KEYS_LEAST = 300;

describe('a big world', () => {
  it(`has at least ${JOBS_LEAST} jobs and ${KEYS_LEAST} keys`, () => {
    for (let seed = 1; seed <= 100; seed += 1) {
      const { jobs } = bigPlanOf(seed);
      expect(jobs.length).toBeGreaterThanOrEqual(JOBS_LEAST);
      expect(new Set(jobs.map(({ fairnessKey }) => fairnessKey)).size).toBeGreaterThanOrEqual(KEYS_LEAST);
    }
  });

  it('may have worker processes in the place of functions, with about as many slots, of which some are killed', () => {
    const plans = Array.from({ length: 20 }, (_, at) => [bigPlanOf(at), bigPlanOfProcesses(at)] as const);
    for (const [functions, { configuration, processes, events }] of plans) {
      const total = (slots: readonly (number | null)[]): number =>
        slots.reduce<number>((sum, each) => sum + (each ?? 0), 0);
      const wanted = total(functions.configuration.fleets.map(({ slots }) => slots));
      const given = total(processes.map(({ slots }) => slots));
      expect(configuration.fleets.map(({ slots }) => slots)).toEqual([null, null, null]);
      expect(given).toBeGreaterThanOrEqual(wanted);
      expect(given).toBeLessThan(wanted + processes.length);
      const names = processes.map(({ workerId }) => `process-${workerId}`);
      for (const event of events) if ('kills' in event) expect(names).toContain(event.kills);
    }
    expect(plans.some(([, { events }]) => events.some((event) => 'kills' in event))).toBe(true);
  });

  it(`holds every invariant, and every job ends, in ${SEEDS} seed`, { timeout: SEEDS_MS }, async () => {
    const { broken, finished } = await runSeeds(1, SEEDS, bigPlanOf);
    expect(broken).toEqual([]);
    expect(finished).toBeGreaterThanOrEqual(SEEDS * JOBS_LEAST);
  });
});

describe('a key that is sent on-demand jobs at more than 1.5 times what its type can do', () => {
  const TIMEOUT_MS = 120_000;

  it('keeps no job waiting beyond the documented bound where both modes age alike, and is promised no bound where not', {
    timeout: TIMEOUT_MS,
  }, async () => {
    const { broken } = await runSeeds(3, 4, overloadedPlanOf);
    expect(broken).toEqual([]);
  });

  it.each([
    ['keeps its queued jobs waiting for as long as it lasts, where on-demand jobs age faster', 1, 'after'],
    ['lets its queued jobs start meanwhile, where both age alike', 2, 'meanwhile'],
  ])('%s', { timeout: TIMEOUT_MS }, async (_, seed, when) => {
    const plan = overloadedPlanOf(seed);
    const queued = plan.jobs.flatMap(({ mode }, at) =>
      mode === 'queued' ? [plannedIdOf(at).slice(0, 6)] : [],
    );
    const startedMs = new Map<string, number>();
    let lastAskedMs = 0;
    const { violations } = await run(seed, {
      plan,
      onTrace: (line) => {
        const [, atMs, verb, id = ''] = /^([\d.]+) item (\w+) (\w+) /.exec(line) ?? [];
        if (verb === 'startJob' && queued.includes(id)) startedMs.set(id, Number(atMs));
        if (verb === 'createJobs') lastAskedMs = Number(atMs);
      },
    });
    expect(violations).toEqual([]);
    expect([...startedMs.keys()].sort()).toEqual(queued.toSorted());
    for (const atMs of startedMs.values()) expect(atMs > lastAskedMs).toBe(when === 'after');
  });
});
