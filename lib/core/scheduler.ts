/**
 * The order of dispatch, kept up to date in memory: jobs arrive, slots free, the next job is decided.
 *
 * One long-lived `Scheduler` serves the simulation and the benchmark; `planner.ts` fills a short-lived one with the heads
 * of lines for one pass. The order and its theorems are stated there.
 *
 * A decision costs O(classes of the tiers + log keys + log jobs of a line), on average: nothing is rescored, no backlog is
 * walked, and one in many looks over the keys, to find those that come next (see `turn-heap.ts`).
 *  - What a cap stops is not looked at: a type without room, a paused fleet, a full tier leave their classes alone.
 *  - What a key's cap or a held conflict key stops is met once, put aside, and comes back when the cause is gone.
 */
import { Backlog } from './backlog.ts';
import type { JobTypeConfiguration, PoolConfiguration, TierConfiguration } from './configuration.ts';
import { Conflicts } from './conflict.ts';
import { Estimates, type TypeEstimates, WHOLE } from './estimate.ts';
import { chargeMs, type KeyCost, Ledgers, widenFloats } from './fairness.ts';
import type { JobMode, ReservedJob, WaitingJob } from './job.ts';
import { classOf, indexPool, isOnDemand, type PoolIndex, typeOf } from './pool-index.ts';
import { partsOf, rarityBonus, type ScoreParts, weightOf } from './score.ts';
import { Fleets } from './slots.ts';

/** An operator's override for one scope: `pool`, `tier/<tier>`, `type/<type>`, `key/<fairnessKey>`, `fleet/<fleet>`. */
export interface Override {
  readonly scope: string;
  readonly paused: boolean;
  /** Instead of the configured cap. */
  readonly maxConcurrency?: number | undefined;
  /** Of a fairness key. */
  readonly weight?: number | undefined;
}

/** What a decision passed over, and why. */
export type Skip =
  | { readonly kind: 'tier'; readonly tier: string; readonly why: 'cap' | 'paused' }
  | { readonly kind: 'type'; readonly type: string; readonly why: 'cap' | 'paused' | 'noSlot' }
  | { readonly kind: 'key'; readonly fairnessKey: string; readonly why: 'cap' | 'paused' }
  | { readonly kind: 'job'; readonly id: string; readonly why: 'conflict'; readonly conflictKey: string };

/** What keeps one job from starting, whoever's turn it is. */
export type Obstacle =
  | { readonly why: 'paused'; readonly scope: string }
  | { readonly why: 'cap'; readonly scope: string; readonly cap: number; readonly running: number }
  /** No fleet that takes the type has a free slot; without fleets, none takes it. */
  | { readonly why: 'noSlot'; readonly type: string; readonly fleets: readonly string[] }
  | { readonly why: 'conflict'; readonly conflictKey: string; readonly holder: string }
  | { readonly why: 'unknownType'; readonly type: string };

/** Why a job was chosen. */
export interface Reasons {
  readonly score: ScoreParts;
  /** The key's cost before this admission, and its weight. */
  readonly keyCostMs: number;
  readonly weight: number;
  /** Whether its tier went first because it was below its guaranteed share. */
  readonly guaranteed: boolean;
  /** Passed over since the decision before. */
  readonly skipped: readonly Skip[];
}

/** A job to be reserved, and why. */
export interface Decision {
  /** Names the running job until it ends, at less cost than its id: see `settleTicket`. */
  readonly ticket: number;
  readonly reserved: ReservedJob;
  readonly mode: JobMode;
  readonly reasons: Reasons;
}

/** What ended an attempt. */
export interface Ending {
  readonly nowMs: number;
  /** How long it held its slot; undefined when it never ran, and its charge is given back. */
  readonly usedMs?: number | undefined;
  /** Only successes teach the estimates. */
  readonly succeeded: boolean;
}

export interface SchedulerOptions {
  readonly overrides?: readonly Override[] | undefined;
  /** Instead of the scheduler's own estimates. */
  readonly costMs?: ((type: string, resourceId: string | undefined) => number) | undefined;
  /** False leaves `skipped` empty. */
  readonly explains?: boolean | undefined;
}

/** Lost claims in a row after which the candidates are stale. Source: affinity-scoring, "Retry algorithm". */
export const LOSSES_IN_A_ROW = 5;

// What is kept of a running job: whole numbers side by side, and what it was charged.
const RUNNING_INTS = 10;
const RUNNING_DOUBLES = 5;
const TYPE = 0;
const TIER = 1;
const KEY = 2;
const FLEET = 3;
const CONFLICT = 4;
const GENERATION = 5;
const JOB = 6;
const CHARGED = 4;

