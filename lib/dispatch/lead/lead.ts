/**
 * Leading a partition: passes, one after the other, by one dispatcher that remembers between them what it has read. Leading is a courtesy:
 * a small item names the leader, and other dispatchers leave letters instead of making passes. The partition's version alone decides what
 * counts, so two dispatchers that both believe to lead lose commits, and nothing else.
 *
 *  - A dispatcher that was woken takes the lead, and only leaders read letters.
 *  - Letters are deleted one by one, after the commit that acted on them was answered.
 *  - A leader that ends releases the lead first, and looks for letters afterwards: a letter that came before its look is not forgotten.
 *  - A dispatcher that leaves a letter looks at the leader afterwards (`leaveLetter`), and goes on itself if none leads by then.
 *
 * So news waits for the minute's tick after four things only: a leader died, a pass of a lead failed, a stream batch was given up, a wake was
 * dead-lettered. A lead that failed sends no wake: what failed may fail again, and each failure would cause two. All rules, each with the
 * shortest trail without it, are in test/protocol/letters_model.py.
 */
import { nonceFrom } from '../../core/job.ts';
import type { JobImage } from '../../store/contract/job-fields.ts';
import type { DispatcherIdentity, Letter, ReceivedLetter } from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import { nextDueMs, wakeForNearWork, wakeForShown } from '../partition/timers.ts';
import { isLedBy } from '../pass/load.ts';
import { pass } from '../pass/pass.ts';
import type { PassInput, PassReport } from '../pass/scope.ts';
import { INDEX_LAG_MS, LIVELY_POLL_MS, LOOK_AROUND_MS, LOST_MAX, PACE_MS, POLL_MS } from '../tuning.ts';
import { Pace } from './pace.ts';

/** Why a lead has ended. `left`: another dispatcher leads. `outdated`: a newer declaration is there. `outOfTime`: there is more to do. */
export type LeadEnd = 'done' | 'left' | 'outOfTime' | 'outdated' | 'stopped';

export interface LeadTotals {
  passes: number;
  admitted: number;
  settled: number;
  lostClaims: number;
}

export interface LeadReport extends Readonly<LeadTotals> {
  readonly end: LeadEnd;
  /** Where it is outdated: by which version, and what it was shown and has not used. */
  readonly outdated?:
    | { readonly version: number; readonly hints: readonly JobImage[]; readonly told: readonly string[] }
    | undefined;
}

export interface LeadOptions {
  /** What the first pass is made for. */
  readonly first: Pick<PassInput, 'hints' | 'told' | 'fires' | 'commitsAnyway'>;
  /** Left where another dispatcher leads; undefined: nothing is, because letters say it all. */
  readonly letter: Letter | undefined;
  /** Asked before each pass but the first, though there may be nothing left to do: whether it goes on to lead. @default - it does not */
  readonly stays?: ((totals: Readonly<LeadTotals>) => boolean) | undefined;
  /** By the monotonic clock: no pass begins after that. */
  readonly endsAtMonotonicMs: number;
  /** Passes at most. @default - no bound */
  readonly passesMax?: number | undefined;
  /** Ends it in order. */
  readonly end?: AbortSignal | undefined;
  /** @default 250 */
  readonly pollMs?: number | undefined;
  /** @default 60,000 */
  readonly passEveryMs?: number | undefined;
  /** Hears how long a pass took. */
  readonly note?: ((passMs: number) => void) | undefined;
  /** Hears when it begins to lead. */
  readonly began?: (() => void) | undefined;
}

/** Leads a partition, if no other dispatcher does. */
export async function lead(
  context: DispatchContext,
  partition: number,
  options: LeadOptions,
): Promise<LeadReport> {
  return new Lead(context, partition, options).run();
}

/**
 * Leaves a letter for the leader of a partition, and looks at the leader afterwards: false if none leads by then, and the letter's writer is
 * to make the pass itself.
 */
export async function leaveLetter(
  { store, clock, seen }: Pick<DispatchContext, 'store' | 'clock' | 'seen'>,
  partition: number,
  letter: Letter,
): Promise<boolean> {
  await store.putLetter({ partition, letter, nowMs: clock.nowMs() });
  // planted: left-and-gone
  const isLed = isLedBy(await store.readLeader(partition), undefined, clock.nowMs());
  noteSeen({ seen, clock }, partition, { isLed });
  return isLed;
}

