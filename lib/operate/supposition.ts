/** What if: the controls that an explanation supposes, in place of those in force. */
import type { Control } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import type { MovingJob } from '../core/job.ts';
import { type KeyedLimit, limitKeyOf, printScope, type Scope } from '../core/scope.ts';

/** An override or a pause that an explanation supposes, in the words of `override` and `pause`. */
export interface Supposition {
  /** `key: true` is the job's own key in that limit. */
  readonly scope: Scope | { readonly limit: string; readonly key: true };
  /** Null: the declared cap. */
  readonly maxConcurrency?: number | null | undefined;
  /** Null: the declared weight. */
  readonly weight?: number | null | undefined;
  /** False also ends a cool-down. */
  readonly paused?: boolean | undefined;
}

/** The controls with what is supposed in its scope. Who made those that it replaces, and why, is left out. */
export function withSupposed(
  { limits = [] }: PoolConfiguration,
  controls: readonly Control[],
  job: MovingJob,
  { scope: asked, maxConcurrency, weight, paused }: Supposition,
): readonly Control[] {
  const scope = printScope(scopeFor(limits, job, asked));
  const before = controls.find((each) => each.scope === scope);
  const { maxConcurrency: capBefore, weight: weightBefore, restsUntilMs } = before ?? {};
  const cap = maxConcurrency === undefined ? capBefore : (maxConcurrency ?? undefined);
  const own = weight === undefined ? weightBefore : (weight ?? undefined);
  const now: Control = {
    scope,
    paused: paused ?? before?.paused ?? false,
    ...(cap === undefined ? {} : { maxConcurrency: cap }),
    ...(own === undefined ? {} : { weight: own }),
    ...(restsUntilMs === undefined || paused === false ? {} : { restsUntilMs }),
  };
  return [...controls.filter((each) => each.scope !== scope), now];
}

function scopeFor(limits: readonly KeyedLimit[], job: MovingJob, asked: Supposition['scope']): Scope {
  if (asked === 'pool' || !('limit' in asked)) return asked;
  const { limit, key } = asked;
  if (key !== true) return { limit, key };
  const of: KeyedLimit = limits.find((each) => each.limit === limit) ?? { limit };
  return { limit, key: limitKeyOf(of, job) };
}
