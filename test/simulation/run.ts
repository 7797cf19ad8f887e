/** One seed, run: what it found, what happened to it, and the trace by which two runs are compared. */
import type { CallFault, FiredFault } from './faults.ts';
import type { Violation } from './invariants.ts';
import { type FaultClass, planOf, type SimulationPlan } from './plan.ts';
import { type Sabotage, World } from './world.ts';

export interface RunReport {
  readonly seed: number;
  readonly steps: number;
  readonly virtualMs: number;
  readonly jobs: number;
  readonly finished: number;
  readonly violations: readonly Violation[];
  readonly faults: Readonly<Record<FaultClass, number>>;
  readonly fired: readonly FiredFault[];
  readonly traceHash: string;
  /** Calls to the adapters, by name. */
  readonly calls: readonly string[];
}

export interface RunOptions {
  readonly plan?: SimulationPlan | undefined;
  readonly only?: ReadonlySet<FiredFault> | undefined;
  readonly forced?: ReadonlyMap<string, CallFault> | undefined;
  readonly sabotage?: Sabotage | undefined;
  readonly onTrace?: ((line: string) => void) | undefined;
}

/** More steps than any run needs; a run that takes them all is itself a finding. */
const STEPS_MAX = 400_000;
/** After the faults have stopped, everything must be over within this, and what the load itself takes. */
const RECOVERY_MS = 20 * 60_000;

/** How long the load takes at most when one slot has to run all of it, with every retry and the rounds between. */
function boundMs(plan: SimulationPlan): number {
  const longest = Math.max(0, ...plan.configuration.types.map((type) => type.timeoutMs));
  const perJob = Math.max(0, ...plan.jobs.map((job) => job.durationMs)) + 1_000;
  const future = Math.max(0, ...plan.jobs.map((job) => job.askedAtMs + job.delayMs));
  return RECOVERY_MS + future + plan.jobs.length * perJob * 3 + longest * 4;
}

export async function run(seed: number, options: RunOptions = {}): Promise<RunReport> {
  const plan = options.plan ?? planOf(seed);
  const world = new World({ ...options, plan });
  const { time, invariants, faults } = world;
  const startMs = time.nowMs;
  world.watchHints();
  world.start();
  const afterStep = (): void => invariants.afterStep();
  const isBroken = (): boolean => invariants.violations.length > 0;
  const untilMs = startMs + plan.faultsUntilMs + (plan.endless ? 0 : boundMs(plan));
  const end = await time.run({
    untilMs,
    stepsMax: STEPS_MAX,
    afterStep,
    isOver: () => isBroken() || (world.isQuiet && time.nowMs - startMs > plan.faultsUntilMs),
  });
  if (!isBroken()) {
    if (end === 'steps') {
      invariants.violations.push({
        invariant: '8 no starvation',
        atMs: time.nowMs,
        what: `not over after ${STEPS_MAX} steps`,
      });
    } else if (plan.endless) invariants.sweep();
    else {
      if (invariants.accepted.size < plan.jobs.length) {
        invariants.violations.push({
          invariant: '1 nothing is lost',
          atMs: time.nowMs,
          what: `${plan.jobs.length - invariants.accepted.size} requests never became jobs`,
        });
      }
      invariants.atEnd();
    }
  }
  return {
    seed,
    steps: time.steps,
    virtualMs: time.nowMs - startMs,
    jobs: plan.jobs.length,
    finished: invariants.ended.size,
    violations: invariants.violations,
    faults: faults.counts,
    fired: faults.fired,
    traceHash: world.traceHash,
    calls: world.calls,
  };
}
