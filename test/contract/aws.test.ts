/** The conformance suites on AWS, as the emulator at FAIRLEAD_TEST_ENDPOINT plays it. */
import { describe } from 'vitest';
import { encodeControl, encodeWorkerRecord } from '../../lib/store/dynamodb/codec.ts';
import { DynamoConnection } from '../../lib/store/dynamodb/connection.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { createTable, endpoint } from './aws.ts';
import { suitePlace } from './harness.ts';
import { jobStoreContract } from './job-store.ts';

describe.skipIf(endpoint === undefined)('on AWS', () => {
  jobStoreContract('DynamoDB', async () => {
    const { client, table, drop } = await createTable();
    const connection = new DynamoConnection({ client, table });
    return {
      store: new DynamoJobStore({ client, table, place: suitePlace, nowMs: () => NOW_MS }),
      putWorker: async (partition, worker) => {
        await connection.put('putWorker', { item: encodeWorkerRecord(partition, worker) });
      },
      putControl: async (partition, control) => {
        await connection.put('putControl', { item: encodeControl(partition, control) });
      },
      close: drop,
    };
  });
});
