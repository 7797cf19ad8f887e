/**
 * Learned costs: an exponential moving average of the run time for each (type, resource).
 * Source: fair-queuing, "Cost Estimation".
 *
 *   mean_n = alpha x observed + (1 - alpha) x mean_(n-1)
 *   variance_n = (1 - alpha) x (variance_(n-1) + alpha x (observed - mean_(n-1))^2)
 * where mean_0 is what would have been charged without knowledge of the resource: the type's own average, or its
 * default cost. Only successes teach: a failure's time says nothing about the work, and failing fast must not become cheap.
 * The type's own average is kept under the empty resource. Costs are milliseconds; the formulas do not depend on the unit.
 */
import type { FairnessConfiguration } from './configuration.ts';
import { widenFloats } from './fairness.ts';

/** What is known of one (type, resource). */
export interface Estimate {
  readonly meanMs: number;
  readonly varianceMs2: number;
  /** Successes it was learned from; 0 for one that was set from outside. */
  readonly samples: number;
}

/** The estimate after one more success. `startMs` is the cost that was expected of a resource never seen. */
export function observe(
  known: Estimate | undefined,
  observedMs: number,
  startMs: number,
  alpha: number,
): Estimate {
  const before = known ?? { meanMs: startMs, varianceMs2: 0, samples: 0 };
  const surprise = observedMs - before.meanMs;
  return {
    meanMs: alpha * observedMs + (1 - alpha) * before.meanMs,
    varianceMs2: (1 - alpha) * (before.varianceMs2 + alpha * surprise * surprise),
    samples: before.samples + 1,
  };
}

/** What an attempt is expected to cost: known for the resource, or else for the type, or else the type's default. */
export function expectedCostMs(
  ofResource: Estimate | undefined,
  ofType: Estimate | undefined,
  defaultCostMs: number,
): number {
  return ofResource?.meanMs ?? ofType?.meanMs ?? defaultCostMs;
}

/** So few successes say nothing of how long others take. */
const SAMPLES_MIN = 5;
const DEVIATIONS = 3;

/**
 * Within how long attempts that succeed are over, ordinarily. By Cantelli nine of ten are, however their times are spread, and
 * more where that is as most are. Undefined as long as too few were seen, or lately none.
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
export const WHOLE_TYPE = '';

/** An estimate with what it belongs to. */
export interface NamedEstimate extends Estimate {
  readonly type: string;
  readonly resourceId: string;
}

// What is known of a resource, among doubles and among whole numbers: 32 bytes.
const DOUBLES = 4;
const MEAN = 0;
const VARIANCE = 1;
const LAST_SEEN = 2;
const INTS = 8;
const SAMPLES = 6;
const USERS = 7;

/** The samples of one of which nothing is known. */
const UNKNOWN = -1;

/** The number of the type's own average. */
export const WHOLE = 0;

/**
 * What is known of one type: as a whole, and by resource. Each resource with jobs is a number, so that a job's is looked up
 * once, when it arrives, and what is known of it stands side by side.
 */
