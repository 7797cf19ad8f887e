/** Reads for operators: keys with their costs and backlog, fleets with their slots, types, and the declaration. */

import { type Control, weightsWithOverrides } from '../core/capacity.ts';
import type { JobTypeConfiguration } from '../core/configuration.ts';
import { ordinarilyWithinMs, TYPE_AVERAGE_RESOURCE } from '../core/estimate.ts';
import { printScope } from '../core/scope.ts';
import { type HeldJobs, heldIn, isHeld } from '../dispatch/partition/depth.ts';
import { handoverInProgress } from '../dispatch/partitions/handover.ts';
import { chargedOf, LedgerCache } from '../dispatch/view/ledger-cache.ts';
import { openCache } from '../dispatch/view/partition-cache.ts';
import { allEnded } from '../runtime/all-ended.ts';
import { pagesOf } from '../store/contract/pages.ts';
import type { EstimateRecord, KeyBacklog, WorkerRecord } from '../store/contract/records.ts';
import { combinedControl, type OperateContext, partitionsOf } from './controls.ts';
import { formerTypesOf } from './list-jobs.ts';
import { countParked, type ParkedCount, type ParkedCounts } from './parked-lines.ts';

const PAGE = 100;

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
  /**
   * The key's settled cost and its cost in flight, together, divided by its weight. The key with the least share is
   * served first.
   */
  readonly shareMs: number;
  readonly paused: boolean;
  /** The cap of the key; undefined if it has none of its own. */
  readonly maxConcurrency?: number | undefined;
}

interface InFlight {
  readonly count: number;
  readonly costMs: number;
}

interface ShownType {
  readonly type: string;
  /** The tier of the type; undefined if the type is not declared any more. */
  readonly tier?: string | undefined;
}

/** Returns the declared types, tier by tier, then the former ones. */
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
  /** How many successful attempts the figures were learned from; 0 if nothing is known. */
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
  /** An operator's cap of the fleet; undefined if the fleet's slots are its only cap. */
  readonly maxConcurrency?: number | undefined;
  /** Workers that register their slots; a Lambda fleet has none. */
  readonly workers: readonly WorkerRecord[];
}

/** Reads every fleet, in the order of the configuration. */
export async function readFleets(context: OperateContext): Promise<readonly FleetView[]> {
  const nowMs = context.clock.nowMs();
  const states = await allEnded(
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
  /** The version of the declaration; 0 if the table holds none. */
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
  /** The newest version of the declaration of which the partition was notified. */
  readonly told: number;
  /** How many jobs were moved for `carriedVersion`, the version for which jobs are moved now, or were moved last. */
  readonly moved: number;
  readonly carriedVersion: number;
  readonly isDone: boolean;
  /** Whether jobs in flight in other partitions may keep jobs here from starting. */
  readonly isHandingOver: boolean;
}

/** Reads a version of the declaration, and how far each partition has applied it. */
export async function readDeclarationView(
  context: OperateContext,
  version: number,
): Promise<DeclarationView> {
  const { configuration, formerTypes = [], shared, store, clock } = context;
  const partitions = await allEnded(
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
