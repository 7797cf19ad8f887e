/** A year of schedules through the product's own path, beside an oracle that walks through its local minutes. */
import { expect } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { putSchedule } from '../../lib/dispatch/schedules.ts';
import { ALL_POLICIES, walked } from '../core/local-minutes.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { stage } from './stage.ts';

const DAY_MS = 86_400_000;
/** A full minute. */
const FROM_MS = Math.floor(NOW_MS / DAY_MS) * DAY_MS + DAY_MS;

/** Answers how many firings there were. */
export async function yearOf(zones: readonly string[], pattern: string): Promise<number> {
  const jobs = new Map<string, Job>();
  const on = stage({
    pool: {
      types: { resize: { timeoutMs: 30_000 } },
      fleets: { images: { types: ['resize'], slots: 1_000 } },
    },
    observe: (event) => event.kind === 'job' && jobs.set(event.newJob.id, event.newJob),
  });
  await on.advance(FROM_MS - 1 - on.time.nowMs);
  const untilMs = FROM_MS + 365 * DAY_MS;
  const named = zones.flatMap((zone) =>
    ALL_POLICIES.map((policies, at) => ({ id: `${zone}/${at}`, zone, policies, at })),
  );
  for (const { id, zone, policies } of named) {
    const when = { kind: 'cron', expression: pattern } as const;
    await on.finish(
      putSchedule(on.operator(), id, aScheduleSpec({ when, timeZone: zone, ...policies }), false),
    );
  }
  for (;;) {
    const dueMs = Math.min(
      ...[...on.store.everySchedule()].map(({ state }) => state.dueMs ?? Number.POSITIVE_INFINITY),
    );
    if (dueMs >= untilMs) break;
    await on.advance(dueMs - on.time.nowMs);
    await on.pass();
    for (const started of await on.startAll('images')) await on.end(started);
  }
  const oracles = new Map(zones.map((zone) => [zone, walked(pattern, zone, FROM_MS - DAY_MS, untilMs)]));
  for (const { id, zone, at } of named) {
    const fired = [...jobs.values()]
      .filter((job) => job.scheduleId === id)
      .map((job) => job.runAtMs)
      .sort((one, other) => one - other);
    const expected = oracles.get(zone)?.[at]?.filter((atMs) => atMs >= FROM_MS) ?? [];
    expect({ id, fired: fired.map(iso) }).toEqual({ id, fired: expected.map(iso) });
  }
  for (const job of jobs.values()) expect(job.startedAtMs).toBe(job.runAtMs);
  return jobs.size;
}

const iso = (atMs: number): string => new Date(atMs).toISOString();
