/** A scheduler that another app or stack has deployed. */

import { Fn, Token } from 'aws-cdk-lib';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { StringListParameter } from 'aws-cdk-lib/aws-ssm';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf, recordOf } from '../lib/core/read-fields.ts';
import { didYouMean } from '../lib/core/spelling.ts';
import { SchedulerGrants } from './grants.ts';
import { type IScheduler, SchedulerBase } from './scheduler-base.ts';
import { checkSources } from './sources.ts';
import { checkedElsewhere, listOf } from './values.ts';

/** The ARNs of a deployed scheduler's parts. All must be of one account and Region. */
export interface SchedulerAttributes {
  readonly tableArn: string;
  readonly busArn: string;
  readonly wakeQueueArn: string;
  /**
   * The alias through which clients wake the dispatch function. @default - clients use the wake queue, for $1 more per
   * million jobs
   */
  readonly wakeFunctionArn?: string;
  /** The bucket of a scheduler with `largePayloads`, for its grants. @default - none */
  readonly bucketArn?: string;
  /** The sources whose requests the scheduler accepts. @default - every source */
  readonly sources?: readonly string[];
  /** The key that encrypts the scheduler's resources. @default - keys of AWS */
  readonly encryptionKeyArn?: string;
  /** The queues of fleets by name, for `grants.work` and `grants.dispatch`. @default - none */
  readonly fleetQueueArns?: Readonly<Record<string, string>>;
  /** The dead-letter queues that `grants.operate` covers. @default - none */
  readonly deadLetterQueueArns?: readonly string[];
  /** The queues to which `grants.operate` may return dead letters of events and outcomes. @default - none */
  readonly redriveQueueArns?: readonly string[];
}

/**
 * The ARNs with which the parameter's list begins, in this order; it ends with the alias. New entries may only be
 * appended, because a stack may read a parameter that another version wrote.
 */
const LISTED = ['tableArn', 'busArn', 'wakeQueueArn'] as const satisfies (keyof SchedulerAttributes)[];

/** The attributes that a parameter does not contain. */
export type MoreAttributes = Omit<SchedulerAttributes, (typeof LISTED)[number] | 'wakeFunctionArn'>;

class DeployedScheduler extends SchedulerBase {
  override readonly tableName: string;
  override readonly bus: IEventBus;
  override readonly wakeQueue: IQueue;
  override readonly wakeFunctionArn: string | undefined;
  override readonly grants: SchedulerGrants;
  readonly #queues: ReadonlyMap<string, IQueue>;

  constructor(scope: Construct, id: string, attributes: SchedulerAttributes) {
    super(scope, id);
    const { tableArn, busArn, wakeQueueArn, sources = [], encryptionKeyArn } = attributes;
    if (attributes.sources !== undefined) checkSources(sources);
    const encryptionKey: IKey | undefined =
      encryptionKeyArn === undefined ? undefined : Key.fromKeyArn(this, 'Key', encryptionKeyArn);
    const queueOf = (name: string, queueArn: string): IQueue =>
      Queue.fromQueueAttributes(this, name, {
        queueArn,
        ...(encryptionKeyArn === undefined ? {} : { keyArn: encryptionKeyArn }),
      });
    this.tableName = Fn.select(1, Fn.split('/', tableArn));
    this.bus = EventBus.fromEventBusArn(this, 'Bus', busArn);
    this.wakeQueue = queueOf('WakeQueue', wakeQueueArn);
    this.wakeFunctionArn = attributes.wakeFunctionArn;
    this.#queues = new Map(
      Object.entries(attributes.fleetQueueArns ?? {}).map(([fleet, arn]) => [
        fleet,
        queueOf(`Fleet ${fleet}`, arn),
      ]),
    );
    const queuesOf = (id: string, arns: readonly string[] = []): readonly IQueue[] =>
      arns.map((arn, at) => queueOf(`${id}${at}`, arn));
    this.grants = new SchedulerGrants({
      table: { tableArn, encryptionKey },
      bucketArn: attributes.bucketArn,
      bus: this.bus,
      sources,
      wakeQueue: this.wakeQueue,
      wakeFunctionArn: this.wakeFunctionArn,
      fleetQueue: (fleet) => this.#queueOfFleet(fleet),
      eachFleetQueue: (visit) => {
        for (const queue of this.#queues.values()) visit(queue);
      },
      deadLetterQueues: queuesOf('DeadLetters', attributes.deadLetterQueueArns),
      redriveQueues: queuesOf('Redrive', attributes.redriveQueueArns),
    });
  }

  protected override requireFleet(fleet: string): void {
    this.#queueOfFleet(fleet);
  }

  #queueOfFleet(fleet: string): IQueue {
    const found = this.#queues.get(fleet);
    if (found !== undefined) return found;
    throw new ConfigurationError(
      'fleet',
      fleet,
      'is not a fleet in fleetQueueArns',
      `${didYouMean(fleet, this.#queues.keys())}Add the ARN of the fleet's queue there.`,
    );
  }
}

/** The form of an ARN: its service, and a pattern for the resource at its end. */
interface Kind {
  readonly what: string;
  readonly service: string;
  readonly resource: RegExp;
}

