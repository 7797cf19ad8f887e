/** One seed, run: what it found, what happened to it, and the trace by which two runs are compared. */

import type { JobTypeConfiguration, PoolConfiguration } from '../../lib/core/configuration.ts';
import { CLOCK_SKEW_MAX_MS } from '../../lib/core/lease.ts';
import { backoffMs } from '../../lib/core/retry.ts';
import { OBSERVED_MS } from '../../lib/dispatch/recovery/silence.ts';
import { FUNCTION_END_MS } from '../../lib/worker/run-job.ts';
import type { CallFault, FiredFault } from './faults.ts';
import type { Violation } from './invariants.ts';
import { type FaultClass, MOVED_MAX_MS, MOVES_MAX_MS, planOf, type SimulationPlan } from './plan.ts';
import { configurationsOf } from './redeploys.ts';
import { ASKS_AGAIN_MS, LATE_MAX_MS, type Sabotage, WORKER_MARGIN_MS, World } from './world.ts';

export interface RunReport {
  readonly seed: number;
  readonly steps: number;
  readonly virtualMs: number;
  /** Everything had to be over by then. */
  readonly boundMs: number;
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

/** More steps than any run needs, and than any job of it does; a run that takes them all is itself a finding. */
const STEPS_MAX = 400_000;
const STEPS_PER_JOB_MAX = 500;
/** The most steps of a second in which jobs only wait for a limit's window: looks, heartbeats, and requests that come again. */
const STEPS_PER_SECOND_MAX = 100;

const TICK_MS = 60_000;
/** A message that was received, and a process that ended, come back within this. */
const COMES_BACK_MS = 120_000;
/** What one attempt needs beside its handler: calls in a row, and what batches wait for each other. */
const CALLS_IN_A_ROW = 15;
const WAITS_MS = 2_000;
/** A place that faults left behind is sent again, then declared lost, then its next attempt sent again. */
const ROUNDS = 3;

/** To when users move jobs at the latest: so long after the last fault, with what their moves wait for each other. */
function movedMs(plan: SimulationPlan): number {
  const planned = plan.events.flatMap((event) =>
    'act' in event && event.act.kind === 'retime'
      ? event.act.moves.map(({ afterMs, inMs }) => event.atMs + afterMs + inMs)
      : [],
  );
  return Math.max(0, plan.rates.operatorRetimes > 0 ? MOVED_MAX_MS + MOVES_MAX_MS : 0, ...planned);
}

/**
 * By when everything is over, counted from the last fault. First what was under way arrives, leases and timeouts pass;
 * then the reservations left behind are looked at, `checkMax` of them in each tick if nothing else causes passes, as many
 * as there can be with the capacity there is; then the load runs as if one slot ran all of it, with every attempt that
 * it may have.
 */
function boundMs(plan: SimulationPlan): number {
  const { redeploys } = plan;
  if (redeploys === undefined) return boundUnder(plan);
  // As what was declared last, and again when everything that is gone comes back; with what a rollout takes each time.
  const deployments = [...redeploys.deployments, redeploys.finale];
  const worstMs = Math.max(
    ...deployments.map(({ configuration, processes }) =>
      boundUnder({ ...plan, configuration: worst(configuration, plan), processes }),
    ),
  );
  const rolloutsMs = deployments.reduce((total, { rolloutMs }) => total + rolloutMs + ROLLOUT_MS, 0);
  return 2 * (worstMs + rolloutsMs);
}

/** Workers learn within this that they are not wanted any more, and others come. */
const ROLLOUT_MS = 180_000;

/** With every type that there ever is, as it takes longest. */
function worst(configuration: PoolConfiguration, plan: SimulationPlan): PoolConfiguration {
  const all = configurationsOf(plan).flatMap(({ types }) => types);
  const types = Map.groupBy(all, ({ type }) => type);
  return {
    ...configuration,
    types: [...types.values()].flatMap((same) => {
      const [first] = same;
      if (first === undefined) return [];
      const most = (of: (type: JobTypeConfiguration) => number): number => Math.max(...same.map(of));
      return {
        ...first,
        timeoutMs: most(({ timeoutMs }) => timeoutMs),
        retry: {
          ...first.retry,
          maxAttempts: most(({ retry }) => retry.maxAttempts),
          maxWorkersLost: most(({ retry }) => retry.maxWorkersLost),
          delayMs: most(({ retry }) => retry.delayMs),
        },
      };
    }),
  };
}

function boundUnder(plan: SimulationPlan): number {
  const { configuration, budget, jobs, processes, residents } = plan;
  const typeOf = new Map(configuration.types.map((type) => [type.type, type]));
  const timeoutMs = Math.max(0, ...configuration.types.map((type) => type.timeoutMs));
  const functionMs = timeoutMs + WORKER_MARGIN_MS + FUNCTION_END_MS + CLOCK_SKEW_MAX_MS;
  const leasesMs = LATE_MAX_MS + budget.leadMs + functionMs + OBSERVED_MS + COMES_BACK_MS;
  // A worker may have two lives at once.
  const slots = processes.reduce((total, process) => total + 2 * process.slots, 0);
  const capacity = configuration.fleets.reduce((total, fleet) => total + (fleet.slots ?? 0), slots);
  // A conflict key's turn may pass from partition to partition without a hint: in a tick each.
  const reservations = Math.min(jobs.length, capacity) + (configuration.partitions > 1 ? jobs.length : 0);
  const checksMs = ROUNDS * (budget.checkAfterMs + TICK_MS * Math.ceil(reservations / budget.checkMax));
  const futureMs = Math.max(0, ...jobs.map((job) => job.askedAtMs + job.delayMs));
  // Whoever finds a dispatcher that runs on leaves word: it is heard at its next look, of each start and each end.
  const hearsMs = 2 * Math.max(0, ...residents.map(({ pollMs }) => pollMs));
  const loadMs = jobs.reduce((total, job) => {
    const retry = typeOf.get(job.type)?.retry;
    const tries = (retry?.maxAttempts ?? 1) + (retry?.maxWorkersLost ?? 0);
    const delayMs = retry === undefined ? 0 : backoffMs(retry, retry.maxAttempts, 1);
    const eachMs = job.durationMs + delayMs + CALLS_IN_A_ROW * plan.latencyMaxMs + WAITS_MS + hearsMs;
    return total + tries * eachMs;
  }, 0);
  // Each dead letter may be tried again.
  const redrivenMs = plan.rates.operatorRedrives > 0 || plan.events.length > 0 ? loadMs : 0;
  const { types } = configuration;
  const isBounded = types.some(({ maxWaiting, maxWaitingPerKey }) => maxWaiting ?? maxWaitingPerKey);
  // Each request that finds no room comes again.
  const refusedMs = isBounded ? jobs.length * ASKS_AGAIN_MS : 0;
  const expiryMs = plan.terminalTtlMs === undefined ? 0 : plan.terminalTtlMs + 3 * LATE_MAX_MS;
  return (
    leasesMs +
    checksMs +
    futureMs +
    movedMs(plan) +
    loadMs +
    redrivenMs +
    refusedMs +
    expiryMs +
    limitsMs(plan)
  );
}

/** Starts and lost workers count longer than their window. */
const WINDOW_SHARE = 1.5;

/** How long jobs may wait for the windows of limits, if all are of one key and of the limits' types. */
function limitsMs({ configuration, jobs, rates, events }: SimulationPlan): number {
  const { limits = [], types, partitions } = configuration;
  const tries = Math.max(...types.map(({ retry }) => retry.maxAttempts + retry.maxWorkersLost));
  const again = rates.operatorRedrives > 0 || events.length > 0 ? 2 : 1;
  const attempts = again * tries * jobs.length;
  const longestMs = Math.max(...types.map(({ timeoutMs }) => timeoutMs));
  return limits.reduce((total, { rate, budget, keyedBy }) => {
    // All jobs may be in one partition, which has a share of what it does not bound by the fairness key.
    const whole = Math.min(
      rate?.units ?? rate?.starts ?? Infinity,
      keyedBy === undefined ? Infinity : (rate?.perKey ?? Infinity),
    );
    const most = Math.min(Math.floor(whole / partitions), rate?.perKey ?? Infinity);
    const named = jobs.flatMap(({ units = {} }) => Object.values(units));
    const starts = Math.max(1, Math.floor(most / Math.max(rate?.perJob ?? 1, ...named)));
    const ofRate = rate === undefined ? 0 : Math.ceil(attempts / starts) * rate.perMs;
    const ofBudget =
      budget === undefined ? 0 : Math.ceil((attempts * longestMs) / budget.slotMs) * budget.perMs;
    return total + WINDOW_SHARE * (ofRate + ofBudget);
  }, 0);
}

/** How many steps there are while jobs wait for the windows of limits, as long as under the slowest declaration. */
const windowsSteps = (plan: SimulationPlan): number =>
  (STEPS_PER_SECOND_MAX / 1_000) *
  Math.max(...configurationsOf(plan).map((configuration) => limitsMs({ ...plan, configuration })));

export async function run(seed: number, options: RunOptions = {}): Promise<RunReport> {
  const plan = options.plan ?? planOf(seed);
  const world = new World({ ...options, plan });
  const { time, invariants, faults } = world;
  const startMs = time.nowMs;
  world.watchHints();
  await world.prepare();
  world.start();
  const afterStep = (): void => invariants.afterStep();
  const isBroken = (): boolean => invariants.violations.length > 0;
  const untilMs = startMs + plan.faultsUntilMs + (plan.endless ? 0 : boundMs(plan));
  const stepsMax = STEPS_MAX + STEPS_PER_JOB_MAX * plan.jobs.length + windowsSteps(plan);
  const end = await time.run({
    untilMs,
    stepsMax,
    afterStep,
    isOver: () => isBroken() || (world.isQuiet && time.nowMs - startMs > plan.faultsUntilMs),
  });
  if (!isBroken()) {
    if (end === 'steps') {
      invariants.violations.push({
        invariant: '8 no starvation',
        atMs: time.nowMs,
        what: `not over after ${stepsMax} steps`,
      });
    } else if (plan.endless) invariants.sweep();
    else {
      if (invariants.asked < plan.jobs.length) {
        invariants.violations.push({
          invariant: '1 nothing is lost',
          atMs: time.nowMs,
          what: `${plan.jobs.length - invariants.asked} requests never became jobs`,
        });
      }
      invariants.atEnd();
    }
  }
  return {
    seed,
    steps: time.steps,
    virtualMs: time.nowMs - startMs,
    boundMs: untilMs - startMs,
    jobs: plan.jobs.length,
    finished: invariants.ended.size,
    violations: invariants.violations,
    faults: faults.counts,
    fired: faults.fired,
    traceHash: world.traceHash,
    calls: world.calls,
  };
}
