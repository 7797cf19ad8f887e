/** Numbers, times and names as people read them. */
import type { CapacityView } from '../../operate/capacity.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Returns a duration in at most two units. */
export function durationText(ms: number): string {
  const all = Math.abs(ms);
  if (all < SECOND) return `${Math.round(all)} ms`;
  if (all < 10 * SECOND) return `${(all / SECOND).toFixed(1)} s`;
  if (all < MINUTE) return `${Math.round(all / SECOND)} s`;
  const [unit, name, lesser, lesserName] =
    all < HOUR
      ? [MINUTE, 'min', SECOND, 's']
      : all < DAY
        ? [HOUR, 'h', MINUTE, 'min']
        : [DAY, 'd', HOUR, 'h'];
  const rest = Math.floor((all % unit) / lesser);
  return `${Math.floor(all / unit)} ${name}${rest === 0 ? '' : ` ${rest} ${lesserName}`}`;
}

/** How far an instant is from now. */
export function fromNow(atMs: number, nowMs: number): string {
  const ms = atMs - nowMs;
  if (Math.abs(ms) < SECOND) return 'now';
  return ms > 0 ? `in ${durationText(ms)}` : `${durationText(ms)} ago`;
}

export const isoText = (atMs: number): string => new Date(atMs).toISOString();

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});
const dated = new Intl.DateTimeFormat(undefined, {
  dateStyle: 'medium',
  timeStyle: 'medium',
  hourCycle: 'h23',
});
export const clockText = (atMs: number): string => clock.format(atMs);
export const dateText = (atMs: number): string => dated.format(atMs);

const plainNumber = new Intl.NumberFormat('en');
export const numberText = (value: number): string => plainNumber.format(value);

/** Returns a count that may have been cut at its bound. */
export const countText = (count: number, more: boolean): string => `${numberText(count)}${more ? '+' : ''}`;

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${numberText(count)} ${count === 1 ? one : many}`;

/** `a, b and c`. */
export function listText(parts: readonly string[]): string {
  const last = parts.at(-1) ?? '';
  return parts.length < 2 ? last : `${parts.slice(0, -1).join(', ')} and ${last}`;
}

/** Returns the kind and the name of a scope: `tier/standard`. */
export function scopeParts(scope: string): readonly [kind: string, name: string] {
  const slash = scope.indexOf('/');
  return slash < 0 ? [scope, ''] : [scope.slice(0, slash), scope.slice(slash + 1)];
}

export const scopeText = (scope: string): string =>
  scopeParts(scope)
    .filter((part) => part !== '')
    .join(' ');

/** Returns the scope as requests name it; undefined for one that cannot be controlled. */
export function scopeOf(scope: string): unknown {
  const [kind, name] = scopeParts(scope);
  if (kind === 'pool') return 'pool';
  if (kind === 'key') return { fairnessKey: name };
  if (kind === 'limit') {
    const [limit, key] = scopeParts(name);
    return name.includes('/') ? { limit, key } : { limit };
  }
  return kind === 'resource' ? undefined : { [kind]: name };
}

export type ScopeRow = CapacityView['scopes'][number];
export const isFull = ({ cap, running }: Pick<ScopeRow, 'cap' | 'running'>): boolean =>
  cap !== undefined && running >= cap;
