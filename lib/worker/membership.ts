/**
 * A worker process's lease on being alive: its heartbeat record in each partition it serves.
 *
 * With lease L, clocks that differ by at most S, a grace G for handlers that were told to stop, and a margin M > G:
 *
 *     t                       the heartbeat is about to be sent
 *     t + L - M               without a newer one that was answered: lost, handlers are told to stop
 *     t + L - M + G           the process ends; if it does not, its guard ends it
 *     t + L                   the earliest instant at which anybody sees the record expired: it says L + S by the
 *                             worker's wall clock, and a reader's is at most S ahead of that
 *
 * So whoever takes over the jobs of an expired record finds nobody running them. `t` is taken before the request: a slow
 * answer shortens the lease. What has passed since then is what the clock says that went further, the monotonic or the wall's:
 * on a machine that was suspended the one stood still. The store never moves an expiry back.
 *
 * L is `leaseMs`, and what each heartbeat asks for on top: nothing, unless the store answers slowly. Then the next ones ask for
 * more, so that the record says it before the shorter lease is over; who judges goes by the record, and the worker itself by
 * what was answered last.
 */

import { ThrottledError, UnavailableError } from '../core/errors.ts';
import { CLOCK_SKEW_MAX_MS, leaseExtensionMs, slownessAfter } from '../core/lease.ts';
import { untilAborted } from '../runtime/abort.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { type Instant, instantOf, laterBy, sinceMs } from '../runtime/instant.ts';
import type { WorkerStore } from '../store/contract/core.ts';
import type { WorkerIdentity, WorkerLoad, WorkerRecord } from '../store/contract/records.ts';
import type { Applied } from '../store/contract/requests.ts';

/** How long handlers are waited for when the lease is lost. */
export const LOSS_GRACE_MS = 2_500;
/** Before the lease's end: the grace, and half a second for the process to end. */
export const LEASE_MARGIN_MS = LOSS_GRACE_MS + 500;

/** A heartbeat that failed is repeated after this long, or sooner. */
const REPEAT_MS = 1_000;
const REGISTER_TRIES_MAX = 60;
const LEAVE_TRIES_MAX = 3;

/** Why a worker is no member any more. */
export type Loss =
  /** Another life of the same name has begun, or somebody took the record away. */
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
  /** Its last jobs run, and no others will. */
  readonly isEnding: () => boolean;
  readonly occupantsOf: (partition: number) => WorkerRecord['occupants'];
  /** How it bears its work; undefined: nobody has measured. */
  readonly loadOf?: (() => WorkerLoad | undefined) | undefined;
  readonly heartbeatMs: number;
  readonly leaseMs: number;
  readonly onLost: (loss: Loss) => void;
  /** A lease of `leaseMs` counts from then: the oldest of what its partitions have answered last. */
  readonly onRenewed?: ((since: Instant) => void) | undefined;
  /** Ends the attempts to register. */
  readonly signal: AbortSignal;
}

/** The lease in one partition. */
interface PartitionLease {
  readonly partition: number;
  /** When the last heartbeat that was answered was about to be sent, and so much later as it asked for more than `leaseMs`. */
  renewed?: Instant | undefined;
  /** The first of the heartbeats that were sent since then. */
  askedFirst?: Instant | undefined;
  /** The furthest end that any heartbeat asked for. */
  expiresAtMs: number;
  /** As slow as the store counts. */
  slowMs: number;
}

export interface WorkerMembership {
  /**
   * True while nobody else can think that this worker is gone. There is no timer for it: whoever asks when that time is over
   * finds out, and the loss is told before the answer.
   */
  readonly isTrusted: () => boolean;
  /**
   * Registers the worker in another partition, without slots of its own there: before it starts a job of that one, which would
   * take it for dead without a record, and so that slots may be lent there. False: it could not, and starts nothing of it.
   */
  readonly serve: (partition: number) => Promise<boolean>;
  /** Renews the lease in one partition no more: only when no handler runs a job of it. It may be served again. */
  readonly letGo: (partition: number) => void;
  /** How old a lease of `leaseMs` is that ends when the present one does, in milliseconds: below 0 where that one is longer. */
  readonly ageMs: () => number;
  /** Takes the records away: only when no handler runs any more. */
  readonly leave: () => Promise<void>;
  /** Stops the heartbeats, and lets the records expire. */
  readonly abandon: () => void;
}

const isTransient = (error: unknown): boolean =>
  error instanceof ThrottledError || error instanceof UnavailableError;

/**
 * Registers the worker in its partitions, and renews its records from then on.
 *
 * @returns `superseded` if a later life of this name is there, `aborted` if the signal ended it first
 * @throws the store's errors when waiting does not help, or did not
 */
export async function join(options: MembershipOptions): Promise<WorkerMembership | 'superseded' | 'aborted'> {
  const membership = new RenewedMembership(options);
  const joined = await membership.join();
  return joined === 'joined' ? membership : joined;
}

