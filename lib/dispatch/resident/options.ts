/**
 * The options and the report of a resident dispatcher. Composition roots pass the options to `resident.ts`, which checks them
 * here and adds the defaults.
 */
import type { PoolConfiguration } from '../../core/configuration.ts';
import { numberWithin, objectOf, textWithin } from '../../core/read-fields.ts';
import type { DeclarationState } from '../../declaration/declaration.ts';
import type { Metrics } from '../../metrics/contract.ts';
import type { JobQueue } from '../../queue/contract.ts';
import type { Clock, Log, Random } from '../../runtime/contract.ts';
import type { Vitals } from '../../runtime/vitals.ts';
import { WORKER_ID_BYTES_MAX } from '../../store/contract/bounds.ts';
import type { MembershipStore } from '../../store/contract/membership.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import type { DispatchBudget } from '../partition/context.ts';
import { DISPATCH_BUDGET, LOOK_AROUND_MS, POLL_MS, WORKER_LEASE_MS } from '../tuning.ts';

export interface ResidentOptions {
  readonly store: PassStore & MembershipStore;
  readonly queue: JobQueue;
  readonly configuration: PoolConfiguration;
  readonly deployed?: DeclarationState | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Receives the metrics of its passes. @default - none are reported */
  readonly metrics?: Metrics | undefined;
  /** Unique among live dispatchers. A new incarnation of the same id supersedes the former one. */
  readonly dispatcherId: string;
  /**
   * Bounds of one lead and of one pass: times, and numbers of passes, jobs and reads.
   * @default DISPATCH_BUDGET
   */
  readonly budget?: DispatchBudget | undefined;
  /** How long the membership lasts without renewal. @default 15 s */
  readonly memberLeaseMs?: number | undefined;
  /**
   * The time between two reads of the letters of each partition that it leads. While something happens, and for 10 s
   * after that, it is 28 ms, if that is shorter.
   * @default 250 ms
   */
  readonly pollMs?: number | undefined;
  /** The longest time without a pass in each partition that it leads. @default 60 s, the period of the tick */
  readonly passEveryMs?: number | undefined;
  /** How often it counts the waiting jobs in its partitions. @default 30 s */
  readonly countEveryMs?: number | undefined;
  /** Reads the vital signs of its process. @default - none are published */
  readonly vitals?: (() => Vitals) | undefined;
  /** How long it waits at the end for passes in progress. @default 10 s */
  readonly shutdownMs?: number | undefined;
  /** Shuts the resident down when aborted, once passes in progress have ended. */
  readonly signal: AbortSignal;
}

/** Why a resident has ended. */
export type ResidentEnd =
  /** The resident's signal was aborted. */
  | 'stopped'
  /** Another incarnation of the resident's id has begun. */
  | 'superseded';

export interface ResidentReport {
  readonly end: ResidentEnd;
  readonly passes: number;
  readonly admitted: number;
  readonly settled: number;
}

/** The options, with every default filled in. */
export interface ResidentSettings extends ResidentOptions {
  readonly budget: DispatchBudget;
  readonly memberLeaseMs: number;
  readonly pollMs: number;
  readonly passEveryMs: number;
  readonly countEveryMs: number;
  readonly shutdownMs: number;
}

/**
 * Checks the options and returns them with the defaults.
 * @throws ConfigurationError
 */
export function settingsOf(options: ResidentOptions): ResidentSettings {
  requireWorkable(options);
  return {
    ...options,
    budget: options.budget ?? DISPATCH_BUDGET,
    memberLeaseMs: options.memberLeaseMs ?? WORKER_LEASE_MS,
    pollMs: options.pollMs ?? POLL_MS,
    passEveryMs: options.passEveryMs ?? LOOK_AROUND_MS,
    countEveryMs: options.countEveryMs ?? 30_000,
    shutdownMs: options.shutdownMs ?? 10_000,
  };
}

const DEFAULT = 'Leave it out for the default.';

function requireWorkable(options: ResidentOptions): void {
  const { dispatcherId, memberLeaseMs, pollMs, passEveryMs, countEveryMs, shutdownMs } = options;
  const { budget = DISPATCH_BUDGET } = options;
  const dayMs = 24 * 3_600_000;
  const checks = {
    dispatcherId: textWithin(WORKER_ID_BYTES_MAX, 'Leave it out for a name of its own.'),
    memberLeaseMs: numberWithin(1, 10 * 60_000, DEFAULT),
    // A leader renews its lead between two reads of letters, so these must not be too far apart.
    pollMs: numberWithin(1, budget.leadMs / 4, DEFAULT),
    passEveryMs: numberWithin(1, dayMs, DEFAULT),
    countEveryMs: numberWithin(1, dayMs, DEFAULT),
    shutdownMs: numberWithin(0, dayMs, DEFAULT),
  };
  const said = { dispatcherId, memberLeaseMs, pollMs, passEveryMs, countEveryMs, shutdownMs };
  objectOf(checks)('', said);
}
