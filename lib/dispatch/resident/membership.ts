/**
 * The membership of a resident. The resident is a member while it renews its record in time, and stops leading shortly before the
 * record would expire. `resident.ts` renews it at intervals.
 */
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
  /** How many milliseconds a slow store takes to answer, as used to extend the lease. */
  #slowMs = 0;
  /** When the first renewal since the last answer was sent. */
  #askedFirstMonotonicMs = Infinity;
  /** The latest expiry that a renewal has asked for, epoch ms. */
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

  /** Renews the membership, with the partitions that this resident leads. Returns all live members. */
  async renew(
    leads: readonly number[],
    partitions: number,
  ): Promise<readonly DispatcherRecord[] | 'superseded'> {
    const { store, clock, log, memberLeaseMs } = this.#settings;
    const askedAtMonotonicMs = clock.monotonicMs();
    this.#askedFirstMonotonicMs = Math.min(this.#askedFirstMonotonicMs, askedAtMonotonicMs);
    const unansweredMs = askedAtMonotonicMs - this.#askedFirstMonotonicMs;
    const extensionMs = leaseExtensionMs(memberLeaseMs, Math.max(this.#slowMs, unansweredMs));
    // An earlier expiry than one already asked for would be refused by the store.
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
      log.warn('the membership could not be removed; it will expire', { ...this.life, error: String(error) });
    }
  }
}
