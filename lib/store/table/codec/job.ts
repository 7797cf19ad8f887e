/** A job's item. */

import {
  type Claim,
  JOB_MODES,
  type Job,
  type JobError,
  type JobState,
  type Json,
  type MovingJob,
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
import { jobKey, payloadKey } from '../schema.ts';

import { ATTRIBUTE as A, type Item } from './attributes.ts';
import { type Cells, cellsOf, encodeJson, ttlSec } from './cells.ts';
import { encodeHistory, unpackHistory } from './history.ts';

const STATES = [
  'scheduled',
  'pending',
  'claimed',
  'running',
  'succeeded',
  'failed',
  'cancelled',
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

/** Where a waiting job stands. */
export interface Standing {
  readonly line: string;
  readonly rank: string;
}

/** How one field stands in its attribute. */
interface Cell<T> {
  readonly write: (value: T) => unknown;
  readonly read: (cells: Cells, name: string) => T;
}

const TEXT: Cell<string> = { write: (value) => value, read: (cells, name) => cells.text(name) };
const NUMBER: Cell<number> = { write: (value) => value, read: (cells, name) => cells.number(name) };
const COUNT: Cell<number> = { write: (value) => value, read: (cells, name) => cells.count(name) };
const JSON_TEXT: Cell<Json> = { write: encodeJson, read: (cells, name) => cells.json(name) };
const STATE: Cell<JobState> = { write: (value) => value, read: (cells, name) => cells.oneOf(name, STATES) };

type Fields<Names extends keyof Job> = { readonly [Name in Names]-?: Cell<Exclude<Job[Name], undefined>> };
type FieldOf<Names extends keyof Job> = {
  readonly [Name in Names]: undefined extends Job[Name] ? never : Name;
}[Names];

const ERROR: Cell<JobError> = {
  write: encodeError,
  read: (cells, name) => decodeError(cells.map(name)),
};

/** Each field of a job in its attribute. */
const CELLS: Fields<HeadField | ItemField | ApartField> = {
  state: STATE,
  version: COUNT,
  type: TEXT,
  priority: NUMBER,
  mode: { write: (value) => value, read: (cells, name) => cells.oneOf(name, JOB_MODES) },
  fairnessKey: TEXT,
  resourceId: TEXT,
  readyAtMs: NUMBER,
  firstReadyAtMs: NUMBER,
  attempt: COUNT,
  partition: COUNT,
  runAtMs: NUMBER,
  claim: { write: encodeClaim, read: (cells, name) => decodeClaim(cells.map(name)) },
  startedAtMs: NUMBER,
  finishedAtMs: NUMBER,
  payload: JSON_TEXT,
  label: TEXT,
  contentHash: TEXT,
  submittedAtMs: NUMBER,
  workersLost: COUNT,
  worker: { write: encodeWorker, read: (cells, name) => decodeWorkerIdentity(cells.map(name)) },
  runUntilMs: NUMBER,
  result: JSON_TEXT,
  error: ERROR,
  hung: ERROR,
  checkpoint: JSON_TEXT,
  progress: JSON_TEXT,
  cancelRequestedAtMs: NUMBER,
  cancelRequestedBy: TEXT,
  cancelRequestedIn: STATE,
  traceparent: TEXT,
  scheduleId: TEXT,
  redriveOf: TEXT,
  redriveBy: TEXT,
  redrivenAs: TEXT,
  redrivenAtMs: NUMBER,
  redrivenBy: TEXT,
  history: { write: encodeHistory, read: (cells, name) => cells.packed(name, unpackHistory) },
};

/** Fields of the item that a job is not run without knowing: who runs it, and until when. */
const EXACT: ReadonlySet<ItemField | ApartField> = new Set(['worker', 'runUntilMs']);

/** What stands for a field that every job has, where it cannot be read. */
const OTHERWISE: { readonly [Name in FieldOf<ItemField | ApartField>]: (head: JobHead) => Job[Name] } & {
  readonly [Name in ItemField]?: (head: JobHead) => Job[Name];
} = {
  payload: () => null,
  contentHash: () => '',
  submittedAtMs: ({ readyAtMs }) => readyAtMs,
  workersLost: () => 0,
  // Whatever it says, somebody asked.
  cancelRequestedAtMs: () => 0,
};

/** Of an item that says all of its job. */
const INSIDE_FIELDS = [...APART_FIELDS, ...ITEM_FIELDS];

const REQUIRED_ITEM: { readonly [Name in FieldOf<ItemField | ApartField>]: true } = {
  payload: true,
  contentHash: true,
  submittedAtMs: true,
  workersLost: true,
};

/** Fields that every job has: a head without one is malformed. */
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
 * Absent optional fields become undefined attributes, which are not written.
 *
 * @param payloadId - names the item that its payload stands in; undefined: it stands in this one
 */
export function encodeJob(job: Job, standing: Standing | undefined, payloadId?: string | undefined): Item {
  return {
    ...encodeJobHead(job),
    ...written(job, payloadId === undefined ? INSIDE_FIELDS : ITEM_FIELDS),
    [A.payloadId]: payloadId,
    [A.line]: standing?.line,
    [A.rank]: standing?.rank,
  };
}

/** What a line shows of a job, without its place there. */
export const encodeJobHead = (head: JobHead): Item => ({ ...jobKey(head.id), ...written(head, HEAD_FIELDS) });

/** These fields of a job in their attributes. */
function written<Name extends keyof typeof CELLS>(job: Pick<Job, Name>, names: readonly Name[]): Item {
  const attributes = names.map((name) => {
    const value = job[name];
    const { write } = CELLS[name] as Cell<unknown>;
    return [A[name], value === undefined ? undefined : write(value)] as const;
  });
  return Object.fromEntries(attributes);
}

/** A payload apart from its job: until when it is kept at most, if nobody says so earlier. */
export const encodePayload = (
  { id, payload }: Pick<Job, 'id' | 'payload'>,
  payloadId: string,
  expiresAtMs: number,
): Item => ({
  ...payloadKey(id, payloadId),
  [A.payload]: packPayload(encodeJson(payload)),
  [A.ttl]: ttlSec(expiresAtMs),
});

/** Which item a job's payload stands in; undefined: its own, or what names it cannot be read. */
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

/** Of a job's item. */
export const idOfJobItem = (item: Item): string => String(item[A.pk]).slice(JOB_PREFIX.length);

/** Whether an item is a job. */
export const isJobItem = (item: Item): boolean =>
  String(item[A.pk]).startsWith(JOB_PREFIX) && item[A.sk] === jobKey('').sk;

/**
 * Reads a job item as a whole, as `decodeMovingJob` does.
 *
 * @param apart - the item that its payload stands in, where that is another one
 * @throws MalformedItemError - it names the item's key and the attribute
 */
export function decodeJob(item: Item, apart?: Item | undefined): Job {
  const job = decodeMovingJob(item);
  if (!cellsOf(item).has(A.payloadId)) return { payload: null, ...job };
  try {
    return { ...job, payload: decodePayload(item, apart) };
  } catch (error) {
    if (!(error instanceof MalformedItemError)) throw error;
    return { ...job, payload: null, unreadable: error.message };
  }
}

function decodePayload(item: Item, apart: Item | undefined): Json {
  const cells = cellsOf(apart ?? { ...payloadKey(idOfJobItem(item), cellsOf(item).text(A.payloadId)) });
  const packed = apart?.[A.payload];
  if (!(packed instanceof Uint8Array)) return CELLS.payload.read(cells, A.payload);
  try {
    return JSON.parse(unpackPayload(packed)) as Json;
  } catch (cause) {
    throw cells.malformed(A.payload, 'JSON as gzip', { cause });
  }
}

/**
 * Reads what moves of a job item, as the table, its index and its stream hold it, and its payload where that stands in it. What a
 * line shows of it, and who runs it, must be right; of the rest, what is wrong is left out, and `unreadable` says so.
 *
 * @param item - with plain values: a stream record's image has to be unmarshalled first
 * @throws MalformedItemError - it names the item's key and the attribute
 */
export function decodeMovingJob(item: Item): MovingJob {
  const cells = cellsOf(item);
  const head = decodeJobHead(item);
  const rest: Record<string, unknown> = {};
  let unreadable: string | undefined;
  for (const name of cells.has(A.payloadId) ? ITEM_FIELDS : INSIDE_FIELDS) {
    const otherwise = OTHERWISE[name];
    if (!cells.has(A[name]) && !(name in REQUIRED_ITEM)) continue;
    try {
      rest[name] = CELLS[name].read(cells, A[name]);
    } catch (error) {
      if (!(error instanceof MalformedItemError) || EXACT.has(name)) throw error;
      unreadable ??= error.message;
      if (otherwise !== undefined) rest[name] = otherwise(head);
    }
  }
  return { ...head, ...rest, ...(unreadable === undefined ? {} : { unreadable }) } as MovingJob;
}

/**
 * Reads what the index shows of a job.
 *
 * @throws MalformedItemError - it names the item's key and the attribute
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
