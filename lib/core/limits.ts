/**
 * Named limits: bounds that several types share, for all of their jobs and for each key. The key is the fairness key, or
 * the job's key that `keyedBy` names.
 *
 * - Caps (`total`, `perKey`) count the jobs that run.
 * - Rates count starts, or the units of the jobs that start. A job that is reserved may start at any moment until the
 *   `startByMs` of its message; after that its worker refuses to start it. So its start counts from the reservation on,
 *   and until one window after the latest moment at which it can have happened: `startByMs`, or the settlement if that
 *   came sooner. The reservation entry keeps what the message says, whatever is deployed meanwhile. Any `starts + 1` jobs
 *   that start within one window were therefore counted together when the last of them was reserved, which the plan
 *   refuses. A rate of units is closed as soon as a job with `perJob` units would exceed it, so
 *   the jobs of a line may all start, or none. After a deployment with a smaller `perJob`, jobs with more units may wait.
 *   Where a plan meets such a job, the rate is closed as soon as that job would exceed it. A job with more units than
 *   the whole rate starts when nothing else counts.
 * - Budgets add up the cost of attempts: the expected cost of those in flight, and the cost of those that ended within
 *   the window. A key starts jobs while the sum is below its budget, so that its last attempts may exceed it.
 *
 * Ended attempts are kept as uses: amounts, each with the instant until which it counts. The starts of a whole limit
 * stand in the partition summary, those of a key in its ledger (`ledgerOfKey`). Both are written by the commit that drops
 * the reservation entry, so nothing is counted twice or not at all, and unused limits write nothing.
 *
 * The promise holds while the clocks of dispatchers and workers differ by at most a fortieth of the window, and by at
 * most `CLOCK_SKEW_MAX_MS`.
 */
import { type Control, type Gate, gateOf, overrideGate } from './capacity.ts';
import type {
  JobTypeConfiguration,
  LimitConfiguration,
  PoolConfiguration,
  RateConfiguration,
  WindowConfiguration,
} from './configuration.ts';
import { conflictKeyOfLimit, type KeyOfLimit } from './conflict.ts';
import type { JobUnits, ReservedJob, WaitingJob } from './job.ts';
import { CLOCK_SKEW_MAX_MS } from './lease.ts';
import { type Obstacle, obstaclesAt } from './obstacles.ts';
import { type CapScope, type KeyedLimit, limitKeyOf, limitsCounting, printScope } from './scope.ts';

/** An amount that counts until an instant, in epoch ms. */
export type Use = readonly [untilMs: number, amount: number];

/** The uses within the windows of limits, by `rateName` and `budgetName`. */
export type Uses = ReadonlyMap<string, readonly Use[]>;

export const NO_USES: Uses = new Map();

const rateName = (limit: string): string => `rate/${limit}`;
const budgetName = (limit: string): string => `budget/${limit}`;

/** Uses whose ends lie within a twentieth of a window are added up, so that few are kept. */
const ENDS_PER_WINDOW = 20;

/**
 * Allowance for clocks that differ. The margin is for two comparisons, each between the instants of one reservation and
 * of a later one.
 */
const marginMs = ({ perMs }: WindowConfiguration): number => Math.min(2 * CLOCK_SKEW_MAX_MS, perMs / 20);

/** The time within which a job of a rate must start after its reservation. */
const START_WITHIN_MS = { least: 2_000, most: 15_000 } as const;

const startWithinMs = ({ perMs }: WindowConfiguration): number =>
  Math.min(START_WITHIN_MS.most, Math.max(START_WITHIN_MS.least, perMs / 10));

/** Returns the limits that count a job in flight: those of its type when it was reserved, and those of its type now. */
export function limitsOf(
  configuration: Pick<PoolConfiguration, 'limits' | 'types'>,
  job: Pick<ReservedJob, 'type' | 'limits'>,
): readonly LimitConfiguration[] {
  // planted: limits-as-reserved-2
  const names = limitsCounting(configuration, job).map(({ limit }) => limit);
  return configuration.limits?.filter(({ limit }) => names.includes(limit)) ?? [];
}

