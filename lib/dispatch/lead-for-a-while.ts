/**
 * A function that leads a partition for half a minute, as a dispatcher that runs on does. Where passes of several functions follow each other
 * closely, each waits for the lease, and forgets what it remembers because another has committed. One that keeps the lease remembers, and is
 * told of the rest by word: it costs its time, and saves a pass, a lease and the reads of every line for each batch that a shard brings.
 *
 * Nobody elects it. Who sees that the lease is taken often, and by others, asks for it; of several that come, one gets the lease. Safety is the
 * epoch's alone, as with every holder.
 */
import { StoreThrottled, StoreUnavailable } from '../store/errors.ts';
import type { Fence } from '../store/records.ts';
import type { DispatchContext, TakenLeases } from './context.ts';
import { giveBack, Lead, type LeadEnd, type LeadScope, type LeadTotals, wake } from './lead.ts';
import {
  type HeldLease,
  isSlow,
  leadingHolder,
  leaveWord,
  namesOf,
  noteKnown,
  takeLeaseToLead,
} from './lease.ts';

/** Where others are in the way less often when this process takes the lease, nobody need lead. */
const CONTENDED_SHARE = 0.8;
/** What goes on is counted for so long, and until this process has taken the lease as often as this; if that takes too long, it begins anew. */
const COUNT_MS = { least: 1_000, most: 10_000 } as const;
const COUNT_LEASES = 3;
const CALM_AFTER_MS = 3_000;
/** Who has asked counts anew after this: whoever is to lead has come by then. Who cannot ask tries again much later. */
const ASKED_FOR_MS = 5_000;
const REFUSED_FOR_MS = 10 * 60_000;

/** It tries for the lease for so long: passes of others are as short as that, and who led before gives it back by then. */
const PATIENCE_MS = 3_000;
/** Before its time is over, it asks for who is to lead next: that one takes the lease as soon as it is given back. */
const SUCCESSOR_MS = 1_000;
/** For so long it looks whether that one has it. */
const TAKEN_WITHIN_MS = 2_000;
const TAKEN_EVERY_MS = 50;

/** How often the wake counter is read where nothing goes on; it leads for a while only where much does. */
const POLL_MS = 250;
const PASS_EVERY_MS = 60_000;

/** Notes a run of passes that the stream has caused, and asks for somebody who leads, where that is worth it. Never rejects. */
export async function noteLed(
  context: DispatchContext,
  { partition, epoch }: Fence,
  { moved, isContended }: { readonly moved: number; readonly isContended: boolean },
): Promise<void> {
  const { open, clock, lead, log, budget } = context;
  if (lead === undefined) return;
  const nowMonotonicMs = clock.monotonicMs();
  const taken = open.get(partition)?.taken ?? countFrom(epoch, nowMonotonicMs);
  if (nowMonotonicMs < taken.atMonotonicMs) {
    // Whoever has asked counts nothing till then.
    noteKnown(context, partition, { taken: countFrom(epoch, taken.atMonotonicMs) });
    return;
  }
  const sinceMs = nowMonotonicMs - taken.atMonotonicMs;
  const seen: TakenLeases = {
    ...taken,
    epoch,
    own: taken.own + 1,
    contended: taken.contended + (isContended || epoch > taken.epoch + 1 ? 1 : 0),
    moved: taken.moved + moved,
  };
  const isLate = sinceMs > COUNT_MS.most;
  const isCounted = !isLate && sinceMs >= COUNT_MS.least && seen.own >= COUNT_LEASES;
  const isAsked = isCounted && isWorthIt(seen, sinceMs, budget.leadFrom);
  const next = isAsked
    ? countFrom(epoch, nowMonotonicMs + ASKED_FOR_MS)
    : isCounted || isLate
      ? countFrom(epoch, nowMonotonicMs)
      : seen;
  noteKnown(context, partition, { taken: next });
  if (!isAsked) return;
  try {
    await lead(partition);
  } catch (error) {
    noteKnown(context, partition, { taken: countFrom(epoch, clock.monotonicMs() + REFUSED_FOR_MS) });
    log.warn('nobody could be asked to lead; functions go on one by one', {
      partition,
      error: String(error),
    });
  }
}

const countFrom = (epoch: number, atMonotonicMs: number): TakenLeases => ({
  atMonotonicMs,
  since: epoch,
  epoch,
  own: 0,
  contended: 0,
  moved: 0,
});

/** Whether others want the lease as well, and as much goes on as leading is worth: with each lease as much as with those of this process. */
const isWorthIt = (
  { since, epoch, own, contended, moved }: TakenLeases,
  sinceMs: number,
  leadFrom: number,
): boolean =>
  contended >= Math.max(COUNT_LEASES, CONTENDED_SHARE * own) &&
  (moved / own) * (epoch - since) * 1_000 >= leadFrom * sinceMs;

/** What leading for a while came to. `failed`: the store did not answer, and a pass is asked for. */
export interface LedReport extends Readonly<LeadTotals> {
  readonly end: LeadEnd | 'failed';
}

/**
 * Leads a partition for as long as a run of passes may take, or until little goes on there. Undefined: another leads it, or is about to.
 *
 * @throws the store's errors that last
 */
