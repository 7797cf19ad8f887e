/** For a stack's owner: what a person or a script needs to reach a deployed scheduler. */
import { CfnOutput, Lazy } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

/** Of a scheduler, as far as outputs tell of it. */
export interface Addressed {
  readonly table: { readonly tableName: string };
  readonly bus: { readonly eventBusName: string };
  readonly wakeQueue: { readonly queueUrl: string };
  readonly wakeFunctionArn: string;
  readonly fleets: Readonly<
    Record<string, { readonly fleet: string; readonly queue: { readonly queueUrl: string } }>
  >;
}

/** CloudFormation takes 4,096 bytes; where the names are longer, the output is `null`, and `fairlead env` takes any. */
const OUTPUT_BYTES_MAX = 4_000;

/** `TableName`, `BusName`, `WakeQueueUrl`, `WakeFunctionArn` and `FleetNames`: what `fairlead env` reads. The construct has them itself, under its own path. */
export function addressOutputs(scope: Construct, scheduler: Addressed): void {
  new CfnOutput(scope, 'TableName', { value: scheduler.table.tableName });
  new CfnOutput(scope, 'BusName', { value: scheduler.bus.eventBusName });
  new CfnOutput(scope, 'WakeQueueUrl', { value: scheduler.wakeQueue.queueUrl });
  new CfnOutput(scope, 'WakeFunctionArn', { value: scheduler.wakeFunctionArn });
  new CfnOutput(scope, 'FleetNames', { value: Lazy.string({ produce: () => fleetNames(scheduler) }) });
}

/** As they are once all are declared. */
function fleetNames({ fleets }: Addressed): string {
  const names = JSON.stringify(Object.values(fleets).map(({ fleet }) => fleet));
  return Buffer.byteLength(names) <= OUTPUT_BYTES_MAX ? names : 'null';
}

/** The same under short names of the stack's own, and for each fleet `<Fleet>QueueUrl`, its name in Pascal case. */
export function schedulerOutputs(scope: Construct, scheduler: Addressed): void {
  addressOutputs(scope, scheduler);
  for (const { fleet, queue } of Object.values(scheduler.fleets)) {
    new CfnOutput(scope, queueUrlOutput(fleet), { value: queue.queueUrl });
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
