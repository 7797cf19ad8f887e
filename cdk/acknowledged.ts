/**
 * What a review with cdk-nag's AwsSolutions pack asks about, answered beside the construct: whoever runs it over an app
 * sees the answers, not the questions. Nothing here depends on cdk-nag; without it, these are metadata.
 */
import { Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

const ANSWERS = {
  hints: {
    id: 'AwsSolutions-SQS3',
    reason:
      'Its messages only hint at what the items of the table say: what is lost with one is found by the next look at them.',
  },
  sharedTls: {
    id: 'AwsSolutions-SQS4',
    reason:
      'One policy, FleetTls, refuses what does not come over TLS for all queues of fleets: one for each would be half of what a stack may hold.',
  },
  traces: {
    id: 'AwsSolutions-IAM5[Resource::*]',
    reason:
      'xray:PutTraceSegments and xray:PutTelemetryRecords know no resource: they write traces of the account.',
  },
  vpcAccess: {
    id: 'AwsSolutions-IAM5[Resource::*]',
    reason:
      'Lambda makes and removes the network interfaces of a function in a VPC with its role. Nobody knows their names before, and what describes them knows no resource.',
  },
} as const;

export function acknowledge(construct: IConstruct, ...answers: readonly (keyof typeof ANSWERS)[]): void {
  Validations.of(construct).acknowledge(...answers.map((answer) => ANSWERS[answer]));
}
