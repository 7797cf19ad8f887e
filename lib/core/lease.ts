/** Leases of workers, and of memberships of dispatchers that run on. */

/** The most that two machines' clocks may differ. */
export const CLOCK_SKEW_MAX_MS = 5_000;

/** An answer within it is an ordinary one. */
const SLOW_FROM_MS = 1_000;

/**
 * How much longer a worker, or a dispatcher that runs on, asks for a lease whose store took so long to answer: room for two more
 * renewals that are answered as slowly. At most as long again, so that a holder that dies is missed after twice its lease at the
 * latest.
 */
export const leaseExtensionMs = (leaseMs: number, slowMs: number): number =>
  slowMs < SLOW_FROM_MS ? 0 : Math.min(leaseMs, 2 * slowMs);

/** How slow a store counts as after one more answer: at once as slow as that, and less so with each that is faster. */
export const slownessAfter = (slowMs: number, answerMs: number): number => Math.max(answerMs, slowMs / 2);
