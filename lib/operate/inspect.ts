/**
 * Reads for operators: jobs by state, keys with their costs and backlog, fleets with their slots, types, and the
 * declaration.
 */

import { type Control, weightsWithOverrides } from '../core/capacity.ts';
import type { JobTypeConfiguration } from '../core/configuration.ts';
import { ordinarilyWithinMs, TYPE_AVERAGE_RESOURCE } from '../core/estimate.ts';
import { endedAtMs, type Job, type JobMode, type JobState, type Tags } from '../core/job.ts';
import { printScope } from '../core/scope.ts';
import { type HeldJobs, heldIn, isHeld } from '../dispatch/partition/depth.ts';
import { handoverInProgress } from '../dispatch/partitions/handover.ts';
import { chargedOf, LedgerCache } from '../dispatch/view/ledger-cache.ts';
import { openCache } from '../dispatch/view/partition-cache.ts';
import type { JobHead } from '../store/contract/job-fields.ts';
import type { ReadyLine } from '../store/contract/lines.ts';
import { FINISHED_STATES, type FinishedState } from '../store/contract/operate.ts';
import { pagesOf } from '../store/contract/pages.ts';
import type { EstimateRecord, KeyBacklog, WorkerRecord } from '../store/contract/records.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { combinedControl, type OperateContext, partitionsOf, partitionsOfKey } from './controls.ts';
import { countParked, type ParkedCount, type ParkedCounts, parkedIn } from './parked-lines.ts';

/** The states of the lists. Succeeded and cancelled jobs can be listed only by types that have `listFinished`. */
export const LISTED_STATES = [
  'scheduled',
  'pending',
  'claimed',
  'running',
  'failed',
  ...FINISHED_STATES,
] as const;
export type ListedState = (typeof LISTED_STATES)[number];
export const isFinishedState = (state: JobState): state is FinishedState =>
  FINISHED_STATES.some((each) => each === state);

export interface JobFilter {
  readonly type?: string | undefined;
  readonly fairnessKey?: string | undefined;
  readonly mode?: JobMode | undefined;
  /** Only jobs that have all these tags. */
  readonly tags?: Tags | undefined;
  /** Epoch milliseconds. Of succeeded and cancelled jobs: only those that ended at this instant or later. */
  readonly sinceMs?: number | undefined;
  /** Epoch milliseconds. Of succeeded and cancelled jobs: only those that ended before this instant. */
  readonly untilMs?: number | undefined;
}

const PAGE = 100;
/** The last instant that a request can name: 9999-12-31T23:59:59.999Z. */
const LAST_INSTANT_MS = 253_402_300_799_999;

const matches = (filter: JobFilter, job: Pick<Job, 'type' | 'fairnessKey' | 'mode'>): boolean =>
  (filter.type === undefined || job.type === filter.type) &&
  (filter.fairnessKey === undefined || job.fairnessKey === filter.fairnessKey) &&
  (filter.mode === undefined || job.mode === filter.mode);

/** Whether a job has all these tags. */
export const hasTags = ({ tags: has = {} }: Pick<Job, 'tags'>, tags: Tags = {}): boolean =>
  Object.entries(tags).every(([name, value]) => Object.hasOwn(has, name) && has[name] === value);

/**
 * Lists the jobs of one state.
 * - `scheduled`: by their time.
 * - `pending`: in each partition key by key, the least charged first, each line in its order; then the parked jobs, one
 *   conflict key after the other. A job that is parked or moved back during the read may be listed twice, or not at
 *   all.
 * - `failed`: dead letters, the latest first.
 * - `succeeded`, `cancelled`: the jobs of the filter's type, the latest first.
 * - `claimed`, `running`: exactly the jobs that hold capacity now. A job that was sent to a fleet and has not started
 *   counts as claimed, even if its item says `pending` until its start claims it.
 *
 * All but `claimed` and `running` come from the index, which may lag by about a second.
 */
export async function* listJobs(
  context: OperateContext,
  state: ListedState,
  filter: JobFilter,
): AsyncGenerator<Job> {
  if (isFinishedState(state)) return yield* finishedJobs(context, state, filter);
  for (const partition of partitionsOfFilter(context, filter)) {
    for await (const jobs of jobsOf(context, partition, state, filter)) {
      for (const job of jobs)
        if (job.state === state && matches(filter, job) && hasTags(job, filter.tags)) yield job;
    }
  }
}

