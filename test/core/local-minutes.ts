/**
 * An oracle for firings that shares nothing with the product: it walks through the minutes of a time as clocks on a wall would,
 * asks `Intl` what they show, and compares that with a pattern field by field.
 */

export const ZONES = [
  'UTC',
  'Europe/Berlin',
  'Europe/London',
  'Europe/Dublin',
  'Europe/Moscow',
  'America/New_York',
  'America/St_Johns',
  'America/Santiago',
  'America/Asuncion',
  'America/Havana',
  'America/Nuuk',
  'America/Sao_Paulo',
  'Africa/Cairo',
  'Africa/Casablanca',
  'Asia/Kathmandu',
  'Asia/Jerusalem',
  'Asia/Beirut',
  'Australia/Lord_Howe',
  'Pacific/Chatham',
  'Pacific/Apia',
] as const;

export const PATTERNS = [
  '30 2 * * *',
  '0 0 * * *',
  '15,45 1-3 * * *',
  '*/17 * * * *',
  '0 2 * * 0',
  '59 23 28-31 * *',
  '5 */2 * 3,10 *',
  '30 3 * * 6,0',
] as const;

const MINUTE_MS = 60_000;
/** Clocks change at quarters of an hour everywhere in these years. */
const QUARTER_MS = 15 * MINUTE_MS;

const formats = new Map<string, Intl.DateTimeFormat>();

/** What a clock in the zone shows, as milliseconds of a calendar without zones. */
function shown(zone: string, atMs: number): number {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
    formats.set(zone, format);
  }
  return Date.parse(`${format.format(atMs).replace(' ', 'T')}Z`);
}

function matcher(pattern: string): (wallMs: number) => boolean {
  const [minutes, hours, days, months, weekdays] = pattern.split(' ').map((text, at) => {
    const [least, most] = [
      [0, 59],
      [0, 23],
      [1, 31],
      [1, 12],
      [0, 6],
    ][at] as [number, number];
    const values = new Set<number>();
    for (const part of text.split(',')) {
      const [range = '', step = '1'] = part.split('/');
      const [from, until] = range === '*' ? [least, most] : range.split('-').map(Number);
      for (let value = from as number; value <= (until ?? (from as number)); value += Number(step))
        values.add(value);
    }
    return { values, isAny: text.startsWith('*') };
  }) as unknown as [Field, Field, Field, Field, Field];
  return (wallMs) => {
    const wall = new Date(wallMs);
    const isDay = days.values.has(wall.getUTCDate());
    const isWeekday = weekdays.values.has(wall.getUTCDay());
    return (
      minutes.values.has(wall.getUTCMinutes()) &&
      hours.values.has(wall.getUTCHours()) &&
      months.values.has(wall.getUTCMonth() + 1) &&
      (days.isAny || weekdays.isAny ? isDay && isWeekday : isDay || isWeekday)
    );
  };
}

interface Field {
  readonly values: ReadonlySet<number>;
  readonly isAny: boolean;
}

export interface Policies {
  readonly gap: 'next' | 'skip';
  readonly overlap: 'once' | 'twice';
}

export const ALL_POLICIES: readonly Policies[] = [
  { gap: 'next', overlap: 'once' },
  { gap: 'next', overlap: 'twice' },
  { gap: 'skip', overlap: 'once' },
  { gap: 'skip', overlap: 'twice' },
];

/** Firings in [fromMs, untilMs) by each of `ALL_POLICIES`, which lie far from the edges of any clock change. */
export function walked(
  pattern: string,
  zone: string,
  fromMs: number,
  untilMs: number,
): readonly (readonly number[])[] {
  const isMatch = matcher(pattern);
  const fired: number[][] = ALL_POLICIES.map(() => []);
  let lastWallMs = shown(zone, fromMs) - MINUTE_MS;
  let furthestWallMs = lastWallMs;
  let offsetMs = 0;
  for (let atMs = fromMs; atMs < untilMs; atMs += MINUTE_MS) {
    if (atMs === fromMs || atMs % QUARTER_MS === 0) offsetMs = shown(zone, atMs) - atMs;
    const wallMs = atMs + offsetMs;
    let isMadeUp = false;
    for (let gapMs = lastWallMs + MINUTE_MS; gapMs < wallMs; gapMs += MINUTE_MS) isMadeUp ||= isMatch(gapMs);
    const isShown = isMatch(wallMs);
    const isSecond = wallMs <= furthestWallMs;
    if (isShown || isMadeUp) {
      for (const [at, { gap, overlap }] of ALL_POLICIES.entries()) {
        const isDue = (isShown && (!isSecond || overlap === 'twice')) || (isMadeUp && gap === 'next');
        if (isDue) fired[at]?.push(atMs);
      }
    }
    lastWallMs = wallMs;
    furthestWallMs = Math.max(furthestWallMs, wallMs);
  }
  return fired;
}

/** Instants at which a zone's clocks change. */
export function changesOf(zone: string, fromMs: number, untilMs: number): readonly number[] {
  const found: number[] = [];
  const stepMs = 6 * 3_600_000;
  for (let atMs = fromMs; atMs < untilMs; atMs += stepMs) {
    if (shown(zone, atMs) + stepMs === shown(zone, atMs + stepMs)) continue;
    let changeMs = atMs;
    while (shown(zone, changeMs) - changeMs === shown(zone, atMs) - atMs) changeMs += QUARTER_MS;
    found.push(changeMs);
  }
  return found;
}
