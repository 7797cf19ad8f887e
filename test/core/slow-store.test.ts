/** Leases that are asked for from a store that answers slowly. */
import { describe, expect, it } from 'vitest';
import { leaseExtensionMs, slownessAfter } from '../../lib/core/lease.ts';

const LEASE_MS = 15_000;

describe('a lease', () => {
  it('is not longer while answers are ordinary', () => {
    expect(leaseExtensionMs(LEASE_MS, 0)).toBe(0);
    expect(leaseExtensionMs(LEASE_MS, 999)).toBe(0);
  });

  it('has room for two answers as slow as the last, and is at most twice as long', () => {
    expect(leaseExtensionMs(LEASE_MS, 2_000)).toBe(4_000);
    expect(leaseExtensionMs(LEASE_MS, 60_000)).toBe(LEASE_MS);
  });
});

describe('a store', () => {
  it('counts as slow at once, and as fast only after several fast answers', () => {
    let slowMs = slownessAfter(0, 8_000);
    expect(slowMs).toBe(8_000);
    const seen = Array.from({ length: 4 }, () => {
      slowMs = slownessAfter(slowMs, 10);
      return leaseExtensionMs(LEASE_MS, slowMs);
    });
    expect(seen).toEqual([8_000, 4_000, 2_000, 0]);
  });
});
