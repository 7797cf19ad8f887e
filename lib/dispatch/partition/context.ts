/** What a dispatcher works with. */
import type { PoolConfiguration } from '../../core/configuration.ts';
import type { Deployed } from '../../declaration/declaration.ts';
import type { Metrics } from '../../metrics/contract.ts';
import type { JobQueue } from '../../queue/contract.ts';
import type { Clock, Log, Random } from '../../runtime/contract.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import type { AnnouncedLines } from '../../submit/submit.ts';
import type { DISPATCH_BUDGET } from '../tuning.ts';
import type { PartitionCaches } from '../view/partition-cache.ts';

/** Bounds of one run of passes, and of one pass. */
export type DispatchBudget = { readonly [Name in keyof typeof DISPATCH_BUDGET]: number };

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
