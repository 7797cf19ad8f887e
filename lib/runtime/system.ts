/** The real clock, chance and log. */
import type { Clock, Log } from './contract.ts';

// Node's timers hold 31 bits; longer sleeps are made of several.
const TIMER_MAX_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // Unlike `performance.now()`, the same in all threads of the process.
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

// Node's own rejects when it is aborted: each attempt of a job aborts one, and errors are dear to make.
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

/** One JSON object a line, as log services read them. */
export function jsonLog(write: (line: string) => void): Log {
  const entry =
    (level: string): Log['info'] =>
    (message, fields) =>
      write(JSON.stringify({ level, message, ...fields }));
  return { info: entry('info'), warn: entry('warn'), error: entry('error') };
}