/** A job as the keys of limits see it. */
export type JobOfKeys = Pick<WaitingJob, 'fairnessKey' | 'keys'>;

/** A job as limits count its start. */
export type JobOfLimits = JobOfKeys & Pick<WaitingJob, 'units'>;

/** A reserved job as limits count its start. */
type ReservedOfLimits = JobOfLimits & Pick<ReservedJob, 'startByMs'>;

/** Returns what the start of a job counts in a rate: 1, or its units. A job that names none has as many as one may have. */
function amountOf(limit: string, { perJob }: RateConfiguration, units: JobUnits | undefined): number {
  if (perJob === undefined) return 1;
  // planted: units-as-starts
  return unitsIn(units, limit) ?? perJob;
}

/** Returns the limits of a type whose rates count units, each with the most units of one job. */
export const unitLimitsOf = (
  { limits: declared = [] }: Pick<PoolConfiguration, 'limits'>,
  { limits = [] }: Pick<JobTypeConfiguration, 'limits'>,
): readonly { readonly limit: string; readonly perJob: number }[] =>
  declared.flatMap(({ limit, rate }) =>
    rate?.perJob !== undefined && limits.includes(limit) ? [{ limit, perJob: rate.perJob }] : [],
  );

/** Returns the units that a job names for a limit; undefined: it names none. */
export const unitsIn = (units: JobUnits | undefined, limit: string): number | undefined =>
  units !== undefined && Object.hasOwn(units, limit) ? units[limit] : undefined;

/** Returns the most starts, or the most units, of all keys of a rate; null: no limit. */
const mostOf = ({ starts, units }: RateConfiguration): number | null =>
  units === undefined ? starts : units;

/**
 * Returns the name of the ledger that keeps what a key of a limit has used. No fairness key begins with this character: other
 * keys have ledgers of their own, which only hold uses.
 */
export const ledgerOfKey = ({ keyedBy }: Pick<KeyedLimit, 'keyedBy'>, key: string): string =>
  keyedBy === undefined ? key : `${NOT_A_FAIRNESS_KEY}${keyedBy}${NOT_A_FAIRNESS_KEY}${key}`;

export const NOT_A_FAIRNESS_KEY = '\u0000';

/** Returns the key of a limit whose uses a ledger of this name keeps; undefined: it keeps none of this limit. */
function keyOfLedger({ keyedBy }: Pick<KeyedLimit, 'keyedBy'>, ledger: string): string | undefined {
  const prefix = ledgerOfKey({ keyedBy }, '');
  return ledger.startsWith(prefix) ? ledger.slice(prefix.length) : undefined;
}

/** Returns the names of the ledgers, other than that of the fairness key, that count the uses of these jobs. */
export function ledgersOfKeys(
  configuration: Pick<PoolConfiguration, 'limits' | 'types'>,
  jobs: Iterable<Pick<ReservedJob, 'type' | 'fairnessKey' | 'keys' | 'limits'>>,
): ReadonlySet<string> {
  const names = new Set<string>();
  if (!configuration.limits?.some(({ keyedBy }) => keyedBy !== undefined)) return names;
  for (const job of jobs) {
    for (const limit of limitsOf(configuration, job)) {
      const hasWindow = limit.budget !== undefined || typeof limit.rate?.perKey === 'number';
      if (limit.keyedBy !== undefined && hasWindow) names.add(ledgerOfKey(limit, limitKeyOf(limit, job)));
    }
  }
  return names;
}

/** Returns the epoch ms until which a start counts that happened at `latestMs` or earlier. */
const startCountsUntilMs = (rate: WindowConfiguration, latestMs: number): number =>
  latestMs + rate.perMs + marginMs(rate);

/** Returns the latest instant at which a reserved job may start; infinite: its message says none. */
function latestStartMs({ startByMs }: Pick<ReservedJob, 'startByMs'>): number {
  // planted: late-without-a-rate
  return startByMs ?? Infinity;
}

/** An attempt that is over, as the windows count it. */
export interface UsedAttempt {
  /** When its end was settled. */
  readonly nowMs: number;
  /** Undefined: it never started. */
  readonly usedMs: number | undefined;
}

