/**
 * The rights of each role on the table, and on which of its items. DynamoDB authorises a transaction by the actions of
 * its parts, so transactions need no right of their own. `docs/security.md` says what each role can do at worst; golden
 * files in the tests show the deployed policies.
 */

import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { ObjectKind } from '../lib/objects/large-values.ts';
import { LEADING_KEYS, REST_ATTRIBUTES, TABLE } from '../lib/store/table/schema.ts';
import { acknowledgeObjects } from './acknowledged.ts';

type Family = keyof typeof LEADING_KEYS;

/** One statement: actions on items whose partition keys have these prefixes, on `all` items, or on the indexes. */
interface TableRight {
  readonly actions: readonly string[];
  readonly of: readonly Family[] | 'all' | 'indexes';
  /** The only attributes, besides the keys, that a request may name; such a request returns nothing. @default - all */
  readonly attributes?: readonly string[];
}

const GET = ['dynamodb:GetItem', 'dynamodb:BatchGetItem'] as const;
const QUERY = 'dynamodb:Query';
const PUT = 'dynamodb:PutItem';
const UPDATE = 'dynamodb:UpdateItem';
const DELETE = 'dynamodb:DeleteItem';

const ALL_READ: readonly TableRight[] = [
  { actions: [...GET, QUERY], of: 'all' },
  { actions: [QUERY], of: 'indexes' },
];

const PASSES: readonly TableRight[] = [
  ...ALL_READ,
  {
    actions: [PUT],
    of: ['jobs', 'partitions', 'ledgers', 'parked', 'mail', 'tags', 'dedupes', 'statistics'],
  },
  { actions: [UPDATE], of: ['jobs', 'partitions', 'ledgers', 'locks', 'unreadable', 'schedules'] },
  { actions: [DELETE], of: ['partitions', 'locks', 'parked', 'mail'] },
  // The progress of a schedule. The update above only removes an unreadable schedule from its line.
  { actions: [PUT], of: ['schedules'] },
];

export const TABLE_RIGHTS = {
  /**
   * A submitter puts jobs and entries of their tags, announces their lines with a key's initial cost, and reads, moves and cancels jobs. It reads
   * who leads the partition, and leaves letters for a leader that asks for them.
   */
  submit: [
    { actions: [PUT], of: ['jobs', 'mail', 'tags', 'dedupes'] },
    { actions: [UPDATE], of: ['jobs', 'ledgers'] },
    { actions: GET, of: ['jobs', 'declaration', 'ledgers', 'partitions', 'dedupes'] },
    // To count the waiting jobs of a type that bounds them.
    { actions: [QUERY], of: 'indexes' },
  ],
  /**
   * A deployment writes the declaration, notifies partitions, and creates and removes schedules. It submits the job of a
   * firing that was decided but not stored.
   */
  declare: [
    { actions: GET, of: ['declaration', 'schedules', 'declaredSchedules', 'jobs', 'ledgers', 'partitions'] },
    { actions: [PUT], of: ['declaration', 'schedules', 'declaredSchedules', 'jobs', 'tags'] },
    { actions: [UPDATE], of: ['partitions', 'ledgers'] },
    { actions: [DELETE], of: ['schedules'] },
  ],
  /** A dispatcher, function or process, makes passes. It only reads the declaration. */
  dispatch: PASSES,
  /** A long-running dispatcher also writes its membership. A leave is written, not deleted. */
  reside: [...PASSES, { actions: [PUT], of: ['dispatchers'] }],
  /** The ingest function's rights in addition to a dispatcher's: it stores rejections and removes schedules. */
  ingest: [
    { actions: [PUT], of: ['rejections'] },
    { actions: [DELETE], of: ['schedules'] },
  ],
  /** A worker function starts and finishes jobs, and checks whether they are to be cancelled. */
  work: [
    { actions: GET, of: ['jobs', 'declaration'] },
    { actions: [UPDATE], of: ['jobs', 'unreadable'] },
    // A handler may ask for a rest, which is written beside everything else of its partition.
    { actions: [UPDATE], of: ['partitions'], attributes: REST_ATTRIBUTES },
  ],
  /** A worker process also keeps its heartbeat record, and reads how its slots are counted. */
  serve: [
    { actions: GET, of: ['jobs', 'declaration'] },
    { actions: [QUERY], of: ['partitions'] },
    { actions: [PUT, DELETE], of: ['partitions'] },
    { actions: [UPDATE], of: ['jobs', 'partitions', 'unreadable'] },
  ],
  /** The collection of objects looks up whether their jobs are there. */
  collect: [{ actions: GET, of: ['jobs', 'declaration'] }],
  /** An operator with read access reads everything. */
  read: ALL_READ,
  /**
   * An operator submits, reads, moves, cancels, pauses and redrives jobs, changes schedules, and scans ended jobs to publish their
   * outcomes again.
   */
  operate: [
    ...ALL_READ,
    { actions: ['dynamodb:Scan'], of: 'all' },
    { actions: [PUT], of: ['jobs', 'schedules', 'tags', 'dedupes', 'mail'] },
    { actions: [UPDATE], of: ['jobs', 'partitions', 'ledgers', 'unreadable', 'schedules'] },
    { actions: [DELETE], of: ['schedules'] },
  ],
} as const satisfies Record<string, readonly TableRight[]>;

