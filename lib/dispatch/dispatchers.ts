/** Who makes the passes: dispatchers that run on, and functions, by the partitions that they lead. Reads only. */
import { buildRing, roleOf } from '../core/ring.ts';
import type { DispatcherRecord, LeaseRecord } from '../store/records.ts';
import { type Depth, depthOf, LOOK_BOUNDS } from './depth.ts';
import { functionIn, residentIn } from './lease.ts';
import { type OperateContext, partitionsOf } from './operate.ts';

/** `resident`: a process that runs on (`fairlead dispatcher`). `function`: whoever is triggered. */
export type DispatcherRole = 'resident' | 'function';

/** A dispatcher that runs on. */
export interface ResidentView extends DispatcherRecord {
  /** Partitions for which it is the next, ascending. */
  readonly standsBy: readonly number[];
}

/** A partition, and who makes its passes. */
export interface LedPartition {
  readonly partition: number;
  /** `nobody`: it was given back, or has expired. */
  readonly ledBy: DispatcherRole | 'nobody';
  /** Who that is, or, of one that nobody leads, who led it last; absent: nobody ever has, or nobody knows. */
  readonly holder?: { readonly role: DispatcherRole; readonly id: string } | undefined;
  /** When that holder began. */
  readonly sinceMs?: number | undefined;
  /** Of the lease: it grows with each that leads. 0: nobody ever has. */
  readonly epoch: number;
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
        const [lease, depth] = await Promise.all([
          store.readLease(partition),
          depthOf(context, partition, LOOK_BOUNDS),
        ]);
        return ledPartition(partition, lease, depth, nowMs);
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
  lease: LeaseRecord | undefined,
  depth: Depth,
  nowMs: number,
): LedPartition {
  const { holder: name, takenAtMs } = lease ?? {};
  const resident = name === undefined ? undefined : residentIn(name);
  const role = resident === undefined ? 'function' : 'resident';
  const isLed = lease?.isHeld === true && lease.expiresAtMs > nowMs;
  return {
    partition,
    ledBy: isLed ? role : 'nobody',
    ...(name === undefined ? {} : { holder: { role, id: resident?.dispatcherId ?? functionIn(name) } }),
    ...(takenAtMs === undefined ? {} : { sinceMs: takenAtMs }),
    epoch: lease?.epoch ?? 0,
    depth,
    ...(depth.oldestReadyAtMs === undefined ? {} : { waitedMs: Math.max(0, nowMs - depth.oldestReadyAtMs) }),
  };
}
