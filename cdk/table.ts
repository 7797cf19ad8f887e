/** The table with jobs, partitions and ledgers. Its keys and names come from the schema that the stores use. */

import { RemovalPolicy, Token } from 'aws-cdk-lib';
import {
  AttributeType,
  Billing,
  type CfnGlobalTable,
  type ITableV2,
  ProjectionType,
  StreamViewType,
  TableV2,
  type WarmThroughput,
} from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { readObject } from '../lib/core/read-fields.ts';
import { PROJECTED, TABLE } from '../lib/store/table/schema.ts';

/** A table with the keys, the index and the stream of a scheduler's table. */
export interface ExistingTable {
  readonly tableArn: string;
  /** The ARN of its stream with new and old images. A restored table has no stream until you enable one. */
  readonly streamArn: string;
}

/** Options of the table. An unknown option is refused with a `ConfigurationError`. */
export interface TableOptions {
  /**
   * Jobs per second that the table must handle right after the deployment, above 0 and up to 6,666: the table and its
   * index of lines are warmed for this load. Otherwise DynamoDB takes minutes to grow. Warm throughput never shrinks: DynamoDB
   * refuses a value below the reached one, so a later deployment may raise the value, or omit it. AWS bills each rise
   * above the throughput of a new table once. Refused with `existing`.
   * @default - the throughput of a new table: see docs/cost-and-speed.md for the jobs a second that it takes
   */
  readonly expectedJobsPerSecond?: number | undefined;
  /**
   * Whether the table is protected from deletion, by the stack and by hand. Refused with `existing`.
   * @default false
   */
  readonly deletionProtection?: boolean | undefined;
  /**
   * A table that another deployment left, or that was restored from a backup, with its jobs, which continue. See
   * docs/restore.md. This stack neither creates nor deletes it. It must be in the scheduler's account and Region.
   * @default - a new table
   */
  readonly existing?: ExistingTable | undefined;
  /** Always refused; the error explains why. See docs/security.md. */
  readonly replicas?: undefined;
}

export interface SchedulerTableProps extends TableOptions {
  /**
   * The removal policy of a new table.
   * @default RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
   */
  readonly removalPolicy?: RemovalPolicy | undefined;
  readonly encryptionKey?: IKey | undefined;
}

/** Capacity units of one job, from its submission to its end: not less than docs/cost-and-speed.md measures. */
const UNITS_OF_JOB = { tableWrites: 6, indexWrites: 3, tableReads: 3, indexReads: 2 } as const;

/** The throughput of a new on-demand table. */
const NEW_TABLE = { reads: 12_000, writes: 4_000 } as const;

/** The quota of one on-demand table in an account, unless AWS has raised it. */
const QUOTA = { units: 40_000, name: 'Table-level write throughput limit' } as const;

const MOST_JOBS_PER_SECOND = Math.floor(QUOTA.units / UNITS_OF_JOB.tableWrites);

export function schedulerTable(scope: Construct, id: string, props: SchedulerTableProps): ITableV2 {
  const { expectedJobsPerSecond, deletionProtection = false, encryptionKey, existing } = props;
  if (existing !== undefined) {
    return TableV2.fromTableAttributes(scope, id, {
      tableArn: existing.tableArn,
      tableStreamArn: existing.streamArn,
      ...(encryptionKey === undefined ? {} : { encryptionKey }),
    });
  }
  const warm = warmThroughput(expectedJobsPerSecond);
  const table = new TableV2(scope, id, {
    partitionKey: { name: TABLE.partitionKey, type: AttributeType.STRING },
    sortKey: { name: TABLE.sortKey, type: AttributeType.STRING },
    billing: Billing.onDemand(),
    timeToLiveAttribute: TABLE.ttl,
    dynamoStream: StreamViewType.NEW_AND_OLD_IMAGES,
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    deletionProtection,
    ...(warm === undefined ? {} : { warmThroughput: warm.table }),
  });
  if (encryptionKey !== undefined) encrypt(table, encryptionKey);
  // The index is sparse: it contains an item only while the item stands in a line.
  table.addGlobalSecondaryIndex({
    indexName: TABLE.linesIndex,
    partitionKey: { name: TABLE.line, type: AttributeType.STRING },
    sortKey: { name: TABLE.rank, type: AttributeType.STRING },
    projectionType: ProjectionType.INCLUDE,
    nonKeyAttributes: [...PROJECTED],
    ...(warm === undefined ? {} : { warmThroughput: warm.index }),
  });
  // A sparse index, too: it contains a job only while the job has not started and would expire. It is never warmed: its
  // four partition keys together take no more than a new index does.
  table.addGlobalSecondaryIndex({
    indexName: TABLE.expiriesIndex,
    partitionKey: { name: TABLE.expiry, type: AttributeType.STRING },
    sortKey: { name: TABLE.expireAtMs, type: AttributeType.NUMBER },
    projectionType: ProjectionType.KEYS_ONLY,
  });
  // The types of aws-cdk-lib are looser than ours about absent properties.
  return table as ITableV2;
}

