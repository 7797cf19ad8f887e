/** Requests to AWS by `fetch`, signed with Signature Version 4 by the signer of the AWS SDK. */
import { DynamoDBClient, type DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import type { Fetch } from './remote.ts';

/** The identity that signs. Settings that are left out come from the environment, as with any AWS SDK client. */
export interface SigningIdentity {
  readonly region?: string | undefined;
  readonly credentials?: DynamoDBClientConfig['credentials'];
}

export interface SignedFetch {
  readonly fetch: Fetch;
  readonly region: () => Promise<string>;
  readonly destroy: () => void;
}

/**
 * A `fetch` that signs. Bodies must be text.
 *
 * @param service - as signatures name it, such as `lambda`
 */
export function signedFetch(service: string, { region, credentials }: SigningIdentity = {}): SignedFetch {
  // Any client of the SDK has the signer. This one sends nothing, and keeps the credentials fresh.
  const client = new DynamoDBClient({
    ...(region === undefined ? {} : { region }),
    ...(credentials === undefined ? {} : { credentials }),
  });
  return {
    region: () => client.config.region(),
    destroy: () => client.destroy(),
    fetch: async (url, init) => {
      const { hostname, host, port, protocol, pathname, searchParams } = new URL(url);
      const signer = await client.config.signer({
        name: 'sigv4',
        signingName: service,
        signingRegion: await client.config.region(),
        properties: {},
      });
      const names = [...new Set(searchParams.keys())];
      const { headers } = await signer.sign({
        method: init.method ?? 'GET',
        protocol,
        hostname,
        ...(port === '' ? {} : { port: Number(port) }),
        path: pathname,
        query: Object.fromEntries(names.map((name) => [name, searchParams.getAll(name)])),
        headers: { ...Object.fromEntries(new Headers(init.headers)), host },
        body: init.body,
      });
      const { host: _host, ...sent } = headers;
      return fetch(url, { ...init, headers: sent });
    },
  };
}

const FUNCTION_URL = /\.lambda-url\.([a-z0-9-]+)\.on\.aws$/;

/** The region of a function URL; undefined for another address. */
export const regionOfFunctionUrl = (url: string): string | undefined =>
  URL.canParse(url) ? FUNCTION_URL.exec(new URL(url).hostname)?.[1] : undefined;
