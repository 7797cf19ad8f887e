/**
 * Guards a worker process while its handlers keep its thread busy: it sends the heartbeats, tells the worker when its lease
 * is lost, and ends the process when a handler does not end in time.
 *
 * The guard is told of an attempt before its handler begins, so it needs nothing from the handlers' thread while that is
 * busy. It renews the lease as long as each attempt is within its time, so a busy handler keeps its job until then; and it
 * ends the process before the lease expires, so no other worker starts a job that a handler here still works on.
 *
 * With the ages of the lease in `membership.ts`, the process is ended
 *
 *     an attempt's end + K        if its handler has neither ended nor been given up by its own thread by then
 *     t + L - M + G + K'          if handlers run on although the lease is lost; K' < M - G
 *
 * The same code runs in the worker's own thread, for tests under virtual time, and in its own thread (`guard-thread.ts`).
 */
import type { Json } from '../core/job.ts';
import { hungError } from '../core/retry.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { type Instant, instantOf, sinceMs } from '../runtime/instant.ts';
import { PROGRESS_TOTAL_BYTES_MAX } from '../store/contract/bounds.ts';
import type { WorkerStore } from '../store/contract/core.ts';
import type { WorkerIdentity, WorkerLoad } from '../store/contract/records.ts';
import {
  LEASE_MARGIN_MS,
  type LeaseLoss,
  LOSS_GRACE_MS,
  type MembershipOptions,
  registerInPartitions,
  type WorkerMembership,
} from './membership.ts';

/**
 * The parts of one life of a worker that its guard needs to know. They are plain data, so that they can be sent to
 * another thread.
 */
export interface GuardedLife {
  readonly life: WorkerIdentity;
  readonly fleet: string;
  /** How many slots the worker has in each partition. */
  readonly shares: ReadonlyMap<number, number>;
  readonly heartbeatMs: number;
  readonly leaseMs: number;
}

/** Messages from the worker to its guard. They are plain data, so that they can be sent to another thread. */
export type GuardMessage =
  /** A handler is about to begin. It ends within `endsInMs` of `since`, unless its own thread reports otherwise. */
  | {
      readonly kind: 'began';
      readonly claimId: string;
      readonly jobId: string;
      readonly partition: number;
      readonly since: Instant;
      readonly endsInMs: number;
    }
  | { readonly kind: 'progress'; readonly claimId: string; readonly progress: Json }
  /** The handler ignores its signal. The worker ends in order, within `endsInMs` of `since`. */
  | { readonly kind: 'hung'; readonly claimId: string; readonly since: Instant; readonly endsInMs: number }
  /** The attempt's handler has ended; its outcome is being stored. */
  | { readonly kind: 'handled'; readonly claimId: string }
  /** The attempt is over. */
  | { readonly kind: 'over'; readonly claimId: string }
  /** The worker ends: it begins no more jobs. */
  | { readonly kind: 'ending' }
  /** The partition does not exist any more, and no job of it runs here: see `WorkerMembership`. */
  | { readonly kind: 'leavePartition'; readonly partition: number }
  /** The worker has another number of slots in a partition. */
  | { readonly kind: 'share'; readonly partition: number; readonly slots: number }
  /** The worker's thread is not busy. */
  | { readonly kind: 'alive' }
  /**
   * The worker's thread is not busy, and its process has this load. The next such message comes within `nextInMs` of
   * `since`, unless the thread is busy then.
   */
  | { readonly kind: 'load'; readonly load: WorkerLoad; readonly since: Instant; readonly nextInMs: number };

export interface Guard {
  /**
   * True while the lease holds, so that no other worker may start the jobs of this one. A call that finds the lease
   * over reports the loss before it returns.
   */
  readonly isTrusted: () => boolean;
  readonly tell: (news: GuardMessage) => void;
  /** Registers the worker in another partition: see `WorkerMembership`. */
  readonly serve: WorkerMembership['serve'];
  /** Deletes the worker's records. To be called only when no handler runs any more. */
  readonly leave: () => Promise<void>;
  /** Stops the heartbeats, and leaves the records to expire. */
  readonly abandon: () => void;
}

