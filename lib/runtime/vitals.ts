/** Measures how a process is doing: the lag of its event loop, and its memory. */
import { monitorEventLoopDelay } from 'node:perf_hooks';

export interface Vitals {
  /** The longest delay of the event loop since the last call. */
  readonly eventLoopLagMs: number;
  /** Resident set size of the process. */
  readonly memoryBytes: number;
}

const RESOLUTION_MS = 20;
const NS_PER_MS = 1e6;

/**
 * Starts measuring this process. Each call of `measure` covers the time since the previous one. It does not keep the
 * process alive.
 */
export function processVitals(): { readonly measure: () => Vitals; readonly stop: () => void } {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  const measure = (): Vitals => {
    // The monitor measures the time between two of its samples, which is one resolution if nothing is late.
    const eventLoopLagMs = Math.max(0, Math.round(delays.max / NS_PER_MS) - RESOLUTION_MS);
    delays.reset();
    return { eventLoopLagMs, memoryBytes: process.memoryUsage.rss() };
  };
  return { measure, stop: () => void delays.disable() };
}
