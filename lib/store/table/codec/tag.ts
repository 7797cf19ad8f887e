/** Encodes and decodes the entry of a searchable tag. Its key has the tag, which the job itself repeats in full. */
import type { TagEntry } from '../../contract/records.ts';
import { tagKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, ttlSec } from './cells.ts';

export const encodeTag = (entry: TagEntry): Item => ({
  ...tagKey(entry),
  [A.jobId]: entry.jobId,
  [A.submittedAtMs]: entry.submittedAtMs,
  [A.ttl]: ttlSec(entry.expiresAtMs),
});

export function decodeTag(item: Item): Pick<TagEntry, 'jobId' | 'submittedAtMs'> {
  const cells = cellsOf(item);
  return { jobId: cells.text(A.jobId), submittedAtMs: cells.number(A.submittedAtMs) };
}
