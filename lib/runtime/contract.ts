/** Interfaces for time, randomness and logging, so that a simulation can supply its own. */

/** `nowMs` is epoch milliseconds, for what is stored; `monotonicMs` is for measuring durations. */
export interface Clock {
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  /** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
}

/** Evenly distributed in [0, 1). */
export type Random = () => number;

/** A structured log with one line per entry. */
export interface Log {
  /** @default - such entries are dropped */
  readonly debug?: ((message: string, fields?: Readonly<Record<string, unknown>>) => void) | undefined;
  readonly info: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
  readonly warn: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
}
