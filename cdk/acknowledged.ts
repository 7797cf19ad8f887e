/**
 * What a review with cdk-nag's AwsSolutions pack asks about, answered beside the construct: whoever runs it over an app
 * sees the answers, not the questions. Nothing here depends on cdk-nag; without it, these are metadata.
 */
import { Validations } from 'aws-cdk-lib';
import type { IConstruct } from 'constructs';

const ANSWERS = {
  lastQueue: {
    id: 'AwsSolutions-SQS3',
    reason:
      'It is a dead-letter queue: what could not be processed ends here, and an alarm of the construct tells of it.',
  },
  sharedTls: {
    id: 'AwsSolutions-SQS4',
    reason:
      'One policy, FleetTls, refuses what does not come over TLS for all queues of fleets: one for each would be half of what a stack may hold.',
  },
  streams: {
    id: 'AwsSolutions-IAM5[Resource::*]',
    reason:
      'dynamodb:ListStreams knows no resource: it lists names of streams. Reading one is granted for the one of the table.',
  },
  traces: {
    id: 'AwsSolutions-IAM5[Resource::*]',
    reason:
      'xray:PutTraceSegments and xray:PutTelemetryRecords know no resource: they write traces of the account.',
  },
  destinationKey: {
    id: 'AwsSolutions-IAM5[Action::kms:ReEncrypt*]',
    reason:
      'The CDK grants it with the right to send to an encrypted queue behind the stream: two actions, on one key.',
  },
  destinationDataKey: {
    id: 'AwsSolutions-IAM5[Action::kms:GenerateDataKey*]',
    reason:
      'The CDK grants it with the right to send to an encrypted queue behind the stream: a data key with and without its text.',
  },
  vpcAccess: {
    id: 'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole]',
    reason:
      'A function in a VPC makes and removes network interfaces, whose names nobody knows before; this is the policy that AWS keeps for it.',
  },
} as const;

export function acknowledge(construct: IConstruct, ...answers: readonly (keyof typeof ANSWERS)[]): void {
  Validations.of(construct).acknowledge(...answers.map((answer) => ANSWERS[answer]));
}
