/**
 * What a fairness key weighs now: an operator's override, else what the configuration says.
 *
 * The keys line knows nothing of weights: it is in the order of settled costs, which is the order of shares among keys of
 * the default weight. Keys with a weight of their own are read by name beside it, so a weight acts on the whole backlog
 * from the next pass on, wherever the key stands, whether an operator changes it or a deployment does.
 */
import type { Control } from '../core/capacity.ts';
import type { PoolConfiguration } from '../core/configuration.ts';
import { nameIn } from '../core/scope.ts';
import { weightOf } from '../core/score.ts';

export interface Weights {
  readonly of: (fairnessKey: string) => number;
  /** Keys with a weight of their own: those that the configuration names, and those that are overridden. */
  readonly named: readonly string[];
}

export function weightsNow(
  { fairness }: Pick<PoolConfiguration, 'fairness'>,
  controls: readonly Control[],
): Weights {
  const { weights, defaultWeight } = fairness;
  const overrides = new Map(
    controls.flatMap(({ scope, weight }) => {
      const fairnessKey = nameIn('fairnessKey', scope);
      return fairnessKey === undefined || weight === undefined ? [] : [[fairnessKey, weight] as const];
    }),
  );
  return {
    of: (key) => overrides.get(key) ?? weightOf(weights, defaultWeight, key),
    named: [...new Set([...Object.keys(weights), ...overrides.keys()])],
  };
}
