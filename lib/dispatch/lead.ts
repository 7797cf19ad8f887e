/** Leading one partition under one lease: passes whenever there is a cause, and the lease renewed between them. */
import type { JobImage } from '../store/job-fields.ts';
import type { NamedJob, WakeCount } from '../store/records.ts';
import type { DispatchContext } from './context.ts';
import { dropNames, type HeldLease, hear, renewLease } from './lease.ts';
import { Pace } from './pace.ts';
import { pass } from './pass/pass.ts';
import type { PassInput, PassReport } from './pass/scope.ts';
import { nextDueMs } from './timers.ts';

/** After word was left that did not say of what, another pass this much later: the index may not have shown it. */
const SECOND_PASS_MS = 2_000;

/** For so long after there was something to do, it looks more often, */
const LIVELY_MS = 10_000;
/** as often as this. */
const LIVELY_POLL_MS = 28;

/** Why it leads no more. `handed over`: it was to end, and has given its lease back. */
export type LeadEnd = 'handed over' | 'superseded' | 'redeployed' | 'lost';

export interface LeadSettings
  extends Pick<DispatchContext, 'store' | 'queue' | 'clock' | 'budget' | 'log' | 'metrics'> {
  /** How often the wake counter is read where nothing goes on. */
  readonly pollMs: number;
  /** How long the partition goes without a pass at most. */
  readonly passEveryMs: number;
}

export interface LeadTotals {
  passes: number;
  admitted: number;
  settled: number;
}

/** Who leads, as far as leading goes. */
export interface LeadScope {
  readonly settings: LeadSettings;
  /** With what it dispatches: a newer declaration makes it another one. */
  readonly context: { readonly now: DispatchContext; renew(version: number): Promise<void> };
  /** Whether it may lead still. */
  readonly isEntitled: () => boolean;
  /** Counted on. */
  readonly totals: LeadTotals;
  /** Hears how long a pass took. */
  readonly note?: ((passMs: number) => void) | undefined;
}

/** Whoever comes next takes over at once: a function by the message, and by the counter it looks up what is in flight. */
export async function wake(
  { store, queue, log }: Pick<LeadSettings, 'store' | 'queue' | 'log'>,
  partition: number,
): Promise<void> {
  try {
    // Whoever is sent for takes the lease, or leaves word himself.
    await store.wake({ partition }).finally(() => queue.sendWake(partition, 0));
  } catch (error) {
    log.warn('the partition was not woken as it should be; the next tick will', {
      partition,
      error: String(error),
    });
  }
}

/** Gives a lease back. What was begun under it may still arrive: who takes it fences that. Answers whether it was this one's till now. */
export async function giveBack(
  { store, log }: Pick<LeadSettings, 'store' | 'log'>,
  { fence }: HeldLease,
  wakesSeen?: WakeCount,
): Promise<boolean> {
  try {
    return (await store.releaseLease({ fence, isWriting: true, wakesSeen })) === 'released';
  } catch (error) {
    log.warn('a lease was not given back; it expires', { ...fence, error: String(error) });
    return true;
  }
}

/** What a pass is made for. */
type Cause = Pick<PassInput, 'checksAll' | 'fires' | 'readsAnew'> & {
  readonly named: readonly NamedJob[];
};

export class Lead {
  readonly #scope: LeadScope;
  readonly #pace: Pace;
  readonly #partition: number;
  readonly #end: AbortSignal;
  /** What it leads under; a newer declaration asks for an epoch of its own. */
  readonly #led: DispatchContext;
  /** The wakes up to which it has looked. */
  #lookedAt: WakeCount;
  /** What it was shown, and has not used. */
  hints: readonly JobImage[] = [];
  /** The first pass comes at once. */
  #goesOn = true;
  #checkAllAtMonotonicMs: number;
  #againAtMonotonicMs = Infinity;
  #dueAtMs = Infinity;
  #livelyUntilMonotonicMs = -Infinity;
  lease: HeldLease;

  constructor(scope: LeadScope, lease: HeldLease, end: AbortSignal) {
    const { clock, passEveryMs } = scope.settings;
    this.#scope = scope;
    this.#pace = new Pace(clock);
    this.#partition = lease.fence.partition;
    this.#end = end;
    this.#led = scope.context.now;
    this.#lookedAt = lease.wakesLookedAt;
    this.#checkAllAtMonotonicMs = clock.monotonicMs() + passEveryMs;
    this.lease = lease;
  }

