/** Encodes and decodes a job's item. */

import * as z from 'zod';
import {
  type Claim,
  DEDUPE_KEEPS,
  type Dedupe,
  type DoneSteps,
  isTerminal,
  JOB_MODES,
  type Job,
  type JobError,
  type JobState,
  type JobUnits,
  type Json,
  type MovingJob,
  type Tags,
  WHILE_RUNNING,
} from '../../../core/job.ts';
import { MalformedItemError } from '../../contract/errors.ts';
import {
  APART_FIELDS,
  type ApartField,
  HEAD_FIELDS,
  type HeadField,
  ITEM_FIELDS,
  type ItemField,
  type JobHead,
} from '../../contract/job-fields.ts';
import { packPayload, unpackPayload } from '../payload.ts';
import { expiryLineName, jobKey, payloadKey } from '../schema.ts';

import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { type Cells, cellsOf, encodeJson, ttlSec } from './cells.ts';
import { encodeHistory, unpackHistory } from './history.ts';

const TAGS_TEXT = z.record(z.string(), z.string());
const UNITS_TEXT = z.record(z.string(), z.int());
const MERGED_TEXT = z.array(z.string());
const DEDUPE_TEXT = z.object({
  key: z.string(),
  keep: z.enum(DEDUPE_KEEPS),
  whileRunning: z.enum(WHILE_RUNNING),
  quietMs: z.number().optional(),
  atMostMs: z.number().optional(),
}) satisfies z.ZodType<Dedupe>;

const STATES = [
  'scheduled',
  'pending',
  'claimed',
  'running',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
] as const satisfies readonly JobState[];

const JOB_PREFIX = jobKey('').pk;

export const encodeClaim = (claim: Claim): Item => ({
  [A.claimId]: claim.claimId,
  [A.batchId]: claim.batchId,
  [A.fleet]: claim.fleet,
  [A.claimedAtMs]: claim.claimedAtMs,
  [A.declared]: claim.declared,
});

export const encodeWorker = (worker: { readonly workerId: string; readonly incarnation: string }): Item => ({
  [A.workerId]: worker.workerId,
  [A.incarnation]: worker.incarnation,
});

export const encodeError = ({ name, message, stack }: JobError): Item => ({
  [A.name]: name,
  [A.message]: message,
  [A.stack]: stack,
});

/** Encodes steps as a map, so that a condition can tell how many there are. */
export function encodeSteps(steps: DoneSteps): Item {
  return Object.fromEntries(
    Object.entries(steps).map(([name, { value }]) => [
      name,
      value === undefined ? {} : { [A.result]: encodeJson(value) },
    ]),
  );
}

function decodeSteps(cells: Cells, attribute: string): DoneSteps {
  return Object.fromEntries(
    cells
      .entries(attribute)
      .map(([name, step]) => [name, step.has(A.result) ? { value: step.json(A.result) } : {}]),
  );
}

/** The position of a waiting job. */
export interface Standing {
  readonly line: string;
  readonly rank: string;
}

/** How a field is written to its attribute and read from it. */
interface Cell<T> {
  readonly write: (value: T) => unknown;
  readonly read: (cells: Cells, name: string) => T;
}

const TEXT: Cell<string> = { write: (value) => value, read: (cells, name) => cells.text(name) };
const NUMBER: Cell<number> = { write: (value) => value, read: (cells, name) => cells.number(name) };
const COUNT: Cell<number> = { write: (value) => value, read: (cells, name) => cells.count(name) };
const JSON_TEXT: Cell<Json> = { write: encodeJson, read: (cells, name) => cells.json(name) };
const STATE: Cell<JobState> = { write: (value) => value, read: (cells, name) => cells.oneOf(name, STATES) };

const TAGS: Cell<Tags> = {
  write: encodeJson,
  read: (cells, name) => cells.packed(name, (json) => TAGS_TEXT.parse(json)),
};

const UNITS: Cell<JobUnits> = {
  write: encodeJson,
  read: (cells, name) => cells.packed(name, (json) => UNITS_TEXT.parse(json)),
};

type Fields<Names extends keyof Job> = { readonly [Name in Names]-?: Cell<Exclude<Job[Name], undefined>> };
type FieldOf<Names extends keyof Job> = {
  readonly [Name in Names]: undefined extends Job[Name] ? never : Name;
}[Names];

const ERROR: Cell<JobError> = {
  write: encodeError,
  read: (cells, name) => decodeError(cells.map(name)),
};

