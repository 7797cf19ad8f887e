/**
 * Turns a schema's issue into a message for the person who wrote the value, instead of the schema library's own words.
 */

/** The fields of a schema's issue that the message needs. */
interface Issue {
  readonly code?: string | undefined;
  readonly input?: unknown;
  readonly expected?: unknown;
  readonly origin?: unknown;
  readonly values?: unknown;
  readonly minimum?: unknown;
  readonly maximum?: unknown;
  readonly inclusive?: unknown;
  readonly keys?: unknown;
  readonly pattern?: unknown;
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'an array',
  object: 'an object',
  record: 'an object',
};

/** For `safeParse(value, { error: inWords })`. A schema with a message of its own keeps it. */
export function inWords(issue: Issue): string {
  const { code, expected, values, pattern, keys } = issue;
  switch (code) {
    case 'invalid_type':
      return issue.input === undefined
        ? 'is missing'
        : `must be ${KINDS[String(expected)] ?? String(expected)}`;
    case 'invalid_value': {
      const allowed = (Array.isArray(values) ? values : []).map((each) => JSON.stringify(each));
      return `must be ${allowed.length === 1 ? '' : 'one of '}${allowed.join(', ')}`;
    }
    case 'too_small':
      return boundWords(issue.origin, issue.inclusive === false ? 'more than' : 'at least', issue.minimum);
    case 'too_big':
      return boundWords(issue.origin, issue.inclusive === false ? 'less than' : 'at most', issue.maximum);
    case 'invalid_format':
      return pattern === undefined ? 'is not written as it must be' : `must match ${String(pattern)}`;
    case 'unrecognized_keys':
      return `has a field that is not known: ${Array.isArray(keys) ? keys.join(', ') : ''}`;
    default:
      return 'is not of a kind that is accepted';
  }
}

function boundWords(origin: unknown, relation: string, bound: unknown): string {
  if (origin === 'string') return `must have ${relation} ${bound} characters`;
  if (origin === 'array' || origin === 'set') return `must have ${relation} ${bound} entries`;
  return `must be ${relation} ${bound}`;
}
