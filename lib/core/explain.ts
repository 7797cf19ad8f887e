/**
 * Explains why a job is not running. The known state of the pool is loaded into a `Scheduler`, the one that decides
 * passes, and the explanation is read from it.
 */
import type { Control } from './capacity.ts';
import type { PoolConfiguration } from './configuration.ts';
import { conflictKeyFor, typesByName } from './conflict.ts';
import { cutToBytes } from './history.ts';
import { isTerminal, type Job, type ReservedJob, type Waited, type WaitingJob, waitsSinceMs } from './job.ts';
import { NONE } from './job-table.ts';
import { isExpired } from './life-cycle.ts';
import { NO_USES, type Uses } from './limits.ts';
import type { Obstacle } from './obstacles.ts';
import type { KeyLedger } from './planner.ts';
import { NO_REQUESTS, Raises } from './raises.ts';
import { type Decision, Scheduler } from './scheduler.ts';
import { nameIn, printScope, ruleOf, withCaps } from './scope.ts';
import { compareRanked, type ScoreParts, scoreParts, starvationBoundMs } from './score.ts';

/** The job to explain. */
export type Explained = WaitingJob & Pick<Job, 'state' | 'runAtMs' | 'finishedAtMs'>;

/** The known state of the pool. Missing parts make the answer less exact, but never wrong about a cap or a conflict. */
export interface ExplainState {
  readonly configuration: PoolConfiguration;
  readonly overrides?: readonly Control[] | undefined;
  /** Every entry of every reservation. */
  readonly inFlight: readonly ReservedJob[];
  /** By id of a job in flight: when it was reserved, in epoch ms. A job that is missing counts as reserved now. */
  readonly reservedAtMs?: ReadonlyMap<string, number> | undefined;
  /** How much ended attempts have used of each limit, over all fairness keys, as far as it still counts; absent: nothing. */
  readonly uses?: Uses | undefined;
  /** Slots that no job holds. */
  readonly freeSlotsByFleet: ReadonlyMap<string, number>;
  /** The settled costs of the keys with backlog. */
  readonly ledgers: readonly KeyLedger[];
  /** What ended attempts have used of limits with keys, by the name of the key's ledger; absent: nothing. */
  readonly usesOfKeys?: ReadonlyMap<string, Uses> | undefined;
  /** Waiting jobs, as far as they were read: the heads of the lines, and this job's own line down to the job. */
  readonly waiting: readonly WaitingJob[];
  /**
   * Ids of waiting jobs that cannot start for a reason outside this state, such as another partition's lock. No job
   * waits behind them.
   */
  readonly keptBack?: ReadonlySet<string> | undefined;
  /** Called for each fairness key whose share the next pass raises, with the amount. */
  readonly raised?: ((fairnessKey: string, moreMs: number) => void) | undefined;
  readonly costMs: (type: string, resourceId: string | undefined) => number;
}

/** One reason why a job waits. */
export type WaitsFor =
  | Obstacle
  /** The job's time has not come. */
  | { readonly why: 'time'; readonly untilMs: number }
  /** The job's time to start is over: a pass ends it. */
  | { readonly why: 'expiry'; readonly sinceMs: number }
  /**
   * The job may start, but others come first and take the free capacity. `before` lists the first of their ids, in
   * order.
   */
  | { readonly why: 'turn'; readonly before: readonly string[] }
  /** The next pass starts it. */
  | { readonly why: 'pass' };

