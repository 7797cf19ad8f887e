/**
 * Invariants 8 and 11 after every pass: what starts next is what the policy says, and nothing that may start is left
 * waiting. What may start, and what goes before what, is read off the items by a policy of its own, which shares no code
 * with the planner's.
 *
 * A pass knows a job that waits
 *  - if it was told of it: a dispatcher was shown it, by the stream or by whoever stored it, and its run of passes ended well,
 *    `toldMs` before the pass read the partition; where dispatchers may freeze, nobody can say which of them knew it when;
 *  - if it has waited in its line for `seenMs`: by then every line that is opened has been read again, whatever a dispatcher remembers;
 *  - if it is parked, once its conflict key has been free for `parkedMs`: by then the round over all marks has come to it.
 *
 * Of what a pass knows,
 *  8. nothing may start any more when its dispatcher says that it is done;
 * 11. nothing that waits, and could have had the place of a job that a commit reserves, comes before that by the policy.
 *
 * A commit shows what was settled, lifted and reserved, and not in which step: so a job counts as first only if it was so at
 * each step. What depends on the order of a batch, and ties between keys, are left to the differential test.
 *
 * In a pool of several partitions each has shares of the caps, which move, and conflict keys have locks: what may start there is said
 * by other invariants. What has the same type and key meets the same caps wherever these stand, so of what waits in one partition
 * without a conflict key, the order within such lines is held there, too.
 */
import { controlAt, isClosed } from '../../lib/core/capacity.ts';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { conflictKeyFor, typesByName } from '../../lib/core/conflict.ts';
import type { Job, ReservedJob } from '../../lib/core/job.ts';
import type { WorkerRecord } from '../../lib/store/contract/records.ts';
import type { Commit } from '../../lib/store/contract/requests.ts';
import type { PartitionView } from '../../lib/store/memory/items.ts';

export interface OrderBounds {
  /** Undefined: being told proves nothing. */
  readonly toldMs: number | undefined;
  readonly seenMs: number;
  readonly parkedMs: number;
}

export interface OrderOptions {
  readonly configuration: PoolConfiguration;
  /** There is more than one partition, or will be. */
  readonly isDivided: boolean;
  readonly bounds: OrderBounds;
  readonly nowMs: () => number;
  /** The most that clocks differ. */
  readonly skewMaxMs: number;
  /** The line in which a job stands is a conflict key's. */
  readonly isParked: (id: string) => boolean;
  readonly conflictKeyOf: (job: Job) => string | undefined;
}

interface Waiting {
  readonly job: Job;
  readonly tier: string;
  readonly conflictKey: string | undefined;
  readonly keyScope: string;
  readonly conflictScope: string | undefined;
  readonly sinceMs: number;
  toldAtMs: number | undefined;
}

/** What a dispatcher has read of its partition, and when. */
export interface Loaded {
  readonly atMs: number;
  /** The partition's, as it was loaded. */
  readonly version: number;
  /** The declaration that the partition was told of. */
  readonly declared: number;
  /** What was allowed then. */
  readonly controls: readonly unknown[];
  /** By name: the lives of the workers that were there, and their slots. */
  readonly workers: ReadonlyMap<string, string>;
}

/** What is held and allowed, and what of it a dispatcher has read. */
interface World {
  readonly view: PartitionView;
  readonly loaded: Loaded;
}

/** What holds capacity, counted. */
interface Held {
  readonly counts: ReadonlyMap<string, number>;
  /** By fairness key: what is charged for it. */
  readonly chargedMs: ReadonlyMap<string, number>;
  readonly ids: ReadonlySet<string>;
}

/** Of a batch, so many places are looked at: the first ones, and the last. */
const PLACES_LOOKED_AT = 4;
const COST_TOLERANCE_MS = 1e-6;
/** Scores of one key in several types or modes are compared where the difference is more than rarity, and clocks, can make. */
const SCORE_TOLERANCE = 700;

