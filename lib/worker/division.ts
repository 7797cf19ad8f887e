/**
 * How a worker's slots are divided anew when the number of partitions changes while it lives, so that they never count twice.
 *
 * A partition counts on the slots that its last read showed, and what it has reserved on them may not have started yet. So slots
 * are lowered where there are too many, and raised elsewhere only after
 *
 *  - a read shows the lowered record, under some epoch, and
 *  - a later read, under a later epoch, shows no more places of the fleet than slots. Passes of earlier epochs, which may have counted on
 *    the slots, can reserve nothing by then; those of later ones have seen the lowered record.
 *
 * While slots are lent from or to the partition, they stay: the borrower counts on them.
 */
import type { JobStore, WorkerIdentity } from '../store/contract.ts';
import { sharesOf } from './membership.ts';

export interface DivisionParts {
  readonly store: Pick<JobStore, 'loadPartition'>;
  readonly nowMs: () => number;
  readonly life: WorkerIdentity;
  readonly fleet: string;
  readonly slots: number;
  /** As they are divided at first. */
  readonly shares: ReadonlyMap<number, number>;
  /** From the next heartbeat on the worker has so many slots in a partition. */
  readonly tell: (partition: number, slots: number) => void;
}

/** Slots that a partition is to have no more. */
interface Lowered {
  readonly units: number;
  /** Under which a read has shown the lowered record; undefined: none has so far. */
  readonly epoch: number | undefined;
}

/** Goes a step towards as many partitions, of which this one comes first. To be called from time to time. */
export type Divide = (partitions: number, first: number) => Promise<void>;

export function division({ store, nowMs, life, fleet, slots, shares: given, tell }: DivisionParts): Divide {
  const shares = new Map(given);
  const lowered = new Map<number, Lowered>();
  const set = (partition: number, share: number): void => {
    shares.set(partition, share);
    tell(partition, share);
  };

  /** Whether nothing counts on the slots any more that the partition had. */
  const isFree = async (partition: number, { units, epoch }: Lowered): Promise<boolean> => {
    const state = await store.loadPartition(partition, nowMs());
    const ofFleet = state.workers.filter((worker) => worker.fleet === fleet);
    const own = ofFleet.find(
      ({ workerId, incarnation }) => workerId === life.workerId && incarnation === life.incarnation,
    );
    if (own?.slots !== shares.get(partition)) return false;
    if (epoch === undefined) lowered.set(partition, { units, epoch: state.epoch });
    if (epoch === undefined || state.epoch === epoch || state.loans.length > 0) return false;
    const places = state.reservations.flatMap(({ jobs }) => [...jobs.values()]);
    const registered = ofFleet.reduce((total, worker) => total + worker.slots, 0);
    return places.filter((entry) => entry.fleet === fleet).length <= registered;
  };

  return async (partitions, first) => {
    const wanted = sharesOf(slots, partitions, first);
    for (const [partition, share] of [...shares]) {
      const target = wanted.get(partition) ?? 0;
      if (share <= target) continue;
      const { units = 0 } = lowered.get(partition) ?? {};
      lowered.set(partition, { units: units + share - target, epoch: undefined });
      set(partition, target);
    }
    for (const [partition, each] of [...lowered]) {
      if (!(await isFree(partition, each))) continue;
      let left = each.units;
      for (const [receiver, target] of wanted) {
        const share = shares.get(receiver) ?? 0;
        const more = Math.min(left, Math.max(0, target - share));
        if (more > 0) set(receiver, share + more);
        left -= more;
      }
      if (left === 0) lowered.delete(partition);
      else lowered.set(partition, { ...each, units: left });
    }
  };
}
