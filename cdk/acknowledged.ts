/**
 * Answers to the findings of cdk-nag's AwsSolutions pack, stored beside the constructs. A review of an app then shows the
 * answers instead of the findings. Nothing here depends on cdk-nag; without it, the answers are only metadata.
 */
import { Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

const ANSWERS = {
  hints: {
    id: 'AwsSolutions-SQS3',
    reason:
      'Its messages are only hints about items of the table. If one is lost, the next pass reads the items.',
  },
  sharedTls: {
    id: 'AwsSolutions-SQS4',
    reason:
      'One policy, FleetTls, requires TLS for all queues of fleets. One for each would be half of the resources that a stack may have.',
  },
  traces: {
    id: 'AwsSolutions-IAM5[Resource::*]',
    reason:
      'xray:PutTraceSegments and xray:PutTelemetryRecords support no resource: they write traces of the account.',
  },
  vpcAccess: {
    id: 'AwsSolutions-IAM5[Resource::*]',
    reason:
      'Lambda creates and deletes the network interfaces of a function in a VPC with its role. Their names are not known before, and the actions that describe them support no resource.',
  },
} as const;

export function acknowledge(construct: IConstruct, ...answers: readonly (keyof typeof ANSWERS)[]): void {
  Validations.of(construct).acknowledge(...answers.map((answer) => ANSWERS[answer]));
}
