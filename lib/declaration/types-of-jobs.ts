/**
 * The declared parts of jobs, for a stack and for a scheduler in one process: their types with settings by name, the
 * types and slots of fleets, and the JSON Schemas of payloads.
 */
import type { PoolConfiguration } from '../core/configuration.ts';
import { typesByName } from '../core/conflict.ts';
import { ConfigurationError } from '../core/errors.ts';
import { unitLimitsOf } from '../core/limits.ts';
import type { JobTypeInput } from '../core/pool-input.ts';
import { readRecord } from '../core/read-fields.ts';
import { didYouMean } from '../core/spelling.ts';
import { readDefinitions } from '../jobs/jobs.ts';
import { jsonSchemaOf } from '../jobs/schema.ts';
import { encodePayloadSchemas } from './codec.ts';

/** How many slots a fleet of functions has if it declares none. */
export const FUNCTION_SLOTS = 10;

/**
 * Returns each declared type with its settings; a type without settings has the defaults.
 * @throws ConfigurationError for jobs that are none, and for the settings of a type that is not declared
 */
export function typesOfJobs(jobs: unknown, settings: unknown): Readonly<Record<string, JobTypeInput>> {
  const names = readDefinitions(jobs).map(([name]) => name);
  if (names.length === 0)
    throw new ConfigurationError('jobs', jobs, 'declares no job type', 'Declare one, or leave jobs out.');
  const given = new Map(readRecord('types', settings, Number.POSITIVE_INFINITY));
  for (const name of given.keys()) {
    if (names.includes(name)) continue;
    throw new ConfigurationError(
      `types.${name}`,
      name,
      `is not a declared job (${namesShown(names)})`,
      `${didYouMean(name, names)}Declare it in jobs, or leave its settings out.`,
    );
  }
  return Object.fromEntries(names.map((name) => [name, (given.get(name) ?? {}) as JobTypeInput]));
}

/**
 * Returns the JSON Schemas of the payloads, encoded for the declaration; undefined if there are none. A type that is
 * declared by types alone has none, nor has one whose library cannot describe it.
 */
export function payloadSchemasOf(jobs: unknown): string | undefined {
  if (jobs === undefined) return undefined;
  const described = readDefinitions(jobs).flatMap(([name, { payload }]) => {
    const schema = payload === undefined ? undefined : jsonSchemaOf(payload);
    return schema === undefined ? [] : [[name, schema] as const];
  });
  return described.length === 0 ? undefined : encodePayloadSchemas(Object.fromEntries(described));
}

/**
 * Checks the units that declared jobs derive from their payloads. Requests of a job that names another limit would all be
 * refused.
 * @throws ConfigurationError for units of a limit that its type is not under, or that counts none
 */
export function checkUnitsOf(jobs: unknown, configuration: PoolConfiguration): void {
  if (jobs === undefined) return;
  const types = typesByName(configuration);
  for (const [name, { units = {} }] of readDefinitions(jobs)) {
    const known = unitLimitsOf(configuration, types.get(name) ?? {}).map(({ limit }) => limit);
    for (const limit of Object.keys(units)) {
      if (known.includes(limit)) continue;
      throw new ConfigurationError(
        `jobs.${name}.units.${limit}`,
        limit,
        `names no limit of the type that counts units (${known.join(', ') || 'there is none'})`,
        `${didYouMean(limit, known)}List the limit in types.${name}.limits and give its rate perJob, or leave it out.`,
      );
    }
  }
}

/**
 * Checks the types that a fleet names. As soon as types are declared, fleets may name only these. Otherwise a misspelt
 * type would deploy, and the intended one would have no worker.
 * @throws ConfigurationError for a type that is not declared
 */
export function checkTypesOfFleet(
  fleet: string,
  { types }: { readonly types?: unknown },
  declared: readonly string[],
): void {
  if (declared.length === 0 || !Array.isArray(types)) return;
  for (const [at, type] of types.entries()) {
    if (declared.includes(type)) continue;
    throw new ConfigurationError(
      `fleets.${fleet}.types[${at}]`,
      type,
      `names no declared type (${namesShown(declared)})`,
      `${didYouMean(type, declared)}Declare it first: in jobs or types, or with addJobType.`,
    );
  }
}

const NAMES_SHOWN = 20;
/** Returns the first names of a list, for a message. */
const namesShown = (names: readonly string[]): string =>
  `${names.slice(0, NAMES_SHOWN).join(', ')}${names.length > NAMES_SHOWN ? `, and ${names.length - NAMES_SHOWN} more` : ''}`;

/**
 * Checks the slots of a fleet in a stack. The pool accepts zero slots, for a fleet that is shut down for a while. In a
 * stack, zero is a mistake.
 * @throws ConfigurationError
 */
export function checkSlots(fleet: string, slots: unknown): void {
  if (slots === undefined || slots === null || (Number.isInteger(slots) && Number(slots) >= 1)) return;
  throw new ConfigurationError(
    `fleets.${fleet}.slots`,
    slots,
    'must be a whole number of at least 1',
    'Pause the fleet with an operator control, or remove it.',
  );
}
