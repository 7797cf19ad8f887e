/** Runs a row, and the idle month, and says what they cost and how long jobs waited. */
import { z } from 'zod';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Json } from '../../lib/core/job.ts';
import type { RateInput } from '../../lib/core/pool-input.ts';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';
import { seeded } from '../../test/simulation/random.ts';
import { type Bill, billOf, MONTH_HOURS, totalOf } from './bill.ts';
import type { PollerModel } from './deployment.ts';
import { IDLE_POOL } from './pools.ts';
import { MANY_KEYS, type RowScale, type RowSpec, scaleOf } from './rows.ts';
import { TABLES } from './throttle.ts';
import { between, times, type Usage, type UsageMeter } from './usage.ts';
import { type Asked, CloudWorld } from './world.ts';

/** What a row came to. */
export interface Row extends RowSpec {
  readonly jobsPerSecond: number;
  readonly dollarsPerMillionJobs: number;
  /** For a million jobs. */
  readonly bill: Bill;
  readonly writeUnitsPerJob: number;
  readonly readUnitsPerJob: number;
  /** From the request to the handler's first line, first attempts only. */
  readonly startMs: { readonly p50: number; readonly p99: number };
}

export interface Idle {
  readonly dollarsPerMonth: number;
  readonly bill: Bill;
}

/** What a run knows beside its row. */
export interface Measured {
  readonly row: Row;
  /** All that was used in the window. */
  readonly usage: Usage;
  readonly jobs: number;
  readonly failures: ReadonlyMap<string, number>;
  /** What was used, by line and source, for each job. */
  readonly sources: ReadonlyMap<string, number>;
  /** Each metric with its dimensions that the run has told. */
  readonly metrics: ReadonlySet<string>;
}

export interface MeasureOptions {
  readonly seed: number;
  readonly pollers: PollerModel;
  /** Who runs the jobs. @default 'functions' */
  readonly workers?: WorkerKind | undefined;
  /** Whether clients tell dispatchers of jobs while they store them. @default true */
  readonly isPrompt?: boolean | undefined;
  /** Processes that submit with the client. @default - a few */
  readonly producers?: number | undefined;
  /** Jobs that one invocation of a worker takes, as `batchSize` of a fleet says. @default - the construct's */
  readonly batchSize?: number | undefined;
  /** Other than the row's own. */
  readonly scale?: Partial<RowScale> | undefined;
  /** Hears how far the run is, from 0 to 1. */
  readonly onProgress?: ((share: number) => void) | undefined;
}

export const WORKER_KINDS = ['functions', 'processes'] as const;
export type WorkerKind = (typeof WORKER_KINDS)[number];

/** Of a worker process. */
const PROCESS_SLOTS = 50;

const TYPES = ['thumbnail', 'resize', 'index'];
/** The same types, with schemas of their payloads and results. */
const TYPED = defineJobs(
  Object.fromEntries(
    TYPES.map((type) => [
      type,
      job({
        payload: z.looseObject({ at: z.number(), failsOnce: z.boolean(), pad: z.string() }),
        result: z.null(),
      }),
    ]),
  ),
);
const RESOURCES = 50;
const CONFLICTS = 0.05;
const RETRIES = 0.01;
const JOBS_OF_EVENT = 10;
const MILLION = 1_000_000;
const HOUR_MS = 3_600_000;
const RESIDENTS = 2;
const STEPS = 3;
const PROGRESS_PARTS = 20;
/** Of an order in a payload. */
const LINE_BYTES_MAX = 110;

interface Payload {
  readonly at: number;
  readonly failsOnce: boolean;
}

/**
 * JSON of so many bytes: an order and its lines, as long as there is room for them, which gzip brings to a quarter of 4 KB, and a
 * sixth of 64 KB; below that, text.
 */
function payloadOf(at: number, failsOnce: boolean, bytes: number): Json {
  const random = seeded(at);
  const pick = (from: readonly string[]): string => from[Math.floor(random() * from.length)] ?? '';
  const lines: Json[] = [];
  const bare = { at, failsOnce, lines, pad: '' };
  for (let left = bytes - JSON.stringify(bare).length - LINE_BYTES_MAX; left > 0; ) {
    const line = {
      sku: Math.floor(random() * 2 ** 40).toString(16),
      name: `${pick(['small', 'large', 'blue', 'red', 'oak'])} ${pick(['chair', 'lamp', 'table', 'shelf'])}`,
      quantity: 1 + Math.floor(random() * 9),
      priceCents: Math.floor(random() * 100_000),
      warehouse: pick(['ams-1', 'fra-2', 'dub-1']),
    };
    lines.push(line);
    left -= JSON.stringify(line).length + 1;
  }
  return { ...bare, pad: 'x'.repeat(Math.max(0, bytes - JSON.stringify(bare).length)) };
}

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));

