/** Retiring the last line of a key takes two requests: what comes between them counts. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobMode } from '../../lib/core/job.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
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

describe("retiring a key's last line", () => {
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
  /** Announces a line at first, and others between the two requests that retire it. */
  const retireWhile = async (...announced: readonly JobMode[]): Promise<'retired' | 'lost'> => {
    partition += 1;
    await store.announceLines({ partition, lines: [line], nowMs: NOW_MS });
    let isBetween = false;
    requests.beforeSecond(async () => {
      isBetween = true;
      for (const mode of announced)
        await store.announceLines({ partition, lines: [{ ...line, mode }], nowMs: NOW_MS + 1 });
    });
    const outcome = await store.retireLine({ partition, line, announcedAtMs: NOW_MS });
    expect(isBetween).toBe(true);
    return outcome;
  };

  it('takes two requests, and leaves nothing when nobody comes between', async () => {
    expect(await retireWhile()).toBe('retired');
    expect(await modesLeft()).toBeUndefined();
  });

  it('is lost to an announcement of that line that comes between', async () => {
    expect(await retireWhile(line.mode)).toBe('lost');
    expect(await modesLeft()).toEqual([line.mode]);
    const { keys } = await store.readKeys({ partition, type: line.type, limit: 10 });
    expect(keys.map(({ announcedAtMs }) => announcedAtMs)).toEqual([NOW_MS + 1]);
  });

  it('keeps another line that is announced between', async () => {
    expect(await retireWhile('onDemand')).toBe('lost');
    expect(await modesLeft()).toEqual(['onDemand', line.mode]);
  });
});
