/** The grants of a scheduler, one method for each role. */

import { createHash } from 'node:crypto';
import { Lazy, Stack } from 'aws-cdk-lib';
import { CfnEventBusPolicy, type IEventBus } from 'aws-cdk-lib/aws-events';
import { Grant, type IGrantable, type IResourceWithPolicy } from 'aws-cdk-lib/aws-iam';
import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { DETAIL_TYPE, EVENT_SOURCE, REQUEST_TYPES, SCHEDULE_STOPPED } from '../lib/events/contract.ts';
import { uniqueId } from './names.ts';
import { combinedGrant, grantObjects, grantTable, type RightsTable, type TableRole } from './rights.ts';

/** The parts of a scheduler that grants refer to, in this app or deployed elsewhere. */
export interface GrantedParts {
  readonly table: RightsTable;
  /** The bucket for values over 64 KB; undefined: there is none. */
  readonly bucketArn?: string | undefined;
  readonly bus: IEventBus;
  /** The sources whose requests the scheduler accepts. An empty list means every source but its own. */
  readonly sources: readonly string[];
  readonly wakeQueue: IQueue;
  /** The alias through which clients wake the dispatch function. */
  readonly wakeFunctionArn?: string | undefined;
  /**
   * Returns the queue of a fleet.
   * @throws ConfigurationError for an unknown fleet
   */
  readonly fleetQueue: (fleet: string) => IQueue;
  /** Calls `visit` with every queue of a fleet: at once with the existing ones, and later with each new one. */
  readonly eachFleetQueue: (visit: (queue: IQueue) => void) => void;
  /** Dead-letter queues, which an operator may read and empty. */
  readonly deadLetterQueues: readonly IQueue[];
  /** The queues to which dead letters return. */
  readonly redriveQueues: readonly IQueue[];
}

const OUTCOMES = [
  DETAIL_TYPE.succeeded,
  DETAIL_TYPE.failed,
  DETAIL_TYPE.cancelled,
  DETAIL_TYPE.expired,
  SCHEDULE_STOPPED,
] as const;

/** The actions on the key that sending needs. SQS also needs `kms:Decrypt`, to check the data key that it made. */
const SEND_KEY_ACTIONS = ['kms:GenerateDataKey', 'kms:Decrypt'];

/**
 * The grants, as `scheduler.grants`. Each method returns its `Grant`, so that you can assert its success, or let a
 * resource depend on it.
 */
export class SchedulerGrants {
  readonly #parts: GrantedParts;

  constructor(parts: GrantedParts) {
    this.#parts = parts;
  }

  /** Lets a producer submit with the client, and read, move and cancel jobs by id. */
  submit(grantee: IGrantable): Grant {
    const { wakeQueue, wakeFunctionArn } = this.#parts;
    // A wake starts a submitted job sooner, though its stream record causes a pass too. A job moved to a near time
    // needs a wake.
    const grants = [this.table(grantee, 'submit'), sendMessages(wakeQueue, grantee)];
    if (wakeFunctionArn !== undefined) grants.push(invokeFunction(wakeFunctionArn, grantee));
    return combinedGrant(grants);
  }

