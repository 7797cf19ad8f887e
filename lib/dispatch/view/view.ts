/**
 * What a dispatcher knows of the jobs that wait in a partition: heads of lines and of keys lines as they were read, and what hints told of
 * since. A lead keeps one view from pass to pass; any other pass begins with an empty one.
 *
 * Symbols. For a job j: v(j), its version in a statement. For a line l: r(l), when what is known of it was read first. s: the instant since when
 * this view has missed nothing that this dispatcher did or was told. w: `wholeFromMs`.
 *
 * The rules.
 *   R1  Of two statements about a job the higher version wins, whichever comes last (`withPlaced`, `isGone`). A statement is a read of a
 *       line, an image, or that the job was reserved: it does not wait at v(j) any more.
 *   R2  A statement that a job waits is exact if it was stored or read by itself at s or later, or if the index showed by s what others had
 *       done: the job became ready, or r(l) is, `seenWithinMs` after s (`isExact`). What changes later, this dispatcher does or is told.
 *   R3  What a plan chooses and is not exact is read before it is reserved (`Candidates.overtaken`). What was told and a read of its line does not
 *       show is read before it is offered.
 *   R4  Everything is read again `LOOK_AROUND_MS` after r(l), and once w has come: reads before w may miss jobs of which others were told.
 *
 * What may be stale, and why that is safe. A read of an index lags, and hints are late, lost or doubled. A job that waits no more is offered:
 * R3 finds it, or its start fails, and a look gives its place back. A job that waits is not known: a hint, the reading of a line that is
 * used up, or R4 shows it; until then a lesser one may go first (invariant 11). What jobs, keys and costs really are, only items say.
 *
 * A line has no holes: all of its jobs up to `untilRank` are known, or all where it does not go on. What was told of a job behind that waits in
 * `told` until a read comes to it.
 */
import type { PoolConfiguration } from '../../core/configuration.ts';
import { rankKey } from '../../core/score.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import { readyLineName } from '../../store/contract/lines.ts';
import type { KeyBacklog, Quiet } from '../../store/contract/records.ts';
import { readyLineOf } from '../../submit/submit.ts';
import { ENTRIES_MAX, LOOK_AROUND_MS, NAMES_MAX, SHOWN_MS } from '../tuning.ts';

/** Where jobs stand. */
export interface Order {
  /** The name of a job's line. */
  readonly nameOf: (job: Pick<JobHead, 'type' | 'mode' | 'fairnessKey'>) => string;
  readonly rankOf: (job: JobHead) => string;
}

export const orderOf = (partition: number, { score }: Pick<PoolConfiguration, 'score'>): Order => ({
  nameOf: (job) => readyLineName(partition, readyLineOf(job)),
  rankOf: (job) => rankKey(job, score),
});

/** What was read of a line, and what hints changed of it. */
export interface Line {
  readonly readAtMs: number;
  /** In rank order. */
  readonly jobs: readonly JobHead[];
  /** Where the line goes on; absent at its end. */
  readonly next?: string | undefined;
  /** Of a line that goes on: the rank of the last job that was read of it. */
  readonly untilRank?: string | undefined;
}

/** The first keys of a type's keys line. */
export interface Keys {
  readonly readAtMs: number;
  /** By fairness key. Those that hints told of, or that were read by their names, stand before those that the line showed. */
  readonly keys: ReadonlyMap<string, KeyBacklog>;
  /** Keys behind those that were read have at least this rank. */
  readonly behindCostMs: number;
  /** Keys that were read by their names, wherever they stand. */
  readonly named: ReadonlySet<string>;
  /** Where the line goes on; absent at its end. */
  readonly next?: string | undefined;
}

export const noKeys = (readAtMs: number): Keys => ({
  readAtMs,
  keys: new Map(),
  behindCostMs: 0,
  named: new Set(),
});

/** A job that an image shows to wait. */
export interface ToldJob {
  /** Of its line. */
  readonly name: string;
  readonly job: JobHead;
  readonly rank: string;
  readonly toldAtMs: number;
  /** When it was stored or read by itself, and waited. */
  readonly exactAtMs: number;
  /** It stands in a blocked line: for the pass that has read it there it may stand in this one. */
  readonly isParked: boolean;
}

/** Jobs that hints told of, the one that was told of last behind all others. */
class ToldJobs {
  readonly #byId = new Map<string, ToldJob>();
  /** By line, then by id. */
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

