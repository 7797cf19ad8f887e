/**
 * The table: its keys, its index, and the names of its items and lines. The one place where they are spelled;
 * the stack, both stores and the stream handler take them from here.
 */
import { createHash } from 'node:crypto';
import type { JobMode } from '../core/job.ts';

/** Attribute and index names that the stack and the stores share. */
export const TABLE = {
  partitionKey: 'pk',
  sortKey: 'sk',
  /** Seconds; garbage collection only. An expired item is treated as gone the moment it expires. */
  ttl: 'ttl',
  linesIndex: 'lines',
  /** The index's partition key: present only while the item stands in a line. */
  line: 'line',
  /** The index's sort key: the place in that line. */
  rank: 'rank',
  /** A job's state; the stack filters stream records by it. */
  state: 'state',
} as const;

/**
 * What the index shows of an item beside its keys: what planning and settling need of a job, and what a key's backlog
 * says. Payloads, results, errors and checkpoints are not billed a second time, nor read with every head.
 */
export const PROJECTED = [
  'state',
  'version',
  'type',
  'priority',
  'mode',
  'fairnessKey',
  'resourceId',
  'readyAtMs',
  'attempt',
  'partition',
  'runAtMs',
  'claim',
  'startedAtMs',
  'finishedAtMs',
  'lines',
  'announcedAtMs',
] as const;

/** An item's primary key. */
export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

/** A line of jobs that are ready: all of one tier, type, mode and fairness key. */
export interface ReadyLine {
  readonly tier: string;
  readonly type: string;
  readonly mode: JobMode;
  readonly fairnessKey: string;
  /** Which part of it, where it is split; absent: the first one. */
  readonly sub?: number | undefined;
}

/** DynamoDB's sort keys end at 1,024 bytes, its partition keys at 2,048; the longest name here has four parts. */
const PART_MAX = 200;
const PART_KEPT = 100;

// Names may hold any character: encoded, a slash always separates. A long one is cut and told apart by its hash,
// behind a character that the encoding never yields. So items say their names in full: none is read out of a key.
function part(text: string): string {
  const known = parts.get(text);
  if (known !== undefined) return known;
  const encoded = encodedPart(text);
  if (parts.size >= PARTS_MAX) parts.clear();
  parts.set(text, encoded);
  return encoded;
}

/** Types and keys come again with every job. */
const parts = new Map<string, string>();
const PARTS_MAX = 10_000;

function encodedPart(text: string): string {
  const encoded = encodeURIComponent(text.toWellFormed());
  if (encoded.length <= PART_MAX) return encoded;
  return `${encoded.slice(0, PART_KEPT)}=${createHash('sha256').update(encoded).digest('hex')}`;
}

export const jobKey = (id: string): ItemKey => ({ pk: `job/${id}`, sk: 'job' });

export const rejectionKey = (sourceId: string, position: number): ItemKey => ({
  pk: `rejection/${sourceId}`,
  sk: String(position).padStart(5, '0'),
});

/** All that a pass must know exactly lives under this key, in one item collection. */
export const partitionPk = (partition: number): string => `partition/${partition}`;

export const leaseKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'lease' });

export const pageKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'page' });

/** How many shards of the due line have ever been used. Read with the partition. */
export const dueKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'due' });

/** Apart from the lease, so that a wake never conflicts with a transaction that checks the epoch. */
export const wakeKey = (partition: number): ItemKey => ({ pk: `wake/${partition}`, sk: 'wake' });

export const RESERVATION_PREFIX = 'reservation/';
export const reservationKey = (partition: number, batchId: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${RESERVATION_PREFIX}${batchId}`,
});

export const WORKER_PREFIX = 'worker/';
export const workerKey = (partition: number, workerId: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${WORKER_PREFIX}${part(workerId)}`,
});

export const CONTROL_PREFIX = 'control/';
export const controlKey = (partition: number, scope: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${CONTROL_PREFIX}${scope}`,
});

/** Stands in the collections of both partitions, so that each reads it with its own. */
export const LOAN_PREFIX = 'loan/';
export const loanKey = (partition: number, loanId: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${LOAN_PREFIX}${loanId}`,
});

