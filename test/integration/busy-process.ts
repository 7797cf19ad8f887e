/** A worker process whose handlers keep its event loop busy. Usage: busy-process.ts NAME FILE */
import { type JobHandler, runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import { entriesOf, note } from './journal.ts';

const [, , name = '', journal = ''] = process.argv;

/** As a call does that waits for the system: nothing else runs in this thread. */
function block(forMs: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);
}

/** Never ends; whoever meets it the next time knows better. */
const endless =
  (keepsBusy: () => void): JobHandler =>
  (_, { jobId }) => {
    const isFirst = !entriesOf(journal).some((entry) => entry.jobId === jobId);
    note(journal, { what: 'begin', jobId, by: name });
    if (isFirst) keepsBusy();
    return { by: name };
  };

await runFleetWorker(
  {
    block: (payload, { jobId }) => {
      const { forMs } = payload as { readonly forMs: number };
      note(journal, { what: 'begin', jobId, by: name });
      block(forMs);
      note(journal, { what: 'end', jobId, by: name });
      return { by: name };
    },
    spin: endless(() => {
      for (;;);
    }),
    hang: endless(() => block(Number.POSITIVE_INFINITY)),
  },
  { slots: 2, workerId: name, heartbeatMs: 700, leaseMs: 6_000 },
);
