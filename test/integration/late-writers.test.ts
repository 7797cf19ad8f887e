/** A write that comes late, or a second time, after somebody else has written: it undoes nothing. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ControlChange } from '../../lib/store/contract/requests.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { settingsOf } from '../fixtures/controls.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';

const WAIT_MS = 60_000;

type Fate =
  /** Its sender stands still before it is sent. */
  | 'late'
  /** Its answer gets lost, and the SDK sends it again. */
  | 'again';

/** Does this to the next write; meanwhile others write. */
function stragglers(client: DynamoDBClient) {
  let next: { readonly fate: Fate; readonly meanwhile: () => Promise<void> } | undefined;
  client.middlewareStack.add(
    (send, { commandName = '' }) =>
      async (args) => {
        const planned = /^(Update|Put)Item/.test(commandName) ? next : undefined;
        if (planned === undefined) return send(args);
        next = undefined;
        if (planned.fate === 'again') await send(args);
        await planned.meanwhile();
        return send(args);
      },
    { step: 'deserialize', name: 'straggle', priority: 'low' },
  );
  return (fate: Fate, meanwhile: () => Promise<void>): void => {
    next = { fate, meanwhile };
  };
}

describe.each<Fate>(['late', 'again'])('a write that comes %s', (fate) => {
  let table: TestTable;
  let store: DynamoJobStore;
  let straggle: ReturnType<typeof stragglers>;
  let partition = 0;

  beforeAll(async () => {
    table = await createTable();
    straggle = stragglers(table.client);
    store = new DynamoJobStore({ ...table, place: suitePlace, nowMs: () => NOW_MS });
  }, WAIT_MS);
  beforeEach(() => {
    partition += 1;
  });
  afterAll(() => table?.drop());

  const change = async (of: ControlChange) => {
    const outcome = await store.changeControl({ partition, scope: 'type/resize', change: of });
    return { ...outcome, control: settingsOf(outcome.control) };
  };
  const controls = async () =>
    (await store.loadPartition({ partition, nowMs: NOW_MS })).controls.map(settingsOf);

  it('does not pause again what somebody has resumed since', async () => {
    straggle(fate, async () => {
      await change({ paused: true });
      await change({ paused: false });
    });
    expect(await change({ paused: true })).toEqual({
      kind: 'superseded',
      control: { scope: 'type/resize', paused: false },
    });
    expect(await controls()).toEqual([]);
  });

  it('does not put an older cap over a newer one, nor take that away', async () => {
    await change({ maxConcurrency: 9 });
    const newer = { scope: 'type/resize', paused: false, maxConcurrency: 3 };
    for (const maxConcurrency of [20, null]) {
      straggle(fate, async () => {
        await change({ maxConcurrency: 5 });
        await change({ maxConcurrency: 3 });
      });
      expect(await change({ maxConcurrency })).toEqual({ kind: 'superseded', control: newer });
      expect(await controls()).toEqual([newer]);
    }
  });

  it('counts, if others have changed something else, or the same to what it wants', async () => {
    straggle(fate, async () => {
      await change({ maxConcurrency: 3 });
    });
    expect((await change({ paused: true })).kind).toBe('changed');
    straggle(fate, async () => {
      await change({ maxConcurrency: 7 });
    });
    const both = { scope: 'type/resize', paused: true, maxConcurrency: 7 };
    expect(await change({ maxConcurrency: 7 })).toEqual({ kind: 'changed', control: both });
    expect(await controls()).toEqual([both]);
  });

  it('leaves a newer mark of parked jobs: nobody who saw the older one takes it away', async () => {
    straggle(fate, () => store.markParked({ partition, conflictKeys: ['album/cats'], nowMs: NOW_MS + 50 }));
    await store.markParked({ partition, conflictKeys: ['album/cats'], nowMs: NOW_MS });
    const outdated = { conflictKey: 'album/cats', parkedAtMs: NOW_MS };
    expect(await store.unmarkParked({ partition, mark: outdated })).toBe('superseded');
    expect(await store.readParked({ partition, conflictKeys: ['album/cats'] })).toEqual([
      { ...outdated, parkedAtMs: NOW_MS + 50 },
    ]);
  });
});
