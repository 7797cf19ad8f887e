/** How much waits in a partition: counted in its lines, up to bounds. Reads only, of the index, which may lag. */
import type { DispatchContext } from './context.ts';

export interface Depth {
  /** Jobs that are ready and wait. */
  readonly jobs: number;
  /** There may be more: a bound was met, or some are parked behind a conflict key. */
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
export const LOOK_BOUNDS: DepthBounds = { types: 1_000, keys: 100, jobs: 100 };
/** A dispatcher looks every half a minute, and each look is billed. */
export const HEARTBEAT_BOUNDS: DepthBounds = { types: 20, keys: 20, jobs: 50 };

/** Counts what waits in the ready lines of a partition. */
export async function depthOf(
  { store, configuration }: Pick<DispatchContext, 'store' | 'configuration'>,
  partition: number,
  bounds: DepthBounds,
): Promise<Depth> {
  const types = configuration.types.slice(0, bounds.types);
  const depths = await Promise.all(
    types.map(async ({ type }): Promise<Depth> => {
      const { keys, next } = await store.readKeys({ partition, type, limit: bounds.keys });
      const lines = keys.flatMap(({ fairnessKey, lines: ofKey }) =>
        ofKey.map((line) => ({ ...line, type, fairnessKey })),
      );
      const heads = await Promise.all(
        lines.map((line) => store.readLine({ partition, line, limit: bounds.jobs })),
      );
      const hasParked = keys.some(({ parked = [] }) => parked.length > 0);
      const isCut = next !== undefined || heads.some((each) => each.next !== undefined);
      return depthIn(
        heads.flatMap(({ jobs }) => jobs).map(({ readyAtMs }) => readyAtMs),
        isCut || hasParked,
      );
    }),
  );
  const all = combinedDepth(depths);
  return types.length < configuration.types.length ? { ...all, isLeast: true } : all;
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
