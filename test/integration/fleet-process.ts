/** A worker process of the tests: writes down when each of its attempts began and ended. Usage: fleet-process.ts FILE */
import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { runFleetWorker } from '../../lib/worker/fleet-worker.ts';

const [, , journal = ''] = process.argv;

const note = (what: string, jobId: string): void =>
  appendFileSync(journal, `${JSON.stringify({ what, jobId, pid: process.pid, atMs: Date.now() })}\n`);

await runFleetWorker(
  {
    work: async (payload, { jobId, signal, checkpoint, lastCheckpoint }) => {
      note('begin', jobId);
      const { forMs } = payload as { readonly forMs: number };
      await checkpoint({ by: process.pid });
      await sleep(forMs, undefined, { signal });
      note('end', jobId);
      return { by: process.pid, after: lastCheckpoint ?? null };
    },
  },
  { slots: 3 },
);
