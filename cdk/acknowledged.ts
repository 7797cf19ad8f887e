/**
 * Answers to the findings of cdk-nag's AwsSolutions pack, stored beside the constructs. A review of an app then shows
 * the
 * answers instead of the findings. Nothing here depends on cdk-nag; without it, the answers are only metadata.
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
