/** A queue never stands alone: what cannot be processed goes to a dead-letter queue of its own. */
import { Duration } from 'aws-cdk-lib';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

/** As long as SQS keeps anything: the clock of a dead letter began when the message was first sent. */
const DEAD_LETTER_RETENTION = Duration.days(14);

export interface GuardedQueueProps {
  /** How long a received message stays hidden. */
  readonly visibilityTimeout: Duration;
  /** Receives before a message counts as dead. */
  readonly maxReceiveCount: number;
}

export interface GuardedQueue {
  readonly queue: Queue;
  readonly deadLetterQueue: Queue;
}

export function guardedQueue(scope: Construct, id: string, props: GuardedQueueProps): GuardedQueue {
  const deadLetters = deadLetterQueue(scope, `${id}DeadLetters`);
  const queue = new Queue(scope, id, {
    visibilityTimeout: props.visibilityTimeout,
    enforceSSL: true,
    deadLetterQueue: { queue: deadLetters, maxReceiveCount: props.maxReceiveCount },
  });
  return { queue, deadLetterQueue: deadLetters };
}

export function deadLetterQueue(scope: Construct, id: string): Queue {
  return new Queue(scope, id, { retentionPeriod: DEAD_LETTER_RETENTION, enforceSSL: true });
}

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
