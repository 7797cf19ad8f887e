/**
 * Holding a partition. The item of its wakes is the mailbox: whoever finds the lease held raises the counter there and names the
 * jobs that it came for, and whoever gives the lease back looks whether it was raised since its last look.
 *
 * Why no wake is lost. A caller raises the counter and then tries the lease once more. If that fails, the holder gave
 * the lease back later than the raise, or has still to; and it reads the counter after giving back. So it sees the raise.
 * If somebody else takes the lease in that very moment, it does: the lease says up to which count was looked, and whoever
 * finds the counter higher looks up the jobs that were named since, or, where word came without names, all that is in flight.
 */
import type { MovingJob } from '../core/job.ts';
import { passLeaseExtensionMs, slownessAfter } from '../core/lease.ts';
import { MalformedItemError, StoreMisconfigured, StoreRefused } from '../store/errors.ts';
import type { JobHint, JobImage } from '../store/job-fields.ts';
import {
  type DispatcherIdentity,
  DUE_WORK,
  DUE_WORK_WATCHED,
  type Fence,
  type LeaseRecord,
  type NamedJob,
  NO_WAKES,
  type WakeCount,
  type Wakes,
} from '../store/records.ts';
import type { LeaseOutcome } from '../store/requests.ts';
import type { DispatchContext, OpenPartition } from './context.ts';

/** A lease as its holder sees it: it stops trusting it a margin before the store's expiry. */
export interface HeldLease {
  readonly fence: Fence;
  /** By the holder's monotonic clock, counted from before the request was sent. */
  readonly trustedUntilMonotonicMs: number;
  /** The wakes up to which everybody who held the lease before has looked, with the one that this holder left itself. */
  readonly wakesLookedAt: WakeCount;
  /** Somebody else held the partition in between: what was seen before may be old. */
  readonly waited: boolean;
  /** As slow as the store counts: the next renewal asks for so much longer a lease as that needs. */
  readonly slowMs: number;
  /** Nobody holds it: what is written counts only if nobody has taken it, or committed, since the partition was loaded. */
  readonly isOpen?: boolean | undefined;
}

const RESIDENT_PREFIX = 'resident/';

/** How a dispatcher that runs on is named in its leases: it keeps them between its passes, so nobody need wait for one. */
export const residentHolder = ({ dispatcherId, incarnation }: DispatcherIdentity): string =>
  `${RESIDENT_PREFIX}${dispatcherId}/${incarnation}`;

const LEADING_PREFIX = 'leading/';

/** How a function is named in a lease that it keeps between its passes for a while. */
export const leadingHolder = (holder: string): string => `${LEADING_PREFIX}${holder}`;

const isLeading = (holder: string): boolean => holder.startsWith(LEADING_PREFIX);

/** The function by which a holder is named. */
export const functionIn = (holder: string): string =>
  isLeading(holder) ? holder.slice(LEADING_PREFIX.length) : holder;

/** Whether a holder keeps the lease between its passes: it is told by word, and nobody waits for it. */
export const keepsLease = (holder: string): boolean => isResident(holder) || isLeading(holder);

/** Whether a holder is a dispatcher that runs on, not a function. */
export const isResident = (holder: string): boolean => holder.startsWith(RESIDENT_PREFIX);

