/** Answers what the planner asks for: keys with backlog, heads of their lines, and what their jobs are expected to cost. */
import type { LineName, Planner, Step } from '../core/planner.ts';
import { rankKey } from '../core/score.ts';
import type { JobHead, KeyBacklog, Ledger, Reservation } from '../store/contract.ts';
import { type ReadyLine, readyLineName } from '../store/schema.ts';
import type { Books } from './books.ts';
import type { DispatchContext } from './context.ts';
import { judge } from './judge.ts';
import { partsOf, readLineParts, wholeLines } from './line-parts.ts';
import { lockOf, lookAtLocks, needsLocks } from './locks.ts';
import { forgetLines, type RememberedHeads, type RememberedLines } from './remembered.ts';
import { ANNOUNCE_EVERY_MS, readyLineOf, subLineOf } from './submit.ts';

type Need = Extract<Step, { readonly kind: 'need' }>;

/** A place of a reservation that holds a job. */
interface Held {
  readonly reservation: Reservation;
  readonly position: number;
}

export interface CandidatesInput {
  readonly partition: number;
  readonly books: Books;
  /** Jobs that were seen just now: the index may not show them yet. */
  readonly hints: Iterable<JobHead>;
  /** Others made passes since the hints were seen: one that the index does not show may have run since. */
  readonly hintsAreOld: boolean;
  /** After settlement: what still holds capacity. */
  readonly reservations: readonly Reservation[];
  /** Remembered from earlier passes: the least share among active keys. */
  readonly leastShareMs: number;
  /** What this process has read of the lines before. */
  readonly remembered: RememberedLines;
  readonly nowMs: number;
}

/** A read of the index costs as much for one head as for this many: they fill what one unit reads. */
const HEADS_MIN = 12;
/** Keys read at once: where there are fewer, their order among each other needs no index. */
const KEYS_MIN = 100;
/**
 * Heads are read anew after this long. What came in front of them without a hint waits for a dozen jobs of its own line
 * at most: a line that is used up is read again at once.
 */
const HEADS_TRUSTED_MS = 60_000;
/** Lines that were used up, and keys, are believed to be all there is for this long, as long as no slot stays free. */
const NOTHING_TRUSTED_MS = 5_000;

/** Lines retired in one pass: each is a write. */
const RETIRE_MAX = 25;

export class Candidates {
  readonly #context: DispatchContext;
  readonly #input: CandidatesInput;
  /** Pending hints by ready line. */
  readonly #hints: Map<string, readonly JobHead[]>;
  readonly #confirmed = new Set<string>();
  readonly #held = new Map<string, Held>();
  readonly #heldCostMs = new Map<string, number>();
  readonly #tierCursors = new Map<string, string | undefined>();
  /** How many of a line's remembered heads this pass has offered. */
  readonly #offeredOf = new Map<string, number>();
  readonly #backlogs = new Map<string, KeyBacklog>();
  readonly #empty: ReadyLine[] = [];
  readonly #forgotten = new Set<string>();
  /** Lines that this pass has read itself, by name. */
  readonly #read = new Map<string, LineName>();
  /** Where this pass took an earlier one's word that there is nothing more. */
  readonly #believedEmpty = new Map<string, LineName>();
  readonly #believedTiers = new Set<string>();
  readonly #lifted = new Map<string, Ledger>();
  readonly #locksSeen = new Set<string>();
  /** When a conflict key that another partition has in turn is open again unless it is taken; undefined: none is. */
  openAtMs: number | undefined;
  #leastActiveShareMs = Number.POSITIVE_INFINITY;
  /** Jobs of held places that have moved on: the hint that should have settled them was lost. */
  readonly leftBehind: JobHead[] = [];

