import { describe, expect, it } from 'vitest';
import { MetricCollector } from '../../../lib/metrics/collector.ts';
import type { MetricKey } from '../../../lib/metrics/contract.ts';
import { stage } from '../../stage/stage.ts';

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
});
