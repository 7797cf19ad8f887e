/**
 * Jobs that hints told of, beside what a line's read shows: the index may not show them yet, and they may wait no more. With
 * them, the first jobs of blocked lines whose conflict key is free, which no read of their ready line shows.
 */
import type { ReservedJob, WaitingJob } from '../core/job.ts';
import type { Planner } from '../core/planner.ts';
import type { Decision } from '../core/scheduler.ts';
import type { JobHead } from '../store/job-fields.ts';
import type { DispatchContext } from './context.ts';
import { type LinePlaces, noteImages } from './line-images.ts';
import type { CachedLines } from './partition-cache.ts';

export interface HintedJobsInput {
  readonly partition: number;
  readonly places: LinePlaces;
  readonly cached: CachedLines;
  /** The first jobs of blocked lines of conflict keys that nothing holds any more. */
  readonly parkedHeads: readonly JobHead[];
  /** Jobs that were stored a moment ago by the dispatcher that makes this pass: they wait, though the index may not show them. */
  readonly justStored: ReadonlySet<string>;
  /** Whether a reservation holds the job. */
  readonly isHeld: (job: Pick<JobHead, 'id'>) => boolean;
  readonly nowMs: number;
}

export class HintedJobs {
  readonly #context: DispatchContext;
  readonly #partition: number;
  readonly #places: LinePlaces;
  readonly #cached: CachedLines;
  readonly #justStored: ReadonlySet<string>;
  readonly #isHeld: (job: Pick<JobHead, 'id'>) => boolean;
  readonly #nowMs: number;
  /** Heads of blocked lines by the ready line in which they stood: no read of it shows them. */
  readonly #parked: Map<string, readonly JobHead[]>;
  /** Jobs of images that were read, and wait. */
  readonly #confirmed = new Set<string>();

  constructor(context: DispatchContext, input: HintedJobsInput) {
    this.#context = context;
    this.#partition = input.partition;
    this.#places = input.places;
    this.#cached = input.cached;
    this.#justStored = input.justStored;
    this.#isHeld = input.isHeld;
    this.#nowMs = input.nowMs;
    this.#parked = Map.groupBy(input.parkedHeads, this.#places.nameOf);
  }

  /**
   * What an earlier pass has read of a line, as it is now: hints between its heads are among them (`noteImages`), heads of blocked
   * lines are not.
   */
  among(name: string, heads: readonly JobHead[], untilRank: string | undefined): readonly JobHead[] {
    return this.#parked.has(name) ? this.between(name, heads, { untilRank }) : heads;
  }

  /** First jobs of blocked lines, by the ready line in which they stood. */
  get parked(): ReadonlyMap<string, readonly JobHead[]> {
    return this.#parked;
  }

  /** Parked heads that stand in their ready lines again. */
  forgetParked(jobs: readonly JobHead[]): void {
    const moved = new Set(jobs.map(({ id }) => id));
    for (const [name, parked] of this.#parked)
      this.#parked.set(
        name,
        parked.filter(({ id }) => !moved.has(id)),
      );
  }

