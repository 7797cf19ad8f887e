/** Numbers that AWS bounds, checked before anything is made. */
import { Token } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { readObject } from '../lib/core/read-fields.ts';
import type { SchedulerProps } from './props.ts';

/** A tick, five batches of wakes, which is what Lambda begins with, and as many shards as a new table's stream has. */
const RESERVED_FOR_DISPATCH = 10;

/** Partitions that functions may lead at once: where nothing is said of it, and where nothing is reserved. Each takes an invocation. */
const LED_MAX = { byDefault: 32, unreserved: 2 } as const;

/** Batches of wakes at once where nothing else bounds them, or leaves no room for the tick beside them. */
const WAKE_BATCHES_MAX = 2;

/** For apps whose account has nothing to reserve: a new one has a quota of 10. */
const RESERVED_CONTEXT = 'fairlead:reservedConcurrency';

/** @throws ConfigurationError for a number that cannot be, or a field that is not there */
export function checkLimits(props: SchedulerProps): void {
  const { ingestBatchingWindow: window } = props;
  const isFilled = window !== undefined && (window.isUnresolved() || window.toMilliseconds() > 0);
  checkCount('ingestBatchSize', props.ingestBatchSize, 1, isFilled ? 100 : 10);
  checkCount('ingestConcurrency', props.ingestConcurrency, 2, 1_000);
  checkCount('maxReceiveCount', props.maxReceiveCount, 1, 1_000);
  const { reservedConcurrency: reserved } = props;
  if (reserved === undefined || reserved === 'none') return;
  readObject('reservedConcurrency', reserved, ['dispatch', 'ingest']);
  // Without one invocation no tick runs; the wakes' event source alone has two then.
  checkCount('reservedConcurrency.dispatch', reserved.dispatch, 3, 1_000);
  checkCount('reservedConcurrency.ingest', reserved.ingest, 1, 1_000);
}

/** What is taken out of the account's concurrency for each of the two; undefined: nothing. */
export function reservedConcurrencyOf(
  scope: Construct,
  given: SchedulerProps['reservedConcurrency'],
  partitions: number,
): { readonly dispatch: number | undefined; readonly ingest: number | undefined } {
  const chosen = given ?? (scope.node.tryGetContext(RESERVED_CONTEXT) === 'none' ? 'none' : {});
  if (chosen === 'none') return { dispatch: undefined, ingest: undefined };
  const byDefault = RESERVED_FOR_DISPATCH + Math.min(partitions, LED_MAX.byDefault);
  return { dispatch: chosen.dispatch ?? byDefault, ingest: chosen.ingest };
}

/**
 * The bound of the wake queue's event source; undefined: none, because what is reserved for the function bounds it, and has room
 * for the tick. Without one Lambda asks an idle queue less often.
 */
export function wakeBatchesAtOnce(reservedForDispatch: number | undefined): number | undefined {
  return (reservedForDispatch ?? 0) < RESERVED_FOR_DISPATCH ? WAKE_BATCHES_MAX : undefined;
}

/** Partitions that functions may lead at once: each has an invocation for as long as much goes on there, beside all the others. */
export function ledPartitions(reservedForDispatch: number | undefined): number {
  return reservedForDispatch === undefined
    ? LED_MAX.unreserved
    : Math.max(0, reservedForDispatch - RESERVED_FOR_DISPATCH);
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

/** @throws ConfigurationError for a part of a network without the network: it would be left out in silence */
export function checkNetwork({ vpc, vpcSubnets, securityGroups }: SchedulerProps): void {
  if (vpc !== undefined) return;
  for (const [field, value] of Object.entries({ vpcSubnets, securityGroups })) {
    if (value === undefined) continue;
    throw new ConfigurationError(
      field,
      value,
      'says where in a network the functions stand, but there is none',
      `Give vpc, or leave ${field} out.`,
    );
  }
}
