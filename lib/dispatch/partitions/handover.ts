/**
 * A handover follows a redeploy that changes what partitions share: their number, the caps that are divided among them, or the
 * conflict groups of types. Jobs that were planned under the former declaration may still run in other partitions, and this
 * partition does not count them:
 *
 *  - A partition that has not adopted the new declaration may still start jobs under the former one. Until all have adopted it,
 *    no job starts.
 *  - If another partition runs more jobs than its new share, this one starts as many fewer, so that all together stay within the
 *    cap.
 *  - Jobs of this partition's keys that run in a key's former partition count towards the key's cap.
 *  - Jobs that were claimed under the former declaration hold their conflict keys, even if no lock says so.
 *
 * Reading the other partitions is enough, for this reason. A partition notes by a commit that it has adopted a declaration, and
 * which version this commit made (`sinceVersion`). Every later commit follows that version, so its pass has loaded the note. A
 * read that began after the note was seen therefore shows everything that was planned under a former declaration. From then on
 * this can only shrink, because no later pass claims a job of another partition's key or exceeds its share. So an old read never
 * shows too little, and may be used for any length of time. Once nothing is left, the partition notes that too, and no pass reads
 * the others any more.
 */
import type { Control } from '../../core/capacity.ts';
import type { PoolConfiguration } from '../../core/configuration.ts';
import { typesByName } from '../../core/conflict.ts';
import type { ReservedJob } from '../../core/job.ts';
import { fleetScope, type LoanBalance, loanBalance, NO_LOANS } from '../../core/lending.ts';
import { limitsOf } from '../../core/limits.ts';
import { partitionOf, shareOfOverrides } from '../../core/partition.ts';
import {
  declaredCapOf,
  parkingKeysFor,
  parkingKeysOf,
  parseScope,
  printScope,
  scopesOfType,
} from '../../core/scope.ts';
import type { DeclarationState } from '../../declaration/declaration.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { DeclarationProgress, PartitionState } from '../../store/contract/records.ts';
import { type Commits, EMPTY_COMMIT } from '../partition/commits.ts';
import type { DispatchContext } from '../partition/context.ts';
import { wakeLater } from '../partition/timers.ts';
import { BESIDE_MAX, ELSEWHERE_MS } from '../tuning.ts';
import type { HandoverMemory } from '../view/partition-cache.ts';
import { roomsOf } from './loans.ts';

/** Jobs in flight in other partitions that keep jobs of this one from starting. */
export interface OtherPartitions {
  /**
   * The numbers of the partitions that may still plan under the former declaration, or that were not read yet. While
   * there are any, no job starts.
   */
  readonly behind: readonly number[];
  /** By scope: how many jobs other partitions run above their shares. */
  readonly above: ReadonlyMap<string, number>;
  /** By scope of a fairness key of this partition, by itself and in each limit: how many of the key's jobs run in other partitions. */
  readonly ofKeys: ReadonlyMap<string, number>;
  readonly conflictKeys: ReadonlySet<string>;
  /**
   * Whether the last of the other partitions has just adopted the declaration. It may have copied controls to this
   * partition that this pass has not read, so only the next pass may start jobs.
   */
  readonly isNews: boolean;
}

export const NO_OTHERS: OtherPartitions = {
  behind: [],
  isNews: false,
  above: new Map(),
  ofKeys: new Map(),
  conflictKeys: new Set(),
};

/** Jobs in flight in one other partition that keep jobs of this one from starting. */
interface Blocking {
  readonly above: ReadonlyMap<string, number>;
  /** By scope of a fairness key that does not belong to the other partition: how many of the key's jobs run there. */
  readonly ofKeys: ReadonlyMap<string, number>;
  readonly conflictKeys: ReadonlySet<string>;
}

/**
 * Returns the declaration whose handover is in progress. Undefined: no handover is in progress, and a pass need not
 * read other partitions.
 */
export function handoverInProgress<Shared extends Pick<DeclarationState, 'partitionsEver' | 'sharedSince'>>(
  { partitions }: PoolConfiguration,
  shared: Shared | undefined,
  partition: number,
  carried: DeclarationProgress | undefined,
): Shared | undefined {
  if (shared === undefined || shared.sharedSince === 0 || shared.partitionsEver === 1) return undefined;
  // A partition that the declaration has removed starts no jobs.
  if (partition >= partitions) return undefined;
  return carried?.isHandedOver === true && carried.version >= shared.sharedSince ? undefined : shared;
}

