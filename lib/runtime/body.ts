/** The most bytes of a body that is too large and still read to its end. */
const DISCARDED_BYTES = 64 * 1024 * 1024;

/** A body, or the beginning of one that is too large. */
export interface Body {
  readonly bytes: Buffer;
  readonly isWhole: boolean;
  /** How many bytes came, in words. */
  readonly size: string;
}

/** Reads a body. One that is too large is read on without being kept: a peer that is cut off while it writes does not learn why. */
export async function readBody(body: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Body> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    if (length < bytesMax) chunks.push(chunk);
    length += chunk.byteLength;
    if (length > DISCARDED_BYTES) break;
  }
  const size = `${length} bytes${length > DISCARDED_BYTES ? ' or more' : ''}`;
  return { bytes: Buffer.concat(chunks), isWhole: length <= bytesMax, size };
}
