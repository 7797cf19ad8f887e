/**
 * A dispatcher that remembers thousands of keys for twenty seconds and more is told of a job while nothing has room. It forgets
 * what it was told after fifteen, and goes on with what it remembers.
 */
import { expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { type Stage, stage } from '../../stage/stage.ts';

/** Remembered for 20 s. */
const KEYS = 2_000;

async function theStarted(on: Stage): Promise<Job> {
  const [started] = await on.startAll('images');
  if (started === undefined) throw new Error('nothing started');
  return started.job;
}

const NEW_LINE = { fairnessKey: 'tenant-1500', mode: 'onDemand' } as const;

it.each([
  ['a key that had only queued ones', 'another dispatcher', 17_000, NEW_LINE],
  ['a key that had only queued ones', 'the same dispatcher', 17_000, NEW_LINE],
])(
  'an urgent job of %s is the next that %s starts, %d ms after its hint',
  async (_, who, ms, changes) => {
    const on = stage({
      pool: {
        types: { resize: { defaultCostMs: 1_000, timeoutMs: 600_000 } },
        tiers: [{ tier: 'standard' }],
        fleets: { images: { types: ['resize'], slots: 1 } },
      },
    });
    const jobs = Array.from({ length: KEYS }, (_, at) => on.job({ fairnessKey: `tenant-${at}` }));
    await on.put(...jobs);
    await on.pass({ jobs: jobs.slice(0, 100), reason: 'stream' });
    const runs = await theStarted(on);
    await on.advance(1_000);
    const urgent = on.job({ priority: 10, ...changes });
    await on.put(urgent);
    await on.pass({ jobs: [urgent], reason: 'stream' });
    await on.advance(ms);
    const context = who === 'the same dispatcher' ? on.main : on.dispatcher();
    await on.pass({ jobs: [await on.end({ job: runs })], reason: 'stream' }, context);
    expect((await theStarted(on)).id).toBe(urgent.id);
  },
  60_000,
);
