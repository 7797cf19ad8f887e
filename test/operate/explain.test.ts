/** What a waiting job is said to wait for: "the next pass" only where the next pass starts it. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import { EXPLAIN_LIMITS } from '../../lib/operate/explain.ts';
import { lockedJob, lockedPool } from '../stage/locked.ts';
import { stage, storeWith } from '../stage/stage.ts';
import { testWorlds, waitsFor } from './explain-worlds.ts';

const SMALL: PoolInput = { types: { resize: {} }, tiers: [{ tier: 'standard' }] };

describe('a job that has a place, and that its pass claims with a lock', () => {
  it('waits for that pass, not for a worker: nobody is told before the lock is won', async () => {
    const on = stage({ pool: lockedPool(2) });
    const [job] = await on.put(lockedJob(on));
    const claim = async (claims: readonly unknown[]) => claims.map(() => 'unknown' as const);
    await on.pass({}, on.dispatcher({ store: storeWith(on.store, { claim }) }));
    expect(on.held().map(({ id }) => id)).toEqual([job?.id]);
    expect(await waitsFor(on, job)).toEqual([{ why: 'pass' }]);
  });
});

describe('a job that passes do not see', () => {
  it('waits for its line to be announced, where its submitter was stopped before', async () => {
    const on = stage();
    const job = on.job({ fairnessKey: 'stopped' });
    await on.store.createJobs([job]);
    await on.pass();
    expect(await waitsFor(on, job)).toEqual([{ why: 'announcement', fairnessKey: 'stopped' }]);
    await on.put(on.job({ fairnessKey: 'stopped' }));
    expect(await waitsFor(on, job)).toEqual([{ why: 'pass' }]);
  });

  it('waits for the index, where that lags', async () => {
    const on = stage({ store: { indexLagMs: 5_000 } });
    const [job] = await on.put(on.job());
    expect(await waitsFor(on, job)).toEqual([{ why: 'index' }]);
    await on.advance(5_000);
    expect(await waitsFor(on, job)).toEqual([{ why: 'pass' }]);
  });

  it('waits to be moved to its line, where more jobs are due than a pass moves', async () => {
    const on = stage({ pool: { ...SMALL, fleets: { images: { types: ['resize'], slots: 10_000 } } } });
    const atMs = on.time.nowMs;
    const due = (afterMs: number): Job =>
      on.job({ state: 'scheduled', runAtMs: atMs + afterMs, readyAtMs: atMs + afterMs });
    const before = Array.from({ length: EXPLAIN_LIMITS.positionMax }, () => due(1));
    const [last] = await on.put(due(2), ...before);
    await on.advance(1_000);
    expect(await waitsFor(on, last)).toEqual([{ why: 'promotion', dueSinceMs: atMs + 2 }]);
    expect(await waitsFor(on, before.at(-1))).toEqual([{ why: 'pass' }]);
  });
});

// Others are in `explain.long.test.ts`.
testWorlds(0, 29);
// Of locks that others hold, 63 shows what no earlier one does.
testWorlds(63, 63);
