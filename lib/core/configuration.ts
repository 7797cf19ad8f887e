/**
 * A pool's configuration: the platform engineer's declaration with every default filled in. Durations and costs are
 * milliseconds. `null` means no limit.
 */
import { JSON_LIMITS } from './json.ts';

/** How failed attempts are retried. See `retry.ts`. */
export interface RetryPolicy {
  /** All attempts, including the first. */
  readonly maxAttempts: number;
  readonly backoff: 'exponential' | 'linear' | 'fixed';
  readonly delayMs: number;
  readonly maxDelayMs: number;
  /** For `exponential` only. `full`: the delay is drawn evenly between 0 and its ceiling. */
  readonly jitter: 'full' | 'none';
  /** The first rule that matches the error's name decides; if none matches, the policy does. */
  readonly errors: readonly ErrorRule[];
  /** How often a job may lose its worker and still be retried. Lost workers are counted apart from attempts. */
  readonly maxWorkersLost: number;
}

/** How attempts that fail with one error name are retried. */
export interface ErrorRule {
  /** The error's `name`; `*` matches every error. */
  readonly name: string;
  readonly retry: boolean;
  /** Replaces the policy's `delayMs`. */
  readonly delayMs?: number | undefined;
  readonly maxAttempts?: number | undefined;
}

/** The fields that a type may require of its jobs. */
export const REQUIRABLE = ['resourceId', 'fairnessKey'] as const;
export type RequiredField = (typeof REQUIRABLE)[number];

/** One kind of work. */
export interface JobTypeConfiguration {
  readonly type: string;
  readonly tier: string;
  readonly maxConcurrency: number | null;
  /** Two jobs with the same group and the same resource never run together; null: no exclusion. */
  readonly conflictGroup: string | null;
  /**
   * The most jobs of this type that run on one resource; absent: no limit. A type with a conflict group cannot have it,
   * because that lets only one job run.
   */
  readonly maxConcurrencyPerResource?: number | undefined;
  /**
   * The fields that each new job and schedule of this type must have; absent: none. Jobs and schedules accepted earlier
   * are kept.
   */
  readonly requires?: readonly RequiredField[] | undefined;
  /** How long after their time its jobs may wait for their start, unless the request says it; absent: any time. */
  readonly expireAfterMs?: number | undefined;
  /** The most jobs of the type that may wait when another one is submitted; absent: any number. */
  readonly maxWaiting?: number | undefined;
  /** The most jobs of the type and one fairness key that may wait when another one is submitted; absent: any number. */
  readonly maxWaitingPerKey?: number | undefined;
  /**
   * Whether succeeded, cancelled and expired jobs of this type can be listed; absent: no. Each then costs one more write unit, at
   * its end. It counts for jobs that are submitted from then on.
   */
  readonly listFinished?: boolean | undefined;
  /** The names of the limits that count the jobs of this type; absent: none. */
  readonly limits?: readonly string[] | undefined;
  /** The cost of an attempt until the estimate has learned a better one. */
  readonly defaultCostMs: number;
  readonly timeoutMs: number;
  readonly retry: RetryPolicy;
  readonly onWorkerLost: 'fail' | 'retry' | 'resume';
}

/** Returns the field `listFinished` of a new job of this type, or no field if the type does not have it set. */
export const listFinishedOf = (
  type: Pick<JobTypeConfiguration, 'listFinished'> | undefined,
): { readonly listFinished?: boolean } => (type?.listFinished === true ? { listFinished: true } : {});

/** UTF-8 bytes that a payload, a result, a checkpoint or the state of a parked job may have as JSON. */
export const valueBytesMax = ({ largePayloads }: Pick<PoolConfiguration, 'largePayloads'>): number =>
  largePayloads?.maxBytes ?? JSON_LIMITS.bytes;

/** The bounds of `maxWaiting` and `maxWaitingPerKey`. A count reads as many jobs. */
export const MAX_WAITING = { least: 1, most: 50_000 } as const;

/** The bounds of `expireAfter`, of types and of requests. */
export const EXPIRE_AFTER_MS = { least: 1_000, most: 365 * 86_400_000 } as const;

/** Returns the request's field that follows from `expireAfterMs` of its type. */
export const expiryOf = (
  type: Pick<JobTypeConfiguration, 'expireAfterMs'> | undefined,
): { readonly expireByDefaultMs?: number } =>
  type?.expireAfterMs === undefined ? {} : { expireByDefaultMs: type.expireAfterMs };

/** A group of types with its place in the order of dispatch and its cap. Tiers are listed from the top. */
export interface TierConfiguration {
  readonly tier: string;
  readonly maxConcurrency: number | null;
  /** Slots that higher tiers leave free for this one while it has backlog; 0 guarantees nothing. */
  readonly guaranteed: number;
}

/** A length of time over which something is added up. */
export interface WindowConfiguration {
  readonly perMs: number;
}

/** The most starts, or the most units of the jobs that start, within any window. */
export interface RateConfiguration extends WindowConfiguration {
  /** Null in a rate that counts units. */
  readonly starts: number | null;
  /** The most units; absent in a rate that counts starts. */
  readonly units?: number | null;
  /** The most starts, or units, of one key of the limit within any window; null: no limit. */
  readonly perKey: number | null;
  /** The most units of one job, and the units of a job that names none; absent: the rate counts starts. */
  readonly perJob?: number;
}

/** The most cost of one key within a window. */
export interface BudgetConfiguration extends WindowConfiguration {
  readonly slotMs: number;
}

