/**
 * The table's keys, its index, and the names of its items and lines. They are defined only here; the stack, both stores and the stream
 * handler import them.
 */

import { type DedupedJob, dedupeNameOf } from '../../core/dedupe.ts';
import { EXPIRY_LINES } from '../contract/expiring.ts';
import { HEAD_FIELDS } from '../contract/job-fields.ts';
import { type BlockedLine, keyPart, type ReadyLine, readyLineName } from '../contract/lines.ts';
import type { FinishedState } from '../contract/operate.ts';
import type { TagEntry } from '../contract/records.ts';

/** Names of attributes and of the index that the stack and the stores share. */
export const TABLE = {
  partitionKey: 'pk',
  sortKey: 'sk',
  /** Epoch seconds, for garbage collection only. An expired item is treated as gone from the moment at which it expires. */
  ttl: 'ttl',
  linesIndex: 'lines',
  /** Partition key of the index of lines. An item has it only while it stands in a line. */
  line: 'line',
  /** Sort key of the index of lines: the item's position in its line. */
  rank: 'rank',
  expiriesIndex: 'expiries',
  /** Partition key of the index of expiries. A job has it only while it has not started and would expire. */
  expiry: 'expiry',
  /** Sort key of the index of expiries. */
  expireAtMs: 'expireAtMs',
  /** A job's state; the stack filters stream records by it. */
  state: 'state',
} as const;

/**
 * The attributes that the index copies from an item, beside its keys: what planning and settling need of a job, and the lines of a key's
 * backlog. Payloads, results, errors and checkpoints are left out, so they are neither billed a second time nor read with every head.
 */
export const PROJECTED: readonly string[] = [...HEAD_FIELDS, 'lines', 'announcedAtMs'];

/** An item's primary key. */
export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

export const jobKey = (id: string): ItemKey => ({ pk: `job/${id}`, sk: 'job' });

/**
 * Returns the key of a large payload's item. Each write of a payload uses a new `payloadId`, so two submitters of one
 * job write two items.
 */
export const payloadKey = (id: string, payloadId: string): ItemKey => ({
  pk: jobKey(id).pk,
  sk: `payload/${payloadId}`,
});

export const rejectionKey = (sourceId: string, position: number): ItemKey => ({
  pk: `rejection/${sourceId}`,
  sk: String(position).padStart(5, '0'),
});

/** Returns the key of a note about an item that cannot be read. */
export const unreadableKey = (partition: number, { pk, sk }: ItemKey): ItemKey => ({
  pk: unreadablePk(partition),
  sk: keyPart(`${pk} ${sk}`),
});
export const unreadablePk = (partition: number): string => `unreadable/${partition}`;

/** Declarations: the newest version, an item for each version, and the texts, which are named by their hash and never change. */
const DECLARATION_PK = 'declaration';
const VERSION_DIGITS = 12;
export const newestDeclarationKey: ItemKey = { pk: DECLARATION_PK, sk: 'newest' };
export const declarationKey = (version: number): ItemKey => ({
  pk: DECLARATION_PK,
  sk: `version/${String(version).padStart(VERSION_DIGITS, '0')}`,
});
export const declarationTextKey = (hash: string, at: number): ItemKey => ({
  pk: DECLARATION_PK,
  sk: `text/${hash}/${at}`,
});

/** Returns the partition key of the items that a pass must read exactly: they are one item collection. */
export const partitionPk = (partition: number): string => `${PARTITION_PREFIX}${partition}`;
export const PARTITION_PREFIX = 'partition/';

/**
 * Returns the key of the item with the leader and the newest declaration. They are not part of the partition summary,
 * so writing them never conflicts with a commit.
 */
export const leaderKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'leader' });

export const summaryKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'page' });

/**
 * Returns the key of the item with the last check of the workers. It is not part of the partition summary, so a check
 * never conflicts with a commit.
 */
export const lookoutKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'lookout' });

/** Returns the partition key of a partition's mailbox: an item collection of its own, which only the leader reads. */
export const mailPk = (partition: number): string => `mail/${partition}`;
/** Returns the key of a letter. Letters sort by time, the oldest first, as far as clocks agree. */
export const letterKey = (partition: number, putAtMs: number, nonce: string): ItemKey => ({
  pk: mailPk(partition),
  sk: instantRank(putAtMs, nonce),
});

export const RESERVATION_PREFIX = 'reservation/';
export const reservationKey = (partition: number, itemId: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${RESERVATION_PREFIX}${itemId}`,
});

export const WORKER_PREFIX = 'worker/';
export const workerKey = (partition: number, workerId: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${WORKER_PREFIX}${keyPart(workerId)}`,
});

