/** One type with a cap, one fleet, and a queue that hears what became of the jobs. */
import { fileURLToPath } from 'node:url';
import { type App, CfnOutput, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { WorkerFunction } from '../../cdk/worker-function.ts';
import { DETAIL_TYPE } from '../../lib/events/contract.ts';
import { POOL } from './pool.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-flood');
  const handler = new WorkerFunction(stack, 'Render', {
    entry: fileURLToPath(new URL('./worker.ts', import.meta.url)),
  });
  const scheduler = new Scheduler(stack, 'Jobs', {
    ...POOL,
    // On AWS the slots are enough; the emulator runs five invocations of a queue at once unless it is told.
    fleets: { renderers: { ...POOL.fleets.renderers, handler, maxConcurrency: POOL.fleets.renderers.slots } },
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);
  const ended = new Queue(stack, 'Ended');
  new Rule(stack, 'Told', {
    eventBus: scheduler.bus,
    eventPattern: { detailType: [DETAIL_TYPE.succeeded, DETAIL_TYPE.failed] },
    targets: [new SqsQueue(ended)],
  });
  new CfnOutput(stack, 'EndedQueueUrl', { value: ended.queueUrl });
  return stack;
}
