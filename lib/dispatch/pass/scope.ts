/**
 * The input and the report of a pass, and the scope that its steps share: context, partition, input, clock and cache. Each step
 * returns this scope with its own results added.
 */
import type { JobImage } from '../../store/contract/job-fields.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { BetweenPartitions } from '../partitions/between-partitions.ts';
import type { PartitionCache } from '../view/partition-cache.ts';

/** The report of a pass that ran to its end. */
export interface PassReport {
  /** `again`: a bound was reached, or known work is left, so another pass may find something to do at once. */
  readonly kind: 'done' | 'again';
  readonly admitted: number;
  readonly settled: number;
  /**
   * How many decisions were for jobs that had moved on before they were reserved, and how many claims of the pass were
   * lost, together.
   */
  readonly lostClaims: number;
  /** Images of jobs that have moved on although no hint reported it. The next pass settles them. */
  readonly hints: readonly JobImage[];
  /** Whether no capacity was left when the pass ended. */
  readonly isFull: boolean;
  /** The number of ready lines in which jobs may wait: one for each pair of a type and a key that has a ledger. */
  readonly lines: number;
}

/** Another commit came first. The counts are those of the commits that succeeded before it. */
export interface LostPass {
  readonly kind: 'lost';
  readonly admitted: number;
  readonly lostClaims: number;
}

/** Another dispatcher leads the partition, so this pass decided nothing. */
export interface LedPass {
  readonly kind: 'led';
}

/** The partition has a newer declaration than this process, so this pass decided nothing. */
export interface OutdatedPass {
  readonly kind: 'outdated';
  readonly version: number;
}

export interface PassInput {
  /** Newest known images of jobs: candidates to start, and outcomes to settle. */
  readonly hints: readonly JobImage[];
  /** Id of the lead that makes this pass. Undefined: the dispatcher does not lead, and the pass begins with an empty cache. */
  readonly leadBy?: string | undefined;
  /** Ids of jobs that were still being stored when a hint named them. The pass looks them up. @default - none */
  readonly jobIds?: readonly string[] | undefined;
  /** Whether to look up every job in flight, whether or not its check is due, and to read all lines again. */
  readonly checksAll: boolean;
  /**
   * Whether to read lines again instead of using cached ones, because jobs may have come that no hint has reported yet.
   * @default false
   */
  readonly rereadsLines?: boolean | undefined;
  /**
   * Whether to commit even if there is nothing to write, so that plans made on the former version fail. @default false
   */
  readonly mustCommit?: boolean | undefined;
  /** Whether to promote scheduled jobs that are due. */
  readonly promotes: boolean;
  /** Whether to fire schedules that are due. */
  readonly fires: boolean;
  /** Ids among the hints of jobs that this dispatcher has just stored, so no other one can have reserved them. @default - none */
  readonly justStored?: ReadonlySet<string> | undefined;
  /** Accepts work that the pass does not wait for. The given promise must never reject. */
  readonly inBackground: (work: Promise<unknown>) => void;
}

export interface PassScope {
  readonly context: DispatchContext;
  readonly input: PassInput;
  readonly partition: number;
  /** The operations on other partitions. Undefined: the pool has always had one partition. */
  readonly between: BetweenPartitions | undefined;
  /** When the pass began, epoch ms. */
  readonly nowMs: number;
  /** The cached state of the partition: a leader's own, or an empty one. */
  readonly cached: PartitionCache;
}
