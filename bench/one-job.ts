/**
 * What one job's way through the scheduler enters: how many files, and how many functions. Every one of them is read by who
 * follows a job, so this is a measure of the house, not of its speed.
 *
 * One job is submitted, admitted by a pass, run by a function's worker, and settled, over the memory adapters, after another
 * has gone the same way: what happens only at first is not counted. V8 counts the calls. Adapters, the simulation around
 * them and what every program has (clocks, logs) are left out.
 *
 *   node bench/one-job.ts [--json]
 */
import { resolveConfiguration } from '../lib/core/defaults.ts';
import { SimulatedPool } from '../lib/simulate/pool.ts';
import { jobFrom, parseRequests } from '../lib/submit/request.ts';
import { countEntries, type EnteredFile } from './entered.ts';

const START_MS = 1_800_000_000_000;
const LEFT_OUT = /^lib\/(store|queue|events)\/[^/]+\/|^lib\/(local|simulate|runtime)\//;

interface OneJob {
  /** Files whose functions were entered, with how many of each. */
  readonly files: readonly { readonly file: string; readonly functions: number }[];
  readonly functions: number;
}

/** Of what was entered, what a job's way is. */
function wayOf(entered: readonly EnteredFile[]): OneJob {
  const files = entered.flatMap(({ file, counts }) =>
    LEFT_OUT.test(file) ? [] : [{ file, functions: counts.length }],
  );
  files.sort((one, other) => (one.file < other.file ? -1 : 1));
  return { files, functions: files.reduce((sum, { functions }) => sum + functions, 0) };
}

async function run(pool: SimulatedPool, id: string): Promise<void> {
  const detail = { type: 'resize', payload: { image: id } };
  const [asked] = parseRequests(detail, pool.configuration).accepted;
  if (asked === undefined) throw new Error('the request was refused');
  await pool.submit([jobFrom(asked.request, id, 0, pool.time.nowMs)]);
  const isSettled = (): boolean => pool.store.inspectJob(id)?.state === 'succeeded';
  for (let round = 0; round < 100; round += 1) {
    await pool.act();
    if (isSettled()) return;
    await pool.time.run({ untilMs: pool.time.nowMs + 1 });
  }
  throw new Error(`job ${id} did not end`);
}

async function measure(): Promise<OneJob> {
  const configuration = resolveConfiguration({
    types: { resize: {} },
    fleets: { images: { types: ['resize'], slots: 4 } },
  });
  const pool = new SimulatedPool({
    configuration,
    startMs: START_MS,
    seed: 1,
    workerLease: undefined,
    workOf: () => ({ takesMs: 10 }),
    observe: () => {},
    onScheduled: () => {},
  });
  const entered = await countEntries();
  await run(pool, 'first');
  await entered();
  await run(pool, 'second');
  return wayOf(await entered());
}

/** How many files, the fullest first, hold such a part of the functions. */
function filesOf({ files, functions }: OneJob, part: number): number {
  const counts = files.map((each) => each.functions).sort((one, other) => other - one);
  let left = functions * part;
  return counts.filter((count) => {
    const isNeeded = left > 0;
    left -= count;
    return isNeeded;
  }).length;
}

const found = await measure();
if (process.argv.includes('--json')) console.log(JSON.stringify(found));
else {
  for (const { file, functions } of found.files) console.log(`${String(functions).padStart(4)} ${file}`);
  const most = filesOf(found, 0.9);
  console.log(
    `One job enters ${found.functions} functions of ${found.files.length} files; nine tenths of them stand in ${most} files.`,
  );
}
