/** Objects in a bucket of S3. The SDK is loaded with the first object: most processes never meet one. */
import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3';
import {
  MisconfiguredError,
  RefusedError,
  reasonOf,
  regionMissing,
  UnavailableError,
} from '../../core/errors.ts';
import type { ObjectPage, ObjectStore } from '../contract.ts';

interface Loaded {
  readonly sdk: typeof import('@aws-sdk/client-s3');
  readonly client: S3Client;
}

export interface S3ObjectStoreOptions {
  readonly bucket: string;
  readonly client?: S3ClientConfig | undefined;
}

/** An object of some MB takes seconds over a slow line. */
const REQUESTS = {
  maxAttempts: 4,
  requestHandler: { connectionTimeout: 2_000, requestTimeout: 60_000, throwOnRequestTimeout: true },
} as const satisfies S3ClientConfig;

/** Errors about the bucket, its policy or the caller's rights. */
const MISCONFIGURATIONS: ReadonlySet<string> = new Set([
  'NoSuchBucket',
  'AccessDenied',
  'InvalidAccessKeyId',
  'ExpiredToken',
  'CredentialsProviderError',
  'PermanentRedirect',
]);

export class S3ObjectStore implements ObjectStore {
  readonly #options: S3ObjectStoreOptions;
  #loaded: Promise<Loaded> | undefined;

  constructor(options: S3ObjectStoreOptions) {
    this.#options = options;
  }

  async put({ key, text }: Parameters<ObjectStore['put']>[0]): Promise<void> {
    await this.#ask('put', ({ sdk, client }) =>
      client.send(
        new sdk.PutObjectCommand({
          Bucket: this.#options.bucket,
          Key: key,
          Body: text,
          ContentType: 'application/json',
        }),
      ),
    );
  }

  async get(key: string): Promise<string | undefined> {
    return this.#ask('get', async ({ sdk, client }) => {
      try {
        const { Body } = await client.send(
          new sdk.GetObjectCommand({ Bucket: this.#options.bucket, Key: key }),
        );
        return (await Body?.transformToString()) ?? '';
      } catch (error) {
        if (error instanceof sdk.NoSuchKey) return undefined;
        throw error;
      }
    });
  }

  async delete(keys: readonly string[]): Promise<void> {
    if (keys.length === 0) return;
    const { Errors = [] } = await this.#ask('delete', ({ sdk, client }) =>
      client.send(
        new sdk.DeleteObjectsCommand({
          Bucket: this.#options.bucket,
          Delete: { Objects: keys.map((Key) => ({ Key })), Quiet: true },
        }),
      ),
    );
    const [first] = Errors;
    if (first === undefined) return;
    const cause = Object.assign(new Error(first.Message ?? first.Key), { name: first.Code ?? 'Unknown' });
    throw this.#translated(cause, 'delete');
  }

  async list({ prefix, after }: Parameters<ObjectStore['list']>[0]): Promise<ObjectPage> {
    const { Contents = [], IsTruncated = false } = await this.#ask('list', ({ sdk, client }) =>
      client.send(
        new sdk.ListObjectsV2Command({ Bucket: this.#options.bucket, Prefix: prefix, StartAfter: after }),
      ),
    );
    const keys = Contents.flatMap(({ Key }) => (Key === undefined ? [] : [Key]));
    return IsTruncated ? { keys, next: keys.at(-1) } : { keys };
  }

  /** Closes the connections, if any were made. */
  async destroy(): Promise<void> {
    (await this.#loaded)?.client.destroy();
  }

  async #ask<Answer>(verb: string, request: (loaded: Loaded) => Promise<Answer>): Promise<Answer> {
    this.#loaded ??= this.#load();
    const loaded = await this.#loaded;
    try {
      return await request(loaded);
    } catch (error) {
      throw this.#translated(error, verb);
    }
  }

  async #load(): Promise<Loaded> {
    const sdk = await import('@aws-sdk/client-s3').catch((cause: unknown) => {
      throw new MisconfiguredError(
        'the package @aws-sdk/client-s3, by which values over 64 KB are read and written, is not in this bundle; bundle it',
        { cause },
      );
    });
    return { sdk, client: new sdk.S3Client({ ...REQUESTS, ...this.#options.client }) };
  }

  /** An error of S3 as one of ours. */
  #translated(error: unknown, verb: string): Error {
    const name = error instanceof Error ? error.name : '';
    const message = reasonOf(error);
    const options = { cause: error };
    const withoutRegion = regionMissing(error, verb);
    if (withoutRegion !== undefined) return withoutRegion;
    const { bucket } = this.#options;
    if (MISCONFIGURATIONS.has(name))
      return new MisconfiguredError(
        `${verb}: bucket ${bucket} cannot be used (${name}: ${message}); check that the stack is deployed here and grants this role its actions`,
        options,
      );
    const { $metadata } = (error ?? {}) as { readonly $metadata?: { readonly httpStatusCode?: number } };
    const status = $metadata?.httpStatusCode ?? 0;
    if (status >= 400 && status < 500 && status !== 408 && status !== 429)
      return new RefusedError(
        `${verb}: bucket ${bucket} refuses the request (${name}: ${message}); correct it`,
        options,
      );
    return new UnavailableError(
      `${verb}: no answer from bucket ${bucket} (${name}: ${message}); repeat it`,
      options,
    );
  }
}
