/** What firings and changes of a schedule must not lose, seen from outside. */
import { describe, expect, it } from 'vitest';
import { partitionOf } from '../../lib/core/partition.ts';
import { putSchedule } from '../../lib/schedules/schedules.ts';
import { aScheduleSpec } from '../fixtures/factories/schedule.ts';
import { FAILED, stage, storeWith } from '../stage/stage.ts';
import { MINUTE_MS, scene } from './scene.ts';

const ONCE_FAILED = {
  types: { resize: { defaultCostMs: 1_000, timeoutMs: 3_600_000, retry: { maxAttempts: 1 } } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize'], slots: 20 } },
};

describe('a schedule', () => {
  it('does not take a job that cannot be read for one that has ended', async () => {
    const { on, put, firedAt, tickAt, read } = scene();
    await put({ ifRunning: 'skip' });
    await tickAt(1);
    const lookUpJobs: typeof on.store.lookUpJobs = async ({ ids, unreadable }) => {
      for (const id of ids) unreadable?.(id);
      return ids.map(() => undefined);
    };
    await on.advance(MINUTE_MS);
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { lookUpJobs }) }));
    expect(firedAt()).toEqual([1]);
    expect((await read()).state.history.at(-1)).toMatchObject({ what: 'running' });
  });

  it('takes a job whose record has expired for one that has ended', async () => {
    const { on, put, firedAt, tickAt, read } = scene();
    await put({ ifRunning: 'skip' });
    await tickAt(1);
    const lookUpJobs: typeof on.store.lookUpJobs = async ({ ids }) => ids.map(() => undefined);
    await on.advance(MINUTE_MS);
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { lookUpJobs }) }));
    expect(firedAt()).toEqual([1, 2]);
    expect((await read()).state.history).toMatchObject([
      { what: 'made', jobState: 'gone' },
      { what: 'made' },
    ]);
    // Nobody looks for it again.
    const asked: string[][] = [];
    const noting: typeof on.store.lookUpJobs = async (request) => {
      asked.push([...request.ids]);
      return on.store.lookUpJobs(request);
    };
    await on.advance(MINUTE_MS);
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { lookUpJobs: noting }) }));
    expect(asked[0]).toHaveLength(1);
  });

  it('counts its failures anew, once somebody has put it again after it stopped', async () => {
    const { on, put, tickAt, read } = scene(ONCE_FAILED);
    await put({ maxFailures: 1 });
    await tickAt(1);
    for (const started of await on.startEverywhere())
      await on.pass({ jobs: [await on.end(started, FAILED)], reason: 'stream' });
    await tickAt(2);
    expect((await read()).state).toMatchObject({ stopped: 'failures', failures: 1 });
    await put({ maxFailures: 2 });
    expect((await read()).state.failures).toBe(0);
    expect((await read()).state.stopped).toBeUndefined();
  });

  it('fires nothing again that it has dealt with, when it is put by a clock that is behind', async () => {
    const { on, operator, put, firedAt, tickAt } = scene();
    await put();
    await tickAt(1, 2, 3);
    const slow = { ...operator, nowMs: () => on.time.nowMs - 2 * MINUTE_MS };
    await on.finish(
      putSchedule(slow, 's', aScheduleSpec({ when: { kind: 'every', everyMs: 90_000 } }), false),
    );
    await tickAt(3.1, 3.5);
    expect(firedAt()).toEqual([1, 2, 3]);
  });
});

describe('a schedule whose key lives in another partition by now', () => {
  it('makes its job there, and wakes it', async () => {
    const { on, put, jobs, read } = scene({ ...ONCE_FAILED, partitions: 2 });
    const keyIn = (partition: number): string => {
      const keys = Array.from({ length: 50 }, (_, at) => `key-${at}`);
      return keys.find((key) => partitionOf(key, 2) === partition) ?? 'none';
    };
    const { job } = aScheduleSpec();
    await put({ job: { ...job, fairnessKey: keyIn(0) } });
    const { spec, state } = await read();
    const record = {
      spec: { ...spec, job: { ...job, fairnessKey: keyIn(1) } },
      state: { ...state, revision: state.revision + 1 },
    };
    expect(await on.store.putSchedule({ record, afterRevision: state.revision })).toBe('applied');
    const woken: number[] = [];
    await on.advance(MINUTE_MS);
    on.queue.onWake((partition) => woken.push(partition));
    await on.pass();
    await on.advance(1_000);
    expect(jobs()).toMatchObject([{ partition: 1 }]);
    expect(woken).toContain(1);
    expect((await read()).state.partition).toBe(1);
  });
});

describe('many schedules of one minute', () => {
  it('fire in one pass, although the index goes on showing where they stood', async () => {
    const COUNT = 160;
    const on = stage({ store: { indexLagMs: 2_000 }, pool: ONCE_FAILED });
    const operator = on.operator();
    for (let at = 0; at < COUNT; at += 1)
      await on.finish(putSchedule(operator, `s${at}`, aScheduleSpec(), false));
    await on.advance(MINUTE_MS + 10);
    const pages: string[][] = [];
    const getSchedules: typeof on.store.getSchedules = async (request) => {
      pages.push([...request.ids]);
      return on.store.getSchedules(request);
    };
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { getSchedules }) }));
    const fired = [...on.store.everyJob()].filter(({ scheduleId }) => scheduleId !== undefined);
    expect(fired).toHaveLength(COUNT);
    // Each of the four rounds looks at others.
    expect(new Set(pages.slice(0, 4).flat()).size).toBe(COUNT);
    expect(pages.slice(0, 4).map((page) => page.length)).toEqual([50, 50, 50, 10]);
  });
});
