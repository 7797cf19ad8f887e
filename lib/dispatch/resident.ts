/**
 * A resident: a dispatcher that runs on, beside the functions or in their stead. It is a member as long as it renews its
 * record; the members' ring gives it partitions to lead and others to stand by for. Of those it leads it keeps the lease
 * between its passes, and looks at the wake counter several times a second: whoever finds the lease held raises it.
 *
 * Safety is the epoch's alone: two dispatchers that both believe to lead one partition do no harm, one of them is fenced.
 * So membership may lag, get lost, or be believed too long: it costs time. Where nobody is a member, or a leader does not
 * lead, the lease is free, and any function that is triggered takes it.
 *
 * With a membership lease L, clocks that differ by at most S, and a margin M:
 *
 *     t            the renewal is about to be sent (by the dispatcher's monotonic clock)
 *     t + L - M    without a newer one that was answered: it stops leading, and gives its leases back
 *     t + L        the earliest instant at which anybody sees the record expired: it says L + S
 *
 * L is the configured one, and more while the store answers slowly, as with a worker's (`../worker/membership.ts`).
 */

import type { PoolConfiguration } from '../core/configuration.ts';
import { ConfigurationError } from '../core/errors.ts';
import { leaseExtensionMs, slownessAfter } from '../core/lease.ts';
import {
  buildRing,
  type PartitionRole,
  partitionHash,
  preferenceOf,
  roleOf,
  roleStep,
} from '../core/ring.ts';
import type { JobQueue } from '../queue/contract.ts';
import { orAborted } from '../runtime/abort.ts';
import type { Clock, Log, Random } from '../runtime/contract.ts';
import { incarnationOf } from '../runtime/incarnation.ts';
import type { Vitals } from '../runtime/vitals.ts';
import type { DispatcherLoad, DispatcherRecord, JobHead, JobStore } from '../store/contract.ts';
import { StoreThrottled, StoreUnavailable } from '../store/errors.ts';
import { CLOCK_SKEW_MAX_MS } from './attendance.ts';
import { DISPATCH_BUDGET, type DispatchBudget, type DispatchContext } from './context.ts';
import type { Deployed } from './declaration.ts';
import { combinedDepth, type Depth, depthOf, HEARTBEAT_BOUNDS } from './depth.ts';
import { renewed } from './dispatch.ts';
import { type HeldLease, renewLease, residentHolder, tryLease } from './lease.ts';
import { pass } from './pass.ts';
import { nextDueMs } from './timers.ts';

export interface ResidentOptions {
  readonly store: JobStore;
  readonly queue: JobQueue;
  readonly configuration: PoolConfiguration;
  readonly deployed?: Deployed | undefined;
  readonly place?: DispatchContext['place'];
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Unique among the dispatchers that live; a new life of the same name supersedes the former one. */
  readonly dispatcherId: string;
  /** @default DISPATCH_BUDGET */
  readonly budget?: DispatchBudget | undefined;
  /** How long it counts as a member without saying so. @default 15 s */
  readonly memberLeaseMs?: number | undefined;
  /** How often the wake counter of each partition that it leads is read. @default 250 ms */
  readonly pollMs?: number | undefined;
  /** How long a partition that it leads goes without a pass at most. @default 60 s, as the tick */
  readonly passEveryMs?: number | undefined;
  /** How often it counts what waits where it leads, for whoever looks at its load. @default 30 s */
  readonly countEveryMs?: number | undefined;
  /** How its process fares; not said unless given. */
  readonly vitals?: (() => Vitals) | undefined;
  /** How long passes that are under way are waited for at the end. @default 10 s */
  readonly shutdownMs?: number | undefined;
  /** Ends it in order. */
  readonly signal: AbortSignal;
}

/** Why a resident ended. */
export type ResidentEnd =
  /** It was asked to. */
  | 'stopped'
  /** Another life of its name has begun. */
  | 'superseded';

export interface ResidentReport {
  readonly end: ResidentEnd;
  readonly passes: number;
  readonly admitted: number;
  readonly settled: number;
}

const MEMBER_LEASE_MS = 15_000;
const POLL_MS = 250;
const PASS_EVERY_MS = 60_000;
const SHUTDOWN_MS = 10_000;
const COUNT_EVERY_MS = 30_000;
/** What failed is tried again after this. */
const REPEAT_MS = 1_000;
/** Of the membership lease: before its end the dispatcher stops leading. */
const MARGIN_PART = 5;
/** Renewals and looks at the others in one membership lease. */
const ROUNDS_PER_LEASE = 3;
/** After word was left, another pass this much later: the index may not have shown what it was about. */
const ECHO_MS = 2_000;
/** So many rounds in a row the ring's leader may live without holding the lease; then who stands by leads instead, */
const MISSED_MAX = 2;
/** until so many have passed: then the leader has another chance. */
const STAND_IN_ROUNDS = 8;

