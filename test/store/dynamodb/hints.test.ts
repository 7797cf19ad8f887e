/** What stands in hints of what was put there. */
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { HINTS_KEPT_MS } from '../../../lib/store/bounds.ts';
import { ATTRIBUTE as A, type Item } from '../../../lib/store/dynamodb/codec/attributes.ts';
import { ttlSec } from '../../../lib/store/dynamodb/codec/cells.ts';
import { decodeHints, encodeHints } from '../../../lib/store/dynamodb/codec/hints.ts';
import { hintOf, type JobHead } from '../../../lib/store/job-fields.ts';
import { aJob, headOf, NOW_MS } from '../../fixtures/factories/job.ts';
import { largestJob } from '../../fixtures/largest.ts';

const encode = (jobs: readonly Job[]): readonly Item[] =>
  encodeHints(3, jobs, { newId: () => 'abc', nowMs: NOW_MS }).map(({ item }) => item);

describe('hints', () => {
  it.each([
    ['a job with every field', largestJob()],
    ['a job that waits', aJob()],
    ['a job that was cancelled', aJob({ state: 'cancelled', cancelRequestedAtMs: NOW_MS + 7 })],
  ])('keep of %s what the store in memory keeps of it', (_title, job) => {
    expect(encode([job]).flatMap(decodeHints)).toEqual([hintOf(job)]);
  });

  it('may be collected an hour after they were put', () => {
    expect(encode([aJob()]).map((item) => item[A.ttl])).toEqual([ttlSec(NOW_MS + HINTS_KEPT_MS)]);
    expect(HINTS_KEPT_MS).toBe(3_600_000);
  });

  it('cannot be made of a head alone, which does not say when its job was asked to end', () => {
    const head: JobHead = headOf(aJob());
    // @ts-expect-error -- it lacks what hints say beside it
    expect(encodeHints(3, [head], { newId: () => 'abc', nowMs: NOW_MS })).toHaveLength(1);
  });
});
