/** What a dispatcher works with. */
import type { PoolConfiguration } from '../core/configuration.ts';
import type { Metrics } from '../metrics/contract.ts';
import type { JobQueue } from '../queue/contract.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import type { PassStore } from '../store/contract.ts';
import type { Deployed } from './declaration.ts';
import type { PartitionCaches } from './partition-cache.ts';
import type { TakeoverBudget } from './slot-times.ts';
import type { AnnouncedLines } from './submit.ts';

/** Bounds of one run of passes. At a bound the dispatcher stops cleanly and asks to be woken again. */
export interface DispatchBudget {
  /** How long a lease is taken for. */
  readonly leaseMs: number;
  /** Nothing is committed when less than this is left of the lease. */
  readonly leaseMarginMs: number;
  /** Passes in a row under one lease. */
  readonly passesMax: number;
  /** No pass begins when a run has lasted for so long: a function that is ended within a pass keeps its lease. */
  readonly runMs: number;
  /** Jobs of one reservation. */
  readonly batchJobs: number;
  /** Due jobs promoted at once; a pass does so up to ten times. */
  readonly promoteMax: number;
  /** Reservations whose jobs are looked up in one pass because their time to be checked has come. */
  readonly checkMax: number;
  /** Jobs of a conflict key that stay in their ready lines while it is held; many more are parked. */
  readonly parkKept: number;
  /** Groups read of one blocked line in one pass; where there are more, as many again from where an earlier pass has ended. */
  readonly blockedGroups: number;
  /** After a redeploy: conflict keys that one step of the carrying looks at, and jobs that it moves of each. */
  readonly carryMarks: number;
  readonly carryJobs: number;
  /** When a fresh reservation is looked at, if nothing settled it before. */
  readonly checkAfterMs: number;
  /** By how much of itself a resource's learned cost must have moved to be written. */
  readonly newsShare: number;
  /** A job that became ready so long ago is seen by every read: clocks differ, writes take their time, and the index lags. */
  readonly seenWithinMs: number;
  /** Jobs that start and that end, a second: from so many on a function is asked to lead a partition for which several compete, */
  readonly leadFrom: number;
  /** and while there are as many as this it goes on. Leading costs an invocation that lasts; below this, more than it saves. */
  readonly leadWhile: number;
  readonly takeovers: TakeoverBudget;
}

export const DISPATCH_BUDGET: DispatchBudget = {
  leaseMs: 20_000,
  leaseMarginMs: 5_000,
  passesMax: 20,
  runMs: 30_000,
  batchJobs: 50,
  promoteMax: 200,
  checkMax: 10,
  parkKept: 4,
  blockedGroups: 1_000,
  carryMarks: 50,
  carryJobs: 200,
  checkAfterMs: 60_000,
  newsShare: 0.1,
  seenWithinMs: 10_000,
  leadFrom: 16,
  leadWhile: 10,
  takeovers: { aheadMs: 120, shortMs: 5_000, seenMin: 5, offMaxMs: 50 },
};

/** What a process knows of passes without the lease of a partition. */
export interface OpenPartition {
  /** The epoch under which the lease was given back open; undefined: it was not. */
  readonly epoch?: number | undefined;
  /** By this process's monotonic clock: until then it does not give the lease back open, since others make passes, too. */
  readonly busyUntilMonotonicMs: number;
  /** What is counted of its leases. */
  readonly taken?: TakenLeases | undefined;
}

/** Leases that this process has taken of a partition, since some time. */
export interface TakenLeases {
  readonly atMonotonicMs: number;
  /** The last one before that, and the last one now. */
  readonly since: number;
  readonly epoch: number;
  readonly own: number;
  /** Of these, those for which it waited, before which another had it, or under which another left word. */
  readonly contended: number;
  /** Jobs that it has started and settled. */
  readonly moved: number;
}

export interface DispatchContext {
  readonly store: PassStore;
  readonly queue: JobQueue;
  readonly configuration: PoolConfiguration;
  /** What `configuration` was declared under; undefined where nothing is declared, and it is all that there is. */
  readonly deployed?: Deployed | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Names this dispatcher in the lease. */
  readonly holder: string;
  readonly budget: DispatchBudget;
  readonly announced: AnnouncedLines;
  /** Hears what happens. */
  readonly metrics?: Metrics | undefined;
  /** What this process remembers between passes. */
  readonly caches: PartitionCaches;
  /** Partitions that somebody kept between passes when this process asked for them last: it looks before it asks again. */
  readonly led: Set<number>;
  /** Asks for somebody who leads a partition for a while (`leadForAWhile`), at least once. Undefined: nobody can be asked. */
  readonly lead?: ((partition: number) => Promise<void>) | undefined;
  /** By partition: the epoch under which it is open, as far as this process knows. */
  readonly open: Map<number, OpenPartition>;
}
