/** Events of a business that become jobs: a rule, and which part of the event becomes which part of the job. */
import { Duration } from 'aws-cdk-lib';
import { EventField, type EventPattern, type IEventBus, Rule, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { EVENT_PATH } from '../lib/dispatch/event-job.ts';
import { DETAIL_TYPE } from '../lib/events/contract.ts';

/** A job for each event: its type, and for each of its fields the place in the event where it stands, such as `$.detail.order.id`. */
export interface JobOfEvent<Type extends string = string> {
  readonly type: Type;
  /** @default - `$.detail` */
  readonly payload?: string | undefined;
  readonly fairnessKey?: string | undefined;
  readonly resourceId?: string | undefined;
  /** @default - none: an event makes one job, however often it is delivered */
  readonly idempotencyKey?: string | undefined;
}

interface JobRuleProps {
  readonly pattern: EventPattern;
  readonly job: JobOfEvent;
  readonly bus: IEventBus;
  readonly queue: IQueue;
  readonly deadLetterQueue: IQueue;
}

/** @throws ConfigurationError for what is no place in an event */
export function jobRule(
  scope: Construct,
  id: string,
  { pattern, job, bus, queue, deadLetterQueue }: JobRuleProps,
): Rule {
  const { type, payload = '$.detail', ...keys } = job;
  const paths = Object.entries({ payload, ...keys }).filter(([, path]) => path !== undefined);
  for (const [field, path] of paths)
    if (typeof path !== 'string' || !EVENT_PATH.test(path))
      throw new ConfigurationError(
        `job.${field}`,
        path,
        'must be a place in the detail of the event',
        'Write it as $.detail.order.id.',
      );
  return new Rule(scope, id, {
    description: `Events that become jobs of type ${type}`,
    eventBus: bus,
    eventPattern: pattern,
    targets: [
      new SqsQueue(queue, {
        deadLetterQueue,
        retryAttempts: 185,
        maxEventAge: Duration.hours(24),
        message: RuleTargetInput.fromObject({
          id: EventField.eventId,
          time: EventField.time,
          'detail-type': DETAIL_TYPE.requested,
          detail: EventField.fromPath('$.detail'),
          job: { type, ...Object.fromEntries(paths) },
        }),
      }),
    ],
  });
}
