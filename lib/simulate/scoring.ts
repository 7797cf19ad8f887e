/** Runs the cases of the format `scoring` on the core's score, slots and scheduler. */

import type { PoolConfiguration } from '../core/configuration.ts';
import { resolveConfiguration, SCORE_DEFAULTS } from '../core/defaults.ts';
import { ValidationError } from '../core/errors.ts';
import type { WaitingJob } from '../core/job.ts';
import { Scheduler } from '../core/scheduler.ts';
import { score } from '../core/score.ts';
import { Ends, type Run } from './fairness.ts';
import { SlotPool } from './model/slot-pool.ts';
import { namesInOrder, orderedNames } from './order-ids.ts';
import type { ScoredSlot, ScoringCase, StreamJob } from './reference-scenarios.ts';
import { type AnyId, compareIds, refuseDuplicates } from './scenario-file.ts';

type Input<Kind extends ScoringCase['kind']> = Extract<ScoringCase, { kind: Kind }>['input'];

/** The latest crossover that is searched for, in seconds. */
const LAST_CROSSOVER_SEC = 20_000;

/**
 * Runs a case.
 * @throws ValidationError with a path that begins with `path`, the case's, for errors that the schemas cannot find.
 */
export function simulateScoring(
  scenario: ScoringCase,
  path: string,
): { readonly result: Readonly<Record<string, unknown>>; readonly runs: readonly Run[] } {
  switch (scenario.kind) {
    case 'score':
      return withoutRuns(scoreCase(scenario.input));
    case 'crossover':
      return withoutRuns(crossover(scenario.input));
    case 'slot':
      return withoutRuns(slot(scenario.input, path));
    case 'pool':
      return withoutRuns(pool(scenario.input, path));
    case 'pass':
      return withoutRuns(pass(scenario.input, path));
    case 'stream':
      return stream(scenario.input, path);
  }
}

function withoutRuns(result: Readonly<Record<string, unknown>>): ReturnType<typeof simulateScoring> {
  return { result, runs: [] };
}

function scoreCase(input: Input<'score'>): { readonly score: number } {
  return { score: points(input.priority, input.onDemand, input.ageMs, input.compatibleFreeSlots) };
}

function points(priority: number, onDemand: boolean, ageMs: number, compatible: number): number {
  const job = { priority, mode: onDemand ? ('onDemand' as const) : ('queued' as const), readyAtMs: 0 };
  return score(job, ageMs, compatible, SCORE_DEFAULTS);
}

type Contender = Input<'crossover'>['a'];

/** Returns the first whole second at which a's score equals b's, and the first at which it exceeds it. */
function crossover({ a, b, mode }: Input<'crossover'>): {
  readonly tieAtSec: number | null;
  readonly firstStrictSec: number | null;
} {
  const at = (one: Contender, ageSec: number): number =>
    points(one.priority, one.onDemand, ageSec * 1000, one.compatible);
  let tieAtSec: number | null = null;
  for (let second = 0; second <= LAST_CROSSOVER_SEC; second += 1) {
    const own = at(a, second + (a.ageSec ?? 0));
    const other = at(b, (b.ageSec ?? 0) + (mode === 'together' ? second : 0));
    if (own === other) tieAtSec ??= second;
    if (own > other) return { tieAtSec, firstStrictSec: second };
  }
  return { tieAtSec, firstStrictSec: null };
}

function slot(input: Input<'slot'>, path: string): { readonly slot: number | null } {
  refuseDuplicates(
    input.slots.map(({ id }) => id),
    `${path}.input.slots`,
    'id',
  );
  const busy = new Set(input.busy);
  const slots = new SlotPool();
  slots.register('worker', withTextTypes(input.slots.filter(({ id }) => !busy.has(id))));
  return { slot: slots.choose(String(input.type)) ?? null };
}

function withTextTypes(
  slots: readonly ScoredSlot[],
): { readonly id: number; readonly types: readonly string[] }[] {
  return slots.map(({ id, types }) => ({ id, types: types.map(String) }));
}

function pool(input: Input<'pool'>, path: string): { readonly after: readonly unknown[] } {
  const slots = new SlotPool();
  const used = new Set<number>();
  return {
    after: input.ops.map((op, index) => {
      if (op.op === 'register') refuseUsedSlots(used, op.slots, `${path}.input.ops[${index}].slots`);
      const outcome = operate(slots, op);
      return {
        ...outcome,
        freeByType: Object.fromEntries(slots.freeByType()),
        freeSlots: slots.freeSlots(),
        totalSlots: slots.size,
      };
    }),
  };
}

