/** What a process remembers of the books between passes. */
import type { EstimateRecord, Ledger } from '../store/contract.ts';

/** Entries kept between passes; beyond, all are read again. */
const REMEMBERED_MAX = 20_000;

/**
 * What a process remembers of a partition's books. Only the holder of the lease writes them, so they are still exact
 * if the epoch that this process takes is the successor of the one it held last: nobody was in between.
 */
export interface RememberedBooks {
  /** Under which they were exact at last; -1 when they are not. */
  epoch: number;
  readonly ledgers: Map<string, Ledger | undefined>;
  readonly estimates: Map<string, EstimateRecord | undefined>;
}

/** Remembered books by partition. */
export type BooksMemory = Map<number, RememberedBooks>;

/** The books for a pass under this epoch: remembered ones if they are exact, else empty. */
export function openBooks(memory: BooksMemory, partition: number, epoch: number): RememberedBooks {
  const known = memory.get(partition);
  const isExact = known !== undefined && (known.epoch === epoch || known.epoch === epoch - 1);
  const isSmall = known !== undefined && known.ledgers.size + known.estimates.size <= REMEMBERED_MAX;
  const books: RememberedBooks =
    known !== undefined && isExact && isSmall ? known : { epoch, ledgers: new Map(), estimates: new Map() };
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
