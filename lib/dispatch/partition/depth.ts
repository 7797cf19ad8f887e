/**
 * Counts the jobs that wait in the ready lines of a partition, up to bounds, without those that are reserved. It only reads, from
 * an index that may lag. Passes do not use it; resident dispatchers and the CLI do.
 */
import type { ReservedJob } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { PartitionState } from '../../store/contract/records.ts';
import { BESIDE_MAX, PAGE_MAX } from '../tuning.ts';
import type { DispatchContext } from './context.ts';

export interface Depth {
  /** Ready jobs that wait. */
  readonly jobs: number;
  /** There may be more: a bound was reached, or jobs may be parked for a conflict key. */
  readonly isLeast: boolean;
  /** Epoch ms at which the first of the counted jobs became ready; absent if none waits. */
  readonly oldestReadyAtMs?: number | undefined;
}

/** Bounds of one count. */
export interface DepthBounds {
  /** Most types. */
  readonly types: number;
  /** Most keys of each type. Those with the least charges are counted. */
  readonly keys: number;
  /** Most jobs of each line. */
  readonly jobs: number;
}

/** Bounds for a caller that waits for the answer. */
export const LOOK_BOUNDS: DepthBounds = { types: PAGE_MAX, keys: PAGE_MAX, jobs: PAGE_MAX };
/** A dispatcher looks every half a minute, and each look is billed. */
export const HEARTBEAT_BOUNDS: DepthBounds = { types: BESIDE_MAX, keys: BESIDE_MAX, jobs: BESIDE_MAX };

/** Counts the waiting jobs of a partition. */
export async function depthOf(
  { store, clock, configuration }: Pick<DispatchContext, 'store' | 'clock' | 'configuration'>,
  partition: number,
  bounds: DepthBounds,
): Promise<Depth> {
  const types = configuration.types.slice(0, bounds.types);
  const [{ marks }, ...found] = await Promise.all([
    store.listParked({ partition, limit: 1 }),
    ...types.map(async ({ type }) => ({
      type,
      ...(await store.readKeys({ partition, type, limit: bounds.keys })),
    })),
  ]);
  const lines = found.flatMap(({ type, keys }) =>
    keys.flatMap(({ fairnessKey, lines: ofKey }) => ofKey.map((line) => ({ ...line, type, fairnessKey }))),
  );
  const held =
    lines.length === 0
      ? NOBODY
      : heldIn(await store.loadPartition({ partition, nowMs: clock.nowMs(), withoutLedgers: true }));
  const heads = await Promise.all(
    lines.map(async (line) => {
      const limit = bounds.jobs + held.countIn(line);
      const { jobs, next } = await store.readLine({ partition, line, limit });
      const waiting = jobs.filter((head) => !isHeld(held, head));
      return {
        jobs: waiting.slice(0, bounds.jobs),
        isCut: next !== undefined || waiting.length > bounds.jobs,
      };
    }),
  );
  return depthIn(
    heads.flatMap(({ jobs }) => jobs).map(({ readyAtMs }) => readyAtMs),
    types.length < configuration.types.length ||
      found.some(({ next }) => next !== undefined) ||
      heads.some(({ isCut }) => isCut) ||
      marks.length > 0,
  );
}

/** Jobs that hold capacity. Those that have not started still stand at the front of their lines. */
export interface HeldJobs {
  /** Reservation entries by job id. */
  readonly places: ReadonlyMap<string, ReservedJob>;
  /** How many of them may stand in a line. */
  readonly countIn: (line: Pick<ReservedJob, 'type' | 'fairnessKey'>) => number;
}

/** Whether a job in a line is reserved. At another version the job waits again, and recovery drops its entry. */
export const isHeld = (held: HeldJobs, { id, version }: Pick<JobHead, 'id' | 'version'>): boolean =>
  held.places.get(id)?.version === version;

const NOBODY: HeldJobs = { places: new Map(), countIn: () => 0 };

export function heldIn({ reservations }: Pick<PartitionState, 'reservations'>): HeldJobs {
  const places = new Map<string, ReservedJob>();
  const counts = new Map<string, number>();
  const nameOf = ({ type, fairnessKey }: Pick<ReservedJob, 'type' | 'fairnessKey'>): string =>
    JSON.stringify([type, fairnessKey]);
  for (const { jobs } of reservations) {
    for (const entry of jobs.values()) {
      places.set(entry.id, entry);
      counts.set(nameOf(entry), (counts.get(nameOf(entry)) ?? 0) + 1);
    }
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