const NONE = -1;
const UNLIMITED = Number.POSITIVE_INFINITY;

/** A scope that can be capped and paused, with the jobs that run in it. */
interface Gate {
  cap: number;
  paused: boolean;
  running: number;
}

interface GateSkips {
  readonly capped: Skip;
  readonly paused: Skip;
}

interface TypeSkips extends GateSkips {
  readonly full: Skip;
}

export class Scheduler {
  readonly ledgers: Ledgers;
  readonly estimates: Estimates;
  /** By type. */
  readonly #estimates: readonly TypeEstimates[];
  readonly index: PoolIndex;
  readonly fleets: Fleets;
  readonly backlog: Backlog;
  readonly #configuration: PoolConfiguration;
  readonly conflicts = new Conflicts();
  /** Tickets made so far; one that is free again stands in `#freeTickets`, and is no job's. */
  #tickets = 0;
  #runningDoubles = new Float64Array(64 * RUNNING_DOUBLES);
  #runningInts = new Int32Array(this.#runningDoubles.buffer);
  readonly #freeTickets: number[] = [];
  /** Made when a job is first asked for by its id, and kept up from then on. */
  #ticketsById: Map<string, number> | undefined;
  readonly #pool: Gate;
  readonly #tiers: readonly Gate[];
  readonly #types: readonly Gate[];
  readonly #keyOverrides = new Map<string, Override>();
  readonly #costMs: ((type: string, resourceId: string | undefined) => number) | undefined;
  readonly #explains: boolean;
  /** By type: free slots when the pass began, and the bonus that follows, in thousandths of a point. */
  readonly #compatible: Float64Array;
  readonly #rarity: Float64Array;
  /** By class: what its scores have in common now, in thousandths of a point: less the rank, that is the score (see `score.ts`). */
  readonly #points: Float64Array;
  /** The classes of the tier that was last looked at whose types are open, and how many. */
  readonly #open: Int32Array;
  #opened = 0;
  /** What is said most often is made once. */
  readonly #tierSkips: readonly GateSkips[];
  readonly #typeSkips: readonly TypeSkips[];
  #nowMs = 0;
  #losses = 0;
  #skipped: Skip[] = [];

