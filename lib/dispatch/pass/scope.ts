/** What every step of a pass knows, what a pass is given, and what it answers. */
import type { JobImage } from '../../store/job-fields.ts';
import type { NamedJob } from '../../store/records.ts';
import type { BetweenPartitions } from '../between-partitions.ts';
import type { DispatchContext } from '../context.ts';
import type { HeldLease } from '../lease.ts';
import type { PartitionCache } from '../partition-cache.ts';

/** What one pass did. */
export interface PassReport {
  /** `again`: a bound or a stale candidate ended it; there may be more to do at once. */
  readonly kind: 'done' | 'again';
  readonly admitted: number;
  readonly settled: number;
  readonly lostClaims: number;
  /** Images with which the next pass settles what a lost hint left behind. */
  readonly hints: readonly JobImage[];
  /** Nothing waits, and little happens: passes may go on without the lease. */
  readonly isCalm: boolean;
  /** Nothing had room when it ended. */
  readonly isFull: boolean;
  /** Epoch ms, for whoever keeps the lease, where nothing had room: from then on a job in flight has likely ended that nobody may have told of. Infinity: there is none. */
  readonly endsLikelyAtMs: number;
  /** Epoch ms, likewise: from then on a slot may be taken over. */
  readonly takeoverAtMs: number;
  /** Epoch ms: from then on a job that took a slot over should have started, of which nothing was heard. */
  readonly lateAtMs: number;
  /** Of what was admitted: jobs that take slots over. */
  readonly takenOver: number;
  /** Lines in which jobs may wait: of each type, one for each key that was charged. */
  readonly lines: number;
}

/** Somebody has superseded a pass. What it had done by then counts. */
export interface LostPass {
  readonly kind: 'lost';
  /** Nobody has: it was made without the lease, and takes it. */
  readonly needsLease: boolean;
  readonly admitted: number;
  readonly lostClaims: number;
}

/** The partition knows of a newer declaration than this process. */
export interface OutdatedPass {
  readonly kind: 'outdated';
  readonly version: number;
}

export interface PassInput {
  /** Images of jobs, newest known: candidates, and outcomes to settle. */
  readonly hints: readonly JobImage[];
  /** Jobs that were being stored when somebody told of them: they are looked up. @default - none */
  readonly told?: readonly string[] | undefined;
  /** Jobs that word was left of by whoever could not have the lease: what they are by now is a hint. @default - none */
  readonly named?: readonly NamedJob[] | undefined;
  /** Word was left because something has become due. @default - none was */
  readonly isToldOfDueWork?: boolean | undefined;
  /** Somebody left word without saying what: look up what is in flight, whether or not its time has come. */
  readonly checksAll: boolean;
  /** Hints were missed: what is remembered of lines may not be all there is. */
  readonly hasMissed: boolean;
  /** What is remembered of lines is read again: jobs may have come of which nobody has told yet. @default false */
  readonly readsAnew?: boolean | undefined;
  /** Look for scheduled jobs whose time has come. */
  readonly promotes: boolean;
  /** Look for schedules whose time has come. */
  readonly fires: boolean;
  /** Of the hints, jobs that were stored just now, and that nobody else can have seen. */
  readonly justStored: ReadonlySet<string>;
  /** Takes what nothing waits for: it goes on beside the pass and the release of the lease, and never rejects. */
  readonly inBackground: (work: Promise<unknown>) => void;
}

export interface PassScope {
  readonly context: DispatchContext;
  readonly lease: HeldLease;
  readonly input: PassInput;
  readonly partition: number;
  /** What it does for other partitions; undefined: there never were any. */
  readonly between: BetweenPartitions | undefined;
  /** When the pass began. */
  readonly nowMs: number;
  /** What this process remembers of the partition. */
  readonly cached: PartitionCache;
}

/** Whether the lease is trusted still: after that, nothing more is written under it. */
export const isInTime = ({ context, lease }: Pick<PassScope, 'context' | 'lease'>): boolean =>
  context.clock.monotonicMs() < lease.trustedUntilMonotonicMs;
