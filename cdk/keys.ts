/** What a key of one's own must allow, beside what roles are granted: to services, and for this account's resources only. */
import { Stack } from 'aws-cdk-lib';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';

/** Log groups are encrypted by CloudWatch Logs itself, which the key's policy must know. A key that is only referred to is left alone. */
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

/** A rule of the bus sends to queues that the key encrypts. Which one cannot be said: the key would wait for the rule, which waits for it. */
export function allowRules(scope: Construct, key: IKey): void {
  key.addToResourcePolicy(
    new PolicyStatement({
      principals: [new ServicePrincipal('events.amazonaws.com')],
      actions: ['kms:Decrypt', 'kms:GenerateDataKey'],
      resources: ['*'],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(scope).account } },
    }),
  );
}
