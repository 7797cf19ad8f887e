/**
 * The whole way of a job, on real files: deploys the stack, puts events on its bus, follows the jobs to their end, and says what
 * they came to.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Job } from '../../lib/core/job.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { keepNewest } from '../../lib/testing/log-files.ts';
import { clientsOf, receiveOutcomes } from '../endpoint.ts';
import { formatKept, keepReachable } from '../kept.ts';
import { OUTPUT_FOLDERS } from '../options.ts';
import { deployStack, outputOf, type Run, reachEndpoint } from '../run.ts';
import { type Plan, plan } from './input.ts';
import { manifestOf } from './manifest.ts';
import { packRequests, putRequests } from './requests.ts';
import { writeSamples } from './samples.ts';
import { formatSummary, type Summary, summaryOf } from './summary.ts';
import { type Watched, watch } from './watch.ts';

/** Results of runs that named no folder for them; the newest are kept. */
const RUNS_KEPT = 5;

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

/** Returns whether every file's request became a job. */
export async function workThroughFiles(run: Run): Promise<boolean> {
  const { options, dataDir, progress, controller } = run;
  const { signal } = controller;
  await prepareOutput(options.out);
  await keepNewest(join(dataDir, 'runs'), '', RUNS_KEPT);
  const planned = await plan({
    input: options.input ?? (await writeSamples(join(dataDir, 'samples'))),
    dataDir,
    out: options.out,
    run: randomUUID(),
    signal,
  });
  progress.say(`${planned.files.length} files to work on; results go to ${options.out}`);

  const { endpoint, keep } = await reachEndpoint(run);
  const { outputs } = await deployStack(run, endpoint, 'examples/files/stack.ts');
  const { watched, durationMs } = await runJobs(run, endpoint, outputs, planned);
  const summary = await writeResults(run, planned, watched, durationMs);

  const jobId = planned.files[0]?.jobId ?? '';
  const looks = ['fleets', `jobs get ${jobId}`, `jobs history ${jobId}`];
  const kept = options.keep
    ? { ...(await keepReachable(dataDir, endpoint, outputs, looks)), stop: keep() }
    : undefined;
  process.stdout.write(
    options.json
      ? `${JSON.stringify({ ...summary, ...(kept === undefined ? {} : { kept }) }, null, 2)}\n`
      : `${formatSummary(summary)}${kept === undefined ? '' : formatKept(kept)}`,
  );
  return watched.rejected.size === 0;
}