export class TypeEstimates {
  readonly #fairness: FairnessConfiguration;
  readonly #learnsWhole: boolean;
  readonly #numbers = new Map([[WHOLE_TYPE, WHOLE]]);
  readonly #names = [WHOLE_TYPE];
  readonly #free: number[] = [];
  #doubles = new Float64Array(16 * DOUBLES);
  #ints = new Int32Array(this.#doubles.buffer);

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
    this.#learnsWhole = fairness.estimateFallback !== 'default';
    this.#ints[SAMPLES] = UNKNOWN;
  }

  /** Puts in what was learned earlier. */
  set(resourceId: string, estimate: Estimate, nowMs: number): void {
    const number = this.#open(resourceId);
    this.#put(number, estimate);
    this.#see(number, nowMs);
  }

  get(resourceId: string): Estimate | undefined {
    const number = this.#numbers.get(resourceId);
    return number === undefined ? undefined : this.#known(number);
  }

  /** A job came: what is known of its cost is kept until it has ended. Answers its resource's number. */
  arrive(resourceId: string = WHOLE_TYPE, nowMs: number): number {
    const number = this.#open(resourceId);
    this.#use(WHOLE, nowMs);
    if (number !== WHOLE) this.#use(number, nowMs);
    return number;
  }

  /** The resource of a job that waits or runs. */
  nameOf(number: number): string | undefined {
    return number === WHOLE ? undefined : this.#names[number];
  }

  /** What an attempt is expected to cost. */
  costMs(number: number, defaultCostMs: number): number {
    if (this.#isKnown(number)) return this.#meanMs(number);
    return this.#learnsWhole && this.#isKnown(WHOLE) ? this.#meanMs(WHOLE) : defaultCostMs;
  }

  /** A job ended, or was withdrawn; `observedMs` only if it succeeded. */
  end(number: number, defaultCostMs: number, observedMs: number | undefined, nowMs: number): void {
    // Taken before the type's own average learns from this very attempt.
    const expectedMs = this.#learnsWhole && this.#isKnown(WHOLE) ? this.#meanMs(WHOLE) : defaultCostMs;
    this.#leave(WHOLE, nowMs);
    if (observedMs !== undefined && (this.#learnsWhole || number === WHOLE)) {
      this.#learn(WHOLE, observedMs, defaultCostMs);
    }
    if (number === WHOLE) return;
    this.#leave(number, nowMs);
    if (observedMs !== undefined) this.#learn(number, observedMs, expectedMs);
    else if (!this.#isKnown(number) && this.#users(number) === 0) this.#drop(number);
  }

  /** Drops what nobody has used for the time to live. Bounded by the number of estimates. */
  evict(ttlMs: number, nowMs: number): void {
    for (const number of this.#numbers.values()) {
      const lastSeenMs = this.#doubles[number * DOUBLES + LAST_SEEN] as number;
      if (this.#users(number) > 0 || nowMs - lastSeenMs < ttlMs) continue;
      if (number === WHOLE) this.#ints[SAMPLES] = UNKNOWN;
      else this.#drop(number);
    }
  }

  /** All that is known, by resource. */
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
    this.#ints[number * INTS + SAMPLES] = UNKNOWN;
    this.#ints[number * INTS + USERS] = 0;
    return number;
  }

  #drop(number: number): void {
    this.#numbers.delete(this.#names[number] as string);
    this.#free.push(number);
  }

  #isKnown(number: number): boolean {
    return this.#ints[number * INTS + SAMPLES] !== UNKNOWN;
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
    this.#see(number, nowMs);
  }

  #leave(number: number, nowMs: number): void {
    // One that was reserved before this memory began was never counted in.
    this.#ints[number * INTS + USERS] = Math.max(0, this.#users(number) - 1);
    this.#see(number, nowMs);
  }

  #see(number: number, nowMs: number): void {
    const at = number * DOUBLES + LAST_SEEN;
    if (nowMs > (this.#doubles[at] as number)) this.#doubles[at] = nowMs;
  }
}

/** All estimates of a pool, in memory, dropped some time after their last use. */
export class Estimates {
  readonly #fairness: FairnessConfiguration;
  readonly #types = new Map<string, TypeEstimates>();

  constructor(fairness: FairnessConfiguration) {
    this.#fairness = fairness;
  }

  /** A type's estimates: always the same object. */
  ofType(type: string): TypeEstimates {
    let estimates = this.#types.get(type);
    if (estimates === undefined) {
      estimates = new TypeEstimates(this.#fairness);
      this.#types.set(type, estimates);
    }
    return estimates;
  }

  /** Drops what nobody has used for the time to live. Bounded by the number of estimates. */
  evict(nowMs: number): void {
    const ttlMs = this.#fairness.estimateTtlMs;
    if (ttlMs === null) return;
    for (const estimates of this.#types.values()) estimates.evict(ttlMs, nowMs);
  }

  /** All that is known, by type, then resource. */
  list(): readonly NamedEstimate[] {
    return [...this.#types.keys()].sort().flatMap((type) =>
      this.ofType(type)
        .list()
        .map(([resourceId, estimate]) => ({ type, resourceId, ...estimate })),
    );
  }
}
