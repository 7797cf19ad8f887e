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

/** Begins to measure this process; each measure tells of the time since the one before. Keeps no process alive. */
export function processVitals(): { readonly measure: () => Vitals; readonly stop: () => void } {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  const measure = (): Vitals => {
    // It measures from one look to the next, a resolution apart when nothing is late.
    const eventLoopLagMs = Math.max(0, Math.round(delays.max / NS_PER_MS) - RESOLUTION_MS);
    delays.reset();
    return { eventLoopLagMs, memoryBytes: process.memoryUsage.rss() };
  };
  return { measure, stop: () => void delays.disable() };
}
