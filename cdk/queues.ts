/**
 * Two kinds of queues. A queue whose messages must not be lost has a dead-letter queue. Queues of hints (wakes, messages
 * to fleets) have none: the table's items say what there is to do, so a hint that is not received within a day is
 * dropped.
 */
import { Duration, Lazy, RemovalPolicy } from 'aws-cdk-lib';
import { type AddToResourcePolicyResult, AnyPrincipal, Effect, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { CfnQueuePolicy, Queue, type QueuePolicy, type QueueProps } from 'aws-cdk-lib/aws-sqs';
import { Construct, type IDependable } from 'constructs';
import { acknowledge } from './acknowledged.ts';

/**
 * How long dead letters and messages that must not be lost are kept: SQS's longest retention. The time of a dead letter
 * counts from when its message was first sent.
 */
const RETENTION = Duration.days(14);
/** How long hints are kept: longer than the longest visibility timeout of a message to a fleet, 12 hours. */
const HINT_RETENTION = Duration.days(1);

/** Settings of all queues of a scheduler. */
export interface QueueSettings {
  /** The key of the queues. @default - a key of SQS */
  readonly encryptionKey?: IKey | undefined;
  /**
   * The removal policy of the queues.
   * @default RemovalPolicy.DESTROY
   */
  readonly removalPolicy?: RemovalPolicy | undefined;
}

export interface GuardedQueueProps extends QueueSettings {
  /** How long a received message stays hidden. */
  readonly visibilityTimeout: Duration;
  /** Deliveries of a message before it becomes a dead letter. */
  readonly maxReceiveCount: number;
}

export interface HintQueueProps extends QueueSettings {
  /** How long a received message stays hidden. */
  readonly visibilityTimeout: Duration;
  /** The name of the queue. @default - generated */
  readonly queueName?: string | undefined;
  /** The policy that requires TLS, shared with other queues. @default - a policy of its own */
  readonly tls?: SharedTls | undefined;
}

/** Denies requests without TLS. In a queue's policy, `*` means that queue. */
const tlsStatement = (): PolicyStatement =>
  new PolicyStatement({
    effect: Effect.DENY,
    principals: [new AnyPrincipal()],
    actions: ['sqs:*'],
    resources: ['*'],
    conditions: { Bool: { 'aws:SecureTransport': 'false' } },
  });

/**
 * A queue that shares its policy with others until it needs its own, which then requires TLS too.
 *
 * A queue has only one policy, even if several resources set it. If a deployment moves a queue from one policy resource
 * to the other, the old resource clears the policy. So it must be updated first, or be retained instead of deleted,
 * because deletions come last.
 */
class SharingQueue extends Queue {
  hasOwnPolicy = false;
  shared: IDependable | undefined;

  override addToResourcePolicy(statement: PolicyStatement): AddToResourcePolicyResult {
    if (!this.hasOwnPolicy) {
      this.hasOwnPolicy = true;
      super.addToResourcePolicy(tlsStatement());
      const own = this.node.findChild('Policy') as QueuePolicy;
      own.applyRemovalPolicy(RemovalPolicy.RETAIN);
      if (this.shared !== undefined) own.node.addDependency(this.shared);
    }
    return super.addToResourcePolicy(statement);
  }
}

/** If there are no queues, the policy is left out, because SQS would refuse it. */
class QueuesPolicy extends CfnQueuePolicy {
  readonly #queues: () => readonly string[];

  constructor(scope: Construct, id: string, queues: () => readonly string[]) {
    super(scope, id, {
      queues: Lazy.list({ produce: () => [...queues()] }),
      policyDocument: { Version: '2012-10-17', Statement: [tlsStatement().toStatementJson()] },
    });
    this.#queues = queues;
    this.applyRemovalPolicy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE);
  }

  protected override shouldSynthesize(): boolean {
    return this.#queues().length > 0;
  }
}

/** One policy for many queues. One for each would be half of the resources that a stack may have. */
export class SharedTls extends Construct {
  private readonly queues: SharingQueue[] = [];

  constructor(scope: Construct, id: string) {
    super(scope, id);
    new QueuesPolicy(this, 'Policy', () =>
      this.queues.filter((queue) => !queue.hasOwnPolicy).map((queue) => queue.queueUrl),
    );
  }

  cover(queue: SharingQueue): Queue {
    this.queues.push(queue);
    queue.shared = this;
    acknowledge(queue, 'sharedTls');
    return queue;
  }
}

export interface GuardedQueue {
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;
}

export function guardedQueue(scope: Construct, id: string, props: GuardedQueueProps): GuardedQueue {
  const { visibilityTimeout, maxReceiveCount } = props;
  const kept = { ...keptAs(props), enforceSSL: true, retentionPeriod: RETENTION };
  const deadLetterQueue = new Queue(scope, `${id}DeadLetters`, kept);
  const queue = new Queue(scope, id, {
    ...kept,
    visibilityTimeout,
    deadLetterQueue: { queue: deadLetterQueue, maxReceiveCount },
  });
  return { queue, deadLetterQueue };
}

export function hintQueue(scope: Construct, id: string, props: HintQueueProps): Queue {
  const { visibilityTimeout, queueName, tls } = props;
  const kept = {
    ...keptAs(props),
    visibilityTimeout,
    retentionPeriod: HINT_RETENTION,
    ...(queueName === undefined ? {} : { queueName }),
  };
  const queue =
    tls === undefined
      ? new Queue(scope, id, { ...kept, enforceSSL: true })
      : tls.cover(new SharingQueue(scope, id, kept));
  acknowledge(queue, 'hints');
  return queue;
}

const keptAs = ({ encryptionKey, removalPolicy }: QueueSettings): QueueProps => ({
  removalPolicy: removalPolicy ?? RemovalPolicy.DESTROY,
  // SQS requests a data key every five minutes. A key for each message would cost more than the messages.
  ...(encryptionKey === undefined
    ? {}
    : { encryptionMasterKey: encryptionKey, dataKeyReuse: Duration.minutes(5) }),
});

/**
 * Returns AWS's recommended visibility timeout for a queue of a function: room for its retries while it is throttled.
 */
export function visibilityFor(functionTimeout: Duration): Duration {
  return Duration.seconds(functionTimeout.toSeconds() * 6);
}

/**
 * How long after the end of its function a message may return. By then the lease that the attempt has on the job is
 * over.
 */
const BEHIND_FUNCTION = Duration.seconds(20);

/**
 * Returns the visibility timeout of a fleet's queue. A message returns only if its function died, or could not begin.
 * An early return lets the job of a dead function start again sooner, because the next receiver finds that the
 * attempt's time is over.
 */
export function fleetVisibilityFor(functionTimeout: Duration): Duration {
  return Duration.seconds(functionTimeout.toSeconds() + BEHIND_FUNCTION.toSeconds());
}
