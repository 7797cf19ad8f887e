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
import type { JobHead, JobImage } from '../store/job-fields.ts';
import { type KeyBacklog, type Ledger, presentUntilMs } from '../store/records.ts';
import type { DispatchContext } from './context.ts';
import { KeysBelow, type LeastSoFar, type Met, type MetShare } from './keys-below.ts';
import type { LedgerCache } from './ledger-cache.ts';
import type { ParkedName } from './parking.ts';
import { type CachedKeys, keysByName } from './partition-cache.ts';

/**
 * Lines that are looked at to find the least share, in one pass; keys beyond count as if they had jobs, which lifts less. Most
 * of those that stand in front were used up. They are those that a plan looks past, and as many: what is read is read once.
 */
const LEAST_LINES_MAX = 2_000;
/** Keys whose lines are read together at first, then twice as many each time. */
const TOGETHER_MIN = 4;
/** Types in whose lines a returning key is looked up by name; of more, those whose keys are remembered. */
const LOOKED_TYPES_MAX = 16;

export interface LiftsInput {
  readonly partition: number;
  readonly ledgerCache: LedgerCache;
  /** What is in flight. */
  readonly held: readonly { readonly fairnessKey: string; readonly estimatedCostMs: number }[];
  readonly nowMs: number;
  /** More than `after` keys of a type, in the order of their line, or all there are. */
  readonly keysOf: (type: string, after: number) => Promise<CachedKeys>;
  /** The backlog of keys with a weight of their own. */
  readonly namedOf: (type: string) => Promise<readonly KeyBacklog[]>;
  /** Jobs that wait in a line, all of those up to a rank among them. */
  readonly waitingOf: (line: LineName, untilRank: string) => Promise<readonly JobHead[]>;
  /** Of those of a line that are parked for a conflict key, all up to a rank. */
  readonly parkedOf: (line: LineName, conflictKey: string, untilRank: string) => Promise<readonly JobHead[]>;
  /** Jobs that hints have told of: all of them, or those of a key. */
  readonly recentJobs: () => Iterable<JobHead>;
  readonly recentOf: (fairnessKey: string) => Iterable<JobHead>;
  /** One of these jobs that waits for certain: what only an old image tells of is read first. */
  readonly certainOf: (jobs: Iterable<JobHead>) => Promise<JobHead | undefined>;
  /** Whether a job waits for certain, without a read. */
  readonly isCertain: (job: JobHead) => boolean;
  /** Finds out which of these jobs do not wait any more, though an image told so. */
  readonly sift: (jobs: readonly JobHead[]) => Promise<void>;
  /** Whether a job was found not to wait, whatever an image tells. */
  readonly isGone: (job: JobHead) => boolean;
  /** Jobs that were stored a moment ago: no other pass can have met them. */
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
  readonly #keysBelow: KeysBelow;
  #toWrite = new Map<string, Ledger>();
  /** Keys whose ledgers had seemed to be expired and were found to count. The planner has not been told of them yet. */
  readonly #kept = new Set<string>();

