/**
 * Scopes of caps, pauses and loans: the whole pool, or one of its tiers, types, fleets, limits, fairness keys or
 * resources.
 *
 * A scope is an object with one field, or `pool`. It is stored and shown as text: `pool`, `tier/<tier>`, `type/<type>`,
 * `fleet/<fleet>`, `limit/<limit>`, `limit/<limit>/<key>`, `key/<fairnessKey>`, `resource/<type>/<resourceId>`. One table, `CAP_KINDS`, has the facts about
 * each kind that the scheduler, the partitions' shares, lending, operators' controls and explanations need. `withCaps`
 * knows where a declaration has its caps.
 */
import type { LimitConfiguration, PoolConfiguration } from './configuration.ts';
import { conflictKeyFor, conflictKeyOfLimit, conflictKeysOf, resourceOf, typesByName } from './conflict.ts';
import type { ReservedJob, WaitingJob } from './job.ts';

interface CapKind {
  /** The first part of such a scope's text; its name follows after a slash. */
  readonly prefix: string;
  /** The names of the scopes of this kind in which a job in flight counts; `limits` are those that count it. */
  readonly namesOf: (job: ReservedJob, limits: readonly KeyedLimit[]) => readonly string[];
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
    namesOf: ({ tier }) => [tier],
    declared: ({ tiers }) => tiers.map(({ tier }) => tier),
    isDivided: true,
    isLent: true,
    control: 'instead',
  },
  type: {
    prefix: 'type',
    namesOf: ({ type }) => [type],
    declared: ({ types }) => types.map(({ type }) => type),
    isDivided: true,
    isLent: true,
    control: 'instead',
  },
  fleet: {
    prefix: 'fleet',
    namesOf: ({ fleet }) => [fleet],
    declared: ({ fleets }) => fleets.map(({ fleet }) => fleet),
    isDivided: true,
    isLent: true,
    control: 'beside',
  },
  resource: {
    prefix: 'resource',
    namesOf: ({ type, conflictKey, resourceId }) => {
      const resource = conflictKey === undefined ? resourceId : resourceOf(conflictKey);
      return resource === undefined ? [] : [resourceName(type, resource)];
    },
    // The cap is declared with the type, for each of its resources.
    declared: () => [],
    isDivided: true,
    isLent: false,
    control: 'none',
  },
  /** A whole limit, or one key of it: `<limit>/<key>`. The cap of a fairness key is not divided. */
  limit: {
    prefix: 'limit',
    namesOf: (job, limits) => limits.flatMap((of) => [of.limit, `${of.limit}/${limitKeyOf(of, job)}`]),
    declared: ({ limits = [] }) => limits.map(({ limit }) => limit),
    isDivided: true,
    isLent: true,
    control: 'instead',
  },
  fairnessKey: {
    prefix: 'key',
    namesOf: ({ fairnessKey }) => [fairnessKey],
    declared: undefined,
    isDivided: false,
    isLent: false,
    control: 'instead',
  },
} as const satisfies Readonly<Record<string, CapKind>>;

type CapKindName = keyof typeof CAP_KINDS;

/** The scope of a cap. A resource's name is its type, encoded, a slash and its own name. */
export type CapScope =
  | 'pool'
  | { [Kind in Exclude<CapKindName, 'limit'>]: { readonly [Name in Kind]: string } }[Exclude<
      CapKindName,
      'limit'
    >]
  /** A named limit, or one key of it. */
  | { readonly limit: string; readonly key?: string | undefined };

/** The scope of a control. */
export type Scope = Exclude<CapScope, { readonly resource: string }>;

const resourceName = (type: string, resourceId: string): string =>
  `${encodeURIComponent(type.toWellFormed())}/${resourceId}`;

/** Returns the scope of the jobs of one type on one resource. */
export const resourceScope = (type: string, resourceId: string): CapScope => ({
  resource: resourceName(type, resourceId),
});

/** Returns the type and resource of a scope's text; undefined for a scope of another kind. */
export function resourceIn(text: string): { readonly type: string; readonly resourceId: string } | undefined {
  const name = nameIn('resource', text);
  if (name === undefined) return undefined;
  return { type: decodeURIComponent(name.slice(0, name.indexOf('/'))), resourceId: resourceOf(name) };
}

