/** What a dispatcher works with. */
import type { PoolConfiguration } from '../../core/configuration.ts';
import type { Deployed } from '../../declaration/declaration.ts';
import type { Metrics } from '../../metrics/contract.ts';
import type { JobQueue } from '../../queue/contract.ts';
import type { Clock, Log, Random } from '../../runtime/contract.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import type { AnnouncedLines } from '../../submit/submit.ts';
import type { PartitionCaches } from '../view/partition-cache.ts';

/** Bounds of one run of passes. At a bound the dispatcher stops cleanly and asks to be woken again. */
export interface DispatchBudget {
  /** How long a lead lasts unless it is renewed, which it is when half of that is over. After a leader's death its letters wait so long. */
  readonly leadMs: number;
  /** Passes in a row. */
  readonly passesMax: number;
  /** No pass begins when a run has lasted for so long: a function is ended at twice that. */
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
  /** Jobs that start and that end, a second: from so many on a function is asked to lead the partition, */
  readonly leadFrom: number;
  /** and while there are as many as this it goes on. Leading costs an invocation that lasts; below this, more than it saves. */
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

/** What a process that does not lead a partition has seen of it. */
export interface SeenPartition {
  /** Another dispatcher led it: this one leaves a letter before it loads the partition. */
  readonly isLed: boolean;
  /** Jobs that this process has started and settled lately, a second. */
  readonly movedPerSec: number;
  /** By this process's monotonic clock: when that was counted. */
  readonly countedAtMonotonicMs: number;
  /** By the same clock: until then it asks for no lead. */
  readonly askedUntilMonotonicMs: number;
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
  /** Names this dispatcher where it leads. */
  readonly holder: string;
  readonly budget: DispatchBudget;
  readonly announced: AnnouncedLines;
  /** Hears what happens. */
  readonly metrics?: Metrics | undefined;
  /** What this process remembers between passes. */
  readonly caches: PartitionCaches;
  /** By partition: what this process has seen of it between its passes. */
  readonly seen: Map<number, SeenPartition>;
  /** Asks for a function that leads a partition (`leadWhileBusy`), at least once. Undefined: wakes are all that it can send. */
  readonly askToLead?: ((partition: number) => Promise<void>) | undefined;
}
