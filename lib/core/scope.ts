/**
 * Scopes of caps, pauses and loans: the whole pool, or one of its tiers, types, fleets, fairness keys or resources.
 *
 * A scope is an object with one field, or `pool`. It is stored and shown as text: `pool`, `tier/<tier>`, `type/<type>`,
 * `fleet/<fleet>`, `key/<fairnessKey>`, `resource/<type>/<resourceId>`. One table, `CAP_KINDS`, has the facts about
 * each kind that the scheduler, the partitions' shares, lending, operators' controls and explanations need. `withCaps`
 * knows where a declaration has its caps.
 */
import type { PoolConfiguration } from './configuration.ts';
import { resourceOf } from './conflict.ts';
import type { ReservedJob } from './job.ts';

interface CapKind {
  /** The first part of such a scope's text; its name follows after a slash. */
  readonly prefix: string;
  /** The name of the scope of this kind in which a job in flight counts. */
  readonly nameOf: (job: ReservedJob) => string | undefined;
  /** The declared names; undefined: any name is valid. */
  readonly declared: ((configuration: PoolConfiguration) => readonly string[]) | undefined;
  /** Whether each partition has a share of the cap. If not, the scope and its cap belong to one partition. */
  readonly isDivided: boolean;
  /** Whether loans move its capacity between partitions. */
  readonly isLent: boolean;
  /**
   * `instead`: an operator's cap replaces the declared one, and loans move it. `beside`: it applies in addition, and is
   * not lent. `none`: operators set no cap.
   */
  readonly control: 'instead' | 'beside' | 'none';
}

export const CAP_KINDS = {
  tier: {
    prefix: 'tier',
    nameOf: ({ tier }) => tier,
    declared: ({ tiers }) => tiers.map(({ tier }) => tier),
    isDivided: true,
    isLent: true,
    control: 'instead',
  },
  type: {
    prefix: 'type',
    nameOf: ({ type }) => type,
    declared: ({ types }) => types.map(({ type }) => type),
    isDivided: true,
    isLent: true,
    control: 'instead',
  },
  fleet: {
    prefix: 'fleet',
    nameOf: ({ fleet }) => fleet,
    declared: ({ fleets }) => fleets.map(({ fleet }) => fleet),
    isDivided: true,
    isLent: true,
    control: 'beside',
  },
  resource: {
    prefix: 'resource',
    nameOf: ({ type, conflictKey, resourceId }) => {
      const resource = conflictKey === undefined ? resourceId : resourceOf(conflictKey);
      return resource === undefined ? undefined : resourceName(type, resource);
    },
    // The cap is declared with the type, for each of its resources.
    declared: () => [],
    isDivided: true,
    isLent: false,
    control: 'none',
  },
  fairnessKey: {
    prefix: 'key',
    nameOf: ({ fairnessKey }) => fairnessKey,
    declared: undefined,
    isDivided: false,
    isLent: false,
    control: 'instead',
  },
} as const satisfies Readonly<Record<string, CapKind>>;

type CapKindName = keyof typeof CAP_KINDS;

/** The scope of a cap. A resource's name is its type, encoded, a slash and its own name. */
export type CapScope = 'pool' | { [Kind in CapKindName]: { readonly [Name in Kind]: string } }[CapKindName];

/** The scope of a control. */
export type Scope = Exclude<CapScope, { readonly resource: string }>;

const resourceName = (type: string, resourceId: string): string =>
  `${encodeURIComponent(type.toWellFormed())}/${resourceId}`;

/** The scope of the jobs of one type on one resource. */
export const resourceScope = (type: string, resourceId: string): CapScope => ({
  resource: resourceName(type, resourceId),
});

/** The type and resource of a scope's text; undefined for a scope of another kind. */
export function resourceIn(text: string): { readonly type: string; readonly resourceId: string } | undefined {
  const name = nameIn('resource', text);
  if (name === undefined) return undefined;
  return { type: decodeURIComponent(name.slice(0, name.indexOf('/'))), resourceId: resourceOf(name) };
}

/** The scope under which `declaredCaps` lists a scope's cap. All resources of a type share one. */
export function declaredScopeOf(text: string): string {
  const of = resourceIn(text);
  return of === undefined ? text : printScope(resourcesOf(of.type));
}

/** The scope of all resources of a type. */
const resourcesOf = (type: string): CapScope => ({ resource: encodeURIComponent(type.toWellFormed()) });

const KINDS = Object.keys(CAP_KINDS) as readonly CapKindName[];
const KIND_BY_PREFIX: ReadonlyMap<string, CapKindName> = new Map(
  KINDS.map((kind) => [CAP_KINDS[kind].prefix, kind]),
);

/** The kind and the name of a scope. */
const partsOf = (scope: Exclude<CapScope, 'pool'>): readonly [kind: CapKindName, name: string] =>
  Object.entries(scope)[0] as [CapKindName, string];

