/** Three tenants share the slots of one fleet, and exports of one album run one after the other. */
import type { PoolInput } from '../../lib/core/pool-input.ts';

export const SLOTS = 8;

/** The jobs that each tenant sends, in this order. */
export const TENANTS = [
  { key: 'noisy', weight: 1, jobs: 200 },
  { key: 'gold', weight: 4, jobs: 100 },
  { key: 'quiet', weight: 1, jobs: 1 },
] as const;

export type Tenant = (typeof TENANTS)[number]['key'];

/** Pages of an export, each of which ends with a checkpoint. */
export const PAGES = 4;

export const POOL = {
  types: {
    render: { defaultCostMs: 500, timeoutMs: 30_000 },
    export: { conflictGroup: 'album', onWorkerLost: 'resume', defaultCostMs: 4_000, timeoutMs: 60_000 },
  },
  fleets: {
    renderers: { types: ['render'], slots: SLOTS },
    // Processes serve it.
    exporters: { types: ['export'], slots: null },
  },
  fairness: {
    weights: Object.fromEntries(TENANTS.map(({ key, weight }) => [key, weight])),
    admissionFloorMs: 500,
    creditMs: 1,
  },
} as const satisfies PoolInput;
