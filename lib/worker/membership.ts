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

import { leaseExtensionMs, slownessAfter } from '../core/lease.ts';
import { orAborted } from '../runtime/abort.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { type Instant, instantOf, laterBy, sinceMs } from '../runtime/instant.ts';
import type { Applied, JobStore, WorkerIdentity, WorkerLoad, WorkerRecord } from '../store/contract.ts';
import { StoreThrottled, StoreUnavailable } from '../store/errors.ts';

/** The most that two machines' clocks may differ. */
export const CLOCK_SKEW_MAX_MS = 5_000;
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
  readonly store: Pick<JobStore, 'registerWorker' | 'heartbeat' | 'deregisterWorker'>;
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

export interface Membership {
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
  /** How old a lease of `leaseMs` is that ends when the present one does, in milliseconds: below 0 where that one is longer. */
  readonly ageMs: () => number;
  /** Takes the records away: only when no handler runs any more. */
  readonly leave: () => Promise<void>;
  /** Stops the heartbeats, and lets the records expire. */
  readonly abandon: () => void;
}

const isTransient = (error: unknown): boolean =>
  error instanceof StoreThrottled || error instanceof StoreUnavailable;

/**
 * Registers the worker in its partitions, and renews its records from then on.
 *
 * @returns `superseded` if a later life of this name is there, `aborted` if the signal ended it first
 * @throws the store's errors when waiting does not help, or did not
 */
