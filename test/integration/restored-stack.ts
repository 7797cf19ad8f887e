/** A stack with a table of its own, or, if a variable names one, on a table that holds what another stack has left. */
import { fileURLToPath } from 'node:url';
import { type App, Duration, Stack } from 'aws-cdk-lib';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from '../../cdk/function.ts';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';

/** `<ARN of the table> <ARN of its stream>`. */
export const RESTORED_VARIABLE = 'FAIRLEAD_RESTORED_TABLE';
export const RESTORED_TYPES = {
  print: { timeoutMs: 20_000, maxConcurrency: 2, conflictGroup: 'pages' },
} as const;

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const [tableArn = '', streamArn = ''] = process.env[RESTORED_VARIABLE]?.split(' ') ?? [];
  const stack = new Stack(app, tableArn === '' ? 'fairlead-left' : 'fairlead-restored');
  const handler = new NodejsFunction(stack, 'Work', {
    entry: fileURLToPath(new URL('./redeploy-workers.ts', import.meta.url)),
    runtime: RUNTIME,
    memorySize: 512,
    timeout: Duration.seconds(60),
    environment: SOURCE_MAPS,
    bundling: FUNCTION_BUNDLING,
  });
  const scheduler = new Scheduler(stack, 'Jobs', {
    types: RESTORED_TYPES,
    fleets: { printers: { types: ['print'], slots: 4, handler } },
    ...(tableArn === '' ? {} : { table: { existing: { tableArn, streamArn } } }),
  });
  schedulerOutputs(stack, scheduler);
  return stack;
}
