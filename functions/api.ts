/** The API function: the HTTP protocol behind a function URL for each role, whose callers IAM has named. */
import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { handle, type LambdaEvent } from 'hono/aws-lambda';
import { SchedulerClient } from '../lib/client/aws.ts';
import { API_ROLES, type ApiRole } from '../lib/core/api-roles.ts';
import { ACTOR_BYTES_MAX } from '../lib/core/history.ts';
import { type ClientVerbs, httpApp } from '../lib/http/app.ts';
import { PROBLEM_TYPE, plainProblem } from '../lib/http/problem.ts';
import { lambdaEntry } from '../lib/runtime/lambda.ts';

/** A request of a function URL whose caller has signed it. */
interface SignedEvent extends APIGatewayProxyEventV2 {
  readonly requestContext: APIGatewayProxyEventV2['requestContext'] & {
    readonly authorizer?: { readonly iam?: { readonly userArn?: string } };
  };
}

/** The most bytes of the answer of a function, as JSON. Beyond it, Lambda fails the call and the caller learns nothing. */
const ANSWER_BYTES_MAX = 6_291_556;

/** Returns the caller as IAM knows it: the end of its ARN, such as `assumed-role/operators/ada`. */
const callerOf = ({ requestContext }: SignedEvent): string =>
  (requestContext.authorizer?.iam?.userArn ?? 'unknown')
    .split(':')
    .slice(5)
    .join(':')
    .slice(-ACTOR_BYTES_MAX) || 'unknown';

/** The role of the URL: the alias by which the function was invoked. An invocation by another way may only look. */
const roleOf = ({ invokedFunctionArn }: Pick<Context, 'invokedFunctionArn'>): ApiRole => {
  const alias = invokedFunctionArn.split(':').at(7);
  return API_ROLES.find((each) => each === alias) ?? 'read';
};

export const serving = (client: () => ClientVerbs, onError: (error: unknown) => void) => {
  const apps = new Map<ApiRole, ReturnType<typeof handle>>();
  return async (
    event: SignedEvent,
    context: Context,
  ): Promise<Awaited<ReturnType<ReturnType<typeof handle>>>> => {
    const who: NonNullable<Parameters<typeof httpApp>[0]['who']> = ({ env }) =>
      callerOf((env as { readonly event: SignedEvent }).event);
    const role = roleOf(context);
    const answer = apps.get(role) ?? handle(httpApp({ client: client(), role, onError, who }));
    apps.set(role, answer);
    const answered = await answer(event as unknown as LambdaEvent, context as never);
    const bytes = Buffer.byteLength(JSON.stringify(answered));
    if (bytes <= ANSWER_BYTES_MAX) return answered;
    const problem = plainProblem(
      413,
      `the answer has ${bytes} bytes, and a function URL lets ${ANSWER_BYTES_MAX} through; ask for references=true, or use a client of the table`,
    );
    return {
      ...answered,
      statusCode: 413,
      headers: { 'content-type': PROBLEM_TYPE },
      body: JSON.stringify(problem),
    };
  };
};

const { log, wrap } = lambdaEntry();
export const handler = wrap(
  serving(
    () => SchedulerClient.fromEnvironment(),
    (error) => log.error('a request failed', { error: String(error) }),
  ),
);
