/** What images of jobs change of what is remembered of a partition's lines. */
import { succeededFrom } from '../core/life-cycle.ts';
import type { JobHead } from '../store/job-fields.ts';
import {
  aheadOf,
  type Coming,
  type CompareJobs,
  placeInLine,
  withComing,
  withoutJobs,
} from './line-parts.ts';
import {
  type CachedHeads,
  type CachedKey,
  type CachedLines,
  keysByName,
  RECENT_MAX,
  RECENT_MS,
  type RecentJob,
} from './partition-cache.ts';

/** A line by its name, and a job's place in it. */
export interface LinePlaces {
  readonly nameOf: (job: Pick<JobHead, 'type' | 'mode' | 'fairnessKey'>) => string;
  readonly rankOf: (job: JobHead) => string;
  /** Of two jobs of a line. */
  readonly compare: CompareJobs;
  /** The part of its line. */
  readonly subOf: (job: JobHead) => number;
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
  for (const job of images) (isEndOfOutdated(lines, job, places.nameOf) ? others : told).push(job);
  for (const [name, ofLine] of Map.groupBy(told, places.nameOf)) {
    for (const job of noteLine(lines, name, ofLine, places, nowMs))
      (job.state === 'pending' ? waiting : others).push(job);
  }
  noteOutdated(lines, others, nowMs);
  for (const job of waiting) if (lines.coming?.has(job.id)) lines.coming.set(job.id, job);
  for (const [type, jobs] of Map.groupBy(waiting, (job) => job.type))
    noteKeys(lines, type, jobs, places.subOf);
  forgetMovedBack(lines, nowMs);
  lines.recent.forgetOld(nowMs - RECENT_MS, RECENT_MAX);
}

/** The same of the images of one line. Answers those that tell something new. */
function noteLine(
  lines: CachedLines,
  name: string,
  images: readonly JobHead[],
  { rankOf, subOf, compare }: LinePlaces,
  nowMs: number,
): readonly JobHead[] {
  const known = lines.heads.get(name);
  const read = readOf(known, images);
  const news: JobHead[] = [];
  const coming: Coming[] = [];
  for (const job of images) {
    const told = lines.recent.of(job.id);
    // planted: old-images
    if (isOutdated(lines, job) || knownVersion(lines, told, read, job) > job.version) continue;
    news.push(job);
    if (job.state === 'pending') {
      const rank = rankOf(job);
      lines.recent.note({ name, job, rank, seenAtMs: nowMs, confirmedAtMs: confirmed(told, job) });
      coming.push({ job, rank, sub: subOf(job) });
    } else {
      lines.recent.forget(job.id);
      lines.coming?.delete(job.id);
    }
  }
  if (known === undefined || (coming.length === 0 && read.size === 0)) return news;
  const changed = new Set(read.size === 0 ? [] : news.map(({ id }) => id));
  // Of a part of the line that was not read, only a read tells.
  if (coming.some(({ sub }) => !known.subs.includes(sub))) lines.heads.delete(name);
  else lines.heads.set(name, withChanges(known, changed, coming, compare));
  return news;
}

/** The newest version of a job that was told of, or read of its line; 0: none. */
const knownVersion = (
  { coming }: CachedLines,
  told: RecentJob | undefined,
  read: ReadonlyMap<string, JobHead>,
  { id }: JobHead,
): number => Math.max(told?.job.version ?? 0, read.get(id)?.version ?? 0, coming?.get(id)?.version ?? 0);

/**
 * Whether a job has ended straight from where it was known not to wait any more, as most do that this process has admitted: no head that is
 * remembered of its line is that job.
 */
function isEndOfOutdated(
  { outdated, heads }: CachedLines,
  job: JobHead,
  nameOf: LinePlaces['nameOf'],
): boolean {
  const known = job.state === 'succeeded' ? outdated.versionOf(job.id) : undefined;
  if (known === undefined || !succeededFrom(known, job)) return false;
  // What was read ahead of a split line may be.
  const next = heads.get(nameOf(job))?.next ?? [];
  // planted: ended-read-ahead
  return next.every(({ ahead }) => ahead.length === 0);
}

/** By id, as far as they were read of their line: these jobs as they were then. */
function readOf(known: CachedHeads | undefined, jobs: readonly JobHead[]): ReadonlyMap<string, JobHead> {
  const read = new Map<string, JobHead>();
  if (known === undefined) return read;
  const ids = new Set(jobs.map(({ id }) => id));
  for (const job of aheadOf(known.next)) if (ids.has(job.id)) read.set(job.id, job);
  for (const job of known.jobs) if (ids.has(job.id)) read.set(job.id, job);
  return read;
}

/**
 * Adds keys, or lines of known keys, of which hints have told since a type's keys were read. They are put in front of the keys that
 * were read: their place in the keys line is not known, and a plan that took them for last would pass over them.
 */
function noteKeys(
  { keys }: CachedLines,
  type: string,
  jobs: readonly JobHead[],
  subOf: (job: JobHead) => number,
): void {
  const known = keys.get(type);
  if (known === undefined) return;
  const byName = keysByName(known);
  const changed = new Map<string, CachedKey>();
  const unread = { announcedAtMs: Infinity, rankCostMs: 0, isHinted: known.next !== undefined };
  for (const job of jobs) {
    const { fairnessKey, mode } = job;
    const sub = subOf(job);
    const present = changed.get(fairnessKey) ?? byName.get(fairnessKey);
    if (present?.lines.some((line) => line.mode === mode && (line.sub ?? 0) === sub) === true) continue;
    const line = sub === 0 ? { mode } : { mode, sub };
    changed.set(fairnessKey, {
      ...(present ?? { ...unread, fairnessKey }),
      lines: [...(present?.lines ?? []), line],
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
  const isOlder = changed.size > 0;
  const jobs = isOlder ? known.jobs.filter(({ id }) => !changed.has(id)) : [...known.jobs];
  const next = isOlder && known.next !== undefined ? withoutJobs(known.next, changed) : known.next;
  const behind: Coming[] = [];
  for (const each of coming) {
    // planted: hints-behind-holes
    if (next !== undefined && each.rank > (known.untilRank ?? '')) behind.push(each);
    else jobs.splice(placeInLine(each.job, jobs, compare), 0, each.job);
  }
  return { ...known, jobs, next: next === undefined ? undefined : withComing(next, behind, compare) };
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
