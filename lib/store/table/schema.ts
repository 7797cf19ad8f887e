/**
 * The table: its keys, its index, and the names of its items and lines. The one place where they are spelled;
 * the stack, both stores and the stream handler take them from here.
 */

import { HEAD_FIELDS } from '../contract/job-fields.ts';
import { type BlockedLine, keyPart, type ReadyLine, readyLineName } from '../contract/lines.ts';

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
export const PROJECTED: readonly string[] = [...HEAD_FIELDS, 'lines', 'announcedAtMs'];

/** An item's primary key. */
export interface ItemKey {
  readonly pk: string;
  readonly sk: string;
}

export const jobKey = (id: string): ItemKey => ({ pk: `job/${id}`, sk: 'job' });

/** A payload that stands apart. Whoever puts one names it anew: what two put of one job are two. */
export const payloadKey = (id: string, payloadId: string): ItemKey => ({
  pk: jobKey(id).pk,
  sk: `payload/${payloadId}`,
});

export const rejectionKey = (sourceId: string, position: number): ItemKey => ({
  pk: `rejection/${sourceId}`,
  sk: String(position).padStart(5, '0'),
});

/** Notes of items that could not be read. */
export const unreadableKey = (partition: number, { pk, sk }: ItemKey): ItemKey => ({
  pk: unreadablePk(partition),
  sk: keyPart(`${pk} ${sk}`),
});
export const unreadablePk = (partition: number): string => `unreadable/${partition}`;

/** What is deployed: the newest version, each version, and the texts, which are named by their content and never change. */
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

/** All that a pass must know exactly lives under this key, in one item collection. */
export const partitionPk = (partition: number): string => `${PARTITION_PREFIX}${partition}`;
export const PARTITION_PREFIX = 'partition/';

/** The dispatcher that leads, and the newest declaration: apart from the page, so that neither meets a commit. */
export const leaderKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'leader' });

export const pageKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'page' });

/** What was seen of the workers between passes. Apart from the page, so that a look never conflicts with a commit. */
export const lookoutKey = (partition: number): ItemKey => ({ pk: partitionPk(partition), sk: 'lookout' });

/** A partition's mailbox: an item collection of its own, which only the leader reads. */
export const mailPk = (partition: number): string => `mail/${partition}`;
/** The oldest letter first, as far as clocks agree. */
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
  sk: `dispatcher/${keyPart(dispatcherId)}`,
});

/** Of ledgers, backlogs and learned costs. */
export const ledgerPk = (partition: number): string => `ledger/${partition}`;

/** The ledgers of a partition's page that it does not say itself: not among its items, as it is large, and most readers know it. */
export const ledgerBaseKey = (partition: number): ItemKey => ({ pk: ledgerPk(partition), sk: 'base' });

/** What a fairness key has been charged. */
export const ledgerKey = (partition: number, fairnessKey: string): ItemKey => ({
  pk: ledgerPk(partition),
  sk: `key/${keyPart(fairnessKey)}`,
});

/** Which lines of a fairness key have a backlog of a type; stands in the type's keys line while they do. */
export const backlogKey = (partition: number, type: string, fairnessKey: string): ItemKey => ({
  pk: ledgerPk(partition),
  sk: `backlog/${keyPart(type)}/${keyPart(fairnessKey)}`,
});

/** The learned cost of a type on a resource; the empty resource is the type's own average. */
export const estimateKey = (partition: number, type: string, resourceId: string): ItemKey => ({
  pk: ledgerPk(partition),
  sk: `cost/${keyPart(type)}/${keyPart(resourceId)}`,
});

export const dueLineName = (partition: number): string => `due/${partition}`;

/** How far a schedule is, and, beside it, what it was asked to be: a firing rewrites the first alone. */
export const SCHEDULE_PREFIX = 'schedule/';
export const scheduleKey = (id: string): ItemKey => ({ pk: `${SCHEDULE_PREFIX}${id}`, sk: 'schedule' });
export const scheduleSpecKey = (id: string): ItemKey => ({ pk: `${SCHEDULE_PREFIX}${id}`, sk: 'spec' });
/** Which schedules deployments have made. */
export const declaredSchedulesKey: ItemKey = { pk: 'schedules', sk: 'declared' };

