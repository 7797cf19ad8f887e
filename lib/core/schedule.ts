/**
 * Recurring work: when a schedule fires, what happens to fires that were missed, and to fires that overlap.
 *
 * Reading cron patterns is left to a library behind `CronPattern`, which knows nothing of time zones: it walks
 * wall-clock time, written as if it were UTC. The step from wall clock to instant is taken here, so what happens when
 * clocks change is this file's rule and not a library's:
 *
 * - **fixed times** (`30 2 * * *`): in the hour that is skipped, the fire is `shift`ed to the first instant after the
 *   gap, or `skip`ped; in the hour that comes twice it fires at its `first` or `second` occurrence, or at `both`.
 * - **intervals** (an hour field that is a wildcard: every hour, or every two): they follow elapsed time. Nothing is made up
 *   for a gap, and the hour that comes twice counts twice.
 *
 * Instants are epoch milliseconds.
 */
import { ConfigurationError } from './errors.ts';

/** A cron pattern, read. Wall-clock times are milliseconds as if the wall stood in UTC. */
export interface CronPattern {
  /** The first wall-clock time strictly after another; undefined if there is none. */
  next(afterWallMs: number): number | undefined;
}

/** Reads a pattern of five fields (from minutes) or six (from seconds), or throws a ConfigurationError. */
export type ReadCron = (expression: string) => CronPattern;

/** How many milliseconds a zone's wall clock is ahead of UTC at an instant. */
export type ZoneOffset = (timeZone: string, atMs: number) => number;

/** What happens to fixed times when clocks change. */
export interface DstPolicy {
  readonly gap: 'shift' | 'skip';
  readonly overlap: 'first' | 'second' | 'both';
}

export const DST_DEFAULTS: DstPolicy = { gap: 'shift', overlap: 'first' };

/** When a schedule fires. */
export type Recurrence =
  | {
      readonly kind: 'cron';
      readonly expression: string;
      /** IANA name, such as `Europe/Berlin`. */
      readonly timeZone: string;
      readonly dst?: DstPolicy | undefined;
    }
  /** At `anchorMs` and every `everyMs` after it. Elapsed time: no zone, no clock change. */
  | { readonly kind: 'rate'; readonly everyMs: number; readonly anchorMs: number };

/** Strictly ascending instants. */
export interface Fires {
  /** The first fire strictly after an instant; undefined if there is none. */
  next(afterMs: number): number | undefined;
}

/** What to do with fires whose time passed unnoticed for longer than `graceMs`. */
export interface MisfirePolicy {
  /** `skip`: none of them. `once`: the latest one for all. `all`: each, the oldest first. */
  readonly policy: 'skip' | 'once' | 'all';
  readonly graceMs: number;
  /** At most this many fires at once; the rest follows with the next look. */
  readonly batch: number;
}

export const MISFIRE_DEFAULTS: MisfirePolicy = { policy: 'once', graceMs: 60_000, batch: 100 };

/** What a fire does while an earlier one is not finished. */
export type OverlapPolicy = 'allow' | 'skip' | 'wait' | 'replace';

/** `wait`: start when the earlier one is done, at most one waits. `replace`: cancel the earlier ones, then start. */
export type OverlapDecision = 'start' | 'skip' | 'wait' | 'replace';

