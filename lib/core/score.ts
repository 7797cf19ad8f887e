/**
 * Score, rank, and the bounds that follow from them. Source: affinity-scoring, "The scoring system".
 *
 * Symbols, for one job j at the instant t:
 *   p_j   priority, 0 to 10                         r_j   the instant it became ready, epoch ms
 *   a_j   age, max(0, t - r_j) / 1000, in seconds   n_j   free slots that can run it, when the pass begins
 *   P, A, R, D, E   the coefficients `priority`, `ageSec`, `rarity`, `onDemand`, `onDemandAgeSec` (points, points a second)
 *
 *   score(j, t) = P p_j + A a_j + trunc(R / n_j) + [on demand] (D + E a_j)        points
 *
 * Rank. Among jobs of one type and one mode, n_j and D are the same and all ages grow at one slope
 * s = A (queued) or A + E (on demand). For t >= r_j,
 *   score(j, t) = P p_j + s (t - r_j) / 1000 + const
 *               = -(s r_j - 1000 P p_j) / 1000 + (s t / 1000 + const)
 *                   \____ rank(j) ____/           the same for all of the line
 * so a smaller `rank` is a higher score at every instant: the order of a line never changes, and is stored once.
 * Equal scores: the older job first, then the smaller id.
 *
 * Crossovers, with the defaults P = 1024, A = 16, R = 500, D = 4096, E = 32, against a job that is fresh when compared:
 *   one unit of priority is caught up with in P / A = 64 s;
 *   a queued job of priority 0 ties with a fresh on-demand one of priority 0 at D / A = 256 s.
 * Two queued jobs that age together never cross; an on-demand job gains E = 32 points a second on a queued one.
 *
 * Differences from the text: all products are taken in thousandths of a point (age is in ms), so with whole
 * coefficients every score is exact, and two scores that are equal on paper are equal here.
 */
import type { PoolConfiguration, ScoreCoefficients, TierConfiguration } from './configuration.ts';
import { PRIORITY_MAX, type WaitingJob } from './job.ts';

/** The fields that the score depends on. */
export type ScoredJob = Pick<WaitingJob, 'priority' | 'mode' | 'readyAtMs'>;

/** A score and its parts, in points. */
export interface ScoreParts {
  readonly priority: number;
  readonly age: number;
  readonly rarity: number;
  /** The bonus of an on-demand job with its faster ageing; 0 for a queued one. */
  readonly onDemand: number;
  readonly total: number;
}

/** Points for a type that few free slots can run: the whole part of `rarity / n`. Without a slot it is 0: it cannot start. */
export function rarityBonus(compatibleFreeSlots: number, coefficients: ScoreCoefficients): number {
  return compatibleFreeSlots > 0 ? Math.trunc(coefficients.rarity / compatibleFreeSlots) : 0;
}

/** Returns the score with its parts. Source: affinity-scoring, "The formula". */
export function scoreParts(
  job: ScoredJob,
  nowMs: number,
  compatibleFreeSlots: number,
  coefficients: ScoreCoefficients,
): ScoreParts {
  const ageMs = Math.max(0, nowMs - job.readyAtMs);
  const rarity = rarityBonus(compatibleFreeSlots, coefficients);
  return partsOf(job.mode === 'onDemand', job.priority, ageMs, rarity, coefficients);
}

/** Returns the score with its parts, from the age and the points for rarity. */
export function partsOf(
  onDemand: boolean,
  priority: number,
  ageMs: number,
  rarity: number,
  coefficients: ScoreCoefficients,
): ScoreParts {
  return {
    priority: priority * coefficients.priority,
    age: (ageMs * coefficients.ageSec) / 1000,
    rarity,
    onDemand: onDemand ? (coefficients.onDemand * 1000 + ageMs * coefficients.onDemandAgeSec) / 1000 : 0,
    total: milliPoints(onDemand, priority, ageMs, rarity, coefficients) / 1000,
  };
}