  /** Makes passes until it is to end, or has to. */
  async run(): Promise<LeadEnd> {
    const { settings, context } = this.#scope;
    const { store, clock, pollMs } = settings;
    for (;;) {
      const ended = await this.#keep();
      if (ended !== undefined) return ended;
      if (!this.#goesOn && this.#pace.leftMs() > 0) {
        await clock.sleep(this.#pace.leftMs(), this.#end);
        continue;
      }
      const wakes = await store.readWakes(this.#partition);
      const news = await hear(settings, this.#partition, this.#lookedAt, wakes);
      const isTold = news.isBlank || news.isOfDueWork || news.jobs.length > 0;
      const checksAll = news.isBlank || clock.monotonicMs() >= this.#checkAllAtMonotonicMs;
      const looks = checksAll || news.isOfDueWork || this.#goesOn || this.#isTime();
      const readsAnew = this.#pace.isTimeToRead();
      if (!looks && !isTold && !readsAnew) {
        await this.#pause();
        continue;
      }
      const { jobs: named, hints } = news;
      this.hints = [...this.hints, ...hints];
      this.#pace.begin(readsAnew);
      const outcome = await this.#pass({ named, checksAll, readsAnew, fires: looks });
      if (outcome.kind === 'lost') return 'superseded';
      if (outcome.kind === 'outdated') {
        await context.renew(outcome.version);
        continue;
      }
      this.#lookedAt = wakes;
      this.hints = outcome.hints;
      this.#goesOn = outcome.kind === 'again';
      this.#noteLife(outcome, isTold);
      this.#pace.end(outcome, countOf(named, ({ isWaiting }) => isWaiting) + countOf(hints, isPending));
      this.#planNext(checksAll, news.isBlank || news.isOfDueWork);
      const [dueMs] = await Promise.all([
        nextDueMs(context.now, this.#partition),
        dropNames(settings, this.#partition, wakes),
      ]);
      // What the index still shows though its time has come was promoted, or is seen a little later.
      this.#dueAtMs = dueMs === undefined ? Infinity : Math.max(dueMs, clock.nowMs() + pollMs);
    }
  }

  /** When it looks at everything again, after a pass that did, or did not. */
  #planNext(checksAll: boolean, mayLag: boolean): void {
    const { clock, passEveryMs } = this.#scope.settings;
    const nowMonotonicMs = clock.monotonicMs();
    if (checksAll) this.#checkAllAtMonotonicMs = nowMonotonicMs + passEveryMs;
    if (mayLag) this.#againAtMonotonicMs = nowMonotonicMs + SECOND_PASS_MS;
    else if (nowMonotonicMs >= this.#againAtMonotonicMs) this.#againAtMonotonicMs = Infinity;
  }

  #noteLife({ admitted, settled }: PassReport, isTold: boolean): void {
    if (!isTold && admitted + settled === 0) return;
    this.#livelyUntilMonotonicMs = this.#scope.settings.clock.monotonicMs() + LIVELY_MS;
  }

  /** Until it looks again. */
  #pause(): Promise<void> {
    const { clock, pollMs } = this.#scope.settings;
    const isLively = clock.monotonicMs() < this.#livelyUntilMonotonicMs;
    return clock.sleep(isLively ? Math.min(pollMs, LIVELY_POLL_MS) : pollMs, this.#end);
  }

  #isTime(): boolean {
    const { clock } = this.#scope.settings;
    return clock.monotonicMs() >= this.#againAtMonotonicMs || clock.nowMs() >= this.#dueAtMs;
  }

  /** Sees to the lease before a pass. Answers why it leads no more; undefined: it does. */
  async #keep(): Promise<LeadEnd | undefined> {
    const { settings, context, isEntitled } = this.#scope;
    if (this.#end.aborted || !isEntitled())
      return (await giveBack(settings, this.lease, this.#lookedAt)) ? 'handed over' : 'superseded';
    if (context.now !== this.#led) {
      // Under an epoch of its own: what was reserved by the former declaration must be told from what is by this one.
      await giveBack(settings, this.lease);
      // Hints that were not used are looked up.
      await wake(settings, this.#partition);
      return 'redeployed';
    }
    const kept = await this.#renewed();
    if (kept === undefined) {
      await giveBack(settings, this.lease);
      return 'lost';
    }
    this.lease = kept;
    return undefined;
  }

  /** The lease with enough left of it, and what it is to say; undefined if it is over, or somebody else's. */
  async #renewed(): Promise<HeldLease | undefined> {
    const { clock, budget, log } = this.#scope.settings;
    const { lease } = this;
    const leftMs = (): number => lease.trustedUntilMonotonicMs - clock.monotonicMs();
    if (leftMs() <= 0) return undefined;
    if (leftMs() > budget.leaseMs / 2) return lease;
    try {
      return await renewLease(this.#scope.context.now, lease, this.#pace.wantsWord());
    } catch (error) {
      log.warn('a lease was not renewed; trying again', { ...lease.fence, error: String(error) });
      return leftMs() > 0 ? lease : undefined;
    }
  }

  async #pass({ named, checksAll, readsAnew, fires }: Cause): ReturnType<typeof pass> {
    const { settings, note } = this.#scope;
    const beside: Promise<unknown>[] = [];
    const startedMs = settings.clock.monotonicMs();
    let outcome: Awaited<ReturnType<typeof pass>>;
    try {
      outcome = await pass(this.#led, this.lease, {
        hints: this.hints,
        named,
        checksAll,
        // Where no function runs, nobody tells of anything: what waits is found by looking.
        hasMissed: checksAll,
        readsAnew,
        promotes: true,
        // Who was told of jobs, and of nothing else, need not look for what nobody told of.
        fires,
        justStored: NOTHING_STORED,
        inBackground: (work) => beside.push(work),
      });
    } finally {
      await Promise.all(beside);
      note?.(settings.clock.monotonicMs() - startedMs);
    }
    if (outcome.kind === 'done' || outcome.kind === 'again') this.#count(outcome, startedMs);
    else if (outcome.kind === 'lost') settings.metrics?.add('lostRaces', 1);
    return outcome;
  }

  #count({ admitted, settled, lostClaims }: PassReport, startedMs: number): void {
    const { settings, totals } = this.#scope;
    const tookMs = Math.round(settings.clock.monotonicMs() - startedMs);
    settings.metrics?.add('claimed', admitted);
    settings.metrics?.add('lostRaces', lostClaims);
    settings.metrics?.add('passDuration', tookMs);
    totals.passes += 1;
    totals.admitted += admitted;
    totals.settled += settled;
    if (admitted + settled + lostClaims === 0) return;
    settings.log.info('dispatched', { partition: this.#partition, tookMs, admitted, settled, lostClaims });
  }
}

const NOTHING_STORED: ReadonlySet<string> = new Set();

const isPending = ({ state }: JobImage): boolean => state === 'pending';

const countOf = <Each>(all: readonly Each[], isMeant: (each: Each) => boolean): number =>
  all.filter(isMeant).length;
