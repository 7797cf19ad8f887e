/** A scheduler that another app, or another stack, has deployed. */
import { Fn, Token } from 'aws-cdk-lib';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { StringListParameter } from 'aws-cdk-lib/aws-ssm';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { readObject } from '../lib/core/read-fields.ts';
import { didYouMean } from '../lib/core/spelling.ts';
import { SchedulerGrants } from './grants.ts';
import { type IScheduler, SchedulerBase } from './scheduler-base.ts';
import { checkSources } from './sources.ts';

/** Where the parts of a deployed scheduler are: what its owner's stack may put out. */
export interface SchedulerAttributes {
  readonly tableArn: string;
  readonly busArn: string;
  readonly wakeQueueArn: string;
  /** @default - everybody's requests are taken */
  readonly sources?: readonly string[];
  /** @default - encrypted with keys of AWS */
  readonly encryptionKeyArn?: string;
  /** By fleet: for `grants.work` and `grants.dispatch`. @default - none */
  readonly fleetQueueArns?: Readonly<Record<string, string>>;
  /** For `grants.operate`: those that dead letters may be taken from. @default - none */
  readonly deadLetterQueueArns?: readonly string[];
}

/** The parameter's list, in this order. Only ever appended to: a stack may read what another version has written. */
const LISTED = ['tableArn', 'busArn', 'wakeQueueArn'] as const satisfies (keyof SchedulerAttributes)[];

/** What a parameter does not say. */
export type MoreAttributes = Omit<SchedulerAttributes, (typeof LISTED)[number]>;

class DeployedScheduler extends SchedulerBase {
  override readonly tableName: string;
  override readonly bus: IEventBus;
  override readonly wakeQueue: IQueue;
  override readonly grants: SchedulerGrants;
  readonly #queues: ReadonlyMap<string, IQueue>;

  constructor(scope: Construct, id: string, attributes: SchedulerAttributes) {
    super(scope, id);
    const { tableArn, busArn, wakeQueueArn, sources = [], encryptionKeyArn } = attributes;
    checkSources(sources);
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
    this.#queues = new Map(
      Object.entries(attributes.fleetQueueArns ?? {}).map(([fleet, arn]) => [
        fleet,
        queueOf(`Fleet ${fleet}`, arn),
      ]),
    );
    const deadLetters = (attributes.deadLetterQueueArns ?? []).map((arn, at) =>
      queueOf(`DeadLetters${at}`, arn),
    );
    this.grants = new SchedulerGrants({
      table: { tableArn, encryptionKey },
      bus: this.bus,
      sources,
      wakeQueue: this.wakeQueue,
      fleetQueue: (fleet) => this.#queueOfFleet(fleet),
      eachFleetQueue: (visit) => {
        for (const queue of this.#queues.values()) visit(queue);
      },
      eachDeadLetterQueue: (visit) => {
        for (const queue of deadLetters) visit(queue, undefined);
      },
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
      'names no fleet of fleetQueueArns',
      `${didYouMean(fleet, this.#queues.keys())}Add the ARN of the fleet's queue there.`,
    );
  }
}

const SERVICES = { tableArn: 'dynamodb', busArn: 'events', wakeQueueArn: 'sqs' } as const;

const KNOWN: Readonly<Record<keyof SchedulerAttributes, true>> = {
  tableArn: true,
  busArn: true,
  wakeQueueArn: true,
  sources: true,
  encryptionKeyArn: true,
  fleetQueueArns: true,
  deadLetterQueueArns: true,
};

function checkArn(field: string, arn: unknown, service: string): void {
  if (Token.isUnresolved(arn)) return;
  if (typeof arn === 'string' && arn.startsWith('arn:') && arn.split(':')[2] === service) return;
  throw new ConfigurationError(
    field,
    arn,
    `must be an ARN of ${service}`,
    "Take it from the owner's stack, or give the scheduler a parameterName there and use Scheduler.fromParameter.",
  );
}

/** @throws ConfigurationError for a part that is not named, or that is something else */
export function fromAttributes(scope: Construct, id: string, attributes: SchedulerAttributes): IScheduler {
  readObject('', attributes, Object.keys(KNOWN));
  const { encryptionKeyArn, fleetQueueArns = {}, deadLetterQueueArns = [] } = attributes;
  for (const name of LISTED) checkArn(name, attributes[name], SERVICES[name]);
  if (encryptionKeyArn !== undefined) checkArn('encryptionKeyArn', encryptionKeyArn, 'kms');
  for (const [fleet, arn] of Object.entries(fleetQueueArns)) checkArn(`fleetQueueArns.${fleet}`, arn, 'sqs');
  for (const [at, arn] of deadLetterQueueArns.entries()) checkArn(`deadLetterQueueArns[${at}]`, arn, 'sqs');
  return new DeployedScheduler(scope, id, attributes);
}

/** Puts where everything is into a parameter. It costs nothing, and nobody has to export or copy anything. */
export function publishParameter(
  scope: Construct,
  parameterName: string,
  attributes: Pick<SchedulerAttributes, (typeof LISTED)[number]>,
): void {
  new StringListParameter(scope, 'Parameter', {
    parameterName,
    description: 'Where a Fairlead scheduler is: table, bus, wake queue',
    stringListValue: LISTED.map((name) => attributes[name]),
  });
}

/** CloudFormation reads the parameter with each deployment. Sources and fleets are not in it. */
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
  return fromAttributes(scope, id, { ...more, tableArn, busArn, wakeQueueArn });
}
