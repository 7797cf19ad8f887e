/** What a scheduler may be told. */

import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { ISecurityGroup, IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { IManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { type Architecture, Tracing } from 'aws-cdk-lib/aws-lambda';
import { type ILogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { JobTypeInput, PoolInput } from '../lib/core/defaults.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import type { FinerScope, MetricOnRequest } from '../lib/metrics/names.ts';
import type { ScheduleRequest } from '../lib/schedules/request.ts';
import type { FleetProps } from './fleet.ts';
import type { TableOptions } from './table.ts';
import { checkedElsewhere, checkText, durationWithin, having, listOf, oneOf, recordOf } from './values.ts';
import { checkSubnets } from './worker-function-props.ts';

/** What a scheduler does, and for whom. Nothing must be there. */
export interface SchedulerProps<Type extends string = string> {
  /**
   * Job types by name. With this, fleets take declared types only, which TypeScript checks too.
   * @default - the types that fleets name, each with its defaults, or one type `default` where there is no fleet either;
   * a timeout that is not declared is the longest that the handlers of the type's fleets can keep
   */
  readonly types?: Readonly<Record<Type, JobTypeInput>> | undefined;
  /**
   * Who does the work, by name. More may come with `addFleet`. A type that no fleet takes has one of its own, which
   * long-running processes serve.
   * @default - none
   */
  readonly fleets?: Readonly<Record<string, FleetProps<NoInfer<Type>>>> | undefined;
  /**
   * Tiers, from the top.
   * @default - one, named `default`
   */
  readonly tiers?: PoolInput['tiers'];
  /**
   * Running jobs of the whole pool.
   * @default - no limit but the fleets' slots
   */
  readonly maxConcurrency?: PoolInput['maxConcurrency'];
  /**
   * Coefficients of the score. Others may be declared at any time; jobs that wait already keep their order inside their line of one
   * type, mode and fairness key.
   * @default - those of `SCORE_DEFAULTS`
   */
  readonly score?: PoolInput['score'];
  /**
   * Cost accounting per fairness key.
   * @default - that of `FAIRNESS_DEFAULTS`
   */
  readonly fairness?: PoolInput['fairness'];
  /**
   * When partitions lend each other slots and shares of caps, and how much; see docs/scale.md. With one, nothing is lent.
   * @default - that of `LENDING_DEFAULTS`
   */
  readonly lending?: PoolInput['lending'];
  /**
   * Claims that a pass may lose one after the other, 0 to 1,000; after one more it reads its candidates anew. Fewer cost reads where
   * many dispatchers compete; more let a pass go on with candidates that others have taken.
   * @default 5
   */
  readonly lostClaimsInARow?: PoolInput['lostClaimsInARow'];
  /**
   * Shards with a single writer each: fairness keys and caps are divided among them. Every cap must be at least as
   * large. A deployment may change it while jobs wait and run; see docs/scale.md.
   * @default 1: one exact order for the whole pool
   */
  readonly partitions?: PoolInput['partitions'];

  /**
   * Recurring work by name: this stack's deployments make, change and remove these, and no others; see docs/schedules.md.
   * @default - none
   */
  readonly schedules?: Readonly<Record<string, ScheduleRequest>> | undefined;

  /**
   * The bus that `Job Requested` events come from and outcome events go to.
   * @default - a bus of its own
   */
  readonly eventBus?: IEventBus | undefined;
  /**
   * Whose `Job Requested` events it takes, by their `source`. Schedulers that share a bus need different ones.
   * @default - everybody's
   */
  readonly sources?: readonly string[] | undefined;
  /**
   * Where other stacks and programs find it: the name of an SSM parameter that says where everything is, for
   * `Scheduler.fromParameter`.
   * @default - no parameter
   */
  readonly parameterName?: string | undefined;

  /**
   * What becomes of the table, and every job in it, when the stack is deleted. By default it stays, but where its first creation fails:
   * then it holds nothing yet.
   * @default RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
   */
  readonly removalPolicy?: RemovalPolicy | undefined;
  /**
   * What becomes of queues, and of dead letters in them, when the stack is deleted or a fleet is taken away.
   * @default RemovalPolicy.DESTROY
   */
  readonly queueRemovalPolicy?: RemovalPolicy | undefined;
  /** @default - one of its own, which grows with its load, and can be deleted if the removal policy says so */
  readonly table?: TableOptions | undefined;
  /**
   * Encrypts the table, the queues, the logs and a bus of its own. A key of another stack, or one that is only referred
   * to, must let SQS's and EventBridge's principals and CloudWatch Logs use it: see docs/security.md.
   * @default - keys of AWS
   */
  readonly encryptionKey?: IKey | undefined;

  /**
   * Where the scheduler's own functions stand.
   * @default - in no network of yours
   */
  readonly vpc?: IVpc | undefined;
  /** @default - the private ones with a way out */
  readonly vpcSubnets?: SubnetSelection | undefined;
  /** @default - one for each function, which lets everything out */
  readonly securityGroups?: readonly ISecurityGroup[] | undefined;
  /**
   * A bound on what its roles may be given.
   * @default - none
   */
  readonly permissionsBoundary?: IManagedPolicy | undefined;
  /** On everything that takes tags. */
  readonly tags?: Readonly<Record<string, string>> | undefined;

  /**
   * Of the scheduler's own functions.
   * @default Architecture.ARM_64
   */
  readonly architecture?: Architecture | undefined;
  /**
   * X-Ray traces of the scheduler's own functions; `WorkerFunction` and other functions have a `tracing` of their own. A job
   * carries its `traceparent` with or without it: see docs/metrics.md.
   * @default Tracing.DISABLED
   */
  readonly tracing?: Tracing | undefined;
  /**
   * Metrics that are told beside those that always are, for graphs that are made elsewhere: each is one more that CloudWatch bills by
   * the hour. Whoever asks for one in the app, as alarms and the dashboard do, need not say so here.
   * @default - those that somebody asks for
   */
  readonly metrics?: readonly MetricOnRequest[] | undefined;
  /**
   * By what metrics are told beside the whole scheduler, those on request only where they are told at all: each type in use is 3 to 7
   * metrics more, which CloudWatch bills by the hour. Whoever asks for a metric by one of them, as the dashboard does by type, need not
   * say so here.
   * @default - by what somebody asks for
   */
  readonly metricsBy?: readonly FinerScope[] | undefined;
  /**
   * How long the scheduler's own functions' logs are kept.
   * @default RetentionDays.TWO_WEEKS
   */
  readonly logRetention?: RetentionDays | undefined;
  /** @default - groups of its own */
  readonly logGroups?:
    | {
        readonly ingest?: ILogGroup | undefined;
        readonly dispatch?: ILogGroup | undefined;
        readonly declare?: ILogGroup | undefined;
      }
    | undefined;
  /**
   * Concurrency that is taken out of the account's, so that a function runs whatever else the account does; it is also the function's bound. A
   * new account has a quota of 10, of which AWS lets nothing be reserved. The dispatch function leads each busy partition, up to 32 of them, with
   * an invocation of half a minute: it takes one for each of them and four more at least.
   * @default - nothing is reserved
   */
  readonly reservedConcurrency?:
    | { readonly dispatch?: number | undefined; readonly ingest?: number | undefined }
    | undefined;
  /**
   * Ingest invocations at once, 2 to 1,000: a flood of events waits in the queue instead of filling the account.
   * @default 5: half of what a new account may run at once
   */
  readonly ingestConcurrency?: number | undefined;
  /**
   * Events that one ingest invocation takes: 1 to 10, or to 100 with an `ingestBatchingWindow`.
   * @default 10
   */
  readonly ingestBatchSize?: number | undefined;
  /**
   * How long the ingest function waits to fill its batch. Cheaper under load, slower without.
   * @default - not at all
   */
  readonly ingestBatchingWindow?: Duration | undefined;
  /**
   * Deliveries of an event to the ingest function before it goes to the dead letters.
   * @default 5
   */
  readonly maxReceiveCount?: number | undefined;
}

/** As SSM takes it. A token would leave the shape of its ARN, which policies name, unknown. */
const checkParameterName: Check = (field, value) => {
  const isName = typeof value === 'string' && /^(?:[\w.-]+|(?:\/[\w.-]+)+)$/.test(value);
  if (isName && !/^\/?(?:aws|ssm)/i.test(value)) return;
  throw new ConfigurationError(
    field,
    value,
    'must be the name of a parameter that is known when the app is synthesised: letters, digits and .-_ with a slash before each part, or without any, and not beginning with aws or ssm',
    'Write it as /orders/jobs.',
  );
};

const checkLogGroup = having('logGroupArn', 'a log group');

/** What is not about the pool. Complete: what is neither here nor a field of the pool is refused. */
const OTHER_PROPS: Readonly<Record<Exclude<keyof SchedulerProps, keyof PoolInput>, Check>> = {
  schedules: recordOf(checkedElsewhere),
  eventBus: having('eventBusArn', 'an event bus'),
  sources: checkedElsewhere,
  parameterName: checkParameterName,
  removalPolicy: oneOf(RemovalPolicy, 'a RemovalPolicy'),
  queueRemovalPolicy: oneOf(RemovalPolicy, 'a RemovalPolicy'),
  table: checkedElsewhere,
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
  logGroups: objectOf({ ingest: checkLogGroup, dispatch: checkLogGroup, declare: checkLogGroup }),
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
  maxConcurrency: true,
  score: true,
  fairness: true,
  lending: true,
  lostClaimsInARow: true,
  partitions: true,
};

/** Fields of the pool are checked where they become its configuration. */
const checkProps = objectOf({
  ...Object.fromEntries(Object.keys(POOL_PROPS).map((name) => [name, checkedElsewhere])),
  ...OTHER_PROPS,
});

/**
 * What is about the pool, without its fleets.
 * @throws ConfigurationError for a property that a Scheduler does not have, or of which it cannot be so
 */
export function declarationOf(props: SchedulerProps): Omit<PoolInput, 'fleets'> {
  checkProps('', props);
  return Object.fromEntries(
    Object.entries(props).filter(([name]) => name !== 'fleets' && !Object.hasOwn(OTHER_PROPS, name)),
  );
}
