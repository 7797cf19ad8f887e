/** A queue that hears of the ends of an example's jobs. */
import { CfnOutput, type Stack } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Scheduler } from '../cdk/scheduler.ts';
import { DETAIL_TYPE } from '../lib/events/contract.ts';

/** Adds the queue, the rule that fills it, and the output `EndedQueueUrl`. */
export function addEndedQueue(stack: Stack, scheduler: Scheduler): void {
  const ended = new Queue(stack, 'Ended');
  new Rule(stack, 'Told', {
    eventBus: scheduler.bus,
    eventPattern: { detailType: [DETAIL_TYPE.succeeded, DETAIL_TYPE.failed] },
    targets: [new SqsQueue(ended)],
  });
  new CfnOutput(stack, 'EndedQueueUrl', { value: ended.queueUrl });
}