const HANDED_OVER = 'handed over';
const FAILED = 'failed';

/** What it is for one partition, and what it does about it. */
interface Seat {
  readonly partition: number;
  role: PartitionRole;
  wanted: PartitionRole;
  /** Rounds in which the ring's leader did not hold the lease while this one stood by. */
  missed: number;
  /** While it leads. */
  lease?: HeldLease | undefined;
  /** While it tries to lead, and does. */
  task?: { readonly end: AbortController; readonly ended: Promise<void> } | undefined;
}

function requireWorkable(options: ResidentOptions): void {
  const { dispatcherId, memberLeaseMs, pollMs, passEveryMs, budget = DISPATCH_BUDGET } = options;
  if (dispatcherId === '') {
    throw new ConfigurationError(
      'dispatcherId',
      '',
      'must not be empty',
      'Leave it out for a name of its own.',
    );
  }
  // Between two looks it must come to renew its lease.
  const pollMaxMs = budget.leaseMs / 4;
  for (const [field, value, mostMs] of [
    ['memberLeaseMs', memberLeaseMs, Infinity],
    ['pollMs', pollMs, pollMaxMs],
    ['passEveryMs', passEveryMs, Infinity],
  ] as const) {
    if (value === undefined || (value > 0 && value <= mostMs && value < Infinity)) continue;
    const most = mostMs < Infinity ? ` and at most ${mostMs}` : '';
    throw new ConfigurationError(
      field,
      value,
      `must be more than 0 milliseconds${most}`,
      'Leave it out for the default.',
    );
  }
}

/**
 * Runs a dispatcher until it is told to end, or another life of its name begins. When this resolves, it makes no more
 * passes and has given its leases back, unless a request hung: then they expire.
 *
 * @throws ConfigurationError - before anything was done
 * @throws the store's errors - when it could not become a member, and waiting does not help
 */
