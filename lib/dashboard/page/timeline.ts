/** The stretches of a job's life, from its history: waiting for its time, standing in line, on its way to a worker, running. */
import type { JobAttempt, JobHistory } from '../../core/history.ts';
import type { Job } from '../../core/job.ts';

export interface Stretch {
  /** `time`: until its time. `line`: the queue delay. `fleet`: its fleet has it. `run`: a worker runs it. */
  readonly what: 'time' | 'line' | 'fleet' | 'run';
  readonly fromMs: number;
  readonly toMs: number;
}

/** A row of the timeline: an attempt, or the wait for one. */
export interface Branch {
  readonly attempt: number;
  readonly outcome: JobAttempt['outcome'] | 'waiting' | 'expired';
  readonly stretches: readonly Stretch[];
  readonly of?: JobAttempt | undefined;
}

type Times = Pick<
  Job,
  'state' | 'attempt' | 'submittedAtMs' | 'readyAtMs' | 'runAtMs' | 'finishedAtMs' | 'cancelRequestedAtMs'
>;

const stretch = (what: Stretch['what'], fromMs: number, toMs: number): readonly Stretch[] =>
  toMs > fromMs ? [{ what, fromMs, toMs }] : [];

/** Whether the job has ended, and will not go on. */
export const isOver = ({ state }: Pick<Job, 'state'>): boolean =>
  state === 'succeeded' || state === 'failed' || state === 'cancelled' || state === 'expired';

/**
 * Returns the attempts of a job, each with the wait before it. Only the newest time of a job is kept, so the first
 * attempts of a job that was retried stand in line from its submission on.
 */
export function branchesOf(
  job: Times,
  { events }: Pick<JobHistory, 'events'>,
  nowMs: number,
): readonly Branch[] {
  const attempts = events.filter((event) => event.kind === 'attempt');
  const branches: Branch[] = [];
  let sinceMs = job.submittedAtMs;
  let dueMs = attempts.length <= 1 ? firstDueMs(job, events) : job.submittedAtMs;
  for (const [at, of] of attempts.entries()) {
    const isLast = at === attempts.length - 1;
    const readyMs = Math.min(Math.max(sinceMs, dueMs), of.claimedAtMs);
    const endMs = of.endedAtMs ?? (isOver(job) ? endOf(job, of.claimedAtMs) : nowMs);
    const startMs = of.startedAtMs ?? endMs;
    branches.push({
      attempt: of.attempt,
      outcome: of.outcome,
      of,
      stretches: [
        ...stretch('time', sinceMs, readyMs),
        ...stretch('line', readyMs, of.claimedAtMs),
        ...stretch('fleet', of.claimedAtMs, startMs),
        ...(of.startedAtMs === undefined ? [] : stretch('run', of.startedAtMs, endMs)),
      ],
    });
    sinceMs = endMs;
    dueMs = of.next?.runAtMs ?? (isLast ? Math.max(job.runAtMs, job.readyAtMs) : endMs);
  }
  const rest = unattempted(job, attempts.length > 0, sinceMs, dueMs, nowMs);
  return rest === undefined ? branches : [...branches, rest];
}

/** Returns the wait that no attempt has ended. */
function unattempted(
  job: Times,
  wasTried: boolean,
  sinceMs: number,
  dueMs: number,
  nowMs: number,
): Branch | undefined {
  const ended = wasTried ? undefined : untried(job);
  if (isOver(job) && ended === undefined) return undefined;
  if (job.state === 'claimed' || job.state === 'running') return undefined;
  const endMs = ended === undefined ? nowMs : endOf(job, sinceMs);
  const due = job.state === 'scheduled' ? job.runAtMs : Math.max(dueMs, sinceMs);
  const readyMs = Math.min(Math.max(sinceMs, due), endMs);
  return {
    attempt: job.attempt + 1,
    outcome: ended ?? 'waiting',
    stretches: [...stretch('time', sinceMs, readyMs), ...stretch('line', readyMs, endMs)],
  };
}

/** How a job ended that was never tried. */
const untried = ({ state }: Times): 'cancelled' | 'expired' | undefined =>
  state === 'cancelled' || state === 'expired' ? state : undefined;

const endOf = ({ finishedAtMs, cancelRequestedAtMs }: Times, leastMs: number): number =>
  Math.max(leastMs, finishedAtMs ?? cancelRequestedAtMs ?? leastMs);

/** Returns when the job was first due: before it was moved, its time was the one that it was moved from. */
const firstDueMs = (job: Times, events: JobHistory['events']): number => {
  const last = events.findLast((event) => event.kind === 'moved');
  return last === undefined ? Math.max(job.submittedAtMs, Math.min(job.readyAtMs, job.runAtMs)) : last.toMs;
};

/** Returns how long all stretches of a kind took. */
export const totalMs = (branches: readonly Branch[], what: Stretch['what']): number =>
  branches
    .flatMap(({ stretches }) => stretches)
    .filter((each) => each.what === what)
    .reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
