/**
 * What a job costs: 10,000 jobs through the submit use case, the real dispatch and worker code over the memory adapters,
 * which bill what a table and a queue would. Three types on one fleet of 200 slots, 50 keys, 5 % of the jobs in conflict
 * groups, 1 % of them tried again, all guarantees on, one second of virtual time for each job. Dispatch is invoked as
 * Lambda polls a stream: four times a second, with up to 100 records; workers take up to 10 messages.
 *
 *   node bench/cost.ts [--json] [--jobs 10000] [--backlog 1000]
 */
import { parseArgs } from 'node:util';
import { resolveConfiguration } from '../lib/core/defaults.ts';
import type { Job } from '../lib/core/job.ts';
import { dispatchAll, type WakeTrigger } from '../lib/dispatch/dispatch.ts';
import { VirtualTime } from '../lib/local/virtual-time.ts';
import { MemoryJobQueue } from '../lib/queue/memory/queue.ts';
import type { Log } from '../lib/runtime/contract.ts';
import { MemoryJobStore } from '../lib/store/memory/store.ts';
import { jobFrom, jobIdOf } from '../lib/submit/request.ts';
import { rankOf, type SubmitContext, submit } from '../lib/submit/submit.ts';
import { runJob } from '../lib/worker/run-job.ts';
import { aDispatchContext } from '../test/fixtures/factories/dispatch-context.ts';
import { seeded } from '../test/simulation/random.ts';
import { type CostReport, createCostMeter, meteredQueue, PHASES } from './metering/meter.ts';

const START_MS = 1_800_000_000_000;
const TYPES = ['thumbnail', 'resize', 'index'];
const KEYS = 50;
const RESOURCES = 50;
const SLOTS = 200;
const JOB_MS = 1_000;
const CONFLICTS = 0.05;
const RETRIES = 0.01;
const SUBMIT_BATCH = 25;
const SUBMIT_EVERY_MS = (JOB_MS * SUBMIT_BATCH) / SLOTS;
const STREAM_EVERY_MS = 250;
const STREAM_BATCH_MAX = 100;
const WORKER_BATCH = 10;
const HIDE_MS = 120_000;
const FUNCTION_MS = 60_000;
const PRELOAD_BATCH = 1_000;
const TICK_MS = 60_000;

const silent: Log['info'] = () => {};

