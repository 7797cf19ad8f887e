/**
 * A worker process's lease: its heartbeat record in each partition that it serves.
 *
 * With lease L, clocks that differ by at most S, a grace G for handlers that were told to stop, and a margin M > G:
 *
 *     t                       the heartbeat is about to be sent
 *     t + L - M               unless a newer one was answered, the lease is lost: handlers are told to stop
 *     t + L - M + G           the process ends; if it does not, its guard ends it
 *     t + L                   the earliest instant at which any reader sees the record expired: it says L + S by the
 *                             worker's wall clock, and a reader's clock is at most S ahead of that
 *
 * So when another worker takes over the jobs of an expired record, none of them runs any more. `t` is taken before the
 * request: a slow answer shortens the lease. The time since `t` is the larger of what the monotonic clock and the wall clock
 * measure: on a machine that was suspended one of them stood still. The store never moves an expiry back.
 *
 * L is `leaseMs`. While the store answers slowly, heartbeats ask for more, early enough that the record says so before the
 * shorter lease is over. Readers go by the record, and the worker itself by the last heartbeat that was answered.
 */

import { ThrottledError, UnavailableError } from '../core/errors.ts';
import { CLOCK_SKEW_MAX_MS, leaseExtensionMs, slownessAfter } from '../core/lease.ts';
import { untilAborted } from '../runtime/abort.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { type Instant, instantOf, laterBy, sinceMs } from '../runtime/instant.ts';
import type { WorkerStore } from '../store/contract/core.ts';
import type { WorkerIdentity, WorkerLoad, WorkerRecord } from '../store/contract/records.ts';
import type { Applied } from '../store/contract/requests.ts';

/** How long a worker that has lost its lease waits for its handlers. */
export const LOSS_GRACE_MS = 2_500;
/** How long before its end a lease counts as lost: the grace, and half a second for the process to end. */
export const LEASE_MARGIN_MS = LOSS_GRACE_MS + 500;

/**
 * Milliseconds after which a failed heartbeat or registration is repeated. Heartbeats that are more frequent keep their
 * interval.
 */
const RETRY_MS = 1_000;
const REGISTER_TRIES_MAX = 60;
const LEAVE_TRIES_MAX = 3;

/** Why a worker has lost its lease. */
export type LeaseLoss =
  /** A newer worker of the same name has registered, or the record was deleted. */
  | 'superseded'
  /** No heartbeat was answered in time. */
  | 'unreachable';

export interface MembershipOptions {
  readonly store: Pick<WorkerStore, 'registerWorker' | 'heartbeat' | 'deregisterWorker'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly life: WorkerIdentity;
  readonly fleet: string;
  readonly partitions: readonly number[];
  readonly slotsOf: (partition: number) => number;
  /** Whether the worker ends: it runs its last jobs and takes no others. */
  readonly isEnding: () => boolean;
  readonly occupantsOf: (partition: number) => WorkerRecord['occupants'];
  /** Returns the load of the process; undefined if it is not measured. */
  readonly loadOf?: (() => WorkerLoad | undefined) | undefined;
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  readonly onLost: (loss: LeaseLoss) => void;
  /** Called with the start of a lease of `leaseMs`: the oldest among the partitions' last answered heartbeats. */
  readonly onRenewed?: ((since: Instant) => void) | undefined;
  /** Aborts the registration. */
  readonly signal: AbortSignal;
}

/** The lease in one partition. */
interface PartitionLease {
  readonly partition: number;
  /**
   * The start of the lease: when the last answered heartbeat was sent, or a moment earlier, plus the milliseconds beyond
   * `leaseMs` for which it asked.
   */
  renewed?: Instant | undefined;
  /** When the first heartbeat since the last answered one was sent. */
  askedFirst?: Instant | undefined;
  /** The furthest expiry that any heartbeat has asked for. */
  expiresAtMs: number;
  /** How slowly the store answers, in milliseconds: see `slownessAfter`. */
  slowMs: number;
}

export interface WorkerMembership {
  /**
   * True while the lease holds, so that no other worker may start the jobs of this one. No timer checks it: a call
   * that finds the lease over reports the loss before it returns.
   */
  readonly isTrusted: () => boolean;
  /**
   * Registers the worker in another partition, without slots. It must be registered before it starts a job of that
   * partition, which would count it as lost without a record, and before slots can be lent to it there. False if that
   * failed: then it must start no job of the partition.
   */
  readonly serve: (partition: number) => Promise<boolean>;
  /**
   * Stops the heartbeats in one partition. To be called only when no handler runs a job of it. It may be served
   * again.
   */
  readonly leavePartition: (partition: number) => void;
  /**
   * Returns the age, in milliseconds, of a lease of `leaseMs` that ends when the present one does; below 0 if the
   * present one is longer.
   */
  readonly ageMs: () => number;
  /** Deletes the records. To be called only when no handler runs any more. */
  readonly leave: () => Promise<void>;
  /** Stops the heartbeats, and leaves the records to expire. */
  readonly abandon: () => void;
}

