/**
 * The context of every dispatcher: its store, queue, configuration, clock, bounds and caches. Composition roots build it, and all
 * steps receive it.
 */
import type { PoolConfiguration } from '../../core/configuration.ts';
import type { DeclarationState } from '../../declaration/declaration.ts';
import type { Metrics } from '../../metrics/contract.ts';
import type { JobQueue } from '../../queue/contract.ts';
import type { Clock, Log, Random } from '../../runtime/contract.ts';
import type { PassStore } from '../../store/contract/verbs.ts';
import type { AnnouncedLines } from '../../submit/submit.ts';
import type { CountedBacklogs } from '../../submit/waiting.ts';
import type { DISPATCH_BUDGET } from '../tuning.ts';
import type { PartitionCaches } from '../view/partition-cache.ts';

/** Bounds of one run of passes, and of one pass. */
export type DispatchBudget = { readonly [Name in keyof typeof DISPATCH_BUDGET]: number };

/** A partition as a process that does not lead it has last seen it. */
export interface SeenPartition {
  /** Whether another dispatcher led it. If so, the next run leaves a letter before it loads the partition. */
  readonly isLed: boolean;
  /** Jobs per second that this process has lately started and settled. */
  readonly movedPerSec: number;
  /** When `movedPerSec` was computed, by this process's monotonic clock. */
  readonly countedAtMonotonicMs: number;
  /** Until this time, by the same clock, this process does not ask again for a function that leads. */
  readonly askedUntilMonotonicMs: number;
}

export interface DispatchContext {
  readonly store: PassStore;
  readonly queue: JobQueue;
  readonly configuration: PoolConfiguration;
  /** The declaration that `configuration` comes from. Undefined: the configuration was given directly and never changes. */
  readonly deployed?: DeclarationState | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Name of this dispatcher in leader items. */
  readonly holder: string;
  readonly budget: DispatchBudget;
  readonly announced: AnnouncedLines;
  readonly counted?: CountedBacklogs | undefined;
  /** Receives metrics. @default - none are reported */
  readonly metrics?: Metrics | undefined;
  /** Caches of partitions between passes. */
  readonly caches: PartitionCaches;
  /** By partition: what this process has seen of it between its passes. */
  readonly seen: Map<number, SeenPartition>;
  /**
   * Asks for a function that leads a partition (`leadWhileBusy`). The request is delivered at least once. Undefined:
   * there is no such function, and the partition is served by wakes alone.
   */
  readonly askToLead?: ((partition: number) => Promise<void>) | undefined;
}