/** The finished jobs of one type: those of all partitions, merged. */
async function* finishedJobs(
  context: OperateContext,
  state: FinishedState,
  filter: JobFilter,
): AsyncGenerator<Job> {
  const ofPartitions = partitionsOfFilter(context, filter).map((partition) =>
    finishedJobsOf(context.store, partition, state, filter),
  );
  const heads: { readonly job: Job; readonly rest: AsyncGenerator<Job> }[] = [];
  const advance = async (rest: AsyncGenerator<Job>): Promise<void> => {
    const next = await rest.next();
    if (next.done !== true) heads.push({ job: next.value, rest });
  };
  await Promise.all(ofPartitions.map(advance));
  while (heads.length > 0) {
    const latest = heads.reduce((one, other) => (endedAtMs(other.job) > endedAtMs(one.job) ? other : one));
    heads.splice(heads.indexOf(latest), 1);
    yield latest.job;
    await advance(latest.rest);
  }
}

async function* finishedJobsOf(
  store: OperateContext['store'],
  partition: number,
  state: FinishedState,
  filter: JobFilter,
): AsyncGenerator<Job> {
  const { type, sinceMs, untilMs } = filter;
  if (type === undefined) return;
  for await (const { jobs } of pagesOf((after: string | undefined) =>
    store.readFinished({ partition, state, type, sinceMs, untilMs, limit: PAGE, after }),
  ))
    for (const job of await wholeJobs(store, filter, jobs)) if (hasTags(job, filter.tags)) yield job;
}

function partitionsOfFilter(context: OperateContext, filter: JobFilter): readonly number[] {
  return filter.fairnessKey === undefined
    ? partitionsOf(context)
    : partitionsOfKey(context, filter.fairnessKey);
}

async function* jobsOf(
  context: OperateContext,
  partition: number,
  state: Exclude<ListedState, FinishedState>,
  filter: JobFilter,
): AsyncGenerator<readonly Job[]> {
  const { store } = context;
  switch (state) {
    case 'scheduled':
      for await (const { jobs } of pagesOf((after: string | undefined) =>
        store.readDue({ partition, nowMs: LAST_INSTANT_MS, limit: PAGE, after }),
      ))
        yield wholeJobs(store, filter, jobs);
      return;
    case 'failed':
      for await (const { jobs } of pagesOf((after: string | undefined) =>
        store.readDeadLetters({ partition, limit: PAGE, after }),
      ))
        yield jobs;
      return;
    case 'pending': {
      const held = await heldJobs(context, partition);
      const shown = async (heads: readonly JobHead[]): Promise<readonly Job[]> =>
        (await wholeJobs(store, filter, heads)).map((job) => asClaimed(job, held));
      for await (const line of linesOf(context, partition, filter)) {
        for await (const { jobs } of pagesOf((after: string | undefined) =>
          store.readLine({ partition, line, limit: PAGE, after }),
        ))
          yield shown(jobs);
      }
      for await (const heads of parkedIn(store, partition)) yield shown(heads);
      return;
    }
    case 'claimed':
    case 'running': {
      const held = await heldJobs(context, partition);
      const ids = [...held.places.keys()];
      for (let from = 0; from < ids.length; from += PAGE) {
        const jobs = await store.getJobs({ ids: ids.slice(from, from + PAGE), unreadable: ignoreUnreadable });
        yield jobs.flatMap((job) => (job === undefined ? [] : asClaimed(job, held)));
      }
      return;
    }
  }
}

async function heldJobs(
  { store, clock }: Pick<OperateContext, 'store' | 'clock'>,
  partition: number,
): Promise<HeldJobs> {
  return heldIn(await store.loadPartition({ partition, nowMs: clock.nowMs() }));
}

/** Shows a job in flight as `claimed`, even if its item is still `pending`. */
const asClaimed = (job: Job, held: HeldJobs): Job =>
  job.state === 'pending' && isHeld(held, job) ? { ...job, state: 'claimed' } : job;

/** Unreadable jobs are left out; they have a list of their own. */
const ignoreUnreadable = (): void => {};

