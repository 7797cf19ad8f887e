/**
 * The view: what a dispatcher knows of the jobs that wait in a partition. It holds the heads of ready lines and keys
 * lines as they were read, and the jobs that hints have reported since. A leader keeps one view from pass to pass; any
 * other pass begins with an empty one. The load step opens the view, candidates are read from it, and the admit step
 * notes in it what was reserved.
 *
 * Symbols. For a job j: v(j), its version in a statement. For a line l: r(l), when the oldest known part of it was
 * read. s: the instant since which this view has missed no change that this dispatcher made or was notified of. w:
 * `wholeFromMs`.
 *
 * The rules.
 * R1  Of two statements about a job the higher version wins, in any order of arrival (`withPlaced`, `isGone`). A
 *     statement is a read of a line, an image, or that the job was reserved and no longer waits at v(j).
 * R2  A statement that a job waits is exact in two cases (`isExact`). The job was stored or looked up at s or later. Or
 *     the later of two instants, when the job became ready and r(l), is at least `seenWithinMs` after s: by then the
 *     index showed what other dispatchers had done before s. Later changes are made by this dispatcher or reported to
 *     it.
 * R3  A planned job whose statement is not exact is looked up before it is reserved (`Candidates.outdated`). A reported
 *     job that the read of its line does not show is looked up before it is offered.
 * R4  A line is read again `LOOK_AROUND_MS` after r(l), and all are once w has come: reads before w may miss jobs that
 *     were reported to other dispatchers.
 *
 * Outdated data, and why it is safe. A read of an index lags, and hints are late, lost or duplicated. If a job that no
 * longer waits is offered, R3 finds it, or its start fails and recovery drops its entry. If a waiting job is unknown, a
 * hint, the next read of its line, or R4 shows it; until then a lesser job may start first (invariant 11). The items
 * alone decide the state of jobs, keys and costs.
 *
 * A line has no gaps: all of its jobs up to `untilRank` are known, or all of them if the line was read to its end. A
 * reported job behind that waits in `reported` until a read reaches it.
 */
import type { PoolConfiguration } from '../../core/configuration.ts';
import { rankKey } from '../../core/score.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { readyLineName } from '../../store/contract/lines.ts';
import type { KeyBacklog, NothingWaits } from '../../store/contract/records.ts';
import { readyLineOf } from '../../submit/submit.ts';
import { ENTRIES_MAX, LOOK_AROUND_MS, NAMES_MAX, SHOWN_MS } from '../tuning.ts';

/** Names the line of a job and its rank in it. */
export interface Order {
  /** The name of a job's ready line. */
  readonly nameOf: (job: Pick<JobHead, 'type' | 'mode' | 'fairnessKey'>) => string;
  readonly rankOf: (job: JobHead) => string;
}

export const orderOf = (partition: number, { score }: Pick<PoolConfiguration, 'score'>): Order => ({
  nameOf: (job) => readyLineName(partition, readyLineOf(job)),
  rankOf: (job) => rankKey(job, score),
});

/** A line as it was read, with the changes that hints reported since. */
export interface Line {
  readonly readAtMs: number;
  /** Known jobs in rank order. */
  readonly jobs: readonly JobHead[];
  /** Cursor for the next read; absent if the line was read to its end. */
  readonly next?: string | undefined;
  /** Rank of the last job that was read; absent if the line was read to its end. */
  readonly untilRank?: string | undefined;
}

/** The first keys of a type's keys line. */
export interface Keys {
  readonly readAtMs: number;
  /** By fairness key. Keys from hints or single lookups stand before those that the line showed. */
  readonly keys: ReadonlyMap<string, KeyBacklog>;
  /** Least rank of the keys that were not read yet. */
  readonly behindCostMs: number;
  /** Keys that were looked up by name, wherever they stand in the line. */
  readonly named: ReadonlySet<string>;
  /** Cursor for the next read; absent if the line was read to its end. */
  readonly next?: string | undefined;
}

export const noKeys = (readAtMs: number): Keys => ({
  readAtMs,
  keys: new Map(),
  behindCostMs: 0,
  named: new Set(),
});

/** A waiting job that an image has shown. */
export interface ToldJob {
  /** Name of the job's line. */
  readonly name: string;
  readonly job: JobHead;
  readonly rank: string;
  readonly toldAtMs: number;
  /** When the job was last stored, or looked up and found waiting, epoch ms. -Infinity: neither. */
  readonly exactAtMs: number;
  /** Whether the job stands in a blocked line. The pass that read it there may offer it in its ready line, too. */
  readonly isParked: boolean;
}

