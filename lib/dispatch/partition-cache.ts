/** What a process remembers of a partition between passes. */

import type { JobHead } from '../store/job-fields.ts';
import type { EstimateRecord, KeyBacklog, Ledger, PartitionState, Quiet } from '../store/records.ts';
import type { MeasureMemory } from './measure.ts';

/**
 * Entries kept of a partition between passes, of some 350 bytes each: as many as its share of a total, within bounds. Beyond, lines are
 * read again, and if that is not enough, all is. Ten thousand keys of three types are 40,000, and 30,000 for their lines.
 */
const CACHED_TOTAL = 400_000;
const CACHED_MIN = 50_000;
const CACHED_MAX = 200_000;
/** After this time the index certainly shows what a hint has told of, or a pass has written: it lags by far less. */
export const RECENT_MS = 15_000;
/** Jobs that hints have told of, kept until the index shows them; beyond, the oldest are left to the index. */
export const RECENT_MAX = 5_000;

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

/**
 * For how long, of so many jobs at least, it is remembered that they do not wait any more: a hint may come late and say they do. Not
 * for much longer: an id may come again, for another job, from its first version on.
 */
const OUTDATED_MS = 60_000;
const OUTDATED_MIN = 20_000;

class OutdatedHalf {
  readonly versions = new Map<string, number>();
  /** When the first one was noted; Infinity: none is. */
  firstMs = Infinity;
  /** When the last one was. */
  lastMs = Infinity;

  note(id: string, version: number, nowMs: number): void {
    if (this.versions.size === 0) this.firstMs = nowMs;
    this.lastMs = nowMs;
    this.versions.set(id, version);
  }
}

/**
 * Jobs that do not wait any more, and up to which version. The older half is forgotten as a whole: an order by age in which each that
 * is noted again changes its place would cost more than all the rest.
 */
export class OutdatedJobs {
  #young = new OutdatedHalf();
  #old = new OutdatedHalf();

  note(id: string, version: number, nowMs: number): void {
    const { versions, firstMs } = this.#young;
    if (versions.size >= OUTDATED_MIN || nowMs - firstMs >= OUTDATED_MS) {
      this.#old = this.#young;
      this.#young = new OutdatedHalf();
    }
    this.#young.note(id, version, nowMs);
  }