export async function runDispatcher(options: ResidentOptions): Promise<ResidentReport> {
  requireWorkable(options);
  const { store, queue, configuration, clock, random, log, dispatcherId, signal } = options;
  const { memberLeaseMs = MEMBER_LEASE_MS, pollMs = POLL_MS, passEveryMs = PASS_EVERY_MS } = options;
  const { budget = DISPATCH_BUDGET, shutdownMs = SHUTDOWN_MS, countEveryMs = COUNT_EVERY_MS } = options;
  const life = { dispatcherId, incarnation: incarnationOf(clock.nowMs(), random()) };
  let context: DispatchContext = {
    store,
    queue,
    configuration,
    deployed: options.deployed,
    place: options.place,
    clock,
    random,
    log,
    holder: residentHolder(life),
    budget,
    announced: new Map(),
    books: new Map(),
  };
  const seats: Seat[] = [];
  /** One for each partition that there is, or ever was. */
  const takeSeats = (): void => {
    const partitions = Math.max(context.configuration.partitions, context.deployed?.partitionsEver ?? 1);
    for (let partition = seats.length; partition < partitions; partition += 1)
      seats.push({ partition, role: 'offline', wanted: 'offline', missed: 0 });
  };
  takeSeats();
  const totals = { passes: 0, admitted: 0, settled: 0 };
  /** What waits in the partitions that it leads, as it last looked; and when, and whether it is about to. */
  const seen: {
    depth?: Depth;
    waitedMs?: number | undefined;
    countAtMonotonicMs: number;
    look?: Promise<void> | undefined;
  } = { countAtMonotonicMs: -Infinity };
  /** Since it last said how busy it is. */
  const spent = { inPassesMs: 0, sinceMonotonicMs: clock.monotonicMs() };
  const ending = new AbortController();
  let memberUntilMonotonicMs = -Infinity;
  /** How its renewals fare: as slow as the store counts, the first that was sent since the last answer, the furthest end. */
  const pace = { slowMs: 0, askedFirstMonotonicMs: Infinity, expiresAtMs: 0 };

  const isMember = (): boolean => clock.monotonicMs() < memberUntilMonotonicMs;

  const isHeld = ({ trustedUntilMonotonicMs }: HeldLease): boolean =>
    clock.monotonicMs() < trustedUntilMonotonicMs;

  const become = (seat: Seat, to: PartitionRole, fields: Readonly<Record<string, unknown>> = {}): void => {
    log.info('dispatcher changed its role', {
      ...life,
      partition: seat.partition,
      from: seat.role,
      to,
      ...fields,
    });
    seat.role = to;
  };

  const stepTo = (seat: Seat, to: PartitionRole): void => {
    for (let next = roleStep(seat.role, to); next !== undefined; next = roleStep(seat.role, to))
      become(seat, next);
  };

  /** Whoever comes next takes over at once: a function by the message, and by the counter it looks up what is in flight. */
  const wake = async (partition: number): Promise<void> => {
    try {
      await store.wake(partition);
      await queue.sendWake(partition, 0);
    } catch (error) {
      log.warn('the partition was not woken; the next tick will', { partition, error: String(error) });
    }
  };

  /** What was begun under it is fenced: it may be anybody's. Answers whether it was this one's till now. */
  const giveBack = async ({ fence }: HeldLease): Promise<boolean> => {
    try {
      return (await store.releaseLease(fence)) === 'released';
    } catch (error) {
      log.warn('a lease was not given back; it expires', { ...fence, error: String(error) });
      return true;
    }
  };

  /** The lease with enough left of it; undefined if it is over, or somebody else's. */
  const kept = async (lease: HeldLease): Promise<HeldLease | undefined> => {
    const leftMs = lease.trustedUntilMonotonicMs - clock.monotonicMs();
    if (leftMs <= 0) return undefined;
    if (leftMs > budget.leaseMs / 2) return lease;
    try {
      return await renewLease(context, lease);
    } catch (error) {
      log.warn('a lease was not renewed; trying again', { ...lease.fence, error: String(error) });
      return isHeld(lease) ? lease : undefined;
    }
  };

  /** Goes on under a newer declaration, unless another partition has brought it already. */
  const renew = async (version: number): Promise<void> => {
    const { deployed } = context;
    if (deployed === undefined || deployed.version >= version) return;
    const next = await renewed(context, deployed, version);
    if ((context.deployed?.version ?? 0) >= (next.deployed?.version ?? 0)) return;
    context = next;
    takeSeats();
    log.info('a newer declaration was read', { ...life, version: next.deployed?.version });
  };

  /** Passes, until it is to end, or has to. Answers why it did. */
  const lead = async (seat: Seat, first: HeldLease, end: AbortSignal): Promise<string> => {
    const { partition } = seat;
    const led = context;
    let lease = first;
    let lookedAt = first.wakesLookedAt;
    let hints: readonly JobHead[] = [];
    let batches = 0;
    // The first pass comes at once.
    let goesOn = true;
    let lookUpAtMonotonicMs = clock.monotonicMs() + passEveryMs;
    let echoAtMonotonicMs = Infinity;
    let dueAtMs = Infinity;
    const nextBatch = (): number => {
      batches += 1;
      return batches;
    };
    for (;;) {
      if (end.aborted || !isMember()) return (await giveBack(lease)) ? HANDED_OVER : 'superseded';
      if (context !== led) {
        // Under an epoch of its own: what was reserved by the former declaration must be told from what is by this one.
        await giveBack(lease);
        // Hints that were not used are looked up.
        await wake(partition);
        return 'redeployed';
      }
      const renewed = await kept(lease);
      if (renewed === undefined) {
        await giveBack(lease);
        return 'lost';
      }
      lease = renewed;
      seat.lease = renewed;
      const wakes = await store.readWakes(partition);
      const isTold = wakes > lookedAt;
      const looksUp = isTold || clock.monotonicMs() >= lookUpAtMonotonicMs;
      const isTime = clock.monotonicMs() >= echoAtMonotonicMs || clock.nowMs() >= dueAtMs;
      if (!goesOn && !looksUp && !isTime) {
        await clock.sleep(pollMs, end);
        continue;
      }
      const beside: Promise<unknown>[] = [];
      const startedMs = clock.monotonicMs();
      let outcome: Awaited<ReturnType<typeof pass>>;
      try {
        outcome = await pass(led, lease, {
          hints,
          looksUp,
          promotes: true,
          justStored: NOTHING_STORED,
          nextBatch,
          goOnBeside: (work) => beside.push(work),
        });
      } finally {
        await Promise.all(beside);
        spent.inPassesMs += clock.monotonicMs() - startedMs;
      }
      if (outcome.kind === 'lost') return 'superseded';
      if (outcome.kind === 'outdated') {
        await renew(outcome.version);
        continue;
      }
      const { admitted, settled, lostClaims } = outcome;
      totals.passes += 1;
      totals.admitted += admitted;
      totals.settled += settled;
      if (admitted + settled + lostClaims > 0) {
        const tookMs = Math.round(clock.monotonicMs() - startedMs);
        log.info('dispatched', { partition, tookMs, admitted, settled, lostClaims });
      }
      lookedAt = wakes;
      hints = outcome.hints;
      goesOn = outcome.kind === 'again';
      const nowMonotonicMs = clock.monotonicMs();
      if (looksUp) lookUpAtMonotonicMs = nowMonotonicMs + passEveryMs;
      echoAtMonotonicMs = isTold ? nowMonotonicMs + ECHO_MS : Infinity;
      const dueMs = await nextDueMs(context, partition);
      // What the index still shows though its time has come was promoted, or is seen a little later.
      dueAtMs = dueMs === undefined ? Infinity : Math.max(dueMs, clock.nowMs() + pollMs);
    }
  };

  /** Takes the lease whenever it can, and leads, until it is to end. */
  const pursue = async (seat: Seat, end: AbortSignal): Promise<void> => {
    const { partition } = seat;
    /** Word may have been left for it. */
    let owesWake = false;
    while (!end.aborted) {
      let pauseMs = pollMs;
      try {
        const lease = isMember() ? await tryLease(context, partition) : undefined;
        if (lease !== undefined) {
          const { epoch } = lease.fence;
          owesWake = true;
          seat.lease = lease;
          become(seat, 'leader', { epoch });
          let why = FAILED;
          try {
            why = await lead(seat, lease, end);
          } finally {
            if (why === FAILED) await giveBack(lease);
            seat.lease = undefined;
            become(seat, 'standby', { epoch, why });
          }
          if (why === HANDED_OVER) {
            await wake(partition);
            owesWake = false;
          }
        }
      } catch (error) {
        log.warn('a partition could not be led; trying again', { partition, error: String(error) });
        pauseMs = REPEAT_MS;
      }
      await clock.sleep(pauseMs, end);
    }
    if (owesWake) await wake(partition);
  };

  const want = (seat: Seat, to: PartitionRole): void => {
    seat.wanted = to;
    if (to !== 'leader') {
      if (seat.task === undefined) stepTo(seat, to);
      else seat.task.end.abort();
      return;
    }
    if (seat.task !== undefined) return;
    stepTo(seat, 'standby');
    const end = new AbortController();
    const ended = pursue(seat, end.signal).then(() => {
      seat.task = undefined;
      want(seat, seat.wanted);
    });
    seat.task = { end, ended };
  };

  const wantNothing = (): void => {
    for (const seat of seats) want(seat, 'offline');
  };

  /** What the ring of these members makes of this one. */
  const assign = (members: readonly DispatcherRecord[]): void => {
    const byName = new Map(members.map((member) => [member.dispatcherId, member]));
    const ring = buildRing([...byName.keys(), dispatcherId]);
    for (const seat of seats) {
      const { partition } = seat;
      const role = roleOf(ring, partition, dispatcherId);
      const [leader = dispatcherId] = preferenceOf(ring, partitionHash(partition), 1);
      const isLed = role !== 'standby' || byName.get(leader)?.leads.includes(partition) !== false;
      seat.missed = isLed ? 0 : (seat.missed + 1) % STAND_IN_ROUNDS;
      want(seat, seat.missed >= MISSED_MAX ? 'leader' : role);
    }
  };

  /** Counts what waits where it leads, beside everything else: a count that is late or fails is an older one. */
  const look = async (leads: readonly number[]): Promise<void> => {
    try {
      const depths = await Promise.all(
        leads.map((partition) => depthOf(context, partition, HEARTBEAT_BOUNDS)),
      );
      const depth = combinedDepth(depths);
      const { oldestReadyAtMs } = depth;
      seen.depth = depth;
      seen.waitedMs =
        oldestReadyAtMs === undefined ? undefined : Math.max(0, clock.nowMs() - oldestReadyAtMs);
    } catch (error) {
      log.warn('what waits was not counted; it is tried again', { ...life, error: String(error) });
    } finally {
      seen.look = undefined;
    }
  };

  /** How busy it is, for the renewal of its membership. Starts the next look, if it is time. */
  const loadNow = (leads: readonly number[]): DispatcherLoad => {
    const nowMonotonicMs = clock.monotonicMs();
    if (leads.length === 0) delete seen.depth;
    else if (seen.look === undefined && nowMonotonicMs >= seen.countAtMonotonicMs && !ending.signal.aborted) {
      seen.countAtMonotonicMs = nowMonotonicMs + countEveryMs;
      seen.look = look(leads);
    }
    const elapsedMs = nowMonotonicMs - spent.sinceMonotonicMs;
    const busy = elapsedMs <= 0 ? 0 : Math.min(1, spent.inPassesMs / elapsedMs / Math.max(1, leads.length));
    spent.inPassesMs = 0;
    spent.sinceMonotonicMs = nowMonotonicMs;
    const { depth, waitedMs } = seen;
    return {
      ...(depth === undefined ? {} : { waiting: { jobs: depth.jobs, isLeast: depth.isLeast } }),
      ...(depth === undefined || waitedMs === undefined ? {} : { waitedMs }),
      busy: Math.round(busy * 1_000) / 1_000,
      ...options.vitals?.(),
    };
  };

  /** Says that it lives, and looks who else does. */
  const round = async (): Promise<'member' | 'superseded'> => {
    const askedAtMonotonicMs = clock.monotonicMs();
    const leads = seats.flatMap(({ partition, lease }) =>
      lease !== undefined && isHeld(lease) ? [partition] : [],
    );
    pace.askedFirstMonotonicMs = Math.min(pace.askedFirstMonotonicMs, askedAtMonotonicMs);
    const unansweredMs = askedAtMonotonicMs - pace.askedFirstMonotonicMs;
    const extensionMs = leaseExtensionMs(memberLeaseMs, Math.max(pace.slowMs, unansweredMs));
    // What was asked for before is not taken back: such a renewal would not be written.
    pace.expiresAtMs = Math.max(
      pace.expiresAtMs,
      clock.nowMs() + memberLeaseMs + extensionMs + CLOCK_SKEW_MAX_MS,
    );
    const record = { ...life, leads, load: loadNow(leads), expiresAtMs: pace.expiresAtMs };
    if ((await store.keepDispatcher(record)) === 'superseded') return 'superseded';
    pace.slowMs = slownessAfter(pace.slowMs, clock.monotonicMs() - pace.askedFirstMonotonicMs);
    pace.askedFirstMonotonicMs = Infinity;
    const wasMember = isMember();
    memberUntilMonotonicMs = askedAtMonotonicMs + memberLeaseMs * (1 - 1 / MARGIN_PART) + extensionMs;
    if (!wasMember) log.info('dispatcher registered', { ...life, partitions: seats.length });
    const members = await store.listDispatchers(clock.nowMs());
    if (!ending.signal.aborted && isMember()) assign(members);
    return 'member';
  };

  const leave = async (): Promise<void> => {
    try {
      await store.removeDispatcher(life);
    } catch (error) {
      log.warn('the membership was not ended; it expires', { ...life, error: String(error) });
    }
  };

  const onSignal = (): void => {
    ending.abort();
    wantNothing();
  };
  let end: ResidentEnd = 'stopped';
  let hasBeenMember = false;
  if (signal.aborted) onSignal();
  signal.addEventListener('abort', onSignal);
  try {
    while (!ending.signal.aborted) {
      let pauseMs = memberLeaseMs / ROUNDS_PER_LEASE;
      try {
        // A renewal that hangs does not hold up the end; if it arrives after it, it is refused.
        if ((await orAborted(round(), ending.signal)) === 'superseded') {
          end = 'superseded';
          ending.abort();
          log.warn('another life of this dispatcher has begun', { ...life });
          break;
        }
        hasBeenMember = true;
        // As a worker's heartbeat: it asks for more while there is time.
        if (leaseExtensionMs(memberLeaseMs, pace.slowMs) > 0) pauseMs = Math.max(0, pauseMs - pace.slowMs);
      } catch (error) {
        const isTransient = error instanceof StoreThrottled || error instanceof StoreUnavailable;
        if (!isTransient && !hasBeenMember) throw error;
        log.warn('the membership was not renewed; trying again', { ...life, error: String(error) });
        pauseMs = Math.min(pauseMs, REPEAT_MS);
      }
      if (!isMember()) wantNothing();
      await clock.sleep(pauseMs, ending.signal);
    }
  } finally {
    signal.removeEventListener('abort', onSignal);
    onSignal();
  }
  const over = new AbortController();
  // First others learn that it goes; they have its partitions as soon as their last passes are over.
  const left = Promise.all([leave(), seen.look, ...seats.map(({ task }) => task?.ended)]);
  void left.then(() => over.abort());
  await clock.sleep(shutdownMs, over.signal);
  if (!over.signal.aborted)
    log.warn('a pass did not end in time; its lease expires', { ...life, shutdownMs });
  log.info('dispatcher ended', { ...life, end, ...totals });
  return { end, ...totals };
}

const NOTHING_STORED: ReadonlySet<string> = new Set();