/** Jobs that hints have reported, in the order in which they were last reported. */
class ReportedJobs {
  readonly #byId = new Map<string, ToldJob>();
  /** By the line's name, then by job id. */
  readonly #byLine = new Map<string, Map<string, ToldJob>>();

  of(id: string): ToldJob | undefined {
    return this.#byId.get(id);
  }

  all(): Iterable<ToldJob> {
    return this.#byId.values();
  }

  inLine(name: string): Iterable<ToldJob> {
    return this.#byLine.get(name)?.values() ?? [];
  }

  note(told: ToldJob): void {
    const { name, job } = told;
    this.forget(job.id);
    this.#byId.set(job.id, told);
    const ofLine = this.#byLine.get(name);
    if (ofLine === undefined) this.#byLine.set(name, new Map([[job.id, told]]));
    else ofLine.set(job.id, told);
  }

  forget(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#byId.delete(id);
    const ofLine = this.#byLine.get(known.name);
    ofLine?.delete(id);
    if (ofLine?.size === 0) this.#byLine.delete(known.name);
  }

  /** Forgets jobs that were last reported before an instant, and the oldest if there are too many. */
  forgetOld(beforeMs: number): void {
    for (const [id, { toldAtMs }] of this.#byId) {
      if (toldAtMs >= beforeMs && this.#byId.size <= NAMES_MAX) return;
      this.forget(id);
    }
  }

  clear(): void {
    this.#byId.clear();
    this.#byLine.clear();
  }
}

/**
 * The versions up to which jobs are known not to wait. Entries are kept in two halves, and the older half is dropped as a whole,
 * soon after the lines that might show its jobs were read again. They are not kept longer, because an id may be used again for
 * another job.
 */
class GoneJobs {
  #young = new Map<string, number>();
  #old = new Map<string, number>();
  #sinceMs = -Infinity;

  note(id: string, version: number): void {
    // planted: known-from-its-admission
    if (version > this.versionOf(id)) this.#young.set(id, version);
  }

  forgetOld(nowMs: number): void {
    if (nowMs - this.#sinceMs < LOOK_AROUND_MS && this.#young.size < ENTRIES_MAX / 2) return;
    this.#old = nowMs - this.#sinceMs < 2 * LOOK_AROUND_MS ? this.#young : new Map();
    this.#young = new Map();
    this.#sinceMs = nowMs;
  }

  versionOf(id: string): number {
    return this.#young.get(id) ?? this.#old.get(id) ?? -Infinity;
  }
}

/** How `View.note` treats images. */
interface NoteOptions {
  readonly nowMs: number;
  /** Whether a job was stored or looked up just now. @default - none was */
  readonly exact?: ((job: JobHead) => boolean) | undefined;
  readonly areParked?: boolean | undefined;
}

export class View {
  /** Ready lines by name. */
  readonly lines = new Map<string, Line>();
  /** Keys lines by type. */
  readonly keys = new Map<string, Keys>();
  readonly reported = new ReportedJobs();
  readonly #gone = new GoneJobs();
  /**
   * By fairness key: when the key's charge was lowered, as after a reset. The key then moves to the front of its keys lines. If a
   * line's first part was read before the index shows this, no later part shows the key.
   */
  readonly #movedBack = new Map<string, number>();
  /** Epoch ms since when this view has missed no change. Undefined: it has missed some. */
  sinceMs: number | undefined;
  /** Epoch ms: reads that began earlier may miss jobs that were reported to others (`PartitionState.unseenUntilMs`). */
  #wholeFromMs: number | undefined;
  /** Whether jobs may wait here without standing in a ready line: in blocked lines, or for another partition. */
  hasHiddenJobs = false;

