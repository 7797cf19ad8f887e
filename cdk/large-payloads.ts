/** The bucket for values over 64 KB, and the function that deletes objects whose job is gone. */
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { ITableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Rule, Schedule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import {
  BlockPublicAccess,
  Bucket,
  BucketEncryption,
  type IBucket,
  ObjectOwnership,
} from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { acknowledge } from './acknowledged.ts';
import { type FunctionSettings, schedulerFunction } from './function.ts';
import type { SchedulerGrants } from './grants.ts';

export interface LargePayloadsBucketProps {
  readonly existing?: IBucket | undefined;
  /** @default RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE */
  readonly removalPolicy?: RemovalPolicy | undefined;
  readonly encryptionKey?: IKey | undefined;
}

/** The bucket. It has no lifecycle rule: the age of an object says nothing about whether its job still waits. */
export function largePayloadsBucket(
  scope: Construct,
  id: string,
  { existing, removalPolicy, encryptionKey }: LargePayloadsBucketProps,
): IBucket {
  if (existing !== undefined) return existing;
  const bucket = new Bucket(scope, id, {
    ...(encryptionKey === undefined
      ? { encryption: BucketEncryption.S3_MANAGED }
      : { encryption: BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }),
    blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
    objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
    enforceSSL: true,
    versioned: false,
    removalPolicy: removalPolicy ?? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  });
  acknowledge(bucket, 'objectLogs');
  // The types of aws-cdk-lib are looser than ours about absent properties.
  return bucket as IBucket;
}

export interface ObjectCollectorProps {
  readonly table: ITableV2;
  readonly grants: SchedulerGrants;
  readonly functions: FunctionSettings;
  readonly logGroup?: ILogGroup | undefined;
}

/** Runs once a day. What a run does not reach is left to later ones. */
export class ObjectCollector extends Construct {
  readonly function: NodejsFunction;

  constructor(scope: Construct, id: string, props: ObjectCollectorProps) {
    super(scope, id);
    this.function = schedulerFunction(this, 'Function', {
      ...props.functions,
      entry: 'collect',
      description: 'Deletes objects of large payloads whose job is gone',
      timeout: Duration.minutes(15),
      memorySizeMb: 512,
      usesObjects: true,
      logGroup: props.logGroup,
      // The next day's run does the work of a failed one.
      retryAttempts: 0,
    });
    this.function.addEnvironment('FAIRLEAD_TABLE', props.table.tableName);
    props.grants.table(this.function, 'collect');
    new Rule(this, 'Daily', {
      description: 'Collects objects of large payloads whose job is gone',
      schedule: Schedule.rate(Duration.days(1)),
      targets: [new LambdaFunction(this.function, { retryAttempts: 2 })],
    });
  }
}
