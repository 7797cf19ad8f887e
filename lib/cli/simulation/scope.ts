/** The scopes of operators' controls, as a scenario names them. */
import type { PoolConfiguration } from '../../core/configuration.ts';
import type { Scope } from '../../dispatch/operate.ts';

/** `pool`, `tier/<tier>`, `type/<type>`, `fleet/<fleet>`, `key/<key>`; undefined for what is none, or is not there. */
export function scopeOf(text: string, configuration: PoolConfiguration): Scope | undefined {
  if (text === 'pool') return 'pool';
  const slash = text.indexOf('/');
  const name = text.slice(slash + 1);
  switch (text.slice(0, slash + 1)) {
    case 'key/':
      return { fairnessKey: name };
    case 'tier/':
      return configuration.tiers.some(({ tier }) => tier === name) ? { tier: name } : undefined;
    case 'type/':
      return configuration.types.some(({ type }) => type === name) ? { type: name } : undefined;
    case 'fleet/':
      return configuration.fleets.some(({ fleet }) => fleet === name) ? { fleet: name } : undefined;
    default:
      return undefined;
  }
}
