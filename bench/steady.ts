/**
 * What a pass costs where a wall of jobs may not start: 10,000 keys that are at their caps, or 100,000 jobs that wait for one
 * conflict key. Counted over the memory adapters, which bill what a table would: a tick of a dispatcher that remembers, a tick
 * of one that has just started, and the pass after a job ended that lets the next of them start.
 *
 *   node bench/steady.ts [--json]
 */
import { parseArgs } from 'node:util';
import { resolveConfiguration } from '../lib/core/defaults.ts';
import type { Job, MovingJob } from '../lib/core/job.ts';
import type { PoolInput } from '../lib/core/pool-input.ts';
import { dispatchAll, type WakeTrigger } from '../lib/dispatch/dispatch.ts';
import type { DispatchContext } from '../lib/dispatch/partition/context.ts';
import { VirtualTime } from '../lib/local/virtual-time.ts';
import { MemoryJobQueue } from '../lib/queue/memory/queue.ts';
import { MemoryJobStore } from '../lib/store/memory/store.ts';
import { jobFrom, jobIdOf } from '../lib/submit/request.ts';
import { rankOf, submit } from '../lib/submit/submit.ts';
import { aDispatchContext } from '../test/fixtures/factories/dispatch-context.ts';
import { seeded } from '../test/simulation/random.ts';
import { toldJobs } from '../test/testing/received.ts';
import { createCostMeter } from './metering/meter.ts';

const START_MS = 1_800_000_000_000;
const HIDE_MS = 60_000;
const KEPT_MS = 3_600_000;
const PUT_BATCH = 1_000;
const ROUNDS = 20;
/** A pass that writes less moves nothing. */
const STILL_UNITS = 10;
const WORKER = { workerId: 'worker', incarnation: '1' };

interface Wall {
  readonly pool: PoolInput;
  readonly jobs: number;
  readonly of: (number: number) => { readonly fairnessKey: string; readonly resourceId?: string };
}

const KEYS = 10_000;
/** Nothing that runs ends by itself. */
const LONG_MS = 12 * 3_600_000;
const TYPE = { timeoutMs: LONG_MS, conflictGroup: 'album' };
const WALLS: Readonly<Record<string, Wall>> = {
  '10,000 keys at their caps': {
    pool: {
      types: { resize: TYPE },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: KEYS + 100 } },
      fairness: { maxConcurrencyPerKey: 1 },
    },
    jobs: 3 * KEYS,
    of: (number) => ({ fairnessKey: `customer-${number % KEYS}` }),
  },
  '100,000 jobs of one conflict key': {
    pool: {
      types: { resize: TYPE },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 100 } },
    },
    jobs: 100_000,
    of: (number) => ({ fairnessKey: `customer-${number % 50}`, resourceId: 'one' }),
  },
};

const SITUATIONS = ['warm tick', 'cold tick', 'after an end'] as const;

interface Cost {
  readonly writeUnits: number;
  readonly readUnits: number;
  readonly requests: number;
}