const INDEXES = [TABLE.linesIndex, TABLE.expiriesIndex];

export type TableRole = keyof typeof TABLE_RIGHTS;

const READ_OBJECT = 's3:GetObject';
const PUT_OBJECT = 's3:PutObject';
const DELETE_OBJECT = 's3:DeleteObject';
/** Without it, S3 answers for a missing object what it answers for a forbidden one. */
const LIST_OBJECTS = 's3:ListBucket';

/**
 * The rights of each role on the objects of a kind. Producers put payloads; workers put what handlers leave, and delete
 * what they have replaced. A role that is not here has none.
 */
const OBJECT_RIGHTS: Readonly<
  Partial<Record<TableRole, Readonly<Partial<Record<ObjectKind, readonly string[]>>>>>
> = {
  submit: { payload: [READ_OBJECT, PUT_OBJECT], kept: [READ_OBJECT] },
  ingest: { payload: [PUT_OBJECT] },
  work: { payload: [READ_OBJECT], kept: [READ_OBJECT, PUT_OBJECT, DELETE_OBJECT] },
  serve: { payload: [READ_OBJECT], kept: [READ_OBJECT, PUT_OBJECT, DELETE_OBJECT] },
  read: { payload: [READ_OBJECT], kept: [READ_OBJECT] },
  operate: { payload: [READ_OBJECT, PUT_OBJECT], kept: [READ_OBJECT] },
  collect: { payload: [DELETE_OBJECT], kept: [DELETE_OBJECT] },
};

/** Grants a role's rights on the bucket, which is encrypted with the table's key. */
export function grantObjects(bucketArn: string, grantee: IGrantable, role: TableRole): readonly Grant[] {
  const rights = Object.entries(OBJECT_RIGHTS[role] ?? {});
  if (rights.length === 0) return [];
  const grants = rights.map(([kind, actions]) => {
    acknowledgeObjects(grantee, bucketArn, kind);
    return Grant.addToPrincipal({ grantee, actions: [...actions], resourceArns: [`${bucketArn}/${kind}/*`] });
  });
  return role === 'ingest'
    ? grants
    : [...grants, Grant.addToPrincipal({ grantee, actions: [LIST_OBJECTS], resourceArns: [bucketArn] })];
}

export interface RightsTable {
  readonly tableArn: string;
  readonly encryptionKey?: IKey | undefined;
}

/** Grants a role's rights on the table. */
export function grantTable(table: RightsTable, grantee: IGrantable, role: TableRole): Grant {
  const grants = TABLE_RIGHTS[role].map(({ actions, of, attributes }: TableRight) =>
    Grant.addToPrincipal({
      grantee,
      actions: [...actions],
      resourceArns:
        of === 'indexes' ? INDEXES.map((name) => `${table.tableArn}/index/${name}`) : [table.tableArn],
      ...(typeof of === 'string' ? {} : { conditions: conditionsOf(of, attributes) }),
    }),
  );
  const ofKey = table.encryptionKey?.grant(
    grantee,
    ...(role === 'read' ? KEY_ACTIONS.read : KEY_ACTIONS.write),
  );
  return combinedGrant([...grants, ...(ofKey === undefined ? [] : [ofKey])]);
}

/** The actions on the key, because DynamoDB uses the key in the name of its caller. */
const KEY_ACTIONS = {
  read: ['kms:Decrypt', 'kms:DescribeKey'],
  write: [
    'kms:Decrypt',
    'kms:DescribeKey',
    'kms:Encrypt',
    'kms:GenerateDataKey',
    'kms:ReEncryptFrom',
    'kms:ReEncryptTo',
  ],
} as const;

/**
 * Returns the conditions that each partition key of a request must have one of these prefixes. A request without keys
 * would pass, but none of the granted actions is such a request.
 */
function conditionsOf(
  families: readonly Family[],
  attributes: readonly string[] | undefined,
): Record<string, Record<string, unknown>> {
  return {
    ...(attributes === undefined
      ? {}
      : {
          'ForAllValues:StringEquals': {
            'dynamodb:Attributes': [TABLE.partitionKey, TABLE.sortKey, ...attributes],
          },
          StringEqualsIfExists: { 'dynamodb:ReturnValues': 'NONE' },
        }),
    'ForAllValues:StringLike': {
      'dynamodb:LeadingKeys': families.map((family) => LEADING_KEYS[family]).toSorted(),
    },
  };
}

/** Returns one grant that succeeded only if all did. The CDK's own combination succeeds if any of them did. */
export function combinedGrant(grants: readonly Grant[]): Grant {
  const [first, ...rest] = grants;
  if (first === undefined) throw new RangeError('there is nothing to grant');
  const failed = grants.find(({ success }) => !success);
  if (failed !== undefined) return failed;
  return rest.reduce((grant, next) => grant.combine(next), first);
}
