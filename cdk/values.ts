/**
 * Checks of values that TypeScript would refuse. An app in JavaScript gets an error that names the field, instead of a
 * failure inside aws-cdk-lib or a value that is silently ignored.
 */

import { Duration, Token } from 'aws-cdk-lib';
import { type DurationInput, durationMs } from '../lib/core/duration.ts';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf, recordOf } from '../lib/core/read-fields.ts';
import { nearest } from '../lib/core/spelling.ts';

/** Accepts any value: for a field that another file checks. */
export const checkedElsewhere: Check = () => {};

const isFilled = (value: unknown): value is string => typeof value === 'string' && value !== '';

export const checkText: Check = (field, value) => {
  if (isFilled(value) || Token.isUnresolved(value)) return;
  throw new ConfigurationError(field, value, 'must be a text that is not empty', 'Write it in quotes.');
};

/**
 * Returns a check for an object of aws-cdk-lib, by a member that all of its kind have. Classes do not help, because two
 * copies of the library have different ones.
 */
export const having =
  (member: string, what: string): Check =>
  (field, value) => {
    if (typeof value === 'object' && value !== null && member in value) return;
    throw new ConfigurationError(
      field,
      value,
      `must be ${what}`,
      'Give the construct itself, not its name or ARN. For a resource of another app, use the static from… method of its class.',
    );
  };

export const oneOf =
  (choices: object, what: string): Check =>
  (field, value) => {
    const values = Object.values(choices);
    if (values.includes(value)) return;
    throw new ConfigurationError(field, value, `must be ${what}`, 'Leave it out for the default.');
  };

export const listOf =
  (check: Check): Check =>
  (field, value) => {
    if (!Array.isArray(value))
      throw new ConfigurationError(field, value, 'must be a list', 'Write it as [first, second].');
    for (const [at, each] of value.entries()) check(`${field}[${at}]`, each);
  };

/**
 * Checks an object that goes to aws-cdk-lib. Later versions may have more fields, so an unknown name is refused only if
 * it looks misspelt.
 */
export const libraryObjectOf =
  (checks: Readonly<Record<string, Check>>): Check =>
  (field, value) => {
    recordOf(checkedElsewhere)(field, value);
    const known = Object.keys(checks);
    const meant = Object.entries(value as object).filter(
      ([name, each]) =>
        each !== undefined &&
        (known.includes(name) || (!isNext(name, known) && nearest(name, known) !== undefined)),
    );
    objectOf(checks)(field, Object.fromEntries(meant));
  };

/** Names of fields whose values aws-cdk-lib checks. */
export const libraryNames = <Name extends string>(
  names: Readonly<Record<Name, true>>,
): Readonly<Record<Name, Check>> =>
  Object.fromEntries(Object.keys(names).map((name) => [name, checkedElsewhere])) as Record<Name, Check>;

/**
 * Whether a name is that of a field's successor, which aws-cdk-lib marks by a number: `systemLogLevel`,
 * `systemLogLevelV2`.
 */
const isNext = (name: string, known: readonly string[]): boolean => {
  const first = name.replace(/V\d+$/, '');
  return first !== name && known.some((each) => each.replace(/V\d+$/, '') === first);
};

/** Returns the names in the value that are not known. */
export const unknownTo = (checks: Readonly<Record<string, Check>>, value: object): readonly string[] =>
  Object.entries(value).flatMap(([name, each]) =>
    each === undefined || Object.hasOwn(checks, name) ? [] : [name],
  );

/** Whether the value is a `Duration`, of any copy of aws-cdk-lib. */
export const isDuration = (value: unknown): value is Duration =>
  typeof value === 'object' && value !== null && 'toMilliseconds' in value && 'isUnresolved' in value;

/**
 * Returns a duration as aws-cdk-lib takes it. It may be known only at deployment. @throws ConfigurationError if it is
 * none
 */
export const toDuration = (given: DurationInput, field = ''): Duration =>
  isDuration(given) ? given : Duration.millis(durationMs(field, given));

interface Bounds {
  readonly least: Duration;
  readonly most?: Duration;
}

/** Checks a duration in whole seconds, which AWS counts in. */
export const durationWithin =
  ({ least, most }: Bounds): Check =>
  (field, value) => {
    if (isDuration(value) && value.isUnresolved()) return;
    const ms = durationMs(field, value);
    const isWithin =
      ms >= least.toMilliseconds() && ms <= (most?.toMilliseconds() ?? Number.POSITIVE_INFINITY);
    if (isWithin && ms % 1_000 === 0) return;
    const bound = most === undefined ? '' : ` and at most ${most.toHumanString()}`;
    throw new ConfigurationError(
      field,
      Duration.millis(ms).toHumanString(),
      `must be whole seconds, at least ${least.toHumanString()}${bound}`,
      'Leave it out for the default.',
    );
  };
