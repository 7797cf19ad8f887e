/** The examples of recurring work, on the public surface, while processes restart. */

import { describe, expect, it } from 'vitest';
import { cancelCall, nextCall, setCall } from '../../examples/schedules/hotel.ts';
import { nightlyReport } from '../../examples/schedules/reports.ts';
import { NotFoundError } from '../../lib/client/errors.ts';
import type { Job } from '../../lib/core/job.ts';
import { localIso } from '../../lib/core/schedule.ts';
import { desk } from '../client/desk.ts';
import { seeded } from '../simulation/random.ts';
import { storeWith } from '../stage/stage.ts';

const MINUTE_MS = 60_000;
const DAY_MS = 1_440 * MINUTE_MS;
const ZONE = 'Europe/Rome';

function scene() {
  const jobs = new Map<string, Job>();
  const on = desk({
    pool: {
      types: { 'wake-up': { timeoutMs: 30_000 }, report: { timeoutMs: 30_000 } },
      fleets: { phones: { types: ['wake-up', 'report'], slots: 200 } },
    },
    observe: (event) => event.kind === 'job' && jobs.set(event.newJob.id, event.newJob),
  });
  return { on, jobs };
}

describe('the hotel', () => {
  it('calls each room when its guest last asked for it, whoever restarts meanwhile', async () => {
    const { on, jobs } = scene();
    const random = seeded(7);
    const below = (count: number): number => Math.floor(random() * count);
    const rooms = Array.from({ length: 12 }, (_, at) => `${100 + at}-B`);
    const startMs = on.time.nowMs;
    const until = new Date(startMs + 30 * DAY_MS).toISOString();
    /** What each guest wants by now, and what the hotel owes because of it. */
    const wanted = new Map<string, string>();
    const owed: string[] = [];
    for (let minute = 0; minute < 3 * 1_440; minute += 1) {
      const nowMs = on.time.nowMs;
      const clockNow = localIso(ZONE, nowMs).slice(11, 16);
      for (const [room, time] of wanted)
        if (time === clockNow) owed.push(`${room} ${localIso(ZONE, nowMs).slice(0, 16)}`);
      // Each process lives for a minute; every fifth dies behind some write.
      const dying = storeWith(on.store, {
        saveSchedule: async (request) => {
          await on.store.saveSchedule(request);
          throw new Error('the process was killed');
        },
      });
      await on.pass({}, on.dispatcher(minute % 5 === 0 ? { store: dying } : {}));
      for (const started of await on.startEverywhere()) await on.end(started);
      if (minute % 5 === 0) {
        // Its lease is over half a minute later, and the next process goes on.
        await on.advance(MINUTE_MS / 2);
        await on.pass({}, on.dispatcher());
        for (const started of await on.startEverywhere()) await on.end(started);
      }
      const room = rooms[below(rooms.length)] ?? '';
      const what = random();
      if (what < 0.04) {
        const hour = below(24);
        const time = `${String(hour).padStart(2, '0')}:${String(below(60)).padStart(2, '0')}`;
        await on.finish(setCall(on.anotherClient(), ZONE, { room, until }, time));
        wanted.set(room, time);
        expect((await on.finish(nextCall(on.client, room)))?.slice(11, 16)).toBe(time);
      } else if (what < 0.05 && wanted.delete(room)) {
        await on.finish(cancelCall(on.anotherClient(), room));
        await expect(nextCall(on.client, room)).rejects.toBeInstanceOf(NotFoundError);
      }
      await on.advance(startMs + (minute + 1) * MINUTE_MS - on.time.nowMs);
    }
    const called = [...jobs.values()].map(({ payload, runAtMs }) => {
      expect(payload).toMatchObject({ at: localIso(ZONE, runAtMs) });
      return `${(payload as { room: string }).room} ${localIso(ZONE, runAtMs).slice(0, 16)}`;
    });
    expect(called.sort()).toEqual(owed.sort());
    expect(owed.length).toBeGreaterThan(15);
    for (const job of jobs.values()) {
      const lateMs = (job.startedAtMs ?? Number.POSITIVE_INFINITY) - job.runAtMs;
      expect(lateMs).toBeGreaterThanOrEqual(0);
      expect(lateMs).toBeLessThan(MINUTE_MS);
    }
  }, 60_000);
});

describe('the nightly report', () => {
  it('is made for each branch after its own day, and says since when', async () => {
    const { on, jobs } = scene();
    const zones = { berlin: 'Europe/Berlin', tokyo: 'Asia/Tokyo', lima: 'America/Lima' };
    for (const [branch, zone] of Object.entries(zones))
      await on.finish(on.client.schedules.put(`report/${branch}`, nightlyReport(branch, zone)));
    for (let quarter = 0; quarter < 3 * 96; quarter += 1) {
      await on.advance(15 * MINUTE_MS);
      await on.pass();
      for (const started of await on.startEverywhere()) await on.end(started);
    }
    for (const [branch, zone] of Object.entries(zones)) {
      const reports = [...jobs.values()]
        .filter(({ fairnessKey }) => fairnessKey === branch)
        .sort((one, other) => one.runAtMs - other.runAtMs)
        .map(({ payload }) => payload as { from: string; to: string });
      expect(reports).toHaveLength(3);
      for (const { to } of reports) expect(localIso(zone, Date.parse(to)).slice(11, 16)).toBe('00:05');
      expect(reports.map(({ from }) => from)).toEqual(['', ...reports.slice(0, -1).map(({ to }) => to)]);
    }
  });
});
