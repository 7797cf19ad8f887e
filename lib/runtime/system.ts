/** The real clock and log. */
import type { Clock, Log } from './contract.ts';

// Node's timers take 31 bits. A longer sleep consists of several.
const TIMER_MAX_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // `performance.now()` differs between threads; `process.hrtime()` is the same in all threads of the process.
  monotonicMs: () => {
    const [sec, ns] = process.hrtime();
    return sec * 1_000 + ns / 1e6;
  },
  sleep: async (ms, signal) => {
    for (let left = ms; left > 0 && signal?.aborted !== true; left -= TIMER_MAX_MS) {
      await wait(Math.min(left, TIMER_MAX_MS), signal);
    }
  },
};

// Node's own timer promise rejects when it is aborted. Each attempt of a job aborts one, and errors are expensive to create.
function wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}

/** Writes each entry as one line of JSON, as log services expect it. */
export function jsonLog(write: (line: string) => void): Log {
  const entry =
    (level: string): Log['info'] =>
    (message, fields) =>
      write(JSON.stringify({ level, message, ...fields }));
  return { info: entry('info'), warn: entry('warn'), error: entry('error') };
}
