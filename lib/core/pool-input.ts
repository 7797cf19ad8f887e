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
   * Bounds by name, which several types share: caps, rates of starts or units, and budgets of keys. A type lists the limits that
   * its jobs are under. A limit that no type lists is refused.
   *
   * @default - none
   * @bounds at most 20 names of 1 to 100 characters, without slashes
   * @example limits: { openai: { total: 25, perKey: 3, rate: { starts: 500, per: '1m' } } }
   */
  readonly limits?: Readonly<Record<string, LimitInput>> | undefined;
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
  /**
   * Tags by which jobs of every state and type are listed. Each such tag of a job costs one more write unit when it is
   * submitted. Jobs that were submitted before are not found.
   *
   * @default - none: lists of one state are read and filtered
   * @bounds at most 8 different names of 1 to 64 characters
   * @example searchableTags: ['order']
   */
  readonly searchableTags?: readonly string[] | undefined;
  /**
   * Payloads, results, checkpoints and states of parked jobs over 64 KB go to a bucket, which the stack then has. The page
   * docs/cost-and-speed.md says from which size it pays.
   *
   * @default - none: they are refused
   * @bounds the fields of large payloads
   * @example largePayloads: { maxBytes: 1_048_576 }
   */
  readonly largePayloads?: LargePayloadsInput | undefined;
  /**
   * Whether dispatchers count what starts and ends in each minute, and how long jobs wait and run, for the dashboard and for
   * `GET /statistics`. Each partition then costs one write unit for each minute in which something happens. The counts are
   * kept for 14 days.
   *
   * @default - nothing is counted
   * @bounds true or false
   * @example statistics: true
   */
  readonly statistics?: boolean | undefined;
}

/** How large the values of jobs may be. */
export interface LargePayloadsInput {
  /**
   * The most UTF-8 bytes that a payload, a result, a checkpoint or the state of a parked job may have as JSON. A function
   * holds a value in memory several times over.
   *
   * @default 4,194,304
   * @bounds 65537 to 16777216, whole
   * @example maxBytes: 1_048_576
   */
  readonly maxBytes?: number | undefined;
}

/** A bound that several types share. It has at least one of `total`, `perKey`, `rate` and `budget`. */
export interface LimitInput {
  /**
   * The name of the job's key, among its `keys`, that the limit counts by, such as the customer's organisation. A job of
   * its types without that key is refused when it is submitted. Jobs of one such key may be in any partition, so
   * partitions divide what the limit allows one key; a fairness key has its whole share in one partition.
   * Refused in a limit that bounds no single key.
   *
   * @default - the fairness key
   * @bounds 1 to 100 characters
   * @example keyedBy: 'org'
   */
  readonly keyedBy?: string | undefined;
  /**
   * The most jobs of all its types that run at once; null: no limit.
   *
   * @default null
   * @bounds 0 or more, whole, or null
   * @example total: 25
   */
  readonly total?: number | null | undefined;
  /**
   * The most jobs of one key, among all its types, that run at once; null: no limit.
   *
   * @default null
   * @bounds 1 or more, whole, or null
   * @example perKey: 3
   */
  readonly perKey?: number | null | undefined;
  /**
   * The most starts, or units, within a window.
   *
   * @default - no limit
   * @bounds the fields of a rate
   * @example rate: { starts: 500, per: '1m', perKey: 60 }
   */
  readonly rate?: RateInput | undefined;
  /**
   * The most run time of one key within a window.
   *
   * @default - no limit
   * @bounds the fields of a budget
   * @example budget: { slotSeconds: 3600, per: '1d' }
   */
  readonly budget?: BudgetInput | undefined;
}

