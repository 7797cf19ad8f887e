/** The largest pool that is promised: 200 fleets of processes, 1,000 types. */
import { type App, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { addressOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { MANY_FLEETS } from './many-fleets.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-many-fleets');
  const scheduler = new Scheduler(stack, 'Jobs', {
    ...MANY_FLEETS,
    removalPolicy: RemovalPolicy.DESTROY,
    queueRemovalPolicy: RemovalPolicy.DESTROY,
  });
  addressOutputs(stack, scheduler);
  return stack;
}
