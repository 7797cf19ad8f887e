/** Exports of hours in containers: page by page, so that a dead container costs one page. */
import { defineJobs, job } from 'fairlead/jobs';
import type { HandlersOf } from 'fairlead/worker';

export const jobs = defineJobs({
  export: job<{ customer: string; pages: number }, { rows: number }>({
    fairnessKey: ({ customer }) => customer,
  }),
});

export const declaration = {
  types: { export: { timeoutMs: '6h', onWorkerLost: 'resume' } },
  // Containers serve it: runFleetWorker(jobs, handlersOf(pages), { slots: 4 }).
  fleets: { exports: { types: ['export'], slots: null } },
  fairness: { maxConcurrencyPerKey: 2 },
} as const;

export interface Pages {
  readonly copy: (customer: string, page: number, signal: AbortSignal) => Promise<number>;
}

interface Done {
  readonly page: number;
  readonly rows: number;
}

export const handlersOf = (source: Pages): HandlersOf<typeof jobs> => ({
  export: async ({ customer, pages }, { signal, lastCheckpoint, checkpoint, heartbeat }) => {
    let { page, rows } = (lastCheckpoint as Done | undefined) ?? { page: 0, rows: 0 };
    while (page < pages) {
      signal.throwIfAborted();
      rows += await source.copy(customer, page, signal);
      page += 1;
      await checkpoint({ page, rows });
      heartbeat({ page, of: pages });
    }
    return { rows };
  },
});
