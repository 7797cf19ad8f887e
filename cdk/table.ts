/** The one table: jobs, partitions, ledgers. Keys and names come from the schema that the stores use. */
import { RemovalPolicy } from 'aws-cdk-lib';
import { AttributeType, Billing, ProjectionType, StreamViewType, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import type { Construct } from 'constructs';
import { PROJECTED, TABLE } from '../lib/store/schema.ts';

export interface SchedulerTableProps {
  /** @default RemovalPolicy.RETAIN */
  readonly removalPolicy?: RemovalPolicy | undefined;
}

export function schedulerTable(scope: Construct, id: string, props: SchedulerTableProps): TableV2 {
  const table = new TableV2(scope, id, {
    partitionKey: { name: TABLE.partitionKey, type: AttributeType.STRING },
    sortKey: { name: TABLE.sortKey, type: AttributeType.STRING },
    billing: Billing.onDemand(),
    timeToLiveAttribute: TABLE.ttl,
    dynamoStream: StreamViewType.NEW_AND_OLD_IMAGES,
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN,
  });
  // Sparse: an item is in it only while it stands in a line.
  table.addGlobalSecondaryIndex({
    indexName: TABLE.linesIndex,
    partitionKey: { name: TABLE.line, type: AttributeType.STRING },
    sortKey: { name: TABLE.rank, type: AttributeType.STRING },
    projectionType: ProjectionType.INCLUDE,
    nonKeyAttributes: [...PROJECTED],
  });
  return table;
}

/**
 * What each part does to the table. A transaction is authorised by the actions of its parts,
 * so there is none of its own here.
 */
export const TABLE_ACTIONS = {
  /** A submitter: puts jobs, announces lines, raises the wake counter, reads a job back. */
  submit: ['dynamodb:PutItem', 'dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:UpdateItem'],
  /** A deployment: writes the declaration, tells the partitions. */
  declare: [
    'dynamodb:GetItem',
    'dynamodb:BatchGetItem',
    'dynamodb:Query',
    'dynamodb:PutItem',
    'dynamodb:UpdateItem',
  ],
  /** A dispatcher: whole passes. */
  dispatch: [
    'dynamodb:GetItem',
    'dynamodb:BatchGetItem',
    'dynamodb:Query',
    'dynamodb:PutItem',
    'dynamodb:UpdateItem',
    'dynamodb:DeleteItem',
    'dynamodb:ConditionCheckItem',
    // Claims, several in one request.
    'dynamodb:PartiQLUpdate',
  ],
  /** A Lambda worker: start, finish, ask whether somebody wants its job to end. */
  work: ['dynamodb:GetItem', 'dynamodb:BatchGetItem', 'dynamodb:UpdateItem'],
  /** A long-running worker: that, and its own heartbeat record. */
  serve: [
    'dynamodb:GetItem',
    'dynamodb:BatchGetItem',
    'dynamodb:PutItem',
    'dynamodb:UpdateItem',
    'dynamodb:DeleteItem',
  ],
  /** An operator: looks, moves, cancels, pauses, wakes. */
  operate: [
    'dynamodb:GetItem',
    'dynamodb:BatchGetItem',
    'dynamodb:Query',
    'dynamodb:PutItem',
    'dynamodb:UpdateItem',
  ],
} as const satisfies Record<string, readonly string[]>;