/** Nicknames for patterns; the only place where a schedule's text may begin with an @. */
const NICKNAMES: ReadonlyMap<string, string> = new Map([
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
  ['@monthly', '0 0 1 * *'],
  ['@weekly', '0 0 * * 0'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@hourly', '0 * * * *'],
]);

const RATE = /^rate\((\d{1,9}) (second|minute|hour|day)s?\)$/;
const UNIT_MS = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/**
 * Reads `rate(5 minutes)`, `cron(0 9 * * 1-5)`, a bare pattern, or a nickname such as `@daily`.
 * @throws ConfigurationError if it is a rate of nothing.
 */
export function readRecurrence(text: string, timeZone: string, anchorMs: number): Recurrence {
  const trimmed = text.trim();
  const rate = RATE.exec(trimmed);
  if (rate !== null) {
    const everyMs = Number(rate[1]) * UNIT_MS[rate[2] as keyof typeof UNIT_MS];
    if (everyMs > 0) return { kind: 'rate', everyMs, anchorMs };
  }
  if (rate !== null || trimmed.startsWith('rate')) {
    throw new ConfigurationError(
      'schedule',
      text,
      'must be a rate of at least one second, minute, hour or day',
      'Write it as rate(5 minutes).',
    );
  }
  const cron = /^cron\((.*)\)$/.exec(trimmed);
  return { kind: 'cron', expression: (cron?.[1] ?? trimmed).trim(), timeZone };
}

/**
 * A schedule's fires.
 * @throws ConfigurationError if the pattern, the zone or the rate is wrong.
 */
export function firesOf(
  recurrence: Recurrence,
  readCron: ReadCron,
  offset: ZoneOffset = zoneOffsetMs,
): Fires {
  if (recurrence.kind === 'rate') return rateFires(recurrence.everyMs, recurrence.anchorMs);
  const expression = NICKNAMES.get(recurrence.expression.toLowerCase()) ?? recurrence.expression;
  const pattern = readCron(expression);
  const { timeZone } = recurrence;
  // Fails now rather than at the first fire.
  offset(timeZone, 0);
  const dst: DstPolicy = isInterval(expression)
    ? { gap: 'skip', overlap: 'both' }
    : (recurrence.dst ?? DST_DEFAULTS);
  return { next: (afterMs) => nextCron(pattern, (atMs) => offset(timeZone, atMs), dst, afterMs) };
}

/**
 * Which fires to carry out now, and where to go on.
 * @param lastMs The last fire that was dealt with, or the instant the schedule was made.
 */
export function fireNow(
  fires: Fires,
  lastMs: number,
  nowMs: number,
  misfire: MisfirePolicy,
): {
  /** Ascending, none in the future. */
  readonly fires: readonly number[];
  /** `lastMs` for the next look. */
  readonly dealtWithMs: number;
  /** When to look next: an instant already past if the batch left some over; undefined if never. */
  readonly nextMs: number | undefined;
} {
  const lateMs = nowMs - misfire.graceMs;
  let fromMs = lastMs;
  const found: number[] = [];
  if (misfire.policy !== 'all') {
    const missed = latest(fires, lastMs, lateMs - 1);
    if (missed !== undefined) {
      if (misfire.policy === 'once') found.push(missed);
      fromMs = missed;
    }
  }
  const batch = Math.max(1, misfire.batch);
  let next = fires.next(fromMs);
  while (next !== undefined && next <= nowMs && found.length < batch) {
    found.push(next);
    fromMs = next;
    next = fires.next(next);
  }
  return { fires: found, dealtWithMs: fromMs, nextMs: next };
}

/** What a fire does. @param unfinished Jobs of the schedule that run. @param waiting Fires that wait already. */
export function decideOverlap(policy: OverlapPolicy, unfinished: number, waiting: number): OverlapDecision {
  if (unfinished === 0 && waiting === 0) return 'start';
  switch (policy) {
    case 'allow':
      return 'start';
    case 'skip':
      return 'skip';
    case 'wait':
      return waiting === 0 ? 'wait' : 'skip';
    case 'replace':
      return 'replace';
  }
}

/**
 * A zone's offset from the platform's time-zone data.
 * @throws ConfigurationError if there is no such zone.
 */
export function zoneOffsetMs(timeZone: string, atMs: number): number {
  // As in 12/31/2026, 23:59:59.
  const parts = formatFor(timeZone).format(atMs).split(/\D+/).map(Number);
  const [month, day, year, hour, minute, second] = parts as [number, number, number, number, number, number];
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(atMs / 1000) * 1000;
}

const formats = new Map<string, Intl.DateTimeFormat>();

// Making a format costs more than a thousand uses of it.
function formatFor(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known !== undefined) return known;
  const format = makeFormat(timeZone);
  formats.set(timeZone, format);
  return format;
}

