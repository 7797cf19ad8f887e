/** Checks numbers against AWS's limits, before any resource is created. */

import { Token } from 'aws-cdk-lib';
import { ConfigurationError } from '../lib/core/errors.ts';
import { LED_PARTITIONS_MAX } from '../lib/core/partition.ts';
import { readObject } from '../lib/core/read-fields.ts';
import type { SchedulerProps } from './props.ts';
import { toDuration } from './values.ts';

/** Invocations of the dispatch function besides its leads: two batches of wakes, the tick, and a shard of the stream. */
const RESERVED_BESIDE_LEADS = 4;

/** @throws ConfigurationError for an impossible number, and for an unknown field */
export function checkLimits(props: SchedulerProps): void {
  const window =
    props.ingestBatchingWindow === undefined ? undefined : toDuration(props.ingestBatchingWindow);
  const isFilled = window !== undefined && (window.isUnresolved() || window.toMilliseconds() > 0);
  checkCount('ingestBatchSize', props.ingestBatchSize, 1, isFilled ? 100 : 10);
  checkCount('ingestConcurrency', props.ingestConcurrency, 2, 1_000);
  checkCount('maxReceiveCount', props.maxReceiveCount, 1, 1_000);
  const { reservedConcurrency: reserved, partitions = 1 } = props;
  if (reserved === undefined) return;
  readObject('reservedConcurrency', reserved, ['dispatch', 'ingest']);
  const least = RESERVED_BESIDE_LEADS + Math.min(partitions, LED_PARTITIONS_MAX);
  checkCount('reservedConcurrency.dispatch', reserved.dispatch, least, 1_000);
  checkCount('reservedConcurrency.ingest', reserved.ingest, 1, 1_000);
}

function checkCount(prop: string, value: number | undefined, min: number, max: number): void {
  if (value === undefined || Token.isUnresolved(value)) return;
  if (Number.isInteger(value) && value >= min && value <= max) return;
  throw new ConfigurationError(
    prop,
    value,
    `must be a whole number from ${min} to ${max}`,
    'Leave it out for the default.',
  );
}

/** @throws ConfigurationError for subnets or security groups without a VPC, which would have no effect */
export function checkNetwork({ vpc, vpcSubnets, securityGroups }: SchedulerProps): void {
  if (vpc !== undefined) return;
  for (const [field, value] of Object.entries({ vpcSubnets, securityGroups })) {
    if (value === undefined) continue;
    throw new ConfigurationError(
      field,
      value,
      'has no effect without vpc',
      `Give vpc, or leave ${field} out.`,
    );
  }
}
