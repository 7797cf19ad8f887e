import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ringOf } from '../../lib/core/ring.ts';
import {
  beat,
  complete,
  dueWindow,
  expire,
  FREE_LEASE,
  firstScanFrom,
  holds,
  isExpired,
  type Leave,
  startBounds,
  takeLease,
} from '../../lib/simulate/model/lease.ts';

describe('a lease', () => {
  const taken = takeLease(FREE_LEASE, 'a', 100, 50).lease;

  it('is over at its end, not after it', () => {
    expect(taken.endsAtMs).toBe(150);
    expect(isExpired(taken, 149)).toBe(false);
    expect(isExpired(taken, 150)).toBe(true);
  });

  it('is taken by one, and by another only when it is over, with a greater token', () => {
    expect(takeLease(taken, 'b', 149, 50)).toEqual({ ok: false, lease: taken });
    expect(takeLease(taken, 'b', 150, 50)).toEqual({
      ok: true,
      lease: { token: 2, holder: 'b', endsAtMs: 200, completed: false },
    });
  });

  it('is extended by its holder, and never revived', () => {
    expect(beat(taken, 'a', 1, 149, 50).lease.endsAtMs).toBe(199);
    expect(beat(taken, 'a', 1, 150, 50)).toEqual({ ok: false, lease: taken });
    expect(beat(taken, 'b', 1, 120, 50).ok).toBe(false);
    expect(beat(taken, 'a', 2, 120, 50).ok).toBe(false);
  });

  it('is completed once, by its holder, in time', () => {
    expect(complete(taken, 'b', 1, 120).ok).toBe(false);
    expect(complete(taken, 'a', 1, 150).ok).toBe(false);
    const { ok, lease } = complete(taken, 'a', 1, 120);
    expect(ok).toBe(true);
    expect(lease).toMatchObject({ completed: true, holder: null });
    expect(complete(lease, 'a', 1, 120).ok).toBe(false);
    expect(takeLease(lease, 'b', 1_000, 50).ok).toBe(false);
    expect(beat(lease, 'a', 1, 120, 50).ok).toBe(false);
  });

  it('is lost by its holder when it is taken away', () => {
    const { ok, lease } = expire(taken);
    expect(ok).toBe(true);
    expect(lease).toMatchObject({ token: 1, holder: null });
    expect(holds(lease, 'a', 1, 120)).toBe(false);
    expect(takeLease(lease, 'a', 120, 50).lease.token).toBe(2);
  });

  it('has one holder at most, and tokens that only rise, whatever happens', () => {
    const step = fc.record({
      op: fc.constantFrom('take', 'beat', 'complete', 'expire'),
      node: fc.constantFrom('a', 'b'),
      token: fc.integer({ min: 0, max: 6 }),
      waitMs: fc.nat(40),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (script) => {
        let lease = FREE_LEASE;
        let nowMs = 0;
        let completions = 0;
        for (const { op, node, token, waitMs } of script) {
          nowMs += waitMs;
          const before = lease;
          const answer =
            op === 'take'
              ? takeLease(lease, node, nowMs, 30)
              : op === 'beat'
                ? beat(lease, node, token, nowMs, 30)
                : op === 'complete'
                  ? complete(lease, node, token, nowMs)
                  : expire(lease);
          lease = answer.lease;
          expect(lease.token).toBeGreaterThanOrEqual(before.token);
          if (!answer.ok) expect(lease).toBe(before);
          if (op === 'take' && answer.ok)
            expect(holds(before, before.holder ?? '', before.token, nowMs)).toBe(false);
          if (op === 'complete' && answer.ok) {
            expect(holds(before, node, token, nowMs)).toBe(true);
            completions += 1;
          }
        }
        expect(completions).toBeLessThanOrEqual(1);
      }),
    );
  });
});

describe('firstScanFrom', () => {
  it('names the scan at the instant or the next one', () => {
    expect(firstScanFrom(40_000, 0, 10_000)).toBe(40_000);
    expect(firstScanFrom(40_001, 0, 10_000)).toBe(50_000);
    expect(firstScanFrom(5, 300, 10_000)).toBe(300);
  });
});

describe('dueWindow', () => {
  const due = (id: string, dueMs: number, hash = 10, state = 'ready') => ({ id, dueMs, hash, state });

  it('takes what is ready, its own, and due up to the horizon, overdue first', () => {
    const jobs = [
      due('edge', 130),
      due('beyond', 131),
      due('b', 90),
      due('a', 90),
      due('c', 90),
      due('overdue', 1),
      due('other', 100, 99),
      due('held', 100, 10, 'claimed'),
      due('border', 100, 50),
    ];
    expect(dueWindow(jobs, [[0, 50]], 100, 30).map(({ id }) => id)).toEqual([
      'overdue',
      'a',
      'b',
      'c',
      'border',
      'edge',
    ]);
  });
});

describe('a member that leaves', () => {
  const ring = ringOf(
    new Map([
      ['a', [100]],
      ['b', [200]],
    ]),
    256,
  );
  const leave = (way: Leave['way']): Leave => ({
    way,
    leaver: 'b',
    atMs: 1_000,
    scanMs: 10,
    memberLeaseMs: 300,
  });

  it.each([
    ['handover', 150, 999, 'b', 999, 1_009],
    ['handover', 150, 1_000, 'a', 1_000, 1_010],
    ['crash', 150, 999, 'b', 999, 1_009],
    ['crash', 150, 1_000, 'a', 1_000, 1_310],
    ['crash', 150, 1_299, 'a', 1_299, 1_310],
    ['crash', 150, 1_400, 'a', 1_400, 1_410],
    ['crash', 50, 1_100, 'a', 1_100, 1_110],
  ] as const)('by %s: hash %i due at %i starts on %s', (way, hash, dueMs, owner, from, to) => {
    expect(startBounds(ring, leave(way), hash, dueMs)).toEqual({
      owner,
      startNotBeforeMs: from,
      startNotAfterMs: to,
    });
  });
});
