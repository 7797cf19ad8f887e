/** A fleet: its queue, and the function behind it if there is one. */

import { Annotations, Duration, Stack } from 'aws-cdk-lib';
import type { Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { Alias, IFunction, ProvisionedPollerConfig, Version } from 'aws-cdk-lib/aws-lambda';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { FleetConfiguration } from '../lib/core/configuration.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import { consumeQueue } from './event-sources.ts';
import type { SchedulerGrants } from './grants.ts';
import type { Handler } from './handlers.ts';
import { stackWideName } from './names.ts';
import { fleetVisibilityFor, hintQueue, type QueueSettings, type SharedTls } from './queues.ts';
import { checkedElsewhere, checkText, durationWithin, having, libraryObjectOf } from './values.ts';

/** SQS accepts nothing lower; the fleet's slots are what holds below it. */
export const EVENT_SOURCE_MIN_CONCURRENCY = 2;

/** A process says with each receive how long it hides a message; this is for one that does not. */
const PROCESS_VISIBILITY = Duration.minutes(1);

/** What SQS takes. */
const QUEUE_NAME_MAX = 80;

/** One fleet, as the platform engineer declares it. */
export interface FleetProps<Type extends string = string> {
  /** The types it takes. One: specialised. Several: versatile. */
  readonly types: readonly Type[];
  /**
   * Jobs that it runs at once.
   * @default 10 with a handler; without one, workers register their own slots
   */
  readonly slots?: number | null | undefined;
  /**
   * What does the work: a function of Node.js 22 or later whose handler is one that `worker()` made, or a version or an
   * alias of one. `WorkerFunction` has everything set. It is given what it needs to find the scheduler in its
   * environment, the rights to start and finish jobs, and the queue as its event source.
   * @default - long-running processes serve the queue: see `grants.work` and `workerEnvironment`
   */
  readonly handler?: IFunction | Version | Alias | undefined;
  /**
   * The timeout of the handler, where it is not made in this app: jobs must end before it.
   * @default - the function's own
   */
  readonly handlerTimeout?: Duration | undefined;
  /**
   * Jobs that one invocation of the handler runs at most, side by side in one process, 1 to 10. Where handlers compute, need much
   * memory or may end their process, say 1: nothing that another job does can then slow a job down or end it.
   * @default 10
   */
  readonly batchSize?: number | undefined;
  /**
   * Invocations at once, 2 to 1,000, where fewer than the slots ask for should run, or where an emulator runs only some at
   * once unless it is told. Lambda keeps five pollers at a queue that has such a bound, and two at an idle one without.
   * @default - none: the slots bound what is in the queue
   */
  readonly maxConcurrency?: number | undefined;
  /**
   * How long a message that was received stays hidden. That of a function that died is what says so: its job starts again
   * when the message is seen, the handler's timeout and 10 s after the start at the earliest.
   * @default - 20 s more than the handler's timeout; 1 minute without a handler
   */
  readonly visibilityTimeout?: Duration | undefined;
  /**
   * Pollers of its own for the queue, which start jobs sooner under sudden load, and cost something when idle. Then the
   * fleet's slots alone bound its invocations: Lambda takes either pollers or a bound.
   * @default - Lambda's shared ones, which cost nothing
   */
  readonly provisionedPollers?: ProvisionedPollerConfig | undefined;
}

/** What SQS and Lambda accept. */
const VISIBILITY_MAX = Duration.hours(12);
const POLLER_FIELDS: Readonly<Record<keyof ProvisionedPollerConfig, Check>> = {
  minimumPollers: checkedElsewhere,
  maximumPollers: checkedElsewhere,
  pollerGroupName: checkText,
};

const FLEET_FIELDS: Readonly<Record<keyof FleetProps, Check>> = {
  types: checkedElsewhere,
  slots: checkedElsewhere,
  handler: having('functionArn', 'a function, or a version or an alias of one'),
  handlerTimeout: durationWithin({ least: Duration.seconds(1) }),
  batchSize: checkedElsewhere,
  maxConcurrency: checkedElsewhere,
  visibilityTimeout: durationWithin({ least: Duration.seconds(0), most: VISIBILITY_MAX }),
  provisionedPollers: libraryObjectOf(POLLER_FIELDS),
};

/** @throws ConfigurationError for a field that a fleet does not have, or of which it cannot be so */
export const checkFleet: Check = objectOf(FLEET_FIELDS);

export interface FleetConstructProps {
  readonly fleet: FleetConfiguration;
  readonly handler: Handler | undefined;
  readonly input: Omit<FleetProps, 'types' | 'slots' | 'handler' | 'handlerTimeout'>;
  readonly environment: Readonly<Record<string, string>>;
  readonly grants: SchedulerGrants;
  readonly queues: QueueSettings;
  readonly tls: SharedTls;
}

export class Fleet extends Construct {
  /** The name it was declared under. */
  readonly fleet: string;
  readonly types: readonly string[];
  /** Null: workers register their own. */
  readonly slots: number | null;
  readonly queue: Queue;
  /** Undefined where long-running processes serve the queue. */
  readonly function: IFunction | undefined;
  readonly #own: Handler['own'];

  constructor(scope: Construct, id: string, props: FleetConstructProps) {
    super(scope, id);
    const { handler, input } = props;
    this.fleet = props.fleet.fleet;
    this.types = props.fleet.types;
    this.slots = props.fleet.slots;
    this.function = handler?.function;
    this.#own = handler?.own;
    const queueName = nameForOthers(this, handler?.function);
    this.queue = hintQueue(this, 'Queue', {
      ...props.queues,
      visibilityTimeout:
        input.visibilityTimeout ??
        (handler === undefined ? PROCESS_VISIBILITY : fleetVisibilityFor(handler.timeout)),
      queueName,
      tls: props.tls,
    });
    if (handler === undefined) return;
    const source = queueName === undefined ? this.queue : namedQueue(this, handler.function, queueName);
    consumeQueue(handler.function, source, this.eventSource(input));
    props.grants.table(handler.function, 'work');
    this.tell(handler, props.environment);
  }

  /** How long the first message has waited for a worker: above some seconds the fleet is too small or stuck. */
  metricQueueAge(options?: MetricOptions): Metric {
    return this.queue.metricApproximateAgeOfOldestMessage(options);
  }

  /** Messages that were sent to the fleet and not yet received: each tells of up to `batchSize` jobs. */
  metricQueueDepth(options?: MetricOptions): Metric {
    return this.queue.metricApproximateNumberOfMessagesVisible(options);
  }

  private eventSource({ maxConcurrency, provisionedPollers }: FleetConstructProps['input']) {
    // Nothing is in the queue that no slot is taken for. Never reserved concurrency: that takes from the account, and throttled
    // receives would count as failures.
    return {
      // A message tells of as many jobs as an invocation takes, however Lambda's pollers share messages out.
      batchSize: 1,
      ...(provisionedPollers === undefined
        ? maxConcurrency === undefined
          ? {}
          : { maxConcurrency }
        : { provisionedPollerConfig: provisionedPollers }),
    };
  }

  /** Says more in the environment of its function, where that is made in this app. */
  tellMore(environment: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(environment)) this.#own?.addEnvironment(name, value);
  }

  /** Says in the function's environment whom it works for. */
  private tell({ own, function: lambda }: Handler, environment: Readonly<Record<string, string>>): void {
    if (own !== undefined) {
      for (const [name, value] of Object.entries(environment)) own.addEnvironment(name, value);
      return;
    }
    Annotations.of(lambda).addWarningV2(
      'fairlead:handler-environment',
      `The handler of fleet ${this.fleet} is not made in this app, so its environment cannot be set here: give it ${Object.keys(environment).join(', ')} where it is made.`,
    );
  }
}

/**
 * The name of the queue of a function in another stack; undefined: it is generated. An export for each queue would be more than
 * the 200 that a stack may have, and one that is imported cannot be taken away: a fleet could not be removed.
 */
function nameForOthers(fleet: Fleet, handler: IFunction | undefined): string | undefined {
  if (handler === undefined || isPartOf(Stack.of(handler), Stack.of(fleet))) return undefined;
  return stackWideName(fleet, QUEUE_NAME_MAX);
}

/** A stack, and those nested in it: they are deployed with it, and know what is in it. */
const isPartOf = (stack: Stack, whole: Stack): boolean =>
  stack === whole || (stack.nestedStackParent !== undefined && isPartOf(stack.nestedStackParent, whole));

/** The fleet's queue as the function's stack names it. */
function namedQueue(fleet: Fleet, handler: IFunction, queueName: string): IQueue {
  Stack.of(handler).addStackDependency(Stack.of(fleet), 'the fleet has its queue there');
  const arn = Stack.of(fleet).formatArn({ service: 'sqs', resource: queueName });
  return Queue.fromQueueArn(handler, `Queue of ${fleet.fleet}`, arn);
}