  /** Forgets those that were told of before an instant, and the oldest where there are too many. */
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
 * Up to which version jobs wait no more. The older half is forgotten as a whole: not long after a line is read again that might show them, as
 * an id may come again for another job.
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

/** How jobs are told of that wait. */
interface Telling {
  readonly nowMs: number;
  /** Those that were stored or read by themselves just now. @default - none */
  readonly exact?: ((job: JobHead) => boolean) | undefined;
  readonly areParked?: boolean | undefined;
}

export class View {
  /** By name. */
  readonly lines = new Map<string, Line>();
  /** By type. */
  readonly keys = new Map<string, Keys>();
  readonly told = new ToldJobs();
  readonly #gone = new GoneJobs();
  /**
   * By fairness key: when it was charged less than before, as after a reset. It moves to the front of its keys lines then: of a line whose
   * first page was read before the index shows that, no later page shows it.
   */
  readonly #movedBack = new Map<string, number>();
  /** Since when nothing was missed; undefined: something was. */
  sinceMs: number | undefined;
  /** Reads that began before it may miss jobs of which others were told (`PartitionState.unseenUntilMs`). */
  #wholeFromMs: number | undefined;
  /** Whether jobs may stand where no line that is read shows them: in blocked lines, or in another partition's. */
  isBlind = false;