function makeFormat(timeZone: string): Intl.DateTimeFormat {
  try {
    return new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
  } catch {
    throw new ConfigurationError(
      'timeZone',
      timeZone,
      'is no known zone',
      'Use an IANA name: Europe/Berlin.',
    );
  }
}

function rateFires(everyMs: number, anchorMs: number): Fires {
  if (!Number.isSafeInteger(everyMs) || everyMs < 1) {
    throw new ConfigurationError('everyMs', everyMs, 'must be a whole number of at least 1', 'Milliseconds.');
  }
  return {
    next: (afterMs) =>
      afterMs < anchorMs ? anchorMs : anchorMs + (Math.floor((afterMs - anchorMs) / everyMs) + 1) * everyMs,
  };
}

// The hour is the fourth field from the end, whether seconds lead or not.
function isInterval(expression: string): boolean {
  return /(?:^|\s)[*?]\S*(?:\s+\S+){3}$/.test(expression.trim());
}

const DAY_MS = 86_400_000;

/** A pattern that matches only skipped times could go on for ever: after so many it counts as exhausted. */
const MOST_SKIPPED = 1_000;

function nextCron(
  pattern: CronPattern,
  offset: (atMs: number) => number,
  dst: DstPolicy,
  afterMs: number,
): number | undefined {
  // Wall-clock times are visited in order, but where the clock is set back their instants are not: the earliest wall
  // time that can still fire is the one shown before the change, so begin a change's width earlier.
  const offsetsNear = [offset(afterMs - DAY_MS), offset(afterMs), offset(afterMs + DAY_MS)];
  let wallMs = afterMs + Math.min(...offsetsNear) - 1;
  let best: number | undefined;
  for (let visited = 0; visited < MOST_SKIPPED + WALL_STEPS; visited += 1) {
    const nextWallMs = pattern.next(wallMs);
    if (nextWallMs === undefined) return best;
    wallMs = nextWallMs;
    // Later walls cannot come before what was found, once they are a whole change past it.
    if (best !== undefined && wallMs - Math.max(...offsetsNear) > best) return best;
    for (const atMs of instantsOf(wallMs, offset, dst)) {
      if (atMs > afterMs && (best === undefined || atMs < best)) best = atMs;
    }
  }
  return best;
}

/** Walls between the start of the search and a fire: a change of at most a day, second by second. */
const WALL_STEPS = 2 * 86_400;

/** The instants at which a wall clock shows a time: one, none where it is set forward, two where it is set back. */
function instantsOf(wallMs: number, offset: (atMs: number) => number, dst: DstPolicy): readonly number[] {
  const before = offset(wallMs - DAY_MS);
  const after = offset(wallMs + DAY_MS);
  const candidates = before === after ? [wallMs - before] : [wallMs - before, wallMs - after];
  const shown = candidates.filter((atMs) => atMs + offset(atMs) === wallMs).sort((one, other) => one - other);
  const [first, second] = shown;
  if (first === undefined) return dst.gap === 'shift' ? [gapEnd(wallMs, before, offset)] : [];
  if (second === undefined || dst.overlap === 'first') return [first];
  return dst.overlap === 'second' ? [second] : [first, second];
}

/** The first instant after the gap in which a wall-clock time is missing. */
function gapEnd(wallMs: number, before: number, offset: (atMs: number) => number): number {
  let early = wallMs - DAY_MS - before;
  let late = wallMs - before;
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (offset(middle) === before) early = middle;
    else late = middle;
  }
  return late;
}

/** The latest fire in (afterMs, untilMs], by halving: a long outage of a frequent schedule costs no more than a short one. */
function latest(fires: Fires, afterMs: number, untilMs: number): number | undefined {
  const first = fires.next(afterMs);
  if (first === undefined || first > untilMs) return undefined;
  // Invariant: the fire after `low` is in time, the one after `high` is not.
  let low = afterMs;
  let high = untilMs;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    const next = fires.next(middle);
    if (next !== undefined && next <= untilMs) low = middle;
    else high = middle;
  }
  return fires.next(low);
}
