/**
 * How large anything in the table can get. DynamoDB refuses what is beyond its limits, and a partition whose items outgrow
 * them stands still: so each kind of item has a bound, and each bound a cause. A test writes each item at its bound.
 *
 * Sizes are UTF-8 bytes as DynamoDB counts them. In JSON a name may take up to six times as many: control characters and
 * halves of surrogate pairs are written as six characters.
 */
import type { ReservedJob } from '../../core/job.ts';

/** DynamoDB's own. */
export const ITEM_BYTES_MAX = 400 * 1024;
/** The page is one of them. */
export const TRANSACTION_ITEMS_MAX = 100;
/** Items that a commit may change: its transaction writes the page and the base of its ledgers, too. */
export const COMMIT_ITEMS_MAX = TRANSACTION_ITEMS_MAX - 2;
export const TRANSACTION_BYTES_MAX = 4 * 1024 * 1024;

/**
 * Ledgers of the partition summary, in the page and its base together, their numbers as compressed: ten thousand keys of thirteen
 * characters, seven thousand of thirty-six.
 */
export const LEDGERS_BYTES_MAX = 370_000;
/** Of these, so much stands in the page before its base is written anew. */
export const LEDGERS_SINCE_BYTES_MAX = 120_000;
export const PAGE_TYPES_MAX = 40;
/** Reservations that stand in it: some sixty jobs, which compressed are 1 to 2 KB. Where more come and go, reservations have items. */
export const INLINE_BYTES_MAX = 6_000;
/** What it says of reservations beside their items; what is beyond goes into these. */
export const MARKS_BYTES_MAX = 4_000;

/** Slots of one worker. */
export const WORKER_SLOTS_MAX = 2_000;
/** What a handler says of its progress, and what all handlers of a record do, as JSON. */
export const PROGRESS_BYTES_MAX = 1_024;
export const PROGRESS_TOTAL_BYTES_MAX = 100 * 1024;
/** A worker's name. */
export const WORKER_ID_BYTES_MAX = 512;

/** Of a declaration: as text, and in one item. Two hundred fleets with a thousand types, whatever their names, take a third. */
export const DECLARATION_CHARS_MAX = 1_200_000;
export const DECLARATION_PART_CHARS = 300_000;

/** Jobs of which one item of a letter tells, as far as it fits: a letter of more is several items. */
export const LETTER_JOBS_MAX = 250;
/** Letters that are read at once. */
export const LETTERS_READ_MAX = 100;
/** Garbage collection only, far beyond the time in which a leader reads them. */
export const LETTERS_KEPT_MS = 24 * 3_600_000;

/** The entry of a key whose lines are all retired; one that waits again makes a new one. */
export const RETIRED_KEPT_MS = 86_400_000;

/** What a partition wants of another one, as JSON. */
export const WANTS_BYTES_MAX = 32_000;

/** The most that an item of each kind can take, and why. */
export const ITEM_BOUNDS = {
  /**
   * Result and checkpoint of 64 KB each, 4 KB of history with 12 KB of stacks, an error of 2,176 characters with 4 KB of its own stack, names
   * of 512 bytes and less.
   */
  job: 173_000,
  /** 64 KB, and a job's id. */
  payload: 66_500,
  /** Batches of 50 jobs, each with names of its own. */
  reservation: 350_000,
  /** Ledgers, types, reservations and marks as above. */
  page: 300_000,
  /** Ledgers as above. */
  ledgerBase: 340_000,
  /** So many slots, with 36 bytes of a claim and 32 of a job each, and the progress of all. */
  worker: 380_000,
  /** A fairness key as its scope. */
  control: 2_000,
  ledger: 2_000,
  /** A conflict key: its type's and its resource's name, encoded. */
  parkedMark: 2_000,
  /** One type's lines of a key: two modes. */
  backlog: 3_000,
  estimate: 2_000,
  /** 8,192 characters of what was sent, 1,000 of the reason, 200 of the field. */
  rejection: 32_000,
  /** A conflict key, and 4,096 partitions that wait. */
  lock: 32_000,
  /** An instant, a number and a name. */
  leader: 1_000,
  /** Compressed heads of jobs and ids, two hundred and fifty or fewer. */
  letter: 300_000,
  /** So much of its text, and its hash. */
  declaration: 301_000,
  /** What a partition asks another one for, as above. */
  request: 33_000,
  /** Four scopes: names of up to 512 bytes, encoded. */
  loan: 9_000,
  /** A name of 512 bytes, and up to 4,096 partitions that it leads. */
  dispatcher: 32_000,
  /** Nothing but instants. */
  lookout: 200,
  /** What was asked for: 64 KB of a payload, twenty blackouts, names. */
  scheduleSpec: 80_000,
  /** Ten entries of its history, a hundred firings that are being made, and instants. */
  schedule: 12_000,
  /** Keys of 3 KB at most, its own, as its reason names them and as it stood in a line, and what is wrong with it. */
  unreadable: 12_000,
  /** Five hundred names of 128 bytes. */
  declaredSchedules: 400_000,
} as const satisfies Readonly<Record<string, number>>;

const JSON_FACTOR = 6;
const JOB_OVERHEAD_BYTES = 150;

/** At most what the jobs of a reservation take; mostly several times less. */
export function reservationBytesAtMost(jobs: Iterable<ReservedJob>): number {
  let chars = 0;
  let count = 0;
  for (const { id, type, tier, fleet, fairnessKey, conflictKey, resourceId } of jobs) {
    const held = (conflictKey ?? resourceId ?? '').length;
    chars += id.length + type.length + tier.length + fleet.length + fairnessKey.length + held;
    count += 1;
  }
  return chars * JSON_FACTOR + count * JOB_OVERHEAD_BYTES;
}
