/** From a run that went wrong to the least that still goes wrong the same way. */
import type { FiredFault } from './faults.ts';
import type { SimulationPlan } from './plan.ts';
import { type RunOptions, type RunReport, run } from './run.ts';

export interface Shrunk {
  readonly plan: SimulationPlan;
  readonly only: ReadonlySet<FiredFault>;
  readonly report: RunReport;
  readonly runs: number;
}

const RUNS_MAX = 250;

/** Tries ever smaller runs; each must break the same invariant. */
export async function shrink(
  broken: RunReport,
  plan: SimulationPlan,
  options: RunOptions = {},
): Promise<Shrunk> {
  const invariant = broken.violations[0]?.invariant;
  let best: Shrunk = { plan, only: new Set(broken.fired), report: broken, runs: 0 };
  let runs = 0;

  const accept = async (candidate: SimulationPlan, only: ReadonlySet<FiredFault>): Promise<boolean> => {
    if (runs >= RUNS_MAX) return false;
    runs += 1;
    const report = await run(candidate.seed, { ...options, plan: candidate, only });
    if (report.violations[0]?.invariant !== invariant) return false;
    best = { plan: candidate, only: new Set(report.fired), report, runs };
    return true;
  };

  // What imitates the cloud, one habit after the other.
  for (const calmer of [
    (each: SimulationPlan): SimulationPlan => ({ ...each, store: {}, queue: {}, bus: {}, skewMaxMs: 0 }),
    (each: SimulationPlan): SimulationPlan => ({ ...each, store: {} }),
    (each: SimulationPlan): SimulationPlan => ({ ...each, queue: {} }),
    (each: SimulationPlan): SimulationPlan => ({ ...each, bus: {} }),
    (each: SimulationPlan): SimulationPlan => ({ ...each, skewMaxMs: 0 }),
  ]) {
    await accept(calmer(best.plan), best.only);
  }
  for (let round = 0; round < 2; round += 1) {
    await withoutChunks(
      () => [...best.only],
      (only) => accept(best.plan, new Set(only)),
    );
    await withoutChunks(
      () => [...best.plan.jobs],
      (jobs) => accept({ ...best.plan, jobs }, best.only),
    );
  }
  return { ...best, runs };
}

/** Takes ever smaller parts of a list away, and keeps away what was not needed. */
export async function withoutChunks<T>(
  list: () => readonly T[],
  accept: (rest: readonly T[]) => Promise<boolean>,
): Promise<void> {
  for (let size = Math.ceil(list().length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let from = 0; from < list().length; ) {
      const whole = list();
      const isShorter = await accept([...whole.slice(0, from), ...whole.slice(from + size)]);
      if (!isShorter) from += size;
      if (list().length >= whole.length && isShorter) break;
    }
  }
}