class RenewedMembership implements WorkerMembership {
  readonly #options: MembershipOptions;
  readonly #ended = new AbortController();
  readonly #leases: Set<PartitionLease>;
  /** By partition: whether it could be registered there. */
  readonly #served: Map<number, Promise<boolean>>;
  /** Of partitions that were let go, or could not be registered in: a record may be there. */
  readonly #former = new Map<number, PartitionLease>();

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#leases = new Set(options.partitions.map(leaseIn));
    this.#served = new Map(options.partitions.map((partition) => [partition, Promise.resolve(true)]));
  }

  async join(): Promise<'joined' | 'superseded' | 'aborted'> {
    const answers = await Promise.all(Array.from(this.#leases, (lease) => this.#register(lease)));
    if (answers.includes('superseded') || answers.includes('aborted')) {
      await this.leave();
      return answers.includes('superseded') ? 'superseded' : 'aborted';
    }
    for (const lease of this.#leases) void this.#beatOn(lease);
    return 'joined';
  }

  readonly ageMs = (): number => sinceMs(this.#options.clock, this.#oldest());

  readonly isTrusted = (): boolean => {
    const { aborted } = this.#ended.signal;
    if (!aborted && this.ageMs() >= this.#options.leaseMs - LEASE_MARGIN_MS) this.#lose('unreachable');
    return !this.#ended.signal.aborted;
  };

  readonly serve = (partition: number): Promise<boolean> => {
    const known = this.#served.get(partition);
    if (known !== undefined) return known;
    const serving = this.#serveAlso(partition);
    this.#served.set(partition, serving);
    return serving;
  };

  readonly letGo = (partition: number): void => {
    this.#served.delete(partition);
    for (const lease of this.#leases) {
      if (lease.partition !== partition) continue;
      this.#leases.delete(lease);
      this.#former.set(partition, lease);
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

  /** Registers or renews; an answer renews the trust, counted from before the question. */
  async #renew(lease: PartitionLease, verb: 'registerWorker' | 'heartbeat'): Promise<Applied> {
    const { store, clock, leaseMs, onRenewed } = this.#options;
    const asked = instantOf(clock);
    const askedFirst = lease.askedFirst ?? asked;
    const extensionMs = leaseExtensionMs(leaseMs, Math.max(lease.slowMs, sinceMs(clock, askedFirst)));
    // planted: short-records
    const expiresAtMs = asked.wallMs + leaseMs + extensionMs + CLOCK_SKEW_MAX_MS;
    lease.askedFirst = askedFirst;
    // What was asked for before is not taken back: such a heartbeat would not be written.
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
        // The record may be that of an earlier try, whose answer got lost, or of a time before: only a heartbeat tells its
        // expiry.
        // planted: repeated-registration
        return applied === 'applied' && (tries > 1 || mayBeThere)
          ? await this.#renew(lease, 'heartbeat')
          : applied;
      } catch (error) {
        if (!isTransient(error) || tries === REGISTER_TRIES_MAX) throw error;
        const { partition } = lease;
        log.warn('registration failed and is repeated', { ...life, partition, tries, error: String(error) });
        await clock.sleep(REPEAT_MS, signal);
        if (signal.aborted) return 'aborted';
      }
    }
  }

  #lose(loss: Loss): void {
    const { log, life, fleet, onLost } = this.#options;
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    log.warn('worker lost its lease', { ...life, fleet, loss });
    onLost(loss);
  }

  /** Where the store answers slowly, the next heartbeat is under way so much sooner: it asks for more while there is time. */
  #pauseAfter({ slowMs }: PartitionLease): number {
    const { heartbeatMs, leaseMs } = this.#options;
    return leaseExtensionMs(leaseMs, slowMs) === 0 ? heartbeatMs : Math.max(0, heartbeatMs - slowMs);
  }

  async #beatOn(lease: PartitionLease): Promise<void> {
    const { clock, log, life, heartbeatMs } = this.#options;
    const { partition } = lease;
    let pauseMs = this.#pauseAfter(lease);
    while (!this.#ended.signal.aborted) {
      await clock.sleep(pauseMs, this.#ended.signal);
      // Once the lease is over, its jobs may be on their way to others: no heartbeat brings them back.
      if (!this.isTrusted() || !this.#leases.has(lease)) return;
      try {
        if ((await this.#renew(lease, 'heartbeat')) === 'superseded') return this.#lose('superseded');
        pauseMs = this.#pauseAfter(lease);
      } catch (error) {
        log.warn('heartbeat failed and is repeated', { ...life, partition, error: String(error) });
        pauseMs = Math.min(heartbeatMs, REPEAT_MS);
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

  async #serveAlso(partition: number): Promise<boolean> {
    const { log, life } = this.#options;
    const lease = this.#former.get(partition) ?? leaseIn(partition);
    try {
      if ((await this.#register(lease)) === 'applied' && !this.#ended.signal.aborted) {
        this.#leases.add(lease);
        void this.#beatOn(lease);
        return true;
      }
    } catch (error) {
      log.warn('the worker could not be registered in another partition', {
        ...life,
        partition,
        error: String(error),
      });
    }
    this.#former.set(partition, lease);
    this.#served.delete(partition);
    return false;
  }
}

const leaseIn = (partition: number): PartitionLease => ({ partition, expiresAtMs: 0, slowMs: 0 });

/**
 * A worker's slots, divided among partitions so that they add up. Where they do not divide evenly, `offset` says which
 * partition comes first, so that many small workers do not all serve the same ones. A partition without a share may be
 * lent one.
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
