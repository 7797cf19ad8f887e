/**
 * What caps, pauses and loans are about: the pool as a whole, or one of its tiers, types, fleets, fairness keys, or resources.
 *
 * A scope is an object with one field, or `pool`. Where it is kept or shown it is a text: `pool`, `tier/<tier>`, `type/<type>`,
 * `fleet/<fleet>`, `key/<fairnessKey>`, `resource/<type>/<resourceId>`. What the scheduler, the partitions' shares, lending, operators' controls and explanations
 * must know of a kind stands in one table. `withCaps` says where a declaration has the caps.
 */
import type { PoolConfiguration } from './configuration.ts';
import { resourceOf } from './conflict.ts';
import type { ReservedJob } from './job.ts';

interface CapKind {
  /** What the text of such a scope begins with; the name stands behind a slash. */
  readonly prefix: string;
  /** The name of the scope of this kind in which a job in flight counts. */
  readonly nameOf: (job: ReservedJob) => string | undefined;
  /** Names that there are; undefined: any may be. */
  readonly declared: ((configuration: PoolConfiguration) => readonly string[]) | undefined;
  /** Each partition has a share of its cap. If not, the scope lives in one partition, and its cap with it. */
  readonly isDivided: boolean;
  /** Loans move what a partition may use of it. */
  readonly isLent: boolean;
  /** An operator's cap stands in the place of the declared one, which loans move, or beside it, and is not lent. `none`: there is none. */
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
    // The types' cap is of each of their resources.
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

/** What a cap is about. A resource's name is that of its type, encoded, and its own. */
export type CapScope = 'pool' | { [Kind in CapKindName]: { readonly [Name in Kind]: string } }[CapKindName];

/** What a control is about. */
export type Scope = Exclude<CapScope, { readonly resource: string }>;

const resourceName = (type: string, resourceId: string): string =>
  `${encodeURIComponent(type.toWellFormed())}/${resourceId}`;

/** Jobs of one type on one resource. */
export const resourceScope = (type: string, resourceId: string): CapScope => ({
  resource: resourceName(type, resourceId),
});

/** The resource that a text names as a scope, and the type; undefined for any other scope. */
export function resourceIn(text: string): { readonly type: string; readonly resourceId: string } | undefined {
  const name = nameIn('resource', text);
  if (name === undefined) return undefined;
  return { type: decodeURIComponent(name.slice(0, name.indexOf('/'))), resourceId: resourceOf(name) };
}

/** The scope under which `declaredCaps` has the cap of a scope: of all resources of a type it is one. */
export function declaredScopeOf(text: string): string {
  const of = resourceIn(text);
  return of === undefined ? text : printScope(resourcesOf(of.type));
}

/** Of a type's resources in general. */
const resourcesOf = (type: string): CapScope => ({ resource: encodeURIComponent(type.toWellFormed()) });

const KINDS = Object.keys(CAP_KINDS) as readonly CapKindName[];
const KIND_BY_PREFIX: ReadonlyMap<string, CapKindName> = new Map(
  KINDS.map((kind) => [CAP_KINDS[kind].prefix, kind]),
);

/** The kind of a scope, and its name. */
const partsOf = (scope: Exclude<CapScope, 'pool'>): readonly [kind: CapKindName, name: string] =>
  Object.entries(scope)[0] as [CapKindName, string];

/** The scope as text, as it stands in controls, loans and explanations. */
export function printScope(scope: CapScope): string {
  if (scope === 'pool') return scope;
  const [kind, name] = partsOf(scope);
  return `${CAP_KINDS[kind].prefix}/${name}`;
}

/** The scope that a text names; undefined if it names none. */
export function parseScope(text: string): CapScope | undefined {
  if (text === 'pool') return text;
  const slash = text.indexOf('/');
  const kind = slash === -1 ? undefined : KIND_BY_PREFIX.get(text.slice(0, slash));
  return kind === undefined ? undefined : ({ [kind]: text.slice(slash + 1) } as unknown as CapScope);
}

/** The name in a text that names a scope of this kind; undefined for any other. */
export function nameIn(kind: CapKindName, text: string): string | undefined {
  const { prefix } = CAP_KINDS[kind];
  return text.startsWith(`${prefix}/`) ? text.slice(prefix.length + 1) : undefined;
}

/** Whether the pool has it, so that it may be controlled. Any fairness key may come. */
export function isDeclared(scope: CapScope, configuration: PoolConfiguration): scope is Scope {
  if (scope === 'pool') return true;
  const [kind, name] = partsOf(scope);
  return CAP_KINDS[kind].declared?.(configuration).includes(name) ?? true;
}

/** Whether a job in flight counts in it. */
export function isInScope(scope: CapScope, job: ReservedJob): boolean {
  if (scope === 'pool') return true;
  const [kind, name] = partsOf(scope);
  return CAP_KINDS[kind].nameOf(job) === name;
}

/** Scopes that every job of a type counts in, wherever it runs and whosever it is. */
export const scopesOfType = (tier: string, type: string): readonly string[] => [
  'pool',
  printScope({ tier }),
  printScope({ type }),
];

const LENT_KINDS = KINDS.map((kind): CapKind => CAP_KINDS[kind]).filter(({ isLent }) => isLent);

/** Scopes that a job in flight counts in and whose capacity moves between partitions. */
export const lentScopesOf = (job: ReservedJob): readonly string[] => [
  'pool',
  ...LENT_KINDS.map(({ prefix, nameOf }) => `${prefix}/${nameOf(job)}`),
];

/** What loans and operators may do with the cap of a scope, as text. The pool's is like a tier's. */
export function ruleOf(text: string): Pick<CapKind, 'isDivided' | 'control'> {
  const kind = KIND_BY_PREFIX.get(text.slice(0, Math.max(0, text.indexOf('/'))));
  return kind === undefined ? CAP_KINDS.tier : CAP_KINDS[kind];
}

/** A cap that a declaration has and partitions divide; null: it has none there. */
export interface DeclaredCap {
  readonly scope: string;
  /** Where it stands in the declaration. */
  readonly path: string;
  readonly cap: number | null;
}

/** The configuration with other caps. A fleet's cap is its declared slots. */
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
