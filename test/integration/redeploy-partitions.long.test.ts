/** Real redeploys with other numbers of partitions while jobs wait and run. */

import { describe, expect, it } from 'vitest';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import { hasSucceeded, intervalOf, LOOK_EVERY_MS, redeployedStack, TEST_MS, WAIT_MS } from './redeploys.ts';

/** Jobs for a time to come: some are still to come when a deployment is through. */
const FUTURE_MS = 40_000;

/** Of the fleet that takes the type. */
const SLOTS = 4;

describe('a stack that is redeployed', () => {
  const on = redeployedStack('THIRD');

  it(
    'divides among four partitions, then among two, while jobs wait and run',
    async () => {
      const keys = ['ann', 'bob', 'cleo', 'dan', 'eve', 'fay'];
      const submit = async (
        payload: number | string,
        fairnessKey: string,
        resourceId?: string,
        afterMs = 0,
      ) => {
        const runAt = new Date(Date.now() + afterMs).toISOString();
        const resource = resourceId === undefined ? {} : { resourceId };
        const later = afterMs === 0 ? {} : { runAt };
        return (await on.client().submit({ type: 'print', payload, fairnessKey, ...resource, ...later }))
          .jobId;
      };
      const isOf = (partitions: number) => (job: Job) =>
        job.partition === partitionOf(job.fairnessKey, partitions);
      const long = await submit(on.held(), 'ann', 'cover');
      await on.until([long], ({ state }) => state === 'running');
      const ofCover = await Promise.all(keys.map((key) => submit(50, key, 'cover')));
      const others = await Promise.all(keys.flatMap((key) => [submit(2_000, key), submit(2_000, key)]));
      const future = await submit(50, 'fay', undefined, FUTURE_MS);
      await on.redeploy('QUARTERS');
      await on.until(ofCover, isOf(4));
      on.gate.answer();
      const quarters = await on.until([long, ...ofCover, ...others, future], hasSucceeded);
      expect(quarters.filter(({ id }) => ofCover.includes(id)).every(isOf(4))).toBe(true);
      const longer = await submit(on.held(), 'bob', 'back');
      await on.until([longer], ({ state }) => state === 'running');
      const ofBack = await Promise.all(keys.map((key) => submit(50, key, 'back')));
      const last = await submit(50, 'cleo', undefined, FUTURE_MS);
      await on.redeploy('HALVES');
      await on.until(ofBack, isOf(2));
      on.gate.answer();
      const halves = await on.until([longer, ...ofBack, last], hasSucceeded);
      expect(halves.filter(({ id }) => ofBack.includes(id)).every(isOf(2))).toBe(true);
      const all = [...quarters, ...halves];
      expect(all.map(({ attempt, workersLost }) => [attempt, workersLost])).toEqual(all.map(() => [1, 0]));
      const intervals = all.map((job) => ({ ...intervalOf(job), resourceId: job.resourceId }));
      for (const one of intervals) {
        const beside = intervals.filter(({ fromMs, toMs }) => fromMs <= one.fromMs && one.fromMs < toMs);
        expect(beside.length).toBeLessThanOrEqual(SLOTS);
        const exclusive = beside.filter(
          ({ resourceId }) => resourceId !== undefined && resourceId === one.resourceId,
        );
        expect(exclusive.length).toBeLessThanOrEqual(1);
      }
      const done = { carriedVersion: 3, isDone: true, isHandingOver: false };
      await expect
        .poll(() => on.client().declaration(), { timeout: WAIT_MS, interval: LOOK_EVERY_MS })
        .toMatchObject({ version: 3, partitions: Array.from({ length: 4 }, () => done) });
    },
    2 * TEST_MS,
  );
});
