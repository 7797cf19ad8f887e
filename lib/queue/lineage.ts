/**
 * Lambda ends a function that it takes for part of a loop: after some 16 invocations that the X-Ray header of their requests counts as one
 * chain (Lambda's guide, "Recursive loop detection"). A job whose handler submits another job would begin such a chain, through the wake,
 * the dispatch function and the fleet's queue, though the jobs may have nothing to do with each other.
 *
 * What these clients send only hints that there is something to do, so it carries no header, and each message begins a chain of its own.
 */

/** As each of the SDK's clients has one. */
interface SdkClient {
  readonly middlewareStack: { remove(name: string): boolean };
}

/** What puts the header into the requests of a function. */
const MIDDLEWARE = 'recursionDetectionMiddleware';

/** The same client, whose requests carry no X-Ray header from now on. */
export function withoutLineage<Client extends SdkClient>(client: Client): Client {
  client.middlewareStack.remove(MIDDLEWARE);
  return client;
}