/** The dispatcher that runs on, and its life, by which a holder is named; undefined: the holder is a function. */
export function residentIn(holder: string): DispatcherIdentity | undefined {
  if (!isResident(holder)) return undefined;
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

/** Word that whoever asks for the lease has just left: what it says nothing of, nobody else need look up. */
type LeftWord = 'blank' | 'named';

/** What has come since somebody looked. */
export interface News {
  /** Word was left that does not say of what. */
  readonly isBlank: boolean;
  /** Word was left because something has become due. */
  readonly isOfDueWork: boolean;
  /** The jobs that the others were about, and the hints that they named. */
  readonly jobs: readonly NamedJob[];
}

/** The same, with what the hints say. */
export interface HeardNews extends News {
  readonly hints: readonly JobHint[];
}

/**
 * What has come since, with the hints that word named. If any of these is gone, or will never be read, the word is as one that does not
 * say of what: thrown, that would fail each pass until somebody takes the word away.
 *
 * @throws StoreThrottled, StoreUnavailable where trying again may help
 */
export async function hear(
  { store, log }: Pick<DispatchContext, 'store' | 'log'>,
  partition: number,
  seen: WakeCount,
  wakes: Wakes,
): Promise<HeardNews> {
  const news = newsSince(seen, wakes);
  const names = news.jobs.filter(({ isOfHints }) => isOfHints);
  if (names.length === 0) return { ...news, hints: [] };
  const hints = await store.readHints({ partition, names }).catch((error: unknown) => {
    if (!isLasting(error)) throw error;
    log.warn('what word was left with cannot be read; everything is looked up', {
      partition,
      hints: names.map(({ id }) => id),
      error: String(error),
    });
    return undefined;
  });
  return hints === undefined ? { ...news, isBlank: true, hints: [] } : { ...news, hints };
}

/** Whether the same call will fail again: waiting does not help. */
const isLasting = (error: unknown): boolean =>
  error instanceof MalformedItemError || error instanceof StoreRefused || error instanceof StoreMisconfigured;

/** What is known of so many jobs costs less to put and to read than to look up. */
const HINTS_MIN = 6;

/** What somebody leaves word of. */
export interface Word {
  /** All that he knows of; undefined: he has come for something else, too. */
  readonly jobs?: readonly NamedJob[] | undefined;
  /** What is known of all of these, if it is: a record of the stream, or what was stored just now. @default - they are looked up */
  readonly hints?: readonly JobImage[] | undefined;
  /** The stream tells of the same jobs: where there is no room for names, no word is left. @default false */
  readonly isToldElsewhere?: boolean | undefined;
}

/** What a word names: the jobs, or hints that say what is known of them, and are put for it. */
const namesFor = async (
  { store, clock }: Pick<DispatchContext, 'store' | 'clock'>,
  partition: number,
  { jobs, hints = [] }: Word,
): Promise<readonly NamedJob[] | undefined> =>
  jobs !== undefined && hints.length >= HINTS_MIN
    ? store.putHints({ partition, hints, nowMs: clock.nowMs() })
    : jobs;

/** Leaves word for whoever has the lease. */
export async function leaveWord(
  context: Pick<DispatchContext, 'store' | 'clock'>,
  partition: number,
  word: Word,
): Promise<void> {
  const jobs = await namesFor(context, partition, word);
  await context.store.wake({ partition, jobs, onlyNamed: word.isToldElsewhere });
}

export function newsSince(seen: WakeCount, wakes: Wakes): News {
  const { isBlank, names } = namesSince(seen, wakes);
  const jobs = names.filter(({ id }) => id !== DUE_WORK.id);
  return { isBlank, isOfDueWork: jobs.length < names.length, jobs };
}

/** Whether nothing else has come than word of due work by those who look later whether it was done. */
function isAllWatched(seen: WakeCount, wakes: Wakes): boolean {
  const { isBlank, names } = namesSince(seen, wakes);
  return !isBlank && names.length > 0 && names.every(isWatchedWord);
}

function namesSince(
  seen: WakeCount,
  { wakes, named, names, jobs }: Wakes,
): { readonly isBlank: boolean; readonly names: readonly NamedJob[] } {
  const dropped = names - jobs.length;
  const isBlank = wakes - named > seen.wakes - seen.named || dropped > seen.names;
  return { isBlank, names: jobs.slice(Math.max(0, seen.names - dropped)) };
}

const isWatchedWord = ({ id, version }: NamedJob): boolean =>
  id === DUE_WORK_WATCHED.id && version === DUE_WORK_WATCHED.version;

/** What word says of jobs. */
export const namesOf = (jobs: readonly Pick<MovingJob, 'id' | 'version' | 'state'>[]): readonly NamedJob[] =>
  jobs.map(({ id, version, state }) => ({ id, version, isWaiting: state === 'pending' }));

/** The same of jobs that are being stored. */
export const namesOfNew = (ids: readonly string[]): readonly NamedJob[] =>
  ids.map((id) => ({ id, version: 0, isWaiting: true }));

/** So many names that were looked at are taken away together: each word rewrites those that are there. */
const DROPPED_NAMES_MIN = 6;

/** Takes away names that were looked at, once they are many. */
export async function dropNames(
  { store, log }: Pick<DispatchContext, 'store' | 'log'>,
  partition: number,
  seen: Wakes,
): Promise<void> {
  if (seen.jobs.length < DROPPED_NAMES_MIN) return;
  try {
    await store.dropNames({ partition, seen });
  } catch (error) {
    log.warn('names of jobs were not taken away; a later pass does it', { partition, error: String(error) });
  }
}

/** The lease, or who has it. */
async function askForLease(
  context: DispatchContext,
  partition: number,
  left?: LeftWord,
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
  const seen = outcome.wakesSeen ?? NO_WAKES;
  const lease = {
    fence: { partition, epoch: outcome.epoch },
    trustedUntilMonotonicMs: askedAtMonotonicMs + budget.leaseMs - budget.leaseMarginMs,
    wakesLookedAt: left === 'blank' ? { ...seen, wakes: seen.wakes + 1 } : seen,
    waited: left !== undefined,
    slowMs: clock.monotonicMs() - askedAtMonotonicMs,
  };
  if (!isSlow(context, lease.slowMs)) return lease;
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
  left?: LeftWord,
): Promise<HeldLease | undefined> {
  const answer = await askForLease(context, partition, left);
  return 'fence' in answer ? answer : undefined;
}

/**
 * What stands in for a lease where the last holder gave it back open; undefined: it did not, as far as this process knows. Whether it
 * is so still, the pass finds out.
 */
export async function openLease(context: DispatchContext, partition: number): Promise<HeldLease | undefined> {
  const { clock, budget, open, store } = context;
  let known = open.get(partition);
  if (known === undefined) {
    const lease = await store.readLease(partition);
    known = { epoch: lease?.isOpen === true ? lease.epoch : undefined, busyUntilMonotonicMs: -Infinity };
    open.set(partition, known);
  }
  if (known.epoch === undefined) return undefined;
  return {
    fence: { partition, epoch: known.epoch },
    trustedUntilMonotonicMs: clock.monotonicMs() + budget.leaseMs - budget.leaseMarginMs,
    wakesLookedAt: NO_WAKES,
    waited: false,
    slowMs: 0,
    isOpen: true,
  };
}

/** Notes what this process has come to know of a partition; the rest stays. */
export function noteKnown(
  { open }: Pick<DispatchContext, 'open'>,
  partition: number,
  news: Partial<OpenPartition>,
): void {
  open.set(partition, { busyUntilMonotonicMs: -Infinity, ...open.get(partition), ...news });
}

/** Notes under which epoch a partition is open; undefined: it is not. */
export const noteOpen = (context: DispatchContext, partition: number, epoch: number | undefined): void =>
  noteKnown(context, partition, { epoch });

/** Whether a store that takes so long to answer needs passes with a longer lease. */
export const isSlow = ({ budget }: Pick<DispatchContext, 'budget'>, answerMs: number): boolean =>
  passLeaseExtensionMs(budget.leaseMs, answerMs) > 0;

/** Whether a lease may be given back open, as far as this process knows: passes are not in each other's way, and the store is not slow. */
export function mayBeLeftOpen(context: DispatchContext, { fence, slowMs }: HeldLease): boolean {
  const { busyUntilMonotonicMs = -Infinity } = context.open.get(fence.partition) ?? {};
  return busyUntilMonotonicMs <= context.clock.monotonicMs() && !isSlow(context, slowMs);
}

/** Notes that passes of a partition need the lease: this process does not give it back open for so long. */
export const noteBusy = (context: DispatchContext, partition: number, forMs: number): void =>
  noteKnown(context, partition, {
    epoch: undefined,
    busyUntilMonotonicMs: context.clock.monotonicMs() + forMs,
  });

const RETRY_LEAST_MS = 10;
const RETRY_SPREAD_MS = 15;

/** What somebody wants of the lease. */
export interface LeaseWish extends Word {
  readonly partition: number;
  /** How long it tries before it leaves word. */
  readonly patienceMs: number;
  /** How long it waits for room for its names, before it leaves word without them. @default 0 */
  readonly roomPatienceMs?: number | undefined;
  /** Whether word is enough for a function that has just led: it sends for somebody. Whom it has sent for must come. @default false */
  readonly waitsForNext?: boolean | undefined;
}

/** Each try costs a write unit, and passes take away the names that they have looked at. */
const ROOM_LEAST_MS = 60;
const ROOM_SPREAD_MS = 80;

/** Takes the lease, or leaves word for its holder. Undefined: the holder will make another pass, or the stream asks for one. */
export async function takeLease(context: DispatchContext, wish: LeaseWish): Promise<HeldLease | undefined> {
  const { partition, patienceMs, roomPatienceMs = 0, waitsForNext = false, ...word } = wish;
  const { jobs, isToldElsewhere = false } = word;
  const { store, clock, random, led } = context;
  // Of whoever kept it when this process asked last, it is not asked again, as a rule: word comes first, then a look.
  const wasLed = led.has(partition);
  if (!wasLed) {
    const answer = await awaitLease(context, partition, patienceMs);
    if ('fence' in answer) return answer;
  }
  const untilMonotonicMs = clock.monotonicMs() + roomPatienceMs;
  const names = await namesFor(context, partition, word);
  const leave = (): Promise<'left' | 'full'> =>
    store.wake({
      partition,
      jobs: names,
      onlyNamed: isToldElsewhere || clock.monotonicMs() < untilMonotonicMs,
    });
  while ((await leave()) === 'full') {
    if (isToldElsewhere) return undefined;
    await clock.sleep(ROOM_LEAST_MS + random() * ROOM_SPREAD_MS);
    if ((await holderOf(context, partition)) !== undefined) continue;
    const lease = await tryLease(context, partition);
    if (lease !== undefined) return { ...lease, waited: true };
  }
  // A look tells as much as a try that fails: whoever has the lease now has still to read the counter.
  const lease = await store.readLease(partition);
  const holder = holderNow(context, lease);
  if (holder === undefined || !keepsLease(holder)) led.delete(partition);
  if (holder !== undefined) return undefined;
  // A function that has just led sees to it that somebody comes: who is to lead next, as a rule. A pass in between would hold that one up.
  if (waitsForNext && wasLed && lease?.isHeld === false && isLeading(lease.holder ?? '')) return undefined;
  return tryLease(context, partition, jobs === undefined ? 'blank' : 'named');
}

/** Who has the lease, if another does and it has not expired. */
const holderOf = async (context: DispatchContext, partition: number): Promise<string | undefined> =>
  holderNow(context, await context.store.readLease(partition));

function holderNow(
  { clock, holder }: Pick<DispatchContext, 'clock' | 'holder'>,
  lease: LeaseRecord | undefined,
): string | undefined {
  if (lease?.isHeld !== true || lease.holder === holder || lease.expiresAtMs <= clock.nowMs())
    return undefined;
  return lease.holder ?? '';
}

/** A lease that was taken within this is wanted again at once, as a rule. */
const BUSY_WITHIN_MS = 1_000;

/** Whether another function has, or had a moment ago, the lease: then passes follow each other. */
export async function isBusy({ store, clock, holder }: DispatchContext, partition: number): Promise<boolean> {
  const lease = await store.readLease(partition);
  return (
    lease?.takenAtMs !== undefined &&
    lease.holder !== undefined &&
    lease.holder !== holder &&
    !keepsLease(lease.holder) &&
    clock.nowMs() - lease.takenAtMs < BUSY_WITHIN_MS
  );
}

/**
 * The same for whoever knows of nothing that the stream does not tell as well: no word is left, but for a dispatcher that runs on,
 * which hears of it that way.
 */
export async function takeLeaseUnlessHeld(
  context: DispatchContext,
  { partition, patienceMs, jobs }: LeaseWish,
): Promise<HeldLease | undefined> {
  const answer = await awaitLease(context, partition, patienceMs);
  if ('fence' in answer) return answer;
  if (keepsLease(answer.holder)) await leaveWord(context, partition, { jobs, isToldElsewhere: true });
  return undefined;
}

/**
 * The lease, or who has it still when it was tried for so long; who keeps it between its passes is not waited for. Between tries it is looked
 * at: a look costs a fifth of a try that fails, so there may be more of them, and less time passes between two holders.
 */
async function awaitLease(
  context: DispatchContext,
  partition: number,
  patienceMs: number,
  isPassedBy: (holder: string) => boolean = keepsLease,
): Promise<HeldLease | { readonly holder: string }> {
  const { clock, random, led } = context;
  const untilMonotonicMs = clock.monotonicMs() + patienceMs;
  if (led.has(partition)) {
    const holder = await holderOf(context, partition);
    if (holder !== undefined && isPassedBy(holder)) return { holder };
    led.delete(partition);
  }
  for (let tries = 0; ; tries += 1) {
    const answer = await askForLease(context, partition);
    if ('fence' in answer) return { ...answer, waited: tries > 0 };
    if (isPassedBy(answer.holder)) {
      led.add(partition);
      return answer;
    }
    do {
      const pauseMs = RETRY_LEAST_MS + random() * RETRY_SPREAD_MS;
      if (clock.monotonicMs() + pauseMs >= untilMonotonicMs) return answer;
      await clock.sleep(pauseMs);
    } while ((await holderOf(context, partition)) !== undefined);
  }
}

/** The lease for whoever is to keep it. A function that keeps it is waited for, as its time may be over soon. */
export async function takeLeaseToLead(
  context: DispatchContext,
  partition: number,
  patienceMs: number,
): Promise<HeldLease | undefined> {
  const answer = await awaitLease(context, partition, patienceMs, isResident);
  return 'fence' in answer ? answer : undefined;
}

/** The lease with a new term, longer where the store answers slowly, or undefined if it is lost. */
export async function renewLease(
  context: DispatchContext,
  lease: HeldLease,
  wantsWord?: boolean,
): Promise<HeldLease | undefined> {
  const { store, clock, budget } = context;
  const askedAtMonotonicMs = clock.monotonicMs();
  const leaseMs = budget.leaseMs + passLeaseExtensionMs(budget.leaseMs, lease.slowMs);
  const outcome = await store.renewLease({ fence: lease.fence, nowMs: clock.nowMs(), leaseMs, wantsWord });
  if (outcome === 'lost') return undefined;
  return {
    ...lease,
    trustedUntilMonotonicMs: askedAtMonotonicMs + leaseMs - budget.leaseMarginMs,
    slowMs: slownessAfter(lease.slowMs, clock.monotonicMs() - askedAtMonotonicMs),
  };
}

/**
 * Gives the lease back, open or not. Answers the counter of wakes as it is then, for who takes it next, and the lease again if somebody
 * raised the counter since `wakesSeen` was read, for more than due work that is left to the next pass: then another pass is due, and nobody
 * else has taken it on.
 */
export async function releaseLease(
  context: DispatchContext,
  lease: HeldLease,
  wakesSeen: WakeCount,
  isOpen = false,
): Promise<{ readonly wakes: Wakes; readonly next?: HeldLease | undefined }> {
  const { store } = context;
  const { partition, epoch } = lease.fence;
  await store.releaseLease({ fence: lease.fence, wakesSeen, isOpen });
  noteOpen(context, partition, isOpen ? epoch : undefined);
  const wakes = await store.readWakes(partition);
  if (wakes.wakes === wakesSeen.wakes || isAllWatched(wakesSeen, wakes)) return { wakes };
  return { wakes, next: await tryLease(context, partition) };
}
