/** Answers what the planner asks for from the view, and reads what is not known: keys with backlog, heads of their lines, and what their jobs are expected to cost. */
import { typesByName } from '../../core/conflict.ts';
import type { ReservedJob } from '../../core/job.ts';
import { isAttemptOver } from '../../core/life-cycle.ts';
import type { LineName, Planner, Step } from '../../core/planner.ts';
import type { Decision } from '../../core/scheduler.ts';
import type { JobHead, JobImage } from '../../store/contract/job-fields.ts';
import { type ReadyLine, readyLineName } from '../../store/contract/lines.ts';
import type { Quiet, Reservation } from '../../store/contract/records.ts';
import { ANNOUNCE_EVERY_MS } from '../../submit/submit.ts';
import type { DispatchContext } from '../partition/context.ts';
import { type BetweenPartitions, betweenPartitions } from '../partitions/between-partitions.ts';
import { HEADS_OF_A_UNIT, LOOKS_MIN, PAGE_MAX } from '../tuning.ts';
import { BackloggedKeys, keyShares } from '../view/keys.ts';
import type { LedgerCache } from '../view/ledger-cache.ts';
import { attemptOf, type Place, placesOf } from '../view/settled.ts';
import { type Line, type Order, orderOf, type View, withPlaced } from '../view/view.ts';
import { quietOf } from './quiet.ts';

type Need = Extract<Step, { readonly kind: 'need' }>;

export interface CandidatesInput {
  readonly partition: number;
  readonly ledgerCache: LedgerCache;
  /** Images of jobs that were seen just now, the newest of each: the index may not show yet what they show. */
  readonly images: readonly JobImage[];
  /** The first jobs of the blocked lines of conflict keys that nothing holds any more. */
  readonly parkedHeads: readonly JobHead[];
  /** Jobs that were stored a moment ago by the dispatcher that makes this pass: they wait, though the index may not show them. */
  readonly justStored: ReadonlySet<string>;
  /** After settlement: what still holds capacity. */
  readonly reservations: readonly Reservation[];
  readonly view: View;
  readonly nowMs: number;
}

/** A line that this pass has opened. */
interface Opened {
  readonly line: LineName;
  /** How many of its jobs were offered. */
  offered: number;
  /** This pass has read it. */
  isRead: boolean;
}

/** What is offered of a line. */
interface OfferedHeads {
  readonly line: LineName;
  readonly jobs: readonly JobHead[];
  /** All that is known of it. */
  readonly known: readonly JobHead[];
  readonly more: boolean;
}

export class Candidates {
  readonly #context: DispatchContext;
  readonly #input: CandidatesInput;
  readonly #view: View;
  readonly #order: Order;
  readonly #held = new Map<string, Place>();
  readonly #keys: BackloggedKeys;
  /** By name. */
  #opened = new Map<string, Opened>();
  /** Lines whose known jobs are used up, by name, in the order in which the planner asked for them. */
  readonly #usedUp = new Map<string, LineName>();
  #usedUpCount = 0;
  #aheadCount = 0;
  /** Lines are read now, whatever is ahead. */
  #isReading = false;
  readonly #empty: { readonly line: ReadyLine; readonly announcedAtMs: number }[] = [];
  /** What is known may not be all that waits: some jobs wait perhaps, though nothing that was read or told shows it. */
  #isDistrusted = false;
  readonly #locksSeen = new Set<string>();
  readonly #between: BetweenPartitions | undefined;
  readonly #lives: (of: Pick<JobHead, 'fairnessKey'>) => boolean;
  /** When a conflict key that another partition has in turn is open again unless it is taken; undefined: none is. */
  openAtMs: number | undefined;
  /** Jobs of held places that have moved on: the hint that should have settled them was lost. */
  readonly leftBehind: JobImage[] = [];
  /** How often this pass has read lines. */
  linesRead = 0;

