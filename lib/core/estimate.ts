/**
 * Learned costs: an exponential moving average of the run time for each (type, resource). Source: fair-queuing, "Cost
 * Estimation".
 *
 *   mean_n = alpha x observed + (1 - alpha) x mean_(n-1)
 *   variance_n = (1 - alpha) x (variance_(n-1) + alpha x (observed - mean_(n-1))^2)
 *
 * mean_0 is the cost expected of a resource that was never seen: the type's average, or its default cost. Only
 * successes are observed: the time of a failure says nothing about the work, and failing fast must not become cheap.
 * The type's own average is kept under the empty resource. Costs are milliseconds; the formulas do not depend on the
 * unit.
 */
import type { FairnessConfiguration } from './configuration.ts';
import { widenFloats } from './fairness.ts';

/** The estimate of one (type, resource). */
export interface Estimate {
  readonly meanMs: number;
  readonly varianceMs2: number;
  /** How many successes the estimate was learned from; 0: it was set from outside. */
  readonly samples: number;
}

/** Returns the estimate after one more success. `startMs` is the cost expected of a resource that was never seen. */
export function observe(
  known: Estimate | undefined,
  observedMs: number,
  startMs: number,
  alpha: number,
): Estimate {
  const before = known ?? { meanMs: startMs, varianceMs2: 0, samples: 0 };
  const deviationMs = observedMs - before.meanMs;
  return {
    meanMs: alpha * observedMs + (1 - alpha) * before.meanMs,
    varianceMs2: (1 - alpha) * (before.varianceMs2 + alpha * deviationMs * deviationMs),
    samples: before.samples + 1,
  };
}

/** Returns the expected cost of an attempt: the resource's mean, else the type's mean, else the type's default. */
export function expectedCostMs(
  ofResource: Estimate | undefined,
  ofType: Estimate | undefined,
  defaultCostMs: number,
): number {
  return ofResource?.meanMs ?? ofType?.meanMs ?? defaultCostMs;
}

/** The least number of successes that `ordinarilyWithinMs` needs: fewer say nothing about the time of others. */
const SAMPLES_MIN = 5;
/** The standard deviations above the mean that still count as normal. */
const DEVIATIONS = 3;

/**
 * Returns the time within which successful attempts are normally over. By Cantelli's inequality, the mean plus three
 * standard deviations covers at least nine of ten for any distribution of their times, and more for most. Undefined as
 * long as too few successes were seen, or none within `estimateTtlMs`.
 */
export function ordinarilyWithinMs(
  known: (Estimate & { readonly lastSeenMs: number }) | undefined,
  { estimateTtlMs }: Pick<FairnessConfiguration, 'estimateTtlMs'>,
  nowMs: number,
): number | undefined {
  if (known === undefined || known.samples < SAMPLES_MIN) return undefined;
  if (estimateTtlMs !== null && nowMs - known.lastSeenMs > estimateTtlMs) return undefined;
  return Math.ceil(known.meanMs + DEVIATIONS * Math.sqrt(known.varianceMs2));
}

/** The resource under which a type's own average is kept. */
export const TYPE_AVERAGE_RESOURCE = '';

/** An estimate with its type and resource. */
export interface NamedEstimate extends Estimate {
  readonly type: string;
  readonly resourceId: string;
}

// The layout of one estimate, 32 bytes: indexes among the doubles, and among the 32-bit integers of the same buffer.
const DOUBLES = 4;
const MEAN = 0;
const VARIANCE = 1;
const LAST_SEEN = 2;
const INTS = 8;
const SAMPLES = 6;
const USERS = 7;

/** The value of `SAMPLES` for a resource without an estimate. */
const NO_ESTIMATE = -1;

/** The number of the empty resource, which has the type's own average. */
export const WHOLE = 0;

/**
 * The estimates of one type, as a whole and by resource. Each resource with jobs has a number. A job's resource is
 * looked up once, when the job arrives; after that its estimate is found by the number.
 */
