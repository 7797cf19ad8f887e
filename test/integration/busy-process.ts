/** A worker process whose handlers keep its event loop busy. Usage: busy-process.ts NAME FILE */
import { runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import { entriesOf, note } from './journal.ts';

const [, , name = '', journal = ''] = process.argv;

await runFleetWorker(
  {
    /** As a call does that waits for the system. */
    block: (payload, { jobId }) => {
      const { forMs } = payload as { readonly forMs: number };
      note(journal, { what: 'begin', jobId, by: name });
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);
      note(journal, { what: 'end', jobId, by: name });
      return { by: name };
    },
    /** As a loop does whose end never comes; whoever meets it the next time knows better. */
    spin: (_, { jobId }) => {
      const isFirst = !entriesOf(journal).some((entry) => entry.jobId === jobId);
      note(journal, { what: 'begin', jobId, by: name });
      while (isFirst);
      return { by: name };
    },
  },
  { slots: 2, workerId: name, heartbeatMs: 700, leaseMs: 6_000 },
);
