/** The conformance suite of the job store, with a client that meddles. `FAIRLEAD_MEDDLE_SEED` replays a failure. */
import { afterAll, expect, vi } from 'vitest';
import { DynamoJobStore } from '../../lib/store/dynamodb/store.ts';
import { createTable } from '../contract/aws.ts';
import { suitePlace } from '../contract/harness.ts';
import { jobStoreContract } from '../contract/job-store.ts';
import { hurriedRetries, type Meddling, meddle } from '../contract/meddler.ts';
import { persistent, seededPlan } from '../contract/meddling.ts';
import { NOW_MS } from '../fixtures/factories/job.ts';

const SEED = Number(process.env.FAIRLEAD_MEDDLE_SEED ?? 1);
const KINDS: readonly Meddling[] = [
  'refused',
  'unsent',
  'unanswered',
  'late',
  'limit',
  'isEmpty',
  'read',
  'lag',
];

// Each request may be several.
vi.setConfig({ testTimeout: 120_000 });

const times = new Map<Meddling, number>();

jobStoreContract(`DynamoDB with a client that meddles (seed ${SEED})`, async () => {
  const { client, table, drop } = await createTable({ retryStrategy: hurriedRetries() });
  const meddler = meddle({ client, table });
  meddler.follow(seededPlan(SEED, () => expect.getState().currentTestName ?? ''));
  let clockMs = NOW_MS;
  const open = () => {
    const options = { client, table, place: suitePlace, nowMs: () => clockMs, sleep: async () => {} };
    return persistent(new DynamoJobStore(options), meddler);
  };
  return {
    store: open(),
    another: open(),
    setClock: (nowMs) => {
      clockMs = nowMs;
    },
    close: async () => {
      meddler.follow({});
      for (const [kind, count] of meddler.times) times.set(kind, count);
      meddler.close();
      await drop();
    },
  };
});

afterAll(() => {
  for (const kind of KINDS) expect(times.get(kind) ?? 0, kind).toBeGreaterThan(0);
});
