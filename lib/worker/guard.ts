/**
 * What guards a worker process while its handlers have its thread: it says that the worker lives, tells it when nobody
 * believes that any more, and ends the process when a handler does not end in time.
 *
 * The guard knows of an attempt before its handler begins, so it needs nothing of the handlers' thread while that is busy. It
 * renews the lease as long as each attempt keeps its time, so a busy handler keeps its job until then; and it ends the
 * process before it lets the lease go, so nobody else starts a job that a handler here still works at.
 *
 * With the ages of the lease in `membership.ts`, the process is ended
 *
 *     an attempt's end + K        for a handler that is neither over nor given up by its own thread by then
 *     t + L - M + G + K'          for handlers that run on though the lease is lost; K' < M - G
 *
 * The same code runs in the worker's own thread, where virtual time is wanted, and in one of its own (`guard-thread.ts`).
 */
import type { Json } from '../core/job.ts';
import { hungError } from '../core/retry.ts';
import type { Clock, Log } from '../runtime/contract.ts';
import { type Instant, instantOf, sinceMs } from '../runtime/instant.ts';
import { PROGRESS_TOTAL_BYTES_MAX } from '../store/contract/bounds.ts';
import type { WorkerStore } from '../store/contract/core.ts';
import type { WorkerIdentity, WorkerLoad } from '../store/contract/records.ts';
import {
  join,
  LEASE_MARGIN_MS,
  LOSS_GRACE_MS,
  type Loss,
  type MembershipOptions,
  type WorkerMembership,
} from './membership.ts';

/** One life of a worker, as its guard must know it. Plain data: it may be told to another thread. */
export interface GuardedLife {
  readonly life: WorkerIdentity;
  readonly fleet: string;
  /** Its slots, by the partition that they serve. */
  readonly shares: ReadonlyMap<number, number>;
  readonly heartbeatMs: number;
  readonly leaseMs: number;
}

/** What the worker tells its guard. Plain data. */
export type GuardNews =
  /** A handler is about to begin. It ends within so long, or its own thread says what becomes of it. */
  | {
      readonly kind: 'began';
      readonly claimId: string;
      readonly jobId: string;
      readonly partition: number;
      readonly since: Instant;
      readonly endsInMs: number;
    }
  | { readonly kind: 'progress'; readonly claimId: string; readonly progress: Json }
  /** The handler does not heed its signal: the worker ends in order, within so long. */
  | { readonly kind: 'hung'; readonly claimId: string; readonly since: Instant; readonly endsInMs: number }
  /** The handler has ended; what it did is being written down. */
  | { readonly kind: 'handled'; readonly claimId: string }
  /** Nothing of the attempt is left. */
  | { readonly kind: 'over'; readonly claimId: string }
  /** Nothing new is begun from now on. */
  | { readonly kind: 'ending' }
  /** Nothing of the partition runs here, and it is none any more: see `WorkerMembership`. */
  | { readonly kind: 'letGo'; readonly partition: number }
  /** Its slots are divided anew. */
  | { readonly kind: 'share'; readonly partition: number; readonly slots: number }
  /** The worker's thread has its turn. */
  | { readonly kind: 'alive' }
  /** So, and this is how it bears its work; the next word of it comes within so long, unless the thread is busy. */
  | { readonly kind: 'load'; readonly load: WorkerLoad; readonly since: Instant; readonly nextInMs: number };

export interface Guard {
  /**
   * True while nobody else can think that this worker is gone. Whoever asks when that time is over need not wait for a
   * timer: the loss is told before the answer.
   */
  readonly isTrusted: () => boolean;
  readonly tell: (news: GuardNews) => void;
  /** See `WorkerMembership`. */
  readonly serve: WorkerMembership['serve'];
  /** Takes the worker's records away: only when no handler runs any more. */
  readonly leave: () => Promise<void>;
  /** Stops the heartbeats, and lets the records expire. */
  readonly abandon: () => void;
}

export interface GuardEvents {
  readonly onLost: (loss: Loss) => void;
  /** Ends the attempts to register. */
  readonly signal: AbortSignal;
}

/**
 * Registers the worker, and guards it from then on.
 *
 * @returns `superseded` if a later life of this name is there, `aborted` if the signal ended it first
 * @throws the store's errors when waiting does not help, or did not
 */
