/**
 * The order of dispatch, kept up to date in memory: jobs arrive, slots become free, and the next job is decided.
 *
 * One long-lived `Scheduler` serves the simulation and the benchmark. `planner.ts` fills a short-lived one with the
 * heads of lines for one pass, and states the order and its theorems.
 *
 * A decision costs O(classes of the tiers + log keys + log jobs of a line) on average. It rescores no job and walks no
 * backlog. One decision in many looks through the keys, to find those that come next (see `turn-heap.ts`).
 * - Jobs stopped by a cap are not looked at: the classes of a type without room, a paused fleet or a full tier are
 *   skipped.
 * - Jobs stopped by their key's cap or by a held conflict key are found once, taken out of the heaps, and returned when
 *   the cause is gone.
 */
import { Backlog } from './backlog.ts';
import { BestLine } from './best-line.ts';
import {
  type Control,
  classOf,
  Fleets,
  type Gate,
  Gates,
  indexPool,
  isClosed,
  isOnDemand,
  type PoolIndex,
  type Skip,
  Skips,
  typeOf,
} from './capacity.ts';
import type { JobTypeConfiguration, PoolConfiguration, TierConfiguration } from './configuration.ts';
import { Conflicts, roomFor } from './conflict.ts';
import { LOST_CLAIMS_IN_A_ROW } from './defaults.ts';
import { Estimates, type TypeEstimates, WHOLE } from './estimate.ts';
import { chargeMs, type KeyCost, Ledgers } from './fairness.ts';
import type { JobMode, ReservedJob, WaitingJob } from './job.ts';
import { NONE, RunningJobs } from './job-table.ts';
import { JobsInLimits } from './jobs-in-limits.ts';
import { LimitGates } from './limits.ts';
import { type Obstacle, obstaclesTo } from './obstacles.ts';
import { parseScope } from './scope.ts';
import { partsOf, type ScoreParts, weightOf } from './score.ts';

/** Why a job was chosen. */
export interface Reasons {
  readonly score: ScoreParts;
  /** The key's cost before this admission. */
  readonly keyCostMs: number;
  readonly weight: number;
  /** Whether its tier went first because it was below its guaranteed share. */
  readonly guaranteed: boolean;
  /** The tiers, types, keys and jobs skipped since the decision before. */
  readonly skipped: readonly Skip[];
}

/** A job to reserve, and why. */
export interface Decision {
  /** Names the running job until it ends, at less cost than its id: see `settleTicket`. */
  readonly ticket: number;
  readonly reserved: ReservedJob;
  readonly mode: JobMode;
  readonly readyAtMs: number;
  readonly reasons: Reasons;
}

/** The end of an attempt. */
export interface EndedAttempt {
  readonly nowMs: number;
  /** How long it held its slot; undefined if it never ran, so that its charge is given back. */
  readonly usedMs?: number | undefined;
  /** The estimates learn only from successes. */
  readonly succeeded: boolean;
}

export interface SchedulerOptions {
  readonly overrides?: readonly Control[] | undefined;
  /** Returns the expected cost of an attempt, in place of the scheduler's own estimates. */
  readonly costMs?: ((type: string, resourceId: string | undefined) => number) | undefined;
  /** False: decisions do not list what was skipped. */
  readonly explains?: boolean | undefined;
}

const UNLIMITED = Number.POSITIVE_INFINITY;

export class Scheduler {
  readonly ledgers: Ledgers;
  readonly estimates: Estimates;
  /** The learned costs, by type. */
  readonly #estimates: readonly TypeEstimates[];
  readonly index: PoolIndex;
  readonly fleets: Fleets;
  readonly backlog: Backlog;
  readonly #configuration: PoolConfiguration;
  readonly conflicts = new Conflicts();
  readonly #running: RunningJobs;
  readonly #gates: Gates;
  readonly limits: LimitGates;
  readonly #keyOverrides = new Map<string, Control>();
  readonly #costMs: ((type: string, resourceId: string | undefined) => number) | undefined;
  readonly #skips: Skips;
  readonly #bestLine: BestLine;
  readonly #inLimits: JobsInLimits;
  #nowMs = 0;
  #droppedInARow = 0;

