/**
 * Two kinds of queues. Behind one whose messages must not be lost stands a dead-letter queue of its own. Messages that only hint, wakes and
 * those to fleets, have none: the items say what there is to do, so a hint that nothing took in a day is dropped.
 */
import { Duration, Lazy, RemovalPolicy } from 'aws-cdk-lib';
import { type AddToResourcePolicyResult, AnyPrincipal, Effect, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { CfnQueuePolicy, Queue, type QueuePolicy, type QueueProps } from 'aws-cdk-lib/aws-sqs';
import { Construct, type IDependable } from 'constructs';
import { acknowledge } from './acknowledged.ts';

/** As long as SQS keeps anything: the clock of a dead letter began when the message was first sent. */
const RETENTION = Duration.days(14);
/** Longer than a message to a fleet may be hidden, which is 12 hours. */
const HINT_RETENTION = Duration.days(1);

/** What all queues of a scheduler have in common. */
export interface QueueSettings {
  /** @default - encrypted with a key of SQS */
  readonly encryptionKey?: IKey | undefined;
  /** @default RemovalPolicy.DESTROY */
  readonly removalPolicy?: RemovalPolicy | undefined;
}

export interface GuardedQueueProps extends QueueSettings {
  /** How long a received message stays hidden. */
  readonly visibilityTimeout: Duration;
  /** Receives before a message counts as dead. */
  readonly maxReceiveCount: number;
}

export interface HintQueueProps extends QueueSettings {
  /** How long a received message stays hidden. */
  readonly visibilityTimeout: Duration;
  /** @default - generated */
  readonly queueName?: string | undefined;
  /** Keeps it to TLS. @default - a policy of its own */
  readonly tls?: SharedTls | undefined;
}

/** Refuses what does not come over TLS. In the policy of a queue, all resources are that queue. */
const tlsStatement = (): PolicyStatement =>
  new PolicyStatement({
    effect: Effect.DENY,
    principals: [new AnyPrincipal()],
    actions: ['sqs:*'],
    resources: ['*'],
    conditions: { Bool: { 'aws:SecureTransport': 'false' } },
  });

/**
 * A queue that shares its policy with others until somebody gives it one: then that refuses what does not come over TLS, too.
 *
 * A queue has one policy, whatever resources set it. Where a deployment moves it from one to the other, the one that lets go clears it: so it lets
 * go first, or is forgotten instead of deleted, as deletions come last.
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

/** The policy is not there where it would be that of no queue: SQS takes none. */
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

/** One policy for many queues: one for each would be half of what a stack may hold. */
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
  // A data key is asked for every five minutes, not with every message: that would cost more than the messages.
  ...(encryptionKey === undefined
    ? {}
    : { encryptionMasterKey: encryptionKey, dataKeyReuse: Duration.minutes(5) }),
});

/**
 * AWS's rule for a queue in front of a function: room for its retries while it is throttled.
 */
export function visibilityFor(functionTimeout: Duration): Duration {
  return Duration.seconds(functionTimeout.toSeconds() * 6);
}

/** After the end of its function, a message may be seen again: behind the lease that its attempt has on the job. */
const BEHIND_FUNCTION = Duration.seconds(20);

/**
 * For a fleet's queue: a message comes again only where its function died, or could not begin. The sooner it does, the sooner the
 * job of a function that died goes on: whoever receives it finds that the attempt's time is over.
 */
export function fleetVisibilityFor(functionTimeout: Duration): Duration {
  return Duration.seconds(functionTimeout.toSeconds() + BEHIND_FUNCTION.toSeconds());
}
