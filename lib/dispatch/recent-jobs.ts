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

/** By line, each of which is one key's, and the one that was told of last behind all others: what is old is found without a look at the rest. */
export class RecentJobs {
  readonly #byId = new Map<string, RecentJob>();
  readonly #byLine = new Map<string, Map<string, RecentJob>>();
  /** By fairness key: its lines. */
  readonly #linesOf = new Map<string, Set<string>>();

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

  /** Of a key. */
  *ofKey(fairnessKey: string): Generator<JobHead> {
    for (const name of this.#linesOf.get(fairnessKey) ?? [])
      for (const { job } of this.inLine(name)) yield job;
  }

  /** Keys that have some. */
  keys(): Iterable<string> {
    return this.#linesOf.keys();
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
    let ofLine = this.#byLine.get(name);
    if (ofLine === undefined) {
      ofLine = new Map();
      this.#byLine.set(name, ofLine);
      this.#addLine(name, job.fairnessKey);
    }
    ofLine.set(job.id, recent);
  }

  #addLine(name: string, fairnessKey: string): void {
    const lines = this.#linesOf.get(fairnessKey);
    if (lines === undefined) this.#linesOf.set(fairnessKey, new Set([name]));
    else lines.add(name);
  }

  forget(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#byId.delete(id);
    const { name, job } = known;
    const ofLine = this.#byLine.get(name);
    ofLine?.delete(id);
    if (ofLine?.size !== 0) return;
    this.#byLine.delete(name);
    const lines = this.#linesOf.get(job.fairnessKey);
    lines?.delete(name);
    if (lines?.size === 0) this.#linesOf.delete(job.fairnessKey);
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
    this.#linesOf.clear();
  }
}