/** Reads the jobs that match, as they are now, because lines show only their heads. */
async function wholeJobs(
  store: Pick<SubmitStore, 'getJobs'>,
  filter: JobFilter,
  heads: readonly JobHead[],
): Promise<readonly Job[]> {
  const ids = heads.filter((head) => matches(filter, head)).map((head) => head.id);
  const jobs = await store.getJobs({ ids, unreadable: ignoreUnreadable });
  return jobs.filter((job) => job !== undefined);
}

/** Declared types and former ones, whose jobs may still wait. */
const typesEver = (context: OperateContext): readonly { readonly type: string }[] => [
  ...context.configuration.types,
  ...formerTypesOf(context),
];

const formerTypesOf = ({ formerTypes = [] }: OperateContext): readonly { readonly type: string }[] =>
  formerTypes.map((type) => ({ type }));

/** The lines in which jobs of this filter may wait. */
async function* linesOf(
  context: OperateContext,
  partition: number,
  filter: JobFilter,
): AsyncGenerator<ReadyLine> {
  const { store } = context;
  const { fairnessKey, type } = filter;
  for (const each of typesEver(context)) {
    if (type !== undefined && each.type !== type) continue;
    const pages =
      fairnessKey === undefined
        ? pagesOf((after: string | undefined) =>
            store.readKeys({ partition, type: each.type, limit: PAGE, after }),
          )
        : [
            {
              keys: (
                await store.readBacklogs({ partition, type: each.type, fairnessKeys: [fairnessKey] })
              ).filter((key) => key !== undefined),
            },
          ];
    for await (const { keys } of pages) {
      for (const key of keys) {
        for (const { mode } of key.lines) {
          const line = { type: each.type, mode, fairnessKey: key.fairnessKey };
          if (matches(filter, line)) yield line;
        }
      }
    }
  }
}

/** A fairness key as seen for one type. */
export interface KeyView {
  readonly fairnessKey: string;
  /** A type of which the key has, or lately had, waiting jobs; undefined if it only has jobs in flight. */
  readonly type?: string | undefined;
  /** The tier of `type`. */
  readonly tier?: string | undefined;
  /**
   * Waiting jobs of this type, counted up to a bound. If very many jobs are parked for one conflict key, only the first
   * ones count. `more` says that there may be others.
   */
  readonly waiting: number;
  readonly more: boolean;
  /** Jobs of all types of this key that hold capacity. */
  readonly inFlight: number;
  readonly inFlightCostMs: number;
  /** The cost of ended attempts. */
  readonly settledCostMs: number;
  readonly weight: number;
  /** (settled + in flight) / weight. The key with the least share is served first. */
  readonly shareMs: number;
  readonly paused: boolean;
  /** Undefined if the key has no cap of its own. */
  readonly maxConcurrency?: number | undefined;
}

interface InFlight {
  readonly count: number;
  readonly costMs: number;
}

interface ShownType {
  readonly type: string;
  /** Undefined if the type is not declared any more. */
  readonly tier?: string | undefined;
}

/** The declared types, tier by tier, then the former ones. */
function typesByTier(context: OperateContext): readonly ShownType[] {
  const { tiers, types } = context.configuration;
  const declared = tiers.flatMap((each) => types.filter(({ tier }) => tier === each.tier));
  return [...declared, ...formerTypesOf(context)];
}

/**
 * Lists keys with backlog, tier by tier and type by type, in the order in which they are served; then keys that only
 * have jobs in flight.
 */
export async function* listKeys(context: OperateContext, countUpTo: number): AsyncGenerator<KeyView> {
  for (const partition of partitionsOf(context)) {
    const { reservations, controls } = await context.store.loadPartition({
      partition,
      nowMs: context.clock.nowMs(),
    });
    const held = new Map<string, InFlight>();
    const inFlight = heldIn({ reservations });
    const { fairness } = context.configuration;
    for (const entry of chargedOf(reservations, fairness, context.clock.nowMs())) {
      const { count, costMs } = held.get(entry.fairnessKey) ?? { count: 0, costMs: 0 };
      held.set(entry.fairnessKey, { count: count + 1, costMs: costMs + entry.estimatedCostMs });
    }
    const seen = new Set<string>();
    const load = {
      partition,
      held,
      inFlight,
      controls,
      parked: await countParked(context.store, partition, inFlight),
    };
    for (const type of typesByTier(context)) {
      for await (const view of keysOfType(context, type, load, countUpTo)) {
        seen.add(view.fairnessKey);
        yield view;
      }
    }
    const others = [...held.keys()].filter((fairnessKey) => !seen.has(fairnessKey));
    yield* viewsByPage(context, partition, others, held, controls);
  }
}

