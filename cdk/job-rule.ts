/** Makes jobs of business events: a rule, and a mapping from fields of the event to fields of the job. */

import { createHash } from 'node:crypto';
import { Annotations, Stack } from 'aws-cdk-lib';
import { EventField, type EventPattern, type IEventBus, Rule, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import type { Construct } from 'constructs';
import type { PoolConfiguration } from '../lib/core/configuration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf, readObject, recordOf } from '../lib/core/read-fields.ts';
import { DETAIL_TYPE, EVENT_SOURCE } from '../lib/events/contract.ts';
import { EVENT_PATH, NAMED_FIELDS } from '../lib/submit/event-job.ts';
import { parseRequests } from '../lib/submit/request.ts';
import type { Ingest } from './ingest.ts';
import { rulePrefix } from './names.ts';
import { checkPattern } from './sources.ts';
import { checkBusPlace } from './validation.ts';
import { checkText } from './values.ts';

/** The job of an event: its type, and for each other field a path in the event, such as `$.detail.order.id`. */
export interface JobOfEvent<Type extends string = string> {
  readonly type: Type;
  /** The path of the payload. @default - `$.detail` */
  readonly payload?: string | undefined;
  readonly fairnessKey?: string | undefined;
  readonly resourceId?: string | undefined;
  /** The paths of further keys, by their names: `{ org: '$.detail.org' }`. */
  readonly keys?: Readonly<Record<string, string>> | undefined;
  /** The paths of the job's units, by the names of limits whose rates count units: `{ openai: '$.detail.tokens' }`. */
  readonly units?: Readonly<Record<string, string>> | undefined;
  /** The paths of the tags, by their names: `{ order: '$.detail.order.id' }`. */
  readonly tags?: Readonly<Record<string, string>> | undefined;
  /** The path of the idempotency key. @default - none: an event makes one job, even if it is delivered several times */
  readonly idempotencyKey?: string | undefined;
}

const isPath: Check = (field, path) => {
  if (typeof path === 'string' && EVENT_PATH.test(path)) return;
  throw new ConfigurationError(
    field,
    path,
    'must be a path in the detail of the event',
    'Write it as $.detail.order.id.',
  );
};

const CHECKS: Readonly<Record<keyof JobOfEvent, Check>> = {
  type: checkText,
  payload: isPath,
  fairnessKey: isPath,
  resourceId: isPath,
  keys: recordOf(isPath),
  units: recordOf(isPath),
  tags: recordOf(isPath),
  idempotencyKey: isPath,
};

/** The fields of an event that a pattern may match. In JavaScript a misspelt one would make a rule that no event matches. */
const PATTERN_FIELDS = [
  ...['version', 'id', 'detailType', 'detail-type', 'source', 'account', 'time', 'region', 'resources'],
  ...['detail', '$or'],
];

const HASH_DIGITS = 8;

interface JobRuleProps {
  readonly pattern: EventPattern;
  readonly job: JobOfEvent;
  readonly bus: IEventBus;
  readonly isOwnBus: boolean;
  readonly ingest: Ingest;
}

/** Returns a job as the rule would make it of an event that has a short value at each path. */
function exampleOf({ type, payload: _, keys, units, tags, ...fields }: JobOfEvent): object {
  const filled = <Value>(paths: object = {}, value: Value): Readonly<Record<string, Value>> =>
    Object.fromEntries(
      Object.entries(paths).flatMap(([name, path]) => (path === undefined ? [] : [[name, value]])),
    );
  return {
    type,
    ...filled(fields, 'a'),
    keys: filled(keys, 'a'),
    units: filled(units, 1),
    tags: filled(tags, 'a'),
  };
}

/**
 * Checks that the type accepts the jobs of a rule.
 * @throws ConfigurationError if every one of them would be rejected
 */
export function checkJobOfEvent(job: JobOfEvent, configuration: PoolConfiguration): void {
  const [refusal] = parseRequests(exampleOf(job), configuration).refused;
  if (refusal === undefined) return;
  throw new ConfigurationError(
    `job.${refusal.field}`,
    job,
    refusal.reason,
    'Every event of the rule would be rejected.',
  );
}

/** Whether a field of an event pattern accepts a value. A filter that is not known here accepts none. */
function accepts(filters: unknown, value: string): boolean {
  if (!Array.isArray(filters)) return true;
  return filters.some((filter: unknown) => {
    if (typeof filter !== 'object' || filter === null) return filter === value;
    const { prefix, exists, 'anything-but': except } = filter as Readonly<Record<string, unknown>>;
    if (typeof prefix === 'string') return value.startsWith(prefix);
    return exists === true || (except !== undefined && ![except].flat().includes(value));
  });
}

/** Whether the outcome of a job that the rule made matches the rule. */
function matchesOwnOutcome({ source, detailType, detail }: EventPattern, type: string): boolean {
  const { requested: _, rejected: __, ...outcomes } = DETAIL_TYPE;
  return (
    accepts(source, EVENT_SOURCE) &&
    Object.values(outcomes).some((each) => accepts(detailType, each)) &&
    accepts(detail?.type, type)
  );
}

/**
 * Creates the rule that makes jobs of business events.
 * @throws ConfigurationError for an unknown field of the job or the pattern, a path outside the event's detail, a pattern that is too long, and a rule that exists
 * already
 */
export function jobRule(scope: Construct, { pattern, job, bus, isOwnBus, ingest }: JobRuleProps): Rule {
  objectOf(CHECKS)('job', job);
  const { type, payload = '$.detail', tags = {}, keys = {}, units = {}, ...fields } = job;
  const named = [
    ...Object.entries(keys).map(([name, path]) => [`${NAMED_FIELDS.keys}${name}`, path] as const),
    ...Object.entries(units).map(([name, path]) => [`${NAMED_FIELDS.units}${name}`, path] as const),
    ...Object.entries(tags).map(([name, path]) => [`${NAMED_FIELDS.tags}${name}`, path] as const),
  ];
  const paths = [...Object.entries({ payload, ...fields }), ...named].filter(
    ([, path]) => path !== undefined,
  );
  checkBusPlace('bus', bus.env, Stack.of(scope));
  const resolved: EventPattern = Stack.of(scope).resolve(pattern);
  readObject('pattern', resolved, PATTERN_FIELDS);
  checkPattern('pattern', resolved, 'Divide it among several rules.');
  // The id is a hash of the rule's content, so that a rule added before it does not change it.
  const said = JSON.stringify(Stack.of(scope).resolve([resolved, type, paths, bus.eventBusName]));
  const hash = createHash('sha256').update(said).digest('hex').slice(0, HASH_DIGITS);
  const id = `On ${type} ${hash}`;
  if (scope.node.tryFindChild(id) !== undefined)
    throw new ConfigurationError(
      'job',
      type,
      'is already made from the same events',
      'Declare the rule once.',
    );
  if (isOwnBus && matchesOwnOutcome(resolved, type))
    Annotations.of(scope).addWarningV2(
      `fairlead:feeds-itself:${id}`,
      `Outcomes of jobs of type ${type} match the rule that makes such jobs, so each job may make another one. Name the source of the events in the pattern, or acknowledge this warning.`,
    );
  const prefix = rulePrefix(scope);
  const rule = new Rule(scope, id, {
    ruleName: `${prefix}-${hash}`,
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
  rule.addTarget(ingest.targetOfRules(prefix, input));
  return rule;
}
