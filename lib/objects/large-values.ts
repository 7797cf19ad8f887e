/**
 * Values over 64 KB: payloads, results, checkpoints and states of parked jobs. Each is an object, and the item that has it
 * holds a reference in its place. The object is put before the item names it, so a value that is named exists; what no
 * item names is collected (`lib/operate/collect-objects.ts`).
 */
import { createHash } from 'node:crypto';
import type { PoolConfiguration } from '../core/configuration.ts';
import { MisconfiguredError } from '../core/errors.ts';
import type { Job, Json, MovingJob } from '../core/job.ts';
import { JSON_LIMITS } from '../core/json.ts';
import { type ObjectReference, referenceIn, referenceTo, sizeText } from '../core/object-reference.ts';
import type { ObjectStore } from './contract.ts';

/**
 * `payload`: what producers put. `kept`: what workers put. Grants tell them apart by this prefix of the key.
 */
export type ObjectKind = 'payload' | 'kept';
export const OBJECT_KINDS: readonly ObjectKind[] = ['payload', 'kept'];

const WEEK_MS = 7 * 24 * 3_600_000;
const WEEK_DIGITS = 6;

/** The week of an instant, as keys have it. Keys of equal length sort by their week. */
export const weekOf = (atMs: number): string =>
  String(Math.max(0, Math.floor(atMs / WEEK_MS))).padStart(WEEK_DIGITS, '0');

export const objectKey = (kind: ObjectKind, week: string, jobId: string, sha256: string): string =>
  `${kind}/${week}/${encodeURIComponent(jobId)}/${sha256}`;

/** The week and the job of a key; undefined if it is not one of ours. */
export function partsOfKey(key: string): { readonly week: string; readonly jobId: string } | undefined {
  const [, , week, id] = /^(payload|kept)\/(\d+)\/([^/]+)\/[0-9a-f]{64}$/.exec(key) ?? [];
  return week === undefined || id === undefined ? undefined : { week, jobId: decodeURIComponent(id) };
}

const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The fields of a job that may be references. */
const LARGE_FIELDS = ['payload', 'result', 'checkpoint', 'parkedState'] as const satisfies (keyof Job)[];
export type LargeField = (typeof LARGE_FIELDS)[number];

export interface LargeValuesOptions {
  /**
   * The declared store; undefined if none is declared.
   *
   * @param again - the declaration may be older than a reference that was met: look for a newer one
   */
  readonly open: (again: boolean) => Promise<ObjectStore | undefined>;
  readonly nowMs: () => number;
}

/** The value, or the reason why it is lost for good. */
type ReadValue = { readonly value: Json } | { readonly lost: string };

export class LargeValues {
  readonly #options: LargeValuesOptions;

  constructor(options: LargeValuesOptions) {
    this.#options = options;
  }

  /**
   * The value as an item keeps it: itself up to 64 KB, or a reference to the object that is put.
   *
   * @throws the store's errors
   * @throws MisconfiguredError - no store is declared any more
   */
  async put(jobId: string, kind: ObjectKind, value: Json): Promise<Json> {
    const text = JSON.stringify(value);
    const bytes = Buffer.byteLength(text);
    if (bytes <= JSON_LIMITS.bytes) return value;
    const store = await this.#options.open(false);
    if (store === undefined)
      throw new MisconfiguredError(
        `a value of ${sizeText(bytes)} cannot be kept, because largePayloads is not declared any more: declare it again`,
      );
    const sha256 = hashOf(text);
    const key = objectKey(kind, weekOf(this.#options.nowMs()), jobId, sha256);
    await store.put({ key, text });
    return referenceTo({ key, bytes, sha256 });
  }

  /** A value of a job. @throws the store's errors */
  async read(jobId: string, value: Json): Promise<ReadValue> {
    const object = referenceIn(value);
    return object === undefined ? { value } : this.#readObject(jobId, object);
  }

  /** Deletes the object of a value that an item had before `next`, unless `next` has the same object. @throws the store's errors */
  async drop(value: Json | undefined, next: Json): Promise<void> {
    const object = referenceIn(value);
    if (object === undefined || object.key === referenceIn(next)?.key) return;
    await (await this.#options.open(false))?.delete([object.key]);
  }

  async #readObject(jobId: string, { key, bytes, sha256 }: ObjectReference): Promise<ReadValue> {
    const what = `${sizeText(bytes)} in the object ${key}`;
    if (partsOfKey(key)?.jobId !== jobId)
      return { lost: `${what}, which is not an object of this job; submit the job again` };
    const store = (await this.#options.open(false)) ?? (await this.#options.open(true));
    if (store === undefined)
      return {
        lost: `${what}, and this scheduler declares no largePayloads any more; declare it again with its bucket, and try the job again`,
      };
    const text = await store.get(key);
    if (text === undefined)
      return { lost: `${what}, which is not there any more; restore it, or submit the job again` };
    if (hashOf(text) !== sha256)
      return {
        lost: `${what}, which has another SHA-256 than was stored; restore it, or submit the job again`,
      };
    return { value: JSON.parse(text) as Json };
  }
}

/** Whether one of the job's values is in an object. */
export const hasObjects = (job: MovingJob, fields: readonly LargeField[] = LARGE_FIELDS): boolean =>
  fields.some((field) => referenceIn((job as Job)[field]) !== undefined);

/**
 * The job with its values in place of references. If one of them is lost, the reference stays, and `unreadable` says why.
 *
 * @throws the store's errors
 */
export async function wholeOf<Given extends MovingJob>(
  large: LargeValues | undefined,
  job: Given,
  fields: readonly LargeField[] = LARGE_FIELDS,
): Promise<Given> {
  if (!hasObjects(job, fields)) return job;
  const values = job as MovingJob & { readonly payload?: Json };
  const known = large ?? new LargeValues({ open: async () => undefined, nowMs: () => 0 });
  let whole: Given = job;
  for (const field of fields) {
    const value = values[field];
    if (value === undefined) continue;
    const read = await known.read(job.id, value);
    whole =
      'value' in read
        ? { ...whole, [field]: read.value }
        : { ...whole, unreadable: whole.unreadable ?? `its ${field} has ${read.lost}` };
  }
  return whole;
}

/**
 * The job as it is stored. A payload over 64 KB is put as an object of the job with this id.
 *
 * @throws the store's errors
 */
export async function withPayloadKept(
  { large, configuration }: LargeContext,
  job: Job,
  jobId: string,
): Promise<Job> {
  if (large === undefined || configuration.largePayloads === undefined) return job;
  const payload = await large.put(jobId, 'payload', job.payload);
  return payload === job.payload ? job : { ...job, payload };
}

export interface LargeContext {
  readonly large?: LargeValues | undefined;
  readonly configuration: Pick<PoolConfiguration, 'largePayloads'>;
}
