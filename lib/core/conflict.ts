/**
 * Conflict keys: two jobs of one conflict key never run together, whatever their type, tier or fairness key.
 * Source: fair-queuing, "Conflict group". Where a type limits the running jobs of a resource, these have a conflict key of the
 * type's own, with room for so many. A job in flight keeps the terms that it was claimed under, whatever is declared by now.
 */
import type { JobTypeConfiguration, PoolConfiguration } from './configuration.ts';
import type { ReservedJob } from './job.ts';

/** What of a type decides on conflicts. */
export type ConflictTerms = Pick<
  JobTypeConfiguration,
  'type' | 'conflictGroup' | 'maxConcurrencyPerResource'
>;

/** What a type says of the conflicts of its jobs. */
export interface ConflictRule {
  /** Their conflict keys are this and their resource. */
  readonly prefix: string;
  /** How many jobs of one conflict key may run at once. */
  readonly room: number;
}

/** Undefined for a type whose jobs nothing excludes. */
export function conflictRuleOf({
  type,
  conflictGroup,
  maxConcurrencyPerResource: room,
}: ConflictTerms): ConflictRule | undefined {
  const prefix = conflictPrefix(conflictGroup);
  if (prefix !== undefined) return { prefix, room: 1 };
  return room === undefined
    ? undefined
    : { prefix: `${OF_TYPE}${encodeURIComponent(type.toWellFormed())}/`, room };
}

/** What conflict keys begin with that one type's jobs have by its limit for a resource: the name of no group does. */
const OF_TYPE = '=';

/**
 * Whether at most one job runs with this conflict key, in whatever partition. If not, it is that of a resource whose jobs a type
 * limits: each partition lets its share of them run.
 */
export const isExclusive = (conflictKey: string): boolean => !conflictKey.startsWith(OF_TYPE);

/**
 * The key under which a job of this type excludes others, or undefined where nothing excludes it: a type without a group or a
 * limit for its resources, or one that there is not, a job without a resource. The group is encoded, so the first slash always
 * separates it from the resource.
 */
export function conflictKeyUnder(
  type: ConflictTerms | undefined,
  resourceId: string | undefined,
): string | undefined {
  const rule = type === undefined ? undefined : conflictRuleOf(type);
  return rule === undefined || resourceId === undefined ? undefined : rule.prefix + resourceId;
}

/** How many jobs may run at once with a conflict key that a job of this type holds, now or by a former declaration. */
export function roomUnder(type: ConflictTerms | undefined, conflictKey: string): number {
  const rule = type === undefined ? undefined : conflictRuleOf(type);
  return rule !== undefined && conflictKey.startsWith(rule.prefix) ? rule.room : 1;
}

/** The resource that a conflict key names. */
export const resourceOf = (conflictKey: string): string => conflictKey.slice(conflictKey.indexOf('/') + 1);

/** What the conflict keys of a group begin with; undefined for no group. The empty group is none. */
export function conflictPrefix(conflictGroup: string | null): string | undefined {
  if (conflictGroup === null || conflictGroup === '') return undefined;
  return `${encodeURIComponent(conflictGroup.toWellFormed())}/`;
}

/** Conflict keys as numbers, with how many jobs use each and run with it: numbers of keys that nobody uses are given away again. */
export class Conflicts {
  readonly #numbers = new Map<string, number>();
  readonly #keys: string[] = [];
  readonly #holders: number[] = [];
  /** How many may run at once. */
  readonly #rooms: number[] = [];
  readonly #users: number[] = [];
  readonly #free: number[] = [];

  /** The key's number, with one more job that uses it. `room`: as many may run at once; as it was said before, or one, unless given. */
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

  /** Nothing starts with the key any more. */
  close(conflict: number): void {
    this.#holders[conflict] = Infinity;
  }

  /** It runs no more. Answers whether the key has room now, and had none before. */
  release(conflict: number): boolean {
    const left = (this.#holders[conflict] as number) - 1;
    this.#holders[conflict] = left;
    return left === (this.#rooms[conflict] as number) - 1;
  }

  /** Whether as many jobs run with the key as may. */
  isHeld(conflict: number): boolean {
    return (this.#holders[conflict] as number) >= (this.#rooms[conflict] as number);
  }

  /** How many jobs run with this conflict key. */
  holdersOf(conflictKey: string): number {
    const conflict = this.#numbers.get(conflictKey);
    return conflict === undefined ? 0 : (this.#holders[conflict] as number);
  }

  /** Whether as many jobs run with this conflict key as may. */
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

type Types = ReadonlyMap<string, ConflictTerms>;

/**
 * The conflict keys that a job in flight holds: the one that it was claimed with, and where its type has another conflict
 * group by now, that of this group too. So jobs of one resource exclude each other across a change of their group.
 */
export function keysHeldBy(
  types: Types,
  { type, conflictKey, resourceId }: Pick<ReservedJob, 'type' | 'conflictKey' | 'resourceId'>,
): readonly string[] {
  const resource = conflictKey === undefined ? resourceId : resourceOf(conflictKey);
  const present = conflictKeyUnder(types.get(type), resource);
  const keys = conflictKey === undefined ? [] : [conflictKey];
  return present === undefined || present === conflictKey ? keys : [...keys, present];
}

/** Conflict keys with which as many jobs are in flight as may run at once. */
export function fullConflicts(
  types: Types,
  inFlight: Iterable<Pick<ReservedJob, 'type' | 'conflictKey' | 'resourceId'>>,
): ReadonlySet<string> {
  const running = new Map<string, number>();
  const full = new Set<string>();
  for (const entry of inFlight) {
    for (const conflictKey of keysHeldBy(types, entry)) {
      const count = (running.get(conflictKey) ?? 0) + 1;
      running.set(conflictKey, count);
      if (count >= roomUnder(types.get(entry.type), conflictKey)) full.add(conflictKey);
    }
  }
  return full;
}

const byName = new WeakMap<PoolConfiguration['types'], ReadonlyMap<string, JobTypeConfiguration>>();

/** Types by their names, made once for a configuration: it is asked of every job. */
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
