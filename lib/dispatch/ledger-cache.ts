/**
 * What a pass knows of a partition's costs: ledgers of fairness keys and learned costs, as read, and as settlement changes
 * them. Ledgers that changed are written with the settlement itself, and what was learned right behind it.
 */

import { type Weights, weightsNow } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { expectedCostMs, observe, WHOLE_TYPE } from '../core/estimate.ts';
import { correctionMs, liftedCostMs } from '../core/fairness.ts';
import type { Job } from '../core/job.ts';
import { hashText } from '../core/partition.ts';
import { LATER_JOBS_MAX } from '../store/bounds.ts';
import type { LineStore } from '../store/contract.ts';
import {
  type EstimateRecord,
  type LaterJob,
  type Ledger,
  type PartitionState,
  presentUntilMs,
} from '../store/records.ts';
import { type CachedLines, noteMovedBack, type PartitionCache } from './partition-cache.ts';
import type { Settled } from './settle/settled.ts';

/** Names what was learned of a type on a resource. */
interface EstimateName {
  readonly type: string;
  readonly resourceId: string;
}

// The length of the type keeps names apart where a type or a resource contains a line break.
export const nameOfEstimate = ({ type, resourceId }: EstimateName): string =>
  `${type.length}\n${type}\n${resourceId}`;

const ONLY_TYPE: readonly string[] = [WHOLE_TYPE];

export class LedgerCache {
  readonly #store: Pick<LineStore, 'getLedgers' | 'getEstimates'>;
  readonly #configuration: PoolConfiguration;
  readonly #partition: number;
  readonly #nowMs: number;
  readonly #newsShare: number;
  readonly #ledgers: Map<string, Ledger | undefined>;
  readonly #estimates: Map<string, EstimateRecord | undefined>;
  /** By fairness key: the read that will tell its ledger. */
  readonly #reading = new Map<string, Promise<void>>();
  #weights: Weights;
  readonly #written: Map<string, EstimateRecord>;
  readonly #lines: CachedLines;
  readonly #typeNames = new Map<string, string>();
  /** Since when, at least, keys have jobs: their ledgers do not expire meanwhile. */
  readonly #activeSinceMs = new Map<string, number>();
  /** What lifted keys had before, as long as their lift is not written. */
  readonly #beforeLift = new Map<string, Ledger | undefined>();

  constructor(
    store: Pick<LineStore, 'getLedgers' | 'getEstimates'>,
    configuration: PoolConfiguration,
    partition: number,
    nowMs: number,
    cached: PartitionCache,
    /** A resource's learned cost is written when it has moved by this part of itself. Only settlements need it. */
    newsShare = 0,
  ) {
    this.#newsShare = newsShare;
    this.#store = store;
    this.#configuration = configuration;
    this.#weights = weightsNow(configuration, []);
    this.#partition = partition;
    this.#nowMs = nowMs;
    this.#ledgers = cached.ledgers;
    this.#estimates = cached.estimates;
    this.#written = cached.written;
    this.#lines = cached.lines;
  }

  /** What came with the partition's own read need not be read again. */
  know({ ledgers, estimates, controls }: Pick<PartitionState, 'ledgers' | 'estimates' | 'controls'>): void {
    this.#weights = weightsNow(this.#configuration, controls);
    for (const ledger of ledgers) this.#ledgers.set(ledger.fairnessKey, ledger);
    for (const estimate of estimates) this.#estimates.set(nameOfEstimate(estimate), estimate);
  }