/** Returns the score alone, in points. */
export function score(
  job: ScoredJob,
  nowMs: number,
  compatibleFreeSlots: number,
  coefficients: ScoreCoefficients,
): number {
  const ageMs = Math.max(0, nowMs - job.readyAtMs);
  const rarity = rarityBonus(compatibleFreeSlots, coefficients);
  return milliPoints(job.mode === 'onDemand', job.priority, ageMs, rarity, coefficients) / 1000;
}

/** Returns the score in thousandths of a point: whole for whole coefficients, priorities and instants. */
export function milliPoints(
  onDemand: boolean,
  priority: number,
  ageMs: number,
  rarity: number,
  coefficients: ScoreCoefficients,
): number {
  const queued = (priority * coefficients.priority + rarity) * 1000 + ageMs * coefficients.ageSec;
  return onDemand ? queued + coefficients.onDemand * 1000 + ageMs * coefficients.onDemandAgeSec : queued;
}

/** Returns a job's position in its line: the smaller, the sooner. Only ranks of one type and mode can be compared. */
export function rank(job: ScoredJob, coefficients: ScoreCoefficients): number {
  const slope =
    job.mode === 'onDemand' ? coefficients.ageSec + coefficients.onDemandAgeSec : coefficients.ageSec;
  return slope * job.readyAtMs - job.priority * coefficients.priority * 1000;
}

/**
 * Returns the sort key of a line's index: a text that sorts by rank, then `readyAtMs`, then id. Numbers are written as
 * the 16 hexadecimal digits of their IEEE 754 bits, with the sign turned so that text order is numeric order. It is
 * exact for fractional and negative ranks alike.
 */
export function rankKey(job: ScoredJob & Pick<WaitingJob, 'id'>, coefficients: ScoreCoefficients): string {
  return `${sortable(rank(job, coefficients))}/${sortable(job.readyAtMs)}/${job.id}`;
}

const bits = new DataView(new ArrayBuffer(8));

function sortable(value: number): string {
  // Adding 0 turns -0 into 0, which compares equal, so that both have the same text.
  bits.setFloat64(0, value + 0);
  const high = bits.getInt32(0);
  const low = bits.getInt32(4);
  return high < 0 ? digitsOf(~high, ~low) : digitsOf(high ^ SIGN_BIT, low);
}

const SIGN_BIT = 0x8000_0000;
const DIGITS = Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0));
const digit = (word: number, shift: number): number => DIGITS[(word >>> shift) & 15] as number;

/** Returns the 16 hexadecimal digits of two 32-bit words, in a fifth of the time of `toString(16)`. */
function digitsOf(high: number, low: number): string {
  return String.fromCharCode(
    digit(high, 28),
    digit(high, 24),
    digit(high, 20),
    digit(high, 16),
    digit(high, 12),
    digit(high, 8),
    digit(high, 4),
    digit(high, 0),
    digit(low, 28),
    digit(low, 24),
    digit(low, 20),
    digit(low, 16),
    digit(low, 12),
    digit(low, 8),
    digit(low, 4),
    digit(low, 0),
  );
}

