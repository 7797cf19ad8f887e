/** What a process remembers of a partition between passes. */
import type { EstimateRecord, JobHead, KeyBacklog, Ledger } from '../store/contract.ts';
import { heldBy, type LineCursor } from './line-parts.ts';

/** Entries kept between passes; beyond, all are read again. */
const REMEMBERED_MAX = 20_000;

/** Heads of a line that were read and not admitted yet. */
export interface RememberedHeads {
  readonly readAtMs: number;
  /** In rank order. */
  jobs: readonly JobHead[];
  /** Where the line goes on; absent at its end. */
  readonly next?: LineCursor | undefined;
  /** The parts of the line that were read. */
  readonly subs: readonly number[];
}

/** What was read of the index and may be read again at any time. */
export interface RememberedLines {
  /** By line name. */
  readonly heads: Map<string, RememberedHeads>;
  /** By tier: all of its keys with backlog, where one read showed them all. */
  readonly keys: Map<string, { readonly readAtMs: number; readonly keys: readonly KeyBacklog[] }>;
  /** By tier: the backlog of keys that are read by name, as far as they have one. */
  readonly named: Map<string, RememberedNames>;
}

export interface RememberedNames {
  readonly readAtMs: number;
  readonly names: ReadonlySet<string>;
  readonly keys: readonly KeyBacklog[];
}

export function forgetLines(lines: RememberedLines): void {
  lines.heads.clear();
  lines.keys.clear();
  lines.named.clear();
}

/**
 * What a process remembers of a partition's books and lines. Only the holder of the lease writes the books and admits
 * jobs, so they are still exact if the epoch that this process takes is the successor of the one it held last: nobody
 * was in between.
 */
export interface RememberedBooks {
  /** Under which they were exact at last; -1 when they are not. */
  epoch: number;
  readonly ledgers: Map<string, Ledger | undefined>;
  readonly estimates: Map<string, EstimateRecord | undefined>;
  /** What the store has of an estimate that was learned on since. */
  readonly written: Map<string, EstimateRecord>;
  /** The wake counter when the lease was given back. Who raised it since did so against another holder. */
  wakes?: number | undefined;
  /** Shards of the due line, as the last pass found them. */
  dueShards?: number | undefined;
  /** When capacity was asked for last. */
  askedAtMs?: number | undefined;
  readonly lines: RememberedLines;
}

/** Remembered books by partition. */
export type BooksMemory = Map<number, RememberedBooks>;

const sizeOf = ({ ledgers, estimates, lines }: RememberedBooks): number => {
  let jobs = 0;
  for (const each of lines.heads.values()) jobs += 1 + each.jobs.length + heldBy(each.next);
  return ledgers.size + estimates.size + jobs;
};

const emptyBooks = (epoch: number): RememberedBooks => ({
  epoch,
  ledgers: new Map(),
  estimates: new Map(),
  written: new Map(),
  lines: { heads: new Map(), keys: new Map(), named: new Map() },
});

/** The books for a pass under this epoch: remembered ones if they are exact, else empty. */
export function openBooks(memory: BooksMemory, partition: number, epoch: number): RememberedBooks {
  const known = memory.get(partition);
  const isExact = known !== undefined && (known.epoch === epoch || known.epoch === epoch - 1);
  const books = known !== undefined && isExact && sizeOf(known) <= REMEMBERED_MAX ? known : emptyBooks(epoch);
  // Not exact again before the pass has ended well: a commit without an answer may have happened or not.
  memory.delete(partition);
  return books;
}

/** After a pass every commit of which was answered. */
export function keepBooks(
  memory: BooksMemory,
  partition: number,
  epoch: number,
  books: RememberedBooks,
): void {
  books.epoch = epoch;
  memory.set(partition, books);
}
