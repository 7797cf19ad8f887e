/**
 * Recurring work: the instants at which a schedule fires.
 *
 * A library behind `CronPattern` reads cron patterns. It knows nothing of time zones: it walks wall-clock time, written
 * as if it were UTC. This file converts wall-clock time to instants, so it decides what happens when clocks change:
 *
 * - A local time that is **skipped** (`gap`): the firing comes at the first valid time after it (`next`), or not at all
 *   (`skip`).
 * - A local time that **comes twice** (`overlap`): it fires the first time (`once`), or both times (`twice`).
 * - By default, fixed times (`30 2 * * *`) are `next` and `once`. Patterns whose hour is a wildcard (every hour, every
 *   two) follow elapsed time: a gap adds no firing, and the hour that comes twice fires twice.
 *
 * Instants are epoch milliseconds.
 */
import { ConfigurationError } from './errors.ts';
import { hashText } from './partition.ts';

/** A parsed cron pattern. Wall-clock times are milliseconds as if the clock showed UTC. */
export interface CronPattern {
  /** The first wall-clock time strictly after another; undefined if there is none. */
  next(afterWallMs: number): number | undefined;
}

/** Parses a pattern of five fields (from minutes) or six (from seconds), or throws a ConfigurationError. */
export type ReadCron = (expression: string) => CronPattern;

/** How many milliseconds a zone's wall clock is ahead of UTC at an instant. */
export type ZoneOffset = (timeZone: string, atMs: number) => number;

export const GAP_POLICIES = ['next', 'skip'] as const;
export type GapPolicy = (typeof GAP_POLICIES)[number];
export const OVERLAP_POLICIES = ['once', 'twice'] as const;
/** `second`: a local time that comes twice fires once, the second time. Users cannot choose it. */
export type OverlapPolicy = (typeof OVERLAP_POLICIES)[number] | 'second';

/** A time in which a schedule does not fire. */
export type Blackout =
  /** Half open: the schedule may fire at `untilMs`. */
  | { readonly kind: 'between'; readonly fromMs: number; readonly untilMs: number }
  /**
   * From one local time to another, in minutes of the day. If the end is not after the start, it ends on the next day.
   * `days`: the days on which it starts, 0 is Sunday; empty: every day.
   */
  | {
      readonly kind: 'daily';
      readonly days: readonly number[];
      readonly fromMinute: number;
      readonly untilMinute: number;
    };

/** When a schedule fires. */
export interface TimeRules {
  /** A pattern, or an interval. */
  readonly when:
    | { readonly kind: 'cron'; readonly expression: string }
    /** Fires at `anchorMs` and every `everyMs` after it. Clock changes do not affect elapsed time. */
    | { readonly kind: 'every'; readonly everyMs: number; readonly anchorMs: number };
  /** IANA name, such as `Europe/Berlin`. */
  readonly timeZone: string;
  readonly gap?: GapPolicy | undefined;
  readonly overlap?: OverlapPolicy | undefined;
  /** No firing comes before this instant. */
  readonly startMs?: number | undefined;
  /** No firing comes at or after this instant. */
  readonly endMs?: number | undefined;
  readonly blackouts?: readonly Blackout[] | undefined;
}

/** A strictly ascending sequence of firings. */
export interface Fires {
  /** The first firing strictly after an instant; undefined if there is none. */
  next(afterMs: number): number | undefined;
  /** The firings as they would be without blackouts; absent if the rules have no blackouts. */
  readonly regardless?: Fires | undefined;
}

/** Nicknames for patterns. Only they may begin with an @. */
const NICKNAMES: ReadonlyMap<string, string> = new Map([
  ['@yearly', '0 0 1 1 *'],
  ['@annually', '0 0 1 1 *'],
  ['@monthly', '0 0 1 * *'],
  ['@weekly', '0 0 * * 0'],
  ['@daily', '0 0 * * *'],
  ['@midnight', '0 0 * * *'],
  ['@hourly', '0 * * * *'],
]);

/** The last instant that a schedule may name or fire at. Clocks and patterns are known to work until then. */
export const LAST_FIRING_MS = Date.UTC(2200, 0) - 1;

/**
 * Returns the firings of a schedule.
 * @throws ConfigurationError if the pattern, the zone or the interval is wrong.
 */
