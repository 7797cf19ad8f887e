/**
 * A line in parts: a hot line stands in the index as several, so that no single partition key of it takes all writes.
 * Which part a job stands in follows from its id; its rank is that of the whole line. So the whole line is the merge of
 * its parts by rank, exactly: a head is given out only when every part that goes on has shown one behind it.
 */

import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import type { JobMode } from '../core/job.ts';
import type { LineName } from '../core/planner.ts';
import type { PassStore } from '../store/contract.ts';
import type { JobHead } from '../store/job-fields.ts';
import type { KeyBacklog } from '../store/records.ts';
import type { ReadyLine } from '../store/schema.ts';
import { subLineOf } from './submit.ts';

/** Where the reading of a line goes on: its parts that are not used up. */
export type LineCursor = readonly PartCursor[];

interface PartCursor {
  readonly sub: number;
  /** Jobs that were read of this part and not given out yet, in rank order. */
  readonly ahead: readonly JobHead[];
  /** False: the part was read to its end. */
  readonly isOpen: boolean;
  readonly next?: string | undefined;
  /** Of a part that goes on: the rank of the last job that was read of it. */
  readonly untilRank?: string | undefined;
}

export interface LineHeads {
  /** In rank order. */
  readonly jobs: readonly JobHead[];
  /** Absent at the line's end. */
  readonly next?: LineCursor | undefined;
  /** Parts that were read from their start and are empty. */
  readonly empty: readonly number[];
}

export interface LineParts {
  readonly partition: number;
  readonly line: ReadyLine;
  /** At least one. */
  readonly subs: readonly number[];
  readonly rankOf: (job: JobHead) => string;
}

/** One part of a line while the parts are merged. */
interface Part {
  readonly sub: number;
  ahead: { readonly job: JobHead; readonly rank: string }[];
  isOpen: boolean;
  next?: string | undefined;
  untilRank?: string | undefined;
}

/** Up to `limit` jobs of a line in rank order, after the cursor. Of a line in one part, one request of the store. */
export async function readLineParts(
  store: Pick<PassStore, 'readLine'>,
  parts: LineParts,
  limit: number,
  after?: LineCursor,
): Promise<LineHeads> {
  const from = after ?? parts.subs.map((sub): PartCursor => ({ sub, ahead: [], isOpen: true }));
  const [only, ...others] = from;
  return only !== undefined && others.length === 0 && isBare(only)
    ? readOnlyPart(store, parts, only, limit)
    : mergeParts(store, parts, limit, from);
}

const named = (line: ReadyLine, sub: number): ReadyLine => (sub === 0 ? line : { ...line, sub });

async function readOnlyPart(
  store: Pick<PassStore, 'readLine'>,
  { partition, line }: LineParts,
  { sub, next: after }: PartCursor,
  limit: number,
): Promise<LineHeads> {
  const { jobs, next } = await store.readLine({ partition, line: named(line, sub), limit, after });
  if (next === undefined) return { jobs, empty: jobs.length === 0 && after === undefined ? [sub] : [] };
  return { jobs, empty: [], next: [{ sub, ahead: [], isOpen: true, next }] };
}

async function mergeParts(
  store: Pick<PassStore, 'readLine'>,
  { partition, line, rankOf }: LineParts,
  limit: number,
  after: LineCursor,
): Promise<LineHeads> {
  const ranked = (jobs: readonly JobHead[]): Part['ahead'] => jobs.map((job) => ({ job, rank: rankOf(job) }));
  const parts = after.map((part): Part => ({ ...part, ahead: ranked(part.ahead) }));
  const empty: number[] = [];
  const jobs: JobHead[] = [];
  const readOn = async (part: Part): Promise<void> => {
    const read = await store.readLine({ partition, line: named(line, part.sub), limit, after: part.next });
    if (part.next === undefined && read.jobs.length === 0 && read.next === undefined) empty.push(part.sub);
    part.ahead = ranked(read.jobs);
    part.isOpen = read.next !== undefined;
    part.next = read.next;
    part.untilRank = part.ahead.at(-1)?.rank ?? part.untilRank;
  };
  // Each round reads on in a part, or ends; a part is read on only when all that was read of it was given out.
  while (jobs.length < limit) {
    const bare = parts.filter(isBare);
    await Promise.all(bare.map(readOn));
    const taken = takeBest(parts, limit - jobs.length);
    jobs.push(...taken);
    if (taken.length === 0 && !parts.some(isBare)) break;
  }
  const left = parts.flatMap(
    ({ ahead, ...part }): LineCursor =>
      ahead.length > 0 || part.isOpen ? [{ ...part, ahead: ahead.map(({ job }) => job) }] : [],
  );
  return { jobs, empty, ...(left.length === 0 ? {} : { next: left }) };
}