  constructor(context: DispatchContext, input: CandidatesInput) {
    this.#context = context;
    this.#input = input;
    for (const reservation of input.reservations) {
      for (const [position, entry] of reservation.jobs) {
        this.#held.set(entry.id, { reservation, position });
        const cost = this.#heldCostMs.get(entry.fairnessKey) ?? 0;
        this.#heldCostMs.set(entry.fairnessKey, cost + entry.estimatedCostMs);
      }
    }
    const types = new Set(context.configuration.types.map((each) => each.type));
    const pending = [...input.hints].filter((job) => job.state === 'pending' && types.has(job.type));
    this.#hints = Map.groupBy(pending, (job) => this.#nameOf(readyLineOf(context.configuration, job)));
  }

  /** Reads what the planner needs next and offers it. */
  async answer(planner: Planner, need: Need): Promise<void> {
    const [lines] = await Promise.all([
      Promise.all(need.lines.map(({ line, count }) => this.#takeHeads(line, count))),
      ...need.keys.map(({ tier, count }) => this.#offerKeys(planner, tier, count)),
    ]);
    const jobs = lines.flatMap((each) => each.jobs);
    await Promise.all([this.#input.books.readEstimates(jobs), this.#lookAtLocks(planner, jobs)]);
    for (const { line, jobs, more } of lines) {
      if (jobs.length > 0) this.#noteActive(planner, line.fairnessKey, jobs);
      planner.offerHeads(line, jobs, more);
    }
  }

  async #lookAtLocks(planner: Planner, jobs: readonly JobHead[]): Promise<void> {
    if (!needsLocks(this.#context)) return;
    const conflictKeys = new Set(jobs.flatMap((job) => lockOf(this.#context, job) ?? []));
    const fresh = [...conflictKeys].filter((each) => !this.#locksSeen.has(each));
    for (const conflictKey of fresh) this.#locksSeen.add(conflictKey);
    const { taken, openAtMs } = await lookAtLocks(this.#context, this.#input.partition, fresh);
    for (const conflictKey of taken) planner.holdConflict(conflictKey);
    if (openAtMs !== undefined) this.openAtMs = Math.min(openAtMs, this.openAtMs ?? openAtMs);
  }

  /** Ledgers of these keys that were lifted and are not written yet: to be written with their first admission. */
  takeLifted(fairnessKeys: Iterable<string>): readonly Ledger[] {
    return [...new Set(fairnessKeys)].flatMap((key) => {
      const ledger = this.#lifted.get(key);
      this.#lifted.delete(key);
      this.#input.books.keepLift(key);
      return ledger === undefined ? [] : [ledger];
    });
  }

  /** The least share among active keys, as far as this pass has seen them; never less than what was remembered. */
  get leastShareMs(): number {
    const { leastShareMs } = this.#input;
    return Number.isFinite(this.#leastActiveShareMs)
      ? Math.max(leastShareMs, this.#leastActiveShareMs)
      : leastShareMs;
  }

  /** Takes lines that have been empty for long out of their keys' sets, so that no pass asks for them again. */
  async retireEmptyLines(): Promise<void> {
    const { nowMs, partition } = this.#input;
    const old = this.#empty.flatMap((line) => {
      const announcedAtMs = this.#backlogs.get(backlogName(line.tier, line.fairnessKey))?.announcedAtMs;
      return announcedAtMs !== undefined && nowMs - announcedAtMs > 2 * ANNOUNCE_EVERY_MS
        ? [{ line, announcedAtMs }]
        : [];
    });
    await Promise.all(
      old
        .slice(0, RETIRE_MAX)
        .map(({ line, announcedAtMs }) => this.#context.store.retireLine(partition, line, announcedAtMs)),
    );
  }

  /**
   * Looks where earlier passes found nothing more, now that slots stay free. Answers whether it offered anything.
   * So what came without a hint does not wait for one.
   */
  async lookAgain(planner: Planner): Promise<boolean> {
    const tiers = [...this.#believedTiers];
    const lines = [...this.#believedEmpty.values()];
    this.#believedTiers.clear();
    this.#believedEmpty.clear();
    if (tiers.length + lines.length === 0) return false;
    for (const tier of tiers) {
      this.#tierCursors.delete(tier);
      this.#input.remembered.keys.delete(tier);
    }
    await this.answer(planner, {
      kind: 'need',
      keys: tiers.map((tier) => ({ tier, count: KEYS_MIN })),
      lines: [],
    });
    // What was read of the keys may name parts of a line that this pass, or an earlier one, has not read.
    for (const [name, line] of this.#read) if (this.#hasOtherParts(line, name)) lines.push(line);
    for (const line of lines) {
      this.#offeredOf.delete(this.#nameOf(line));
      this.#input.remembered.heads.delete(this.#nameOf(line));
    }
    await this.answer(planner, { kind: 'need', keys: [], lines: lines.map((line) => ({ line, count: 1 })) });
    return true;
  }

  #hasOtherParts(line: LineName, name: string): boolean {
    const read = this.#input.remembered.heads.get(name)?.subs;
    return read !== undefined && this.#subsOf(line, name).some((sub) => !read.includes(sub));
  }

  /** Offers jobs that stand in no ready line. */
  async offerLate(planner: Planner, jobs: readonly JobHead[]): Promise<void> {
    const { books } = this.#input;
    const { configuration } = this.#context;
    const types = new Set(configuration.types.map(({ type }) => type));
    const waiting = jobs.filter(
      ({ id, state, type }) => state === 'pending' && types.has(type) && !this.#held.has(id),
    );
    await Promise.all([
      books.readLedgers(waiting.map(({ fairnessKey }) => fairnessKey)),
      books.readEstimates(waiting),
    ]);
    for (const ofLine of Map.groupBy(waiting, (job) =>
      this.#nameOf(readyLineOf(configuration, job)),
    ).values()) {
      const [first] = ofLine;
      if (first === undefined) continue;
      const line = readyLineOf(configuration, first);
      const { fairnessKey } = line;
      if (this.#isNew(fairnessKey)) this.#lift(fairnessKey);
      planner.offerLate(line, ofLine, books.ledgerOf(fairnessKey)?.settledCostMs ?? 0);
      this.#noteActive(planner, fairnessKey, ofLine);
    }
  }

  async #readKeys(
    tier: string,
    count: number,
  ): Promise<{ readonly keys: readonly KeyBacklog[]; readonly next?: string | undefined }> {
    const { partition, nowMs, remembered } = this.#input;
    const isFirst = !this.#tierCursors.has(tier);
    const known = isFirst ? remembered.keys.get(tier) : undefined;
    if (known !== undefined && nowMs - known.readAtMs < NOTHING_TRUSTED_MS) {
      this.#believedTiers.add(tier);
      return { keys: known.keys };
    }
    const limit = Math.max(count, KEYS_MIN);
    const read = await this.#context.store.readKeys(partition, tier, limit, this.#tierCursors.get(tier));
    if (isFirst && read.next === undefined) remembered.keys.set(tier, { readAtMs: nowMs, keys: read.keys });
    else remembered.keys.delete(tier);
    return read;
  }

  async #readWeighted(tier: string): Promise<readonly KeyBacklog[]> {
    const { partition, nowMs, books, remembered } = this.#input;
    const { weighted } = books;
    if (weighted.length === 0) return [];
    const known = remembered.named.get(tier);
    const isKnown = known !== undefined && weighted.every((key) => known.names.has(key));
    if (isKnown && nowMs - known.readAtMs < NOTHING_TRUSTED_MS) return known.keys;
    const read = await this.#context.store.readBacklogs(partition, tier, weighted);
    const keys = read.filter((key) => key !== undefined);
    remembered.named.set(tier, { readAtMs: nowMs, names: new Set(weighted), keys });
    return keys;
  }

  async #offerKeys(planner: Planner, tier: string, count: number): Promise<void> {
    const { configuration } = this.#context;
    const { books } = this.#input;
    const isFirst = !this.#tierCursors.has(tier);
    const read = await this.#readKeys(tier, count);
    this.#tierCursors.set(tier, read.next);
    // A line that was read to its end has shown them.
    const named = isFirst && read.next !== undefined ? await this.#readWeighted(tier) : [];
    for (const key of [...named, ...read.keys]) this.#backlogs.set(backlogName(tier, key.fairnessKey), key);
    const lines = new Map(
      [...named, ...read.keys].map((key) => [key.fairnessKey, [...wholeLines(key.lines)]]),
    );
    const ranks = new Map(read.keys.map((key) => [key.fairnessKey, key.rankCostMs]));
    if (isFirst) {
      for (const [job] of this.#hints.values()) {
        if (job === undefined) continue;
        const line = readyLineOf(configuration, job);
        if (line.tier !== tier) continue;
        const known = lines.get(line.fairnessKey) ?? [];
        if (known.some((each) => each.type === line.type && each.mode === line.mode)) continue;
        lines.set(line.fairnessKey, [...known, { type: line.type, mode: line.mode }]);
      }
    }
    await books.readLedgers(lines.keys());
    for (const key of lines.keys()) if (this.#isNew(key)) this.#lift(key);
    planner.offerKeys(
      tier,
      [...lines].map(([fairnessKey, ofKey]) => ({
        fairnessKey,
        settledCostMs: books.ledgerOf(fairnessKey)?.settledCostMs ?? 0,
        lines: ofKey,
        // Of the keys that were not read, all of the default weight, only one met in their line says anything.
        rankShareMs: (ranks.get(fairnessKey) ?? 0) / configuration.fairness.defaultWeight,
      })),
      read.next !== undefined,
    );
  }

  async #takeHeads(
    line: LineName,
    count: number,
  ): Promise<{ readonly line: LineName; readonly jobs: readonly JobHead[]; readonly more: boolean }> {
    const name = this.#nameOf(line);
    const isFirst = !this.#offeredOf.has(name);
    const { heads: remembered } = this.#input.remembered;
    const known = isFirst ? this.#openLine(line, name) : remembered.get(name);
    if (isFirst && known?.jobs.length === 0) {
      this.#believedEmpty.set(name, line);
      this.#offeredOf.set(name, 0);
      return { line, jobs: [], more: false };
    }
    let offered = this.#offeredOf.get(name) ?? 0;
    let heads = known;
    if (heads === undefined || heads.jobs.length <= offered) {
      // A line that an earlier pass has read to its end is read again: what came since may have come without a hint.
      if (known?.next === undefined) offered = 0;
      heads = await this.#readHeads(line, name, known, count, isFirst);
      this.#read.set(name, line);
    }
    remembered.set(name, heads);
    const jobs = heads.jobs.slice(offered, offered + Math.max(count, offered === 0 ? 0 : 1));
    this.#offeredOf.set(name, offered + jobs.length);
    const more =
      heads.next !== undefined || heads.jobs.length > offered + jobs.length || !this.#read.has(name);
    const free: JobHead[] = [];
    for (const job of jobs) {
      const held = this.#held.get(job.id);
      if (held === undefined) free.push(job);
      else this.#noteLeftBehind(held, job);
    }
    return { line, jobs: free, more };
  }

  /** What an earlier pass has read and not admitted, with what was heard of since; undefined if it must be read. */
  #openLine(line: LineName, name: string): RememberedHeads | undefined {
    const known = this.#input.remembered.heads.get(name);
    if (known === undefined || this.#subsOf(line, name).some((sub) => !known.subs.includes(sub)))
      return undefined;
    const ageMs = this.#input.nowMs - known.readAtMs;
    const jobs = this.#withHints(name, known.jobs, known.next !== undefined);
    return ageMs < (jobs.length === 0 ? NOTHING_TRUSTED_MS : HEADS_TRUSTED_MS)
      ? { ...known, jobs }
      : undefined;
  }

  async #readHeads(
    line: LineName,
    name: string,
    known: RememberedHeads | undefined,
    count: number,
    isFirst: boolean,
  ): Promise<RememberedHeads> {
    const { partition, nowMs } = this.#input;
    const limit = Math.max(count, HEADS_MIN);
    const before = known?.next === undefined ? undefined : known;
    const subs = before?.subs ?? this.#subsOf(line, name);
    const read = await readLineParts(
      this.#context.store,
      { partition, line, subs, rankOf: this.#rankOf },
      limit,
      before?.next,
    );
    if (this.#input.hintsAreOld) await this.#confirmHints(name, new Set(read.jobs.map(({ id }) => id)));
    const hinted = new Set(this.#hints.get(name)?.map((job) => subLineOf(this.#context.configuration, job)));
    for (const sub of read.empty) {
      if (isFirst && !hinted.has(sub)) this.#empty.push(sub === 0 ? line : { ...line, sub });
    }
    // Hints were taken in with the first heads, up to where those ended.
    const jobs = this.#withHints(name, read.jobs, read.next !== undefined, before?.jobs.at(-1));
    return {
      readAtMs: before?.readAtMs ?? nowMs,
      jobs: [...(before?.jobs ?? []), ...jobs],
      next: read.next,
      subs,
    };
  }

  /** Of old hints that the index does not show, those stay that still wait: the others would be lost claims. */
  async #confirmHints(name: string, shown: ReadonlySet<string>): Promise<void> {
    const hints = this.#hints.get(name) ?? [];
    const doubted = hints.filter(
      ({ id }) => !shown.has(id) && !this.#held.has(id) && !this.#confirmed.has(id),
    );
    if (doubted.length === 0) return;
    const found = await this.#context.store.getJobs(doubted.map(({ id }) => id));
    const waiting = new Map(
      found.flatMap((job) => (job?.state === 'pending' ? [[job.id, job] as const] : [])),
    );
    for (const id of waiting.keys()) this.#confirmed.add(id);
    const doubtedIds = new Set(doubted.map(({ id }) => id));
    this.#hints.set(
      name,
      hints.flatMap((job) => (doubtedIds.has(job.id) ? (waiting.get(job.id) ?? []) : [job])),
    );
  }

  readonly #rankOf = (job: JobHead): string => rankKey(job, this.#context.configuration.score);

  /** The parts of a line: those that its key names, and where only a hint told of it, those that there may be. */
  #subsOf(line: LineName, name: string): readonly number[] {
    const backlog = this.#backlogs.get(backlogName(line.tier, line.fairnessKey));
    const named = partsOf(backlog?.lines ?? [], line);
    const hints = this.#hints.get(name) ?? [];
    const { configuration } = this.#context;
    if (named.length > 0 && hints.every((job) => named.includes(subLineOf(configuration, job)))) return named;
    const parts = configuration.types.find(({ type }) => type === line.type)?.subLines ?? 1;
    return [...new Set([...named, ...Array.from({ length: parts }, (_, sub) => sub)])];
  }

  /** Heads with hints between them. A hint behind what was read is left to the index: a line's order must not have holes. */
  #withHints(name: string, heads: readonly JobHead[], more: boolean, after?: JobHead): readonly JobHead[] {
    const hints = this.#hints.get(name);
    if (hints === undefined) return heads;
    const rankOf = this.#rankOf;
    const byId = new Map(heads.map((job) => [job.id, job]));
    const last = heads.at(-1);
    const start = after === undefined ? '' : rankOf(after);
    const end = more && last !== undefined ? rankOf(last) : undefined;
    for (const job of hints) {
      const rank = rankOf(job);
      const isWithin = rank > start && (end === undefined || rank <= end);
      if (isWithin && (byId.get(job.id)?.version ?? 0) < job.version) byId.set(job.id, job);
    }
    const ranked = Array.from(byId.values(), (job) => ({ job, rank: rankOf(job) }));
    return ranked.sort((one, other) => (one.rank < other.rank ? -1 : 1)).map(({ job }) => job);
  }

  /** What was read of these jobs. */
  headsOf(groups: ReadonlyMap<string, readonly { readonly id: string }[]>): ReadonlyMap<string, JobHead[]> {
    if (groups.size === 0) return new Map();
    const known = new Map<string, JobHead>();
    for (const { jobs } of this.#input.remembered.heads.values())
      for (const job of jobs) known.set(job.id, job);
    return new Map(
      [...groups].map(([name, jobs]) => [name, jobs.flatMap(({ id }) => known.get(id) ?? [])] as const),
    );
  }

  /** These are claimed, or cannot be: no later pass need meet them. */
  forget(jobs: Iterable<Pick<JobHead, 'id'>>): void {
    for (const { id } of jobs) this.#forgotten.add(id);
  }

  /** Claims that were lost in a row say that what was read is old: every line is read from its start. */
  readAgain(): void {
    forgetLines(this.#input.remembered);
    this.#offeredOf.clear();
    this.#believedEmpty.clear();
  }

  /** Jobs that are known to wait, and were not admitted. */
  waiting(): readonly JobHead[] {
    const byId = new Map<string, JobHead>();
    const note = (job: JobHead): void => {
      if (!this.#held.has(job.id) && !this.#forgotten.has(job.id)) byId.set(job.id, job);
    };
    for (const { jobs } of this.#input.remembered.heads.values()) jobs.forEach(note);
    for (const jobs of this.#hints.values()) jobs.forEach(note);
    return [...byId.values()];
  }

  /** Leaves to the next pass what this one has read and not used. */
  close(): void {
    const { heads } = this.#input.remembered;
    for (const name of this.#offeredOf.keys()) {
      const known = heads.get(name);
      if (known === undefined) continue;
      const jobs = known.jobs.filter((job) => !this.#forgotten.has(job.id) && !this.#held.has(job.id));
      // Nothing is left, and the line goes on: only a read tells how.
      if (jobs.length === 0 && known.next !== undefined) heads.delete(name);
      else heads.set(name, { ...known, jobs });
    }
  }

  #noteLeftBehind({ reservation, position }: Held, job: JobHead): void {
    const entry = reservation.jobs.get(position);
    if (entry === undefined) return;
    const { kind } = judge(reservation, position, entry, job);
    if (kind === 'ended' || kind === 'gone') this.leftBehind.push(job);
  }

  /** Never charged, and nothing of it runs: it must not start at zero while the others have been paying. */
  #isNew(fairnessKey: string): boolean {
    return this.#input.books.ledgerOf(fairnessKey) === undefined && !this.#heldCostMs.has(fairnessKey);
  }

  /** A key none of whose jobs was there when it was last settled has been away: being away saves nothing up. */
  #noteActive(planner: Planner, fairnessKey: string, jobs: readonly JobHead[]): void {
    const { configuration } = this.#context;
    const ledger = this.#input.books.ledgerOf(fairnessKey);
    const isReturning =
      ledger !== undefined &&
      !this.#heldCostMs.has(fairnessKey) &&
      jobs.every((job) => job.readyAtMs > ledger.lastSeenMs);
    if (isReturning) planner.liftKey(fairnessKey, this.#lift(fairnessKey) ?? ledger.settledCostMs);
    else if (!this.#lifted.has(fairnessKey)) {
      // What is in flight may be given back where charges are corrected; a key lifted to it would be left behind.
      const heldMs = configuration.fairness.trueUp ? 0 : (this.#heldCostMs.get(fairnessKey) ?? 0);
      const costMs = (ledger?.settledCostMs ?? 0) + heldMs;
      const share = costMs / this.#input.books.weightOf(fairnessKey);
      this.#leastActiveShareMs = Math.min(this.#leastActiveShareMs, share);
    }
  }

  /** Answers the cost to which the key was lifted; undefined if the policy knows no lift or it had as much already. */
  #lift(fairnessKey: string): number | undefined {
    const { books, leastShareMs } = this.#input;
    if (this.#context.configuration.fairness.idlePolicy !== 'advance' || leastShareMs <= 0) return undefined;
    const before = books.ledgerOf(fairnessKey)?.settledCostMs ?? 0;
    const ledger = books.lift(fairnessKey, leastShareMs);
    this.#lifted.set(fairnessKey, ledger);
    return ledger.settledCostMs > before ? ledger.settledCostMs : undefined;
  }

  #nameOf(line: LineName): string {
    return readyLineName(this.#input.partition, line);
  }
}

const backlogName = (tier: string, fairnessKey: string): string => JSON.stringify([tier, fairnessKey]);
