/**
 * How many no-op jobs one process schedules end to end over the memory adapters: stored, planned, reserved, claimed, sent,
 * received, started, finished, settled. No network, no disk: the scheduler's own work, beside which a real one waits for
 * its table. A backlog waits in front all the time; four types, 100 keys unless told otherwise, a fleet of 1,000 slots. The
 * dispatcher hears of each job that comes and of each that has ended, as from the stream.
 *
 * Then eight dispatchers share the partition, all of them woken by every change: how many of their claims are lost races.
 *
 * Each measurement has a process of its own: what one leaves behind in memory would slow the next. A third as many jobs go before those
 * that are counted, until most of the code is compiled.
 *
 * With `--calls`, how many functions are entered for each job, and in which files most of them: a count that does not depend on the
 * machine, where times do.
 *
 *   node bench/local.ts [--json] [--calls] [--jobs 200000] [--keys 100] [--backlog 20000]...
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { resolveConfiguration } from '../lib/core/defaults.ts';
import { isNotified, type Job } from '../lib/core/job.ts';
import { dispatch } from '../lib/dispatch/dispatch.ts';
import { DISPATCH_BUDGET } from '../lib/dispatch/tuning.ts';
import { MemoryJobQueue } from '../lib/queue/memory/queue.ts';
import type { Clock } from '../lib/runtime/contract.ts';
import { systemClock } from '../lib/runtime/system.ts';
import { MemoryJobStore } from '../lib/store/memory/store.ts';
import { jobFrom, jobIdOf } from '../lib/submit/request.ts';
import { rankOf, type SubmitContext, submit } from '../lib/submit/submit.ts';
import { createDeadlines } from '../lib/worker/attempt-host.ts';
import { runJob } from '../lib/worker/run-job.ts';
import { aDispatchContext } from '../test/fixtures/factories/dispatch-context.ts';
import { seeded } from '../test/simulation/random.ts';
import { countEntries } from './entered.ts';

const TYPES = ['thumbnail', 'resize', 'index', 'mail'];
const SLOTS = 1_000;
const SUBMIT_BATCH = 500;
const HIDE_MS = 60_000;
/** Of a round of passes and runs, and of a batch that is submitted. */
const STEP_MS = 25;
const BEGAN_MS = 1_764_000_000_000;
const RACERS = 8;
const RACE_JOBS = 20_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

interface World {
  readonly jobs: number;
  readonly backlog: number;
  readonly keys: number;
  readonly dispatchers: number;
}

interface Timing {
  readonly backlog: number;
  readonly jobs: number;
  readonly jobsPerSecond: number;
  /** What an otherwise idle machine would make of it: one thread does all the work. */
  readonly jobsPerCpuSecond: number;
  /** CPU microseconds of this process for each job. */
  readonly cpuUsPerJob: Readonly<Record<string, number>>;
  readonly dispatchers: number;
  /** Of all claims, those that were lost to another dispatcher's. */
  readonly lostClaims: number;
}

interface Calls {
  readonly backlog: number;
  readonly jobs: number;
  readonly callsPerJob: number;
  /** By file, most first. */
  readonly files: Readonly<Record<string, number>>;
}

/** Is called when the warm-up has ended, and what it answers when the measurement has, with how many jobs ended meanwhile. */
type Watch = () => Promise<(jobs: number) => Promise<void>>;

