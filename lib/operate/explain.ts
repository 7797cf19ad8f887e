/**
 * Explains why a job is not running: reads the live state, within bounds, and lets `lib/core/explain.ts` decide.
 *
 * It reads the job, its partition, the keys with backlog in each tier that can come before the job, the heads of their
 * lines, due jobs, and the job's own line as far as the job. Bounds are in `EXPLAIN_LIMITS`. If a bound cut a read
 * short, the answer is `partial`; caps, conflicts and pauses are exact even then.
 */

import type { Control } from '../core/capacity.ts';
import type { FleetConfiguration, PoolConfiguration } from '../core/configuration.ts';
import { conflictKeyFor, conflictKeysOf, typesByName } from '../core/conflict.ts';
import { ordinarilyWithinMs, TYPE_AVERAGE_RESOURCE } from '../core/estimate.ts';
import { type Explanation, explain } from '../core/explain.ts';
import type { Json, MovingJob, ReservedJob } from '../core/job.ts';
import { CLOCK_SKEW_MAX_MS } from '../core/lease.ts';
import type { LoanBalance } from '../core/lending.ts';
import { isWaiting } from '../core/life-cycle.ts';
import { ledgersOfKeys } from '../core/limits.ts';
import { shareOfOverrides, shareOfPool } from '../core/partition.ts';
import { parkingKeysFor, printScope } from '../core/scope.ts';
import { compareRanked } from '../core/score.ts';
import { waitsOnHandover } from '../dispatch/partitions/handover.ts';
import { loansOf, slotsOfWorkers } from '../dispatch/partitions/loans.ts';
import { lockHeldElsewhere, lockOf } from '../dispatch/partitions/locks.ts';
import { belongsTo } from '../dispatch/partitions/rehome.ts';
import { chargedOf, LedgerCache } from '../dispatch/view/ledger-cache.ts';
import { openCache } from '../dispatch/view/partition-cache.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import type { ReadyLine } from '../store/contract/lines.ts';
import { type PartitionState, reservedAtOf } from '../store/contract/records.ts';
import { readyLineOf, tierOf } from '../submit/submit.ts';
import type { OperateContext } from './controls.ts';
import { lockedElsewhere, readDueJobs } from './explain-order.ts';
import { type LiveWaitsFor, toldOf, withControl, withParked, withWholeCap } from './live-waits.ts';
import { type Supposition, withSupposed } from './supposition.ts';

export const EXPLAIN_LIMITS = {
  /** The most jobs of its own line that are read to find its position. */
  positionMax: 1_000,
  keysPerType: 50,
  lines: 100,
  headsPerLine: 20,
} as const;

const PAGE = 100;

/** A fleet that accepts the job's type. */
export interface FleetCapacity {
  readonly fleet: string;
  /**
   * The declared slots, or those of the fleet's live workers. With several partitions, the slots that the job's
   * partition may use.
   */
  readonly slots: number;
  readonly busy: number;
  readonly paused: boolean;
  /** The operator's cap, or the part of it that the job's partition may use. */
  readonly maxConcurrency?: number | undefined;
  /** Live workers; undefined if Lambda runs the jobs. */
  readonly workers: number | undefined;
}

/** A key's cost, including jobs in flight. */
export interface KeyShare {
  readonly fairnessKey: string;
  readonly costMs: number;
  readonly weight: number;
  /** The key's cost divided by its weight. The key with the least share is served first. */
  readonly shareMs: number;
}

export interface LiveExplanation extends Omit<Explanation, 'waitsFor'> {
  readonly job: MovingJob;
  readonly explainedAtMs: number;
  readonly waitsFor: readonly LiveWaitsFor[];
  /** Whether the read ended before the job's position. If so, more jobs are before it than `position` says. */
  readonly positionIsLeast: boolean;
  readonly fleets: readonly FleetCapacity[];
  /**
   * Other keys whose jobs come first, the least share first, followed by the job's own key; empty if no other key comes
   * first.
   */
  readonly keysBefore: readonly KeyShare[];
  /** The running attempt; undefined unless the job is running. */
  readonly runs:
    | {
        readonly workerId: string;
        readonly incarnation: string;
        readonly fleet: string;
        readonly startedAtMs: number;
        /** The progress from the last heartbeat of its worker or function. */
        readonly progress?: Json | undefined;
        /** When its worker's last heartbeat was, by the worker's clock; undefined for a function, which sends none. */
        readonly heardAtMs?: number | undefined;
        /**
         * How long successful attempts of this type ordinarily take at most, as learned. An attempt that takes longer
         * may be lost or stuck.
         */
        readonly ordinarilyWithinMs?: number | undefined;
        /**
         * When passes give up the attempt if no heartbeat arrives. If it is in the past, the next pass that checks the
         * attempt gives it up.
         */
        readonly givenUpAtMs: number;
      }
    | undefined;
  /** Whether a bound cut a read short, so that jobs which are not listed may come first. */
  readonly partial: boolean;
}

