/**
 * `fairlead dev` and `testScheduler` on this machine: how soon a first job ends after a cold start (median of five), how many jobs
 * a second one fleet runs, how long a saved file takes to be read, and how long 10,000 jobs over 30 virtual days take. With the
 * processor's time beside the clock's, because a busy machine changes only the latter.
 *
 *   node bench/dev.ts [--json] [--jobs 10000]
 */
import { spawn } from 'node:child_process';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { DevServer } from '../lib/dev/server.ts';
import { defineJobs, job } from '../lib/jobs/jobs.ts';
import { testScheduler } from '../lib/testing/index.ts';

const project = resolve(import.meta.dirname, '..');
const COLD_STARTS = 5;
const RELOADS = 10;
const BATCH = 500;
const DAYS = 30;
const DAY_MS = 86_400_000;

const WORKER = `
import { worker } from 'fairlead/worker';
export const handler = worker({ work: () => { globalThis.ended?.(); } });
`;

interface Took {
  readonly wallMs: number;
  readonly processorMs: number;
}

async function timed(act: () => Promise<unknown>): Promise<Took> {
  const began = performance.now();
  const usedBefore = process.cpuUsage();
  await act();
  const { user, system } = process.cpuUsage(usedBefore);
  return {
    wallMs: Math.round(performance.now() - began),
    processorMs: Math.round((user + system) / 1_000),
  };
}

const median = (values: readonly number[]): number =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;

async function post(url: string, path: string, body: object): Promise<void> {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  await answer.body?.cancel();
}

/** From the start of the command to the end of a first job, in ms. */
async function coldStartMs(app: string): Promise<number> {
  const began = performance.now();
  const main = join(project, 'lib/cli/main.ts');
  const child = spawn(process.execPath, [main, 'dev', 'worker.ts', '--port', '0'], { cwd: app });
  const ended = new Promise((done) => child.once('close', done));
  let output = '';
  const said = (text: RegExp): Promise<RegExpExecArray> =>
    new Promise((done, fail) => {
      const look = (): void => {
        const found = text.exec(output);
        if (found !== null) done(found);
      };
      child.stdout.on('data', look);
      child.once('close', () => fail(new Error(output)));
      look();
    });
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data: Buffer) => {
      output += data.toString();
    });
  const [, url = ''] = await said(/FAIRLEAD_URL=(\S+)/);
  await post(url, '/jobs', { type: 'work' });
  await said(/✓ work/);
  const tookMs = performance.now() - began;
  child.kill('SIGINT');
  await ended;
  return Math.round(tookMs);
}

interface Measured {
  readonly coldStartsMs: readonly number[];
  readonly coldStartMedianMs: number;
  readonly jobsPerSecond: number;
  readonly reloadsMs: readonly number[];
  readonly testScheduler: Took & { readonly jobs: number; readonly days: number };
}

async function measureServer(
  app: string,
  jobs: number,
): Promise<Pick<Measured, 'jobsPerSecond' | 'reloadsMs'>> {
  const lines: string[] = [];
  let onLine = (): void => {};
  const server = await DevServer.start({
    module: 'worker.ts',
    cwd: app,
    port: 0,
    dashboardPort: 0,
    actor: 'bench',
    speed: 1,
    keep: undefined,
    columns: () => 80,
    write: (line) => {
      lines.push(line);
      onLine();
    },
  });
  try {
    const run = await timed(async () => {
      const allEnded = new Promise<void>((done) => {
        let left = jobs;
        Object.assign(globalThis, {
          ended: () => {
            left -= 1;
            if (left === 0) done();
          },
        });
      });
      for (let from = 0; from < jobs; from += BATCH) {
        const requests = Array.from({ length: Math.min(BATCH, jobs - from) }, () => ({ type: 'work' }));
        await post(server.url, '/jobs/batch', { jobs: requests });
      }
      await allEnded;
    });
    for (let no = 0; no < RELOADS; no += 1) {
      const reloads = (): number => lines.filter((line) => line.includes('reloaded in')).length;
      const before = reloads();
      const read = new Promise<void>((done) => {
        onLine = () => {
          if (reloads() > before) done();
        };
      });
      await writeFile(join(app, 'new'), `${WORKER}// ${no}`);
      await rename(join(app, 'new'), join(app, 'worker.ts'));
      await read;
    }
    return {
      jobsPerSecond: Math.round((jobs * 1_000) / run.wallMs),
      reloadsMs: lines.flatMap((line) => Number(/reloaded in (\d+) ms/.exec(line)?.[1] ?? Number.NaN) || []),
    };
  } finally {
    await server.close();
  }
}

async function measureTestScheduler(jobs: number): Promise<Took> {
  const declared = defineJobs({ one: job<{ no: number }>(), other: job<{ no: number }>() });
  const declaration = { fleets: { workers: { types: ['one', 'other'], slots: 10 } } } as const;
  return timed(async () => {
    const t = await testScheduler(declared, declaration, { handlers: { one: () => {}, other: () => {} } });
    const startMs = t.now.getTime();
    for (let no = 0; no < jobs; no += 1) {
      const runAt = new Date(startMs + Math.floor((no * DAYS * DAY_MS) / jobs));
      await t.submit(no % 2 === 0 ? 'one' : 'other', { no }, { runAt, fairnessKey: `key-${no % 7}` });
    }
    await t.runUntilIdle({ within: `${DAYS + 1}d` });
    if (t.started().length !== jobs) throw new Error(`${t.started().length} of ${jobs} jobs have started`);
    await t.dispose();
  });
}

async function main(jobs: number): Promise<Measured> {
  const app = await mkdtemp(join(tmpdir(), 'fairlead-bench-'));
  try {
    await writeFile(join(app, 'package.json'), '{ "type": "module" }');
    await writeFile(join(app, 'worker.ts'), WORKER);
    await mkdir(join(app, 'node_modules'));
    await symlink(join(project, 'node_modules/esbuild'), join(app, 'node_modules/esbuild'));
    const coldStartsMs: number[] = [];
    for (let no = 0; no < COLD_STARTS; no += 1) coldStartsMs.push(await coldStartMs(app));
    return {
      coldStartsMs,
      coldStartMedianMs: median(coldStartsMs),
      ...(await measureServer(app, jobs)),
      testScheduler: { jobs, days: DAYS, ...(await measureTestScheduler(jobs)) },
    };
  } finally {
    await rm(app, { recursive: true, force: true });
  }
}

const { values } = parseArgs({
  options: { json: { type: 'boolean' }, jobs: { type: 'string', default: '10000' } },
});
const found = await main(Number(values.jobs));
if (values.json === true) console.log(JSON.stringify(found));
else
  console.log(`first job after a cold start: ${found.coldStartMedianMs} ms, median of ${found.coldStartsMs.join(', ')}
jobs a second on one fleet:   ${found.jobsPerSecond}
a saved file is read in:      ${median(found.reloadsMs)} ms, median of ${found.reloadsMs.join(', ')}
testScheduler:                ${found.testScheduler.jobs} jobs over ${DAYS} days in ${found.testScheduler.wallMs} ms, ${found.testScheduler.processorMs} ms of a processor`);
process.exit();
