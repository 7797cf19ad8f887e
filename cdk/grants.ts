/** Who may do what with a scheduler, one method a role. */

import { createHash } from 'node:crypto';
import { Lazy, Stack } from 'aws-cdk-lib';
import { CfnEventBusPolicy, type IEventBus } from 'aws-cdk-lib/aws-events';
import { Grant, type IGrantable, type IResourceWithPolicy } from 'aws-cdk-lib/aws-iam';
import { type IQueue, QueueGrants } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { DETAIL_TYPE, EVENT_SOURCE, REQUEST_TYPES, SCHEDULE_STOPPED } from '../lib/events/contract.ts';
import { uniqueId } from './names.ts';
import { combinedGrant, grantTable, type RightsTable, type TableRole } from './rights.ts';

/** What grants are about: a scheduler of this app, or one that was deployed by another. */
export interface GrantedParts {
  readonly table: RightsTable;
  readonly bus: IEventBus;
  /** Whose requests the scheduler takes; empty: everybody's but its own. */
  readonly sources: readonly string[];
  readonly wakeQueue: IQueue;
  /** The alias by which the dispatch function is told of jobs. */
  readonly wakeFunctionArn?: string | undefined;
  /** @throws ConfigurationError for a fleet that is not known */
  readonly fleetQueue: (fleet: string) => IQueue;
  /** Calls back with every queue that dispatchers send jobs to: at once with those that are there, later with others. */
  readonly eachFleetQueue: (visit: (queue: IQueue) => void) => void;
  /** Dead-letter queues, which an operator may look into and empty. */
  readonly deadLetterQueues: readonly IQueue[];
  /** The queues that dead letters go back to. */
  readonly redriveQueues: readonly IQueue[];
}

const OUTCOMES = [
  DETAIL_TYPE.succeeded,
  DETAIL_TYPE.failed,
  DETAIL_TYPE.cancelled,
  SCHEDULE_STOPPED,
] as const;

/** `kms:Decrypt`, because SQS checks the data key that it has made. */
const SEND_KEY_ACTIONS = ['kms:GenerateDataKey', 'kms:Decrypt'];

/**
 * Grants, as `scheduler.grants`. Each answers the `Grant`, for whoever wants to assert that it succeeded or to let a
 * resource wait for it.
 */
export class SchedulerGrants {
  readonly #parts: GrantedParts;

  constructor(parts: GrantedParts) {
    this.#parts = parts;
  }

  /** Lets a producer submit with the client, and read, move and cancel its jobs. */
  submit(grantee: IGrantable): Grant {
    const { table, wakeQueue, wakeFunctionArn } = this.#parts;
    // A submitted job starts sooner with a wake, though its stream record causes a pass. One that is moved to a near time needs a message.
    const grants = [grantTable(table, grantee, 'submit'), sendMessages(wakeQueue, grantee)];
    if (wakeFunctionArn !== undefined) grants.push(invokeFunction(wakeFunctionArn, grantee));
    return combinedGrant(grants);
  }

  /**
   * Lets a producer put requests on the bus, `Job Requested` and those about schedules: these only, from the sources that the scheduler takes, and
   * never from its own, so that nobody can forge what became of a job. A producer of another account, or of an organization, is let in by the
   * policy of the bus; its own account must let it put events there, too.
   * @throws ConfigurationError where the policy of the bus, of 10,240 characters, has no room for one more: some 250 accounts
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
   * Lets a long-running process work for a fleet; `workerEnvironment` tells it where.
   * @throws ConfigurationError for a fleet that is not known.
   */
  work(grantee: IGrantable, fleet: string): Grant {
    const { table, wakeQueue, fleetQueue } = this.#parts;
    return combinedGrant([
      consumeMessages(fleetQueue(fleet), grantee),
      grantTable(table, grantee, 'serve'),
      sendMessages(wakeQueue, grantee),
    ]);
  }

