/**
 * Conflict keys: two jobs with the same conflict key never run together, even if their types, tiers or fairness keys
 * differ. Source: fair-queuing, "Conflict group". A type may instead limit its running jobs per resource. Then each of
 * its resources has a conflict key of that type, with room for that many jobs. A job in flight keeps the terms under
 * which it was claimed, even after a new declaration.
 */
import type { JobTypeConfiguration, PoolConfiguration } from './configuration.ts';
import type { ReservedJob } from './job.ts';

/** The fields of a type that decide its conflict keys. */
export type ConflictTerms = Pick<
  JobTypeConfiguration,
  'type' | 'conflictGroup' | 'maxConcurrencyPerResource'
>;

/** How the jobs of a type exclude others. */
export interface ConflictRule {
  /** A job's conflict key is this prefix, followed by the job's resource. */
  readonly prefix: string;
  /** How many jobs with the same conflict key may run at once. */
  readonly room: number;
}

/** Returns the rule for a type; undefined if its jobs exclude no others. */
export function conflictRuleOf({
  type,
  conflictGroup,
  maxConcurrencyPerResource: room,
}: ConflictTerms): ConflictRule | undefined {
  const prefix = conflictPrefix(conflictGroup);
  if (prefix !== undefined) return { prefix, room: 1 };
  return room === undefined
    ? undefined
    : { prefix: `${TYPE_PREFIX}${encodeURIComponent(type.toWellFormed())}/`, room };
}

/** The first character of conflict keys that come from a type's limit per resource. No encoded group begins with it. */
const TYPE_PREFIX = '=';

/**
 * Whether at most one job may run with this conflict key, across all partitions. If not, the key belongs to a resource
 * whose jobs a type limits, or to a key of a limit, and each partition runs its share of them.
 */
export const isExclusive = (conflictKey: string): boolean =>
  !(conflictKey.startsWith(TYPE_PREFIX) || isOfLimit(conflictKey));

/** The first character of the conflict keys of limits. No encoded group begins with it. */
const LIMIT_PREFIX = '@';

/** A limit that is declared with `keyedBy`, and one key of it. */
export interface KeyOfLimit {
  readonly limit: string;
  readonly key: string;
}

/**
 * The conflict key of a job under a limit that is declared with `keyedBy`: its line also has jobs of other keys of that
 * limit, so the job is passed over and parked like one whose resource is busy.
 */
export const conflictKeyOfLimit = ({ limit, key }: KeyOfLimit): string =>
  `${LIMIT_PREFIX}${encodeURIComponent(limit.toWellFormed())}/${key}`;

/** Whether a conflict key belongs to a key of a limit. */
export const isOfLimit = (conflictKey: string): boolean => conflictKey.startsWith(LIMIT_PREFIX);

/** The limit and its key in a conflict key; undefined for a conflict key of a resource. */
export const keyOfLimitIn = (conflictKey: string): KeyOfLimit | undefined =>
  isOfLimit(conflictKey)
    ? {
        limit: decodeURIComponent(conflictKey.slice(LIMIT_PREFIX.length, conflictKey.indexOf('/'))),
        key: resourceOf(conflictKey),
      }
    : undefined;

/**
 * Returns the conflict key of a job of this type, or undefined if nothing excludes the job: its type is unknown, or has
 * neither a group nor a limit per resource, or the job has no resource. The group is encoded, so the first slash always
 * separates it from the resource.
 */
export function conflictKeyFor(
  type: ConflictTerms | undefined,
  resourceId: string | undefined,
): string | undefined {
  const rule = type === undefined ? undefined : conflictRuleOf(type);
  return rule === undefined || resourceId === undefined ? undefined : rule.prefix + resourceId;
}

/**
 * Returns how many jobs may run at once with this conflict key, which a job of this type holds. The key may come from
 * an earlier declaration of the type.
 */
export function roomFor(type: ConflictTerms | undefined, conflictKey: string): number {
  const rule = type === undefined ? undefined : conflictRuleOf(type);
  return rule !== undefined && conflictKey.startsWith(rule.prefix) ? rule.room : 1;
}

/** Returns the resource in a conflict key. */
export const resourceOf = (conflictKey: string): string => conflictKey.slice(conflictKey.indexOf('/') + 1);

/** Returns the prefix of a group's conflict keys; undefined for no group. The empty group counts as none. */
export function conflictPrefix(conflictGroup: string | null): string | undefined {
  if (conflictGroup === null || conflictGroup === '') return undefined;
  return `${encodeURIComponent(conflictGroup.toWellFormed())}/`;
}

/**
 * Conflict keys as numbers, each with the count of jobs that use it and of jobs that run with it. The number of an
 * unused key is used again.
 */
