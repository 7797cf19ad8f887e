/**
 * When a payload stands in an item of its own, beside its job's.
 *
 * A table bills each transition of a job by the size of the whole item, started KB by started KB, whatever of it changes. A job is
 * written four times at least: put, claimed, started, finished. A payload that stands apart is written twice: when it is put, and
 * once its job has ended, with when both may be collected (`ttl` cannot be set without a write of the whole item). And it is read
 * once, when the job starts. So it is stored compressed where that saves a write unit: JSON with a few repeated names comes to a
 * quarter and less.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import type { Job } from '../../core/job.ts';
import { readUnitsOf, writeUnitsOf } from './metering.ts';

/** Of a job's life: put, claimed, started, finished. */
const TRANSITIONS = 4;
/** Of a payload that stands apart: put, and marked for collection. */
const APART_WRITES = 2;
/** A read unit's price in write units. */
const READ_PRICE = 0.2;

/**
 * What a running job's item takes beside the texts that its producer chose: the names of its attributes, numbers, its claim, and
 * its worker's name; a test holds it against such an item.
 */
const MOVING_BYTES = 550;
/** The attribute that names the payload's item, and what that takes beside the payload. */
const NAME_BYTES = 25;
const APART_BYTES = 60;

/**
 * A job that has not ended keeps its payload for so long beyond its time. What nobody marks for collection, because whoever put
 * it or ended its job died at that moment, is collected then.
 */
export const PAYLOAD_KEPT_MS = 3 * 365 * 24 * 3_600_000;

/** Whether the payload of a job that is moved is kept for longer: its time is far beyond its submit. */
export const isKeptLonger = ({ runAtMs, submittedAtMs }: Pick<Job, 'runAtMs' | 'submittedAtMs'>): boolean =>
  runAtMs > submittedAtMs + (2 / 3) * PAYLOAD_KEPT_MS;

const bytesOf = (text: string | undefined): number => (text === undefined ? 0 : Buffer.byteLength(text));

/**
 * Whether it is cheaper so. It depends on nothing that changes in a job's life.
 *
 * @param bytes - of the payload, as it is stored
 */
export function standsApart(job: Job, bytes: number): boolean {
  const { id, type, fairnessKey, resourceId, label, traceparent, scheduleId, redriveOf, redriveBy } = job;
  const texts = [id, type, fairnessKey, resourceId, label, traceparent, scheduleId, redriveOf, redriveBy];
  const moving = texts.reduce((sum, text) => sum + bytesOf(text), MOVING_BYTES);
  const inside = TRANSITIONS * writeUnitsOf(moving + bytes);
  const apart = APART_BYTES + bytesOf(id) + bytes;
  const beside =
    TRANSITIONS * writeUnitsOf(moving + NAME_BYTES) +
    APART_WRITES * writeUnitsOf(apart) +
    READ_PRICE * readUnitsOf(apart, false);
  return beside < inside;
}

/** Whether a job's payload stands in an item of its own. */
export const isApart = (job: Job): boolean => standsApart(job, bytesOf(JSON.stringify(job.payload)));

/** Far beyond any payload that is accepted, and what the table takes: more is damaged, or was put there by somebody else. */
const UNPACKED_BYTES_MAX = 4 * 1024 * 1024;

/** A payload's JSON as an item of its own holds it: as it is, or as gzip, where each of its writes costs less so. */
export function packPayload(json: string): string | Uint8Array {
  const units = writeUnitsOf(APART_BYTES + Buffer.byteLength(json));
  if (units === 1) return json;
  const packed = gzipSync(json);
  return writeUnitsOf(APART_BYTES + packed.byteLength) < units ? packed : json;
}

/** @throws Error for what is no gzip, or of more than 4 MB */
export const unpackPayload = (packed: Uint8Array): string =>
  gunzipSync(packed, { maxOutputLength: UNPACKED_BYTES_MAX }).toString();
