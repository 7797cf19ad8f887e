/** Encodes and decodes letters. They are compressed: among many, a job takes some sixty bytes. */

import { deflateRawSync } from 'node:zlib';
import { ITEM_BOUNDS, LETTER_JOBS_MAX, LETTERS_KEPT_MS } from '../../contract/bounds.ts';
import { MalformedItemError } from '../../contract/errors.ts';
import type { Letter, ReceivedLetter } from '../../contract/records.ts';
import { itemBytes } from '../metering.ts';
import { letterKey } from '../schema.ts';
import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { cellsOf, textIn, ttlSec } from './cells.ts';
import { decodeJobHead, encodeJobHead } from './job.ts';

/** More bytes than any letter takes uncompressed. */
const LETTER_BYTES_MAX = 16 * 1024 * 1024;

/** Encodes a letter as one item, or as several if it does not fit. */
export function encodeLetter(
  partition: number,
  { hints = [], jobIds = [], looksAtAll = false }: Letter,
  { newId, nowMs }: { readonly newId: () => string; readonly nowMs: number },
): readonly Item[] {
  const item = {
    ...letterKey(partition, nowMs, newId()),
    [A.letter]: deflateRawSync(JSON.stringify([hints.map(encodeJobHead), jobIds, Number(looksAtAll)])),
    [A.ttl]: ttlSec(nowMs + LETTERS_KEPT_MS),
  };
  const jobs = hints.length + jobIds.length;
  if (jobs < 2 || (jobs <= LETTER_JOBS_MAX && itemBytes(item) <= ITEM_BOUNDS.letter)) return [item];
  const halves = [
    [0, 0.5],
    [0.5, 1],
  ] as const;
  return halves.flatMap(([from, to]) => {
    const part = <T>(all: readonly T[]): readonly T[] =>
      all.slice(Math.ceil(from * all.length), Math.ceil(to * all.length));
    return encodeLetter(
      partition,
      { hints: part(hints), jobIds: part(jobIds), looksAtAll: looksAtAll && from === 0 },
      { newId, nowMs },
    );
  });
}

export const letterIdOf = (item: Item): string => String(item[A.sk]);

/** @throws MalformedItemError with the letter's key, never with that of a job, because the job's own item may be sound */
export function decodeLetter(item: Item): ReceivedLetter {
  const cells = cellsOf(item);
  const [heads, jobIds, looksAtAll] = cells.inflated(A.letter, 'a letter', LETTER_BYTES_MAX, (text) => {
    const [hints, ids, all] = JSON.parse(text) as readonly [readonly unknown[], readonly unknown[], unknown];
    if (!Array.isArray(hints) || !Array.isArray(ids)) throw new TypeError('not lists');
    return [hints as readonly unknown[], ids.map(textIn), all === 1] as const;
  });
  const hints = heads.map((head, at) => {
    try {
      return decodeJobHead((head ?? {}) as Item);
    } catch (cause) {
      if (!(cause instanceof MalformedItemError)) throw cause;
      throw cells.malformed(A.letter, `heads of jobs: ${cause.attribute} of number ${at} is wrong`, {
        cause,
      });
    }
  });
  return { letterId: letterIdOf(item), hints, jobIds, looksAtAll };
}