interface KeysLoad {
  readonly partition: number;
  readonly held: ReadonlyMap<string, InFlight>;
  readonly inFlight: HeldJobs;
  readonly controls: readonly Control[];
  readonly parked: ParkedCounts;
}

/** Keys with backlog of a type, in the order in which they are served; then keys that only have parked jobs. */
async function* keysOfType(
  context: OperateContext,
  { type, tier }: ShownType,
  { partition, held, inFlight, controls, parked }: KeysLoad,
  countUpTo: number,
): AsyncGenerator<KeyView> {
  const seen = new Set<string>();
  for await (const { key, view } of keysByShare(context, partition, type, held, controls)) {
    seen.add(key.fairnessKey);
    const line = { partition, type, key };
    yield { ...view, type, tier, ...(await waitingOf(context, line, inFlight, parked, countUpTo)) };
  }
  const parkedOnly = parked.keysOf(type).filter((fairnessKey) => !seen.has(fairnessKey));
  for await (const view of viewsByPage(context, partition, parkedOnly, held, controls))
    yield { ...view, type, tier, ...boundedCount(countUpTo, parked.of(type, view.fairnessKey)) };
}

interface SeenKey {
  readonly key: KeyBacklog;
  readonly view: KeyView;
}

/**
 * Keys with backlog of a type, the least settled share first. The store orders keys of ordinary weight; keys with a
 * weight of their own are merged in.
 */
async function* keysByShare(
  context: OperateContext,
  partition: number,
  type: string,
  held: ReadonlyMap<string, InFlight>,
  controls: readonly Control[],
): AsyncGenerator<SeenKey> {
  const { store, configuration } = context;
  const seen = async (keys: readonly KeyBacklog[]): Promise<SeenKey[]> => {
    const views = await viewsOf(context, partition, keys, held, controls);
    return keys.flatMap((key, at) => {
      const view = views[at];
      return view === undefined ? [] : [{ key, view }];
    });
  };
  const settledShare = ({ view }: SeenKey): number => view.settledCostMs / view.weight;
  const { named } = weightsWithOverrides(configuration, controls);
  const backlogs = await store.readBacklogs({ partition, type, fairnessKeys: named });
  const weighted = await seen(backlogs.filter((key) => key !== undefined));
  weighted.sort((one, other) => settledShare(one) - settledShare(other));
  for await (const { keys } of pagesOf((after: string | undefined) =>
    store.readKeys({ partition, type, limit: PAGE, after }),
  )) {
    for (const each of await seen(keys.filter(({ fairnessKey }) => !named.includes(fairnessKey)))) {
      while (weighted[0] !== undefined && settledShare(weighted[0]) < settledShare(each)) {
        yield weighted[0];
        weighted.shift();
      }
      yield each;
    }
  }
  yield* weighted;
}

async function* viewsByPage(
  context: OperateContext,
  partition: number,
  fairnessKeys: readonly string[],
  held: ReadonlyMap<string, InFlight>,
  controls: readonly Control[],
): AsyncGenerator<KeyView> {
  const keys = fairnessKeys.map((fairnessKey) => ({ fairnessKey }));
  for (let from = 0; from < keys.length; from += PAGE)
    yield* await viewsOf(context, partition, keys.slice(from, from + PAGE), held, controls);
}

