/**
 * The costs that a pass knows of a partition: the ledgers of fairness keys and the learned costs of types and resources, as read
 * and as settlement changes them. Changed ledgers are written in the settlement's own commit, and learned costs right after it.
 */

import { type Weights, weightsWithOverrides } from '../../core/capacity.ts';
import type { PoolConfiguration } from '../../core/configuration.ts';
import { typesByName } from '../../core/conflict.ts';
import { expectedCostMs, observe, TYPE_AVERAGE_RESOURCE } from '../../core/estimate.ts';
import { correctionMs, resetAtMs } from '../../core/fairness.ts';
import type { Job, ReservedJob } from '../../core/job.ts';
import { limitsOf, liveUses, NO_USES, type Uses, withAttempt } from '../../core/limits.ts';
import type { KeyLedger } from '../../core/planner.ts';
import { allEnded } from '../../runtime/all-ended.ts';
import type { LineStore } from '../../store/contract/core.ts';
import type { EstimateRecord, Ledger, PartitionState, Reservation } from '../../store/contract/records.ts';
import type { PartitionCache } from './partition-cache.ts';
import type { Settled } from './settled.ts';

/** Names the learned cost of a type on a resource. */
interface EstimateName {
  readonly type: string;
  readonly resourceId: string;
}

// Returns a name for the learned cost of a type on a resource. The length of the type keeps names apart even if a type
// or a resource contains a line break.
export const nameOfEstimate = ({ type, resourceId }: EstimateName): string =>
  `${type.length}\n${type}\n${resourceId}`;

const NO_LEDGERS: ReadonlyMap<string, Uses> = new Map();

const ONLY_TYPE: readonly string[] = [TYPE_AVERAGE_RESOURCE];

/**
 * Returns the jobs in flight, each with the cost that it is charged now. After a reset, jobs that were reserved before
 * it are charged nothing.
 */
export function chargedOf(
  reservations: readonly Pick<Reservation, 'reservedAtMs' | 'jobs'>[],
  fairness: PoolConfiguration['fairness'],
  nowMs: number,
): readonly ReservedJob[] {
  const fromMs = resetAtMs(fairness, nowMs);
  return reservations.flatMap(({ reservedAtMs, jobs }) =>
    reservedAtMs < fromMs
      ? Array.from(jobs.values(), (entry) => ({ ...entry, estimatedCostMs: 0 }))
      : [...jobs.values()],
  );
}

export class LedgerCache {
  readonly #store: Pick<LineStore, 'getLedgers' | 'getEstimates'>;
  readonly #configuration: PoolConfiguration;
  readonly #partition: number;
  readonly #nowMs: number;
  /**
   * The share of its value by which a resource's learned cost must have moved before it is written. Only settlements
   * use it.
   */
  readonly #newsShare: number;
  readonly #cached: PartitionCache;
  /** Reads in progress, by the fairness key whose ledger they read. */
  readonly #reading = new Map<string, Promise<void>>();
  #weights: Weights;
  /** Uses of limits by ended attempts, over all keys. */
  uses: Uses | undefined;
  /** By fairness key: since when one of its jobs is in flight, epoch ms. Its ledger does not expire meanwhile. */
  readonly #inFlightSinceMs = new Map<string, number>();

  constructor(
    store: Pick<LineStore, 'getLedgers' | 'getEstimates'>,
    configuration: PoolConfiguration,
    partition: number,
    nowMs: number,
    cached: PartitionCache,
    newsShare = 0,
  ) {
    this.#store = store;
    this.#configuration = configuration;
    this.#partition = partition;
    this.#nowMs = nowMs;
    this.#cached = cached;
    this.#newsShare = newsShare;
    this.#weights = weightsWithOverrides(configuration, []);
  }

