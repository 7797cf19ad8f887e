/** What a process remembers of a partition between passes. */

import type { JobHead } from '../store/job-fields.ts';
import type { EstimateRecord, KeyBacklog, Ledger, PartitionState, Quiet, Wakes } from '../store/records.ts';
import { heldBy, type LineCursor } from './line-parts.ts';
import type { MeasureMemory } from './measure.ts';
import { SlotTimes, type SpareSlots } from './slot-times.ts';

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
  readonly next?: LineCursor | undefined;
  /** Of a line that goes on: the rank of the last job that was read of it. No job before it is missing. */
  readonly untilRank?: string | undefined;
  /** The parts of the line that were read. */
  readonly subs: readonly number[];
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
  /** Whoever made the last pass said so, and this one has hints to go by. */
  readonly isTold?: boolean | undefined;
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
  /** Since when nothing was missed, by this process or by those before it that found the partition quiet. */
  watchedSinceMs: number | undefined;
  /** What was read since then showed all that hints do not tell of: the index may show later what others were told of. */
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
  watchedSinceMs: undefined,
  wholeFromMs: undefined,
  parks: false,
  outdated: new OutdatedJobs(),
});

/** Lines that were used up, and short keys lines, are believed to be all there is for this long, while no slot stays free. */
export const NOTHING_TRUSTED_MS = 5_000;
/**
 * And a whole partition in which nothing waits for this long: a job whose hint was lost starts with the first pass after that,
 * the minute's tick at the latest.
 */
export const QUIET_TRUSTED_MS = 60_000;
/** More keys than a pass should read anew because a slot is free. */
const LONG_KEYS_LINE = 500;
/** Keys and lines are read again a hundred a second at most: hints tell of what is new, and only a lost one needs this. */
const READ_AGAIN_MS = 10;

const isLongKeysLine = ({ keys }: CachedKeys): boolean => keys.length > LONG_KEYS_LINE;

/** How long the keys of a type that were read are believed to be all there are. */
export function keysTrustedMs(lines: CachedLines, read: CachedKeys): number {
  if (isQuietKnown(lines, read)) return QUIET_TRUSTED_MS;
  // Where hints tell of more and more keys, these put the next read off by so much at most.
  const putOffMs = Math.min(read.keys.length * READ_AGAIN_MS, QUIET_TRUSTED_MS);
  return Math.max(NOTHING_TRUSTED_MS, (read.keys.length - (read.told ?? 0)) * READ_AGAIN_MS, putOffMs);
}

/** How long a line that was used up is believed to have nothing. */
export const nothingTrustedMs = ({ heads }: CachedLines): number =>
  Math.max(NOTHING_TRUSTED_MS, heads.size * READ_AGAIN_MS);

/** A look that may have come too early to show all is not made again within this, though a slot is free, by a pass that has hints. */
const EARLY_TRUSTED_MS = 2_000;

/** Whether these keys are all that wait, because hints have told of them since nothing did. */
const isQuietKnown = ({ parks, wholeFromMs = Infinity }: CachedLines, known: CachedKeys): boolean =>
  known.isQuiet === true && !parks && known.readAtMs >= wholeFromMs;

/** Whether the keys of a type that were read are to be read again where slots stay free. */
export function isLookDue(lines: CachedLines, known: CachedKeys, nowMs: number): boolean {
  if (isLongKeysLine(known) || isQuietKnown(lines, known)) return false;
  return known.isTold !== true || nowMs - known.readAtMs >= EARLY_TRUSTED_MS;
}

/** Keys of a type that has none. */
const noKeys = (readAtMs: number): CachedKeys => ({ readAtMs, keys: [], isQuiet: true });

/** Nothing is missed from that instant on, or from an earlier one. */
export function noteWatched(lines: CachedLines, sinceMs: number, seenWithinMs: number): void {
  const watchedSinceMs = Math.min(sinceMs, lines.watchedSinceMs ?? sinceMs);
  lines.watchedSinceMs = watchedSinceMs;
  lines.wholeFromMs = watchedSinceMs + seenWithinMs;
}

export interface QuietNews {
  readonly quiet: Quiet;
  /** The pass has jobs to go by, and is not made to look for what nobody told of. */
  readonly hasHints: boolean;
  /**
   * Whoever makes it is told of all jobs sooner than an index shows them. Others see some there before the stream tells of them: where
   * they have looked early themselves, they look again.
   */
  readonly isToldFirst: boolean;
}

/** Takes over that nothing waits, from whoever looked last: who remembers more of a type has its own word for it. */
export function noteQuiet(
  lines: CachedLines,
  types: Iterable<string>,
  { quiet: { lookedAtMs }, hasHints, isToldFirst }: QuietNews,
): void {
  for (const type of types) {
    const own = lines.keys.get(type);
    if (own === undefined) lines.keys.set(type, { ...noKeys(lookedAtMs), isTold: hasHints });
    else if (isToldFirst && own.isQuiet === true) lines.keys.set(type, { ...own, isTold: hasHints });
  }
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
  lines.watchedSinceMs = undefined;
  lines.wholeFromMs = undefined;
}

/**
 * What a process remembers of a partition's ledgers and lines. Only who makes passes writes the ledgers and admits
 * jobs, so they are still exact if the epoch that this process takes is the successor of the one it held last: nobody
 * was in between.
 */