/** The state on which an explanation is based. */
interface LiveState {
  readonly job: MovingJob;
  readonly nowMs: number;
  readonly state: PartitionState;
  /** The configuration, with the share of the pool that the job's partition has. */
  readonly configuration: PoolConfiguration;
  readonly overrides: readonly Control[];
  readonly fleets: ReturnType<typeof capacityOf>;
  /** Jobs that hold capacity, without the job's own entries. */
  readonly inFlight: readonly ReservedJob[];
  /** Whether an earlier reservation of the job is not settled yet, while the job has no new one. */
  readonly isBeingSettled: boolean;
  readonly ledgerCache: LedgerCache;
  readonly isReady: boolean;
  readonly read: Waiting;
}

/** Explains a job, as things are or as supposed; undefined if it does not exist. */
export async function explainJob(
  context: OperateContext,
  jobId: string,
  supposed?: Supposition,
): Promise<LiveExplanation | undefined> {
  const [job] = await context.store.lookUpJobs({ ids: [jobId] });
  if (job === undefined) return undefined;
  const seen = await readLiveState(context, job, supposed);
  const { nowMs, state, configuration, overrides, inFlight, fleets, ledgerCache, read } = seen;
  const keys = new Set([job.fairnessKey, ...read.keys, ...inFlight.map((entry) => entry.fairnessKey)]);
  if (seen.isReady)
    await allEnded([ledgerCache.readLedgers(keys), ledgerCache.readEstimates([job, ...read.waiting])]);
  const ledgers = [...keys].flatMap((fairnessKey) => ledgerCache.keyLedgerOf(fairnessKey) ?? []);
  const otherKeys = ledgersOfKeys(configuration, [job, ...read.waiting]);
  await ledgerCache.readLedgers(otherKeys);
  const raisedMs = new Map<string, number>();
  const explanation = explain(
    job,
    {
      configuration,
      overrides,
      inFlight,
      reservedAtMs: reservedAtOf(state.reservations),
      freeSlotsByFleet: new Map(fleets.map(({ fleet, slots, busy }) => [fleet, Math.max(0, slots - busy)])),
      ...(ledgerCache.uses === undefined ? {} : { uses: ledgerCache.uses }),
      ledgers,
      usesOfKeys: ledgerCache.usesOf(otherKeys),
      waiting: read.waiting,
      keptBack: await lockedElsewhere(context, job.partition, read.waiting),
      costMs: (type, resourceId) => ledgerCache.costMs(type, resourceId),
      raised: (fairnessKey, moreMs) => raisedMs.set(fairnessKey, moreMs),
    },
    nowMs,
  );
  const waitsFor = await allWaits(context, seen, explanation);
  return {
    ...explanation,
    job,
    explainedAtMs: nowMs,
    waitsFor,
    blocker:
      explanation.blocker ?? waitsFor.flatMap((each) => (each.why === 'conflict' ? [each.holder] : []))[0],
    positionIsLeast: read.positionIsLeast,
    latestStartAtMs: read.hasParked ? undefined : explanation.latestStartAtMs,
    estimatedStartAtMs: waitsFor.every((each) => endsWithOthers(each, explanation))
      ? explanation.estimatedStartAtMs
      : undefined,
    fleets: fleets
      .filter(({ types }) => types.includes(job.type))
      .map(({ types: _types, ...fleet }) => fleet),
    keysBefore: keysServedBefore(seen, waitsFor, raisedMs),
    runs: await withOrdinaryDuration(context, job, runsOf(job, state, nowMs), nowMs),
    partial: read.partial,
  };
}

