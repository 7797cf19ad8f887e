/**
 * What each verb costs: what the store in memory says a table would bill, beside what an emulator says it has. `bench:cloud` and
 * `fairlead simulate` count by the former, so a write that it forgets would make every figure of ours too good.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCostMeter } from '../../bench/metering/meter.ts';
import type { JobStore } from '../../lib/store/contract.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import type { Usage } from '../../lib/store/metering.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { SCENES, type Scenes } from '../contract/scenes.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { seeded } from '../simulation/random.ts';

type Verb = keyof JobStore;

/** What is not compared, and why. */
const UNLIKE: Partial<Record<Verb, string>> = {
  discardSchedule: 'in memory, nothing is damaged by writing it',
  listRejections: 'an operator reads them',
  listUnreadable: 'an operator reads them',
  readDeadLetters: 'an operator reads them',
  readDeclaration: 'a process reads it once',
  putDeclaration: 'a deployment puts one',
};
/** Emulators do not say what a batch of gets has read. */
const READS_UNTOLD: ReadonlySet<string> = new Set<Verb>([
  'getJobs',
  'getSchedules',
  'lookUpJobs',
  'readBacklogs',
  'getLedgers',
  'getEstimates',
  'readParked',
  'readLocks',
]);
/** Others than the embedded one count transactions each in its own way. */
const isOurEmulator = process.env.FAIRLEAD_TEST_ENDPOINT === undefined;
const IN_TRANSACTIONS: ReadonlySet<string> = new Set<Verb>([
  'putSchedule',
  'deleteSchedule',
  'commit',
  'park',
  'claim',
  'redrive',
]);
/** Of claims that go out together, they count a unit each, or say nothing. */
const isUntold = (verb: string, { name }: Scenes): boolean => verb === 'claim' && name === 'together';

const scenes = (Object.entries(SCENES) as [Verb, readonly Scenes[]][])
  .filter(([verb]) => UNLIKE[verb] === undefined)
  .flatMap(([verb, ofVerb]) =>
    ofVerb
      .filter((scene) => !isUntold(verb, scene))
      .map((scene) => ({ verb, scene, title: `${verb} ${scene.name ?? ''}`.trim() })),
  );

let table: TestTable;
let stored: DynamoJobStore;
let metered: DynamoJobStore;
const meters = { memory: createCostMeter(), table: createCostMeter() };
const memory = new MemoryJobStore({ clock: () => NOW_MS, random: seeded(1), place: suitePlace });
let partition = 0;

beforeAll(async () => {
  table = await createTable();
  const options = { client: table.client, table: table.table, place: suitePlace, nowMs: () => NOW_MS };
  stored = new DynamoJobStore(options);
  metered = new DynamoJobStore({ ...options, meter: meters.table.store });
  memory.meter = meters.memory.store;
});
afterAll(() => table?.drop());

/** What the call of a scene has used. */
async function usedBy(verb: Verb, scene: Scenes, on: 'memory' | 'table'): Promise<Usage> {
  const [store, quiet] = on === 'memory' ? [memory, memory] : [metered, stored];
  partition += 2;
  const { call } = await scene.set({ store, quiet, partition });
  const before = meters[on].counts(verb);
  // Some scenes are of what is refused.
  await call().catch(() => {});
  const { writeUnits, readUnits, storeRequests } = meters[on].counts(verb);
  return {
    writeUnits: !isOurEmulator && IN_TRANSACTIONS.has(verb) ? 0 : writeUnits - before.writeUnits,
    readUnits: READS_UNTOLD.has(verb) ? 0 : readUnits - before.readUnits,
    requests: storeRequests - before.storeRequests,
  };
}

describe('the bill of each verb', () => {
  it.each(scenes)('is the same in memory and on the table: $title', async ({ verb, scene }) => {
    const inMemory = await usedBy(verb, scene, 'memory');
    expect(inMemory).toEqual(await usedBy(verb, scene, 'table'));
    expect(inMemory.requests).toBeGreaterThan(0);
  });
});
