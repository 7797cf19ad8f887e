/**
 * `npm start`: the whole way of a job, on real files. Starts an emulator, deploys the stack, puts events on its bus,
 * follows the jobs to their end, and says what they came to.
 */

import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { EnvironmentError } from '../../lib/core/errors.ts';
import type { Job } from '../../lib/core/job.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { type Emulator, startEmulator } from '../../lib/testing/emulator.ts';
import { keepNewest, stamp } from '../../lib/testing/log-files.ts';
import { DeployError, type Deployment, deploy } from '../deploy.ts';
import { wordsOf } from '../failures.ts';
import { answers, clientsOf, receiveOutcomes, untilEndIsTold } from './endpoint.ts';
import { type Plan, plan } from './input.ts';
import { formatKept, keepReachable } from './kept.ts';
import { manifestOf } from './manifest.ts';
import { OUTPUT_FOLDERS, readOptions, type StartOptions, USAGE, UsageError } from './options.ts';
import { type Progress, progressOn } from './progress.ts';
import { packRequests, putRequests, SubmitError } from './requests.ts';
import { formatSummary, type Summary, summaryOf } from './summary.ts';
import { StalledError, type Watched, watch } from './watch.ts';

const project = resolve(import.meta.dirname, '../..');
/** Holds what is installed, logs and temporary files. */
const dataDir = resolve(process.env.FAIRLEAD_DATA ?? join(project, '.fairlead'));
/** Results of runs that named no folder for them; the newest are kept. */
const runs = join(dataDir, 'runs');
const RUNS_KEPT = 5;

/** Exit codes: all jobs reached their end; something went wrong; the command line is wrong. A signal: 128 and its number. */
const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly exitCode: number;

  constructor(exitCode: number) {
    super('interrupted');
    this.exitCode = exitCode;
  }
}

/** Everything that was started and is to be stopped, in the reverse order. */
type Cleanup = (() => Promise<void> | void)[];

interface Run {
  readonly options: StartOptions;
  readonly progress: Progress;
  readonly controller: AbortController;
  readonly cleanup: Cleanup;
  /** Once it was started here. */
  emulator?: Emulator;
}

async function prepareOutput(out: string): Promise<void> {
  // Only a folder that an earlier run has marked as its own is cleared.
  const marker = join(out, '.fairlead-output');
  const isOurs = await stat(marker).catch(() => undefined);
  if (isOurs !== undefined) {
    await rm(join(out, 'manifest.json'), { force: true });
    for (const name of OUTPUT_FOLDERS) await rm(join(out, name), { recursive: true, force: true });
  }
  await mkdir(out, { recursive: true });
  await writeFile(marker, '');
}

interface Endpoint {
  readonly endpoint: string;
  /** Leaves it running; says how it is stopped. */
  readonly keep: () => string;
}

async function reachEndpoint(run: Run): Promise<Endpoint> {
  const { options, progress, controller, cleanup } = run;
  const { signal } = controller;
  if (options.endpoint !== undefined) {
    if (!(await answers(options.endpoint))) {
      throw new EnvironmentError(
        `nothing answers at AWS_ENDPOINT_URL=${options.endpoint}: start it, or unset the variable to have one started`,
      );
    }
    return {
      endpoint: options.endpoint,
      keep: () => 'npx cdk destroy --all --force, with these variables set',
    };
  }
  progress.say('starting the emulator');
  const emulator = await startEmulator({ dataDir, log: progress.say, signal });
  run.emulator = emulator;
  emulator.exited.then(({ expected, reason }) => {
    if (!expected) controller.abort(new EnvironmentError(`${reason}. Run it again`));
  });
  let kept = false;
  cleanup.push(() => (kept ? undefined : emulator.stop()));
  return {
    endpoint: emulator.endpoint,
    keep: () => {
      kept = true;
      emulator.release();
      return `kill ${emulator.pid}`;
    },
  };
}

async function deployStack(run: Run, endpoint: string): Promise<Deployment> {
  const { options, progress, controller, cleanup } = run;
  progress.say(`deploying the stack to ${endpoint}`);
  const deployment = await deploy({ endpoint, dataDir, signal: controller.signal });
  // What lies in an emulator of ours ends with it.
  if (options.endpoint !== undefined && !options.keep) {
    cleanup.push(async () => {
      if (controller.signal.aborted) {
        progress.say(`the stack was left at ${endpoint}; the next run removes it`);
        return;
      }
      progress.say('removing the stack');
      await deployment.destroy().catch((error: unknown) => progress.say(String(error)));
    });
  }
  return deployment;
}

/** An output of the stack that must be there. */
function outputOf(outputs: Readonly<Record<string, string>>, name: string): string {
  const value = outputs[name];
  if (value === undefined)
    throw new DeployError(`the stack has no output ${name}; it has: ${Object.keys(outputs).join(', ')}`);
  return value;
}

const noPlace = (): never => {
  throw new Error('the example only reads jobs');
};

