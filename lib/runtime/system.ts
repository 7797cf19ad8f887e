/** The real clock and log. */
import type { Clock, Log } from './contract.ts';

// The longest sleep of one timer, because Node's timers take 31 bits. A longer sleep consists of several.
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

/** Drops entries below a level, as `POWERTOOLS_LOG_LEVEL` names it. @default INFO */
export function fromLevel(log: Log, level = ''): Log {
  const levels = ['DEBUG', 'INFO', 'WARN', 'ERROR', 'CRITICAL', 'SILENT'];
  const at = levels.indexOf(level.toUpperCase());
  const least = at === -1 ? 1 : at;
  const nothing = (): void => {};
  return {
    debug: least > 0 ? undefined : log.debug,
    info: least > 1 ? nothing : log.info,
    warn: least > 2 ? nothing : log.warn,
    error: least > 3 ? nothing : log.error,
  };
}

/** Writes each entry as one line of JSON, as log services expect it. A field that JSON does not know becomes text. */
export function jsonLog(write: (line: string) => void): Log {
  const entry =
    (level: string): Log['info'] =>
    (message, fields) =>
      write(lineOf({ level, message, ...fields }) ?? lineOf({ level, message }) ?? '');
  return { debug: entry('debug'), info: entry('info'), warn: entry('warn'), error: entry('error') };
}

/** Returns the fields as one line of JSON; undefined if a field cannot be read, or contains itself. */
function lineOf(fields: Readonly<Record<string, unknown>>): string | undefined {
  try {
    return JSON.stringify(fields, (_, value: unknown) => {
      if (typeof value === 'bigint') return String(value);
      return value instanceof Error
        ? { name: value.name, message: value.message, stack: value.stack }
        : value;
    });
  } catch {
    return undefined;
  }
}