export const CONTROL_PREFIX = 'control/';
export const controlKey = (partition: number, scope: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${CONTROL_PREFIX}${scope}`,
});

/** The attributes that a worker writes to let a scope rest. Its rights name them. */
export const REST_ATTRIBUTES = ['scope', 'paused', 'restsUntilMs'] as const;

/** A loan has one item in each of both partitions, so that each partition reads it together with its other items. */
export const LOAN_PREFIX = 'loan/';
export const loanKey = (partition: number, loanId: string): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${LOAN_PREFIX}${loanId}`,
});

/** A partition's request for a loan, stored at the partition that may lend. There is one for each borrower. */
export const REQUEST_PREFIX = 'request/';
export const requestKey = (partition: number, borrower: number): ItemKey => ({
  pk: partitionPk(partition),
  sk: `${REQUEST_PREFIX}${borrower}`,
});

/** Memberships of long-running dispatchers: an item collection of its own, which no pass reads. */
export const DISPATCHERS_PK = 'dispatchers';
export const dispatcherKey = (dispatcherId: string): ItemKey => ({
  pk: DISPATCHERS_PK,
  sk: `dispatcher/${keyPart(dispatcherId)}`,
});

/** Returns the partition key of the item collection of ledgers, backlogs and estimates. */
export const ledgerPk = (partition: number): string => `ledger/${partition}`;

/**
 * Returns the key of the snapshot of a partition's ledgers. It is not in the partition's item collection, because it is
 * large, and most readers have it cached.
 */
export const ledgerSnapshotKey = (partition: number): ItemKey => ({ pk: ledgerPk(partition), sk: 'base' });

/** Returns the key of the item of a ledger that is not in the partition summary. */
export const ledgerKey = (partition: number, fairnessKey: string): ItemKey => ({
  pk: ledgerPk(partition),
  sk: `key/${keyPart(fairnessKey)}`,
});

/**
 * Returns the key of the item with the lines of a fairness key that may have jobs of a type. The item stands in the
 * type's keys line while there are any.
 */
export const backlogKey = (partition: number, type: string, fairnessKey: string): ItemKey => ({
  pk: ledgerPk(partition),
  sk: `backlog/${keyPart(type)}/${keyPart(fairnessKey)}`,
});

/**
 * Returns the key of the item with the estimated cost of a type on a resource. The empty resource stands for the
 * average of the type.
 */
export const estimateKey = (partition: number, type: string, resourceId: string): ItemKey => ({
  pk: ledgerPk(partition),
  sk: `cost/${keyPart(type)}/${keyPart(resourceId)}`,
});

export const dueLineName = (partition: number): string => `due/${partition}`;

/** A schedule's state, and the item beside it with its request. A firing rewrites only the state. */
export const SCHEDULE_PREFIX = 'schedule/';
export const scheduleKey = (id: string): ItemKey => ({ pk: `${SCHEDULE_PREFIX}${id}`, sk: 'schedule' });
export const scheduleSpecKey = (id: string): ItemKey => ({ pk: `${SCHEDULE_PREFIX}${id}`, sk: 'spec' });
/** The ids of the schedules that deployments have made. */
export const declaredSchedulesKey: ItemKey = { pk: 'schedules', sk: 'declared' };

/** Returns the name of the line of active schedules, by the time of the next look at each. */
export const schedulesLineName = (partition: number): string => `schedules/${partition}`;
/** Returns the name of the line of stopped schedules, by id. */
export const stoppedSchedulesLineName = (partition: number): string => `stopped/${partition}`;

export const BLOCKED_PREFIX = 'blocked/';
export const blockedLineName = (partition: number, conflictKey: string): string =>
  `${BLOCKED_PREFIX}${partition}/${keyPart(conflictKey)}`;

export const lineNameOf = (partition: number, line: ReadyLine | BlockedLine): string =>
  'conflictKey' in line ? blockedLineName(partition, line.conflictKey) : readyLineName(partition, line);

/** Conflict keys that may have a blocked line: an item collection that no pass reads as a whole. */
export const parkedPk = (partition: number): string => `parked/${partition}`;
export const parkedKey = (partition: number, conflictKey: string): ItemKey => ({
  pk: parkedPk(partition),
  sk: `key/${keyPart(conflictKey)}`,
});

/**
 * Returns the name of the line of the fairness keys with a backlog of a type. There is a line for each type, so that a
 * pass can skip all keys of a type that is paused or at its cap.
 */
export const keysLineName = (partition: number, type: string): string => `keys/${partition}/${keyPart(type)}`;

/** Returns the key of the lock that guards a conflict key whose jobs may be in several partitions. */
export const lockKey = (conflictKey: string): ItemKey => ({ pk: `lock/${keyPart(conflictKey)}`, sk: 'lock' });

/** Returns the waiting partition that gets a lock after `partition`: the next higher number, else the lowest. */
export const nextWaiting = (waiting: readonly number[], partition: number): number | undefined =>
  waiting.find((each) => each > partition) ?? waiting[0];

/** Returns an instant as sortable text. Present instants have 13 digits; 15 digits last for the next 30,000 years. */
export const instantRank = (atMs: number, id: string): string =>
  `${String(Math.max(0, Math.ceil(atMs))).padStart(15, '0')}/${id}`;

