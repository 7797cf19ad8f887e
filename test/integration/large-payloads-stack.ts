/** A scheduler whose jobs may have values over 64 KB, with a function that gives them back. */
import { fileURLToPath } from 'node:url';
import { type App, CfnOutput, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { LARGE_POOL } from './pool.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-large-payloads');
  const entry = fileURLToPath(new URL('./large-workers.ts', import.meta.url));
  const scheduler = new Scheduler(stack, 'Jobs', {
    ...LARGE_POOL,
    fleets: {
      ...LARGE_POOL.fleets,
      echoes: { types: ['echo'], slots: 4, handler: new WorkerFunction(stack, 'Echoes', { entry }) },
    },
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);
  new CfnOutput(stack, 'BucketName', { value: scheduler.bucket?.bucketName ?? '' });
  return stack;
}
