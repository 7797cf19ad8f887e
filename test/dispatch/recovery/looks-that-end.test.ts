/** Where slots stay free and nothing may start, passes end: what they look at again is not more to do. */
import { expect, it } from 'vitest';
import { stage } from '../../stage/stage.ts';

// Of 2,100 keys, the last page goes past the bound of a plan.
it.each([
  [5, 300],
  [6, 350],
])('beside the used-up lines of %i types with %i keys each', async (count, keys) => {
  const types = Array.from({ length: count }, (_, at) => `type-${at}`);
  const on = stage({
    pool: {
      types: Object.fromEntries([...types, 'stopped'].map((type) => [type, { defaultCostMs: 1_000 }])),
      tiers: [{ tier: 'standard' }],
      fleets: { images: { types: [...types, 'stopped'], slots: 3 } },
      fairness: { idlePolicy: 'none' },
    },
  });
  // Something waits, so that nobody may say that nothing does.
  await on.store.changeControl({ partition: 0, scope: 'type/stopped', change: { paused: true } });
  await on.put(on.job({ type: 'stopped', fairnessKey: 'tenant-0' }));
  const jobs = types.flatMap((type) =>
    Array.from({ length: keys }, (_, at) => on.job({ type, fairnessKey: `tenant-${at}` })),
  );
  await on.put(...jobs);
  const nowMs = on.time.nowMs;
  await Promise.all(
    jobs.map(({ id }) => on.store.cancelJob({ jobId: id, nowMs, expiresAtMs: nowMs + 3_600_000 })),
  );
  await on.pass();
  for (let wakes = 0; wakes < 3; wakes += 1) {
    await on.advance(1_000);
    const { kind, passes } = await on.pass({ reason: 'wake' });
    expect([kind, passes]).toEqual(['done', 1]);
  }
  // What nobody told of is found.
  const [silent] = await on.put(on.job({ type: 'type-1', fairnessKey: 'silent' }));
  await on.advance(1_000);
  await on.pass({ reason: 'wake' });
  expect(on.stateOf(silent?.id ?? '')).toBe('claimed');
});
