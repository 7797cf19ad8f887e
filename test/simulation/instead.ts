/** A service with some of its verbs replaced; the others go on as they were. */
export function instead<T extends object>(target: T, verbs: Partial<T>): T {
  const bound = new Map<string | symbol, unknown>();
  return new Proxy(target, {
    get: (_, name) => {
      const replaced: unknown = Reflect.get(verbs, name);
      if (replaced !== undefined) return replaced;
      const known = bound.get(name);
      if (known !== undefined) return known;
      const own: unknown = Reflect.get(target, name, target);
      const given: unknown = typeof own === 'function' ? own.bind(target) : own;
      bound.set(name, given);
      return given;
    },
  });
}
