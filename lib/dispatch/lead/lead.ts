/**
 * Leading a partition: one dispatcher makes pass after pass, and keeps what it has read between them. A small item names the
 * leader; other dispatchers leave letters for it instead of making passes. This item only saves work. The partition's version
 * alone decides which commits succeed, so two dispatchers that both believe to lead lose commits and nothing else.
 *
 *  - A woken dispatcher takes the lead, and only leaders read letters.
 *  - Letters are deleted one by one, after the commit that acted on them was answered.
 *  - A leader that ends releases the lead first and reads letters afterwards, so a letter that arrived in between is seen.
 *  - A dispatcher that leaves a letter reads the leader item afterwards (`leaveLetter`), and makes the pass itself if no
 *    dispatcher leads.
 *
 * So a change waits for the minute's tick in four cases only: a leader died, a pass of a lead failed, a stream batch was given
 * up, or a wake went to the dead-letter queue. A failed lead sends no wake, because a repeated failure would double the wakes
 * each time. All rules, each with the shortest run that breaks without it, are in test/protocol/letters_model.py.
 */
import { nonceFrom } from '../../core/job.ts';
import type { JobImage } from '../../store/contract/job-fields.ts';
import {
  type DispatcherIdentity,
  isLedAt,
  type Letter,
  type ReceivedLetter,
} from '../../store/contract/records.ts';
import type { DispatchContext } from '../partition/context.ts';
import { nextDueMs, wakeForLetters, wakeForNearWork } from '../partition/timers.ts';
import { pass } from '../pass/pass.ts';
import type { PassInput, PassReport } from '../pass/scope.ts';
import { INDEX_LAG_MS, LIVELY_POLL_MS, LOOK_AROUND_MS, LOST_MAX, PACE_MS, POLL_MS } from '../tuning.ts';
import { Pace } from './pace.ts';

/**
 * Why a lead has ended. `ledByAnother`: another dispatcher leads. `outdated`: the partition has a newer declaration.
 * `outOfTime`: a bound was reached with work left.
 */
export type LeadEnd = 'done' | 'ledByAnother' | 'outOfTime' | 'outdated' | 'stopped';

export interface LeadTotals {
  passes: number;
  admitted: number;
  settled: number;
  lostClaims: number;
}

export interface LeadReport extends Readonly<LeadTotals> {
  readonly end: LeadEnd;
  /** Set if `end` is `outdated`: the newer version, and the hints that were not used. */
  readonly outdated?:
    | { readonly version: number; readonly hints: readonly JobImage[]; readonly jobIds: readonly string[] }
    | undefined;
}

export interface LeadOptions {
  /** Input of the first pass. */
  readonly first: Pick<PassInput, 'hints' | 'jobIds' | 'fires' | 'mustCommit'>;
  /**
   * The letter to leave if another dispatcher leads. Undefined: it leaves none, because earlier letters hold the same
   * news.
   */
  readonly letter: Letter | undefined;
  /**
   * Returns whether to go on leading although nothing is left to do. It is asked in each round. @default - the lead
   * ends with its work
   */
  readonly stays?: ((totals: Readonly<LeadTotals>) => boolean) | undefined;
  /** The time, by the monotonic clock, after which no pass begins. */
  readonly endsAtMonotonicMs: number;
  /** Most passes of this lead. @default - no bound */
  readonly passesMax?: number | undefined;
  /** Ends the lead after the current pass when aborted. */
  readonly end?: AbortSignal | undefined;
  /**
   * Milliseconds between two reads of letters.
   * @default 250
   */
  readonly pollMs?: number | undefined;
  /**
   * The longest time in milliseconds without a pass that reads everything again.
   * @default 60,000
   */
  readonly passEveryMs?: number | undefined;
  /** Called with the duration of each pass. */
  readonly note?: ((passMs: number) => void) | undefined;
  /** Called once this dispatcher leads. */
  readonly began?: (() => void) | undefined;
}

/** Leads a partition, unless another dispatcher does. */
export async function lead(
  context: DispatchContext,
  partition: number,
  options: LeadOptions,
): Promise<LeadReport> {
  return new Lead(context, partition, options).run();
}