/** Whether the part must be read on before its next job is known. */
const isBare = ({
  ahead,
  isOpen,
}: Pick<PartCursor, 'isOpen'> & { readonly ahead: readonly unknown[] }): boolean =>
  ahead.length === 0 && isOpen;

/** The jobs with the least ranks of all that was read ahead, as long as the next job of each part is known. */
function takeBest(parts: readonly Part[], limit: number): readonly JobHead[] {
  const taken: JobHead[] = [];
  while (taken.length < limit && !parts.some(isBare)) {
    const [first, ...others] = parts.filter(({ ahead }) => ahead.length > 0);
    if (first === undefined) break;
    const best = others.reduce(
      (found, part) => ((part.ahead[0]?.rank ?? '') < (found.ahead[0]?.rank ?? '') ? part : found),
      first,
    );
    const head = best.ahead.shift();
    if (head !== undefined) taken.push(head.job);
  }
  return taken;
}

/** Negative where the one comes before the other in their line: as their ranks do, without the text of one for each. */
export type CompareJobs = (one: JobHead, other: JobHead) => number;

/** A job that a hint told of, and whose place in the line is behind the jobs that were given out. */
export interface Coming {
  readonly job: JobHead;
  readonly rank: string;
  readonly sub: number;
}

/**
 * A cursor to which jobs are added that hints told of. A part that was read beyond a job's place will not show that job when it
 * is read on, so the cursor keeps it among the jobs that were read ahead. Jobs further back are left to the index, which will
 * show them. Of a job that the cursor has already, the image with the higher version stays.
 */
export function withComing(cursor: LineCursor, coming: readonly Coming[], compare: CompareJobs): LineCursor {
  if (coming.length === 0 || areLeftToIndex(cursor, coming)) return cursor;
  const versions = new Map(cursor.flatMap(({ ahead }) => ahead.map(({ id, version }) => [id, version])));
  const news = coming.filter(({ job }) => job.version > (versions.get(job.id) ?? 0));
  if (news.length === 0) return cursor;
  const bySub = Map.groupBy(news, ({ sub }) => sub);
  // A part that was read and given out to its end is no longer in the cursor.
  const usedUp = [...bySub.keys()].filter((sub) => cursor.every((part) => part.sub !== sub));
  const parts = [...cursor, ...usedUp.map((sub): PartCursor => ({ sub, ahead: [], isOpen: false }))];
  const outdated = new Set(news.map(({ job }) => job.id));
  return parts.map((part) => {
    const ahead = part.ahead.filter(({ id }) => !outdated.has(id));
    for (const { job, rank } of bySub.get(part.sub) ?? []) {
      const isReadBeyond = !part.isOpen || rank <= (part.untilRank ?? '');
      if (isReadBeyond) ahead.splice(placeInLine(job, ahead, compare), 0, job);
    }
    return { ...part, ahead };
  });
}

/** Whether nothing of the only part of a line was read beyond jobs that come. */
function areLeftToIndex([only, ...others]: LineCursor, coming: readonly Coming[]): boolean {
  if (only === undefined || others.length > 0 || !isBare(only)) return false;
  const { sub, untilRank = '' } = only;
  return coming.every((each) => each.sub === sub && each.rank > untilRank);
}

/** A cursor without jobs that were read ahead. */
export const withoutJobs = (cursor: LineCursor, ids: ReadonlySet<string>): LineCursor =>
  cursor.map((part) => ({ ...part, ahead: part.ahead.filter(({ id }) => !ids.has(id)) }));