/** The least value that so many of a hundred do not exceed. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? 0;
}

/** By option: a rate that all types share, with room for what starts. */
const RATES: Partial<Record<RowSpec['adds'], RateInput>> = {
  rate: { starts: 10_000, per: '1m' },
  keyRate: { perKey: 2_000, per: '1m' },
  units: { units: 1_000_000, perJob: 100, per: '1m' },
};

export async function measureRow(spec: RowSpec, options: MeasureOptions): Promise<Measured> {
  const scale = { ...scaleOf(spec), ...options.scale };
  const { slots, jobMs, jobsPerSecond, backlog, warmUpMs, windowMs, limits } = scale;
  const hasProcesses = options.workers === 'processes';
  const random = seeded(options.seed ^ 0x9e3779b9);
  const rate = RATES[spec.adds];
  const configuration = resolveConfiguration({
    ...(rate === undefined ? {} : { limits: { provider: { rate } } }),
    types: Object.fromEntries(
      TYPES.map((type) => [
        type,
        {
          defaultCostMs: jobMs,
          conflictGroup: 'catalogue',
          timeoutMs: 30_000,
          retry: { maxAttempts: 3, delayMs: 1_000 },
          listFinished: spec.adds === 'lists',
          ...(spec.adds === 'expires' ? { expireAfter: '1h' } : {}),
          ...(rate === undefined ? {} : { limits: ['provider'] }),
        },
      ]),
    ),
    tiers: [{ tier: 'standard' }],
    fleets: {
      general: {
        types: TYPES,
        ...(hasProcesses ? { slots: null } : { slots, batchSize: options.batchSize }),
      },
    },
    partitions: spec.partitions,
    statistics: spec.adds === 'statistics',
    ...(spec.adds === 'searchable' ? { searchableTags: ['order'] } : {}),
  });
  const askedAtMs = new Map<number, number>();
  const startMs: number[] = [];
  let isCounting = false;
  let made = 0;
  let ended = 0;
  let onEnded = (): void => {};
  const world = new CloudWorld({
    configuration,
    jobs: spec.adds === 'typed' ? TYPED : undefined,
    seed: options.seed,
    limits,
    pollers: options.pollers,
    shards: spec.shards,
    residents: spec.dispatchers === 'residents' ? RESIDENTS : 0,
    processes: hasProcesses
      ? { count: Math.ceil(slots / PROCESS_SLOTS), slots: Math.min(slots, PROCESS_SLOTS) }
      : undefined,
    isBusUsed: spec.path !== 'client',
    isPrompt: options.isPrompt,
    producers: options.producers,
    areFleetsUsed: true,
    handler: (payload, attempt) => ({
      takesMs: jobMs,
      fails: (payload as unknown as Payload).failsOnce && attempt === 1,
      steps: spec.adds === 'steps' ? STEPS : 0,
    }),
    onStarted: (payload, attempt) => {
      const { at } = payload as unknown as Payload;
      const sinceMs = askedAtMs.get(at);
      if (sinceMs === undefined || attempt > 1) return;
      askedAtMs.delete(at);
      if (isCounting) startMs.push(world.time.nowMs - sinceMs);
    },
    onEnded: () => {
      ended += 1;
      onEnded();
    },
  });
  const { time, meter } = world;

  const make = (): Asked => {
    made += 1;
    const isConflicting = random() < CONFLICTS;
    return {
      type: TYPES[Math.floor(random() * TYPES.length)] ?? 'index',
      payload: payloadOf(made, random() < RETRIES, spec.payloadBytes),
      priority: Math.floor(random() * 11),
      fairnessKey: `customer-${Math.floor(random() * spec.keys)}`,
      ...(spec.adds === 'tags' || spec.adds === 'searchable'
        ? { tags: { order: `order-${made}`, customer: 'acme' } }
        : {}),
      ...(spec.adds === 'units' ? { units: { provider: 1 + (made % 100) } } : {}),
      ...(spec.adds === 'dedupe'
        ? { dedupe: { key: `order-${made}`, keep: 'first', whileRunning: 'another' } as const }
        : {}),
      ...(isConflicting ? { resourceId: `resource-${Math.floor(random() * RESOURCES)}` } : {}),
    };
  };
  const jobsOfEvent = spec.path === 'bus10' ? JOBS_OF_EVENT : 1;
  const ask = (): void => {
    const asked = Array.from({ length: jobsOfEvent }, make);
    for (const { payload } of asked) askedAtMs.set((payload as unknown as Payload).at, time.nowMs);
    if (spec.path === 'client') for (const each of asked) world.submit(each);
    else world.publish(asked);
  };

  const waiting: Asked[] = [];
  const startedMs = time.nowMs;
  for (let left = backlog; left > 0; left -= 1) waiting.push(make());
  await world.preload(waiting);
  for (let at = 1; at <= made; at += 1) askedAtMs.set(at, startedMs);
  waiting.length = 0;
  if (spec.keys >= MANY_KEYS && spec.load !== '1/s') {
    // Few keys' lines are all announced while the run warms up; of many, producers would go on for minutes.
    const each = Array.from({ length: spec.keys }, (_, at) => `customer-${at}`);
    await world.rehearse(
      each.flatMap((fairnessKey) => TYPES.map((type) => ({ type, payload: null, priority: 0, fairnessKey }))),
    );
  }
  world.start();
  if (jobsPerSecond === undefined) {
    world.wakeAll();
    let owed = 0;
    onEnded = () => {
      owed += 1;
      if (owed < jobsOfEvent) return;
      owed = 0;
      ask();
    };
  } else {
    // Requests of many who know nothing of each other.
    const meanMs = (1_000 * jobsOfEvent) / jobsPerSecond;
    const next = (): void =>
      time.after(-Math.log(1 - random()) * meanMs, () => {
        ask();
        next();
      });
    next();
  }

  const totalMs = warmUpMs + windowMs;
  const runUntil = async (untilMs: number): Promise<void> => {
    while (time.nowMs < untilMs) {
      await time.run({ untilMs: Math.min(untilMs, time.nowMs + totalMs / PROGRESS_PARTS) });
      options.onProgress?.((time.nowMs - startedMs) / totalMs);
    }
  };
  await runUntil(startedMs + warmUpMs);
  isCounting = true;
  const before = { usage: meter.now(), sources: meter.sources(), ended };
  await runUntil(startedMs + totalMs);
  const usage = between(before.usage, { ...meter.now(), metricHours: metricHours(meter, windowMs) });
  const jobs = ended - before.ended;

  const bill = billOf(times(usage, MILLION / Math.max(1, jobs)));
  const row: Row = {
    ...spec,
    jobsPerSecond: rounded((1_000 * jobs) / windowMs, 2),
    dollarsPerMillionJobs: rounded(totalOf(bill), 3),
    bill: roundedBill(bill, 4),
    writeUnitsPerJob: rounded(usage.writeUnits / Math.max(1, jobs), 3),
    readUnitsPerJob: rounded(usage.readUnits / Math.max(1, jobs), 3),
    startMs: {
      p50: Math.round(percentile(startMs, 0.5)),
      p99: Math.round(percentile(startMs, 0.99)),
    },
  };
  const sources = new Map(
    Array.from(meter.sources(), ([name, amount]): [string, number] => [
      name,
      (amount - (before.sources.get(name) ?? 0)) / Math.max(1, jobs),
    ]),
  );
  return { row, usage, jobs, failures: world.failures, sources, metrics: meter.metrics };
}

