/** The one table: jobs, partitions, ledgers. Keys and names come from the schema that the stores use. */
import { RemovalPolicy } from 'aws-cdk-lib';
import {
  AttributeType,
  Billing,
  type CfnGlobalTable,
  ProjectionType,
  StreamViewType,
  TableV2,
  type WarmThroughput,
} from 'aws-cdk-lib/aws-dynamodb';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Construct } from 'constructs';
import { ConfigurationError } from '../lib/core/errors.ts';
import { readObject } from '../lib/core/read-fields.ts';
import { PROJECTED, TABLE } from '../lib/store/schema.ts';

/** What may be said of the table. */
export interface TableOptions {
  /**
   * Jobs that are to be taken and finished each second from the first minute on: the table and its index are made
   * ready for them. DynamoDB grows with its load by itself, but takes minutes to do so.
   * @default - what a new table takes: some 1,300 jobs a second
   */
  readonly expectedJobsPerSecond?: number | undefined;
  /**
   * Nobody can delete the table, by the stack or otherwise, before this is taken away.
   * @default false
   */
  readonly deletionProtection?: boolean | undefined;
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

export function schedulerTable(scope: Construct, id: string, props: SchedulerTableProps): TableV2 {
  const { expectedJobsPerSecond, deletionProtection = false, encryptionKey } = props;
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
  return table;
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
  readObject('table', options, ['expectedJobsPerSecond', 'deletionProtection', 'replicas']);
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
