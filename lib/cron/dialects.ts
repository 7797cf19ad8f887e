/**
 * Recognises cron patterns of other schedulers. Some of them parse, but would fire at other times here: `0 9 * * ? *`
 * means daily at nine for Amazon EventBridge, and nine minutes past every hour as a pattern of six fields beginning
 * with seconds.
 *
 * Both other schedulers write `?` for a day that does not matter, and count weekdays from Sunday = 1:
 * - Amazon EventBridge: minute, hour, day of month, month, day of week, year; inside `cron(…)`, beside `rate(…)` and
 *   `at(…)`.
 * - Quartz: second, minute, hour, day of month, month, day of week, and an optional year.
 */

/** The reason why a pattern belongs to another scheduler, and what to write instead. */
export interface Foreign {
  readonly problem: string;
  readonly wayOut: string;
}

const EVENTBRIDGE = 'Amazon EventBridge';
const QUARTZ = 'Quartz';
const DAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'] as const;
const UNITS: Readonly<Record<string, string>> = { second: 's', minute: 'm', hour: 'h', day: 'd' };
/** The greatest values of second, minute, hour, day of month and month. */
const GREATEST = [59, 59, 23, 31, 12] as const;
const YEAR = /^(\*|(19|20|21)\d\d([-,/].*)?)$/;

/** Returns what is foreign about a pattern; undefined if nothing is. */
export function foreignDialect(pattern: string): Foreign | undefined {
  const text = pattern.trim();
  const [, verb = '', inner = ''] = /^(cron|rate|at)\s*\((.*)\)$/is.exec(text) ?? [];
  if (verb !== '') return eventBridgeExpression(verb.toLowerCase(), inner.trim());
  const [, duration] = /^@every\s+(\S+)$/i.exec(text) ?? [];
  if (duration !== undefined)
    return foreign('is an interval, not a pattern', `Write every: ${JSON.stringify(duration)} instead.`);
  const fields = text.split(/\s+/);
  if (fields.length === 7 && YEAR.test(fields[6] ?? '')) return quartzCron(fields, fields[6]);
  if (fields.length === 6 && (isQuestionMark(fields[2]) || isQuestionMark(fields[4]) || isYear(fields[5]))) {
    return eventBridgeCron(fields);
  }
  return fields.length === 5 || fields.length === 6 ? misusedQuestionMark(fields) : undefined;
}

const isQuestionMark = (field: string | undefined): boolean => field === '?';
const isYear = (field = ''): boolean => field !== '*' && YEAR.test(field);

function eventBridgeExpression(verb: string, inner: string): Foreign {
  if (verb === 'cron') {
    const fields = inner.split(/\s+/);
    if (fields.length === 6) return eventBridgeCron(fields);
    return foreignTo(EVENTBRIDGE, 'cron(…)', undefined);
  }
  if (verb === 'at')
    return foreignTo(EVENTBRIDGE, 'at(…), a single time', 'Submit a job with runAt instead.');
  const [, amount = '', unit = ''] = /^(\d+)\s+(\w+?)s?$/.exec(inner) ?? [];
  const short = UNITS[unit.toLowerCase()];
  const every = short === undefined ? undefined : `Write every: "${amount}${short}" instead.`;
  return foreignTo(EVENTBRIDGE, 'rate(…), an interval', every);
}

function eventBridgeCron([
  minute = '',
  hour = '',
  day = '',
  month = '',
  weekday = '',
  year = '*',
]: readonly string[]): Foreign {
  const names = 'minute, hour, day of month, month, day of week, year';
  return dialect(EVENTBRIDGE, names, ['0', minute, hour, day, month, weekday], year);
}

function quartzCron(fields: readonly string[], year: string | undefined): Foreign {
  const names = `second, minute, hour, day of month, month, day of week${year === undefined ? '' : ', year'}`;
  return dialect(QUARTZ, names, fields.slice(0, 6), year ?? '*');
}

/**
 * Handles `?` in a pattern of five or six fields: in a field other than a day it is always wrong. With numbered
 * weekdays the pattern counts as one of Quartz, because numbers mean other days there.
 */
function misusedQuestionMark(fields: readonly string[]): Foreign | undefined {
  const [weekday = '', , day = ''] = fields.toReversed();
  const others = [...fields.slice(0, -3), fields.at(-2)];
  if (others.some((field) => field?.includes('?') === true))
    return foreign(
      'has a ? in a field that is not a day, which is not valid here',
      'Write * for every value.',
    );
  if (!isQuestionMark(day) || !/(^|[^#\d])\d/.test(weekday)) return undefined;
  return quartzCron(fields.length === 5 ? ['0', ...fields] : fields, undefined);
}

function dialect(scheduler: string, names: string, fields: readonly string[], year: string): Foreign {
  const [second = '', ...rest] = fields.map((field, at) =>
    at === 5 ? weekdaysOf(field) : explicitRange(field, at),
  );
  const pattern = [...(second === '0' ? [] : [second]), ...rest].join(' ');
  const yearHint = year === '*' ? '' : `, and give the years (${year}) with start and end`;
  return foreignTo(
    scheduler,
    `a pattern of ${scheduler} (${names})`,
    `Write ${JSON.stringify(pattern)}${yearHint}.`,
  );
}

/** Makes implicit ranges explicit: `5/15` begins at 5, and `?` is any day. */
function explicitRange(field: string, at: number): string {
  if (isQuestionMark(field)) return '*';
  return field.replace(
    /(^|,)(\d+)\/(\d+)/g,
    (_, before, from, step) => `${before}${from}-${GREATEST[at]}/${step}`,
  );
}

/** Writes weekdays as names, which do not depend on how a scheduler counts them. */
const weekdaysOf = (field: string): string =>
  isQuestionMark(field) || field === '*' ? '*' : field.split(',').map(expandWeekdays).join(',');

/**
 * Returns the weekday, counted from 0 for Sunday; -1 if the text is none. Numbers in patterns count from Sunday = 1, as
 * with the other schedulers.
 */
const weekdayOf = (text: string): number =>
  /^\d$/.test(text) ? (Number(text) + 6) % 7 : DAYS.indexOf(text.toUpperCase() as (typeof DAYS)[number]);
const weekdayName = (text: string): string => DAYS[weekdayOf(text)] ?? text;

/**
 * Translates one weekday, a range, or a range with a step. A range with a step, or one that passes the end of the week,
 * becomes a list of days.
 */
function expandWeekdays(part: string): string {
  if (/^L$/i.test(part)) return 'SAT';
  const [, from = '', to, step] = /^(\w{1,3})(?:-(\w{1,3}))?(?:\/(\d+))?$/.exec(part) ?? [];
  const first = weekdayOf(from);
  const last = to === undefined ? 6 : weekdayOf(to);
  if (first < 0 || last < 0 || (to ?? step) === undefined)
    return part.replace(/^(\d|[A-Za-z]{3})(?=$|#|L$)/i, weekdayName);
  if (step === undefined && last >= first) return `${DAYS[first]}-${DAYS[last]}`;
  const days: string[] = [];
  for (let day = first; day <= (last < first ? last + 7 : last); day += Number(step ?? 1))
    days.push(DAYS[day % 7] ?? '');
  return days.join(',');
}

const foreignTo = (scheduler: string, what: string, wayOut: string | undefined): Foreign =>
  foreign(
    what.includes(scheduler) ? `is ${what}, which would mean other times here` : `is ${what} of ${scheduler}`,
    wayOut ?? 'Write five fields: minute, hour, day of month, month, day of week.',
  );

const foreign = (problem: string, wayOut: string): Foreign => ({ problem, wayOut });
