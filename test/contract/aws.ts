/** What the conformance suites on AWS share: clients for the endpoint under test, and a table as the stack makes it. */
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  waitUntilTableExists,
} from '@aws-sdk/client-dynamodb';
import { TABLE } from '../../lib/store/schema.ts';

const KEYS = [TABLE.partitionKey, TABLE.sortKey, TABLE.line, TABLE.rank];
const TABLE_WAIT_SEC = 60;

/** The emulator under test; undefined where none was started. */
export const endpoint = process.env.FAIRLEAD_TEST_ENDPOINT;

export const clientConfiguration = {
  ...(endpoint === undefined ? {} : { endpoint }),
  region: 'us-east-1',
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
};

let named = 0;

/** A name that nothing else on the endpoint has. */
export function freshName(kind: string): string {
  named += 1;
  return `fairlead-${kind}-${process.pid}-${Date.now()}-${named}`;
}

export interface TestTable {
  readonly client: DynamoDBClient;
  readonly table: string;
  readonly drop: () => Promise<void>;
}

export async function createTable(): Promise<TestTable> {
  const client = new DynamoDBClient(clientConfiguration);
  const table = freshName('table');
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: KEYS.map((AttributeName) => ({ AttributeName, AttributeType: 'S' })),
      KeySchema: [
        { AttributeName: TABLE.partitionKey, KeyType: 'HASH' },
        { AttributeName: TABLE.sortKey, KeyType: 'RANGE' },
      ],
      GlobalSecondaryIndexes: [
        {
          IndexName: TABLE.linesIndex,
          KeySchema: [
            { AttributeName: TABLE.line, KeyType: 'HASH' },
            { AttributeName: TABLE.rank, KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'ALL' },
        },
      ],
    }),
  );
  await waitUntilTableExists({ client, maxWaitTime: TABLE_WAIT_SEC, minDelay: 1 }, { TableName: table });
  return {
    client,
    table,
    drop: async () => {
      await client.send(new DeleteTableCommand({ TableName: table }));
      client.destroy();
    },
  };
}
