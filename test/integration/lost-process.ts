/**
 * A worker process of the tests, of declared jobs, that takes a step, keeps a checkpoint, and then works until it is killed; `next` only says
 * what was kept.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { defineJobs, type Json, job } from '../../lib/jobs/jobs.ts';
import { type HandlerOf, runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import { note } from './journal.ts';

const [, , name = '', journal = ''] = process.argv;
const LONG_MS = 60_000;

interface Kept {
  readonly after: unknown;
  readonly stepBy: string;
}
const definition = job<Json, Kept>();

const work: HandlerOf<typeof definition> = async (
  _,
  { jobId, signal, step, checkpoint, lastCheckpoint, client },
) => {
  const { id } = await client.get(jobId);
  const stepBy = await step('first', () => `${name} of ${id}`);
  note(journal, { what: 'begin', jobId, by: name });
  if (name !== 'next') {
    await checkpoint({ by: name });
    note(journal, { what: 'kept', jobId, by: name });
    await sleep(LONG_MS, undefined, { signal });
  }
  return { after: lastCheckpoint ?? null, stepBy };
};

await runFleetWorker(
  defineJobs({ long: definition, short: definition }),
  { long: work, short: work },
  { slots: 2, use: [(_, next) => next()] },
);
