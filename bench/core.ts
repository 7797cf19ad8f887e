/**
 * How many decisions a second the scheduling core makes: one slot frees, one job is chosen; then as many jobs
 * arrive as have started, timed apart, so that the backlog stays as large as it is. Everything on: 3 tiers with caps, weights, caps per type and key, learned costs
 * trued up, on-demand jobs, a tenth of the jobs in conflict groups. Beside it, in the same run, what scoring and
 * sorting the whole backlog for each decision makes.
 *
 * Rates are by the clock on the wall; beside them stand decisions for each second of the thread's own processor time,
 * which other work on the machine disturbs less. Ratios are taken from those.
 *
 * Each measurement has a process of its own: what one leaves behind in memory would slow the next.
 *
 *   node bench/core.ts [--json] [--quick]
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { JobTypeConfiguration, PoolConfiguration } from '../lib/core/configuration.ts';
import { FAIRNESS_DEFAULTS, RETRY_DEFAULTS, SCORE_DEFAULTS, TYPE_DEFAULTS } from '../lib/core/defaults.ts';
import type { WaitingJob } from '../lib/core/job.ts';
import { Scheduler } from '../lib/core/scheduler.ts';
import { score } from '../lib/core/score.ts';

const SLOTS = 200;
const START_MS = 1_800_000_000_000;
const TIERS = ['foreground', 'normal', 'background'];
const TYPES_OF_TIER = 3;

/** A small generator with a seed (mulberry32), so that every run sees the same jobs. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

function configurationFor(keys: number): PoolConfiguration {
  const types: JobTypeConfiguration[] = TIERS.flatMap((tier) =>
    Array.from({ length: TYPES_OF_TIER }, (_, index) => ({
      ...TYPE_DEFAULTS,
      type: `${tier}-${index}`,
      tier,
      maxConcurrency: 45,
      conflictGroup: 'resource',
      defaultCostMs: 1_000 + 250 * index,
      retry: RETRY_DEFAULTS,
    })),
  );
  const names = types.map((type) => type.type);
  return {
    types,
    tiers: [
      { tier: 'foreground', maxConcurrency: 100, guaranteed: 0 },
      { tier: 'normal', maxConcurrency: 80, guaranteed: 20 },
      { tier: 'background', maxConcurrency: 60, guaranteed: 10 },
    ],
    fleets: [
      { fleet: 'all', types: names, slots: SLOTS / 2 },
      ...TIERS.map((tier) => ({
        fleet: tier,
        types: names.filter((name) => name.startsWith(tier)),
        slots: Math.floor(SLOTS / 6),
      })),
      { fleet: 'rest', types: names.slice(0, 2), slots: SLOTS / 2 - 3 * Math.floor(SLOTS / 6) },
    ],
    maxConcurrency: SLOTS,
    score: SCORE_DEFAULTS,
    fairness: {
      ...FAIRNESS_DEFAULTS,
      weights: Object.fromEntries(
        Array.from({ length: Math.min(keys, 1_000) }, (_, key) => [`key-${key}`, 1 + (key % 4)]),
      ),
      maxConcurrencyPerKey: Math.max(4, Math.ceil((3 * SLOTS) / keys)),
    },
    partitions: 1,
  };
}

/** Jobs without end: the types' mix, priorities, modes and conflicts are drawn evenly. */
function jobSource(configuration: PoolConfiguration, keys: number, random: () => number) {
  let count = 0;
  return (nowMs: number): WaitingJob => {
    count += 1;
    const type = configuration.types[Math.floor(random() * configuration.types.length)];
    return {
      id: `job-${count.toString(36).padStart(8, '0')}`,
      type: type?.type ?? '',
      priority: Math.floor(random() * 11),
      mode: random() < 0.2 ? 'onDemand' : 'queued',
      fairnessKey: `key-${Math.floor(random() * keys)}`,
      resourceId: random() < 0.1 ? `r-${Math.floor(random() * 5_000)}` : undefined,
      readyAtMs: nowMs,
      version: 1,
      attempt: 1,
    };
  };
}

