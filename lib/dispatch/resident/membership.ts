/** A dispatcher that runs on is a member as long as it renews its record. */
import { CLOCK_SKEW_MAX_MS, leaseExtensionMs, slownessAfter } from '../../core/lease.ts';
import type { DispatcherIdentity, DispatcherRecord } from '../../store/contract/records.ts';
import { MARGIN_PART } from '../tuning.ts';
import type { LoadMeter } from './load.ts';
import type { ResidentSettings } from './options.ts';

export class Membership {
  readonly #settings: ResidentSettings;
  readonly life: DispatcherIdentity;
  readonly #meter: LoadMeter;
  #untilMonotonicMs = -Infinity;
  /** As slow as the store counts. */
  #slowMs = 0;
  /** When the first renewal was sent since the last answer. */
  #askedFirstMonotonicMs = Infinity;
  /** The furthest end that was asked for. */
  #expiresAtMs = 0;

  constructor(settings: ResidentSettings, life: DispatcherIdentity, meter: LoadMeter) {
    this.#settings = settings;
    this.life = life;
    this.#meter = meter;
  }

  isMember(): boolean {
    return this.#settings.clock.monotonicMs() < this.#untilMonotonicMs;
  }

  get slowMs(): number {
    return this.#slowMs;
  }

  /** Says that it lives, and what it leads of so many partitions. Answers who lives. */
  async renew(
    leads: readonly number[],
    partitions: number,
  ): Promise<readonly DispatcherRecord[] | 'superseded'> {
    const { store, clock, log, memberLeaseMs } = this.#settings;
    const askedAtMonotonicMs = clock.monotonicMs();
    this.#askedFirstMonotonicMs = Math.min(this.#askedFirstMonotonicMs, askedAtMonotonicMs);
    const unansweredMs = askedAtMonotonicMs - this.#askedFirstMonotonicMs;
    const extensionMs = leaseExtensionMs(memberLeaseMs, Math.max(this.#slowMs, unansweredMs));
    // What was asked for before is not taken back: such a renewal would not be written.
    this.#expiresAtMs = Math.max(
      this.#expiresAtMs,
      clock.nowMs() + memberLeaseMs + extensionMs + CLOCK_SKEW_MAX_MS,
    );
    const load = this.#meter.now(leads);
    const record = { ...this.life, leads, load, expiresAtMs: this.#expiresAtMs };
    if ((await store.keepDispatcher(record)) === 'superseded') return 'superseded';
    this.#slowMs = slownessAfter(this.#slowMs, clock.monotonicMs() - this.#askedFirstMonotonicMs);
    this.#askedFirstMonotonicMs = Infinity;
    const wasMember = this.isMember();
    this.#untilMonotonicMs = askedAtMonotonicMs + memberLeaseMs * (1 - 1 / MARGIN_PART) + extensionMs;
    if (!wasMember) log.info('dispatcher registered', { ...this.life, partitions });
    return store.listDispatchers(clock.nowMs());
  }

  async leave(): Promise<void> {
    const { store, log } = this.#settings;
    try {
      await store.removeDispatcher(this.life);
    } catch (error) {
      log.warn('the membership was not ended; it expires', { ...this.life, error: String(error) });
    }
  }
}
