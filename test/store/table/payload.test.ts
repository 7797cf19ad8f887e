import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Job } from '../../../lib/core/job.ts';
import { decodeJob, encodeJob, encodePayload } from '../../../lib/store/table/codec/job.ts';
import { itemBytes, writeUnitsOf } from '../../../lib/store/table/metering.ts';
import { needsOwnItem, packPayload, unpackPayload } from '../../../lib/store/table/payload.ts';
import { aJob, NOW_MS } from '../../fixtures/factories/job.ts';
import { noise } from '../../fixtures/noise.ts';

/** For names and results that are longer than here. */
const ROOM_BYTES = 100;
const PAYLOAD_ID = 'x'.repeat(12);

/** As it is while it runs in a function: nothing that moves is larger, but what handlers and operators say. */
const running = (change: Partial<Job> = {}): Job =>
  aJob({
    state: 'running',
    version: 3,
    contentHash: 'f'.repeat(64),
    payload: null,
    claim: {
      claimId: '1042-17.49',

      batchId: '1042-17',
      fleet: 'images',
      claimedAtMs: NOW_MS,
      declared: 3,
    },
    worker: {
      workerId: 'JobsStack-ImagesFunction2FA1099F-9nt37x1xAbCd/0c7a1e9e-5f60-4a2a-9a0e-1f1b2d0c7a33',
      incarnation: '0c7a1e9e-5f60-4a2a-9a0e-1f1b2d0c7a33',
    },
    startedAtMs: NOW_MS,
    runUntilMs: NOW_MS,
    ...change,
  });

const bytesOf = (job: Job, payload: number, payloadId?: string): number => {
  const moving = itemBytes(encodeJob(job, undefined, payloadId));
  // `null` is there already.
  return payloadId === undefined ? moving - 4 + payload : moving;
};

/** The least payload that stands apart. */
const threshold = (job: Job): number => {
  let bytes = 0;
  while (!needsOwnItem(job, bytes)) bytes += 1;
  return bytes;
};

describe('a payload', () => {
  it('stands in its job’s item as long as the item takes one write unit while it moves', () => {
    for (const job of [
      running(),
      running({ tags: { order: 'x'.repeat(100) }, label: 'x'.repeat(100), resourceId: 'r'.repeat(100) }),
    ]) {
      const least = threshold(job);
      expect(writeUnitsOf(bytesOf(job, least - 1))).toBe(1);
      // Room is kept for the end of the job.
      expect(1_024 - bytesOf(job, least)).toBeLessThan(ROOM_BYTES);
    }
  });

  it('of 200 bytes stands in its job’s item, and of 600 apart', () => {
    expect([200, 600, 4_096, 65_536].map((bytes) => needsOwnItem(running(), bytes))).toEqual([
      false,
      true,
      true,
      true,
    ]);
  });

  it('never costs more apart than inside, over the life of a job, with room for its end', () => {
    for (let bytes = 0; bytes < 20_000; bytes += 37) {
      if (!needsOwnItem(running(), bytes)) continue;
      const inside = 4 * writeUnitsOf(bytesOf(running(), bytes) + ROOM_BYTES);
      const own = encodePayload(running({ payload: noise(bytes - 2) }), PAYLOAD_ID, NOW_MS);
      const moving = bytesOf(running(), 0, PAYLOAD_ID);
      const apart = 4 * writeUnitsOf(moving) + 2 * writeUnitsOf(itemBytes(own));
      expect(apart, `${bytes} bytes`).toBeLessThan(inside);
    }
  });

  it('stands where it stands for the whole life of its job', () => {
    const job = aJob({ payload: 'x'.repeat(450) });
    expect(needsOwnItem(job, 452)).toBe(needsOwnItem({ ...job, ...running(), id: job.id }, 452));
  });

  it('stands apart of a job whose names alone take a write unit only where that saves something', () => {
    const job = running({ label: 'x'.repeat(256), fairnessKey: 'k'.repeat(300) });
    expect(needsOwnItem(job, 50)).toBe(false);
    expect(needsOwnItem(job, 2_000)).toBe(true);
  });
});

describe('a payload that stands apart', () => {
  const order = (lines: number): string =>
    JSON.stringify(
      Array.from({ length: lines }, (_, at) => ({
        sku: noise(8 + (at % 5)),
        name: 'Stuhl, groß',
        quantity: at % 7,
      })),
    );

  it('is text while that takes one write unit, and where gzip would save none', () => {
    for (const json of ['null', JSON.stringify('x'.repeat(800)), JSON.stringify(noise(1_900))])
      expect(packPayload(json)).toBe(json);
  });

  it.each([20, 60, 1_000])('of an order of %i lines takes at most half the write units', (lines) => {
    const json = order(lines);
    const packed = packPayload(json);
    if (typeof packed === 'string') throw new Error('not packed');
    expect(writeUnitsOf(packed.byteLength)).toBeLessThanOrEqual(writeUnitsOf(Buffer.byteLength(json)) / 2);
    expect(unpackPayload(packed)).toBe(json);
  });

  it('is read as it was put, whatever its characters are', () => {
    const payload = { text: `${'ß€😀\u0000\ud800"'.repeat(500)}`, deep: [[[{ '': null }]]] };
    const job = aJob({ payload });
    const item = encodePayload(job, PAYLOAD_ID, NOW_MS);
    expect(item.payload).toBeInstanceOf(Uint8Array);
    expect(decodeJob(encodeJob(job, undefined, PAYLOAD_ID), item).payload).toEqual(payload);
  });

  it.each([
    ['cut', (packed: Uint8Array) => packed.subarray(0, -5)],
    ['no gzip', () => new Uint8Array(40)],
    ['gzip of what is no JSON', () => gzipSync('{')],
    ['gzip of more than anybody submits', () => gzipSync(JSON.stringify('x'.repeat(5 * 1024 * 1024)))],
  ])('makes its job unreadable where it is %s, and says how much there is of it', (_, damage) => {
    const job = aJob({ payload: 'x'.repeat(3_000) });
    const item = encodePayload(job, PAYLOAD_ID, NOW_MS);
    const damaged = damage(item.payload as Uint8Array);
    const read = decodeJob(encodeJob(job, undefined, PAYLOAD_ID), { ...item, payload: damaged });
    expect(read).toMatchObject({
      payload: null,
      unreadable: expect.stringMatching(/payload is \d+ bytes, not JSON as gzip/),
    });
  });
});
