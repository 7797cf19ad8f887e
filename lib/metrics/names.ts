/**
 * The names under which the scheduler's functions tell CloudWatch what happens: the one list of namespace, dimensions,
 * metrics and units. Who emits them, and the construct that draws and watches them, read it here.
 */

export const METRICS_NAMESPACE = 'Fairlead';

/** Every metric has `Scheduler`, the name of the scheduler's table; the others narrow it. */
export const METRIC_DIMENSION = {
  scheduler: 'Scheduler',
  type: 'Type',
  tier: 'Tier',
  fleet: 'Fleet',
  partition: 'Partition',
} as const;

/** What may narrow a metric, beside the scheduler itself. */
export type MetricScope = Exclude<keyof typeof METRIC_DIMENSION, 'scheduler'>;

/** What narrows metrics only where somebody asks for it: each type, tier and fleet would be some metrics more, billed by the hour. */
export const FINER_SCOPES = ['type', 'tier', 'fleet'] as const satisfies readonly MetricScope[];
/** Where the construct says so: in a variable of the environment, names with commas between them. */
export const METRICS_BY = 'FAIRLEAD_METRICS_BY';
export type FinerScope = (typeof FINER_SCOPES)[number];
/** As `METRICS_BY`, for the metrics that are told on request: their names in `METRICS`. */
export const METRICS_TOLD = 'FAIRLEAD_METRICS';

/** CloudWatch's own units. */
export type MetricUnitName = 'Count' | 'Milliseconds' | 'Seconds' | 'Percent';

export interface MetricSpec {
  /** As CloudWatch has it. */
  readonly name: string;
  readonly unit: MetricUnitName;
  /** The statistic that answers the question which the metric is for. */
  readonly statistic: 'Sum' | 'Maximum' | 'p99';
  /** Emitted for the whole scheduler, and once more narrowed by each of these. */
  readonly by: readonly MetricScope[];
  /** Of those: by what it is told only where somebody asks for it. @default - by all of them, always */
  readonly finer?: readonly FinerScope[];
  /** Told only where somebody asks for it, of the whole and of what narrows it: each metric is billed by the hour. @default - told always */
  readonly isOnRequest?: true;
  /** What work costs, told beside what was done: an invocation that has nothing else to tell is silent, and costs no metric. */
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
    description: 'Jobs that were stored, through the bus and the client alike',
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
    description: 'Jobs that passes have given to a fleet',
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
    description: 'Jobs that ended well',
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
  retried: {
    name: 'JobsRetried',
    unit: 'Count',
    statistic: 'Sum',
    by: ['type'],
    finer: ['type'],
    description: 'Attempts that did not succeed, and after which the job is to be tried again',
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
    description: 'Jobs in flight of what the cap allows, or of what the slots of the fleet do',
  },
  backlog: {
    name: 'JobsWaiting',
    unit: 'Count',
    statistic: 'Maximum',
    by: ['type', 'partition'],
    finer: ['type'],
    description: 'Jobs that are ready and wait after a pass, as many as it has seen: there may be more',
  },
  oldestPending: {
    name: 'OldestPendingAge',
    unit: 'Seconds',
    statistic: 'Maximum',
    by: ['type', 'partition'],
    finer: ['type'],
    description: 'For how long the first of the jobs that a pass has seen waiting has been ready',
  },
  freeSlots: {
    name: 'FreeSlots',
    unit: 'Count',
    statistic: 'Maximum',
    by: ['fleet', 'partition'],
    finer: ['fleet'],
    isOnRequest: true,
    description: 'Slots that nothing is in flight for after a pass',
  },
  startable: {
    name: 'JobsStartable',
    unit: 'Count',
    statistic: 'Maximum',
    by: ['partition'],
    isOnRequest: true,
    description:
      'Waiting jobs that a pass has seen, for which a slot is free and which no cap, conflict or pause holds back: above zero for long, something is wrong',
  },
  passDuration: {
    name: 'PassDuration',
    unit: 'Milliseconds',
    statistic: 'p99',
    by: [],
    isBeside: true,
    isOnRequest: true,
    description: 'How long the passes of one lead took, in invocations that had something else to tell',
  },
  lostRaces: {
    name: 'LostRaces',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    description: 'Claims and commits that another dispatcher was faster than',
  },
  writeUnits: {
    name: 'WriteUnits',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    isBeside: true,
    isOnRequest: true,
    description:
      'Write units of the table, its index included, that ingest and passes used, idle ticks aside; the start and the end of an attempt are one or two each beside them',
  },
  outcomesUnpublished: {
    name: 'OutcomesUnpublished',
    unit: 'Count',
    statistic: 'Sum',
    by: [],
    description: 'Outcome events that the bus did not take; they are published again',
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;

/** Those that are told only where somebody asks for them. */
export type MetricOnRequest = {
  [Key in keyof typeof METRICS]: (typeof METRICS)[Key] extends { readonly isOnRequest: true } ? Key : never;
}[keyof typeof METRICS];
export const isOnRequest = (name: keyof typeof METRICS): name is MetricOnRequest =>
  'isOnRequest' in METRICS[name];
export const METRICS_ON_REQUEST: readonly MetricOnRequest[] = (
  Object.keys(METRICS) as (keyof typeof METRICS)[]
).filter(isOnRequest);
