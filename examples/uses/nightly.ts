/** A report for each office, at half past two of its own night. */
import { defineJobs, job } from 'fairlead/jobs';
import type { HandlersOf } from 'fairlead/worker';

export const OFFICES = {
  berlin: 'Europe/Berlin',
  tokyo: 'Asia/Tokyo',
  newYork: 'America/New_York',
} as const;

export type Office = keyof typeof OFFICES;

export const jobs = defineJobs({
  report: job<{ office: Office; at: string }, { orders: number }>({ fairnessKey: ({ office }) => office }),
});

const nightly = (office: Office) => ({
  type: 'report' as const,
  cron: '30 2 * * *',
  zone: OFFICES[office],
  fairnessKey: office,
  payloadTemplate: { office, at: '{{scheduledLocal}}' },
  // After an outage of some nights, one report of the last one.
  misfire: 'once' as const,
  ifRunning: 'skip' as const,
});

export const declaration = {
  types: { report: { retry: { maxAttempts: 5, delayMs: '1m' } } },
  fleets: { reports: { types: ['report'], slots: 2 } },
  schedules: { berlin: nightly('berlin'), tokyo: nightly('tokyo'), newYork: nightly('newYork') },
} as const;

export interface Orders {
  readonly count: (office: Office, day: string) => Promise<number>;
  readonly mail: (office: Office, text: string, idempotencyKey: string) => Promise<void>;
}

export const handlersOf = (orders: Orders): HandlersOf<typeof jobs> => ({
  report: async ({ office, at }, { id, step }) => {
    const day = at.slice(0, '2027-01-31'.length);
    const count = await step('count', () => orders.count(office, day));
    await step('mail', () => orders.mail(office, `${count} orders until ${day}`, id));
    return { orders: count };
  },
});
