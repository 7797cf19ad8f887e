/** Answers what the planner asks for: keys with backlog, heads of their lines, and what their jobs are expected to cost. */

import { typesByName } from '../core/conflict.ts';
import type { JobMode, WaitingJob } from '../core/job.ts';
import { isAttemptOver } from '../core/life-cycle.ts';
import type { LineName, Planner, Step } from '../core/planner.ts';
import { compareRanked, rankKey } from '../core/score.ts';
import type { JobHead, JobImage } from '../store/job-fields.ts';
import type { Quiet, Reservation } from '../store/records.ts';
import { type ReadyLine, readyLineName } from '../store/schema.ts';
import { BackloggedKeys, KEYS_MIN, keyShares } from './backlogged-keys.ts';
import { type BetweenPartitions, betweenPartitions } from './between-partitions.ts';
import type { DispatchContext } from './context.ts';
import { HintedJobs, Overtaken } from './hinted-jobs.ts';
import type { LedgerCache } from './ledger-cache.ts';
import { isOutdated, type LinePlaces, noteImages, noteOutdated } from './line-images.ts';
import {
  type CachedHeads,
  type CachedLines,
  forgetLines,
  forgetStrangers,
  forgetTypes,
  keepQuiet,
  READ_TRUSTED_MS,
} from './partition-cache.ts';
import { quietOf } from './quiet.ts';
import { isUsedUp, ReadAhead } from './read-ahead.ts';
import { attemptOf, type Place, placesOf } from './settle/settled.ts';
import { ANNOUNCE_EVERY_MS, readyLineOf } from './submit.ts';

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
  /** What this process has read of the lines before. */
  readonly cached: CachedLines;
  readonly nowMs: number;
}