/** Negative if a comes before b in their common line: by rank, then the older, then the smaller id. */
export function compareRanked(
  a: ScoredJob & Pick<WaitingJob, 'id'>,
  b: ScoredJob & Pick<WaitingJob, 'id'>,
  coefficients: ScoreCoefficients,
): number {
  return (
    rank(a, coefficients) - rank(b, coefficients) ||
    a.readyAtMs - b.readyAtMs ||
    (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
  );
}

/** A score as a linear function of the age: its value at age 0 and its slope, in points and points a second. */
export interface ScoreLine {
  readonly startPoints: number;
  readonly pointsPerSec: number;
}

/** Returns a job's score as a function of its age. */
export function scoreLine(
  job: Pick<WaitingJob, 'priority' | 'mode'>,
  compatibleFreeSlots: number,
  coefficients: ScoreCoefficients,
): ScoreLine {
  const startPoints = job.priority * coefficients.priority + rarityBonus(compatibleFreeSlots, coefficients);
  return job.mode === 'onDemand'
    ? {
        startPoints: startPoints + coefficients.onDemand,
        pointsPerSec: coefficients.ageSec + coefficients.onDemandAgeSec,
      }
    : { startPoints, pointsPerSec: coefficients.ageSec };
}

/** The state that the bound on waiting depends on, besides the configuration. */
export interface Load {
  readonly type: string;
  readonly fairnessKey: string;
  readonly mode: WaitingJob['mode'];
  readonly priority: number;
  /** The number of fairness keys with waiting or running jobs, including this one. */
  readonly activeKeys: number;
  /**
   * The number of jobs of the same key and tier that are ready, or become so before this job's age reaches
   * `overtakenForMs`.
   */
  readonly jobsAhead: number;
  /** Slots by fleet; a fleet that is not named has its configured slots. */
  readonly slotsByFleet?: ReadonlyMap<string, number> | undefined;
  /** The number of jobs that wait for the same conflict key or hold it. */
  readonly conflictsAhead?: number | undefined;
}

/**
 * For how long jobs that become ready later can still be ranked before this one, within its own key, in ms. A fresh job
 * has at most Smax = 10 P + R + D points, this one P p + A a at the age a (with D + E a more on demand): from the age
 * (Smax - P p) / A on, or (Smax - P p - D) / (A + E), every fresh job is behind it.
 */
export function overtakenForMs(
  job: Pick<WaitingJob, 'priority' | 'mode'>,
  coefficients: ScoreCoefficients,
): number {
  const most = PRIORITY_MAX * coefficients.priority + coefficients.rarity + coefficients.onDemand;
  const own = scoreLine(job, Number.POSITIVE_INFINITY, coefficients);
  return Math.max(0, ((most - own.startPoints) / own.pointsPerSec) * 1000);
}

/**
 * Returns the latest start of a job after it became ready, in ms; Infinity if the configuration promises none.
 *
 * Let H be the longest an attempt can hold a slot (the greatest timeout), m the slots that this tier and type can count
 * on, c the greatest and f the least charge of an admission, w the job's weight, W the greatest other weight, K the
 * active keys, N the jobs of its own key that precede it, R the slots of the whole pool.
 * - Each of those N, and the job itself, is preceded only by admissions of keys that then had no greater cost over
 *   weight. While its own key is charged c once, another key of weight W is charged at most c W / w and one charge
 *   more: at most ceil(c W / (w f)) + 1 admissions.
 * - If charges are corrected, the at most R jobs in flight when the key arrives may turn out to cost f each, and other
 *   keys use the refunds: B = floor(R (c - f) / f) more admissions.
 * - A key that could start nothing when this one arrived may return with a credit, and this key may be raised once more
 *   when it comes first: C = ceil(creditMs W / f) + ceil(c W / (w f)) + 1 admissions of each other key.
 * - So at most M = N + (N + 1) (K - 1) (ceil(c W / (w f)) + 1) + (K - 1) C + B jobs precede it; alone (K = 1), N.
 * - m slots change hands at least once in every H, each time for one of those M or for the job itself.
 *
 * It starts within T + (floor(M / m) + 1) H, where T = `overtakenForMs` is how long N can still grow; a conflict key
 * adds H for each job that waits for it or holds it.
 *
 * m is the least of the type's cap, the pool's cap, the slots of its fleets, and the capacity that other tiers cannot
 * take: the tier's own guarantee, or the capacity without the caps of higher tiers and the guarantees of lower ones.
 * Without either, a saturated higher tier holds a lower one back without bound: Infinity. The bound is for a pool whose
 * learned costs stay within [f, c]. Without an admission floor (f = 0), or without a bound on keys' credit, there is
 * none.
 */
export function starvationBoundMs(configuration: PoolConfiguration, load: Load): number {
  const { fairness, types } = configuration;
  const type = types.find((candidate) => candidate.type === load.type);
  if (type === undefined) return Number.POSITIVE_INFINITY;
  const slots = slotsToCountOn(configuration, load, type.tier, type.maxConcurrency);
  const holdMs = Math.max(...types.map((candidate) => candidate.timeoutMs));
  const mostMs = Math.max(holdMs, ...types.map((candidate) => candidate.defaultCostMs));
  const leastMs = fairness.admissionFloorMs;
  const others = Math.max(0, load.activeKeys - 1);
  if (slots <= 0 || (others > 0 && leastMs <= 0)) return Number.POSITIVE_INFINITY;
  const weight = weightOf(fairness.weights, fairness.defaultWeight, load.fairnessKey);
  const heaviest = Math.max(fairness.defaultWeight, ...Object.values(fairness.weights));
  const perRound = others === 0 ? 0 : Math.ceil((mostMs * heaviest) / (weight * leastMs)) + 1;
  const byRefunds =
    others === 0 || !fairness.trueUp
      ? 0
      : Math.floor((slotsOfPool(configuration, load) * (mostMs - leastMs)) / leastMs);
  const { idlePolicy, creditMs } = fairness;
  const byCredit =
    others === 0 || idlePolicy === 'none'
      ? 0
      : perRound + Math.ceil(((creditMs ?? Number.POSITIVE_INFINITY) * heaviest) / leastMs);
  const before = load.jobsAhead + (load.jobsAhead + 1) * others * perRound + others * byCredit + byRefunds;
  const queueMs = (Math.floor(before / slots) + 1) * holdMs;
  return overtakenForMs(load, configuration.score) + queueMs + (load.conflictsAhead ?? 0) * holdMs;
}

/** Returns how many jobs can run at once. */
function slotsOfPool({ fleets, maxConcurrency }: PoolConfiguration, { slotsByFleet }: Load): number {
  const slots = fleets.reduce((sum, { fleet, slots }) => sum + (slotsByFleet?.get(fleet) ?? slots ?? 0), 0);
  return Math.min(slots, maxConcurrency ?? Number.POSITIVE_INFINITY);
}

function slotsToCountOn(
  configuration: PoolConfiguration,
  load: Load,
  tierName: string,
  typeCap: number | null,
): number {
  const { fleets, tiers, maxConcurrency } = configuration;
  const compatible = fleets
    .filter((fleet) => fleet.types.includes(load.type))
    .reduce((sum, fleet) => sum + (load.slotsByFleet?.get(fleet.fleet) ?? fleet.slots ?? 0), 0);
  const capacity = Math.min(compatible, maxConcurrency ?? Number.POSITIVE_INFINITY);
  const tierIndex = tiers.findIndex((tier) => tier.tier === tierName);
  const taken = tiers.reduce((sum, tier, index) => {
    if (index < tierIndex) return sum + (tier.maxConcurrency ?? Number.POSITIVE_INFINITY);
    return index > tierIndex ? sum + tier.guaranteed : sum;
  }, 0);
  const tier = tiers[tierIndex] as TierConfiguration;
  const left = Math.max(tier.guaranteed, capacity - taken);
  return Math.min(
    left,
    capacity,
    typeCap ?? Number.POSITIVE_INFINITY,
    tier.maxConcurrency ?? Number.POSITIVE_INFINITY,
    configuration.fairness.maxConcurrencyPerKey ?? Number.POSITIVE_INFINITY,
  );
}

export function weightOf(
  weights: Readonly<Record<string, number>>,
  defaultWeight: number,
  fairnessKey: string,
): number {
  // Callers choose fairness keys, so a key may be `constructor`, which is no weight.
  return (Object.hasOwn(weights, fairnessKey) ? weights[fairnessKey] : undefined) ?? defaultWeight;
}