/** A job's state, and why it waits. */
export interface Explanation {
  readonly id: string;
  readonly state: Job['state'];
  /** The reasons why the job waits. Empty once it is claimed, runs or has ended. */
  readonly waitsFor: readonly WaitsFor[];
  /** The number of jobs before this job in its line, among those that were read; undefined if it stands in no line. */
  readonly position: number | undefined;
  readonly score: ScoreParts | undefined;
  /**
   * The cost of the job's fairness key, including its jobs in flight, and the key's weight. Undefined if the job does
   * not wait for capacity.
   */
  readonly key: { readonly costMs: number; readonly weight: number } | undefined;
  /** The id of the job that holds this job's conflict key; undefined: the key is free. */
  readonly blocker: string | undefined;
  /**
   * Epoch ms: the latest start by `starvationBoundMs` in the present state. Undefined if the configuration promises no
   * bound, such as for a type under limits, while the job is
   * paused, or while an operator's cap holds for its key.
   */
  readonly latestStartAtMs: number | undefined;
  /**
   * Epoch ms: an estimate of the job's start. It assumes that the running jobs, and the jobs that come first, take as
   * long as such jobs took so far, and that no further jobs are submitted. Undefined before the job's time has come, or
   * if no end of another job lets it start.
   */
  readonly estimatedStartAtMs: number | undefined;
}

/** The most ids listed in `before`. */
const BEFORE_MAX = 100;

/** Explains the job at `nowMs`. */
export function explain(job: Explained, state: ExplainState, nowMs: number): Explanation {
  const unplanned = {
    id: job.id,
    state: job.state,
    position: undefined,
    score: undefined,
    blocker: undefined,
  };
  const isOver = !isTerminal(job.state) && isExpired(job, nowMs);
  if (isOver || isTerminal(job.state) || job.state === 'claimed' || job.state === 'running') {
    return {
      ...unplanned,
      waitsFor: isOver ? [{ why: 'expiry', sinceMs: job.expireAtMs ?? nowMs }] : [],
      key: undefined,
      latestStartAtMs: undefined,
      estimatedStartAtMs: undefined,
    };
  }
  const untilMs = job.state === 'scheduled' ? job.runAtMs : job.readyAtMs;
  if (untilMs > nowMs) {
    const latestStartAtMs = latestStart({ ...job, readyAtMs: untilMs }, state);
    return {
      ...unplanned,
      waitsFor: [{ why: 'time', untilMs }],
      key: undefined,
      latestStartAtMs,
      estimatedStartAtMs: undefined,
    };
  }
  const { scheduler, raises } = loadScheduler(job, state, nowMs);
  const obstacles = scheduler.obstaclesTo(job);
  const key = scheduler.openKey(job.fairnessKey, nowMs);
  const { score: coefficients } = state.configuration;
  const common = {
    id: job.id,
    state: job.state,
    position: othersInLine(job, state).filter((other) => compareRanked(other, job, coefficients) < 0).length,
    score: scoreParts(job, nowMs, scheduler.compatibleSlots(job.type), coefficients),
    key: { costMs: scheduler.ledgers.costOf(key), weight: scheduler.ledgers.weightOf(key) },
    blocker: obstacles.find((obstacle) => obstacle.why === 'conflict')?.holder,
    latestStartAtMs: obstacles.some((obstacle) => obstacle.why === 'paused' || obstacle.why === 'unknownType')
      ? undefined
      : latestStart(job, state),
  };
  const hasObstacles = obstacles.length > 0;
  const { startsNow, before, started } = planPass(job, scheduler, raises, hasObstacles ? {} : state);
  const turn: WaitsFor = startsNow ? { why: 'pass' } : { why: 'turn', before };
  return {
    ...common,
    waitsFor: hasObstacles ? obstacles : [turn],
    estimatedStartAtMs: startsNow ? nowMs : estimatedStart(job, scheduler, started, state, nowMs),
  };
}

/** A reserved job whose attempt has ended, and so made room. */
export interface EndedHold {
  readonly entry: ReservedJob;
  readonly endedAtMs: number;
}

/** The most bounds that are named for one job, and the most bytes of each: they travel in its message. */
const BLOCKERS_MAX = 4;
const BLOCKER_BYTES_MAX = 256;

