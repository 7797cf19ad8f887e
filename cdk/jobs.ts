/** Declared jobs in a stack: their types with settings by name, and the JSON Schemas of their payloads. */
import { ConfigurationError } from '../lib/core/errors.ts';
import type { JobTypeInput } from '../lib/core/pool-input.ts';
import { readRecord } from '../lib/core/read-fields.ts';
import { didYouMean } from '../lib/core/spelling.ts';
import { encodePayloadSchemas } from '../lib/declaration/codec.ts';
import { readDefinitions } from '../lib/jobs/jobs.ts';
import { jsonSchemaOf } from '../lib/jobs/schema.ts';
import { namesShown } from './validation.ts';

/**
 * Each declared type with its settings; a type without settings has the defaults.
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
 * The JSON Schemas of the payloads, encoded for the declaration; undefined if there are none. A type that is declared by
 * types alone has none, nor has one whose library cannot describe it.
 */
export function payloadSchemasOf(jobs: unknown): string | undefined {
  if (jobs === undefined) return undefined;
  const described = readDefinitions(jobs).flatMap(([name, { payload }]) => {
    const schema = payload === undefined ? undefined : jsonSchemaOf(payload);
    return schema === undefined ? [] : [[name, schema] as const];
  });
  return described.length === 0 ? undefined : encodePayloadSchemas(Object.fromEntries(described));
}
