/** The options and abort signals of the client's calls. */

import { isTerminal, type Job } from '../core/job.ts';
import type { MoveOutcome } from '../operate/retime.ts';
import { checked } from './arguments.ts';
import { AbortError, JobStateError, NotFoundError } from './errors.ts';

export interface CallOptions {
  /** Aborts to end the call with an `AbortError`, once the step that is under way has ended. */
  readonly signal?: AbortSignal | undefined;
}

export interface GetOptions extends CallOptions {
  /** True: a value over 64 KB is shown as its reference, as lists do, and no object is read. @default false */
  readonly references?: boolean | undefined;
}

/** Returns the checked options; an empty object if none were given. */
export function optionsOf<Shape extends Parameters<typeof checked>[0]>(
  shape: Shape,
  options: unknown,
): NonNullable<ReturnType<typeof checked<Shape>>> {
  return (checked(shape, options, 'options') ?? {}) as NonNullable<ReturnType<typeof checked<Shape>>>;
}

/** Whether a call only reads or may change something, which decides what its `AbortError` says. */
export type CallKind = 'look' | 'change';

export function stopIfAborted(signal: AbortSignal | undefined, doing: CallKind = 'look'): void {
  if (signal?.aborted === true) throw new AbortError(signal.reason, { mayHaveChanged: doing === 'change' });
}

/**
 * Runs the work, which does not begin under an aborted signal. If the signal aborts while it runs, the call still ends
 * with the work, so that nothing runs on after it: with its value, or with an `AbortError` for whatever it threw.
 */
export async function withSignal<Value>(
  signal: AbortSignal | undefined,
  work: () => Promise<Value>,
  doing: CallKind = 'change',
): Promise<Value> {
  stopIfAborted(signal, doing);
  try {
    return await work();
  } catch (error) {
    stopIfAborted(signal, doing);
    throw error;
  }
}

export async function* eachWithSignal<Value>(
  signal: AbortSignal | undefined,
  values: AsyncGenerator<Value>,
  doing: CallKind = 'look',
): AsyncGenerator<Value> {
  for (;;) {
    const next = await withSignal(signal, () => values.next(), doing);
    if (next.done === true) return;
    yield next.value;
  }
}

/** Returns the job that was changed. @throws NotFoundError, JobStateError */
export function changedJob(jobId: string, outcome: MoveOutcome, change: string, how: string): Job {
  switch (outcome.kind) {
    case 'moved':
      return outcome.job;
    case 'missing':
      throw new NotFoundError({ jobId });
    case 'tooLate':
      throw new JobStateError(
        outcome.job,
        isTerminal(outcome.job.state)
          ? `only waiting jobs can ${change}: submit a new one`
          : `only waiting jobs can ${change}, and a worker has this one: cancel it, and submit it again ${how}`,
      );
  }
}
