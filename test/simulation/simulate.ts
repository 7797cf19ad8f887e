/**
 * `npm run simulate -- --seeds N [--seed FIRST] [--big [--processes] | --crash | --overloaded] [--replay] [--json] [--break NAME]`
 *
 * Runs seeds of the simulation; `--big`: of its big worlds, with `--processes` of those whose work processes do; `--crash`: of those
 * in which processes are killed and nothing else fails; `--overloaded`: of those in which more comes than can be done. While a run takes long,
 * stderr says how far it is. Exit status 0: no violation. A violation is printed with its seed, the faults that are left after shrinking, the last
 * of what happened, and the command that replays it.
 */
import { parseArgs } from 'node:util';
import { bigPlanOf, bigPlanOfProcesses, overloadedPlanOf } from './big.ts';
import { crashPlanOf } from './crash.ts';
import type { Violation } from './invariants.ts';
import { FAULT_CLASSES, type FaultClass, planOf, type SimulationPlan } from './plan.ts';
import { PLANTED } from './planted.ts';
import { type RunOptions, type RunReport, run } from './run.ts';
import { shrink } from './shrink.ts';
import { START_MS } from './world.ts';

// Errors are part of the play: nobody reads where they were made.
Error.stackTraceLimit = 0;

const HISTORY_LINES = 60;
const BROKEN_MAX = 5;
/** A world takes up to minutes: so often a line on stderr says how far it is. */
const TELL_EVERY_MS = 10_000;

interface Summary {
  readonly first: number;
  seeds: number;
  steps: number;
  jobs: number;
  finished: number;
  readonly violations: { readonly seed: number; readonly invariant: string; readonly what: string }[];
  readonly faults: Record<FaultClass, number>;
}

function usage(problem: string): never {
  console.error(
    `fairlead: ${problem}; use: npm run simulate -- --seeds N [--seed FIRST] [--big [--processes] | --crash | --overloaded] [--replay] [--json] [--break NAME]`,
  );
  process.exit(2);
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) usage(`--${name} is ${text}, not a whole number`);
  return value;
}

let toldMs = performance.now();

/** Tells on stderr, now and then, how far a run is. */
function telling(options: RunOptions, doing: string): RunOptions {
  const onTrace = (line: string): void => {
    if (performance.now() - toldMs < TELL_EVERY_MS) return;
    toldMs = performance.now();
    const minutes = (Number.parseFloat(line) - START_MS) / 60_000;
    console.error(`${doing}: ${minutes.toFixed(1)} minutes of virtual time`);
  };
  return { ...options, onTrace };
}

async function explain(report: RunReport, options: RunOptions, command: string): Promise<void> {
  const small = await shrink(report, planFor(report.seed), telling(options, `shrinking seed ${report.seed}`));
  const history: string[] = [];
  const again = await run(report.seed, {
    ...options,
    plan: small.plan,
    only: small.only,
    onTrace: (line) => history.push(line),
  });
  const violation: Violation | undefined = again.violations[0];
  console.log(`\nseed ${report.seed}: ${violation?.invariant}: ${violation?.what}`);
  console.log(`  jobs: ${small.plan.jobs.length} of ${report.jobs}; faults left of ${report.fired.length}:`);
  for (const fault of small.only) console.log(`    ${fault}`);
  console.log(
    `  imitated: ${JSON.stringify({ ...small.plan.store, ...small.plan.queue, ...small.plan.bus })}`,
  );
  console.log(
    `  what happened (the last ${HISTORY_LINES} of ${history.length}, after ${small.runs} runs of shrinking):`,
  );
  for (const line of history.slice(-HISTORY_LINES)) console.log(`    ${line}`);
  console.log(`  replay: ${command} --seed ${report.seed} --replay`);
}

async function replay(seed: number, options: RunOptions): Promise<boolean> {
  const plan = planFor(seed);
  const first = await run(seed, { ...options, plan, onTrace: (line) => console.log(line) });
  const second = await run(seed, { ...options, plan });
  for (const { invariant, what } of first.violations) console.log(`violation: ${invariant}: ${what}`);
  const isSame = first.traceHash === second.traceHash;
  console.log(
    `seed ${seed}: trace ${first.traceHash}, again ${second.traceHash}: ${isSame ? 'the same' : 'NOT the same'}`,
  );
  return isSame && first.violations.length === 0;
}

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    big: { type: 'boolean', default: false },
    processes: { type: 'boolean', default: false },
    crash: { type: 'boolean', default: false },
    overloaded: { type: 'boolean', default: false },
    replay: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    break: { type: 'string' },
  },
});
const KINDS = ['big', 'processes', 'crash', 'overloaded'] as const;
if (values.processes && !values.big) usage('--processes is of --big');
const seeds = wholeNumber('seeds', values.seeds);
const first = wholeNumber('seed', values.seed);
const planFor = (seed: number): SimulationPlan => {
  if (values.crash) return crashPlanOf(seed);
  if (values.overloaded) return overloadedPlanOf(seed);
  if (values.processes) return bigPlanOfProcesses(seed);
  return values.big ? bigPlanOf(seed) : planOf(seed);
};
const planted = values.break === undefined ? undefined : PLANTED[values.break];
if (planted?.changes !== undefined)
  usage(`${values.break} is found by: node test/simulation/find.ts ${values.break}`);
if (values.break !== undefined && planted === undefined) {
  usage(`unknown protection ${values.break}: one of ${Object.keys(PLANTED).join(', ')}`);
}
const options: RunOptions = planted === undefined ? {} : { sabotage: planted };
const command = `npm run simulate --${KINDS.map((kind) => (values[kind] ? ` --${kind}` : '')).join('')}${values.break === undefined ? '' : ` --break ${values.break}`}`;

if (values.replay) {
  process.exitCode = (await replay(first, options)) ? 0 : 1;
} else {
  const summary: Summary = {
    first,
    seeds: 0,
    steps: 0,
    jobs: 0,
    finished: 0,
    violations: [],
    faults: Object.fromEntries(FAULT_CLASSES.map((fault) => [fault, 0])) as Record<FaultClass, number>,
  };
  const startedMs = performance.now();
  let broken = 0;
  for (let seed = first; seed < first + seeds && broken < BROKEN_MAX; seed += 1) {
    const report = await run(seed, { ...telling(options, `seed ${seed}`), plan: planFor(seed) });
    summary.seeds += 1;
    summary.steps += report.steps;
    summary.jobs += report.jobs;
    summary.finished += report.finished;
    for (const fault of FAULT_CLASSES) summary.faults[fault] += report.faults[fault];
    if (report.violations.length === 0) continue;
    broken += 1;
    for (const { invariant, what } of report.violations.slice(0, 3)) {
      summary.violations.push({ seed, invariant, what });
    }
    if (!values.json) await explain(report, options, command);
  }
  if (values.json) console.log(JSON.stringify(summary));
  else {
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
    console.log(
      `${summary.seeds} seeds from ${first}, ${summary.steps} steps, ${summary.finished} of ${summary.jobs} jobs over, ${summary.violations.length} violations, ${seconds} s`,
    );
    for (const fault of FAULT_CLASSES) console.log(`  ${fault.padEnd(24)} ${summary.faults[fault]}`);
  }
  process.exitCode = summary.violations.length === 0 ? 0 : 1;
}
