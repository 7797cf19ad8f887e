/** The jobs of a small shop, as its stack, its workers and its tests share them. */
import { defineJobs, job } from '../../lib/jobs/jobs.ts';

export const jobs = defineJobs({
  charge: job<{ account: string; cents: number }, { receipt: string }>({
    resourceId: ({ account }) => account,
  }),
  refund: job<{ account: string; cents: number }>({ resourceId: ({ account }) => account }),
  statement: job<{ account: string; pages: number }>({ fairnessKey: ({ account }) => account }),
});

/** The stack's declaration: charges and refunds of one account never run together. */
export const declaration = {
  types: {
    charge: { conflictGroup: 'account', onWorkerLost: 'retry' },
    refund: { conflictGroup: 'account' },
    statement: { timeoutMs: '5m', retry: { maxAttempts: 2 } },
  },
  fleets: {
    payments: { types: ['charge', 'refund'], slots: 4 },
    documents: { types: ['statement'], slots: 2 },
  },
} as const;
