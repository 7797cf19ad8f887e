/**
 * Turns command-line arguments into arguments of the client's verbs. The client's own checks are not repeated here.
 */
import { readFileSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import * as z from 'zod';
import { CLIENT_LIMITS } from '../client/arguments.ts';
import type { JobKeys, JobUnits, Tags } from '../core/job.ts';
import { parseScope, type Scope } from '../core/scope.ts';
import { didYouMean } from '../core/spelling.ts';
import type { Supposition } from '../operate/supposition.ts';

/** The command line is wrong. The command ends with exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The most bytes of a file that is read. Larger files are refused. */
const FILE_BYTES_MAX = 64 * 1024 * 1024;
const STDIN = '-';

/** @throws UsageError - none of the options is given */
export function needsOne(given: readonly unknown[], options: string): void {
  if (given.every((each) => each === undefined)) throw new UsageError(`name ${options}`);
}

/** Reads a number in decimal notation; `5x`, `0x10` and the empty text are refused. */
export function numberOf(option: string, text: string): number {
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new UsageError(`${option}: must be a number, such as 5, not ${JSON.stringify(text)}`);
}

/** Adds the repeatable option `--tag`, whose value is then the tags by name. */
export const withTags = (command: Command, description: string): Command =>
  withNamed(command, '--tag', `${description}; repeat it for more tags`, 'order=4711');

/** What limits count of a job. */
export interface LimitOptions {
  readonly keys?: JobKeys;
  readonly units?: JobUnits;
}

/** Adds the repeatable options `--keys` and `--units`, whose values are then the keys by name, and the units by limit. */
export const withLimitOptions = (command: Command): Command =>
  withNamed(
    command,
    '--keys',
    'a further key, such as org=acme, for limits with keyedBy; repeat it for more',
    'org=acme',
  ).option(
    '--units <limit=number>',
    'units for a limit whose rate counts them, such as openai=1200; repeat it for more',
    (text: string, before: JobUnits = {}) => {
      const [name, value] = namedIn('--units', text, 'openai=1200');
      return { ...before, [name]: numberOf(`--units ${name}`, value) };
    },
  );

const withNamed = (command: Command, option: string, description: string, example: string): Command =>
  command.option(`${option} <name=value>`, description, (text: string, before: Tags = {}) => {
    const [name, value] = namedIn(option, text, example);
    return { ...before, [name]: value };
  });

function namedIn(option: string, text: string, example: string): readonly [name: string, value: string] {
  const at = text.indexOf('=');
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)];
  throw new UsageError(
    `${option}: must be a name and a value, such as ${example}, not ${JSON.stringify(text)}`,
  );
}

/** The largest `--limit`. */
const LIMIT_MAX = 10_000;
/** The default of `--limit`. */
export const LIMIT = '100';

