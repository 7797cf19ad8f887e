/** Outputs of a stack that people and scripts need to reach a deployed scheduler. */
import { CfnOutput, Lazy } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

/** The parts of a scheduler that the outputs name. */
export interface Addressed {
  readonly table: { readonly tableName: string };
  readonly bus: { readonly eventBusName: string };
  readonly wakeQueue: { readonly queueUrl: string };
  readonly wakeFunctionArn: string;
  readonly fleets: Readonly<
    Record<string, { readonly fleet: string; readonly queue: { readonly queueUrl: string } }>
  >;
}

/** CloudFormation allows 4,096 bytes. With longer names the output is `null`, and `fairlead env` accepts any name. */
const OUTPUT_BYTES_MAX = 4_000;

/**
 * Adds the outputs `TableName`, `BusName`, `WakeQueueUrl`, `WakeFunctionArn` and `FleetNames`, which `fairlead env`
 * reads. The construct adds them under its own path.
 */
export function addressOutputs(scope: Construct, scheduler: Addressed): void {
  new CfnOutput(scope, 'TableName', { value: scheduler.table.tableName });
  new CfnOutput(scope, 'BusName', { value: scheduler.bus.eventBusName });
  new CfnOutput(scope, 'WakeQueueUrl', { value: scheduler.wakeQueue.queueUrl });
  new CfnOutput(scope, 'WakeFunctionArn', { value: scheduler.wakeFunctionArn });
  new CfnOutput(scope, 'FleetNames', { value: Lazy.string({ produce: () => fleetNames(scheduler) }) });
}

/** Called when all fleets are declared. */
function fleetNames({ fleets }: Addressed): string {
  const names = JSON.stringify(Object.values(fleets).map(({ fleet }) => fleet));
  return Buffer.byteLength(names) <= OUTPUT_BYTES_MAX ? names : 'null';
}

/** Adds the same outputs under short names of the stack, and `<Fleet>QueueUrl` for each fleet, with its name in Pascal case. */
export function schedulerOutputs(scope: Construct, scheduler: Addressed): void {
  addressOutputs(scope, scheduler);
  for (const { fleet, queue } of Object.values(scheduler.fleets)) {
    new CfnOutput(scope, queueUrlOutput(fleet), { value: queue.queueUrl });
  }
}

/** The name of the output for a fleet's queue: `images` → `ImagesQueueUrl`. Output names have only letters and digits. */
export function queueUrlOutput(fleet: string): string {
  const pascal = fleet
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
  return `${pascal}QueueUrl`;
}