const QUEUE: Kind = { what: 'a queue', service: 'sqs', resource: /^[\w-]{1,80}$/ };
const KINDS = {
  tableArn: { what: 'a table', service: 'dynamodb', resource: /^table\/[\w.-]{3,255}$/ },
  busArn: { what: 'an event bus', service: 'events', resource: /^event-bus\/[\w./-]{1,256}$/ },
  wakeQueueArn: QUEUE,
} as const satisfies Record<(typeof LISTED)[number], Kind>;
const ALIAS: Kind = {
  what: 'an alias of a function',
  service: 'lambda',
  resource: /^function:[\w-]{1,64}:[\w-]{1,128}$/,
};
const BUCKET: Kind = { what: 'a bucket', service: 's3', resource: /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/ };
const KEY: Kind = { what: 'a key of KMS', service: 'kms', resource: /^key\/[\w-]+$/ };

const ARN = /^arn:[\w-]+:([\w-]+):([\w-]+:\d{12}):(.+)$/;

const arnOf =
  ({ what, service, resource }: Kind): Check =>
  (field, arn) => {
    if (Token.isUnresolved(arn)) return;
    const [, itsService, , itsResource = ''] = (typeof arn === 'string' ? ARN.exec(arn) : null) ?? [];
    if (itsService === service && resource.test(itsResource)) return;
    throw new ConfigurationError(
      field,
      arn,
      `must be the ARN of ${what}`,
      "Take it from the owner's stack, or give the scheduler a parameterName there and use Scheduler.fromParameter.",
    );
  };

const CHECKS: Readonly<Record<keyof SchedulerAttributes, Check>> = {
  tableArn: arnOf(KINDS.tableArn),
  busArn: arnOf(KINDS.busArn),
  wakeQueueArn: arnOf(KINDS.wakeQueueArn),
  wakeFunctionArn: arnOf(ALIAS),
  bucketArn: arnOf(BUCKET),
  sources: checkedElsewhere,
  encryptionKeyArn: arnOf(KEY),
  fleetQueueArns: recordOf(arnOf(QUEUE)),
  deadLetterQueueArns: listOf(arnOf(QUEUE)),
  redriveQueueArns: listOf(arnOf(QUEUE)),
};

/**
 * Checks that each part has its own ARN, and that all are of one account and Region.
 * @throws ConfigurationError for an ARN that is used twice, and for one of another account or Region
 */
function checkTogether(arns: readonly (readonly [field: string, arn: string])[]): void {
  const fields = new Map<string, string>();
  let first: readonly [field: string, place: string | undefined] | undefined;
  for (const [field, arn] of arns) {
    if (Token.isUnresolved(arn)) continue;
    const other = fields.get(arn);
    fields.set(arn, field);
    if (other !== undefined) {
      throw new ConfigurationError(field, arn, `is also the ARN of ${other}`, 'Give each part its own ARN.');
    }
    const place = ARN.exec(arn)?.[2];
    first ??= [field, place];
    if (place === first[1]) continue;
    throw new ConfigurationError(
      field,
      arn,
      `is in another account or Region than ${first[0]} (${first[1]}), but a scheduler is in one`,
      'Take all ARNs from one deployment.',
    );
  }
}

/**
 * Makes the scheduler whose parts have these ARNs.
 * @throws ConfigurationError for a missing part, and for an ARN of another kind
 */
export function fromAttributes(scope: Construct, id: string, attributes: SchedulerAttributes): IScheduler {
  objectOf(CHECKS)('', attributes);
  for (const name of LISTED) CHECKS[name](name, attributes[name]);
  const {
    wakeFunctionArn,
    fleetQueueArns = {},
    deadLetterQueueArns = [],
    redriveQueueArns = [],
  } = attributes;
  checkTogether([
    ...LISTED.map((name) => [name, attributes[name]] as const),
    ...(wakeFunctionArn === undefined ? [] : [['wakeFunctionArn', wakeFunctionArn] as const]),
    ...Object.entries(fleetQueueArns).map(([fleet, arn]) => [`fleetQueueArns.${fleet}`, arn] as const),
    ...deadLetterQueueArns.map((arn, at) => [`deadLetterQueueArns[${at}]`, arn] as const),
    ...redriveQueueArns.map((arn, at) => [`redriveQueueArns[${at}]`, arn] as const),
  ]);
  return new DeployedScheduler(scope, id, attributes);
}

/** Writes the addresses into an SSM parameter. It is free of charge, and replaces exports and copied ARNs. */
export function publishParameter(
  scope: Construct,
  parameterName: string,
  attributes: Required<Pick<SchedulerAttributes, (typeof LISTED)[number] | 'wakeFunctionArn'>>,
): void {
  new StringListParameter(scope, 'Parameter', {
    parameterName,
    description: 'Where a Fairlead scheduler is: table, bus, wake queue, alias of the dispatch function',
    stringListValue: [...LISTED, 'wakeFunctionArn' as const].map((name) => attributes[name]),
  });
}

/**
 * Makes the scheduler whose addresses are in a parameter, which CloudFormation reads at each deployment. The parameter
 * does not contain sources and fleets.
 */
export function fromParameter(
  scope: Construct,
  id: string,
  parameterName: string,
  more: MoreAttributes = {},
): IScheduler {
  const list = StringListParameter.valueForTypedListParameter(scope, parameterName);
  const [tableArn, busArn, wakeQueueArn] = LISTED.map((_, at) => Fn.select(at, list)) as [
    string,
    string,
    string,
  ];
  // A list of an earlier version ends with the wake queue, whose ARN then takes the alias's position. Clients see that
  // it is not a function, and use none.
  const padded = Fn.split(',', Fn.join(',', [Fn.join(',', list), wakeQueueArn]));
  const wakeFunctionArn = Fn.select(LISTED.length, padded);
  return fromAttributes(scope, id, { ...more, tableArn, busArn, wakeQueueArn, wakeFunctionArn });
}