export function firesOf(rules: TimeRules, readCron: ReadCron, offset: ZoneOffset = zoneOffsetMs): Fires {
  const { when, timeZone, startMs = -Infinity, endMs = Infinity, blackouts = [] } = rules;
  // An unknown zone throws now, and not at the first firing.
  offset(timeZone, 0);
  const offsetAt = (atMs: number): number => offset(timeZone, atMs);
  const all =
    when.kind === 'every' ? everyFires(when) : cronFires(rules, when.expression, readCron, offsetAt);
  const lastMs = Math.min(endMs - 1, LAST_FIRING_MS);
  const next = (afterMs: number): number | undefined => {
    if (afterMs >= lastMs) return undefined;
    const atMs = all.next(Math.max(afterMs, startMs - 1));
    return atMs === undefined || atMs > lastMs ? undefined : atMs;
  };
  return blackouts.length === 0 ? { next } : withoutBlackouts({ next }, blackouts, offsetAt);
}

/**
 * Returns the first and the last of the firings that blackouts leave out between an instant and the next firing that
 * takes place.
 */
export function inBlackout(
  fires: Fires,
  afterMs: number,
): { readonly fromMs: number; readonly untilMs: number } | undefined {
  const { regardless } = fires;
  const fromMs = regardless?.next(afterMs);
  const beforeMs = fires.next(afterMs) ?? LAST_FIRING_MS + 1;
  if (regardless === undefined || fromMs === undefined || fromMs >= beforeMs) return undefined;
  return { fromMs, untilMs: latestFiring(regardless, afterMs, beforeMs - 1) ?? fromMs };
}

/** Returns the delay of a schedule's firings within its jitter window, the same for all its firings. */
export const jitterOf = (scheduleId: string, jitterMs: number): number =>
  // planted: random-jitter
  jitterMs <= 0 ? 0 : hashText(`jitter/${scheduleId}`) % (jitterMs + 1);

/**
 * A schedule has no next firing if blackouts leave out every firing on so many days, or so many firings of a rarer
 * pattern. Two years contain every kind of clock change. A day costs one step for each of its blackouts.
 */
const BLACKOUT_DAYS_MAX = 800;

/** Returns the firings that are in no blackout. */
function withoutBlackouts(
  fires: Fires,
  blackouts: readonly Blackout[],
  offsetAt: (atMs: number) => number,
): Fires {
  return {
    regardless: fires,
    next: (afterMs) => {
      let atMs = fires.next(afterMs);
      let days = 0;
      let dayMs = atMs ?? afterMs;
      while (atMs !== undefined && days < BLACKOUT_DAYS_MAX) {
        const untilMs = blackoutUntilMs(blackouts, atMs, offsetAt);
        if (untilMs === undefined) return atMs;
        atMs = fires.next(untilMs - 1);
        if (atMs === undefined || atMs < dayMs + DAY_MS) continue;
        days += 1;
        dayMs = atMs;
      }
      return undefined;
    },
  };
}

/** Returns an instant until which the blackouts that contain `atMs` last at least; undefined if none contains it. */
function blackoutUntilMs(
  blackouts: readonly Blackout[],
  atMs: number,
  offsetAt: (atMs: number) => number,
): number | undefined {
  const offsetMs = offsetAt(atMs);
  const ends = blackouts.flatMap(
    (blackout) =>
      (blackout.kind === 'between'
        ? betweenUntilMs(blackout, atMs)
        : dailyUntilMs(blackout, atMs, offsetMs, offsetAt)) ?? [],
  );
  return ends.length === 0 ? undefined : Math.max(atMs + 1, ...ends);
}

const betweenUntilMs = (
  { fromMs, untilMs }: Extract<Blackout, { readonly kind: 'between' }>,
  atMs: number,
): number | undefined => (atMs >= fromMs && atMs < untilMs ? untilMs : undefined);

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

function dailyUntilMs(
  { days, fromMinute, untilMinute }: Extract<Blackout, { readonly kind: 'daily' }>,
  atMs: number,
  offsetMs: number,
  offsetAt: (atMs: number) => number,
): number | undefined {
  const wallMs = atMs + offsetMs;
  const todayMs = Math.floor(wallMs / DAY_MS) * DAY_MS;
  const lengthMs = ((untilMinute - fromMinute + 1_440) % 1_440 || 1_440) * MINUTE_MS;
  for (const dayMs of [todayMs, todayMs - DAY_MS]) {
    // 1 January 1970 was a Thursday.
    const day = (((dayMs / DAY_MS + 4) % 7) + 7) % 7;
    if (days.length > 0 && !days.includes(day)) continue;
    const fromWallMs = dayMs + fromMinute * MINUTE_MS;
    const untilWallMs = fromWallMs + lengthMs;
    if (wallMs < fromWallMs || wallMs >= untilWallMs) continue;
    // If the clock changes inside the window, this returns the earlier candidate, and the caller checks again from
    // there.
    const untilMs = untilWallMs - offsetMs;
    return Math.min(untilMs, untilWallMs - offsetAt(untilMs));
  }
  return undefined;
}

