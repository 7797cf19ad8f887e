/**
 * How much waits in a partition: counted in its lines, up to bounds, without what has a place already. Reads only, of the index, which
 * may lag.
 */
import type { ReservedJob } from '../../core/job.ts';
import type { JobHead } from '../../store/contract/job-fields.ts';
import type { PartitionState } from '../../store/contract/records.ts';
import { BESIDE_MAX, PAGE_MAX } from '../tuning.ts';
import type { DispatchContext } from './context.ts';

export interface Depth {
  /** Jobs that are ready and wait. */
  readonly jobs: number;
  /** There may be more: a bound was met, or some may be parked behind a conflict key. */
  readonly isLeast: boolean;
  /** When the one of those counted became ready that was so first; absent: none waits. */
  readonly oldestReadyAtMs?: number | undefined;
}

/** Up to which a look counts. */
export interface DepthBounds {
  /** Types that are looked at. */
  readonly types: number;
  /** Of each type, those that were charged least. */
  readonly keys: number;
  /** Of each line. */
  readonly jobs: number;
}

/** Whoever asks waits for it. */
export const LOOK_BOUNDS: DepthBounds = { types: PAGE_MAX, keys: PAGE_MAX, jobs: PAGE_MAX };
/** A dispatcher looks every half a minute, and each look is billed. */
export const HEARTBEAT_BOUNDS: DepthBounds = { types: BESIDE_MAX, keys: BESIDE_MAX, jobs: BESIDE_MAX };

/** Counts what waits in the ready lines of a partition. */
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

/** Jobs that hold capacity: those that have not started stand in front of those that wait in their lines. */
export interface HeldJobs {
  /** By the job's id. */
  readonly places: ReadonlyMap<string, ReservedJob>;
  /** How many of them may stand in a line. */
  readonly countIn: (line: Pick<ReservedJob, 'type' | 'fairnessKey'>) => number;
}

/** Whether a job that stands in a line has a place. Moved since, it waits again: that place is given up. */
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

/** Several depths as one. */
export function combinedDepth(depths: readonly Depth[]): Depth {
  const oldest = depths.flatMap(({ oldestReadyAtMs }) => oldestReadyAtMs ?? []);
  return {
    jobs: depths.reduce((sum, { jobs }) => sum + jobs, 0),
    isLeast: depths.some(({ isLeast }) => isLeast),
    ...(oldest.length === 0 ? {} : { oldestReadyAtMs: Math.min(...oldest) }),
  };
}