/** The encoding of each field of a job. */
const CELLS: Fields<HeadField | ItemField | ApartField> = {
  state: STATE,
  version: COUNT,
  type: TEXT,
  priority: NUMBER,
  mode: { write: (value) => value, read: (cells, name) => cells.oneOf(name, JOB_MODES) },
  fairnessKey: TEXT,
  resourceId: TEXT,
  keys: TAGS,
  units: UNITS,
  readyAtMs: NUMBER,
  firstReadyAtMs: NUMBER,
  attempt: COUNT,
  expireAtMs: NUMBER,
  partition: COUNT,
  runAtMs: NUMBER,
  claim: { write: encodeClaim, read: (cells, name) => decodeClaim(cells.map(name)) },
  startedAtMs: NUMBER,
  finishedAtMs: NUMBER,
  payload: JSON_TEXT,
  label: TEXT,
  tags: TAGS,
  dedupe: {
    write: JSON.stringify,
    read: (cells, name) => cells.packed(name, (json) => DEDUPE_TEXT.parse(json)),
  },
  merged: {
    write: encodeJson,
    read: (cells, name) => cells.packed(name, (json) => MERGED_TEXT.parse(json)),
  },
  contentHash: TEXT,
  submittedAtMs: NUMBER,
  workersLost: COUNT,
  worker: { write: encodeWorker, read: (cells, name) => decodeWorkerIdentity(cells.map(name)) },
  runUntilMs: NUMBER,
  result: JSON_TEXT,
  error: ERROR,
  hung: ERROR,
  checkpoint: JSON_TEXT,
  parkedState: JSON_TEXT,
  steps: { write: encodeSteps, read: decodeSteps },
  progress: JSON_TEXT,
  cancelRequestedAtMs: NUMBER,
  cancelRequestedBy: TEXT,
  cancelRequestedIn: STATE,
  traceparent: TEXT,
  listFinished: { write: (value) => value, read: (cells, name) => cells.flag(name) },
  scheduleId: TEXT,
  redriveOf: TEXT,
  redriveBy: TEXT,
  redrivenAs: TEXT,
  redrivenAtMs: NUMBER,
  redrivenBy: TEXT,
  history: { write: encodeHistory, read: (cells, name) => cells.packed(name, unpackHistory) },
};

/** Fields that make the whole item unreadable if they are wrong, because they say where the job runs and until when. */
const STRICT_FIELDS: ReadonlySet<ItemField | ApartField> = new Set(['worker', 'runUntilMs']);

/** The values of required fields that cannot be read, and of optional ones that need a value all the same. */
const FALLBACKS: { readonly [Name in FieldOf<ItemField | ApartField>]: (head: JobHead) => Job[Name] } & {
  readonly [Name in ItemField]?: (head: JobHead) => Job[Name];
} = {
  payload: () => null,
  contentHash: () => '',
  submittedAtMs: ({ readyAtMs }) => readyAtMs,
  workersLost: () => 0,
  // If the time of a request to cancel cannot be read, the request still counts.
  cancelRequestedAtMs: () => 0,
};

/** The fields of an item that includes its payload. */
const FIELDS_WITH_PAYLOAD = [...APART_FIELDS, ...ITEM_FIELDS];

const REQUIRED_ITEM: { readonly [Name in FieldOf<ItemField | ApartField>]: true } = {
  payload: true,
  contentHash: true,
  submittedAtMs: true,
  workersLost: true,
};

/** Fields that every job has. A head without one is malformed. */
const REQUIRED_HEAD: { readonly [Name in FieldOf<HeadField>]: true } = {
  state: true,
  version: true,
  type: true,
  priority: true,
  mode: true,
  fairnessKey: true,
  readyAtMs: true,
  attempt: true,
  partition: true,
  runAtMs: true,
};

/**
 * Encodes a job. Absent optional fields become undefined attributes, which are not written.
 * @param payloadId - names the payload's item; undefined: the payload is in the job's item
 */
export function encodeJob(job: Job, standing: Standing | undefined, payloadId?: string | undefined): Item {
  return {
    ...encodeJobHead(job),
    ...attributesOf(job, payloadId === undefined ? FIELDS_WITH_PAYLOAD : ITEM_FIELDS),
    [A.payloadId]: payloadId,
    [A.line]: standing?.line,
    [A.rank]: standing?.rank,
    [A.expiry]: job.expireAtMs === undefined || isTerminal(job.state) ? undefined : expiryLineName(job.id),
  };
}

/** Returns the attributes that a line shows of a job, without its line and rank. */
export const encodeJobHead = (head: JobHead): Item => ({
  ...jobKey(head.id),
  ...attributesOf(head, HEAD_FIELDS),
});

/** Returns the named fields of a job as attributes. */
function attributesOf<Name extends keyof typeof CELLS>(job: Pick<Job, Name>, names: readonly Name[]): Item {
  const attributes = names.map((name) => {
    const value = job[name];
    const { write } = CELLS[name] as Cell<unknown>;
    return [A[name], value === undefined ? undefined : write(value)] as const;
  });
  return Object.fromEntries(attributes);
}

