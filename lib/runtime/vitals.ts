/** How a process fares: what it says of itself beside what it does. */
import { monitorEventLoopDelay } from 'node:perf_hooks';

export interface Vitals {
  /** How late the event loop came to what was due, at worst, since the last call. */
  readonly eventLoopLagMs: number;
  /** Resident set size of the process. */
  readonly memoryBytes: number;
}

const RESOLUTION_MS = 20;
const NS_PER_MS = 1e6;

/** Begins to measure this process; each call answers what was since the one before. Keeps no process alive. */
export function processVitals(): () => Vitals {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  return () => {
    // It measures from one look to the next, a resolution apart when nothing is late.
    const eventLoopLagMs = Math.max(0, Math.round(delays.max / NS_PER_MS) - RESOLUTION_MS);
    delays.reset();
    return { eventLoopLagMs, memoryBytes: process.memoryUsage.rss() };
  };
}