/**
 * Returns a function that names the bounds which were full while a job waited, from the pool down to the job, in the
 * words of `Obstacle`: `cap key/acme`, `noSlot fleet/images`, `conflict album/7`. Nothing stands in the job's way now, so
 * it had to wait for the ends of attempts in `ended`. Only those that ended after the job had begun to wait count, so
 * each bound that is named was certainly full in that time. It names no pause, rate or budget, because the present state
 * does not tell when one of these opened.
 *
 * @param state - the pool without the attempts that have ended
 */
export function blockersBefore(
  ended: readonly EndedHold[],
  state: Pick<ExplainState, 'configuration' | 'overrides' | 'inFlight' | 'freeSlotsByFleet'>,
  nowMs: number,
): (job: WaitingJob & Waited) => readonly string[] {
  const latestFirst = ended.toSorted((a, b) => b.endedAtMs - a.endedAtMs);
  let scheduler: Scheduler | undefined;
  let held = 0;
  return (job) => {
    const sinceMs = waitsSinceMs(job);
    const endedSince = latestFirst.findIndex(({ endedAtMs }) => endedAtMs <= sinceMs);
    const holding = endedSince < 0 ? latestFirst.length : endedSince;
    if (holding === 0) return [];
    if (scheduler === undefined) {
      scheduler = schedulerOf(state);
      holdAll(scheduler, state, nowMs);
    }
    for (; held < holding; held += 1) scheduler.hold((latestFirst[held] as EndedHold).entry, nowMs);
    for (; held > holding; held -= 1)
      scheduler.settle((latestFirst[held - 1] as EndedHold).entry.id, { nowMs, succeeded: false });
    const named = scheduler.obstaclesTo(job).flatMap(nameOfBound);
    return named.slice(0, BLOCKERS_MAX).map((each) => cutToBytes(each, BLOCKER_BYTES_MAX));
  };
}

function nameOfBound(obstacle: Obstacle): readonly string[] {
  switch (obstacle.why) {
    case 'cap':
      return [`cap ${obstacle.scope}`];
    case 'noSlot':
      return obstacle.fleets.map((fleet) => `noSlot ${printScope({ fleet })}`);
    case 'conflict':
      return [`conflict ${obstacle.conflictKey}`];
    default:
      return [];
  }
}

const schedulerOf = (
  { configuration, overrides }: Pick<ExplainState, 'configuration' | 'overrides'>,
  costMs?: ExplainState['costMs'],
): Scheduler =>
  new Scheduler(
    { ...configuration, fairness: { ...configuration.fairness, idlePolicy: 'none' } },
    { overrides, costMs },
  );

/** Counts the jobs in flight and the slots. */
function holdAll(
  scheduler: Scheduler,
  {
    configuration,
    inFlight,
    freeSlotsByFleet,
  }: Pick<ExplainState, 'configuration' | 'inFlight' | 'freeSlotsByFleet'>,
  nowMs: number,
): void {
  for (const reserved of inFlight) scheduler.hold(reserved, nowMs);
  configuration.fleets.forEach(({ fleet }, number) => {
    scheduler.setSlots(fleet, scheduler.fleets.busyOf(number) + (freeSlotsByFleet.get(fleet) ?? 0));
  });
}

