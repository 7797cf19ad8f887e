import { describe, expect, it } from 'vitest';
import { batchIdOf, claimIdOf, partitionOfClaim } from '../../lib/core/job.ts';

describe('the id of a claim', () => {
  it('tells the partition under whose lease it was made', () => {
    for (const partition of [0, 1, 12, 255])
      expect(partitionOfClaim(claimIdOf(batchIdOf(partition, 7, 3), 11))).toBe(partition);
  });

  it('is no other claim’s, of whatever partition, lease, batch and place', () => {
    const ids = [0, 1, 11].flatMap((partition) =>
      [1, 11].flatMap((epoch) =>
        [1, 11].flatMap((sequence) =>
          [1, 11].map((place) => claimIdOf(batchIdOf(partition, epoch, sequence), place)),
        ),
      ),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });
});