export type GuardMaker = (
  guarded: GuardedLife,
  events: GuardEvents,
) => Promise<Guard | 'superseded' | 'aborted'>;

export interface GuardParts {
  readonly store: MembershipOptions['store'] & Pick<WorkerStore, 'saveHung'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the whole process at once, whatever its threads do. */
  readonly kill: (reason: string) => void;
  readonly onRenewed?: MembershipOptions['onRenewed'];
  /**
   * A timer does not go on while its machine is suspended: so often the guard looks at the clocks.
   *
   * @default 2 s
   */
  readonly lookEveryMs?: number | undefined;
}

const LOOK_EVERY_MS = 2_000;

/** So much later than the handler's own thread would have given it up: that thread is busy. */
export const KILL_AFTER_MS = 1_000;
/** That a handler hangs is written down within this, or not at all: its slots are held meanwhile, and nothing else. */
const NOTE_MAX_MS = 2_000;
/** So much later than the worker itself would have ended for a lost lease, and before the lease's end. */
const LOST_KILL_AFTER_MS = 250;
/**
 * Between handlers the worker's thread is not silent for so long: what it has started, and not begun, would be held for ever.
 */
export const SILENCE_MAX_MS = 5 * 60_000;

interface Guarded {
  readonly jobId: string;
  readonly partition: number;
  /** Undefined once the handler has ended. */
  readonly handling:
    | {
        readonly since: Instant;
        readonly endsInMs: number;
        /** Its own thread has said that it hangs. */
        readonly isTold: boolean;
      }
    | undefined;
  readonly progress?: Json | undefined;
}

