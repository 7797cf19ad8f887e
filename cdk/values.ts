/**
 * Values of other kinds than TypeScript would accept. Who writes an app in JavaScript is told by the name of the field, not by what
 * breaks inside of the library, or is left out in silence.
 */

import { type Duration, Token } from 'aws-cdk-lib';
import { ConfigurationError } from '../lib/core/errors.ts';
import { type Check, objectOf } from '../lib/core/read-fields.ts';
import { nearest } from '../lib/core/spelling.ts';

/** Its own file checks it, and what it is about. */
export const checkedElsewhere: Check = () => {};

const isFilled = (value: unknown): value is string => typeof value === 'string' && value !== '';

export const checkText: Check = (field, value) => {
  if (isFilled(value) || Token.isUnresolved(value)) return;
  throw new ConfigurationError(field, value, 'must be a text that is not empty', 'Write it in quotes.');
};

/** Something of the library that is known by a member which all of its kind have, whoever has made it: two copies of the library do not know each other's classes. */
export const having =
  (member: string, what: string): Check =>
  (field, value) => {
    if (typeof value === 'object' && value !== null && member in value) return;
    throw new ConfigurationError(
      field,
      value,
      `must be ${what}`,
      'Give the construct itself, not its name or ARN: there is a static method from… for one that is deployed elsewhere.',
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

/** What the library takes as it is: later versions of it may know other fields, so a name is refused only where it is a misspelt one. */
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

/** Names whose values the library checks. */
export const libraryNames = <Name extends string>(
  names: Readonly<Record<Name, true>>,
): Readonly<Record<Name, Check>> =>
  Object.fromEntries(Object.keys(names).map((name) => [name, checkedElsewhere])) as Record<Name, Check>;

/** The library calls what comes in the place of a field by its name and a number: `systemLogLevel`, `systemLogLevelV2`. */
const isNext = (name: string, known: readonly string[]): boolean => {
  const first = name.replace(/V\d+$/, '');
  return first !== name && known.some((each) => each.replace(/V\d+$/, '') === first);
};

/** Names of what is there that nobody knows. */
export const unknownTo = (checks: Readonly<Record<string, Check>>, value: object): readonly string[] =>
  Object.entries(value).flatMap(([name, each]) =>
    each === undefined || Object.hasOwn(checks, name) ? [] : [name],
  );

/** Values by any name. */
export const recordOf =
  (check: Check): Check =>
  (field, value) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw new ConfigurationError(field, value, 'must be an object', 'Write it as { name: value }.');
    for (const [name, each] of Object.entries(value)) check(`${field}.${name}`, each);
  };

const isDuration = (value: unknown): value is Duration =>
  typeof value === 'object' && value !== null && 'toMilliseconds' in value && 'isUnresolved' in value;

interface Bounds {
  readonly least: Duration;
  readonly most?: Duration;
}

/** Times of what AWS counts in seconds. */
export const durationWithin =
  ({ least, most }: Bounds): Check =>
  (field, value) => {
    if (!isDuration(value)) {
      throw new ConfigurationError(
        field,
        value,
        'must be a Duration',
        'Write it as Duration.minutes(5), with the Duration of aws-cdk-lib.',
      );
    }
    if (value.isUnresolved()) return;
    const ms = value.toMilliseconds();
    const isWithin =
      ms >= least.toMilliseconds() && ms <= (most?.toMilliseconds() ?? Number.POSITIVE_INFINITY);
    if (isWithin && ms % 1_000 === 0) return;
    const bound = most === undefined ? '' : ` and at most ${most.toHumanString()}`;
    throw new ConfigurationError(
      field,
      value.toHumanString(),
      `must be whole seconds, at least ${least.toHumanString()}${bound}`,
      'Leave it out for the default.',
    );
  };