/**
 * Leaves a letter for the leader of a partition, and reads the leader item afterwards. False: no dispatcher leads any more, so
 * the caller makes the pass itself.
 */
export async function leaveLetter(
  { store, clock, seen }: Pick<DispatchContext, 'store' | 'clock' | 'seen'>,
  partition: number,
  letter: Letter,
): Promise<boolean> {
  await store.putLetter({ partition, letter, nowMs: clock.nowMs() });
  // planted: left-and-gone
  const isLed = isLedAt(await store.readLeader(partition), clock.nowMs());
  noteSeen({ seen, clock }, partition, { isLed });
  return isLed;
}

/** Updates what this process remembers of a partition that it does not lead. */
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

/** Returns the name of one lead: the dispatcher's holder name and a random part. */
const nameOfLead = ({ holder, random }: DispatchContext): string => `${holder}#${nonceFrom(random)}`;

const RESIDENT_PREFIX = 'resident/';

/** Returns the holder name of a resident dispatcher: its id and its incarnation. */
export const residentHolder = ({ dispatcherId, incarnation }: DispatcherIdentity): string =>
  `${RESIDENT_PREFIX}${dispatcherId}/${incarnation}`;

/** Returns the id of the resident dispatcher that a lead's holder name contains. Undefined: a function leads. */
export function residentIn(holder: string): string | undefined {
  if (!holder.startsWith(RESIDENT_PREFIX)) return undefined;
  // The id may contain slashes; the incarnation does not.
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
  /** The time, by this process's monotonic clock, until which the leader item names this lead. */
  #untilMonotonicMs = -Infinity;
  /** Hints that no pass has used yet. */
  #hints: readonly JobImage[];
  #jobIds: readonly string[];
  /** Whether something is left to do at once. */
  #hasMore = true;
  /** Whether no pass of this lead has succeeded yet. */
  #isFirst = true;
  /** Whether schedules may be due that no pass has fired. */
  #fires: boolean;
  /** Whether an empty letter has asked for a pass. */
  #wasPassAsked = false;
  #tries = 0;
  #lost = 0;
  #checkAllAtMonotonicMs: number;
  /**
   * After an empty letter: when a second pass is due. By then the index shows what the first pass may have missed
   * (`INDEX_LAG_MS`).
   */
  #secondPassAtMonotonicMs = Infinity;
  /** Epoch ms at which the next scheduled work is due. */
  #dueAtMs = Infinity;
  /** Until this time letters are read every `LIVELY_POLL_MS`, because a letter, a start or a settlement came just before. */
  #activeUntilMonotonicMs = -Infinity;
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
    this.#jobIds = first.jobIds ?? [];
    this.#fires = first.fires;
    this.#checkAllAtMonotonicMs = clock.monotonicMs() + passEveryMs;
  }

  async run(): Promise<LeadReport> {
    // If no dispatcher leads after the letter was left, the other leader has died or released the lead in between, so this one
    // tries again.
    const { letter } = this.#options;
    while (!(await this.#takeLead())) {
      if (letter === undefined || (await leaveLetter(this.#context, this.#partition, letter)))
        return this.#report('ledByAnother');
    }
    this.#options.began?.();
    let isReleased = false;
    try {
      for (;;) {
        const end = await this.#makePasses();
        const news = await this.#release();
        isReleased = true;
        if (end !== 'done' || !news) return this.#report(await this.#finish(end, news));
        // A letter has arrived since the last pass.
        if (!(await this.#takeLead())) return this.#report('ledByAnother');
        isReleased = false;
        this.#hasMore = true;
      }
    } finally {
      if (!isReleased) await this.#release().catch(() => undefined);
    }
  }

  /** After the lead is released, gives unfinished work to another dispatcher. */
  async #finish(end: LeadEnd, news: boolean): Promise<LeadEnd> {
    const hasWork = news || this.#hasMore || this.#hints.length + this.#jobIds.length > 0;
    if (hasWork && end !== 'outdated') await this.#handOver();
    // The clock of the letter's writer may be ahead. Work that is due by that clock has no other wake.
    if (this.#wasPassAsked) await wakeForNearWork(this.#context, this.#partition);
    return end === 'outOfTime' && !hasWork ? 'done' : end;
  }

  #report(end: LeadEnd): LeadReport {
    return { end, ...this.#totals, outdated: this.#outdated };
  }

  /** Takes or renews the lead. False: another dispatcher leads. */
  async #takeLead(): Promise<boolean> {
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

  /** Ends the lead. Returns whether unread letters are left. */
  async #release(): Promise<boolean> {
    const { store } = this.#context;
    // planted: looked-before-release
    await store.stopLeading({ partition: this.#partition, holder: this.#name });
    // planted: looked-before-release-2
    const { letters } = await store.readLetters(this.#partition);
    return letters.length > 0;
  }

  /** Leaves unused hints in a letter and wakes another dispatcher. */
  async #handOver(): Promise<void> {
    const { store, queue, clock } = this.#context;
    const partition = this.#partition;
    if (this.#hints.length + this.#jobIds.length > 0) {
      const letter = { hints: this.#hints, jobIds: this.#jobIds };
      await store.putLetter({ partition, letter, nowMs: clock.nowMs() });
    }
    await queue.sendWake({ partition });
  }

  /** Returns why the lead must end now; undefined: it may go on. Renews the lead when half of it is over. */
  async #endReason(): Promise<LeadEnd | undefined> {
    const { clock, budget } = this.#context;
    const { endsAtMonotonicMs, passesMax = Infinity } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#end.aborted) return 'stopped';
    const isOutOfTime = this.#totals.passes >= passesMax || nowMs >= endsAtMonotonicMs;
    if (this.#tries > 0 && isOutOfTime) return 'outOfTime';
    const isHalfOver = this.#untilMonotonicMs - nowMs < budget.leadMs / 2;
    return isHalfOver && !(await this.#takeLead()) ? 'ledByAnother' : undefined;
  }

  /** Makes passes while there is a reason for one, or while `stays` says to go on. */
  async #makePasses(): Promise<LeadEnd> {
    const { store, clock } = this.#context;
    for (;;) {
      const over = await this.#endReason();
      if (over !== undefined) return over;
      const stays = this.#options.stays?.(this.#totals) ?? false;
      if (!this.#hasMore && stays && this.#pace.leftMs() > 0) {
        await clock.sleep(this.#pace.leftMs(), this.#end);
        continue;
      }
      const { letters, more } = await store.readLetters(this.#partition);
      const checksAll = clock.monotonicMs() >= this.#checkAllAtMonotonicMs;
      const rereadsLines = stays && this.#pace.isTimeToRead();
      const hasReason = this.#hasMore || checksAll || letters.length > 0 || rereadsLines || this.#isTime();
      if (!hasReason) {
        if (!stays) return 'done';
        await this.#pause();
        continue;
      }
      const end = await this.#makePass(letters, { checksAll, rereadsLines });
      if (end !== undefined) return end;
      this.#hasMore ||= more;
    }
  }

  /** Makes one pass from the letters and from what earlier passes left. */
  async #makePass(
    letters: readonly ReceivedLetter[],
    { checksAll, rereadsLines }: { readonly checksAll: boolean; readonly rereadsLines: boolean },
  ): Promise<LeadEnd | undefined> {
    const { store, clock } = this.#context;
    const { first } = this.#options;
    const partition = this.#partition;
    const asks = letters.some(isEmpty);
    this.#wasPassAsked ||= asks;
    this.#fires ||= asks || checksAll || this.#isTime();
    this.#tries += 1;
    const hints = [...this.#hints, ...letters.flatMap((letter) => letter.hints)];
    // planted: names-unread
    const jobIds = [...this.#jobIds, ...letters.flatMap((letter) => letter.jobIds)];
    this.#pace.begin(rereadsLines);
    const startedMs = clock.monotonicMs();
    const background: Promise<unknown>[] = [];
    let outcome: Awaited<ReturnType<typeof pass>>;
    try {
      // planted: deleted-before-the-commit
      outcome = await pass(this.#context, partition, {
        leadBy: this.#name,
        hints,
        jobIds,
        checksAll: checksAll || letters.some((letter) => letter.looksAtAll),
        rereadsLines,
        promotes: true,
        fires: this.#fires,
        mustCommit: asks || (this.#isFirst && first.mustCommit === true),
        inBackground: (work) => background.push(work),
      });
    } finally {
      await Promise.all(background);
      this.#options.note?.(clock.monotonicMs() - startedMs);
    }
    if (outcome.kind === 'led') throw new RangeError('a pass of a lead found another leader');
    if (outcome.kind === 'lost') {
      this.#context.metrics?.add('lostRaces', 1);
      this.#lost += 1;
      if (this.#lost >= LOST_MAX) await clock.sleep(PACE_MS, this.#end);
      // planted: deleted-though-refused
      // The letters are not deleted, and the next pass reads them again.
      this.#hasMore = true;
      return undefined;
    }
    if (outcome.kind === 'outdated') {
      this.#outdated = { version: outcome.version, hints: this.#hints, jobIds: this.#jobIds };
      return 'outdated';
    }
    if (letters.length > 0) {
      const shown = letters.flatMap((letter) => letter.hints);
      await wakeForLetters(this.#context, partition, shown);
      // planted: deletes-of-others
      const letterIds = letters.map(({ letterId }) => letterId);
      await store.deleteLetters({ partition, letterIds });
    }
    this.#lost = 0;
    this.#isFirst = false;
    this.#hints = outcome.hints;
    this.#jobIds = [];
    this.#hasMore = outcome.kind === 'again';
    this.#fires &&= this.#hasMore;
    this.#count(outcome, startedMs);
    await this.#planNext(outcome, {
      letters,
      checksAll: checksAll || asks,
      reported: hints.length + jobIds.length,
    });
    return undefined;
  }

  /** Decides when to make the next pass even if no letter arrives. */
  async #planNext(
    outcome: PassReport,
    {
      letters,
      checksAll,
      reported,
    }: {
      readonly letters: readonly ReceivedLetter[];
      readonly checksAll: boolean;
      readonly reported: number;
    },
  ): Promise<void> {
    if (this.#options.stays === undefined) return;
    const { clock } = this.#context;
    const { passEveryMs = LOOK_AROUND_MS, pollMs = POLL_MS } = this.#options;
    const nowMonotonicMs = clock.monotonicMs();
    this.#pace.end(outcome, reported);
    if (checksAll) this.#checkAllAtMonotonicMs = nowMonotonicMs + passEveryMs;
    if (letters.some(isEmpty)) this.#secondPassAtMonotonicMs = nowMonotonicMs + INDEX_LAG_MS;
    else if (nowMonotonicMs >= this.#secondPassAtMonotonicMs) this.#secondPassAtMonotonicMs = Infinity;
    if (letters.length > 0 || outcome.admitted + outcome.settled > 0)
      this.#activeUntilMonotonicMs = nowMonotonicMs + this.#context.budget.leadMs;
    const dueMs = await nextDueMs(this.#context, this.#partition);
    // The index may still show work that is due by now. It was promoted already, or the next read of letters finds it.
    this.#dueAtMs = dueMs === undefined ? Infinity : Math.max(dueMs, clock.nowMs() + pollMs);
  }

  #isTime(): boolean {
    const { clock } = this.#context;
    return clock.monotonicMs() >= this.#secondPassAtMonotonicMs || clock.nowMs() >= this.#dueAtMs;
  }

  /** Waits until it is time to read letters again. */
  #pause(): Promise<void> {
    const { clock } = this.#context;
    const { pollMs = POLL_MS } = this.#options;
    const isLively = clock.monotonicMs() < this.#activeUntilMonotonicMs;
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

/** Whether a letter is empty. An empty letter asks for a pass. */
const isEmpty = ({ hints, jobIds, looksAtAll }: ReceivedLetter): boolean =>
  !looksAtAll && hints.length + jobIds.length === 0;
