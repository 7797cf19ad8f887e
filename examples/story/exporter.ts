/** A worker process that exports albums page by page. Usage: exporter.ts NAME */
import { setTimeout as sleep } from 'node:timers/promises';
import { runFleetWorker } from '../../lib/worker/fleet-worker.ts';
import { PAGES } from './pool.ts';

const [, , workerId = ''] = process.argv;
const PAGE_MS = 1_000;

interface Checkpoint {
  readonly page: number;
}

await runFleetWorker(
  {
    export: async (_, { signal, checkpoint, lastCheckpoint }) => {
      const { page: done } = (lastCheckpoint as Checkpoint | undefined) ?? { page: 0 };
      for (let page = done + 1; page <= PAGES; page += 1) {
        await sleep(PAGE_MS, undefined, { signal });
        await checkpoint({ page });
      }
      return { pages: PAGES - done };
    },
  },
  // Short, so that its end is noticed while a person looks on.
  { slots: 1, workerId, leaseMs: '6s', heartbeatMs: '500ms', shutdownMs: 0, metrics: false },
);
