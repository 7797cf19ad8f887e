/**
 * Names of the metrics that the scheduler's functions send to CloudWatch: namespace, dimensions, metrics and units.
 * Both the functions that emit them and the construct that draws graphs and alarms use this list.
 */

export const METRICS_NAMESPACE = 'Fairlead';

/** Each metric has the dimension `Scheduler`, which is the name of the scheduler's table. Further dimensions narrow it. */
export const METRIC_DIMENSION = {
  scheduler: 'Scheduler',
  type: 'Type',
  tier: 'Tier',
  fleet: 'Fleet',
  partition: 'Partition',
} as const;

/** The dimensions that may narrow a metric, except the scheduler itself. */
export type MetricScope = Exclude<keyof typeof METRIC_DIMENSION, 'scheduler'>;

/** Scopes that narrow metrics only on request, because each type, tier and fleet adds metrics that are billed by the hour. */
export const FINER_SCOPES = ['type', 'tier', 'fleet'] as const satisfies readonly MetricScope[];
/** Environment variable in which the construct lists the requested scopes, separated by commas. */
export const METRICS_BY = 'FAIRLEAD_METRICS_BY';
export type FinerScope = (typeof FINER_SCOPES)[number];
/** Environment variable in which the construct lists the requested metrics: their keys in `METRICS`, separated by commas. */
export const METRICS_TOLD = 'FAIRLEAD_METRICS';

/** Units as CloudWatch names them. */
export type MetricUnitName = 'Count' | 'Milliseconds' | 'Seconds' | 'Percent';

export interface MetricSpec {
  /** The metric's name in CloudWatch. */
  readonly name: string;
  readonly unit: MetricUnitName;
  /** The statistic that a user of this metric should look at. */
  readonly statistic: 'Sum' | 'Maximum' | 'p99';
  /** The scopes for each of which the metric is emitted, besides the whole scheduler. */
  readonly by: readonly MetricScope[];
  /** The scopes in `by` that are emitted only on request. @default - none */
  readonly finer?: readonly FinerScope[];
  /** Whether the metric is emitted only on request, because each metric is billed by the hour. @default - emitted always */
  readonly isOnRequest?: true;
  /**
   * Whether the metric is a cost. A cost is emitted only together with other metrics, so an invocation that has nothing
   * else to report emits nothing, and costs nothing.
   */
  readonly isBeside?: true;
  readonly description: string;
}

export const METRICS = {
  submitted: {
    name: 'JobsSubmitted',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type'],
    finer: ['type'],
    isOnRequest: true,
    description: 'Jobs that were stored, whether through the bus or the client',
  },
  rejected: {
    name: 'JobsRejected',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    description: 'Entries of events that were refused, with a record of the reason',
  },
  claimed: {
    name: 'JobsClaimed',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    isOnRequest: true,
    description: 'Jobs that passes assigned to a fleet',
  },
  started: {
    name: 'JobsStarted',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type', 'tier'],
    finer: ['type', 'tier'],
    description: 'Attempts that workers have started',
  },
  succeeded: {
    name: 'JobsSucceeded',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type'],
    finer: ['type'],
    description: 'Jobs that succeeded',
  },
  failed: {
    name: 'JobsFailed',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type'],
    description: 'Jobs that failed for good',
  },
  cancelled: {
    name: 'JobsCancelled',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type'],
    finer: ['type'],
    description: 'Jobs that were cancelled',
  },
  expired: {
    name: 'JobsExpired',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type'],
    finer: ['type'],
    description: 'Jobs that had not started in time',
  },
  retried: {
    name: 'JobsRetried',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type'],
    finer: ['type'],
    description: 'Attempts that did not succeed and whose jobs are retried',
  },
  waitTime: {
    name: 'WaitTime',
    unit: 'Milliseconds',
    statistic: 'p99',
    by: ['type', 'tier'],
    finer: ['type', 'tier'],
    description: 'From when a job was ready to run until a worker started it',
  },
  running: {
    name: 'JobsRunning',
    unit: 'Count',
    statistic: 'Maximum',
    by: ['type', 'tier', 'fleet', 'partition'],
    finer: ['type', 'tier', 'fleet'],
    isOnRequest: true,
    description: 'Jobs in flight after a pass, at least once a minute while there are any',
  },
  capUsed: {
    name: 'CapUsed',
    unit: 'Percent',
    statistic: 'Maximum',
    by: ['type', 'tier', 'fleet', 'partition'],
    description: 'Jobs in flight as a share of the cap, or of the slots of the fleet',
  },
  backlog: {
    name: 'JobsWaiting',
    unit: 'Count',
    statistic: 'Maximum',
    by: ['type', 'partition'],
    finer: ['type'],
    description: 'Ready jobs that a pass saw and that wait after it; there may be more',
  },
  oldestPending: {
    name: 'OldestPendingAge',
    unit: 'Seconds',
    statistic: 'Maximum',
    by: ['type', 'partition'],
    finer: ['type'],
    description: 'How long the oldest waiting job that a pass saw has been ready',
  },
  backlogTime: {
    name: 'BacklogTime',
    unit: 'Seconds',
    statistic: 'Maximum',
    by: ['fleet'],
    isOnRequest: true,
    description:
      'How long the jobs that wait for a full fleet would take on its slots, or how long the oldest of them has waited if that is longer; zero while a slot is free',
  },
  freeSlots: {
    name: 'FreeSlots',
    unit: 'Count',
    statistic: 'Maximum',
    by: ['fleet', 'partition'],
    finer: ['fleet'],
    isOnRequest: true,
    description: 'Slots without a job in flight after a pass',
  },
  startable: {
    name: 'JobsStartable',
    unit: 'Count',
    statistic: 'Maximum',
    by: ['partition'],
    isOnRequest: true,
    description:
      'Waiting jobs that a pass saw, for which a slot is free and which no cap, conflict or pause blocks: if it stays above zero, something is wrong',
  },
  passDuration: {
    name: 'PassDuration',
    unit: 'Milliseconds',
    statistic: 'p99',
    by: [],
    isBeside: true,
    isOnRequest: true,
    description: 'How long the passes of one lead took, in invocations that reported another metric',
  },
  lostRaces: {
    name: 'LostRaces',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    description: 'Claims and commits that failed because another dispatcher was faster',
  },
  writeUnits: {
    name: 'WriteUnits',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    isBeside: true,
    isOnRequest: true,
    description:
      'Write units of the table and its index that ingest and passes used, except in idle ticks; the start and the end of an attempt use one or two each in addition',
  },
  outcomesUnpublished: {
    name: 'OutcomesUnpublished',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    description: 'Outcome events that the bus did not accept; they are published again',
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;

/** Keys of the metrics that are emitted only on request. */
export type MetricOnRequest = {
  [Key in keyof typeof METRICS]: (typeof METRICS)[Key] extends { readonly isOnRequest: true } ? Key : never;
}[keyof typeof METRICS];
export const isOnRequest = (name: keyof typeof METRICS): name is MetricOnRequest =>
  'isOnRequest' in METRICS[name];
export const METRICS_ON_REQUEST: readonly MetricOnRequest[] = (
  Object.keys(METRICS) as (keyof typeof METRICS)[]
).filter(isOnRequest);
