/**
 * Moments by both clocks of a machine. A monotonic clock stands still while the machine is suspended (Linux), a wall clock may
 * be set back: neither alone says how much time may have passed for others. So whoever must not be late asks both, and the one
 * that went further counts.
 */
import type { Clock } from './contract.ts';

/** One moment. Plain data, so that it may be told to another thread of the process. */
export interface Instant {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export const instantOf = (clock: Pick<Clock, 'nowMs' | 'monotonicMs'>): Instant => ({
  wallMs: clock.nowMs(),
  monotonicMs: clock.monotonicMs(),
});

export const laterBy = ({ wallMs, monotonicMs }: Instant, ms: number): Instant => ({
  wallMs: wallMs + ms,
  monotonicMs: monotonicMs + ms,
});

/** How much time has passed since then, at most. */
export const sinceMs = (clock: Pick<Clock, 'nowMs' | 'monotonicMs'>, then: Instant): number =>
  Math.max(clock.nowMs() - then.wallMs, clock.monotonicMs() - then.monotonicMs);