/**
 * Reads other partitions while a handover is in progress.
 *
 * @throws CommitLostError if another commit came first
 */
export async function readOtherPartitions(
  context: DispatchContext,
  partition: number,
  commits: Commits,
  input: {
    readonly carried: DeclarationProgress | undefined;
    readonly controls: readonly Control[];
    readonly cached: { handover?: HandoverMemory | undefined };
    /** Receives conflict keys that other partitions' jobs held at the last read and no longer hold. */
    readonly freedKeys: Set<string>;
    readonly nowMs: number;
    readonly inBackground: (work: Promise<unknown>) => void;
  },
): Promise<OtherPartitions> {
  const { clock, configuration, log } = context;
  const { carried, controls, cached } = input;
  const deployed = handoverInProgress(configuration, context.deployed, partition, carried);
  if (deployed === undefined) return NO_OTHERS;
  const monotonicMs = clock.monotonicMs();
  const memory = memoryOf(cached.handover, deployed.sharedSince, monotonicMs);
  cached.handover = memory;
  const before = elsewhereOf(configuration, deployed, memory, partition, controls);
  const isDue = monotonicMs >= memory.lookAtMonotonicMs;
  if (isDue) await readSome(context, deployed, memory, partition, input);
  const after = elsewhereOf(configuration, deployed, memory, partition, controls);
  // The partitions that were behind have copied their controls to this one before they noted the adoption. This pass loaded its
  // partition before it read those notes, so it lacks the controls: the next pass has them.
  const isNews = before.behind.length > 0 && after.behind.length === 0;
  // planted: let-go-of-all
  for (const conflictKey of before.conflictKeys)
    if (!after.conflictKeys.has(conflictKey)) input.freedKeys.add(conflictKey);
  if (memory.over.size === deployed.partitionsEver - 1) {
    cached.handover = undefined;
    const done = {
      ...(carried ?? { version: deployed.version, moved: 0, isDone: true }),
      isHandedOver: true,
    };
    await commits.write({ ...EMPTY_COMMIT, carried: done });
    log.info('the handover is over', { partition, version: deployed.sharedSince });
    return isNews ? { ...NO_OTHERS, behind: before.behind, isNews } : NO_OTHERS;
  }
  if (isDue) {
    const delayMs = delayOf(memory, deployed, monotonicMs);
    memory.lookAtMonotonicMs = monotonicMs + delayMs;
    input.inBackground(wakeLater(context, partition, delayMs));
  }
  return isNews ? { ...after, behind: before.behind, isNews } : after;
}

/**
 * Returns how many milliseconds to wait before the next read. The time is short while some partitions were not read at
 * all.
 */
function delayOf(
  { beganMonotonicMs, states, over }: HandoverMemory,
  { partitionsEver }: Pick<DeclarationState, 'partitionsEver'>,
  monotonicMs: number,
): number {
  // planted: cut-looks
  if (states.size + over.size < partitionsEver - 1) return ELSEWHERE_MS;
  return Math.min(30 * ELSEWHERE_MS, Math.max(ELSEWHERE_MS, (monotonicMs - beganMonotonicMs) / 4));
}

function memoryOf(known: HandoverMemory | undefined, since: number, monotonicMs: number): HandoverMemory {
  if (known?.since === since) return known;
  return {
    since,
    beganMonotonicMs: monotonicMs,
    noted: new Set(),
    states: new Map(),
    over: new Set(),
    cursor: 0,
    lookAtMonotonicMs: monotonicMs,
  };
}

