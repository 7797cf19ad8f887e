/** `manifest.json`: what became of every file, from the job items. */
import type { Job } from '../../lib/core/job.ts';
import type { PlannedFile } from './input.ts';
import type { Skipped } from './walk.ts';
import type { Watched } from './watch.ts';

export interface ManifestJob {
  readonly id: string;
  readonly type: string;
  /** Null: no fleet ever got it. */
  readonly fleet: string | null;
  readonly state: Job['state'] | 'rejected';
  readonly attempts: number;
  /** Instants are ISO 8601 with milliseconds; null: it never came to that. */
  readonly submittedAt: string | null;
  readonly claimedAt: string | null;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
  /** Relative to the output folder. Absent unless the job succeeded. */
  readonly output?: string;
  /** Of that output. */
  readonly sha256?: string;
  /** Why it failed: the error's name and message. */
  readonly error?: string;
}

export interface ManifestFile {
  /** Relative to the input folder, with slashes. */
  readonly path: string;
  readonly jobs: readonly ManifestJob[];
}

export interface Manifest {
  readonly files: readonly ManifestFile[];
  /** What is in the input folder and got no job. */
  readonly skipped: readonly Skipped[];
}

const instant = (atMs: number | undefined): string | null =>
  atMs === undefined ? null : new Date(atMs).toISOString();

function resultOf(job: Job): Pick<ManifestJob, 'output' | 'sha256'> {
  const { result } = job;
  if (job.state !== 'succeeded' || typeof result !== 'object' || result === null || !('output' in result))
    return {};
  const { output, sha256 } = result;
  return typeof output === 'string' && typeof sha256 === 'string' ? { output, sha256 } : {};
}

function entryOf(job: Job): ManifestJob {
  const { id, type, claim, state, attempt, submittedAtMs, startedAtMs, finishedAtMs, error } = job;
  return {
    id,
    type,
    fleet: claim?.fleet ?? null,
    state,
    attempts: attempt,
    submittedAt: instant(submittedAtMs),
    claimedAt: instant(claim?.claimedAtMs),
    startedAt: instant(startedAtMs),
    finishedAt: instant(finishedAtMs),
    ...resultOf(job),
    ...(error === undefined || state === 'succeeded' ? {} : { error: `${error.name}: ${error.message}` }),
  };
}

const rejectedEntry = ({ jobId, request }: PlannedFile, reason: string): ManifestJob => ({
  id: jobId,
  type: request.type,
  fleet: null,
  state: 'rejected',
  attempts: 0,
  submittedAt: null,
  claimedAt: null,
  startedAt: null,
  finishedAt: null,
  error: reason,
});

/** Every file of the plan, in its order. */
export function manifestOf(
  files: readonly PlannedFile[],
  skipped: readonly Skipped[],
  { jobs, rejected }: Watched,
): Manifest {
  return {
    files: files.map((file) => {
      const job = jobs.get(file.jobId);
      const entry =
        job === undefined ? rejectedEntry(file, rejected.get(file.jobId) ?? 'not stored') : entryOf(job);
      return { path: file.path, jobs: [entry] };
    }),
    skipped,
  };
}