/**
 * Returns a zone's offset, from the platform's time-zone data.
 * @throws ConfigurationError if the zone does not exist.
 */
export function zoneOffsetMs(timeZone: string, atMs: number): number {
  // The format is 12/31/2026, 23:59:59.
  const parts = formatFor(timeZone).format(atMs).split(/\D+/).map(Number);
  const [month, day, year, hour, minute, second] = parts as [number, number, number, number, number, number];
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(atMs / 1000) * 1000;
}

/** Returns an instant as a zone's clocks show it, with its offset: `2026-03-29T03:00:00+02:00`. */
export function localIso(timeZone: string, atMs: number): string {
  const offsetMs = zoneOffsetMs(timeZone, atMs);
  const wall = new Date(Math.floor(atMs / 1_000) * 1_000 + offsetMs).toISOString().slice(0, 19);
  const [hours, minutes, seconds] = new Date(Math.abs(offsetMs)).toISOString().slice(11, 19).split(':');
  const fraction = atMs % 1_000 === 0 ? '' : `.${String(atMs % 1_000).padStart(3, '0')}`;
  return `${wall}${fraction}${offsetMs < 0 ? '-' : '+'}${hours}:${minutes}${seconds === '00' ? '' : `:${seconds}`}`;
}

const formats = new Map<string, Intl.DateTimeFormat>();
/** The most formats kept. There are some 600 zones, and case makes further names of each. */
const FORMATS_MAX = 1_000;

// Making a format costs more than using it a thousand times.
function formatFor(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known !== undefined) return known;
  const format = makeFormat(timeZone);
  if (formats.size >= FORMATS_MAX) formats.clear();
  formats.set(timeZone, format);
  return format;
}

// Offsets such as +02:00 are refused: only some platforms accept them, and they name no place whose clocks change.
const ZONE_NAME = /^[A-Za-z][A-Za-z0-9_+-]*(\/[A-Za-z0-9_+-]+)*$/;

