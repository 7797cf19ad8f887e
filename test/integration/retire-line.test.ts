/** Retiring one of several lines of a key takes two requests: what comes between them counts. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobMode } from '../../lib/core/job.ts';
import { RETIRED_KEPT_MS } from '../../lib/store/contract/bounds.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { backlogKey } from '../../lib/store/table/schema.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aReadyLine } from '../fixtures/factories/ready-line.ts';

const WAIT_MS = 60_000;

/** Does something before a request goes out: the second of those that follow, unless there is none. */
function interrupter(client: DynamoDBClient): { readonly beforeSecond: (act: () => Promise<void>) => void } {
  let requests = 0;
  let pending: (() => Promise<void>) | undefined;
  client.middlewareStack.add(
    (next) => async (args) => {
      requests += 1;
      const act = pending;
      if (act !== undefined && requests === 2) {
        pending = undefined;
        await act();
      }
      return next(args);
    },
    { step: 'initialize', name: 'interrupt' },
  );
  return {
    beforeSecond: (act) => {
      requests = 0;
      pending = act;
    },
  };
}

describe("retiring one of a key's lines", () => {
  let table: TestTable;
  let store: DynamoJobStore;
  let requests: ReturnType<typeof interrupter>;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable();
    requests = interrupter(table.client);
    store = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  }, WAIT_MS);
  afterAll(async () => {
    await table?.drop();
  });

  const line = aReadyLine({ fairnessKey: 'k' });
  const modesLeft = async (): Promise<readonly string[] | undefined> => {
    const [backlog] = await store.readBacklogs({ partition, type: line.type, fairnessKeys: ['k'] });
    return backlog?.lines.map(({ mode }) => mode);
  };
  const announce = (mode: JobMode, nowMs: number) =>
    store.announceLines({ partition, lines: [{ ...line, mode }], nowMs });
  const retire = (mode: JobMode) =>
    store.retireLine({ partition, line: { ...line, mode }, announcedAtMs: NOW_MS });
  const other = 'onDemand';

  /** Retires one of two lines, and does something between the two requests. */
  const retireWhile = async (between: () => Promise<unknown>): Promise<'retired' | 'lost'> => {
    partition += 1;
    for (const mode of [line.mode, other] as const) await announce(mode, NOW_MS);
    let isBetween = false;
    requests.beforeSecond(async () => {
      isBetween = true;
      await between();
    });
    const outcome = await retire(line.mode);
    expect(isBetween).toBe(true);
    return outcome;
  };

  it('lets the entry be collected with the last one, until a line is announced again', async () => {
    partition += 1;
    const collectedAtSec = async (): Promise<unknown> => {
      const Key = backlogKey(partition, line.type, 'k');
      const { Item } = await DynamoDBDocumentClient.from(table.client).send(
        new GetCommand({ TableName: table.table, Key, ConsistentRead: true }),
      );
      return Item?.ttl;
    };
    await announce('queued', NOW_MS);
    expect(await collectedAtSec()).toBeUndefined();
    await retire('queued');
    expect(await collectedAtSec()).toBe((NOW_MS + RETIRED_KEPT_MS) / 1_000);
    await announce('queued', NOW_MS + 1);
    expect(await collectedAtSec()).toBeUndefined();
  });

  it('takes two requests, and leaves the others when nobody comes between', async () => {
    expect(await retireWhile(async () => {})).toBe('retired');
    expect(await modesLeft()).toEqual([other]);
  });

  it.each([line.mode, other] as const)(
    'is lost to an announcement of %s that comes between',
    async (mode) => {
      expect(await retireWhile(() => announce(mode, NOW_MS + 1))).toBe('lost');
      expect(await modesLeft()).toEqual([other, line.mode]);
      const { keys } = await store.readKeys({ partition, type: line.type, limit: 10 });
      expect(keys.map(({ announcedAtMs }) => announcedAtMs)).toEqual([NOW_MS + 1]);
    },
  );

  it('leaves nothing when the other one is retired between', async () => {
    expect(await retireWhile(() => retire(other))).toBe('retired');
    expect(await modesLeft()).toBeUndefined();
  });

  it('takes one request for the last one', async () => {
    partition += 1;
    await announce(line.mode, NOW_MS);
    let isSecond = false;
    requests.beforeSecond(async () => {
      isSecond = true;
    });
    expect(await retire(line.mode)).toBe('retired');
    expect(isSecond).toBe(false);
    expect(await modesLeft()).toBeUndefined();
  });
});
