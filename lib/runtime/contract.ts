/** Where time, chance and identity come from, so that a simulation can supply them. */

/** Milliseconds of the epoch, for what is stored, and of a monotonic clock, for what is measured. */
export interface Clock {
  readonly nowMs: () => number;
  readonly monotonicMs: () => number;
  /** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
}

/** Evenly distributed in [0, 1). */
export type Random = () => number;

/** Structured, one line an entry. */
export interface Log {
  readonly info: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
  readonly warn: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
  readonly error: (message: string, fields?: Readonly<Record<string, unknown>>) => void;
}
