/**
 * Holding a partition. The wake counter is the mailbox: whoever finds the lease held raises it, and whoever gives the
 * lease back looks whether it was raised since its last look.
 *
 * Why no wake is lost. A caller raises the counter and then tries the lease once more. If that fails, the holder gave
 * the lease back later than the raise, or has still to; and it reads the counter after giving back. So it sees the raise.
 * If somebody else takes the lease in that very moment, it does: the lease says up to which count was looked, and whoever
 * finds the counter higher looks up what is in flight, as the cause of the raise is not known.
 */
import { passLeaseExtensionMs, slownessAfter } from '../core/lease.ts';
import type { DispatcherIdentity, Fence } from '../store/records.ts';
import type { LeaseOutcome } from '../store/requests.ts';
import type { DispatchContext } from './context.ts';

/** A lease as its holder sees it: it stops trusting it a margin before the store's expiry. */
export interface HeldLease {
  readonly fence: Fence;
  /** By the holder's monotonic clock, counted from before the request was sent. */
  readonly trustedUntilMonotonicMs: number;
  /** The wake counter up to which everybody who held the lease before has looked, with what this holder raised itself. */
  readonly wakesLookedAt: number;
  /** Somebody else held the partition in between: what was seen before may be old. */
  readonly waited: boolean;
  /** As slow as the store counts: the next renewal asks for so much longer a lease as that needs. */
  readonly slowMs: number;
}

const RESIDENT_PREFIX = 'resident/';

/** How a dispatcher that runs on is named in its leases: it keeps them between its passes, so nobody need wait for one. */
export const residentHolder = ({ dispatcherId, incarnation }: DispatcherIdentity): string =>
  `${RESIDENT_PREFIX}${dispatcherId}/${incarnation}`;

/** The dispatcher that runs on, and its life, by which a holder is named; undefined: the holder is a function. */
export function residentIn(holder: string): DispatcherIdentity | undefined {
  if (!holder.startsWith(RESIDENT_PREFIX)) return undefined;
  const name = holder.slice(RESIDENT_PREFIX.length);
  // Its own name may hold slashes, the name of its life does not.
  const end = name.lastIndexOf('/');
  return { dispatcherId: name.slice(0, end), incarnation: name.slice(end + 1) };
}

/** Whether one dispatcher that runs on has the lease from a former life: killed, it will not give it back. */
function isFormerLife(holder: string, present: string): boolean {
  const [former, now] = [residentIn(holder), residentIn(present)];
  if (former === undefined || now === undefined) return false;
  return former.dispatcherId === now.dispatcherId && former.incarnation < now.incarnation;
}

/** The lease, or who has it. */
async function askForLease(
  context: DispatchContext,
  partition: number,
  raised: number,
): Promise<HeldLease | { readonly holder: string }> {
  const { store, clock, holder, budget, log } = context;
  const ask = (): Promise<LeaseOutcome> =>
    store.acquireLease({ partition, holder, nowMs: clock.nowMs(), leaseMs: budget.leaseMs });
  let askedAtMonotonicMs = clock.monotonicMs();
  let outcome = await ask();
  if (outcome.kind === 'held' && isFormerLife(outcome.holder, holder)) {
    // This life has superseded it: should it still run, it may commit nothing more.
    await store.releaseLease({ fence: { partition, epoch: outcome.epoch }, isWriting: true });
    askedAtMonotonicMs = clock.monotonicMs();
    outcome = await ask();
  }
  if (outcome.kind === 'held') return { holder: outcome.holder };
  const lease = {
    fence: { partition, epoch: outcome.epoch },
    trustedUntilMonotonicMs: askedAtMonotonicMs + budget.leaseMs - budget.leaseMarginMs,
    wakesLookedAt: (outcome.wakesSeen ?? 0) + raised,
    waited: raised > 0,
    slowMs: clock.monotonicMs() - askedAtMonotonicMs,
  };
  if (passLeaseExtensionMs(budget.leaseMs, lease.slowMs) === 0) return lease;
  // Asked of a store that answers as slowly as that, a pass would not be over before the lease is.
  try {
    return (await renewLease(context, lease)) ?? { holder: '' };
  } catch (error) {
    log.warn('a lease was not lengthened', { ...lease.fence, error: String(error) });
    return lease;
  }
}

