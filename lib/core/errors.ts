/** The core's error class. A lost race is a value, never an error. */

/**
 * A declaration that cannot work: a pool's configuration, a retry policy, a schedule or a ring. It is thrown before
 * anything has changed.
 */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
  /** The path of the wrong field, such as `types.pdf.timeoutMs`; empty for the whole configuration. */
  readonly field: string;
  /** The offending value. */
  readonly value: unknown;
  /** The reason why the value is wrong. */
  readonly problem: string;
  /** The allowed values, or the step that solves the problem. */
  readonly wayOut: string;

  constructor(field: string, value: unknown, problem: string, wayOut: string) {
    super(`${field === '' ? 'The configuration' : field}: ${problem}, got ${show(value)}. ${wayOut}`);
    this.field = field;
    this.value = value;
    this.problem = problem;
    this.wayOut = wayOut;
  }
}

/** A value as messages show it: one line of at most 80 characters. */
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
