/** The suite of the core on SQLite: two connections to one file, as two processes have them. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NOW_MS } from '../../fixtures/factories/job.ts';
import { suitePlace } from '../harness.ts';
import { coreStoreContract } from '../job-store.ts';
import { openSqliteStore } from './store.ts';

coreStoreContract('SQLite', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fairlead-sqlite-'));
  let clockMs = NOW_MS;
  const options = { path: join(folder, 'jobs.db'), clock: () => clockMs, place: suitePlace };
  const [one, other] = [openSqliteStore(options), openSqliteStore(options)];
  return {
    store: one.store,
    another: other.store,
    setClock: (nowMs) => {
      clockMs = nowMs;
    },
    close: async () => {
      one.close();
      other.close();
      await rm(folder, { recursive: true });
    },
  };
});