/** Takes the lease if it is free or over, and leaves no word if it is not. */
export async function tryLease(
  context: DispatchContext,
  partition: number,
  raised = 0,
): Promise<HeldLease | undefined> {
  const answer = await askForLease(context, partition, raised);
  return 'fence' in answer ? answer : undefined;
}

const RETRY_LEAST_MS = 10;
const RETRY_SPREAD_MS = 15;

/** Takes the lease, or leaves word for its holder. Undefined: the holder will make another pass. */
export async function takeLease(
  context: DispatchContext,
  partition: number,
  patienceMs: number,
): Promise<HeldLease | undefined> {
  const answer = await awaitLease(context, partition, patienceMs);
  if ('fence' in answer) return answer;
  await context.store.wake(partition);
  return tryLease(context, partition, 1);
}

/**
 * The same for whoever knows of nothing that the stream does not tell as well: no word is left, but for a dispatcher that runs on,
 * which hears of it that way.
 */
export async function takeLeaseUnlessHeld(
  context: DispatchContext,
  partition: number,
  patienceMs: number,
): Promise<HeldLease | undefined> {
  const answer = await awaitLease(context, partition, patienceMs);
  if ('fence' in answer) return answer;
  if (answer.holder.startsWith(RESIDENT_PREFIX)) await context.store.wake(partition);
  return undefined;
}

/**
 * The lease, or who has it still when it was tried for so long; whoever runs on is not waited for. Between tries it is looked at:
 * a look costs a fifth of a try that fails, so there may be more of them, and less time passes between two holders.
 */
async function awaitLease(
  context: DispatchContext,
  partition: number,
  patienceMs: number,
): Promise<HeldLease | { readonly holder: string }> {
  const { clock, random, holder, store } = context;
  const untilMonotonicMs = clock.monotonicMs() + patienceMs;
  const isHeldByAnother = async (): Promise<boolean> => {
    const lease = await store.readLease(partition);
    return lease?.isHeld === true && lease.holder !== holder && lease.expiresAtMs > clock.nowMs();
  };
  for (let tries = 0; ; tries += 1) {
    const answer = await askForLease(context, partition, 0);
    if ('fence' in answer) return { ...answer, waited: tries > 0 };
    if (answer.holder.startsWith(RESIDENT_PREFIX)) return answer;
    do {
      const pauseMs = RETRY_LEAST_MS + random() * RETRY_SPREAD_MS;
      if (clock.monotonicMs() + pauseMs >= untilMonotonicMs) return answer;
      await clock.sleep(pauseMs);
    } while (await isHeldByAnother());
  }
}

/** The lease with a new term, longer where the store answers slowly, or undefined if it is lost. */
export async function renewLease(context: DispatchContext, lease: HeldLease): Promise<HeldLease | undefined> {
  const { store, clock, budget } = context;
  const askedAtMonotonicMs = clock.monotonicMs();
  const leaseMs = budget.leaseMs + passLeaseExtensionMs(budget.leaseMs, lease.slowMs);
  const outcome = await store.renewLease({ fence: lease.fence, nowMs: clock.nowMs(), leaseMs });
  if (outcome === 'lost') return undefined;
  return {
    ...lease,
    trustedUntilMonotonicMs: askedAtMonotonicMs + leaseMs - budget.leaseMarginMs,
    slowMs: slownessAfter(lease.slowMs, clock.monotonicMs() - askedAtMonotonicMs),
  };
}

/**
 * Gives the lease back. Answers the lease again if somebody raised the counter since `wakesSeen` was read: then another
 * pass is due, and nobody else has taken it on.
 */
export async function releaseLease(
  context: DispatchContext,
  lease: HeldLease,
  wakesSeen: number,
): Promise<HeldLease | undefined> {
  const { store } = context;
  const { partition } = lease.fence;
  await store.releaseLease({ fence: lease.fence, wakesSeen });
  if ((await store.readWakes(partition)) === wakesSeen) return undefined;
  return tryLease(context, partition);
}
