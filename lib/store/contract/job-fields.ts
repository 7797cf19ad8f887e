/**
 * One table of all fields of a job. The types and functions below are derived from it: the fields of a request, of a head, of the index and
 * of the item, the fields that a redrive copies, and the fields of the event about the job's end. A field that is missing here, or that a
 * codec or the request's schema does not handle, does not compile.
 */
import type { Job, MovingJob } from '../../core/job.ts';

export interface JobField {
  /**
   * - `line`: planning and settling need the field, so the index and every head contain it.
   * - `item`: only a read of the job returns it.
   * - `apart`: no transition needs it. A large value has an item of its own, which is read only for the whole job.
   * - `read`: the store computes it when it reads the job, and never writes it.
   */
  readonly kept: 'line' | 'item' | 'apart' | 'read';
  /** Whether a redrive copies the field from the dead letter (`same`) or sets it anew (`anew`). */
  readonly redrive: 'same' | 'anew';
  /**
   * Whether the producer sets the field in its request. These fields distinguish a repeated submit from a conflicting
   * one.
   */
  readonly asked?: true;
  /** Whether the event about the job's end contains the field. */
  readonly told?: true;
}

export const JOB_FIELDS = {
  id: { kept: 'line', redrive: 'anew', told: true },
  state: { kept: 'line', redrive: 'anew', told: true },
  version: { kept: 'line', redrive: 'anew', told: true },
  type: { kept: 'line', redrive: 'same', asked: true, told: true },
  priority: { kept: 'line', redrive: 'same', asked: true },
  mode: { kept: 'line', redrive: 'anew', asked: true },
  fairnessKey: { kept: 'line', redrive: 'same', asked: true, told: true },
  resourceId: { kept: 'line', redrive: 'same', asked: true, told: true },
  keys: { kept: 'line', redrive: 'same', asked: true, told: true },
  units: { kept: 'line', redrive: 'same', asked: true, told: true },
  readyAtMs: { kept: 'line', redrive: 'anew' },
  firstReadyAtMs: { kept: 'line', redrive: 'anew' },
  attempt: { kept: 'line', redrive: 'anew', told: true },
  expireAtMs: { kept: 'line', redrive: 'anew' },
  partition: { kept: 'line', redrive: 'anew' },
  runAtMs: { kept: 'line', redrive: 'anew' },
  claim: { kept: 'line', redrive: 'anew' },
  startedAtMs: { kept: 'line', redrive: 'anew', told: true },
  finishedAtMs: { kept: 'line', redrive: 'anew', told: true },
  payload: { kept: 'apart', redrive: 'same', asked: true },
  label: { kept: 'item', redrive: 'same', asked: true, told: true },
  tags: { kept: 'item', redrive: 'same', asked: true, told: true },
  // A redrive is the act of an operator: it waits beside others of its key.
  dedupe: { kept: 'item', redrive: 'anew', asked: true },
  merged: { kept: 'item', redrive: 'anew' },
  contentHash: { kept: 'item', redrive: 'same' },
  submittedAtMs: { kept: 'item', redrive: 'anew', told: true },
  workersLost: { kept: 'item', redrive: 'anew' },
  worker: { kept: 'item', redrive: 'anew' },
  runUntilMs: { kept: 'item', redrive: 'anew' },
  hung: { kept: 'item', redrive: 'anew' },
  result: { kept: 'item', redrive: 'anew', told: true },
  error: { kept: 'item', redrive: 'anew', told: true },
  checkpoint: { kept: 'item', redrive: 'anew' },
  parkedState: { kept: 'item', redrive: 'anew' },
  steps: { kept: 'item', redrive: 'anew' },
  progress: { kept: 'item', redrive: 'anew' },
  cancelRequestedAtMs: { kept: 'item', redrive: 'anew' },
  cancelRequestedBy: { kept: 'item', redrive: 'anew' },
  cancelRequestedIn: { kept: 'item', redrive: 'anew' },
  // A redrive belongs to the same trace.
  traceparent: { kept: 'item', redrive: 'same', told: true },
  listFinished: { kept: 'item', redrive: 'anew' },
  scheduleId: { kept: 'item', redrive: 'anew' },
  redriveOf: { kept: 'item', redrive: 'anew' },
  redriveBy: { kept: 'item', redrive: 'anew' },
  redrivenAs: { kept: 'item', redrive: 'anew' },
  redrivenAtMs: { kept: 'item', redrive: 'anew' },
  redrivenBy: { kept: 'item', redrive: 'anew' },
  history: { kept: 'item', redrive: 'anew' },
  unreadable: { kept: 'read', redrive: 'anew' },
} as const satisfies Readonly<Record<keyof Job, JobField>>;

