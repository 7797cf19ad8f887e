/**
 * Answers to the findings of cdk-nag's AwsSolutions pack, stored beside the constructs. A review of an app then shows the
 * answers instead of the findings. Nothing here depends on cdk-nag; without it, the answers are only metadata.
 */
import { Stack, Validations } from 'aws-cdk-lib';
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Construct, type IConstruct } from 'constructs';

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
  objectLogs: {
    id: 'AwsSolutions-S1',
    reason:
      'Only roles of the scheduler read and write its objects, a few for each job. CloudTrail records data events where an audit needs them.',
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

/** Answers for a role that is granted objects under a prefix of a bucket. */
export function acknowledgeObjects({ grantPrincipal }: IGrantable, bucketArn: string, prefix: string): void {
  if (!Construct.isConstruct(grantPrincipal)) return;
  const arn = flattened(Stack.of(grantPrincipal).resolve(bucketArn));
  Validations.of(grantPrincipal).acknowledge({
    id: `AwsSolutions-IAM5[Resource::${arn}/${prefix}/*]`,
    reason:
      'The bucket has nothing but values of jobs, whose keys are not known before. The prefix tells what producers put from what workers put.',
  });
}

/** A value of CloudFormation as cdk-nag writes it. */
function flattened(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  const {
    'Fn::GetAtt': attribute,
    'Fn::Join': joined,
    Ref: name,
  } = value as Readonly<Record<string, unknown>>;
  if (Array.isArray(attribute)) return `<${attribute.join('.')}>`;
  if (Array.isArray(joined)) return (joined[1] as readonly unknown[]).map(flattened).join(String(joined[0]));
  return `<${String(name)}>`;
}
