/** What images of jobs change of what is remembered of a partition's lines. */
import { succeededFrom } from '../core/life-cycle.ts';
import type { JobHead } from '../store/job-fields.ts';
import {
  type CachedHeads,
  type CachedKey,
  type CachedLines,
  keysByName,
  RECENT_MAX,
  RECENT_MS,
  type RecentJob,
} from './partition-cache.ts';

/** Negative where the one comes before the other in their line: as their ranks do, without the text of one for each. */
export type CompareJobs = (one: JobHead, other: JobHead) => number;

/** A line by its name, and a job's place in it. */
export interface LinePlaces {
  readonly nameOf: (job: Pick<JobHead, 'type' | 'mode' | 'fairnessKey'>) => string;
  readonly rankOf: (job: JobHead) => string;
  /** Of two jobs of a line. */
  readonly compare: CompareJobs;
}

/** When a job was read that is told of again. */
const confirmed = (told: RecentJob | undefined, { version }: JobHead): number | undefined =>
  told?.job.version === version ? told.confirmedAtMs : undefined;

/**
 * Takes what images of jobs show, one of each, into what is remembered: a job that waits is one of its line from now on, one that does
 * not is none. An image older than what is known changes nothing.
 */
export function noteImages(
  lines: CachedLines,
  images: Iterable<JobHead>,
  places: LinePlaces,
  nowMs: number,
): void {
  const waiting: JobHead[] = [];
  const others: JobHead[] = [];
  const told: JobHead[] = [];
  // planted: known-from-its-admission
  for (const job of images) (isEndOfOutdated(lines, job) ? others : told).push(job);
  for (const [name, ofLine] of Map.groupBy(told, places.nameOf)) {
    for (const job of noteLine(lines, name, ofLine, places, nowMs))
      (job.state === 'pending' ? waiting : others).push(job);
  }
  noteOutdated(lines, others, nowMs);
  for (const [type, jobs] of Map.groupBy(waiting, (job) => job.type)) noteKeys(lines, type, jobs);
  forgetMovedBack(lines, nowMs);
  lines.recent.forgetOld(nowMs - RECENT_MS, RECENT_MAX);
}

/** A job that an image shows to wait, and its place. */
interface Coming {
  readonly job: JobHead;
  readonly rank: string;
}

/** The same of the images of one line. Answers those that tell something new. */
function noteLine(
  lines: CachedLines,
  name: string,
  images: readonly JobHead[],
  { rankOf, compare }: LinePlaces,
  nowMs: number,
): readonly JobHead[] {
  const known = lines.heads.get(name);
  const read = readOf(known, images);
  const news: JobHead[] = [];
  const coming: Coming[] = [];
  for (const job of images) {
    const told = lines.recent.of(job.id);
    // planted: old-images
    if (isOutdated(lines, job) || knownVersion(told, read, job) > job.version) continue;
    news.push(job);
    if (job.state === 'pending') {
      const rank = rankOf(job);
      lines.recent.note({ name, job, rank, seenAtMs: nowMs, confirmedAtMs: confirmed(told, job) });
      coming.push({ job, rank });
    } else {
      lines.recent.forget(job.id);
    }
  }
  if (known === undefined || (coming.length === 0 && read.size === 0)) return news;
  const changed = new Set(read.size === 0 ? [] : news.map(({ id }) => id));
  // planted: dropped-hint
  lines.heads.set(name, withChanges(known, changed, coming, compare));
  return news;
}

/** The newest version of a job that was told of, or read of its line; 0: none. */
const knownVersion = (
  told: RecentJob | undefined,
  read: ReadonlyMap<string, JobHead>,
  { id }: JobHead,
): number => Math.max(told?.job.version ?? 0, read.get(id)?.version ?? 0);

/**
 * Whether a job has ended straight from where it was known not to wait any more, as most do that this process has admitted: no head that is
 * remembered of its line is that job.
 */
function isEndOfOutdated({ outdated }: CachedLines, job: JobHead): boolean {
  const known = job.state === 'succeeded' ? outdated.versionOf(job.id) : undefined;
  return known !== undefined && succeededFrom(known, job);
}