  /**
   * Lets a producer put requests for jobs and schedules on the bus, under the scheduler's `sources`. The grant allows no
   * other event, and never the scheduler's own source, so a producer cannot forge outcomes. A producer of another account
   * or of an organization is admitted by the bus policy, and its own account must allow `events:PutEvents` too.
   * @throws ConfigurationError if the bus policy, with at most 10,240 characters, has no room for it: after some 250
   * accounts
   */
  putEvents(grantee: IGrantable): Grant {
    const { sources } = this.#parts;
    return this.#putEvents(grantee, {
      StringEquals: {
        'events:detail-type': [...REQUEST_TYPES],
        ...(sources.length === 0 ? {} : { 'events:source': [...sources] }),
      },
      ...(sources.length === 0 ? { StringNotEquals: { 'events:source': EVENT_SOURCE } } : {}),
    });
  }

  /**
   * Lets a long-running process work for a fleet. `workerEnvironment` makes its environment.
   * @throws ConfigurationError for an unknown fleet
   */
  work(grantee: IGrantable, fleet: string): Grant {
    const { wakeQueue, fleetQueue } = this.#parts;
    return combinedGrant([
      consumeMessages(fleetQueue(fleet), grantee),
      this.table(grantee, 'serve'),
      sendMessages(wakeQueue, grantee),
    ]);
  }

  /** Lets a process run passes, as `fairlead dispatcher` does. `schedulerEnvironment` makes its environment. */
  dispatch(grantee: IGrantable): Grant {
    return this.passes(grantee, 'reside');
  }

  /**
   * Grants the rights of passes: to the scheduler's own functions (`dispatch`), which have no membership, or to
   * processes that have one (`reside`).
   */
  passes(grantee: IGrantable, role: 'dispatch' | 'reside'): Grant {
    const { wakeQueue, eachFleetQueue } = this.#parts;
    const grant = combinedGrant([this.table(grantee, role), sendMessages(wakeQueue, grantee)]);
    eachFleetQueue((queue) => sendMessages(queue, grantee));
    return grant;
  }

  /** Lets an operator read everything, including payloads and results, and change nothing. */
  read(grantee: IGrantable): Grant {
    return this.table(grantee, 'read');
  }

  /** Lets an operator read, move, cancel and pause jobs, wake dispatchers, redrive dead letters, and publish outcomes again. */
  operate(grantee: IGrantable): Grant {
    const { wakeQueue, deadLetterQueues, redriveQueues } = this.#parts;
    const look = (queue: IQueue, ...more: readonly string[]): Grant =>
      QueueGrants.fromQueue(queue).actions(grantee, ['sqs:GetQueueAttributes', ...more]);
    return combinedGrant([
      this.table(grantee, 'operate'),
      sendMessages(wakeQueue, grantee),
      this.publish(grantee, 'outcomes'),
      ...deadLetterQueues.flatMap((queue) => [
        consumeMessages(queue, grantee),
        look(queue, 'sqs:PurgeQueue'),
      ]),
      ...redriveQueues.flatMap((queue) => [sendMessages(queue, grantee), look(queue)]),
    ]);
  }

  /** Grants the rights of a role on the table, and on the bucket if there is one, for the scheduler's own functions. */
  table(grantee: IGrantable, role: TableRole): Grant {
    const { table, bucketArn } = this.#parts;
    const ofTable = grantTable(table, grantee, role);
    return bucketArn === undefined
      ? ofTable
      : combinedGrant([ofTable, ...grantObjects(bucketArn, grantee, role)]);
  }

  /** Lets one of the scheduler's own functions publish outcomes, or rejections, on the bus. */
  publish(grantee: IGrantable, what: 'outcomes' | 'rejections'): Grant {
    const types = what === 'outcomes' ? [...OUTCOMES] : DETAIL_TYPE.rejected;
    return this.#putEvents(grantee, {
      StringEquals: { 'events:detail-type': types, 'events:source': EVENT_SOURCE },
    });
  }

  #putEvents(grantee: IGrantable, conditions: Record<string, Record<string, unknown>>): Grant {
    const { bus } = this.#parts;
    // This is not `allPutEvents`, which grants all buses of the account.
    return Grant.addToPrincipalOrResource({
      grantee,
      actions: ['events:PutEvents'],
      resourceArns: [bus.eventBusArn],
      conditions,
      resource: policyOf(bus, conditions),
    });
  }
}

/** How many digits the id of a statement has. Each statement is a resource, and its id is a hash of its content. */
const SID_DIGITS = 16;

/** The quota "Event bus policy size" of EventBridge, for all statements of a bus together. */
const POLICY_MAX_CHARS = 10_240;
/** Stands for a value that is known only at deployment, at most as long as a bus's ARN. */
const TOKEN = 'x'.repeat(100);

type Conditions = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** A statement for all principals with the same conditions. With one statement for each, some twenty would fill the policy. */
class BusStatement extends CfnEventBusPolicy {
  readonly #admitted = new Map<string, readonly [kind: string, principal: unknown]>();
  readonly #says: object;