  constructor(context: DispatchContext, input: CandidatesInput) {
    const { configuration } = context;
    const { partition, view, nowMs, justStored } = input;
    this.#context = context;
    this.#input = input;
    this.#view = view;
    this.#order = orderOf(partition, configuration);
    for (const place of placesOf(input.reservations)) {
      this.#held.set(place.entry.id, place);
      // planted: held-and-forgotten
      view.noteGone(place.entry);
    }
    this.#between = betweenPartitions(context, partition);
    this.#lives = this.#between?.livesIn(context, partition) ?? (() => true);
    const types = typesByName(configuration);
    const isOfUse = (job: JobHead): boolean =>
      types.has(job.type) && !this.#held.has(job.id) && this.#lives(job);
    const images = input.images.filter((job) => job.state !== 'pending' || isOfUse(job));
    view.note(images, this.#order, { nowMs, exact: ({ id }) => justStored.has(id) });
    view.note(input.parkedHeads.filter(isOfUse), this.#order, { nowMs, areParked: true });
    this.#keys = new BackloggedKeys(context.store, {
      partition,
      ledgerCache: input.ledgerCache,
      view,
      livesHere: this.#lives,
      nowMs,
    });
  }

  /** Reads what the planner needs next and offers it. */
  async answer(planner: Planner, need: Need): Promise<void> {
    const [lines] = await Promise.all([
      Promise.all(need.lines.map(({ line, count }) => this.#takeHeads(line, count))),
      this.readAhead(planner.room),
      ...need.keys.map(({ type, count }) => this.#offerKeys(planner, type, count)),
      this.#offerLedgers(planner, need.ledgers ?? []),
    ]);
    const jobs = lines.flatMap((each) => each.jobs);
    await Promise.all([this.#input.ledgerCache.readEstimates(jobs), this.#lookAtLocks(planner, jobs)]);
    for (const { line, jobs: heads, more, known } of lines) planner.offerHeads(line, heads, more, known);
  }

  async #lookAtLocks(planner: Planner, jobs: readonly JobHead[]): Promise<void> {
    const between = this.#between;
    if (!between?.needsLocks(this.#context)) return;
    const conflictKeys = new Set(jobs.flatMap((job) => between.lockOf(this.#context, job) ?? []));
    const fresh = [...conflictKeys].filter((each) => !this.#locksSeen.has(each));
    for (const conflictKey of fresh) this.#locksSeen.add(conflictKey);
    const { taken, openAtMs } = await between.lookAtLocks(this.#context, this.#input.partition, fresh);
    for (const conflictKey of taken) planner.closeConflict(conflictKey);
    if (openAtMs !== undefined) this.openAtMs = Math.min(openAtMs, this.openAtMs ?? openAtMs);
  }

  async #offerLedgers(planner: Planner, fairnessKeys: readonly string[]): Promise<void> {
    const { ledgerCache } = this.#input;
    await ledgerCache.readLedgers(fairnessKeys);
    planner.offerLedgers(
      fairnessKeys.map((key) => ledgerCache.keyLedgerOf(key) ?? { fairnessKey: key, settledCostMs: 0 }),
    );
  }

  async #offerKeys(planner: Planner, type: string, count: number): Promise<void> {
    const { ledgerCache } = this.#input;
    const shares = keyShares(ledgerCache, planner, this.#context.configuration.fairness);
    const { keys, more } = await this.#keys.inTurn(type, Math.max(count, PAGE_MAX), shares);
    planner.offerKeys(
      type,
      keys.map(({ key: { fairnessKey, lines }, share }) => ({
        fairnessKey,
        ...(ledgerCache.keyLedgerOf(fairnessKey) ?? { settledCostMs: 0 }),
        modes: lines.map(({ mode }) => mode),
        rankShareMs: share,
      })),
      more,
    );
  }

  async #takeHeads(line: LineName, count: number): Promise<OfferedHeads> {
    const name = readyLineName(this.#input.partition, line);
    const found = this.#opened.get(name);
    let known = found === undefined ? this.#view.line(name, this.#input.nowMs) : this.#view.lines.get(name);
    const opened = found ?? { line, offered: 0, isRead: false };
    this.#opened.set(name, opened);
    this.#usedUp.delete(name);
    const isEnd = known !== undefined && known.next === undefined && known.jobs.length <= opened.offered;
    // It was found empty, or was read ahead.
    if (isEnd && (found === undefined || opened.isRead))
      return { line, jobs: [], known: known?.jobs ?? [], more: false };
    if (known === undefined || known.jobs.length <= opened.offered) {
      this.#isReading = true;
      known = await this.#read(name, opened, known?.next, count);
    }
    const { offered } = opened;
    const jobs = known.jobs.slice(offered, offered + Math.max(count, offered === 0 ? 0 : 1));
    opened.offered += jobs.length;
    const isOver = known.next === undefined && known.jobs.length <= opened.offered;
    const more = !isOver || !(opened.isRead || this.#isOverBelieved());
    if (isOver && more) this.#usedUp.set(name, line);
    const waiting = known.jobs.filter(({ id }) => !this.#held.has(id));
    return { line, jobs: jobs.filter((job) => !this.#isHeld(job)), known: waiting, more };
  }

  /** One more line is used up, and was not read by this pass. Whether nothing else is believed to wait in it. */
  #isOverBelieved(): boolean {
    this.#usedUpCount += 1;
    return this.#usedUpCount > LOOKS_MIN;
  }

  /** Reads lines whose known jobs are used up, if others are read now anyway, or `always`. */
  async readAhead(room: number, always = false): Promise<void> {
    if (!(this.#isReading || always)) return;
    this.#isReading = false;
    const ahead = [...this.#usedUp].slice(0, Math.min(this.#aheadCount, room));
    this.#aheadCount = Math.min(4 * LOOKS_MIN, Math.max(LOOKS_MIN / 8, 2 * this.#aheadCount));
    for (const [name] of ahead) this.#usedUp.delete(name);
    await Promise.all(
      ahead.map(([name, line]) =>
        this.#read(name, this.#opened.get(name) ?? { line, offered: 0, isRead: false }, undefined, 0),
      ),
    );
  }

  /** Reads a line on; or from its start, also if that was known to its end: what came since may have come without a hint. */
  async #read(name: string, opened: Opened, after: string | undefined, count: number): Promise<Line> {
    const { partition, nowMs } = this.#input;
    const view = this.#view;
    const all = this.#opened;
    const limit = Math.max(count, HEADS_OF_A_UNIT);
    const read = await this.#context.store.readLine({ partition, line: opened.line, limit, after });
    this.linesRead += 1;
    const last = read.jobs.at(-1);
    const rank = last === undefined ? view.lines.get(name)?.untilRank : this.#order.rankOf(last);
    const untilRank = read.next === undefined ? undefined : rank;
    await this.#confirm(name, read.jobs, untilRank);
    const before = after === undefined ? undefined : view.lines.get(name);
    const told = [...view.told.inLine(name)];
    if (after === undefined && read.jobs.length === 0 && told.length === 0 && opened.offered === 0)
      this.#empty.push({ line: opened.line, announcedAtMs: this.#keys.announcedAtMs(opened.line) });
    // What this dispatcher has reserved, or knows not to wait, an index that lags shows still.
    // planted: outdated-heads
    const shown = read.jobs.filter((job) => !view.isGone(job));
    const jobs = [...(before?.jobs ?? []), ...shown];
    const line = { readAtMs: before?.readAtMs ?? nowMs, jobs, next: read.next, untilRank };
    const now = withPlaced(line, told, this.#order);
    // All was to be read again meanwhile: this is old.
    if (all !== this.#opened) return now;
    opened.isRead = true;
    if (after === undefined) opened.offered = 0;
    view.lines.set(name, now);
    return now;
  }

  /** Reads what was told of a line and its read does not show: the others would be lost claims. Behind what was read it is not offered yet. */
  async #confirm(name: string, read: readonly JobHead[], untilRank: string | undefined): Promise<void> {
    const { partition, nowMs } = this.#input;
    const { told } = this.#view;
    const shown = new Set(read.map(({ id }) => id));
    const ids = [...told.inLine(name)]
      .filter(({ rank }) => untilRank === undefined || rank <= untilRank)
      .filter(({ exactAtMs, isParked }) => exactAtMs < nowMs && !isParked)
      .map(({ job }) => job.id)
      .filter((id) => !(shown.has(id) || this.#held.has(id)));
    if (ids.length === 0) return;
    // One that cannot be read is no candidate, and one that was moved to another partition waits there.
    const found = await this.#context.store.lookUpJobs({ ids, unreadable: () => {} });
    for (const [at, id] of ids.entries()) if (found[at]?.partition !== partition) told.forget(id);
    const here = found.filter((job) => job?.partition === partition).filter((job) => job !== undefined);
    // planted: changed-since-told
    this.#view.note(here, this.#order, { nowMs, exact: () => true });
  }

  /** R3: of these, the jobs that do not wait as they were planned. */
  async overtaken(planner: Planner, decisions: readonly Decision[]): Promise<readonly ReservedJob[]> {
    const { seenWithinMs } = this.#context.budget;
    const doubted = decisions.filter((decision) => {
      const job = planner.jobOf(decision);
      return !this.#view.isExact(job, this.#order.nameOf(job), seenWithinMs);
    });
    if (doubted.length === 0) return [];
    const ids = doubted.map(({ reserved }) => reserved.id);
    // One that cannot be read is no candidate.
    const found = await this.#context.store.lookUpJobs({ ids, unreadable: () => {} });
    return doubted
      .map(({ reserved }) => reserved)
      .filter(({ version }, at) => found[at]?.state !== 'pending' || found[at].version !== version);
  }

  /** Notes jobs that do not wait any more at these versions: they were reserved, or have moved on. */
  noteGone(jobs: Iterable<Pick<JobHead, 'id' | 'version'>>): void {
    for (const job of jobs) this.#view.noteGone(job);
  }

  /** Notes jobs that stand in blocked lines by now. */
  noteParked(jobs: Iterable<JobHead>): void {
    this.#view.leave(jobs, this.#order);
  }

  /** Parked heads that stand in their ready lines again. */
  noteMovedBack(jobs: readonly JobHead[]): void {
    this.#view.note(jobs.filter(this.#lives), this.#order, { nowMs: this.#input.nowMs });
  }

  /** Reads every line from its start again, because many claims in a row were lost: what was read is old. */
  readAgain(): void {
    this.#view.forget();
    this.#view.told.clear();
    this.#opened = new Map();
  }

  /** Keys that were met here, and live in another partition. */
  get strangers(): BackloggedKeys['strangers'] {
    return this.#keys.strangers;
  }

  /** Whether this pass has read a keys line: what a bound left unseen is then behind what is remembered. */
  get hasRead(): boolean {
    return this.#keys.hasRead;
  }

  /** Jobs that are known to wait, and were not reserved. */
  waiting(): readonly JobHead[] {
    const waiting = [...this.#view.waiting()].filter(({ id }) => !this.#held.has(id));
    return [...new Map(waiting.map((job) => [job.id, job])).values()];
  }

  /** Jobs wait perhaps, though nothing that was read or told shows it: what is known of lines is forgotten at the end of the pass. */
  distrust(): void {
    this.#isDistrusted = true;
  }

  /** Whether it was told of a job that waits and is not among these. */
  isToldOfMore(admitted: ReadonlySet<string>): boolean {
    // A place that was given up counts as told: its job waits again.
    if (this.#isDistrusted) return true;
    return this.#input.images.some(
      (job) =>
        job.state === 'pending' &&
        !(admitted.has(job.id) || this.#held.has(job.id) || this.#view.isGone(job)) &&
        this.#lives(job),
    );
  }

  /** Whether nothing waits but these jobs, by all that was read and told; undefined: something does, or it is not known. */
  quietBut(admitted: ReadonlySet<string>, unseenUntilMs: number): Quiet | undefined {
    if (this.#isDistrusted) return undefined;
    // Where much waits, one of the first says so.
    for (const { id } of this.#view.waiting())
      if (!(admitted.has(id) || this.#held.has(id))) return undefined;
    const { nowMs } = this.#input;
    return quietOf(this.#context, this.#view, { order: this.#order, nowMs, unseenUntilMs });
  }

  /** Takes lines that have been empty for long out of their keys' sets, so that no pass asks for them again. */
  async retireEmptyLines(): Promise<void> {
    const { nowMs, partition } = this.#input;
    const old = this.#empty.filter(({ announcedAtMs }) => announcedAtMs < nowMs - 2 * ANNOUNCE_EVERY_MS);
    await Promise.all(
      old.slice(0, PAGE_MAX).map((each) => this.#context.store.retireLine({ partition, ...each })),
    );
  }

  /**
   * Leaves the view to the next pass.
   *
   * @param unseenUntilMs - as the partition says by now
   */
  close(unseenUntilMs: number): void {
    // planted: dropped-hint-2
    const view = this.#view;
    this.noteParked(Array.from(view.told.all()).flatMap(({ job, isParked }) => (isParked ? job : [])));
    const quiet = this.quietBut(new Set(), unseenUntilMs);
    if (quiet !== undefined) view.keepQuiet(this.#context.configuration.types, quiet);
    else if (this.#isDistrusted) view.forget();
  }

  /** Whether a reservation holds the job; of one that has moved on, that is noted. */
  #isHeld(job: JobHead): boolean {
    const held = this.#held.get(job.id);
    if (held === undefined) return false;
    if (isAttemptOver(attemptOf(held), job)) this.leftBehind.push(job);
    return true;
  }
}
