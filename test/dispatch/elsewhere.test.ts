/** What a pass makes of what other partitions have in flight: fewer slots, lower caps, nothing while one has not come. */
import { describe, expect, it } from 'vitest';
import { type PoolInput, resolveConfiguration } from '../../lib/core/defaults.ts';
import {
  type Elsewhere,
  movedLess,
  NOTHING_ELSEWHERE,
  overridesLess,
  slotsLess,
  underWay,
} from '../../lib/dispatch/handover.ts';

const configured = (more: Partial<PoolInput> = {}) =>
  resolveConfiguration({
    types: { resize: {}, index: {} },
    tiers: [{ tier: 'standard' }],
    fleets: { images: { types: ['resize'] }, texts: { types: ['index'], slots: 8 } },
    partitions: 2,
    ...more,
  });

const elsewhere = (changes: Partial<Elsewhere>): Elsewhere => ({ ...NOTHING_ELSEWHERE, ...changes });

describe('free slots', () => {
  it('of fleets whose workers register them are fewer by what runs in others above their share, down to none', () => {
    const above = new Map([
      ['fleet/images', 3],
      ['fleet/texts', 3],
    ]);
    const less = (images: number) =>
      slotsLess(
        new Map([
          ['images', images],
          ['texts', 5],
        ]),
        configured(),
        elsewhere({ above }),
      );
    // Those that are configured are divided as any cap is.
    expect([...less(4)]).toEqual([
      ['images', 1],
      ['texts', 5],
    ]);
    expect(less(2).get('images')).toBe(0);
  });
});

describe('caps', () => {
  it('of a scope move by what runs in others above their share', () => {
    const moved = movedLess(
      (scope) => (scope === 'pool' ? 5 : 0),
      elsewhere({ above: new Map([['pool', 2]]) }),
    );
    expect([moved('pool', ''), moved('type/resize', '')]).toEqual([3, 0]);
  });

  it('of a fleet that an operator lowered are less by what runs in others above them, down to none', () => {
    const above = new Map([['limit of fleet/images', 3]]);
    const lessOf = (maxConcurrency: number) =>
      overridesLess(
        [{ scope: 'fleet/images', paused: false, maxConcurrency }],
        configured(),
        elsewhere({ above }),
      );
    expect(lessOf(4)).toEqual([{ scope: 'fleet/images', paused: false, maxConcurrency: 1 }]);
    expect(lessOf(2)).toEqual([{ scope: 'fleet/images', paused: false, maxConcurrency: 0 }]);
    const paused = [{ scope: 'fleet/images', paused: true }];
    expect(overridesLess(paused, configured(), elsewhere({ above }))).toEqual(paused);
  });

  it.each<readonly [string, number | null, number | undefined, number, number | undefined]>([
    ['that is configured for each', 5, undefined, 2, 3],
    ['that an operator has set for it', 5, 3, 2, 1],
    ['that an operator has set where none is configured', null, 3, 2, 1],
    ['that is lower than what runs', 1, undefined, 2, 0],
  ])('of a key, %s, are less by its jobs in others', (_, configuredCap, ownCap, count, left) => {
    const configuration = configured({ fairness: { maxConcurrencyPerKey: configuredCap } });
    const own = { scope: 'key/a', paused: true, weight: 3 };
    const overrides = ownCap === undefined ? [] : [{ ...own, maxConcurrency: ownCap }];
    const [control, ...others] = overridesLess(
      overrides,
      configuration,
      elsewhere({ ofKeys: new Map([['a', count]]) }),
    );
    expect(others).toEqual([]);
    expect(control).toEqual({
      ...(ownCap === undefined ? { scope: 'key/a', paused: false } : own),
      maxConcurrency: left,
    });
  });

  it('of a key without one are none', () => {
    const overrides = [{ scope: 'key/a', paused: false, weight: 3 }];
    expect(overridesLess(overrides, configured(), elsewhere({ ofKeys: new Map([['a', 9]]) }))).toEqual(
      overrides,
    );
  });

  it('stay as an operator left them while the pool waits for others, and the pool starts nothing', () => {
    const pool = { scope: 'pool', paused: false, maxConcurrency: 7 };
    expect(overridesLess([pool], configured(), elsewhere({ behind: [1] }))).toEqual([
      { ...pool, paused: true },
    ]);
    expect(overridesLess([], configured(), elsewhere({ behind: [1] }))).toEqual([
      { scope: 'pool', paused: true },
    ]);
  });
});

describe('a handover', () => {
  const shared = { partitionsEver: 3, sharedSince: 5 };
  const over = { version: 5, moved: 0, isDone: true, isHandedOver: true };

  it('is under way until it was noted to be over, by this declaration or a later one', () => {
    expect(underWay(configured(), shared, 0, undefined)).toBe(shared);
    expect(underWay(configured(), shared, 0, { ...over, isHandedOver: undefined })).toBe(shared);
    expect(underWay(configured(), shared, 0, { ...over, version: 4 })).toBe(shared);
    expect(underWay(configured(), shared, 0, over)).toBeUndefined();
    expect(underWay(configured(), shared, 0, { ...over, version: 6 })).toBeUndefined();
  });

  it.each([
    ['where nothing that partitions share has ever changed', { ...shared, sharedSince: 0 }, 0],
    ['where there was never more than one', { ...shared, partitionsEver: 1 }, 0],
    ['of a partition that is none any more', shared, 2],
    ['where nothing is declared', undefined, 0],
  ])('is none %s', (_, deployed, partition) => {
    expect(underWay(configured(), deployed, partition, undefined)).toBeUndefined();
  });
});
