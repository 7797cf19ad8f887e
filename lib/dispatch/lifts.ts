/**
 * Lifts: a key that becomes active, new or returning, starts at the least share among the keys that wait or run, so that
 * being away saves nothing up, and being new neither takes everything nor waits behind what others were charged before.
 *
 * The share is (settled + in flight) / weight, as it is at the first pass that has room for a job and is shown one of the
 * key's: it is not remembered, because a minimum that is remembered can only be a maximum of what was seen. The lift is written
 * with that pass, whether or not the job starts in it, so that nobody is pushed back by what others are charged later.
 * Source: fair-queuing, and the ruling that charges count from dispatch on.
 *
 * A key is away when none of its jobs that were ever ready is left. Its ledger says when it was last seen. A job that was
 * ready before that shows that it was never away, and so does one that waits to be tried again or was moved.
 */
import { firstReadyMs } from '../core/job.ts';
import type { LineName } from '../core/planner.ts';
import { type JobHead, type KeyBacklog, type Ledger, presentUntilMs } from '../store/contract.ts';
import type { Books } from './books.ts';
import type { DispatchContext } from './context.ts';
import { modesOf } from './line-parts.ts';
import type { RememberedKeys } from './remembered.ts';

/** Lines that are read to find the least share, in one pass; keys beyond count as if they had jobs, which lifts less. */
const LEAST_LINES_MAX = 100;
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
  readonly recentJobs: () => Iterable<JobHead>;
  readonly rankOf: (job: JobHead) => string;
}

export class Lifts {
  readonly #context: DispatchContext;
  readonly #input: LiftsInput;
  readonly #heldCostMs = new Map<string, number>();
  /** Keys that need not be looked at again in this pass. */
  readonly #seen = new Set<string>();
  /** By key: the lines that it has, as they were looked up in this pass. */
  readonly #backlogs = new Map<
    string,
    readonly { readonly type: string; readonly lines: KeyBacklog['lines'] }[]
  >();
  #toWrite = new Map<string, Ledger>();

  constructor(context: DispatchContext, input: LiftsInput) {
    this.#context = context;
    this.#input = input;
    for (const { fairnessKey, estimatedCostMs } of input.held)
      this.#heldCostMs.set(fairnessKey, (this.#heldCostMs.get(fairnessKey) ?? 0) + estimatedCostMs);
  }