async function measure({ pool, jobs, of }: Wall): Promise<Record<(typeof SITUATIONS)[number], Cost>> {
  const configuration = resolveConfiguration(pool);
  const time = new VirtualTime(START_MS);
  const random = seeded(1);
  const clock = time.clock();
  const place = rankOf(configuration);
  const store = new MemoryJobStore({ clock: clock.nowMs, random, after: time.after, place });
  const queue = new MemoryJobQueue({ clock: clock.nowMs, random, after: time.after });
  const dispatcher = (): DispatchContext => aDispatchContext({ store, queue, configuration, clock, random });
  const warm = dispatcher();
  const done = async <T>(work: Promise<T>): Promise<T> => {
    let isOver = false;
    void work.finally(() => {
      isOver = true;
    });
    await time.run({ untilMs: time.nowMs + 3_600_000, isOver: () => isOver });
    return work;
  };
  const pass = (context: DispatchContext, trigger: Partial<WakeTrigger> = {}): Promise<unknown> =>
    done(dispatchAll(context, { jobs: [], reason: 'tick', ...trigger }));
  const submitter = { store, configuration, nowMs: clock.nowMs, clock, announced: new Map<string, number>() };
  for (let made = 0; made < jobs; made += PUT_BATCH) {
    const batch = Array.from({ length: Math.min(PUT_BATCH, jobs - made) }, (_, at) =>
      jobFrom(
        { type: 'resize', payload: null, priority: 0, mode: 'queued', ...of(made + at) },
        jobIdOf(`request-${made + at}`),
        0,
        time.nowMs,
      ),
    );
    await done(submit(submitter, batch));
  }
  const running: Job[] = [];
  const startAll = async (): Promise<number> => {
    const before = running.length;
    for (;;) {
      const received = await queue.receive('images', 10, 0, HIDE_MS);
      if (received.length === 0) return running.length - before;
      for (const { message, receipt } of toldJobs(received)) {
        const outcome = await store.startJob({
          ...WORKER,
          ...message,
          nowMs: time.nowMs,
          runUntilMs: START_MS + LONG_MS,
        });
        if (outcome.kind === 'started') running.push(outcome.job);
        await queue.delete('images', [receipt]);
      }
    }
  };
  // Until nothing starts any more, and what may not start is where it waits.
  for (let isMoving = true; isMoving; ) {
    const meter = createCostMeter();
    store.meter = meter.store;
    await pass(warm);
    store.meter = undefined;
    isMoving = (await startAll()) > 0 || meter.report(1).writeUnitsPerJob > STILL_UNITS;
    await time.run({ untilMs: time.nowMs + 10_000 });
  }

  const costOf = async (
    each: () => Promise<unknown>,
    around: { readonly before?: () => Promise<void>; readonly after?: () => Promise<void> } = {},
  ): Promise<Cost> => {
    let total: Cost = { writeUnits: 0, readUnits: 0, requests: 0 };
    for (let round = 0; round < ROUNDS; round += 1) {
      const meter = createCostMeter();
      await around.before?.();
      store.meter = meter.store;
      await each();
      store.meter = undefined;
      await around.after?.();
      const { writeUnitsPerJob, readUnitsPerJob, byVerb } = meter.report(1);
      total = {
        writeUnits: total.writeUnits + writeUnitsPerJob / ROUNDS,
        readUnits: total.readUnits + readUnitsPerJob / ROUNDS,
        requests:
          total.requests +
          Object.values(byVerb).reduce((sum, { storeRequests }) => sum + storeRequests, 0) / ROUNDS,
      };
      await time.run({ untilMs: time.nowMs + 1_000 });
    }
    return total;
  };
  const warmTick = await costOf(() => pass(warm));
  const coldTick = await costOf(() => pass(dispatcher()));
  await pass(warm);
  let started = 0;
  const ended: MovingJob[] = [];
  const afterAnEnd = await costOf(() => pass(warm, { jobs: ended.splice(0), reason: 'stream' }), {
    before: async () => {
      const [job] = running.splice(0, 1);
      if (job === undefined) throw new Error('nothing runs');
      const nowMs = time.nowMs;
      const verdict = { kind: 'succeeded', result: null } as const;
      const outcome = await store.finishJob({ ...WORKER, job, verdict, nowMs, expiresAtMs: nowMs + KEPT_MS });
      if (outcome.kind !== 'finished') throw new Error(`${job.id} was taken away`);
      ended.push(outcome.job);
    },
    after: async () => {
      started += await startAll();
    },
  });
  if (started < ROUNDS) console.error(`only ${started} of ${ROUNDS} jobs that might have started did`);
  return { 'warm tick': warmTick, 'cold tick': coldTick, 'after an end': afterAnEnd };
}

const { values } = parseArgs({ options: { json: { type: 'boolean', default: false } } });
for (const [wall, described] of Object.entries(WALLS)) {
  const costs = await measure(described);
  if (values.json) console.log(JSON.stringify({ wall, ...costs }));
  else {
    console.log(`${wall}; write units, read units, requests of a pass:`);
    for (const situation of SITUATIONS) {
      const { writeUnits, readUnits, requests } = costs[situation];
      const cells = [writeUnits, readUnits, requests].map((cell) => cell.toFixed(1).padStart(12)).join('');
      console.log(`  ${situation.padEnd(14)}${cells}`);
    }
  }
}
process.exit(0);