async function viewsOf(
  context: OperateContext,
  partition: number,
  keys: readonly Pick<KeyBacklog, 'fairnessKey'>[],
  held: ReadonlyMap<string, InFlight>,
  controls: readonly Control[],
): Promise<readonly KeyView[]> {
  const { store, clock, configuration } = context;
  const { maxConcurrencyPerKey } = configuration.fairness;
  const nowMs = clock.nowMs();
  // The ledger cache applies a pass's rules: expired ledgers do not count, and a reset clears a ledger's cost.
  const ledgerCache = new LedgerCache(
    store,
    configuration,
    partition,
    nowMs,
    openCache(new Map(), partition, undefined),
  );
  ledgerCache.know({ ledgers: [], estimates: [], controls });
  await ledgerCache.readLedgers(keys.map(({ fairnessKey }) => fairnessKey));
  return keys.map(({ fairnessKey }) => {
    const control = controls.find(({ scope }) => scope === printScope({ fairnessKey }));
    const { count, costMs } = held.get(fairnessKey) ?? { count: 0, costMs: 0 };
    const settledCostMs = ledgerCache.ledgerOf(fairnessKey)?.settledCostMs ?? 0;
    const weight = ledgerCache.weightOf(fairnessKey);
    const maxConcurrency = control?.maxConcurrency ?? maxConcurrencyPerKey;
    return {
      fairnessKey,
      waiting: 0,
      more: false,
      inFlight: count,
      inFlightCostMs: costMs,
      settledCostMs,
      weight,
      shareMs: (settledCostMs + costMs) / weight,
      paused: control?.paused ?? false,
      ...(maxConcurrency === null ? {} : { maxConcurrency }),
    };
  });
}

/** Counts waiting jobs. Reserved jobs stay in their line until they start, and do not count. */
async function waitingOf(
  context: OperateContext,
  { partition, type, key }: { readonly partition: number; readonly type: string; readonly key: KeyBacklog },
  held: HeldJobs,
  parked: ParkedCounts,
  countUpTo: number,
): Promise<{ readonly waiting: number; readonly more: boolean }> {
  let waiting = 0;
  for (const line of key.lines) {
    const named = { ...line, type, fairnessKey: key.fairnessKey };
    if (waiting >= countUpTo) return { waiting, more: true };
    const { jobs, next } = await context.store.readLine({
      partition,
      line: named,
      limit: countUpTo - waiting + held.countIn(named),
    });
    waiting += jobs.filter((head) => !isHeld(held, head)).length;
    if (waiting > countUpTo) return { waiting: countUpTo, more: true };
    if (next !== undefined) return { waiting, more: true };
  }
  const ofParked = parked.of(type, key.fairnessKey);
  return boundedCount(countUpTo, { ...ofParked, waiting: waiting + ofParked.waiting });
}

const boundedCount = (countUpTo: number, { waiting, more }: ParkedCount): ParkedCount => ({
  waiting: Math.min(waiting, countUpTo),
  more: more || waiting > countUpTo,
});

/** A type, with what was learned from its attempts. */
export interface TypeView {
  readonly type: string;
  readonly tier: string;
  readonly timeoutMs: number;
  readonly onWorkerLost: JobTypeConfiguration['onWorkerLost'];
  /** The successful attempts that the figures were learned from; 0 if nothing is known. */
  readonly samples: number;
  /** The mean duration of an attempt. */
  readonly meanMs?: number | undefined;
  /** How long successful attempts ordinarily take at most. A handler that is silent for longer may be lost or stuck. */
  readonly ordinarilyWithinMs?: number | undefined;
  /** The JSON Schema of the payload; undefined if the type was declared without a schema. */
  readonly payloadSchema?: unknown;
}

/**
 * Reads every declared type, in the order of the configuration. The figures are those of the partition with the most
 * samples.
 */
export async function readTypes(context: OperateContext): Promise<readonly TypeView[]> {
  const { store, clock, configuration, payloadSchemas = {} } = context;
  const nowMs = clock.nowMs();
  const ids = configuration.types.map(({ type }) => ({ type, resourceId: TYPE_AVERAGE_RESOURCE }));
  const best: (EstimateRecord | undefined)[] = ids.map(() => undefined);
  for (const partition of partitionsOf(context)) {
    for (let from = 0; from < ids.length; from += PAGE) {
      const learned = await store.getEstimates({ partition, ids: ids.slice(from, from + PAGE) });
      for (const [at, each] of learned.entries())
        if (each !== undefined && each.samples > (best[from + at]?.samples ?? 0)) best[from + at] = each;
    }
  }
  return configuration.types.map(({ type, tier, timeoutMs, onWorkerLost }, at) => {
    const known = best[at];
    const withinMs = ordinarilyWithinMs(known, configuration.fairness, nowMs);
    return {
      type,
      tier,
      timeoutMs,
      onWorkerLost,
      samples: known?.samples ?? 0,
      ...(known === undefined ? {} : { meanMs: known.meanMs }),
      ...(withinMs === undefined ? {} : { ordinarilyWithinMs: withinMs }),
      ...(Object.hasOwn(payloadSchemas, type) ? { payloadSchema: payloadSchemas[type] } : {}),
    };
  });
}

