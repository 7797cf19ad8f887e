/** Tenants of a SaaS product on shared slots: clicks before imports, shares by plan, and a bound for each tenant. */
import { defineJobs, job } from 'fairlead/jobs';
import type { HandlersOf } from 'fairlead/worker';

interface OfTenant {
  readonly tenant: string;
}

export const jobs = defineJobs({
  /** A person waits for it. */
  preview: job<OfTenant>({ fairnessKey: ({ tenant }) => tenant }),
  /** Millions of rows, at night or whenever a tenant likes. */
  importRows: job<OfTenant & { file: string }>({
    fairnessKey: ({ tenant }) => tenant,
    resourceId: ({ file }) => file,
  }),
});

/** Weights of tenants with a bigger plan; the others have 1. */
const PLANS = { acme: 4 };

export const declaration = {
  types: {
    preview: { tier: 'interactive' },
    importRows: { tier: 'background', conflictGroup: 'file', defaultCostMs: 10_000, timeoutMs: '5m' },
  },
  // Previews go first, and two slots are left to imports.
  tiers: [{ tier: 'interactive' }, { tier: 'background', maxConcurrency: 6, guaranteed: 2 }],
  fleets: { shared: { types: ['preview', 'importRows'], slots: 8 } },
  fairness: { weights: PLANS, maxConcurrencyPerKey: 5 },
} as const;

export interface Product {
  readonly render: (tenant: string) => Promise<void>;
  readonly load: (file: string, signal: AbortSignal) => Promise<void>;
}

export const handlersOf = (product: Product): HandlersOf<typeof jobs> => ({
  preview: ({ tenant }) => product.render(tenant),
  importRows: ({ file }, { signal }) => product.load(file, signal),
});
