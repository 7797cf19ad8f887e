/** What resources cost follows a commit, each in a write of its own: hints, which never fail it and never go back. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
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
  const learned = (version: number, meanMs: number) =>
    aCommit({ version, estimates: [anEstimate({ resourceId: RESOURCE, meanMs })] });
  const known = async (): Promise<number | undefined> => {
    const ids = [{ type: 'resize', resourceId: RESOURCE }];
    return (await process().getEstimates({ partition, ids }))[0]?.meanMs;
  };
  it('is not what a process wrote late that was overtaken after its commit', async () => {
    const [slow, fast] = [process(), process()];
    meanwhile(async () => {
      meanwhile(undefined);
      expect(await fast.commit({ partition, commit: learned(1, 900) })).toBe('committed');
    });
    expect(await slow.commit({ partition, commit: learned(0, 100) })).toBe('committed');
    expect(await known()).toBe(900);
    // And a commit after both writes over it.
    expect(await process().commit({ partition, commit: learned(2, 500) })).toBe('committed');
    expect(await known()).toBe(500);
  });

  it('is learned again where it was not written: the commit stands', async () => {
    const store = process();
    meanwhile(async () => {
      throw Object.assign(new Error('too many'), { name: 'ThrottlingException', $metadata: {} });
    });
    const commit = aCommit({ ...learned(0, 100), ledgers: [aLedger({ settledCostMs: 7 })] });
    expect(await store.commit({ partition, commit })).toBe('committed');
    meanwhile(undefined);
    const { ledgers, version } = await process().loadPartition({ partition, nowMs: NOW_MS });
    expect([version, ledgers, await known()]).toEqual([1, [aLedger({ settledCostMs: 7 })], undefined]);
    expect(await store.commit({ partition, commit: learned(version, 200) })).toBe('committed');
    expect(await known()).toBe(200);
  });

  it('is not written by a commit that is lost', async () => {
    const [one, two] = [process(), process()];
    await two.loadPartition({ partition, nowMs: NOW_MS });
    await one.commit({ partition, commit: learned(0, 100) });
    expect(await two.commit({ partition, commit: learned(0, 900) })).toBe('lost');
    expect(await known()).toBe(100);
  });
});
