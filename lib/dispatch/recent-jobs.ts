/** Jobs that hints have told of, until the index certainly shows them. */
import type { JobHead } from '../store/job-fields.ts';

/** A job that a hint told of. */
export interface RecentJob {
  /** Of its line. */
  readonly name: string;
  readonly job: JobHead;
  readonly rank: string;
  readonly seenAtMs: number;
  /** When it was read and waited: at the beginning of that pass. */
  readonly confirmedAtMs?: number | undefined;
}

/** By line, and the one that was told of last behind all others: what is old is found without a look at the rest. */
export class RecentJobs {
  readonly #byId = new Map<string, RecentJob>();
  readonly #byLine: Grouped = new Map();
  /** By fairness key. */
  readonly #byKey: Grouped = new Map();

  get size(): number {
    return this.#byId.size;
  }

  of(id: string): RecentJob | undefined {
    return this.#byId.get(id);
  }

  all(): Iterable<RecentJob> {
    return this.#byId.values();
  }

  inLine(name: string): Iterable<RecentJob> {
    return this.#byLine.get(name)?.values() ?? [];
  }

  /** Of all keys for which that is so. */
  ofKeys(isMeant: (fairnessKey: string) => boolean): readonly JobHead[] {
    const jobs: JobHead[] = [];
    for (const [fairnessKey, ofKey] of this.#byKey)
      if (isMeant(fairnessKey)) for (const { job } of ofKey.values()) jobs.push(job);
    return jobs;
  }

  hasLine(name: string): boolean {
    return this.#byLine.has(name);
  }

  /** One job of each line. */
  *oneOfEach(): Generator<RecentJob> {
    for (const ofLine of this.#byLine.values()) {
      const [first] = ofLine.values();
      if (first !== undefined) yield first;
    }
  }

  note(recent: RecentJob): void {
    const { name, job } = recent;
    this.forget(job.id);
    this.#byId.set(job.id, recent);
    addTo(this.#byLine, name, recent);
    addTo(this.#byKey, job.fairnessKey, recent);
  }

  forget(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#byId.delete(id);
    takeFrom(this.#byLine, known.name, id);
    takeFrom(this.#byKey, known.job.fairnessKey, id);
  }

  /** Forgets those that were told of before an instant, and the oldest where there are more than `most`. */
  forgetOld(beforeMs: number, most: number): void {
    for (const [id, { seenAtMs }] of this.#byId) {
      if (seenAtMs >= beforeMs && this.size <= most) return;
      this.forget(id);
    }
  }

  clear(): void {
    this.#byId.clear();
    this.#byLine.clear();
    this.#byKey.clear();
  }
}

type Grouped = Map<string, Map<string, RecentJob>>;

function addTo(groups: Grouped, name: string, recent: RecentJob): void {
  let group = groups.get(name);
  if (group === undefined) {
    group = new Map();
    groups.set(name, group);
  }
  group.set(recent.job.id, recent);
}

function takeFrom(groups: Grouped, name: string, id: string): void {
  const group = groups.get(name);
  group?.delete(id);
  if (group?.size === 0) groups.delete(name);
}
