/** Reads of caps, rates and locks show what passes count. */
import { expect, it } from 'vitest';
import { desk } from '../client/desk.ts';

const pool = {
  types: {
    resize: { conflictGroup: 'album', defaultCostMs: 1_000, timeoutMs: 30_000 },
    mail: { defaultCostMs: 1_000, timeoutMs: 30_000, maxConcurrency: 3, limits: ['smtp'] },
  },
  tiers: [{ tier: 'standard', maxConcurrency: 6 }],
  fleets: { general: { types: ['resize', 'mail'], slots: 8 } },
  limits: { smtp: { total: 5, rate: { starts: 10, per: '1m' } } },
};

it('show each cap with its jobs, and who set it', async () => {
  const { put, job, pass, client } = desk({ pool });
  await put(...Array.from({ length: 5 }, () => job({ type: 'mail' })));
  await pass();
  await client.override({ type: 'resize' }, { maxConcurrency: 2, reason: 'slow' }, { actor: 'ada' });
  await client.pause({ fairnessKey: 'a' });
  const { scopes, rates } = await client.capacity();
  expect(scopes).toMatchObject([
    { scope: 'pool', running: 3, paused: false },
    { scope: 'tier/standard', declared: 6, cap: 6, running: 3, paused: false },
    {
      scope: 'type/resize',
      cap: 2,
      running: 0,
      paused: false,
      capSet: { to: 2, by: 'ada', reason: 'slow' },
    },
    { scope: 'type/mail', declared: 3, cap: 3, running: 3, paused: false },
    { scope: 'limit/smtp', declared: 5, cap: 5, running: 3, paused: false },
    { scope: 'key/a', running: 0, paused: true },
  ]);
  expect(rates).toMatchObject([{ limit: 'smtp', used: 3, most: 10, perMs: 60_000 }]);
});

it('count the units of a rate', async () => {
  const limits = { smtp: { rate: { units: 50, perJob: 20, per: '1m' } } };
  const { put, job, pass, client } = desk({ pool: { ...pool, limits } });
  await put(job({ type: 'mail' }), job({ type: 'mail', units: { smtp: 7 } }));
  await pass();
  expect((await client.capacity()).rates).toMatchObject([
    { limit: 'smtp', used: 27, most: 50, perJob: 20, perMs: 60_000 },
  ]);
});

it('count starts of a rate until its window has passed', async () => {
  const { put, job, work, pass, client, advance } = desk({ pool });
  await put(job({ type: 'mail' }), job({ type: 'mail' }));
  await pass({ jobs: [...(await work())], reason: 'stream' });
  const [used] = (await client.capacity()).rates;
  expect(used?.used).toBe(2);
  await advance(120_000);
  expect((await client.capacity()).rates).toEqual([{ limit: 'smtp', used: 0, most: 10, perMs: 60_000 }]);
});

it('name the job that holds a conflict key, and count those that are parked for it', async () => {
  const { put, job, pass, client, startEverywhere } = desk({ pool });
  const jobs = await put(...Array.from({ length: 30 }, () => job({ resourceId: 'one' })));
  await pass();
  const [holder] = await startEverywhere();
  for (let at = 0; at < 3; at += 1) await pass();
  const [lock] = await client.locks();
  expect(lock).toMatchObject({ conflictKey: 'album/one', holders: [holder?.job.id], more: false });
  expect(lock?.parked).toBeLessThan(jobs.length);
});
