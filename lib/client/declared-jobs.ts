/** Checks payloads and results by the declared job types of a client. */
import { ConfigurationError, show, textOf, ValidationError } from '../core/errors.ts';
import type { JobKeys, Json } from '../core/job.ts';
import { type AnyJobDefinition, type Jobs, readDefinitions } from '../jobs/jobs.ts';
import { type AnySchema, type Checked, checkBySchema } from '../jobs/schema.ts';
import type { Clock } from '../runtime/contract.ts';
import { dedupeAsJson } from './arguments.ts';
import type { JobOutcome, SucceededJob } from './job.ts';

const DERIVED = ['fairnessKey', 'resourceId', 'keys'] as const;

const isRecord = (value: Json): value is { readonly [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isTexts = (value: unknown): value is JobKeys =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.values(value).every((each) => typeof each === 'string');

/**
 * Milliseconds for which a client waits for a schema. A schema that asks a service which does not answer would hold the
 * call for ever.
 */
const SCHEMA_MS = 30_000;

export class DeclaredJobs {
  readonly #byType: ReadonlyMap<string, AnyJobDefinition>;
  readonly #clock: Pick<Clock, 'sleep'>;

  /** @throws ConfigurationError */
  constructor(clock: Pick<Clock, 'sleep'>, jobs?: Jobs) {
    this.#clock = clock;
    this.#byType = new Map(jobs === undefined ? [] : readDefinitions(jobs));
  }

  /**
   * Returns the request with the keys that its type derives from the payload. The payload stays as it was sent.
   * @throws ValidationError - the type's schema refuses the payload, or a key cannot be derived
   */
  async completed(request: Json): Promise<Json> {
    if (!isRecord(request) || typeof request.type !== 'string') return request;
    const { type, payload } = request;
    const definition = this.#byType.get(type);
    if (definition === undefined) return request;
    const checked = await this.#check(definition.payload, payload, 'payload');
    if (checked.kind === 'refused')
      throw new ValidationError(
        checked.path,
        `${checked.reason}; send what the schema of ${show(type)} accepts`,
      );
    const derived = DERIVED.flatMap((field): readonly (readonly [string, Json])[] => {
      const derive = definition[field];
      return derive === undefined || request[field] !== undefined
        ? []
        : [[field, derivedValue(type, field, () => derive(checked.value))]];
    });
    const { dedupe, units } = definition;
    return {
      ...request,
      ...Object.fromEntries(derived),
      ...(units === undefined || request.units !== undefined
        ? {}
        : { units: derivedUnits(type, units, checked.value) }),
      ...(dedupe === undefined || request.dedupe !== undefined
        ? {}
        : { dedupe: derivedDedupe(type, () => dedupe(checked.value)) }),
    };
  }

  /** Returns the outcome of a succeeded job: its result as its type's schema reads it, or the schema's refusal. */
  async outcomeOf(job: SucceededJob): Promise<JobOutcome<unknown>> {
    const schema = this.#byType.get(job.type)?.result;
    if (schema === undefined) return { status: 'succeeded', result: job.result, job };
    const checked = await this.#check(schema, job.result, 'result');
    if (checked.kind === 'accepted') return { status: 'succeeded', result: checked.value, job };
    const error = new ConfigurationError(
      checked.path,
      job.result,
      `the schema of ${show(job.type)} refuses it (${checked.reason}), although job ${job.id} succeeded`,
      'Declare the jobs here as its worker does; the job has the result as it is stored.',
    );
    return { status: 'refused', error, job };
  }

  async #check(schema: AnySchema | undefined, value: unknown, name: string): Promise<Checked> {
    if (schema === undefined) return { kind: 'accepted', value };
    const answered = new AbortController();
    try {
      return await Promise.race([
        checkBySchema(schema, value, name),
        this.#clock.sleep(SCHEMA_MS, answered.signal).then(
          (): Checked => ({
            kind: 'refused',
            path: name,
            reason: `its schema did not answer within ${SCHEMA_MS} ms`,
          }),
        ),
      ]);
    } finally {
      answered.abort('over');
    }
  }
}

function derivedFrom(type: string, field: string, derive: () => unknown): unknown {
  try {
    return derive();
  } catch (error) {
    throw new ValidationError(
      field,
      `the function of ${show(type)} that derives it threw ${textOf(error)}; correct it, or name ${field} in the request`,
      { cause: error },
    );
  }
}

/** The fields are checked with the request's own. */
function derivedDedupe(type: string, derive: () => unknown): Json {
  const value = dedupeAsJson(derivedFrom(type, 'dedupe', derive)) as Json;
  if (isRecord(value)) return value;
  throw new ValidationError(
    'dedupe',
    `the function of ${show(type)} that derives it must return an object with a key, not ${show(value)}; correct it, or name dedupe in the request`,
  );
}

function derivedUnits(
  type: string,
  units: NonNullable<AnyJobDefinition['units']>,
  payload: unknown,
): Readonly<Record<string, number>> {
  const entries = Object.entries(units).map(([limit, derive]) => {
    const field = `units.${limit}`;
    const value = derivedFrom(type, field, () => derive(payload));
    if (typeof value === 'number' && Number.isFinite(value)) return [limit, value] as const;
    throw new ValidationError(
      field,
      `the function of ${show(type)} that derives it must return a whole number of 1 or more, not ${show(value)}; correct it, or name units in the request`,
    );
  });
  return Object.fromEntries(entries);
}

function derivedValue(type: string, field: (typeof DERIVED)[number], derive: () => unknown): Json {
  const value = derivedFrom(type, field, derive);
  if (field === 'keys') {
    if (isTexts(value)) return value;
    throw new ValidationError(
      field,
      `the function of ${show(type)} that derives it must return texts by their names, such as { org: "acme" }, not ${show(value)}; correct it, or name ${field} in the request`,
    );
  }
  if (typeof value === 'string') return value;
  throw new ValidationError(
    field,
    `the function of ${show(type)} that derives it must return text, not ${show(value)}; correct it, or name ${field} in the request`,
  );
}