/** Notes what this process has seen of a partition. */
export function noteSeen(
  { seen, clock }: Pick<DispatchContext, 'seen' | 'clock'>,
  partition: number,
  news: Partial<DispatchContext['seen'] extends Map<number, infer Seen> ? Seen : never>,
): void {
  const known = seen.get(partition) ?? {
    isLed: false,
    movedPerSec: 0,
    countedAtMonotonicMs: clock.monotonicMs(),
    askedUntilMonotonicMs: -Infinity,
  };
  seen.set(partition, { ...known, ...news });
}

/** How dispatchers are named where they lead: a resident by its name and life, a function by itself; and each lead by a name of its own. */
const nameOfLead = ({ holder, random }: DispatchContext): string => `${holder}#${nonceFrom(random)}`;

const RESIDENT_PREFIX = 'resident/';

/** How a dispatcher that runs on is named where it leads. */
export const residentHolder = ({ dispatcherId, incarnation }: DispatcherIdentity): string =>
  `${RESIDENT_PREFIX}${dispatcherId}/${incarnation}`;

/** The dispatcher that runs on, by the name of its lead; undefined: a function leads. */
export function residentIn(holder: string): string | undefined {
  if (!holder.startsWith(RESIDENT_PREFIX)) return undefined;
  // Its own name may hold slashes, the name of its life does not.
  return holder.slice(RESIDENT_PREFIX.length, holder.lastIndexOf('/'));
}

class Lead {
  readonly #context: DispatchContext;
  readonly #partition: number;
  readonly #options: LeadOptions;
  readonly #name: string;
  readonly #pace: Pace;
  readonly #end: AbortSignal;
  readonly #totals: LeadTotals = { passes: 0, admitted: 0, settled: 0, lostClaims: 0 };
  /** By this process's monotonic clock: until then the item says that it leads. */
  #untilMonotonicMs = -Infinity;
  /** What it was shown, and has not used. */
  #hints: readonly JobImage[];
  #told: readonly string[];
  /** Something is left to do at once. */
  #goesOn = true;
  /** No pass has ended well. */
  #isFirst = true;
  /** Schedules may be due that no pass has fired. */
  #fires: boolean;
  /** Letters have asked for a pass. */
  #wasAsked = false;
  #tries = 0;
  #lost = 0;
  #lookAtMonotonicMs: number;
  #againAtMonotonicMs = Infinity;
  #dueAtMs = Infinity;
  #livelyUntilMonotonicMs = -Infinity;
  #outdated: LeadReport['outdated'];

  constructor(context: DispatchContext, partition: number, options: LeadOptions) {
    const { clock } = context;
    const { first, passEveryMs = LOOK_AROUND_MS } = options;
    this.#context = context;
    this.#partition = partition;
    this.#options = options;
    this.#name = nameOfLead(context);
    this.#pace = new Pace(clock);
    this.#end = options.end ?? new AbortController().signal;
    this.#hints = first.hints;
    this.#told = first.told ?? [];
    this.#fires = first.fires;
    this.#lookAtMonotonicMs = clock.monotonicMs() + passEveryMs;
  }