async function measure({ jobs, backlog, keys, dispatchers }: World, watch?: Watch): Promise<Timing> {
  const configuration = resolveConfiguration({
    types: Object.fromEntries(TYPES.map((type) => [type, { tier: 'standard', defaultCostMs: 10 }])),
    tiers: [{ tier: 'standard' }],
    fleets: { general: { types: TYPES, slots: SLOTS } },
  });
  const random = seeded(1);
  const after = (delayMs: number, action: () => void): void => {
    if (delayMs <= 0) queueMicrotask(action);
    else setTimeout(action, delayMs).unref();
  };
  // How often lines are read again depends on time. Where calls are counted, a step takes as long each time.
  let steppedMs = 0;
  const clock: Clock =
    watch === undefined
      ? systemClock
      : { ...systemClock, nowMs: () => BEGAN_MS + steppedMs, monotonicMs: () => steppedMs };
  const store = new MemoryJobStore({ clock: clock.nowMs, random, place: rankOf(configuration), after });
  const queue = new MemoryJobQueue({ clock: clock.nowMs, random, after });
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  const contexts = Array.from({ length: dispatchers }, (_, at) =>
    aDispatchContext({
      store,
      queue,
      configuration,
      clock,
      random,
      log,
      holder: `dispatcher-${at}`,
      budget: { ...DISPATCH_BUDGET, batchJobs: SLOTS / 4 },
    }),
  );
  let won = 0;
  let lost = 0;
  /** One of them has the images, the others only word that something has changed. */
  const dispatchAll = async (images: readonly Job[], turn: number): Promise<void> => {
    const reports = await Promise.all(
      contexts.map((context, at) =>
        at === turn % contexts.length
          ? dispatch(context, 0, { jobs: images, reason: 'stream' })
          : dispatch(context, 0, { jobs: [], reason: 'wake' }),
      ),
    );
    for (const { admitted, lostClaims } of reports) {
      won += admitted;
      lost += lostClaims;
    }
  };
  const submitter: SubmitContext = { store, configuration, nowMs: clock.nowMs, clock, announced: new Map() };
  let made = 0;
  const aJob = (): Job => {
    made += 1;
    const request = {
      type: TYPES[made % TYPES.length] ?? 'mail',
      payload: { order: made },
      priority: Math.floor(random() * 11),
      mode: 'queued',
      fairnessKey: `customer-${Math.floor(random() * keys)}`,
    } as const;
    return jobFrom(request, jobIdOf(`request-${made}`), 0, clock.nowMs());
  };
  const put = async (count: number): Promise<void> => {
    for (let left = count; left > 0; left -= SUBMIT_BATCH) {
      steppedMs += STEP_MS;
      await submit(submitter, Array.from({ length: Math.min(left, SUBMIT_BATCH) }, aJob));
    }
  };

  const phases = new Map<string, number>();
  const timed = async (phase: string, work: () => Promise<unknown>): Promise<void> => {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    phases.set(phase, (phases.get(phase) ?? 0) + user + system);
  };
  let told: Job[] = [];
  let succeeded = 0;
  store.subscribe(({ newJob }) => {
    if (!isNotified(newJob)) return;
    told.push(newJob);
    if (newJob.state === 'succeeded') succeeded += 1;
  });
  const handlers = Object.fromEntries(TYPES.map((type) => [type, () => null]));
  const worker = { workerId: 'worker', incarnation: '1' };
  const context = { store, configuration, clock, random, log, worker, deadlines: createDeadlines(clock) };
  let rounds = 0;
  const round = async (): Promise<number> => {
    rounds += 1;
    steppedMs += STEP_MS;
    const images = told;
    const before = succeeded;
    told = [];
    await timed('dispatch', () => dispatchAll(images, rounds));
    await timed('run', async () => {
      for (;;) {
        const received = await queue.receive('general', 10, 0, HIDE_MS);
        if (received.length === 0) return;
        await Promise.all(received.flatMap(({ jobs }) => jobs.map((job) => runJob(context, handlers, job))));
        await queue.delete(
          'general',
          received.map(({ receipt }) => receipt),
        );
      }
    });
    return succeeded - before;
  };

  await put(backlog);
  // The dispatcher finds the backlog there, and hears of what comes after it.
  told = [];
  for (let warm = 0; warm < jobs / 3; ) {
    const ended = await round();
    await put(ended);
    warm += ended;
  }
  // What preparing left behind is not the jobs' own.
  collectGarbage();
  phases.clear();
  const over = await watch?.();
  const startedMs = performance.now();
  let ended = 0;
  while (ended < jobs) {
    const ofRound = await round();
    ended += ofRound;
    await timed('submit', () => put(ofRound));
  }
  const tookMs = performance.now() - startedMs;
  await over?.(ended);
  const cpuUs = [...phases.values()].reduce((sum, us) => sum + us, 0);
  return {
    backlog,
    jobs: ended,
    jobsPerSecond: Math.round((1_000 * ended) / tookMs),
    jobsPerCpuSecond: Math.round((1_000_000 * ended) / cpuUs),
    cpuUsPerJob: Object.fromEntries(
      [...phases].map(([phase, us]) => [phase, Math.round((10 * us) / ended) / 10]),
    ),
    dispatchers,
    lostClaims: lost / (won + lost),
  };
}

