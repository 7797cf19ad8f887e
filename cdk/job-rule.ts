/** Events of a business that become jobs: a rule, and which part of the event becomes which part of the job. */

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

const HASH_DIGITS = 8;

interface JobRuleProps {
  readonly pattern: EventPattern;
  readonly job: JobOfEvent;
  readonly bus: IEventBus;
  readonly ingest: Ingest;
}

/** @throws ConfigurationError for what is no place in an event, and for a rule that is there already */
export function jobRule(scope: Construct, { pattern, job, bus, ingest }: JobRuleProps): Rule {
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
  checkBusPlace('bus', bus.env, Stack.of(scope));
  const resolved: object = Stack.of(scope).resolve(pattern);
  checkPattern('pattern', resolved, 'Divide it among several rules.');
  // By what it says, and not by its turn among the others: a rule that is added before it changes nothing of it.
  const said = JSON.stringify(Stack.of(scope).resolve([resolved, type, paths, bus.eventBusName]));
  const id = `On ${type} ${createHash('sha256').update(said).digest('hex').slice(0, HASH_DIGITS)}`;
  if (scope.node.tryFindChild(id) !== undefined)
    throw new ConfigurationError('job', type, 'is made of the same events already', 'Declare the rule once.');
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
