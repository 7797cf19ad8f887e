/** The policies of the roles, and what the store asks of the table in their name: neither more nor less. */

import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { MalformedItemError } from '../../lib/store/contract/errors.ts';
import type { UnreadableItem } from '../../lib/store/contract/records.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { DynamoEndedJobs } from '../../lib/store/dynamodb/ended.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { TABLE } from '../../lib/store/table/schema.ts';
import { clientConfiguration, createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { type AskedByVerb, mayNot, refusedTo, unusedBy, watch } from '../contract/rights.ts';
import { ROLES, type RoleName } from '../contract/roles.ts';
import { SCENES } from '../contract/scenes.ts';
import { aJob, NOW_MS } from '../fixtures/factories/job.ts';
import { lineOf } from '../fixtures/factories/ready-line.ts';

const WAIT_MS = 120_000;
const ROLE_NAMES = Object.keys(ROLES) as RoleName[];
/** They leave spoiled items where they stand; a deployment fails with what is wrong. */
const READERS: readonly RoleName[] = ['read', 'submit', 'declare'];
const KEPT: ReadonlySet<string> = new Set([
  TABLE.partitionKey,
  TABLE.sortKey,
  TABLE.line,
  TABLE.rank,
  'partition',
]);

let table: TestTable;
let plain: DynamoDBClient;
let asked: AskedByVerb;
let askedOfSpoiled: AskedByVerb;
let isSpoiling = false;

beforeAll(async () => {
  table = await createTable();
  plain = new DynamoDBClient(clientConfiguration);
  const options = { table: table.table, place: suitePlace, nowMs: () => NOW_MS };
  const { watched, during, take } = watch(table.client);
  spoil(table.client, () => isSpoiling);
  const store = watched(new DynamoJobStore({ ...options, client: table.client }));
  const quiet = new DynamoJobStore({ ...options, client: plain });
  await playScenes(store, quiet, 2_001, false);
  const ended = new DynamoEndedJobs({ client: table.client, table: table.table, unreadable: () => {} });
  await during('endedJobs', () => ended.endedJobs({ sinceMs: 0, untilMs: NOW_MS }).next());
  asked = take();
  await playScenes(store, quiet, 6_001, true);
  askedOfSpoiled = take();
}, WAIT_MS);
afterAll(async () => {
  plain?.destroy();
  await table?.drop();
});

interface Answer {
  Item?: object;
  Attributes?: object;
  Items?: readonly object[];
  /** Of a batch of keys: by table. */
  Responses?: object;
}

/** Keys and lines are right, and nothing else. */
const spoiled = (item: object): object =>
  Object.fromEntries(
    Object.entries(item).map(([name, value]) => [name, KEPT.has(name) ? value : new Set(['spoiled'])]),
  );

/** Shows every item as somebody else may have spoiled it. */
function spoil(client: DynamoDBClient, isSo: () => boolean): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      const answer = await next(args);
      if (!isSo()) return answer;
      const output = answer.output as unknown as Answer;
      if (output.Item !== undefined) output.Item = spoiled(output.Item);
      if (output.Attributes !== undefined) output.Attributes = spoiled(output.Attributes);
      if (output.Items !== undefined) output.Items = output.Items.map(spoiled);
      if (output.Responses !== undefined) {
        output.Responses = Object.fromEntries(
          Object.entries(output.Responses as Readonly<Record<string, readonly object[]>>).map(
            ([name, items]) => [name, items.map(spoiled)],
          ),
        );
      }
      return answer;
    },
    { step: 'initialize', name: 'spoil', priority: 'high' },
  );
}

/** Each scene; if so, while everything that its verb reads is spoiled. */
async function playScenes(store: JobStore, quiet: JobStore, from: number, isSpoiled: boolean): Promise<void> {
  let partition = from;
  for (const { set } of Object.values(SCENES).flat()) {
    const scene = await set({ store, quiet, partition });
    partition += 2;
    isSpoiling = isSpoiled;
    try {
      await scene.call();
    } catch (error) {
      if (!isSpoiled || !(error instanceof MalformedItemError)) throw error;
    } finally {
      isSpoiling = false;
    }
  }
}

describe.each(ROLE_NAMES)('the policy of %s', (role) => {
  it('allows all that its verbs ask of the table', () => {
    expect(refusedTo(role, asked)).toEqual([]);
  });

  it.skipIf(READERS.includes(role))('allows to set aside what cannot be read', () => {
    expect(refusedTo(role, askedOfSpoiled)).toEqual([]);
  });

  it('allows nothing that none of its verbs asks', () => {
    const both = new Set(unusedBy(role, asked));
    const unused = unusedBy(role, askedOfSpoiled).filter((right) => both.has(right));
    expect(unused).toEqual([]);
  });
});

it('lets a reader who meets a spoiled item read the others, and leaves it where it stands', async () => {
  const { client, table: name, drop } = await createTable();
  try {
    const partition = 9_001;
    const jobs = [aJob({ partition }), aJob({ partition })];
    const options = { table: name, place: suitePlace, nowMs: () => NOW_MS };
    await new DynamoJobStore({ ...options, client: plain }).createJobs(jobs);
    const { watched } = watch(client, mayNot('read'));
    spoil(client, () => true);
    const told: UnreadableItem[] = [];
    const reader = new DynamoJobStore({ ...options, client, unreadable: (item) => told.push(item) });
    const [first] = jobs;
    if (first === undefined) throw new Error('no job');
    const page = await watched(reader).readLine({ partition, line: lineOf(first), limit: 10 });
    expect(page.jobs).toEqual([]);
    expect(told.map(({ key }) => key).sort()).toEqual(jobs.map(({ id }) => `job/${id} job`).sort());
    for (const { reason } of told) expect(reason).toMatch(/this role may not take it out of its line/);
    const others = new DynamoJobStore({ ...options, client: plain });
    expect((await others.readLine({ partition, line: lineOf(first), limit: 10 })).jobs).toHaveLength(2);
  } finally {
    await drop();
  }
});
