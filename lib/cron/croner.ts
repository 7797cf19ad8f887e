import { Cron } from 'croner';
import { ConfigurationError } from '../core/errors.ts';
import type { CronPattern } from '../core/schedule.ts';
import { foreignDialect } from './dialects.ts';

/**
 * Parses a cron pattern with croner: five fields beginning with minutes, or six beginning with seconds, with lists,
 * ranges, steps, names, `L`, `W` and `#`. Croner works in UTC, which has no clock changes, because `lib/core` handles
 * time zones.
 * @throws ConfigurationError if the pattern cannot be parsed, or belongs to another scheduler.
 */
export function readCron(expression: string): CronPattern {
  const cron = parse(expression);
  return { next: (afterWallMs) => cron.nextRun(new Date(afterWallMs))?.getTime() };
}

const FIELDS =
  'Write five fields, or six that begin with seconds: minute 0-59, hour 0-23, day of month 1-31 or L, month 1-12 or JAN-DEC, day of week 0-7 or SUN-SAT; or @daily and the like.';

/** Croner counts days and months from 0, and so do its messages. */
const OUT_OF_RANGE = /^Invalid value for (month|day|nearestWeekdays): (-?\d+)$/;
const outOfRange = (_: string, field: string, value: string): string =>
  `${field === 'month' ? 'month' : 'day of month'} ${Number(value) + 1} does not exist`;

function parse(expression: string): Cron {
  const foreign = foreignDialect(expression);
  if (foreign !== undefined)
    throw new ConfigurationError('schedule', expression, foreign.problem, foreign.wayOut);
  try {
    const count = expression.trim().split(/\s+/).length;
    // Croner also accepts instants and its own nicknames.
    if (count !== 5 && count !== 6) throw new RangeError(`it has ${count} field${count === 1 ? '' : 's'}`);
    return new Cron(expression, { mode: '5-or-6-parts', timezone: 'UTC', paused: true });
  } catch (cause) {
    const problem = (cause as Error).message.replace(/^CronPattern: /, '').replace(OUT_OF_RANGE, outOfRange);
    throw new ConfigurationError('schedule', expression, `is not a cron pattern (${problem})`, FIELDS);
  }
}
