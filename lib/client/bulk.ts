/** Changes of all jobs that match a filter, each with its outcome. */
import type { Job, JobState } from '../core/job.ts';
import type { JobFilter } from '../operate/list-jobs.ts';
import type { MoveOutcome } from '../operate/retime.ts';
import type { CancelOutcome } from '../store/contract/requests.ts';

/** The states of the jobs that each bulk verb may change. */
export const BULK_STATES = {
  cancel: ['scheduled', 'pending', 'claimed', 'running'],
  retime: ['scheduled', 'pending'],
} as const satisfies Readonly<Record<string, readonly JobState[]>>;

interface FilterOf<State extends JobState> extends Omit<JobFilter, 'sinceMs' | 'untilMs'> {
  readonly state: State;
}
export type CancelFilter = FilterOf<(typeof BULK_STATES.cancel)[number]>;
export type RetimeFilter = FilterOf<(typeof BULK_STATES.retime)[number]>;

/** The outcome for a job that was not changed. */
type Unchanged =
  /** A dry run found the job. */
  | { readonly kind: 'matches' }
  /** The job has changed since it was listed. */
  | { readonly kind: 'skipped'; readonly reason: string };

/** The outcome of a bulk verb for one job, with the field that names the job. */
export type BulkEntry<Changed, Named = { readonly jobId: string }> = Named & { readonly type: string } & (
    | Unchanged
    | Changed
  );

/** The outcome for one job. `requested`: its worker was asked to stop. */
export type CancelEntry = BulkEntry<{ readonly kind: 'cancelled' | 'requested' }>;
export type RetimeEntry = BulkEntry<{ readonly kind: 'moved'; readonly runAtMs: number }>;

export interface BulkRun {
  readonly limit: number;
  readonly dryRun: boolean;
}

/** Changes up to `limit` of these jobs, each once. A dry run only finds them. */
export async function* changeEach<Changed, Named>(
  jobs: AsyncIterable<Pick<Job, 'id' | 'type'>>,
  { limit, dryRun }: BulkRun,
  named: (jobId: string) => Named,
  change: (jobId: string) => Promise<Changed | Unchanged>,
): AsyncGenerator<BulkEntry<Changed, Named>> {
  // Ids of the jobs that this call has handled. A job that it has moved to a later time may be listed a second time, further back.
  const seen = new Set<string>();
  for await (const { id, type } of jobs) {
    if (seen.has(id)) continue;
    seen.add(id);
    yield { ...named(id), type, ...(dryRun ? ({ kind: 'matches' } as const) : await change(id)) };
    if (seen.size === limit) return;
  }
}

const byJobId = (jobId: string) => ({ jobId });

export const EXPIRED = { kind: 'skipped', reason: 'its record has expired' } as const;

export const cancelEach = (
  jobs: AsyncIterable<Job>,
  run: BulkRun,
  cancel: (jobId: string) => Promise<CancelOutcome>,
): AsyncGenerator<CancelEntry> =>
  changeEach(jobs, run, byJobId, async (jobId) => {
    const outcome = await cancel(jobId);
    if (outcome.kind === 'missing') return EXPIRED;
    if (outcome.kind === 'ended') return { kind: 'skipped', reason: `it is ${outcome.job.state}` };
    return { kind: outcome.kind };
  });

export const retimeEach = (
  jobs: AsyncIterable<Job>,
  run: BulkRun,
  retime: (jobId: string) => Promise<MoveOutcome>,
): AsyncGenerator<RetimeEntry> =>
  changeEach(jobs, run, byJobId, async (jobId) => {
    const outcome = await retime(jobId);
    if (outcome.kind === 'missing') return EXPIRED;
    if (outcome.kind === 'tooLate') return { kind: 'skipped', reason: `it is ${outcome.job.state}` };
    return { kind: 'moved', runAtMs: outcome.job.runAtMs };
  });
