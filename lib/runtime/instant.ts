/**
 * Moments by both clocks of a machine. A monotonic clock stops while the machine is suspended (Linux), and a wall clock
 * may be set back, so neither alone says how much time may have passed elsewhere. Code that must not be late reads
 * both, and uses the greater elapsed time.
 */
import type { Clock } from './contract.ts';

/** One moment. It is plain data, so that it can be posted to another thread. */
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

/** Returns the most time that may have passed since then, in milliseconds. */
export const sinceMs = (clock: Pick<Clock, 'nowMs' | 'monotonicMs'>, then: Instant): number =>
  Math.max(clock.nowMs() - then.wallMs, clock.monotonicMs() - then.monotonicMs);
