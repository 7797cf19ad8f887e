/** What may be the id of a job. */
import { expect, it } from 'vitest';
import { isJobId, JOB_ID_BYTES_MAX } from '../../lib/core/job.ts';

it.each([
  ['a word', 'job-1', true],
  ['the longest', 'j'.repeat(JOB_ID_BYTES_MAX), true],
  ['one that is longer', 'j'.repeat(JOB_ID_BYTES_MAX + 1), false],
  ['one that is longer by its bytes', 'é'.repeat(JOB_ID_BYTES_MAX / 2 + 1), false],
  ['nothing', '', false],
  ['half a character', 'job-\ud800', false],
])('a text that may be a job id: %s', (_, text, may) => {
  expect(isJobId(text)).toBe(may);
});
