/** A pool of one partition that gets others while jobs wait: for tests of how they are moved. */
import { resolveConfiguration } from '../../lib/core/defaults.ts';
import type { Job } from '../../lib/core/job.ts';
import { partitionOf } from '../../lib/core/partition.ts';
import type { PoolInput } from '../../lib/core/pool-input.ts';
import type { DeclarationState } from '../../lib/declaration/declaration.ts';
import { Commits } from '../../lib/dispatch/partition/commits.ts';
import type { DispatchContext } from '../../lib/dispatch/partition/context.ts';
import type { PartitionState } from '../../lib/store/contract/records.ts';
import type { JobStore, RequestOf } from '../../lib/store/contract/verbs.ts';
import { type Stage, stage } from './stage.ts';

export const pool = (partitions: number): PoolInput => ({
  types: { index: {}, resize: { conflictGroup: 'album' } },
  tiers: [{ tier: 'standard' }],
  fleets: { images: { types: ['resize', 'index'], slots: 16 } },
  partitions,
});

/** So many keys that live in a partition, in their order. */
export function keysIn(home: number, partitions: number, count: number): readonly string[] {
  const keys: string[] = [];
  for (let at = 0; keys.length < count; at += 1) {
    const key = `key-${String(at).padStart(5, '0')}`;
    if (partitionOf(key, partitions) === home) keys.push(key);
  }
  return keys;
}

export const NO_JOBS: ReadonlySet<string> = new Set();
export const MINUTE_MS = 60_000;

export const DEPLOYED: DeclarationState = {
  version: 2,
  formerTypes: [],
  partitionsEver: 1,
  partitionNumbers: [1],
  sharedSince: 2,
  typeUnder: async () => undefined,
  newer: async () => {
    throw new Error('there is no newer one');
  },
};

export interface Moving extends Stage {
  /** A dispatcher that knows the new number. */
  readonly context: DispatchContext;
  readonly homesOf: (jobs: readonly Pick<Job, 'id'>[]) => readonly (number | undefined)[];
  /** What the store was asked of a verb. */
  readonly asked: <Verb extends keyof JobStore>(verb: Verb) => readonly RequestOf<Verb>[];
}

/** Jobs wait in the only partition, and then there are so many. */
export function moving(partitions = 2, formerTypes: readonly string[] = []): Moving {
  const on = stage({ pool: pool(1) });
  const calls: { readonly verb: string; readonly asked: unknown }[] = [];
  const store = new Proxy(on.store, {
    get: (target, verb) => {
      const member: unknown = Reflect.get(target, verb, target);
      if (typeof member !== 'function') return member;
      return (asked: unknown) => {
        calls.push({ verb: String(verb), asked });
        return member.call(target, asked);
      };
    },
  });
  const deployed = {
    ...DEPLOYED,
    formerTypes,
    partitionsEver: partitions,
    partitionNumbers: [...new Set([1, partitions])],
  };
  return {
    ...on,
    context: on.dispatcher({ store, configuration: resolveConfiguration(pool(partitions)), deployed }),
    homesOf: (jobs) => jobs.map(({ id }) => on.store.inspectJob(id)?.partition),
    asked: (verb) =>
      calls.filter((call) => call.verb === verb).map((call) => call.asked as RequestOf<typeof verb>),
  };
}

export const waiting = (on: Stage, keys: readonly string[], each = 1, changes: Partial<Job> = {}) =>
  on.put(
    ...keys.flatMap((fairnessKey) => Array.from({ length: each }, () => on.job({ fairnessKey, ...changes }))),
  );

/** The commits of a pass of a partition, as it was loaded. */
export const commitsOf = (
  { context }: Moving,
  { version }: Pick<PartitionState, 'version'>,
  partition = 0,
): Commits => new Commits(context.store, partition, version);
