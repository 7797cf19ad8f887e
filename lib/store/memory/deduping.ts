/** Deduplicating submitted jobs. */
import type { DedupedJob } from '../../core/dedupe.ts';
import type { Job } from '../../core/job.ts';
import { type DedupeStore, MERGED_FIELDS, type Superseded } from '../contract/deduping.ts';
import type { CreateOutcome } from '../contract/requests.ts';
import type { RequestOf } from '../contract/verbs.ts';
import { dedupeKey, jobKey } from '../table/schema.ts';
import { requireJobFits, requireKeyFits } from './imitation/fits.ts';
import type { MemoryItems } from './items.ts';

export class MemoryDedupeStore implements DedupeStore {
  readonly #items: MemoryItems;

  constructor(items: MemoryItems) {
    this.#items = items;
  }

  async readDedupe(named: DedupedJob): Promise<string | undefined> {
    return this.#items.read('readDedupe', () => {
      this.#items.bill.small('readDedupe', 'read');
      return this.#named(named);
    });
  }

  async createDeduped(request: RequestOf<'createDeduped'>): Promise<CreateOutcome | Superseded> {
    const { job, after, expiresAtMs } = request;
    return this.#items.write('createDeduped', () => {
      requireJobFits(job, job.payload);
      requireKeyFits(dedupeKey(job));
      this.#items.bill.wrotePayload('createDeduped', job);
      const present = this.#items.item(job.id)?.value;
      const named = this.#named(job);
      if (present === undefined && (named === undefined || named === after)) {
        return this.#items.bill.inTransaction('createDeduped', () => {
          this.#items.bill.small('createDeduped', 'write');
          this.#items.state.dedupes.set(dedupeKey(job).pk, { jobId: job.id, expiresAtMs });
          return { kind: 'created', job: this.#items.put(undefined, job) };
        });
      }
      this.#items.bill.refused('createDeduped', this.#items.item(job.id));
      if (present === undefined) return { kind: 'superseded' };
      return { kind: present.contentHash === job.contentHash ? 'repeated' : 'conflict', job: present };
    });
  }

  async mergeJob({
    job,
    next,
  }: RequestOf<'mergeJob'>): Promise<{ readonly kind: 'merged'; readonly job: Job } | Superseded> {
    return this.#items.write('mergeJob', () => {
      requireKeyFits(jobKey(job.id));
      requireJobFits(next, next.payload);
      const item = this.#items.item(job.id);
      this.#items.bill.readJobs('mergeJob', [item]);
      const present = item?.value;
      const isAsRead =
        present?.state === job.state &&
        present.version === job.version &&
        JSON.stringify(present.merged) === JSON.stringify(job.merged);
      if (!isAsRead) {
        this.#items.bill.refused('mergeJob', item);
        return { kind: 'superseded' };
      }
      // The fields that a merge does not change may have changed since the job was read.
      const changed = Object.fromEntries(MERGED_FIELDS.map((name) => [name, next[name]]));
      const after = { ...present, ...changed } as Job;
      this.#items.bill.wrotePayload('mergeJob', after);
      return { kind: 'merged', job: this.#items.put(item, after) };
    });
  }

  #named(job: DedupedJob): string | undefined {
    const item = this.#items.state.dedupes.get(dedupeKey(job).pk);
    return item === undefined || item.expiresAtMs <= this.#items.clock() ? undefined : item.jobId;
  }
}