/** Returns the value of `--limit`. */
export function limitOf(text: string): number {
  const limit = numberOf('--limit', text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw new UsageError(`--limit: must be a whole number from 1 to ${LIMIT_MAX}, not ${text}`);
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Returns the milliseconds of a duration such as `500ms`, `30s`, `5m` or `1.5h`. */
export function durationMsOf(option: string, text: string): number {
  const [, amount, unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  const unitMs = UNITS_MS[unit];
  if (amount === undefined || unitMs === undefined) {
    throw new UsageError(
      `${option}: must be a number with a unit, such as 30s, 5m or 1h, not ${JSON.stringify(text)}`,
    );
  }
  return Number(amount) * unitMs;
}

/** Returns the value of `--timeout` in milliseconds. */
export function timeoutMsOf(text: string): number {
  const ms = durationMsOf('--timeout', text);
  if (ms > 0 && ms <= CLIENT_LIMITS.timeoutMs) return ms;
  throw new UsageError(`--timeout: must be above 0 and at most 24h, not ${JSON.stringify(text)}`);
}

/** The last instant whose year has four digits. */
const LAST_MS = Date.UTC(10_000, 0) - 1;

const INSTANT = z.iso.datetime({ offset: true });

/**
 * Epoch milliseconds of an ISO 8601 instant with a zone. Dates that do not exist, such as 30 February, are refused.
 */
export function instantMsOf(option: string, text: string): number {
  if (INSTANT.safeParse(text).success) return Date.parse(text);
  throw new UsageError(
    `${option}: must be an ISO 8601 instant with a zone, such as 2027-01-31T08:00:00Z, not ${JSON.stringify(text)}`,
  );
}

/** The two options that name an instant. */
export interface InstantOptions {
  readonly runAt?: string;
  readonly in?: string;
}

/** Returns the instant that `--run-at` or `--in` names, in ISO 8601. */
export function instantFrom(options: InstantOptions, nowMs: number): string {
  const { runAt, in: delay } = options;
  if (runAt !== undefined && delay === undefined) return runAt;
  if (runAt !== undefined || delay === undefined) {
    throw new UsageError('name exactly one of --run-at and --in');
  }
  const atMs = nowMs + durationMsOf('--in', delay);
  if (atMs <= LAST_MS) return new Date(atMs).toISOString();
  throw new UsageError(`--in: ${JSON.stringify(delay)} from now is after the year 9999`);
}

/** Parses JSON from an option or a file. */
export function jsonFrom(option: string, text: string): unknown {
  try {
    // Editors may write a byte order mark, which is not JSON.
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new UsageError(`${option}: is not JSON (${messageOf(cause)})`, { cause });
  }
}

/** Explanations of common reasons why a file cannot be read. */
const UNREADABLE: Readonly<Record<string, string>> = {
  EISDIR: 'it is a directory; name a file',
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EACCES: 'this user is not allowed to read it',
};

/** Reads a file; `-` is the standard input. */
export function readText(option: string, path: string): string {
  try {
    if (path !== STDIN && statSync(path).size > FILE_BYTES_MAX) {
      throw new UsageError(`${option}: ${path} has more than ${FILE_BYTES_MAX} bytes; split it`);
    }
    return readFileSync(path === STDIN ? 0 : path, 'utf8');
  } catch (cause) {
    if (cause instanceof UsageError) throw cause;
    const { code = '' } = cause as NodeJS.ErrnoException;
    const reason = UNREADABLE[code] ?? messageOf(cause);
    throw new UsageError(`${option}: ${path} cannot be read (${reason})`, { cause });
  }
}

const SUPPOSED =
  'limit:openai.perKey=6, limit:openai/acme=6, pool=20, type:report.paused=false or key:acme.weight=3';

/** The value of `--if`: a scope, perhaps a field of it, and the value. The field is the cap unless another is named. */
export function suppositionOf(text: string): Supposition {
  const wrong = (what: string): UsageError =>
    new UsageError(`--if: ${what}, such as ${SUPPOSED}, not ${JSON.stringify(text)}`);
  const [, left = '', given = ''] = /^(.+)=([^=]*)$/s.exec(text) ?? [];
  const [, named = left, field = 'maxConcurrency'] =
    /^(.*)\.(maxConcurrency|total|perKey|weight|paused)$/s.exec(left) ?? [];
  const scope = supposedScope(named, field === 'perKey');
  if (scope === undefined) throw wrong('must name a scope, its field and a value');
  if (field === 'paused') {
    if (given === 'true' || given === 'false') return { scope, paused: given === 'true' };
    throw wrong('a pause is true or false');
  }
  const value = given === 'none' ? null : given.trim() === '' ? Number.NaN : Number(given);
  if (Number.isNaN(value)) throw wrong('must have a number after =, or none for what is declared');
  return field === 'weight' ? { scope, weight: value } : { scope, maxConcurrency: value };
}

/** A scope as `--if` names it; undefined: it is none. `ownKey`: of a limit, the job's own key. */
function supposedScope(text: string, ownKey: boolean): Supposition['scope'] | undefined {
  const colon = text.indexOf(':');
  const name = text.slice(colon + 1);
  const kind = colon === -1 ? text : text.slice(0, colon);
  if (ownKey) return kind === 'limit' && !name.includes('/') ? { limit: name, key: true } : undefined;
  const scope = text === 'pool' ? text : colon === -1 ? undefined : parseScope(`${kind}/${name}`);
  return scope === undefined || (typeof scope === 'object' && 'resource' in scope) ? undefined : scope;
}

/** The ways to name a scope. */
export interface ScopeOptions {
  readonly pool?: true;
  readonly tier?: string;
  readonly type?: string;
  readonly fleet?: string;
  readonly limit?: string;
  /** A fairness key, of the limit if one is named. */
  readonly key?: string;
}

/** Returns the one scope that the options name. */
export function scopeOf(options: ScopeOptions): Scope {
  const scopes: Scope[] = [];
  if (options.pool === true) scopes.push('pool');
  if (options.tier !== undefined) scopes.push({ tier: options.tier });
  if (options.type !== undefined) scopes.push({ type: options.type });
  if (options.fleet !== undefined) scopes.push({ fleet: options.fleet });
  if (options.limit !== undefined) scopes.push({ limit: options.limit, key: options.key });
  else if (options.key !== undefined) scopes.push({ fairnessKey: options.key });
  const [scope] = scopes;
  if (scope === undefined || scopes.length > 1) {
    throw new UsageError(
      'name exactly one of --pool, --tier, --type, --fleet, --limit and --key; --key may stand beside --limit',
    );
  }
  return scope;
}

/** Refuses unknown subcommands of a group, which would be taken for arguments of its default command. */
export function refusingOthers(group: Command): Command {
  return group.hook('preSubcommand', () => {
    const names = ['help', ...group.commands.map((command) => command.name())];
    const [word] = group.args;
    if (word === undefined || word.startsWith('-') || names.includes(word)) return;
    const meant = didYouMean(word, names);
    throw new UsageError(
      `unknown command ${JSON.stringify(word)}. ${meant}${group.name()} has: ${names.slice(1).join(', ')}`,
    );
  });
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
