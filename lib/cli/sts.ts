/** The requests of the command line to STS: the identity behind the AWS credentials, and the credentials of a role. */
import type { DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { MisconfiguredError } from '../core/errors.ts';

type Credentials = DynamoDBClientConfig['credentials'];

const TIMEOUT_MS = 3_000;
const VERSION = '2011-06-15';

/**
 * Sends a request to STS, and returns its answer's status and text. The SDK's client for STS would be another dependency of every
 * installation.
 *
 * @throws if there are no credentials, or STS does not answer
 */
async function askSts(
  form: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
  credentials?: Credentials,
): Promise<{ readonly isDone: boolean; readonly text: string }> {
  const { signedFetch } = await import('../client/signing.ts');
  const signed = signedFetch('sts', { credentials });
  try {
    const region = await signed.region();
    const suffix = region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
    const { AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL } = environment;
    const url = AWS_ENDPOINT_URL_STS ?? AWS_ENDPOINT_URL ?? `https://sts.${region}.${suffix}/`;
    const response = await signed.fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8' },
      body: String(new URLSearchParams({ ...form, Version: VERSION })),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { isDone: response.ok, text: await response.text() };
  } finally {
    signed.destroy();
  }
}

const valueIn = (xml: string, name: string): string | undefined =>
  new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1];

/**
 * The ARN of the caller, which AWS vouches for; undefined if STS does not answer. Any credentials may ask for it: no
 * policy can forbid it.
 */
export async function callerArn(
  credentials?: Credentials,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<string | undefined> {
  try {
    const { text } = await askSts({ Action: 'GetCallerIdentity' }, environment, credentials);
    return valueIn(text, 'Arn');
  } catch {
    // The caller falls back to the name of the user, and says so.
    return undefined;
  }
}

/** How long credentials of a role are asked for: as long as any role allows. The SDK asks again before they end. */
const ROLE_SEC = 3_600;
/** Characters that a session's name may not have. */
const NOT_IN_SESSIONS = /[^\w+=,.@-]/g;
const SESSION_CHARS_MAX = 64;

/**
 * A provider of a role's credentials, which are asked for with those of the environment. `name` stands in the ARN of the session, and so in
 * the role's log of calls.
 */
export const roleCredentials =
  (
    role: string,
    name: string,
    environment: Readonly<Record<string, string | undefined>> = process.env,
  ): Extract<Credentials, (...given: never) => unknown> =>
  async () => {
    const asked = { Action: 'AssumeRole', RoleArn: role, DurationSeconds: String(ROLE_SEC) };
    const session = name.replace(NOT_IN_SESSIONS, '-').slice(0, SESSION_CHARS_MAX).padEnd(2, '-');
    const { isDone, text } = await askSts({ ...asked, RoleSessionName: session }, environment);
    const [accessKeyId, secretAccessKey, sessionToken, expiration] = [
      'AccessKeyId',
      'SecretAccessKey',
      'SessionToken',
      'Expiration',
    ].map((each) => valueIn(text, each));
    if (!isDone || accessKeyId === undefined || secretAccessKey === undefined)
      throw new MisconfiguredError(
        `the role ${role} cannot be assumed (${valueIn(text, 'Message') ?? 'STS gave no reason'}); check its ARN, and that its trust policy and your rights allow sts:AssumeRole`,
      );
    return {
      accessKeyId,
      secretAccessKey,
      ...(sessionToken === undefined ? {} : { sessionToken }),
      ...(expiration === undefined ? {} : { expiration: new Date(expiration) }),
    };
  };