/** Makes a scheduler with the state that the next pass may see. */
function loadScheduler(
  job: WaitingJob,
  state: ExplainState,
  nowMs: number,
): { readonly scheduler: Scheduler; readonly raises: Raises } {
  const { configuration } = state;
  const scheduler = schedulerOf(state, state.costMs);
  scheduler.limits.setUses(state.uses ?? NO_USES);
  for (const { fairnessKey, settledCostMs, uses } of state.ledgers) {
    scheduler.setCost(scheduler.openKey(fairnessKey, nowMs), settledCostMs);
    scheduler.limits.setUsesOfKey(fairnessKey, uses);
  }
  for (const [ledger, uses] of state.usesOfKeys ?? []) scheduler.limits.setUsesOfKey(ledger, uses);
  scheduler.limits.beginPass(nowMs);
  holdAll(scheduler, state, nowMs);
  const raises = new Raises(scheduler, configuration.fairness, state.inFlight, nowMs);
  for (const { fairnessKey, touchedAtMs } of state.ledgers)
    raises.noteTouch(scheduler.openKey(fairnessKey, nowMs), touchedAtMs);
  // planted: explained-without-locks
  const others = state.waiting.filter(({ id }) => id !== job.id && state.keptBack?.has(id) !== true);
  const byLine = Map.groupBy([...others, job], (waiting) => {
    const number = scheduler.arrive(waiting, nowMs);
    return number === undefined ? undefined : scheduler.backlog.jobs.lineOf(number);
  });
  for (const [line, jobs] of byLine) if (line !== undefined) raises.noteJobs(line, jobs);
  scheduler.beginPass(nowMs);
  return { scheduler, raises };
}

/**
 * Plans the next pass until it starts the job, or nothing more. Returns whether it starts the job, and the ids of the
 * jobs that start before.
 */
function planPass(
  job: WaitingJob,
  scheduler: Scheduler,
  raises: Raises,
  { raised }: Pick<ExplainState, 'raised'>,
): { readonly startsNow: boolean; readonly before: readonly string[]; readonly started: readonly string[] } {
  const started: string[] = [];
  for (;;) {
    const next = nextOf(scheduler, raises, raised);
    const startsNow = next?.reserved.id === job.id;
    if (next === undefined || startsNow) return { startsNow, before: started.slice(0, BEFORE_MAX), started };
    started.push(next.reserved.id);
  }
}

/**
 * Returns the epoch ms at which the job starts if each running job ends after its expected cost, and the jobs that
 * start then, too. Undefined: it does not start although all of them have ended.
 */
function estimatedStart(
  job: WaitingJob,
  scheduler: Scheduler,
  started: readonly string[],
  { inFlight, reservedAtMs, waiting, costMs }: ExplainState,
  nowMs: number,
): number | undefined {
  const waitingById = new Map(waiting.map((each) => [each.id, each]));
  const ends: { readonly atMs: number; readonly id: string; readonly usedMs: number }[] = [];
  const startAt = (id: string, atMs: number): void => {
    const { type = '', resourceId } = waitingById.get(id) ?? {};
    const usedMs = costMs(type, resourceId);
    ends.push({ id, usedMs, atMs: atMs + usedMs });
  };
  for (const { id, estimatedCostMs: usedMs } of inFlight)
    ends.push({ id, usedMs, atMs: Math.max(nowMs, (reservedAtMs?.get(id) ?? nowMs) + usedMs) });
  for (const id of started) startAt(id, nowMs);
  while (ends.length > 0) {
    const atMs = ends.reduce((least, end) => Math.min(least, end.atMs), Number.POSITIVE_INFINITY);
    for (let at = ends.length - 1; at >= 0; at -= 1) {
      const end = ends[at];
      if (end === undefined || end.atMs > atMs) continue;
      ends.splice(at, 1);
      scheduler.settle(end.id, { nowMs: atMs, usedMs: end.usedMs, succeeded: true });
    }
    scheduler.beginPass(atMs);
    for (let next = scheduler.next(); next !== undefined; next = scheduler.next()) {
      if (next.reserved.id === job.id) return atMs;
      startAt(next.reserved.id, atMs);
    }
  }
  return undefined;
}

function nextOf(scheduler: Scheduler, raises: Raises, raised: ExplainState['raised']): Decision | undefined {
  if (scheduler.room <= 0) return undefined;
  for (const guaranteed of [true, false]) {
    for (let tier = 0; tier < scheduler.index.tiers.length; tier += 1) {
      if (guaranteed && !scheduler.isBelowGuarantee(tier)) continue;
      // planted: explained-without-raises
      raises.raise(tier, NO_REQUESTS, (key, moreMs) => {
        raised?.(scheduler.ledgers.nameOf(key), moreMs);
        return () => {};
      });
      const line = scheduler.best(tier);
      if (line === NONE) continue;
      raises.noteStart(scheduler.backlog.keyOf(line));
      return scheduler.admit(line, guaranteed);
    }
  }
  return undefined;
}