export interface PartitionCache {
  /** The epoch of the last pass that left them exact; -1: they are not. */
  epoch: number;
  readonly ledgers: Map<string, Ledger | undefined>;
  readonly estimates: Map<string, EstimateRecord | undefined>;
  /** What the store has of an estimate that was learned on since. */
  readonly written: Map<string, EstimateRecord>;
  /** The wakes when the lease was given back. Who raised them since did so against another holder. */
  wakes?: Wakes | undefined;
  /** The turn of the partition after the last pass, and what is known of its reservations. */
  loaded?: LoadedTurn | undefined;
  /** Shards of the due line, as the last pass found them. */
  dueShards?: number | undefined;
  /** When capacity was asked for last. */
  askedAtMs?: number | undefined;
  /** For when a wake was asked for last, to go on with recovery. */
  wakeAskedMs?: number | undefined;
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
  /** By this process's monotonic clock: when its last pass ended, if nothing had room then. */
  fullAtMonotonicMs?: number | undefined;
  /** When slots become free, as far as this process has learned it. */
  readonly slotTimes: SlotTimes;
  /** What the last pass had to spare for jobs that wait for others' slots. */
  spare: SpareSlots;
  /** For when a wake was asked for last, to look after jobs that took slots over. */
  lateAskedMs?: number | undefined;
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

/** What a process knows of a partition's reservations. */
export interface LoadedTurn {
  readonly turn: number;
  /** When this process first read them, and since when nobody else has committed. */
  readonly sinceMs: number;
  /** They were read so long after that, that everything was there which former holders of the lease had committed. */
  readonly isWhole: boolean;
}

/**
 * A transaction becomes visible item by item: whoever reads a partition at once after another process's commit may see the
 * page and not yet a reservation. That is over long before this, and a read after it is believed for as long as only this
 * process commits.
 */
const WHOLE_AFTER_MS = 5_000;

/** The turn at which the next load need not read the reservations again; undefined: it must. */
export const knownTurnOf = (cache: PartitionCache | undefined): number | undefined =>
  cache?.loaded?.isWhole === true ? cache.loaded.turn : undefined;

/** Notes a load that shows the partition at this turn. */
export function noteLoaded(cache: PartitionCache, turn: number, nowMs: number): void {
  const before = cache.loaded?.turn === turn ? cache.loaded : undefined;
  const sinceMs = before?.sinceMs ?? nowMs;
  cache.loaded = { turn, sinceMs, isWhole: before?.isWhole === true || nowMs - sinceMs >= WHOLE_AFTER_MS };
}

/** What a process remembers, by partition. */
export type PartitionCaches = Map<number, PartitionCache>;

const sizeOf = ({ ledgers, estimates, lines }: PartitionCache): number => {
  let jobs = 0;
  for (const each of lines.heads.values()) jobs += 1 + each.jobs.length + heldBy(each.next);
  for (const each of lines.keys.values()) jobs += each.keys.length;
  return ledgers.size + estimates.size + jobs;
};

const emptyCache = (epoch: number, before?: PartitionCache): PartitionCache => ({
  epoch,
  groupCursors: before?.groupCursors ?? new Map(),
  measured: before?.measured ?? {},
  markedCursor: before?.markedCursor,
  wakeAskedMs: before?.wakeAskedMs,
  lateAskedMs: before?.lateAskedMs,
  fullAtMonotonicMs: before?.fullAtMonotonicMs,
  slotTimes: before?.slotTimes ?? new SlotTimes(),
  spare: new Map(),
  ledgers: new Map(),
  estimates: new Map(),
  written: new Map(),
  marked: new Map(),
  letGo: new Set(),
  handover: before?.handover,
  strangers: before?.strangers ?? emptyStrangers(),
  lines: emptyLines(),
});

/**
 * The cache for a pass under this epoch, or without the lease of this epoch (`isOpen`): the one that was kept if it is exact, else an
 * empty one.
 */
export function openCache(
  memory: PartitionCaches,
  partition: number,
  epoch: number,
  isOpen = false,
): PartitionCache {
  const known = memory.get(partition);
  // Whoever makes passes without the lease comes after the one that held it last.
  const isExact = known !== undefined && (known.epoch === epoch || (!isOpen && known.epoch === epoch - 1));
  // Of ten thousand keys, the jobs that were read of their lines are by far the most, and the cheapest to read again.
  const most = Math.max(CACHED_MIN, Math.min(CACHED_MAX, CACHED_TOTAL / memory.size));
  let size = known === undefined ? 0 : sizeOf(known);
  if (known !== undefined && size > most) {
    known.lines.heads.clear();
    size = sizeOf(known);
  }
  const cache = known !== undefined && isExact && size <= most ? known : emptyCache(epoch, known);
  // Not exact again before the pass has ended well: a commit without an answer may have happened or not.
  memory.delete(partition);
  return cache;
}

/**
 * Forgets what is not exact any more, once the partition was loaded: passes without the lease leave the epoch as it is, and turn
 * the page. One that leaves it as it is has left nothing waiting, and changed nothing.
 */
export function forgetUnlessAt(cache: PartitionCache, turn: number): void {
  if (cache.loaded === undefined || cache.loaded.turn === turn) return;
  Object.assign(cache, emptyCache(cache.epoch, cache));
}

/** After a pass every commit of which was answered. */
export function keepCache(
  memory: PartitionCaches,
  partition: number,
  epoch: number,
  cache: PartitionCache,
  turn: number,
): void {
  cache.epoch = epoch;
  if (cache.loaded !== undefined) cache.loaded = { ...cache.loaded, turn };
  memory.set(partition, cache);
}
