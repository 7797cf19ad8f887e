/** What decisions pass over, kept until a decision takes it along as one of its reasons. */
import type { PoolConfiguration } from './configuration.ts';
import type { Gate } from './gates.ts';

/** What a decision passed over, and why. */
export type Skip =
  | { readonly kind: 'tier'; readonly tier: string; readonly why: 'cap' | 'paused' }
  | { readonly kind: 'type'; readonly type: string; readonly why: 'cap' | 'paused' | 'noSlot' }
  | { readonly kind: 'key'; readonly fairnessKey: string; readonly why: 'cap' | 'paused' }
  | { readonly kind: 'job'; readonly id: string; readonly why: 'conflict'; readonly conflictKey: string };

interface GateSkips {
  readonly capped: Skip;
  readonly paused: Skip;
}

interface TypeSkips extends GateSkips {
  readonly full: Skip;
}

const NOTHING: readonly Skip[] = [];

export class Skips {
  /** What is said most often is made once. */
  readonly #tiers: readonly GateSkips[];
  readonly #types: readonly TypeSkips[];
  #skipped: Skip[] = [];

  constructor(configuration: PoolConfiguration) {
    this.#tiers = configuration.tiers.map(({ tier }) => ({
      capped: { kind: 'tier', tier, why: 'cap' },
      paused: { kind: 'tier', tier, why: 'paused' },
    }));
    this.#types = configuration.types.map(({ type }) => ({
      capped: { kind: 'type', type, why: 'cap' },
      paused: { kind: 'type', type, why: 'paused' },
      full: { kind: 'type', type, why: 'noSlot' },
    }));
  }

  /** What was passed over since it was last taken. */
  get list(): readonly Skip[] {
    return this.#skipped;
  }

  /** The same, and forgets it. */
  take(): readonly Skip[] {
    if (this.#skipped.length === 0) return NOTHING;
    const skipped = this.#skipped;
    this.#skipped = [];
    return skipped;
  }

  /** A tier by its number: its gate is closed. */
  addTier(tier: number, gate: Gate): void {
    const { capped, paused } = this.#tiers[tier] as GateSkips;
    this.#addOnce(gate.paused ? paused : capped);
  }

  /** A type by its number: its gate is closed, or no fleet that takes it has a free slot. */
  addType(type: number, gate: Gate): void {
    const { capped, paused, full } = this.#types[type] as TypeSkips;
    this.#addOnce(gate.paused ? paused : gate.running >= gate.cap ? capped : full);
  }

  addKey(fairnessKey: string, why: 'cap' | 'paused'): void {
    this.#skipped.push({ kind: 'key', fairnessKey, why });
  }

  addJob(id: string, conflictKey: string): void {
    this.#skipped.push({ kind: 'job', id, why: 'conflict', conflictKey });
  }

  #addOnce(skip: Skip): void {
    if (!this.#skipped.includes(skip)) this.#skipped.push(skip);
  }
}
