import { Cron } from 'croner';
import { ConfigurationError } from '../core/errors.ts';
import type { CronPattern } from '../core/schedule.ts';

/**
 * Reads a cron pattern with croner: five fields from minutes, or six from seconds, with lists, ranges, steps, names,
 * `L`, `W` and `#`. It runs on UTC throughout, which has no clock changes: zones are the core's.
 * @throws ConfigurationError if the pattern cannot be read.
 */
export function readCron(expression: string): CronPattern {
  const cron = parse(expression);
  return { next: (afterWallMs) => cron.nextRun(new Date(afterWallMs))?.getTime() };
}

function parse(expression: string): Cron {
  try {
    return new Cron(expression, { mode: '5-or-6-parts', timezone: 'UTC', paused: true });
  } catch (cause) {
    throw new ConfigurationError(
      'schedule',
      expression,
      `is no cron pattern (${(cause as Error).message})`,
      'Write five fields: minute, hour, day of month, month, day of week.',
    );
  }
}
