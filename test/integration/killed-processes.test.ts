/** A worker process is killed: how soon its job begins on another one. The simulation kills thousands. */
import { describe, expect, it } from 'vitest';
import { restartOf, SOONEST_MS } from './killing.ts';

const TEST_MS = 180_000;

describe.concurrent('a job whose worker process is killed', () => {
  it.each([
    { pool: 'a quiet pool, by a worker that idles', isBusy: false, hasPeer: true, killedAfterMs: 3_000 },
    { pool: 'a quiet pool, by one that comes next', isBusy: false, hasPeer: false, killedAfterMs: 8_500 },
    { pool: 'a busy pool', isBusy: true, hasPeer: true, killedAfterMs: 5_500 },
  ])('begins again in $pool, within lease + 5 s and a pass', { timeout: TEST_MS }, async (scene) => {
    const { afterMs, latestMs } = await restartOf(scene);
    console.info(`${scene.pool}: began again after ${afterMs} ms`);
    expect(afterMs).toBeGreaterThan(SOONEST_MS);
    expect(afterMs).toBeLessThan(latestMs);
  });
});