export interface GuardEvents {
  readonly onLost: (loss: LeaseLoss) => void;
  /** Aborts the registration. */
  readonly signal: AbortSignal;
}

/**
 * Registers the worker, and guards it from then on.
 *
 * @returns `superseded` if a newer worker of this name is registered, `aborted` if the signal ended the registration
 * @throws the store's errors, if a repetition is of no use or the last one failed
 */
export type GuardMaker = (
  guarded: GuardedLife,
  events: GuardEvents,
) => Promise<Guard | 'superseded' | 'aborted'>;

export interface GuardParts {
  readonly store: MembershipOptions['store'] & Pick<WorkerStore, 'saveHung'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the whole process at once, even if its threads are busy. */
  readonly kill: (reason: string) => void;
  readonly onRenewed?: MembershipOptions['onRenewed'];
  /**
   * How often the guard checks the clocks, since timers stop while their machine is suspended.
   *
   * @default 2 s
   */
  readonly lookEveryMs?: number | undefined;
}

const LOOK_EVERY_MS = 2_000;

/**
 * K: how long after an attempt's end the process is killed. The handler's own thread should have given it up at the
 * end; it is busy.
 */
export const KILL_AFTER_MS = 1_000;
/** Milliseconds at most for storing that a handler hung. Only the worker's slots are held meanwhile. */
const RECORD_HUNG_MAX_MS = 2_000;
/**
 * K': milliseconds after which the process is killed, counted from when the worker itself should have ended because it
 * lost its lease. This is still before the lease ends.
 */
const LOST_KILL_AFTER_MS = 250;
/**
 * How long the worker's thread may be silent while no handler runs. A thread that is silent for longer hangs, and
 * would hold the jobs that it has started for ever.
 */
export const SILENCE_MAX_MS = 5 * 60_000;

interface GuardedAttempt {
  readonly jobId: string;
  readonly partition: number;
  /** When the attempt's handler must have ended; undefined once it has ended. */
  readonly handling:
    | {
        readonly since: Instant;
        readonly endsInMs: number;
        /** Whether the handler's own thread has reported that it hangs. */
        readonly isReportedHung: boolean;
      }
    | undefined;
  readonly progress?: Json | undefined;
}

/**
 * Returns the progress that fits into a record, by claim: the shortest first, so that as many as possible are shown.
 */
function fittingProgress(held: readonly (readonly [string, GuardedAttempt])[]): {
  readonly shown: ReadonlySet<string>;
  readonly leftOut: number;
} {
  const shown = new Set<string>();
  const bySize = held
    .flatMap(([claimId, { progress }]) =>
      progress === undefined ? [] : [{ claimId, bytes: Buffer.byteLength(JSON.stringify(progress), 'utf8') }],
    )
    .sort((one, other) => one.bytes - other.bytes);
  let left = PROGRESS_TOTAL_BYTES_MAX;
  for (const { claimId, bytes } of bySize) {
    left -= bytes;
    if (left < 0) break;
    shown.add(claimId);
  }
  return { shown, leftOut: bySize.length - shown.size };
}

/** Makes guards that run in the thread that creates them. */
export function guardInSameThread(parts: GuardParts): GuardMaker {
  return async (guarded, events) => {
    const guard = new GuardHere(parts, guarded);
    const membership = await guard.register(events);
    if (typeof membership === 'string') return membership;
    void guard.watch(membership);
    return {
      isTrusted: membership.isTrusted,
      serve: membership.serve,
      tell: (news) => {
        guard.receive(news);
        if (news.kind === 'leavePartition') membership.leavePartition(news.partition);
      },
      leave: () => {
        guard.end();
        return membership.leave();
      },
      abandon: () => {
        guard.end();
        membership.abandon();
      },
    };
  };
}

