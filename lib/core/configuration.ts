/**
 * A pool's configuration: what the platform engineer declares, with every default filled in.
 * Durations and costs are milliseconds. `null` means no limit.
 */

/** How a failed attempt is tried again. See `retry.ts`. */
export interface RetryPolicy {
  /** Attempts in all, the first included. */
  readonly maxAttempts: number;
  readonly backoff: 'exponential' | 'linear' | 'fixed';
  readonly delayMs: number;
  readonly maxDelayMs: number;
  /** Exponential only: the delay is drawn evenly from 0 to its ceiling. */
  readonly jitter: 'full' | 'none';
  /** The first rule that names the error decides; without one, the policy does. */
  readonly errors: readonly ErrorRule[];
  /** How often a job may lose its worker and still be tried again; counted apart from attempts. */
  readonly maxWorkersLost: number;
}

/** What one error name means for the retry. */
export interface ErrorRule {
  /** The error's `name`; `*` matches all. */
  readonly name: string;
  readonly retry: boolean;
  /** Instead of the policy's. */
  readonly delayMs?: number | undefined;
  readonly maxAttempts?: number | undefined;
}

/** What a type may require of its jobs. */
export const REQUIRABLE = ['resourceId', 'fairnessKey'] as const;
export type RequiredField = (typeof REQUIRABLE)[number];

/** One kind of work. */
export interface JobTypeConfiguration {
  readonly type: string;
  readonly tier: string;
  readonly maxConcurrency: number | null;
  /** Two jobs of one group and one resource never run together; null excludes nothing. */
  readonly conflictGroup: string | null;
  /** Running jobs of this type on one resource; absent: no limit. Not beside a conflict group, which lets one run. */
  readonly maxConcurrencyPerResource?: number | undefined;
  /** What each job and schedule of this type must name; absent: nothing. What was accepted before goes on. */
  readonly requires?: readonly RequiredField[] | undefined;
  /** What an attempt costs until the estimate has learned better. */
  readonly defaultCostMs: number;
  readonly timeoutMs: number;
  readonly retry: RetryPolicy;
  readonly onWorkerLost: 'fail' | 'retry' | 'resume';
}

/** A dispatch order and a cap; tiers are listed from the top. */
export interface TierConfiguration {
  readonly tier: string;
  readonly maxConcurrency: number | null;
  /** Slots that higher tiers leave free for this one while it has backlog; 0 guarantees nothing. */
  readonly guaranteed: number;
}

/** Workers that accept the same types and share a queue. */
export interface FleetConfiguration {
  readonly fleet: string;
  /** One type: specialised. Several: versatile. */
  readonly types: readonly string[];
  /** Jobs that a Lambda fleet runs at once. Null: workers register their own slots. */
  readonly slots: number | null;
  /**
   * Jobs that one invocation of a Lambda fleet runs at most, side by side in one process, 1 to `BATCH_SIZE_MAX`.
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
  /** Divided by the number of compatible free slots. */
  readonly rarity: number;
  /** Points an on-demand job starts with. */
  readonly onDemand: number;
  /** Further points for each second of an on-demand job's age. */
  readonly onDemandAgeSec: number;
}

/** Cost accounting per fairness key. Source: fair-queuing. */
export interface FairnessConfiguration {
  /** Smoothing of learned costs, 0 to 1. */
  readonly alpha: number;
  /** The least that an admission is charged, so that masses of tiny jobs count. */
  readonly admissionFloorMs: number;
  /** Shares; a key that is not named has `defaultWeight`. */
  readonly weights: Readonly<Record<string, number>>;
  readonly defaultWeight: number;
  /** Running jobs of one key. */
  readonly maxConcurrencyPerKey: number | null;
  /** `advance`: a key that arrives, new or after a while without jobs, starts just behind the least cost over weight among the others. `none`: at 0, or where it was. */
  readonly idlePolicy: 'advance' | 'none';
  /** With `advance`: no key's cost over weight stays further than this below the least of the others; null: any may. */
  readonly creditMs: number | null;
  /** True: what an attempt really used replaces its estimate in the ledger. */
  readonly trueUp: boolean;
  /** What was charged to an idle key is forgotten after this, 90 days at most; null: after 90 days. */
  readonly keyTtlMs: number | null;
  /** What stands in for a cost that was never seen on a resource: the type's own average (also when absent), or only its default. */
  readonly estimateFallback?: 'type' | 'default' | undefined;
  /** What was learned of a type, or a resource, that was not seen for so long is forgotten, as `keyTtlMs` says. */
  readonly estimateTtlMs: number | null;
  /** All ledgers go to 0 that often; null never. */
  readonly resetEveryMs: number | null;
}

/** When capacity moves between partitions, and how much. With one partition nothing does. See `lending.ts`. */
export interface LendingConfiguration {
  /** A partition asks when at least so many of its jobs wait for the same; one that has nothing at all asks for a single one. */
  readonly backlogThreshold: number;
  /** Of what a partition has free, as much is lent to one borrower at once, rounded up: above 0, and at most 1. */
  readonly lentShare: number;
  /** Units of one loan, at most. */
  readonly batch: number;
  /** Units that one partition borrows in all, at most: back-pressure. 0: nothing is lent. */
  readonly maxBorrowed: number;
  /** A borrower starts nothing with a loan that is older; it gives back what is free before. */
  readonly loanMs: number;
}

/** One scheduling domain. */
export interface PoolConfiguration {
  readonly types: readonly JobTypeConfiguration[];
  /** From the top. */
  readonly tiers: readonly TierConfiguration[];
  readonly fleets: readonly FleetConfiguration[];
  /** Running jobs of the whole pool. */
  readonly maxConcurrency: number | null;
  readonly score: ScoreCoefficients;
  readonly fairness: FairnessConfiguration;
  /** Absent: as `LENDING_DEFAULTS` says. */
  readonly lending?: LendingConfiguration | undefined;
  /**
   * Claims that a pass may lose one after the other; after one more it reads its candidates anew. Absent: `LOST_CLAIMS_IN_A_ROW`.
   * Source: affinity-scoring, "Retry algorithm".
   */
  readonly lostClaimsInARow?: number | undefined;
  /** Shards with a single writer each, among which keys and caps are divided: see `partition.ts`. */
  readonly partitions: number;
}