function othersInLine(job: WaitingJob, state: ExplainState): readonly WaitingJob[] {
  return state.waiting.filter(
    (other) =>
      other.id !== job.id &&
      other.type === job.type &&
      other.mode === job.mode &&
      other.fairnessKey === job.fairnessKey,
  );
}

/** Returns the configuration with the operators' caps and weights in it. */
export function overridden(
  configuration: PoolConfiguration,
  overrides: readonly Control[],
): PoolConfiguration {
  const last = new Map(overrides.map((override) => [override.scope, override]));
  const weights = { ...configuration.fairness.weights };
  for (const { scope, weight } of last.values()) {
    const fairnessKey = nameIn('fairnessKey', scope);
    if (fairnessKey !== undefined && weight !== undefined) weights[fairnessKey] = weight;
  }
  const capped = withCaps(configuration, ({ scope, cap }) =>
    ruleOf(scope, configuration).control === 'instead' ? (last.get(scope)?.maxConcurrency ?? cap) : cap,
  );
  return { ...capped, fairness: { ...configuration.fairness, weights } };
}

function latestStart(job: Explained, state: ExplainState): number | undefined {
  const { inFlight, waiting, ledgers } = state;
  const configuration = overridden(state.configuration, state.overrides ?? []);
  const typeOf = typesByName(configuration);
  const ownType = typeOf.get(job.type);
  // The bound knows nothing of limits, nor of the cap that an operator has set for one key.
  const isLimited = (ownType?.limits?.length ?? 0) > 0;
  const ofKey = printScope({ fairnessKey: job.fairnessKey });
  const isOverridden = state.overrides?.some(
    ({ scope, maxConcurrency }) => scope === ofKey && maxConcurrency !== undefined,
  );
  // planted: bound-despite-limits
  if (isLimited || isOverridden === true) return undefined;
  const conflictKey = conflictKeyFor(ownType, job.resourceId);
  const others = waiting.filter((other) => other.id !== job.id);
  if (job.mode === 'queued' && configuration.score.onDemandAgeSec > 0) {
    // Waiting on-demand jobs of this queued job's key and tier age faster than it does. If they keep arriving faster than they end,
    // one of them always comes first, so no latest start can be promised.
    const isOvertaking = others.some(
      (other) =>
        other.mode === 'onDemand' &&
        other.fairnessKey === job.fairnessKey &&
        typeOf.get(other.type)?.tier === ownType?.tier,
    );
    // planted: held-back-on-demand
    if (isOvertaking) return undefined;
  }
  const boundMs = starvationBoundMs(configuration, {
    type: job.type,
    fairnessKey: job.fairnessKey,
    mode: job.mode,
    priority: job.priority,
    activeKeys: new Set([...others, ...inFlight, ...ledgers, job].map((holder) => holder.fairnessKey)).size,
    jobsAhead: others.filter(
      (other) => other.fairnessKey === job.fairnessKey && typeOf.get(other.type)?.tier === ownType?.tier,
    ).length,
    conflictsAhead:
      conflictKey === undefined
        ? 0
        : inFlight.filter((other) => other.conflictKey === conflictKey).length +
          others.filter((other) => conflictKeyFor(typeOf.get(other.type), other.resourceId) === conflictKey)
            .length,
    slotsByFleet: new Map(
      configuration.fleets.map(({ fleet }) => [
        fleet,
        (state.freeSlotsByFleet.get(fleet) ?? 0) + inFlight.filter((other) => other.fleet === fleet).length,
      ]),
    ),
  });
  return Number.isFinite(boundMs) ? waitsSinceMs(job) + boundMs : undefined;
}