  /** A pass begins, under what the partition says of what reads may miss. */
  begin(unseenUntilMs: number | undefined, nowMs: number): void {
    this.told.forgetOld(nowMs - SHOWN_MS);
    this.#gone.forgetOld(nowMs);
    // No keys line is trusted whose first page was read before.
    for (const [fairnessKey, atMs] of this.#movedBack)
      if (nowMs - atMs > LOOK_AROUND_MS + SHOWN_MS) this.#movedBack.delete(fairnessKey);
    this.#wholeFromMs ??= unseenUntilMs ?? -Infinity;
    if (this.#wholeFromMs === -Infinity || nowMs < this.#wholeFromMs) return;
    // planted: early-reads-believed
    this.forget();
    this.#wholeFromMs = -Infinity;
  }

  /** What images of jobs change. */
  note(images: Iterable<JobHead>, order: Order, { nowMs, exact, areParked }: Telling): void {
    const coming: ToldJob[] = [];
    for (const job of images) {
      const known = this.told.of(job.id)?.job.version ?? -Infinity;
      // planted: old-images
      if (known > job.version || this.isGone(job)) continue;
      if (job.state === 'pending') {
        const exactAtMs = exact?.(job) === true ? nowMs : this.#exactAtMs(job);
        const [name, rank] = [order.nameOf(job), order.rankOf(job)];
        const told = { name, job, rank, toldAtMs: nowMs, exactAtMs, isParked: areParked === true };
        this.told.note(told);
        coming.push(told);
      } else {
        this.noteGone(job);
      }
    }
    for (const [name, told] of Map.groupBy(coming, (each) => each.name)) {
      const line = this.lines.get(name);
      // planted: dropped-hint
      if (line !== undefined) this.lines.set(name, withPlaced(line, told, order));
    }
    for (const [type, told] of Map.groupBy(coming, ({ job }) => job.type)) {
      const keys = this.keys.get(type);
      if (keys !== undefined) this.keys.set(type, withKeysOf(keys, told));
    }
  }

  /** When a job that is told of again was read. */
  #exactAtMs({ id, version }: Pick<JobHead, 'id' | 'version'>): number {
    const told = this.told.of(id);
    return told?.job.version === version ? told.exactAtMs : -Infinity;
  }

  /** A job was reserved at its version, or was seen not to wait at it. */
  noteGone({ id, version }: Pick<JobHead, 'id' | 'version'>): void {
    this.#gone.note(id, version);
    const told = this.told.of(id);
    if (told !== undefined && told.job.version <= version) this.told.forget(id);
  }

  /** Jobs stand in blocked lines: no read of their own shows them any more, though their versions are the same. */
  leave(jobs: Iterable<JobHead>, { nameOf }: Pick<Order, 'nameOf'>): void {
    for (const [name, parked] of Map.groupBy(jobs, nameOf)) {
      const ids = new Set(parked.map(({ id }) => id));
      for (const id of ids) this.told.forget(id);
      const line = this.lines.get(name);
      if (line !== undefined)
        this.lines.set(name, { ...line, jobs: line.jobs.filter(({ id }) => !ids.has(id)) });
    }
  }

  isGone({ id, version }: Pick<JobHead, 'id' | 'version'>): boolean {
    return version <= this.#gone.versionOf(id);
  }

  /** R2. */
  isExact(job: Pick<JobHead, 'id' | 'version' | 'readyAtMs'>, name: string, seenWithinMs: number): boolean {
    const { sinceMs = Infinity } = this;
    // planted: told-and-believed
    if (this.#exactAtMs(job) >= sinceMs) return true;
    const readAtMs = this.lines.get(name)?.readAtMs ?? -Infinity;
    return Math.max(readAtMs, job.readyAtMs) - seenWithinMs >= sinceMs;
  }

  /** What is known of a line; undefined: it is to be read. */
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

  /** Jobs that wait, as far as they are known; some of them more than once. */
  *waiting(): Generator<JobHead> {
    for (const { jobs } of this.lines.values()) for (const job of jobs) if (!this.isGone(job)) yield job;
    for (const { job } of this.told.all()) if (!this.isGone(job)) yield job;
  }

  /** What was read of these jobs. */
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

  /** A key moves to the front of its keys lines, with the next commit. */
  noteMovedBack(fairnessKey: string, nowMs: number): void {
    this.#movedBack.set(fairnessKey, nowMs);
  }

  /** Keys that have moved to the front since an instant. */
  movedBackSince(sinceMs: number): readonly string[] {
    return [...this.#movedBack].flatMap(([key, atMs]) => (atMs >= sinceMs ? key : []));
  }

  /** Nothing waited at an instant, as the partition says: in types of which nothing was read. */
  assumeQuiet(types: readonly { readonly type: string }[], { lookedAtMs }: Quiet): void {
    for (const { type } of types) if (!this.keys.has(type)) this.keys.set(type, noKeys(lookedAtMs));
  }

  /** Nothing waits: that is one instant to remember, not as many lines as there are. */
  keepQuiet(types: readonly { readonly type: string }[], quiet: Quiet): void {
    this.forget();
    this.assumeQuiet(types, quiet);
  }

  /** Forgets what was read; what hints told stays. */
  forget(): void {
    this.lines.clear();
    this.keys.clear();
  }

  /** Hints were missed: what was read may have changed, and what was done by others is not known. */
  miss(): void {
    this.forget();
    this.sinceMs = undefined;
    this.#wholeFromMs = undefined;
  }
}

/** R1: a line with jobs in their places, but for those behind what was read of it, where a read of the rest will show them. */
export function withPlaced(line: Line, coming: readonly ToldJob[], { rankOf }: Pick<Order, 'rankOf'>): Line {
  const versions = new Map(coming.map(({ job }) => [job.id, -Infinity]));
  for (const { id, version } of line.jobs) if (versions.has(id)) versions.set(id, version);
  const news = coming.filter(({ job }) => job.version > (versions.get(job.id) ?? -Infinity));
  if (news.length === 0) return line;
  const changed = new Set(news.map(({ job }) => job.id));
  const jobs = line.jobs.filter(({ id }) => !changed.has(id));
  for (const { job, rank } of news) {
    // planted: hints-behind-holes
    const isLeftToIndex = line.next !== undefined && rank > (line.untilRank ?? '');
    if (!isLeftToIndex) jobs.splice(placeIn(jobs, rank, rankOf), 0, job);
  }
  return { ...line, jobs };
}

/** Where a job stands among jobs in rank order: a line may have thousands, and a batch of hints hundreds. */
function placeIn(jobs: readonly JobHead[], rank: string, rankOf: Order['rankOf']): number {
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
 * Keys with those of jobs that were told of. They stand in front of the keys that were read: their place in the keys line is not known, and
 * a plan that took them for last would pass over them.
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

/** Keys with others in front of them; of one that is known already, its lines. */
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

/** A key with the lines of another statement about it. A line that was told of only is none that was announced long ago. */
export function withLines(known: KeyBacklog, { lines, announcedAtMs }: KeyBacklog): KeyBacklog {
  const more = lines.filter(({ mode }) => !known.lines.some((line) => line.mode === mode));
  const at = announcedAtMs === Infinity ? known.announcedAtMs : announcedAtMs;
  if (more.length === 0 && at === known.announcedAtMs) return known;
  return { ...known, lines: [...known.lines, ...more], announcedAtMs: at };
}
