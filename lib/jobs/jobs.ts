/**
 * `fairlead/jobs`: declares each job type once, for the construct, producers and workers. A module of declarations
 * contains no handlers and imports nothing of AWS, so a producer that imports it bundles no worker.
 */
import type { DedupeInput } from '../core/dedupe.ts';
import { ConfigurationError } from '../core/errors.ts';
import type { JobKeys, Json } from '../core/job.ts';
import { isFunction, NAME_LENGTH_MAX, objectOf, readName, recordOf } from '../core/read-fields.ts';
import { didYouMean } from '../core/spelling.ts';
import { type AnySchema, type InputOf, isSchema, type OutputOf, type StandardSchema } from './schema.ts';

export { ConfigurationError } from '../core/errors.ts';
export type { Json } from '../core/job.ts';
export type { StandardSchema } from './schema.ts';

/**
 * The part of a job definition without type parameters, so that a declaration gives the compiler no hint about them.
 */
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
  /** Returns the fairness key of a job, from its payload. It is not used if the request names one. */
  readonly fairnessKey?: ((payload: Payload) => string) | undefined;
  /** Returns the resource of a job, from its payload. It is not used if the request names one. */
  readonly resourceId?: ((payload: Payload) => string) | undefined;
  /** Returns further keys of a job by their names, from its payload. It is not used if the request names some. */
  readonly keys?: ((payload: Payload) => JobKeys) | undefined;
  /** The units of a job by the names of limits, each from its payload; a request that names some has those. */
  readonly units?: Readonly<Record<string, (payload: Payload) => number>> | undefined;
  /** How a job is deduplicated, from its payload; a request that says it has that. */
  readonly dedupe?: ((payload: Payload) => DedupeInput) | undefined;
  /** The types, for the compiler alone; no value is ever there. */
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

/** The sentence that the compiler's message shows for a type whose values JSON cannot hold. */
type NotJson =
  | { readonly kind: Date; readonly says: 'JSON holds no Date: send its text' }
  | { readonly kind: bigint; readonly says: 'JSON holds no bigint: send its text' }
  | { readonly kind: symbol; readonly says: 'JSON holds no symbol: send its text' }
  | {
      readonly kind: ReadonlyMap<unknown, unknown>;
      readonly says: 'JSON holds no Map: send an object or a list';
    }
  | { readonly kind: ReadonlySet<unknown>; readonly says: 'JSON holds no Set: send a list' }
  | { readonly kind: (...given: never) => unknown; readonly says: 'JSON holds no function' };

type SaysOf<Value> = NotJson extends infer Each
  ? Each extends { readonly kind: infer Kind; readonly says: infer Says }
    ? Value extends Kind
      ? Says
      : never
    : never
  : never;

/** The type itself, if JSON can hold its values. A part that JSON cannot hold is replaced by a sentence that says so. */
type JsonOf<Value> = unknown extends Value
  ? Value
  : Value extends Json | undefined
    ? Value
    : [SaysOf<Value>] extends [never]
      ? { [Key in keyof Value]: FieldOf<Value[Key]> }
      : SaysOf<Value>;

/** A type that a payload's schema must have in addition to its own, so that a payload which JSON cannot hold does not compile. */
type Accepting<Sent> = [Sent] extends [JsonOf<Sent>] ? unknown : JsonOf<Sent>;

type FieldOf<Value> = [Value] extends [undefined]
  ? [Value] extends [never]
    ? Value
    : 'JSON holds no undefined: leave the field out'
  : JsonOf<Value>;

interface KeyOptions<Payload> {
  /** The fairness key of a job, from its payload: the customer whose share it counts against. @default - the empty key */
  readonly fairnessKey?: ((payload: Payload) => string) | undefined;
  /** The resource that a job works on, from its payload. @default - none */
  readonly resourceId?: ((payload: Payload) => string) | undefined;
  /** Further keys by their names, from the payload, for limits that are declared with `keyedBy`. @default - none */
  readonly keys?: ((payload: Payload) => JobKeys) | undefined;
  /** The units of a job by the names of limits whose rates count units, such as `{ openai: (p) => p.tokens }`. @default - none */
  readonly units?: Readonly<Record<string, (payload: Payload) => number>> | undefined;
  /** How a job is deduplicated, from its payload, such as `(p) => ({ key: p.account, quiet: '5s' })`. @default - each request makes a job */
  readonly dedupe?: ((payload: Payload) => DedupeInput) | undefined;
}

interface SchemaOptions<PayloadSchema extends AnySchema, ResultSchema extends AnySchema>
  extends KeyOptions<OutputOf<PayloadSchema>> {
  /** A schema of the payload, from any library that follows Standard Schema. It accepts JSON. */
  readonly payload: PayloadSchema & Accepting<InputOf<PayloadSchema>>;
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
  dedupe: isFunction,
  keys: isFunction,
  units: recordOf(isFunction),
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
 * Declares a job type by types alone, which only the compiler checks. The payload is JSON.
 *
 * @example job<{ month: number }, { url: string }>()
 * @throws ConfigurationError - an option is wrong
 */
export function job<
  Payload extends { [Key in keyof Payload]: FieldOf<Payload[Key]> } | null | undefined,
  Result = unknown,
>(options?: KeyOptions<Payload>): JobDefinition<Payload, Payload, Result, Result>;
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

/** The most names in a message: more would hide the one that is wrong. */
const NAMES_SHOWN = 10;

/**
 * Some of the declared types: those that one fleet serves.
 *
 * @example worker(only(jobs, 'thumbnail'), { thumbnail: async (payload) => ({ width: 640 }) })
 * @throws ConfigurationError - a name is not declared
 */
// `keyof Declared & string` has no name here: the compiler's message shows the names, and not all that is declared.
export function only<Declared extends Jobs, Type extends keyof Declared & string>(
  jobs: Declared,
  ...types: readonly Type[]
): Pick<Declared, Type> {
  const declared = new Map(readDefinitions(jobs));
  return Object.freeze(
    Object.fromEntries(
      types.map((type) => {
        const definition = declared.get(type);
        if (definition !== undefined) return [type, definition];
        const known = [...declared.keys()];
        const wayOut = didYouMean(type, known) || `Declared are: ${known.slice(0, NAMES_SHOWN).join(', ')}.`;
        throw new ConfigurationError('types', type, 'is not a declared job type', wayOut.trim());
      }),
    ),
  ) as Pick<Declared, Type>;
}

export const isDefinition = (value: unknown): value is AnyJobDefinition =>
  typeof value === 'object' && value !== null && (value as Partial<AnyJobDefinition>).kind === 'job';

/** Returns the entries of declared jobs, checked. @throws ConfigurationError */
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
