/**
 * The data of a handler that are kept as JSON: its result, its checkpoints and the values of its steps. Nothing is
 * changed on the way: data that JSON would change or lose are refused.
 */

import { AsyncLocalStorage } from 'node:async_hooks';
import { durationMs } from '../core/duration.ts';
import { ConfigurationError } from '../core/errors.ts';
import type { DoneSteps, Json, MovingJob } from '../core/job.ts';
import { JSON_LIMITS, jsonOf } from '../core/json.ts';
import { isReference, REFERENCE_REFUSED } from '../core/object-reference.ts';
import { isBoolean, isFunction, objectOf, readName } from '../core/read-fields.ts';
import type { LargeValues } from '../objects/large-values.ts';
import type { Log } from '../runtime/contract.ts';
import type { WorkerIdentity } from '../store/contract/records.ts';
import type { Applied } from '../store/contract/requests.ts';
import { AttemptError, type AttemptReason } from './errors.ts';
import type { AttemptStore } from './retrying-store.ts';
import { jobErrorOf } from './thrown.ts';

interface Storable {
  readonly what: string;
  /** The verb for what the handler does with the data, for the way out in the message. */
  readonly verb: string;
  readonly refused: AttemptReason;
}

export const RESULT: Storable = { what: "the handler's result", verb: 'return', refused: 'ResultRefused' };
const PARKED: Storable = { what: "the parked job's state", verb: 'keep', refused: 'ResultRefused' };
const CHECKPOINT: Storable = { what: 'the checkpoint', verb: 'keep', refused: 'CheckpointRefused' };

/**
 * Returns a copy of a handler's data as JSON.
 *
 * @param bytesMax - the most bytes that are kept
 * @throws AttemptError - they are not JSON, or too large
 */
export function storable(
  data: unknown,
  { what, verb, refused }: Storable,
  bytesMax: number = JSON_LIMITS.bytes,
): Json {
  if (data === undefined || data === null) return null;
  let json: Json;
  try {
    json = jsonOf(data, verb, bytesMax);
  } catch (cause) {
    throw new AttemptError(refused, `${what} cannot be kept as JSON: ${jobErrorOf(cause).message}`);
  }
  if (isReference(json)) throw new AttemptError(refused, `${what} ${REFERENCE_REFUSED}`);
  const bytes = bytesOf(json);
  if (bytes <= bytesMax) return json;
  throw new AttemptError(
    refused,
    `${what} has ${bytes} bytes, at most ${bytesMax} are kept; store it elsewhere and ${verb} a reference`,
  );
}

const bytesOf = (json: unknown): number => Buffer.byteLength(JSON.stringify(json), 'utf8');

/** The parts of an attempt that its checkpoints and steps need. */
export interface Keeping {
  readonly store: Pick<AttemptStore, 'saveCheckpoint' | 'saveSteps'>;
  readonly large: LargeValues | undefined;
  /** The most bytes of a checkpoint. */
  readonly bytesMax: number;
  /** The checkpoint as the job's item has it. */
  readonly stored: Json | undefined;
  readonly job: MovingJob;
  readonly worker: WorkerIdentity;
  readonly log: Log;
  /** Ends the attempt, which has lost its job. */
  readonly stop: (reason: Error) => void;
  /** The attempt's signal, as the handler's context has it: no step begins once it has aborted. */
  readonly signal: () => AbortSignal;
}

/** The data that an attempt keeps beside its result. */
export interface Kept {
  readonly checkpoint: (data: unknown) => Promise<void>;
  readonly step: RunStep;
  /** Whether the handler has called `checkpoint` or `step`. */
  readonly wasUsed: () => boolean;
  /** Resolves when no step runs any more, and each write has been answered. */
  readonly untilIdle: () => Promise<void>;
}

/** Looks at a write's answer. @throws AttemptError - `JobSuperseded`: another attempt holds the job, and this one is stopped */
function requireApplied(job: MovingJob, stop: Keeping['stop'], answer: Applied): void {
  if (answer === 'applied') return;
  const reason = new AttemptError('JobSuperseded', `job ${job.id} is not held by this attempt any more`);
  stop(reason);
  throw reason;
}

