/** Outputs of a stack that people and scripts need to reach a deployed scheduler. */
import { CfnOutput, Lazy } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { API_ROLES, type ApiRole } from '../lib/core/api-roles.ts';

/** The parts of a scheduler that the outputs name. */
export interface Addressed {
  readonly table: { readonly tableName: string };
  readonly bus: { readonly eventBusName: string };
  readonly wakeQueue: { readonly queueUrl: string };
  readonly wakeFunctionArn: string;
  /** The HTTP protocol; undefined: the scheduler has none. */
  readonly api: { readonly url: (role: ApiRole) => string } | undefined;
  readonly fleets: Readonly<
    Record<string, { readonly fleet: string; readonly queue: { readonly queueUrl: string } }>
  >;
}

/**
 * The most bytes of the output with the fleets' names, of which CloudFormation allows 4,096. If the names are longer,
 * the output is `null`, and `fairlead env` accepts any name.
 */
const OUTPUT_BYTES_MAX = 4_000;

const API_OUTPUTS: Readonly<Record<ApiRole, string>> = {
  read: 'ApiUrlRead',
  submit: 'ApiUrlSubmit',
  operate: 'ApiUrlOperate',
};

/**
 * Adds the outputs `TableName`, `BusName`, `WakeQueueUrl`, `WakeFunctionArn` and `FleetNames`, which `fairlead env`
 * reads. A scheduler with `api: true` also has `ApiUrlRead`, `ApiUrlSubmit` and
 * `ApiUrlOperate`. The construct adds them under its own path.
 */
export function addressOutputs(scope: Construct, scheduler: Addressed): void {
  new CfnOutput(scope, 'TableName', { value: scheduler.table.tableName });
  new CfnOutput(scope, 'BusName', { value: scheduler.bus.eventBusName });
  new CfnOutput(scope, 'WakeQueueUrl', { value: scheduler.wakeQueue.queueUrl });
  new CfnOutput(scope, 'WakeFunctionArn', { value: scheduler.wakeFunctionArn });
  new CfnOutput(scope, 'FleetNames', { value: Lazy.string({ produce: () => fleetNames(scheduler) }) });
  const { api } = scheduler;
  if (api === undefined) return;
  for (const role of API_ROLES)
    new CfnOutput(scope, API_OUTPUTS[role], {
      value: api.url(role),
      description: `FAIRLEAD_URL for callers of the role ${role}; ./openapi.json describes it`,
    });
}

/** Returns the names of the fleets as JSON. It is called when all fleets are declared. */
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

/**
 * Returns the name of the output for a fleet's queue: `images` → `ImagesQueueUrl`. Output names have only letters and
 * digits.
 */
export function queueUrlOutput(fleet: string): string {
  const pascal = fleet
    .split(/[^A-Za-z0-9]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');
  return `${pascal}QueueUrl`;
}