class GuardHere {
  readonly #parts: GuardParts;
  readonly #guarded: GuardedLife;
  readonly #attempts = new Map<string, GuardedAttempt>();
  readonly #slotsIn: Map<number, number>;
  readonly #ended = new AbortController();
  #isEnding = false;
  /** When the worker's thread last sent a message. */
  #lastHeard: Instant;
  #load: Extract<GuardMessage, { readonly kind: 'load' }> | undefined;
  #isProgressLeftOut = false;

  constructor(parts: GuardParts, guarded: GuardedLife) {
    this.#parts = parts;
    this.#guarded = guarded;
    this.#slotsIn = new Map(guarded.shares);
    this.#lastHeard = instantOf(parts.clock);
  }

  register({ onLost, signal }: GuardEvents): ReturnType<typeof registerInPartitions> {
    const { store, clock, log, onRenewed } = this.#parts;
    const { life, fleet, shares, heartbeatMs, leaseMs } = this.#guarded;
    return registerInPartitions({
      store,
      clock,
      log,
      life,
      fleet,
      partitions: [...shares.keys()],
      // A worker that ends offers no free slots, only those of its running jobs.
      slotsOf: (partition) =>
        this.#isEnding ? this.#occupantsOf(partition).length : (this.#slotsIn.get(partition) ?? 0),
      isEnding: () => this.#isEnding,
      occupantsOf: (partition) => this.#occupantsOf(partition),
      loadOf: () => this.#loadNow(),
      heartbeatMs,
      leaseMs,
      onLost,
      onRenewed,
      signal,
    });
  }

