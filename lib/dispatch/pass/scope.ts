/** What every step of a pass knows, what a pass is given, and what it answers. */
import type { JobImage } from '../../store/contract/job-fields.ts';
import type { DispatchContext } from '../partition/context.ts';
import type { BetweenPartitions } from '../partitions/between-partitions.ts';
import type { PartitionCache } from '../view/partition-cache.ts';

/** What one pass did. */
export interface PassReport {
  /** `again`: a bound or a stale candidate ended it; there may be more to do at once. */
  readonly kind: 'done' | 'again';
  readonly admitted: number;
  readonly settled: number;
  readonly lostClaims: number;
  /** Images with which the next pass settles what a lost hint left behind. */
  readonly hints: readonly JobImage[];
  /** Nothing had room when it ended. */
  readonly isFull: boolean;
  /** Lines in which jobs may wait: of each type, one for each key that was charged. */
  readonly lines: number;
}

/** Another commit came first. What the pass had committed by then counts. */
export interface LostPass {
  readonly kind: 'lost';
  readonly admitted: number;
  readonly lostClaims: number;
}

/** Another dispatcher leads the partition. */
export interface LedPass {
  readonly kind: 'led';
}

/** The partition knows of a newer declaration than this process. */
export interface OutdatedPass {
  readonly kind: 'outdated';
  readonly version: number;
}

export interface PassInput {
  /** Images of jobs, newest known: candidates, and outcomes to settle. */
  readonly hints: readonly JobImage[];
  /** Names the lead whose pass it is; undefined: that of a dispatcher which does not lead, and remembers nothing. */
  readonly leadBy?: string | undefined;
  /** Jobs that are looked up: they were being stored when this dispatcher was told of them. @default - none */
  readonly told?: readonly string[] | undefined;
  /** Look up all that is in flight, whether or not its time has come, and read all lines. */
  readonly looksAtAll: boolean;
  /** What is remembered of lines is read again: jobs may have come that no hint has told of yet. @default false */
  readonly readsAnew?: boolean | undefined;
  /** Commit even if there is nothing to write: what was planned by the version before is void then. @default false */
  readonly commitsAnyway?: boolean | undefined;
  /** Look for scheduled jobs whose time has come. */
  readonly promotes: boolean;
  /** Look for schedules whose time has come. */
  readonly fires: boolean;
  /** Of the hints, jobs that were stored just now, and that no other dispatcher can have seen. @default - none */
  readonly justStored?: ReadonlySet<string> | undefined;
  /** Takes what nothing waits for: it goes on beside the pass, and never rejects. */
  readonly inBackground: (work: Promise<unknown>) => void;
}

export interface PassScope {
  readonly context: DispatchContext;
  readonly input: PassInput;
  readonly partition: number;
  /** What it does for other partitions; undefined: there never were any. */
  readonly between: BetweenPartitions | undefined;
  /** When the pass began. */
  readonly nowMs: number;
  /** What is remembered of the partition. */
  readonly cached: PartitionCache;
}
