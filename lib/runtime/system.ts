/** The real clock, chance and log. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Clock, Log } from './contract.ts';

// Node's timers hold 31 bits; longer sleeps are made of several.
const TIMER_MAX_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: async (ms, signal) => {
    try {
      for (let left = ms; left > 0; left -= TIMER_MAX_MS) {
        await wait(Math.min(left, TIMER_MAX_MS), undefined, signal === undefined ? {} : { signal });
      }
    } catch (error) {
      if (signal?.aborted !== true) throw error;
    }
  },
};

/** One JSON object a line, as log services read them. */
export function jsonLog(write: (line: string) => void): Log {
  const entry =
    (level: string): Log['info'] =>
    (message, fields) =>
      write(JSON.stringify({ level, message, ...fields }));
  return { info: entry('info'), warn: entry('warn') };
}