/** The uses of whole limits and of keys, by the names of their ledgers, after an attempt; those that are absent stay as they were. */
export interface UsesAfter {
  readonly total?: Uses | undefined;
  readonly ofLedgers: ReadonlyMap<string, Uses>;
}

/** Adds an attempt of a job to the windows of its limits. */
export function withAttempt(
  limits: readonly LimitConfiguration[],
  job: ReservedOfLimits,
  before: { readonly total: Uses; readonly ofLedger: (name: string) => Uses },
  { nowMs, usedMs }: UsedAttempt,
): UsesAfter {
  const ofLedgers = new Map<string, Uses>();
  if (usedMs === undefined) return { ofLedgers };
  let { total } = before;
  for (const limit of limits) {
    const { limit: name, rate, budget } = limit;
    const ledger = ledgerOfKey(limit, limitKeyOf(limit, job));
    const addToKey = (window: string, use: Use, of: WindowConfiguration): void =>
      void ofLedgers.set(
        ledger,
        withUse(ofLedgers.get(ledger) ?? before.ofLedger(ledger), window, use, of, nowMs),
      );
    if (rate !== undefined) {
      // planted: started-when-reserved
      const latestMs = Math.min(nowMs, latestStartMs(job));
      const use: Use = [startCountsUntilMs(rate, latestMs), amountOf(name, rate, job.units)];
      if (mostOf(rate) !== null) total = withUse(total, rateName(name), use, rate, nowMs);
      if (rate.perKey !== null) addToKey(rateName(name), use, rate);
    }
    if (budget !== undefined) addToKey(budgetName(name), [nowMs + budget.perMs, usedMs], budget);
  }
  return { ...(total === before.total ? {} : { total }), ofLedgers };
}

/** Uses with one more, and without those that no longer count. */
function withUse(
  uses: Uses,
  name: string,
  [untilMs, amount]: Use,
  { perMs }: WindowConfiguration,
  nowMs: number,
): Uses {
  const stepMs = perMs / ENDS_PER_WINDOW;
  const roundedMs = Math.ceil(Math.ceil(untilMs / stepMs) * stepMs);
  const before = (uses.get(name) ?? []).filter(([endMs]) => endMs > nowMs);
  const same = before.find(([endMs]) => endMs === roundedMs);
  const others = before.filter((use) => use !== same);
  return new Map([...uses, [name, [...others, [roundedMs, (same?.[1] ?? 0) + amount]]]]);
}

/** Uses without those that no longer count; undefined if none counts. */
export function liveUses(uses: Uses | undefined, nowMs: number): Uses | undefined {
  if (uses === undefined) return undefined;
  const live = [...uses].flatMap(([name, all]) => {
    const counted = all.filter(([untilMs]) => untilMs > nowMs);
    return counted.length === 0 ? [] : [[name, counted] as const];
  });
  return live.length === 0 ? undefined : new Map(live);
}

/** A sum over a window, with its bound. */
interface Window {
  readonly most: number;
  readonly configured: WindowConfiguration;
  /** The most that one start adds to it; undefined: a key starts jobs while it is below its budget. */
  perStart: number | undefined;
  uses: Use[];
  /** The sum of the uses. */
  amount: number;
}

const isSpent = (window: Window | undefined): window is Window =>
  window !== undefined && isSpentBy(window, window.amount);

function isSpentBy({ most, perStart }: Window, amount: number): boolean {
  if (amount <= 0) return false;
  return perStart === undefined ? amount >= most : amount + perStart > most;
}

function add(window: Window | undefined, uses: readonly Use[]): void {
  if (window === undefined) return;
  for (const use of uses) {
    window.uses.push(use);
    window.amount += use[1];
  }
}

/**
 * Returns when so many uses of a spent window have ceased to count that a job may start; Infinity: only the end of an
 * attempt makes room.
 */
function opensAtMs(window: Window): number {
  let { amount } = window;
  for (const [untilMs, used] of window.uses.toSorted(([a], [b]) => a - b)) {
    amount -= used;
    if (!isSpentBy(window, amount)) return untilMs;
  }
  return Infinity;
}

