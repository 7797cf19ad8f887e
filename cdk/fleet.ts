/** A fleet: its queue, and the function behind the queue if there is one. */

import { Annotations, Duration, Stack } from 'aws-cdk-lib';
import type { Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { Alias, IFunction, ProvisionedPollerConfig, Version } from 'aws-cdk-lib/aws-lambda';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { FleetConfiguration } from '../lib/core/configuration.ts';
import type { DurationInput } from '../lib/core/duration.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import { consumeQueue } from './event-sources.ts';
import type { SchedulerGrants } from './grants.ts';
import type { Handler } from './handlers.ts';
import { isPartOf, stackWideName } from './names.ts';
import { fleetVisibilityFor, hintQueue, type QueueSettings, type SharedTls } from './queues.ts';
import {
  checkedElsewhere,
  checkText,
  durationWithin,
  having,
  libraryObjectOf,
  toDuration,
} from './values.ts';

/** The lowest concurrency that an event source of SQS accepts. The fleet's slots can be fewer. */
export const EVENT_SOURCE_MIN_CONCURRENCY = 2;

/** The visibility timeout for a process that does not give one with its receives. */
const PROCESS_VISIBILITY = Duration.minutes(1);

/** The longest name of a queue in SQS, in characters. */
const QUEUE_NAME_MAX = 80;

/** The props of a fleet. An unknown prop is refused with a `ConfigurationError`. */
export interface FleetProps<Type extends string = string> {
  /** The job types that the fleet accepts, at least one. */
  readonly types: readonly Type[];
  /**
   * The most jobs that the fleet runs at once, at least 1. Null, as without a value, lets processes register their own
   * slots; it is refused with a handler.
   * @default 10 with a handler; without one, the slots that worker processes register
   */
  readonly slots?: number | null | undefined;
  /**
   * The function that runs the jobs: a function of Node.js 22 or later whose handler was made by `worker()`, or a version
   * or an alias of one. `WorkerFunction` makes one with all recommended settings. The construct adds the environment
   * variables that it needs to find the scheduler, the rights to start and finish jobs, and the event source.
   * @default - long-running processes serve the queue: see `grants.work` and `workerEnvironment`
   */
  readonly handler?: IFunction | Version | Alias | undefined;
  /**
   * The timeout of a handler that this app does not create, up to 15 minutes: jobs must end before it. Required for such
   * a handler; a value that differs from the known timeout of a function is refused.
   * @default - the function's own
   */
  readonly handlerTimeout?: DurationInput | undefined;
  /**
   * The most jobs that one invocation of the handler runs, side by side in one process, 1 to 10. Use 1 if handlers
   * compute, need much memory or may end their process: then no job can slow down or end another one. Refused without a
   * handler.
   * @default 10
   */
  readonly batchSize?: number | undefined;
  /**
   * The most invocations at once, 2 to 1,000, if that should be fewer than the slots need, or for an emulator that needs
   * a limit. Lambda keeps five pollers at a queue with such a limit, and two at an idle queue without one. Refused
   * without a handler and with `provisionedPollers`.
   * @default - none: the slots limit the messages in the queue
   */
  readonly maxConcurrency?: number | undefined;
  /**
   * How long a received message stays hidden, up to 12 hours and not less than the handler's timeout. The message of a
   * dead function reveals the death when it returns, so the job starts again then: at the earliest 10 s after the
   * handler's timeout, counted from the start.
   * @default - 20 s more than the handler's timeout; 1 minute without a handler
   */
  readonly visibilityTimeout?: DurationInput | undefined;
  /**
   * Dedicated pollers for the queue: `minimumPollers` 2 to 200, `maximumPollers` up to 2,000. They start jobs sooner
   * under sudden load, and cost money while idle. Then only the slots limit the invocations, because Lambda accepts
   * either pollers or a maximum concurrency. Refused without a handler.
   * @default - Lambda's shared pollers, which cost nothing
   */
  readonly provisionedPollers?: ProvisionedPollerConfig | undefined;
}

/** The limit of SQS and Lambda. */
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

/** @throws ConfigurationError for an unknown prop of a fleet, and for an impossible value */
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
  /** The name under which the fleet was declared. */
  readonly fleet: string;
  readonly types: readonly string[];
  /** Null if workers register their own slots. */
  readonly slots: number | null;
  readonly queue: Queue;
  /** Undefined if long-running processes serve the queue. */
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
        input.visibilityTimeout === undefined
          ? handler === undefined
            ? PROCESS_VISIBILITY
            : fleetVisibilityFor(handler.timeout)
          : toDuration(input.visibilityTimeout),
      queueName,
      tls: props.tls,
    });
    if (handler === undefined) return;
    const source = queueName === undefined ? this.queue : namedQueue(this, handler.function, queueName);
    consumeQueue(handler.function, source, this.eventSource(input));
    props.grants.table(handler.function, 'work');
    this.setEnvironment(handler, props.environment);
  }

  /** Age of the oldest message that waits for a worker, in seconds. If it exceeds some seconds, the fleet is too small or stuck. */
  metricQueueAge(options?: MetricOptions): Metric {
    return this.queue.metricApproximateAgeOfOldestMessage(options);
  }

  /** Returns the number of messages that no worker has received yet. Each names up to `batchSize` jobs. */
  metricQueueDepth(options?: MetricOptions): Metric {
    return this.queue.metricApproximateNumberOfMessagesVisible(options);
  }

  private eventSource({ maxConcurrency, provisionedPollers }: FleetConstructProps['input']) {
    // Every message in the queue has a slot, so no reserved concurrency is needed. It would be taken from the account,
    // and throttled receives would count as failures.
    return {
      // A message names as many jobs as one invocation runs, so Lambda must not combine messages.
      batchSize: 1,
      ...(provisionedPollers === undefined
        ? maxConcurrency === undefined
          ? {}
          : { maxConcurrency }
        : { provisionedPollerConfig: provisionedPollers }),
    };
  }

  /** Adds variables to the environment of the function, if this app creates it. */
  addEnvironment(environment: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(environment)) this.#own?.addEnvironment(name, value);
  }

  /** Adds the fleet's variables to the function's environment. */
  private setEnvironment(
    { own, function: lambda }: Handler,
    environment: Readonly<Record<string, string>>,
  ): void {
    if (own !== undefined) {
      for (const [name, value] of Object.entries(environment)) own.addEnvironment(name, value);
      return;
    }
    Annotations.of(lambda).addWarningV2(
      'fairlead:handler-environment',
      `The handler of fleet ${this.fleet} is not created in this app, so its environment cannot be set here: set ${Object.keys(environment).join(', ')} in the app that creates it.`,
    );
  }
}

/**
 * Returns the name of the fleet's queue if its function is in another stack; undefined for a generated name. Exports
 * would not work: a stack may have 200, and an export in use cannot be removed, so neither could the fleet.
 */
function nameForOthers(fleet: Fleet, handler: IFunction | undefined): string | undefined {
  if (handler === undefined || isPartOf(Stack.of(handler), Stack.of(fleet))) return undefined;
  return stackWideName(fleet, QUEUE_NAME_MAX);
}

/** Returns the fleet's queue, as the function's stack refers to it. */
function namedQueue(fleet: Fleet, handler: IFunction, queueName: string): IQueue {
  Stack.of(handler).addStackDependency(Stack.of(fleet), 'the queue of the fleet is there');
  const arn = Stack.of(fleet).formatArn({ service: 'sqs', resource: queueName });
  return Queue.fromQueueArn(handler, `Queue of ${fleet.fleet}`, arn);
}
