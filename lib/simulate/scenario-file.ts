import * as z from 'zod';
import { ValidationError } from '../core/errors.ts';
import { inWords } from '../core/issues.ts';

/** The longest array of a file. Nothing would look at all results of a longer one. */
export const LONGEST_ARRAY = 200_000;

const NESTING_MAX = 32;

/**
 * Parses the text of a scenario's file.
 * @throws ValidationError if the text is not JSON that a scenario could be.
 */
export function parseScenarioText(text: string): unknown {
  if (text.trim() === '') throw new ValidationError('', 'the file is empty');
  let value: unknown;
  try {
    // A byte order mark is not part of JSON, but some editors write one.
    value = JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new ValidationError('', `the file is not JSON (${messageOf(cause)})`);
  }
  refuseUnsafe(value);
  return value;
}

/**
 * Checks a value against a schema.
 * @param path - path of the value in the file
 * @throws ValidationError for the first invalid field.
 */
export function check<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  path: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value, { error: inWords });
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue === undefined) throw new ValidationError(path, 'is malformed');
  // Zod reports an unknown field for the object that has it, so its name is added to the path.
  const unknown = issue.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  const field = pathOf([...issue.path, ...unknown], path);
  throw new ValidationError(field, unknown.length > 0 ? 'is not a known field' : lowerFirst(issue.message));
}

/** Returns a path as text: `['cases', 3, 'id']` is `cases[3].id`. */
export function pathOf(parts: readonly PropertyKey[], base = ''): string {
  return parts.reduce<string>((path, part) => {
    if (typeof part === 'number') return `${path}[${part}]`;
    return path === '' ? String(part) : `${path}.${String(part)}`;
  }, base);
}

/** Refuses a list in which two entries have the same name; `path` is the list's. */
export function refuseDuplicates(names: readonly (string | number)[], path: string, field: string): void {
  const seen = new Set<string | number>();
  names.forEach((name, index) => {
    if (seen.has(name)) {
      throw new ValidationError(
        `${path}[${index}]${field === '' ? '' : `.${field}`}`,
        `${name} is used twice`,
      );
    }
    seen.add(name);
  });
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

// Runs before any schema: a copy would silently drop a `__proto__` field, and very deep or very long values cannot be a
// scenario. It is a loop, because recursion would overflow the stack on deep values.
function refuseUnsafe(root: unknown): void {
  const open: { readonly value: unknown; readonly path: readonly PropertyKey[] }[] = [
    { value: root, path: [] },
  ];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, path } = next;
    if (typeof value !== 'object' || value === null) continue;
    refuseUnsafeNode(value, path);
    const isArray = Array.isArray(value);
    for (const [name, child] of Object.entries(value))
      if (typeof child === 'object' && child !== null)
        open.push({ value: child, path: [...path, isArray ? Number(name) : name] });
  }
}

function refuseUnsafeNode(value: object, path: readonly PropertyKey[]): void {
  if (path.length > NESTING_MAX) throw new ValidationError(pathOf(path.slice(0, 8)), 'is nested too deeply');
  if (Array.isArray(value) && value.length > LONGEST_ARRAY)
    throw new ValidationError(pathOf(path), `has ${value.length} entries, more than ${LONGEST_ARRAY}`);
  if (Object.hasOwn(value, '__proto__'))
    throw new ValidationError(pathOf([...path, '__proto__']), 'is not a known field');
}

// Building blocks of the schemas. Instants and durations are whole milliseconds, so that results can be compared exactly.

export const instantMs = z.int();
export const durationMs = z.int().min(0);
export const intervalMs = z.int().min(1);
export const count = z.int().min(0);
/** Ids are strings or whole numbers. */
export const anyId = z.union([z.string(), z.int()], { error: 'expected text or a whole number' });
export const caseId = z.string().min(1);

export type AnyId = z.output<typeof anyId>;

/** Compares two ids: numbers come before strings; numbers sort by value, strings by code unit. */
export function compareIds(one: AnyId, other: AnyId): number {
  if (typeof one === 'number' && typeof other === 'number') return one - other;
  if (typeof one !== typeof other) return typeof one === 'number' ? -1 : 1;
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