export class TypeEstimates {
  readonly #fairness: FairnessConfiguration;
  readonly #learnsTypeAverage: boolean;
  readonly #numbers = new Map([[TYPE_AVERAGE_RESOURCE, WHOLE]]);
  readonly #names = [TYPE_AVERAGE_RESOURCE];
  readonly #free: number[] = [];
  #doubles: Float64Array = new Float64Array(16 * DOUBLES);
  #ints: Int32Array = new Int32Array(this.#doubles.buffer);

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
    this.#learnsTypeAverage = fairness.estimateFallback !== 'default';
    this.#ints[SAMPLES] = NO_ESTIMATE;
  }

  /** Sets an estimate that was learned earlier. */
  set(resourceId: string, estimate: Estimate, nowMs: number): void {
    const number = this.#open(resourceId);
    this.#put(number, estimate);
    this.#noteSeen(number, nowMs);
  }

  get(resourceId: string): Estimate | undefined {
    const number = this.#numbers.get(resourceId);
    return number === undefined ? undefined : this.#known(number);
  }

  /**
   * Called when a job arrives. The estimate of its resource is kept until the job has ended. Returns the resource's
   * number.
   */
  arrive(resourceId: string = TYPE_AVERAGE_RESOURCE, nowMs: number): number {
    const number = this.#open(resourceId);
    this.#use(WHOLE, nowMs);
    if (number !== WHOLE) this.#use(number, nowMs);
    return number;
  }

  /** Returns the resource with this number; undefined for the number of the whole type. */
  nameOf(number: number): string | undefined {
    return number === WHOLE ? undefined : this.#names[number];
  }

  /** Returns the expected cost of an attempt on the resource with this number. */
  costMs(number: number, defaultCostMs: number): number {
    if (this.#isKnown(number)) return this.#meanMs(number);
    return this.#learnsTypeAverage && this.#isKnown(WHOLE) ? this.#meanMs(WHOLE) : defaultCostMs;
  }

  /** Called when a job has ended or was withdrawn. `observedMs` is given only if it succeeded. */
  end(number: number, defaultCostMs: number, observedMs: number | undefined, nowMs: number): void {
    // Read before the type's average learns from this attempt.
    const expectedMs = this.#learnsTypeAverage && this.#isKnown(WHOLE) ? this.#meanMs(WHOLE) : defaultCostMs;
    this.#leave(WHOLE, nowMs);
    if (observedMs !== undefined && (this.#learnsTypeAverage || number === WHOLE)) {
      this.#learn(WHOLE, observedMs, defaultCostMs);
    }
    if (number === WHOLE) return;
    this.#leave(number, nowMs);
    if (observedMs !== undefined) this.#learn(number, observedMs, expectedMs);
    else if (!this.#isKnown(number) && this.#users(number) === 0) this.#drop(number);
  }

  /** Deletes unused estimates that were last seen `ttlMs` ago or earlier. O(estimates). */
  evict(ttlMs: number, nowMs: number): void {
    for (const number of this.#numbers.values()) {
      const lastSeenMs = this.#doubles[number * DOUBLES + LAST_SEEN] as number;
      if (this.#users(number) > 0 || nowMs - lastSeenMs < ttlMs) continue;
      if (number === WHOLE) this.#ints[SAMPLES] = NO_ESTIMATE;
      else this.#drop(number);
    }
  }

  /** Returns all estimates, by resource. */
  list(): readonly (readonly [resourceId: string, estimate: Estimate])[] {
    return [...this.#numbers.keys()].sort().flatMap((resourceId) => {
      const estimate = this.get(resourceId);
      return estimate === undefined ? [] : [[resourceId, estimate] as const];
    });
  }

  #open(resourceId: string): number {
    const known = this.#numbers.get(resourceId);
    if (known !== undefined) return known;
    const number = this.#free.pop() ?? this.#names.length;
    this.#numbers.set(resourceId, number);
    this.#names[number] = resourceId;
    if (number * DOUBLES === this.#doubles.length) {
      this.#doubles = widenFloats(this.#doubles, this.#doubles.length * 2);
      this.#ints = new Int32Array(this.#doubles.buffer);
    }
    this.#doubles[number * DOUBLES + LAST_SEEN] = 0;
    this.#ints[number * INTS + SAMPLES] = NO_ESTIMATE;
    this.#ints[number * INTS + USERS] = 0;
    return number;
  }

  #drop(number: number): void {
    this.#numbers.delete(this.#names[number] as string);
    this.#free.push(number);
  }

  #isKnown(number: number): boolean {
    return this.#ints[number * INTS + SAMPLES] !== NO_ESTIMATE;
  }

  #meanMs(number: number): number {
    return this.#doubles[number * DOUBLES + MEAN] as number;
  }

  #users(number: number): number {
    return this.#ints[number * INTS + USERS] as number;
  }

  #known(number: number): Estimate | undefined {
    if (!this.#isKnown(number)) return undefined;
    return {
      meanMs: this.#meanMs(number),
      varianceMs2: this.#doubles[number * DOUBLES + VARIANCE] as number,
      samples: this.#ints[number * INTS + SAMPLES] as number,
    };
  }

  #put(number: number, { meanMs, varianceMs2, samples }: Estimate): void {
    this.#doubles[number * DOUBLES + MEAN] = meanMs;
    this.#doubles[number * DOUBLES + VARIANCE] = varianceMs2;
    this.#ints[number * INTS + SAMPLES] = samples;
  }

  #learn(number: number, observedMs: number, startMs: number): void {
    this.#put(number, observe(this.#known(number), observedMs, startMs, this.#fairness.alpha));
  }

  #use(number: number, nowMs: number): void {
    this.#ints[number * INTS + USERS] = this.#users(number) + 1;
    this.#noteSeen(number, nowMs);
  }

  #leave(number: number, nowMs: number): void {
    // A job that was reserved before this object was made was never counted.
    this.#ints[number * INTS + USERS] = Math.max(0, this.#users(number) - 1);
    this.#noteSeen(number, nowMs);
  }

  #noteSeen(number: number, nowMs: number): void {
    const at = number * DOUBLES + LAST_SEEN;
    if (nowMs > (this.#doubles[at] as number)) this.#doubles[at] = nowMs;
  }
}

/** All estimates of a pool, in memory. Each is deleted some time after its last use. */
export class Estimates {
  readonly #fairness: FairnessConfiguration;
  readonly #types = new Map<string, TypeEstimates>();

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
  }

  /** Returns a type's estimates. The same object is returned each time. */
  ofType(type: string): TypeEstimates {
    let estimates = this.#types.get(type);
    if (estimates === undefined) {
      estimates = new TypeEstimates(this.#fairness);
      this.#types.set(type, estimates);
    }
    return estimates;
  }

  /** Deletes unused estimates that were last seen `estimateTtlMs` ago or earlier. O(estimates). */
  evict(nowMs: number): void {
    const ttlMs = this.#fairness.estimateTtlMs;
    if (ttlMs === null) return;
    for (const estimates of this.#types.values()) estimates.evict(ttlMs, nowMs);
  }

  /** Returns all estimates, by type, then by resource. */
  list(): readonly NamedEstimate[] {
    return [...this.#types.keys()].sort().flatMap((type) =>
      this.ofType(type)
        .list()
        .map(([resourceId, estimate]) => ({ type, resourceId, ...estimate })),
    );
  }
}