function operate(slots: SlotPool, op: Input<'pool'>['ops'][number]): Readonly<Record<string, unknown>> {
  switch (op.op) {
    case 'register':
      slots.register(op.worker, withTextTypes(op.slots));
      return {};
    case 'unregister':
      slots.unregister(op.worker);
      return {};
    case 'acquire':
      return { slot: slots.acquire(String(op.type)) ?? null };
    case 'release':
      return { changed: slots.release(op.slot) };
  }
}

function refuseUsedSlots(used: Set<number>, slots: readonly ScoredSlot[], path: string): void {
  slots.forEach(({ id }, index) => {
    if (used.has(id)) throw new ValidationError(`${path}[${index}].id`, `slot ${id} was registered before`);
    used.add(id);
  });
}

/**
 * Returns a scheduler for the reference text: each slot is a fleet of its own, in the order of the ids. All jobs share
 * one tier and one fairness key, so only the score decides the order.
 */
function schedulerFor(slots: readonly ScoredSlot[], types: Iterable<AnyId>): Scheduler {
  const base = resolveConfiguration({ types: { none: {} } });
  const names = new Set([...slots.flatMap((one) => one.types), ...types].map(String));
  const configuration: PoolConfiguration = {
    ...base,
    types: [...names].map((type) => ({ ...(base.types[0] as PoolConfiguration['types'][number]), type })),
    fleets: slots
      .toSorted((one, other) => one.id - other.id)
      .map(({ id, types: own }) => ({ fleet: String(id), types: own.map(String), slots: 1 })),
  };
  return new Scheduler(configuration, { explains: false });
}

function waitingJob(
  id: string,
  type: AnyId,
  priority: number,
  onDemand: boolean,
  readyAtMs: number,
): WaitingJob {
  return {
    id,
    type: String(type),
    priority,
    mode: onDemand ? 'onDemand' : 'queued',
    fairnessKey: '',
    readyAtMs,
    version: 1,
    attempt: 1,
  };
}

/**
 * Makes decisions until no more jobs can start. A queued job is claimed first, and `isLost` (the scenario's
 * `lostClaims`) says whether that claim fails; an on-demand job starts without a claim.
 */
function decide(
  scheduler: Scheduler,
  nowMs: number,
  isLost: (name: string) => boolean,
  start: (name: string, slotId: number) => void,
): void {
  scheduler.beginPass(nowMs);
  for (let decision = scheduler.next(); decision !== undefined; decision = scheduler.next()) {
    const { id, fleet } = decision.reserved;
    if (decision.mode === 'queued') {
      if (isLost(id)) {
        scheduler.dropped(id);
        continue;
      }
      scheduler.kept();
    }
    start(id, Number(fleet));
  }
}

function pass(input: Input<'pass'>, path: string): Readonly<Record<string, unknown>> {
  refuseDuplicates(
    input.slots.map(({ id }) => id),
    `${path}.input.slots`,
    'id',
  );
  refuseDuplicates(
    input.queued.map(({ id }) => id),
    `${path}.input.queued`,
    'id',
  );
  const queuedIds = new Set(input.queued.map(({ id }) => id));
  input.onDemand.forEach(({ id }, index) => {
    if (queuedIds.has(id))
      throw new ValidationError(`${path}.input.onDemand[${index}].id`, `${id} is queued too`);
  });
  refuseDuplicates(
    input.onDemand.map(({ id }) => id),
    `${path}.input.onDemand`,
    'id',
  );
  const jobs = [
    ...input.queued.map((job) => ({ job, onDemand: false })),
    ...input.onDemand.map((job) => ({ job, onDemand: true })),
  ];
  const busy = new Set(input.busy);
  const free = input.slots.filter(({ id }) => !busy.has(id));
  const scheduler = schedulerFor(
    free,
    jobs.map(({ job }) => job.type),
  );
  // A job created in the future has age 0, and ranks behind one that was created now.
  const byAge = jobs.toSorted(
    (one, other) => one.job.createdAt - other.job.createdAt || compareIds(one.job.id, other.job.id),
  );
  const names = namesInOrder(byAge.map(({ job }) => job.id));
  const ids = new Map([...names].map(([id, name]) => [name, id]));
  for (const { job, onDemand } of jobs) {
    const name = names.get(job.id) ?? '';
    scheduler.arrive(
      waitingJob(name, job.type, job.priority, onDemand, Math.min(job.createdAt, input.now)),
      input.now,
    );
  }
  const lost = new Set(input.lostClaims.map((id) => names.get(id)));
  const assignments: [AnyId, number][] = [];
  const taken = new Set<number>();
  decide(
    scheduler,
    input.now,
    (name) => lost.has(name),
    (name, slotId) => {
      assignments.push([ids.get(name) ?? name, slotId]);
      taken.add(slotId);
    },
  );
  const freeSlots = free.map(({ id }) => id).filter((id) => !taken.has(id));
  return { assignments, freeSlots: freeSlots.sort((one, other) => one - other) };
}