export async function join(options: MembershipOptions): Promise<Membership | 'superseded' | 'aborted'> {
  const { store, clock, log, life, fleet, partitions, heartbeatMs, leaseMs, signal } = options;
  const ended = new AbortController();
  const leases = partitions.map((partition): PartitionLease => ({ partition, expiresAtMs: 0, slowMs: 0 }));

  const recordOf = ({ partition, expiresAtMs }: PartitionLease): WorkerRecord => {
    const load = options.loadOf?.();
    return {
      ...life,
      fleet,
      slots: options.slotsOf(partition),
      ...(options.isEnding() ? { isEnding: true } : {}),
      ...(load === undefined ? {} : { load }),
      heardAtMs: clock.nowMs(),
      expiresAtMs,
      occupants: options.occupantsOf(partition),
    };
  };

  const oldest = (): Instant => {
    const all = leases.flatMap(({ renewed }) => renewed ?? []);
    return {
      wallMs: Math.min(...all.map(({ wallMs }) => wallMs)),
      monotonicMs: Math.min(...all.map(({ monotonicMs }) => monotonicMs)),
    };
  };
  const ageMs = (): number => sinceMs(clock, oldest());
  const isTrusted = (): boolean => {
    if (!ended.signal.aborted && ageMs() >= leaseMs - LEASE_MARGIN_MS) lose('unreachable');
    return !ended.signal.aborted;
  };

  /** Registers or renews; an answer renews the trust, counted from before the question. */
  const renew = async (lease: PartitionLease, verb: 'registerWorker' | 'heartbeat'): Promise<Applied> => {
    const asked = instantOf(clock);
    const askedFirst = lease.askedFirst ?? asked;
    const extensionMs = leaseExtensionMs(leaseMs, Math.max(lease.slowMs, sinceMs(clock, askedFirst)));
    const expiresAtMs = asked.wallMs + leaseMs + extensionMs + CLOCK_SKEW_MAX_MS;
    lease.askedFirst = askedFirst;
    // What was asked for before is not taken back: such a heartbeat would not be written.
    lease.expiresAtMs = Math.max(lease.expiresAtMs, expiresAtMs);
    const applied = await store[verb](lease.partition, recordOf(lease));
    if (applied === 'applied') {
      lease.slowMs = slownessAfter(lease.slowMs, sinceMs(clock, askedFirst));
      lease.askedFirst = undefined;
      lease.renewed = laterBy(asked, extensionMs);
      if (leases.every(({ renewed }) => renewed !== undefined)) options.onRenewed?.(oldest());
    }
    return applied;
  };

  const register = async (lease: PartitionLease): Promise<Applied | 'aborted'> => {
    for (let tries = 1; ; tries += 1) {
      try {
        const applied = await orAborted(renew(lease, 'registerWorker'), signal);
        if (applied === undefined) return 'aborted';
        // The record may be that of an earlier try, whose answer got lost: only a heartbeat tells its expiry.
        return applied === 'applied' && tries > 1 ? await renew(lease, 'heartbeat') : applied;
      } catch (error) {
        if (!isTransient(error) || tries === REGISTER_TRIES_MAX) throw error;
        log.warn('registration failed and is repeated', {
          ...life,
          partition: lease.partition,
          tries,
          error: String(error),
        });
        await clock.sleep(REPEAT_MS, signal);
        if (signal.aborted) return 'aborted';
      }
    }
  };

  const lose = (loss: Loss): void => {
    if (ended.signal.aborted) return;
    ended.abort();
    log.warn('worker lost its lease', { ...life, fleet, loss });
    options.onLost(loss);
  };

  /** Where the store answers slowly, the next heartbeat is under way so much sooner: it asks for more while there is time. */
  const pauseAfter = ({ slowMs }: PartitionLease): number =>
    leaseExtensionMs(leaseMs, slowMs) === 0 ? heartbeatMs : Math.max(0, heartbeatMs - slowMs);

  const beatOn = async (lease: PartitionLease): Promise<void> => {
    const { partition } = lease;
    let pauseMs = pauseAfter(lease);
    while (!ended.signal.aborted) {
      await clock.sleep(pauseMs, ended.signal);
      // Once the lease is over, its jobs may be on their way to others: no heartbeat brings them back.
      if (!isTrusted()) return;
      try {
        if ((await renew(lease, 'heartbeat')) === 'superseded') return lose('superseded');
        pauseMs = pauseAfter(lease);
      } catch (error) {
        log.warn('heartbeat failed and is repeated', { ...life, partition, error: String(error) });
        pauseMs = Math.min(heartbeatMs, REPEAT_MS);
      }
    }
  };

  const deregister = async (partition: number): Promise<void> => {
    for (let tries = 1; tries <= LEAVE_TRIES_MAX; tries += 1) {
      try {
        await store.deregisterWorker(partition, life);
        return;
      } catch (error) {
        log.warn('deregistration failed; the record expires by itself', {
          ...life,
          partition,
          error: String(error),
        });
      }
    }
  };

  const leave = async (): Promise<void> => {
    ended.abort();
    await Promise.all([...partitions, ...served.keys()].map(deregister));
  };

  /** Partitions that it came to later, with what became of that. */
  const served = new Map<number, Promise<boolean>>();
  const serveAlso = async (partition: number): Promise<boolean> => {
    const lease: PartitionLease = { partition, expiresAtMs: 0, slowMs: 0 };
    try {
      if ((await register(lease)) === 'applied' && !ended.signal.aborted) {
        leases.push(lease);
        void beatOn(lease);
        return true;
      }
    } catch (error) {
      log.warn('the worker could not be registered in another partition', {
        ...life,
        partition,
        error: String(error),
      });
    }
    served.delete(partition);
    return false;
  };
  const serve = (partition: number): Promise<boolean> => {
    if (partitions.includes(partition)) return Promise.resolve(true);
    const known = served.get(partition);
    if (known !== undefined) return known;
    const serving = serveAlso(partition);
    served.set(partition, serving);
    return serving;
  };

  const answers = await Promise.all(leases.map(register));
  if (answers.includes('superseded') || answers.includes('aborted')) {
    await leave();
    return answers.includes('superseded') ? 'superseded' : 'aborted';
  }
  for (const lease of leases) void beatOn(lease);
  return {
    isTrusted,
    serve,
    ageMs,
    leave,
    abandon: () => ended.abort(),
  };
}

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
