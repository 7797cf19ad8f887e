/**
 * Lambda stops a function that it takes for part of a loop: after some 16 invocations that the X-Ray header of their
 * requests counts as one chain (Lambda's guide, "Recursive loop detection"). A job whose handler submits another job
 * would begin such a chain, through the wake, the dispatch function and the fleet's queue, even if the jobs have
 * nothing to do with each other.
 *
 * The messages of these clients are only hints, so they carry no such header, and each begins a chain of its own.
 */

/** The part that all clients of the AWS SDK have. */
interface SdkClient {
  readonly middlewareStack: { remove(name: string): boolean };
}

/** The SDK's middleware that adds the header to a function's requests. */
const MIDDLEWARE = 'recursionDetectionMiddleware';

/** Returns the same client. Its requests carry no X-Ray header from now on. */
export function withoutTraceHeader<Client extends SdkClient>(client: Client): Client {
  client.middlewareStack.remove(MIDDLEWARE);
  return client;
}
