/** What the small stack declares, for whoever has to look into its table. */
import { z } from 'zod';
import type { FleetInput, JobTypeInput } from '../../lib/core/pool-input.ts';
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