/** Reads partitions that were not read yet, or had blocking jobs when they were last read. */
async function readSome(
  { store, configuration }: Pick<DispatchContext, 'store' | 'configuration'>,
  { partitionsEver, sharedSince }: Pick<DeclarationState, 'partitionsEver' | 'sharedSince'>,
  memory: HandoverMemory,
  partition: number,
  { nowMs, controls }: { readonly nowMs: number; readonly controls: readonly Control[] },
): Promise<void> {
  const others = Array.from({ length: partitionsEver }, (_, at) => (memory.cursor + at) % partitionsEver);
  const some = others.filter((other) => other !== partition && !memory.over.has(other)).slice(0, BESIDE_MAX);
  await Promise.all(
    some.map(async (other) => {
      let state = await store.loadPartition({ partition: other, nowMs, withoutLedgers: true });
      if (!memory.noted.has(other) && hasAdopted(state, sharedSince)) {
        // The partition has noted the adoption. It is read once more, because only a read that began after the note shows everything
        // that was reserved before it.
        memory.noted.add(other);
        // planted: read-too-early
        state = await store.loadPartition({ partition: other, nowMs, withoutLedgers: true });
      }
      const blocking = memory.noted.has(other)
        ? blockingOf(configuration, other, state, controls)
        : undefined;
      if (blocking !== undefined && isNothing(blocking)) {
        memory.over.add(other);
        memory.states.delete(other);
      } else memory.states.set(other, state);
    }),
  );
  memory.cursor = ((some.at(-1) ?? partition) + 1) % partitionsEver;
}

const hasAdopted = ({ carried }: Pick<PartitionState, 'carried'>, since: number): boolean =>
  // planted: come-to-any
  carried !== undefined && carried.version >= since;

const isNothing = ({ above, ofKeys, conflictKeys }: Blocking): boolean =>
  above.size + ofKeys.size + conflictKeys.size === 0;

/**
 * Returns how the jobs in flight in another partition keep jobs of this one from starting: the jobs above its share,
 * the jobs of keys that no longer belong to it, and the conflict keys of jobs that were planned under a former
 * declaration.
 */
function blockingOf(
  configuration: PoolConfiguration,
  other: number,
  state: PartitionState,
  controls: readonly Control[],
): Blocking {
  const { partitions } = configuration;
  const { sinceVersion = 0 } = state.carried ?? {};
  const ofKeys = new Map<string, number>();
  const conflictKeys = new Set<string>();
  const busy = new Map<string, number>();
  for (const { version, jobs } of state.reservations) {
    for (const entry of jobs.values()) {
      const { fairnessKey } = entry;
      busy.set(fleetScope(entry.fleet), (busy.get(fleetScope(entry.fleet)) ?? 0) + 1);
      if (partitionOf(fairnessKey, partitions) !== other)
        for (const scope of scopesOfKey(configuration, entry)) addTo(ofKeys, scope, 1);
      // planted: comes-and-plans-on
      if (version < sinceVersion)
        for (const each of parkingKeysOf(configuration, entry)) conflictKeys.add(each);
    }
  }
  const above = aboveShare(configuration, other, { ...state, controls }, busy);
  return { above, ofKeys, conflictKeys };
}

/** The scopes of its fairness key in which a job in flight counts. */
const scopesOfKey = (configuration: PoolConfiguration, entry: ReservedJob): readonly string[] => [
  printScope({ fairnessKey: entry.fairnessKey }),
  ...limitsOf(configuration, entry)
    .filter(({ keyedBy }) => keyedBy === undefined)
    .map(({ limit }) => printScope({ limit, key: entry.fairnessKey })),
];

const addTo = (counts: Map<string, number>, name: string, count: number): void =>
  void counts.set(name, (counts.get(name) ?? 0) + count);

/** Returns, by scope, how many jobs another partition has above its share. `busy`: its jobs in flight by fleet. */
function aboveShare(
  configuration: PoolConfiguration,
  other: number,
  state: PartitionState,
  busy: ReadonlyMap<string, number>,
): Map<string, number> {
  const { partitions } = configuration;
  const above = new Map<string, number>();
  const held = state.reservations.flatMap(({ jobs }) => [...jobs.values()]);
  // A borrowed slot is the borrower's until it is returned. The lender counts it only after that.
  // planted: borrowed-and-above
  const moved = partitions === 1 ? NO_LOANS : loanBalance(state.loans, other, Number.NEGATIVE_INFINITY);
  const rooms = roomsOf({ configuration }, state, other, held, moved);
  for (const [scope, { held: count, capacity }] of rooms)
    if (count > capacity) above.set(scope, count - capacity);
  for (const { scope, maxConcurrency } of limitsOfFleets(state.controls, other, configuration)) {
    const count = busy.get(scope) ?? 0;
    // planted: fleet-limits-alone
    if (count > maxConcurrency) above.set(limitOf(scope), count - maxConcurrency);
  }
  return above;
}

