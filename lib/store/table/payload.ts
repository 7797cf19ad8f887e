/**
 * Whether a payload has an item of its own, beside its job's.
 *
 * DynamoDB bills each transition of a job by the size of the whole item, in started KB, even if only one attribute changes. A job is
 * written at least four times: put, claimed, started, finished. A payload in its own item is written twice: when it is put, and after its
 * job has ended, when its `ttl` is set (which is a write of the whole item). It is read once, when the job starts. It is compressed if that
 * saves a write unit: JSON with a few repeated names shrinks to a quarter or less.
 */
import { gunzipSync, gzipSync } from 'node:zlib';
import type { Job } from '../../core/job.ts';
import { readUnitsOf, writeUnitsOf } from './metering.ts';

/** Writes of a job: put, claimed, started, finished. */
const JOB_WRITES = 4;
/** Writes of a payload in its own item: put, and `ttl` set. */
const PAYLOAD_WRITES = 2;
/** The price of a read unit in write units. */
const READ_PRICE = 0.2;

/**
 * The size of a running job's item without the texts that its producer chose: names of attributes, numbers, the claim and the worker's
 * name. A test compares it with such an item.
 */
const JOB_BYTES = 550;
/** The attributes that list a finished job, without the name of its type. */
const FINISHED_BYTES = 110;
/** The attribute with the payload item's name. */
const PAYLOAD_ID_BYTES = 25;
const PAYLOAD_ITEM_BYTES = 60;

/**
 * How long the payload of a job that has not ended is kept after the job's time. It collects payloads whose `ttl` was never set because the
 * process that put the payload, or ended the job, crashed at that moment.
 */
export const PAYLOAD_KEPT_MS = 3 * 365 * 24 * 3_600_000;

/**
 * Whether the payload of a job that is retimed must get a later `ttl`: the new time is more than two thirds of `PAYLOAD_KEPT_MS` after the
 * submit.
 */
export const needsLongerTtl = ({ runAtMs, submittedAtMs }: Pick<Job, 'runAtMs' | 'submittedAtMs'>): boolean =>
  runAtMs > submittedAtMs + (2 / 3) * PAYLOAD_KEPT_MS;

const bytesOf = (text: string | undefined): number => (text === undefined ? 0 : Buffer.byteLength(text));

/**
 * Whether an item of its own is cheaper. The result depends on nothing that changes during a job's life.
 *
 * @param bytes - the size of the stored payload
 */
export function needsOwnItem(job: Job, bytes: number): boolean {
  const {
    id,
    type,
    fairnessKey,
    resourceId,
    keys,
    units,
    label,
    tags,
    traceparent,
    scheduleId,
    redriveOf,
    redriveBy,
  } = job;
  const keysText = keys === undefined ? undefined : JSON.stringify(keys);
  const unitsText = units === undefined ? undefined : JSON.stringify(units);
  const tagsText = tags === undefined ? undefined : JSON.stringify(tags);
  const texts = [
    id,
    type,
    fairnessKey,
    resourceId,
    keysText,
    unitsText,
    label,
    tagsText,
    traceparent,
    scheduleId,
    redriveOf,
    redriveBy,
  ];
  const entryBytes = job.listFinished === true ? FINISHED_BYTES + bytesOf(type) : 0;
  const jobBytes = texts.reduce((sum, text) => sum + bytesOf(text), JOB_BYTES + entryBytes);
  const unitsInJob = JOB_WRITES * writeUnitsOf(jobBytes + bytes);
  const ownItemBytes = PAYLOAD_ITEM_BYTES + bytesOf(id) + bytes;
  const unitsInOwnItem =
    JOB_WRITES * writeUnitsOf(jobBytes + PAYLOAD_ID_BYTES) +
    PAYLOAD_WRITES * writeUnitsOf(ownItemBytes) +
    READ_PRICE * readUnitsOf(ownItemBytes, false);
  return unitsInOwnItem < unitsInJob;
}

/** Whether a job's payload has an item of its own. */
export const hasOwnItem = (job: Job): boolean => needsOwnItem(job, bytesOf(JSON.stringify(job.payload)));

/**
 * More bytes than any accepted payload has, and than an item can hold. Anything larger was damaged, or written by other
 * software.
 */
const UNPACKED_BYTES_MAX = 4 * 1024 * 1024;

/** Returns a payload's JSON for an item of its own: as text, or as gzip if that saves write units. */
export function packPayload(json: string): string | Uint8Array {
  const units = writeUnitsOf(PAYLOAD_ITEM_BYTES + Buffer.byteLength(json));
  if (units === 1) return json;
  const packed = gzipSync(json);
  return writeUnitsOf(PAYLOAD_ITEM_BYTES + packed.byteLength) < units ? packed : json;
}

/** @throws Error if it is not gzip, or is larger than 4 MB unpacked */
export const unpackPayload = (packed: Uint8Array): string =>
  gunzipSync(packed, { maxOutputLength: UNPACKED_BYTES_MAX }).toString();
