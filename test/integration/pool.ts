/** What the small stack declares, for whoever has to look into its table. */

import { z } from 'zod';
import type { FleetInput, JobTypeInput, PoolInput } from '../../lib/core/pool-input.ts';
import { defineJobs, job } from '../../lib/jobs/jobs.ts';

export const SLOW_AT_ONCE = 2;

export const MAIN_PATH_TYPES = {
  echo: {},
  fail: { retry: { maxAttempts: 1 } },
  flaky: { retry: { maxAttempts: 3, backoff: 'fixed', delayMs: '500ms' } },
  telling: {},
  unheld: { retry: { maxAttempts: 5 } },
  slow: { maxConcurrency: SLOW_AT_ONCE, conflictGroup: 'shelf' },
} as const satisfies Record<string, JobTypeInput>;

/** All its types by types alone, except one, whose schema the deployment carries. */
export const MAIN_PATH_JOBS = defineJobs({
  echo: job({ payload: z.looseObject({ text: z.string().optional() }).optional() }),
  fail: job(),
  flaky: job(),
  telling: job(),
  unheld: job(),
  slow: job(),
});

export const MAIN_PATH_FLEETS = {
  echoes: { types: ['echo'], slots: 4 },
  general: { types: ['echo', 'fail', 'flaky', 'telling', 'unheld', 'slow'], slots: 4 },
} as const satisfies Record<string, FleetInput>;

/** A pool of one type whose values may be over 64 KB. */
export const LARGE_POOL = {
  types: { echo: { timeoutMs: 20_000, retry: { delayMs: 1_000, jitter: 'none' } } },
  fleets: { echoes: { types: ['echo'], slots: 4 } },
  largePayloads: { maxBytes: 2_000_000 },
} as const satisfies PoolInput;
