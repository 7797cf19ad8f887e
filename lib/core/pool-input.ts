/**
 * A declaration as a person writes it: each field with its default, its bounds and an example. `resolveConfiguration`
 * fills in the defaults. `docs/configuration.md` is made from these comments by `npm run docs:configuration`, and a test
 * compares them with the code.
 */
import type { RequiredField } from './configuration.ts';
import type { DurationInput } from './duration.ts';

/**
 * The types, tiers, fleets and limits of one scheduler. A type that no fleet lists gets a fleet of its own, and a type that only a fleet names gets the default
 * settings.
 */
export interface PoolInput {
  /**
   * The job types by name.
   *
   * @default - the types that fleets name
   * @bounds at most 1,000 names of 1 to 100 characters
   * @example types: { render: { maxConcurrency: 20 } }
   */
  readonly types?: Readonly<Record<string, JobTypeInput>> | undefined;
  /**
   * The tiers, from the highest down. A tier's jobs start before those of all lower tiers.
   *
   * @default - one tier, `default`, without a limit
   * @bounds 1 to 100 tiers with different names
   * @example tiers: [{ tier: 'urgent', maxConcurrency: 50 }, { tier: 'default' }]
   */
  readonly tiers?: readonly TierInput[] | undefined;
  /**
   * The fleets by name.
   *
   * @default - for each type without a fleet one of its own, which long-running processes serve
   * @bounds at most 1,000 names of 1 to 100 characters
   * @example fleets: { pdf: { types: ['render'] } }
   */
  readonly fleets?: Readonly<Record<string, FleetInput>> | undefined;
  /**
   * The most jobs of the whole pool that run at once; null: no limit besides the fleets' slots. A cap below the number of
   * partitions is refused.
   *
   * @default null
   * @bounds 0 or more, whole, or null
   * @example maxConcurrency: 200
   */
  readonly maxConcurrency?: number | null | undefined;
  /**
   * The coefficients of the score, which orders the jobs of one fairness key. Each deployment may change them; jobs that
   * already wait keep their order within their line of one type, mode and fairness key.
   *
   * @default - the defaults of its fields
   * @bounds the fields of the score
   * @example score: { priority: 2048 }
   */
  readonly score?: ScoreInput | undefined;
  /**
   * The accounting of costs by fairness key: weights, a cap for each key, credit, and how costs are learned.
   *
   * @default - the defaults of its fields
   * @bounds the fields of fairness
   * @example fairness: { weights: { acme: 2 }, maxConcurrencyPerKey: 10 }
   */
  readonly fairness?: FairnessInput | undefined;
  /**
   * When and how much partitions lend each other of their slots and shares of caps. A pool with one partition lends
   * nothing.
   *
   * @default - the defaults of its fields
   * @bounds the fields of lending
   * @example lending: { batch: 20 }
   */
  readonly lending?: LendingInput | undefined;
  /**
   * Claims that a pass may lose one after the other; after one more it reads its candidates again. A smaller number costs
   * reads if many dispatchers compete; with a larger one a pass wastes claims on jobs that others have taken.
   *
   * @default 5
   * @bounds 0 to 1,000, whole
   * @example lostClaimsInARow: 10
   */
  readonly lostClaimsInARow?: number | undefined;
  /**
   * The number of partitions, among which fairness keys and caps are divided. Each has a single writer; with one, the
   * order of the whole pool is exact. A deployment may change it at any time.
   *
   * @default 1
   * @bounds 1 to 4,096, whole
   * @example partitions: 4
   */
  readonly partitions?: number | undefined;
}

/** A tier: a group of types with its place in the order of dispatch. */
export interface TierInput {
  /**
   * The tier's name, which types refer to.
   *
   * @default - none: it is required
   * @bounds 1 to 100 characters
   * @example tier: 'urgent'
   */
  readonly tier: string;
  /**
   * The most jobs of the tier that run at once; null: no limit.
   *
   * @default null
   * @bounds 0 or more, whole, or null
   * @example maxConcurrency: 50
   */
  readonly maxConcurrency?: number | null | undefined;
  /**
   * Slots that higher tiers leave free for this one while it has backlog. It may not exceed the tier's cap, and the
   * guarantees of all tiers together may not exceed the pool's.
   *
   * @default 0
   * @bounds 0 or more, whole
   * @example guaranteed: 2
   */
  readonly guaranteed?: number | undefined;
}

