/**
 * What a pass knows of a partition's costs: ledgers of fairness keys and learned costs, as read, and as settlement changes
 * them. Ledgers that changed are written with the settlement itself, and what was learned right behind it.
 */

import { type Weights, weightsNow } from '../../core/capacity.ts';
import type { PoolConfiguration } from '../../core/configuration.ts';
import { typesByName } from '../../core/conflict.ts';
import { expectedCostMs, observe, WHOLE_TYPE } from '../../core/estimate.ts';
import { correctionMs, resetAtMs } from '../../core/fairness.ts';
import type { Job, ReservedJob } from '../../core/job.ts';
import type { KeyLedger } from '../../core/planner.ts';
import type { LineStore } from '../../store/contract/core.ts';
import type { EstimateRecord, Ledger, PartitionState, Reservation } from '../../store/contract/records.ts';
import type { PartitionCache } from './partition-cache.ts';
import type { Settled } from './settled.ts';

/** Names what was learned of a type on a resource. */
interface EstimateName {
  readonly type: string;
  readonly resourceId: string;
}

// The length of the type keeps names apart where a type or a resource contains a line break.
export const nameOfEstimate = ({ type, resourceId }: EstimateName): string =>
  `${type.length}\n${type}\n${resourceId}`;

const ONLY_TYPE: readonly string[] = [WHOLE_TYPE];

/** What is in flight, as it is charged now: a reset forgives what was reserved before it. */
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
  /** A resource's learned cost is written when it has moved by this part of itself. Only settlements need it. */
  readonly #newsShare: number;
  readonly #cached: PartitionCache;
  /** By fairness key: the read that will tell its ledger. */
  readonly #reading = new Map<string, Promise<void>>();
  #weights: Weights;
  /** By key: since when something of it is in flight. A ledger that counted then does not expire meanwhile. */
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
    this.#weights = weightsNow(configuration, []);
  }

  /** What came with the partition's own read need not be read again. */
  know({ ledgers, estimates, controls }: Pick<PartitionState, 'ledgers' | 'estimates' | 'controls'>): void {
    this.#weights = weightsNow(this.#configuration, controls);
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

  /** Reads the ledgers that are not known yet, and that no other read is under way for: each type of a key asks for its ledger. */
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
    await Promise.all(reads);
  }

  async #readNow(fairnessKeys: readonly string[]): Promise<void> {
    const found = await this.#store.getLedgers({ partition: this.#partition, fairnessKeys });
    for (const [at, key] of fairnessKeys.entries()) this.#cached.ledgers.set(key, found[at]);
  }

  /** Reads the learned costs that these jobs need and that are not known yet. */
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

  /** Whether it was read which ledger the key has, if any. */
  isKnown(fairnessKey: string): boolean {
    return this.#cached.ledgers.has(fairnessKey);
  }

  ledgerOf(fairnessKey: string): Ledger | undefined {
    return this.#current(this.#cached.ledgers.get(fairnessKey));
  }

  /** What the planner is told of a key; undefined: it has no ledger. */
  keyLedgerOf(fairnessKey: string): KeyLedger | undefined {
    const ledger = this.ledgerOf(fairnessKey);
    if (ledger === undefined) return undefined;
    return { fairnessKey, settledCostMs: ledger.settledCostMs, touchedAtMs: ledger.lastSeenMs };
  }

  /**
   * Notes that a plan has raised these keys, or met them as they arrived. Answers the ledgers that are to be written: where
   * nothing was raised, and a job starts, its end says as much.
   */
  raise(raised: readonly KeyLedger[], starts: ReadonlySet<string>): readonly Ledger[] {
    return raised.flatMap(({ fairnessKey, settledCostMs }) => {
      const knownMs = this.ledgerOf(fairnessKey)?.settledCostMs ?? 0;
      if (settledCostMs === knownMs && starts.has(fairnessKey)) return [];
      const ledger = { fairnessKey, settledCostMs, lastSeenMs: this.#nowMs };
      this.#change(ledger);
      return [ledger];
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
    return this.#costMsBy(this.#known(nameOfEstimate({ type, resourceId: resourceId ?? WHOLE_TYPE })), type);
  }

  /** @param own - what is known of the resource, or of the type where the attempt has none */
  #costMsBy(own: EstimateRecord | undefined, type: string): number {
    const declared = typesByName(this.#configuration).get(type);
    const lent = this.#teachesType
      ? this.#known(nameOfEstimate({ type, resourceId: WHOLE_TYPE }))
      : undefined;
    return expectedCostMs(own, lent, declared?.defaultCostMs ?? 0);
  }

  /** A ledger that is to be written. */
  #change(ledger: Ledger): void {
    const { fairnessKey, settledCostMs } = ledger;
    // What was charged before a reset, or before the ledger expired, is forgiven. Of a ledger that is gone it is not known.
    if (settledCostMs < (this.#cached.ledgers.get(fairnessKey)?.settledCostMs ?? Infinity))
      this.#cached.view.noteMovedBack(fairnessKey, this.#nowMs);
    this.#cached.ledgers.set(fairnessKey, ledger);
  }

  /** Charges what an attempt used, and learns from it. Answers what changed. */
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
    // A job that became ready after the attempt's end found its key away, however late the end is settled.
    const touchedAtMs = Math.max(endedAtMs ?? reservation.reservedAtMs, this.#resetAtMs);
    const ledger = {
      fairnessKey: entry.fairnessKey,
      settledCostMs,
      lastSeenMs: Math.max(lastSeenMs, Math.min(touchedAtMs, this.#nowMs)),
    };
    this.#change(ledger);
    const estimates =
      succeeded && durationMs !== undefined ? this.#learn(entry.type, resourceId, durationMs) : [];
    return { ledgers: [ledger], estimates };
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
      // Those of whole types stand in the page, which is written anyway.
      if (id !== WHOLE_TYPE && !this.#isNews(this.#cached.written.get(name), record)) continue;
      this.#cached.written.set(name, record);
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
    const record = this.#cached.estimates.get(name);
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

  /** The ledger as it counts now: an idle key's is dropped, and a reset forgives what was charged before it. */
  #current(ledger: Ledger | undefined): Ledger | undefined {
    if (ledger === undefined) return undefined;
    if (!this.#isCounted(ledger)) return undefined;
    return ledger.lastSeenMs < this.#resetAtMs ? { ...ledger, settledCostMs: 0 } : ledger;
  }

  get #resetAtMs(): number {
    return resetAtMs(this.#configuration.fairness, this.#nowMs);
  }

  /** Whether the key was not idle for its ledger's time to live, by what is known. */
  #isCounted(ledger: Ledger): boolean {
    const { keyTtlMs } = this.#configuration.fairness;
    if (keyTtlMs === null || this.#nowMs - ledger.lastSeenMs < keyTtlMs) return true;
    return (this.#inFlightSinceMs.get(ledger.fairnessKey) ?? Infinity) - ledger.lastSeenMs < keyTtlMs;
  }
}
