/** Rights that services need on your own key, besides the roles' grants. They are limited to this account's resources. */
import { Stack } from 'aws-cdk-lib';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';

/** Lets CloudWatch Logs encrypt log groups with the key. The policy of an imported key is left unchanged. */
export function allowLogs(scope: Construct, key: IKey): void {
  const stack = Stack.of(scope);
  key.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal(`logs.${stack.region}.${stack.urlSuffix}`)],
      actions: ['kms:Decrypt', 'kms:DescribeKey', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
      resources: ['*'],
      conditions: {
        ArnLike: {
          'kms:EncryptionContext:aws:logs:arn': stack.formatArn({ service: 'logs', resource: 'log-group:*' }),
        },
      },
    }),
  );
}

/**
 * Lets rules of the bus send to encrypted queues, and EventBridge look at the key of the bus: that call has no encryption
 * context, on which the CDK's own statement depends. The statement cannot name the rule, because key and rule would
 * depend on each other.
 */
export function allowRules(scope: Construct, key: IKey): void {
  key.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['kms:Decrypt', 'kms:DescribeKey', 'kms:GenerateDataKey'],
      resources: ['*'],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  );
}
