/**
 * The core of a job store on SQLite, the shortest description of what its verbs mean. It is not shipped: it proves that the core
 * needs nothing but transactions and an ordered index.
 */
import { composeStore } from '../../../lib/store/contract/compose.ts';
import type { CoreStore } from '../../../lib/store/contract/core.ts';
import { Database, type SqliteStoreOptions } from './database.ts';
import { SqliteJobs } from './jobs.ts';
import { SqliteLines } from './lines.ts';
import { SqlitePartitions } from './partition.ts';

export function openSqliteStore(options: SqliteStoreOptions) {
  const database = new Database(options);
  const parts = [
    new SqliteJobs(database),
    new SqliteLines(database),
    new SqlitePartitions(database),
  ] as const;
  const store: CoreStore = composeStore(...parts);
  return { store, close: () => database.close() };
}
