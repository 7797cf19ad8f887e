/** A schedule on the stage: put, ticked, and looked at; instants in minutes after the beginning. */
import type { Job } from '../../lib/core/job.ts';
import type { FiringEntry, ScheduleRecord, ScheduleSpec } from '../../lib/core/recurring.ts';
import { putSchedule } from '../../lib/schedules/schedules.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { type StageOptions, stage } from '../stage/stage.ts';

export const MINUTE_MS = 60_000;

/** Jobs may take an hour, and fail for good at once. */
const POOL: StageOptions['pool'] = {
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 3_600_000 } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 20 } },
};

export function scene(pool: StageOptions['pool'] = POOL) {
  const stored = new Map<string, Job>();
  const on = stage({
    pool,
    observe: (event) => event.kind === 'job' && stored.set(event.newJob.id, event.newJob),
  });
  const operator = on.operator();
  const put = (changes: Partial<ScheduleSpec> = {}, id = 's') =>
    on.finish(putSchedule(operator, id, aScheduleSpec(changes), false));
  const read = async (id = 's'): Promise<ScheduleRecord> => {
    const [record] = await on.store.getSchedules({ ids: [id] });
    if (record === undefined) throw new Error(`no schedule ${id}`);
    return record;
  };
  const jobs = () =>
    [...stored.values()]
      .filter(({ scheduleId }) => scheduleId !== undefined)
      .sort((one, other) => one.runAtMs - other.runAtMs);
  const firedAt = () => jobs().map(({ runAtMs }) => (runAtMs - NOW_MS) / MINUTE_MS);
  const at = async (minutes: number): Promise<void> => {
    await on.advance(NOW_MS + minutes * MINUTE_MS - on.time.nowMs);
  };
  /** A tick at each of these minutes, and at none between. */
  const tickAt = async (...minutes: readonly number[]): Promise<void> => {
    for (const minute of minutes) {
      await at(minute);
      await on.pass();
    }
  };
  const history = async () =>
    (await read()).state.history.map(({ what, atMs, untilMs }) => short(what, atMs, untilMs));
  return { on, operator, put, read, jobs, firedAt, at, tickAt, history };
}

const short = (what: FiringEntry['what'], atMs: number, untilMs?: number): string =>
  [what, ...[atMs, untilMs].flatMap((ms) => (ms === undefined ? [] : [(ms - NOW_MS) / MINUTE_MS]))].join(' ');