/** Returns the scope under which `declaredCaps` lists a scope's cap. All resources of a type share one. */
export function declaredScopeOf(text: string): string {
  const of = resourceIn(text);
  return of === undefined ? text : printScope(resourcesOf(of.type));
}

/** Returns the scope of all resources of a type. */
const resourcesOf = (type: string): CapScope => ({ resource: encodeURIComponent(type.toWellFormed()) });

const KINDS = Object.keys(CAP_KINDS) as readonly CapKindName[];
const ALL_KINDS = KINDS.map((kind): CapKind => CAP_KINDS[kind]);
const LENT_KINDS = ALL_KINDS.filter(({ isLent }) => isLent);
const KIND_BY_PREFIX: ReadonlyMap<string, CapKindName> = new Map(
  KINDS.map((kind) => [CAP_KINDS[kind].prefix, kind]),
);

/** Returns the kind and the name of a scope. */
function partsOf(scope: Exclude<CapScope, 'pool'>): readonly [kind: CapKindName, name: string] {
  if ('limit' in scope)
    return ['limit', scope.key === undefined ? scope.limit : `${scope.limit}/${scope.key}`];
  return Object.entries(scope)[0] as [CapKindName, string];
}

/** Returns a scope as text, as in controls, loans and explanations. */
export function printScope(scope: CapScope): string {
  if (scope === 'pool') return scope;
  const [kind, name] = partsOf(scope);
  return `${CAP_KINDS[kind].prefix}/${name}`;
}

/** Returns the scope of a text; undefined if the text is no scope. */
export function parseScope(text: string): CapScope | undefined {
  if (text === 'pool') return text;
  const slash = text.indexOf('/');
  const kind = slash === -1 ? undefined : KIND_BY_PREFIX.get(text.slice(0, slash));
  if (kind === undefined) return undefined;
  const name = text.slice(slash + 1);
  return kind === 'limit' ? limitIn(name) : ({ [kind]: name } as unknown as CapScope);
}

/**
 * Returns the scope of a limit, or of one key in it. A limit's name has no slash; any text may follow it as the key.
 */
function limitIn(name: string): { readonly limit: string; readonly key?: string } {
  const slash = name.indexOf('/');
  return slash === -1 ? { limit: name } : { limit: name.slice(0, slash), key: name.slice(slash + 1) };
}

/** Returns the name in the text of a scope of this kind; undefined for another kind. */
export function nameIn(kind: CapKindName, text: string): string | undefined {
  const { prefix } = CAP_KINDS[kind];
  return text.startsWith(`${prefix}/`) ? text.slice(prefix.length + 1) : undefined;
}

/** A name that the pool does not declare, with the names of its kind that it does. */
export interface UndeclaredName {
  readonly kind: CapKindName;
  readonly name: string;
  readonly known: readonly string[];
}

/** Returns what a scope names that the pool does not declare; undefined: the pool has this scope. Any fairness key is valid. */
export function undeclaredIn(scope: CapScope, configuration: PoolConfiguration): UndeclaredName | undefined {
  if (scope === 'pool') return undefined;
  const [kind, whole] = partsOf(scope);
  // Any text is a fairness key, also in a limit.
  const name = 'limit' in scope ? scope.limit : whole;
  const known = CAP_KINDS[kind].declared?.(configuration);
  return known === undefined || known.includes(name) ? undefined : { kind, name, known };
}

/** Whether the pool has this scope, so that it can be controlled. */
export const isDeclared = (scope: CapScope, configuration: PoolConfiguration): scope is Scope =>
  undeclaredIn(scope, configuration) === undefined;

const limitNamesOf = (configuration: Pick<PoolConfiguration, 'types'>, type: string): readonly string[] =>
  typesByName(configuration).get(type)?.limits ?? [];

/** How a limit names its keys. */
export type KeyedLimit = Pick<LimitConfiguration, 'limit' | 'keyedBy'>;

