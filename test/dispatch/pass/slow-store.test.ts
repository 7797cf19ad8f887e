/** A store that takes seconds for each answer: everything takes longer, nothing stands still, and no worker is given up. */
import { describe, expect, it } from 'vitest';
import { dispatchAll, type WakeTrigger } from '../../../lib/dispatch/dispatch.ts';
import type { JobStore } from '../../../lib/store/contract/verbs.ts';
import { runWorker } from '../../../lib/worker/process/process.ts';
import { answeringIn, type Stage, stage } from '../../stage/stage.ts';

const JOBS = 100;
const WORK_MS = 5_000;
const WORKERS = 2;
/** Of each worker. */
const SLOTS = 5;
/** Functions that make passes beside each other; what comes meanwhile waits for one of them. */
const FUNCTIONS = 4;
const TICK_MS = 60_000;
const LOOK_MS = 5_000;
const WATCHED_MS = 30 * 60_000;

/** Functions that are told of whatever happens, as the stream, the wake queue and the tick do. */
function dispatchers(on: Stage, store: JobStore): void {
  const free = Array.from({ length: FUNCTIONS }, () => on.dispatcher({ store }));
  const waiting: WakeTrigger[] = [];
  const next = async (): Promise<void> => {
    const context = free.pop();
    if (context === undefined) return;
    const trigger = waiting.shift();
    if (trigger !== undefined) await dispatchAll(context, trigger);
    free.push(context);
    if (trigger !== undefined) await next();
  };
  const tell = (trigger: WakeTrigger): void => {
    const last = waiting.at(-1);
    // As the stream does: records that wait come together.
    if (last?.reason === 'stream' && trigger.reason === 'stream')
      waiting[waiting.length - 1] = { ...last, jobs: [...last.jobs, ...trigger.jobs] };
    else waiting.push(trigger);
    void next();
  };
  on.store.subscribe(({ newJob }) => {
    if (newJob.state !== 'claimed' && newJob.state !== 'running') tell({ jobs: [newJob], reason: 'stream' });
  });
  on.queue.onWake(() => tell({ jobs: [], reason: 'wake' }));
  const tick = (): void => {
    tell({ jobs: [], reason: 'tick' });
    on.time.after(TICK_MS, tick);
  };
  on.time.after(TICK_MS, tick);
}

describe('a store of which each answer takes long', () => {
  it.each([
    [1_500, 6],
    [2_500, 9],
    [4_000, 15],
  ])(
    'lets all jobs end: %i ms on average, within %i minutes',
    { timeout: 60_000 },
    async (meanMs, minutes) => {
      const on = stage({
        pool: {
          types: { resize: { timeoutMs: 60_000 } },
          tiers: [{ tier: 'standard' }],
          fleets: { images: { types: ['resize'] } },
        },
      });
      const store = answeringIn(on, meanMs);
      dispatchers(on, store);
      const { configuration, clock, random, log, queue } = on;
      const exits: string[] = [];
      const shutdown = new AbortController();
      const reports = Array.from({ length: WORKERS }, (_, at) =>
        runWorker({
          configuration,
          clock,
          random,
          log,
          store,
          queue,
          fleet: 'images',
          slots: SLOTS,
          workerId: `worker-${at}`,
          handlers: {
            resize: async () => {
              await clock.sleep(WORK_MS);
              return null;
            },
          },
          signal: shutdown.signal,
          exit: (reason) => void exits.push(reason),
        }),
      );
      const jobs = await on.put(...Array.from({ length: JOBS }, () => on.job()));
      const beganMs = on.time.nowMs;
      const isOver = (): boolean => on.states(jobs).every((state) => state === 'succeeded');
      while (!isOver() && on.time.nowMs - beganMs < WATCHED_MS) await on.advance(LOOK_MS);
      expect(on.states(jobs).filter((state) => state !== 'succeeded')).toEqual([]);
      expect((on.time.nowMs - beganMs) / 60_000).toBeLessThanOrEqual(minutes);
      expect(jobs.filter(({ id }) => on.store.inspectJob(id)?.workersLost !== 0)).toEqual([]);
      shutdown.abort();
      await on.finish(Promise.all(reports));
      expect(exits).toEqual([]);
    },
  );
});
