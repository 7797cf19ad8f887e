/**
 * Turns command-line arguments into arguments of the client's verbs. The client's own checks are not repeated here.
 */
import { readFileSync, statSync } from 'node:fs';
import type { Command } from 'commander';
import { z } from 'zod';
import { CLIENT_LIMITS } from '../client/arguments.ts';
import type { Tags } from '../core/job.ts';
import type { Scope } from '../core/scope.ts';
import { didYouMean } from '../core/spelling.ts';

/** The command line is wrong. The command ends with exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Larger files are refused without being read. */
const FILE_BYTES_MAX = 64 * 1024 * 1024;
const STDIN = '-';

/** A number in decimal notation; `5x`, `0x10` and the empty text are refused. */
export function numberOf(option: string, text: string): number {
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  throw new UsageError(`${option}: must be a number, such as 5, not ${JSON.stringify(text)}`);
}

/** Adds the repeatable option `--tag`, whose value is then the tags by name. */
export const withTags = (command: Command, description: string): Command =>
  command.option(
    '--tag <name=value>',
    `${description}; repeat it for more tags`,
    (text: string, before: Tags = {}) => {
      const at = text.indexOf('=');
      if (at > 0) return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
      throw new UsageError(
        `--tag: must be a name and a value, such as order=4711, not ${JSON.stringify(text)}`,
      );
    },
  );

/** The largest `--limit`. */
const LIMIT_MAX = 10_000;
/** The default of `--limit`. */
export const LIMIT = '100';

/** The value of `--limit`. */
export function limitOf(text: string): number {
  const limit = numberOf('--limit', text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw new UsageError(`--limit: must be a whole number from 1 to ${LIMIT_MAX}, not ${text}`);
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Milliseconds of a duration such as `500ms`, `30s`, `5m` or `1.5h`. */
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

/** The value of `--timeout` in milliseconds. */
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

/** Two ways to name an instant. */
export interface InstantOptions {
  readonly runAt?: string;
  readonly in?: string;
}

/** The instant that `--run-at` or `--in` names, in ISO 8601. */
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

/** Five ways to name a scope. */
export interface ScopeOptions {
  readonly pool?: true;
  readonly tier?: string;
  readonly type?: string;
  readonly fleet?: string;
  readonly key?: string;
}

/** The one scope that the options name. */
export function scopeOf(options: ScopeOptions): Scope {
  const scopes: Scope[] = [];
  if (options.pool === true) scopes.push('pool');
  if (options.tier !== undefined) scopes.push({ tier: options.tier });
  if (options.type !== undefined) scopes.push({ type: options.type });
  if (options.fleet !== undefined) scopes.push({ fleet: options.fleet });
  if (options.key !== undefined) scopes.push({ fairnessKey: options.key });
  const [scope] = scopes;
  if (scope === undefined || scopes.length > 1) {
    throw new UsageError('name exactly one of --pool, --tier, --type, --fleet and --key');
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
