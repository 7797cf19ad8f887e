/** What eight dispatchers of one partition do to each other: sentences, each checked on every job store. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { type DispatchReport, dispatch } from '../../lib/dispatch/dispatch.ts';
import { submit } from '../../lib/dispatch/submit.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { aJob } from '../fixtures/factories/job.ts';
import type { StoreHarness } from './harness.ts';
import { finish, racersOn, startNext } from './racers.ts';

const DISPATCHERS = 8;
const SLOTS = 24;
/** Of all claims, those that another one was faster than. */
const LOST_MAX = 0.02;
const TABLE_WAIT_MS = 60_000;
const RACE_MS = 120_000;
const JOB_MS = 20;
const WAVE = 20;

const TYPES = ['resize', 'index', 'mail'];
const KEYS: readonly [string, ...string[]] = ['tenant-a', 'tenant-b', 'tenant-c', 'tenant-d', 'tenant-e'];

export const RACE_POOL: PoolConfiguration = resolveConfiguration({
  types: Object.fromEntries(TYPES.map((type) => [type, { conflictGroup: 'album', defaultCostMs: JOB_MS }])),
  fleets: { general: { types: TYPES, slots: SLOTS } },
});

/** The store of the harness places jobs as `RACE_POOL` says. */
export function dispatchRaceContract(
  name: string,
  jobCount: number,
  makeHarness: () => Promise<StoreHarness>,
): void {
  describe(`eight dispatchers of one partition on ${name}`, () => {
    let harness: StoreHarness;

    beforeAll(async () => {
      harness = await makeHarness();
    }, TABLE_WAIT_MS);
    afterAll(async () => {
      await harness?.close();
    });

    it('claim each job once, exceed no slot, and lose at most 2 % of their claims to each other', {
      timeout: RACE_MS,
    }, async () => {
      const { store } = harness;
      const { queue, dispatchers, random, dice } = racersOn(store, RACE_POOL, DISPATCHERS);

      let left = jobCount;
      const reports: DispatchReport[] = [];
      /** What the stream would tell, each image to one of the dispatchers. */
      let images: Job[] = [];
      const idle: (() => void)[] = [];
      const ring = (): void => {
        for (const wake of idle.splice(0)) wake();
      };
      const tell = (job: Job): void => {
        images.push(job);
        ring();
      };
      const dispatchOn = async (context: DispatchContext): Promise<void> => {
        while (left > 0) {
          const jobs = images;
          images = [];
          reports.push(await dispatch(context, 0, { jobs, reason: jobs.length > 0 ? 'stream' : 'wake' }));
          // All of them are woken by each change: that is the race.
          // What was told while all of them were busy, nobody else will tell of.
          if (left > 0 && images.length === 0) await new Promise<void>((resolve) => idle.push(resolve));
        }
      };

      const starts = new Map<string, number>();
      let running = 0;
      let mostRunning = 0;
      const run = async (job: Job): Promise<void> => {
        starts.set(job.id, (starts.get(job.id) ?? 0) + 1);
        running += 1;
        mostRunning = Math.max(mostRunning, running);
        await systemClock.sleep(JOB_MS);
        running -= 1;
        const ended = await finish(store, job);
        left -= 1;
        tell(ended);
      };
      const workOn = async (): Promise<void> => {
        while (left > 0) await Promise.all((await startNext(store, queue, 1_000)).map(run));
      };

      const ids: string[] = [];
      const announced = new Map<string, number>();
      const produce = async (): Promise<void> => {
        while (ids.length < jobCount) {
          const nowMs = Date.now();
          const at = { readyAtMs: nowMs, runAtMs: nowMs, submittedAtMs: nowMs };
          const jobs = Array.from({ length: Math.min(WAVE, jobCount - ids.length) }, () =>
            aJob({
              ...at,
              id: `${name}-race-${Math.floor(random() * 2 ** 48)}`,
              type: TYPES[dice.whole(0, TYPES.length - 1)] ?? 'mail',
              fairnessKey: dice.pick(KEYS),
              priority: dice.whole(0, 10),
              ...(dice.chance(0.05) ? { resourceId: `album-${dice.whole(1, 3)}` } : {}),
            }),
          );
          ids.push(...jobs.map(({ id }) => id));
          await submit({ store, configuration: RACE_POOL, nowMs: Date.now, announced }, jobs);
          for (const job of jobs) tell(job);
        }
      };

      await Promise.all([
        produce(),
        ...dispatchers.map(dispatchOn),
        ...Array.from({ length: SLOTS * 2 }, workOn),
      ]);

      const total = (of: (report: DispatchReport) => number): number =>
        reports.reduce((sum, report) => sum + of(report), 0);
      const won = total(({ admitted }) => admitted);
      const lost = total(({ lostClaims }) => lostClaims);
      expect([...starts.values()]).toEqual(ids.map(() => 1));
      expect(won).toBe(jobCount);
      expect(mostRunning).toBeLessThanOrEqual(SLOTS);
      expect(lost / (won + lost)).toBeLessThanOrEqual(LOST_MAX);
      // They did meet.
      expect(reports.filter(({ kind }) => kind === 'left').length).toBeGreaterThan(0);
      expect(mostRunning).toBeGreaterThan(1);
    });
  });
}
