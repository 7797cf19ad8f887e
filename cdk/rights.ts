/**
 * The rights of each role on the table, and on which of its items. DynamoDB authorises a transaction by the actions of
 * its parts, so transactions need no right of their own. `docs/security.md` says what each role can do at worst; golden
 * files in the tests show the deployed policies.
 */

import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { LEADING_KEYS, TABLE } from '../lib/store/table/schema.ts';

type Family = keyof typeof LEADING_KEYS;

/** One statement: actions on items whose partition keys have these prefixes, on `all` items, or on the index (`lines`). */
interface TableRight {
  readonly actions: readonly string[];
  readonly of: readonly Family[] | 'all' | 'lines';
}

const GET = ['dynamodb:GetItem', 'dynamodb:BatchGetItem'] as const;
const QUERY = 'dynamodb:Query';
const PUT = 'dynamodb:PutItem';
const UPDATE = 'dynamodb:UpdateItem';
const DELETE = 'dynamodb:DeleteItem';

const ALL_READ: readonly TableRight[] = [
  { actions: [...GET, QUERY], of: 'all' },
  { actions: [QUERY], of: 'lines' },
];

const PASSES: readonly TableRight[] = [
  ...ALL_READ,
  { actions: [PUT], of: ['jobs', 'partitions', 'ledgers', 'parked', 'mail'] },
  { actions: [UPDATE], of: ['jobs', 'partitions', 'ledgers', 'locks', 'unreadable', 'schedules'] },
  { actions: [DELETE], of: ['partitions', 'locks', 'parked', 'mail'] },
  // The progress of a schedule. The update above only removes an unreadable schedule from its line.
  { actions: [PUT], of: ['schedules'] },
];

export const TABLE_RIGHTS = {
  /**
   * A submitter puts jobs, announces their lines with a key's initial cost, and reads, moves and cancels jobs. It reads
   * who leads the partition, and leaves letters for a leader that asks for them.
   */
  submit: [
    { actions: [PUT], of: ['jobs', 'mail'] },
    { actions: [UPDATE], of: ['jobs', 'ledgers'] },
    { actions: GET, of: ['jobs', 'declaration', 'ledgers', 'partitions'] },
  ],
  /**
   * A deployment writes the declaration, notifies partitions, and creates and removes schedules. It submits the job of a
   * firing that was decided but not stored.
   */
  declare: [
    { actions: GET, of: ['declaration', 'schedules', 'declaredSchedules', 'jobs', 'ledgers', 'partitions'] },
    { actions: [PUT], of: ['declaration', 'schedules', 'declaredSchedules', 'jobs'] },
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
  ],
  /** A worker process also keeps its heartbeat record, and reads how its slots are counted. */
  serve: [
    { actions: GET, of: ['jobs', 'declaration'] },
    { actions: [QUERY], of: ['partitions'] },
    { actions: [PUT, DELETE], of: ['partitions'] },
    { actions: [UPDATE], of: ['jobs', 'partitions', 'unreadable'] },
  ],
  /** An operator with read access. */
  read: ALL_READ,
  /**
   * An operator reads, moves, cancels, pauses and redrives jobs, changes schedules, and scans ended jobs to publish their
   * outcomes again.
   */
  operate: [
    ...ALL_READ,
    { actions: ['dynamodb:Scan'], of: 'all' },
    { actions: [PUT], of: ['jobs', 'schedules'] },
    { actions: [UPDATE], of: ['jobs', 'partitions', 'ledgers', 'unreadable', 'schedules'] },
    { actions: [DELETE], of: ['schedules'] },
  ],
} as const satisfies Record<string, readonly TableRight[]>;

export type TableRole = keyof typeof TABLE_RIGHTS;

export interface RightsTable {
  readonly tableArn: string;
  readonly encryptionKey?: IKey | undefined;
}

/** Grants a role's rights on the table. */
export function grantTable(table: RightsTable, grantee: IGrantable, role: TableRole): Grant {
  const grants = TABLE_RIGHTS[role].map(({ actions, of }: TableRight) =>
    Grant.addToPrincipal({
      grantee,
      actions: [...actions],
      resourceArns: [of === 'lines' ? `${table.tableArn}/index/${TABLE.linesIndex}` : table.tableArn],
      ...(typeof of === 'string' ? {} : { conditions: leadingKeys(of) }),
    }),
  );
  const ofKey = table.encryptionKey?.grant(
    grantee,
    ...(role === 'read' ? KEY_ACTIONS.read : KEY_ACTIONS.write),
  );
  return combinedGrant([...grants, ...(ofKey === undefined ? [] : [ofKey])]);
}

/** DynamoDB uses the key in the name of its caller, with these actions. */
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
 * Each partition key of a request must have one of these prefixes. A request without keys would pass, but none of the
 * granted actions is such a request.
 */
function leadingKeys(families: readonly Family[]): Record<string, Record<string, unknown>> {
  return {
    'ForAllValues:StringLike': {
      'dynamodb:LeadingKeys': families.map((family) => LEADING_KEYS[family]).toSorted(),
    },
  };
}

/** One grant that succeeded only if all succeeded. The CDK's own combination succeeds if any of them did. */
export function combinedGrant(grants: readonly Grant[]): Grant {
  const [first, ...rest] = grants;
  if (first === undefined) throw new RangeError('there is nothing to grant');
  const failed = grants.find(({ success }) => !success);
  if (failed !== undefined) return failed;
  return rest.reduce((grant, next) => grant.combine(next), first);
}