/** How much of a limit's rate is used. */
export interface RateUse {
  readonly limit: string;
  /** Starts, or units, that count now. */
  readonly used: number;
  readonly most: number;
  readonly perMs: number;
  /** The most units of one job; absent: the rate counts starts. */
  readonly perJob?: number | undefined;
  /** When the first of them ceases to count, epoch ms; undefined: none does by itself. */
  readonly untilMs?: number | undefined;
}

/** The bounds of one key in one limit. */
interface KeyGate {
  readonly gate: Gate;
  readonly rate?: Window | undefined;
  readonly budget?: Window | undefined;
}

/** A job that the limits count. */
export interface CountedJob extends ReservedOfLimits {
  /** The numbers of its limits. */
  readonly limits: readonly number[];
  readonly costMs: number;
}

/** The limits of a pool with what jobs use of them. Types are numbers, as in `capacity.ts`. */
export class LimitGates {
  readonly #limits: readonly LimitConfiguration[];
  /** By type: the numbers of its limits. */
  readonly #ofType: readonly (readonly number[])[];
  readonly #totals: readonly Gate[];
  readonly #rates: readonly (Window | undefined)[];
  /** By limit, then by key. */
  readonly #keys: readonly Map<string, KeyGate>[];
  /** By type: the numbers of its limits that count by the fairness key, and of the others. */
  readonly #byFairnessKey: readonly (readonly number[])[];
  readonly #byOtherKeys: readonly (readonly number[])[];
  /** Overrides of single keys, by limit and key. */
  readonly #overrides = new Map<string, Control>();
  /** By the name of the ledger that keeps them. */
  readonly #usesOfKeys = new Map<string, Uses>();
  #nowMs = 0;

  constructor({ limits = [], types }: Pick<PoolConfiguration, 'limits' | 'types'>) {
    this.#limits = limits;
    this.#ofType = types.map((type) => this.#numbersIn(type.limits ?? []));
    this.#totals = limits.map(({ total }) => gateOf(total));
    this.#rates = limits.map(({ rate }) => windowOfRate(rate, rate === undefined ? null : mostOf(rate)));
    this.#keys = limits.map(() => new Map());
    const isOther = (at: number): boolean => limits[at]?.keyedBy !== undefined;
    this.#byFairnessKey = this.#ofType.map((numbers) => numbers.filter((at) => !isOther(at)));
    this.#byOtherKeys = this.#ofType.map((numbers) => numbers.filter(isOther));
  }

  /** Whether the pool declares no limits, so that nothing else here needs to be asked. */
  get isEmpty(): boolean {
    return this.#limits.length === 0;
  }