async function measure(jobs: number, backlog: number): Promise<CostReport> {
  const configuration = resolveConfiguration({
    types: Object.fromEntries(
      TYPES.map((type) => [
        type,
        {
          tier: 'standard',
          defaultCostMs: JOB_MS,
          conflictGroup: 'catalogue',
          timeoutMs: 10_000,
          retry: { maxAttempts: 3, delayMs: 1_000 },
        },
      ]),
    ),
    tiers: [{ tier: 'standard' }],
    fleets: { general: { types: TYPES, slots: SLOTS } },
  });
  const time = new VirtualTime(START_MS);
  const random = seeded(1);
  const store = new MemoryJobStore({
    clock: () => time.nowMs,
    random,
    after: time.after,
    place: rankOf(configuration),
  });
  const meter = createCostMeter();
  const queue = new MemoryJobQueue({ clock: () => time.nowMs, random, after: time.after });
  const metered = meteredQueue(queue, meter);
  const clock = time.clock();
  const tell: Log['warn'] = (message, fields) => console.error(message, fields);
  const log: Log = { info: silent, warn: tell, error: tell };
  const dispatcher = aDispatchContext({ store, queue: metered, configuration, clock, random, log });
  const submitter: SubmitContext = { store, configuration, nowMs: clock.nowMs, clock, announced: new Map() };

  let made = 0;
  let ended = 0;
  const aJob = (): Job => {
    made += 1;
    const type = TYPES[Math.floor(random() * TYPES.length)] ?? 'thumbnail';
    const isConflicting = random() < CONFLICTS;
    const request = {
      type,
      payload: { order: made, failsOnce: random() < RETRIES },
      priority: Math.floor(random() * 11),
      mode: 'queued',
      fairnessKey: `customer-${Math.floor(random() * KEYS)}`,
      ...(isConflicting ? { resourceId: `resource-${Math.floor(random() * RESOURCES)}` } : {}),
    } as const;
    return jobFrom(request, jobIdOf(`request-${made}`), 0, time.nowMs);
  };
  for (let left = backlog; left > 0; left -= PRELOAD_BATCH) {
    await submit(submitter, Array.from({ length: Math.min(left, PRELOAD_BATCH) }, aJob));
  }

  store.meter = meter.store;
  const isOver = (): boolean => ended >= jobs;
  let isDispatching = false;
  const dispatchNow = async (trigger: WakeTrigger): Promise<void> => {
    meter.invoked('dispatch');
    await dispatchAll(dispatcher, trigger);
  };

  const stream: Job[] = [];
  store.subscribe(({ newJob }) => {
    if (newJob.state === 'claimed' || newJob.state === 'running') return;
    if (newJob.state !== 'pending' && newJob.state !== 'scheduled') ended += 1;
    stream.push(newJob);
  });
  const poll = async (): Promise<void> => {
    time.after(STREAM_EVERY_MS, () => void poll());
    if (isDispatching) return;
    isDispatching = true;
    while (stream.length > 0 && !isOver()) {
      await dispatchNow({ jobs: stream.splice(0, STREAM_BATCH_MAX), reason: 'stream' });
    }
    isDispatching = false;
  };
  queue.onWake(() => void dispatchNow({ jobs: [], reason: 'wake' }));
  const tick = (): void => {
    time.after(TICK_MS, tick);
    void dispatchNow({ jobs: [], reason: 'tick' });
  };

  const handler = async (payload: unknown, { attempt }: { readonly attempt: number }): Promise<null> => {
    await time.sleep(JOB_MS);
    if ((payload as { failsOnce: boolean }).failsOnce && attempt === 1) throw new Error('once');
    return null;
  };
  const handlers = Object.fromEntries(TYPES.map((type) => [type, handler]));
  let invocations = 0;
  const work = async (): Promise<void> => {
    for (;;) {
      const received = await metered.receive('general', WORKER_BATCH, 20_000, HIDE_MS);
      if (received.length === 0) continue;
      meter.invoked('start');
      invocations += 1;
      const worker = { workerId: 'worker', incarnation: String(invocations) };
      const deadlineMonotonicMs = clock.monotonicMs() + FUNCTION_MS;
      const context = { store, configuration, clock, random, log, worker, deadlineMonotonicMs };
      await Promise.all(received.flatMap(({ jobs }) => jobs.map((job) => runJob(context, handlers, job))));
      await metered.delete(
        'general',
        received.map(({ receipt }) => receipt),
      );
    }
  };
  let asked = 0;
  const produce = async (): Promise<void> => {
    if (asked >= jobs) return;
    asked += SUBMIT_BATCH;
    time.after(SUBMIT_EVERY_MS, () => void produce());
    await submit(submitter, Array.from({ length: SUBMIT_BATCH }, aJob));
  };
  for (let poller = 0; poller < SLOTS / WORKER_BATCH; poller += 1) void work();
  void produce();
  void poll();
  tick();
  await time.run({ untilMs: START_MS + 24 * 3_600_000, isOver });
  return meter.report(ended);
}

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    jobs: { type: 'string', default: '10000' },
    backlog: { type: 'string', default: '1000' },
  },
});
const report = await measure(Number(values.jobs), Number(values.backlog));
if (values.json) console.log(JSON.stringify({ backlog: Number(values.backlog), ...report }));
else {
  const row = (name: string, ...cells: readonly number[]): void =>
    console.log(`${name.padEnd(18)}${cells.map((cell) => cell.toFixed(3).padStart(12)).join('')}`);
  console.log(
    `memory adapters, no network; ${report.jobs} jobs before a backlog of ${values.backlog}; each:`,
  );
  console.log(
    `${''.padEnd(18)}${['write units', 'read units', 'queue', 'calls'].map((name) => name.padStart(12)).join('')}`,
  );
  for (const phase of PHASES) {
    const { writeUnits, readUnits, queueRequests, invocations } = report.byPhase[phase];
    row(phase, writeUnits, readUnits, queueRequests, invocations);
  }
  row(
    'all',
    report.writeUnitsPerJob,
    report.readUnitsPerJob,
    report.queueRequestsPerJob,
    report.invocationsPerJob,
  );
  console.log(`$${report.dollarsPerMillionJobs.toFixed(2)} per million jobs\n`);
  for (const [verb, { writeUnits, readUnits, queueRequests, invocations }] of Object.entries(report.byVerb)) {
    row(verb, writeUnits, readUnits, queueRequests, invocations);
  }
}
process.exit(0);
