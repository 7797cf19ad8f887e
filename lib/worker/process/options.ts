import { ConfigurationError } from '../../core/errors.ts';
import { numberWithin, objectOf, textWithin, wholeWithin } from '../../core/read-fields.ts';
import type { Metrics } from '../../metrics/contract.ts';
import type { JobQueue } from '../../queue/contract.ts';
import { WORKER_ID_BYTES_MAX, WORKER_SLOTS_MAX } from '../../store/contract/bounds.ts';
import type { WorkerStore } from '../../store/contract/core.ts';
import type { WorkerLoad } from '../../store/contract/records.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import { WATCH_EVERY_MS } from '../attempt-host.ts';
import type { GuardMaker } from '../guard.ts';
import { readHandlers } from '../handlers.ts';
import { LEASE_MARGIN_MS, type Loss } from '../membership.ts';
import type { HostContext, JobHandlers, RunOutcome } from '../run-job.ts';

export interface WorkerProcessOptions extends HostContext {
  readonly store: WorkerStore & Pick<PassStore, 'lookUpJobs' | 'loadPartition'>;
  readonly queue: JobQueue;
  /** Hears of each start. @default - nobody does */
  readonly metrics?: Metrics | undefined;
  readonly fleet: string;
  /** Jobs that run at once. */
  readonly slots: number;
  /** Unique among the workers that live; a new life of the same name supersedes the former one. */
  readonly workerId: string;
  /** One for each job type of the fleet. */
  readonly handlers: JobHandlers;
  /** @default - the pool's */
  readonly partitions?: number | undefined;
  /** As many partitions as there are by now: looked at once a minute. @default - those that it began with */
  readonly partitionsNow?: (() => Promise<number>) | undefined;
  /** @default 5 s */
  readonly heartbeatMs?: number | undefined;
  /** @default 15 s */
  readonly leaseMs?: number | undefined;
  /** How often running jobs are looked up for a cancel. @default 10 s */
  readonly watchEveryMs?: number | undefined;
  /** How long running jobs may go on after `signal`. @default 30 s */
  readonly shutdownMs?: number | undefined;
  /** Measures how the process bears its work since it was last asked; with each heartbeat. @default - it is not measured */
  readonly measure?: (() => WorkerLoad) | undefined;
  /** Ends the worker in order. */
  readonly signal: AbortSignal;
  /** Ends the process at once: the only way to stop a handler that hangs. */
  readonly exit: (reason: string) => void;
  /**
   * Keeps the worker's lease, and ends the process in time.
   *
   * @default - one in the same thread, with the same store: a handler that keeps the event loop busy stops it, too
   */
  readonly guard?: GuardMaker | undefined;
}

/** Why a worker ended. */
export type WorkerEnd =
  /** It was asked to. */
  | 'stopped'
  | Loss
  /** A handler did not heed its signal. */
  | 'hung'
  /** What became of a job could not be written down. */
  | 'broken';

export interface WorkerReport {
  readonly end: WorkerEnd;
  /** Attempts by what became of them. */
  readonly outcomes: Readonly<Partial<Record<RunOutcome, number>>>;
}

const HEARTBEAT_MS = 5_000;
const LEASE_MS = 15_000;
const SHUTDOWN_MS = 30_000;
const HEARTBEAT_MIN_MS = 100;

/** The options, with what was left out. */
export interface WorkerSettings extends WorkerProcessOptions {
  readonly partitions: number;
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  readonly watchEveryMs: number;
  readonly shutdownMs: number;
}

/** A lease of more would hold the jobs of a worker that has died for longer than that. */
export const LEASE_MAX_MS = 10 * 60_000;
const SHUTDOWN_MAX_MS = 24 * 3_600_000;

/** What may be said of a worker that runs on. */
export const WORKER_CHECKS = {
  slots: wholeWithin(1, WORKER_SLOTS_MAX, 'Run several workers for more.'),
  workerId: textWithin(WORKER_ID_BYTES_MAX, 'Leave it out for a name of its own.'),
  shutdownMs: numberWithin(0, SHUTDOWN_MAX_MS, `Leave it out for ${SHUTDOWN_MS}.`),
  heartbeatMs: numberWithin(HEARTBEAT_MIN_MS, LEASE_MAX_MS, `Leave it out for ${HEARTBEAT_MS}.`),
  leaseMs: numberWithin(LEASE_MARGIN_MS, LEASE_MAX_MS, `Leave it out for ${LEASE_MS}.`),
} as const;

/**
 * Refuses a heartbeat that comes too late for its lease.
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
    `That is ${mostMs}: beat more often, or lengthen the lease.`,
  );
}

/** @throws ConfigurationError */
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
      `has none for ${missing.join(', ')}, which fleet ${JSON.stringify(fleet)} takes`,
      'Give a handler for each of its types.',
    );
  }
}
