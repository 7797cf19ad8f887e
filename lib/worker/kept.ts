/**
 * What a handler leaves behind as JSON: its result, its checkpoints and the values of its steps. Nothing is changed on
 * the way: data that JSON would change or lose are refused.
 */

import type { DoneSteps, Json, MovingJob } from '../core/job.ts';
import { jsonOf } from '../core/json.ts';
import { isFunction, readName } from '../core/read-fields.ts';
import type { Log } from '../runtime/contract.ts';
import type { WorkerIdentity } from '../store/contract/records.ts';
import type { Applied } from '../store/contract/requests.ts';
import { AttemptError, type AttemptReason } from './errors.ts';
import type { AttemptStore } from './retrying-store.ts';
import { jobErrorOf } from './thrown.ts';

interface Storable {
  readonly what: string;
  /** What the handler does with the data, for the way out. */
  readonly verb: string;
  readonly refused: AttemptReason;
}

export const RESULT: Storable = { what: "the handler's result", verb: 'return', refused: 'ResultRefused' };
const CHECKPOINT: Storable = { what: 'the checkpoint', verb: 'keep', refused: 'CheckpointRefused' };

/** The most bytes, as JSON, of a result, of a checkpoint, and of all steps of a job. */
const KEPT_BYTES_MAX = 64 * 1024;

/** A copy of a handler's data as JSON. @throws AttemptError - they are not JSON, or too large */
export function storable(data: unknown, { what, verb, refused }: Storable): Json {
  if (data === undefined || data === null) return null;
  let json: Json;
  try {
    json = jsonOf(data, verb);
  } catch (cause) {
    throw new AttemptError(refused, `${what} cannot be kept as JSON: ${jobErrorOf(cause).message}`);
  }
  const bytes = bytesOf(json);
  if (bytes <= KEPT_BYTES_MAX) return json;
  throw new AttemptError(
    refused,
    `${what} has ${bytes} bytes, at most ${KEPT_BYTES_MAX} are kept; store it elsewhere and ${verb} a reference`,
  );
}

const bytesOf = (json: unknown): number => Buffer.byteLength(JSON.stringify(json), 'utf8');

/** The attempt that keeps something. */
export interface Keeping {
  readonly store: Pick<AttemptStore, 'saveCheckpoint' | 'saveSteps'>;
  readonly job: MovingJob;
  readonly worker: WorkerIdentity;
  readonly log: Log;
  /** Ends the attempt, which has lost its job. */
  readonly stop: (reason: Error) => void;
}

/** Waits for a write. @throws AttemptError - `JobSuperseded`: another attempt holds the job, and this one is stopped */
async function requireApplied({ job, stop }: Keeping, written: Promise<Applied>): Promise<void> {
  if ((await written) === 'applied') return;
  const reason = new AttemptError('JobSuperseded', `job ${job.id} is not held by this attempt any more`);
  stop(reason);
  throw reason;
}

/** Logs a failure that the handler does not await. It would end the process, in which other jobs run. */
function logFailure({ job, log }: Keeping, message: string, work: Promise<unknown>): void {
  work.catch((error: unknown) => log.warn(message, { jobId: job.id, error: jobErrorOf(error).message }));
}

/** A handler's `checkpoint`. */
export function checkpointOf(keeping: Keeping): (data: unknown) => Promise<void> {
  const { store, job, worker } = keeping;
  const save = async (data: unknown): Promise<void> => {
    const checkpoint = storable(data, CHECKPOINT);
    await requireApplied(keeping, store.saveCheckpoint({ job, worker, checkpoint }));
  };
  return (data) => {
    const saved = save(data);
    logFailure(keeping, 'a checkpoint was not kept', saved);
    return saved;
  };
}

/** Runs a part of a handler unless it is done, and answers its value. */
export type RunStep = <Value>(name: string, run: () => Promise<Value> | Value) => Promise<Value>;

/**
 * A handler's `step`.
 *
 * @param signal - the attempt's: no step begins once it has aborted
 */
export function stepsOf(keeping: Keeping, signal: () => AbortSignal): RunStep {
  const { store, job, worker } = keeping;
  // planted: steps-of-one-attempt
  const kept: DoneSteps = job.steps ?? {};
  let done = kept;
  const underWay = new Map<string, Promise<unknown>>();
  // One write at a time, in the order of the steps. A step that ends meanwhile shares the next write with others.
  let last: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  const write = (): Promise<void> => {
    next ??= last.then(() => {
      next = undefined;
      return requireApplied(keeping, store.saveSteps({ job, worker, steps: done }));
    });
    last = next.catch(() => {});
    return next;
  };
  const begin = async (name: string, run: () => unknown): Promise<unknown> => {
    if (!Object.hasOwn(done, name)) {
      signal().throwIfAborted();
      const what = `the value of the step ${JSON.stringify(name)}`;
      const step = storedStep(await run(), what);
      done = withStep(done, name, step, what);
    }
    await write();
    return structuredClone(done[name]?.value);
  };
  const step = async (name: string, run: () => unknown): Promise<unknown> => {
    readName('step', name);
    isFunction('step', run);
    if (Object.hasOwn(kept, name)) return structuredClone(kept[name]?.value);
    const begun = underWay.get(name) ?? begin(name, run);
    underWay.set(name, begun);
    // A step that failed may be tried again; if only its write failed, that alone is.
    begun.catch(() => underWay.delete(name));
    return begun;
  };
  return ((name, run) => {
    const ended = step(name, run);
    logFailure(keeping, 'a step was not kept', ended);
    return ended;
  }) as RunStep;
}

function storedStep(value: unknown, what: string): DoneSteps[string] {
  return value === undefined
    ? {}
    : { value: storable(value, { what, verb: 'return', refused: 'CheckpointRefused' }) };
}

/** The steps with one more. @throws AttemptError - all of them together are too large */
function withStep(done: DoneSteps, name: string, step: DoneSteps[string], what: string): DoneSteps {
  const steps = { ...done, [name]: step };
  const bytes = bytesOf(steps);
  if (bytes <= KEPT_BYTES_MAX) return steps;
  throw new AttemptError(
    'CheckpointRefused',
    `${what} makes the values of all steps ${bytes} bytes, at most ${KEPT_BYTES_MAX} are kept; store it elsewhere and return a reference`,
  );
}
