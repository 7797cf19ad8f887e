/**
 * The store in memory: the same verbs, the same conditions, the same awkwardness, one thread. For tests, for simulation under a
 * virtual clock, and for trying a configuration without a cloud. It is put together from a file for each caller or capability.
 *
 * Jobs are immutable, so they are shared and never copied.
 */
import type { Job } from '../../core/job.ts';
import type { ScheduleRecord } from '../../core/recurring.ts';
import { ComposedStore, composeStore } from '../contract/compose.ts';
import type { Lock } from '../contract/records.ts';
import type { PlaceInLine } from '../contract/verbs.ts';
import type { Meter } from '../table/metering.ts';
import { MemoryClaimStore } from './claims.ts';
import { MemoryDeclareStore } from './declaring.ts';
import type { StreamRecord } from './imitation/imitation.ts';
import { MemoryItems, type MemoryStoreOptions, type PartitionView } from './items.ts';
import { MemoryLeadStore } from './leading.ts';
import { MemoryLineStore } from './lines.ts';
import { MemoryMembershipStore } from './membership.ts';
import { MemoryOperateStore } from './operate.ts';
import { MemoryParkingStore } from './parking.ts';
import { MemoryPartitionStore } from './partition.ts';
import { MemoryScheduleStore } from './schedules.ts';
import { MemorySubmitStore } from './submit.ts';
import { MemoryWorkerStore } from './worker.ts';

export class MemoryJobStore extends ComposedStore {
  readonly #items: MemoryItems;
  readonly #schedules: MemoryScheduleStore;

  constructor(options: MemoryStoreOptions) {
    const items = new MemoryItems(options);
    const schedules = new MemoryScheduleStore(items);
    super(
      composeStore(
        new MemorySubmitStore(items),
        new MemoryLineStore(items),
        new MemoryPartitionStore(items),
        new MemoryClaimStore(items),
        new MemoryWorkerStore(items),
        new MemoryParkingStore(items),
        new MemoryLeadStore(items),
        new MemoryMembershipStore(items),
        new MemoryDeclareStore(items),
        new MemoryOperateStore(items, schedules),
        schedules,
      ),
    );
    this.#items = items;
    this.#schedules = schedules;
  }

  /**
   * Hears of every change of a job item, after it. Late, twice, never, in any order, as far as that is imitated.
   *
   * @returns a function that ends the subscription
   */
  subscribe(listener: (record: StreamRecord<Job>) => void): () => void {
    return this.#items.subscribe(listener);
  }

  /** A call by a process that puts jobs elsewhere than others do: it knows another declaration. */
  placing<T>(place: PlaceInLine, call: () => T): T {
    return this.#items.placing(place, call);
  }

  /** Tells from now on what a table would bill for each verb; undefined ends it. */
  set meter(meter: Meter | undefined) {
    this.#items.bill.meter = meter;
  }

  /** What a partition holds: for a simulation's invariants. */
  inspect(partition: number): PartitionView {
    return this.#items.inspect(partition);
  }

  /** The line in which a job's item stands; undefined: there is no such item. For a simulation's invariants. */
  inspectLine(id: string): string | undefined {
    return this.#items.item(id)?.line;
  }

  /** A conflict key's lock as it is: for a simulation's invariants. */
  inspectLock(conflictKey: string): Lock | undefined {
    return this.#items.locks.get(conflictKey);
  }

  /** A job as it is: for a simulation's invariants. */
  inspectJob(id: string): Job | undefined {
    return this.#items.item(id)?.value;
  }

  /** A schedule that something else wrote to, for a test: it cannot be read, or, without a problem, can be again. */
  damageSchedule(id: string, problem: string | undefined): void {
    this.#schedules.damage(id, problem);
  }

  /** A schedule as it is, without waiting. */
  inspectSchedule(id: string): ScheduleRecord | undefined {
    return this.#schedules.peek(id);
  }

  /** Every schedule: for a simulation's invariants. */
  everySchedule(): Iterable<ScheduleRecord> {
    return this.#schedules.all;
  }

  /** Every job that is not gone: for a simulation's invariants. */
  everyJob(): Generator<Job> {
    return this.#items.everyJob();
  }
}
