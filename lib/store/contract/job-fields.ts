/**
 * Every field of a job, in one table. What a producer may ask for, what a line shows of a job, what the index carries, what is
 * written and read, what another try of a dead letter takes over, and what the event of its end says follow from it: a field
 * that is missing here, or that a codec or the request's schema does not know, does not compile.
 */
import type { Job, MovingJob } from '../../core/job.ts';

export interface JobField {
  /**
   * `line`: planning and settling need it, so the index carries it and every head shows it. `item`: only whoever reads the job
   * sees it. `apart`: no transition needs it, so a large one stands in an item of its own, which only whoever wants the whole job
   * reads. `read`: the store says it when it reads, and never writes it.
   */
  readonly kept: 'line' | 'item' | 'apart' | 'read';
  /** What another try of a dead letter does with it: takes it over, or begins anew. */
  readonly redrive: 'same' | 'anew';
  /** The producer decides it: requests say it, and it tells a repeated submit from a conflicting one. */
  readonly asked?: true;
  /** The event that tells of the job's end says it. */
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
  readyAtMs: { kept: 'line', redrive: 'anew' },
  firstReadyAtMs: { kept: 'line', redrive: 'anew' },
  attempt: { kept: 'line', redrive: 'anew', told: true },
  partition: { kept: 'line', redrive: 'anew' },
  runAtMs: { kept: 'line', redrive: 'anew' },
  claim: { kept: 'line', redrive: 'anew' },
  startedAtMs: { kept: 'line', redrive: 'anew', told: true },
  finishedAtMs: { kept: 'line', redrive: 'anew', told: true },
  payload: { kept: 'apart', redrive: 'same', asked: true },
  label: { kept: 'item', redrive: 'same', asked: true, told: true },
  contentHash: { kept: 'item', redrive: 'same' },
  submittedAtMs: { kept: 'item', redrive: 'anew', told: true },
  workersLost: { kept: 'item', redrive: 'anew' },
  worker: { kept: 'item', redrive: 'anew' },
  runUntilMs: { kept: 'item', redrive: 'anew' },
  hung: { kept: 'item', redrive: 'anew' },
  result: { kept: 'item', redrive: 'anew', told: true },
  error: { kept: 'item', redrive: 'anew', told: true },
  checkpoint: { kept: 'item', redrive: 'anew' },
  progress: { kept: 'item', redrive: 'anew' },
  cancelRequestedAtMs: { kept: 'item', redrive: 'anew' },
  cancelRequestedBy: { kept: 'item', redrive: 'anew' },
  cancelRequestedIn: { kept: 'item', redrive: 'anew' },
  // Another try is part of the same trace.
  traceparent: { kept: 'item', redrive: 'same', told: true },
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
type Where<Rule extends Partial<JobField>> = {
  [Field in keyof Fields]: Fields[Field] extends Rule ? Field : never;
}[keyof Fields];

/** What a line shows of a job: all that planning and settling need, without what may be large. */
export type JobHead = Pick<Job, Where<{ readonly kept: 'line' }>>;

/** A job as it was seen after a change: what hints say of it, or more. */
export type JobImage = MovingJob | JobHead;

/** Fields that are attributes of a job's item; its id is its key. */
export type HeadField = Exclude<Where<{ readonly kept: 'line' }>, 'id'>;
export type ItemField = Where<{ readonly kept: 'item' }>;

export type ApartField = Where<{ readonly kept: 'apart' }>;

/** What a producer decides of a job. */
export type AskedField = Where<{ readonly asked: true }>;
/** What the event of a job's end says of it. */
export type ToldField = Where<{ readonly told: true }>;

const namesWhere = <Field extends keyof Fields>(holds: (field: JobField) => boolean): readonly Field[] =>
  (Object.keys(JOB_FIELDS) as Field[]).filter((name) => holds(JOB_FIELDS[name]));

export const HEAD_FIELDS = namesWhere<HeadField | 'id'>(({ kept }) => kept === 'line').filter(
  (name): name is HeadField => name !== 'id',
);
export const ITEM_FIELDS = namesWhere<ItemField>(({ kept }) => kept === 'item');
export const APART_FIELDS = namesWhere<ApartField>(({ kept }) => kept === 'apart');

export const ASKED_FIELDS = namesWhere<AskedField>(({ asked }) => asked === true);
const TOLD_FIELDS = namesWhere<ToldField>(({ told }) => told === true);

type SameField = Where<{ readonly redrive: 'same' }>;
const SAME_FIELDS = namesWhere<SameField>(({ redrive }) => redrive === 'same');

/** These fields of what has them; one that is undefined is left out. */
function only<From, Name extends keyof From>(names: readonly Name[], from: From): Pick<From, Name> {
  const taken: Partial<Pick<From, Name>> = {};
  for (const name of names) if (from[name] !== undefined) taken[name] = from[name];
  return taken as Pick<From, Name>;
}

/** What hints keep of an image, in whatever store. */
export const hintOf = (image: JobImage): JobHead => only(['id', ...HEAD_FIELDS], image);

/** What another try takes over from a dead letter. */
export const takenOver = (deadLetter: Job): Pick<Job, SameField> => only(SAME_FIELDS, deadLetter);

/** What a job takes over from the request that asks for it. */
export const asked = (request: Pick<Job, AskedField>): Pick<Job, AskedField> => only(ASKED_FIELDS, request);

/** What the event of its end says of a job. */
export const publicFieldsOf = (job: MovingJob): Pick<MovingJob, ToldField> => only(TOLD_FIELDS, job);