/** A read of the index costs as much for one head as for this many: they fill what one unit reads. */
const HEADS_MIN = 12;
/** Lines retired in one pass: each is a write. */
const RETIRE_MAX = 100;

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
  readonly #places: LinePlaces;
  readonly #hinted: HintedJobs;
  readonly #held = new Map<string, Place>();
  /** How many of a line's remembered heads this pass has offered. */
  readonly #offeredOf = new Map<string, number>();
  readonly #keys: BackloggedKeys;
  readonly #empty: ReadyLine[] = [];
  readonly #forgotten = new Set<string>();
  /** Types of which what is remembered may not be what waits. */
  readonly #distrusted = new Set<string>();
  /** By name: lines that this pass has read itself, so that nothing of them is taken from an earlier pass. */
  readonly #read = new Map<string, LineName>();
  readonly #ahead = new ReadAhead();
  /** How often all was to be read again. */
  #rereads = 0;
  /** Looks whether what a pass has chosen waits still. */
  readonly overtaken: Overtaken;
  readonly #locksSeen = new Set<string>();
  /** When a conflict key that another partition has in turn is open again unless it is taken; undefined: none is. */
  openAtMs: number | undefined;
  readonly #between: BetweenPartitions | undefined;
  readonly #lives: (of: Pick<JobHead, 'fairnessKey'>) => boolean;
  readonly #isOver = ({ id }: JobHead): boolean => this.#forgotten.has(id) || this.#held.has(id);
  /** Jobs of held places that have moved on: the hint that should have settled them was lost. */
  readonly leftBehind: JobImage[] = [];

  constructor(context: DispatchContext, input: CandidatesInput) {
    this.#context = context;
    this.#input = input;
    for (const place of placesOf(input.reservations)) this.#held.set(place.entry.id, place);
    const { configuration } = context;
    this.#places = {
      nameOf: (job) => this.#nameOf(readyLineOf(job)),
      rankOf: (job) => rankKey(job, configuration.score),
      compare: (one, other) => compareRanked(one, other, configuration.score),
    };
    const between = betweenPartitions(context, input.partition);
    this.#between = between;
    this.#lives = between?.livesIn(context, input.partition) ?? (() => true);
    const isOfUse = (job: JobHead): boolean =>
      typesByName(configuration).has(job.type) && !this.#held.has(job.id) && this.#lives(job);
    // A dispatcher remembers hints from before a deployment that changed the number of partitions.
    if (between?.haveKeysMoved(context, input.partition)) forgetStrangers(input.cached, this.#lives);
    noteImages(
      input.cached,
      input.images.filter((job) => job.state !== 'pending' || isOfUse(job)),
      this.#places,
      input.nowMs,
    );
    this.#keys = new BackloggedKeys(context.store, {
      partition: input.partition,
      ledgerCache: input.ledgerCache,
      cached: input.cached,
      livesHere: this.#lives,
      nowMs: input.nowMs,
    });
    this.#hinted = new HintedJobs(context, {
      partition: input.partition,
      places: this.#places,
      cached: input.cached,
      parkedHeads: input.parkedHeads.filter((job) => isOfUse(job) && !isOutdated(input.cached, job)),
      justStored: input.justStored,
      isHeld: ({ id }) => this.#held.has(id),
      nowMs: input.nowMs,
    });
    this.overtaken = new Overtaken(context, {
      cached: input.cached,
      places: this.#places,
      nowMs: input.nowMs,
      isRead: (name) => this.#read.has(name),
      isKnownToWait: (job) => this.#hinted.isKnownToWait(job),
    });
  }

  /** Reads what the planner needs next and offers it. */
  async answer(planner: Planner, need: Need): Promise<void> {
    const taken = need.lines.map(({ line, count }) => this.#takeHeads(line, count));
    const [lines] = await Promise.all([
      Promise.all(taken),
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

  /** Takes lines that have been empty for long out of their keys' sets, so that no pass asks for them again. */
  async retireEmptyLines(): Promise<void> {
    const { nowMs, partition } = this.#input;
    const old = this.#empty.flatMap((line) => {
      const announcedAtMs = this.#keys.of(line.type, line.fairnessKey)?.announcedAtMs;
      return announcedAtMs !== undefined && nowMs - announcedAtMs > 2 * ANNOUNCE_EVERY_MS
        ? [{ line, announcedAtMs }]
        : [];
    });
    await Promise.all(
      old
        .slice(0, RETIRE_MAX)
        .map(({ line, announcedAtMs }) => this.#context.store.retireLine({ partition, line, announcedAtMs })),
    );
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
    const isFirst = !this.#keys.isBegun(type);
    const shares = keyShares(ledgerCache, planner, this.#context.configuration.fairness);
    const { keys, more } = await this.#keys.inTurn(type, Math.max(count, KEYS_MIN), shares);
    // A line that was read to its end has shown them.
    const named = isFirst && more ? await this.#keys.weighted(type) : [];
    const modes = new Map<string, readonly JobMode[]>();
    for (const key of [...named, ...keys.map((each) => each.key)]) {
      this.#keys.note(type, key);
      const { fairnessKey, lines } = key;
      const before = modes.get(fairnessKey);
      const own = lines.map(({ mode }) => mode);
      modes.set(fairnessKey, before === undefined ? own : [...new Set([...before, ...own])]);
    }
    const shareOf = new Map(keys.map(({ key, share }) => [key.fairnessKey, share]));
    if (isFirst) {
      for (const job of this.#hinted.ofType(type)) {
        const ofKey = modes.get(job.fairnessKey) ?? [];
        if (!ofKey.includes(job.mode)) modes.set(job.fairnessKey, [...ofKey, job.mode]);
      }
    }
    await shares.read([...modes.keys()]);
    planner.offerKeys(
      type,
      [...modes].map(([fairnessKey, ofKey]) => ({
        fairnessKey,
        ...(ledgerCache.keyLedgerOf(fairnessKey) ?? { settledCostMs: 0 }),
        modes: ofKey,
        // Of the keys that were not offered, only one that came in its turn says anything.
        rankShareMs: shareOf.get(fairnessKey) ?? 0,
      })),
      more,
    );
  }

  async #takeHeads(line: LineName, count: number): Promise<OfferedHeads> {
    const name = this.#nameOf(line);
    const isFirst = !this.#offeredOf.has(name);
    const { heads: cached } = this.#input.cached;
    const known = isFirst ? this.#openLine(name) : cached.get(name);
    if (isFirst && known?.jobs.length === 0) {
      this.#offeredOf.set(name, 0);
      return { line, jobs: [], known: [], more: false };
    }
    let offered = this.#offeredOf.get(name) ?? 0;
    this.#ahead.forget(name);
    // It was read ahead.
    if (known !== undefined && isUsedUp(known, offered) && this.#read.has(name))
      return { line, jobs: [], known: known.jobs, more: false };
    let heads = known;
    if (heads === undefined || heads.jobs.length <= offered) {
      // A line that an earlier pass has read to its end is read again: what came since may have come without a hint.
      if (known?.next === undefined) offered = 0;
      this.#ahead.isReading = true;
      heads = await this.#readHeads(line, name, known, count, isFirst);
      this.#read.set(name, line);
    }
    cached.set(name, heads);
    const jobs = heads.jobs.slice(offered, offered + Math.max(count, offered === 0 ? 0 : 1));
    this.#offeredOf.set(name, offered + jobs.length);
    const isOver = isUsedUp(heads, offered + jobs.length);
    const more = !isOver || !(this.#read.has(name) || this.#isOverBelieved(heads));
    if (isOver && more) this.#ahead.note(name, line);
    const waiting = heads.jobs.filter(({ id }) => !this.#held.has(id));
    return { line, jobs: jobs.filter((job) => !this.#isHeld(job)), known: waiting, more };
  }

  /** Reads lines whose remembered jobs are used up, if others are read now anyway, or `always`. */
  async readAhead(room: number, always = false): Promise<void> {
    this.#ahead.isReading ||= always;
    const before = this.#rereads;
    await Promise.all(
      this.#ahead.take(room).map(async ([name, line]) => {
        const heads = await this.#readHeads(line, name, undefined, HEADS_MIN, false);
        // Claims were lost meanwhile: what was read is old.
        if (before !== this.#rereads) return;
        this.#read.set(name, line);
        this.#input.cached.heads.set(name, heads);
        this.#offeredOf.set(name, 0);
      }),
    );
  }

  /** Whether nothing else is believed to wait in a line that was used up, and that this pass has not read. */
  #isOverBelieved({ readAtMs }: CachedHeads): boolean {
    return !this.#ahead.readsUsedUp() && this.#input.nowMs - readAtMs < READ_TRUSTED_MS;
  }

  /** What an earlier pass has read and not admitted, with what was heard of since; undefined if it must be read. */
  #openLine(name: string): CachedHeads | undefined {
    const known = this.#input.cached.heads.get(name);
    if (known === undefined) return undefined;
    const jobs = this.#hinted.among(name, known.jobs, known.untilRank);
    return this.#input.nowMs - known.readAtMs < READ_TRUSTED_MS ? { ...known, jobs } : undefined;
  }

  async #readHeads(
    line: LineName,
    name: string,
    known: CachedHeads | undefined,
    count: number,
    isFirst: boolean,
  ): Promise<CachedHeads> {
    const { partition, nowMs } = this.#input;
    const limit = Math.max(count, HEADS_MIN);
    const before = known?.next === undefined ? undefined : known;
    const read = await this.#context.store.readLine({ partition, line, limit, after: before?.next });
    // Hints were taken in with the first heads, up to where those ended.
    const last = read.jobs.at(-1);
    const untilRank =
      read.next === undefined
        ? undefined
        : last === undefined
          ? before?.untilRank
          : this.#places.rankOf(last);
    await this.#hinted.confirm(name, read.jobs, untilRank);
    const isEmpty = before === undefined && read.jobs.length === 0 && read.next === undefined;
    if (isFirst && isEmpty && this.#hinted.of(name).length === 0) this.#empty.push(line);
    // What this process has admitted, or knows not to wait, an index that lags shows still.
    // planted: outdated-heads
    const shown = read.jobs.filter((job) => !isOutdated(this.#input.cached, job));
    const jobs = this.#hinted.between(name, shown, { afterRank: before?.untilRank, untilRank });
    return {
      readAtMs: before?.readAtMs ?? nowMs,
      jobs: [...(before?.jobs ?? []), ...jobs],
      next: read.next,
      untilRank,
    };
  }

  /** Takes jobs out that were claimed or parked, so that no later pass meets them. */
  forget(jobs: Iterable<Pick<JobHead, 'id'>>): void {
    for (const { id } of jobs) this.#forgotten.add(id);
  }

  /** Notes jobs whose claims were sent. A hint that shows one of them at the planned version or an older one tells nothing new. */
  noteAdmitted(jobs: readonly Pick<JobHead, 'id' | 'version'>[]): void {
    this.forget(jobs);
    noteOutdated(this.#input.cached, jobs, this.#input.nowMs);
  }

  /** Parked heads that stand in their ready lines again. */
  noteMovedBack(jobs: readonly JobHead[]): void {
    this.#hinted.forgetParked(jobs);
    noteImages(this.#input.cached, jobs.filter(this.#lives), this.#places, this.#input.nowMs);
  }

  /** Reads every line from its start again, because many claims in a row were lost: what was read is old. */
  readAgain(): void {
    this.#rereads += 1;
    forgetLines(this.#input.cached);
    this.#input.cached.recent.clear();
    this.#offeredOf.clear();
  }

  /** Keys that were met here, and live in another partition. */
  get strangers(): BackloggedKeys['strangers'] {
    return this.#keys.strangers;
  }

  /** Whether this pass has read anything of the index: what a bound left unseen is then behind what is remembered. */
  get hasRead(): boolean {
    return this.#keys.hasRead();
  }

  /** Jobs that are known to wait, and were not admitted. */
  waiting(): readonly JobHead[] {
    return [...new Map(Array.from(this.#eachWaiting(), (job) => [job.id, job])).values()];
  }

  /** The same one by one, some of them more than once. */
  *#eachWaiting(): Generator<JobHead> {
    for (const { jobs } of this.#input.cached.heads.values())
      for (const job of jobs) if (!this.#isOver(job)) yield job;
    for (const job of this.#hinted.all()) if (!this.#isOver(job)) yield job;
  }

  /** These wait perhaps, though nothing that was read or told shows it: what is remembered of their lines is forgotten. */
  distrust(jobs: Iterable<Pick<WaitingJob, 'type'>>): void {
    for (const { type } of jobs) this.#distrusted.add(type);
  }

  /** Whether it was told of a job that waits and is not among these. */
  isToldOfMore(admitted: ReadonlySet<string>): boolean {
    // A place that was given up counts as told: its job waits again.
    if (this.#distrusted.size > 0) return true;
    return this.#input.images.some(
      (job) => job.state === 'pending' && !admitted.has(job.id) && !this.#isOver(job) && this.#lives(job),
    );
  }

  /** How many lines this pass has read from their start. */
  get linesRead(): number {
    return this.#read.size;
  }

  /** Whether nothing waits but these jobs, by all that was read and told; undefined: something does, or it is not known. */
  quietBut(admitted: ReadonlySet<string>, unseenUntilMs: number): Quiet | undefined {
    if (this.#distrusted.size > 0) return undefined;
    // Where much waits, one of the first says so.
    for (const { id } of this.#eachWaiting()) if (!admitted.has(id)) return undefined;
    const { cached, nowMs } = this.#input;
    return quietOf(this.#context, {
      cached,
      nowMs,
      unseenUntilMs,
      nameOf: (line) => this.#nameOf(line),
    });
  }

  /**
   * Leaves to the next pass what this one has read and not used.
   *
   * @param unseenUntilMs - as the partition says by now
   */
  close(unseenUntilMs: number): void {
    // planted: dropped-hint-2
    const { heads, recent } = this.#input.cached;
    const parked = new Set([...this.#hinted.parked.values()].flatMap((jobs) => jobs.map(({ id }) => id)));
    for (const [name, offered] of this.#offeredOf) {
      const known = heads.get(name);
      if (known === undefined) continue;
      // What was not offered waits still. Jobs that were moved back stand among the others, and those that are parked may.
      const met = this.#hinted.parked.size > 0 ? known.jobs.length : offered;
      // What stands in a blocked line stands in this one only if it was moved back, and then hints tell of it.
      const left = known.jobs.slice(0, met).filter((job) => !(this.#isOver(job) || parked.has(job.id)));
      // What was read beside an admission shows still what that has taken.
      const rest = known.jobs.slice(met);
      // planted: read-beside-admission
      const kept = this.#read.has(name) ? rest.filter(({ id }) => !this.#forgotten.has(id)) : rest;
      const jobs = left.length + kept.length < known.jobs.length ? [...left, ...kept] : known.jobs;
      // Nothing is left, and the line goes on: only a read tells how.
      if (jobs.length === 0 && known.next !== undefined) heads.delete(name);
      else if (jobs !== known.jobs) heads.set(name, { ...known, jobs });
    }
    for (const id of this.#forgotten) recent.forget(id);
    const quiet = this.quietBut(new Set(), unseenUntilMs);
    if (quiet === undefined) forgetTypes(this.#input.cached, this.#distrusted);
    else keepQuiet(this.#input.cached, this.#context.configuration.types, quiet);
  }

  /** Whether a reservation holds the job; of one that has moved on, that is noted. */
  #isHeld(job: JobHead): boolean {
    const held = this.#held.get(job.id);
    if (held === undefined) return false;
    // What is told of as waiting was not cancelled.
    if (isAttemptOver(attemptOf(held), job)) this.leftBehind.push({ ...job, cancelRequestedAtMs: undefined });
    return true;
  }

  #nameOf(line: LineName): string {
    return readyLineName(this.#input.partition, line);
  }
}
