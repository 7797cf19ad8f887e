/**
 * Lifts: a key that becomes active, new or returning, starts at the least share among the keys that wait or run, so that
 * being away saves nothing up, and being new neither takes everything nor waits behind what others were charged before.
 *
 * The share is (settled + in flight) / weight, as it is at the first pass that has room for any job after the key came: it is
 * not remembered, because a minimum that is remembered can only be a maximum of what was seen. The lift is written with that
 * pass, whether or not the job starts in it, so that nobody is pushed back by what others are charged later.
 * Source: fair-queuing, and the ruling that charges count from dispatch on.
 *
 * It does not matter which dispatcher makes that pass. One that missed nothing knows from hints which keys came. Any other one
 * looks around: whoever came and is below the least share stands before all that wait, in the keys line of its type. The
 * commit says that it did, so that keys which came before and were not lifted are never lifted later.
 *
 * A key is away when none of its jobs that were ever ready is left. Its ledger says when it was last seen. A job that was
 * ready before that shows that it was never away, and so does one that waits to be tried again or was moved.
 */
import { firstReadyMs, type JobMode } from '../core/job.ts';
import type { LineName } from '../core/planner.ts';
import { type JobHead, type KeyBacklog, type Ledger, presentUntilMs } from '../store/contract.ts';
import type { Books } from './books.ts';
import type { DispatchContext } from './context.ts';
import { modesOf } from './line-parts.ts';
import type { ParkedName } from './parking.ts';
import type { RememberedKeys } from './remembered.ts';

/**
 * Lines that are looked at to find the least share, in one pass; keys beyond count as if they had jobs, which lifts less. Most
 * of those that stand in front were used up. They are those that a plan looks past, and as many: what is read is read once.
 */
const LEAST_LINES_MAX = 2_000;
/** Keys whose lines are read together at first, then twice as many each time. */
const TOGETHER_MIN = 4;
/** Keys that are met of each type, to find those; of more, those behind count as if they had jobs. */
const MET_MAX = 2_000;
/** Types in whose lines a returning key is looked up by name; of more, those whose keys are remembered. */
const LOOKED_TYPES_MAX = 16;

export interface LiftsInput {
  readonly partition: number;
  readonly books: Books;
  /** What is in flight. */
  readonly held: readonly { readonly fairnessKey: string; readonly estimatedCostMs: number }[];
  readonly nowMs: number;
  /** More than `after` keys of a type, in the order of their line, or all there are. */
  readonly keysOf: (type: string, after: number) => Promise<RememberedKeys>;
  /** The backlog of keys with a weight of their own. */
  readonly namedOf: (type: string) => Promise<readonly KeyBacklog[]>;
  /** Jobs that wait in a line, all of those up to a rank among them. */
  readonly waitingOf: (
    line: LineName,
    lines: KeyBacklog['lines'],
    untilRank: string,
  ) => Promise<readonly JobHead[]>;
  /** Of those of a line that are parked for a conflict key, all up to a rank. */
  readonly parkedOf: (line: LineName, conflictKey: string, untilRank: string) => Promise<readonly JobHead[]>;
  /** Jobs that hints have told of: all of them, or those of a key. */
  readonly recentJobs: () => Iterable<JobHead>;
  readonly recentOf: (fairnessKey: string) => readonly JobHead[];
  /** One of these jobs that waits for certain: what only an old image tells of is read first. */
  readonly certainOf: (jobs: readonly JobHead[]) => Promise<JobHead | undefined>;
  /** Whether a job was found not to wait, whatever an image tells. */
  readonly isGone: (job: JobHead) => boolean;
  /** Jobs that nobody can have seen before. */
  readonly justStored: ReadonlySet<string>;
  /** All keys that had come by then have been lifted. */
  readonly liftedAtMs: number | undefined;
  readonly rankOf: (job: JobHead) => string;
}