  /** Jobs of a type that hints told of, and those that stand in blocked lines. */
  *ofType(type: string): Generator<JobHead> {
    for (const { job } of this.#cached.recent.oneOfEach()) if (job.type === type) yield job;
    for (const [first] of this.#parked.values()) if (first?.type === type) yield first;
  }

  *recent(): Generator<JobHead> {
    for (const { job } of this.#cached.recent.all()) if (!this.#isHeld(job)) yield job;
  }

  /** The same, and those that stand in blocked lines. */
  *all(): Generator<JobHead> {
    yield* this.recent();
    for (const parked of this.#parked.values()) yield* parked;
  }

  /**
   * Of hints that the index does not show, those stay that still wait: the others would be lost claims.
   *
   * @param untilRank - where a read ended behind which more stands: hints behind it are not offered before a read comes to them
   */
  async confirm(name: string, read: readonly JobHead[], untilRank: string | undefined): Promise<void> {
    const shown = new Set(read.map(({ id }) => id));
    const doubted = [...this.#cached.recent.inLine(name)].filter(
      ({ job: { id }, rank }) =>
        (untilRank === undefined || rank <= untilRank) &&
        !shown.has(id) &&
        !this.#isHeld({ id }) &&
        !this.#confirmed.has(id) &&
        !this.#justStored.has(id),
    );
    await this.#readHinted(doubted.map(({ job }) => job));
  }

  /** Reads jobs that hints told of: what is told of those that do not wait any more is forgotten. */
  async #readHinted(told: readonly JobHead[]): Promise<void> {
    if (told.length === 0) return;
    const { recent } = this.#cached;
    const hinted = [...new Map(told.map((job) => [job.id, job])).values()];
    // One that cannot be read is no candidate.
    const found = await this.#context.store.lookUpJobs({
      ids: hinted.map(({ id }) => id),
      unreadable: () => {},
    });
    for (const [at, told] of hinted.entries()) {
      const job = found[at];
      // One that was moved to another partition waits there.
      if (job?.state !== 'pending' || job.partition !== this.#partition) {
        recent.forget(told.id);
      } else {
        this.#confirmed.add(told.id);
        const { nameOf, rankOf } = this.#places;
        // planted: changed-since-told
        if (job.version > told.version) noteImages(this.#cached, [job], this.#places, this.#nowMs);
        const rank = rankOf(job);
        recent.note({ name: nameOf(job), job, rank, seenAtMs: this.#nowMs, confirmedAtMs: this.#nowMs });
      }
    }
  }

  /** Whether the job waits, whatever an index shows: it was read itself, or what has become of it since, this process would know. */
  isKnownToWait(job: Pick<JobHead, 'id' | 'readyAtMs'>): boolean {
    const { sinceMs = Infinity, recent } = this.#cached;
    if (job.readyAtMs - this.#context.budget.seenWithinMs > sinceMs) return true;
    if (this.#confirmed.has(job.id) || this.#justStored.has(job.id)) return true;
    // planted: told-and-believed
    return (recent.of(job.id)?.confirmedAtMs ?? -Infinity) >= sinceMs;
  }

  /** Jobs of a line that no read of the index may show. */
  of(name: string): readonly JobHead[] {
    const told = Array.from(this.#cached.recent.inLine(name), ({ job }) => job);
    return [...told, ...(this.#parked.get(name) ?? [])];
  }

  /** Heads with hints between them. A hint behind what was read is left to the index: a line's order must not have holes. */
  between(
    name: string,
    heads: readonly JobHead[],
    {
      afterRank = '',
      untilRank,
    }: { readonly afterRank?: string | undefined; readonly untilRank: string | undefined },
  ): readonly JobHead[] {
    const { recent } = this.#cached;
    const parked = this.#parked.get(name);
    if (!recent.hasLine(name) && parked === undefined) return heads;
    const { rankOf } = this.#places;
    const byId = new Map(heads.map((job) => [job.id, job]));
    let isNews = false;
    const take = (job: JobHead, rank: string): void => {
      const isWithin = rank > afterRank && (untilRank === undefined || rank <= untilRank);
      if (!isWithin || (byId.get(job.id)?.version ?? 0) >= job.version) return;
      byId.set(job.id, job);
      isNews = true;
    };
    for (const { job, rank } of recent.inLine(name)) take(job, rank);
    for (const job of parked ?? []) take(job, rankOf(job));
    if (!isNews) return heads;
    const ranked = Array.from(byId.values(), (job) => ({ job, rank: rankOf(job) }));
    return ranked.sort((one, other) => (one.rank < other.rank ? -1 : 1)).map(({ job }) => job);
  }
}

/** A job that became ready so lately can hardly have started and ended, and its place been given back. */
const FRESH_MS = 100;

export interface OvertakenInput {
  readonly cached: CachedLines;
  readonly places: LinePlaces;
  readonly nowMs: number;
  /** Whether this pass has read the line itself. */
  readonly isRead: (name: string) => boolean;
  /** Whether the job waits, whatever an index shows. */
  readonly isKnownToWait: (job: WaitingJob) => boolean;
}

/**
 * Jobs that a pass has chosen, and that do not wait any more. An index may lag behind what other dispatchers have done, before this process began
 * to remember; of what was done since, it would know. A place for a job that has ended would be taken for nothing until it is looked at,
 * because only its start would tell. So what this process cannot vouch for is read before it is reserved: a read unit each, where several
 * processes make a partition's passes.
 */
export class Overtaken {
  readonly #context: DispatchContext;
  readonly #input: OvertakenInput;

  constructor(context: DispatchContext, input: OvertakenInput) {
    this.#context = context;
    this.#input = input;
  }

  /** Of these, those that do not wait as they were planned: read, strongly consistent, unless this process vouches for them. */
  async among(planner: Planner, decisions: readonly Decision[]): Promise<readonly ReservedJob[]> {
    const doubted = decisions
      .filter((decision) => !this.#isVouchedFor(planner.jobOf(decision)))
      .map(({ reserved }) => reserved);
    if (doubted.length === 0) return [];
    // One that cannot be read is no candidate.
    const found = await this.#context.store.lookUpJobs({
      ids: doubted.map(({ id }) => id),
      unreadable: () => {},
    });
    return doubted.filter(
      ({ version }, at) => found[at]?.state !== 'pending' || found[at].version !== version,
    );
  }

  #isVouchedFor(job: WaitingJob): boolean {
    const { cached, places, nowMs, isRead, isKnownToWait } = this.#input;
    if (nowMs - job.readyAtMs < FRESH_MS || isKnownToWait(job)) return true;
    const { sinceMs = Infinity, heads } = cached;
    const name = places.nameOf(job);
    const readAtMs = isRead(name) ? nowMs : (heads.get(name)?.readAtMs ?? -Infinity);
    // By then the index showed what others had done before.
    return readAtMs - this.#context.budget.seenWithinMs >= sinceMs;
  }
}
