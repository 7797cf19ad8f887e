/**
 * A declaration in the table. Its text is split into as many items as it needs, and these are written before the item of the version. So
 * every version that can be read has its text, and a deployment that stops half-way has declared nothing.
 */

import { createHash } from 'node:crypto';
import { RefusedError } from '../../core/errors.ts';
import { DECLARATION_CHARS_MAX, DECLARATION_PART_CHARS } from '../contract/bounds.ts';
import { declarationTooLarge } from '../contract/errors.ts';

/** Returns the name of a text. */
export const declarationHash = (text: string): string =>
  createHash('sha256').update(text).digest('hex').slice(0, 32);

/**
 * Returns the parts of a text, one for each item.
 *
 * @throws RefusedError if the text is too long, or is not ASCII: a cut could split a character
 */
export function declarationParts(text: string): readonly string[] {
  if (text.length > DECLARATION_CHARS_MAX) throw declarationTooLarge(text.length);
  if (text.length !== Buffer.byteLength(text)) {
    throw new RefusedError('the text of a declaration must be ASCII; encode it first');
  }
  const parts: string[] = [];
  for (let from = 0; from < Math.max(1, text.length); from += DECLARATION_PART_CHARS)
    parts.push(text.slice(from, from + DECLARATION_PART_CHARS));
  return parts;
}
