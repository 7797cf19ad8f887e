/** Composes a store from parts that have some of its verbs each. */
import type { JobStore } from './verbs.ts';

type All<Parts extends readonly object[]> = Parts extends readonly [
  infer First,
  ...infer Rest extends readonly object[],
]
  ? First & All<Rest>
  : unknown;

/**
 * Puts the methods of all parts on one object, each bound to its part. Parts are instances of classes. If a verb is missing, the result
 * does not compile where a store is expected.
 *
 * @throws {TypeError} if two parts have a method of the same name
 */
export function composeStore<Parts extends readonly object[]>(...parts: Parts): All<Parts> {
  const verbs: Record<string, unknown> = {};
  for (const part of parts) {
    const methods = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(part));
    for (const [name, { value }] of Object.entries(methods)) {
      if (name === 'constructor' || typeof value !== 'function') continue;
      requireFree(verbs, name);
      verbs[name] = value.bind(part);
    }
  }
  return verbs as All<Parts>;
}

function requireFree(store: object, name: string): void {
  if (Object.hasOwn(store, name) || name in Object.getPrototypeOf(store))
    throw new TypeError(`two parts of a store have a method ${name}; rename one`);
}

/** The base class of a store: its constructor takes a composition and gives the instance all its verbs. */
export const ComposedStore = class {
  constructor(verbs: JobStore) {
    for (const name of Object.keys(verbs)) requireFree(this, name);
    Object.assign(this, verbs);
  }
} as new (
  verbs: JobStore,
) => JobStore;
