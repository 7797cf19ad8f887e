/** The stack of `redeploy-steps.ts`, in the state that the environment names. */
import { fileURLToPath } from 'node:url';
import { type App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from '../../cdk/function.ts';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { STEP_VARIABLE, stateAfter } from './redeploy-steps.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const { handler, fleets, more, isWatched, ...pool } = stateAfter(Number(process.env[STEP_VARIABLE]));
  const stack = new Stack(app, 'fairlead-steps');
  const scheduler = new Scheduler(stack, 'Jobs', {
    ...pool,
    ...more,
    fleets: Object.fromEntries(
      Object.entries(fleets).map(([fleet, props]) => {
        if (props.slots === undefined) return [fleet, props];
        // A function each: one may not stand behind two fleets.
        const lambda = new NodejsFunction(stack, `Work-${fleet}`, {
          entry: fileURLToPath(new URL('./redeploy-workers.ts', import.meta.url)),
          runtime: RUNTIME,
          memorySize: handler.memorySize,
          timeout: Duration.seconds(handler.timeoutSec),
          environment: { ...SOURCE_MAPS, EDITION: handler.edition },
          bundling: FUNCTION_BUNDLING,
        });
        return [fleet, { ...props, handler: lambda }];
      }),
    ),
    removalPolicy: RemovalPolicy.DESTROY,
    queueRemovalPolicy: RemovalPolicy.RETAIN,
  });
  if (isWatched) scheduler.dashboard();
  schedulerOutputs(stack, scheduler);
  return stack;
}