/** Returns a handler's `checkpoint` and `step`. */
export function keptBy(keeping: Keeping): Kept {
  const { job, log } = keeping;
  const open = new Set<Promise<unknown>>();
  let wasUsed = false;
  /** Logs a failure that the handler does not await. It would end the process, in which other jobs run. */
  const follow = <Value>(message: string, work: Promise<Value>): Promise<Value> => {
    wasUsed = true;
    open.add(work);
    work
      .catch((error: unknown) => log.warn(message, { jobId: job.id, error: jobErrorOf(error).message }))
      .finally(() => open.delete(work));
    return work;
  };
  const save = checkpointOf(keeping);
  const { step, writeLeft } = stepsOf(keeping);
  return {
    checkpoint: (data) => follow('a checkpoint was not kept', save(data)),
    step: ((name, run) => follow('a step was not kept', step(name, run))) as RunStep,
    untilIdle: async () => {
      while (open.size > 0) await Promise.allSettled(open);
      await writeLeft().catch(() => {});
    },
    wasUsed: () => wasUsed,
  };
}

const checkpointOf = ({ store, large, bytesMax, stored, job, worker, stop, log }: Keeping) => {
  let named = stored;
  return async (data: unknown): Promise<void> => {
    const value = storable(data, CHECKPOINT, bytesMax);
    const checkpoint = large === undefined ? value : await large.put(job.id, 'kept', value);
    requireApplied(job, stop, await store.saveCheckpoint({ job, worker, checkpoint }));
    const former = named;
    named = checkpoint;
    // Without this, each checkpoint of a long job would leave an object until its job is gone.
    await large?.drop(former, checkpoint).catch((error: unknown) =>
      log.warn('the object of a former checkpoint was not deleted; it is collected with its job', {
        jobId: job.id,
        error: String(error),
      }),
    );
  };
};

/** The time at which a parked job runs again, and the state that its next run gets. */
export interface ParkOptions {
  /** A delay from now such as `'+15m'`, a `Date`, or epoch milliseconds; at most 366 days ahead. A time that is past means now. */
  readonly until: string | Date | number;
  /**
   * The state that the next run gets as `parkedState`: JSON of at most 64 KB, or up to the declared `largePayloads`.
   * @default null
   */
  readonly state?: unknown;
  /**
   * Lets other jobs of the job's conflict key start while it is parked. Required for a job with a conflict key, because
   * a parked job holds nothing. @default false
   */
  readonly releaseConflict?: boolean | undefined;
}

/** The answer of `ctx.park`. A handler that returns it parks its job. */
export class ParkedJob {
  readonly untilMs: number;
  readonly state: Json;

  constructor(untilMs: number, state: Json) {
    this.untilMs = untilMs;
    this.state = state;
  }
}

/** The longest time for which a job may be parked. */
const PARKED_MAX_MS = 366 * 24 * 3_600_000;

const checkPark = objectOf({ until: () => {}, state: () => {}, releaseConflict: isBoolean });

/**
 * Returns the `park` of a handler. @param conflictKey - the conflict key of the job, if other jobs with it could start
 * while it is parked
 */
export const parkOf =
  (job: MovingJob, conflictKey: string | undefined, bytesMax: number, nowMs: () => number) =>
  (options: ParkOptions): ParkedJob => {
    checkPark('options', options);
    const { until, state, releaseConflict } = options;
    const atMs = nowMs();
    const untilMs = instantOf(until, atMs);
    if (Number.isNaN(untilMs) || untilMs > atMs + PARKED_MAX_MS)
      throw new ConfigurationError(
        'until',
        until,
        'must be a delay, a Date or epoch milliseconds',
        "Write a text such as '+15m', a Date, or milliseconds since 1970, at most 366 days ahead.",
      );
    if (conflictKey !== undefined && releaseConflict !== true)
      throw new ConfigurationError(
        'releaseConflict',
        releaseConflict,
        `must be true: job ${job.id} has the conflict key ${conflictKey}, and a parked job holds nothing`,
        'Say releaseConflict: true if other jobs of that key may run meanwhile; otherwise do not park the job.',
      );
    return new ParkedJob(untilMs, storable(state, PARKED, bytesMax));
  };

