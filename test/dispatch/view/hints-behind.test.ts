/** Hints that rank behind where a read of their line ended: most of the jobs that they told of do not wait any more. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const SLOTS = 40;
const JOBS = 300;

interface Played {
  readonly admitted: number;
  /** Places that were given to jobs which do not wait any more. */
  readonly inVain: number;
  /** Jobs that were looked up in the first pass that heard of them all. */
  readonly lookedUp: number;
}

async function endAll(on: Stage, most?: number): Promise<readonly Job[]> {
  const started = (await on.startAll('images')).slice(0, most);
  return Promise.all(started.map((each) => on.end(each)));
}

/** A dispatcher that has known the line for a while hears of many jobs at once, of which two thirds were cancelled since. */
async function play(before: number): Promise<Played> {
  const on = stage({
    leads: true,
    pool: {
      types: { resize: { timeoutMs: 600_000, defaultCostMs: 1_000 } },
      fleets: { images: { types: ['resize'], slots: SLOTS } },
    },
  });
  let ids = 0;
  const context = on.dispatcher({
    store: storeWith(on.store, {
      lookUpJobs: (request) => {
        ids += request.ids.length;
        return on.store.lookUpJobs(request);
      },
    }),
  });
  const hear = (jobs: readonly Job[]) => on.pass({ jobs, reason: 'stream' }, context);
  await hear(await on.put(...Array.from({ length: before }, () => on.job({ priority: 0 }))));
  await on.advance(2_000);
  await hear(await endAll(on));
  await on.advance(7_000);
  const jobs = await on.put(
    ...Array.from({ length: JOBS }, (_, at) => on.job({ priority: 5, readyAtMs: on.time.nowMs + at })),
  );
  await on.advance(1_000);
  const gone = jobs.filter((_, at) => at >= 40 && at % 4 !== 1);
  const nowMs = on.time.nowMs;
  for (const { id } of gone) await on.store.cancelJob({ jobId: id, nowMs, expiresAtMs: nowMs + 1_000_000 });
  await on.advance(1_000);
  let admitted = 0;
  let inVain = 0;
  const goneIds = new Set(gone.map(({ id }) => id));
  let told: readonly Job[] = [...jobs, ...(await endAll(on, 9))];
  ids = 0;
  const lookedUp: number[] = [];
  for (let round = 0; round < 20; round += 1) {
    const report = await hear(told);
    admitted += report.admitted;
    inVain += on.held().filter(({ id }) => goneIds.has(id)).length;
    lookedUp.push(ids);
    await on.advance(300);
    told = await endAll(on);
  }
  expect(admitted).toBe(JOBS - gone.length);
  return { admitted, inVain, lookedUp: lookedUp[0] ?? Number.NaN };
}

describe('hints behind what was read of a line', () => {
  it('cost no places', async () => {
    expect((await play(SLOTS - 10)).inVain).toBe(0);
  });

  it('are looked up when a read comes to them, not before', async () => {
    expect((await play(SLOTS + 10)).lookedUp).toBeLessThan(JOBS / 2);
  });
});
