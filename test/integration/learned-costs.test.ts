/** What resources cost follows a commit, each in a write of its own: hints, which never fail it and never go back. */
import { type DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { encodeEstimate } from '../../lib/store/dynamodb/codec/estimate.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { estimateKey } from '../../lib/store/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';

const WAIT_MS = 60_000;
const RESOURCE = 'printer';

/** What comes before a learned cost is put. */
type Meanwhile = () => Promise<void>;

function beforeEstimates(client: DynamoDBClient): (next: Meanwhile | undefined) => void {
  let planned: Meanwhile | undefined;
  client.middlewareStack.add(
    (send, { commandName = '' }) =>
      async (args) => {
        const { body } = args.request as { readonly body: Uint8Array };
        if (/^PutItem/.test(commandName) && Buffer.from(body).includes('"cost/')) await planned?.();
        return send(args);
      },
    { step: 'deserialize', name: 'beforeEstimates', priority: 'low' },
  );
  return (next) => {
    planned = next;
  };
}

describe('what a resource costs', () => {
  let table: TestTable;
  let meanwhile: (planned: Meanwhile | undefined) => void;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable({ maxAttempts: 1 });
    meanwhile = beforeEstimates(table.client);
  }, WAIT_MS);
  beforeEach(() => {
    partition += 1;
    meanwhile(undefined);
  });
  afterAll(() => table?.drop());

  const process = (): DynamoJobStore =>
    new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  const learned = (meanMs: number, turn?: number) =>
    aCommit({ turn, estimates: [anEstimate({ resourceId: RESOURCE, meanMs })] });
  const known = async (): Promise<number | undefined> => {
    const ids = [{ type: 'resize', resourceId: RESOURCE }];
    return (await process().getEstimates({ partition, ids }))[0]?.meanMs;
  };
  const leased = async (store: DynamoJobStore) => {
    const { epoch } = await store.acquireLease({ partition, holder: 'one', nowMs: NOW_MS, leaseMs: 1_000 });
    return { partition, epoch };
  };

  it('is not what a process wrote late that was overtaken after its commit', async () => {
    const [slow, fast] = [process(), process()];
    const fence = await leased(slow);
    meanwhile(async () => {
      meanwhile(undefined);
      expect(await fast.commit({ fence, commit: learned(900) })).toBe('committed');
    });
    expect(await slow.commit({ fence, commit: learned(100) })).toBe('committed');
    expect(await known()).toBe(900);
    // And whoever comes after both writes over it.
    expect(await process().commit({ fence, commit: learned(500) })).toBe('committed');
    expect(await known()).toBe(500);
  });

  it('is learned again where it was not written: the commit stands', async () => {
    const store = process();
    const fence = await leased(store);
    meanwhile(async () => {
      throw Object.assign(new Error('too many'), { name: 'ThrottlingException', $metadata: {} });
    });
    const commit = aCommit({ ...learned(100), ledgers: [aLedger({ settledCostMs: 7 })] });
    expect(await store.commit({ fence, commit })).toBe('committed');
    meanwhile(undefined);
    const { ledgers, turn } = await process().loadPartition({ partition, nowMs: NOW_MS });
    expect([turn, ledgers, await known()]).toEqual([1, [aLedger({ settledCostMs: 7 })], undefined]);
    expect(await store.commit({ fence, commit: learned(200, turn) })).toBe('committed');
    expect(await known()).toBe(200);
  });

  it('is not written by a commit that is refused', async () => {
    const [one, two] = [process(), process()];
    const fence = await leased(one);
    await two.loadPartition({ partition, nowMs: NOW_MS });
    await one.commit({ fence, commit: learned(100) });
    await expect(two.commit({ fence, commit: learned(900, 0) })).rejects.toMatchObject({
      name: 'StaleCommit',
    });
    expect(await known()).toBe(100);
  });

  it('takes the place of what an earlier version wrote, which says no turn', async () => {
    const earlier = anEstimate({ resourceId: RESOURCE, meanMs: 5 });
    const { n: _turn, ...item } = encodeEstimate(estimateKey(partition, 'resize', RESOURCE), earlier, 0);
    await table.client.send(new PutItemCommand({ TableName: table.table, Item: marshall(item) }));
    expect(await known()).toBe(5);
    const store = process();
    expect(await store.commit({ fence: await leased(store), commit: learned(6) })).toBe('committed');
    expect(await known()).toBe(6);
  });
});
