import { describe, expect, it } from 'vitest';
import { MetricCollector } from '../../../lib/metrics/collector.ts';
import type { MetricKey } from '../../../lib/metrics/contract.ts';
import type { RequestOf } from '../../../lib/store/contract/verbs.ts';
import { aWorkerRecord } from '../../fixtures/factories/worker.ts';
import { type Stage, stage, storeWith } from '../../stage/stage.ts';

const POOL = {
  types: { image: { maxConcurrency: 4, conflictGroup: 'album' }, mail: {} },
  fleets: { images: { types: ['image'], slots: 3 }, mails: { types: ['mail'], slots: 2 } },
  maxConcurrency: 10,
};

describe('what a pass leaves behind', () => {
  const told = (collector: MetricCollector): Readonly<Record<string, number>> =>
    Object.fromEntries(
      collector
        .take()
        .flatMap(({ sets, values }) =>
          [...values].flatMap(([metric, [value]]: [MetricKey, readonly number[]]) =>
            sets.map((set) => [[metric, ...Object.values(set)].join(' '), value ?? Number.NaN]),
          ),
        ),
    );

  it('is what runs against each cap, what is free, what waits, and whether anything could start', async () => {
    const on = stage({ pool: POOL });
    const metrics = new MetricCollector();
    const context = { ...on.main, metrics };
    await on.put(...Array.from({ length: 5 }, () => on.job({ type: 'image' })), on.job({ type: 'mail' }));
    await on.pass({}, context);
    const values = told(metrics);
    expect(values).toMatchObject({
      running: 4,
      capUsed: 40,
      'running image': 3,
      'capUsed image': 75,
      'running images': 3,
      'capUsed images': 100,
      'freeSlots mails': 1,
      freeSlots: 1,
      backlog: 2,
      'backlog image': 2,
      startable: 0,
    });
    expect(values.oldestPending).toBeGreaterThanOrEqual(0);
  });

  it('counts as startable only what no cap, conflict or pause holds back', async () => {
    const on = stage({ pool: POOL });
    const metrics = new MetricCollector();
    await on.put(...Array.from({ length: 3 }, () => on.job({ type: 'image', resourceId: 'one' })));
    await on.pass({}, { ...on.main, metrics });
    expect(told(metrics)).toMatchObject({ running: 1, backlog: 2, startable: 0, 'freeSlots images': 2 });
  });

  it('is told once a minute, and not at all where nothing goes on', async () => {
    const on = stage({ pool: POOL });
    const metrics = new MetricCollector();
    const context = { ...on.main, metrics };
    await on.pass({}, context);
    expect(told(metrics)).toEqual({});
    on.time.skip(60_000);
    await on.put(on.job({ type: 'mail' }));
    await on.pass({}, context);
    expect(told(metrics)).toMatchObject({ running: 1 });
    await on.pass({}, context);
    expect(told(metrics)).toEqual({});
  });

  it('is told for idle processes, too, where they are scaled by it', async () => {
    const on = stage({
      pool: { types: { image: {} }, fleets: { images: { types: ['image'], slots: null } } },
    });
    const metrics = new MetricCollector({ metrics: ['backlogTime'] });
    const context = { ...on.main, metrics };
    await on.pass({}, context);
    expect(told(metrics)).toEqual({});
    on.time.skip(60_000);
    const record = aWorkerRecord({ fleet: 'images', slots: 2, expiresAtMs: on.time.nowMs + 15_000 });
    await on.store.registerWorker({ partition: 0, record });
    await on.pass({}, context);
    expect(told(metrics)).toEqual({ 'capUsed images': 0 });
  });

  describe('as seconds of work over the slots of a full fleet', () => {
    const backlogOf = async (on: Stage): Promise<Readonly<Record<string, number>>> => {
      const metrics = new MetricCollector({ metrics: ['backlogTime'] });
      await on.pass({}, { ...on.main, metrics });
      const values = told(metrics);
      return Object.fromEntries(Object.entries(values).filter(([name]) => name.startsWith('backlogTime')));
    };
    const poolOf = (slots: number | null) => ({
      types: { image: { defaultCostMs: '20s' }, mail: {} },
      fleets: { images: { types: ['image'], slots }, mails: { types: ['mail'], slots: 2 } },
    });

    it('counts what waits, without what runs, by the learned cost', async () => {
      const on = stage({ pool: poolOf(2) });
      await on.put(...Array.from({ length: 8 }, () => on.job({ type: 'image' })));
      expect(await backlogOf(on)).toEqual({
        backlogTime: 60,
        'backlogTime images': 60,
        'backlogTime mails': 0,
      });
    });

    it('is as old as the oldest job, however many wait, and reads no more than its bound', async () => {
      const on = stage({ pool: { ...poolOf(1), types: { image: { defaultCostMs: 1 }, mail: {} } } });
      await on.put(
        ...Array.from({ length: 2_500 }, (_, n) => on.job({ type: 'image', fairnessKey: `k${n % 2}` })),
      );
      await on.pass();
      on.time.skip(90_000);
      let read = 0;
      const store = storeWith(on.store, {
        readLine: async (asked: RequestOf<'readLine'>) => {
          const line = await on.store.readLine(asked);
          read += line.jobs.length;
          return line;
        },
      });
      const metrics = new MetricCollector({ metrics: ['backlogTime'] });
      await on.pass({}, { ...on.main, store, metrics });
      expect(told(metrics)['backlogTime images']).toBeCloseTo(90, 0);
      // With the job that runs, which still stands in its line.
      expect(read).toBeLessThanOrEqual(1_001);
    });

    it('is told for a fleet without any worker, so that it can grow from zero', async () => {
      const on = stage({ pool: poolOf(null) });
      await on.put(on.job({ type: 'image' }), on.job({ type: 'image' }));
      expect(await backlogOf(on)).toMatchObject({ 'backlogTime images': 40 });
    });

    it('is zero while a slot is free, and for what a cap or a pause holds back', async () => {
      const capped = stage({
        pool: { ...poolOf(2), types: { image: { defaultCostMs: '20s', maxConcurrency: 2 }, mail: {} } },
      });
      await capped.put(...Array.from({ length: 8 }, () => capped.job({ type: 'image' })));
      expect(await backlogOf(capped)).toMatchObject({ 'backlogTime images': 0 });
      const conflicting = stage({
        pool: { ...poolOf(2), types: { image: { conflictGroup: 'album' }, mail: {} } },
      });
      await conflicting.put(
        ...Array.from({ length: 3 }, () => conflicting.job({ type: 'image', resourceId: 'one' })),
      );
      expect(await backlogOf(conflicting)).toMatchObject({ 'backlogTime images': 0 });
    });
  });
});
