/**
 * The store in memory, with the verbs and the conditions of the DynamoDB store, and its awkward behaviour on request, in one thread. For
 * tests, for simulation under a virtual clock, and for trying a configuration without a cloud. It is composed from one class for each
 * caller or capability.
 *
 * Jobs are immutable, so they are shared and never copied.
 */
import type { Job } from '../../core/job.ts';
import type { ScheduleRecord } from '../../core/recurring.ts';
import { ComposedStore, composeStore } from '../contract/compose.ts';
import type { Lock } from '../contract/records.ts';
import type { RankOf } from '../contract/verbs.ts';
import type { Meter } from '../table/metering.ts';
import { MemoryClaimStore } from './claims.ts';
import { MemoryDeclareStore } from './declaring.ts';
import { MemoryDedupeStore } from './deduping.ts';
import { MemoryExpiringStore } from './expiring.ts';
import type { StreamRecord } from './imitation/imitation.ts';
import { MemoryItems, type MemoryStoreOptions, type PartitionView } from './items.ts';
import { MemoryLeadStore } from './leading.ts';
import { MemoryLineStore } from './lines.ts';
import { MemoryMembershipStore } from './membership.ts';
import { MemoryOperateStore } from './operate.ts';
import { MemoryParkingStore } from './parking.ts';
import { MemoryPartitionStore } from './partition.ts';
import { MemoryScheduleStore } from './schedules.ts';
import type { MemoryState } from './state.ts';
import { MemoryStatisticsStore } from './statistics.ts';
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
        new MemoryExpiringStore(items),
        new MemoryDedupeStore(items),
        new MemoryMembershipStore(items),
        new MemoryDeclareStore(items),
        new MemoryOperateStore(items, schedules),
        schedules,
        new MemoryStatisticsStore(items),
      ),
    );
    this.#items = items;
    this.#schedules = schedules;
  }

  /**
   * Calls the listener after each change of a job item: late, twice, never or in any order, as far as that is imitated.
   *
   * @returns a function that ends the subscription
   */
  subscribe(listener: (record: StreamRecord<Job>) => void): () => void {
    return this.#items.subscribe(listener);
  }

  /** Everything that the store holds, as it is at this moment. Another store may begin with it. */
  get state(): MemoryState {
    return this.#items.state;
  }

  /** Runs a call as a process with another declaration, whose jobs get other ranks. */
  placing<T>(place: RankOf, call: () => T): T {
    return this.#items.placing(place, call);
  }

  /** Receives what DynamoDB would bill for each verb; undefined ends it. */
  set meter(meter: Meter | undefined) {
    this.#items.bill.meter = meter;
  }

  /** Returns a partition's items, for a simulation's invariants. */
  inspect(partition: number): PartitionView {
    return this.#items.inspect(partition);
  }

  /**
   * Returns the name of the line in which a job stands; undefined if there is no such job. For a simulation's
   * invariants.
   */
  inspectLine(id: string): string | undefined {
    return this.#items.item(id)?.line;
  }

  /** Returns the lock of a conflict key, for a simulation's invariants. */
  inspectLock(conflictKey: string): Lock | undefined {
    return this.#items.state.locks.get(conflictKey);
  }

  /** Returns a job, read without a verb, for a simulation's invariants. */
  inspectJob(id: string): Job | undefined {
    return this.#items.item(id)?.value;
  }

  /** Imitates a write by other software: with a problem the schedule can no longer be read, without one it can be again. */
  damageSchedule(id: string, problem: string | undefined): void {
    this.#schedules.damage(id, problem);
  }

  /** Returns a schedule, read without a verb. */
  inspectSchedule(id: string): ScheduleRecord | undefined {
    return this.#schedules.peek(id);
  }

  /** Returns every schedule, for a simulation's invariants. */
  everySchedule(): Iterable<ScheduleRecord> {
    return this.#schedules.all;
  }

  /** Every job that has not expired, for a simulation's invariants. */
  everyJob(): Generator<Job> {
    return this.#items.everyJob();
  }
}
