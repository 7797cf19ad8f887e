/**
 * A worker's duties towards the attempts that it runs, in a function or a process: it looks up whether their jobs are
 * still wanted (`watchJobs`), stops them when their time is over (`createDeadlines`), reports their progress
 * (`throttleProgress`) and counts the starts (`countStart`).
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import type { Job, Json, MovingJob } from '../core/job.ts';
import { jsonOf } from '../core/json.ts';
import type { Metrics } from '../metrics/contract.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { PROGRESS_BYTES_MAX } from '../store/contract/bounds.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { AttemptError } from './errors.ts';
import { jobErrorOf } from './thrown.ts';

/** How often a worker looks up its running jobs by default, in milliseconds. A job that ends sooner costs no read. */
export const WATCH_EVERY_MS = 10_000;

export interface WatchOptions {
  readonly store: Pick<SubmitStore, 'lookUpJobs'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly everyMs?: number | undefined;
}

/**
 * Watches a running job until the returned function is called. `stop` is called at most once, with an `AttemptError`
 * whose reason is `JobCancelled` or `JobSuperseded`.
 */
export type Watch = (job: MovingJob, stop: (reason: Error) => void) => () => void;

interface Watched {
  readonly job: MovingJob;
  readonly stop: (reason: Error) => void;
  readonly sinceMonotonicMs: number;
}

function reasonToStop(running: MovingJob, now: MovingJob | undefined): Error | undefined {
  const isOurs =
    now?.state === 'running' &&
    now.claim?.claimId === running.claim?.claimId &&
    now.worker?.workerId === running.worker?.workerId &&
    now.worker?.incarnation === running.worker?.incarnation;
  if (!isOurs) {
    return new AttemptError(
      'JobSuperseded',
      `job ${running.id} is not held by this attempt any more (${now?.state ?? 'gone'})`,
    );
  }
  if (now.cancelRequestedAtMs === undefined) return undefined;
  return new AttemptError('JobCancelled', `job ${running.id} was cancelled; stop and clean up`);
}

/**
 * Returns one worker's watch over the jobs that it runs. It reads nothing while no job has run for longer than
 * `everyMs`.
 */
export function watchJobs({ store, clock, log, everyMs = WATCH_EVERY_MS }: WatchOptions): Watch {
  const watched = new Set<Watched>();
  let watching: AbortController | undefined;

  const look = async (): Promise<void> => {
    const sinceMs = clock.monotonicMs() - everyMs;
    const old = [...watched].filter((each) => each.sinceMonotonicMs <= sinceMs);
    if (old.length === 0) return;
    try {
      const unreadable = new Set<string>();
      const jobs = await store.lookUpJobs({
        ids: old.map((each) => each.job.id),
        unreadable: (id) => unreadable.add(id),
      });
      for (const [at, each] of old.entries()) {
        // The attempt may have ended during the lookup. A job that cannot be read counts as still wanted.
        if (!watched.has(each) || unreadable.has(each.job.id)) continue;
        const reason = reasonToStop(each.job, jobs[at]);
        if (reason === undefined) continue;
        watched.delete(each);
        each.stop(reason);
      }
    } catch (error) {
      log.warn('running jobs could not be looked up; the next look-up tries again', { error: String(error) });
    }
  };

  const lookRepeatedly = async (ended: AbortController): Promise<void> => {
    while (!ended.signal.aborted) {
      await clock.sleep(everyMs, ended.signal);
      if (!ended.signal.aborted) await look();
    }
  };

  const end = (each: Watched): void => {
    watched.delete(each);
    if (watched.size > 0) return;
    // Given a reason, `abort` creates no error of its own.
    watching?.abort('over');
    watching = undefined;
  };

  return (job, stop) => {
    const each = { job, stop, sinceMonotonicMs: clock.monotonicMs() };
    watched.add(each);
    if (watching === undefined) {
      watching = new AbortController();
      void lookRepeatedly(watching);
    }
    return () => end(each);
  };
}

/** Calls `over` once, `afterMs` later, unless the returned function is called before. */
export type Deadlines = (afterMs: number, over: () => void) => () => void;

interface Deadline {
  readonly atMonotonicMs: number;
  readonly over: () => void;
  /** The deadline's index among those that wait; -1: it does not wait any more. */
  at: number;
}