export async function leadForAWhile(
  given: DispatchContext,
  partition: number,
): Promise<LedReport | undefined> {
  const context: DispatchContext = { ...given, holder: leadingHolder(given.holder) };
  const { clock, log } = context;
  const startedMonotonicMs = clock.monotonicMs();
  const term = new Term(context, partition);
  let end: LedReport['end'] = 'failed';
  try {
    if (await doesAnyRunOn(context)) return undefined;
    const lease = await takeLeaseToLead(context, partition, PATIENCE_MS);
    if (lease === undefined) return undefined;
    end = await lead(context, lease, term);
  } catch (error) {
    await wake(context, partition);
    if (!(error instanceof StoreThrottled || error instanceof StoreUnavailable)) throw error;
    log.warn('a partition is led no more', { partition, error: String(error) });
  }
  const report = { end, ...term.totals };
  log.info('led for a while', {
    partition,
    tookMs: Math.round(clock.monotonicMs() - startedMonotonicMs),
    ...report,
  });
  return report;
}

/** Whether a dispatcher that runs on lives: it takes whatever partition is free. */
const doesAnyRunOn = async ({ store, clock }: DispatchContext): Promise<boolean> =>
  (await store.listDispatchers(clock.nowMs())).length > 0;

/** Leads under a lease, gives it back, and sees to it that somebody hears what it has not. */
async function lead(context: DispatchContext, lease: HeldLease, term: Term): Promise<LeadEnd> {
  const { queue } = context;
  const { partition } = lease.fence;
  const leading = new Lead(
    {
      settings: { ...context, pollMs: POLL_MS, passEveryMs: PASS_EVERY_MS },
      context: untilNewer(context),
      // Where the store is slow, its last pass would outlast the function.
      isEntitled: () => term.lasts() && !isSlow(context, leading.lease.slowMs),
      totals: term.totals,
    },
    lease,
    new AbortController().signal,
  );
  let end: LeadEnd;
  try {
    end = await leading.run();
  } catch (error) {
    await giveBack(context, leading.lease);
    throw error;
  }
  const { hints } = leading;
  if (end === 'redeployed') return end;
  if (hints.length > 0) await leaveWord(context, partition, { jobs: namesOf(hints), hints });
  // Word was left since it looked last, as a rule: whoever has the lease next hears it.
  if (!(await isSucceeded(context, term, leading.lease))) await queue.sendWake(partition, 0);
  return end;
}

/** Whether whoever was asked to lead next has come. */
async function isSucceeded(
  { store, clock }: DispatchContext,
  { isSuccessorDue }: Term,
  { fence }: HeldLease,
): Promise<boolean> {
  const untilMonotonicMs = clock.monotonicMs() + (isSuccessorDue ? TAKEN_WITHIN_MS : 0);
  while (clock.monotonicMs() < untilMonotonicMs) {
    const lease = await store.readLease(fence.partition);
    if (lease !== undefined && lease.epoch > fence.epoch) return true;
    await clock.sleep(TAKEN_EVERY_MS);
  }
  return false;
}

/** A newer declaration ends it: who comes next reads that. */
function untilNewer(context: DispatchContext): LeadScope['context'] {
  let now = context;
  return {
    get now() {
      return now;
    },
    renew: async () => {
      now = { ...context };
    },
  };
}

/** For how long it leads. */
class Term {
  readonly #context: DispatchContext;
  readonly #partition: number;
  readonly #endsAtMonotonicMs: number;
  /** From its first pass on. */
  #countedAtMonotonicMs: number | undefined;
  #counted = 0;
  readonly totals: LeadTotals = { passes: 0, admitted: 0, settled: 0 };
  #isSuccessorAsked = false;
  /** Somebody was asked, as far as is known. */
  isSuccessorDue = false;

  constructor(context: DispatchContext, partition: number) {
    const { clock, budget } = context;
    this.#context = context;
    this.#partition = partition;
    this.#endsAtMonotonicMs = clock.monotonicMs() + budget.runMs;
  }

  /** Asked before each pass. */
  lasts(): boolean {
    const nowMonotonicMs = this.#context.clock.monotonicMs();
    if (nowMonotonicMs >= this.#endsAtMonotonicMs || this.#isCalm(nowMonotonicMs)) return false;
    if (nowMonotonicMs >= this.#endsAtMonotonicMs - SUCCESSOR_MS) this.#askSuccessor();
    return true;
  }

  #isCalm(nowMonotonicMs: number): boolean {
    this.#countedAtMonotonicMs ??= nowMonotonicMs;
    const sinceMs = nowMonotonicMs - this.#countedAtMonotonicMs;
    if (sinceMs < CALM_AFTER_MS) return false;
    const { admitted, settled } = this.totals;
    const moved = admitted + settled - this.#counted;
    this.#counted += moved;
    this.#countedAtMonotonicMs = nowMonotonicMs;
    return moved * 1_000 < this.#context.budget.leadWhile * sinceMs;
  }

  #askSuccessor(): void {
    const { lead: ask, log } = this.#context;
    if (this.#isSuccessorAsked || ask === undefined) return;
    this.#isSuccessorAsked = true;
    this.isSuccessorDue = true;
    ask(this.#partition).catch((error: unknown) => {
      this.isSuccessorDue = false;
      log.warn('nobody could be asked to lead next', { partition: this.#partition, error: String(error) });
    });
  }
}
