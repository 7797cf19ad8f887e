/**
 * `fairlead/jobs`: declares each job type once, for the construct, producers and workers. A module of declarations
 * contains no handlers and imports nothing of AWS, so a producer that imports it bundles no worker.
 */
import { ConfigurationError } from '../core/errors.ts';
import { isFunction, NAME_LENGTH_MAX, objectOf, readName } from '../core/read-fields.ts';
import { type AnySchema, type InputOf, isSchema, type OutputOf, type StandardSchema } from './schema.ts';

export { ConfigurationError } from '../core/errors.ts';
export type { StandardSchema } from './schema.ts';

/** What `job` makes. Without type parameters, so that declaring it gives the compiler no hint about them. */
interface Declarable {
  readonly kind: 'job';
}

/**
 * One job type. `Sent` is the payload as producers send it, `Payload` as its handler gets it; they differ if the schema
 * changes what it reads. `Returned` is the result as the handler returns it, `Result` as a producer gets it.
 */
export interface JobDefinition<Sent, Payload, Returned, Result> extends Declarable {
  /** Checks the payload when a job is submitted, and again before its handler runs. */
  readonly payload?: AnySchema | undefined;
  /** Checks the result that the handler returns. */
  readonly result?: AnySchema | undefined;
  /** The fairness key of a job, from its payload; a request that names one has that. */
  readonly fairnessKey?: ((payload: Payload) => string) | undefined;
  /** The resource of a job, from its payload; a request that names one has that. */
  readonly resourceId?: ((payload: Payload) => string) | undefined;
  /** For the compiler alone. */
  readonly types?: JobTypes<Sent, Payload, Returned, Result> | undefined;
}

interface JobTypes<Sent, Payload, Returned, Result> {
  readonly sent: Sent;
  readonly payload: Payload;
  readonly returned: Returned;
  readonly result: Result;
}

// biome-ignore lint/suspicious/noExplicitAny: a function of any payload
export type AnyJobDefinition = JobDefinition<any, any, any, any>;

/** Declared job types by their names. */
export type Jobs = Readonly<Record<string, AnyJobDefinition>>;

/** The names of declared types. */
export type TypeOf<Declared extends Jobs> = keyof Declared & string;
type TypesOf<Definition extends AnyJobDefinition> = NonNullable<Definition['types']>;
/** The payload of a job as producers send it. */
export type SentOf<Definition extends AnyJobDefinition> = TypesOf<Definition>['sent'];
/** The payload of a job as its handler gets it. */
export type PayloadOf<Definition extends AnyJobDefinition> = TypesOf<Definition>['payload'];
/** The result of a job as its handler returns it. */
export type ReturnedOf<Definition extends AnyJobDefinition> = TypesOf<Definition>['returned'];
/** The result of a job as producers get it. */
export type ResultOf<Definition extends AnyJobDefinition> = TypesOf<Definition>['result'];

interface KeyOptions<Payload> {
  /** The fairness key of a job, from its payload: the customer whose share it counts against. @default - the empty key */
  readonly fairnessKey?: ((payload: Payload) => string) | undefined;
  /** The resource that a job works on, from its payload. @default - none */
  readonly resourceId?: ((payload: Payload) => string) | undefined;
}

interface SchemaOptions<PayloadSchema extends AnySchema, ResultSchema extends AnySchema>
  extends KeyOptions<OutputOf<PayloadSchema>> {
  /** A schema of the payload, from any library that follows Standard Schema. */
  readonly payload: PayloadSchema;
  /** A schema of the result. @default - any result */
  readonly result?: ResultSchema | undefined;
}

const isSchemaField = (field: string, value: unknown): void => {
  if (isSchema(value)) return;
  throw new ConfigurationError(
    field,
    value,
    'must be a schema',
    'Use a library that follows Standard Schema, such as zod, valibot or arktype, or declare types only: job<Payload, Result>().',
  );
};

const checkOptions = objectOf({
  payload: isSchemaField,
  result: isSchemaField,
  fairnessKey: isFunction,
  resourceId: isFunction,
});

/**
 * Declares a job type by schemas, which the compiler and the running program both check.
 *
 * @example job({ payload: z.object({ key: z.string() }), result: z.object({ width: z.number() }), resourceId: (p) => p.key })
 * @throws ConfigurationError - an option is wrong
 */
export function job<
  PayloadSchema extends AnySchema,
  ResultSchema extends AnySchema = StandardSchema<unknown>,
>(
  options: SchemaOptions<PayloadSchema, ResultSchema>,
): JobDefinition<
  InputOf<PayloadSchema>,
  OutputOf<PayloadSchema>,
  InputOf<ResultSchema>,
  OutputOf<ResultSchema>
>;
/**
 * Declares a job type by types alone, which only the compiler checks.
 *
 * @example job<{ month: number }, { url: string }>()
 * @throws ConfigurationError - an option is wrong
 */
export function job<Payload, Result = unknown>(
  options?: KeyOptions<Payload>,
): JobDefinition<Payload, Payload, Result, Result>;
export function job(options: object = {}): AnyJobDefinition {
  checkOptions('job', options);
  return Object.freeze({ ...options, kind: 'job' });
}

/**
 * Declares the job types of a scheduler by their names, each of 1 to 100 characters.
 *
 * @example const jobs = defineJobs({ report: job<{ month: number }, { url: string }>() });
 * @throws ConfigurationError - a name or a definition is wrong
 */
export function defineJobs<const Declared extends Readonly<Record<string, Declarable>>>(
  definitions: Declared,
): Declared {
  const entries = readDefinitions(definitions);
  return Object.freeze(Object.fromEntries(entries)) as Declared;
}

/**
 * Some of the declared types: those that one fleet serves.
 *
 * @example worker(only(jobs, 'thumbnail'), { thumbnail: async (payload) => ({ width: 640 }) })
 * @throws ConfigurationError - a name is not declared
 */
export function only<Declared extends Jobs, Type extends TypeOf<Declared>>(
  jobs: Declared,
  ...types: readonly Type[]
): Pick<Declared, Type> {
  const declared = new Map(readDefinitions(jobs));
  return Object.freeze(
    Object.fromEntries(
      types.map((type) => {
        const definition = declared.get(type);
        if (definition !== undefined) return [type, definition];
        const known = [...declared.keys()].join(', ');
        throw new ConfigurationError('types', type, 'is not a declared job type', `Declared are: ${known}.`);
      }),
    ),
  ) as Pick<Declared, Type>;
}

export const isDefinition = (value: unknown): value is AnyJobDefinition =>
  typeof value === 'object' && value !== null && (value as Partial<AnyJobDefinition>).kind === 'job';

/** The entries of declared jobs, checked. @throws ConfigurationError */
export function readDefinitions(jobs: unknown): readonly (readonly [string, AnyJobDefinition])[] {
  if (typeof jobs !== 'object' || jobs === null || Array.isArray(jobs))
    throw new ConfigurationError(
      'jobs',
      jobs,
      'must be an object of job types by name',
      'Write defineJobs({ report: job<{ month: number }>() }).',
    );
  return Object.entries(jobs).map(([name, definition]: [string, unknown]) => {
    readName(`jobs.${name.slice(0, NAME_LENGTH_MAX)}`, name);
    if (isDefinition(definition)) return [name, definition];
    throw new ConfigurationError(
      `jobs.${name}`,
      definition,
      'must be made by job()',
      'Write job<Payload, Result>().',
    );
  });
}
