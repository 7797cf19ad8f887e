/**
 * What each role does to the table, and to which of its items. A transaction is authorised by the actions of its parts,
 * so there is none of its own here. `docs/security.md` says what each role can do at worst; golden files in the tests
 * show the policies as they are deployed.
 */

import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { LEADING_KEYS, TABLE } from '../lib/store/table/schema.ts';

type Family = keyof typeof LEADING_KEYS;

/** One statement: actions on items whose partition keys begin so; `all`: on every item; `lines`: on the index. */
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
  // How far a schedule is. It is updated only to take one that cannot be read out of its line.
  { actions: [PUT], of: ['schedules'] },
];

export const TABLE_RIGHTS = {
  /**
   * A submitter: puts jobs, announces their lines with the cost that a key starts with, reads a job back, moves or
   * cancels it. It looks who leads the partition, and leaves letters for a leader that asks for them.
   */
  submit: [
    { actions: [PUT], of: ['jobs', 'mail'] },
    { actions: [UPDATE], of: ['jobs', 'ledgers'] },
    { actions: GET, of: ['jobs', 'declaration', 'ledgers', 'partitions'] },
  ],
  /**
   * A deployment: writes the declaration, tells the partitions, makes and removes schedules. Where a firing was decided and
   * its job is not there yet, it submits that.
   */
  declare: [
    { actions: GET, of: ['declaration', 'schedules', 'declaredSchedules', 'jobs', 'ledgers', 'partitions'] },
    { actions: [PUT], of: ['declaration', 'schedules', 'declaredSchedules', 'jobs'] },
    { actions: [UPDATE], of: ['partitions', 'ledgers'] },
    { actions: [DELETE], of: ['schedules'] },
  ],
  /** A dispatcher: whole passes, whoever runs them. What is declared it only reads. */
  dispatch: PASSES,
  /** A dispatcher that runs on: that, and its membership, of which a leave is kept, not deleted. */
  reside: [...PASSES, { actions: [PUT], of: ['dispatchers'] }],
  /** The ingest function, beside what a dispatcher does: keeps what it refused, removes schedules. */
  ingest: [
    { actions: [PUT], of: ['rejections'] },
    { actions: [DELETE], of: ['schedules'] },
  ],
  /** A worker function: starts, finishes, asks whether somebody wants its job to end. */
  work: [
    { actions: GET, of: ['jobs', 'declaration'] },
    { actions: [UPDATE], of: ['jobs', 'unreadable'] },
  ],
  /** A long-running worker: that, its own heartbeat record, and a look at how its slots are counted. */
  serve: [
    { actions: GET, of: ['jobs', 'declaration'] },
    { actions: [QUERY], of: ['partitions'] },
    { actions: [PUT, DELETE], of: ['partitions'] },
    { actions: [UPDATE], of: ['jobs', 'partitions', 'unreadable'] },
  ],
  /** An operator who only looks. */
  read: ALL_READ,
  /** An operator: looks, moves, cancels, pauses, redrives, changes schedules; reads all that ended, to tell of it once more. */
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

/** Grants what a role does to the table. */
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

/** What DynamoDB does with the key in the name of whoever calls it. */
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

/** Each key of a request must be one of these. A request without any would pass: none of the granted actions has none. */
function leadingKeys(families: readonly Family[]): Record<string, Record<string, unknown>> {
  return {
    'ForAllValues:StringLike': {
      'dynamodb:LeadingKeys': families.map((family) => LEADING_KEYS[family]).toSorted(),
    },
  };
}

/** As one: it has succeeded if all of them have. The library's own combination has if one of them has. */
export function combinedGrant(grants: readonly Grant[]): Grant {
  const [first, ...rest] = grants;
  if (first === undefined) throw new RangeError('there is nothing to grant');
  const failed = grants.find(({ success }) => !success);
  if (failed !== undefined) return failed;
  return rest.reduce((grant, next) => grant.combine(next), first);
}