  /** Forgets what is old, also where nothing is noted any more. */
  forgetOld(nowMs: number): void {
    if (nowMs - this.#old.lastMs > OUTDATED_MS) this.#old = new OutdatedHalf();
    if (nowMs - this.#young.lastMs > OUTDATED_MS) this.#young = new OutdatedHalf();
  }

  /** The version at which the job did not wait; undefined: nothing is remembered of it. */
  versionOf(id: string): number | undefined {
    return this.#young.versions.get(id) ?? this.#old.versions.get(id);
  }
}

/** Heads of a line that were read and not admitted yet. */
export interface CachedHeads {
  readonly readAtMs: number;
  /** In rank order. */
  readonly jobs: readonly JobHead[];
  /** Where the line goes on; absent at its end. */
  readonly next?: string | undefined;
  /** Of a line that goes on: the rank of the last job that was read of it. No job before it is missing. */
  readonly untilRank?: string | undefined;
}

/** A key that has, or lately had, jobs of a type waiting. */
export interface CachedKey extends KeyBacklog {
  /** Hints told of it, and what was read ended before it: it may have more lines than these, and jobs parked. */
  readonly isHinted?: boolean | undefined;
}

/** The first keys of a type's keys line. */
export interface CachedKeys {
  readonly readAtMs: number;
  readonly keys: readonly CachedKey[];
  /** How many of them only hints have told of since. */
  readonly told?: number | undefined;
  /** Nothing of the type waited once: these are the keys that hints have told of since. */
  readonly isQuiet?: true | undefined;
  /** Where the line goes on; absent at its end. */
  readonly next?: string | undefined;
}

/** Of keys that were read once, and that each pass asks for a few of. */
const byNameKept = new WeakMap<readonly CachedKey[], ReadonlyMap<string, CachedKey>>();

/** By fairness key. */
export function keysByName({ keys }: CachedKeys): ReadonlyMap<string, CachedKey> {
  let byName = byNameKept.get(keys);
  if (byName === undefined) {
    byName = new Map(keys.map((key) => [key.fairnessKey, key]));
    byNameKept.set(keys, byName);
  }
  return byName;
}

/**
 * What was read of the index and may be read again at any time. Whatever a pass believes without reading is corrected by
 * each hint that arrives (`noteImages`), also when nothing can start at that moment.
 */
export interface CachedLines {
  /** By line name. */
  readonly heads: Map<string, CachedHeads>;
  /** By type. */
  readonly keys: Map<string, CachedKeys>;
  /** By type: the backlog of keys that are read by name, as far as they have one. */
  readonly named: Map<string, CachedNames>;
  /**
   * By fairness key, the latest last: when it was charged less than before, as after a reset. It moves to the front of its keys
   * lines then, as soon as the index shows it: of a line whose first page was read before that, no later page shows it.
   */
  readonly movedBack: Map<string, number>;
  /** Jobs that the index may not show yet. */
  readonly recent: RecentJobs;
  /** Since when this process has missed nothing: what it admitted since, and saw not to wait, is in `outdated`. */
  sinceMs: number | undefined;
  /** Epoch ms: reads that began before it may miss jobs of which others were told (`PartitionState.unseenUntilMs`). */
  wholeFromMs: number | undefined;
  /** Whether jobs may be parked: then what was read of keys does not say all of what waits. */
  parks: boolean;
  /** Jobs that this process has lately admitted, or seen not to wait. A hint of that version, or an older one, is old. */
  readonly outdated: OutdatedJobs;
}

export interface CachedNames {
  readonly readAtMs: number;
  readonly names: ReadonlySet<string>;
  readonly keys: readonly KeyBacklog[];
}

const emptyLines = (): CachedLines => ({
  heads: new Map(),
  keys: new Map(),
  named: new Map(),
  movedBack: new Map(),
  recent: new RecentJobs(),
  sinceMs: undefined,
  wholeFromMs: undefined,
  parks: false,
  outdated: new OutdatedJobs(),
});

/** What was read of lines and keys is read again after this: so a job is seen of which every hint was lost. */
export const READ_TRUSTED_MS = 60_000;

/** Keys of a type that has none. */
const noKeys = (readAtMs: number): CachedKeys => ({ readAtMs, keys: [], isQuiet: true });

/**
 * Notes from when on a read of the lines shows every job of which others were told. What was read before is forgotten once that instant has
 * come.
 */
export function noteWhole(lines: CachedLines, unseenUntilMs: number | undefined, nowMs: number): void {
  lines.wholeFromMs ??= unseenUntilMs ?? -Infinity;
  if (lines.wholeFromMs === -Infinity || nowMs < lines.wholeFromMs) return;
  // planted: early-reads-believed
  forgetLines(lines);
  lines.wholeFromMs = -Infinity;
}

/** Notes that nothing waits, as the partition says: of types of which nothing was read. */
export function noteQuiet(lines: CachedLines, types: Iterable<string>, { lookedAtMs }: Quiet): void {
  for (const type of types) if (!lines.keys.has(type)) lines.keys.set(type, noKeys(lookedAtMs));
}

/** That nothing waits is one instant to remember, not as many lines as there are. */
export function keepQuiet(
  lines: CachedLines,
  types: Iterable<{ readonly type: string }>,
  { lookedAtMs }: Quiet,
): void {
  lines.heads.clear();
  for (const { type } of types) lines.keys.set(type, noKeys(lookedAtMs));
}

/** What was read of these jobs. */
export function headsOf(
  { heads }: CachedLines,
  groups: ReadonlyMap<string, readonly { readonly id: string }[]>,
): ReadonlyMap<string, readonly JobHead[]> {
  if (groups.size === 0) return new Map();
  const known = new Map<string, JobHead>();
  for (const { jobs } of heads.values()) for (const job of jobs) known.set(job.id, job);
  return new Map(
    [...groups].map(([name, jobs]) => [name, jobs.flatMap(({ id }) => known.get(id) ?? [])] as const),
  );
}

/** Forgets what was read; what hints told stays. */
export function forgetLines(lines: CachedLines): void {
  lines.heads.clear();
  lines.keys.clear();
  lines.named.clear();
  lines.movedBack.clear();
}

/** Forgets what was read of these types. */
export function forgetTypes(lines: CachedLines, types: ReadonlySet<string>): void {
  if (types.size === 0) return;
  for (const type of types) lines.keys.delete(type);
  // The names of lines do not say of which type they are without being taken apart.
  lines.heads.clear();
}

/** Notes that a key moves to the front of its keys lines, with the next commit. */
export function noteMovedBack({ movedBack }: CachedLines, fairnessKey: string, nowMs: number): void {
  movedBack.delete(fairnessKey);
  movedBack.set(fairnessKey, nowMs);
}

/** Keys have moved to other partitions: what hints told of their jobs is of no use here any more. */
export function forgetStrangers(
  { recent }: CachedLines,
  lives: (of: Pick<JobHead, 'fairnessKey'>) => boolean,
): void {
  for (const { job } of recent.all()) if (!lives(job)) recent.forget(job.id);
}

/** Hints were missed: what was read may have changed. */
export function forgetMissed(lines: CachedLines): void {
  forgetLines(lines);
  lines.sinceMs = undefined;
  lines.wholeFromMs = undefined;
}

/**
 * What a dispatcher remembers of a partition. Only a leader remembers ledgers, costs and lines: they are exact as
 * long as the partition's version is that of the leader's own last commit. The rest says when this process last did something, or where it
 * goes on: right or wrong, it loses nothing.
 */
export interface PartitionCache {
  /** The lead that remembers; undefined: ledgers, costs and lines are those of one pass. */
  leadBy: string | undefined;
  /** The partition's version after the last pass; undefined: no pass has ended. */
  version: number | undefined;
  readonly ledgers: Map<string, Ledger | undefined>;
  readonly estimates: Map<string, EstimateRecord | undefined>;
  /** What the store has of an estimate that was learned on since. */
  readonly written: Map<string, EstimateRecord>;
  /** When capacity was asked for last. */
  askedAtMs?: number | undefined;
  /** For when a wake was asked for last, to go on with recovery. */
  wakeAskedMs?: number | undefined;
  /** For when a wake was asked for last, to look whether another partition's turn with a conflict key is over. */
  openAskedMs?: number | undefined;
  /** By conflict key: when it was marked as having a blocked line. */
  readonly marked: Map<string, number>;
  /** Conflict keys that a lost claim may have let go. */
  readonly letGo: Set<string>;
  /** By conflict key: where the groups of its blocked line go on that were not read lately. Right or wrong, it loses nothing. */
  readonly groupCursors: Map<string, string>;
  /** Where the round of all marked conflict keys goes on: also after another process made passes. */
  markedCursor?: string | undefined;
  /** What was measured last. */
  readonly measured: MeasureMemory;
  /** When some of them were looked at last. */
  roundAtMs?: number | undefined;
  /** What was seen of other partitions after a redeploy. */
  handover?: HandoverMemory | undefined;
  /** Keys that were met here, and live somewhere else. */
  readonly strangers: StrangersMemory;
  readonly lines: CachedLines;
}

/** What a process remembers of a handover. What was read may be old, and is then more than there is: see `handover.ts`. */
export interface HandoverMemory {
  /** The version that it is about. */
  readonly since: number;
  readonly beganMonotonicMs: number;
  readonly noted: Set<number>;
  /** As last read, of those that are not over. */
  readonly states: Map<number, PartitionState>;
  readonly over: Set<number>;
  /** The partition at which the next reads begin. */
  cursor: number;
  /** When the next look is due; a wake is under way for it. */
  lookAtMonotonicMs: number;
}

/** What a process remembers of keys that it met in a partition where they do not live. */
export interface StrangersMemory {
  /** By type and key: when it was looked at last. */
  readonly lookedAtMs: Map<string, number>;
  walkedAtMs: number;
}

const emptyStrangers = (): StrangersMemory => ({ lookedAtMs: new Map(), walkedAtMs: -Infinity });

/** What a process remembers, by partition. */
export type PartitionCaches = Map<number, PartitionCache>;

const sizeOf = ({ ledgers, estimates, lines }: PartitionCache): number => {
  let jobs = 0;
  for (const each of lines.heads.values()) jobs += 1 + each.jobs.length;
  for (const each of lines.keys.values()) jobs += each.keys.length;
  return ledgers.size + estimates.size + jobs;
};

const emptyCache = (leadBy: string | undefined, before?: PartitionCache): PartitionCache => ({
  leadBy,
  version: undefined,
  askedAtMs: before?.askedAtMs,
  groupCursors: before?.groupCursors ?? new Map(),
  measured: before?.measured ?? {},
  markedCursor: before?.markedCursor,
  roundAtMs: before?.roundAtMs,
  wakeAskedMs: before?.wakeAskedMs,
  openAskedMs: before?.openAskedMs,
  ledgers: new Map(),
  estimates: new Map(),
  written: new Map(),
  marked: before?.marked ?? new Map(),
  letGo: new Set(before?.letGo),
  handover: before?.handover,
  strangers: before?.strangers ?? emptyStrangers(),
  lines: emptyLines(),
});

/** The memory for a pass: that of the lead whose pass it is, or an empty one. */
export function openCache(
  memory: PartitionCaches,
  partition: number,
  leadBy: string | undefined,
): PartitionCache {
  const known = memory.get(partition);
  const isOwn = known !== undefined && leadBy !== undefined && known.leadBy === leadBy;
  // Of ten thousand keys, the jobs that were read of their lines are by far the most, and the cheapest to read again.
  const most = Math.max(CACHED_MIN, Math.min(CACHED_MAX, CACHED_TOTAL / memory.size));
  let size = isOwn ? sizeOf(known) : 0;
  if (isOwn && size > most) {
    known.lines.heads.clear();
    size = sizeOf(known);
  }
  const cache = isOwn && size <= most ? known : emptyCache(leadBy, known);
  // A pass that does not end well leaves nothing that is exact: a commit without an answer may have happened or not.
  memory.set(partition, emptyCache(leadBy, cache));
  return cache;
}

/** Forgets what is not exact any more, once the partition was loaded: another dispatcher has committed since. */
export function forgetUnlessAt(cache: PartitionCache, version: number): void {
  // planted: view-of-another-version
  if (cache.version === undefined || cache.version === version) return;
  Object.assign(cache, emptyCache(cache.leadBy, cache));
}

/** After a pass every commit of which was answered. */
export function keepCache(
  memory: PartitionCaches,
  partition: number,
  cache: PartitionCache,
  version: number,
): void {
  cache.version = version;
  memory.set(partition, cache);
}
