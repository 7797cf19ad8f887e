/** Many seeds, one after the other. */
import { FAULT_CLASSES, type FaultClass, planOf, type SimulationPlan } from './plan.ts';
import { run } from './run.ts';

export interface SeedsReport {
  /** Of each seed that breaks an invariant, the first that it breaks. */
  readonly broken: readonly string[];
  readonly finished: number;
  readonly faults: Readonly<Record<FaultClass, number>>;
}

export async function runSeeds(
  first: number,
  last: number,
  plan: (seed: number) => SimulationPlan = planOf,
): Promise<SeedsReport> {
  const faults = Object.fromEntries(FAULT_CLASSES.map((fault) => [fault, 0])) as Record<FaultClass, number>;
  const broken: string[] = [];
  let finished = 0;
  for (let seed = first; seed <= last; seed += 1) {
    const report = await run(seed, { plan: plan(seed) });
    finished += report.finished;
    for (const fault of FAULT_CLASSES) faults[fault] += report.faults[fault];
    for (const { invariant, what } of report.violations.slice(0, 1))
      broken.push(`${seed}: ${invariant}: ${what}`);
  }
  return { broken, finished, faults };
}