/**
 * Runs a stream of jobs: each arrives, runs on a slot for its duration, and frees it. There is one pass at each instant
 * at which something happens.
 */
function stream(input: Input<'stream'>, path: string): ReturnType<typeof simulateScoring> {
  refuseDuplicates(
    input.slots.map(({ id }) => id),
    `${path}.input.slots`,
    'id',
  );
  const jobs = streamJobs(input, path);
  const names = orderedNames(jobs.map(({ id }) => id));
  const byName = new Map(jobs.map((job) => [names.get(job.id) ?? '', job]));
  const scheduler = schedulerFor(
    input.slots,
    jobs.map(({ type }) => type),
  );
  const arrivals = jobs.toSorted(
    (one, other) => one.arrivesMs - other.arrivesMs || compareIds(one.id, other.id),
  );
  const untilMs = input.untilMs ?? input.horizonMs ?? Infinity;
  const lost = new Set((input.lostClaims ?? []).map((id) => names.get(id)));
  const starts: [number, AnyId, number][] = [];
  const ends = new Ends();
  let arrived = 0;
  // Each round handles at least one arrival or one end.
  for (;;) {
    const nowMs = Math.min(arrivals[arrived]?.arrivesMs ?? Infinity, ends.nextMs);
    if (nowMs > untilMs || nowMs === Infinity) break;
    for (
      let next = arrivals[arrived];
      next !== undefined && next.arrivesMs <= nowMs;
      next = arrivals[arrived]
    ) {
      const name = names.get(next.id) ?? '';
      scheduler.arrive(waitingJob(name, next.type, next.priority, next.isOnDemand, next.readyAtMs), nowMs);
      arrived += 1;
    }
    for (const name of ends.take(nowMs)) {
      scheduler.settle(name, { nowMs, usedMs: byName.get(name)?.durationMs ?? 0, succeeded: true });
    }
    decide(
      scheduler,
      nowMs,
      (name) => lost.has(name),
      (name, slotId) => {
        const job = byName.get(name);
        if (job === undefined) return;
        starts.push([nowMs, job.id, slotId]);
        ends.add(nowMs + job.durationMs, name);
      },
    );
  }
  return { result: { starts }, runs: streamRuns(arrivals.slice(0, arrived), starts) };
}

interface Arrival {
  readonly id: AnyId;
  readonly type: AnyId;
  readonly priority: number;
  readonly arrivesMs: number;
  readonly readyAtMs: number;
  readonly durationMs: number;
  readonly isOnDemand: boolean;
}

function streamJobs(input: Input<'stream'>, path: string): readonly Arrival[] {
  const lists = [
    ['jobs', input.jobs, false],
    ['arrivals', input.arrivals, false],
    ['queued', input.queued, false],
    ['onDemand', input.onDemand, true],
  ] as const;
  if (lists.every(([, list]) => list === undefined)) {
    throw new ValidationError(`${path}.input.jobs`, 'expected an array');
  }
  const seen = new Set<AnyId>();
  return lists.flatMap(([name, list, isOnDemand]) =>
    (list ?? []).map((job, index) => {
      if (seen.has(job.id)) {
        throw new ValidationError(`${path}.input.${name}[${index}].id`, `${job.id} is used twice`);
      }
      seen.add(job.id);
      return arrivalOf(job, isOnDemand);
    }),
  );
}

function arrivalOf(job: StreamJob, isOnDemand: boolean): Arrival {
  const { id, type, priority, durationMs } = job;
  return {
    id,
    type,
    priority,
    durationMs,
    arrivesMs: job.atMs ?? job.createdAt ?? 0,
    readyAtMs: Math.min(job.createdAt ?? Infinity, job.atMs ?? Infinity),
    isOnDemand: isOnDemand || job.onDemand === true || job.mode === 'onDemand',
  };
}

function streamRuns(
  arrivals: readonly Arrival[],
  starts: readonly (readonly [number, AnyId, number])[],
): readonly Run[] {
  const startOf = new Map(starts.map(([atMs, id]) => [id, atMs]));
  return arrivals.map(({ id, type, readyAtMs, durationMs }) => {
    const startMs = startOf.get(id);
    return {
      group: `type ${type}`,
      readyAtMs,
      startMs,
      endMs: startMs === undefined ? undefined : startMs + durationMs,
    };
  });
}
