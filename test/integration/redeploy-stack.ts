/** A stack that is deployed again and again, each time with another declaration. */
import { fileURLToPath } from 'node:url';
import { type App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from '../../cdk/function.ts';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { REDEPLOY_VARIABLE, redeployPool } from './redeploy-pools.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-redeploy');
  const handler = new NodejsFunction(stack, 'Work', {
    entry: fileURLToPath(new URL('./redeploy-workers.ts', import.meta.url)),
    runtime: RUNTIME,
    memorySize: 512,
    timeout: Duration.seconds(240),
    environment: SOURCE_MAPS,
    bundling: FUNCTION_BUNDLING,
  });
  const { fleets, ...pool } = redeployPool(process.env[REDEPLOY_VARIABLE]);
  const scheduler = new Scheduler(stack, 'Jobs', {
    ...pool,
    fleets: Object.fromEntries(
      Object.entries(fleets).map(([fleet, props]) => [
        fleet,
        props.slots === undefined ? props : { ...props, handler },
      ]),
    ),
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);
  return stack;
}
