/** Checks numbers against AWS's limits, before any resource is created. */

import { Token } from 'aws-cdk-lib';
import { ConfigurationError } from '../lib/core/errors.ts';
import { LED_PARTITIONS_MAX } from '../lib/core/partition.ts';
import { readObject } from '../lib/core/read-fields.ts';
import type { SchedulerProps } from './props.ts';
import { toDuration } from './values.ts';

/**
 * The invocations of the dispatch function besides its leads: the five batches of wakes that Lambda begins with, the
 * tick, and a shard of the stream.
 */
const RESERVED_BESIDE_LEADS = 7;
/** The least number of receives: Lambda's advice for queues with a function, because each receive that is throttled counts. */
const RECEIVED_LEAST = 5;
/** The most ingest invocations at once, unless the app says otherwise. */
export const INGEST_CONCURRENCY = 5;

/**
 * Checks the numbers among the props.
 * @throws ConfigurationError for an impossible number, and for an unknown field
 */
export function checkLimits(props: SchedulerProps): void {
  const window =
    props.ingestBatchingWindow === undefined ? undefined : toDuration(props.ingestBatchingWindow);
  const isFilled = window !== undefined && (window.isUnresolved() || window.toMilliseconds() > 0);
  checkCount('ingestBatchSize', props.ingestBatchSize, 1, isFilled ? 100 : 10);
  checkCount('ingestConcurrency', props.ingestConcurrency, 2, 1_000);
  checkCount('maxReceiveCount', props.maxReceiveCount, RECEIVED_LEAST, 1_000);
  const { reservedConcurrency: reserved, partitions = 1, ingestConcurrency = INGEST_CONCURRENCY } = props;
  if (reserved === undefined) return;
  readObject('reservedConcurrency', reserved, ['dispatch', 'ingest', 'api']);
  const least = RESERVED_BESIDE_LEADS + Math.min(partitions, LED_PARTITIONS_MAX);
  checkCount('reservedConcurrency.dispatch', reserved.dispatch, least, 1_000);
  if (reserved.api !== undefined && props.api !== true)
    throw new ConfigurationError(
      'reservedConcurrency.api',
      reserved.api,
      'has no effect without api',
      'Set api: true, or leave reservedConcurrency.api out.',
    );
  checkCount('reservedConcurrency.api', reserved.api, 1, 1_000);
  // With less than its event source may use, invocations are throttled, and events become dead letters.
  const most = Token.isUnresolved(ingestConcurrency) ? 1 : ingestConcurrency;
  checkCount(
    'reservedConcurrency.ingest',
    reserved.ingest,
    most,
    1_000,
    'Give at least ingestConcurrency, or lower that.',
  );
}

function checkCount(
  prop: string,
  value: number | undefined,
  min: number,
  max: number,
  wayOut = 'Leave it out for the default.',
): void {
  if (value === undefined || Token.isUnresolved(value)) return;
  if (Number.isInteger(value) && value >= min && value <= max) return;
  throw new ConfigurationError(prop, value, `must be a whole number from ${min} to ${max}`, wayOut);
}

/**
 * Checks the network.
 * @throws ConfigurationError for subnets or security groups without a VPC, which would have no effect
 */
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