  constructor(configuration: PoolConfiguration, options: SchedulerOptions = {}) {
    this.#configuration = configuration;
    this.#costMs = options.costMs;
    this.#explains = options.explains ?? true;
    this.index = indexPool(configuration);
    this.ledgers = new Ledgers(configuration.fairness);
    this.estimates = new Estimates(configuration.fairness);
    this.#estimates = configuration.types.map(({ type }) => this.estimates.ofType(type));
    this.backlog = new Backlog(this.index, this.ledgers, configuration.score);
    this.fleets = new Fleets(
      configuration.fleets,
      configuration.types.map((type) => type.type),
    );
    this.#pool = { cap: configuration.maxConcurrency ?? UNLIMITED, paused: false, running: 0 };
    this.#tiers = configuration.tiers.map((tier) => gateOf(tier.maxConcurrency));
    this.#types = configuration.types.map((type) => gateOf(type.maxConcurrency));
    this.#tierSkips = configuration.tiers.map(({ tier }) => ({
      capped: { kind: 'tier', tier, why: 'cap' },
      paused: { kind: 'tier', tier, why: 'paused' },
    }));
    this.#typeSkips = configuration.types.map(({ type }) => ({
      capped: { kind: 'type', type, why: 'cap' },
      paused: { kind: 'type', type, why: 'paused' },
      full: { kind: 'type', type, why: 'noSlot' },
    }));
    this.#compatible = new Float64Array(configuration.types.length);
    this.#rarity = new Float64Array(configuration.types.length);
    this.#points = new Float64Array(this.index.classes);
    this.#open = new Int32Array(this.index.classes);
    for (const override of options.overrides ?? []) this.override(override);
  }

  /** Jobs that wait. */
  get waiting(): number {
    return this.backlog.size;
  }

  /** Jobs that run. */
  get running(): number {
    return this.#tickets - this.#freeTickets.length;
  }

  /** Jobs that may still start before the pool is full. */
  get room(): number {
    return this.#pool.paused
      ? 0
      : Math.max(0, Math.min(this.fleets.room, this.#pool.cap - this.#pool.running));
  }

  /** What was passed over since the last decision. */
  get skipped(): readonly Skip[] {
    return this.#skipped;
  }

  /** Every ledger. */
  costs(): readonly KeyCost[] {
    return this.ledgers.list();
  }

  /** Changes a pause, a cap or a weight. An override without a cap or weight restores the configured one. Unknown scopes are none. */
  override(override: Override): void {
    const slash = override.scope.indexOf('/');
    const kind = slash === -1 ? override.scope : override.scope.slice(0, slash);
    const name = override.scope.slice(slash + 1);
    switch (kind) {
      case 'pool':
        overrideGate(this.#pool, this.#configuration.maxConcurrency, override);
        return;
      case 'tier': {
        const tier = this.index.tierNumbers.get(name);
        if (tier === undefined) return;
        overrideGate(
          this.#tiers[tier] as Gate,
          (this.#configuration.tiers[tier] as TierConfiguration).maxConcurrency,
          override,
        );
        return;
      }
      case 'type': {
        const type = this.index.typeNumbers.get(name);
        if (type === undefined) return;
        overrideGate(
          this.#types[type] as Gate,
          (this.#configuration.types[type] as JobTypeConfiguration).maxConcurrency,
          override,
        );
        return;
      }
      case 'fleet': {
        const fleet = this.fleets.names.indexOf(name);
        if (fleet === NONE) return;
        this.fleets.setCap(fleet, override.paused ? 0 : (override.maxConcurrency ?? null));
        return;
      }
      case 'key': {
        this.#keyOverrides.set(name, override);
        const key = this.ledgers.find(name);
        if (key !== undefined) this.#overrideKey(key, override);
        return;
      }
      default:
        return;
    }
  }

  /** How many slots a fleet has, busy ones included. An unknown fleet is a no-op. */
  setSlots(fleet: string, slots: number): void {
    const number = this.fleets.names.indexOf(fleet);
    if (number !== NONE) this.fleets.setSlots(number, slots);
  }

  /** Sets what a key has been charged, such as what its ledger says is settled. */
  setCost(key: number, costMs: number): void {
    const before = this.ledgers.shareOf(key);
    this.ledgers.setCost(key, costMs);
    this.backlog.repriced(key);
    this.backlog.changed(key, this.ledgers.shareOf(key) < before);
  }

  /** A fairness key's number; a new key gets its overrides. */
  openKey(fairnessKey: string, nowMs: number): number {
    const known = this.ledgers.find(fairnessKey);
    if (known !== undefined) return known;
    const key = this.ledgers.open(fairnessKey, nowMs);
    // The number may have been another key's, whose share was higher.
    this.backlog.repriced(key);
    const override = this.#keyOverrides.get(fairnessKey);
    if (override !== undefined) this.#overrideKey(key, override);
    return key;
  }

  /**
   * A job waits from now on. Answers its number, for `withdraw`; undefined for a type that is not configured, which
   * never runs and disturbs nobody. `keyStays`: a job of its key was here and is moved, parked or tried again, so the key
   * has not been away, and is not lifted.
   */
  arrive(job: WaitingJob, nowMs: number, keyStays = false): number | undefined {
    const type = this.index.typeNumbers.get(job.type);
    if (type === undefined) return undefined;
    const key = this.openKey(job.fairnessKey, nowMs);
    this.ledgers.arrive(key, nowMs, keyStays);
    const resource = (this.#estimates[type] as TypeEstimates).arrive(job.resourceId, nowMs);
    const conflict = this.#conflictOf(type, job.resourceId);
    return this.backlog.add(job, resource, key, classOf(type, job.mode), conflict);
  }

  /**
   * A waiting job waits otherwise, such as from another instant on. Answers its new number; undefined if it does not wait
   * under this one. Its key is not away for a moment.
   */
  replace(number: number, job: WaitingJob, nowMs: number): number | undefined {
    return this.withdraw(number, job.id, nowMs) ? this.arrive(job, nowMs, true) : undefined;
  }

  /** A waiting job waits no more: it was cancelled, or moved to a later time. Answers whether it did, under this number. */
  withdraw(number: number, id: string, nowMs: number): boolean {
    const { jobs } = this.backlog;
    if (!jobs.isWaiting(number, id)) return false;
    const line = jobs.lineOf(number);
    const conflict = jobs.conflictOf(number);
    const resource = jobs.resourceOf(number);
    this.backlog.remove(number);
    this.ledgers.leave(this.backlog.keyOf(line), nowMs);
    this.#endEstimate(typeOf(this.backlog.classOf(line)), resource, undefined, nowMs);
    if (conflict !== NONE) {
      // It may have stood for parked jobs.
      if (!this.conflicts.isHeld(conflict)) this.backlog.wakeAll(conflict);
      this.conflicts.leave(conflict);
    }
    return true;
  }

  /** A job that runs already, from a reservation: it counts, with its charge. Unknown types, tiers and fleets still hold pool and key. */
  hold(reserved: ReservedJob, nowMs: number): void {
    const type = this.index.typeNumbers.get(reserved.type) ?? NONE;
    const tier = this.index.tierNumbers.get(reserved.tier) ?? NONE;
    const conflict = reserved.conflictKey === undefined ? NONE : this.conflicts.use(reserved.conflictKey);
    const fleet = this.fleets.names.indexOf(reserved.fleet);
    const key = this.openKey(reserved.fairnessKey, nowMs);
    this.ledgers.hold(key, reserved.estimatedCostMs, nowMs);
    this.backlog.changed(key, false);
    this.#count(type, tier, fleet, conflict);
    // Of a job that runs, nothing is asked for but its id and its conflict key.
    const { id, version, attempt, estimatedCostMs } = reserved;
    const kept = { id, version, attempt, priority: 0, readyAtMs: nowMs };
    const number = this.backlog.jobs.add(kept, WHOLE, NONE, conflict);
    this.#start(number, type, tier, key, fleet, conflict, estimatedCostMs);
  }

  /** Whether a job with this id runs. */
  isRunning(id: string): boolean {
    return this.#ticketOf(id) !== undefined;
  }

  /** Whether a job with this conflict key runs. */
  isConflictHeld(conflictKey: string): boolean {
    return this.conflicts.isKeyHeld(conflictKey);
  }

  /** Nothing with this conflict key starts any more: a job that is not counted here runs with it. */
  holdConflict(conflictKey: string): void {
    const conflict = this.conflicts.use(conflictKey);
    this.conflicts.hold(conflict);
    this.backlog.held(conflict);
  }

  /** A pass begins: ages are taken at `nowMs`, rarity from the slots that are free now. */
  beginPass(nowMs: number): void {
    const { ageSec, onDemand, onDemandAgeSec } = this.#configuration.score;
    this.#nowMs = nowMs;
    for (let type = 0; type < this.#rarity.length; type += 1) {
      const free = this.fleets.roomOfType(type);
      if (free !== this.#compatible[type]) {
        this.#compatible[type] = free;
        this.#rarity[type] = rarityBonus(free, this.#configuration.score) * 1000;
      }
      const points = this.#rarity[type] as number;
      this.#points[2 * type] = points + ageSec * nowMs;
      this.#points[2 * type + 1] = points + (ageSec + onDemandAgeSec) * nowMs + onDemand * 1000;
    }
  }

  /** The next job of the pass, already counted as running; undefined when nothing that waits may start. */
  next(): Decision | undefined {
    if (this.room <= 0) return undefined;
    for (let tier = 0; tier < this.#tiers.length; tier += 1) {
      if (!this.isBelowGuarantee(tier)) continue;
      const line = this.best(tier);
      if (line !== NONE) return this.admit(line, true);
    }
    for (let tier = 0; tier < this.#tiers.length; tier += 1) {
      const line = this.best(tier);
      if (line !== NONE) return this.admit(line, false);
    }
    return undefined;
  }

  /** Whether a tier runs less than its guaranteed share. */
  isBelowGuarantee(tier: number): boolean {
    const { guaranteed } = this.index.tiers[tier] as TierConfiguration;
    return (this.#tiers[tier] as Gate).running < guaranteed;
  }

  /** Whether a tier's cap and pause let another job start. */
  isTierOpen(tier: number): boolean {
    const gate = this.#tiers[tier] as Gate;
    return !gate.paused && gate.running < gate.cap;
  }

  /** How many more jobs of a tier may start. */
  roomOfTier(tier: number): number {
    const gate = this.#tiers[tier] as Gate;
    return gate.paused ? 0 : Math.max(0, gate.cap - gate.running);
  }

  /** Whether a type's cap, its pause and the free slots let another job start. */
  isTypeOpen(type: number): boolean {
    const gate = this.#types[type] as Gate;
    return !gate.paused && gate.running < gate.cap && this.fleets.roomOfType(type) > 0;
  }

  /** How many more jobs of a type may start. */
  roomOfType(type: number): number {
    const gate = this.#types[type] as Gate;
    return gate.paused ? 0 : Math.max(0, Math.min(gate.cap - gate.running, this.fleets.roomOfType(type)));
  }

  /** The line whose head comes next in a tier, or -1. An unread line wins over all it ties with. */
  best(tier: number): number {
    if (!this.isTierOpen(tier)) {
      if (this.#explains) this.#skipTier(tier);
      return NONE;
    }
    const classes = this.index.classesOfTier[tier] as Int32Array;
    let open = 0;
    // The classes of a type follow each other: queued, on demand.
    for (let index = 0; index < classes.length; index += 2) {
      const class_ = classes[index] as number;
      if (this.isTypeOpen(typeOf(class_))) {
        this.#open[open] = class_;
        this.#open[open + 1] = class_ + 1;
        open += 2;
      } else if (this.#explains) {
        this.#skipType(typeOf(class_));
      }
    }
    this.#opened = open;
    // No key's turn can come, and none is to be set aside for it.
    if (open === 0) return NONE;
    if (this.backlog.hasAside(tier)) {
      for (let index = 0; index < open; index += 1) {
        this.backlog.refreshAside(this.#open[index] as number);
      }
    }
    const inTurn = this.#bestInTurn(tier);
    return this.backlog.hasAside(tier) ? this.#bestWithAside(inTurn) : inTurn;
  }

  // The first of a line whose key is in turn, or -1, and those that are aside.
  #bestWithAside(inTurn: number): number {
    let best = inTurn;
    let bestShare = best === NONE ? UNLIMITED : this.ledgers.shareOf(this.backlog.keyOf(best));
    for (let index = 0; index < this.#opened; index += 1) {
      const line = this.#bestAside(this.#open[index] as number);
      if (line === NONE) continue;
      const share = this.ledgers.shareOf(this.backlog.keyOf(line));
      if (share < bestShare || (share === bestShare && this.#isHeadBetter(line, best))) {
        best = line;
        bestShare = share;
      }
    }
    return best;
  }

  /** All that keeps a job from starting, from the pool down to the job; nothing for one that waits for its turn only. */
  obstaclesTo(job: Pick<WaitingJob, 'type' | 'fairnessKey' | 'resourceId'>): readonly Obstacle[] {
    const type = this.index.typeNumbers.get(job.type);
    if (type === undefined) return [{ why: 'unknownType', type: job.type }];
    const tier = this.index.tierOfType[type] as number;
    const obstacles: Obstacle[] = [
      ...obstaclesAt('pool', this.#pool),
      ...obstaclesAt(`tier/${(this.index.tiers[tier] as TierConfiguration).tier}`, this.#tiers[tier] as Gate),
      ...obstaclesAt(`type/${job.type}`, this.#types[type] as Gate),
      ...this.#obstaclesOfKey(job.fairnessKey),
    ];
    if (this.fleets.roomOfType(type) <= 0) {
      obstacles.push({ why: 'noSlot', type: job.type, fleets: this.fleets.namesFor(type) });
    }
    const prefix = this.index.conflictPrefixes[type];
    if (prefix === undefined || job.resourceId === undefined) return obstacles;
    const conflictKey = prefix + job.resourceId;
    for (let ticket = 0; ticket < this.#tickets; ticket += 1) {
      const number = this.#jobOf(ticket);
      const conflict = this.#runningInts[ticket * RUNNING_INTS + CONFLICT] as number;
      if (number === NONE || conflict === NONE) continue;
      if (this.conflicts.nameOf(conflict) !== conflictKey) continue;
      obstacles.push({ why: 'conflict', conflictKey, holder: this.backlog.jobs.idOf(number) });
    }
    return obstacles;
  }

  /** The free slots that can run the type, as they were when the pass began. */
  compatibleSlots(type: string): number {
    return this.#compatible[this.index.typeNumbers.get(type) ?? NONE] ?? 0;
  }

  /** Admits the head of a line: one that `best` has found, and that is read. */
  admit(line: number, guaranteed: boolean): Decision {
    const { backlog, ledgers } = this;
    const { jobs } = backlog;
    const conflict = backlog.headConflict(line);
    const number = backlog.head(line);
    // Before the line is touched: what is kept of the job lies elsewhere, and the processor fetches both at once.
    const job = jobs.jobOf(number);
    backlog.take(line);
    const key = backlog.keyOf(line);
    const class_ = backlog.classOf(line);
    const type = typeOf(class_);
    const tier = this.index.tierOfType[type] as number;
    const configured = this.index.types[type] as JobTypeConfiguration;
    const estimates = this.#estimates[type] as TypeEstimates;
    const estimateMs =
      this.#costMs?.(configured.type, estimates.nameOf(job.resource)) ??
      estimates.costMs(job.resource, configured.defaultCostMs);
    const chargedMs = chargeMs(estimateMs, this.#configuration.fairness);
    const keyCostMs = ledgers.costOf(key);
    const fleet = this.fleets.choose(type);
    const resourceId = estimates.nameOf(job.resource);
    ledgers.admit(key, chargedMs, this.#nowMs);
    this.#count(type, tier, fleet, conflict);
    backlog.changed(key, false);
    return {
      ticket: this.#start(number, type, tier, key, fleet, conflict, chargedMs),
      reserved: {
        id: job.id,
        version: job.version,
        attempt: job.attempt,
        type: configured.type,
        tier: configured.tier,
        fairnessKey: ledgers.nameOf(key),
        conflictKey: conflict === NONE ? undefined : this.conflicts.nameOf(conflict),
        ...(conflict !== NONE || resourceId === undefined ? {} : { resourceId }),
        fleet: this.fleets.names[fleet] as string,
        estimatedCostMs: chargedMs,
      },
      mode: isOnDemand(class_) ? 'onDemand' : 'queued',
      reasons: {
        score: partsOf(
          isOnDemand(class_),
          job.priority,
          Math.max(0, this.#nowMs - job.readyAtMs),
          (this.#rarity[type] as number) / 1000,
          this.#configuration.score,
        ),
        keyCostMs,
        weight: ledgers.weightOf(key),
        guaranteed,
        skipped: this.#takeSkipped(),
      },
    };
  }

  /** A running job ended. Answers whether it ran: a second end is a no-op. */
  settle(id: string, ending: Ending): boolean {
    const ticket = this.#ticketOf(id);
    return ticket !== undefined && this.settleTicket(ticket, ending);
  }

  /** The same, by the decision's ticket, which is given away again when its job has ended. */
  settleTicket(ticket: number, ending: Ending): boolean {
    const number = this.#jobOf(ticket);
    if (number === NONE) return false;
    const ints = this.#runningInts;
    const at = ticket * RUNNING_INTS;
    ints[at + JOB] = NONE;
    this.#freeTickets.push(ticket);
    const { jobs } = this.backlog;
    this.#ticketsById?.delete(jobs.idOf(number));
    const resource = jobs.resourceOf(number);
    jobs.forget(number);
    const type = ints[at + TYPE] as number;
    const key = ints[at + KEY] as number;
    const conflict = ints[at + CONFLICT] as number;
    const generation = ints[at + GENERATION] as number;
    const chargedMs = this.#runningDoubles[ticket * RUNNING_DOUBLES + CHARGED] as number;
    const wasFull = this.ledgers.isFull(key);
    const shareBefore = this.ledgers.shareOf(key);
    this.ledgers.settle(key, chargedMs, ending.usedMs, generation, ending.nowMs);
    const isCheaper = this.ledgers.shareOf(key) < shareBefore;
    if (isCheaper) this.backlog.repriced(key);
    if (wasFull) this.backlog.readmit(key);
    this.backlog.changed(key, isCheaper || wasFull);
    if (type !== NONE) {
      const observedMs = ending.succeeded ? ending.usedMs : undefined;
      this.#endEstimate(type, resource, observedMs, ending.nowMs);
    }
    this.#uncount(type, ints[at + TIER] as number, ints[at + FLEET] as number, conflict);
    return true;
  }

  /** The claim of a decision was won. */
  win(): void {
    this.#losses = 0;
  }

  /**
   * The claim of a decision was lost: the job is gone, its capacity and its charge are given back. Answers whether the
   * candidates are stale, after more than 5 losses in a row: the pass begins anew with the slots that are free now.
   */
  lose(id: string): boolean {
    if (!this.settle(id, { nowMs: this.#nowMs, succeeded: false })) return false;
    this.#losses += 1;
    if (this.#losses <= LOSSES_IN_A_ROW) return false;
    this.#losses = 0;
    this.beginPass(this.#nowMs);
    return true;
  }

  /** Drops ledgers and estimates that nobody has used for their time to live. */
  evict(nowMs: number): void {
    this.ledgers.evict(nowMs);
    this.estimates.evict(nowMs);
  }

  /** All costs go to 0. */
  resetCosts(): void {
    this.ledgers.reset();
    this.backlog.allRepriced();
  }

  #takeSkipped(): readonly Skip[] {
    if (this.#skipped.length === 0) return NOTHING;
    const skipped = this.#skipped;
    this.#skipped = [];
    return skipped;
  }

  // The best line of the key in turn. Keys that cannot run, and keys that tie, make way.
  #bestInTurn(tier: number): number {
    for (;;) {
      const key = this.backlog.keyInTurn(tier);
      if (key === NONE) return NONE;
      if (this.ledgers.isFull(key)) {
        this.backlog.endTurn(tier);
        if (this.#explains) this.#skipKey(key);
        continue;
      }
      const line = this.#bestLine(key);
      if (line !== NONE && !this.backlog.isTurnTied(tier)) return line;
      if (this.backlog.hasLines(key, tier)) this.backlog.setAside(tier);
      else this.backlog.endTurn(tier);
    }
  }

  // A line whose head is unread wins; blocked heads are found out when they would win.
  #bestLine(key: number): number {
    const open = this.#open;
    for (;;) {
      let best = NONE;
      let bestPoints = 0;
      for (let index = 0; index < this.#opened; index += 1) {
        const class_ = open[index] as number;
        const line = this.backlog.lineOf(key, class_);
        const headRank = this.backlog.headRank(line);
        if (headRank === Number.POSITIVE_INFINITY) continue;
        const points = (this.#points[class_] as number) - headRank;
        if (
          best === NONE ||
          points > bestPoints ||
          (points === bestPoints && this.#isHeadOlder(line, best))
        ) {
          best = line;
          bestPoints = points;
        }
      }
      if (best === NONE || !this.#parkBlocked(best)) return best;
    }
  }

  // The first line aside of a class that its key's cap and its head's conflict key let start.
  #bestAside(class_: number): number {
    for (;;) {
      const line = this.backlog.topAside(class_);
      if (line === NONE) return NONE;
      const key = this.backlog.keyOf(line);
      if (this.ledgers.isFull(key)) {
        this.backlog.holdAside(line);
        if (this.#explains) this.#skipKey(key);
        continue;
      }
      if (!this.#parkBlocked(line)) return line;
    }
  }

  // Parks the heads of a line whose conflict key is held. Answers whether there were any.
  #parkBlocked(line: number): boolean {
    let any = false;
    for (;;) {
      const conflict = this.backlog.headConflict(line);
      if (conflict === NONE || !this.conflicts.isHeld(conflict)) return any;
      if (this.#explains) this.#skipJob(this.backlog.head(line), conflict);
      this.backlog.park(line);
      any = true;
    }
  }

  #isHeadBetter(a: number, b: number): boolean {
    const pointsA = this.#pointsOf(a);
    const pointsB = this.#pointsOf(b);
    return pointsA > pointsB || (pointsA === pointsB && this.#isHeadOlder(a, b));
  }

  #pointsOf(line: number): number {
    return (this.#points[this.backlog.classOf(line)] as number) - this.backlog.headRank(line);
  }

  #isHeadOlder(a: number, b: number): boolean {
    const headA = this.backlog.head(a);
    const headB = this.backlog.head(b);
    // Of two heads that tie, both are read or neither is: an unread one has no rank that a job could have.
    return headA !== NONE && this.backlog.jobs.isOlder(headA, headB);
  }

  #conflictOf(type: number, resourceId: string | undefined): number {
    const prefix = this.index.conflictPrefixes[type];
    if (prefix === undefined || resourceId === undefined) return NONE;
    return this.conflicts.use(prefix + resourceId);
  }

  // The number of the job that runs with a ticket; -1 for none.
  #jobOf(ticket: number): number {
    return ticket >= 0 && ticket < this.#tickets
      ? (this.#runningInts[ticket * RUNNING_INTS + JOB] as number)
      : NONE;
  }

  #start(
    number: number,
    type: number,
    tier: number,
    key: number,
    fleet: number,
    conflict: number,
    chargedMs: number,
  ): number {
    let ticket = this.#freeTickets.pop();
    if (ticket === undefined) {
      ticket = this.#tickets;
      this.#tickets += 1;
    }
    this.#ticketsById?.set(this.backlog.jobs.idOf(number), ticket);
    if (ticket * RUNNING_INTS === this.#runningInts.length) {
      this.#runningDoubles = widenFloats(this.#runningDoubles, this.#runningDoubles.length * 2);
      this.#runningInts = new Int32Array(this.#runningDoubles.buffer);
    }
    const ints = this.#runningInts;
    const at = ticket * RUNNING_INTS;
    ints[at + JOB] = number;
    ints[at + TYPE] = type;
    ints[at + TIER] = tier;
    ints[at + KEY] = key;
    ints[at + FLEET] = fleet;
    ints[at + CONFLICT] = conflict;
    ints[at + GENERATION] = this.ledgers.generation;
    this.#runningDoubles[ticket * RUNNING_DOUBLES + CHARGED] = chargedMs;
    return ticket;
  }

  #endEstimate(type: number, resource: number, observedMs: number | undefined, nowMs: number): void {
    const { defaultCostMs } = this.index.types[type] as JobTypeConfiguration;
    (this.#estimates[type] as TypeEstimates).end(resource, defaultCostMs, observedMs, nowMs);
  }

  #ticketOf(id: string): number | undefined {
    if (this.#ticketsById === undefined) {
      this.#ticketsById = new Map();
      for (let ticket = 0; ticket < this.#tickets; ticket += 1) {
        const number = this.#jobOf(ticket);
        if (number !== NONE) this.#ticketsById.set(this.backlog.jobs.idOf(number), ticket);
      }
    }
    return this.#ticketsById.get(id);
  }

  #count(type: number, tier: number, fleet: number, conflict: number): void {
    this.#pool.running += 1;
    if (type !== NONE) (this.#types[type] as Gate).running += 1;
    if (tier !== NONE) (this.#tiers[tier] as Gate).running += 1;
    if (fleet !== NONE) this.fleets.take(fleet);
    if (conflict === NONE) return;
    this.conflicts.hold(conflict);
    this.backlog.held(conflict);
  }

  #uncount(type: number, tier: number, fleet: number, conflict: number): void {
    this.#pool.running -= 1;
    if (type !== NONE) (this.#types[type] as Gate).running -= 1;
    if (tier !== NONE) (this.#tiers[tier] as Gate).running -= 1;
    if (fleet !== NONE) this.fleets.give(fleet);
    if (conflict === NONE) return;
    if (this.conflicts.release(conflict)) this.backlog.wake(conflict);
    this.conflicts.leave(conflict);
  }

  #overrideKey(key: number, override: Override): void {
    const name = this.ledgers.nameOf(key);
    const { weights, defaultWeight, maxConcurrencyPerKey } = this.#configuration.fairness;
    const cap = override.maxConcurrency ?? maxConcurrencyPerKey ?? UNLIMITED;
    this.ledgers.setCap(key, override.paused ? 0 : cap);
    this.ledgers.setWeight(key, override.weight ?? weightOf(weights, defaultWeight, name));
    this.backlog.repriced(key);
    this.backlog.readmit(key);
    this.backlog.changed(key, true);
  }

  #obstaclesOfKey(fairnessKey: string): readonly Obstacle[] {
    const key = this.ledgers.find(fairnessKey);
    if (key === undefined) return [];
    const scope = `key/${fairnessKey}`;
    const paused = this.#keyOverrides.get(fairnessKey)?.paused === true;
    return obstaclesAt(scope, { paused, cap: this.ledgers.capOf(key), running: this.ledgers.runningOf(key) });
  }

  #skipTier(tier: number): void {
    const { capped, paused } = this.#tierSkips[tier] as GateSkips;
    this.#skip((this.#tiers[tier] as Gate).paused ? paused : capped);
  }

  #skipType(type: number): void {
    const gate = this.#types[type] as Gate;
    const { capped, paused, full } = this.#typeSkips[type] as TypeSkips;
    this.#skip(gate.paused ? paused : gate.running >= gate.cap ? capped : full);
  }

  #skip(skip: Skip): void {
    if (!this.#skipped.includes(skip)) this.#skipped.push(skip);
  }

  #skipKey(key: number): void {
    const fairnessKey = this.ledgers.nameOf(key);
    const why = this.#keyOverrides.get(fairnessKey)?.paused === true ? 'paused' : 'cap';
    this.#skipped.push({ kind: 'key', fairnessKey, why });
  }

  #skipJob(number: number, conflict: number): void {
    const id = this.backlog.jobs.idOf(number);
    this.#skipped.push({ kind: 'job', id, why: 'conflict', conflictKey: this.conflicts.nameOf(conflict) });
  }
}

const NOTHING: readonly Skip[] = [];

function gateOf(cap: number | null): Gate {
  return { cap: cap ?? UNLIMITED, paused: false, running: 0 };
}

function obstaclesAt(scope: string, { paused, cap, running }: Gate): readonly Obstacle[] {
  if (paused) return [{ why: 'paused', scope }];
  return running < cap ? [] : [{ why: 'cap', scope, cap, running }];
}

function overrideGate(gate: Gate, configured: number | null, override: Override): void {
  gate.cap = override.maxConcurrency ?? configured ?? UNLIMITED;
  gate.paused = override.paused;
}