/** Returns the scope of an operator's limit on a fleet, apart from the fleet's slots. */
const limitOf = (scope: string): string => `limit of ${scope}`;

const limitsOfFleets = (
  controls: readonly Control[],
  partition: number,
  configuration: PoolConfiguration,
): readonly { readonly scope: string; readonly maxConcurrency: number }[] =>
  shareOfOverrides(controls, partition, configuration).flatMap(({ scope, maxConcurrency }) =>
    maxConcurrency === undefined ? [] : [{ scope, maxConcurrency }],
  );

/** Sums up what is known of all other partitions. */
function elsewhereOf(
  configuration: PoolConfiguration,
  { partitionsEver }: Pick<DeclarationState, 'partitionsEver'>,
  { noted, over, states }: Pick<HandoverMemory, 'noted' | 'over' | 'states'>,
  partition: number,
  controls: readonly Control[],
): OtherPartitions {
  const behind: number[] = [];
  const above = new Map<string, number>();
  const ofKeys = new Map<string, number>();
  const conflictKeys = new Set<string>();
  const livesHere = (scope: string): boolean =>
    partitionOf(keyOf(scope), configuration.partitions) === partition;
  for (let other = 0; other < partitionsEver; other += 1) {
    if (other === partition || over.has(other)) continue;
    const state = states.get(other);
    if (state === undefined || !noted.has(other)) {
      behind.push(other);
      continue;
    }
    const blocking = blockingOf(configuration, other, state, controls);
    // planted: shares-alone
    for (const [scope, count] of blocking.above) addTo(above, scope, count);
    for (const [scope, count] of blocking.ofKeys) if (livesHere(scope)) addTo(ofKeys, scope, count);
    // planted: lockless-neighbour
    for (const conflictKey of blocking.conflictKeys) conflictKeys.add(conflictKey);
  }
  return { behind, above, ofKeys, conflictKeys, isNews: false };
}

/** Returns the fairness key in the text of a scope of a key. */
function keyOf(text: string): string {
  const scope = parseScope(text);
  if (typeof scope !== 'object') return '';
  return 'limit' in scope ? (scope.key ?? '') : 'fairnessKey' in scope ? scope.fairnessKey : '';
}

/** Returns the loans to this partition, less the jobs that other partitions run above their shares. */
export const loansLessOthers = (moved: LoanBalance, { above }: OtherPartitions): LoanBalance =>
  above.size === 0 ? moved : (scope, under) => moved(scope, under) - (above.get(scope) ?? 0);

/** Free slots of fleets with registered workers, less the slots that other partitions use above their shares. */
export function slotsLessOthers(
  free: ReadonlyMap<string, number>,
  { fleets }: PoolConfiguration,
  { above }: OtherPartitions,
): ReadonlyMap<string, number> {
  if (above.size === 0) return free;
  const registered = new Set(fleets.flatMap(({ fleet, slots }) => (slots === null ? [fleet] : [])));
  return new Map(
    [...free].map(([fleet, slots]) => {
      const taken = registered.has(fleet) ? (above.get(fleetScope(fleet)) ?? 0) : 0;
      return [fleet, Math.max(0, slots - taken)];
    }),
  );
}

/** Returns the operators' overrides, with caps lowered by other partitions' jobs in flight. */
export function overridesLessOthers(
  overrides: readonly Control[],
  configuration: PoolConfiguration,
  { behind, above, ofKeys }: OtherPartitions,
): readonly Control[] {
  const byScope = new Map(overrides.map((control) => [control.scope, control]));
  for (const { scope, maxConcurrency, ...rest } of overrides) {
    const taken = above.get(limitOf(scope)) ?? 0;
    // planted: fleet-limits-whole
    if (taken > 0 && maxConcurrency !== undefined)
      byScope.set(scope, { ...rest, scope, maxConcurrency: Math.max(0, maxConcurrency - taken) });
  }
  for (const [scope, count] of ofKeys) {
    const control = byScope.get(scope) ?? { scope, paused: false };
    const cap = control.maxConcurrency ?? declaredCapOf(configuration, scope);
    // planted: key-twice
    if (cap !== null) byScope.set(scope, { ...control, maxConcurrency: Math.max(0, cap - count) });
  }
  // planted: first-to-come
  if (behind.length > 0) {
    const scope = 'pool';
    byScope.set(scope, { ...(byScope.get(scope) ?? { scope }), paused: true });
  }
  return [...byScope.values()];
}

