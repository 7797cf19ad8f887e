/**
 * Schemas of any library that follows Standard Schema (https://standardschema.dev), such as zod, valibot and arktype.
 * This file describes the part of it that jobs use; no library is needed.
 */
import { textOf } from '../core/errors.ts';

/** A schema. `Input` is what it accepts, `Output` what it makes of that. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaAnswer<Output> | Promise<SchemaAnswer<Output>>;
    /** The types, for the compiler alone. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type SchemaAnswer<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

interface SchemaIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: any schema is one, whatever it accepts
export type AnySchema = StandardSchema<any, any>;
export type InputOf<Schema extends AnySchema> = NonNullable<Schema['~standard']['types']>['input'];
export type OutputOf<Schema extends AnySchema> = NonNullable<Schema['~standard']['types']>['output'];

export const isSchema = (value: unknown): value is AnySchema =>
  ((typeof value === 'object' && value !== null) || typeof value === 'function') &&
  typeof (value as Partial<AnySchema>)['~standard']?.validate === 'function';

/**
 * The result of a check: the value as the schema reads it, or the first issue, with the path of the wrong part and what
 * is wrong with it.
 */
export type Checked =
  | { readonly kind: 'accepted'; readonly value: unknown }
  | { readonly kind: 'refused'; readonly path: string; readonly reason: string };

/**
 * Checks a copy of a value by its schema, which may change what it is given; without a schema every value is accepted. A
 * schema that throws refuses the value. JSON keeps no difference between nothing and null, so a schema that refuses
 * undefined is given null, and the other way round: producers and workers come to the same answer.
 *
 * @param name - the name of the value, with which the path of a refusal begins, such as `payload`
 */
export async function checkBySchema(
  schema: AnySchema | undefined,
  value: unknown,
  name: string,
): Promise<Checked> {
  if (schema === undefined) return { kind: 'accepted', value };
  if (value !== undefined && value !== null) return checkOne(schema, structuredClone(value), name);
  const checked = await checkOne(schema, undefined, name);
  return checked.kind === 'accepted' ? checked : checkOne(schema, null, name);
}

async function checkOne(schema: AnySchema, value: unknown, name: string): Promise<Checked> {
  try {
    const answer = await schema['~standard'].validate(value);
    // Standard Schema: an answer with issues is a refusal, even if the schema names none.
    if (answer.issues === undefined) return { kind: 'accepted', value: answer.value };
    const { path = [], message = 'its schema refuses it' } = answer.issues[0] ?? {};
    return { kind: 'refused', path: pathOf(name, path), reason: String(message) };
  } catch (error) {
    return { kind: 'refused', path: name, reason: `its schema threw ${textOf(error)}` };
  }
}

function pathOf(name: string, path: NonNullable<SchemaIssue['path']>): string {
  return path.reduce<string>((at, step) => {
    const key = typeof step === 'object' ? step.key : step;
    return typeof key === 'number' ? `${at}[${key}]` : `${at}.${String(key)}`;
  }, name);
}

/** A schema that describes itself as JSON Schema, by the extension of Standard Schema for that. */
interface SelfDescribing {
  readonly '~standard': {
    readonly jsonSchema?: {
      readonly input?: ((options: { readonly target: string }) => unknown) | undefined;
    };
  };
}

/**
 * Returns the schema as a JSON Schema (draft 2020-12) of what it accepts; undefined if its library has none, or if a
 * part of it cannot be described so.
 */
export function jsonSchemaOf(schema: AnySchema): unknown {
  const { jsonSchema } = (schema as unknown as SelfDescribing)['~standard'];
  try {
    return jsonSchema?.input?.({ target: 'draft-2020-12' });
  } catch {
    return undefined;
  }
}