/** What a partition asks another one to be lent: one request at a time. */
export const REQUEST_PREFIX = 'request/';
export const requestKey = (partition: number, borrower: number): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${REQUEST_PREFIX}${borrower}`,
});

/** Memberships of dispatchers that run on: an item collection of its own, which no pass reads. */
export const DISPATCHERS_PK = 'dispatchers';
export const dispatcherKey = (dispatcherId: string): ItemKey => ({
  pk: DISPATCHERS_PK,
  sk: `dispatcher/${part(dispatcherId)}`,
});

/** What a fairness key has been charged. */
export const ledgerKey = (partition: number, fairnessKey: string): ItemKey => ({
  pk: `ledger/${partition}`,
  sk: `key/${part(fairnessKey)}`,
});

/** Which lines of a fairness key have a backlog in a tier; stands in the keys line while they do. */
export const backlogKey = (partition: number, tier: string, fairnessKey: string): ItemKey => ({
  pk: `ledger/${partition}`,
  sk: `backlog/${part(tier)}/${part(fairnessKey)}`,
});

/** The learned cost of a type on a resource; the empty resource is the type's own average. */
export const estimateKey = (partition: number, type: string, resourceId: string): ItemKey => ({
  pk: `ledger/${partition}`,
  sk: `cost/${part(type)}/${part(resourceId)}`,
});

// Lines come again with every job, and whoever looks one up compares its name: one text for each, kept by key and type.
export function readyLineName(partition: number, line: ReadyLine): string {
  const { tier, type, mode, fairnessKey, sub = 0 } = line;
  let names = readyNames.get(fairnessKey);
  if (names === undefined) {
    if (readyNames.size >= PARTS_MAX) readyNames.clear();
    names = [];
    readyNames.set(fairnessKey, names);
  }
  for (const known of names) {
    if (
      known.type === type &&
      known.partition === partition &&
      known.tier === tier &&
      known.mode === mode &&
      known.sub === sub
    )
      return known.name;
  }
  const key = part(fairnessKey);
  // The first part has the name that the line has where it is not split: its jobs stay where they are.
  const name = `ready/${partition}/${part(tier)}/${part(type)}/${mode}/${key}${sub === 0 ? '' : `/${sub}`}`;
  if (names.length < LINES_OF_KEY_MAX) names.push({ partition, tier, type, mode, sub, name });
  return name;
}

interface ReadyName extends Required<Omit<ReadyLine, 'fairnessKey'>> {
  readonly partition: number;
  readonly name: string;
}
const readyNames = new Map<string, ReadyName[]>();
/** Beyond, looking through them costs more than making the name. */
const LINES_OF_KEY_MAX = 64;

export const dueLineName = (partition: number, shard: number): string => `due/${partition}/${shard}`;

export const BLOCKED_PREFIX = 'blocked/';
export const blockedLineName = (partition: number, conflictKey: string): string =>
  `${BLOCKED_PREFIX}${partition}/${part(conflictKey)}`;

/** In a blocked line jobs of several types meet, each with what limits it: those of one can be read by themselves. */
export const blockedPrefix = ({ tier, type }: Pick<ReadyLine, 'tier' | 'type'>): string =>
  `${part(tier)}/${part(type)}/`;
export const blockedRank = (of: Pick<ReadyLine, 'tier' | 'type'>, rank: string): string =>
  `${blockedPrefix(of)}${rank}`;

export const keysLineName = (partition: number, tier: string): string => `keys/${partition}/${part(tier)}`;

/** Guards a conflict key whose jobs may live in several partitions. */
export const lockKey = (conflictKey: string): ItemKey => ({ pk: `lock/${part(conflictKey)}`, sk: 'lock' });

/** The partition after one, of those that wait: ascending, then from the first again. */
export const nextInTurn = (waiting: readonly number[], partition: number): number | undefined =>
  waiting.find((each) => each > partition) ?? waiting[0];

/** Sortable as text: instants of this era have 13 digits, 15 last for the next 30,000 years. */
export const instantRank = (atMs: number, id: string): string =>
  `${String(Math.max(0, Math.ceil(atMs))).padStart(15, '0')}/${id}`;

/** Where a failed job stands until somebody deals with it. */
export const deadLineName = (partition: number): string => `dead/${partition}`;

const LAST_INSTANT_MS = 999_999_999_999_999;

/** As `instantRank`, the latest first. */
export const latestFirstRank = (atMs: number, id: string): string =>
  instantRank(LAST_INSTANT_MS - Math.floor(atMs), id);
