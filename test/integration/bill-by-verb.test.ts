/**
 * What each verb costs: what the store in memory says a table would bill, beside what an emulator says it has. `bench:cloud` and
 * `fairlead simulate` count by the former, so a write that it forgets would make every figure of ours too good.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCostMeter } from '../../bench/metering/meter.ts';
import type { JobStore } from '../../lib/store/contract/verbs.ts';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { MemoryJobStore } from '../../lib/store/memory/store.ts';
import type { Usage } from '../../lib/store/table/metering.ts';
import { createTable, type TestTable } from '../contract/aws.ts';
import { SUITE_TYPE, suitePlace } from '../contract/harness.ts';
import { SCENES, type Scenes, type Stage } from '../contract/scenes.ts';
import { aCommit } from '../fixtures/factories/commit.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';
import { aLedger, anEstimate } from '../fixtures/factories/ledger.ts';
import { aReadyLine } from '../fixtures/factories/ready-line.ts';
import { seeded } from '../simulation/random.ts';

type Verb = keyof JobStore;

/** What is not compared, and why. */
const UNLIKE: Partial<Record<Verb, string>> = {
  discardSchedule: 'in memory, nothing is damaged by writing it',
  listRejections: 'an operator reads them',
  readRejections: 'an operator reads them',
  readTagged: 'an operator reads them',
  listUnreadable: 'an operator reads them',
  readDeadLetters: 'an operator reads them',
  readFinished: 'an operator reads them',
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

const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => make(at));

/** What many keys take, which would be slow wherever each request of a scene is meddled with. */
const nothingLeft = async (): Promise<undefined> => undefined;
const LONG = 'n'.repeat(480);
/** Most of so many long names have no room with the partition. */
const MANY_NAMES = times(1_300, (at) => `${String(at).padStart(6, '0')}/${LONG}`);
const MANY_RESOURCES = times(320, (at) => `resource-${at}`);

async function charge({ store, partition }: Stage, names: readonly string[]): Promise<void> {
  for (let from = 0; from < names.length; from += 90) {
    const ledgers = names.slice(from, from + 90).map((fairnessKey) => aLedger({ fairnessKey }));
    await store.commit({ partition, commit: aCommit({ version: from / 90, ledgers }) });
  }
}

/** Keys that were charged after they got their place in their line, which was read since. */
async function trailingKeys(stage: Stage): Promise<readonly string[]> {
  const { store, partition } = stage;
  const names = times(260, (at) => `tenant-${at}`);
  const lines = names.map((fairnessKey) => aReadyLine({ fairnessKey }));
  await store.announceLines({ partition, lines, nowMs: NOW_MS });
  await charge(stage, names);
  // Not to its end, or where they stand would not matter.
  await store.readKeys({ partition, type: SUITE_TYPE, limit: 200 });
  return names;
}

const MANY: Partial<Record<Verb, readonly Scenes[]>> = {
  getLedgers: [
    {
      name: 'of many keys',
      set: async (stage) => {
        await charge(stage, MANY_NAMES);
        const fairnessKeys = [...MANY_NAMES.slice(100, 900), ...times(150, (at) => `stranger-${at}`)];
        const { store, partition } = stage;
        return { call: () => store.getLedgers({ partition, fairnessKeys }), left: nothingLeft };
      },
    },
    {
      name: 'of many keys far from each other',
      set: async (stage) => {
        await charge(stage, MANY_NAMES);
        const fairnessKeys = times(260, (at) => MANY_NAMES[at * 5] ?? '');
        const { store, partition } = stage;
        return { call: () => store.getLedgers({ partition, fairnessKeys }), left: nothingLeft };
      },
    },
  ],
  readBacklogs: [
    {
      name: 'of many keys',
      set: async ({ store, partition }) => {
        const lines = times(450, (at) => aReadyLine({ fairnessKey: `tenant-${at}` }));
        await store.announceLines({ partition, lines, nowMs: NOW_MS });
        const fairnessKeys = times(700, (at) => `tenant-${at}`);
        return {
          call: () => store.readBacklogs({ partition, type: SUITE_TYPE, fairnessKeys }),
          left: nothingLeft,
        };
      },
    },
  ],
  getEstimates: [
    {
      name: 'of many resources',
      set: async ({ store, partition }) => {
        const estimates = MANY_RESOURCES.map((resourceId) => anEstimate({ resourceId }));
        for (let from = 0; from < estimates.length; from += 80) {
          const commit = aCommit({ version: from / 80, estimates: estimates.slice(from, from + 80) });
          await store.commit({ partition, commit });
        }
        const ids = ['', ...MANY_RESOURCES, 'none'].map((resourceId) => ({ type: SUITE_TYPE, resourceId }));
        return { call: () => store.getEstimates({ partition, ids }), left: nothingLeft };
      },
    },
  ],
  tidy: [
    {
      name: 'of keys whose ledgers were read together',
      set: async (stage) => {
        const { store, partition } = stage;
        const names = await trailingKeys(stage);
        for (let reads = 0; reads < 40; reads += 1)
          await store.getLedgers({ partition, fairnessKeys: names });
        return { call: () => store.tidy({ partition }), left: nothingLeft };
      },
    },
    {
      name: 'of keys whose ledgers were read one by one',
      set: async (stage) => {
        const { store, partition } = stage;
        const names = await trailingKeys(stage);
        for (let from = 0; from < names.length; from += 130)
          await store.getLedgers({ partition, fairnessKeys: names.slice(from, from + 130) });
        return { call: () => store.tidy({ partition }), left: nothingLeft };
      },
    },
  ],
  loadPartition: [
    {
      name: 'with a base of ledgers, for the process that wrote it',
      set: async (stage) => {
        const { store, partition } = stage;
        // The last commit has written the base.
        await charge(stage, MANY_NAMES.slice(0, 90));
        return { call: () => store.loadPartition({ partition, nowMs: NOW_MS }), left: nothingLeft };
      },
    },
  ],
};

const scenes = ([...Object.entries(SCENES), ...Object.entries(MANY)] as [Verb, readonly Scenes[]][])
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
