/**
 * A line in parts: a hot line stands in the index as several, so that no single partition key of it takes all writes.
 * Which part a job stands in follows from its id; its rank is that of the whole line. So the whole line is the merge of
 * its parts by rank, exactly: a head is given out only when every part that goes on has shown one behind it.
 */
import type { JobMode } from '../core/job.ts';
import type { JobHead, JobStore, KeyBacklog } from '../store/contract.ts';
import type { ReadyLine } from '../store/schema.ts';

/** Where the reading of a line goes on: its parts that are not used up. */
export type LineCursor = readonly PartCursor[];

interface PartCursor {
  readonly sub: number;
  /** Read, and behind what was given out. */
  readonly ahead: readonly JobHead[];
  /** False: what was read is all there is. */
  readonly isOpen: boolean;
  readonly next?: string | undefined;
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

/** Up to `limit` jobs of a line in rank order, after the cursor. Of a line in one part, one request of the store. */
export async function readLineParts(
  store: JobStore,
  { partition, line, subs, rankOf }: LineParts,
  limit: number,
  after?: LineCursor,
): Promise<LineHeads> {
  const [only] = subs;
  if (subs.length === 1 && only !== undefined && after === undefined) {
    const read = await store.readLine(partition, only === 0 ? line : { ...line, sub: only }, limit);
    const isEmpty = read.jobs.length === 0 && read.next === undefined;
    const next =
      read.next === undefined ? undefined : [{ sub: only, ahead: [], isOpen: true, next: read.next }];
    return { jobs: read.jobs, empty: isEmpty ? [only] : [], ...(next === undefined ? {} : { next }) };
  }
  const fresh: LineCursor = subs.map((sub) => ({ sub, ahead: [], isOpen: true }));
  const parts = (after ?? fresh).map((part) => ({
    ...part,
    ahead: part.ahead.map((job) => ({ job, rank: rankOf(job) })),
  }));
  const empty: number[] = [];
  const jobs: JobHead[] = [];
  // Each round reads on in a part, or ends; a part is read on only when all that was read of it was given out.
  while (jobs.length < limit) {
    const bare = parts.filter((part) => part.ahead.length === 0 && part.isOpen);
    await Promise.all(
      bare.map(async (part) => {
        const named = part.sub === 0 ? line : { ...line, sub: part.sub };
        const read = await store.readLine(partition, named, limit, part.next);
        if (part.next === undefined && read.jobs.length === 0 && read.next === undefined)
          empty.push(part.sub);
        part.ahead = read.jobs.map((job) => ({ job, rank: rankOf(job) }));
        part.isOpen = read.next !== undefined;
        part.next = read.next;
      }),
    );
    const given = jobs.length;
    while (jobs.length < limit) {
      const [first, ...others] = parts.filter((part) => part.ahead.length > 0);
      if (first === undefined || parts.some((part) => part.ahead.length === 0 && part.isOpen)) break;
      const best = others.reduce(
        (found, part) => ((part.ahead[0]?.rank ?? '') < (found.ahead[0]?.rank ?? '') ? part : found),
        first,
      );
      const head = best.ahead.shift();
      if (head !== undefined) jobs.push(head.job);
    }
    if (jobs.length === given && parts.every((part) => !part.isOpen || part.ahead.length > 0)) break;
  }
  const left = parts.flatMap(
    ({ sub, ahead, isOpen, next }): LineCursor =>
      ahead.length > 0 || isOpen
        ? [{ sub, ahead: ahead.map(({ job }) => job), isOpen, ...(next === undefined ? {} : { next }) }]
        : [],
  );
  return { jobs, empty, ...(left.length === 0 ? {} : { next: left }) };
}

/** Jobs read ahead that a cursor holds. */
export const heldBy = (cursor: LineCursor | undefined): number =>
  cursor?.reduce((total, { ahead }) => total + ahead.length, 0) ?? 0;

/** The parts that a key's lines of a type with backlog name, by mode. */
export function partsOf(lines: KeyBacklog['lines'], mode: JobMode): readonly number[] {
  return lines.flatMap((line) => (line.mode === mode ? [line.sub ?? 0] : []));
}

/** Lines as wholes, each once. */
export const modesOf = (lines: KeyBacklog['lines']): readonly JobMode[] => [
  ...new Set(lines.map(({ mode }) => mode)),
];
