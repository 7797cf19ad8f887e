/** The one table: jobs, partitions, ledgers. Keys and names come from the schema that the stores use. */

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

/** A table with the keys, the index and the stream that a scheduler's table has. */
export interface ExistingTable {
  readonly tableArn: string;
  /** Of its stream, with new and old images: a table that was restored has none until it is turned on. */
  readonly streamArn: string;
}

/** What may be said of the table. */
export interface TableOptions {
  /**
   * Jobs that are to be taken and finished each second from the first minute on: the table and its index are made
   * ready for them. DynamoDB grows with its load by itself, but takes minutes to do so. It never shrinks: a later deployment may raise this, and
   * a value below what the table has reached is refused. Leave it out once it has served.
   * @default - what a new table takes: some 1,300 jobs a second
   */
  readonly expectedJobsPerSecond?: number | undefined;
  /**
   * Nobody can delete the table, by the stack or otherwise, before this is taken away.
   * @default false
   */
  readonly deletionProtection?: boolean | undefined;
  /**
   * A table that another deployment has left, or that was restored from a backup, with everything in it: jobs that wait go on. See
   * docs/restore.md. This stack neither makes nor deletes it.
   * @default - a table of its own
   */
  readonly existing?: ExistingTable | undefined;
  /** Refused: see docs/security.md. It stands here to say why. */
  readonly replicas?: undefined;
}

export interface SchedulerTableProps extends TableOptions {
  /** @default RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE */
  readonly removalPolicy?: RemovalPolicy | undefined;
  readonly encryptionKey?: IKey | undefined;
}

/** Units that one job takes of the table and of its index, from its submission to its end; see docs/cost-and-speed.md. */
const UNITS_OF_JOB = { tableWrites: 5, indexWrites: 3, tableReads: 3, indexReads: 2 } as const;

/** What a new table on demand takes at once, without being asked. */
const NEW_TABLE = { reads: 12_000, writes: 4_000 } as const;

/** What an account may ask of one table on demand, unless AWS has raised it. */
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
  // Sparse: an item is in it only while it stands in a line.
  table.addGlobalSecondaryIndex({
    indexName: TABLE.linesIndex,
    partitionKey: { name: TABLE.line, type: AttributeType.STRING },
    sortKey: { name: TABLE.rank, type: AttributeType.STRING },
    projectionType: ProjectionType.INCLUDE,
    nonKeyAttributes: [...PROJECTED],
    ...(warm === undefined ? {} : { warmThroughput: warm.index }),
  });
  // The library's own types are looser than ours about absent properties.
  return table as ITableV2;
}

/** By overrides: what the library has for it refuses stacks that do not name their region. */
function encrypt(table: TableV2, key: IKey): void {
  const resource = table.node.defaultChild as CfnGlobalTable;
  resource.addPropertyOverride('SSESpecification', { SSEEnabled: true, SSEType: 'KMS' });
  resource.addPropertyOverride('Replicas.0.SSESpecification', { KMSMasterKeyId: key.keyArn });
}

/**
 * @throws ConfigurationError for options that the table cannot have.
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
      'cannot be: between regions the last write wins, so two dispatchers would each commit to one partition, and caps and exclusions would not hold',
      'Deploy a scheduler in each region, and let producers choose one; keep a copy with backups.',
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
      `must be above 0 and at most ${MOST_JOBS_PER_SECOND}: a job takes ${UNITS_OF_JOB.tableWrites} write units of the table, and the quota "${QUOTA.name}" is ${QUOTA.units} a second`,
      'Divide the work among several schedulers, or have the quota raised and the table warmed by hand.',
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
      `is not of the table ${tableArn}`,
      'Take both from one `aws dynamodb describe-table`.',
    );
  }
  for (const field of ['expectedJobsPerSecond', 'deletionProtection'] as const) {
    if (options[field] === undefined) continue;
    throw new ConfigurationError(
      `table.${field}`,
      options[field],
      'is for a table that this stack makes, and table.existing names one that is there',
      `Leave ${field} out, and set it on the table itself.`,
    );
  }
}

/** Undefined: as much as a new table takes is enough. Less than that cannot be asked for. */
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
