/** Types of the arguments and answers of a client's verbs, from its declared job types. */
import type { Json } from '../core/job.ts';
import type { Jobs, ResultOf, SentOf } from '../jobs/jobs.ts';
import type { ScheduleRequest } from '../schedules/request.ts';
import type { SubmitFields } from './submissions.ts';

// `keyof Declared & string` has no name of its own here: a message of the compiler would show the name with all that is
// declared, instead of the names of the types.

/** The types whose payload may be left out. */
type TypeWithoutPayload<Declared extends Jobs> = {
  [Type in keyof Declared & string]: undefined extends SentOf<Declared[Type]>
    ? Type
    : null extends SentOf<Declared[Type]>
      ? Type
      : never;
}[keyof Declared & string];

type PayloadField<Sent> = undefined extends Sent
  ? { readonly payload?: Sent }
  : null extends Sent
    ? { readonly payload?: Sent }
    : { readonly payload: Sent };

/** One job to submit: a request of one of the declared types. */
export type TypedRequest<
  Declared extends Jobs,
  Type extends keyof Declared & string = keyof Declared & string,
> = {
  [Name in Type]: SubmitFields & { readonly type: Name } & PayloadField<SentOf<Declared[Name]>>;
}[Type];

/** A schedule whose jobs are of one of the declared types. */
export type TypedSchedule<Declared extends Jobs> = {
  [Name in keyof Declared & string]: Omit<ScheduleRequest, 'type' | 'payload'> & {
    readonly type: Name;
  } & (
      | PayloadField<SentOf<Declared[Name]>>
      | { readonly payload?: never; readonly payloadTemplate: NonNullable<unknown> }
    );
}[keyof Declared & string];

/**
 * The name of a type as the only argument of `submit` and `run`, if its payload may be left out; otherwise a sentence that
 * the compiler's message shows.
 */
export type NameAlone<Declared extends Jobs, Type extends keyof Declared & string> =
  Type extends TypeWithoutPayload<Declared>
    ? Type
    : `${Type} needs a payload: give it as the second argument`;

/**
 * The first of several arguments of `submit` and `run`. A wrong name is compared with the names alone, so
 * that the compiler's message shows these and nothing else.
 */
export type Asked<
  Declared extends Jobs,
  Type extends keyof Declared & string,
  Given,
> = Given extends keyof Declared & string
  ? Given
  : Given extends string
    ? keyof Declared & string
    : TypedRequest<Declared, Type>;

/** The second argument: the payload after a name, the options after a request. */
export type PayloadOrOptions<Declared extends Jobs, Given, Options> = [Given] extends [
  keyof Declared & string,
]
  ? SentAs<Declared, Given>
  : Given extends string
    ? unknown
    : Options | undefined;

/** The payload that each of the types accepts: if a name may be one of several, the payload has to fit all of them. */
type SentAs<Declared extends Jobs, Type extends keyof Declared> = {
  [Each in Type]: (payload: SentOf<Declared[Each]>) => void;
}[Type] extends (payload: infer Sent) => void
  ? Sent
  : never;

/** The type that a name or a request names. */
export type TypeNamed<Given> = Given extends { readonly type: infer Type } ? Type : Given;

/** The result of a declared type; of an untyped client, any JSON. */
export type ResultIn<Declared extends Jobs, Type> = Type extends keyof Declared & string
  ? string extends keyof Declared & string
    ? Json | undefined
    : ResultOf<Declared[Type]>
  : never;