  constructor(bus: IEventBus, statementId: string, says: object) {
    super(bus as unknown as Construct, statementId, {
      eventBusName: bus.eventBusName,
      statementId,
      statement: Lazy.any({ produce: () => this.#statement() }),
    });
    this.#says = says;
  }

  /**
   * Adds a principal to the statement.
   * @throws ConfigurationError if the policy of the bus has no room for it; the principal is not added then
   */
  admit(principal: Readonly<Record<string, unknown>>): void {
    const before = new Map(this.#admitted);
    for (const [kind, one] of Object.entries(principal).flatMap(([key, some]) =>
      [some].flat().map((each) => [key, each] as const),
    ))
      this.#admitted.set(JSON.stringify(this.stack.resolve([kind, one])), [kind, one]);
    const ofBus = this.node.scope?.node.children.filter((each) => each instanceof BusStatement) ?? [];
    const chars = ofBus.reduce((sum, each) => sum + each.#chars(), 0);
    if (chars <= POLICY_MAX_CHARS) return;
    this.#admitted.clear();
    for (const [key, each] of before) this.#admitted.set(key, each);
    throw new ConfigurationError(
      'grantee',
      this.stack.resolve(principal),
      `does not fit into the policy of the bus, which would have ${chars} characters; EventBridge allows ${POLICY_MAX_CHARS}`,
      'Grant to an OrganizationPrincipal instead of its accounts, or let accounts use another bus, with a rule that forwards their events.',
    );
  }

  /** If the statement has no principal, for example because the first one was refused, it is left out. */
  protected override shouldSynthesize(): boolean {
    return this.#admitted.size > 0;
  }

  #statement(): object {
    const byKind = Map.groupBy(this.#admitted.values(), ([kind]) => kind);
    const Principal = Object.fromEntries(
      [...byKind].map(([kind, all]) => {
        const principals = all.map(([, principal]) => principal);
        return [kind, principals.length === 1 ? principals[0] : principals];
      }),
    );
    return { ...this.#says, Principal };
  }

  #chars(): number {
    const said = { Sid: this.statementId, ...(this.stack.resolve(this.#statement()) as object) };
    return JSON.stringify(said, (_, value: unknown) => textOf(value) ?? value).length;
  }
}

/** Returns the longest text that a CloudFormation value can become; undefined if it is not a text. */
function textOf(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { 'Fn::Join': joined, Ref: name } = value as Readonly<Record<string, unknown>>;
  if (Array.isArray(joined)) {
    const [between, parts] = joined as [string, readonly unknown[]];
    return parts.map((part) => (typeof part === 'string' ? part : (textOf(part) ?? TOKEN))).join(between);
  }
  if (name === 'AWS::Partition') return 'aws-us-gov';
  const isToken = name !== undefined || Object.keys(value).some((key) => key.startsWith('Fn::'));
  return isToken ? TOKEN : undefined;
}

/** Returns the bus policy as a resource policy, for principals that this account's own policies cannot admit. */
function policyOf(bus: IEventBus, conditions: Conditions): IResourceWithPolicy {
  const stack = Stack.of(bus);
  return {
    node: bus.node,
    env: bus.env,
    stack,
    applyRemovalPolicy: () => {},
    with: (...mixins) => bus.with(...mixins),
    addToResourcePolicy: (given) => {
      const { Principal: principal, ...json } = given.toStatementJson() as {
        readonly Principal: string | Readonly<Record<string, unknown>>;
        readonly Condition?: Conditions;
      };
      // A principal with its own conditions, such as an organization, would otherwise replace ours.
      const Condition = Object.fromEntries(
        [...new Set([...Object.keys(json.Condition ?? {}), ...Object.keys(conditions)])].map((operator) => [
          operator,
          { ...json.Condition?.[operator], ...conditions[operator] },
        ]),
      );
      const says = { ...json, Condition };
      const hash = createHash('sha256').update(`${uniqueId(stack)} ${JSON.stringify(stack.resolve(says))}`);
      const statementId = `Fairlead${hash.digest('hex').slice(0, SID_DIGITS)}`;
      const there = bus.node.tryFindChild(statementId);
      const statement = there instanceof BusStatement ? there : new BusStatement(bus, statementId, says);
      statement.admit(typeof principal === 'string' ? { AWS: principal } : principal);
      return { statementAdded: true, policyDependable: statement };
    },
  };
}

export function sendMessages(queue: IQueue, grantee: IGrantable): Grant {
  return QueueGrants.fromQueue(queue).actions(grantee, ['sqs:SendMessage'], { keyActions: SEND_KEY_ACTIONS });
}

function invokeFunction(functionArn: string, grantee: IGrantable): Grant {
  return Grant.addToPrincipal({ grantee, actions: ['lambda:InvokeFunction'], resourceArns: [functionArn] });
}

export function consumeMessages(queue: IQueue, grantee: IGrantable): Grant {
  return QueueGrants.fromQueue(queue).actions(
    grantee,
    ['sqs:ReceiveMessage', 'sqs:ChangeMessageVisibility', 'sqs:DeleteMessage'],
    { keyActions: ['kms:Decrypt'] },
  );
}
