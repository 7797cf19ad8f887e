/** The pool of the chaos test, its times, and what its processes write down. */
import { appendFileSync } from 'node:fs';
import type { PoolInput } from '../../../lib/core/defaults.ts';
import { DISPATCH_BUDGET, type DispatchBudget } from '../../../lib/dispatch/context.ts';

export const FLEET = 'processes';
export const TYPES = ['resize', 'crop', 'mail', 'fragile'];
export const SLOTS_OF_ONE = 5;

export const CAPS = { pool: 12, key: 4, mail: 3, low: 5 } as const;
/** The tiers of `CAPS.low`. */
export const LOW_TYPES: ReadonlySet<string> = new Set(['mail', 'fragile']);
/** Of which two of one resource exclude each other. */
export const CONFLICTING: ReadonlySet<string> = new Set(['resize', 'crop']);

const retry = { maxAttempts: 3, maxWorkersLost: 50, delayMs: 300, jitter: 'none' } as const;
const timeoutMs = 60_000;

export const POOL: PoolInput = {
  types: {
    resize: { tier: 'high', conflictGroup: 'album', onWorkerLost: 'resume', retry, timeoutMs },
    crop: { tier: 'high', conflictGroup: 'album', onWorkerLost: 'retry', retry, timeoutMs },
    mail: { tier: 'low', maxConcurrency: CAPS.mail, onWorkerLost: 'retry', retry, timeoutMs },
    fragile: { tier: 'low', onWorkerLost: 'fail', retry, timeoutMs },
  },
  tiers: [{ tier: 'high' }, { tier: 'low', maxConcurrency: CAPS.low, guaranteed: 2 }],
  fleets: { [FLEET]: { types: TYPES } },
  maxConcurrency: CAPS.pool,
  fairness: { maxConcurrencyPerKey: CAPS.key },
};

/** Short, so that what is frozen is soon past it. */
export const WORKER_TIMES = { heartbeatMs: 700, leaseMs: 6_000 } as const;
export const BUDGET: DispatchBudget = {
  ...DISPATCH_BUDGET,
  leaseMs: 4_000,
  leaseMarginMs: 1_500,
  checkAfterMs: 2_000,
};

/** What a job is to do: so many side effects, and perhaps to fail for the first time. */
export interface Payload {
  readonly effects: number;
  readonly failsFirst: boolean;
}

/** A worker process's record of something that it is about to do, or has done. */
export interface Entry {
  /** `begin` and `effect` are side effects; `end` only says that the handler is over. */
  readonly what: 'begin' | 'effect' | 'end';
  readonly pid: number;
  readonly jobId: string;
  /** Names the attempt, together with the job. */
  readonly token: number;
  readonly atMs: number;
}

/** One line, in one write at the file's end. */
export const note = (file: string, entry: Entry): void => appendFileSync(file, `${JSON.stringify(entry)}\n`);

/** What a dispatcher is about to do, on its standard output. */
export const STEPS = ['acquireLease', 'loadPartition', 'commit', 'claim', 'send', 'releaseLease'] as const;
export type DispatchStep = (typeof STEPS)[number];
