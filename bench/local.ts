/**
 * How many no-op jobs one process schedules end to end over the memory adapters: stored, planned, reserved, claimed, sent,
 * received, started, finished, settled. No network, no disk: the scheduler's own work, beside which a real one waits for
 * its table. A backlog waits in front all the time; four types, 100 keys, a fleet of 1,000 slots.
 *
 *   node bench/local.ts [--json] [--jobs 60000] [--backlog 20000]...
 */
import { parseArgs } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { resolveConfiguration } from '../lib/core/defaults.ts';
import type { Job } from '../lib/core/job.ts';
import { DISPATCH_BUDGET, type DispatchContext } from '../lib/dispatch/context.ts';
import { dispatch } from '../lib/dispatch/dispatch.ts';
import { jobFrom, jobIdOf } from '../lib/dispatch/request.ts';
import { placeOf, type SubmitContext, submit } from '../lib/dispatch/submit.ts';
import { MemoryJobQueue } from '../lib/queue/memory/queue.ts';
import { systemClock } from '../lib/runtime/system.ts';
import { MemoryJobStore } from '../lib/store/memory/store.ts';
import { deadlinesBy } from '../lib/worker/deadlines.ts';
import { runJob } from '../lib/worker/run-job.ts';
import { seeded } from '../test/simulation/random.ts';

const TYPES = ['thumbnail', 'resize', 'index', 'mail'];
const KEYS = 100;
const SLOTS = 1_000;
const SUBMIT_BATCH = 500;
const HIDE_MS = 60_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

interface Timing {
  readonly backlog: number;
  readonly jobs: number;
  readonly jobsPerSecond: number;
  /** What an otherwise idle machine would make of it: one thread does all the work. */
  readonly jobsPerCpuSecond: number;
  /** CPU microseconds of this process for each job. */
  readonly cpuUsPerJob: Readonly<Record<string, number>>;
}

async function measure(jobs: number, backlog: number): Promise<Timing> {
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
  const clock = systemClock;
  const store = new MemoryJobStore({ clock: clock.nowMs, random, place: placeOf(configuration), after });
  const queue = new MemoryJobQueue({ clock: clock.nowMs, random, after });
  const log = { info: () => {}, warn: () => {} };
  const dispatcher: DispatchContext = {
    store,
    queue,
    configuration,
    clock,
    random,
    log,
    holder: 'dispatcher',
    budget: { ...DISPATCH_BUDGET, batchJobs: SLOTS / 4 },
    announced: new Map(),
    books: new Map(),
  };
  const submitter: SubmitContext = { store, configuration, nowMs: clock.nowMs, announced: new Map() };
  let made = 0;
  const aJob = (): Job => {
    made += 1;
    const request = {
      type: TYPES[made % TYPES.length] ?? 'mail',
      payload: { order: made },
      priority: Math.floor(random() * 11),
      mode: 'queued',
      fairnessKey: `customer-${Math.floor(random() * KEYS)}`,
    } as const;
    return jobFrom(request, jobIdOf(`request-${made}`), 0, clock.nowMs());
  };
  const put = async (count: number): Promise<void> => {
    for (let left = count; left > 0; left -= SUBMIT_BATCH) {
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
  let finished: Job[] = [];
  store.subscribe(({ newJob }) => {
    if (newJob.state === 'succeeded') finished.push(newJob);
  });
  const handlers = Object.fromEntries(TYPES.map((type) => [type, () => null]));
  const worker = { workerId: 'worker', incarnation: '1' };
  const context = { store, configuration, clock, random, log, worker, deadlines: deadlinesBy(clock) };
  const round = async (): Promise<number> => {
    const images = finished;
    finished = [];
    await timed('dispatch', () => dispatch(dispatcher, 0, { jobs: images, reason: 'stream' }));
    await timed('run', async () => {
      for (;;) {
        const received = await queue.receive('general', 10, 0, HIDE_MS);
        if (received.length === 0) return;
        await Promise.all(received.map(({ message }) => runJob(context, handlers, message)));
        await queue.delete(
          'general',
          received.map(({ receipt }) => receipt),
        );
      }
    });
    return finished.length;
  };

  await put(backlog);
  for (let warm = 0; warm < jobs / 3; ) {
    const ended = await round();
    await put(ended);
    warm += ended;
  }
  // What preparing left behind is not the jobs' own.
  collectGarbage();
  phases.clear();
  const startedMs = performance.now();
  let ended = 0;
  while (ended < jobs) {
    const ofRound = await round();
    ended += ofRound;
    await timed('submit', () => put(ofRound));
  }
  const tookMs = performance.now() - startedMs;
  const cpuUs = [...phases.values()].reduce((sum, us) => sum + us, 0);
  return {
    backlog,
    jobs: ended,
    jobsPerSecond: Math.round((1_000 * ended) / tookMs),
    jobsPerCpuSecond: Math.round((1_000_000 * ended) / cpuUs),
    cpuUsPerJob: Object.fromEntries(
      [...phases].map(([phase, us]) => [phase, Math.round((10 * us) / ended) / 10]),
    ),
  };
}

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '60000' },
    backlog: { type: 'string', multiple: true, default: ['20000', '200000', '1000000'] },
  },
});
const timings: Timing[] = [];
for (const backlog of values.backlog) timings.push(await measure(Number(values.jobs), Number(backlog)));
if (values.json) console.log(JSON.stringify({ label: 'memory adapters, no network', timings }));
else {
  console.log('memory adapters, no network');
  for (const { backlog, jobs, jobsPerSecond, jobsPerCpuSecond, cpuUsPerJob } of timings) {
    const parts = Object.entries(cpuUsPerJob).map(([phase, us]) => `${phase} ${us}`);
    console.log(
      `${backlog} waiting: ${jobsPerSecond} jobs a second over ${jobs}, ${jobsPerCpuSecond} a CPU second; CPU us per job: ${parts.join(', ')}`,
    );
  }
}
process.exit(0);
