/** A job that has not started in time ends, and never starts. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { expireDue } from '../../../lib/dispatch/pass/expire.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const waits = async (on: Stage, count: number, afterMs: number): Promise<readonly Job[]> =>
  on.put(...Array.from({ length: count }, () => on.job({ expireAtMs: on.time.nowMs + afterMs })));

const statesOf = (on: Stage, jobs: readonly Job[]): readonly unknown[] =>
  jobs.map(({ id }) => on.stateOf(id));

describe('a pass', () => {
  it('ends the jobs that it would have started too late, and starts the next ones', async () => {
    const on = stage();
    const late = await waits(on, 3, 1_000);
    await on.advance(1_000);
    const inTime = await waits(on, 4, 1_000);
    await on.pass();
    expect(statesOf(on, late)).toEqual(['expired', 'expired', 'expired']);
    expect(await on.startEverywhere()).toHaveLength(4);
    expect(statesOf(on, inTime)).toEqual(['running', 'running', 'running', 'running']);
  });

  it('starts a job until its time is over', async () => {
    const on = stage();
    const jobs = await waits(on, 1, 1_000);
    await on.advance(999);
    await on.pass();
    expect(await on.startEverywhere()).toHaveLength(1);
    await on.advance(10);
    expect(statesOf(on, jobs)).toEqual(['running']);
  });

  it('gets capacity back that a message kept which came too late', async () => {
    const on = stage();
    const jobs = await waits(on, 4, 1_000);
    await on.pass();
    await on.advance(1_000);
    expect(await on.startEverywhere()).toEqual([]);
    await on.finish(expireDue(on.main));
    expect(statesOf(on, jobs)).toEqual(['expired', 'expired', 'expired', 'expired']);
    const added = await on.put(on.job());
    const ended = jobs.map(({ id }) => on.store.inspectJob(id)).filter((job) => job !== undefined);
    await on.pass({ jobs: [...ended, ...added], reason: 'stream' });
    expect(await on.startEverywhere()).toMatchObject([{ job: { id: added[0]?.id } }]);
  });

  it('leaves the rest to the next one where very many have not started in time', async () => {
    const on = stage({ budget: { promoteMax: 2 } });
    const late = await waits(on, 100, 1_000);
    await on.advance(1_000);
    const [inTime] = await on.put(on.job());
    const report = await on.pass();
    expect(report.passes).toBeGreaterThan(2);
    expect(new Set(statesOf(on, late))).toEqual(new Set(['expired']));
    expect(on.stateOf(inTime?.id ?? '')).toBe('claimed');
  });
});

describe('the tick', () => {
  it('ends jobs in a line that no pass reads to its end', async () => {
    const on = stage({ budget: { promoteMax: 7 } });
    const late = await waits(on, 100, 1_000);
    const inTime = await waits(on, 3, 2_000);
    await on.advance(1_000);
    await on.finish(expireDue(on.main));
    expect(new Set(statesOf(on, late))).toEqual(new Set(['expired']));
    expect(new Set(statesOf(on, inTime))).toEqual(new Set(['pending']));
  });

  it('leaves a job that starts at the same moment to its worker', async () => {
    const on = stage();
    const [job] = await waits(on, 1, 1_000);
    await on.pass();
    await on.advance(999);
    const store = storeWith(on.store, {
      lookUpJobs: async (request) => {
        const found = await on.store.lookUpJobs(request);
        await on.startEverywhere();
        return found;
      },
      readExpired: async () => ({ ids: [job?.id ?? ''] }),
    });
    // Its clock is ahead of the worker's.
    const { clock } = on.main;
    await expireDue(on.dispatcher({ store, clock: { ...clock, nowMs: () => clock.nowMs() + 1 } }));
    expect(on.stateOf(job?.id ?? '')).toBe('running');
  });
});