/** Returns a payload's own item. `expiresAtMs` holds unless the end of the job sets an earlier `ttl`. */
export const encodePayload = (
  { id, payload }: Pick<Job, 'id' | 'payload'>,
  payloadId: string,
  expiresAtMs: number,
): Item => ({
  ...payloadKey(id, payloadId),
  [A.payload]: packPayload(encodeJson(payload)),
  [A.ttl]: ttlSec(expiresAtMs),
});

/** Returns the name of the payload's item; undefined: the payload is in the job's item, or the name cannot be read. */
export function payloadIdOf(item: Item): string | undefined {
  const payloadId = item[A.payloadId];
  return typeof payloadId === 'string' ? payloadId : undefined;
}

function decodeClaim(cells: Cells): Claim {
  return {
    claimId: cells.text(A.claimId),
    batchId: cells.text(A.batchId),
    fleet: cells.text(A.fleet),
    claimedAtMs: cells.number(A.claimedAtMs),
    ...(cells.has(A.declared) ? { declared: cells.count(A.declared) } : {}),
  };
}

/** Returns the job's id in the key of its item. */
export const idOfJobItem = (item: Item): string => String(item[A.pk]).slice(JOB_PREFIX.length);

/** Whether an item is a job. */
export const isJobItem = (item: Item): boolean =>
  String(item[A.pk]).startsWith(JOB_PREFIX) && item[A.sk] === jobKey('').sk;

/**
 * Reads a whole job, with the same rules as `decodeMovingJob`.
 *
 * @param apart - the payload's item, if the payload has its own
 * @throws MalformedItemError with the item's key and the attribute
 */
export function decodeJob(item: Item, payloadItem?: Item | undefined): Job {
  const job = decodeMovingJob(item);
  if (!cellsOf(item).has(A.payloadId)) return { payload: null, ...job };
  try {
    return { ...job, payload: decodePayload(item, payloadItem) };
  } catch (error) {
    if (!(error instanceof MalformedItemError)) throw error;
    return { ...job, payload: null, unreadable: error.message };
  }
}

function decodePayload(item: Item, payloadItem: Item | undefined): Json {
  const cells = cellsOf(payloadItem ?? { ...payloadKey(idOfJobItem(item), cellsOf(item).text(A.payloadId)) });
  const packed = payloadItem?.[A.payload];
  if (!(packed instanceof Uint8Array)) return CELLS.payload.read(cells, A.payload);
  try {
    return JSON.parse(unpackPayload(packed)) as Json;
  } catch (cause) {
    throw cells.malformed(A.payload, 'JSON as gzip', { cause });
  }
}

/**
 * Reads a job from an item of the table, the index or the stream, with its payload if that is in the item. The fields of the head, the
 * worker and its lease must be right. Any other field that is wrong is left out and described in `unreadable`.
 *
 * @param item - with plain values: a stream record's image has to be unmarshalled first
 * @throws MalformedItemError with the item's key and the attribute
 */
export function decodeMovingJob(item: Item): MovingJob {
  const cells = cellsOf(item);
  const head = decodeJobHead(item);
  const rest: Record<string, unknown> = {};
  let unreadable: string | undefined;
  for (const name of cells.has(A.payloadId) ? ITEM_FIELDS : FIELDS_WITH_PAYLOAD) {
    const fallback = FALLBACKS[name];
    if (!cells.has(A[name]) && !(name in REQUIRED_ITEM)) continue;
    try {
      rest[name] = CELLS[name].read(cells, A[name]);
    } catch (error) {
      if (!(error instanceof MalformedItemError) || STRICT_FIELDS.has(name)) throw error;
      unreadable ??= error.message;
      if (fallback !== undefined) rest[name] = fallback(head);
    }
  }
  return { ...head, ...rest, ...(unreadable === undefined ? {} : { unreadable }) } as MovingJob;
}

/**
 * Reads the head of a job, as the index shows it.
 *
 * @throws MalformedItemError with the item's key and the attribute
 */
export function decodeJobHead(item: Item): JobHead {
  const cells = cellsOf(item);
  if (!isJobItem(item)) throw cells.malformed(A.pk, 'the key of a job');
  const read: Record<string, unknown> = { id: idOfJobItem(item) };
  for (const name of HEAD_FIELDS) {
    if (name in REQUIRED_HEAD || cells.has(A[name])) read[name] = CELLS[name].read(cells, A[name]);
  }
  return read as unknown as JobHead;
}

export const decodeWorkerIdentity = (
  cells: Cells,
): { readonly workerId: string; readonly incarnation: string } => ({
  workerId: cells.text(A.workerId),
  incarnation: cells.text(A.incarnation),
});

const decodeError = (cells: Cells): JobError => ({
  name: cells.text(A.name),
  message: cells.text(A.message),
  ...(cells.has(A.stack) ? { stack: cells.text(A.stack) } : {}),
});