/** The largest cost that a rank can distinguish, in ms: some 31,000 years. */
const COST_MAX = 1e15;

/**
 * Returns a key's rank in the keys line: the settled cost as sortable text, then the key. It is exact, because costs
 * are multiples of 2^-16 ms, which have 16 decimals. So keys of equal cost have equal ranks up to the key, and no rank
 * is above its cost.
 */
export function costRank(settledCostMs: number, fairnessKey: string): string {
  const cost = Math.min(COST_MAX, Math.max(0, settledCostMs));
  return `${cost.toFixed(16).padStart(33, '0')}/${fairnessKey}`;
}

/** The line of the index of expiries in which a job stands. It is the same in all partitions, as a job may move. */
export function expiryLineName(id: string): string {
  let sum = 0;
  for (let at = 0; at < id.length; at += 1) sum += id.charCodeAt(at);
  return expiryLineAt(sum % EXPIRY_LINES);
}

export const expiryLineAt = (at: number): string => `expiry/${at}`;

/** Returns the name of the line of failed jobs that were not redriven. */
export const deadLineName = (partition: number): string => `dead/${partition}`;

/**
 * The line of the succeeded, cancelled or expired jobs of a type, if the type lists them. One index key takes some 1,000 writes a second, so a
 * partition can end as many jobs of such a type.
 */
export const finishedLineName = (partition: number, state: FinishedState, type: string): string =>
  `finished/${partition}/${state}/${keyPart(type)}`;

/** The counts of past minutes of a partition: an item for each. No pass reads them. */
export const statisticsPk = (partition: number): string => `statistics/${partition}`;
export const statisticsKey = (partition: number, minuteMs: number): ItemKey => ({
  pk: statisticsPk(partition),
  sk: instantRank(minuteMs, 'minute'),
});

/** The jobs with a searchable tag: an item for each, the latest submit first. No index shows them. */
const TAG_PREFIX = 'tag/';
export const tagPk = (name: string, value: string): string =>
  `${TAG_PREFIX}${keyPart(name)}/${keyPart(value)}`;
export const tagKey = ({ name, value, jobId, submittedAtMs }: Omit<TagEntry, 'expiresAtMs'>): ItemKey => ({
  pk: tagPk(name, value),
  sk: latestFirstRank(submittedAtMs, jobId),
});

/**
 * The line of all rejected requests. It is not divided by partition, because a rejected request has none. One index key takes some 1,000
 * writes a second; above that, requests wait in their queue.
 */
export const REJECTIONS_LINE = 'rejections';

const LAST_INSTANT_MS = 999_999_999_999_999;

/** Returns a rank like that of `instantRank`, but the latest instant sorts first. */
export const latestFirstRank = (atMs: number, id: string): string =>
  instantRank(LAST_INSTANT_MS - Math.floor(atMs), id);

/** Returns the ranks of this order from the instant `sinceMs` on, and before `untilMs`: `from` sorts first. */
export const latestFirstRange = ({
  sinceMs = 1,
  untilMs = LAST_INSTANT_MS,
}: {
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
}): { readonly from: string; readonly below: string } => ({
  from: latestFirstRank(untilMs - 1, ''),
  below: latestFirstRank(Math.max(1, sinceMs) - 1, ''),
});

export const rejectionRank = ({
  rejectedAtMs,
  sourceId,
  position,
}: {
  readonly rejectedAtMs: number;
  readonly sourceId: string;
  readonly position: number;
}): string => latestFirstRank(rejectedAtMs, `${sourceId}/${position}`);

/** Returns the cost in a rank. */
export const costOfRank = (rank: string): number => Number.parseFloat(rank);

const DEDUPE_PREFIX = 'dedupe/';
/** Names the job that the next request with a dedupe key may change. */
export const dedupeKey = (job: DedupedJob): ItemKey => ({
  pk: `${DEDUPE_PREFIX}${dedupeNameOf(job).map(keyPart).join('/')}`,
  sk: 'dedupe',
});

/**
 * Patterns of partition keys for IAM policies. DynamoDB can restrict access by partition key only, so items that share a partition key
 * cannot be permitted separately.
 */
export const LEADING_KEYS = {
  jobs: jobKey('*').pk,
  rejections: rejectionKey('*', 0).pk,
  tags: `${TAG_PREFIX}*`,
  dedupes: `${DEDUPE_PREFIX}*`,
  declaration: DECLARATION_PK,
  partitions: `${PARTITION_PREFIX}*`,
  mail: 'mail/*',
  ledgers: 'ledger/*',
  locks: `${lockKey('').pk}*`,
  parked: 'parked/*',
  statistics: 'statistics/*',
  unreadable: 'unreadable/*',
  dispatchers: DISPATCHERS_PK,
  schedules: scheduleKey('*').pk,
  declaredSchedules: declaredSchedulesKey.pk,
} as const;
