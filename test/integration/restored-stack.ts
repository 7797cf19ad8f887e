/** A stack on a table that is there, with what another deployment has left in it. */
import { fileURLToPath } from 'node:url';
import { type App, Duration, Stack } from 'aws-cdk-lib';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from '../../cdk/function.ts';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';

/** `<ARN of the table> <ARN of its stream>`. */
export const RESTORED_VARIABLE = 'FAIRLEAD_RESTORED_TABLE';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-restored');
  const [tableArn = '', streamArn = ''] = process.env[RESTORED_VARIABLE]?.split(' ') ?? [];
  const handler = new NodejsFunction(stack, 'Work', {
    entry: fileURLToPath(new URL('./redeploy-workers.ts', import.meta.url)),
    runtime: RUNTIME,
    memorySize: 512,
    timeout: Duration.seconds(60),
    environment: SOURCE_MAPS,
    bundling: FUNCTION_BUNDLING,
  });
  const scheduler = new Scheduler(stack, 'Jobs', {
    fleets: { printers: { types: ['print'], slots: 4, handler } },
    table: { existing: { tableArn, streamArn } },
  });
  schedulerOutputs(stack, scheduler);
  return stack;
}
