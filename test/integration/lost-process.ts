/** A worker process of the tests that keeps a checkpoint and then works until it is killed; `next` only says what was kept. */
import { setTimeout as sleep } from 'node:timers/promises';
import { runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import type { JobHandler } from '../../lib/worker/run-job.ts';
import { note } from './journal.ts';

const [, , name = '', journal = ''] = process.argv;
const LONG_MS = 60_000;

const work: JobHandler = async (_, { jobId, signal, checkpoint, lastCheckpoint }) => {
  note(journal, { what: 'begin', jobId, by: name });
  if (name !== 'next') {
    await checkpoint({ by: name });
    note(journal, { what: 'kept', jobId, by: name });
    await sleep(LONG_MS, undefined, { signal });
  }
  return { after: lastCheckpoint ?? null };
};

await runFleetWorker({ long: work, short: work }, { slots: 2 });
