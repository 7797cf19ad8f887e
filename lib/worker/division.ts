/**
 * How a worker's slots are divided anew when the number of partitions changes while it lives, so that no slot counts twice.
 *
 * A partition counts on the slots that its last read showed, and jobs that it reserved on them may not have started yet. So
 * slots are lowered where there are too many, and raised in another partition only after
 *
 *  - a read shows the lowered record, at some version of the partition summary, and
 *  - a later read, at a later version, shows no more reserved jobs of the fleet than slots. Passes that loaded an earlier
 *    version, and may have counted on the slots, can no longer commit; those that loaded a later one have seen the lowered
 *    record. A wake raises the version even if nothing else happens in the partition.
 *
 * Slots that are lent from or to the partition are not moved: the borrower counts on them.
 */

import type { WorkerIdentity } from '../store/contract/records.ts';
import type { PassStore } from '../store/contract/verbs.ts';
import { sharesOf } from './membership.ts';

export interface DivisionParts {
  readonly store: Pick<PassStore, 'loadPartition'>;
  readonly nowMs: () => number;
  readonly life: WorkerIdentity;
  readonly fleet: string;
  readonly slots: number;
  /** How many of the worker's slots each partition has at first. */
  readonly shares: ReadonlyMap<number, number>;
  /** Sets how many slots the worker's record in a partition has from the next heartbeat on. */
  readonly setSlots: (partition: number, slots: number) => void;
}

/** Slots that were taken from a partition and are not given to another one yet. */
interface Lowered {
  readonly units: number;
  /**
   * The partition's version at the first read that showed the lowered record; undefined while no read has shown it.
   */
  readonly version: number | undefined;
}

export class SlotDivision {
  readonly #parts: DivisionParts;
  readonly #shares: Map<number, number>;
  readonly #lowered = new Map<number, Lowered>();

  constructor(parts: DivisionParts) {
    this.#parts = parts;
    this.#shares = new Map(parts.shares);
  }

  /** Whether slots are moving from one partition to another. */
  get isUnderWay(): boolean {
    return this.#lowered.size > 0;
  }

  /** Returns the partitions that must reach another version before their slots can move. */
  get waitsFor(): readonly number[] {
    return [...this.#lowered.keys()];
  }

  /** Whether slots that a partition had are still to be given to others. */
  owes(partition: number): boolean {
    return this.#lowered.has(partition);
  }

  /**
   * Goes one step towards the division among `partitions` partitions, in which the remainder goes to the partitions
   * from `first` on. To be called repeatedly. Returns the partitions that got slots.
   */
  async step(partitions: number, first: number): Promise<readonly number[]> {
    const wanted = sharesOf(this.#parts.slots, partitions, first);
    const raised: number[] = [];
    this.#lower(wanted);
    for (const [partition, lowered] of [...this.#lowered])
      if (await this.#isFree(partition, lowered)) raised.push(...this.#raise(partition, lowered, wanted));
    return raised;
  }

  /** Takes slots from partitions that have too many. */
  #lower(wanted: ReadonlyMap<number, number>): void {
    for (const [partition, share] of [...this.#shares]) {
      const target = wanted.get(partition) ?? 0;
      if (share <= target) continue;
      const { units = 0 } = this.#lowered.get(partition) ?? {};
      this.#lowered.set(partition, { units: units + share - target, version: undefined });
      this.#set(partition, target);
    }
  }

  /** Gives the slots that `#lower` took from `partition` to partitions that have too few. Returns those partitions. */
  #raise(partition: number, { units }: Lowered, wanted: ReadonlyMap<number, number>): readonly number[] {
    this.#lowered.delete(partition);
    const raised: number[] = [];
    let left = units;
    // No partition has more than its target, and together they lack as many slots as were lowered: all of them fit.
    for (const [receiver, target] of wanted) {
      const share = this.#shares.get(receiver) ?? 0;
      const more = Math.min(left, target - share);
      if (more === 0) continue;
      this.#set(receiver, share + more);
      raised.push(receiver);
      // planted: raised-twice
      left -= more;
    }
    return raised;
  }

  #set(partition: number, share: number): void {
    this.#shares.set(partition, share);
    this.#parts.setSlots(partition, share);
  }

  /** Whether no pass counts any more on the slots that the partition had. */
  async #isFree(partition: number, { units, version }: Lowered): Promise<boolean> {
    const { store, nowMs, life, fleet } = this.#parts;
    const state = await store.loadPartition({ partition, nowMs: nowMs(), withoutLedgers: true });
    const ofFleet = state.workers.filter((worker) => worker.fleet === fleet);
    const own = ofFleet.find(
      ({ workerId, incarnation }) => workerId === life.workerId && incarnation === life.incarnation,
    );
    if (own?.slots !== this.#shares.get(partition)) return false;
    if (version === undefined) this.#lowered.set(partition, { units, version: state.version });
    if (version === undefined || state.version === version || state.loans.length > 0) return false;
    const reserved = state.reservations.flatMap(({ jobs }) => [...jobs.values()]);
    const registered = ofFleet.reduce((total, worker) => total + worker.slots, 0);
    return reserved.filter((entry) => entry.fleet === fleet).length <= registered;
  }
}
