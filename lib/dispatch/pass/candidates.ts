/**
 * Answers the planner's questions during the plan and admit steps: keys with backlog, the heads of their lines, and the expected
 * costs of their jobs. It answers from the view, and reads from the store what the view does not know.
 */
import { typesByName } from '../../core/conflict.ts';
import type { ReservedJob } from '../../core/job.ts';
import { isAttemptOver } from '../../core/life-cycle.ts';
import { ledgersOfKeys } from '../../core/limits.ts';
import type { LineName, Planner, Step } from '../../core/planner.ts';
import type { Decision } from '../../core/scheduler.ts';
import type { JobHead, JobImage } from '../../store/contract/job-fields.ts';
import { type ReadyLine, readyLineName } from '../../store/contract/lines.ts';
import type { NothingWaits, Reservation } from '../../store/contract/records.ts';
import { ANNOUNCE_EVERY_MS } from '../../submit/submit.ts';
import type { DispatchContext } from '../partition/context.ts';
import { type BetweenPartitions, betweenPartitions } from '../partitions/between-partitions.ts';
import { HEADS_OF_A_UNIT, LOOKS_MIN, PAGE_MAX } from '../tuning.ts';
import { BackloggedKeys, keyShares } from '../view/keys.ts';
import type { LedgerCache } from '../view/ledger-cache.ts';
import { attemptOfEntry, entriesOf, type ReservationEntry } from '../view/settled.ts';
import { type Line, type Order, orderOf, type View, withPlaced } from '../view/view.ts';
import { quietOf } from './quiet.ts';

type Need = Extract<Step, { readonly kind: 'need' }>;

export interface CandidatesInput {
  readonly partition: number;
  readonly ledgerCache: LedgerCache;
  /** The newest image of each job that this pass has seen. The index may not show these changes yet. */
  readonly images: readonly JobImage[];
  /** The first jobs of the blocked lines of conflict keys that are free. */
  readonly parkedHeads: readonly JobHead[];
  /** Ids of jobs that this dispatcher has just stored. They wait, even if the index does not show them. */
  readonly justStored: ReadonlySet<string>;
  /** Reservations that hold capacity after settlement. */
  readonly reservations: readonly Reservation[];
  readonly view: View;
  readonly nowMs: number;
}

/** A line that this pass has opened. */
interface OpenedLine {
  readonly line: LineName;
  /** How many of its jobs the planner was offered. */
  offered: number;
  /** Whether this pass has read the line from the store. */
  isRead: boolean;
}

/** Heads of a line to offer to the planner. */
interface OfferedHeads {
  readonly line: LineName;
  readonly jobs: readonly JobHead[];
  /** All jobs of the line that the view knows. */
  readonly known: readonly JobHead[];
  readonly more: boolean;
}

export class Candidates {
  readonly #context: DispatchContext;
  readonly #input: CandidatesInput;
  readonly #view: View;
  readonly #order: Order;
  readonly #held = new Map<string, ReservationEntry>();
  readonly #keys: BackloggedKeys;
  /** The lines that this pass has opened, by name. */
  #opened = new Map<string, OpenedLine>();
  /** Lines whose known jobs have all been offered, by name, in the order in which the planner asked. */
  readonly #usedUp = new Map<string, LineName>();
  /** How many used-up lines this pass has met that it had not read. */
  #usedUpCount = 0;
  #readAheadMax = 0;
  /** Whether a line is being read. If so, used-up lines may be read with it. */
  #isReading = false;
  readonly #empty: { readonly line: ReadyLine; readonly announcedAtMs: number }[] = [];
  /** Whether jobs may wait that neither a read nor a hint has shown (`noteUnseenJobs`). */
  #hasUnseenJobs = false;
  readonly #locksSeen = new Set<string>();
  readonly #between: BetweenPartitions | undefined;
  readonly #belongsHere: (of: Pick<JobHead, 'fairnessKey'>) => boolean;
  /**
   * Epoch ms at which the first conflict key that is reserved for another partition opens. Undefined: none is reserved.
   */
  openAtMs: number | undefined;
  /** Images of reserved jobs that have moved on although no hint reported it. */
  readonly missedEnds: JobImage[] = [];
  /** How many times this pass has read a line. */
  linesRead = 0;

