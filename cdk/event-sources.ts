/**
 * Event sources of functions: queues, and the stream of the table. They equal those of aws-cdk-lib, except that their ids
 * contain the name of the stack instead of its id. If the id changed, CloudFormation would create a second mapping of the
 * same source and function before it removes the first, which Lambda refuses. So a stack could neither get another id nor
 * move into a stage.
 */
import { Annotations } from 'aws-cdk-lib';
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { EventSourceMappingOptions, IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { uniqueId } from './names.ts';

type Options = Omit<EventSourceMappingOptions, 'eventSourceArn' | 'reportBatchItemFailures'>;

/** Invokes the function for messages of the queue, and lets it receive them. */
export function consumeQueue(lambda: IFunction, queue: IQueue, options: Options): void {
  lambda.addEventSourceMapping(`SqsEventSource:${uniqueId(queue)}`, {
    ...options,
    eventSourceArn: queue.queueArn,
    reportBatchItemFailures: true,
  });
  if (lambda.role !== undefined) {
    queue.grantConsumeMessages(lambda);
    return;
  }
  Annotations.of(lambda).addWarningV2(
    'fairlead:handler-role',
    `The role of ${lambda.node.path} is not known in this app, so the rights to start and finish jobs, and to receive from ${queue.node.path}, cannot be granted here: import the function with its role (fromFunctionAttributes), or grant them in the app that creates it.`,
  );
}

/** Invokes the function for changes of the table. */
export function consumeStream(lambda: IFunction, table: ITableV2, options: Options): void {
  lambda.addEventSourceMapping(`DynamoDBEventSource:${uniqueId(table)}`, {
    ...options,
    ...(table.tableStreamArn === undefined ? {} : { eventSourceArn: table.tableStreamArn }),
    reportBatchItemFailures: true,
  });
  table.grantStreamRead(lambda);
}