/** Whether the wait ends when other jobs of the partition end. Only then can the start be estimated. */
const endsWithOthers = (waits: LiveWaitsFor, { blocker }: Explanation): boolean =>
  waits.why === 'conflict'
    ? waits.holder === blocker
    : waits.why === 'cap' || waits.why === 'noSlot' || waits.why === 'turn';

async function readLiveState(
  context: OperateContext,
  job: MovingJob,
  supposed: Supposition | undefined,
): Promise<LiveState> {
  const { store, clock } = context;
  const nowMs = clock.nowMs();
  const { partition } = job;
  const found = await store.loadPartition({ partition, nowMs });
  const state =
    supposed === undefined
      ? found
      : { ...found, controls: withSupposed(context.configuration, found.controls, job, supposed) };
  const moved = loansOf(context.configuration, state, partition, nowMs);
  const configuration = shareOfPool(context.configuration, partition, moved);
  const held = chargedOf(state.reservations, configuration.fairness, nowMs);
  const overrides = shareOfOverrides(state.controls, partition, configuration, moved);
  const fleets = capacityOf(configuration.fleets, state, moved, overrides, held);
  const freeSlots = fleets.reduce((total, { slots, busy }) => total + Math.max(0, slots - busy), 0);
  // Earlier attempts of this job hold capacity until they are settled, but do not block the job itself.
  const types = typesByName(configuration);
  const ownKey = conflictKeyFor(types.get(job.type), job.resourceId);
  const inFlight = held
    .filter((entry) => entry.id !== job.id)
    // A job that was claimed under another conflict group still blocks this one's resource.
    .map((entry) =>
      ownKey !== undefined && conflictKeysOf(types, entry).includes(ownKey)
        ? { ...entry, conflictKey: ownKey }
        : entry,
    );
  const cached = openCache(new Map(), partition, undefined);
  const ledgerCache = new LedgerCache(store, configuration, partition, nowMs, cached);
  ledgerCache.know(state);
  ledgerCache.noteInFlight(state.reservations);
  const isReady = job.state === 'pending' || (job.state === 'scheduled' && job.runAtMs <= nowMs);
  const ids = new Set(inFlight.map(({ id }) => id));
  const read = isReady ? await readWaiting(context, job, ids, freeSlots, ledgerCache.weighted) : NOTHING_READ;
  const isBeingSettled = job.state === 'pending' && inFlight.length < held.length;
  return {
    job,
    nowMs,
    state,
    configuration,
    overrides,
    fleets,
    inFlight,
    isBeingSettled,
    ledgerCache,
    isReady,
    // The supposed room may be what a parked job waits for: passes would move it back.
    read: supposed !== undefined && read.hasParked ? { ...read, unseen: undefined } : read,
  };
}

const NOTHING_READ: Waiting = {
  waiting: [],
  keys: [],
  positionIsLeast: false,
  hasParked: false,
  partial: false,
  unseen: undefined,
};

/** Combines what the policy says that the job waits for with what only the live state shows. */
async function allWaits(
  context: OperateContext,
  { job, nowMs, state, isBeingSettled, isReady, read }: LiveState,
  explanation: Explanation,
): Promise<readonly LiveWaitsFor[]> {
  if (explanation.waitsFor.some(({ why }) => why === 'expiry')) return explanation.waitsFor;
  const withFleet = toldOf(context, job, state);
  if (withFleet !== undefined) return [withFleet];
  if (isBeingSettled) return [{ why: 'pass' }];
  // If the job's type is not declared, the job waits for its declaration alone, in any partition.
  const isTypeDeclared = explanation.waitsFor.every(({ why }) => why !== 'unknownType');
  const others = isReady && isTypeDeclared ? await handoverWaits(context, job, state) : [];
  if (others.some(({ why }) => why === 'move')) return others;
  const waitsFor = [
    ...others,
    ...(isReady ? await lockWaits(context, job, nowMs) : []),
    ...explanation.waitsFor
      .filter(({ why }) => why !== 'pass')
      .map((each) =>
        withParked(
          job,
          withWholeCap(context.configuration, state.controls, job, withControl(state.controls, each)),
        ),
      ),
  ];
  if (waitsFor.length > 0 || explanation.waitsFor.every(({ why }) => why !== 'pass')) return waitsFor;
  const { declared } = state;
  if (read.unseen?.why === 'index' && declared !== undefined && mayBeCarried(state))
    return [{ why: 'carry', declared }];
  return [read.unseen ?? { why: 'pass' }];
}