  constructor(context: DispatchContext, input: CandidatesInput) {
    const { configuration } = context;
    const { partition, view, nowMs, justStored } = input;
    this.#context = context;
    this.#input = input;
    this.#view = view;
    this.#order = orderOf(partition, configuration);
    for (const place of entriesOf(input.reservations)) {
      this.#held.set(place.entry.id, place);
      // planted: held-and-forgotten
      view.noteGone(place.entry);
    }
    this.#between = betweenPartitions(context, partition);
    this.#belongsHere = this.#between?.belongsTo(context, partition) ?? (() => true);
    const types = typesByName(configuration);
    const isUsable = (job: JobHead): boolean =>
      types.has(job.type) && !this.#held.has(job.id) && this.#belongsHere(job);
    const images = input.images.filter((job) => job.state !== 'pending' || isUsable(job));
    view.note(images, this.#order, { nowMs, exact: ({ id }) => justStored.has(id) });
    view.note(input.parkedHeads.filter(isUsable), this.#order, { nowMs, areParked: true });
    this.#keys = new BackloggedKeys(context.store, {
      partition,
      ledgerCache: input.ledgerCache,
      view,
      livesHere: this.#belongsHere,
      nowMs,
    });
  }

  /** Reads what the planner asks for, and offers it. */
  async answer(planner: Planner, need: Need): Promise<void> {
    const [lines] = await Promise.all([
      Promise.all(need.lines.map(({ line, count }) => this.#takeHeads(line, count))),
      this.readAhead(planner.room),
      ...need.keys.map(({ type, count }) => this.#offerKeys(planner, type, count)),
      this.#offerLedgers(planner, need.ledgers ?? []),
    ]);
    const jobs = lines.flatMap((each) => each.jobs);
    await Promise.all([
      this.#input.ledgerCache.readEstimates(jobs),
      this.#lookAtLocks(planner, jobs),
      this.#offerUses(planner, jobs),
    ]);
    for (const { line, jobs: heads, more, known } of lines) planner.offerHeads(line, heads, more, known);
  }

  async #offerUses(planner: Planner, jobs: readonly JobHead[]): Promise<void> {
    const { ledgerCache } = this.#input;
    const names = ledgersOfKeys(this.#context.configuration, jobs);
    if (names.size === 0) return;
    await ledgerCache.readLedgers(names);
    for (const [ledger, uses] of ledgerCache.usesOf(names)) planner.offerUses(ledger, uses);
  }

  async #lookAtLocks(planner: Planner, jobs: readonly JobHead[]): Promise<void> {
    const between = this.#between;
    if (!between?.needsLocks(this.#context)) return;
    const conflictKeys = new Set(jobs.flatMap((job) => between.lockOf(this.#context, job) ?? []));
    const fresh = [...conflictKeys].filter((each) => !this.#locksSeen.has(each));
    for (const conflictKey of fresh) this.#locksSeen.add(conflictKey);
    const { taken, openAtMs } = await between.readLocksAndWait(this.#context, this.#input.partition, fresh);
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
    const { keys, more } = await this.#keys.next(type, Math.max(count, PAGE_MAX), shares);
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
    // The view knows that the line has no more jobs, and no read is needed: it was known to be empty when this pass opened it, or
    // this pass has read it to its end.
    if (isEnd && (found === undefined || opened.isRead))
      return { line, jobs: [], known: known?.jobs ?? [], more: false };
    if (known === undefined || known.jobs.length <= opened.offered) {
      this.#isReading = true;
      known = await this.#read(name, opened, known?.next, count);
    }
    const { offered } = opened;
    const jobs = known.jobs.slice(offered, offered + Math.max(count, offered === 0 ? 0 : 1));
    opened.offered += jobs.length;
    const isUsedUp = known.next === undefined && known.jobs.length <= opened.offered;
    // A used-up line that this pass has not read may have more jobs, so it is read ahead. After `LOOKS_MIN` such lines the pass
    // believes the view that they have none.
    const isUnread = isUsedUp && !opened.isRead;
    if (isUnread) this.#usedUpCount += 1;
    const isReadAhead = isUnread && this.#usedUpCount <= LOOKS_MIN;
    if (isReadAhead) this.#usedUp.set(name, line);
    const more = !isUsedUp || isReadAhead;
    const waiting = known.jobs.filter(({ id }) => !this.#held.has(id));
    return { line, jobs: jobs.filter((job) => !this.#isHeld(job)), known: waiting, more };
  }

  /** Reads lines whose known jobs have all been offered, if another line is being read now, or `always`. */
  async readAhead(room: number, always = false): Promise<void> {
    if (!(this.#isReading || always)) return;
    this.#isReading = false;
    const ahead = [...this.#usedUp].slice(0, Math.min(this.#readAheadMax, room));
    this.#readAheadMax = Math.min(4 * LOOKS_MIN, Math.max(LOOKS_MIN / 8, 2 * this.#readAheadMax));
    for (const [name] of ahead) this.#usedUp.delete(name);
    await Promise.all(
      ahead.map(([name, line]) =>
        this.#read(name, this.#opened.get(name) ?? { line, offered: 0, isRead: false }, undefined, 0),
      ),
    );
  }

  /**
   * Reads the next part of a line. If its end was known, it is read from its start again, because jobs may have come
   * without a hint.
   */
  async #read(name: string, opened: OpenedLine, after: string | undefined, count: number): Promise<Line> {
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
    const told = [...view.reported.inLine(name)];
    if (after === undefined && read.jobs.length === 0 && told.length === 0 && opened.offered === 0)
      this.#empty.push({ line: opened.line, announcedAtMs: this.#keys.announcedAtMs(opened.line) });
    // An index that lags still shows jobs that this dispatcher has reserved, or knows to have moved on.
    // planted: outdated-heads
    const shown = read.jobs.filter((job) => !view.isGone(job));
    const jobs = [...(before?.jobs ?? []), ...shown];
    const line = { readAtMs: before?.readAtMs ?? nowMs, jobs, next: read.next, untilRank };
    const now = withPlaced(line, told, this.#order);
    // The view was cleared during this read, so its result is too old to keep.
    if (all !== this.#opened) return now;
    opened.isRead = true;
    // The read began at the front, where it may show new jobs. So all are offered; the planner skips those that it was offered before.
    if (after === undefined) opened.offered = 0;
    view.lines.set(name, now);
    return now;
  }

  /**
   * Looks up jobs that a hint reported and the read of their line does not show, because claims of outdated jobs would be lost.
   * Jobs behind the part that was read are not offered yet, so they are not looked up.
   */
  async #confirm(name: string, read: readonly JobHead[], untilRank: string | undefined): Promise<void> {
    const { partition, nowMs } = this.#input;
    const { reported: told } = this.#view;
    const shown = new Set(read.map(({ id }) => id));
    const ids = [...told.inLine(name)]
      .filter(({ rank }) => untilRank === undefined || rank <= untilRank)
      .filter(({ exactAtMs, isParked }) => exactAtMs < nowMs && !isParked)
      .map(({ job }) => job.id)
      .filter((id) => !(shown.has(id) || this.#held.has(id)));
    if (ids.length === 0) return;
    // An unreadable job is no candidate, and a job that has moved to another partition waits there.
    const found = await this.#context.store.lookUpJobs({ ids, unreadable: () => {} });
    for (const [at, id] of ids.entries()) if (found[at]?.partition !== partition) told.forget(id);
    const here = found.filter((job) => job?.partition === partition).filter((job) => job !== undefined);
    // planted: changed-since-told
    this.#view.note(here, this.#order, { nowMs, exact: () => true });
  }

  /**
   * Returns the planned jobs that no longer wait at the planned version (rule R3 of the view). Decisions that are exact
   * by rule R2 need no read.
   */
  async outdated(planner: Planner, decisions: readonly Decision[]): Promise<readonly ReservedJob[]> {
    const { seenWithinMs } = this.#context.budget;
    const uncertain = decisions.filter((decision) => {
      const job = planner.jobOf(decision);
      return !this.#view.isExact(job, this.#order.nameOf(job), seenWithinMs);
    });
    if (uncertain.length === 0) return [];
    const ids = uncertain.map(({ reserved }) => reserved.id);
    // An unreadable job is no candidate.
    const found = await this.#context.store.lookUpJobs({ ids, unreadable: () => {} });
    return uncertain
      .map(({ reserved }) => reserved)
      .filter(({ version }, at) => found[at]?.state !== 'pending' || found[at].version !== version);
  }

  /** Notes jobs that no longer wait at these versions, because they were reserved or have moved on. */
  noteGone(jobs: Iterable<Pick<JobHead, 'id' | 'version'>>): void {
    for (const job of jobs) this.#view.noteGone(job);
  }

  /** Notes jobs that were parked. */
  noteParked(jobs: Iterable<JobHead>): void {
    this.#view.leave(jobs, this.#order);
  }

  /** Notes parked jobs that stand in their ready lines again. */
  noteMovedBack(jobs: readonly JobHead[]): void {
    this.#view.note(jobs.filter(this.#belongsHere), this.#order, { nowMs: this.#input.nowMs });
  }

  /** Forgets all lines and reported jobs: many claims in a row were lost, so what was read is outdated. */
  readAgain(): void {
    this.#view.forget();
    this.#view.reported.clear();
    this.#opened = new Map();
  }

  /** Returns the keys that this pass found here and that belong to another partition. */
  get strangers(): BackloggedKeys['strangers'] {
    return this.#keys.strangers;
  }

  /**
   * Whether this pass has read a keys line. If it has, and a bound cut the plan short, the next pass can go on from
   * there.
   */
  get hasRead(): boolean {
    return this.#keys.hasRead;
  }

  /** Returns the jobs that are known to wait and were not reserved. */
  waiting(): readonly JobHead[] {
    const waiting = [...this.#view.waiting()].filter(({ id }) => !this.#held.has(id));
    return [...new Map(waiting.map((job) => [job.id, job])).values()];
  }

  /**
   * Notes that jobs may wait that neither a read nor a hint has shown, because a decision or a reservation entry was given up. At
   * its end the pass then forgets the lines.
   */
  noteUnseenJobs(): void {
    this.#hasUnseenJobs = true;
  }

  /**
   * Whether this pass leaves a job waiting that a read of the lines may miss: a job that a hint reported and that is not among
   * `admitted`, or one that `noteUnseenJobs` stands for.
   */
  leavesUnseenJobs(admitted: ReadonlySet<string>): boolean {
    if (this.#hasUnseenJobs) return true;
    return this.#input.images.some(
      (job) =>
        job.state === 'pending' &&
        !(admitted.has(job.id) || this.#held.has(job.id) || this.#view.isGone(job)) &&
        this.#belongsHere(job),
    );
  }

  /**
   * Returns the statement that nothing waits except the admitted jobs. Undefined: other jobs wait, or they may wait.
   */
  quietBut(admitted: ReadonlySet<string>, unseenUntilMs: number): NothingWaits | undefined {
    if (this.#hasUnseenJobs) return undefined;
    // This loop is short: with a large backlog, one of the first jobs ends it.
    for (const { id } of this.#view.waiting())
      if (!(admitted.has(id) || this.#held.has(id))) return undefined;
    const { nowMs } = this.#input;
    return quietOf(this.#context, this.#view, { order: this.#order, nowMs, unseenUntilMs });
  }

  /** Removes lines that have been empty for long from their keys' sets, so that no pass asks for them again. */
  async retireEmptyLines(): Promise<void> {
    const { nowMs, partition } = this.#input;
    const old = this.#empty.filter(({ announcedAtMs }) => announcedAtMs < nowMs - 2 * ANNOUNCE_EVERY_MS);
    await Promise.all(
      old.slice(0, PAGE_MAX).map((each) => this.#context.store.retireLine({ partition, ...each })),
    );
  }

  /**
   * Leaves the view in a state that the next pass can use.
   *
   * @param unseenUntilMs - epoch ms, as last committed: reads that began earlier may miss a job
   */
  close(unseenUntilMs: number): void {
    // planted: dropped-hint-2
    const view = this.#view;
    this.noteParked(Array.from(view.reported.all()).flatMap(({ job, isParked }) => (isParked ? job : [])));
    const quiet = this.quietBut(new Set(), unseenUntilMs);
    if (quiet !== undefined) view.keepQuiet(this.#context.configuration.types, quiet);
    else if (this.#hasUnseenJobs) view.forget();
  }

  /** Whether a reservation holds the job. Adds a job that has moved on to `missedEnds`. */
  #isHeld(job: JobHead): boolean {
    const held = this.#held.get(job.id);
    if (held === undefined) return false;
    if (isAttemptOver(attemptOfEntry(held), job)) this.missedEnds.push(job);
    return true;
  }
}