/** Returns one worker's deadlines: a single timer serves all of them, and none runs while there are no attempts. */
export function createDeadlines(clock: Clock): Deadlines {
  // This is an array, because a Set that keeps filling and emptying reallocates its table each time. Old tables keep
  // newer ones, and all that their attempts hold, from the quick rounds of the garbage collector.
  const waiting: Deadline[] = [];
  let sleep: { readonly untilMonotonicMs: number; readonly end: AbortController } | undefined;

  const remove = (each: Deadline): void => {
    const last = waiting.at(-1);
    if (each.at === -1 || last === undefined) return;
    waiting[each.at] = last;
    last.at = each.at;
    each.at = -1;
    waiting.pop();
  };

  const endSleep = (): void => {
    // Given a reason, `abort` creates no error of its own.
    sleep?.end.abort('over');
    sleep = undefined;
  };

  const sleepUntil = async (untilMonotonicMs: number): Promise<void> => {
    endSleep();
    const end = new AbortController();
    sleep = { untilMonotonicMs, end };
    // The time is rounded up to whole milliseconds, because a remainder from rounding would be slept for again and
    // again.
    await clock.sleep(Math.ceil(untilMonotonicMs - clock.monotonicMs()), end.signal);
    if (end.signal.aborted) return;
    sleep = undefined;
    const nowMs = clock.monotonicMs();
    let nextMs = Infinity;
    for (const each of waiting.filter(({ atMonotonicMs }) => atMonotonicMs <= nowMs)) {
      // The callback of one deadline may have removed another.
      if (each.at === -1) continue;
      remove(each);
      each.over();
    }
    for (const each of waiting) nextMs = Math.min(nextMs, each.atMonotonicMs);
    // `over` may have added deadlines, which have set the timer already. It stays unless something is due earlier.
    const isInTime =
      sleep !== undefined && (sleep as { untilMonotonicMs: number }).untilMonotonicMs <= nextMs;
    if (Number.isFinite(nextMs) && !isInTime) void sleepUntil(nextMs);
  };

  return (afterMs, over) => {
    const each = { atMonotonicMs: clock.monotonicMs() + afterMs, over, at: waiting.length };
    waiting.push(each);
    if (sleep === undefined || each.atMonotonicMs < sleep.untilMonotonicMs)
      void sleepUntil(each.atMonotonicMs);
    return () => {
      remove(each);
      if (waiting.length === 0) endSleep();
    };
  };
}

export interface Progress {
  /** Reports how far a job is. Progress that is not JSON of at most 1 KB is dropped with a warning. */
  readonly say: (job: Job, said: unknown) => void;
  readonly end: () => void;
}

export interface ProgressOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly everyMs: number;
  readonly pass: (latest: Json, job: Job) => void;
}

/** Returns a function that passes on the latest progress: the first at once, later ones at most once per `everyMs`. */
export function throttleProgress({ clock, log, everyMs, pass }: ProgressOptions): Progress {
  const ended = new AbortController();
  let passedAtMs = Number.NEGATIVE_INFINITY;
  let waiting: { readonly job: Job; readonly said: Json } | undefined;
  let isWaiting = false;

  const passOn = (job: Job, said: Json): void => {
    waiting = undefined;
    passedAtMs = clock.monotonicMs();
    pass(said, job);
  };
  const waitToPassOn = async (): Promise<void> => {
    isWaiting = true;
    await clock.sleep(Math.ceil(passedAtMs + everyMs - clock.monotonicMs()), ended.signal);
    isWaiting = false;
    if (waiting !== undefined && !ended.signal.aborted) passOn(waiting.job, waiting.said);
  };
  return {
    say: (job, said) => {
      if (ended.signal.aborted) return;
      const stored = progressIn(said, (error) => {
        log.warn(`progress is dropped: it is not JSON of at most ${PROGRESS_BYTES_MAX} bytes`, {
          jobId: job.id,
          error,
        });
      });
      if (stored === undefined) return;
      // The time is checked here as well as by the timer, which is late while a handler keeps the event loop busy.
      if (clock.monotonicMs() >= passedAtMs + everyMs) return passOn(job, stored);
      waiting = { job, said: stored };
      if (!isWaiting) void waitToPassOn();
    },
    end: () => ended.abort('over'),
  };
}

/** Returns a copy of the progress; undefined if it is not JSON or too large, after `onDropped` was told why. */
export function progressIn(said: unknown, onDropped: (why: string) => void): Json | undefined {
  try {
    const json = jsonOf(said, 'report');
    const bytes = Buffer.byteLength(JSON.stringify(json), 'utf8');
    if (bytes <= PROGRESS_BYTES_MAX) return json;
    onDropped(`it has ${bytes} bytes`);
  } catch (error) {
    onDropped(jobErrorOf(error).message);
  }
  return undefined;
}

/**
 * Counts a job that has started, and how long it waited: from `readyAtMs`, by the clock of the process that made it
 * ready, to its start by the clock of this worker.
 */
export function countStart(
  metrics: Metrics | undefined,
  configuration: PoolConfiguration,
  { type, readyAtMs, startedAtMs }: Job,
  nowMs: number,
): void {
  const tier = typesByName(configuration).get(type)?.tier;
  const scopes = { type, ...(tier === undefined ? {} : { tier }) };
  metrics?.add('started', 1, scopes);
  metrics?.add('waitTime', Math.max(0, (startedAtMs ?? nowMs) - readyAtMs), scopes);
}