/** The terms of a job type. Each field has a default. */
export interface JobTypeInput {
  /**
   * The tier of the type's jobs.
   *
   * @default - the tier `default` if there is one, or else the lowest
   * @bounds the name of a declared tier
   * @example tier: 'urgent'
   */
  readonly tier?: string | undefined;
  /**
   * The most jobs of the type that run at once; null: no limit.
   *
   * @default null
   * @bounds 0 or more, whole, or null
   * @example maxConcurrency: 20
   */
  readonly maxConcurrency?: number | null | undefined;
  /**
   * Two jobs with the same group and the same `resourceId` never run together. The empty text and null mean no group.
   *
   * @default null
   * @bounds 1 to 100 characters, or null
   * @example conflictGroup: 'account'
   */
  readonly conflictGroup?: string | null | undefined;
  /**
   * The most running jobs of the type on one `resourceId`, divided among the partitions; null: no limit. Refused beside a
   * conflict group, which lets only one job run.
   *
   * @default - no limit
   * @bounds 1 or more, whole, or null
   * @example maxConcurrencyPerResource: 3
   */
  readonly maxConcurrencyPerResource?: number | null | undefined;
  /**
   * Jobs and schedules without these fields are refused. Those accepted earlier are kept.
   *
   * @default - none
   * @bounds a list of 'resourceId' and 'fairnessKey'
   * @example requires: ['fairnessKey']
   */
  readonly requires?: readonly RequiredField[] | undefined;
  /**
   * Whether succeeded and cancelled jobs of the type can be listed. Each costs one more write unit, at its end.
   *
   * @default - they are found by id only
   * @bounds true or false
   * @example listFinished: true
   */
  readonly listFinished?: boolean | undefined;
  /**
   * The cost of an attempt until the estimate has learned a better one. A cost is the time that an attempt takes.
   *
   * @default 1s
   * @bounds 0ms or more
   * @example defaultCostMs: '2s'
   */
  readonly defaultCostMs?: DurationInput | undefined;
  /**
   * How long an attempt may run. In a stack, a type without a timeout gets the longest that the functions of its fleets
   * can keep. The default is half a minute less than the 15 minutes of a function, which needs the rest to report the
   * timeout.
   *
   * @default 14m30s
   * @bounds 1ms or more, whole
   * @example timeoutMs: '10m'
   */
  readonly timeoutMs?: DurationInput | undefined;
  /**
   * How failed attempts are retried.
   *
   * @default - the defaults of its fields
   * @bounds the fields of a retry policy
   * @example retry: { maxAttempts: 5, delayMs: '2s' }
   */
  readonly retry?: RetryInput | undefined;
  /**
   * What happens to a job whose worker is lost: `fail` ends it, `retry` starts it again at once, `resume` starts it again
   * with its last checkpoint.
   *
   * @default 'retry'
   * @bounds 'fail', 'retry' or 'resume'
   * @example onWorkerLost: 'resume'
   */
  readonly onWorkerLost?: 'fail' | 'retry' | 'resume' | undefined;
}

/** How failed attempts are retried. */
export interface RetryInput {
  /**
   * All attempts, including the first.
   *
   * @default 3
   * @bounds 1 or more, whole
   * @example maxAttempts: 5
   */
  readonly maxAttempts?: number | undefined;
  /**
   * How the delay grows from attempt to attempt: it doubles, it grows by `delayMs`, or it stays.
   *
   * @default 'exponential'
   * @bounds 'exponential', 'linear' or 'fixed'
   * @example backoff: 'linear'
   */
  readonly backoff?: 'exponential' | 'linear' | 'fixed' | undefined;
  /**
   * The delay before the second attempt.
   *
   * @default 1s
   * @bounds 0ms or more
   * @example delayMs: '2s'
   */
  readonly delayMs?: DurationInput | undefined;
  /**
   * The longest delay. It may not be below `delayMs`; without a value it is at least that.
   *
   * @default 5m
   * @bounds 0ms or more
   * @example maxDelayMs: '1h'
   */
  readonly maxDelayMs?: DurationInput | undefined;
  /**
   * With `exponential` backoff, `full` draws the delay evenly between 0 and its ceiling.
   *
   * @default 'full'
   * @bounds 'full' or 'none'
   * @example jitter: 'none'
   */
  readonly jitter?: 'full' | 'none' | undefined;
  /**
   * Rules by error name. The first rule that matches decides; if none matches, the policy does.
   *
   * @default - no rules
   * @bounds at most 100 rules
   * @example errors: [{ name: 'InvalidOrderError', retry: false }]
   */
  readonly errors?: readonly ErrorRuleInput[] | undefined;
  /**
   * How often a job may lose its worker and still be retried. Lost workers are counted apart from attempts.
   *
   * @default 3
   * @bounds 0 or more, whole
   * @example maxWorkersLost: 10
   */
  readonly maxWorkersLost?: number | undefined;
}