  constructor(context: DispatchContext, input: LiftsInput) {
    this.#context = context;
    this.#input = input;
    this.#keysBelow = new KeysBelow(context, {
      ...input,
      isInFlight: (fairnessKey) => this.isInFlight(fairnessKey),
      shareOf: (fairnessKey) => this.#shareOf(fairnessKey),
    });
    for (const { fairnessKey, estimatedCostMs } of input.held)
      this.#heldCostMs.set(fairnessKey, (this.#heldCostMs.get(fairnessKey) ?? 0) + estimatedCostMs);
  }

  /** Blocked lines that a key still names although none of its jobs stands there: the names may be retired. */
  readonly emptyGroups: {
    readonly line: ParkedName;
    readonly announcedAtMs: number;
  }[] = [];
  /** A bound ended the search for keys that came: some of them may have been missed. */
  isCutShort = false;
  /** There was a least share, and every key that came was lifted to it. */
  hasLifted = false;

  /**
   * Lifts the keys of these jobs, which wait, as far as those are new or have been away; with `looksAround`, all such keys
   * below the least share. Answers their ledgers.
   */
  async lift(jobs: readonly JobHead[], looksAround = false): Promise<readonly Ledger[]> {
    const { ledgerCache } = this.#input;
    await ledgerCache.readLedgers(jobs.map(({ fairnessKey }) => fairnessKey));
    await this.#noteAllWaiting(jobs);
    const lifted =
      this.#context.configuration.fairness.idlePolicy === 'advance'
        ? await this.#liftNew(jobs, looksAround)
        : [];
    return [...this.#takeKept(), ...lifted];
  }

  /** Whether a job of the key is in flight: it is active and was charged, whatever waits of it. */
  isInFlight(fairnessKey: string): boolean {
    return this.#heldCostMs.has(fairnessKey);
  }

  /** Whether nothing is to be done for a key of which jobs wait, by what is known of it without a read. */
  isSurelyActive(fairnessKey: string, waiting: Iterable<JobHead>): boolean {
    const { ledgerCache } = this.#input;
    if (this.isInFlight(fairnessKey)) return true;
    if (!ledgerCache.isKnown(fairnessKey) || ledgerCache.expiredMs(fairnessKey) !== undefined) return false;
    const isActive = this.#isKnownActive(fairnessKey, waiting);
    if (isActive) this.#seen.add(fairnessKey);
    return isActive;
  }

  /** Lifts the keys of these jobs that are new or have been away. */
  async #liftNew(jobs: readonly JobHead[], looksAround: boolean): Promise<readonly Ledger[]> {
    const { ledgerCache } = this.#input;
    const byKey = Map.groupBy(
      jobs.filter(({ fairnessKey }) => !this.#seen.has(fairnessKey)),
      ({ fairnessKey }) => fairnessKey,
    );
    for (const [key, ofKey] of byKey)
      if (this.isInFlight(key) || this.#isKnownActive(key, ofKey)) this.#note(key, byKey);
    if (byKey.size === 0 && !looksAround) return [];
    await this.#lookUp([...byKey.keys()].filter((key) => this.#mayBeActive(key)));
    const met = await Promise.all(
      [...byKey].map(async ([fairnessKey, ofKey]) => {
        this.#seen.add(fairnessKey);
        return (await this.#isActive(fairnessKey, ofKey)) ? [] : [ofKey];
      }),
    );
    const came = met.flat();
    await this.#siftFirst(came);
    const arrivals = came.flatMap((ofKey) => {
      const waiting = ofKey.filter((job) => !this.#input.isGone(job));
      const [first] = waiting;
      return first === undefined ? [] : [arrivalOf(first.fairnessKey, waiting)];
    });
    if (arrivals.length === 0 && !looksAround) return [];
    const least = await this.#leastShareMs(new Set(arrivals.map(({ fairnessKey }) => fairnessKey)));
    this.isCutShort ||= least.isCutShort;
    this.hasLifted ||= looksAround && !least.isCutShort && least.hasKeys;
    // Keys that were met during the search, and that no pass has met before, are lifted together with these.
    for (const { fairnessKey } of least.unseen) this.#seen.add(fairnessKey);
    arrivals.push(...least.unseen);
    let { leastMs } = least;
    const inOrder = leastMs === undefined ? await this.#byFirst(arrivals) : arrivals;
    return inOrder.map(({ fairnessKey }) => {
      const ledger = ledgerCache.lift(fairnessKey, leastMs);
      this.#toWrite.set(fairnessKey, ledger);
      const shareMs = ledger.settledCostMs / ledgerCache.weightOf(fairnessKey);
      if (least.leastMs === undefined) leastMs = Math.min(leastMs ?? shareMs, shareMs);
      return ledger;
    });
  }

  /**
   * Of each key's jobs, finds out of the one that was ready first whether it waits, or else of the next ones: an old image must not lift
   * a key that nothing waits of. What was ready later changes nothing.
   */
  async #siftFirst(came: readonly (readonly JobHead[])[]): Promise<void> {
    const { sift, isGone, isCertain } = this.#input;
    let doubted = came.map((ofKey) => ofKey.toSorted((one, other) => (earlier(one, other) === one ? -1 : 1)));
    for (let count = 1; doubted.length > 0; count *= 2) {
      await sift(doubted.flatMap((ofKey) => ofKey.slice(0, count)));
      doubted = doubted
        .map((ofKey) => ofKey.filter((job) => !isGone(job)))
        .filter(([first]) => first !== undefined && !isCertain(first));
    }
  }

  /** Notes that these jobs wait. A ledger that seems to be expired still counts if its key has had a job all the time. */
  async #noteAllWaiting(jobs: readonly JobHead[]): Promise<void> {
    const { ledgerCache } = this.#input;
    const keys = new Set(jobs.map(({ fairnessKey }) => fairnessKey));
    const expired = new Set(
      [...keys].filter((fairnessKey) => ledgerCache.expiredMs(fairnessKey) !== undefined),
    );
    if (expired.size === 0) return;
    const ofExpired = jobs.filter(({ fairnessKey }) => expired.has(fairnessKey));
    const byKey = Map.groupBy(ofExpired, ({ fairnessKey }) => fairnessKey);
    await Promise.all([...byKey].map(([fairnessKey, ofKey]) => this.#noteWaiting(fairnessKey, ofKey)));
  }

  /** Ledgers that were found to count, although they had seemed to be expired, since this was last called. */
  #takeKept(): readonly Ledger[] {
    const keys = [...this.#kept];
    this.#kept.clear();
    return keys.flatMap((fairnessKey) => this.#input.ledgerCache.ledgerOf(fairnessKey) ?? []);
  }

  /** Notes that these jobs of a key wait. Its ledger counts if the oldest of its waiting jobs was ready before the ledger expired. */
  async #noteWaiting(fairnessKey: string, jobs: readonly JobHead[]): Promise<void> {
    const { ledgerCache } = this.#input;
    const untilMs = ledgerCache.expiredMs(fairnessKey);
    if (untilMs === undefined) return;
    // The oldest may be another job than these: one behind them in their line, or one in another line.
    const older = await this.#findReady(fairnessKey, jobs, untilMs, (job) => firstReadyMs(job) <= untilMs);
    if (older === undefined) return;
    ledgerCache.noteActive(fairnessKey, firstReadyMs(older));
    this.#kept.add(fairnessKey);
  }

  /**
   * Notes until when keys have jobs that were ready once and now wait for a later time, or did so until they were cancelled. Until
   * then a key is not away.
   */
  async keepPresent(jobs: readonly JobImage[]): Promise<void> {
    const { ledgerCache } = this.#input;
    const { idlePolicy, keyTtlMs } = this.#context.configuration.fairness;
    if (idlePolicy !== 'advance' && keyTtlMs === null) return;
    const told = jobs.filter((job) => waitedUntilMs(job) !== undefined);
    await ledgerCache.readLedgers(told.map(({ fairnessKey }) => fairnessKey));
    const known = (await this.#asTheyAre(told)).filter((job) => waitedUntilMs(job) !== undefined);
    for (const [fairnessKey, ofKey] of Map.groupBy(known, (job) => job.fairnessKey)) {
      for (const job of ofKey) ledgerCache.noteActive(fairnessKey, firstReadyMs(job));
      await this.#noteWaiting(fairnessKey, []);
      // Nobody has decided yet whether this key is lifted. That is decided when the time of one of its jobs comes. They are looked at
      // together: that one of them was there shows that the key was not away when another one came.
      const isDecided =
        idlePolicy !== 'advance' ||
        this.isInFlight(fairnessKey) ||
        (await this.#isActive(fairnessKey, ofKey));
      for (const job of ofKey) {
        const untilMs = waitedUntilMs(job) ?? 0;
        const kept =
          job.state === 'cancelled'
            ? ledgerCache.noteCancelled(fairnessKey, job.id, untilMs, isDecided)
            : ledgerCache.noteLater(fairnessKey, job.id, untilMs, isDecided);
        if (kept !== undefined) this.#toWrite.set(fairnessKey, kept);
      }
    }
  }

  /** Leaves out jobs of which the ledgers already say what is to be noted, and reads those that wait: their images may be old. */
  async #asTheyAre(jobs: readonly JobImage[]): Promise<readonly JobImage[]> {
    const { ledgerCache, nowMs } = this.#input;
    const over = jobs.filter(({ state }) => state === 'cancelled');
    const waiting = jobs.filter(
      ({ state, id, fairnessKey, runAtMs }) =>
        state === 'scheduled' && runAtMs > nowMs && !ledgerCache.isLater(fairnessKey, id, runAtMs),
    );
    if (waiting.length === 0) return over;
    // What cannot be read is left out.
    const found = await this.#context.store.lookUpJobs({
      ids: waiting.map(({ id }) => id),
      unreadable: () => {},
    });
    return [...over, ...found.filter((job) => job !== undefined)];
  }

  /** The ledgers that this pass is to write. Each is answered once. */
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
    const untilMs = Math.max(this.#presentMs(fairnessKey), this.#decidedMs);
    if (untilMs === -Infinity) return false;
    return (
      (await this.#findReady(fairnessKey, waiting, untilMs, this.#wasPresent(fairnessKey))) !== undefined
    );
  }

  /** The same where one of these jobs shows it, once it was noted that they wait. */
  #isKnownActive(fairnessKey: string, waiting: Iterable<JobHead>): boolean {
    const wasPresent = this.#wasPresent(fairnessKey);
    for (const job of waiting) if (wasPresent(job) && this.#input.isCertain(job)) return true;
    return false;
  }

  /** Whether a waiting job of the key shows that the key was there before, and was not away since. */
  #wasPresent(fairnessKey: string): (job: JobHead) => boolean {
    const presentMs = this.#presentMs(fairnessKey);
    const isUndecided = this.#input.ledgerCache.ledgerOf(fairnessKey)?.isUndecided === true;
    // An undecided key had its job moved to a later time before any pass decided. A pass that lifted others in the meantime has
    // not met that job, so it has decided nothing about the key unless the job was in its line again by then.
    return (job) =>
      firstReadyMs(job) <= presentMs ||
      (this.#isDecided(job) && (!isUndecided || job.readyAtMs <= this.#decidedMs));
  }

  /** Until when the key was there by what its ledger says. */
  #presentMs(fairnessKey: string): number {
    const ledger = this.#input.ledgerCache.ledgerOf(fairnessKey);
    return ledger === undefined || ledger.isUndecided === true ? -Infinity : presentUntilMs(ledger);
  }

  /** Whether the key may have been active before. An expired ledger is reason enough to look: its jobs may have waited since. */
  #mayBeActive(fairnessKey: string): boolean {
    return (
      this.#decidedMs > -Infinity ||
      this.#presentMs(fairnessKey) > -Infinity ||
      this.#input.ledgerCache.expiredMs(fairnessKey) !== undefined
    );
  }

  /** For every job that was ready by this instant, some pass has decided whether its key is lifted. */
  get #decidedMs(): number {
    const { liftedAtMs = -Infinity } = this.#input;
    return liftedAtMs - this.#context.budget.seenWithinMs;
  }

  #isDecided(job: JobHead): boolean {
    return firstReadyMs(job) <= this.#decidedMs && !this.#input.justStored.has(job.id);
  }

  /** A waiting job of the key that meets the condition, among the known jobs and all that were ready by `untilMs`. */
  async #findReady(
    fairnessKey: string,
    known: readonly JobHead[],
    untilMs: number,
    isIt: (job: JobHead) => boolean,
  ): Promise<JobHead | undefined> {
    const { recentOf, certainOf } = this.#input;
    // Where one of those that are known will do, nobody looks for more.
    function* met(): Generator<JobHead> {
      for (const job of known) if (isIt(job)) yield job;
      for (const job of recentOf(fairnessKey)) if (isIt(job)) yield job;
    }
    const certain = await certainOf(met());
    if (certain !== undefined) return certain;
    for await (const waiting of this.#waitingBy(fairnessKey, untilMs)) {
      const found = waiting.find(isIt);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /**
   * Arrivals, the one whose job was ready first in front. Where no key is active, the first one keeps its share and the others are
   * lifted to it. If their shares differ it matters which one is first, and for that all of their lines are read.
   */
  async #byFirst(arrivals: readonly Arrival[]): Promise<readonly Arrival[]> {
    if (new Set(arrivals.map(({ fairnessKey }) => this.#shareOf(fairnessKey))).size <= 1) return arrivals;
    await this.#lookUp(arrivals.map(({ fairnessKey }) => fairnessKey));
    const known: Arrival[] = [];
    for (const arrival of arrivals) known.push(await this.#sinceFirst(arrival));
    return known.sort((one, other) => (earlier(one.first, other.first) === one.first ? -1 : 1));
  }

  /** The arrival with the oldest of all waiting jobs of its key, not only of those that are known. */
  async #sinceFirst({ fairnessKey, first }: Arrival): Promise<Arrival> {
    const waiting = [first, ...this.#input.recentOf(fairnessKey)];
    for await (const jobs of this.#waitingBy(fairnessKey, firstReadyMs(first))) waiting.push(...jobs);
    return arrivalOf(fairnessKey, waiting);
  }

  /** Line by line, waiting jobs of the key. All that were ready by the instant are among them. */
  async *#waitingBy(fairnessKey: string, readyAtMs: number): AsyncGenerator<readonly JobHead[]> {
    await this.#lookUp([fairnessKey]);
    for (const met of this.#backlogs.get(fairnessKey) ?? []) {
      for (const { mode } of met.lines) {
        const line = { type: met.type, mode, fairnessKey };
        yield this.#input.waitingOf(line, this.#rankAt(line, readyAtMs));
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

  /** The last rank in a line that a job can have which was ready by the instant, whatever its priority. */
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

  /** Finds out which lines these keys have, with one read for each type. */
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
    const read = await this.#input.keysOf(type, 0);
    const byName = keysByName(read);
    const found = new Map<string, KeyBacklog>();
    const missing: string[] = [];
    for (const fairnessKey of fairnessKeys) {
      const key = byName.get(fairnessKey);
      if (key !== undefined) found.set(fairnessKey, key);
      // Of what hints told, a key may have more lines, also where its keys line was read to its end since: it may have moved meanwhile.
      const isRead = key === undefined ? read.next === undefined : key.isHinted !== true;
      if (!isRead) missing.push(fairnessKey);
    }
    if (missing.length === 0 || configuration.types.length > LOOKED_TYPES_MAX) return found;
    const named = await store.readBacklogs({ partition: this.#input.partition, type, fairnessKeys: missing });
    for (const key of named) if (key !== undefined) found.set(key.fairnessKey, key);
    return found;
  }

  #shareOf(fairnessKey: string): number {
    const { ledgerCache } = this.#input;
    const costMs =
      (ledgerCache.ledgerOf(fairnessKey)?.settledCostMs ?? 0) + (this.#heldCostMs.get(fairnessKey) ?? 0);
    return costMs / ledgerCache.weightOf(fairnessKey);
  }

  /**
   * The least share among keys that wait or run, those that become active now left out; undefined: there are none. `unseen`:
   * keys met on the way that become active now, too, because no pass has seen their jobs before. Keys are met by share, so the
   * first one that is active ends the search.
   */
  async #leastShareMs(arriving: ReadonlySet<string>): Promise<Least> {
    const { ledgerCache } = this.#input;
    await ledgerCache.readLedgers(this.#heldCostMs.keys());
    let leastMs = Number.POSITIVE_INFINITY;
    for (const key of this.#heldCostMs.keys()) leastMs = Math.min(leastMs, this.#shareOf(key));
    const search: Search = {
      leastMs,
      linesLeft: LEAST_LINES_MAX,
      isCutShort: false,
      unseen: new Map(),
    };
    let hasKeys = false;
    const fresh: MetShare[] = [];
    for await (const page of this.#keysBelow.search(leastMs, search, arriving)) {
      hasKeys ||= page.hasKeys;
      const decided: MetShare[] = [];
      // A key about which nothing was decided is new if it has jobs at all. Its lines are read only if it could be lifted.
      for (const key of page.below) (this.#mayBeActive(key.fairnessKey) ? decided : fresh).push(key);
      await this.#considerInTurn(search, decided);
    }
    const coming = [...arriving, ...search.unseen.keys(), ...fresh.map(({ fairnessKey }) => fairnessKey)];
    if (search.leastMs < Infinity || coming.some((key) => this.#shareOf(key) !== 0))
      await this.#considerInTurn(search, fresh);
    const { isCutShort, unseen } = search;
    return {
      leastMs: Number.isFinite(search.leastMs) ? search.leastMs : undefined,
      unseen: [...unseen.values()],
      isCutShort,
      hasKeys,
    };
  }

  /** Considers these keys in the order of their shares, as long as they are below the least share found so far. */
  async #considerInTurn(search: Search, byShare: readonly MetShare[]): Promise<void> {
    let from = 0;
    for (let count = TOGETHER_MIN; (byShare[from]?.shareMs ?? Infinity) < search.leastMs; count *= 2) {
      await this.#consider(search, byShare.slice(from, from + count));
      from += count;
    }
  }

  /** The first of a key's jobs of a type that wait: of those in its ready lines, or else of those that are parked. */
  async #firstOf(key: Met, search: Search): Promise<readonly JobHead[]> {
    const { type, fairnessKey, lines, parked = [] } = key;
    search.linesLeft -= lines.length;
    const ready = await Promise.all(
      lines.map(({ mode }) => this.#input.waitingOf({ type, mode, fairnessKey }, '')),
    );
    const standing = ready.flat();
    if (standing.length > 0) return standing;
    search.linesLeft -= parked.length;
    const blocked = await Promise.all(
      parked.map(({ mode, conflictKey }) => this.#parkedOf(key, mode, conflictKey, -Infinity)),
    );
    return blocked.flat();
  }

  /** Reads which of these keys have waiting jobs, and takes their shares, or their arrival, into the search. */
  async #consider(search: Search, keys: readonly MetShare[]): Promise<void> {
    await this.#lookUp(
      keys.map(({ fairnessKey }) => fairnessKey).filter((fairnessKey) => this.#mayBeActive(fairnessKey)),
    );
    const waits = await Promise.all(
      keys.map(async (key) => {
        const { fairnessKey, shareMs } = key;
        if (search.unseen.has(fairnessKey)) return undefined;
        // No more lines may be read: the key counts as if it had jobs, which lifts less.
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

/** The search for the least share, as far as it is. */
interface Search extends LeastSoFar {
  linesLeft: number;
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

/**
 * Until when a job that was ready has waited for another time, or will wait. Undefined for one that is in its line, was given to a
 * worker, or was never ready.
 */
function waitedUntilMs(job: JobImage): number | undefined {
  const { state, runAtMs, firstReadyAtMs, finishedAtMs, cancelRequestedAtMs } = job;
  if (state === 'scheduled') return firstReadyAtMs === undefined ? undefined : runAtMs;
  if (state !== 'cancelled') return undefined;
  // If the job was tried before, `finishedAtMs` is the end of that attempt, which may be later than the cancellation's request.
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

/** The job that was ready first; if both were at the same instant, the one with the smaller id. */
function earlier(one: JobHead, other: JobHead): JobHead {
  if (one.readyAtMs !== other.readyAtMs) return one.readyAtMs < other.readyAtMs ? one : other;
  return one.id < other.id ? one : other;
}