  /** Prepares the view for a pass. `unseenUntilMs` comes from the partition summary. */
  begin(unseenUntilMs: number | undefined, nowMs: number): void {
    this.reported.forgetOld(nowMs - SHOWN_MS);
    this.#gone.forgetOld(nowMs);
    // By then every keys line that was read before the key moved has been read again.
    for (const [fairnessKey, atMs] of this.#movedBack)
      if (nowMs - atMs > LOOK_AROUND_MS + SHOWN_MS) this.#movedBack.delete(fairnessKey);
    // Taken once for each view: later changes of other dispatchers reach this one as hints.
    this.#wholeFromMs ??= unseenUntilMs ?? -Infinity;
    if (this.#wholeFromMs === -Infinity || nowMs < this.#wholeFromMs) return;
    // planted: early-reads-believed
    this.forget();
    this.#wholeFromMs = -Infinity;
  }

  /** Updates the view from images of jobs. */
  note(images: Iterable<JobHead>, order: Order, { nowMs, exact, areParked }: NoteOptions): void {
    const waiting: ToldJob[] = [];
    for (const job of images) {
      const known = this.reported.of(job.id)?.job.version ?? -Infinity;
      // planted: old-images
      if (known > job.version || this.isGone(job)) continue;
      if (job.state === 'pending') {
        const exactAtMs = exact?.(job) === true ? nowMs : this.#exactAtMs(job);
        const [name, rank] = [order.nameOf(job), order.rankOf(job)];
        const told = { name, job, rank, toldAtMs: nowMs, exactAtMs, isParked: areParked === true };
        this.reported.note(told);
        waiting.push(told);
      } else {
        this.noteGone(job);
      }
    }
    for (const [name, told] of Map.groupBy(waiting, (each) => each.name)) {
      const line = this.lines.get(name);
      // planted: dropped-hint
      if (line !== undefined) this.lines.set(name, withPlaced(line, told, order));
    }
    for (const [type, told] of Map.groupBy(waiting, ({ job }) => job.type)) {
      const keys = this.keys.get(type);
      if (keys !== undefined) this.keys.set(type, withKeysOf(keys, told));
    }
  }

  /** When a job was last known exactly, if it is reported again at the same version. */
  #exactAtMs({ id, version }: Pick<JobHead, 'id' | 'version'>): number {
    const told = this.reported.of(id);
    return told?.job.version === version ? told.exactAtMs : -Infinity;
  }

  /** Notes that a job was reserved at this version, or was seen not to wait at it. */
  noteGone({ id, version }: Pick<JobHead, 'id' | 'version'>): void {
    this.#gone.note(id, version);
    const told = this.reported.of(id);
    if (told !== undefined && told.job.version <= version) this.reported.forget(id);
  }

  /** Removes parked jobs. A read of their ready lines no longer shows them, although their versions are unchanged. */
  leave(jobs: Iterable<JobHead>, { nameOf }: Pick<Order, 'nameOf'>): void {
    for (const [name, parked] of Map.groupBy(jobs, nameOf)) {
      const ids = new Set(parked.map(({ id }) => id));
      for (const id of ids) this.reported.forget(id);
      const line = this.lines.get(name);
      if (line !== undefined)
        this.lines.set(name, { ...line, jobs: line.jobs.filter(({ id }) => !ids.has(id)) });
    }
  }

  isGone({ id, version }: Pick<JobHead, 'id' | 'version'>): boolean {
    return version <= this.#gone.versionOf(id);
  }

  /** Whether the statement that the job waits is exact, by rule R2. `name` is the name of the job's line. */
  isExact(job: Pick<JobHead, 'id' | 'version' | 'readyAtMs'>, name: string, seenWithinMs: number): boolean {
    const { sinceMs = Infinity } = this;
    // planted: told-and-believed
    if (this.#exactAtMs(job) >= sinceMs) return true;
    const readAtMs = this.lines.get(name)?.readAtMs ?? -Infinity;
    return Math.max(readAtMs, job.readyAtMs) - seenWithinMs >= sinceMs;
  }

  /** Returns the known part of a line. Undefined: the line must be read. */
  line(name: string, nowMs: number): Line | undefined {
    const line = this.lines.get(name);
    if (line === undefined || nowMs - line.readAtMs >= LOOK_AROUND_MS) return undefined;
    // planted: read-beside-admission
    const jobs = line.jobs.filter((job) => !this.isGone(job));
    if (jobs.length === line.jobs.length) return line;
    const now = { ...line, jobs };
    this.lines.set(name, now);
    return now;
  }

  /** Yields all jobs that are known to wait. Some of them come more than once. */
  *waiting(): Generator<JobHead> {
    for (const { jobs } of this.lines.values()) for (const job of jobs) if (!this.isGone(job)) yield job;
    for (const { job } of this.reported.all()) if (!this.isGone(job)) yield job;
  }

  /** Returns the heads of these jobs, as far as lines that were read show them. */
  headsOf(
    groups: ReadonlyMap<string, readonly { readonly id: string }[]>,
  ): ReadonlyMap<string, readonly JobHead[]> {
    if (groups.size === 0) return new Map();
    const known = new Map<string, JobHead>();
    for (const { jobs } of this.lines.values()) for (const job of jobs) known.set(job.id, job);
    return new Map(
      [...groups].map(([name, jobs]) => [name, jobs.flatMap(({ id }) => known.get(id) ?? [])] as const),
    );
  }

  /** Notes that the next commit moves a key to the front of its keys lines. */
  noteMovedToFront(fairnessKey: string, nowMs: number): void {
    this.#movedBack.set(fairnessKey, nowMs);
  }

  /** Returns the keys that have moved to the front since an instant. */
  movedBackSince(sinceMs: number): readonly string[] {
    return [...this.#movedBack].flatMap(([key, atMs]) => (atMs >= sinceMs ? key : []));
  }

  /** Takes over the summary's statement that no job waited at `lookedAtMs`, for the types whose keys this view has not read. */
  assumeQuiet(types: readonly { readonly type: string }[], { lookedAtMs }: NothingWaits): void {
    for (const { type } of types) if (!this.keys.has(type)) this.keys.set(type, noKeys(lookedAtMs));
  }

  /** Replaces all lines that are known to be empty by one instant. */
  keepQuiet(types: readonly { readonly type: string }[], quiet: NothingWaits): void {
    this.forget();
    this.assumeQuiet(types, quiet);
  }

  /** Forgets what was read, but keeps the jobs that hints reported. */
  forget(): void {
    this.lines.clear();
    this.keys.clear();
  }

  /** Notes that hints were missed: lines may have changed, and other dispatchers' changes are unknown. */
  miss(): void {
    this.forget();
    this.sinceMs = undefined;
    this.#wholeFromMs = undefined;
  }
}

/**
 * Returns the line with these jobs inserted by rank, by rule R1. Jobs behind the part that was read are left to the
 * next read.
 */
export function withPlaced(line: Line, waiting: readonly ToldJob[], { rankOf }: Pick<Order, 'rankOf'>): Line {
  const versions = new Map(waiting.map(({ job }) => [job.id, -Infinity]));
  for (const { id, version } of line.jobs) if (versions.has(id)) versions.set(id, version);
  const news = waiting.filter(({ job }) => job.version > (versions.get(job.id) ?? -Infinity));
  if (news.length === 0) return line;
  const changed = new Set(news.map(({ job }) => job.id));
  const jobs = line.jobs.filter(({ id }) => !changed.has(id));
  for (const { job, rank } of news) {
    // planted: hints-behind-holes
    const isLeftToIndex = line.next !== undefined && rank > (line.untilRank ?? '');
    if (!isLeftToIndex) jobs.splice(indexOfRank(jobs, rank, rankOf), 0, job);
  }
  return { ...line, jobs };
}

/**
 * Returns the index of a rank among jobs in rank order, by binary search: a line may have thousands of jobs, and a
 * stream batch hundreds of hints.
 */
function indexOfRank(jobs: readonly JobHead[], rank: string, rankOf: Order['rankOf']): number {
  let from = 0;
  let to = jobs.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    const other = jobs[middle];
    if (other !== undefined && rankOf(other) <= rank) from = middle + 1;
    else to = middle;
  }
  return from;
}

/**
 * Returns the known keys with the keys of reported jobs in front of them. Their position in the keys line is unknown,
 * and a plan would not reach them at the end.
 */
export const withKeysOf = (known: Keys, told: Iterable<Pick<ToldJob, 'job'>>): Keys =>
  withKeys(
    known,
    Array.from(told, ({ job: { fairnessKey, mode } }) => ({
      fairnessKey,
      lines: [{ mode }],
      announcedAtMs: Infinity,
      rankCostMs: 0,
    })),
  );

/** Adds keys in front of the known ones. The lines of a known key are merged. */
export function withKeys(known: Keys, others: Iterable<KeyBacklog>): Keys {
  const changed = new Map<string, KeyBacklog>();
  for (const key of others) {
    const { fairnessKey } = key;
    const present = changed.get(fairnessKey) ?? known.keys.get(fairnessKey);
    const now = present === undefined ? key : withLines(present, key);
    if (now !== present) changed.set(fairnessKey, now);
  }
  if (changed.size === 0) return known;
  const fresh = [...changed].filter(([fairnessKey]) => !known.keys.has(fairnessKey));
  return { ...known, keys: new Map([...fresh, ...known.keys, ...changed]) };
}

/**
 * Merges two statements about one key. If only a hint names a line, that does not make the key count as announced long
 * ago.
 */
export function withLines(known: KeyBacklog, { lines, announcedAtMs }: KeyBacklog): KeyBacklog {
  const more = lines.filter(({ mode }) => !known.lines.some((line) => line.mode === mode));
  const at = announcedAtMs === Infinity ? known.announcedAtMs : announcedAtMs;
  if (more.length === 0 && at === known.announcedAtMs) return known;
  return { ...known, lines: [...known.lines, ...more], announcedAtMs: at };
}
