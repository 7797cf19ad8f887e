/** The story of `npm start`: what Fairlead is for, on a scheduler that is deployed to an emulator. */
import { type ChildProcess, spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { environmentIn } from '../../lib/cli/env.ts';
import { waitsForText } from '../../lib/cli/explanation.ts';
import { historyText } from '../../lib/cli/views.ts';
import { type Job, SchedulerClient, type SubmitRequest } from '../../lib/client/aws.ts';
import { emulatorEnvironment } from '../../lib/testing/environment.ts';
import { newLogFile } from '../../lib/testing/log-files.ts';
import { clientsOf, receiveOutcomes } from '../endpoint.ts';
import { StalledError } from '../failures.ts';
import { keepReachable, quoted } from '../kept.ts';
import { deployStack, outputOf, type Run, reachEndpoint } from '../run.ts';
import { PAGES, SLOTS, TENANTS, type Tenant } from './pool.ts';
import { type Screen, screenOn, wrapped } from './screen.ts';

const LOOK_EVERY_MS = 150;
const GIVE_UP_MS = 120_000;
const EXPORTERS = ['exporter-1', 'exporter-2'] as const;
/** A supervisor takes its time, and the other worker is there. */
const RESTART_MS = 3_000;
/** Pages that are exported before the worker is killed. */
const PAGES_BEFORE = 2;
/** noisy is paused after so many of its jobs, or after so long. */
const DONE_BEFORE_PAUSE = 50;
const PAUSE_AFTER_MS = 6_000;
const OPERATOR = 'you';

interface Stage {
  readonly run: Run;
  readonly screen: Screen;
  readonly client: SchedulerClient;
  readonly exporters: ReadonlyMap<string, ChildProcess>;
  /** Jobs that have ended, by tenant. */
  readonly done: Map<Tenant, number>;
  readonly startedAtMs: number;
}

/** Looks again and again until there is something to see. */
async function seen<T>({ run }: Stage, what: string, look: () => Promise<T | undefined>): Promise<T> {
  const { signal } = run.controller;
  const giveUpAtMs = performance.now() + GIVE_UP_MS;
  while (performance.now() < giveUpAtMs) {
    const found = await look();
    if (found !== undefined) return found;
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
  throw new StalledError(`nothing has come of it for ${GIVE_UP_MS / 1_000} s: ${what}`);
}

const reached = (stage: Stage, jobId: string, what: string, is: (job: Job) => boolean): Promise<Job> =>
  seen(stage, what, async () => {
    const job = await stage.client.get(jobId);
    return is(job) ? job : undefined;
  });

/** A line with the time since the jobs were sent. */
function tell({ screen, startedAtMs }: Stage, text: string): void {
  const at = `${((performance.now() - startedAtMs) / 1_000).toFixed(1)} s`.padStart(6);
  screen.say(`\n${at}  ${wrapped(text, ' '.repeat(8)).trimStart()}`);
}

const shown = ({ screen }: Stage, text: string): void => screen.say(wrapped(`        ${text}`));

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

/** Processes of the fleet `exporters`, which a supervisor starts again, and which end with this one. */
async function startExporters(run: Run, env: Readonly<Record<string, string>>): Promise<Stage['exporters']> {
  const log = await open(await newLogFile(run.dataDir, 'exporters'), 'a');
  const running = new Map<string, ChildProcess>();
  let isOver = false;
  const start = (name: string): void => {
    const child = spawn(process.execPath, [EXPORTER, name], {
      env: { ...process.env, ...env, FAIRLEAD_FLEET: 'exporters' },
      stdio: ['ignore', log.fd, log.fd],
    });
    running.set(name, child);
    child.once('close', () => {
      if (isOver) return;
      setTimeout(() => isOver || start(name), RESTART_MS).unref();
    });
  };
  const end = (): void => {
    isOver = true;
    for (const child of running.values()) child.kill('SIGKILL');
  };
  process.once('exit', end);
  run.cleanup.push(async () => {
    end();
    await log.close();
  });
  for (const name of EXPORTERS) start(name);
  return running;
}

const EXPORTER = `${import.meta.dirname}/exporter.ts`;

interface Sent {
  readonly tenantOf: ReadonlyMap<string, Tenant>;
  readonly quiet: string;
  readonly report: string;
  readonly exports: readonly [string, string];
}

/** Eight in the morning of the next day. */
function tomorrow(): Date {
  const date = new Date();
  date.setUTCDate(date.getUTCDate() + 1);
  date.setUTCHours(8, 0, 0, 0);
  return date;
}

async function submitAll(client: SchedulerClient): Promise<Sent> {
  const renders = TENANTS.flatMap(({ key, jobs }) =>
    Array.from({ length: jobs }, (): SubmitRequest & { readonly fairnessKey: Tenant } => ({
      type: 'render',
      fairnessKey: key,
    })),
  );
  const album = { type: 'export', fairnessKey: 'gold', resourceId: 'album-7' };
  const [first, second] = [await client.submit(album), await client.submit(album)];
  const report = await client.submit({ type: 'render', fairnessKey: 'quiet', runAt: tomorrow() });
  const tenantOf = new Map<string, Tenant>();
  let quiet = '';
  for (const [at, entry] of (await client.submitMany(renders)).entries()) {
    if (entry.kind !== 'accepted') throw entry.error;
    const { fairnessKey } = renders[at] as { readonly fairnessKey: Tenant };
    tenantOf.set(entry.jobId, fairnessKey);
    if (fairnessKey === 'quiet') quiet = entry.jobId;
  }
  return { tenantOf, quiet, report: report.jobId, exports: [first.jobId, second.jobId] };
}

/** Counts ends as the bus tells of them, until the signal. */
async function count(
  { done, screen }: Stage,
  { tenantOf }: Sent,
  receive: () => Promise<Awaited<ReturnType<typeof receiveOutcomes>>>,
  signal: AbortSignal,
): Promise<void> {
  const open = new Map(tenantOf);
  while (!signal.aborted) {
    for (const outcome of await receive()) {
      const tenant = outcome.kind === 'ended' ? open.get(outcome.jobId) : undefined;
      if (outcome.kind !== 'ended' || tenant === undefined) continue;
      open.delete(outcome.jobId);
      done.set(tenant, (done.get(tenant) ?? 0) + 1);
    }
    screen.draw(
      TENANTS.map(({ key, weight, jobs }) => ({ name: key, weight, done: done.get(key) ?? 0, of: jobs })),
    );
  }
}

async function showFairness(stage: Stage, { quiet }: Sent): Promise<void> {
  const { startedAtMs = 0, submittedAtMs } = await reached(
    stage,
    quiet,
    "quiet's job starts",
    (job) => job.startedAtMs !== undefined,
  );
  const waited = seconds(startedAtMs - submittedAtMs);
  tell(
    stage,
    `quiet's only job started ${waited} after it was sent. ${TENANTS[0].jobs - (stage.done.get('noisy') ?? 0)} jobs of noisy, which came first, are not done yet. gold gets four times noisy's share.`,
  );
}

async function showConflict(stage: Stage, [first, second]: Sent['exports']): Promise<Job> {
  const running = await reached(stage, first, 'an export starts', ({ state }) => state === 'running');
  tell(stage, 'Two exports of album-7 were sent. The first one runs. Why does the second one wait?');
  const explanation = await seen(stage, 'the second export is explained', async () => {
    const found = await stage.client.explain(second);
    return found.waitsFor.some(({ why }) => why === 'conflict') ? found : undefined;
  });
  shown(stage, `$ fairlead jobs explain ${second}`);
  for (const waits of explanation.waitsFor)
    if (waits.why === 'conflict') shown(stage, `it waits for ${waitsForText(waits, explanation)}`);
  return running;
}

async function killWorker(stage: Stage, [first]: Sent['exports']): Promise<void> {
  const { client, exporters } = stage;
  const job = await seen(stage, 'the export has made pages', async () => {
    const now = await client.get(first);
    return pageOf(now) >= PAGES_BEFORE ? now : undefined;
  });
  const workerId = job.worker?.workerId ?? '';
  const exporter = exporters.get(workerId);
  exporter?.kill('SIGKILL');
  tell(
    stage,
    `The first export has made ${pageOf(job)} of ${PAGES} pages. Its worker, ${workerId}, is killed:`,
  );
  shown(stage, `$ kill -9 ${exporter?.pid}`);
}

const pageOf = ({ checkpoint }: Job): number =>
  (checkpoint as { readonly page: number } | undefined)?.page ?? 0;

async function retimeReport(stage: Stage, { report }: Sent): Promise<void> {
  const { client } = stage;
  const { runAtMs } = await client.get(report);
  tell(stage, `A report of quiet is due at ${new Date(runAtMs).toISOString()}. It is wanted now:`);
  shown(stage, `$ fairlead jobs retime ${report} --in 0s`);
  const atMs = Date.now();
  await client.retime(report, { runAt: new Date(atMs) }, { actor: OPERATOR });
  const { startedAtMs = 0 } = await reached(
    stage,
    report,
    'the report starts',
    (job) => job.startedAtMs !== undefined,
  );
  shown(stage, `it started ${seconds(startedAtMs - atMs)} later`);
}

async function pauseNoisy(stage: Stage): Promise<void> {
  const from = performance.now();
  // The lost worker's lease takes longer than this.
  await seen(stage, 'noisy gets its share', async () =>
    (stage.done.get('noisy') ?? 0) >= DONE_BEFORE_PAUSE || performance.now() - from > PAUSE_AFTER_MS
      ? true
      : undefined,
  );
  await stage.client.pause({ fairnessKey: 'noisy' }, { actor: OPERATOR, reason: 'npm start' });
  tell(stage, 'An operator pauses noisy. Its jobs that run go on, and no other one starts:');
  shown(stage, '$ fairlead pause --key noisy');
}

async function showRecovery(stage: Stage, [first, second]: Sent['exports']): Promise<void> {
  const again = await reached(
    stage,
    first,
    'the export goes on',
    ({ workersLost, state }) => workersLost > 0 && (state === 'running' || state === 'succeeded'),
  );
  tell(
    stage,
    `The worker's lease has ended. ${again.worker?.workerId ?? 'Another worker'} goes on with the first export after page ${pageOf(again)}.`,
  );
  await reached(stage, first, 'the export ends', ({ state }) => state === 'succeeded');
  await reached(
    stage,
    second,
    'the other export starts',
    ({ state }) => state === 'running' || state === 'succeeded',
  );
  const { job, runs } = await stage.client.explain(second);
  tell(stage, 'The first export is done, and album-7 is free:');
  shown(stage, `$ fairlead jobs explain ${second}`);
  shown(
    stage,
    `job is ${job.state}${runs === undefined ? '' : ` on ${runs.workerId} of fleet ${runs.fleet}`}`,
  );
}

async function showHistory(stage: Stage, [first]: Sent['exports']): Promise<void> {
  tell(stage, 'The whole history of the first export:');
  shown(stage, `$ fairlead jobs history ${first}`);
  const text = historyText(await stage.client.history(first));
  // The day is known.
  for (const line of text
    .replaceAll(/\d{4}-\d\d-\d\dT([\d:]{8})\.\d{3}Z/g, '$1')
    .split('\n')
    .slice(1))
    shown(stage, line);
}

const LOOKS = ['keys', 'jobs list --state pending', 'resume --key noisy', 'fleets', 'jobs submit render'];

async function showWayOn(
  screen: Screen,
  kept: Awaited<ReturnType<typeof keepReachable>>,
  stop: string | undefined,
): Promise<void> {
  screen.say(
    [
      stop === undefined
        ? '\nThe emulator ends now. npm start -- --keep leaves it running. Then try:'
        : `\nThe stack is left running at ${kept.endpoint}. Try:`,
      ...kept.commands.map((command) => `  ${command}`),
      'and deploy an app of your own there, in its folder:',
      `  set -a; . ${quoted(kept.envFile)}; set +a`,
      '  npx cdk deploy --all --require-approval never',
      ...(stop === undefined ? [] : [`To stop it: ${stop}`]),
    ].join('\n'),
  );
}

/** Returns true once all of it has been seen. */
export async function tellStory(run: Run): Promise<boolean> {
  const { dataDir, options, controller, cleanup } = run;
  const { signal } = controller;
  const { endpoint, keep } = await reachEndpoint(run);
  const { outputs } = await deployStack(run, endpoint, 'examples/story/stack.ts');
  const env = { ...emulatorEnvironment(endpoint), ...environmentIn('the example', outputs, undefined) };
  const exporters = await startExporters(run, env);
  const aws = clientsOf(endpoint);
  cleanup.push(aws.destroy);
  const { region, credentials } = aws.settings;
  const client = new SchedulerClient({
    endpoint,
    region,
    credentials,
    table: outputOf(outputs, 'TableName'),
    wakeQueueUrl: outputOf(outputs, 'WakeQueueUrl'),
  });
  cleanup.push(() => client.destroy());

  const screen = screenOn(process.stdout);
  screen.say(INTRODUCTION);
  const startedAtMs = performance.now();
  const stage: Stage = { run, screen, client, exporters, done: new Map(), startedAtMs };
  const sent = await submitAll(client);
  const over = new AbortController();
  const queueUrl = outputOf(outputs, 'EndedQueueUrl');
  const counting = count(
    stage,
    sent,
    () => receiveOutcomes(aws.queue, queueUrl, AbortSignal.any([signal, over.signal])),
    over.signal,
  );
  counting.catch(() => {});
  try {
    await showFairness(stage, sent);
    await showConflict(stage, sent.exports);
    await killWorker(stage, sent.exports);
    await retimeReport(stage, sent);
    await pauseNoisy(stage);
    await showRecovery(stage, sent.exports);
    await showHistory(stage, sent.exports);
  } finally {
    over.abort();
    await counting.catch(() => {});
    screen.end();
  }
  const kept = await keepReachable(dataDir, endpoint, outputs, LOOKS);
  await showWayOn(screen, kept, options.keep ? keep() : undefined);
  return true;
}

const INTRODUCTION = `
${wrapped(
  `Fairlead decides which of many tenants' jobs runs next. Three tenants share ${SLOTS} slots: noisy sends ${TENANTS[0].jobs} jobs, then gold, whose weight is ${TENANTS[1].weight}, sends ${TENANTS[1].jobs}, and then quiet sends 1.`,
)}`;