/** A reason in another partition why a job does not start. */
export interface HandoverWait {
  readonly why: 'handover';
  readonly partition: number;
  /**
   * The reason. `declaration`: that partition has not adopted the new declaration. `cap`, `conflict`: its jobs hold the
   * cap or the conflict key.
   */
  readonly holds: 'declaration' | 'cap' | 'conflict';
  readonly name?: string | undefined;
}

/**
 * For `explain`: the reasons in a handover why a ready job does not start. With many partitions, only those that a pass reads
 * first are named.
 */
export async function waitsOnHandover(
  context: Pick<DispatchContext, 'store' | 'configuration' | 'clock'>,
  shared: Pick<DeclarationState, 'partitionsEver' | 'sharedSince'>,
  job: Pick<JobHead, 'partition' | 'type' | 'fairnessKey' | 'resourceId' | 'keys'>,
  state: PartitionState,
): Promise<readonly HandoverWait[]> {
  const { configuration, clock } = context;
  const { partition, fairnessKey } = job;
  if (handoverInProgress(configuration, shared, partition, state.carried) === undefined) return [];
  const memory = memoryOf(undefined, shared.sharedSince, clock.monotonicMs());
  await readSome(context, shared, memory, partition, { nowMs: clock.nowMs(), controls: state.controls });
  const type = typesByName(configuration).get(job.type);
  const ownConflictKeys = parkingKeysFor(configuration, job);
  const held = state.reservations.flatMap(({ jobs }) => [...jobs.values()]);
  const rooms = roomsOf(
    { configuration },
    state,
    partition,
    held,
    loanBalance(state.loans, partition, clock.nowMs()),
  );
  const keyScope = printScope({ fairnessKey });
  const control = state.controls.find(({ scope }) => scope === keyScope);
  const keyCap = control?.maxConcurrency ?? configuration.fairness.maxConcurrencyPerKey;
  const scopes = scopesOfType(configuration, type?.tier ?? '', job.type).concat(
    configuration.fleets
      .filter(({ types }) => types.includes(job.type))
      .map(({ fleet }) => fleetScope(fleet)),
  );
  const limits = new Map(
    limitsOfFleets(state.controls, partition, configuration).map((limit) => [
      limit.scope,
      limit.maxConcurrency,
    ]),
  );
  // As in a pass, the counts of all partitions are added up, and each partition with a part in them is named.
  const all = elsewhereOf(configuration, shared, memory, partition, state.controls);
  const takes = (scope: string): number => all.above.get(scope) ?? 0;
  const isShort = (scope: string): boolean => {
    const room = rooms.get(scope);
    return room !== undefined && room.held + takes(scope) >= room.capacity;
  };
  const isLimitShort = (scope: string): boolean => {
    const limit = limits.get(scope);
    const busy = held.filter(({ fleet }) => fleetScope(fleet) === scope).length;
    return limit !== undefined && busy + takes(limitOf(scope)) >= limit;
  };
  const here = held.filter((entry) => entry.fairnessKey === fairnessKey).length;
  const isKeyShort = keyCap !== null && here + (all.ofKeys.get(keyScope) ?? 0) >= keyCap;
  return [...memory.states].flatMap(([other, seen]): readonly HandoverWait[] => {
    const wait = { why: 'handover', partition: other } as const;
    if (!memory.noted.has(other)) return [{ ...wait, holds: 'declaration' }];
    const { above, ofKeys, conflictKeys } = blockingOf(configuration, other, seen, state.controls);
    const short = scopes.filter(
      (scope) => (above.has(scope) && isShort(scope)) || (above.has(limitOf(scope)) && isLimitShort(scope)),
    );
    return [
      ...[...short, ...(ofKeys.has(keyScope) && isKeyShort ? [keyScope] : [])].map(
        (name): HandoverWait => ({ ...wait, holds: 'cap', name }),
      ),
      ...ownConflictKeys
        .filter((conflictKey) => conflictKeys.has(conflictKey))
        .map((name): HandoverWait => ({ ...wait, holds: 'conflict', name })),
    ];
  });
}
