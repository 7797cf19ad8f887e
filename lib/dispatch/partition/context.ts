/**
 * The context of every dispatcher: its store, queue, configuration, clock, bounds and caches. Composition roots build it, and all
 * steps receive it.
 */
import type { PoolConfiguration } from '../../core/configuration.ts';
import type { Deployed } from '../../declaration/declaration.ts';
import type { Metrics } from '../../metrics/contract.ts';
import type { JobQueue } from '../../queue/contract.ts';
import type { Clock, Log, Random } from '../../runtime/contract.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import type { AnnouncedLines } from '../../submit/submit.ts';
import type { PartitionCaches } from '../view/partition-cache.ts';

/** Bounds of one run of passes. At a bound the dispatcher stops in order and asks to be woken again. */
export interface DispatchBudget {
  /**
   * How long a lead lasts without renewal. It is renewed when half of this is over. After a leader's death, its letters wait this
   * long.
   */
  readonly leadMs: number;
  /** Most passes in a row. */
  readonly passesMax: number;
  /** No pass begins when a run has lasted this long. A function is ended by its timeout at twice this. */
  readonly runMs: number;
  /** Most jobs of one reservation. */
  readonly batchJobs: number;
  /** Due jobs promoted with one read. A pass reads up to ten times. */
  readonly promoteMax: number;
  /** Reservations that one pass looks up because their check is due. */
  readonly checkMax: number;
  /** Jobs of a held conflict key that stay in its ready lines. Many more than these are parked. */
  readonly parkKept: number;
  /** Groups of one blocked line that a pass reads from its front. In a longer line it reads as many again from a cursor. */
  readonly blockedGroups: number;
  /** Conflict keys that one step of moving jobs after a redeploy reads. */
  readonly carryMarks: number;
  /** Jobs of each of those keys that the step moves. */
  readonly carryJobs: number;
  /** Time from a reservation to its check, unless it is settled before. */
  readonly checkAfterMs: number;
  /** Share of its value by which a resource's learned cost must have moved to be written. */
  readonly newsShare: number;
  /**
   * A job that became ready this long ago is shown by every read. Covers clock differences, the time of writes, and the index's
   * lag.
   */
  readonly seenWithinMs: number;
  /** Jobs started and ended per second at which a dispatcher asks for a function that leads the partition. */
  readonly leadFrom: number;
  /**
   * Jobs started and ended per second at which that function goes on leading. Below it, the lasting invocation costs more than it
   * saves.
   */
  readonly leadWhile: number;
}

export const DISPATCH_BUDGET: DispatchBudget = {
  leadMs: 10_000,
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
};

/** A partition as a process that does not lead it has last seen it. */
export interface SeenPartition {
  /** Another dispatcher led it, so the next run leaves a letter before it loads the partition. */
  readonly isLed: boolean;
  /** Jobs per second that this process has lately started and settled. */
  readonly movedPerSec: number;
  /** When that rate was computed, by this process's monotonic clock. */
  readonly countedAtMonotonicMs: number;
  /** Until then this process asks for no leader, by the same clock. */
  readonly askedUntilMonotonicMs: number;
}

export interface DispatchContext {
  readonly store: PassStore;
  readonly queue: JobQueue;
  readonly configuration: PoolConfiguration;
  /** The declaration that `configuration` comes from. Undefined: the configuration was given directly and never changes. */
  readonly deployed?: Deployed | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Name of this dispatcher in leader items. */
  readonly holder: string;
  readonly budget: DispatchBudget;
  readonly announced: AnnouncedLines;
  /** Receives metrics. @default - none are reported */
  readonly metrics?: Metrics | undefined;
  /** Caches of partitions between passes. */
  readonly caches: PartitionCaches;
  /** By partition: what this process has seen of it between its passes. */
  readonly seen: Map<number, SeenPartition>;
  /**
   * Asks for a function that leads a partition (`leadWhileBusy`), at least once. Undefined: no function can be asked, and wakes
   * must do.
   */
  readonly askToLead?: ((partition: number) => Promise<void>) | undefined;
}
