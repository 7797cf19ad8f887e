/** What is known of jobs of which word is left, compressed: a job is some sixty bytes among many. */
import { deflateRawSync } from 'node:zlib';
import { HINTS_KEPT_MS, ITEM_BOUNDS } from '../../bounds.ts';
import { MalformedItemError } from '../../errors.ts';
import type { JobHint, JobImage } from '../../job-fields.ts';
import { itemBytes } from '../../metering.ts';
import { hintsKey } from '../../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, ttlSec } from './cells.ts';
import { decodeJobHint, encodeJobHint } from './job.ts';

/** Far beyond the heads of any item. */
const HINTS_BYTES_MAX = 16 * 1024 * 1024;

/** Items that say these: one, or as many as it takes for each to fit. */
export function encodeHints(
  partition: number,
  hints: readonly JobImage[],
  { newId, nowMs }: { readonly newId: () => string; readonly nowMs: number },
): readonly { readonly hintsId: string; readonly item: Item }[] {
  const hintsId = newId();
  const item = {
    ...hintsKey(partition, hintsId),
    [A.hints]: deflateRawSync(JSON.stringify(hints.map(encodeJobHint))),
    [A.ttl]: ttlSec(nowMs + HINTS_KEPT_MS),
  };
  if (hints.length < 2 || itemBytes(item) <= ITEM_BOUNDS.hints) return [{ hintsId, item }];
  const half = Math.ceil(hints.length / 2);
  return [hints.slice(0, half), hints.slice(half)].flatMap((part) =>
    encodeHints(partition, part, { newId, nowMs }),
  );
}

/** @throws MalformedItemError - it names this item's key, never that of a job: the job's own item may be as it should */
export function decodeHints(item: Item): readonly JobHint[] {
  const cells = cellsOf(item);
  const heads: unknown = cells.inflated(A.hints, 'heads of jobs', HINTS_BYTES_MAX, JSON.parse);
  if (!Array.isArray(heads)) throw cells.malformed(A.hints, 'a list of heads');
  return heads.map((head: unknown, at) => {
    try {
      return decodeJobHint((head ?? {}) as Item);
    } catch (cause) {
      if (!(cause instanceof MalformedItemError)) throw cause;
      throw cells.malformed(A.hints, `heads of jobs: of number ${at}, ${cause.attribute} is wrong`, {
        cause,
      });
    }
  });
}
