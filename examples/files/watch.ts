/** Follows the jobs to their end. Events are quick, but only hints: the table decides. */
import { isTerminal, type Job, type JobState } from '../../lib/core/job.ts';
import { StalledError } from '../failures.ts';

/** What a message of the outcomes queue says. */
export type Outcome =
  | { readonly kind: 'ended'; readonly jobId: string }
  | {
      readonly kind: 'rejected';
      readonly eventId: string;
      readonly position: number;
      readonly reason: string;
    };

export interface Watched {
  /** Jobs that reached their end. */
  readonly jobs: ReadonlyMap<string, Job>;
  /** Reasons of requests that became no job. */
  readonly rejected: ReadonlyMap<string, string>;
}

export interface WatchOptions {
  readonly jobIds: readonly string[];
  /** The job that a request asked for, by its event and its place in it. */
  readonly jobIdAt: (eventId: string, position: number) => string | undefined;
  /** The next outcomes; waits a little for the first. */
  readonly receive: () => Promise<readonly Outcome[]>;
  /** In the order of the ids; undefined where there is no job so far. */
  readonly getJobs: (jobIds: readonly string[]) => Promise<readonly (Job | undefined)[]>;
  readonly onProgress: (ended: ReadonlyMap<string, Job>, rejected: number) => void;
  readonly monotonicMs: () => number;
  readonly signal: AbortSignal;
  /** Without an event for so long, the table is asked. */
  readonly quietMs?: number | undefined;
  /** Without any change for so long, waiting ends. */
  readonly stalledMs?: number | undefined;
}

const QUIET_MS = 5_000;
/** Longer than it takes to find out that a worker is gone, and to run its job again. */
const STALLED_MS = 6 * 60_000;
/** Jobs that are looked up at once where no event told of them. */
const LOOKED_UP_MAX = 500;

const stateOf = (job: Job | undefined): JobState | 'not stored' => job?.state ?? 'not stored';

/** Such as `3 pending, 1 running`. */
function states(jobs: readonly (Job | undefined)[]): string {
  const counts = Map.groupBy(jobs, stateOf);
  return [...counts].map(([state, { length }]) => `${length} ${state}`).join(', ');
}

/**
 * Waits until every job has reached its end.
 *
 * @throws StalledError when nothing has changed for some minutes
 * @throws the signal's reason once it was aborted
 */
export async function watch(options: WatchOptions): Promise<Watched> {
  const { jobIds, jobIdAt, receive, getJobs, onProgress, monotonicMs, signal } = options;
  const { quietMs = QUIET_MS, stalledMs = STALLED_MS } = options;
  const open = new Set(jobIds);
  const jobs = new Map<string, Job>();
  const rejected = new Map<string, string>();
  let newsAtMs = monotonicMs();
  let lookedAtMs = newsAtMs;
  let picture = '';

  /** Reads these jobs, and keeps those that have ended. */
  const lookUp = async (ids: readonly string[]): Promise<readonly (Job | undefined)[]> => {
    const found = await getJobs(ids);
    for (const [at, id] of ids.entries()) {
      const job = found[at];
      if (job === undefined || !isTerminal(job.state) || !open.delete(id)) continue;
      jobs.set(id, job);
      newsAtMs = monotonicMs();
    }
    return found;
  };

  while (open.size > 0) {
    signal.throwIfAborted();
    const told = new Set<string>();
    for (const outcome of await receive()) {
      if (outcome.kind === 'ended') told.add(outcome.jobId);
      else {
        const id = jobIdAt(outcome.eventId, outcome.position);
        if (id === undefined || !open.delete(id)) continue;
        rejected.set(id, outcome.reason);
        newsAtMs = monotonicMs();
      }
    }
    const news = [...told].filter((id) => open.has(id));
    if (news.length > 0) await lookUp(news);
    const nowMs = monotonicMs();
    if (open.size > 0 && nowMs - Math.max(newsAtMs, lookedAtMs) >= quietMs) {
      lookedAtMs = nowMs;
      const found = await lookUp([...open].slice(0, LOOKED_UP_MAX));
      // Any transition is a sign of life, and each raises a version.
      const now = found.map((job) => job?.version ?? 0).join();
      if (now !== picture) newsAtMs = monotonicMs();
      picture = now;
      if (monotonicMs() - newsAtMs >= stalledMs) {
        throw new StalledError(
          `nothing has changed for ${Math.round(stalledMs / 60_000)} min: ` +
            `${jobs.size} of ${jobIds.length} jobs ended, of the others ${states(found)}`,
        );
      }
    }
    onProgress(jobs, rejected.size);
  }
  return { jobs, rejected };
}