export class Conflicts {
  readonly #numbers = new Map<string, number>();
  readonly #keys: string[] = [];
  readonly #holders: number[] = [];
  /**
   * By the number of a conflict key: how many jobs may run with it at once. It is 1, except for keys that come from
   * `maxConcurrencyPerResource`.
   */
  readonly #rooms: number[] = [];
  readonly #users: number[] = [];
  readonly #free: number[] = [];

  /**
   * Returns the key's number and counts one more job that uses it. `room` sets how many jobs may run at once; without
   * it the key keeps its room, which is 1 at first.
   */
  use(conflictKey: string, room?: number): number {
    let conflict = this.#numbers.get(conflictKey);
    if (conflict === undefined) {
      conflict = this.#free.pop() ?? this.#keys.length;
      this.#numbers.set(conflictKey, conflict);
      this.#keys[conflict] = conflictKey;
      this.#holders[conflict] = 0;
      this.#rooms[conflict] = 1;
      this.#users[conflict] = 0;
    }
    if (room !== undefined) this.#rooms[conflict] = room;
    this.#users[conflict] = (this.#users[conflict] as number) + 1;
    return conflict;
  }

  /** Counts one job less that uses the key. Returns whether it was the last one. */
  leave(conflict: number): boolean {
    const remaining = (this.#users[conflict] as number) - 1;
    this.#users[conflict] = remaining;
    if (remaining > 0) return false;
    this.#numbers.delete(this.nameOf(conflict));
    this.#free.push(conflict);
    return true;
  }

  /** Counts one more running job. */
  hold(conflict: number): void {
    this.#holders[conflict] = (this.#holders[conflict] as number) + 1;
  }

  /** Marks the key as held from now on, so that no further job starts with it. */
  close(conflict: number): void {
    this.#holders[conflict] = Infinity;
  }

  /** Counts one running job less. Returns whether the key has room now and had none before. */
  release(conflict: number): boolean {
    const remaining = (this.#holders[conflict] as number) - 1;
    this.#holders[conflict] = remaining;
    return remaining === (this.#rooms[conflict] as number) - 1;
  }

  /** Whether the key has no room left. */
  isHeld(conflict: number): boolean {
    return (this.#holders[conflict] as number) >= (this.#rooms[conflict] as number);
  }

  /** Returns the number of a key that is in use. */
  numberOf(conflictKey: string): number | undefined {
    return this.#numbers.get(conflictKey);
  }

  /** Returns the number of jobs that run with this conflict key. */
  holdersOf(conflictKey: string): number {
    const conflict = this.#numbers.get(conflictKey);
    return conflict === undefined ? 0 : (this.#holders[conflict] as number);
  }

  /** Whether this conflict key has no room left. */
  isKeyHeld(conflictKey: string): boolean {
    const conflict = this.#numbers.get(conflictKey);
    return conflict !== undefined && this.isHeld(conflict);
  }

  nameOf(conflict: number): string {
    return this.#keys[conflict] as string;
  }

  /** Returns the number of conflict keys in use. */
  get size(): number {
    return this.#numbers.size;
  }
}

type Types = ReadonlyMap<string, ConflictTerms>;

/**
 * Returns the conflict keys that a job in flight holds: the one it was claimed with and, if its type has another
 * conflict group by now, that group's key too. So jobs on one resource exclude each other even while their group
 * changes.
 */
export function conflictKeysOf(
  types: Types,
  { type, conflictKey, resourceId }: Pick<ReservedJob, 'type' | 'conflictKey' | 'resourceId'>,
): readonly string[] {
  const resource = conflictKey === undefined ? resourceId : resourceOf(conflictKey);
  const currentKey = conflictKeyFor(types.get(type), resource);
  const keys = conflictKey === undefined ? [] : [conflictKey];
  return currentKey === undefined || currentKey === conflictKey ? keys : [...keys, currentKey];
}

/** Returns the conflict keys without room: as many jobs are in flight with each as may run with it at once. */
export function fullConflicts(
  types: Types,
  inFlight: Iterable<Pick<ReservedJob, 'type' | 'conflictKey' | 'resourceId'>>,
): ReadonlySet<string> {
  const running = new Map<string, number>();
  const fullKeys = new Set<string>();
  for (const entry of inFlight) {
    for (const conflictKey of conflictKeysOf(types, entry)) {
      const count = (running.get(conflictKey) ?? 0) + 1;
      running.set(conflictKey, count);
      if (count >= roomFor(types.get(entry.type), conflictKey)) fullKeys.add(conflictKey);
    }
  }
  return fullKeys;
}

const byName = new WeakMap<PoolConfiguration['types'], ReadonlyMap<string, JobTypeConfiguration>>();

/** Types by name. The map is made once per configuration, because it is used for every job. */
export function typesByName({
  types,
}: Pick<PoolConfiguration, 'types'>): ReadonlyMap<string, JobTypeConfiguration> {
  let known = byName.get(types);
  if (known === undefined) {
    known = new Map(types.map((type) => [type.type, type]));
    byName.set(types, known);
  }
  return known;
}