/** Claims whose progress a record has room for: the shortest first, so that as many as can be are shown. */
function fittingProgress(held: readonly (readonly [string, Guarded])[]): {
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

/** A guard in the thread that makes it. */
export function guardHere(parts: GuardParts): GuardMaker {
  return async (guarded, events) => {
    const guard = new GuardHere(parts, guarded);
    const membership = await guard.register(events);
    if (typeof membership === 'string') return membership;
    void guard.watch(membership);
    return {
      isTrusted: membership.isTrusted,
      serve: membership.serve,
      tell: (news) => {
        guard.hear(news);
        if (news.kind === 'letGo') membership.letGo(news.partition);
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
  readonly #attempts = new Map<string, Guarded>();
  readonly #slotsIn: Map<number, number>;
  readonly #ended = new AbortController();
  #isEnding = false;
  /** When the worker's thread had its turn last. */
  #heard: Instant;
  #load: Extract<GuardNews, { readonly kind: 'load' }> | undefined;
  #isLeftOut = false;

  constructor(parts: GuardParts, guarded: GuardedLife) {
    this.#parts = parts;
    this.#guarded = guarded;
    this.#slotsIn = new Map(guarded.shares);
    this.#heard = instantOf(parts.clock);
  }

  register({ onLost, signal }: GuardEvents): ReturnType<typeof join> {
    const { store, clock, log, onRenewed } = this.#parts;
    const { life, fleet, shares, heartbeatMs, leaseMs } = this.#guarded;
    return join({
      store,
      clock,
      log,
      life,
      fleet,
      partitions: [...shares.keys()],
      // Once the end has begun, what is free is offered to nobody.
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

  hear(news: GuardNews): void {
    this.#heard = instantOf(this.#parts.clock);
    switch (news.kind) {
      case 'began': {
        const { claimId, jobId, partition, since, endsInMs } = news;
        this.#attempts.set(claimId, { jobId, partition, handling: { since, endsInMs, isTold: false } });
        return;
      }
      case 'progress':
        this.#change(news.claimId, { progress: news.progress });
        return;
      case 'hung':
        this.#change(news.claimId, {
          handling: { since: news.since, endsInMs: news.endsInMs, isTold: true },
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
      case 'letGo':
        return;
      case 'load':
        this.#load = news;
        return;
    }
  }

  /** Apart from the heartbeats: one that hangs must not hold it up. */
  async watch(membership: WorkerMembership): Promise<void> {
    const { clock, log, kill, lookEveryMs = LOOK_EVERY_MS } = this.#parts;
    const { life, fleet, leaseMs } = this.#guarded;
    while (!this.#ended.signal.aborted) {
      const isTrusted = membership.isTrusted();
      const { inMs, reason, hung } = this.#nextEnd(membership);
      if (inMs <= 0) {
        this.end();
        log.warn('the worker is ended by its guard', { ...life, fleet, reason });
        if (hung !== undefined) await this.#noteHung(hung, lostEndInMs(membership, leaseMs));
        return kill(`worker ${life.workerId} is ended by its guard: ${reason}`);
      }
      const lostInMs = isTrusted ? leaseMs - LEASE_MARGIN_MS - membership.ageMs() : Infinity;
      // Whole milliseconds: the rest of a rounding error would be slept for ever.
      await clock.sleep(Math.ceil(Math.min(lookEveryMs, inMs, lostInMs)), this.#ended.signal);
    }
  }

  end(): void {
    this.#ended.abort();
  }

  /** Says on the job that its handler did not stop: its thread could not. While that takes time, the end of the process waits. */
  async #noteHung(
    { jobId, claimId, endsInMs }: NonNullable<GuardedEnd['hung']>,
    waitMaxMs: number,
  ): Promise<void> {
    const { store, clock, log } = this.#parts;
    const over = new AbortController();
    const noted = store
      .saveHung({ jobId, claimId, worker: this.#guarded.life, error: hungError(endsInMs) })
      .catch((error: unknown) =>
        log.warn('that a handler hangs was not recorded; its attempt counts as lost with its worker', {
          jobId,
          error: String(error),
        }),
      )
      .then(() => over.abort());
    await Promise.race([noted, clock.sleep(Math.min(NOTE_MAX_MS, waitMaxMs), over.signal)]);
  }

  #change(claimId: string, changes: Partial<Guarded>): void {
    const attempt = this.#attempts.get(claimId);
    if (attempt !== undefined) this.#attempts.set(claimId, { ...attempt, ...changes });
  }

  /** A thread that is busy says nothing: what it is late by now is its lag. */
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
    if (isLeftOut && !this.#isLeftOut) {
      this.#parts.log.warn(
        `progress is left out of heartbeats: all of it has more than ${PROGRESS_TOTAL_BYTES_MAX} bytes`,
        { jobs: fitting.leftOut },
      );
    }
    this.#isLeftOut = isLeftOut;
    return held.map(([claimId, { jobId, progress }]) => ({
      claimId,
      jobId,
      ...(progress !== undefined && fitting.shown.has(claimId) ? { progress } : {}),
    }));
  }

  /** What the process must be ended for, and in how many milliseconds if nothing changes. */
  #nextEnd(membership: WorkerMembership): GuardedEnd {
    const { clock } = this.#parts;
    const ends: GuardedEnd[] = [];
    for (const [claimId, { jobId, handling }] of this.#attempts) {
      if (handling === undefined) continue;
      const { since, endsInMs, isTold } = handling;
      const inMs = endsInMs + KILL_AFTER_MS - sinceMs(clock, since);
      const hung = isTold ? undefined : { jobId, claimId, endsInMs };
      ends.push({ inMs, reason: `the handler of job ${jobId} did not end in time`, hung });
    }
    if (ends.length > 0) ends.push({ inMs: lostEndInMs(membership, this.#guarded.leaseMs), reason: LOST });
    else ends.push({ inMs: SILENCE_MAX_MS - sinceMs(clock, this.#heard), reason: SILENT });
    return ends.reduce((first, end) => (end.inMs < first.inMs ? end : first));
  }
}

/** What the process must be ended for. */
interface GuardedEnd {
  readonly inMs: number;
  readonly reason: string;
  /** The attempt whose handler did not end, where its own thread has not said so. */
  readonly hung?: { readonly jobId: string; readonly claimId: string; readonly endsInMs: number } | undefined;
}

const LOST = 'its lease is lost, and its handlers go on';
const SILENT = `its thread was busy for ${SILENCE_MAX_MS} ms outside of any handler`;

/** Past its margin the lease is lost, and its age counts on: what is renewed no more grows older. */
const lostEndInMs = ({ ageMs }: WorkerMembership, leaseMs: number): number =>
  leaseMs - LEASE_MARGIN_MS + LOSS_GRACE_MS + LOST_KILL_AFTER_MS - ageMs();
