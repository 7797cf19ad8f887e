import { describe, expect, it } from 'vitest';
import { batchIdOf, batchOfClaim, claimIdOf, isClaimId, partitionOfClaim } from '../../lib/core/job.ts';

describe('the id of a claim', () => {
  const nonce = '0abc12xz';

  it('tells the partition that made it', () => {
    for (const partition of [0, 1, 12, 255])
      expect(partitionOfClaim(claimIdOf(batchIdOf(partition, 7, nonce, 3), 11))).toBe(partition);
  });

  it('tells its batch, whose name begins with the version that it follows', () => {
    for (const partition of [0, 12]) {
      const batchId = batchIdOf(partition, 70, nonce, 31);
      expect(batchId).toMatch(/^70-/);
      expect(batchOfClaim(claimIdOf(batchId, 11))).toBe(batchId);
      expect(isClaimId(claimIdOf(batchId, 11))).toBe(true);
    }
  });

  it.each([
    '',
    '7',
    '7-0abc12xz3',
    '7-0abc12xz3.',
    '-0abc12xz3.1',
    '7-.1',
    '7-0abc12xz.1',
    '7-0abc12xz34.1',
    '7-0abc12xz3p.1',
    '7-0abc12xz3@.1',
    '7-0abc12xz3.1 ',
    ' 7-0abc12xz3.1',
    '7-0abc12xz3.1\n',
    'a-0abc12xz3.1',
    '7.0abc12xz3-1',
  ])('is nothing like %j', (text) => expect(isClaimId(text)).toBe(false));

  it('is no other claim’s, of whatever partition, version, pass, batch and place', () => {
    const ids = [0, 1, 11].flatMap((partition) =>
      [1, 11].flatMap((version) =>
        [nonce, '00000001'].flatMap((each) =>
          [1, 11].flatMap((number) =>
            [1, 11].map((place) => claimIdOf(batchIdOf(partition, version, each, number), place)),
          ),
        ),
      ),
    );
    expect(new Set(ids).size).toBe(ids.length);
  });
});