function instantOf(until: unknown, nowMs: number): number {
  if (until instanceof Date) return until.getTime();
  if (typeof until === 'number') return until;
  return typeof until === 'string' && until.startsWith('+')
    ? nowMs + durationMs('until', until.slice(1))
    : Number.NaN;
}

/** Runs a part of a handler unless it is done, and answers its value. */
export type RunStep = <Value>(name: string, run: () => Promise<Value> | Value) => Promise<Value>;

/** A step that was called. */
interface BegunStep {
  ended: Promise<unknown>;
  /** Whether its function runs. */
  isRunning: boolean;
  /** The steps that its function has called. */
  readonly calls: Set<BegunStep>;
}

/** The step whose function the running code belongs to. */
const enclosing = new AsyncLocalStorage<BegunStep>();

const waitsFor = (one: BegunStep, other: BegunStep): boolean =>
  one.isRunning && (one === other || [...one.calls].some((each) => waitsFor(each, other)));

/** Returns the `step` of a handler, and `writeLeft`, a last write of the values whose write got no answer. */
function stepsOf({ store, job, worker, stop, signal }: Keeping): {
  readonly step: (name: string, run: () => unknown) => Promise<unknown>;
  readonly writeLeft: () => Promise<void>;
} {
  // planted: steps-of-one-attempt
  const kept: DoneSteps = job.steps ?? {};
  let done = kept;
  let written = kept;
  const begun = new Map<string, BegunStep>();
  // Steps are written one after the other, in their order. A step that ends while a write is under way shares the next
  // write with others.
  let last: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  const write = (): Promise<void> => {
    next ??= last.then(async () => {
      next = undefined;
      const steps = done;
      const answer = await store.saveSteps({ job, worker, steps });
      written = steps;
      requireApplied(job, stop, answer);
    });
    last = next.catch(() => {});
    return next;
  };
  const take = async (name: string, run: () => unknown, own: BegunStep): Promise<unknown> => {
    if (!Object.hasOwn(done, name)) {
      signal().throwIfAborted();
      const what = `the value of the step ${JSON.stringify(name)}`;
      own.isRunning = true;
      try {
        const step = storedStep(await enclosing.run(own, run), what);
        done = withStep(done, name, step, what);
      } finally {
        own.isRunning = false;
      }
    }
    await write();
    return structuredClone(done[name]?.value);
  };
  const begin = (name: string, run: () => unknown, caller: BegunStep | undefined): BegunStep => {
    const own: BegunStep = { ended: Promise.resolve(), isRunning: false, calls: new Set() };
    begun.set(name, own);
    // The step is entered among its caller's steps before its function runs, because the function may call steps at
    // once.
    caller?.calls.add(own);
    own.ended = take(name, run, own);
    // A step that failed may be called again. If its function failed, the function runs again; if only the write of its value failed,
    // only the write is repeated.
    own.ended.catch(() => begun.delete(name));
    return own;
  };
  const step = async (name: string, run: () => unknown): Promise<unknown> => {
    readName('step', name);
    isFunction('step', run);
    if (Object.hasOwn(kept, name)) return structuredClone(kept[name]?.value);
    const caller = enclosing.getStore();
    const before = begun.get(name);
    if (caller !== undefined && before !== undefined && waitsFor(before, caller))
      throw new ConfigurationError(
        'step',
        name,
        'would wait for its own end: it is called within itself',
        'Give each step a name of its own.',
      );
    if (before === undefined) return begin(name, run, caller).ended;
    caller?.calls.add(before);
    return before.ended;
  };
  return { step, writeLeft: async () => (written === done ? undefined : write()) };
}

function storedStep(value: unknown, what: string): DoneSteps[string] {
  return value === undefined
    ? {}
    : { value: storable(value, { what, verb: 'return', refused: 'CheckpointRefused' }) };
}

/** Returns the steps with one more. @throws AttemptError - all of them together are too large */
function withStep(done: DoneSteps, name: string, step: DoneSteps[string], what: string): DoneSteps {
  const steps = { ...done, [name]: step };
  const bytes = bytesOf(steps);
  if (bytes <= JSON_LIMITS.bytes) return steps;
  throw new AttemptError(
    'CheckpointRefused',
    `${what} makes the values of all steps ${bytes} bytes, at most ${JSON_LIMITS.bytes} are kept; store it elsewhere and return a reference`,
  );
}
