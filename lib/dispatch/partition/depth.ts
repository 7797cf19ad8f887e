/**
 * Counts the jobs that wait in the ready lines of a partition, up to bounds, without those that are reserved. It only reads, from
 * an index that may lag. Resident dispatchers and the CLI use it, and a pass that reports the metric `backlogTime`.
 */

import type { ReservedJob } from '../../core/job.ts';
import { allEnded } from '../../runtime/all-ended.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { PartitionState } from '../../store/contract/records.ts';
import { BESIDE_MAX, PAGE_MAX } from '../tuning.ts';
import type { DispatchContext } from './context.ts';

export interface Depth {
  /** Ready jobs that wait. */
  readonly jobs: number;
  /** Whether more jobs may wait than were counted: a bound was reached, or jobs may be parked for a conflict key. */
  readonly isLeast: boolean;
  /** Epoch ms at which the first of the counted jobs became ready; absent if none waits. */
  readonly oldestReadyAtMs?: number | undefined;
}

/** Bounds of one count. */
export interface DepthBounds {
  /** The most types. */
  readonly types: number;
  /** The most keys of each type. The keys with the least charges are counted. */
  readonly keys: number;
  /** The most jobs of each line. */
  readonly jobs: number;
}

/** Bounds for a caller that waits for the answer. */
export const LOOK_BOUNDS: DepthBounds = { types: PAGE_MAX, keys: PAGE_MAX, jobs: PAGE_MAX };
/** Bounds for the counts of a resident dispatcher, which counts every half a minute and pays for each read. */
export const HEARTBEAT_BOUNDS: DepthBounds = { types: BESIDE_MAX, keys: BESIDE_MAX, jobs: BESIDE_MAX };

/**
 * Bounds for the metric `backlogTime`, each minute: ten pages of jobs in all, but at least one of each line. Half of
 * it: 500 jobs of 10 ms on one slot are five seconds of work, and only their age shows more. Twice: 170 read units a
 * minute while fleets are full.
 */
export const METRIC_BOUNDS = {
  types: BESIDE_MAX,
  keys: BESIDE_MAX,
  jobs: (lines: number): number => Math.ceil((10 * PAGE_MAX) / lines),
};

/** Counts the waiting jobs of a partition. */
export async function depthOf(
  { store, clock, configuration }: Pick<DispatchContext, 'store' | 'clock' | 'configuration'>,
  partition: number,
  bounds: DepthBounds,
): Promise<Depth> {
  const types = configuration.types.map(({ type }) => type);
  const [{ marks }, { heads, isCut }] = await allEnded([
    store.listParked({ partition, limit: 1 }),
    waitingHeads({ store }, partition, {
      types,
      bounds: { ...bounds, jobs: () => bounds.jobs },
      held: async () =>
        heldIn(await store.loadPartition({ partition, nowMs: clock.nowMs(), withoutLedgers: true })),
    }),
  ]);
  return depthIn(
    heads.map(({ readyAtMs }) => readyAtMs),
    isCut || marks.length > 0,
  );
}

export interface WaitingHeads {
  readonly heads: readonly JobHead[];
  /** Whether a bound was reached, so that more jobs may wait. */
  readonly isCut: boolean;
}

/** Reads the first jobs of the ready lines of these types, without those that hold capacity. */
export async function waitingHeads(
  { store }: Pick<DispatchContext, 'store'>,
  partition: number,
  ask: {
    readonly types: readonly string[];
    /** `jobs` returns the most jobs to read of each line, given how many lines there are. */
    readonly bounds: Omit<DepthBounds, 'jobs'> & { readonly jobs: (lines: number) => number };
    /** Returns the jobs that hold capacity. It is called only if the keys lines name a ready line to read. */
    readonly held: () => HeldJobs | Promise<HeldJobs>;
  },
): Promise<WaitingHeads> {
  const { bounds } = ask;
  const types = ask.types.slice(0, bounds.types);
  const found = await allEnded(
    types.map(async (type) => ({
      type,
      ...(await store.readKeys({ partition, type, limit: bounds.keys })),
    })),
  );
  const lines = found.flatMap(({ type, keys }) =>
    keys.flatMap(({ fairnessKey, lines: ofKey }) => ofKey.map((line) => ({ ...line, type, fairnessKey }))),
  );
  if (lines.length === 0) return { heads: [], isCut: types.length < ask.types.length };
  const held = await ask.held();
  const most = bounds.jobs(lines.length);
  const read = await allEnded(
    lines.map(async (line) => {
      const limit = most + held.countIn(line);
      const { jobs, next } = await store.readLine({ partition, line, limit });
      const waiting = jobs.filter((head) => !isHeld(held, head));
      return { jobs: waiting.slice(0, most), isCut: next !== undefined || waiting.length > most };
    }),
  );
  return {
    heads: read.flatMap(({ jobs }) => jobs),
    isCut:
      types.length < ask.types.length ||
      found.some(({ next }) => next !== undefined) ||
      read.some(({ isCut }) => isCut),
  };
}

/** Jobs that hold capacity. Those that have not started still stand in their ready lines, at the front. */
export interface HeldJobs {
  /** Reservation entries by job id. */
  readonly places: ReadonlyMap<string, ReservedJob>;
  /** Returns how many of these jobs may stand in a ready line. */
  readonly countIn: (line: Pick<ReservedJob, 'type' | 'fairnessKey'>) => number;
}

/** Whether a job in a line is reserved. At another version the job waits again, and recovery drops its entry. */
export const isHeld = (held: HeldJobs, { id, version }: Pick<JobHead, 'id' | 'version'>): boolean =>
  held.places.get(id)?.version === version;

export const heldIn = ({ reservations }: Pick<PartitionState, 'reservations'>): HeldJobs =>
  heldAmong(reservations.flatMap(({ jobs }) => [...jobs.values()]));

export function heldAmong(entries: readonly ReservedJob[]): HeldJobs {
  const places = new Map<string, ReservedJob>();
  const counts = new Map<string, number>();
  const nameOf = ({ type, fairnessKey }: Pick<ReservedJob, 'type' | 'fairnessKey'>): string =>
    JSON.stringify([type, fairnessKey]);
  for (const entry of entries) {
    places.set(entry.id, entry);
    counts.set(nameOf(entry), (counts.get(nameOf(entry)) ?? 0) + 1);
  }
  return { places, countIn: (line) => counts.get(nameOf(line)) ?? 0 };
}

const depthIn = (readyAtMs: readonly number[], isLeast: boolean): Depth => ({
  jobs: readyAtMs.length,
  isLeast,
  ...(readyAtMs.length === 0 ? {} : { oldestReadyAtMs: Math.min(...readyAtMs) }),
});

/** Adds up several depths. */
export function combinedDepth(depths: readonly Depth[]): Depth {
  const oldest = depths.flatMap(({ oldestReadyAtMs }) => oldestReadyAtMs ?? []);
  return {
    jobs: depths.reduce((sum, { jobs }) => sum + jobs, 0),
    isLeast: depths.some(({ isLeast }) => isLeast),
    ...(oldest.length === 0 ? {} : { oldestReadyAtMs: Math.min(...oldest) }),
  };
}