interface World {
  readonly scheduler: Scheduler;
  readonly nextJob: (nowMs: number) => WaitingJob;
  readonly random: () => number;
  /** Tickets of the jobs that run. */
  readonly running: number[];
  nowMs: number;
}

function fill(backlog: number, keys: number, seed = 1): World {
  const configuration = configurationFor(keys);
  const random = randomFrom(seed);
  const scheduler = new Scheduler(configuration);
  const nextJob = jobSource(configuration, keys, random);
  let nowMs = START_MS;
  for (let index = 0; index < backlog; index += 1) {
    nowMs += 1;
    scheduler.arrive(nextJob(nowMs), nowMs);
  }
  const world: World = { scheduler, nextJob, random, running: [], nowMs };
  start(world);
  return world;
}

// Fills the slots that are free.
function start(world: World): void {
  world.scheduler.beginPass(world.nowMs);
  for (let next = world.scheduler.next(); next !== undefined; next = world.scheduler.next()) {
    world.running.push(next.ticket);
    world.scheduler.arrive(world.nextJob(world.nowMs), world.nowMs);
  }
}

interface Rates {
  readonly decisionsPerSec: number;
  readonly decisionsPerCpuSec: number;
  readonly arrivalsPerSec: number;
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

/** Makes decisions for about the given time, in rounds after which as many jobs arrive as have started. */
function decide(world: World, forMs: number): Rates {
  const { scheduler, running, random } = world;
  const steps = Math.max(20, Math.min(5_000, Math.floor(scheduler.waiting / 20)));
  let decisions = 0;
  let decidingMs = 0;
  let decidingCpuMs = 0;
  let arrivingMs = 0;
  while (decidingMs < forMs) {
    const before = decisions;
    const startCpuMs = cpuMs();
    let startMs = performance.now();
    for (let step = 0; step < steps; step += 1) {
      world.nowMs += 5;
      const which = Math.floor(random() * running.length);
      const usedMs = 200 + random() * 2_000;
      scheduler.settleTicket(running[which] as number, { nowMs: world.nowMs, usedMs, succeeded: true });
      scheduler.beginPass(world.nowMs);
      const decision = scheduler.next();
      // A slot that nothing fits stays free until another job ends: then two may start.
      if (decision === undefined) {
        running[which] = running.at(-1) as number;
        running.pop();
        continue;
      }
      running[which] = decision.ticket;
      decisions += 1;
      while (running.length < SLOTS) {
        const another = scheduler.next();
        if (another === undefined) break;
        running.push(another.ticket);
        decisions += 1;
      }
    }
    decidingMs += performance.now() - startMs;
    decidingCpuMs += cpuMs() - startCpuMs;
    const arriving = Array.from({ length: decisions - before }, () => world.nextJob(world.nowMs));
    startMs = performance.now();
    for (const job of arriving) scheduler.arrive(job, world.nowMs);
    arrivingMs += performance.now() - startMs;
  }
  return {
    decisionsPerSec: (decisions / decidingMs) * 1_000,
    decisionsPerCpuSec: (decisions / decidingCpuMs) * 1_000,
    arrivalsPerSec: (decisions / arrivingMs) * 1_000,
  };
}

/** The baseline: every decision scores and sorts all that waits, and takes the first that may start. */
function decideBySorting(backlog: number, keys: number, forMs: number): number {
  const configuration = configurationFor(keys);
  const random = randomFrom(1);
  const nextJob = jobSource(configuration, keys, random);
  let nowMs = START_MS;
  const waiting: WaitingJob[] = [];
  for (; nowMs < START_MS + backlog; nowMs += 1) waiting.push(nextJob(nowMs));
  const types = new Map(configuration.types.map((type) => [type.type, type]));
  const tierOf = new Map(configuration.tiers.map((tier, index) => [tier.tier, index]));
  const cost = new Map<string, number>();
  const running: WaitingJob[] = [];
  const count = (matches: (job: WaitingJob) => boolean): number => running.filter(matches).length;
  const pick = (): WaitingJob | undefined => {
    const scored = waiting.map((job, index) => ({
      job,
      index,
      tier: tierOf.get(types.get(job.type)?.tier ?? '') ?? 0,
      share: (cost.get(job.fairnessKey) ?? 0) / (configuration.fairness.weights[job.fairnessKey] ?? 1),
      score: score(job, nowMs, SLOTS - running.length, configuration.score),
    }));
    scored.sort(
      (a, b) =>
        a.tier - b.tier ||
        a.share - b.share ||
        b.score - a.score ||
        a.job.readyAtMs - b.job.readyAtMs ||
        (a.job.id < b.job.id ? -1 : 1),
    );
    for (const { job, index } of scored) {
      const type = types.get(job.type);
      const tier = configuration.tiers.find((candidate) => candidate.tier === type?.tier);
      if (count((other) => other.type === job.type) >= (type?.maxConcurrency ?? 0)) continue;
      if (count((other) => types.get(other.type)?.tier === tier?.tier) >= (tier?.maxConcurrency ?? 0))
        continue;
      if (
        count((other) => other.fairnessKey === job.fairnessKey) >=
        (configuration.fairness.maxConcurrencyPerKey ?? 0)
      ) {
        continue;
      }
      if (job.resourceId !== undefined && running.some((other) => other.resourceId === job.resourceId))
        continue;
      waiting[index] = nextJob(nowMs);
      cost.set(job.fairnessKey, (cost.get(job.fairnessKey) ?? 0) + (type?.defaultCostMs ?? 0));
      return job;
    }
    return undefined;
  };
  // The first jobs run without being timed, and without being sorted for.
  for (let index = 0; index < SLOTS; index += 1) running.push(nextJob(nowMs));
  let decisions = 0;
  const startMs = performance.now();
  let elapsedMs = 0;
  while (elapsedMs < forMs) {
    nowMs += 5;
    running.splice(Math.floor(random() * running.length), 1);
    const job = pick();
    if (job !== undefined) running.push(job);
    decisions += 1;
    elapsedMs = performance.now() - startMs;
  }
  return (decisions / elapsedMs) * 1_000;
}

interface Blocked {
  readonly decisionsPerCpuSec: number;
  /** By how much the others are slower with the blocked jobs than without, as a part of 1: the median over rounds. */
  readonly slowdown: number;
}

/**
 * 10,000 of the oldest and most urgent jobs, of 1,000 keys, want one conflict key: what that costs the others.
 * `held`: by a job that runs all the time. `passedOn`: from each of them to the next, as they start and end.
 */
function blocked(kind: 'held' | 'passedOn', rounds: number): Blocked {
  const [without, withBlocked] = [0, 10_000].map((count) => {
    // As many jobs wait in both: what a longer backlog costs is not what is asked for.
    const world = fill(110_000 - count, 1_000);
    const block = { ...world.nextJob(START_MS - 1_000_000), resourceId: 'the-one', priority: 10 };
    if (kind === 'held') {
      const place = { tier: 'foreground', fleet: 'none', estimatedCostMs: 1_000 };
      world.scheduler.hold({ ...block, ...place, id: 'holder', conflictKey: 'resource/the-one' }, START_MS);
    }
    for (let index = 0; index < count; index += 1) {
      const fairnessKey = `key-${index % 1_000}`;
      const type = `foreground-${index % TYPES_OF_TIER}`;
      // One after another, like all other jobs: among equals in every respect, ids would have to be compared.
      const readyAtMs = block.readyAtMs + index;
      world.scheduler.arrive({ ...block, id: `blocked-${index}`, fairnessKey, type, readyAtMs }, world.nowMs);
    }
    decide(world, 1_000);
    return world;
  });
  if (without === undefined || withBlocked === undefined) throw new Error('there are two worlds');
  const rates = Array.from({ length: rounds }, () => ({
    without: decide(without, 200).decisionsPerCpuSec,
    withBlocked: decide(withBlocked, 200).decisionsPerCpuSec,
  }));
  return {
    decisionsPerCpuSec: median(rates.map((rate) => rate.withBlocked)),
    slowdown: median(rates.map((rate) => rate.without / rate.withBlocked)) - 1,
  };
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

function memoryBytes(): number {
  collect();
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

interface Result {
  readonly backlog: number;
  readonly keys: number;
  readonly decisionsPerSec: number;
  readonly decisionsPerCpuSec: number;
  readonly arrivalsPerSec: number;
  readonly sortingPerSec: number;
  /** The job itself included; null for backlogs that are too small to tell. */
  readonly bytesPerJob: number | null;
}

function measure(backlog: number, keys: number, forMs: number): Result {
  const before = memoryBytes();
  const world = fill(backlog, keys);
  // Below that, the code and its feedback weigh more than the jobs.
  const bytesPerJob = backlog < 100_000 ? null : (memoryBytes() - before) / world.scheduler.waiting;
  decide(world, 1_500);
  return {
    backlog,
    keys,
    ...decide(world, forMs),
    sortingPerSec: decideBySorting(backlog, keys, Math.min(forMs, 500)),
    bytesPerJob,
  };
}

/** Runs this file again for one measurement. Answers what it printed. */
function inOwnProcess<Answer>(...command: readonly string[]): Answer {
  const { stdout, status, stderr } = spawnSync(
    process.execPath,
    [fileURLToPath(import.meta.url), ...command],
    { encoding: 'utf8' },
  );
  if (status !== 0) throw new Error(`the measurement ${command.join(' ')} failed: ${stderr}`);
  return JSON.parse(stdout);
}

function main(): void {
  const json = process.argv.includes('--json');
  const quick = process.argv.includes('--quick');
  // The whole heap is collected every few seconds: what that costs should fall into the time in proportion.
  const forMs = quick ? 200 : 3_000;
  const say = (line: string): void => {
    if (!json) console.log(line);
  };
  const format = (rate: number): string =>
    rate >= 100 ? Math.round(rate).toLocaleString('en-US') : rate.toPrecision(2);
  const results: Result[] = [];
  const row = (...cells: readonly string[]): void => {
    say(cells.map((cell) => cell.padStart(12)).join(''));
  };
  say('one slot frees, one job is chosen: decisions a second');
  row('backlog', 'keys', 'wall', 'cpu', 'by sorting', 'arrivals', 'bytes/job');
  for (const keys of [10, 1_000, 10_000]) {
    for (const backlog of [1_000, 10_000, 100_000, 1_000_000]) {
      const result = inOwnProcess<Result>('measure', String(backlog), String(keys), String(forMs));
      results.push(result);
      row(
        String(backlog),
        String(keys),
        format(result.decisionsPerSec),
        format(result.decisionsPerCpuSec),
        format(result.sortingPerSec),
        format(result.arrivalsPerSec),
        result.bytesPerJob?.toFixed(0) ?? '',
      );
    }
  }
  const rounds = quick ? '5' : '21';
  const parked = {
    held: inOwnProcess<Blocked>('blocked', 'held', rounds),
    passedOn: inOwnProcess<Blocked>('blocked', 'passedOn', rounds),
  };
  for (const [kind, { decisionsPerCpuSec, slowdown }] of Object.entries(parked)) {
    const percent = `${Math.abs(slowdown * 100).toFixed(1)} % ${slowdown < 0 ? 'faster' : 'slower'}`;
    say(
      `10,000 jobs blocked on one conflict key that is ${kind}: ${format(decisionsPerCpuSec)} a second of processor time, ${percent} than without them`,
    );
  }
  const growth = [10, 1_000, 10_000].map((keys) => {
    const rate = (backlog: number): number =>
      results.find((result) => result.keys === keys && result.backlog === backlog)?.decisionsPerCpuSec ?? 0;
    return { keys, times: rate(1_000) / rate(1_000_000) };
  });
  for (const { keys, times } of growth) {
    say(`1k to 1M jobs at ${keys} keys: a decision takes ${times.toFixed(2)} times as long`);
  }
  if (json) console.log(JSON.stringify({ results, growth, blocked: parked }, undefined, 2));
}

const [command, first, second, third] = process.argv.slice(2);
if (command === 'measure') {
  console.log(JSON.stringify(measure(Number(first), Number(second), Number(third))));
} else if (command === 'blocked') {
  console.log(JSON.stringify(blocked(first === 'held' ? 'held' : 'passedOn', Number(second))));
} else {
  main();
}
