/** Leases of workers, and of the memberships of long-running dispatchers. */

/** The most that the clocks of two machines may differ. */
export const CLOCK_SKEW_MAX_MS = 5_000;

/** A store that answers within this time is not slow. */
const SLOW_FROM_MS = 1_000;

/**
 * Returns the time that a worker or a long-running dispatcher adds to the lease that it requests from a slow store:
 * room for two more renewals that take as long. It is at most the lease itself, so that a dead holder is noticed after
 * twice its lease at the latest.
 */
export const leaseExtensionMs = (leaseMs: number, slowMs: number): number =>
  slowMs < SLOW_FROM_MS ? 0 : Math.min(leaseMs, 2 * slowMs);

/**
 * Returns the slowness of a store after one more answer: at least the time of that answer, and otherwise half the
 * slowness before.
 */
export const slownessAfter = (slowMs: number, answerMs: number): number => Math.max(answerMs, slowMs / 2);
