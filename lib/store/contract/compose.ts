/** Puts a store together from parts, each of which has some of its verbs. */
import type { JobStore } from './verbs.ts';

type All<Parts extends readonly object[]> = Parts extends readonly [
  infer First,
  ...infer Rest extends readonly object[],
]
  ? First & All<Rest>
  : unknown;

/**
 * The verbs of all parts on one object, each bound to its part once. Parts are instances of classes. A store that lacks a verb does
 * not compile where the result is used as one.
 *
 * @throws {TypeError} if two parts have a method of one name
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

/** The base of a store's class: it has the verbs of a composition. */
export const ComposedStore = class {
  constructor(verbs: JobStore) {
    for (const name of Object.keys(verbs)) requireFree(this, name);
    Object.assign(this, verbs);
  }
} as new (
  verbs: JobStore,
) => JobStore;
