import { ConfigurationError } from '../../core/errors.ts';
import { durationWithin, objectOf, textWithin, wholeWithin } from '../../core/read-fields.ts';
import type { Metrics } from '../../metrics/contract.ts';
import type { JobQueue } from '../../queue/contract.ts';
import { WORKER_ID_BYTES_MAX, WORKER_SLOTS_MAX } from '../../store/contract/bounds.ts';
import type { WorkerStore } from '../../store/contract/core.ts';
import type { OperateStore } from '../../store/contract/operate.ts';
import type { WorkerLoad } from '../../store/contract/records.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import { WATCH_EVERY_MS } from '../attempt-host.ts';
import type { GuardMaker } from '../guard.ts';
import { readHandlers } from '../handlers.ts';
import { LEASE_MARGIN_MS, type LeaseLoss } from '../membership.ts';
import type { HostContext, JobHandlers, RunOutcome } from '../run-job.ts';

export interface WorkerProcessOptions extends HostContext {
  readonly store: WorkerStore & Pick<PassStore, 'lookUpJobs' | 'loadPartition'> & Pick<OperateStore, 'rest'>;
  readonly queue: JobQueue;
  /** Counts each start. @default - starts are not counted */
  readonly metrics?: Metrics | undefined;
  readonly fleet: string;
  /** How many jobs run at once: 1 to 2,000. */
  readonly slots: number;
  /** Unique among the workers that are alive. A worker that starts with the name of another one supersedes it. */
  readonly workerId: string;
  /** One handler for each job type of the fleet. */
  readonly handlers: JobHandlers;
  /** How many partitions the worker starts with. @default - as many as the pool has */
  readonly partitions?: number | undefined;
  /** The present number of partitions, read once a minute. @default - the number that the worker started with */
  readonly partitionsNow?: (() => Promise<number>) | undefined;
  /** How often the worker renews its lease, in milliseconds: below `leaseMs` less 3 s. @default 5 s */
  readonly heartbeatMs?: number | undefined;
  /** How long the worker counts as alive without a heartbeat, in milliseconds: 3 s to 10 min. @default 15 s */
  readonly leaseMs?: number | undefined;
  /** How often running jobs are looked up for a cancellation, in milliseconds. @default 10 s */
  readonly watchEveryMs?: number | undefined;
  /** How long running jobs may continue after `signal`, in milliseconds. @default 30 s */
  readonly shutdownMs?: number | undefined;
  /**
   * Measures the load of the process since the last call. Called at each heartbeat interval.
   * @default - the load is not measured
   */
  readonly measure?: (() => WorkerLoad) | undefined;
  /** Ends the worker in order. */
  readonly signal: AbortSignal;
  /** Ends the process at once: the only way to stop a handler that hangs. */
  readonly exit: (reason: string) => void;
  /**
   * Keeps the worker's lease, and ends the process in time.
   *
   * @default - a guard in the same thread and with the same store, which a handler that keeps the event loop busy
   * holds up
   */
  readonly guard?: GuardMaker | undefined;
}

/** Why a worker ended. */
export type WorkerEnd =
  /** The worker's signal was aborted. */
  | 'stopped'
  | LeaseLoss
  /** A handler ignored its signal. */
  | 'hung'
  /** The outcome of a job could not be stored. */
  | 'broken';

export interface WorkerReport {
  readonly end: WorkerEnd;
  /** How many attempts had each outcome. */
  readonly outcomes: Readonly<Partial<Record<RunOutcome, number>>>;
}

const HEARTBEAT_MS = 5_000;
const LEASE_MS = 15_000;
const SHUTDOWN_MS = 30_000;
const HEARTBEAT_MIN_MS = 100;

/** The options with defaults filled in. */
export interface WorkerSettings extends WorkerProcessOptions {
  readonly partitions: number;
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  readonly watchEveryMs: number;
  readonly shutdownMs: number;
}

/** The longest lease. The jobs of a worker that died stay held for as long. */
export const LEASE_MAX_MS = 10 * 60_000;
const SHUTDOWN_MAX_MS = 24 * 3_600_000;

/** Checks of the options that a user may set. */
export const WORKER_CHECKS = {
  slots: wholeWithin(1, WORKER_SLOTS_MAX, 'Run several workers for more.'),
  workerId: textWithin(WORKER_ID_BYTES_MAX, 'Leave it out for a generated name.'),
  shutdownMs: durationWithin(0, SHUTDOWN_MAX_MS, `Leave it out for ${SHUTDOWN_MS}.`),
  heartbeatMs: durationWithin(HEARTBEAT_MIN_MS, LEASE_MAX_MS, `Leave it out for ${HEARTBEAT_MS}.`),
  leaseMs: durationWithin(LEASE_MARGIN_MS, LEASE_MAX_MS, `Leave it out for ${LEASE_MS}.`),
} as const;

/**
 * Refuses heartbeats that are too far apart for the lease.
 *
 * @throws ConfigurationError
 */
export function requireTimelyHeartbeat({
  heartbeatMs = HEARTBEAT_MS,
  leaseMs = LEASE_MS,
}: Pick<WorkerProcessOptions, 'heartbeatMs' | 'leaseMs'>): void {
  const mostMs = leaseMs - LEASE_MARGIN_MS;
  if (heartbeatMs < mostMs) return;
  throw new ConfigurationError(
    'heartbeatMs',
    heartbeatMs,
    `must be below leaseMs - ${LEASE_MARGIN_MS}`,
    `That is ${mostMs}: send heartbeats more often, or lengthen the lease.`,
  );
}

/** Returns the options, checked, with defaults filled in. @throws ConfigurationError */
export function settingsOf(options: WorkerProcessOptions): WorkerSettings {
  const { slots, workerId, shutdownMs, heartbeatMs, leaseMs } = options;
  objectOf(WORKER_CHECKS)('', { slots, workerId, shutdownMs, heartbeatMs, leaseMs });
  requireTimelyHeartbeat(options);
  const settings = {
    ...options,
    handlers: readHandlers(options.handlers),
    partitions: options.partitions ?? options.configuration.partitions,
    heartbeatMs: options.heartbeatMs ?? HEARTBEAT_MS,
    leaseMs: options.leaseMs ?? LEASE_MS,
    watchEveryMs: options.watchEveryMs ?? WATCH_EVERY_MS,
    shutdownMs: options.shutdownMs ?? SHUTDOWN_MS,
  };
  requireWorkable(settings);
  return settings;
}

function requireWorkable(settings: WorkerSettings): void {
  const { configuration, fleet, handlers } = settings;
  const known = configuration.fleets.find((each) => each.fleet === fleet);
  if (known === undefined) {
    const names = configuration.fleets.map((each) => each.fleet).join(', ');
    throw new ConfigurationError(
      'fleet',
      fleet,
      'is not a fleet of the pool',
      `The pool has: ${names || 'none'}.`,
    );
  }
  if (known.slots !== null) {
    throw new ConfigurationError(
      'fleet',
      fleet,
      `declares ${known.slots} slots for functions`,
      'Declare it without a handler and without slots.',
    );
  }
  const missing = known.types.filter((type) => !Object.hasOwn(handlers, type));
  if (missing.length > 0) {
    throw new ConfigurationError(
      'handlers',
      handlers,
      `has none for ${missing.join(', ')}, which fleet ${JSON.stringify(fleet)} runs`,
      'Give a handler for each of its types.',
    );
  }
}