  /** Adds the ledgers, costs and uses that the load of the partition has read. */
  know({
    ledgers,
    estimates,
    controls,
    uses,
  }: Pick<PartitionState, 'ledgers' | 'estimates' | 'controls' | 'uses'>): void {
    this.uses = liveUses(uses, this.#nowMs);
    this.#weights = weightsWithOverrides(this.#configuration, controls);
    for (const ledger of ledgers) this.#cached.ledgers.set(ledger.fairnessKey, ledger);
    for (const estimate of estimates) this.#cached.estimates.set(nameOfEstimate(estimate), estimate);
  }

  noteInFlight(reservations: Iterable<Pick<Reservation, 'reservedAtMs' | 'jobs'>>): void {
    for (const { reservedAtMs, jobs } of reservations) {
      for (const { fairnessKey } of jobs.values()) {
        const sinceMs = this.#inFlightSinceMs.get(fairnessKey) ?? Infinity;
        if (reservedAtMs < sinceMs) this.#inFlightSinceMs.set(fairnessKey, reservedAtMs);
      }
    }
  }

  /** Reads ledgers that are neither known nor being read. A key with several types asks for its ledger several times. */
  async readLedgers(fairnessKeys: Iterable<string>): Promise<void> {
    const missing = new Set<string>();
    const reads = new Set<Promise<void>>();
    for (const key of fairnessKeys) {
      if (this.#cached.ledgers.has(key)) continue;
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
    await allEnded([...reads]);
  }

  async #readNow(fairnessKeys: readonly string[]): Promise<void> {
    const found = await this.#store.getLedgers({ partition: this.#partition, fairnessKeys });
    for (const [at, key] of fairnessKeys.entries()) this.#cached.ledgers.set(key, found[at]);
  }

  /** Reads the learned costs that these jobs need and that are not known. */
  async readEstimates(jobs: Iterable<Pick<Job, 'type' | 'resourceId'>>): Promise<void> {
    const missing = new Map<string, EstimateName>();
    for (const { type, resourceId } of jobs) {
      for (const id of this.#resourcesOf(resourceId)) {
        const name = nameOfEstimate({ type, resourceId: id });
        if (!this.#cached.estimates.has(name)) missing.set(name, { type, resourceId: id });
      }
    }
    if (missing.size === 0) return;
    const found = await this.#store.getEstimates({ partition: this.#partition, ids: [...missing.values()] });
    for (const [at, name] of [...missing.keys()].entries()) this.#cached.estimates.set(name, found[at]);
  }

  /** Whether the key's ledger was read, even if it has none. */
  isKnown(fairnessKey: string): boolean {
    return this.#cached.ledgers.has(fairnessKey);
  }

  ledgerOf(fairnessKey: string): Ledger | undefined {
    return this.#current(this.#cached.ledgers.get(fairnessKey));
  }

  /** Returns the ledger as the planner needs it. Undefined: the key has none. */
  keyLedgerOf(fairnessKey: string): KeyLedger | undefined {
    const ledger = this.ledgerOf(fairnessKey);
    const uses = this.#usesOf(fairnessKey);
    if (ledger === undefined) return uses && { fairnessKey, settledCostMs: 0, uses };
    const { settledCostMs, lastSeenMs: touchedAtMs } = ledger;
    return { fairnessKey, settledCostMs, touchedAtMs, ...(uses === undefined ? {} : { uses }) };
  }

  /**
   * Returns the uses of limits that still count for a key. A use counts until its window ends, even if the key's ledger
   * has expired.
   */
  #usesOf(fairnessKey: string): Uses | undefined {
    return liveUses(this.#cached.ledgers.get(fairnessKey)?.uses, this.#nowMs);
  }

  /** The uses that these ledgers keep, by their names. They must have been read. */
  usesOf(ledgers: Iterable<string>): ReadonlyMap<string, Uses> {
    return new Map(
      Array.from(ledgers, (name) => [name, this.#usesOf(name)] as const).flatMap(([name, uses]) =>
        uses === undefined ? [] : [[name, uses] as const],
      ),
    );
  }

  /**
   * Updates the ledgers of keys that a plan has raised, or that have newly arrived. Returns the ledgers to write. A key
   * that was not raised and whose job starts is not among them, because its ledger is written when that job ends.
   */
  raise(raised: readonly KeyLedger[], starts: ReadonlySet<string>): readonly Ledger[] {
    return raised.flatMap(({ fairnessKey, settledCostMs }) => {
      const knownMs = this.ledgerOf(fairnessKey)?.settledCostMs ?? 0;
      if (settledCostMs === knownMs && starts.has(fairnessKey)) return [];
      const uses = this.#usesOf(fairnessKey);
      const ledger = {
        fairnessKey,
        settledCostMs,
        lastSeenMs: this.#nowMs,
        ...(uses === undefined ? {} : { uses }),
      };
      this.#change(ledger);
      return [ledger];
    });
  }

  /**
   * Returns the keys with a weight of their own, by declaration or by an operator. The keys line is ordered by cost
   * alone, so their position in it is not that of their share.
   */
  get weighted(): readonly string[] {
    return this.#weights.named;
  }

  weightOf(fairnessKey: string): number {
    return this.#weights.of(fairnessKey);
  }

  /** Returns the expected cost of an attempt, from the ledgers and costs that were read. */
  costMs(type: string, resourceId: string | undefined): number {
    return this.#costMsBy(
      this.#known(nameOfEstimate({ type, resourceId: resourceId ?? TYPE_AVERAGE_RESOURCE })),
      type,
    );
  }

  /** @param own - learned cost of the resource, or of the type if the attempt has no resource */
  #costMsBy(own: EstimateRecord | undefined, type: string): number {
    const declared = typesByName(this.#configuration).get(type);
    const lent = this.#teachesType
      ? this.#known(nameOfEstimate({ type, resourceId: TYPE_AVERAGE_RESOURCE }))
      : undefined;
    return expectedCostMs(own, lent, declared?.defaultCostMs ?? 0);
  }

  /** Changes a ledger in memory, and notes if its key moves to the front. */
  #change(ledger: Ledger): void {
    const { fairnessKey, settledCostMs } = ledger;
    // A charge from before a reset, or before the ledger expired, is dropped. If the old ledger is unknown, its key may have
    // moved.
    if (settledCostMs < (this.#cached.ledgers.get(fairnessKey)?.settledCostMs ?? Infinity))
      this.#cached.view.noteMovedToFront(fairnessKey, this.#nowMs);
    this.#cached.ledgers.set(fairnessKey, ledger);
  }

  /** Charges what an attempt used, and learns from it. Returns the changed records. */
  settle({ entry, reservation, resourceId, durationMs, succeeded, endedAtMs }: Settled): {
    readonly ledgers: readonly Ledger[];
    readonly estimates: readonly EstimateRecord[];
  } {
    const { fairness } = this.#configuration;
    const charged = entry.estimatedCostMs;
    const { settledCostMs: beforeMs = 0, lastSeenMs = -Infinity } = this.ledgerOf(entry.fairnessKey) ?? {};
    // planted: charged-after-a-reset
    const isForgiven = reservation.reservedAtMs < this.#resetAtMs;
    const settledCostMs = isForgiven
      ? beforeMs
      : beforeMs + charged + correctionMs(charged, durationMs, fairness);
    // For credit, the key counts as idle from the attempt's end on, even if that end is settled late.
    const touchedAtMs = Math.max(endedAtMs ?? reservation.reservedAtMs, this.#resetAtMs);
    const ofLedgers = this.#useLimits(entry, durationMs);
    const uses = ofLedgers.get(entry.fairnessKey) ?? this.#usesOf(entry.fairnessKey);
    const ledger = {
      fairnessKey: entry.fairnessKey,
      settledCostMs,
      lastSeenMs: Math.max(lastSeenMs, Math.min(touchedAtMs, this.#nowMs)),
      ...(uses === undefined ? {} : { uses }),
    };
    this.#change(ledger);
    const ofOtherKeys = [...ofLedgers]
      .filter(([name]) => name !== entry.fairnessKey)
      .map(([name, used]) => ({ fairnessKey: name, settledCostMs: 0, lastSeenMs: this.#nowMs, uses: used }));
    for (const each of ofOtherKeys) this.#cached.ledgers.set(each.fairnessKey, each);
    const estimates =
      succeeded && durationMs !== undefined ? this.#learn(entry.type, resourceId, durationMs) : [];
    return { ledgers: [ledger, ...ofOtherKeys], estimates };
  }

  /** Adds an attempt to the windows of its limits. Returns the uses of its keys after that, by the names of their ledgers. */
  #useLimits(entry: ReservedJob, usedMs: number | undefined): ReadonlyMap<string, Uses> {
    const limits = limitsOf(this.#configuration, entry);
    if (limits.length === 0) return NO_LEDGERS;
    const attempt = { usedMs, nowMs: this.#nowMs };
    const before = {
      total: this.uses ?? NO_USES,
      ofLedger: (name: string): Uses => this.#usesOf(name) ?? NO_USES,
    };
    // planted: uses-forgotten
    const after = withAttempt(limits, entry, before, attempt);
    this.uses = after.total ?? this.uses;
    return after.ofLedgers;
  }

  #learn(type: string, resourceId: string | undefined, durationMs: number): readonly EstimateRecord[] {
    const startMs = this.#costMsBy(undefined, type);
    const changed: EstimateRecord[] = [];
    for (const id of this.#resourcesOf(resourceId)) {
      const name = nameOfEstimate({ type, resourceId: id });
      const learned = observe(this.#known(name), durationMs, startMs, this.#configuration.fairness.alpha);
      const record = { type, resourceId: id, ...learned, lastSeenMs: this.#nowMs };
      const known = this.#cached.estimates.get(name);
      if (known !== undefined && !this.#cached.written.has(name)) this.#cached.written.set(name, known);
      this.#cached.estimates.set(name, record);
      // Learned costs of whole types stand in the summary, which is written anyway.
      if (id !== TYPE_AVERAGE_RESOURCE && !this.#isWorthWriting(this.#cached.written.get(name), record))
        continue;
      this.#cached.written.set(name, record);
      changed.push(record);
    }
    return changed;
  }

  /**
   * Whether a learned cost is worth writing. Its item costs two write units, and an error of a tenth does no harm, because
   * charges are corrected at the end of an attempt. Memory always has the newest value.
   */
  #isWorthWriting(written: EstimateRecord | undefined, learned: EstimateRecord): boolean {
    if (written === undefined || learned.samples >= 2 * written.samples) return true;
    const ttlMs = this.#configuration.fairness.estimateTtlMs;
    if (ttlMs !== null && learned.lastSeenMs - written.lastSeenMs > ttlMs / 4) return true;
    return Math.abs(learned.meanMs - written.meanMs) > this.#newsShare * written.meanMs;
  }

  #known(name: string): EstimateRecord | undefined {
    const record = this.#cached.estimates.get(name);
    const ttlMs = this.#configuration.fairness.estimateTtlMs;
    return record !== undefined && ttlMs !== null && this.#nowMs - record.lastSeenMs > ttlMs
      ? undefined
      : record;
  }

  get #teachesType(): boolean {
    return this.#configuration.fairness.estimateFallback !== 'default';
  }

  /**
   * Returns the resources whose costs are learned from an attempt: its own, and the empty one, which stands for the
   * whole type.
   */
  #resourcesOf(resourceId: string | undefined): readonly string[] {
    if (resourceId === undefined || resourceId === TYPE_AVERAGE_RESOURCE) return ONLY_TYPE;
    return this.#teachesType ? [resourceId, TYPE_AVERAGE_RESOURCE] : [resourceId];
  }

  /**
   * Returns the ledger as it counts now: undefined if its key was idle too long, and without charges from before a
   * reset.
   */
  #current(ledger: Ledger | undefined): Ledger | undefined {
    if (ledger === undefined) return undefined;
    if (!this.#isCounted(ledger)) return undefined;
    return ledger.lastSeenMs < this.#resetAtMs ? { ...ledger, settledCostMs: 0 } : ledger;
  }

  get #resetAtMs(): number {
    return resetAtMs(this.#configuration.fairness, this.#nowMs);
  }

  /** Whether the key was busy within its ledger's time to live, as far as is known. */
  #isCounted(ledger: Ledger): boolean {
    const { keyTtlMs } = this.#configuration.fairness;
    if (keyTtlMs === null || this.#nowMs - ledger.lastSeenMs < keyTtlMs) return true;
    return (this.#inFlightSinceMs.get(ledger.fairnessKey) ?? Infinity) - ledger.lastSeenMs < keyTtlMs;
  }
}
