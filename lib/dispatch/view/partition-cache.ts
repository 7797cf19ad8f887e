/** What a process remembers of a partition between passes. */
import type { EstimateRecord, Ledger, PartitionState } from '../../store/contract/records.ts';
import { ENTRIES_MAX } from '../tuning.ts';
import { View } from './view.ts';

/** What is exact as long as the partition's version is that of the leader's own last commit. */
interface Exact {
  /** The partition's version after the last pass; undefined: no pass has ended. */
  version: number | undefined;
  readonly ledgers: Map<string, Ledger | undefined>;
  readonly estimates: Map<string, EstimateRecord | undefined>;
  /** What the store has of an estimate that was learned on since. */
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

/** When the load of a partition was measured last. */
export interface MeasureMemory {
  measuredAtMs?: number | undefined;
  /** Gauges that were above zero: they are told once more when they are not. */
  measuredBusy?: boolean | undefined;
}

/**
 * What a dispatcher remembers of a partition. Only a leader remembers ledgers, costs and lines: they are exact as
 * long as the partition's version is that of the leader's own last commit. The rest says when this process last did something, or where it
 * goes on: right or wrong, it loses nothing.
 */
export interface PartitionCache extends Exact {
  /** The lead that remembers; undefined: ledgers, costs and lines are those of one pass. */
  leadBy: string | undefined;
  /** When capacity was asked for last. */
  askedAtMs?: number | undefined;
  /** For when a wake was asked for last, to go on with recovery. */
  wakeAskedMs?: number | undefined;
  /** For when a wake was asked for last, to look whether another partition's turn with a conflict key is over. */
  openAskedMs?: number | undefined;
  /** By conflict key: when it was marked as having a blocked line. */
  readonly marked: Map<string, number>;
  /** Conflict keys that a lost claim may have let go. */
  readonly letGo: Set<string>;
  /** By conflict key: where the groups of its blocked line go on that were not read lately. Right or wrong, it loses nothing. */
  readonly groupCursors: Map<string, string>;
  /** Where the round of all marked conflict keys goes on: also after another process made passes. */
  markedCursor?: string | undefined;
  /** What was measured last. */
  readonly measured: MeasureMemory;
  /** When some of them were looked at last. */
  roundAtMs?: number | undefined;
  /** What was seen of other partitions after a redeploy. */
  handover?: HandoverMemory | undefined;
  /** Keys that were met here, and live somewhere else. */
  readonly strangers: StrangersMemory;
}

/** What a process remembers of a handover. What was read may be old, and is then more than there is: see `handover.ts`. */
export interface HandoverMemory {
  /** The version that it is about. */
  readonly since: number;
  readonly beganMonotonicMs: number;
  readonly noted: Set<number>;
  /** As last read, of those that are not over. */
  readonly states: Map<number, PartitionState>;
  readonly over: Set<number>;
  /** The partition at which the next reads begin. */
  cursor: number;
  /** When the next look is due; a wake is under way for it. */
  lookAtMonotonicMs: number;
}

/** What a process remembers of keys that it met in a partition where they do not live. */
export interface StrangersMemory {
  /** By type and key: when it was looked at last. */
  readonly lookedAtMs: Map<string, number>;
  walkedAtMs: number;
}

/** What a process remembers, by partition. */
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
  strangers: { lookedAtMs: new Map(), walkedAtMs: -Infinity },
  ...before,
  letGo: new Set(before?.letGo),
  leadBy,
  ...emptyExact(),
});

/** The memory for a pass: that of the lead whose pass it is, or an empty one. */
export function openCache(
  memory: PartitionCaches,
  partition: number,
  leadBy: string | undefined,
): PartitionCache {
  const known = memory.get(partition);
  const isOwn = known !== undefined && leadBy !== undefined && known.leadBy === leadBy;
  const most = ENTRIES_MAX / (memory.size + 1);
  // Of ten thousand keys, the jobs that were read of their lines are by far the most, and the cheapest to read again.
  if (isOwn && sizeOf(known) > most) known.view.lines.clear();
  const cache = isOwn && sizeOf(known) <= most ? known : emptyCache(leadBy, known);
  // A pass that does not end well leaves nothing that is exact: a commit without an answer may have happened or not.
  memory.set(partition, emptyCache(leadBy, cache));
  return cache;
}

/** Forgets what is not exact any more, once the partition was loaded: another dispatcher has committed since. */
export function forgetUnlessAt(cache: PartitionCache, version: number): void {
  // planted: view-of-another-version
  if (cache.version === undefined || cache.version === version) return;
  Object.assign(cache, emptyExact());
}

/** After a pass every commit of which was answered. */
export function keepCache(
  memory: PartitionCaches,
  partition: number,
  cache: PartitionCache,
  version: number,
): void {
  cache.version = version;
  memory.set(partition, cache);
}