/** How attempts that fail with one error name are retried. */
export interface ErrorRuleInput {
  /**
   * The error's `name`; `*` matches every error.
   *
   * @default - none: it is required
   * @bounds 1 to 100 characters
   * @example name: 'InvalidOrderError'
   */
  readonly name: string;
  /**
   * Whether the job is tried again.
   *
   * @default - none: it is required
   * @bounds true or false
   * @example retry: false
   */
  readonly retry: boolean;
  /**
   * Replaces the policy's `delayMs`.
   *
   * @default - the policy's
   * @bounds 0ms or more
   * @example delayMs: '1m'
   */
  readonly delayMs?: DurationInput | undefined;
  /**
   * Replaces the policy's `maxAttempts`.
   *
   * @default - the policy's
   * @bounds 1 or more, whole
   * @example maxAttempts: 10
   */
  readonly maxAttempts?: number | undefined;
}

/** A fleet: workers that accept the same types and share a queue. The construct takes more fields: see `FleetProps`. */
export interface FleetInput {
  /**
   * The job types that the fleet accepts.
   *
   * @default - none: it is required
   * @bounds 1 to 1,000 different names
   * @example types: ['render', 'resize']
   */
  readonly types: readonly string[];
  /**
   * The most jobs that the fleet's function runs at once; null: processes register their own slots. The construct refuses
   * 0, and its default for a fleet with a handler is 10.
   *
   * @default null
   * @bounds 0 or more, whole, or null
   * @example slots: 20
   */
  readonly slots?: number | null | undefined;
  /**
   * The most jobs that one invocation of the fleet's function runs, side by side in one process. Refused for a fleet
   * whose `slots` are null.
   *
   * @default 10
   * @bounds 1 to 10, whole
   * @example batchSize: 1
   */
  readonly batchSize?: number | undefined;
}

/** The coefficients of the score, in points. */
export interface ScoreInput {
  /**
   * Points for each unit of priority.
   *
   * @default 1,024
   * @bounds 0 or more
   * @example priority: 2048
   */
  readonly priority?: number | undefined;
  /**
   * Points for each second of waiting.
   *
   * @default 16
   * @bounds above 0
   * @example ageSec: 32
   */
  readonly ageSec?: number | undefined;
  /**
   * Points that are divided by the number of free slots that can run the job.
   *
   * @default 500
   * @bounds 0 or more
   * @example rarity: 0
   */
  readonly rarity?: number | undefined;
  /**
   * Points that an on-demand job starts with.
   *
   * @default 4,096
   * @bounds 0 or more
   * @example onDemand: 8192
   */
  readonly onDemand?: number | undefined;
  /**
   * Additional points for each second of an on-demand job's waiting.
   *
   * @default 32
   * @bounds 0 or more
   * @example onDemandAgeSec: 64
   */
  readonly onDemandAgeSec?: number | undefined;
}