  /** Lifts the keys of these jobs, which wait, as far as those are new or have been away. Answers their ledgers. */
  async lift(jobs: readonly JobHead[]): Promise<readonly Ledger[]> {
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
    if (byKey.size === 0) return kept;
    await this.#lookUp([...byKey.keys()].filter((key) => books.ledgerOf(key) !== undefined));
    const arrivals: Arrival[] = [];
    for (const [fairnessKey, ofKey] of byKey) {
      this.#seen.add(fairnessKey);
      if (!(await this.#isActive(fairnessKey, ofKey))) arrivals.push(arrivalOf(fairnessKey, ofKey));
    }
    if (arrivals.length === 0) return kept;
    const least = await this.#leastShareMs(new Set(arrivals.map(({ fairnessKey }) => fairnessKey)));
    // Those that no pass has met so far come with these.
    for (const { fairnessKey } of least.unseen) this.#seen.add(fairnessKey);
    arrivals.push(...least.unseen);
    let { leastMs } = least;
    const inOrder = leastMs === undefined ? await this.#byFirst(arrivals) : arrivals;
    const lifted = inOrder.map(({ fairnessKey }) => {
      const ledger = books.lift(fairnessKey, leastMs);
      this.#toWrite.set(fairnessKey, ledger);
      const shareMs = ledger.settledCostMs / books.weightOf(fairnessKey);
      leastMs = Math.min(leastMs ?? shareMs, shareMs);
      return ledger;
    });
    return [...kept, ...lifted];
  }

  /** Ledgers that seemed to have expired: jobs of their keys have been waiting since before. */
  async #kept(jobs: readonly JobHead[]): Promise<readonly Ledger[]> {
    const { books } = this.#input;
    const keys = [...new Set(jobs.map(({ fairnessKey }) => fairnessKey))];
    const expired = keys.filter((fairnessKey) => books.ledgerOf(fairnessKey) === undefined);
    for (const job of jobs) books.noteActive(job.fairnessKey, firstReadyMs(job));
    for (const fairnessKey of keys) {
      const untilMs = books.expiredMs(fairnessKey);
      if (untilMs === undefined) continue;
      if (!expired.includes(fairnessKey)) expired.push(fairnessKey);
      // An older job of its may stand behind those, or in another line.
      const older = await this.#findReady(fairnessKey, jobs, untilMs);
      if (older !== undefined) books.noteActive(fairnessKey, firstReadyMs(older));
    }
    return expired.flatMap((fairnessKey) => books.ledgerOf(fairnessKey) ?? []);
  }

  /** Jobs that were ready before and wait for a time to come: until then, their keys are not away. */
  async keepPresent(jobs: readonly JobHead[]): Promise<void> {
    const { books } = this.#input;
    if (this.#context.configuration.fairness.idlePolicy !== 'advance') return;
    const again = jobs.filter((job) => job.state === 'scheduled' && job.firstReadyAtMs !== undefined);
    await books.readLedgers(again.map(({ fairnessKey }) => fairnessKey));
    for (const job of again) {
      const { fairnessKey, runAtMs } = job;
      // One that nothing has been decided of yet comes when its job does.
      const isPresent = this.#heldCostMs.has(fairnessKey) || (await this.#isActive(fairnessKey, [job]));
      const kept = isPresent ? books.keepPresent(fairnessKey, runAtMs) : undefined;
      if (kept !== undefined) this.#toWrite.set(fairnessKey, kept);
    }
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
    const ledger = this.#input.books.ledgerOf(fairnessKey);
    if (ledger === undefined) return false;
    return (await this.#findReady(fairnessKey, waiting, presentUntilMs(ledger))) !== undefined;
  }

  /** A job of the key that waits and was ready by then. */
  async #findReady(
    fairnessKey: string,
    known: readonly JobHead[],
    untilMs: number,
  ): Promise<JobHead | undefined> {
    const wasReady = (job: JobHead): boolean =>
      job.fairnessKey === fairnessKey && firstReadyMs(job) <= untilMs;
    const met = known.find(wasReady) ?? [...this.#input.recentJobs()].find(wasReady);
    if (met !== undefined) return met;
    for await (const waiting of this.#waitingBy(fairnessKey, untilMs)) {
      const found = waiting.find(wasReady);
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
    const waiting = [first];
    for (const job of this.#input.recentJobs()) if (job.fairnessKey === fairnessKey) waiting.push(job);
    for await (const jobs of this.#waitingBy(fairnessKey, firstReadyMs(first))) waiting.push(...jobs);
    return arrivalOf(fairnessKey, waiting);
  }

  /** By line, the key's jobs that wait, with all those that were ready by an instant. */
  async *#waitingBy(fairnessKey: string, readyAtMs: number): AsyncGenerator<readonly JobHead[]> {
    await this.#lookUp([fairnessKey]);
    for (const { type, lines } of this.#backlogs.get(fairnessKey) ?? []) {
      for (const mode of modesOf(lines)) {
        const line = { type, mode, fairnessKey };
        yield this.#input.waitingOf(line, lines, this.#rankAt(line, readyAtMs));
      }
    }
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
        const lines = byType[at]?.get(fairnessKey) ?? [];
        return lines.length > 0 ? [{ type, lines }] : [];
      });
      this.#backlogs.set(fairnessKey, found);
    }
  }

  async #linesOf(
    type: string,
    fairnessKeys: readonly string[],
  ): Promise<ReadonlyMap<string, KeyBacklog['lines']>> {
    const { store, configuration } = this.#context;
    const { keys, next } = await this.#input.keysOf(type, 0);
    const found = new Map(keys.map((key) => [key.fairnessKey, key.lines]));
    if (next === undefined || configuration.types.length > LOOKED_TYPES_MAX) return found;
    const missing = fairnessKeys.filter((fairnessKey) => !found.has(fairnessKey));
    if (missing.length === 0) return found;
    const named = await store.readBacklogs(this.#input.partition, type, missing);
    for (const key of named) if (key !== undefined) found.set(key.fairnessKey, key.lines);
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
   * keys met on the way that become active now, too, because no pass has seen their jobs before.
   */
  async #leastShareMs(arriving: ReadonlySet<string>): Promise<Least> {
    const { books } = this.#input;
    const { types, fairness } = this.#context.configuration;
    await books.readLedgers([
      ...this.#heldCostMs.keys(),
      ...Array.from(this.#input.recentJobs(), ({ fairnessKey }) => fairnessKey),
    ]);
    let leastMs = Math.min(...[...this.#heldCostMs.keys()].map((key) => this.#shareOf(key)));
    let linesLeft = LEAST_LINES_MAX;
    const unseen = new Map<string, Arrival>();
    const consider = async (type: string, key: KeyBacklog): Promise<void> => {
      const { fairnessKey, lines } = key;
      if (arriving.has(fairnessKey) || this.#heldCostMs.has(fairnessKey)) return;
      if (unseen.has(fairnessKey)) return;
      const shareMs = this.#shareOf(fairnessKey);
      if (shareMs >= leastMs) return;
      for (const mode of modesOf(lines)) {
        if (linesLeft <= 0) {
          leastMs = shareMs;
          return;
        }
        linesLeft -= 1;
        const jobs = await this.#input.waitingOf({ type, mode, fairnessKey }, lines, '');
        if (jobs.length === 0) continue;
        if (await this.#isActive(fairnessKey, jobs)) leastMs = this.#shareOf(fairnessKey);
        else unseen.set(fairnessKey, arrivalOf(fairnessKey, jobs));
        return;
      }
    };
    // Ranks never say more than was charged; after a reset they say nothing.
    const isBehind = (key: KeyBacklog): boolean =>
      fairness.resetEveryMs === null && key.rankCostMs / fairness.defaultWeight >= leastMs;
    for (const { type } of types) {
      const named = await this.#input.namedOf(type);
      await books.readLedgers(named.map(({ fairnessKey }) => fairnessKey));
      for (const key of named) await consider(type, key);
      for (let from = 0; ; ) {
        const { keys, next } = await this.#input.keysOf(type, from);
        const page = keys.slice(from).filter((key) => !isBehind(key));
        await books.readLedgers(page.map(({ fairnessKey }) => fairnessKey));
        for (const key of page) await consider(type, key);
        if (next === undefined || page.length < keys.length - from) break;
        from = keys.length;
      }
    }
    // Keys that came since their line was read.
    for (const { type, mode, fairnessKey } of this.#input.recentJobs())
      await consider(type, { fairnessKey, lines: [{ mode }], announcedAtMs: 0, rankCostMs: 0 });
    return { leastMs: Number.isFinite(leastMs) ? leastMs : undefined, unseen: [...unseen.values()] };
  }
}

interface Least {
  readonly leastMs: number | undefined;
  readonly unseen: readonly Arrival[];
}

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