  /** Lets a process run passes, as `fairlead dispatcher` does; `schedulerEnvironment` tells it where. */
  dispatch(grantee: IGrantable): Grant {
    return this.passes(grantee, 'reside');
  }

  /** Of the scheduler's own functions, which have no membership; they run passes as any dispatcher. */
  passes(grantee: IGrantable, role: 'dispatch' | 'reside'): Grant {
    const { table, wakeQueue, eachFleetQueue } = this.#parts;
    const grant = combinedGrant([grantTable(table, grantee, role), sendMessages(wakeQueue, grantee)]);
    eachFleetQueue((queue) => sendMessages(queue, grantee));
    return grant;
  }

  /** Lets an operator look at everything, payloads and results too, and change nothing. */
  read(grantee: IGrantable): Grant {
    return grantTable(this.#parts.table, grantee, 'read');
  }

  /**
   * Lets an operator look at jobs, move, cancel and pause them, wake dispatchers, redrive dead letters, and tell once more
   * what became of jobs.
   */
  operate(grantee: IGrantable): Grant {
    const { table, wakeQueue, deadLetterQueues, redriveQueues } = this.#parts;
    const look = (queue: IQueue, ...more: readonly string[]): Grant =>
      QueueGrants.fromQueue(queue).actions(grantee, ['sqs:GetQueueAttributes', ...more]);
    return combinedGrant([
      grantTable(table, grantee, 'operate'),
      sendMessages(wakeQueue, grantee),
      this.tell(grantee, 'outcomes'),
      ...deadLetterQueues.flatMap((queue) => [
        consumeMessages(queue, grantee),
        look(queue, 'sqs:PurgeQueue'),
      ]),
      ...redriveQueues.flatMap((queue) => [sendMessages(queue, grantee), look(queue)]),
    ]);
  }

  /** Of the scheduler's own functions: the rights of a part of it. */
  table(grantee: IGrantable, role: TableRole): Grant {
    return grantTable(this.#parts.table, grantee, role);
  }

  /** Of the scheduler's own functions: tells what became of jobs, or of requests that were refused. */
  tell(grantee: IGrantable, what: 'outcomes' | 'rejections'): Grant {
    const types = what === 'outcomes' ? [...OUTCOMES] : DETAIL_TYPE.rejected;
    return this.#putEvents(grantee, {
      StringEquals: { 'events:detail-type': types, 'events:source': EVENT_SOURCE },
    });
  }

  #putEvents(grantee: IGrantable, conditions: Record<string, Record<string, unknown>>): Grant {
    const { bus } = this.#parts;
    // Not `allPutEvents`, which means every bus of the account.
    return Grant.addToPrincipalOrResource({
      grantee,
      actions: ['events:PutEvents'],
      resourceArns: [bus.eventBusArn],
      conditions,
      resource: policyOf(bus, conditions),
    });
  }
}

/** Each statement of a bus is a resource, by an id that follows from what it says. */
const SID_DIGITS = 16;

/** What EventBridge takes of all statements of a bus together, as its quota "Event bus policy size" says. */
const POLICY_MAX_CHARS = 10_240;
/** What is known only when it is deployed: the address of a bus, at most. */
const TOKEN = 'x'.repeat(100);

type Conditions = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** One statement for all that it lets in on the same conditions: with a statement for each, some twenty of them would fill the policy of a bus. */
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

  /** @throws ConfigurationError where the policy of the bus has no room for it; then it is not let in */
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
      `does not fit into the policy of the bus: with it, the policy has ${chars} characters, and EventBridge takes ${POLICY_MAX_CHARS}`,
      'Let in an OrganizationPrincipal instead of its accounts, or let accounts put their events on a bus between, whose rule sends them on.',
    );
  }

  /** One whose first principal was refused says nothing. */
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

/** A text of CloudFormation as long as it will be at most; undefined: it is none. */
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

/** The policy of a bus, for those whom policies of this account cannot let in. */
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
      // A principal with conditions of its own, such as an organization, would take the place of ours.
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