/** A named bound that several types share. See `limits.ts`. */
export interface LimitConfiguration {
  readonly limit: string;
  /** The name of the job's key that it counts by; absent: the fairness key. Partitions divide what is bounded by such a key. */
  readonly keyedBy?: string | undefined;
  /** The most jobs of its types that run at once. */
  readonly total: number | null;
  /** The most jobs of one key, among its types, that run at once. */
  readonly perKey: number | null;
  readonly rate?: RateConfiguration | undefined;
  readonly budget?: BudgetConfiguration | undefined;
}

/** Workers that accept the same types and share a queue. */
export interface FleetConfiguration {
  readonly fleet: string;
  /** A fleet with one type is specialised; one with several is versatile. */
  readonly types: readonly string[];
  /** Jobs that a Lambda fleet runs at once; null for long-running workers, which register their own slots. */
  readonly slots: number | null;
  /**
   * The most jobs, 1 to `BATCH_SIZE_MAX`, that one invocation of a Lambda fleet runs, side by side in one process.
   * @default BATCH_SIZE_MAX
   */
  readonly batchSize?: number | undefined;
}

/** The score's coefficients. Source: affinity-scoring, "The formula". */
export interface ScoreCoefficients {
  /** Points for each unit of priority. */
  readonly priority: number;
  /** Points for each second of age. */
  readonly ageSec: number;
  /** Points that are divided by the number of free slots that can run the job. */
  readonly rarity: number;
  /** Points that an on-demand job starts with. */
  readonly onDemand: number;
  /** Additional points for each second of an on-demand job's age. */
  readonly onDemandAgeSec: number;
}

/** Cost accounting per fairness key. Source: fair-queuing. */
export interface FairnessConfiguration {
  /** The smoothing factor of learned costs, 0 to 1. */
  readonly alpha: number;
  /** The least charge of an admission, so that a mass of tiny jobs is not free. */
  readonly admissionFloorMs: number;
  /** Weights by fairness key; any other key has `defaultWeight`. */
  readonly weights: Readonly<Record<string, number>>;
  readonly defaultWeight: number;
  /** The most jobs of one fairness key that run at once. */
  readonly maxConcurrencyPerKey: number | null;
  /**
   * `advance`: a key that arrives, new or after a time without jobs, starts just behind the least cost over weight of
   * the other keys. `none`: it starts at 0, or at the cost it had.
   */
  readonly idlePolicy: 'advance' | 'none';
  /**
   * With `advance`: how far a key's cost over weight may stay below the least of the other keys; null: any distance.
   */
  readonly creditMs: number | null;
  /** True: settlement replaces an attempt's estimated cost in the ledger by its actual cost. */
  readonly trueUp: boolean;
  /**
   * The ledger of a key that has started and ended nothing for this time is deleted, at most 90 days; null: after 90 days.
   * A key that waits so long in a long backlog may keep its place among the keys until its next start.
   */
  readonly keyTtlMs: number | null;
  /**
   * The cost of a resource that was never seen: the type's average (`type`, also if absent), or the type's default cost
   * (`default`).
   */
  readonly estimateFallback?: 'type' | 'default' | undefined;
  /**
   * The estimate of a type or resource without jobs is deleted after this time, at most 90 days; null: after 90 days.
   */
  readonly estimateTtlMs: number | null;
  /** The interval at which all ledgers are reset to 0; null: never. */
  readonly resetEveryMs: number | null;
}

/** When and how much capacity moves between partitions. A pool with one partition ignores it. See `lending.ts`. */
export interface LendingConfiguration {
  /**
   * A partition asks for a loan when at least so many of its jobs wait for the same capacity. A partition with none of
   * that capacity asks for one job already.
   */
  readonly backlogThreshold: number;
  /**
   * The part of its free capacity that a partition lends to one borrower at once, rounded up: above 0 and at most 1.
   */
  readonly lentShare: number;
  /** The most units in one loan. */
  readonly batch: number;
  /** The most units that one partition may have borrowed in all; 0 turns lending off. */
  readonly maxBorrowed: number;
  /** How long a borrower may start jobs with a loan. It may return free units earlier. */
  readonly loanMs: number;
}

/** One scheduling domain: types, tiers, fleets and limits. */
export interface PoolConfiguration {
  readonly types: readonly JobTypeConfiguration[];
  /** From the highest tier down. */
  readonly tiers: readonly TierConfiguration[];
  readonly fleets: readonly FleetConfiguration[];
  /** Bounds that types share by name; absent: none. */
  readonly limits?: readonly LimitConfiguration[] | undefined;
  /** The most jobs of the whole pool that run at once. */
  readonly maxConcurrency: number | null;
  readonly score: ScoreCoefficients;
  readonly fairness: FairnessConfiguration;
  /** Absent: `LENDING_DEFAULTS`. */
  readonly lending?: LendingConfiguration | undefined;
  /**
   * Claims that a pass may lose one after the other; after one more it reads its candidates anew. Absent: `LOST_CLAIMS_IN_A_ROW`.
   * Source: affinity-scoring, "Retry algorithm".
   */
  readonly lostClaimsInARow?: number | undefined;
  /** The names of tags by which jobs are found; absent: none. It counts for jobs that are submitted from then on. */
  readonly searchableTags?: readonly string[] | undefined;
  /**
   * Payloads, results, checkpoints and states of parked jobs over 64 KB are objects beside the table, up to this size;
   * absent: they are refused.
   */
  readonly largePayloads?: { readonly maxBytes: number } | undefined;
  /** Whether dispatchers keep statistics of each minute; absent: no. */
  readonly statistics?: boolean | undefined;
  /** The number of partitions among which fairness keys and caps are divided: see `partition.ts`. */
  readonly partitions: number;
}
