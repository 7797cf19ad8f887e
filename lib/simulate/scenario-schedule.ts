/** Converts a scenario's schedule to the product's form. */
import { ConfigurationError, show } from '../core/errors.ts';
import type { ScheduleSpec } from '../core/recurring.ts';
import type { OverlapPolicy, TimeRules } from '../core/schedule.ts';
import type { JobRequest } from '../submit/request.ts';
import type { ProductSchedule } from './product-scenario.ts';

const RATE = /^rate\((\d{1,9}) (second|minute|hour|day)s?\)$/;
const UNIT_MS = { second: 1_000, minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;
const OVERLAPS: Readonly<Record<'first' | 'second' | 'both', OverlapPolicy>> = {
  first: 'once',
  second: 'second',
  both: 'twice',
};

/**
 * Reads `rate(5 minutes)`, `cron(0 9 * * 1-5)`, a bare pattern, or a nickname such as `@daily`.
 * @throws ConfigurationError if the rate is not positive.
 */
export function timeRulesOf({ schedule, timeZone, dst }: ProductSchedule, anchorMs: number): TimeRules {
  const text = schedule.trim();
  const rate = RATE.exec(text);
  const everyMs = rate === null ? 0 : Number(rate[1]) * UNIT_MS[rate[2] as keyof typeof UNIT_MS];
  if (everyMs > 0) return { when: { kind: 'every', everyMs, anchorMs }, timeZone };
  if (text.startsWith('rate')) {
    throw new ConfigurationError(
      'schedule',
      schedule,
      'must be a rate of at least one second, minute, hour or day',
      'Write it as rate(5 minutes).',
    );
  }
  const expression = (/^cron\((.*)\)$/.exec(text)?.[1] ?? text).trim();
  const rules: TimeRules = { when: { kind: 'cron', expression }, timeZone };
  if (dst === undefined || isEveryHour(expression)) return rules;
  return { ...rules, gap: dst.gap === 'shift' ? 'next' : 'skip', overlap: OVERLAPS[dst.overlap] };
}

/** In a scenario, the policies for clock changes apply only to patterns with fixed hours. */
const isEveryHour = (expression: string): boolean =>
  expression.toLowerCase() === '@hourly' || /(?:^|\s)[*?]\S*(?:\s+\S+){3}$/.test(expression);

/**
 * Returns the schedule as the product stores it. It may fire at the scenario's first instant.
 * @throws ConfigurationError if the rate is not positive.
 */
export function specOf(schedule: ProductSchedule, request: JobRequest, startsAtMs: number): ScheduleSpec {
  const { when, timeZone, gap, overlap } = timeRulesOf(schedule, startsAtMs);
  const { type, priority, mode, fairnessKey, resourceId, keys, units } = request;
  return {
    when,
    timeZone,
    gap,
    overlap,
    startMs: startsAtMs,
    blackouts: [],
    jitterMs: 0,
    // No firing is late in a scenario.
    misfire: 'once',
    misfireGraceMs: 60_000,
    misfireMax: 1,
    ifRunning: schedule.overlap === 'wait' ? 'queue' : schedule.overlap,
    job: { type, payload: null, isTemplate: false, priority, mode, fairnessKey, resourceId, keys, units },
  };
}

/** Returns the error of a schedule whose date does not exist. */
export const neverFires = ({ id, schedule }: ProductSchedule): string =>
  `never fires, because its date does not exist, such as 30 February, got ${show(schedule)}. Choose a date before 2200 (schedule ${id})`;