/** The accounting of costs by fairness key. */
export interface FairnessInput {
  /**
   * The smoothing factor of learned costs: the weight of the newest attempt.
   *
   * @default 0.3
   * @bounds 0 to 1
   * @example alpha: 0.5
   */
  readonly alpha?: number | undefined;
  /**
   * The least charge of an admission, so that a mass of tiny jobs is not free.
   *
   * @default 10ms
   * @bounds 0ms or more
   * @example admissionFloorMs: '50ms'
   */
  readonly admissionFloorMs?: DurationInput | undefined;
  /**
   * Weights by fairness key; any other key has `defaultWeight`. A key of weight 2 gets twice the share of a key of weight
   * 1. Any text is a key.
   *
   * @default - none
   * @bounds at most 10,000 keys, each with a number above 0
   * @example weights: { acme: 2 }
   */
  readonly weights?: Readonly<Record<string, number>> | undefined;
  /**
   * The weight of keys without one of their own.
   *
   * @default 1
   * @bounds above 0
   * @example defaultWeight: 0.5
   */
  readonly defaultWeight?: number | undefined;
  /**
   * The most jobs of one fairness key that run at once; null: no limit.
   *
   * @default null
   * @bounds 0 or more, whole, or null
   * @example maxConcurrencyPerKey: 10
   */
  readonly maxConcurrencyPerKey?: number | null | undefined;
  /**
   * The cost with which a key arrives, new or after a time without jobs. `advance`: just behind the least cost over weight
   * of the other keys. `none`: 0, or the cost that it had.
   *
   * @default 'advance'
   * @bounds 'advance' or 'none'
   * @example idlePolicy: 'none'
   */
  readonly idlePolicy?: 'advance' | 'none' | undefined;
  /**
   * With `advance`: how far a key's cost over weight may stay below the least of the other keys; null: any distance.
   *
   * @default 5m
   * @bounds 1ms or more, whole, or null
   * @example creditMs: '1m'
   */
  readonly creditMs?: DurationInput | null | undefined;
  /**
   * Whether settlement replaces an attempt's estimated cost in the ledger by its actual cost.
   *
   * @default true
   * @bounds true or false
   * @example trueUp: false
   */
  readonly trueUp?: boolean | undefined;
  /**
   * The ledger of a key that has started and ended nothing for this time is deleted; null: after 90 days. A key that waits
   * so long in a long backlog may keep its place among the keys until its next start.
   *
   * @default 1h
   * @bounds 1ms to 90d, whole, or null
   * @example keyTtlMs: '1d'
   */
  readonly keyTtlMs?: DurationInput | null | undefined;
  /**
   * The cost of a resource that was never seen: the type's average (`type`), or the type's default cost (`default`).
   *
   * @default 'type'
   * @bounds 'type' or 'default'
   * @example estimateFallback: 'default'
   */
  readonly estimateFallback?: 'type' | 'default' | undefined;
  /**
   * The estimate of a type or resource without jobs is deleted after this time; null: after 90 days.
   *
   * @default 30d
   * @bounds 1ms to 90d, whole, or null
   * @example estimateTtlMs: '7d'
   */
  readonly estimateTtlMs?: DurationInput | null | undefined;
  /**
   * The interval at which all ledgers are reset to 0; null: never.
   *
   * @default null
   * @bounds 1ms or more, whole, or null
   * @example resetEveryMs: '30d'
   */
  readonly resetEveryMs?: DurationInput | null | undefined;
}

/** When and how much capacity moves between partitions. */
export interface LendingInput {
  /**
   * A partition asks for a loan when at least so many of its jobs wait for the same capacity. A partition with none of
   * that capacity asks for one job already.
   *
   * @default 2
   * @bounds 1 to 100, whole
   * @example backlogThreshold: 5
   */
  readonly backlogThreshold?: number | undefined;
  /**
   * The part of its free capacity that a partition lends to one borrower at once, rounded up.
   *
   * @default 0.5
   * @bounds above 0 to 1
   * @example lentShare: 0.25
   */
  readonly lentShare?: number | undefined;
  /**
   * The most units in one loan.
   *
   * @default 10
   * @bounds 1 to 1,000, whole
   * @example batch: 20
   */
  readonly batch?: number | undefined;
  /**
   * The most units that one partition may have borrowed in all; 0 turns lending off.
   *
   * @default 100
   * @bounds 0 to 100,000, whole
   * @example maxBorrowed: 0
   */
  readonly maxBorrowed?: number | undefined;
  /**
   * How long a borrower may start jobs with a loan. It may return free units earlier.
   *
   * @default 30s
   * @bounds 5s to 1d, whole
   * @example loanMs: '1m'
   */
  readonly loanMs?: DurationInput | undefined;
}
