/** A real redeploy that takes a fleet away; `redeploy.test.ts` leaves the fleets as they are. */
import { describe, expect, it } from 'vitest';
import { aWorkerRecord } from '../fixtures/factories/worker.ts';
import { hasSucceeded, LOOK_EVERY_MS, redeployedStack, TEST_MS, WAIT_MS } from './redeploys.ts';

describe('a stack that is redeployed without one of its fleets', () => {
  const on = redeployedStack('SECOND');

  it(
    'gives its claims back, and its jobs run on another one',
    async () => {
      const expiresAtMs = Date.now() + 3_600_000;
      await on.store().registerWorker({
        partition: 0,
        record: aWorkerRecord({ fleet: 'boxes', slots: 3, expiresAtMs }),
      });
      const packed = await Promise.all(Array.from({ length: 5 }, () => on.submitted('pack', 0)));
      // As many as the worker has slots for; which ones, where all are stored at once, is not for the test to say.
      const claimed = async (): Promise<number> => {
        let count = 0;
        for await (const { id } of on.client().list({ state: 'claimed' }))
          if (packed.includes(id)) count += 1;
        return count;
      };
      await expect.poll(claimed, { timeout: WAIT_MS, interval: LOOK_EVERY_MS }).toBe(3);
      await on.redeploy('THIRD');
      const jobs = await on.until(packed, hasSucceeded);
      expect(new Set(jobs.map(({ claim }) => claim?.fleet))).toEqual(new Set(['general']));
    },
    TEST_MS,
  );
});