function makeFormat(timeZone: string): Intl.DateTimeFormat {
  try {
    if (!ZONE_NAME.test(timeZone)) throw new RangeError(timeZone);
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

function everyFires({ everyMs, anchorMs }: { readonly everyMs: number; readonly anchorMs: number }): Fires {
  if (!Number.isSafeInteger(everyMs) || everyMs < 1) {
    throw new ConfigurationError('everyMs', everyMs, 'must be a whole number of at least 1', 'Milliseconds.');
  }
  return {
    next: (afterMs) =>
      afterMs < anchorMs ? anchorMs : anchorMs + (Math.floor((afterMs - anchorMs) / everyMs) + 1) * everyMs,
  };
}

function cronFires(
  { gap, overlap }: Pick<TimeRules, 'gap' | 'overlap'>,
  text: string,
  readCron: ReadCron,
  offsetAt: (atMs: number) => number,
): Fires {
  const expression = NICKNAMES.get(text.trim().toLowerCase()) ?? text;
  const pattern = readCron(expression);
  const defaults: ClockChanges = isInterval(expression)
    ? { gap: 'skip', overlap: 'twice' }
    : { gap: 'next', overlap: 'once' };
  const policies = { gap: gap ?? defaults.gap, overlap: overlap ?? defaults.overlap };
  return { next: (afterMs) => nextCron(pattern, offsetAt, policies, afterMs) };
}

// Whether the hour of a pattern is a wildcard. The hour is the fourth field from the end, with or without seconds.
function isInterval(expression: string): boolean {
  return /(?:^|\s)\*\S*(?:\s+\S+){3}$/.test(expression.trim());
}

interface ClockChanges {
  readonly gap: GapPolicy;
  readonly overlap: OverlapPolicy;
}

/**
 * The most steps of one search, each of which covers the time up to a clock change. A pattern that matches only skipped
 * times counts as exhausted after them.
 */
const SEARCH_STEPS_MAX = 1_000;

/** The most by which a clock changes, one day. */
const LARGEST_CHANGE_MS = DAY_MS;
/** No two clock changes are closer than this, four days. */
const CHANGES_APART_MS = 4 * DAY_MS;

/**
 * Returns the first firing after an instant. Between two clock changes the pattern's own next wall-clock time is the
 * answer. So a search takes a few steps for each clock change on its way, and none for the times in a gap or an
 * overlap, however many there are.
 */
function nextCron(
  pattern: CronPattern,
  offset: (atMs: number) => number,
  policies: ClockChanges,
  afterMs: number,
): number | undefined {
  // The first instant that may fire.
  let fromMs = Math.floor(afterMs) + 1;
  for (let steps = 0; steps < SEARCH_STEPS_MAX; steps += 1) {
    const found = firstBeforeChange(pattern, offset, policies, fromMs);
    if (found.kind === 'fires') return found.atMs;
    if (found.kind === 'never') return undefined;
    fromMs = found.fromMs;
  }
  return undefined;
}

type SearchResult =
  | { readonly kind: 'fires'; readonly atMs: number }
  | { readonly kind: 'never' }
  /** Nothing fires before `fromMs`: the search goes on from there. */
  | { readonly kind: 'later'; readonly fromMs: number };

/** Returns the first firing from an instant on, up to the next clock change. */
function firstBeforeChange(
  pattern: CronPattern,
  offset: (atMs: number) => number,
  { gap, overlap }: ClockChanges,
  fromMs: number,
): SearchResult {
  const offsetBeforeMs = offset(fromMs - LARGEST_CHANGE_MS);
  const offsetMs = offset(fromMs);
  const startMs =
    changeIn(fromMs - LARGEST_CHANGE_MS, offsetBeforeMs, fromMs, offset) ?? Number.NEGATIVE_INFINITY;
  // planted: gap-swapped
  if (gap === 'next' && startMs === fromMs && offsetBeforeMs < offsetMs) {
    const skippedWallMs = pattern.next(startMs + offsetBeforeMs - 1);
    if (skippedWallMs !== undefined && skippedWallMs < startMs + offsetMs)
      return { kind: 'fires', atMs: startMs };
  }
  // After the clock was set back, it shows times again that it has shown before; `once` leaves these out.
  const shownWallMs =
    overlap === 'once' && offsetBeforeMs > offsetMs ? startMs + offsetBeforeMs - 1 : Number.NEGATIVE_INFINITY;
  const wallMs = pattern.next(Math.max(fromMs + offsetMs - 1, shownWallMs));
  const atMs = wallMs === undefined ? Number.POSITIVE_INFINITY : wallMs - offsetMs;
  const isDistant = atMs - fromMs > CHANGES_APART_MS;
  // If the clock is set back soon, times that were shown already may come again.
  const endMs = changeIn(fromMs, offsetMs, isDistant ? fromMs + LARGEST_CHANGE_MS : atMs, offset);
  if (endMs !== undefined) return { kind: 'later', fromMs: endMs };
  if (wallMs === undefined) return { kind: 'never' };
  // Clock changes on the way do not matter: no clock shows a time of the pattern until shortly before.
  if (isDistant) return { kind: 'later', fromMs: atMs - CHANGES_APART_MS / 2 };
  const backMs =
    overlap === 'second' ? changeIn(atMs, offsetMs, atMs + LARGEST_CHANGE_MS, offset) : undefined;
  const comesAgain = backMs !== undefined && atMs >= backMs - offsetMs + offset(backMs);
  return comesAgain ? { kind: 'later', fromMs: backMs } : { kind: 'fires', atMs };
}

/**
 * Returns the first instant in (fromMs, untilMs] with another offset, found by bisection; undefined if the offset is
 * the same at the end.
 */
function changeIn(
  fromMs: number,
  offsetBeforeMs: number,
  untilMs: number,
  offset: (atMs: number) => number,
): number | undefined {
  if (offset(untilMs) === offsetBeforeMs) return undefined;
  let early = fromMs;
  let late = untilMs;
  while (late - early > 1) {
    const middle = Math.floor((early + late) / 2);
    if (offset(middle) === offsetBeforeMs) early = middle;
    else late = middle;
  }
  return late;
}

/**
 * Returns the latest firing in (afterMs, untilMs], found by bisection. So a long outage of a frequent schedule costs no
 * more than a short one.
 */
export function latestFiring(fires: Fires, afterMs: number, untilMs: number): number | undefined {
  const first = fires.next(afterMs);
  if (first === undefined || first > untilMs) return undefined;
  // Invariant: the firing after `low` is in time, the one after `high` is not.
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
