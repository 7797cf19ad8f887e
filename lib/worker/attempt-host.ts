/**
 * What a host of handlers, a function or a process, does beside them, for all attempts that it runs: it asks whether their jobs are
 * still wanted (`watchJobs`), tells them when their time is over (`deadlinesBy`), passes on how far they are (`progressOf`),
 * and counts what has started (`noteStart`).
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import type { Job, Json, MovingJob } from '../core/job.ts';
import type { Metrics } from '../metrics/contract.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { PROGRESS_BYTES_MAX } from '../store/contract/bounds.ts';
import type { SubmitStore } from '../store/contract/verbs.ts';
import { AttemptError } from './errors.ts';

/** How often a host asks by default. Jobs that end sooner cost nothing. */
export const WATCH_EVERY_MS = 10_000;

export interface WatchOptions {
  readonly store: Pick<SubmitStore, 'lookUpJobs'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly everyMs?: number | undefined;
}

/**
 * Watches a running job until the answered function is called. `stop` is called once at most, with an `AttemptError` as its reason:
 * `JobCancelled` or `JobSuperseded`.
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
  return new AttemptError(
    'JobCancelled',
    `the end of job ${running.id} was asked for; stop and leave things tidy`,
  );
}

/** One host's watch over the jobs it runs. It asks nothing while none runs for longer than `everyMs`. */
export function watchJobs({ store, clock, log, everyMs = WATCH_EVERY_MS }: WatchOptions): Watch {
  const watched = new Set<Watched>();
  let idle: AbortController | undefined;

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
        // While we asked it may have ended by itself. Of one that cannot be read nobody knows that it is not wanted.
        if (!watched.has(each) || unreadable.has(each.job.id)) continue;
        const reason = reasonToStop(each.job, jobs[at]);
        if (reason === undefined) continue;
        watched.delete(each);
        each.stop(reason);
      }
    } catch (error) {
      log.warn('running jobs could not be looked up; the next look will', { error: String(error) });
    }
  };

  const lookOn = async (ended: AbortController): Promise<void> => {
    while (!ended.signal.aborted) {
      await clock.sleep(everyMs, ended.signal);
      if (!ended.signal.aborted) await look();
    }
  };

  const end = (each: Watched): void => {
    watched.delete(each);
    if (watched.size > 0) return;
    // Without a reason, an error would be made for nobody.
    idle?.abort('over');
    idle = undefined;
  };

  return (job, stop) => {
    const each = { job, stop, sinceMonotonicMs: clock.monotonicMs() };
    watched.add(each);
    if (idle === undefined) {
      idle = new AbortController();
      void lookOn(idle);
    }
    return () => end(each);
  };
}

/** Calls `over` once, after so long, unless the answered function is called before. */
export type Deadlines = (afterMs: number, over: () => void) => () => void;

interface Deadline {
  readonly atMonotonicMs: number;
  readonly over: () => void;
  /** Its place among those that wait; -1 for one that does not. */
  place: number;
}

/** One host's deadlines: one sleep for all of them, and none while there are no attempts. */
export function deadlinesBy(clock: Clock): Deadlines {
  // Not a set: one that fills and empties all the time is made anew each time, and each that has grown old before it was
  // thrown away keeps the next ones, and all that their attempts hold, from the collector's quick rounds.
  const waiting: Deadline[] = [];
  let sleep: { readonly untilMonotonicMs: number; readonly end: AbortController } | undefined;

  const leave = (each: Deadline): void => {
    const last = waiting.at(-1);
    if (each.place === -1 || last === undefined) return;
    waiting[each.place] = last;
    last.place = each.place;
    each.place = -1;
    waiting.pop();
  };

  const wakeUp = (): void => {
    // Without a reason, an error would be made for nobody.
    sleep?.end.abort('over');
    sleep = undefined;
  };

  const sleepUntil = async (untilMonotonicMs: number): Promise<void> => {
    wakeUp();
    const end = new AbortController();
    sleep = { untilMonotonicMs, end };
    // Whole milliseconds: the rest of a rounding error would be slept for ever.
    await clock.sleep(Math.ceil(untilMonotonicMs - clock.monotonicMs()), end.signal);
    if (end.signal.aborted) return;
    sleep = undefined;
    const nowMs = clock.monotonicMs();
    let nextMs = Infinity;
    for (const each of waiting.filter(({ atMonotonicMs }) => atMonotonicMs <= nowMs)) {
      // One that is over may have ended another.
      if (each.place === -1) continue;
      leave(each);
      each.over();
    }
    for (const each of waiting) nextMs = Math.min(nextMs, each.atMonotonicMs);
    // What `over` has added since sleeps already, unless something is due before it.
    const isInTime =
      sleep !== undefined && (sleep as { untilMonotonicMs: number }).untilMonotonicMs <= nextMs;
    if (Number.isFinite(nextMs) && !isInTime) void sleepUntil(nextMs);
  };

  return (afterMs, over) => {
    const each = { atMonotonicMs: clock.monotonicMs() + afterMs, over, place: waiting.length };
    waiting.push(each);
    if (sleep === undefined || each.atMonotonicMs < sleep.untilMonotonicMs)
      void sleepUntil(each.atMonotonicMs);
    return () => {
      leave(each);
      if (waiting.length === 0) wakeUp();
    };
  };
}

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

/** Counts a job that has started, and what it has waited by the clocks of whoever made it ready and of this worker. */
export function noteStart(
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