  async run(): Promise<LeadReport> {
    // The other leader has died, or released, since the letter was left: this dispatcher leads.
    const { letter } = this.#options;
    while (!(await this.#take())) {
      if (letter === undefined || (await leaveLetter(this.#context, this.#partition, letter)))
        return this.#report('left');
    }
    this.#options.began?.();
    let isReleased = false;
    try {
      for (;;) {
        const end = await this.#passes();
        const news = await this.#release();
        isReleased = true;
        if (end !== 'done' || !news) return this.#report(await this.#leave(end, news));
        // A letter has come since its last look.
        if (!(await this.#take())) return this.#report('left');
        isReleased = false;
        this.#goesOn = true;
      }
    } finally {
      if (!isReleased) await this.#release().catch(() => undefined);
    }
  }

  /** Leaves what is left to do to others, once it has released the lead. */
  async #leave(end: LeadEnd, news: boolean): Promise<LeadEnd> {
    const owes = news || this.#goesOn || this.#hints.length + this.#told.length > 0;
    if (owes && end !== 'outdated') await this.#handOver();
    // The clock of a dispatcher that asked may be ahead: what is due by it has no other wake.
    if (this.#wasAsked) await wakeForNearWork(this.#context, this.#partition);
    return end === 'outOfTime' && !owes ? 'done' : end;
  }

  #report(end: LeadEnd): LeadReport {
    return { end, ...this.#totals, outdated: this.#outdated };
  }

  /** Takes the lead, or renews it. */
  async #take(): Promise<boolean> {
    const { store, clock, budget } = this.#context;
    const askedAtMonotonicMs = clock.monotonicMs();
    const nowMs = clock.nowMs();
    const outcome = await store.lead({
      partition: this.#partition,
      holder: this.#name,
      nowMs,
      untilMs: nowMs + budget.leadMs,
      wantsLetters: this.#options.stays !== undefined && this.#pace.wantsLetters(),
    });
    if (outcome.kind === 'led') return false;
    this.#untilMonotonicMs = askedAtMonotonicMs + budget.leadMs;
    return true;
  }

  /** Ends the lead. Answers whether letters are there that it has not acted on. */
  async #release(): Promise<boolean> {
    const { store } = this.#context;
    // planted: looked-before-release
    await store.stopLeading({ partition: this.#partition, holder: this.#name });
    // planted: looked-before-release-2
    const { letters } = await store.readLetters(this.#partition);
    return letters.length > 0;
  }

  /** Sees to it that another dispatcher goes on: what this one was shown and has not used, it leaves behind. */
  async #handOver(): Promise<void> {
    const { store, queue, clock } = this.#context;
    const partition = this.#partition;
    if (this.#hints.length + this.#told.length > 0) {
      const letter = { hints: this.#hints, jobIds: this.#told };
      await store.putLetter({ partition, letter, nowMs: clock.nowMs() });
    }
    await queue.sendWake({ partition });
  }

  /** Why it makes no more passes, if so. Renews the lead in time. */
  async #isOver(): Promise<LeadEnd | undefined> {
    const { clock, budget } = this.#context;
    const { endsAtMonotonicMs, passesMax = Infinity } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#end.aborted) return 'stopped';
    const isOutOfTime = this.#totals.passes >= passesMax || nowMs >= endsAtMonotonicMs;
    if (this.#tries > 0 && isOutOfTime) return 'outOfTime';
    const isHalfOver = this.#untilMonotonicMs - nowMs < budget.leadMs / 2;
    return isHalfOver && !(await this.#take()) ? 'left' : undefined;
  }

  /** Makes passes while there is a cause, or it stays. */
  async #passes(): Promise<LeadEnd> {
    const { store, clock } = this.#context;
    for (;;) {
      const over = await this.#isOver();
      if (over !== undefined) return over;
      const stays = this.#options.stays?.(this.#totals) ?? false;
      if (!this.#goesOn && stays && this.#pace.leftMs() > 0) {
        await clock.sleep(this.#pace.leftMs(), this.#end);
        continue;
      }
      const { letters, more } = await store.readLetters(this.#partition);
      const looks = clock.monotonicMs() >= this.#lookAtMonotonicMs;
      const readsAnew = stays && this.#pace.isTimeToRead();
      const isCalled = this.#goesOn || looks || letters.length > 0 || readsAnew || this.#isTime();
      if (!isCalled) {
        if (!stays) return 'done';
        await this.#pause();
        continue;
      }
      const end = await this.#pass(letters, { looks, readsAnew });
      if (end !== undefined) return end;
      this.#goesOn ||= more;
    }
  }

  /** One pass, of what letters say and what is left of earlier ones. */
  async #pass(
    letters: readonly ReceivedLetter[],
    { looks, readsAnew }: { readonly looks: boolean; readonly readsAnew: boolean },
  ): Promise<LeadEnd | undefined> {
    const { store, clock } = this.#context;
    const { first } = this.#options;
    const partition = this.#partition;
    const asks = letters.some(isEmpty);
    this.#wasAsked ||= asks;
    this.#fires ||= asks || looks || this.#isTime();
    this.#tries += 1;
    const hints = [...this.#hints, ...letters.flatMap((letter) => letter.hints)];
    // planted: names-unread
    const told = [...this.#told, ...letters.flatMap((letter) => letter.jobIds)];
    this.#pace.begin(readsAnew);
    const startedMs = clock.monotonicMs();
    const beside: Promise<unknown>[] = [];
    let outcome: Awaited<ReturnType<typeof pass>>;
    try {
      // planted: deleted-before-the-commit
      outcome = await pass(this.#context, partition, {
        leadBy: this.#name,
        hints,
        told,
        looksAtAll: looks || letters.some((letter) => letter.looksAtAll),
        readsAnew,
        promotes: true,
        fires: this.#fires,
        commitsAnyway: asks || (this.#isFirst && first.commitsAnyway === true),
        inBackground: (work) => beside.push(work),
      });
    } finally {
      await Promise.all(beside);
      this.#options.note?.(clock.monotonicMs() - startedMs);
    }
    if (outcome.kind === 'led') throw new RangeError('a pass of a lead found another leader');
    if (outcome.kind === 'lost') {
      this.#context.metrics?.add('lostRaces', 1);
      this.#lost += 1;
      if (this.#lost >= LOST_MAX) await clock.sleep(PACE_MS, this.#end);
      // planted: deleted-though-refused
      // The letters are there still, and say the same again.
      this.#goesOn = true;
      return undefined;
    }
    if (outcome.kind === 'outdated') {
      this.#outdated = { version: outcome.version, hints: this.#hints, told: this.#told };
      return 'outdated';
    }
    if (letters.length > 0) {
      const shown = letters.flatMap((letter) => letter.hints);
      await wakeForShown(this.#context, partition, shown);
      // planted: deletes-of-others
      const letterIds = letters.map(({ letterId }) => letterId);
      await store.deleteLetters({ partition, letterIds });
    }
    this.#lost = 0;
    this.#isFirst = false;
    this.#hints = outcome.hints;
    this.#told = [];
    this.#goesOn = outcome.kind === 'again';
    this.#fires &&= this.#goesOn;
    this.#count(outcome, startedMs);
    await this.#planNext(outcome, { letters, looks: looks || asks, told: hints.length + told.length });
    return undefined;
  }

  /** When it makes the next pass, though no letter may have come by then. */
  async #planNext(
    outcome: PassReport,
    {
      letters,
      looks,
      told,
    }: { readonly letters: readonly ReceivedLetter[]; readonly looks: boolean; readonly told: number },
  ): Promise<void> {
    if (this.#options.stays === undefined) return;
    const { clock } = this.#context;
    const { passEveryMs = LOOK_AROUND_MS, pollMs = POLL_MS } = this.#options;
    const nowMonotonicMs = clock.monotonicMs();
    this.#pace.end(outcome, told);
    if (looks) this.#lookAtMonotonicMs = nowMonotonicMs + passEveryMs;
    if (letters.some(isEmpty)) this.#againAtMonotonicMs = nowMonotonicMs + INDEX_LAG_MS;
    else if (nowMonotonicMs >= this.#againAtMonotonicMs) this.#againAtMonotonicMs = Infinity;
    if (letters.length > 0 || outcome.admitted + outcome.settled > 0)
      this.#livelyUntilMonotonicMs = nowMonotonicMs + this.#context.budget.leadMs;
    const dueMs = await nextDueMs(this.#context, this.#partition);
    // What the index still shows though its time has come was promoted, or is seen a little later.
    this.#dueAtMs = dueMs === undefined ? Infinity : Math.max(dueMs, clock.nowMs() + pollMs);
  }

  #isTime(): boolean {
    const { clock } = this.#context;
    return clock.monotonicMs() >= this.#againAtMonotonicMs || clock.nowMs() >= this.#dueAtMs;
  }

  /** Until it looks for letters again. */
  #pause(): Promise<void> {
    const { clock } = this.#context;
    const { pollMs = POLL_MS } = this.#options;
    const isLively = clock.monotonicMs() < this.#livelyUntilMonotonicMs;
    return clock.sleep(isLively ? Math.min(pollMs, LIVELY_POLL_MS) : pollMs, this.#end);
  }

  #count({ admitted, settled, lostClaims }: PassReport, startedMs: number): void {
    const { clock, metrics, log } = this.#context;
    const totals = this.#totals;
    const tookMs = Math.round(clock.monotonicMs() - startedMs);
    metrics?.add('claimed', admitted);
    metrics?.add('lostRaces', lostClaims);
    metrics?.add('passDuration', tookMs);
    totals.passes += 1;
    totals.admitted += admitted;
    totals.settled += settled;
    totals.lostClaims += lostClaims;
    if (admitted + settled + lostClaims === 0) return;
    log.info('dispatched', { partition: this.#partition, tookMs, admitted, settled, lostClaims });
  }
}

/** A letter that says nothing asks for a pass. */
const isEmpty = ({ hints, jobIds, looksAtAll }: ReceivedLetter): boolean =>
  !looksAtAll && hints.length + jobIds.length === 0;
