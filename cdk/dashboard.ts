/** A CloudWatch dashboard, from the top: health, waiting jobs, running jobs, and the scheduler's parts. */

import { Duration, Token } from 'aws-cdk-lib';
import { Dashboard, GraphWidget, type IMetric, type IWidget, TextWidget } from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';
import type { DurationInput } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import type { MetricOnRequest } from '../lib/metrics/names.ts';
import type { SchedulerMetricOptions } from './metrics.ts';
import { durationWithin, toDuration } from './values.ts';
import { deadLettersIn, type WatchedScheduler } from './watched.ts';

export interface DashboardProps {
  /** The name of the dashboard: 1 to 255 letters, digits, dashes and underscores. @default - generated */
  readonly dashboardName?: string;
  /** The time range that it shows at first, at least 1 minute. @default '3h' */
  readonly past?: DurationInput;
}

interface DashboardConstructProps extends DashboardProps {
  readonly scheduler: WatchedScheduler;
}

const checkName: Check = (field, value) => {
  if (typeof value === 'string' && (Token.isUnresolved(value) || /^[\w-]{1,255}$/.test(value))) return;
  throw new ConfigurationError(
    field,
    value,
    'must be 1 to 255 letters, digits, dashes and underscores',
    'Leave it out for a generated one.',
  );
};

const CHECKS: Readonly<Record<keyof DashboardProps, Check>> = {
  dashboardName: checkName,
  past: durationWithin({ least: Duration.minutes(1) }),
};

/**
 * Checks the props of a dashboard.
 * @throws ConfigurationError for an impossible name or time range
 */
export const checkDashboard = (props: DashboardProps): void => objectOf(CHECKS)('', props);

/** The metrics on request that the graphs show. */
export const METRICS_DRAWN = [
  'submitted',
  'running',
  'freeSlots',
  'startable',
  'passDuration',
  'writeUnits',
] as const satisfies MetricOnRequest[];

/** The most lines in a graph. More could not be told apart, and each costs money. */
const LINES_MAX = 20;
const HALF = 12;
const HEIGHT = 6;

export class SchedulerDashboard extends Construct {
  readonly dashboard: Dashboard;

  constructor(scope: Construct, id: string, props: DashboardConstructProps) {
    super(scope, id);
    const { scheduler, dashboardName, past = '3h' } = props;
    this.dashboard = new Dashboard(this, 'Dashboard', {
      defaultInterval: toDuration(past),
      ...(dashboardName === undefined ? {} : { dashboardName }),
    });
    scheduler.whenSettled(() => {
      for (const row of rowsOf(scheduler)) this.dashboard.addWidgets(...row);
    });
  }
}

function rowsOf(scheduler: WatchedScheduler): readonly (readonly IWidget[])[] {
  const types = scheduler.configuration.types.map(({ type }) => type);
  const byType = (metricOf: (options: SchedulerMetricOptions) => IMetric): readonly IMetric[] =>
    types.slice(0, LINES_MAX).map((type) => metricOf({ type, label: type }));
  const { dispatchFunction, ingestFunction, ingestQueue } = scheduler;
  return [
    [new TextWidget({ markdown: headline(scheduler, types.length), width: 2 * HALF, height: 2 })],
    [
      graph('Jobs', [
        scheduler.metricSubmitted(),
        scheduler.metricStarted(),
        scheduler.metricSucceeded(),
        scheduler.metricFailed(),
        scheduler.metricRetried(),
        scheduler.metricCancelled(),
        scheduler.metricExpired(),
        scheduler.metricRejected(),
      ]),
      graph('Waiting, running and free', [
        scheduler.metricBacklog(),
        scheduler.metricRunning(),
        scheduler.metricFreeSlots(),
        scheduler.metricStartable(),
      ]),
    ],
    [
      graph('Wait until started, ms', [
        scheduler.metricWaitTime({ statistic: 'p50', label: 'p50' }),
        scheduler.metricWaitTime({ statistic: 'p99', label: 'p99' }),
      ]),
      graph('Oldest waiting job, s', [scheduler.metricOldestPending()]),
    ],
    [
      graph(
        'Wait by type, p99, ms',
        byType((options) => scheduler.metricWaitTime(options)),
      ),
      graph(
        'Running by type',
        byType((options) => scheduler.metricRunning(options)),
      ),
    ],
    [
      graph(
        'Caps in use, %',
        byType((options) => scheduler.metricCapUsed(options)),
      ),
      graph(
        'Failed by type',
        byType((options) => scheduler.metricFailed(options)),
      ),
    ],
    ...scalingRows(scheduler),
    [
      graph('Passes, ms', [scheduler.metricPassDuration()]),
      graph('Lost races and write units', [scheduler.metricLostRaces(), scheduler.metricWriteUnits()]),
    ],
    [
      graph('Ingest', [
        ingestQueue.metricApproximateNumberOfMessagesVisible(),
        ingestQueue.metricApproximateAgeOfOldestMessage(),
        ingestFunction.metricErrors(),
        ingestFunction.metricThrottles(),
      ]),
      graph('Dispatch', [
        dispatchFunction.metricInvocations(),
        dispatchFunction.metric('IteratorAge', { statistic: 'Maximum' }),
        dispatchFunction.metricErrors(),
        dispatchFunction.metricThrottles(),
      ]),
    ],
    [
      graph('Dead letters', [deadLettersIn(Object.values(scheduler.deadLetterQueues))]),
      graph('Outcomes not published at once', [scheduler.metricOutcomesUnpublished()]),
    ],
  ];
}

function scalingRows(scheduler: WatchedScheduler): readonly (readonly IWidget[])[] {
  const fleets = scheduler.scaledFleets.slice(0, LINES_MAX);
  if (fleets.length === 0) return [];
  const byFleet = (metricOf: (options: SchedulerMetricOptions) => IMetric): readonly IMetric[] =>
    fleets.map((fleet) => metricOf({ fleet, label: fleet }));
  return [
    [
      graph(
        'Backlog of scaled fleets, s of work over slots',
        byFleet((options) => scheduler.metricBacklogTime(options)),
      ),
      graph(
        'Slots of scaled fleets in use, %',
        byFleet((options) => scheduler.metricCapUsed(options)),
      ),
    ],
  ];
}

const graph = (title: string, metrics: readonly IMetric[]): GraphWidget =>
  new GraphWidget({ title, left: [...metrics], width: HALF, height: HEIGHT });

function headline(scheduler: WatchedScheduler, types: number): string {
  const cut = types > LINES_MAX ? ` Graphs by type show the first ${LINES_MAX} of ${types}.` : '';
  return `# ${scheduler.node.path}\n\`fairlead jobs explain ID\` says why a job waits.${cut}`;
}
