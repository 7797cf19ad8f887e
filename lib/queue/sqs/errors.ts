/** Turns errors of SQS into errors of the queue contract. */
import {
  MisconfiguredError,
  RefusedError,
  reasonOf,
  regionMissing,
  UnavailableError,
} from '../../core/errors.ts';

const MISCONFIGURATIONS: ReadonlySet<string> = new Set([
  'QueueDoesNotExist',
  'AWS.SimpleQueueService.NonExistentQueue',
  'InvalidAddress',
  'AccessDenied',
  'AccessDeniedException',
  'InvalidClientTokenId',
  'UnrecognizedClientException',
  'ExpiredToken',
  'ExpiredTokenException',
  'CredentialsProviderError',
]);

const THROTTLES: ReadonlySet<string> = new Set(['RequestThrottled', 'ThrottlingException', 'OverLimit']);

/** Returns an error of SQS as one of ours. */
export function translated(error: unknown, verb: string, queueUrl: string): Error {
  const name = error instanceof Error ? error.name : '';
  const message = reasonOf(error);
  const options = { cause: error };
  const withoutRegion = regionMissing(error, verb);
  if (withoutRegion !== undefined) return withoutRegion;
  if (MISCONFIGURATIONS.has(name)) {
    return new MisconfiguredError(
      `${verb}: queue ${queueUrl} cannot be used (${name}: ${message}); check that the stack is deployed here and grants this role its actions`,
      options,
    );
  }
  const { $metadata } = (error ?? {}) as { readonly $metadata?: { readonly httpStatusCode?: number } };
  const status = $metadata?.httpStatusCode ?? 0;
  if (status >= 400 && status < 500 && status !== 429 && !THROTTLES.has(name)) {
    return new RefusedError(
      `${verb}: queue ${queueUrl} refuses the request (${name}: ${message}); correct it`,
      options,
    );
  }
  return new UnavailableError(
    `${verb}: no answer from queue ${queueUrl} (${name}: ${message}); repeat it`,
    options,
  );
}
