/** Makes jobs of business events: a rule, and a mapping from fields of the event to fields of the job. */

import { createHash } from 'node:crypto';
import { Stack } from 'aws-cdk-lib';
import { EventField, type EventPattern, type IEventBus, Rule, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { DETAIL_TYPE } from '../lib/events/contract.ts';
import { EVENT_PATH } from '../lib/submit/event-job.ts';
import type { Ingest } from './ingest.ts';
import { checkPattern } from './sources.ts';
import { checkBusPlace } from './validation.ts';

/** The job of an event: its type, and for each other field a path in the event, such as `$.detail.order.id`. */
export interface JobOfEvent<Type extends string = string> {
  readonly type: Type;
  /** The path of the payload. @default - `$.detail` */
  readonly payload?: string | undefined;
  readonly fairnessKey?: string | undefined;
  readonly resourceId?: string | undefined;
  /** The path of the idempotency key. @default - none: an event makes one job, even if it is delivered several times */
  readonly idempotencyKey?: string | undefined;
}

const HASH_DIGITS = 8;

interface JobRuleProps {
  readonly pattern: EventPattern;
  readonly job: JobOfEvent;
  readonly bus: IEventBus;
  readonly ingest: Ingest;
}

/** @throws ConfigurationError for a path outside the event's detail, a pattern that is too long, and a rule that exists already */
export function jobRule(scope: Construct, { pattern, job, bus, ingest }: JobRuleProps): Rule {
  const { type, payload = '$.detail', ...keys } = job;
  const paths = Object.entries({ payload, ...keys }).filter(([, path]) => path !== undefined);
  for (const [field, path] of paths)
    if (typeof path !== 'string' || !EVENT_PATH.test(path))
      throw new ConfigurationError(
        `job.${field}`,
        path,
        'must be a path in the detail of the event',
        'Write it as $.detail.order.id.',
      );
  checkBusPlace('bus', bus.env, Stack.of(scope));
  const resolved: object = Stack.of(scope).resolve(pattern);
  checkPattern('pattern', resolved, 'Divide it among several rules.');
  // The id is a hash of the rule's content, so that a rule added before it does not change it.
  const said = JSON.stringify(Stack.of(scope).resolve([resolved, type, paths, bus.eventBusName]));
  const id = `On ${type} ${createHash('sha256').update(said).digest('hex').slice(0, HASH_DIGITS)}`;
  if (scope.node.tryFindChild(id) !== undefined)
    throw new ConfigurationError(
      'job',
      type,
      'is already made from the same events',
      'Declare the rule once.',
    );
  const rule = new Rule(scope, id, {
    description: `Events that become jobs of type ${type}`,
    eventBus: bus,
    eventPattern: pattern,
  });
  const input = RuleTargetInput.fromObject({
    id: EventField.eventId,
    time: EventField.time,
    'detail-type': DETAIL_TYPE.requested,
    detail: EventField.fromPath('$.detail'),
    job: { type, ...Object.fromEntries(paths) },
  });
  rule.addTarget(ingest.targetOf(rule, input));
  return rule;
}
