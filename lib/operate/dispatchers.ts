/** The dispatchers that make the passes: those that run on, and functions, by the partitions that they lead. Reads only. */
import { buildRing, roleOf } from '../core/ring.ts';
import { residentIn } from '../dispatch/lead/lead.ts';
import { type Depth, depthOf, LOOK_BOUNDS } from '../dispatch/partition/depth.ts';
import type { DispatcherRecord, Leader } from '../store/contract/records.ts';
import { type OperateContext, partitionsOf } from './controls.ts';

/** `resident`: a process that runs on (`fairlead dispatcher`). `function`: one that is triggered. */
export type DispatcherRole = 'resident' | 'function';

/** A dispatcher that runs on. */
export interface ResidentView extends DispatcherRecord {
  /** Partitions for which it is the next, ascending. */
  readonly standsBy: readonly number[];
}

/** A partition, and the dispatcher that leads it. */
export interface LedPartition {
  readonly partition: number;
  /** `nobody`: functions make its passes one by one, and each remembers nothing. */
  readonly ledBy: DispatcherRole | 'nobody';
  /** The resident's name, or that of one lead of a function. */
  readonly leader?: string | undefined;
  /** Epoch ms: until then, unless the lead is renewed. */
  readonly untilMs?: number | undefined;
  /** What waits there. */
  readonly depth: Depth;
  /** How long the job has waited that waits longest, of those that were counted. */
  readonly waitedMs?: number | undefined;
}

export interface DispatchersView {
  readonly residents: readonly ResidentView[];
  readonly partitions: readonly LedPartition[];
}

/** All dispatchers that live, by name, and every partition. */
export async function readDispatchers(context: OperateContext): Promise<DispatchersView> {
  const { store, clock } = context;
  const nowMs = clock.nowMs();
  const partitions = partitionsOf(context);
  const [members, led] = await Promise.all([
    store.listDispatchers(nowMs),
    Promise.all(
      partitions.map(async (partition) => {
        const [leader, depth] = await Promise.all([
          store.readLeader(partition),
          depthOf(context, partition, LOOK_BOUNDS),
        ]);
        return ledPartition(partition, leader, depth, nowMs);
      }),
    ),
  ]);
  const ring = buildRing(members.map(({ dispatcherId }) => dispatcherId));
  const residents = members
    .toSorted((one, other) => (one.dispatcherId < other.dispatcherId ? -1 : 1))
    .map((member) => ({
      ...member,
      standsBy: partitions.filter((partition) => roleOf(ring, partition, member.dispatcherId) === 'standby'),
    }));
  return { residents, partitions: led };
}

function ledPartition(
  partition: number,
  leader: Leader | undefined,
  depth: Depth,
  nowMs: number,
): LedPartition {
  const resident = leader === undefined ? undefined : residentIn(leader.holder);
  const led: Pick<LedPartition, 'ledBy' | 'leader' | 'untilMs'> =
    leader === undefined || leader.untilMs <= nowMs
      ? { ledBy: 'nobody' }
      : {
          ledBy: resident === undefined ? 'function' : 'resident',
          leader: resident ?? leader.holder,
          untilMs: leader.untilMs,
        };
  return {
    partition,
    ...led,
    depth,
    ...(depth.oldestReadyAtMs === undefined ? {} : { waitedMs: Math.max(0, nowMs - depth.oldestReadyAtMs) }),
  };
}
