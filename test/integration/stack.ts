/** A small stack to see work done on: a specialised fleet and a versatile one, and a queue that hears the outcomes. */
import { fileURLToPath } from 'node:url';
import { type App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { FUNCTION_BUNDLING, RUNTIME, SOURCE_MAPS } from '../../cdk/function.ts';
import { schedulerOutputs } from '../../cdk/outputs.ts';
import { Scheduler } from '../../cdk/scheduler.ts';
import { DETAIL_TYPE } from '../../lib/events/contract.ts';
import { MAIN_PATH_FLEETS, MAIN_PATH_JOBS, MAIN_PATH_TYPES } from './pool.ts';

/** Called by `cdk/app.ts`. */
export function addStack(app: App): Stack {
  const stack = new Stack(app, 'fairlead-main-path');
  const work = (id: string): NodejsFunction =>
    new NodejsFunction(stack, id, {
      entry: fileURLToPath(new URL('./workers.ts', import.meta.url)),
      runtime: RUNTIME,
      memorySize: 512,
      timeout: Duration.seconds(20),
      environment: SOURCE_MAPS,
      bundling: FUNCTION_BUNDLING,
    });
  const scheduler = new Scheduler(stack, 'Jobs', {
    jobs: MAIN_PATH_JOBS,
    types: MAIN_PATH_TYPES,
    fleets: {
      echoes: { ...MAIN_PATH_FLEETS.echoes, handler: work('Echoes') },
      general: { ...MAIN_PATH_FLEETS.general, handler: work('General') },
    },
    removalPolicy: RemovalPolicy.DESTROY,
  });
  schedulerOutputs(stack, scheduler);

  const outcomes = new Queue(stack, 'Outcomes');
  new Rule(stack, 'Told', {
    eventBus: scheduler.bus,
    eventPattern: { detailType: [DETAIL_TYPE.succeeded, DETAIL_TYPE.failed, DETAIL_TYPE.rejected] },
    targets: [new SqsQueue(outcomes)],
  });
  const outputs = {
    OutcomesQueueUrl: outcomes.queueUrl,
    IngestQueueUrl: scheduler.ingestQueue.queueUrl,
    DispatchFunctionName: scheduler.dispatchFunction.functionName,
    ...Object.fromEntries(
      Object.values(scheduler.deadLetterQueues).map(({ queueUrl }, at) => [
        `DeadLetters${at}QueueUrl`,
        queueUrl,
      ]),
    ),
  };
  for (const [name, value] of Object.entries(outputs)) new CfnOutput(stack, name, { value });
  return stack;
}
