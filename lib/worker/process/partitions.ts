/**
 * The partitions that a worker process is registered in: all partitions of the pool, and those whose jobs it gets. It
 * leaves a partition that does not exist any more once it has neither slots nor jobs there.
 */
import type { WorkerIdentity } from '../../store/contract/records.ts';
import { SlotDivision } from '../division.ts';
import type { Guard } from '../guard.ts';
import { sharesOf } from '../membership.ts';
import type { WorkerSettings } from './options.ts';

/** Milliseconds between two reads of the number of partitions. */
const FOLLOW_EVERY_MS = 60_000;
/**
 * Milliseconds between two of these reads while slots move between partitions: longer than the usual 5 s between
 * heartbeats.
 */
const SOON_MS = 10_000;

/** How a worker's slots are divided among its partitions at first. */
export interface Shares {
  readonly shares: ReadonlyMap<number, number>;
  /**
   * Returns the partition that gets the remainder of the slots first, among so many partitions. It is random, so that
   * many small workers do not all serve the same ones.
   */
  readonly firstOf: (partitions: number) => number;
}

export function initialShares({ slots, partitions, random }: WorkerSettings): Shares {
  const offset = random();
  const firstOf = (count: number): number => Math.floor(offset * count);
  return { shares: sharesOf(slots, partitions, firstOf(partitions)), firstOf };
}

export class ServedPartitions {
  readonly #settings: WorkerSettings;
  readonly #life: WorkerIdentity;
  readonly #guard: Guard;
  readonly #first: Shares;
  readonly #isAtWork: (partition: number) => boolean;
  readonly #served: Set<number>;

  constructor(
    settings: WorkerSettings,
    life: WorkerIdentity,
    guard: Guard,
    first: Shares,
    /** Whether a job of the partition was accepted and its attempt is not over. */
    isAtWork: (partition: number) => boolean,
  ) {
    this.#settings = settings;
    this.#life = life;
    this.#guard = guard;
    this.#first = first;
    this.#isAtWork = isAtWork;
    this.#served = new Set(first.shares.keys());
  }

  /**
   * Whether the worker is registered in a partition. It registers first in a partition that it does not serve yet.
   */
  async serves(partition: number): Promise<boolean> {
    const served = this.#served;
    if (!served.has(partition) && (await this.#guard.serve(partition))) served.add(partition);
    return served.has(partition);
  }

  /** Reads the number of partitions once a minute, and divides the slots anew. */
  async follow(begun: AbortSignal, ended: AbortSignal): Promise<void> {
    const { partitionsNow, clock, log, store, fleet, slots } = this.#settings;
    if (partitionsNow === undefined) return;
    const { firstOf, shares } = this.#first;
    const division = new SlotDivision({
      store,
      nowMs: () => clock.nowMs(),
      life: this.#life,
      fleet,
      slots,
      shares,
      setSlots: (partition, share) => this.#guard.tell({ kind: 'share', partition, slots: share }),
    });
    let raised: readonly number[] = [];
    for (;;) {
      const isSoon = division.isUnderWay || raised.length > 0;
      await clock.sleep(isSoon ? SOON_MS : FOLLOW_EVERY_MS, ended);
      if (ended.aborted || begun.aborted) return;
      try {
        // By now a heartbeat has stored the slots that were raised or lowered.
        await wake(this.#settings, [...raised, ...division.waitsFor]);
        raised = [];
        const partitions = await partitionsNow();
        for (let partition = 0; partition < partitions; partition += 1) await this.serves(partition);
        raised = await division.step(partitions, firstOf(partitions));
        // After that step the worker has no slots in partitions that are gone.
        if (!begun.aborted) this.#leave((partition) => partition >= partitions && !division.owes(partition));
      } catch (error) {
        log.warn('the number of partitions could not be followed; trying again', {
          ...this.#life,
          error: String(error),
        });
      }
    }
  }

  /**
   * Leaves partitions that are gone. If a job of such a partition arrives later, the worker registers there again
   * first.
   */
  #leave(isGone: (partition: number) => boolean): void {
    for (const partition of this.#served) {
      // planted: let-go-at-work
      if (!isGone(partition) || this.#isAtWork(partition)) continue;
      this.#served.delete(partition);
      this.#guard.tell({ kind: 'leavePartition', partition });
    }
  }
}

/**
 * Wakes partitions that have new slots, because jobs may wait for them. A lost wake delays those jobs until the next
 * tick.
 */
export async function wake(options: WorkerSettings, partitions: Iterable<number>): Promise<void> {
  const { queue, log } = options;
  await Promise.all(
    Array.from(partitions, async (partition) => {
      try {
        await queue.sendWake({ partition });
      } catch (error) {
        log.warn('the partition was not woken; the next tick wakes it', { partition, error: String(error) });
      }
    }),
  );
}
