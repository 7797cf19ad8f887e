/** The props of a `Scheduler`. */

import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { IManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { type Architecture, Tracing } from 'aws-cdk-lib/aws-lambda';
import { type ILogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { DurationInput } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import type { JobTypeInput, PoolInput } from '../lib/core/pool-input.ts';
import { type Check, isBoolean, objectOf, recordOf } from '../lib/core/read-fields.ts';
import type { AnyJobDefinition } from '../lib/jobs/jobs.ts';
import type { FinerScope, MetricOnRequest } from '../lib/metrics/names.ts';
import type { ScheduleRequest } from '../lib/schedules/request.ts';
import type { FleetProps } from './fleet.ts';
import type { TableOptions } from './table.ts';
import { checkedElsewhere, checkText, durationWithin, having, listOf, oneOf } from './values.ts';
import { checkSubnets } from './worker-function-props.ts';

/** Settings of job types by name. */
export type SettingsByName<Named extends string> = { readonly [Name in Named]?: JobTypeInput };

/** A schedule of one of these types. */
export type ScheduleOf<Type extends string> = ScheduleRequest & { readonly type: Type };

/** The names of the types that a scheduler knows: any name, if it names none. */
export type NamesOr<Named extends string> = [Named] extends [never] ? string : Named;

/** The props of a `Scheduler`. Each is optional; an unknown prop is refused with a `ConfigurationError`. */
export interface SchedulerProps<Named extends string = string, Type extends string = Named>
  extends Omit<PoolInput, 'types' | 'fleets'> {
  /**
   * The declared jobs, from `defineJobs` of fairlead/jobs. Each is a type of this scheduler; `types` are their settings by
   * name, and fleets and schedules may name only these, which TypeScript checks too. `fairlead types --json` shows the JSON Schemas of
   * their payloads.
   * @default - `types` declares the types
   */
  readonly jobs?: Readonly<Record<Type, AnyJobDefinition>> | undefined;
  /**
   * Job types by name, at most 1,000; with `jobs`, settings of declared types. If types are given, fleets may name only
   * these types, which TypeScript checks too.
   * @default - the types of `jobs`, or those that fleets name, each with its defaults; one type `default` if there is no
   * fleet either. A type without a timeout gets the longest that the handlers of its fleets can keep
   */
  readonly types?: SettingsByName<Named> | undefined;
  /**
   * Fleets by name, at most 1,000; `addFleet` adds more. A type without a fleet gets one of its own, served by
   * long-running processes.
   * @default - none
   */
  readonly fleets?: Readonly<Record<string, FleetProps<NoInfer<Type>>>> | undefined;

  /**
   * Schedules by name. This stack's deployments create, change and remove exactly these; see docs/schedules.md.
   * @default - none
   */
  readonly schedules?: Readonly<Record<string, ScheduleOf<NoInfer<Type>>>> | undefined;

  /**
   * The bus from which `Job Requested` events come and to which outcome events go. It must be in the scheduler's account
   * and Region.
   * @default - a new bus
   */
  readonly eventBus?: IEventBus | undefined;
  /**
   * The `source`s of the `Job Requested` events that the scheduler accepts. Schedulers that share a bus need different
   * sources; the scheduler's own source, `fairlead`, is refused.
   * @default - every source
   */
  readonly sources?: readonly string[] | undefined;
  /**
   * The name of an SSM parameter with the addresses of the scheduler's parts, which `Scheduler.fromParameter` reads in
   * other stacks. It must be known at synth; names that begin with aws or ssm are refused.
   * @default - no parameter
   */
  readonly parameterName?: string | undefined;

  /**
   * The removal policy of the table, with every job in it. By default the table is kept when the stack is deleted, except
   * if its first creation fails, when it is empty.
   * @default RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
   */
  readonly removalPolicy?: RemovalPolicy | undefined;
  /**
   * The removal policy of the queues and the dead letters in them, for a deleted stack and for a removed fleet.
   * @default RemovalPolicy.DESTROY
   */
  readonly queueRemovalPolicy?: RemovalPolicy | undefined;
  /**
   * Options of the table.
   * @default - a new table, which grows with its load and has no deletion protection
   */
  readonly table?: TableOptions | undefined;
  /**
   * A bucket for `largePayloads` that another deployment left, with its objects. Refused without `largePayloads`.
   * @default - a new bucket with the removal policy of the table; CloudFormation deletes no bucket that has objects
   */
  readonly largePayloadsBucket?: IBucket | undefined;
  /**
   * The key that encrypts the table, the bucket, the queues, the logs and the scheduler's own bus. The policy of a key from another
   * stack, or of an imported key, must let the principals of SQS, EventBridge and CloudWatch Logs use it: see
   * docs/security.md. A key of another Region is refused.
   * @default - keys of AWS
   */
  readonly encryptionKey?: IKey | undefined;

  /**
   * The VPC of the scheduler's own functions. They need routes to DynamoDB, SQS, EventBridge, CloudWatch Logs and S3.
   * @default - no VPC
   */
  readonly vpc?: IVpc | undefined;
  /**
   * Subnets of the functions; refused without `vpc`.
   * @default - the private subnets with egress
   */
  readonly vpcSubnets?: SubnetSelection | undefined;
  /**
   * Security groups of the functions; refused without `vpc`.
   * @default - one for each function, which allows all outbound traffic
   */
  readonly securityGroups?: readonly ISecurityGroup[] | undefined;
  /**
   * The permissions boundary of all roles of the construct.
   * @default - none
   */
  readonly permissionsBoundary?: IManagedPolicy | undefined;
  /**
   * Tags for all resources that can have tags.
   * @default - none
   */
  readonly tags?: Readonly<Record<string, string>> | undefined;

  /**
   * The architecture of the scheduler's own functions.
   * @default Architecture.ARM_64
   */
  readonly architecture?: Architecture | undefined;
  /**
   * X-Ray tracing of the scheduler's own functions; `WorkerFunction` and other functions have a `tracing` of their own. A
   * job carries its `traceparent` in any case: see docs/metrics.md.
   * @default Tracing.DISABLED
   */
  readonly tracing?: Tracing | undefined;
  /**
   * Metrics on request that are written in addition to those that are always written, for graphs outside this app.
   * CloudWatch bills each by the hour. Metrics that the app uses, as alarms and the dashboard do, need not be listed
   * here.
   * @default - those that the app uses
   */
  readonly metrics?: readonly MetricOnRequest[] | undefined;
  /**
   * Dimensions by which metrics are also written: `type`, `tier`, `fleet`. Each type in use adds 3 to 7 metrics, which
   * CloudWatch bills by the hour. Metrics on request are written by these dimensions only if they are written at all.
   * Dimensions that the app uses, as the dashboard uses `type`, need not be listed here.
   * @default - those that the app uses
   */
  readonly metricsBy?: readonly FinerScope[] | undefined;
  /**
   * How long the logs of the scheduler's own functions are kept.
   * @default RetentionDays.TWO_WEEKS
   */
  readonly logRetention?: RetentionDays | undefined;
  /**
   * Log groups of the scheduler's own functions.
   * @default - a new one for each function
   */
  readonly logGroups?:
    | {
        readonly ingest?: ILogGroup | undefined;
        readonly dispatch?: ILogGroup | undefined;
        readonly declare?: ILogGroup | undefined;
        readonly collect?: ILogGroup | undefined;
        readonly api?: ILogGroup | undefined;
      }
    | undefined;
  /**
   * Invocations that are reserved for a function out of the account's concurrency, and also limit it: up to 1,000. A new
   * account has a quota of 10, none of which AWS lets you reserve. The dispatch function leads each busy partition, up to
   * 32 of them, with an invocation of half a minute. Its value must be at least 7 more than that number of partitions, and
   * that of ingest at least `ingestConcurrency`. Each wait of the API takes an invocation for up to 20 seconds, so callers who
   * wait could use up the account's concurrency: reserve some for `api`.
   * @default - nothing is reserved
   */
  readonly reservedConcurrency?:
    | {
        readonly dispatch?: number | undefined;
        readonly ingest?: number | undefined;
        readonly api?: number | undefined;
      }
    | undefined;
  /**
   * Whether the stack has function URLs that serve the HTTP protocol with IAM, one for each role: `scheduler.api`. Some Regions, such as
   * Zurich and Tel Aviv, have no function URLs, and refuse the deployment.
   * @default false
   */
  readonly api?: boolean | undefined;
  /**
   * The most ingest invocations at once, 2 to 1,000. More events wait in the queue instead of using up the account's
   * concurrency.
   * @default 5: half of a new account's quota
   */
  readonly ingestConcurrency?: number | undefined;
  /**
   * Events of one ingest invocation, 1 to 10; up to 100 with an `ingestBatchingWindow`.
   * @default 10
   */
  readonly ingestBatchSize?: number | undefined;
  /**
   * How long the ingest function waits to fill its batch, 0 to 5 minutes. A window is cheaper under load and slower
   * without.
   * @default - no wait
   */
  readonly ingestBatchingWindow?: DurationInput | undefined;
  /**
   * Deliveries of an event to the ingest function before it becomes a dead letter, 5 to 1,000. A delivery that Lambda
   * throttles counts.
   * @default 5
   */
  readonly maxReceiveCount?: number | undefined;
}

/** A name that SSM accepts. A token is refused, because policies need the ARN, whose form depends on the name. */
const checkParameterName: Check = (field, value) => {
  const isName = typeof value === 'string' && /^(?:[\w.-]+|(?:\/[\w.-]+)+)$/.test(value);
  if (isName && !/^\/?(?:aws|ssm)/i.test(value)) return;
  throw new ConfigurationError(
    field,
    value,
    'must be the name of a parameter, known when the app is synthesised: letters, digits and .-_, with a slash before each part or no slash at all, and not beginning with aws or ssm',
    'Write it as /orders/jobs.',
  );
};

const checkLogGroup = having('logGroupArn', 'a log group');

/** The props outside the pool. The list is complete: a prop that is neither here nor a field of the pool is refused. */
const OTHER_PROPS: Readonly<Record<Exclude<keyof SchedulerProps, keyof PoolInput>, Check>> = {
  jobs: checkedElsewhere,
  schedules: recordOf(checkedElsewhere),
  eventBus: having('eventBusArn', 'an event bus'),
  sources: checkedElsewhere,
  parameterName: checkParameterName,
  removalPolicy: oneOf(RemovalPolicy, 'a RemovalPolicy'),
  queueRemovalPolicy: oneOf(RemovalPolicy, 'a RemovalPolicy'),
  table: checkedElsewhere,
  largePayloadsBucket: having('bucketArn', 'a bucket'),
  encryptionKey: having('keyArn', 'a key of KMS'),
  vpc: having('vpcId', 'a VPC'),
  vpcSubnets: checkSubnets,
  securityGroups: listOf(having('securityGroupId', 'a security group')),
  permissionsBoundary: having('managedPolicyArn', 'a managed policy'),
  tags: recordOf(checkText),
  architecture: having('dockerPlatform', 'an Architecture'),
  tracing: oneOf(Tracing, 'a Tracing'),
  metrics: listOf(checkText),
  metricsBy: listOf(checkText),
  logRetention: oneOf(RetentionDays, 'one of RetentionDays'),
  api: isBoolean,
  logGroups: objectOf({
    ingest: checkLogGroup,
    dispatch: checkLogGroup,
    declare: checkLogGroup,
    collect: checkLogGroup,
    api: checkLogGroup,
  }),
  reservedConcurrency: checkedElsewhere,
  ingestConcurrency: checkedElsewhere,
  ingestBatchSize: checkedElsewhere,
  ingestBatchingWindow: durationWithin({ least: Duration.seconds(0), most: Duration.minutes(5) }),
  maxReceiveCount: checkedElsewhere,
};

const POOL_PROPS: Readonly<Record<keyof PoolInput, true>> = {
  types: true,
  fleets: true,
  tiers: true,
  limits: true,
  maxConcurrency: true,
  score: true,
  fairness: true,
  lending: true,
  lostClaimsInARow: true,
  partitions: true,
  searchableTags: true,
  largePayloads: true,
  statistics: true,
};

/** Fields of the pool are checked later, when they become its configuration. */
const checkProps = objectOf({
  ...Object.fromEntries(Object.keys(POOL_PROPS).map((name) => [name, checkedElsewhere])),
  ...OTHER_PROPS,
});

/**
 * Returns the props of the pool, without its fleets.
 * @throws ConfigurationError for an unknown prop, and for one with an impossible value
 */
export function declarationOf(props: SchedulerProps): Omit<PoolInput, 'fleets'> {
  checkProps('', props);
  return Object.fromEntries(
    Object.entries(props).filter(([name]) => name !== 'fleets' && !Object.hasOwn(OTHER_PROPS, name)),
  );
}
