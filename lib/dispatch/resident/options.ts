/** What a dispatcher that runs on is given, and what it answers. */
import type { PoolConfiguration } from '../../core/configuration.ts';
import { numberWithin, objectOf, textWithin } from '../../core/read-fields.ts';
import type { Deployed } from '../../declaration/declaration.ts';
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
  readonly deployed?: Deployed | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Hears what its passes do and leave behind. @default - nothing does */
  readonly metrics?: Metrics | undefined;
  /** Unique among the dispatchers that live; a new life of the same name supersedes the former one. */
  readonly dispatcherId: string;
  /** @default DISPATCH_BUDGET */
  readonly budget?: DispatchBudget | undefined;
  /** How long it counts as a member without saying so. @default 15 s */
  readonly memberLeaseMs?: number | undefined;
  /**
   * How often letters of each partition that it leads are looked for; while there is something to do, and for 10 s after, each 28 ms
   * at least. @default 250 ms
   */
  readonly pollMs?: number | undefined;
  /** How long a partition that it leads goes without a pass at most. @default 60 s, as the tick */
  readonly passEveryMs?: number | undefined;
  /** How often it counts what waits where it leads, for a look at its load. @default 30 s */
  readonly countEveryMs?: number | undefined;
  /** How its process fares; not said unless given. */
  readonly vitals?: (() => Vitals) | undefined;
  /** How long passes that are under way are waited for at the end. @default 10 s */
  readonly shutdownMs?: number | undefined;
  /** Ends it in order. */
  readonly signal: AbortSignal;
}

/** Why a resident ended. */
export type ResidentEnd =
  /** It was asked to. */
  | 'stopped'
  /** Another life of its name has begun. */
  | 'superseded';

export interface ResidentReport {
  readonly end: ResidentEnd;
  readonly passes: number;
  readonly admitted: number;
  readonly settled: number;
}

/** The options, with what was left out. */
export interface ResidentSettings extends ResidentOptions {
  readonly budget: DispatchBudget;
  readonly memberLeaseMs: number;
  readonly pollMs: number;
  readonly passEveryMs: number;
  readonly countEveryMs: number;
  readonly shutdownMs: number;
}

/** @throws ConfigurationError */
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
    // Between two looks it must come to renew its lead.
    pollMs: numberWithin(1, budget.leadMs / 4, DEFAULT),
    passEveryMs: numberWithin(1, dayMs, DEFAULT),
    countEveryMs: numberWithin(1, dayMs, DEFAULT),
    shutdownMs: numberWithin(0, dayMs, DEFAULT),
  };
  const said = { dispatcherId, memberLeaseMs, pollMs, passEveryMs, countEveryMs, shutdownMs };
  objectOf(checks)('', said);
}