type Types = ReadonlyMap<string, PoolConfiguration['types'][number]>;

/** A job in flight keeps the conflict key of its claim, and others from that of the group that its type has by now. */
function conflictsOf({ type, conflictKey, resourceId }: ReservedJob, types: Types): readonly string[] {
  const resource = conflictKey === undefined ? resourceId : conflictKey.slice(conflictKey.indexOf('/') + 1);
  const present = conflictKeyFor(types.get(type), resource);
  return [...new Set([conflictKey, present])].filter((key) => key !== undefined);
}

const scopesOf = (entry: ReservedJob, types: Types, limits: Limits): readonly string[] => [
  ...scopesIn(entry, conflictsOf(entry, types)),
  ...limitScopesOf(entry, [...(entry.limits ?? []), ...(types.get(entry.type)?.limits ?? [])], limits),
];

type Limits = NonNullable<PoolConfiguration['limits']>;

/** Each limit, and its part that is of the job's key. */
const limitScopesOf = (
  { fairnessKey, keys }: Pick<Job, 'fairnessKey' | 'keys'>,
  names: readonly string[],
  limits: Limits,
): ReadonlySet<string> =>
  new Set(
    limits.flatMap(({ limit, keyedBy }) => {
      const key = keyedBy === undefined ? fairnessKey : keys?.[keyedBy];
      return names.includes(limit) ? [`limit/${limit}`, `limit/${limit}/${key}`] : [];
    }),
  );

const scopesIn = (
  { type, tier, fairnessKey, fleet }: ReservedJob,
  conflictKeys: readonly string[],
): readonly string[] => [
  'pool',
  `type/${type}`,
  `tier/${tier}`,
  `key/${fairnessKey}`,
  `fleet/${fleet}`,
  ...conflictKeys.map((conflictKey) => `conflict/${conflictKey}`),
];

function heldIn({ reservations }: PartitionView, types: Types, limits: Limits): Held {
  const counts = new Map<string, number>();
  const chargedMs = new Map<string, number>();
  const ids = new Set<string>();
  for (const { jobs } of reservations.values()) {
    for (const entry of jobs.values()) {
      ids.add(entry.id);
      chargedMs.set(entry.fairnessKey, (chargedMs.get(entry.fairnessKey) ?? 0) + entry.estimatedCostMs);
      for (const scope of scopesOf(entry, types, limits)) counts.set(scope, (counts.get(scope) ?? 0) + 1);
    }
  }
  return { counts, chargedMs, ids };
}

export class Order {
  readonly #options: OrderOptions;
  readonly #waiting = new Map<string, Waiting>();
  /** Of types that are not declared. */
  readonly #unknown = new Map<string, { readonly job: Job }>();
  #tiers: ReadonlyMap<string, { readonly at: number; readonly guaranteed: number }>;
  #types: Types;
  #configuration: PoolConfiguration;
  /** What is declared; 0: nothing is. */
  #version = 0;
  readonly #freedAtMs = new Map<string, number>();

  constructor(options: OrderOptions) {
    this.#options = options;
    this.#configuration = options.configuration;
    this.#tiers = tiersOf(options.configuration);
    this.#types = typesByName(options.configuration);
  }

  /** Something else is declared: what waits is seen anew, by whoever plans under it. */
  redeclare(version: number, configuration: PoolConfiguration): void {
    this.#version = version;
    this.#configuration = configuration;
    this.#tiers = tiersOf(configuration);
    this.#types = typesByName(configuration);
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { job } of [...waiting, ...this.#unknown.values()]) this.onJob(job);
  }

  /** Whoever has read this plans under what is declared, or lets go of it. */
  #isCurrent({ declared }: PartitionView, loaded: Loaded): boolean {
    return loaded.declared === this.#version && (declared ?? 0) === this.#version;
  }