/** A scope as text, as in controls, loans and explanations. */
export function printScope(scope: CapScope): string {
  if (scope === 'pool') return scope;
  const [kind, name] = partsOf(scope);
  return `${CAP_KINDS[kind].prefix}/${name}`;
}

/** The scope of a text; undefined if the text is no scope. */
export function parseScope(text: string): CapScope | undefined {
  if (text === 'pool') return text;
  const slash = text.indexOf('/');
  const kind = slash === -1 ? undefined : KIND_BY_PREFIX.get(text.slice(0, slash));
  return kind === undefined ? undefined : ({ [kind]: text.slice(slash + 1) } as unknown as CapScope);
}

/** The name in the text of a scope of this kind; undefined for another kind. */
export function nameIn(kind: CapKindName, text: string): string | undefined {
  const { prefix } = CAP_KINDS[kind];
  return text.startsWith(`${prefix}/`) ? text.slice(prefix.length + 1) : undefined;
}

/** Whether the pool has this scope, so that it can be controlled. Any fairness key is valid. */
export function isDeclared(scope: CapScope, configuration: PoolConfiguration): scope is Scope {
  if (scope === 'pool') return true;
  const [kind, name] = partsOf(scope);
  return CAP_KINDS[kind].declared?.(configuration).includes(name) ?? true;
}

/** Whether a job in flight counts in this scope. */
export function isInScope(scope: CapScope, job: ReservedJob): boolean {
  if (scope === 'pool') return true;
  const [kind, name] = partsOf(scope);
  return CAP_KINDS[kind].nameOf(job) === name;
}

/** The scopes in which every job of a type counts, in any fleet and with any fairness key. */
export const scopesOfType = (tier: string, type: string): readonly string[] => [
  'pool',
  printScope({ tier }),
  printScope({ type }),
];

const LENT_KINDS = KINDS.map((kind): CapKind => CAP_KINDS[kind]).filter(({ isLent }) => isLent);

/** The scopes in which a job in flight counts and whose capacity loans move between partitions. */
export const lentScopesOf = (job: ReservedJob): readonly string[] => [
  'pool',
  ...LENT_KINDS.map(({ prefix, nameOf }) => `${prefix}/${nameOf(job)}`),
];

/** How partitions and operators treat the cap of a scope, given as text. The pool is treated like a tier. */
export function ruleOf(text: string): Pick<CapKind, 'isDivided' | 'control'> {
  const kind = KIND_BY_PREFIX.get(text.slice(0, Math.max(0, text.indexOf('/'))));
  return kind === undefined ? CAP_KINDS.tier : CAP_KINDS[kind];
}

/** A cap of a declaration that partitions divide; null: no cap is declared. */
export interface DeclaredCap {
  readonly scope: string;
  /** The path of its field in the declaration. */
  readonly path: string;
  readonly cap: number | null;
}

/** The configuration with each cap replaced. A fleet's cap is its declared slots. */
export function withCaps(
  configuration: PoolConfiguration,
  capOf: (declared: DeclaredCap) => number | null,
): PoolConfiguration {
  const { maxConcurrency, tiers, types, fleets } = configuration;
  return {
    ...configuration,
    maxConcurrency: capOf({ scope: 'pool', path: 'maxConcurrency', cap: maxConcurrency }),
    tiers: tiers.map((tier, at) => ({
      ...tier,
      maxConcurrency: capOf({
        scope: printScope({ tier: tier.tier }),
        path: `tiers[${at}].maxConcurrency`,
        cap: tier.maxConcurrency,
      }),
    })),
    types: types.map((type) => ({
      ...type,
      maxConcurrency: capOf({
        scope: printScope({ type: type.type }),
        path: `types.${type.type}.maxConcurrency`,
        cap: type.maxConcurrency,
      }),
      ...(type.maxConcurrencyPerResource === undefined
        ? {}
        : {
            maxConcurrencyPerResource:
              capOf({
                scope: printScope(resourcesOf(type.type)),
                path: `types.${type.type}.maxConcurrencyPerResource`,
                cap: type.maxConcurrencyPerResource,
              }) ?? undefined,
          }),
    })),
    fleets: fleets.map((fleet) => ({
      ...fleet,
      slots: capOf({
        scope: printScope({ fleet: fleet.fleet }),
        path: `fleets.${fleet.fleet}.slots`,
        cap: fleet.slots,
      }),
    })),
  };
}

/** Every cap that partitions divide. */
export function declaredCaps(configuration: PoolConfiguration): readonly DeclaredCap[] {
  const caps: DeclaredCap[] = [];
  withCaps(configuration, (declared) => {
    caps.push(declared);
    return declared.cap;
  });
  return caps;
}
