import { describe, expect, it } from 'vitest';
import { batchIdOf, batchOfClaim, claimIdOf, isClaimId, partitionOfClaim } from '../../lib/core/job.ts';

describe('the id of a claim', () => {
  it('tells the partition under whose lease it was made', () => {
    for (const partition of [0, 1, 12, 255])
      expect(partitionOfClaim(claimIdOf(batchIdOf(partition, 7, 3), 11))).toBe(partition);
  });

  it('tells its batch, and the epoch under which that was made', () => {
    for (const partition of [0, 12]) {
      const batchId = batchIdOf(partition, 70, 31);
      expect(batchOfClaim(claimIdOf(batchId, 11))).toEqual({ batchId, epoch: 70 });
      expect(isClaimId(claimIdOf(batchId, 11))).toBe(true);
    }
  });

  it.each([
    '',
    '7',
    '7-3',
    '7-3.',
    '-3.1',
    '7-.1',
    '7-3p.1',
    '7-3.1 ',
    ' 7-3.1',
    '7-3.1\n',
    'a-3.1',
    '7.3-1',
  ])('is nothing like %j', (text) => expect(isClaimId(text)).toBe(false));

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
