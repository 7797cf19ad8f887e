/**
 * A worker process of the tests: writes down when each of its attempts began and ended. Usage: fleet-process.ts NAME FILE
 * One whose name is `leaving` gives its jobs little time when it is told to end.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import { note } from './journal.ts';

const [, , name = '', journal = ''] = process.argv;

await runFleetWorker(
  {
    work: async (payload, { jobId, signal, checkpoint, lastCheckpoint }) => {
      note(journal, { what: 'begin', jobId, by: name });
      const { forMs } = payload as { readonly forMs: number };
      await checkpoint({ by: name });
      await sleep(forMs, undefined, { signal });
      note(journal, { what: 'end', jobId, by: name });
      return { after: lastCheckpoint ?? null };
    },
  },
  {
    slots: 3,
    use: [async (_, next) => ({ by: name, ...((await next()) as object) })],
    ...(name === 'leaving' ? { shutdownMs: 500 } : {}),
  },
);