/** Returns a job's key in a limit. A job that was accepted without the key that the limit counts by has the empty one. */
export const limitKeyOf = (
  { keyedBy }: { readonly keyedBy?: string | undefined },
  { fairnessKey, keys }: Pick<WaitingJob, 'fairnessKey' | 'keys'>,
): string => (keyedBy === undefined ? fairnessKey : keyNamed(keys, keyedBy));

const keyNamed = (keys: WaitingJob['keys'], name: string): string =>
  keys !== undefined && Object.hasOwn(keys, name) ? (keys[name] ?? '') : '';

/**
 * Returns the limits that count a job in flight: those of its type when it was reserved, and now. One that is declared no more
 * has its name alone.
 */
export function limitsCounting(
  { types, limits: declared = [] }: Pick<PoolConfiguration, 'types' | 'limits'>,
  { type, limits = [] }: Pick<ReservedJob, 'type' | 'limits'>,
): readonly KeyedLimit[] {
  const names = new Set([...limits, ...limitNamesOf({ types }, type)]);
  return Array.from(names, (name) => declared.find(({ limit }) => limit === name) ?? { limit: name });
}

/**
 * The conflict keys for which a waiting job may be parked: that of its resource, and those of its keys in limits that are
 * declared with `keyedBy`.
 */
export function parkingKeysFor(
  configuration: Pick<PoolConfiguration, 'types' | 'limits'>,
  job: Pick<WaitingJob, 'type' | 'fairnessKey' | 'resourceId' | 'keys'>,
): readonly string[] {
  const type = typesByName(configuration).get(job.type);
  const conflictKey = conflictKeyFor(type, job.resourceId);
  const ofLimits = conflictKeysInLimits(configuration, { ...job, limits: type?.limits });
  return conflictKey === undefined ? ofLimits : [conflictKey, ...ofLimits];
}

/** The conflict keys for which jobs may be parked until this job in flight has ended. */
export const parkingKeysOf = (
  configuration: Pick<PoolConfiguration, 'types' | 'limits'>,
  job: Pick<ReservedJob, 'type' | 'fairnessKey' | 'conflictKey' | 'resourceId' | 'keys' | 'limits'>,
): readonly string[] => [
  ...conflictKeysOf(typesByName(configuration), job),
  ...conflictKeysInLimits(configuration, job),
];

function conflictKeysInLimits(
  configuration: Pick<PoolConfiguration, 'types' | 'limits'>,
  job: Pick<ReservedJob, 'type' | 'fairnessKey' | 'keys' | 'limits'>,
): readonly string[] {
  if (configuration.limits === undefined) return [];
  return limitsCounting(configuration, job).flatMap((of) =>
    of.keyedBy === undefined ? [] : [conflictKeyOfLimit({ limit: of.limit, key: limitKeyOf(of, job) })],
  );
}

/** Returns all scopes in which a job in flight counts, as text. */
export const scopesOf = (
  configuration: Pick<PoolConfiguration, 'types' | 'limits'>,
  job: ReservedJob,
  kinds: readonly CapKind[] = ALL_KINDS,
): readonly string[] => {
  const limits = limitsCounting(configuration, job);
  return [
    'pool',
    ...kinds.flatMap(({ prefix, namesOf }) => namesOf(job, limits).map((name) => `${prefix}/${name}`)),
  ];
};

/** Whether a job in flight counts in this scope. */
export const isInScope = (
  scope: CapScope,
  job: ReservedJob,
  configuration: Pick<PoolConfiguration, 'types' | 'limits'>,
): boolean => scopesOf(configuration, job).includes(printScope(scope));

/** Returns the scopes in which every job of a type counts, in any fleet and with any fairness key. */
export const scopesOfType = (
  configuration: Pick<PoolConfiguration, 'types'>,
  tier: string,
  type: string,
): readonly string[] => [
  'pool',
  printScope({ tier }),
  printScope({ type }),
  ...limitNamesOf(configuration, type).map((limit) => printScope({ limit })),
];

/** Returns the scopes in which a job in flight counts and whose capacity loans move between partitions. */
export const lentScopesOf = (
  configuration: Pick<PoolConfiguration, 'types' | 'limits'>,
  job: ReservedJob,
): readonly string[] => scopesOf(configuration, job, LENT_KINDS);

