/** What schedules cost, in units as the table would bill them. */
import { expect } from 'vitest';
import { dispatchAll } from '../../lib/dispatch/dispatch.ts';
import { putSchedule } from '../../lib/schedules/schedules.ts';
import type { Usage } from '../../lib/store/table/metering.ts';
import { aScheduledJob, NOW_MS } from '../fixtures/factories/job.ts';
import { aSchedule, aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { type Stage, stage } from '../stage/stage.ts';

const MINUTE_MS = 60_000;

interface Counted {
  readonly reads: number;
  readonly writes: number;
  readonly byVerb: Readonly<Record<string, Usage>>;
}

async function counted(on: Stage, work: () => Promise<unknown>): Promise<Counted> {
  const byVerb: Record<string, Usage> = {};
  on.store.meter = (verb, usage) => {
    const before = byVerb[verb] ?? { readUnits: 0, writeUnits: 0, requests: 0 };
    byVerb[verb] = {
      readUnits: before.readUnits + usage.readUnits,
      writeUnits: before.writeUnits + usage.writeUnits,
      requests: before.requests + usage.requests,
    };
  };
  await on.finish(work());
  on.store.meter = undefined;
  const sum = (of: (usage: Usage) => number): number =>
    Object.values(byVerb).reduce((all, each) => all + of(each), 0);
  return { reads: sum(({ readUnits }) => readUnits), writes: sum(({ writeUnits }) => writeUnits), byVerb };
}

/** Write units of what a submitted job costs, and of a firing, its job's included; both are stored in a ready line. */
export async function costOfFiring(
  name: string,
  hasBlackouts = false,
): Promise<{ readonly submitted: number; readonly fired: number }> {
  const on = stage();
  // Lines are announced, and history is full.
  const blackouts = Array.from({ length: hasBlackouts ? 7 : 0 }, (_, at) => {
    // Two of three minutes, so that every other entry is of several firings.
    const fromMs = NOW_MS + (3 * at + 1.5) * MINUTE_MS;
    return { kind: 'between' as const, fromMs, untilMs: fromMs + 2 * MINUTE_MS };
  });
  await on.finish(putSchedule(on.operator(), name, aScheduleSpec({ blackouts }), false));
  for (let minute = 1; minute <= 18; minute += 1) {
    await on.advance(NOW_MS + minute * MINUTE_MS - on.time.nowMs);
    await on.pass();
    for (const started of await on.startAll('images'))
      await on.pass({ jobs: [await on.end(started)], reason: 'stream' });
  }
  const submit = await counted(on, () => on.put(on.job()));
  await on.advance(MINUTE_MS - 1);
  const quiet = await counted(on, () => on.pass());
  await on.advance(1);
  const firing = await counted(on, () => on.pass());
  const writesOf = ({ byVerb }: Counted, verbs: readonly string[]): number =>
    verbs.reduce((all, verb) => all + (byVerb[verb]?.writeUnits ?? 0), 0);
  expect(writesOf(quiet, ['saveSchedule', 'createJobs'])).toBe(0);
  return {
    submitted: writesOf(submit, ['createJobs']),
    fired: writesOf(firing, ['saveSchedule', 'createJobs', 'putSchedule']),
  };
}

/** What a tick with nothing due reads where so many jobs and schedules wait, and what of that is for due work. */
export async function costOfTick(
  jobs: number,
  schedules: number,
): Promise<{ readonly due: number; readonly schedules: number; readonly all: Counted }> {
  const on = stage();
  const LATER_MS = 10 * MINUTE_MS;
  for (let at = 0; at < jobs; at += 1_000) {
    await on.store.createJobs(
      Array.from({ length: 1_000 }, (_, n) =>
        aScheduledJob(NOW_MS + LATER_MS + ((at + n) % 1_000_000), { id: `job-${at + n}` }),
      ),
    );
  }
  for (let at = 0; at < schedules; at += 1) {
    const dueMs = NOW_MS + LATER_MS + (at % 60_000);
    await on.store.putSchedule({
      record: aSchedule({ id: `schedule-${at}`, nextMs: dueMs, dueMs }),
      afterRevision: 0,
    });
  }
  // What a process reads once is not what a tick costs.
  await on.finish(dispatchAll(on.main, { jobs: [], reason: 'tick' }));
  const all = await counted(on, () => dispatchAll(on.main, { jobs: [], reason: 'tick' }));
  const readsOf = (verb: string): number => all.byVerb[verb]?.readUnits ?? 0;
  expect(all.byVerb.getSchedules).toBeUndefined();
  return { due: readsOf('readDue'), schedules: readsOf('readDueSchedules'), all };
}