  /**
   * Returns the indexes of the limits that count a job. `type` is the index of the job's type, or -1 if the type is no
   * longer declared.
   */
  numbersOf(type: number, reserved: Pick<ReservedJob, 'limits'> = {}): readonly number[] {
    const ofType = this.#ofType[type] ?? [];
    // planted: limits-as-declared-now
    if (reserved.limits === undefined) return ofType;
    // planted: limits-as-reserved
    return [...new Set([...ofType, ...this.#numbersIn(reserved.limits)])];
  }

  /** Returns the indexes of these limits. Names that are no longer declared are left out. */
  #numbersIn(names: readonly string[]): readonly number[] {
    return names.map((name) => this.#limits.findIndex(({ limit }) => limit === name)).filter((at) => at >= 0);
  }

  beginPass(nowMs: number): void {
    this.#nowMs = nowMs;
    for (const window of this.#windows()) {
      const { uses } = window;
      window.uses = [];
      window.amount = 0;
      add(
        window,
        uses.filter(([untilMs]) => untilMs > nowMs),
      );
    }
  }

  /** Sets how much ended attempts have used of each limit, over all fairness keys. */
  setUses(uses: Uses): void {
    for (const [at, { limit }] of this.#limits.entries())
      add(this.#rates[at], this.#liveIn(uses, rateName(limit)));
  }

  /** Takes what ended attempts have used, as the ledger of this name keeps it. The first call for a name counts. */
  setUsesOfKey(ledger: string, uses: Uses | undefined): void {
    if (uses === undefined || this.#usesOfKeys.has(ledger)) return;
    this.#usesOfKeys.set(ledger, uses);
    for (const [at, limit] of this.#limits.entries()) {
      const key = keyOfLedger(limit, ledger);
      const gate = key === undefined ? undefined : this.#keys[at]?.get(key);
      add(gate?.rate, this.#liveIn(uses, rateName(limit.limit)));
      add(gate?.budget, this.#liveIn(uses, budgetName(limit.limit)));
    }
  }

  /** Sets an operator's override of a limit, or of one key of it. An unknown limit has no effect. */
  override(name: string, key: string | undefined, override: Control): void {
    const at = this.#limits.findIndex(({ limit }) => limit === name);
    const limit = this.#limits[at];
    if (limit === undefined) return;
    if (key === undefined) overrideGate(this.#totals[at] as Gate, limit.total, override);
    else {
      this.#overrides.set(`${name}/${key}`, override);
      overrideGate(this.#keyGate(at, key).gate, limit.perKey, override);
    }
  }

  /** Closes the rates of a type sooner for a job that waits with more units than a job may have now. */
  makeRoomFor(type: number, job: JobOfLimits): void {
    for (const at of this.#ofType[type] ?? []) {
      const { limit, rate } = this.#limits[at] as LimitConfiguration;
      const units = unitsIn(job.units, limit) ?? 0;
      if (rate?.perJob === undefined || units <= rate.perJob) continue;
      for (const window of [this.#rates[at], this.#gateOf(at, job).rate])
        if (window !== undefined) window.perStart = Math.max(window.perStart ?? 0, units);
    }
  }

  /** Returns the units of a job in the rates of its type that count units; undefined: there are none. */
  unitsOf(type: number, units: JobUnits | undefined): JobUnits | undefined {
    let counted: Record<string, number> | undefined;
    for (const at of this.#ofType[type] ?? []) {
      const { limit, rate } = this.#limits[at] as LimitConfiguration;
      if (rate?.perJob !== undefined) counted = { ...counted, [limit]: amountOf(limit, rate, units) };
    }
    return counted;
  }

  /** Returns the instant after which a job of this type that is reserved now may not start any more; undefined: no rate holds it. */
  startByMsOf(type: number, nowMs: number): number | undefined {
    const rates = (this.#ofType[type] ?? []).flatMap((at) => this.#limits[at]?.rate ?? []);
    return rates.length === 0 ? undefined : nowMs + Math.min(...rates.map(startWithinMs));
  }

  /** Whether the limits of a type, apart from those of single keys, let another job start. */
  isTypeOpen(type: number): boolean {
    const limits = this.#ofType[type] ?? [];
    for (const at of limits) if (!isOpen(this.#totals[at] as Gate) || isSpent(this.#rates[at])) return false;
    return true;
  }

  /** Whether the limits of a type that count by the fairness key let another job of this key start. */
  isKeyOpen(type: number, fairnessKey: string): boolean {
    for (const at of this.#byFairnessKey[type] ?? []) if (!this.#isOpenTo(at, fairnessKey)) return false;
    return true;
  }

  /** Whether jobs of this type are under limits that count by other keys than the fairness key. */
  hasOtherKeys(type: number): boolean {
    return (this.#byOtherKeys[type]?.length ?? 0) > 0;
  }

  /** The conflict keys of a waiting job in the limits of its type that count by other keys than the fairness key. */
  conflictKeysOf(type: number, job: JobOfKeys): readonly string[] {
    return this.conflictKeysIn(this.#byOtherKeys[type] ?? [], job);
  }

  /** The conflict keys of a job in those of these limits, given as numbers, that count by other keys than the fairness key. */
  conflictKeysIn(limits: readonly number[], job: JobOfKeys): readonly string[] {
    return limits.flatMap((at) => {
      const limit = this.#limits[at] as LimitConfiguration;
      if (limit.keyedBy === undefined) return [];
      return [conflictKeyOfLimit({ limit: limit.limit, key: limitKeyOf(limit, job) })];
    });
  }

  /** Whether a key of a limit lets another job start. One of a limit that is not declared does. */
  isOpenTo({ limit, key }: KeyOfLimit): boolean {
    const at = this.#limits.findIndex((each) => each.limit === limit);
    return at < 0 || this.#isOpenTo(at, key);
  }

  /** Whether a key of a limit is at its cap, so that the end of a running job makes room. */
  isAtCap({ limit, key }: KeyOfLimit): boolean {
    const at = this.#limits.findIndex((each) => each.limit === limit);
    if (at < 0 || !this.#boundsKeys(at)) return false;
    const { running, cap } = this.#keyGate(at, key).gate;
    return running > 0 && running >= cap;
  }

  #isOpenTo(at: number, key: string): boolean {
    if (!this.#boundsKeys(at)) return true;
    const { gate, rate, budget } = this.#keyGate(at, key);
    return isOpen(gate) && !isSpent(rate) && !isSpent(budget);
  }

  /** Counts a job that is reserved, whether or not it has started. */
  count(job: CountedJob): void {
    const { limits, costMs } = job;
    for (const at of limits) {
      const start = this.#startOf(at, job);
      (this.#totals[at] as Gate).running += 1;
      if (start !== undefined) add(this.#rates[at], [start]);
      // Also of a limit that bounds no key yet: an operator may cap one while its jobs run.
      const { gate, rate, budget } = this.#gateOf(at, job);
      gate.running += 1;
      if (start !== undefined) add(rate, [start]);
      add(budget, [[Infinity, costMs]]);
    }
  }

  /** Removes a job that has ended; `usedMs` is undefined for one that never started. */
  uncount(job: CountedJob, usedMs: number | undefined, nowMs: number): void {
    const { limits, costMs } = job;
    for (const at of limits) {
      const start = usedMs === undefined ? this.#startOf(at, job) : undefined;
      (this.#totals[at] as Gate).running -= 1;
      if (start !== undefined) remove(this.#rates[at], start);
      const { gate, rate, budget } = this.#gateOf(at, job);
      gate.running -= 1;
      if (start !== undefined) remove(rate, start);
      if (budget === undefined) continue;
      remove(budget, [Infinity, costMs]);
      if (usedMs !== undefined) add(budget, [[nowMs + budget.configured.perMs, usedMs]]);
    }
  }

  /** Returns the bounds that keep a job of this type and these keys from starting. */
  obstaclesTo(type: number, job: JobOfKeys): readonly Obstacle[] {
    return (this.#ofType[type] ?? []).flatMap((at) => {
      const configured = this.#limits[at] as LimitConfiguration;
      const { limit } = configured;
      const scope = { limit };
      const whole = [
        ...obstaclesAt(scope, this.#totals[at] as Gate),
        ...spentAt('rate', scope, this.#rates[at], configured.rate),
      ];
      if (!this.#boundsKeys(at)) return whole;
      const { gate, rate, budget } = this.#gateOf(at, job);
      const ofKey = { limit, key: limitKeyOf(configured, job) };
      return [
        ...whole,
        ...obstaclesAt(ofKey, gate),
        ...spentAt('rate', ofKey, rate, configured.rate),
        ...spentAt('budget', ofKey, budget),
      ];
    });
  }

  /** The rates of whole limits. */
  get rates(): readonly RateUse[] {
    return this.#limits.flatMap(({ limit, rate }, at) => {
      const window = this.#rates[at];
      if (window === undefined) return [];
      const { amount, most, configured, uses } = window;
      const untilMs = uses.reduce((least, [endMs]) => Math.min(least, endMs), Infinity);
      const until = untilMs === Infinity ? {} : { untilMs };
      return [{ limit, used: amount, most, perMs: configured.perMs, ...perJobOf(rate), ...until }];
    });
  }

  /** When the first rate or budget that is used up opens by itself, in epoch ms; undefined: none does. */
  get opensAtMs(): number | undefined {
    let leastMs = Infinity;
    for (const window of this.#windows()) if (isSpent(window)) leastMs = Math.min(leastMs, opensAtMs(window));
    return leastMs === Infinity ? undefined : leastMs;
  }

  #liveIn(uses: Uses, name: string): readonly Use[] {
    return (uses.get(name) ?? []).filter(([untilMs]) => untilMs > this.#nowMs);
  }

  *#windows(): Generator<Window> {
    for (const rate of this.#rates) if (rate !== undefined) yield rate;
    for (const keys of this.#keys) {
      for (const { rate, budget } of keys.values()) {
        if (rate !== undefined) yield rate;
        if (budget !== undefined) yield budget;
      }
    }
  }

  #boundsKeys(at: number): boolean {
    const { perKey, rate, budget } = this.#limits[at] as LimitConfiguration;
    // A key may be paused, or capped by an operator, in any limit.
    return (
      perKey !== null || budget !== undefined || typeof rate?.perKey === 'number' || this.#overrides.size > 0
    );
  }

  #gateOf(at: number, job: JobOfKeys): KeyGate {
    // planted: limits-by-fairness-key
    return this.#keyGate(at, limitKeyOf(this.#limits[at] as LimitConfiguration, job));
  }

  #keyGate(at: number, key: string): KeyGate {
    const known = this.#keys[at]?.get(key);
    if (known !== undefined) return known;
    const configured = this.#limits[at] as LimitConfiguration;
    const { limit, perKey, rate, budget } = configured;
    const uses = this.#usesOfKeys.get(ledgerOfKey(configured, key)) ?? NO_USES;
    const gate = gateOf(perKey);
    const override = this.#overrides.get(`${limit}/${key}`);
    if (override !== undefined) overrideGate(gate, perKey, override);
    const made = {
      gate,
      rate: windowOfRate(rate, rate?.perKey ?? null, this.#liveIn(uses, rateName(limit))),
      budget: windowOf(budget, budget?.slotMs ?? null, undefined, this.#liveIn(uses, budgetName(limit))),
    };
    this.#keys[at]?.set(key, made);
    return made;
  }

  /** Returns the use of a start that has not been settled; undefined: its window is over, or no rate is declared. */
  #startOf(at: number, job: CountedJob): Use | undefined {
    const { limit, rate } = this.#limits[at] as LimitConfiguration;
    if (rate === undefined) return undefined;
    const untilMs = startCountsUntilMs(rate, latestStartMs(job));
    return untilMs > this.#nowMs ? [untilMs, amountOf(limit, rate, job.units)] : undefined;
  }
}

const windowOfRate = (
  rate: RateConfiguration | undefined,
  most: number | null,
  uses: readonly Use[] = [],
): Window | undefined => windowOf(rate, most, rate?.perJob ?? 1, uses);

function windowOf(
  configured: WindowConfiguration | undefined,
  most: number | null,
  perStart: number | undefined,
  uses: readonly Use[],
): Window | undefined {
  if (configured === undefined || most === null) return undefined;
  const window = { most, configured, perStart, uses: [], amount: 0 };
  add(window, uses);
  return window;
}

/** The field `perJob` of a rate that counts units, as the use of a rate shows it. */
const perJobOf = (rate: RateConfiguration | undefined): Pick<RateUse, 'perJob'> =>
  rate?.perJob === undefined ? {} : { perJob: rate.perJob };

function remove(window: Window | undefined, [untilMs, amount]: Use): void {
  const at = window?.uses.findLastIndex((use) => use[0] === untilMs && use[1] === amount) ?? -1;
  if (window === undefined || at < 0) return;
  window.uses.splice(at, 1);
  window.amount -= amount;
}

const isOpen = ({ paused, running, cap }: Gate): boolean => !paused && running < cap;

function spentAt(
  why: 'rate' | 'budget',
  of: CapScope,
  window: Window | undefined,
  rate?: RateConfiguration,
): readonly Obstacle[] {
  if (!isSpent(window)) return [];
  const untilMs = opensAtMs(window);
  return [
    {
      why,
      scope: printScope(of),
      most: window.most,
      perMs: window.configured.perMs,
      used: window.amount,
      ...perJobOf(rate),
      ...(untilMs === Infinity ? {} : { untilMs }),
    },
  ];
}