/**
 * How partitions and operators treat the cap of a scope, given as text. The pool is treated like a tier. A fairness key
 * belongs to one partition, also in a limit; any other key of a limit may have jobs in all of them.
 */
export function ruleOf(
  text: string,
  { limits = [] }: Pick<PoolConfiguration, 'limits'>,
): Pick<CapKind, 'isDivided' | 'control'> {
  const kind = KIND_BY_PREFIX.get(text.slice(0, Math.max(0, text.indexOf('/'))));
  if (kind !== 'limit') return kind === undefined ? CAP_KINDS.tier : CAP_KINDS[kind];
  const scope = limitIn(text.slice(text.indexOf('/') + 1));
  const keyedBy = limits.find(({ limit }) => limit === scope.limit)?.keyedBy;
  return scope.key !== undefined && keyedBy === undefined ? CAP_KINDS.fairnessKey : CAP_KINDS.limit;
}

/** Whether the text is the scope of one key of a limit. */
export function isKeyOfLimit(text: string): boolean {
  const scope = parseScope(text);
  return typeof scope === 'object' && 'limit' in scope && scope.key !== undefined;
}

/** A cap of a declaration that partitions divide; null: no cap is declared. */
export interface DeclaredCap {
  readonly scope: string;
  /** The path of its field in the declaration. */
  readonly path: string;
  readonly cap: number | null;
  /** The least share that lets a job start. @default 1 */
  readonly least?: number | undefined;
}

/** Returns the configuration with each cap replaced. A fleet's cap is its declared slots. */
export function withCaps(
  configuration: PoolConfiguration,
  capOf: (declared: DeclaredCap) => number | null,
): PoolConfiguration {
  const { maxConcurrency, tiers, types, fleets, limits } = configuration;
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
    ...(limits === undefined ? {} : { limits: limits.map((limit) => withCapsOfLimit(limit, capOf)) }),
  };
}

/** Returns a limit with what partitions divide of it replaced. Their shares of a rate, or of what bounds one key, are not lent. */
function withCapsOfLimit(
  limit: LimitConfiguration,
  capOf: (declared: DeclaredCap) => number | null,
): LimitConfiguration {
  const { limit: name, keyedBy, total, perKey, rate, budget } = limit;
  const of = (field: string, cap: number | null, least?: number): number | null =>
    capOf({ scope: `${field}/${name}`, path: `limits.${name}.${field}`, cap, least });
  const ofKey = (field: string, cap: number | null, least?: number): number | null =>
    keyedBy === undefined ? cap : of(field, cap, least);
  return {
    ...limit,
    total: capOf({ scope: printScope({ limit: name }), path: `limits.${name}.total`, cap: total }),
    perKey: ofKey('perKey', perKey),
    ...(rate === undefined
      ? {}
      : {
          rate: {
            ...rate,
            ...(rate.units === undefined
              ? { starts: of('rate.starts', rate.starts) }
              : { units: of('rate.units', rate.units, rate.perJob) }),
            perKey: ofKey('rate.perKey', rate.perKey, rate.perJob),
          },
        }),
    ...(budget === undefined
      ? {}
      : { budget: { ...budget, slotMs: ofKey('budget.slotSeconds', budget.slotMs) ?? budget.slotMs } }),
  };
}

/** Returns every cap that partitions divide. */
export function declaredCaps(configuration: PoolConfiguration): readonly DeclaredCap[] {
  const caps: DeclaredCap[] = [];
  withCaps(configuration, (declared) => {
    caps.push(declared);
    return declared.cap;
  });
  return caps;
}

/** Returns the declared cap of a scope, also that of a fairness key, alone or in a limit; null: none. */
export function declaredCapOf(configuration: PoolConfiguration, text: string): number | null {
  const { fairness, limits = [] } = configuration;
  const scope = parseScope(text);
  if (typeof scope === 'object' && 'fairnessKey' in scope) return fairness.maxConcurrencyPerKey;
  if (typeof scope === 'object' && 'limit' in scope && scope.key !== undefined)
    return limits.find(({ limit }) => limit === scope.limit)?.perKey ?? null;
  return declaredCaps(configuration).find((each) => each.scope === text)?.cap ?? null;
}