/** Active schedules, by when they are to be looked at; and those that are stopped, by id. */
export const schedulesLineName = (partition: number): string => `schedules/${partition}`;
export const stoppedSchedulesLineName = (partition: number): string => `stopped/${partition}`;

export const BLOCKED_PREFIX = 'blocked/';
export const blockedLineName = (partition: number, conflictKey: string): string =>
  `${BLOCKED_PREFIX}${partition}/${keyPart(conflictKey)}`;

export const lineNameOf = (partition: number, line: ReadyLine | BlockedLine): string =>
  'conflictKey' in line ? blockedLineName(partition, line.conflictKey) : readyLineName(partition, line);

/**
 * Conflict keys that may have a blocked line: an item collection that no pass reads as a whole.
 */
export const parkedPk = (partition: number): string => `parked/${partition}`;
export const parkedKey = (partition: number, conflictKey: string): ItemKey => ({
  pk: parkedPk(partition),
  sk: `key/${keyPart(conflictKey)}`,
});

/** Fairness keys with a backlog of a type: by type, so that what a type's cap or pause holds back is passed over as a whole. */
export const keysLineName = (partition: number, type: string): string => `keys/${partition}/${keyPart(type)}`;

/** Guards a conflict key whose jobs may live in several partitions. */
export const lockKey = (conflictKey: string): ItemKey => ({ pk: `lock/${keyPart(conflictKey)}`, sk: 'lock' });

/** The partition after one, of those that wait: ascending, then from the first again. */
export const nextInTurn = (waiting: readonly number[], partition: number): number | undefined =>
  waiting.find((each) => each > partition) ?? waiting[0];

/** Sortable as text: instants of this era have 13 digits, 15 last for the next 30,000 years. */
export const instantRank = (atMs: number, id: string): string =>
  `${String(Math.max(0, Math.ceil(atMs))).padStart(15, '0')}/${id}`;

/** The largest cost that a rank can tell from a larger one: some 31,000 years. */
const COST_MAX = 1e15;

/**
 * A key's place in the keys line: settled cost, sortable as text; then the key. Exact: costs are multiples of 2^-16 ms,
 * which have 16 decimals, so keys of equal cost tie here too, and no rank is above its cost.
 */
export function costRank(settledCostMs: number, fairnessKey: string): string {
  const cost = Math.min(COST_MAX, Math.max(0, settledCostMs));
  return `${cost.toFixed(16).padStart(33, '0')}/${fairnessKey}`;
}

/** Where a failed job stands until somebody deals with it. */
export const deadLineName = (partition: number): string => `dead/${partition}`;

/** Of all partitions: a request that is refused has none. One index key takes some 1,000 of them a second; their messages wait for more. */
export const REJECTIONS_LINE = 'rejections';

const LAST_INSTANT_MS = 999_999_999_999_999;

/** As `instantRank`, the latest first. */
export const latestFirstRank = (atMs: number, id: string): string =>
  instantRank(LAST_INSTANT_MS - Math.floor(atMs), id);

export const rejectionRank = ({
  rejectedAtMs,
  sourceId,
  position,
}: {
  readonly rejectedAtMs: number;
  readonly sourceId: string;
  readonly position: number;
}): string => latestFirstRank(rejectedAtMs, `${sourceId}/${position}`);

/** The cost that a rank states. */
export const costOfRank = (rank: string): number => Number.parseFloat(rank);

/**
 * How partition keys begin, by what stands under them: for whoever may touch some of the items only. DynamoDB tells
 * its callers apart by partition keys, not by sort keys, so what shares one cannot be told apart.
 */
export const LEADING_KEYS = {
  jobs: jobKey('*').pk,
  rejections: rejectionKey('*', 0).pk,
  declaration: DECLARATION_PK,
  partitions: `${PARTITION_PREFIX}*`,
  mail: 'mail/*',
  ledgers: 'ledger/*',
  locks: `${lockKey('').pk}*`,
  parked: 'parked/*',
  unreadable: 'unreadable/*',
  dispatchers: DISPATCHERS_PK,
  schedules: scheduleKey('*').pk,
  declaredSchedules: declaredSchedulesKey.pk,
} as const;