/** Whatever a run has told, warm-up included, is told again in each hour: gauges come once a minute, and a window may be shorter. */
const metricHours = (meter: UsageMeter, windowMs: number): number =>
  meter.metrics.size * (windowMs / HOUR_MS);

const roundedBill = (bill: Bill, digits: number): Bill =>
  Object.fromEntries(Object.entries(bill).map(([line, dollars]) => [line, rounded(dollars, digits)])) as Bill;

const IDLE_HOURS = 0.5;

/** A month in which nothing happens, from half an hour of it. */
export async function measureIdle(options: Pick<MeasureOptions, 'seed' | 'pollers'>): Promise<Idle> {
  const names = Array.from({ length: IDLE_POOL.types }, (_, at) => `type-${at}`);
  const fleets = Array.from({ length: IDLE_POOL.fleets }, (_, at) => at);
  const world = new CloudWorld({
    configuration: resolveConfiguration({
      types: Object.fromEntries(names.map((type) => [type, {}])),
      fleets: Object.fromEntries(
        fleets.map((at) => [
          `fleet-${at}`,
          { types: names.filter((_, name) => name % IDLE_POOL.fleets === at), slots: 10 },
        ]),
      ),
    }),
    seed: options.seed,
    limits: TABLES.new,
    pollers: options.pollers,
    shards: 1,
    residents: 0,
    isBusUsed: false,
    areFleetsUsed: false,
    handler: () => ({ takesMs: 0, fails: false, steps: 0 }),
  });
  world.start();
  // The first tick meets a cold function.
  await world.time.run({ untilMs: world.time.nowMs + (IDLE_HOURS * HOUR_MS) / 2 });
  const before = world.meter.now();
  await world.time.run({ untilMs: world.time.nowMs + IDLE_HOURS * HOUR_MS });
  const after = { ...world.meter.now(), metricHours: metricHours(world.meter, IDLE_HOURS * HOUR_MS) };
  const bill = billOf(times(between(before, after), MONTH_HOURS / IDLE_HOURS));
  return { dollarsPerMonth: rounded(totalOf(bill), 4), bill: roundedBill(bill, 5) };
}
