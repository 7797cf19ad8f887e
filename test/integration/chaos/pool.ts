/** The pool of the chaos test, its times, and what its processes write down. */
import { appendFileSync } from 'node:fs';
import type { PoolInput } from '../../../lib/core/pool-input.ts';
import type { DispatchBudget } from '../../../lib/dispatch/partition/context.ts';
import { DISPATCH_BUDGET } from '../../../lib/dispatch/tuning.ts';

export const FLEET = 'processes';
/** Fails with its worker. */
export const FRAGILE = 'fragile';
export const TYPES = ['resize', 'crop', 'mail', FRAGILE];
export const SLOTS_OF_ONE = 5;

export const CAPS = { pool: 12, key: 4, mail: 3, low: 5 } as const;
/** The tiers of `CAPS.low`. */
export const LOW_TYPES: ReadonlySet<string> = new Set(['mail', FRAGILE]);
/** Of which two of one resource exclude each other. */
export const CONFLICTING: ReadonlySet<string> = new Set(['resize', 'crop']);

const retry = { maxAttempts: 3, maxWorkersLost: 50, delayMs: 300, jitter: 'none' } as const;
/** Longer than handlers that keep their process busy one after the other: each waits for the others of its process. */
const timeoutMs = 900_000;

export const POOL: PoolInput = {
  types: {
    resize: { tier: 'high', conflictGroup: 'album', onWorkerLost: 'resume', retry, timeoutMs },
    crop: { tier: 'high', conflictGroup: 'album', onWorkerLost: 'retry', retry, timeoutMs },
    mail: { tier: 'low', maxConcurrency: CAPS.mail, onWorkerLost: 'retry', retry, timeoutMs },
    [FRAGILE]: { tier: 'low', onWorkerLost: 'fail', retry, timeoutMs },
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
  leadMs: 4_000,
  checkAfterMs: 2_000,
};

/** What a job is to do: so many side effects, and perhaps to fail for the first time. */
export interface Payload {
  readonly effects: number;
  readonly failsFirst: boolean;
  /** Its handler does not let go of its thread from its begin to its end. */
  readonly isBusy: boolean;
}

/** How long a busy handler takes for a side effect. */
export const BUSY_STEP_MS = 1_000;

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
export const STEPS = ['lead', 'loadPartition', 'commit', 'send', 'deleteLetters', 'stopLeading'] as const;
export type DispatchStep = (typeof STEPS)[number];
