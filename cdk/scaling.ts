/** Scales the workers of a fleet that run in containers or on instances by how much work waits for them. */

import { Duration } from 'aws-cdk-lib';
import type { AutoScalingGroup } from 'aws-cdk-lib/aws-autoscaling';
import type { ScalableTaskCount } from 'aws-cdk-lib/aws-ecs';
import type { DurationInput } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import type { SchedulerMetrics } from './metrics.ts';
import { checkText, durationWithin, toDuration } from './values.ts';

/** The scalable task count of an ECS service, or an Auto Scaling group. */
export type ScalableWorkers = ScalableTaskCount | AutoScalingGroup;

export interface ScaleProps {
  /** The fleet whose workers these are. @default - the only fleet without a handler */
  readonly fleet?: string | undefined;
  /**
   * How long the jobs that wait may take on the slots that there are, 1 minute to 1 day. One worker is added above it, 2 above
   * twice, 5 above four times and 10 above eight times as much, and again each 3 minutes (a group: each warm-up of its own).
   * @default '2m'
   */
  readonly backlog?: DurationInput | undefined;
  /**
   * A worker is removed when no more than half of the slots were in use for this time, 5 minutes to 6 hours.
   * @default '15m'
   */
  readonly idle?: DurationInput | undefined;
}

const CHECKS: Readonly<Record<keyof ScaleProps, Check>> = {
  fleet: checkText,
  backlog: durationWithin({ least: Duration.minutes(1), most: Duration.days(1) }),
  idle: durationWithin({ least: Duration.minutes(5), most: Duration.hours(6) }),
};

/**
 * Checks the props of `scale()`.
 * @throws ConfigurationError for an unknown prop, workers that cannot be scaled, and for an impossible time
 */
export function checkScale(workers: ScalableWorkers | undefined, props: ScaleProps): void {
  objectOf(CHECKS)('', props);
  if (typeof workers?.scaleOnMetric === 'function') return;
  throw new ConfigurationError(
    'workers',
    workers,
    'must be the scalable task count of an ECS service, or an Auto Scaling group',
    'Of a service, give what autoScaleTaskCount() returns.',
  );
}

/**
 * How many workers are added at which multiples of the allowed backlog. They are numbers, not percents, because a
 * percentage of no worker is none.
 */
const STEPS = [
  { times: 1, change: 1 },
  { times: 2, change: 2 },
  { times: 4, change: 5 },
  { times: 8, change: 10 },
] as const;
/** How long a container takes to start and to register its slots. */
const COOLDOWN = Duration.minutes(3);
const HALF_PERCENT = 50;

/** Adds the policies, and the alarms that apply them. */
export function scaleWorkers(
  scheduler: SchedulerMetrics,
  workers: ScalableWorkers,
  { fleet, backlog = '2m', idle = '15m' }: ScaleProps & { readonly fleet: string },
): void {
  const allowedSec = toDuration(backlog).toSeconds();
  workers.scaleOnMetric('Backlog', {
    metric: scheduler.metricBacklogTime({ fleet }),
    scalingSteps: [
      { upper: allowedSec, change: 0 },
      ...STEPS.map(({ times, change }) => ({ lower: times * allowedSec, change })),
    ],
    cooldown: COOLDOWN,
  });
  workers.scaleOnMetric('Idle', {
    // Without data, such as from a dispatcher that reports no metrics, the alarm ends and no worker is removed: nothing may be
    // filled in. An idle fleet with workers reports 0.
    metric: scheduler.metricCapUsed({ fleet }).with({ period: Duration.minutes(1) }),
    scalingSteps: [
      { upper: HALF_PERCENT, change: -1 },
      { lower: HALF_PERCENT, change: 0 },
    ],
    evaluationPeriods: Math.ceil(toDuration(idle).toMinutes({ integral: false })),
    cooldown: COOLDOWN,
  });
}