type Fields = typeof JOB_FIELDS;
type FieldsWhere<Rule extends Partial<JobField>> = {
  [Field in keyof Fields]: Fields[Field] extends Rule ? Field : never;
}[keyof Fields];

/** The fields of a job that a line shows: all that planning and settling need, without fields that may be large. */
export type JobHead = Pick<Job, FieldsWhere<{ readonly kept: 'line' }>>;

/** A job as it was after a change: the fields of a hint, or more. */
export type JobImage = MovingJob | JobHead;

/** The fields of a head that are attributes of the job's item. The id is missing, because it is the item's key. */
export type HeadField = Exclude<FieldsWhere<{ readonly kept: 'line' }>, 'id'>;
export type ItemField = FieldsWhere<{ readonly kept: 'item' }>;

export type ApartField = FieldsWhere<{ readonly kept: 'apart' }>;

/** The fields that a producer sets. */
export type AskedField = FieldsWhere<{ readonly asked: true }>;
/** The fields in the event about a job's end. */
export type ToldField = FieldsWhere<{ readonly told: true }>;

const namesWhere = <Field extends keyof Fields>(holds: (field: JobField) => boolean): readonly Field[] =>
  (Object.keys(JOB_FIELDS) as Field[]).filter((name) => holds(JOB_FIELDS[name]));

export const HEAD_FIELDS = namesWhere<HeadField | 'id'>(({ kept }) => kept === 'line').filter(
  (name): name is HeadField => name !== 'id',
);
export const ITEM_FIELDS = namesWhere<ItemField>(({ kept }) => kept === 'item');
export const APART_FIELDS = namesWhere<ApartField>(({ kept }) => kept === 'apart');

export const ASKED_FIELDS = namesWhere<AskedField>(({ asked }) => asked === true);
const EVENT_FIELDS = namesWhere<ToldField>(({ told }) => told === true);

type RedriveField = FieldsWhere<{ readonly redrive: 'same' }>;
const REDRIVE_FIELDS = namesWhere<RedriveField>(({ redrive }) => redrive === 'same');

/** Copies the named fields. A field that is undefined is left out. */
function pickDefined<From, Name extends keyof From>(names: readonly Name[], from: From): Pick<From, Name> {
  const picked: Partial<Pick<From, Name>> = {};
  for (const name of names) if (from[name] !== undefined) picked[name] = from[name];
  return picked as Pick<From, Name>;
}

/** Returns the head of a job, which is what a hint contains in every store. */
export const hintOf = (image: JobImage): JobHead => pickDefined(['id', ...HEAD_FIELDS], image);

/** Returns the fields of a dead letter that a redrive copies. */
export const takenOver = (deadLetter: Job): Pick<Job, RedriveField> =>
  pickDefined(REDRIVE_FIELDS, deadLetter);

/** Returns the fields of a job that come from the producer's request. */
export const asked = (request: Pick<Job, AskedField>): Pick<Job, AskedField> =>
  pickDefined(ASKED_FIELDS, request);

/** Returns the fields of a job for the event about its end. */
export const publicFieldsOf = (job: MovingJob): Pick<MovingJob, ToldField> => pickDefined(EVENT_FIELDS, job);