export class Lifts {
  readonly #context: DispatchContext;
  readonly #input: LiftsInput;
  readonly #heldCostMs = new Map<string, number>();
  /** Keys that need not be looked at again in this pass. */
  readonly #seen = new Set<string>();
  /** By key: the lines that it has, as they were looked up in this pass. */
  readonly #backlogs = new Map<string, readonly Met[]>();
  #toWrite = new Map<string, Ledger>();

  constructor(context: DispatchContext, input: LiftsInput) {
    this.#context = context;
    this.#input = input;
    for (const { fairnessKey, estimatedCostMs } of input.held)
      this.#heldCostMs.set(fairnessKey, (this.#heldCostMs.get(fairnessKey) ?? 0) + estimatedCostMs);
  }

  /** Names of blocked lines in which there is nothing of their keys any more. */
  readonly emptyGroups: {
    readonly line: ParkedName;
    readonly announcedAtMs: number;
  }[] = [];
  /** Not all keys that came may have been met. */
  isCutShort = false;
  /** All keys that came, and that there is something to lift to, are lifted. */
  hasLifted = false;

  /**
   * Lifts the keys of these jobs, which wait, as far as those are new or have been away; with `looksAround`, all such keys
   * below the least share. Answers their ledgers.
   */
  async lift(jobs: readonly JobHead[], looksAround = false): Promise<readonly Ledger[]> {
    const { books } = this.#input;
    await books.readLedgers(jobs.map(({ fairnessKey }) => fairnessKey));
    const kept = await this.#kept(jobs);
    if (this.#context.configuration.fairness.idlePolicy !== 'advance') return kept;
    const byKey = Map.groupBy(
      jobs.filter(({ fairnessKey }) => !this.#seen.has(fairnessKey)),
      ({ fairnessKey }) => fairnessKey,
    );
    // What runs was charged: its key is active, and has a ledger or will have one.
    for (const key of byKey.keys()) if (this.#heldCostMs.has(key)) this.#note(key, byKey);
    if (byKey.size === 0 && !looksAround) return kept;
    await this.#lookUp([...byKey.keys()].filter((key) => this.#mayBeActive(key)));
    const met = await Promise.all(
      [...byKey].map(async ([fairnessKey, ofKey]) => {
        this.#seen.add(fairnessKey);
        if (await this.#isActive(fairnessKey, ofKey)) return undefined;
        const waiting = ofKey.filter((job) => !this.#input.isGone(job));
        return waiting.length === 0 ? undefined : arrivalOf(fairnessKey, waiting);
      }),
    );
    const arrivals = met.filter((arrival) => arrival !== undefined);
    if (arrivals.length === 0 && !looksAround) return kept;
    const least = await this.#leastShareMs(new Set(arrivals.map(({ fairnessKey }) => fairnessKey)));
    this.isCutShort ||= least.isCutShort;
    this.hasLifted ||= looksAround && !least.isCutShort && least.hasKeys;
    // Those that no pass has met so far come with these.
    for (const { fairnessKey } of least.unseen) this.#seen.add(fairnessKey);
    arrivals.push(...least.unseen);
    let { leastMs } = least;
    const inOrder = leastMs === undefined ? await this.#byFirst(arrivals) : arrivals;
    const lifted = inOrder.map(({ fairnessKey }) => {
      const ledger = books.lift(fairnessKey, leastMs);
      this.#toWrite.set(fairnessKey, ledger);
      const shareMs = ledger.settledCostMs / books.weightOf(fairnessKey);
      if (least.leastMs === undefined) leastMs = Math.min(leastMs ?? shareMs, shareMs);
      return ledger;
    });
    return [...kept, ...lifted];
  }

  /** Ledgers that seemed to have expired: jobs of their keys have been waiting since before. */
  async #kept(jobs: readonly JobHead[]): Promise<readonly Ledger[]> {
    const { books } = this.#input;
    const keys = [...new Set(jobs.map(({ fairnessKey }) => fairnessKey))];
    const expired = keys.filter((fairnessKey) => books.expiredMs(fairnessKey) !== undefined);
    const byKey = Map.groupBy(jobs, ({ fairnessKey }) => fairnessKey);
    await Promise.all([...byKey].map(([fairnessKey, ofKey]) => this.#noteWaiting(fairnessKey, ofKey)));
    return expired.flatMap((fairnessKey) => books.ledgerOf(fairnessKey) ?? []);
  }

  /** These jobs of a key wait: its ledger counts if it was not idle for too long before the first of all that do. */
  async #noteWaiting(fairnessKey: string, jobs: readonly JobHead[]): Promise<void> {
    const { books } = this.#input;
    const untilMs = books.expiredMs(fairnessKey);
    if (untilMs === undefined) return;
    // It may be none of those, but stand behind them, or in another line.
    const older = await this.#findReady(fairnessKey, jobs, untilMs, (job) => firstReadyMs(job) <= untilMs);
    if (older !== undefined) books.noteActive(fairnessKey, firstReadyMs(older));
  }

  /** Jobs that were ready and wait for a time to come, or did until they were cancelled: so long, their keys were not away. */
  async keepPresent(jobs: readonly JobHead[]): Promise<void> {
    const { books } = this.#input;
    const { idlePolicy, keyTtlMs } = this.#context.configuration.fairness;
    if (idlePolicy !== 'advance' && keyTtlMs === null) return;
    const told = jobs.filter((job) => waitedUntilMs(job) !== undefined);
    await books.readLedgers(told.map(({ fairnessKey }) => fairnessKey));
    for (const job of await this.#asTheyAre(told)) {
      const untilMs = waitedUntilMs(job);
      if (untilMs === undefined) continue;
      const { id, fairnessKey } = job;
      books.noteActive(fairnessKey, firstReadyMs(job));
      await this.#noteWaiting(fairnessKey, []);
      // Where nobody is lifted, only a ledger that there is can expire.
      if (idlePolicy !== 'advance' && books.ledgerOf(fairnessKey) === undefined) continue;
      // One that nothing has been decided of yet comes when its job does.
      const isDecided =
        idlePolicy !== 'advance' ||
        this.#heldCostMs.has(fairnessKey) ||
        (await this.#isActive(fairnessKey, [job]));
      const kept =
        job.state === 'cancelled'
          ? books.noteCancelled(fairnessKey, id, untilMs, isDecided)
          : books.noteLater(fairnessKey, id, untilMs, isDecided);
      if (kept !== undefined) this.#toWrite.set(fairnessKey, kept);
    }
  }

  /** These jobs without those whose ledgers say already what they tell. Of one that waits, an old image may tell: it is read. */
  async #asTheyAre(jobs: readonly JobHead[]): Promise<readonly JobHead[]> {
    const { books, nowMs } = this.#input;
    const over = jobs.filter(({ state }) => state === 'cancelled');
    const waiting = jobs.filter(
      ({ state, id, fairnessKey, runAtMs }) =>
        state === 'scheduled' && runAtMs > nowMs && !books.isLater(fairnessKey, id, runAtMs),
    );
    if (waiting.length === 0) return over;
    // Of one that cannot be read, nothing is known.
    const found = await this.#context.store.getJobs(
      waiting.map(({ id }) => id),
      () => {},
    );
    return [...over, ...found.filter((job) => job !== undefined)];
  }

  /** What is to be written, once. */
  take(): readonly Ledger[] {
    const ledgers = [...this.#toWrite.values()];
    this.#toWrite = new Map();
    return ledgers;
  }

  #note(fairnessKey: string, byKey: Map<string, readonly JobHead[]>): void {
    this.#seen.add(fairnessKey);
    byKey.delete(fairnessKey);
  }

  /** Whether a key with these jobs has been seen before, and was never away since. */
  async #isActive(fairnessKey: string, waiting: readonly JobHead[]): Promise<boolean> {
    await this.#noteWaiting(fairnessKey, waiting.filter(isWaitingNow));
    const presentMs = this.#presentMs(fairnessKey);
    const untilMs = Math.max(presentMs, this.#decidedMs);
    if (untilMs === -Infinity) return false;
    const wasPresent = (job: JobHead): boolean => firstReadyMs(job) <= presentMs || this.#isDecided(job);
    return (await this.#findReady(fairnessKey, waiting, untilMs, wasPresent)) !== undefined;
  }

  /** Until when the key was there by what its ledger says. */
  #presentMs(fairnessKey: string): number {
    const ledger = this.#input.books.ledgerOf(fairnessKey);
    return ledger === undefined || ledger.isUndecided === true ? -Infinity : presentUntilMs(ledger);
  }

  /** Whether the key may have been seen before: a ledger that seems to have expired counts, if its jobs have waited since. */
  #mayBeActive(fairnessKey: string): boolean {
    return (
      this.#decidedMs > -Infinity ||
      this.#presentMs(fairnessKey) > -Infinity ||
      this.#input.books.expiredMs(fairnessKey) !== undefined
    );
  }

  /** Of jobs that were ready by then, a pass has decided whether their keys are lifted. */
  get #decidedMs(): number {
    const { liftedAtMs = -Infinity } = this.#input;
    return liftedAtMs - this.#context.budget.seenWithinMs;
  }

  #isDecided(job: JobHead): boolean {
    return job.readyAtMs <= this.#decidedMs && !this.#input.justStored.has(job.id);
  }

  /** A job of the key that waits, among these and those that were ready by then, of which this is true. */
  async #findReady(
    fairnessKey: string,
    known: readonly JobHead[],
    untilMs: number,
    isIt: (job: JobHead) => boolean,
  ): Promise<JobHead | undefined> {
    const met = [...known, ...this.#input.recentOf(fairnessKey)].filter(isIt);
    const certain = await this.#input.certainOf(met);
    if (certain !== undefined) return certain;
    for await (const waiting of this.#waitingBy(fairnessKey, untilMs)) {
      const found = waiting.find(isIt);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /**
   * Where nobody is there, who comes first keeps its share, and the others are lifted to it; so who that is matters if their
   * shares differ, and only all of their lines tell.
   */
  async #byFirst(arrivals: readonly Arrival[]): Promise<readonly Arrival[]> {
    if (new Set(arrivals.map(({ fairnessKey }) => this.#shareOf(fairnessKey))).size <= 1) return arrivals;
    await this.#lookUp(arrivals.map(({ fairnessKey }) => fairnessKey));
    const known: Arrival[] = [];
    for (const arrival of arrivals) known.push(await this.#sinceFirst(arrival));
    return known.sort((one, other) => (earlier(one.first, other.first) === one.first ? -1 : 1));
  }

  /** With the first of all the key's jobs that wait, known or not. */
  async #sinceFirst({ fairnessKey, first }: Arrival): Promise<Arrival> {
    const waiting = [first, ...this.#input.recentOf(fairnessKey)];
    for await (const jobs of this.#waitingBy(fairnessKey, firstReadyMs(first))) waiting.push(...jobs);
    return arrivalOf(fairnessKey, waiting);
  }

  /** By line, the key's jobs that wait, with all those that were ready by an instant. */
  async *#waitingBy(fairnessKey: string, readyAtMs: number): AsyncGenerator<readonly JobHead[]> {
    await this.#lookUp([fairnessKey]);
    for (const met of this.#backlogs.get(fairnessKey) ?? []) {
      for (const mode of modesOf(met.lines)) {
        const line = { type: met.type, mode, fairnessKey };
        yield this.#input.waitingOf(line, met.lines, this.#rankAt(line, readyAtMs));
      }
      for (const { mode, conflictKey } of met.parked ?? [])
        yield this.#parkedOf(met, mode, conflictKey, readyAtMs);
    }
  }

  async #parkedOf(
    { type, fairnessKey, announcedAtMs }: Met,
    mode: JobMode,
    conflictKey: string,
    readyAtMs: number,
  ): Promise<readonly JobHead[]> {
    const line = { type, mode, fairnessKey };
    const untilRank = readyAtMs > -Infinity ? this.#rankAt(line, readyAtMs) : '';
    const jobs = await this.#input.parkedOf(line, conflictKey, untilRank);
    if (jobs.length === 0) this.emptyGroups.push({ line: { ...line, parkedIn: conflictKey }, announcedAtMs });
    return jobs;
  }

  /** The last rank of a job that was ready by an instant: urgent ones stand before it. */
  #rankAt({ type, mode, fairnessKey }: LineName, readyAtMs: number): string {
    return this.#input.rankOf({
      id: '~',
      type,
      mode,
      fairnessKey,
      priority: 0,
      readyAtMs,
      runAtMs: readyAtMs,
      version: 1,
      attempt: 1,
      partition: this.#input.partition,
      state: 'pending',
    });
  }

  /** Finds the lines of keys, of all of them with one read for each type. */
  async #lookUp(fairnessKeys: readonly string[]): Promise<void> {
    const unknown = fairnessKeys.filter((fairnessKey) => !this.#backlogs.has(fairnessKey));
    if (unknown.length === 0) return;
    const { types } = this.#context.configuration;
    const byType = await Promise.all(types.map(({ type }) => this.#linesOf(type, unknown)));
    for (const fairnessKey of unknown) {
      const found = types.flatMap(({ type }, at) => {
        const backlog = byType[at]?.get(fairnessKey);
        return backlog === undefined ? [] : [{ ...backlog, type }];
      });
      this.#backlogs.set(fairnessKey, found);
    }
  }

  async #linesOf(type: string, fairnessKeys: readonly string[]): Promise<ReadonlyMap<string, KeyBacklog>> {
    const { store, configuration } = this.#context;
    const { keys, next } = await this.#input.keysOf(type, 0);
    const found = new Map(keys.map((key) => [key.fairnessKey, key]));
    if (next === undefined || configuration.types.length > LOOKED_TYPES_MAX) return found;
    const missing = fairnessKeys.filter((fairnessKey) => !found.has(fairnessKey));
    if (missing.length === 0) return found;
    const named = await store.readBacklogs(this.#input.partition, type, missing);
    for (const key of named) if (key !== undefined) found.set(key.fairnessKey, key);
    return found;
  }

  #shareOf(fairnessKey: string): number {
    const { books } = this.#input;
    const costMs =
      (books.ledgerOf(fairnessKey)?.settledCostMs ?? 0) + (this.#heldCostMs.get(fairnessKey) ?? 0);
    return costMs / books.weightOf(fairnessKey);
  }

  /**
   * The least share among keys that wait or run, those that become active now left out; undefined: there are none. `unseen`:
   * keys met on the way that become active now, too, because no pass has seen their jobs before. Keys are met by share, so the
   * first one that is active ends the search.
   */
  async #leastShareMs(arriving: ReadonlySet<string>): Promise<Least> {
    const { books } = this.#input;
    await books.readLedgers(this.#heldCostMs.keys());
    let leastMs = Number.POSITIVE_INFINITY;
    for (const key of this.#heldCostMs.keys()) leastMs = Math.min(leastMs, this.#shareOf(key));
    const search: Search = {
      leastMs,
      linesLeft: LEAST_LINES_MAX,
      isCutShort: false,
      unseen: new Map(),
    };
    let hasKeys = false;
    const fresh: (Met & { readonly shareMs: number })[] = [];
    for await (const met of this.#keysByPages(search)) {
      hasKeys ||= met.length > 0;
      await books.readLedgers(met.map(({ fairnessKey }) => fairnessKey));
      const byShare = met
        .filter(({ fairnessKey }) => !arriving.has(fairnessKey) && !this.#heldCostMs.has(fairnessKey))
        .map((key) => ({ ...key, shareMs: this.#shareOf(key.fairnessKey) }))
        .sort((one, other) => one.shareMs - other.shareMs);
      // A key without a ledger came, if it has jobs at all: that is looked at when there is something to lift it to.
      fresh.push(...byShare.filter(({ fairnessKey }) => !this.#mayBeActive(fairnessKey)));
      await this.#considerInTurn(
        search,
        byShare.filter(({ fairnessKey }) => this.#mayBeActive(fairnessKey)),
      );
    }
    const isLeveled = [...arriving, ...search.unseen.keys()].every((key) => this.#shareOf(key) === 0);
    if (search.leastMs < Infinity || !isLeveled) await this.#considerInTurn(search, fresh);
    const { isCutShort, unseen } = search;
    return {
      leastMs: Number.isFinite(search.leastMs) ? search.leastMs : undefined,
      unseen: [...unseen.values()],
      isCutShort,
      hasKeys,
    };
  }

  /** Those of these keys, the least share first, that are below the least share of those that wait. */
  async #considerInTurn(
    search: Search,
    byShare: readonly (Met & { readonly shareMs: number })[],
  ): Promise<void> {
    let from = 0;
    for (let count = TOGETHER_MIN; (byShare[from]?.shareMs ?? Infinity) < search.leastMs; count *= 2) {
      await this.#consider(search, byShare.slice(from, from + count));
      from += count;
    }
  }

  /** Keys that hints told of and the first of each type's keys line, then what follows as long as it may be below the least. */
  async *#keysByPages(search: Search): AsyncGenerator<readonly Met[]> {
    const { types, fairness } = this.#context.configuration;
    // Ranks never say more than was charged; after a reset they say nothing.
    const isBehind = (key: KeyBacklog | undefined): boolean =>
      key === undefined ||
      (fairness.resetEveryMs === null && key.rankCostMs / fairness.defaultWeight >= search.leastMs);
    const hinted = Array.from(this.#input.recentJobs(), ({ type, mode, fairnessKey }) => ({
      type,
      fairnessKey,
      lines: [{ mode }],
      announcedAtMs: 0,
    }));
    const firsts = await Promise.all(
      types.map(async ({ type }) => {
        const [named, line] = await Promise.all([this.#input.namedOf(type), this.#input.keysOf(type, 0)]);
        return { type, met: [...named, ...line.keys], line };
      }),
    );
    yield [...hinted, ...firsts.flatMap(({ type, met }) => met.map((key) => ({ ...key, type })))];
    let lines = firsts.map(({ type, line }) => ({ type, line }));
    for (;;) {
      const unread = lines.filter(({ line }) => line.next !== undefined && !isBehind(line.keys.at(-1)));
      const goOn = unread.filter(({ line }) => line.keys.length < MET_MAX);
      search.isCutShort ||= goOn.length < unread.length;
      if (goOn.length === 0) return;
      const pages = await Promise.all(
        goOn.map(async ({ type, line }) => {
          const longer = await this.#input.keysOf(type, line.keys.length);
          return { type, line: longer, met: longer.keys.slice(line.keys.length) };
        }),
      );
      yield pages.flatMap(({ type, met }) => met.map((key) => ({ ...key, type })));
      lines = pages;
    }
  }

  /** The first of a key's jobs of a type that wait: of those in its ready lines, or else of those that are parked. */
  async #firstOf(key: Met, search: Search): Promise<readonly JobHead[]> {
    const { type, fairnessKey, lines, parked = [] } = key;
    const modes = modesOf(lines);
    search.linesLeft -= modes.length;
    const ready = await Promise.all(
      modes.map((mode) => this.#input.waitingOf({ type, mode, fairnessKey }, lines, '')),
    );
    const standing = ready.flat();
    if (standing.length > 0) return standing;
    search.linesLeft -= parked.length;
    const blocked = await Promise.all(
      parked.map(({ mode, conflictKey }) => this.#parkedOf(key, mode, conflictKey, -Infinity)),
    );
    return blocked.flat();
  }

  /** Whether these keys, of one share after another, wait, and if so, since when. */
  async #consider(search: Search, keys: readonly (Met & { readonly shareMs: number })[]): Promise<void> {
    await this.#lookUp(
      keys.map(({ fairnessKey }) => fairnessKey).filter((fairnessKey) => this.#mayBeActive(fairnessKey)),
    );
    const waits = await Promise.all(
      keys.map(async (key) => {
        const { fairnessKey, shareMs } = key;
        if (search.unseen.has(fairnessKey)) return undefined;
        // Who knows: it counts as if it had jobs.
        if (search.linesLeft <= 0) return { shareMs, isCutShort: true };
        const [first, ...others] = await this.#firstOf(key, search);
        if (first === undefined) return undefined;
        if (await this.#isActive(fairnessKey, [first, ...others]))
          return { shareMs: this.#shareOf(fairnessKey) };
        return { arrival: arrivalOf(fairnessKey, [first, ...others]) };
      }),
    );
    for (const found of waits) {
      if (found?.arrival !== undefined) search.unseen.set(found.arrival.fairnessKey, found.arrival);
      if (found?.isCutShort === true) search.isCutShort = true;
      if (found?.shareMs !== undefined) search.leastMs = Math.min(search.leastMs, found.shareMs);
    }
  }
}

/** A key that may have jobs of a type waiting. */
type Met = Pick<KeyBacklog, 'fairnessKey' | 'lines' | 'parked' | 'announcedAtMs'> & {
  readonly type: string;
  readonly rankCostMs?: number | undefined;
};

/** The search for the least share, as far as it is. */
interface Search {
  leastMs: number;
  linesLeft: number;
  isCutShort: boolean;
  readonly unseen: Map<string, Arrival>;
}

interface Least {
  readonly leastMs: number | undefined;
  readonly unseen: readonly Arrival[];
  /** A bound ended the search. */
  readonly isCutShort: boolean;
  /** Whether any key had, or lately had, jobs waiting. */
  readonly hasKeys: boolean;
}

/** Until when a job, once it was ready, has waited or will wait; undefined: it waits still, was given to a worker, or never was. */
function waitedUntilMs(job: JobHead): number | undefined {
  const { state, runAtMs, firstReadyAtMs, finishedAtMs, cancelRequestedAtMs } = job;
  if (state === 'scheduled') return firstReadyAtMs === undefined ? undefined : runAtMs;
  if (state !== 'cancelled') return undefined;
  // Of one that was tried before, `finishedAtMs` says when that attempt ended.
  const untilMs = Math.max(finishedAtMs ?? 0, cancelRequestedAtMs ?? 0);
  return firstReadyMs(job) <= untilMs ? untilMs : undefined;
}

const isWaitingNow = ({ state }: JobHead): boolean => state === 'pending';

/** A key that becomes active, and the first of its jobs that are known. */
interface Arrival {
  readonly fairnessKey: string;
  readonly first: JobHead;
}

function arrivalOf(fairnessKey: string, jobs: readonly JobHead[]): Arrival {
  const [first, ...others] = jobs;
  if (first === undefined) throw new RangeError(`the key ${JSON.stringify(fairnessKey)} comes without a job`);
  return { fairnessKey, first: others.reduce(earlier, first) };
}

/** The one that was ready first; of two, the one with the smaller id. */
function earlier(one: JobHead, other: JobHead): JobHead {
  if (one.readyAtMs !== other.readyAtMs) return one.readyAtMs < other.readyAtMs ? one : other;
  return one.id < other.id ? one : other;
}
