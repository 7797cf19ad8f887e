/**
 * The largest size of each kind of item. DynamoDB refuses larger items and transactions, and a partition whose items are refused makes no
 * progress. So each kind of item has a bound that follows from bounds on its fields. A test writes each kind of item at its bound.
 *
 * Sizes are UTF-8 bytes as DynamoDB counts them. In JSON a name may take up to six times as many: control characters and halves of
 * surrogate pairs are written as six characters.
 */
import type { ReservedJob } from '../../core/job.ts';

/** The most bytes of one item that DynamoDB accepts. */
export const ITEM_BYTES_MAX = 400 * 1024;
/** The most items of one transaction that DynamoDB accepts, the partition summary included. */
export const TRANSACTION_ITEMS_MAX = 100;
/** How many items a commit may change: its transaction also writes the partition summary and the snapshot of its ledgers. */
export const COMMIT_ITEMS_MAX = TRANSACTION_ITEMS_MAX - 2;
/** The most bytes of all items of one transaction together that DynamoDB accepts. */
export const TRANSACTION_BYTES_MAX = 4 * 1024 * 1024;

/**
 * The most bytes of all ledgers of a partition, compressed, in the partition summary and the snapshot together. That is
 * enough for ten thousand keys of thirteen characters, or seven thousand of thirty-six.
 */
export const LEDGERS_BYTES_MAX = 370_000;
/**
 * The most bytes of the ledgers in the partition summary itself, compressed. A commit that would exceed this rewrites
 * the snapshot.
 */
export const LEDGERS_SINCE_BYTES_MAX = 120_000;
/**
 * The most types whose estimates are in the partition summary. The estimates of other types have items of their own.
 */
export const SUMMARY_TYPES_MAX = 40;
/**
 * The most bytes of the reservations in the partition summary itself: about sixty jobs, which take 1 to 2 KB
 * compressed. A commit that would exceed this gives new reservations items of their own.
 */
export const INLINE_BYTES_MAX = 6_000;
/**
 * The most bytes of the notes in the partition summary about reservations that have items of their own. Notes beyond
 * this are written to those items.
 */
export const RESERVATION_CHANGES_BYTES_MAX = 4_000;

/** The most slots of one worker. */
export const WORKER_SLOTS_MAX = 2_000;
/** The most bytes of the progress of one handler, as JSON. */
export const PROGRESS_BYTES_MAX = 1_024;
/** The most bytes of the progress of all handlers in one worker's record, as JSON. */
export const PROGRESS_TOTAL_BYTES_MAX = 100 * 1024;
/** The most bytes of the name of a worker. */
export const WORKER_ID_BYTES_MAX = 512;

/**
 * The most characters of the text of a whole declaration. Two hundred fleets with a thousand types, with the longest
 * names, take a third of it.
 */
export const DECLARATION_CHARS_MAX = 1_200_000;
/** The most characters of a declaration's text in one item. */
export const DECLARATION_PART_CHARS = 300_000;

/** The most jobs in one item of a letter. A letter with more jobs is several items. */
export const LETTER_JOBS_MAX = 250;
/** The most letters in one read. */
export const LETTERS_READ_MAX = 100;
/** Milliseconds after which unread letters are garbage collected, long after any leader would have read them. */
export const LETTERS_KEPT_MS = 24 * 3_600_000;

/**
 * Milliseconds for which the backlog item of a key is kept after its last line was retired. A later announcement
 * revives it, or writes a new one.
 */
export const RETIRED_KEPT_MS = 86_400_000;

/** The most bytes of a partition's request for a loan, as JSON. */
export const WANTS_BYTES_MAX = 32_000;

/** How long the counts of a minute are kept. */
export const STATISTICS_TTL_MS = 14 * 86_400_000;

/** The bytes that an item of each kind can take at most, and why. */
export const ITEM_BOUNDS = {
  /**
   * 64 KB each for result, checkpoint, steps and the state of a parked job, 4 KB of history with 12 KB of stacks, an error of 2,176 characters with a stack of 4 KB, and
   * names of at most 512 bytes.
   */
  job: 305_000,
  /** A payload of 64 KB, and the job's id. */
  payload: 66_500,
  /** Batches of 50 jobs, each with its own names. */
  reservation: 350_000,
  /** The partition summary: what the bounds above let its ledgers, types, reservations and notes about reservations take. */
  page: 300_000,
  /** The snapshot of ledgers, which `LEDGERS_BYTES_MAX` bounds. */
  ledgerBase: 340_000,
  /**
   * The occupants of `WORKER_SLOTS_MAX` slots, each with 36 bytes of a claim id and 32 of a job id, and the progress of
   * all of them.
   */
  worker: 380_000,
  /** A scope that is a fairness key, and ten changes of each of the three fields, each with an author and a reason. */
  control: 75_000,
  ledger: 2_000,
  /** A conflict key: the names of its type and its resource, encoded. */
  parkedMark: 2_000,
  /** A key's lines of one type: one for each of two modes. */
  backlog: 3_000,
  estimate: 2_000,
  /** 8,192 characters of the request, 1,000 of the reason, 200 of the field. */
  rejection: 32_000,
  /** A conflict key, and 4,096 waiting partitions. */
  lock: 32_000,
  /** An instant, a flag and a name. */
  leader: 1_000,
  /** Compressed heads and ids of at most `LETTER_JOBS_MAX` jobs. */
  letter: 300_000,
  /** One part of the declaration's text, and the hash. */
  declaration: 301_000,
  /** A request of `WANTS_BYTES_MAX` bytes. */
  request: 33_000,
  /** Four scopes: names of up to 512 bytes, encoded. */
  loan: 9_000,
  /** A name of 512 bytes, and up to 4,096 partitions that it leads. */
  dispatcher: 32_000,
  /** Only instants. */
  lookout: 200,
  /** Two histograms of 64 counts with 7 digits each, which is more than a minute can have. */
  statistics: 1_200,
  /** The schedule's request: a payload of 64 KB, twenty blackouts, names. */
  scheduleSpec: 82_000,
  /** Ten entries of history, a hundred firings in progress, and instants. */
  schedule: 12_000,
  /**
   * Keys of at most 3 KB each: the item's own, the unreadable item's in the reason, and its line and rank. The rest is the error's text.
   */
  unreadable: 12_000,
  /** Five hundred names of 128 bytes. */
  declaredSchedules: 400_000,
} as const satisfies Readonly<Record<string, number>>;

const JSON_FACTOR = 6;
/** Numbers among them: those of the row, and the units in four limits. */
const JOB_OVERHEAD_BYTES = 220;

/**
 * Returns an upper bound of the bytes that the jobs of a reservation take as an item. Ordinary names take several times
 * less.
 */
export function reservationBytesAtMost(jobs: Iterable<ReservedJob>): number {
  let chars = 0;
  let count = 0;
  for (const { id, type, tier, fleet, fairnessKey, conflictKey, resourceId, keys = {} } of jobs) {
    const held = (conflictKey ?? resourceId ?? '').length + Object.entries(keys).flat().join('').length;
    chars += id.length + type.length + tier.length + fleet.length + fairnessKey.length + held;
    count += 1;
  }
  return chars * JSON_FACTOR + count * JOB_OVERHEAD_BYTES;
}
