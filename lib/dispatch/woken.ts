/** What wakes that came together ask for. */
import type { PassWake } from '../queue/message.ts';
import type { WakeTrigger } from './dispatch.ts';

/** One run for each partition, so that none is in another's way. */
export function triggersOf(wakes: readonly PassWake[]): readonly WakeTrigger[] {
  return Array.from(
    Map.groupBy(wakes, ({ partition }) => partition),
    ([partition, ofPartition]): WakeTrigger => {
      const jobIds = ofPartition.flatMap((wake) => wake.jobIds ?? []);
      const others = ofPartition.filter((wake) => wake.jobIds === undefined);
      /** The latest instant that they are for. */
      const dueAtMs = Math.max(...others.map((wake) => wake.dueAtMs ?? -Infinity));
      return {
        jobs: [],
        reason: others.length > 0 ? 'wake' : 'told',
        partitions: [partition],
        ...(jobIds.length > 0 ? { jobIds } : {}),
        ...(dueAtMs === -Infinity ? {} : { dueAtMs }),
        ...(others.length > 0 && others.every((wake) => wake.dueAtMs !== undefined)
          ? { isForDue: true }
          : {}),
      };
    },
  );
}