/** Whether jobs that were parked under an earlier declaration may still wait to be moved to where the newest one wants them. */
const mayBeCarried = ({ parks, declared, carried }: PartitionState): boolean =>
  parks && !(carried?.version === declared && carried?.isDone === true);

/** Returns the keys of the job's tier whose jobs come first, with their costs. */
function keysServedBefore(
  { job, configuration, inFlight, ledgerCache, read }: LiveState,
  waitsFor: readonly LiveWaitsFor[],
  raisedMs: ReadonlyMap<string, number>,
): readonly KeyShare[] {
  const tier = tierOf(configuration, job.type);
  const ofTier = read.waiting.filter(({ type }) => tierOf(configuration, type) === tier);
  const keyOf = (id: string): string | undefined => read.waiting.find((each) => each.id === id)?.fairnessKey;
  return keysBefore(job, waitsFor, ofTier, keyOf, (fairnessKey) => {
    const weight = ledgerCache.weightOf(fairnessKey);
    const costMs = inFlight
      .filter((entry) => entry.fairnessKey === fairnessKey)
      .reduce(
        (total, entry) => total + entry.estimatedCostMs,
        (ledgerCache.ledgerOf(fairnessKey)?.settledCostMs ?? 0) + (raisedMs.get(fairnessKey) ?? 0),
      );
    return { fairnessKey, costMs, weight, shareMs: costMs / weight };
  });
}

/** Adds to the running attempt how long attempts of the job's type ordinarily take. */
async function withOrdinaryDuration(
  { store, configuration }: OperateContext,
  { partition, type }: MovingJob,
  runs: LiveExplanation['runs'],
  nowMs: number,
): Promise<LiveExplanation['runs']> {
  if (runs === undefined) return undefined;
  const [learned] = await store.getEstimates({
    partition,
    ids: [{ type, resourceId: TYPE_AVERAGE_RESOURCE }],
  });
  const withinMs = ordinarilyWithinMs(learned, configuration.fairness, nowMs);
  return withinMs === undefined ? runs : { ...runs, ordinarilyWithinMs: withinMs };
}

/** Returns the reasons to wait that come from a change of the settings that partitions share. */
async function handoverWaits(
  context: OperateContext,
  job: MovingJob,
  state: PartitionState,
): Promise<readonly LiveWaitsFor[]> {
  const { configuration, shared = NEVER_SHARED, partitionOf } = context;
  const { partition } = job;
  if (!belongsTo({ configuration, deployed: shared }, partition)(job))
    return [{ why: 'move', partition, home: partitionOf(job.fairnessKey) }];
  return waitsOnHandover(context, shared, job, state);
}

const NEVER_SHARED = { partitionsEver: 1, partitionNumbers: [], sharedSince: 0 };

/** Returns the wait for another partition that holds the lock of the job's conflict key, or may take it next. */
async function lockWaits(
  context: OperateContext,
  job: MovingJob,
  nowMs: number,
): Promise<readonly LiveWaitsFor[]> {
  const conflictKey = lockOf(context, job);
  if (conflictKey === undefined) return [];
  const [found] = await context.store.readLocks([conflictKey]);
  const lock = lockHeldElsewhere(found, job.partition, nowMs);
  if (lock?.holder !== undefined) return [{ why: 'conflict', conflictKey, holder: lock.holder.jobId }];
  return lock?.turn === undefined ? [] : [{ why: 'otherTurn', conflictKey, ...lock.turn }];
}

function runsOf(
  job: MovingJob,
  { workers, expiredWorkers }: Pick<PartitionState, 'workers' | 'expiredWorkers'>,
  nowMs: number,
): LiveExplanation['runs'] {
  const { worker, claim, startedAtMs } = job;
  if (job.state !== 'running' || worker === undefined || claim === undefined) return undefined;
  const workerRecord = [...workers, ...expiredWorkers].find(({ workerId }) => workerId === worker.workerId);
  // The record of a later incarnation only says until when the former one may run.
  const record = workerRecord?.incarnation === worker.incarnation ? workerRecord : undefined;
  const progress =
    record?.occupants.find((occupant) => occupant.claimId === claim.claimId)?.progress ?? job.progress;
  const givenUpAtMs =
    job.runUntilMs === undefined
      ? (record?.expiresAtMs ?? workerRecord?.formerUntilMs ?? nowMs)
      : job.runUntilMs + CLOCK_SKEW_MAX_MS;
  const heardAtMs = job.runUntilMs === undefined ? record?.heardAtMs : undefined;
  return {
    workerId: worker.workerId,
    incarnation: worker.incarnation,
    fleet: claim.fleet,
    startedAtMs: startedAtMs ?? claim.claimedAtMs,
    ...(progress === undefined ? {} : { progress }),
    ...(heardAtMs === undefined ? {} : { heardAtMs }),
    givenUpAtMs,
  };
}

