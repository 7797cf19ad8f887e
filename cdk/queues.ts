/** A queue never stands alone: what cannot be processed goes to a dead-letter queue of its own. */
import { Duration, Lazy } from 'aws-cdk-lib';
import { type AddToResourcePolicyResult, AnyPrincipal, Effect, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { CfnQueuePolicy, Queue, type QueueProps } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

/** As long as SQS keeps anything: the clock of a dead letter began when the message was first sent. */
const DEAD_LETTER_RETENTION = Duration.days(14);

export interface GuardedQueueProps {
  /** How long a received message stays hidden. */
  readonly visibilityTimeout: Duration;
  /** Receives before a message counts as dead. */
  readonly maxReceiveCount: number;
  /** @default - generated */
  readonly queueName?: string | undefined;
  /** Keeps both queues to TLS. @default - a policy for each of them */
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

/** A queue that shares its policy with others until somebody gives it one: then that refuses what does not come over TLS, too. */
class SharingQueue extends Queue {
  hasOwnPolicy = false;

  override addToResourcePolicy(statement: PolicyStatement): AddToResourcePolicyResult {
    if (!this.hasOwnPolicy) {
      this.hasOwnPolicy = true;
      super.addToResourcePolicy(tlsStatement());
    }
    return super.addToResourcePolicy(statement);
  }
}

/** One policy for many queues: one for each would be half of what a stack may hold. */
export class SharedTls extends Construct {
  private readonly queues: SharingQueue[] = [];

  constructor(scope: Construct, id: string) {
    super(scope, id);
    new CfnQueuePolicy(this, 'Policy', {
      queues: Lazy.list({
        produce: () => this.queues.filter((queue) => !queue.hasOwnPolicy).map((queue) => queue.queueUrl),
      }),
      policyDocument: { Version: '2012-10-17', Statement: [tlsStatement().toStatementJson()] },
    });
  }

  cover(queue: SharingQueue): Queue {
    this.queues.push(queue);
    return queue;
  }
}

export interface GuardedQueue {
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;
}

export function guardedQueue(scope: Construct, id: string, props: GuardedQueueProps): GuardedQueue {
  const { visibilityTimeout, maxReceiveCount, queueName, tls } = props;
  const deadLetters = deadLetterQueue(scope, `${id}DeadLetters`, tls);
  const queue = queueUnder(tls, scope, id, {
    visibilityTimeout,
    deadLetterQueue: { queue: deadLetters, maxReceiveCount },
    ...(queueName === undefined ? {} : { queueName }),
  });
  return { queue, deadLetterQueue: deadLetters };
}

export function deadLetterQueue(scope: Construct, id: string, tls?: SharedTls): Queue {
  return queueUnder(tls, scope, id, { retentionPeriod: DEAD_LETTER_RETENTION });
}

const queueUnder = (tls: SharedTls | undefined, scope: Construct, id: string, props: QueueProps): Queue =>
  tls === undefined
    ? new Queue(scope, id, { ...props, enforceSSL: true })
    : tls.cover(new SharingQueue(scope, id, props));

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
