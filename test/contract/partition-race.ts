/** What three partitions do to each other, each with two dispatchers: sentences, each checked on every job store. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PoolConfiguration } from '../../lib/core/configuration.ts';
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import type { DispatchContext } from '../../lib/dispatch/context.ts';
import { dispatchAll, type WakeTrigger } from '../../lib/dispatch/dispatch.ts';
import { submit } from '../../lib/dispatch/submit.ts';
import { systemClock } from '../../lib/runtime/system.ts';
import { StoreThrottled, StoreUnavailable } from '../../lib/store/errors.ts';
import { aJob } from '../fixtures/factories/job.ts';
import type { StoreHarness } from './harness.ts';
import { finish, racersOn, startNext } from './racers.ts';

const PARTITIONS = 3;
const SLOTS = 12;
const TYPE_CAP = 7;
const TABLE_WAIT_MS = 60_000;
const RACE_MS = 240_000;
const JOB_MS = 10;
const LOOK_EVERY_MS = 200;

export const PARTED_POOL: PoolConfiguration = resolveConfiguration({
  types: {
    resize: { conflictGroup: 'album', defaultCostMs: JOB_MS, maxConcurrency: TYPE_CAP },
    index: { conflictGroup: 'album', defaultCostMs: JOB_MS },
  },
  fleets: { general: { types: ['resize', 'index'], slots: SLOTS } },
  partitions: PARTITIONS,
});

/** The store of the harness places jobs as `PARTED_POOL` says. */
export function partitionRaceContract(
  name: string,
  jobCount: number,
  makeHarness: () => Promise<StoreHarness>,
): void {
  describe(`three partitions on ${name}`, () => {
    let harness: StoreHarness;

    beforeAll(async () => {
      harness = await makeHarness();
    }, TABLE_WAIT_MS);
    afterAll(async () => {
      await harness?.close();
    });

    it('run every job, never two of one conflict key together, and exceed no cap together', {
      timeout: RACE_MS,
    }, async () => {
      const { store } = harness;
      const { queue, dispatchers, random, dice } = racersOn(store, PARTED_POOL, 2);
      let left = jobCount;
      const errors: unknown[] = [];
      const under: Promise<unknown>[] = [];
      /** As Lambda does: whichever dispatcher is free, beside the others. */
      const dispatch = async (trigger: WakeTrigger): Promise<void> => {
        const context = dice.pick(dispatchers as [DispatchContext]);
        try {
          await dispatchAll(context, trigger);
        } catch (error) {
          // Another dispatcher's transaction was in the way: the next look makes up for it.
          if (!(error instanceof StoreThrottled || error instanceof StoreUnavailable)) errors.push(error);
        }
      };
      const dispatchBeside = (trigger: WakeTrigger): void => {
        under.push(dispatch(trigger));
      };
      // As a stream does: one batch after the other, with all that came meanwhile.
      let changed: Job[] = [];
      const readStream = async (): Promise<void> => {
        while (left > 0) {
          const jobs = changed;
          changed = [];
          if (jobs.length > 0) await dispatch({ jobs, reason: 'stream' });
          else await systemClock.sleep(JOB_MS);
        }
      };
      queue.onWake((partition) => dispatchBeside({ jobs: [], reason: 'wake', partitions: [partition] }));

      const running = new Map<string, Job>();
      const overlaps: string[] = [];
      let mostRunning = 0;
      let mostOfType = 0;
      const begin = (job: Job): void => {
        for (const other of running.values()) {
          if (job.resourceId !== undefined && other.resourceId === job.resourceId)
            overlaps.push(`${job.id} in ${job.partition} beside ${other.id} in ${other.partition}`);
        }
        running.set(job.id, job);
        mostRunning = Math.max(mostRunning, running.size);
        const ofType = [...running.values()].filter(({ type }) => type === 'resize').length;
        mostOfType = Math.max(mostOfType, ofType);
      };
      const run = async (job: Job): Promise<void> => {
        begin(job);
        await systemClock.sleep(JOB_MS * random());
        running.delete(job.id);
        const ended = await finish(store, job);
        left -= 1;
        changed.push(ended);
      };
      const workOn = async (): Promise<void> => {
        while (left > 0) await Promise.all((await startNext(store, queue, LOOK_EVERY_MS)).map(run));
      };
      const lookOn = async (): Promise<void> => {
        while (left > 0) {
          await systemClock.sleep(LOOK_EVERY_MS);
          await dispatch({ jobs: [], reason: 'tick' });
        }
      };

      const nowMs = Date.now();
      const jobs = Array.from({ length: jobCount }, () => {
        const fairnessKey = `tenant-${dice.whole(0, 8)}`;
        return aJob({
          id: `${name}-parted-${Math.floor(random() * 2 ** 48)}`,
          type: dice.pick(['resize', 'index']),
          fairnessKey,
          partition: partitionOf(fairnessKey, PARTITIONS),
          readyAtMs: nowMs,
          runAtMs: nowMs,
          submittedAtMs: nowMs,
          ...(dice.chance(0.5) ? { resourceId: `album-${dice.whole(1, 3)}` } : {}),
        });
      });
      await submit({ store, configuration: PARTED_POOL, nowMs: Date.now, announced: new Map() }, jobs);
      dispatchBeside({ jobs, reason: 'ingest' });
      await Promise.all([lookOn(), readStream(), ...Array.from({ length: SLOTS + 4 }, workOn)]);
      await Promise.all(under);

      expect(errors).toEqual([]);
      expect(overlaps).toEqual([]);
      expect(mostRunning).toBeLessThanOrEqual(SLOTS);
      expect(mostOfType).toBeLessThanOrEqual(TYPE_CAP);
      const states = (await store.getJobs({ ids: jobs.map(({ id }) => id) })).map((job) => job?.state);
      expect(new Set(states)).toEqual(new Set(['succeeded']));
      // The stream's last records may have come while a dispatcher led that had looked before: a letter says to look at all.
      for (let partition = 0; partition < PARTITIONS; partition += 1)
        await store.putLetter({ partition, letter: { looksAtAll: true }, nowMs: Date.now() });
      await Promise.all(dispatchers.map((context) => dispatchAll(context, { jobs: [], reason: 'wake' })));
      expect(await store.readLocks(['album/album-1', 'album/album-2', 'album/album-3'])).toEqual([
        undefined,
        undefined,
        undefined,
      ]);
    });
  });
}
