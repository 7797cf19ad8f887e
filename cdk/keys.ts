/** What a key of one's own must allow, beside what roles are granted. */
import { Aws, Stack } from 'aws-cdk-lib';
import { ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';

/** Log groups are encrypted by CloudWatch Logs itself, which the key's policy must know. A key that is only referred to is left alone. */
export function allowLogs(scope: Construct, key: IKey): void {
  key.grantEncryptDecrypt(new ServicePrincipal(`logs.${Stack.of(scope).region}.${Aws.URL_SUFFIX}`));
}
