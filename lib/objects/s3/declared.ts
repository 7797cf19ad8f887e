/** The bucket that the declaration names, for processes that read it. */
import type { S3ClientConfig } from '@aws-sdk/client-s3';
import type { Clock } from '../../runtime/contract.ts';
import type { ObjectStore } from '../contract.ts';
import { LargeValues } from '../large-values.ts';
import { S3ObjectStore } from './objects.ts';

/** Settings of a client. A custom endpoint, such as LocalStack's, serves no bucket by its host's name. */
export const s3Settings = (
  environment: Readonly<Record<string, string | undefined>>,
  client: S3ClientConfig = {},
): S3ClientConfig => ({
  forcePathStyle: (client.endpoint ?? environment.AWS_ENDPOINT_URL) !== undefined,
  ...client,
});

export interface DeclaredBucketOptions {
  /** The name of the bucket that is declared now; undefined if there is none. @param again - a newer declaration may have one */
  readonly bucket: (again: boolean) => Promise<string | undefined>;
  readonly clock: Pick<Clock, 'nowMs'>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** @default - the environment's */
  readonly client?: S3ClientConfig | undefined;
}

export interface DeclaredBucket {
  readonly large: LargeValues;
  readonly destroy: () => void;
}

/** Values in the declared bucket. Nothing is read, and no SDK is loaded, before the first one. */
export function declaredBucket({
  bucket,
  clock,
  environment,
  client = {},
}: DeclaredBucketOptions): DeclaredBucket {
  const settings = s3Settings(environment, client);
  const stores = new Map<string, S3ObjectStore>();
  const open = async (again: boolean): Promise<ObjectStore | undefined> => {
    const name = await bucket(again);
    if (name === undefined) return undefined;
    const store = stores.get(name) ?? new S3ObjectStore({ bucket: name, client: settings });
    stores.set(name, store);
    return store;
  };
  return {
    large: new LargeValues({ open, nowMs: clock.nowMs }),
    destroy: () => {
      for (const store of stores.values()) void store.destroy();
    },
  };
}
