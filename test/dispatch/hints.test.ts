/** What a hint tells is not forgotten, whether or not anything may start when it comes. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { type Stage, stage } from './stage.ts';

const oneSlot = (): Stage =>
  stage({
    pool: {
      types: { resize: { timeoutMs: 600_000, defaultCostMs: 1_000 } },
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: ['resize'], slots: 1 } },
    },
  });

/** A pool that is busy, with ten jobs waiting; and the job that runs. */
async function busy(on: Stage): Promise<Job> {
  const jobs = Array.from({ length: 11 }, () => on.job());
  await on.put(...jobs);
  await on.pass({ jobs, reason: 'stream' });
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  await on.advance(1_000);
  return started.job;
}

/** Ends what runs, four seconds later, and answers what starts in its place. */
async function next(on: Stage, job: Job): Promise<Job> {
  await on.advance(4_000);
  await on.pass({ jobs: [await on.end({ job })], reason: 'stream' });
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  return started.job;
}

describe('a job that comes while every slot is busy', () => {
  it.each([
    ['is more urgent', { priority: 10 }],
    ['is on demand', { mode: 'onDemand' as const, priority: 10 }],
    ['is of another key', { fairnessKey: 'another', priority: 10 }],
  ])('and %s starts next, for a dispatcher that remembers what waited before', async (_, changes) => {
    const on = oneSlot();
    const runs = await busy(on);
    const urgent = on.job(changes);
    await on.put(urgent);
    await on.pass({ jobs: [urgent], reason: 'stream' });
    expect((await next(on, runs)).id).toBe(urgent.id);
  });

  it('starts next also when its hint overtook the index', async () => {
    const on = stage({
      pool: {
        types: { resize: { timeoutMs: 600_000, defaultCostMs: 1_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
      },
      store: { indexLagMs: 10_000 },
    });
    const runs = await busy(on);
    const urgent = on.job({ priority: 10, fairnessKey: 'another' });
    await on.put(urgent);
    await on.pass({ jobs: [urgent], reason: 'stream' });
    expect((await next(on, runs)).id).toBe(urgent.id);
  });

  it('and is cancelled before its turn costs no claim', async () => {
    const on = oneSlot();
    const runs = await busy(on);
    const urgent = on.job({ priority: 10 });
    await on.put(urgent);
    await on.pass({ jobs: [urgent], reason: 'stream' });
    const outcome = await on.store.cancelJob(urgent.id, on.time.nowMs, on.time.nowMs + 1_000_000);
    if (outcome.kind !== 'cancelled') throw new Error('not cancelled');
    // Hints come in any order, and more than once.
    await on.pass({ jobs: [outcome.job, urgent], reason: 'stream' });
    await on.pass({ jobs: [urgent], reason: 'stream' });
    await on.advance(4_000);
    const report = await on.pass({ jobs: [await on.end({ job: runs })], reason: 'stream' });
    expect(report).toMatchObject({ admitted: 1 });
  });
});
