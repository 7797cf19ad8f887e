/** Checks payloads and results by the declared job types of a client. */
import { show, ValidationError } from '../core/errors.ts';
import type { Job, Json } from '../core/job.ts';
import { type AnyJobDefinition, type Jobs, readDefinitions } from '../jobs/jobs.ts';
import { checkBySchema } from '../jobs/schema.ts';

const DERIVED = ['fairnessKey', 'resourceId'] as const;

const isRecord = (value: Json): value is { readonly [name: string]: Json } =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export class DeclaredJobs {
  readonly #byType: ReadonlyMap<string, AnyJobDefinition>;

  /** @throws ConfigurationError */
  constructor(jobs?: Jobs) {
    this.#byType = new Map(jobs === undefined ? [] : readDefinitions(jobs));
  }

  /**
   * The request with the keys that its type derives from the payload. The payload stays as it was sent.
   * @throws ValidationError - the type's schema refuses the payload, or a key cannot be derived
   */
  async completed(request: Json): Promise<Json> {
    if (!isRecord(request) || typeof request.type !== 'string') return request;
    const { type, payload = null } = request;
    const definition = this.#byType.get(type);
    if (definition === undefined) return request;
    // A schema may change what it is given.
    const checked = await checkBySchema(definition.payload, structuredClone(payload), 'payload');
    if (checked.kind === 'refused')
      throw new ValidationError(
        checked.path,
        `${checked.reason}; send what the schema of ${show(type)} accepts`,
      );
    const derived = DERIVED.flatMap((field): readonly (readonly [string, string])[] => {
      const derive = definition[field];
      return derive === undefined || request[field] !== undefined
        ? []
        : [[field, derivedText(type, field, () => derive(checked.value))]];
    });
    return { ...request, ...Object.fromEntries(derived) };
  }

  /**
   * The result of a succeeded job, as its type's schema reads it.
   * @throws ValidationError - the schema refuses it
   */
  async resultOf({ id, type, result }: Pick<Job, 'id' | 'type' | 'result'>): Promise<unknown> {
    const schema = this.#byType.get(type)?.result;
    if (schema === undefined) return result;
    const checked = await checkBySchema(schema, structuredClone(result), 'result');
    if (checked.kind === 'accepted') return checked.value;
    throw new ValidationError(
      checked.path,
      `${checked.reason}; job ${id} succeeded with a result that the schema of ${show(type)} refuses: get the job to see it`,
    );
  }
}

function derivedText(type: string, field: string, derive: () => unknown): string {
  let text: unknown;
  try {
    text = derive();
  } catch (error) {
    throw new ValidationError(
      field,
      `the function of ${show(type)} that derives it threw ${String(error)}; correct it, or name ${field} in the request`,
      { cause: error },
    );
  }
  if (typeof text === 'string') return text;
  throw new ValidationError(
    field,
    `the function of ${show(type)} that derives it must return text, not ${show(text)}; correct it, or name ${field} in the request`,
  );
}
