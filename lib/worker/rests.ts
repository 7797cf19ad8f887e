/**
 * Rests that handlers ask for. A rest is written to each partition of its scope before the attempt ends, so every pass that loads the
 * partition afterwards obeys it. Messages that were sent before may still arrive: the process that wrote the rest remembers it, and
 * runs no handler for them.
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import { ConfigurationError } from '../core/errors.ts';
import type { Job } from '../core/job.ts';
import { partitionOf } from '../core/partition.ts';
import {
  type KeyedLimit,
  limitKeyOf,
  limitsCounting,
  printScope,
  type Scope,
  undeclaredIn,
} from '../core/scope.ts';
import { didYouMean } from '../core/spelling.ts';
import type { Clock } from '../runtime/contract.ts';
import type { OperateStore } from '../store/contract/operate.ts';
import { NAME_BYTES_MAX } from './errors.ts';
import type { Cooldown } from './thrown.ts';

/** A scope that rests until an instant. */
export interface Rest {
  readonly scope: Scope;
  readonly untilMs: number;
}

export interface RestContext {
  readonly store: Pick<OperateStore, 'rest'>;
  readonly configuration: PoolConfiguration;
  readonly clock: Clock;
  /** The ends of the rests that this process has asked for, by scope. */
  readonly rests?: Map<string, number> | undefined;
}

/**
 * Returns the rest that a job's handler asks for.
 * @throws ConfigurationError - no job would obey it: the limit or the type is not declared, or no job has such a key
 */
export function restFor(
  configuration: PoolConfiguration,
  job: Job,
  { restUntilMs: untilMs, type = job.type, limit, key }: Cooldown,
): Rest {
  if (typeof key === 'string' && Buffer.byteLength(key) > NAME_BYTES_MAX)
    throw new ConfigurationError(
      'key',
      key,
      `has more than ${NAME_BYTES_MAX} bytes`,
      'Name a key that jobs have.',
    );
  const scope = scopeOf(configuration, job, { type, limit, key });
  // The job's own type may be of a former declaration.
  const unknown = limit === undefined && type === job.type ? undefined : undeclaredIn(scope, configuration);
  if (unknown === undefined) return { scope, untilMs };
  const { kind, name, known } = unknown;
  throw new ConfigurationError(
    kind,
    name,
    'is not declared, so no job would rest',
    `${didYouMean(name, known)}Declared are: ${known.join(', ') || 'none'}.`,
  );
}

function scopeOf(
  { limits = [] }: Pick<PoolConfiguration, 'limits'>,
  job: Job,
  { type, limit, key }: Pick<Cooldown, 'limit' | 'key'> & { readonly type: string },
): Scope {
  if (limit !== undefined) {
    const of: KeyedLimit = limits.find((each) => each.limit === limit) ?? { limit };
    return { limit, key: key === true ? limitKeyOf(of, job) : key };
  }
  const fairnessKey = key === true ? job.fairnessKey : key;
  return fairnessKey === undefined ? { type } : { fairnessKey };
}

/** Returns until when a job rests, as far as this process has asked for it, epoch ms; undefined: it does not rest. */
export function restsUntilMs(
  { rests, clock, configuration }: Omit<RestContext, 'store'>,
  job: Job,
): number | undefined {
  if (rests === undefined || rests.size === 0) return undefined;
  const { type, fairnessKey } = job;
  const scopes = [
    printScope({ type }),
    printScope({ fairnessKey }),
    ...limitsCounting(configuration, { type }).flatMap((of) => [
      printScope({ limit: of.limit }),
      printScope({ limit: of.limit, key: limitKeyOf(of, job) }),
    ]),
  ];
  const untilMs = Math.max(...scopes.map((scope) => rests.get(scope) ?? 0));
  return untilMs > clock.nowMs() ? untilMs : undefined;
}

/** Lets a scope rest in each of its partitions, and in this process. */
export async function writeRest(
  { store, configuration: { partitions }, rests, clock }: RestContext,
  job: Job,
  { scope, untilMs }: Rest,
): Promise<void> {
  const name = printScope(scope);
  const nowMs = clock.nowMs();
  for (const [other, endMs] of rests ?? []) if (endMs <= nowMs) rests?.delete(other);
  rests?.set(name, Math.max(untilMs, rests.get(name) ?? 0));
  const homes =
    typeof scope === 'object' && 'fairnessKey' in scope
      ? [partitionOf(scope.fairnessKey, partitions)]
      : Array.from({ length: partitions }, (_, partition) => partition);
  // The job may be in a partition to which its key does not belong any more.
  const all = [...new Set([...homes, job.partition])];
  await Promise.all(all.map((partition) => store.rest({ partition, scope: name, untilMs })));
}
