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
 */

import { orAborted } from '../runtime/abort.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { type Instant, instantOf, sinceMs } from '../runtime/instant.ts';
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
  /** The lease counts from then: the oldest of what its partitions have answered last. */
  readonly onRenewed?: ((since: Instant) => void) | undefined;
  /** Ends the attempts to register. */
  readonly signal: AbortSignal;
}

export interface Membership {
  /**
   * True while nobody else can think that this worker is gone. There is no timer for it: whoever asks when that time is over
   * finds out, and the loss is told before the answer.
   */
  readonly isTrusted: () => boolean;
  /** How old the lease is, in milliseconds: the time since the oldest heartbeat that still counts. Never counts down. */
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
  /** By partition: when the last heartbeat that was answered was about to be sent. */
  const renewed = new Map<number, Instant>();

  const recordOf = (partition: number): WorkerRecord => {
    const load = options.loadOf?.();
    return {
      ...life,
      fleet,
      slots: options.slotsOf(partition),
      ...(options.isEnding() ? { isEnding: true } : {}),
      ...(load === undefined ? {} : { load }),
      heardAtMs: clock.nowMs(),
      expiresAtMs: clock.nowMs() + leaseMs + CLOCK_SKEW_MAX_MS,
      occupants: options.occupantsOf(partition),
    };
  };

  const oldest = (): Instant => {
    const all = [...renewed.values()];
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
  const renew = async (partition: number, verb: 'registerWorker' | 'heartbeat'): Promise<Applied> => {
    const asked = instantOf(clock);
    const applied = await store[verb](partition, recordOf(partition));
    if (applied === 'applied') {
      renewed.set(partition, asked);
      if (renewed.size === partitions.length) options.onRenewed?.(oldest());
    }
    return applied;
  };

  const register = async (partition: number): Promise<Applied | 'aborted'> => {
    for (let tries = 1; ; tries += 1) {
      try {
        const applied = await orAborted(renew(partition, 'registerWorker'), signal);
        if (applied === undefined) return 'aborted';
        // The record may be that of an earlier try, whose answer got lost: only a heartbeat tells its expiry.
        return applied === 'applied' && tries > 1 ? await renew(partition, 'heartbeat') : applied;
      } catch (error) {
        if (!isTransient(error) || tries === REGISTER_TRIES_MAX) throw error;
        log.warn('registration failed and is repeated', { ...life, partition, tries, error: String(error) });
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

  const beatOn = async (partition: number): Promise<void> => {
    let pauseMs = heartbeatMs;
    while (!ended.signal.aborted) {
      await clock.sleep(pauseMs, ended.signal);
      // Once the lease is over, its jobs may be on their way to others: no heartbeat brings them back.
      if (!isTrusted()) return;
      try {
        if ((await renew(partition, 'heartbeat')) === 'superseded') return lose('superseded');
        pauseMs = heartbeatMs;
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
    await Promise.all(partitions.map(deregister));
  };

  const answers = await Promise.all(partitions.map(register));
  if (answers.includes('superseded') || answers.includes('aborted')) {
    await leave();
    return answers.includes('superseded') ? 'superseded' : 'aborted';
  }
  for (const partition of partitions) void beatOn(partition);
  return {
    isTrusted,
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
