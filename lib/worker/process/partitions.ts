/**
 * The partitions that a worker process is registered with: those that there are, and those whose jobs it is given. One that is
 * none any more is let go once it has neither slots nor jobs there.
 */
import type { WorkerIdentity } from '../../store/contract/records.ts';
import { Division } from '../division.ts';
import type { Guard } from '../guard.ts';
import { sharesOf } from '../membership.ts';
import type { WorkerSettings } from './options.ts';

/** How often the number of partitions is looked at; and while slots are on their way: more than a heartbeat later. */
const FOLLOW_EVERY_MS = 60_000;
const GO_ON_AFTER_MS = 10_000;

/** How a worker's slots are divided among partitions at first, and which partition comes first of so many. */
export interface Shares {
  readonly shares: ReadonlyMap<number, number>;
  readonly firstOf: (partitions: number) => number;
}

export function sharesAtFirst({ slots, partitions, random }: WorkerSettings): Shares {
  const offset = random();
  /** Many small workers do not all serve the same partitions. */
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
    /** Whether a job of a partition was accepted, and is not over. */
    isAtWork: (partition: number) => boolean,
  ) {
    this.#settings = settings;
    this.#life = life;
    this.#guard = guard;
    this.#first = first;
    this.#isAtWork = isAtWork;
    this.#served = new Set(first.shares.keys());
  }

  /** Whether the worker is registered with a partition; with one that came to be since its life began, it is first. */
  async serves(partition: number): Promise<boolean> {
    const served = this.#served;
    if (!served.has(partition) && (await this.#guard.serve(partition))) served.add(partition);
    return served.has(partition);
  }

  /** Looks at the number of partitions once a minute, and divides the slots anew. */
  async follow(begun: AbortSignal, ended: AbortSignal): Promise<void> {
    const { partitionsNow, clock, log, store, fleet, slots } = this.#settings;
    if (partitionsNow === undefined) return;
    const { firstOf, shares } = this.#first;
    const division = new Division({
      store,
      nowMs: () => clock.nowMs(),
      life: this.#life,
      fleet,
      slots,
      shares,
      tell: (partition, share) => this.#guard.tell({ kind: 'share', partition, slots: share }),
    });
    let raised: readonly number[] = [];
    for (;;) {
      const isSoon = division.isUnderWay || raised.length > 0;
      await clock.sleep(isSoon ? GO_ON_AFTER_MS : FOLLOW_EVERY_MS, ended);
      if (ended.aborted || begun.aborted) return;
      try {
        // A heartbeat has told of their slots by now, and of slots that are lowered.
        await wake(this.#settings, [...raised, ...division.waitsFor]);
        raised = [];
        const partitions = await partitionsNow();
        for (let partition = 0; partition < partitions; partition += 1) await this.serves(partition);
        raised = await division.step(partitions, firstOf(partitions));
        // By that step, those that are gone have no slots.
        if (!begun.aborted) this.#letGo((partition) => partition >= partitions && !division.owes(partition));
      } catch (error) {
        log.warn('the number of partitions could not be followed; trying again', {
          ...this.#life,
          error: String(error),
        });
      }
    }
  }

  /** Whoever is given a job of such a partition later registers there again before it starts it. */
  #letGo(isGone: (partition: number) => boolean): void {
    for (const partition of this.#served) {
      // planted: let-go-at-work
      if (!isGone(partition) || this.#isAtWork(partition)) continue;
      this.#served.delete(partition);
      this.#guard.tell({ kind: 'letGo', partition });
    }
  }
}

/** There are new slots: jobs may be waiting for them. A hint; the next tick makes up for a lost one. */
export async function wake(options: WorkerSettings, partitions: Iterable<number>): Promise<void> {
  const { queue, log } = options;
  await Promise.all(
    Array.from(partitions, async (partition) => {
      try {
        await queue.sendWake({ partition });
      } catch (error) {
        log.warn('the partition was not woken; the next tick will', { partition, error: String(error) });
      }
    }),
  );
}
