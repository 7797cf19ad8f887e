/** Answers what the planner asks for: keys with backlog, heads of their lines, and what their jobs are expected to cost. */
import type { Job } from '../core/job.ts';
import type { LineName, Planner, Step } from '../core/planner.ts';
import { rankKey } from '../core/score.ts';
import type { KeyBacklog, Ledger, Reservation } from '../store/contract.ts';
import { readyLineName } from '../store/schema.ts';
import type { Books } from './books.ts';
import type { DispatchContext } from './context.ts';
import { judge } from './judge.ts';
import { ANNOUNCE_EVERY_MS, readyLineOf } from './submit.ts';

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
  readonly hints: Iterable<Job>;
  /** After settlement: what still holds capacity. */
  readonly reservations: readonly Reservation[];
  /** Remembered from earlier passes: the least share among active keys. */
  readonly leastShareMs: number;
  readonly nowMs: number;
}

/** Lines retired in one pass: each is a write. */
const RETIRE_MAX = 25;

export class Candidates {
  readonly #context: DispatchContext;
  readonly #input: CandidatesInput;
  /** Pending hints by ready line. */
  readonly #hints: ReadonlyMap<string, readonly Job[]>;
  readonly #held = new Map<string, Held>();
  readonly #heldCostMs = new Map<string, number>();
  readonly #tierCursors = new Map<string, string | undefined>();
  readonly #lineCursors = new Map<string, string | undefined>();
  readonly #backlogs = new Map<string, KeyBacklog>();
  readonly #empty: LineName[] = [];
  readonly #lifted = new Map<string, Ledger>();
  #leastActiveShareMs = Number.POSITIVE_INFINITY;
  /** Jobs of held places that have moved on: the hint that should have settled them was lost. */
  readonly leftBehind: Job[] = [];

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
    await Promise.all([
      ...need.keys.map(({ tier, count }) => this.#offerKeys(planner, tier, count)),
      ...need.lines.map(({ line, count }) => this.#offerHeads(planner, line, count)),
    ]);
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

  async #offerKeys(planner: Planner, tier: string, count: number): Promise<void> {
    const { store, configuration } = this.#context;
    const { partition, books } = this.#input;
    const isFirst = !this.#tierCursors.has(tier);
    const read = await store.readKeys(partition, tier, count, this.#tierCursors.get(tier));
    this.#tierCursors.set(tier, read.next);
    for (const key of read.keys) this.#backlogs.set(backlogName(tier, key.fairnessKey), key);
    const lines = new Map(read.keys.map((key) => [key.fairnessKey, [...key.lines]]));
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
      })),
      read.next !== undefined,
    );
  }

  async #offerHeads(planner: Planner, line: LineName, count: number): Promise<void> {
    const { store, configuration } = this.#context;
    const { partition, books } = this.#input;
    const name = this.#nameOf(line);
    const isFirst = !this.#lineCursors.has(name);
    const read = await store.readLine(partition, line, count, this.#lineCursors.get(name));
    this.#lineCursors.set(name, read.next);
    const more = read.next !== undefined;
    const byId = new Map(read.jobs.map((job) => [job.id, job]));
    // A hint behind what was read is left to the index: the line's order must not have holes.
    const rankOf = (job: Job): string => rankKey(job, configuration.score);
    const last = read.jobs.at(-1);
    const end = more && last !== undefined ? rankOf(last) : undefined;
    for (const job of this.#hints.get(name) ?? []) {
      const isRead = end === undefined || rankOf(job) <= end;
      if (isRead && (byId.get(job.id)?.version ?? 0) < job.version) byId.set(job.id, job);
    }
    const free: Job[] = [];
    for (const job of byId.values()) {
      const held = this.#held.get(job.id);
      if (held === undefined) free.push(job);
      else this.#noteLeftBehind(held, job);
    }
    if (isFirst && byId.size === 0 && !more) this.#empty.push(line);
    await books.readEstimates(free);
    if (free.length > 0) this.#noteActive(planner, line.fairnessKey, free);
    free.sort((one, other) => (rankOf(one) < rankOf(other) ? -1 : 1));
    planner.offerHeads(line, free, more);
  }

  #noteLeftBehind({ reservation, position }: Held, job: Job): void {
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
  #noteActive(planner: Planner, fairnessKey: string, jobs: readonly Job[]): void {
    const ledger = this.#input.books.ledgerOf(fairnessKey);
    const isReturning =
      ledger !== undefined &&
      !this.#heldCostMs.has(fairnessKey) &&
      jobs.every((job) => job.readyAtMs > ledger.lastSeenMs);
    if (isReturning) planner.liftKey(fairnessKey, this.#lift(fairnessKey) ?? ledger.settledCostMs);
    else if (!this.#lifted.has(fairnessKey)) {
      const costMs = (ledger?.settledCostMs ?? 0) + (this.#heldCostMs.get(fairnessKey) ?? 0);
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