const isTransient = (error: unknown): boolean =>
  error instanceof ThrottledError || error instanceof UnavailableError;

/**
 * Registers the worker in its partitions, and renews its records from then on.
 *
 * @returns `superseded` if a newer worker of this name is registered, `aborted` if the signal ended the registration
 * @throws the store's errors, if a repetition is of no use or the last one failed
 */
export async function registerInPartitions(
  options: MembershipOptions,
): Promise<WorkerMembership | 'superseded' | 'aborted'> {
  const membership = new RenewedMembership(options);
  const joined = await membership.join();
  return joined === 'joined' ? membership : joined;
}

class RenewedMembership implements WorkerMembership {
  readonly #options: MembershipOptions;
  readonly #ended = new AbortController();
  readonly #leases: Set<PartitionLease>;
  /** For each partition, whether the worker could be registered there. */
  readonly #served: Map<number, Promise<boolean>>;
  /** Leases in partitions that the worker has left, or could not register in. A record of them may exist. */
  readonly #leftLeases = new Map<number, PartitionLease>();

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#leases = new Set(options.partitions.map(newLease));
    this.#served = new Map(options.partitions.map((partition) => [partition, Promise.resolve(true)]));
  }

  async join(): Promise<'joined' | 'superseded' | 'aborted'> {
    const answers = await Promise.all(Array.from(this.#leases, (lease) => this.#register(lease)));
    if (answers.includes('superseded') || answers.includes('aborted')) {
      await this.leave();
      return answers.includes('superseded') ? 'superseded' : 'aborted';
    }
    for (const lease of this.#leases) void this.#keepRenewing(lease);
    return 'joined';
  }

  readonly ageMs = (): number => sinceMs(this.#options.clock, this.#oldest());

  readonly isTrusted = (): boolean => {
    const { aborted } = this.#ended.signal;
    if (!aborted && this.ageMs() >= this.#options.leaseMs - LEASE_MARGIN_MS) this.#reportLoss('unreachable');
    return !this.#ended.signal.aborted;
  };

  readonly serve = (partition: number): Promise<boolean> => {
    const known = this.#served.get(partition);
    if (known !== undefined) return known;
    const serving = this.#registerAlso(partition);
    this.#served.set(partition, serving);
    return serving;
  };

  readonly leavePartition = (partition: number): void => {
    this.#served.delete(partition);
    for (const lease of this.#leases) {
      if (lease.partition !== partition) continue;
      this.#leases.delete(lease);
      this.#leftLeases.set(partition, lease);
    }
  };

  readonly leave = async (): Promise<void> => {
    this.#ended.abort();
    await Promise.all(Array.from(this.#served.keys(), (partition) => this.#deregister(partition)));
  };

  readonly abandon = (): void => this.#ended.abort();

  #recordOf({ partition, expiresAtMs }: PartitionLease): WorkerRecord {
    const { life, fleet, clock, slotsOf, isEnding, occupantsOf, loadOf } = this.#options;
    const load = loadOf?.();
    return {
      ...life,
      fleet,
      slots: slotsOf(partition),
      ...(isEnding() ? { isEnding: true } : {}),
      ...(load === undefined ? {} : { load }),
      heardAtMs: clock.nowMs(),
      expiresAtMs,
      occupants: occupantsOf(partition),
    };
  }

  #oldest(): Instant {
    const all = [...this.#leases].flatMap(({ renewed }) => renewed ?? []);
    return {
      // planted: newest-partition-by-wall
      wallMs: Math.min(...all.map(({ wallMs }) => wallMs)),
      // planted: newest-partition
      monotonicMs: Math.min(...all.map(({ monotonicMs }) => monotonicMs)),
    };
  }

  /** Registers the worker or renews its record. An answer renews the lease from the time before the request. */
  async #renew(lease: PartitionLease, verb: 'registerWorker' | 'heartbeat'): Promise<Applied> {
    const { store, clock, leaseMs, onRenewed } = this.#options;
    const asked = instantOf(clock);
    const askedFirst = lease.askedFirst ?? asked;
    const extensionMs = leaseExtensionMs(leaseMs, Math.max(lease.slowMs, sinceMs(clock, askedFirst)));
    // planted: short-records
    const expiresAtMs = asked.wallMs + leaseMs + extensionMs + CLOCK_SKEW_MAX_MS;
    lease.askedFirst = askedFirst;
    // The store would refuse a heartbeat with an earlier expiry than one before.
    // planted: lease-taken-back
    lease.expiresAtMs = Math.max(lease.expiresAtMs, expiresAtMs);
    const applied = await store[verb]({ partition: lease.partition, record: this.#recordOf(lease) });
    if (applied === 'applied') {
      lease.slowMs = slownessAfter(lease.slowMs, sinceMs(clock, askedFirst));
      lease.askedFirst = undefined;
      // planted: trust-from-answer
      lease.renewed = laterBy(asked, extensionMs);
      if ([...this.#leases].every(({ renewed }) => renewed !== undefined)) onRenewed?.(this.#oldest());
    }
    return applied;
  }

  async #register(lease: PartitionLease): Promise<Applied | 'aborted'> {
    const { clock, log, life, signal } = this.#options;
    const mayBeThere = lease.expiresAtMs > 0;
    for (let tries = 1; ; tries += 1) {
      try {
        const applied = await untilAborted(this.#renew(lease, 'registerWorker'), signal);
        if (applied === undefined) return 'aborted';
        // The record may stem from an earlier try whose answer was lost, or from before the partition was left. Only
        // a heartbeat moves the expiry of such a record.
        // planted: repeated-registration
        return applied === 'applied' && (tries > 1 || mayBeThere)
          ? await this.#renew(lease, 'heartbeat')
          : applied;
      } catch (error) {
        if (!isTransient(error) || tries === REGISTER_TRIES_MAX) throw error;
        const { partition } = lease;
        log.warn('registration failed and is repeated', { ...life, partition, tries, error: String(error) });
        await clock.sleep(RETRY_MS, signal);
        if (signal.aborted) return 'aborted';
      }
    }
  }

  #reportLoss(loss: LeaseLoss): void {
    const { log, life, fleet, onLost } = this.#options;
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    log.warn('worker lost its lease', { ...life, fleet, loss });
    onLost(loss);
  }

  /**
   * Returns the pause before the next heartbeat. While the store answers slowly the pause is shorter by that time, so
   * that a heartbeat that asks for more arrives early enough.
   */
  #pauseAfter({ slowMs }: PartitionLease): number {
    const { heartbeatMs, leaseMs } = this.#options;
    return leaseExtensionMs(leaseMs, slowMs) === 0 ? heartbeatMs : Math.max(0, heartbeatMs - slowMs);
  }

  async #keepRenewing(lease: PartitionLease): Promise<void> {
    const { clock, log, life, heartbeatMs } = this.#options;
    const { partition } = lease;
    let pauseMs = this.#pauseAfter(lease);
    while (!this.#ended.signal.aborted) {
      await clock.sleep(pauseMs, this.#ended.signal);
      // Once the lease is over, other workers may have its jobs: no heartbeat brings them back.
      if (!this.isTrusted() || !this.#leases.has(lease)) return;
      try {
        if ((await this.#renew(lease, 'heartbeat')) === 'superseded') return this.#reportLoss('superseded');
        pauseMs = this.#pauseAfter(lease);
      } catch (error) {
        log.warn('heartbeat failed and is repeated', { ...life, partition, error: String(error) });
        pauseMs = Math.min(heartbeatMs, RETRY_MS);
      }
    }
  }

  async #deregister(partition: number): Promise<void> {
    const { store, log, life } = this.#options;
    for (let tries = 1; tries <= LEAVE_TRIES_MAX; tries += 1) {
      try {
        await store.deregisterWorker({ partition, worker: life });
        return;
      } catch (error) {
        log.warn('deregistration failed; the record expires by itself', {
          ...life,
          partition,
          error: String(error),
        });
      }
    }
  }

  async #registerAlso(partition: number): Promise<boolean> {
    const { log, life } = this.#options;
    const lease = this.#leftLeases.get(partition) ?? newLease(partition);
    try {
      if ((await this.#register(lease)) === 'applied' && !this.#ended.signal.aborted) {
        this.#leases.add(lease);
        void this.#keepRenewing(lease);
        return true;
      }
    } catch (error) {
      log.warn('the worker could not be registered in another partition', {
        ...life,
        partition,
        error: String(error),
      });
    }
    this.#leftLeases.set(partition, lease);
    this.#served.delete(partition);
    return false;
  }
}

const newLease = (partition: number): PartitionLease => ({ partition, expiresAtMs: 0, slowMs: 0 });

/**
 * Divides a worker's slots among partitions so that they add up. If they do not divide evenly, the rest goes to the
 * partitions from `offset` on, so that many small workers do not all serve the same ones. A partition without a share
 * can still borrow slots.
 */
export function sharesOf(slots: number, partitions: number, offset: number): ReadonlyMap<number, number> {
  const each = Math.floor(slots / partitions);
  const rest = slots % partitions;
  const shares = new Map<number, number>();
  for (let at = 0; at < partitions; at += 1) {
    shares.set((at + offset) % partitions, each + (at < rest ? 1 : 0));
  }
  return shares;
}