/**
 * The most starts of handlers within any window of this length, across passes and retries. It holds while
 * clocks differ by at most a fortieth of the window, and by at most 5 s. A job whose message comes so late that its
 * start would count for another window is not started, and is planned again. A rate has `starts`, `perKey` or both.
 * A rate with `perJob` counts units instead of starts, such as the tokens of a request: it has `units`, `perKey` or both.
 * Where jobs wait with more units than a deployment now lets one job have, the rate keeps room for the largest that it
 * meets. A job with more than the whole rate, or than its partition's share of it, starts when nothing
 * else counts there.
 * A deployment that adds a rate, puts a type under it or lengthens `per` begins its windows anew; jobs that were sent to
 * workers before count, but start all the same.
 */
export interface RateInput {
  /**
   * The most starts of all its jobs; null: no limit. Partitions divide it and do not lend it.
   *
   * @default null
   * @bounds 1 or more, whole, or null
   * @example starts: 500
   */
  readonly starts?: number | null | undefined;
  /**
   * The most units of all jobs that start; null: no limit. Partitions divide it and do not lend it. Needs `perJob`, may not be
   * less than that, and is refused beside `starts`.
   *
   * @default - no limit
   * @bounds 1 or more, whole, or null
   * @example units: 90_000
   */
  readonly units?: number | null | undefined;
  /**
   * The length of the window.
   *
   * @default - none: it is required
   * @bounds 1s to 30d, whole
   * @example per: '1m'
   */
  readonly per: DurationInput;
  /**
   * The most starts, or units, of one key; null: no limit. In a rate of units it may not be less than `perJob`.
   *
   * @default null
   * @bounds 1 or more, whole, or null
   * @example perKey: 60
   */
  readonly perKey?: number | null | undefined;
  /**
   * The most units of one job; the rate then counts units. A request with more is refused, and a job that names none
   * counts so many. No job starts while less than so much is left, so choose it close to what jobs have.
   *
   * @default - the rate counts starts
   * @bounds 1 or more, whole, or null
   * @example perJob: 4_000
   */
  readonly perJob?: number | null | undefined;
}

/**
 * The most run time of a key within a window: what its ended attempts took, and what its running ones are
 * expected to take. A key starts jobs while it is below its budget, so its last jobs may exceed it.
 */
export interface BudgetInput {
  /**
   * Run time in seconds, added up over all slots.
   *
   * @default - none: it is required
   * @bounds above 0 to 1,000,000,000
   * @example slotSeconds: 3600
   */
  readonly slotSeconds: number;
  /**
   * The length of the window.
   *
   * @default - none: it is required
   * @bounds 1s to 30d, whole
   * @example per: '1d'
   */
  readonly per: DurationInput;
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
   * A job that has not started so long after it was submitted, or after its `runAt` if that is later, ends as `expired`. A
   * request may name another duration. Each such job costs two more write units.
   *
   * @default - jobs wait for any time
   * @bounds 1s to 365d, whole
   * @example expireAfter: '10m'
   */
  readonly expireAfter?: DurationInput | undefined;
  /**
   * A submit is refused with a `BacklogFullError` while so many jobs of the type wait. Each process that submits counts for itself, about
   * once a second, so together they may exceed it by what they let in meanwhile. Jobs with a later `runAt`, and jobs that are
   * parked for their conflict key, do not count; more than 100 lines of fairness keys are estimated from 100.
   *
   * @default - any number
   * @bounds 1 to 50,000, whole
   * @example maxWaiting: 10_000
   */
  readonly maxWaiting?: number | undefined;
  /**
   * A submit is refused, as for `maxWaiting`, while so many jobs of the type with the same fairness key wait.
   *
   * @default - any number
   * @bounds 1 to 50,000, whole
   * @example maxWaitingPerKey: 100
   */
  readonly maxWaitingPerKey?: number | undefined;
  /**
   * Whether succeeded, cancelled and expired jobs of the type can be listed. Each costs one more write unit, at its end.
   *
   * @default - they are found by id only
   * @bounds true or false
   * @example listFinished: true
   */
  readonly listFinished?: boolean | undefined;
  /**
   * The limits that the type's jobs are under.
   *
   * @default - none
   * @bounds at most 4 names of declared limits
   * @example limits: ['openai']
   */
  readonly limits?: readonly string[] | undefined;
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
