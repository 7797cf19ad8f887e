/** Whether running jobs are still wanted: the host of their handlers asks the store now and then, for all at once. */
import type { MovingJob } from '../core/job.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import type { SubmitStore } from '../store/contract.ts';

/** Thrown into an attempt of a job whose end somebody asked for. */
export class JobCancelledError extends Error {
  override readonly name = 'JobCancelled';
}

/** Thrown into an attempt that does not hold its job any more: nothing that it does counts. */
export class JobSupersededError extends Error {
  override readonly name = 'JobSuperseded';
}

/** How often a host asks by default. Jobs that end sooner cost nothing. */
export const WATCH_EVERY_MS = 10_000;

export interface WatchOptions {
  readonly store: Pick<SubmitStore, 'lookUpJobs'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly everyMs?: number | undefined;
}

/**
 * Watches a running job until the answered function is called. `stop` is called once at most, with `JobCancelledError` or
 * `JobSupersededError` as its reason.
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
    return new JobSupersededError(
      `job ${running.id} is not held by this attempt any more (${now?.state ?? 'gone'})`,
    );
  }
  if (now.cancelRequestedAtMs === undefined) return undefined;
  return new JobCancelledError(`the end of job ${running.id} was asked for; stop and leave things tidy`);
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
