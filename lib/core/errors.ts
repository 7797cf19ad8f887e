/** The core's error classes: broken rules. Losing a race is never one of them. */

/**
 * A declaration that cannot work: a pool's configuration, a retry policy, a schedule, a ring.
 * Thrown before anything was changed.
 */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
  /** Path of the wrong field, such as `types.pdf.timeoutMs`; empty for the whole. */
  readonly field: string;
  /** What stood there. */
  readonly value: unknown;
  /** What is wrong with it. */
  readonly problem: string;
  /** What is allowed, or to be done. */
  readonly wayOut: string;

  constructor(field: string, value: unknown, problem: string, wayOut: string) {
    super(`${field === '' ? 'The configuration' : field}: ${problem}, got ${show(value)}. ${wayOut}`);
    this.field = field;
    this.value = value;
    this.problem = problem;
    this.wayOut = wayOut;
  }
}

/** A value as a message shows it: one line, cut to a bounded length. */
export function show(value: unknown): string {
  const text = typeof value === 'string' ? JSON.stringify(value) : describe(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}

function describe(value: unknown): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  if (typeof value === 'function') return 'a function';
  return String(value);
}
