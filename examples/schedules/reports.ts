/** A report for each branch, at the end of its own day: declared with the stack, or put by whoever opens a branch. */
import type { ScheduleRequest } from '../../lib/client/aws.ts';

/** Five minutes after midnight of the branch's clocks, for the day that has ended; spread over a quarter of an hour. */
export const nightlyReport = (branch: string, zone: string): ScheduleRequest => ({
  cron: '5 0 * * *',
  zone,
  jitter: '15m',
  type: 'report',
  fairnessKey: branch,
  payloadTemplate: { branch, from: '{{previousAt}}', to: '{{scheduledAt}}' },
  // A report that was missed is made up for, one after the other; three that fail in a row need somebody to look.
  misfire: 'all',
  misfireMax: 7,
  ifRunning: 'queue',
  maxFailures: 3,
});
