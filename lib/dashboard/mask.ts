/** Hides secrets in what the dashboard shows: values under certain names, and the same in texts. */
import type { Json } from '../core/job.ts';

/** A value is hidden if its name contains one of these, in any case and with `-` and `_` left out. */
export const MASKED_NAMES = [
  'password',
  'passwd',
  'passphrase',
  'secret',
  'token',
  'authorization',
  'credential',
  'cookie',
  'apikey',
  'accesskey',
  'privatekey',
  'sessionid',
] as const;

/** The text that replaces a hidden value. */
export const MASK = '•••';

const plain = (name: string): string => name.toLowerCase().replace(/[-_]/g, '');

/** The fields of answers that hold what users and handlers wrote. All else is ids, names and numbers of the scheduler. */
const WRITTEN_BY_USERS: ReadonlySet<string> = new Set([
  'payload',
  'result',
  'error',
  'progress',
  'checkpoint',
  'hung',
  'tags',
  'label',
  'detail',
  'reason',
]);

/** Returns a function that hides the values of `MASKED_NAMES`, and of further names, in an answer of the protocol. */
export function maskOf(further: readonly string[] = []): (answer: Json) => Json {
  const names = [...MASKED_NAMES, ...further.map(plain)].filter((name) => name !== '');
  const ofText = textMask(names);
  const isMasked = (name: string): boolean => names.some((each) => plain(name).includes(each));
  const each = (value: Json, map: (name: string, value: Json) => Json): Json => {
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((entry: Json) => map('', entry));
    return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, map(name, entry)]));
  };
  const within = (value: Json): Json =>
    typeof value === 'string'
      ? ofText(value)
      : each(value, (name, entry) => (isMasked(name) ? MASK : within(entry)));
  const answer = (value: Json): Json =>
    each(value, (name, entry) => (WRITTEN_BY_USERS.has(name) ? within(entry) : answer(entry)));
  return answer;
}

/**
 * Returns a function that hides what follows a name in a text, such as in `password=…` or in JSON. Producers and handlers choose
 * the text, so each word is tried once, from its beginning: the time grows with the length of the text, and no faster.
 */
function textMask(names: readonly string[]): (text: string) => string {
  const escaped = (letter: string): string => letter.replace(/\W/g, '\\$&');
  // Each letter of a name may be followed by a separator: api_key is `apikey`.
  const spelled = names.map((name) => Array.from(name, escaped).join('[-_]?'));
  const letter = String.raw`[\w-${escaped(names.join('').replace(/\w/g, ''))}]`;
  const named = new RegExp(
    String.raw`((?<!${letter})(?=${letter}*?(?:${spelled.join('|')}))(?=(?<word>${letter}+))\k<word>(?:\\?["'])?\s*[:=]\s*)` +
      String.raw`(\\?"(?:[^"\\]|\\[^"])*\\?"|'[^']*'|(?:bearer|basic)\s+[^\s,;&}]+|[^\s,;&}]+)`,
    'gi',
  );
  return (text) =>
    text
      .replace(named, `$1${MASK}`)
      .replace(/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${MASK}`)
      // A password in a URL.
      .replace(/(\b[a-z][\w+.-]{0,20}:\/\/[^\s:/@]{0,200}:)[^\s@/]+@/gi, `$1${MASK}@`);
}
