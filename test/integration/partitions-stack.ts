/** A stack with one fleet of worker processes, deployed again and again with another number of partitions. */
import { type App, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { PARTITIONS_VARIABLE, partitionsPool } from './partitions-pool.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-partitions');
  const pool = partitionsPool(Number(process.env[PARTITIONS_VARIABLE]));
  const scheduler = new Scheduler(stack, 'Jobs', { ...pool, removalPolicy: RemovalPolicy.DESTROY });
  schedulerOutputs(stack, scheduler);
  return stack;
}