  receive(news: GuardMessage): void {
    this.#lastHeard = instantOf(this.#parts.clock);
    switch (news.kind) {
      case 'began': {
        const { claimId, jobId, partition, since, endsInMs } = news;
        this.#attempts.set(claimId, {
          jobId,
          partition,
          handling: { since, endsInMs, isReportedHung: false },
        });
        return;
      }
      case 'progress':
        this.#change(news.claimId, { progress: news.progress });
        return;
      case 'hung':
        this.#change(news.claimId, {
          handling: { since: news.since, endsInMs: news.endsInMs, isReportedHung: true },
        });
        return;
      case 'handled':
        this.#change(news.claimId, { handling: undefined });
        return;
      case 'over':
        this.#attempts.delete(news.claimId);
        return;
      case 'ending':
        this.#isEnding = true;
        return;
      case 'share':
        this.#slotsIn.set(news.partition, news.slots);
        return;
      case 'alive':
      case 'leavePartition':
        return;
      case 'load':
        this.#load = news;
        return;
    }
  }

  /**
   * Ends the process when it must end. This runs apart from the heartbeats, because a heartbeat that hangs must not
   * hold it up.
   */
  async watch(membership: WorkerMembership): Promise<void> {
    const { clock, log, kill, lookEveryMs = LOOK_EVERY_MS } = this.#parts;
    const { life, fleet, leaseMs } = this.#guarded;
    while (!this.#ended.signal.aborted) {
      const isTrusted = membership.isTrusted();
      const { inMs, reason, hung } = this.#nextEnd(membership);
      if (inMs <= 0) {
        this.end();
        log.warn('the guard ends the worker', { ...life, fleet, reason });
        if (hung !== undefined) await this.#recordHung(hung, lostEndInMs(membership, leaseMs));
        return kill(`the guard ends worker ${life.workerId}: ${reason}`);
      }
      const lostInMs = isTrusted ? leaseMs - LEASE_MARGIN_MS - membership.ageMs() : Infinity;
      // The time is rounded up to whole milliseconds, because a remainder from rounding would be slept for again and
      // again.
      await clock.sleep(Math.ceil(Math.min(lookEveryMs, inMs, lostInMs)), this.#ended.signal);
    }
  }

  end(): void {
    this.#ended.abort();
  }

  /**
   * Stores on the job that its handler hung, which its busy thread could not do. The end of the process waits for it,
   * for at most `waitMaxMs`.
   */
  async #recordHung(
    { jobId, claimId, endsInMs }: NonNullable<GuardedEnd['hung']>,
    waitMaxMs: number,
  ): Promise<void> {
    const { store, clock, log } = this.#parts;
    const over = new AbortController();
    const noted = store
      .saveHung({ jobId, claimId, worker: this.#guarded.life, error: hungError(endsInMs) })
      .catch((error: unknown) =>
        log.warn('a hung handler could not be recorded; its attempt counts as lost with its worker', {
          jobId,
          error: String(error),
        }),
      )
      .then(() => over.abort());
    await Promise.race([noted, clock.sleep(Math.min(RECORD_HUNG_MAX_MS, waitMaxMs), over.signal)]);
  }

  #change(claimId: string, changes: Partial<GuardedAttempt>): void {
    const attempt = this.#attempts.get(claimId);
    if (attempt !== undefined) this.#attempts.set(claimId, { ...attempt, ...changes });
  }

  /**
   * Returns the worker's load. A busy thread sends nothing, so the time for which its message is overdue counts as its
   * lag.
   */
  #loadNow(): WorkerLoad | undefined {
    if (this.#load === undefined) return undefined;
    const { load, since, nextInMs } = this.#load;
    const lateMs = Math.round(sinceMs(this.#parts.clock, since) - nextInMs);
    return { ...load, lagMs: Math.max(load.lagMs, lateMs) };
  }

  #occupantsOf(partition: number): ReturnType<MembershipOptions['occupantsOf']> {
    const held = [...this.#attempts].filter(([, attempt]) => attempt.partition === partition);
    const fitting = fittingProgress(held);
    const isLeftOut = fitting.leftOut > 0;
    if (isLeftOut && !this.#isProgressLeftOut) {
      this.#parts.log.warn(
        `progress is left out of heartbeats: all of it has more than ${PROGRESS_TOTAL_BYTES_MAX} bytes`,
        { jobs: fitting.leftOut },
      );
    }
    this.#isProgressLeftOut = isLeftOut;
    return held.map(([claimId, { jobId, progress }]) => ({
      claimId,
      jobId,
      ...(progress !== undefined && fitting.shown.has(claimId) ? { progress } : {}),
    }));
  }

  /** Returns the first reason to end the process, and in how many milliseconds it applies if nothing changes. */
  #nextEnd(membership: WorkerMembership): GuardedEnd {
    const { clock } = this.#parts;
    const ends: GuardedEnd[] = [];
    for (const [claimId, { jobId, handling }] of this.#attempts) {
      if (handling === undefined) continue;
      const { since, endsInMs, isReportedHung } = handling;
      const inMs = endsInMs + KILL_AFTER_MS - sinceMs(clock, since);
      const hung = isReportedHung ? undefined : { jobId, claimId, endsInMs };
      ends.push({ inMs, reason: `the handler of job ${jobId} did not end in time`, hung });
    }
    if (ends.length > 0)
      ends.push({ inMs: lostEndInMs(membership, this.#guarded.leaseMs), reason: LEASE_LOST });
    else ends.push({ inMs: SILENCE_MAX_MS - sinceMs(clock, this.#lastHeard), reason: THREAD_SILENT });
    return ends.reduce((first, end) => (end.inMs < first.inMs ? end : first));
  }
}

/** Why the process must end, and when. */
interface GuardedEnd {
  readonly inMs: number;
  readonly reason: string;
  /** The attempt whose handler did not end, unless its own thread has reported that. */
  readonly hung?: { readonly jobId: string; readonly claimId: string; readonly endsInMs: number } | undefined;
}

const LEASE_LOST = 'its lease is lost, and its handlers still run';
const THREAD_SILENT = `its thread was busy for ${SILENCE_MAX_MS} ms outside of any handler`;

/**
 * Returns in how many milliseconds the process is killed if handlers run on although the lease is lost. The age of a
 * lease keeps growing after its loss.
 */
const lostEndInMs = ({ ageMs }: WorkerMembership, leaseMs: number): number =>
  leaseMs - LEASE_MARGIN_MS + LOSS_GRACE_MS + LOST_KILL_AFTER_MS - ageMs();
