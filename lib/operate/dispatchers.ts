/** Reads the dispatchers: long-running processes and functions, by the partitions that they lead. */

import { buildRing, roleOf } from '../core/ring.ts';
import { residentIn } from '../dispatch/lead/lead.ts';
import { type Depth, depthOf, LOOK_BOUNDS } from '../dispatch/partition/depth.ts';
import { allEnded } from '../runtime/all-ended.ts';
import type { DispatcherRecord, Leader } from '../store/contract/records.ts';
import { type OperateContext, partitionsOf } from './controls.ts';

/** `resident`: a long-running process (`fairlead dispatcher`). `function`: a Lambda function, which triggers start. */
export type DispatcherRole = 'resident' | 'function';

/** A long-running dispatcher. */
export interface ResidentView extends DispatcherRecord {
  /** Partitions that it takes over if their leader fails, ascending. */
  readonly standsBy: readonly number[];
}

/** A partition and the dispatcher that leads it. */
export interface LedPartition {
  readonly partition: number;
  /** The kind of its leader. Without a leader, functions make single passes, and remember nothing between them. */
  readonly ledBy: DispatcherRole | 'nobody';
  /** The name of the resident, or the id of a function's lead. */
  readonly leader?: string | undefined;
  /** Epoch ms. When the lead ends unless it is renewed. */
  readonly untilMs?: number | undefined;
  /** The jobs that wait in the partition. */
  readonly depth: Depth;
  /** The longest wait among the counted jobs, in ms. */
  readonly waitedMs?: number | undefined;
}

export interface DispatchersView {
  readonly residents: readonly ResidentView[];
  readonly partitions: readonly LedPartition[];
}

/** Reads all live dispatchers, by name, and every partition. */
export async function readDispatchers(context: OperateContext): Promise<DispatchersView> {
  const { store, clock } = context;
  const nowMs = clock.nowMs();
  const partitions = partitionsOf(context);
  const [members, led] = await allEnded([
    store.listDispatchers(nowMs),
    allEnded(
      partitions.map(async (partition) => {
        const [leader, depth] = await allEnded([
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
