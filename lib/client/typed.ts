/** What the compiler knows of a client's verbs from its declared job types. */
import type { Json } from '../core/job.ts';
import type { Jobs, ResultOf, SentOf } from '../jobs/jobs.ts';
import type { ScheduleRequest } from '../schedules/request.ts';
import type { SubmitFields } from './submissions.ts';

type NameIn<Declared extends Jobs> = keyof Declared & string;

/** The types whose payload may be left out. */
type TypeWithoutPayload<Declared extends Jobs> = {
  [Type in NameIn<Declared>]: undefined extends SentOf<Declared[Type]>
    ? Type
    : null extends SentOf<Declared[Type]>
      ? Type
      : never;
}[NameIn<Declared>];

type PayloadField<Sent> = undefined extends Sent
  ? { readonly payload?: Sent }
  : null extends Sent
    ? { readonly payload?: Sent }
    : { readonly payload: Sent };

/** One job to submit: a request of one of the declared types. */
export type TypedRequest<Declared extends Jobs, Type extends NameIn<Declared> = NameIn<Declared>> = {
  [Name in Type]: SubmitFields & { readonly type: Name } & PayloadField<SentOf<Declared[Name]>>;
}[Type];

/** A schedule whose jobs are of one of the declared types. */
export type TypedSchedule<Declared extends Jobs> = {
  [Name in NameIn<Declared>]: Omit<ScheduleRequest, 'type' | 'payload'> & {
    readonly type: Name;
    readonly payload?: SentOf<Declared[Name]>;
  };
}[NameIn<Declared>];

declare const missing: unique symbol;
/** Stands in the compiler's message about a call that names a type, and has no payload. */
interface PayloadIsMissing<Type> {
  readonly [missing]: Type;
}

/**
 * What `submit` and `run` accept as their only argument: a request, or the name of a type whose payload may be left out.
 */
export type AskedAlone<Declared extends Jobs, Type extends NameIn<Declared>> =
  | TypedRequest<Declared, Type>
  | (Type extends TypeWithoutPayload<Declared> ? Type : PayloadIsMissing<Type>);

/**
 * What `submit` and `run` accept as the first of several arguments. A wrong name is compared with the names alone, so
 * that the compiler's message shows these and nothing else.
 */
export type Asked<Declared extends Jobs, Type extends NameIn<Declared>, Given> =
  Given extends NameIn<Declared>
    ? Given
    : Given extends string
      ? NameIn<Declared>
      : TypedRequest<Declared, Type>;

/** The second argument: the payload after a name, the options after a request. */
export type PayloadOrOptions<Declared extends Jobs, Given, Options> =
  Given extends NameIn<Declared>
    ? SentOf<Declared[Given]>
    : Given extends string
      ? unknown
      : Options | undefined;

/** The type that a name or a request names. */
export type TypeNamed<Given> = Given extends { readonly type: infer Type } ? Type : Given;

/** The result of a declared type; of an untyped client, any JSON. */
export type ResultIn<Declared extends Jobs, Type> =
  Type extends NameIn<Declared>
    ? string extends NameIn<Declared>
      ? Json | undefined
      : ResultOf<Declared[Type]>
    : never;