/** By id, as far as they were read of their line: these jobs as they were then. */
function readOf(known: CachedHeads | undefined, jobs: readonly JobHead[]): ReadonlyMap<string, JobHead> {
  const read = new Map<string, JobHead>();
  if (known === undefined) return read;
  const ids = new Set(jobs.map(({ id }) => id));
  for (const job of known.jobs) if (ids.has(job.id)) read.set(job.id, job);
  return read;
}

/**
 * Adds keys, or lines of known keys, of which hints have told since a type's keys were read. They are put in front of the keys that
 * were read: their place in the keys line is not known, and a plan that took them for last would pass over them.
 */
function noteKeys({ keys }: CachedLines, type: string, jobs: readonly JobHead[]): void {
  const known = keys.get(type);
  if (known === undefined) return;
  const byName = keysByName(known);
  const changed = new Map<string, CachedKey>();
  const unread = { announcedAtMs: Infinity, rankCostMs: 0, isHinted: known.next !== undefined };
  for (const job of jobs) {
    const { fairnessKey, mode } = job;
    const present = changed.get(fairnessKey) ?? byName.get(fairnessKey);
    if (present?.lines.some((line) => line.mode === mode) === true) continue;
    changed.set(fairnessKey, {
      ...(present ?? { ...unread, fairnessKey }),
      lines: [...(present?.lines ?? []), { mode }],
    });
  }
  if (changed.size === 0) return;
  const fresh = [...changed.values()].filter(({ fairnessKey }) => !byName.has(fairnessKey));
  const others = known.keys.map((key) => changed.get(key.fairnessKey) ?? key);
  keys.set(type, { ...known, keys: [...fresh, ...others], told: (known.told ?? 0) + fresh.length });
}

/**
 * What is remembered of a line, with jobs as they are now. One that ranks behind all that was read is left out, where a read of the
 * rest will show it.
 */
function withChanges(
  known: CachedHeads,
  changed: ReadonlySet<string>,
  coming: readonly Coming[],
  compare: CompareJobs,
): CachedHeads {
  const jobs = changed.size > 0 ? known.jobs.filter(({ id }) => !changed.has(id)) : [...known.jobs];
  for (const { job, rank } of coming) {
    // planted: hints-behind-holes
    const isLeftToIndex = known.next !== undefined && rank > (known.untilRank ?? '');
    if (!isLeftToIndex) jobs.splice(placeInLine(job, jobs, compare), 0, job);
  }
  return { ...known, jobs };
}

/** Where a job stands among jobs in rank order: a line may have thousands, and a batch of hints hundreds. */
export function placeInLine(job: JobHead, jobs: readonly JobHead[], compare: CompareJobs): number {
  let from = 0;
  let to = jobs.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    const other = jobs[middle];
    if (other !== undefined && compare(other, job) <= 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

/** Notes that jobs were admitted at their versions, or do not wait at them. */
export function noteOutdated(
  { outdated }: CachedLines,
  jobs: Iterable<Pick<JobHead, 'id' | 'version'>>,
  nowMs: number,
): void {
  for (const { id, version } of jobs) outdated.note(id, version, nowMs);
  outdated.forgetOld(nowMs);
}

/** Whether a job was admitted at this version or a later one, or was seen not to wait at it. */
export function isOutdated(
  { outdated }: CachedLines,
  { id, version }: Pick<JobHead, 'id' | 'version'>,
): boolean {
  return version <= (outdated.versionOf(id) ?? -Infinity);
}

/** Forgets keys that moved to the front long before the first page of any cached keys line was read: that page has shown them there. */
function forgetMovedBack({ keys, movedBack }: CachedLines, nowMs: number): void {
  let sinceMs = nowMs;
  for (const { next, readAtMs } of keys.values())
    if (next !== undefined) sinceMs = Math.min(sinceMs, readAtMs);
  for (const [fairnessKey, atMs] of movedBack) {
    if (atMs + RECENT_MS >= sinceMs) return;
    movedBack.delete(fairnessKey);
  }
}