const FILES_SHOWN = 20;

async function countCalls(world: World): Promise<Calls> {
  let calls: Calls | undefined;
  await measure(world, async () => {
    const entered = await countEntries();
    return async (ended) => {
      const files = (await entered()).map(
        ({ file, counts }) => [file, counts.reduce((sum, count) => sum + count, 0) / ended] as const,
      );
      const most = files.sort(([, one], [, other]) => other - one).slice(0, FILES_SHOWN);
      const callsPerJob = Math.round(files.reduce((sum, [, count]) => sum + count, 0));
      const rounded = most.map(([file, count]) => [file, Math.round(10 * count) / 10] as const);
      calls = { backlog: world.backlog, jobs: ended, callsPerJob, files: Object.fromEntries(rounded) };
    };
  });
  if (calls === undefined) throw new Error('nothing was counted');
  return calls;
}

/** Runs this file again for one measurement. */
function inOwnProcess<T = Timing>(kind: 'measure' | 'calls', ...numbers: readonly number[]): T {
  const command = [kind, ...numbers].map(String);
  const { stdout, status, stderr } = spawnSync(
    process.execPath,
    [...process.execArgv, fileURLToPath(import.meta.url), ...command],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`${command.join(' ')} failed: ${stderr}`);
  return JSON.parse(stdout) as T;
}

const [command, ...numbers] = process.argv.slice(2);
if (command === 'measure' || command === 'calls') {
  const [jobs = 0, backlog = 0, keys = 1, dispatchers = 1] = numbers.map(Number);
  const world = { jobs, backlog, keys, dispatchers };
  const figures = command === 'calls' ? await countCalls(world) : await measure(world);
  console.log(JSON.stringify(figures));
  process.exit(0);
}

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    calls: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '200000' },
    keys: { type: 'string', default: '100' },
    backlog: { type: 'string', multiple: true, default: ['20000', '200000', '1000000'] },
  },
});
const [jobs, keys] = [Number(values.jobs), Number(values.keys)];
if (values.calls) {
  const counted = values.backlog.map((backlog) => inOwnProcess<Calls>('calls', jobs, Number(backlog), keys));
  if (values.json) console.log(JSON.stringify({ label: 'functions entered for each job', counted }));
  for (const { backlog, callsPerJob, files } of values.json ? [] : counted) {
    console.log(`${backlog} waiting: ${callsPerJob} functions are entered for each job`);
    for (const [file, count] of Object.entries(files)) console.log(`${count.toFixed(1).padStart(7)} ${file}`);
  }
  process.exit(0);
}
const timings = values.backlog.map((backlog) => inOwnProcess('measure', jobs, Number(backlog), keys, 1));
const race = inOwnProcess('measure', RACE_JOBS, RACE_JOBS, keys, RACERS);
if (values.json) console.log(JSON.stringify({ label: 'memory adapters, no network', timings, race }));
else {
  console.log('memory adapters, no network');
  for (const { backlog, jobs, jobsPerSecond, jobsPerCpuSecond, cpuUsPerJob } of timings) {
    const parts = Object.entries(cpuUsPerJob).map(([phase, us]) => `${phase} ${us}`);
    console.log(
      `${backlog} waiting: ${jobsPerSecond} jobs a second over ${jobs}, ${jobsPerCpuSecond} a CPU second; CPU us per job: ${parts.join(', ')}`,
    );
  }
  const percent = (100 * race.lostClaims).toFixed(2);
  console.log(
    `${race.dispatchers} dispatchers of one partition: ${percent} % of their claims are lost races`,
  );
}
