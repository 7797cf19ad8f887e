/** How far an attempt is, on its way from the handler to where somebody can look. */
import type { Job, Json } from '../core/job.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { PROGRESS_BYTES_MAX } from '../store/bounds.ts';

export interface Progress {
  readonly say: (job: Job, said: Json) => void;
  readonly end: () => void;
}

export interface ProgressOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly everyMs: number;
  readonly pass: (latest: Json, job: Job) => void;
}

/** Passes on the latest of what is said: at once, and then so often at most. */
export function progressOf({ clock, log, everyMs, pass }: ProgressOptions): Progress {
  const ended = new AbortController();
  let passedAtMs = Number.NEGATIVE_INFINITY;
  let waiting: { readonly job: Job; readonly said: Json } | undefined;
  let isWaiting = false;

  const passOn = (job: Job, said: Json): void => {
    waiting = undefined;
    passedAtMs = clock.monotonicMs();
    pass(said, job);
  };
  const waitOn = async (): Promise<void> => {
    isWaiting = true;
    await clock.sleep(Math.ceil(passedAtMs + everyMs - clock.monotonicMs()), ended.signal);
    isWaiting = false;
    if (waiting !== undefined && !ended.signal.aborted) passOn(waiting.job, waiting.said);
  };
  return {
    say: (job, said) => {
      if (ended.signal.aborted) return;
      const stored = storable(said);
      if (stored === undefined) {
        log.warn(`progress is dropped: it is not JSON of at most ${PROGRESS_BYTES_MAX} bytes`, {
          jobId: job.id,
        });
        return;
      }
      // Not by the timer alone: whoever keeps the event loop busy is heard, too.
      if (clock.monotonicMs() >= passedAtMs + everyMs) return passOn(job, stored);
      waiting = { job, said: stored };
      if (!isWaiting) void waitOn();
    },
    end: () => ended.abort(),
  };
}

/** Small enough, or undefined. */
function storable(said: Json): Json | undefined {
  try {
    const text = JSON.stringify(said);
    return Buffer.byteLength(text, 'utf8') <= PROGRESS_BYTES_MAX ? (JSON.parse(text) as Json) : undefined;
  } catch {
    return undefined;
  }
}
