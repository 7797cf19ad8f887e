/**
 * Conflict keys: two jobs of one conflict key never run together, whatever their type, tier or fairness key.
 * Source: fair-queuing, "Conflict group".
 */

/**
 * The key under which a job excludes others, or undefined where nothing excludes it: a type without a group, a job
 * without a resource. The group is encoded, so the first slash always separates it from the resource.
 */
export function conflictKeyOf(
  conflictGroup: string | null,
  resourceId: string | undefined,
): string | undefined {
  if (resourceId === undefined) return undefined;
  const prefix = conflictPrefix(conflictGroup);
  return prefix === undefined ? undefined : prefix + resourceId;
}

/** The resource that a conflict key names. */
export const resourceOf = (conflictKey: string): string => conflictKey.slice(conflictKey.indexOf('/') + 1);

/** What the conflict keys of a group begin with; undefined for no group. The empty group is none. */
export function conflictPrefix(conflictGroup: string | null): string | undefined {
  if (conflictGroup === null || conflictGroup === '') return undefined;
  return `${encodeURIComponent(conflictGroup.toWellFormed())}/`;
}

/** Conflict keys as numbers, with how many jobs use each: numbers of keys that nobody uses are given away again. */
export class Conflicts {
  readonly #numbers = new Map<string, number>();
  readonly #keys: string[] = [];
  readonly #holders: number[] = [];
  readonly #users: number[] = [];
  readonly #free: number[] = [];

  /** The key's number, with one more job that uses it. */
  use(conflictKey: string): number {
    let conflict = this.#numbers.get(conflictKey);
    if (conflict === undefined) {
      conflict = this.#free.pop() ?? this.#keys.length;
      this.#numbers.set(conflictKey, conflict);
      this.#keys[conflict] = conflictKey;
      this.#holders[conflict] = 0;
      this.#users[conflict] = 0;
    }
    this.#users[conflict] = (this.#users[conflict] as number) + 1;
    return conflict;
  }

  /** A job that used the key is gone. */
  leave(conflict: number): void {
    const left = (this.#users[conflict] as number) - 1;
    this.#users[conflict] = left;
    if (left > 0) return;
    this.#numbers.delete(this.nameOf(conflict));
    this.#free.push(conflict);
  }

  /** A job that uses the key runs. */
  hold(conflict: number): void {
    this.#holders[conflict] = (this.#holders[conflict] as number) + 1;
  }

  /** It runs no more. Answers whether the key is free now. */
  release(conflict: number): boolean {
    const left = (this.#holders[conflict] as number) - 1;
    this.#holders[conflict] = left;
    return left === 0;
  }

  isHeld(conflict: number): boolean {
    return (this.#holders[conflict] as number) > 0;
  }

  /** Whether a job with this conflict key runs. */
  isKeyHeld(conflictKey: string): boolean {
    const conflict = this.#numbers.get(conflictKey);
    return conflict !== undefined && this.isHeld(conflict);
  }

  nameOf(conflict: number): string {
    return this.#keys[conflict] as string;
  }

  /** Conflict keys in use. */
  get size(): number {
    return this.#numbers.size;
  }
}
