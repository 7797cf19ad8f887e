/**
 * Deduping: an item for each dedupe key names the job that waits. Without it, requests with a dedupe key make a job each.
 */
import type { DedupedJob } from '../../core/dedupe.ts';
import type { Job } from '../../core/job.ts';
import type { CreateOutcome } from './requests.ts';

/** The fields that a merge may change: what a request says, but for what tells its key from others, and what follows from it. */
export const MERGED_FIELDS = [
  'payload',
  'label',
  'tags',
  'units',
  'priority',
  'mode',
  'merged',
  'state',
  'version',
  'runAtMs',
  'readyAtMs',
  'firstReadyAtMs',
  'expireAtMs',
] as const satisfies readonly (keyof Job)[];

/** The result of a write that needs the key to name the job that was read, and that job to be as it was read. */
export type Superseded = { readonly kind: 'superseded' };

export interface DedupeStore {
  /** Reads, strongly consistent, the id of the job that the key of this one names; undefined: it names none. */
  readDedupe(job: DedupedJob): Promise<string | undefined>;
  /**
   * Puts a job unless its id exists, and lets its key name it, both or none, fenced by `after`: the job that the key named; undefined: none. A
   * repeated request finds its job and answers `repeated`.
   */
  createDeduped(request: {
    readonly job: Job;
    readonly after: string | undefined;
    /** When the key's item may be garbage collected. It names no job from then on. */
    readonly expiresAtMs: number;
  }): Promise<CreateOutcome | Superseded>;
  /**
   * Changes payload, label, tags, units, time, expiry, priority and mode of a waiting job, fenced by its version and by the requests that were merged into it before. A
   * start either comes before, and this changes nothing, or gets the changed payload.
   */
  mergeJob(request: {
    readonly job: Job;
    /** The job as it will be (`mergedInto`). */
    readonly next: Job;
  }): Promise<{ readonly kind: 'merged'; readonly job: Job } | Superseded>;
}