/** Sets the key by overrides, because `encryption` of aws-cdk-lib refuses stacks without a Region. */
function encrypt(table: TableV2, key: IKey): void {
  const resource = table.node.defaultChild as CfnGlobalTable;
  resource.addPropertyOverride('SSESpecification', { SSEEnabled: true, SSEType: 'KMS' });
  resource.addPropertyOverride('Replicas.0.SSESpecification', { KMSMasterKeyId: key.keyArn });
}

/**
 * Checks the options of the table.
 * @throws ConfigurationError for impossible options of the table
 */
export function checkTable(options: TableOptions): void {
  const { expectedJobsPerSecond, replicas }: { expectedJobsPerSecond?: unknown; replicas?: unknown } =
    options;
  readObject('table', options, ['expectedJobsPerSecond', 'deletionProtection', 'existing', 'replicas']);
  if (options.existing !== undefined) checkExisting(options.existing, options);
  if (replicas !== undefined) {
    throw new ConfigurationError(
      'table.replicas',
      replicas,
      'is not supported: between Regions the last write wins, so two dispatchers could both commit to one partition, and caps and exclusions would not hold',
      'Deploy a scheduler in each Region, and let producers choose one. Use backups for copies.',
    );
  }
  if (expectedJobsPerSecond === undefined) return;
  if (
    typeof expectedJobsPerSecond !== 'number' ||
    !(expectedJobsPerSecond > 0 && expectedJobsPerSecond <= MOST_JOBS_PER_SECOND)
  ) {
    throw new ConfigurationError(
      'table.expectedJobsPerSecond',
      expectedJobsPerSecond,
      `must be above 0 and at most ${MOST_JOBS_PER_SECOND}: a job uses ${UNITS_OF_JOB.tableWrites} write units of the table, and the quota "${QUOTA.name}" is ${QUOTA.units} a second`,
      'Divide the work among several schedulers, or request a higher quota and warm the table by hand.',
    );
  }
}

const TABLE_ARN = /^arn:[\w-]+:dynamodb:[\w-]+:\d{12}:table\/[\w.-]{3,255}$/;
const STREAM_ARN = /^(arn:[\w-]+:dynamodb:[\w-]+:\d{12}:table\/[\w.-]{3,255})\/stream\/[\w:.-]+$/;

function checkExisting(existing: ExistingTable, options: TableOptions): void {
  const fields = readObject('table.existing', existing, ['tableArn', 'streamArn']);
  for (const [field, shape, what] of [
    ['tableArn', TABLE_ARN, 'the ARN of a table'],
    ['streamArn', STREAM_ARN, "the ARN of a table's stream"],
  ] as const) {
    const arn = fields.get(field);
    if (typeof arn === 'string' && (Token.isUnresolved(arn) || shape.test(arn))) continue;
    throw new ConfigurationError(
      `table.existing.${field}`,
      arn,
      `must be ${what}`,
      'Take it from `aws dynamodb describe-table`: TableArn and LatestStreamArn.',
    );
  }
  const { tableArn, streamArn } = existing;
  const isKnown = ![tableArn, streamArn].some((arn) => Token.isUnresolved(arn));
  if (isKnown && STREAM_ARN.exec(streamArn)?.[1] !== tableArn) {
    throw new ConfigurationError(
      'table.existing.streamArn',
      streamArn,
      `is not a stream of the table ${tableArn}`,
      'Take both from one `aws dynamodb describe-table`.',
    );
  }
  for (const field of ['expectedJobsPerSecond', 'deletionProtection'] as const) {
    if (options[field] === undefined) continue;
    throw new ConfigurationError(
      `table.${field}`,
      options[field],
      'is for a table that this stack creates, but table.existing names an existing one',
      `Leave ${field} out, and set it on the table itself.`,
    );
  }
}

/**
 * Returns the throughput for which the table is warmed. Undefined: the throughput of a new table is enough. DynamoDB
 * refuses a smaller value than that.
 */
function warmThroughput(
  jobsPerSecond: number | undefined,
): { readonly table: WarmThroughput; readonly index: WarmThroughput } | undefined {
  if (jobsPerSecond === undefined) return undefined;
  const warm = (reads: number, writes: number): WarmThroughput => ({
    readUnitsPerSecond: Math.max(NEW_TABLE.reads, Math.ceil(jobsPerSecond * reads)),
    writeUnitsPerSecond: Math.max(NEW_TABLE.writes, Math.ceil(jobsPerSecond * writes)),
  });
  const { tableReads, tableWrites, indexReads, indexWrites } = UNITS_OF_JOB;
  if (jobsPerSecond * tableWrites <= NEW_TABLE.writes) return undefined;
  return { table: warm(tableReads, tableWrites), index: warm(indexReads, indexWrites) };
}
