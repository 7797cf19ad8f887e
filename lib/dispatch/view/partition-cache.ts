/**
 * The cache that a process keeps for each partition between passes. `openCache` gives a pass its cache, and `keepCache` stores it
 * once all commits were answered.
 */
import type { EstimateRecord, Ledger, PartitionState } from '../../store/contract/records.ts';
import { ENTRIES_MAX } from '../tuning.ts';
import { View } from './view.ts';

/** Data that is valid while the partition's version is that of the leader's own last commit. */
interface Exact {
  /** The partition's version after the last pass. Undefined: no pass has ended. */
  version: number | undefined;
  readonly ledgers: Map<string, Ledger | undefined>;
  readonly estimates: Map<string, EstimateRecord | undefined>;
  /** By name: the estimate that the store has, if newer ones were learned since it was written. */
  readonly written: Map<string, EstimateRecord>;
  readonly view: View;
}

const emptyExact = (): Exact => ({
  version: undefined,
  ledgers: new Map(),
  estimates: new Map(),
  written: new Map(),
  view: new View(),
});

/** When the load of a partition was last reported to the metrics. */
export interface MeasureMemory {
  measuredAtMs?: number | undefined;
  /** Whether the last report had gauges above zero, so that one more report must show zero. */
  measuredBusy?: boolean | undefined;
}

/**
 * The cached state of one partition. Ledgers, costs and lines are kept by a leader only, and are valid while the partition's
 * version is that of its own last commit. The other fields are times and cursors. A wrong one of these delays work but loses
 * none.
 */
export interface PartitionCache extends Exact {
  /** The lead that owns the cache. Undefined: ledgers, costs and lines are those of one pass. */
  leadBy: string | undefined;
  /** When this process last asked other partitions for capacity, epoch ms. */
  askedAtMs?: number | undefined;
  /** Epoch ms of the last wake that was requested to continue recovery. */
  recoveryWakeAtMs?: number | undefined;
  /** Epoch ms of the last wake that was requested because a lock opens then. */
  openWakeAtMs?: number | undefined;
  /** Epoch ms of the last wake that was requested for the end of a control. */
  controlWakeAtMs?: number | undefined;
  /** By conflict key: when it was marked as having a blocked line, epoch ms. */
  readonly marked: Map<string, number>;
  /** Conflict keys that may be free now. The next settle step reads the jobs that are parked for them. */
  readonly freedConflictKeys: Set<string>;
  /** By conflict key: the cursor behind the part of its blocked line that the last pass read, if the line is too long for one read. */
  readonly groupCursors: Map<string, string>;
  /** Cursor of the sweep over all marks of conflict keys with parked jobs. It stays valid after passes of another process. */
  markedCursor?: string | undefined;
  /** When the load was last reported to the metrics, and whether that report was above zero. */
  readonly measured: MeasureMemory;
  /** When that sweep last took a step, epoch ms. */
  sweptAtMs?: number | undefined;
  /** Other partitions' state during a handover. */
  handover?: HandoverMemory | undefined;
  /** Keys that were found here and belong to another partition. */
  readonly misplaced: MisplacedMemory;
}

/** A process's state of a handover. Old reads may show more than is still in flight, never less: see `handover.ts`. */
export interface HandoverMemory {
  /** Version of the declaration that the handover is for. */
  readonly since: number;
  readonly beganMonotonicMs: number;
  readonly noted: Set<number>;
  /** The states, as last read, of the partitions that still have something in flight from before. */
  readonly states: Map<number, PartitionState>;
  readonly over: Set<number>;
  /** The partition at which the next reads begin. */
  cursor: number;
  /** When the next reads of other partitions are due, by the monotonic clock. A wake was sent for that time. */
  lookAtMonotonicMs: number;
}

/** A process's record of misplaced keys in one partition. */
export interface MisplacedMemory {
  /** By type and key: when its lines were last read, epoch ms. */
  readonly lookedAtMs: Map<string, number>;
  walkedAtMs: number;
}

/** Caches by partition. */
export type PartitionCaches = Map<number, PartitionCache>;

const sizeOf = ({ ledgers, estimates, view }: PartitionCache): number => {
  let size = ledgers.size + estimates.size;
  for (const { jobs } of view.lines.values()) size += 1 + jobs.length;
  for (const { keys } of view.keys.values()) size += keys.size;
  return size;
};

const emptyCache = (leadBy: string | undefined, before?: PartitionCache): PartitionCache => ({
  marked: new Map(),
  groupCursors: new Map(),
  measured: {},
  misplaced: { lookedAtMs: new Map(), walkedAtMs: -Infinity },
  ...before,
  freedConflictKeys: new Set(before?.freedConflictKeys),
  leadBy,
  ...emptyExact(),
});

/** Returns the cache for a pass: the lead's own if it has one, else an empty one. */
export function openCache(
  memory: PartitionCaches,
  partition: number,
  leadBy: string | undefined,
): PartitionCache {
  const known = memory.get(partition);
  const isOwn = known !== undefined && leadBy !== undefined && known.leadBy === leadBy;
  const most = ENTRIES_MAX / (memory.size + 1);
  // Jobs in lines fill most of the cache of a pool with ten thousand keys, and they are the cheapest to read again.
  if (isOwn && sizeOf(known) > most) known.view.lines.clear();
  const cache = isOwn && sizeOf(known) <= most ? known : emptyCache(leadBy, known);
  // `keepCache` alone stores the cache again. After a failed pass, a commit without an answer may have happened or not,
  // so the cache must not be used.
  memory.set(partition, emptyCache(leadBy, cache));
  return cache;
}

/** After the load, drops data that another dispatcher's commit has made invalid. */
export function forgetUnlessAt(cache: PartitionCache, version: number): void {
  // planted: view-of-another-version
  if (cache.version === undefined || cache.version === version) return;
  Object.assign(cache, emptyExact());
}

/** Stores the cache after a pass whose commits were all answered. */
export function keepCache(
  memory: PartitionCaches,
  partition: number,
  cache: PartitionCache,
  version: number,
): void {
  cache.version = version;
  memory.set(partition, cache);
}