function capacityOf(
  fleets: readonly FleetConfiguration[],
  state: PartitionState,
  moved: LoanBalance,
  overrides: readonly Control[],
  held: readonly ReservedJob[],
): readonly (FleetCapacity & Pick<FleetConfiguration, 'types'>)[] {
  return fleets.map(({ fleet, types, slots }) => {
    const workers = state.workers.filter((worker) => worker.fleet === fleet);
    const override = overrides.find(({ scope }) => scope === printScope({ fleet }));
    return {
      fleet,
      types,
      ...(override?.maxConcurrency === undefined ? {} : { maxConcurrency: override.maxConcurrency }),
      slots: slots ?? slotsOfWorkers(state, fleet, moved).slots,
      busy: held.filter((entry) => entry.fleet === fleet).length,
      paused: override?.paused === true,
      workers: slots === null ? workers.length : undefined,
    };
  });
}

interface Waiting {
  readonly waiting: readonly JobHead[];
  readonly keys: readonly string[];
  readonly positionIsLeast: boolean;
  readonly partial: boolean;
  /** Whether jobs are parked for a conflict key of the job. They may come first, and are not counted. */
  readonly hasParked: boolean;
  /** Why passes do not see the job in its line; undefined if they do. */
  readonly unseen: LiveWaitsFor | undefined;
}

/** Reads the job's own line as far as the job, and the heads of the lines that may come before it. */
async function readWaiting(
  context: OperateContext,
  job: MovingJob,
  held: ReadonlySet<string>,
  freeSlots: number,
  weighted: readonly string[],
): Promise<Waiting> {
  const { store } = context;
  const own = readyLineOf(job);
  const parkingKeys = parkingKeysFor(context.configuration, job);
  const [line, keys, due, blocked] = await allEnded([
    readOwnLine(context, job, own),
    readKeys(context, job, weighted),
    readDueJobs(context, job.partition),
    allEnded(
      parkingKeys.map((conflictKey) =>
        store.readBlocked({ partition: job.partition, conflictKey, groups: 1 }),
      ),
    ),
  ]);
  const hasParked = blocked.some(({ jobs }) => jobs.some(({ id }) => !held.has(id)));
  const lines = keys.lines
    .filter(
      ({ type, mode, fairnessKey }) =>
        type !== own.type || mode !== own.mode || fairnessKey !== own.fairnessKey,
    )
    .slice(0, EXPLAIN_LIMITS.lines);
  // Reads more heads than there are free slots, because the first ones may be blocked while the ones behind them can start.
  const limit = EXPLAIN_LIMITS.headsPerLine;
  const heads = await allEnded(
    lines.map((each) => store.readLine({ partition: job.partition, line: each, limit })),
  );
  // planted: explained-without-due
  const seen = [...due.jobs, ...line.jobs, ...heads.flatMap(({ jobs }) => jobs)];
  const byId = new Map(seen.map((each) => [each.id, each]));
  return {
    // The index may still show jobs that are claimed or running already.
    waiting: [...byId.values()].filter((each) => isWaiting(each.state) && !held.has(each.id)),
    keys: [...new Set([...keys.lines, ...due.jobs].map(({ fairnessKey }) => fairnessKey))],
    positionIsLeast: line.cut || hasParked,
    hasParked,
    unseen: line.unseen,
    partial:
      hasParked ||
      line.cut ||
      keys.cut ||
      due.cut ||
      keys.lines.length > lines.length + 1 ||
      (freeSlots > 0 && heads.some(({ next }) => next !== undefined)),
  };
}