/** A fleet as it is now. */
export interface FleetView {
  readonly fleet: string;
  readonly types: readonly string[];
  /** The declared slots, or those of the fleet's live workers. */
  readonly slots: number;
  /** Slots that jobs hold: reserved, claimed or running. */
  readonly busy: number;
  readonly paused: boolean;
  /** Undefined if the fleet's slots are its only cap. */
  readonly maxConcurrency?: number | undefined;
  /** Workers that register their slots; a Lambda fleet has none. */
  readonly workers: readonly WorkerRecord[];
}

/** Reads every fleet, in the order of the configuration. */
export async function readFleets(context: OperateContext): Promise<readonly FleetView[]> {
  const nowMs = context.clock.nowMs();
  const states = await Promise.all(
    partitionsOf(context).map((partition) => context.store.loadPartition({ partition, nowMs })),
  );
  return context.configuration.fleets.map(({ fleet, types, slots }) => {
    const scope = printScope({ fleet });
    const workers = states.flatMap((state) => state.workers.filter((worker) => worker.fleet === fleet));
    const busy = states
      .flatMap((state) => state.reservations)
      .flatMap(({ jobs }) => [...jobs.values()])
      .filter((entry) => entry.fleet === fleet).length;
    const control = combinedControl(
      scope,
      states.flatMap((state) => state.controls.filter((each) => each.scope === scope)),
    );
    return {
      fleet,
      types,
      slots: slots ?? workers.reduce((total, worker) => total + worker.slots, 0),
      busy,
      paused: control.paused,
      ...(control.maxConcurrency === undefined ? {} : { maxConcurrency: control.maxConcurrency }),
      workers,
    };
  });
}

/** The declaration, and how many waiting jobs were moved to where it wants them. */
export interface DeclarationView {
  /** 0 if the table holds no declaration. */
  readonly version: number;
  readonly types: readonly string[];
  readonly tiers: readonly string[];
  readonly fleets: readonly string[];
  /** Former types. Their jobs wait until the type is declared again, or until they are cancelled. */
  readonly formerTypes: readonly string[];
  readonly partitions: readonly PartitionCarried[];
}

export interface PartitionCarried {
  readonly partition: number;
  /** The newest version that the partition was notified of. */
  readonly told: number;
  /** Jobs that were moved for the version that is being carried over, or was last. */
  readonly moved: number;
  readonly carriedVersion: number;
  readonly isDone: boolean;
  /** Jobs in flight in other partitions may keep jobs here from starting. */
  readonly isHandingOver: boolean;
}

/** Reads a version of the declaration, and how far each partition has applied it. */
export async function readDeclarationView(
  context: OperateContext,
  version: number,
): Promise<DeclarationView> {
  const { configuration, formerTypes = [], shared, store, clock } = context;
  const partitions = await Promise.all(
    partitionsOf(context).map(async (partition): Promise<PartitionCarried> => {
      const { declared = 0, carried } = await store.loadPartition({ partition, nowMs: clock.nowMs() });
      return {
        partition,
        told: declared,
        moved: carried?.moved ?? 0,
        carriedVersion: carried?.version ?? 0,
        isDone: version === 0 || (carried?.isDone === true && carried.version >= version),
        isHandingOver: handoverInProgress(configuration, shared, partition, carried) !== undefined,
      };
    }),
  );
  return {
    version,
    types: configuration.types.map(({ type }) => type),
    tiers: configuration.tiers.map(({ tier }) => tier),
    fleets: configuration.fleets.map(({ fleet }) => fleet),
    formerTypes,
    partitions,
  };
}