/** Jobs that were read ahead. */
export const aheadOf = (cursor: LineCursor = []): readonly JobHead[] => cursor.flatMap(({ ahead }) => ahead);

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

/** Jobs read ahead that a cursor holds. */
export const heldBy = (cursor: LineCursor | undefined): number =>
  cursor?.reduce((total, { ahead }) => total + ahead.length, 0) ?? 0;

/** The parts that a key's lines of a type with backlog name, by mode. */
export function subLinesOf(lines: KeyBacklog['lines'], mode: JobMode): readonly number[] {
  return lines.flatMap((line) => (line.mode === mode ? [line.sub ?? 0] : []));
}

const FIRST_PART: readonly number[] = [0];

/** The parts of a line: those that its key names, and where only a hint told of it, those that there may be. */
export function partsToRead(
  configuration: PoolConfiguration,
  line: LineName,
  {
    backlog,
    hints,
  }: {
    readonly backlog: (Pick<KeyBacklog, 'lines'> & { readonly isHinted?: boolean | undefined }) | undefined;
    readonly hints: () => readonly JobHead[];
  },
): readonly number[] {
  const parts = typesByName(configuration).get(line.type)?.subLines ?? 1;
  const named = subLinesOf(backlog?.lines ?? [], line.mode);
  if (parts === 1 && named.length <= 1) return named.length === 1 ? named : FIRST_PART;
  const isNamed = backlog?.isHinted !== true && named.length > 0;
  if (isNamed && hints().every((job) => named.includes(subLineOf(configuration, job)))) return named;
  return [...new Set([...named, ...Array.from({ length: parts }, (_, sub) => sub)])];
}

/** Lines as wholes, each once. */
export function modesOf(lines: KeyBacklog['lines']): readonly JobMode[] {
  const modes: JobMode[] = [];
  for (const { mode } of lines) if (!modes.includes(mode)) modes.push(mode);
  return modes;
}

/** Whether nothing is known of a line beyond so many heads, and it does not go on. */
export const isUsedUp = (
  { jobs, next }: { readonly jobs: readonly unknown[]; readonly next?: LineCursor | undefined },
  offered: number,
): boolean => next === undefined && jobs.length <= offered;

/**
 * Lines that a pass uses up and reads again, because a job may have come without a hint; of more, what was read last and what hints
 * told since is believed for as long as of lines that are found used up. A small pass sees all, and a large one waits for few reads.
 */
const USED_UP_READ = 64;
/** Lines that are read beside those whose turn has come, at most: twice as many each time that a pass has to read. */
const AHEAD_MAX = 256;
/** And the second time that it has to. None the first time: who reads little reads nothing for nothing. */
const AHEAD_FIRST = 8;

/**
 * Lines whose remembered jobs a pass has used up, in the order in which it asked for them: each is read when its turn comes, and reads
 * that wait for each other hold up all slots. So some are read sooner, beside others.
 */
export class ReadAhead {
  readonly #usedUp = new Map<string, LineName>();
  #usedUpCount = 0;
  #count = 0;
  /** Lines are read now, whatever is ahead. */
  isReading = false;

  note(name: string, line: LineName): void {
    this.#usedUp.set(name, line);
  }

  forget(name: string): void {
    this.#usedUp.delete(name);
  }

  /** One more line is used up. Answers whether it is to be read again, whatever is believed of it. */
  readsUsedUp(): boolean {
    this.#usedUpCount += 1;
    return this.#usedUpCount <= USED_UP_READ;
  }

  /** What to read beside what is read now, no more than there is room for. */
  take(room: number): readonly (readonly [name: string, line: LineName])[] {
    if (!this.isReading) return [];
    this.isReading = false;
    const next = [...this.#usedUp].slice(0, Math.min(this.#count, room));
    for (const [name] of next) this.#usedUp.delete(name);
    this.#count = Math.min(AHEAD_MAX, Math.max(AHEAD_FIRST, 2 * this.#count));
    return next;
  }
}