async function readOwnLine(
  context: OperateContext,
  job: MovingJob,
  line: ReadyLine,
): Promise<{ readonly jobs: readonly JobHead[]; readonly cut: boolean } & Pick<Waiting, 'unseen'>> {
  const { score } = context.configuration;
  const jobs: JobHead[] = [];
  const { partition, fairnessKey } = job;
  const [backlog] = await context.store.readBacklogs({
    partition,
    type: line.type,
    fairnessKeys: [fairnessKey],
  });
  const isAnnounced = backlog?.lines.some(({ mode }) => mode === line.mode) === true;
  let after: string | undefined;
  while (jobs.length < EXPLAIN_LIMITS.positionMax) {
    const page = await context.store.readLine({ partition, line, limit: PAGE, after });
    jobs.push(...page.jobs);
    const last = page.jobs.at(-1);
    if (page.next === undefined || (last !== undefined && compareRanked(last, job, score) >= 0)) {
      if (job.state === 'scheduled') return { jobs, cut: false, unseen: await whyNotPromoted(context, job) };
      if (!isAnnounced) return { jobs, cut: false, unseen: { why: 'announcement', fairnessKey } };
      return { jobs, cut: false, unseen: isAmong(jobs, job) ? undefined : { why: 'index' } };
    }
    after = page.next;
  }
  return { jobs, cut: true, unseen: undefined };
}

const isAmong = (jobs: readonly JobHead[], job: MovingJob): boolean => jobs.some(({ id }) => id === job.id);

/** Returns why no pass has moved a due job to its ready line yet. This reads many more due jobs than one pass moves. */
async function whyNotPromoted({ store }: OperateContext, job: MovingJob): Promise<LiveWaitsFor | undefined> {
  const { partition, runAtMs } = job;
  const { jobs, next } = await store.readDue({
    partition,
    nowMs: runAtMs,
    limit: EXPLAIN_LIMITS.positionMax,
  });
  if (isAmong(jobs, job)) return undefined;
  return next !== undefined ? { why: 'promotion', dueSinceMs: runAtMs } : { why: 'index' };
}

/**
 * Reads the keys, with their lines, of all types whose tiers can come before the job's, in the order of their shares.
 */
async function readKeys(
  context: OperateContext,
  job: MovingJob,
  weighted: readonly string[],
): Promise<{ readonly lines: readonly ReadyLine[]; readonly cut: boolean }> {
  const { tiers, types } = context.configuration;
  const own = tiers.findIndex(({ tier }) => tier === tierOf(context.configuration, job.type));
  const before = new Set(
    tiers.flatMap(({ tier, guaranteed }, place) => (place <= own || guaranteed > 0 ? [tier] : [])),
  );
  const pages = await allEnded(
    types
      .filter(({ tier }) => before.has(tier))
      .map(async ({ type }) => {
        const { keys, next } = await context.store.readKeys({
          partition: job.partition,
          type,
          limit: EXPLAIN_LIMITS.keysPerType,
        });
        const named =
          next === undefined
            ? []
            : await context.store.readBacklogs({ partition: job.partition, type, fairnessKeys: weighted });
        const byName = new Map([...named, ...keys].flatMap((key) => (key ? [[key.fairnessKey, key]] : [])));
        return { type, keys: [...byName.values()], next };
      }),
  );
  return {
    lines: pages.flatMap(({ type, keys }) =>
      keys.flatMap(({ fairnessKey, lines }) => lines.map((line) => ({ ...line, type, fairnessKey }))),
    ),
    cut: pages.some(({ next }) => next !== undefined),
  };
}

/**
 * Returns the keys whose jobs come first: keys with a smaller share in the job's tier, and keys of jobs that a pass
 * would admit before it.
 */
function keysBefore(
  job: MovingJob,
  waitsFor: readonly LiveWaitsFor[],
  ofTier: readonly JobHead[],
  keyOf: (jobId: string) => string | undefined,
  shareOf: (fairnessKey: string) => KeyShare,
): readonly KeyShare[] {
  const turn = waitsFor.find((each) => each.why === 'turn');
  const served = new Set(turn?.before.map(keyOf));
  const own = shareOf(job.fairnessKey);
  const keys = new Set([...ofTier.map(({ fairnessKey }) => fairnessKey), ...served]);
  keys.delete(job.fairnessKey);
  const before = [...keys]
    .filter((key) => key !== undefined)
    .map(shareOf)
    .filter(({ fairnessKey, shareMs }) => shareMs < own.shareMs || served.has(fairnessKey))
    .sort((one, other) => one.shareMs - other.shareMs);
  return before.length === 0 ? [] : [...before, own];
}
