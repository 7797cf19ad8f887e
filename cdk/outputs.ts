/** For a stack's owner: what a person or a script needs to reach a deployed scheduler. */
import { CfnOutput, type Stack } from 'aws-cdk-lib';
import type { Scheduler } from './scheduler.ts';

/** `TableName`, `BusName`, `WakeQueueUrl`, and for each fleet `<Fleet>QueueUrl`, its name in Pascal case. */
export function schedulerOutputs(stack: Stack, scheduler: Scheduler): void {
  new CfnOutput(stack, 'TableName', { value: scheduler.table.tableName });
  new CfnOutput(stack, 'BusName', { value: scheduler.bus.eventBusName });
  new CfnOutput(stack, 'WakeQueueUrl', { value: scheduler.wakeQueue.queueUrl });
  for (const { fleet, queue } of Object.values(scheduler.fleets)) {
    new CfnOutput(stack, queueUrlOutput(fleet), { value: queue.queueUrl });
  }
}

/** The output that holds a fleet's queue: `images` → `ImagesQueueUrl`. Outputs are named with letters and digits only. */
export function queueUrlOutput(fleet: string): string {
  const pascal = fleet
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
  return `${pascal}QueueUrl`;
}