async function runJobs(
  run: Run,
  endpoint: string,
  outputs: Readonly<Record<string, string>>,
  { files }: Plan,
): Promise<{ readonly watched: Watched; readonly durationMs: number }> {
  const { progress, controller, cleanup } = run;
  const { signal } = controller;
  const clients = clientsOf(endpoint);
  cleanup.push(clients.destroy);
  const store = new DynamoJobStore({
    client: clients.table,
    table: outputOf(outputs, 'TableName'),
    place: noPlace,
  });
  const queueUrl = outputOf(outputs, 'OutcomesQueueUrl');

  const startedAtMs = performance.now();
  const events = packRequests(files);
  progress.say(`submitting ${files.length} jobs in ${events.length} events`);
  const put = await putRequests(clients.bus, outputOf(outputs, 'BusName'), events, signal);

  const tell = (ended: ReadonlyMap<string, Job>, rejected: number): void => {
    const failed = [...ended.values()].filter((job) => job.state !== 'succeeded').length;
    const rate = ended.size / Math.max(1, (performance.now() - startedAtMs) / 1_000);
    const bad = [failed > 0 ? `, ${failed} failed` : '', rejected > 0 ? `, ${rejected} rejected` : ''].join(
      '',
    );
    progress.update(`${ended.size} of ${files.length} jobs${bad}, ${rate.toFixed(1)} a second`);
  };
  const watched = await watch({
    jobIds: files.map((file) => file.jobId),
    jobIdAt: (eventId, position) => put.get(eventId)?.files[position]?.jobId,
    receive: () => receiveOutcomes(clients.queue, queueUrl, signal),
    getJobs: (jobIds) => store.getJobs({ ids: jobIds }),
    onProgress: tell,
    monotonicMs: () => performance.now(),
    signal,
  });
  progress.done();
  return { watched, durationMs: performance.now() - startedAtMs };
}

async function writeResults(
  { options }: Run,
  { files, skipped }: Plan,
  watched: Watched,
  durationMs: number,
): Promise<Summary> {
  const manifest = manifestOf(files, skipped, watched);
  const path = join(options.out, 'manifest.json');
  await writeFile(`${path}.unfinished`, `${JSON.stringify(manifest, null, 2)}\n`);
  await rename(`${path}.unfinished`, path);
  await rm(join(options.out, '.unfinished'), { recursive: true, force: true });
  return summaryOf(manifest, { out: options.out, manifest: path }, durationMs);
}

async function start(run: Run): Promise<number> {
  const { options, progress, controller } = run;
  const { signal } = controller;
  await prepareOutput(options.out);
  await keepNewest(runs, '', RUNS_KEPT);
  const planned = await plan({
    input: options.input,
    project,
    dataDir,
    out: options.out,
    run: randomUUID(),
    signal,
  });
  progress.say(`${planned.files.length} files to work on; results go to ${options.out}`);

  const { endpoint, keep } = await reachEndpoint(run);
  const { outputs } = await deployStack(run, endpoint);
  const { watched, durationMs } = await runJobs(run, endpoint, outputs, planned);
  const summary = await writeResults(run, planned, watched, durationMs);

  const kept = options.keep
    ? {
        ...(await keepReachable(dataDir, endpoint, outputs, planned.files[0]?.jobId ?? '')),
        stop: keep(),
      }
    : undefined;
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ ...summary, ...(kept === undefined ? {} : { kept }) }, null, 2)}\n`
      : `${formatSummary(summary)}${kept === undefined ? '' : formatKept(kept)}`,
  );
  return watched.rejected.size === 0 ? EXIT.ok : EXIT.failed;
}

function exitCodeOf(error: unknown, say: (line: string) => void): number {
  if (error instanceof Interrupted) {
    say('interrupted');
    return error.exitCode;
  }
  say(wordsOf(error, [SubmitError, StalledError]));
  return EXIT.failed;
}

/** Repeated signals change nothing: a terminal and npm both deliver the same Ctrl-C. */
function abortOnSignals(controller: AbortController): void {
  const codes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
  for (const [name, code] of Object.entries(codes))
    process.on(name, () => controller.abort(new Interrupted(code)));
  // The launcher is gone, however it ended.
  process.on('disconnect', () => controller.abort(new Interrupted(codes.SIGHUP)));
  process.channel?.unref();
}

async function main(): Promise<number> {
  const progress = progressOn(process.stderr, () => performance.now());
  let options: StartOptions | 'help';
  try {
    options = readOptions(process.argv.slice(2), {
      env: process.env,
      // Where npm was called, not where it went.
      cwd: process.env.INIT_CWD ?? process.cwd(),
      defaultOut: join(runs, stamp()),
    });
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    progress.say(error.message);
    return EXIT.usage;
  }
  if (options === 'help') {
    process.stdout.write(USAGE);
    return EXIT.ok;
  }

  const controller = new AbortController();
  abortOnSignals(controller);
  const cleanup: Cleanup = [];
  const run: Run = { options, progress, controller, cleanup };
  let code: number;
  try {
    code = await start(run);
  } catch (thrown) {
    progress.done();
    // What failed because of the end of something else says less than that end, and may be seen before it.
    const { signal } = controller;
    if (!signal.aborted && run.emulator !== undefined) await untilEndIsTold(run.emulator);
    code = exitCodeOf(signal.aborted ? signal.reason : thrown, progress.say);
    controller.abort();
  }
  for (const undo of cleanup.reverse()) await undo();
  return code;
}

process.exitCode = await main();
if (process.connected) process.disconnect();