  constructor(configuration: PoolConfiguration, options: SchedulerOptions = {}) {
    this.#configuration = configuration;
    this.#costMs = options.costMs;
    this.index = indexPool(configuration);
    this.ledgers = new Ledgers(configuration.fairness);
    this.estimates = new Estimates(configuration.fairness);
    this.#estimates = configuration.types.map(({ type }) => this.estimates.ofType(type));
    this.backlog = new Backlog(this.index, this.ledgers, configuration.score);
    this.fleets = new Fleets(
      configuration.fleets,
      configuration.types.map((type) => type.type),
    );
    this.#running = new RunningJobs(this.backlog.jobs);
    this.#gates = new Gates(configuration, this.index);
    this.limits = new LimitGates(configuration);
    this.#inLimits = new JobsInLimits(this.limits, this.conflicts, this.backlog);
    this.#skips = new Skips(configuration);
    this.#bestLine = new BestLine({
      index: this.index,
      coefficients: configuration.score,
      gates: this.#gates,
      fleets: this.fleets,
      limits: this.limits,
      ledgers: this.ledgers,
      backlog: this.backlog,
      conflicts: this.conflicts,
      skips: this.#skips,
      explains: options.explains ?? true,
      isKeyPaused: (fairnessKey) => this.#isKeyPaused(fairnessKey),
      isLimitHeld: (conflict) => this.#inLimits.isHeld(conflict),
    });
    for (const override of options.overrides ?? []) this.override(override);
  }

  /** Returns the number of waiting jobs. */
  get waiting(): number {
    return this.backlog.size;
  }

  /** Returns the number of running jobs. */
  get running(): number {
    return this.#running.size;
  }

  /** Returns how many jobs may still start before the pool is full. */
  get room(): number {
    const { paused, cap, running } = this.#gates.pool;
    return paused ? 0 : Math.max(0, Math.min(this.fleets.room, cap - running));
  }

  /** The tiers, types, keys and jobs skipped since the last decision. */
  get skipped(): readonly Skip[] {
    return this.#skips.list;
  }

  costs(): readonly KeyCost[] {
    return this.ledgers.list();
  }

  /**
   * Sets a pause, a cap or a weight. An override without a cap or weight restores the configured one. An unknown scope
   * has no effect.
   */
  override(override: Control): void {
    const scope = parseScope(override.scope);
    if (scope === undefined) return;
    if (scope === 'pool') this.#gates.overridePool(override);
    else if ('tier' in scope) this.#gates.overrideTier(scope.tier, override);
    else if ('type' in scope) this.#gates.overrideType(scope.type, override);
    else if ('fleet' in scope) {
      const fleet = this.fleets.names.indexOf(scope.fleet);
      if (fleet !== NONE)
        this.fleets.setCap(fleet, isClosed(override) ? 0 : (override.maxConcurrency ?? null));
    } else if ('limit' in scope) {
      this.limits.override(scope.limit, scope.key, override);
      this.#inLimits.open();
    } else if ('fairnessKey' in scope) {
      this.#keyOverrides.set(scope.fairnessKey, override);
      const key = this.ledgers.find(scope.fairnessKey);
      if (key !== undefined) this.#overrideKey(key, override);
    }
  }

  /** Sets how many slots a fleet has, including busy ones. An unknown fleet has no effect. */
  setSlots(fleet: string, slots: number): void {
    const number = this.fleets.names.indexOf(fleet);
    if (number !== NONE) this.fleets.setSlots(number, slots);
  }

  /** Sets a key's cost, for example to the settled cost in its ledger. */
  setCost(key: number, costMs: number): void {
    const before = this.ledgers.shareOf(key);
    this.ledgers.setCost(key, costMs);
    this.backlog.repriced(key);
    this.backlog.changed(key, this.ledgers.shareOf(key) < before);
  }

  /** Returns a fairness key's number. A new key gets its overrides. */
  openKey(fairnessKey: string, nowMs: number): number {
    const known = this.ledgers.find(fairnessKey);
    if (known !== undefined) return known;
    const key = this.ledgers.open(fairnessKey, nowMs);
    // The number may have belonged to another key with a higher share.
    this.backlog.repriced(key);
    const override = this.#keyOverrides.get(fairnessKey);
    if (override !== undefined) this.#overrideKey(key, override);
    return key;
  }

  /**
   * Adds a waiting job. Returns its number, for `withdraw`; undefined for a type that is not configured, whose jobs
   * never run and affect no others. `keyStays`: a job of its key was moved, parked or retried, so the key counts as
   * present and is not raised.
   */
  arrive(job: WaitingJob, nowMs: number, keyStays = false): number | undefined {
    const type = this.index.typeNumbers.get(job.type);
    if (type === undefined) return undefined;
    const key = this.openKey(job.fairnessKey, nowMs);
    this.ledgers.arrive(key, nowMs, keyStays);
    const resource = (this.#estimates[type] as TypeEstimates).arrive(job.resourceId, nowMs);
    const conflict = this.#conflictOf(type, job.resourceId);
    const number = this.backlog.add(job, resource, key, classOf(type, job.mode), conflict);
    this.#inLimits.arrive(number, type, job);
    return number;
  }

  /**
   * Changes a waiting job, such as its time. Returns its new number; undefined if it does not wait under this one. Its
   * key counts as present throughout.
   */
  replace(number: number, job: WaitingJob, nowMs: number): number | undefined {
    return this.withdraw(number, job.id, nowMs) ? this.arrive(job, nowMs, true) : undefined;
  }

  /** Removes a waiting job that was cancelled or moved to a later time. Returns whether it waited under this number. */
  withdraw(number: number, id: string, nowMs: number): boolean {
    const { jobs } = this.backlog;
    if (!jobs.isWaiting(number, id)) return false;
    const line = jobs.lineOf(number);
    const conflict = jobs.conflictOf(number);
    const resource = jobs.resourceOf(number);
    const ofLimits = jobs.limitConflictsOf(number);
    this.backlog.remove(number);
    this.ledgers.leave(this.backlog.keyOf(line), nowMs);
    this.#endEstimate(typeOf(this.backlog.classOf(line)), resource, undefined, nowMs);
    if (conflict !== NONE) {
      // Blocked jobs may have been waiting behind this job.
      if (!this.conflicts.isHeld(conflict)) this.backlog.wakeAll(conflict);
      this.conflicts.leave(conflict);
    }
    this.#inLimits.withdrawn(ofLimits);
    return true;
  }

  /**
   * Counts a job of a reservation that runs already, and its charge. If its type, tier or fleet is unknown, it still
   * counts for the pool and its key.
   */
  hold(reserved: ReservedJob, nowMs: number): void {
    const type = this.index.typeNumbers.get(reserved.type) ?? NONE;
    const tier = this.index.tierNumbers.get(reserved.tier) ?? NONE;
    const { conflictKey } = reserved;
    const conflict =
      conflictKey === undefined
        ? NONE
        : this.conflicts.use(conflictKey, roomFor(this.index.types[type], conflictKey));
    const fleet = this.fleets.names.indexOf(reserved.fleet);
    const key = this.openKey(reserved.fairnessKey, nowMs);
    // planted: weight-of-flight
    this.ledgers.hold(key, reserved.estimatedCostMs, nowMs);
    this.backlog.changed(key, false);
    this.#count(type, tier, fleet, conflict);
    // Only the id and the conflict key of a running job are read.
    const { id, version, attempt, estimatedCostMs } = reserved;
    const kept = { id, version, attempt, priority: 0, readyAtMs: nowMs };
    const number = this.backlog.jobs.add(kept, WHOLE, NONE, conflict);
    const { generation } = this.ledgers;
    const ticket = this.#running.start(number, type, tier, key, fleet, conflict, generation, estimatedCostMs);
    this.#countInLimits(ticket, reserved, reserved);
  }

  /** Whether a job with this id runs. */
  isRunning(id: string): boolean {
    return this.#running.ticketOf(id) !== undefined;
  }

  /** Whether this conflict key has no room left. */
  isConflictHeld(conflictKey: string): boolean {
    return this.#inLimits.isKeyHeld(conflictKey);
  }

  /** Whether a waiting job has a conflict key without room, apart from the bounds of its fairness key. */
  isBlocked(type: number, job: Pick<WaitingJob, 'fairnessKey' | 'resourceId' | 'keys'>): boolean {
    const rule = this.index.conflictRules[type];
    if (
      rule !== undefined &&
      job.resourceId !== undefined &&
      this.isConflictHeld(rule.prefix + job.resourceId)
    )
      return true;
    return this.#inLimits.isBlocked(type, job);
  }

  /** Starts no further job with this conflict key, because jobs that are not counted here run with it. */
  closeConflict(conflictKey: string): void {
    const conflict = this.conflicts.use(conflictKey);
    this.conflicts.close(conflict);
    this.backlog.held(conflict);
  }

  /** Counts one more running job with this conflict key, which was claimed with another one. */
  holdConflict(conflictKey: string, room: number): void {
    this.#holdConflict(this.conflicts.use(conflictKey, room));
  }

  /** Begins a pass: ages are taken at `nowMs`, rarity from the slots that are free now. */
  beginPass(nowMs: number): void {
    this.#nowMs = nowMs;
    this.limits.beginPass(nowMs);
    this.#inLimits.open();
    this.#bestLine.beginPass(nowMs);
  }

  /** Admits the next job of the pass, which counts as running from then on. Undefined: no waiting job may start. */
  next(): Decision | undefined {
    if (this.room <= 0) return undefined;
    for (let tier = 0; tier < this.index.tiers.length; tier += 1) {
      if (!this.isBelowGuarantee(tier)) continue;
      const line = this.best(tier);
      if (line !== NONE) return this.admit(line, true);
    }
    for (let tier = 0; tier < this.index.tiers.length; tier += 1) {
      const line = this.best(tier);
      if (line !== NONE) return this.admit(line, false);
    }
    return undefined;
  }

  /** Whether a tier runs fewer jobs than its guaranteed share. */
  isBelowGuarantee(tier: number): boolean {
    const { guaranteed } = this.index.tiers[tier] as TierConfiguration;
    return (this.#gates.tiers[tier] as Gate).running < guaranteed;
  }

  /** Whether a tier's cap and pause let another job start. */
  isTierOpen(tier: number): boolean {
    return this.#bestLine.isTierOpen(tier);
  }

  /** Returns how many more jobs of a tier may start. */
  roomOfTier(tier: number): number {
    const gate = this.#gates.tiers[tier] as Gate;
    return gate.paused ? 0 : Math.max(0, gate.cap - gate.running);
  }

  /** Whether a type's cap, its pause and the free slots let another job start. */
  isTypeOpen(type: number): boolean {
    return this.#bestLine.isTypeOpen(type);
  }

  /** Returns how many more jobs of a type may start. */
  roomOfType(type: number): number {
    const gate = this.#gates.types[type] as Gate;
    return gate.paused ? 0 : Math.max(0, Math.min(gate.cap - gate.running, this.fleets.roomOfType(type)));
  }

  /**
   * Returns the line whose head a tier admits next; -1: no job of the tier may start. A line whose head is not read
   * wins every tie.
   */
  best(tier: number): number {
    return this.#bestLine.of(tier);
  }

  /** Returns how many free slots could run the type when the pass began. */
  compatibleSlots(type: string): number {
    return this.#bestLine.compatibleSlots(this.index.typeNumbers.get(type) ?? NONE);
  }

  /**
   * Returns all obstacles to a job, from the pool down to the job; none for a job that only waits for others that come
   * first.
   */
  obstaclesTo(job: Pick<WaitingJob, 'type' | 'fairnessKey' | 'resourceId' | 'keys'>): readonly Obstacle[] {
    return obstaclesTo(job, {
      index: this.index,
      gates: this.#gates,
      fleets: this.fleets,
      limits: this.limits,
      ledgers: this.ledgers,
      conflicts: this.conflicts,
      jobs: this.backlog.jobs,
      running: this.#running,
      isKeyPaused: (fairnessKey) => this.#isKeyPaused(fairnessKey),
    });
  }

  /** Admits the head of a line that `best` has returned and that was read. */
  admit(line: number, guaranteed: boolean): Decision {
    const { backlog, ledgers } = this;
    const { jobs } = backlog;
    const conflict = backlog.headConflict(line);
    const number = backlog.head(line);
    // Read before the line is changed: the job's columns lie elsewhere, and the processor can fetch both at once.
    const job = jobs.jobOf(number);
    const named = jobs.namedOf(number);
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
    const { generation } = ledgers;
    const ticket = this.#running.start(number, type, tier, key, fleet, conflict, generation, chargedMs);
    const units = this.limits.unitsOf(type, named.units);
    const startByMs = this.limits.startByMsOf(type, this.#nowMs);
    this.#countInLimits(ticket, { keys: named.keys, units, startByMs });
    return {
      ticket,
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
        ...(named.keys === undefined ? {} : { keys: named.keys }),
        ...(configured.limits === undefined ? {} : { limits: configured.limits }),
        ...(units === undefined ? {} : { units }),
        ...(startByMs === undefined ? {} : { startByMs }),
        estimatedCostMs: chargedMs,
      },
      mode: isOnDemand(class_) ? 'onDemand' : 'queued',
      readyAtMs: job.readyAtMs,
      reasons: {
        score: partsOf(
          isOnDemand(class_),
          job.priority,
          Math.max(0, this.#nowMs - job.readyAtMs),
          this.#bestLine.rarityOf(type),
          this.#configuration.score,
        ),
        keyCostMs,
        weight: ledgers.weightOf(key),
        guaranteed,
        skipped: this.#skips.take(),
      },
    };
  }

  /** Ends a running job. Returns whether it ran; a second end has no effect. */
  settle(id: string, ending: EndedAttempt): boolean {
    const ticket = this.#running.ticketOf(id);
    return ticket !== undefined && this.settleTicket(ticket, ending);
  }

  /** Ends a running job by its decision's ticket, which is used again afterwards. */
  settleTicket(ticket: number, ending: EndedAttempt): boolean {
    const running = this.#running;
    const number = running.jobOf(ticket);
    if (number === NONE) return false;
    running.end(ticket);
    const { jobs } = this.backlog;
    const resource = jobs.resourceOf(number);
    const ofLimits = jobs.limitConflictsOf(number);
    jobs.forget(number);
    const type = running.typeOf(ticket);
    const key = running.keyOf(ticket);
    const wasFull = this.ledgers.isFull(key) || this.backlog.hasClosedLines;
    const shareBefore = this.ledgers.shareOf(key);
    this.ledgers.settle(
      key,
      running.chargedMsOf(ticket),
      ending.usedMs,
      running.generationOf(ticket),
      ending.nowMs,
    );
    this.#inLimits.uncount(ticket, ofLimits, ending.usedMs, ending.nowMs);
    const isCheaper = this.ledgers.shareOf(key) < shareBefore;
    if (isCheaper) this.backlog.repriced(key);
    if (wasFull) this.backlog.readmit(key);
    this.backlog.changed(key, isCheaper || wasFull);
    if (type !== NONE) {
      const observedMs = ending.succeeded ? ending.usedMs : undefined;
      this.#endEstimate(type, resource, observedMs, ending.nowMs);
    }
    this.#uncount(type, running.tierOf(ticket), running.fleetOf(ticket), running.conflictOf(ticket));
    return true;
  }

  /** Called when a decision stands: its job was reserved and sent, or claimed. */
  kept(): void {
    this.#droppedInARow = 0;
  }

  /**
   * Called when a decision does not stand, because its job had moved on: its capacity and its charge are given back. Returns true
   * after more such decisions in a row than the pool allows: the candidates are stale, and the pass begins anew with the slots
   * that are free now.
   */
  dropped(id: string): boolean {
    if (!this.settle(id, { nowMs: this.#nowMs, succeeded: false })) return false;
    this.#droppedInARow += 1;
    if (this.#droppedInARow <= (this.#configuration.lostClaimsInARow ?? LOST_CLAIMS_IN_A_ROW)) return false;
    this.#droppedInARow = 0;
    this.beginPass(this.#nowMs);
    return true;
  }

  /** Deletes ledgers and estimates that were unused for their time to live. */
  evict(nowMs: number): void {
    this.ledgers.evict(nowMs);
    this.estimates.evict(nowMs);
  }

  /** Sets all costs to 0. */
  resetCosts(): void {
    this.ledgers.reset();
    this.backlog.allRepriced();
  }

  #conflictOf(type: number, resourceId: string | undefined): number {
    const rule = this.index.conflictRules[type];
    if (rule === undefined || resourceId === undefined) return NONE;
    return this.conflicts.use(rule.prefix + resourceId, rule.room);
  }

  #endEstimate(type: number, resource: number, observedMs: number | undefined, nowMs: number): void {
    const { defaultCostMs } = this.index.types[type] as JobTypeConfiguration;
    (this.#estimates[type] as TypeEstimates).end(resource, defaultCostMs, observedMs, nowMs);
  }

  #count(type: number, tier: number, fleet: number, conflict: number): void {
    this.#gates.count(type, tier);
    if (fleet !== NONE) this.fleets.take(fleet);
    if (conflict !== NONE) this.#holdConflict(conflict);
  }

  #holdConflict(conflict: number): void {
    this.conflicts.hold(conflict);
    if (this.conflicts.isHeld(conflict)) this.backlog.held(conflict);
    // While the key has room, the next blocked job of each line may start too.
    else this.backlog.wake(conflict);
  }

  #uncount(type: number, tier: number, fleet: number, conflict: number): void {
    this.#gates.uncount(type, tier);
    if (fleet !== NONE) this.fleets.give(fleet);
    if (conflict === NONE) return;
    if (this.conflicts.release(conflict)) this.backlog.wake(conflict);
    this.conflicts.leave(conflict);
  }

  #countInLimits(
    ticket: number,
    { keys, units, startByMs }: Pick<ReservedJob, 'keys' | 'units' | 'startByMs'>,
    reserved?: Pick<ReservedJob, 'limits'>,
  ): void {
    if (this.limits.isEmpty) return;
    const running = this.#running;
    this.#inLimits.count(ticket, running.jobOf(ticket), {
      limits: this.limits.numbersOf(running.typeOf(ticket), reserved),
      fairnessKey: this.ledgers.nameOf(running.keyOf(ticket)),
      keys,
      units,
      startByMs,
      costMs: running.chargedMsOf(ticket),
    });
  }

  #isKeyPaused(fairnessKey: string): boolean {
    const override = this.#keyOverrides.get(fairnessKey);
    return override !== undefined && isClosed(override);
  }

  #overrideKey(key: number, override: Control): void {
    const name = this.ledgers.nameOf(key);
    const { weights, defaultWeight, maxConcurrencyPerKey } = this.#configuration.fairness;
    const cap = override.maxConcurrency ?? maxConcurrencyPerKey ?? UNLIMITED;
    this.ledgers.setCap(key, isClosed(override) ? 0 : cap);
    this.ledgers.setWeight(key, override.weight ?? weightOf(weights, defaultWeight, name));
    this.backlog.repriced(key);
    this.backlog.readmit(key);
    this.backlog.changed(key, true);
  }
}