  /** Reads the ledgers that are not known yet, and that nobody is reading: those of one key are asked for by each of its types. */
  async readLedgers(fairnessKeys: Iterable<string>): Promise<void> {
    const missing = new Set<string>();
    const reads = new Set<Promise<void>>();
    for (const key of fairnessKeys) {
      if (this.#ledgers.has(key)) continue;
      const read = this.#reading.get(key);
      if (read === undefined) missing.add(key);
      else reads.add(read);
    }
    if (missing.size > 0) {
      const read = this.#readNow([...missing]).finally(() => {
        for (const key of missing) this.#reading.delete(key);
      });
      for (const key of missing) this.#reading.set(key, read);
      reads.add(read);
    }
    await Promise.all(reads);
  }

  async #readNow(fairnessKeys: readonly string[]): Promise<void> {
    const found = await this.#store.getLedgers({ partition: this.#partition, fairnessKeys });
    for (const [at, key] of fairnessKeys.entries()) this.#ledgers.set(key, found[at]);
  }

  /** Reads the learned costs that these jobs need and that are not known yet. */
  async readEstimates(jobs: Iterable<Pick<Job, 'type' | 'resourceId'>>): Promise<void> {
    const missing = new Map<string, EstimateName>();
    for (const { type, resourceId } of jobs) {
      for (const id of this.#resourcesOf(resourceId)) {
        const name = this.#nameOf(type, id);
        if (!this.#estimates.has(name)) missing.set(name, { type, resourceId: id });
      }
    }
    if (missing.size === 0) return;
    const found = await this.#store.getEstimates({ partition: this.#partition, ids: [...missing.values()] });
    for (const [at, name] of [...missing.keys()].entries()) this.#estimates.set(name, found[at]);
  }

  /** Whether it was read which ledger the key has, if any. */
  isKnown(fairnessKey: string): boolean {
    return this.#ledgers.has(fairnessKey);
  }

  ledgerOf(fairnessKey: string): Ledger | undefined {
    return this.#current(this.#ledgers.get(fairnessKey));
  }

  /**
   * Of a key whose ledger has expired by what is known: until when a job of its must have been ready that shows that the key was
   * not idle for so long. Undefined: the ledger counts, or there is none.
   */
  expiredMs(fairnessKey: string): number | undefined {
    const ledger = this.#ledgers.get(fairnessKey);
    const { keyTtlMs } = this.#configuration.fairness;
    if (ledger === undefined || keyTtlMs === null || this.#isCounted(ledger)) return undefined;
    return presentUntilMs(ledger) + keyTtlMs - 1;
  }

  /** Notes that the key has a job that was waiting or in flight at this instant already, so it has not been idle since. */
  noteActive(fairnessKey: string, sinceMs: number): void {
    const known = this.#activeSinceMs.get(fairnessKey);
    if (known === undefined || sinceMs < known) this.#activeSinceMs.set(fairnessKey, sinceMs);
  }

  /**
   * Keys whose jobs start. Answers ledgers that are to be written, because what is in flight does not tell that its key waited
   * before: those that were last seen so long ago that they might expire meanwhile.
   */
  seeStarts(fairnessKeys: Iterable<string>): readonly Ledger[] {
    const { keyTtlMs } = this.#configuration.fairness;
    if (keyTtlMs === null) return [];
    return [...new Set(fairnessKeys)].flatMap((fairnessKey) => {
      const ledger = this.ledgerOf(fairnessKey);
      if (ledger === undefined || this.#nowMs - presentUntilMs(ledger) <= keyTtlMs / 2) return [];
      const seen = this.#withLater(ledger, ledger.later, this.#nowMs);
      this.#change(seen);
      return [seen];
    });
  }

  /** Keys with a weight of their own, declared or an operator's: the order of the keys line, which is by cost, says nothing of their shares. */
  get weighted(): readonly string[] {
    return this.#weights.named;
  }

  weightOf(fairnessKey: string): number {
    return this.#weights.of(fairnessKey);
  }

  /** What an attempt is expected to cost, by what was read. */
  costMs(type: string, resourceId: string | undefined): number {
    return this.#costMsBy(this.#known(this.#nameOf(type, resourceId ?? WHOLE_TYPE)), type);
  }

  /** @param own - what is known of the resource, or of the type where the attempt has none */
  #costMsBy(own: EstimateRecord | undefined, type: string): number {
    const declared = typesByName(this.#configuration).get(type);
    const lent = this.#teachesType ? this.#known(this.#nameOf(type, WHOLE_TYPE)) : undefined;
    return expectedCostMs(own, lent, declared?.defaultCostMs ?? 0);
  }

  /**
   * A key that becomes active, new or returning, is lifted to the least share among active keys; undefined: there are none,
   * and it stays where it is. It counts as seen from now on.
   */
  lift(fairnessKey: string, leastShareMs: number | undefined): Ledger {
    const known = this.ledgerOf(fairnessKey);
    const settledCostMs = liftedCostMs(known?.settledCostMs ?? 0, this.weightOf(fairnessKey), leastShareMs);
    const ledger = this.#withLater({ fairnessKey, settledCostMs, lastSeenMs: this.#nowMs }, known?.later);
    if (!this.#beforeLift.has(fairnessKey)) this.#beforeLift.set(fairnessKey, this.#ledgers.get(fairnessKey));
    this.#change(ledger);
    return ledger;
  }

  /** Whether the key's ledger says that this job waits until then, or that the key is there whatever becomes of the job. */
  isLater(fairnessKey: string, jobId: string, untilMs: number): boolean {
    const ledger = this.ledgerOf(fairnessKey);
    if (ledger === undefined) return false;
    const hash = hashText(jobId);
    const known = ledger.later?.find((job) => job.hash === hash);
    return (
      known?.untilMs === untilMs ||
      (known === undefined && Math.max(ledger.lastSeenMs, ledger.presentUntilMs ?? 0) >= untilMs)
    );
  }

  /**
   * One of the key's jobs, which was ready before, waits for a time that is still to come: as long as it does, the key is not
   * away. Answers the ledger to be written.
   *
   * @param isDecided - whether the key came before, and is not to be lifted as long as it stays
   */
  noteLater(fairnessKey: string, jobId: string, untilMs: number, isDecided: boolean): Ledger {
    const known = this.ledgerOf(fairnessKey) ?? { fairnessKey, settledCostMs: 0, lastSeenMs: this.#nowMs };
    const { isUndecided: _, ...decided } = known;
    const later = laterOf(jobId, untilMs, known.later);
    const kept = this.#withLater(isDecided ? decided : { ...decided, isUndecided: true }, later);
    this.#change(kept);
    return kept;
  }

  /**
   * One of the key's jobs was cancelled: until then it kept the key from being away. Answers the ledger to be written;
   * undefined: it says so already, or there is none.
   */
  noteCancelled(fairnessKey: string, jobId: string, untilMs: number, isDecided: boolean): Ledger | undefined {
    const known = this.ledgerOf(fairnessKey);
    if (known === undefined) return undefined;
    const later = laterOf(jobId, undefined, known.later);
    const isNamed = later.length < (known.later?.length ?? 0);
    // That its key was there counts for the time after which it is forgotten, also if nobody has decided whether it is lifted.
    const counts = isDecided || this.#configuration.fairness.keyTtlMs !== null;
    if (!isNamed && (!counts || presentUntilMs(known) >= untilMs)) return undefined;
    const { isUndecided: _, ...decided } = known;
    const ledger = isDecided ? decided : { ...decided, isUndecided: true };
    const kept = this.#withLater(ledger, later, counts ? untilMs : 0);
    this.#change(kept);
    return kept;
  }

  /**
   * A ledger with these jobs that wait for a later time, and the key there until an instant. Of more than it names, and of those
   * whose time has come, it says until when they waited.
   */
  #withLater(ledger: Ledger, jobs: readonly LaterJob[] = [], untilMs = 0): Ledger {
    const { later: _, presentUntilMs: before = 0, ...rest } = ledger;
    const latestFirst = [...jobs].sort((one, other) => other.untilMs - one.untilMs);
    const later = latestFirst.filter((job) => job.untilMs > this.#nowMs).slice(0, LATER_JOBS_MAX);
    const presentMs = Math.max(before, untilMs, latestFirst[later.length]?.untilMs ?? 0);
    return {
      ...rest,
      ...(presentMs > rest.lastSeenMs ? { presentUntilMs: presentMs } : {}),
      ...(later.length > 0 ? { later } : {}),
    };
  }

  /** A ledger that is to be written. */
  #change(ledger: Ledger): void {
    const { fairnessKey, settledCostMs } = ledger;
    // What was charged before a reset, or before the ledger expired, is forgiven. Of a ledger that is gone nobody knows it.
    if (settledCostMs < (this.#ledgers.get(fairnessKey)?.settledCostMs ?? Infinity))
      noteMovedBack(this.#lines, fairnessKey, this.#nowMs);
    this.#ledgers.set(fairnessKey, ledger);
  }

  /** These lifts are written. */
  keepLifts(fairnessKeys: Iterable<string>): void {
    for (const fairnessKey of fairnessKeys) this.#beforeLift.delete(fairnessKey);
  }

  /** Takes back lifts that no commit has written, so that nobody takes them for what the store has. */
  undoLifts(): void {
    for (const [fairnessKey, ledger] of this.#beforeLift) this.#ledgers.set(fairnessKey, ledger);
    this.#beforeLift.clear();
  }

  /** Charges what an attempt used, and learns from it. Answers what changed. */
  settle({ entry, resourceId, durationMs, succeeded, againAtMs }: Settled): {
    readonly ledgers: readonly Ledger[];
    readonly estimates: readonly EstimateRecord[];
  } {
    const { fairness } = this.#configuration;
    const charged = entry.estimatedCostMs;
    const {
      settledCostMs: beforeMs = 0,
      presentUntilMs: untilMs,
      later: before,
    } = this.ledgerOf(entry.fairnessKey) ?? {};
    const settledCostMs = beforeMs + charged + correctionMs(charged, durationMs, fairness);
    const ledger = this.#withLater(
      { fairnessKey: entry.fairnessKey, settledCostMs, lastSeenMs: this.#nowMs },
      laterOf(entry.id, againAtMs, before),
      untilMs,
    );
    this.#change(ledger);
    const estimates =
      succeeded && durationMs !== undefined ? this.#learn(entry.type, resourceId, durationMs) : [];
    return { ledgers: [ledger], estimates };
  }

  #learn(type: string, resourceId: string | undefined, durationMs: number): readonly EstimateRecord[] {
    const startMs = this.#costMsBy(undefined, type);
    const changed: EstimateRecord[] = [];
    for (const id of this.#resourcesOf(resourceId)) {
      const name = this.#nameOf(type, id);
      const learned = observe(this.#known(name), durationMs, startMs, this.#configuration.fairness.alpha);
      const record = { type, resourceId: id, ...learned, lastSeenMs: this.#nowMs };
      const known = this.#estimates.get(name);
      if (known !== undefined && !this.#written.has(name)) this.#written.set(name, known);
      this.#estimates.set(name, record);
      // Those of whole types stand in the page, which is written anyway.
      if (id !== WHOLE_TYPE && !this.#isNews(this.#written.get(name), record)) continue;
      this.#written.set(name, record);
      changed.push(record);
    }
    return changed;
  }

  /**
   * Whether the store should hear of it: an item of its own is two write units, and what a learned cost is for, charging
   * an attempt that is trued up later, bears a tenth. The learning itself goes on in memory.
   */
  #isNews(written: EstimateRecord | undefined, learned: EstimateRecord): boolean {
    if (written === undefined || learned.samples >= 2 * written.samples) return true;
    const ttlMs = this.#configuration.fairness.estimateTtlMs;
    if (ttlMs !== null && learned.lastSeenMs - written.lastSeenMs > ttlMs / 4) return true;
    return Math.abs(learned.meanMs - written.meanMs) > this.#newsShare * written.meanMs;
  }

  #known(name: string): EstimateRecord | undefined {
    const record = this.#estimates.get(name);
    const ttlMs = this.#configuration.fairness.estimateTtlMs;
    return record !== undefined && ttlMs !== null && this.#nowMs - record.lastSeenMs > ttlMs
      ? undefined
      : record;
  }

  get #teachesType(): boolean {
    return this.#configuration.fairness.estimateFallback !== 'default';
  }

  /** What an attempt teaches: its resource, and its type. */
  #resourcesOf(resourceId: string | undefined): readonly string[] {
    if (resourceId === undefined || resourceId === WHOLE_TYPE) return ONLY_TYPE;
    return this.#teachesType ? [resourceId, WHOLE_TYPE] : [resourceId];
  }

  /** Names of types are needed for every job, so they are made once. */
  #nameOf(type: string, resourceId: string): string {
    if (resourceId !== WHOLE_TYPE) return nameOfEstimate({ type, resourceId });
    let name = this.#typeNames.get(type);
    if (name === undefined) {
      name = nameOfEstimate({ type, resourceId });
      this.#typeNames.set(type, name);
    }
    return name;
  }

  /** The ledger as it counts now: an idle key's is dropped, and a reset forgives what was charged before it. */
  #current(ledger: Ledger | undefined): Ledger | undefined {
    if (ledger === undefined) return undefined;
    if (!this.#isCounted(ledger)) return undefined;
    const { resetEveryMs } = this.#configuration.fairness;
    const wasReset =
      resetEveryMs !== null &&
      Math.floor(ledger.lastSeenMs / resetEveryMs) < Math.floor(this.#nowMs / resetEveryMs);
    return wasReset ? { ...ledger, settledCostMs: 0 } : ledger;
  }

  /** Whether the key was not idle for its ledger's time to live, by what is known. */
  #isCounted(ledger: Ledger): boolean {
    const { keyTtlMs } = this.#configuration.fairness;
    const presentMs = presentUntilMs(ledger);
    // Most have been there lately.
    if (keyTtlMs === null || this.#nowMs - presentMs < keyTtlMs) return true;
    return (this.#activeSinceMs.get(ledger.fairnessKey) ?? Infinity) - presentMs < keyTtlMs;
  }
}

/** Jobs of a key that wait for a later time, one of them anew, or not any more. */
function laterOf(
  id: string,
  untilMs: number | undefined,
  before: readonly LaterJob[] = [],
): readonly LaterJob[] {
  // Most keys have none: the hash of a job's id is not needed then.
  if (untilMs === undefined && before.length === 0) return [];
  const hash = hashText(id);
  const others = before.filter((job) => job.hash !== hash);
  return untilMs === undefined ? others : [...others, { hash, untilMs }];
}