  /** A job's item was written. */
  onJob(job: Job): void {
    this.#unknown.delete(job.id);
    const tier = this.#types.get(job.type)?.tier;
    if (job.state !== 'pending' || tier === undefined) {
      this.#waiting.delete(job.id);
      // Of a type that may come back.
      if (job.state === 'pending') this.#unknown.set(job.id, { job });
      return;
    }
    const conflictKey = this.#options.conflictKeyOf(job);
    const known = this.#waiting.get(job.id);
    // Noting something on it, or raising its version, moves no job.
    const sinceMs = known !== undefined && known.job.version === job.version ? known.sinceMs : this.#nowMs;
    this.#waiting.set(job.id, {
      job,
      tier,
      conflictKey,
      keyScope: `key/${job.fairnessKey}`,
      conflictScope: conflictKey === undefined ? undefined : `conflict/${conflictKey}`,
      sinceMs,
      toldAtMs: known?.job.version === job.version ? known.toldAtMs : undefined,
    });
  }

  /** It stands in its ready line again: only whoever put it there need know. */
  onUnparked(id: string): void {
    const waiting = this.#waiting.get(id);
    if (waiting !== undefined)
      this.#waiting.set(id, { ...waiting, sinceMs: this.#nowMs, toldAtMs: undefined });
  }

  /** A dispatcher was shown these, and its run of passes ended well. */
  onTold(jobs: Iterable<Pick<Job, 'id' | 'version'>>): void {
    for (const { id, version } of jobs) {
      const waiting = this.#waiting.get(id);
      if (waiting?.job.version === version) waiting.toldAtMs ??= this.#nowMs;
    }
  }

  loaded({ summary, controls, workers, declared = 0 }: PartitionView): Loaded {
    const nowMs = this.#nowMs + this.#options.skewMaxMs;
    return {
      atMs: this.#nowMs,
      version: summary.version,
      declared,
      controls: [...controls.values()],
      workers: new Map(
        [...workers.values()].flatMap((worker) =>
          worker.expiresAtMs > nowMs ? [[worker.workerId, lifeOf(worker)] as const] : [],
        ),
      ),
    };
  }

  /** What a dispatcher that is done has left. */
  leftBehind(current: PartitionView, loaded: Loaded): string | undefined {
    if (
      this.#options.isDivided ||
      this.#waiting.size === 0 ||
      !isAllowedAsRead(current, loaded) ||
      !this.#isCurrent(current, loaded)
    )
      return undefined;
    const view = this.#inForce(current, loaded);
    if (view === undefined) return undefined;
    const held = heldIn(view, this.#types, this.#limits);
    const mayStart = this.#startable({ view, loaded }, held.counts);
    for (const waiting of this.#waiting.values()) {
      if (!mayStart(waiting) || held.ids.has(waiting.job.id)) continue;
      if (!this.#isKnown(waiting, loaded.atMs, view)) continue;
      return `${nameOf(waiting)} may start since ${this.#nowMs - waiting.sinceMs} ms, and a dispatcher is done`;
    }
    return undefined;
  }

  /** A commit was applied. Answers what should have started instead of something that it reserves. */
  onCommit(current: PartitionView, commit: Commit, loaded: Loaded | undefined): string | undefined {
    for (const { reservation, positions } of commit.drop) {
      for (const position of positions) {
        const conflictKey = reservation.jobs.get(position)?.conflictKey;
        if (conflictKey !== undefined) this.#freedAtMs.set(conflictKey, this.#nowMs);
      }
    }
    const reserved = commit.reserve.flatMap(({ jobs }) => [...jobs.values()]);
    if (reserved.length === 0 || loaded === undefined || !isAllowedAsRead(current, loaded)) return undefined;
    if (!this.#isCurrent(current, loaded)) return undefined;
    const view = this.#inForce(current, loaded);
    if (view === undefined) return undefined;
    const held = heldIn(view, this.#types, this.#limits);
    const looked = [
      ...reserved.slice(0, PLACES_LOOKED_AT - 1),
      ...reserved.slice(PLACES_LOOKED_AT - 1).slice(-1),
    ];
    for (const entry of looked) {
      const chosen = this.#waiting.get(entry.id);
      // What has moved on since the index showed it is claimed in vain.
      if (chosen?.job.version !== entry.version) continue;
      const counts = new Map(held.counts);
      for (const scope of scopesOf(entry, this.#types, this.#limits))
        counts.set(scope, (counts.get(scope) ?? 1) - 1);
      const mayStart = this.#options.isDivided
        ? (other: Waiting): boolean => meetsTheSame(other, chosen)
        : this.#startable({ view, loaded }, counts);
      for (const other of this.#waiting.values()) {
        if (!mayStart(other) || held.ids.has(other.job.id) || !this.#isKnown(other, loaded.atMs, view))
          continue;
        const why = this.#precedes(other, { chosen, entry, reserved, view, held });
        if (why !== undefined) return `${nameOf(other)} should have started before ${nameOf(chosen)}: ${why}`;
      }
    }
    return undefined;
  }

  #isKnown(
    { job, conflictKey, sinceMs, toldAtMs }: Waiting,
    loadedAtMs: number,
    { letters }: PartitionView,
  ): boolean {
    const { toldMs, seenMs, parkedMs } = this.#options.bounds;
    if (this.#options.isParked(job.id))
      return Math.max(sinceMs, this.#freedAtMs.get(conflictKey ?? '') ?? 0) + parkedMs <= loadedAtMs;
    // What was told may stand in a letter, which only the next leader reads.
    const isTold =
      letters.size === 0 && toldMs !== undefined && toldAtMs !== undefined && toldAtMs + toldMs <= loadedAtMs;
    return isTold || sinceMs + seenMs <= loadedAtMs;
  }

  /**
   * The partition with what was in force for a pass by any clock; a scope counts as closed as long as one clock may say so. Undefined
   * if a changed cap or weight has ended meanwhile: by which of both the pass decides is up to its clock.
   */
  #inForce(view: PartitionView, loaded: Loaded): PartitionView | undefined {
    const first = controlledAt(view, loaded.atMs - this.#options.skewMaxMs);
    const last = controlledAt(view, this.#nowMs + this.#options.skewMaxMs);
    const hasEnded = [...first.controls].some(([scope, { maxConcurrency, weight }]) => {
      const then = last.controls.get(scope);
      return then?.maxConcurrency !== maxConcurrency || then?.weight !== weight;
    });
    return hasEnded ? undefined : first;
  }

  /** Who may start beside what these counts say is held. */
  #startable(world: World, counts: ReadonlyMap<string, number>): (waiting: Waiting) => boolean {
    const { fairness, types } = this.#configuration;
    const { controls } = world.view;
    const isOpen = (scope: string, configured: number | null): boolean => {
      const control = controls.get(scope);
      const cap = control?.maxConcurrency ?? configured ?? Infinity;
      return !(control !== undefined && isClosed(control)) && (counts.get(scope) ?? 0) < cap;
    };
    const open = new Set(
      types.filter((type) => this.#isTypeOpen(type, world, counts, isOpen)).map(({ type }) => type),
    );
    // By some clock its time to start may be over.
    const aheadMs = this.#nowMs + this.#options.skewMaxMs;
    const isWithin = (job: Job): boolean => {
      const names = this.#types.get(job.type)?.limits ?? [];
      return this.#limits
        .filter(({ limit }) => names.includes(limit))
        .every(({ limit, total, perKey }) => {
          const [whole = '', ofKey = ''] = limitScopesOf(job, [limit], this.#limits);
          return isOpen(whole, total) && isOpen(ofKey, perKey);
        });
    };
    return ({ job, keyScope, conflictScope }) =>
      (job.expireAtMs ?? Infinity) > aheadMs &&
      open.has(job.type) &&
      isWithin(job) &&
      isOpen(keyScope, fairness.maxConcurrencyPerKey) &&
      (conflictScope === undefined ||
        (counts.get(conflictScope) ?? 0) < (this.#types.get(job.type)?.maxConcurrencyPerResource ?? 1));
  }

  #isTypeOpen(
    { type, tier, maxConcurrency }: PoolConfiguration['types'][number],
    world: World,
    counts: ReadonlyMap<string, number>,
    isOpen: (scope: string, configured: number | null) => boolean,
  ): boolean {
    const configuration = this.#configuration;
    // Whether a window lets a job start is decided by the test of plans, and by the counts of what begins.
    const hasWindow = this.#limits.some(
      ({ limit, rate, budget }) =>
        (rate ?? budget) !== undefined && this.#types.get(type)?.limits?.includes(limit) === true,
    );
    if (hasWindow) return false;
    return (
      isOpen('pool', configuration.maxConcurrency) &&
      isOpen(
        `tier/${tier}`,
        configuration.tiers.find((each) => each.tier === tier)?.maxConcurrency ?? null,
      ) &&
      isOpen(`type/${type}`, maxConcurrency) &&
      configuration.fleets.some(
        ({ fleet, types, slots }) =>
          types.includes(type) &&
          isOpen(`fleet/${fleet}`, null) &&
          (counts.get(`fleet/${fleet}`) ?? 0) < (slots ?? this.#slotsOf(fleet, world)),
      )
    );
  }

  /** Slots of workers that were there when the partition was read, and are. */
  #slotsOf(fleet: string, { view, loaded }: World): number {
    const nowMs = this.#nowMs + this.#options.skewMaxMs;
    let slots = 0;
    for (const worker of view.workers.values()) {
      const isThere = worker.fleet === fleet && worker.expiresAtMs > nowMs;
      if (isThere && loaded.workers.get(worker.workerId) === lifeOf(worker)) slots += worker.slots;
    }
    return slots;
  }

  /** Why a job that waits came before one that was chosen, at whichever step that was; undefined: perhaps it did not. */
  #precedes(
    other: Waiting,
    {
      chosen,
      entry,
      reserved,
      view,
      held,
    }: {
      readonly chosen: Waiting;
      readonly entry: ReservedJob;
      readonly reserved: readonly ReservedJob[];
      readonly view: PartitionView;
      readonly held: Held;
    },
  ): string | undefined {
    const ofTier = (tier: string): number => reserved.filter((each) => each.tier === tier).length;
    if (other.tier !== chosen.tier) {
      const [mine, its] = [this.#tiers.get(other.tier), this.#tiers.get(chosen.tier)];
      if (mine === undefined || its === undefined) return undefined;
      const running = (tier: string): number => held.counts.get(`tier/${tier}`) ?? 0;
      const isBelow = running(other.tier) < mine.guaranteed;
      const wasAbove = running(chosen.tier) - ofTier(chosen.tier) >= its.guaranteed;
      if (isBelow && wasAbove) return `its tier ${brief(other.tier)} is below its guarantee`;
      return mine.at < its.at && (isBelow || wasAbove)
        ? `its tier ${brief(other.tier)} comes first`
        : undefined;
    }
    if (other.job.fairnessKey === chosen.job.fairnessKey) return this.#scoresMore(other.job, chosen.job);
    if (this.#configuration.fairness.resetEveryMs !== null) return undefined;
    // At that step its own key was charged no more than now, and the chosen one's no less than before the batch.
    const mostMs = this.#shareOf(other.job.fairnessKey, view, held, 0);
    let batchMs = 0;
    for (const each of reserved) if (each.fairnessKey === entry.fairnessKey) batchMs += each.estimatedCostMs;
    const leastMs = this.#shareOf(entry.fairnessKey, view, held, batchMs);
    return mostMs < leastMs - COST_TOLERANCE_MS
      ? `its key was charged ${mostMs} ms, and the other's ${leastMs} ms`
      : undefined;
  }

  #shareOf(fairnessKey: string, { ledgers, controls }: PartitionView, held: Held, lessMs: number): number {
    const { weights, defaultWeight } = this.#configuration.fairness;
    const configured = Object.hasOwn(weights, fairnessKey) ? weights[fairnessKey] : undefined;
    const weight = controls.get(`key/${fairnessKey}`)?.weight ?? configured ?? defaultWeight;
    const costMs = (ledgers.get(fairnessKey)?.settledCostMs ?? 0) + (held.chargedMs.get(fairnessKey) ?? 0);
    return (costMs - lessMs) / weight;
  }

  #scoresMore(one: Job, other: Job): string | undefined {
    const isSameLine = one.type === other.type && one.mode === other.mode;
    const [mine, its] = [this.#pointsOf(one), this.#pointsOf(other)];
    const margin = isSameLine ? COST_TOLERANCE_MS : SCORE_TOLERANCE;
    return mine > its + margin ? `it has ${mine} points, and the other ${its}` : undefined;
  }

  /** Without rarity. */
  #pointsOf({ mode, priority, readyAtMs }: Job): number {
    const { score } = this.#configuration;
    const ageSec = (this.#nowMs - readyAtMs) / 1_000;
    const onDemand = mode === 'onDemand' ? score.onDemand + ageSec * score.onDemandAgeSec : 0;
    return priority * score.priority + ageSec * score.ageSec + onDemand;
  }

  /** Jobs that wait. */
  get waiting(): Iterable<string> {
    return this.#waiting.keys();
  }

  /** Which of them may start now beside all that is held, whoever knows of them. */
  startableNow(current: PartitionView): (id: string) => boolean {
    const view = controlledAt(current, this.#nowMs - this.#options.skewMaxMs);
    const held = heldIn(view, this.#types, this.#limits);
    const mayStart = this.#startable({ view, loaded: this.loaded(view) }, held.counts);
    return (id) => {
      const waiting = this.#waiting.get(id);
      return waiting !== undefined && !held.ids.has(id) && mayStart(waiting);
    };
  }

  get #limits(): Limits {
    return this.#configuration.limits ?? [];
  }

  get #nowMs(): number {
    return this.#options.nowMs();
  }
}

const tiersOf = ({
  tiers,
}: PoolConfiguration): ReadonlyMap<string, { readonly at: number; readonly guaranteed: number }> =>
  new Map(tiers.map(({ tier, guaranteed }, at) => [tier, { at, guaranteed }]));

const lifeOf = ({ incarnation, slots }: WorkerRecord): string => `${incarnation}/${slots}`;

/** Whatever keeps the one from starting keeps the other. Limits may count jobs by keys that these do not share. */
const meetsTheSame = ({ job, conflictKey }: Waiting, { job: other }: Waiting): boolean =>
  conflictKey === undefined &&
  job.keys === undefined &&
  job.partition === other.partition &&
  job.type === other.type &&
  job.fairnessKey === other.fairnessKey;

/** The partition with its controls as they were in force at an instant. */
const controlledAt = (view: PartitionView, atMs: number): PartitionView => ({
  ...view,
  controls: new Map([...view.controls].map(([scope, control]) => [scope, controlAt(control, atMs)])),
});

/** Nobody has changed since what is allowed. */
function isAllowedAsRead({ controls }: PartitionView, loaded: Loaded): boolean {
  const present = [...controls.values()];
  return (
    present.length === loaded.controls.length &&
    present.every((control, at) => control === loaded.controls[at])
  );
}

/** Names may be long; what tells them apart stands first. */
const brief = (name: string): string => name.slice(0, 12);

const nameOf = ({ job, tier }: Waiting): string =>
  `${brief(job.id)} (${brief(tier)}, ${brief(job.type)}, ${brief(job.fairnessKey)}, ${job.mode} ${job.priority})`;
